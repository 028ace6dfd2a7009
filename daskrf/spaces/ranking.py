"""The best products of a family by the posterior mean of a process on Fourier features, exactly.

Counts of a product are sums over its synthons s: x = sum_s (own_s + over_s), where the counts over the cuts
depend on the reaches of the partners. A mean in Fourier features is

    mean(x) = m + sum_j Re(beta_j exp(i w_j . x)),    beta_j = (c_j - i s_j) / sqrt(p)

for weights c_j and s_j of p cosines and sines. So exp(i w_j . x) is a product over synthons, and for all
pairs of synthons of one group of reaches, the means are one matrix product Re(A B^T).
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
from daskrf.spaces.families import Family, Side

__all__ = [
    "ROUNDING",
    "Best",
    "Limit",
    "Piece",
    "amplitudes",
    "leading",
    "pieces_of",
    "score_piece",
    "waves",
]

PIECE_FLOP = 8e11  # of a piece with two slots: some ten seconds
LEAST_ROWS = 256  # of a slot in a piece
LEADING = 4  # synthons of the first of three slots in a piece
ROUNDING = 1e-6
"""Of sums of properties."""
TILE = 1024, 4096  # products that are scored at a time

Complex = npt.NDArray[np.complex64]
Single = npt.NDArray[np.float32]
RowsOf = Callable[[npt.NDArray[np.intp]], list[npt.NDArray[np.int64]]]


class Limit(NamedTuple):
    """A range that a sum over the synthons of a product must lie in; `values` are by synthon of the space."""

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
    """What keeps the best products of a family."""

    @property
    def least(self) -> float:
        """The score below which nothing is among the best."""

    def look(self, scores: Single, rows_of: RowsOf) -> None:
        """Take what may be among the best.

        Parameters
        ----------
        scores : float32 array, shape (n,)
            Minus infinity for products that are left out.
        rows_of : callable
            Returns the rows of the family's sides, by slot, for positions in `scores`.
        """


def waves(feature_map: FourierFeatures, counts: sparse.csr_matrix) -> Complex:
    """Return exp(i w_j . x) for each row x and frequency j, shape (n, p).

    Examples
    --------
    >>> from daskrf import RandomFourierFeatures
    >>> found = waves(RandomFourierFeatures(n_components=4).fit(np.eye(2)), sparse.csr_matrix([[0, 0]]))
    >>> found.round(3).tolist()
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
    """Cut the products of families into pieces, whose size depends on nothing but the number of features."""
    side = max(LEAST_ROWS, int(math.sqrt(PIECE_FLOP / (2 * n_components))))
    found = []
    for number, family in enumerate(families):
        lead = leading(family)
        ranges = [_parts(size, LEADING if slot == lead else side) for slot, size in enumerate(family.shape)]
        found += [Piece(number, bounds) for bounds in itertools.product(*ranges)]
    return found


