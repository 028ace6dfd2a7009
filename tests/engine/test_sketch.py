"""Count sketches and products of their Fourier transforms, against NumPy and plain loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.engine import Rows, engine
from daskrf.features.sketches.tensorsketch import spectra
from tests.jit import jit_disabled
from tests.naive.sketch import count_sketch_entry, real_coordinates


def sparse_rows(draws: list[dict[int, float]]) -> Rows:
    pointer = np.cumsum([0, *map(len, draws)])
    columns = np.array([column for row in draws for column in sorted(row)], np.int64)
    values = np.array([row[column] for row in draws for column in sorted(row)], np.float32)
    return Rows(pointer, columns, values)


row_lists = st.lists(
    st.dictionaries(st.integers(0, 2**32 - 1), st.floats(-2, 2, width=32), max_size=4),
    min_size=1,
    max_size=10,
)


def count_sketch(row: dict[int, float], key: int, length: int) -> np.ndarray:
    actual = np.zeros(length)
    for column, value in row.items():
        bucket, sign = count_sketch_entry(column, key, length)
        actual[bucket] += sign * value
    return actual


@settings(derandomize=True, deadline=None, max_examples=30)
@given(row_lists, st.sampled_from([1, 2, 5, 12, 15]), st.integers(1, 4), st.booleans())
def test_product_terms_are_circular_convolutions(
    draws: list[dict[int, float]], length: int, n_factors: int, with_dense: bool
) -> None:
    keys = np.arange(11, 11 + n_factors + with_dense, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    weights = np.array([[0.5, -0.25, 1.0], [2.0, 0.5, -0.125]], np.float32)
    places = np.array([0, length - 1, length // 2])
    transformed = spectra(weights, places, length)
    slots = np.arange(len(draws)) % 2
    dense = np.random.default_rng(0).normal(size=(len(draws), 3)).astype(np.float32) if with_dense else None
    out = np.empty((len(draws), length), np.float32)
    engine().product_term(sparse_rows(draws), keys, transformed, slots, out, dense)
    for i, row in enumerate(draws):
        spectrum = np.zeros(length, complex)
        spectrum += np.fft.fft(np.bincount(places, weights[slots[i]], length))
        for j, key in enumerate(keys.tolist()):
            factor = row if j < n_factors else dict(enumerate([1.0, *dense[i]]))
            spectrum *= np.fft.fft(count_sketch(factor, key, length))
        exact = np.array(real_coordinates(np.fft.ifft(spectrum).real))
        # Rounding errors are relative to the factors' sizes, which may cancel.
        scale = 3.0 * max(1.0, np.prod([np.linalg.norm(list(row.values()) or [0]) ** n_factors, 4.0]))
        assert np.abs(out[i] - exact).max() < 2e-6 * np.sqrt(length) * scale


@settings(derandomize=True, deadline=None, max_examples=30)
@given(row_lists, st.sampled_from([1, 2, 7, 30]))
def test_the_first_term_is_a_circular_convolution(draws: list[dict[int, float]], length: int) -> None:
    weights = np.array([[0.5, -0.25, 1.0], [2.0, 0.5, -0.125]], np.float32)
    places = np.array([0, length - 1, length // 2])
    slots = np.arange(len(draws)) % 2
    out = np.full((len(draws), length), np.nan, np.float32)
    engine().first_term(sparse_rows(draws), 2**64 - 3, places, weights, slots, out)
    for i, row in enumerate(draws):
        sketched = count_sketch(row, 2**64 - 3, length)
        exact = sum(w * np.roll(sketched, place) for w, place in zip(weights[slots[i]], places, strict=True))
        np.testing.assert_allclose(out[i], exact, atol=1e-5)


def test_buckets_and_signs_are_uniform() -> None:
    length, n = 10, 20_000 if not jit_disabled() else 2_000
    pairs = [count_sketch_entry(column, 12345, length) for column in range(n)]
    actual = np.bincount([bucket + length * (sign > 0) for bucket, sign in pairs], minlength=2 * length)
    # Chi-squared of 19 degrees of freedom: above 50 by chance for one key in 7,000.
    assert np.sum((actual - n / 20) ** 2) / (n / 20) < 50
