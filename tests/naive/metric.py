"""The Gaussian kernel in a metric, number by number."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def squared_distance(
    x: np.ndarray, y: np.ndarray, rest: float, columns: Sequence[int], directions: np.ndarray
) -> float:
    """Return (x - y)^T (rest I + B B^T) (x - y), with B's rows for some columns; others may lie beyond."""
    B = np.zeros((max([len(x), *(column + 1 for column in columns)]), np.shape(directions)[1]))
    for column, row in zip(columns, directions, strict=True):
        B[column] = row
    total = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            metric = rest * (i == j) + sum(float(B[i, k]) * float(B[j, k]) for k in range(B.shape[1]))
            total += (x[i] - y[i]) * metric * (x[j] - y[j])
    return total


def metric_gaussian(
    X: np.ndarray,
    Y: np.ndarray,
    length_scale: float,
    rest: float,
    columns: Sequence[int],
    directions: np.ndarray,
) -> np.ndarray:
    """Return exp(-d^2 / (2 l^2)) of each pair of rows."""
    found = np.empty((len(X), len(Y)))
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            squared = squared_distance(x, y, rest, columns, directions)
            found[i, j] = math.exp(-squared / (2.0 * length_scale**2))
    return found
