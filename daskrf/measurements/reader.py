"""All labels of a file, in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.arrays import GrowingArray
from daskrf.measurements.blocks import LabelBlock, label_blocks
from daskrf.measurements.doubts import SeenValues, doubts_of, notes_on_labels
from daskrf.measurements.keys import encoded, key_column, keys_in, marked_among, notes_on_keys
from daskrf.measurements.labels import Labels
from daskrf.measurements.labeltable import LabelTable
from daskrf.measurements.opening import open_labels
from daskrf.measurements.reading import Reading
from daskrf.measurements.tally import Tally
from daskrf.measurements.textrows import rows_of, text_rows
from daskrf.tables.formats import Column
from daskrf.tables.keytable import KeyTable
from daskrf.tables.values.names import position_of


def read_labels(
    path: str | os.PathLike[str],
    reading: Reading | None = None,
    *,
    existing: npt.NDArray[np.float64] | None = None,
    lines: bool = False,
    **options: Any,
) -> Labels:
    """Read labels from a table in any format that libraries may have, plain or compressed.

    Parameters
    ----------
    path : path
    reading : Reading, optional
    existing : float array, shape (m, n_targets), optional
        Labels that the model already has for these targets; new labels are checked against them, too.
    lines : bool
        Keep the line of each label.
    **options
        Fields of a `Reading`, if none is given.

    Returns
    -------
    Labels

    Raises
    ------
    InputError
        If a column does not exist, a choice is ambiguous, or a value is not a finite number or cannot be
        right; the message gives file and line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "scores.csv")
    ...     _ = path.write_text("id,score\\nA,-7.5\\nB,-8\\nA,-1\\n")
    ...     labels = read_labels(path)
    >>> labels.keys.to_pylist(), labels.index.tolist(), labels.y.ravel().tolist()
    (['A', 'B'], [0, 1, 0], [-7.5, -8.0, -1.0])
    """
    source = open_labels(path, reading or Reading(**options))
    columns, tally = _Columns(source, lines=lines), Tally(source)
    for block in label_blocks(source, tally):
        columns.append(block)
    y = columns.y.finish()
    doubts = [
        doubts_of(
            source,
            t,
            values.finish(),
            _finite(y[:, t]),
            None if existing is None else existing[:, t],
            limits=tally.targets[t].farthest,
        )
        for t, values in enumerate(columns.values)
    ]
    file = tally.described(notes_on_labels(source, doubts), has_scale=existing is not None)
    bound, side = columns.limits.finish(y.shape)
    table, index = encoded(columns.keys.finish(), source.reading.key)
    more = notes_on_keys(marked_among(_texts(table), source.reading.key))
    return Labels(
        **vars(replace(file, notes=file.notes + more)),
        table=table,
        index=index,
        y=y,
        times=None if columns.times is None else columns.times.finish(),
        lines=None if columns.lines is None else columns.lines.finish(),
        bound=bound,
        side=side,
    )


def read_column(
    path: str | os.PathLike[str], column: Column, reading: Reading | None = None, **options: Any
) -> tuple[Labels, list[str]]:
    """Return the keys of all rows as labels without values, and the text of another column in each row.

    Parameters
    ----------
    path : path
    column : str or int
        A name, or a position counted from 0.
    reading, **options : as for `read_labels`

    Raises
    ------
    InputError
        As `read_labels`, for the columns and keys.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "scores.csv")
    ...     _ = path.write_text("id,score,date\\nA,-7.5,2021\\nB,-8,2020\\nA,-1,2022\\n")
    ...     labels, dates = read_column(path, "date", targets=["score"])
    >>> labels.keys.to_pylist(), labels.index.tolist(), dates
    (['A', 'B'], [0, 1, 0], ['2021', '2020', '2022'])
    """
    labels, (texts,) = read_columns(path, [column], reading or Reading(**options))
    return labels, texts


def read_columns(
    path: str | os.PathLike[str], columns: Sequence[Column], reading: Reading
) -> tuple[Labels, list[list[str]]]:
    """Return the keys of all rows, as `read_column`, and the texts of several other columns.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "scores.csv")
    ...     _ = path.write_text("id,score,lab,date\\nA,-7.5,X,2021\\nB,-8,Y,2020\\n")
    ...     labels, texts = read_columns(path, ["date", 2], Reading(targets=["score"]))
    >>> labels.keys.to_pylist(), texts
    (['A', 'B'], [['2021', '2020'], ['X', 'Y']])
    """
    source = open_labels(path, reading)
    key = source.reading.key
    positions = [position_of(source.path, each, source.names, len(source.names)) for each in columns]
    keys, lines = key_column(key), list[int]()
    texts: list[list[str]] = [[] for _ in positions]
    some = replace(source, targets=positions, more={})
    reject = Tally(source).reject
    for block in filter(None, (text_rows(some, rows, reject) for rows in rows_of(some))):
        keys.append(keys_in(source, block.lines, block.keys))
        for of_column, more in zip(texts, block.columns, strict=True):
            of_column += more
        lines += block.lines
    table, index = encoded(keys.finish(), key)
    return Labels(
        table=table,
        index=index,
        y=np.empty((len(lines), 0)),
        names=(),
        key=key,
        n_labels=len(lines),
        read=len(lines),
        dropped=0,
        path=str(path),
        lines=np.array(lines, np.int64),
    ), texts


class _LimitCells:
    """The limits among labels, of which there may be none."""

    def __init__(self) -> None:
        self._place, self._bound = GrowingArray(np.int64), GrowingArray(np.float64)
        self._side, self._n = GrowingArray(np.int8), 0

    def append(self, y: np.ndarray, side: np.ndarray) -> None:
        """Add the limits among some labels."""
        places = np.flatnonzero(side.ravel())
        self._place.append(self._n + places)
        self._n += side.size
        self._bound.append(y.ravel()[places])
        self._side.append(side.ravel()[places])

    def finish(self, shape: tuple[int, ...]) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return limits and sides of all labels; None if there are no limits."""
        place = self._place.finish()
        if not len(place):
            return None, None
        bound, side = np.full(shape, np.nan), np.zeros(shape, np.int8)
        bound.flat[place], side.flat[place] = self._bound.finish(), self._side.finish()
        return bound, side


class _Columns:
    """What is read of all labels: keys, values, limits, lines if asked for, and numbers of measurements."""

    def __init__(self, source: LabelTable, *, lines: bool) -> None:
        self.keys = key_column(source.reading.key)
        self.y, self.limits = GrowingArray(np.float64, len(source.targets)), _LimitCells()
        self.lines = GrowingArray(np.int64) if lines else None
        self.times = GrowingArray(np.int64) if source.gives_times else None
        self.values = [SeenValues(source, t) for t in range(len(source.targets))]

    def append(self, block: LabelBlock) -> None:
        """Add some labels."""
        self.keys.append(block.keys)
        self.limits.append(block.y, block.side)
        self.y.append(np.where(block.side == 0, block.y, np.nan))
        if self.lines is not None:
            self.lines.append(block.lines)
        if self.times is not None and block.times is not None:
            self.times.append(block.times)
        for values, seen in zip(self.values, block.seen, strict=True):
            values.append(seen)


def _finite(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the finite values, without a copy if all are."""
    there = np.isfinite(values)
    return values if there.all() else values[there]


def _texts(table: KeyTable) -> Iterator[str]:
    """Yield the distinct keys of a table."""
    return (text for keys in table.distinct() for text in keys.to_pylist())
