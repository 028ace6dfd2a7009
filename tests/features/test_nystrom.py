"""NystromFeatures: the rank-k approximation of the oracle, in any kernel, selection and container."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from daskrf.errors import InputError
from daskrf.features import LandmarkFeatures, NystromFeatures, from_state
from daskrf.features.featuremap import map_key
from daskrf.features.sketches.selection import farthest, kmeans, kmedoids
from daskrf.features.sketches.spectrum import FLOOR
from daskrf.gp import RandomFeatureGP, SparseGP
from daskrf.kernels import (
    Composition,
    DotProduct,
    Exponential,
    Gaussian,
    Intersection,
    Kernel,
    Matern,
    Polynomial,
    TanimotoDotProduct,
    TanimotoMinMax,
)
from tests.jit import jit_disabled
from tests.naive import nystrom as naive

PROPERTY = settings(derandomize=True, deadline=None, max_examples=10 if jit_disabled() else 60)
KERNELS = [
    TanimotoMinMax(),
    TanimotoDotProduct("sqrt"),
    Composition(Exponential(2.0)),
    Intersection(),
    Polynomial(2, c=1.0),
    Exponential(1.0, normalize=True),
    Composition(Polynomial(2, c=0.5), TanimotoMinMax()),
    Gaussian(3.0),
    Matern(3.0, nu=0.5),
    Matern(3.0, nu=2.5),
]
SELECTIONS = ("random", "kmedoids", "kmeans", "farthest")


def counts(n: int = 60, d: int = 30, seed: int = 0) -> np.ndarray:
    """Random counts; row 1 is empty, rows 2 and 3 are equal."""
    X = np.minimum(np.random.default_rng(seed).poisson(0.6, (n, d)), 3)
    X[1] = 0
    X[2] = X[3]
    return X


def oracle(feature_map: NystromFeatures, X: np.ndarray) -> np.ndarray:
    Z = feature_map.landmarks_
    kernel = feature_map.kernel
    return naive.approximation(kernel(X, Z), kernel(Z), feature_map.n_components, FLOOR)


def assert_close(feature_map: NystromFeatures, X: np.ndarray) -> None:
    Phi = feature_map.transform(X).astype(float)
    largest = feature_map.kernel.diag(X).max(initial=1.0)
    # Rounding to single precision is amplified by 1 / sqrt(lambda), which the floor bounds.
    np.testing.assert_allclose(Phi @ Phi.T, oracle(feature_map, X), atol=3e-4 * largest)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize(("k", "l"), [(8, None), (8, 20), (20, 20)])
def test_inner_products_are_those_of_the_oracle(kernel: Kernel, k: int, l: int | None) -> None:
    X = counts()
    feature_map = NystromFeatures(k, kernel=kernel, n_landmarks=l, random_state=3).fit(X)
    assert feature_map.landmarks_.shape[0] == (l or k)
    assert_close(feature_map, X)
    assert feature_map.negative_ == (0.0, 0.0)
    assert (feature_map.projection_ == np.triu(feature_map.projection_)).all()


@PROPERTY
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(1, 8), st.sampled_from(SELECTIONS))
def test_any_rows(seed: int, d: int, k: int, selection: str) -> None:
    """One column, constant columns, rows of zeros, equal rows."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (14, d)).astype(float) * (rng.random(d) < 0.8)
    if seed % 2:
        X = X * 0.1 + 1.0 * (seed % 3)
    n = len(np.unique(X, axis=0))
    feature_map = NystromFeatures(min(k, n), kernel=Gaussian(2.0), n_landmarks=n, selection=selection).fit(X)
    assert_close(feature_map, X)
    with pytest.warns(
        UserWarning, match=rf"there are {n} landmarks, not {n + 1}: the sample has no more distinct rows"
    ):
        more = NystromFeatures(min(k, n), kernel=Gaussian(2.0), n_landmarks=n + 1, selection=selection).fit(X)
    assert_close(more, X)


def test_landmarks_of_full_rank_have_their_own_kernel() -> None:
    X = counts()
    feature_map = NystromFeatures(20).fit(X)
    Z = feature_map.landmarks_
    Phi = feature_map.transform(Z).astype(float)
    np.testing.assert_allclose(Phi @ Phi.T, TanimotoMinMax()(Z), atol=1e-5)
    lengths = np.square(feature_map.transform(X).astype(float)).sum(axis=1)
    assert (lengths <= 1 + 1e-5).all()


