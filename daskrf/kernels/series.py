"""Power series with coefficients of at least 0: shares of their terms, and their values."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

__all__ = ["cut", "horner", "poisson", "power"]

_TAIL = 2.0**-53  # what a cut series may lack of its sum 1: less than the sum's own rounding

Array = npt.NDArray[np.float64]


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
