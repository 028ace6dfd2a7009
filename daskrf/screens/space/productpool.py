"""Products that a model has scored, and the search for better ones near the best of them.

A surrogate trained on random products says little about how the very best products compare. So the model
also scores products that differ from its best ones in one block, first those that the surrogate prefers, and
continues from the best that it finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from daskrf.molecules.structures import KnownStructures
from daskrf.screens.space.hits import Candidates
from daskrf.screens.space.productscores import Scored
from daskrf.spaces import CutSpace
from daskrf.spaces.neighbours import neighbours

Integers = npt.NDArray[np.int64]

_TURNS = 8  # at most
_PARENTS = 25  # products of a turn, whose neighbours are tried
_FEWEST = 100  # the search goes on until this many best products, or k if more, have no better neighbours
_PER_SLOT = 500  # other blocks tried in each slot of a parent
_SCORED = 4000  # neighbours scored in a turn, at most
_GOOD = 20_000  # best products; their blocks are tried first in slots with more blocks than can be tried


@dataclass
class Pool:
    """Products that a model has scored, each once.

    Attributes
    ----------
    cut : CutSpace
    predicted : callable
        Takes numbers of products; returns their scores by the model.
    per_block : int or None
        At most this many hits have the same block.
    excluded : KnownStructures, optional
        Molecules that must not be hits.
    row : int64 array
        Numbers of the products.
    scores : Scored
        Their scores by the model, in this order.
    settled : bool
        Whether the last search of neighbours ended because it found nothing better.
    """

    cut: CutSpace
    predicted: Callable[[Integers], Scored]
    per_block: int | None = None
    excluded: KnownStructures | None = None
    row: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    scores: Scored = field(default_factory=Scored)
    settled: bool = True
    _tried: set[int] = field(default_factory=set)

    def add(self, numbers: Integers) -> int:
        """Score the products that have no score yet; return their number."""
        new = numbers[~np.isin(numbers, self.row)]
        if len(new):
            self.scores += self.predicted(new)
            self.scores = self.scores.alike()
            self.row = np.concatenate([self.row, new])
        return len(new)

    def hits(self) -> Candidates:
        """Return the products that may be hits, best first."""
        return Candidates.of(self.cut, self.row, self.scores, self.per_block, self.excluded)

    def last_score(self, k: int) -> float:
        """Return the score of the last of k hits; minus infinity if there are fewer."""
        score = self.hits().columns["score"]
        return float(score[k - 1]) if len(score) >= k else -math.inf

    def search_neighbours(
        self,
        k: int,
        wanted: Callable[[Integers], npt.NDArray[np.bool_]],
        rank: Callable[[Integers], npt.NDArray[np.float64]],
    ) -> int:
        """Score products that differ in one block from the best ones, then from the new best ones, and so on.

        The search ends when no new product is better than the last of k hits (100 hits if k is smaller), or
        after eight turns.

        Parameters
        ----------
        k : int
        wanted : callable
            Takes numbers of products; returns which of them may be scored.
        rank : callable
            Returns a value for each product; those with larger ones are scored first.

        Returns
        -------
        int
            Number of products scored.
        """
        before, k, self.settled = len(self.row), max(k, _FEWEST), False
        for turn in range(_TURNS):
            best = Candidates.of(self.cut, self.row, self.scores, None).row  # excluded ones too
            parents = [n for n in best[:k].tolist() if n not in self._tried][:_PARENTS]
            self._tried.update(parents)
            new = neighbours(self.cut, np.array(parents, np.int64), best[:_GOOD], _PER_SLOT, turn)
            new = np.setdiff1d(new[wanted(new)], self.row)
            last_score = self.last_score(k)
            n = self.add(new[np.lexsort((new, -rank(new)))][:_SCORED])
            if not (self.scores.columns["score"][len(self.row) - n :] > last_score).any():
                self.settled = True
                break
        return len(self.row) - before
