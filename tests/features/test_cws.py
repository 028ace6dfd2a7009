"""Consistent weighted sampling of real weights: an oracle, collision frequencies, extreme weights, errors."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf import seeds
from daskrf.engine.cpu import hashes as cpu_hashes
from daskrf.engine.cpu import tiles
from daskrf.errors import InputError
from daskrf.features import TanimotoMinMaxFeatures
from daskrf.features.sketches.hashing import TanimotoHash, normal_levels
from daskrf.kernels import TanimotoMinMax
from tests.jit import jit_disabled
from tests.naive import cws as naive
from tests.naive.minhash import level_place

compiled_only = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")

LARGEST = np.finfo(np.float64).max
SMALLEST = np.nextafter(0.0, 1.0)
WEIGHTS = st.one_of(
    st.floats(SMALLEST, LARGEST), st.floats(1e-3, 1e3), st.sampled_from([1.0, 2.0, SMALLEST, LARGEST])
)
COLUMNS = st.one_of(st.integers(0, 5), st.sampled_from([2**31, 2**32 - 1, 2**40, 2**62]))
ROWS = st.lists(st.dictionaries(COLUMNS, WEIGHTS, max_size=4), max_size=5)


def to_csr(rows: list[dict[int, float]]) -> sp.csr_matrix:
    indices = np.array([column for row in rows for column in sorted(row)], np.int64)
    data = np.array([row[column] for row in rows for column in sorted(row)], np.float64)
    pointer = np.cumsum([0, *map(len, rows)])
    return sp.csr_matrix((data, indices, pointer), shape=(len(rows), 2**63 - 1))


def oracle(rows: list[dict[int, float]], n_components: int, seed: int) -> np.ndarray:
    streams = [seeds.words(seed, f"cws/{name}", n_components) for name in ("empty", "features")]
    return naive.hashes(rows, seeds.key(seed, "cws/elements"), *streams)


@given(ROWS)
@settings(derandomize=True, deadline=None, max_examples=4 if jit_disabled() else 60)
def test_bits_and_normals_agree_with_the_oracle(rows: list[dict[int, float]]) -> None:
    """The oracle's logarithms may round a rank the other way: they do not, in these examples."""
    size = 66
    X, hashes = to_csr(rows), oracle(rows, size, 5)
    bits = TanimotoMinMaxFeatures(size, hashing="cws", random_state=5).transform_bits(X)
    assert (np.unpackbits(bits, axis=1, count=size, bitorder="little") == (hashes & 1)).all()
    Phi = TanimotoMinMaxFeatures(size, hashing="cws", distribution="gaussian", random_state=5).transform(X)
    keys = seeds.words(5, "cws/levels", size)
    levels = normal_levels() * np.float32(1 / np.sqrt(size))
    for row in range(len(rows)):
        places = [level_place(int(value), int(key)) for value, key in zip(hashes[row], keys, strict=True)]
        assert (Phi[row] == levels[places]).all()


def test_logarithms_are_right_to_the_last_place() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            np.exp(rng.uniform(-708, 709, 400 if jit_disabled() else 100_000)),
            1 + rng.normal(size=500) * 1e-6,
            [SMALLEST, 1e-310, 2.0**-1022, 1.0, 2.0, LARGEST],
        ]
    )
    out = np.empty_like(x)
    with np.errstate(over="ignore"):
        cpu_hashes.logarithms(x, out)
    np.testing.assert_allclose(out, np.log(x), rtol=5e-16, atol=0)


def six_orders(n: int = 8) -> np.ndarray:
    """Return rows of weights from 1e-3 to 1e3, near and far from each other, some of them zero."""
    rng = np.random.default_rng(3)
    X = 10 ** rng.uniform(-3, 3, (n, 30)) * (rng.random((n, 30)) < 0.7)
    X[1] = X[0] * np.exp(rng.normal(size=30) * 0.3)
    X[2] = X[0] * 1.05
    X[3, X[3].argmax()] *= 3
    return X


def largest_deviation(Phi: np.ndarray, exact: np.ndarray) -> float:
    """Return the largest error of the inner products in standard deviations, sqrt((1 - T^2) / M) of signs."""
    error = (Phi @ Phi.T)[np.triu_indices(len(Phi), 1)]
    T = exact[np.triu_indices(len(Phi), 1)]
    return float(np.max(np.abs(error - T) / np.sqrt((1 - T**2) / Phi.shape[1])))


