"""Polynomials of the cosines between rows and directions: features of dot-product kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.compiled.jit import jit

__all__ = ["TILE", "add_polynomials"]

Array = npt.NDArray[Any]

TILE = 64
"""Features of a tile, at most: their three polynomials stay in the first-level cache."""


@jit
def _evaluate(x: Array, degree: int, recurrence: Array, before: Array, now: Array, after: Array) -> Array:
    """Return that of the given arrays which then holds P_degree(x), by the recurrence."""
    n = x.size
    for i in range(n):
        before[i] = np.float32(0.0)
        now[i] = np.float32(1.0)
    for k in range(degree):
        a, b = recurrence[0, k], recurrence[1, k]
        for i in range(n):
            after[i] = a * x[i] * now[i] - b * before[i]
        before, now, after = now, after, before
    return now


@jit
def _add_polynomials(
    products: Array,
    factors: Array,
    powers: Array,
    tiles: Array,
    weights: Array,
    recurrence: Array,
    out: Array,
) -> None:
    x = np.empty(TILE, np.float32)
    work = np.empty((3, TILE), np.float32)
    for row in range(out.shape[0]):
        for number in range(tiles.shape[0]):
            start, stop, degree, power = tiles[number]
            own = x[: stop - start]
            for i in range(own.size):
                own[i] = products[row, start + i] * factors[row]
            found = _evaluate(own, degree, recurrence, work[0], work[1], work[2])
            weight = weights[number] * powers[row, power]
            for i in range(own.size):
                out[row, start + i] = weight * found[i]


def add_polynomials(
    products: npt.NDArray[np.float32],
    factors: npt.NDArray[np.float32],
    powers: npt.NDArray[np.float32],
    tiles: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float32],
    recurrence: npt.NDArray[np.float32],
    out: npt.NDArray[np.float32],
) -> None:
    """Write weight r^n P_k(x) for every row and feature, x the product with the direction times a factor.

    P_0 = 1, P_{k+1}(x) = a_k x P_k(x) - b_k P_{k-1}(x).

    Parameters
    ----------
    products : float32 array, shape (n, at least M)
    factors : float32 array, shape (n,)
    powers : float32 array, shape (n, N + 1)
        1, r, r^2, ... of each row.
    tiles : int64 array, shape (tiles, 4)
        First feature, the one after the last, k and n of features with the same weight, at most 64.
    weights : float32 array, shape (tiles,)
    recurrence : float32 array, shape (2, K)
        a_k and b_k.
    out : float32 array, shape (n, M)
        Overwritten where tiles are.

    Examples
    --------
    >>> out = np.empty((1, 2), np.float32)
    >>> one = np.ones(1, np.float32)
    >>> x, squares = np.array([[0.5, -2.0]], np.float32), np.array([[1, 1], [0, 0]], np.float32)
    >>> add_polynomials(x, one, one[:, None], np.array([[0, 2, 2, 0]]), one, squares, out)
    >>> out.tolist()
    [[0.25, 4.0]]
    """
    _add_polynomials(products, factors, powers, tiles, weights, recurrence, out)
