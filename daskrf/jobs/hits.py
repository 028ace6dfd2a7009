"""The file of hits: what is written about the best molecules, and how the file is recognized."""

from __future__ import annotations

import functools
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from daskrf.errors import InputError, StoreError
from daskrf.jobs.sources import Source
from daskrf.storage.backend import backend, exists, is_file, readable, remove_stale
from daskrf.storage.files import canonical_json, crc32c_of, file_errors
from daskrf.storage.fingerprintstore import write_parquet
from daskrf.storage.integrity import DAMAGE, sealed, unsealed
from daskrf.storage.plans import differences

__all__ = ["Earlier", "described", "earlier_hits", "rejects_of", "write_hits", "write_rejects"]

_MARK = b"daskrf"  # key of the metadata by which a file of hits is known
_ABOUT = b"daskrf.about"  # key of what the hits depend on, and of what was found, as sealed JSON
_KNOWN = {"model", "source", "acquisition", "target", "direction", "rows", "rejected", "notes", "content"}


@dataclass(frozen=True)
class Earlier:
    """Hits that are there already.

    Attributes
    ----------
    path : Path
    about : dict
        What they depend on, and more that is known of them; empty for hits of daskrf 0.1.
    """

    path: PurePath
    about: dict[str, Any]

    def is_of(self, spec: dict[str, Any]) -> bool:
        """Whether they are what a search with the specification `spec` finds."""
        return self._of(spec) == json.loads(json.dumps(spec))

    def _of(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return what is known of them in the entries of `spec`."""
        return {key: value for key, value in self.about.items() if key in spec}

    @functools.cached_property
    def table(self) -> pa.Table:
        """The hits, which are read once.

        Raises
        ------
        StoreError
            If they cannot be read, or are not what was written.
        """
        how = "its content does not match its CRC32C"
        try:
            table = pq.read_table(readable(self.path)).replace_schema_metadata()
            if _content(table) == self.about["content"]:
                return table
        except (OSError, pa.ArrowException, *DAMAGE) as error:
            how = str(error).split("\n", 1)[0][:200]
        raise StoreError(
            f"{self.path} cannot be read ({how}); delete it, or have it made "
            "anew by --overwrite (overwrite=True)"
        )

    def is_damaged(self) -> bool:
        """Whether `table` refuses them."""
        try:
            _ = self.table
        except StoreError:
            return True
        return False

    def refuse_other(self, spec: dict[str, Any], source: str) -> None:
        """Refuse to write over the hits of a search that differs in something that `spec` names.

        Raises
        ------
        StoreError
            With each option that differs; `source` is what was screened, in words.
        """
        how = "it does not tell which"
        if self.about:
            found = self._of(spec)
            spec = json.loads(json.dumps(spec))
            if found == spec:
                return
            how = differences(_in_words(found, str(self.about["source"])), _in_words(spec, source))
        raise StoreError(
            f"{self.path} holds the hits of another search: {how}; give another output path, or replace them "
            "by --overwrite (overwrite=True)"
        )


def _in_words(spec: dict[str, Any], source: str) -> dict[str, Any]:
    """Return a specification as people read it: as much of hashes as they do, and the name of the library."""
    words = {key: str(value)[:12] if key in ("library", "model") else value for key, value in spec.items()}
    return words | ({"library": f"{source}, {words['library']}"} if "library" in words else {})


def earlier_hits(output: PurePath) -> Earlier | None:
    """Return the hits that are at a path; refuse anything else that is there.

    Raises
    ------
    InputError
        If something other than a file of hits is there.
    """
    with file_errors("write", output):
        if not exists(output):
            return None
        known: dict[bytes, bytes] = {}
        if is_file(output):
            with suppress(OSError, pa.ArrowException, MemoryError, *DAMAGE):
                known = pq.read_schema(readable(output)).metadata or {}
    if _MARK not in known:
        raise InputError(f"{output} exists and does not hold hits of daskrf; give another output path.")
    about: dict[str, Any] = {}
    with suppress(*DAMAGE):
        found = unsealed(known.get(_ABOUT, b""))
        about = found if found.keys() >= _KNOWN else {}
    return Earlier(output, about)


def _content(table: pa.Table) -> str:
    """Return the CRC32C of a table: of its types, and of its values as CSV, however they are encoded."""
    plain = pa.table({name: pc.cast(table[name], _plain(table[name].type)) for name in table.column_names})
    sink = pa.BufferOutputStream()
    sink.write(str(table.schema.remove_metadata()).encode())
    csv.write_csv(plain, sink)
    return crc32c_of(sink.getvalue())


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def write_hits(table: pa.Table, output: PurePath, about: dict[str, Any] | None = None) -> None:
    """Write a table of hits or rejects; `about` is what hits depend on, and more that is known of them."""
    metadata = {_MARK: b"hits"}
    if about is not None:
        metadata[_ABOUT] = sealed(canonical_json({**about, "content": _content(table)}))
    remove_stale(output.parent, output.name)  # of a run that was killed here
    with file_errors("write", output), backend(output).writing(output) as temporary:
        write_parquet(table.replace_schema_metadata(metadata), temporary)


def rejects_of(output: PurePath) -> PurePath:
    """Return where the rejects of SMILES files are kept: beside the hits."""
    return output.with_name(f"{output.name.removesuffix('.parquet')}.rejects.parquet")


def write_rejects(features: Source, output: PurePath) -> tuple[int, PurePath | None]:
    """Save the rejects of SMILES files beside `output`; return how many there are, and where."""
    path = rejects_of(output)
    tables = [features.rejects(p) for p in range(len(features.partition_rows))]
    table = pa.concat_tables(tables).unify_dictionaries()
    if not table.num_rows:
        backend(path).remove(path)
        return 0, None
    write_hits(table, path)
    return table.num_rows, path


def described(features: Source, columns: dict[str, Any]) -> pa.Table:
    """Add rank, id, smiles, source file and line to the hits."""
    rows = columns["row"]
    partition = np.searchsorted(features.row_bounds, rows, side="right") - 1
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
