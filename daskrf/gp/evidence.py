"""The evidence (log marginal likelihood) of y = mean + f + noise, f ~ GP(0, amplitude k), from statistics.

With lambda = noise / amplitude and C = Phi Phi^T + lambda I the covariance of y is amplitude C. For given
lambda the best mean is the generalized least squares estimate and the best amplitude is r^T C^-1 r / n, so
that the evidence is a function of lambda alone (Rasmussen & Williams 2006, eq. 5.8; Sherman-Morrison-Woodbury
turns C^-1 and det C into A = Phi^T Phi + lambda I).

Where moments have a deficit, the sum of k(x, x) - |phi(x)|^2, the value is Titsias' bound (2009, eq. 9) of
the evidence of k instead: that of the features less deficit / (2 lambda), which is as free of the amplitude.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar

from daskrf.errors import InputError
from daskrf.gp.linalg import ShiftedCholesky
from daskrf.gp.rounding import check_claim, check_rounding
from daskrf.gp.statistics import Moments

__all__ = [
    "CholeskySolver",
    "EigenSolver",
    "Fixed",
    "Hyperparameters",
    "Peak",
    "Quadratics",
    "approach_evidence",
    "check_eigen_size",
    "leading_block",
    "log_likelihood",
    "maximize_evidence",
    "solved_weights",
    "with_deficit",
]

Array = npt.NDArray[np.float64]

_LARGEST_EIGEN = 32_766  # M with 1 + 6 M + 2 M^2 < 2^31, the workspace of divide and conquer


@dataclass(frozen=True)
class Hyperparameters:
    """Mean, amplitude (variance of f) and ratio noise / amplitude of one target, with their evidence."""

    mean: float
    amplitude: float
    ratio: float
    log_marginal_likelihood: float

    @property
    def noise(self) -> float:
        """Variance of y given f."""
        return self.amplitude * self.ratio


@dataclass(frozen=True)
class Fixed:
    """What the user gave; None is to be found. The mean is measured from the shift of the moments."""

    mean: float | None = None
    amplitude: float | None = None
    noise: float | None = None


@dataclass(frozen=True)
class Quadratics:
    """log det A and the forms lambda u^T C^-1 v for u, v among 1 and the columns of y - shift."""

    ratio: float
    log_det: float
    one_one: float
    one_y: Array
    y_y: Array


class Solver(Protocol):
    """What the evidence needs: quadratic forms for any lambda."""

    moments: Moments
    smallest: float

    def loses_digits(self, ratio: float) -> bool: ...

    def quadratics(self, ratio: float) -> Quadratics: ...

    def curvature(self, ratio: float, mean: float, target: int) -> tuple[float, float]: ...


class CholeskySolver:
    """Quadratic forms through one Cholesky factorization per lambda: M^3 / 3 multiply-adds each.

    Takes the Gram matrix of `moments` over as its workspace. Unless there are many more rows than features,
    the forms lose as many digits as lambda lies below the mean of |phi|^2, so that the search stays above
    1e-6 of that; where it ends there, an `EigenSolver` has to go on.
    """

    def __init__(self, moments: Moments) -> None:
        self.moments = moments
        self.smallest = EigenSolver.smallest if moments.n >= 2 * len(moments.phi_sum) else 1e-6
        self.factor = ShiftedCholesky(moments.gram)
        self._right = np.column_stack([moments.phi_sum, moments.phi_y])
        self._known: dict[float, Quadratics] = {}

    def loses_digits(self, ratio: float) -> bool:
        """Tell whether lambda = `ratio` lies at or below the lower end of the search, and another may not."""
        end = self.smallest * self.moments.trace / self.moments.n
        return self.smallest > EigenSolver.smallest and ratio < 1.01 * end

    def quadratics(self, ratio: float) -> Quadratics:
        """Return the forms at lambda = `ratio`; remembered."""
        if ratio not in self._known:
            half = self.factor.factorize(ratio).half_solve(self._right)
            m = self.moments
            self._known[ratio] = Quadratics(
                ratio=ratio,
                log_det=self.factor.log_det(),
                one_one=max(m.n - float(half[:, 0] @ half[:, 0]), 0.0),
                one_y=m.y_sum - half[:, 0] @ half[:, 1:],
                y_y=np.maximum(m.yy - np.square(half[:, 1:]).sum(axis=0), 0.0),
            )
        return self._known[ratio]

    def curvature(self, ratio: float, mean: float, target: int) -> tuple[float, float]:
        """Return tr A^-1 and lambda^2 r^T C^-2 r for r = y - shift - mean."""
        m = self.moments
        right = (m.phi_y[:, target] - mean * m.phi_sum)[:, None]
        weights = self.factor.factorize(ratio).solve(right)[:, 0]
        squares = m.yy[target] - 2 * mean * m.y_sum[target] + m.n * mean**2
        explained = float(right[:, 0] @ weights) + ratio * float(weights @ weights)
        return self.factor.inverse_trace(), max(squares - explained, 0.0)


def check_eigen_size(n_components: int) -> None:
    """Refuse an eigendecomposition whose workspace has more numbers than LAPACK's 32 bits can count.

    Raises
    ------
    InputError
    """
    if n_components > _LARGEST_EIGEN:
        raise InputError(
            "labels with next to no noise need an eigendecomposition, which LAPACK makes of at most "
            f"{_LARGEST_EIGEN:,} features, not of {n_components:,}: give a larger noise (noise=, --noise) or "
            "take fewer features."
        )


class EigenSolver:
    """Quadratic forms through one eigendecomposition of Phi^T Phi: O(M) for each further lambda.

    What lies outside the span of Phi is split off, so that lambda close to zero costs no digits when n < M.
    """

    smallest = 1e-9

    def __init__(self, moments: Moments) -> None:
        blocks = moments.gram if moments.gram.ndim == 3 else moments.gram[None]
        check_eigen_size(blocks.shape[1])
        self.moments = moments
        right = np.column_stack([moments.phi_sum, moments.phi_y])
        parts = [_decomposed(*part) for part in zip(blocks, np.split(right, len(blocks)), strict=True)]
        self.values, self._coefficients = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        self._null = len(right) - len(self.values)
        c = self._coefficients
        rest = np.column_stack([[moments.n, *moments.y_sum], [0.0, *moments.yy]])
        rest[:, 0] -= c[:, 0] @ c
        rest[1:, 1] -= np.square(c[:, 1:]).sum(axis=0)
        total = np.array([moments.n, *moments.yy])
        inside = np.array([rest[0, 0], *rest[1:, 1]]) <= 1e-13 * total
        if len(self.values) >= moments.n:
            inside[:] = True
        rest[inside] = 0.0
        if inside[0]:
            rest[:, 0] = 0.0
        self._rest = rest

    def loses_digits(self, ratio: float) -> bool:
        """Tell that no lambda does."""
        return False

    def quadratics(self, ratio: float) -> Quadratics:
        """Return the forms at lambda = `ratio`."""
        c = self._coefficients
        weighted = c * (ratio / (self.values + ratio))[:, None]
        return Quadratics(
            ratio=ratio,
            log_det=float(np.log(self.values + ratio).sum()) + self._null * math.log(ratio),
            one_one=float(self._rest[0, 0] + weighted[:, 0] @ c[:, 0]),
            one_y=self._rest[1:, 0] + weighted[:, 0] @ c[:, 1:],
            y_y=self._rest[1:, 1] + np.einsum("ij,ij->j", weighted[:, 1:], c[:, 1:]),
        )

    def curvature(self, ratio: float, mean: float, target: int) -> tuple[float, float]:
        """Return tr A^-1 and lambda^2 r^T C^-2 r for r = y - shift - mean."""
        c = self._coefficients[:, 1 + target] - mean * self._coefficients[:, 0]
        rest = self._rest[1 + target, 1] - 2 * mean * self._rest[1 + target, 0] + mean**2 * self._rest[0, 0]
        trace = float((1.0 / (self.values + ratio)).sum()) + self._null / ratio
        return trace, max(rest, 0.0) + float(np.square(c * ratio / (self.values + ratio)).sum())


def _decomposed(gram: Array, right: Array) -> tuple[Array, Array]:
    """Return the eigenvalues above rounding, and `right` in units of the roots of their eigenvectors."""
    upper = np.triu(gram)
    # The upper triangle in C order is the lower one in LAPACK's Fortran order.
    values, vectors = eigh(upper.T, lower=True, driver="evd", overwrite_a=True, check_finite=False)
    top = max(float(values[-1]), 0.0)
    kept = values > top * len(values) * np.finfo(float).eps
    return values[kept], (vectors[:, kept].T @ right) / np.sqrt(values[kept])[:, None]


def solved_weights(
    moments: Moments,
    fitted: list[Hyperparameters],
    factor: ShiftedCholesky | None = None,
    *,
    claimed: bool = True,
) -> tuple[Array, float]:
    """Return (Phi^T Phi + ratio I)^-1 Phi^T (y - mean) of each target, and the largest jitter it needed.

    `factor` is one that has taken the Gram matrix over; otherwise it is taken over here. `claimed` says that
    the evidence of `fitted` was maximized on these moments, and is to be checked.

    Raises
    ------
    CoarseSumsError
        If rounding of the sums could have changed the fit: see `daskrf.gp.rounding`.
    InputError
        If the weights contradict the evidence.
    """
    factor = factor or ShiftedCholesky(moments.gram)
    weights, jitter = np.empty((len(moments.phi_sum), len(fitted))), 0.0
    for t, h in enumerate(fitted):
        right = moments.phi_y[:, t] - h.mean * moments.phi_sum
        weights[:, t] = factor.factorize(h.ratio).solve(right[:, None])[:, 0]
        jitter = max(jitter, factor.jitter)
        check_rounding(moments, factor, weights[:, t], h.noise, t)
        if claimed:
            squares = float(moments.yy[t]) - 2 * h.mean * float(moments.y_sum[t]) + moments.n * h.mean**2
            form = (squares - float(right @ weights[:, t])) / h.ratio
            again = _log_evidence(moments, h.amplitude, h.ratio, factor.log_det(), form)
            check_claim(h.log_marginal_likelihood, again, moments.n)
    return weights, jitter


def _log_evidence(moments: Moments, amplitude: float, ratio: float, log_det: float, form: float) -> float:
    """Return log p(y), or Titsias' bound of it, from log det A and r^T C^-1 r."""
    log_det += (moments.n - len(moments.phi_sum)) * math.log(ratio)
    value = -0.5 * (moments.n * math.log(2 * math.pi * amplitude) + log_det + form / amplitude)
    return value - 0.5 * moments.deficit / ratio


