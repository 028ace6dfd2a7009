"""Variances from S posterior samples: S M operations a row, in place of M^2 / 2.

The variance of f at phi, in units of the noise variance, is |z|^2 with z = R^T phi and R R^T = A^-1. If Q is
an orthonormal basis of S random directions, |Q^T z|^2 / |z|^2 has a beta distribution with parameters S / 2
and (M - S) / 2, whatever z is. So the error is known beforehand: it depends on neither the posterior nor the
row, and is no larger for a molecule unlike all labelled ones. The columns of R Q are posterior samples of the
weights, less their mean. As they come from orthogonal directions, the relative error of a standard deviation
is sqrt((1 - S / M) / (2 S)), below the 1 / sqrt(2 S) of independent samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, gammaln

from daskrf.arrays import unpack_bits
from daskrf.engine import engine
from daskrf.gp.processes.posterior import LowRankFactor, PosteriorFactor, standard_normal

Array = npt.NDArray[np.float64]

MISSED = 1e-6
"""Probability that the variance of a row is above its upper bound, and that it is below its lower one."""

_CHUNK_BYTES = 4 * 2**20  # of unpacked features: they stay in the cache until they are multiplied
_MULTIPLE = 16  # of samples: products are fastest so
_COLUMNS = 64  # samples whose values are held at a time
_FEW = 1024  # rows of bits: tables of sums take longer to fill than fewer take to unpack and multiply


def samples_for(error: float, n_components: int) -> int:
    """Return how many samples give standard deviations a relative error of at most `error`.

    Examples
    --------
    >>> samples_for(0.03, 4096), samples_for(0.1, 4096), samples_for(1e-9, 4096)
    (496, 64, 4096)
    """
    n = math.ceil(1.0 / (2.0 * error**2 + 1.0 / n_components))
    n = min(n_components, -(-n // _MULTIPLE) * _MULTIPLE)
    while n < n_components and relative_error(n, n_components) > error:
        n = min(n_components, n + _MULTIPLE)
    return n


def relative_error(n_samples: int, n_components: int) -> float:
    """Return the standard deviation of an estimated standard deviation, relative to its mean.

    Examples
    --------
    >>> round(relative_error(512, 4096), 4), relative_error(4096, 4096)
    (0.0292, 0.0)
    """
    fraction = n_samples / n_components
    return math.sqrt(max(fraction / _mean_root(n_samples, n_components) ** 2 - 1.0, 0.0))


def _mean_root(n_samples: int, n_components: int) -> float:
    """Return the mean of sqrt(b) for b with the beta distribution of these samples."""
    if n_samples == n_components:
        return 1.0
    half, whole = n_samples / 2.0, n_components / 2.0
    return math.exp(gammaln(half + 0.5) - gammaln(half) + gammaln(whole) - gammaln(whole + 0.5))


@dataclass(frozen=True)
class SampledVariances:
    """Estimates and bounds of the variances of f, in units of the noise variance.

    Parameters
    ----------
    root : float32 or float64 array, shape (M, S)
        R Q.
    missed : float
        Probability that a bound is wrong.

    Examples
    --------
    >>> from daskrf.gp import RandomFeatureGP
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 40))
    >>> gp = RandomFeatureGP(noise_variance=0.1).fit(X, X @ rng.standard_normal(40))
    >>> sampled = gp.sampled_variances(20)
    >>> low, high = sampled.bounds(X, 40)
    >>> exact = gp.predict(X, return_std=True, of="f")[1] ** 2 / gp.noise_variance_
    >>> bool(((low <= exact) & (exact <= high)).all())
    True
    """

    root: npt.NDArray[np.floating]
    missed: float = MISSED

    @classmethod
    def of(cls, factor: PosteriorFactor | LowRankFactor, n_samples: int, seed: int = 0) -> SampledVariances:
        """Return the estimates from S samples of a posterior; they depend on its factor and the seed only."""
        size = factor.n_components
        basis = np.linalg.qr(standard_normal(seed, "gp/variances", size, min(n_samples, size)))[0]
        root = factor.coloured(basis)
        return cls(np.ascontiguousarray(root, np.float32 if factor.single else np.float64))

    def first(self, n_samples: int) -> SampledVariances:
        """Return the estimates from the first samples only: directions of a random basis are exchangeable."""
        return replace(self, root=np.ascontiguousarray(self.root[:, :n_samples]))

    @property
    def error(self) -> float:
        """The relative error of a standard deviation."""
        size, n = self.root.shape
        return relative_error(n, size)

    def variances(self, phi: npt.NDArray[np.number], n_components: int) -> Array:
        """Return the estimates, shape (n,), whose square roots are unbiased however few the samples."""
        size, n = self.root.shape
        return self._squares(phi, n_components) / _mean_root(n, size) ** 2

    def bounds(self, phi: npt.NDArray[np.number], n_components: int) -> tuple[Array, Array]:
        """Return a lower and an upper bound of each row, each wrong with a probability of `missed`."""
        size, n = self.root.shape
        squares = self._squares(phi, n_components)
        if n == size:
            return squares, squares
        shape = n / 2.0, (size - n) / 2.0
        return squares / betaincinv(*shape, 1.0 - self.missed), squares / betaincinv(*shape, self.missed)

    def _squares(self, phi: npt.NDArray[np.number], n_components: int) -> Array:
        """Return |(R Q)^T phi|^2 of each row in bounded memory."""
        squares, packed = np.zeros(len(phi)), phi.dtype == np.uint8
        if packed and len(phi) >= _FEW:
            for start in range(0, self.root.shape[1], _COLUMNS):
                columns = self.root[:, start : start + _COLUMNS]
                squares += _squared_lengths(engine().bit_means(phi, n_components, columns))
            return squares / n_components
        step = max(1, _CHUNK_BYTES // (n_components * self.root.itemsize))
        for start in range(0, len(phi), step):
            rows = slice(start, start + step)
            features = unpack_bits(phi[rows], n_components, self.root.dtype) if packed else phi[rows]
            squares[rows] = _squared_lengths(features.astype(self.root.dtype, copy=False) @ self.root)
        return squares / n_components if packed else squares


def _squared_lengths(values: npt.NDArray[np.floating]) -> Array:
    """Return the squared length of each row."""
    return np.einsum("ij,ij->i", values, values, dtype=np.float64)
