"""Intervals hold what they say, and are made from what processes fitted without each molecule say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from daskrf.errors import OptionError
from daskrf.gp.choice.kernelchoice import choose_kernel, rows_of_metric
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.validation.intervals import checked_levels, interval_factor, studentized_residuals
from daskrf.kernels import Gaussian, TanimotoMinMax
from tests.naive.intervals import jackknife_plus, residuals_by_refitting

GIVEN: dict[str, Any] = {"mean": 0.3, "signal_variance": 1.5, "noise_variance": 0.2}


def labelled(n: int, repeats: int = 0, seed: int = 0) -> tuple[Any, npt.NDArray[np.float64]]:
    """Return rows, some of them several times, and labels with errors of heavy tails."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(1.0, (n, 12))
    X = np.concatenate([X, X[:repeats], X[: repeats // 2]])
    return X, 0.3 * (X @ rng.standard_normal(12)) + 0.3 * rng.standard_t(2, len(X))


@pytest.mark.parametrize("kernel", [TanimotoMinMax(), Gaussian(5.0)], ids=["T", "G"])
@pytest.mark.parametrize("repeats", [0, 9])
def test_residuals_are_those_of_means_of_molecules_left_out(kernel: Any, repeats: int) -> None:
    X, y = labelled(40, repeats)
    gp = ExactGP(kernel, **GIVEN).fit(X, y)
    residuals = studentized_residuals(gp)
    np.testing.assert_allclose(residuals, residuals_by_refitting(gp, X, y), rtol=1e-6, atol=1e-8)
    assert set(studentized_residuals(gp, most=7)) <= set(residuals)


def test_labels_that_a_metric_was_learned_from_are_no_evidence() -> None:
    """The half of the labels that `choose_kernel` learns from, found again from what it stores."""
    X = np.random.default_rng(0).poisson(1.0, (420, 12))
    y = np.log1p(X[:, 0].astype(float))  # one column of twelve matters
    choice = choose_kernel(X, y)
    assert choice.variances
    gp = ExactGP(choice.kernel, **choice.variances).fit(X, y)
    gp.kernel_choice_ = choice
    learned = rows_of_metric(choice, len(y) + 5, 0)
    assert len(learned) == choice.n_learned
    known = {X[i].tobytes() for i in learned}
    unseen = {row.tobytes() for row in X} - known
    assert len(studentized_residuals(gp)) == len(unseen)


def test_limits_have_no_errors() -> None:
    """Without limits that say anything, the errors of the others are those of a fit without limits."""
    X, y = labelled(40)
    distinct = np.unique(X, axis=0, return_index=True)[1]
    X, y = X[distinct], y[distinct]
    X_far, side = np.concatenate([X, 50 * np.eye(12, dtype=int)]), np.repeat([0, 1], [len(y), 12])
    gp = ExactGP(Gaussian(1.0), **GIVEN).fit(X_far, np.concatenate([y, np.full(12, -50.0)]), side=side)
    alone = ExactGP(Gaussian(1.0), **GIVEN).fit(X, y)
    np.testing.assert_allclose(studentized_residuals(gp), studentized_residuals(alone), rtol=1e-6)


def test_conjugate_gradients_estimate_them_from_samples() -> None:
    """With S samples a variance is that of S squares, so that residuals are wider by 1 in 4 S on average."""
    X, y = labelled(150, 20)
    options: dict[str, Any] = {**GIVEN, "n_draws": 256, "n_features": 65536}
    exact, estimated = (
        studentized_residuals(ExactGP(TanimotoMinMax(), solver=solver, **options).fit(X, y))
        for solver in ("cholesky", "cg")
    )
    assert len(exact) == len(estimated)
    for level in (50, 80, 90):
        assert interval_factor(estimated, level) == pytest.approx(interval_factor(exact, level), rel=0.08)


def test_they_hold_and_normal_ones_do_not() -> None:
    """Over 40 data sets of 60 new molecules; the count of contained values has at most a binomial's error.

    A band that holds with a probability of 1 - 1e-4 for independent values is widened twice, as the values of
    one data set share a factor.
    """
    contained, normal, n = np.zeros(3), np.zeros(3), 0
    levels = (50.0, 80.0, 95.0)
    for seed in range(40):
        X, y = labelled(180, seed=seed)
        gp = ExactGP(Gaussian(3.0)).fit(X[:120], y[:120])
        residuals = studentized_residuals(gp)
        mean, std = gp.predict(X[120:], return_std=True)
        size = np.abs(y[120:] - mean) / std
        contained += [(size <= interval_factor(residuals, level)).sum() for level in levels]
        normal += [(size <= z).sum() for z in (0.6745, 1.2816, 1.96)]
        n += len(size)
    for level, count in zip(levels, contained, strict=True):
        low, high = binom.interval(1 - 1e-4, n, level / 100)
        middle = n * level / 100
        assert middle - 2 * (middle - low) <= count <= middle + 2 * (high - middle), level
    assert normal[0] / n > 0.6  # what the intervals are for: most errors are small, and a few large


def test_they_are_nearly_those_of_the_jackknife_plus() -> None:
    X, y = labelled(160, 10)
    gp = ExactGP(Gaussian(3.0)).fit(X[:120], y[:120])
    mean, std = gp.predict(X[120:160], return_std=True)
    for level in (50, 80, 95):
        low, high = jackknife_plus(gp, X[:120], y[:120], X[120:160], level)
        half = interval_factor(studentized_residuals(gp), level) * std
        assert np.abs(np.stack([low - mean + half, high - mean - half]) / std).mean() < 0.08


def test_few_molecules_determine_low_levels_only() -> None:
    residuals = np.arange(1.0, 20.0)
    assert interval_factor(residuals, 95) == 19.0
    assert interval_factor(residuals, 95.1) == math.inf
    assert interval_factor(residuals[:0], 1) == math.inf
    assert interval_factor(residuals, 1e-3) == 1.0


@pytest.mark.parametrize("levels", [[], [0.0], [100.0], [-5.0], [float("nan")]])
def test_levels_are_checked(levels: list[float]) -> None:
    with pytest.raises(OptionError):
        checked_levels(levels)
