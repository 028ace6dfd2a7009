"""Several targets that learn from each other's labels, against dense matrices written entry by entry."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.gp import CoregionalizedGP, ExactGP, model_from_state
from daskrf.gp.processes.coregionalized import some_labels
from daskrf.gp.processes.jointevidence import FixedParameters, JointEvidence, _Search
from daskrf.gp.validation.intervals import residuals_of_targets
from daskrf.gp.validation.leaveoneout import leave_one_out
from daskrf.kernels import Coregionalized, TanimotoMinMax
from daskrf.kernels.coregionalized import with_target
from tests.naive.gp import posterior_of_targets

KERNEL = TanimotoMinMax()
NEW = 7


def invented(seed, n=25, n_targets=3, rank=None, gaps=0.5):
    """Return rows, repeated ones too, labels with gaps of which the last target has few, and parameters."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(0.7, (n + NEW, 9))
    X[n // 2] = X[n // 2 - 1]  # neighbours share kernel values
    X[n - 1] = X[0]
    L = rng.standard_normal((n_targets, rank or n_targets))
    L /= np.linalg.norm(L, axis=1)[:, None]
    R = L @ L.T
    R = (R + R.T) / 2
    np.fill_diagonal(R, 1.0)
    parameters = {
        "correlation": R,
        "mean": rng.standard_normal(n_targets),
        "signal_variance": rng.uniform(0.3, 4.0, n_targets),
        "noise_variance": rng.uniform(0.05, 0.5, n_targets),
    }
    y = 3 * rng.standard_normal((n, n_targets))
    y[rng.random(y.shape) < gaps] = np.nan
    y[2:, -1] = np.nan
    y[:2, -1] = 1.0, 2.0
    y[3] = rng.standard_normal(n_targets)
    y[3, -1] = np.nan
    y[np.isnan(y).all(axis=1), 0] = 0.5
    return X, y, parameters


def dense(X, y, parameters, new):
    """Return the oracle's mean, covariance and evidence."""
    size = np.sqrt(parameters["signal_variance"])
    labels = [(i, t, y[i, t]) for i, t in np.ndindex(y.shape) if np.isfinite(y[i, t])]
    return posterior_of_targets(
        KERNEL(X),
        labels,
        new,
        parameters["mean"],
        parameters["correlation"] * np.outer(size, size),
        parameters["noise_variance"],
    )


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**20),
    n_targets=st.integers(2, 5),
    rank=st.sampled_from([1, None]),
    gaps=st.sampled_from([0.0, 0.3, 0.8]),
)
def test_predictions_and_evidence_are_those_of_dense_matrices(seed, n_targets, rank, gaps):
    X, y, parameters = invented(seed, n_targets=n_targets, rank=rank, gaps=gaps)
    n, T, noise = len(y), n_targets, parameters["noise_variance"]
    gp = CoregionalizedGP(KERNEL, **parameters).fit(X[:n], y)
    new = [(n + i, t) for i in range(NEW) for t in range(T)]
    mean, covariance, evidence = dense(X, y, parameters, new)
    mean, joint = mean.reshape(NEW, T), covariance.reshape(NEW, T, NEW, T)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(evidence, rel=1e-9, abs=1e-8)
    predicted, std_f, std_y = gp.predict(X[n:], return_std=True, of="both")
    variance = np.einsum("itit->it", joint)
    np.testing.assert_allclose(predicted, mean, atol=1e-8)
    np.testing.assert_allclose(gp.predict(X[n:]), mean, atol=1e-8)
    np.testing.assert_allclose(std_f**2, variance, atol=1e-8)
    np.testing.assert_allclose(std_y**2, variance + noise, atol=1e-8)
    for t in range(T):
        alone, cov = gp.predict(X[n:], return_cov=True, target=t, of="f")
        np.testing.assert_allclose(alone, mean[:, t], atol=1e-8)
        np.testing.assert_allclose(cov, joint[:, t, :, t], atol=1e-8)
    w = np.linspace(-1.0, 2.0, T)
    total, cov = gp.of_sum(tuple(range(T)), tuple(w)).predict(X[n:], return_cov=True)
    np.testing.assert_allclose(total, mean @ w, atol=1e-8)
    summed = np.einsum("s,isjt,t->ij", w, joint, w) + w**2 @ noise * np.eye(NEW)
    np.testing.assert_allclose(cov, summed, atol=1e-8)


def test_targets_without_correlations_are_separate_processes():
    X, y, parameters = invented(1, gaps=0.3)
    X = X[: len(y)]
    parameters["correlation"] = np.eye(3)
    gp, evidence = CoregionalizedGP(KERNEL, **parameters).fit(X, y), 0.0
    for t in range(3):
        there = np.isfinite(y[:, t])
        values = {name: parameters[name][t] for name in ("mean", "signal_variance", "noise_variance")}
        alone = ExactGP(KERNEL, **values).fit(X[there], y[there, t])
        for ours, theirs in zip(
            gp.predict(X, True, target=t, of="both"), alone.predict(X, True, of="both"), strict=True
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-9)
        evidence += alone.log_marginal_likelihood_value_
    assert gp.log_marginal_likelihood_value_ == pytest.approx(evidence)


