"""The three kinds of sums over rows that a process is fitted to.

A `Summation` gives sums for all features (`SufficientStatistics`) or for features in blocks about centroids
(`StackedStatistics`). For many features it gives only some columns of the Gram matrix (`GramStrip`).
`assemble` joins these, so that only the process that solves holds the whole matrix.

A strip holds columns first to stop - 1 of the upper triangle of Phi^T Phi, and therefore rows 0 to stop - 1.
Strips of one-bit features are exact integers, so `assemble` gives exactly the statistics of a single pass.
Strips of dense features are sums of products in the precision of the map. They use other BLAS routines than
the whole matrix, and therefore agree with it only up to rounding (about 1e-7 of the diagonal in single
precision, 1e-15 in double).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from daskrf.arrays import NamedArrays
from daskrf.engine import engine
from daskrf.errors import InputError
from daskrf.features.featuremap import FeatureMap
from daskrf.features.localgaussian import keep_nearest, refuse_half
from daskrf.gp.sums.fixedpoint import check_targets
from daskrf.gp.sums.statistics import Moments, Precision, SufficientStatistics, enough_precision

STRIP_BYTES = 512 * 2**20
"""Largest size of a strip in bytes: one strip holds all of M = 8,192."""

_UNIT = 64  # boundaries fall on whole words of bits
_DOUBLE_ROWS = 2_048  # rows converted to float64 at a time
_TILE = 512  # rows of a strip updated at a time in double precision, to avoid a second strip

Array = npt.NDArray[np.float64]


class SummationOptions(TypedDict, total=False):
    """Parameters of `Summation` that a feature map does not determine."""

    one_bit: bool
    y_exponents: tuple[int, ...] | None
    map_key: str | None
    precision: Precision
    gram: bool
    columns: tuple[int, int] | None


@dataclass(frozen=True)
class Summation:
    """A description of sums over rows of features and targets, small enough to send with each task.

    All sums of one summation can be combined, in any order.

    Parameters
    ----------
    n_components, n_targets : int
    one_bit : bool
        Whether rows are packed bits.
    y_exponents : tuple of int, optional
        For one-bit features: `choose_exponent` of all labels.
    map_key : str, optional
    precision : {"single", "double"}
        Precision of products of dense features.
    block_size : int, optional
        Size of the blocks of features about centroids, for `StackedStatistics`.
    gram : bool
        False omits the Gram matrix.
    columns : (int, int), optional
        An element of `strip_columns`, for a `GramStrip` of only these columns of the Gram matrix.

    Examples
    --------
    >>> phi, y = np.array([[1.0, -1.0], [1.0, 1.0], [2.0, 0.0]]), np.array([2.0, 3.0, 1.0])
    >>> summation = Summation(2, one_bit=False)
    >>> sums = summation.zero().update(phi[:1], y[:1])
    >>> sums += summation.zero().update(phi[1:], y[1:])
    >>> (sums.n, sums.phi_y.ravel().tolist())
    (3, [7.0, 1.0])
    """

    n_components: int
    n_targets: int = 1
    one_bit: bool = True
    y_exponents: tuple[int, ...] | None = None
    map_key: str | None = None
    precision: Precision = "double"
    block_size: int | None = None
    gram: bool = True
    columns: tuple[int, int] | None = None

    @classmethod
    def of_map(
        cls, feature_map: FeatureMap, n_targets: int = 1, **options: Unpack[SummationOptions]
    ) -> Summation:
        """Return the summation for the process of a map; `options` are parameters of this class."""
        block_size = None if feature_map.gram_block is None else feature_map.block_size
        return cls(feature_map.n_components, n_targets, block_size=block_size, **options)

    def zero(self) -> Sums:
        """Return the sums over no rows.

        Raises
        ------
        InputError
            If the exponents are missing or have the wrong length, or blocks do not fit.
        """
        if self.columns is not None:
            return GramStrip.zero(
                self.n_components, self.columns, one_bit=self.one_bit, precision=self.precision
            )
        if self.block_size is not None:
            return StackedStatistics.zero(
                self.n_components, self.block_size, self.n_targets, map_key=self.map_key
            )
        return SufficientStatistics.zero(
            self.n_components,
            self.n_targets,
            self.one_bit,
            self.y_exponents,
            map_key=self.map_key,
            precision=self.precision,
            gram=self.gram,
        )

    @staticmethod
    def restore(arrays: Mapping[str, npt.NDArray[np.generic]]) -> Sums:
        """Undo `arrays` of sums of any kind.

        Raises
        ------
        InputError
            If an array is missing.
        """
        kind: type[Sums] = SufficientStatistics
        if "grams" in arrays:
            kind = StackedStatistics
        elif "head" in arrays:
            kind = GramStrip
        return kind.from_arrays(arrays)


def precision_for(feature_map: FeatureMap, n_rows: int) -> Precision:
    """Return the precision for sums of features of a map over `n_rows` rows: see `enough_precision`."""
    if feature_map.gram_precision == "double":
        return "double"
    return enough_precision(n_rows, feature_map.n_components)


@dataclass
class StackedStatistics:
    """Sums over rows of features in C blocks of D, one block for each centroid.

    `rows` and `grams` are over all rows: every row counts for every centroid. `own` and `own_grams` are over
    the same rows, but all blocks except that of the nearest centroid are set to 0; they give the evidence.

    Attributes
    ----------
    rows, own : SufficientStatistics
        Sums for all M features, without a Gram matrix.
    grams, own_grams : float64 arrays, shape (C, D, D)
        Diagonal blocks of Phi^T Phi, upper triangles, summed in double precision.

    Examples
    --------
    >>> phi = np.array([[1.0, 0.5, 0.1, 0.0], [0.2, 0.0, 0.9, 2.0]])
    >>> stack = StackedStatistics.zero(4, 2).update(phi, [1.0, 3.0])
    >>> stack.n, stack.grams[1].round(2).tolist(), stack.own_grams[1].round(2).tolist()
    (2, [[0.82, 1.8], [0.0, 4.0]], [[0.81, 1.8], [0.0, 4.0]])
    """

    rows: SufficientStatistics
    own: SufficientStatistics
    grams: Array
    own_grams: Array

    @classmethod
    def zero(
        cls, n_components: int, block_size: int, n_targets: int = 1, *, map_key: str | None = None
    ) -> StackedStatistics:
        """Return the sums over no rows; M need not be a multiple of the block size D.

        Raises
        ------
        InputError
            If D is not between 1 and M.
        """
        if not 1 <= block_size <= n_components:
            raise InputError(f"blocks of {block_size} features do not fit {n_components} features.")
        rows, nearest = (
            SufficientStatistics.zero(n_components, n_targets, one_bit=False, map_key=map_key, gram=False)
            for _ in range(2)
        )
        shape = (n_components // block_size, block_size, block_size)
        return cls(rows, nearest, np.zeros(shape), np.zeros(shape))

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.rows.n

    @property
    def n_rows(self) -> int:
        """Number of rows: none are limits."""
        return self.n

    @property
    def limits(self) -> None:
        """None: labels are measured."""
        return None

    @property
    def n_components(self) -> int:
        """Number of features M."""
        return self.rows.n_components

    @property
    def block_size(self) -> int:
        """Number of features per centroid, D."""
        return self.grams.shape[1]

    @property
    def one_bit(self) -> bool:
        """False: features are dense."""
        return False

    @property
    def map_key(self) -> str | None:
        """As in `SufficientStatistics`."""
        return self.rows.map_key

    @property
    def precision(self) -> Precision:
        """Precision of products of features."""
        return self.rows.precision

    @property
    def y_exponents(self) -> None:
        """None: targets are floats."""
        return None

    @property
    def kernel_trace(self) -> float:
        """Sum of k(x, x) over the rows."""
        return self.rows.kernel_trace

    def update(
        self,
        phi: npt.NDArray[np.number],
        y: npt.ArrayLike | None = None,
        diagonal: npt.ArrayLike | None = None,
    ) -> StackedStatistics:
        """Add rows of dense features, shape (n, M), and targets in place, and return self.

        `diagonal`, k(x, x) of each row, is always 1: the kernel is Gaussian.

        Raises
        ------
        InputError
            As `SufficientStatistics.update`, and if features are float16; nothing is then added.
        """
        refuse_half(phi.dtype)
        targets = None if y is None else check_targets(y)
        self.rows.update(phi, targets)
        self._own_sums()
        n_blocks, size = self.grams.shape[:2]
        for start in range(0, len(phi), _DOUBLE_ROWS):
            some = slice(start, start + _DOUBLE_ROWS)
            wide = phi[some].astype(np.float64)
            for block, gram in enumerate(self.grams):
                _add(gram, wide[:, block * size : (block + 1) * size])
            labels = keep_nearest(wide, n_blocks, size)
            self.own.update(wide, None if targets is None else targets[some])
            for block in np.unique(labels):
                _add(self.own_grams[block], wide[labels == block, block * size : (block + 1) * size])
        return self

    def combine(self, other: object) -> StackedStatistics:
        """Return the sums over both sets of rows.

        Raises
        ------
        InputError
            If `other` is no sums about centroids, or about others.
        """
        return self.copy().__iadd__(other)

    def copy(self) -> StackedStatistics:
        """Return an independent copy."""
        return StackedStatistics(self.rows.copy(), self.own.copy(), self.grams.copy(), self.own_grams.copy())

    def __add__(self, other: object) -> StackedStatistics:
        return self.combine(other)

    def __iadd__(self, other: object) -> StackedStatistics:
        if not isinstance(other, StackedStatistics):
            raise InputError("sums about centroids cannot be combined with others: make both with one map.")
        if self.grams.shape != other.grams.shape:
            raise InputError(
                f"statistics of (centroids, features each) = {self.grams.shape[:2]} and "
                f"{other.grams.shape[:2]} cannot be combined: use one map."
            )
        self.rows += other.rows
        self.own += other.own
        self._own_sums()
        self.grams += other.grams
        self.own_grams += other.own_grams
        return self

    def moments(self) -> Moments:
        """Return the moments with each row at its nearest centroid only; Gram matrices of shape (C, D, D)."""
        return self._stacked(self.own.moments(gram=False), self.own_grams)

    def block_moments(self, block: int, *, nearest: bool = False) -> Moments:
        """Return the moments of all rows about one centroid, or only of the rows nearest to it.

        Shapes are those for D features; the Gram matrix is a copy.
        """
        sums, grams = (self.own, self.own_grams) if nearest else (self.rows, self.grams)
        whole = self._stacked(sums.moments(gram=False), grams)
        columns, gram = slice(block * self.block_size, (block + 1) * self.block_size), grams[block].copy()
        return replace(
            whole,
            gram=gram,
            trace=float(np.trace(gram)),
            phi_sum=whole.phi_sum[columns],
            phi_y=whole.phi_y[columns],
        )

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return everything as plain arrays for storing; no copies."""
        sums = {"rows": self.rows.arrays(), "own": self.own.arrays()}
        named = {f"{key}/{name}": array for key, arrays in sums.items() for name, array in arrays.items()}
        return {"grams": self.grams, "own_grams": self.own_grams, **named}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[np.generic]]) -> StackedStatistics:
        """Undo `arrays` exactly.

        Raises
        ------
        InputError
            If an array is missing.
        """
        stored: NamedArrays = arrays
        rows, nearest = (
            SufficientStatistics.from_arrays(
                {k.removeprefix(f"{name}/"): v for k, v in stored.items() if k.startswith(f"{name}/")}
            )
            for name in ("rows", "own")
        )
        try:
            return cls(rows, nearest, stored["grams"], stored["own_grams"])
        except KeyError as error:
            raise InputError(f"stored statistics lack the array {error}: fit again.") from None

    def _own_sums(self) -> None:
        """Copy sums that cannot be added to in place: those stored read-only or in another order."""
        self.grams = np.require(self.grams, requirements=["C", "W"])
        self.own_grams = np.require(self.own_grams, requirements=["C", "W"])

    def _stacked(self, moments: Moments, grams: Array) -> Moments:
        """Return moments of the features in blocks, without the features of M left over."""
        used = grams.shape[0] * grams.shape[1]
        trace = float(np.einsum("cii->", grams))
        phi_sum, phi_y = moments.phi_sum[:used], moments.phi_y[:used]
        return replace(moments, gram=grams, trace=trace, phi_sum=phi_sum, phi_y=phi_y)


