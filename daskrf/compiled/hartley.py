"""Fastfood's projections S Pi F B x with a Fourier transform, row by row.

The transform is written out, not taken from a library, so that a row's bytes depend on that row alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.compiled.jit import jit

__all__ = ["hartley_transform", "project_dense", "project_sparse", "twiddles"]

Array = npt.NDArray[Any]


def twiddles(length: int) -> npt.NDArray[np.float32]:
    """Return cos and sin of 2 pi k / length, k < length / 2: float32 of shape (2, length / 2)."""
    angle = 2.0 * np.pi * np.arange(length // 2) / length
    return np.stack([np.cos(angle), np.sin(angle)]).astype(np.float32)


@jit
def _transform(x: Array, work: Array, factors: Array) -> Array:
    """Transform x[0] + i x[1] by Stockham's self-sorting algorithm; both arrays are written to.

    The result is in the array that is returned.
    """
    rest, stride = x.shape[1], 1
    while rest > 1:
        half = rest // 2
        for k in range(half):
            c, s = factors[0, k * stride], factors[1, k * stride]
            a, b, to = stride * k, stride * (k + half), stride * 2 * k
            for q in range(stride):
                re, im = x[0, a + q] - x[0, b + q], x[1, a + q] - x[1, b + q]
                work[0, to + q] = x[0, a + q] + x[0, b + q]
                work[1, to + q] = x[1, a + q] + x[1, b + q]
                work[0, to + stride + q] = re * c + im * s
                work[1, to + stride + q] = im * c - re * s
        x, work = work, x
        rest = half
        stride *= 2
    return x


@jit
def _transform_rows(x: Array, factors: Array) -> None:
    first, second = np.empty((2, x.shape[1]), np.float32), np.empty((2, x.shape[1]), np.float32)
    for row in range(x.shape[0]):
        first[0] = x[row]
        first[1] = np.float32(0.0)
        found = _transform(first, second, factors)
        x[row] = found[0] - found[1]


def hartley_transform(x: npt.NDArray[np.float32]) -> None:
    """Multiply every row of `x` by cos(2 pi j k / d) + sin(2 pi j k / d), in place: a real Fourier transform.

    The matrix is symmetric and orthogonal up to a factor: a second transform gives d times the row.

    Parameters
    ----------
    x : C-contiguous float32 array, shape (n, d)
        d a power of two.

    Examples
    --------
    >>> x = np.array([[0, 2, 0, 0]], np.float32)
    >>> hartley_transform(x)
    >>> x.round(6).tolist()
    [[2.0, 2.0, -2.0, -2.0]]
    """
    _transform_rows(x, twiddles(x.shape[1]))


@jit
def _project_block(
    first: Array, second: Array, factors: Array, places: Array, scales: Array, out: Array
) -> None:
    first[1] = np.float32(0.0)
    found = _transform(first, second, factors)
    for i in range(out.size):
        place = places[i]
        out[i] = scales[i] * (found[0, place] - found[1, place])


@jit
def _project_dense(x: Array, blocks: Any, factors: Array, out: Array) -> None:
    signs, places, scales = blocks
    n_blocks, length = signs.shape
    first, second = np.empty((2, length), np.float32), np.empty((2, length), np.float32)
    zero = np.float32(0.0)
    for row in range(x.shape[0]):
        values = x[row]
        for block in range(n_blocks):
            for k in range(values.size):
                # The zero makes -0 a 0, as which a sparse row has it.
                first[0, k] = values[k] * signs[block, k] + zero
            first[0, values.size :] = zero
            target = out[row][block * length : min((block + 1) * length, out.shape[1])]
            _project_block(first, second, factors, places[block], scales[block], target)


@jit
def _project_sparse(
    pointer: Array, columns: Array, values: Array, start: int, blocks: Any, factors: Array, out: Array
) -> None:
    signs, places, scales = blocks
    n_blocks, length = signs.shape
    first, second = np.empty((2, length), np.float32), np.empty((2, length), np.float32)
    for row in range(out.shape[0]):
        for block in range(n_blocks):
            first[0] = np.float32(0.0)
            for entry in range(pointer[start + row], pointer[start + row + 1]):
                k = columns[entry]
                first[0, k] = values[entry] * signs[block, k]
            target = out[row][block * length : min((block + 1) * length, out.shape[1])]
            _project_block(first, second, factors, places[block], scales[block], target)


def project_dense(
    x: npt.NDArray[np.float32],
    blocks: tuple[Array, Array, Array],
    factors: npt.NDArray[np.float32],
    out: npt.NDArray[np.float32],
) -> None:
    """Write the projections of dense rows.

    Parameters
    ----------
    x : C-contiguous float32 array, shape (n, d)
        d at most the length of the blocks; rows are padded with zeros.
    blocks : signs (B), places (Pi) and scales (S and all constants), each of shape (blocks, length)
    factors : float32 array, as :func:`twiddles` returns it
    out : C-contiguous float32 array, shape (n, p)
        Overwritten; p at most all rows of the blocks together.
    """
    _project_dense(x, blocks, factors, out)


def project_sparse(
    pointer: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int32],
    values: npt.NDArray[np.float32],
    start: int,
    blocks: tuple[Array, Array, Array],
    factors: npt.NDArray[np.float32],
    out: npt.NDArray[np.float32],
) -> None:
    """Write the projections of the rows `start`, `start` + 1, ... of a canonical CSR matrix.

    The numbers are those of :func:`project_dense` of the same rows.

    Parameters
    ----------
    pointer, columns, values : arrays of the CSR matrix
    start : int
    blocks, factors, out : as for :func:`project_dense`
    """
    _project_sparse(pointer, columns, values, start, blocks, factors, out)