def test_conjugate_gradients_agree_with_the_factorization():
    X, y, parameters = invented(2, n=60, gaps=0.3)
    X, new = X[:60], X[60:]
    exact = CoregionalizedGP(KERNEL, **parameters).fit(X, y)
    options = {"solver": "cg", "n_draws": 64, "n_features": 1024, "tolerance": 1e-4}
    gp = CoregionalizedGP(KERNEL, **parameters, **options).fit(X, y)
    assert gp.solver_ == "cg"
    np.testing.assert_allclose(gp.predict(new), exact.predict(new), atol=2e-3)
    std, expected = (each.predict(new, True, of="f")[1] for each in (gp, exact))
    np.testing.assert_allclose(std, expected, rtol=0.5)  # 64 samples: 9 %, plus the features'
    for t in range(3):
        assert gp.draw(5, t).predict(new).shape == (NEW,)
    for model in (gp, exact):
        again = model_from_state(json.loads(json.dumps(model.state())), model.arrays())
        for ours, theirs in zip(again.predict(new, True), model.predict(new, True), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(
            again.draw(3, 1).predict(new), model.draw(3, 1).predict(new), rtol=1e-4, atol=1e-5
        )
    small = model_from_state(json.loads(json.dumps(gp.state())), gp.arrays(statistics=False))
    assert small.means_only
    np.testing.assert_allclose(small.predict(new), gp.predict(new), atol=1e-5)
    with pytest.raises(InputError, match="means only"):
        small.predict(new, return_std=True)


def test_posterior_samples_of_targets_correlate_as_the_targets_do():
    """The empirical covariance of 1,000 joint samples lies within 5 standard errors of the oracle's."""
    X, y, parameters = invented(3, n_targets=2, rank=1, gaps=0.3)
    n, n_draws, n_features = len(y), 1000, 2048
    gp = CoregionalizedGP(KERNEL, n_features=n_features, **parameters).fit(X[:n], y)
    new = [(n + i, t) for t in range(2) for i in range(3)]
    mean, covariance, _ = dense(X, y, parameters, new)
    size = np.sqrt(np.outer(covariance.diagonal(), covariance.diagonal()))
    joint = gp.sample_y(X[n : n + 3], n_draws, of="f").transpose(1, 0, 2).reshape(6, n_draws)
    weights = gp.of_target(0).weights_of_draws(n_draws, 1)
    functions = [gp.of_target(t).drawn(weights, 1) for t in range(2)]
    pathwise = np.concatenate([f.predict(X[n : n + 3]) for f in functions])
    total = gp.of_sum((0, 1), (1.0, -2.0)).drawn(weights, 1).predict(X[n : n + 3])
    np.testing.assert_allclose(total, pathwise[:3] - 2 * pathwise[3:], rtol=1e-3, atol=1e-3)
    for draws, features in ((joint, 0.0), (pathwise, 3.0 / np.sqrt(n_features))):
        error = 5.0 / np.sqrt(n_draws)
        assert (abs(np.cov(draws) - covariance) < (np.sqrt(2) * error + features) * size + 1e-3).all()
        assert (abs(draws.mean(axis=1) - mean) < error * np.sqrt(covariance.diagonal())).all()


def test_the_gradient_of_the_evidence_is_its_slope():
    X, y, _ = invented(4, gaps=0.3)
    row, target = np.nonzero(np.isfinite(y))
    evidence = JointEvidence(KERNEL(X[row]), target, y[row, target])
    search = _Search(evidence, FixedParameters(), correlated=True)
    x = search.begin() + 0.3 * np.random.default_rng(0).standard_normal(len(search.bounds))
    slopes = [(search.loss(x + d)[0] - search.loss(x - d)[0]) / 2e-5 for d in 1e-5 * np.eye(len(x))]
    np.testing.assert_allclose(search.loss(x)[1], slopes, rtol=1e-5, atol=1e-6)
    value, *_, mean = evidence(np.eye(3), np.ones(3))
    parameters = {"mean": mean, "signal_variance": np.ones(3), "noise_variance": np.ones(3)}
    expected = dense(X, y, {**parameters, "correlation": np.eye(3)}, [])[2]
    assert value == pytest.approx(expected)
    for t, step in itertools.product(range(3), (-0.01, 0.01)):  # the means maximize it
        assert evidence(np.eye(3), np.ones(3), mean + step * np.eye(3)[t])[0] < value


def test_correlations_are_found_and_few_labels_claim_none():
    rng = np.random.default_rng(5)
    X = rng.poisson(1.0, (150, 12))
    root = np.linalg.cholesky(KERNEL(X) + 1e-9 * np.eye(150))
    R = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]])
    f = root @ rng.standard_normal((150, 3)) @ np.linalg.cholesky(R).T
    y = [1.0, -2.0, 300.0] + f * [1.0, 2.0, 50.0] + rng.standard_normal((150, 3)) * [0.2, 0.4, 10.0]
    y[rng.random(y.shape) < 0.3] = np.nan
    y[3:, 2] = np.nan
    keep = np.isfinite(y).any(axis=1)
    gp = CoregionalizedGP(KERNEL).fit(X[keep], y[keep])
    assert gp.correlation_[0, 1] == pytest.approx(0.9, abs=0.15)
    assert abs(gp.correlation_[0, 2]) < 0.9
    for t in range(2):
        there = np.isfinite(y[:, t])
        alone = ExactGP(KERNEL).fit(X[there], y[there, t])
        for name in ("mean_", "signal_variance_", "noise_variance_"):
            np.testing.assert_allclose(getattr(gp, name)[t], getattr(alone, name)[0], rtol=1e-5)
    few = np.arange(4)
    y = rng.standard_normal((4, 2))
    assert abs(CoregionalizedGP(KERNEL).fit(X[few], y).correlation_[0, 1]) < 0.99
    fixed = CoregionalizedGP(KERNEL, mean=0.0, noise_variance=[0.5, 2.0]).fit(X[few], y)
    assert fixed.mean_.tolist() == [0.0, 0.0]
    np.testing.assert_allclose(fixed.noise_variance_, [0.5, 2.0])


