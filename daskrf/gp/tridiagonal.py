"""The evidence of an exact Gaussian process through K = Q T Q^T, T tridiagonal: O(n) for every further step.

Reducing K to tridiagonal form costs 4/3 n^3 multiply-adds, in the memory of K. With the rotated vectors
Q^T 1 and Q^T y, each value of the log marginal likelihood and its gradient is then one tridiagonal solve and
one sum over the eigenvalues, where a Cholesky factorization and inversion would cost 2/3 n^3 a step. The
eigenvectors, which cost two thirds of an eigendecomposition, are never needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigvalsh_tridiagonal, lapack
from scipy.optimize import minimize

__all__ = ["Found", "TridiagonalEvidence"]

_GRID = 97
_STARTS = 3
_SMALLEST = 1e-9  # of noise / amplitude, relative to the mean of k(x, x): below, rounding of K decides

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Found:
    """Hyperparameters of largest evidence; `at_bound`: noise / amplitude ran into an end of its range."""

    mean: float
    amplitude: float
    noise: float
    at_bound: bool


class TridiagonalEvidence:
    """log p(y) of y = mean + f + noise, f ~ GP(0, amplitude k), for any hyperparameters.

    Parameters
    ----------
    kernel_matrix : float64 array, shape (n, n), C order
        K in its lower triangle, which is overwritten, diagonal included.
    y : float64 array, shape (n,)

    Notes
    -----
    Source: Rasmussen & Williams 2006, eqs. 5.8 and 5.9; Golub & Van Loan 2013, section 8.3.1.
    """

    def __init__(self, kernel_matrix: Array, y: Array) -> None:
        self.n = len(y)
        self.shift = float(y.mean())
        self.scale = float(y.std())
        self.trace = float(kernel_matrix.trace())
        self._diagonal, self._off_diagonal, tau = _reduce(kernel_matrix)
        rotated = np.stack([np.ones(self.n), y - self.shift])
        # Householder vector i lies in row i + 1, and has a 1 behind it; the last one comes first.
        for i in range(self.n - 2, -1, -1):
            vector, part = kernel_matrix[i + 1, : i + 1], rotated[:, : i + 1]
            vector[i] = 1.0
            part -= tau[i] * (part @ vector)[:, None] * vector
        self._one, self._y = rotated
        values = self._diagonal
        if self.n > 1:
            values = eigvalsh_tridiagonal(self._diagonal, self._off_diagonal, lapack_driver="sterf")
        self._values = np.maximum(values, 0.0)

    def value(self, mean: float, amplitude: float, noise: float) -> tuple[float, Array]:
        """Return log p(y) and its gradient in (mean, amplitude, noise)."""
        residual = self._y - (mean - self.shift) * self._one
        alpha = self._solve(amplitude, noise, residual)
        values = amplitude * self._values + noise
        form, squares = float(residual @ alpha), float(alpha @ alpha)
        log_det, trace = float(np.log(values).sum()), float((1.0 / values).sum())
        value = -0.5 * (form + log_det + self.n * math.log(2 * math.pi))
        by_amplitude = 0.5 * ((form - noise * squares) - (self.n - noise * trace)) / amplitude
        return value, np.array([float(self._one @ alpha), by_amplitude, 0.5 * (squares - trace)])

    def maximize(self, mean: float | None, amplitude: float | None, noise: float | None) -> Found:
        """Return the best hyperparameters; those given stay fixed, amplitude and noise not both.

        A grid over noise / amplitude, at each point of which mean and amplitude are known in closed form,
        gives the starts (its best local maxima); L-BFGS with the analytic gradient finishes them.
        """
        low, high = self._range(mean, amplitude, noise)
        grid = np.linspace(low, high, _GRID)
        profiles = [self._profile(float(x), mean, amplitude, noise) for x in grid]
        heights = np.array([profile[-1] for profile in profiles])
        padded = np.concatenate([[-np.inf], heights, [-np.inf]])
        peaks = np.flatnonzero((heights >= padded[:-2]) & (heights >= padded[2:]))
        starts = peaks[np.argsort(-heights[peaks], kind="stable")][:_STARTS]
        best, height = None, -np.inf
        for start in starts:
            x, value = self._climb(float(grid[start]), profiles[start], (mean, amplitude, noise), low, high)
            if best is None or value > height:
                best, height = x, value
        assert best is not None
        m, a, s = best
        edge = math.log(s / a)
        return Found(m, a, s, bool(min(edge - low, high - edge) < 1e-6))

    def _climb(
        self,
        log_ratio: float,
        start: tuple[float, float, float, float],
        given: tuple[float | None, float | None, float | None],
        low: float,
        high: float,
    ) -> tuple[tuple[float, float, float], float]:
        """Run L-BFGS from one start, over log(noise / amplitude), the mean and log amplitude where free."""
        fixed_mean, fixed_amplitude, fixed_noise = given
        free_mean = fixed_mean is None
        free_amplitude = fixed_amplitude is None and fixed_noise is None
        unit = self.scale if self.scale > 0 else 1.0

        def unpack(x: Array) -> tuple[float, float, float]:
            ratio = math.exp(x[0])
            mean = self.shift + unit * float(x[1]) if fixed_mean is None else fixed_mean
            if fixed_noise is not None:
                return mean, fixed_noise / ratio, fixed_noise
            amplitude = math.exp(x[-1]) if fixed_amplitude is None else fixed_amplitude
            return mean, amplitude, amplitude * ratio

        def loss(x: Array) -> tuple[float, Array]:
            mean, amplitude, noise = unpack(x)
            value, (by_mean, by_amplitude, by_noise) = self.value(mean, amplitude, noise)
            gradient = [noise * by_noise if fixed_noise is None else -amplitude * by_amplitude]
            gradient += [unit * by_mean] if free_mean else []
            gradient += [amplitude * by_amplitude + noise * by_noise] if free_amplitude else []
            return -value / self.n, -np.array(gradient) / self.n

        m, a, _, height = start
        x0 = [log_ratio, *([(m - self.shift) / unit] if free_mean else [])]
        x0 += [math.log(a)] if free_amplitude else []
        found = minimize(
            loss,
            np.array(x0),
            jac=True,
            method="L-BFGS-B",
            bounds=[(low, high)] + [(None, None)] * (len(x0) - 1),
            options={"maxiter": 300, "ftol": 1e-15, "gtol": 1e-10},
        )
        if -found.fun * self.n >= height:
            return unpack(found.x), -float(found.fun) * self.n
        return unpack(np.array(x0)), height

    def _profile(
        self, log_ratio: float, mean: float | None, amplitude: float | None, noise: float | None
    ) -> tuple[float, float, float, float]:
        """Return mean, amplitude, noise and evidence, the free ones at their best for this ratio."""
        ratio = math.exp(log_ratio)
        solved = self._solve(1.0, ratio, np.column_stack([self._one, self._y]))
        one_one, one_y, y_y = self._one @ solved[:, 0], self._one @ solved[:, 1], self._y @ solved[:, 1]
        m = (float(one_y / one_one) if one_one > 0 else 0.0) if mean is None else mean - self.shift
        form = max(float(y_y - 2 * m * one_y + m * m * one_one), 1e-300)
        a = amplitude if amplitude is not None else form / self.n if noise is None else noise / ratio
        log_det = float(np.log(self._values + ratio).sum())
        value = -0.5 * (self.n * math.log(2 * math.pi * a) + log_det + form / a)
        return m + self.shift, a, a * ratio, value

    def _range(self, mean: float | None, amplitude: float | None, noise: float | None) -> tuple[float, float]:
        """Return the ends of log(noise / amplitude): K but for its rounding, and hardly anything of K."""
        trace = self.trace if self.trace > 0 else float(self.n)
        spread = max(self.scale**2 + (0.0 if mean is None else (mean - self.shift) ** 2), 1e-300)
        low, high = _SMALLEST * trace / self.n, 1e4 * trace
        if amplitude is not None:
            high = max(high, 10 * spread / amplitude)
        if noise is not None:
            high = max(high, 1e6 * noise / spread)
        return math.log(low), math.log(high)

    def _solve(self, amplitude: float, noise: float, right: Array) -> Array:
        """Return (amplitude T + noise I)^-1 right."""
        diagonal = amplitude * self._diagonal + noise
        if self.n == 1:
            return right / diagonal[0]
        _, _, solved, info = lapack.dptsv(diagonal, amplitude * self._off_diagonal, right)
        if info != 0:  # noise below the rounding of T, as only a given value can be
            solved = lapack.dgtsv(
                amplitude * self._off_diagonal, diagonal, amplitude * self._off_diagonal, right
            )[3]
        return solved


def _reduce(matrix: Array) -> tuple[Array, Array, Array]:
    """Return the diagonal and off-diagonal of T, and the factors of the Householder vectors, in place."""
    n = len(matrix)
    if n == 1:
        return matrix.diagonal().copy(), np.empty(0), np.empty(0)
    # The lower triangle in C order is the upper one in LAPACK's Fortran order.
    workspace = int(lapack.dsytrd_lwork(n, lower=0)[0].real)
    _, diagonal, off_diagonal, tau, info = lapack.dsytrd(
        matrix.T, lower=0, lwork=max(workspace, n), overwrite_a=1
    )
    assert info == 0
    return diagonal, off_diagonal, tau
