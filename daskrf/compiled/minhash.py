"""Min-hash bits of count sets, with the hashing shared between the molecules of a batch.

A row with count c in column k is the set of elements (k, 1), ..., (k, c). Feature m ranks all elements by
a 32-bit hash and keeps the lowest bit of the smallest hash value. Molecules share most of their
substructures, so the smallest hash over the levels 1..c of each distinct (column, count) pair of a batch is
tabulated once for a tile of 64 features; a molecule is then the minimum over a few rows of that table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.compiled.intrinsics import mix32, tile_minimum_bits
from daskrf.compiled.jit import jit

__all__ = ["minhash_words"]

Array = npt.NDArray[Any]

TILE = 64
"""Features of a tile: one 64-bit word of output, and eight 256-bit registers of running minima."""

BATCH_ENTRIES = 1 << 20
"""Entries (about 35,000 drug-like molecules at radius 1) that share one dictionary of pairs.

The more molecules share it, the less is hashed for each. The table takes 256 bytes a distinct pair: a few MiB
for such molecules, 256 MiB where no two entries are equal.
"""

_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@jit
def _mix64(x: Any) -> Any:
    """Mix a 64-bit word by the bijective finalizer of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _MULTIPLIER_1
    x = (x ^ (x >> np.uint64(27))) * _MULTIPLIER_2
    return x ^ (x >> np.uint64(31))


@jit
def _find_pairs(
    indices: Array, counts: Array, pair_of: Array, pair_column: Array, pair_count: Array, frequency: Array
) -> int:
    """Number the distinct (column, count) pairs in order of appearance; return how many there are.

    Open addressing with linear probing in a table at most half full.
    """
    size = 16
    while size < 2 * indices.size:
        size *= 2
    mask = np.uint64(size - 1)
    table = np.full(size, -1, np.int32)
    n_pairs = 0
    for i in range(indices.size):
        column = np.uint64(indices[i])
        count = counts[i]
        place = _mix64((column << np.uint64(16)) ^ np.uint64(count) ^ (column >> np.uint64(48))) & mask
        while True:
            pair = table[place]
            if pair < 0:
                pair = n_pairs
                table[place] = pair
                pair_column[pair] = column
                pair_count[pair] = count
                frequency[pair] = 0
                n_pairs += 1
                break
            if pair_column[pair] == column and pair_count[pair] == count:
                break
            place = (place + np.uint64(1)) & mask
        pair_of[i] = pair
        frequency[pair] += 1
    return n_pairs


@jit
def _fill_table(
    pair_column: Array,
    pair_count: Array,
    slot: Array,
    element_key: Any,
    keys_low: Array,
    keys_high: Array,
    table: Array,
) -> None:
    """Write the smallest hash over levels 1..count of each pair, for each of 64 features, to table[slot].

    Pairs come sorted by column, then count, so that the levels of a column are hashed once.
    """
    running = np.empty(TILE, np.uint32)
    column = np.uint64(0)
    level = 0
    for pair in range(pair_column.size):
        if pair == 0 or pair_column[pair] != pair_column[pair - 1]:
            running[:] = np.uint32(0xFFFFFFFF)
            column = _mix64(pair_column[pair] ^ element_key)
            level = 0
        while level < pair_count[pair]:
            level += 1
            element = _mix64(column + np.uint64(level) * _GOLDEN)
            low = np.uint32(element)
            high = np.uint32(element >> np.uint64(32))
            for m in range(TILE):
                value = mix32(np.uint32(low ^ keys_low[m]))
                value = mix32(np.uint32(value ^ high))
                value = mix32(np.uint32(value ^ keys_high[m]))
                running[m] = min(running[m], value)
        table[slot[pair]] = running


