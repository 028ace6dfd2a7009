"""Rows that the tests of the kernels draw."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from daskrf.kernels.metric import Metric
from tests.jit import jit_disabled

METRIC = Metric(
    0.25,
    np.array([0, 2, 5, 39, 77]),
    np.array([[1, 0.5], [-0.5, 2], [0.25, 0], [0, -1], [3, 1]], np.float32),
)
"""Two directions of five columns, of which most rows have some only."""


def _rows(values: st.SearchStrategy, dtype: type = np.float64) -> st.SearchStrategy:
    return hnp.arrays(dtype, st.tuples(st.integers(0, 6), st.just(5)), elements=values)


COUNTS = _rows(st.sampled_from([0, 0, 0, 1, 2, 255, 256, 65_535]), np.int64)
# Sparse, and of scales from 1e-300 to 1e300: the digits of small values must not be lost beside large rows.
_positive = st.one_of(st.just(0.0), st.floats(0, 100, allow_subnormal=False), st.floats(1e-300, 1e300))
WEIGHTS = _rows(_positive)
REALS = _rows(st.one_of(st.just(0.0), st.floats(-100, 100), st.floats(allow_nan=False, allow_infinity=False)))
limits = settings(derandomize=True, deadline=None, max_examples=10 if jit_disabled() else 60)


def ugly_rows(seed: int = 0, n: int = 24) -> np.ndarray:
    """Return counts with equal rows, rows of zeros, and rows that differ in little or in scale."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.7, (n, 8)).astype(np.float64)
    X[1] = X[0]
    X[2] = 2 * X[0]
    X[3] = 1e9 * X[0]
    X[4] = X[0] + np.eye(8)[0]
    X[5] = X[6] = 0
    X[7] = 300 * np.eye(8)[1]
    X[8] = 70_000 * np.eye(8)[2]
    return X
