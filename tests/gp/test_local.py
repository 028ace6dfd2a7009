"""Local Maclaurin features and their Gaussian process: against algorithm 1 as printed, and in its limits."""

from __future__ import annotations

import itertools
import json
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import gammaincc

from daskrf.errors import InputError
from daskrf.features import GaussianMaclaurinFeatures, LocalGaussianFeatures
from daskrf.features.localgaussian import keep_nearest
from daskrf.gp import (
    ExactGP,
    LocalGaussianGP,
    RandomFeatureGP,
    StackedStatistics,
    choose_length_scale,
    gp_for,
    model_from_state,
)
from daskrf.kernels import Gaussian, TruncatedGaussian
from tests.jit import jit_disabled
from tests.naive import local as naive

PROPERTY = settings(derandomize=True, deadline=None, max_examples=3 if jit_disabled() else 25)
compiled_only = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")
GIVEN: dict[str, Any] = {"mean": 0.3, "signal_variance": 1.5, "noise_variance": 0.05}


def problem(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, d))
    return X, np.sin(3 * X).sum(axis=1) + 0.2 * rng.standard_normal(n) + 1.0


@st.composite
def problems(draw: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows with repeats, constant columns and any scale, targets, and new rows."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 20)), draw(st.integers(1, 3))
    X = rng.normal(size=(draw(st.integers(1, n)), d))
    X = X[rng.integers(0, len(X), n)] * draw(st.sampled_from([0.1, 1.0, 20.0]))
    if draw(st.booleans()):
        X[:, 0] = draw(st.sampled_from([0.0, 2.0]))
    return X, rng.standard_normal(n), rng.normal(size=(4, d))


def by_map(fitted: LocalGaussianFeatures) -> Any:
    """Return the features of one row about one centroid, made by the map of that centroid."""
    known = {tuple(m.centre_.toarray()[0]): m for m in fitted.maps_}
    return lambda x, c: known[tuple(c)].transform(np.asarray(x)[None])[0].astype(float)


@PROPERTY
@given(problems(), st.integers(1, 5), st.integers(1, 12), st.sampled_from(["farthest", "kmeans", "random"]))
def test_it_is_algorithm_1(data, n_centroids, size, selection) -> None:
    X, y, new = data
    local = LocalGaussianFeatures(n_centroids * size + 1, n_centroids=n_centroids, selection=selection)
    gp = LocalGaussianGP(local, residual=False, **GIVEN).fit(X, y)
    fitted = gp.feature_map_
    centroids = fitted.centroids_.toarray()
    expected = naive.predict(by_map(fitted), X, y, centroids, new, *GIVEN.values())
    mean, std = gp.predict(new, return_std=True, of="f")
    np.testing.assert_allclose(mean, expected[0], atol=1e-4)
    np.testing.assert_allclose(std**2, expected[1], atol=1e-4)
    gp.feature_map_ = None  # features of all centroids in place of rows
    for found, again in zip(
        gp.predict(fitted.transform(new), return_std=True, of="f"), (mean, std), strict=True
    ):
        np.testing.assert_allclose(found, again, rtol=1e-12, atol=1e-12)
    evidence = naive.own_evidence(by_map(fitted), X, y, centroids, *GIVEN.values())
    np.testing.assert_allclose(gp.log_marginal_likelihood_value_, evidence, rtol=1e-4, atol=1e-3)


def test_posteriors_of_the_nearest_rows_alone() -> None:
    """Each centroid's rows have a process of their own, whose evidence is the one that is reported."""
    X, y = problem(60, 2)
    local = LocalGaussianFeatures(60, n_centroids=4)
    gp = LocalGaussianGP(local, residual=False, **GIVEN).fit(X, y)
    everything = gp.predict(X, return_std=True)
    gp._factors = {}
    gp.set_params(rows="nearest")  # which changes nothing before the next fit, deviations neither
    for found, expected in zip(gp.predict(X, return_std=True), everything, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert gp.state()["rows"] == "all"
    gp.fit_statistics(gp.statistics_, gp.feature_map_)
    centroids = gp.feature_map_.centroids_.toarray()
    labels = np.argmin(np.linalg.norm(X[:, None] - centroids, axis=2), axis=1)
    for label in range(4):
        own, features = X[labels == label], gp.feature_map_.maps_[label].transform(X[labels == label])
        alone = RandomFeatureGP(**GIVEN).fit(features.astype(float), y[labels == label])
        for found, expected in zip(
            gp.predict(own, return_std=True),
            alone.predict(features.astype(float), return_std=True),
            strict=True,
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-6)
    restored = model_from_state(json.loads(json.dumps(gp.state())), gp.arrays())
    np.testing.assert_allclose(restored.predict(X, return_std=True), gp.predict(X, return_std=True))
    with pytest.raises(InputError, match="rows must be"):
        LocalGaussianGP(local, rows="some", **GIVEN).fit(X, y)


@pytest.mark.parametrize(("d", "size", "degree"), [(1, 9, 8), (2, 10, 3)])
def test_few_columns_have_explicit_features(d: int, size: int, degree: int) -> None:
    X, y = problem(60, d)
    gp = LocalGaussianGP(LocalGaussianFeatures(5 * size, n_centroids=5), residual=False, **GIVEN).fit(X, y)
    assert gp.local_map_.allocation_.degree == degree
    features = lambda x, c: naive.explicit_features(x, c, 1.0, degree)  # noqa: E731
    expected = naive.predict(features, X, y, gp.local_map_.centroids_.toarray(), X[:9], *GIVEN.values())
    mean, std = gp.predict(X[:9], return_std=True, of="f")
    np.testing.assert_allclose(mean, expected[0], atol=2e-4)
    np.testing.assert_allclose(std**2, expected[1], atol=1e-5)


@PROPERTY
@given(problems(), st.integers(1, 8), st.sampled_from([None, 0.5, 3.0]))
def test_farthest_points_to_a_threshold(data, n_centroids, threshold) -> None:
    X = data[0]
    local = LocalGaussianFeatures(24, length_scale=0.7, n_centroids=n_centroids, threshold=threshold).fit(X)
    mean = local.centroids_[0].toarray()[0]
    np.testing.assert_allclose(mean, X.mean(axis=0), atol=1e-12)
    expected = naive.farthest_centroids(X, mean, n_centroids, (threshold or 0.0) * 0.7)
    found = local.centroids_.toarray()
    # Of rows at equal distances any is as far.
    assert len(found) == len(expected)
    radius = [np.min(np.linalg.norm(X[:, None] - c, axis=2), axis=1).max() for c in (found, expected)]
    np.testing.assert_allclose(*radius, rtol=1e-9, atol=1e-12)


def test_kmeans_and_random_centroids() -> None:
    blobs = np.repeat([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]], 20, axis=0)
    X = blobs + np.random.default_rng(0).normal(size=(60, 2))
    found = LocalGaussianFeatures(60, n_centroids=3, selection="kmeans", random_state=2).fit(X)
    means = X.reshape(3, 20, 2).mean(axis=1)
    order = np.lexsort(means.T)
    centroids = found.centroids_.toarray()
    np.testing.assert_allclose(centroids[np.lexsort(centroids.T)], means[order], atol=1e-12)
    rows = LocalGaussianFeatures(60, n_centroids=4, selection="random").fit(X[[0, 0, 1, 1]]).centroids_
    assert sorted(rows.toarray().tolist()) == sorted(X[:2].tolist())  # distinct ones


def test_a_huge_threshold_leaves_the_mean_alone() -> None:
    assert LocalGaussianFeatures(60, threshold=1e200).fit(np.eye(5)).centroids_.shape == (1, 5)


@compiled_only
def test_one_centroid_is_the_plain_map() -> None:
    X, y = problem(70, 4)
    local = LocalGaussianFeatures(50, length_scale=2.0, n_centroids=1).fit(X)
    plain = GaussianMaclaurinFeatures(50, length_scale=2.0).fit(X)
    Phi = plain.transform(X)
    assert local.transform(X).tobytes() == local.transform_nearest(X).tobytes() == Phi.tobytes()
    for fixed in ({}, GIVEN):
        gp = LocalGaussianGP(local, residual=False, **fixed).fit(X, y)
        other = RandomFeatureGP(method="eigh", **fixed).fit(Phi.astype(float), y)
        np.testing.assert_allclose(gp.noise_variance_, other.noise_variance_, rtol=1e-6)
        np.testing.assert_allclose(
            gp.log_marginal_likelihood_value_, other.log_marginal_likelihood_value_, rtol=1e-9
        )
        for found, expected in zip(
            gp.predict(X[:9], return_std=True),
            other.predict(Phi[:9].astype(float), return_std=True),
            strict=True,
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-6)


@compiled_only
def test_many_features_approach_the_exact_process() -> None:
    X, y = problem(80, 1)
    exact = ExactGP(Gaussian(0.5), **GIVEN).fit(X, y)
    new = np.linspace(-3, 3, 50)[:, None]
    expected = exact.predict(new, return_std=True, of="f")
    errors = []
    for size in (4, 8, 16, 60):
        gp = LocalGaussianGP(LocalGaussianFeatures(8 * size, length_scale=0.5, n_centroids=8), **GIVEN)
        found = gp.fit(X, y).predict(new, return_std=True, of="f")
        errors.append(max(np.abs(a - b).max() for a, b in zip(found, expected, strict=True)))
    assert errors[0] > 10 * errors[2]
    assert errors[3] < 1e-3


@compiled_only
def test_far_from_all_centroids_there_is_the_prior() -> None:
    X, y = problem(80, 2)
    far = np.array([[400.0, 0.0], [0.0, -60.0], [1e6, 1e6]])
    local = LocalGaussianFeatures(400, length_scale=0.7, n_centroids=20)
    mean, std = LocalGaussianGP(local, **GIVEN).fit(X, y).predict(far, return_std=True, of="f")
    np.testing.assert_allclose(mean, GIVEN["mean"])
    np.testing.assert_allclose(std**2, GIVEN["signal_variance"])
    gp = LocalGaussianGP(local, residual=False, **GIVEN).fit(X, y)
    assert (gp.predict(far, return_std=True, of="f")[1] == 0.0).all()  # as algorithm 1 has it


@compiled_only
def test_small_noise_wants_the_nearest_rows() -> None:
    """As docs/maps.md says: of all rows, intervals at a noise of 1 % and below hold too few values."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (1000, 1))
    f = np.linalg.cholesky(Gaussian(0.3)(X) + 1e-10 * np.eye(1000)) @ rng.normal(size=1000)
    local = LocalGaussianFeatures(192, length_scale=0.3, n_centroids=12)
    for noise, most in ((1e-2, 0.85), (1e-4, 0.3)):
        y = f + noise**0.5 * rng.normal(size=1000)
        gp = LocalGaussianGP(local, mean=0.0, signal_variance=1.0, noise_variance=noise).fit(X[:700], y[:700])
        inside = []
        for rows in ("all", "nearest"):
            gp.set_params(rows=rows).fit_statistics(gp.statistics_, gp.feature_map_)
            mean, std = gp.predict(X[700:], return_std=True, of="f")
            inside.append(np.mean(np.abs(f[700:] - mean) < 1.96 * std))
        assert inside[0] < most
        assert inside[1] > 0.9


@compiled_only
def test_hyperparameters_and_the_length_scale_by_the_evidence() -> None:
    X, y = problem(300, 1, seed=1)
    found = choose_length_scale(LocalGaussianFeatures(80, n_centroids=8), X, y, n_trials=8)
    assert 0.2 < found.length_scale < 1.5
    gp = LocalGaussianGP(found.feature_map).fit(X, y)
    assert 0.02 < gp.noise_variance_[0] < 0.08  # 0.04 was put in
    value = gp.log_marginal_likelihood_value_
    for name, step in itertools.product(("mean_", "signal_variance_", "noise_variance_"), (-0.05, 0.05)):
        other = {n: float(getattr(gp, n)[0]) for n in ("mean_", "signal_variance_", "noise_variance_")}
        other[name] *= 1.0 + step
        assert gp.log_marginal_likelihood(*other.values()) < value
    new = np.linspace(-2.5, 2.5, 40)
    assert np.abs(gp.predict(new[:, None]) - np.sin(3 * new) - 1.0).max() < 0.25


@compiled_only
def test_several_targets_states_draws_and_further_rows() -> None:
    X, y = problem(60, 2)
    Y = np.column_stack([y, -2 * y + X[:, 0]])
    gp = gp_for(LocalGaussianFeatures(123, n_centroids=6), noise_variance=[0.05, 0.1]).fit(X[:40], Y[:40])
    assert isinstance(gp, LocalGaussianGP)
    alone = LocalGaussianGP(gp.feature_map_, noise_variance=0.1).fit(X[:40], Y[:40, 1])
    np.testing.assert_allclose(gp.predict(X)[:, 1], alone.predict(X), rtol=1e-5)
    restored = model_from_state(json.loads(json.dumps(gp.state())), gp.arrays())
    for a, b in zip(restored.predict(X, return_std=True), gp.predict(X, return_std=True), strict=True):
        assert a.tobytes() == b.tobytes()
    covariance = gp.predict(X[:7], return_cov=True)[1]
    np.testing.assert_allclose(
        np.sqrt(np.einsum("iit->it", covariance)), gp.predict(X[:7], return_std=True)[1], rtol=1e-9
    )
    draws = gp.sample_weights(4000, 1, target=1)
    variance = (gp.feature_map_.transform_nearest(X[:7]) @ draws).var(axis=1)
    f_std = gp.predict(X[:7], return_std=True, of="f")[1][:, 1]
    own = 1.0 - np.square(gp.feature_map_.transform_nearest(X[:7])).sum(axis=1)
    # A standard error of 2.2 % each.
    np.testing.assert_allclose(
        variance, f_std**2 - gp.signal_variance_[1] * np.maximum(own, 0.0), rtol=0.12, atol=1e-6
    )
    with_residual = gp.sample_y(X[:7], 1000, 1, of="f", target=1)
    np.testing.assert_allclose(with_residual.std(axis=1), f_std, rtol=0.2)
    assert gp.sample_y(X[:7], 3, 5).shape == (7, 3)
    more = gp.partial_fit(X[40:], Y[40:])
    again = LocalGaussianGP(gp.feature_map_, noise_variance=[0.05, 0.1]).fit_statistics(
        StackedStatistics.zero(123, 20, 2).update(gp.feature_map_.transform(X), Y), gp.feature_map_
    )
    np.testing.assert_allclose(more.predict(X), again.predict(X), rtol=1e-6)


def test_statistics_are_a_monoid() -> None:
    X, y = problem(50, 2)
    phi = LocalGaussianFeatures(32, n_centroids=3).fit(X).transform(X)
    whole = StackedStatistics.zero(32, 10).update(phi, y)
    parts = [StackedStatistics.zero(32, 10).update(phi[i : i + 20], y[i : i + 20]) for i in (0, 20, 40)]
    for order in itertools.permutations(parts):
        total = sum(order, StackedStatistics.zero(32, 10))
        for name, array in total.arrays().items():
            np.testing.assert_allclose(array, whole.arrays()[name], rtol=1e-12, atol=1e-12)
    stored = {name: array.copy() for name, array in whole.arrays().items()}
    for array in stored.values():
        array.flags.writeable = False
    restored = StackedStatistics.from_arrays(stored).update(phi[:1], y[:1])
    assert restored.n == 51
    np.testing.assert_allclose(
        restored.grams, whole.combine(StackedStatistics.zero(32, 10).update(phi[:1], y[:1])).grams
    )
    turned = whole.arrays() | {name: np.asfortranarray(stored[name]) for name in ("grams", "own_grams")}
    again = StackedStatistics.from_arrays(turned).update(phi[:1], y[:1])
    assert again.grams.tobytes() == restored.grams.tobytes()
    assert again.own_grams.tobytes() == restored.own_grams.tobytes()


@PROPERTY
@given(problems(), st.integers(1, 5), st.integers(1, 12), st.sampled_from([0, 1 << 22]))
def test_the_nearest_block_has_the_bytes_of_all_blocks(data, n_centroids, size, table) -> None:
    """Between centroids, far and too far from all, and by first features alone."""
    local = LocalGaussianFeatures(n_centroids * size + 1, n_centroids=n_centroids).fit(data[0])
    centroids = local.centroids_.toarray()
    middles = (centroids[1:] + centroids[:-1]) / 2
    far = np.outer([13.0, 1e3, 1e200], np.ones(centroids.shape[1]))
    X = np.concatenate([data[0], data[2], middles, centroids[:1] + far])
    phi = local.transform(X)
    with patch("daskrf.features.localgaussian._TABLE", table):
        nearest = local.transform_nearest(X)
    keep_nearest(phi, len(local.maps_), local.block_size)
    assert nearest.tobytes() == phi.tobytes()


def test_rows_too_far_from_all_centroids_go_to_the_first() -> None:
    """Their first features are 0 everywhere, and those tell the nearest centroid of stored features."""
    local = LocalGaussianFeatures(20, n_centroids=2).fit_centroids([[0.0], [100.0]], [[0.0], [100.0]])
    for far in (1e3, 1e200):
        phi = local.transform([[far]])
        assert (phi[:, ::10] == 0.0).all()
        nearest = local.transform_nearest([[far]])
        assert (nearest[0, 10:] == 0.0).all()
        np.testing.assert_array_equal(nearest[0, :10], phi[0, :10])
    near = local.transform_nearest([[99.0]])
    assert (near[0, :10] == 0.0).all()
    assert near[0, 10] > 0.5


def test_messages_name_rows_whichever_block_they_are_of() -> None:
    X = np.array([[0.0], [-40.0], [0.0], [-40.0]])
    local = LocalGaussianFeatures(120, n_centroids=2).fit_centroids(X, [[-40.0], [0.0]])
    error = InputError("The features of row 1 are too large.")
    with (
        patch("daskrf.features.gaussianmaclaurin.refuse_overflow", side_effect=error),
        pytest.raises(InputError, match="The features of row 3 are too large"),
    ):
        local.transform_nearest(X)


def test_features_of_16_bits_are_refused() -> None:
    """Six length scales away features have most of their length, but not the one that tells the centroid."""
    X = np.linspace(-6.0, 6.0, 30)[:, None]
    local = LocalGaussianFeatures(120, n_centroids=2).fit_centroids(X, [[-40.0], [0.0]])
    phi = local.transform(X)
    assert np.linalg.norm(phi[-1]) > 0.9
    assert phi[-1, 60] > 0.0 == phi[-1, 60].astype(np.float16)
    gp = LocalGaussianGP(local, **GIVEN)
    gp.fit_statistics(StackedStatistics.zero(120, 60).update(phi, X[:, 0]), local).feature_map_ = None
    for refused in (gp.predict, StackedStatistics.zero(120, 60).update):
        with pytest.raises(InputError, match=r"cannot be float16.*Use float32"):
            refused(phi.astype(np.float16))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rows": "some"}, "rows must be 'all' or 'nearest', not 'some'"),
        ({"residual": "no"}, "residual must be True or False, not 'no'"),
        ({"noise_variance": -1.0}, "noise_variance must be positive and finite"),
        (
            {"signal_variance": [1.0, 2.0]},
            "signal_variance must be one finite number, or one for each of 1 targets",
        ),
    ],
)
def test_parameters_are_checked_before_sums_are_made(given: dict[str, Any], message: str) -> None:
    X, y = problem(10, 2)
    fitted = LocalGaussianGP(LocalGaussianFeatures(12, n_centroids=3), **GIVEN).fit(X, y)
    with patch("daskrf.gp.processes.process.sum_rows", lambda *_, **__: pytest.fail("sums were made")):
        for refused in (
            LocalGaussianGP(fitted.feature_map, **given).fit,
            fitted.set_params(**given).partial_fit,
        ):
            with pytest.raises(InputError, match=message):
                refused(X, y)
    if "signal_variance" not in given:
        with pytest.raises(InputError, match=message):
            gp_for(fitted.feature_map_, **given)


def test_ties_empty_clusters_and_one_row() -> None:
    X = np.array([[-1.0], [1.0], [0.0]])
    local = LocalGaussianFeatures(24).fit_centroids(X, [[-1.0], [1.0], [500.0]])
    phi = local.transform_nearest(X)
    assert phi[2, :8].any()
    assert not phi[2, 8:].any()  # halfway: to the first
    gp = LocalGaussianGP(local, **GIVEN).fit_statistics(
        StackedStatistics.zero(24, 8).update(local.transform(X), [1.0, 2.0, 3.0]), local
    )
    mean, std = gp.predict([[500.0]], return_std=True, of="f")  # a centroid without rows
    np.testing.assert_allclose([mean[0], std[0] ** 2], [GIVEN["mean"], GIVEN["signal_variance"]], rtol=1e-6)
    one = LocalGaussianGP(LocalGaussianFeatures(8, n_centroids=3), **GIVEN).fit([[2.0, 0.0]], [1.0])
    expected = 0.3 + 0.7 * 1.5 / 1.55
    np.testing.assert_allclose(one.predict([[2.0, 0.0]]), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"length_scale": 0.0}, "length_scale"),
        ({"length_scale": -1.0}, "length_scale"),
        ({"length_scale": 1e150}, "length_scale must be a finite number above 0, from 1e-75"),
        ({"length_scale": 1e-200}, "length_scale must be a finite number above 0, from 1e-75"),
        ({"n_centroids": 0}, "n_centroids"),
        ({"n_centroids": 65}, "n_centroids"),
        ({"n_centroids": "8"}, "n_centroids"),
        ({"threshold": -1.0}, "threshold"),
        ({"threshold": 1.0, "selection": "kmeans"}, "threshold is for selection='farthest'"),
        ({"selection": "kmedoids"}, "selection"),
        ({"method": "gaussian"}, "method"),
    ],
)
def test_bad_parameters_are_refused(given: dict[str, Any], message: str) -> None:
    local = LocalGaussianFeatures(64, **given)
    with pytest.raises(InputError, match=message):
        local.fit(np.eye(3))
    with pytest.raises(InputError, match=message):  # which drivers call before an output is begun
        local.check_columns(3)


def test_centroids_too_far_from_zero_are_refused() -> None:
    """Their mean is 0, and it is not said to be far from it."""
    X = np.linspace(-2e4, 2e4, 50)[:, None]
    with pytest.raises(InputError, match=r"^The centre is 2e\+04 length scales away from 0"):
        LocalGaussianFeatures(64, n_centroids=4).fit(X)


def test_bad_input_is_refused() -> None:
    local = LocalGaussianFeatures(8, n_centroids=2)
    with pytest.raises(InputError, match="no row"):
        local.fit(np.empty((0, 2)))
    with pytest.raises(InputError, match="rows of 2 columns"):
        local.fit_centroids(np.eye(2), np.eye(3))
    with pytest.raises(InputError, match="needs a map with centroids"):
        LocalGaussianGP(GaussianMaclaurinFeatures(8)).fit(np.eye(2), [0.0, 1.0])
    fitted = LocalGaussianFeatures(8, n_centroids=2).fit(np.eye(2))
    statistics = RandomFeatureGP(**GIVEN).fit(fitted.transform(np.eye(2)), [0.0, 1.0]).statistics_
    with pytest.raises(InputError, match="StackedStatistics"):
        LocalGaussianGP(fitted, **GIVEN).fit_statistics(statistics)
    stacked = LocalGaussianGP(fitted, **GIVEN).fit(np.eye(2), [0.0, 1.0]).statistics_
    with pytest.raises(InputError, match="RandomFeatureGP takes no sums about centroids"):
        RandomFeatureGP(fitted, **GIVEN).fit(np.eye(2), [0.0, 1.0])
    with pytest.raises(InputError, match="RandomFeatureGP takes no sums about centroids"):
        RandomFeatureGP(**GIVEN).fit_statistics(stacked)
    with pytest.raises(InputError, match="blocks of 3, unlike"):
        LocalGaussianGP(fitted, **GIVEN).fit_statistics(StackedStatistics.zero(9, 3), fitted)
    with pytest.raises(InputError, match="cannot be combined"):
        StackedStatistics.zero(8, 4).combine(StackedStatistics.zero(8, 2))
    with pytest.raises(InputError, match="with one map"):
        StackedStatistics.zero(8, 4).combine(statistics)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="with one map"):
        statistics.combine(stacked)
    with pytest.raises(InputError, match="changed since fit"):
        fitted.set_params(length_scale=2.0).transform(np.eye(2))


@PROPERTY
@given(st.integers(0, 6), st.floats(0.0, 6.0), st.floats(0.0, 6.0), st.floats(0.3, 3.0))
def test_theorem_3_1(p: int, r: float, t: float, length_scale: float) -> None:
    """The truncated kernel vanishes far from its centre; its error is largest for parallel rows.

    Wacker & Filippone 2022, theorem 3.1, for u = x / l and v = y / l of any number of columns, a fixed degree
    p and unit variance. Magnitude: by appendix B, |k_p| <= exp(-s) sum_{n <= p} s^n / n! with
    s = (|u|^2 + |v|^2) / 2, a function that decreases to 0. Error: at fixed lengths |u|, |v| it is that of
    parallel rows at most, and 0 for orthogonal ones.
    """
    angles = np.linspace(0.0, np.pi, 37)
    x = length_scale * np.array([[r, 0.0]])
    Y = length_scale * t * np.column_stack([np.cos(angles), np.sin(angles)])
    cut = TruncatedGaussian(length_scale, p)(x, Y)[0]
    bounds = gammaincc(p + 1, (r * r + t * t) / 2 * np.array([1.0, 1.5, 4.0, 100.0]))
    assert (np.abs(cut) <= bounds[0] + 1e-12).all()
    assert (np.diff(bounds) <= 1e-15).all()
    errors = np.abs(Gaussian(length_scale)(x, Y)[0] - cut)
    assert errors.max() <= errors[0] + 1e-9
    assert errors[18] <= 1e-9


def test_theorem_3_1_of_the_posterior() -> None:
    """Far from the centre the mean and deviation of f by the features alone are those of no function at all.

    The mean of y is 0 and features are explicit, as in figure 2: the deviation of the exact process is that
    of the prior there instead, and the local model's, with a centroid at the row, too. So is that of a model
    which knows the map, because it counts what features leave out.
    """
    X, y = problem(50, 1)
    given = GIVEN | {"mean": 0.0}
    far = np.array([[30.0]])
    plain = GaussianMaclaurinFeatures(10).fit(X)
    gp = RandomFeatureGP(**given).fit(plain.transform(X), y)
    mean, std = gp.predict(plain.transform(far), return_std=True, of="f")
    assert abs(mean[0]) + std[0] < 1e-6
    gp = RandomFeatureGP(plain, **given).fit(X, y)
    np.testing.assert_allclose(gp.predict(far, return_std=True, of="f"), [[0.0], [1.5**0.5]], atol=1e-6)
    local = LocalGaussianFeatures(20).fit_centroids(X, [[0.0], [30.0]])
    statistics = StackedStatistics.zero(20, 10).update(local.transform(X), y)
    gp = LocalGaussianGP(local, residual=False, **given).fit_statistics(statistics, local)
    np.testing.assert_allclose(gp.predict(far, return_std=True, of="f"), [[0.0], [1.5**0.5]], atol=1e-6)
