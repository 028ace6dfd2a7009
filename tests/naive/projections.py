"""Products of random projections and polynomial sketches by explicit matrices, entry by entry."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.linalg import hadamard

from daskrf import seeds
from tests.naive.minhash import mix64

TILE = 64
MASK = 2**64 - 1


def signs(seed: int, name: str, degrees: np.ndarray, column: int) -> list[list[int]]:
    """Return the signs of a column in the factors of each feature; `degrees` descend."""
    element = mix64(column ^ seeds.key(seed, f"{name}/columns"))
    found: list[list[int]] = []
    start = 0
    for first in range(0, len(degrees), TILE):
        depth = int(degrees[first])
        keys = seeds.words(seed, f"{name}/factors", depth, start).tolist()
        words = [mix64((element + key) & MASK) for key in keys]
        for m, degree in enumerate(degrees[first : first + TILE]):
            found.append([-1 if word >> m & 1 else 1 for word in words[:degree]])
        start += depth
    return found


def products(
    row: Mapping[int, float], degrees: np.ndarray, weights: np.ndarray, seed: int, name: str
) -> np.ndarray:
    """Return weight_m prod_j (w_mj . x) of one row {column: value}."""
    sums = [np.zeros(int(degree)) for degree in degrees]
    for column, value in row.items():
        for total, own in zip(sums, signs(seed, name, degrees, column), strict=True):
            total += np.array(own) * value
    return np.array([w * np.prod(total) for w, total in zip(weights, sums, strict=True)])


def tensor_srht(x: np.ndarray, degree: int, n_components: int, seed: int, name: str) -> np.ndarray:
    """Return algorithm 2 of Wacker & Filippone 2022 of a row whose length is a power of two."""
    d = len(x)
    features: list[float] = []
    for b in range(-(-n_components // d)):
        product = np.ones(d)
        for i in range(degree):
            words = seeds.words(seed, f"{name}/tensorsrht", d, (b * degree + i) * d).tolist()
            transformed = hadamard(d) @ [
                value * (-1 if w & 1 else 1) for value, w in zip(x, words, strict=True)
            ]
            product *= transformed[sorted(range(d), key=[w >> 1 for w in words].__getitem__)]
        features += product.tolist()
    return np.array(features[:n_components]) / np.sqrt(n_components)


def greedy(variances: list[list[float]], budget: int) -> list[int]:
    """Return the incremental algorithm's allocation; variances[k][D - 1] is that of D features of kind k."""
    sizes = [1] * len(variances)
    for _ in range(budget - len(sizes)):
        gains = [v[size] - v[size - 1] for v, size in zip(variances, sizes, strict=True)]
        sizes[int(np.argmin(gains))] += 1
    return sizes
