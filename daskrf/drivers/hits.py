"""The file of hits: what is written of the best molecules, and how it is known again."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daskrf.drivers.sources import Source
from daskrf.errors import InputError, StoreError
from daskrf.paths import readable
from daskrf.stores.checked import DAMAGE
from daskrf.stores.files import atomic_path, file_errors, remove_stale
from daskrf.stores.fingerprints import write_parquet
from daskrf.stores.plans import differences, hash_of

__all__ = ["Earlier", "described", "earlier_hits", "read_hits", "rejects_of", "write_hits", "write_rejects"]

_MARK = b"daskrf"  # key of the metadata by which a file of hits is known
_SEARCH = b"daskrf.search"  # key of the hash of what the hits depend on
_ABOUT = b"daskrf.about"  # key of what the hits depend on, and of what was found, as JSON
_KNOWN = {"model", "source", "acquisition", "target", "direction", "rows", "rejected", "notes"}  # of any hits


@dataclass(frozen=True)
class Earlier:
    """Hits that are there already.

    Attributes
    ----------
    path : Path
    search : str
        Hash of what they depend on.
    about : dict
        What that is, and more that is known of them; empty for hits of daskrf 0.1.
    """

    path: Path
    search: str
    about: dict[str, Any]

    def is_of(self, spec: dict[str, Any]) -> bool:
        """Whether they are what a search with the specification `spec` finds."""
        return bool(self.about) and self.search == hash_of(spec)

    def refuse_other(self, spec: dict[str, Any], source: str) -> None:
        """Refuse to write over the hits of a search that differs in something that `spec` names.

        Raises
        ------
        StoreError
            With each option that differs; `source` is what was screened, in words.
        """
        how = "it does not tell which"
        if self.about:
            found = {key: value for key, value in self.about.items() if key in spec}
            spec = json.loads(json.dumps(spec))
            if found == spec:
                return
            how = differences(_in_words(found, str(self.about["source"])), _in_words(spec, source))
        raise StoreError(
            f"{self.path} holds the hits of another search: {how}; give another output path, or replace them "
            "by overwrite=True"
        )


def _in_words(spec: dict[str, Any], source: str) -> dict[str, Any]:
    """Return a specification as people read it: as much of hashes as they do, and the name of the library."""
    words = {key: str(value)[:12] if key in ("library", "model") else value for key, value in spec.items()}
    return words | ({"library": f"{source}, {words['library']}"} if "library" in words else {})


def earlier_hits(output: Path) -> Earlier | None:
    """Return the hits that are at a path; refuse anything else that is there.

    Raises
    ------
    InputError
        If it is no file of hits.
    """
    with file_errors("write", output):
        if not output.exists():
            return None
        known: dict[bytes, bytes] = {}
        if output.is_file():
            with suppress(OSError, pa.ArrowException, MemoryError, *DAMAGE):
                known = pq.read_schema(readable(output)).metadata or {}
    if _MARK not in known:
        raise InputError(f"{output} is there already and holds no hits of daskrf; give another output path.")
    about: dict[str, Any] = {}
    with suppress(*DAMAGE):
        found = json.loads(known.get(_ABOUT, b"{}"))
        about = found if found.keys() >= _KNOWN else {}
    return Earlier(output, known.get(_SEARCH, b"").decode(errors="replace"), about)


def read_hits(output: Path) -> pa.Table:
    """Return the table of a file of hits.

    Raises
    ------
    StoreError
        If it cannot be read.
    """
    try:
        return pq.read_table(readable(output), page_checksum_verification=True).replace_schema_metadata()
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{output} cannot be read ({str(error).splitlines()[0][:200]}); delete it") from None


def write_hits(table: pa.Table, output: Path, search: str, about: dict[str, Any] | None = None) -> None:
    """Write a table of hits or rejects; `search` is the hash of what they depend on, `about` what that is."""
    metadata = {_MARK: b"hits", _SEARCH: search.encode()}
    if about is not None:
        metadata[_ABOUT] = json.dumps(about, sort_keys=True).encode()
    remove_stale(output.parent, output.name)  # of a run that was killed here
    with file_errors("write", output), atomic_path(output) as temporary:
        write_parquet(table.replace_schema_metadata(metadata), temporary)


def rejects_of(output: Path) -> Path:
    """Return where the rejects of SMILES files are kept: beside the hits."""
    return output.with_name(f"{output.name.removesuffix('.parquet')}.rejects.parquet")


def write_rejects(features: Source, output: Path, search: str) -> tuple[int, Path | None]:
    """Save the rejects of SMILES files beside `output`; return how many there are, and where."""
    path = rejects_of(output)
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