AnySolver = TypeVar("AnySolver", bound=EigenSolver | CholeskySolver)


def with_deficit(solver: AnySolver, deficit: float) -> AnySolver:
    """Return a solver that counts another deficit, and shares everything else with the given one."""
    other = copy.copy(solver)
    other.moments = replace(solver.moments, deficit=deficit)
    return other


def profile(solver: Solver, ratio: float, target: int, fixed: Fixed) -> Hyperparameters:
    """Return the best hyperparameters of one target for given lambda, and their evidence."""
    m, q = solver.moments, solver.quadratics(ratio)
    mean = fixed.mean
    if mean is None:
        mean = float(q.one_y[target]) / q.one_one if q.one_one > 1e-13 * m.n else 0.0
    form = float(q.y_y[target]) - 2 * mean * float(q.one_y[target]) + mean**2 * q.one_one
    # Where rounding leaves no residual at all, far below what any lambda in range explains.
    spread = float(m.yy[target]) + m.n * mean**2
    form = max(form / ratio, 1e-300, 1e-15 * spread / m.trace if m.trace > 0 else 0.0)
    if fixed.amplitude is not None:
        amplitude = fixed.amplitude
    elif fixed.noise is not None:
        amplitude = fixed.noise / ratio
    else:
        amplitude = form / m.n
    return Hyperparameters(mean, amplitude, ratio, _log_evidence(m, amplitude, ratio, q.log_det, form))


