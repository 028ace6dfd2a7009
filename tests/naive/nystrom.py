"""Slow, readable Nystroem approximations, SCISSORS vectors and LINGO counts."""

from __future__ import annotations

from collections import Counter

import numpy as np


def approximation(C: np.ndarray, W: np.ndarray, k: int, floor: float = 0.0) -> np.ndarray:
    """Return C W_k^+ C^T (algorithm 1 of Haque & Pande 2011), eigenvector by eigenvector."""
    values, vectors = np.linalg.eigh(W)
    largest = values[-1]
    out = np.zeros((len(C), len(C)))
    for value, vector in list(zip(values, vectors.T, strict=True))[::-1][:k]:
        if value > max(floor * largest, 0.0):
            product = C @ vector
            out += np.outer(product, product) / value
    return out


def scissors_vectors(G: np.ndarray, L: np.ndarray, k: int) -> np.ndarray:
    """Return the least-squares solutions x of M x = L, M the basis vectors of equation 1."""
    values, vectors = np.linalg.eigh(G)
    M = vectors[:, ::-1][:, :k] * np.sqrt(values[::-1][:k])
    return np.array([np.linalg.lstsq(M, row, rcond=None)[0] for row in L])


def lingos(smiles: str) -> Counter[str]:
    """Return the windows of four characters, digits outside of brackets as 0."""
    text, inside = "", False
    for letter in smiles:
        inside = letter == "[" or (inside and letter != "]")
        text += "0" if letter.isdigit() and not inside else letter
    return Counter(text[i : i + 4] for i in range(len(text) - 3))
