"""Products with +1/-1 features by unpacking every bit in plain Python."""

from __future__ import annotations

import numpy as np


def signs(bits: np.ndarray, n_components: int) -> np.ndarray:
    """Return the +1/-1 integers of packed bits, bit by bit."""
    out = np.empty((len(bits), n_components), np.int64)
    for i in range(len(bits)):
        for m in range(n_components):
            out[i, m] = -1 if int(bits[i, m // 8]) >> (m % 8) & 1 else 1
    return out


def gram(bits: np.ndarray, n_components: int) -> np.ndarray:
    """Return Phi^T Phi as an integer matrix product."""
    phi = signs(bits, n_components)
    return phi.T @ phi


def phi_y(bits: np.ndarray, y: np.ndarray, n_components: int) -> np.ndarray:
    """Return Phi^T y in Python integers."""
    return signs(bits, n_components).T.astype(object) @ y.astype(object)
