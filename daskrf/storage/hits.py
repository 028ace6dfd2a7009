"""Files that commands write (hits, batches, predictions, pages, pictures), and how they are recognized.

A Parquet file says in its own metadata what it depends on. Other formats have no place for that. They have a
record beside them: a hidden Parquet file with the metadata, the digest of the file and, for hits and batches,
the table. Other tables may be too long to store twice, so their records have the columns but no rows.

A file without metadata or record, or one changed since it was written, is not a file of daskrf: no command
replaces it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from daskrf.documents import JsonObject
from daskrf.errors import InputError, StoreError
from daskrf.files.backend import backend, exists, is_file, readable, remove_stale
from daskrf.files.disk import canonical_json, crc32c_of, digests_of_file, digests_of_stream, file_errors
from daskrf.quantities import amount
from daskrf.storage.differences import differences
from daskrf.storage.integrity import DAMAGE, sealed, unsealed
from daskrf.storage.stores.rowstore import write_parquet
from daskrf.storage.tablefiles import PARQUET, ending_of, write_molecules

_MARK = b"daskrf"  # metadata key that identifies a hits file
_ABOUT = b"daskrf.about"  # metadata key of what the hits depend on and what was found, as sealed JSON
_FILE = b"daskrf.file"  # metadata key of a record: size and CRC32C of the file beside it, as sealed JSON
_RECORD_FIELDS = {
    "model",
    "source",
    "acquisition",
    "target",
    "direction",
    "rows",
    "rejected",
    "notes",
    "content",
}
_KNOWN_OF_PREDICTIONS = {"model", "source", "targets", "rows", "rejected", "content"}
_NEEDED = {"hits": _RECORD_FIELDS, "table": _KNOWN_OF_PREDICTIONS}  # others need a digest of their content
_KINDS = {"hits": "hits", "predictions": "table"}  # names of kinds in files, where they differ
_OTHERS = (
    *("batch", "sample", "search", "evaluation", "picture", "drawing", "page", "quickstart", "rejects"),
    "scores",
)
_RECORDED_KINDS = ("hits", "batch", "rejects")  # kinds whose records hold the table


# Options that a specification holds only if they are used.
_WHERE_IN_USE = (
    *("where", "smarts", "without_smarts", "alerts", "similar_to", "least_similarity", "nearest"),
    *("intervals", "std_samples", "every_row"),
)


@dataclass(frozen=True)
class Earlier:
    """An existing file that a command has written.

    Attributes
    ----------
    path : Path
    about : dict
        What it depends on, and further information; empty for hits of daskrf 0.1.
    rows : int
        Number of rows.
    kind : str
        One of the kinds of files in `daskrf.storage.stores.store.KIND_NAMES`, such as "hits"; "table" stands
        for predictions in one file.
    file : dict or None
        Size and CRC32C of a file that has a record beside it, and of the earlier file that it was to replace.
    """

    path: PurePath
    about: JsonObject
    rows: int = 0
    kind: str = "hits"
    file: JsonObject | None = field(default=None, repr=False)

    def words(self) -> tuple[str, ...]:
        """Describe the content, as shown by `daskrf status`."""
        if self.kind == "rejects":
            return (f"{amount(self.rows, 'rows')} of the SMILES files, with file, line, text and reason",)
        if not self.about:
            return ("the file does not say how they were found",)
        if self.kind != "hits" and self.kind != "table":
            return tuple(_words_of(self.about))
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
        """Return what is wrong with the file; rejects of older versions have page checksums only."""
        try:
            if self.kind == "rejects" and not self.about:
                with file_errors("read", self.path):
                    pq.read_table(readable(self._record), page_checksum_verification=True)
                self._check_file()
            elif not self.about:
                return ["the metadata of the file are damaged or were never written, so no digest is known"]
            else:
                _ = self.table
        except (StoreError, pa.ArrowException, *DAMAGE) as error:
            return [str(error).split("\n", 1)[0]]
        return []

    def is_of(self, spec: dict[str, object]) -> bool:
        """Return whether these are the hits of a search with the specification `spec`."""
        return self._of(spec) == json.loads(json.dumps(spec))

    def _of(self, spec: dict[str, object]) -> dict[str, object]:
        """Return the entries of `about` whose keys are in `spec`, and options in use that it may lack."""
        return {
            key: value for key, value in self.about.items() if key in spec or (value and key in _WHERE_IN_USE)
        }

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
        with file_errors("read", self.path):
            digests = _digests(self.path)
        if digests != (self.file["bytes"], self.file["crc32c"]):
            raise self._unread("it was changed since it was written", "move it if the changes are yours, or ")

    def _unread(self, how: str, first: str = "") -> StoreError:
        return StoreError(
            f"{self.path} cannot be read ({how}); {first}delete it, or give another output path"
        )

    @property
    def is_unchanged(self) -> bool:
        """Whether the file is as daskrf wrote it, or a command was killed just before it replaced it."""
        if not self.problems():
            return True
        before = None if self.file is None else self.file.get("before")
        return before is not None and before == list(_digests(self.path))

    def refuse_other(self, spec: dict[str, object], source: str) -> None:
        """Raise an error if these hits come from a search with another specification than `spec`.

        Raises
        ------
        StoreError
            Names each option that differs; `source` is the library that was screened, in words.
        """
        how = "it does not say which"
        if self.about:
            recorded = self._of(spec)
            spec = json.loads(json.dumps(spec))
            if recorded == spec:
                return
            how = differences(_in_words(recorded, str(self.about["source"])), _in_words(spec, source))
        if self.kind == "table":
            raise StoreError(
                f"{self.path} holds predictions of another model or library: {how}; give another output "
                "path, or delete that file"
            )
        raise StoreError(
            f"{self.path} holds the hits of another search: {how}; give another output path, or replace them "
            "by --overwrite (overwrite=True)"
        )


def _in_words(spec: dict[str, object], source: str) -> dict[str, object]:
    """Return a specification for messages: with shortened hashes and the name of the library."""
    words = {key: str(value)[:12] if key in ("library", "model") else value for key, value in spec.items()}
    return words | ({"library": f"{source} with hash {words['library']}"} if "library" in words else {})


def unchanged(path: PurePath) -> Earlier | None:
    """Return the file that a command has written at a path, or None if it was changed since or is foreign."""
    earlier = hits_at(path)
    return earlier if earlier is not None and earlier.is_unchanged else None


def refuse_foreign(path: PurePath) -> None:
    """Refuse to replace a file unless daskrf wrote it, according to its record.

    Raises
    ------
    InputError
        daskrf did not write it, or it was changed since.
    """
    with file_errors("read", path):
        if not exists(path) or unchanged(path) is not None:
            return
        is_ours = hits_at(path) is not None
    how = "was changed since daskrf wrote it" if is_ours else "exists and was not written by daskrf"
    raise InputError(f"{path} {how}, and is never replaced; give another output path.")


def hits_at(path: PurePath) -> Earlier | None:
    """Return the description of a file that a command has written; None if it is another file."""
    if not is_file(path):
        return None
    return _described_by(path, path) or _described_by(path, record_of(path))


def _described_by(path: PurePath, record: PurePath) -> Earlier | None:
    """Return what the Parquet file `record` says about the file `path`; None if it says nothing."""
    footer = None
    with suppress(OSError, pa.ArrowException, MemoryError, *DAMAGE):  # names of records may be too long
        footer = pq.read_metadata(readable(record)) if is_file(record) else None
    entries = (footer.metadata or {}) if footer is not None else {}
    if footer is None or _MARK not in entries:
        return None
    mark = entries[_MARK].decode(errors="replace")
    kind = mark if mark in _OTHERS else _KINDS.get(mark, "hits")
    about: JsonObject = {}
    with suppress(*DAMAGE):
        content = unsealed(entries.get(_ABOUT, b""))
        about = content if content.keys() >= _NEEDED.get(kind, {"content"}) else {}
    file: dict[str, object] | None = None
    if record != path:
        file = {"bytes": -1, "crc32c": ""}  # matches no file; stays if the record is damaged
        with suppress(*DAMAGE):
            file |= unsealed(entries[_FILE])
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


TableWriter: TypeAlias = Callable[[pa.Table, Path], None]
"""Writes a table to a file of some format that is not a table's, such as a page."""