@compiled_only
@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e-5, 7.3, 1e300])
def test_the_frequency_of_collisions_is_the_similarity(scale: float) -> None:
    """T is that of the weights whatever their scale; 28 pairs of rows and 200,000 features."""
    X = six_orders()
    feature_map = TanimotoMinMaxFeatures(200_000, hashing="cws", random_state=1)
    # 4.5 standard deviations are exceeded by chance once in 5,000 choices of the seed.
    assert largest_deviation(feature_map.transform(X * scale), TanimotoMinMax()(X)) < 4.5


@compiled_only
def test_on_counts_it_agrees_with_min_wise_hashing_in_distribution() -> None:
    """Means and variances over features of the products of two rows, 100,000 features each."""
    rng = np.random.default_rng(8)
    X = rng.poisson(0.8, (8, 40))
    X[1] = X[0] + rng.poisson(0.2, 40)
    size = 100_000
    upper = np.triu_indices(8, 1)
    T = TanimotoMinMax()(X)[upper]
    for distribution, fourth in (("rademacher", 1.0), ("gaussian", 3.0)):
        maps = [
            TanimotoMinMaxFeatures(size, distribution=distribution, hashing=h) for h in ("minwise", "cws")
        ]
        products = [(Phi[upper[0]] * Phi[upper[1]]) * size for Phi in (m.transform(X) for m in maps)]
        spread = np.sqrt(2 * (1 + T * (fourth - 1 - T)) / size)
        # 28 pairs: beyond 4.5 standard deviations for one choice of the seed in 5,000.
        assert (np.abs(products[0].mean(axis=1) - products[1].mean(axis=1)) < 4.5 * spread).all()
        squares = [np.square(p - p.mean(axis=1, keepdims=True)) for p in products]
        error = np.sqrt(sum(np.var(s, axis=1) for s in squares) / size)
        assert (np.abs(squares[0].mean(axis=1) - squares[1].mean(axis=1)) < 4.5 * error).all()


def test_batches_do_not_show_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    X = six_orders(5)[:, : 8 if jit_disabled() else 30]
    X[4] = 0
    hashes = TanimotoHash("cws", 70, 3)
    csr = hashes.check(X)
    bits, normals = hashes.words(csr), hashes.normals(csr, 1.0)
    for limit in ({"BATCH_ENTRIES": 1}, {"BATCH_ENTRIES": 20}, {"BATCH_BYTES": 9 * 64 * 4}):
        for name, value in limit.items():
            monkeypatch.setattr(tiles, name, value)
        assert (hashes.words(csr) == bits).all()
        assert hashes.normals(csr, 1.0).tobytes() == normals.tobytes()


def test_the_type_of_the_weights_does_not_matter() -> None:
    X = np.array([[0, 3, 1], [2, 0, 0], [0, 0, 0]])
    feature_map = TanimotoMinMaxFeatures(64, hashing="cws")
    bits = feature_map.transform_bits(X)
    for dtype in (np.uint8, np.int16, np.uint16, np.uint64, np.float32, np.float64, np.longdouble):
        assert (feature_map.transform_bits(X.astype(dtype)) == bits).all()


def test_numbers_too_small_for_float64_are_zero() -> None:
    tiny = np.finfo(np.longdouble).smallest_subnormal
    X = np.array([[1, tiny], [1, 0], [tiny, 0], [0, 0]], np.longdouble)
    if float(tiny) != 0:
        pytest.skip("long double is float64 here")
    bits = TanimotoMinMaxFeatures(256, hashing="cws").transform_bits(X)
    assert (bits[0] == bits[1]).all()
    assert (bits[2] == bits[3]).all()


@compiled_only
def test_ranks_of_different_samples_are_different() -> None:
    """Hashes are ranks: rows of one column, whose samples are neighbouring intervals of weights."""
    size = 200_000
    X = np.array([[1.0], [1.01], [1.2], [2.0]])
    Phi = TanimotoMinMaxFeatures(size, hashing="cws", distribution="gaussian").transform(X).astype(float)
    T = X / X.T
    T = np.minimum(T, T.T)
    # 6 pairs: beyond 4.5 standard deviations for one choice of the seed in 20,000.
    assert (np.abs(Phi @ Phi.T - T) <= 4.5 * np.sqrt((1 + 2 * T - T**2) / size)).all()


