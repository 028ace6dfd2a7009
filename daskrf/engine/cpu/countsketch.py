"""Count sketches of sparse rows, convolved directly or with SciPy's Fourier transforms."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.fft

from daskrf.engine import Rows
from daskrf.engine.cpu.jit import jit

Array = npt.NDArray[np.number]

_NUMBERS = 1 << 17
"""Number of values transformed at a time, which stay in the L2 cache."""

_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)


@jit
def _word(column: np.uint64 | int, key: np.uint64) -> np.uint64:
    """Return the random word of a column: the finalizer of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = np.uint64(column) ^ key
    x = (x ^ (x >> np.uint64(30))) * _MULTIPLIER_1
    x = (x ^ (x >> np.uint64(27))) * _MULTIPLIER_2
    return x ^ (x >> np.uint64(31))


@jit
def _bucket(word: np.uint64, length: int) -> np.int64:
    """Return a number below `length` from the high half of a word."""
    return np.int64(((word >> np.uint64(32)) * np.uint64(length)) >> np.uint64(32))


@jit
def _sketch(pointer: Array, columns: Array, values: Array, key: np.uint64, out: Array) -> None:
    """Write the count sketches of sparse rows to `out`."""
    for row in range(out.shape[0]):
        sketch = out[row]
        sketch[:] = np.float32(0.0)
        for i in range(pointer[row], pointer[row + 1]):
            word = _word(columns[i], key)
            place = _bucket(word, sketch.size)
            if word & np.uint64(1):
                sketch[place] -= values[i]
            else:
                sketch[place] += values[i]


@jit
def _sketch_dense(dense: Array, key: np.uint64, out: Array) -> None:
    """As `_sketch`, for the rows (1, dense[row])."""
    out[:] = np.float32(0.0)
    for column in range(dense.shape[1] + 1):
        word = _word(column, key)
        place = _bucket(word, out.shape[1])
        sign = np.float32(-1.0) if word & np.uint64(1) else np.float32(1.0)
        for row in range(out.shape[0]):
            value = dense[row, column - 1] if column else np.float32(1.0)
            out[row, place] += sign * value


def product_term(
    rows: Rows,
    keys: npt.NDArray[np.uint64],
    spectra: npt.NDArray[np.float32],
    slots: npt.NDArray[np.int64],
    out: npt.NDArray[np.float32],
    dense: npt.NDArray[np.float32] | None = None,
) -> None:
    """Write the sketches of tensor powers; see `Engine`."""
    n, length = out.shape
    n_sparse = keys.size - (dense is not None)
    step = max(1, _NUMBERS // (length * keys.size))
    for start in range(0, n, step):
        stop = min(start + step, n)
        sketches = np.empty((keys.size, stop - start, length), np.float32)
        with np.errstate(over="ignore"):
            for key, sketch in zip(keys[:n_sparse], sketches, strict=False):
                _sketch(rows.pointer[start : stop + 1], rows.columns, rows.values, key, sketch)
            if dense is not None:
                _sketch_dense(dense[start:stop], keys[-1], sketches[-1])
        total = spectra[slots[start:stop]].view(np.complex64)
        for transformed in scipy.fft.rfft(sketches, axis=2):
            total *= transformed
        # The imaginary part of the first frequency, and of the last one of an even length, is 0.
        parts = total.view(np.float32)
        out[start:stop, 0] = parts[:, 0]
        out[start:stop, 1:] = parts[:, 2 : length + 1]


@jit
def _first_term(
    pointer: Array,
    columns: Array,
    values: Array,
    key: np.uint64,
    places: Array,
    weights: Array,
    slots: Array,
    out: Array,
) -> None:
    length = out.shape[1]
    # Twice the length, folded at the end: no wrap-around of positions in the inner loop.
    buffer = np.empty(2 * length, np.float32)
    for row in range(slots.size):
        buffer[:] = 0
        weight = weights[slots[row]]
        for i in range(pointer[row], pointer[row + 1]):
            word = _word(columns[i], key)
            value = -values[i] if word & np.uint64(1) else values[i]
            start = _bucket(word, length)
            for p in range(places.size):
                buffer[start + places[p]] += value * weight[p]
        out[row] = buffer[:length] + buffer[length:]


def first_term(
    rows: Rows,
    key: int,
    places: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float32],
    slots: npt.NDArray[np.int64],
    out: npt.NDArray[np.float32],
) -> None:
    """Write the sketches of the rows, convolved; see `Engine`."""
    with np.errstate(over="ignore"):
        _first_term(*rows, np.uint64(key), places, weights, slots, out)
