"""A weighted sum of targets is predicted and drawn as the targets are, each by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from daskrf.gp import ExactGP, RandomFeatureGP, SeparateGP
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import WeightedSum, joint_prediction, values_of
from daskrf.kernels import Gaussian

SUM = WeightedSum((2, 0), (-0.5, 3.0), "3 a - 0.5 c")


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X, new = rng.standard_normal((80, 3)), rng.standard_normal((7, 3))
    y = np.column_stack([X[:, 0], X[:, 1], 40 * X[:, 2]])
    return X, y + 0.3 * rng.standard_normal(y.shape), new


def features() -> Any:
    X, y, _ = data()
    return RandomFeatureGP().fit(X, y)


def separate() -> Any:
    X, y, _ = data()
    parts = [RandomFeatureGP().fit(X[:60], y[:60, [0]]), RandomFeatureGP().fit(X, y[:, 1:])]
    return SeparateGP(parts, [[0], [1, 2]])


def exact(solver: str, first: str | None = None) -> Any:
    X, y, _ = data()
    solvers = [first or solver, solver, solver]
    fits = [
        ExactGP(Gaussian(1.5), solver=own, n_draws=6, n_features=64).fit(X, y[:, t])
        for t, own in enumerate(solvers)
    ]
    return SeparateGP(fits, [[0], [1], [2]])


MODELS: dict[str, Callable[[], Any]] = {
    "features": features,
    "separate": separate,
    "factor": lambda: exact("cholesky"),
    "cg": lambda: exact("cg"),
    "both": lambda: exact("cg", first="cholesky"),
}


@pytest.mark.parametrize("name", MODELS)
def test_means_and_variances_are_those_of_the_targets(name: str) -> None:
    gp, (_, _, new) = MODELS[name](), data()
    process, own = process_of(gp, SUM)
    parts = [gp.predict(new, True, of="both", target=t) for t in SUM.targets]
    w = np.array(SUM.weights)
    mean, std, std_y = process.predict(new, True, of="both", target=own)
    np.testing.assert_allclose(mean, w[0] * parts[0][0] + w[1] * parts[1][0], rtol=1e-9)
    for found, place in ((std, 1), (std_y, 2)):
        want = np.sqrt(w[0] ** 2 * parts[0][place] ** 2 + w[1] ** 2 * parts[1][place] ** 2)
        np.testing.assert_allclose(found, want, rtol=1e-9)
    means = [gp.predict(new, target=t) for t in SUM.targets]
    np.testing.assert_allclose(process.predict(new), w[0] * means[0] + w[1] * means[1], rtol=1e-9)
    np.testing.assert_allclose(process.predict(new, True, of="f")[1], std, rtol=1e-9)
    joint_mean, covariance = process.predict(new, return_cov=True, of="f")
    np.testing.assert_allclose(joint_mean, mean, rtol=1e-4)
    each = [joint_prediction(*process_of(gp, t), new)[1] for t in SUM.targets]
    np.testing.assert_allclose(covariance, w[0] ** 2 * each[0] + w[1] ** 2 * each[1], rtol=1e-9)
    noisy = process.predict(new, return_cov=True)[1]
    np.testing.assert_allclose(np.diag(noisy - covariance), process.noise_variance_[0], rtol=1e-6)
    assert process.mean_[0] == pytest.approx(w @ gp.mean_[list(SUM.targets)])
    assert process.noise_variance_[0] == pytest.approx(w**2 @ gp.noise_variance_[list(SUM.targets)])


@pytest.mark.parametrize("name", MODELS)
def test_draws_are_sums_of_draws_of_the_targets(name: str) -> None:
    gp, (_, _, new) = MODELS[name](), data()
    process, own = process_of(gp, SUM)
    n = process.most_draws() or 6
    together = process.drawn(process.weights_of_draws(n, 1, own), 1, own).predict(new)
    alone = process.drawn(process.weights_of_draw(1, own), 1, own).predict(new)
    assert together.shape == (7, n)
    np.testing.assert_allclose(together[:, 0], alone, atol=1e-4 * np.abs(alone).max())  # single precision
    first, place = process_of(gp, SUM.targets[0])
    draws = first.drawn(first.weights_of_draws(n, 1, place), 1, place).predict(new)
    rest = (together - SUM.weights[0] * draws) / SUM.weights[1]  # draws of the other target
    other, place = process_of(gp, SUM.targets[1])
    same = other.drawn(other.weights_of_draws(n, 1, place), 1, place).predict(new)
    assert np.abs(rest - same).max() > 1e-3  # by another seed, so that the two are independent
    if other.most_draws():
        order = [int(np.abs(rest[:, [i]] - same).max(axis=0).argmin()) for i in range(n)]
        assert sorted(order) == list(range(n))
        assert all(i != j for i, j in enumerate(order))
        np.testing.assert_allclose(rest, same[:, order], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["features", "factor"])
def test_many_draws_have_the_mean_and_the_covariance_of_the_sum(name: str) -> None:
    gp, (_, _, new) = MODELS[name](), data()
    process, own = process_of(gp, SUM)
    n = 4000
    draws = process.drawn(process.weights_of_draws(n, 3, own), 3, own).predict(new[:4])
    mean, covariance = process.predict(new[:4], return_cov=True, of="f")
    std = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((draws.mean(axis=1) - mean) / std, 0.0, atol=5 / np.sqrt(n))
    if name == "features":  # draws of an exact process have prior features, whose number limits them
        found = np.cov(draws) / np.outer(std, std)
        np.testing.assert_allclose(found, covariance / np.outer(std, std), atol=8 / np.sqrt(n))


def test_a_rough_mean_is_there_where_that_of_a_target_is() -> None:
    _, _, new = data()
    assert process_of(features(), SUM)[0].rough() is None
    gp = exact("cg", first="cholesky")
    rough = process_of(gp, SUM)[0].rough()
    assert rough is not None
    want = -0.5 * gp.parts[2].rough().predict(new) + 3.0 * gp.parts[0].predict(new)
    np.testing.assert_allclose(rough.predict(new), want)


def test_labels_of_a_sum_are_there_where_those_of_all_its_targets_are() -> None:
    y = np.array([[1.0, np.nan, 2.0], [np.nan, 1.0, 2.0], [4.0, 0.0, np.inf]])
    np.testing.assert_array_equal(values_of(y[:2], SUM), [2.0, np.nan])
    np.testing.assert_array_equal(values_of(y, 1), y[:, 1])
