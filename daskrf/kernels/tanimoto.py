"""The exact min-max Tanimoto kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import as_csr, check_weights
from daskrf.compiled.tanimoto import minmax_block, row_sums
from daskrf.errors import InputError
from daskrf.kernels.base import Kernel, register

__all__ = ["TanimotoMinMax"]


@register
class TanimotoMinMax(Kernel):
    """T(x, y) = sum_k min(x_k, y_k) / sum_k max(x_k, y_k), for non-negative vectors; T(0, 0) = 1.

    Source: Ralaivola et al. 2005, and Tripp et al. 2023, equation 3.

    Examples
    --------
    >>> TanimotoMinMax()([[2, 0, 1]], [[1, 1, 1]]).tolist()
    [[0.5]]
    """

    def against(self, Y: Any) -> Callable[[Any], npt.NDArray[np.float64]]:
        """Return the function X -> T(X, Y), the inverted index of `Y` prepared; see `Kernel`."""
        right = check_weights(as_csr(Y))
        # Only the columns that occur on the right are numbered: unfolded identifiers have 2**32 columns.
        columns, numbers = np.unique(right.indices, return_inverse=True)
        inverted = sp.csr_matrix(
            (right.data, numbers.ravel().astype(np.int64), right.indptr),
            shape=(right.shape[0], max(1, columns.size)),
        ).tocsc()
        sums = _row_sums(right)

        def similarities(X: Any) -> npt.NDArray[np.float64]:
            left = check_weights(as_csr(X))
            if left.shape[1] != right.shape[1]:
                raise InputError(
                    f"Kernel arguments must have the same columns, not {left.shape[1]} and {right.shape[1]}; "
                    "fingerprint both in the same way."
                )
            out = np.empty((left.shape[0], right.shape[0]))
            minmax_block(
                left.indptr,
                _look_up(columns, left.indices),
                left.data,
                inverted.indptr,
                inverted.indices,
                inverted.data,
                sums,
                out,
            )
            return out

        return similarities

    def distance(self, X: Any, Y: Any = None) -> npt.NDArray[np.float64]:
        """Return 1 - T, the Soergel distance, which is a metric (Marczewski & Steinhaus 1958)."""
        return 1.0 - self(X, Y)


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