def _add(gram: Array, phi: Array) -> None:
    # The lower triangle in Fortran order is the upper one in C order.
    blas.dsyrk(1.0, np.ascontiguousarray(phi).T, beta=1.0, c=gram.T, lower=1, overwrite_c=1)


Statistics = SufficientStatistics | StackedStatistics
"""The sums that a feature-space model is fitted to."""


def strip_columns(n_components: int, strip_bytes: int = STRIP_BYTES) -> list[tuple[int, int]]:
    """Return (first, stop) columns of each strip, which depend only on M and the limit.

    Each strip is as wide as the limit allows for its 8 stop (stop - first) bytes, but at least 64 columns.

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
    """Columns of Phi^T Phi, summed over rows in any order; exact for one-bit features.

    Attributes
    ----------
    n : int
        Number of rows.
    n_components : int
    first : int
        First column.
    gram : int64 (packed bits) or float64 array, shape (stop, stop - first)
        Columns `first` to stop - 1 of the rows before stop. Entries below the diagonal are meaningless.
    precision : {"single", "double"}
        Precision of products of dense features, as in `SufficientStatistics`.

    Examples
    --------
    >>> strip = GramStrip.zero(66, (64, 66), one_bit=True)
    >>> strip.update(np.zeros((5, 9), np.uint8)).gram[64:].tolist()
    [[5, 5], [0, 5]]
    """

    n: int
    n_components: int
    first: int
    gram: npt.NDArray[np.floating]
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
        """First column, and one past the last."""
        return self.first, len(self.gram)

    def update(
        self,
        phi: npt.NDArray[np.number],
        y: npt.ArrayLike | None = None,
        diagonal: npt.ArrayLike | None = None,
    ) -> GramStrip:
        """Add rows in place and return self: packed bits (uint8) or dense features of all columns.

        `y` and `diagonal` make no difference: they are no part of the Gram matrix.

        Raises
        ------
        InputError
            If shapes or dtypes do not match, or dense features are not finite.
        """
        if self.gram.dtype == np.int64:
            engine().bit_gram(phi, self.n_components, self.gram, self.first)
        else:
            self._update_dense(phi)
        self.n += len(phi)
        return self

    def _update_dense(self, phi: npt.NDArray[np.number]) -> None:
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
            block: npt.NDArray[np.floating] = phi[start : start + step, :stop].astype(
                np.float32 if single else np.float64, copy=False
            )
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

    def copy(self) -> GramStrip:
        """Return an independent copy."""
        return replace(self, gram=self.gram.copy())

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return everything as plain arrays for storing; no copies."""
        head = [self.n, self.n_components, self.first, self.precision == "double"]
        return {"head": np.array(head, dtype=np.int64), "gram": self.gram}

    @classmethod
    def from_arrays(cls, arrays: NamedArrays) -> GramStrip:
        """Undo `arrays` exactly."""
        n, n_components, first, double = (int(value) for value in arrays["head"])
        return cls(n, n_components, first, arrays["gram"], "double" if double else "single")


