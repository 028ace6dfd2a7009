"""Exact k-fold cross-validation from the statistics of the folds, without reading rows again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas
from scipy.optimize import minimize_scalar

from daskrf.errors import InputError
from daskrf.gp.processes.evidence import Fixed, profile
from daskrf.gp.solve.solvers import CholeskySolver
from daskrf.gp.sums.statistics import Moments, SufficientStatistics

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class CrossValidation:
    """Figures of merit of held-out predictions of one target, over all folds.

    Attributes
    ----------
    signal_variance, noise_variance : float
        Hyperparameters that the figures are for.
    mse, r2 : float
        Held-out mean squared error, and 1 - mse / variance of y: exact.
    log_probability : float
        Mean log density of a held-out value; all rows of a fold get its mean predictive variance, since the
        statistics do not determine the variances of single rows.
    joint_log_probability : float
        Sum over folds of log p(fold | other folds), the joint density of the rows of a fold, divided by the
        total number of rows. It is exact, given the mean of y used to predict the fold.
    """

    signal_variance: float
    noise_variance: float
    mse: float
    r2: float
    log_probability: float
    joint_log_probability: float


@dataclass(frozen=True)
class _Fold:
    """One fold at one lambda: sums over rows of the squared error and of variance of f / signal variance."""

    n: int
    squared_error: float
    variance: float


def cross_validate(
    folds: Sequence[SufficientStatistics],
    signal_variance: float,
    noise_variance: float,
    *,
    mean: float | None = None,
    target: int = 0,
) -> CrossValidation:
    """Return the cross-validated figures for given hyperparameters.

    Parameters
    ----------
    folds : sequence of SufficientStatistics, at least 2
        Statistics of disjoint sets of rows; each is predicted from the others.
    signal_variance, noise_variance : float
    mean : float, optional
        Mean of y; by default estimated for each fold from the others by generalized least squares.
    target : int

    Raises
    ------
    InputError
        If there are fewer than two folds, a fold has no rows, or they are sums about centroids
        (`StackedStatistics`).

    Notes
    -----
    Costs about one inverse (M^3) per fold, and holds five M x M matrices besides the statistics.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> phi = rng.standard_normal((40, 2))
    >>> y = phi @ [1.0, 2.0] + 0.1 * rng.standard_normal(40)
    >>> folds = [SufficientStatistics.from_chunk(phi[i::4], y[i::4]) for i in range(4)]
    >>> round(cross_validate(folds, 1.0, 0.01).r2, 2)
    1.0
    """
    total = _total(folds)
    ratio = noise_variance / signal_variance
    whole = CholeskySolver(total.moments())
    joint, parts = 0.0, []
    for fold in folds:
        rest = CholeskySolver(total.subtract(fold).moments())
        fold_mean, errors = _held_out(rest, fold, ratio, mean, target)
        parts.append(errors)
        # p(fold | rest) = p(fold, rest) / p(rest), all with the same mean.
        for solver, sign in ((whole, 1.0), (rest, -1.0)):
            fixed = Fixed(fold_mean - float(solver.moments.shift[target]), signal_variance, noise_variance)
            joint += sign * profile(solver, ratio, target, fixed).log_marginal_likelihood
    return _summarize(parts, total, target, signal_variance, noise_variance, joint / total.n)


def choose_by_cross_validation(
    folds: Sequence[SufficientStatistics],
    *,
    mean: float | None = None,
    target: int = 0,
    criterion: Literal["mse", "log_probability"] = "log_probability",
    start: float = 1.0,
    tolerance: float = 0.02,
) -> CrossValidation:
    """Return the hyperparameters with the best cross-validated figure, searched over lambda.

    lambda is noise_variance / signal_variance. For each lambda the signal variance has a closed form: with
    this value, the mean squared z-score of the held-out rows is 1. "mse" chooses lambda by squared error
    alone.

    Parameters
    ----------
    folds : sequence of SufficientStatistics, at least 2
    mean : float, optional
        As for `cross_validate`.
    target : int
    criterion : {"mse", "log_probability"}
    start : float
        Initial guess of lambda, such as that of the evidence; the search covers a factor of 30 either way.
    tolerance : float
        Tolerance of log lambda.

    Raises
    ------
    InputError
        As `cross_validate`.
    """
    total = _total(folds)

    def evaluate(ratio: float) -> tuple[list[_Fold], float]:
        parts = []
        for fold in folds:
            solver = CholeskySolver(total.subtract(fold).moments())
            parts.append(_held_out(solver, fold, ratio, mean, target)[1])
        scaled = sum(p.squared_error / (ratio + p.variance / p.n) for p in parts)
        return parts, scaled / total.n

    def loss(x: float) -> float:
        parts, signal_variance = evaluate(math.exp(x))
        if criterion == "mse":
            return sum(p.squared_error for p in parts)
        ratio = math.exp(x)
        return -_summarize(
            parts, total, target, signal_variance, signal_variance * ratio, math.nan
        ).log_probability

    centre, width = math.log(start), math.log(30.0)
    result = minimize_scalar(
        loss, bounds=(centre - width, centre + width), method="bounded", options={"xatol": tolerance}
    )
    ratio = math.exp(float(result.x))
    signal_variance = evaluate(ratio)[1]
    return cross_validate(folds, signal_variance, signal_variance * ratio, mean=mean, target=target)


def _total(folds: Sequence[SufficientStatistics]) -> SufficientStatistics:
    if not all(isinstance(fold, SufficientStatistics) for fold in folds):
        raise InputError(
            "cross-validation takes SufficientStatistics, with a Gram matrix of all features, not sums about "
            "centroids: compare such models by log_marginal_likelihood_value_, or by rows held out of fit."
        )
    if len(folds) < 2 or any(fold.n == 0 for fold in folds):
        raise InputError("cross-validation needs at least two folds, each with at least one row.")
    return reduce(add, folds)


def _held_out(
    solver: CholeskySolver, fold: SufficientStatistics, ratio: float, mean: float | None, target: int
) -> tuple[float, _Fold]:
    """Predict a fold from the rows of `solver`; return the mean of y used, and the errors."""
    train, held = solver.moments, fold.moments()
    shift = float(train.shift[target])
    centre = profile(solver, ratio, target, Fixed()).mean if mean is None else mean - shift
    right = train.phi_y[:, target] - centre * train.phi_sum
    weights = solver.factor.factorize(ratio).solve(right[:, None])[:, 0]
    offset = shift - float(held.shift[target]) + centre
    variance = _variance_sum(solver.factor.inverse_factor(), held.gram)
    error = _squared_error(held, weights, offset, target)
    return shift + centre, _Fold(held.n, error, ratio * variance)


def _squared_error(held: Moments, weights: Array, offset: float, target: int) -> float:
    """Return the sum of (y - shift - offset - phi w)^2 over the rows."""
    product = blas.dsymv(1.0, held.gram.T, weights, lower=1)
    error = float(held.yy[target]) - 2 * offset * float(held.y_sum[target]) + held.n * offset**2
    error += float(weights @ product) - 2 * float(weights @ (held.phi_y[:, target] - offset * held.phi_sum))
    return max(error, 0.0)


def _variance_sum(root: Array, gram: Array) -> float:
    """Return tr(A^-1 G) with A^-1 = R R^T and G given by its upper triangle."""
    full = gram + np.triu(gram, 1).T
    product = blas.dtrmm(1.0, root, full, side=0, lower=0, trans_a=1)
    return sum(float(root[: j + 1, j] @ product[j, : j + 1]) for j in range(len(root)))


def _summarize(
    parts: Sequence[_Fold],
    total: SufficientStatistics,
    target: int,
    signal_variance: float,
    noise_variance: float,
    joint: float,
) -> CrossValidation:
    moments = total.moments(gram=False)
    n = total.n
    mse = sum(p.squared_error for p in parts) / n
    spread = float(moments.yy[target] - moments.y_sum[target] ** 2 / n) / n
    log_probability = 0.0
    for p in parts:
        variance = noise_variance + signal_variance * p.variance / p.n
        log_probability -= 0.5 * (p.n * math.log(2 * math.pi * variance) + p.squared_error / variance)
    return CrossValidation(
        signal_variance=signal_variance,
        noise_variance=noise_variance,
        mse=mse,
        r2=1.0 - mse / spread if spread > 0 else math.nan,
        log_probability=log_probability / n,
        joint_log_probability=joint,
    )
