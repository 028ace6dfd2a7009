"""Bounds of Fastfood, Maclaurin features and truncated series, against their definitions."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from daskrf.errors import InputError
from daskrf.features import FastfoodFeatures
from daskrf.features.bounds import (
    SeriesConstants,
    composition_constants,
    cosine_variance,
    fastfood_error,
    fastfood_variance,
    largest_error_odds,
    product_error,
    projection_constants,
    truncated_size,
    truncation_error,
)
from daskrf.kernels import DotProduct, Exponential, Gaussian, Polynomial, TruncatedGaussian
from tests.naive.fourier import hadamard

DISTANCES = np.array([0.0, 0.3, 1.0, 2.0])


def fastfood_estimates(d: int, count: int) -> np.ndarray:
    """Return estimates by `count` blocks H G Pi H B / sqrt(d), for a row at each of DISTANCES from 0."""
    rng = np.random.default_rng(0)
    direction = rng.normal(size=d)
    v = np.outer(direction / np.linalg.norm(direction), DISTANCES)
    H = hadamard(d)
    blocks = (
        H @ np.diag(rng.normal(size=d)) @ np.eye(d)[rng.permutation(d)] @ H @ np.diag(rng.choice([-1, 1], d))
        for _ in range(count)
    )
    return np.array([np.cos(block @ v / math.sqrt(d)).mean(axis=0) for block in blocks])


def test_the_variance_of_one_frequency_is_an_integral() -> None:
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    moments = [(weights @ np.cos(np.outer(nodes, DISTANCES)) ** k) / weights.sum() for k in (1, 2)]
    np.testing.assert_allclose(cosine_variance(DISTANCES), moments[1] - moments[0] ** 2, atol=1e-12)
    np.testing.assert_allclose(cosine_variance(3 * DISTANCES, length_scale=3.0), cosine_variance(DISTANCES))


def test_fastfood_keeps_within_its_bounds() -> None:
    d = 16
    estimates = fastfood_estimates(d, 2000)
    k = np.exp(-(DISTANCES**2) / 2)
    # Four distances: beyond 4.5 standard errors for one choice of the seed in 35,000.
    assert (np.abs(estimates.mean(axis=0) - k) <= 4.5 * estimates.std(axis=0) / math.sqrt(2000) + 1e-12).all()
    assert (estimates.var(axis=0) <= fastfood_variance(DISTANCES, d)).all()
    # Theorem 11 as printed, which fails with probability 2 delta.
    written = 2 * d**-0.5 * DISTANCES * math.sqrt(math.log(2 / 0.1) * math.log(2 * d / 0.1))
    np.testing.assert_allclose(fastfood_error(DISTANCES, d, delta=0.2), written)
    assert (np.abs(estimates - k) <= written + 1e-12).mean(axis=0).min() > 0.8


def test_the_features_keep_within_the_bound_of_corollary_10() -> None:
    """Two blocks of 8, with the lengths S of equation 35, over 300 seeds."""
    X = np.zeros((4, 8))
    X[:, 1:3] = DISTANCES[:, None] / math.sqrt(2)
    estimates = []
    for seed in range(300):
        feature_map = FastfoodFeatures(Gaussian(1.0), 32, projection="hadamard", random_state=seed)
        Phi = feature_map.transform(X).astype(float)
        estimates.append(Phi @ Phi[0])
    assert (np.var(estimates, axis=0) <= fastfood_variance(DISTANCES, 16) + 1e-12).all()
    assert np.var(estimates, axis=0)[2] > cosine_variance(1.0) / 16 / 2


@pytest.mark.parametrize("p", [None, 1.5, 2.0])
def test_constants_of_projections_by_enumeration(p: float | None) -> None:
    """All signs of up to three factors for two columns, at the corner where features are largest."""
    a, R, d = np.array([0.5, 1.0, 0.0, 2.0]), 1.3, 2
    constants = projection_constants(DotProduct(a), R, d, p=p)
    odds = a * R ** (2 * np.arange(4)) if p is None else p ** -(np.arange(4) + 1.0)
    odds /= odds.sum() if p is None else 1 / (p - 1)
    x = np.array([R, 0.0])
    largest, slope = 0.0, 0.0
    for n, (coefficient, q) in enumerate(zip(a, odds, strict=True)):
        if coefficient == 0.0:
            continue
        gradients = []
        for signs in product([-1, 1], repeat=n * d):
            w = np.reshape(signs, (n, d))
            z = np.prod(w @ x)
            gradient = sum((np.prod(np.delete(w, j, axis=0) @ x) * w[j] for j in range(n)), np.zeros(d))
            largest = max(largest, coefficient / q * z * z)
            gradients.append(np.linalg.norm(coefficient / q * z * gradient))
        slope += q * np.mean(gradients)
    assert largest <= constants.largest * (1 + 1e-12)
    assert slope <= constants.estimate_slope
    steepest = sum(n * c * (R * R) ** (n - 1) for n, c in enumerate(a)) * R
    assert constants.kernel_slope == pytest.approx(steepest)
    assert constants.error_slope == constants.kernel_slope + constants.estimate_slope
    if p is None:  # all features have one size
        assert largest == pytest.approx(constants.largest)


def test_the_slope_of_a_kernel_is_reached_and_not_exceeded() -> None:
    rng = np.random.default_rng(2)
    for kernel in (Polynomial(3, c=0.5), Exponential(0.7)):
        bound = projection_constants(kernel, 2.0, 4).kernel_slope
        for _ in range(20):
            x, y = (rng.dirichlet(np.ones(4)) * rng.choice([-1, 1], 4) * 2.0 for _ in range(2))
            steps = 1e-5 * np.eye(4)
            gradient = (kernel(x + steps, y[None]) - kernel(x - steps, y[None])) / 2e-5
            assert np.linalg.norm(gradient) <= bound
        x = np.array([[2.0, 0.0, 0.0, 0.0]])
        step = 1e-5 * x / 2
        assert (kernel(x + step, x) - kernel(x - step, x)).item() / 2e-5 == pytest.approx(bound, rel=1e-6)


def test_constants_of_compositions_as_printed_for_p_2() -> None:
    """p = 2 is the one p for which the printed odds are a distribution."""
    kernel, C = Exponential(0.5), 1.5
    slopes = {"feature_square": C, "kernel_slope": 3.0, "feature_slope": 2.0}
    constants = composition_constants(kernel, **slopes, kernel_size=1.2, p=2.0)
    assert constants.largest == pytest.approx(2 * math.exp(0.5 * 2 * C))  # lemma 12
    assert constants.kernel_slope == pytest.approx(3.0 * 0.5 * math.exp(0.5 * 1.2))  # lemma 13
    lemma_14 = 2.0 * 4 * math.sqrt(C) * 0.5 * math.exp(0.5 * 2 * C)
    assert constants.estimate_slope < lemma_14
    assert constants.estimate_slope == pytest.approx(2.0 * math.sqrt(C) * 0.5 * math.exp(0.5 * C))


def test_errors_of_products_are_rarely_larger() -> None:
    """The worst case, signs: of 2,000 means of 400, 95 % and more are within the bound for delta = 0.05."""
    signs = np.random.default_rng(3).choice([-1.0, 1.0], (2000, 400))
    assert (np.abs(signs.mean(axis=1)) <= product_error(1.0, 400, delta=0.05)).mean() >= 0.95


@pytest.mark.parametrize("M", [1000, 4000, 15_000])
def test_theorem_15_is_the_smallest_sum_over_nets(M: int) -> None:
    constants = SeriesConstants(largest=1.5, kernel_slope=0.5, estimate_slope=2.0)
    epsilon, R, d = 0.4, 2.0, 3
    nets = np.geomspace(1e-9, 4 * R, 400_000)
    sums = 2 * (4 * R / nets) ** (2 * d) * math.exp(-M * epsilon**2 / (8 * 1.5**2)) + 4 * 2.5 * nets / epsilon
    odds = largest_error_odds(constants, M, error=epsilon, radius=R, n_columns=d)
    assert odds == pytest.approx(min(1.0, sums.min()), rel=1e-6)


def test_theorem_15_at_its_ends() -> None:
    flat = SeriesConstants(1.0, 0.0, 0.0)
    options = {"error": 1.0, "radius": 1.0, "n_columns": 2}
    assert largest_error_odds(flat, 80, **options) == pytest.approx(2 * math.exp(-10))
    jumps = SeriesConstants(1.0, math.inf, math.inf)
    assert largest_error_odds(jumps, 10**9, **options) == 1.0
    steep = SeriesConstants(1.0, 1e3, 1e3)
    assert largest_error_odds(steep, 10**6, **options) < 1e-100


@pytest.mark.parametrize("degree", [0, 1, 4])
def test_truncated_series_keep_within_theorem_3_1(degree: int) -> None:
    X = np.random.default_rng(4).normal(size=(12, 3)) * np.linspace(0.1, 2.0, 12)[:, None]
    X[5] = -1.7 * X[4]
    lengths = np.linalg.norm(X, axis=1)
    kernel = TruncatedGaussian(1.5, degree)
    size, error = (
        f(lengths[:, None], lengths, degree, length_scale=1.5) for f in (truncated_size, truncation_error)
    )
    truncated = kernel(X)
    assert (np.abs(truncated) <= size + 1e-14).all()
    np.testing.assert_allclose(truncated.diagonal(), size.diagonal(), rtol=1e-12)
    differences = np.abs(Gaussian(1.5)(X) - truncated)
    assert (differences <= error + 1e-14).all()
    np.testing.assert_allclose(differences.diagonal(), error.diagonal(), atol=1e-14)
    parallel = X[[3]] * np.array([[0.5], [1.0], [2.0]])
    reached = np.abs(Gaussian(1.5)(X[[3]], parallel) - kernel(X[[3]], parallel))[0]
    expected = truncation_error(lengths[3], np.linalg.norm(parallel, axis=1), degree, length_scale=1.5)
    np.testing.assert_allclose(reached, expected, atol=1e-14)
    far = truncated_size(np.linspace(0, 9, 50), 1.0, degree)
    assert (np.diff(far) < 0).all()
    assert far[-1] < 1e-9


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: cosine_variance([-1.0]), "distances must be finite numbers of at least 0"),
        (lambda: fastfood_variance([1.0], 0), "n_frequencies must be a positive integer"),
        (lambda: fastfood_error([1.0], 8, delta=0.0), "delta must be between 0 and 1"),
        (lambda: cosine_variance([1.0], length_scale=0.0), "length_scale must be a finite number above 0"),
        (lambda: truncated_size([np.nan], 1.0, 3), "lengths of rows must be finite"),
        (lambda: truncation_error(1.0, 1.0, -1), "degree must be an integer from 0"),
        (lambda: projection_constants(Exponential(), -1.0, 3), "radius must be a finite number above 0"),
        (lambda: projection_constants(Exponential(), 1.0, 3, p=1.0), "p must be a finite number above 1"),
        (lambda: projection_constants(Exponential(), 100.0, 3), "too large|cannot be weighed"),
        (lambda: product_error(1.0, 10, delta=1.0), "delta must be between 0 and 1"),
        (
            lambda: composition_constants(
                Exponential(), feature_square=1.0, kernel_slope=-1.0, feature_slope=1.0
            ),
            "slopes must be numbers of at least 0",
        ),
    ],
)
def test_bad_parameters_are_refused(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