def log_likelihood(
    solver: Solver, mean: float, amplitude: float, noise: float, target: int = 0, *, gradient: bool = False
) -> tuple[float, Array]:
    """Return the log marginal likelihood and its gradient in (mean, amplitude, noise).

    The mean is measured from ``solver.moments.shift``. Without `gradient` the second value is empty.
    """
    m, ratio = solver.moments, noise / amplitude
    value = profile(solver, ratio, target, Fixed(mean, amplitude, noise)).log_marginal_likelihood
    if not gradient:
        return value, np.empty(0)
    q = solver.quadratics(ratio)
    trace, squared = solver.curvature(ratio, mean, target)
    form = (float(q.y_y[target]) - 2 * mean * float(q.one_y[target]) + mean**2 * q.one_one) / ratio
    trace_c = (m.n - len(m.phi_sum)) / ratio + trace  # tr C^-1
    squared /= ratio**2  # r^T C^-2 r
    by_mean = (float(q.one_y[target]) - mean * q.one_one) / noise
    # Divided twice: the square of the variance of large y would overflow.
    by_amplitude = 0.5 * ((form - ratio * squared) / amplitude - (m.n - ratio * trace_c)) / amplitude
    by_noise = 0.5 * (squared / amplitude - trace_c) / amplitude
    by_amplitude -= 0.5 * m.deficit / noise
    by_noise += 0.5 * m.deficit / (noise * ratio)
    return value, np.array([by_mean, by_amplitude, by_noise])


