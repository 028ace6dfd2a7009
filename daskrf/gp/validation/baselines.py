"""Baselines to compare a Gaussian process with: nearest neighbour and random forest."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import Matrix, as_csr
from daskrf.blas import processors
from daskrf.errors import InputError
from daskrf.gp.sums.chunks import check_rows
from daskrf.kernels.tanimoto import TanimotoMinMax

Array = npt.NDArray[np.float64]

_TREES, _COLUMNS = 300, 0.1
_SAME = 1e-12  # a smaller difference of similarities is rounding


def nearest_neighbour(X: Matrix, y: npt.ArrayLike, X_new: Matrix) -> tuple[Array, Array]:
    """Return the label of the most similar row, and its Tanimoto (min-max) similarity, for each new row.

    If several rows are equally similar, the label is the mean of theirs.

    Parameters
    ----------
    X, X_new : CSR or dense array, shape (n, n_columns) and (m, n_columns)
        Fingerprints.
    y : array, shape (n,)

    Returns
    -------
    label, similarity : float64 arrays, shape (m,)

    Raises
    ------
    InputError
        If there is no row, or shapes do not match.

    Examples
    --------
    >>> label, similarity = nearest_neighbour([[2, 0], [0, 1]], [5.0, 7.0], [[1, 0], [0, 1]])
    >>> label.tolist(), similarity.tolist()
    ([5.0, 7.0], [0.5, 1.0])
    """
    kernel = TanimotoMinMax()
    X, X_new, y = check_rows(X, kernel), check_rows(X_new, kernel), np.asarray(y, dtype=np.float64)
    if y.shape != (X.shape[0],) or not len(y):
        raise InputError(
            f"X has {X.shape[0]} rows, but y has the shape {y.shape}: give one label for each row."
        )
    label, similarity = np.empty(X_new.shape[0]), np.empty(X_new.shape[0])
    for rows, block in kernel.blocks(X_new, X):
        similarity[rows] = block.max(axis=1)
        nearest = block >= similarity[rows][:, None] - _SAME
        label[rows] = (nearest @ y) / nearest.sum(axis=1)
    return label, similarity


def random_forest(X: Matrix, y: npt.ArrayLike, X_new: Matrix, *, random_state: int = 0) -> Array:
    """Return the predictions of scikit-learn's random forest of 300 trees, float64 of shape (m,).

    Each split chooses among a tenth of the columns, and a leaf has at least one row; the rest is
    scikit-learn's default.

    Parameters
    ----------
    X, X_new : CSR or dense array, shape (n, n_columns) and (m, n_columns)
    y : array, shape (n,)
    random_state : int

    Examples
    --------
    >>> random_forest([[0], [0], [9], [9]], [1.0, 1.0, 5.0, 5.0], [[0], [9]]).round().tolist()
    [1.0, 5.0]
    """
    from sklearn.ensemble import RandomForestRegressor  # large, and rarely needed

    forest = RandomForestRegressor(
        _TREES, max_features=_COLUMNS, n_jobs=processors(), random_state=random_state
    )
    X, X_new = as_csr(check_rows(X, TanimotoMinMax())), as_csr(check_rows(X_new, TanimotoMinMax()))
    seen = np.unique(X.indices)
    forest.fit(forest_columns(X, seen), np.asarray(y, dtype=np.float64))
    return forest.predict(forest_columns(X_new, seen))


def forest_columns(X: sp.csr_matrix, wanted: npt.NDArray[np.integer]) -> sp.csr_matrix:
    """Return some columns, ascending, as float32 with 32-bit indices; X may have 2^32 columns."""
    at = np.searchsorted(wanted, X.indices)
    there = wanted.take(at, mode="clip") == X.indices if len(wanted) else np.zeros(len(at), dtype=bool)
    ends = np.concatenate([[0], np.cumsum(there)])[X.indptr]
    parts = X.data[there].astype(np.float32), at[there].astype(np.int32), ends.astype(np.int32)
    return sp.csr_matrix(parts, shape=(X.shape[0], max(1, len(wanted))))