@jit
def _row_words(indptr: Array, slot_of: Array, table: Array, words: Array) -> None:
    """Write the packed lowest bits of each row's minima; a row without entries takes the last table row."""
    empty = np.array([table.shape[0] - 1], np.int32)
    for row in range(words.size):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            words[row] = tile_minimum_bits(table, empty, 0, 1)
        else:
            words[row] = tile_minimum_bits(table, slot_of, start, stop)


def minhash_words(
    indptr: Array,
    indices: Array,
    counts: npt.NDArray[np.uint16],
    element_key: int,
    empty: npt.NDArray[np.uint32],
    feature_keys: npt.NDArray[np.uint64],
) -> npt.NDArray[np.uint64]:
    """Return the min-hash bits of count sets, 64 features a word.

    Parameters
    ----------
    indptr, indices, counts : arrays of a canonical CSR matrix of n rows
    element_key : int
        64-bit key of the stream of element hashes.
    empty : uint32 array, shape (M,)
        The minimum that stands for a row without entries.
    feature_keys : uint64 array, shape (M,)
        One key a feature, M a multiple of 64.

    Returns
    -------
    uint64 array, shape (n, M / 64)
        The bits of a row depend on that row and the keys alone.

    Notes
    -----
    Broder 1997 for min-wise hashing; the lowest bit of the minimum is independent of which element is the
    smallest, and two distinct minima agree in it with probability 1/2.
    """
    n_rows = indptr.size - 1
    words = np.empty((n_rows, feature_keys.size // TILE), np.uint64)
    start = 0
    with np.errstate(over="ignore"):
        while start < n_rows:
            within = int(np.searchsorted(indptr, indptr[start] + BATCH_ENTRIES, side="right")) - 1
            stop = max(start + 1, within)
            pointer = indptr[start : stop + 1].astype(np.int64)
            entries = slice(pointer[0], pointer[-1])
            pairs = _dictionary(indices[entries], counts[entries], element_key)
            _batch_words(pointer - pointer[0], pairs, empty, feature_keys, words[start:stop])
            start = stop
    return words


@dataclass(frozen=True)
class _Pairs:
    """The distinct (column, count) pairs of a batch, sorted, and where each stands in the table."""

    column: Array
    count: Array
    slot: Array
    slot_of: Array
    element_key: np.uint64


def _dictionary(indices: Array, counts: Array, element_key: int) -> _Pairs:
    """Number the distinct pairs of a batch; `slot_of` gives the row of the table for each entry."""
    nnz = indices.size
    pair_of, frequency = np.empty(nnz, np.int32), np.empty(nnz, np.int32)
    column, count = np.empty(nnz, np.uint64), np.empty(nnz, np.uint16)
    n_pairs = _find_pairs(indices, counts, pair_of, column, count, frequency)
    # Frequent pairs first: the rows of the table that most molecules read lie together.
    slot = np.empty(n_pairs, np.int32)
    slot[np.argsort(-frequency[:n_pairs], kind="stable")] = np.arange(n_pairs, dtype=np.int32)
    order = np.lexsort((count[:n_pairs], column[:n_pairs]))
    return _Pairs(column[order], count[order], slot[order], slot[pair_of], np.uint64(element_key))


def _batch_words(
    indptr: Array,
    pairs: _Pairs,
    empty: npt.NDArray[np.uint32],
    feature_keys: npt.NDArray[np.uint64],
    words: npt.NDArray[np.uint64],
) -> None:
    """Fill `words` for the rows of one batch, tile by tile of features."""
    low = feature_keys.astype(np.uint32)
    high = (feature_keys >> np.uint64(32)).astype(np.uint32)
    table = np.empty((pairs.slot.size + 1, TILE), np.uint32)
    column = np.empty(words.shape[0], np.uint64)
    for tile in range(words.shape[1]):
        features = slice(tile * TILE, (tile + 1) * TILE)
        table[-1] = empty[features]
        _fill_table(
            pairs.column, pairs.count, pairs.slot, pairs.element_key, low[features], high[features], table
        )
        _row_words(indptr, pairs.slot_of, table, column)
        words[:, tile] = column