def write_hits(
    table: pa.Table,
    output: PurePath,
    about: Mapping[str, object] | None = None,
    write: TableWriter | None = None,
    *,
    kind: str = "hits",
    before: Callable[[Path], None] | None = None,
) -> None:
    """Write a table of hits, a batch or the like atomically, in the format given by the ending of `output`.

    Parameters
    ----------
    table : pyarrow.Table
    output : Path
    about : dict, optional
        What the table depends on, and further information, as JSON values.
    write : callable, optional
        Writes the table to a file, if the ending of `output` is not one of `write_molecules`.
    kind : str
        See `Earlier`.
    before : callable, optional
        Called with the written file before it replaces anything. Default: refuse to replace a file that
        daskrf has not written.

    Raises
    ------
    InputError
        Something else is there.
    StoreError
        Disk full, no permission, and so on.
    """
    inside = ending_of(output) == PARQUET
    held = table if inside or kind in _RECORDED_KINDS else table.slice(0, 0)
    metadata = _metadata(kind, about, held)
    with _replacing(output, None if inside else metadata, lambda: held, before) as temporary:
        if inside:
            write_parquet(table.replace_schema_metadata(metadata), temporary)
        else:
            (write or functools.partial(write_molecules, name=output))(table, temporary)


def write_predictions(tables: Iterable[pa.Table], output: PurePath, about: dict[str, object]) -> None:
    """Write predictions into one file atomically, in the format given by its ending, with a record beside it.

    Parameters
    ----------
    tables : iterable of pyarrow.Table
        At least one; they need not be in memory together.
    output : Path
    about : dict
        What the predictions depend on, and further information, as JSON values.
    """
    columns: list[pa.Table] = []
    metadata: dict[bytes, bytes] = {}

    def watched() -> Iterable[pa.Table]:
        for table in tables:
            columns[:] = [table.slice(0, 0)]
            yield table

    with _replacing(output, metadata, lambda: columns[0]) as temporary:
        write_molecules(watched(), temporary, name=output)
        metadata |= _metadata("predictions", about, columns[0])