def test_more_landmarks_and_more_features_are_more_accurate() -> None:
    X = counts(200)
    K = TanimotoMinMax()(X)

    def error(k: int, l: int) -> float:
        Phi = NystromFeatures(k, n_landmarks=l, random_state=1).fit(X).transform(X)
        return float(np.linalg.norm(Phi @ Phi.T - K))

    assert error(20, 100) < error(20, 20)
    assert error(100, 100) < error(20, 100)
    best = np.sort(np.linalg.eigvalsh(K))[:-20]
    assert error(20, 100) > np.linalg.norm(best)


def test_the_random_feature_gp_is_the_sparse_gp_of_the_same_landmarks() -> None:
    X = counts(80)
    y = X @ np.sin(np.arange(30.0)) + 0.1 * np.cos(np.arange(80.0))
    options = {"mean": 0.3, "signal_variance": 2.0, "noise_variance": 0.1}
    ours = RandomFeatureGP(NystromFeatures(30, random_state=2), **options).fit(X, y)
    other = SparseGP(LandmarkFeatures(30, random_state=2), **options).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), other.predict(X), atol=2e-4)


def test_features_that_single_precision_cannot_tell_from_nothing_are_zeros() -> None:
    same = Composition(DotProduct((1,)))  # 1 for every pair
    feature_map = NystromFeatures(6, kernel=same).fit(counts())
    assert feature_map.rank_ == 1
    Phi = feature_map.transform(counts())
    np.testing.assert_allclose(np.abs(Phi[:, 0]), 1.0, atol=1e-6)
    assert (Phi[:, 1:] == 0).all()
    restored = from_state(json.loads(json.dumps(feature_map.state())))
    assert restored.transform(counts()).tobytes() == Phi.tobytes()


class Indefinite(TanimotoMinMax):
    """2 T - 1: symmetric, and no kernel."""

    def against(self, Y):
        prepared = super().against(Y)
        return lambda X, dtype=np.float64: (2.0 * prepared(X) - 1.0).astype(dtype)


def test_negative_eigenvalues_are_left_out_and_told() -> None:
    X = counts()
    feature_map = NystromFeatures(25, kernel=Indefinite()).fit(X)
    W = Indefinite()(feature_map.landmarks_)
    values, vectors = np.linalg.eigh(W)
    negative = values[values < 0]
    assert negative.size
    nearest = (vectors * np.maximum(values, 0.0)) @ vectors.T
    two_norm, frobenius = feature_map.negative_
    assert two_norm == pytest.approx(-negative.min())
    assert frobenius == pytest.approx(np.linalg.norm(W - nearest))
    Phi = feature_map.transform(feature_map.landmarks_).astype(float)
    np.testing.assert_allclose(Phi @ Phi.T, nearest, atol=1e-4)


def test_states_are_small_and_rebuild_the_map() -> None:
    X = counts()
    feature_map = NystromFeatures(12, n_landmarks=20, kernel=Intersection()).fit(X)
    state = json.loads(json.dumps(feature_map.state()))
    restored = from_state(state)
    assert restored.transform(X).tobytes() == feature_map.transform(X).tobytes()
    assert restored.state() == feature_map.state()
    assert (restored.rank_, restored.negative_) == (feature_map.rank_, feature_map.negative_)
    assert pickle.loads(pickle.dumps(feature_map)).transform(X).tobytes() == restored.transform(X).tobytes()
    assert not clone(feature_map).is_fitted()
    assert len(map_key(state)) < 1200
    large = NystromFeatures(300).fit(counts(400))
    assert len(json.dumps(large.state())) < 4 / 3 * (300 * 301 / 2 * 4) + 30_000


def test_a_damaged_state_is_refused() -> None:
    state = NystromFeatures(5).fit(counts()).state()
    for name, value in (("projection", "AAAA"), ("shape", [5]), ("shape", None), ("negative", [1.0])):
        with pytest.raises(InputError, match="projection of the feature map cannot be read"):
            from_state({**state, "fitted": {**state["fitted"], name: value}})


