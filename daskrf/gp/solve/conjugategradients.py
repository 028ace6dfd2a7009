"""Preconditioned block conjugate gradients: many right-hand sides of one matrix at once.

All right-hand sides of a block share their search directions, so each solution is the best in the sum of all
their Krylov spaces. This takes fewer products with the matrix than solving for each alone (O'Leary 1980).
Directions are made orthonormal, and those that depend on others are dropped (Ji & Li 2017).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from daskrf.blas import ONE_BLAS_THREAD
from daskrf.gp.solve.solvers import NotPositiveError

Single = npt.NDArray[np.float32]
Double = npt.NDArray[np.float64]
Operator = Callable[[Single], Single]
Product = Callable[[npt.NDArray[np.floating]], npt.NDArray[np.floating]]

_SAFETY = 0.8  # times the tolerance: rounding makes the true residual slightly larger than the updated one
_BLOCK = 64  # right-hand sides that share directions: sharing among more costs more than it saves
_ROWS = 1024  # rows summed in single precision
_MANY_ROWS = 8192
_ROUNDING = 1e-5  # of the norm of A: rounding alone may make v . A v this negative for |v| = 1
_DEPENDENT = 1e-5  # of the largest eigenvalue of normalized directions: below, one depends on the others
_TINY = float(np.finfo(np.float32).tiny)


class Solution(NamedTuple):
    """The solution and its residuals.

    `residuals` are |b - A x| / |b| for each column, with b - A x recomputed at the end.
    """

    x: Double
    residuals: Double
    n_iterations: int


def solve(
    multiply: Product,
    right: Single,
    precondition: Operator,
    *,
    start: Single | None = None,
    tolerance: float,
    max_iterations: int,
) -> Solution:
    """Solve A x = b for each column b of `right`, A symmetric and positive definite.

    Parameters
    ----------
    multiply : callable
        Returns A times vectors of shape (n, m), float32, or float64 where residuals are computed.
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
    return BlockSystem(multiply, precondition, right, start=start).solve(tolerance, max_iterations)


class BlockSystem:
    """(K + ratio I) x = b for each column b of `right`; the solution can be improved, and the system changed.

    Vectors are float32. The solution, inner products, and numbers computed from them are float64.

    Parameters
    ----------
    multiply : callable
        Returns K times vectors of shape (n, any), float32, or float64 where residuals are computed.
    precondition : callable
        Returns an approximation of (K + ratio I)^-1 times vectors; it may change with the ratio.
    right : float32 array, shape (n, m)
    ratio : float
    start : float32 array, shape (n, m), optional
        An initial guess.

    Attributes
    ----------
    x : float64 array, shape (n, m)
    """

    def __init__(
        self,
        multiply: Product,
        precondition: Operator,
        right: Single,
        ratio: float = 0.0,
        *,
        start: Single | None = None,
    ) -> None:
        self.x = np.zeros(right.shape) if start is None else start.astype(np.float64)
        self._multiply, self._precondition = multiply, precondition
        self._right, self._ratio = right, ratio
        self._residual = right.copy() if start is None else None
        self._true = True  # the residual has not drifted by rounding
        blocks = [slice(first, first + _BLOCK) for first in range(0, right.shape[1], _BLOCK)]
        self._blocks = [_Block(columns) for columns in blocks]

    def move(self, right: Single, ratio: float) -> None:
        """Replace the right-hand sides and the ratio; takes no product, and directions stay useful."""
        shift = np.float32(ratio - self._ratio)
        if self._residual is not None:
            self._residual += right - self._right
            self._residual -= shift * self.x.astype(np.float32)
        for block in self._blocks:
            block.move(shift)
        self._right, self._ratio, self._true = right, ratio, False

    def solve(self, tolerance: float | Double, max_products: int, *, check: bool = True) -> Solution:
        """Improve the solution until the residual of each column is at most its tolerance.

        Through rounding the updated residual drifts away from the true one. With `check`, the latter is
        computed at the end, and if it exceeds the tolerance, the iteration goes on from there.

        Raises
        ------
        NotPositiveError
            If v . A v is negative for a direction v.
        """
        norms = np.maximum(_norms(self._right), _TINY)
        n, before, reserved = 0, np.inf, int(check)  # reserved: the product for the residual at the end
        if self._residual is None:
            self._residual, n = self._true_residual(), 1
        while True:
            relative = _norms(self._residual) / norms
            excess = float((relative / tolerance).max(initial=0.0))
            # Rounding may keep it from falling further.
            ended = excess <= 1 or excess > 0.5 * before or n + reserved >= max_products
            if ended and (self._true or not check):
                return Solution(self.x, relative, n)
            if not ended:
                before, self._true = excess if self._true else np.inf, False
                n += self._improve(self._residual, _SAFETY * tolerance * norms, max_products - n - reserved)
            if check:
                self._residual, self._true = self._true_residual(), True
                n += 1

    def _improve(self, residual: Single, targets: Double, max_products: int) -> int:
        """Improve x and its residual until the norms are at most `targets`; return the number of products."""
        # In products of small matrices more threads would only wait for each other; limiting them takes 1 ms.
        alone = ONE_BLAS_THREAD if len(residual) >= _MANY_ROWS else contextlib.nullcontext()
        for n in range(1, max_products + 1):
            z = self._precondition(residual)
            with alone:
                ends = np.cumsum([block.turn(z) for block in self._blocks])
            products = self._times(np.hstack([block.directions for block in self._blocks]))
            with alone:
                for block, product in zip(self._blocks, np.split(products, ends[:-1], axis=1), strict=True):
                    block.step(np.ascontiguousarray(product), self.x, residual)
            if (_norms(residual) <= targets).all():
                return n
        return max_products

    def _true_residual(self) -> Single:
        """Return b - A x, summed in double precision: the terms may be far larger than the sum."""
        residual = self._right - self._multiply(self.x)
        if self._ratio:
            residual -= self._ratio * self.x
        return residual.astype(np.float32)

    def _times(self, vectors: Single) -> Single:
        product = self._multiply(np.ascontiguousarray(vectors))
        return product + np.float32(self._ratio) * vectors if self._ratio else product


