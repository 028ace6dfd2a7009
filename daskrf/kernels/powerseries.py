"""Exact dot-product kernels: power series of x.y with coefficients of at least 0."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MatrixLike, as_csr, check_finite, scaled_values, squared_norms
from daskrf.engine import SUM
from daskrf.errors import InputError
from daskrf.kernels.index import Index
from daskrf.kernels.kernel import Kernel, Prepared, as_integer, as_number, as_positive, short

_LARGEST_DEGREE = 1000  # binomials of larger degrees do not fit in float64
_TAIL = 2.0**-53  # a truncated series may lack this part of its sum 1: less than the sum's rounding error
_LARGEST_RATE = 1e6  # the series of exp has about this many terms, which must fit in memory

Array = npt.NDArray[np.float64]


class DotProductKernel(Kernel):
    """k(x, y) = f(x.y), f(t) = sum_n a_n t^n with all a_n >= 0, which is positive definite for any vectors.

    With `normalize` every row is first divided by its length, so that t is the cosine of x and y (a row of
    zeros stays zero). Products of integer counts are exact. For other values, sums have rounding errors, and
    their order depends on all rows on the right. In general k(x, x) = f(|x|^2) is not 1. Source: Kar &
    Karnick 2012, theorem 1 (Schoenberg 1942).
    """

    normalize: bool

    @property
    @abstractmethod
    def degree_(self) -> int | None:
        """Degree of the highest power of t, None for an infinite series."""

    @abstractmethod
    def maclaurin(self, n_terms: int) -> Array:
        """Return the coefficients a_0, a_1, ..., a_{n_terms - 1} of the series, float64."""

    @abstractmethod
    def series_words(self, of: str) -> str:
        """Return f in words for people, applied to what `of` names."""

    def words(self) -> str:
        return self.series_words("cos(x, y)" if self.normalize else "x.y")

    @abstractmethod
    def of_products(self, t: Array) -> Array:
        """Return f(t), float64 of the shape of `t`, which may be overwritten."""

    def relative(self, t: Array) -> Array:
        """Return f(t) / f(1), float64 of the shape of `t`, which may be overwritten; exactly 1 where t is."""
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.of_products(t)
            values /= self.of_products(np.ones(1))
        return values

    def probabilities(self, radius: float = 1.0) -> Array:
        """Return a_n R^(2n) / f(R^2), n = 0, 1, ...: the weight of each power for rows of length R.

        Parameters
        ----------
        radius : float, default 1.0
            R, above 0.

        Returns
        -------
        float64 array, up to the degree beyond which all further weights sum to less than 2**-53

        Raises
        ------
        InputError
            If `radius` is not a number above 0, or so large that the series cannot be weighed.
        """
        weights = _weights(self, as_positive("radius", radius))
        if isinstance(self, Exponential) and np.isfinite(weights).all():
            return weights
        if not np.isfinite(weights).all() or not weights.any():
            raise InputError(
                f"The power series of {self!r} cannot be weighed for rows of length {radius:g}; divide all "
                "rows by a length, or use normalize=True."
            )
        weights /= weights.max()
        return _cut(weights / math.fsum(weights))

    def against(self, Y: MatrixLike) -> Prepared:
        right = _rows(Y, self.normalize)
        index = Index(right, multiply=True)

        def products(X: MatrixLike, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.floating]:
            left = _rows(X, self.normalize)
            out = np.empty((left.shape[0], right.shape[0]))
            with np.errstate(over="ignore", invalid="ignore"):
                norms, right_norms = index.coefficients(left, np.float64, None, SUM, out)
                if self.normalize:
                    # For equal rows, the sum and both norms add the same terms, so this is exactly 1.
                    lengths = np.sqrt(norms[:, None] * right_norms)
                    np.divide(out, lengths, out=out, where=lengths > 0.0)
                return finite_values(self.of_products(out), self).astype(dtype, copy=False)

        return products

    def diag(self, X: MatrixLike) -> Array:
        """Return k(x, x) = f(|x|^2) of each row of `X`, float64 of shape (n,)."""
        csr = _rows(X, self.normalize)
        norms = squared_norms(csr.indptr, csr.data)
        if self.normalize:
            norms = (norms > 0.0).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            return finite_values(self.of_products(norms), self)


class Polynomial(DotProductKernel):
    """k(x, y) = (x.y + c)^degree.

    Parameters
    ----------
    degree : int, default 2
        From 0 (the constant 1) to 1000.
    c : float, default 1.0
        At least 0; 0 gives the homogeneous kernel.
    normalize : bool, default False
        Divide every row by its length first.

    Raises
    ------
    InputError
        If a parameter is out of its range; when called, if a value is not finite, or k too large for float64.

    Examples
    --------
    >>> Polynomial(2, c=1.0)([[2, 0, 1]], [[1, 1, 1]]).tolist()
    [[16.0]]
    >>> Polynomial(2).maclaurin(4).tolist()
    [1.0, 2.0, 1.0, 0.0]
    """

    name = "polynomial"

    def __init__(self, degree: int = 2, c: float = 1.0, *, normalize: bool = False) -> None:
        self.degree = check_degree(degree)
        self.c = _nonnegative("c", c)
        self.normalize = bool(normalize)

    def series_words(self, of: str) -> str:
        return f"({of} + {self.c})^{self.degree}" if self.c else f"{of}^{self.degree}"

    @property
    def degree_(self) -> int:
        """Degree of the highest power."""
        return self.degree

    def maclaurin(self, n_terms: int) -> Array:
        """Return the coefficients a_n = binomial(degree, n) c^(degree - n), n = 0 .. n_terms - 1."""
        powers = np.zeros(n_terms)
        for n in range(min(n_terms, self.degree + 1)):
            try:
                powers[n] = math.comb(self.degree, n) * self.c ** (self.degree - n)
            except OverflowError:
                powers[n] = math.inf
        return powers

    def of_products(self, t: Array) -> Array:
        """Return (t + c)^degree; `t` is overwritten."""
        t += self.c
        return _power(t, self.degree) if self.degree else np.ones_like(t)


class Exponential(DotProductKernel):
    """k(x, y) = exp(gamma x.y).

    Parameters
    ----------
    gamma : float, default 1.0
        Above 0.
    normalize : bool, default False
        Divide every row by its length first.

    Raises
    ------
    InputError
        If gamma is not above 0; when called, if a value is not finite, or k too large for float64.

    Examples
    --------
    >>> Exponential(0.5)([[2, 0, 1]], [[1, 1, 1]]).round(4).tolist()
    [[4.4817]]
    """

    name = "exponential"

    def __init__(self, gamma: float = 1.0, *, normalize: bool = False) -> None:
        self.gamma = _nonnegative("gamma", gamma)
        if self.gamma == 0.0:
            raise InputError("gamma must be above 0.")
        self.normalize = bool(normalize)

    def series_words(self, of: str) -> str:
        return f"exp({self.gamma} {of})"

    @property
    def degree_(self) -> None:
        """None: the series is infinite."""
        return

    def maclaurin(self, n_terms: int) -> Array:
        """Return the coefficients a_n = gamma^n / n!, n = 0 .. n_terms - 1."""
        factors = np.concatenate([[1.0], np.full(max(0, n_terms - 1), self.gamma)])
        factors[1:] /= np.arange(1, factors.size)
        return np.cumprod(factors)[:n_terms]

    def of_products(self, t: Array) -> Array:
        """Return exp(gamma t); `t` is overwritten."""
        t *= self.gamma
        return np.exp(t, out=t)

    def relative(self, t: Array) -> Array:
        """Return exp(gamma (t - 1)), which does not overflow even if exp(gamma) does; `t` is overwritten."""
        t -= 1.0
        return self.of_products(t)


class DotProduct(DotProductKernel):
    """k(x, y) = a_0 + a_1 x.y + a_2 (x.y)^2 + ... with given coefficients.

    Parameters
    ----------
    coefficients : sequence of float, default (0, 1)
        a_0, a_1, ..., finite and at least 0, not all 0.
    normalize : bool, default False
        Divide every row by its length first.

    Raises
    ------
    InputError
        If a coefficient is negative (the kernel would not be positive definite) or not finite; when called,
        if a value is not finite, or k too large for float64.

    Examples
    --------
    >>> DotProduct((1, 0, 2))([[2, 0, 1]], [[1, 1, 1]]).tolist()
    [[19.0]]
    """

    name = "series"

    def __init__(self, coefficients: Sequence[float] = (0.0, 1.0), *, normalize: bool = False) -> None:
        self.coefficients = _coefficients(coefficients)
        self.normalize = bool(normalize)

    def series_words(self, of: str) -> str:
        return f"the power series of {of} with coefficients {short(list(self.coefficients))}"

    @property
    def degree_(self) -> int:
        """Degree of the last coefficient that is not 0."""
        return int(np.flatnonzero(self.coefficients)[-1])

    def maclaurin(self, n_terms: int) -> Array:
        """Return the first `n_terms` coefficients, zeros after the last one."""
        result = np.zeros(n_terms)
        coefficients = np.array(self.coefficients[:n_terms])
        result[: coefficients.size] = coefficients
        return result

    def of_products(self, t: Array) -> Array:
        """Return the sum of the series at t, by Horner's rule."""
        return _horner(np.array(self.coefficients[: self.degree_ + 1]), t)

    def relative(self, t: Array) -> Array:
        """Return f(t) / f(1) from the shares of the terms, as a sum of large coefficients could overflow."""
        shares = self.probabilities()
        values = _horner(shares, t)
        values /= _horner(shares, np.ones(()))
        return values


