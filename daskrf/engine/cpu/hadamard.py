"""The Walsh-Hadamard transform in place, and Fastfood's projections S H G Pi H B x of sparse and dense rows.

Eight rows are transformed together, interleaved by position, so that every sum and difference is a vector
operation that compilers generate from plain loops. Long transforms are done in parts that stay in the L1
cache. Every number comes from the same sums in the same order on any machine and in any batch.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from daskrf.engine import Blocks, Rows
from daskrf.engine.cpu.jit import jit

Array = npt.NDArray[np.number]

_LANES = 8
"""Number of rows transformed together."""

_IN_CACHE = 4096
"""Size of the part that goes through all passes before the next one is started: 16 KiB."""


@jit
def _first_pass(x: Array) -> None:
    """Do the first three levels, among the eight positions of each 64 numbers."""
    for start in range(0, x.size, 64):
        y = x[start : start + 64]
        for i in range(8):
            a, b, c, d = y[i], y[8 + i], y[16 + i], y[24 + i]
            e, f, g, h = y[32 + i], y[40 + i], y[48 + i], y[56 + i]
            a, b, c, d, e, f, g, h = a + b, a - b, c + d, c - d, e + f, e - f, g + h, g - h
            a, b, c, d = a + c, b + d, a - c, b - d
            e, f, g, h = e + g, f + h, e - g, f - h
            y[i], y[8 + i], y[16 + i], y[24 + i] = a + e, b + f, c + g, d + h
            y[32 + i], y[40 + i], y[48 + i], y[56 + i] = a - e, b - f, c - g, d - h


@jit
def _passes(x: Array, done: int) -> None:
    """Combine groups of `done` numbers, each already transformed."""
    while done < x.size:
        if x.size // done == 2:
            p, q = x[:done], x[done:]
            for i in range(done):
                p[i], q[i] = p[i] + q[i], p[i] - q[i]
            return
        for start in range(0, x.size, 4 * done):
            p, q = x[start : start + done], x[start + done : start + 2 * done]
            r, s = x[start + 2 * done : start + 3 * done], x[start + 3 * done : start + 4 * done]
            for i in range(done):
                a, b, c, d = p[i] + q[i], p[i] - q[i], r[i] + s[i], r[i] - s[i]
                p[i], q[i], r[i], s[i] = a + c, b + d, a - c, b - d
        done *= 4


@jit
def _transform(x: Array) -> None:
    """Transform the positions of `x`, flat, of eight numbers each."""
    for start in range(0, x.size, _IN_CACHE):
        chunk = x[start : start + _IN_CACHE]
        _first_pass(chunk)
        _passes(chunk, 64)
    _passes(x, _IN_CACHE)


@jit
def _transform_rows(x: Array) -> None:
    lanes = np.empty((x.shape[1], _LANES), np.float32)
    for start in range(0, x.shape[0], _LANES):
        rows = x[start : start + _LANES]
        lanes[:, rows.shape[0] :] = np.float32(0.0)
        # Eight positions at a time: one cache line of each row.
        for place in range(0, x.shape[1], 8):
            for row in range(rows.shape[0]):
                for k in range(8):
                    lanes[place + k, row] = rows[row, place + k]
        _transform(lanes.reshape(-1))
        for place in range(0, x.shape[1], 8):
            for row in range(rows.shape[0]):
                for k in range(8):
                    rows[row, place + k] = lanes[place + k, row]


def hadamard_transform(x: npt.NDArray[np.float32]) -> None:
    """Multiply every row by the Walsh-Hadamard matrix, in place; see `Engine`."""
    _transform_rows(x)


@jit
def _project_block(blocks: Blocks, block: int, first: Array, second: Array, out: Array) -> None:
    """Write S H G Pi H x or S H G H C H x, truncated to the size of `out`, for the rows x in `first`."""
    places, turns, normals = blocks.places[block], blocks.turns[block], blocks.normals[block]
    scales = blocks.scales[block]
    _transform(first.reshape(-1))
    if turns.size:
        for i in range(turns.size):
            for lane in range(_LANES):
                first[i, lane] *= turns[i]
        _transform(first.reshape(-1))
        for i in range(normals.size):
            for lane in range(_LANES):
                second[i, lane] = normals[i] * first[i, lane]
    else:
        for i in range(normals.size):
            for lane in range(_LANES):
                second[i, lane] = normals[i] * first[places[i], lane]
    _transform(second.reshape(-1))
    for row in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[row, i] = scales[i] * second[i, row]


@jit
def _project_dense(x: Array, blocks: Blocks, out: Array) -> None:
    n_blocks, length = blocks.signs.shape
    first, second = np.empty((length, _LANES), np.float32), np.empty((length, _LANES), np.float32)
    for start in range(0, x.shape[0], _LANES):
        rows = x[start : start + _LANES]
        for block in range(n_blocks):
            signs = blocks.signs[block]
            first[:] = np.float32(0.0)
            for row in range(rows.shape[0]):
                for k in range(rows.shape[1]):
                    first[k, row] = rows[row, k] * signs[k]
            target = out[start : start + _LANES, block * length : (block + 1) * length]
            _project_block(blocks, block, first, second, target)


@jit
def _project_sparse(pointer: Array, columns: Array, values: Array, blocks: Blocks, out: Array) -> None:
    n_blocks, length = blocks.signs.shape
    first, second = np.empty((length, _LANES), np.float32), np.empty((length, _LANES), np.float32)
    for start in range(0, out.shape[0], _LANES):
        for block in range(n_blocks):
            signs = blocks.signs[block]
            first[:] = np.float32(0.0)
            target = out[start : start + _LANES, block * length : (block + 1) * length]
            for row in range(target.shape[0]):
                for entry in range(pointer[start + row], pointer[start + row + 1]):
                    k = columns[entry]
                    first[k, row] = values[entry] * signs[k]
            _project_block(blocks, block, first, second, target)


def project_blocks(
    rows: Rows | npt.NDArray[np.float32], blocks: Blocks, out: npt.NDArray[np.float32]
) -> None:
    """Write the projections of sparse or dense rows; see `Engine`."""
    if isinstance(rows, Rows):
        _project_sparse(*rows, blocks, out)
    else:
        _project_dense(rows, blocks, out)
