"""A metric that is learned from labels: what it finds, and where it finds nothing."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf.errors import InputError
from daskrf.features import LandmarkFeatures, MeanFeatures, RandomFourierFeatures
from daskrf.gp import ExactGP, MetricChoice, RandomFeatureGP, choose_length_scale, choose_metric
from daskrf.gp.choice.metricchoice import metric_bytes
from daskrf.kernels import Gaussian, MetricGaussian
from tests.jit import jit_disabled
from tests.kernels.values import METRIC
from tests.memory import least_peak

compiled_only = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")


def two_sums(seed: int, n: int = 500, d: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return counts, labels that depend on two sums over columns, and the weights of both sums."""
    rng = np.random.default_rng(seed)
    X = rng.poisson(1.0, (n, d)).astype(np.float64)
    weights = rng.normal(size=(d, 2)) / np.sqrt(d)
    sums = X @ weights
    y = np.sin(2.0 * sums[:, 0]) + np.square(sums[:, 1] - sums[:, 1].mean())
    return X, y + 0.05 * rng.normal(size=n), weights


def r2(kernel: object, X: np.ndarray, y: np.ndarray, n: int) -> float:
    gp = ExactGP(kernel).fit(X[:n], y[:n])
    return 1.0 - float(np.var(y[n:] - gp.predict(X[n:])) / np.var(y[n:]))


@pytest.mark.parametrize("seed", range(4))
def test_labels_that_depend_on_two_sums(seed: int) -> None:
    X, y, weights = two_sums(seed)
    found = choose_metric(X[:350], y[:350], random_state=seed)
    assert found.rounds > 0
    usual, *_ = found.trials
    assert found.trials[found.rounds].r2 > usual.r2 + 0.1
    best = max(r2(Gaussian(length), X, y, 350) for length in (3.0, 6.0, 12.0, 24.0))
    assert r2(found.kernel, X, y, 350) > best + 0.1
    # Most of the metric lies in the plane of the two sums.
    learned = found.kernel.learned
    plane, _ = np.linalg.qr(weights)
    inside = np.square(plane.T @ learned.directions).sum()
    assert inside > 0.5 * np.square(learned.directions).sum()


@compiled_only
@pytest.mark.parametrize("seed", range(4))
def test_intervals_hold_labels_that_the_metric_has_not_seen(seed: int) -> None:
    """By the noise of the largest evidence they hold fewer: a metric makes its own labels look exact."""
    rng = np.random.default_rng(seed)
    X, weights = rng.poisson(0.5, (700, 60)), rng.normal(size=(60, 2)) / np.sqrt(60)
    sums = X @ weights
    y = np.tanh(2.0 * sums[:, 0]) * (1.0 + sums[:, 1])
    found = choose_metric(X[:300], y[:300])
    assert found.rounds > 0
    held = []
    for noise in (found.noise[0] * np.var(y[:300]), None):
        gp = RandomFeatureGP(RandomFourierFeatures(found.kernel, 512), noise_variance=noise)
        mean, std = gp.fit(X[:300], y[:300]).predict(X[300:], return_std=True)
        held.append(np.mean(np.abs(y[300:] - mean) < 1.96 * std))
    assert 0.9 < held[0] < 0.99
    assert held[1] < 0.85


def test_conjugate_gradients_take_a_metric() -> None:
    X, y, _ = two_sums(0, 400)
    kernel = choose_metric(X[:300], y[:300]).kernel
    given = {"noise_variance": 0.5, "signal_variance": 5.0}
    exact, iterated = (
        ExactGP(kernel, solver=solver, n_draws=64, **given).fit(X[:300], y[:300]).predict(X[300:], True)
        for solver in ("cholesky", "cg")
    )
    np.testing.assert_allclose(iterated[0], exact[0], atol=0.005)
    assert np.abs(np.log(iterated[1] / exact[1])).max() < 0.3


def labels(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 8))
    if kind == "noise":
        return X, rng.normal(size=400)
    K = Gaussian(3.0)(X) + 1e-8 * np.eye(400)
    return X, np.linalg.cholesky(K) @ rng.normal(size=400) + 0.05 * rng.normal(size=400)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["noise", "draw of a process with usual distances"])
def test_labels_that_no_metric_explains_better(kind: str, seed: int) -> None:
    found = choose_metric(*labels(kind, seed))
    assert found.rounds == 0
    assert len(found.trials) == 3
    assert (found.kernel.metric, found.noise) == ("", ())
    assert str(found).count("  taken") == 1
    assert str(found).endswith(f"took the Gaussian kernel (length scale {found.kernel.length_scale:g})")


def test_it_is_the_same_again_and_of_sparse_rows() -> None:
    X, y, _ = two_sums(0, 200, 20)
    told: list[str] = []
    found = choose_metric(X, y, on_trial=told.append)
    words = ["usual distances", "a metric learned in 1 round", "a metric learned in 2 rounds"]
    assert told[:3] == words
    assert told[3:] == words[: found.rounds + 1]
    for same in (X, sp.csr_matrix(X), sp.coo_array(X), X.astype(np.uint8)):
        again = choose_metric(same, y[:, None])
        assert again == found
    far = sp.csr_matrix(X)
    far = sp.csr_matrix((far.data, far.indices * 70_000_000, far.indptr), shape=(200, 2**32))
    wide = choose_metric(far, y)
    assert wide.trials == found.trials
    assert wide.kernel.learned.columns.tolist() == [70_000_000 * i for i in range(20)]
    assert choose_metric(X, y, random_state=1) != found


