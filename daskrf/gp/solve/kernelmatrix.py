"""Products of a large kernel matrix with blocks of vectors, tile by tile.

Kernel values are in single precision; products have the precision of the vectors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from daskrf.arrays import Matrix, row_slice
from daskrf.blas import ONE_BLAS_THREAD, processors
from daskrf.engine import engine
from daskrf.kernels.kernel import Kernel, Prepared

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

Single = npt.NDArray[np.float32]
Floats = npt.NDArray[np.floating]

_TILE = 2048  # rows and columns: 16 MiB, which the allocator reuses
_PREPARED = 72  # bytes per nonzero number in the tables of a kernel: measured 66
_LEFT = 1024  # rows of other molecules that are processed at a time


class KernelMatrixState(TypedDict):
    """What a pickled `KernelMatrix` holds: no tiles."""

    kernel: Kernel
    X: Matrix


class KernelMatrix:
    """The matrix k(X, X) of n rows as a linear operator that keeps at most `keep_bytes` of it in memory.

    Tiles of the lower triangle are kept as far as `keep_bytes` and memory allow; the others are recomputed
    for each product. Each row of a product is summed in a fixed order, so the result does not depend on the
    number of threads or on which tiles are kept.

    Parameters
    ----------
    kernel : Kernel
    X : CSR or dense array, shape (n, d)
    keep_bytes : int
        Memory for tiles; the whole triangle takes 2 n (n + 2048).
    tile : int, optional
        Rows and columns of a tile, which affects rounding; default: 2,048.
    n_threads : int, optional
        Default: as many as this process may use, but one in a task, which shares its host with other tasks.

    Examples
    --------
    >>> from daskrf.kernels import TanimotoMinMax
    >>> matrix = KernelMatrix(TanimotoMinMax(), np.array([[1, 0], [1, 1]]))
    >>> matrix.product(np.eye(2, dtype=np.float32)).tolist()
    [[1.0, 0.5], [0.5, 1.0]]
    """

    def __init__(
        self,
        kernel: Kernel,
        X: Matrix,
        *,
        keep_bytes: int = 0,
        tile: int | None = None,
        n_threads: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.X = X
        self.n_rows = int(X.shape[0])
        self.n_threads = n_threads
        self.tile = tile = tile or _TILE
        self._slices = [slice(a, min(a + tile, self.n_rows)) for a in range(0, self.n_rows, tile)]
        self._columns: list[Prepared] = []
        self._kept: dict[tuple[int, int], Single] = {}
        self._chosen: list[tuple[int, int]] = []
        room = keep_bytes
        for p, rows in enumerate(self._slices):
            for q in range(p + 1):
                room -= 4 * (rows.stop - rows.start) * (self._slices[q].stop - self._slices[q].start)
                if room >= 0:
                    self._chosen.append((p, q))

    @property
    def n_panels(self) -> int:
        """Number of panels of rows in which a product is computed."""
        return len(self._slices)

    @staticmethod
    def memory(n_nonzeros: int, n_threads: int | None = None) -> int:
        """Return the bytes of a matrix that keeps no tiles: prepared columns, and tiles being computed."""
        # A tile, and what the allocator holds.
        return _PREPARED * n_nonzeros + 8 * _TILE**2 * (n_threads or processors())

    @staticmethod
    def bytes_of(n_rows: int) -> int:
        """Return the bytes of all tiles of the lower triangle."""
        return 2 * n_rows * (n_rows + _TILE)

    def __getstate__(self) -> KernelMatrixState:
        return {"kernel": self.kernel, "X": self.X}

    def __setstate__(self, state: KernelMatrixState) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def forget(self) -> None:
        """Free the kept tiles, and keep none from now on."""
        self._kept.clear()
        self._chosen.clear()

    def product(self, vectors: Floats) -> Floats:
        """Return k(X, X) times vectors, in their precision, float32 or float64: shape (n, any)."""
        return self.total(Products(vectors))

    def own_squares(self, scales: Single) -> Single:
        """Return the largest and the sum of (scales_j k(x_i, x_j))^2 over j != i, float32 of shape (2, n)."""
        return self.total(Squares(scales))

    def total(self, terms: Terms) -> Floats:
        """Return the totals, over all tiles, of the terms for each row.

        Each tile k(X_p, X_q) = k(X_q, X_p)^T is made once and serves the rows of both panels. Each round
        takes all pairs of panels with the same cyclic distance. A panel then gets terms from two tiles, which
        are added in an order that does not depend on threads.
        """
        if len(self._kept) < len(self._chosen):
            self._keep()
        self._prepare()
        result = terms.zero(self.n_rows)
        for apart in range(self.n_panels // 2 + 1):
            # At half the number of panels, p and q are opposite each other: each pair would come twice.
            n_pairs = apart if 2 * apart == self.n_panels else self.n_panels
            pairs = [(p, (p + apart) % self.n_panels) for p in range(n_pairs)]

            def both(pair: tuple[int, int]) -> tuple[Floats, Floats]:
                return self._both(terms, self._tile(*pair), *pair)

            for (p, q), (product, other) in zip(pairs, self._each(both, pairs), strict=True):
                terms.add(terms.rows_of(result, self._slices[p]), product)
                if p != q:
                    terms.add(terms.rows_of(result, self._slices[q]), other)
        return result

    def between(self, terms: Terms, left: range, right: range) -> tuple[Floats, Floats]:
        """Return the totals for the rows of two sets of panels, over the tiles between them.

        If `left` and `right` are the same, each tile is made once for the rows of both its panels, and the
        second total is empty. No tiles are kept: this is for workers that compute some of the tiles.
        """
        first, second = self._rows_of(left), self._rows_of(right)
        total_left = terms.zero(first.stop - first.start)
        other = terms.zero(0 if left == right else second.stop - second.start)
        for q in right:
            columns = self.kernel.against(self._rows(self._slices[q]))
            for p in left:
                if left == right and p < q:
                    continue
                tile = columns(self._rows(self._slices[p]), dtype=np.float32)
                direct, transposed = self._both(terms, tile, p, q)
                terms.add(terms.rows_of(total_left, _shifted(self._slices[p], first.start)), direct)
                if p != q:
                    total, start = (total_left, first.start) if left == right else (other, second.start)
                    terms.add(terms.rows_of(total, _shifted(self._slices[q], start)), transposed)
        return total_left, other

    def _rows_of(self, panels: range) -> slice:
        return slice(self._slices[panels[0]].start, self._slices[panels[-1]].stop)

    def _both(self, terms: Terms, tile: Single, p: int, q: int) -> tuple[Floats, Floats]:
        """Return the terms of a tile for the rows of p, and for those of q unless p = q."""
        rows, columns = self._slices[p], self._slices[q]
        if p == q:
            return terms.of(tile, columns, diagonal=True), terms.zero(0)
        return terms.of(tile, columns), terms.of(tile.T, rows)

    def cross(
        self, X: Matrix, vectors: Single, use: Callable[..., None], *, scales: Single | None = None
    ) -> None:
        """Call `use` with slices of the rows x of another X, and k(x, rows of this matrix) times vectors.

        With `scales`, `use` also gets the largest and the sum of (scales_i k(x, x_i))^2 over the rows i of
        this matrix.
        """
        self._prepare()
        wanted: list[Terms] = [Products(vectors), *([] if scales is None else [Squares(scales)])]

        def part_of(start: int) -> None:
            some = slice(start, min(start + _LEFT, X.shape[0]))
            rows = row_slice(X, some.start, some.stop)
            totals = [terms.zero(some.stop - start) for terms in wanted]
            for prepared, columns in zip(self._columns, self._slices, strict=True):
                tile = prepared(rows, dtype=np.float32)
                for terms, total in zip(wanted, totals, strict=True):
                    terms.add(total, terms.of(tile, columns))
            use(some, totals[0], *(values for total in totals[1:] for values in total))

        self._each(part_of, range(0, X.shape[0], _LEFT))

    def cross_product(self, X: Matrix, vectors: Single) -> Single:
        """Return k(X, rows of this matrix) times vectors for another X, float32 of shape (m, any)."""
        product = np.empty((X.shape[0], vectors.shape[1]), np.float32)
        self.cross(X, vectors, product.__setitem__)
        return product

    def _prepare(self) -> None:
        """Prepare the columns once; for a matrix read from a file, this happens at its first use."""
        if len(self._columns) < len(self._slices):
            self._columns = self._each(lambda rows: self.kernel.against(self._rows(rows)), self._slices)

    def _keep(self) -> None:
        """Make the tiles that are to be kept; if memory runs out, keep half of those that fit."""
        self._prepare()
        tiles = {}

        def make(at: tuple[int, int]) -> None:
            tiles[at] = self._made(*at)

        try:
            self._each(make, self._chosen)
        except MemoryError:
            self._chosen = sorted(tiles)[: len(tiles) // 2]
        self._kept = {at: tiles[at] for at in self._chosen}

    def _rows(self, rows: slice) -> Matrix:
        return row_slice(self.X, rows.start, rows.stop)

    def _tile(self, p: int, q: int) -> Single:
        if (p, q) in self._kept:
            return self._kept[p, q]
        if (q, p) in self._kept:
            return self._kept[q, p].T
        return self._made(p, q)

    def _made(self, p: int, q: int) -> Single:
        return self._columns[q](self._rows(self._slices[p]), dtype=np.float32)

    def _each(self, function: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
        """Return the results for all items, computed in parallel threads that use one BLAS thread each."""
        n_threads = self.n_threads or (1 if ONE_BLAS_THREAD.is_set else processors())
        if n_threads == 1:
            with ONE_BLAS_THREAD:
                return [function(item) for item in items]
        with ONE_BLAS_THREAD, ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(function, items))


@dataclass(frozen=True)
class Terms(ABC):
    """The terms that each tile of a kernel matrix adds to totals of its rows, given numbers for each row."""

    vectors: Floats

    @abstractmethod
    def zero(self, n_rows: int) -> Floats:
        """Return the totals over no tiles."""

    @abstractmethod
    def of(self, tile: Single, columns: slice, *, diagonal: bool = False) -> Floats:
        """Return the terms of a tile for its rows; its columns are some rows of the matrix.

        With `diagonal`, rows and columns of the tile are the same rows of the matrix.
        """

    @abstractmethod
    def add(self, total: Floats, term: Floats) -> None:
        """Add a term to the totals of the same rows."""

    @abstractmethod
    def rows_of(self, total: Floats, rows: slice) -> Floats:
        """Return a view of the totals of some rows."""

    @abstractmethod
    def n_rows(self, total: Floats) -> int:
        """Return the number of rows of totals."""


@dataclass(frozen=True)
class Products(Terms):
    """Kernel values times vectors of shape (n, any), in the precision of the vectors."""

    def zero(self, n_rows: int) -> Floats:
        return np.zeros((n_rows, self.vectors.shape[1]), self.vectors.dtype)

    def of(self, tile: Single, columns: slice, *, diagonal: bool = False) -> Floats:
        return tile.astype(self.vectors.dtype, copy=False) @ self.vectors[columns]

    def add(self, total: Floats, term: Floats) -> None:
        total += term

    def rows_of(self, total: Floats, rows: slice) -> Floats:
        return total[rows]

    def n_rows(self, total: Floats) -> int:
        return len(total)


@dataclass(frozen=True)
class Squares(Terms):
    """The largest and the sum of squares of scaled kernel values with other rows: shape (2, n).

    Negative values, which only some kernels have, count in the sum but never as the largest.
    The vector, of shape (n,), holds the scales.
    """

    def zero(self, n_rows: int) -> Single:
        return np.zeros((2, n_rows), np.float32)

    def of(self, tile: Single, columns: slice, *, diagonal: bool = False) -> Single:
        total = self.zero(len(tile))
        values = np.array(tile, order="C") if diagonal else np.ascontiguousarray(tile)
        if diagonal:
            np.fill_diagonal(values, 0)
        engine().add_squares(values, self.vectors[columns], *total)
        return total

    def add(self, total: Single, term: Single) -> None:
        np.maximum(total[0], term[0], out=total[0])
        total[1] += term[1]

    def rows_of(self, total: Single, rows: slice) -> Single:
        return total[:, rows]

    def n_rows(self, total: Single) -> int:
        return total.shape[1]


def _shifted(rows: slice, start: int) -> slice:
    return slice(rows.start - start, rows.stop - start)
