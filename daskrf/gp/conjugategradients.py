"""Preconditioned conjugate gradients for many right-hand sides at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from daskrf.gp.solvers import NotPositiveError

__all__ = ["Solution", "solve"]

Single = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]
Operator = Callable[[Single], Single]

_SAFETY = 0.8  # times the tolerance: rounding makes the true residual slightly larger than the updated one
_ROWS = 1024  # rows summed in single precision
_ROUNDING = 1e-6  # of the norm of A: v . A v / v . v may be as negative by rounding alone
_TINY = float(np.finfo(np.float32).tiny)


class Solution(NamedTuple):
    """The solution and its residuals.

    `residuals` are |b - A x| / |b| for each column, with b - A x recomputed at the end.
    """

    x: Single
    residuals: npt.NDArray[np.float64]
    n_iterations: int


def solve(
    multiply: Operator,
    right: Single,
    precondition: Operator,
    *,
    start: Single | None = None,
    tolerance: float,
    max_iterations: int,
) -> Solution:
    """Solve A x = b for each column b of `right`, A symmetric and positive definite.

    Columns have their own step lengths but share the products with A, which dominate the cost. Vectors are
    float32, step lengths float64. Through rounding the updated residual drifts away from the true one: if the
    true residual exceeds the tolerance at the end, the iteration is restarted from x.

    Parameters
    ----------
    multiply : callable
        Returns A times vectors, float32 of shape (n, m).
    right : float32 array, shape (n, m)
    precondition : callable
        Returns an approximation of A^-1, symmetric and positive definite, times vectors.
    start : float32 array, shape (n, m), optional
        An initial guess.
    tolerance : float
        Largest residual of each column, relative to |b|.
    max_iterations : int
        Largest number of products with A, including those for residuals.

    Raises
    ------
    NotPositiveError
        If v . A v is negative for a direction v.

    Examples
    --------
    >>> a = np.diag(np.array([1.0, 4.0], np.float32))
    >>> found = solve(lambda v: a @ v, np.ones((2, 1), np.float32), lambda v: v,
    ...     tolerance=1e-5, max_iterations=9)
    >>> found.x.round(4).ravel().tolist(), found.n_iterations
    ([1.0, 0.25], 3)
    """
    norms = np.maximum(_norms(right), _TINY)
    x = np.zeros_like(right) if start is None else start.copy()
    residual = right.copy() if start is None else right - multiply(x)
    found, before = _norms(residual) / norms, np.inf
    n = int(start is not None)
    while found.max(initial=0.0) > tolerance and n + 1 < max_iterations:  # the last is for the residual
        if found.max() > 0.5 * before:
            break  # rounding keeps it from falling further
        before = found.max()
        n += _iterate(
            multiply, precondition, x, residual, _SAFETY * tolerance * norms, max_iterations - n - 1
        )
        residual = right - multiply(x)
        found = _norms(residual) / norms
        n += 1
    return Solution(x, found, n)


def _iterate(
    multiply: Operator,
    precondition: Operator,
    x: Single,
    residual: Single,
    targets: Double,
    max_iterations: int,
) -> int:
    """Improve x in place until residual norms are at most `targets`; return the number of products."""
    z = precondition(residual)
    direction = z.copy()
    energy = _dots(residual, z)
    norm = 0.0  # of A, at least
    for n in range(1, max_iterations + 1):
        product = multiply(direction)
        curvature, squares = _dots(direction, product), np.maximum(_dots(direction, direction), _TINY)
        norm = max(norm, float(np.sqrt(_dots(product, product) / squares).max()))
        if (curvature < -_ROUNDING * norm * squares).any():
            raise NotPositiveError
        step = _quotient(energy, curvature)
        x += step * direction
        residual -= step * product
        if (_norms(residual) <= targets).all():
            return n
        z = precondition(residual)
        new = _dots(residual, z)
        direction *= _quotient(new, energy)
        direction += z
        energy = new
    return max_iterations


def _dots(a: Single, b: Single) -> Double:
    """Return the inner products of columns, accumulated in double precision over blocks of rows."""
    total = np.zeros(a.shape[1])
    for start in range(0, len(a), _ROWS):
        rows = slice(start, start + _ROWS)
        total += np.einsum("ij,ij->j", a[rows], b[rows])
    return total


def _norms(a: Single) -> Double:
    return np.sqrt(_dots(a, a))


def _quotient(a: Double, b: Double) -> Single:
    """Return a / b, or 0 for a column that is already solved."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0).astype(np.float32)
