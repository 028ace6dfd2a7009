"""Acquisition rules against exact integrals, far in the tails, and without spread."""

from __future__ import annotations

import gc
import json
import math
import re
import sys
from dataclasses import fields
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

import daskrf.acquisition
from daskrf.acquisition import Acquisition, acquisition_for, rules
from daskrf.acquisition.improvement import log_expected_improvement, log_probability_of_improvement
from daskrf.errors import InputError

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
    actual = float(log_expected_improvement(gain, std))
    if expected > 1e-200:
        assert actual == pytest.approx(math.log(expected), rel=1e-6, abs=1e-6)
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


def with_its_own(name: str, **settings: float | bool) -> Acquisition:
    """Return a rule with those of the settings that it has."""
    names = {field.name for field in fields(rules()[name])}
    return acquisition_for(name, **{key: value for key, value in settings.items() if key in names})


@pytest.mark.parametrize("rule", rules())
def test_minimizing_y_is_maximizing_minus_y(rule):
    rng = np.random.default_rng(0)
    mean, std = rng.standard_normal(50), rng.random(50)
    down = with_its_own(rule, maximize=False, best=-0.5, kappa=1.5, margin=0.1)
    up = with_its_own(rule, maximize=True, best=0.5, kappa=1.5, margin=0.1)
    np.testing.assert_array_equal(down(mean, std), up(-mean, std))


@pytest.mark.parametrize("rule", rules())
def test_better_mean_scores_higher(rule):
    score = acquisition_for(rule).with_best(-8.0)([-9.0, -7.0, -5.0], [0.5, 0.5, 0.5])
    assert score[0] > score[1] > score[2]


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("rule", [name for name, rule in rules().items() if rule.needs_std])
def test_no_score_exceeds_its_bound(rule, maximize):
    """A score only rises or only falls with the standard deviation, so it is largest at one end."""
    rng = np.random.default_rng(1)
    mean = np.concatenate([rng.standard_normal(200) * 10.0 ** rng.uniform(-3, 2, 200), np.zeros(100)])
    low, high = np.sort(10.0 ** rng.uniform(-4, 3, (2, 300)), axis=0)
    low[::7] = 0.0
    scored = with_its_own(rule, maximize=maximize, best=0.3, kappa=1.5, margin=0.1)
    bound = scored.bound(mean, low, high)
    for share in np.linspace(0, 1, 23):
        scores = scored(mean, low + share * (high - low))
        assert (scores <= bound + 1e-12 * np.abs(np.where(np.isfinite(bound), bound, 0.0))).all()


def test_rules_by_definition():
    mean, std = np.array([-9.0, -8.0]), np.array([0.1, 1.0])
    np.testing.assert_allclose(acquisition_for("greedy")(mean), [9.0, 8.0])
    np.testing.assert_allclose(acquisition_for("thompson", maximize=True)(mean), mean)
    np.testing.assert_allclose(acquisition_for("ucb", kappa=3.0)(mean, std), [9.3, 11.0])
    np.testing.assert_allclose(acquisition_for("ucb", maximize=True, kappa=3.0)(mean, std), [-8.7, -5.0])
    pi = acquisition_for("pi", best=-8.5, margin=0.25)(mean, std)
    np.testing.assert_allclose(pi, stats.norm.logcdf([0.25 / 0.1, -0.75]))


def test_the_best_label_is_taken_unless_another_is_given():
    assert acquisition_for("ei").with_best(3.0) == acquisition_for("ei", best=3.0)
    assert acquisition_for("ei", best=1.0).with_best(3.0) == acquisition_for("ei", best=1.0)
    assert acquisition_for("greedy").with_best(3.0) == acquisition_for("greedy")


@pytest.mark.parametrize("rule", rules())
def test_settings_round_trip(rule):
    made = with_its_own(rule, maximize=True, best=3.0, kappa=0.5)
    assert acquisition_for(**json.loads(json.dumps(made.state()))) == made


def test_needs():
    needs = {name: (rule.needs_std, rule.needs_sample) for name, rule in rules().items()}
    assert [needs[name] for name in ("greedy", "thompson")] == [(False, False), (False, True)]
    assert [needs[name] for name in ("ei", "pi", "ucb")] == [(True, False)] * 3


def test_a_new_rule_is_found_by_its_name(monkeypatch, tmp_path):
    """One file in the folder, and nothing else."""
    (tmp_path / "variance.py").write_text(
        "from dataclasses import dataclass\n"
        "from daskrf.acquisition.rule import Acquisition\n\n"
        "@dataclass(frozen=True, kw_only=True)\n"
        "class Variance(Acquisition):\n"
        "    name = 'variance'\n"
        "    needs_std = True\n\n"
        "    def score(self, gain, std):\n"
        "        return std\n"
    )
    monkeypatch.setattr(daskrf.acquisition, "__path__", [*daskrf.acquisition.__path__, str(tmp_path)])
    try:
        assert acquisition_for("variance")([1.0, 2.0], [0.5, 0.25]).tolist() == [0.5, 0.25]
    finally:
        monkeypatch.undo()
        del sys.modules["daskrf.acquisition.variance"], daskrf.acquisition.variance
        gc.collect()  # a class that is gone is none


def unlisted(page: str) -> list[str]:
    """Return the rules that a page does not list."""
    listed = " ".join(re.findall(r"`--acquisition` takes (.+?)\. ", page))
    return [name for name in rules() if f"`{name}`" not in listed]


def test_the_page_lists_every_rule():
    page = (Path(__file__).resolve().parents[2] / "docs" / "workstation.md").read_text()
    missing = unlisted(page)
    assert not missing, f"add {', '.join(missing)} to what --acquisition takes in docs/workstation.md"
    assert unlisted(page.replace("`ei`", "")) == ["ei"]


def test_refusals():
    with pytest.raises(InputError, match=f"choose one of {', '.join(rules())}"):
        acquisition_for("best")
    with pytest.raises(InputError, match="pass best"):
        acquisition_for("ei")([1.0], [1.0])
    with pytest.raises(InputError, match="--kappa goes with --acquisition ucb, not with greedy"):
        acquisition_for("greedy", kappa=1.0)
    with pytest.raises(InputError, match="kappa"):
        acquisition_for("ucb", kappa=math.nan)
    with pytest.raises(InputError, match="standard deviations"):
        acquisition_for("ucb")([1.0])
    with pytest.raises(InputError, match="negative"):
        acquisition_for("ucb")([1.0], [-1.0])
