"""Centroids of rows in the Euclidean distance: farthest points, k-means, or random rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf import seeds
from daskrf.arrays import squared_norms
from daskrf.features.sketches.selection import distinct_rows, farthest_points
from daskrf.features.sketches.variances import on_own_columns

CANDIDATES = 10_000
"""Most random rows that centroids are chosen from."""

MOST_COLUMNS = 4096
"""Most columns that distances count: those with the largest values. It keeps the state of a map small."""

_ENTRIES = 1 << 22  # numbers in the dense array of candidates: 32 MiB, and again for differences
_ROUNDS = 50  # of k-means

Array = npt.NDArray[np.float64]


def choose_centroids(
    csr: sp.csr_matrix, mean: sp.csr_matrix, n: int, selection: str, threshold: float, seed: int
) -> sp.csr_matrix:
    """Return up to `n` centroids of the rows, float64 CSR of shape (c, d).

    Parameters
    ----------
    csr : CSR matrix of float64, shape (n_rows, d)
        At least one row. Centroids are chosen from at most 10,000 random rows (fewer if there are more than
        400 columns), and have at most 4,096 columns.
    mean : CSR matrix of float64, shape (1, d)
        The only centroid for ``n = 1``, and the first for "farthest".
    n : int
        If there are fewer distinct candidates, there are fewer centroids.
    selection : a key of `CENTROIDS`
        farthest: the mean, then repeatedly the row farthest from all centroids so far (Gonzalez 1985),
        the first of equals. kmeans: means of clusters (Lloyd), starting from random rows. random: random
        rows.
    threshold : float
        Farthest points closer than this distance are not added.
    seed : int

    Examples
    --------
    >>> rows = sp.csr_matrix([[-3.0], [-1.0], [4.0]])
    >>> choose_centroids(rows, sp.csr_matrix([[0.0]]), 9, "farthest", 2.0, 0).toarray().ravel().tolist()
    [0.0, 4.0, -3.0]
    """
    if n == 1:
        return mean
    order = np.argsort(seeds.words(seed, "local/candidates", csr.shape[0]), kind="stable")
    columns = _columns(csr, mean)
    most = min(CANDIDATES, max(n, _ENTRIES // max(1, columns.size)))
    rows = _dense(csr[order[:most]], columns)
    points = CENTROIDS[selection](rows, _dense(mean, columns)[0], n, threshold)
    places = np.flatnonzero(points)
    pointer = np.concatenate([[0], np.cumsum((points != 0.0).sum(axis=1))])
    parts = points.ravel()[places], columns[places % max(1, columns.size)], pointer
    centroids = sp.csr_matrix(parts, shape=(len(points), csr.shape[1]))
    return sp.vstack([mean, centroids], format="csr") if selection == "farthest" else centroids


def nearest_centroids(csr: sp.csr_matrix, centroids: sp.csr_matrix) -> npt.NDArray[np.intp]:
    """Return the number of the centroid nearest to each row, the first of equals."""
    csr, centroids = on_own_columns(csr, centroids)
    squares = np.asarray(centroids.multiply(centroids).sum(axis=1)).ravel()
    return np.argmin(squares - 2.0 * (csr @ centroids.T).toarray(), axis=1)


def squared_distances(csr: sp.csr_matrix, centroids: sp.csr_matrix) -> Array:
    """Return |x - c|^2 of rows and centroids, shape (n, C), up to rounding; NaN where it overflows.

    The centroids become a dense array over all columns that they use.
    """
    columns = np.unique(centroids.indices)
    table = _dense(centroids, columns)
    places = np.minimum(np.searchsorted(columns, csr.indices), max(0, columns.size - 1))
    data = csr.data.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        distances = np.einsum("ij,ij->i", table, table) + squared_norms(csr.indptr, data)[:, None]
        if columns.size:
            shared = np.where(columns[places] == csr.indices, data, 0.0)
            rows = sp.csr_matrix((shared, places, csr.indptr), shape=(csr.shape[0], columns.size))
            distances -= 2.0 * (rows @ table.T)
    return distances


def _columns(csr: sp.csr_matrix, mean: sp.csr_matrix) -> npt.NDArray[np.int64]:
    """Return the columns that are not all zero, ascending; of many, those with the largest values."""
    entries = np.concatenate([csr.indices, mean.indices])
    columns, places = np.unique(entries, return_inverse=True)
    if columns.size > MOST_COLUMNS:
        sums = np.bincount(places.ravel(), np.abs(np.concatenate([csr.data, mean.data])))
        columns = columns[np.sort(np.argsort(-sums, kind="stable")[:MOST_COLUMNS])]
    return columns.astype(np.int64)


def _dense(csr: sp.csr_matrix, columns: npt.NDArray[np.int64]) -> Array:
    """Return some columns of all rows; SciPy's own selection would count up to the last of 2^32 columns."""
    dense = np.zeros((csr.shape[0], columns.size))
    if columns.size:
        places = np.minimum(np.searchsorted(columns, csr.indices), columns.size - 1)
        selected = columns[places] == csr.indices
        row_of = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
        dense[row_of[selected], places[selected]] = csr.data[selected]
    return dense


def _squared_distances(rows: Array, centroid: Array) -> Array:
    difference = rows - centroid
    return np.einsum("ij,ij->i", difference, difference)


def _farthest(rows: Array, mean: Array, n: int, threshold: float) -> Array:
    enough = -max(threshold * threshold, math.ulp(0.0))  # a row that is a centroid already is none again
    nearest = -_squared_distances(rows, mean)
    chosen = farthest_points(lambda i: -_squared_distances(rows, rows[i]), nearest, n - 1, enough)
    return rows[chosen]


def _kmeans(rows: Array, mean: Array, n: int, threshold: float) -> Array:
    centroids = _random(rows, mean, n, threshold)
    labels = np.full(len(rows), -1)
    for _ in range(_ROUNDS):
        distances = np.stack([_squared_distances(rows, centroid) for centroid in centroids])
        before, labels = labels, np.argmin(distances, axis=0)
        if np.array_equal(before, labels):
            break
        for label in np.unique(labels):  # a centroid without rows stays where it is
            centroids[label] = rows[labels == label].mean(axis=0)
    return centroids


def _random(rows: Array, mean: Array, n: int, threshold: float) -> Array:
    return rows[distinct_rows(sp.csr_matrix(rows), np.arange(len(rows)), n)]


CENTROIDS: dict[str, Callable[[Array, Array, int, float], Array]] = {
    "farthest": _farthest,
    "kmeans": _kmeans,
    "random": _random,
}
