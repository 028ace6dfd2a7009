"""Labels that are probably wrong: failures, clashes, other signs, and ties to a limit of detection."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Kind = Literal["far", "spike", "sign", "limit", "beyond"]

_FEWEST: Final = 10  # labels, and...
_VALUES: Final = 8  # ...different values, of which some may be judged by the others
_SHARE: Final = 10  # at most a tenth of the labels lie far outside of the others, if they are not equal
_SHARED: Final = 20  # a value that more than a twentieth of them share is judged as one
_SURE, _SURE_OF_SIGN, _GAP = 5.0, 2.0, 1.0  # gaps, as multiples of the range of the others; ...
_GAP_OF_FEW: Final = 2.0  # ...of few of them
_PLAIN: Final = 20.0  # the same for positive values, which might have a long tail
_MANY: Final = 30  # labels that show whether they have a long tail
_DECADES: Final = 30.0  # a larger ratio is rather seen on a logarithmic scale
_DISCRETE: Final = 20  # fewer different values are classes, ranks or counts
_COUNTS: Final = 200.0  # integers of a smaller range are counts or percentages
_NEIGHBOURS: Final = 10  # different values on either side of a spike that it is compared with
_TIMES, _TIMES_INSIDE = 5.0, 10.0  # how much more frequent a spike is than its neighbours
_FEW_TIES: Final = 5
_ALONE: Final = 2.5  # robust standard deviations from the median of a value that is apart from others
_LIMIT_SHARE: Final = 0.02  # of the labels that are tied to a limit
_LIMIT: Final = 8.0  # robust standard deviations
_LONG_TAIL: Final = 1.5  # skewness
_AT_ONCE: Final = 1 << 20  # values
_SIGN: Final = 5.0
_RARE: Final = 0.02
_OTHERS: Final = 0.05  # of the labels may have another sign than the rest


@dataclass(frozen=True)
class Suspicion:
    """Labels that are probably wrong.

    Attributes
    ----------
    kind : str
        "far" outside of all others; a "spike" of one value; another "sign" than the others; ties to a
        "limit", the smallest or largest value; or "beyond" robust limits.
    members : int64 array
        Their positions.
    certain : bool
        Whether they cannot be values of the same quantity as the others.
    """

    kind: Kind
    members: Indices
    certain: bool = False


def suspicions(y: Floats, *, wide: bool = False) -> list[Suspicion]:
    """Return groups of labels that are probably wrong, judged by all others; no label is in two of them.

    Parameters
    ----------
    y : float64 array, shape (n,)
        Finite.
    wide : bool
        Whether they are concentrations or the like, which span decades.

    Notes
    -----
    Values that are positive and have a long tail are compared as logarithms. Robust limits take the spread
    of each side of the median from its own quantiles, so that skewed labels are not suspicious. Classes,
    counts and rounded scores have ties of their own; only values that are much more frequent than their
    neighbours are spikes. A concentration of 0 is always suspicious.

    Examples
    --------
    >>> scores = np.r_[np.linspace(-11, -4, 98), 999, 999]
    >>> [(each.kind, each.members.tolist(), each.certain) for each in suspicions(scores)]
    [('far', [98, 99], True)]
    >>> suspicions(scores[:98])
    []
    """
    values = np.sort(y, kind="stable")
    if len(y) < _FEWEST or 1 + np.count_nonzero(values[1:] != values[:-1]) < _VALUES:
        return [Suspicion("far", np.flatnonzero(y == 0))] if wide and (y == 0).any() else []
    start, stop = 0, len(y)
    groups: list[Suspicion] = []
    for certain in (True, False):
        if n := _apart(values[start:stop], wide=wide, certain=certain):
            groups.append(Suspicion("far", np.flatnonzero(_within(y, values[stop - n : stop])), certain))
            stop -= n
        if n := _apart(-values[start:stop][::-1], wide=wide, certain=certain, turned=True):
            groups.append(Suspicion("far", np.flatnonzero(_within(y, values[start : start + n])), certain))
            start += n
    inner, zero = values[start:stop], np.zeros(0, bool)
    if wide and (zero := inner == 0).any():
        groups.append(Suspicion("far", np.flatnonzero(y == 0)))
        inner = inner[~zero]
    taken = np.zeros(len(inner), bool)
    for kind, members in (
        *_ties(inner),
        ("sign", _other_sign(inner, wide=wide)),
        ("beyond", _beyond(inner, wide=wide)),
    ):
        if (members & ~taken).any():
            chosen = np.zeros(len(y), bool)
            for first, last in _runs(members & ~taken):
                chosen |= _within(y, inner[first:last])
            if zero.any():
                chosen &= y != 0
            groups.append(Suspicion(kind, np.flatnonzero(chosen)))
            taken |= members
    return groups


def _within(y: Floats, values: Floats) -> npt.NDArray[np.bool_]:
    """Return which labels are among consecutive ascending values: equal ones are all there, or none is."""
    within = y >= values[0]
    within &= y <= values[-1]
    return within


def _runs(mask: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Return where each run of true values begins and ends."""
    edges: list[list[int]] = (
        np.flatnonzero(np.diff(mask, prepend=False, append=False)).reshape(-1, 2).tolist()
    )
    return edges


