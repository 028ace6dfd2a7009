"""The hits file: the best molecules, what they depend on, and how the file is recognized."""

from __future__ import annotations

import functools
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from daskrf.errors import InputError, StoreError
from daskrf.quantities import amount
from daskrf.storage.backend import backend, exists, is_file, readable, remove_stale
from daskrf.storage.differences import differences
from daskrf.storage.files import canonical_json, crc32c_of, file_errors
from daskrf.storage.integrity import DAMAGE, sealed, unsealed
from daskrf.storage.rowstore import write_parquet

__all__ = ["Earlier", "earlier_hits", "hits_at", "rejects_of", "write_hits"]

_MARK = b"daskrf"  # metadata key that identifies a hits file
_ABOUT = b"daskrf.about"  # metadata key of what the hits depend on and what was found, as sealed JSON
_KNOWN = {"model", "source", "acquisition", "target", "direction", "rows", "rejected", "notes", "content"}


@dataclass(frozen=True)
class Earlier:
    """An existing file of hits or rejects.

    Attributes
    ----------
    path : Path
    about : dict
        What the hits depend on, and further information; empty for hits of daskrf 0.1.
    rows : int
        Number of rows.
    rejects : bool
        Whether this is the file of rejects beside the hits.
    """

    path: PurePath
    about: dict[str, Any]
    rows: int = 0
    rejects: bool = False

    @property
    def kind(self) -> str:
        """Kind of the file: "hits" or "rejects"."""
        return "rejects" if self.rejects else "hits"

    def words(self) -> tuple[str, ...]:
        """Describe the content, as shown by `daskrf status`."""
        if self.rejects:
            return (f"{amount(self.rows, 'rows')} of the SMILES files, with file, line, text and reason",)
        if not self.about:
            return ("the file does not tell how they were found",)
        about, rule = self.about, dict(self.about["acquisition"])
        name, settings = rule.pop("rule"), {key: value for key, value in rule.items() if key != "maximize"}
        by = ", ".join([name, *(f"{key} {value}" for key, value in settings.items())])
        model = f"{about['model_name']}, hash" if "model_name" in about else "hash"
        return (
            f"{amount(self.rows, 'hits')} (k = {about['k']:,}), the best of "
            f"{amount(about['rows'], 'molecules')} by {by}",
            f"{about['direction'].removesuffix('e')}ing '{about['target']}'",
            f"model: {model} {about['model'][:12]}",
            f"library: {about['source']}, hash {about['library'][:12]}",
        )

    def problems(self) -> list[str]:
        """Return what is wrong with the content; rejects have Parquet's page checksums only."""
        try:
            if self.rejects:
                with file_errors("read", self.path):
                    pq.read_table(readable(self.path), page_checksum_verification=True)
            elif not self.about:
                return ["what they depend on is damaged, or was never written, so that no digest is known"]
            else:
                _ = self.table
        except (StoreError, pa.ArrowException, *DAMAGE) as error:
            return [str(error).split("\n", 1)[0]]
        return []

    def is_of(self, spec: dict[str, Any]) -> bool:
        """Return whether these are the hits of a search with the specification `spec`."""
        return self._of(spec) == json.loads(json.dumps(spec))

    def _of(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return the entries of `about` whose keys are in `spec`."""
        return {key: value for key, value in self.about.items() if key in spec}

    @functools.cached_property
    def table(self) -> pa.Table:
        """The hits, read once and cached.

        Raises
        ------
        StoreError
            They cannot be read, or were altered.
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
        """Return whether reading `table` fails."""
        try:
            _ = self.table
        except StoreError:
            return True
        return False

    def refuse_other(self, spec: dict[str, Any], source: str) -> None:
        """Raise an error if these are the hits of a search with another specification than `spec`.

        Raises
        ------
        StoreError
            Names each option that differs; `source` is the library that was screened, in words.
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
    """Return a specification for messages: with shortened hashes and the name of the library."""
    words = {key: str(value)[:12] if key in ("library", "model") else value for key, value in spec.items()}
    return words | ({"library": f"{source} with hash {words['library']}"} if "library" in words else {})


def earlier_hits(output: PurePath) -> Earlier | None:
    """Return the hits at a path, or None if nothing is there.

    Raises
    ------
    InputError
        Something other than a hits file is there.
    """
    with file_errors("write", output):
        if not exists(output):
            return None
        found = hits_at(output)
    if found is None:
        raise InputError(f"{output} exists and does not hold hits of daskrf; give another output path.")
    return found


def hits_at(path: PurePath) -> Earlier | None:
    """Return the hits or rejects in a file; None if it is something else."""
    footer = None
    if is_file(path):
        with suppress(OSError, pa.ArrowException, MemoryError, *DAMAGE):
            footer = pq.read_metadata(readable(path))
    known = (footer.metadata or {}) if footer is not None else {}
    if footer is None or _MARK not in known:
        return None
    about: dict[str, Any] = {}
    with suppress(*DAMAGE):
        found = unsealed(known.get(_ABOUT, b""))
        about = found if found.keys() >= _KNOWN else {}
    return Earlier(path, about, footer.num_rows, "reason" in footer.schema.names)


def _content(table: pa.Table) -> str:
    """Return the CRC32C of a table's types and of its values as CSV, independent of their encoding."""
    plain = pa.table({name: pc.cast(table[name], _plain(table[name].type)) for name in table.column_names})
    sink = pa.BufferOutputStream()
    sink.write(str(table.schema.remove_metadata()).encode())
    csv.write_csv(plain, sink)
    return crc32c_of(sink.getvalue())


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def write_hits(table: pa.Table, output: PurePath, about: dict[str, Any] | None = None) -> None:
    """Write a table of hits or rejects; `about` is what the hits depend on, and further information."""
    metadata = {_MARK: b"hits"}
    if about is not None:
        metadata[_ABOUT] = sealed(canonical_json({**about, "content": _content(table)}))
    remove_stale(output.parent, output.name)  # left by a killed run
    with file_errors("write", output), backend(output).writing(output) as temporary:
        write_parquet(table.replace_schema_metadata(metadata), temporary)


def rejects_of(output: PurePath) -> PurePath:
    """Return the path of the rejects of SMILES files, beside the hits."""
    return output.with_name(f"{output.name.removesuffix('.parquet')}.rejects.parquet")