def test_the_choice_is_kept_as_text_and_shown() -> None:
    X, y, _ = two_sums(1, 200, 20)
    found = choose_metric(X, y)
    again = MetricChoice.from_state(json.loads(json.dumps(found.state())))
    assert again == found
    assert again.kernel.metric == found.kernel.metric
    shown = str(found)
    assert "metrics tried, 40 of 200 labels left out" in shown
    assert shown.count("  taken") == 1
    assert f"  learned in {found.rounds} round" in shown
    rank = found.kernel.learned.directions.shape[1]
    assert f"  took the {found.kernel.words()}\n" in shown
    assert found.kernel.words().endswith(f"in a learned metric of {rank} directions")
    assert shown.endswith(f"left out: {100 * found.noise[0]:.2g} % of the variance of the labels")
    assert max(map(len, shown.splitlines())) < 90


def test_columns_of_any_offset_and_scale() -> None:
    """Dates and masses: the metric is that of the differences."""
    X, y, _ = two_sums(2, 200, 12)
    found = choose_metric(X, y)
    moved = choose_metric(X + 1e6, y)
    assert moved.rounds == found.rounds > 0
    np.testing.assert_allclose([t.r2 for t in moved.trials], [t.r2 for t in found.trials], atol=1e-6)
    np.testing.assert_allclose(moved.kernel(X), found.kernel(X), atol=1e-4)
    large = choose_metric(1e6 * X, y)
    np.testing.assert_allclose(large.kernel(1e6 * X), found.kernel(X), atol=1e-4)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        (np.eye(49), np.arange(49.0)),
        (np.eye(80), np.full(80, 3.0)),
        (np.eye(80), np.where(np.arange(80) < 31, np.nan, np.arange(80))),
        (np.eye(80), np.full(80, np.nan)),
        (np.eye(80), np.full((80, 2), [np.nan, 1.0])),
        (np.full((80, 3), [0.1, 0.0, 1e9 / 3]), np.arange(80.0)),
        (np.zeros((80, 3)), np.arange(80.0)),
        (np.zeros((0, 3)), np.zeros(0)),
    ],
)
def test_too_few_labels_or_nothing_that_differs(X: np.ndarray, y: np.ndarray) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = choose_metric(X, y)
    assert (found.rounds, found.trials, found.kernel.metric) == (0, (), "")
    assert "too few or too alike to learn a metric: took the Gaussian kernel" in str(found)
    assert MetricChoice.from_state(json.loads(json.dumps(found.state()))) == found


def test_targets_with_gaps_share_a_metric() -> None:
    X, y, _ = two_sums(3, 260, 20)
    nothing, alike = np.full(260, np.nan), np.where(np.arange(260) % 2, 1.0, np.nan)
    gaps = np.where(np.arange(260) % 3, -2.0 * y + 7.0, np.nan)
    empty = np.arange(260) >= 250
    both = np.column_stack([y, gaps, nothing, alike])
    both[empty] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = choose_metric(X, both)
    assert found.rounds > 0
    assert found.n_rows == 250
    assert len(found.noise) == 4
    # Targets that say nothing, and units, change nothing.
    for same in (both[~empty, :2], both[~empty, :2] * [1e6, 1.0]):
        again = choose_metric(X[~empty], same)
        assert again.rounds == found.rounds
        assert again.noise == found.noise[:2]
        np.testing.assert_allclose(again.kernel(X), found.kernel(X), atol=1e-5)


def test_labels_that_differ_in_few_rows_only() -> None:
    y = np.zeros(100)
    for changed in range(0, 100, 9):
        y[changed] = 1.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = choose_metric(np.random.default_rng(0).poisson(1.0, (100, 6)), y)
        assert all(np.isfinite(trial.log_probability) for trial in found.trials)


def test_bad_input() -> None:
    X, y = np.eye(60), np.arange(60.0)
    with pytest.raises(InputError, match=r"60 rows, but y has the shape \(59,\)"):
        choose_metric(X, y[1:])
    with pytest.raises(InputError, match="infinite"):
        choose_metric(X, np.where(y > 50, np.inf, y))
    with pytest.raises(InputError, match="row 3, column 2 is not a finite number"):
        choose_metric(np.where((np.arange(60)[:, None] == 3) & (np.arange(60) == 2), np.nan, X), y)
    for feature_map in (
        RandomFourierFeatures(MetricGaussian("auto", "auto"), 16),
        LandmarkFeatures(4, kernel=MetricGaussian("auto", "auto")),
        MeanFeatures((1, 2), RandomFourierFeatures(MetricGaussian("auto", "auto")), columns=1),
    ):
        with pytest.raises(InputError, match="The metric is not known yet"):
            choose_length_scale(feature_map, X, y)
    given = RandomFourierFeatures(MetricGaussian("auto", METRIC.text), 16)
    assert choose_length_scale(given, X, y, n_trials=2).feature_map.kernel.metric == METRIC.text


@pytest.mark.parametrize(("n", "n_columns"), [(300, 3000), (900, 200)])
def test_it_takes_the_predicted_memory(n: int, n_columns: int) -> None:
    X = sp.random(n, n_columns, 0.05, random_state=0, format="csr")
    y = np.asarray(X[:, : n_columns // 9].sum(axis=1)).ravel()
    assert least_peak(lambda: choose_metric(X, y)) < metric_bytes(n)
