"""Products of random projections of sparse rows, a tile of 64 features at a time.

A feature of degree N is a weight times the product of N projections w_j . x. The entries of the w_j are
random signs, 64 of them packed into one word per column and tile, or normal numbers. Both are determined by
keys and the column's identifier, are tabulated once for each distinct column of a batch, and are never held
for all columns and features at a time.
"""

from __future__ import annotations

import sys
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

TILE = 64
"""Features per tile: one word of signs, and eight 256-bit registers of sums."""

_LANES = 8
_VECTORS = TILE // _LANES
_HALF = _VECTORS // 2
_SIGN = 0x80000000
_BYTES = 32
"""Bytes per register."""
_MULTIPLIER_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLIER_2 = np.uint64(0x94D049BB133111EB)


@jit
def _mix64(x: np.uint64) -> np.uint64:
    """Mix a 64-bit word with the bijective finalizer of SplitMix64 (Steele, Lea & Flood 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _MULTIPLIER_1
    x = (x ^ (x >> np.uint64(27))) * _MULTIPLIER_2
    return x ^ (x >> np.uint64(31))


@jit
def fill_signs(columns: Array, slots: Array, element_key: np.uint64, keys: Array, table: Array) -> None:
    """Write 64 random signs of each column and factor to table[slot, factor], bit 1 for -1.

    Parameters
    ----------
    columns : uint64 array, shape (n,)
    slots : int32 array, shape (n,)
        Table row of each column.
    element_key : uint64
    keys : uint64 array, shape (factors,)
    table : uint64 array, shape (any, factors)
    """
    for i in range(columns.size):
        element = _mix64(columns[i] ^ element_key)
        for j in range(keys.size):
            table[slots[i], j] = _mix64(element + keys[j])


@jit
def fill_normals(
    columns: Array, slots: Array, element_key: np.uint64, keys: Array, levels: Array, table: Array
) -> None:
    """Write 64 of the 65,536 `levels` for each column and factor to table[slot, factor]; as `fill_signs`.

    `table` is float32 of shape (any, factors, 64). A counter word gives four numbers, 16 bits each.
    """
    for i in range(columns.size):
        element = _mix64(columns[i] ^ element_key)
        for j in range(keys.size):
            start = _mix64(element + keys[j])
            for m in range(0, TILE, 4):
                word = _mix64(start ^ np.uint64(m))
                for k in range(4):
                    level = (word >> np.uint64(16 * k)) & np.uint64(0xFFFF)
                    table[slots[i], j, m + k] = levels[np.int64(level)]


def _sum_counts_python(
    table: Array, j: int, slots: Array, counts: Array, start: int, stop: int, total: np.float32, out: Array
) -> None:
    _sum_signs_python(table, j, slots, counts, start, stop, out)


def _sum_signs_python(
    table: Array, j: int, slots: Array, values: Array, start: int, stop: int, out: Array
) -> None:
    out[:] = 0
    shifts = np.arange(TILE, dtype=np.uint64)
    for i in range(start, stop):
        negative = (table[slots[i], j] >> shifts) & np.uint64(1)
        value = np.float32(values[i])
        out += np.where(negative == 1, -value, value)


@intrinsic
def _sum_signs_compiled(
    typing_context: object,
    table: types.Array,
    j: types.Type,
    slots: types.Array,
    values: types.Array,
    start: types.Type,
    stop: types.Type,
    out: types.Array,
) -> Intrinsic:
    """Write sum_i s_i values[i], start <= i < stop, for each of the 64 signs in table[slots[i], j] to `out`.

    `table` is C-contiguous uint64 of shape (any, factors), `slots` contiguous int32, `values` and `out`
    contiguous float32. Written as LLVM vectors so that the 64 running sums stay in registers, and a sign is
    applied by shifting its bit to a float's sign bit: no sign is ever unpacked to memory.
    """

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        arrays = [context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2, 3, 6)]
        n_factors = builder.extract_value(arrays[0].shape, 1)
        pointers = [array.data for array in arrays]
        sums = _emit_sign_loop(builder, pointers, n_factors, *(arguments[i] for i in (1, 4, 5)))
        for index, total in enumerate(sums):
            place = builder.gep(pointers[3], [ir.Constant(ir.IntType(64), index * _LANES)])
            builder.store(total, builder.bitcast(place, total.type.as_pointer()), align=4)
        return context.get_dummy_value()

    i64 = types.int64
    return types.void(table, i64, slots, values, i64, i64, out), generate


def _emit_sign_loop(
    builder: ir.IRBuilder,
    pointers: list[ir.Value],
    n_factors: ir.Value,
    j: ir.Value,
    start: ir.Value,
    stop: ir.Value,
) -> ir.Value:
    """Emit the loop over the entries of a row; return the eight vectors of sums."""
    int32, int64 = ir.IntType(32), ir.IntType(64)
    floats, integers = ir.VectorType(ir.FloatType(), _LANES), ir.VectorType(int32, _LANES)
    entry = builder.block
    head, body, end = (builder.append_basic_block(f"signs.{name}") for name in ("head", "body", "end"))
    builder.branch(head)
    builder.position_at_end(head)
    position = builder.phi(int64)
    sums = [builder.phi(floats) for _ in range(_VECTORS)]
    builder.cbranch(builder.icmp_signed("<", position, stop), body, end)
    builder.position_at_end(body)
    low, high = _emit_word_loads(builder, pointers, position, n_factors, j)
    value = builder.bitcast(builder.load(builder.gep(pointers[2], [position])), int32)
    value = _splat(builder, value, integers)
    halves = [_splat(builder, half, integers) for half in (low, high)]
    sign = ir.Constant(integers, [_SIGN] * _LANES)
    following = []
    for index, total in enumerate(sums):
        first = _LANES * (index % _HALF)
        shifts = ir.Constant(integers, [31 - first - lane for lane in range(_LANES)])
        bits = builder.and_(builder.shl(halves[index // _HALF], shifts), sign)
        following.append(builder.fadd(total, builder.bitcast(builder.xor(value, bits), floats)))
    after = builder.add(position, ir.Constant(int64, 1))
    builder.branch(head)
    position.add_incoming(start, entry)
    position.add_incoming(after, body)
    for total, added in zip(sums, following, strict=True):
        total.add_incoming(ir.Constant(floats, [0.0] * _LANES), entry)
        total.add_incoming(added, body)
    builder.position_at_end(end)
    return sums


def _emit_word_loads(
    builder: ir.IRBuilder, pointers: list[ir.Value], position: ir.Value, n_factors: ir.Value, j: ir.Value
) -> list[ir.Value]:
    """Emit the loads of both halves of an entry's word: each is broadcast from memory to all lanes."""
    int32, int64 = ir.IntType(32), ir.IntType(64)
    slot = builder.sext(builder.load(builder.gep(pointers[1], [position])), int64)
    at = builder.add(builder.mul(slot, n_factors), j)
    place = builder.bitcast(builder.gep(pointers[0], [at]), int32.as_pointer())
    halves = [builder.load(builder.gep(place, [ir.Constant(int64, half)])) for half in (0, 1)]
    return halves if sys.byteorder == "little" else halves[::-1]


