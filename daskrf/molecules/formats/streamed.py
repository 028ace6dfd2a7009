"""What formats share whose rows follow each other in a stream of bytes, plain or compressed."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from daskrf.molecules import spool as spools
from daskrf.molecules.formats import (
    BATCH_ROWS,
    INDEX_STEP,
    MAX_TEXT,
    Fault,
    Purpose,
    Reader,
    Rows,
    Segment,
    Table,
)
from daskrf.molecules.spool import Spool, SpoolWriter
from daskrf.molecules.streams import LineStream, raw_blocks, text_blocks

__all__ = ["Fields", "Streamed", "shown"]

BOM = b"\xef\xbb\xbf"

Fields = list[str | None]


class Streamed(Reader):
    """A format of which each line is a row."""

    streams = True
    row_word: ClassVar[str] = "line"

    @abstractmethod
    def records(
        self, lines: list[bytes], table: Table, columns: Sequence[int], purpose: Purpose
    ) -> Iterator[tuple[int, Fields | str | None]]:
        """Yield the position of each row in some lines, and its wanted columns, or why it cannot be read.

        None instead if the last row goes on in lines to come: it will be among the next lines again.
        """

    def scan(
        self, path: Path, table: Table, blocks: Iterator[bytes], spool: SpoolWriter | None = None
    ) -> tuple[int, list[int]]:
        """See `Reader`."""
        lines = LineStream(blocks)
        lines.skip(table.header)
        rows, index = 0, [lines.offset]
        while True:
            step = INDEX_STEP - rows % INDEX_STEP
            if spool is None:
                count = lines.skip(step)
            else:
                part = lines.take(min(step, spools.CHUNK_ROWS - rows % spools.CHUNK_ROWS))
                count = part.count(b"\n")
                spool.add(rows, part)
            if not count:
                return rows, index
            rows += count
            if rows % INDEX_STEP == 0:
                index.append(lines.offset)

    def read(
        self,
        path: Path,
        table: Table,
        columns: Sequence[int],
        purpose: Purpose,
        segments: Iterable[Segment],
        spool: Spool | None = None,
    ) -> Iterator[Rows]:
        """See `Reader`; without `spool`, a compressed file is decompressed once for all segments."""
        lines, at = None, 0
        for segment in segments:
            if lines is None or spool or not table.compression:
                lines, at = _begin(path, table, segment, spool, purpose.longest)
            lines.skip(segment.first_row - at)
            at, rest = segment.first_row, b""
            stop = at + segment.n_rows
            while at < stop and (part := lines.take(min(BATCH_ROWS, stop - at))):
                if at + table.header == 0:
                    part = part.removeprefix(BOM)
                first = at - rest.count(b"\n")
                at += part.count(b"\n")
                rows, rest = self.parse(rest + part, first, table, columns, purpose)
                yield rows
            if rest:
                row = at - rest.count(b"\n")
                fault = Fault(row, table.header + row + 1, shown(rest.partition(b"\n")[0]), "row without end")
                yield Rows(_NONE, _NONE, [[] for _ in columns], [fault], str)

    def parse(
        self, buffer: bytes, first: int, table: Table, columns: Sequence[int], purpose: Purpose
    ) -> tuple[Rows, bytes]:
        """Return the rows in `buffer`, from row `first` on, and those of its lines that are to come again."""
        lines = buffer.split(b"\n")[:-1]
        positions: list[int] = []
        kept: list[Fields] = []
        faults: list[Fault] = []
        rest = len(lines)
        for at, fields in self.records(lines, table, columns, purpose):
            if fields is None:
                rest = at
            elif isinstance(fields, str):
                faults.append(Fault(first + at, table.header + first + at + 1, shown(lines[at]), fields))
            else:
                positions.append(at)
                kept.append(fields)
        row = first + np.array(positions, dtype=np.int64)
        values = [[fields[k] for fields in kept] for k in range(len(columns))]
        rows = Rows(row, table.header + row + 1, values, faults, lambda k: shown(lines[positions[k]]))
        return rows, b"".join(line + b"\n" for line in lines[rest:])


def shown(line: bytes) -> str:
    """Return what to show of a line."""
    return line[: 4 * MAX_TEXT].decode(errors="replace").rstrip("\r")[:MAX_TEXT]


_NONE = np.zeros(0, dtype=np.int64)


def _begin(
    path: Path, table: Table, segment: Segment, spool: Spool | None, longest: int
) -> tuple[LineStream, int]:
    """Return lines that begin at the first row of a segment or before it, and the row they begin at."""
    if not table.compression:
        lines = LineStream(raw_blocks(path, offset=segment.offset), longest)
        return lines, segment.first_row - segment.skip
    size = spools.CHUNK_ROWS
    start = segment.first_row // size
    last = (segment.first_row + segment.n_rows - 1) // size
    chunks = spool.blocks(max(start, 1), last) if spool else None
    lines = LineStream(text_blocks(path, table.compression), longest)
    if chunks is None:
        lines.skip(table.header)
        return lines, 0
    if not start:
        lines.skip(table.header)
        chunks = itertools.chain(_first_chunk(lines), chunks)
    return LineStream(chunks, longest), start * size


def _first_chunk(lines: LineStream) -> Iterator[bytes]:
    """Yield the first 50,000 rows of a compressed file, which the spool leaves out."""
    left = spools.CHUNK_ROWS
    while left and (part := lines.take(min(left, BATCH_ROWS))):
        left -= part.count(b"\n")
        yield part
