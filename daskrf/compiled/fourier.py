"""Projections of rows on random directions, and cosines and sines of the phases.

Phases are in turns: a whole number of turns is subtracted exactly, and what is left goes through polynomials
in vectors of eight, which give every number the same bytes wherever it stands. Sums run over the columns in
ascending order, and come out the same to the last bit whether zeros are left out or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from daskrf.compiled.jit import jit, jit_disabled

__all__ = ["TILE", "add_cosines", "orthogonalise", "project", "project_dense"]

Array = npt.NDArray[Any]

LANES = 8
TILE = 64
"""Directions of a tile: the running sums of a row are eight vectors, which stay in registers."""

ROWS, WIDTH = 4, 2 * LANES
"""Dense rows and directions that are multiplied together: eight vectors of sums, and two of directions."""

# sin(2 pi u) = u p(u^2) and cos(2 pi u) = 1 + u^2 q(u^2) for |u| <= 1/8: minimax fits, whose errors of 1e-9
# and 3e-8 are below the rounding of single precision.
_SINE = (6.28318522, -41.34162804, 81.58812456, -75.24006054)
_COSINE = (-19.73916726, 64.92322855, -83.66591583)

_FLOAT, _INT32, _INT64 = ir.FloatType(), ir.IntType(32), ir.IntType(64)
_VECTOR = ir.VectorType(_FLOAT, LANES)
_WORDS = ir.VectorType(_INT32, LANES)


def _pairs_python(phases: Any, at: int, scale: Any, out: Any, to: int) -> None:
    turns = phases[at : at + LANES]
    rest = turns - np.rint(turns)
    quarter = np.rint(rest * np.float32(4.0))
    u = rest - quarter * np.float32(0.25)
    square = u * u
    sine, cosine = (_polynomial(square, c) for c in (_SINE, _COSINE))
    sine, cosine = u * sine, np.float32(1.0) + square * cosine
    count = quarter.astype(np.int32)
    swapped = (count & 1) != 0
    cosine, sine = np.where(swapped, sine, cosine), np.where(swapped, cosine, sine)
    for offset, value, number in ((0, cosine, count + 1), (1, sine, count)):
        signed = np.where((number & 2) != 0, -value, value)
        out[to + offset : to + 2 * LANES : 2] = signed * scale


def _polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    total = np.float32(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = total * x + np.float32(c)
    return total


def _constant(value: float) -> Any:
    return ir.Constant(_VECTOR, [float(np.float32(value))] * LANES)


def _word(value: int) -> Any:
    return ir.Constant(_WORDS, [value] * LANES)


def _emit_polynomial(builder: Any, x: Any, coefficients: tuple[float, ...]) -> Any:
    total = _constant(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = builder.fadd(builder.fmul(total, x), _constant(c))
    return total


def _emit_pairs(builder: Any, turns: Any, scale: Any) -> Any:
    """Emit cosines and sines of eight phases, times `scale`, in turn: a vector of sixteen."""
    # llvmlite's own declaration knows no names of vector types.
    kind, name = ir.FunctionType(_VECTOR, [_VECTOR]), f"llvm.rint.v{LANES}f32"
    rint = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
    rest = builder.fsub(turns, builder.call(rint, [turns]))
    quarter = builder.call(rint, [builder.fmul(rest, _constant(4.0))])
    u = builder.fsub(rest, builder.fmul(quarter, _constant(0.25)))
    square = builder.fmul(u, u)
    sine = builder.fmul(u, _emit_polynomial(builder, square, _SINE))
    cosine = builder.fadd(_constant(1.0), builder.fmul(square, _emit_polynomial(builder, square, _COSINE)))
    count = builder.fptosi(quarter, _WORDS)
    swapped = builder.icmp_signed("!=", builder.and_(count, _word(1)), _word(0))
    both = builder.select(swapped, sine, cosine), builder.select(swapped, cosine, sine)
    signed = []
    for value, number in zip(both, (builder.add(count, _word(1)), count), strict=True):
        sign = builder.shl(builder.and_(number, _word(2)), _word(30))
        bits = builder.xor(builder.bitcast(value, _WORDS), sign)
        signed.append(builder.fmul(builder.bitcast(bits, _VECTOR), scale))
    order = [lane // 2 + LANES * (lane % 2) for lane in range(2 * LANES)]
    return builder.shuffle_vector(*signed, ir.Constant(ir.VectorType(_INT32, 2 * LANES), order))


def _broadcast(builder: Any, scalar: Any) -> Any:
    empty = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(empty, scalar, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(first, empty, _word(0))


def _data(context: Any, builder: Any, signature: Any, arguments: Any, *numbers: int) -> list[Any]:
    """Return the pointers to the data of the arguments of these numbers, which are arrays."""
    return [context.make_array(signature.args[i])(context, builder, arguments[i]).data for i in numbers]


def _at(builder: Any, base: Any, place: Any, kind: Any = _VECTOR) -> Any:
    return builder.bitcast(builder.gep(base, [place]), kind.as_pointer())


@intrinsic
def _pairs_compiled(typing_context: Any, phases: Any, at: Any, scale: Any, out: Any, to: Any) -> Any:
    """Write cos and sin, times `scale`, of phases[at : at + 8] in turn to out[to : to + 16]; all float32."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, target = _data(context, builder, signature, arguments, 0, 3)
        turns = builder.load(_at(builder, source, arguments[1]), align=4)
        pairs = _emit_pairs(builder, turns, _broadcast(builder, arguments[2]))
        builder.store(pairs, _at(builder, target, arguments[4], pairs.type), align=4)
        return context.get_dummy_value()

    return types.none(phases, types.int64, types.float32, out, types.int64), generate


