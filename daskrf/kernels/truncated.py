"""The Gaussian kernel with a truncated power series, about a centre."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MatrixLike, as_csr, check_finite, squared_norms
from daskrf.engine import SUM
from daskrf.errors import InputError
from daskrf.kernels.index import Index
from daskrf.kernels.kernel import AUTO, UNDECIDED, Kernel, Prepared
from daskrf.kernels.powerseries import check_degree

_LARGEST = 1e150  # values whose squares are finite

Array = npt.NDArray[np.float64]


class TruncatedGaussian(Kernel):
    """k_p(x, y) = exp(-(|u|^2 + |v|^2) / 2) sum_{n <= p} (u.v)^n / n!, u = (x - c) / l, v = (y - c) / l.

    For large p it is the Gaussian kernel exp(-|x - y|^2 / (2 l^2)). It is smaller than that for parallel u
    and v, and vanishes far from the centre c (Wacker & Filippone 2022, equation 3 and theorem 3.1).

    Parameters
    ----------
    length_scale : float, default 1.0
        l, above 0.
    degree : int, default 8
        p, from 0 to 1000.
    centre : (sequence of int, sequence of float), optional
        Columns of c, each at most once, and a value for each; all others are 0. Default: the origin.

    Raises
    ------
    InputError
        If a parameter is out of range; when called, if a value is not finite, or the rows lack a column of
        the centre.

    Examples
    --------
    >>> x, y = [[1.0, 0.0]], [[0.0, 1.0]]
    >>> np.allclose(TruncatedGaussian(2.0, 9)(x, y), np.exp(-2 / 8))
    True
    """

    def __init__(
        self,
        length_scale: float = 1.0,
        degree: int = 8,
        centre: tuple[Sequence[int], Sequence[float]] | None = None,
    ) -> None:
        self.length_scale = check_length_scale(length_scale)
        self.degree = check_degree(degree)
        self.centre = ((), ()) if centre is None else _checked_centre(centre)

    def __repr__(self) -> str:
        return f"TruncatedGaussian({self.length_scale!r}, {self.degree!r})"

    def against(self, Y: MatrixLike) -> Prepared:
        right = self._rows(Y)
        index = Index(right, multiply=True)
        right_offsets, right_norms = self._centred(right)

        def series(X: MatrixLike, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.floating]:
            left = self._rows(X)
            dot = np.empty((left.shape[0], right.shape[0]))
            index.coefficients(left, np.float64, None, SUM, dot)
            offsets, norms = self._centred(left)
            dot -= offsets[:, None] + right_offsets  # one sum, so that it is the same for (x, y) and (y, x)
            dot += sum(v * v for v in self.centre[1])
            dot /= self.length_scale**2
            exponent = (norms[:, None] + right_norms) / 2
            return _series(dot, exponent, self.degree).astype(dtype, copy=False)

        return series

    def diag(self, X: MatrixLike) -> Array:
        _, norms = self._centred(self._rows(X))
        return _series(norms.copy(), norms, self.degree)

    def _rows(self, X: MatrixLike) -> sp.csr_matrix:
        csr = check_finite(as_csr(X))
        if self.centre[0] and max(self.centre[0]) >= csr.shape[1]:
            raise InputError(
                f"The centre has column {max(self.centre[0])}, but the rows have {csr.shape[1]:,} columns."
            )
        return sp.csr_matrix((csr.data.astype(np.float64), csr.indices, csr.indptr), shape=csr.shape)

    def _centred(self, csr: sp.csr_matrix) -> tuple[Array, Array]:
        """Return x.c and |x - c|^2 / l^2 of each row."""
        columns, values = np.array(self.centre[0], np.int64), np.array(self.centre[1])
        products = np.zeros((csr.shape[0], 1))
        if columns.size:
            pointer = np.array([0, columns.size])
            centre = as_csr(sp.csr_matrix((values, columns, pointer), shape=(1, csr.shape[1])))
            Index(centre, multiply=True).coefficients(csr, np.float64, None, SUM, products)
        norms = squared_norms(csr.indptr, csr.data) - 2.0 * products[:, 0] + float(values @ values)
        return products[:, 0], np.maximum(norms, 0.0) / self.length_scale**2


def _series(dot: Array, exponent: Array, degree: int) -> Array:
    """Return exp(-exponent) sum_{n <= degree} dot^n / n!, by logarithms of terms, so that none overflows."""
    with np.errstate(divide="ignore"):
        logarithm = np.log(np.abs(dot))
    total = np.exp(-exponent)
    for n in range(1, degree + 1):
        term = np.exp(n * logarithm - math.lgamma(n + 1) - exponent)
        total += np.where(dot < 0.0, -term, term) if n % 2 else term
    return total


def _checked_centre(centre: Any) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the columns and values of a centre, or raise InputError if it is not one."""
    try:
        columns, values = (np.asarray(list(each)) for each in centre)
        good = columns.shape == values.shape == (columns.size,)
        if good and columns.size:
            good = (
                columns.dtype.kind in "iu"
                and values.dtype.kind in "iuf"
                and columns.min() >= 0
                and np.unique(columns).size == columns.size
                and bool(np.abs(values).max() <= _LARGEST)
            )
    except (TypeError, ValueError):
        good = False
    if not good:
        raise InputError(
            "centre must be two sequences of one length, different columns from 0 on and finite values, "
            f"not {reprlib.repr(centre)}; leave it out for the origin."
        )
    return tuple(int(k) for k in columns), tuple(float(v) for v in values)


def check_length_scale(length_scale: Any) -> float:
    """Return a length scale as a float, or raise InputError if its fourth power or its inverse overflows."""
    if isinstance(length_scale, str) and length_scale == AUTO:
        raise InputError(UNDECIDED)
    good = isinstance(length_scale, (int, float, np.integer, np.floating)) and not isinstance(
        length_scale, bool
    )
    if not good or not 1e-75 <= float(length_scale) <= 1e75:
        raise InputError(
            f"length_scale must be a finite number above 0, from 1e-75 to 1e75, not {length_scale!r}."
        )
    return float(length_scale)
