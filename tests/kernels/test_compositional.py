"""Compositional kernels against their power series."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskrf.kernels import Composition, DotProduct, Exponential, Polynomial, Ratio, TanimotoMinMax
from tests.kernels.values import COUNTS, limits
from tests.naive.tanimoto import composed, tanimoto_minmax

SERIES = [
    Polynomial(2, c=0.0),
    Polynomial(1, c=0.0),
    Polynomial(13, c=0.0),
    Exponential(),
    Exponential(1e-6),
    Exponential(30.5),
    Ratio(),
    DotProduct((0.5, 0, 2, 0)),
    DotProduct(np.array([7])),
]
KERNELS = [Composition(series) for series in SERIES]
by_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


@by_kernel
@given(COUNTS, COUNTS)
@limits
def test_the_series_is_the_kernel(kernel: Composition, X: np.ndarray, Y: np.ndarray) -> None:
    expected = composed(tanimoto_minmax(X, Y), kernel.outer.probabilities())
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-13, atol=1e-15)


@by_kernel
def test_equal_rows_have_exactly_one(kernel: Composition) -> None:
    X = [[1, 2, 0], [0, 0, 0], [1, 2, 0]]
    gram = kernel(X)
    assert (np.diag(gram) == kernel.diag(X)).all()
    assert gram[0, 2] == 1.0
    assert kernel.distance(X)[0, 2] == 0.0


@by_kernel
def test_probabilities_sum_to_one_and_end_where_nothing_is_left(kernel: Composition) -> None:
    probabilities = kernel.outer.probabilities()
    assert (probabilities >= 0.0).all()
    assert abs(math.fsum(probabilities) - 1.0) < 2**-51
    assert probabilities[-1] >= 2.0**-55


@given(st.floats(1e-3, 2000))
@limits
def test_exponential_series_is_a_poisson_distribution(gamma: float) -> None:
    actual = Exponential(gamma).probabilities()
    logs = [n * math.log(gamma) - gamma - math.lgamma(n + 1) for n in range(actual.size)]
    np.testing.assert_allclose(actual, np.exp(logs), rtol=1e-9, atol=1e-25)


def test_probabilities_keep_their_bytes() -> None:
    """Random degrees follow from them, and stored features from those."""
    content = b"".join(kernel.outer.probabilities().tobytes() for kernel in KERNELS)
    assert hashlib.sha256(content).hexdigest()[:16] == "c7a69098e80180ad"


def test_similarities_alone() -> None:
    T = np.array([[0.0, 0.5, 1.0]])
    actual = Composition(Ratio()).of_similarities(T)
    np.testing.assert_allclose(actual, [[0.0, 1 / 3, 1.0]], rtol=1e-15)
    assert actual[0, 2] == 1.0
    assert T.tolist() == [[0.0, 0.5, 1.0]]


def test_huge_coefficients() -> None:
    kernel = Composition(DotProduct((0, 1e308, 1e308, 1e308)))
    np.testing.assert_allclose(kernel.of_similarities([0.5]), [0.875 / 3])


def test_degree_one_is_the_kernel_itself() -> None:
    X = np.random.default_rng(1).poisson(1.0, (9, 6))
    assert (Composition(Polynomial(1, c=0.0))(X) == TanimotoMinMax()(X)).all()


def test_exponentials_of_large_numbers() -> None:
    """exp(gamma) is too large for a number, and exp(gamma (T - 1)) is not."""
    assert Composition(Exponential(1e5))([[2, 1]], [[2, 1], [2, 2]]).tolist() == [[1.0, 0.0]]
