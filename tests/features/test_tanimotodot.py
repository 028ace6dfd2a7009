"""Features of the dot-product Tanimoto kernel: oracle, bytes, the range of norms, and bad input."""

from __future__ import annotations

import json
import math
import pickle
import re
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from daskrf.errors import InputError
from daskrf.features import TanimotoDotProductFeatures, from_state
from daskrf.features.sketches import prefactor, tensorsketch
from daskrf.features.sketches.prefactor import PrefactorFeatures
from daskrf.features.sketches.tensorsketch import allocate, fast_length
from daskrf.kernels import TanimotoDotProduct
from tests.floats import assert_agree
from tests.jit import jit_disabled
from tests.naive import sketch as naive

CORRECTIONS = [None, "normalize", "residual"]


def wide_rows(n: int, *, real: bool = False) -> sp.csr_matrix:
    """Return sparse rows with columns up to 2**32 - 1, made without a generator; row 2 is empty."""
    entry = np.arange(n * 11, dtype=np.uint64)
    columns = (entry % np.uint64(37) * np.uint64(2_654_435_761) % np.uint64(2**32)).astype(np.int64)
    columns[::23] = 2**32 - 1
    counts = entry.astype(np.int64) ** 2 % 7 + 1
    counts[22:33] = 0
    row = np.repeat(np.arange(n), 11)
    data = counts * np.where(entry % np.uint64(3) == 0, -0.37, 0.91) if real else counts
    return sp.coo_matrix((data, (row, columns)), shape=(n, 2**32)).tocsr()


@pytest.mark.parametrize(
    ("residual", "n_terms", "n_components"), [(False, 3, 30), (True, 1, 17), (True, 2, 61)]
)
def test_features_agree_with_the_oracle(residual: bool, n_terms: int, n_components: int) -> None:
    rows = [{3: 1.0, 7: 2.0, 2**32 - 1: -1.5}, {0: 1.0, 3: 2.0, 5: 0.5, 9: -1.0}]
    X = sp.csr_matrix(
        ([v for row in rows for v in row.values()], [c for row in rows for c in row], [0, 3, 7]),
        shape=(2, 2**32),
    )
    feature_map = TanimotoDotProductFeatures(
        n_components,
        n_terms=n_terms,
        bias_correction="residual" if residual else None,
        n_prefactor=64,
        input_transform=None,
        norm_range=(3, 12),
        random_state=5,
    )
    sizes = allocate(n_components, n_terms + residual, -1.0)
    expected = [
        naive.series_features(row, sizes, (3, 12), 5, n_prefactor=64, residual=residual) for row in rows
    ]
    np.testing.assert_allclose(feature_map.transform(X), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("correction", "golden"),
    [
        (None, "236a523bbaab753bb8ac8bbbd240ef3d16e2a63ad45d0bb9b3f270bc9eb0df3c"),
        ("normalize", "6b875d3be052813b700d93bb11e4fb3d37c8a23a11f107b9e2066bbc5f31da3c"),
        ("residual", "708c84bbb33b353e789830ba0df0023d8735a33af8e632be43c37f3b6dd4f1b5"),
    ],
)
def test_golden_features_of_wide_counts(correction: str | None, golden: str) -> None:
    """The same features for ever; a change needs a new state version."""
    Phi = TanimotoDotProductFeatures(130, bias_correction=correction, random_state=3).fit_transform(
        wide_rows(9)
    )
    expected = np.frombuffer(bytes.fromhex(golden), np.float32).reshape(2, 4)
    assert_agree(Phi[:2, [0, 60, 90, 129]], expected)


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("real", [False, True])
def test_bytes_do_not_depend_on_chunks_or_order(correction: str | None, real: bool) -> None:
    n = 12 if jit_disabled() else 1000
    X = wide_rows(n, real=real)
    options = {"bias_correction": correction, "input_transform": None if real else "sqrt"}
    feature_map = TanimotoDotProductFeatures(61 if jit_disabled() else 251, **options).fit(X)
    whole = feature_map.transform(X)
    for step in (1, 5, 8, 9, 64):
        # Another map each time: whatever this one keeps by norm, it has not met the norms in that order.
        other = from_state(json.loads(json.dumps(feature_map.state())))
        starts = list(range(0, min(n, 40 * step), step))[::-1]
        for start in starts:
            assert other.transform(X[start : start + step]).tobytes() == whole[start : start + step].tobytes()
    order = np.random.default_rng(1).permutation(n)
    assert feature_map.transform(X[order]).tobytes() == whole[order].tobytes()


