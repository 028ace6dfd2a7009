"""The evidence (log marginal likelihood) of y = mean + f + noise, f ~ GP(0, signal_variance k), from sums.

With lambda = noise_variance / signal_variance and C = Phi Phi^T + lambda I, the covariance of y is
signal_variance C. For given lambda the optimal mean is the generalized least squares estimate, and the
optimal signal variance is r^T C^-1 r / n, so the evidence is a function of lambda alone (Rasmussen & Williams
2006, eq. 5.8; Sherman-Morrison-Woodbury expresses C^-1 and det C through A = Phi^T Phi + lambda I).

If the moments have a deficit, the sum of k(x, x) - |phi(x)|^2, the value is instead Titsias' bound (2009,
eq. 9) on the evidence of k: the evidence of the features minus deficit / (2 lambda). That term does not
depend on the signal variance either.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from daskrf.errors import InputError
from daskrf.gp.solve.roundoff import check_claim, check_rounding
from daskrf.gp.solve.solvers import (
    CholeskySolver,
    EigenSolver,
    LowRankGram,
    ShiftedCholesky,
    Solver,
    few_rows,
    leading_block,
)
from daskrf.gp.sums.statistics import Moments

Array = npt.NDArray[np.float64]

FixedValue = npt.ArrayLike | None

ONE_LABEL = "signal and noise variance cannot be estimated from one label (1 sample): give more, or fix both."
_GUESS_SIZE = 512  # features used for the first guess of the Cholesky solver
_LARGE = 8_192  # features; above, Cholesky factorizations are so slow that few are made: `approach_evidence`


@dataclass(frozen=True)
class Hyperparameters:
    """Mean, signal variance and noise_variance / signal_variance of one target, with their evidence."""

    mean: float
    signal_variance: float
    ratio: float
    log_marginal_likelihood: float

    @property
    def noise_variance(self) -> float:
        """Variance of y given f."""
        return self.signal_variance * self.ratio


@dataclass(frozen=True)
class Fixed:
    """Values that the user fixed, None to optimize; the mean is relative to the shift of the moments."""

    mean: float | None = None
    signal_variance: float | None = None
    noise_variance: float | None = None


def find_hyperparameters(
    solver: Solver,
    *,
    mean: FixedValue,
    signal_variance: FixedValue,
    noise_variance: FixedValue,
    doubt: float = 0.0,
) -> list[tuple[Hyperparameters, bool]]:
    """Return the hyperparameters of each target, and whether lambda is at an end of its search range.

    Parameters
    ----------
    solver : Solver
        A CholeskySolver must not have been factorized yet.
    mean, signal_variance, noise_variance : float or array of shape (n_targets,), optional
        Values to keep fixed.
    doubt : float
        Strength of the prior exp(-doubt / lambda), which counters estimates of almost no noise; see
        `maximize_evidence`. Not for a CholeskySolver.

    Raises
    ------
    InputError
        If a variance has to be estimated but y has none, or a given value is out of range.
    """
    moments = solver.moments
    targets = range(len(moments.yy))
    fixed = [_fixed(moments, target, mean, signal_variance, noise_variance) for target in targets]
    if signal_variance is not None and noise_variance is not None:
        return [maximize_evidence(solver, target, fixed[target]) for target in targets]
    for target in targets:
        check_variance(moments, target)
    if not isinstance(solver, CholeskySolver):
        return [maximize_evidence(solver, target, fixed[target], doubt=doubt) for target in targets]
    guess = EigenSolver(leading_block(moments, _GUESS_SIZE))
    ratios = [maximize_evidence(guess, target, fixed[target])[0].ratio for target in targets]
    del guess
    if len(moments.phi_sum) <= _LARGE:
        return [maximize_evidence(solver, target, fixed[target], ratios[target]) for target in targets]
    return _approach(solver, fixed, [Peak(math.log(ratio)) for ratio in ratios])


def _approach(
    solver: CholeskySolver, fixed: list[Fixed], peaks: list[Peak]
) -> list[tuple[Hyperparameters, bool]]:
    """Find the peaks for a quarter, half, and all of the features, each starting from the one before."""
    moments = solver.moments
    # All features come last: factorizing them overwrites the diagonal, which the blocks need.
    for size in (len(moments.phi_sum) // 4, len(moments.phi_sum) // 2):
        block_solver = CholeskySolver(leading_block(moments, size))
        peaks = [
            approach_evidence(block_solver, target, fixed[target], peak)[2]
            for target, peak in enumerate(peaks)
        ]
        del block_solver
    return [approach_evidence(solver, target, fixed[target], peak)[:2] for target, peak in enumerate(peaks)]


def check_positive(name: str, value: float) -> None:
    """Raise InputError if a signal or noise variance is not positive and finite."""
    if not (value > 0.0 and math.isfinite(value)):
        raise InputError(
            f"{name} must be positive and finite, not {value}: leave it out to have it estimated."
        )


def check_given(n_targets: int | None, **fixed: FixedValue) -> None:
    """Raise InputError if a given mean or variance is invalid for the number of targets, if that is known."""
    for name, value in fixed.items():
        if value is None:
            continue
        values = np.asarray(value, dtype=np.float64)
        n = values.size if n_targets is None else n_targets
        if values.shape not in ((), (n,)) or not np.isfinite(values).all():
            raise InputError(
                f"{name} must be one finite number, or one for each of "
                f"{'the' if n_targets is None else n_targets} targets."
            )
        if name != "mean":
            for number in values.flat:
                check_positive(name, float(number))


def _fixed(
    moments: Moments, target: int, mean: FixedValue, signal_variance: FixedValue, noise_variance: FixedValue
) -> Fixed:
    """Return the fixed values for one target, with the mean relative to the shift of the moments."""
    n_targets = len(moments.yy)
    m = _fixed_value(mean, "mean", target, n_targets)
    a = _fixed_value(signal_variance, "signal_variance", target, n_targets)
    s = _fixed_value(noise_variance, "noise_variance", target, n_targets)
    return Fixed(None if m is None else m - float(moments.shift[target]), a, s)


def _fixed_value(value: FixedValue, name: str, target: int, n_targets: int) -> float | None:
    """Return the value that the user fixed for one target, or None."""
    if value is None:
        return None
    check_given(n_targets, **{name: value})
    return fixed_value(value, target)


def fixed_value(value: FixedValue, target: int) -> float | None:
    """Return the entry of one target of a checked hyperparameter, or None."""
    if value is None:
        return None
    values = np.asarray(value, dtype=np.float64)
    return float(values if values.ndim == 0 else values[target])


def check_variance(moments: Moments, target: int) -> None:
    """Raise InputError if the labels of a target do not differ by more than rounding."""
    variance = moments.yy[target] - moments.y_sum[target] ** 2 / moments.n
    error = float(moments.yy_error[target])
    if moments.n == 1:
        raise InputError(ONE_LABEL)
    if variance <= error:
        raise InputError(
            f"y of target {target} has no variance over {moments.n} rows, to within rounding of their "
            f"sums ({moments.shift[target]:.6g} give or take {math.sqrt(error / moments.n):.1g}): "
            "give labels that differ, subtract a constant from y, or fix both variances."
        )


def solved_weights(
    moments: Moments,
    fitted: list[Hyperparameters],
    factor: ShiftedCholesky | None = None,
    *,
    claimed: bool = True,
) -> tuple[Array, float]:
    """Return (Phi^T Phi + ratio I)^-1 Phi^T (y - mean) of each target, and the largest jitter it needed.

    `factor` already owns the Gram matrix; without it, the Gram matrix is overwritten here. With `claimed`,
    check that `fitted` maximizes the evidence of these moments.

    Raises
    ------
    CoarseSumsError
        If rounding of the sums could have affected the fit: see `daskrf.gp.solve.roundoff`.
    InputError
        If the weights contradict the evidence.
    """
    few = few_rows(moments.n, len(moments.phi_sum))
    solver: LowRankGram | ShiftedCholesky
    if factor is not None:
        solver = factor
    else:
        solver = LowRankGram(moments.gram, moments.n) if few else ShiftedCholesky(moments.gram)
    weights, jitter = np.empty((len(moments.phi_sum), len(fitted))), 0.0
    for t, h in enumerate(fitted):
        right = moments.phi_y[:, t] - h.mean * moments.phi_sum
        weights[:, t] = solver.factorize(h.ratio).solve(right[:, None])[:, 0]
        jitter = max(jitter, solver.jitter)
        check_rounding(moments, solver, weights[:, t], h.noise_variance, t)
        if claimed:
            squares = float(moments.yy[t]) - 2 * h.mean * float(moments.y_sum[t]) + moments.n * h.mean**2
            form = (squares - float(right @ weights[:, t])) / h.ratio
            again = _log_evidence(moments, h.signal_variance, h.ratio, solver.log_det(), form)
            check_claim(h.log_marginal_likelihood, again, moments.n)
    return weights, jitter


def _log_evidence(
    moments: Moments, signal_variance: float, ratio: float, log_det: float, form: float
) -> float:
    """Return log p(y), or Titsias' bound on it, from log det A and r^T C^-1 r."""
    log_det += (moments.n - len(moments.phi_sum)) * math.log(ratio)
    value = -0.5 * (moments.n * math.log(2 * math.pi * signal_variance) + log_det + form / signal_variance)
    return value - 0.5 * moments.deficit / ratio


