"""Compositional kernels against their power series."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.kernels import CompositionalTanimoto, TanimotoMinMax
from tests.kernels.values import COUNTS, limits
from tests.naive.tanimoto import composed, tanimoto_minmax

KERNELS = [
    CompositionalTanimoto(),
    CompositionalTanimoto("power", degree=1),
    CompositionalTanimoto("power", degree=13),
    CompositionalTanimoto("exponential"),
    CompositionalTanimoto("exponential", gamma=1e-6),
    CompositionalTanimoto("exponential", gamma=30.5),
    CompositionalTanimoto("ratio"),
    CompositionalTanimoto("coefficients", coefficients=(0.5, 0, 2, 0)),
    CompositionalTanimoto("coefficients", coefficients=np.array([7])),
]
by_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


@by_kernel
@given(COUNTS, COUNTS)
@limits
def test_the_series_is_the_kernel(kernel: CompositionalTanimoto, X: np.ndarray, Y: np.ndarray) -> None:
    expected = composed(tanimoto_minmax(X, Y), kernel.degree_probabilities())
    np.testing.assert_allclose(kernel(X, Y), expected, rtol=1e-13, atol=1e-15)


@by_kernel
def test_equal_rows_have_exactly_one(kernel: CompositionalTanimoto) -> None:
    X = [[1, 2, 0], [0, 0, 0], [1, 2, 0]]
    gram = kernel(X)
    assert (np.diag(gram) == kernel.diag(X)).all()
    assert gram[0, 2] == 1.0
    assert kernel.distance(X)[0, 2] == 0.0


@by_kernel
def test_probabilities_sum_to_one_and_end_where_nothing_is_left(kernel: CompositionalTanimoto) -> None:
    probabilities = kernel.degree_probabilities()
    assert (probabilities >= 0.0).all()
    assert abs(math.fsum(probabilities) - 1.0) < 2**-51
    assert probabilities[-1] >= 2.0**-55


@given(st.floats(1e-3, 2000))
@limits
def test_exponential_series_is_a_poisson_distribution(gamma: float) -> None:
    found = CompositionalTanimoto("exponential", gamma=gamma).degree_probabilities()
    logs = [n * math.log(gamma) - gamma - math.lgamma(n + 1) for n in range(found.size)]
    np.testing.assert_allclose(found, np.exp(logs), rtol=1e-9, atol=1e-25)


def test_probabilities_keep_their_bytes() -> None:
    """Random degrees follow from them, and stored features from those."""
    content = b"".join(kernel.degree_probabilities().tobytes() for kernel in KERNELS)
    assert hashlib.sha256(content).hexdigest()[:16] == "c7a69098e80180ad"


def test_similarities_alone() -> None:
    T = np.array([[0.0, 0.5, 1.0]])
    assert CompositionalTanimoto("ratio").of_similarities(T).tolist() == [[0.0, 1 / 3, 1.0]]
    assert T.tolist() == [[0.0, 0.5, 1.0]]


def test_huge_coefficients() -> None:
    kernel = CompositionalTanimoto("coefficients", coefficients=(0, 1e308, 1e308, 1e308))
    np.testing.assert_allclose(kernel.of_similarities([0.5]), [0.875 / 3])


def test_degree_one_is_the_kernel_itself() -> None:
    X = np.random.default_rng(1).poisson(1.0, (9, 6))
    assert (CompositionalTanimoto("power", degree=1)(X) == TanimotoMinMax()(X)).all()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"series": "sine"}, "series must be one of"),
        ({"gamma": 1.0}, "gamma is no parameter"),
        ({"series": "ratio", "degree": 2}, "degree is no parameter"),
        ({"degree": 0}, "degree must be"),
        ({"degree": 2.0}, "degree must be"),
        ({"series": "exponential", "gamma": 0}, "gamma must be"),
        ({"series": "exponential", "gamma": math.nan}, "gamma must be"),
        ({"series": "exponential", "gamma": math.inf}, "gamma must be"),
        ({"series": "exponential", "gamma": "large"}, "gamma must be"),
        ({"series": "coefficients"}, "needs coefficients"),
        ({"series": "coefficients", "coefficients": (1, -1e-9)}, "degree 1 must be a finite"),
        ({"series": "coefficients", "coefficients": (math.nan,)}, "degree 0 must be a finite"),
        ({"series": "coefficients", "coefficients": (1, math.inf)}, "degree 1 must be a finite"),
        ({"series": "coefficients", "coefficients": (0, 0.0)}, "All coefficients are 0"),
        ({"series": "coefficients", "coefficients": ()}, "All coefficients are 0"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        CompositionalTanimoto(**parameters)
