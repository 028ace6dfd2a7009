"""SparseGP against dense textbook formulas, and against the exact process that it stands for."""

from __future__ import annotations

import itertools
import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from sklearn.base import clone

from daskrf.errors import InputError
from daskrf.features import LandmarkFeatures, TanimotoMinMaxFeatures, from_state
from daskrf.features.featuremap import map_key
from daskrf.gp import RandomFeatureGP, SparseGP, SufficientStatistics, gp_for, model_from_state
from daskrf.gp.processes.prior import PriorPrecision
from daskrf.kernels import TanimotoDotProduct, TanimotoMinMax
from tests.gp.strategies import SEEDS
from tests.naive import gp as naive

PROPERTY = settings(derandomize=True, deadline=None, max_examples=40)
METHODS = ("eigh", "cholesky")
KERNEL = TanimotoMinMax()


def counts(n, d=25, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.7, (n, d))
    X[0] = 0
    return X


def problem(n, m, seed=0, targets=1):
    """Landmarks among rows, all rows, smooth targets with noise, new rows."""
    rng = np.random.default_rng(seed)
    X, new = counts(n, seed=seed), counts(6, seed=seed + 1000)
    feature_map = LandmarkFeatures(m, random_state=seed % 5).fit(X)
    y = 3.0 + KERNEL(X) @ rng.standard_normal((n, targets)) + 0.2 * rng.standard_normal((n, targets))
    return feature_map, X, y[:, 0] if targets == 1 else y, new


def statistics_of(feature_map, X, y):
    """The sums of features in double precision: what float32 features cost is tested elsewhere."""
    return SufficientStatistics.from_chunk(KERNEL(X, feature_map.landmarks_), y, precision="double")


def kernels_of(feature_map, X, new):
    Z = feature_map.landmarks_
    return KERNEL(Z), KERNEL(Z, X), KERNEL(Z, new), KERNEL(new)


def fitted(feature_map, X, y, **options):
    gp = SparseGP(feature_map, **options).fit_statistics(statistics_of(feature_map, X, y))
    gp.feature_map_ = None  # predicts from features, here in double precision
    return gp


@st.composite
def problems(draw):
    n = draw(st.integers(2, 40))
    m = draw(st.integers(1, max(1, len(np.unique(counts(n, seed=draw(st.just(n))), axis=0)) - 1)))
    feature_map, X, y, new = problem(n, m, seed=n, targets=draw(st.integers(1, 2)))
    theta = draw(st.floats(-5, 5)), 10.0 ** draw(st.floats(-2, 2)), 10.0 ** draw(st.floats(-3, 1))
    return feature_map, X, y.reshape(n, -1), new, theta


