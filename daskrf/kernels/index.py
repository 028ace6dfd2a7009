"""The rows on the right of a kernel, arranged by columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MAX_COUNT, MatrixLike, as_dense, as_rows, check_finite, row_slice
from daskrf.engine import Rows, engine
from daskrf.errors import InputError

_NUMBERS = 1 << 20  # numbers at a time in rows that are dense or made dense
_FEWEST = 96  # least number of rows at a time

Array = npt.NDArray[np.floating]
Double = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


class Index:
    """The columns of some rows, for sums over the columns that they share with other rows.

    Parameters
    ----------
    csr : scipy.sparse.csr_matrix, shape (m, d)
        Canonical.
    multiply : bool
        Whether terms are products and totals are sums of squares; else terms are minima and totals are sums.
    """

    def __init__(self, csr: sp.csr_matrix, *, multiply: bool) -> None:
        self._shape = csr.shape
        self._overlaps = engine().overlaps(Rows(csr.indptr, csr.indices, csr.data), multiply=multiply)

    def coefficients(
        self, left: sp.csr_matrix, kind: npt.DTypeLike, rows: Integers | None, mode: int, out: Array
    ) -> tuple[Double, Double]:
        """Write coefficients of some rows of `left` with all rows here to the same rows of `out`.

        Parameters
        ----------
        left : scipy.sparse.csr_matrix, shape (n, d)
            Canonical.
        kind : dtype
            The type of the sums: an unsigned integer type, if all sums fit in it (values are clipped to its
            range), or float64.
        rows : int64 array, optional
            Default: all.
        mode : int
            QUOTIENT, RATIO or SUM of `daskrf.engine`.
        out : float array, shape (n, m)

        Returns
        -------
        tuple of float64 array of shape (n,), float64 array of shape (m,)
            The totals of the rows of `left` and of the rows here, summed in the order of the terms.

        Raises
        ------
        InputError
            If the numbers of columns differ.
        """
        check_columns(left, self)
        return self._overlaps(Rows(left.indptr, left.indices, left.data), kind, rows, mode, out)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self._shape


def check_columns(left: Any, right: Any) -> None:
    """Raise InputError if the numbers of columns differ."""
    if left.shape[1] != right.shape[1]:
        raise InputError(
            f"Kernel arguments must have the same columns, not {left.shape[1]} and {right.shape[1]}; "
            "fingerprint both in the same way."
        )


def as_counts(data: Array) -> npt.NDArray[np.uint16] | None:
    """Return values as uint16, or None if they are not all integers from 0 to 65,535."""
    if not data.size:
        return data.astype(np.uint16)
    small = data.min() >= 0 and data.max() <= MAX_COUNT
    if not small or (data.dtype.kind == "f" and (data != np.floor(data)).any()):
        return None
    return data.astype(np.uint16, copy=False)


def by_type(bounds: Array) -> Iterator[tuple[type, npt.NDArray[np.int64]]]:
    """Yield number types, each with the rows whose `bounds` fit in it but in no narrower one."""
    lower = -1.0
    for kind, upper in ((np.uint8, 2.0**8 - 1), (np.uint16, 2.0**16 - 1), (np.float64, np.inf)):
        rows = np.flatnonzero((bounds > lower) & (bounds <= upper))
        if rows.size:
            yield kind, rows
        lower = upper


def dense_parts(X: MatrixLike, right: sp.csr_matrix) -> Iterator[tuple[slice, npt.NDArray[np.float64]]]:
    """Yield slices of the rows of `X` and these rows as a dense array, in parts of some MiB.

    Raises
    ------
    InputError
        If a value is not finite, or the numbers of columns differ.
    """
    rows = as_rows(X)
    check_columns(rows, right)
    # All rows are checked at once, so that an error message counts rows from the first one.
    rows = as_dense(rows) if isinstance(rows, np.ndarray) else check_finite(rows)
    step = max(_FEWEST, _NUMBERS // max(1, rows.shape[1]))
    for start in range(0, rows.shape[0], step):
        chunk = slice(start, min(start + step, rows.shape[0]))
        yield chunk, as_dense(row_slice(rows, chunk.start, chunk.stop))