class _Block:
    """The directions of some right-hand sides, and their products with A."""

    def __init__(self, columns: slice) -> None:
        self.columns = columns
        self.directions: Single = np.empty((0, 0), np.float32)
        self._products: Single = np.empty((0, 0), np.float32)
        self._norm = 0.0  # a lower bound of the norm of A

    def move(self, shift: np.float32) -> None:
        """Turn A into A + shift I."""
        self._products += shift * self.directions

    def turn(self, preconditioned: Single) -> int:
        """Make new directions, conjugate to the last ones; return how many there are."""
        new = np.array(preconditioned[:, self.columns], order="C")
        if self.directions.size:
            new -= self.directions @ self._weights(_dots(self._products, new))
        self.directions = _orthonormal(new)
        return self.directions.shape[1]

    def step(self, products: Single, x: Double, residual: Single) -> None:
        """Move x to the best solution in the space of x and the directions."""
        self._products = products
        if self.directions.size:
            weights = self._weights(_dots(self.directions, residual[:, self.columns]))
            x[:, self.columns] += self.directions @ weights
            residual[:, self.columns] -= products @ weights

    def _weights(self, right: Double) -> Single:
        """Solve (P^T A P) w = right; directions of no curvature get none."""
        curvature = _dots(self.directions, self._products)
        squares = np.einsum("ij,ij->j", self._products, self._products, dtype=np.float64)
        self._norm = max(self._norm, float(np.sqrt(squares.max())))
        values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
        if values[0] < -_ROUNDING * self._norm:
            raise NotPositiveError
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > 0)
        weights: Single = (vectors @ (inverse[:, None] * (vectors.T @ right))).astype(np.float32)
        return weights


def _orthonormal(vectors: Single) -> Single:
    """Return orthonormal vectors that span the same space, without those that depend on others."""
    for _ in range(2):  # after the first time, rounding leaves them a little askew
        gram = _dots(vectors, vectors)
        there = np.flatnonzero(gram.diagonal() > 0)
        lengths = np.sqrt(gram.diagonal()[there])
        values, axes = np.linalg.eigh(gram[np.ix_(there, there)] / np.outer(lengths, lengths))
        independent = values > _DEPENDENT * values.max(initial=0.0)
        turned = axes[:, independent] / np.sqrt(values[independent]) / lengths[:, None]
        vectors = vectors[:, there] @ turned.astype(np.float32)
    return vectors


def _dots(a: Single, b: Single) -> Double:
    """Return a^T b, accumulated in double precision over blocks of rows."""
    total = np.zeros((a.shape[1], b.shape[1]))
    for start in range(0, len(a), _ROWS):
        rows = slice(start, start + _ROWS)
        total += a[rows].T @ b[rows]
    return total


def _norms(a: Single) -> Double:
    """Return the lengths of columns, accumulated in double precision over blocks of rows."""
    total = np.zeros(a.shape[1])
    for start in range(0, len(a), _ROWS):
        rows = slice(start, start + _ROWS)
        total += np.einsum("ij,ij->j", a[rows], a[rows])
    return np.sqrt(total)
