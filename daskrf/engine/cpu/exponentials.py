"""Kernels of the distance in single precision: from inner products to values in one pass over them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.engine.cpu.jit import jit

__all__ = ["radial_values"]

Array = npt.NDArray[Any]

_LOG2_E = np.float32(1.0 / math.log(2.0))
_LOWEST = np.float32(-126.0)  # the smallest normal power of two
# 2^f for |f| <= 1/2: the Taylor series, whose error is below that of single precision, and 1 exactly at 0.
_POWERS = tuple(np.float32(math.log(2.0) ** k / math.factorial(k)) for k in range(8))


@jit
def _exp2(t: Any) -> Any:
    """Return 2^t of a float32 t <= 0, 0 below the smallest normal number."""
    t = max(t, _LOWEST)
    whole = np.floor(t + np.float32(0.5))
    f = t - whole
    power = _POWERS[7]
    power = power * f + _POWERS[6]
    power = power * f + _POWERS[5]
    power = power * f + _POWERS[4]
    power = power * f + _POWERS[3]
    power = power * f + _POWERS[2]
    power = power * f + _POWERS[1]
    power = power * f + _POWERS[0]
    scale = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(np.float32)
    return power * scale if t > _LOWEST else np.float32(0.0)


@jit
def _values(own: Array, others: Array, factor: Any, root: bool, a: Any, b: Any, out: Array) -> None:
    zero, one, two, most = np.float32(0.0), np.float32(1.0), np.float32(2.0), np.float32(1e6)
    for i in range(own.size):
        row, length = out[i], own[i]
        if root:
            for j in range(others.size):
                # Beyond the largest z the exponential is 0, and the polynomial must stay finite.
                z = np.sqrt(min(max(length + others[j] - two * row[j], zero) * factor, most))
                row[j] = (one + (a + b * z) * z) * _exp2(-z * _LOG2_E)
        else:
            for j in range(others.size):
                z = max(length + others[j] - two * row[j], zero) * factor
                row[j] = _exp2(-z * _LOG2_E)


def radial_values(
    own: Array, others: Array, factor: float, form: tuple[bool, float, float], out: Array
) -> None:
    """Make kernel values of inner products, in place; see `Engine`."""
    root, a, b = form
    with np.errstate(all="ignore"):
        _values(own, others, np.float32(factor), root, np.float32(a), np.float32(b), out)
