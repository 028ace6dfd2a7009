"""Parquet files: columns have names and types, and reading can start at any row."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from daskrf.errors import InputError
from daskrf.files.backend import readable
from daskrf.tables.formats import (
    BATCH_ROWS,
    HEAD_ROWS,
    MAX_TEXT,
    Fault,
    Head,
    Purpose,
    Reader,
    Rows,
    Segment,
    Table,
    View,
)
from daskrf.tables.formats.sequential import FAULT, FILE, NO_SCORE, POSE, POSES
from daskrf.tables.frames import NOT_ARROW
from daskrf.tables.spool import Spool, SpoolWriter

_BUFFER = 1 << 16  # per column; otherwise the whole row group would be read
_HEAD_FIELDS = 100_000


class ParquetReader(Reader):
    """Columns of text, and of what Arrow can write as text; what it calls text may not be UTF-8.

    `Table.delimiter` says how poses were read, if the table has the poses of many files.
    """

    name = "parquet"
    precedence = 10

    def sniff(self, head: bytes) -> bool:
        return head.startswith(b"PAR1")

    def words(self, table: Table) -> str:
        return table.delimiter or "Parquet"

    def place(self, path: PurePath, table: Table, line: int) -> str:
        """A pose is called after its own file."""
        if not table.delimiter:
            return super().place(path, table, line)
        with _opened(path) as file:
            columns = [name for name in (FILE, POSE) if name in file.schema_arrow.names]
            pose = file.read(columns).slice(line - 1, 1).to_pylist()[0]
        name = pose[FILE].removeprefix(f"{Path.cwd()}{os.sep}")
        return f"{name}, pose {pose[POSE]}" if pose.get(POSE) else str(name)

    def no_value(self, table: Table) -> str:
        if not table.delimiter:
            return super().no_value(table)
        return f"{NO_SCORE}, name files with scores by a pattern such as 'docked/*_out.pdbqt'"

    def open(self, path: PurePath, compression: str, blocks: Iterator[bytes], purpose: Purpose) -> Head:
        """Names and types are those of the schema."""
        with _opened(path) as file:
            schema, n_rows = file.schema_arrow, int(file.metadata.num_rows)
        poses = (schema.metadata or {}).get(POSES.encode(), b"").decode()
        fields = [field for field in schema if not (poses and field.name == FAULT)]
        names = tuple(field.name for field in fields)
        n_rows = min(n_rows, HEAD_ROWS, max(1, _HEAD_FIELDS // max(1, len(names))))

        def columns(positions: Sequence[int]) -> list[list[str]]:
            wanted = [names[at] for at in positions]
            with _opened(path, buffer_size=_BUFFER) as file:
                batch = next(file.iter_batches(n_rows, columns=wanted), None) if n_rows and wanted else None
            return [[] if batch is None else _sample(batch, name) for name in wanted]

        return Head(
            Table(self.name, "", poses, True, 0, names, len(names)),
            n_rows=n_rows,
            width=len(names),
            text=[at for at, field in enumerate(fields) if _is_text(field.type)],
            columns=columns,
        )

    def scan(
        self, path: PurePath, table: Table, blocks: Iterator[bytes], spool: SpoolWriter | None = None
    ) -> tuple[int, list[int]]:
        for _ in blocks:
            pass
        with _opened(path) as file:
            return int(file.metadata.num_rows), []

    def read(self, view: View, segments: Iterable[Segment], spool: Spool | None = None) -> Iterator[Rows]:
        """Only the row groups that a segment touches are read."""
        path, every = view.path, view.table.names or ()
        names = [every[position] for position in view.columns]
        read = list(dict.fromkeys([*names, *([FAULT] if view.table.delimiter else [])]))
        with _opened(path) as file:
            sizes = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
            ends = np.cumsum(sizes, dtype=np.int64)
            for segment in segments:
                start, stop = segment.first_row, segment.first_row + segment.n_rows
                first = int(np.searchsorted(ends, start, side="right"))
                last = int(np.searchsorted(ends, stop, side="left"))
                at = int(ends[first - 1]) if first else 0
                groups = list(range(first, min(last + 1, len(sizes))))
                for batch in file.iter_batches(BATCH_ROWS, groups, columns=read):
                    begin, end = max(start - at, 0), min(stop - at, len(batch))
                    if end > begin:
                        piece = batch.slice(begin, end - begin)
                        rows = _rows(at + begin, [_cells(piece, name, view) for name in names])
                        reasons = piece.column(FAULT).to_pylist() if view.table.delimiter else []
                        yield _without(rows, {at + begin + k: why for k, why in enumerate(reasons) if why})
                    at += len(batch)


@contextmanager
def _opened(path: PurePath, buffer_size: int = 0) -> Iterator[pq.ParquetFile]:
    """Open a file, and name it in errors."""
    try:
        with pq.ParquetFile(readable(path), buffer_size=buffer_size) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        if (number := getattr(error, "errno", None)) is not None:
            raise InputError(f"{path} cannot be read ({os.strerror(number)}).", errno=number) from None
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(
            f"{path} is damaged, or not a Parquet file ({reason}); fetch the file again."
        ) from None


def _is_text(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds text, in any encoding."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return _is_binary(kind) or any(test(kind) for test in tests)


def _is_binary(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds bytes, which may be text without being called so."""
    tests = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return pa.types.is_fixed_size_binary(kind) or any(test(kind) for test in tests)


