"""Dot-product kernels against their power series, and what is left of a truncated one."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson

from daskrf.errors import InputError
from daskrf.kernels import (
    Composition,
    DotProduct,
    DotProductKernel,
    Exponential,
    Polynomial,
    TanimotoMinMax,
    TruncatedGaussian,
    residual_bound,
    truncation_degree,
)
from tests.kernels.values import COUNTS, limits

KERNELS = [
    Polynomial(0, c=0.0),
    Polynomial(1, c=0.25),
    Polynomial(2, c=1.0),
    Polynomial(7, c=0.5),
    Exponential(0.3),
    DotProduct((0.5, 0.0, 2.0)),
    DotProduct((3.0,)),
    DotProduct((0.0, 0.0, 0.0, 1.0)),
]
by_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=repr)


@by_kernel
def test_the_series_is_the_kernel(kernel: DotProductKernel) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(6, 4)), rng.normal(size=(5, 4))
    t = X @ Y.T
    series = sum(a * t**n for n, a in enumerate(kernel.maclaurin(60)))
    np.testing.assert_allclose(kernel(X, Y), series, rtol=1e-12, atol=1e-12)
    same = type(kernel)(**{**kernel.parameters(), "normalize": True})
    cosine = t / np.linalg.norm(X, axis=1)[:, None] / np.linalg.norm(Y, axis=1)
    series = sum(a * cosine**n for n, a in enumerate(kernel.maclaurin(60)))
    np.testing.assert_allclose(same(X, Y), series, rtol=1e-12, atol=1e-12)


def test_degrees_0_and_1() -> None:
    X = [[0.0, 0.0], [3.0, -1.0]]
    assert Polynomial(0, c=0.0)(X).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert Polynomial(1, c=0.0)(X).tolist() == [[0.0, 0.0], [0.0, 10.0]]
    assert Polynomial(1, c=2.0)(X).tolist() == [[2.0, 2.0], [2.0, 12.0]]
    assert DotProduct((4.0,))(X).tolist() == [[4.0, 4.0], [4.0, 4.0]]
    assert Polynomial(0, c=7.0).maclaurin(3).tolist() == [1.0, 0.0, 0.0]


@given(COUNTS, COUNTS)
@limits
def test_counts_are_exact(X: np.ndarray, Y: np.ndarray) -> None:
    expected = [
        [float(Fraction(sum(int(a) * int(b) for a, b in zip(x, y, strict=True)) + 1)) for y in Y] for x in X
    ]
    assert Polynomial(1, c=1.0)(X, Y).tolist() == expected


def test_equal_rows_have_the_cosine_1() -> None:
    X = np.random.default_rng(1).lognormal(0, 4, (9, 6))
    X[3] = 0
    X[4] *= 1e-300
    X[5] *= 1e290
    gram = Polynomial(1, c=0.0, normalize=True)(X)
    assert np.diag(gram).tolist() == [0.0 if row == 3 else 1.0 for row in range(9)]
    assert (np.abs(gram) <= 1 + 1e-15).all()


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"of row 1 of X and row 0 of Y is too large .* normalize"):
        Polynomial(3)([[1.0], [1e60]], [[1e60]])
    with pytest.raises(InputError, match="of row 1 is too large"):
        Exponential().diag([[1.0], [100.0]])
    with pytest.raises(InputError, match="too large"):
        Polynomial(1)([[1e200]])


def test_compositions_too_large_are_refused() -> None:
    kernel = Composition(Exponential(), Polynomial(3))
    X = [[0.1], [1e3]]
    with pytest.raises(InputError, match="of row 0 of X and row 1 of Y is too large"):
        kernel(X)
    with pytest.raises(InputError, match="of row 1 is too large"):
        kernel.diag(X)


@by_kernel
@pytest.mark.parametrize("radius", [0.5, 1.0, 3.0])
def test_the_residual_bounds_what_is_left_out(kernel: DotProductKernel, radius: float) -> None:
    """For rows of length R the truncated series differs by no more, and by as much where x = y."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20, 3))
    X *= radius / np.linalg.norm(X, axis=1)[:, None]
    whole = kernel(X)
    for degree in range(10):
        coefficients = kernel.maclaurin(degree + 1)
        cut = sum(a * (X @ X.T) ** n for n, a in enumerate(coefficients))
        bound = residual_bound(kernel, degree, radius)
        missing = np.abs(whole - cut)
        tolerance = 1e-12 * whole.max()
        assert missing.max() <= bound + tolerance
        assert abs(missing.max() - bound) <= tolerance


def test_residual_of_the_exponential_far_out() -> None:
    for gamma, radius, degree in [(1.0, 1.0, 30), (2.0, 3.0, 60), (0.01, 1.0, 3), (1.0, 10.0, 50)]:
        mean = gamma * radius**2
        expected = poisson.sf(degree, mean) * math.exp(mean)
        np.testing.assert_allclose(residual_bound(Exponential(gamma), degree, radius), expected, rtol=1e-9)
    assert residual_bound(Exponential(), 2, 1e-200) == 0.0
    assert residual_bound(Exponential(), 0, 1e9) == math.inf


@by_kernel
@pytest.mark.parametrize("tolerance", [0.3, 1e-3, 1e-10])
def test_truncation_is_the_first_degree_within_the_tolerance(
    kernel: DotProductKernel, tolerance: float
) -> None:
    degree = truncation_degree(kernel, 1.5, tolerance)
    most = tolerance * float(kernel.of_products(np.array([2.25]))[0])
    assert residual_bound(kernel, degree, 1.5) <= most * (1 + 1e-9)
    assert degree == 0 or residual_bound(kernel, degree - 1, 1.5) > most * (1 - 1e-9)


