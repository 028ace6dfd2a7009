"""The optimized Maclaurin map of the Gaussian kernel: allocation, centre, predicted and measured errors."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.features import GaussianMaclaurinFeatures, from_state
from daskrf.features.gaussianmaclaurin import _centre, _centred_moments, _monomials
from daskrf.features.sketches.allocation import BestSizes, SeriesErrors, incremental, optimal_allocation
from daskrf.features.sketches.variances import Moments, sketch_variance
from daskrf.kernels import TruncatedGaussian
from tests.features.maps import counts, reals
from tests.jit import jit_disabled
from tests.kernels.values import limits
from tests.naive.projections import greedy

compiled_only = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")


def gaussian(X: np.ndarray, length_scale: float) -> np.ndarray:
    return np.exp(-np.square(X[:, None] - X).sum(axis=2) / (2 * length_scale**2))


@given(st.lists(st.floats(1e-12, 1e6), min_size=1, max_size=8), st.integers(8, 120))
@limits
def test_the_incremental_algorithm(sums: list[float], budget: int) -> None:
    """The start near the optimum changes nothing: one feature at a time from one each errs as little."""
    sizes = incremental(lambda n, size: sums[n - 1] / size, sums, 1, budget)
    slow = greedy([[s / size for size in range(1, budget + 2)] for s in sums], budget)
    assert sum(sizes) == sum(slow) == budget
    assert min(sizes) >= 1
    error, least = (sum(s / size for s, size in zip(sums, actual, strict=True)) for actual in (sizes, slow))
    assert error <= least * (1 + 1e-12)


@pytest.mark.parametrize("method", ["rademacher", "tensorsrht"])
@pytest.mark.parametrize("seed", range(4))
def test_the_allocation_is_the_best_of_all(seed: int, method: str) -> None:
    """Every way to give 7 features to up to 4 degrees, or to all monomials of the first ones."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 2 + seed % 3)) * 0.8
    errors = SeriesErrors(*moments_of(X), method)
    best = math.inf
    for n_explicit in range(4):
        explicit = sum(math.comb(n + X.shape[1] - 1, n) for n in range(1, n_explicit + 1))
        for p in range(n_explicit, 8):
            for sizes in itertools.product(range(1, 8), repeat=p - n_explicit):
                if explicit + sum(sizes) <= 7:
                    variance = sum(errors.variance(n_explicit + 1 + k, size) for k, size in enumerate(sizes))
                    best = min(best, variance + errors.bias[p])
    actual = optimal_allocation(errors, 7, X.shape[1])
    assert abs(actual.error - best) <= 1e-12 * best
    assert sum(actual.sizes) <= 7


@pytest.mark.parametrize("seed", range(5))
def test_sizes_of_blocks_are_the_best_of_all(seed: int) -> None:
    """Against every pair of sizes, where two degrees share 200 features in blocks of 16 or 32."""
    rng = np.random.default_rng(seed)
    errors = SeriesErrors(*moments_of(rng.normal(size=(30, 16 + seed)) * 0.3), "tensorsrht")
    tables = [errors.variances(n, np.arange(1, 201)) for n in (1, 2)]
    pairs = tables[0][:, None] + tables[1]
    pairs[np.add.outer(np.arange(1, 201), np.arange(1, 201)) > 200] = np.inf
    best = BestSizes(lambda n: tables[n - 1], 1, 200)
    best.add()
    assert best.add() == pytest.approx(pairs.min(), rel=1e-12)
    sizes = best.sizes()
    assert pairs[sizes[0] - 1, sizes[1] - 1] == pairs.min()
    incremented = incremental(errors.variance, errors.sums[1:3].tolist(), 1, 200)
    assert pairs.min() <= pairs[incremented[0] - 1, incremented[1] - 1]


def moments_of(U: np.ndarray) -> tuple[Moments, np.ndarray]:
    rows = sp.csr_matrix(U)
    whole = Moments.of(rows, rows)
    pairs = np.triu_indices(len(U), 1)
    norms = np.sum(U * U, axis=1)
    different = Moments(
        *(np.atleast_1d(m[pairs]) for m in (whole.dot, np.outer(norms, norms), _overlap(U))), whole.width
    )
    return different, (norms[pairs[0]] + norms[pairs[1]]) / 2


def _overlap(U: np.ndarray) -> np.ndarray:
    return (U * U) @ (U * U).T


@pytest.mark.parametrize("method", ["rademacher", "tensorsrht"])
def test_errors_are_those_of_the_sketches(method: str) -> None:
    U = np.random.default_rng(1).normal(size=(9, 5))
    errors = SeriesErrors(*moments_of(U), method)
    pairs = np.triu_indices(9, 1)
    norms = np.sum(U * U, axis=1)
    weight = np.exp(-norms[:, None] - norms)
    for n in (1, 2, 5):
        for size in (3, 8, 20):
            variance = sketch_variance(U, degree=n, n_components=size, method=method) * weight
            expected = np.mean(variance[pairs]) / math.factorial(n) ** 2
            np.testing.assert_allclose(errors.variance(n, size), expected, rtol=1e-9, atol=1e-18)
    for p in (0, 1, 4, 12):
        missing = gaussian(U, 1.0) - TruncatedGaussian(1.0, p)(U)
        np.testing.assert_allclose(errors.bias[p], np.mean(np.square(missing[pairs])), rtol=1e-6, atol=1e-18)