def profile(solver: Solver, ratio: float, target: int, fixed: Fixed) -> Hyperparameters:
    """Return the optimal hyperparameters of one target for given lambda, with their evidence."""
    m, q = solver.moments, solver.quadratics(ratio)
    mean = fixed.mean
    if mean is None:
        mean = float(q.one_y[target]) / q.one_one if q.one_one > solver.resolved * m.n else 0.0
    form = float(q.y_y[target]) - 2 * mean * float(q.one_y[target]) + mean**2 * q.one_one
    # In case rounding leaves no residual: a floor far below the residual at any lambda in range.
    spread = float(m.yy[target]) + m.n * mean**2
    form = max(form / ratio, 1e-300, 1e-15 * spread / m.trace if m.trace > 0 else 0.0)
    if fixed.signal_variance is not None:
        signal_variance = fixed.signal_variance
    elif fixed.noise_variance is not None:
        signal_variance = fixed.noise_variance / ratio
    else:
        signal_variance = form / m.n
    return Hyperparameters(
        mean, signal_variance, ratio, _log_evidence(m, signal_variance, ratio, q.log_det, form)
    )


def log_likelihood(
    solver: Solver,
    mean: float,
    signal_variance: float,
    noise_variance: float,
    target: int = 0,
    *,
    gradient: bool = False,
) -> tuple[float, Array]:
    """Return the log marginal likelihood and its gradient in (mean, signal_variance, noise_variance).

    The mean is relative to ``solver.moments.shift``. Without `gradient` the second value is empty.
    """
    m, ratio = solver.moments, noise_variance / signal_variance
    value = profile(
        solver, ratio, target, Fixed(mean, signal_variance, noise_variance)
    ).log_marginal_likelihood
    if not gradient:
        return value, np.empty(0)
    q = solver.quadratics(ratio)
    trace, squared = solver.curvature(ratio, mean, target)
    form = (float(q.y_y[target]) - 2 * mean * float(q.one_y[target]) + mean**2 * q.one_one) / ratio
    trace_c = (m.n - len(m.phi_sum)) / ratio + trace  # tr C^-1
    squared /= ratio**2  # r^T C^-2 r
    by_mean = (float(q.one_y[target]) - mean * q.one_one) / noise_variance
    # Divided twice: the square of the variance of large y would overflow.
    by_signal_variance = (
        0.5 * ((form - ratio * squared) / signal_variance - (m.n - ratio * trace_c)) / signal_variance
    )
    by_noise_variance = 0.5 * (squared / signal_variance - trace_c) / signal_variance
    by_signal_variance -= 0.5 * m.deficit / noise_variance
    by_noise_variance += 0.5 * m.deficit / (noise_variance * ratio)
    return value, np.array([by_mean, by_signal_variance, by_noise_variance])


