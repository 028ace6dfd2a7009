"""Norms of sparse and dense rows, and rows divided by them: the same bytes on every machine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.compiled.jit import jit

__all__ = [
    "normalise",
    "scaled_rows",
    "squared_distances",
    "squared_norms",
    "subtract_close",
    "subtract_close_sparse",
    "unit_rows",
]

Array = npt.NDArray[Any]

SUMS = 8
"""Running sums of a dense row."""

CLOSE = 2.0**-20
"""Share of two squared lengths below which the squared distance that they give has lost too many digits."""


@jit
def _unit_rows(pointer: Array, data: Array, root: bool, norms: Array, values: Array) -> None:
    for row in range(norms.size):
        total = np.float64(0.0)
        for i in range(pointer[row], pointer[row + 1]):
            value = np.float64(data[i])
            total += value if root else value * value
        norms[row] = total
        length = np.sqrt(total)
        for i in range(pointer[row], pointer[row + 1]):
            value = np.float64(data[i])
            values[i] = np.float32((np.sqrt(value) if root else value) / length)


def unit_rows(
    pointer: npt.NDArray[np.int64], data: Array, *, root: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32]]:
    """Return the squared norms of sparse rows, float64, and their values divided by the norms, float32.

    With `root` the values' square roots take their place; the squared norm is then the sum of the values,
    exact for counts.
    """
    norms, values = np.empty(pointer.size - 1), np.empty(data.size, np.float32)
    with np.errstate(all="ignore"):
        _unit_rows(pointer, data, root, norms, values)
    return norms, values


@jit
def _normalise(features: Array) -> None:
    sums = np.empty(SUMS, np.float64)
    whole = features.shape[1] // SUMS * SUMS
    for row in features:
        # Several running sums in a fixed order: faster than one, and the same on every machine.
        sums[:] = 0.0
        for start in range(0, whole, SUMS):
            for lane in range(SUMS):
                value = np.float64(row[start + lane])
                sums[lane] += value * value
        for lane in range(features.shape[1] - whole):
            value = np.float64(row[whole + lane])
            sums[lane] += value * value
        total = 0.0
        for lane in range(SUMS):
            total += sums[lane]
        if total > 0.0:
            scale = 1.0 / math.sqrt(total)
            for m in range(row.size):
                row[m] = np.float32(scale * np.float64(row[m]))


def normalise(features: npt.NDArray[np.float32]) -> None:
    """Scale every row of `features`, in place, to length 1; a row of zeros stays as it is."""
    _normalise(features)


@jit
def _squared_norms(pointer: Array, data: Array, norms: Array) -> None:
    for row in range(norms.size):
        total = np.float64(0.0)
        for i in range(pointer[row], pointer[row + 1]):
            value = np.float64(data[i])
            total += value * value
        norms[row] = total


def squared_norms(pointer: Array, data: Array) -> npt.NDArray[np.float64]:
    """Return the squared length of each sparse row, float64, added up in the order of the entries."""
    norms = np.empty(pointer.size - 1)
    with np.errstate(all="ignore"):
        _squared_norms(pointer.astype(np.int64, copy=False), data.astype(np.float64, copy=False), norms)
    return norms


@jit
def _squared_distances(own: Array, others: Array, products: Array) -> None:
    for i in range(own.size):
        row = products[i]
        for j in range(others.size):
            row[j] = max(own[i] + others[j] - 2.0 * row[j], 0.0)


def squared_distances(own: Array, others: Array, products: Array) -> None:
    """Make squared distances of inner products x.y, in place: |x|^2 + |y|^2 - 2 x.y, at least 0.

    Parameters
    ----------
    own, others : float64 arrays, shapes (n,) and (m,)
        Squared lengths.
    products : C-contiguous float64 array, shape (n, m)
    """
    with np.errstate(all="ignore"):
        _squared_distances(own, others, products)


@jit
def _subtract_close(own: Array, others: Array, left: Array, right: Array, squares: Array) -> None:
    d = left.shape[1]
    whole = d // 4 * 4
    for i in range(own.size):
        row, x = squares[i], left[i]
        for j in range(others.size):
            if row[j] <= CLOSE * (own[i] + others[j]):
                y = right[j]
                # Four running sums in a fixed order: faster than one, and the same on every machine.
                p, q, r, s = 0.0, 0.0, 0.0, 0.0
                for k in range(0, whole, 4):
                    a, b, c, e = x[k] - y[k], x[k + 1] - y[k + 1], x[k + 2] - y[k + 2], x[k + 3] - y[k + 3]
                    p, q, r, s = p + a * a, q + b * b, r + c * c, s + e * e
                for k in range(whole, d):
                    p += (x[k] - y[k]) * (x[k] - y[k])
                row[j] = (p + q) + (r + s)


def subtract_close(own: Array, others: Array, left: Array, right: Array, squares: Array) -> None:
    """Make the squared distances of close dense rows anew, in place, by subtraction.

    Parameters
    ----------
    own, others : float64 arrays, shapes (n,) and (m,)
        The squared lengths that the squared distances come from, of rows that may have been moved.
    left, right : C-contiguous float64 arrays, shapes (n, d) and (m, d)
    squares : C-contiguous float64 array, shape (n, m)
    """
    with np.errstate(all="ignore"):
        _subtract_close(own, others, left, right, squares)


@jit
def _subtract_close_sparse(own: Array, others: Array, left: Any, right: Any, squares: Array) -> None:
    pointer, columns, values = left
    right_pointer, right_columns, right_values = right
    for i in range(own.size):
        row, last = squares[i], pointer[i + 1]
        for j in range(others.size):
            if row[j] <= CLOSE * (own[i] + others[j]):
                k, l, right_last, total = pointer[i], right_pointer[j], right_pointer[j + 1], 0.0
                while k < last or l < right_last:
                    if l >= right_last or (k < last and columns[k] < right_columns[l]):
                        difference = values[k]
                        k += 1
                    elif k >= last or right_columns[l] < columns[k]:
                        difference = right_values[l]
                        l += 1
                    else:
                        difference = values[k] - right_values[l]
                        k += 1
                        l += 1
                    total += difference * difference
                row[j] = total


def subtract_close_sparse(own: Array, others: Array, left: Any, right: Any, squares: Array) -> None:
    """As :func:`subtract_close`, of sparse rows.

    `left` and `right` are each the pointer and the columns (int64, ascending in a row) and the values
    (float64) of a CSR matrix.
    """
    with np.errstate(all="ignore"):
        _subtract_close_sparse(own, others, left, right, squares)


def scaled_rows(
    pointer: Array, data: Array, ordinary: int = 400
) -> tuple[npt.NDArray[np.float64] | None, npt.NDArray[np.int64]]:
    """Return the values of sparse rows scaled by powers of two, float64, and each row's binary exponent.

    A row whose largest value lies between 2^-ordinary and 2^ordinary is not scaled: its exponent is 0. The
    values of another one are divided by 2^exponent, which leaves the largest between 1/2 and 1. Where no row
    needs it, the values are None.
    """
    exponents = np.zeros(pointer.size - 1, np.int64)
    sizes = np.abs(data.astype(np.float64, copy=False))
    if not sizes.size or (sizes.max() <= 2.0**ordinary and sizes.min() >= 2.0**-ordinary):
        return None, exponents
    counts = np.diff(pointer)
    filled = counts > 0
    # Empty rows are left out: reduceat would give them a value of the next row.
    found = np.frexp(np.maximum.reduceat(sizes, pointer[:-1][filled]))[1]
    exponents[filled] = np.where(np.abs(found) > ordinary, found, 0)
    shifts = np.repeat(exponents, counts).astype(np.int32)
    return np.ldexp(data.astype(np.float64, copy=False), -shifts), exponents