def test_centred_moments_of_sparse_rows() -> None:
    X = counts().astype(float)
    csr = sp.csr_matrix(X)
    c = X.mean(axis=0)
    U = (X - c) / 1.7
    (dot, norms, overlap), squared = _centred_moments(csr, _centre(csr), 1.7)
    np.testing.assert_allclose(dot, U @ U.T, atol=1e-12)
    np.testing.assert_allclose(squared, np.sum(U * U, axis=1), atol=1e-12)
    np.testing.assert_allclose(norms, np.outer(squared, squared), atol=1e-12)
    np.testing.assert_allclose(overlap, _overlap(U), atol=1e-12)


@compiled_only
@pytest.mark.parametrize("method", ["rademacher", "tensorsrht"])
@pytest.mark.parametrize("explicit", [False, True])
def test_the_error_is_as_predicted(method: str, explicit: bool) -> None:
    """Mean over 64 seeds of the squared error over the pairs that the allocation was made for."""
    X = np.random.default_rng(2).normal(size=(40, 6))
    exact = gaussian(X, 2.5)
    pairs = np.triu_indices(40, 1)
    actual, predicted = [], []
    for seed in range(64):
        feature_map = GaussianMaclaurinFeatures(
            150, length_scale=2.5, method=method, explicit=explicit, random_state=seed
        )
        Phi = feature_map.fit_transform(X).astype(float)
        actual.append(np.square(Phi @ Phi.T - exact)[pairs].mean())
        predicted.append(feature_map.allocation_.error)
    assert np.ptp(predicted) < 1e-9 * predicted[0]
    standard_error = np.std(actual, ddof=1) / 8
    # The features are of single precision, and explicit ones have no variance at all.
    assert abs(np.mean(actual) - predicted[0]) < 4.5 * standard_error + 1e-4 * predicted[0]
    assert standard_error < 0.2 * predicted[0]
    assert feature_map.allocation_.n_explicit >= explicit


