"""The min-max Tanimoto kernel of sparse count vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.compiled.jit import jit

__all__ = ["minmax_block", "row_sums"]

Array = npt.NDArray[Any]


@jit
def row_sums(indptr: Array, data: Array, sums: Array) -> None:
    """Write the sum of each row of a CSR matrix to `sums` (float64), added up in the order of its entries."""
    for i in range(sums.size):
        total = 0.0
        for entry in range(indptr[i], indptr[i + 1]):
            total += np.float64(data[entry])
        sums[i] = total


@jit
def minmax_block(
    left_indptr: Array,
    left_indices: Array,
    left_data: Array,
    right_indptr: Array,
    right_rows: Array,
    right_data: Array,
    sums: Array,
    out: Array,
) -> None:
    """Write T(x_i, y_j) for the rows i of a CSR matrix and the rows j of a matrix given by its columns.

    `left_indices` are numbers of columns of the right matrix, given as CSC (`right_indptr`, `right_rows`,
    `right_data`) with the :func:`row_sums` `sums`; -1 is a column that it lacks. Since min + max = sum,
    T = s / (sum x + sum y - s) with s = sum_k min(x_k, y_k); T(0, 0) = 1. All sums of a row are added up in
    the order of its entries, so that T(x, x) is exactly 1.
    """
    for i in range(out.shape[0]):
        row = out[i]
        row[:] = 0.0
        total = 0.0
        for entry in range(left_indptr[i], left_indptr[i + 1]):
            value = np.float64(left_data[entry])
            total += value
            column = left_indices[entry]
            if column < 0:
                continue
            for place in range(right_indptr[column], right_indptr[column + 1]):
                row[right_rows[place]] += min(value, np.float64(right_data[place]))
        for j in range(row.size):
            union = total + sums[j] - row[j]
            row[j] = row[j] / union if union > 0.0 else 1.0
