"""Squared distances of rows from fixed ones, right to about nine digits wherever the rows lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import as_csr, as_rows, check_finite
from daskrf.compiled.panels import make_panels, multiply, squared_lengths
from daskrf.compiled.rows import squared_distances, subtract_close, subtract_close_sparse
from daskrf.compiled.tanimoto import RAW
from daskrf.errors import InputError
from daskrf.kernels.index import Index, dense_parts

__all__ = ["finite_rows", "is_full", "squares_from"]

_LARGEST = 1e300  # squared norms whose sums and products are finite
_FULL = 0.5  # share of numbers that are not 0 from which rows are taken for dense ones: no more memory then
_REMOTE = 2.0**10  # squared length of the first row, in squares of the others' distances, that is far off

Array = npt.NDArray[np.float64]
Squares = Callable[[Any], Array]
"""Gives the squared distances of rows from fixed ones, float64 of shape (n, m)."""


def squares_from(right: sp.csr_matrix) -> Squares:
    """Return the function X -> |x - y|^2 of the rows x of X and the rows y of `right`.

    They come from lengths and inner products; pairs that are so close beside these that digits are lost are
    subtracted number by number. Equal rows have 0 exactly, and a pair and its mirror image the same number.
    A row's bytes depend on that row and on `right` alone.

    Parameters
    ----------
    right : canonical CSR matrix of float64, shape (m, d)

    Raises
    ------
    InputError
        When called: if a value is not finite, the numbers of columns differ, or squares overflow.
    """
    return _of_full(right) if is_full(right) else _of_sparse(right)


def finite_rows(X: Any) -> sp.csr_matrix:
    """Return `X` as a canonical CSR matrix of float64, all of whose values are finite."""
    csr = check_finite(as_csr(X))
    return sp.csr_matrix((csr.data.astype(np.float64, copy=False), csr.indices, csr.indptr), shape=csr.shape)


def is_full(rows: sp.csr_matrix) -> bool:
    """Tell whether rows are mostly full: it is for those on the right alone to choose how to multiply."""
    return bool(rows.nnz >= _FULL * rows.shape[0] * rows.shape[1] > 0)


def _of_sparse(right: sp.csr_matrix) -> Squares:
    """Return the squared distances by the columns that two rows share."""
    index, parts = Index(right, multiply=True), _parts(right)

    def squares(X: Any) -> Array:
        left = finite_rows(X)
        out = np.empty((left.shape[0], right.shape[0]))
        own, others = index.coefficients(left, left.data, None, RAW, out)
        _check_norms(own)
        _check_norms(others)
        squared_distances(own, others, out)
        subtract_close_sparse(own, others, _parts(left), parts, out)
        return out

    return squares


def _of_full(right: sp.csr_matrix) -> Squares:
    """Return the same of rows that are mostly full, as dense ones."""
    rows = right.toarray()
    centre = _centre(rows)
    moved = _moved(rows, centre)
    panels, others = make_panels(np.ascontiguousarray(moved.T)), squared_lengths(moved)
    del moved

    def squares(X: Any) -> Array:
        left_rows = as_rows(X)
        out = np.empty((left_rows.shape[0], right.shape[0]))
        for part, left in dense_parts(left_rows, right):
            near = _moved(left, centre)
            own = squared_lengths(near)
            _check_norms(own, part.start)
            _check_norms(others)
            multiply(near, panels, out[part])
            squared_distances(own, others, out[part])
            subtract_close(own, others, left, rows, out[part])
        return out

    return squares


def _centre(rows: Array) -> Array | None:
    """Return the first row where all lie near to it and far from the origin, else None.

    Inner products then keep the digits of distances, and fewer pairs are subtracted, which takes longer.
    """
    spread = squared_lengths(_moved(rows, rows[0])).max()
    return rows[0] if squared_lengths(rows[:1])[0] > _REMOTE * spread else None


def _moved(rows: Array, centre: Array | None) -> Array:
    if centre is None:
        return rows
    with np.errstate(over="ignore"):
        return rows - centre


def _parts(csr: sp.csr_matrix) -> tuple[npt.NDArray[Any], ...]:
    """Return what a CSR matrix consists of, in one type each, so that one version is compiled."""
    return csr.indptr.astype(np.int64, copy=False), csr.indices.astype(np.int64, copy=False), csr.data


def _check_norms(squared: Array, first: int = 0) -> None:
    if squared.size and not squared.max() < _LARGEST:
        row = first + int(np.argmax(~(squared < _LARGEST)))
        raise InputError(
            f"The squared norm of row {row} is too large for double precision; scale the vectors."
        )
