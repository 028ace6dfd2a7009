"""How many of the best products a shortlist of a space is estimated to lack."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import gammaincinv

_LEVEL = 0.95  # of intervals


@dataclass(frozen=True)
class Missed:
    """How many of the best products a shortlist is estimated to lack.

    Attributes
    ----------
    k, size : int
        Hits, and products of the shortlist.
    looked : tuple of (int, int, int, int)
        Ranges of places below the shortlist: first and last place, number of random products scored, and
        number of these that are better than the last hit.
    whole : bool
        Whether the ranges reach to the last product.
    n_low : int, optional
        Number of hits in the lower half of the shortlist.
    """

    k: int
    size: int
    looked: tuple[tuple[int, int, int, int], ...]
    whole: bool = False
    n_low: int | None = None

    @classmethod
    def of(
        cls,
        k: int,
        size: int,
        last_score: float,
        below: Iterable[tuple[int, int, npt.NDArray[np.float64]]],
        *,
        whole: bool = False,
        n_low: int | None = None,
    ) -> Missed:
        """Return the estimate from the score of the last hit and from scores below the shortlist."""
        looked = tuple(
            (start + 1, stop, len(score), int((score > last_score).sum())) for start, stop, score in below
        )
        return cls(k, size, looked, whole, n_low)

    @property
    def recall(self) -> float:
        """The estimated fraction of the best k that the shortlist holds, counting only the ranges sampled."""
        lacking = sum((last - first + 1) * better / n for first, last, n, better in self.looked)
        return self.k / (self.k + lacking)

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the recall, counting only the ranges sampled.

        Each hit in a sample stands for several that are lacking. The interval of their sum is that of Fay &
        Feuer (1997, Stat. Med. 16, 791): quantiles of gamma distributions that have its mean and variance,
        for the upper end with one more hit, where it stands for most. Hits do not become more frequent
        further down, so there are also no more than if they were as frequent everywhere as in the ranges and
        the lower half of the shortlist together. The smaller upper end counts. If nothing was sampled,
        nothing is known.
        """
        if not self.looked:
            return 0.0, 1.0
        places = [last - first + 1 for first, last, _, _ in self.looked]
        scored = [n for *_, n, _ in self.looked]
        better = [n for *_, n in self.looked]
        stands_for = np.array(places) / scored
        mean, variance = float(stands_for @ better), float(stands_for**2 @ better)
        one = float(stands_for.max())
        tail = (1.0 - _LEVEL) / 2
        fewest = _gamma_quantile(mean, variance, tail) if mean else 0.0
        most = _gamma_quantile(mean + one, variance + one * one, 1.0 - tail)
        if self.n_low is not None:
            n = sum(better) + self.n_low + 1  # the gamma quantile that bounds a Poisson mean
            in_lower_half = self.size - self.size // 2
            share = sum(places) / (sum(scored) + in_lower_half)
            most = min(most, _gamma_quantile(n, n, 1.0 - tail) * share)
        most = max(mean, min(most, sum(places)))  # one hit far down may stand for more than all would
        return self.k / (self.k + most), self.k / (self.k + fewest)

    def __str__(self) -> str:
        low, high = self.interval
        places = [
            f"{better or 'none'} of {n:,} at places {first:,} to {last:,}"
            for first, last, n, better in self.looked
        ]
        deepest = self.looked[-1][1] if self.looked else self.size
        rest = "" if self.whole else f"; beyond place {deepest:,} nothing is known"
        return (
            f"the model has ranked the best {self.size:,} of the surrogate, and random ones of the next: "
            f"{', '.join(places)} would be hits, so the shortlist holds an estimated "
            f"{self.recall:.0%} (95 % interval {low:.0%} - {high:.0%}) of the best {self.k:,}{rest}"
        )


def _gamma_quantile(mean: float, variance: float, level: float) -> float:
    """Return a quantile of the gamma distribution with this mean and variance."""
    return float(gammaincinv(mean * mean / variance, level)) * variance / mean
