"""Files of molecules that commands write: hits and predictions, what they depend on, and how they are known.

A Parquet file of hits says in its own metadata what it depends on. Other formats have no place for that, so
they have a record beside them, a hidden Parquet file with the table, the metadata, and the digest of the
file. Predictions are too many to be kept twice: their record has the columns only.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from daskrf.errors import InputError, StoreError
from daskrf.quantities import amount
from daskrf.storage.backend import backend, exists, is_file, readable, remove_stale
from daskrf.storage.differences import differences
from daskrf.storage.files import canonical_json, crc32c_of, digests_of_file, digests_of_stream, file_errors
from daskrf.storage.integrity import DAMAGE, sealed, unsealed
from daskrf.storage.rowstore import write_parquet
from daskrf.storage.tablefiles import PARQUET, ending_of, write_molecules

__all__ = [
    "Earlier",
    "earlier_hits",
    "hits_at",
    "record_of",
    "rejects_of",
    "write_hits",
    "write_predictions",
    "write_rejects",
]

_MARK = b"daskrf"  # metadata key that identifies a hits file
_ABOUT = b"daskrf.about"  # metadata key of what the hits depend on and what was found, as sealed JSON
_FILE = b"daskrf.file"  # metadata key of a record: size and CRC32C of the file beside it, as sealed JSON
_KNOWN = {"model", "source", "acquisition", "target", "direction", "rows", "rejected", "notes", "content"}
_KNOWN_OF_PREDICTIONS = {"model", "source", "targets", "rows", "rejected", "content"}
_KINDS = {b"hits": "hits", b"predictions": "table"}


@dataclass(frozen=True)
class Earlier:
    """An existing file of hits, of predictions, or of rejects.

    Attributes
    ----------
    path : Path
    about : dict
        What the hits depend on, and further information; empty for hits of daskrf 0.1.
    rows : int
        Number of rows.
    kind : {"hits", "rejects", "table"}
        Rejects are beside hits; "table" stands for predictions in one file.
    file : dict or None
        Size and CRC32C of a file that has a record beside it.
    """

    path: PurePath
    about: dict[str, Any]
    rows: int = 0
    kind: str = "hits"
    file: dict[str, Any] | None = field(default=None, repr=False)

    def words(self) -> tuple[str, ...]:
        """Describe the content, as shown by `daskrf status`."""
        if self.kind == "rejects":
            return (f"{amount(self.rows, 'rows')} of the SMILES files, with file, line, text and reason",)
        if not self.about:
            return ("the file does not tell how they were found",)
        if self.kind == "table":
            return (
                f"{amount(self.about['rows'], 'predictions')} of {', '.join(self.about['targets'])}",
                f"model: {self.about['model_name']}, hash {self.about['model'][:12]}",
                f"library: {self.about['source']}, hash {self.about['library'][:12]}",
            )
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
            if self.kind == "rejects":
                with file_errors("read", self.path):
                    pq.read_table(readable(self._record), page_checksum_verification=True)
                self._check_file()
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
            table = pq.read_table(readable(self._record)).replace_schema_metadata()
            if _content(table) == self.about["content"]:
                self._check_file()
                return table
        except StoreError:
            raise
        except (OSError, pa.ArrowException, *DAMAGE) as error:
            how = str(error).split("\n", 1)[0][:200]
        raise self._unread(how)

    @property
    def _record(self) -> PurePath:
        """The Parquet file with the table."""
        return self.path if self.file is None else record_of(self.path)

    def _check_file(self) -> None:
        """Raise a `StoreError` if the file is not as it was written."""
        if self.file is None:
            return
        with file_errors("read", self.path), backend(self.path).open(self.path) as file:
            size, checksum, _ = digests_of_stream(file)
        if (size, checksum) != (self.file["bytes"], self.file["crc32c"]):
            raise self._unread("it was changed since it was written")

    def _unread(self, how: str) -> StoreError:
        way = "" if self.kind == "table" else ", or have it made anew by --overwrite (overwrite=True)"
        return StoreError(f"{self.path} cannot be read ({how}); delete it{way}")

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
        if self.kind == "table":
            raise StoreError(
                f"{self.path} holds predictions of another model or library: {how}; give another output "
                "path, or delete that file"
            )
        raise StoreError(
            f"{self.path} holds the hits of another search: {how}; give another output path, or replace them "
            "by --overwrite (overwrite=True)"
        )


def _in_words(spec: dict[str, Any], source: str) -> dict[str, Any]:
    """Return a specification for messages: with shortened hashes and the name of the library."""
    words = {key: str(value)[:12] if key in ("library", "model") else value for key, value in spec.items()}
    return words | ({"library": f"{source} with hash {words['library']}"} if "library" in words else {})


def earlier_hits(output: PurePath, kind: str = "hits") -> Earlier | None:
    """Return the hits, or the predictions in one file, at a path, or None if nothing is there.

    Parameters
    ----------
    output : Path
    kind : {"hits", "table"}

    Raises
    ------
    InputError
        Something else is there.
    """
    with file_errors("write", output):
        if not exists(output):
            return None
        found = hits_at(output)
    if found is None or (found.kind == "table") != (kind == "table"):
        what = "predictions" if kind == "table" else "hits"
        raise InputError(f"{output} exists and does not hold {what} of daskrf; give another output path.")
    return found


def hits_at(path: PurePath) -> Earlier | None:
    """Return the hits, predictions or rejects in a file; None if it is something else."""
    if not is_file(path):
        return None
    return _described_by(path, path) or _described_by(path, record_of(path))


def _described_by(path: PurePath, record: PurePath) -> Earlier | None:
    """Return what a Parquet file says of the file `path`; None if it says nothing."""
    footer = None
    with suppress(OSError, pa.ArrowException, MemoryError, *DAMAGE):  # names of records may be too long
        footer = pq.read_metadata(readable(record)) if is_file(record) else None
    known = (footer.metadata or {}) if footer is not None else {}
    if footer is None or _MARK not in known:
        return None
    kind = _KINDS.get(known[_MARK], "hits")
    about: dict[str, Any] = {}
    with suppress(*DAMAGE):
        found = unsealed(known.get(_ABOUT, b""))
        about = found if found.keys() >= (_KNOWN_OF_PREDICTIONS if kind == "table" else _KNOWN) else {}
    file: dict[str, Any] | None = None
    if record != path:
        file = {"bytes": -1, "crc32c": ""}  # matches no file, should the record be damaged
        with suppress(*DAMAGE):
            file |= unsealed(known[_FILE])
    if "reason" in footer.schema.names and not about:
        kind = "rejects"
    return Earlier(path, about, footer.num_rows, kind, file)


def _content(table: pa.Table) -> str:
    """Return the CRC32C of a table's types and of its values as CSV, independent of their encoding."""
    plain = pa.table({name: pc.cast(table[name], _plain(table[name].type)) for name in table.column_names})
    sink = pa.BufferOutputStream()
    sink.write(str(table.schema.remove_metadata()).encode())
    csv.write_csv(plain, sink)
    return crc32c_of(sink.getvalue())


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def write_hits(
    table: pa.Table,
    output: PurePath,
    about: dict[str, Any] | None = None,
    write: Callable[[pa.Table, Path], None] | None = None,
) -> None:
    """Write a table of hits or rejects atomically, as the ending of `output` says.

    Parameters
    ----------
    table : pyarrow.Table
    output : Path
    about : dict, optional
        What the hits depend on, and further information, as JSON values.
    write : callable, optional
        Writes the table to a file, if the ending of `output` is not one of `write_molecules`.

    Raises
    ------
    StoreError
        Disk full, no permission, and so on.
    """
    metadata = {_MARK: b"hits"}
    if about is not None:
        metadata[_ABOUT] = sealed(canonical_json({**about, "content": _content(table)}))
    remove_stale(output.parent, output.name)  # left by a killed run
    with file_errors("write", output), backend(output).writing(output) as temporary:
        if ending_of(output) == PARQUET:
            write_parquet(table.replace_schema_metadata(metadata), temporary)
        else:
            (write or functools.partial(write_molecules, name=output))(table, temporary)
            _write_record(table, output, temporary, metadata)


