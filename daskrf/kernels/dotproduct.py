"""The exact Tanimoto dot-product kernel, for any real vectors."""

from __future__ import annotations

import operator
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MatrixLike, as_csr, check_finite, squared_norms
from daskrf.engine import QUOTIENT, RATIO, SUM
from daskrf.errors import InputError
from daskrf.kernels.index import Index
from daskrf.kernels.kernel import Kernel, Prepared
from daskrf.kernels.tanimoto import as_counts, by_type

# Rows whose largest values lie between 2^-_ORDINARY and 2^_ORDINARY have squared norms and products far from
# the limits of float64; other rows are scaled by powers of two.
_ORDINARY = 400
_NOTHING = -(10**4)  # stands for the exponent of a row of zeros; below those of all numbers
_BLOCK = 2**20  # values in a block of scaled results
_MOST_TERMS = 64  # further terms are below the rounding error, since |t| <= 1/2

Array = npt.NDArray[np.floating]


class TanimotoDotProduct(Kernel):
    """T(x, y) = x.y / (|x|^2 + |y|^2 - x.y), for any real vectors; T(0, 0) = 1.

    On binary vectors it is the min-max kernel. Values range from -1/3 (y = -x) to 1. Equal rows have T = 1
    exactly, and k(X, X) is symmetric bit for bit. Products of integer counts are exact. For other values,
    sums have rounding errors, and their order depends on all rows on the right. Values may have any size:
    rows near the limits of float64 are scaled.

    Source: Ralaivola et al. 2005; Tripp et al. 2023, section 4 and theorem 4.1 (positive definite).

    Parameters
    ----------
    transform : {None, "sqrt"}
        "sqrt": take the square root of every value first, as the paper does for counts.
    n_terms : int, optional
        R >= 1: use the truncated series sum_{r=1..R} t^r, t = x.y / (|x|^2 + |y|^2), which random features
        with R terms approximate; its limit is T (theorem 4.1 of the paper). Its diagonal is 1 - 2^-R, but 1
        for a row of zeros.

    Raises
    ------
    InputError
        If a parameter has any other value; when called, if a value is not finite, or negative with "sqrt".

    Examples
    --------
    >>> TanimotoDotProduct()([[2, 0, 1]], [[1, 1, 1], [-2, 0, -1]]).round(4).tolist()
    [[0.6, -0.3333]]
    >>> TanimotoDotProduct(transform="sqrt", n_terms=2)([[4, 0], [0, 0]]).tolist()
    [[0.75, 0.0], [0.0, 1.0]]
    """

    name = "dot-product"
    option_defaults: ClassVar[dict[str, object]] = {"transform": "sqrt"}

    def __init__(self, transform: Literal["sqrt"] | None = None, n_terms: int | None = None) -> None:
        if transform not in (None, "sqrt"):
            raise InputError(f"transform must be None or 'sqrt', not {transform!r}.")
        self.transform = transform
        self.n_terms = None if n_terms is None else _n_terms(n_terms)

    @property
    def positive_rows(self) -> bool:
        return self.transform is not None

    def against(self, Y: MatrixLike) -> Prepared:
        right, right_exponents = self._rows(Y)
        index = Index(right, multiply=True)
        right_counts = _counts(right)
        largest = float(squared_norms(right.indptr, right.data).max(initial=0.0))

        def similarities(X: MatrixLike, dtype: npt.DTypeLike = np.float64) -> Array:
            left, exponents = self._rows(X)
            ordinary = exponents is None and right_exponents is None
            mode = SUM if not ordinary else (QUOTIENT if self.n_terms is None else RATIO)
            out = np.empty((left.shape[0], right.shape[0]), dtype if mode == QUOTIENT else np.float64)
            counts = None if right_counts is None else _counts(left)
            if counts is None:
                sums = index.coefficients(left, np.float64, None, mode, out)
                if not ordinary:
                    self._divide(out, sums, (left, exponents), (right, right_exponents))
            else:
                # As x.y <= |x| |y|, no row here shares a column with a count that is clipped to the type.
                for kind, rows in by_type(np.sqrt(squared_norms(left.indptr, left.data) * largest)):
                    index.coefficients(left, kind, rows, mode, out)
            if self.n_terms is not None:
                _sum_series(out, self.n_terms)
                out[np.ix_(_is_zero(left), _is_zero(right))] = 1.0
            return out.astype(dtype, copy=False)

        return similarities

    @property
    def has_unit_diagonal(self) -> bool:
        """Whether the series is not truncated; see `Kernel`."""
        return self.n_terms is None

    def diag(self, X: MatrixLike) -> npt.NDArray[np.float64]:
        """Return k(x, x) of each row, float64 of shape (n,): 1, or 1 - 2^-R for the truncated series."""
        if self.n_terms is None:
            return super().diag(X)
        csr = as_csr(X)
        return np.where(_is_zero(csr), 1.0, 1.0 - 0.5 ** min(self.n_terms, _MOST_TERMS))

    def distance(self, X: MatrixLike, Y: MatrixLike | None = None) -> npt.NDArray[np.float64]:
        """Return sqrt(1 - T), which is a metric (Tripp et al. 2023, corollary 4.2); 1 - T is not.

        It is the distance of x and y in the kernel's Hilbert space, divided by sqrt(2); the general form is
        sqrt((k(x, x) + k(y, y)) / 2 - k(x, y)). It is 0 for equal rows. Its rounding error is about 1e-8.
        """
        squared = self(X, Y)
        np.negative(squared, out=squared)
        squared += self.diag(X)[:, None] / 2
        squared += self.diag(X if Y is None else Y) / 2
        np.maximum(squared, 0.0, out=squared)
        return np.sqrt(squared, out=squared)

    def _rows(self, X: MatrixLike) -> tuple[sp.csr_matrix, npt.NDArray[np.int32] | None]:
        """Return transformed rows, and the binary exponents they were scaled by, or None if not scaled."""
        csr = check_finite(as_csr(X))
        if self.transform == "sqrt":
            _refuse_negative(csr)
            csr = sp.csr_matrix((np.sqrt(csr.data.astype(np.float64)), csr.indices, csr.indptr), csr.shape)
        sizes = np.abs(csr.data.astype(np.float64))
        if not sizes.size or (sizes.max() <= 2.0**_ORDINARY and sizes.min() >= 2.0**-_ORDINARY):
            return csr, None
        exponents = _exponents(csr, sizes)
        shifts = np.repeat(np.where(_is_zero(csr), 0, exponents), np.diff(csr.indptr))
        data = np.ldexp(csr.data.astype(np.float64), -shifts)
        return sp.csr_matrix((data, csr.indices, csr.indptr), csr.shape), exponents

    def _divide(
        self,
        out: Array,
        sums: tuple[Array, Array],
        *sides: tuple[sp.csr_matrix, npt.NDArray[np.int32] | None],
    ) -> None:
        """Turn products of scaled rows into coefficients, in place, using their squared norms `sums`."""
        a, b = sums[0][:, None], sums[1]
        e, f = (_exponents(csr) if exponents is None else exponents for csr, exponents in sides)
        e = e[:, None]
        rows = max(1, _BLOCK // max(1, out.shape[1]))
        for start in range(0, out.shape[0], rows):
            chunk = slice(start, start + rows)
            top = np.maximum(e[chunk], f)
            products = np.ldexp(out[chunk], e[chunk] + f - 2 * top)
            union = np.ldexp(a[chunk], 2 * (e[chunk] - top)) + np.ldexp(b, 2 * (f - top))
            if self.n_terms is None:
                union -= products
            empty = union == 0.0
            union[empty] = products[empty] = 1.0
            np.divide(products, union, out=out[chunk])

    def words(self) -> str:
        return f"Tanimoto (dot product{', of square roots of counts' if self.transform else ''})"


def _n_terms(n_terms: Any) -> int:
    try:
        number = operator.index(n_terms)
    except TypeError:
        number = 0
    if number < 1:
        raise InputError(f"n_terms must be None or an integer of at least 1, not {n_terms!r}.")
    return number


def _refuse_negative(csr: sp.csr_matrix) -> None:
    negative = csr.data < 0
    if negative.any():
        place = int(np.argmax(negative))
        row = int(np.searchsorted(csr.indptr, place, side="right")) - 1
        raise InputError(
            f"Value {csr.data[place]} in row {row}, column {csr.indices[place]} is negative and has no "
            "square root; use transform=None."
        )


def _counts(csr: sp.csr_matrix) -> npt.NDArray[np.uint16] | None:
    return as_counts(csr.data) if csr.dtype.kind == "u" or not (csr.data < 0).any() else None


def _is_zero(csr: sp.csr_matrix) -> npt.NDArray[np.bool_]:
    return np.diff(csr.indptr) == 0


def _exponents(csr: sp.csr_matrix, sizes: Array | None = None) -> npt.NDArray[np.int32]:
    """Return the exponent of each row's largest value: 0 for an ordinary row, tiny for an empty one."""
    exponents = np.zeros(csr.shape[0], np.int32)
    empty = _is_zero(csr)
    exponents[empty] = _NOTHING
    if sizes is not None:
        # Empty rows are left out: reduceat would give them a value of the next row.
        powers = np.frexp(np.maximum.reduceat(sizes, csr.indptr[:-1][~empty]))[1]
        exponents[~empty] = np.where(np.abs(powers) > _ORDINARY, powers, 0)
    return exponents


def _sum_series(t: Array, n_terms: int) -> None:
    """Overwrite `t` with t + t^2 + ..., by Horner's rule; |t| <= 1/2."""
    total = np.ones_like(t)
    for _ in range(min(n_terms, _MOST_TERMS) - 1):
        total *= t
        total += 1.0
    t *= total
