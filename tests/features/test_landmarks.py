"""LandmarkFeatures: kernel values against distinct rows, whatever way they are chosen."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.base import clone

from daskrf.errors import InputError
from daskrf.features import FeatureMap, LandmarkFeatures, NystromFeatures, from_state
from daskrf.features.featuremap import map_key
from daskrf.features.sketches.selection import distinct_rows
from daskrf.features.sparserows import compact, decode_rows, encode_rows
from daskrf.gp import SparseGP, SufficientStatistics
from daskrf.kernels import Composition, DotProduct, Kernel, TanimotoDotProduct, TanimotoMinMax

PROPERTY = settings(derandomize=True, deadline=None, max_examples=50)
KERNEL = TanimotoMinMax()
SELECTIONS = ("random", "kmedoids", "farthest")  # of real rows; test_nystrom.py has the means


def counts(n=40, d=30, seed=0):
    """Random counts; row 1 is empty, rows 2 and 3 are equal."""
    X = np.minimum(np.random.default_rng(seed).poisson(0.6, (n, d)), 3)
    X[1] = 0
    X[2] = X[3]
    return X


def rows_of(matrix):
    return {tuple(row) for row in np.asarray(sp.csr_matrix(matrix).todense()).tolist()}


GOLDEN = {
    "random": ([1, 36, 34, 0, 2], "000000009224c93e0000c03dcdcccc3e0000803e"),
    "kmedoids": ([1, 36, 0, 6, 9], "000000009224c93ecdcccc3ecdcc4c3e398e633e"),
    "farthest": ([1, 36, 24, 32, 38], "000000009224c93e2549923ed60d263ef1f0703d"),
}


class Doubled(TanimotoMinMax):
    """A kernel that is 2 between a row and itself."""

    def diag(self, X):
        return 2.0 * super().diag(X)


@pytest.fixture(params=SELECTIONS)
def selection(request):
    return request.param


def test_features_are_kernel_values_of_rows_that_exist(selection):
    X = counts()
    feature_map = LandmarkFeatures(10, selection=selection, random_state=3).fit(X)
    Z = feature_map.landmarks_
    assert Z.shape == (10, 30)
    assert Z.dtype == np.uint16
    assert rows_of(Z) <= rows_of(X)
    assert len(rows_of(Z)) == 10
    Phi = feature_map.transform(X)
    assert Phi.dtype == np.float32
    assert (Phi == KERNEL(X, Z).astype(np.float32)).all()
    precision = feature_map.prior_precision()
    assert precision.dtype == np.float64
    assert (precision == KERNEL(Z)).all()
    assert not feature_map.one_bit
    assert feature_map.learns_from == "sample"
    assert feature_map.get_feature_names_out()[9] == "landmark9"


def test_whitened_features_are_the_kernel_at_the_landmarks(selection):
    X = counts()
    feature_map = LandmarkFeatures(25, selection=selection).fit(X)
    Z, k_zz = feature_map.landmarks_, feature_map.prior_precision()
    k_xz = KERNEL(X, Z)
    nystroem = k_xz @ np.linalg.solve(k_zz, k_xz.T)
    np.testing.assert_allclose(k_zz @ np.linalg.solve(k_zz, k_xz.T), KERNEL(Z, X), atol=1e-12)
    left_out = np.linalg.eigvalsh(KERNEL(X) - nystroem)
    assert left_out.min() > -1e-9  # never more than the kernel
    assert np.trace(KERNEL(X) - nystroem) < 0.5 * len(X)


@PROPERTY
@given(st.integers(0, 2**32 - 1), st.sampled_from(SELECTIONS))
def test_all_distinct_rows_can_be_landmarks_and_no_more_are_taken(seed, selection):
    X = np.random.default_rng(seed).integers(0, 3, (12, 3))
    n = len(np.unique(X, axis=0))
    feature_map = LandmarkFeatures(n, selection=selection).fit(X)
    assert rows_of(feature_map.landmarks_) == rows_of(X)
    assert feature_map.cautions() == []
    with pytest.warns(
        UserWarning, match=rf"there are {n} landmarks, not {n + 1}: the sample has no more distinct rows"
    ):
        more = LandmarkFeatures(n + 1, selection=selection).fit(X)
    assert rows_of(more.landmarks_) == rows_of(X)
    assert from_state(more.state()).transform(X).tobytes() == more.transform(X).tobytes()


@pytest.mark.filterwarnings("ignore:there are")
def test_more_landmarks_than_rows_change_nothing(selection):
    """Their features are 0, and weigh nothing in the model."""
    X = np.unique(counts()[:9], axis=0)[:5]
    exact = LandmarkFeatures(5, selection=selection).fit(X)
    more = LandmarkFeatures(9, selection=selection).fit(X)
    padded = more.transform(counts())
    assert (padded[:, 5:] == 0.0).all()
    assert sorted(padded[:, :5].T.tolist()) == sorted(exact.transform(counts()).T.tolist())
    y = np.arange(40.0)
    actual, expected = (
        SparseGP(each).fit_statistics(SufficientStatistics.from_chunk(each.transform(counts()), y), each)
        for each in (more, exact)
    )
    assert actual.log_marginal_likelihood_value_ == pytest.approx(expected.log_marginal_likelihood_value_)
    for ours, theirs in zip(actual.predict(counts(), True), expected.predict(counts(), True), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    nystrom = NystromFeatures(9, selection=selection).fit(X).transform(counts())
    projected = KERNEL(counts(), X) @ np.linalg.pinv(KERNEL(X)) @ KERNEL(X, counts())
    np.testing.assert_allclose(nystrom @ nystrom.T, projected, atol=1e-5)
    with pytest.raises(InputError, match="no row to fit to"):
        LandmarkFeatures(1, selection=selection).fit(counts()[:0])
    assert LandmarkFeatures(1, selection=selection).fit([[0, 0]]).transform([[0, 0], [1, 0]]).tolist() == [
        [1.0],
        [0.0],
    ]


def test_farthest_points_are_those_of_the_slow_way():
    X = np.unique(counts(30), axis=0)
    feature_map = LandmarkFeatures(9, selection="farthest", random_state=2).fit(X)
    distances = 1.0 - KERNEL(X)
    chosen = [int(np.argmax(KERNEL(feature_map.landmarks_[:1], X)[0]))]
    for landmark in feature_map.landmarks_[1:]:
        distance = distances[:, chosen].min(axis=1)
        row = int(np.argmax(KERNEL(landmark, X)[0]))
        assert distance[row] == distance.max()
        chosen.append(row)


def test_medoids_are_the_most_central_members_of_their_clusters():
    rng = np.random.default_rng(0)
    centres = rng.integers(5, 20, (6, 40)) * (rng.random((6, 40)) < 0.3)
    X = np.concatenate([np.maximum(c + rng.integers(-2, 3, (20, 40)) * (c > 0), 0) for c in centres])
    feature_map = LandmarkFeatures(6, selection="kmedoids", random_state=4).fit(X)
    k = KERNEL(X, feature_map.landmarks_)
    labels = k.argmax(axis=1)
    for cluster, landmark in enumerate(feature_map.landmarks_):
        members = np.unique(X[labels == cluster], axis=0)
        sums = KERNEL(members).sum(axis=1)
        assert KERNEL(landmark, members)[0].sum() >= sums.max() - 1e-9
    start = LandmarkFeatures(6, random_state=4).fit(X)
    assert k.max(axis=1).sum() >= KERNEL(X, start.landmarks_).max(axis=1).sum()


def test_smaller_random_maps_are_prefixes_and_seeds_differ():
    X = counts(200)
    large = LandmarkFeatures(60, random_state=5).fit(X).landmarks_
    assert (large[:20] != LandmarkFeatures(20, random_state=5).fit(X).landmarks_).nnz == 0
    assert rows_of(large[:20]) != rows_of(LandmarkFeatures(20, random_state=6).fit(X).landmarks_)


def test_rows_are_equally_likely():
    X = np.eye(20, dtype=int)
    hits = sum(LandmarkFeatures(5, random_state=seed).fit(X).transform(X).sum(axis=1) for seed in range(200))
    # Binomial with mean 50 and deviation 6.2: 4.5 deviations in 20 rows once in 7,000 choices of the seeds.
    assert (np.abs(hits - 50) < 4.5 * 6.2).all()


def test_golden_choice(selection):
    """The same seed chooses the same rows for ever; a change here needs a new state version."""
    feature_map = LandmarkFeatures(5, selection=selection, random_state=7).fit(counts())
    rows = [int(np.flatnonzero((counts() == z.toarray()[0]).all(axis=1))[0]) for z in feature_map.landmarks_]
    assert (rows, feature_map.transform(counts()[5:6]).tobytes().hex()) == GOLDEN[selection]


def test_rows_see_neither_their_chunk_nor_their_container():
    X = counts()
    feature_map = LandmarkFeatures(10).fit(X)
    Phi = feature_map.transform(X)
    for other in (sp.csr_matrix(X), sp.csc_array(X), X.astype(float), np.asfortranarray(X)):
        assert feature_map.transform(other).tobytes() == Phi.tobytes()
        assert LandmarkFeatures(10).fit(other).transform(X).tobytes() == Phi.tobytes()
    for step in (1, 7):
        parts = [feature_map.transform(X[i : i + step]) for i in range(0, len(X), step)]
        assert np.concatenate(parts).tobytes() == Phi.tobytes()
    assert feature_map.transform(X[:0]).shape == (0, 10)


def test_pickle_clone_and_state_give_the_same_bytes(selection):
    X = counts()
    feature_map = LandmarkFeatures(10, selection=selection, random_state=1).fit(X)
    expected = feature_map.transform(X).tobytes()
    assert b"_prepared" not in pickle.dumps(feature_map)
    assert pickle.loads(pickle.dumps(feature_map)).transform(X).tobytes() == expected
    assert not clone(feature_map).is_fitted()
    assert clone(feature_map).fit(X).transform(X).tobytes() == expected
    state = json.loads(json.dumps(feature_map.state()))
    restored = from_state(state)
    assert isinstance(restored, FeatureMap)
    assert restored.transform(X).tobytes() == expected
    assert restored.state() == feature_map.state() == LandmarkFeatures.state(clone(feature_map).fit(X))
    assert len(map_key(state)) < 1000
    other = LandmarkFeatures(10, selection=selection, random_state=1).fit(counts(seed=1))
    assert map_key(other.state()) != map_key(state)


@PROPERTY
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(0, 6), st.integers(1, 5)),
        elements=st.sampled_from([0.0, 0.0, 1.0, 65535.0, 65536.0, -1.0, 0.1, 1e-300, np.pi]),
    ),
    st.booleans(),
)
def test_rows_survive_their_text(X, wide):
    matrix = sp.csr_matrix(X)
    if wide:  # columns as those of unfolded identifiers
        indices = matrix.indices.astype(np.int64) * 900_000_000
        matrix = sp.csr_matrix((matrix.data, indices, matrix.indptr), shape=(len(X), 2**32))
    rows = compact(matrix)
    again = decode_rows(json.loads(json.dumps(encode_rows(rows))))
    assert again.dtype == rows.dtype
    assert again.shape == matrix.shape
    assert (again.data == matrix.data).all()
    assert (again.indices == matrix.indices).all()
    assert (again.indptr == matrix.indptr).all()
    assert encode_rows(again) == encode_rows(rows)


def test_a_damaged_state_is_refused():
    state = LandmarkFeatures(5).fit(counts()).state()
    for name, value in (("steps", "AAAA"), ("dtype", "int8"), ("counts", None)):
        landmarks = {**state["fitted"]["landmarks"], name: value}
        with pytest.raises(InputError, match="cannot be read"):
            from_state({**state, "fitted": {**state["fitted"], "landmarks": landmarks}})
    unfitted = from_state(LandmarkFeatures(5).state())
    assert not unfitted.is_fitted()


def test_real_weights_are_kept_exactly():
    X = np.random.default_rng(0).random((20, 6)) * 10.0 ** np.arange(-3, 3)
    feature_map = LandmarkFeatures(20).fit(X)
    assert feature_map.landmarks_.dtype == np.float64
    again = from_state(json.loads(json.dumps(feature_map.state())))
    assert (np.sort(again.landmarks_.toarray(), axis=0) == np.sort(X, axis=0)).all()


def test_distinct_rows_keep_the_order_and_stop_at_the_limit():
    X = sp.csr_matrix([[1, 0], [2, 0], [1, 0], [0, 0], [0, 1], [0, 0]])
    assert distinct_rows(X, np.arange(6)).tolist() == [0, 1, 3, 4]
    assert distinct_rows(X, np.arange(6)[::-1]).tolist() == [5, 4, 2, 1]
    assert distinct_rows(X, np.arange(6), 2).tolist() == [0, 1]


def test_candidates_and_sample_sizes():
    assert LandmarkFeatures(100).sample_size(10**8) == 200
    assert LandmarkFeatures(100).sample_size(150) == 150
    assert LandmarkFeatures(100, selection="kmedoids").sample_size(10**8) == 20_000
    assert LandmarkFeatures(8192, selection="farthest").sample_size(10**8) == 4 * 8192
    assert LandmarkFeatures(8, selection="farthest", n_candidates=50).sample_size(10**8) == 50
    few = LandmarkFeatures(10, selection="farthest", n_candidates=10).fit(counts(100))
    assert rows_of(few.landmarks_) <= rows_of(counts(100))
    with pytest.warns(UserWarning, match="there are 1 landmarks, not 11"):
        LandmarkFeatures(11, selection="farthest", n_candidates=11).fit(np.zeros((30, 3)))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components"),
        ({"random_state": -1}, "random_state"),
        ({"selection": "best"}, "selection must be one of random, kmedoids, kmeans, farthest"),
        ({"n_candidates": 4}, "n_candidates must be .* at least n_components = 5"),
        ({"kernel": "minmax"}, "kernel must be a kernel"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    feature_map = LandmarkFeatures(5).set_params(**parameters)
    for call in (feature_map.fit, feature_map.transform):
        with pytest.raises(InputError, match=message):
            call(counts())
    with pytest.raises(InputError, match=message):
        feature_map.sample_size(10)


def test_bad_input_is_refused():
    X = counts().astype(float)
    feature_map = LandmarkFeatures(5).fit(X)
    with pytest.raises(InputError, match="is not fitted"):
        LandmarkFeatures(5).transform(X)
    with pytest.raises(InputError, match="is not fitted"):
        LandmarkFeatures(5).fit(None).prior_precision()
    with pytest.raises(InputError, match=r"29 columns.* 30"):
        feature_map.transform(X[:, :29])
    with pytest.raises(InputError, match="call fit again"):
        LandmarkFeatures(5).fit(X).set_params(n_components=6).transform(X)
    for value in (-1.0, np.nan, np.inf):
        bad = X.copy()
        bad[17, 4] = value
        for call in (feature_map.transform, LandmarkFeatures(3, selection="random").fit):
            with pytest.raises(InputError, match="row 17, column 4"):
                call(bad)
    with pytest.raises(InputError, match="landmarks need a kernel with"):
        LandmarkFeatures(5, kernel=Doubled()).fit(X)
    assert feature_map.fit(None) is feature_map
    assert feature_map.is_fitted()
    assert isinstance(feature_map.kernel_, Kernel)


def test_another_kernel_is_taken_at_once():
    X = counts()
    feature_map = LandmarkFeatures(5).fit(X)
    feature_map.transform(X)
    other = TanimotoDotProduct(transform="sqrt")
    feature_map.set_params(kernel=other)
    Z = feature_map.landmarks_
    assert (feature_map.transform(X) == other(X, Z).astype(np.float32)).all()
    assert (feature_map.prior_precision() == other(Z)).all()
    assert from_state(feature_map.state()).transform(X).tobytes() == feature_map.transform(X).tobytes()


def test_rows_that_the_kernel_cannot_tell_apart_are_chosen_once(selection):
    same = Composition(DotProduct((1,)))  # 1 for every pair
    feature_map = LandmarkFeatures(10, kernel=same, selection=selection).fit(counts())
    assert len(rows_of(feature_map.landmarks_)) == 10
