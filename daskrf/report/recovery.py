"""How well a ranking finds the best molecules when the truth is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError


@dataclass(frozen=True)
class Recovery:
    """How many of the best molecules are among the first of a ranking.

    Attributes
    ----------
    n_best : int
        How many molecules count as the best.
    found : ndarray of int64, shape (n,)
        ``found[i]`` of the best are among the first ``i + 1`` of the ranking.
    """

    n_best: int
    found: npt.NDArray[np.int64]

    @property
    def n(self) -> int:
        """Number of ranked molecules."""
        return len(self.found)

    def fraction(self, selected: int) -> float:
        """Return the fraction of the best that are among the first `selected`."""
        return float(self.found[min(selected, self.n) - 1]) / self.n_best

    def enrichment(self, selected: int) -> float:
        """Return the enrichment factor over choosing at random."""
        selected = min(selected, self.n)
        return self.fraction(selected) * self.n / selected


def recovery(truth: npt.ArrayLike, predicted: npt.ArrayLike, n_best: int) -> Recovery:
    """Rank molecules by `predicted`, and count the `n_best` by `truth` along the ranking.

    Larger is better in both; ties go to the molecule that comes first.

    Parameters
    ----------
    truth, predicted : array-like of float, shape (n,)
    n_best : int
        From 1 to n.

    Raises
    ------
    InputError
        If the lengths differ, or `n_best` is not in [1, n].

    Examples
    --------
    >>> result = recovery([5.0, 1.0, 4.0, 2.0], [9.0, 8.0, 1.0, 2.0], n_best=2)
    >>> result.found.tolist(), result.fraction(2), result.enrichment(1)
    ([1, 1, 1, 2], 0.5, 2.0)
    """
    truth, predicted = np.asarray(truth, dtype=float), np.asarray(predicted, dtype=float)
    if truth.ndim != 1 or truth.shape != predicted.shape:
        raise InputError(
            f"Truth and prediction must be vectors of one length, not {truth.shape} and {predicted.shape}."
        )
    if not 1 <= n_best <= len(truth):
        raise InputError(f"The number of best molecules must be from 1 to {len(truth)}, not {n_best}.")
    is_best = np.zeros(len(truth), dtype=np.int64)
    is_best[np.argsort(-truth, kind="stable")[:n_best]] = 1
    return Recovery(n_best, np.cumsum(is_best[np.argsort(-predicted, kind="stable")]))
