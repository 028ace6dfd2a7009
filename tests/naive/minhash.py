"""Min-hash bits in plain Python integers: every element of every set is hashed for every feature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

MASK_32 = 2**32 - 1
MASK_64 = 2**64 - 1


def mix64(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & MASK_64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & MASK_64
    return x ^ (x >> 31)


def mix32(x: int) -> int:
    x = (x ^ (x >> 16)) * 0x21F0AAAD & MASK_32
    x = (x ^ (x >> 15)) * 0xD35A2D97 & MASK_32
    return x ^ (x >> 15)


def element_hash(column: int, level: int, element_key: int, feature_key: int) -> int:
    element = mix64((mix64(column ^ element_key) + level * 0x9E3779B97F4A7C15) & MASK_64)
    low, high = element & MASK_32, element >> 32
    key_low, key_high = feature_key & MASK_32, feature_key >> 32
    return mix32(mix32(mix32(low ^ key_low) ^ high) ^ key_high)


def level_place(minimum: int, key: int) -> int:
    """Return which of 65,536 levels belongs to a minimum."""
    return mix32(mix32(minimum ^ key & MASK_32) ^ key >> 32) >> 16


def minhash_bits(
    rows: Sequence[Mapping[int, int]], element_key: int, empty: Sequence[int], feature_keys: Sequence[int]
) -> np.ndarray:
    """Return the (n, M) array of 0/1 bits of rows given as {column: count}."""
    bits = np.zeros((len(rows), len(feature_keys)), np.uint8)
    for i, row in enumerate(rows):
        for m, feature_key in enumerate(feature_keys):
            hashes = [
                element_hash(int(column), level, element_key, int(feature_key))
                for column, count in row.items()
                for level in range(1, count + 1)
            ]
            bits[i, m] = min(hashes, default=int(empty[m])) & 1
    return bits
