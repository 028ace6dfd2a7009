"""The file of hits: what is written of the best molecules, and how it is known again."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daskrf.drivers.sources import Source
from daskrf.errors import InputError
from daskrf.paths import readable
from daskrf.stores.checked import DAMAGE
from daskrf.stores.files import atomic_path, file_errors, remove_stale
from daskrf.stores.fingerprints import write_parquet

__all__ = ["described", "search_of", "write_hits", "write_rejects"]

_MARK = b"daskrf"  # key of the metadata by which a file of hits is known
_SEARCH = b"daskrf.search"  # key of the hash of what the hits depend on


def search_of(output: Path) -> str | None:
    """Refuse to write over anything but hits; return the hash of the search that made those at `output`.

    The rejects of SMILES files may come beside them, over those of an earlier search.
    """
    earlier = [_search_of(path) for path in (_rejects_path(output), output)]
    return earlier[1]


def _search_of(path: Path) -> str | None:
    with file_errors("write", path):
        if not path.exists():
            return None
        known: dict[bytes, bytes] = {}
        if path.is_file():
            with suppress(OSError, pa.ArrowException, MemoryError, *DAMAGE):
                known = pq.read_schema(readable(path)).metadata or {}
    if _MARK not in known:
        raise InputError(f"{path} is there already and holds no hits of daskrf; give another output path.")
    return known.get(_SEARCH, b"").decode(errors="replace")


def _rejects_path(output: Path) -> Path:
    return output.with_name(f"{output.name.removesuffix('.parquet')}.rejects.parquet")


def write_hits(table: pa.Table, output: Path, search: str) -> None:
    """Write a table of hits or rejects; `search` is the hash of what they depend on."""
    metadata = {_MARK: b"hits", _SEARCH: search.encode()}
    remove_stale(output.parent, output.name)  # of a run that was killed here
    with file_errors("write", output), atomic_path(output) as temporary:
        write_parquet(table.replace_schema_metadata(metadata), temporary)


def write_rejects(features: Source, output: Path, search: str) -> tuple[int, Path | None]:
    """Save the rejects of SMILES files beside `output`; return how many there are, and where."""
    path = _rejects_path(output)
    tables = [features.rejects(p) for p in range(len(features.partition_rows))]
    table = pa.concat_tables(tables).unify_dictionaries()
    if not table.num_rows:
        path.unlink(missing_ok=True)
        return 0, None
    write_hits(table, path, search)
    return table.num_rows, path


def described(features: Source, columns: dict[str, Any]) -> pa.Table:
    """Add rank, id, smiles, source file and line to the hits."""
    rows = columns["row"]
    bounds = np.concatenate([[0], np.cumsum(features.partition_rows)])
    partition = np.searchsorted(bounds, rows, side="right") - 1
    tables = [features.describe(int(p), np.sort(rows[partition == p])) for p in np.unique(partition)]
    tables = tables or [features.describe(0, rows)]  # no hits: the columns all the same
    table = pa.table({"rank": np.arange(1, len(rows) + 1), "row": rows})
    found = pa.concat_tables(tables).unify_dictionaries()
    order = np.searchsorted(found["row"].to_numpy(), rows)  # tables come by partition, rows within ascend
    for name in ("id", "smiles", "source", "line"):
        table = table.append_column(name, found[name].take(pa.array(order)))
    for name in ("mean", "std", "std_y", "acquisition"):
        if name in columns:
            table = table.append_column(name, pa.array(columns[name]))
    return table
