"""Student's t distribution for errors with heavier tails, where residuals speak for it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from daskrf.gp.validation.errordistribution import ErrorDistribution, error_distribution
from tests.naive.errors import best_of_grid, log_density


@pytest.mark.parametrize("degrees", [1.5, 4.0, 300.0, math.inf])
def test_the_density_is_that_of_scipy(degrees: float) -> None:
    rng = np.random.default_rng(0)
    y, mean, std = 5 * rng.standard_normal((3, 20))
    std = np.abs(std) + 0.01
    scale = 1.0 if math.isinf(degrees) else 0.7
    actual = ErrorDistribution(degrees, scale).log_density(y, mean, std)
    np.testing.assert_allclose(actual, log_density(y, mean, std, degrees, scale), rtol=1e-10)


def test_the_density_has_an_integral_of_one() -> None:
    y = np.linspace(-400.0, 400.0, 400_001)
    density = np.exp(ErrorDistribution(2.5, 0.6).log_density(y, 1.0, 2.0))
    assert np.trapezoid(density, y) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("degrees", [2.5, 6.0])
def test_the_best_distribution_is_found(degrees: float) -> None:
    residuals = 0.8 * np.random.default_rng(int(degrees)).standard_t(degrees, 800)
    found = error_distribution(residuals)
    _, _, best = best_of_grid(residuals)
    assert not found.is_normal
    value = float(found.log_density(residuals, 0.0, 1.0).mean())
    assert best - 1e-9 <= value <= best + 1e-3  # between two points of the grid
    assert found.degrees_of_freedom == pytest.approx(degrees, rel=0.4)
    assert error_distribution(np.sort(np.abs(residuals))) == found


def test_normal_errors_are_kept_normal() -> None:
    rng = np.random.default_rng(1)
    sizes = [20, 50, 200, 1000, 2000] * 10
    heavier = [not error_distribution(rng.standard_normal(n)).is_normal for n in sizes]
    assert sum(heavier) <= 2  # of 50: a gain by chance is rarely that large


def test_what_is_chosen_predicts_others_better() -> None:
    rng = np.random.default_rng(2)
    gains = []
    for _ in range(20):
        seen, unseen = 0.8 * rng.standard_t(4.0, (2, 400))
        density = error_distribution(seen).log_density(unseen, 0.0, 1.0)
        gains.append(float(np.mean(density - norm.logpdf(unseen))))
    assert np.mean(gains) > 0.05
    assert np.sum(np.array(gains) >= 0) >= 18


@given(st.lists(st.floats(0.0, 1e12) | st.just(math.nan) | st.just(math.inf), max_size=60))
def test_ugly_residuals_give_a_distribution(residuals: list[float]) -> None:
    found = error_distribution(residuals)
    assert found.scale > 0
    assert found.degrees_of_freedom > 0
    assert np.isfinite(found.log_density([0.0, 3.0], [0.0, 0.0], [1.0, 2.0])).all()
    assert found.words()