def leading_block(moments: Moments, size: int) -> Moments:
    """Return the moments of the first `size` features, scaled up to the trace of all of them.

    A cheap first guess of lambda: random features are exchangeable, so their first part sees nearly the
    same evidence as all of them.
    """
    part = float(np.trace(moments.gram[:size, :size]))
    scale = moments.trace / part if part > 0 else 1.0
    return Moments(
        n=moments.n,
        gram=moments.gram[:size, :size] * scale,
        trace=part * scale,
        phi_sum=moments.phi_sum[:size] * math.sqrt(scale),
        phi_y=moments.phi_y[:size] * math.sqrt(scale),
        y_sum=moments.y_sum,
        yy=moments.yy,
        yy_error=moments.yy_error,
        shift=moments.shift,
        gram_error=moments.gram_error,
        deficit=moments.deficit,
    )


def maximize_evidence(
    solver: Solver, target: int, fixed: Fixed, start: float | None = None
) -> tuple[Hyperparameters, bool]:
    """Maximize the evidence of one target over whatever is not fixed.

    Parameters
    ----------
    solver : EigenSolver or CholeskySolver
    target : int
    fixed : Fixed
    start : float, optional
        First guess of lambda. Without it the whole range is scanned, which is cheap for an EigenSolver only.

    Returns
    -------
    Hyperparameters, and whether lambda ran into an end of its range (no noise, or no signal, can be seen).
    """
    if fixed.amplitude is not None and fixed.noise is not None:
        return profile(solver, fixed.noise / fixed.amplitude, target, fixed), False
    low, high = _search_range(solver, target, fixed)
    if solver.moments.trace == 0:  # features without any signal: every lambda fits as well
        return profile(solver, math.exp(high), target, fixed), True

    def loss(x: float) -> float:
        # Rounded, so that a solver recognizes a point that it has seen.
        return -profile(solver, math.exp(round(x, 12)), target, fixed).log_marginal_likelihood

    if start is None:
        grid = np.linspace(low, high, 257)
        best = int(np.argmin([loss(x) for x in grid]))
        points = (grid[max(best - 1, 0)], grid[best], grid[min(best + 1, len(grid) - 1)])
        tolerance = 1e-9
    else:
        points = _bracket(loss, math.log(start), low, high)
        tolerance = 1e-4
    if not points[0] < points[1] < points[2]:
        return profile(solver, math.exp(points[1]), target, fixed), True
    x = _brent(loss, points, tolerance)
    return profile(solver, math.exp(round(x, 12)), target, fixed), False


@dataclass(frozen=True)
class Peak:
    """Log lambda of the largest evidence of a target, and there -d^2 log p(y) / d(log lambda)^2, if known."""

    x: float
    curvature: float | None = None


