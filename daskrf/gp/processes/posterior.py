"""The posterior of the feature weights, with covariance noise_variance A^-1.

A = Phi^T Phi + noise_variance / signal_variance I.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas
from scipy.special import ndtri

from daskrf import seeds
from daskrf.arrays import unpack_bits
from daskrf.engine import Float
from daskrf.gp.solve.solvers import LowRankGram, ShiftedCholesky, few_rows
from daskrf.gp.sums.statistics import Moments, SufficientStatistics

_EXPANDED_BYTES = 64 * 2**20  # of features unpacked or converted at a time
DOUBLE_LIMIT = 1024  # up to here float64 is cheap
_SINGLE_ERROR = 1e-4  # float32 is used if a bound on its relative error is below this; real errors were 1e-7


def as_features(
    phi: npt.NDArray[np.number], n_components: int, dtype: type[Float] | np.dtype[Float]
) -> npt.NDArray[Float]:
    """Return scaled features as a new C-ordered array from packed bits (uint8) or dense features."""
    if phi.dtype != np.uint8:
        return np.array(phi, dtype=dtype, order="C")
    features = unpack_bits(phi, n_components, dtype)
    features *= features.dtype.type(1.0 / math.sqrt(n_components))
    return features


def expanded_rows(n: int, n_components: int, dtype: npt.DTypeLike) -> Iterator[slice]:
    """Yield slices over n rows whose features in `dtype` take at most 64 MiB (or one row)."""
    step = max(1, _EXPANDED_BYTES // (n_components * np.dtype(dtype).itemsize))
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


class Factor(Protocol):
    """A root of the posterior covariance of the weights, which gives variances and samples."""

    @property
    def root(self) -> npt.NDArray[np.floating]: ...

    def whiten(self, phi: npt.NDArray[np.number], n_components: int) -> npt.NDArray[np.floating]: ...

    def variances(self, phi: npt.NDArray[np.number], n_components: int) -> npt.NDArray[np.float64]: ...

    def sample(self, n: int, seed: int, target: int) -> npt.NDArray[np.float64]: ...


class PosteriorFactor:
    """The triangular matrix R with R R^T = A^-1, for variances and samples.

    Computed from the statistics by one Cholesky factorization and one triangular inversion (together
    2 M^3 / 3 multiply-adds), in float32 if M > 1024 and an error bound allows it, else in float64. A variance
    then costs M^2 / 2 multiply-adds a row, by a triangular BLAS product.

    Parameters
    ----------
    statistics : SufficientStatistics, or Moments, whose Gram matrix is overwritten
    ratio : float
        noise_variance / signal_variance.

    Attributes
    ----------
    root : float32 or float64 array, shape (M, M), Fortran order, upper triangle
    jitter : float
        Jitter that the Cholesky factorization needed.
    single : bool
        Whether variances keep four digits if R is rounded to float32.
    """

    def __init__(self, statistics: SufficientStatistics | Moments, ratio: float) -> None:
        moments = statistics if isinstance(statistics, Moments) else statistics.moments()
        top = _eigenvalue_bound(moments.gram)
        factor = ShiftedCholesky(moments.gram).factorize(ratio)
        self.jitter = factor.jitter
        root = factor.inverse_factor(keep=False)
        # |phi R| is at least (top + ratio)^-1/2 |phi|, and rounding R changes it by at most eps |phi| times
        # the longest column of R.
        longest = max(float(np.linalg.norm(root[: j + 1, j])) for j in range(len(root)))
        bound = float(np.finfo(np.float32).eps) * longest * math.sqrt(top + ratio)
        self.single = bound < _SINGLE_ERROR
        single = len(root) > DOUBLE_LIMIT and self.single
        self.root: npt.NDArray[np.floating] = root.astype(np.float32, order="F") if single else root

    @property
    def n_components(self) -> int:
        """M."""
        return len(self.root)

    def whiten(self, phi: npt.NDArray[np.number], n_components: int) -> npt.NDArray[np.floating]:
        """Return Z = Phi R, shape (n, M): Z Z^T is Phi A^-1 Phi^T. Holds one expanded copy of the rows."""
        return _times(self.root, phi, n_components)

    def variances(self, phi: npt.NDArray[np.number], n_components: int) -> npt.NDArray[np.float64]:
        """Return the variance of f at each row, divided by the noise variance, shape (n,)."""
        return squared_lengths(self.root, phi, n_components)

    def sample(self, n: int, seed: int, target: int) -> npt.NDArray[np.float64]:
        """Return n samples of N(0, A^-1), shape (M, n); sample i does not depend on n."""
        return self.coloured(standard_normal(seed, f"gp/weights/{target}", len(self.root), n))

    def coloured(self, normal: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return R Z: samples of N(0, A^-1) from standard normal numbers, both of shape (M, n)."""
        trmm = blas.strmm if self.root.dtype == np.float32 else blas.dtrmm
        return trmm(1.0, self.root, normal.astype(self.root.dtype, order="F"), lower=0).astype(np.float64)


