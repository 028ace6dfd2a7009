"""Find exactly the best products of a family by a linear function of counts, without scoring most products.

Counts of a product are sums over its synthons, and so is a linear function of them: the score of a pair is
a_i + b_j. Within one group of reaches, a_i and b_j include the environments that reach over the cut. With
both sorted, the pairs above a threshold are counted and listed without visiting the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.spaces.families import Family, Side
from daskrf.spaces.patterns import PatternTable, Places, parts
from daskrf.spaces.ranking import ROUNDING, Best, Limit, Piece, leading

LEADS = 64  # synthons of the first of three slots in a piece
AT_ONCE = 2**20  # products that are listed at a time
_BINS = 12  # synthons are binned by their share of the first limit, so few products outside it are listed
_MARGIN = 1e-5  # of the scores, which are kept in single precision
_HALVINGS = 60

Array = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Linear:
    """A linear function of counts: weights of some columns, in ascending order; other weights are zero."""

    columns: Integers
    weights: Array

    def __call__(self, counts: sparse.csr_matrix) -> Array:
        """Return the value of each row.

        Examples
        --------
        >>> function = Linear(np.array([1, 5]), np.array([10.0, 1.0]))
        >>> function(sparse.csr_matrix([[3, 2, 0, 0, 0, 4], [0, 0, 1, 0, 0, 0]])).tolist()
        [24.0, 0.0]
        """
        if not len(self.columns):
            return np.zeros(counts.shape[0])
        place = np.minimum(np.searchsorted(self.columns, counts.indices), len(self.columns) - 1)
        mask = self.columns[place] == counts.indices
        values = np.where(mask, self.weights[place], 0.0) * counts.data
        row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))
        return np.bincount(row, weights=values, minlength=counts.shape[0]).astype(np.float64)


def pieces_of_sums(families: Sequence[Family]) -> list[Piece]:
    """Cut products into pieces: all pairs of a family, or triples with some synthons of the smallest slot."""
    pieces = []
    for number, family in enumerate(families):
        lead = leading(family)
        ranges = [
            [(start, min(start + LEADS, size)) for start in range(0, size, LEADS)]
            if slot == lead
            else [(0, size)]
            for slot, size in enumerate(family.shape)
        ]
        pieces += [Piece(number, bounds) for bounds in itertools.product(*ranges)]
    return pieces


def best_sums(
    piece: Piece,
    family: Family,
    inner: sparse.csr_matrix,
    function: Linear,
    limits: Sequence[Limit],
    best: Best,
    patterns: PatternTable | None = None,
) -> None:
    """Show `best` all products of a piece that may be among the best.

    Parameters
    ----------
    piece : Piece
        Of `pieces_of_sums`.
    family : Family
    inner : csr_matrix
        `CutSpace.own`.
    function : Linear
        Larger is better.
    limits : sequence of Limit
        Products outside of them are left out.
    best : Best
    patterns : PatternTable, optional
        Products that are not as it asks for are left out.
    """
    lead = leading(family)
    value = [function(inner[side.synthon]) for side in family.sides]
    over = [function(side.counts) for side in family.sides]
    for classes, views in zip(family.groups.tolist(), family.views.tolist(), strict=True):
        every = [
            _rows_of(side, bounds, reach)
            for side, bounds, reach in zip(family.sides, piece.bounds, classes, strict=True)
        ]
        if not all(map(len, every)):
            continue
        slots = []
        for slot, (rows, view) in enumerate(zip(every, views, strict=True)):
            side = family.sides[slot]
            score = value[slot][rows] + over[slot][side.overlap[side.edge[rows], view]]
            slots.append(_Slot(rows, score, [limit.values[side.synthon[rows]] for limit in limits]))
        for places in parts(patterns, every):
            chosen = [slot.take(at) for slot, at in zip(slots, places, strict=True)]
            _show_pairs(chosen, lead, limits, best)


def _show_pairs(slots: Sequence[_Slot], lead: int | None, limits: Sequence[Limit], best: Best) -> None:
    """Show `best` all products of some synthons that may be among the best."""
    left, right = (slot for slot in range(len(slots)) if slot != lead)
    bins = [slots[left].bins(), slots[right].bins()]
    for i in range(len(slots[lead].rows)) if lead is not None else (0,):
        head = None if lead is None else slots[lead].take(np.array([i]))
        for a, b in itertools.product(*bins):
            _Pairs(a, b, head, limits, (left, right, lead)).show(best)


def _rows_of(side: Side, bounds: tuple[int, int], reach: int) -> Integers:
    """Return the rows of a side, within bounds, that have a reach."""
    start, stop = np.searchsorted(side.reach[bounds[0] : bounds[1]], [reach, reach + 1]) + bounds[0]
    return np.arange(start, stop)


@dataclass(frozen=True)
class _Slot:
    """Some synthons of a slot: rows of the side, scores, and shares of each limit."""

    rows: Integers
    score: Array
    shares: list[Array]

    def take(self, at: Places) -> _Slot:
        return _Slot(self.rows[at], self.score[at], [share[at] for share in self.shares])

    def bins(self) -> list[_Slot]:
        """Return bins of synthons by their share of the first limit, each sorted by descending score."""
        n_bins = min(_BINS, len(self.rows)) if self.shares else 1
        order = np.argsort(self.shares[0], kind="stable") if self.shares else np.arange(len(self.rows))
        groups = np.array_split(order, n_bins)
        return [self.take(group[np.argsort(-self.score[group], kind="stable")]) for group in groups]


@dataclass(frozen=True)
class _Pairs:
    """All pairs of two bins, with one synthon of a third slot."""

    a: _Slot
    b: _Slot
    head: _Slot | None
    limits: Sequence[Limit]
    slots: tuple[int, int, int | None]

    def show(self, best: Any) -> None:
        """Show `best` the pairs above its threshold, in bands, the best pairs first."""
        if not self._may_lie_within():
            return
        a, b = self.a.score, self.b.score
        shift = 0.0 if self.head is None else float(self.head.score[0])
        margin = _MARGIN * max(1.0, abs(a[0] + b[0] + shift), abs(a[-1] + b[-1] + shift))
        stop = np.zeros(len(a), np.int64)  # of each row of a: the first pairs have been shown
        while True:
            low = max(best.least - shift, float(a[-1] + b[-1])) - margin
            if float(a[0] + b[0]) < low:
                return
            ends = np.maximum(self._ends(low), stop)
            last = int((ends - stop).sum()) <= AT_ONCE
            if not last:
                ends = self._band(stop, low)
            self._look(best, stop, ends, shift)
            if last:
                return
            stop = ends

    def _ends(self, least: float) -> Integers:
        """Return, for each row of a, the number of pairs that reach a score."""
        first = int(np.searchsorted(-self.a.score, float(self.b.score[0]) - least, side="right"))
        counts = np.zeros(len(self.a.rows), np.int64)
        counts[:first] = np.searchsorted(-self.b.score, self.a.score[:first] - least, side="right")
        return counts

    def _band(self, stop: Integers, low: float) -> Integers:
        """Return the ends of the next band: about `AT_ONCE` pairs, at least one."""
        high = float(self.a.score[0] + self.b.score[0])
        ends = np.maximum(self._ends(low), stop)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            ends_here = np.maximum(self._ends(middle), stop)
            size = int((ends_here - stop).sum())
            if size > AT_ONCE:
                low, ends = middle, ends_here
            elif size:
                return ends_here
            else:
                high = middle
        # Very many scores are equal: take some of them, row by row.
        return stop + np.diff(np.minimum(np.cumsum(ends - stop), AT_ONCE), prepend=0)

    def _look(self, best: Best, start: Integers, stop: Integers, shift: float) -> None:
        sizes = stop - start
        i = np.repeat(np.arange(len(sizes)), sizes)
        j = np.arange(len(i)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + np.repeat(start, sizes)
        score = (self.a.score[i] + self.b.score[j] + shift).astype(np.float32)
        for number, limit in enumerate(self.limits):
            total = self.a.shares[number][i] + self.b.shares[number][j]
            total += 0.0 if self.head is None else self.head.shares[number][0]
            score[(total < limit.low - ROUNDING) | (total > limit.high + ROUNDING)] = -np.inf
        left, right, lead = self.slots

        def rows_of(at: npt.NDArray[np.intp]) -> list[Integers]:
            rows: dict[int, Integers] = {left: self.a.rows[i[at]], right: self.b.rows[j[at]]}
            if lead is not None and self.head is not None:
                rows[lead] = np.full(len(at), self.head.rows[0], np.int64)
            return [rows[slot] for slot in range(len(rows))]

        best.look(score, rows_of)

    def _may_lie_within(self) -> bool:
        """Return whether any sums of the bins can lie within all limits."""
        for number, limit in enumerate(self.limits):
            parts = [slot.shares[number] for slot in (self.a, self.b, self.head) if slot is not None]
            if sum(float(p.min()) for p in parts) > limit.high + ROUNDING:
                return False
            if sum(float(p.max()) for p in parts) < limit.low - ROUNDING:
                return False
        return True
