"""The tables of maps take the memory that `table_bytes` predicts."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf.errors import InputError
from daskrf.features import (
    CompositionFeatures,
    FastfoodDotProductFeatures,
    FastfoodFeatures,
    FeatureMap,
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    LocalGaussianFeatures,
    NystromFeatures,
    PolynomialSketch,
    TanimotoMinMaxFeatures,
    from_state,
)
from daskrf.kernels import Exponential, Gaussian, Polynomial
from tests.jit import jit_disabled
from tests.memory import TIMES, least_peak

D = 20_000
ROW = sp.csr_matrix(([1.0], [5], [0, 1]), shape=(1, D))
SLACK = 2**17  # bytes of the row itself, its features, and what is made for them
MAPS: dict[str, Callable[[int, int], FeatureMap]] = {
    "orthogonal": lambda M, seed: FastfoodFeatures(Gaussian(2.0), M, random_state=seed),
    "hadamard": lambda M, seed: FastfoodFeatures(Gaussian(2.0), M, projection="hadamard", random_state=seed),
    "fft": lambda M, seed: FastfoodFeatures(Gaussian(2.0), M, projection="fft", random_state=seed),
    "products": lambda M, seed: FastfoodDotProductFeatures(
        Polynomial(3, normalize=True), M, random_state=seed
    ),
    "products, hadamard": lambda M, seed: FastfoodDotProductFeatures(
        n_components=M, projection="hadamard", random_state=seed
    ),
    "tensorsrht": lambda M, seed: PolynomialSketch(3, n_components=M, method="tensorsrht", random_state=seed),
    "tensorsrht of a constant": lambda M, seed: PolynomialSketch(
        2, n_components=M, c=0.5, method="tensorsrht", random_state=seed
    ),
}

pytestmark = pytest.mark.skipif(jit_disabled(), reason="compiled code takes no memory of its own")


def taken(make: Callable[[int], FeatureMap], row: sp.csr_matrix = ROW) -> tuple[int, int]:
    """Return the most bytes that a map takes to be made and to transform a row, measured and predicted.

    `make` gets the number of the call, and returns a map without tables.
    """
    number = itertools.count()
    peak = least_peak(lambda: make(next(number)).transform(row))
    return peak, make(0).table_bytes(row.shape[1])


def copies(fitted: FeatureMap) -> Callable[[int], FeatureMap]:
    """Return what hands out copies of a map that is fitted, and has made no tables yet."""
    return [copy.deepcopy(fitted) for _ in range(TIMES)].__getitem__


@pytest.mark.parametrize("name", sorted(MAPS))
def test_transforms(name: str) -> None:
    width = 250 if name in ("hadamard", "fft") else D  # whose lengths are taken column by column
    row = ROW[:, :width]
    peak, predicted = taken(lambda seed: MAPS[name](40_000 if width < D else 1000, seed), row)
    assert peak < predicted + SLACK < 1.6 * peak + SLACK


@pytest.mark.parametrize(("k", "l"), [(600, 600), (300, 600), (75, 600)])
def test_projections_on_landmarks(k: int, l: int) -> None:
    X = sp.csr_matrix((1.0 + np.arange(l), (np.arange(l), np.arange(l))), shape=(l, l))
    state = NystromFeatures(k, n_landmarks=l, kernel=Gaussian(200.0)).fit(X).state()
    peak, predicted = taken(lambda time: from_state(state), X[:1])
    assert peak < predicted + SLACK < 1.6 * peak + SLACK
    restored = from_state(state)
    assert NystromFeatures.facts.holds == "8 K M"  # with the triangle by itself, where there are more rows
    assert 4 * k * l == restored.projection_.nbytes
    assert NystromFeatures(k, n_landmarks=l).table_bytes(l) <= predicted  # before it is fitted, but for rows


def test_landmarks() -> None:
    X = sp.random(600, 2000, 0.02, random_state=0, format="csr", data_rvs=lambda n: np.arange(n) % 3 + 1.0)
    fitted = LandmarkFeatures(500).fit(X)
    peak, predicted = taken(copies(fitted), X[:1])
    assert peak < predicted + SLACK < 2.5 * peak
    assert LandmarkFeatures(500).table_bytes(2000) == 0


def test_sketches_about_centres() -> None:
    X = sp.csr_matrix(np.random.default_rng(0).normal(size=(50, 60)))
    wide = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(50, 5000))
    for make in (GaussianMaclaurinFeatures, LocalGaussianFeatures):
        options = {"length_scale": 12.0, "method": "tensorsrht", "explicit": False}
        fitted = make(600, **options).fit(wide)
        peak, predicted = taken(copies(fitted), wide[:1])
        assert peak < predicted + SLACK < (2 if make is GaussianMaclaurinFeatures else 9) * peak
        assert make(600, **options).table_bytes(5000) == 0
        assert make(600, length_scale=12.0).fit(wide).table_bytes(5000) == 0


def test_compositions_take_what_their_inner_maps_do() -> None:
    inner = FastfoodFeatures(Gaussian(2.0), 64)
    composition = CompositionFeatures(Polynomial(2, c=0.0), inner, 512)
    assert composition.table_bytes(100) == 2 * inner.set_params(n_components=512).table_bytes(100) > 0
    assert CompositionFeatures(Exponential(1.0), TanimotoMinMaxFeatures(64), 512).table_bytes(100) == 0


def test_features_take_little_besides_the_block_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sp.random(3000, 64, 0.2, random_state=0, format="csr", data_rvs=lambda n: np.arange(n) % 3 + 1.0)
    cosine = PolynomialSketch(2, normalize=True)
    for made in (
        GaussianMaclaurinFeatures(512, length_scale=20.0),
        CompositionFeatures(Polynomial(2, c=0.0), cosine, 512),
    ):
        fitted = made.fit(X)
        whole = fitted.transform(X)
        for module in ("composed", "gaussianmaclaurin"):
            monkeypatch.setattr(f"daskrf.features.{module}._ENTRIES", 2**16)
        peak = least_peak(lambda fitted=fitted: fitted.transform(X))
        Phi = fitted.transform(X)
        monkeypatch.undo()
        assert Phi.tobytes() == whole.tobytes()
        assert peak < 1.4 * whole.nbytes


def test_rows_in_messages_of_inner_maps_are_counted_from_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.ones((9, 4))
    X[7, 2] = -1.0
    monkeypatch.setattr("daskrf.features.composed._ENTRIES", 128)
    composed = CompositionFeatures(Polynomial(2, c=0.0), TanimotoMinMaxFeatures(distribution="gaussian"), 64)
    for rows in (X, sp.csr_matrix(X)):
        with pytest.raises(InputError, match="row 7, column 2"):
            composed.transform(rows)