def test_blocks_of_rows_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskrf.features.nystrom._BLOCK", 1)
    monkeypatch.setattr("daskrf.features.nystrom._FEWEST", 7)
    for X, kernel in ((counts(), TanimotoMinMax()), (counts() + 0.5, Gaussian(5.0))):
        feature_map = NystromFeatures(10, kernel=kernel).fit(X)
        small = feature_map.transform(X)
        monkeypatch.setattr("daskrf.features.nystrom._FEWEST", 1000)
        assert feature_map.transform(X).tobytes() == small.tobytes()
        assert feature_map.transform(sp.csr_matrix(X)).tobytes() == small.tobytes()
    bad = X.copy()
    bad[20, 4] = np.inf
    monkeypatch.setattr("daskrf.features.nystrom._FEWEST", 9)
    with pytest.raises(InputError, match=r"row 2, column 4 .* counted from row 18 of X"):
        feature_map.transform(bad)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_landmarks": 4}, "n_landmarks must be an integer of at least n_components = 5, not 4"),
        ({"n_landmarks": 7.5}, "n_landmarks must be an integer"),
        ({"n_landmarks": True}, "n_landmarks must be an integer"),
        ({"n_landmarks": 9, "n_candidates": 8}, "n_candidates must be .* at least n_landmarks = 9"),
        ({"selection": "best"}, "selection must be one of random, kmedoids, kmeans, farthest"),
        ({"kernel": "minmax"}, "kernel must be a kernel"),
        ({"kernel": Gaussian(2.0)}, "call fit again"),
        ({"n_components": 3, "n_landmarks": 5}, "call fit again"),
        ({"n_landmarks": 9}, "n_landmarks is 9, but was 5 at the last fit: call fit again"),
    ],
)
def test_bad_parameters_are_refused(parameters: dict, message: str) -> None:
    feature_map = NystromFeatures(5).fit(counts()).set_params(**parameters)
    with pytest.raises(InputError, match=message):
        feature_map.transform(counts())
    if "again" not in message:
        with pytest.raises(InputError, match=message):
            feature_map.fit(counts())


def test_features_that_are_too_large_are_refused() -> None:
    X = counts().astype(float)
    feature_map = NystromFeatures(5, kernel=Polynomial(2, c=1.0)).fit(X)
    X[7] *= 1e30
    with pytest.raises(InputError, match="row 7 are too large for single precision; divide"):
        feature_map.transform(X)


@pytest.mark.parametrize("kernel", [TanimotoMinMax(), Intersection(), Gaussian(2.0)], ids=repr)
def test_selections_go_by_the_metric_of_any_kernel(kernel: Kernel) -> None:
    """Where k(x, x) differs, the largest kernel is not the nearest row."""
    X = sp.csr_matrix(np.unique(counts(40, 12, seed=1), axis=0) * np.linspace(1, 5, 12).astype(int))
    chosen = farthest(X, 8, kernel)
    distances = Kernel.distance(kernel, X, chosen)
    for i in range(1, 8):
        nearest = distances[:, :i].min(axis=1)
        assert nearest[np.argmin(Kernel.distance(kernel, X, chosen[i])[:, 0])] == pytest.approx(nearest.max())
    medoids = kmedoids(X, 5, kernel)
    squares = np.square(Kernel.distance(kernel, X, medoids))
    start = np.square(Kernel.distance(kernel, X, X[:5]))
    assert squares.min(axis=1).sum() <= start.min(axis=1).sum() + 1e-9


def test_means_are_those_of_lloyd() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(30, 3)) + centre for centre in 9 * np.eye(3)])[rng.permutation(90)]
    X[:, 2] += 100
    actual = kmeans(sp.csr_matrix(X), 3, Gaussian()).toarray()
    means = X[:3].copy()
    for _ in range(10):
        labels = np.square(X[:, None] - means).sum(axis=2).argmin(axis=1)
        means = np.array([X[labels == c].mean(axis=0) for c in range(3)])
    np.testing.assert_allclose(actual, means, rtol=1e-12)


def test_means_of_unfolded_counts_keep_their_columns() -> None:
    X = sp.csr_matrix(([2.0, 4.0, 1.0], [5, 5, 2**32 - 1], [0, 1, 2, 3]), shape=(3, 2**32))
    actual = kmeans(X, 2, Gaussian())
    assert actual.shape == (2, 2**32)
    nothing = kmeans(sp.csr_matrix((1, 2**32)), 1, Gaussian())
    assert nothing.nnz == 0
