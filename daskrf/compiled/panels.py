"""Products of dense rows with a fixed matrix, whose bytes do not depend on what else is in the batch.

The matrix is kept as panels of a few columns, whose rows stand next to each other. Six rows at a time meet a
panel; their sums stay in registers. A sum is a chain of fused multiply-adds over 512 numbers, in order, and
the chains are added up in order, wherever a row stands: BLAS, which is as fast, promises no such thing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from daskrf.compiled.jit import jit, jit_disabled

__all__ = ["Panels", "make_panels", "multiply", "squared_lengths"]

Array = npt.NDArray[Any]

_ROWS = 6  # with two registers of columns each, and what they are made of, all sixteen registers of AVX2
_VECTORS = 2
_BYTES = 32  # of a register
_CHAIN = 512  # a chain of a panel takes 32 KiB, of six rows 12 KiB
_BLOCK = 16 * _ROWS  # rows whose chains stay in the second-level cache

_INT64 = ir.IntType(64)


class Panels(NamedTuple):
    """A matrix by panels of `width` columns, without the rows above the first that is not zero.

    Panel t has the numbers from `offsets[t]` on, its rows from `starts[t]` to the last.
    """

    numbers: Array
    offsets: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    width: int
    shape: tuple[int, int]


def make_panels(matrix: Array) -> Panels:
    """Return the panels of a float32 or float64 matrix, shape (k, n).

    Examples
    --------
    >>> make_panels(np.eye(20, dtype=np.float32)).starts.tolist()
    [0, 16]
    """
    k, n = matrix.shape
    width = _VECTORS * _BYTES // matrix.dtype.itemsize
    parts, starts, offsets = [], [], [0]
    for first in range(0, n, width):
        columns = matrix[:, first : first + width]
        filled = np.flatnonzero(columns.any(axis=1))
        starts.append(int(filled[0]) if filled.size else k)
        panel = np.zeros((k - starts[-1], width), matrix.dtype)
        panel[:, : columns.shape[1]] = columns[starts[-1] :]
        parts.append(panel.reshape(-1))
        offsets.append(offsets[-1] + panel.size)
    numbers = np.concatenate(parts) if parts else np.empty(0, matrix.dtype)
    return Panels(numbers, np.array(offsets, np.int64), np.array(starts, np.int64), width, (k, n))


def _chains_python(rows: Any, at: int, panels: Any, offset: int, length: int, out: Any) -> None:
    width = out.size // _ROWS
    left = rows[at : at + length * _ROWS].reshape(length, _ROWS)
    right = panels[offset : offset + length * width].reshape(length, width)
    total = np.zeros((_ROWS, width), out.dtype)
    for i in range(length):
        # In double precision, products of single ones are exact: rounded once, but for rare ties.
        exact = left[i, :, None].astype(np.float64) * right[i] + total
        total = exact.astype(out.dtype)
    out[:] = total.reshape(-1)


@intrinsic
def _chains_compiled(
    typing_context: Any, rows: Any, at: Any, panels: Any, offset: Any, length: Any, out: Any
) -> Any:
    """Write the sums over i < length of rows[at + 6 i + r] * panels[offset + width i + j] to out[r, j].

    All three are contiguous arrays of one type. Written as vectors of LLVM because the twelve vectors of sums
    then stay in registers.
    """
    bits = rows.dtype.bitwidth
    lanes = 8 * _BYTES // bits
    number = ir.FloatType() if bits == 32 else ir.DoubleType()
    vector = ir.VectorType(number, lanes)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        left, right, target = (
            context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in (0, 2, 5)
        )
        left, right = builder.gep(left, [arguments[1]]), builder.gep(right, [arguments[3]])
        name = f"llvm.fma.v{lanes}f{bits}"
        kind = ir.FunctionType(vector, [vector] * 3)
        fma = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        sums = _emit_chains(builder, left, right, arguments[4], fma)
        for index, total in enumerate(sums):
            place = builder.gep(target, [ir.Constant(_INT64, index * lanes)])
            builder.store(total, builder.bitcast(place, vector.as_pointer()), align=bits // 8)
        return context.get_dummy_value()

    i64 = types.int64
    return types.none(rows, i64, panels, i64, i64, out), generate


def _emit_chains(builder: Any, left: Any, right: Any, length: Any, fma: Any) -> list[Any]:
    """Emit the loop over the numbers of six rows and a panel; return their sums, row by row."""
    vector = fma.function_type.return_type
    entry = builder.block
    head, body, end = (builder.append_basic_block(f"chains.{name}") for name in ("head", "body", "end"))
    builder.branch(head)
    builder.position_at_end(head)
    position = builder.phi(_INT64)
    sums = [builder.phi(vector) for _ in range(_ROWS * _VECTORS)]
    builder.cbranch(builder.icmp_signed("<", position, length), body, end)
    builder.position_at_end(body)
    step = builder.mul(position, ir.Constant(_INT64, _VECTORS * vector.count))
    columns = []
    for v in range(_VECTORS):
        place = builder.gep(right, [builder.add(step, ir.Constant(_INT64, v * vector.count))])
        columns.append(
            builder.load(builder.bitcast(place, vector.as_pointer()), align=_BYTES // vector.count)
        )
    first = builder.mul(position, ir.Constant(_INT64, _ROWS))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    following: list[Any] = []
    for r in range(_ROWS):
        scalar = builder.load(builder.gep(left, [builder.add(first, ir.Constant(_INT64, r))]))
        empty = ir.Constant(vector, ir.Undefined)
        single = builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
        value = builder.shuffle_vector(single, empty, zeros)
        following.extend(
            builder.call(fma, [value, columns[v], sums[r * _VECTORS + v]]) for v in range(_VECTORS)
        )
    after = builder.add(position, ir.Constant(_INT64, 1))
    builder.branch(head)
    position.add_incoming(ir.Constant(_INT64, 0), entry)
    position.add_incoming(after, body)
    for total, added in zip(sums, following, strict=True):
        total.add_incoming(ir.Constant(vector, [0.0] * vector.count), entry)
        total.add_incoming(added, body)
    builder.position_at_end(end)
    return sums


# Vector code that numba cannot be made to emit from Python; without the JIT a plain twin serves.
_chains: Any = _chains_python if jit_disabled() else _chains_compiled


@jit
def _pack_rows(rows: Array, first: int, last: int, start: int, stop: int, packed: Array) -> None:
    """Write numbers `start` to `stop` - 1 of six rows after six, next to each other; zeros for no row."""
    length = stop - start
    for row in range(first, last):
        group, place = divmod(row - first, _ROWS)
        at = group * length * _ROWS + place
        for i in range(length):
            packed[at + i * _ROWS] = rows[row, start + i]


@jit
def _multiply(
    rows: Array, numbers: Array, offsets: Array, starts: Array, width: int, packed: Array, out: Array
) -> None:
    n, k = rows.shape
    sums = np.zeros(_ROWS * width, rows.dtype)
    for first in range(0, n, _BLOCK):
        last = min(first + _BLOCK, n)
        out[first:last] = 0
        for low in range(0, k, _CHAIN):
            high = min(low + _CHAIN, k)
            _pack_rows(rows, first, last, low, high, packed)
            for t in range(starts.size):
                start = max(low, starts[t])
                if start >= high:
                    continue
                offset = offsets[t] + (start - starts[t]) * width
                column = t * width
                n_columns = min(width, out.shape[1] - column)
                for group in range((last - first + _ROWS - 1) // _ROWS):
                    at = (group * (high - low) + start - low) * _ROWS
                    _chains(packed, at, numbers, offset, high - start, sums)
                    row = first + group * _ROWS
                    for r in range(min(_ROWS, last - row)):
                        own, found = out[row + r, column : column + n_columns], sums[r * width :]
                        for j in range(n_columns):
                            own[j] += found[j]


def multiply(rows: Array, panels: Panels, out: Array) -> None:
    """Write rows @ matrix to `out`.

    Parameters
    ----------
    rows : C-contiguous array, shape (m, k)
        float32 or float64, as the panels and `out` are.
    panels : Panels
        Of the matrix, shape (k, n).
    out : C-contiguous array, shape (m, n)
        Overwritten. A row's bytes depend on that row and the matrix alone.
    """
    packed = np.zeros(_BLOCK * _CHAIN, rows.dtype)
    _multiply(rows, panels.numbers, panels.offsets, panels.starts, panels.width, packed, out)


def squared_lengths(rows: Array) -> Array:
    """Return the product of each row with itself, shape (m,), to the last bit as :func:`multiply` has it."""
    out = np.zeros(rows.shape[0], rows.dtype)
    width = _VECTORS * _BYTES // rows.dtype.itemsize
    packed = np.zeros(_ROWS * _CHAIN, rows.dtype)
    panel, sums = np.zeros(width * _CHAIN, rows.dtype), np.zeros(_ROWS * width, rows.dtype)
    _squared_lengths(rows, packed, panel, sums, out)
    return out


@jit
def _squared_lengths(rows: Array, packed: Array, panel: Array, sums: Array, out: Array) -> None:
    n, k = rows.shape
    width = sums.size // _ROWS
    for row in range(n):
        for low in range(0, k, _CHAIN):
            high = min(low + _CHAIN, k)
            _pack_rows(rows, row, row + 1, low, high, packed)
            for i in range(high - low):
                panel[i * width] = rows[row, low + i]
            _chains(packed, 0, panel, 0, high - low, sums)
            out[row] += sums[0]
