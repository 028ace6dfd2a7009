"""Projections and cosines: against float64, zeros left out or not, and the same wherever a row stands."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.compiled.fourier import TILE, add_cosines, orthogonalise, project, project_dense
from daskrf.compiled.jit import jit_disabled

few = settings(deadline=None, derandomize=True, max_examples=10 if jit_disabled() else 100)
turns = st.one_of(
    st.floats(-2, 2, width=32),
    st.floats(-1e5, 1e5, width=32),
    st.floats(-(2.0**126), 2.0**126, width=32),
    st.integers(-40, 40).map(lambda k: k / 8),
)


def cosines(phases: np.ndarray, n_components: int) -> np.ndarray:
    out = np.full((len(phases), n_components), np.nan, np.float32)
    add_cosines(np.ascontiguousarray(phases, np.float32), 1.0, out)
    return out


@given(st.lists(turns, min_size=8, max_size=8))
@few
def test_cosines_and_sines_of_turns(values: list[float]) -> None:
    phases = np.array([values], np.float32)
    found = cosines(phases, 16)
    # What is left of whole turns is exact in float64, too.
    angle = 2 * np.pi * np.remainder(phases[0].astype(float), 1.0)
    assert np.abs(found[0, ::2] - np.cos(angle)).max() < 1.8e-7
    assert np.abs(found[0, 1::2] - np.sin(angle)).max() < 1.8e-7


def test_eighths_of_turns_are_symmetrical() -> None:
    found = cosines(np.array([[0, 0.25, 0.5, 0.75, 1, -0.25, -0.5, 1e9]]), 16)[0].reshape(-1, 2)
    expected = [(1, 0), (0, 1), (-1, 0), (0, -1), (1, 0), (0, -1), (-1, 0), (1, 0)]
    assert found.tolist() == [list(map(float, pair)) for pair in expected]


@pytest.mark.parametrize("n_components", [2, 3, 15, 16, 17, 30, 32])
def test_any_number_of_components(n_components: int) -> None:
    phases = np.random.default_rng(0).normal(size=(3, 16)).astype(np.float32)
    found, whole = cosines(phases, n_components), cosines(phases, 32)
    pairs = n_components // 2 * 2
    assert found[:, :pairs].tobytes() == np.ascontiguousarray(whole[:, :pairs]).tobytes()
    assert (found[:, pairs:] == 0).all()


@pytest.mark.parametrize(("n", "d"), [(0, 3), (1, 1), (4, 5), (7, 33)])
def test_dense_rows_have_the_bytes_of_sparse_ones(n: int, d: int) -> None:
    rng = np.random.default_rng(d)
    X = (rng.normal(size=(n, d)) * np.exp(5 * rng.normal(size=(n, d)))).astype(np.float32)
    X[:, ::3] *= rng.random((n, X[:, ::3].shape[1])) < 0.5
    tables = rng.normal(size=(2, d, TILE)).astype(np.float32)
    dense, sparse = np.full((2, n, 2 * TILE), np.nan, np.float32)
    project_dense(X, tables, dense)
    csr = sp.csr_matrix(X)
    project(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data, 0, tables, sparse)
    assert dense.tobytes() == sparse.tobytes()


@pytest.mark.parametrize("d", [1, 5, 33])
def test_projections_with_and_without_zeros_have_the_same_bytes(d: int) -> None:
    rng = np.random.default_rng(d)
    X = (rng.normal(size=(12, d)) * (rng.random((12, d)) < 0.4)).astype(np.float32)
    X[3] = 0
    X[4] = -0.0
    tables = rng.normal(size=(2, d, TILE)).astype(np.float32)
    dense, sparse = np.empty((2, 12, 2 * TILE), np.float32)
    whole = np.arange(0, 12 * d + 1, d), np.tile(np.arange(d, dtype=np.int32), 12), X.ravel()
    project(*whole, 0, tables, dense)
    csr = sp.csr_matrix(X)
    parts = csr.indptr.astype(np.int64), csr.indices.astype(np.int32), csr.data
    project(*parts, 0, tables, sparse)
    assert dense.tobytes() == sparse.tobytes()
    some = np.empty((5, 2 * TILE), np.float32)
    project(*parts, 4, tables, some)
    assert some.tobytes() == sparse[4:9].tobytes()
    expected = X.astype(float) @ np.concatenate(tables.astype(float), axis=1)
    np.testing.assert_allclose(dense, expected, atol=1e-5)


@pytest.mark.parametrize(("d", "n"), [(1, 1), (4, 3), (20, 20)])
def test_orthogonal_columns(d: int, n: int) -> None:
    normals = np.random.default_rng(d).normal(size=(d, n))
    found = normals.copy()
    orthogonalise(found)
    np.testing.assert_allclose(found.T @ found, np.eye(n), atol=1e-12)
    q, r = np.linalg.qr(normals)
    np.testing.assert_allclose(found, q * np.sign(np.diag(r)), atol=1e-11)