class _Loop:
    """A loop from `start` to `stop` over vectors of running sums that begin with zeros."""

    def __init__(self, builder: Any, start: Any, stop: Any, n_sums: int) -> None:
        entry = builder.block
        head, self.body, self.end = (builder.append_basic_block(f"sum.{x}") for x in ("head", "body", "end"))
        builder.branch(head)
        builder.position_at_end(head)
        self.position = builder.phi(_INT64)
        self.sums = [builder.phi(_VECTOR) for _ in range(n_sums)]
        builder.cbranch(builder.icmp_signed("<", self.position, stop), self.body, self.end)
        for total in self.sums:
            total.add_incoming(_constant(0.0), entry)
        self.position.add_incoming(start, entry)
        self.head = head
        builder.position_at_end(self.body)

    def close(self, builder: Any, sums: list[Any]) -> None:
        """End the body; code that follows stands after the loop, where `self.sums` are the results."""
        following = builder.add(self.position, ir.Constant(_INT64, 1))
        builder.branch(self.head)
        self.position.add_incoming(following, self.body)
        for total, value in zip(self.sums, sums, strict=True):
            total.add_incoming(value, self.body)
        builder.position_at_end(self.end)


def _sums_python(table: Any, columns: Any, values: Any, start: int, stop: int, out: Any, to: int) -> None:
    total = np.zeros(TILE, np.float32)
    for entry in range(start, stop):
        total += values[entry] * table[columns[entry]]
    out[to : to + TILE] = total


