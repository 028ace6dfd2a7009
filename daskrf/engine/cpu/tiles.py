"""Hashes and random products of sparse rows, a tile of 64 features at a time.

A hash of weighted sets assigns every (column, value) pair a number for each feature; a row's number is the
minimum over its pairs. Molecules share most of their substructures, so the numbers of each distinct pair in a
batch of rows are tabulated once per tile of 64 features; a molecule is then the minimum over a few rows of
that table. Random products are sums over rows of a similar table, with one row per distinct column.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from daskrf.engine import Factors, Hashes, Rows
from daskrf.engine.cpu.hashes import (
    TILE,
    draw_levels,
    fill_minwise,
    fill_weighted,
    find_pairs,
    logarithms,
)
from daskrf.engine.cpu.minima import narrow, row_minima, row_words
from daskrf.engine.cpu.signs import fill_normals, fill_signs, multiply_normals, multiply_signs

Array = npt.NDArray[np.number]

BATCH_ENTRIES = 1 << 22
"""Entries (about 26,000 drug-like molecules of the default kinds) that share one dictionary of pairs.

The more molecules share it, the less hashing each needs.
"""

BATCH_BYTES = 1 << 25
"""Bytes that the table of a batch should not exceed: if few entries are equal, batches are made smaller.

The table takes 256 bytes per distinct pair: a few MiB for counts of drug-like molecules. A single row may
exceed the limit.
"""

_LINE = 64
"""Bytes of a cache line."""


class Pairs(NamedTuple):
    """The distinct (column, value) pairs of a batch, sorted, and their positions in the table.

    `column` is uint64, `value` has the dtype of the values, `slot` is the int32 table row of each pair, and
    `slot_of` that of each entry of the batch.
    """

    column: Array
    value: Array
    slot: Array
    slot_of: Array


def hash_bits(rows: Rows, hashes: Hashes) -> npt.NDArray[np.uint64]:
    """Return a random bit for each hash of each row; see `Engine`."""
    words = np.empty((rows.pointer.size - 1, hashes.low.size // TILE), np.uint64)
    with np.errstate(over="ignore"):
        for chunk, pointer, pairs in _batches(_hashed(rows, hashes)):
            table, column = _table(pairs), np.empty(pointer.size - 1, np.uint64)
            narrowed = _table(pairs, np.uint16)
            for tile in range(words.shape[1]):
                _fill(pairs, hashes, slice(tile * TILE, (tile + 1) * TILE), table)
                narrow(table, *_narrowing(pointer, table, hashes), narrowed)
                row_words(pointer, pairs.slot_of, table, narrowed, column)
                words[chunk, tile] = column
    return words


def hash_levels(
    rows: Rows, hashes: Hashes, low: Array, high: Array, levels: Array, out: npt.NDArray[np.float32]
) -> None:
    """Write a level for each hash of each row; see `Engine`."""
    with np.errstate(over="ignore"):
        for chunk, pointer, pairs in _batches(_hashed(rows, hashes)):
            table, minima = _table(pairs), np.empty((pointer.size - 1, TILE), np.uint32)
            for start in range(0, out.shape[1], TILE):
                tile = slice(start, start + TILE)
                _fill(pairs, hashes, tile, table)
                row_minima(pointer, pairs.slot_of, table, minima)
                draw_levels(minima, low[tile], high[tile], levels, start, out[chunk])


def random_products(
    rows: Rows,
    scales: tuple[Array, Array],
    element: np.uint64,
    tiles: list[Factors],
    levels: Array | None,
    out: npt.NDArray[np.float32],
) -> None:
    """Write products of random projections; see `Engine`."""
    nothing = np.zeros(rows.columns.size, np.uint8)
    with np.errstate(over="ignore", invalid="ignore"):
        for chunk, pointer, pairs in _batches(rows._replace(values=nothing)):
            values = rows.values[rows.pointer[chunk.start] : rows.pointer[chunk.stop]]
            small = _small_counts(pointer, values)
            batch = pointer, pairs.slot_of, values, scales[0][chunk], scales[1][chunk], *small
            for number, tile in enumerate(tiles):
                arguments = pairs.column, pairs.slot, element, tile.keys
                layers, first = (tile.counts, tile.scales, tile.offsets), number * TILE
                if levels is None:
                    signs = np.empty((pairs.column.size, tile.keys.size), np.uint64)
                    fill_signs(*arguments, signs)
                    multiply_signs(batch, signs, layers, tile.weights, first, out[chunk])
                else:
                    normals = np.empty((pairs.column.size, tile.keys.size, TILE), np.float32)
                    fill_normals(*arguments, levels, normals)
                    multiply_normals(batch, normals, layers, tile.weights, first, out[chunk])


def _small_counts(pointer: Array, values: Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """Return the values as bytes, and the sums of rows whose counts sum to at most 255, -1 for other rows.

    These sums are exact both in bytes and in floats, so a row's features do not depend on the method used.
    """
    clipped = np.clip(values, 0.0, 255.0)
    small = clipped.astype(np.uint8)
    bad = np.concatenate([[0], np.cumsum(small != values)])[pointer]
    sums = np.concatenate([[0], np.cumsum(small, dtype=np.int64)])[pointer]
    totals = np.diff(sums)
    return small, np.where((np.diff(bad) == 0) & (totals <= 255), totals, -1).astype(np.float32)


def _hashed(rows: Rows, hashes: Hashes) -> Rows:
    """Return the rows with the unsigned values that hashes depend on: counts, or the bits of ln(weight)."""
    if not hashes.weighted:
        return rows
    logs = np.empty_like(rows.values)
    with np.errstate(over="ignore"):
        logarithms(rows.values, logs)
    return rows._replace(values=logs.view(np.uint64))


def _fill(pairs: Pairs, hashes: Hashes, tile: slice, table: Array) -> None:
    """Write the numbers of a tile of hashes, for all pairs, to the table; its last row is for empty rows."""
    table[-1] = hashes.empty[tile]
    keys = hashes.element, hashes.low[tile], hashes.high[tile]
    if hashes.weighted:
        fill_weighted(pairs.column, pairs.value.view(np.float64), pairs.slot, *keys, table)
    else:
        fill_minwise(pairs.column, pairs.value, pairs.slot, *keys, table)


def _table(pairs: Pairs, dtype: npt.DTypeLike = np.uint32) -> Array:
    """Return an empty table with a row per pair and one more, each row made of whole cache lines.

    NumPy aligns arrays to 16 bytes; minima of rows that begin within a cache line take a quarter longer.
    """
    size, width = (pairs.slot.size + 1) * TILE, np.dtype(dtype).itemsize
    memory = np.empty(size + _LINE // width, dtype)
    first = -memory.ctypes.data % _LINE // width
    return memory[first : first + size].reshape(-1, TILE)


def _narrowing(pointer: Array, table: Array, hashes: Hashes) -> tuple[np.uint32, np.uint32]:
    """Return base and shift of a narrow table with which a batch's words are seldom undetermined.

    The minimum of k min-wise hashes is 2^32 / k on average. If narrow numbers reach 8 to 16 times as far, a
    minimum is rarely beyond, and the two smallest hashes are rarely the same. Ranks of weighted sets are
    logarithms in units of 2^-21: narrow numbers are in units of 2^-10, and reach 32 above the smallest.
    """
    if hashes.weighted:
        return table[:-1].min(initial=np.uint32(0xFFFFFFFF)), np.uint32(11)
    mean = max(1.0, (pointer[-1] - pointer[0]) / max(1, pointer.size - 1))
    return np.uint32(0), np.uint32(np.clip(np.ceil(np.log2(8 * 2.0**17 / mean)), 0, 17))


def _batches(rows: Rows) -> Iterator[tuple[slice, Array, Pairs]]:
    """Yield rows, their pointer from 0, and their pairs, with bounded entries and a bounded table."""
    indptr, indices, values = rows
    indptr = indptr.astype(np.int64, copy=False)  # a 32-bit pointer plus a batch could overflow
    n_rows = indptr.size - 1
    start, entries = 0, BATCH_ENTRIES
    while start < n_rows:
        within = int(np.searchsorted(indptr, indptr[start] + entries, side="right")) - 1
        stop = max(start + 1, within)
        pointer = indptr[start : stop + 1]
        span = slice(pointer[0], pointer[-1])
        pairs = _dictionary(indices[span], values[span])
        if stop > start + 1 and pairs.slot.size * TILE * 4 > BATCH_BYTES:
            entries = (pointer[-1] - pointer[0]) // 2
            continue
        yield slice(start, stop), pointer - pointer[0], pairs
        start = stop


def _dictionary(indices: Array, values: Array) -> Pairs:
    """Number the distinct pairs of a batch; `slot_of` gives the row of the table for each entry."""
    nnz = indices.size
    pair_of, frequency = np.empty(nnz, np.int32), np.empty(nnz, np.int32)
    column, value = np.empty(nnz, np.uint64), np.empty(nnz, values.dtype)
    n_pairs = find_pairs(indices, values, pair_of, column, value, frequency)
    order = np.lexsort((value[:n_pairs], column[:n_pairs]))
    # Frequent pairs first: the table rows that most molecules read are adjacent. The others are in the order
    # in which the table is filled, since scattered reads stall less than scattered writes.
    slot = np.empty(n_pairs, np.int32)
    slot[order[np.argsort(-frequency[order], kind="stable")]] = np.arange(n_pairs, dtype=np.int32)
    return Pairs(column[order], value[order], slot[order], slot[pair_of])