def test_bytes_do_not_depend_on_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 12 if jit_disabled() else 700
    X = wide_rows(n, real=True)
    X.data *= np.repeat(1.0 + np.arange(n) / n, np.diff(X.indptr))
    feature_map = TanimotoDotProductFeatures(61, input_transform=None).fit(X)
    whole = feature_map.transform(X)
    assert len(feature_map._cached.value._table.slots) >= n - 1  # as good as every row has a norm of its own
    monkeypatch.setattr(tensorsketch, "CACHE_BYTES", 1)
    forgetful = from_state(feature_map.state())
    for _ in range(3):
        assert forgetful.transform(X).tobytes() == whole.tobytes()
    table = forgetful._cached.value._table
    assert len(table.slots) <= 64 == len(table.arrays[0])
    with ThreadPoolExecutor(4) as threads:
        for actual in threads.map(forgetful.transform, [X, X[::-1]] * 4):
            assert actual.tobytes() in (whole.tobytes(), whole[::-1].tobytes())


def test_normalised_features_are_the_plain_ones_over_their_length() -> None:
    X = wide_rows(20)
    plain = TanimotoDotProductFeatures(77).fit_transform(X).astype(float)
    unit = TanimotoDotProductFeatures(77, bias_correction="normalize").fit_transform(X)
    np.testing.assert_allclose(unit, plain / np.linalg.norm(plain, axis=1)[:, None], rtol=3e-7)
    np.testing.assert_allclose(np.sum(unit.astype(float) ** 2, axis=1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_rows_of_zeros_are_alike_and_far_from_others(correction: str | None) -> None:
    X = wide_rows(4)
    Phi = TanimotoDotProductFeatures(501, bias_correction=correction).fit(X).transform(X[[2, 0, 2]])
    assert (Phi[0] == Phi[2]).all()
    assert Phi[0] @ Phi[0] == pytest.approx(1.0)
    # The mean of random signs: beyond 5 standard deviations for one seed in 1.7 million.
    assert abs(Phi[0] @ Phi[1]) < 5 / np.sqrt(501) * np.linalg.norm(Phi[1])


def test_a_single_row_is_enough() -> None:
    x = np.array([[0, 3, 1]])
    feature_map = TanimotoDotProductFeatures(400, bias_correction="normalize").fit(x)
    assert feature_map.norm_range_ == (4.0, 4.0)
    assert feature_map.transform(x).shape == (1, 400)
    Phi = feature_map.transform(x * 3)
    assert Phi @ Phi.T == pytest.approx(1.0)


@settings(derandomize=True, deadline=None, max_examples=300)
@given(
    st.integers(1, 20_000),
    st.integers(1, 12),
    st.floats(-60, 60) | st.sampled_from([-1e308, 1e308, 1.79e308]),
)
def test_allocation_uses_every_feature(n_components: int, n_terms: int, allocation: float) -> None:
    n_components = max(n_components, n_terms)
    sizes = allocate(n_components, n_terms, allocation)
    assert sum(sizes) == n_components
    assert min(sizes) >= 1
    assert all(size == fast_length(size) for size in sizes[1:])
    if allocation <= 0:
        assert all(a >= b for a, b in pairwise(sizes))


@settings(derandomize=True, deadline=None, max_examples=100)
@given(st.integers(1, 10**6))
def test_fast_length_is_a_product_of_small_primes(length: int) -> None:
    actual = rest = fast_length(length)
    for prime in (2, 3, 5):
        while rest % prime == 0:
            rest //= prime
    assert rest == 1
    # Powers of two alone leave gaps of a half.
    assert length / 2 < actual <= length


def test_the_kernel_and_the_names() -> None:
    assert TanimotoDotProductFeatures(n_terms=3).kernel_ == TanimotoDotProduct("sqrt", n_terms=3)
    for correction in ("normalize", "residual"):
        feature_map = TanimotoDotProductFeatures(bias_correction=correction, input_transform=None)
        assert feature_map.kernel_ == TanimotoDotProduct(None)
    assert list(TanimotoDotProductFeatures(8).get_feature_names_out()[[0, 7]]) == [
        "tanimotodotproduct0",
        "tanimotodotproduct7",
    ]


def test_what_is_kept_is_not_pickled_and_follows_the_parameters() -> None:
    X = wide_rows(6)
    feature_map = TanimotoDotProductFeatures(64)
    fitted = len(pickle.dumps(feature_map.fit(X)))
    first = feature_map.transform(X)
    assert len(pickle.dumps(feature_map)) == fitted
    assert (pickle.loads(pickle.dumps(feature_map)).transform(X) == first).all()
    assert (feature_map.set_params(random_state=1).transform(X) != first).any()
    assert (feature_map.set_params(random_state=0).transform(X) == first).all()


# The range of norms.


def test_summaries_merge_in_any_order_and_pass_through_json() -> None:
    X = wide_rows(30, real=True)
    feature_map = TanimotoDotProductFeatures(32, input_transform=None)
    whole = feature_map.summarize(X)
    assert json.loads(json.dumps(whole)) == whole
    parts = [feature_map.summarize(X[a:b]) for a, b in ((20, 30), (2, 3), (0, 20), (5, 5))]
    assert parts[1] == {"n_features_in": 2**32, "smallest": None, "largest": None} == parts[3]
    merged = TanimotoDotProductFeatures(32, input_transform=None).fit_summaries(iter(parts))
    assert merged.norm_range_ == (whole["smallest"], whole["largest"])
    assert merged.state() == feature_map.fit(X).state()
    assert from_state(json.loads(json.dumps(merged.state()))).norm_range_ == merged.norm_range_


def test_nothing_to_fit_to_and_unequal_parts_are_refused() -> None:
    feature_map = TanimotoDotProductFeatures(32)
    for summaries in ([], [feature_map.summarize(np.zeros((3, 5)))]):
        with pytest.raises(InputError, match="None of the rows to fit to has a feature"):
            feature_map.fit_summaries(summaries)
    assert not feature_map.is_fitted()
    assert not hasattr(feature_map, "norm_range_")
    parts = [feature_map.summarize(np.ones((1, width))) for width in (3, 4)]
    with pytest.raises(InputError, match="3 and 4 columns"):
        feature_map.fit_summaries(parts)


def test_an_unfitted_map_says_so() -> None:
    for feature_map in (TanimotoDotProductFeatures(32), TanimotoDotProductFeatures(32).fit(None)):
        with pytest.raises(InputError, match=r"is not fitted: .* norm_range"):
            feature_map.transform([[1, 2]])


def test_a_given_range_needs_no_fit_and_is_kept_by_it() -> None:
    X = wide_rows(6)
    feature_map = TanimotoDotProductFeatures(32, norm_range=(10, 50.5))
    assert feature_map.is_fitted()
    Phi = feature_map.transform(X)
    restored = from_state(json.loads(json.dumps(feature_map.fit(X).state())))
    assert restored.norm_range_ == feature_map.norm_range_ == (10.0, 50.5)
    assert (restored.transform(X) == Phi).all()
    # Only rows of zeros: still a range.
    assert feature_map.fit(np.zeros((2, 3))).norm_range_ == (10.0, 50.5)


@pytest.mark.parametrize(
    "norm_range", [[1, 9], (np.float32(1), np.int64(9)), np.array([1, 9]), np.array([1.0, 9.0], np.float32)]
)
def test_a_range_is_given_as_any_two_numbers(norm_range: object) -> None:
    feature_map = TanimotoDotProductFeatures(np.int32(32), allocation=np.float32(-1), norm_range=norm_range)
    expected = TanimotoDotProductFeatures(32, norm_range=(1, 9)).transform([[1, 2]])
    restored = from_state(json.loads(json.dumps(feature_map.state())))
    for each in (feature_map, restored, clone(feature_map), pickle.loads(pickle.dumps(feature_map))):
        assert each.norm_range_ == (1.0, 9.0)
        assert each.transform([[1, 2]]).tobytes() == expected.tobytes()
    assert restored.state() == feature_map.state()


@pytest.mark.parametrize(
    "norm_range",
    [(0, 1), (2, 1), (1, np.inf), (1,), "12", 3.0, (np.nan, 1), (True, 2), (None, 1), (1, 10**400)],
)
def test_a_bad_range_is_refused(norm_range: object) -> None:
    with pytest.raises(InputError, match="norm_range"):
        TanimotoDotProductFeatures(32, norm_range=norm_range).fit([[1]])


def test_a_row_near_the_range_is_served_right_and_a_stranger_is_refused() -> None:
    X = np.array([[40, 40, 40], [100, 100, 100]])
    feature_map = TanimotoDotProductFeatures(4000, bias_correction="normalize").fit(X)
    assert feature_map.norm_range_ == (120.0, 300.0)
    near = np.array([[5, 4, 3], [1000, 900, 1100], [0, 0, 0]])
    error = TanimotoDotProduct("sqrt")(near) - (Phi := feature_map.transform(near)) @ Phi.T
    assert np.abs(error).max() < 0.2
    for far in ([0, 0, 0.1], [10**7, 0, 0]):
        with pytest.raises(
            InputError, match=rf"Row 3 .* norm {re.escape(f'{sum(far):g}')}.* 120 to 300 .*whole library"
        ):
            feature_map.transform(np.vstack([near, [far]]))


def test_ranges_that_the_prefactor_features_cannot_serve_are_refused() -> None:
    X = np.array([[1, 0], [10**6, 0]])
    with pytest.raises(InputError, match=r"64 prefactor features err by .* raise n_prefactor"):
        TanimotoDotProductFeatures(64).fit(X)
    Phi = TanimotoDotProductFeatures(64, n_prefactor=512, bias_correction="normalize").fit_transform(X)
    np.testing.assert_allclose(np.linalg.norm(Phi, axis=1), 1.0, rtol=1e-6)
    for norm_range in ((1e-9, 1e20), (1e-300, 1e20), (5e-324, 1.0), (1e-300, 1e300)):
        feature_map = TanimotoDotProductFeatures(64, norm_range=norm_range)
        for call in (feature_map.fit, feature_map.transform):
            with pytest.raises(InputError, match="raise n_prefactor"):
                call([[1]])
    for n_prefactor in (1, 2, 8):
        with pytest.raises(InputError, match=f"{n_prefactor} prefactor features err by"):
            TanimotoDotProductFeatures(64, n_prefactor=n_prefactor).fit([[1, 5], [2, 0]])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("norm", "value"), [(1e300, 1e-290), (1e-300, 1e290), (1.0, 1e290), (1.0, 1e-290), (1.0, 3e-308)]
)
def test_rows_beyond_all_bounds_are_refused_without_warnings(norm: float, value: float) -> None:
    feature_map = TanimotoDotProductFeatures(64, norm_range=(norm, norm))
    with pytest.raises(InputError, match="Row 1 has the squared norm"):
        feature_map.transform([[norm, 0], [0, value]])


@pytest.mark.parametrize("zeta", [1.0, 0.9, 0.3, 0.037, 0.01, 0.001])
def test_64_prefactor_features_serve_norms_that_differ_little_or_much(zeta: float) -> None:
    for offset in (0.01, 0.3, 0.77):
        assert PrefactorFeatures([1, 2, 3, 4], 64, zeta, [offset] * 4).largest_error() < 1e-7


def test_the_prefactor_features_agree_with_the_oracle() -> None:
    features = PrefactorFeatures([1, 3, 6], 16, 0.04, [0.2, 0.6, 0.9])
    norms = np.array([0.04, 0.3, 1.0, 2.0])
    for norm, row in zip(norms.tolist(), features(norms), strict=True):
        for actual, r, offset in zip(row, (1, 3, 6), (0.2, 0.6, 0.9), strict=True):
            plain = [naive.prefactor(n, r, 16, 0.04, offset) for n in (norm, 0.36)]
            np.testing.assert_allclose(actual, naive.mirrored(*plain), atol=1e-8)


def test_the_prefactor_features_of_a_norm_do_not_see_the_others() -> None:
    features = PrefactorFeatures([1, 2, 4], 63, 0.01, [0.2, 0.6, 0.9])
    norms = np.random.default_rng(0).uniform(0.01, 1.0, 200)
    whole = features(norms)
    for some in (slice(3, 4), slice(3, 70), slice(199, None, -1)):
        assert features(norms[some]).tobytes() == whole[some].tobytes()


def test_the_last_bits_of_a_mathematical_library_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Machines and versions differ in them; the features are the same to the last of their own bits."""
    arguments = ([1, 2, 3, 4], 64, 0.03, [0.1, 0.4, 0.6, 0.8])
    norms = np.linspace(0.03, 1.0, 50)
    whole = PrefactorFeatures(*arguments)(norms)
    for module, names in ((prefactor, ("gammaincinv", "gammaln")), (np, ("exp", "log"))):
        for name in names:
            exact = getattr(module, name)
            monkeypatch.setattr(module, name, lambda *x, f=exact, **kw: f(*x, **kw) * (1 + 1e-15))
    assert np.log(2.0) != math.log(2.0)
    assert PrefactorFeatures(*arguments)(norms).tobytes() == whole.tobytes()


def test_exponential_and_logarithm_are_as_exact_as_a_library() -> None:
    x = np.random.default_rng(0).uniform(-700, 700, 20_000)
    np.testing.assert_allclose(prefactor.exp(x), np.exp(x), rtol=5e-16)
    np.testing.assert_allclose(prefactor._log(np.exp(x)), np.log(np.exp(x)), rtol=5e-16)
    near = 1 + np.linspace(-0.5, 1, 1001)
    np.testing.assert_allclose(prefactor._log(near), np.log(near), rtol=5e-16)
    assert prefactor.exp(np.array([-np.inf, -1e9, 0.0])).tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("factor", [1.0, 0.3, 1 / 200])
def test_norms_far_outside_the_range_are_served(factor: float) -> None:
    for seed in range(2):
        feature_map = TanimotoDotProductFeatures(16, norm_range=(factor, 1.0), random_state=seed)
        ends = np.diag([min(factor / 10, 1 / 500), factor / 3, 3.0, 10.0])
        assert np.isfinite(feature_map.transform(ends)).all()
    with pytest.raises(InputError, match=f"Row 3 has the squared norm {factor / 1e5:.6g}"):
        feature_map.transform(np.vstack([ends[:3], [factor / 1e5, 0, 0, 0]]))


# Bad input.


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"polynomial": "maclaurin"}, "polynomial must be tensorsketch, not 'maclaurin'"),
        ({"bias_correction": "none"}, "bias_correction must be one of normalize, residual, None"),
        ({"input_transform": "log"}, "input_transform must be one of sqrt, None"),
        ({"n_terms": 0}, "n_terms must be a positive integer"),
        ({"n_terms": 2.0}, "n_terms must be a positive integer"),
        ({"n_prefactor": True}, "n_prefactor must be a positive integer"),
        ({"allocation": np.nan}, "allocation must be a finite number"),
        ({"allocation": "-1"}, "allocation must be a finite number"),
        ({"allocation": 10**400}, "allocation must be a finite number"),
        ({"allocation": Fraction(-1, 2)}, "allocation must be a finite number"),
        ({"n_components": 3}, "n_components is 3, but 4 terms need"),
        ({"n_components": 4, "bias_correction": "residual"}, "4 terms and the residual need"),
        ({"n_components": 0}, "n_components must be a positive integer"),
        ({"random_state": -1}, "random_state must be"),
    ],
)
def test_bad_parameters_are_refused(options: dict, words: str) -> None:
    feature_map = TanimotoDotProductFeatures(**{"n_components": 16, "norm_range": (1, 2), **options})
    for call in (feature_map.fit, feature_map.transform, feature_map.summarize):
        with pytest.raises(InputError, match=words):
            call([[1, 1]])


def test_the_smallest_maps_work() -> None:
    X = np.array([[2, 1], [1, 1]])
    for correction in CORRECTIONS:
        for n_terms in (1, 2, 4):
            least = n_terms + (correction == "residual")
            for n_components in range(least, 11):
                options = {"n_terms": n_terms, "bias_correction": correction}
                Phi = TanimotoDotProductFeatures(n_components, **options).fit_transform(X)
                assert Phi.shape == (2, n_components)
                assert np.isfinite(Phi).all()
                assert Phi.any(axis=0).all()


def test_empty_matrices_of_any_width() -> None:
    feature_map = TanimotoDotProductFeatures(8, norm_range=(1, 2))
    assert feature_map.transform(np.zeros((0, 3))).shape == (0, 8)
    Phi = feature_map.transform(np.zeros((2, 0)))
    np.testing.assert_allclose(Phi @ Phi.T, 1.0)


def test_values_that_cannot_be_served_are_refused_by_row_and_column() -> None:
    X = np.array([[1.0, 2.0], [0.0, -3.0], [-9.0, 1.0]])
    feature_map = TanimotoDotProductFeatures(16, norm_range=(1, 10))
    with pytest.raises(
        InputError, match=r"Value -3\.0 in row 1, column 1 is negative .*input_transform=None"
    ):
        feature_map.fit(X)
    with pytest.raises(InputError, match="row 1, column 1"):
        feature_map.transform(X)
    feature_map = TanimotoDotProductFeatures(16, input_transform=None).fit(X)
    assert feature_map.transform(X).shape == (3, 16)
    for value in (np.nan, np.inf):
        with pytest.raises(InputError, match="row 0, column 1 is not a finite"):
            feature_map.transform([[1.0, value]])
    for value in (1e200, 1e-200):
        with pytest.raises(InputError, match="row 1 is too large or too small"):
            feature_map.fit([[1.0, 1.0], [value, 0.0]])


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_counts_of_any_type_give_the_same_bytes(correction: str | None) -> None:
    X = wide_rows(9)
    feature_map = TanimotoDotProductFeatures(61, bias_correction=correction).fit(X)
    whole = feature_map.transform(X)
    for dtype in (np.uint16, np.float32, np.float64):
        assert feature_map.transform(X.astype(dtype)).tobytes() == whole.tobytes()
    roots = X.astype(float).sqrt().astype(np.float32)
    plain = TanimotoDotProductFeatures(61, input_transform=None, bias_correction=correction).fit(roots)
    # Squared norms that differ in the last bits of single precision.
    np.testing.assert_allclose(plain.transform(roots), whole, atol=1e-5)