class Ratio(DotProduct):
    """k(x, y) = t / (2 - t) = t/2 + t^2/4 + t^3/8 + ... with t = x.y, up to its 63rd power.

    Applied to the Tanimoto similarity of sets, it is the coefficient of Sokal and Sneath; see `Composition`.

    Parameters
    ----------
    normalize : bool, default False
        Divide every row by its length first.

    Examples
    --------
    >>> Ratio(normalize=True)([[2, 0, 1]], [[2, 0, 1], [0, 3, 0]]).tolist()
    [[1.0, 0.0]]
    """

    name = "ratio"

    def __init__(self, *, normalize: bool = False) -> None:
        super().__init__((0.0, *np.ldexp(1.0, -np.arange(1, 64)).tolist()), normalize=normalize)

    def series_words(self, of: str) -> str:
        return f"{of} / (2 - {of})"


def residual_bound(kernel: DotProductKernel, degree: int, radius: float) -> float:
    """Return sum_{n > degree} a_n R^(2n), which bounds the error of truncation for rows of length up to R.

    Features of the series up to `degree` are unbiased for a kernel that differs from k by no more than this.

    Parameters
    ----------
    kernel : DotProductKernel
    degree : int
        Highest power that is kept, at least 0.
    radius : float
        R, above 0: the largest Euclidean length of a row (1, with `normalize`).

    Returns
    -------
    float
        Infinite if it does not fit in a float64.

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Notes
    -----
    Source: Kar & Karnick 2012, supplement, section 9. Their rows lie in the ball of radius R of the 1-norm;
    the proof only needs the Euclidean ball.

    Examples
    --------
    >>> residual_bound(Polynomial(3, c=1.0), 1, radius=1.0)
    4.0
    >>> round(residual_bound(Exponential(), 5, radius=1.0), 6)
    0.001615
    """
    degree, radius = check_degree(degree, most=10**7), as_positive("radius", radius)
    if kernel.degree_ is not None and degree >= kernel.degree_:
        return 0.0
    with np.errstate(over="ignore"):
        return float(math.fsum(_weights(kernel, radius, degree + 1)[degree + 1 :]))


