"""What scikit-learn expects of estimators: its own checks, and what its users do with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
import sklearn.tree
from sklearn.base import clone as sklearn_clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from daskrf import (
    CompositionFeatures,
    CoregionalizedGP,
    ExactGP,
    FastfoodDotProductFeatures,
    FastfoodFeatures,
    Gaussian,
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    LocalGaussianFeatures,
    LocalGaussianGP,
    NystromFeatures,
    PolynomialSketch,
    RandomFeatureGP,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    SparseGP,
    TanimotoDotProductFeatures,
    TanimotoMinMax,
    TanimotoMinMaxFeatures,
)
from daskrf.errors import InputError
from daskrf.estimators import Estimator, clone
from daskrf.features import SCISSORS, FeatureMap, FoldedFeatures, MeanFeatures, known_maps


class FirstOfTwo(CoregionalizedGP):
    """A process of two targets as the checks, which bring one, can fit it."""

    single_target, several_targets = True, False

    def fit(self, X: Any, y: Any, **options: Any) -> FirstOfTwo:
        labels = None if y is None else np.asarray(y).reshape(-1)
        return super().fit(X, labels if labels is None else np.stack([labels, labels[::-1]], 1), **options)

    def predict(self, X: Any) -> Any:  # type: ignore[override]
        return super().predict(X)[:, 0]


ESTIMATORS = [
    TanimotoMinMaxFeatures(16, hashing="cws"),
    TanimotoDotProductFeatures(16),
    CompositionFeatures(inner=TanimotoMinMaxFeatures(16, hashing="cws"), n_components=16),
    FastfoodDotProductFeatures(n_components=16),
    FastfoodFeatures(n_components=16),
    GaussianMaclaurinFeatures(16),
    LandmarkFeatures(4, kernel=Gaussian(2.0)),
    LocalGaussianFeatures(n_components=16),
    NystromFeatures(4, kernel=TanimotoMinMax()),
    PolynomialSketch(n_components=16),
    RandomFourierFeatures(n_components=16),
    RandomMaclaurinFeatures(n_components=16),
    SCISSORS(4, similarity=Gaussian(2.0), measure="product"),
    ExactGP(Gaussian(2.0)),
    ExactGP(),
    RandomFeatureGP(),
    RandomFeatureGP(RandomFourierFeatures(Gaussian(2.0), 64)),
    SparseGP(LandmarkFeatures(16, kernel=Gaussian(5.0)), signal_variance=1.0, noise_variance=0.1),
    LocalGaussianGP(LocalGaussianFeatures(n_components=200, length_scale=5.0)),
    FirstOfTwo(Gaussian(2.0)),
]

# These two serve fingerprints of several kinds side by side; the checks bring rows of one to ten columns.
WITHOUT_CHECKS: set[type[FeatureMap]] = {FoldedFeatures, MeanFeatures}

ALL = {"check_dtype_object": "a ValueError names the dtype; the check wants a TypeError of NumPy's words"}
SEVERAL = dict.fromkeys(
    (
        "check_dont_overwrite_parameters",
        "check_methods_sample_order_invariance",
        "check_methods_subset_invariance",
        "check_fit2d_1sample",
        "check_fit2d_1feature",
        "check_fit2d_predict1d",
    ),
    "the check sets n_components to 1; features come in pairs, or at least one for each term",
)
ONE_TARGET = {"check_supervised_y_2d": "a column of one target is taken as it is, without a warning"}
REASONS: dict[type, dict[str, str]] = {
    TanimotoDotProductFeatures: SEVERAL,
    FastfoodFeatures: SEVERAL,
    LocalGaussianFeatures: SEVERAL,
    RandomFourierFeatures: SEVERAL,
    ExactGP: ONE_TARGET,
    FirstOfTwo: ONE_TARGET,
    SCISSORS: dict.fromkeys(
        ("check_n_features_in", "check_n_features_in_after_fitting"),
        "its rows are molecules of any kind, and n_features_in_ counts those of the basis",
    )
    | {"check_estimators_empty_data_messages": "the similarity function decides which molecules it takes"},
}


def expected_failures(estimator: Any) -> dict[str, str]:
    """Return the checks that fail, and why that is meant."""
    return ALL | REASONS.get(type(estimator), {})


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_s_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_every_map_is_checked() -> None:
    checked = {type(estimator) for estimator in ESTIMATORS}
    assert {*known_maps()} <= checked | WITHOUT_CHECKS
    assert not checked & WITHOUT_CHECKS


@pytest.fixture
def frame() -> pd.DataFrame:
    return pd.DataFrame(
        np.random.default_rng(0).normal(size=(40, 3)), list(range(5, 45)), columns=list("abc")
    )


@pytest.mark.parametrize("everywhere", [False, True])
def test_features_as_a_data_frame(frame: pd.DataFrame, everywhere: bool) -> None:
    feature_map = RandomFourierFeatures(n_components=4)
    plain = feature_map.fit_transform(frame)
    if not everywhere:
        feature_map.set_output(transform="pandas")
    with sklearn.config_context(transform_output="pandas" if everywhere else "default"):
        for features in (feature_map.transform(frame), feature_map.fit_transform(frame)):
            assert features.index.equals(frame.index)
            assert [*features.columns] == [*feature_map.get_feature_names_out()]
            assert features.to_numpy().tobytes() == plain.tobytes()
        assert isinstance(feature_map.transform(frame.to_numpy()).index, pd.RangeIndex)
    feature_map.set_output(transform="default")
    assert isinstance(feature_map.transform(frame), np.ndarray)
    with pytest.raises(InputError, match="'default', 'pandas' or 'polars', not 'excel'"):
        feature_map.set_output(transform="excel")  # type: ignore[arg-type]


def test_a_grid_search_reaches_the_parameters_of_kernels(frame: pd.DataFrame) -> None:
    y = np.sin(frame.to_numpy().sum(axis=1))
    pipeline = make_pipeline(RandomFourierFeatures(Gaussian(1.0), 64), RandomFeatureGP())
    name = "randomfourierfeatures__kernel__length_scale"
    search = GridSearchCV(pipeline, {name: [0.001, 3.0]}, cv=3).fit(frame, y)
    assert search.best_params_ == {name: 3.0}
    assert search.best_estimator_[0].kernel == Gaussian(3.0)
    assert pipeline[0].kernel == Gaussian(1.0)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda each: type(each).__name__)
def test_clones_and_what_notebooks_show(estimator: Any) -> None:
    for copy in (clone(estimator), sklearn_clone(estimator)):
        assert repr(copy) == repr(estimator)
        assert copy is not estimator
        assert copy.get_params().keys() == estimator.get_params().keys()
    assert type(estimator).__name__ in estimator._repr_html_()
    assert repr(type(estimator)(**estimator.get_params(deep=False))) == repr(estimator)


def test_parameters_that_do_not_exist_are_refused() -> None:
    with pytest.raises(InputError, match="RandomFourierFeatures has no parameter 'size'; it has kernel, "):
        RandomFourierFeatures().set_params(size=3)
    with pytest.raises(InputError, match="Gaussian has no parameter 'width'; it has length_scale"):
        RandomFourierFeatures(Gaussian(1.0)).set_params(kernel__width=3)
    with pytest.raises(InputError, match="n_components is 8, which has no parameter 'size'"):
        RandomFourierFeatures(n_components=8).set_params(n_components__size=3)


def test_an_estimator_of_scikit_learn_is_cloned() -> None:
    class Held(Estimator):
        def __init__(self, inner: object = None) -> None:
            self.inner = inner

    tree = sklearn.tree.DecisionTreeRegressor(max_depth=3)
    held = Held((tree, [tree]))
    one, (other,) = clone(held).inner  # type: ignore[misc]
    assert repr(one) == repr(other) == repr(tree)
    assert one is not other


def test_limits_reach_fit_by_metadata_routing(frame: pd.DataFrame) -> None:
    y = np.sin(frame.to_numpy().sum(axis=1))
    side = np.where(y > 0.5, 1, 0)
    process = ExactGP(Gaussian(2.0))
    with sklearn.config_context(enable_metadata_routing=True):
        asking = sklearn_clone(clone(process.set_fit_request(side=True)))
        scores = cross_val_score(asking, frame, y, cv=3, params={"side": side})
        with pytest.raises(InputError, match=r"ExactGP.fit takes no 'weight'; it takes side, start, matrix"):
            process.set_fit_request(weight=True)
        asking.set_fit_request(side=False)
        plain = cross_val_score(asking, frame, y, cv=3, params={})  # without them 1.6.0 ends in an error
    halves = cross_val_score(process, frame, y, cv=3, params={"side": side})
    assert scores.tolist() == halves.tolist() != plain.tolist()
