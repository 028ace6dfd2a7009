"""A preconditioner for K + ratio I from landmarks: a Nystrom approximation of K from some of its columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.linalg

from daskrf import seeds
from daskrf.arrays import Matrix, row_slice
from daskrf.blas import blas_threads_for
from daskrf.gp.solve.solvers import NotPositiveError
from daskrf.kernels.kernel import Kernel

Single = npt.NDArray[np.float32]

_ROWS = 4096
_JITTER = 1e-6  # relative to the diagonal, for repeated landmarks


class LandmarkPreconditioner:
    """(F F^T + ratio I)^-1 with F F^T = K_XZ K_ZZ^-1 K_ZX, for random rows Z of X.

    By the Woodbury identity it equals (I - F (F^T F + ratio I)^-1 F^T) / ratio, so each new ratio costs one
    Cholesky factorization of an L x L matrix.

    Parameters
    ----------
    kernel : Kernel
    X : CSR or dense array, shape (n, d)
    n_landmarks : int
        At most n.
    random_state : int

    Attributes
    ----------
    landmarks : int64 array, shape (L,)
        Row indices into X.

    Raises
    ------
    NotPositiveError
        If K_ZZ is not positive semi-definite.
    """

    def __init__(self, kernel: Kernel, X: Matrix, n_landmarks: int, random_state: int) -> None:
        n = X.shape[0]
        order = np.argsort(seeds.words(random_state, "gp/landmarks", n), kind="stable")
        self.landmarks = np.sort(order[:n_landmarks])
        chosen = X[self.landmarks]
        self._prepared = kernel.against(chosen)
        gram = self._prepared(chosen)
        gram.flat[:: len(gram) + 1] += _JITTER * gram.diagonal().mean()
        with blas_threads_for(len(gram)):
            # Single precision is enough: a preconditioner only has to be close, symmetric and positive
            # definite.
            try:
                self._root = np.linalg.cholesky(gram).astype(np.float32)
            except np.linalg.LinAlgError:
                raise NotPositiveError from None
            self._features = np.empty((n, len(gram)), np.float32)
            self._products = np.zeros(gram.shape)
            for start in range(0, n, _ROWS):
                block = self.features(row_slice(X, start, min(start + _ROWS, n)))
                self._features[start : start + _ROWS] = block
                self._products += block.T @ block

    @property
    def row_features(self) -> Single:
        """F, float32 of shape (n, L)."""
        return self._features

    def features(self, X: Matrix) -> Single:
        """Return F for the rows of another X, float32 of shape (n, L)."""
        values = self._prepared(X, dtype=np.float32)
        solution = scipy.linalg.solve_triangular(
            self._root, values.T, lower=True, overwrite_b=True, check_finite=False
        )
        return np.ascontiguousarray(solution.T)

    def set_ratio(self, ratio: float) -> None:
        """Prepare for K + ratio I."""
        shifted = self._products.copy()
        shifted.flat[:: len(shifted) + 1] += ratio
        self.ratio = ratio
        with blas_threads_for(len(shifted)):
            self._factor = scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True).astype(np.float32)

    def kernel_weights(self, weights: Single) -> Single:
        """Return w, such that k(x, Z) w is the product of the features of x with weights, shape (L,)."""
        solution: Single = scipy.linalg.solve_triangular(self._root, weights, lower=True, trans=1)
        return solution.astype(np.float32)

    def weights(self, y: npt.NDArray[np.float64]) -> Single:
        """Return landmark weights w, float32 of shape (L,), such that k(x, Z) w approximates the mean for y.

        This is the mean of the process with the kernel F F^T, the subset of regressors (Rasmussen & Williams
        2006, eq. 8.14).
        """
        inner = scipy.linalg.cho_solve((self._factor, True), self._features.T @ y.astype(np.float32))
        return self.kernel_weights(inner)

    def __call__(self, vectors: Single) -> Single:
        """Return the preconditioner times vectors, float32 of shape (n, any)."""
        with blas_threads_for(len(self._features)):
            projected = self._features.T @ vectors
            inner = scipy.linalg.cho_solve((self._factor, True), projected, check_finite=False)
            preconditioned: Single = (vectors - self._features @ inner) / np.float32(self.ratio)
        return preconditioned


class ScaledLandmarks:
    """(U (F F^T + R) U + ratio I)^-1 for scales U of rows, where R is diagonal.

    F F^T + R has the diagonal of K (the fully independent training conditional; Snelson & Ghahramani 2006).

    Parameters
    ----------
    landmarks : LandmarkPreconditioner
        Its features are F.
    diagonal : float64 array, shape (n,)
        k(x, x) of the rows.
    scales : float64 array, shape (n,)
        The diagonal of U.
    ratio : float
    """

    def __init__(
        self,
        landmarks: LandmarkPreconditioner,
        diagonal: npt.NDArray[np.float64],
        scales: npt.NDArray[np.float64],
        ratio: float,
    ) -> None:
        self._landmarks, self._features = landmarks, landmarks.row_features
        lengths = np.einsum("ij,ij->i", self._features, self._features, dtype=np.float64)
        rest = np.maximum(diagonal - lengths, 0.0)
        roots = 1.0 / np.sqrt(ratio + scales**2 * rest)
        self._roots, self._weights = (
            values[:, None].astype(np.float32) for values in (roots, scales * roots)
        )
        n, size = self._features.shape
        inner = np.eye(size)
        with blas_threads_for(size):
            for start in range(0, n, _ROWS):
                rows = slice(start, start + _ROWS)
                block = self._weights[rows] * self._features[rows]
                inner += block.T @ block
            self._factor = scipy.linalg.cholesky(inner, lower=True, overwrite_a=True).astype(np.float32)

    def __call__(self, vectors: Single) -> Single:
        """Return the inverse times vectors, float32 of shape (n, any)."""
        white = self._roots * vectors
        with blas_threads_for(len(white)):
            projected = self._features.T @ (self._weights * white)
            inner = scipy.linalg.cho_solve((self._factor, True), projected, check_finite=False)
            white -= self._weights * (self._features @ inner)
        white *= self._roots
        return white

    def diagonal(self, rows: npt.NDArray[np.intp]) -> npt.NDArray[np.float64]:
        """Return the diagonal of the inverse at some rows."""
        values = np.empty(len(rows))
        for start in range(0, len(rows), _ROWS):
            some = rows[start : start + _ROWS]
            features = (self._weights[some] * self._features[some]).T
            half = scipy.linalg.solve_triangular(self._factor, features, lower=True, check_finite=False)
            explained = np.einsum("ij,ij->j", half, half, dtype=np.float64)
            values[start : start + _ROWS] = self._roots[some, 0].astype(np.float64) ** 2 * (1.0 - explained)
        return values

    def weights(self, y: npt.NDArray[np.float64]) -> Single:
        """Return landmark weights w, float32 of shape (L,), such that k(x, Z) w approximates the mean for y.

        The labels have the noise ratio / scales^2.
        """
        right = self._features.T @ (self._weights[:, 0] ** 2 * y.astype(np.float32))
        return self._landmarks.kernel_weights(scipy.linalg.cho_solve((self._factor, True), right))
