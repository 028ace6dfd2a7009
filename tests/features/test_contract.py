"""What every feature map promises, over the table in maps.py."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from daskrf.arrays import n_bytes, unpack_bits
from daskrf.compiled.jit import jit_disabled
from daskrf.errors import InputError
from daskrf.features import FeatureMap, from_state
from tests.features.maps import MAPS, Case

SIZE = 72 if jit_disabled() else 520


@pytest.fixture(params=sorted(MAPS))
def case(request: pytest.FixtureRequest) -> Case:
    return MAPS[request.param]


@pytest.fixture
def feature_map(case: Case) -> FeatureMap:
    return case.make(SIZE, random_state=7).fit(case.counts())


def one_bit(feature_map: FeatureMap) -> FeatureMap:
    if not feature_map.one_bit:
        pytest.skip("a map of real-valued features")
    return feature_map


def test_shape_and_dtype(case: Case, feature_map: FeatureMap) -> None:
    Phi = feature_map.transform(case.counts())
    assert Phi.shape == (12, SIZE)
    assert Phi.dtype == np.float32
    assert feature_map.transform(case.counts()[:0]).shape == (0, SIZE)


def test_sparse_equals_dense(case: Case, feature_map: FeatureMap) -> None:
    X = case.counts()
    Phi = feature_map.transform(X)
    for other in (sp.csr_matrix(X), sp.csc_array(X), X.astype(float), np.asfortranarray(X)):
        assert feature_map.transform(other).tobytes() == Phi.tobytes()


def test_rows_do_not_see_their_chunk(case: Case, feature_map: FeatureMap) -> None:
    X = case.counts()
    Phi = feature_map.transform(X)
    for step in (1, 5):
        parts = [feature_map.transform(X[i : i + step]) for i in range(0, len(X), step)]
        assert np.concatenate(parts).tobytes() == Phi.tobytes()
    order = np.random.default_rng(0).permutation(len(X))
    assert feature_map.transform(X[order]).tobytes() == Phi[order].tobytes()


def test_input_is_not_changed(case: Case, feature_map: FeatureMap) -> None:
    X = sp.csr_matrix(case.counts())
    before = X.data.copy(), X.indices.copy(), X.indptr.copy()
    feature_map.transform(X)
    assert all((a == b).all() for a, b in zip(before, (X.data, X.indices, X.indptr), strict=True))


def test_golden_bytes(case: Case) -> None:
    """The same seed gives the same features for ever; a change here needs a new state version."""
    feature_map = case.make(64, random_state=7).fit(case.counts())
    first = (
        feature_map.transform_bits(case.counts()[:2])
        if feature_map.one_bit
        else feature_map.transform(case.counts()[:2])[:, :4]
    )
    assert first.tobytes().hex() == case.golden


def test_seeds_differ(case: Case) -> None:
    X = case.counts()
    features = [case.make(SIZE, random_state=seed).fit(X).transform(X) for seed in (0, 1)]
    agreement = np.mean(np.sign(features[0]) == np.sign(features[1]))
    # The features are independent, the rows need not be: a standard deviation of 0.5 / sqrt(SIZE) at most, of
    # which 4.5 are exceeded by chance for one pair of seeds in 150,000.
    assert abs(agreement - 0.5) < 4.5 * 0.5 / np.sqrt(SIZE)


def test_pickle_clone_and_state_give_the_same_bytes(case: Case, feature_map: FeatureMap) -> None:
    X = case.counts()
    expected = feature_map.transform(X).tobytes()
    assert pickle.loads(pickle.dumps(feature_map)).transform(X).tobytes() == expected
    assert clone(feature_map).fit(X).transform(X).tobytes() == expected
    state = json.loads(json.dumps(feature_map.state()))
    restored = from_state(state)
    assert restored.transform(X).tobytes() == expected
    assert restored.state() == feature_map.state()


def test_state_of_another_class_or_version_is_refused(feature_map: FeatureMap) -> None:
    state = feature_map.state()
    with pytest.raises(InputError, match="unknown"):
        from_state({**state, "class": "Nothing"})
    with pytest.raises(InputError, match="version"):
        from_state({**state, "version": 0})
    parameters = state["parameters"]
    with pytest.raises(InputError, match="unknown parameters colour"):
        from_state({**state, "parameters": {**parameters, "colour": 3}})
    for missing in parameters:
        rest = {name: value for name, value in parameters.items() if name != missing}
        with pytest.raises(InputError, match=f"lacks parameters {missing}"):
            from_state({**state, "parameters": rest})


@pytest.mark.parametrize("parameters", [{"n_components": 0}, {"n_components": 2.5}, {"random_state": -1}])
def test_bad_parameters_are_refused_by_fit_and_transform(case: Case, parameters: dict) -> None:
    feature_map = case.make().set_params(**parameters)
    with pytest.raises(InputError, match=next(iter(parameters))):
        feature_map.fit(case.counts())
    with pytest.raises(InputError, match=next(iter(parameters))):
        feature_map.transform(case.counts())


def test_another_width_than_that_of_fit_is_refused(case: Case, feature_map: FeatureMap) -> None:
    for fitted in (feature_map, from_state(json.loads(json.dumps(feature_map.state()))).fit(None)):
        assert fitted.n_features_in_ == 40
        with pytest.raises(InputError, match=r"39 columns.* 40"):
            fitted.transform(case.counts()[:, :39])
        if fitted.one_bit:
            with pytest.raises(InputError, match=r"39 columns.* 40"):
                fitted.transform_bits(case.counts()[:, :39])
    assert feature_map.fit(case.counts()[:, :39]).transform(case.counts()[:, :39]).shape == (12, SIZE)


@pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")
def test_inner_products_are_unbiased(case: Case) -> None:
    X = case.counts()
    products = []
    for seed in range(200):
        Phi = case.make(256, random_state=seed).fit(X).transform(X).astype(float)
        products.append(Phi @ Phi.T)
    error = np.mean(products, axis=0) - case.make().fit(X).kernel_(X)
    standard_error = np.std(products, axis=0, ddof=1) / np.sqrt(len(products))
    # 78 distinct entries: 4.5 standard errors is exceeded by chance once in 2,000 choices of the seeds.
    assert (np.abs(error) <= 4.5 * standard_error + 1e-6).all()


def test_in_a_pipeline(case: Case) -> None:
    X = case.counts()
    y = np.arange(len(X), dtype=float)
    y[2] = y[3]
    model = make_pipeline(case.make(SIZE), Ridge(alpha=1e-3)).fit(X, y)
    assert model.score(X, y) > 0.9
    assert case.make(3).fit(X).get_feature_names_out()[0].endswith("0")


def test_bits_are_the_signs(case: Case, feature_map: FeatureMap) -> None:
    one_bit(feature_map)
    for size in (1, 7, 8, 9, 64, 65, SIZE):
        feature_map = case.make(size)
        bits = feature_map.transform_bits(case.counts())
        assert bits.dtype == np.uint8
        assert bits.shape == (12, n_bytes(size))
        scaled = unpack_bits(bits, size) * np.float32(1 / np.sqrt(size))
        assert (feature_map.transform(case.counts()) == scaled).all()
        assert not (np.unpackbits(bits, axis=1, bitorder="little")[:, size:]).any()


def test_smaller_maps_are_prefixes(case: Case, feature_map: FeatureMap) -> None:
    whole = one_bit(feature_map).transform_bits(case.counts())
    part = case.make(40, random_state=7).transform_bits(case.counts())
    assert (part == whole[:, :5]).all()
