"""How many of the best products a shortlist of a space is estimated to lack."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


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
    """

    k: int
    size: int
    looked: tuple[tuple[int, int, int, int], ...]
    whole: bool = False

    @classmethod
    def of(
        cls,
        k: int,
        size: int,
        last_score: float,
        below: Iterable[tuple[int, int, npt.NDArray[np.float64]]],
        *,
        whole: bool = False,
    ) -> Missed:
        """Return the estimate from the score of the last hit and from scores below the shortlist."""
        looked = tuple(
            (start + 1, stop, len(score), int((score > last_score).sum())) for start, stop, score in below
        )
        return cls(k, size, looked, whole)

    @property
    def recall(self) -> float:
        """The estimated fraction of the best k that the shortlist holds, counting only the ranges sampled."""
        lacking = sum((last - first + 1) * better / n for first, last, n, better in self.looked)
        return self.k / (self.k + lacking)

    def __str__(self) -> str:
        places = [
            f"{better or 'none'} of {n:,} at places {first:,} to {last:,}"
            for first, last, n, better in self.looked
        ]
        deepest = self.looked[-1][1] if self.looked else self.size
        rest = "" if self.whole else f"; beyond place {deepest:,} nothing is known"
        return (
            f"the model has ranked the best {self.size:,} of the surrogate, and random ones of the next: "
            f"{', '.join(places)} would be hits, so the shortlist holds an estimated "
            f"{self.recall:.0%} of the best {self.k:,}{rest}"
        )
