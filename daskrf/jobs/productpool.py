"""Products that a model has scored, and the search of better ones around the best of them.

A ranking that learned the scores of random products says little of how the best of all compare. So the model
also scores products that differ from its best ones in one block, those of them first that the ranking
prefers, and goes on from what it finds there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from daskrf.jobs.productscores import Scored
from daskrf.spaces import CutSpace
from daskrf.spaces.neighbours import neighbours

__all__ = ["Pool"]

Integers = npt.NDArray[np.int64]

_TURNS = 8  # the best give way to better ones at most so often
_PARENTS = 25  # products of a turn, whose neighbours are looked at
_FEWEST = 100  # best products that are to have no better neighbours, at least
_PER_SLOT = 500  # other blocks of each of their slots
_SCORED = 4000  # of these neighbours, at most
_GOOD = 20_000  # products whose blocks are tried first in slots of more


@dataclass
class Pool:
    """Products that a model has scored, each once.

    Attributes
    ----------
    predicted : callable
        Takes numbers of products; returns what the model says of them.
    excluded : frozenset of str
        Canonical SMILES of molecules that are no hits.
    row : int64 array
        Numbers of the products.
    scores : Scored
        What the model says of them, in this order.
    """

    predicted: Callable[[Integers], Scored]
    excluded: frozenset[str] = frozenset()
    row: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    scores: Scored = field(default_factory=Scored)
    _tried: set[int] = field(default_factory=set)

    def add(self, numbers: Integers) -> int:
        """Score products, but for those that have a score; return how many had none."""
        new = numbers[~np.isin(numbers, self.row)]
        if len(new):
            self.scores += self.predicted(new)
            self.scores = self.scores.alike()
            self.row = np.concatenate([self.row, new])
        return len(new)

    def best(self) -> tuple[Integers, npt.NDArray[np.bool_]]:
        """Return places of distinct molecules, best first, ties by number, and which of them may be hits."""
        order = np.lexsort((self.row, -self.scores.columns["score"]))
        texts = np.array(self.scores.smiles, object)[order]
        order = order[np.sort(np.unique(texts, return_index=True)[1])]
        return order, np.array([self.scores.smiles[i] not in self.excluded for i in order.tolist()], bool)

    def bar(self, k: int) -> float:
        """Return the score of the last of the best k; minus infinity if there are fewer."""
        order, free = self.best()
        hits = order[free]
        return float(self.scores.columns["score"][hits[k - 1]]) if len(hits) >= k else -math.inf

    def climb(
        self,
        cut: CutSpace,
        k: int,
        wanted: Callable[[Integers], npt.NDArray[np.bool_]],
        rank: Callable[[Integers], npt.NDArray[np.float64]],
    ) -> int:
        """Score products that differ in one block from the best ones, and from the best of these, and so on.

        It ends when no new product is among the best k, or the best 100 if that is more.

        Parameters
        ----------
        cut : CutSpace
        k : int
            How many are the best.
        wanted : callable
            Takes numbers of products; returns which of them count.
        rank : callable
            Returns a value for each product; those with larger ones are scored first.

        Returns
        -------
        int
            How many products it has scored.
        """
        before, k = len(self.row), max(k, _FEWEST)
        for turn in range(_TURNS):
            best = self.row[self.best()[0]]
            parents = [n for n in best[:k].tolist() if n not in self._tried][:_PARENTS]
            self._tried.update(parents)
            new = neighbours(cut, np.array(parents, np.int64), best[:_GOOD], _PER_SLOT, turn)
            new = np.setdiff1d(new[wanted(new)], self.row)
            bar = self.bar(k)
            n = self.add(new[np.lexsort((new, -rank(new)))][:_SCORED])
            if not (self.scores.columns["score"][len(self.row) - n :] > bar).any():
                break
        return len(self.row) - before
