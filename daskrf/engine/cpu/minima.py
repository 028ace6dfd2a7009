"""Minima over rows of a table of 32-bit numbers, 64 features at a time, and the lowest bits of these minima.

A row of a matrix is a list of rows of the table, by their slots. Rows of the table are read in an order that
no cache foresees, so the time goes with the bytes that are read. The lowest bits are therefore taken from a
narrow copy of the table, with half the bytes, and from the table itself only if the copy does not determine
them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core.base import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from daskrf.engine.cpu.jit import Intrinsic, jit, plain_or_compiled

Array = npt.NDArray[np.number]

_TILE = 64  # features; see hashes.py, which no compiled function of another file may import
_VECTOR_BITS = 512  # of an LLVM vector, which LLVM splits into machine registers
_ABOVE = 0xFFFE
"""Narrow numbers from here on stand for all larger ones."""


def _tile_minimum_bits_python(table: Array, slots: Array, start: int, stop: int) -> np.uint64:
    lowest = table[slots[start:stop]].min(axis=0) & np.uint32(1)
    return np.packbits(lowest.astype(np.uint8), bitorder="little").view("<u8")[0]


@intrinsic
def _tile_minimum_bits_compiled(
    typing_context: object, table: types.Array, slots: types.Array, start: types.Type, stop: types.Type
) -> Intrinsic:
    """Return the lowest bits of min(table[slots[start:stop]], axis=0), packed to a uint64.

    `table` is C-contiguous uint32 of shape (any, 64), `slots` contiguous int32. Written as LLVM vectors so
    that the 64 running minima stay in registers, which a loop over an array does not achieve.
    """

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        bases = _bases(context, builder, signature, arguments)
        [minima] = _emit_minima(builder, *bases, *arguments[2:], lane_bits=32, flips=[0])
        return _emit_pack(builder, [_lowest_bits(builder, minimum) for minimum in minima])

    return types.uint64(table, slots, types.int64, types.int64), generate


def _narrow_minimum_bits_python(table: Array, slots: Array, start: int, stop: int) -> tuple[np.uint64, ...]:
    rows = table[slots[start:stop]]
    minimum, flipped = rows.min(axis=0), (rows ^ np.uint16(1)).min(axis=0)
    bits = [minimum & np.uint16(1), (minimum == flipped) | (minimum >= _ABOVE)]
    return tuple(np.packbits(each.astype(np.uint8), bitorder="little").view("<u8")[0] for each in bits)


@intrinsic
def _narrow_minimum_bits_compiled(
    typing_context: object, table: types.Array, slots: types.Array, start: types.Type, stop: types.Type
) -> Intrinsic:
    """Return the lowest bits of the minima of rows of a narrow table, and which of them are undetermined.

    `table` is C-contiguous uint16 of shape (any, 64), as made by `narrow`. If two numbers are the smallest
    and differ in the lowest bit, the smallest one has the same value as the smallest one of all numbers with
    their lowest bits flipped.
    """

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        bases = _bases(context, builder, signature, arguments)
        minima, flipped = _emit_minima(builder, *bases, *arguments[2:], lane_bits=16, flips=[0, 1])
        undetermined = []
        for minimum, other in zip(minima, flipped, strict=True):
            equal = builder.icmp_unsigned("==", minimum, other)
            above = builder.icmp_unsigned(">=", minimum, _splat(minimum.type, _ABOVE))
            undetermined.append(builder.or_(equal, above))
        words = [_lowest_bits(builder, minimum) for minimum in minima], undetermined
        packed = [_emit_pack(builder, each) for each in words]
        return context.make_tuple(builder, signature.return_type, packed)

    return types.UniTuple(types.uint64, 2)(table, slots, types.int64, types.int64), generate


def _tile_minimum_python(table: Array, slots: Array, start: int, stop: int, out: Array) -> None:
    out[:] = table[slots[start:stop]].min(axis=0)


@intrinsic
def _tile_minimum_compiled(
    typing_context: object,
    table: types.Array,
    slots: types.Array,
    start: types.Type,
    stop: types.Type,
    out: types.Array,
) -> Intrinsic:
    """Write min(table[slots[start:stop]], axis=0) to `out`; as above."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        bases = _bases(context, builder, signature, arguments)
        out_base = context.make_array(signature.args[4])(context, builder, arguments[4]).data
        [minima] = _emit_minima(builder, *bases, *arguments[2:4], lane_bits=32, flips=[0])
        for index, minimum in enumerate(minima):
            place = builder.gep(out_base, [ir.Constant(ir.IntType(64), index * minimum.type.count)])
            builder.store(minimum, builder.bitcast(place, minimum.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(table, slots, types.int64, types.int64, out), generate


def _bases(
    context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
) -> list[ir.Value]:
    """Return the pointers to the first elements of the first two arguments, which are arrays."""
    return [
        context.make_array(kind)(context, builder, array).data
        for kind, array in zip(signature.args[:2], arguments[:2], strict=True)
    ]


def _splat(vector: ir.Value, value: int) -> ir.Value:
    return ir.Constant(vector, [value] * vector.count)


def _emit_minima(
    builder: ir.IRBuilder,
    table: ir.Value,
    slots: ir.Value,
    start: ir.Value,
    stop: ir.Value,
    *,
    lane_bits: int,
    flips: Sequence[int],
) -> list[list[ir.Value]]:
    """Emit the loop over slots; return the vectors of minima of the numbers XOR each of `flips`.

    They are all ones if the range is empty.
    """
    int64, lanes = ir.IntType(64), _VECTOR_BITS // lane_bits
    vector = ir.VectorType(ir.IntType(lane_bits), lanes)
    entry = builder.block
    head = builder.append_basic_block("minimum.head")
    body = builder.append_basic_block("minimum.body")
    end = builder.append_basic_block("minimum.end")
    builder.branch(head)
    builder.position_at_end(head)
    position = builder.phi(int64)
    minima = [[builder.phi(vector) for _ in range(_TILE // lanes)] for _ in flips]
    builder.cbranch(builder.icmp_signed("<", position, stop), body, end)
    builder.position_at_end(body)
    slot = builder.sext(builder.load(builder.gep(slots, [position])), int64)
    row = builder.gep(table, [builder.mul(slot, ir.Constant(int64, _TILE))])
    position.add_incoming(start, entry)
    for index in range(_TILE // lanes):
        place = builder.gep(row, [ir.Constant(int64, index * lanes)])
        values = builder.load(builder.bitcast(place, vector.as_pointer()), align=lane_bits // 8)
        for flip, vectors in zip(flips, minima, strict=True):
            minimum = vectors[index]
            flipped = builder.xor(values, _splat(vector, flip)) if flip else values
            smaller = builder.select(builder.icmp_unsigned("<", flipped, minimum), flipped, minimum)
            minimum.add_incoming(_splat(vector, 2**lane_bits - 1), entry)
            minimum.add_incoming(smaller, body)
    position.add_incoming(builder.add(position, ir.Constant(int64, 1)), body)
    builder.branch(head)
    builder.position_at_end(end)
    return minima


def _lowest_bits(builder: ir.IRBuilder, vector: ir.Value) -> ir.Value:
    return builder.trunc(vector, ir.VectorType(ir.IntType(1), vector.type.count))


def _emit_pack(builder: ir.IRBuilder, bits: list[ir.Value]) -> ir.Value:
    """Emit code that packs vectors of single bits into a 64-bit word, lane 0 first."""
    int64 = ir.IntType(64)
    word = ir.Constant(int64, 0)
    for index, vector in enumerate(bits):
        lanes = vector.type.count
        piece = builder.zext(builder.bitcast(vector, ir.IntType(lanes)), int64)
        word = builder.or_(word, builder.shl(piece, ir.Constant(int64, index * lanes)))
    return word


# Vector code that numba cannot generate from Python; without the JIT the plain Python versions are used.
tile_minimum = plain_or_compiled(_tile_minimum_python, _tile_minimum_compiled)
tile_minimum_bits = plain_or_compiled(_tile_minimum_bits_python, _tile_minimum_bits_compiled)
narrow_minimum_bits = plain_or_compiled(_narrow_minimum_bits_python, _narrow_minimum_bits_compiled)


@jit
def narrow(table: Array, base: np.uint32, shift: np.uint32, out: Array) -> None:
    """Write each number's lowest bit to the lowest bit of `out`, and above it (number - base) >> shift.

    What does not fit into the 15 bits above is written as `_ABOVE` or more, so that the order is kept.

    Parameters
    ----------
    table : uint32 array, shape (n, 64)
    base : uint32, at most the smallest number
    shift : uint32, at most 17, with which everything fits
    out : uint16 array, shape (n, 64)
    """
    for row in range(table.shape[0]):
        for m in range(_TILE):
            value = table[row, m]
            leading = min(np.uint32(np.uint32(value - base) >> shift), np.uint32(_ABOVE >> 1))
            out[row, m] = np.uint16(np.uint32(leading << np.uint32(1)) | (value & np.uint32(1)))


@jit
def row_words(indptr: Array, slot_of: Array, table: Array, narrowed: Array, words: Array) -> None:
    """Write the packed lowest bits of each row's minima; a row without entries uses the last table row.

    `narrowed` is the table as written by `narrow`, with any base and shift: the words do not depend on them.
    """
    empty = np.array([table.shape[0] - 1], np.int32)
    for row in range(words.size):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            words[row] = tile_minimum_bits(table, empty, 0, 1)
        else:
            word, undetermined = narrow_minimum_bits(narrowed, slot_of, start, stop)
            words[row] = tile_minimum_bits(table, slot_of, start, stop) if undetermined else word


@jit
def row_minima(indptr: Array, slot_of: Array, table: Array, minima: Array) -> None:
    """Write each row's minima to `minima`; a row without entries uses the last row of the table."""
    empty = np.array([table.shape[0] - 1], np.int32)
    for row in range(minima.shape[0]):
        start, stop = indptr[row], indptr[row + 1]
        if start == stop:
            tile_minimum(table, empty, 0, 1, minima[row])
        else:
            tile_minimum(table, slot_of, start, stop, minima[row])
