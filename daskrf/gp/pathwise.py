"""The exact posterior by conjugate gradients and pathwise samples, for more rows than a factorization takes.

A draw from the posterior is a draw from the prior, corrected by what the labels contradict (Matheron's rule;
Wilson et al. 2020). With C = K + lambda I, lambda = noise_variance / signal_variance, labels y less their
mean in units of the signal's standard deviation, f a draw from the prior and e independent standard normal
numbers:

    f(x) + k(x, X) C^-1 (y - f(X) - sqrt(lambda) e).

So one solve with the right-hand sides y and f_s(X) + sqrt(lambda) e_s, s = 1..S, gives the mean k(x, X) alpha
and S draws, which deviate from it by f_s(x) - k(x, X) beta_s. It also gives the gradient of the evidence,
since the mean of e_s . beta_s is sqrt(lambda) tr C^-1; and the variance of beta_s at a row is the entry of
C^-1 on the diagonal, which says how well all other rows predict the label of this one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, polygamma

from daskrf import seeds
from daskrf.errors import InputError
from daskrf.gp.conjugategradients import Solution, solve
from daskrf.gp.kernelmatrix import KernelMatrix
from daskrf.gp.landmarkpreconditioner import LandmarkPreconditioner, LandmarkVariance
from daskrf.gp.posterior import standard_normal
from daskrf.gp.priordraws import PriorDraws
from daskrf.kernels.kernel import Kernel

__all__ = ["Hyperparameters", "PathwisePosterior", "fit_pathwise"]

Single = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]

_SEARCH = 10.0  # times the tolerance: enough for the gradient of the evidence
_REFINED = 0.1  # of the tolerance: that of the mean
_ROUNDS = 6
_STEP = 0.1  # of log lambda: a search that would move by less ends. The evidence is flat there.
_LARGEST_STEP = 1.5
_RANGE = (1e-3, 1e6)  # of lambda that is searched: below, single precision does not resolve what it adds to K
_VARIANCE_LANDMARKS = 512
_LEFT_OUT_ROWS = 2000  # whose variances calibrate those of new rows
_FEWEST_ROWS = 100  # that calibrate anything
_SMALLEST = 1e-12


class Hyperparameters(NamedTuple):
    """Mean, signal variance and noise variance."""

    mean: float
    signal_variance: float
    noise_variance: float


@dataclass
class LeaveOneOut:
    """How well some labels are predicted from all others.

    `rows` are their numbers, `residuals` the labels less their predictions, `std` the standard deviations
    that were predicted with them.
    """

    rows: npt.NDArray[np.int64]
    residuals: Double
    std: Double


@dataclass
class PathwisePosterior:
    """A posterior as weights of kernel values: its mean, its draws, and its variances from both.

    Attributes
    ----------
    hyperparameters : Hyperparameters
    alpha : float32 array, shape (n, 1 + S)
        C^-1 times (y - mean) / scale, and times draws from the prior with noise.
    scale : float
        The largest |y| less the mean of y: squares of labels need not fit float32.
    at_bound : bool
        Whether lambda ran into an end of its range.
    residual : float
        Largest |b - C x| / |b| of all right-hand sides.
    n_iterations : int
        Products with K, the search of hyperparameters included.
    left_out : LeaveOneOut
        Of up to 2,000 rows.
    """

    matrix: KernelMatrix
    prior: PriorDraws
    variance: LandmarkVariance
    calibration: tuple[float, float, float]
    hyperparameters: Hyperparameters
    alpha: Single
    scale: float
    at_bound: bool
    residual: float
    n_iterations: int
    left_out: LeaveOneOut
    n_landmarks: int
    random_state: int

    def mean(self, X: Any) -> Double:
        """Return the posterior mean at each row, float64 of shape (m,)."""
        found = np.empty(X.shape[0])

        def use(part: slice, values: Single) -> None:
            found[part] = values[:, 0]

        self.matrix.cross(X, self.alpha[:, :1], use)
        return self.hyperparameters.mean + self.scale * found

    def deviations(self, X: Any) -> tuple[Double, Single]:
        """Return the mean, and each draw of f less the mean, float32 of shape (m, S)."""
        mean, draws = np.empty(X.shape[0]), self.prior(X)

        def use(part: slice, values: Single) -> None:
            mean[part] = values[:, 0]
            draws[part] -= values[:, 1:]

        self.matrix.cross(X, self.alpha, use)
        draws *= np.float32(math.sqrt(self.hyperparameters.signal_variance))
        return self.hyperparameters.mean + self.scale * mean, draws

    def covariance(self, X: Any, tolerance: float, max_iterations: int) -> tuple[Double, Double]:
        """Return the mean of f and its exact covariance, by a solve for each row: for a shortlist.

        Raises
        ------
        InputError
            If the residuals do not fall to the tolerance.
        """
        kernel, own = self.matrix.kernel, self.matrix.X
        cross = kernel(own, X)
        preconditioner = LandmarkPreconditioner(kernel, own, self.n_landmarks, self.random_state)
        preconditioner.set_ratio(self.hyperparameters.noise_variance / self.hyperparameters.signal_variance)
        found = _solved(
            self.matrix,
            preconditioner,
            cross.astype(np.float32),
            tolerance=tolerance,
            accepted=tolerance,
            max_iterations=max_iterations,
        )
        covariance = kernel(X) - cross.T @ found.x
        covariance = self.hyperparameters.signal_variance * (covariance + covariance.T) / 2
        return self.mean(X), covariance

    def variances(self, X: Any, deviations: Single) -> Double:
        """Return the variance of f at each row, float64 of shape (m,), from the draws there.

        S draws tell a variance to a factor of 1 +- sqrt(2 / S). What a few landmarks leave of it follows the
        true one more closely, but for a power and a factor, which were found by leaving out labelled rows;
        the draws correct that by as much as they are better than chance.
        """
        signal = self.hyperparameters.signal_variance
        power, shift, weight = self.calibration
        guess = power * np.log(self.variance(X)) + shift
        guess += weight * (_log_variance(deviations / np.float32(math.sqrt(signal))) - guess)
        return signal * np.exp(guess)


def fit_pathwise(
    kernel: Kernel,
    X: Any,
    y: Double,
    *,
    start: Hyperparameters,
    given: tuple[float | None, float | None, float | None],
    n_draws: int,
    n_features: int,
    n_landmarks: int,
    tolerance: float,
    max_iterations: int,
    keep_bytes: int,
    random_state: int,
) -> PathwisePosterior:
    """Fit to the rows X and the labels y.

    Parameters
    ----------
    start : Hyperparameters
        Where the search begins.
    given : (float or None, float or None, float or None)
        Mean, signal variance and noise variance that are fixed.
    n_draws, n_features : int
        Draws from the posterior, and random features that draws from the prior are made of.
    n_landmarks : int
        Of the preconditioner.
    tolerance : float
        Of the residuals, relative to the right-hand sides.
    max_iterations : int
        Products with the kernel matrix, at most.
    keep_bytes : int
        Memory for tiles of the kernel matrix.

    Raises
    ------
    InputError
        If the residuals do not fall to the tolerance, or the kernel has no random features.
    """
    prior = PriorDraws(kernel, X, n_draws, n_features, seeds.key(random_state, "gp/prior") >> 33)
    matrix = KernelMatrix(kernel, X, keep_bytes=keep_bytes)
    preconditioner = LandmarkPreconditioner(kernel, X, n_landmarks, random_state)
    system = _System(matrix, preconditioner, y, prior(X), given, max_iterations, random_state)
    log_ratio, at_bound = math.log(start.noise_variance / start.signal_variance), False
    if given[1] is None or given[2] is None:
        search = _Search(log_ratio)
        while not search.done:
            system.solve(search.log_ratio, _SEARCH * tolerance)
            search.tell(system.slope())
        log_ratio, at_bound = search.log_ratio, search.at_bound
    system.solve(log_ratio, tolerance)
    system.refine(tolerance)
    matrix.forget()
    found = system.hyperparameters()
    left_out, calibration, variance = _calibrated(system, found)
    alpha = np.column_stack([system.alpha() / system.scale, system.solution.x[:, 2:]]).astype(np.float32)
    return PathwisePosterior(
        matrix,
        prior,
        variance,
        calibration,
        found,
        alpha,
        system.scale,
        at_bound,
        float(system.solution.residuals.max()),
        system.n_iterations,
        left_out,
        n_landmarks,
        random_state,
    )


def _solved(
    matrix: KernelMatrix,
    preconditioner: LandmarkPreconditioner,
    right: Single,
    *,
    tolerance: float,
    accepted: float,
    max_iterations: int,
    start: Single | None = None,
    before: int = 0,
) -> Solution:
    """Solve (K + lambda I) x = b, after so many iterations before; refuse residuals above `accepted`."""
    ratio = np.float32(preconditioner.ratio)

    def multiply(vectors: Single) -> Single:
        product = matrix.product(vectors)
        product += ratio * vectors
        return product

    found = solve(
        multiply, right, preconditioner, start=start, tolerance=tolerance, max_iterations=max_iterations
    )
    worst = float(found.residuals.max(initial=0.0))
    if not worst <= accepted:
        raise InputError(
            f"conjugate gradients reached a residual of {worst:.1e}, not {accepted:.1e}, in "
            f"{before + found.n_iterations} products with the kernel matrix: give a larger noise variance, "
            "more landmarks (n_landmarks) or a larger tolerance."
        )
    return found


class _System:
    """(K + lambda I) x = b for labels, ones, and draws with noise; the last solution is kept."""

    def __init__(
        self,
        matrix: KernelMatrix,
        preconditioner: LandmarkPreconditioner,
        y: Double,
        draws: Single,
        given: tuple[float | None, float | None, float | None],
        max_iterations: int,
        random_state: int,
    ) -> None:
        self.matrix, self.preconditioner, self.given = matrix, preconditioner, given
        self.draws, self.max_iterations = draws, max_iterations
        self.shift = float(y.mean())
        self.y = y - self.shift
        self.scale = float(np.abs(self.y).max(initial=0.0)) or 1.0
        self.noise = standard_normal(random_state, "gp/pathwise", *draws.shape).astype(np.float32)
        self.n_iterations = 0
        size = 2 + draws.shape[1]
        self.solution = Solution(np.zeros((len(y), size), np.float32), np.full(size, np.inf), 0)

    def solve(self, log_ratio: float, tolerance: float) -> None:
        """Solve for a ratio, from the last solution on."""
        self.ratio = math.exp(log_ratio)
        self.preconditioner.set_ratio(self.ratio)
        self._solve(slice(None), tolerance)

    def refine(self, tolerance: float) -> None:
        """Solve for labels and ones, of which the mean is made, more precisely than for draws.

        What rounding leaves of that precision is accepted, as long as it is that of the draws.
        """
        self._solve(slice(2), _REFINED * tolerance, tolerance)

    def _solve(self, columns: slice, tolerance: float, accepted: float | None = None) -> None:
        draws = self.draws + np.float32(math.sqrt(self.ratio)) * self.noise
        right = np.column_stack([self.y / self.scale, np.ones(len(self.y)), draws])[:, columns]
        found = _solved(
            self.matrix,
            self.preconditioner,
            np.ascontiguousarray(right, np.float32),
            start=np.ascontiguousarray(self.solution.x[:, columns]) if self.n_iterations else None,
            tolerance=tolerance,
            accepted=accepted or tolerance,
            max_iterations=self.max_iterations - self.n_iterations,
            before=self.n_iterations,
        )
        self.n_iterations += found.n_iterations
        self.solution.x[:, columns] = found.x
        self.solution.residuals[columns] = found.residuals

    def alpha(self) -> Double:
        """Return C^-1 (y - mean)."""
        labels, ones = self.solution.x[:, :2].astype(np.float64).T
        labels = labels * self.scale
        mean = labels.sum() / ones.sum() if self.given[0] is None else self.given[0] - self.shift
        self.mean = self.shift + mean
        return labels - mean * ones

    def hyperparameters(self) -> Hyperparameters:
        """Return the best mean and signal variance for the ratio, where they are not given."""
        alpha = self.alpha()
        _, signal, noise = self.given
        if signal is None and noise is not None:
            signal = noise / self.ratio
        elif signal is None:
            signal = float((self.y - (self.mean - self.shift)) @ alpha) / len(alpha)
        return Hyperparameters(self.mean, signal, self.ratio * signal)

    def slope(self) -> float:
        """Return how far log lambda is from where the gradient of the evidence vanishes, to first order.

        It vanishes where tr C^-1 = alpha^T alpha / a, with the signal variance a = r^T alpha / n unless it is
        given. Where the noise variance is given, a = alpha^T K alpha / tr(C^-1 K).
        """
        alpha, n = self.alpha(), len(self.y)
        residual = self.y - (self.mean - self.shift)
        trace = float(np.einsum("ij,ij->", self.noise, self.solution.x[:, 2:], dtype=np.float64))
        trace /= self.draws.shape[1] * math.sqrt(self.ratio)
        _, signal, noise = self.given
        if noise is not None:
            best = float(alpha @ (residual - self.ratio * alpha)) / (n - self.ratio * trace)
            return math.log(noise / best / self.ratio)
        a = float(residual @ alpha) / n if signal is None else signal
        return math.log(float(alpha @ alpha) / a / trace)


class _Search:
    """Find where a falling function of log lambda is 0: a step of its value, then secants."""

    def __init__(self, log_ratio: float) -> None:
        self.log_ratio = _within_range(log_ratio)
        self.done = self.at_bound = False
        self._known: list[tuple[float, float]] = []

    def tell(self, value: float) -> None:
        """Take the function's value at `log_ratio`, and move."""
        self._known.append((self.log_ratio, value))
        step = value
        if len(self._known) > 1:
            (x0, v0), (x1, v1) = self._known[-2:]
            fall = (v0 - v1) / (x1 - x0) if x1 != x0 else 1.0
            step = value / min(max(fall, 0.05), 2.0)
        step = min(max(step, -_LARGEST_STEP), _LARGEST_STEP)
        target = _within_range(self.log_ratio + step)
        self.at_bound = target != self.log_ratio + step
        first = len(self._known) == 1
        self.done = (abs(target - self.log_ratio) < _STEP and not first) or len(self._known) >= _ROUNDS
        self.log_ratio = target


