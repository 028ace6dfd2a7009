"""The exact posterior by conjugate gradients and pathwise samples, for data sets too large to factorize.

A posterior sample is a prior sample corrected for its misfit to the labels (Matheron's rule; Wilson et al.
2020).
With C = K + lambda I, lambda = noise_variance / signal_variance, y the labels minus their mean in units of
the signal's standard deviation, f a prior sample and e independent standard normal numbers, it is

    f(x) + k(x, X) C^-1 (y - f(X) - sqrt(lambda) e).

One solve with the right-hand sides y and f_s(X) + sqrt(lambda) e_s, s = 1..S, therefore gives the mean
k(x, X) alpha and S samples, which deviate from it by f_s(x) - k(x, X) beta_s. It also gives the gradient of
the evidence, since the expectation of |beta_s|^2 is tr C^-1.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import Matrix, row_slice
from daskrf.errors import InputError
from daskrf.gp.processes.iteratedlimits import (
    IteratedSites,
    LimitVariances,
    scaled,
    scales_for,
    sites_by_iteration,
)
from daskrf.gp.processes.limits import Sides
from daskrf.gp.processes.posterior import standard_normal
from daskrf.gp.processes.priordraws import CoregionalizedDraws, Draws, PriorDraws
from daskrf.gp.solve.conjugategradients import BlockSystem, Solution
from daskrf.gp.solve.kernelmatrix import KernelMatrix
from daskrf.gp.solve.landmarkpreconditioner import LandmarkPreconditioner, ScaledLandmarks
from daskrf.gp.solve.variancemodel import VarianceModel, fit_variances
from daskrf.kernels.coregionalized import Coregionalized
from daskrf.kernels.kernel import Kernel

Single = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]
FitDraws = PriorDraws | CoregionalizedDraws

_SEARCH = 10.0  # times the tolerance, during the search: enough for the gradient of the evidence
_COARSEST = 0.05  # the largest tolerance during the search
_FIRST_SEARCH = 10.0  # times that, for the first step with all rows: at 0.1 its measured error is 3 %
_REFINED = 0.1  # times the tolerance, for the mean
_ROUNDS = 6
_MANY = 16_000  # rows, above which the search starts with a search on some of them
_SOME, _MOST_OF_SOME = 4, 20_000  # a quarter, at most 20,000: a product takes at most a 16th of the time
_LANDMARKS_OF_SOME = 1000
_STEP = 0.1  # in log lambda: the search ends with a smaller step, since the evidence is flat there
_KNOWN_STEP = 0.5  # the same for the first step with all rows, after a search on some rows
_LARGEST_STEP = 1.5
_RANGE = (1e-3, 1e6)
"""Search range of lambda, relative to the mean of k(x, x): kernel values in single precision do not resolve
much smaller ones."""

_FIRST = 0.1
"""Smallest starting value of the search, on the same scale: a few rows may show no noise although all do, and
solves with little noise are slow."""

_RANGE_OF_SIGNAL = (1e-6, 1e6)
"""Search range if the noise variance is given and only the signal variance is optimized."""

_FACTORIZED = 20_000  # rows, up to which a factorization is suggested
_PREDICTED = 16384  # rows whose samples are held in memory at a time


class ProcessParameters(NamedTuple):
    """Mean, signal variance and noise variance."""

    mean: float
    signal_variance: float
    noise_variance: float


@dataclass
class KernelSum:
    """One or more functions of rows: mean + k(x, Z) weights, plus a prior sample for posterior samples.

    Attributes
    ----------
    matrix : KernelMatrix
        The kernel matrix of the rows Z.
    weights : float32 array, shape (n, 1), or (n, D) for D functions
        In units of `scale`.
    mean, scale : float
    prior : Draws, optional
        One sample for each function, in units of `deviation`.
    deviation : float
    """

    matrix: KernelMatrix
    weights: Single
    mean: float
    scale: float
    prior: Draws | None = None
    deviation: float = 0.0

    def predict(self, X: Matrix) -> Double:
        """Return the values of the function at each row, float64 of shape (m,), or (m, D) for several."""
        products = self.matrix.cross_product(X, self.weights)
        values = self.mean + self.scale * products.astype(np.float64)
        if self.prior is not None:
            values += self.deviation * self.prior(X)
        return values[:, 0] if values.shape[1] == 1 else values


@dataclass
class PathwisePosterior:
    """The mean and the samples of a posterior, as weights of kernel values.

    Attributes
    ----------
    hyperparameters : ProcessParameters
    alpha : float32 array, shape (n, 1 + S)
        C^-1 times (y - mean) / scale, and C^-1 times the noisy prior samples; shape (n, 1) for means only.
    ones : float32 array, shape (n,)
        C^-1 times ones; like alpha, an initial guess for the solution with further labels.
    variances : VarianceModel
        Model of the variance of f, in units of the signal variance.
    scale : float
        The largest |y - mean of y|: squares of unscaled labels might overflow float32.
    at_bound : bool
        Whether lambda is at an end of its search range.
    residual : float
        Largest |b - C x| / |b| over all right-hand sides.
    n_iterations : int
        Products with K, including the hyperparameter search.
    landmarks : int64 array, shape (L,)
        Rows that the preconditioner is built from.
    landmark_weights : float32 array, shape (L, 1)
        k(x, landmarks) times these approximates the mean, in units of `scale`.
    sites : IteratedSites, optional
        What stands for labels that are limits.
    """

    matrix: KernelMatrix
    prior: FitDraws | None
    hyperparameters: ProcessParameters
    alpha: Single
    ones: Single
    variances: VarianceModel
    scale: float
    at_bound: bool
    residual: float
    n_iterations: int
    landmarks: npt.NDArray[np.int64]
    landmark_weights: Single
    random_state: int
    sites: IteratedSites | None = None

    def mean(self, X: Matrix) -> Double:
        """Return the posterior mean at each row, float64 of shape (m,)."""
        return self.function(self.alpha[:, 0]).predict(X)

    def function(self, weights: Single, prior: FitDraws | None = None) -> KernelSum:
        """Return the function with the given weights of the labelled rows, plus the prior sample if given."""
        matrix, column, (mean, a, _) = self.matrix, weights.reshape(len(weights), -1), self.hyperparameters
        return KernelSum(matrix, np.ascontiguousarray(column), mean, self.scale, prior, math.sqrt(a))

    def drawn(self, draw: int) -> Single:
        """Return the weights of the labelled rows in one of the S samples."""
        size = math.sqrt(self.hyperparameters.signal_variance) / self.scale
        return self.alpha[:, 0] - np.float32(size) * self.alpha[:, 1 + draw]

    @functools.cached_property
    def rough(self) -> KernelSum:
        """An approximation of the mean that needs kernel values with the landmarks only."""
        rows = KernelMatrix(self.matrix.kernel, self.matrix.X[self.landmarks])
        return KernelSum(rows, self.landmark_weights, self.hyperparameters.mean, self.scale)

    def deviations(self, X: Matrix) -> tuple[Double, Single]:
        """Return the mean, and the deviation of each sample of f from it, float32 of shape (m, S)."""
        assert self.prior is not None
        mean, draws = np.empty(X.shape[0]), self.prior(X)

        def use(rows: slice, values: Single) -> None:
            mean[rows] = values[:, 0]
            draws[rows] -= values[:, 1:]

        self.matrix.cross(X, self.alpha, use)
        draws *= np.float32(math.sqrt(self.hyperparameters.signal_variance))
        return self.hyperparameters.mean + self.scale * mean, draws

    def covariance(self, X: Matrix, tolerance: float, max_iterations: int) -> tuple[Double, Double]:
        """Return the mean of f and its exact covariance, by one solve per row: meant for a shortlist.

        Raises
        ------
        InputError
            If the residuals do not fall to the tolerance.
        """
        kernel, X_train = self.matrix.kernel, self.matrix.X
        cross = kernel(X_train, X)
        preconditioner = LandmarkPreconditioner(kernel, X_train, len(self.landmarks), self.random_state)
        equations = _Equations(self.matrix, preconditioner, scales_of(self.hyperparameters, self.sites))
        ratio = self.hyperparameters.noise_variance / self.hyperparameters.signal_variance
        system = equations.system(cross.astype(np.float32), ratio)
        solution = system.solve(tolerance, max_iterations)
        _check_residuals(solution, tolerance, max_iterations)
        covariance = kernel(X) - cross.T @ equations.unscaled(solution.x)
        covariance = self.hyperparameters.signal_variance * (covariance + covariance.T) / 2
        return self.mean(X), covariance

    def std(self, X: Matrix) -> tuple[Double, Double]:
        """Return the mean and standard deviation of f, the latter from the S samples and the variance model.

        From S samples alone, a standard deviation has a relative error of 1 / sqrt(2 S) at every x.
        """
        mean, std = np.empty(X.shape[0]), np.empty(X.shape[0])
        for start in range(0, X.shape[0], _PREDICTED):
            rows = slice(start, min(start + _PREDICTED, X.shape[0]))
            mean[rows], std[rows] = self._std(row_slice(X, rows.start, rows.stop))
        return mean, std

    def _std(self, X: Matrix) -> tuple[Double, Double]:
        assert self.prior is not None
        mean, draws = np.empty(X.shape[0]), self.prior(X)
        variance, diagonal = np.empty(X.shape[0]), self.matrix.kernel.diag(X)
        size = np.maximum(diagonal, np.finfo(np.float64).tiny)

        def use(rows: slice, values: Single, largest: Single, total: Single) -> None:
            mean[rows] = values[:, 0]
            deviations = draws[rows] - values[:, 1:]
            squares = np.einsum("ij,ij->i", deviations, deviations, dtype=np.float64)
            guess, worth = self.variances.guess(largest / size[rows], total / size[rows])
            squares += worth * diagonal[rows] * guess
            variance[rows] = squares / (deviations.shape[1] + worth)

        self.matrix.cross(X, self.alpha, use, scales=self.correlation_scales)
        mean = self.hyperparameters.mean + self.scale * mean
        return mean, np.sqrt(self.hyperparameters.signal_variance * variance)

    @functools.cached_property
    def correlation_scales(self) -> Single:
        """1 / sqrt(k(x_i, x_i) + lambda_i), float32 of shape (n,)."""
        ratios = ratios_of(self.hyperparameters, self.sites)
        return correlation_scales(self.matrix.kernel.diag(self.matrix.X), ratios)


def scales_of(parameters: ProcessParameters, sites: IteratedSites | None) -> Double | None:
    """Return the scales of rows if some labels are limits; see `daskrf.gp.processes.iteratedlimits`."""
    return None if sites is None else scales_for(parameters.noise_variance, sites.excess)


def ratios_of(parameters: ProcessParameters, sites: IteratedSites | None) -> Double | float:
    """Return lambda, or lambda_i of each row if there are limits, whose labels have more noise."""
    excess = 0.0 if sites is None else sites.excess
    ratios: Double | float = (parameters.noise_variance + excess) / parameters.signal_variance
    return ratios


def correlation_scales(diagonal: Double, ratios: Double | float) -> Single:
    """Return 1 / sqrt(k(x_i, x_i) + lambda_i), float32 of shape (n,)."""
    return (1 / np.sqrt(diagonal + ratios)).astype(np.float32)


def prior_of_fit(kernel: Kernel, X: Matrix, n_draws: int, n_features: int, random_state: int) -> FitDraws:
    """Return the prior samples that a fit turns into posterior samples."""
    seed = seeds.key(random_state, "gp/prior") >> 33
    if isinstance(kernel, Coregionalized):
        inner = PriorDraws(
            kernel.inner, kernel.split(X)[0], n_draws * len(kernel.factor[0]), n_features, seed
        )
        return CoregionalizedDraws(kernel, inner)
    return PriorDraws(kernel, X, n_draws, n_features, seed)


def fit_pathwise(
    kernel: Kernel,
    X: Matrix,
    y: Double,
    *,
    start: ProcessParameters,
    fixed: tuple[float | None, float | None, float | None],
    n_draws: int,
    n_features: int,
    n_landmarks: int,
    tolerance: float,
    max_iterations: int,
    keep_bytes: int = 0,
    random_state: int,
    matrix: KernelMatrix | None = None,
    previous: PathwisePosterior | None = None,
    side: Sides | None = None,
) -> PathwisePosterior:
    """Fit to the rows X and the labels y.

    Parameters
    ----------
    start : ProcessParameters
        Starting point of the search.
    fixed : (float or None, float or None, float or None)
        Mean, signal variance and noise variance; those that are not None are fixed.
    n_draws, n_features : int
        Number of posterior samples, and of random features for the prior samples.
    n_landmarks : int
        Number of landmarks of the preconditioner.
    tolerance : float
        Largest residual, relative to its right-hand side.
    max_iterations : int
        Largest number of products with the kernel matrix.
    keep_bytes : int
        Memory for tiles of the kernel matrix.
    matrix : KernelMatrix, optional
        k(X, X), if its products are computed elsewhere.
    previous : PathwisePosterior, optional
        A posterior whose rows come first in X: its solution is the initial guess.
    side : int8 array, shape (n,), optional
        0 for a label, 1 for a lower limit and -1 for an upper one.

    Raises
    ------
    InputError
        If the residuals do not fall to the tolerance, the kernel has no random features, or the sites of
        limits do not settle.
    """
    prior = prior_of_fit(kernel, X, n_draws, n_features, random_state)
    matrix = KernelMatrix(kernel, X, keep_bytes=keep_bytes) if matrix is None else matrix
    preconditioner = LandmarkPreconditioner(kernel, X, n_landmarks, random_state)
    sites, at_bound = None, False
    if side is not None:
        sites, best = sites_by_iteration(
            matrix,
            preconditioner,
            y,
            side,
            mean=fixed[0],
            variances=_first_variances(start, fixed, float(np.mean(kernel.diag(X)))),
            tolerance=tolerance,
            max_iterations=max_iterations,
            random_state=random_state,
        )
        start, at_bound = ProcessParameters(start.mean, best.signal, best.noise), best.at_bound
        fixed = fixed[0], best.signal, best.noise
        y = sites.labels
    equations = _Equations(matrix, preconditioner, scales_of(start, sites))
    system = _System(equations, y, prior(X), fixed, max_iterations, random_state)
    if previous is not None:
        system.begin_from(previous)
    log_ratio = math.log(start.noise_variance / start.signal_variance)
    if fixed[1] is None or fixed[2] is None:
        size = float(np.mean(kernel.diag(X)))
        if fixed[2] is None and previous is None:
            log_ratio = max(log_ratio, math.log(_FIRST * size))
        search = _Search(log_ratio, size, _RANGE if fixed[2] is None else _RANGE_OF_SIGNAL)
        if previous is None and len(y) > _MANY:
            _search_some(search, system, prior, keep_bytes, tolerance, random_state)
        search.run(system, tolerance)
        log_ratio, at_bound = search.log_ratio, search.at_bound
    system.solve(log_ratio, tolerance, check=False)
    system.refine(tolerance)
    parameters = system.hyperparameters()
    solved, ratio = system.x, math.exp(log_ratio)
    variances = _variances(matrix, ratios_of(parameters, sites), solved[:, 2:])
    matrix.forget()
    landmark_weights = equations.landmark_weights((y - parameters.mean) / system.scale, ratio)
    alpha = np.column_stack([system.alpha() / system.scale, solved[:, 2:]]).astype(np.float32)
    return PathwisePosterior(
        matrix=matrix,
        prior=prior,
        hyperparameters=parameters,
        alpha=alpha,
        ones=solved[:, 1].astype(np.float32),
        variances=variances,
        scale=system.scale,
        at_bound=at_bound,
        residual=float(system.solution.residuals.max()),
        n_iterations=system.n_iterations + (0 if sites is None else sites.n_products),
        landmarks=preconditioner.landmarks,
        landmark_weights=landmark_weights[:, None],
        random_state=random_state,
        sites=sites,
    )


def _first_variances(
    start: ProcessParameters, fixed: tuple[float | None, float | None, float | None], size: float
) -> LimitVariances:
    """Return the variances that a fit with limits starts from; `size` is the mean of k(x, x)."""
    return LimitVariances(
        start.signal_variance,
        start.noise_variance,
        free_signal=fixed[1] is None,
        free_noise=fixed[2] is None,
        least_ratio=_RANGE[0] * size,
    )


def _search_some(
    search: _Search,
    system: _System,
    prior: FitDraws,
    keep_bytes: int,
    tolerance: float,
    random_state: int,
) -> None:
    """Search with some of the rows, and start the search with all rows where that one ends."""
    whole, n = system.equations.matrix, len(system.y)
    order = np.argsort(seeds.words(random_state, "gp/search", n), kind="stable")
    chosen = np.sort(order[: min(n // _SOME, _MOST_OF_SOME)])
    X = whole.X[chosen]
    matrix = KernelMatrix(whole.kernel, X, keep_bytes=min(keep_bytes, KernelMatrix.bytes_of(len(chosen))))
    preconditioner = LandmarkPreconditioner(whole.kernel, X, _LANDMARKS_OF_SOME, random_state)
    some = _System(
        _Equations(matrix, preconditioner),
        system.y[chosen] + system.shift,
        prior(X),
        system.fixed,
        system.max_iterations,
        random_state,
    )
    search.run(some, tolerance)
    search.begin_again()


def _variances(matrix: KernelMatrix, ratios: Double | float, beta: Double) -> VarianceModel:
    """Fit the variance model to the solutions for the samples."""
    diagonal = matrix.kernel.diag(matrix.X)
    largest, total = matrix.own_squares(correlation_scales(diagonal, ratios))
    squares = np.einsum("ij,ij->i", beta, beta) / beta.shape[1]
    some = diagonal > 0
    return fit_variances(
        largest[some] / diagonal[some],
        total[some] / diagonal[some],
        diagonal[some],
        squares[some],
        ratios[some] if isinstance(ratios, np.ndarray) else ratios,
        beta.shape[1],
    )


def _check_residuals(solution: Solution, accepted: float, max_iterations: int) -> None:
    """Raise InputError if a residual exceeds `accepted`."""
    worst = float(solution.residuals.max(initial=0.0))
    spent = solution.n_iterations + 1 >= max_iterations  # the last product would be for the residual
    if not worst <= accepted:
        why = (
            "in all products with the kernel matrix that max_iterations allows"
            if spent
            else "because of rounding in single precision"
        )
        few = len(solution.x) <= _FACTORIZED
        ways = [*["more of them"] * spent, "a larger noise variance", *["solver='cholesky'"] * few]
        advice = ", or ".join(filter(None, (", ".join(ways[:-1]), ways[-1])))
        raise InputError(
            f"conjugate gradients reached a residual of {worst:.1e}, not {accepted:.1e}, {why}; "
            f"give {advice}."
        )


class _Equations:
    """(K + lambda I) x = b, or, where labels that stand for limits have more noise, a scaled form.

    With the scales U of rows (`daskrf.gp.processes.iteratedlimits`) that form is
    (U K U + lambda I) z = U b, and x = U z.
    """

    def __init__(
        self, matrix: KernelMatrix, landmarks: LandmarkPreconditioner, scales: Double | None = None
    ) -> None:
        self.matrix, self.landmarks, self.scales = matrix, landmarks, scales

    def system(self, right: Single, ratio: float, start: Single | None = None) -> BlockSystem:
        """Return the equations for right-hand sides b, shape (n, m)."""
        if self.scales is None:
            self.landmarks.set_ratio(ratio)
            return BlockSystem(self.matrix.product, self.landmarks, right, ratio, start=start)
        right = self.scales[:, None].astype(np.float32) * right
        inverse = self._scaled_landmarks(self.scales, ratio)
        return BlockSystem(scaled(self.matrix, self.scales), inverse, right, ratio, start=start)

    def move(self, system: BlockSystem, right: Single, ratio: float) -> BlockSystem:
        """Return the equations for other right-hand sides and another lambda, with what they have in common.

        They have nothing in common if they are scaled.
        """
        if self.scales is not None:
            return self.system(right, ratio)
        self.landmarks.set_ratio(ratio)
        system.move(right, ratio)
        return system

    def unscaled(self, solution: Double) -> Double:
        """Return x for a solution of the system."""
        return solution if self.scales is None else self.scales[:, None] * solution

    def ratios(self, ratio: float) -> Double | float:
        """Return the noise of each row relative to the signal variance, if lambda is `ratio`."""
        return ratio if self.scales is None else ratio / self.scales**2

    def landmark_weights(self, y: Double, ratio: float) -> Single:
        """Return weights of kernel values with the landmarks, shape (L,), that approximate the mean for y."""
        if self.scales is None:
            return self.landmarks.weights(y)
        return self._scaled_landmarks(self.scales, ratio).weights(y)

    def _scaled_landmarks(self, scales: Double, ratio: float) -> ScaledLandmarks:
        return ScaledLandmarks(self.landmarks, self.matrix.kernel.diag(self.matrix.X), scales, ratio)


class _System:
    """(K + lambda I) x = b for labels, ones and noisy prior samples; keeps the last solution."""

    def __init__(
        self,
        equations: _Equations,
        y: Double,
        draws: Single,
        fixed: tuple[float | None, float | None, float | None],
        max_iterations: int,
        random_state: int,
    ) -> None:
        self.equations, self.fixed = equations, fixed
        self.draws, self.max_iterations = draws, max_iterations
        self.shift = float(y.mean())
        self.y = y - self.shift
        self.scale = float(np.abs(self.y).max(initial=0.0)) or 1.0
        self.noise = standard_normal(random_state, "gp/pathwise", *draws.shape).astype(np.float32)
        self.ratio, self.n_iterations = 0.0, 0
        self.start: Single | None = None
        self.system: BlockSystem | None = None
        self.solution: Solution

    def begin_from(self, other: PathwisePosterior) -> None:
        """Take the solution of another posterior as the initial guess for its rows, which come first."""
        shift = np.float32((other.hyperparameters.mean - self.shift) / self.scale)
        labels = np.float32(other.scale / self.scale) * other.alpha[:, 0] + shift * other.ones
        self.start = np.zeros((len(self.y), 2 + self.draws.shape[1]), np.float32)
        self.start[: len(other.alpha)] = np.column_stack([labels, other.ones, other.alpha[:, 1:]])

    def solve(self, log_ratio: float, tolerance: float, *, check: bool = True) -> None:
        """Solve for a given lambda, starting from the last solution."""
        ratio = math.exp(log_ratio)
        if self.system is None or ratio != self.ratio:
            self.ratio = ratio
            noise = self._noise_scales(ratio) * self.noise
            right = np.column_stack([self._labels(), self.draws + noise])
            if self.system is None:
                self.system = self.equations.system(right, ratio, self.start)
            else:
                self.system = self.equations.move(self.system, right, ratio)
        self._solve(tolerance, tolerance, check=check)

    def refine(self, tolerance: float) -> None:
        """Solve for labels and ones, which determine the mean, more precisely than for the samples.

        If rounding prevents that, the tolerance of the samples is accepted.
        """
        size = 2 + self.draws.shape[1]
        self._solve(np.where(np.arange(size) < 2, _REFINED, 1.0) * tolerance, tolerance)

    def _noise_scales(self, ratio: float) -> np.float32 | Single:
        """Return the root of the noise of all rows, or of each, relative to the signal variance."""
        ratios = self.equations.ratios(ratio)
        if isinstance(ratios, float):
            return np.float32(math.sqrt(ratios))
        return np.sqrt(ratios)[:, None].astype(np.float32)

    def _labels(self) -> Single:
        return np.column_stack([self.y / self.scale, np.ones(len(self.y))]).astype(np.float32)

    def _solve(self, tolerance: float | Double, accepted: float, *, check: bool = True) -> None:
        assert self.system is not None
        left = self.max_iterations - self.n_iterations
        self.solution = self.system.solve(tolerance, left, check=check)
        self.n_iterations += self.solution.n_iterations
        _check_residuals(self.solution, accepted, left)

    @property
    def x(self) -> Double:
        """C^-1 times the labels, ones, and noisy prior samples."""
        return self.equations.unscaled(self.solution.x)

    @property
    def mean(self) -> float:
        """The fixed mean, or the optimal one for the current lambda."""
        if self.fixed[0] is not None:
            return self.fixed[0]
        labels, ones = self.x[:, :2].T
        return self.shift + self.scale * float(labels.sum() / ones.sum())

    def alpha(self) -> Double:
        """Return C^-1 (y - mean)."""
        labels, ones = self.x[:, :2].T
        labels = labels * self.scale
        return labels - (self.mean - self.shift) * ones

    def hyperparameters(self) -> ProcessParameters:
        """Return the hyperparameters: fixed values, and the optimal others for the current lambda."""
        alpha = self.alpha()
        _, signal, noise = self.fixed
        if signal is None and noise is not None:
            signal = noise / self.ratio
        elif signal is None:
            signal = float((self.y - (self.mean - self.shift)) @ alpha) / len(alpha)
        return ProcessParameters(self.mean, signal, self.ratio * signal if noise is None else noise)

    def slope(self) -> float:
        """Return the first-order step in log lambda to where the gradient of the evidence vanishes.

        It vanishes where tr C^-1 = alpha^T alpha / a, with the signal variance a = r^T alpha / n unless it is
        fixed. If the noise variance is fixed, a = alpha^T K alpha / tr(C^-1 K).
        """
        alpha, n = self.alpha(), len(self.y)
        residual = self.y - (self.mean - self.shift)
        beta = self.x[:, 2:]
        trace = float(np.einsum("ij,ij->", beta, beta)) / beta.shape[1]
        _, signal, noise = self.fixed
        tiny = float(np.finfo(np.float64).tiny)
        if noise is not None:
            # Sampling error may make the degrees of freedom vanish.
            freedom = max(n - self.ratio * trace, 1e-3 * n)
            best = max(float(alpha @ (residual - self.ratio * alpha)), tiny) / freedom
            return math.log(noise / best / self.ratio)
        a = max(float(residual @ alpha), tiny) / n if signal is None else signal
        return math.log(max(float(alpha @ alpha), tiny) / a / trace)


class _Search:
    """Finds the zero of a decreasing function of log lambda: first its value as a step, then secant steps."""

    def __init__(self, log_ratio: float, size: float, ends: tuple[float, float]) -> None:
        self.low, self.high = (math.log(end * size) for end in ends)
        self.log_ratio = min(max(log_ratio, self.low), self.high)
        self.done = self.at_bound = False
        self._points: list[tuple[float, float]] = []
        self._fall: float | None = None

    def run(self, system: _System, tolerance: float) -> None:
        """Search with the evidence of a system of equations, which may be solved coarsely.

        After a search on some rows, the first step may be coarser still. A later one may not: after a short
        step, a coarse solution would hardly change.
        """
        coarse = min(_SEARCH * tolerance, max(tolerance, _COARSEST))
        while not self.done:
            first = self._fall is not None and not self._points
            system.solve(self.log_ratio, coarse * (_FIRST_SEARCH if first else 1.0), check=False)
            self.tell(system.slope())

    def begin_again(self) -> None:
        """Go on with another system of equations, whose function has about the same slope."""
        self.done = self.at_bound = False
        (x0, v0), (x1, v1) = self._points[-2:]
        self._fall = (v0 - v1) / (x1 - x0) if x1 != x0 else None
        self._points = []

    def tell(self, value: float) -> None:
        """Take the value of the function at `log_ratio`, and update `log_ratio`."""
        self._points.append((self.log_ratio, value))
        fall = self._fall
        if len(self._points) > 1:
            (x0, v0), (x1, v1) = self._points[-2:]
            fall = (v0 - v1) / (x1 - x0) if x1 != x0 else None
        step = value if fall is None else value / min(max(fall, 0.05), 2.0)
        step = min(max(step, -_LARGEST_STEP), _LARGEST_STEP)
        target = min(max(self.log_ratio + step, self.low), self.high)
        self.at_bound = target != self.log_ratio + step
        enough = _STEP
        if len(self._points) == 1:
            enough = 0.0 if self._fall is None else _KNOWN_STEP
        self.done = abs(target - self.log_ratio) < enough or len(self._points) >= _ROUNDS
        self.log_ratio = target
