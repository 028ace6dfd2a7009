"""The Walsh-Hadamard transform against its matrix, in any batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from daskrf.engine import engine
from tests.jit import jit_disabled
from tests.naive import fourier as naive

LENGTHS = [8, 16, 32, 64, 128, 256] + ([] if jit_disabled() else [512, 1024, 2048])
integers = st.integers(0, 5).flatmap(
    lambda level: hnp.arrays(
        np.float32, st.tuples(st.integers(0, 3), st.just(8 << level)), elements=st.integers(-999, 999)
    )
)


@pytest.mark.parametrize("length", LENGTHS)
def test_the_transform_is_the_matrix(length: int) -> None:
    x = np.random.default_rng(length).integers(-50, 50, (3, length)).astype(np.float32)
    expected = x @ naive.hadamard(length)
    engine().hadamard_transform(x)
    # Sums of small integers are exact.
    assert (x == expected).all()


@pytest.mark.skipif(jit_disabled(), reason="too long for plain Python")
@pytest.mark.parametrize("length", [4096, 8192, 16384, 65536, 262144])
def test_long_transforms_by_a_library(length: int) -> None:
    x = np.random.default_rng(length).integers(-20, 20, (1, length)).astype(np.float32)
    expected = x.reshape(-1).astype(np.int64)
    stride = 1
    while stride < length:
        pairs = expected.reshape(-1, 2, stride)
        expected = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).ravel()
        stride *= 2
    engine().hadamard_transform(x)
    assert (x[0] == expected).all()


@given(integers)
@settings(deadline=None, derandomize=True, max_examples=5 if jit_disabled() else 60)
def test_twice_is_the_length_times_the_row(x: np.ndarray) -> None:
    twice = x.copy()
    engine().hadamard_transform(twice)
    engine().hadamard_transform(twice)
    assert (twice == x * x.shape[1]).all()


def test_a_row_does_not_see_its_batch() -> None:
    x = np.random.default_rng(0).normal(size=(7, 64)).astype(np.float32)
    alone = x[4:5].copy()
    engine().hadamard_transform(x)
    engine().hadamard_transform(alone)
    assert alone.tobytes() == x[4:5].tobytes()
    engine().hadamard_transform(np.zeros((0, 64), np.float32))
