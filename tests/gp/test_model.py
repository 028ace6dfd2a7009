"""RandomFeatureGP against textbook formulas and against scikit-learn."""

from __future__ import annotations

import itertools
import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import approx_fprime
from scipy.stats import kstest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, WhiteKernel
from sklearn.pipeline import Pipeline

from daskrf.errors import InputError
from daskrf.features import (
    LocalGaussianFeatures,
    NystromFeatures,
    TanimotoDotProductFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.gp import LocalGaussianGP, RandomFeatureGP
from tests.gp.strategies import bit_problems, dense_problems
from tests.naive import gp as naive

PROPERTY = settings(derandomize=True, deadline=None, max_examples=40)
METHODS = ("eigh", "cholesky")


def problem(n, m, seed=0, targets=1):
    rng = np.random.default_rng(seed)
    phi = rng.standard_normal((n, m)) / np.sqrt(m)
    y = 5.0 + phi @ rng.standard_normal((m, targets)) + 0.3 * rng.standard_normal((n, targets))
    return phi, y[:, 0] if targets == 1 else y, rng.standard_normal((7, m)) / np.sqrt(m)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "m"), [(80, 20), (40, 64), (300, 100)])
def test_agrees_with_scikit_learn(n, m, method):
    phi, y, new = problem(n, m, seed=n)
    gp = RandomFeatureGP(method=method, signal_variance=None if n > m else 1.0).fit(phi, y)
    kernel = ConstantKernel(gp.signal_variance_[0]) * DotProduct(1e-30, "fixed") + WhiteKernel(
        gp.noise_variance_[0]
    )
    peer = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(phi, y - gp.mean_[0])
    mean, std = peer.predict(new, return_std=True)
    covariance = peer.predict(new, return_cov=True)[1]
    found_mean, found_std = gp.predict(new, return_std=True)
    np.testing.assert_allclose(found_mean, mean + gp.mean_[0], rtol=1e-6)
    np.testing.assert_allclose(found_std, std, rtol=1e-6)
    np.testing.assert_allclose(gp.predict(new, return_cov=True)[1], covariance, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        gp.log_marginal_likelihood_value_, peer.log_marginal_likelihood_value_, rtol=1e-6
    )
    np.testing.assert_allclose(gp.log_marginal_likelihood(), peer.log_marginal_likelihood_value_, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@PROPERTY
@given(dense_problems())
def test_given_hyperparameters_agree_with_textbook(method, data):
    phi, y, new, (mean, signal_variance, noise) = data
    gp = RandomFeatureGP(mean=mean, signal_variance=signal_variance, noise_variance=noise, method=method).fit(
        phi, y
    )
    found_mean, found_std = gp.predict(new, return_std=True, of="f")
    _, joint = gp.predict(new, return_cov=True)
    for t in range(y.shape[1]):
        expected, covariance = naive.posterior(phi, y[:, t], new, mean, signal_variance, noise)
        np.testing.assert_allclose(found_mean.reshape(4, -1)[:, t], expected, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            found_std.reshape(4, -1)[:, t] ** 2, np.diag(covariance), rtol=1e-6, atol=1e-9
        )
        wanted = covariance + noise * np.eye(4)
        np.testing.assert_allclose(joint.reshape(4, 4, -1)[..., t], wanted, rtol=1e-6, atol=1e-8)
        value = naive.log_likelihood(phi, y[:, t], mean, signal_variance, noise)
        np.testing.assert_allclose(gp.log_marginal_likelihood(target=t), value, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(gp.log_marginal_likelihoods_[t], value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@PROPERTY
@given(dense_problems())
def test_gradient_agrees_with_differences(method, data):
    phi, y, _, theta = data
    gp = RandomFeatureGP(mean=0.0, signal_variance=1.0, noise_variance=1.0, method=method).fit(phi, y[:, 0])
    value, gradient = gp.log_marginal_likelihood(*theta, eval_gradient=True)
    numeric = approx_fprime(
        theta, lambda v: naive.log_likelihood(phi, y[:, 0], *v), 1e-8 * np.maximum(1, np.abs(theta))
    )
    np.testing.assert_allclose(value, naive.log_likelihood(phi, y[:, 0], *theta), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(gradient, numeric, rtol=2e-4, atol=2e-4 * (1 + np.abs(numeric).max()))


@PROPERTY
@given(bit_problems(max_rows=30))
def test_packed_bits_agree_with_dense_signs(data):
    bits, m, y = data
    given = {"mean": 0.5, "signal_variance": 2.0, "noise_variance": 0.3}
    packed = RandomFeatureGP(n_components=m, **given).fit(bits, y)
    phi = naive.signs(bits, m) / np.sqrt(m)
    dense = RandomFeatureGP(**given).fit(phi, y)
    scale = 1e-6 * max(1.0, np.abs(y).max())
    for left, right in zip(
        packed.predict(bits, return_std=True), dense.predict(phi, return_std=True), strict=True
    ):
        np.testing.assert_allclose(left, right, atol=scale)
    np.testing.assert_allclose(packed.predict(phi), packed.predict(bits), atol=scale)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("fixed", list(itertools.product([False, True], repeat=3)))
def test_every_combination_of_fixed_hyperparameters_is_optimal(fixed, method):
    phi, y, _ = problem(60, 12, seed=3)
    free = RandomFeatureGP().fit(phi, y)
    at = np.array([free.mean_[0] + 0.2, free.signal_variance_[0] * 1.7, free.noise_variance_[0] * 0.6])
    names = ("mean", "signal_variance", "noise_variance")
    given = {name: at[i] for i, name in enumerate(names) if fixed[i]}
    gp = RandomFeatureGP(method=method, **given).fit(phi, y)
    found = np.array([gp.mean_[0], gp.signal_variance_[0], gp.noise_variance_[0]])
    np.testing.assert_allclose(found[list(fixed)], at[list(fixed)])
    best = naive.log_likelihood(phi, y, *found)
    np.testing.assert_allclose(gp.log_marginal_likelihood_value_, best, rtol=1e-9)
    for i in np.flatnonzero(~np.array(fixed)):
        for step in (-0.03, 0.03):
            other = found.copy()
            other[i] = other[i] + step if i == 0 else other[i] * np.exp(step)
            assert naive.log_likelihood(phi, y, *other) < best
    _, gradient = gp.log_marginal_likelihood(eval_gradient=True)
    steps = np.array([1.0, found[1], found[2]])  # per unit of the mean, and of log variances
    assert np.abs((gradient * steps)[~np.array(fixed)]).max(initial=0.0) < 0.02


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "m"), [(50, 8), (30, 60), (150, 40)])
def test_evidence_reaches_the_best_of_a_grid(n, m, method):
    phi, y, _ = problem(n, m, seed=n + m)
    gp = RandomFeatureGP(method=method).fit(phi, y)
    grid = itertools.product(10.0 ** np.linspace(-2, 1, 25), 10.0 ** np.linspace(-4, 1, 40))
    best = max(
        naive.log_likelihood(phi, y, naive.best_mean(phi, y, signal_variance, noise), signal_variance, noise)
        for signal_variance, noise in grid
    )
    assert gp.log_marginal_likelihood_value_ >= best - 1e-6
    assert gp.log_marginal_likelihood_value_ < best + 1.0


@pytest.mark.parametrize("method", METHODS)
def test_targets_are_independent_and_share_one_gram(method):
    phi, y, new = problem(90, 15, targets=3)
    y = y * [1.0, 100.0, 0.01] + [0.0, 3.0, -1.0]
    together = RandomFeatureGP(method=method).fit(phi, y)
    mean, std = together.predict(new, return_std=True)
    assert mean.shape == std.shape == (7, 3)
    assert together.predict(new, return_cov=True)[1].shape == (7, 7, 3)
    for t in range(3):
        alone = RandomFeatureGP(method=method).fit(phi, y[:, t])
        np.testing.assert_allclose(alone.predict(new, return_std=True), [mean[:, t], std[:, t]], rtol=1e-4)
        np.testing.assert_allclose(
            together.log_marginal_likelihoods_[t], alone.log_marginal_likelihood_value_
        )


def test_partial_fit_equals_fit_to_all_rows():
    phi, y, new = problem(90, 16)
    bits = np.packbits(phi < 0, axis=1, bitorder="little")
    y = np.round(y * 1024) / 1024  # exact in fixed point, whatever the exponent
    whole = RandomFeatureGP().fit(bits, y)
    pieces = RandomFeatureGP()
    for rows in (slice(0, 50), slice(50, 60), slice(60, 90)):
        pieces.partial_fit(bits[rows], y[rows])
    assert np.array_equal(whole.statistics_.gram, pieces.statistics_.gram)
    new_bits = np.packbits(new < 0, axis=1, bitorder="little")
    np.testing.assert_allclose(whole.predict(new_bits), pieces.predict(new_bits), rtol=1e-7)
    np.testing.assert_allclose(whole.noise_variance_, pieces.noise_variance_, rtol=1e-5)


def test_state_rebuilds_the_model_exactly():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, (60, 30))
    gp = RandomFeatureGP(TanimotoMinMaxFeatures(70, random_state=5)).fit(
        counts, counts[:, 0] + rng.random(60)
    )
    state = json.loads(json.dumps(gp.state()))
    again = RandomFeatureGP.from_state(state, gp.arrays())
    for left, right in zip(gp.predict(counts, True), again.predict(counts, True), strict=True):
        assert left.tobytes() == right.tobytes()
    assert again.state() == gp.state()
    small = RandomFeatureGP.from_state(state, gp.arrays(statistics=False))
    assert small.predict(counts).tobytes() == gp.predict(counts).tobytes()
    with pytest.raises(InputError, match="no statistics"):
        small.predict(counts, return_std=True)
    copied = pickle.loads(pickle.dumps(gp))
    assert copied.predict(counts, True)[1].tobytes() == gp.predict(counts, True)[1].tobytes()
    with pytest.raises(InputError, match="version"):
        RandomFeatureGP.from_state({**state, "version": 99}, gp.arrays())


def test_scikit_learn_conventions():
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, (80, 30))
    y = counts[:, :5].sum(axis=1) + 0.1 * rng.standard_normal(80)
    features = TanimotoMinMaxFeatures(256)
    piped = Pipeline([("features", features), ("gp", RandomFeatureGP())]).fit(counts, y)
    direct = RandomFeatureGP(features).fit(counts, y)
    np.testing.assert_allclose(piped.predict(counts), direct.predict(counts), rtol=1e-4)
    assert piped.score(counts, y) == pytest.approx(direct.score(counts, y), rel=1e-4)
    assert direct.score(counts, y) > 0.5
    fresh = clone(direct)
    assert not hasattr(fresh, "weights_")
    assert fresh.get_params()["feature_map__n_components"] == 256
    assert (
        clone(RandomFeatureGP(noise_variance=0.5))
        .set_params(noise_variance=0.25)
        .get_params()["noise_variance"]
        == 0.25
    )


