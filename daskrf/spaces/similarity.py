"""Find exactly the products of a family most similar to a molecule, without visiting most products.

The counts of a product are sums over its synthons, in one group of reaches (`daskrf.spaces.families`), so its
Tanimoto similarity to a query follows from sums of two rows: `Engine.similar_pairs` lists the pairs that
reach a similarity. Of three slots, the synthons of the smallest are added to those of the next one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.engine import Query as Bound
from daskrf.engine import Shares, engine
from daskrf.spaces.families import Family, Side
from daskrf.spaces.patterns import PatternTable, parts
from daskrf.spaces.ranking import ROUNDING, Best, Limit, Piece

PIECE = 2**31
"""Products of a piece, about: few seconds, if most of them are ruled out."""

_SHOWN = 2**18  # pairs that are shown to the collector at a time, besides those of one synthon
ROUNDED = 1e-6
"""Of similarities, which are kept in single precision: more than the error of rounding."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Query:
    """A molecule that products are compared with.

    Attributes
    ----------
    columns : int64 array
        Its environments, ascending.
    counts : int32 array of the same length
        Positive.
    """

    columns: Integers
    counts: npt.NDArray[np.int32]

    @classmethod
    def of(cls, counts: sparse.csr_matrix) -> Query:
        """Return the query with the counts of one row.

        Examples
        --------
        >>> Query.of(sparse.csr_matrix([[0, 2, 0, 1]])).counts.tolist()
        [2, 1]
        """
        order = np.argsort(counts.indices)
        return cls(counts.indices[order].astype(np.int64), counts.data[order].astype(np.int32))

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return int(self.counts.sum())

    def share(self, counts: sparse.csr_matrix) -> npt.NDArray[np.int32]:
        """Return the counts of each row in the columns of the query, shape (n, columns)."""
        place = np.minimum(np.searchsorted(self.columns, counts.indices), len(self.columns) - 1)
        mask = self.columns[place] == counts.indices
        row = np.repeat(np.arange(counts.shape[0]), np.diff(counts.indptr))[mask]
        shared = np.zeros((counts.shape[0], len(self.columns)), np.int32)
        shared[row, place[mask]] = counts.data[mask]
        return shared

    def similarities(self, counts: sparse.csr_matrix) -> npt.NDArray[np.float64]:
        """Return the Tanimoto similarity of counts of each row, sum of minima over sum of maxima.

        Examples
        --------
        >>> query = Query.of(sparse.csr_matrix([[0, 2, 0, 1]]))
        >>> query.similarities(sparse.csr_matrix([[1, 1, 0, 2]])).tolist()
        [0.4]
        """
        minima = np.minimum(self.share(counts), self.counts).sum(axis=1)
        totals = np.asarray(counts.sum(axis=1, dtype=np.int64)).ravel() + self.total
        return np.asarray(minima / (totals - minima), np.float64)


