"""Repeats: several labels of one molecule, as measurements or poses, and one label in their place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError, printable
from daskrf.quantities import amount

Floats = npt.NDArray[np.float64]
Repeats = Literal["all", "best", "mean", "median"]
REPEATS: Final = get_args(Repeats)

_OPTION = "keep one label per molecule with --repeats best, mean or median"
_WIDE: Final = 0.35  # of the spread of all molecules; replicates of an assay have some .2 or less
_FEWEST: Final = 3  # molecules whose repeats are compared with the spread of all molecules
_TIMES, _ALONE = 6.0, 0.75  # how far the repeats of one molecule differ: of others' noise, of all molecules
_AT_ONCE: Final = 1 << 20  # molecules whose labels are merged at a time
_MEDIAN: Final = 0.455  # median of a variance of two values, as a part of the variance
# Suffixes of poses, conformers, protomers and tautomers of one compound, behind a name with a digit.
_SUFFIX = re.compile(
    r"(.*\d.*?)[._\-:#](?:(?:pose|conf|model|prot|taut|iso|state|p|t|c|s)[._\-]?)?\d{1,3}$", re.I
)
_LARGEST: Final = 24  # suffixes of one name on average; more are numbers of a series or of wells
_SHARE: Final = 20  # at least one of so many names has a suffix


def check_repeats(repeats: str) -> None:
    """Refuse an unknown way to treat repeats."""
    if repeats not in REPEATS:
        raise InputError(f"repeats is one of {', '.join(REPEATS)}, not {repeats!r}")


def one_of_each(
    groups: npt.NDArray[np.int64], y: Floats, repeats: str, largest: Sequence[bool] = ()
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return the position of the first label of each molecule, and one label in place of its labels.

    Parameters
    ----------
    groups : int64 array, shape (n,)
        Equal for labels of one molecule.
    y : float64 array, shape (n, n_targets)
        NaN where a label lacks a target; the others of the molecule count.
    repeats : {"best", "mean", "median"}
    largest : sequence of bool
        For the best: whether it is the largest label, for each target.

    Returns
    -------
    first : int64 array, shape (n_molecules,)
        Ascending.
    y : float64 array, shape (n_molecules, n_targets)

    Examples
    --------
    >>> y = np.array([[-7.0], [-9.0], [-8.0], [-5.0]])
    >>> first, best = one_of_each(np.array([4, 4, 4, 2]), y, "best", [False])
    >>> first.tolist(), best.ravel().tolist()
    ([0, 3], [-9.0, -5.0])
    """
    order = None
    if (groups[1:] < groups[:-1]).any():
        order = np.argsort(groups, kind="stable")
        groups, y = groups[order], y[order]
    starts = _starts(groups)
    labels = np.empty((len(starts), y.shape[1]))
    for first in range(0, len(starts), _AT_ONCE):
        some = starts[first : first + _AT_ONCE]
        stop = starts[first + _AT_ONCE] if first + _AT_ONCE < len(starts) else len(y)
        for t in range(y.shape[1]):
            toward = largest[t] if repeats == "best" else False
            values = y[some[0] : stop, t]
            labels[first : first + len(some), t] = _merged(values, some - some[0], repeats, largest=toward)
    if order is None:
        return starts, labels
    by_place = np.argsort(order[starts], kind="stable")
    return order[starts][by_place], labels[by_place]


def _merged(values: Floats, starts: npt.NDArray[np.int64], repeats: str, *, largest: bool) -> Floats:
    """Return one label for the values from each start on."""
    if repeats == "median":
        return _medians(values, starts)
    if repeats == "mean":
        there = np.isfinite(values)
        counts = np.add.reduceat(there.astype(np.int64), starts)
        sums = np.add.reduceat(np.where(there, values, 0.0), starts)
        return np.divide(sums, counts, out=np.full(len(starts), np.nan), where=counts > 0)
    function = np.fmax if largest else np.fmin  # which pass over NaN
    best: Floats = function.reduceat(values, starts)
    return best


def row_blocks(row: npt.NDArray[np.int64]) -> Iterator[slice]:
    """Yield about a million labels at a time, all labels of each of the ascending rows in one block."""
    start = 0
    while start < len(row):
        stop = int(np.searchsorted(row, row[min(start + _AT_ONCE, len(row)) - 1], side="right"))
        yield slice(start, stop)
        start = stop


def notes_on_repeats(
    groups: npt.NDArray[np.int64], y: Floats, names: Sequence[str], words_of: Callable[[int], str]
) -> tuple[str, ...]:
    """Return a line on each target whose repeats differ by more than noise does, as poses and protomers do.

    Parameters
    ----------
    groups : int64 array, shape (n,)
        Equal for labels of one molecule.
    y : float64 array, shape (n, n_targets)
    names : sequence of str
        Of the targets.
    words_of : callable
        Returns the name of the molecule of a label, by its position.

    Notes
    -----
    Replicates of an assay differ much less than molecules do. Where the repeats of half of the molecules
    differ by more than a third of the spread of all molecules, they are probably poses. Otherwise, single
    molecules are named whose labels differ far more than those of the others.

    Examples
    --------
    >>> groups = np.repeat(np.arange(6), 3)
    >>> y = np.linspace(-9, -5, 6)[groups] + np.tile([0.0, 1.5, 3.0], 6)
    >>> (line,) = notes_on_repeats(groups, y[:, None], ["vina"], str)
    >>> line.partition(",")[0]
    "18 labels of 'vina' are repeats of 6 molecules"
    """
    notes = []
    for t, name in enumerate(names):
        spread = _Spread.of(groups, y[:, t])
        if spread is None:
            continue
        within, between, n = spread.within, spread.between, spread.n_labels
        typical, pooled = float(np.sqrt(np.median(within))), float(np.sqrt(within.mean()))
        members = np.flatnonzero((groups == spread.widest) & np.isfinite(y[:, t]))
        example = f"such as {_values(y[members, t])} of {printable(words_of(int(members[0])), 60)}"
        shown = printable(name, 60)
        if len(within) >= _FEWEST and typical > _WIDE * between > 0:
            notes.append(
                f"{n:,} labels of '{shown}' are repeats of {amount(len(within), 'molecules')}, and differ "
                f"within a molecule by {pooled:.2g} (standard deviation; that of all molecules is "
                f"{between:.2g}), {example}: if these are poses or protomers, not replicates, their "
                f"differences are mistaken for noise; {_OPTION}"
            )
            continue
        noise = typical / np.sqrt(_MEDIAN) if len(within) >= _FEWEST else 0.0
        far = np.sqrt(within) > max(_TIMES * noise, _ALONE * between)
        if far.any():
            notes.append(
                f"the labels of '{shown}' for {amount(int(far.sum()), 'molecules')} differ from each other "
                f"far more than those of other molecules, {example}: correct them, or {_OPTION}"
            )
    return tuple(notes)


