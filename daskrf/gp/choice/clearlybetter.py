"""Whether one model predicts labels that were left out clearly better than another."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

WORTH = 0.01
"""Nats that a label has to gain for another kernel or map: errors smaller by a hundredth."""


def clearly_better(log_probability: npt.NDArray[np.float64], known: npt.NDArray[np.float64]) -> bool:
    """Return whether log probabilities of left-out labels are larger by `WORTH` and by a standard error.

    Examples
    --------
    >>> known = np.array([-1.0, -0.5, -0.7])
    >>> clearly_better(known + 0.02, known), clearly_better(known + [0.3, -0.2, -0.01], known)
    (True, False)
    """
    gain = log_probability - known
    mean = float(gain.mean())
    return math.isfinite(mean) and mean > max(WORTH, float(gain.std()) / math.sqrt(len(gain)))


def first_of_the_best(scores: Sequence[npt.NDArray[np.float64]]) -> int:
    """Return which model to take: the first, or a later one that is clearly better than that, and so on.

    Parameters
    ----------
    scores : sequence of float64 arrays, shape (n,)
        Log probabilities of the labels left out, by each model.

    Examples
    --------
    >>> known = np.array([-1.0, -0.5, -0.7])
    >>> first_of_the_best([known, known + 0.2, known + 0.205])
    1
    """
    taken = 0
    for i, score in enumerate(scores):
        if clearly_better(score, scores[taken]):
            taken = i
    return taken
