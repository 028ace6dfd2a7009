"""Requirements on other targets: scores are weighted by the probability that a molecule meets them.

With expected improvement this is constrained Bayesian optimization (Gardner et al. 2014, ICML): the
probability multiplies what a molecule is expected to gain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from daskrf.acquisition.rule import Acquisition, Array

_LEAST = 1e-12  # minimum of a probability used as a divisor


@dataclass(frozen=True)
class Requirement:
    """A limit on the values of a target.

    Attributes
    ----------
    target : int
    name : str
        Of the target.
    above : bool
        Whether values must be above the limit; else they must be below it.
    limit : float
    """

    target: int
    name: str
    above: bool
    limit: float

    def __str__(self) -> str:
        return f"{self.name} {'>' if self.above else '<'} {self.limit:g}"

    def log_probability(self, mean: npt.ArrayLike, std: npt.ArrayLike) -> Array:
        """Return the logarithm of the probability that each molecule meets it.

        Examples
        --------
        >>> logd = Requirement(1, "logD", False, 3.0)
        >>> np.exp(logd.log_probability([2.0, 3.0], [1.0, 1.0])).round(2).tolist()
        [0.84, 0.5]
        """
        room = (np.asarray(mean) - self.limit) * (1.0 if self.above else -1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.where(room == 0, 0.0, room / np.asarray(std))
        result: Array = log_ndtr(distance)
        return result


def weighed(rule: Acquisition, scores: Array, log_probability: Array, usual: float) -> Array:
    """Return scores times the probability that a molecule passes.

    Parameters
    ----------
    rule : Acquisition
        If its scores are logarithms, logarithms are added. Other scores have no natural zero, so they are
        measured from `usual`.
    scores : float64 array, shape (n,) or (n, n_draws)
    log_probability : float64 array, shape (n,)
    usual : float
        Score of the prior mean.

    Examples
    --------
    >>> from daskrf.acquisition import acquisition_for
    >>> half = np.log([0.5, 0.5])
    >>> weighed(acquisition_for("greedy"), np.array([9.0, 6.0]), half, 7.0).tolist()
    [8.0, 5.0]
    """
    log_factor = log_probability if scores.ndim == 1 else log_probability[:, None]
    if rule.logarithmic:
        return scores + log_factor
    gain, probability = scores - usual, np.exp(log_factor)
    return usual + np.where(gain > 0, gain * probability, gain / np.maximum(probability, _LEAST))
