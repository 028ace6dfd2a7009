"""Sketches of the dot-product Tanimoto series by explicit loops over every entry of every tensor product."""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from daskrf import seeds
from tests.naive.minhash import mix64


def count_sketch_entry(column: int, key: int, length: int) -> tuple[int, int]:
    """Return the bucket and the sign of a column."""
    word = mix64(column ^ key)
    return (word >> 32) * length >> 32, -1 if word & 1 else 1


def prefactor(norm: float, r: int, n_features: int, zeta: float, offset: float) -> np.ndarray:
    """Return the features of lemma 4.5 with the constants of the product, times |x|^r."""
    s, c = min(r / 20, 0.2), 0.08 * max(min(zeta, 0.02) / 4, min(zeta, 0.001))
    found = np.zeros(n_features)
    for i in range(1, n_features + 1):
        z = stats.gamma.ppf((offset + i / n_features) % 1.0, s, scale=1 / c)
        constant = math.sqrt(c**-s * math.gamma(s) / math.gamma(r) / n_features)
        found[i - 1] = constant * math.exp(-(norm - c / 2) * z) * z ** ((r - s) / 2) * norm ** (r / 2)
    return found


def mirrored(features: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Reflect so that `centre` falls on the first axis."""
    u = centre.copy()
    u[0] += np.linalg.norm(centre)
    u /= np.linalg.norm(u)
    return features - 2 * (features @ u) * u


def real_coordinates(sketch: Sequence[float]) -> list[float]:
    """Return the discrete Fourier transform of real numbers in an orthonormal basis of real coordinates."""
    m = len(sketch)
    found = []
    for k in range(m // 2 + 1):
        value = sum(v * cmath.exp(-2j * math.pi * k * i / m) for i, v in enumerate(sketch))
        if k == 0 or 2 * k == m:
            found.append(value.real / math.sqrt(m))
        else:
            found += [value.real * math.sqrt(2 / m), value.imag * math.sqrt(2 / m)]
    return found


def series_features(
    row: Mapping[int, float],
    sizes: Sequence[int],
    norm_range: tuple[float, float],
    seed: int,
    *,
    n_prefactor: int,
    residual: bool,
) -> np.ndarray:
    """Return the features of one row {column: value}, no value zero, before any normalisation."""
    squared = sum(value**2 for value in row.values())
    norm, zeta = squared / norm_range[1], norm_range[0] / norm_range[1]
    unit = {column: value / math.sqrt(squared) for column, value in row.items()}
    features: list[float] = []
    for r, length in enumerate(sizes, start=1):
        (word,) = seeds.words(seed, f"dotproduct/offset/{r}", 1).tolist()
        offset = ((word >> 11) + 0.5) / 2**53
        psi = mirrored(
            prefactor(norm, r, n_prefactor, zeta, offset),
            prefactor((0.5 + 0.5 * math.sqrt(zeta)) ** 2, r, n_prefactor, zeta, offset),
        )
        words = seeds.words(seed, f"dotproduct/places/{r}", length).tolist()
        order = sorted(range(length), key=words.__getitem__)
        signs = [
            -1 if w & 1 else 1 for w in seeds.words(seed, f"dotproduct/prefactor/{r}", n_prefactor).tolist()
        ]
        factors = [[(order[p % length], signs[p] * psi[p]) for p in range(n_prefactor)]]
        for j in range(r):
            key = seeds.key(seed, f"dotproduct/polynomial/{r}/{j}")
            entries = [(*count_sketch_entry(column, key, length), value) for column, value in unit.items()]
            factors.append([(bucket, sign * value) for bucket, sign, value in entries])
        if residual and r == len(sizes):
            key = seeds.key(seed, "dotproduct/residual")
            entries = [(*count_sketch_entry(i, key, length), v) for i, v in enumerate([1.0, *features])]
            factors.append([(bucket, sign * value) for bucket, sign, value in entries])
        sketch = [0.0] * length
        for entry in itertools.product(*factors):
            sketch[sum(bucket for bucket, _ in entry) % length] += math.prod(value for _, value in entry)
        features += sketch if r == 1 else real_coordinates(sketch)
    return np.array(features)
