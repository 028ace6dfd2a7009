"""Projections and cosines: against float64, zeros left out or not, and the same wherever a row stands."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.engine import Rows, engine
from tests.jit import jit_disabled

few = settings(deadline=None, derandomize=True, max_examples=10 if jit_disabled() else 100)
turns = st.one_of(
    st.floats(-2, 2, width=32),
    st.floats(-1e5, 1e5, width=32),
    st.floats(-(2.0**126), 2.0**126, width=32),
    st.integers(-40, 40).map(lambda k: k / 8),
)


def cosines(phases: np.ndarray, n_components: int) -> np.ndarray:
    out = np.full((len(phases), n_components), np.nan, np.float32)
    engine().cosines(np.ascontiguousarray(phases, np.float32), 1.0, out)
    return out


@given(st.lists(turns, min_size=8, max_size=8))
@few
def test_cosines_and_sines_of_turns(values: list[float]) -> None:
    phases = np.array([values], np.float32)
    actual = cosines(phases, 16)
    # What is left of whole turns is exact in float64, too.
    angle = 2 * np.pi * np.remainder(phases[0].astype(float), 1.0)
    assert np.abs(actual[0, ::2] - np.cos(angle)).max() < 1.8e-7
    assert np.abs(actual[0, 1::2] - np.sin(angle)).max() < 1.8e-7


def test_eighths_of_turns_are_symmetrical() -> None:
    actual = cosines(np.array([[0, 0.25, 0.5, 0.75, 1, -0.25, -0.5, 1e9]]), 16)[0].reshape(-1, 2)
    expected = [(1, 0), (0, 1), (-1, 0), (0, -1), (1, 0), (0, -1), (-1, 0), (1, 0)]
    assert actual.tolist() == [list(map(float, pair)) for pair in expected]


@pytest.mark.parametrize("n_components", [2, 3, 15, 16, 17, 30, 32])
def test_any_number_of_components(n_components: int) -> None:
    phases = np.random.default_rng(0).normal(size=(3, 16)).astype(np.float32)
    actual, whole = cosines(phases, n_components), cosines(phases, 32)
    pairs = n_components // 2 * 2
    assert actual[:, :pairs].tobytes() == np.ascontiguousarray(whole[:, :pairs]).tobytes()
    assert (actual[:, pairs:] == 0).all()


@pytest.mark.parametrize("d", [1, 5, 33])
def test_projections_with_and_without_zeros_agree(d: int) -> None:
    rng = np.random.default_rng(d)
    X = (rng.normal(size=(12, d)) * (rng.random((12, d)) < 0.4)).astype(np.float32)
    X[3] = 0
    X[4] = -0.0
    directions = rng.normal(size=(d, 70)).astype(np.float32)
    dense, sparse = np.full((2, 12, 70), np.nan, np.float32)
    whole = Rows(np.arange(0, 12 * d + 1, d), np.tile(np.arange(d, dtype=np.int32), 12), X.ravel())
    engine().project(whole, directions, dense)
    csr = sp.csr_matrix(X)
    parts = Rows(csr.indptr.astype(np.int64), csr.indices, csr.data)
    engine().project(parts, directions, sparse)
    some = np.full((5, 70), np.nan, np.float32)
    engine().project(parts._replace(pointer=parts.pointer[4:10]), directions, some)
    assert some.tobytes() == sparse[4:9].tobytes()
    for actual in (dense, sparse):
        np.testing.assert_allclose(actual, X.astype(float) @ directions.astype(float), atol=1e-5)
