"""Products that a model has scored, and the search for better ones near the best of them.

A surrogate trained on random products says little about how the very best products compare. So the model
also scores products that differ from its best ones in one block, first those that the surrogate prefers, and
continues from the best that it finds.

Where standard deviations are dear, products first get upper bounds of their scores, then tighter ones, and
exact scores only as far as the best products depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from daskrf.molecules.structures import KnownStructures
from daskrf.screens.space.hits import Candidates
from daskrf.screens.space.productscores import NUMBERS, STEP, Scored
from daskrf.screens.space.producttests import ProductTests
from daskrf.spaces import CutSpace
from daskrf.spaces.neighbours import neighbours

Integers = npt.NDArray[np.int64]

_TURNS = 8  # at most
_PARENTS = 25  # products of a turn, whose neighbours are tried
_FEWEST = 100  # the search goes on until this many best products, or k if more, have no better neighbours
_PER_SLOT = 500  # other blocks tried in each slot of a parent
_SCORED = 4000  # neighbours scored in a turn, at most
_GOOD = 20_000  # best products; their blocks are tried first in slots with more blocks than can be tried
_FURTHER = 4  # times as many products are looked at, if these were too few
# Times as many products get the next bounds, or scores, as would do if their own were exact: those of the
# first step are loose, and another turn costs more than some bounds too many.
_FIRST_AHEAD, _AHEAD = 8, 2


@dataclass
class Pool:
    """Products that a model has scored, each once.

    Attributes
    ----------
    cut : CutSpace
    steps : sequence of callable
        Each takes numbers of products. The last returns their scores by the model, those before it upper
        bounds of them, each tighter than the one before.
    per_block : int or None
        At most this many hits have the same block.
    excluded : KnownStructures, optional
        Molecules that must not be hits.
    tests : ProductTests, optional
        What hits must pass.
    row : int64 array
        Numbers of the products.
    scores : Scored
        Their scores by the model, in this order, or upper bounds of them; the column `STEP` says which.
    settled : bool
        Whether the last search of neighbours ended because it found nothing better.
    """

    cut: CutSpace
    steps: Sequence[Callable[[Integers], Scored]]
    per_block: int | None = None
    excluded: KnownStructures | None = None
    tests: ProductTests | None = None
    row: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    scores: Scored = field(default_factory=Scored.of_none)
    settled: bool = True
    _tried: set[int] = field(default_factory=set)

    def add(self, numbers: Integers) -> int:
        """Score the products that have no score yet; return their number."""
        new = numbers[~np.isin(numbers, self.row)]
        if len(new):
            self.scores += self._scored(0, new)
            self.scores = self.scores.alike()
            self.row = np.concatenate([self.row, new])
        return len(new)

    def hits(self, most: int | None = None) -> Candidates:
        """Return the products that may be hits, best first: all, or at least the best `most`."""
        return self._best(most, self.per_block, self.excluded, self.tests)

    def _best(
        self,
        most: int | None,
        per_block: int | None = None,
        excluded: KnownStructures | None = None,
        tests: ProductTests | None = None,
    ) -> Candidates:
        """Return distinct molecules, best first: all, or at least the best `most`."""
        size = len(self.row) if most is None else 2 * most
        while True:
            self._settle(size)
            best = Candidates.of(self.cut, self.row, self.scores, per_block, excluded, size, tests)
            if size >= len(self.row) or len(best) >= (most or 0):
                return best
            size *= _FURTHER

    def _scored(self, step: int, numbers: Integers) -> Scored:
        scores = self.steps[step](numbers)
        scores.columns = {**scores.columns, STEP: np.full(len(numbers), step)}
        return scores

    def _settle(self, size: int) -> None:
        """Tighten bounds until none is left among the best `size` products: then these are best."""
        while len(self.row):
            order = np.lexsort((self.row, -self.scores.columns["score"]))
            pending = self._pending(order[:size])
            if not pending.size:
                return
            ahead = _AHEAD if self.scores.columns[STEP][pending].all() else _FIRST_AHEAD
            self._tighten(self._pending(order[: ahead * size]))

    def _settle_above(self, places: Integers, least: float) -> None:
        """Tighten bounds at some places until none is left above `least`."""
        while True:
            pending = self._pending(places[self.scores.columns["score"][places] > least])
            if not pending.size:
                return
            self._tighten(pending)

    def _pending(self, places: Integers) -> Integers:
        """Return those of some places whose scores are bounds."""
        if len(self.steps) == 1 or not len(places):
            return places[:0]
        return places[self.scores.columns[STEP][places] < len(self.steps) - 1]

    def _tighten(self, places: Integers) -> None:
        """Replace the loosest bounds at some places by the next, also of other products with the same key."""
        key, columns = self.scores.columns["key"], self.scores.columns
        step = columns[STEP][places]
        loosest = step.min()
        keys, first = np.unique(key[places[step == loosest]], return_index=True)
        tighter = self._scored(int(loosest) + 1, self.row[places[step == loosest][first]]).columns
        of = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
        same = keys[of] == key
        for name in (name for name in (*NUMBERS, STEP) if name in columns):
            columns[name][same] = tighter[name][of[same]]

    def last_score(self, k: int) -> float:
        """Return the score of the last of k hits; minus infinity if there are fewer."""
        score = self.hits(k).columns["score"]
        return float(score[k - 1]) if len(score) >= k else -math.inf

    def scores_above(self, numbers: Integers, least: float) -> npt.NDArray[np.float64]:
        """Return the scores of products that would be hits above `least`, and minus infinity for others.

        Those in the pool, and excluded ones, would be no further hits.
        """
        scores = self.steps[0](numbers)
        score = np.full(len(numbers), -np.inf)
        above = np.flatnonzero((scores.columns["score"] > least) & ~np.isin(numbers, self.row))
        if self.excluded is not None:
            above = above[scores.free(self.excluded, above)]
        if self.tests is not None:
            above = above[self.tests.passes(scores, above)]
        score[above] = scores.columns["score"][above]
        for step in self.steps[1:]:
            above = above[score[above] > least]
            score[above] = step(numbers[above]).columns["score"]
        return score

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
            best = self._best(k).row  # excluded ones too
            parents = [n for n in best[:k].tolist() if n not in self._tried][:_PARENTS]
            self._tried.update(parents)
            good = self.row[np.lexsort((self.row, -self.scores.columns["score"]))[:_GOOD]]
            new = neighbours(self.cut, np.array(parents, np.int64), good, _PER_SLOT, turn)
            new = np.setdiff1d(new[wanted(new)], self.row)
            last_score = self.last_score(k)
            n = self.add(new[np.lexsort((new, -rank(new)))][:_SCORED])
            added = np.arange(len(self.row) - n, len(self.row))
            self._settle_above(added, last_score)
            if not (self.scores.columns["score"][added] > last_score).any():
                self.settled = True
                break
        return len(self.row) - before
