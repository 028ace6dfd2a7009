"""The min-max Tanimoto kernel, straight from its definition."""

from __future__ import annotations

import numpy as np


def tanimoto_minmax(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return sum_k min / sum_k max for all pairs of rows; 1 for two rows of zeros."""
    out = np.empty((len(X), len(Y)))
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            union = np.maximum(x, y).sum()
            out[i, j] = np.minimum(x, y).sum() / union if union else 1.0
    return out
