"""Read the rows of a segment of a file."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from daskrf.errors import InputError
from daskrf.molecules.layout import open_parquet
from daskrf.molecules.library import Library, Reject, RowBatch, Segment, Source
from daskrf.molecules.lines import MAX_LINE_BYTES, MAX_TEXT, clean_smiles, parse_lines, row_batch
from daskrf.molecules.spool import CHUNK_ROWS, spooled_blocks
from daskrf.molecules.streams import LineStream, raw_blocks, text_blocks
from daskrf.paths import as_path

__all__ = ["BATCH_ROWS", "read_rows", "read_sorted"]

BATCH_ROWS = 10_000


def read_rows(library: Library, segment: Segment, row: int, spool: Path | None = None) -> Iterator[RowBatch]:
    """Yield the rows of `segment` in batches; `row` is the global number of its first row.

    Raises
    ------
    InputError
        If the file has another size than when it was scanned, or cannot be read. Other content of the same
        size is not noticed here: the digest would take a pass over the whole file.
    """
    source = library.sources[segment.source]
    _check_unchanged(source)
    if source.layout.kind == "parquet":
        yield from _parquet_batches(source, segment, row)
    else:
        yield from _text_batches(_open_lines(source, segment, spool), source, segment, row)


def read_sorted(library: Library, segments: list[tuple[int, Segment]]) -> Iterator[RowBatch]:
    """Yield the rows of `segments` of one text file in ascending order, each with its first global row.

    The file is decompressed once, where :func:`read_rows` without a spool does it for each segment.
    """
    source = library.sources[segments[0][1].source]
    _check_unchanged(source)
    lines = LineStream(text_blocks(as_path(source.path), source.layout.compression))
    at = -source.layout.header
    for row, segment in segments:
        lines.skip(segment.first_row - at)
        yield from _text_batches(lines, source, segment, row)
        at = segment.first_row + segment.n_rows


def _check_unchanged(source: Source) -> None:
    """Refuse a file of another size than the scanned one."""
    try:
        size = as_path(source.path).stat().st_size
    except OSError as error:
        raise InputError(
            f"{source.path} cannot be read ({error.strerror}); it was there at the scan.", errno=error.errno
        ) from None
    if size != source.bytes:
        raise _changed(source)


def _changed(source: Source) -> InputError:
    return InputError(f"{source.path} has changed since it was scanned; restore it or start a new store.")


def _open_lines(source: Source, segment: Segment, spool: Path | None) -> LineStream:
    """Return the lines of a text file from the first row of `segment` on."""
    path = as_path(source.path)
    if not source.layout.compression:
        lines = LineStream(raw_blocks(path, offset=segment.offset))
        lines.skip(segment.skip)
        return lines
    first, last = segment.first_row // CHUNK_ROWS, (segment.first_row + segment.n_rows - 1) // CHUNK_ROWS
    chunks = [spooled_blocks(spool, source, k) for k in range(max(first, 1), last + 1)] if spool else [None]
    if any(chunk is None for chunk in chunks):
        lines = LineStream(text_blocks(path, source.layout.compression))
        lines.skip(source.layout.header + segment.first_row)
        return lines
    head = _first_chunk(source) if first == 0 else iter(())
    lines = LineStream(itertools.chain(head, *(chunk for chunk in chunks if chunk is not None)))
    lines.skip(segment.first_row - first * CHUNK_ROWS)
    return lines


def _first_chunk(source: Source) -> Iterator[bytes]:
    """Yield the first 50,000 rows of a compressed file, which the spool leaves out."""
    lines = LineStream(text_blocks(as_path(source.path), source.layout.compression))
    lines.skip(source.layout.header)
    left = CHUNK_ROWS
    while left and (part := lines.take(min(left, BATCH_ROWS))):
        left -= part.count(b"\n")
        yield part


def _text_batches(lines: LineStream, source: Source, segment: Segment, row: int) -> Iterator[RowBatch]:
    """Yield the rows of `segment` from `lines`, which begin at its first row."""
    line = source.layout.header + segment.first_row + 1
    done = 0
    while done < segment.n_rows:
        part = lines.take(min(BATCH_ROWS, segment.n_rows - done))
        batch = parse_lines(part, segment.source, row + done, line + done, source.layout)
        if not batch.n_read:
            raise _changed(source)
        yield batch
        done += batch.n_read


def _parquet_batches(source: Source, segment: Segment, row: int) -> Iterator[RowBatch]:
    """Yield the rows of `segment` of a Parquet file, reading just the row groups that it touches."""
    layout = source.layout
    stop = segment.first_row + segment.n_rows
    positions = [layout.smiles, *([] if layout.id is None else [layout.id]), *(at for _, at in layout.extra)]
    names = [(layout.names or ())[position] for position in positions]
    with open_parquet(as_path(source.path)) as file:
        ends = np.cumsum([file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)])
        first_group = int(np.searchsorted(ends, segment.first_row, side="right"))
        last_group = int(np.searchsorted(ends, stop, side="left"))
        at = int(ends[first_group - 1]) if first_group else 0
        groups = list(range(first_group, last_group + 1))
        try:
            for table in file.iter_batches(BATCH_ROWS, row_groups=groups, columns=list(dict.fromkeys(names))):
                begin, end = max(segment.first_row - at, 0), min(stop - at, len(table))
                if end > begin:
                    part = table.slice(begin, end - begin)
                    columns = [_text_column(source, part, name) for name in names]
                    yield _parquet_batch(segment, layout.id is not None, columns, row, at + begin, source)
                    row += end - begin
                at += len(table)
        except (pa.ArrowException, OSError) as error:
            if (number := getattr(error, "errno", None)) is not None:
                raise InputError(
                    f"{source.path} cannot be read ({os.strerror(number)}); it was there at the scan.",
                    errno=number,
                ) from None
            reason = str(error).splitlines()[0][:200]
            raise InputError(f"{source.path} is damaged ({reason}); fetch the file again.") from None


def _text_column(source: Source, table: pa.RecordBatch, name: str) -> list[str | bytes | None]:
    """Return a column as text; bytes where it is not."""
    column = table.column(table.schema.get_field_index(name))
    try:
        text = column.cast(pa.string())
        try:
            return text.to_pylist()
        except UnicodeDecodeError:  # Parquet does not look at what it calls text
            return [_decoded(cell) for cell in text.cast(pa.binary()).to_pylist()]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(
            f"column {name!r} of {source.path} is {column.type}, which is not text or a number; leave it out."
        ) from None


def _decoded(cell: bytes | None) -> str | bytes | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return cell


def _parquet_batch(
    segment: Segment,
    has_id: bool,
    columns: list[list[Any]],
    row: int,
    first: int,
    source: Source,
) -> RowBatch:
    """Return a batch of `columns` (SMILES, ID if there is one, extra ones) from row `first` of the file."""
    position, smiles, rejects = [], [], []
    for k, cells in enumerate(zip(*columns, strict=True)):
        value = cells[0] or ""
        if any(isinstance(cell, bytes) for cell in cells):
            value = value.decode(errors="replace") if isinstance(value, bytes) else value
            reason = "not UTF-8 text"
        elif len(value) > MAX_LINE_BYTES:
            reason = f"longer than {MAX_LINE_BYTES:,} bytes"
        else:
            text = clean_smiles(value)
            reason = "" if text else "no SMILES"
        if reason:
            rejects.append(Reject(row + k, segment.source, first + k + 1, value[:MAX_TEXT], reason))
        else:
            position.append(k)
            smiles.append(text)
    if rejects:
        columns = [[column[k] for k in position] for column in columns]
    ids = [(name or "").strip() for name in columns[1]] if has_id else None
    keys = [key for key, _ in source.layout.extra]
    extra = dict(zip(keys, columns[1 + has_id :], strict=True))
    kept = np.array(position, dtype=np.int64)
    return row_batch(segment.source, row, first + 1, kept, smiles, ids, extra, rejects)