Sums = Statistics | GramStrip
"""What a `Summation` gives: the sums of a model, or some columns of their Gram matrix."""


def assemble(sums: SufficientStatistics, strips: Iterable[GramStrip]) -> SufficientStatistics:
    """Return `sums`, which have no Gram matrix, with the Gram matrix joined from the strips.

    Strips are taken one at a time, so an iterator that makes or reads them needs memory for only one of them
    besides the matrix.

    Raises
    ------
    InputError
        If the strips do not cover all columns in order, or were summed over other rows.
    """
    size = sums.n_components
    gram: npt.NDArray[np.floating] = np.zeros((size, size), dtype=np.int64 if sums.one_bit else np.float64)
    done = 0
    for strip in strips:
        first, stop = strip.columns
        if (strip.n_components, first, strip.n) != (size, done, sums.n) or strip.gram.dtype != gram.dtype:
            raise InputError(
                f"a strip of columns {first} to {stop} over {strip.n} rows does not follow column {done} of "
                f"statistics of {size} features over {sums.n} rows: compute the sums again."
            )
        gram[:first, first:stop] = strip.gram[:first]
        for row in range(first, stop):
            gram[row, row:stop] = strip.gram[row, row - first :]
        done = stop
        del strip  # before the next one is made
    if done != size:
        raise InputError(f"strips up to column {done} are not all of {size} columns: compute the sums again.")
    return replace(sums, gram=gram)
