"""Fastfood features of dot-product kernels: expansions, oracle, unbiasedness, memory, bad input."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from daskrf.errors import InputError
from daskrf.features import FastfoodDotProductFeatures, RandomMaclaurinFeatures
from daskrf.features.harmonics import legendre_coefficients, monomial_shares
from daskrf.kernels import DotProduct, Exponential, Gaussian, Polynomial
from tests.features.maps import reals
from tests.jit import jit_disabled
from tests.memory import least_peak
from tests.naive import harmonics as naive

compiled_only = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")


@pytest.mark.parametrize("d", [3, 8, 64])
def test_powers_are_positive_sums_of_legendre_polynomials(d: int) -> None:
    actual = legendre_coefficients(7, d)
    assert actual.min() >= 0.0
    np.testing.assert_allclose(actual.sum(axis=1), 1.0, rtol=1e-12)
    t = np.array([-1.0, -0.3, 0.0, 0.7])
    for n in range(8):
        for k in range(8):
            assert actual[n, k] == pytest.approx(naive.coefficient(n, k, d), abs=1e-8)
        total = sum(actual[n, k] * naive.legendre(k, d, t) for k in range(n + 1))
        np.testing.assert_allclose(total, t**n, atol=1e-9)


@pytest.mark.parametrize("d", [4, 64, 512])
def test_monomials_sum_up_to_the_kernel(d: int) -> None:
    """m_p by equation 32; the one that sums to (1 + t)^2 has shares of at least 0, that of t^2 has not."""
    t = np.array([-0.9, 0.0, 0.4, 1.0])
    for coefficients, positive in (((1.0, 2.0, 1.0), True), ((0.0, 0.0, 1.0), False), ((1, 1, 0, 2), False)):
        a = np.array(coefficients, float)
        shares = monomial_shares(a @ legendre_coefficients(a.size - 1, d), d)
        assert (shares.min() >= 0.0) == positive
        for s in t:
            total = sum(b * naive.monomial(p, d, s) / naive.monomial(p, d, 1.0) for p, b in enumerate(shares))
            assert total == pytest.approx(sum(c * s**n for n, c in enumerate(a)), abs=1e-9)
    for p in range(6):
        assert naive.monomial(p, d, 1.0) == pytest.approx(
            naive.mean(lambda u, p=p: u ** (2 * p), d), rel=1e-9
        )


@pytest.mark.parametrize("d", [1, 5, 70])
@pytest.mark.parametrize("coefficients", [(1.0, 2.0, 1.0), (0.3, 0.0, 1.0, 0.5), (0.5, 0.0, 0.0, 0.0, 2.0)])
def test_features_agree_with_the_oracle(d: int, coefficients: tuple[float, ...]) -> None:
    X = np.random.default_rng(d).normal(size=(4, d)) * [[0], [1], [0.1], [0.7]]
    radius = float(np.linalg.norm(X, axis=1).max())
    for size in (2, 90):
        feature_map = FastfoodDotProductFeatures(DotProduct(coefficients), size, random_state=5)
        expected = naive.features(X, list(coefficients), size, 5, radius)
        np.testing.assert_allclose(feature_map.fit_transform(X), expected, atol=2e-5 * np.abs(expected).max())


@compiled_only
@pytest.mark.parametrize(
    ("kernel", "expansion", "projection"),
    [
        (Polynomial(2), "legendre", "orthogonal"),
        (DotProduct((0.2, 0.0, 0.0, 1.0)), "legendre", "hadamard"),
        (Exponential(0.8), "legendre", "orthogonal"),
        (Polynomial(3, c=0.5, normalize=True), "legendre", "hadamard"),
        (Polynomial(2, normalize=True), "monomials", "orthogonal"),
    ],
    ids=repr,
)
def test_features_are_unbiased(kernel, expansion: str, projection: str) -> None:
    """Rows of many lengths, one of a single non-zero: within 4.5 standard errors over 500 seeds."""
    X = np.random.default_rng(3).normal(size=(5, 20)) / 5
    X[1:3] *= [[2.0], [0.3]]
    X[3] = 0.0
    X[3, 4] = 1.0
    estimates = np.array(
        [
            (
                Phi := FastfoodDotProductFeatures(
                    kernel, 96, expansion=expansion, projection=projection, random_state=seed
                )
                .fit_transform(X)
                .astype(float)
            )
            @ Phi.T
            for seed in range(500)
        ]
    )
    error = np.abs(estimates.mean(axis=0) - kernel(X))
    assert (error < 1e-6 + 4.5 * estimates.std(axis=0) / math.sqrt(500)).all()


@compiled_only
def test_variance_against_other_maps() -> None:
    """Orthogonal directions have the smaller variance, and the constant none."""
    kernel = Polynomial(2, normalize=True)
    X = np.random.default_rng(0).poisson(0.5, (20, 64)).astype(float)
    exact = kernel(X)

    def error(make, **rest) -> float:
        return float(
            np.mean(
                [
                    np.square(
                        (Phi := make(kernel, 256, random_state=s, **rest).fit_transform(X)) @ Phi.T - exact
                    )
                    for s in range(30)
                ]
            )
        )

    orthogonal = error(FastfoodDotProductFeatures)
    assert orthogonal < 0.6 * error(FastfoodDotProductFeatures, projection="hadamard")
    assert orthogonal < error(RandomMaclaurinFeatures)
    zero = FastfoodDotProductFeatures(kernel, 64).transform(np.zeros((1, 5)))
    np.testing.assert_array_equal(zero[0], [1.0] + [0.0] * 63)


rows = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.sampled_from([1, 2, 9, 65])),
    elements=st.one_of(st.just(0.0), st.just(-0.0), st.floats(-9, 9), st.floats(-1e10, 1e10)),
)


@given(X=rows, size=st.sampled_from([1, 2, 3, 70]), normalize=st.booleans())
@settings(deadline=None, derandomize=True, max_examples=8 if jit_disabled() else 40)
def test_any_container_and_chunk_gives_the_same_bytes(X: np.ndarray, size: int, normalize: bool) -> None:
    feature_map = FastfoodDotProductFeatures(Polynomial(3, normalize=normalize), size, radius=2.0)
    Phi = feature_map.transform(X)
    assert np.isfinite(Phi).all()
    assert feature_map.transform(sp.csr_matrix(X)).tobytes() == Phi.tobytes()
    assert feature_map.transform(X[-1:]).tobytes() == Phi[-1:].tobytes()


def test_parts_of_memory_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    feature_map = FastfoodDotProductFeatures(Exponential(0.1), 100).fit(reals())
    Phi = feature_map.transform(reals())
    monkeypatch.setattr("daskrf.features.harmonics._PHASES", 1)
    assert feature_map.transform(reals()).tobytes() == Phi.tobytes()


def test_small_maps_are_right_ones() -> None:
    """No column is a row of zeros; a constant needs one feature; a linear kernel has none."""
    X = reals()
    constant = FastfoodDotProductFeatures(Polynomial(0), 3).fit_transform(X)
    np.testing.assert_array_equal(constant, np.ones((12, 1)) * [1.0, 0.0, 0.0])
    assert FastfoodDotProductFeatures(n_components=2).transform(np.zeros((1, 0))).tolist() == [[1.0, 0.0]]
    # 64 orthogonal directions hold all of the linear kernel.
    linear = FastfoodDotProductFeatures(DotProduct((0.0, 1.0)), 64).fit_transform(X).astype(float)
    np.testing.assert_allclose(linear @ linear.T, X @ X.T, atol=1e-4)


@compiled_only
def test_no_matrix_of_directions_is_held() -> None:
    """d = 8,192 and M = 32,768: directions would take 1 GiB."""
    X = sp.random_array((3, 8192), density=0.01, format="csr", rng=np.random.default_rng(0))
    feature_map = FastfoodDotProductFeatures(Polynomial(3, normalize=True), 32_768)
    assert least_peak(lambda: copy.copy(feature_map).transform(X)) < 16 * 2**20


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": Gaussian()}, "kernel must be a Polynomial, Exponential or DotProduct"),
        ({"kernel": "polynomial"}, "kernel must be a Polynomial, Exponential or DotProduct"),
        ({"n_components": 0}, "n_components must be a positive integer"),
        ({"expansion": "taylor"}, "expansion must be one of legendre, monomials, not 'taylor'"),
        ({"projection": "fft"}, "projection must be one of orthogonal, hadamard, not 'fft'"),
        ({"radius": -1.0}, "radius must be None or a finite number above 0"),
        ({"random_state": -1}, "random_state"),
        ({"expansion": "monomials", "kernel": Polynomial(2)}, "needs a kernel with normalize=True"),
        (
            {"expansion": "monomials", "kernel": Polynomial(2, c=0.0, normalize=True)},
            r"is not a sum of powers <x, v>\^p .* \(that of degree 0 is negative\); "
            r"use expansion=\"legendre\"",
        ),
        ({"kernel": Exponential(), "radius": 1e4}, "divide all rows by a length"),
        (
            {"kernel": Polynomial(9), "radius": 1e4},
            r"value 1e\+72 of .* length 10000 is too large .*; divide all",
        ),
        (
            {"kernel": Exponential(200.0, normalize=True)},
            r"value 7.23e\+86 of .* too large for features in single precision; divide its coefficients",
        ),
    ],
)
def test_bad_parameters_are_refused(parameters, message: str) -> None:
    feature_map = FastfoodDotProductFeatures(n_components=16).set_params(**parameters)
    with pytest.raises(InputError, match=message):
        feature_map.fit(reals()).transform(reals())


def test_what_cannot_be_served_is_refused() -> None:
    with pytest.raises(InputError, match=r"not fitted: .* give radius"):
        FastfoodDotProductFeatures(Exponential()).transform(reals())
    with pytest.raises(InputError, match="must not all be zero"):
        FastfoodDotProductFeatures(Exponential()).fit(np.zeros((2, 3)))
    with pytest.raises(InputError, match="row 1 are too large"):
        FastfoodDotProductFeatures(Polynomial(3), 64, radius=1.0).transform([[1.0], [1e30]])
    with pytest.raises(InputError, match=r"fold the fingerprints \(--size 1024, say\)"):
        FastfoodDotProductFeatures().transform(sp.csr_matrix((2, 2**32)))
    with pytest.raises(InputError, match="not a finite number"):
        FastfoodDotProductFeatures().transform([[math.nan]])
    with pytest.raises(InputError, match="negative one does not give a positive definite kernel"):
        FastfoodDotProductFeatures(DotProduct((1.0, -1.0)))
