"""Acquisition rules against exact integrals, far in the tails, and without spread."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from daskrf.errors import InputError
from daskrf.gp import Acquisition
from daskrf.gp.acquisition import RULES, log_expected_improvement, log_probability_of_improvement

PROPERTY = settings(derandomize=True, deadline=None, max_examples=60)


def log_h(z):
    """log(pdf(z) + z cdf(z)) for z < -5, by Laplace's continued fraction of Mills' ratio in fractions."""
    x = -Fraction(z)
    tail = x
    for i in range(400, 0, -1):  # Mills' ratio = 1/(x + 1/(x + 2/(x + 3/(x + ...))))
        tail = (x + Fraction(i) / tail).limit_denominator(10**40)
    return -z * z / 2 - 0.5 * math.log(2 * math.pi) + math.log(1 - x / tail)


@PROPERTY
@given(st.floats(-4, 4), st.floats(0.05, 5))
def test_improvement_equals_its_integral(gain, std):
    density = stats.norm(gain, std)
    upper = max(gain, 0) + 12 * std
    expected = integrate.quad(lambda g: g * density.pdf(g), 0, upper, points=[max(gain, 0.0)], epsabs=0)[0]
    found = float(log_expected_improvement(gain, std))
    if expected > 1e-200:
        assert found == pytest.approx(math.log(expected), rel=1e-6, abs=1e-6)
    assert float(log_probability_of_improvement(gain, std)) == pytest.approx(density.logsf(0.0), rel=1e-9)


@pytest.mark.parametrize("z", [-5.0, -12.0, -49.9, -50.1, -300.0, -1e4])
def test_far_tail_of_expected_improvement(z):
    assert float(log_expected_improvement(z, 1.0)) == pytest.approx(log_h(z), rel=1e-11)


def test_tails_stay_ordered_and_finite():
    z = -np.logspace(-3, 150, 4000)
    for function in (log_expected_improvement, log_probability_of_improvement):
        values = function(z, 1.0)
        assert np.isfinite(values).all()
        assert (np.diff(values) < 0).all()
    joins = np.concatenate([np.nextafter(x, [-np.inf, np.inf]) for x in (-1.0, -50.0)])
    values = log_expected_improvement(joins, 1.0)
    np.testing.assert_allclose(values[::2], values[1::2], rtol=1e-12)


def test_no_spread():
    np.testing.assert_array_equal(
        log_expected_improvement([2.0, 0.0, -1.0], 0.0), [math.log(2.0), -np.inf, -np.inf]
    )
    np.testing.assert_array_equal(
        log_probability_of_improvement([2.0, 0.0, -1.0], 0.0), [0.0, -np.inf, -np.inf]
    )
    tiny = log_expected_improvement([2.0, -1.0], 5e-324)
    assert tiny[0] == pytest.approx(math.log(2.0))
    assert tiny[1] == -np.inf


@pytest.mark.parametrize("rule", RULES)
def test_minimizing_y_is_maximizing_minus_y(rule):
    rng = np.random.default_rng(0)
    mean, std = rng.standard_normal(50), rng.random(50)
    down = Acquisition(rule, maximize=False, best=-0.5, kappa=1.5, margin=0.1)
    up = Acquisition(rule, maximize=True, best=0.5, kappa=1.5, margin=0.1)
    np.testing.assert_array_equal(down(mean, std), up(-mean, std))


@pytest.mark.parametrize("rule", RULES)
def test_better_mean_scores_higher(rule):
    score = Acquisition(rule, best=-8.0)([-9.0, -7.0, -5.0], [0.5, 0.5, 0.5])
    assert score[0] > score[1] > score[2]


def test_rules_by_definition():
    mean, std = np.array([-9.0, -8.0]), np.array([0.1, 1.0])
    np.testing.assert_allclose(Acquisition("greedy")(mean), [9.0, 8.0])
    np.testing.assert_allclose(Acquisition("thompson", maximize=True)(mean), mean)
    np.testing.assert_allclose(Acquisition("ucb", kappa=3.0)(mean, std), [9.3, 11.0])
    np.testing.assert_allclose(Acquisition("ucb", maximize=True, kappa=3.0)(mean, std), [-8.7, -5.0])
    pi = Acquisition("pi", best=-8.5, margin=0.25)(mean, std)
    np.testing.assert_allclose(pi, stats.norm.logcdf([0.25 / 0.1, -0.75]))


def test_settings_round_trip_and_needs():
    rule = Acquisition("ei", maximize=True, best=3.0)
    assert Acquisition(**json.loads(json.dumps(rule.state()))) == rule
    assert [Acquisition(r, best=0.0).needs_std for r in RULES] == [False, True, True, True, False]
    assert [Acquisition(r, best=0.0).needs_sample for r in RULES] == [False, False, False, False, True]


def test_refusals():
    with pytest.raises(InputError, match="choose one of greedy"):
        Acquisition("best")
    with pytest.raises(InputError, match="pass best"):
        Acquisition("ei")
    with pytest.raises(InputError, match="kappa"):
        Acquisition("ucb", kappa=math.nan)
    with pytest.raises(InputError, match="standard deviations"):
        Acquisition("ucb")([1.0])
    with pytest.raises(InputError, match="negative"):
        Acquisition("ucb")([1.0], [-1.0])
