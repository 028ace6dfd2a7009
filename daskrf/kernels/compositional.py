"""Compositional kernels of the min-max Tanimoto kernel: power series with coefficients of at least 0."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.kernels.base import Kernel, Prepared, register
from daskrf.kernels.tanimoto import TanimotoMinMax

__all__ = ["CompositionalTanimoto", "cut", "horner", "poisson", "power"]

_SERIES = ("power", "exponential", "ratio", "coefficients")
_TAIL = 2.0**-53  # what a cut series may lack of its sum 1: less than the sum's own rounding
_LARGEST_GAMMA = 1e6  # the series of exp has about gamma terms, which must fit in memory
_MOST_TERMS = 10**6

Array = npt.NDArray[np.float64]


@register
class CompositionalTanimoto(Kernel):
    """k(x, y) = f(T) / f(1), T the min-max Tanimoto kernel and f(T) = sum_n a_n T^n with all a_n >= 0.

    Products and sums of positive definite kernels are positive definite (Schur), so k is, too, and
    k(x, x) = 1. Source: Kar & Karnick 2012, supplement, section 10; T is Tripp et al. 2023,
    equation 3.

    Parameters
    ----------
    series : {"power", "exponential", "ratio", "coefficients"}
        - "power": T^degree;
        - "exponential": exp(gamma (T - 1));
        - "ratio": T / (2 - T), on sets the coefficient of Sokal and Sneath;
        - "coefficients": (a_0 + a_1 T + a_2 T^2 + ...) / (a_0 + a_1 + a_2 + ...).
    degree : int, optional
        For "power": 1 or more; default 2.
    gamma : float, optional
        For "exponential": above 0 and at most 1e6; default 1.
    coefficients : sequence of float, optional
        For "coefficients": a_0, a_1, ..., finite and at least 0, not all 0.

    Raises
    ------
    InputError
        If the series is unknown, or a parameter is out of its range or belongs to another series.

    Examples
    --------
    >>> CompositionalTanimoto("power", degree=2)([[2, 0, 1]], [[1, 1, 1]]).tolist()
    [[0.25]]
    >>> CompositionalTanimoto("coefficients", coefficients=(1, 0, 3)).degree_probabilities().tolist()
    [0.25, 0.0, 0.75]
    """

    def __init__(
        self,
        series: str = "power",
        *,
        degree: int | None = None,
        gamma: float | None = None,
        coefficients: Sequence[float] | None = None,
    ) -> None:
        if series not in _SERIES:
            raise InputError(f"series must be one of {', '.join(_SERIES)}, not {series!r}.")
        given = {"degree": degree, "gamma": gamma, "coefficients": coefficients}
        own = {"power": "degree", "exponential": "gamma", "coefficients": "coefficients"}.get(series)
        for name, value in given.items():
            if value is not None and name != own:
                raise InputError(f"{name} is no parameter of the series {series!r}; leave it out.")
        self.series = series
        self.degree = _degree(2 if degree is None else degree) if series == "power" else None
        self.gamma = _gamma(1.0 if gamma is None else gamma) if series == "exponential" else None
        self.coefficients = _coefficients(coefficients) if series == "coefficients" else None

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the constructor that the series has, JSON-able."""
        own: dict[str, Any] = {"degree": self.degree, "gamma": self.gamma}
        if self.coefficients is not None:
            own["coefficients"] = list(self.coefficients)
        return {"series": self.series} | {name: value for name, value in own.items() if value is not None}

    def degree_probabilities(self) -> Array:
        """Return a_n / f(1), n = 0, 1, ...: the weight of T^n, which random features draw degrees by.

        Returns
        -------
        float64 array, shape (N + 1,)
            N is the smallest degree beyond which less than 2**-53 is left in all. The numbers come from
            sums, products and quotients alone, so that they are the same on every machine.
        """
        if self.degree is not None:
            return np.eye(1, self.degree + 1, self.degree)[0]
        if self.gamma is not None:
            return poisson(self.gamma)
        if self.coefficients is not None:
            # Scaled first: the sum of large coefficients could overflow.
            weights = np.array(self.coefficients) / max(self.coefficients)
            return cut(weights / math.fsum(weights))
        return cut(np.concatenate([[0.0], np.ldexp(1.0, -np.arange(1, 64))]))

    def of_similarities(self, T: npt.ArrayLike) -> Array:
        """Return f(T) / f(1) of min-max Tanimoto similarities, float64 of the shape of `T`.

        Parameters
        ----------
        T : array of float, any shape, values from 0 to 1
        """
        return self._composed(np.array(T, dtype=np.float64))

    def against(self, Y: Any) -> Prepared:
        """Return the function X -> k(X, Y), the columns of `Y` prepared; see `Kernel`."""
        similarities = TanimotoMinMax().against(Y)

        def composed(X: Any, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
            return self._composed(similarities(X)).astype(dtype, copy=False)

        return composed

    def distance(self, X: Any, Y: Any = None) -> Array:
        """Return sqrt(1 - k), the distance of x and y in the kernel's Hilbert space divided by sqrt(2).

        |k_x - k_y|^2 = k(x, x) + k(y, y) - 2 k(x, y) = 2 (1 - k), hence a metric (as Tripp et al. 2023,
        corollary 4.2, for T_dp) wherever k determines the row; its rounding error is about 1e-8.
        """
        squared = self(X, Y)
        np.subtract(1.0, squared, out=squared)
        np.maximum(squared, 0.0, out=squared)
        return np.sqrt(squared, out=squared)

    def _composed(self, T: Array) -> Array:
        """Write f(T) / f(1) over `T`; exactly 1 where T is."""
        if self.degree is not None:
            return power(T, self.degree)
        if self.gamma is not None:
            T -= 1.0
            T *= self.gamma
            return np.exp(T, out=T)
        if self.coefficients is not None:
            probabilities = self.degree_probabilities()
            # The same operations in the same order at T = 1, so that the quotient is exactly 1 there.
            values = horner(probabilities, T)
            values /= horner(probabilities, np.ones(()))
            return values
        T /= 2.0 - T
        return T


def _degree(degree: Any) -> int:
    try:
        number = operator.index(degree)
    except TypeError:
        number = 0
    if not 1 <= number <= _MOST_TERMS:
        raise InputError(f"degree must be an integer from 1 to {_MOST_TERMS:,}, not {degree!r}.")
    return number


def _gamma(gamma: Any) -> float:
    number = _number(gamma)
    # Not a number fails the comparison, too.
    if not 0.0 < number <= _LARGEST_GAMMA:
        raise InputError(f"gamma must be a number above 0 and at most {_LARGEST_GAMMA:g}, not {gamma!r}.")
    return number


def _coefficients(coefficients: Any) -> tuple[float, ...]:
    if coefficients is None or isinstance(coefficients, str) or not hasattr(coefficients, "__len__"):
        raise InputError(
            "The series 'coefficients' needs coefficients=(a_0, a_1, ...), numbers of at least 0."
        )
    if len(coefficients) > _MOST_TERMS:
        raise InputError(f"There are {len(coefficients):,} coefficients; {_MOST_TERMS:,} is the most.")
    numbers = tuple(_number(a) for a in coefficients)
    for degree, a in enumerate(numbers):
        if not 0.0 <= a < math.inf:
            raise InputError(
                f"The coefficient of degree {degree} must be a finite number of at least 0, not {a}: a "
                "negative one does not give a positive definite kernel."
            )
    if not any(numbers):
        raise InputError("All coefficients are 0; at least one must be above 0.")
    return numbers


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def poisson(gamma: float) -> Array:
    """Return the probabilities gamma^n exp(-gamma) / n! by their ratios, outwards from the largest."""
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
    return cut(weights / math.fsum(around))


def cut(probabilities: Array) -> Array:
    """Return `probabilities` without the longest end that sums to less than 2**-53."""
    tails = np.cumsum(probabilities[::-1])[::-1]
    return probabilities[: np.count_nonzero(tails >= _TAIL)].copy()


def horner(coefficients: Array, T: Array) -> Array:
    values = np.full(T.shape, coefficients[-1])
    for a in coefficients[-2::-1]:
        values *= T
        values += a
    return values


def power(T: Array, degree: int) -> Array:
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
