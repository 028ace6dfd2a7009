"""Quadratic forms of a Gaussian process for any lambda = noise_variance / signal_variance.

With features they come from A = Phi^T Phi + lambda I, by one Cholesky factorization per lambda or one
eigendecomposition for all. With an exact kernel they come from K + lambda I, by one reduction K = Q T Q^T to
a tridiagonal T, which costs 4/3 n^3 multiply-adds and no memory besides K, and then O(n) per lambda.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh, eigvalsh_tridiagonal, lapack

from daskrf.errors import InputError
from daskrf.gp.sums.statistics import Moments

Array = npt.NDArray[np.float64]

_TILE = 1024
_WHOLE, _BLOCK = 16_384, 4096  # most rows that LAPACK factorizes at once, and rows of a block for more
_SMALL = 256  # features, up to which matrices in the space of rows save nothing
_LARGEST_EIGEN = 32_766  # M with 1 + 6 M + 2 M^2 < 2^31, the workspace of divide and conquer


@dataclass(frozen=True)
class Quadratics:
    """log det A and the forms lambda u^T C^-1 v for u, v among 1 and the columns of y - shift."""

    ratio: float
    log_det: float
    one_one: float
    one_y: Array
    y_y: Array


class Solver(Protocol):
    """The quadratic forms, for any lambda, that the evidence needs."""

    moments: Moments
    smallest: float  # smallest lambda of the search, relative to the mean of k(x, x)
    resolved: float  # fraction of n above which 1^T lambda C^-1 1 exceeds rounding

    def loses_digits(self, ratio: float) -> bool: ...

    def quadratics(self, ratio: float) -> Quadratics: ...

    def curvature(self, ratio: float, mean: float, target: int) -> tuple[float, float]: ...


class NotPositiveError(InputError):
    """A matrix is not positive definite, even with jitter; the default message is for a kernel matrix."""

    def __init__(
        self,
        message: str = "the kernel matrix of the rows is not positive semi-definite: take a positive "
        "definite kernel.",
    ) -> None:
        super().__init__(message)


class ShiftedCholesky:
    """Cholesky factors of G + shift I.

    The upper triangle of the work matrix always holds G; each factor overwrites the lower triangle, so
    one M x M float64 matrix is enough for all shifts.

    Parameters
    ----------
    gram : float64 array, shape (M, M), C order
        G in its upper triangle. The matrix is used as workspace: its lower triangle is overwritten.

    Attributes
    ----------
    shift : float
        Shift of the current factor.
    jitter : float
        What had to be added to the shift for the factorization to succeed, usually 0.

    Examples
    --------
    >>> factor = ShiftedCholesky(np.array([[2.0, 1.0], [0.0, 2.0]])).factorize(1.0)
    >>> factor.solve(np.array([[4.0], [4.0]])).ravel().round(9).tolist()
    [1.0, 1.0]
    """

    def __init__(self, gram: npt.NDArray[np.float64]) -> None:
        self._work = gram
        self.diagonal = gram.diagonal().copy()
        self.shift = np.nan
        self.jitter = 0.0

    def factorize(self, shift: float) -> ShiftedCholesky:
        """Factorize G + shift I = U^T U with the smallest jitter that works, and return self.

        Raises
        ------
        InputError
            If no jitter up to 1e-4 of the mean diagonal makes the matrix positive definite.
        """
        if shift == self.shift:
            return self
        self.shift = np.nan  # until the factor is complete
        scale = float(self.diagonal.mean()) + shift
        for jitter in (0.0, *(scale * 10.0**k for k in range(-15, -3))):
            self._restore(shift + jitter)
            if _factorized(self._work):
                self.shift, self.jitter = shift, jitter
                return self
        raise NotPositiveError(
            "the Gram matrix is not positive semi-definite: compute the statistics again and refit."
        )

    def log_det(self) -> float:
        """Return log det(G + shift I)."""
        return 2.0 * float(np.log(self._work.diagonal()).sum())

    def half_solve(self, right: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return U^-T right, whose squared norm is right^T (G + shift I)^-1 right."""
        if right.shape[1] == 0:
            return right.copy()
        return lapack.dtrtrs(self._work.T, right, lower=0, trans=1)[0]

    def solve(self, right: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return (G + shift I)^-1 right for right of shape (M, k)."""
        if right.shape[1] == 0:
            return right.copy()
        return lapack.dpotrs(self._work.T, right, lower=0)[0]

    def inverse_factor(self, *, keep: bool = True) -> npt.NDArray[np.float64]:
        """Return U^-1 in Fortran order: only the upper triangle is meaningful.

        The squared norm of x^T U^-1 is x^T (G + shift I)^-1 x. Costs M^3 / 3 multiply-adds. With
        ``keep=False`` it overwrites the factor, and this object must not be used any more.
        """
        factor = self._work.T.copy(order="F") if keep else self._work.T
        self.shift = self.shift if keep else np.nan
        return lapack.dtrtri(factor, lower=0, overwrite_c=1)[0]

    def inverse_trace(self) -> float:
        """Return tr (G + shift I)^-1 = the squared Frobenius norm of U^-1."""
        inverse = self.inverse_factor()
        return sum(float(np.square(inverse[: j + 1, j]).sum()) for j in range(len(inverse)))

    def _restore(self, shift: float) -> None:
        """Copy G + shift I from the upper to the lower triangle, tile by tile."""
        work = self._work
        for row in range(0, len(work), _TILE):
            rows = slice(row, row + _TILE)
            for column in range(0, row, _TILE):
                columns = slice(column, column + _TILE)
                work[rows, columns] = work[columns, rows].T
            tile = work[rows, rows]
            tile[:] = np.triu(tile) + np.triu(tile, 1).T
        work.flat[:: len(work) + 1] = self.diagonal + shift


def _factorized(work: Array) -> bool:
    """Overwrite the lower triangle of a symmetric matrix by its Cholesky factor, if it is positive definite.

    Above `_WHOLE` rows this is done block by block: OpenBLAS with two threads would write beyond its buffers.
    """
    # The lower triangle in C order is the upper one in LAPACK's Fortran order.
    if len(work) <= _WHOLE:
        return bool(lapack.dpotrf(work.T, lower=0, overwrite_a=1, clean=0)[1] == 0)
    for start in range(0, len(work), _BLOCK):
        block = slice(start, start + _BLOCK)
        left = work[block, :start]
        factor, info = lapack.dpotrf((work[block, block] - left @ left.T).T, lower=0, overwrite_a=1, clean=0)
        if info != 0:
            return False
        np.copyto(work[block, block], factor.T, where=np.tri(len(factor), dtype=bool))
        for first in range(start + _BLOCK, len(work), _BLOCK):
            rows = slice(first, first + _BLOCK)
            below = work[rows, block] - work[rows, :start] @ left.T
            work[rows, block] = lapack.dtrtrs(factor, below.T, lower=0, trans=1, overwrite_b=1)[0].T
    return True


class CholeskySolver:
    """Quadratic forms through one Cholesky factorization per lambda: M^3 / 3 multiply-adds each.

    Uses the Gram matrix of `moments` as its workspace. Unless there are many more rows than features, each
    factor of 10 by which lambda lies below the mean of |phi|^2 costs the forms a digit. So the search stays
    above 1e-6 of that mean; if it ends at this limit, an `EigenSolver` has to take over.
    """

    resolved = 1e-13

    def __init__(self, moments: Moments) -> None:
        self.moments = moments
        self.smallest = EigenSolver.smallest if moments.n >= 2 * len(moments.phi_sum) else 1e-6
        self.factor = ShiftedCholesky(moments.gram)
        self._right = np.column_stack([moments.phi_sum, moments.phi_y])
        self._known: dict[float, Quadratics] = {}

    def loses_digits(self, ratio: float) -> bool:
        """Return whether lambda = `ratio` is at or below the limit of this solver; other solvers go lower."""
        end = self.smallest * self.moments.trace / self.moments.n
        return self.smallest > EigenSolver.smallest and ratio < 1.01 * end

    def quadratics(self, ratio: float) -> Quadratics:
        """Return the forms at lambda = `ratio`, cached."""
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


def few_rows(n: int, n_components: int) -> bool:
    """Return whether there are so few rows that `LowRankGram`, in the space of the rows, is best."""
    return 4 * n <= n_components and n_components > _SMALL


class LowRankGram:
    """G = Phi^T Phi of n rows and M > n features by its eigenvectors, and solutions with G + shift I.

    A Cholesky factorization with pivots, G = L L^T, ends after n columns. All else takes n x n matrices:
    M n^2 multiply-adds in place of M^3.

    Parameters
    ----------
    gram : float64 array, shape (M, M)
        G in its upper triangle.
    n : int

    Attributes
    ----------
    values : float64 array, shape (r,)
        The eigenvalues above rounding, ascending.
    vectors : float64 array, shape (M, r)
    diagonal : float64 array, shape (M,)
        Of G.
    shift : float
        See `factorize`.
    jitter : float
        0: none is needed.

    Examples
    --------
    >>> low_rank = LowRankGram(np.array([[1.0, 2.0], [0.0, 4.0]]), 1)
    >>> low_rank.values.round(9).tolist()
    [5.0]
    >>> low_rank.factorize(1.0).solve(np.array([[1.0], [2.0]])).ravel().round(9).tolist()
    [0.166666667, 0.333333333]
    """

    jitter = 0.0

    def __init__(self, gram: Array, n: int) -> None:
        self.diagonal = gram.diagonal().copy()
        root = _root_of(gram, n)
        basis, small = np.linalg.qr(root)
        values, vectors = np.linalg.eigh(small @ small.T)
        positive = values > max(float(values.max(initial=0.0)), 0.0) * len(gram) * np.finfo(float).eps
        self.values, self.vectors = values[positive], basis @ vectors[:, positive]
        self.shift = np.nan

    def factorize(self, shift: float) -> LowRankGram:
        """Set the shift, and return self."""
        self.shift = shift
        return self

    def log_det(self) -> float:
        """Return log det(G + shift I)."""
        rest = len(self.diagonal) - len(self.values)
        return float(np.log(self.values + self.shift).sum()) + rest * math.log(self.shift)

    def solve(self, right: Array) -> Array:
        """Return (G + shift I)^-1 right for right of shape (M, k)."""
        inside = self.vectors.T @ right
        inner = inside / (self.values + self.shift)[:, None]
        rest = right - self.vectors @ inside
        # For a vector in the span of G this is only rounding, which a small shift would amplify.
        rest *= np.square(rest).sum(axis=0) > np.square(right).sum(axis=0) * 1e-24
        return self.vectors @ inner + rest / self.shift


def _root_of(gram: Array, n: int) -> Array:
    """Return L, shape (M, r), with L L^T = G; G has rank r <= n and is given by its upper triangle."""
    left, rows = gram.diagonal().copy(), np.zeros((min(n, len(gram)), len(gram)))
    least = max(float(left.max()), 0.0) * len(gram) * np.finfo(float).eps
    for k in range(len(rows)):
        pivot = int(left.argmax())
        if not left[pivot] > least:
            return rows[:k].T
        column = np.concatenate([gram[:pivot, pivot], gram[pivot, pivot:]])
        column -= rows[:k, pivot] @ rows[:k]
        rows[k] = column / math.sqrt(left[pivot])
        left -= np.square(rows[k])
        left[pivot] = 0.0
    return rows.T


def check_eigen_size(n_components: int) -> None:
    """Refuse an eigendecomposition whose workspace size overflows LAPACK's 32-bit integers.

    Raises
    ------
    InputError
    """
    if n_components > _LARGEST_EIGEN:
        raise InputError(
            "labels with next to no noise need an eigendecomposition, which LAPACK can compute for at most "
            f"{_LARGEST_EIGEN:,} features, not for {n_components:,}: give a larger noise variance or "
            "take fewer features."
        )


class EigenSolver:
    """Quadratic forms through one eigendecomposition of Phi^T Phi: O(M) for each further lambda.

    The part outside the span of Phi is separated, so no digits are lost for lambda close to zero when n < M.
    """

    smallest, resolved = 1e-9, 1e-13

    def __init__(self, moments: Moments) -> None:
        blocks = moments.gram if moments.gram.ndim == 3 else moments.gram[None]
        few = moments.n if few_rows(moments.n, blocks.shape[1]) else 0
        if not few:
            check_eigen_size(blocks.shape[1])
        self.moments = moments
        right = np.column_stack([moments.phi_sum, moments.phi_y])
        rights = np.split(right, len(blocks))
        parts = [_decomposed(*pair, few) for pair in zip(blocks, rights, strict=True)]
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
        """Return False: no lambda loses digits."""
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


def _decomposed(gram: Array, right: Array, few: int) -> tuple[Array, Array]:
    """Return the eigenvalues above rounding, and `right` in their eigenbasis divided by the roots of these.

    `few` is the number of rows if there are few, else 0.
    """
    if few:
        low_rank = LowRankGram(gram, few)
        return low_rank.values, (low_rank.vectors.T @ right) / np.sqrt(low_rank.values)[:, None]
    upper = np.triu(gram)
    # The upper triangle in C order is the lower one in LAPACK's Fortran order.
    values, vectors = eigh(upper.T, lower=True, driver="evd", overwrite_a=True, check_finite=False)
    top = max(float(values[-1]), 0.0)
    positive = values > top * len(values) * np.finfo(float).eps
    return values[positive], (vectors[:, positive].T @ right) / np.sqrt(values[positive])[:, None]


class TridiagonalForm:
    """K = Q T Q^T with T tridiagonal, and vectors in the basis Q: (K + lambda I)^-1 for any lambda at once.

    The eigenvectors, two thirds of the cost of an eigendecomposition, are never needed.

    Parameters
    ----------
    matrix : float64 array, shape (n, n), C order
        K in its lower triangle, which is overwritten, including the diagonal.
    vectors : float64 array, shape (k, n)

    Attributes
    ----------
    diagonal, off_diagonal : float64 arrays, shapes (n,) and (n - 1,)
        Of T.
    values : float64 array, shape (n,)
        The eigenvalues of K; those below 0 are 0.
    rotated : float64 array, shape (k, n)
        The vectors times Q.

    Notes
    -----
    Source: Golub & Van Loan 2013, section 8.3.1.

    Examples
    --------
    >>> form = TridiagonalForm(np.array([[2.0, 0.0], [1.0, 2.0]]), np.array([[1.0, 0.0]]))
    >>> form.values.round(9).tolist()
    [1.0, 3.0]
    >>> round(float(form.rotated[0] @ form.solve(1.0, form.rotated[0])), 9)  # v . (K + I)^-1 v
    0.375
    """

    def __init__(self, matrix: Array, vectors: Array) -> None:
        n = len(matrix)
        self.diagonal, self.off_diagonal, tau = _reduced(matrix)
        self.rotated = vectors.copy()
        # Householder vector i is in row i + 1 and ends in an implicit 1; the last one is applied first.
        for i in range(n - 2, -1, -1):
            vector, leading = matrix[i + 1, : i + 1], self.rotated[:, : i + 1]
            vector[i] = 1.0
            leading -= tau[i] * (leading @ vector)[:, None] * vector
        values = self.diagonal
        if n > 1:
            values = eigvalsh_tridiagonal(self.diagonal, self.off_diagonal, lapack_driver="sterf")
        self.values = np.maximum(values, 0.0)

    def solve(self, ratio: float, right: Array) -> Array:
        """Return (T + ratio I)^-1 right, for right of shape (n,) or (n, any)."""
        diagonal = self.diagonal + ratio
        if len(diagonal) == 1:
            return right / diagonal[0]
        _, _, solved, info = lapack.dptsv(diagonal, self.off_diagonal, right)
        if info != 0:  # lambda is below the rounding of T
            solved = lapack.dgtsv(self.off_diagonal, diagonal, self.off_diagonal, right)[3]
        return solved


class KernelSolver:
    """Quadratic forms of an exact kernel matrix K, from its reduction to tridiagonal form.

    Given the rotated vectors Q^T 1 and Q^T y, each lambda takes one tridiagonal solve and one sum over the
    eigenvalues. No digits are lost, since the forms are those of K + lambda I itself.

    Parameters
    ----------
    kernel_matrix : float64 array, shape (n, n), C order
        K in its lower triangle, which is overwritten, including the diagonal.
    y : float64 array, shape (n,)

    Attributes
    ----------
    moments : Moments
    spread : float
        The expected variance of f over the rows, about its mean there.

    Notes
    -----
    Source: Rasmussen & Williams 2006, eqs. 5.8 and 5.9.
    """

    smallest, resolved = 1e-9, 0.0

    def __init__(self, kernel_matrix: Array, y: Array) -> None:
        n, shift = len(y), float(y.mean())
        centred, trace = y - shift, float(kernel_matrix.trace())
        self._form = TridiagonalForm(kernel_matrix, np.stack([np.ones(n), centred]))
        rotated = self._form.rotated
        one = rotated[0]
        products = self._form.off_diagonal @ (one[:-1] * one[1:])
        whole = float(self._form.diagonal @ one**2 + 2 * products)  # 1^T K 1
        self.spread = max(0.0, (trace - whole / n) / n)
        # The root of K is a matrix of n features: these are their sums, except for the root itself.
        self.moments = Moments(
            n=n,
            gram=np.zeros((0, 0)),
            trace=trace,
            phi_sum=rotated[0],
            phi_y=rotated[1:].T,
            y_sum=np.array([centred.sum()]),
            yy=np.array([centred @ centred]),
            yy_error=np.zeros(1),
            shift=np.array([shift]),
        )

    def loses_digits(self, ratio: float) -> bool:
        """Return False: no lambda loses digits."""
        return False

    def quadratics(self, ratio: float) -> Quadratics:
        """Return the forms at lambda = `ratio`."""
        one, y = self.moments.phi_sum, self.moments.phi_y
        solved = ratio * self._form.solve(ratio, np.column_stack([one, y]))
        return Quadratics(
            ratio=ratio,
            log_det=float(np.log(self._form.values + ratio).sum()),
            one_one=float(one @ solved[:, 0]),
            one_y=one @ solved[:, 1:],
            y_y=np.einsum("ij,ij->j", y, solved[:, 1:]),
        )

    def curvature(self, ratio: float, mean: float, target: int) -> tuple[float, float]:
        """Return tr A^-1 and lambda^2 r^T C^-2 r for r = y - shift - mean."""
        residual = self.moments.phi_y[:, target] - mean * self.moments.phi_sum
        alpha = ratio * self._form.solve(ratio, residual)
        return float((1.0 / (self._form.values + ratio)).sum()), float(alpha @ alpha)


def _reduced(matrix: Array) -> tuple[Array, Array, Array]:
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


AnySolver = TypeVar("AnySolver", bound=EigenSolver | CholeskySolver | KernelSolver)


def with_deficit(solver: AnySolver, deficit: float) -> AnySolver:
    """Return a solver with another deficit that shares everything else with the given one."""
    other = copy.copy(solver)
    other.moments = replace(solver.moments, deficit=deficit)
    return other


def leading_block(moments: Moments, size: int) -> Moments:
    """Return the moments of the first `size` features, scaled up to the trace of all of them.

    They give a cheap first guess of lambda: random features are exchangeable, so the first few have nearly
    the same evidence as all of them.
    """
    trace = float(np.trace(moments.gram[:size, :size]))
    scale = moments.trace / trace if trace > 0 else 1.0
    return Moments(
        n=moments.n,
        gram=moments.gram[:size, :size] * scale,
        trace=trace * scale,
        phi_sum=moments.phi_sum[:size] * math.sqrt(scale),
        phi_y=moments.phi_y[:size] * math.sqrt(scale),
        y_sum=moments.y_sum,
        yy=moments.yy,
        yy_error=moments.yy_error,
        shift=moments.shift,
        gram_error=moments.gram_error,
        deficit=moments.deficit,
    )
