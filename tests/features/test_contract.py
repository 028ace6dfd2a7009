"""What every feature map promises, over all maps and their choices; see maps.py."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from daskrf.arrays import n_bytes, unpack_bits
from daskrf.errors import InputError
from daskrf.features import FeatureMap, from_state
from daskrf.kernels.radial import RadialKernel
from daskrf.seeds import RandomState
from tests.features.maps import MAPS, MISSING, Case
from tests.floats import assert_agree
from tests.jit import jit_disabled

SIZE = 72 if jit_disabled() else 520
compiled_only = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")


@pytest.fixture(params=sorted(MAPS))
def case(request: pytest.FixtureRequest) -> Case:
    return MAPS[request.param]


@pytest.fixture
def feature_map(case: Case) -> FeatureMap:
    return case.make(case.size(SIZE), random_state=7).fit(case.rows())


def test_columns_of_a_table_are_those_of_the_fit(case: Case) -> None:
    """Another order or other names are refused by every method that takes rows, also of a restored copy."""
    table = pd.DataFrame(case.rows(), columns=[f"c{i}" for i in range(40)])
    feature_map = case.make(case.size(SIZE), random_state=7).fit(table)
    assert feature_map.feature_names_in_.tolist() == list(table.columns)
    assert feature_map.n_features_in_ == 40
    Phi = feature_map.transform(table)
    assert_agree(
        case.make(case.size(SIZE), random_state=7).fit(case.rows()).transform(table), Phi, tolerance_of(case)
    )
    again = from_state(json.loads(json.dumps(feature_map.state())))
    pickled = pickle.loads(pickle.dumps(feature_map))
    for each in (feature_map, again, pickled):
        assert_agree(each.transform(table), Phi, tolerance_of(case))
        for method in (
            each.transform,
            each.transform_nearest,
            *([each.transform_bits] if each.one_bit else []),
        ):
            with pytest.raises(InputError, match="another order than at fit: 'c39' is where 'c0' was"):
                method(table[table.columns[::-1]])
            with pytest.raises(InputError, match=r"without \['c5'\]"):
                method(table.drop(columns="c5"))


@pytest.mark.parametrize(
    "draw", [lambda: None, lambda: np.random.RandomState(3), lambda: np.random.default_rng(3)]
)
def test_seeds_are_drawn_as_scikit_learn_draws_them(case: Case, draw: Callable[[], RandomState]) -> None:
    """Each fit draws one, which state and copies keep; equal generators give equal maps."""
    X, size = case.rows(), case.size(72)
    feature_map = case.make(size, random_state=draw()).fit(X)
    Phi = feature_map.transform(X)
    again = from_state(json.loads(json.dumps(feature_map.state())))
    same = case.make(size, random_state=feature_map.seed_).fit(X)
    unfitted = case.make(size, random_state=draw())
    for each in (feature_map, again, pickle.loads(pickle.dumps(feature_map)), same):
        assert np.array_equal(each.transform(X), Phi)
    assert pickle.loads(pickle.dumps(unfitted)).seed_ == unfitted.seed_
    other = case.make(size, random_state=draw()).fit(X)
    assert (other.seed_ == feature_map.seed_) == (draw() is not None)
    assert feature_map.fit(X).seed_ != again.seed_


def test_rows_that_nothing_can_be_learned_from_are_refused(case: Case) -> None:
    make = case.make(case.size(SIZE), random_state=7)
    for value in (np.nan, np.inf):
        X = case.rows().astype(float)
        X[3, 2] = value
        for same in (X, sp.csr_matrix(X)):
            with pytest.raises(InputError, match="in row 3, column 2 is not a finite number"):
                make.fit(same)
            with pytest.raises(InputError, match="in row 3, column 2 is not a finite number"):
                case.make(case.size(SIZE), random_state=7).fit(case.rows()).transform(same)
    for shape in ((0, 40), (12, 0)):
        with pytest.raises(InputError, match="to fit to"):
            make.fit(np.zeros(shape))


def tolerance_of(case: Case) -> float:
    """Return what features may differ by: Fourier features follow the phases of rows of several units."""
    return 1e-5 if isinstance(case.make().kernel_, RadialKernel) else 1e-6


def where(applies: Callable[[Case], bool]) -> pytest.MarkDecorator:
    """Run a test over the maps that make a promise, and over no others."""
    cases = {name: case for name, case in sorted(MAPS.items()) if applies(case)}
    return pytest.mark.parametrize("case", cases.values(), ids=cases.keys())


def has_bits(case: Case) -> bool:
    return case.make().one_bit


def test_shape_and_dtype(case: Case, feature_map: FeatureMap) -> None:
    Phi = feature_map.transform(case.rows())
    assert Phi.shape == (12, case.size(SIZE))
    assert Phi.dtype == np.float32
    assert np.isfinite(Phi).all()
    assert feature_map.transform(case.rows()[:0]).shape == (0, case.size(SIZE))


def test_sparse_equals_dense(case: Case, feature_map: FeatureMap) -> None:
    X = case.rows()
    Phi = feature_map.transform(X)
    for other in (sp.csr_matrix(X), sp.csc_array(X), X.astype(float), np.asfortranarray(X)):
        assert_agree(feature_map.transform(other), Phi, tolerance_of(case))


def test_entries_of_sparse_rows_may_lie_apart(case: Case, feature_map: FeatureMap) -> None:
    X = sp.csr_matrix(case.rows()).astype(np.float32)
    apart = X.copy()
    apart.data, apart.indices = (np.repeat(a, 2)[::2] for a in (X.data, X.indices))
    assert_agree(feature_map.transform(apart), feature_map.transform(X), tolerance_of(case))


def test_rows_do_not_see_their_chunk(case: Case, feature_map: FeatureMap) -> None:
    X = case.rows()
    Phi = feature_map.transform(X)
    for step in (1, 5):
        parts = [feature_map.transform(X[i : i + step]) for i in range(0, len(X), step)]
        assert_agree(np.concatenate(parts), Phi, tolerance_of(case))
    order = np.random.default_rng(0).permutation(len(X))
    assert_agree(feature_map.transform(X[order]), Phi[order], tolerance_of(case))


def test_threads_do_not_disturb_each_other(case: Case, feature_map: FeatureMap) -> None:
    X = case.rows()
    Phi = feature_map.transform(X)
    starts = [0, 3, 6, 9] * 4
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda start: feature_map.transform(X[start : start + 3]), starts))
    for start, chunk in zip(starts, parts, strict=True):
        assert_agree(chunk, Phi[start : start + 3], tolerance_of(case))


@where(lambda case: case.prefixes)
def test_one_component(case: Case) -> None:
    X = case.rows()
    feature_map = case.make(case.least, random_state=7).fit(X)
    Phi = feature_map.transform(X)
    assert Phi.shape == (12, case.least)
    restored = from_state(json.loads(json.dumps(feature_map.state())))
    assert_agree(restored.transform(X), Phi, tolerance_of(case))


def test_equal_rows_have_equal_features(case: Case, feature_map: FeatureMap) -> None:
    Phi = feature_map.transform(case.rows())
    assert_agree(Phi[2], Phi[3], tolerance_of(case))


def test_input_is_not_changed(case: Case, feature_map: FeatureMap) -> None:
    X = sp.csr_matrix(case.rows())
    before = X.data.copy(), X.indices.copy(), X.indptr.copy()
    feature_map.transform(X)
    clone(feature_map).fit(X)
    assert all((a == b).all() for a, b in zip(before, (X.data, X.indices, X.indptr), strict=True))


def test_no_map_or_choice_is_without_a_case() -> None:
    assert not MISSING, "\n".join(MISSING.values())


def test_golden_features(case: Case, request: pytest.FixtureRequest) -> None:
    """The same seed gives the same features for ever, bits to the bit; a change here needs a new version."""
    feature_map = case.make(case.size(64), random_state=7).fit(case.rows())
    first = (
        feature_map.transform_bits(case.rows()[:2])
        if feature_map.one_bit
        else feature_map.transform(case.rows()[:2])[:, :4]
    )
    assert case.golden, (
        f'no first bytes: add "{request.node.callspec.id}": "{first.tobytes().hex()}" to FIRST_BYTES in '
        "tests/features/maps.py; if the map does not promise what other tests here ask (kernel, independent, "
        "falls), add a Case of this name to TABLE there instead."
    )
    golden = bytes.fromhex(case.golden)
    if feature_map.one_bit:
        assert first.tobytes() == golden
    else:
        assert_agree(first, np.frombuffer(golden, np.float32).reshape(2, 4), tolerance_of(case))


def test_seeds_differ(case: Case) -> None:
    X = case.rows()
    size = case.size(SIZE)
    features = [case.make(size, random_state=seed).fit(X).transform(X) for seed in (0, 1)]
    assert (features[0] != features[1]).any()
    if case.independent:
        agreement = np.mean(np.sign(features[0]) == np.sign(features[1]))
        # The features are independent, the rows need not be: a standard deviation of 0.5 / sqrt(SIZE) at
        # most, of which 4.5 are exceeded by chance for one pair of seeds in 150,000.
        assert abs(agreement - 0.5) < 4.5 * 0.5 / np.sqrt(size), (
            f"{agreement:.0%} of the signs of two seeds agree; if many features are 0, add a Case with "
            "independent=False to TABLE in tests/features/maps.py"
        )


def test_pickle_clone_and_state_give_the_same_features(case: Case, feature_map: FeatureMap) -> None:
    X = case.rows()
    expected = feature_map.transform(X)
    assert_agree(pickle.loads(pickle.dumps(feature_map)).transform(X), expected, tolerance_of(case))
    assert_agree(clone(feature_map).fit(X).transform(X), expected, tolerance_of(case))
    state = json.loads(json.dumps(feature_map.state()))
    restored = from_state(state)
    assert restored.is_fitted()
    assert_agree(restored.transform(X), expected, tolerance_of(case))
    assert restored.state() == feature_map.state()
    assert restored.kernel_ == feature_map.kernel_


def test_a_map_that_learns_from_rows_must_be_fitted(case: Case) -> None:
    feature_map = case.make(case.size(SIZE))
    assert feature_map.is_fitted() == (feature_map.learns_from == "nothing")
    if not feature_map.is_fitted():
        with pytest.raises(InputError, match="not fitted"):
            feature_map.transform(case.rows())
    assert feature_map.fit(case.rows()).is_fitted()


@where(lambda case: case.make().learns_from == "summary")
def test_summaries_of_parts_fit_like_the_whole(case: Case, feature_map: FeatureMap) -> None:
    X = case.rows()
    summaries = [feature_map.summarize(X[start : start + 5]) for start in (5, 10, 0)]
    other = clone(feature_map).fit_summaries(json.loads(json.dumps(summaries)))
    assert other.state() == feature_map.state()
    assert_agree(other.transform(X), feature_map.transform(X), tolerance_of(case))


def test_state_of_another_class_or_version_is_refused(feature_map: FeatureMap) -> None:
    state = feature_map.state()
    with pytest.raises(InputError, match="unknown"):
        from_state({**state, "class": "Nothing"})
    with pytest.raises(InputError, match="version"):
        from_state({**state, "version": 0})
    parameters = state["parameters"]
    with pytest.raises(InputError, match="unknown parameters colour"):
        from_state({**state, "parameters": {**parameters, "colour": 3}})
    for missing in set(parameters) - set(feature_map.added_parameters):
        rest = {name: value for name, value in parameters.items() if name != missing}
        with pytest.raises(InputError, match=f"lacks parameters {missing}"):
            from_state({**state, "parameters": rest})


@pytest.mark.parametrize("parameters", [{"n_components": 0}, {"n_components": 2.5}, {"random_state": -1}])
def test_bad_parameters_are_refused_by_fit_and_transform(case: Case, parameters: dict) -> None:
    feature_map = case.make().set_params(**parameters)
    with pytest.raises(InputError, match=next(iter(parameters))):
        feature_map.fit(case.rows())
    if feature_map.learns_from == "nothing":
        with pytest.raises(InputError, match=next(iter(parameters))):
            feature_map.transform(case.rows())


def test_values_that_are_not_finite_are_refused_by_row_and_column(
    case: Case, feature_map: FeatureMap
) -> None:
    for value in (np.nan, np.inf):
        X = case.rows().astype(float)
        X[4, 7] = value
        with pytest.raises(InputError, match="row 4, column 7"):
            feature_map.transform(X)


def test_another_width_than_that_of_fit_is_refused(case: Case, feature_map: FeatureMap) -> None:
    for fitted in (feature_map, from_state(json.loads(json.dumps(feature_map.state()))).fit(None)):
        assert fitted.n_features_in_ == 40
        with pytest.raises(InputError, match=r"39 columns.* 40"):
            fitted.transform(case.rows()[:, :39])
        if fitted.one_bit:
            with pytest.raises(InputError, match=r"39 columns.* 40"):
                fitted.transform_bits(case.rows()[:, :39])
    narrow = case.rows()[:, :39]
    assert feature_map.fit(narrow).transform(narrow).shape == (12, case.size(SIZE))


def products(case: Case, n_components: int, seeds: range) -> np.ndarray:
    """Return the inner products of all pairs of rows, seed by seed, float64 of shape (seeds, 12, 12)."""
    X = case.rows()
    features = (case.make(n_components, random_state=seed).fit(X).transform(X) for seed in seeds)
    return np.array([Phi @ Phi.T for Phi in map(np.float64, features)])


def expected(case: Case, n_components: int) -> np.ndarray:
    assert case.kernel is not None
    return case.kernel(case.make(n_components).fit(case.rows()))(case.rows())


@where(lambda case: case.kernel is not None)
@compiled_only
def test_inner_products_are_unbiased(case: Case) -> None:
    kernel = expected(case, 256)
    actual = products(case, 256, range(200))
    error = np.mean(actual, axis=0) - kernel
    standard_error = np.std(actual, axis=0, ddof=1) / np.sqrt(len(actual))
    # 78 distinct entries: 4.5 standard errors is exceeded by chance once in 2,000 choices of the seeds.
    assert (np.abs(error) <= 4.5 * standard_error + 2e-6).all()


@where(lambda case: case.falls and case.kernel is not None)
@compiled_only
def test_the_mean_squared_error_falls_with_the_number_of_features(case: Case) -> None:
    """E[error^2] * M is the same at M and at 4 M, seed by seed a sum over all pairs."""
    errors = [
        n * np.square(products(case, n, range(100)) - expected(case, n)).sum(axis=(1, 2)) for n in (128, 512)
    ]
    difference = np.mean(errors[1]) - np.mean(errors[0])
    # Beyond 4.5 standard errors for one choice of the seeds in 150,000.
    standard_error = np.sqrt(sum(np.var(error, ddof=1) for error in errors) / 100)
    assert standard_error < 0.25 * np.mean(errors)
    assert abs(difference) < 4.5 * standard_error


def test_in_a_pipeline(case: Case) -> None:
    X = case.rows()
    y = np.arange(len(X), dtype=float)
    y[2] = y[3]
    feature_map = case.make(case.size(SIZE))
    model = make_pipeline(feature_map, Ridge(alpha=1e-3)).fit(X, y)
    Phi = feature_map.transform(X)
    np.testing.assert_allclose(model.predict(X), Ridge(alpha=1e-3).fit(Phi, y).predict(Phi), rtol=1e-6)
    # Few features cannot follow any labels.
    assert model.score(X, y) > (0.9 if case.components is None else 0.2)
    assert case.make(3).fit(X).get_feature_names_out()[0].endswith("0")


@where(has_bits)
def test_bits_are_the_signs(case: Case, feature_map: FeatureMap) -> None:
    for size in (1, 7, 8, 9, 64, 65, SIZE):
        feature_map = case.make(size)
        bits = feature_map.transform_bits(case.rows())
        assert bits.dtype == np.uint8
        assert bits.shape == (12, n_bytes(size))
        scaled = unpack_bits(bits, size) * np.float32(1 / np.sqrt(size))
        assert (feature_map.transform(case.rows()) == scaled).all()
        assert not (np.unpackbits(bits, axis=1, bitorder="little")[:, size:]).any()


@where(lambda case: not has_bits(case))
def test_a_map_without_bits_says_so(case: Case, feature_map: FeatureMap) -> None:
    with pytest.raises(InputError, match="no one-bit features"):
        feature_map.transform_bits(case.rows())
    with pytest.raises(InputError):
        feature_map.check_dtype("bits")
    feature_map.check_dtype("float32")


@where(lambda case: case.prefixes)
def test_smaller_maps_are_prefixes(case: Case, feature_map: FeatureMap) -> None:
    size = 36 + case.least
    whole = feature_map.transform(case.rows())[:, :size] * np.sqrt(SIZE)
    smaller = case.make(size, random_state=7).fit(case.rows()).transform(case.rows()) * np.sqrt(size)
    np.testing.assert_allclose(smaller, whole, rtol=1e-6, atol=tolerance_of(case) * np.abs(whole).max())
