"""Labels that are probably wrong, and what to do with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daskrf.arrays import GrowingArray
from daskrf.errors import InputError, printable
from daskrf.measurements.blocks import Seen
from daskrf.measurements.labeltable import LabelTable
from daskrf.measurements.tally import FarLimit
from daskrf.tables.values.names import PRODUCT_COLUMNS, find_id
from daskrf.tables.values.repeats import notes_on_suffixes
from daskrf.tables.values.suspicious import Suspicion, suspicions
from daskrf.tables.values.values import is_concentration

_FEW_VALUES = 4  # different values that are named one by one


@dataclass(frozen=True)
class Doubt:
    """Labels that are probably wrong: what they are, in words, and the option that leaves them out."""

    text: str
    option: str


@dataclass(frozen=True)
class Doubts:
    """Labels of one target that cannot be right, and those that are doubtful, by groups."""

    wrong: list[Doubt]
    doubtful: list[Doubt]


class SeenValues:
    """Labels of a target as they are judged, in the order of the file.

    With `alone`, they are kept even where they are the labels themselves, which the reader keeps.
    """

    def __init__(self, source: LabelTable, t: int, *, alone: bool = False) -> None:
        self.lines = _Lines()
        self._values = GrowingArray(np.float64) if source.scales[t].transform else None
        self._y = GrowingArray(np.float64) if alone or source.judges_others else None
        self.values: npt.NDArray[np.float64] | None = None
        self.y: npt.NDArray[np.float64] | None = None

    def append(self, seen: Seen) -> None:
        """Add some labels."""
        self.lines.append(seen.lines)
        for column, values in ((self._values, seen.values), (self._y, seen.y)):
            if column is not None and values is not None:
                column.append(values)

    def finish(self) -> SeenValues:
        """Return the values with their arrays in place, without room for more."""
        self.values = None if self._values is None else self._values.finish()
        self.y = None if self._y is None else self._y.finish()
        return self


class _Lines:
    """Ascending line numbers, kept as runs of consecutive ones."""

    def __init__(self) -> None:
        self._n, self._runs = 0, GrowingArray(np.int64, 2)  # position and line of the first of each run

    def append(self, lines: npt.NDArray[np.int64]) -> None:
        """Add some lines."""
        first = np.flatnonzero(np.diff(lines, prepend=-2) != 1)
        self._runs.append(np.column_stack([self._n + first, lines[first]]))
        self._n += len(lines)

    def at(self, position: int) -> int:
        """Return the line at a position."""
        runs = self._runs.values
        place, line = runs[int(np.searchsorted(runs[:, 0], position, side="right")) - 1].tolist()
        return int(line + position - place)


def doubts_of(
    source: LabelTable,
    t: int,
    seen: SeenValues,
    y: npt.NDArray[np.float64],
    existing: npt.NDArray[np.float64] | None = None,
    *,
    limits: Sequence[FarLimit] = (),
) -> Doubts:
    """Return which labels of target `t` are probably wrong, judged by all of them.

    `y` has its finite labels, in the order of the file, unless `seen` has them; `existing` has those that
    the model has already. `limits` are the farthest ones on either side.
    """
    scale, doubts = source.scales[t], Doubts([], [])
    y = y if seen.y is None else seen.y
    if not len(y):
        return doubts
    values = y if seen.values is None else seen.values
    others = np.empty(0) if existing is None else existing[np.isfinite(existing)]
    wide = not scale.transform and is_concentration(scale.column, scale.unit)
    every = np.concatenate([y, others]) if len(others) else y
    groups = suspicions(every, wide=wide)
    for limit in limits:
        if (doubt := _words_on_limit(source, t, limit, every, groups)) is not None:
            doubts.doubtful.append(doubt)
    if not groups:
        return doubts
    clean = np.ones(len(y), bool)
    for each in groups:
        clean[each.members[each.members < len(y)]] = each.kind in ("spike", "limit")
    name = printable(source.names[source.targets[t]], 60)
    prefix = f"{name}=" if len(source.targets) > 1 else ""
    for each in groups:
        members = each.members[each.members < len(y)]
        if len(members):
            place = source.place_in(seen.lines.at(int(members[0])))
            line = f"{place}: {values[members[0]]:g}"
            words = _suspicion_words(each.kind, values[members], values[clean], line)
            option = _leaving_out(values[members], values[clean], prefix)
            usual = source.usual[t]
            unit = f", in {scale.unit or 'mol/L'}," if scale.units or scale.unit != usual else ""
            text = f"{len(members):,} of {len(y):,} labels of '{name}'{unit} {words}"
            (doubts.wrong if each.certain else doubts.doubtful).append(Doubt(text, option))
    return doubts


def notes_on_labels(source: LabelTable, doubts: Sequence[Doubts]) -> tuple[str, ...]:
    """Return a line on each group of labels that are probably wrong, and on IDs like those of poses.

    Raises
    ------
    InputError
        If some labels cannot be right.
    """
    return (*_notes_on_values(source, doubts), *_notes_on_names(source))


def _words_on_limit(
    source: LabelTable, t: int, limit: FarLimit, y: np.ndarray, groups: Sequence[Suspicion]
) -> Doubt | None:
    """Return what is suspicious about a limit; None if nothing is.

    It is judged as a measured value would be, by those that are not suspicious themselves.
    """
    clean = np.ones(len(y), bool)
    for each in groups:
        clean[each.members] = each.kind in ("spike", "limit")
    usual = y[clean]
    if not len(usual) or (limit.y <= usual.max() if limit.side > 0 else limit.y >= usual.min()):
        return None
    scale = source.scales[t]
    wide = not scale.transform and is_concentration(scale.column, scale.unit)
    judged = suspicions(np.append(usual, limit.y), wide=wide)
    if not any(each.kind in ("far", "beyond") and len(usual) in each.members for each in judged):
        return None
    name = printable(source.names[source.targets[t]], 60)
    sign = ">" if (limit.side > 0) != scale.is_p else "<"
    unit = f" {scale.unit}" if scale.unit else ""
    turned = ">" if limit.side > 0 else "<"
    on_scale = f", {turned} {limit.y:.6g} as {scale.name}," if scale.transform else ""
    option = _leaving_out(np.array([limit.value]), usual, f"{name}=" if len(source.targets) > 1 else "")
    where = source.place_in(limit.line)
    return Doubt(
        f"the limit {sign} {repr(limit.value).removesuffix('.0')}{unit} of '{name}' ({where}){on_scale} lies "
        f"far beyond all measured values ({usual.min():.6g} to {usual.max():.6g}) and draws predictions "
        "there",
        option,
    )


def _notes_on_values(source: LabelTable, doubts: Sequence[Doubts]) -> tuple[str, ...]:
    """Return a line on each group of labels that are probably wrong; refuse impossible ones."""
    wrong = [each for target in doubts for each in target.wrong]
    doubtful = [each for target in doubts for each in target.doubtful]
    if wrong and not source.reading.accept_outliers:
        raise InputError(
            f"{source.path}: {'; '.join(each.text for each in wrong)}. Leave them out with "
            f"{' '.join(dict.fromkeys(each.option for each in wrong))}, or keep them with "
            "--accept-outliers (accept_outliers=True)"
        )
    return tuple(
        f"{each.text}; {each.option} leaves {'it' if each.text.startswith('the limit ') else 'them'} out"
        for each in [*wrong, *doubtful]
    )


def _notes_on_names(source: LabelTable) -> tuple[str, ...]:
    """Return a line if IDs look like those of poses or protomers, and all labels are used as they are."""
    id_column = find_id(source.names, source.head.values, title=source.head.title)
    if id_column is None or source.reading.repeats != "all" or "replicates" in source.more:
        return ()
    if PRODUCT_COLUMNS.issubset(source.names):
        return ()  # IDs of products end in the IDs of blocks
    return notes_on_suffixes(source.head.values(id_column))


def _suspicion_words(kind: str, values: np.ndarray, clean: np.ndarray, example: str) -> str:
    """Return what is suspicious about some labels, compared with the clean ones, and an example."""
    low, high = float(values.min()), float(values.max())
    which = f"are exactly {low:g}" if low == high else f"are from {low:g} to {high:g}"
    most = np.quantile(clean, [0.05, 0.95]) if len(clean) else values[:2]
    others = f"{clean.min():g} to {clean.max():g}" if len(clean) else "those of the model"
    side = "smallest" if not len(clean) or low <= clean.min() else "largest"
    how = {
        "far": f"far from all others ({others})",
        "spike": "far more than at any nearby value",
        "sign": f"opposite in sign to nearly all others ({most[0]:g} to {most[-1]:g})",
        "limit": f"the {side} value and perhaps a limit of detection, but taken as measured",
        "beyond": f"far beyond the usual range ({most[0]:g} to {most[-1]:g})",
    }[kind]
    return f"{which}, {how}, such as {example}"


def _leaving_out(values: np.ndarray, clean: np.ndarray, prefix: str) -> str:
    """Return the option that leaves out some labels, and keeps those that are not suspicious."""
    distinct = np.unique(values)
    if len(distinct) > _FEW_VALUES and len(clean):
        low, high = (f"{float(end)!r}".removesuffix(".0") for end in (clean.min(), clean.max()))
        return f"--drop-outside {prefix}{low}:{high}"
    return " ".join(f"--drop-value {prefix}{float(v)!r}".removesuffix(".0") for v in distinct)
