"""Keys of 128 bits: hashes of texts, and a hash table that numbers and finds them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from daskrf.engine.cpu.jit import jit

Array = npt.NDArray[np.number]
Bytes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]

_SEEDS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1B54A32D192ED03))
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_R27, _R30, _R31 = np.uint64(27), np.uint64(30), np.uint64(31)


@jit
def _mixed(x: np.uint64) -> np.uint64:
    """Return a 64-bit word mixed by the finalizer of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> _R30)) * _MIX_1
    x = (x ^ (x >> _R27)) * _MIX_2
    return x ^ (x >> _R31)


@jit
def _hash_texts(text: Bytes, stops: Integers, keys: Words) -> None:
    for i in range(stops.size - 1):
        start, stop = stops[i], stops[i + 1]
        length = np.uint64(stop - start)
        low, high = _mixed(_SEEDS[0] + length), _mixed(_SEEDS[1] + length)
        for first in range(start, stop, 8):
            word = np.uint64(0)
            for k in range(min(8, stop - first)):
                word |= np.uint64(text[first + k]) << np.uint64(8 * k)
            low, high = _mixed(low ^ word), _mixed(high ^ word)
        keys[i, 0], keys[i, 1] = low, high


def hash_texts(text: Bytes, stops: Integers) -> Words:
    """Return hashes of 128 bits; see `Engine`."""
    keys = np.empty((len(stops) - 1, 2), np.uint64)
    with np.errstate(over="ignore"):
        _hash_texts(text, stops, keys)
    return keys


@jit
def _number_keys(keys: Words, slots: Array, numbers: Array) -> int:
    size, n = np.uint64(slots.size), 0
    for i in range(keys.shape[0]):
        low, high = keys[i, 0], keys[i, 1]
        at = np.int64(low % size)
        while True:
            j = slots[at]
            if j < 0:
                # The distinct keys so far are never more than the keys so far, so this overwrites none.
                slots[at], keys[n, 0], keys[n, 1] = n, low, high
                numbers[i] = n
                n += 1
                break
            if keys[j, 0] == low and keys[j, 1] == high:
                numbers[i] = j
                break
            at = np.int64(0) if at + 1 == slots.size else at + np.int64(1)
    return n


def number_keys(keys: Words, slots: Array, numbers: Array) -> int:
    """Number distinct keys; see `Engine`."""
    return int(_number_keys(keys, slots, numbers))


@jit
def _find_keys(keys: Words, slots: Array, wanted: Words, numbers: Integers) -> None:
    size = np.uint64(slots.size)
    for i in range(wanted.shape[0]):
        low, high = wanted[i, 0], wanted[i, 1]
        at = np.int64(low % size)
        numbers[i] = -1
        while slots[at] >= 0:
            j = slots[at]
            if keys[j, 0] == low and keys[j, 1] == high:
                numbers[i] = j
                break
            at = np.int64(0) if at + 1 == slots.size else at + np.int64(1)


def find_keys(keys: Words, slots: Array, wanted: Words) -> Integers:
    """Return the numbers of keys; see `Engine`."""
    numbers = np.empty(len(wanted), np.int64)
    _find_keys(keys, slots, wanted, numbers)
    return numbers
