"""Variances from posterior samples: their distribution, their bounds, and odd posteriors."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from daskrf.errors import InputError
from daskrf.features import LandmarkFeatures
from daskrf.gp import RandomFeatureGP, SparseGP
from daskrf.gp.processes.sampledvariances import relative_error, samples_for
from tests.naive import gp as naive

SEEDS = 300


def bits(n, m, seed):
    return np.random.default_rng(seed).integers(0, 256, (n, m // 8), dtype=np.uint8)


def signs(packed):
    features = np.unpackbits(packed, axis=1, bitorder="little").astype(float)
    return (1 - 2 * features) / np.sqrt(features.shape[1])


def labels(phi, seed, noise=0.3):
    rng = np.random.default_rng(seed)
    return phi @ rng.standard_normal(phi.shape[1]) + noise * rng.standard_normal(len(phi))


@pytest.mark.parametrize("n_samples", [1, 5, 40])
def test_the_estimates_of_a_row_have_the_beta_distribution(n_samples):
    """At a level of 1e-4 for each number of samples; the mean within 4 standard errors."""
    m = 64
    rows = bits(100, m, 0)
    gp = RandomFeatureGP(noise_variance=0.1).fit(rows, labels(signs(rows), 1))
    row = bits(1, m, 2)
    exact = float(gp.predict(row, return_std=True, of="f")[1][0])
    shares = np.empty(SEEDS)
    for seed in range(SEEDS):
        sampled = gp.sampled_variances(n_samples, seed)
        estimate = float(gp.with_sampled({0: sampled}).predict(row, return_std=True, of="f")[1][0])
        shares[seed] = estimate / exact
    unbiased = shares.mean() - 1
    assert abs(unbiased) < 4 * sampled.error / np.sqrt(SEEDS)
    assert shares.std() == pytest.approx(sampled.error, rel=4 / np.sqrt(SEEDS))
    law = stats.beta(n_samples / 2, (m - n_samples) / 2)
    scale = np.sqrt(law.expect(lambda x: x)) / np.sqrt(1 + sampled.error**2)  # the mean of the root
    assert stats.kstest((shares * scale) ** 2, law.cdf).pvalue > 1e-4


def test_the_number_of_samples_meets_the_error():
    for m in (1, 7, 64, 4096, 100_000):
        for error in (1e-9, 0.01, 0.03, 0.3, 0.9):
            n = samples_for(error, m)
            assert 1 <= n <= m
            assert relative_error(n, m) <= error
    assert relative_error(128, 10**9) == pytest.approx(1 / np.sqrt(256), rel=0.01)


POSTERIORS = {
    "next to no noise": {"n": 300, "noise": 1e-9},
    "much noise": {"n": 300, "noise": 1e3},
    "one label": {"n": 1},
    "many more labels than features": {"n": 1500},
    "as many labels as features": {"n": 320},
    "labels that repeat": {"n": 120, "repeat": 3},
    "few labels, little noise": {"n": 20, "noise": 1e-8, "m": 512},
    "few labels": {"n": 40, "m": 512},
}


@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("one_bit", [True, False])
def test_bounds_contain_the_exact_value(name, one_bit):
    """Labelled rows and others; each bound is wrong with a probability of 1e-6."""
    options = {"n": 0, "noise": 0.1, "repeat": 1, "m": 320} | POSTERIORS[name]
    packed = np.repeat(bits(options["n"], options["m"], 3), options["repeat"], axis=0)
    phi, y = signs(packed), np.random.default_rng(4).standard_normal(len(packed))
    gp = RandomFeatureGP(mean=0.0, signal_variance=2.0, noise_variance=options["noise"])
    gp.fit(packed if one_bit else phi, y)
    new = np.concatenate([packed[:30], bits(200, options["m"], 5)])
    rows = new if one_bit else signs(new)
    covariance = naive.posterior(phi, y, signs(new), 0.0, 2.0, options["noise"])[1]
    exact = np.sqrt(np.maximum(covariance.diagonal(), 0.0))
    low, high = gp.std_bounds(rows, None)
    assert (low == 0).all()
    assert (exact <= high).all()
    sampled = gp.sampled_variances(64)
    low, high = gp.std_bounds(rows, sampled)
    known = exact > 1e-6  # the oracle subtracts numbers of the size of 1
    assert (low[known] <= exact[known]).all()
    assert (exact[known] <= high[known]).all()
    assert (high <= np.sqrt(2.0) * 1.001).all()
    estimate = gp.with_sampled({0: sampled}).predict(rows, return_std=True, of="f")[1]
    errors = estimate[known] / exact[known] - 1
    assert np.sqrt(np.mean(errors**2)) < 2 * sampled.error
    whole = gp.sampled_variances(options["m"])
    precise = gp.with_sampled({0: whole}).predict(rows, return_std=True, of="f")[1]
    np.testing.assert_allclose(precise, gp.predict(rows, return_std=True, of="f")[1], rtol=1e-3)


def test_each_target_has_its_samples_and_needs_no_statistics():
    rows = bits(500, 128, 6)
    phi = signs(rows)
    gp = RandomFeatureGP().fit(rows, np.column_stack([labels(phi, 7, 0.1), labels(phi, 8, 2.0)]))
    approximate = gp.with_sampled({t: gp.sampled_variances(128, target=t) for t in range(2)})
    approximate.statistics_ = None
    approximate = pickle.loads(pickle.dumps(approximate))
    for value, exact in zip(
        approximate.predict(rows, return_std=True, of="both"),
        gp.predict(rows, return_std=True, of="both"),
        strict=True,
    ):
        np.testing.assert_allclose(value, exact, rtol=1e-4)


def test_bounds_include_what_landmarks_leave_out():
    X = np.random.default_rng(9).poisson(1.0, (300, 12))
    gp = SparseGP(LandmarkFeatures(20)).fit(X, X @ np.arange(12.0))
    low, high = gp.std_bounds(X, gp.sampled_variances(10))
    exact = gp.predict(X, return_std=True, of="f")[1]
    assert ((low <= exact) & (exact <= high)).all()
    assert (exact <= gp.std_bounds(X, None)[1]).all()


def test_no_samples_are_refused():
    rows = bits(50, 64, 10)
    gp = RandomFeatureGP(noise_variance=0.1).fit(rows, labels(signs(rows), 11))
    with pytest.raises(InputError, match="at least one posterior sample"):
        gp.sampled_variances(0)


@pytest.mark.parametrize("m", [100, 512])
def test_many_rows_have_the_variances_of_few(m):
    """Many rows of bits are multiplied by tables, few by a product of matrices."""
    rows = np.random.default_rng(12).integers(0, 256, (1030, -(-m // 8)), dtype=np.uint8)
    rows[:, -1] &= 255 >> -m % 8
    gp = RandomFeatureGP(noise_variance=0.1, n_components=m)
    gp.fit(rows[:200], np.random.default_rng(13).standard_normal(200))
    sampled = gp.sampled_variances(70)
    for many, few in zip(sampled.bounds(rows, m), sampled.bounds(rows[:40], m), strict=True):
        np.testing.assert_allclose(many[:40], few, rtol=1e-5)
    surer = replace(sampled, missed=1e-9)
    assert (surer.bounds(rows, m)[0] < sampled.bounds(rows, m)[0]).all()
    assert (surer.bounds(rows, m)[1] > sampled.bounds(rows, m)[1]).all()
