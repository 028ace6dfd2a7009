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
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from daskrf.compiled.jit import jit, jit_disabled

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

_MIX_1 = 0x21F0AAAD
_MIX_2 = 0xD35A2D97

_LANES = 16
"""32-bit lanes of a vector of LLVM, which splits it into registers of the machine."""


@jit
def _mix64(x: Any) -> Any:
    """Mix a 64-bit word by the bijective finalizer of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _MULTIPLIER_1
    x = (x ^ (x >> np.uint64(27))) * _MULTIPLIER_2
    return x ^ (x >> np.uint64(31))


def _mix32_python(x: Any) -> Any:
    x = np.uint32((x ^ (x >> np.uint32(16))) * np.uint32(_MIX_1))
    x = np.uint32((x ^ (x >> np.uint32(15))) * np.uint32(_MIX_2))
    return np.uint32(x ^ (x >> np.uint32(15)))


@intrinsic
def _mix32_compiled(typing_context: Any, x: Any) -> Any:
    """Mix a uint32 by a bijection of low bias (Wellons' hash prospector, constants of 2022).

    An instruction sequence of 32 bits: numba would widen every product to 64 bits, and vectors of 64-bit
    products are several times slower.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lane = ir.IntType(32)
        value = arguments[0]
        for shift, factor in ((16, _MIX_1), (15, _MIX_2)):
            value = builder.xor(value, builder.lshr(value, ir.Constant(lane, shift)))
            value = builder.mul(value, ir.Constant(lane, factor))
        return builder.xor(value, builder.lshr(value, ir.Constant(lane, 15)))

    return types.uint32(types.uint32), generate


def _tile_minimum_bits_python(table: Any, slots: Any, start: int, stop: int) -> Any:
    lowest = table[slots[start:stop]].min(axis=0) & np.uint32(1)
    return np.packbits(lowest.astype(np.uint8), bitorder="little").view("<u8")[0]


@intrinsic
def _tile_minimum_bits_compiled(typing_context: Any, table: Any, slots: Any, start: Any, stop: Any) -> Any:
    """Return the lowest bits of min(table[slots[start:stop]], axis=0), packed to a uint64.

    `table` is C-contiguous uint32 of shape (any, 64), `slots` contiguous int32. Written as vectors of LLVM
    because the 64 running minima then live in registers, which a loop over an array does not achieve.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table_type, slots_type = signature.args[:2]
        table_base = context.make_array(table_type)(context, builder, arguments[0]).data
        slots_base = context.make_array(slots_type)(context, builder, arguments[1]).data
        minima = _emit_minimum_loop(builder, table_base, slots_base, arguments[2], arguments[3])
        return _emit_pack(builder, minima)

    return types.uint64(table, slots, types.int64, types.int64), generate


def _emit_minimum_loop(builder: Any, table: Any, slots: Any, start: Any, stop: Any) -> list[Any]:
    """Emit the loop over slots; return the vectors of minima (all ones where the range is empty)."""
    int64, lane = ir.IntType(64), ir.IntType(32)
    vector = ir.VectorType(lane, _LANES)
    ones = ir.Constant(vector, [0xFFFFFFFF] * _LANES)
    entry = builder.block
    head = builder.append_basic_block("minimum.head")
    body = builder.append_basic_block("minimum.body")
    end = builder.append_basic_block("minimum.end")
    builder.branch(head)
    builder.position_at_end(head)
    position = builder.phi(int64)
    minima = [builder.phi(vector) for _ in range(TILE // _LANES)]
    builder.cbranch(builder.icmp_signed("<", position, stop), body, end)
    builder.position_at_end(body)
    slot = builder.sext(builder.load(builder.gep(slots, [position])), int64)
    row = builder.gep(table, [builder.mul(slot, ir.Constant(int64, TILE))])
    smaller = []
    for index, minimum in enumerate(minima):
        place = builder.gep(row, [ir.Constant(int64, index * _LANES)])
        values = builder.load(builder.bitcast(place, vector.as_pointer()), align=4)
        smaller.append(builder.select(builder.icmp_unsigned("<", values, minimum), values, minimum))
    following = builder.add(position, ir.Constant(int64, 1))
    builder.branch(head)
    position.add_incoming(start, entry)
    position.add_incoming(following, body)
    for minimum, value in zip(minima, smaller, strict=True):
        minimum.add_incoming(ones, entry)
        minimum.add_incoming(value, body)
    builder.position_at_end(end)
    return minima


def _emit_pack(builder: Any, minima: list[Any]) -> Any:
    """Emit the packing of the lowest bit of every lane to a 64-bit word, lane 0 first."""
    int64 = ir.IntType(64)
    word = ir.Constant(int64, 0)
    for index, minimum in enumerate(minima):
        lowest = builder.trunc(minimum, ir.VectorType(ir.IntType(1), _LANES))
        piece = builder.zext(builder.bitcast(lowest, ir.IntType(_LANES)), int64)
        word = builder.or_(word, builder.shl(piece, ir.Constant(int64, index * _LANES)))
    return word


# Vector code that numba cannot be made to emit from Python; without the JIT plain twins serve.
mix32: Any = _mix32_python if jit_disabled() else _mix32_compiled
tile_minimum_bits: Any = _tile_minimum_bits_python if jit_disabled() else _tile_minimum_bits_compiled


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
    indptr = indptr.astype(np.int64, copy=False)  # a 32-bit pointer plus a batch could overflow
    n_rows = indptr.size - 1
    words = np.empty((n_rows, feature_keys.size // TILE), np.uint64)
    start = 0
    with np.errstate(over="ignore"):
        while start < n_rows:
            within = int(np.searchsorted(indptr, indptr[start] + BATCH_ENTRIES, side="right")) - 1
            stop = max(start + 1, within)
            pointer = indptr[start : stop + 1]
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
