"""The exact kernel against its definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.kernels import TanimotoMinMax
from tests.kernels.values import COUNTS, WEIGHTS, limits
from tests.naive.tanimoto import tanimoto_minmax


@given(COUNTS, COUNTS)
@limits
def test_counts_are_exact(X: np.ndarray, Y: np.ndarray) -> None:
    assert (TanimotoMinMax()(X, sp.csr_matrix(Y)) == tanimoto_minmax(X, Y)).all()


@given(WEIGHTS, WEIGHTS)
@limits
def test_weights_agree_to_rounding(X: np.ndarray, Y: np.ndarray) -> None:
    np.testing.assert_allclose(TanimotoMinMax()(X, Y), tanimoto_minmax(X, Y), rtol=1e-14, atol=1e-300)


def test_a_row_keeps_its_digits_beside_a_large_one() -> None:
    assert TanimotoMinMax()([[1, 2, 0]], [[0, 0, 1e17], [0, 3, 0]]).tolist() == [[0.0, 0.5]]


@given(st.one_of(COUNTS, WEIGHTS))
@limits
def test_the_gram_matrix_is_symmetric_with_a_unit_diagonal(X: np.ndarray) -> None:
    kernel = TanimotoMinMax()
    gram = kernel(X)
    assert (gram == gram.T).all()
    assert (np.diag(gram) == kernel.diag(X)).all()


def test_unfolded_identifiers() -> None:
    indices = np.array([5, 2**32 - 1, 5, 7])
    X = sp.csr_matrix((np.array([1, 2, 1, 1]), indices, np.array([0, 2, 4])), shape=(2, 2**32))
    assert TanimotoMinMax()(X).tolist() == [[1.0, 0.25], [0.25, 1.0]]


def test_empty_rows_are_like_each_other_only() -> None:
    assert TanimotoMinMax()([[0, 0], [1, 0]], [[0, 0], [0, 3]]).tolist() == [[1.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("X", "Y", "words"),
    [([[1, 2]], [[1]], "same columns"), ([[-1]], None, "negative"), ([[np.inf]], None, "finite")],
)
def test_bad_input_is_refused(X: list, Y: list | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        TanimotoMinMax()(X, Y)


def test_kernels_compare_by_value() -> None:
    assert TanimotoMinMax() == TanimotoMinMax()
    assert len({TanimotoMinMax(), TanimotoMinMax()}) == 1
    assert repr(TanimotoMinMax()) == "TanimotoMinMax()"


@pytest.mark.parametrize("largest", [255, 65_535])
def test_sums_about_the_ends_of_the_integer_types(largest: int) -> None:
    X = np.array(
        [[largest, 0, 0], [largest, 1, 0], [largest - 1, 1, 0], [largest, 1, 1], [largest - 1, 0, 0]]
    )
    assert (TanimotoMinMax()(X) == tanimoto_minmax(X, X)).all()


def test_sums_that_float64_cannot_hold_are_refused() -> None:
    largest = [[3e307, 0, 0], [0, 1, 0]]
    np.testing.assert_allclose(TanimotoMinMax()(largest, [[1.5e307, 1.5e307, 0]]), [[1 / 3], [1 / 3e307]])
    for X, Y in (([[1, 0], [3e307, 3e307]], [[1, 2]]), ([[1, 2]], [[1, 0], [1e308, 1e308]])):
        with pytest.raises(InputError, match=r"row 1 sum to more than 4e\+307; divide"):
            TanimotoMinMax()(X, Y)
