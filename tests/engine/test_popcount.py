"""The popcount engine against integer products, for awkward sizes and any chunking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.arrays import n_bytes, unpack_bits
from daskrf.engine import engine
from daskrf.engine.cpu import popcount
from daskrf.errors import InputError
from tests.bits import pack_signs
from tests.jit import jit_disabled
from tests.naive import bits as naive

SIZES = st.tuples(st.integers(0, 200), st.integers(1, 100), st.integers(0, 2**32 - 1))
compiled_only = pytest.mark.skipif(jit_disabled(), reason="large input: too slow without the JIT")


def random_bits(n: int, n_components: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return pack_signs(rng.integers(0, 2, (n, n_components)) * 2 - 1)


def gram(bits: np.ndarray, n_components: int) -> np.ndarray:
    out = np.zeros((n_components, n_components), np.int64)
    engine().bit_gram(bits, n_components, out)
    return out


@given(SIZES)
@settings(derandomize=True, deadline=None, max_examples=8 if jit_disabled() else 60)
def test_gram_is_the_upper_triangle_of_the_integer_product(sizes: tuple[int, int, int]) -> None:
    n, n_components, seed = sizes
    bits = random_bits(n, n_components, seed)
    out = gram(bits, n_components)
    assert (out == np.triu(naive.gram(bits, n_components))).all()


@given(SIZES, st.lists(st.integers(0, 200), max_size=4))
@settings(derandomize=True, deadline=None, max_examples=4 if jit_disabled() else 30)
def test_gram_adds_up_over_any_chunks_in_any_order(sizes: tuple[int, int, int], cuts: list[int]) -> None:
    n, n_components, seed = sizes
    bits = random_bits(n, n_components, seed)
    total = np.zeros((n_components, n_components), np.int64)
    for chunk in reversed(np.split(bits, sorted(min(cut, n) for cut in cuts))):
        engine().bit_gram(chunk, n_components, total)
    assert (total == gram(bits, n_components)).all()


@compiled_only
def test_gram_over_several_blocks_of_rows_and_columns() -> None:
    n, n_components = popcount.ROWS + 333, popcount.COLUMNS + 71
    bits = random_bits(n, n_components, 5)
    phi = unpack_bits(bits, n_components, np.float64)
    assert (gram(bits, n_components) == np.triu(phi.T @ phi)).all()


def test_gram_leaves_the_lower_triangle_alone_and_takes_strided_rows() -> None:
    bits = random_bits(20, 13, 1)
    out = np.full((13, 13), 7, np.int64)
    engine().bit_gram(bits[::2], 13, out)
    assert (out == 7 + np.triu(naive.gram(bits[::2], 13))).all()


def test_equal_and_opposite_columns() -> None:
    bits = np.array([[0b01], [0b01], [0b10]], np.uint8)
    assert gram(bits, 2).tolist() == [[3, -3], [0, 3]]


@pytest.mark.parametrize(
    "out",
    [np.zeros((8, 8)), np.zeros((8, 9), np.int64), np.zeros((8, 8), np.int64, order="F")[:, ::-1]],
)
def test_an_unfit_gram_array_is_refused(out: np.ndarray) -> None:
    with pytest.raises(InputError, match="C-contiguous int64"):
        engine().bit_gram(np.zeros((1, 1), np.uint8), 8, out)


@given(SIZES, st.integers(1, 3))
@settings(derandomize=True, deadline=None, max_examples=5 if jit_disabled() else 40)
def test_phi_y_is_exact_for_integers_beyond_double_precision(
    sizes: tuple[int, int, int], n_targets: int
) -> None:
    n, n_components, seed = sizes
    bits = random_bits(n, n_components, seed)
    y = np.random.default_rng(seed).integers(-(2**54), 2**54, (n, n_targets))
    product = engine().bit_sums(bits, y, n_components)
    assert product.dtype == np.int64
    assert (product == naive.phi_y(bits, y, n_components)).all()
    ones = np.ones((n, 1), np.int64)
    sums = engine().bit_sums(bits, ones, n_components)[:, 0]
    assert (sums == naive.signs(bits, n_components).sum(axis=0)).all()


@given(SIZES, st.integers(1, 35), st.sampled_from([np.float32, np.float64]))
@settings(derandomize=True, deadline=None, max_examples=4 if jit_disabled() else 40)
def test_bit_means_is_the_product_with_the_weights(
    sizes: tuple[int, int, int], n_targets: int, dtype: type
) -> None:
    n, n_components, seed = sizes
    n, n_targets = (min(n, 5), min(n_targets, 2)) if jit_disabled() else (n, n_targets)
    bits = random_bits(n, n_components, seed)
    weights = np.random.default_rng(seed).normal(size=(n_components, n_targets)).astype(dtype)
    means = engine().bit_means(bits, n_components, weights)
    assert means.dtype == dtype
    bound = 50 * np.finfo(dtype).eps * np.abs(weights).sum(axis=0)
    assert (np.abs(means - naive.signs(bits, n_components) @ weights.astype(np.float64)) <= bound).all()


@compiled_only
def test_a_row_of_bit_means_has_the_same_bytes_in_any_company() -> None:
    n_components = 1000
    bits = random_bits(97, n_components, 3)
    weights = np.random.default_rng(3).normal(size=(n_components, 20))
    whole = engine().bit_means(bits, n_components, weights)
    alone = np.concatenate([engine().bit_means(bits[i : i + 1], n_components, weights) for i in range(97)])
    assert whole.tobytes() == alone.tobytes()
    first = engine().bit_means(np.asfortranarray(bits), n_components, weights[:, :1])
    assert first.tobytes() == np.ascontiguousarray(whole[:, :1]).tobytes()


@pytest.mark.parametrize("shape", [(2, 1), (4, 1), (3,)])
def test_products_with_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="y must be an int64 array"):
        engine().bit_sums(np.zeros((3, 1), np.uint8), np.zeros(shape, np.int64), 8)
    with pytest.raises(InputError, match="Weights must be a float array"):
        engine().bit_means(np.zeros((1, 1), np.uint8), 3 if shape != (3,) else 8, np.zeros(shape))


def test_padding_is_zero_in_the_generator() -> None:
    """The contract of packed bits, which the other tests rely on."""
    assert random_bits(3, 5, 0).max() < 2**5
    assert random_bits(3, 9, 0).shape == (3, n_bytes(9))
