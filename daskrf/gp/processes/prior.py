"""Feature weights with a prior precision other than the identity: moments are whitened once, in M^3.

If the weights have the prior covariance signal_variance K^-1 and K = L L^T, the features L^-1 phi have
weights with the prior covariance signal_variance I. Their moments follow from those of phi, without
whitening rows.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack

from daskrf.errors import InputError
from daskrf.gp.processes.posterior import DOUBLE_LIMIT, as_features
from daskrf.gp.sums.statistics import Moments

Array = npt.NDArray[np.float64]

# Up to rounding, a pivot of K below this fraction of the diagonal belongs to a repeated landmark.
_SMALLEST_PIVOT = 1e-9
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
        The value added to the diagonal of K, relative to its mean; usually 0.

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
        self._largest = float(np.abs(precision).sum(axis=1).max())  # no eigenvalue of K is larger

    def whiten(self, moments: Moments) -> Moments:
        """Return the moments of the features L^-1 phi; overwrites the Gram matrix of `moments`."""
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
        """Return L^-T w, the weights of phi given those of L^-1 phi; shape (M, k)."""
        if weights.shape[1] == 0:
            return weights.copy()
        return lapack.dtrtrs(self._lower, weights, lower=1, trans=1)[0]

    def solve(self, values: Array) -> Array:
        """Return K^-1 values, shape (M, k)."""
        if values.shape[1] == 0:
            return values.copy()
        return lapack.dpotrs(self._lower, values, lower=1)[0]

    def project(self, phi: npt.NDArray[np.number], error: float = 0.0) -> npt.NDArray[np.floating]:
        """Return W = Phi L^-T, shape (n, M): W W^T is Phi K^-1 Phi^T, and W are features with the prior I.

        Uses single precision if that changes the squared length of a row, at most 1, by less than `error`.
        """
        single = len(self._lower) > DOUBLE_LIMIT and self._single_error <= error
        inverse, trmm = (self._single, blas.strmm) if single else (self._inverse, blas.dtrmm)
        features = as_features(phi, len(self._lower), inverse.dtype)
        return trmm(1.0, inverse, features.T, side=0, lower=1, overwrite_b=1).T

    @cached_property
    def _inverse(self) -> Array:
        """L^-1 in Fortran order, lower triangle."""
        return lapack.dtrtri(self._lower, lower=1)[0]

    @cached_property
    def _single(self) -> npt.NDArray[np.float32]:
        return self._inverse.astype(np.float32, order="F")

    @cached_property
    def _single_error(self) -> float:
        """Bound on the error of squared lengths in single precision."""
        longest = max(float(np.linalg.norm(self._inverse[row, : row + 1])) for row in range(len(self._lower)))
        # |phi|^2 is at most the largest eigenvalue of K, since phi^T K^-1 phi is at most 1.
        return 2.0 * float(np.finfo(np.float32).eps) * longest * math.sqrt(self._largest)
