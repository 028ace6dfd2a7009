"""The Tanimoto kernels, straight from their definitions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np


def tanimoto_minmax(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return sum_k min / sum_k max for all pairs of rows; 1 for two rows of zeros."""
    out = np.empty((len(X), len(Y)))
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            union = np.maximum(x, y).sum()
            out[i, j] = np.minimum(x, y).sum() / union if union else 1.0
    return out


def tanimoto_dot_product(X: np.ndarray, Y: np.ndarray, n_terms: int | None = None) -> np.ndarray:
    """Return x.y / (|x|^2 + |y|^2 - x.y), or the sum of (x.y / (|x|^2 + |y|^2))^r, r = 1 .. n_terms.

    Products and squares are fractions, hence exact; 1 for two rows of zeros.
    """
    out = np.empty((len(X), len(Y)))
    for i, x in enumerate(X.tolist()):
        for j, y in enumerate(Y.tolist()):
            product = sum(Fraction(a) * Fraction(b) for a, b in zip(x, y, strict=True))
            squares = sum(Fraction(a) ** 2 for a in x) + sum(Fraction(b) ** 2 for b in y)
            if not squares:
                out[i, j] = 1.0
            elif n_terms is None:
                out[i, j] = product / (squares - product)
            else:
                out[i, j] = sum(float(product / squares) ** r for r in range(1, n_terms + 1))
    return out


def composed(T: np.ndarray, coefficients: Sequence[float]) -> np.ndarray:
    """Return f(T) / f(1), f(T) = sum_n coefficients[n] T^n."""
    out = np.empty_like(T)
    for place, t in np.ndenumerate(T):
        out[place] = sum(a * t**n for n, a in enumerate(coefficients)) / sum(coefficients)
    return out
