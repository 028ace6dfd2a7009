"""The exact min-max Tanimoto kernel, and the size of the intersection, its numerator."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MatrixLike, as_csr, check_weights, row_sums
from daskrf.engine import QUOTIENT, SUM
from daskrf.errors import InputError
from daskrf.kernels.index import Index, as_counts, by_type
from daskrf.kernels.kernel import Kernel, Prepared

_LARGEST_SUM = 4e307  # two of them can be added

Array = npt.NDArray[np.floating]


class TanimotoMinMax(Kernel):
    """T(x, y) = sum_k min(x_k, y_k) / sum_k max(x_k, y_k), for non-negative vectors; T(0, 0) = 1.

    Because min + max = sum, only the minima s of common columns are summed: T = s / (|x|_1 + |y|_1 - s).
    Equal rows have T = 1 exactly, and k(X, X) is symmetric bit for bit. Integer counts (of any dtype) are
    exact: T is the quotient of two integers, rounded once. Sums of real weights have rounding errors, and
    their order depends on all rows on the right.

    Source: Ralaivola et al. 2005, and Tripp et al. 2023, equation 3. Their equation 34, with |x - y|_1, is
    not used: it subtracts sums over all columns, which costs digits, and reads columns that the rows do not
    share.

    Examples
    --------
    >>> TanimotoMinMax()([[2, 0, 1]], [[1, 1, 1]]).tolist()
    [[0.5]]
    """

    name = "minmax"

    @property
    def positive_rows(self) -> bool:
        return True

    def against(self, Y: MatrixLike) -> Prepared:
        return _minima(Y, QUOTIENT)

    def distance(self, X: MatrixLike, Y: MatrixLike | None = None) -> npt.NDArray[np.float64]:
        """Return 1 - T, the Soergel distance, which is a metric (Marczewski & Steinhaus 1958)."""
        similarities = self(X, Y)
        return np.subtract(1.0, similarities, out=similarities)

    def words(self) -> str:
        return "Tanimoto (min-max)"


class Intersection(Kernel):
    """k(x, y) = sum_k min(x_k, y_k), for non-negative vectors; k(x, x) is the sum of x.

    This is the size of the intersection of two multisets. For LINGO counts (`daskrf.molecules.lingo_counts`)
    it is the kernel of figure 1 of Haque & Pande 2011, whose Tanimoto coefficient is `TanimotoMinMax`. It is
    positive definite (Odone, Barla & Verri 2005). Sums of integer counts are exact; those of real weights
    have rounding errors, and their order depends on all rows on the right.

    Examples
    --------
    >>> Intersection()([[2, 0, 1]], [[1, 1, 1], [2, 0, 1]]).tolist()
    [[2.0, 3.0]]
    """

    name = "intersection"

    @property
    def positive_rows(self) -> bool:
        return True

    def against(self, Y: MatrixLike) -> Prepared:
        return _minima(Y, SUM)

    def diag(self, X: MatrixLike) -> npt.NDArray[np.float64]:
        """Return the sum of each row of `X`, float64 of shape (n,)."""
        csr = _weights(X)
        return np.asarray(csr.astype(np.float64).sum(axis=1)).reshape(-1)

    def words(self) -> str:
        return "intersection (sum of min)"


def _minima(Y: MatrixLike, mode: int) -> Prepared:
    """Return the function of X for sums of minima with the rows of `Y`, or quotients of them, by `mode`."""
    right = _weights(Y)
    index = Index(right, multiply=False)
    right_counts = as_counts(right.data)
    largest = 0 if right_counts is None else int(row_sums(right.indptr, right_counts).max(initial=0))

    def similarities(X: MatrixLike, dtype: npt.DTypeLike = np.float64) -> Array:
        left = _weights(X)
        out = np.empty((left.shape[0], right.shape[0]), dtype)
        counts = None if right_counts is None else as_counts(left.data)
        if counts is None:
            index.coefficients(left, np.float64, None, mode, out)
            return out
        for kind, rows in by_type(np.minimum(row_sums(left.indptr, counts), largest)):
            index.coefficients(left, kind, rows, mode, out)
        return out

    return similarities


def _weights(X: MatrixLike) -> sp.csr_matrix:
    """Return `X` as canonical CSR, with values and row sums that are finite and at least 0."""
    csr = check_weights(as_csr(X))
    if csr.nnz and float(csr.data.max()) > _LARGEST_SUM / csr.nnz:
        rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
        sums = np.bincount(rows, csr.data.astype(np.float64) / csr.nnz)
        if sums.max() > _LARGEST_SUM / csr.nnz:
            raise InputError(
                f"The values of row {int(sums.argmax())} sum to more than {_LARGEST_SUM:g}; divide all "
                "fingerprints by a constant, which does not change the kernel."
            )
    return csr
