"""Squared distances of rows from fixed rows, accurate to about nine digits wherever the rows lie."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MatrixLike, as_csr, as_rows, check_finite, row_sums
from daskrf.engine import SUM
from daskrf.errors import InputError
from daskrf.kernels.index import Index, as_counts, by_type, dense_parts

_LARGEST = 1e300  # squared norms up to here have finite sums and products
_FULL = 0.5  # share of nonzeros above which rows are made dense: this takes no more memory then
_CLOSE = 2.0**-20  # of squared lengths: smaller squared distances have lost too many digits
_BLOCK = 1 << 14  # distances that stay in the cache
_PAIRS = 1 << 12  # pairs subtracted at a time
_REMOTE = 2.0**10  # squared length of the first row over squared distances of the others: above is far off

Array = npt.NDArray[np.float64]
Pairs = npt.NDArray[np.int64]
_EXACT = 2.0**22  # squared lengths up to here have exact sums in single precision, if they are integers
Squares = Callable[..., npt.NDArray[np.floating]]
"""Returns the squared distances of rows from fixed rows, float64 of shape (n, m).

With ``single=True`` they are float32 if that is exact, which is so for counts.
"""


def squares_from(right: sp.csr_matrix) -> Squares:
    """Return the function X -> |x - y|^2 of the rows x of X and the rows y of `right`.

    Lengths and inner products give the distances. For pairs so close that digits are lost, the rows are
    subtracted number by number. Equal rows have distance 0 exactly.

    Parameters
    ----------
    right : canonical CSR matrix of float64, shape (m, d)

    Raises
    ------
    InputError
        By the returned function: if a value is not finite, the numbers of columns differ, or squares
        overflow.
    """
    return _of_full(right) if is_full(right) else _of_sparse(right)


def finite_rows(X: MatrixLike) -> sp.csr_matrix:
    """Return `X` as a canonical CSR matrix of float64; refuse values that are not finite."""
    csr = check_finite(as_csr(X))
    return sp.csr_matrix((csr.data.astype(np.float64, copy=False), csr.indices, csr.indptr), shape=csr.shape)


def is_full(rows: sp.csr_matrix) -> bool:
    """Return whether rows are mostly nonzero; asked only of `right`, to choose how to multiply."""
    return bool(rows.nnz >= _FULL * rows.shape[0] * rows.shape[1] > 0)


def _of_sparse(right: sp.csr_matrix) -> Squares:
    """Return the function for squared distances, computed from the columns that two rows share."""
    index = Index(right, multiply=True)
    right_counts = as_counts(right.data)
    longest = 0.0 if right_counts is None else _longest(right, right_counts)

    def squares(X: MatrixLike, *, single: bool = False) -> npt.NDArray[np.floating]:
        left = finite_rows(X)
        counts = None if right_counts is None else as_counts(left.data)
        if counts is not None:
            lengths = row_sums(left.indptr, np.square(counts, dtype=np.float64))
            exact = single and max(longest, lengths.max(initial=0.0)) <= _EXACT
            return of_counts(left, lengths, np.float32 if exact else np.float64)
        out = np.empty((left.shape[0], right.shape[0]))
        norms, others = index.coefficients(left, np.float64, None, SUM, out)
        _check_norms(norms)
        _check_norms(others)

        def subtracted(i: Pairs, j: Pairs) -> Array:
            difference = left[i] - right[j]
            return row_sums(difference.indptr, np.square(difference.data))

        _add_norms(norms, others, out, subtracted)
        return out

    def of_counts(left: sp.csr_matrix, lengths: Array, dtype: type) -> npt.NDArray[np.floating]:
        """Return squared distances of counts: all terms are integers, so nothing is lost."""
        out, others = np.empty((left.shape[0], right.shape[0]), dtype), np.empty(0)
        for kind, rows in by_type(np.sqrt(lengths * longest)):  # x.y <= |x| |y|
            _, others = index.coefficients(left, kind, rows, SUM, out)
        step = max(1, _BLOCK // max(1, others.size))
        shorter: npt.NDArray[np.floating] = others.astype(dtype)
        for start in range(0, lengths.size, step):
            block = out[start : start + step]
            block *= -2.0
            block += shorter
            block += lengths[start : start + step, None].astype(dtype)
        return out

    return squares


def _longest(rows: sp.csr_matrix, counts: npt.NDArray[np.uint16]) -> float:
    """Return the largest squared length."""
    return float(row_sums(rows.indptr, np.square(counts, dtype=np.float64)).max(initial=0.0))


def _of_full(right: sp.csr_matrix) -> Squares:
    """Return the same function for rows that are mostly nonzero, which it makes dense."""
    rows = right.toarray()
    centre = _centre(rows)
    moved = _moved(rows, centre)
    others = _squared_lengths(moved)

    def squares(X: MatrixLike, *, single: bool = False) -> Array:
        left_rows = as_rows(X)
        out = np.empty((left_rows.shape[0], right.shape[0]))
        for chunk, left in dense_parts(left_rows, right):
            near = _moved(left, centre)
            norms = _squared_lengths(near)
            _check_norms(norms, chunk.start)
            _check_norms(others)

            def subtracted(i: Pairs, j: Pairs, left: Array = left) -> Array:
                return _squared_lengths(left[i] - rows[j])

            np.matmul(near, moved.T, out=out[chunk])
            _add_norms(norms, others, out[chunk], subtracted)
        return out

    return squares


def _add_norms(
    norms: Array, others: Array, squares: Array, subtracted: Callable[[Pairs, Pairs], Array]
) -> None:
    """Turn products x.y into squared distances, in place; `subtracted` gives those of chosen pairs."""
    largest = others.max(initial=0.0)
    step = max(1, _BLOCK // max(1, others.size))
    sums = np.empty((step, others.size))
    for start in range(0, norms.size, step):
        chunk = slice(start, start + step)
        block, lengths = squares[chunk], norms[chunk]
        # One sum, so that it is the same for (x, y) and (y, x).
        np.add(lengths[:, None], others, out=sums[: lengths.size])
        block *= -2.0
        block += sums[: lengths.size]
        places = np.flatnonzero(block.ravel() <= _CLOSE * (lengths.max() + largest))
        i, j = np.divmod(places, others.size)
        # Pairs whose value is below 0 by rounding are close, too.
        close = block[i, j] <= _CLOSE * (lengths[i] + others[j])
        i, j = i[close], j[close]
        for first in range(0, i.size, _PAIRS):
            pairs = i[first : first + _PAIRS], j[first : first + _PAIRS]
            block[pairs] = subtracted(pairs[0] + start, pairs[1])


def _centre(rows: Array) -> Array | None:
    """Return the first row if all rows lie near it and far from the origin, else None.

    After it is subtracted, inner products keep the digits of distances, and fewer pairs need the slow
    subtraction.
    """
    spread = _squared_lengths(_moved(rows, rows[0])).max()
    return rows[0] if _squared_lengths(rows[:1])[0] > _REMOTE * spread else None


def _squared_lengths(rows: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.einsum("ij,ij->i", rows, rows)


def _moved(rows: Array, centre: Array | None) -> Array:
    if centre is None:
        return rows
    with np.errstate(over="ignore"):
        return rows - centre


def _check_norms(squared: Array, first: int = 0) -> None:
    if squared.size and not squared.max() < _LARGEST:
        row = first + int(np.argmax(~(squared < _LARGEST)))
        raise InputError(
            f"The squared norm of row {row} is too large for double precision; scale the vectors."
        )