def notes_on_suffixes(names: Sequence[str]) -> tuple[str, ...]:
    """Return a line if names differ only in a number at their end, as those of poses and protomers do.

    Examples
    --------
    >>> (line,) = notes_on_suffixes(["ZINC1.0", "ZINC1.1", "ZINC2.0", "ZINC2.1", "ZINC31.0", "ZINC31.1"])
    >>> line.partition(",")[0]
    '6 of the first 6 IDs differ from others only in a number at their end'
    >>> notes_on_suffixes(["mol-1", "mol-2", "mol-3", "A1", "A2"])
    ()
    """
    stems: dict[str, set[str]] = {}
    for name in names:
        if (match := _SUFFIX.fullmatch(name.strip())) is not None:
            stems.setdefault(match[1], set()).add(name)
    several = [variants for variants in stems.values() if len(variants) > 1]
    n = sum(map(len, several))
    if len(several) < _FEWEST or n > _LARGEST * len(several) or n * _SHARE < len(set(names)):
        return ()
    a, b, *_ = sorted(several[0])
    return (
        f"{n:,} of the first {len(names):,} IDs differ from others only in a number at their end, such as "
        f"{printable(a, 40)} and {printable(b, 40)}: if these are poses or protomers of one molecule, join "
        "them with --key parent or --key tautomer, and keep one label per molecule with --repeats best",
    )


@dataclass(frozen=True)
class _Spread:
    """How far labels differ: the variance within each molecule with several, and the deviation of means."""

    within: Floats
    between: float
    n_labels: int  # of molecules with several
    widest: int  # group of the molecule whose labels differ most

    @classmethod
    def of(cls, groups: npt.NDArray[np.int64], values: Floats) -> _Spread | None:
        """Return it for the labels that are there; None if no molecule has several, or all are of one."""
        if (groups[1:] < groups[:-1]).any():
            order = np.argsort(groups, kind="stable")
            groups, values = groups[order], values[order]
        # There may be 10^8 molecules, so that only those with several labels are kept.
        n_values, n_molecules, total, n_labels = 0, 0, 0.0, 0
        within, firsts = [], []
        for means, counts, repeats, rows in _molecules(groups, values):
            n_values += int(counts.sum())
            n_molecules, total = n_molecules + len(means), total + float(means.sum())
            several = counts > 1
            times = counts[several]
            deviations = repeats - np.repeat(means[several], times)
            if len(times):
                within.append(np.add.reduceat(deviations**2, np.cumsum(times) - times) / (times - 1))
                firsts.append(rows[several])
            n_labels += len(repeats)
        if n_molecules in (1, n_values):
            return None
        mean, squares = total / n_molecules, 0.0
        for means, *_ in _molecules(groups, values):
            squares += float(((means - mean) ** 2).sum())
        between = float(np.sqrt(squares / n_molecules))
        variances = np.concatenate(within)
        return cls(variances, between, n_labels, int(np.concatenate(firsts)[np.argmax(variances)]))


def _molecules(
    groups: npt.NDArray[np.int64], values: Floats
) -> Iterator[tuple[Floats, npt.NDArray[np.int64], Floats, npt.NDArray[np.int64]]]:
    """Yield means, numbers of labels, labels of those with several, and groups, some molecules at a time.

    NaN is no label.
    """
    for some in row_blocks(groups):
        rows, y = groups[some], np.asarray(values[some])
        if not (there := np.isfinite(y)).all():
            rows, y = rows[there], y[there]
        if not len(rows):
            continue
        starts = _starts(rows)
        counts = np.diff(starts, append=len(rows))
        means = np.add.reduceat(y, starts) / counts
        yield means, counts, y[np.repeat(counts > 1, counts)], rows[starts]


def _values(values: Any) -> str:
    shown = [f"{value:.4g}" for value in values[:4]]
    return ", ".join(shown) + (" and others" if len(values) > 4 else "")


def _starts(ordered: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return where each run of equal numbers begins."""
    return np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])[: len(ordered)]


def _medians(values: Floats, starts: npt.NDArray[np.int64]) -> Floats:
    """Return the median of the values from each start on, NaN passed over."""
    runs = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(values))))
    order = np.lexsort((values, runs))  # NaN comes last in each run
    sorted_values = values[order]
    counts = np.add.reduceat(np.isfinite(values).astype(np.int64), starts)
    low, high = starts + np.maximum(counts - 1, 0) // 2, starts + counts // 2
    middle = sorted_values[low] + (sorted_values[high] - sorted_values[low]) / 2
    return np.where(counts > 0, middle, np.nan)