def truncation_degree(kernel: DotProductKernel, radius: float, tolerance: float) -> int:
    """Return the smallest degree whose :func:`residual_bound` is at most `tolerance` times f(R^2).

    Parameters
    ----------
    kernel : DotProductKernel
    radius : float
        R, above 0.
    tolerance : float
        At least 2**-53.

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Examples
    --------
    >>> truncation_degree(Exponential(), radius=1.0, tolerance=1e-3)
    5
    """
    if not 2.0**-53 <= as_number(tolerance) < math.inf:
        raise InputError(f"tolerance must be a number of at least 2**-53, not {tolerance!r}.")
    tails = np.cumsum(kernel.probabilities(radius)[::-1])[::-1]
    return max(0, int(np.count_nonzero(tails > tolerance)) - 1)


def _weights(kernel: DotProductKernel, radius: float, beyond: int = 0) -> Array:
    """Return a_n R^(2n), n = 0, 1, ..., for all relevant powers; those below `beyond` may be 0."""
    rate = radius * radius
    if isinstance(kernel, Exponential):
        mean = kernel.gamma * rate
        if not mean <= _LARGEST_RATE:
            return np.full(beyond + 1, math.inf)
        shares = _poisson(mean)
        if not beyond:
            return shares  # up to a factor
        # Ratios from the first relevant power give the rest of the series without cancellation.
        if mean == 0.0:
            return np.zeros(beyond + 1)
        logarithm = beyond * math.log(mean) - math.lgamma(beyond + 1)
        first = math.exp(logarithm) if logarithm < 700.0 else math.inf
        n = np.arange(beyond + 1, beyond + int(2 * mean) + 80)
        return np.concatenate([np.zeros(beyond), first * np.cumprod(np.concatenate([[1.0], mean / n]))])
    assert kernel.degree_ is not None
    coefficients = kernel.maclaurin(kernel.degree_ + 1)
    if rate == 1.0 and not beyond:  # a single quotient, which is the same on every machine
        with np.errstate(invalid="ignore"):
            return coefficients / coefficients.max()
    weights = np.zeros_like(coefficients)
    positive = coefficients > 0.0
    logarithms = np.log(coefficients[positive]) + np.flatnonzero(positive) * math.log(rate)
    # If only shares are wanted, no power is too large.
    weights[positive] = np.exp(logarithms - (0.0 if beyond else logarithms.max()))
    return weights


