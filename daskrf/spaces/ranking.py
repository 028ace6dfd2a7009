"""Find exactly the best products of a family by the posterior mean of a model on Fourier features.

Counts of a product are sums over its synthons s: x = sum_s (inner_s + over_s), where the counts over the cuts
depend on the reaches of the partners. A mean in Fourier features is

    mean(x) = m + sum_j Re(beta_j exp(i w_j . x)),    beta_j = (c_j - i s_j) / sqrt(p)

for weights c_j and s_j of p cosines and sines. So exp(i w_j . x) is a product over synthons, and for all
pairs of synthons of one group of reaches, the means are one matrix product Re(A B^T).

In large families, bounds rule out most products (see `daskrf.spaces.balancedbasis`), by a matrix product with
an eighth of the coordinates; the others are scored one by one. The best products are the same.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.features.fourier import FourierFeatures
from daskrf.spaces.balancedbasis import BalancedBasis, bounding
from daskrf.spaces.families import Family, Side
from daskrf.spaces.patterns import PatternTable, Places, parts

PIECE_FLOP = 1e12  # operations for a piece with two slots: some ten seconds
LEAST_ROWS = 256  # of a slot in a piece
LEADING = 16  # synthons of the first of three slots in a piece
ROUNDING = 1e-6
"""Allowance for rounding in sums of properties."""
TILE = 1024, 4096  # products that are scored at a time
LARGE = 1000  # times the squared number of features: from this many products of a family on, bounds pay off
_HEADS, _ROWS = 32, 4  # for a basis: synthons of the leading slot per group, and rows per feature
_ONE_BY_ONE = 2048  # products that are scored one by one, at a time
_MOST = 65_536  # products that are shown to the collector at a time, the best ones first
_DEAR = 40  # cost of scoring a product alone, relative to scoring it in a matrix product

Complex = npt.NDArray[np.complex64]
Single = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
RowsOf = Callable[[npt.NDArray[np.intp]], list[npt.NDArray[np.int64]]]


class Limit(NamedTuple):
    """A range for a sum over the synthons of a product; `values` are its terms, by synthon of the space."""

    values: npt.NDArray[np.float64]
    low: float = -math.inf
    high: float = math.inf


class Piece(NamedTuple):
    """A block of products: a family, and a range of the rows of each of its sides."""

    family: int
    bounds: tuple[tuple[int, int], ...]

    @property
    def size(self) -> int:
        """Number of products."""
        return math.prod(stop - start for start, stop in self.bounds)


class Best(Protocol):
    """Collects the best products of a family."""

    @property
    def least(self) -> float:
        """The score below which no product is among the best."""

    def look(self, scores: Single, rows_of: RowsOf) -> None:
        """Take products that may be among the best.

        Parameters
        ----------
        scores : float32 array, shape (n,)
            Minus infinity for products that are left out.
        rows_of : callable
            Returns the rows of the family's sides, by slot, for positions in `scores`.
        """


class Search(NamedTuple):
    """Weights that score products, and a collector of the best.

    Attributes
    ----------
    beta : complex64 array, shape (p,)
        See `amplitudes`; signed so that larger is better.
    best : Best
    basis : BalancedBasis or None
        See `balanced_basis`; without it, all products are scored.
    """

    beta: Complex
    best: Best
    basis: BalancedBasis | None = None


def waves(feature_map: FourierFeatures, counts: sparse.csr_matrix) -> Complex:
    """Return exp(i w_j . x) for each row x and frequency j, shape (n, p).

    Examples
    --------
    >>> from daskrf import RandomFourierFeatures
    >>> result = waves(RandomFourierFeatures(n_components=4).fit(np.eye(2)), sparse.csr_matrix([[0, 0]]))
    >>> result.round(3).tolist()
    [[(1+0j), (1+0j)]]
    """
    n_pairs = feature_map.n_components // 2
    features = np.ascontiguousarray(feature_map.transform(counts)[:, : 2 * n_pairs])
    features *= np.float32(math.sqrt(n_pairs))
    return features.view(np.complex64)


def amplitudes(weights: npt.NDArray[np.float64]) -> Complex:
    """Return beta: the mean of x is m + Re(waves(x) . beta), for weights of features, shape (M,)."""
    n_pairs = len(weights) // 2
    pairs = weights[: 2 * n_pairs].reshape(n_pairs, 2)
    return ((pairs[:, 0] - 1j * pairs[:, 1]) / math.sqrt(n_pairs)).astype(np.complex64)


def pieces_of(families: Sequence[Family], n_components: int) -> list[Piece]:
    """Cut the products of families into pieces; their size depends only on the number of features."""
    side = max(LEAST_ROWS, int(math.sqrt(PIECE_FLOP / (2 * n_components))))
    pieces = []
    for number, family in enumerate(families):
        lead = leading(family)
        ranges = [_ranges(size, LEADING if slot == lead else side) for slot, size in enumerate(family.shape)]
        pieces += [Piece(number, bounds) for bounds in itertools.product(*ranges)]
    return pieces


def _ranges(size: int, most: int) -> list[tuple[int, int]]:
    """Cut a range into equal parts of at most `most`."""
    bounds = np.linspace(0, size, -(-size // most) + 1).astype(int).tolist()
    return list(itertools.pairwise(bounds))


def leading(family: Family) -> int | None:
    """Return the slot whose synthons are taken one by one: the smallest of three slots; None for two."""
    return None if len(family.shape) == 2 else int(np.argmin(family.shape))


def score_piece(
    piece: Piece,
    family: Family,
    inner: sparse.csr_matrix,
    feature_map: FourierFeatures,
    limits: Sequence[Limit],
    searches: Sequence[Search],
    patterns: PatternTable | None = None,
) -> None:
    """Score the products of a piece for all searches, which share the factors of synthons.

    Parameters
    ----------
    piece : Piece
    family : Family
        That of the piece.
    inner : csr_matrix
        `CutSpace.own`.
    feature_map : FourierFeatures
    limits : sequence of Limit
        Products outside of them are left out.
    searches : sequence of Search
    patterns : PatternTable, optional
        Products that are not as it asks for are left out.
    """
    blocks = [
        _Block.of(side, rows, inner, feature_map)
        for side, rows in zip(family.sides, piece.bounds, strict=True)
    ]
    lead = leading(family)
    for classes, views in zip(family.groups.tolist(), family.views.tolist(), strict=True):
        rows = [block.rows_of(c) for block, c in zip(blocks, classes, strict=True)]
        if not all(stop > start for start, stop in rows):
            continue
        factors = [block.factor(*r, v) for block, r, v in zip(blocks, rows, views, strict=True)]
        group = _Group(
            [
                np.arange(block.start + start, block.start + stop)
                for block, (start, stop) in zip(blocks, rows, strict=True)
            ],
            factors,
            [
                [_of_rows(limit.values, block, r) for block, r in zip(blocks, rows, strict=True)]
                for limit in limits
            ],
        )
        for places in parts(patterns, group.rows):
            _score(group.take(places), lead, limits, searches)


def _score(group: _Group, lead: int | None, limits: Sequence[Limit], searches: Sequence[Search]) -> None:
    """Score all products of some synthons."""
    factors = group.factors
    left, right = (slot for slot in range(len(factors)) if slot != lead)
    b = np.ascontiguousarray(factors[right]).view(np.float32)
    for beta, best, basis in searches:
        few_b = None if basis is None else basis.right(b)
        for i in range(len(factors[lead])) if lead is not None else (0,):
            a = _turned(factors[left], beta if lead is None else factors[lead][i] * beta)
            few = None if basis is None or few_b is None else (basis.left(a), few_b)
            bounds = [
                _Bounds(of[left], of[right], limit, of[lead][i] if lead is not None else 0.0)
                for of, limit in zip(group.terms, limits, strict=True)
            ]
            of_slot = [rows[[i]] if slot == lead else rows for slot, rows in enumerate(group.rows)]
            _scan(a=a, b=b, few=few, bounds=bounds, best=best, rows=of_slot, left=left, right=right)


def balanced_basis(
    family: Family, inner: sparse.csr_matrix, feature_map: FourierFeatures, beta: Complex
) -> BalancedBasis | None:
    """Return the basis for bounds of all products of a family, or None if it is too small to profit.

    It is made from some of the rows, and is the same for all pieces.
    """
    if math.prod(family.shape) < LARGE * feature_map.n_components**2:
        return None
    lead, n_columns = leading(family), 2 * len(beta)
    left, right = (slot for slot in range(len(family.shape)) if slot != lead)
    grams = np.zeros((2, n_columns, n_columns))
    for classes, views in zip(family.groups.tolist(), family.views.tolist(), strict=True):
        rows = [np.searchsorted(s.reach, [c, c + 1]) for s, c in zip(family.sides, classes, strict=True)]
        sizes = [int(stop - start) for start, stop in rows]
        share = math.prod(sizes) / math.prod(family.shape)
        if not share:
            continue
        factors = []
        for side, (start, stop), view, slot in zip(family.sides, rows, views, itertools.count()):
            few = _HEADS if slot == lead else _ROWS * n_columns
            some = np.unique(np.linspace(start, stop - 1, few).astype(int))
            factors.append(
                _factors(side, some, waves(feature_map, inner[side.synthon[some]]), view, feature_map)
            )
        heads = beta[None] if lead is None else factors[lead] * beta
        for i, head in enumerate(heads):
            a = _turned(factors[left][i % len(factors[left]) :: len(heads)], head)
            grams[0] += share / len(heads) / len(a) * (a.T @ a)
        b = np.ascontiguousarray(factors[right]).view(np.float32)
        grams[1] += share / len(b) * (b.T @ b)
    return BalancedBasis.of(*grams)


def _turned(factors: Complex, head: Complex) -> Single:
    """Return the rows whose products with those of the other side are Re(factors . head . others)."""
    return np.conj(factors * head).view(np.float32)


@dataclass(frozen=True)
class _Block:
    """Some rows of a side, with the waves of their inner counts."""

    side: Side
    start: int
    stop: int
    waves: Complex
    feature_map: FourierFeatures

    @classmethod
    def of(
        cls, side: Side, rows: tuple[int, int], inner: sparse.csr_matrix, feature_map: FourierFeatures
    ) -> _Block:
        start, stop = rows
        return cls(side, start, stop, waves(feature_map, inner[side.synthon[start:stop]]), feature_map)

    def rows_of(self, reach: int) -> tuple[int, int]:
        """Return the range of rows, within the block, that have a reach."""
        start, stop = np.searchsorted(self.side.reach[self.start : self.stop], [reach, reach + 1])
        return int(start), int(stop)

    def factor(self, start: int, stop: int, view: int) -> Complex:
        """Return the waves of rows, including the counts over the cuts in this view."""
        rows = np.arange(self.start + start, self.start + stop)
        return _factors(self.side, rows, self.waves[start:stop], view, self.feature_map)


def _factors(
    side: Side, rows: npt.NDArray[np.int64], inner: Complex, view: int, feature_map: FourierFeatures
) -> Complex:
    """Return the waves of rows of a side in a view, from those of their inner counts."""
    distinct, place = np.unique(side.edge[rows], return_inverse=True)
    over = waves(feature_map, side.counts[side.overlap[distinct, view]])
    factors = over[place]
    factors *= inner
    return factors


@dataclass(frozen=True)
class _Group:
    """Synthons of each slot whose products are scored together.

    Attributes
    ----------
    rows : list of int64 arrays
        Of the sides, by slot.
    factors : list of complex64 arrays
        Their waves, by slot.
    terms : list of lists of float64 arrays
        Their terms of each limit, by slot.
    """

    rows: list[Integers]
    factors: list[Complex]
    terms: list[list[npt.NDArray[np.float64]]]

    def take(self, places: Sequence[Places]) -> _Group:
        """Return the group of some synthons of each slot."""
        return _Group(
            [rows[at] for rows, at in zip(self.rows, places, strict=True)],
            [factors[at] for factors, at in zip(self.factors, places, strict=True)],
            [[term[at] for term, at in zip(of, places, strict=True)] for of in self.terms],
        )


def _of_rows(
    values: npt.NDArray[np.float64], block: _Block, rows: tuple[int, int]
) -> npt.NDArray[np.float64]:
    start, stop = rows
    return values[block.side.synthon[block.start + start : block.start + stop]]


class _Bounds(NamedTuple):
    """A limit on sums over pairs."""

    left: npt.NDArray[np.float64]
    right: npt.NDArray[np.float64]
    limit: Limit
    rest: float

    def forbids(self, rows: slice, columns: slice) -> npt.NDArray[np.bool_] | None:
        """Return which pairs are outside of the limit, or None if none is."""
        left, right = self.left[rows] + self.rest, self.right[columns]
        low, high = self.limit.low - ROUNDING, self.limit.high + ROUNDING
        if left.min() + right.min() >= low and left.max() + right.max() <= high:
            return None
        sums = left[:, None] + right[None, :]
        return (sums < low) | (sums > high)

    def of(self, rows: slice, columns: slice) -> _Bounds:
        """Return the limit for some of the rows of both sides."""
        return self._replace(left=self.left[rows], right=self.right[columns])

    def allow(self, i: npt.NDArray[np.intp], j: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
        """Return which of some pairs of rows are within the limit."""
        sums = self.left[i] + self.rest + self.right[j]
        return (sums >= self.limit.low - ROUNDING) & (sums <= self.limit.high + ROUNDING)


def _scan(
    a: Single,
    b: Single,
    few: tuple[Single, Single] | None,
    bounds: Sequence[_Bounds],
    best: Best,
    rows: list[Integers],
    left: int,
    right: int,
) -> None:
    """Show `best` the scores of pairs, in tiles; `rows` are those of the family's sides, by slot.

    Products of the rows `few` are upper bounds on the scores; pairs that they do not rule out are scored one
    by one. Without `few`, all pairs are scored.
    """
    n_rows, n_columns = TILE
    room = np.empty(min(n_rows, len(a)) * min(n_columns, len(b)), np.float32)
    for i, j in itertools.product(range(0, len(a), n_rows), range(0, len(b), n_columns)):
        some, columns = slice(i, min(i + n_rows, len(a))), slice(j, min(j + n_columns, len(b)))
        shape = some.stop - i, columns.stop - j
        tile = room[: shape[0] * shape[1]].reshape(shape)
        of_tile = [
            each[some] if slot == left else each[columns] if slot == right else each
            for slot, each in enumerate(rows)
        ]
        rows_at = functools.partial(_rows_at, of_tile, left, right, shape[1])
        if few is None:
            np.matmul(a[some], b[columns].T, out=tile)
            for bound in bounds:
                if (forbidden := bound.forbids(some, columns)) is not None:
                    tile[forbidden] = -np.inf
            best.look(tile.reshape(-1), rows_at)
        else:
            np.matmul(few[0][some], few[1][columns].T, out=tile)
            within = [bound.of(some, columns) for bound in bounds]
            _show_above(a[some], b[columns], tile, within, best, rows_at)


def _show_above(
    a: Single, b: Single, tile: Single, bounds: Sequence[_Bounds], best: Best, rows_at: RowsOf
) -> None:
    """Show `best` the scores of pairs whose upper bounds, in `tile`, reach its threshold."""
    flat, n_columns = tile.reshape(-1), tile.shape[1]

    def above() -> npt.NDArray[np.intp]:
        at = np.flatnonzero(flat >= best.least)
        for bound in bounds:
            at = at[bound.allow(*divmod(at, n_columns))]
        return at

    at = above()
    if len(at) * _DEAR > len(flat):  # scores plus an allowance for rounding are closer bounds
        whole = a.shape[1]
        np.matmul(bounding(a, whole), bounding(b, whole).T, out=tile)
        at = above()
    while len(at):
        order = np.argpartition(-flat[at], _MOST) if len(at) > _MOST else np.arange(len(at))
        now, at = at[order[:_MOST]], at[order[_MOST:]]
        best.look(_scores(a, b, now), functools.partial(_rows_of, rows_at, now))
        at = at[flat[at] >= best.least]


def _rows_of(
    rows_at: RowsOf, shown: npt.NDArray[np.intp], at: npt.NDArray[np.intp]
) -> list[npt.NDArray[np.int64]]:
    return rows_at(shown[at])


def _scores(a: Single, b: Single, at: npt.NDArray[np.intp]) -> Single:
    """Return the products of some pairs of rows; each depends only on its rows."""
    scores = np.empty(len(at), np.float32)
    for start in range(0, len(at), _ONE_BY_ONE):
        i, j = divmod(at[start : start + _ONE_BY_ONE], len(b))
        np.einsum("ij,ij->i", a[i], b[j], out=scores[start : start + _ONE_BY_ONE])
    return scores


def _rows_at(
    rows: list[Integers], left: int, right: int, n_columns: int, at: npt.NDArray[np.intp]
) -> list[Integers]:
    """Return the rows of the products at some positions of a tile, whose rows are given by slot."""
    i, j = divmod(at, n_columns)
    return [
        each[i] if slot == left else each[j] if slot == right else np.repeat(each, len(at))
        for slot, each in enumerate(rows)
    ]
