"""Fourier and Fastfood features: oracles, prior variance, densities, memory, variances, bad input."""

from __future__ import annotations

import copy
import json
import math
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import ndtri

from daskrf.errors import InputError
from daskrf.features import FastfoodFeatures, FeatureMap, RandomFourierFeatures, fourier
from daskrf.gp import ExactGP, RandomFeatureGP, SufficientStatistics
from daskrf.kernels import Gaussian, Matern, MetricGaussian, RadialKernel, TanimotoMinMax, UnitBalls
from daskrf.kernels.metric import Metric
from tests.features.maps import counts, vectors
from tests.floats import assert_agree
from tests.jit import jit_disabled
from tests.kernels.values import METRIC
from tests.memory import least_peak
from tests.naive import fourier as naive
from tests.naive.gp import conjugate_gradients

FAMILIES = [
    lambda kernel, size, **rest: RandomFourierFeatures(kernel, size, **rest),
    lambda kernel, size, **rest: RandomFourierFeatures(kernel, size, orthogonal=True, **rest),
    lambda kernel, size, **rest: FastfoodFeatures(kernel, size, projection="hadamard", **rest),
    lambda kernel, size, **rest: FastfoodFeatures(kernel, size, **rest),
    lambda kernel, size, **rest: FastfoodFeatures(kernel, size, projection="fft", **rest),
]
NAMES = ["independent", "orthogonal", "fastfood", "fastfood orthogonal", "fft"]
families = pytest.mark.parametrize("make", FAMILIES, ids=NAMES)
IN_METRIC = MetricGaussian(1.7, METRIC.text)
compiled_only = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")


def directions(name: str, seed: int, n_pairs: int, d: int) -> np.ndarray:
    if name == "independent":
        return naive.gaussian_directions(seed, n_pairs, d)
    if name == "orthogonal":
        return naive.orthogonal_directions(seed, n_pairs, d)
    projection = {"fastfood": "hadamard", "fastfood orthogonal": "orthogonal", "fft": "fft"}[name]
    return naive.fastfood_directions(seed, n_pairs, d, projection)


