"""Weighted means of kernels, each with its own columns: several fingerprints in one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MatrixLike, as_csr, check_finite, column_slice, row_slice, shape_of
from daskrf.errors import InputError, counted_from
from daskrf.kernels.index import check_columns
from daskrf.kernels.kernel import Kernel, KernelState, Prepared, as_number, from_state
from daskrf.kernels.tanimoto import TanimotoMinMax
from daskrf.parameters import REQUIRED

_BLOCK = 1 << 18  # values at a time, few enough to stay in the cache
_FEWEST = 128  # least number of rows at a time

Columns = int | tuple[tuple[int, int], ...] | None
"""Which columns each term of a mean sees; see `Mean`."""


class Mean(Kernel):
    """k(x, y) = sum_i w_i k_i(x_i, y_i) / sum_i w_i, where x_i are some of the columns of x.

    This is the kernel of several fingerprints side by side in a row, each with a term of its own. Sums of
    positive definite kernels are positive definite. k(x, x) = 1 if this holds for every term.

    Parameters
    ----------
    weights : sequence of float, default (1, 1)
        Weights w_i, at least 0 and not all of them 0.
    kernels : Kernel or tuple of Kernel, default TanimotoMinMax()
        k_i; a single kernel is used for all terms.
    columns : int, tuple of (int, int), or None, default 2**32
        Number of columns of each kind of fingerprint: 2**32 if unfolded, else the size that they are folded
        to. The kinds come in the order of the weights. In Python also the first column of each term and one
        past its last (ranges may overlap, and may end beyond the last column), or None: each term sees all
        columns.

    Raises
    ------
    InputError
        If the numbers of kernels, ranges and weights differ, or one of them is impossible; when called, if
        the rows do not have `columns` columns for each weight.

    Examples
    --------
    >>> Mean((3, 1), columns=2)([[2, 0, 1, 1]], [[1, 1, 1, 1], [2, 0, 0, 0]]).tolist()
    [[0.5, 0.75]]
    """

    name = "mean"
    option_defaults: ClassVar[dict[str, object]] = {"weights": REQUIRED}

    def __init__(
        self,
        weights: Sequence[float] = (1.0, 1.0),
        kernels: Kernel | tuple[Kernel | KernelState, ...] = TanimotoMinMax(),  # noqa: B008
        columns: Columns = 2**32,
    ) -> None:
        self.weights = as_weights(weights)
        size = len(self.weights)
        listed = [kernels] * size if isinstance(kernels, Kernel) else kernels
        self.kernels = tuple(from_state(each) if isinstance(each, dict) else each for each in listed)
        if len(self.kernels) != size or not all(isinstance(each, Kernel) for each in self.kernels):
            raise InputError(
                f"kernels must be one kernel, or {size} kernels, one for each weight, not {kernels!r}."
            )
        ranges = () if columns is None or isinstance(columns, int) else columns
        self.columns = tuple((start, stop) for start, stop in ranges) or columns
        self._ranges(None)

    @property
    def shares(self) -> list[float]:
        """The weights divided by their sum; summed in their order they give exactly 1."""
        total = sum(self.weights)
        shares = [weight / total for weight in self.weights]
        last = max(i for i, weight in enumerate(self.weights) if weight)
        rest = 0.0
        for share in shares[:last]:  # `sum` would round only once
            rest += share
        shares[last] = 1.0 - rest
        return shares

    def words(self) -> str:
        if len(self.kernels) == 1:
            return f"{self.kernels[0].words()} of some columns"
        terms = zip(self.shares, self.kernels, strict=True)
        return f"mean of {', '.join(f'{share:.3g} {kernel.words()}' for share, kernel in terms)}"

    def __repr__(self) -> str:
        return f"Mean({self.weights!r}, {self.kernels!r}, {self.columns!r})"

    def parts(self, X: MatrixLike) -> list[sp.csr_matrix]:
        """Return the rows that each term sees: those of `X`, shape (n, d), restricted to its columns.

        Raises
        ------
        InputError
            If `X` has another number of columns than `columns` says, or a value is not finite.
        """
        rows = check_finite(as_csr(X))
        return [column_slice(rows, *bounds) for bounds in self._ranges(rows.shape[1])]

    def _ranges(self, n_columns: int | None) -> list[tuple[int, int]]:
        return column_ranges(self.columns, len(self.weights), n_columns)

    @property
    def positive_rows(self) -> bool:
        return any(each.positive_rows for each in self.kernels)

    def against(self, Y: MatrixLike) -> Prepared:
        return self._added(Y, [kernel.against for kernel in self.kernels], np.float64)

    def against_single(self, Y: MatrixLike) -> Prepared:
        return self._added(Y, [kernel.against_single for kernel in self.kernels], np.float32)

    def _added(self, Y: MatrixLike, against: list[object], kind: type) -> Prepared:
        """Return the function X -> k(X, Y), whose terms are summed in the type `kind`."""
        right = check_finite(as_csr(Y))
        triples = zip(self.shares, against, self._ranges(right.shape[1]), strict=True)
        terms = [_Term(share, prepare, bounds, right) for share, prepare, bounds in triples if share]
        step = max(_FEWEST, _BLOCK // max(1, right.shape[0]))

        def values(X: MatrixLike, dtype: npt.DTypeLike = kind) -> npt.NDArray[np.floating]:
            left = check_finite(as_csr(X))
            check_columns(left, right)
            parts = [column_slice(left, *term.columns) for term in terms]
            out = np.empty((left.shape[0], right.shape[0]), dtype)
            several, exact = len(terms) > 1, out.dtype == kind
            more = np.empty((step if several else 0, right.shape[0]), kind)
            for start in range(0, left.shape[0], step):
                stop = min(start + step, left.shape[0])
                total = out[start:stop] if exact else np.empty((stop - start, right.shape[0]), kind)
                for number, (term, block) in enumerate(zip(terms, parts, strict=True)):
                    of_term = term(row_slice(block, start, stop), start, kind)
                    if number:
                        total += np.multiply(of_term, term.share, out=more[: stop - start])
                    else:
                        np.multiply(of_term, term.share if several else 1.0, out=total)
                if not exact:
                    out[start:stop] = total
            return out

        return values

    @property
    def has_unit_diagonal(self) -> bool:
        """Whether k(x, x) = 1 for every row: if this holds for each term."""
        return all(kernel.has_unit_diagonal for kernel in self.kernels)

    def diag(self, X: MatrixLike) -> npt.NDArray[np.float64]:
        diagonal = np.zeros(shape_of(X)[0])
        for share, kernel, block in zip(self.shares, self.kernels, self.parts(X), strict=True):
            diagonal += share * kernel.diag(block)
        return diagonal


def kernel_on_first(kernel: Kernel, n_columns: int) -> Kernel:
    """Return a kernel that sees only the first columns of rows; a mean has its own columns and is unchanged.

    Examples
    --------
    >>> kernel_on_first(TanimotoMinMax(), 2)([[1, 2, 9]], [[1, 4, 0]]).tolist()
    [[0.6]]
    """
    return kernel if isinstance(kernel, Mean) else Mean((1.0,), (kernel,), ((0, n_columns),))


def as_weights(weights: Sequence[float]) -> tuple[float, ...]:
    """Return the weights of the terms of a mean as floats.

    Raises
    ------
    InputError
        If one is not a finite number of at least 0, or all are 0.

    Examples
    --------
    >>> as_weights([1, 0.5])
    (1.0, 0.5)
    """
    numbers = tuple(map(as_number, weights)) if np.iterable(weights) else ()
    if not (all(0.0 <= weight < np.inf for weight in numbers) and 0.0 < sum(numbers) < np.inf):
        raise InputError(f"weights must be finite numbers of at least 0, not all of them 0: not {weights!r}.")
    return numbers


def column_ranges(columns: Columns, n_terms: int, n_columns: int | None) -> list[tuple[int, int]]:
    """Return the first column of each term of a mean, and one past its last.

    Parameters
    ----------
    columns : int, sequence of (int, int), or None
        See `Mean`.
    n_terms : int
    n_columns : int or None
        Number of columns of the rows; None if there are no rows yet.

    Raises
    ------
    InputError
        If the rows have another number of columns, or there are not as many ranges as terms.

    Examples
    --------
    >>> column_ranges(4, 2, 8), column_ranges([(0, 4), (2, 8)], 2, 6)
    ([(0, 4), (4, 8)], [(0, 4), (2, 6)])
    """
    if columns is None:
        return [(0, n_columns or 0)] * n_terms
    if isinstance(columns, int):
        if columns < 1:
            raise InputError(f"columns must be a positive number, not {columns}.")
        if n_columns not in (None, n_terms * columns):
            raise InputError(
                f"The rows have {n_columns:,} columns, not {columns:,} for each of {n_terms} weights: give "
                "one weight for each kind of fingerprint and, if fingerprints are folded, the number of "
                "columns per kind (columns)."
            )
        return [(i * columns, (i + 1) * columns) for i in range(n_terms)]
    if len(columns) != n_terms or not all(0 <= start < stop for start, stop in columns):
        raise InputError(f"columns must be a first and a last column for each weight, not {columns!r}.")
    most = n_columns or max(stop for _, stop in columns)
    return [(min(start, most), min(stop, most)) for start, stop in columns]


class _Term:
    """A term of a mean against fixed rows."""

    def __init__(self, share: float, prepare: Any, columns: tuple[int, int], right: sp.csr_matrix) -> None:
        self.share, self.columns = share, columns
        with counted_from(0, columns[0]):
            self._values = prepare(column_slice(right, *columns))

    def __call__(self, rows: sp.csr_matrix, start: int, kind: type) -> npt.NDArray[np.floating]:
        """Return the values for some rows, the first of which is row `start` of all rows."""
        with counted_from(start, self.columns[0]):
            return self._values(rows, dtype=kind)