def _apart(values: Floats, *, wide: bool, certain: bool, turned: bool = False) -> int:
    """Return how many of the largest of ascending values are, or are for certain, far outside of the others.

    `turned` values are minus the labels: signs and logarithms are those of the labels. Of a value that many
    share, but less than half, one is judged for all.
    """
    least = _GAP if len(values) >= _MANY else _GAP_OF_FEW
    every, values = values, _thinned(values)
    n = len(values)
    most = max(2, n // _SHARE)
    first = n - most - 1
    if first < _VALUES - 1:
        return 0
    base = values[n // _SHARE]
    insides, gaps = values[first:-1] - base, np.diff(values[first:])
    for i in (first + np.flatnonzero((insides > 0) & (gaps >= least * insides))).tolist():
        if not _has_values(values[: i + 1], _VALUES - 1):
            continue  # rounded labels: the others are too few values to judge by
        inside, gap = values[i] - base, values[i + 1] - values[i]
        ratio = gap / inside
        labels = -values[: i + 1] if turned else values[: i + 1]
        end, out = labels[-1], -values[i + 1] if turned else values[i + 1]
        other_sign = out < 0 < end if turned else end < 0 < out
        if (end if turned else base) > 0 and not other_sign:
            in_decades = _log_ratio(-base if turned else base, end, out)
            if wide or _long_tailed(labels[labels > 0]):
                ratio = min(ratio, in_decades)
            elif ratio < _PLAIN or len(labels) < _MANY:
                ratio = min(ratio, max(in_decades, least))
        if ratio >= ((_SURE_OF_SIGN if other_sign else _SURE) if certain else least):
            return int(np.count_nonzero(every > values[i]))
    return 0


def _has_values(values: Floats, n: int) -> bool:
    """Return whether ascending values have at least n different ones."""
    first = 0
    for _ in range(n):
        if first == len(values):
            return False
        first = int(np.searchsorted(values, values[first], side="right"))
    return True


def _thinned(values: Floats) -> Floats:
    """Return ascending values with one of each that more than a twentieth, but less than half, share."""
    n = len(values)
    most = max(2, n // _SHARED)
    first, pieces = 0, []
    for v in np.unique(values[most:][values[most:] == values[:-most]]).tolist():
        low, high = np.searchsorted(values, v), np.searchsorted(values, v, side="right")
        if 2 * (high - low) < n:
            pieces.append(values[first : low + 1])
            first = high
    return np.concatenate([*pieces, values[first:]]) if pieces else values


def _log_ratio(inner: float, end: float, out: float) -> float:
    """Return a gap as a multiple of the range, both in decades; infinite for what has no logarithm."""
    if out <= 0:
        return math.inf
    if min(inner, end) <= 0 or inner == end:
        return 0.0
    return abs(math.log(out / end)) / abs(math.log(end / inner))


def _long_tailed(values: Floats) -> bool:
    """Return whether positive values are better seen as logarithms."""
    low, high = _quantiles(values if values[0] <= values[-1] else values[::-1], (0.02, 0.98))
    if low > 0 and high / low > _DECADES:
        return True
    skewness = _skewness(values)
    return skewness > _LONG_TAIL and abs(_skewness(values, np.log)) < skewness


def _quantiles(values: Floats, shares: Sequence[float]) -> list[float]:
    """Return `numpy.quantile` of ascending values, which would copy them."""
    quantiles = []
    for share in shares:
        place = share * (len(values) - 1)
        at = min(int(place), len(values) - 2) if len(values) > 1 else 0
        low, high, fraction = float(values[at]), float(values[min(at + 1, len(values) - 1)]), place - at
        gap = high - low
        quantiles.append(low + gap * fraction if fraction < 0.5 else high - gap * (1 - fraction))
    return quantiles


def _skewness(values: Floats, of: Callable[[Floats], Floats] = lambda values: values) -> float:
    """Return the skewness of values, or of a function `of` them, some at a time: there may be 10^8."""
    n, total, squares, cubes = len(values), 0.0, 0.0, 0.0
    for block in _blocks(values):
        total += float(of(block).sum())
    for block in _blocks(values):
        centred = of(block) - total / n
        squares += float((centred**2).sum())
        cubes += float((centred**3).sum())
    spread = math.sqrt(squares / n)
    return cubes / n / spread**3 if spread > 0 else 0.0


def _blocks(values: Floats) -> list[Floats]:
    return [values[start : start + _AT_ONCE] for start in range(0, len(values), _AT_ONCE)]


def _sides(values: Floats) -> tuple[float, float, float]:
    """Return the median, and robust standard deviations below and above it."""
    low, quarter, middle, three, high = _quantiles(values, (0.05, 0.25, 0.5, 0.75, 0.95))
    below = max((middle - low) / 1.645, (middle - quarter) / 0.6745)
    above = max((high - middle) / 1.645, (three - middle) / 0.6745)
    return float(middle), float(below), float(above)


def _ties(values: Floats) -> list[tuple[Kind, npt.NDArray[np.bool_]]]:
    """Return masks of ascending values that are tied much more often than their neighbours."""
    if not (values[2:] == values[:-2]).any():
        return []
    is_new = np.concatenate([[True], values[1:] != values[:-1]])[: len(values)]
    counts = _lengths(is_new)
    if len(counts) < _DISCRETE:
        return []
    distinct = values[is_new]
    del is_new
    middle, below, above = _sides(values)
    whole = distinct[-1] - distinct[0] <= _COUNTS
    whole = whole and all((block == np.round(block)).all() for block in _blocks(distinct))
    masks: list[tuple[Kind, npt.NDArray[np.bool_]]] = []
    for i in np.flatnonzero(counts >= 3).tolist():
        v, count = distinct[i], int(counts[i])
        lo, hi = max(0, i - _NEIGHBOURS), min(len(distinct), i + _NEIGHBOURS + 1)
        others = np.delete(counts[lo:hi], i - lo)
        spread = above if v > middle else below
        gaps = np.diff(distinct[lo:hi])
        other_gaps = np.delete(gaps, [k for k in (i - lo - 1, i - lo) if 0 <= k < len(gaps)])
        nearest = min(gaps[k] for k in (i - lo - 1, i - lo) if 0 <= k < len(gaps))
        far = abs(v - middle) > 3 * spread
        alone = (
            abs(v - middle) > _ALONE * spread
            and nearest > 1.5 * spread
            and (not len(other_gaps) or nearest > 8 * np.median(other_gaps))
        )
        end = i in (0, len(distinct) - 1)
        times = count / others.mean()
        if alone:
            masks.append(("spike", values == v))
        elif whole or count < _FEW_TIES:
            continue
        elif end and times >= _TIMES and count >= _LIMIT_SHARE * len(values):
            masks.append(("limit", values == v))
        elif times >= (_TIMES if far else _TIMES_INSIDE) and (far or count >= _LIMIT_SHARE * len(values)):
            masks.append(("spike", values == v))
    return masks


def _lengths(is_new: npt.NDArray[np.bool_]) -> npt.NDArray[np.number]:
    """Return how many values there are from each new one up to the next."""
    starts = np.flatnonzero(is_new)
    lengths: npt.NDArray[np.number] = np.empty(len(starts), np.int32 if len(is_new) < 2**31 else np.int64)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1], casting="unsafe")
    lengths[-1] = len(is_new) - starts[-1]
    return lengths


def _other_sign(values: Floats, *, wide: bool) -> npt.NDArray[np.bool_]:
    """Return a mask of values with another sign than nearly all others, far from these."""
    middle, below, above = _sides(values)
    other = values >= 0 if middle < 0 else values < 0
    if not 0 < other.mean() <= _OTHERS:
        return np.zeros(len(values), bool)
    if middle < 0:
        return other & (values > middle + _SIGN * above)
    physical = wide or _long_tailed(values[np.searchsorted(values, 0, side="right") :])
    return other if physical else other & (values < middle - _SIGN * below)


def _beyond(values: Floats, *, wide: bool) -> npt.NDArray[np.bool_]:
    """Return a mask of the few values beyond robust limits."""
    seen, there = values, np.ones(len(values), bool)
    above_zero = values[np.searchsorted(values, 0, side="right") :]
    if (positive := values > 0).mean() > 1 - _OTHERS and (wide or _long_tailed(above_zero)):
        seen, there = np.log(above_zero), positive
    elif values[0] >= 0 and _long_tailed(above_zero):
        return ~there
    middle, below, above = _sides(seen)
    members = np.zeros(len(values), bool)
    if min(below, above) > 0:
        members[there] = (seen > middle + _LIMIT * above) | (seen < middle - _LIMIT * below)
    return members if members.mean() <= _RARE else np.zeros(len(values), bool)