@pytest.mark.parametrize("d", [1, 3, 8, 11, 33])
@pytest.mark.parametrize("number", range(5), ids=NAMES)
def test_features_agree_with_the_oracle(number: int, d: int) -> None:
    X = np.random.default_rng(d).normal(size=(4, d)) * [[0], [1], [0.1], [3]]
    for n_components in (2, 7, 90):
        actual = FAMILIES[number](Gaussian(1.7), n_components, random_state=5).transform(X)
        w = directions(NAMES[number], 5, n_components // 2, d) / 1.7
        np.testing.assert_allclose(actual, naive.features(X, w, n_components), atol=2e-5)


@pytest.mark.parametrize("d", [1, 3, 8, 40, 90])
def test_features_in_a_metric_agree_with_the_oracle(d: int) -> None:
    X = np.random.default_rng(d).normal(size=(4, d)) * [[0], [1], [0.1], [3]]
    for n_components in (2, 7, 90):
        actual = RandomFourierFeatures(IN_METRIC, n_components, random_state=5).transform(X)
        parts = METRIC.rest, METRIC.columns.tolist(), METRIC.directions
        w = naive.metric_directions(5, n_components // 2, d, *parts) / IN_METRIC.length_scale
        np.testing.assert_allclose(actual, naive.features(X, w, n_components), atol=2e-5)


def test_an_empty_metric_is_a_length_scale() -> None:
    X = vectors()
    empty = Metric(4.0, np.empty(0, np.int64), np.empty((0, 0), np.float32))
    actual = RandomFourierFeatures(MetricGaussian(6.0, empty.text), 32).transform(X)
    assert (actual == RandomFourierFeatures(Gaussian(3.0), 32).transform(X)).all()


def test_what_knows_no_metric_refuses_it() -> None:
    for feature_map, words in (
        (RandomFourierFeatures(IN_METRIC, orthogonal=True), "Directions in a learned metric are not orthog"),
        (FastfoodFeatures(IN_METRIC), "use RandomFourierFeatures"),
    ):
        for call in (feature_map.fit, feature_map.transform):
            with pytest.raises(InputError, match=words):
                call(vectors())
    with pytest.raises(InputError, match="not known yet"):
        RandomFourierFeatures(MetricGaussian("auto", "auto")).transform(vectors())


def _check_table_bytes(feature_map: RandomFourierFeatures, d: int) -> None:
    """Features of d columns take the memory that is predicted, and not much less."""

    def transform() -> None:
        fourier._CACHE.clear()
        copy.copy(feature_map).transform(np.ones((1, d)))

    peak = least_peak(transform)
    assert peak < feature_map.table_bytes(d) + 2**16 < 1.4 * peak


@compiled_only
@pytest.mark.parametrize(("c", "rank"), [(320, 24), (1700, 24), (300, 300)])
def test_a_metric_takes_the_predicted_memory(c: int, rank: int) -> None:
    d, rng = 320, np.random.default_rng(0)
    large = Metric(0.1, np.arange(0, 2 * c, 2), rng.normal(size=(c, rank)).astype(np.float32))
    feature_map = RandomFourierFeatures(MetricGaussian(60.0, large.text), 2050)
    _check_table_bytes(feature_map, d)


def test_rows_that_are_long_in_a_metric_are_refused() -> None:
    X = np.eye(5)
    X[3, 2] = 3e4  # which is 63,640 in the metric
    with pytest.raises(InputError, match=r"Row 3 is 1\.27e\+05 length scales long"):
        RandomFourierFeatures(MetricGaussian(0.5, METRIC.text), 64).transform(X)
    for rows in (X, sp.csr_matrix(X)):
        RandomFourierFeatures(MetricGaussian(1.0, METRIC.text), 64).transform(rows)
    X[3, :3] = 3e4, 0, 0
    RandomFourierFeatures(MetricGaussian(0.4, METRIC.text), 64).transform(X)


def test_features_in_a_metric_are_the_same_in_another_process() -> None:
    feature_map, X = RandomFourierFeatures(IN_METRIC, 64, random_state=3).fit(counts()), counts()
    program = (
        "import json, sys; import numpy as np; from daskrf.features import from_state; "
        "state, X = json.load(sys.stdin); "
        "print(json.dumps(from_state(state).transform(np.array(X)).tolist()))"
    )
    payload = json.dumps([feature_map.state(), X.tolist()])
    done = subprocess.run(
        [sys.executable, "-c", program], input=payload, capture_output=True, check=True, text=True
    )
    assert_agree(np.array(json.loads(done.stdout), np.float32), feature_map.transform(X), 1e-6)


rows = hnp.arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.sampled_from([1, 2, 5, 9])),
    elements=st.one_of(st.just(0.0), st.just(-0.0), st.floats(-9, 9), st.floats(-30_000, 30_000)),
)


@families
@given(X=rows, size=st.sampled_from([2, 3, 16, 41]))
@settings(deadline=None, derandomize=True, max_examples=8 if jit_disabled() else 40)
def test_the_prior_variance_is_one_for_any_row_and_size(make, X: np.ndarray, size: int) -> None:
    feature_map = make(Matern(0.9, nu=1.5), size)
    Phi = feature_map.transform(X)
    np.testing.assert_allclose(np.square(Phi, dtype=np.float64).sum(axis=1), 1.0, atol=1e-6)
    if size % 2:
        assert (Phi[:, -1] == 0).all()
    # Phases are rounded in proportion to the row's length.
    tolerance = 2e-6 * (1.0 + np.linalg.norm(X, axis=1).max() / 0.9)
    assert_agree(feature_map.transform(sp.csr_matrix(X)), Phi, tolerance)
    assert_agree(feature_map.transform(X[-1:]), Phi[-1:], tolerance)


@families
@pytest.mark.parametrize("density", [0.02, 0.1, 0.3, 1.0])
def test_any_density_and_container_gives_the_same_features(make, density: float) -> None:
    rng = np.random.default_rng(1)
    X = rng.poisson(2.0, (23, 50)) * (rng.random((23, 50)) < density)
    feature_map = make(Gaussian(6.0), 70)
    Phi = feature_map.transform(X)
    # A chunk of other rows has another density.
    for start in (0, 3, 22):
        assert_agree(feature_map.transform(X[start : start + 1]), Phi[start : start + 1], 1e-5)
    for other in (sp.csr_matrix(X), X.astype(np.float32), X.astype(bool) * X, sp.coo_array(X)):
        assert_agree(feature_map.transform(other), Phi, 1e-5)


