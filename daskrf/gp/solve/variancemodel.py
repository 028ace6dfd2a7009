"""Posterior variances from few samples: a smooth model of them, fitted to leave-one-out variances.

From S posterior samples a variance has a relative error of sqrt(2 / S). The share of the variance of f(x)
that the labels explain depends mostly on the squared correlations of f(x) with single labels,

    q_i(x) = k(x, x_i)^2 / (k(x, x) (k(x_i, x_i) + lambda)),

the largest of which gives an upper bound on the variance, v(x) <= k(x, x) (1 - max q). With
b = log(1 - max q) and t = log(1 + the sum of the others) the model is

    log v(x) / k(x, x) = w_1 b + w_2 t + w_3 t^2 + w_4 b t,

but at most b; it is 0 far from all labels. Every label gives a leave-one-out variance v = 1 / [C^-1]_ii -
lambda, since the expectation of beta_is^2 over samples is [C^-1]_ii, and from it the variance
v lambda / (v + lambda) with the label included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt
from scipy.linalg import inv
from scipy.optimize import least_squares
from scipy.special import digamma, polygamma

Double = npt.NDArray[np.float64]

_START = np.array([1.05, -0.02, 0.0, 0.0])  # weights close to those of the upper bound
_LEAST = 1e-12  # least information on weights, for those that labels do not determine
_MOST = 2  # times S: the most samples that the model may count as, since labelled rows differ from new ones
_LABELLED = 0.3  # weight of the variances at labelled rows, label included: new rows matter more
_ROWS = 20_000  # enough to fit four weights
_TINY = float(np.finfo(np.float64).tiny)


class VarianceState(TypedDict):
    """What `VarianceModel.state` returns."""

    weights: list[float]
    draws: float
    covariance: list[list[float]]


@dataclass(frozen=True)
class VarianceModel:
    """A model of the variance of f, and the number of posterior samples that it is worth.

    Attributes
    ----------
    weights : float64 array, shape (4,)
    draws : float
        Number of samples whose sampling error equals the error of the model at the labelled rows.
    covariance : float64 array, shape (4, 4)
        Covariance of the weights: for rows unlike the labelled ones, the model is worth fewer samples.
    """

    weights: Double
    draws: float
    covariance: Double

    def state(self) -> VarianceState:
        """Return a JSON-able description, for `from_state`."""
        return {
            "weights": self.weights.tolist(),
            "draws": self.draws,
            "covariance": self.covariance.tolist(),
        }

    @classmethod
    def from_state(cls, state: VarianceState) -> VarianceModel:
        """Rebuild a model from the dictionary of its attributes; raise ValueError if shapes are wrong."""
        weights = np.array(state["weights"], dtype=np.float64).reshape(4)
        covariance = np.array(state["covariance"], dtype=np.float64).reshape(4, 4)
        return cls(weights, float(state["draws"]), covariance)

    def guess(self, largest: Double, total: Double) -> tuple[Double, Double]:
        """Return v(x) / k(x, x), given the largest and the sum of squared correlations, and its samples."""
        design = _design(largest, total)
        error = np.einsum("ni,ij,nj->n", design, self.covariance, design)
        return np.exp(_at_most(design, self.weights)), self.draws / (1 + self.draws * error / 2)


def fit_variances(
    largest: Double,
    total: Double,
    diagonal: Double,
    squares: Double,
    ratio: float | Double,
    n_draws: int,
) -> VarianceModel:
    """Fit the variance model to the leave-one-out variances of the labelled rows.

    Parameters
    ----------
    largest, total : float64 arrays, shape (n,)
        Largest and sum of the squared correlations with the other labels.
    diagonal : float64 array, shape (n,)
        k(x, x) of the rows.
    squares : float64 array, shape (n,)
        The mean of beta_is^2 over samples: [C^-1]_ii, with the sampling error of S samples.
    ratio : float or float64 array, shape (n,)
        lambda; of each row if their noise differs.
    n_draws : int
        S.
    """
    chosen = slice(None, None, 1 + (len(largest) - 1) // _ROWS)
    ratios = (ratio / diagonal)[chosen]
    largest, total, diagonal, squares = (a[chosen] for a in (largest, total, diagonal, squares))
    # The expected logarithm of a mean of S squares is less than the logarithm of its expectation.
    lost = float(digamma(n_draws / 2)) - math.log(n_draws / 2)
    observed = lost - np.log(np.maximum(squares * diagonal, _TINY))
    alone = 1 / (1 + ratios)
    left_out, labelled = _design(largest, total), _design(np.maximum(largest, alone), total + alone)

    def misfit(weights: Double) -> Double:
        guess = np.exp(_at_most(left_out, weights))
        at_labelled = np.log(guess * ratios / (guess + ratios))
        return np.concatenate(
            [observed - np.log(guess + ratios), _LABELLED * (at_labelled - labelled @ weights)]
        )

    fit = least_squares(misfit, _START, method="trf", x_scale="jac")
    guess = np.exp(_at_most(left_out, fit.x))
    # Variance of log v about the model, beyond the sampling error of S samples.
    freedom = max(len(guess) - len(fit.x), 1e-6)
    variance = float(np.square(fit.fun[: len(guess)]).sum()) / freedom
    spread = (variance - float(polygamma(1, n_draws / 2))) * np.mean((guess + ratios) / guess) ** 2
    draws = min(2 / max(float(spread), 1e-6), _MOST * n_draws)
    information = fit.jac.T @ fit.jac
    information.flat[:: len(information) + 1] += max(_LEAST * float(information.trace()), _TINY)
    covariance = variance * inv(information)
    if not (np.isfinite(covariance).all() and np.isfinite(draws)):
        return VarianceModel(_START, 0.0, np.zeros_like(information))
    return VarianceModel(fit.x, draws, covariance)


def _at_most(design: Double, weights: Double) -> Double:
    """Return the logarithm of the model's variance, limited to that of the upper bound."""
    return np.minimum(design @ weights, design[:, 0])


def _design(largest: Double, total: Double) -> Double:
    """Return b, t, t^2 and b t for each row."""
    bound = np.log1p(-np.minimum(largest, 1 - 1e-6))
    others = np.log1p(np.maximum(total - largest, 0.0))
    return np.column_stack([bound, others, others**2, bound * others])