@by_kernel
def test_probabilities_are_the_shares_of_the_powers(kernel: DotProductKernel) -> None:
    actual = kernel.probabilities(1.2)
    expected = kernel.maclaurin(actual.size) * 1.44 ** np.arange(actual.size)
    np.testing.assert_allclose(actual, expected / kernel.of_products(np.array([1.44])), rtol=1e-12)
    assert abs(math.fsum(actual) - 1.0) < 1e-15


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Polynomial(-1), "degree must be an integer from 0 to 1,000, not -1"),
        (lambda: Polynomial(2.5), "degree must be an integer"),
        (lambda: Polynomial(True), "degree must be an integer"),
        (lambda: Polynomial(2, c=-0.5), "c must be .* at least 0, not -0.5: .* not positive definite"),
        (lambda: Polynomial(2, c=math.nan), "c must be"),
        (lambda: Exponential(0.0), "gamma must be above 0"),
        (lambda: Exponential(-1.0), "not positive definite"),
        (lambda: DotProduct((1.0, -2.0)), "degree 1 must be .* not -2.0: .* positive definite"),
        (lambda: DotProduct(()), "needs coefficients"),
        (lambda: DotProduct((0.0, 0.0)), "All coefficients are 0"),
        (lambda: DotProduct((math.inf,)), "degree 0 must be a finite"),
        (lambda: residual_bound(Polynomial(), 1, 0.0), "radius must be"),
        (lambda: residual_bound(Polynomial(), -1, 1.0), "degree must be"),
        (
            lambda: residual_bound(Polynomial(), 10**7 + 1, 1.0),
            "degree must be an integer from 0 to 10,000,000",
        ),
        (lambda: truncation_degree(Polynomial(), 1.0, 0.0), "tolerance must be"),
        (lambda: Exponential().probabilities(1e4), "cannot be weighed"),
        (lambda: Composition(TanimotoMinMax()), "outer must be a Polynomial"),
        (lambda: Composition(Polynomial(), "T"), "inner must be a kernel"),
        (lambda: Composition(Polynomial(1000, c=9.0)), "too large"),
        (lambda: TruncatedGaussian(0.0), "length_scale must be"),
        (lambda: TruncatedGaussian(-1.0), "length_scale must be"),
        (lambda: TruncatedGaussian(1.0, 3, ((5,), (1.0,)))([[1.0]]), "centre has column 5"),
        (lambda: TruncatedGaussian(1.0, 3, ((0, 5), (1.0, 1.0)))([[1.0]]), "centre has column 5"),
        *(
            (lambda centre=centre: TruncatedGaussian(1.0, 3, centre), "centre must be two sequences of one")
            for centre in (
                ((0, 1), (1.0,)),
                ((0,), (math.nan,)),
                ((0,), (math.inf,)),
                ((0,), (1e200,)),
                ((-1,), (1.0,)),
                ((-1, 2), (1.0, 1.0)),
                ((0.5,), (1.0,)),
                ((2, 2), (1.0, 3.0)),
                ((0,), ("x",)),
                ((0, 1, 2),),
                (0.0, 1.0),
                5,
            )
        ),
    ],
)
def test_bad_parameters_are_refused(make, message) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_composition_is_the_tanimoto_one() -> None:
    X = np.random.default_rng(5).poisson(0.7, (8, 5))
    actual = Composition(Exponential(1.5), TanimotoMinMax())(X)
    np.testing.assert_allclose(actual, np.exp(1.5 * (TanimotoMinMax()(X) - 1.0)), rtol=1e-14)


@given(st.integers(0, 40), st.floats(0.3, 5.0))
@limits
def test_the_truncated_gaussian_is_its_series(degree: int, length_scale: float) -> None:
    rng = np.random.default_rng(degree)
    X, c = rng.normal(size=(5, 3)), rng.normal(size=3)
    U = (X - c) / length_scale
    dot, norms = U @ U.T, np.sum(U * U, axis=1) / 2
    series = sum(dot**n / math.factorial(n) for n in range(degree + 1))
    expected = np.exp(-norms[:, None] - norms) * series
    actual = TruncatedGaussian(length_scale, degree, (range(3), c))(X)
    np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=1e-12)


def test_it_vanishes_far_from_the_centre() -> None:
    """Theorem 3.1: the truncated kernel tends to 0, also of a row with itself, and no term overflows."""
    kernel = TruncatedGaussian(1.0, 3)
    values = [kernel([[r, 0.0]])[0, 0] for r in (0.0, 1.0, 3.0, 6.0, 100.0, 1e100)]
    assert values == sorted(values, reverse=True)
    assert values[0] == 1.0
    assert values[-1] == 0.0
    orthogonal = kernel([[3.0, 0.0]], [[0.0, 3.0]])[0, 0]
    assert abs(orthogonal - math.exp(-9.0)) < 1e-15


def test_kernels_of_permutations_depend_on_their_matches() -> None:
    """Remark 8 of Le, Sarlos & Smola 2013: permutation matrices as rows of d^2 columns."""
    rng, d = np.random.default_rng(7), 6
    orders = np.array([rng.permutation(d) for _ in range(5)])
    matches = (orders[:, None] == orders).sum(axis=2)
    rows = np.eye(d)[orders].reshape(5, d * d)
    np.testing.assert_allclose(Exponential(0.5)(rows), np.exp(0.5 * matches), rtol=1e-14)
    places = rng.permutation(d)  # other names of the places change nothing
    renamed = np.eye(d)[orders[:, places]].reshape(5, d * d)
    np.testing.assert_array_equal(Exponential(0.5)(renamed), Exponential(0.5)(rows))