def test_many_blocks_of_rows_give_the_same_as_one(monkeypatch):
    phi, y, _ = problem(50, 9)
    whole = RandomFeatureGP().fit(phi, y)
    monkeypatch.setattr("daskrf.gp.sums.chunks._BLOCK_ENTRIES", 9 * 7)
    blocks = RandomFeatureGP().fit(phi, y)
    for left, right in zip(whole.predict(phi, True), blocks.predict(phi, True), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5)
    assert blocks.predict(phi[:0], True)[1].shape == (0,)


def test_draws_of_a_target_have_its_own_noise():
    rng = np.random.default_rng(0)
    phi = rng.standard_normal((200, 3))
    f = phi @ [1.0, -2.0, 0.5]
    gp = RandomFeatureGP().fit(
        phi, np.column_stack([f + 0.01 * rng.standard_normal(200), f + 2 * rng.standard_normal(200)])
    )
    for target in (0, 1):
        for of in ("f", "y"):
            std = gp.predict(phi[:5], return_std=True, of=of, target=target)[1]
            draws = gp.sample_y(phi[:5], 4_000, of=of, target=target)
            np.testing.assert_allclose(draws.std(axis=1), std, rtol=5 / np.sqrt(2 * 4_000))
        weights = gp.sample_weights(4_000, 0, target)
        expected = gp.predict(np.eye(3), return_std=True, of="f", target=target)[1]
        np.testing.assert_allclose(weights.std(axis=1), expected, rtol=5 / np.sqrt(2 * 4_000))


