"""Consistent weighted sampling in plain Python: every column of every row is ranked for every feature."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tests.naive.minhash import MASK_32, mix32, mix64

SCALE = 2.0**21


def random_numbers(column: int, element_key: int, feature_key: int) -> tuple[float, float, float]:
    """Return r and c ~ Gamma(2, 1) and beta ~ U(0, 1)."""
    element = mix64(column ^ element_key)
    low, high = element & MASK_32, element >> 32
    state = mix32(mix32(mix32(low ^ feature_key & MASK_32) ^ high) ^ feature_key >> 32)
    words = [mix32(mix32(state ^ i * 0x9E3779B9 & MASK_32) ^ low) for i in range(5)]
    uniform = [(word + 0.5) / 2**32 for word in words]
    r = -math.log(uniform[0] * uniform[1])
    c = -math.log(uniform[2] * uniform[3])
    return r, c, uniform[4]


def sample(row: Mapping[int, float], element_key: int, feature_key: int) -> tuple[float, int, int]:
    """Return ln a and the sample (column, t) of a row that is not empty."""
    ranked = []
    for column, weight in row.items():
        r, c, beta = random_numbers(column, element_key, feature_key)
        t = math.floor(math.log(weight) / r + beta)
        log_y = r * (t - beta)
        ranked.append((math.log(c) - log_y - r, column, t))
    return min(ranked)


def hashes(
    rows: Sequence[Mapping[int, float]], element_key: int, empty: Sequence[int], feature_keys: Sequence[int]
) -> np.ndarray:
    """Return the (n, M) hashes, 2^21 (ln a + 1024) rounded, of the samples of rows as {column: weight}."""
    found = np.empty((len(rows), len(feature_keys)), np.uint32)
    for i, row in enumerate(rows):
        for m, feature_key in enumerate(feature_keys):
            if row:
                log_a, _, _ = sample(row, element_key, int(feature_key))
                found[i, m] = round((log_a + 1024) * SCALE)
            else:
                found[i, m] = int(empty[m]) & MASK_32
    return found
