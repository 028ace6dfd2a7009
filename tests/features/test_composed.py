"""Features of f(K) over feature maps of K."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.base import clone

from daskrf.errors import InputError
from daskrf.features import (
    CompositionFeatures,
    LandmarkFeatures,
    PolynomialSketch,
    RandomMaclaurinFeatures,
    TanimotoDotProductFeatures,
    TanimotoMinMaxFeatures,
    from_state,
)
from daskrf.features.featuremap import map_key
from daskrf.kernels import (
    Composition,
    Exponential,
    Polynomial,
    TanimotoDotProduct,
    TanimotoMinMax,
)
from daskrf.storage.descriptions import map_words
from tests.features.maps import counts
from tests.jit import jit_disabled

compiled_only = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")


INNER = {
    "gaussian minmax": TanimotoMinMaxFeatures(distribution="gaussian"),
    "dot product": TanimotoDotProductFeatures(n_terms=2, norm_range=(1.0, 60.0)),
    "maclaurin": RandomMaclaurinFeatures(Polynomial(2, c=0.2, normalize=True)),
    "tensorsrht": PolynomialSketch(2, method="tensorsrht", normalize=True),
    "composition": CompositionFeatures(),
}


@compiled_only
@pytest.mark.parametrize("name", sorted(INNER))
def test_unbiased_over_any_map(name: str) -> None:
    """The features of a map need not be alike, as those of random Maclaurin maps and of count sketches."""
    X = counts()
    results = []
    for seed in range(100):
        feature_map = CompositionFeatures(Polynomial(2, c=0.5), INNER[name], 130, random_state=seed)
        Phi = feature_map.fit(X).transform(X).astype(np.float64)
        results.append(Phi @ Phi.T)
    assert feature_map.kernel_.inner == INNER[name].kernel_
    error = np.mean(results, axis=0) - feature_map.kernel_(X)
    standard_error = np.std(results, axis=0, ddof=1) / np.sqrt(len(results))
    # 78 entries: 4.5 standard errors are exceeded by chance for one choice of the seeds in 2,000.
    assert (np.abs(error) <= 4.5 * standard_error + 2e-6).all()


@compiled_only
def test_the_error_falls_over_sketches_too() -> None:
    """The features of a large sketch of few non-zeros are rare and large: they come from many small ones."""
    X = np.eye(40)[:6] * 3 + counts(6) * (np.arange(40) < 3)
    errors = {}
    for size in (128, 2048):
        inner = TanimotoDotProductFeatures(n_terms=2, norm_range=(1.0, 60.0))
        maps = (CompositionFeatures(Polynomial(2, c=0.0), inner, size, random_state=s) for s in range(12))
        actual = [Phi @ Phi.T for Phi in (feature_map.transform(X).astype(float) for feature_map in maps)]
        errors[size] = size * np.square(actual - Composition(Polynomial(2, c=0.0), inner.kernel_)(X)).mean()
    # The seeds are fixed. Factors of one sketch each made it 5 to 10 times as large, over 40 seeds.
    assert errors[2048] < 2 * errors[128]


def test_fitted_by_parts_like_its_inner_map() -> None:
    X = counts()
    inner = TanimotoDotProductFeatures(n_terms=2)
    feature_map = CompositionFeatures(Exponential(), inner, 64)
    assert feature_map.learns_from == "summary"
    assert not feature_map.is_fitted()
    parts = [feature_map.summarize(X[i : i + 4]) for i in (4, 0, 8)]
    fitted = clone(feature_map).fit_summaries(parts)
    assert (fitted.transform(X) == clone(feature_map).fit(X).transform(X)).all()
    assert not inner.is_fitted()
    restored = from_state(json.loads(json.dumps(fitted.state())))
    assert restored.is_fitted()
    assert restored.kernel_ == Composition(Exponential(), TanimotoDotProduct("sqrt", n_terms=2))
    assert (restored.transform(X) == fitted.transform(X)).all()


def test_the_default_inner_map_is_not_shared() -> None:
    inner = TanimotoMinMaxFeatures()
    CompositionFeatures(inner=inner).set_params(inner__hashing="cws")
    assert inner.hashing == "cws"
    assert CompositionFeatures(n_components=64).state() == clone(CompositionFeatures(n_components=64)).state()
    assert CompositionFeatures().inner is None  # and so no object that set_params could reach
    assert (CompositionFeatures().fit(counts()).transform(counts()) != 0.0).all()
    assert "TanimotoMinMaxFeatures" in map_words(CompositionFeatures().state())


def test_another_inner_map_forgets_what_the_first_one_learned() -> None:
    X = counts()
    learned = TanimotoDotProductFeatures(bias_correction="normalize")
    for inner in (None, PolynomialSketch(2, normalize=True)):
        composed = CompositionFeatures(inner=learned, n_components=40).fit(X).set_params(inner=inner).fit(X)
        fresh = CompositionFeatures(inner=inner, n_components=40).fit(X)
        assert composed.state() == fresh.state()
        assert composed.transform(X).tobytes() == fresh.transform(X).tobytes()


def test_another_inner_map_is_not_taken_for_the_one_that_was_fitted() -> None:
    X = counts()
    fitted = CompositionFeatures(inner=TanimotoDotProductFeatures(n_terms=2), n_components=40).fit(X)
    changed = clone(fitted).fit(X).set_params(inner__n_terms=3)
    assert not changed.is_fitted()
    with pytest.raises(InputError, match="not fitted"):
        changed.transform(X)
    assert changed.state()["fitted"] == {"n_features_in": 40}
    sketch = PolynomialSketch(2, normalize=True)
    changed.set_params(inner=sketch)
    assert changed.state() == CompositionFeatures(inner=sketch, n_components=40).fit(X).state()
    assert changed.kernel_.inner == sketch.kernel_
    # Size and seed of the inner map do not matter.
    actual = fitted.transform(X)
    assert (fitted.set_params(inner__random_state=7, inner__n_components=99).transform(X) == actual).all()


def test_one_map_has_one_name_however_it_was_fitted() -> None:
    """Statistics of rows that were seen by `fit` and of others add up."""
    X = counts()
    for inner in (None, PolynomialSketch(2, normalize=True)):
        feature_map = CompositionFeatures(Exponential(), inner, 64)
        name = map_key(clone(feature_map).fit(None).state())
        fitted = feature_map.fit(X)
        assert map_key(fitted.state()) == name
        assert from_state(fitted.state()).n_features_in_ == 40
    fitted.set_params(inner__degree=3)
    assert (fitted.transform(X) == from_state(fitted.state()).transform(X)).all()


@pytest.mark.parametrize("shape", [(3,), (1, 2, 3), ()])
def test_rows_of_other_dimensions_are_refused(shape: tuple[int, ...]) -> None:
    for inner in (None, PolynomialSketch(2)):
        with pytest.raises(InputError, match="2 dimensions"):
            CompositionFeatures(inner=inner).fit(counts()).transform(np.ones(shape))


def test_kernels_of_one_bit_maps() -> None:
    assert CompositionFeatures(Exponential(2.0)).kernel_ == Composition(Exponential(2.0), TanimotoMinMax())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"outer": TanimotoMinMax()}, "outer must be a Polynomial"),
        ({"outer": Polynomial(2, normalize=True)}, "normalize=True means nothing"),
        ({"inner": TanimotoDotProductFeatures(n_terms=65)}, "64 features.* 65 terms need"),
        ({"inner": "minmax"}, "inner must be a feature map"),
        ({"inner": LandmarkFeatures(4)}, "LandmarkFeatures is fitted to a sample"),
        ({"inner": TanimotoMinMaxFeatures(0)}, "n_components"),
    ],
)
def test_bad_parameters_are_refused(parameters, message) -> None:
    with pytest.raises(InputError, match=message):
        CompositionFeatures(n_components=64).set_params(**parameters).fit(counts())