@families
def test_parts_of_memory_change_nothing(make, monkeypatch: pytest.MonkeyPatch) -> None:
    X = vectors(30)
    Phi = make(Gaussian(6.0), 200, random_state=3).transform(X)
    monkeypatch.setattr(fourier, "_PHASES", 1)
    monkeypatch.setattr(fourier, "_BLOCK", 1)
    fourier._CACHE.clear()
    assert_agree(make(Gaussian(6.0), 200, random_state=3).transform(X), Phi, 2e-6)
    fourier._CACHE.clear()


@families
def test_scales_of_rows_and_kernel_go_together(make) -> None:
    X = vectors()
    Phi = make(Gaussian(6.0), 32).transform(X)
    for power in (-900, -70, 70, 900):
        actual = make(Gaussian(6.0 * 2.0**power), 32).transform(X * 2.0**power)
        np.testing.assert_allclose(actual, Phi, atol=1e-5)


@compiled_only
@pytest.mark.parametrize("d", [1, 10])
def test_variance_of_independent_frequencies(d: int) -> None:
    """(1 + k(2x, 2y) - 2 k^2) / (2 p), Rahimi & Recht with cosine and sine."""
    kernel, p, n_seeds = Gaussian(1.0), 32, 1500
    X = np.zeros((2, d))
    X[1, 0] = 1.3
    results = []
    for seed in range(n_seeds):
        Phi = RandomFourierFeatures(kernel, 2 * p, random_state=seed).transform(X).astype(float)
        results.append(Phi[0] @ Phi[1])
    k = kernel(X)[0, 1]
    expected = (1 + kernel(2 * X)[0, 1] - 2 * k**2) / (2 * p)
    # The standard error of a variance is about sqrt(2 / n); 4.5 of them.
    assert abs(np.var(results, ddof=1) / expected - 1) < 4.5 * math.sqrt(2 / n_seeds)


@compiled_only
def test_variances_of_orthogonal_directions_and_of_fastfood() -> None:
    """A smaller one for close rows of a Gaussian kernel (Yu et al. 2016); and one below theorem 9's bound."""
    kernel, d, n_pairs, n_seeds = Gaussian(1.0), 16, 64, 400
    v = np.random.default_rng(0).normal(size=d) * 0.25
    X = np.stack([np.zeros(d), v])
    k, squared = kernel(X)[0, 1], float(v @ v)
    independent, orthogonal, fastfood, both = (
        np.mean(
            [
                np.prod(make(kernel, 2 * n_pairs, random_state=seed).transform(X), axis=0).sum() - k
                for seed in range(n_seeds)
            ]
            ** np.array(2)
        )
        for make in FAMILIES[:4]
    )
    # Estimates of variances have a standard error of sqrt(2 / n); the bound is far away.
    assert orthogonal < 0.8 * independent
    assert both < 0.3 * independent
    bound = 0.5 * (1 - math.exp(-squared)) ** 2 + 6 * squared**2 * (math.exp(-squared) + squared / 3)
    assert independent < fastfood * (1 + 4.5 * math.sqrt(4 / n_seeds)) < bound / n_pairs


@compiled_only
@pytest.mark.parametrize(("kernel", "d"), [(Gaussian(), 1), (Gaussian(), 10), (Matern(nu=0.7), 70)])
def test_orthogonal_directions_of_fastfood_are_unbiased_enough(kernel, d: int) -> None:
    """One non-zero is the worst case: its first transform has entries of one size only."""
    X = np.zeros((3, d))
    X[1, 0] = 2.0
    X[2] = 1.2 / math.sqrt(d)
    estimates = np.array(
        [
            (Phi := FastfoodFeatures(kernel, 256, random_state=seed).transform(X).astype(float)) @ Phi[0]
            for seed in range(2000)
        ]
    )
    error = estimates.mean(axis=0) - kernel(X)[0]
    # The difference of fourth moments, 8 / d^2 at d = 64, makes 2e-4 at most; 4.5 standard errors beside it.
    assert (np.abs(error) < 3e-4 + 4.5 * estimates.std(axis=0) / math.sqrt(2000)).all()