@compiled_only
def test_extreme_weights() -> None:
    rows = [
        {5: 1e300, 6: 1e-300},
        {5: 1e300},
        {5: 1e-300},
        {6: 1e-300},
        {5: LARGEST, 6: LARGEST},
        {5: LARGEST},
        {5: SMALLEST},
        {5: SMALLEST, 7: SMALLEST},
        {},
    ]
    size = 20_000
    Phi = TanimotoMinMaxFeatures(size, hashing="cws").transform(to_csr(rows)).astype(float)
    T = np.eye(9)
    T[0, 1] = T[1, 0] = 1  # to 600 digits
    T[4, 5] = T[5, 4] = T[6, 7] = T[7, 6] = 0.5
    T[1, 5] = T[5, 1] = 1e300 / LARGEST
    T[0, 5] = T[5, 0] = 1e300 / LARGEST
    T[0, 4] = T[4, 0] = T[1, 4] = T[4, 1] = 1e300 / LARGEST / 2
    assert (Phi[0] == Phi[1]).all()
    # 36 pairs: beyond 4.5 standard deviations for one choice of the seed in 4,000.
    assert (np.abs(Phi @ Phi.T - T) <= 4.5 * np.sqrt((1 - T**2) / size) + 1e-6).all()


def test_equal_weights_at_the_ends_give_finite_ranks() -> None:
    """The ranks do not leave their 32 bits, and order columns as ln a does."""
    weights = np.array([SMALLEST, 1e-310, 1e-300, 1.0, 1e300, LARGEST])
    hashes = TanimotoHash("cws", 64 if jit_disabled() else 6400, 2)
    for start in range(0, hashes.n_hashes, 64):
        table = np.zeros((6, 64), np.uint32)
        column, slot = np.full(6, 9, np.uint64), np.arange(6, dtype=np.int32)
        drawn = hashes._hashes
        keys = drawn.element, drawn.low[start : start + 64], drawn.high[start : start + 64]
        with np.errstate(over="ignore"):
            cpu_hashes.fill_weighted(column, np.log(weights), slot, *keys, table)
        # A larger weight never has a larger rank, which an overflow would give.
        assert (np.diff(table.astype(np.int64), axis=0) <= 0).all()
        log_a = table / 2.0**21 - 1024
        # y lies within a factor exp(r) below the weight; neither r nor ln c is far from 0.
        assert (np.abs(log_a + np.log(weights)[:, None]) < 80).all()


@pytest.mark.parametrize(
    ("value", "words"),
    [(-0.5, "negative"), (np.nan, "not a finite"), (np.inf, "not a finite"), (-np.inf, "not a finite")],
)
@pytest.mark.parametrize("distribution", ["rademacher", "gaussian"])
def test_bad_weights_are_refused_by_row_and_column(value: float, words: str, distribution: str) -> None:
    feature_map = TanimotoMinMaxFeatures(8, hashing="cws", distribution=distribution)
    for X in (np.array([[1.0, 0.5], [0.0, value]]), np.array([[1.0, 0.5], [0.0, value]], np.float32)):
        with pytest.raises(InputError, match=rf"row 1, column 1.*{words}"):
            feature_map.transform(X)


def test_min_wise_hashing_of_real_weights_names_the_other_hashing() -> None:
    for distribution in ("rademacher", "gaussian"):
        with pytest.raises(InputError, match=r'row 0, column 1 .*hashing="cws"'):
            TanimotoMinMaxFeatures(8, distribution=distribution).transform([[1, 0.5]])


def test_an_unknown_hashing_is_refused() -> None:
    with pytest.raises(InputError, match=r"hashing must be one of minwise, cws, not 'simhash'"):
        TanimotoMinMaxFeatures(8, hashing="simhash").fit()


def wide_weights() -> sp.csr_matrix:
    """Unfolded weights from 1e-9 to 1e9 in columns up to 2**32 - 1; row 2 is empty."""
    column = np.unique(np.arange(60, dtype=np.uint64) * np.uint64(2_654_435_761) % np.uint64(2**32))
    indices = np.concatenate([column[:30], column[20:59], [2**32 - 1], column[::7]]).astype(np.int64)
    number = np.arange(indices.size)
    weights = (number % 13 + 1) / 7 * 10.0 ** (number * number % 19 - 9)
    return sp.csr_matrix((weights, indices, np.array([0, 30, 70, 70, indices.size])), shape=(4, 2**32))


@pytest.mark.parametrize(
    ("distribution", "seed", "golden"),
    [
        ("rademacher", 0, "850d481e33a710bb"),
        ("rademacher", 7, "43bb78992ea87a40"),
        ("gaussian", 0, "fe2bc8bc78feb9a2"),
        ("gaussian", 7, "d95b00faa575bc05"),
    ],
)
def test_golden_digest_of_wide_weights(distribution: str, seed: int, golden: str) -> None:
    """The same features for ever; a change needs a new version."""
    feature_map = TanimotoMinMaxFeatures(130, hashing="cws", distribution=distribution, random_state=seed)
    transform = feature_map.transform_bits if feature_map.one_bit else feature_map.transform
    assert hashlib.sha256(transform(wide_weights()).tobytes()).hexdigest()[:16] == golden