def write_recorded(
    output: PurePath,
    write: Callable[[Path], object],
    about: dict[str, object],
    kind: str,
    before: Callable[[Path], None] | None = None,
) -> None:
    """Write a file that is no table, such as a picture, atomically, with a record beside it.

    Parameters
    ----------
    output : Path
    write : callable
        Writes the file it is given.
    about, kind, before
        As in `write_hits`.
    """
    empty = pa.table({})
    with _replacing(output, _metadata(kind, about, empty), lambda: empty, before) as temporary:
        write(temporary)


def write_rejects(tables: Iterable[pa.Table], output: PurePath) -> tuple[int, PurePath | None]:
    """Write the rejects of SMILES files beside `output`; return how many there are, and where.

    Rejects of an earlier run are deleted.
    """
    path = rejects_of(output)
    table = pa.concat_tables(tables).unify_dictionaries()
    if not table.num_rows:
        refuse_foreign(path)
        for old in (path, record_of(path)) if ending_of(path) != PARQUET else (path,):
            backend(old).remove(old)
        return 0, None
    write_hits(table, path, {}, kind="rejects")
    return table.num_rows, path


def _metadata(kind: str, about: Mapping[str, object] | None, table: pa.Table) -> dict[bytes, bytes]:
    """Return the metadata of a file, or of the record that holds `table`."""
    metadata = {_MARK: kind.encode()}
    if about is not None:
        metadata[_ABOUT] = sealed(canonical_json({**about, "content": _content(table)}))
    return metadata


@contextmanager
def _replacing(
    output: PurePath,
    metadata: dict[bytes, bytes] | None,
    table: Callable[[], pa.Table],
    before: Callable[[Path], None] | None = None,
) -> Iterator[Path]:
    """Yield a local file; at the end of the block its record, if any, is written, and it becomes `output`."""
    remove_stale(output.parent, output.name)  # left by a killed run
    with file_errors("write", output), backend(output).writing(output) as temporary:
        yield temporary
        if before is None:
            refuse_foreign(output)
        else:
            before(temporary)
        if metadata is not None:
            _write_record(table(), output, temporary, metadata)


def _write_record(table: pa.Table, output: PurePath, file: Path, metadata: dict[bytes, bytes]) -> None:
    """Write the record of `output` before `file` takes its place.

    The record also has the digests of the file that is there now. So if this process dies in between, that
    file is still recognized as one of daskrf.
    """
    size, checksum, _ = digests_of_file(file)
    of_file: dict[str, object] = {"bytes": size, "crc32c": checksum}
    if exists(output) and unchanged(output) is not None and (earlier := _digests(output)) != (size, checksum):
        of_file["before"] = earlier
    entries = {**metadata, _FILE: sealed(canonical_json(of_file))}
    record = record_of(output)
    remove_stale(record.parent, record.name)
    with backend(record).writing(record) as temporary:
        write_parquet(table.replace_schema_metadata(entries), temporary)


def _digests(path: PurePath) -> tuple[int, str]:
    """Return size and CRC32C of a file."""
    with backend(path).open(path) as file:
        return digests_of_stream(file)[:2]


def _words_of(about: JsonObject) -> Iterator[str]:
    """Describe a file of any other kind: what it is, and its target, direction, model and library."""
    yield str(about["made"])
    if "target" in about:
        target = about["target"] if isinstance(about["target"], str) else " and ".join(about["target"])
        direction = about.get("direction")
        yield f"{str(direction).removesuffix('e')}ing '{target}'" if direction else f"target: {target}"
    if "model" in about:
        yield f"model: {about['model_name']}, hash {about['model'][:12]}"
    if "source" in about:
        library_hash = f", hash {about['library'][:12]}" if "library" in about else ""
        yield f"{about.get('source_kind', 'library')}: {about['source']}{library_hash}"


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
