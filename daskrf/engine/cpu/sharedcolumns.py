"""Sums over common columns of pairs of sparse rows, and the Tanimoto coefficients from them.

The rows on the right are stored by column, in blocks of rows. Columns that occur in many rows of the right
are dense vectors over a block's rows, so that one vector instruction serves up to 32 rows; the others are
lists of (row, value). A row on the left sums its dense columns first, then the others: `_totals` sums a
row's own terms in the same order, so that the coefficient of equal rows is exactly 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from daskrf.engine import QUOTIENT, RATIO, Rows
from daskrf.engine.cpu.jit import jit

Array = npt.NDArray[np.number]

# Rows of a block, by bytes per number: its sums stay in the L1 cache, dense columns in the L2 cache.
_WIDTH = {1: 2048, 2: 2048, 8: 1024}
_POINTERS = 4  # maximum pointers per entry, so that memory is bounded whatever the number of columns
# A column is dense if at least one row in this many has it: chosen by measurement, by bytes per number.
# Memory is thus at most this many numbers per entry.
_SPARSEST = {1: 64, 2: 40, 8: 12}

_NARROW = np.dtype(np.uint8)  # of terms whose sums are added up in runs

_FACTOR = np.uint64(0x9E3779B1)
_LOW = np.uint64(0xFFFFFFFF)  # the product with the factor cannot overflow, which plain Python warns of
_SHIFT = np.uint64(12)


@jit
def _fill_table(columns: Array, keys: Array, places: Array) -> None:
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
def _look_up(wanted: Array, keys: Array, places: Array, numbers: Array, out: Array) -> None:
    """Write `numbers` of each wanted column's place to `out`, -1 if the column is not in the table."""
    mask = keys.size - 1
    for i in range(wanted.size):
        slot = np.int64(((np.uint64(wanted[i]) & _LOW) * _FACTOR) >> _SHIFT) & mask
        while keys[slot] >= 0 and keys[slot] != wanted[i]:
            slot = (slot + 1) & mask
        out[i] = numbers[places[slot]] if keys[slot] >= 0 else -1


@jit
def _totals(indptr: Array, numbers: Array, data: Array, n_dense: int, square: bool, out: Array) -> None:
    """Write the sum of each row's values, or of their squares, in the order of `_coefficients`."""
    for i in range(out.size):
        total = 0.0
        for kind in range(3):  # dense columns, listed ones, and those that the right lacks
            for entry in range(indptr[i], indptr[i + 1]):
                number = numbers[entry]
                kind_of = 2 if number < 0 else (0 if number < n_dense else 1)
                if kind_of == kind:
                    value = np.float64(data[entry])
                    total += value * value if square else value
        out[i] = total


@jit
def _add_minima(acc: Array, columns: Array, chosen: Array, values: Array) -> None:
    # Four columns at a time: sums are read and written once for four terms, which are added in order.
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
def _add_narrow_minima(
    acc: Array, columns: Array, chosen: Array, values: Array, narrow: Array, limit: int
) -> None:
    """Add minima in runs whose sums fit in the narrow type of `columns` and `narrow`, up to `limit`.

    A sum of minima is at most the sum of the values on the left. Narrow sums take as many rows again in a
    vector register, and half the cache.
    """
    start = 0
    while start < chosen.size:
        stop, total = start, np.int64(0)
        while stop < chosen.size and total + values[stop] <= limit:
            total += values[stop]
            stop += 1
        narrow[:] = 0
        _add_minima(narrow, columns, chosen[start:stop], values[start:stop])
        for j in range(acc.size):
            acc[j] += narrow[j]
        start = stop


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
    elif mode == RATIO:
        for j in range(out.size):
            both = total + sums[j]
            out[j] = np.float64(acc[j]) / both if both > 0.0 else 1.0
    else:
        for j in range(out.size):
            out[j] = acc[j]


@jit
def _coefficients(
    left: tuple[Array, ...],
    right: tuple[Array, ...],
    rows: Array,
    multiply: bool,
    limit: int,
    mode: int,
    acc: Array,
    out: Array,
) -> None:
    """Write the coefficients of the left rows `rows`, with all rows of the right, to the rows of `out`.

    `left` is (indptr, numbers, data, totals): CSR whose columns are column numbers of the right, -1 for a
    column that it lacks. `right` is (dense, pointers, listed_rows, listed_values, sums): `dense` of shape
    (blocks, n_dense, width) has the values of columns 0 .. n_dense - 1; the entries of column n_dense + c in
    block b are pointers[b, c] .. pointers[b, c + 1]. The terms are minima or products; sums have the type of
    `acc`, of shape (width,), and must fit in it. `limit` is 0, or the largest number of the type of `dense`
    if that is narrower; then no value is larger, and the terms are minima.
    """
    indptr, numbers, data, left_totals = left
    dense, pointers, listed_rows, listed_values, sums = right
    n_dense, width = dense.shape[1], dense.shape[2]
    narrow = np.empty(width, dense.dtype)
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
            if limit:
                _add_narrow_minima(acc, dense[block], chosen[:count], values[:count], narrow, limit)
            elif multiply:
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


