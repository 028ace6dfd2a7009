"""Maps in words, and what error messages show of long values."""

from __future__ import annotations

import numpy as np
import pytest

from daskrf.features import (
    CompositionFeatures,
    FeatureMap,
    LandmarkFeatures,
    NystromFeatures,
    TanimotoDotProductFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.kernels import (
    DotProduct,
    Exponential,
    Gaussian,
    Intersection,
    Polynomial,
    Ratio,
    TanimotoDotProduct,
    TanimotoMinMax,
)
from daskrf.storage.descriptions import map_words, model_words
from daskrf.storage.differences import differences

WORDS = [
    (TanimotoMinMaxFeatures(64), ["one-bit Tanimoto (min-max)", "(1 - T^2)/M", "M = 64, seed 0"]),
    (TanimotoMinMaxFeatures(64, distribution="gaussian"), ["Gaussian", "(1 + 2T - T^2)/M"]),
    (TanimotoMinMaxFeatures(64, hashing="cws"), ["consistent weighted sampling"]),
    (CompositionFeatures(Polynomial(3, c=0.0)), ["one-bit", "f(K) = K^3", "K by TanimotoMinMaxFeatures"]),
    (CompositionFeatures(Exponential(2.0)), ["f(K) = exp(2.0 K)"]),
    (CompositionFeatures(Ratio()), ["f(K) = K / (2 - K)"]),
    (CompositionFeatures(DotProduct(range(1, 200))), ["coefficients [1.0, 2.0", "..."]),
    (TanimotoDotProductFeatures(), ["dot-product", "square roots of counts", "4 terms"]),
    (TanimotoDotProductFeatures(bias_correction="residual", n_terms=2), ["2 terms and a residual"]),
    (TanimotoDotProductFeatures(bias_correction="normalize", input_transform=None), ["scaled to length 1"]),
    (LandmarkFeatures(), ["Tanimoto (min-max) similarities to molecules", "at random", "M = 1024"]),
    (LandmarkFeatures(kernel=TanimotoDotProduct("sqrt"), selection="kmedoids"), ["dot product", "k-medoids"]),
    (
        NystromFeatures(),
        ["Nystroem features of Tanimoto (min-max), 1024 landmarks chosen at random", "M = 1024"],
    ),
    (NystromFeatures(9, n_landmarks=20, selection="kmeans"), ["20 landmarks chosen as means", "M = 9"]),
    (
        NystromFeatures(3, kernel=Intersection()).fit(np.eye(3)),
        ["Nystroem features of intersection (sum of min)"],
    ),
    (
        NystromFeatures(3, kernel=Gaussian(1e9)).fit(np.eye(3)),
        ["length scale 1e+09), 3 landmarks", "of rank 1"],
    ),
]


@pytest.mark.parametrize(("feature_map", "words"), WORDS, ids=lambda value: getattr(value, "selection", None))
def test_maps_in_words(feature_map: FeatureMap, words: list[str]) -> None:
    shown = map_words(feature_map.state(), "float32")
    assert all(word in shown for word in words), shown
    assert shown.endswith(f"{4 * feature_map.n_components:,} bytes a molecule")
    assert len(shown) < 300
    assert "{" not in shown


def test_an_unknown_map_shows_little_of_long_parameters() -> None:
    shown = map_words({"class": "Strange", "parameters": {"n_components": 3, "table": list(range(9999))}})
    assert shown.startswith("Strange, M = 3")
    assert len(shown) < 200


def test_processes_of_targets_with_gaps_are_told_with_their_kind() -> None:
    parts = [{"class": "SparseGP", "criterion": "bound"}] * 3
    shown = model_words({"class": "SeparateGP", "parts": parts})
    assert shown == f"3 models in one, of targets that have gaps (SeparateGP), each {model_words(parts[0])}"


def test_the_range_of_norms_is_told() -> None:
    assert "norms" not in map_words(TanimotoDotProductFeatures().state())
    given = TanimotoDotProductFeatures(norm_range=(20.0, 90.5))
    learned = TanimotoDotProductFeatures(input_transform=None).fit([[4.0, 2.0], [9.5, 0.5]])
    for known in (given, learned):
        assert map_words(known.state()).endswith("4 terms, for squared norms of 20 to 90.5")


def test_differences_show_no_long_text() -> None:
    old, new = ({"map": {"fitted": {"landmarks": {"a": letter * 10**6}}}} for letter in "xy")
    shown = differences(old, new)
    assert shown == "what the map has learned has changed"
    old, new = ({"map": {"parameters": {"name": letter * 10**6}}} for letter in "xy")
    shown = differences(old, new)
    assert shown.startswith("--name (was 1,000,000 characters with SHA-256")
    assert len(shown) < 250


def test_differences_name_what_was_chosen_and_not_what_follows() -> None:
    old = {"map": {"class": "A", "parameters": {"size": 8, "range": None}, "fitted": {"low": 1}}}
    new = {"map": {"class": "A", "parameters": {"size": 8, "range": [2, 9.5]}, "fitted": {}}}
    assert differences(old, new) == "--range (was not given, now [2, 9.5])"
    other = {"map": {"class": "B", "parameters": {"terms": 3}}, "dtype": "bits"}
    assert differences(old, other) == "--map (was A, now B), --dtype (was not given, now bits)"
    kernels = [
        {"map": {"kernel": {"kernel": name, "parameters": p}}} for name, p in (("A", {}), ("B", {"t": 1}))
    ]
    assert differences(*kernels) == "--kernel (was A, now B)"
    kernels = [LandmarkFeatures(kernel=kernel).state() for kernel in (TanimotoMinMax(), Gaussian(2.0))]
    assert differences(*({"map": state} for state in kernels)) == "--kernel (was minmax, now gaussian)"
    kernels = [{"process": "exact", "kernel": own} for own in (None, Gaussian(2.0).state())]
    assert differences(*kernels) == "--kernel (was not given, now gaussian)"
    assert differences(*kernels[::-1]) == "--kernel (was gaussian, now not given)"
    lengths = [LandmarkFeatures(kernel=Gaussian(length)).state() for length in (2.0, 3.0)]
    assert differences(*({"map": state} for state in lengths)) == "--length-scale (was 2.0, now 3.0)"
