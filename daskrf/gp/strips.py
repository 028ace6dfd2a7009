"""The Gram matrix in strips of columns: no process has to hold all of it while rows are summed.

A strip holds columns first to stop - 1 of the upper triangle of Phi^T Phi, hence rows 0 to stop - 1. Strips
of one-bit features are exact integers, so that `assemble` gives the very statistics that one pass would.
Strips of dense features are sums of products in the precision of the map; other programs of BLAS than those
of the whole matrix make them, so that they agree with it up to rounding (some 1e-7 of the diagonal in single
precision, 1e-15 in double).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.compiled import bits as bit_engine
from daskrf.errors import InputError
from daskrf.gp.statistics import Precision, SufficientStatistics

__all__ = ["STRIP_BYTES", "GramStrip", "assemble", "strip_columns"]

STRIP_BYTES = 512 * 2**20
"""Bytes of a strip at most: one strip holds all of M = 8,192."""

_UNIT = 64  # boundaries are whole words of bits
_DOUBLE_ROWS = 2_048  # rows converted to float64 at a time
_TILE = 512  # rows of a strip that double precision is added to at a time, not to make a second strip


def strip_columns(n_components: int, strip_bytes: int = STRIP_BYTES) -> list[tuple[int, int]]:
    """Return the first column of each strip, and that behind its last: a function of M (and the limit) alone.

    Each strip is as wide as its limit of 8 stop (stop - first) bytes allows, but 64 columns at least.

    Examples
    --------
    >>> strip_columns(8192)
    [(0, 8192)]
    >>> strip_columns(16384)
    [(0, 8192), (8192, 13248), (13248, 16384)]
    """
    columns, first = [], 0
    while first < n_components:
        widest = (first + math.isqrt(first**2 + 4 * (strip_bytes // 8))) // 2
        stop = min(max(widest // _UNIT * _UNIT, first + _UNIT), n_components)
        columns.append((first, stop))
        first = stop
    return columns


@dataclass
class GramStrip:
    """Columns of Phi^T Phi, summed over rows; a commutative monoid, exact for one-bit features.

    Attributes
    ----------
    n : int
        Number of rows.
    n_components : int
    first : int
        First column.
    gram : int64 (packed bits) or float64 array, shape (stop, stop - first)
        Columns `first` to stop - 1 of the rows before stop. Below the diagonal it is not meaningful.
    precision : {"single", "double"}
        In which dense features are multiplied, as in `SufficientStatistics`.

    Examples
    --------
    >>> strip = GramStrip.zero(66, (64, 66), one_bit=True)
    >>> strip.update(np.zeros((5, 9), np.uint8)).gram[64:].tolist()
    [[5, 5], [0, 5]]
    """

    n: int
    n_components: int
    first: int
    gram: npt.NDArray[Any]
    precision: Precision = "double"

    @classmethod
    def zero(
        cls,
        n_components: int,
        columns: tuple[int, int],
        *,
        one_bit: bool,
        precision: Precision = "double",
    ) -> GramStrip:
        """Return a strip over no rows; `columns` is an element of `strip_columns`."""
        first, stop = columns
        kind = np.int64 if one_bit else np.float64
        return cls(0, n_components, first, np.zeros((stop, stop - first), dtype=kind), precision)

    @property
    def columns(self) -> tuple[int, int]:
        """First column, and the one behind the last."""
        return self.first, len(self.gram)

    def update(self, phi: npt.NDArray[Any]) -> GramStrip:
        """Add rows in place and return self: packed bits (uint8) or dense features of all columns.

        Raises
        ------
        InputError
            If shapes or dtypes do not fit, or dense features are not finite.
        """
        if self.gram.dtype == np.int64:
            bit_engine.gram_strip(phi, self.n_components, self.first, self.gram)
        else:
            self._update_dense(phi)
        self.n += len(phi)
        return self

    def _update_dense(self, phi: npt.NDArray[Any]) -> None:
        if phi.ndim != 2 or phi.shape[1] != self.n_components or phi.dtype.kind != "f":
            raise InputError(
                f"this strip takes dense features with {self.n_components} columns, not {phi.dtype} of "
                f"shape {phi.shape}."
            )
        if not np.isfinite(phi.sum(dtype=np.float64)):
            raise InputError("features hold NaN or infinity: check the feature map and its input.")
        single = phi.dtype != np.float64 and self.precision == "single"
        first, stop = self.columns
        step = max(1, len(phi)) if single else _DOUBLE_ROWS
        for start in range(0, len(phi), step):
            kind: Any = np.float32 if single else np.float64
            block: npt.NDArray[Any] = phi[start : start + step, :stop].astype(kind, copy=False)
            tile = max(1, stop) if single else _TILE
            for top in range(0, stop, tile):
                self.gram[top : top + tile] += np.matmul(block[:, top : top + tile].T, block[:, first:])

    def __iadd__(self, other: GramStrip) -> GramStrip:
        mine = (self.n_components, self.columns, self.gram.dtype)
        if mine != (other.n_components, other.columns, other.gram.dtype):
            raise InputError("strips of other columns or features cannot be combined: cut them by one rule.")
        self.n += other.n
        self.gram += other.gram
        return self

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as plain arrays for storing; no copies."""
        head = [self.n, self.n_components, self.first, self.precision == "double"]
        return {"head": np.array(head, dtype=np.int64), "gram": self.gram}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> GramStrip:
        """Undo `arrays` exactly."""
        n, n_components, first, double = (int(value) for value in arrays["head"])
        return cls(n, n_components, first, arrays["gram"], "double" if double else "single")


def assemble(sums: SufficientStatistics, strips: Iterable[GramStrip]) -> SufficientStatistics:
    """Return `sums`, made without a Gram matrix, with the one that the strips make up.

    Strips are taken one at a time, so that an iterator that makes or reads them needs memory for one of them
    besides the matrix.

    Raises
    ------
    InputError
        If the strips are not all columns in order, or were summed over other rows.
    """
    size = sums.n_components
    gram = np.zeros((size, size), dtype=np.int64 if sums.one_bit else np.float64)
    done = 0
    for strip in strips:
        first, stop = strip.columns
        if (strip.n_components, first, strip.n) != (size, done, sums.n) or strip.gram.dtype != gram.dtype:
            raise InputError(
                f"a strip of columns {first} to {stop} over {strip.n} rows does not follow column {done} of "
                f"statistics of {size} features over {sums.n} rows: make the sums anew."
            )
        gram[:first, first:stop] = strip.gram[:first]
        for row in range(first, stop):
            gram[row, row:stop] = strip.gram[row, row - first :]
        done = stop
        del strip  # before the next one is made
    if done != size:
        raise InputError(f"strips up to column {done} are not all of {size} columns: make the sums anew.")
    return replace(sums, gram=gram)