@pytest.mark.parametrize("packed", [False, True])
def test_samples_before_the_fit_are_from_the_prior(packed: bool) -> None:
    X = np.random.default_rng(6).poisson(0.8, (5, 30))
    feature_map = TanimotoMinMaxFeatures(100, random_state=2)
    options = {"mean": -2.0, "signal_variance": 3.0, "noise_variance": 0.5}
    if packed:
        gp, rows = RandomFeatureGP(n_components=100, **options), feature_map.transform_bits(X)
    else:
        gp, rows = RandomFeatureGP(feature_map, **options), X
    Phi = feature_map.transform(X).astype(float)
    for of, covariance in (("y", 3.0 * Phi @ Phi.T + 0.5 * np.eye(5)), ("f", 3.0 * Phi @ Phi.T)):
        draws = gp.sample_y(rows, 4_000, random_state=5, of=of)
        # Whitened draws are standard normal: five tests at a level of 1e-4 each.
        white = np.linalg.solve(np.linalg.cholesky(covariance), draws + 2.0)
        assert min(kstest(row, "norm").pvalue for row in white) > 1e-4
        assert np.abs((np.cov(white) - np.eye(5)) * np.sqrt(4_000 / 2)).max() < 4.5
    few = gp.sample_y(rows[:3], 2, random_state=5, of="f")
    np.testing.assert_array_equal(few, gp.sample_y(rows, 4, random_state=5, of="f")[:3, :2])
    assert gp.sample_y(rows[:0], 3).shape == (0, 3)