def _splat(builder: ir.IRBuilder, scalar: ir.Value, kind: ir.Type) -> ir.Value:
    empty = ir.Constant(kind, ir.Undefined)
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), kind.count), [0] * kind.count)
    first = builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, empty, zeros)


@intrinsic
def _sum_counts_compiled(
    typing_context: object,
    table: types.Array,
    j: types.Type,
    slots: types.Array,
    counts: types.Array,
    start: types.Type,
    stop: types.Type,
    total: types.Type,
    out: types.Array,
) -> Intrinsic:
    """As `_sum_signs_compiled`, for uint8 `counts` whose sum, `total` (a float32), is at most 255.

    The counts with negative signs are summed as bytes, 32 per register: a few instructions per entry. The sum
    is exact, the same as with floats.
    """

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, arguments: Sequence[ir.Value]
    ) -> ir.Value:
        arrays = [context.make_array(signature.args[i])(context, builder, arguments[i]) for i in (0, 2, 3, 7)]
        n_factors = builder.extract_value(arrays[0].shape, 1)
        pointers = [array.data for array in arrays]
        halves = _emit_count_loop(builder, pointers, n_factors, *(arguments[i] for i in (1, 4, 5)))
        floats = ir.VectorType(ir.FloatType(), _BYTES)
        whole = _splat(builder, arguments[6], floats)
        for index, half in enumerate(halves):
            negative = builder.uitofp(builder.zext(half, ir.VectorType(ir.IntType(32), _BYTES)), floats)
            signed = builder.fsub(whole, builder.fadd(negative, negative))
            place = builder.gep(pointers[3], [ir.Constant(ir.IntType(64), index * _BYTES)])
            builder.store(signed, builder.bitcast(place, floats.as_pointer()), align=4)
        return context.get_dummy_value()

    i64 = types.int64
    return types.void(table, i64, slots, counts, i64, i64, types.float32, out), generate