def write_predictions(tables: Iterable[pa.Table], output: PurePath, about: dict[str, Any]) -> None:
    """Write predictions into one file atomically, as its ending says, with a record beside it.

    Parameters
    ----------
    tables : iterable of pyarrow.Table
        At least one; they need not be in memory together.
    output : Path
    about : dict
        What the predictions depend on, and further information, as JSON values.
    """
    remove_stale(output.parent, output.name)
    columns: list[pa.Table] = []

    def watched() -> Iterable[pa.Table]:
        for table in tables:
            columns[:] = [table.slice(0, 0)]
            yield table

    with file_errors("write", output), backend(output).writing(output) as temporary:
        write_molecules(watched(), temporary, name=output)
        metadata = {_MARK: b"predictions"}
        metadata[_ABOUT] = sealed(canonical_json({**about, "content": _content(columns[0])}))
        _write_record(columns[0], output, temporary, metadata)


def write_rejects(tables: Iterable[pa.Table], output: PurePath) -> tuple[int, PurePath | None]:
    """Write the rejects of SMILES files beside `output`; return how many there are, and where.

    Rejects of an earlier run are deleted.
    """
    path = rejects_of(output)
    table = pa.concat_tables(tables).unify_dictionaries()
    if not table.num_rows:
        for old in (path, record_of(path)) if ending_of(path) != PARQUET else (path,):
            backend(old).remove(old)
        return 0, None
    write_hits(table, path)
    return table.num_rows, path


def _write_record(table: pa.Table, output: PurePath, file: Path, metadata: dict[bytes, bytes]) -> None:
    """Write the record of `output`, whose content is in `file` and comes to its place after this."""
    size, checksum, _ = digests_of_file(file)
    known = {**metadata, _FILE: sealed(canonical_json({"bytes": size, "crc32c": checksum}))}
    record = record_of(output)
    remove_stale(record.parent, record.name)
    with backend(record).writing(record) as temporary:
        write_parquet(table.replace_schema_metadata(known), temporary)


def record_of(output: PurePath) -> PurePath:
    """Return the path of the record beside a file.

    Examples
    --------
    >>> record_of(Path("screens/hits.csv")).as_posix()
    'screens/.hits.csv.record'
    """
    return output.with_name(f".{output.name}.record")


def rejects_of(output: PurePath) -> PurePath:
    """Return the path of the rejects of SMILES files, beside the hits: Parquet beside Parquet, else CSV.

    Examples
    --------
    >>> rejects_of(Path("hits.parquet")).name, rejects_of(Path("hits.sdf.gz")).name
    ('hits.rejects.parquet', 'hits.rejects.csv')
    """
    name = output.name.removesuffix(".gz")
    ending = PARQUET if ending_of(output) == PARQUET else ".csv"
    return output.with_name(f"{name.removesuffix(PurePath(name).suffix)}.rejects{ending}")