def _sample(batch: pa.RecordBatch, name: str) -> list[str]:
    """Return the values of a column; none if they cannot be text, which readers will report."""
    try:
        cells = _as_text(batch.column(batch.schema.get_field_index(name)))
    except NOT_ARROW:
        return []
    return [cell.decode(errors="replace") if isinstance(cell, bytes) else cell or "" for cell in cells]


def _cells(batch: pa.RecordBatch, name: str, view: View) -> list[str | bytes | None]:
    """Return a column as text, or as bytes where it is not valid text."""
    column = batch.column(name)
    try:
        if view.purpose.strict and pa.types.is_floating(column.type):
            column = column.cast(pa.float64())  # shortest decimal text of a float32 is not exact
        return _as_text(column)
    except NOT_ARROW:
        raise InputError(
            f"column {name!r} of {view.path} is {column.type}, which is not text or a number; leave it out."
        ) from None


def _as_text(column: pa.Array) -> list[str | bytes | None]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if _is_binary(column.type):
        return [_decoded(cell) for cell in column.to_pylist()]
    text = column.cast(pa.string())
    try:
        return text.to_pylist()
    except UnicodeDecodeError:  # Parquet does not check what it calls text
        return [_decoded(cell) for cell in text.cast(pa.binary()).to_pylist()]


def _decoded(cell: bytes | None) -> str | bytes | None:
    try:
        return cell and cell.decode()
    except UnicodeDecodeError:
        return cell


def _rows(first: int, columns: list[list[str | bytes | None]]) -> Rows:
    """Return rows starting at `first`; those with bytes in a requested column are faults."""
    bad = sorted({k for cells in columns for k, cell in enumerate(cells) if isinstance(cell, bytes)})
    faults = []
    for k in bad:
        cell = columns[0][k] or ""
        text = cell.decode(errors="replace") if isinstance(cell, bytes) else cell
        faults.append(Fault(first + k, first + k + 1, text[:MAX_TEXT], "not UTF-8 text"))
    good = np.setdiff1d(np.arange(len(columns[0])), bad)
    if bad:
        columns = [[cells[k] for k in good] for cells in columns]
    values: list[list[str | None]] = columns  # type: ignore[assignment]
    return Rows(first + good, first + good + 1, values, faults, lambda k: (values[0][k] or "")[:MAX_TEXT])


def _without(rows: Rows, reasons: Mapping[int, str]) -> Rows:
    """Return rows of which some, by their numbers, cannot be read for a reason."""
    if not reasons:
        return rows
    good = [k for k, row in enumerate(rows.row.tolist()) if row not in reasons]
    faults = [Fault(row, row + 1, "", why) for row, why in reasons.items()]
    columns = [[cells[k] for k in good] for cells in rows.columns]
    return Rows(rows.row[good], rows.line[good], columns, faults, lambda k: (columns[0][k] or "")[:MAX_TEXT])