@compiled_only
@pytest.mark.parametrize("make", [RandomFourierFeatures, FastfoodFeatures])
@pytest.mark.parametrize("nu", [1e-3, 0.1])
def test_rough_kernels_have_no_frequency_beyond_single_precision(make, nu: float) -> None:
    """Of such a one all phases are whole numbers, and all rows alike."""
    X, kernel = 3.0 * np.random.default_rng(1).normal(size=(30, 8)), Matern(1.0, nu=nu)
    pairs = np.triu_indices(30, 1)
    errors = []
    for seed in range(20):
        Phi = make(kernel, 1000, random_state=seed).fit_transform(X)
        errors.append((Phi @ Phi.T - kernel(X))[pairs].mean())
    # 4.5 standard errors of 20 seeds: by Student's t one failure in 4,000 for a case.
    assert abs(np.mean(errors)) < 4.5 * np.std(errors, ddof=1) / math.sqrt(20)


@compiled_only
def test_fastfood_holds_no_matrix_of_directions() -> None:
    """d = 8,192 and M = 32,768: directions would take 512 MiB."""
    d, size = 8192, 32_768
    X = sp.random_array((3, d), density=0.01, format="csr", rng=np.random.default_rng(0))
    for projection in ("orthogonal", "hadamard", "fft"):
        feature_map = FastfoodFeatures(Gaussian(3.0), size, projection=projection)
        assert least_peak(lambda feature_map=feature_map: copy.copy(feature_map).transform(X)) < 16 * 2**20
        feature_map.transform(X)
        tables = vars(feature_map._projection(d)).values()
        assert sum(map(_bytes, tables)) <= 16 * (size // 2) + 8 * d


def _bytes(item: object) -> int:
    return sum(map(_bytes, item)) if isinstance(item, tuple) else getattr(item, "nbytes", 0)


def test_threads_make_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def slow_ndtri(u: np.ndarray) -> np.ndarray:
        made.append(len(u))
        time.sleep(0.05)  # the other threads come here, too, if they may
        return ndtri(u)

    monkeypatch.setattr(fourier, "ndtri", slow_ndtri)
    feature_map = RandomFourierFeatures(n_components=64, random_state=314)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(feature_map.transform, [np.ones((1, 5))] * 4))
    assert len(made) == 1


def test_directions_are_kept_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    maps = [RandomFourierFeatures(n_components=64, random_state=seed) for seed in range(3)]
    fourier._CACHE.clear()
    size = maps[0]._projection(5).columns.nbytes
    for limit, expected in ((2 * size, [0, 2]), (2 * size - 1, [2]), (0, [2])):
        monkeypatch.setattr(fourier, "LARGEST_KEPT", limit)
        made = [maps[seed]._projection(5) for seed in (0, 1, 0, 2)][-1]
        assert [seed for *_, seed in fourier._CACHE] == expected
        assert maps[2]._projection(5) is made


def test_orthogonal_directions_that_take_hours_are_refused() -> None:
    for d, size in ((2**15, 2**16), (30_000, 60_000)):
        feature_map, row = RandomFourierFeatures(n_components=size, orthogonal=True), sp.csr_matrix((1, d))
        for call in (feature_map.fit, feature_map.transform):
            with pytest.raises(InputError, match=r"each worker about 2 hours and \d+\.\d GiB to make"):
                call(row)
        RandomFourierFeatures(n_components=size).fit(row)
    for d, size in ((2**15, 2**15), (2**14, 2**16), (2**20, 2048)):
        RandomFourierFeatures(n_components=size, orthogonal=True).fit(sp.csr_matrix((1, d)))


@compiled_only
@pytest.mark.parametrize("orthogonal", [False, True])
@pytest.mark.parametrize("block", [2**20, 2**26])
def test_directions_take_the_predicted_memory(
    orthogonal: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fourier, "_BLOCK", block)
    d, feature_map = 320, RandomFourierFeatures(n_components=2050, orthogonal=orthogonal)
    _check_table_bytes(feature_map, d)


def test_a_constant_column_changes_no_inner_product() -> None:
    X = vectors()
    moved = X.copy()
    moved[:, 5] += 3.0
    for make in FAMILIES[:4]:
        feature_map = make(Gaussian(6.0), 64)
        actual, other = (feature_map.transform(x).astype(float) for x in (X, moved))
        np.testing.assert_allclose(actual @ actual.T, other @ other.T, atol=2e-6)


