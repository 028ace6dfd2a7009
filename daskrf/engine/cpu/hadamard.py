"""The Walsh-Hadamard transform in place, and Fastfood's projections S H G Pi H B x of sparse and dense rows.

A transform adds and subtracts pairs of numbers, so it costs what it costs to bring them to the adders. Eight
vectors of eight numbers fit in the registers of every machine with AVX2: a pass reads them once for three
levels of the transform, the first pass for six (of which three within the vectors), so that 4,096 numbers are
read four times in place of twelve. Longer ones are done by parts that stay in the first-level cache. Every
number comes from the same sums in the same order on any machine and in any batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from daskrf.engine import Blocks, Rows
from daskrf.engine.cpu.jit import jit, jit_disabled

__all__ = ["hadamard_transform", "project_blocks"]

Array = npt.NDArray[Any]

LANES = 8
"""Numbers of a vector, and the shortest transform."""

_IN_CACHE = 4096
"""Numbers that are transformed by all passes before the next ones are touched: 16 KiB."""

_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_WORDS = ir.VectorType(ir.IntType(32), LANES)
_INT64 = ir.IntType(64)


def _within(vector: Array, stride: int) -> Array:
    """Return sums and differences of the numbers of a vector that stand `stride` apart."""
    pairs = vector.reshape(-1, 2, stride)
    return np.stack([pairs[:, 1] + pairs[:, 0], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)


def _emit_within(builder: Any, vector: Any, stride: int) -> Any:
    """Emit `_within`: each lane adds its own number, negative in the second of a pair, to the other's."""
    order = ir.Constant(_WORDS, [lane ^ stride for lane in range(LANES)])
    other = builder.shuffle_vector(vector, ir.Constant(_VECTOR, ir.Undefined), order)
    signs = ir.Constant(_WORDS, [(1 << 31) if lane & stride else 0 for lane in range(LANES)])
    own = builder.bitcast(builder.xor(builder.bitcast(vector, _WORDS), signs), _VECTOR)
    return builder.fadd(other, own)


