"""Bounds: the paper's example, limits, and that they hold on random matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest

from daskrf.errors import InputError
from daskrf.features import NystromFeatures
from daskrf.features.bounds import (
    Extremes,
    excess_2_norm,
    excess_frobenius,
    excess_rms,
    expected_product_error,
    expected_residual,
    extremes_of,
)
from daskrf.kernels import TanimotoMinMax


def test_the_example_of_the_paper() -> None:
    """It prints 1.8, which is the value for delta = 0.95; the delta that it names, exp(-3), gives 3.2."""
    n, k, l = 50_000, 256, 3000
    assert round(excess_rms(n, l, k, delta=0.95), 1) == 1.8
    bracket = 1 + 2 * math.sqrt((n - l) ** 2 / ((n - 0.5) * (n - l - 0.5)) * 3)
    written_out = (64 * k / l) ** 0.25 * math.sqrt(bracket)
    assert excess_rms(n, l, k, delta=math.exp(-3)) == pytest.approx(written_out, rel=1e-12)
    assert round(written_out, 2) == 3.19
    assert excess_rms(n, l, k, 28.0, delta=0.95) == pytest.approx(28 * excess_rms(n, l, k, delta=0.95))
    assert excess_frobenius(n, l, k, delta=0.05) == n * excess_rms(n, l, k, delta=0.05)
    assert excess_2_norm(n, l, delta=math.exp(-3)) == pytest.approx(2 * n / math.sqrt(l) * bracket, rel=1e-12)


def test_theorem_1_written_out() -> None:
    values, diagonal, delta = np.array([4.0, 2.0, 1.0, 0.5]), np.array([1.0, 2.0, 2.0, 2.5]), 0.1
    candidates = [
        sum(values[d:]) / 4 + (1 + math.sqrt(d)) / 2 * math.sqrt(2 / 4 * sum(diagonal**2)) for d in (1, 2, 3)
    ]
    rest = 2.5 * (0.25 + math.sqrt(18 / 4 * math.log(8 / delta)))
    actual = expected_product_error(values[::-1], 3, diagonal, delta=delta)
    assert actual == pytest.approx(min(candidates) + rest, rel=1e-12)
    more = expected_product_error(values, 3, diagonal, delta=delta, largest=5.0)
    assert more == pytest.approx(min(candidates) + 2 * rest, rel=1e-12)
    # Theorem 2 is the same without R^2 / 4.
    residual = expected_residual(values, 3, diagonal, delta=delta)
    assert residual == pytest.approx(min(candidates) + rest - 2.5 / 4, rel=1e-12)


def test_theorem_6_written_out() -> None:
    n, k, l, delta, largest, distance = 50, 3, 40, 0.1, 4.0, 1.5
    beta = 1 - 1 / (2 * 40)
    bracket = 1 + math.sqrt((n - l) / (n - 0.5) / beta * math.log(1 / delta)) * distance / math.sqrt(largest)
    options = {"delta": delta, "distance": distance}
    assert excess_2_norm(n, l, largest, **options) == pytest.approx(2 * n / math.sqrt(l) * 4.0 * bracket)
    frobenius = (64 * k / l) ** 0.25 * n * 4.0 * math.sqrt(bracket)
    assert excess_frobenius(n, l, k, largest, **options) == pytest.approx(frobenius)
    assert excess_rms(n, l, k, largest, **options) == pytest.approx(frobenius / n)
    # At the largest distance that there is, 2 R, it is theorem 3.
    farthest = excess_2_norm(n, l, largest, delta=delta, distance=4.0)
    assert farthest == pytest.approx(excess_2_norm(n, l, largest, delta=delta), rel=1e-12)


def test_extremes_are_those_of_all_pairs() -> None:
    X = np.random.default_rng(1).normal(size=(20, 3))
    extremes = extremes_of(X @ X.T)
    assert extremes.largest == pytest.approx(max(x @ x for x in X))
    assert extremes.distance == pytest.approx(max(np.linalg.norm(x - y) for x in X for y in X))
    assert extremes_of([[2.0]]) == Extremes(2.0, 0.0)


def test_more_landmarks_and_less_confidence_make_bounds_smaller() -> None:
    actual = [excess_rms(10_000, l, 50, delta=0.05) for l in (50, 500, 4000, 9000, 9999)]
    assert actual == sorted(actual, reverse=True)
    assert excess_rms(10_000, 500, 50, delta=0.5) < excess_rms(10_000, 500, 50, delta=0.05)
    assert excess_2_norm(100, 10, 2.0, delta=0.1) == 2 * excess_2_norm(100, 10, delta=0.1)


def test_bounds_hold() -> None:
    X = np.random.default_rng(0).poisson(0.5, (150, 30))
    K = TanimotoMinMax()(X)
    values = np.sort(np.linalg.eigvalsh(K))[::-1]
    extremes = extremes_of(K)
    assert extremes.largest == 1.0
    assert 1.0 < extremes.distance <= math.sqrt(2.0)
    closer = excess_2_norm(150, 30, extremes.largest, delta=0.05, distance=extremes.distance)
    assert closer < excess_2_norm(150, 30, delta=0.05)
    for seed in range(5):
        feature_map = NystromFeatures(30, random_state=seed).fit(X)
        Phi = feature_map.transform(X).astype(float)
        error = K - Phi @ Phi.T
        rms = math.sqrt(np.square(error).mean())
        assert rms <= math.sqrt(np.square(values[30:]).sum()) / 150 + excess_rms(150, 30, 30, delta=0.05)
        assert np.linalg.norm(error, 2) <= values[30] + closer
        eigenvalues = np.linalg.eigvalsh(TanimotoMinMax()(feature_map.landmarks_))
        assert 0 <= error.mean() <= expected_product_error(eigenvalues, 30, np.ones(30), delta=0.05)
        assert 0 <= error.trace() / 150 <= expected_residual(eigenvalues, 30, np.ones(30), delta=0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: excess_rms(100, 100, 5, delta=0.1), "l = 100 < n = 100 must hold"),
        (lambda: excess_rms(100, 10, 11, delta=0.1), "n_components = 11 <= l = 10"),
        (lambda: excess_2_norm(100, 0, delta=0.1), "l = 0"),
        (lambda: excess_2_norm(100, 10, -1.0, delta=0.1), "largest must be a finite number above 0"),
        (lambda: excess_frobenius(100, 10, 5, delta=1.0), "delta must be between 0 and 1"),
        (
            lambda: expected_product_error([1.0], 1, [1.0, 2.0], delta=0.1),
            "finite numbers, one per landmark",
        ),
        (
            lambda: expected_product_error([np.nan], 1, [1.0], delta=0.1),
            "finite numbers, one per landmark",
        ),
        (lambda: expected_product_error([1.0], 2, [1.0], delta=0.1), "n_components = 2 <= l = 1"),
        (lambda: excess_2_norm(100, 10, delta=0.1, distance=2.1), r"from 0 to 2 sqrt\(largest\) = 2"),
        (lambda: extremes_of([[1.0, 0.5]]), r"square, not of shape \(1, 2\)"),
        (lambda: extremes_of([[np.inf]]), "finite values"),
    ],
)
def test_bad_parameters_are_refused(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
