"""The rows of a table of labels, as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from daskrf.measurements.labeltable import LabelTable
from daskrf.measurements.opening import purpose_of
from daskrf.tables.formats import EMPTY as EMPTY_LINE
from daskrf.tables.formats import Fault, Rows, Segment, View, reader_of, whole
from daskrf.tables.spool import Spool


@dataclass(frozen=True)
class TextRows:
    """Lines, keys, values of each target, and further columns of some rows, as text."""

    lines: list[int]
    keys: list[str]
    columns: list[list[str]]
    more: dict[str, list[str]]


def rows_of(source: LabelTable, segment: Segment | None = None, spool: Spool | None = None) -> Iterator[Rows]:
    """Yield the rows of a table or of a segment, with the columns that are read."""
    columns = [source.key_position, *source.targets, *source.more.values()]
    purpose = purpose_of(source.reading.key, accepts=source.reading.accept_rejects)
    view = View(source.path, source.table, columns, purpose)
    segments = [whole(source.table) if segment is None else segment]
    yield from reader_of(source.table).read(view, segments, spool)


def text_rows(source: LabelTable, rows: Rows, reject: Callable[[Fault], None]) -> TextRows | None:
    """Return rows as text, if there are any; `reject` gets faulty ones other than blank lines."""
    for fault in rows.faults:
        if fault.reason != EMPTY_LINE:
            reject(fault)
    if not len(rows.row):
        return None
    keys, *values = ([text or "" for text in column] for column in rows.columns)
    n = len(source.targets)
    more = dict(zip(source.more, values[n:], strict=True))
    return TextRows(rows.line.tolist(), keys, values[:n], more)
