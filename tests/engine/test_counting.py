"""Distinct identifiers and their counts, by comparison with each other or by sorting."""

from __future__ import annotations

import numpy as np
import pytest

from daskrf.engine.cpu import counting

FEW = counting._FEW


@pytest.mark.parametrize("n", [0, 1, 2, 15, 16, 31, 32, 33, 200, FEW - 1, FEW, FEW + 1, 3 * FEW])
@pytest.mark.parametrize("n_values", [1, 5, 300, 1 << 32])
def test_counts_are_those_of_numpy(n: int, n_values: int) -> None:
    rng = np.random.default_rng(n)
    given = rng.integers(0, n_values, n, dtype=np.uint32)
    given[: n // 4] = rng.choice([0, 2**31 - 1, 2**31, 2**32 - 1], n // 4)
    identifiers = np.full(n + counting._SPARE, 2**32 - 1, np.uint32)
    identifiers[:n] = given
    places, counts = (np.full((2, FEW + counting._SPARE), 7, np.int32) for _ in range(2))
    columns, values = np.zeros(n + 8, np.uint32), np.zeros(n + 8, np.int64)
    for start in (0, 5):  # the buffers hold what the call before has left
        columns[:], values[:] = 9, 9
        identifiers[:n] = given
        stop = counting._add_counts(identifiers, n, places, counts, start, columns, values)
        expected, times = np.unique(given, return_counts=True)
        assert columns[start:stop].tolist() == expected.tolist()
        assert values[start:stop].tolist() == times.tolist()
        assert (columns[:start] == 9).all()
        assert (columns[max(stop, start + n) :] == 9).all()
