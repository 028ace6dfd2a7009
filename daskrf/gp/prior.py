"""Feature weights with a prior precision other than the identity: whitened once, in M^3, and never by rows.

With the weights' prior covariance amplitude K^-1 and K = L L^T, the features L^-1 phi have weights with the
prior covariance amplitude I; their moments follow from those of phi.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack

from daskrf.errors import InputError
from daskrf.gp.linalg import ShiftedCholesky
from daskrf.gp.posterior import DOUBLE_LIMIT, PosteriorFactor, as_features, expanded_rows, squared_lengths
from daskrf.gp.statistics import Moments

__all__ = ["PriorPrecision", "ProjectedFactor"]

Array = npt.NDArray[np.float64]

# Below this part of the diagonal a pivot of K stands for a repeated landmark, up to rounding.
_SMALLEST_PIVOT = 1e-9
# Largest bounds of the error of a variance of f, over the noise, for 1 - |phi T|^2 in float32 and in float64;
# real errors were 1e-2 of them.
_SINGLE_ERROR, _DOUBLE_ERROR = 1e-4, 1e-8
_LOCK = threading.RLock()
_JITTERS = (0.0, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)


class PriorPrecision:
    """The Cholesky factor of a prior precision K = L L^T, with the least jitter that makes it well defined.

    Parameters
    ----------
    precision : float64 array, shape (M, M)
        K; repeated rows are allowed.

    Attributes
    ----------
    jitter : float
        What was added to the diagonal of K, over its mean; usually 0.
    largest : float
        No eigenvalue of K is larger.

    Raises
    ------
    InputError
        If K is not positive semi-definite.

    Examples
    --------
    >>> prior = PriorPrecision(np.array([[4.0, 0.0], [0.0, 1.0]]))
    >>> (prior.to_features(np.array([[2.0], [3.0]])).ravel().tolist(), prior.jitter)
    ([1.0, 3.0], 0.0)
    """

    def __init__(self, precision: Array) -> None:
        scale = float(np.mean(precision.diagonal()))
        for self.jitter in _JITTERS:
            work = np.array(precision, dtype=np.float64, order="F")
            work.flat[:: len(work) + 1] += self.jitter * scale
            self._lower, info = lapack.dpotrf(work, lower=1, overwrite_a=1, clean=1)
            if info == 0 and float(self._lower.diagonal().min()) ** 2 >= _SMALLEST_PIVOT / 2 * scale:
                break
        else:
            raise InputError(
                "the prior precision of the features is not positive semi-definite: take a positive definite "
                "kernel for the landmarks."
            )
        self._inverse: Array | None = None
        self.largest = float(np.abs(precision).sum(axis=1).max())

    def whiten(self, moments: Moments) -> Moments:
        """Return the moments of the features L^-1 phi; takes the Gram matrix of `moments` over."""
        # The upper triangle in C order is the lower one in LAPACK's Fortran order.
        gram, info = lapack.dsygst(moments.gram.T, self._lower, itype=1, lower=1, overwrite_a=1)
        assert info == 0
        sums = lapack.dtrtrs(self._lower, np.column_stack([moments.phi_sum, moments.phi_y]), lower=1)[0]
        return replace(
            moments,
            gram=gram.T,
            trace=float(np.trace(gram)),
            phi_sum=sums[:, 0].copy(),
            phi_y=sums[:, 1:].copy(),
        )

    def to_features(self, weights: Array) -> Array:
        """Return L^-T w: the weights of phi, from those of L^-1 phi; shape (M, k)."""
        if weights.shape[1] == 0:
            return weights.copy()
        return lapack.dtrtrs(self._lower, weights, lower=1, trans=1)[0]

    @property
    def inverse(self) -> Array:
        """L^-1 in Fortran order, lower triangle; made at the first use."""
        if self._inverse is None:
            self._inverse = lapack.dtrtri(self._lower, lower=1)[0]
        return self._inverse

    def project(self, phi: npt.NDArray[Any]) -> Array:
        """Return W = Phi L^-T, shape (n, M): W W^T is Phi K^-1 Phi^T."""
        features = as_features(phi, len(self._lower), np.float64)
        return blas.dtrmm(1.0, self.inverse, features.T, side=0, lower=1, overwrite_b=1).T

    def residuals(self, phi: npt.NDArray[Any]) -> Array:
        """Return 1 - phi^T K^-1 phi of each row: the part of k(x, x) = 1 that the features leave out."""
        left_out = np.empty(len(phi))
        for rows in expanded_rows(len(phi), len(self._lower), np.float64):
            white = self.project(phi[rows])
            left_out[rows] = 1.0 - np.einsum("ij,ij->i", white, white)
            del white  # before the next one is made
        return np.maximum(left_out, 0.0)


class ProjectedFactor(PosteriorFactor):
    """Triangular matrices for variances and samples of f where features leave out a part of it.

    The variance of f over the amplitude is 1 - phi^T K^-1 phi + ratio phi^T (Phi^T Phi + ratio K)^-1 phi. It
    is 1 - |phi T|^2 with one triangle T: M^2 / 2 multiply-adds a row, in single precision where a bound of
    the error allows it. Where the noise is too small for that difference, it takes two triangles.

    Parameters
    ----------
    whitened : function that returns Moments
        Of the features L^-1 phi; their Gram matrix is taken over.
    ratio : float
        noise / amplitude.
    prior : PriorPrecision
    """

    def __init__(self, whitened: Callable[[], Moments], ratio: float, prior: PriorPrecision) -> None:
        self.whitened, self.ratio, self.prior = whitened, ratio, prior

    @cached_property
    def root(self) -> Array:  # type: ignore[override]
        """R with R R^T = (Phi^T Phi + ratio K)^-1, float64: for samples."""
        return self._unwhitened(self._inverse_root())

    @cached_property
    def explained(self) -> npt.NDArray[Any] | None:
        """T with T T^T = K^-1 - ratio (Phi^T Phi + ratio K)^-1, or None where 1 - |phi T|^2 is too coarse."""
        # C C^T = I - ratio A^-1 for an upper triangle C is a Cholesky factorization from the last row up.
        rest, _ = lapack.dlauum(self._inverse_root(), lower=0, overwrite_c=1)
        rest *= -self.ratio
        rest.flat[:: len(rest) + 1] += 1.0
        for jitter in (0.0, 1e-14, 1e-12):
            turned = np.asfortranarray(rest[::-1, ::-1])
            turned.flat[:: len(rest) + 1] += jitter
            lower, info = lapack.dpotrf(turned, lower=1, overwrite_a=1, clean=1)
            if info == 0:
                break
        else:
            return None
        root = self._unwhitened(np.asfortranarray(lower[::-1, ::-1]))
        longest = max(float(np.linalg.norm(root[: j + 1, j])) for j in range(len(root)))
        # |phi|^2 is at most the largest eigenvalue of K, for phi^T K^-1 phi is at most 1.
        error = 2.0 * longest * math.sqrt(self.prior.largest)
        if len(root) > DOUBLE_LIMIT and error * float(np.finfo(np.float32).eps) < _SINGLE_ERROR * self.ratio:
            return root.astype(np.float32, order="F")
        return root if error * float(np.finfo(np.float64).eps) < _DOUBLE_ERROR * self.ratio else None

    def variances(self, phi: npt.NDArray[Any], n_components: int) -> Array:
        """Return the variance of f at each row, over the noise, shape (n,)."""
        with _LOCK:  # threads wait for one of them to make it
            explained = self.explained
        if explained is not None:
            left = 1.0 - squared_lengths(explained, phi, n_components)
            return np.maximum(left, 0.0) / self.ratio
        return super().variances(phi, n_components) + self.prior.residuals(phi) / self.ratio

    def _inverse_root(self) -> Array:
        """Return R' with R' R'^T = A^-1, A = G' + ratio I of the features L^-1 phi: an upper triangle."""
        factor = ShiftedCholesky(self.whitened().gram).factorize(self.ratio)
        return factor.inverse_factor(keep=False)

    def _unwhitened(self, root: Array) -> Array:
        """Return L^-T R, an upper triangle as R is."""
        upper = np.asfortranarray(np.triu(root))
        return blas.dtrmm(1.0, self.prior.inverse, upper, side=0, lower=1, trans_a=1, overwrite_b=1)
