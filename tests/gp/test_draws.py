"""Draws are samples of the posterior that `predict` describes, for every process and map."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf.errors import InputError
from daskrf.features import (
    CompositionFeatures,
    FoldedFeatures,
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    LocalGaussianFeatures,
    MeanFeatures,
    NystromFeatures,
    RandomFourierFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.gp import ExactGP, RandomFeatureGP
from daskrf.gp.processes import residual
from daskrf.gp.processes.priordraws import prior_draws
from daskrf.gp.processes.separate import SeparateGP, process_of
from daskrf.gp.processes.weightedsum import WeightedSum, joint_prediction
from daskrf.kernels import (
    Composition,
    Folded,
    Gaussian,
    Intersection,
    Kernel,
    Mean,
    Polynomial,
    TanimotoDotProduct,
    TanimotoMinMax,
)
from tests.gp.test_left_out import drawn, fitted, rows

N, N_DRAWS = 50, 150
N_SAMPLES, N_FEATURES = 600, 2048  # which share random features
LARGE = 5.0  # standard errors

X = rows(N, 0)
NEW = np.concatenate([rows(9, 1), X[:2]])


def unfolded(X: np.ndarray) -> sp.csr_matrix:
    """Return the rows as unfolded fingerprints, with columns that are far apart."""
    found = sp.csr_matrix(X.astype(np.uint16))
    return sp.csr_matrix((found.data, found.indices * 77_777, found.indptr), shape=(len(X), 2**32))


def process(feature_map: Any, kernel: Kernel, own: Any = X, noise: float = 0.05) -> Any:
    """Return the process of a map, fitted to a draw."""
    return fitted(feature_map.fit(own), own, drawn(kernel, X, noise, 0))


def nystrom(kernel: Kernel, **options: Any) -> Any:
    return process(NystromFeatures(12, kernel=kernel, **options), kernel)


def folded(inner: Any, kernel: Kernel) -> Any:
    return process(FoldedFeatures(inner, 64, n_components=12), kernel, unfolded(X))


def exact(kernel: Kernel, own: Any = X, **options: Any) -> Any:
    return ExactGP(kernel, **({"n_features": 512} | options)).fit(own, drawn(TanimotoMinMax(), X, 0.05, 0))


PROCESSES: dict[str, Callable[[], Any]] = {
    "nystrom": lambda: nystrom(TanimotoMinMax()),
    "nystrom, more landmarks": lambda: nystrom(TanimotoMinMax(), n_landmarks=30),
    "nystrom gaussian": lambda: nystrom(Gaussian(4.0)),
    "nystrom dot-product": lambda: nystrom(TanimotoDotProduct()),
    "nystrom polynomial": lambda: nystrom(Polynomial(2, c=1.0)),
    "nystrom composition": lambda: nystrom(Composition()),
    "nystrom intersection": lambda: nystrom(Intersection()),
    "exact intersection": lambda: exact(Intersection()),
    "nystrom mean": lambda: nystrom(Mean((2, 1), columns=20)),
    "nystrom folded": lambda: folded(NystromFeatures(12), TanimotoMinMax()),
    "landmarks": lambda: process(LandmarkFeatures(12), TanimotoMinMax()),
    "landmarks gaussian": lambda: process(LandmarkFeatures(12, kernel=Gaussian(4.0)), Gaussian(4.0)),
    "gaussian maclaurin": lambda: process(GaussianMaclaurinFeatures(40, length_scale=4.0), Gaussian(4.0)),
    "local": lambda: process(LocalGaussianFeatures(60, length_scale=4.0, n_centroids=3), Gaussian(4.0)),
    "bits": lambda: process(TanimotoMinMaxFeatures(256), TanimotoMinMax()),
    "fourier": lambda: process(RandomFourierFeatures(Gaussian(4.0), 128), Gaussian(4.0)),
    "composition": lambda: process(CompositionFeatures(n_components=256), Composition()),
    "mean": lambda: process(MeanFeatures((2, 1), columns=20, n_components=256), Mean((2, 1), columns=20)),
    "exact": lambda: exact(TanimotoMinMax()),
    "exact folded": lambda: exact(Folded(TanimotoMinMax(), 64), unfolded(X)),
    "exact cg": lambda: exact(
        TanimotoMinMax(), solver="cg", n_draws=N_DRAWS, noise_variance=0.1, n_features=2048
    ),
}
LEAVES_OUT = [name for name in PROCESSES if name.startswith(("nystrom", "landmarks", "gauss", "local"))]


@pytest.fixture(autouse=True)
def few_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make residuals of fewer random features: over seeds, draws have the right covariance of any number."""
    monkeypatch.setattr(residual, "RESIDUAL_FEATURES", 512)


def new_of(name: str) -> Any:
    return unfolded(NEW) if "folded" in name else NEW


