"""Cross-validation from statistics equals fitting and predicting fold by fold."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from daskrf.errors import InputError
from daskrf.gp import (
    RandomFeatureGP,
    StackedStatistics,
    SufficientStatistics,
    choose_by_cross_validation,
    choose_exponent,
    cross_validate,
)
from tests.naive import gp as naive


def problem(one_bit=False, n=120, m=16):
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 256, (n, m // 8), dtype=np.uint8)
    phi = naive.signs(bits, m) / np.sqrt(m)
    y = 50.0 + phi @ rng.standard_normal((m, 2)) + 0.5 * rng.standard_normal((n, 2))
    rows = np.array_split(rng.permutation(n), 4)
    e = choose_exponent(y)
    folds = [
        SufficientStatistics.from_chunk(bits[r] if one_bit else phi[r], y[r], y_exponents=e) for r in rows
    ]
    return phi, y, rows, folds


@pytest.mark.parametrize("one_bit", [False, True])
@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("given", [None, 48.5])
def test_figures_equal_those_of_explicit_folds(one_bit, target, given):
    phi, y, rows, folds = problem(one_bit)
    found = cross_validate(folds, 1.3, 0.4, mean=given, target=target)
    errors, joint, density = 0.0, 0.0, 0.0
    for held in rows:
        rest = np.setdiff1d(np.arange(len(phi)), held)
        mean = naive.best_mean(phi[rest], y[rest, target], 1.3, 0.4) if given is None else given
        predicted, covariance = naive.posterior(phi[rest], y[rest, target], phi[held], mean, 1.3, 0.4)
        squares = np.square(y[held, target] - predicted).sum()
        variance = 0.4 + np.diag(covariance).mean()
        errors += squares
        density += -0.5 * (len(held) * np.log(2 * np.pi * variance) + squares / variance)
        joint += naive.conditional_log_density(phi, y[:, target], held, rest, mean, 1.3, 0.4)
    assert found.mse == pytest.approx(errors / 120, rel=1e-6)
    assert found.r2 == pytest.approx(1 - errors / 120 / y[:, target].var(), rel=1e-6)
    assert found.log_probability == pytest.approx(density / 120, rel=1e-6)
    assert found.joint_log_probability == pytest.approx(joint / 120, rel=1e-6)


@pytest.mark.parametrize("criterion", ["mse", "log_probability"])
def test_choice_beats_its_neighbours(criterion):
    folds = problem()[3]
    best = choose_by_cross_validation(folds, criterion=criterion, tolerance=1e-3)
    ratio = best.noise_variance / best.signal_variance
    for factor in (0.5, 0.8, 1.25, 2.0):
        signal_variance = best.signal_variance if criterion == "mse" else best.signal_variance * factor
        other = cross_validate(folds, signal_variance, best.signal_variance * ratio * factor)
        if criterion == "mse":
            assert other.mse >= best.mse
        else:
            assert other.log_probability < best.log_probability
            other = cross_validate(folds, best.signal_variance, best.signal_variance * ratio * factor)
            assert other.log_probability < best.log_probability


def test_choice_is_near_the_evidence():
    """Over 400 seeds the ratio of the two noises had mean 1.01 and deviation 0.06: 5 are allowed."""
    folds = problem()[3]
    total = folds[0] + folds[1] + folds[2] + folds[3]
    gp = RandomFeatureGP().fit_statistics(total)
    best = choose_by_cross_validation(folds, start=gp.noise_variance_[0] / gp.signal_variance_[0])
    assert best.noise_variance == pytest.approx(1.01 * gp.noise_variance_[0], rel=0.3)


def test_too_few_folds_are_refused():
    folds = problem()[3]
    with pytest.raises(InputError, match="at least two folds"):
        cross_validate(folds[:1], 1.0, 1.0)
    with pytest.raises(InputError, match="at least one row"):
        cross_validate([folds[0], folds[0].subtract(folds[0])], 1.0, 1.0)


def test_sums_about_centroids_are_refused():
    folds = [StackedStatistics.zero(4, 2).update(np.eye(4), np.arange(4.0)) for _ in range(2)]
    for validate in (lambda: cross_validate(folds, 1.0, 1.0), lambda: choose_by_cross_validation(folds)):
        with (
            patch.object(StackedStatistics, "combine", lambda *_: pytest.fail("sums were added")),
            pytest.raises(InputError, match="not sums about centroids: compare such models by"),
        ):
            validate()
