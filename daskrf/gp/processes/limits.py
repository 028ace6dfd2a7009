"""Hyperparameters and sites of an exact process whose labels are partly limits.

The hidden measurements of the limits have a Gaussian distribution by the measured labels, so expectation
propagation takes place among them alone: for m limits among n labels, a sweep costs some m^3 and not n^3
multiply-adds. For a given lambda, mean and signal variance need no further factorization of measured rows.

The evidence is that of the measured labels times the approximate probability, given them, that each hidden
measurement lies on its side. Its gradient in mean and variances is that with fixed sites, since sites are
stationary points of the approximation (Rasmussen & Williams 2006, section 5.5.2).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from daskrf.errors import InputError
from daskrf.gp.likelihoods.censored import Censored
from daskrf.gp.likelihoods.propagation import FeatureCovariance, Propagated, Sites, propagate
from daskrf.gp.solve.solvers import NotPositiveError

Array = npt.NDArray[np.float64]
Sides = npt.NDArray[np.int8]

_GRID = (1e-4, 1e3)  # lambda relative to the mean of k(x, x); with less noise, sweeps converge slowly
_GRID_STEP = 2.0  # in log lambda
_FINE = (1.0, 0.4)  # steps of the search about the best point
_COARSE = 1e-3  # tolerance of sweeps during the search
_FINEST = 1e-6
MOST_CHANGE = 0.5  # of the last sweep, in standard deviations: more, and sites have not settled


def check_sides(side: npt.ArrayLike, n_rows: int, *, some: bool = False) -> Sides:
    """Return sides as int8 array of shape (n_rows,), or raise InputError.

    `some` is whether these are some of the labels only, which may all be limits.

    Raises
    ------
    InputError
        If they are not one of -1, 0 and 1 for each row, or all rows are limits.
    """
    sides = np.asarray(side)
    if sides.shape != (n_rows,) or not np.isin(sides, (-1, 0, 1)).all():
        raise InputError(
            "side must hold 0 for a measured label, 1 for a lower and -1 for an upper limit, one for each of "
            f"{n_rows} rows."
        )
    if n_rows and not some and (sides != 0).all():
        raise InputError(
            "all labels are limits, which do not fix a scale: give some labels that were measured."
        )
    return sides.astype(np.int8)


def no_agreement(labels: Censored, mean: float, spread: float, shift: float = 0.0) -> InputError:
    """Return the error for limits whose sites do not settle; it names the one farthest beyond the others.

    `mean` and `spread` are those of the measured labels, and `shift` is what all of these are relative to.
    """
    limit, side = labels.limit, labels.side
    beyond = side * (limit - mean) / spread
    k = int(np.argmax(beyond))
    return InputError(
        "no process was found that agrees with all limits. "
        f"{'>' if side[k] > 0 else '<'} {limit[k] + shift:.6g} lies farthest beyond the "
        f"measured ones, {beyond[k]:,.0f} of their standard deviations from their mean: correct it, "
        "learn logarithms (--transform), or leave limits out (--censored drop)."
    )


@dataclass(frozen=True)
class LimitFit:
    """Hyperparameters, and what stands for the limits.

    Attributes
    ----------
    mean, signal_variance, noise_variance : float
    at_bound : bool
        Whether the evidence alone takes lambda to an end of its search range.
    log_evidence : float
    labels : float64 array, shape (n,)
        The measured labels, and labels in the place of limits.
    excess : float64 array, shape (n,)
        Noise variance beyond `noise_variance`: 0 for measured labels.
    n_sweeps : int
        Of the last fit.
    """

    mean: float
    signal_variance: float
    noise_variance: float
    at_bound: bool
    log_evidence: float
    labels: Array
    excess: Array
    n_sweeps: int


@dataclass(frozen=True)
class Point:
    """The best mean and signal variance for a lambda."""

    log_ratio: float
    mean: float
    signal_variance: float
    log_evidence: float
    propagated: Propagated


class Conditional(ABC):
    """The distribution of hidden measurements by the measured labels, for one lambda.

    Let C be the covariance of the measured labels, and m their mean. Then the hidden measurements have the
    mean m by_one + by_y. Both C and their covariance are in units of the signal variance.

    Attributes
    ----------
    n : int
        Number of measured labels.
    log_det : float
        log det C.
    by_one, by_y : float64 arrays, shape (m,)
    labels : Censored
    """

    n: int
    log_det: float
    by_one: Array
    by_y: Array
    labels: Censored

    @abstractmethod
    def forms(self, mean: float) -> tuple[float, float]:
        """Return r^T C^-1 r and 1^T C^-1 r for the measured labels minus the mean, r."""

    @abstractmethod
    def covariance(self, signal: float) -> Array | FeatureCovariance:
        """Return the covariance of the hidden measurements for a signal variance."""

    def evidence(
        self, mean: float, signal: float, start: Sites | None, tolerance: float
    ) -> tuple[Propagated, float, Array]:
        """Return the approximation, the log evidence, and its gradient in mean and log signal variance."""
        squares, slope = self.forms(mean)
        form = squares / signal
        measured = -0.5 * (self.n * math.log(2.0 * math.pi * signal) + self.log_det + form)
        prior_mean = mean * self.by_one + self.by_y
        covariance = self.covariance(signal)
        result = propagate(self.labels, prior_mean, covariance, start=start, tolerance=tolerance)
        by_mean = slope / signal + float(result.by_mean @ self.by_one)
        by_signal = 0.5 * (form - self.n) + result.by_scale
        return result, measured + result.log_evidence, np.array([by_mean, by_signal])


class LimitLabels(ABC):
    """Labels, some of them limits, with the covariance of their function.

    Attributes
    ----------
    size : float
        Mean of k(x, x) over the rows.
    mean, spread, largest : float
        Mean, standard deviation and largest size of the measured labels.
    labels : Censored
        The limits.
    shift : float
        What means and limits are relative to.
    """

    size: float
    mean: float
    spread: float
    largest: float
    labels: Censored
    shift: float = 0.0

    @abstractmethod
    def at(self, ratio: float) -> Conditional:
        """Return the distribution of the hidden measurements for a lambda."""


class _OfMatrix(Conditional):
    """The distribution by a kernel matrix.

    With C = K_MM + lambda I, its mean is m + K_LM C^-1 (y - m), and its covariance the signal variance times
    K_LL + lambda I - K_LM C^-1 K_ML.
    """

    def __init__(self, matrix: Array, y: Array, side: Sides, ratio: float) -> None:
        hidden, measured = np.flatnonzero(side), np.flatnonzero(side == 0)
        inner = matrix[np.ix_(measured, measured)]
        inner.flat[:: len(inner) + 1] += ratio
        try:
            factor = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            raise NotPositiveError from None
        right = np.column_stack([np.ones(len(measured)), y[measured], matrix[np.ix_(measured, hidden)]])
        half = solve_triangular(factor, right, lower=True, overwrite_b=True, check_finite=False)
        self.one, self.y, cross = half[:, 0], half[:, 1], half[:, 2:]
        self.n = len(measured)
        self.by_one, self.by_y = 1.0 - cross.T @ self.one, cross.T @ self.y
        self.shape = matrix[np.ix_(hidden, hidden)] - cross.T @ cross
        self.shape.flat[:: len(hidden) + 1] += ratio
        self.log_det = 2.0 * float(np.log(factor.diagonal()).sum())
        self.labels = Censored(y[hidden], side[hidden])

    def forms(self, mean: float) -> tuple[float, float]:
        residual = self.y - mean * self.one
        return float(residual @ residual), float(self.one @ residual)

    def covariance(self, signal: float) -> Array:
        return signal * self.shape


class _MatrixLabels(LimitLabels):
    def __init__(self, matrix: Array, y: Array, side: Sides) -> None:
        self.matrix, self.y, self.side = matrix, y, side
        measured = y[side == 0]
        self.size = float(matrix.trace()) / len(y)
        self.mean, self.spread = float(measured.mean()), float(measured.std())
        self.largest = float(np.abs(measured).max())
        self.labels = Censored(y[side != 0], side[side != 0])

    def at(self, ratio: float) -> Conditional:
        return _OfMatrix(self.matrix, self.y, self.side, ratio)


class Search:
    """Maximizes the evidence over the values that are not fixed."""

    def __init__(
        self,
        limited: LimitLabels,
        fixed: tuple[float | None, float | None, float | None],
        doubt: float = 0.0,
    ) -> None:
        self.limited, self.fixed, self.doubt = limited, fixed, doubt
        self.size = limited.size
        self.spread = max(limited.spread, 1e-12 * limited.largest, 1e-150)
        self.guess = limited.mean, math.log(self.spread**2 / max(self.size, 1e-300))
        self.sites: Sites | None = None
        self.points: dict[float, Point] = {}

    def at(self, log_ratio: float, tolerance: float = _COARSE) -> Point:
        """Return the best mean and signal variance for a lambda; starts from those of the last one."""
        ratio = math.exp(log_ratio)
        conditional = self.limited.at(ratio)
        m, a, s = self.fixed
        signal = a if a is not None else None if s is None else s / ratio
        first = np.array([0.0 if m is None else (m - self.guess[0]) / self.spread, 0.0])
        best: dict[float, Point] = {}

        def loss(free: Array) -> tuple[float, Array]:
            x = first.copy()
            x[chosen] = free
            mean = self.guess[0] + self.spread * float(x[0])
            variance = math.exp(self.guess[1] + float(x[1])) if signal is None else signal
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # see `_checked`
                result, value, gradient = conditional.evidence(
                    mean if m is None else m, variance, self.sites, tolerance
                )
            best[-value] = Point(log_ratio, mean if m is None else m, variance, value, result)
            if result.converged:
                self.sites = result.sites
            return -value, -(gradient * [self.spread, 1.0])[chosen]

        chosen = np.flatnonzero([m is None, signal is None])
        if len(chosen):
            bounds = [((-10.0, 10.0), (-8.0, 8.0))[k] for k in chosen]  # about the last point
            options = {"ftol": 1e-7, "gtol": 1e-2, "maxiter": 15}
            minimize(loss, first[chosen], jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        else:
            loss(np.empty(0))
        point = best[min(best)]
        if point.propagated.converged:
            self.guess = point.mean, math.log(point.signal_variance)
            self.sites = point.propagated.sites
        return point

    def run(self, start: float | None) -> tuple[Point, bool]:
        """Return the best point, and whether the evidence alone is best at an end of the range."""
        _, a, s = self.fixed
        if a is not None and s is not None:
            return self._checked(self.at(math.log(s / a), _FINEST)), False
        low, high = (math.log(end * self.size) for end in _GRID)
        grid = [start] if start is not None else np.arange(low, high + _GRID_STEP / 2, _GRID_STEP).tolist()
        for x in reversed(grid):  # large lambda first: its sites are the easiest
            self.points[round(x, 9)] = self.at(x)
        at_bound = start is None and self._best(doubt=0.0) in (min(self.points), max(self.points))
        for step in _FINE if start is None else _FINE[1:]:
            self._refine(step, low, high)
        return self._checked(self.at(self._top(), _FINEST)), at_bound

    def _checked(self, point: Point) -> Point:
        """Return a point after checking that its sites have settled.

        Limits far beyond the other labels may have none that do.
        """
        result, labels = point.propagated, self.limited.labels
        farthest = np.abs(labels.limit - point.mean).max(initial=0.0)
        deviation = math.sqrt(point.signal_variance * (self.size + math.exp(point.log_ratio)))
        moved = np.abs(result.mean - point.mean).max(initial=0.0)
        usual = moved <= 2.0 * farthest + 100.0 * (deviation + self.spread)  # false for NaN
        if math.isfinite(point.log_evidence) and result.change < MOST_CHANGE and usual:
            return point
        raise no_agreement(labels, self.limited.mean, self.spread, self.limited.shift)

    def loss(self, log_ratio: float, doubt: float | None = None) -> float:
        """Return what is minimized, at a lambda that was evaluated."""
        weight = self.doubt if doubt is None else doubt
        return weight * math.exp(-log_ratio) - self.points[log_ratio].log_evidence

    def _best(self, doubt: float | None = None) -> float:
        return min(self.points, key=lambda log_ratio: self.loss(log_ratio, doubt))

    def _refine(self, step: float, low: float, high: float) -> None:
        """Evaluate points beside the best one until it has a worse neighbour at both sides."""
        while True:
            best = self._best()
            self.guess = self.points[best].mean, math.log(self.points[best].signal_variance)
            self.sites = self.points[best].propagated.sites
            beside = [round(best + sign * step, 9) for sign in (-1.0, 1.0)]
            new = [x for x in beside if x not in self.points and low <= x <= high]
            if not new:
                return
            for x in new:
                self.points[x] = self.at(x)

    def _top(self) -> float:
        """Return the top of the parabola through the best point and its neighbours."""
        best, step = self._best(), _FINE[-1]
        beside = [round(best + sign * step, 9) for sign in (-1.0, 1.0)]
        if not all(x in self.points for x in beside):
            return best
        left, middle, right = (self.loss(x) for x in (beside[0], best, beside[1]))
        bend = left - 2.0 * middle + right
        return best if bend <= 0.0 else best + 0.5 * step * (left - right) / bend


def fit_limits(
    matrix: Array,
    y: Array,
    side: Sides,
    fixed: tuple[float | None, float | None, float | None],
    *,
    doubt: float = 0.0,
    start: float | None = None,
) -> LimitFit:
    """Find the hyperparameters that maximize the evidence of labels and limits, and the sites for them.

    Parameters
    ----------
    matrix : float64 array, shape (n, n)
        k(X, X), symmetric.
    y : float64 array, shape (n,)
        Labels and limits.
    side : int8 array, shape (n,)
        0 for a label, 1 for a lower limit, -1 for an upper one.
    fixed : (float or None, float or None, float or None)
        Mean, signal variance and noise variance to keep.
    doubt : float
        Of the prior exp(-doubt / lambda); see `daskrf.gp.processes.evidence.maximize_evidence`.
    start : float, optional
        log lambda to start from; by default, its whole range is searched.

    Returns
    -------
    LimitFit
    """
    search = Search(_MatrixLabels(matrix, y, side), fixed, doubt)
    point, at_bound = search.run(start)
    a, ratio = point.signal_variance, math.exp(point.log_ratio)
    hidden = np.flatnonzero(side)
    labels, excess = y.copy(), np.zeros(len(y))
    prior_variance = a * (matrix.diagonal()[hidden] + ratio)
    labels[hidden], excess[hidden] = point.propagated.sites.as_labels(prior_variance)
    return LimitFit(
        mean=point.mean,
        signal_variance=a,
        noise_variance=a * ratio if fixed[2] is None else fixed[2],
        at_bound=at_bound,
        log_evidence=point.log_evidence,
        labels=labels,
        excess=excess,
        n_sweeps=point.propagated.n_sweeps,
    )


def gradient_with_limits(matrix: Array, fit: LimitFit) -> Array:
    """Return the gradient of the log evidence in mean, signal variance and noise variance, shape (3,)."""
    covariance = fit.signal_variance * matrix
    covariance.flat[:: len(matrix) + 1] += fit.noise_variance + fit.excess
    inverse = np.linalg.inv(covariance)
    alpha = inverse @ (fit.labels - fit.mean)
    by_signal = 0.5 * (float(alpha @ matrix @ alpha) - float(np.einsum("ij,ij->", inverse, matrix)))
    by_noise = 0.5 * (float(alpha @ alpha) - float(inverse.trace()))
    return np.array([float(alpha.sum()), by_signal, by_noise])
