"""Find the best k products of a space by a ranking function, as a reduction over pieces."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from daskrf.arrays import NamedArrays
from daskrf.features.fourier import FourierFeatures
from daskrf.files.backend import as_path
from daskrf.jobs.tree import Reduction
from daskrf.screening import TopK
from daskrf.screens.space.cutspaces import TablesPlace, search_tables
from daskrf.screens.space.patternfilter import tables_at
from daskrf.sources.mapreference import MapReference
from daskrf.spaces.balancedbasis import BalancedBasis
from daskrf.spaces.families import Family
from daskrf.spaces.limits import Range
from daskrf.spaces.patterns import PatternTable
from daskrf.spaces.ranking import (
    Limit,
    Piece,
    RowsOf,
    Search,
    amplitudes,
    balanced_basis,
    pieces_of,
    score_piece,
)
from daskrf.spaces.sumranking import Linear, best_sums, pieces_of_sums
from daskrf.storage.model import needed_checkpoint
from daskrf.workers.calls import check_stop

_AT_ONCE = 16  # times k products of a tile are numbered at a time
_HELD = 8  # times k products are collected before the best of them are chosen


@dataclass
class Ranked:
    """The best products so far, of each draw: a commutative monoid."""

    tops: list[TopK]

    def __iadd__(self, other: Ranked) -> Ranked:
        self.tops = [top.combine(more) for top, more in zip(self.tops, other.tops, strict=True)]
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        return {f"{i}/{name}": a for i, top in enumerate(self.tops) for name, a in top.arrays().items()}


class Chosen:
    """The best k products of a family; see `daskrf.spaces.ranking.Best`. Ties go to the lower number.

    Parameters
    ----------
    family : Family
    top : TopK
        The best products so far.
    patterns : PatternTable, optional
        Products that are not as it asks for are left out.
    least : float
        So are products with a lower score.
    """

    def __init__(
        self, family: Family, top: TopK, patterns: PatternTable | None = None, least: float = -math.inf
    ) -> None:
        self._family, self._top, self._patterns, self._floor = family, top, patterns, least
        self._held: list[tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]] = []
        self._n_held = 0
        self._least = self._threshold()

    def look(self, scores: npt.NDArray[np.float32], rows_of: RowsOf) -> None:
        at = np.flatnonzero(scores >= self._least)
        if self._least == -math.inf:
            at = at[scores[at] > -math.inf]
        most = _AT_ONCE * self._top.k
        while len(at):
            # Number the best first: then most of the others are below the threshold, and need no number.
            order = np.argpartition(-scores[at], most - 1) if len(at) > most else np.arange(len(at))
            now, at = at[order[:most]], at[order[most:]]
            rows = rows_of(now)
            number = self._family.number(rows)
            made = number >= 0
            if self._patterns is not None:
                made &= self._patterns.holds(rows)
            self._held.append((scores[now[made]], number[made]))
            self._n_held += int(made.sum())
            enough = self._top.k * (_HELD if self._least > -math.inf else 1)
            if self._n_held >= enough or len(at):
                self._choose()
                at = at[scores[at] >= self._least]

    @property
    def least(self) -> float:
        return self._least

    def top(self) -> TopK:
        """Return the best products."""
        self._choose()
        return self._top

    def _choose(self) -> None:
        if self._held:  # all at once: each product is shown once
            score, number = map(np.concatenate, zip(*self._held, strict=True))
            self._top = self._top.combine(TopK(self._top.k).from_chunk(score, number))
        self._held, self._n_held = [], 0
        self._least = self._threshold()

    def _threshold(self) -> float:
        """Return the score that a product must reach to be among the best."""
        return float(self._top.score[-1]) if len(self._top) == self._top.k else self._floor


@dataclass(frozen=True)
class SpacePieces:
    """Pieces of a space by number: a chunk for `SpaceSearch`.

    `n_components` is the number of features of all draws together, or None for a linear function.
    """

    tables: TablesPlace
    n_components: int | None
    pieces: tuple[int, ...] = ()

    def of(self, pieces: tuple[int, ...]) -> SpacePieces:
        """Return the chunk of some pieces."""
        return replace(self, pieces=pieces)

    def __iter__(self) -> Iterator[Piece]:
        families, size = search_tables(self.tables).families, self.n_components
        every = pieces_of_sums(families) if size is None else pieces_of(families, size)
        for number in self.pieces:
            check_stop()
            yield every[number]


@dataclass(frozen=True)
class SpaceSearch(Reduction[Piece, Ranked, Ranked]):
    """Scores pieces and keeps the best k products.

    Attributes
    ----------
    tables : TablesPlace
    weights : str
        File of the weights of the score, signed so that larger is better; of shape (M, n_draws) for draws.
    map : MapReference or None
        The Fourier features that the weights belong to (see `daskrf.spaces.ranking`); None for a linear
        function of counts (see `daskrf.spaces.sumranking`).
    k : int
        How many products are kept of each draw.
    limits : tuple of Range
    n_draws : int
    patterns : str
        File of a `PatternFilter`; empty without patterns.
    """

    tables: TablesPlace
    weights: str
    map: MapReference | None
    k: int
    limits: tuple[Range, ...] = ()
    n_draws: int = 1
    patterns: str = ""
    name: str = "screen"

    def zero(self) -> Ranked:
        return Ranked([TopK(self.k) for _ in range(self.n_draws)])

    def add(self, total: Ranked, block: Piece) -> None:
        tables = search_tables(self.tables)
        family = tables.families[block.family]
        limits = [Limit(tables.sums[:, column], low, high) for column, low, high in self.limits]
        patterns = tables_at(self.patterns)[block.family] if self.patterns else None
        best = [Chosen(family, top, patterns) for top in total.tops]
        held = needed_checkpoint(self.weights, as_path(self.weights).name).arrays
        if self.map is None:
            function = Linear(held["columns"], held["weights"])
            best_sums(block, family, tables.inner, function, limits, best[0], patterns)
        else:
            feature_map = self.map.feature_map
            assert isinstance(feature_map, FourierFeatures)
            # With several draws, each would need its own basis, which takes seconds to make.
            basis = (
                _basis(replace(self, k=0, limits=(), patterns=""), block.family)
                if self.n_draws == 1
                else None
            )
            betas = map(amplitudes, held["weights"].reshape(-1, self.n_draws).T)
            searches = [Search(beta, heap, basis) for beta, heap in zip(betas, best, strict=True)]
            score_piece(block, family, tables.inner, feature_map, limits, searches, patterns)
        total.tops = [heap.top() for heap in best]

    def finalize(self, total: Ranked, rest: Iterator[Ranked]) -> Ranked:
        return total

    def restore(self, arrays: NamedArrays) -> Ranked:
        return Ranked([TopK(self.k, arrays[f"{i}/score"], arrays[f"{i}/row"]) for i in range(self.n_draws)])


@functools.lru_cache(maxsize=2)
def _basis(search: SpaceSearch, family: int) -> BalancedBasis | None:
    """Return the basis for bounds of a family's products, made once per process."""
    assert search.map is not None
    tables, feature_map = search_tables(search.tables), search.map.feature_map
    assert isinstance(feature_map, FourierFeatures)
    held = needed_checkpoint(search.weights, as_path(search.weights).name).arrays
    beta = amplitudes(held["weights"])
    return balanced_basis(tables.families[family], tables.inner, feature_map, beta)
