"""Choosing landmarks among distinct rows, by the kernel alone or as means of clusters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import as_csr
from daskrf.kernels import DotProduct, Kernel

Rows = npt.NDArray[np.intp]

_ROUNDS = 10  # of clustering; for molecules no medoid moves after about five
_LARGEST_CLUSTER = 512  # most members to choose a medoid from


def distinct_rows(csr: sp.csr_matrix, order: Rows, limit: int | None = None) -> Rows:
    """Return at most `limit` entries of `order`, in that order, leaving out repeats of earlier rows."""
    seen: set[bytes] = set()
    chosen: list[int] = []
    for row in order:
        if len(chosen) == limit:
            break
        entries = slice(csr.indptr[row], csr.indptr[row + 1])
        indices = csr.indices[entries].astype(np.int64, copy=False)
        key = indices.tobytes() + csr.data[entries].astype(np.float64).tobytes()
        if key not in seen:
            seen.add(key)
            chosen.append(int(row))
    return np.array(chosen, dtype=np.intp)


def first(candidates: sp.csr_matrix, n: int, kernel: Kernel) -> sp.csr_matrix:
    """Return the first `n` rows; the candidates are already in random order."""
    return candidates[:n]


def farthest(candidates: sp.csr_matrix, n: int, kernel: Kernel) -> sp.csr_matrix:
    """Return `n` rows, each the farthest from those before it in the metric of the kernel.

    The first row is the first candidate. Costs n rows of the kernel matrix (Gonzalez 1985).
    """
    against = kernel.against(candidates)
    excess = _excess(kernel, candidates)
    chosen = farthest_points(
        lambda i: against(candidates[i])[0] - excess - excess[i], np.full(candidates.shape[0], -np.inf), n
    )
    return candidates[chosen]


def farthest_points(
    similarities: Callable[[int], npt.NDArray[np.float64]],
    nearest: npt.NDArray[np.float64],
    n: int,
    enough: float = np.inf,
) -> Rows:
    """Return up to `n` points, each the least similar to its nearest among those before it (Gonzalez 1985).

    Parameters
    ----------
    similarities : function of a point's number
        Returns the similarities of a point, given by its number, to all points.
    nearest : float64 array
        Similarity of each point to the nearest existing point, -inf if there is none. It is overwritten.
    n : int
    enough : float
        Stop when every point is more similar than this to some existing point.
    """
    chosen: list[int] = []
    while len(chosen) < n:
        point = int(np.argmin(nearest))
        if nearest[point] > enough:
            break
        chosen.append(point)
        np.maximum(nearest, similarities(point), out=nearest)
        nearest[point] = np.inf
    return np.array(chosen, dtype=np.intp)


def kmedoids(candidates: sp.csr_matrix, n: int, kernel: Kernel) -> sp.csr_matrix:
    """Return the medoids of `n` clusters of the candidates, in their order.

    Starting from the first `n` candidates, every candidate goes to its nearest medoid in the metric of the
    kernel, and the new medoid of a cluster is the member nearest to all members (Park & Jun 2009).
    """
    medoids = np.arange(n)
    excess = _excess(kernel, candidates)
    for _ in range(_ROUNDS):
        labels = _nearest(candidates, candidates[medoids], kernel, excess[medoids])
        labels[medoids] = np.arange(n)  # even if another medoid is as near
        moved = _medoids(candidates, medoids, labels, kernel, excess)
        if np.array_equal(moved, medoids):
            break
        medoids = moved
    return candidates[np.sort(medoids)]


def kmeans(candidates: sp.csr_matrix, n: int, kernel: Kernel) -> sp.csr_matrix:
    """Return the means of `n` clusters of the candidates by Euclidean distance, whatever the kernel.

    Starting from the first `n` candidates, every candidate goes to its nearest mean, and every cluster takes
    the mean of its members (Lloyd 1982); a cluster without members keeps its mean. Means as landmarks: Zhang,
    Tsang & Kwok 2008.
    """
    columns, places = np.unique(candidates.indices, return_inverse=True)
    parts = candidates.data.astype(np.float64), places.ravel(), candidates.indptr
    narrow = sp.csr_matrix(parts, shape=(candidates.shape[0], max(1, columns.size)))
    means = narrow[:n]
    product = DotProduct()
    labels = np.full(candidates.shape[0], -1, dtype=np.intp)
    for _ in range(_ROUNDS):
        before = labels
        labels = _nearest(narrow, means, product, _excess(product, means))
        if np.array_equal(before, labels):
            break
        counts = np.bincount(labels, minlength=n)
        # The row of an empty cluster is its old mean, as a member with weight 1.
        weights = np.concatenate([1.0 / counts[labels], np.ones(np.count_nonzero(counts == 0))])
        members = np.concatenate([labels, np.flatnonzero(counts == 0)])
        shares = sp.csr_matrix((weights, (members, np.arange(members.size))), shape=(n, members.size))
        means = as_csr(shares @ sp.vstack([narrow, means[counts == 0]], format="csr"))
    return as_csr(
        sp.csr_matrix((means.data, columns[means.indices], means.indptr), shape=(n, candidates.shape[1]))
    )


SELECTIONS: dict[str, Callable[[sp.csr_matrix, int, Kernel], sp.csr_matrix]] = {
    "random": first,
    "kmedoids": kmedoids,
    "kmeans": kmeans,
    "farthest": farthest,
}


def _excess(kernel: Kernel, rows: sp.csr_matrix) -> npt.NDArray[np.float64]:
    """Return (k(x, x) - 1) / 2 of each row: k minus this for both rows is 1 minus half a squared distance.

    It is exactly 0 if k(x, x) = 1.
    """
    return (kernel.diag(rows) - 1.0) / 2.0


def _nearest(
    candidates: sp.csr_matrix, centres: sp.csr_matrix, kernel: Kernel, excess: npt.NDArray[np.float64]
) -> Rows:
    """Return the number of the centre nearest to each row, the first of equals."""
    labels = np.empty(candidates.shape[0], dtype=np.intp)
    for rows, similarities in kernel.blocks(candidates, centres):
        similarities -= excess
        labels[rows] = np.argmax(similarities, axis=1)
    return labels


def _medoids(
    candidates: sp.csr_matrix,
    medoids: Rows,
    labels: Rows,
    kernel: Kernel,
    excess: npt.NDArray[np.float64],
) -> Rows:
    moved = medoids.copy()
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(len(medoids) + 1))
    for cluster in range(len(medoids)):
        members = order[ends[cluster] : ends[cluster + 1]][:_LARGEST_CLUSTER]
        if len(members) > 2:
            sums = kernel(candidates[members]).sum(axis=1) - len(members) * excess[members]
            moved[cluster] = members[int(np.argmax(sums))]
    return moved
