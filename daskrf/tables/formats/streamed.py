"""Base of formats whose rows follow each other in a stream of bytes, plain or compressed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import ClassVar

import numpy as np

from daskrf.tables import spool as spools
from daskrf.tables.formats import (
    BATCH_ROWS,
    INDEX_STEP,
    MAX_TEXT,
    Fault,
    Purpose,
    Reader,
    Rows,
    Segment,
    Table,
    View,
)
from daskrf.tables.spool import Spool, SpoolWriter
from daskrf.tables.streams import LineStream, raw_blocks, text_blocks

BOM = b"\xef\xbb\xbf"

Fields = list[str | None]


class Streamed(Reader):
    """A format of which each line is a row; longer rows take `rows_in`, `count` and `split`."""

    streams = True
    row_word: ClassVar[str] = "line"

    def rows_in(self, blocks: Iterator[bytes], purpose: Purpose | None = None) -> LineStream:
        """Return the stream of rows in the content of a file; those too long for a purpose are truncated."""
        return LineStream(blocks, purpose.longest) if purpose else LineStream(blocks)

    def count(self, piece: bytes) -> int:
        """Return the number of rows in a part of a stream."""
        return piece.count(b"\n")

    def split(self, piece: bytes) -> list[bytes]:
        """Return the rows in a part of a stream."""
        return piece.split(b"\n")[:-1]

    def shown(self, row: bytes) -> str:
        """Return the text to show for a row."""
        return row[: 4 * MAX_TEXT].decode(errors="replace").rstrip("\r")[:MAX_TEXT]

    @abstractmethod
    def records(self, lines: list[bytes], view: View) -> Iterator[tuple[int, Fields | str | None]]:
        """Yield the position of each row in some lines, with its requested columns or why it cannot be read.

        Yields None instead if the last row continues in later lines: it will be passed again with them.
        """

    def scan(
        self, path: PurePath, table: Table, blocks: Iterator[bytes], spool: SpoolWriter | None = None
    ) -> tuple[int, list[int]]:
        lines = self.rows_in(blocks)
        lines.skip(table.header)
        rows, index = 0, [lines.offset]
        while piece := lines.take(min(step - rows % step for step in (INDEX_STEP, spools.CHUNK_ROWS))):
            if spool is not None:
                spool.add(rows, piece)
            rows += self.count(piece)
            if rows % INDEX_STEP == 0:
                index.append(lines.offset)
        return rows, index

    def read(self, view: View, segments: Iterable[Segment], spool: Spool | None = None) -> Iterator[Rows]:
        """Without `spool`, a compressed file is decompressed once for all segments."""
        lines, at, header = None, 0, view.table.header
        for segment in segments:
            if lines is None or spool or not view.table.compression:
                lines, at = self._begin(view, segment, spool)
            lines.skip(segment.first_row - at)
            at, rest = segment.first_row, b""
            stop = at + segment.n_rows
            while at < stop and (piece := lines.take(min(BATCH_ROWS, stop - at))):
                if at + header == 0:
                    piece = piece.removeprefix(BOM)
                first = at - self.count(rest)
                at += self.count(piece)
                rows, rest = self.parse(rest + piece, first, view)
                yield rows
            if rest:
                yield replace(self.unfinished(rest, at - self.count(rest), view), unfinished=True)

    def unfinished(self, rest: bytes, row: int, view: View) -> Rows:
        """Return what the last lines of a segment are, if they begin a row that does not end there."""
        shown = self.shown(rest.partition(b"\n")[0])
        fault = Fault(row, view.table.header + row + 1, shown, "row without end")
        return Rows(_NONE, _NONE, [[] for _ in view.columns], [fault], str)

    def parse(self, buffer: bytes, first: int, view: View) -> tuple[Rows, bytes]:
        """Return the rows in `buffer`, starting at row `first`, and the lines to be passed again."""
        lines = self.split(buffer)
        return self.collected(lines, self.records(lines, view), first, view)

    def collected(
        self, lines: list[bytes], records: Iterable[tuple[int, Fields | str | None]], first: int, view: View
    ) -> tuple[Rows, bytes]:
        """Return the records of lines as rows, and the lines to be passed again."""
        line = view.table.header + first + 1
        positions: list[int] = []
        accepted: list[Fields] = []
        faults: list[Fault] = []
        rest = len(lines)
        for at, fields in records:
            if fields is None:
                rest = at
            elif isinstance(fields, str):
                faults.append(Fault(first + at, line + at, self.shown(lines[at]), fields))
            else:
                positions.append(at)
                accepted.append(fields)
        row = first + np.array(positions, dtype=np.int64)
        values = [[fields[k] for fields in accepted] for k in range(len(view.columns))]
        rows = Rows(
            row, view.table.header + row + 1, values, faults, lambda k: self.shown(lines[positions[k]])
        )
        return rows, b"".join(line + b"\n" for line in lines[rest:])

    def _begin(self, view: View, segment: Segment, spool: Spool | None) -> tuple[LineStream, int]:
        """Return rows that begin at or before the first one of a segment, and the row at which they begin."""
        if not view.table.compression:
            lines = self.rows_in(raw_blocks(view.path, offset=segment.offset), view.purpose)
            return lines, segment.first_row - segment.skip
        first = segment.first_row // spools.CHUNK_ROWS
        last = (segment.first_row + segment.n_rows - 1) // spools.CHUNK_ROWS
        chunks = spool.blocks(first, last) if spool else None
        if chunks is not None:
            return self.rows_in(chunks, view.purpose), first * spools.CHUNK_ROWS
        lines = self.rows_in(text_blocks(view.path, view.table.compression), view.purpose)
        return lines, -view.table.header


_NONE = np.zeros(0, dtype=np.int64)
