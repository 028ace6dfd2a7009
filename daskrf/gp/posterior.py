"""The posterior of the feature weights: covariance noise A^-1, A = Phi^T Phi + noise / amplitude I."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from daskrf import seeds
from daskrf.arrays import unpack_bits
from daskrf.gp.linalg import ShiftedCholesky
from daskrf.gp.statistics import SufficientStatistics

__all__ = ["PosteriorFactor", "as_features"]

_DOUBLE_LIMIT = 1024  # up to here float64 costs little
_SINGLE_ERROR = 1e-4  # largest bound of the relative error for which float32 is taken; real errors were 1e-7


def as_features(phi: npt.NDArray[Any], n_components: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return scaled features as a new C-ordered array from packed bits (uint8) or dense features."""
    if phi.dtype != np.uint8:
        return np.array(phi, dtype=dtype, order="C")
    features = unpack_bits(phi, n_components, dtype)
    features *= features.dtype.type(1.0 / math.sqrt(n_components))
    return features


class PosteriorFactor:
    """The triangular matrix R with R R^T = A^-1, for variances and samples.

    Made from the statistics by one Cholesky factorization and one triangular inversion (together 2 M^3 / 3
    multiply-adds); float32 where M > 1024 and a bound of its error allows it, else float64. A variance then
    costs M^2 / 2 multiply-adds a row, through a triangular BLAS product.

    Parameters
    ----------
    statistics : SufficientStatistics
    ratio : float
        noise / amplitude.

    Attributes
    ----------
    root : float32 or float64 array, shape (M, M), Fortran order, upper triangle
    jitter : float
        Jitter that the Cholesky factorization needed.
    """

    def __init__(self, statistics: SufficientStatistics, ratio: float) -> None:
        moments = statistics.moments()
        top = _largest_eigenvalue(moments.gram, moments.phi_sum)
        factor = ShiftedCholesky(moments.gram).factorize(ratio)
        self.jitter = factor.jitter
        root = factor.inverse_factor(keep=False)
        # |Phi R| is at least top^-1/2, and rounding R changes it by at most eps times its longest column.
        longest = max(float(np.linalg.norm(root[: j + 1, j])) for j in range(len(root)))
        bound = float(np.finfo(np.float32).eps) * longest * math.sqrt(top + ratio)
        single = len(root) > _DOUBLE_LIMIT and bound < _SINGLE_ERROR
        self.root: npt.NDArray[Any] = root.astype(np.float32, order="F") if single else root

    def whiten(self, phi: npt.NDArray[Any], n_components: int) -> npt.NDArray[Any]:
        """Return Z = Phi R, shape (n, M): Z Z^T is Phi A^-1 Phi^T."""
        features = as_features(phi, n_components, self.root.dtype)
        trmm = blas.strmm if self.root.dtype == np.float32 else blas.dtrmm
        # Fortran order sees Phi^T, so that the product is R^T Phi^T, in place.
        return trmm(1.0, self.root, features.T, side=0, lower=0, trans_a=1, overwrite_b=1).T

    def sample(self, n: int, seed: int, target: int) -> npt.NDArray[np.float64]:
        """Return n draws of N(0, A^-1), shape (M, n); draw i does not depend on n."""
        size = len(self.root)
        names = f"gp/weights/{target}"
        normal = np.column_stack([seeds.generator(seed, names, i).standard_normal(size) for i in range(n)])
        trmm = blas.strmm if self.root.dtype == np.float32 else blas.dtrmm
        return trmm(1.0, self.root, normal.astype(self.root.dtype, order="F"), lower=0).astype(np.float64)


def _largest_eigenvalue(gram: npt.NDArray[np.float64], start: npt.NDArray[np.float64]) -> float:
    """Estimate the largest eigenvalue of a matrix given by its upper triangle, by a few power steps."""
    vector, value = start + 1e-3 * float(np.abs(start).max(initial=1e-300)), 0.0
    for _ in range(5):
        vector = vector / np.linalg.norm(vector)
        # The upper triangle in C order is the lower one in Fortran order.
        product = blas.dsymv(1.0, gram.T, vector, lower=1)
        value = float(vector @ product)
        vector = product + 1e-300
    return value
