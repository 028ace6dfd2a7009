"""Norms of rows, and rows divided by them."""

from __future__ import annotations

import numpy as np
import pytest

from daskrf.compiled.rows import normalise, squared_distances, unit_rows


@pytest.mark.parametrize("width", [1, 7, 8, 61])
def test_normalised_rows_have_length_one(width: int) -> None:
    rows = np.random.default_rng(width).normal(size=(3, width)).astype(np.float32)
    rows[1] = 0
    before = rows.astype(float)
    normalise(rows)
    np.testing.assert_allclose(rows[[0, 2]], before[[0, 2]] / np.linalg.norm(before[[0, 2]], axis=1)[:, None])
    assert (rows[1] == 0).all()


def test_unit_rows_of_counts_have_exact_norms() -> None:
    norms, values = unit_rows(np.array([0, 2, 2, 3]), np.array([4, 5, 7], np.uint16), root=True)
    assert norms.tolist() == [9.0, 0.0, 7.0]
    np.testing.assert_allclose(values, [2 / 3, np.sqrt(5) / 3, 1], rtol=1e-7)
    norms, values = unit_rows(np.array([0, 2]), np.array([3.0, -4.0]), root=False)
    assert norms.tolist() == [25.0]
    np.testing.assert_allclose(values, [0.6, -0.8], rtol=1e-7)


def test_squared_distances_follow_from_inner_products() -> None:
    x, y = np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([[3.0, 4.0], [6.0, 0.0], [0.0, 0.0]])
    squares = x @ y.T
    squared_distances(np.square(x).sum(axis=1), np.square(y).sum(axis=1), squares)
    assert squares.tolist() == [[0.0, 25.0, 25.0], [18.0, 37.0, 1.0]]
    lost = np.array([[1.0 + 2.0**-52]])
    squared_distances(np.ones(1), np.ones(1), lost)
    assert lost.tolist() == [[0.0]], "what rounding leaves below 0 is 0"