def approach_evidence(
    solver: Solver, target: int, fixed: Fixed, start: Peak
) -> tuple[Hyperparameters, bool, Peak]:
    """Maximize the evidence as `maximize_evidence` does, but by as few steps as can be.

    For so many features that a step takes minutes. Steps go to the top of parabolas through what is known, at
    first with the curvature at `start`, that of fewer features, and end where the next one would gain less
    than 0.005 in log p(y): lambda is then known to about a tenth of its own uncertainty.

    Returns
    -------
    As `maximize_evidence`, and the peak that was found.
    """
    given = fixed.amplitude is not None and fixed.noise is not None
    peak = None if given or solver.moments.trace == 0 else _climb(solver, target, fixed, start)
    if peak is None:
        found, at_bound = maximize_evidence(solver, target, fixed, math.exp(start.x))
        return found, at_bound, Peak(math.log(found.ratio))
    return profile(solver, math.exp(peak.x), target, fixed), False, peak


def _climb(solver: Solver, target: int, fixed: Fixed, start: Peak) -> Peak | None:
    """Return the top of the parabola, or None where the evidence is flat or looks like no parabola."""
    low, high = _search_range(solver, target, fixed)
    known: dict[float, float] = {}
    x, curvature = round(start.x, 12), start.curvature  # rounded as in `maximize_evidence`
    first = x
    for step in range(8):
        if not low < x < high:
            return None
        known[x] = profile(solver, math.exp(x), target, fixed).log_marginal_likelihood
        best = max(known, key=known.__getitem__)
        if step == 0:
            x = round(x - 0.1, 12)
            continue
        (x0, y0), (x1, y1), *rest = sorted(known.items(), key=lambda point: abs(point[0] - best))
        slope = (y1 - y0) / (x1 - x0)
        if rest:
            x2, y2 = rest[0]
            curvature = 2 * (slope - (y2 - y0) / (x2 - x0)) / (x2 - x1)
        if curvature is None:
            x = round(best + (0.1 if best == first else -0.1), 12)
            continue
        if curvature < 10:  # log lambda is known to no better than 0.3, if at all: no signal, or no noise
            return None
        top = round(0.5 * (x0 + x1) + slope / curvature, 12)
        if 0.5 * curvature * (top - best) ** 2 < 0.005:
            return Peak(best, curvature)
        x = min(max(top, best - 1.0), best + 1.0)
    return None


def _search_range(solver: Solver, target: int, fixed: Fixed) -> tuple[float, float]:
    """Return the ends of log lambda: from a small part of the mean of |phi|^2 to 1e4 times its sum."""
    m = solver.moments
    mean = 0.0 if fixed.mean is None else fixed.mean
    trace = m.trace if m.trace > 0 else float(m.n)
    spread = max(float(m.yy[target]) / m.n + mean**2, 1e-300)
    low, high = solver.smallest * trace / m.n, 1e4 * trace
    if fixed.amplitude is not None:
        high = max(high, 10 * spread / fixed.amplitude)
    if fixed.noise is not None:
        low = min(low, 1e-6 * fixed.noise / spread)
        high = max(high, 1e6 * fixed.noise / spread)
    return math.log(low), math.log(high)


def _bracket(
    loss: Callable[[float], float], start: float, low: float, high: float
) -> tuple[float, float, float]:
    """Walk downhill from `start` by growing steps until the loss rises, or an end is met and it is best."""
    step = 0.35
    left = min(max(start, low), high - step)
    middle, sign = left + step, 1.0
    if loss(middle) > loss(left):
        left, middle, sign = middle, left, -1.0
    while True:
        step *= 1.8
        right = min(max(middle + sign * step, low), high)
        if right == middle:
            break
        if loss(right) > loss(middle):
            return (left, middle, right) if sign > 0 else (right, middle, left)
        left, middle = middle, right
    # The last step to the end was long: the minimum may lie within it.
    while abs(middle - left) > 0.05:
        inner = 0.5 * (left + middle)
        if loss(inner) < loss(middle):
            return (left, inner, middle) if sign > 0 else (middle, inner, left)
        left = inner
    return (middle, middle, middle)


def _brent(loss: Callable[[float], float], points: tuple[float, float, float], tolerance: float) -> float:
    """Minimize within a bracket; SciPy's tolerance is relative to the variable, so centre that on 10."""
    if not loss(points[1]) < min(loss(points[0]), loss(points[2])):
        return points[1]  # flat to the last bit
    centre = points[1] - 10.0
    bracket = tuple(p - centre for p in points)
    found = minimize_scalar(
        lambda u: loss(u + centre), bracket=bracket, method="brent", options={"xtol": tolerance}
    )
    return float(found.x) + centre