class LowRankFactor:
    """As `PosteriorFactor`, for fewer rows than features.

    With the eigenvectors V and eigenvalues s of Phi^T Phi, A^-1 = (I - V D V^T) / lambda, D = s / (s +
    lambda), and its symmetric root is (I - V (1 - sqrt(1 - D)) V^T) / sqrt(lambda).

    Parameters
    ----------
    statistics : SufficientStatistics, or Moments, whose Gram matrix is overwritten
    ratio : float
        lambda = noise_variance / signal_variance.
    """

    jitter = 0.0

    def __init__(self, statistics: SufficientStatistics | Moments, ratio: float) -> None:
        moments = statistics if isinstance(statistics, Moments) else statistics.moments()
        low_rank = LowRankGram(moments.gram, moments.n)
        self._vectors, self._ratio = low_rank.vectors, ratio
        self._shrunk = 1.0 - np.sqrt(ratio / (low_rank.values + ratio))
        condition = (float(low_rank.values.max(initial=0.0)) + ratio) / ratio
        self.single = float(np.finfo(np.float32).eps) * math.sqrt(condition) < _SINGLE_ERROR

    @property
    def n_components(self) -> int:
        """M."""
        return len(self._vectors)

    @property
    def root(self) -> npt.NDArray[np.float64]:
        """R with R R^T = A^-1, shape (M, M)."""
        return self.coloured(np.eye(len(self._vectors)))

    def whiten(self, phi: npt.NDArray[np.number], n_components: int) -> npt.NDArray[np.float64]:
        """Return Z = Phi R, shape (n, M)."""
        return self.coloured(as_features(phi, n_components, np.float64).T).T

    def variances(self, phi: npt.NDArray[np.number], n_components: int) -> npt.NDArray[np.float64]:
        """Return the variance of f at each row, divided by the noise variance, shape (n,)."""
        squares = np.empty(len(phi))
        for rows in expanded_rows(len(phi), n_components, np.float64):
            white = self.whiten(phi[rows], n_components)
            squares[rows] = np.einsum("ij,ij->i", white, white)
        return squares

    def sample(self, n: int, seed: int, target: int) -> npt.NDArray[np.float64]:
        """Return n samples of N(0, A^-1), shape (M, n); sample i does not depend on n."""
        return self.coloured(standard_normal(seed, f"gp/weights/{target}", len(self._vectors), n))

    def coloured(self, normal: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return R Z, shape (M, n)."""
        inside = self._shrunk[:, None] * (self._vectors.T @ normal)
        result: npt.NDArray[np.float64] = (normal - self._vectors @ inside) / math.sqrt(self._ratio)
        return result


def posterior_factor(
    statistics: SufficientStatistics | Moments, ratio: float
) -> PosteriorFactor | LowRankFactor:
    """Return the factor of A^-1 for these sums: by the rows if they are far fewer than the features."""
    size = len(statistics.phi_sum)
    return (LowRankFactor if few_rows(statistics.n, size) else PosteriorFactor)(statistics, ratio)


def squared_lengths(
    root: npt.NDArray[np.floating], phi: npt.NDArray[np.number], n_components: int
) -> npt.NDArray[np.float64]:
    """Return |phi R|^2 of each row in bounded memory, for an upper triangular R in Fortran order."""
    squares = np.empty(len(phi))
    for rows in expanded_rows(len(phi), n_components, root.dtype):
        white = _times(root, phi[rows], n_components)
        squares[rows] = np.einsum("ij,ij->i", white, white, dtype=np.float64)
        del white  # before the next one is allocated
    return squares


def _times(
    root: npt.NDArray[np.floating], phi: npt.NDArray[np.number], n_components: int
) -> npt.NDArray[np.floating]:
    """Return Phi R, using one expanded copy of the rows."""
    features = as_features(phi, n_components, root.dtype)
    trmm = blas.strmm if root.dtype == np.float32 else blas.dtrmm
    # In Fortran order the array is Phi^T, so the product is R^T Phi^T, in place.
    return trmm(1.0, root, features.T, side=0, lower=0, trans_a=1, overwrite_b=1).T


def standard_normal(seed: int, name: str, size: int, n: int) -> npt.NDArray[np.float64]:
    """Return n vectors of standard normal numbers, shape (size, n): vector i depends only on (seed, name, i).

    The normal distribution function is inverted at 52-bit uniform numbers, so the result does not depend on
    NumPy's generators.
    """
    draws = np.empty((size, n))
    for i in range(n):
        draws[:, i] = normal_of(seeds.words(seed, f"{name}#{i}", size))
    return draws


def normal_of(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """Return a standard normal number for each random word."""
    # Offset by half a step, exact in float64: neither 0 nor 1 occurs.
    return ndtri(((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)


def _eigenvalue_bound(gram: npt.NDArray[np.float64]) -> float:
    """Return the Frobenius norm, which bounds the eigenvalues, of a matrix given by its upper triangle."""
    squares = 2.0 * float(np.einsum("ij,ij->", gram, gram)) - float(np.square(gram.diagonal()).sum())
    return math.sqrt(max(squares, 0.0))
