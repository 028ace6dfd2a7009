"""A batch chosen one by one, where each pick counts as if it had been measured, at its predicted mean.

The means then stay as they are. The standard deviations of the other candidates shrink, most for molecules
similar to the pick. With an upper confidence bound this is batch UCB with hallucinated observations
(Desautels, Krause & Burdick 2014, Parallelizing exploration-exploitation tradeoffs in Gaussian process bandit
optimization, JMLR 15, GP-BUCB); with expected improvement it is the kriging believer (Ginsbourger, Le Riche &
Carraro 2010).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from daskrf.acquisition.rule import Acquisition, Array


class Believer:
    """Scores of some candidates, given the picks so far.

    Parameters
    ----------
    rule : Acquisition
        One that needs standard deviations.
    mean : float array, shape (m,)
    covariance : float array, shape (m, m)
        Of the function, jointly.
    noise_variance : float
        Of a measurement.

    Examples
    --------
    >>> from daskrf.acquisition import acquisition_for
    >>> covariance = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> believer = Believer(acquisition_for("ucb"), np.array([-1.0, -0.9, -0.5]), covariance, 0.01)
    >>> believer.scores().round(2).tolist()
    [2.0, 1.9, 1.5]
    >>> believer.take(0)
    >>> believer.scores().round(2).tolist()
    [1.1, 1.34, 1.5]
    """

    def __init__(
        self, rule: Acquisition, mean: Array, covariance: npt.NDArray[np.float64], noise_variance: float
    ) -> None:
        self.rule, self.mean, self.covariance, self.noise_variance = rule, mean, covariance, noise_variance
        self.variance = covariance.diagonal().copy()
        self._rows = np.empty((0, len(mean)))
        self._n = 0

    def scores(self) -> Array:
        """Return the score of each candidate."""
        return self.rule(self.mean, np.sqrt(np.maximum(self.variance, 0.0)))

    def take(self, pick: int) -> None:
        """Condition on a pick: one more row of a pivoted Cholesky factor of the covariance with noise."""
        if self._n == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty((max(64, self._n), len(self.mean)))])
        factor = self._rows[: self._n]
        row = self.covariance[pick] - factor[:, pick] @ factor
        row /= np.sqrt(max(self.variance[pick], 0.0) + self.noise_variance)
        self._rows[self._n] = row
        self._n += 1
        self.variance = self.variance - row**2
        best, sign = getattr(self.rule, "best", None), self.rule.sign
        if best is not None:  # the value to improve on, which the pick may raise
            best = sign * max(sign * best, sign * float(self.mean[pick]))
            self.rule = replace(self.rule, **{"best": best})
