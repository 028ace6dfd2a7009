"""The rows on the right of a Tanimoto kernel, prepared by their columns for the compiled code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import as_dense, as_rows, check_finite, row_slice
from daskrf.compiled import tanimoto as compiled
from daskrf.errors import InputError

__all__ = ["Index", "check_columns", "clipped", "dense_parts"]

# Rows of a block, by bytes of a number: its sums stay in the first-level cache, dense columns in the second.
_WIDTH = {1: 2048, 2: 2048, 8: 1024}
_POINTERS = 4  # most pointers for an entry, so that memory is bounded whatever the number of columns
# A column is dense where at least one row in so many has it: chosen by measurement, by bytes of a number.
# Memory is thus at most so many numbers for an entry.
_SPARSEST = {1: 64, 2: 40, 8: 12}
_PART = 1 << 20  # numbers of dense rows, or of sparse ones that are made dense, at a time
_FEWEST = 96  # rows of them

Array = npt.NDArray[Any]


class _Columns(NamedTuple):
    """The columns in one type of number, and each row's total."""

    numbers: Array  # of the sorted columns: dense ones are 0 .. n_dense - 1, listed ones follow
    n_dense: int
    arrays: tuple[Array, Array, Array, Array]
    sums: Array


class Index:
    """The columns of some rows, for sums over the columns that they share with other rows.

    Parameters
    ----------
    csr : scipy.sparse.csr_matrix, shape (m, d)
        Canonical. Only columns that occur are numbered: unfolded identifiers have 2**32 columns.
    multiply : bool
        Whether terms are products, and totals sums of squares; else they are minima and sums.
    """

    def __init__(self, csr: sp.csr_matrix, *, multiply: bool) -> None:
        self.csr = csr
        self._multiply = multiply
        columns, places, self._frequencies = np.unique(csr.indices, return_inverse=True, return_counts=True)
        self._places = places.ravel()
        size = 4 << int(columns.size).bit_length()
        self._keys, self._slots = np.empty(size, np.int64), np.zeros(size, np.int32)
        compiled.fill_table(columns, self._keys, self._slots)
        self._typed: dict[np.dtype[Any], _Columns] = {}

    def coefficients(
        self, left: sp.csr_matrix, data: Array, rows: Array | None, mode: int, out: Array
    ) -> tuple[Array, Array]:
        """Write the coefficients of the rows `rows` of `left` with all rows here to those of `out`.

        Parameters
        ----------
        left : scipy.sparse.csr_matrix, shape (n, d)
            Canonical.
        data : array, shape (left.nnz,)
            The values of `left` in the type that terms are added up in: an unsigned integer type, where
            values may be clipped to its range as long as all sums fit in it, or float64.
        rows : int64 array, optional
            Default: all.
        mode : int
            One of the modes of :func:`daskrf.compiled.tanimoto.coefficients`.
        out : float array, shape (n, m)

        Returns
        -------
        tuple of float64 array of shape (n,), float64 array of shape (m,)
            The totals of the rows of `left` and of those here, added up in the order of the terms.

        Raises
        ------
        InputError
            If the numbers of columns differ.
        """
        check_columns(left, self.csr)
        if data.dtype not in self._typed:
            self._typed[data.dtype] = self._in_type(data.dtype)
        typed = self._typed[data.dtype]
        numbers = np.empty(left.nnz, np.int32)
        compiled.look_up(left.indices, self._keys, self._slots, typed.numbers, numbers)
        sums = self._totals(left, numbers, typed.n_dense)
        own = left.indptr.astype(np.int64, copy=False), numbers, data, sums
        rows = np.arange(left.shape[0]) if rows is None else rows
        compiled.coefficients(own, (*typed.arrays, typed.sums), rows, self._multiply, mode, out)
        return sums, typed.sums

    def _totals(self, csr: sp.csr_matrix, numbers: Array, n_dense: int) -> Array:
        sums = np.empty(csr.shape[0])
        # One type for each argument, so that one version is compiled.
        indptr, data = csr.indptr.astype(np.int64, copy=False), csr.data.astype(np.float64, copy=False)
        compiled.totals(indptr, numbers, data, n_dense, self._multiply, sums)
        return sums

    def _in_type(self, dtype: np.dtype[Any]) -> _Columns:
        m = self.csr.shape[0]
        data = clipped(self.csr.data, dtype)
        is_dense = self._frequencies * _SPARSEST[dtype.itemsize] >= m
        n_dense = int(np.count_nonzero(is_dense))
        n_listed = is_dense.size - n_dense
        numbers = np.empty(is_dense.size, np.int32)
        numbers[is_dense] = np.arange(n_dense)
        numbers[~is_dense] = n_dense + np.arange(n_listed)
        n_blocks = max(1, min(-(-m // _WIDTH[dtype.itemsize]), (_POINTERS * data.size) // (n_listed + 1)))
        width = -(-m // n_blocks)
        n_blocks = -(-m // width) if m else 0
        own = numbers[self._places]
        block, row = np.divmod(np.repeat(np.arange(m), np.diff(self.csr.indptr)), max(1, width))
        dense = np.zeros((n_blocks, n_dense, width), dtype)
        kept = own < n_dense
        dense[block[kept], own[kept], row[kept]] = data[kept]
        list_of = block[~kept] * n_listed + own[~kept] - n_dense
        # Stable: a list's rows stay in order.
        order = np.argsort(list_of, kind="stable")
        ends = np.concatenate([[0], np.cumsum(np.bincount(list_of, minlength=n_blocks * n_listed))])
        at = np.arange(n_blocks)[:, None] * n_listed + np.arange(n_listed + 1)
        arrays = dense, ends[at], row[~kept][order].astype(np.int32), data[~kept][order]
        return _Columns(numbers, n_dense, arrays, self._totals(self.csr, own, n_dense))


def check_columns(left: sp.csr_matrix | Array, right: sp.csr_matrix) -> None:
    """Raise InputError if the numbers of columns differ."""
    if left.shape[1] != right.shape[1]:
        raise InputError(
            f"Kernel arguments must have the same columns, not {left.shape[1]} and {right.shape[1]}; "
            "fingerprint both in the same way."
        )


def dense_parts(X: Any, right: sp.csr_matrix) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
    """Yield slices of the rows of `X` and those rows as dense ones, in parts of some MiB.

    Raises
    ------
    InputError
        If a value is not finite, or the numbers of columns differ.
    """
    rows = as_rows(X)
    check_columns(rows, right)
    # Of all rows, so that an error counts from the first.
    rows = as_dense(rows) if isinstance(rows, np.ndarray) else check_finite(rows)
    step = max(_FEWEST, _PART // max(1, rows.shape[1]))
    for start in range(0, rows.shape[0], step):
        part = slice(start, min(start + step, rows.shape[0]))
        yield part, as_dense(row_slice(rows, part.start, part.stop))


def clipped(data: Array, dtype: npt.DTypeLike) -> Array:
    """Return values of at least 0 in an unsigned integer type, those above its range as its largest one."""
    dtype = np.dtype(dtype)
    if dtype.kind == "u" and np.can_cast(dtype, data.dtype):  # else no value is above
        data = np.minimum(data, np.iinfo(dtype).max)
    return data.astype(dtype, copy=False)