def _poisson(gamma: float) -> Array:
    """Return the probabilities gamma^n exp(-gamma) / n! by ratios, outwards from the largest one."""
    mode = int(gamma)
    upwards = [1.0]
    while upwards[-1] > 2.0**-120:
        upwards.append(upwards[-1] * gamma / (mode + len(upwards)))
    downwards = [1.0]
    while len(downwards) <= mode and downwards[-1] > 2.0**-120:
        downwards.append(downwards[-1] * (mode - len(downwards) + 1) / gamma)
    around = np.array(downwards[:0:-1] + upwards)
    weights = np.zeros(mode + len(upwards))
    weights[weights.size - around.size :] = around
    return _cut(weights / math.fsum(around))


def _cut(probabilities: Array) -> Array:
    """Return `probabilities` without the longest end that sums to less than 2**-53."""
    tails = np.cumsum(probabilities[::-1])[::-1]
    return probabilities[: np.count_nonzero(tails >= _TAIL)].copy()


def _horner(coefficients: Array, T: Array) -> Array:
    """Return the sum of a series at `T`."""
    values = np.full(T.shape, coefficients[-1])
    for a in coefficients[-2::-1]:
        values *= T
        values += a
    return values


def _power(T: Array, degree: int) -> Array:
    """Return T^degree by squaring, several times faster than pow; `T` is overwritten."""
    result: Array | None = None
    while True:
        if degree & 1:
            result = T.copy() if result is None else np.multiply(result, T, out=result)
        degree >>= 1
        if not degree:
            assert result is not None
            return result
        np.multiply(T, T, out=T)


def _rows(X: MatrixLike, normalize: bool) -> sp.csr_matrix:
    """Return canonical rows of finite values; if they are to be normalized, scaled by powers of two."""
    csr = check_finite(as_csr(X))
    if not normalize or not csr.nnz:
        return csr
    data, _ = scaled_values(csr.indptr, csr.data)
    return csr if data is None else sp.csr_matrix((data, csr.indices, csr.indptr), shape=csr.shape)


def finite_values(values: Array, kernel: Kernel) -> Array:
    """Return values of a kernel, or raise InputError if one is too large for float64."""
    if not np.isfinite(values).all():
        place = np.argwhere(~np.isfinite(values))[0]
        at = f"row {place[0]}" + (f" of X and row {place[1]} of Y" if place.size > 1 else "")
        raise InputError(
            f"{kernel!r} of {at} is too large for a floating-point number; divide all rows by a length, or "
            "use normalize=True."
        )
    return values


def check_degree(degree: object, most: int = _LARGEST_DEGREE) -> int:
    """Return a degree as an int, or raise InputError if it is not an integer from 0 to `most`."""
    return as_integer("degree", degree, 0, most)


def _nonnegative(name: str, value: object) -> float:
    number = as_number(value)
    if not 0.0 <= number < math.inf:
        raise InputError(
            f"{name} must be a finite number of at least 0, not {value!r}: a negative one makes coefficients "
            "of the power series negative, and the kernel not positive definite."
        )
    return number


def _coefficients(coefficients: Any) -> tuple[float, ...]:
    if isinstance(coefficients, str) or not hasattr(coefficients, "__len__") or len(coefficients) == 0:
        raise InputError("DotProduct needs coefficients=(a_0, a_1, ...), numbers of at least 0.")
    if len(coefficients) > _LARGEST_DEGREE + 1:
        raise InputError(
            f"There are {len(coefficients):,} coefficients; give at most {_LARGEST_DEGREE + 1:,}."
        )
    numbers = tuple(as_number(a) for a in coefficients)
    for degree, a in enumerate(numbers):
        if not 0.0 <= a < math.inf:
            raise InputError(
                f"The coefficient of degree {degree} must be a finite number of at least 0, not {a}: a "
                "negative one does not give a positive definite kernel."
            )
    if not any(numbers):
        raise InputError("All coefficients are 0; at least one must be above 0.")
    return numbers