def maximize_evidence(
    solver: Solver, target: int, fixed: Fixed, start: float | None = None, doubt: float = 0.0
) -> tuple[Hyperparameters, bool]:
    """Maximize the evidence of one target, times exp(-doubt / lambda), over the values that are not fixed.

    Parameters
    ----------
    solver : Solver
    target : int
    fixed : Fixed
    start : float, optional
        Initial guess of lambda. Without it the whole range is scanned: expensive for a CholeskySolver.
    doubt : float
        Not with `start`. The evidence of few labels, or of duplicates, may grow without limit as lambda
        falls to 0; the product does not.

    Returns
    -------
    Hyperparameters, and whether the evidence alone takes lambda to an end of its range (the data show no
    noise, or no signal).
    """
    if fixed.signal_variance is not None and fixed.noise_variance is not None:
        return profile(solver, fixed.noise_variance / fixed.signal_variance, target, fixed), False
    low, high = _search_range(solver, target, fixed)
    if solver.moments.trace == 0:  # features are all 0: every lambda fits equally well
        return profile(solver, math.exp(high), target, fixed), True

    def loss(x: float) -> float:
        # Rounded, so that a solver recognizes a point that it has already evaluated.
        ratio = math.exp(round(x, 12))
        return doubt / ratio - profile(solver, ratio, target, fixed).log_marginal_likelihood

    at_bound = False
    if start is None:
        grid = np.linspace(low, high, 257)
        losses = np.array([loss(x) for x in grid])
        at_bound = int(np.argmin(losses - doubt / np.exp(grid))) in (0, len(grid) - 1)
        best = int(np.argmin(losses))
        points = (grid[max(best - 1, 0)], grid[best], grid[min(best + 1, len(grid) - 1)])
        tolerance = 1e-9
    else:
        points = _bracket(loss, math.log(start), low, high)
        tolerance = 1e-4
    if not points[0] < points[1] < points[2]:
        return profile(solver, math.exp(points[1]), target, fixed), True
    x = _brent(loss, points, tolerance)
    return profile(solver, math.exp(round(x, 12)), target, fixed), at_bound


