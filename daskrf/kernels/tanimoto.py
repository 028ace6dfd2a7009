"""The exact min-max Tanimoto kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import as_csr
from daskrf.compiled.tanimoto import minmax_block, row_sums
from daskrf.errors import InputError

__all__ = ["TanimotoMinMax"]


class TanimotoMinMax:
    """T(x, y) = sum_k min(x_k, y_k) / sum_k max(x_k, y_k), for non-negative vectors; T(0, 0) = 1.

    Source: Ralaivola et al. 2005, and Tripp et al. 2023, equation 3.

    Examples
    --------
    >>> TanimotoMinMax()([[2, 0, 1]], [[1, 1, 1]]).tolist()
    [[0.5]]
    """

    def __call__(self, X: Any, Y: Any = None) -> npt.NDArray[np.float64]:
        """Return the kernel matrix of the rows of `X` and of `Y` (default `X`).

        Parameters
        ----------
        X, Y : scipy.sparse, pydata/sparse or dense arrays, shapes (n, d) and (m, d)
            Non-negative counts or weights.

        Returns
        -------
        float64 array, shape (n, m)

        Raises
        ------
        InputError
            If the numbers of columns differ, or a value is negative or not finite.
        """
        left = _check_weights(as_csr(X))
        right = left if Y is None else _check_weights(as_csr(Y))
        if left.shape[1] != right.shape[1]:
            raise InputError(
                f"Kernel arguments must have the same columns, not {left.shape[1]} and {right.shape[1]}; "
                "fingerprint both in the same way."
            )
        # Only the columns that occur on the right are numbered: unfolded identifiers have 2**32 columns.
        columns, numbers = np.unique(right.indices, return_inverse=True)
        inverted = sp.csr_matrix(
            (right.data, numbers.ravel().astype(np.int64), right.indptr),
            shape=(right.shape[0], max(1, columns.size)),
        ).tocsc()
        out = np.empty((left.shape[0], right.shape[0]))
        minmax_block(
            left.indptr,
            _look_up(columns, left.indices),
            left.data,
            inverted.indptr,
            inverted.indices,
            inverted.data,
            _row_sums(right),
            out,
        )
        return out

    def diag(self, X: Any) -> npt.NDArray[np.float64]:
        """Return T(x, x) = 1 of each row of `X`."""
        return np.ones(as_csr(X).shape[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TanimotoMinMax)

    def __hash__(self) -> int:
        return hash(TanimotoMinMax)

    def __repr__(self) -> str:
        return "TanimotoMinMax()"


def _check_weights(csr: sp.csr_matrix) -> sp.csr_matrix:
    if csr.data.size and not (np.isfinite(csr.data).all() and csr.data.min() >= 0):
        raise InputError("The min-max Tanimoto kernel needs finite values that are not negative.")
    return csr


def _look_up(columns: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the position of each wanted column in the sorted `columns`, -1 where it is absent."""
    if not columns.size:
        return np.full(wanted.size, -1, np.int64)
    position = np.minimum(np.searchsorted(columns, wanted), columns.size - 1)
    return np.where(columns[position] == wanted, position, -1).astype(np.int64)


def _row_sums(csr: sp.csr_matrix) -> npt.NDArray[np.float64]:
    sums = np.empty(csr.shape[0])
    row_sums(csr.indptr, csr.data, sums)
    return sums
