"""LLVM vector instructions that numba does not expose, each with its plain Python twin."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from daskrf.compiled.jit import jit_disabled

__all__ = ["mix32", "popcount", "tile_minimum_bits"]

_LANES = 16
_VECTORS = 4
_WIDTH = _LANES * _VECTORS
_MIX_1 = 0x21F0AAAD
_MIX_2 = 0xD35A2D97


def _popcount_python(word: int) -> int:
    return int(word).bit_count()


@intrinsic
def _popcount_compiled(typing_context: Any, word: Any) -> Any:
    """Return the number of set bits of a uint64 as int64, by llvm.ctpop: LLVM vectorises it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), generate


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
    minima = [builder.phi(vector) for _ in range(_VECTORS)]
    builder.cbranch(builder.icmp_signed("<", position, stop), body, end)
    builder.position_at_end(body)
    slot = builder.sext(builder.load(builder.gep(slots, [position])), int64)
    row = builder.gep(table, [builder.mul(slot, ir.Constant(int64, _WIDTH))])
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


mix32: Any = _mix32_python if jit_disabled() else _mix32_compiled
popcount: Any = _popcount_python if jit_disabled() else _popcount_compiled
tile_minimum_bits: Any = _tile_minimum_bits_python if jit_disabled() else _tile_minimum_bits_compiled
