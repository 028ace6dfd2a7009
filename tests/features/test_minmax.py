"""Min-max Tanimoto features of counts: what is theirs alone, and their statistics on real molecules."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf import seeds
from daskrf.arrays import unpack_bits
from daskrf.errors import InputError
from daskrf.features import TanimotoMinMaxFeatures, from_state
from daskrf.features.sketches.hashing import normal_levels
from daskrf.kernels import TanimotoMinMax
from tests.jit import jit_disabled
from tests.naive import minhash as naive

FOURTH_MOMENT = {"rademacher": 1.0, "gaussian": 2.9992}

compiled_only = pytest.mark.skipif(jit_disabled(), reason="1,000 molecules: too slow without the JIT")


def test_features_agree_with_the_oracle() -> None:
    rows = [{3: 2, 2**32 - 1: 1}, {}, {3: 1}]
    indices = np.array([3, 2**32 - 1, 3])
    X = sp.csr_matrix((np.array([2, 1, 1]), indices, np.array([0, 2, 2, 3])), shape=(3, 2**32))
    bits = TanimotoMinMaxFeatures(70, random_state=5).transform_bits(X)
    expected = naive.minhash_bits(
        rows,
        seeds.key(5, "minmax/elements"),
        seeds.words(5, "minmax/empty", 70).astype(np.uint32),
        seeds.words(5, "minmax/features", 70),
    )
    assert (np.unpackbits(bits, axis=1, count=70, bitorder="little") == expected).all()


def wide_counts() -> sp.csr_matrix:
    """Unfolded counts up to 300 in columns up to 2**32 - 1, made without a generator; row 2 is empty."""
    column = np.unique(np.arange(60, dtype=np.uint64) * np.uint64(2_654_435_761) % np.uint64(2**32))
    indices = np.concatenate([column[:30], column[20:59], [2**32 - 1], column[::7]]).astype(np.int64)
    counts = np.arange(indices.size) ** 2 % 300 + 1
    counts[::40] = 300
    return sp.csr_matrix((counts, indices, np.array([0, 30, 70, 70, indices.size])), shape=(4, 2**32))


@pytest.mark.parametrize(("seed", "golden"), [(0, "4d46f709bedc9c7b"), (7, "64573585ebea9f1a")])
def test_golden_digest_of_wide_counts(seed: int, golden: str) -> None:
    """The same features for ever, in the second tile and the last byte too; a change needs a new version."""
    X = wide_counts()
    bits = TanimotoMinMaxFeatures(130, random_state=seed).transform_bits(X)
    assert hashlib.sha256(bits.tobytes()).hexdigest()[:16] == golden


@pytest.mark.parametrize(("seed", "golden"), [(0, "bd33cb946ff78631"), (7, "c8f5e3844816fc57")])
def test_golden_digest_of_gaussian_features(seed: int, golden: str) -> None:
    feature_map = TanimotoMinMaxFeatures(130, distribution="gaussian", random_state=seed)
    assert hashlib.sha256(feature_map.transform(wide_counts()).tobytes()).hexdigest()[:16] == golden


def test_normal_levels() -> None:
    """Mean 0 and variance 1 to the rounding of float32, and nearly the moments of a normal variable."""
    levels = normal_levels()
    assert hashlib.sha256(levels.tobytes()).hexdigest()[:16] == "8babbcaf96568f10"
    assert (levels == -levels[::-1]).all()
    moments = [np.mean(levels.astype(np.float64) ** power) for power in (2, 4, 6)]
    assert abs(moments[0] - 1) < 1e-8
    assert abs(moments[1] - FOURTH_MOMENT["gaussian"]) < 1e-4
    assert abs(moments[2] - 15) < 0.05


def test_gaussian_features_agree_with_the_oracle() -> None:
    rows = [{3: 2, 2**32 - 1: 1}, {3: 1}]
    X = sp.csr_matrix(
        (np.array([2, 1, 1]), np.array([3, 2**32 - 1, 3]), np.array([0, 2, 3])), shape=(2, 2**32)
    )
    Phi = TanimotoMinMaxFeatures(70, distribution="gaussian", random_state=5).transform(X)
    element_key, feature_keys = seeds.key(5, "minmax/elements"), seeds.words(5, "minmax/features", 70)
    level_keys = seeds.words(5, "minmax/levels", 70)
    levels = normal_levels() * np.float32(1 / np.sqrt(70))
    for i, row in enumerate(rows):
        for m in range(70):
            smallest = min(
                naive.element_hash(column, level, element_key, int(feature_keys[m]))
                for column, count in row.items()
                for level in range(1, count + 1)
            )
            assert Phi[i, m] == levels[naive.level_place(smallest, int(level_keys[m]))]


def test_empty_rows_are_alike() -> None:
    X = np.array([[0, 0], [1, 2], [0, 0]])
    feature_map = TanimotoMinMaxFeatures(512)
    Phi = feature_map.transform(X)
    assert (Phi[0] == Phi[2]).all()
    # The mean of 512 random signs: beyond 5 standard deviations for one seed in 1.7 million.
    assert abs(Phi[0] @ Phi[1]) < 5 / np.sqrt(512)


def test_a_map_that_saw_no_input_takes_any_width() -> None:
    feature_map = TanimotoMinMaxFeatures(8)
    state = feature_map.state()
    assert feature_map.fit(None).state() == state
    assert state["fitted"] == {}
    for width in (1, 2):
        assert feature_map.transform_bits(np.ones((1, width))).shape == (1, 1)
    assert not hasattr(from_state(state).fit(None), "n_features_in_")
    with pytest.raises(InputError, match="2 dimensions, not 1"):
        feature_map.fit([1, 2])


@pytest.mark.parametrize(
    ("value", "words"), [(0.5, "consistent weighted sampling"), (65_536, "65,535"), (-1, "negative")]
)
def test_real_negative_and_huge_values_are_refused(value: float, words: str) -> None:
    with pytest.raises(InputError, match=words):
        TanimotoMinMaxFeatures(8).transform_bits([[1, value]])


def test_the_state_of_the_first_version_stays_what_it_was() -> None:
    """Stores and models hold it; maps of that time knew no other hashing."""
    state = TanimotoMinMaxFeatures(8).state()
    assert state["parameters"] == {"n_components": 8, "distribution": "rademacher", "random_state": 0}
    assert from_state(state).hashing == "minwise"  # type: ignore[attr-defined]
    other = TanimotoMinMaxFeatures(8, hashing="cws").state()
    assert from_state(other).state() == other


def test_other_distributions_are_refused() -> None:
    with pytest.raises(InputError, match="rademacher"):
        TanimotoMinMaxFeatures(distribution="cauchy").fit()


@pytest.fixture(scope="module")
def exact(folded: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {kind: TanimotoMinMax()(X) for kind, X in folded.items()}


# Quartiles over 5 trials of the mean squared error over all pairs, from the published results of Tripp et al.
# 2023 (tanimoto-random-features-neurips23, commit f0edc6b, MIT licence).
PUBLISHED = {
    ("rademacher", "binary", 100): (0.00947119, 0.00954175),
    ("rademacher", "binary", 1000): (0.000973317, 0.00097611),
    ("rademacher", "binary", 10000): (9.64187e-05, 0.000106649),
    ("rademacher", "count", 100): (0.00919666, 0.00931078),
    ("rademacher", "count", 1000): (0.000934757, 0.000939261),
    ("rademacher", "count", 10000): (9.39905e-05, 0.00010648),
    ("gaussian", "binary", 100): (0.0110535, 0.0127713),
    ("gaussian", "binary", 1000): (0.00113489, 0.00138057),
    ("gaussian", "binary", 10000): (0.000113705, 0.000131542),
    ("gaussian", "count", 100): (0.0113785, 0.0121382),
    ("gaussian", "count", 1000): (0.00124919, 0.0016756),
    ("gaussian", "count", 10000): (0.000121454, 0.000146180),
}


@compiled_only
@pytest.mark.parametrize(("distribution", "kind", "n_components"), sorted(PUBLISHED))
def test_median_error_lies_within_the_published_quartiles(
    folded: dict[str, np.ndarray],
    exact: dict[str, np.ndarray],
    distribution: str,
    kind: str,
    n_components: int,
) -> None:
    X = folded[kind]
    errors = []
    # More seeds than the published 5 where it costs little: normal features of 5 seeds vary by a tenth.
    for seed in range(25 if n_components < 10_000 else 5):
        Phi = TanimotoMinMaxFeatures(n_components, distribution=distribution, random_state=seed).transform(X)
        errors.append(np.mean((exact[kind] - Phi @ Phi.T) ** 2))
    lower, upper = PUBLISHED[distribution, kind, n_components]
    assert 0.9 * lower <= np.median(errors) <= 1.1 * upper


@compiled_only
@pytest.mark.parametrize("hashing", ["minwise", "cws"])
@pytest.mark.parametrize("distribution", sorted(FOURTH_MOMENT))
def test_variance_over_seeds_is_that_of_theorem_3_1(
    folded: dict[str, np.ndarray], exact: dict[str, np.ndarray], distribution: str, hashing: str
) -> None:
    """Var[phi(x) phi(y)] = 1 + T (E[xi^4] - 1 - T) of scalar features, over 10 seeds of 10,000 features."""
    X, similarities = folded["count"], exact["count"]
    # Pairs of rows from the least to the most similar ones, and of a row with itself.
    order = np.argsort(similarities, axis=None)[:: similarities.size // 12]
    first, second = np.unravel_index(np.append(order, [0, 2002]), similarities.shape)
    T = similarities[first, second]
    size = 10_000
    products = []
    for seed in range(10):
        options = {"distribution": distribution, "hashing": hashing, "random_state": seed}
        Phi = TanimotoMinMaxFeatures(size, **options).transform(X[np.append(first, second)])
        left, right = np.split(Phi.astype(np.float64), 2)
        products.append(left * right * size)
    scalars = np.concatenate(products, axis=1)
    squares = np.square(scalars - T[:, None])
    expected = 1 + T * (FOURTH_MOMENT[distribution] - 1 - T)
    # 15 pairs: beyond 4.5 standard errors for one choice of the seeds in 10,000.
    error = 4.5 / np.sqrt(scalars.shape[1])
    assert (np.abs(scalars.mean(axis=1) - T) <= error * np.sqrt(expected) + 1e-6).all()
    assert (np.abs(squares.mean(axis=1) - expected) <= error * squares.std(axis=1) + 1e-6).all()


def replicate_errors(X: np.ndarray, exact: np.ndarray, n_components: int) -> Iterator[np.ndarray]:
    """Yield the error of all pairs for 4 disjoint sets of features of each of 100 seeds."""
    for seed in range(100):
        feature_map = TanimotoMinMaxFeatures(n_components * 4, random_state=100 + seed)
        signs = unpack_bits(feature_map.transform_bits(X), feature_map.n_components)
        for block in np.split(signs, 4, axis=1):
            yield block @ block.T / np.float32(n_components) - exact


@compiled_only
@pytest.mark.parametrize("kind", ["binary", "count"])
def test_error_is_unbiased_with_the_theoretical_variance(folded: dict[str, np.ndarray], kind: str) -> None:
    """E[error^2] = (1 - T^2) / M. The diagonal is exact and adds nothing to either side."""
    n_components = 256
    exact = TanimotoMinMax()(folded[kind]).astype(np.float32)
    expected = (1 - exact.astype(np.float64) ** 2) / n_components
    near = np.nonzero((exact > 0.5) & (exact < 1))
    statistics = [
        (
            np.vdot(error, error) / expected.sum(),
            np.sum(error[near] ** 2) / expected[near].sum(),
            error.mean(dtype=np.float64),
        )
        for error in replicate_errors(folded[kind], exact, n_components)
    ]
    mean = np.mean(statistics, axis=0)
    standard_error = np.std(statistics, axis=0, ddof=1) / np.sqrt(len(statistics))
    assert standard_error[0] < 0.01
    assert standard_error[1] < 0.02
    # Each of the three is beyond 3 standard errors for one choice of the seeds in 370.
    assert (np.abs(mean - [1.0, 1.0, 0.0]) <= 3 * standard_error).all()