@compiled_only
def test_the_allocation_beats_others() -> None:
    """Another truncation, or the same number of features of each degree, has a larger predicted error."""
    X = np.random.default_rng(3).normal(size=(60, 8))
    feature_map = GaussianMaclaurinFeatures(200, length_scale=3.0, explicit=False).fit(X)
    best = feature_map.allocation_
    U = (X - X.mean(axis=0)) / 3.0
    errors = SeriesErrors(*moments_of(U), "rademacher")
    p = best.degree
    even = sum(errors.variance(n, 199 // p) for n in range(1, p + 1)) + errors.bias[p]
    assert best.error < 0.95 * even
    assert 2 <= p <= 8
    assert sum(best.sizes) == 199


@pytest.mark.parametrize("degree", [1, 2, 5])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_monomials_give_powers_of_the_dot_product(d: int, degree: int) -> None:
    rng = np.random.default_rng(4)
    u, v = rng.normal(size=d), rng.normal(size=d)
    powers = np.ones(1), np.ones(1)
    for n, each in enumerate(_monomials(d, degree), start=1):
        last = u[each.variable] * each.weight, v[each.variable] * each.weight
        powers = powers[0][each.parent] * last[0], powers[1][each.parent] * last[1]
        assert each.weight.size == math.comb(d + n - 1, n)
        size = (np.linalg.norm(u) * np.linalg.norm(v)) ** n / math.factorial(n)
        assert abs(powers[0] @ powers[1] - (u @ v) ** n / math.factorial(n)) <= 1e-6 * size


def test_explicit_features_do_not_see_their_chunk() -> None:
    X = reals(12)
    feature_map = GaussianMaclaurinFeatures(80, length_scale=8.0).fit(X)
    assert feature_map.allocation_.n_explicit == 1
    Phi = feature_map.transform(X)
    assert np.concatenate([feature_map.transform(X[i : i + 1]) for i in range(12)]).tobytes() == Phi.tobytes()
    assert feature_map.transform(sp.csr_matrix(X)).tobytes() == Phi.tobytes()


def test_one_column_has_no_variance() -> None:
    """All degrees are explicit: the features are those of equation 4."""
    X = np.random.default_rng(5).uniform(-1.5, 1.5, size=(30, 1))
    feature_map = GaussianMaclaurinFeatures(24, length_scale=1.0).fit(X)
    assert feature_map.allocation_.n_explicit == feature_map.allocation_.degree
    Phi = feature_map.transform(X).astype(float)
    np.testing.assert_allclose(Phi @ Phi.T, gaussian(X, 1.0), atol=1e-5)
    u, n = X - X.mean(), feature_map.allocation_.degree
    expected = np.exp(-u * u / 2) * u ** np.arange(n + 1) / np.sqrt([math.factorial(k) for k in range(n + 1)])
    np.testing.assert_allclose(Phi[:, : n + 1], expected, atol=1e-6)
    assert (Phi[:, n + 1 :] == 0.0).all()


def test_features_vanish_far_from_the_centre() -> None:
    """Theorem 3.1, and no number that is none: rows at 3 to 1e30 length scales."""
    X = np.random.default_rng(6).normal(size=(50, 3))
    for method in ("rademacher", "tensorsrht"):
        feature_map = GaussianMaclaurinFeatures(80, length_scale=1.0, method=method).fit(X)
        far = np.array([[r, 0.0, r / 2] for r in (3.0, 6.0, 10.0, 12.5, 1e3, 1e30)])
        lengths = np.square(feature_map.transform(far).astype(float)).sum(axis=1)
        assert np.isfinite(lengths).all()
        assert (lengths[2:] < 1e-6).all()
        assert (lengths[4:] == 0.0).all()


def test_sparse_rows_are_centred_as_dense_ones() -> None:
    """Any centre is subtracted from projections, not from rows: 2^32 columns stay sparse."""
    X = counts(40).astype(float)
    wide = sp.csr_matrix((40, 2**32), dtype=float)
    csr = sp.csr_matrix(X)
    wide.data, wide.indices, wide.indptr = csr.data, csr.indices.astype(np.int64), csr.indptr
    here = GaussianMaclaurinFeatures(100, length_scale=4.0, explicit=False).fit(X)
    there = GaussianMaclaurinFeatures(100, length_scale=4.0).fit(wide)
    assert here.allocation_ == there.allocation_
    assert (here.transform(X) == there.transform(wide)).all()
    assert len(json.dumps(there.state())) < 3000
    assert (from_state(json.loads(json.dumps(there.state()))).transform(wide) == there.transform(wide)).all()


def test_the_centre_keeps_the_largest_means(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskrf.features.gaussianmaclaurin.MOST_CENTRE", 3)
    centre = _centre(sp.csr_matrix([[1.0, 0, 4, -9, 0, 2], [1.0, 0, 0, 0, 0.5, 2]]))
    assert centre.toarray().tolist() == [[0, 0, 2.0, -4.5, 0, 2.0]]


def test_strange_rows() -> None:
    constant = np.full((5, 3), 2.5)
    Phi = GaussianMaclaurinFeatures(10).fit_transform(constant)
    np.testing.assert_allclose(Phi @ Phi.T, 1.0, atol=1e-6)
    one = GaussianMaclaurinFeatures(10, length_scale=2.0).fit([[1.0, -4.0]])
    np.testing.assert_allclose(np.square(one.transform([[1.0, -4.0]])).sum(), 1.0, atol=1e-6)
    lone = GaussianMaclaurinFeatures(1).fit(reals())
    assert lone.allocation_.sizes == ()
    assert lone.transform(reals()).shape == (12, 1)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"length_scale": 0.0}, "length_scale must be a finite number above 0, .* not 0.0"),
        ({"length_scale": -2.0}, "length_scale must be"),
        ({"length_scale": math.nan}, "length_scale must be"),
        ({"method": "gaussian"}, "method must be one of rademacher, tensorsrht"),
        ({"explicit": "yes"}, "explicit must be True or False"),
    ],
)
def test_bad_parameters_are_refused(parameters, message) -> None:
    with pytest.raises(InputError, match=message):
        GaussianMaclaurinFeatures(16).set_params(**parameters).fit(reals())


def test_what_cannot_be_served_is_refused() -> None:
    feature_map = GaussianMaclaurinFeatures(16)
    with pytest.raises(InputError, match="not fitted"):
        feature_map.transform(reals())
    with pytest.raises(InputError, match="no row to fit to"):
        feature_map.fit(np.zeros((0, 3)))
    with pytest.raises(InputError, match="squares of the values overflow"):
        feature_map.fit([[1e200], [1.0]])
    with pytest.raises(InputError, match="n_components is 4, but fit has allocated"):
        feature_map.fit(reals()).set_params(n_components=4).transform(reals())
    with pytest.raises(InputError, match="fold the fingerprints"):
        GaussianMaclaurinFeatures(16, method="tensorsrht").fit(sp.csr_matrix((2, 2**32)))


def test_a_mean_far_from_zero_is_refused_before_digits_are_lost() -> None:
    X = np.random.default_rng(0).normal(size=(50, 5))
    exact = np.exp(-np.square(X[:, None] - X).sum(axis=2) / 32)
    for explicit, most in ((True, 2e-3), (False, 0.25)):
        feature_map = GaussianMaclaurinFeatures(500, length_scale=4.0, explicit=explicit)
        Phi = feature_map.fit_transform(X + 1e4)
        assert np.abs(Phi @ Phi.T - exact).max() < most
        with pytest.raises(InputError, match=r"away from 0.*subtract the mean from all rows"):
            feature_map.fit(X + 1e5)
