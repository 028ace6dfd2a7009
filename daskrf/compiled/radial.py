"""Kernels of the distance in single precision: from inner products to values in one pass over them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.compiled.jit import jit

__all__ = ["centred", "radial_values"]

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
    """Make kernel values of inner products x.y, in place: q(z) exp(-z), z = factor |x - y|^2 or its root.

    Parameters
    ----------
    own, others : float32 arrays, shapes (n,) and (m,)
        Squared lengths. A row of infinite length gets zeros.
    factor : float
    form : (bool, float, float)
        Whether z is the root, and then a and b of q(z) = 1 + a z + b z^2; else q is 1.
    out : C-contiguous float32 array, shape (n, m)
    """
    root, a, b = form
    with np.errstate(all="ignore"):
        _values(own, others, np.float32(factor), root, np.float32(a), np.float32(b), out)


@jit
def _centred(rows: Array, centre: Array, limit: float, lengths: Array, out: Array) -> None:
    n, d = rows.shape
    whole = d // 4 * 4
    for i in range(n):
        row, own = rows[i], out[i]
        for j in range(d):
            own[j] = np.float32(row[j] - centre[j])
        # Four running sums in a fixed order: faster than one, and the same on every machine.
        p, q, r, s = 0.0, 0.0, 0.0, 0.0
        for j in range(0, whole, 4):
            a, b = row[j] - centre[j], row[j + 1] - centre[j + 1]
            c, e = row[j + 2] - centre[j + 2], row[j + 3] - centre[j + 3]
            p, q, r, s = p + a * a, q + b * b, r + c * c, s + e * e
        for j in range(whole, d):
            p += (row[j] - centre[j]) * (row[j] - centre[j])
        total = (p + q) + (r + s)
        if total <= limit:
            lengths[i] = np.float32(total)
        else:
            lengths[i] = np.float32(np.inf)
            own[:] = np.float32(0.0)


def centred(
    rows: npt.NDArray[np.float64], centre: npt.NDArray[np.float64], limit: float
) -> tuple[Array, Array]:
    """Return rows less the centre, and their squared lengths, float32; beyond `limit`, zeros and infinity.

    Parameters
    ----------
    rows : C-contiguous float64 array, shape (n, d)
    centre : float64 array, shape (d,)
    limit : float
        Below the largest float32.
    """
    out, lengths = np.empty(rows.shape, np.float32), np.empty(rows.shape[0], np.float32)
    with np.errstate(all="ignore"):
        _centred(rows, centre, limit, lengths, out)
    return out, lengths