def pieces_of_similarity(families: Sequence[Family]) -> list[Piece]:
    """Cut products into pieces of about `PIECE`: ranges of the smallest slot of a family."""
    pieces = []
    for number, family in enumerate(families):
        shape = family.shape
        lead = _order(family)[0]
        step = max(1, PIECE * shape[lead] // max(1, int(np.prod(shape, dtype=object))))
        for start in range(0, shape[lead], step):
            stop = min(start + step, shape[lead])
            bounds = tuple((start, stop) if s == lead else (0, size) for s, size in enumerate(shape))
            pieces.append(Piece(number, bounds))
    return pieces


def most_similar(
    piece: Piece,
    family: Family,
    inner: sparse.csr_matrix,
    query: Query,
    limits: Sequence[Limit],
    best: Best,
    patterns: PatternTable | None = None,
) -> None:
    """Show `best` all products of a piece that may be among the most similar to a query.

    Parameters
    ----------
    piece : Piece
        Of `pieces_of_similarity`.
    family : Family
    inner : csr_matrix
        `CutSpace.own`.
    query : Query
    limits : sequence of Limit
        Products outside of them are left out.
    best : Best
        Its scores are similarities.
    patterns : PatternTable, optional
        Products that are not as it asks for are left out.
    """
    *heads, last = _order(family)
    slots = [_Slot.of(side, inner, query, limits) for side in family.sides]
    for classes, views in zip(family.groups.tolist(), family.views.tolist(), strict=True):
        every = [
            slot.of_reach(bounds, reach, view)
            for slot, bounds, reach, view in zip(slots, piece.bounds, classes, views, strict=True)
        ]
        if not all(len(sums.rows) for sums in every):
            continue
        for places in parts(patterns, [sums.rows[:, 0] for sums in every]):
            sums = [of_slot.take(at) for of_slot, at in zip(every, places, strict=True)]
            tail = sums[last].descending(query)
            for head in _heads([sums[slot] for slot in heads]):
                _show(head, tail, query, limits, best, [*heads, last])


def _order(family: Family) -> list[int]:
    """Return the slots, the smallest first."""
    return np.argsort(family.shape, kind="stable").tolist()


@dataclass(frozen=True)
class _Sums:
    """Sums of synthons: their rows of each side, shape (n, slots); what they share with a query; totals."""

    rows: Integers
    counts: npt.NDArray[np.int32]
    totals: Integers
    sums: npt.NDArray[np.float64]

    def __add__(self, other: _Sums) -> _Sums:
        """Return the sums of one row here, and each row of `other`."""
        rows = np.broadcast_to(self.rows, (len(other.rows), self.rows.shape[1]))
        return _Sums(
            np.hstack([rows, other.rows]),
            self.counts + other.counts,
            self.totals + other.totals,
            self.sums + other.sums,
        )

    def take(self, at: npt.NDArray[np.intp] | slice) -> _Sums:
        return _Sums(self.rows[at], self.counts[at], self.totals[at], self.sums[at])

    def shared(self, query: Query) -> Integers:
        """Return the sum of minima of each row and the query."""
        return np.minimum(self.counts, query.counts).sum(axis=1, dtype=np.int64)

    def descending(self, query: Query) -> _Sums:
        """Return the rows that share most with the query first; of equal ones, the smallest."""
        return self.take(np.lexsort((self.totals, -self.shared(query))))

    def shares(self, query: Query) -> Shares:
        return Shares(np.ascontiguousarray(self.counts), self.shared(query), self.totals, self.sums)


@dataclass(frozen=True)
class _Slot:
    """A side of a family, as far as it concerns a query: of its synthons, and of counts over the cuts."""

    side: Side
    counts: npt.NDArray[np.int32]
    totals: Integers
    over: npt.NDArray[np.int32]
    over_totals: Integers
    sums: npt.NDArray[np.float64]

    @classmethod
    def of(cls, side: Side, inner: sparse.csr_matrix, query: Query, limits: Sequence[Limit]) -> _Slot:
        inner_of_side = inner[side.synthon]
        terms = [limit.values[side.synthon] for limit in limits]
        return cls(
            side,
            query.share(inner_of_side),
            _totals(inner_of_side),
            query.share(side.counts),
            _totals(side.counts),
            np.column_stack(terms) if terms else np.empty((len(side), 0)),
        )

    def of_reach(self, bounds: tuple[int, int], reach: int, view: int) -> _Sums:
        """Return the synthons within bounds that have a reach, next to partners of a view."""
        start, stop = np.searchsorted(self.side.reach[bounds[0] : bounds[1]], [reach, reach + 1]) + bounds[0]
        row = self.side.overlap[self.side.edge[start:stop], view]
        return _Sums(
            np.arange(start, stop)[:, None],
            self.counts[start:stop] + self.over[row],
            self.totals[start:stop] + self.over_totals[row],
            self.sums[start:stop],
        )


def _totals(counts: sparse.csr_matrix) -> Integers:
    return np.asarray(counts.sum(axis=1, dtype=np.int64)).ravel()


def _heads(parts: Sequence[_Sums]) -> Iterator[_Sums]:
    """Yield the sums of all but the last slot."""
    *before, last = parts
    for rows in itertools.product(*(range(len(one.rows)) for one in before)):
        head = last
        for one, row in zip(reversed(before), reversed(rows), strict=True):
            head = one.take(slice(row, row + 1)) + head
        yield head


def _show(
    head: _Sums, tail: _Sums, query: Query, limits: Sequence[Limit], best: Best, order: Sequence[int]
) -> None:
    """Show `best` the sums of two parts that reach its threshold; `order` gives the slots of their rows."""
    head = head.descending(query)  # the threshold rises early
    ones, others = head.shares(query), tail.shares(query)
    low = np.array([limit.low - ROUNDING for limit in limits], np.float64)
    high = np.array([limit.high + ROUNDING for limit in limits], np.float64)
    out = np.empty((len(tail.rows) + _SHOWN, 3), np.int64)
    first = 0
    while first < len(head.rows):
        least = max(0.0, best.least - ROUNDED)
        bound = Bound(query.counts, query.total, least, low, high)
        n_pairs, first = engine().similar_pairs(ones, others, bound, first, out)
        i, j, minima = out[:n_pairs].T
        score = minima / (ones.totals[i] + others.totals[j] + query.total - minima)

        def rows_of(
            at: npt.NDArray[np.intp], i: Integers = i, j: Integers = j
        ) -> list[npt.NDArray[np.int64]]:
            rows = np.hstack([head.rows[i[at]], tail.rows[j[at]]])
            return [rows[:, order.index(slot)] for slot in range(len(order))]

        best.look(score.astype(np.float32), rows_of)
