"""The Tanimoto dot-product kernel against its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.kernels import TanimotoDotProduct, TanimotoMinMax
from tests.kernels.values import COUNTS, REALS, WEIGHTS, limits, ugly_rows
from tests.naive.tanimoto import tanimoto_dot_product


@given(COUNTS, COUNTS)
@limits
def test_counts_are_exact(X: np.ndarray, Y: np.ndarray) -> None:
    assert (TanimotoDotProduct()(X, Y) == tanimoto_dot_product(X, Y)).all()


@given(REALS, REALS)
@limits
def test_reals_of_any_size(X: np.ndarray, Y: np.ndarray) -> None:
    np.testing.assert_allclose(TanimotoDotProduct()(X, Y), tanimoto_dot_product(X, Y), atol=2e-15)


@given(st.one_of(COUNTS, WEIGHTS))
@limits
def test_square_roots(X: np.ndarray) -> None:
    actual = TanimotoDotProduct(transform="sqrt")(X)
    np.testing.assert_allclose(actual, tanimoto_dot_product(np.sqrt(X), np.sqrt(X)), atol=2e-15)


@pytest.mark.parametrize("n_terms", [1, 2, 5, 200])
@given(st.one_of(COUNTS, REALS))
@limits
def test_the_truncated_series(n_terms: int, X: np.ndarray) -> None:
    kernel = TanimotoDotProduct(n_terms=n_terms)
    gram = kernel(X)
    np.testing.assert_allclose(gram, tanimoto_dot_product(X, X, min(n_terms, 70)), atol=4e-15)
    assert (np.diag(gram) == kernel.diag(X)).all()
    assert (gram == gram.T).all()


@given(st.one_of(COUNTS, REALS))
@limits
def test_symmetric_with_a_unit_diagonal_and_opposites(X: np.ndarray) -> None:
    kernel = TanimotoDotProduct()
    gram = kernel(X)
    assert (gram == gram.T).all()
    assert (np.diag(gram) == 1.0).all()
    assert (kernel.diag(X) == 1.0).all()
    assert (np.diag(kernel.distance(X)) == 0.0).all()
    opposite = np.diag(kernel(X, -X.astype(np.float64)))
    np.testing.assert_allclose(opposite, np.where(X.any(axis=1), -1 / 3, 1.0), rtol=1e-15)


def test_the_ends_of_the_numbers() -> None:
    X = np.array([[1e308, 1e308], [5e-324, 5e-324], [0, 0], [1.0, 1.0], [-1e308, -1e308]])
    expected = np.eye(5)
    expected[0, 4] = expected[4, 0] = -1 / 3
    np.testing.assert_allclose(TanimotoDotProduct()(X), expected, atol=1e-300)


def test_a_row_has_the_same_values_beside_a_huge_one() -> None:
    X = np.random.default_rng(3).normal(size=(5, 9))
    huge = np.vstack([X, np.full(9, 1e200)])
    assert (TanimotoDotProduct()(huge)[:5, :5] == TanimotoDotProduct()(X)).all()


def test_binary_rows_have_the_min_max_kernel() -> None:
    X = np.random.default_rng(0).integers(0, 2, (20, 12))
    assert (TanimotoDotProduct()(X) == TanimotoMinMax()(X)).all()


def test_one_minus_t_is_no_metric() -> None:
    T = TanimotoDotProduct()([[1], [2], [4]])
    apart = 1.0 - T
    assert apart[0, 2] > apart[0, 1] + apart[1, 2]
    distance = TanimotoDotProduct().distance([[1], [2], [4]])
    assert distance[0, 2] <= distance[0, 1] + distance[1, 2]


@pytest.mark.parametrize("n_terms", [None, 3])
def test_distance_is_that_of_the_hilbert_space(n_terms: int | None) -> None:
    kernel = TanimotoDotProduct(n_terms=n_terms)
    X, Y = ugly_rows(0), ugly_rows(1)
    gram = kernel(np.vstack([X, Y]))
    norms = np.diag(gram)
    squared = (norms[:, None] + norms - 2 * gram)[: len(X), len(X) :] / 2
    np.testing.assert_allclose(kernel.distance(X, Y), np.sqrt(np.maximum(squared, 0.0)), atol=1e-7)


@pytest.mark.parametrize(
    ("parameters", "X", "words"),
    [
        ({"transform": "log"}, [[1]], "transform must be"),
        ({"n_terms": 0}, [[1]], "n_terms must be"),
        ({"n_terms": 2.5}, [[1]], "n_terms must be"),
        ({"transform": "sqrt"}, [[1, 0], [2, -3]], "row 1, column 1 is negative"),
        ({}, [[1, 0], [np.nan, 3]], "row 1, column 0 is not a finite"),
    ],
)
def test_bad_input_is_refused(parameters: dict, X: list, words: str) -> None:
    with pytest.raises(InputError, match=words):
        TanimotoDotProduct(**parameters)(X)