@pytest.mark.parametrize("method", METHODS)
@PROPERTY
@given(problems())
def test_agrees_with_the_textbook(method, data):
    feature_map, X, y, new, (mean, signal_variance, noise) = data
    gp = fitted(
        feature_map, X, y, mean=mean, signal_variance=signal_variance, noise_variance=noise, method=method
    )
    k_zz, k_zx, k_zs, k_ss = kernels_of(feature_map, X, new)
    found, std = gp.predict(k_zs.T, return_std=True, of="f")
    _, std_y = gp.predict(k_zs.T, return_std=True)
    for t in range(y.shape[1]):
        expected, covariance = naive.projected_posterior(
            k_zz, k_zx, k_zs, k_ss, y[:, t], mean, signal_variance, noise
        )
        variances = np.diag(covariance)
        np.testing.assert_allclose(found.reshape(6, -1)[:, t], expected, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(
            std.reshape(6, -1)[:, t] ** 2, variances, rtol=1e-8, atol=1e-10 * signal_variance
        )
        np.testing.assert_allclose(std_y.reshape(6, -1)[:, t] ** 2, variances + noise, rtol=1e-8)
        evidence = naive.projected_log_likelihood(k_zz, k_zx, y[:, t], mean, signal_variance, noise)
        bound = naive.titsias_bound(k_zz, k_zx, np.ones(len(X)), y[:, t], mean, signal_variance, noise)
        np.testing.assert_allclose(gp.log_marginal_likelihoods_[t], evidence, rtol=1e-8, atol=1e-7)
        np.testing.assert_allclose(gp.bounds_[t], bound, rtol=1e-8, atol=1e-7)
        np.testing.assert_allclose(gp.log_marginal_likelihood(target=t), evidence, rtol=1e-8, atol=1e-7)
        np.testing.assert_allclose(gp.log_bound(target=t), bound, rtol=1e-8, atol=1e-7)


def test_joint_covariance_agrees_with_the_textbook():
    feature_map, X, y, new = problem(40, 12)
    gp = SparseGP(feature_map, mean=1.0, signal_variance=2.0, noise_variance=0.1)
    gp.fit_statistics(statistics_of(feature_map, X, y))
    mean, joint = gp.predict(new, return_cov=True)
    expected, covariance = naive.projected_posterior(
        *kernels_of(feature_map, X, new), y, mean=1.0, signal_variance=2.0, noise_variance=0.1
    )
    np.testing.assert_allclose(mean, expected, rtol=1e-5)
    np.testing.assert_allclose(joint, covariance + 0.1 * np.eye(6), atol=1e-5)  # float32 features
    with pytest.raises(InputError, match="kernel between rows"):
        fitted(feature_map, X, y).predict(feature_map.transform(new), return_cov=True)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_gradients_agree_with_differences(method, bound, seed):
    feature_map, X, y, _ = problem(30, 9, seed=seed)
    gp = fitted(feature_map, X, y, method=method)
    k_zz, k_zx = KERNEL(feature_map.landmarks_), KERNEL(feature_map.landmarks_, X)

    def value(theta):
        if bound:
            return naive.titsias_bound(k_zz, k_zx, np.ones(len(X)), y, *theta)
        return naive.projected_log_likelihood(k_zz, k_zx, y, *theta)

    for theta in ([2.0, 1.0, 0.3], [-1.0, 0.05, 2.0], [3.0, 30.0, 0.01]):
        found, gradient = (gp.log_bound if bound else gp.log_marginal_likelihood)(*theta, eval_gradient=True)
        numeric = approx_fprime(theta, value, 1e-7 * np.abs(theta))
        np.testing.assert_allclose(found, value(theta), rtol=1e-9)
        np.testing.assert_allclose(gradient, numeric, rtol=1e-4, atol=1e-5 * np.abs(numeric).max())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("criterion", ["evidence", "bound"])
@pytest.mark.parametrize("fixed", list(itertools.product([False, True], repeat=3)))
def test_what_is_not_given_is_optimal_by_either_criterion(fixed, criterion, method):
    feature_map, X, y, _ = problem(60, 40, seed=3)
    at = np.array([2.5, 1.3, 0.2])
    names = ("mean", "signal_variance", "noise_variance")
    options = {name: at[i] for i, name in enumerate(names) if fixed[i]}
    gp = fitted(feature_map, X, y, criterion=criterion, method=method, **options)
    found = np.array([gp.mean_[0], gp.signal_variance_[0], gp.noise_variance_[0]])
    np.testing.assert_allclose(found[list(fixed)], at[list(fixed)])
    k_zz, k_zx = KERNEL(feature_map.landmarks_), KERNEL(feature_map.landmarks_, X)

    def value(theta):
        if criterion == "bound":
            return naive.titsias_bound(k_zz, k_zx, np.ones(len(X)), y, *theta)
        return naive.projected_log_likelihood(k_zz, k_zx, y, *theta)

    best = value(found)
    reached = gp.bounds_ if criterion == "bound" else gp.log_marginal_likelihoods_
    np.testing.assert_allclose(reached[0], best, rtol=1e-9)
    assert gp.bounds_[0] < gp.log_marginal_likelihoods_[0]
    assert gp.log_marginal_likelihood_value_ == gp.log_marginal_likelihoods_[0]
    for i in np.flatnonzero(~np.array(fixed)):
        for step in (-0.03, 0.03):
            other = found.copy()
            other[i] = other[i] + step if i == 0 else other[i] * np.exp(step)
            assert value(other) < best


@pytest.mark.parametrize("seed", range(5))
def test_all_rows_as_landmarks_give_the_exact_process(seed):
    X = np.unique(counts(30, seed=seed), axis=0)
    new, n = counts(6, seed=seed + 50), len(X)
    y = np.random.default_rng(seed).standard_normal(n)
    feature_map = LandmarkFeatures(n).fit(X)
    gp = fitted(feature_map, X, y, mean=0.5, signal_variance=1.5, noise_variance=0.2)
    # In the textbook's formulas a Cholesky factor of the kernel matrix stands for features.
    together = np.linalg.cholesky(KERNEL(np.vstack([X, new])) + 1e-12 * np.eye(n + 6))
    expected, covariance = naive.posterior(together[:n], y, together[n:], 0.5, 1.5, 0.2)
    found, std = gp.predict(KERNEL(new, feature_map.landmarks_), return_std=True, of="f")
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    np.testing.assert_allclose(std**2, np.diag(covariance), rtol=1e-8)
    exact = naive.log_likelihood(together[:n], y, 0.5, 1.5, 0.2)
    np.testing.assert_allclose([gp.log_marginal_likelihoods_[0], gp.bounds_[0]], exact, rtol=1e-8)
    assert gp.deficit_ < 1e-9


@PROPERTY
@given(problems())
def test_the_bound_is_below_the_evidence_of_the_exact_process(data):
    feature_map, X, y, _, theta = data
    gp = fitted(feature_map, X, y[:, 0], mean=theta[0], signal_variance=theta[1], noise_variance=theta[2])
    values, vectors = np.linalg.eigh(KERNEL(X))
    exact = naive.log_likelihood(vectors * np.sqrt(np.maximum(values, 0.0)), y[:, 0], *theta)
    assert gp.bounds_[0] <= exact + 1e-7 * abs(exact)
    assert gp.bounds_[0] <= gp.log_marginal_likelihoods_[0]


@PROPERTY
@given(SEEDS, st.integers(1, 5))
def test_statistics_of_parts_combine_to_those_of_one_pass(seed, parts):
    rng = np.random.default_rng(seed)
    phi, y, diagonal = rng.random((50, 7)), rng.standard_normal((50, 2)), rng.random(50)
    single = phi.astype(np.float32)
    whole = SufficientStatistics.from_chunk(single, y, precision="double", diagonal=diagonal)
    pieces = [
        SufficientStatistics.zero(7, 2, one_bit=False, precision="double").update(
            single[r], y[r], diagonal[r]
        )
        for r in np.array_split(rng.permutation(50), parts)
    ]
    total = pieces[0].copy()
    for piece in pieces[1:]:
        total += piece
    wide = single.astype(np.float64)
    np.testing.assert_allclose(whole.gram, np.triu(wide.T @ wide), rtol=1e-13)
    np.testing.assert_allclose(total.gram, whole.gram, rtol=1e-12)
    np.testing.assert_allclose(total.phi_y, whole.phi_y, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose([total.kernel_trace, whole.kernel_trace], diagonal.sum(), rtol=1e-12)
    left = total.subtract(pieces[0])
    np.testing.assert_allclose(left.kernel_trace + pieces[0].kernel_trace, total.kernel_trace)
    again = SufficientStatistics.from_arrays(whole.arrays())
    assert (again.kernel_trace, again.precision) == (whole.kernel_trace, "double")
    old = {k: v for k, v in whole.arrays().items() if k not in ("kernel_trace", "double")}
    before = SufficientStatistics.from_arrays(old)
    assert (before.kernel_trace, before.precision) == (50.0, "single")


def test_the_kernel_trace_counts_rows_where_it_is_not_given():
    bits = SufficientStatistics.from_chunk(np.zeros((5, 1), np.uint8), np.arange(5.0))
    assert bits.kernel_trace == 5.0
    assert "kernel_trace" not in bits.arrays()
    assert SufficientStatistics.from_arrays(bits.arrays()).kernel_trace == 5.0
    for diagonal in ([1.0, 1.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0]):
        with pytest.raises(InputError, match="diagonal must be 3"):
            SufficientStatistics.from_chunk(np.zeros((3, 2)), np.zeros(3), diagonal=diagonal)
    with pytest.raises(InputError, match="precision"):
        SufficientStatistics.zero(2, 1, one_bit=False, precision="half")


def test_double_precision_over_many_blocks(monkeypatch):
    monkeypatch.setattr("daskrf.gp.sums.statistics._DOUBLE_ROWS", 7)
    phi = np.random.default_rng(0).random((50, 9)).astype(np.float32)
    found = SufficientStatistics.from_chunk(phi, np.ones(50), precision="double")
    wide = phi.astype(np.float64)
    np.testing.assert_allclose(found.gram, np.triu(wide.T @ wide), rtol=1e-13)
    np.testing.assert_allclose(found.phi_sum, wide.sum(axis=0), rtol=1e-13)


@pytest.mark.parametrize("method", METHODS)
def test_repeated_landmarks_change_nothing(method):
    feature_map, X, y, new = problem(60, 10)
    Z = feature_map.landmarks_
    twice = LandmarkFeatures(23)
    twice._keep(sp.vstack([Z, Z, Z[:3]], format="csr"))
    options = {"mean": 1.0, "signal_variance": 2.0, "noise_variance": 0.1, "method": method}
    once, repeated = fitted(feature_map, X, y, **options), fitted(twice, X, y, **options)
    assert once.prior_jitter_ == 0.0
    assert 0.0 < repeated.prior_jitter_ < 1e-6
    left = once.predict(KERNEL(new, Z), return_std=True, of="f")
    right = repeated.predict(KERNEL(new, twice.landmarks_), return_std=True, of="f")
    np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(repeated.bounds_, once.bounds_, rtol=1e-5)
    assert np.isfinite(repeated.sample_weights(2, seed=1)).all()
    free = SparseGP(twice, method=method).fit_statistics(statistics_of(twice, X, y))
    np.testing.assert_allclose(
        free.noise_variance_, fitted(feature_map, X, y, method=method).noise_variance_, rtol=1e-2
    )


@pytest.mark.parametrize("method", METHODS)
def test_fewer_rows_than_landmarks(method):
    feature_map, X, y, new = problem(60, 40)
    gp = fitted(feature_map, X[:9], y[:9], mean=3.0, signal_variance=2.0, noise_variance=0.1, method=method)
    k_zz, k_zx, k_zs, k_ss = kernels_of(feature_map, X[:9], new)
    expected, covariance = naive.projected_posterior(k_zz, k_zx, k_zs, k_ss, y[:9], 3.0, 2.0, 0.1)
    found, std = gp.predict(k_zs.T, return_std=True, of="f")
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    np.testing.assert_allclose(std**2, np.diag(covariance), rtol=1e-8)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("criterion", ["evidence", "bound"])
def test_landmarks_without_any_similarity_see_no_signal(method, criterion):
    X = np.eye(12, dtype=int)[:, :8]
    feature_map = LandmarkFeatures(2).fit(X[:3])
    rows, y = X[4:8], np.arange(4.0)
    gp = SparseGP(feature_map, criterion=criterion, method=method)
    gp.fit_statistics(statistics_of(feature_map, rows, y))
    assert gp.at_bound_[0]
    assert gp.deficit_ == 4.0
    np.testing.assert_allclose(gp.predict(rows), 1.5)


def test_a_prior_precision_that_is_not_positive_is_refused():
    with pytest.raises(InputError, match="not positive semi-definite"):
        PriorPrecision(np.array([[1.0, 2.0], [2.0, 1.0]]))


def test_rows_give_what_their_statistics_give_in_blocks(monkeypatch):
    feature_map, X, y, new = problem(80, 12, targets=2)
    gp = SparseGP(LandmarkFeatures(12)).fit(X, y)
    assert gp.statistics_.precision == "double"
    assert gp.statistics_.map_key == map_key(feature_map.state())
    np.testing.assert_allclose(gp.bounds_, fitted(feature_map, X, y).bounds_, rtol=1e-4)
    monkeypatch.setattr("daskrf.gp.sums.chunks._BLOCK_ENTRIES", 12 * 7)
    blocks = SparseGP(LandmarkFeatures(12)).fit(X, y)
    for left, right in zip(gp.predict(new, True), blocks.predict(new, True), strict=True):
        assert left.shape == (6, 2)
        np.testing.assert_allclose(left, right, rtol=1e-6)
    alone = SparseGP(LandmarkFeatures(12)).fit(X, y[:, 1])
    np.testing.assert_allclose(alone.predict(new, True)[1], gp.predict(new, True)[1][:, 1], rtol=1e-4)
    assert blocks.predict(new[:0], True)[1].shape == (0, 2)
    more = SparseGP(feature_map, noise_variance=0.1, signal_variance=1.0)
    more.fit_statistics(statistics_of(feature_map, X[:50], y[:50])).partial_fit(X[50:], y[50:])
    whole = SparseGP(feature_map, noise_variance=0.1, signal_variance=1.0).fit_statistics(
        statistics_of(feature_map, X, y)
    )
    np.testing.assert_allclose(more.predict(new), whole.predict(new), rtol=1e-5)


def test_state_rebuilds_the_model():
    _, X, y, new = problem(60, 12, targets=2)
    gp = SparseGP(LandmarkFeatures(12), criterion="bound").fit(X, y)
    state = json.loads(json.dumps(gp.state()))
    again = model_from_state(state, gp.arrays())
    assert isinstance(again, SparseGP)
    assert again.state() == gp.state()
    assert again.criterion == "bound"
    for left, right in zip(gp.predict(new, True), again.predict(new, True), strict=True):
        assert left.tobytes() == right.tobytes()
    assert again.log_bound(target=1) == gp.log_bound(target=1)
    # Where features are given, the landmarks are still known.
    again.feature_map_ = None
    phi = gp.feature_map_.transform(new)
    assert again.predict(phi, True)[1].tobytes() == gp.predict(new, True)[1].tobytes()
    assert again.state() == gp.state()
    small = SparseGP.from_state(state, gp.arrays(statistics=False))
    assert small.predict(new).tobytes() == gp.predict(new).tobytes()
    with pytest.raises(InputError, match="no statistics"):
        small.predict(new, return_std=True)
    copied = pickle.loads(pickle.dumps(gp))
    assert copied.predict(new, True)[1].tobytes() == gp.predict(new, True)[1].tobytes()
    random = RandomFeatureGP(TanimotoMinMaxFeatures(32)).fit(X, y)
    assert type(model_from_state(random.state(), random.arrays())) is RandomFeatureGP
    with pytest.raises(InputError, match=r"unknown model class 'OtherGP'.*SparseGP"):
        model_from_state({**state, "class": "OtherGP"}, gp.arrays())


@pytest.mark.parametrize("noise", [1e-12, 1e-3, 0.1, 10.0])
def test_variances_agree_with_the_textbook_for_any_noise(noise):
    feature_map, X, y, new = problem(80, 30)
    gp = fitted(feature_map, X, y, mean=3.0, signal_variance=1.0, noise_variance=noise)
    k_zz, k_zx, k_zs, k_ss = kernels_of(feature_map, X, new)
    _, covariance = naive.projected_posterior(k_zz, k_zx, k_zs, k_ss, y, 3.0, 1.0, noise)
    left_out = np.diag(k_ss - naive.projected(k_zz, k_zx, k_zs)[2])
    found = gp.predict(KERNEL(new, feature_map.landmarks_), return_std=True, of="f")[1] ** 2
    np.testing.assert_allclose(found, np.diag(covariance), rtol=1e-4, atol=1e-9)
    assert (found >= left_out - 1e-4 * noise - 1e-12).all()


def test_variances_below_the_rounding_of_float32_are_not_negative():
    feature_map, X, y, _ = problem(40, 12)
    total = statistics_of(feature_map, X, y)
    for _ in range(30):  # each row a milliard times
        total += total.copy()
    gp = SparseGP(feature_map, mean=0.0, signal_variance=1.0, noise_variance=10.0).fit_statistics(total)
    std = gp.predict(feature_map.landmarks_, return_std=True, of="f")[1]
    assert (std >= 0.0).all()
    assert std.max() < 0.01


def test_draws_have_the_posterior_of_the_projected_process():
    feature_map, X, y, new = problem(50, 8)
    new = new[1:]  # an empty row has no similarity with any landmark, and no posterior variance
    gp = fitted(feature_map, X, y, mean=3.0, signal_variance=2.0, noise_variance=0.1)
    k_zz, k_zx, k_zs, k_ss = kernels_of(feature_map, X, new)
    weights = gp.sample_weights(4000, seed=2)
    np.testing.assert_allclose(gp.sample_weights(3, seed=2), weights[:, :3], rtol=1e-9, atol=1e-12)
    values = 3.0 + k_zs.T @ weights
    expected, covariance = naive.projected_posterior(k_zz, k_zx, k_zs, k_ss, y, 3.0, 2.0, 0.1)
    left_out = 2.0 * (k_ss - naive.projected(k_zz, k_zx, k_zs)[2])
    inducing = covariance - left_out
    # Five means and variances of 4,000 draws: 4.5 standard errors are exceeded once in 14,000 seeds.
    deviation = np.sqrt(np.diag(inducing))
    assert (np.abs(values.mean(axis=1) - expected) < 4.5 * deviation / np.sqrt(4000)).all()
    assert (np.abs(values.var(axis=1) / deviation**2 - 1) < 4.5 * np.sqrt(2 / 4000)).all()
    for of, extra in (("f", 0.0), ("y", 0.1)):
        samples = gp.sample_y(k_zs.T, 1000, random_state=3, of=of, rows=new)
        variances = np.diag(covariance) + extra
        error = np.sqrt(2 / 1000 + 6 / 4096)  # of the draws, and of the random features that they share
        assert (np.abs(samples.var(axis=1) / variances - 1) < 4.5 * error).all()
        found = np.cov(samples) / np.sqrt(np.outer(variances, variances))
        expected = (covariance + extra * np.eye(len(new))) / np.sqrt(np.outer(variances, variances))
        assert np.abs(found - expected).max() < 4.5 * error


def test_no_joint_variance_is_negative():
    rng = np.random.default_rng(0)
    base = rng.random((15, 4))
    X = np.vstack([base, base * (1 + 1e-4 * rng.random((15, 4)))])  # landmarks that can hardly be told apart
    feature_map = LandmarkFeatures(20, kernel=TanimotoDotProduct())
    gp = SparseGP(feature_map, mean=0.0, signal_variance=1.0, noise_variance=1e-6).fit(
        X, rng.standard_normal(30)
    )
    covariance = gp.predict(X, return_cov=True, of="f")[1]
    assert covariance.diagonal().min() > 0.0
    deviations = gp.predict(X, return_std=True, of="f")[1]
    np.testing.assert_allclose(np.sqrt(covariance.diagonal()), deviations, rtol=0.01)


def test_scikit_learn_conventions():
    _, X, y, _ = problem(60, 12)
    gp = SparseGP(LandmarkFeatures(12, selection="farthest"), criterion="bound").fit(X, y)
    fresh = clone(gp)
    assert not hasattr(fresh, "weights_")
    assert not fresh.feature_map.is_fitted()
    assert fresh.get_params()["feature_map__n_components"] == 12
    assert fresh.fit(X, y).predict(X).tobytes() == gp.predict(X).tobytes()
    assert gp.score(X, y) == pytest.approx(1 - np.mean((y - gp.predict(X)) ** 2) / np.var(y))


def test_the_model_for_a_map():
    assert type(gp_for(LandmarkFeatures(8), criterion="bound", noise_variance=0.5)) is SparseGP
    assert type(gp_for(TanimotoMinMaxFeatures(8), noise_variance=0.5)) is RandomFeatureGP
    with pytest.raises(InputError, match="--criterion goes with --map landmarks, not with the map minmax"):
        gp_for(TanimotoMinMaxFeatures(8), criterion="bound")


def test_bad_input_is_refused():
    feature_map, X, y, _ = problem(30, 8)
    statistics = statistics_of(feature_map, X, y)
    for bad in (None, TanimotoMinMaxFeatures(8)):
        with pytest.raises(InputError, match="needs a map with landmarks"):
            SparseGP(bad).fit_statistics(statistics)
    with pytest.raises(InputError, match="needs a map with landmarks"):
        SparseGP().fit(X, y)
    with pytest.raises(InputError, match="criterion must be"):
        SparseGP(feature_map, criterion="likelihood").fit_statistics(statistics)
    with pytest.raises(InputError, match="method must be"):
        SparseGP(feature_map, method="svd").fit_statistics(statistics)
    with pytest.raises(InputError, match=r"8 dense features.*7 landmarks"):
        SparseGP(LandmarkFeatures(7).fit(X)).fit_statistics(statistics)
    with pytest.raises(InputError, match="one-bit features"):
        SparseGP(feature_map).fit_statistics(
            SufficientStatistics.from_chunk(np.zeros((30, 1), np.uint8), np.arange(30.0))
        )
    with pytest.raises(InputError, match="not fitted"):
        SparseGP(LandmarkFeatures(8)).fit_statistics(statistics)
    keyed = SparseGP(LandmarkFeatures(8, random_state=1)).fit(X, y)
    with pytest.raises(InputError, match="of the map"):
        SparseGP(feature_map).fit_statistics(keyed.statistics_)
    with pytest.raises(InputError, match="has no variance"):
        SparseGP(LandmarkFeatures(8)).fit(X, np.ones(30))
    with pytest.raises(InputError, match="noise_variance must be positive"):
        SparseGP(feature_map, noise_variance=-1.0).fit_statistics(statistics)


def test_sums_that_lost_too_many_digits_are_refused():
    feature_map, X, y, _ = problem(60, 20)
    for precision, message in (("single", "precision='double'"), ("double", "compute the statistics again")):
        spoilt = SufficientStatistics.from_chunk(KERNEL(X, feature_map.landmarks_), y, precision=precision)
        spoilt.gram[np.diag_indices(20)] *= 0.5
        with pytest.raises(InputError, match=message):
            SparseGP(feature_map, method="cholesky").fit_statistics(spoilt)


def test_one_row_and_an_empty_row():
    one = SparseGP(LandmarkFeatures(1), mean=0.0, signal_variance=1.0, noise_variance=1.0).fit(
        [[0, 0, 0]], [2.0]
    )
    np.testing.assert_allclose(one.predict([[0, 0, 0], [1, 0, 0]]), [1.0, 0.0])
    np.testing.assert_allclose(one.predict([[0, 0, 0], [1, 0, 0]], True, of="f")[1], np.sqrt([0.5, 1.0]))


def test_the_map_survives_its_state_inside_statistics():
    feature_map, X, y, _ = problem(30, 8)
    again = from_state(json.loads(json.dumps(feature_map.state())))
    gp = SparseGP(LandmarkFeatures(8)).fit(X, y)
    refitted = SparseGP(again).fit_statistics(gp.statistics_)
    assert refitted.bounds_.tobytes() == gp.bounds_.tobytes()