@dataclass(frozen=True)
class Peak:
    """Log lambda at the maximum of the evidence, and -d^2 log p(y) / d(log lambda)^2 there, if known."""

    x: float
    curvature: float | None = None


def approach_evidence(
    solver: Solver, target: int, fixed: Fixed, start: Peak
) -> tuple[Hyperparameters, bool, Peak]:
    """Maximize the evidence like `maximize_evidence`, but in as few steps as possible.

    Meant for so many features that a step takes minutes. Each step goes to the top of a parabola through the
    known points, at first with the curvature at `start` from fewer features. The search ends when the next
    step would gain less than 0.005 in log p(y): lambda is then found to about a tenth of its uncertainty.

    Returns
    -------
    As `maximize_evidence`, and the peak.
    """
    both_fixed = fixed.signal_variance is not None and fixed.noise_variance is not None
    peak = None if both_fixed or solver.moments.trace == 0 else _find_peak(solver, target, fixed, start)
    if peak is None:
        optimum, at_bound = maximize_evidence(solver, target, fixed, math.exp(start.x))
        return optimum, at_bound, Peak(math.log(optimum.ratio))
    return profile(solver, math.exp(peak.x), target, fixed), False, peak


def _find_peak(solver: Solver, target: int, fixed: Fixed, start: Peak) -> Peak | None:
    """Return the top of the parabola, or None if the evidence is flat or not parabolic."""
    low, high = _search_range(solver, target, fixed)
    values: dict[float, float] = {}
    x, curvature = round(start.x, 12), start.curvature  # rounded as in `maximize_evidence`
    first = x
    for step in range(8):
        if not low < x < high:
            return None
        values[x] = profile(solver, math.exp(x), target, fixed).log_marginal_likelihood
        best = max(values, key=values.__getitem__)
        if step == 0:
            x = round(x - 0.1, 12)
            continue
        (x0, y0), (x1, y1), *rest = sorted(values.items(), key=lambda point: abs(point[0] - best))
        slope = (y1 - y0) / (x1 - x0)
        if rest:
            x2, y2 = rest[0]
            curvature = 2 * (slope - (y2 - y0) / (x2 - x0)) / (x2 - x1)
        if curvature is None:
            x = round(best + (0.1 if best == first else -0.1), 12)
            continue
        if curvature < 10:  # log lambda is uncertain by 0.3 or more: no signal, or no noise
            return None
        top = round(0.5 * (x0 + x1) + slope / curvature, 12)
        # With the curvature of fewer features, or distant points, the top of the parabola may be far off.
        if rest and abs(x1 - x0) < 0.3 and 0.5 * curvature * (top - best) ** 2 < 0.005:
            return Peak(best, curvature)
        x = min(max(top, best - 1.0), best + 1.0)
    return None


def _search_range(solver: Solver, target: int, fixed: Fixed) -> tuple[float, float]:
    """Return the range of log lambda: from a small fraction of the mean of |phi|^2 to 1e4 times its sum."""
    m = solver.moments
    mean = 0.0 if fixed.mean is None else fixed.mean
    trace = m.trace if m.trace > 0 else float(m.n)
    spread = max(float(m.yy[target]) / m.n + mean**2, 1e-300)
    low, high = solver.smallest * trace / m.n, 1e4 * trace
    if fixed.signal_variance is not None:
        high = max(high, 10 * spread / fixed.signal_variance)
    if fixed.noise_variance is not None:
        low = min(low, 1e-6 * fixed.noise_variance / spread)
        high = max(high, 1e6 * fixed.noise_variance / spread)
    return math.log(low), math.log(high)


def _bracket(
    loss: Callable[[float], float], start: float, low: float, high: float
) -> tuple[float, float, float]:
    """Go downhill from `start` in growing steps until the loss rises, or an end of the range is the best."""
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
    # The last step to the end was long: the minimum may lie inside it.
    while abs(middle - left) > 0.05:
        inner = 0.5 * (left + middle)
        if loss(inner) < loss(middle):
            return (left, inner, middle) if sign > 0 else (middle, inner, left)
        left = inner
    return (middle, middle, middle)


def _brent(loss: Callable[[float], float], points: tuple[float, float, float], tolerance: float) -> float:
    """Minimize within a bracket; SciPy's tolerance is relative to the variable, so shift that to 10."""
    if not loss(points[1]) < min(loss(points[0]), loss(points[2])):
        return points[1]  # flat to the last bit
    centre = points[1] - 10.0
    bracket = tuple(p - centre for p in points)
    result = minimize_scalar(
        lambda u: loss(u + centre), bracket=bracket, method="brent", options={"xtol": tolerance}
    )
    return float(result.x) + centre
