"""Labels of which only a limit is known: several of one molecule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from daskrf.errors import printable
from daskrf.quantities import amount
from daskrf.tables.values.repeats import row_blocks
from daskrf.tables.values.values import LOWER_LIMITS, UPPER_LIMITS

Floats = npt.NDArray[np.float64]
Sides = npt.NDArray[np.int8]


def one_limit_of_each(
    groups: npt.NDArray[np.int64], bound: Floats, side: Sides, measured: npt.NDArray[np.bool_]
) -> tuple[Floats, Sides]:
    """Return one limit in place of those of each molecule, none where it has a measured value.

    The closest limit of the side with more limits counts, of lower ones if there are as many of both.

    Parameters
    ----------
    groups : int64 array, shape (n,)
        Equal for labels of one molecule.
    bound, side : arrays, shape (n, n_targets)
        Limits, and 1 for lower and -1 for upper ones, 0 for none.
    measured : bool array, shape (n_molecules, n_targets)
        Which molecules have a measured value, in the order of their first labels.

    Examples
    --------
    >>> bound, side = np.array([[5.0], [7.0], [9.0], [1.0]]), np.array([[1], [1], [-1], [1]], np.int8)
    >>> bound, side = one_limit_of_each(np.array([3, 3, 3, 2]), bound, side, np.array([[False], [True]]))
    >>> bound.ravel().tolist(), side.ravel().tolist()
    ([7.0, nan], [1, 0])
    """
    _, first, index = np.unique(groups, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))[index]  # molecules in the order of their first labels
    shape = len(first), bound.shape[1]
    counts, closest = [], []
    for sign, function in ((1, np.fmax), (-1, np.fmin)):
        there = side == sign
        count, best = np.zeros(shape, np.int64), np.full(shape, np.nan)
        np.add.at(count, place, there)
        function.at(best, place, np.where(there, bound, np.nan))
        counts.append(count)
        closest.append(best)
    upper = counts[1] > counts[0]
    none = measured | ((counts[0] + counts[1]) == 0)
    values = np.where(none, np.nan, np.where(upper, closest[1], closest[0]))
    return values, np.where(none, 0, np.where(upper, -1, 1)).astype(np.int8)


def notes_on_limits(
    groups: npt.NDArray[np.int64],
    bound: Floats,
    side: Sides,
    names: Sequence[str],
    *,
    y: Floats | None = None,
) -> tuple[str, ...]:
    """Return a line on each target with limits of one molecule that cannot both be true.

    With the measured values `y`, NaN where there is none, labels are about to be merged by
    `one_limit_of_each`; further lines then say how many limits do not count beside a measured value.

    Examples
    --------
    >>> groups, side = np.array([0, 0, 1]), np.array([[1], [-1], [1]], np.int8)
    >>> (line,) = notes_on_limits(groups, np.array([[7.0], [5.0], [9.0]]), side, ["pKi"])
    >>> line.partition(":")[0]
    "limits of 'pKi' of 1 molecule contradict each other, such as > 7 and < 5"
    """
    if (groups[1:] < groups[:-1]).any():
        order = np.argsort(groups, kind="stable")
        groups, bound, side = groups[order], bound[order], side[order]
        y = None if y is None else y[order]
    wrong, left, examples = [0] * len(names), [0] * len(names), [""] * len(names)
    for some in row_blocks(groups):
        index = np.unique(groups[some], return_inverse=True)[1]
        for t in range(len(names)):
            limits, sides = bound[some, t], side[some, t]
            low, high = np.full(index[-1] + 1, -np.inf), np.full(index[-1] + 1, np.inf)
            np.maximum.at(low, index[sides > 0], limits[sides > 0])
            np.minimum.at(high, index[sides < 0], limits[sides < 0])
            places = np.flatnonzero(low > high)
            if len(places) and not wrong[t]:
                examples[t] = f"> {low[places[0]]:.6g} and < {high[places[0]]:.6g}"
            wrong[t] += len(places)
            if y is not None:
                measured = np.zeros(index[-1] + 1, bool)
                measured[index[np.isfinite(y[some, t])]] = True
                left[t] += int((measured[index] & (sides != 0)).sum())
    how = "both count, as noise"
    if y is not None:
        how = "the closest one on the side with more limits counts, unless there is a measured value"
    notes = []
    for t, name in enumerate(names):
        if wrong[t]:
            notes.append(
                f"limits of '{printable(name, 60)}' of {amount(wrong[t], 'molecules')} contradict each "
                f"other, such as {examples[t]}: {how}; correct them"
            )
        if left[t]:
            notes.append(
                f"{amount(left[t], 'limits')} of '{printable(name, 60)}' did not count beside measured "
                "values of the same molecules"
            )
    return tuple(notes)


def limits_words(unusual: Mapping[str, tuple[int, str]]) -> str:
    """Return how many labels are limits, on which side, and how they are used; empty if none are.

    Examples
    --------
    >>> print(limits_words({LOWER_LIMITS: (3, ">10")}))
    labels that are limits: 3 lower limits (such as '>10'; the true value lies beyond each)
    """
    kinds = [
        f"{unusual[kind][0]:,} {kind} (such as {printable(unusual[kind][1], 40)!r}"
        for kind in (LOWER_LIMITS, UPPER_LIMITS)
        if kind in unusual
    ]
    words = ") and ".join(kinds)
    return f"labels that are limits: {words}; the true value lies beyond each)" if kinds else ""
