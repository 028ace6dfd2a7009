"""Minima over the elements of each row, a tile of 64 features at a time, and parities of runs of bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from daskrf.engine.cpu.jit import jit, jit_disabled

__all__ = ["TILE", "add_parities", "find_pairs", "row_minima", "row_words"]

Array = npt.NDArray[Any]

TILE = 64
"""Features of a tile: one 64-bit word of output, and eight 256-bit registers of running minima."""

_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)

_LANES = 16
"""32-bit lanes of a vector of LLVM, which splits it into registers of the machine."""


@jit
def _mix64(x: Any) -> Any:
    """Mix a 64-bit word by the bijective finalizer of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _MULTIPLIER_1
    x = (x ^ (x >> np.uint64(27))) * _MULTIPLIER_2
    return x ^ (x >> np.uint64(31))


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


def _tile_minimum_python(table: Any, slots: Any, start: int, stop: int, out: Any) -> None:
    out[:] = table[slots[start:stop]].min(axis=0)


@intrinsic
def _tile_minimum_compiled(
    typing_context: Any, table: Any, slots: Any, start: Any, stop: Any, out: Any
) -> Any:
    """Write min(table[slots[start:stop]], axis=0) to `out`; as above."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table_base, slots_base, out_base = (
            context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 1, 4)
        )
        minima = _emit_minimum_loop(builder, table_base, slots_base, arguments[2], arguments[3])
        for index, minimum in enumerate(minima):
            place = builder.gep(out_base, [ir.Constant(ir.IntType(64), index * _LANES)])
            place = builder.bitcast(place, minimum.type.as_pointer())
            builder.store(minimum, place, align=4)
        return context.get_dummy_value()

    return types.void(table, slots, types.int64, types.int64, out), generate


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
tile_minimum: Any = _tile_minimum_python if jit_disabled() else _tile_minimum_compiled
tile_minimum_bits: Any = _tile_minimum_bits_python if jit_disabled() else _tile_minimum_bits_compiled


@jit
def find_pairs(
    indices: Array, values: Array, pair_of: Array, pair_column: Array, pair_value: Array, frequency: Array
) -> int:
    """Number the distinct (column, value) pairs in order of appearance; return how many there are.

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
        value = values[i]
        place = _mix64((column << np.uint64(16)) ^ np.uint64(value) ^ (column >> np.uint64(48))) & mask
        while True:
            pair = table[place]
            if pair < 0:
                pair = n_pairs
                table[place] = pair
                pair_column[pair] = column
                pair_value[pair] = value
                frequency[pair] = 0
                n_pairs += 1
                break
            if pair_column[pair] == column and pair_value[pair] == value:
                break
            place = (place + np.uint64(1)) & mask
        pair_of[i] = pair
        frequency[pair] += 1
    return n_pairs


@jit
def row_words(indptr: Array, slot_of: Array, table: Array, words: Array) -> None:
    """Write the packed lowest bits of each row's minima; a row without entries takes the last table row."""
    empty = np.array([table.shape[0] - 1], np.int32)
    for row in range(words.size):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            words[row] = tile_minimum_bits(table, empty, 0, 1)
        else:
            words[row] = tile_minimum_bits(table, slot_of, start, stop)


@jit
def row_minima(indptr: Array, slot_of: Array, table: Array, minima: Array) -> None:
    """Write each row's minima to `minima`; a row without entries takes the last row of the table."""
    empty = np.array([table.shape[0] - 1], np.int32)
    for row in range(minima.shape[0]):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            tile_minimum(table, empty, 0, 1, minima[row])
        else:
            tile_minimum(table, slot_of, start, stop, minima[row])


@jit
def add_parities(bits: Array, starts: Array, words: Array) -> None:
    """XOR the parities of runs of bits into words; see `Engine`."""
    one = np.uint64(1)
    parities = np.zeros(bits.shape[1] + 1, np.uint64)
    for row in range(bits.shape[0]):
        # Bit b of word w: the parity of all bits of the row before bit b of word w.
        carry = np.uint64(0)
        for w in range(bits.shape[1]):
            running = bits[row, w]
            for shift in (1, 2, 4, 8, 16, 32):
                running ^= running << np.uint64(shift)
            parities[w] = (running << one) ^ carry
            if running >> np.uint64(63):
                carry = ~carry
        parities[bits.shape[1]] = carry
        before = np.uint64(0)
        for m in range(starts.size - 1):
            stop = starts[m + 1]
            after = (parities[stop >> 6] >> np.uint64(stop & 63)) & one
            words[row, m >> 6] ^= (before ^ after) << np.uint64(m & 63)
            before = after
