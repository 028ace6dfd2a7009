"""Sufficient statistics are exact sums, whatever the order and the grouping of rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.gp import StackedStatistics, SufficientStatistics, choose_exponent
from daskrf.gp.sums.fixedpoint import exact_cross_products, integers_from_bytes, integers_to_bytes, to_fixed
from tests.gp.strategies import SEEDS, bit_problems, dense_problems
from tests.memory import least_peak
from tests.naive import gp as naive

PROPERTY = settings(derandomize=True, deadline=None, max_examples=40)


def equal(a, b):
    left, right = a.arrays(), b.arrays()
    return left.keys() == right.keys() and all(
        left[k].dtype == right[k].dtype and left[k].tobytes() == right[k].tobytes() for k in left
    )


@PROPERTY
@given(bit_problems(max_rows=12, max_components=11))
def test_one_bit_sums_equal_integer_sums(problem):
    bits, m, y = problem
    exponents = choose_exponent(y)
    found = SufficientStatistics.from_chunk(bits, y, n_components=m)
    gram, phi_y, y_sum, yy = naive.integer_sums(bits, y, m, exponents)
    assert found.gram.tolist() == gram
    assert found.phi_y.tolist() == phi_y
    assert found.y_sum.tolist() == y_sum
    assert found.yy.tolist() == yy
    assert found.n == len(bits)


@PROPERTY
@given(bit_problems(), SEEDS, st.integers(1, 6))
def test_order_chunks_and_grouping_give_identical_bytes(problem, seed, n_chunks):
    bits, m, y = problem
    rng = np.random.default_rng(seed)
    e = choose_exponent(y)
    whole = SufficientStatistics.from_chunk(bits, y, n_components=m, y_exponents=e, map_key="map")
    parts = [
        SufficientStatistics.zero(m, y.shape[1], y_exponents=e, map_key="map").update(bits[rows], y[rows])
        for rows in np.array_split(rng.permutation(len(bits)), n_chunks)
    ]
    left = parts[0].copy()
    for part in parts[1:]:
        left += part
    right = parts[-1]
    for part in parts[-2::-1]:
        right = part.combine(right)
    assert equal(whole, left)
    assert equal(whole, right)
    assert equal(whole, whole.combine(SufficientStatistics.zero(m, y.shape[1], y_exponents=e)))
    assert equal(whole.subtract(parts[0]).combine(parts[0]), whole)


@PROPERTY
@given(bit_problems())
def test_arrays_round_trip(problem):
    bits, m, y = problem
    found = SufficientStatistics.from_chunk(bits, y, n_components=m, map_key="a map")
    again = SufficientStatistics.from_arrays(found.arrays())
    assert equal(found, again)
    assert again.map_key == "a map"
    assert again.yy.tolist() == found.yy.tolist()


@PROPERTY
@given(dense_problems(), st.sampled_from([np.float16, np.float32, np.float64]))
def test_dense_sums(problem, dtype):
    phi, y, _, _ = problem
    phi = phi.astype(dtype)
    wide = phi.astype(np.float64)
    found = SufficientStatistics.from_chunk(phi, y)
    tolerance = 1e-12 if dtype == np.float64 else 3e-6
    np.testing.assert_allclose(found.gram, np.triu(wide.T @ wide), atol=tolerance * len(phi))
    np.testing.assert_allclose(found.phi_y, wide.T @ y, atol=1e-12 * len(phi))
    np.testing.assert_allclose(found.yy, y.T @ y)
    again = SufficientStatistics.from_arrays(found.arrays())
    assert equal(found, again)


@PROPERTY
@given(bit_problems())
def test_moments_measure_targets_from_their_mean(problem):
    bits, m, y = problem
    y = y + 1e6  # a mean far above the spread costs no more than the fixed-point rounding
    moments = SufficientStatistics.from_chunk(bits, y, n_components=m).moments()
    phi = naive.signs(bits, m) / np.sqrt(m)
    rounding = 2.0**-39 * np.abs(y).max() * len(y)
    centred = y - moments.shift
    assert np.abs(centred.mean(axis=0)).max() <= rounding
    np.testing.assert_allclose(moments.gram, np.triu(phi.T @ phi), atol=1e-10)
    np.testing.assert_allclose(moments.phi_y, phi.T @ centred, atol=rounding)
    np.testing.assert_allclose(moments.y_sum, centred.sum(axis=0), atol=rounding)
    largest = np.abs(centred).max(initial=1.0)
    np.testing.assert_allclose(moments.yy, (centred**2).sum(axis=0), atol=2 * rounding * largest)


@PROPERTY
@given(SEEDS, st.integers(0, 300), st.integers(0, 52))
def test_cross_products_are_exact(seed, n, bits):
    rng = np.random.default_rng(seed)
    y = rng.integers(-(2**bits) + 1, 2**bits, (n, 2))
    exact = [
        [sum(int(a) * int(b) for a, b in zip(y[:, i], y[:, j], strict=True)) for j in (0, 1)] for i in (0, 1)
    ]
    found = exact_cross_products(y)
    assert found.tolist() == exact
    assert integers_from_bytes(integers_to_bytes(found)).tolist() == exact


def test_cross_products_over_many_rows_are_exact():
    y = np.full((200_000, 1), 2**52 - 1)
    y[::3] *= -1
    assert exact_cross_products(y)[0, 0] == 200_000 * (2**52 - 1) ** 2


@pytest.mark.parametrize("largest", [1e-100, 1e-9, 0.3, 1.0, 2.0, 12345.0, 1e100])
@pytest.mark.parametrize(("n", "bits"), [(2, 40), (2**18, 40), (2**18 + 1, 39), (1_000_000, 38)])
def test_chosen_exponent_uses_forty_bits_but_leaves_room_for_the_sums(largest, n, bits):
    fixed = to_fixed([largest, -largest / 3], choose_exponent(np.resize([largest, -largest / 3], n)))
    assert 2 ** (bits - 1) <= abs(fixed[0, 0]) <= 2**bits


def test_rows_of_the_chosen_exponent_and_eight_times_as_many_can_be_summed():
    n = 2**18 + 1
    bits, y = np.zeros((n, 1), np.uint8), np.full(n, 0.999)
    total = SufficientStatistics.from_chunk(bits, y)
    for _ in range(3):
        total += total.copy()
    assert total.n == 8 * n
    assert int(total.phi_y[0, 0]) == 8 * n * int(to_fixed([0.999], choose_exponent(y))[0, 0])


def test_zero_targets_have_an_exponent():
    assert to_fixed([0.0, 0.0], choose_exponent([0.0, 0.0])).tolist() == [[0], [0]]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_targets_are_refused_and_nothing_is_added(bad):
    statistics = SufficientStatistics.zero(8, 2, y_exponents=[20, 20])
    with pytest.raises(InputError, match=r"row 1, target 0.*drop these rows"):
        statistics.update(np.zeros((2, 1), np.uint8), [[1.0, 2.0], [bad, 3.0]])
    assert statistics.n == 0
    assert not statistics.phi_y.any()


def test_too_large_targets_and_sums_are_refused():
    statistics = SufficientStatistics.zero(8, 1, y_exponents=[30])
    with pytest.raises(InputError, match="choose the exponent from all labels"):
        statistics.update(np.zeros((1, 1), np.uint8), [2.0**22])
    big = SufficientStatistics.zero(8, 1, y_exponents=[0]).update(np.zeros((1, 1), np.uint8), [2.0**51])
    for _ in range(9):
        big += big.copy()
    with pytest.raises(InputError, match="overflow 64-bit"):
        big += big.copy()
    assert int(big.phi_y[0, 0]) == big.n * 2**51 == 2**60


def test_partners_that_do_not_fit_are_refused():
    def make(m=8, t=1, e=20, key=None):
        return SufficientStatistics.zero(m, t, y_exponents=[e] * t, map_key=key)

    with pytest.raises(InputError, match="use one map"):
        make().combine(make(m=9))
    with pytest.raises(InputError, match="use one map"):
        make().combine(make(t=2))
    with pytest.raises(InputError, match=r"exponents \[20\] and \[21\]"):
        make().combine(make(e=21))
    with pytest.raises(InputError, match="maps a and b"):
        make(key="a").combine(make(key="b"))
    with pytest.raises(InputError, match="use one map"):
        make().combine(SufficientStatistics.zero(8, 1, one_bit=False))
    with pytest.raises(InputError, match="cannot remove 1 rows"):
        make().subtract(make().update(np.zeros((1, 1), np.uint8), [1.0]))


@pytest.mark.parametrize(
    ("phi", "y"),
    [
        (np.zeros((2, 2), np.uint8), [1.0, 2.0]),
        (np.zeros((2, 8), np.float32), [1.0, 2.0]),
        (np.zeros((2, 1), np.uint8), [1.0]),
        (np.zeros((2, 1), np.uint8), [[1.0, 2.0], [1.0, 2.0]]),
    ],
)
def test_wrong_shapes_are_refused(phi, y):
    with pytest.raises(InputError):
        SufficientStatistics.zero(8, 1, y_exponents=[20]).update(phi, y)


def test_missing_exponents_and_arrays_are_refused():
    with pytest.raises(InputError, match="choose_exponent"):
        SufficientStatistics.zero(8, 1)
    arrays = SufficientStatistics.zero(8, 1, y_exponents=[20]).arrays()
    del arrays["gram"]
    with pytest.raises(InputError, match="'gram'"):
        SufficientStatistics.from_arrays(arrays)


@pytest.mark.parametrize("one_bit", [True, False])
def test_update_needs_memory_for_a_block_only(one_bit):
    n, m = 150_000, 128
    phi = np.zeros((n, m // 8), np.uint8) if one_bit else np.zeros((n, m), np.float32)
    y = np.ones((n, 1))
    statistics = SufficientStatistics.zero(m, 1, one_bit, [20] if one_bit else None)
    peak = least_peak(lambda: statistics.update(phi, y))
    # Some copies of y (1.2 MB each), and 16,384 rows in float32 and float64 (8 and 16 MB) or as bits.
    assert peak < (20e6 if one_bit else 40e6)


def test_non_finite_features_are_refused():
    with pytest.raises(InputError, match="feature map"):
        SufficientStatistics.zero(2, 1, one_bit=False).update(np.array([[1.0, np.nan]]), [1.0])


@pytest.mark.parametrize("one_bit", [False, True])
@pytest.mark.parametrize("stored", ["read-only", "Fortran order"])
def test_sums_can_be_added_to_however_they_were_stored(one_bit, stored):
    rng = np.random.default_rng(0)
    phi = rng.integers(0, 256, (9, 2), dtype=np.uint8) if one_bit else rng.random((9, 5))
    whole = SufficientStatistics.from_chunk(phi, np.arange(9.0), y_exponents=[30])
    part = SufficientStatistics.from_chunk(phi[:4], np.arange(4.0), y_exponents=[30])
    arrays = {name: np.array(a, order="F") for name, a in part.arrays().items()}
    if stored == "read-only":
        arrays = {name: a.copy() for name, a in part.arrays().items()}
        for array in arrays.values():
            array.flags.writeable = False
    again = SufficientStatistics.from_arrays(arrays)
    again.update(phi[4:], np.arange(4.0, 9.0))
    assert again.n == 9
    np.testing.assert_allclose(again.gram, whole.gram, rtol=1e-14)
    np.testing.assert_allclose(again.phi_y, whole.phi_y, rtol=1e-14)
    assert (arrays["gram"] == part.gram).all()


def test_precision_of_combined_sums_is_the_lower_one():
    phi = np.eye(4, 3, dtype=np.float32)
    single, double = (
        SufficientStatistics.from_chunk(phi, np.ones(4), precision=precision)
        for precision in ("single", "double")
    )
    none = SufficientStatistics.zero(3, 1, one_bit=False)
    assert (single + double).precision == (double + single).precision == "single"
    assert (double + double).precision == (none + double).precision == (double + none).precision == "double"
    assert (none + none).precision == "double"
    assert double.subtract(single).precision == "single"


@pytest.mark.parametrize("kind", ["bits", "single", "double", "blocks"])
def test_every_row_counts_with_its_own_target(kind):
    """Over several blocks of rows, of 2,048 and of 16,384."""
    rng = np.random.default_rng(0)
    n = 17_000
    signs, y = rng.choice([-1.0, 1.0], (n, 8)), rng.standard_normal((n, 2))
    y[2_048:] += 5.0
    if kind == "bits":
        sums = SufficientStatistics.from_chunk(np.packbits(signs < 0, axis=1, bitorder="little"), y)
    elif kind == "blocks":
        sums = StackedStatistics.zero(8, 4, 2).update(signs, y).rows
    else:
        sums = SufficientStatistics.from_chunk(signs.astype(np.float32), y, precision=kind)
    moments = sums.moments(gram=False)
    scale = np.sqrt(sums.scale)
    np.testing.assert_allclose(moments.phi_y, scale * signs.T @ (y - moments.shift), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moments.yy, np.square(y - moments.shift).sum(axis=0), rtol=1e-9)


def test_rows_of_a_centroid_count_with_their_own_targets():
    """Of features about two centroids, where the nearest one of each row is told by the first feature."""
    rng = np.random.default_rng(1)
    phi, y = rng.random((5_000, 4)), rng.standard_normal(5_000)
    y[2_048:] += 5.0
    own = phi.copy()
    first = phi[:, 0] >= phi[:, 2]
    own[first, 2:], own[~first, :2] = 0.0, 0.0
    stack = StackedStatistics.zero(4, 2).update(phi, y)
    np.testing.assert_allclose(stack.own.phi_y[:, 0], own.T @ y)
    np.testing.assert_allclose(stack.rows.phi_y[:, 0], phi.T @ y)
