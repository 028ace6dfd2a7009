"""Keys of 128 bits: hashes like those of plain integers, and a table like a dict."""

from __future__ import annotations

import numpy as np
import pytest

from daskrf.engine import engine
from tests.naive.keys import naive_hash


def hashed(texts: list[bytes]) -> np.ndarray:
    stops = np.cumsum([0, *map(len, texts)])
    return engine().hash_texts(np.frombuffer(b"".join(texts), np.uint8), stops)


def test_hashes_like_the_oracle() -> None:
    rng = np.random.default_rng(0)
    texts = [rng.bytes(int(size)) for size in [*range(35), 200, 1000]]
    texts += [b"", b"\0", b"\0\0", b"\0" * 8, b"\0" * 9, b"\xff" * 16, "Ünï".encode()]
    keys = hashed(texts)
    assert keys.tolist() == [list(naive_hash(text)) for text in texts]
    assert len(set(map(tuple, keys.tolist()))) == len(set(texts))


def test_each_half_of_a_hash_differs_between_similar_texts() -> None:
    texts = [f"Z{i:09d}".encode() for i in range(50_000)]
    texts += [f"CC(=O)Nc1ccc(cc1)S(=O)(=O)N{'C' * i}{'N' * j}".encode() for i in range(99) for j in range(99)]
    for half in np.ascontiguousarray(hashed(texts).T):
        assert len(np.unique(half)) == len(texts)
        ones = np.unpackbits(half.view(np.uint8).reshape(-1, 8), axis=1).mean(0)
        assert np.abs(ones - 0.5).max() < 5 * 0.5 / np.sqrt(len(texts))  # 5 standard deviations, 64 bits


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_numbers_like_a_dict(dtype: type) -> None:
    rng = np.random.default_rng(1)
    for n in (0, 1, 2, 50, 400):
        # Few values, so that keys share halves, and places in the table.
        keys = rng.integers(0, max(1, n // 10), (n, 2)).astype(np.uint64)
        rows = list(map(tuple, keys.tolist()))
        number = {row: i for i, row in enumerate(dict.fromkeys(rows))}
        slots, numbers = np.full(n + 1 + n % 3, -1, dtype), np.empty(n, dtype)
        n_keys = engine().number_keys(keys, slots, numbers)
        assert n_keys == len(number)
        assert numbers.tolist() == [number[row] for row in rows]
        assert list(map(tuple, keys[:n_keys].tolist())) == list(number)
        wanted = rng.integers(0, n // 8 + 2, (300, 2)).astype(np.uint64)
        numbers_found = engine().find_keys(keys[:n_keys], slots, wanted)
        assert numbers_found.tolist() == [number.get(tuple(row), -1) for row in wanted.tolist()]