class _Columns(NamedTuple):
    """The columns in one numeric type, and each row's total."""

    numbers: Array  # of the sorted columns: dense ones are 0 .. n_dense - 1, listed ones follow
    n_dense: int
    arrays: tuple[Array, Array, Array, Array]
    sums: Array


class _Overlaps:
    """The columns of some rows, prepared for sums with rows of any numeric type; see `Engine.overlaps`."""

    def __init__(self, right: Rows, multiply: bool) -> None:
        # Only columns that occur are numbered: unfolded identifiers have 2**32 columns.
        self._right = right
        self._multiply = multiply
        columns, places, self._frequencies = np.unique(right.columns, return_inverse=True, return_counts=True)
        self._places = places.ravel()
        size = 4 << int(columns.size).bit_length()
        self._keys, self._slots = np.empty(size, np.int64), np.zeros(size, np.int32)
        _fill_table(columns, self._keys, self._slots)
        self._typed: dict[np.dtype[np.generic], _Columns] = {}

    def __call__(
        self, left: Rows, kind: npt.DTypeLike, rows: Array | None, mode: int, out: Array
    ) -> tuple[Array, Array]:
        """Write the coefficients of the rows `rows` of `left` with all rows here to the rows of `out`."""
        sums_of, indptr = np.dtype(kind), left.pointer.astype(np.int64, copy=False)
        dtype = self._type_of_terms(sums_of, left.values)
        if dtype not in self._typed:
            self._typed[dtype] = self._in_type(dtype)
        typed = self._typed[dtype]
        numbers = np.empty(left.columns.size, np.int32)
        _look_up(left.columns, self._keys, self._slots, typed.numbers, numbers)
        # Totals are of the original values, not the clipped ones.
        sums = self._totals(indptr, left.values, numbers, typed.n_dense)
        left_rows = indptr, numbers, _clipped(left.values, dtype), sums
        rows = np.arange(sums.size) if rows is None else rows
        limit = np.iinfo(_NARROW).max if dtype != sums_of else 0
        acc = np.empty(typed.arrays[0].shape[2], sums_of)
        _coefficients(left_rows, (*typed.arrays, typed.sums), rows, self._multiply, limit, mode, acc, out)
        return sums, typed.sums

    def _type_of_terms(self, sums: np.dtype[np.generic], values: Array) -> np.dtype[np.generic]:
        """Return the type of terms: bytes for minima with small `values` if sums are integers."""
        if self._multiply or sums.kind != "u" or values.max(initial=0) > np.iinfo(_NARROW).max:
            return sums
        return _NARROW

    def _totals(self, indptr: Array, data: Array, numbers: Array, n_dense: int) -> Array:
        sums = np.empty(indptr.size - 1)
        # One type per argument, so that only one version is compiled.
        _totals(indptr, numbers, data.astype(np.float64, copy=False), n_dense, self._multiply, sums)
        return sums

    def _in_type(self, dtype: np.dtype[np.generic]) -> _Columns:
        indptr = self._right.pointer.astype(np.int64, copy=False)
        m, data = indptr.size - 1, _clipped(self._right.values, dtype)
        is_dense = self._frequencies * _SPARSEST[dtype.itemsize] >= m
        n_dense = int(np.count_nonzero(is_dense))
        n_listed = is_dense.size - n_dense
        numbers = np.empty(is_dense.size, np.int32)
        numbers[is_dense] = np.arange(n_dense)
        numbers[~is_dense] = n_dense + np.arange(n_listed)
        n_blocks = max(1, min(-(-m // _WIDTH[dtype.itemsize]), (_POINTERS * data.size) // (n_listed + 1)))
        width = -(-m // n_blocks)
        n_blocks = -(-m // width) if m else 0
        places = numbers[self._places]
        block, row = np.divmod(np.repeat(np.arange(m), np.diff(indptr)), max(1, width))
        dense = np.zeros((n_blocks, n_dense, width), dtype)
        in_dense = places < n_dense
        dense[block[in_dense], places[in_dense], row[in_dense]] = data[in_dense]
        list_of = block[~in_dense] * n_listed + places[~in_dense] - n_dense
        # A stable sort keeps the rows of a list in order.
        order = np.argsort(list_of, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(list_of, minlength=n_blocks * n_listed))])
        at = np.arange(n_blocks)[:, None] * n_listed + np.arange(n_listed + 1)
        arrays = dense, ends[at], row[~in_dense][order].astype(np.int32), data[~in_dense][order]
        return _Columns(numbers, n_dense, arrays, self._totals(indptr, self._right.values, places, n_dense))


def _clipped(data: Array, dtype: npt.DTypeLike) -> Array:
    """Return nonnegative values in an unsigned integer type, clipped to its largest value."""
    dtype = np.dtype(dtype)
    if dtype.kind == "u" and np.can_cast(dtype, data.dtype):  # else no value is above
        data = np.minimum(data, np.iinfo(dtype).max)
    return data.astype(dtype, copy=False)


def overlaps(right: Rows, *, multiply: bool) -> _Overlaps:
    """Prepare rows for sums over the columns that they share with other rows; see `Engine`."""
    return _Overlaps(right, multiply)