@compiled_only
@pytest.mark.parametrize(("precision", "tolerance"), [("double", 1e-6), ("single", 1e-5)])
@pytest.mark.parametrize("size", [63, 64, 1100])
def test_routes_of_the_gaussian_process_agree_with_the_closed_form(
    size: int, precision: str, tolerance: float
) -> None:
    """Posterior of weights N(0, a I) with noise s: by the inverse of the whole matrix, in float64.

    Conjugate gradients on Phi^T Phi + s / a I are no route of the package: they reach it too, more slowly.
    """
    rng = np.random.default_rng(5)
    X = rng.normal(size=(150, 6))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=150)
    phi = FastfoodFeatures(Gaussian(2.0), size).transform(X)
    a, s = 1.3, 0.05
    K = a * phi.astype(float) @ phi.T.astype(float)
    inverse = np.linalg.inv(K[:100, :100] + s * np.eye(100))
    expected = K[100:, :100] @ inverse @ y[:100]
    variance = a - np.einsum("ij,jk,ik->i", K[100:, :100], inverse, K[100:, :100]) + s
    statistics = SufficientStatistics.from_chunk(phi[:100], y[:100], precision=precision)
    for method in ("eigh", "cholesky"):
        gp = RandomFeatureGP(mean=0.0, signal_variance=a, noise_variance=s, method=method).fit_statistics(
            statistics
        )
        mean, std = gp.predict(phi[100:], return_std=True)
        np.testing.assert_allclose(mean, expected, atol=tolerance)
        np.testing.assert_allclose(std**2, variance, atol=tolerance)
        assert std.max() > 1.2 * std.min()
    moments = statistics.moments()
    gram = np.triu(moments.gram) + np.triu(moments.gram, 1).T
    new = phi[100:].astype(float)
    right = np.column_stack([moments.phi_y[:, 0] + moments.shift[0] * moments.phi_sum, new.T])
    weights = conjugate_gradients(gram, right, s / a)
    np.testing.assert_allclose(new @ weights[:, 0], expected, atol=tolerance)
    by_weights = s * np.einsum("ij,ji->i", new, weights[:, 1:]) + s
    np.testing.assert_allclose(by_weights, variance, atol=tolerance)


@compiled_only
def test_predictions_come_near_to_those_of_the_exact_process() -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(120, 3))
    y = np.cos(X[:, 0]) * X[:, 1]
    exact = ExactGP(Gaussian(1.5), mean=0.0, signal_variance=1.0, noise_variance=0.01).fit(X[:80], y[:80])
    expected, std = exact.predict(X[80:], return_std=True)
    for make in FAMILIES[:4]:
        gp = RandomFeatureGP(make(Gaussian(1.5), 2000), mean=0.0, signal_variance=1.0, noise_variance=0.01)
        mean, approximate = gp.fit(X[:80], y[:80]).predict(X[80:], return_std=True)
        assert np.sqrt(np.mean((mean - expected) ** 2)) < 0.15 * np.std(expected)
        assert np.abs(np.log(approximate / std)).max() < 0.5


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RandomFourierFeatures(TanimotoMinMax()), "kernel must be a radial kernel"),
        (lambda: FastfoodFeatures("gaussian"), "kernel must be a radial kernel"),
        (lambda: RandomFourierFeatures(n_components=1), "n_components must be at least 2"),
        (lambda: RandomFourierFeatures(orthogonal="yes"), "orthogonal must be True or False"),
        (lambda: FastfoodFeatures(projection="dct"), "projection must be one of auto, orthogonal, hadamard"),
        (
            lambda: FastfoodFeatures(UnitBalls(), projection="orthogonal"),
            r"UnitBalls\(.*\) depends on the number of columns",
        ),
    ],
)
def test_bad_parameters(make, words: str) -> None:
    feature_map: FeatureMap = make()
    for call in (feature_map.fit, feature_map.transform):
        with pytest.raises(InputError, match=words):
            call([[1.0, 2.0]])


@families
def test_bad_rows(make) -> None:
    feature_map = make(Gaussian(0.01), 64)
    X = vectors()
    X[7] *= 1e4
    with pytest.raises(InputError, match=r"Row 7 is .* length scales long, but phases are accurate"):
        feature_map.transform(X)
    with pytest.raises(InputError, match=r"Row 7 is .* length scales long, but phases are accurate"):
        feature_map.transform(sp.csr_matrix(X))
    with pytest.raises(InputError, match="length scales long"):
        feature_map.transform(np.full((1, 3), 1e300))
    with pytest.raises(InputError, match="no columns"):
        feature_map.transform(np.zeros((2, 0)))
    with pytest.raises(InputError, match="2 dimensions"):
        feature_map.transform(np.zeros(3))
    with pytest.raises(InputError, match="real numbers"):
        feature_map.transform(np.array([["a", "b"]]))
    half = np.array([[0.5, 1.0]], np.float16) * 0.001
    # Not the same bytes: products of some BLAS depend by last digits on where in memory their rows begin.
    wide = feature_map.transform(half.astype(np.float32))
    np.testing.assert_allclose(feature_map.transform(half), wide, rtol=1e-6, atol=1e-7)