def _within_range(log_ratio: float) -> float:
    return min(max(log_ratio, math.log(_RANGE[0])), math.log(_RANGE[1]))


def _calibrated(
    system: _System, found: Hyperparameters
) -> tuple[LeaveOneOut, tuple[float, float, float], LandmarkVariance]:
    """Return how labels are predicted from others, and how variances follow from those of landmarks."""
    n = system.matrix.n_rows
    size = min(_VARIANCE_LANDMARKS, -(-n // 4))
    variance = system.preconditioner.shortened(size)
    # Landmarks have next to no variance of their own: they say nothing of new rows.
    rows = np.arange(n) if n < 4 else np.setdiff1d(np.arange(n), system.preconditioner.landmarks[:size])
    rows = rows[:: max(1, -(-len(rows) // _LEFT_OUT_ROWS))]
    guess = np.log(variance(system.matrix.X[rows]))
    beta = system.solution.x[rows, 2:].astype(np.float64)
    # The label of a row, less its prediction from all others, is beta / c, c the row's entry of C^-1: the
    # variance of beta, which is smooth in the landmarks' variance.
    own = np.log(system.ratio + np.exp(guess))
    power, shift = _line(own, -_log_variance(beta))
    left = np.exp(power * own + shift)  # 1 / c
    deviations = beta * left[:, None] - math.sqrt(system.ratio) * system.noise[rows]
    logs = _log_variance(deviations)
    power, shift = _line(guess, logs)
    chance = float(polygamma(1, beta.shape[1] / 2))
    scatter = float(np.var(logs - (power * guess + shift)))
    weight = max(0.0, 1.0 - chance / scatter) if len(rows) >= _FEWEST_ROWS else 1.0  # 1: the draws alone
    std = np.sqrt(found.signal_variance * left)
    return LeaveOneOut(rows, system.alpha()[rows] * left, std), (power, shift, weight), variance


def _log_variance(deviations: npt.NDArray[Any]) -> Double:
    """Return an unbiased estimate of the logarithm of the variance of each row's numbers around 0."""
    half = deviations.shape[1] / 2
    square = np.einsum("ij,ij->i", deviations, deviations, dtype=np.float64) / (2 * half)
    found: Double = np.log(np.maximum(square, _SMALLEST)) - (digamma(half) - math.log(half))
    return found


def _line(x: Double, y: Double) -> tuple[float, float]:
    """Return slope and intercept of the least-squares line, of slope 1 where x hardly varies."""
    spread = float(np.var(x))
    slope = float(np.cov(x, y, bias=True)[0, 1]) / spread if spread > 1e-4 else 1.0
    slope = min(max(slope, 0.25), 4.0)
    return slope, float(y.mean() - slope * x.mean())