@intrinsic
def _sums_compiled(
    typing_context: Any, table: Any, columns: Any, values: Any, start: Any, stop: Any, out: Any, to: Any
) -> Any:
    """Write the sum of values[e] * table[columns[e]], e = start .. stop - 1, to out[to : to + 64].

    `table` is float32 of shape (any, 64), `columns` int32. Written as vectors of LLVM because the 64 running
    sums then live in registers, which a loop over an array does not achieve.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, columns, values, out = _data(context, builder, signature, arguments, 0, 1, 2, 5)
        loop = _Loop(builder, arguments[3], arguments[4], TILE // LANES)
        column = builder.sext(builder.load(builder.gep(columns, [loop.position])), _INT64)
        value = _broadcast(builder, builder.load(builder.gep(values, [loop.position])))
        row = builder.gep(table, [builder.mul(column, ir.Constant(_INT64, TILE))])
        sums = []
        for i, total in enumerate(loop.sums):
            part = builder.load(_at(builder, row, ir.Constant(_INT64, i * LANES)), align=4)
            sums.append(builder.fadd(total, builder.fmul(value, part)))
        loop.close(builder, sums)
        for i, total in enumerate(loop.sums):
            place = builder.add(arguments[6], ir.Constant(_INT64, i * LANES))
            builder.store(total, _at(builder, out, place), align=4)
        return context.get_dummy_value()

    i64 = types.int64
    return types.none(table, columns, values, i64, i64, out, i64), generate


def _block_python(table: Any, panel: Any, out: Any) -> None:
    out[:] = 0
    for column in range(panel.shape[0]):
        out += panel[column][:, None] * table[column]


@intrinsic
def _block_compiled(typing_context: Any, table: Any, panel: Any, out: Any) -> Any:
    """Write the products of four rows with 16 directions to `out`, float32 of shape (4, 16).

    `table` is float32 of shape (d, 16), `panel` (d, 4): the rows side by side. A vector of directions is read
    once for four rows, which makes full rows more than twice as fast as `_sums_compiled` does; each sum has
    the same parts in the same order.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        table, panel, out = _data(context, builder, signature, arguments, 0, 1, 2)
        d = builder.extract_value(
            context.make_array(signature.args[1])(context, builder, arguments[1]).shape, 0
        )
        loop = _Loop(builder, ir.Constant(_INT64, 0), d, 2 * ROWS)
        start = builder.mul(loop.position, ir.Constant(_INT64, WIDTH))
        second = builder.add(start, ir.Constant(_INT64, LANES))
        parts = [builder.load(_at(builder, table, place), align=4) for place in (start, second)]
        entry = builder.gep(panel, [builder.mul(loop.position, ir.Constant(_INT64, ROWS))])
        sums = []
        for row in range(ROWS):
            value = _broadcast(builder, builder.load(builder.gep(entry, [ir.Constant(_INT64, row)])))
            for total, part in zip(loop.sums[2 * row : 2 * row + 2], parts, strict=True):
                sums.append(builder.fadd(total, builder.fmul(value, part)))
        loop.close(builder, sums)
        for i, total in enumerate(loop.sums):
            builder.store(total, _at(builder, out, ir.Constant(_INT64, i * LANES)), align=4)
        return context.get_dummy_value()

    return types.none(table, panel, out), generate


# Vector code that numba cannot be made to emit from Python; without the JIT plain twins serve.
_write_pairs: Any = _pairs_python if jit_disabled() else _pairs_compiled
_write_sums: Any = _sums_python if jit_disabled() else _sums_compiled
_write_block: Any = _block_python if jit_disabled() else _block_compiled


@jit
def _add_cosines(phases: Array, n_pairs: int, scale: Any, out: Array) -> None:
    whole = n_pairs // LANES * LANES
    last = np.empty(2 * LANES, np.float32)
    for row in range(out.shape[0]):
        source, target = phases[row], out[row]
        for j in range(0, whole, LANES):
            _write_pairs(source, j, scale, target, 2 * j)
        if whole < n_pairs:
            _write_pairs(source, whole, scale, last, 0)
            target[2 * whole : 2 * n_pairs] = last[: 2 * (n_pairs - whole)]
        target[2 * n_pairs :] = np.float32(0.0)