def test_a_molecule_left_out_is_left_out_of_all_targets():
    X, y, parameters = invented(6, gaps=0.3)
    X = X[: len(y)]
    gp = CoregionalizedGP(KERNEL, **parameters).fit(X, y)
    residuals = residuals_of_targets(gp)
    for t in range(3):
        left, sizes = leave_one_out(gp.of_target(t)), {}
        expected, row = [], np.flatnonzero(np.isfinite(y[:, t]))
        np.testing.assert_allclose(left.y, y[row, t])
        for i in row:
            same = np.all(X[i] == X, axis=1)
            others = np.where(same[:, None], np.nan, y)
            mean, covariance, _ = dense(X, others, parameters, [(i, t)])
            noise = parameters["noise_variance"][t]
            expected.append((mean[0], np.sqrt(covariance[0, 0] + noise)))
            mine = np.isfinite(y[:, t]) & same
            std = np.sqrt(covariance[0, 0] + noise / mine.sum())
            sizes[X[i].tobytes()] = abs(y[mine, t].mean() - mean[0]) / std
        np.testing.assert_allclose(np.column_stack([left.mean, left.std]), expected, atol=1e-8)
        np.testing.assert_allclose(residuals[t], sorted(sizes.values()), atol=1e-8)


def test_some_labels_are_of_the_molecules_with_most():
    y = np.full((40, 3), np.nan)
    y[:, 0], y[10:20, 1], y[12:14, 2] = 1.0, 1.0, 1.0
    row, target = some_labels(y, 15)
    assert np.bincount(target).tolist() == [7, 6, 2]
    assert set(row[target == 2]) == {12, 13}
    assert set(row[target == 1]) <= set(row[target == 0])
    assert np.array_equal(np.array(some_labels(y, 999)), np.nonzero(np.isfinite(y)))


def test_bad_input_is_refused():
    X, y, parameters = invented(7)
    X = X[: len(y)]
    gp = CoregionalizedGP(KERNEL)
    empty, lone = y.copy(), y.copy()
    empty[3], lone[:, 2] = np.nan, np.nan
    lone[np.isnan(lone).all(axis=1), 0] = 1.0
    for rows, labels, message in (
        (X, y[:, 0], "a column for each of several targets"),
        (X, empty, "no label of any target"),
        (X, lone, "Target 2 has no label"),
        (X, np.where(np.isnan(y), np.inf, y), "infinite"),
        (X[1:], y, "must be the same"),
        (-X, y, "negative"),
    ):
        with pytest.raises(InputError, match=message):
            gp.fit(rows, labels)
    for name, value, message in (
        ("correlation", np.ones((2, 2)), r"shape \(3, 3\)"),
        ("correlation", 3 * np.ones((3, 3)) - 2 * np.eye(3), "positive semidefinite"),
        ("noise_variance", [1.0, 0.0, 1.0], "positive"),
        ("mean", [0.0, 1.0], "one for each of 3 targets"),
    ):
        with pytest.raises(InputError, match=message):
            CoregionalizedGP(KERNEL, **{name: value}).fit(X, y)
    exact = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 1e-30, "correlation": np.ones((3, 3))}
    with pytest.raises(InputError, match="not positive definite to within rounding"):
        CoregionalizedGP(KERNEL, **exact).fit(X, y)
    fitted = CoregionalizedGP(KERNEL, **parameters).fit(X, y)
    with pytest.raises(InputError, match="expecting 9 features"):
        fitted.predict(X[:, :5])
    kernel = Coregionalized(KERNEL, [[1.0], [2.0]])
    for target in (-1, 2, 0.5):
        with pytest.raises(InputError, match="row 1 must hold its target, a number from 1 to 2"):
            kernel(np.column_stack([X[:2], [1, target + 1]]))
    assert kernel(with_target(X[:2], [0, 1])).shape == (2, 2)
