"""The min-max Tanimoto kernel of sparse count vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.compiled.jit import jit

__all__ = ["minmax_block"]

Array = npt.NDArray[Any]


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
    `right_data`) with row sums `sums`; columns that the right matrix lacks have an empty list. Since
    min + max = sum, T = s / (sum x + sum y - s) with s = sum_k min(x_k, y_k); T(0, 0) = 1.
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
