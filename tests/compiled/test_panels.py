"""Products by panels: against exact sums, and the same bytes wherever a row stands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.compiled.jit import jit_disabled
from daskrf.compiled.panels import make_panels, multiply, squared_lengths
from daskrf.compiled.radial import centred, radial_values

few = settings(deadline=None, derandomize=True, max_examples=15 if jit_disabled() else 80)
TYPES = (np.float32, np.float64)


def product(rows: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    out = np.full((len(rows), matrix.shape[1]), np.nan, rows.dtype)
    multiply(np.ascontiguousarray(rows), make_panels(np.ascontiguousarray(matrix)), out)
    return out


@few
@given(
    st.sampled_from(TYPES),
    st.integers(0, 20),
    st.integers(1, 40),
    st.integers(0, 40),
    st.integers(0, 2**32 - 1),
)
def test_products_are_those_of_exact_sums(dtype: type, m: int, k: int, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, matrix = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)
    matrix[rng.random((k, n)) < 0.3] = 0
    if seed % 3 == 0:
        matrix = np.tril(matrix)
    exact = rows.astype(np.longdouble) @ matrix.astype(np.longdouble)
    size = np.abs(rows).astype(np.longdouble) @ np.abs(matrix).astype(np.longdouble)
    assert (np.abs(product(rows, matrix) - exact) <= (k + 2) * np.finfo(dtype).eps * size).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("k", [1, 7, 700] if not jit_disabled() else [1, 7])
def test_rows_do_not_see_their_batch(dtype: type, k: int) -> None:
    rng = np.random.default_rng(k)
    rows, matrix = rng.normal(size=(103, k)).astype(dtype), np.tril(rng.normal(size=(k, 33))).astype(dtype)
    rows, whole = rows[:20] if jit_disabled() else rows, None
    whole = product(rows, matrix)
    for step in (1, 5, 6, 17):
        parts = [product(rows[i : i + step], matrix) for i in range(0, len(rows), step)]
        assert np.concatenate(parts).tobytes() == whole.tobytes()
    assert product(rows, matrix[:, :5]).tobytes() == np.ascontiguousarray(whole[:, :5]).tobytes()


@pytest.mark.parametrize("dtype", TYPES)
def test_lengths_are_the_products_of_rows_with_themselves(dtype: type) -> None:
    for k in (1, 3, 600 if not jit_disabled() else 9):
        rows = np.random.default_rng(k).normal(size=(7, k)).astype(dtype)
        assert (np.diag(product(rows, rows.T)) == squared_lengths(rows)).all()


def test_zeros_above_the_first_number_are_left_out() -> None:
    found = make_panels(np.tril(np.ones((40, 40), np.float32)))
    assert found.starts.tolist() == [0, 16, 32]
    assert found.numbers.size == 16 * (40 + 24 + 8)
    nothing = make_panels(np.zeros((5, 3)))
    assert nothing.numbers.size == 0
    assert (product(np.ones((2, 5)), np.zeros((5, 3))) == 0).all()


def test_exponentials_in_single_precision() -> None:
    z = np.concatenate([[0.0], np.logspace(-8, 2.5, 500)]).astype(np.float32)
    for form, exact in (
        ((False, 0.0, 0.0), lambda z: np.exp(-z)),
        ((True, 1.0, 0.0), lambda z: (1 + np.sqrt(z)) * np.exp(-np.sqrt(z))),
        ((True, 1.0, 1 / 3), lambda z: (1 + np.sqrt(z) + z / 3) * np.exp(-np.sqrt(z))),
    ):
        out = np.zeros((1, z.size), np.float32)
        radial_values(np.zeros(1, np.float32), z, 1.0, form, out)
        assert out[0, 0] == 1.0
        np.testing.assert_allclose(out[0], exact(z.astype(float)), rtol=3e-7, atol=1.5e-7)
    out = np.zeros((1, 2), np.float32)
    radial_values(np.full(1, np.inf, np.float32), np.ones(2, np.float32), 0.5, (False, 0.0, 0.0), out)
    assert (out == 0).all()


def test_far_rows_are_zeros_of_infinite_length() -> None:
    rows = np.array([[1.0, 2.0], [1e300, 0.0], [3.0, 5.0]])
    out, lengths = centred(rows, np.array([1.0, 1.0]), 100.0)
    assert out.tolist() == [[0.0, 1.0], [0.0, 0.0], [2.0, 4.0]]
    assert lengths.tolist() == [1.0, np.inf, 20.0]