def test_unfolded_identifiers_are_refused_where_directions_depend_on_all_columns() -> None:
    X = sp.csr_matrix((2, 2**32))
    for feature_map in (RandomFourierFeatures(orthogonal=True), FastfoodFeatures()):
        for call in (feature_map.fit, feature_map.transform):
            with pytest.raises(InputError, match=r"fold the fingerprints \(--size 1024, say\)"):
                call(X)


def unfolded() -> sp.csr_matrix:
    """Return counts of 40 identifiers of 32 bits."""
    X = sp.csr_matrix(counts())
    columns = np.sort(np.random.default_rng(3).choice(2**32, 40, replace=False))
    return sp.csr_matrix((X.data, columns[X.indices], X.indptr), shape=(12, 2**32))


_NAMED = np.sort(np.random.default_rng(3).choice(2**32, 40, replace=False))[[1, 7, 8, 30]]
UNFOLDED = MetricGaussian(
    9.0, Metric(4.0, _NAMED, np.array([[2, 0], [1, 3], [-1, 1], [0, 2]], np.float32)).text
)


@compiled_only
@pytest.mark.parametrize("kernel", [Gaussian(4.0), Matern(6.0, nu=1.5), UnitBalls(1e-4), UNFOLDED], ids=repr)
def test_directions_of_identifiers_are_unbiased(kernel: RadialKernel) -> None:
    X = unfolded()
    results = []
    for seed in range(200):
        Phi = RandomFourierFeatures(kernel, 256, random_state=seed).transform(X).astype(np.float64)
        results.append(Phi @ Phi.T)
    error = np.mean(results, axis=0) - kernel(X)
    standard_error = np.std(results, axis=0, ddof=1) / np.sqrt(len(results))
    assert (np.abs(error) <= 4.5 * standard_error + 2e-5).all()
    assert (np.diag(np.mean(results, axis=0)) > 1 - 1e-6).all()


def test_directions_of_identifiers_are_not_held() -> None:
    X = unfolded()
    in_metric = RandomFourierFeatures(UNFOLDED, 64, random_state=7)
    Phi = in_metric.transform(X)
    assert 0 < in_metric.table_bytes(2**32) < 10_000
    assert_agree(np.vstack([in_metric.transform(X[i]) for i in range(12)]), Phi, 1e-5)
    smaller = RandomFourierFeatures(UNFOLDED, 32, random_state=7).transform(X)
    assert_agree(smaller / np.float32(np.sqrt(2)), Phi[:, :32], 1e-5)
    feature_map = RandomFourierFeatures(Gaussian(4.0), 64, random_state=7).fit(X)
    assert feature_map.table_bytes(2**32) == 0
    Phi = feature_map.transform(X)
    assert_agree(np.vstack([feature_map.transform(X[i]) for i in range(12)]), Phi, 1e-5)
    smaller = RandomFourierFeatures(Gaussian(4.0), 32, random_state=7).transform(X)
    assert_agree(smaller / np.float32(np.sqrt(2)), Phi[:, :32], 1e-5)
    # The first features of the first row, for ever.
    assert_agree(Phi[0, :4], np.array([0.1690833, 0.0515832, 0.1193508, -0.1304047], np.float32), 1e-5)
    other = sp.csr_matrix((X.data, X.indices + 1, X.indptr), shape=X.shape)
    assert np.abs(feature_map.transform(other) - Phi).max() > 0.01


def test_many_seeds_of_unit_balls_are_bounded() -> None:
    """Frequencies of sums of two draws of the unit ball are at most 2 long."""
    d = 5
    directions = RandomFourierFeatures(UnitBalls(1.0, degree=2), 600)._projection(d).columns
    lengths = np.linalg.norm(directions, axis=0) * 2 * np.pi
    assert 1.0 < lengths.max() <= 2.0 + 1e-5