def _emit_count_loop(
    builder: ir.IRBuilder,
    pointers: list[ir.Value],
    n_factors: ir.Value,
    j: ir.Value,
    start: ir.Value,
    stop: ir.Value,
) -> list[ir.Value]:
    """Emit the loop over a row's entries; return the sums of the counts with negative signs, as bytes."""
    int8, int32, int64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
    byte_vector, words = ir.VectorType(int8, _BYTES), ir.VectorType(int32, _BYTES // 4)
    entry = builder.block
    head, body, end = (builder.append_basic_block(f"counts.{name}") for name in ("head", "body", "end"))
    builder.branch(head)
    builder.position_at_end(head)
    position = builder.phi(int64)
    sums = [builder.phi(byte_vector) for _ in range(2)]
    builder.cbranch(builder.icmp_signed("<", position, stop), body, end)
    builder.position_at_end(body)
    halves = _emit_word_loads(builder, pointers, position, n_factors, j)
    value = _splat(builder, builder.load(builder.gep(pointers[2], [position])), byte_vector)
    # Byte i of a half gets the byte of the word that holds its bit; positions within one 128-bit lane each.
    order = ir.Constant(ir.VectorType(int32, _BYTES), [i // 16 * 16 + i // 8 for i in range(_BYTES)])
    selectors = ir.Constant(byte_vector, [1 << i % 8 for i in range(_BYTES)])
    following = []
    for index, before in enumerate(sums):
        spread = builder.bitcast(_splat(builder, halves[index], words), byte_vector)
        spread = builder.shuffle_vector(spread, ir.Constant(byte_vector, ir.Undefined), order)
        negative = builder.icmp_unsigned("==", builder.and_(spread, selectors), selectors)
        following.append(builder.add(before, builder.and_(builder.sext(negative, byte_vector), value)))
    after = builder.add(position, ir.Constant(int64, 1))
    builder.branch(head)
    for phi, first, then in (
        (position, start, after),
        *zip(sums, [ir.Constant(byte_vector, [0] * _BYTES)] * 2, following, strict=True),
    ):
        phi.add_incoming(first, entry)
        phi.add_incoming(then, body)
    builder.position_at_end(end)
    builder.position_at_end(end)
    return sums


# Vector code that numba cannot generate from Python; without the JIT the plain Python version is used.
_sum_signs = plain_or_compiled(_sum_signs_python, _sum_signs_compiled)
_sum_counts = plain_or_compiled(_sum_counts_python, _sum_counts_compiled)


@jit
def multiply_signs(
    rows: tuple[Array, ...], table: Array, layers: tuple[Array, ...], weights: Array, first: int, out: Array
) -> None:
    """Write the features of a tile, products of random-sign projections, to columns of `out`.

    Parameters
    ----------
    rows : tuple of int64 (n + 1,), int32 (nnz,), float32 (nnz,), float32 (n,), float32 (n,), ...
        Pointer, table row of each entry, its value, multipliers of each row's projections, and of its
        features; then uint8 (nnz,) and float32 (n,): the values of the rows that consist of counts summing
        to at most 255, and their sums, -1 for other rows.
    table : uint64 array, shape (any, factors)
        From :func:`fill_signs`.
    layers : tuple of int64 (factors,), float32 (factors,), float32 (factors, 64)
        For each factor: how many of the first features of the tile have it, descending; the multiplier of
        its projections; and projections of the origin, already multiplied, to be subtracted.
    weights : float32 array, shape (width,)
        Weights of the features; at most 64.
    first : int
        Column of the first feature.
    out : float32 array, shape (n, any)
    """
    pointer, slots, values, factors, starts, small, totals = rows
    counts, scales, offsets = layers
    sums, product = np.empty(TILE, np.float32), np.ones(TILE, np.float32)
    for row in range(factors.size):
        for m in range(weights.size):
            product[m] = weights[m] * starts[row]
        for j in range(counts.size):
            start, stop = pointer[row], pointer[row + 1]
            if totals[row] >= 0:
                _sum_counts(table, j, slots, small, start, stop, totals[row], sums)
            else:
                _sum_signs(table, j, slots, values, start, stop, sums)
            factor = factors[row] * scales[j]
            for m in range(counts[j]):
                product[m] *= sums[m] * factor - offsets[j, m]
        out[row, first : first + weights.size] = product[: weights.size]


@jit
def multiply_normals(
    rows: tuple[Array, ...], table: Array, layers: tuple[Array, ...], weights: Array, first: int, out: Array
) -> None:
    """As :func:`multiply_signs`, with a table from :func:`fill_normals`."""
    pointer, slots, values, factors, starts, _, _ = rows
    counts, scales, offsets = layers
    sums, product = np.empty(TILE, np.float32), np.ones(TILE, np.float32)
    for row in range(factors.size):
        for m in range(weights.size):
            product[m] = weights[m] * starts[row]
        for j in range(counts.size):
            sums[:] = 0
            for i in range(pointer[row], pointer[row + 1]):
                numbers = table[slots[i], j]
                for m in range(TILE):
                    sums[m] += values[i] * numbers[m]
            factor = factors[row] * scales[j]
            for m in range(counts[j]):
                product[m] *= sums[m] * factor - offsets[j, m]
        out[row, first : first + weights.size] = product[: weights.size]
