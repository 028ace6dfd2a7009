"""Intervals hold what they say, and are made from what processes fitted without each molecule say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom

from daskrf.errors import OptionError
from daskrf.features import (
    LandmarkFeatures,
    LocalGaussianFeatures,
    NystromFeatures,
    RandomFourierFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.gp import gp_for
from daskrf.gp.choice.kernelchoice import choose_kernel, rows_of_metric
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.sums.chunks import sum_rows
from daskrf.gp.sums.fixedpoint import choose_exponent
from daskrf.gp.validation.intervals import (
    checked_levels,
    interval_factor,
    residuals_of_rows,
    studentized_residuals,
)
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


@pytest.mark.parametrize(
    "feature_map",
    [
        TanimotoMinMaxFeatures(256),
        RandomFourierFeatures(Gaussian(4.0), n_components=64),
        NystromFeatures(16, kernel=Gaussian(4.0)),
        LandmarkFeatures(16, kernel=Gaussian(4.0)),
        LocalGaussianFeatures(64, n_centroids=2),
    ],
    ids=lambda each: type(each).__name__,
)
def test_features_leave_out_as_fits_without_each_molecule_do(feature_map: Any) -> None:
    """Of projections with the landmarks and what they leave out as in the fit to all labels."""
    X, y = labelled(60, 8)
    gp: Any = gp_for(feature_map, **GIVEN).fit(X, y)
    X_distinct, place = np.unique(X, axis=0, return_inverse=True)
    means, counts = np.bincount(place, y) / np.bincount(place), np.bincount(place)
    error, std = gp.errors_left_out(X_distinct, means, counts)
    for i in range(0, len(X_distinct), 7):
        others = place != i
        without = gp_for(gp.feature_map_, **GIVEN)
        sizes: dict[str, Any] = {"n_components": gp.feature_map_.n_components, "precision": "double"}
        sizes["exponents"] = choose_exponent(y[:, None])
        sums = sum_rows(X[others], y[others, None], gp.feature_map_, **sizes)
        without.fit_statistics(sums, gp.feature_map_)
        (mean,), (std_y,) = without.predict(X_distinct[[i]], return_std=True)
        noise = GIVEN["noise_variance"]
        assert error[i] == pytest.approx(means[i] - mean, rel=1e-3, abs=1e-4)
        assert std[i] ** 2 == pytest.approx(std_y**2 - noise + noise / counts[i], rel=1e-3)
    residuals = residuals_of_rows(gp, X, y)
    precision = 1e-4  # of features in single precision, in another order of rows
    np.testing.assert_allclose(residuals, np.sort(np.abs(error) / std), rtol=precision)
    some = residuals_of_rows(gp, X, y, most=9)
    assert len(some) == 9
    assert np.abs(some[:, None] - residuals).min(axis=1).max() < precision
