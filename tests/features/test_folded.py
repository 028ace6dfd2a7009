"""Fingerprints folded as they are read, and maps of them."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daskrf import FingerprintSpec
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.features import (
    CompositionFeatures,
    FastfoodDotProductFeatures,
    FastfoodFeatures,
    FeatureMap,
    FoldedFeatures,
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    MeanFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    TanimotoMinMaxFeatures,
    from_state,
)
from daskrf.gp import gp_for
from daskrf.kernels import Gaussian, Polynomial, TanimotoMinMax
from daskrf.kernels import from_state as kernel_from_state
from daskrf.kernels.folding import UNFOLDED, Folded, folded_rows
from daskrf.molecules import Fingerprinter
from tests.kernels.values import limits
from tests.naive.fingerprints import folded

SMILES = [*ReactionLibrary().smiles(0, 40), "[He]", "C" * 60]
KINDS = ["morgan:1", "lingo", "morgan:2:features"]
GAUSSIAN = Gaussian(9.0)

_row = st.dictionaries(
    st.one_of(st.integers(0, 3 * UNFOLDED - 1), st.sampled_from([0, 7, 8, UNFOLDED - 1, UNFOLDED])),
    st.sampled_from([1, 2, 40_000, 65_535]),
    max_size=9,
)


def matrix(rows: list[dict[int, int]], dtype: type = np.uint16) -> sp.csr_matrix:
    """Return rows of {column: count}, of three kinds, as a matrix."""
    X = sp.csr_matrix((len(rows), 3 * UNFOLDED), dtype=dtype)
    X.indptr = np.cumsum([0, *map(len, rows)], dtype=np.int64)
    X.indices = np.array([column for row in rows for column in sorted(row)], np.int64)
    X.data = np.array([row[column] for row in rows for column in sorted(row)], dtype)
    return X


def fingerprints(spec: FingerprintSpec) -> sp.csr_matrix:
    return Fingerprinter(spec)(SMILES).fingerprints


def assert_same(one: sp.csr_matrix, other: sp.csr_matrix) -> None:
    assert one.shape == other.shape
    for name in ("data", "indices", "indptr"):
        left, right = getattr(one, name), getattr(other, name)
        assert (left.dtype, left.tolist()) == (right.dtype, right.tolist()), name


@limits
@given(
    st.lists(_row, max_size=6),
    st.sampled_from([1, 3, 8, 1000]),
    st.sets(st.integers(0, 2)),
    st.booleans(),
)
def test_rows_are_folded_as_in_the_naive_version(
    rows: list[dict[int, int]], size: int, hashed: set[int], binary: bool
) -> None:
    actual = folded_rows(matrix(rows), size, tuple(hashed), binary)
    assert actual.shape == (len(rows), 3 * size)
    assert actual.dtype == np.uint16
    assert actual.has_canonical_format
    for number, row in enumerate(rows):
        folded_row = actual[number]
        assert dict(zip(folded_row.indices.tolist(), folded_row.data.tolist(), strict=True)) == folded(
            row, size, tuple(hashed), binary
        )


def test_real_values_are_added_without_a_limit() -> None:
    X = matrix([{3: 1, 11: 1, UNFOLDED + 3: 1}], np.float64) * 50_000.5
    assert folded_rows(X, 8).toarray()[0, [3, 11]].tolist() == [100_001.0, 50_000.5]


def test_rows_do_not_depend_on_those_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    X = fingerprints(FingerprintSpec(KINDS))
    whole = folded_rows(X, 100, (1,))
    monkeypatch.setattr("daskrf.kernels.folding._ROWS", 7)
    assert_same(folded_rows(X, 100, (1,)), whole)
    assert_same(folded_rows(X[5:9], 100, (1,)), whole[5:9])


@pytest.mark.parametrize("size", [64, 1000])
@pytest.mark.parametrize("kind", ["morgan:1", "morgan:2:features", "rdkit", "lingo", KINDS], ids=str)
@pytest.mark.parametrize("counts", [True, False], ids=["counts", "binary"])
def test_fingerprints_are_folded_to_the_bytes_of_size(kind: str | list[str], size: int, counts: bool) -> None:
    spec = FingerprintSpec(kind, counts=counts)
    actual = folded_rows(fingerprints(spec), size, spec.hashed, not counts)
    assert_same(actual, fingerprints(FingerprintSpec(kind, counts=counts, size=size)))


@pytest.mark.parametrize("kind", ["atompair", "torsion"])
def test_kinds_that_rdkit_hashes_anew_use_all_columns(kind: str) -> None:
    """Identifiers of atom pairs share their last bits; without a hash they would crowd a few columns."""
    spec = FingerprintSpec(kind)
    X = fingerprints(spec)
    actual = folded_rows(X, 4096, spec.hashed)
    assert actual.sum(axis=1).tolist() == X.sum(axis=1).tolist()
    n_ids = np.unique(X.indices).size
    by_chance = 4096 * (1 - (1 - 1 / 4096) ** n_ids)
    assert np.unique(actual.indices).size > 0.9 * by_chance


@pytest.mark.parametrize("n_columns", [1024, UNFOLDED + 1, UNFOLDED - 1])
def test_rows_that_are_not_unfolded_are_refused(n_columns: int) -> None:
    X = sp.csr_matrix((2, n_columns), dtype=np.uint16)
    for refused in (
        lambda: folded_rows(X, 8),
        lambda: Folded(TanimotoMinMax(), 8)(X),
        lambda: FoldedFeatures(size=8).transform(X),
        lambda: FoldedFeatures(size=8).check_columns(n_columns),
    ):
        with pytest.raises(InputError, match="only unfolded fingerprints"):
            refused()


@pytest.mark.parametrize("inner", [TanimotoMinMax(), GAUSSIAN, Polynomial(2)], ids=repr)
def test_the_kernel_is_that_of_folded_rows(inner: object) -> None:
    spec = FingerprintSpec(KINDS)
    X, Y = fingerprints(spec), fingerprints(FingerprintSpec(KINDS, size=100))
    kernel = Folded(inner, 100, spec.hashed)
    assert kernel(X[:9], X).tolist() == inner(Y[:9], Y).tolist()
    assert kernel.against_single(X)(X[:9]).tolist() == inner.against_single(Y)(Y[:9]).tolist()
    assert kernel.diag(X).tolist() == inner.diag(Y).tolist()
    assert kernel.has_unit_diagonal == inner.has_unit_diagonal
    assert kernel_from_state(json.loads(json.dumps(kernel.state()))) == kernel
    assert "folded to 100 columns a kind" in kernel.words()


MAPS: list[FeatureMap] = [
    FastfoodFeatures(GAUSSIAN, 64, random_state=3),
    FastfoodDotProductFeatures(n_components=64),
    RandomFourierFeatures(GAUSSIAN, 64),
    RandomFourierFeatures(GAUSSIAN, 64, orthogonal=True),
    TanimotoMinMaxFeatures(72, random_state=1),
    GaussianMaclaurinFeatures(length_scale=9.0, n_components=64),
    RandomMaclaurinFeatures(Polynomial(2, normalize=False), n_components=64),
    CompositionFeatures(inner=FastfoodFeatures(GAUSSIAN), n_components=64),
    MeanFeatures((1, 2, 1), n_components=72),
    MeanFeatures((1, 2, 1), FastfoodFeatures(GAUSSIAN), n_components=66),
]


@pytest.mark.parametrize("inner", MAPS, ids=repr)
def test_features_are_those_of_a_fit_to_folded_rows(inner: FeatureMap) -> None:
    """Also those of a restored copy, of a pickled one, and of one fitted to parts of a library."""
    spec = FingerprintSpec(KINDS)
    X, Y = fingerprints(spec), fingerprints(FingerprintSpec(KINDS, size=100))
    feature_map = FoldedFeatures.of(inner, 100, spec.hashed)
    reference = inner.for_folded(100).fit(Y)
    state = json.dumps(feature_map.fit(X).state())
    for each in (feature_map, from_state(json.loads(state)), pickle.loads(pickle.dumps(feature_map))):
        assert each.is_fitted()
        assert json.dumps(each.state()) == state
        assert each.transform(X).tobytes() == reference.transform(Y).tobytes()
        assert each.transform_nearest(X).tobytes() == reference.transform_nearest(Y).tobytes()
        assert each.kernel_(X[:3], X).tolist() == reference.kernel_(Y[:3], Y).tolist()
        assert each.one_bit == reference.one_bit
        if each.one_bit:
            assert each.transform_bits(X).tobytes() == reference.transform_bits(Y).tobytes()
    if inner.learns_from != "sample":
        parts = FoldedFeatures.of(inner, 100, spec.hashed)
        parts.fit_summaries([parts.summarize(half) for half in (X[30:], X[:30])])
        assert json.dumps(parts.state()) == state


def test_number_of_features_and_seed_are_those_of_the_folding_map() -> None:
    X = fingerprints(FingerprintSpec("morgan"))
    Y = fingerprints(FingerprintSpec("morgan", size=100))
    feature_map = FoldedFeatures(FastfoodFeatures(GAUSSIAN), 100, n_components=32, random_state=4)
    assert feature_map.transform(X).tobytes() == (
        FastfoodFeatures(GAUSSIAN, 32, random_state=4).transform(Y).tobytes()
    )
    again = feature_map.set_params(n_components=48)
    assert again.transform(X).shape == (len(SMILES), 48)


def test_a_process_of_folded_features_is_that_of_the_features() -> None:
    spec = FingerprintSpec(KINDS)
    X, Y = fingerprints(spec), fingerprints(FingerprintSpec(KINDS, size=100))
    y = np.sin(np.arange(X.shape[0]))
    inner = FastfoodFeatures(GAUSSIAN, 64)
    folding = gp_for(FoldedFeatures.of(inner, 100, spec.hashed)).fit(X, y)
    assert folding.predict(X).tolist() == gp_for(inner).fit(Y, y).predict(Y).tolist()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (FoldedFeatures(size=0), "size must be an integer from 1"),
        (FoldedFeatures(size=2.5), "size must be an integer from 1"),  # type: ignore[arg-type]
        (FoldedFeatures(FoldedFeatures()), "does not fold by itself"),
        (FoldedFeatures(LandmarkFeatures(8)), "LandmarkFeatures is not a map for folded fingerprints"),
        (FoldedFeatures(FastfoodFeatures(n_components=1)), "n_components must be"),
    ],
)
def test_bad_parameters_are_refused(bad: FoldedFeatures, words: str) -> None:
    if isinstance(bad.inner, FastfoodFeatures):
        bad.set_params(n_components=1)
    with pytest.raises(InputError, match=words):
        bad.fit(None)