def add_cosines(phases: npt.NDArray[np.float32], scale: float, out: npt.NDArray[np.float32]) -> None:
    """Write cos(2 pi t) and sin(2 pi t), times `scale`, of the first phases t of each row, in turn.

    Parameters
    ----------
    phases : C-contiguous float32 array, shape (n, at least M // 2 rounded up to a multiple of 8)
        In turns.
    scale : float
    out : C-contiguous float32 array, shape (n, M)
        Overwritten; an odd column at the end becomes 0. Errors are below 1.2e-7 of `scale`, for phases that
        are single precision numbers exactly.
    """
    _add_cosines(phases, out.shape[1] // 2, np.float32(scale), out)


@jit
def _project(pointer: Array, columns: Array, values: Array, start: int, tables: Array, out: Array) -> None:
    for tile in range(tables.shape[0]):
        table = tables[tile]
        for row in range(out.shape[0]):
            first, last = pointer[start + row], pointer[start + row + 1]
            _write_sums(table, columns, values, first, last, out[row], tile * TILE)


def project(
    pointer: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
    start: int,
    tables: npt.NDArray[np.float32],
    out: npt.NDArray[np.float32],
) -> None:
    """Write the products of the rows `start`, `start` + 1, ... of a CSR matrix with all directions.

    Parameters
    ----------
    pointer, columns, values : arrays of the CSR matrix
        Columns ascending within a row; zeros may stand among the values.
    start : int
    tables : C-contiguous float32 array, shape (T, d, 64)
        tables[t, :, j] is direction 64 t + j.
    out : C-contiguous float32 array, shape (n, 64 T)
        Overwritten.
    """
    _project(pointer, columns, values, start, tables, out)


@jit
def _project_dense(x: Array, tables: Array, panels: Array, out: Array) -> None:
    n, d = x.shape
    for row in range(n):
        for column in range(d):
            panels[row // ROWS, column, row % ROWS] = x[row, column]
    table, sums = np.empty((d, WIDTH), np.float32), np.empty((ROWS, WIDTH), np.float32)
    for tile in range(tables.shape[0]):
        for strip in range(0, TILE, WIDTH):
            # Side by side they fit in the first-level cache; a quarter of each line of a tile does not.
            for column in range(d):
                for j in range(WIDTH):
                    table[column, j] = tables[tile, column, strip + j]
            for block in range(panels.shape[0]):
                _write_block(table, panels[block], sums)
                for row in range(block * ROWS, min(block * ROWS + ROWS, n)):
                    for j in range(WIDTH):
                        out[row, tile * TILE + strip + j] = sums[row % ROWS, j]


def project_dense(
    x: npt.NDArray[np.float32], tables: npt.NDArray[np.float32], out: npt.NDArray[np.float32]
) -> None:
    """Write the products of dense rows with all directions: to the last bit those of `project`.

    Parameters
    ----------
    x : C-contiguous float32 array, shape (n, d)
    tables, out : as of `project`
    """
    panels = np.zeros((-(-x.shape[0] // ROWS), x.shape[1], ROWS), np.float32)
    _project_dense(x, tables, panels, out)


@jit
def _orthogonalise(columns: Array, products: Array) -> None:
    d, n = columns.shape
    for i in range(n):
        total = 0.0
        for k in range(d):
            total += columns[k, i] * columns[k, i]
        length = np.sqrt(total)
        products[i:] = 0.0
        for k in range(d):
            columns[k, i] /= length
            value, row = columns[k, i], columns[k]
            for j in range(i + 1, n):
                products[j] += value * row[j]
        for k in range(d):
            value, row = columns[k, i], columns[k]
            for j in range(i + 1, n):
                row[j] -= value * products[j]


def orthogonalise(columns: npt.NDArray[np.float64]) -> None:
    """Make the columns of a matrix orthonormal, in place, from left to right (modified Gram-Schmidt).

    Written out, not taken from LAPACK, whose last bits differ between machines.

    Parameters
    ----------
    columns : C-contiguous float64 array, shape (d, n), n <= d, of rank n
    """
    _orthogonalise(columns, np.empty(columns.shape[1]))
