"""Floating-point kernels: projections of sparse rows, cosines and sines, radial kernels, weighted sums.

Loops over plain arrays that LLVM vectorizes: SciPy's product of sparse rows processes one entry at a
time, and NumPy's cosines and exponentials take several passes.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from daskrf.engine import Rows
from daskrf.engine.cpu.jit import jit

Array = npt.NDArray[np.number]

# sin(2 pi u) = u p(u^2) and cos(2 pi u) = 1 + u^2 q(u^2) for |u| <= 1/8: minimax fits, whose errors of 1e-9
# and 3e-8 are below single-precision rounding.
_SINE = tuple(np.float32(c) for c in (6.28318522, -41.34162804, 81.58812456, -75.24006054))
_COSINE = tuple(np.float32(c) for c in (-19.73916726, 64.92322855, -83.66591583))

_LANES = 256  # sums of a row side by side, in a fixed order: vector units of any width, and the nearest cache

_LOG2_E = np.float32(1.0 / math.log(2.0))
_LOWEST = np.float32(-126.0)  # the smallest normal power of two
# 2^f for |f| <= 1/2: the Taylor series, with an error below single precision, and exactly 1 at 0.
_POWERS = tuple(np.float32(math.log(2.0) ** k / math.factorial(k)) for k in range(8))


@jit
def _cosines(phases: Array, n_pairs: int, scale: np.float32, out: Array) -> None:
    one, four, fourth = np.float32(1.0), np.float32(4.0), np.float32(0.25)
    for row in range(out.shape[0]):
        turns, target = phases[row], out[row]
        for j in range(n_pairs):
            rest = turns[j] - np.rint(turns[j])
            quarter = np.rint(rest * four)
            u = rest - quarter * fourth
            square = u * u
            sine = u * (_SINE[0] + square * (_SINE[1] + square * (_SINE[2] + square * _SINE[3])))
            cosine = one + square * (_COSINE[0] + square * (_COSINE[1] + square * _COSINE[2]))
            count = np.int32(quarter)
            swapped = (count & 1) != 0
            first, second = (sine if swapped else cosine), (cosine if swapped else sine)
            target[2 * j] = (-first if (count + 1) & 2 else first) * scale
            target[2 * j + 1] = (-second if count & 2 else second) * scale
        target[2 * n_pairs :] = np.float32(0.0)


def cosines(phases: npt.NDArray[np.float32], scale: float, out: npt.NDArray[np.float32]) -> None:
    """Write cosines and sines of phases in turns; see `Engine`."""
    _cosines(phases, out.shape[1] // 2, np.float32(scale), out)


@jit
def _project(pointer: Array, columns: Array, values: Array, directions: Array, out: Array) -> None:
    for row in range(out.shape[0]):
        total, start, stop = out[row], pointer[row], pointer[row + 1]
        total[:] = np.float32(0.0)
        # Four entries at a time: sums are read and written once for four terms.
        whole = start + (stop - start) // 4 * 4
        for e in range(start, whole, 4):
            a, b, c, d = values[e], values[e + 1], values[e + 2], values[e + 3]
            p, q = directions[columns[e]], directions[columns[e + 1]]
            r, s = directions[columns[e + 2]], directions[columns[e + 3]]
            for j in range(total.size):
                total[j] = total[j] + a * p[j] + b * q[j] + c * r[j] + d * s[j]
        for e in range(whole, stop):
            a, p = values[e], directions[columns[e]]
            for j in range(total.size):
                total[j] += a * p[j]


def project(rows: Rows, directions: npt.NDArray[np.float32], out: npt.NDArray[np.float32]) -> None:
    """Write the products of sparse rows with all directions; see `Engine`."""
    _project(*rows, directions, out)


@jit
def _exp2(t: np.float32) -> np.float32:
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
def _values(
    left: Array, right: Array, factor: np.float32, root: bool, a: np.float32, b: np.float32, out: Array
) -> None:
    zero, one, two, most = np.float32(0.0), np.float32(1.0), np.float32(2.0), np.float32(1e6)
    for i in range(left.size):
        row, length = out[i], left[i]
        if root:
            for j in range(right.size):
                # Beyond the largest z the exponential is 0, and the polynomial must stay finite.
                z = np.sqrt(min(max(length + right[j] - two * row[j], zero) * factor, most))
                row[j] = (one + (a + b * z) * z) * _exp2(-z * _LOG2_E)
        else:
            for j in range(right.size):
                z = max(length + right[j] - two * row[j], zero) * factor
                row[j] = _exp2(-z * _LOG2_E)


def radial_values(
    left: Array, right: Array, factor: float, form: tuple[bool, float, float], out: Array
) -> None:
    """Turn inner products into kernel values, in place; see `Engine`."""
    root, a, b = form
    with np.errstate(all="ignore"):
        _values(left, right, np.float32(factor), root, np.float32(a), np.float32(b), out)


@jit
def _add_squares(values: Array, scales: Array, largest: Array, total: Array) -> None:
    zero, lanes = np.float32(0.0), _LANES
    highest, sums = np.empty(lanes, np.float32), np.empty(lanes, np.float32)
    for i in range(values.shape[0]):
        highest[:] = zero
        sums[:] = zero
        for start in range(0, values.shape[1], lanes):
            row, scale = values[i, start : start + lanes], scales[start : start + lanes]
            for j in range(row.size):
                value = row[j] * scale[j]
                highest[j] = value if value > highest[j] else highest[j]
                sums[j] += value * value
        best, sum_ = zero, zero
        for j in range(lanes):
            best = max(best, highest[j])
            sum_ += sums[j]
        largest[i] = max(largest[i], best * best)
        total[i] += sum_


def add_squares(values: Array, scales: Array, largest: Array, total: Array) -> None:
    """Raise the largest square of each row, and add its squares; see `Engine`."""
    _add_squares(values, scales, largest, total)