def _make_pass(radix: int, *, within: bool) -> Any:
    """Return the function that transforms `radix` vectors among each other, in place.

    Its arguments: the array, the place of the first vector, and the step from each to the next. `within`:
    the numbers of each vector are transformed, too.
    """

    def python(x: Any, at: int, step: int) -> None:
        vectors = [x[at + j * step : at + j * step + LANES].copy() for j in range(radix)]
        for stride in (1, 2, 4) if within else ():
            vectors = [_within(vector, stride) for vector in vectors]
        for stride in (1, 2, 4):
            for j in range(radix):
                if stride < radix and not j & stride:
                    a, b = vectors[j], vectors[j + stride]
                    vectors[j], vectors[j + stride] = a + b, a - b
        for j, vector in enumerate(vectors):
            x[at + j * step : at + j * step + LANES] = vector

    def emit(builder: Any, base: Any, at: Any, step: Any) -> None:
        pointers, vectors = [], []
        for j in range(radix):
            place = builder.add(at, builder.mul(step, ir.Constant(_INT64, j)))
            pointers.append(builder.bitcast(builder.gep(base, [place]), _VECTOR.as_pointer()))
            vectors.append(builder.load(pointers[j], align=4))
        for stride in (1, 2, 4) if within else ():
            vectors = [_emit_within(builder, vector, stride) for vector in vectors]
        for stride in (1, 2, 4):
            for j in range(radix):
                if stride < radix and not j & stride:
                    a, b = vectors[j], vectors[j + stride]
                    vectors[j], vectors[j + stride] = builder.fadd(a, b), builder.fsub(a, b)
        for pointer, vector in zip(pointers, vectors, strict=True):
            builder.store(vector, pointer, align=4)

    @intrinsic
    def compiled(typing_context: Any, x: Any, at: Any, step: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            base = context.make_array(signature.args[0])(context, builder, arguments[0]).data
            emit(builder, base, arguments[1], arguments[2])
            return context.get_dummy_value()

        return types.none(x, types.int64, types.int64), generate

    return python if jit_disabled() else compiled


_first_1 = _make_pass(1, within=True)
_first_2 = _make_pass(2, within=True)
_first_4 = _make_pass(4, within=True)
_first_8 = _make_pass(8, within=True)
_next_2 = _make_pass(2, within=False)
_next_4 = _make_pass(4, within=False)
_next_8 = _make_pass(8, within=False)


@jit
def _passes(x: Array, start: int, length: int, done: int) -> None:
    """Transform the groups of `done` numbers from `start` on, each transformed already, among each other."""
    while done < length:
        radix = min(8, length // done)
        if length // done == 16:
            radix = 4  # two passes of equal size in place of a large and a small one
        group = radix * done
        for first in range(start, start + length, group):
            for at in range(first, first + done, 8):
                if radix == 8:
                    _next_8(x, at, done)
                elif radix == 4:
                    _next_4(x, at, done)
                else:
                    _next_2(x, at, done)
        done = group


@jit
def _transform(x: Array, length: int) -> None:
    """Transform the first `length` numbers of `x`, a power of two of at least 8."""
    part = min(length, _IN_CACHE)
    for start in range(0, length, part):
        if part >= 64:
            for at in range(start, start + part, 64):
                _first_8(x, at, 8)
        elif part == 32:
            _first_4(x, start, 8)
        elif part == 16:
            _first_2(x, start, 8)
        else:
            _first_1(x, start, 8)
        _passes(x, start, part, min(part, 64))
    _passes(x, 0, length, part)


@jit
def _transform_rows(x: Array) -> None:
    for row in range(x.shape[0]):
        _transform(x[row], x.shape[1])


def hadamard_transform(x: npt.NDArray[np.float32]) -> None:
    """Multiply every row by the Walsh-Hadamard matrix, in place; see `Engine`."""
    _transform_rows(x)


@jit
def _project_block(blocks: Blocks, block: int, first: Array, second: Array, out: Array) -> None:
    """Write S H G Pi H x or S H G H C H x to `out`, as many numbers as it has, for the row x in `first`."""
    places, turns, normals = blocks.places[block], blocks.turns[block], blocks.normals[block]
    scales = blocks.scales[block]
    length = normals.size
    _transform(first, length)
    if turns.size:
        for i in range(length):
            first[i] *= turns[i]
        _transform(first, length)
        for i in range(length):
            second[i] = normals[i] * first[i]
    else:
        for i in range(length):
            second[i] = normals[i] * first[places[i]]
    _transform(second, length)
    for i in range(out.size):
        out[i] = scales[i] * second[i]


@jit
def _project_dense(x: Array, blocks: Blocks, out: Array) -> None:
    n_blocks, length = blocks.signs.shape
    first, second = np.empty(length, np.float32), np.empty(length, np.float32)
    for row in range(x.shape[0]):
        values = x[row]
        for block in range(n_blocks):
            signs = blocks.signs[block]
            for k in range(values.size):
                first[k] = values[k] * signs[k]
            first[values.size :] = np.float32(0.0)
            target = out[row][block * length : min((block + 1) * length, out.shape[1])]
            _project_block(blocks, block, first, second, target)


@jit
def _project_sparse(pointer: Array, columns: Array, values: Array, blocks: Blocks, out: Array) -> None:
    n_blocks, length = blocks.signs.shape
    first, second = np.empty(length, np.float32), np.empty(length, np.float32)
    for row in range(out.shape[0]):
        for block in range(n_blocks):
            signs = blocks.signs[block]
            first[:] = np.float32(0.0)
            for entry in range(pointer[row], pointer[row + 1]):
                k = columns[entry]
                first[k] = values[entry] * signs[k]
            target = out[row][block * length : min((block + 1) * length, out.shape[1])]
            _project_block(blocks, block, first, second, target)


def project_blocks(
    rows: Rows | npt.NDArray[np.float32], blocks: Blocks, out: npt.NDArray[np.float32]
) -> None:
    """Write the projections of sparse or dense rows; see `Engine`."""
    if isinstance(rows, Rows):
        _project_sparse(*rows, blocks, out)
    else:
        _project_dense(rows, blocks, out)
