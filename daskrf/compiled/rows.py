"""Norms of sparse and dense rows, and rows divided by them: the same bytes on every machine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.compiled.jit import jit

__all__ = ["normalise", "unit_rows"]

Array = npt.NDArray[Any]

SUMS = 8
"""Running sums of a dense row."""


@jit
def _unit_rows(pointer: Array, data: Array, root: bool, norms: Array, values: Array) -> None:
    for row in range(norms.size):
        total = np.float64(0.0)
        for i in range(pointer[row], pointer[row + 1]):
            value = np.float64(data[i])
            total += value if root else value * value
        norms[row] = total
        length = np.sqrt(total)
        for i in range(pointer[row], pointer[row + 1]):
            value = np.float64(data[i])
            values[i] = np.float32((np.sqrt(value) if root else value) / length)


def unit_rows(
    pointer: npt.NDArray[np.int64], data: Array, *, root: bool
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float32]]:
    """Return the squared norms of sparse rows, float64, and their values divided by the norms, float32.

    With `root` the values' square roots take their place; the squared norm is then the sum of the values,
    exact for counts.
    """
    norms, values = np.empty(pointer.size - 1), np.empty(data.size, np.float32)
    with np.errstate(all="ignore"):
        _unit_rows(pointer, data, root, norms, values)
    return norms, values


@jit
def _normalise(features: Array) -> None:
    sums = np.empty(SUMS, np.float64)
    whole = features.shape[1] // SUMS * SUMS
    for row in features:
        # Several running sums in a fixed order: faster than one, and the same on every machine.
        sums[:] = 0.0
        for start in range(0, whole, SUMS):
            for lane in range(SUMS):
                value = np.float64(row[start + lane])
                sums[lane] += value * value
        for lane in range(features.shape[1] - whole):
            value = np.float64(row[whole + lane])
            sums[lane] += value * value
        total = 0.0
        for lane in range(SUMS):
            total += sums[lane]
        if total > 0.0:
            scale = 1.0 / math.sqrt(total)
            for m in range(row.size):
                row[m] = np.float32(scale * np.float64(row[m]))


def normalise(features: npt.NDArray[np.float32]) -> None:
    """Scale every row of `features`, in place, to length 1; a row of zeros stays as it is."""
    _normalise(features)
