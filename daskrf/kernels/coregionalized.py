"""The kernel of several correlated functions, such as measured properties of the same molecules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MatrixLike, as_csr, column_slice
from daskrf.errors import InputError
from daskrf.kernels.kernel import Kernel, KernelState, Prepared, as_number, from_state
from daskrf.kernels.tanimoto import TanimotoMinMax

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]


class Coregionalized(Kernel):
    """k((x, s), (y, t)) = (L L^T)_st k(x, y): the covariance of targets s and t times a kernel of rows.

    The last column of a row holds the number of its target, from 1. So one molecule has a row for each of its
    labels, and targets may have labels of different molecules. Equal rows that follow one another share their
    values of k, whatever their targets.

    Parameters
    ----------
    inner : Kernel, default TanimotoMinMax()
        k.
    factor : sequence of sequence of float, default ((1.0,),)
        L, a row for each target, all of the same length.

    Raises
    ------
    InputError
        If a parameter is impossible; when called, if the last column holds anything but numbers of targets.

    Notes
    -----
    Source: Bonilla, Chai & Williams 2008, Multi-task Gaussian process prediction: the intrinsic model of
    coregionalization.

    Examples
    --------
    >>> kernel = Coregionalized(TanimotoMinMax(), [[1.0, 0.0], [0.6, 0.8]])
    >>> kernel([[2, 1, 1], [2, 1, 2], [1, 0, 2]]).round(2).tolist()
    [[1.0, 0.6, 0.2], [0.6, 1.0, 0.33], [0.2, 0.33, 1.0]]
    """

    name: ClassVar[str] = ""

    def __init__(
        self,
        inner: Kernel | KernelState = TanimotoMinMax(),  # noqa: B008, kernels are immutable
        factor: Sequence[Sequence[float]] = ((1.0,),),
    ) -> None:
        self.inner = from_state(inner) if isinstance(inner, dict) else inner
        if not isinstance(self.inner, Kernel):
            raise InputError(f"inner must be a kernel of daskrf.kernels, not {inner!r}.")
        self.factor = tuple(tuple(map(as_number, row)) for row in factor)
        if len({len(row) for row in self.factor}) != 1 or not np.isfinite(self.factor).all():
            raise InputError(f"factor must have a row of finite numbers for each target, not {factor!r}.")

    @property
    def n_targets(self) -> int:
        """Number of targets."""
        return len(self.factor)

    @property
    def covariance(self) -> Array:
        """L L^T, the covariances of the targets, float64 of shape (n_targets, n_targets)."""
        factor = np.array(self.factor)
        return np.asarray(factor @ factor.T)

    def words(self) -> str:
        return f"{self.inner.words()}, times the covariances of {self.n_targets} targets"

    def split(self, X: MatrixLike) -> tuple[sp.csr_matrix, Places]:
        """Return the rows without their last column, and the position of the target of each, from 0.

        Raises
        ------
        InputError
            If the last column of a row does not hold the number of a target.
        """
        rows = as_csr(X)
        n, width = rows.shape
        target = np.zeros(n)
        last = rows.indices == width - 1
        target[np.repeat(np.arange(n), np.diff(rows.indptr))[last]] = rows.data[last]
        wrong = ~np.isin(target, np.arange(1, self.n_targets + 1))
        if wrong.any():
            raise InputError(
                f"The last column of row {int(wrong.argmax())} must hold its target, a number from 1 to "
                f"{self.n_targets}, not {target[wrong][0]:g}."
            )
        return column_slice(rows, 0, width - 1), target.astype(np.intp) - 1

    @property
    def positive_rows(self) -> bool:
        return self.inner.positive_rows

    def against(self, Y: MatrixLike) -> Prepared:
        right, right_target = self.split(Y)
        first, right_place = runs(right)
        values, covariance = self.inner.against(right[first]), self.covariance

        def of(X: MatrixLike, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.floating]:
            rows, target = self.split(X)
            some, place = runs(rows)
            # A value is rounded once, after it has been multiplied.
            inner = values(rows[some])
            result = np.empty((len(target), len(right_target)), dtype)
            for s in np.unique(target).tolist():
                of_target = np.flatnonzero(target == s)
                share = covariance[s, right_target]
                result[of_target] = inner[place[of_target]][:, right_place] * share
            return result

        return of

    @property
    def has_unit_diagonal(self) -> bool:
        """Whether k(x, x) = 1 for every row: if it is for the inner kernel and the variances of targets."""
        return self.inner.has_unit_diagonal and bool((self.covariance.diagonal() == 1.0).all())

    def diag(self, X: MatrixLike) -> Array:
        rows, target = self.split(X)
        return np.asarray(self.inner.diag(rows) * self.covariance.diagonal()[target])


def with_target(X: MatrixLike, target: npt.ArrayLike) -> sp.csr_matrix:
    """Return rows with one more column that holds their target, for `Coregionalized`.

    Parameters
    ----------
    X : CSR or dense array, shape (n, d)
    target : int, or int array of shape (n,)
        Position of the target, from 0.

    Returns
    -------
    CSR matrix, shape (n, d + 1)

    Examples
    --------
    >>> with_target([[2, 0], [0, 3]], [0, 4]).toarray().tolist()
    [[2, 0, 1], [0, 3, 5]]
    """
    rows = as_csr(X)
    n, width = rows.shape
    ends = rows.indptr[1:].astype(np.int64)
    result = sp.csr_matrix((n, width + 1), dtype=rows.dtype)
    kind = np.int32 if max(width + 1, int(ends[-1]) + n if n else 0) < 2**31 else np.int64
    numbers = np.broadcast_to(np.asarray(target) + 1, n)
    # Assigned, because the constructor would read every index to find a smaller type for them.
    result.data = np.insert(rows.data, ends, numbers)
    result.indices = np.insert(rows.indices.astype(kind), ends, width)
    result.indptr = (rows.indptr + np.arange(n + 1)).astype(kind)
    result.has_canonical_format = True
    return result


def runs(rows: sp.csr_matrix) -> tuple[Places, Places]:
    """Return the first row of each run of equal rows of a canonical matrix, and the run of each row.

    Examples
    --------
    >>> first, run = runs(as_csr([[2, 1], [2, 1], [0, 0], [0, 0], [2, 1]]))
    >>> first.tolist(), run.tolist()
    ([0, 2, 4], [0, 0, 1, 1, 2])
    """
    n, lengths = rows.shape[0], np.diff(rows.indptr).astype(np.int64)
    new = np.ones(n, bool)
    new[1:] = lengths[1:] != lengths[:-1]
    same = np.flatnonzero(~new)  # as long as the row before, so entry i is compared with entry i - length
    entries = np.repeat(rows.indptr[same] - np.cumsum(lengths[same]) + lengths[same], lengths[same])
    entries = entries + np.arange(len(entries))
    before = entries - np.repeat(lengths[same], lengths[same])
    differ = (rows.indices[entries] != rows.indices[before]) | (rows.data[entries] != rows.data[before])
    new[np.repeat(same, lengths[same])[differ]] = True
    return np.flatnonzero(new), np.cumsum(new) - 1
