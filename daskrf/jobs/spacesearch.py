"""The best k products of a space by the mean of a process on Fourier features, as a reduction over pieces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.errors import StoreError
from daskrf.features.fourier import FourierFeatures
from daskrf.jobs.calls import check_stop
from daskrf.jobs.cutspaces import search_tables
from daskrf.jobs.mapreference import MapReference
from daskrf.jobs.tree import Reduction
from daskrf.screening import TopK
from daskrf.spaces.families import Family
from daskrf.spaces.limits import Range
from daskrf.spaces.ranking import Limit, Piece, RowsOf, amplitudes, pieces_of, score_piece
from daskrf.spaces.sumranking import Linear, best_sums, pieces_of_sums
from daskrf.storage.backend import as_path
from daskrf.storage.model import read_checkpoint

__all__ = ["Ranked", "SpacePieces", "SpaceSearch", "SumPieces", "SumSearch"]

_AT_ONCE = 16  # times k candidates of a tile get their numbers at a time
_HELD = 8  # times k products are collected before the best of them are chosen


@dataclass
class Ranked:
    """The best products so far: a commutative monoid."""

    top: TopK

    def __iadd__(self, other: Ranked) -> Ranked:
        self.top = self.top.combine(other.top)
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        """See `Partial`."""
        return self.top.arrays()


class Chosen:
    """The best k products of a family; see `daskrf.spaces.ranking.Best`. Ties go to the lower number.

    Parameters
    ----------
    family : Family
    top : TopK
        What was chosen before.
    """

    def __init__(self, family: Family, top: TopK) -> None:
        self._family, self._top = family, top
        self._held: list[tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]] = []
        self._n_held = 0
        self._least = self._threshold()

    def look(self, scores: npt.NDArray[np.float32], rows_of: RowsOf) -> None:
        """See `Best`."""
        at = np.flatnonzero(scores >= self._least)
        if self._least == -math.inf:
            at = at[scores[at] > -math.inf]
        most = _AT_ONCE * self._top.k
        while len(at):
            # The best first: most of the others are then below the threshold, and need no number.
            order = np.argpartition(-scores[at], most - 1) if len(at) > most else np.arange(len(at))
            now, at = at[order[:most]], at[order[most:]]
            number = self._family.number(rows_of(now))
            made = number >= 0
            self._held.append((scores[now[made]], number[made]))
            self._n_held += int(made.sum())
            if self._n_held >= _HELD * self._top.k or len(at):
                self._choose()
                at = at[scores[at] >= self._least]

    @property
    def least(self) -> float:
        """See `Best`."""
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
        """Return the score below which nothing is among the best."""
        return float(self._top.score[-1]) if len(self._top) == self._top.k else -math.inf


@dataclass(frozen=True)
class SpacePieces:
    """Pieces of a space by number: a chunk for `SpaceSearch`."""

    tables: tuple[str, str, int]
    n_components: int
    pieces: tuple[int, ...] = ()

    def of(self, pieces: tuple[int, ...]) -> SpacePieces:
        """Return the chunk of some pieces."""
        return replace(self, pieces=pieces)

    def __iter__(self) -> Iterator[Piece]:
        every = pieces_of(search_tables(*self.tables).families, self.n_components)
        for number in self.pieces:
            check_stop()
            yield every[number]


@dataclass(frozen=True)
class SpaceSearch(Reduction):
    """Scores pieces and keeps the best k products; see `daskrf.spaces.ranking`.

    Attributes
    ----------
    tables : tuple
        Arguments of `search_tables`.
    weights : str
        File of the weights of features, signed so that larger is better.
    map : MapReference
    k : int
    limits : tuple of Range
    """

    tables: tuple[str, str, int]
    weights: str
    map: MapReference
    k: int
    limits: tuple[Range, ...] = ()
    name: str = "screen"

    def zero(self) -> Ranked:
        return Ranked(TopK(self.k))

    def add(self, total: Ranked, block: Piece) -> None:
        tables, feature_map = search_tables(*self.tables), self.map.feature_map
        assert isinstance(feature_map, FourierFeatures)
        family = tables.families[block.family]
        limits = [Limit(tables.sums[:, column], low, high) for column, low, high in self.limits]
        best = Chosen(family, total.top)
        score_piece(block, family, tables.own, feature_map, self._amplitudes(), limits, best)
        total.top = best.top()

    def _amplitudes(self) -> npt.NDArray[np.complex64]:
        path = as_path(self.weights)
        found = read_checkpoint(path, path.name)
        if found is None:
            raise StoreError(f"{path} is missing or damaged; run the same command again to make it")
        return amplitudes(found.arrays["weights"])

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Ranked:
        columns: dict[str, Any] = dict(arrays)
        return Ranked(TopK(self.k, columns.pop("score"), columns.pop("row"), columns))


@dataclass(frozen=True)
class SumPieces:
    """Pieces of a space by number: a chunk for `SumSearch`."""

    tables: tuple[str, str, int]
    pieces: tuple[int, ...] = ()

    def of(self, pieces: tuple[int, ...]) -> SumPieces:
        """Return the chunk of some pieces."""
        return replace(self, pieces=pieces)

    def __iter__(self) -> Iterator[Piece]:
        every = pieces_of_sums(search_tables(*self.tables).families)
        for number in self.pieces:
            check_stop()
            yield every[number]


@dataclass(frozen=True)
class SumSearch(Reduction):
    """Keeps the best k products by a linear function of counts; see `daskrf.spaces.sumranking`.

    Attributes
    ----------
    tables : tuple
        Arguments of `search_tables`.
    weights : str
        File of the columns and their weights.
    k : int
    limits : tuple of Range
    """

    tables: tuple[str, str, int]
    weights: str
    k: int
    limits: tuple[Range, ...] = ()
    name: str = "screen"

    def zero(self) -> Ranked:
        return Ranked(TopK(self.k))

    def add(self, total: Ranked, block: Piece) -> None:
        tables, path = search_tables(*self.tables), as_path(self.weights)
        found = read_checkpoint(path, path.name)
        if found is None:
            raise StoreError(f"{path} is missing or damaged; run the same command again to make it")
        family = tables.families[block.family]
        limits = [Limit(tables.sums[:, column], low, high) for column, low, high in self.limits]
        best = Chosen(family, total.top)
        function = Linear(found.arrays["columns"], found.arrays["weights"])
        best_sums(block, family, tables.own, function, limits, best)
        total.top = best.top()

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Ranked:
        columns: dict[str, Any] = dict(arrays)
        return Ranked(TopK(self.k, columns.pop("score"), columns.pop("row"), columns))
