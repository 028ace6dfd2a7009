"""Base of formats whose rows are collected from several lines each, read from the first line to the last."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np

from daskrf.tables.formats import (
    BATCH_ROWS,
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
from daskrf.tables.spool import Spool, SpoolWriter
from daskrf.tables.streams import LineStream, text_blocks

_LONGEST = 1 << 16  # bytes of a line
_LINES = 1 << 14  # taken at a time
_HEAD = 1_000  # first rows in which names of columns are looked for; molecules may have dozens of poses
NAME: str = "name"
"""Column of the names of molecules."""
SMILES: str = "smiles"
"""Column of their SMILES, if the format has them."""
POSE: str = "pose"
"""Column of the numbers of poses."""
POSES: str = "daskrf poses"
"""Key under which the metadata of a table of the poses in many files say in words how these were read."""
FILE: str = "file"
"""Column of the path of the file of each pose, in such a table."""
FAULT: str = "fault"
"""Column of the reason why a pose cannot be read, in such a table."""
NO_SCORE: str = "is missing; dock the molecule again"
"""What is wrong with a pose without a score, and what to do."""


@dataclass(frozen=True)
class Record:
    """What some lines hold: the number of the first, its text, and the fields by the names of columns.

    `fault` is the reason why the record cannot be read.
    """

    line: int
    text: str
    fields: Mapping[str, str]
    fault: str = ""


class Sequential(Reader):
    """A format of which `records` makes rows out of lines; it is parsed from its beginning for each segment.

    It suits files of scores, which are small: 10^6 poses take seconds.
    """

    streams = True
    holds_poses = True
    row_word = "pose"

    def place(self, path: PurePath, table: Table, line: int) -> str:
        """A row is called after its first line."""
        return f"line {line}" if self.row_word == "line" else f"the {self.row_word} in line {line}"

    def no_value(self, table: Table) -> str:
        return NO_SCORE

    @abstractmethod
    def records(self, lines: Iterator[tuple[int, str]], path: PurePath) -> Iterator[Record]:
        """Yield the rows in numbered lines, which have no ends, of a file that is at a path."""

    def open(self, path: PurePath, compression: str, blocks: Iterator[bytes], purpose: Purpose) -> Head:
        records = list(itertools.islice(self.records(_numbered(blocks), path), _HEAD))
        good = [record.fields for record in records if not record.fault]
        every = dict.fromkeys(itertools.chain.from_iterable(good))
        first = [name for name in (NAME, SMILES, POSE) if name in every or name == NAME]
        names = (*first, *(name for name in every if name not in first))
        return Head(
            Table(self.name, compression, "", True, 0, names, len(names)),
            n_rows=len(good),
            width=len(names),
            text=range(len(names)),
            columns=lambda positions: [
                [fields[names[at]] for fields in good if names[at] in fields] for at in positions
            ],
            structure=names.index(SMILES) if SMILES in names else None,
            title=0,
        )

    def scan(
        self, path: PurePath, table: Table, blocks: Iterator[bytes], spool: SpoolWriter | None = None
    ) -> tuple[int, list[int]]:
        return sum(1 for _ in self.records(_numbered(blocks), path)), []

    def read(self, view: View, segments: Iterable[Segment], spool: Spool | None = None) -> Iterator[Rows]:
        names = view.table.names or ()
        wanted = [names[at] for at in view.columns]
        for segment in segments:
            lines = _numbered(text_blocks(view.path, view.table.compression))
            first, stop = segment.first_row, segment.first_row + segment.n_rows
            records = itertools.islice(enumerate(self.records(lines, view.path)), first, stop)
            while batch := list(itertools.islice(records, BATCH_ROWS)):
                yield _rows(batch, wanted)


def _numbered(blocks: Iterator[bytes]) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file, from 1."""
    stream, number = LineStream(blocks, _LONGEST), 0
    while piece := stream.take(_LINES):
        for line in piece.split(b"\n")[:-1]:
            number += 1
            yield number, line.decode(errors="replace").rstrip("\r")


def _rows(batch: Sequence[tuple[int, Record]], wanted: Sequence[str]) -> Rows:
    good = [(row, record) for row, record in batch if not record.fault]
    return Rows(
        row=np.array([row for row, _ in good], np.int64),
        line=np.array([record.line for _, record in good], np.int64),
        columns=[[record.fields.get(name) for _, record in good] for name in wanted],
        faults=[
            Fault(row, record.line, record.text[:MAX_TEXT], record.fault)
            for row, record in batch
            if record.fault
        ],
        text=lambda k: good[k][1].text[:MAX_TEXT],
    )