def test_samples_before_the_fit_need_what_the_prior_needs() -> None:
    X = np.random.default_rng(6).poisson(0.8, (5, 30))
    free = RandomFeatureGP(TanimotoMinMaxFeatures(100))
    # 4,000 draws: the standard error of a standard deviation of 1 is 0.011.
    assert np.abs(free.sample_y(X, 4_000, of="f").std(axis=1) - 1.0).max() < 0.06
    with pytest.raises(InputError, match="samples of y from the prior need the noise variance"):
        free.sample_y(X)
    with pytest.raises(InputError, match=r"only a part of the prior.* ExactGP"):
        RandomFeatureGP(NystromFeatures(3).fit(X)).sample_y(X, of="f")
    with pytest.raises(InputError, match="not fitted"):
        RandomFeatureGP(TanimotoDotProductFeatures(64)).sample_y(X, of="f")
    with pytest.raises(NotFittedError):
        LocalGaussianGP(LocalGaussianFeatures()).sample_y(X, of="f")
    two = RandomFeatureGP(TanimotoMinMaxFeatures(100), mean=[0.0, 50.0])
    for target in (-1, 2):
        with pytest.raises(InputError, match=f"there are 2 targets, .* none is number {target}"):
            two.sample_y(X, of="f", target=target)
    assert two.sample_y(X, 3, of="f", target=1).min() > 25.0
