"""Sums over common columns of pairs of sparse rows, and the Tanimoto coefficients from them.

The rows on the right are given by their columns, in blocks of rows. Columns that many rows of the right have
are dense vectors of a block's rows, so that one vector instruction serves up to 32 rows; the others are lists
of (row, value). A row on the left adds up its dense columns first, then the others: :func:`totals` adds a
row's own terms in that order, too, so that the coefficient of equal rows is exactly 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.compiled.jit import jit

__all__ = ["LINEAR", "QUOTIENT", "RAW", "coefficients", "fill_table", "look_up", "totals"]

Array = npt.NDArray[Any]

QUOTIENT, LINEAR, RAW = 0, 1, 2
"""What :func:`coefficients` makes of the sum s of a pair and the totals a, b of its rows: s / (a + b - s),
s / (a + b), or s itself."""

_FACTOR = np.uint64(0x9E3779B1)
_LOW = np.uint64(0xFFFFFFFF)  # the product with the factor cannot overflow, which plain Python warns of
_SHIFT = np.uint64(12)


@jit
def fill_table(columns: Array, keys: Array, places: Array) -> None:
    """Fill a hash table of power-of-two size, above `columns.size`: `keys` (-1: empty) and their `places`."""
    keys[:] = -1
    mask = keys.size - 1
    for place in range(columns.size):
        slot = np.int64(((np.uint64(columns[place]) & _LOW) * _FACTOR) >> _SHIFT) & mask
        while keys[slot] >= 0:
            slot = (slot + 1) & mask
        keys[slot] = columns[place]
        places[slot] = place


@jit
def look_up(wanted: Array, keys: Array, places: Array, numbers: Array, out: Array) -> None:
    """Write `numbers` of each wanted column's place to `out`, -1 where the table lacks it."""
    mask = keys.size - 1
    for i in range(wanted.size):
        slot = np.int64(((np.uint64(wanted[i]) & _LOW) * _FACTOR) >> _SHIFT) & mask
        while keys[slot] >= 0 and keys[slot] != wanted[i]:
            slot = (slot + 1) & mask
        out[i] = numbers[places[slot]] if keys[slot] >= 0 else -1


@jit
def totals(indptr: Array, numbers: Array, data: Array, n_dense: int, square: bool, out: Array) -> None:
    """Write the sum of each row's values, or of their squares, in the order of :func:`coefficients`."""
    for i in range(out.size):
        total = 0.0
        for part in range(3):  # dense columns, listed ones, and those that the right lacks
            for entry in range(indptr[i], indptr[i + 1]):
                number = numbers[entry]
                own = 2 if number < 0 else (0 if number < n_dense else 1)
                if own == part:
                    value = np.float64(data[entry])
                    total += value * value if square else value
        out[i] = total


@jit
def _add_minima(acc: Array, columns: Array, chosen: Array, values: Array) -> None:
    # Four columns at a time: sums are read and written once for four terms, which are added up in order.
    whole = chosen.size // 4 * 4
    for k in range(0, whole, 4):
        a, b, c, d = values[k], values[k + 1], values[k + 2], values[k + 3]
        p, q, r, s = (
            columns[chosen[k]],
            columns[chosen[k + 1]],
            columns[chosen[k + 2]],
            columns[chosen[k + 3]],
        )
        for j in range(acc.size):
            acc[j] = acc[j] + min(a, p[j]) + min(b, q[j]) + min(c, r[j]) + min(d, s[j])
    for k in range(whole, chosen.size):
        a, p = values[k], columns[chosen[k]]
        for j in range(acc.size):
            acc[j] += min(a, p[j])


@jit
def _add_products(acc: Array, columns: Array, chosen: Array, values: Array) -> None:
    whole = chosen.size // 4 * 4
    for k in range(0, whole, 4):
        a, b, c, d = values[k], values[k + 1], values[k + 2], values[k + 3]
        p, q, r, s = (
            columns[chosen[k]],
            columns[chosen[k + 1]],
            columns[chosen[k + 2]],
            columns[chosen[k + 3]],
        )
        for j in range(acc.size):
            acc[j] = acc[j] + a * p[j] + b * q[j] + c * r[j] + d * s[j]
    for k in range(whole, chosen.size):
        a, p = values[k], columns[chosen[k]]
        for j in range(acc.size):
            acc[j] += a * p[j]


@jit
def _finish(acc: Array, total: float, sums: Array, mode: int, out: Array) -> None:
    if mode == QUOTIENT:
        for j in range(out.size):
            s = np.float64(acc[j])
            union = total + sums[j] - s
            out[j] = s / union if union > 0.0 else 1.0
    elif mode == LINEAR:
        for j in range(out.size):
            both = total + sums[j]
            out[j] = np.float64(acc[j]) / both if both > 0.0 else 1.0
    else:
        for j in range(out.size):
            out[j] = acc[j]


@jit
def coefficients(left: Any, right: Any, rows: Array, multiply: bool, mode: int, out: Array) -> None:
    """Write the coefficients of the rows `rows` of the left, with all rows of the right, to those of `out`.

    `left` is (indptr, numbers, data, totals): CSR whose columns are numbers of columns of the right, -1 for
    one that it lacks. `right` is (dense, pointers, listed_rows, listed_values, sums): `dense` of shape
    (blocks, n_dense, width) has the values of columns 0 .. n_dense - 1; column n_dense + c has in block b
    the entries pointers[b, c] .. pointers[b, c + 1]. The terms are minima, or products; sums are of
    the type of `dense`, and must fit in it.
    """
    indptr, numbers, data, left_totals = left
    dense, pointers, listed_rows, listed_values, sums = right
    n_dense, width = dense.shape[1], dense.shape[2]
    acc = np.empty(width, dense.dtype)
    chosen, values = np.empty(n_dense, np.int64), np.empty(n_dense, dense.dtype)
    for block in range(dense.shape[0]):
        start = block * width
        stop = min(start + width, sums.size)
        for i in rows:
            acc[:] = 0
            count = 0
            for entry in range(indptr[i], indptr[i + 1]):
                if 0 <= numbers[entry] < n_dense:
                    chosen[count], values[count] = numbers[entry], data[entry]
                    count += 1
            if multiply:
                _add_products(acc, dense[block], chosen[:count], values[:count])
            else:
                _add_minima(acc, dense[block], chosen[:count], values[:count])
            for entry in range(indptr[i], indptr[i + 1]):
                column = numbers[entry] - n_dense
                if column < 0:
                    continue
                value = data[entry]
                for place in range(pointers[block, column], pointers[block, column + 1]):
                    other = listed_values[place]
                    acc[listed_rows[place]] += value * other if multiply else min(value, other)
            _finish(acc, left_totals[i], sums[start:stop], mode, out[i, start:stop])
