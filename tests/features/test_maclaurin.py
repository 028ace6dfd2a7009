"""Random Maclaurin features against explicit signs, their odds and their errors."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from daskrf import seeds
from daskrf.errors import InputError
from daskrf.features import PolynomialSketch, RandomMaclaurinFeatures, from_state
from daskrf.features.maclaurin import degree_measure, draw_degrees
from daskrf.features.sketches.projections import Products, scale_rows
from daskrf.kernels import DotProduct, Exponential, Polynomial, residual_bound
from tests.features.maps import counts, reals
from tests.jit import jit_disabled
from tests.kernels.values import limits
from tests.naive.projections import products

compiled_only = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")
ROWS = hnp.arrays(
    np.float64,
    st.tuples(st.integers(0, 5), st.integers(1, 6)),
    elements=st.one_of(st.just(0.0), st.integers(-3, 9).map(float), st.floats(-100, 100, width=32)),
)


@given(ROWS, st.integers(1, 140), st.integers(0, 3))
@limits
def test_features_are_products_of_projections(X: np.ndarray, size: int, seed: int) -> None:
    degrees = np.sort(np.random.default_rng(size).integers(0, 4, size))[::-1].astype(np.int64)
    weights = np.random.default_rng(seed).normal(size=size)
    csr, rows = scale_rows(X, normalize=False)
    out = np.full((len(X), size), np.nan, np.float32)
    Products(degrees, weights, seed, "test").write(rows, out)
    for row in range(len(X)):
        entries = dict(zip(csr[row].indices.tolist(), csr[row].data.tolist(), strict=True))
        expected = products(entries, degrees, weights, seed, "test")
        # Rounding is in proportion to the sums of absolute values.
        size_of = np.abs(weights) * np.abs(csr[row].data).sum() ** degrees
        assert (np.abs(out[row] - expected) <= 2e-6 * size_of + 1e-30).all()


def test_columns_are_identifiers() -> None:
    """Folding and unfolding change nothing but which columns there are: 2^32 of them need no table."""
    X = counts()
    wide = sp.csr_matrix((X.shape[0], 2**32), dtype=np.int64)
    csr = sp.csr_matrix(X)
    wide.data, wide.indices, wide.indptr = csr.data, csr.indices.astype(np.int64), csr.indptr
    for feature_map in (RandomMaclaurinFeatures(n_components=70), PolynomialSketch(2, 70, c=1.0)):
        assert (feature_map.fit(None).transform(wide) == feature_map.transform(X)).all()


def test_batches_do_not_show_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    feature_map = RandomMaclaurinFeatures(n_components=70)
    whole = feature_map.transform(reals())
    monkeypatch.setattr("daskrf.engine.cpu.tiles.BATCH_ENTRIES", 64)
    assert (feature_map.transform(reals()) == whole).all()


@pytest.mark.parametrize(
    ("kernel", "measure", "degrees", "expected"),
    [
        (Exponential(), "geometric", (0, None), lambda n: 2.0 ** -(n + 1)),
        (Polynomial(2), "geometric", (0, None), lambda n: 2.0**-n / 1.75 * (n <= 2)),
        (DotProduct((0, 3, 0, 1)), "geometric", (0, None), lambda n: {1: 0.8, 3: 0.2}.get(n, 0.0)),
        (DotProduct((1, 2, 1)), "proportional", (0, None), lambda n: (0.25, 0.5, 0.25)[n]),
        (Polynomial(3), "proportional", (2, None), lambda n: (0, 0, 0.75, 0.25)[n]),
        (Exponential(), "proportional", (0, 1), lambda n: (0.5, 0.5)[n]),
        (Polynomial(1), (1.0, 3.0), (0, None), lambda n: (0.25, 0.75)[n]),
    ],
)
def test_odds_of_the_degrees(kernel, measure, degrees, expected) -> None:
    coefficients, odds = degree_measure(kernel, measure, degrees=degrees)
    np.testing.assert_allclose(odds, [expected(n) for n in range(odds.size)], rtol=1e-12)
    assert (coefficients == kernel.maclaurin(odds.size)).all()
    assert abs(math.fsum(odds) - 1) < 1e-14


def test_the_geometric_measure_is_one_for_any_p() -> None:
    """p^-(n + 1) alone sums to 1 / (p - 1)."""
    for p in (1.01, 1.5, 2.0, 3.0, 100.0):
        _, odds = degree_measure(Polynomial(5), "geometric", p=p)
        assert abs(math.fsum(odds) - 1.0) < 1e-14
        np.testing.assert_allclose(odds[1:] / odds[:-1], 1 / p)
    _, odds = degree_measure(Exponential(), "geometric", p=1.01)
    assert abs(math.fsum(odds) - 1.0) < 1e-14


def test_degrees_follow_the_odds_and_vary_little() -> None:
    odds = np.array([0.1, 0.0, 0.55, 0.35])
    words = seeds.words(0, "test", 4000).tolist()
    numbers = np.array([np.bincount(draw_degrees(odds, 37, word), minlength=4) for word in words])
    assert (np.abs(numbers - 37 * odds) < 1.0).all()
    # Each number is one of two neighbours: standard deviation 1/2 at most, mean of 4,000.
    assert (np.abs(numbers.mean(axis=0) - 37 * odds) < 4.5 * 0.5 / np.sqrt(4000)).all()
    assert (np.diff(draw_degrees(odds, 37, words[0])) <= 0).all()


@compiled_only
@pytest.mark.parametrize("measure", ["geometric", "proportional", (1.0, 1.0, 1.0, 2.0)])
@pytest.mark.parametrize("h01", [False, True])
def test_unbiased(measure: object, h01: bool) -> None:
    X = reals()
    kernel = Polynomial(3, c=0.7, normalize=True)
    k = kernel(X)
    results = []
    for seed in range(300):
        feature_map = RandomMaclaurinFeatures(kernel, 200, degree_measure=measure, h01=h01, random_state=seed)
        Phi = feature_map.transform(X).astype(np.float64)
        results.append(Phi @ Phi.T)
    error = np.mean(results, axis=0) - k
    standard_error = np.std(results, axis=0, ddof=1) / np.sqrt(len(results))
    # 78 entries: 4.5 standard errors are exceeded by chance for one choice of the seeds in 2,000.
    assert (np.abs(error) <= 4.5 * standard_error + 2e-6).all()


@compiled_only
def test_the_truncated_series_is_within_its_bound() -> None:
    """The features of a truncated series are unbiased for it, and it is off by no more than the residual."""
    X = reals()
    whole = Exponential(1.0, normalize=True)
    feature_map = RandomMaclaurinFeatures(whole, 64, max_degree=3)
    assert feature_map.kernel_ == DotProduct((1, 1, 1 / 2, 1 / 6), normalize=True)
    assert np.abs(feature_map.kernel_(X) - whole(X)).max() <= residual_bound(whole, 3, 1.0) * (1 + 1e-12)
    assert RandomMaclaurinFeatures(Polynomial(2), 64, max_degree=3).kernel_ == Polynomial(2)


@pytest.mark.parametrize("max_degree", [0, 1])
def test_exact_terms_end_where_the_series_is_cut(max_degree: int) -> None:
    X, kernel = reals(), Exponential(1.5, normalize=True)
    feature_map = RandomMaclaurinFeatures(kernel, 64, h01=True, max_degree=max_degree)
    Phi = feature_map.fit_transform(X)
    assert np.abs(Phi @ Phi.T - feature_map.kernel_(X)).max() < 1e-6


def test_odds_may_be_any_numbers() -> None:
    X, kernel = counts(), Polynomial(2, normalize=True)
    for odds in ([1, 2, 1], [np.int64(1), np.int64(2), np.int64(1)], np.array([1, 2, 1]), (0.25, 0.5, 0.25)):
        feature_map = RandomMaclaurinFeatures(kernel, 70, degree_measure=odds).fit(X)
        restored = from_state(json.loads(json.dumps(feature_map.state())))
        assert (restored.transform(X) == feature_map.transform(X)).all()


def test_odds_of_an_infinite_series_need_its_end() -> None:
    feature_map = RandomMaclaurinFeatures(Exponential(2.0, normalize=True), 70, degree_measure=(1, 1, 1))
    with pytest.raises(InputError, match="set max_degree to truncate"):
        feature_map.fit(counts())
    cut = feature_map.set_params(max_degree=2).fit(counts())
    assert cut.kernel_ == DotProduct((1.0, 2.0, 2.0), normalize=True)


@compiled_only
def test_exact_terms_lower_the_error() -> None:
    """The constant and the linear term of H0/1 are exact: a kernel of degree 1 is, too."""
    X = reals()
    linear = RandomMaclaurinFeatures(Polynomial(1, c=2.0), 45, h01=True).fit_transform(X)
    np.testing.assert_allclose(linear @ linear.T, X @ X.T + 2.0, rtol=1e-5, atol=1e-5)
    kernel = Exponential(1.0, normalize=True)
    errors = {}
    for h01 in (False, True):
        maps = [RandomMaclaurinFeatures(kernel, 500, h01=h01, random_state=seed) for seed in range(40)]
        features = [feature_map.transform(X).astype(float) for feature_map in maps]
        errors[h01] = np.mean([np.square(Phi @ Phi.T - kernel(X)).mean() for Phi in features])
    assert errors[True] < 0.7 * errors[False]


@compiled_only
def test_the_proportional_measure_has_features_of_one_size_and_less_error() -> None:
    X = reals()
    kernel = Exponential(1.0, normalize=True)
    errors = {}
    for measure in ("geometric", "proportional"):
        maps = [
            RandomMaclaurinFeatures(kernel, 500, degree_measure=measure, random_state=seed)
            for seed in range(60)
        ]
        features = [feature_map.transform(X).astype(float) for feature_map in maps]
        errors[measure] = np.mean([np.square(Phi @ Phi.T - kernel(X)).mean() for Phi in features])
    assert errors["proportional"] < errors["geometric"]


def test_lengths_are_learned_by_parts() -> None:
    X = reals()
    kernel = Exponential(0.1)
    whole = RandomMaclaurinFeatures(kernel, 70).fit(X)
    assert whole.radius_ == np.linalg.norm(X, axis=1).max()
    maker = RandomMaclaurinFeatures(kernel, 70)
    parts = [maker.summarize(X[i : i + 4]) for i in (8, 0, 4)]
    assert (maker.fit_summaries(parts).transform(X) == whole.transform(X)).all()
    explicit = RandomMaclaurinFeatures(kernel, 70, radius=whole.radius_)
    assert explicit.is_fitted()
    assert (explicit.transform(X) == whole.transform(X)).all()
    with pytest.raises(InputError, match="40 and 41 columns"):
        maker.fit_summaries([parts[0], {**parts[1], "n_features_in": 41}])


def test_counts_and_floats_take_two_ways_to_the_same_bytes() -> None:
    """Counts of up to 255 in all are added up as bytes, other rows as floats; both sums are exact."""
    rng = np.random.default_rng(0)
    X = np.zeros((6, 300))
    X[0, :255] = 1
    X[1, :256] = 1
    X[2, 0], X[3, 0] = 255, 256
    X[4] = rng.poisson(0.5, 300)
    X[5] = rng.poisson(3, 300)
    feature_map = PolynomialSketch(2, 130)
    halves = PolynomialSketch(2, 130).transform(X * 0.5)
    assert (feature_map.transform(X) == 4 * halves).all()
    mixed = np.concatenate([X + 0.5, X])
    assert (feature_map.transform(mixed)[6:] == feature_map.transform(X)).all()


def test_integers_in_any_type_and_any_scale() -> None:
    """A row's features do not depend on the number type, and a normalized row's not on powers of two."""
    X = counts()
    feature_map = RandomMaclaurinFeatures(n_components=70)
    Phi = feature_map.transform(X)
    for same in (X.astype(np.uint8), X.astype(np.float32), X * 2.0**100, X * 2.0**-500, X * 2.0**900):
        np.testing.assert_allclose(feature_map.transform(same), Phi, rtol=1e-6)
    mixed = np.concatenate([X * 2.0**900, X])
    assert (feature_map.transform(mixed)[12:] == Phi).all()


@pytest.mark.parametrize("width", [1, 2])
def test_one_column(width: int) -> None:
    X = np.array([[1.0], [-2.0], [0.0]]) * np.ones(width) / np.sqrt(width)
    Phi = RandomMaclaurinFeatures(Polynomial(2, c=1.0), 4000, h01=True).fit_transform(X)
    np.testing.assert_allclose(Phi @ Phi.T, Polynomial(2, c=1.0)(X), rtol=0.2, atol=0.2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "polynomial"}, "kernel must be a Polynomial"),
        ({"degree_measure": "uniform"}, "degree_measure must be 'geometric' or 'proportional'"),
        ({"degree_measure": (0.0, 0.0)}, "not all 0"),
        ({"degree_measure": (-1.0, 2.0)}, "at least 0"),
        ({"degree_measure": (1.0, 1.0)}, "gives degree 2 the odds 0"),
        ({"p": 1.0}, "p must be a number above 1"),
        ({"radius": 0.0}, "radius must be"),
        ({"h01": "yes"}, "h01 must be True or False"),
        ({"max_degree": -1}, "degree must be"),
        ({"kernel": DotProduct((0, 0, 1)), "max_degree": 1}, "no power up to max_degree = 1"),
        ({"h01": True, "n_components": 41}, r"takes 1 \+ 40 features .* n_components is 41"),
    ],
)
def test_bad_parameters_are_refused(parameters, message) -> None:
    feature_map = RandomMaclaurinFeatures(n_components=64).set_params(**parameters)
    with pytest.raises(InputError, match=message):
        feature_map.fit(reals()).transform(reals())


def test_what_cannot_be_served_is_refused() -> None:
    with pytest.raises(InputError, match=r"not fitted: .* give radius"):
        RandomMaclaurinFeatures(Exponential()).transform(reals())
    with pytest.raises(InputError, match="must not all be zero"):
        RandomMaclaurinFeatures(Exponential()).fit(np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"cannot be weighed for rows of length 1e\+20"):
        RandomMaclaurinFeatures(Exponential()).fit([[1e20]])
    with pytest.raises(InputError, match=r"row 1 are too large .* normalize=True"):
        RandomMaclaurinFeatures(Polynomial(3), 64, radius=1.0).transform([[1.0], [1e30]])
