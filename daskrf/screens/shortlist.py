"""The shortlist of a library that an exact process ranks, chosen by landmarks and measured on a sample.

For each prediction, an exact process needs a kernel value for every labelled molecule; its landmarks alone,
at least 20 times fewer, give nearly the same result. A row is on the shortlist if its rough value reaches a
threshold, so each row is judged on its own, in one pass. The threshold comes from a sample of the library.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from daskrf import seeds
from daskrf.arrays import NamedArrays
from daskrf.jobs.tree import Reduction
from daskrf.models.models import open_model
from daskrf.screens.searches import Search
from daskrf.sources.sources import Block

SAMPLE = 16_384  # rows used to choose a shortlist
SAMPLED_PARTITIONS = 32  # partitions that they come from
_BEST = 100  # of these rows count as the best, at least: rough values rank fewer even better
_RECALL = 0.99
_MOST = 0.5  # fraction of the library: a larger shortlist is not worth its cost
_DOUBT = 1e-3  # probability that a threshold by a sample is too high
_CANDIDATES = 10  # candidates with the best means for each molecule wanted; they get standard deviations
_USUAL = 500  # molecules: fewer have as many candidates as these, so they are the first of these


def n_candidates(wanted: int) -> int:
    """Return how many molecules with the best means are ranked by a rule that needs standard deviations.

    Up to 500 molecules are chosen from the same candidates, so a batch of 3 is the first 3 of a batch of 300.

    Examples
    --------
    >>> n_candidates(3), n_candidates(500), n_candidates(1000)
    (5000, 5000, 10000)
    """
    return _CANDIDATES * max(wanted, _USUAL)


@dataclass(frozen=True)
class Cut:
    """The least rough value of the shortlist, and how it performs on a sample of the library.

    Attributes
    ----------
    least : float
        The smallest rough value; -inf for no shortlist.
    fraction, recall : float
        Fractions of the sample, and of its best rows, that are on the shortlist.
    n_best, n_sampled : int
    """

    least: float
    fraction: float
    recall: float
    n_best: int
    n_sampled: int

    def __str__(self) -> str:
        if self.least == -math.inf:
            return (
                "the exact process ranks the whole library: a shortlist with "
                f"{_RECALL:.0%} of the best molecules would be more than half of it"
            )
        return (
            f"the exact process ranks the best {self.fraction:.2%} by its landmarks; these include "
            f"{self.recall:.1%} of the best {self.n_best:,} of {self.n_sampled:,} sampled molecules"
        )


@dataclass(frozen=True)
class Threshold(Cut):
    """The least score that a hit can have, as far as a sample tells, for a rule with standard deviations.

    Molecules that could not reach it with the upper bound of their standard deviation get none.
    """

    def __str__(self) -> str:
        if self.least == -math.inf:
            return "every molecule gets a standard deviation: bounds would rule out too few"
        return (
            f"standard deviations of about {self.fraction:.2%} of the molecules, those that could be hits by "
            "upper bounds of their standard deviations, of which one in a million is exceeded"
        )


@dataclass(frozen=True)
class Sample(Reduction[Block, "Pairs", Cut]):
    """Rough values and exact scores of some rows, used to choose a shortlist.

    Parameters
    ----------
    search : Search
        With `wanted`, `sampled` and `rough`, of `daskrf.screens.searches`.
    share : float
        Fraction of the rows to sample. A row's number alone decides whether it is sampled.
    wanted : float
        The fraction of the library wanted as hits.
    fraction : float, optional
        The fraction of the library that the exact process should rank.
    """

    search: Search
    share: float
    wanted: float
    fraction: float | None
    name: str = "sample"

    def zero(self) -> Pairs:
        return Pairs(np.empty((0, 2)))

    def add(self, total: Pairs, block: Block) -> None:
        model = open_model(self.search.model, self.search.model_hash, statistics=self.search.std)
        words = seeds.words_at(0, "screen/sample", block.rows)
        block = self.search.wanted(block.where(words < np.uint64(self.share * (2**64 - 2**11))))
        total += Pairs(np.column_stack([self.search.rough(model, block), self.search.sampled(model, block)]))

    def restore(self, arrays: NamedArrays) -> Pairs:
        return Pairs(arrays["pairs"])

    def finalize(self, total: Pairs, rest: Iterator[Pairs]) -> Cut:
        """Choose the shortlist."""
        n = len(total.pairs)
        if not n:
            return Cut(-math.inf, 1.0, 1.0, 0, 0)
        rough, exact = total.pairs.T
        n_best = min(int((exact > -math.inf).sum()), max(_BEST, math.ceil(n * self.wanted)))
        if not n_best:
            return Cut(-math.inf, 1.0, 1.0, 0, n)
        best = rough[np.argsort(-exact, kind="stable")[:n_best]]
        if self.fraction is None:
            least = float(np.sort(best)[int((1 - _RECALL) * n_best)])
        else:
            least = float(np.quantile(rough, 1 - self.fraction))
        fraction = float((rough >= least).mean())
        if self.fraction is None and fraction > _MOST:
            return Cut(-math.inf, 1.0, 1.0, n_best, n)
        return Cut(least, fraction, float((best >= least).mean()), n_best, n)


@dataclass(frozen=True)
class BoundSample(Sample):
    """Upper bounds and exact scores of some rows, used to choose a threshold for the exact scores.

    It is the score of one of the best sampled rows, so chosen that the library has as many rows above it as
    are wanted, with a probability of 99.9 %. The screen finds out whether it has.
    """

    def finalize(self, total: Pairs, rest: Iterator[Pairs]) -> Threshold:
        """Choose the threshold."""
        bounds, exact = total.pairs.T
        n, possible = len(exact), int((exact > -math.inf).sum())
        places = np.arange(1, possible + 1)
        enough = betaincinv(places, n + 1.0 - places, _DOUBT) >= self.wanted
        if enough.any():
            n_best = int(places[enough][0])
            least = float(np.sort(exact)[-n_best])
            fraction = float((bounds >= least).mean())
            if fraction <= _MOST:
                return Threshold(least, fraction, 1.0, n_best, n)
        return Threshold(-math.inf, 1.0, 1.0, possible, n)


@dataclass
class Pairs:
    """Rough values and exact scores of sampled rows."""

    pairs: npt.NDArray[np.float64]

    def __iadd__(self, other: Pairs) -> Pairs:
        self.pairs = np.concatenate([self.pairs, other.pairs])
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        return {"pairs": self.pairs}
