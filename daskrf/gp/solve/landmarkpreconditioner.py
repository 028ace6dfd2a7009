"""A preconditioner for K + ratio I from landmarks: a Nystrom approximation of K from some of its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from daskrf import seeds
from daskrf.arrays import row_slice
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

    def __init__(self, kernel: Kernel, X: Any, n_landmarks: int, random_state: int) -> None:
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

    def features(self, X: Any) -> Single:
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

    def weights(self, y: npt.NDArray[np.float64]) -> Single:
        """Return landmark weights w, float32 of shape (L,), such that k(x, Z) w approximates the mean for y.

        This is the mean of the process with the kernel F F^T, the subset of regressors (Rasmussen & Williams
        2006, eq. 8.14).
        """
        inner = scipy.linalg.cho_solve((self._factor, True), self._features.T @ y.astype(np.float32))
        return scipy.linalg.solve_triangular(self._root, inner, lower=True, trans=1).astype(np.float32)

    def __call__(self, vectors: Single) -> Single:
        """Return the preconditioner times vectors, float32 of shape (n, any)."""
        with blas_threads_for(len(self._features)):
            projected = self._features.T @ vectors
            inner = scipy.linalg.cho_solve((self._factor, True), projected, check_finite=False)
            preconditioned: Single = (vectors - self._features @ inner) / np.float32(self.ratio)
        return preconditioned
