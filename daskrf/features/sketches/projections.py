"""Products of random projections of sparse rows, from which Maclaurin features and sketches are made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf import seeds
from daskrf.arrays import MatrixLike, as_csr, check_finite, scaled_values, squared_norms
from daskrf.engine import TILE, Factors, Rows, engine
from daskrf.errors import InputError
from daskrf.features.sketches.hashing import normal_levels

CONSTANT_COLUMN = 2**64 - 1
"""A column that no fingerprint has, for a constant entry."""

_ORDINARY = 40  # rows of values above 2^40 or below 2^-40 are scaled to suit single precision

Array = npt.NDArray[np.floating]


class ScaledRows(NamedTuple):
    """Sparse rows as single-precision values and one factor for each row.

    The features of each row are multiplied by its entry of `starts`.
    """

    pointer: npt.NDArray[np.int64]
    columns: npt.NDArray[np.number]
    values: npt.NDArray[np.float32]
    factors: npt.NDArray[np.float32]
    starts: npt.NDArray[np.float32]

    def scaled(self) -> npt.NDArray[np.float32]:
        """Return the values times the factor of their row."""
        return self.values * np.repeat(self.factors, np.diff(self.pointer))


def scale_rows(X: MatrixLike, *, normalize: bool, scale: float = 1.0) -> tuple[sp.csr_matrix, ScaledRows]:
    """Return `X` as canonical CSR, and its rows times `scale`, divided by their lengths with `normalize`.

    Integer values stay as they are, so that sums of counts are exact; the factor does the rest.

    Raises
    ------
    InputError
        If `X` is not two-dimensional or a value is not finite.
    """
    csr = check_finite(as_csr(X))
    pointer = csr.indptr.astype(np.int64, copy=False)
    scaled, exponents = scaled_values(pointer, csr.data, _ORDINARY)
    data = csr.data if scaled is None else scaled
    factors = np.full(csr.shape[0], scale)
    if normalize:
        lengths = np.sqrt(squared_norms(pointer, data))
        np.divide(scale, lengths, out=factors, where=lengths > 0.0)
    else:
        np.ldexp(factors, exponents, out=factors)
    with np.errstate(over="ignore"):
        values, factors = data.astype(np.float32), factors.astype(np.float32)
    return csr, ScaledRows(pointer, csr.indices, values, factors, np.ones(csr.shape[0], np.float32))


class Products:
    """M features weight_m prod_{j < N_m} s_j w_mj . (x - origin), with independent random vectors w_mj.

    The entries of the w_mj are random signs or normal numbers. They follow from the seed, the name, the tile
    of 64 features, j and the column's identifier: no array of M times the columns is ever stored.

    Parameters
    ----------
    degrees : int64 array, shape (M,)
        N_m, descending.
    weights : float array, shape (M,)
    seed : int
    name : str
        Prefix of the random streams.
    normal : bool, default False
        Whether to use normal numbers instead of signs.
    origin : (uint64 array, float array), optional
        Columns and values of the origin, in the units of the scaled rows.
    scales : float array, optional
        s_j, at least as many as the largest degree. Default: 1.
    """

    def __init__(
        self,
        degrees: npt.NDArray[np.int64],
        weights: Array,
        seed: int,
        name: str,
        *,
        normal: bool = False,
        origin: tuple[npt.NDArray[np.uint64], Array] | None = None,
        scales: Array | None = None,
    ) -> None:
        self.size = int(degrees.size)
        self._normal = normal
        self._element_key = np.uint64(seeds.key(seed, f"{name}/columns"))
        depths = degrees[::TILE]
        starts = np.concatenate([[0], np.cumsum(depths)])
        keys = seeds.words(seed, f"{name}/factors", int(starts[-1]))
        self._tiles = []
        for number, depth in enumerate(depths):
            tile = slice(number * TILE, (number + 1) * TILE)
            tile_keys = keys[starts[number] : starts[number + 1]]
            counts = (degrees[tile] > np.arange(depth)[:, None]).sum(axis=1).astype(np.int64)
            factors = np.ones(depth, np.float32) if scales is None else scales[:depth].astype(np.float32)
            offsets = np.zeros((int(depth), TILE), np.float32)
            if origin is not None and depth:
                offsets = self._projections(tile_keys, *origin) * factors[:, None]
            self._tiles.append(Factors(tile_keys, counts, factors, offsets, weights[tile].astype(np.float32)))

    def write(self, rows: ScaledRows, out: npt.NDArray[np.float32], first: int = 0) -> None:
        """Write the features of `rows` to columns `first` to first + M - 1 of `out`, C-contiguous."""
        rows_ = Rows(rows.pointer, rows.columns, rows.values)
        scales, target = (rows.factors, rows.starts), out[:, first : first + self.size]
        engine().random_products(rows_, scales, self._element_key, self._tiles, self._levels(), target)

    def _levels(self) -> npt.NDArray[np.float32] | None:
        return normal_levels() if self._normal else None

    def _projections(
        self, keys: npt.NDArray[np.uint64], columns: npt.NDArray[np.uint64], values: Array
    ) -> npt.NDArray[np.float32]:
        """Return the projections of one row by the factors with these keys, shape (factors, 64)."""
        one, ones, nothing = np.array([TILE]), np.ones(TILE, np.float32), np.zeros((1, TILE), np.float32)
        row = Rows(np.array([0, columns.size]), columns.astype(np.uint64), values.astype(np.float32))
        tiles = [Factors(keys[j : j + 1], one, ones[:1], nothing, ones) for j in range(keys.size)]
        products = np.empty((1, keys.size * TILE), np.float32)
        scales = ones[:1], ones[:1]
        engine().random_products(row, scales, self._element_key, tiles, self._levels(), products)
        return products.reshape(keys.size, TILE)


def refuse_overflow(features: npt.NDArray[np.float32], what: str) -> None:
    """Raise InputError if a feature is not finite, as may happen to products of projections of long rows.

    `what` ends the sentence by saying what to do.
    """
    # One sum for each row reveals it, and reads the features only once.
    with np.errstate(over="ignore", invalid="ignore"):
        bad = ~np.isfinite(np.einsum("ij->i", features))
    for row in np.flatnonzero(bad):
        if not np.isfinite(features[row]).all():  # not only their sum
            raise InputError(f"The features of row {row} are too large for single precision; {what}.")