def _parts(size: int, most: int) -> list[tuple[int, int]]:
    """Cut a range into equal parts of at most `most`."""
    bounds = np.linspace(0, size, -(-size // most) + 1).astype(int).tolist()
    return list(itertools.pairwise(bounds))


def leading(family: Family) -> int | None:
    """Return the slot whose synthons are taken one by one: the smallest of three, none of two."""
    return None if len(family.shape) == 2 else int(np.argmin(family.shape))


def score_piece(
    piece: Piece,
    family: Family,
    own: sparse.csr_matrix,
    feature_map: FourierFeatures,
    beta: Complex,
    limits: Sequence[Limit],
    best: Best,
) -> None:
    """Score all products of a piece, for `best` to choose from.

    Parameters
    ----------
    piece : Piece
    family : Family
        That of the piece.
    own : csr_matrix
        `CutSpace.own`.
    feature_map : FourierFeatures
    beta : complex64 array, shape (p,)
        See `amplitudes`; its sign is such that larger is better.
    limits : sequence of Limit
        Products outside of them are left out.
    best : Best
    """
    parts = [
        _Part.of(side, rows, own, feature_map) for side, rows in zip(family.sides, piece.bounds, strict=True)
    ]
    lead = leading(family)
    left, right = (slot for slot in range(len(parts)) if slot != lead)
    for classes, views in zip(family.groups.tolist(), family.views.tolist(), strict=True):
        rows = [part.rows_of(c) for part, c in zip(parts, classes, strict=True)]
        if not all(stop > start for start, stop in rows):
            continue
        factors = [part.factor(*r, v) for part, r, v in zip(parts, rows, views, strict=True)]
        b = np.ascontiguousarray(factors[right]).view(np.float32)
        offsets = [part.start + start for part, (start, _) in zip(parts, rows, strict=True)]
        sums = [
            [_of_rows(limit.values, part, r) for part, r in zip(parts, rows, strict=True)] for limit in limits
        ]
        for i in range(len(factors[lead])) if lead is not None else (0,):
            head = beta if lead is None else factors[lead][i] * beta
            a = np.conj(factors[left] * head).view(np.float32)
            first = {left: offsets[left], right: offsets[right]}
            if lead is not None:
                first[lead] = offsets[lead] + i
            bounds = [
                _Bounds(of[left], of[right], limit, of[lead][i] if lead is not None else 0.0)
                for of, limit in zip(sums, limits, strict=True)
            ]
            _scan(a, b, bounds, best, [first[slot] for slot in range(len(parts))], left, right)


@dataclass(frozen=True)
class _Part:
    """Some rows of a side, with the waves of their own counts."""

    side: Side
    start: int
    stop: int
    waves: Complex
    feature_map: FourierFeatures

    @classmethod
    def of(
        cls, side: Side, rows: tuple[int, int], own: sparse.csr_matrix, feature_map: FourierFeatures
    ) -> _Part:
        start, stop = rows
        return cls(side, start, stop, waves(feature_map, own[side.synthon[start:stop]]), feature_map)

    def rows_of(self, reach: int) -> tuple[int, int]:
        """Return the range of rows, within the part, that have a reach."""
        start, stop = np.searchsorted(self.side.reach[self.start : self.stop], [reach, reach + 1])
        return int(start), int(stop)

    def factor(self, start: int, stop: int, view: int) -> Complex:
        """Return the waves of rows in a view, that is, with the counts over the cuts."""
        edges = self.side.edge[self.start + start : self.start + stop]
        distinct, place = np.unique(edges, return_inverse=True)
        over = waves(self.feature_map, self.side.counts[self.side.overlap[distinct, view]])
        found = over[place]
        found *= self.waves[start:stop]
        return found


def _of_rows(values: npt.NDArray[np.float64], part: _Part, rows: tuple[int, int]) -> npt.NDArray[np.float64]:
    start, stop = rows
    return values[part.side.synthon[part.start + start : part.start + stop]]


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


def _scan(
    a: Single, b: Single, bounds: Sequence[_Bounds], best: Best, first: list[int], left: int, right: int
) -> None:
    """Show the scores of all pairs of rows, in tiles, to `best`; `first` are rows of the first product."""
    n_rows, n_columns = TILE
    room = np.empty(min(n_rows, len(a)) * min(n_columns, len(b)), np.float32)
    for i, j in itertools.product(range(0, len(a), n_rows), range(0, len(b), n_columns)):
        rows, columns = slice(i, min(i + n_rows, len(a))), slice(j, min(j + n_columns, len(b)))
        shape = rows.stop - i, columns.stop - j
        tile = room[: shape[0] * shape[1]].reshape(shape)
        np.matmul(a[rows], b[columns].T, out=tile)
        for bound in bounds:
            if (forbidden := bound.forbids(rows, columns)) is not None:
                tile[forbidden] = -np.inf
        start = [row + (i if slot == left else j if slot == right else 0) for slot, row in enumerate(first)]
        best.look(tile.reshape(-1), functools.partial(_rows_at, start, left, right, shape[1]))


def _rows_at(
    start: list[int], left: int, right: int, n_columns: int, at: npt.NDArray[np.intp]
) -> list[npt.NDArray[np.int64]]:
    """Return the rows of the products at some positions of a tile; `start` are those of its first one."""
    rows = [np.full(len(at), row, np.int64) for row in start]
    rows[left] += at // n_columns
    rows[right] += at % n_columns
    return rows
