"""Kernels of folded fingerprints: unfolded rows are folded to fewer columns first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MAX_COUNT, MatrixLike, as_csr, row_slice
from daskrf.errors import InputError
from daskrf.kernels.kernel import Kernel, KernelState, Prepared, as_integer, from_state
from daskrf.kernels.tanimoto import TanimotoMinMax
from daskrf.seeds import splitmix64

UNFOLDED = 2**32
"""Columns of a kind of fingerprint that is not folded."""

MAX_SIZE = 2**31 - 1

_ROWS = 4_096  # rows folded at a time


class Folded(Kernel):
    """k(f(x), f(y)) of a kernel k, where f folds the columns of unfolded fingerprints; see `folded_rows`.

    Parameters
    ----------
    inner : Kernel, default TanimotoMinMax()
        k.
    size : int, default 2048
        Number of columns that each kind of fingerprint is folded to.
    hashed : sequence of int, default ()
        As in `folded_rows`.
    binary : bool, default False
        As in `folded_rows`.

    Raises
    ------
    InputError
        If a parameter is impossible; when called, if the rows are not unfolded fingerprints.

    Examples
    --------
    >>> x, y = sp.csr_matrix((2, 2**32)), sp.csr_matrix((1, 2**32))
    >>> x[0, 5], x[1, 9], y[0, 2**31 + 1] = 1, 1, 1
    >>> Folded(TanimotoMinMax(), 4)(x, y).tolist()
    [[1.0], [1.0]]
    """

    name: ClassVar[str] = ""

    def __init__(
        self,
        inner: Kernel | KernelState = TanimotoMinMax(),  # noqa: B008, kernels are immutable
        size: int = 2048,
        hashed: Sequence[int] = (),
        binary: bool = False,
    ) -> None:
        self.inner = from_state(inner) if isinstance(inner, dict) else inner
        if not isinstance(self.inner, Kernel):
            raise InputError(f"inner must be a kernel of daskrf.kernels, not {inner!r}.")
        self.size, self.hashed, self.binary = check_size(size), tuple(map(int, hashed)), bool(binary)

    def words(self) -> str:
        return f"{self.inner.words()} of fingerprints folded to {self.size:,} columns a kind"

    def rows(self, X: MatrixLike) -> sp.csr_matrix:
        """Return the folded rows of `X`."""
        return folded_rows(X, self.size, self.hashed, self.binary)

    @property
    def positive_rows(self) -> bool:
        return self.inner.positive_rows

    def against(self, Y: MatrixLike) -> Prepared:
        return self._of(self.inner.against(self.rows(Y)))

    def against_single(self, Y: MatrixLike) -> Prepared:
        return self._of(self.inner.against_single(self.rows(Y)))

    def _of(self, values: Prepared) -> Prepared:
        def folded(X: MatrixLike, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[np.floating]:
            return values(self.rows(X), dtype=dtype)

        return folded

    @property
    def has_unit_diagonal(self) -> bool:
        """Whether k(x, x) = 1 for every row: if it is for the inner kernel."""
        return self.inner.has_unit_diagonal

    def diag(self, X: MatrixLike) -> npt.NDArray[np.float64]:
        return self.inner.diag(self.rows(X))


def folded_columns(n_columns: int, size: int) -> int:
    """Return the number of columns of folded rows.

    Raises
    ------
    InputError
        If `n_columns` is not that of unfolded fingerprints.

    Examples
    --------
    >>> folded_columns(2 * 2**32, 1024)
    2048
    """
    kinds, rest = divmod(n_columns, UNFOLDED)
    if rest or not kinds:
        raise InputError(
            f"The rows have {n_columns:,} columns, but only unfolded fingerprints, with {UNFOLDED:,} columns "
            "per kind, can be folded; use such fingerprints, or leave out the fold."
        )
    return kinds * size


def folded_rows(X: MatrixLike, size: int, hashed: Sequence[int] = (), binary: bool = False) -> sp.csr_matrix:
    """Return unfolded fingerprints, folded: identifier i of a kind is counted in column i modulo `size`.

    Each kind has its own columns. Counts in the same column add up; integers above 65,535 become 65,535. For
    Morgan environments, paths and LINGOs the result is identical to ``FingerprintSpec(size=size)``. RDKit
    folds atom pairs and torsions by other hashes, of numbers that unfolded fingerprints do not contain.

    Parameters
    ----------
    X : sparse or dense array, shape (n, K 2**32)
        Fingerprints of K kinds side by side.
    size : int
        Columns of a folded kind.
    hashed : sequence of int
        Positions, from 0, of kinds whose identifiers are not hashes: LINGOs and atom pairs. Their identifiers
        are hashed first (the upper half of SplitMix64).
    binary : bool
        Whether all values are 0 or 1, both unfolded and folded.

    Returns
    -------
    CSR matrix, shape (n, K size)
        uint16 counts, or float64 if the values of `X` are floats; int32 indices if they suffice.

    Raises
    ------
    InputError
        If `X` does not have 2**32 columns for each kind.

    Examples
    --------
    >>> X = sp.csr_matrix(([1, 2, 4], ([0, 0, 0], [3, 7, 2**32 + 9])), shape=(1, 2 * 2**32))
    >>> folded_rows(X, 4).toarray().tolist()
    [[0, 0, 0, 3, 0, 4, 0, 0]]
    """
    rows = as_csr(X)
    n, n_columns = rows.shape[0], folded_columns(rows.shape[1], size)
    parts = [
        _folded(row_slice(rows, start, min(start + _ROWS, n)), n_columns, size, hashed, binary)
        for start in range(0, max(1, n), _ROWS)
    ]
    return parts[0] if len(parts) == 1 else sp.vstack(parts, format="csr")


def _folded(
    rows: sp.csr_matrix, n_columns: int, size: int, hashed: Sequence[int], binary: bool
) -> sp.csr_matrix:
    ids = rows.indices.astype(np.uint64)
    kind = ids >> np.uint64(32)
    ids &= np.uint64(UNFOLDED - 1)
    if len(hashed):
        mask = np.isin(kind, np.array(hashed, np.uint64))
        ids[mask] = splitmix64(ids[mask]) >> np.uint64(32)
    ids %= np.uint64(size)
    ids += kind * np.uint64(size)
    counts = rows.dtype.kind in "ui"
    small = max(n_columns, rows.nnz) < 2**31
    index_type = np.int32 if small else np.int64
    folded = sp.csr_matrix((rows.shape[0], n_columns), dtype=np.int64 if counts else np.float64)
    folded.data = rows.data.astype(folded.dtype)
    folded.indices, folded.indptr = ids.astype(index_type), rows.indptr.astype(index_type)
    folded.has_canonical_format = False
    folded.sum_duplicates()
    if binary:
        folded.data = np.minimum(folded.data, 1)
    if counts:
        folded.data = np.minimum(folded.data, MAX_COUNT).astype(np.uint16)
    return folded


def check_size(size: int) -> int:
    """Return the number of columns that a kind is folded to, or raise InputError if it is impossible."""
    return as_integer("size", size, 1, MAX_SIZE)
