"""Labels of blocks of rows: numbers on the scale of the targets, and limits."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.errors import InputError, printable
from daskrf.measurements.keys import keys_in
from daskrf.measurements.labeltable import LabelTable
from daskrf.measurements.reading import BY_SMILES
from daskrf.measurements.tally import Tally
from daskrf.measurements.textrows import TextRows, rows_of, text_rows
from daskrf.molecules.weights import molecular_weights
from daskrf.quantities import MISSING, is_number
from daskrf.tables.beside import is_limit, no_relation
from daskrf.tables.formats import Segment
from daskrf.tables.spool import Spool
from daskrf.tables.values.notation import (
    CENSORED,
    DROPPED,
    EMPTY,
    HUGE,
    NUMBER,
    RELATIONS,
    WEIGHT,
    Notation,
    is_value,
    side_of,
    sign_of,
)
from daskrf.tables.values.values import Scale, as_measured


class CutRowError(Exception):
    """A row continues behind the end of a segment, as one with a quoted line break does."""


@dataclass(frozen=True)
class Seen:
    """Labels of one target in some rows, as they are judged: those that are left out are not there.

    Attributes
    ----------
    lines : int64 array, shape (n,)
    values : float64 array, shape (n,), or None
        As read; None if they are the labels.
    y : float64 array, shape (n,)
        On their scale.
    """

    lines: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64] | None
    y: npt.NDArray[np.float64]


@dataclass(frozen=True)
class LabelBlock:
    """Labels of some consecutive rows of a table.

    Attributes
    ----------
    keys : pyarrow.Array
    y : float64 array, shape (n, n_targets)
        Values and limits; NaN where there is neither.
    side : int8 array, shape (n, n_targets)
        0 for values, else as in `Labels`.
    lines : int64 array, shape (n,)
    times : int64 array, shape (n,), or None
        As in `Labels`.
    seen : list of Seen
        By target.
    """

    keys: pa.Array
    y: npt.NDArray[np.float64]
    side: npt.NDArray[np.int8]
    lines: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64] | None
    seen: list[Seen]


def label_blocks(
    source: LabelTable,
    tally: Tally,
    segment: Segment | None = None,
    spool: Spool | None = None,
    *,
    is_last: bool = True,
) -> Iterator[LabelBlock]:
    """Yield the labels of all rows, or of a segment, in the order of the file.

    `tally` counts what is left out. A value that may not be left out raises an `InputError`.

    Raises
    ------
    CutRowError
        If a row continues behind the end of a segment that is not the last one.
    """
    for rows in rows_of(source, segment, spool):
        if rows.unfinished and not is_last:
            raise CutRowError
        if (block := text_rows(source, rows, tally.reject)) is not None:
            yield _labels_of(source, block, tally)


def _labels_of(source: LabelTable, block: TextRows, tally: Tally) -> LabelBlock:
    """Return the labels of a block of rows."""
    _check_flags(source, block)
    shape, lines = (len(block.lines), len(block.columns)), np.asarray(block.lines, np.int64)
    y, kinds, side = np.empty(shape), np.empty(shape, np.uint8), np.zeros(shape, np.int8)
    seen, read = [], np.empty(shape)
    for t, (texts, scale) in enumerate(zip(block.columns, source.scales, strict=True)):
        texts = _with_relations(source, block, texts)
        values, kinds[:, t], beside = source.notations[t].read(texts)
        units = _units(scale, source.usual[t], len(texts), block.more.get("units"), beside)
        molar, units = _by_weight(source, block, t, values=values, units=units, kinds=kinds, tally=tally)
        y[:, t], lost = scale.apply(molar, units)
        values = read[:, t] = values if scale.is_weighed else scale.in_its_unit(molar, units)
        kinds[lost != NUMBER, t] = lost[lost != NUMBER]
        huge = np.where(lost == HUGE, np.copysign(math.inf, -values if scale.is_p else values), y[:, t])
        kinds[source.limits[t].drops(huge, values), t] = DROPPED
        measured = kinds[:, t] == NUMBER
        if source.reading.limits_count and (kinds[:, t] == CENSORED).any():
            side[:, t] = _sides(texts, kinds[:, t], scale)
            measured |= (kinds[:, t] == CENSORED) & (side[:, t] == 0)
        there = measured & np.isfinite(y[:, t])
        as_read = values[there] if scale.transform else None
        seen.append(Seen(lines[there], as_read, y[there, t]))
    left = tally.count(block, kinds, side)
    _check_means(source, block, side)
    y[left] = np.nan
    some = ~left.all(axis=1)
    keys = keys_in(source, block.lines, block.keys).filter(pa.array(some))
    y, side = y[some], side[some]
    index, times, n_rows = np.arange(len(keys)), None, len(keys)
    if source.has_times:
        index, values = _measured(source, block, y[:, 0], np.flatnonzero(some))
        keys, y, side = keys.take(pa.array(index)), values[:, None], side[index]
        counts = np.bincount(index)
        times = np.zeros(len(index), np.int64)
        times[np.cumsum(counts) - counts] = counts
    tally.n_read, tally.n_rows = tally.n_read + len(block.lines), tally.n_rows + n_rows
    tally.see(y, side)
    tally.see_limits(y, side, read[some][index], lines[some][index])
    return LabelBlock(keys, y, side, lines[some][index], times if source.gives_times else None, seen)


def _by_weight(
    source: LabelTable,
    block: TextRows,
    t: int,
    *,
    values: npt.NDArray[np.float64],
    units: Sequence[str] | None,
    kinds: npt.NDArray[np.uint8],
    tally: Tally,
) -> tuple[npt.NDArray[np.float64], Sequence[str] | None]:
    """Return values and units with mass per volume in mol/L; marks and counts what it finds."""
    scale = source.scales[t]
    grams = scale.masses(len(values), units)
    texts = block.more.get("smiles", block.keys if source.reading.key in BY_SMILES else None)
    if grams is None or texts is None:
        return values, units
    rows = np.flatnonzero(np.isfinite(grams) & np.isfinite(values))
    if not len(rows):
        return values, units
    weights = molecular_weights([texts[row].strip() for row in rows.tolist()])
    molar, names = values.copy(), list(units or [scale.unit] * len(values))
    molar[rows] = values[rows] * grams[rows] / weights
    cell, unit = block.columns[t][rows[0]].strip(), names[rows[0]].strip()
    for row in rows.tolist():
        names[row] = "M"
    kinds[rows[np.isnan(weights)], t] = WEIGHT
    tally.count_weighed(int(np.isfinite(weights).sum()), cell if unit in cell else f"{cell} {unit}")
    return molar, names


def _units(
    scale: Scale, usual: str, n: int, column: Sequence[str] | None, beside: Sequence[str] | None
) -> Sequence[str] | None:
    """Return the unit of each of `n` values: that beside it, or in a column of units, or the usual one."""
    if column is None and beside is None and usual == scale.unit:
        return None
    others = [usual] * n
    if column is not None:
        others = [usual if text.strip().lower() in MISSING else text for text in column]
    return [unit or other for unit, other in zip(beside or [""] * n, others, strict=True)]


def _with_relations(source: LabelTable, block: TextRows, texts: list[str]) -> list[str]:
    """Return values behind the relations in a column of their own; a sign before the value itself counts."""
    relations = block.more.get("relations")
    if relations is None:
        return texts
    signs = {relation: sign_of(relation) for relation in set(relations)}
    if None in signs.values():
        at = next(at for at, relation in enumerate(relations) if signs[relation] is None)
        name = source.names[source.more["relations"]]
        raise InputError(f"{source.place(block.lines[at])}: {no_relation(name, relations[at])}")
    return [
        _with_relation(signs[relation] or "", text) for relation, text in zip(relations, texts, strict=True)
    ]


def _with_relation(sign: str, text: str) -> str:
    """Return a value behind its relation; a relation without a value is kept."""
    if sign and (is_number(text) or _is_bare(text)):
        return f"{sign}{text}"
    return sign if sign not in ("", "=") and text.strip().lower() in MISSING else text


def _is_bare(text: str) -> bool:
    """Return whether a cell holds a number without a relation before it."""
    return is_value(text) and not text.strip().startswith(RELATIONS)


def _check_flags(source: LabelTable, block: TextRows) -> None:
    """Refuse a label that is flagged as a limit without its direction."""
    name = source.names[source.more["flags"]] if "flags" in source.more else ""
    for line, flag in zip(block.lines, block.more.get("flags", ()), strict=False):
        if is_limit(name, flag):
            raise InputError(
                f"{source.place(line)}: '{printable(name, 60)}' holds {flag.strip()!r}, which marks a limit "
                "but does not say whether it is an upper or a lower one; write a relation such as < or > "
                "instead, or leave the column out to take all labels as measured"
            )


def _sides(texts: Sequence[str], kinds: np.ndarray, scale: Scale) -> npt.NDArray[np.int8]:
    """Return the side of each limit on the scale of the target, where a large concentration is small."""
    side = np.zeros(len(texts), np.int8)
    places = np.flatnonzero(kinds == CENSORED)
    side[places] = [side_of(texts[k]) for k in places.tolist()]
    return -side if scale.is_p else side


def _check_means(source: LabelTable, block: TextRows, side: npt.NDArray[np.int8]) -> None:
    """Refuse limits among means: it is not known which of their measurements are limits."""
    if "replicates" in source.more and side.any():
        line = block.lines[int(np.flatnonzero(side.any(axis=1))[0])]
        raise InputError(
            f"{source.place(line)} holds a limit, and with --replicates each row is a mean of measurements; "
            "leave limits out with --censored drop, or leave out --replicates"
        )


def _measured(
    source: LabelTable, block: TextRows, means: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of each measurement, and measurements in the place of their means."""

    def column(what: str, least: float) -> np.ndarray:
        texts = [block.more[what][row].strip() for row in rows.tolist()]
        values, kinds, _ = Notation(source.notations[0].decimal).read(texts)
        bad = (kinds != NUMBER) | (values < least) | ((values % 1 != 0) if what == "replicates" else False)
        if what != "replicates":
            bad &= ~((kinds == EMPTY) & (times == 1))  # one measurement has none
        if bad.any():
            at = int(np.argmax(bad))
            name, how = source.names[source.more[what]], "a whole number of at least 1"
            how = {"deviations": "a standard deviation", "errors": "a standard error"}.get(what, how)
            place = source.place(block.lines[int(rows[at])])
            raise InputError(f"{place}: '{printable(name, 60)}' holds {texts[at]!r}, not {how}; correct it")
        return np.nan_to_num(values)

    times = column("replicates", 1.0)
    std = column("deviations", 0.0) if "deviations" in source.more else np.zeros(len(times))
    if "errors" in source.more:
        std = column("errors", 0.0) * np.sqrt(times)
    return as_measured(means, times.astype(np.int64), std)