def check_draws(
    draws: np.ndarray, mean: np.ndarray, covariance: np.ndarray, n_features: float = np.inf
) -> None:
    """Compare draws, shape (m, S), with a normal distribution, at five standard errors of each number.

    `n_features` is how many random features they share.
    """
    m, n = draws.shape
    std = np.sqrt(covariance.diagonal())
    # Mixed over random features, draws have somewhat heavier tails than normal ones.
    error = 1.2 * np.sqrt(2 / n + 6 / n_features)
    np.testing.assert_array_less(np.abs(draws.mean(axis=1) - mean) / std, LARGE / np.sqrt(n))
    np.testing.assert_array_less(np.abs(draws.var(axis=1) / std**2 - 1), LARGE * error)
    white = np.linalg.solve(np.linalg.cholesky(covariance), draws - mean[:, None])
    assert np.square(white).mean() == pytest.approx(1.0, abs=LARGE * error / np.sqrt(m))
    assert np.abs(white @ white.T / n - np.eye(m)).max() < LARGE * error


@pytest.mark.parametrize("name", PROCESSES)
def test_draws_have_the_mean_and_the_covariance_of_the_posterior(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gp, new = PROCESSES[name](), new_of(name)
    mean, covariance = gp.predict(new, return_cov=True, of="f")
    std = gp.predict(new, return_std=True, of="f")[1]
    if name != "exact cg":  # whose deviations are estimates
        np.testing.assert_allclose(np.sqrt(covariance.diagonal()), std, rtol=1e-3, atol=1e-6)
    functions = [gp.draw(seed) for seed in range(N_DRAWS)]
    draws = np.column_stack([function.predict(new) for function in functions])
    check_draws(draws, mean, covariance)
    if name != "exact cg":
        monkeypatch.setattr(residual, "RESIDUAL_FEATURES", N_FEATURES)
        check_draws(gp.sample_y(new, N_SAMPLES, 1, of="f"), mean, covariance, N_FEATURES)
        of_y = gp.predict(new, return_cov=True, of="y")
        check_draws(gp.sample_y(new, N_SAMPLES, 2), *of_y, N_FEATURES)


@pytest.mark.parametrize("name", PROCESSES)
def test_a_draw_is_one_function_of_rows(name: str) -> None:
    """Equal rows have equal values, whatever rows stand beside them, here and in another process."""
    gp, new = PROCESSES[name](), new_of(name)
    order = np.array([3, 0, 3, 5, 3, 0])
    for function in (gp.draw(7), pickle.loads(pickle.dumps(gp)).draw(7)):
        whole = function.predict(new)
        some = function.predict(new[order])
        np.testing.assert_allclose(some, whole[order], rtol=1e-5, atol=1e-6)
        assert np.ptp(some[[0, 2, 4]]) < 1e-6
    joint = gp.predict(new[order], return_cov=True, of="f")[1]
    variances = joint.diagonal()
    assert joint[0, 2] == pytest.approx(variances[0], rel=1e-4)
    values = gp.sample_y(new[order], 3, 7, of="f")
    np.testing.assert_allclose(values[[2, 4]], values[[0, 0]], atol=2e-5)  # jitter of exact draws
    if not name.startswith("exact"):  # those are joint
        np.testing.assert_allclose(values, gp.sample_y(new, 3, 7, of="f")[order], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(values[:, 0], whole[order], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", LEAVES_OUT)
def test_workers_rebuild_draws_from_features_rows_and_weights(name: str) -> None:
    gp, new = PROCESSES[name](), new_of(name)
    weights = gp.weights_of_draws(3, 5)
    expected = gp.drawn(weights, 5).predict(new)
    np.testing.assert_allclose(gp.weights_of_draw(5), weights[:, :1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gp.draw(5).predict(new), expected[:, 0], rtol=1e-5, atol=1e-5)
    phi, kernel = gp.feature_map_.transform_nearest(new), gp.feature_map_.projected_kernel
    diagonal = None if kernel.has_unit_diagonal else kernel.diag(new)
    worker = type(gp).from_state(gp.state(), gp.arrays(statistics=False))
    worker.feature_map_ = None
    again = worker.drawn(weights, 5)
    np.testing.assert_allclose(again.predict(phi, rows=new), expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(InputError, match="pass the rows as well"):
        again.predict(phi)
    with pytest.raises(InputError, match="rows must be those of the 11 rows"):
        again.predict(phi, rows=new[:3])
    gp.feature_map_ = None
    joint = gp.predict(phi, return_cov=True, of="f", rows=new, diagonal=diagonal)[1]
    samples = gp.sample_y(phi, N_SAMPLES, 1, of="f", rows=new, diagonal=diagonal)
    assert np.abs(np.corrcoef(samples) - joint / np.sqrt(np.outer(*2 * [joint.diagonal()]))).max() < 0.3
    with pytest.raises(InputError, match="pass the rows as well"):
        gp.predict(phi, return_cov=True, of="f", diagonal=diagonal)


def test_far_from_all_features_a_draw_is_one_from_the_prior() -> None:
    gp = process(LocalGaussianFeatures(60, length_scale=4.0, n_centroids=3), Gaussian(4.0))
    far = 40 + np.arange(40)[None] * np.ones((3, 1))
    far[1, 0] += 4.0
    far[2] = -far[2]
    draws = gp.sample_y(far, N_SAMPLES, of="f")
    correlations = np.corrcoef(draws)
    assert correlations[0, 1] == pytest.approx(np.exp(-0.5), abs=0.15)
    assert abs(correlations[0, 2]) < 0.3
    np.testing.assert_allclose(draws.var(axis=1), gp.signal_variance_[0], rtol=0.4)
    gp.set_params(residual=False)
    without = gp.fit_statistics(gp.statistics_, gp.local_map_)
    assert (without.sample_y(far, 3, of="f") == without.mean_[0]).all()


def test_sums_of_targets_and_targets_of_their_own_rows_draw_what_is_left_out() -> None:
    Y = np.column_stack([drawn(TanimotoMinMax(), X, 0.05, seed) for seed in (0, 1)])
    feature_map = NystromFeatures(12).fit(X)
    both = RandomFeatureGP(feature_map).fit(X, Y)
    apart = SeparateGP(
        [RandomFeatureGP(feature_map).fit(X, Y[:, 0]), RandomFeatureGP(feature_map).fit(X[:40], Y[:40, 1])],
        [[0], [1]],
    )
    target = WeightedSum((0, 1), (1.0, -0.5))
    for gp, what in itertools.product((both, apart), (1, target)):
        own, place = process_of(gp, what)
        mean, covariance = joint_prediction(own, place, NEW)
        functions = [own.drawn(own.weights_of_draw(seed, place), seed, place) for seed in range(N_DRAWS)]
        check_draws(np.column_stack([f.predict(NEW) for f in functions]), mean, covariance)
        deviations = own.predict(NEW, True, of="both", target=place)[1:]
        for of, std in zip(("f", "y"), deviations, strict=True):
            joint = joint_prediction(own, place, NEW, of=of)[1]
            np.testing.assert_allclose(np.diag(joint), np.square(std), rtol=1e-6)


def test_draws_of_the_intersection_of_real_weights() -> None:
    rng = np.random.default_rng(0)
    weights = np.concatenate([3 * rng.random((6, 5)), [[0, 0.5, 1, 2.25, 3]]])
    draws = prior_draws(Intersection(), None, 2000, 1, 3)(weights)
    check_draws(draws, np.zeros(7), Intersection()(weights))
    np.testing.assert_array_equal(prior_draws(Intersection(), None, 3, 1, 3)(weights[2:4]), draws[2:4, :3])


def test_kernels_without_random_features_are_drawn_jointly_or_refused() -> None:
    kernel = Mean((1, 1), (Intersection(), TanimotoMinMax()), columns=20)
    gp = nystrom(kernel)
    mean, covariance = gp.predict(NEW, return_cov=True, of="f")
    check_draws(gp.sample_y(NEW, N_SAMPLES, of="f"), mean, covariance)
    check_draws(gp.sample_y(NEW, N_SAMPLES), *gp.predict(NEW, return_cov=True))
    same = gp.sample_y(NEW[[1, 0, 1]], 3, of="f")
    np.testing.assert_allclose(same[0], same[2], atol=1e-6)
    for each in (gp, exact(kernel)):
        with pytest.raises(
            InputError, match=r"intersection.*no random features.*acquisition rule other than"
        ):
            each.draw(0)


def test_of_little_noise_y_has_the_variance_that_predict_says() -> None:
    """Where the labels leave less room for the residual of y than f has of it."""
    own = rows(60, 0)
    feature_map = NystromFeatures(6, kernel=Gaussian(8.0)).fit(own)
    gp = RandomFeatureGP(feature_map).fit(own, drawn(Gaussian(8.0), own, 0.01, 0))
    assert gp.left_out_[0] < gp.signal_variance_[0]
    std_f, std_y = gp.predict(own, return_std=True, of="both")[1:]
    assert (std_y < std_f).any()
    draws = gp.sample_y(own, N_SAMPLES)
    np.testing.assert_allclose(draws.var(axis=1), std_y**2, rtol=LARGE * np.sqrt(2 / N_SAMPLES + 6 / 512))
    joint = gp.predict(own, return_cov=True)[1]
    np.testing.assert_allclose(joint.diagonal(), std_y**2, rtol=1e-9)
    assert np.linalg.eigvalsh(joint).min() > 0


@pytest.mark.parametrize("gp", [ExactGP(TanimotoMinMax()), RandomFeatureGP(TanimotoMinMaxFeatures(64))])
def test_numbers_of_samples_that_cannot_be_are_refused(gp: Any) -> None:
    X = np.random.default_rng(0).poisson(1.0, (12, 6)).astype(float)
    gp.set_params(noise_variance=0.1)
    for process in (gp, gp.fit(X, X.sum(axis=1))):
        with pytest.raises(InputError, match="n_samples must not be negative, but is -1"):
            process.sample_y(X, -1, of="f")
        with pytest.raises(InputError, match=r"n_samples must be an integer, not 1\.5"):
            process.sample_y(X, 1.5, of="f")
        assert process.sample_y(X, 0, of="f").shape == (12, 0)
