"""Sums over rows: strips of the Gram matrix make up the very matrix, and all kinds are monoids."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.gp import SufficientStatistics, choose_exponent
from daskrf.gp.sums.sums import STRIP_BYTES, GramStrip, Summation, assemble, strip_columns
from tests.bits import pack_signs
from tests.gp.strategies import SEEDS
from tests.jit import jit_disabled
from tests.memory import TIMES, least_peak

SIZES = st.tuples(st.integers(1, 90), st.integers(1, 330), st.integers(1, 1 << 19), SEEDS)


@given(st.integers(1, 40_000), st.one_of(st.just(STRIP_BYTES), st.integers(1, 1 << 30)))
@settings(derandomize=True, deadline=None)
def test_strips_are_all_columns_and_below_their_limit(size: int, limit: int) -> None:
    columns = strip_columns(size, limit)
    assert [first for first, _ in columns] == [0, *(stop for _, stop in columns[:-1])]
    assert columns[-1][1] == size
    assert all(first % 64 == 0 for first, _ in columns)
    assert all(8 * stop * (stop - first) <= limit or stop - first <= 64 for first, stop in columns)


def test_models_of_today_have_one_strip() -> None:
    assert [len(strip_columns(size)) for size in (1, 4096, 8192, 8193, 16384, 32768)] == [1, 1, 1, 2, 3, 10]


def _in_strips(
    whole: SufficientStatistics, phi: np.ndarray, y: np.ndarray, groups: list[np.ndarray], limit: int
) -> SufficientStatistics:
    """Return the statistics summed strip by strip, each over groups of rows that are combined at the end."""
    sums = SufficientStatistics.zero(
        whole.n_components,
        whole.n_targets,
        one_bit=whole.one_bit,
        y_exponents=whole.y_exponents,
        precision=whole.precision,
        gram=False,
    )
    for rows in groups:
        sums.update(phi[rows], y[rows])
    strips = []
    for columns in strip_columns(whole.n_components, limit):
        parts = [
            GramStrip.zero(
                whole.n_components, columns, one_bit=whole.one_bit, precision=whole.precision
            ).update(phi[rows])
            for rows in groups
        ]
        total = GramStrip.from_arrays(parts[-1].arrays())
        for part in parts[-2::-1]:
            total += part
        strips.append(total)
    return assemble(sums, strips)


@given(SIZES, st.integers(1, 4), st.integers(1, 2))
@settings(derandomize=True, deadline=None, max_examples=4 if jit_disabled() else 40)
def test_strips_of_bits_give_the_same_bytes(
    sizes: tuple[int, int, int, int], n_groups: int, n_targets: int
) -> None:
    n, size, limit, seed = sizes
    rng = np.random.default_rng(seed)
    bits, y = pack_signs(rng.integers(0, 2, (n, size)) * 2 - 1), rng.standard_normal((n, n_targets))
    whole = SufficientStatistics.from_chunk(bits, y, n_components=size, y_exponents=choose_exponent(y))
    groups = np.array_split(rng.permutation(n), n_groups)
    found = _in_strips(whole, bits, y, groups, limit).arrays()
    for name, array in whole.arrays().items():
        assert found[name].dtype == array.dtype
        assert found[name].tobytes() == array.tobytes(), name


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_strips_of_dense_features_agree_up_to_rounding(precision: str, dtype: type) -> None:
    rng = np.random.default_rng(4)
    phi, y = rng.standard_normal((3_000, 203)).astype(dtype), rng.standard_normal((3_000, 1))
    whole = SufficientStatistics.from_chunk(phi, y, precision=precision)  # type: ignore[arg-type]
    groups = np.array_split(np.arange(3_000), 2)
    found = _in_strips(whole, phi, y, groups, 8 * 100 * 100)
    rounding = 2e-6 if dtype is np.float32 and precision == "single" else 1e-14
    np.testing.assert_allclose(found.gram, whole.gram, rtol=0, atol=rounding * 3_000)
    assert not np.tril(found.gram, -1).any()


def test_double_precision_is_added_without_a_second_strip() -> None:
    strip = GramStrip.zero(2_048, (1_024, 2_048), one_bit=False, precision="double")
    phi = np.ones((10, 2_048), np.float32)
    assert least_peak(lambda: strip.update(phi)) < 0.5 * strip.gram.nbytes
    assert (strip.gram == 10 * TIMES).all()


def test_strips_that_do_not_fit_are_refused() -> None:
    sums = SufficientStatistics.zero(130, 0, gram=False)
    left, right = (GramStrip.zero(130, columns, one_bit=True) for columns in ((0, 64), (64, 130)))
    assert assemble(sums, [left, right]).gram.shape == (130, 130)
    with pytest.raises(InputError, match="up to column 64 are not all of 130"):
        assemble(sums, [left])
    with pytest.raises(InputError, match="does not follow column 0"):
        assemble(sums, [right])
    right.update(np.zeros((1, 17), np.uint8))
    with pytest.raises(InputError, match="over 1 rows does not follow column 64"):
        assemble(sums, [left, right])
    with pytest.raises(InputError, match="strips of other columns"):
        left += right
    dense = GramStrip.zero(130, (64, 130), one_bit=False)
    with pytest.raises(InputError, match="dense features with 130 columns"):
        dense.update(np.zeros((2, 17), np.uint8))
    with pytest.raises(InputError, match="NaN or infinity"):
        dense.update(np.full((2, 130), np.nan))


def test_an_unfit_strip_of_bits_is_refused() -> None:
    bits = np.zeros((1, 17), np.uint8)
    for first, shape in ((1, (130, 129)), (64, (130, 130)), (0, (131, 131))):
        strip = GramStrip(0, 130, first, np.zeros(shape, np.int64))
        with pytest.raises(InputError, match="a multiple of 64"):
            strip.update(bits)


@pytest.mark.parametrize("kind", ["bits", "floats", "blocks", "strip", "vectors"])
def test_a_summation_is_a_commutative_monoid(kind: str) -> None:
    rng = np.random.default_rng(3)
    y = rng.integers(-5, 6, (12, 2)).astype(float)
    phi: Any = rng.integers(-4, 5, (12, 64)).astype(float)  # sums of small integers are exact
    options: dict[str, Any] = {"one_bit": False}
    if kind == "bits":
        phi, options = rng.integers(0, 256, (12, 8), dtype=np.uint8), {"y_exponents": (0, 3)}
    if kind == "blocks":
        phi = np.abs(phi) + 1.0
        options |= {"block_size": 16, "map_key": "m"}
    if kind == "strip":
        options |= {"columns": (0, 64)}
    if kind == "vectors":
        options |= {"gram": False}
    summation = pickle.loads(pickle.dumps(Summation(64, 2, **options)))

    def sums(*rows: slice) -> Any:
        total = summation.zero()
        for part in rows:
            rows = (phi[part],) if kind == "strip" else (phi[part], y[part])
            total += summation.zero().update(*rows)
        return summation.restore(total.arrays())

    first, second, third = slice(0, 5), slice(5, 6), slice(6, 12)
    whole = sums(slice(0, 12))
    for one in (sums(first, second, third), sums(third, first, second)):
        assert one.n == whole.n == 12
        for name, array in whole.arrays().items():
            np.testing.assert_array_equal(one.arrays()[name], array, err_msg=name)
