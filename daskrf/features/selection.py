"""How landmarks are chosen among distinct rows, by the kernel alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.kernels import Kernel

__all__ = ["SELECTIONS", "distinct_rows", "farthest", "farthest_points", "kmedoids"]

Rows = npt.NDArray[np.intp]

_ROUNDS = 10  # of k-medoids; on molecules nothing moves after about five
_LARGEST_CLUSTER = 512  # members that a medoid is chosen among


def distinct_rows(csr: sp.csr_matrix, order: Rows, limit: int | None = None) -> Rows:
    """Return those of `order`, in that order, whose row is not one of an earlier one; at most `limit`."""
    seen: set[bytes] = set()
    kept: list[int] = []
    for row in order:
        if len(kept) == limit:
            break
        part = slice(csr.indptr[row], csr.indptr[row + 1])
        indices = csr.indices[part].astype(np.int64, copy=False)
        key = indices.tobytes() + csr.data[part].astype(np.float64).tobytes()
        if key not in seen:
            seen.add(key)
            kept.append(int(row))
    return np.array(kept, dtype=np.intp)


def first(candidates: sp.csr_matrix, n: int, kernel: Kernel) -> Rows:
    """Return the first `n` rows; the candidates are in random order already."""
    return np.arange(n)


def farthest(candidates: sp.csr_matrix, n: int, kernel: Kernel) -> Rows:
    """Return `n` rows, each the farthest from those before it: the one least similar to its nearest.

    The first row is the first candidate. Costs n rows of the kernel matrix (Gonzalez 1985).
    """
    against = kernel.against(candidates)
    return farthest_points(lambda i: against(candidates[i])[0], np.full(candidates.shape[0], -np.inf), n)


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
        Its similarities to all points.
    nearest : float64 array
        Similarity of each point to the nearest of what there is already, -inf where there is nothing; it is
        overwritten.
    n : int
    enough : float
        End where every point is more similar than this to one that there is.
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


def kmedoids(candidates: sp.csr_matrix, n: int, kernel: Kernel) -> Rows:
    """Return the medoids of `n` clusters of the candidates, in ascending order.

    From the first `n` candidates on, every candidate goes to its most similar medoid, and every cluster
    takes the member as its medoid that is most similar to all members (Park & Jun 2009).
    """
    medoids = np.arange(n)
    for _ in range(_ROUNDS):
        labels = _nearest(candidates, medoids, kernel)
        labels[medoids] = np.arange(n)  # whatever else is as near
        moved = _medoids(candidates, medoids, labels, kernel)
        if np.array_equal(moved, medoids):
            break
        medoids = moved
    return np.sort(medoids)


SELECTIONS: dict[str, Callable[[sp.csr_matrix, int, Kernel], Rows]] = {
    "random": first,
    "kmedoids": kmedoids,
    "farthest": farthest,
}


def _nearest(candidates: sp.csr_matrix, medoids: Rows, kernel: Kernel) -> Rows:
    labels = np.empty(candidates.shape[0], dtype=np.intp)
    for rows, similarities in kernel.blocks(candidates, candidates[medoids]):
        labels[rows] = np.argmax(similarities, axis=1)
    return labels


def _medoids(candidates: sp.csr_matrix, medoids: Rows, labels: Rows, kernel: Kernel) -> Rows:
    moved = medoids.copy()
    order = np.argsort(labels, kind="stable")
    ends = np.searchsorted(labels[order], np.arange(len(medoids) + 1))
    for cluster in range(len(medoids)):
        members = order[ends[cluster] : ends[cluster + 1]][:_LARGEST_CLUSTER]
        if len(members) > 2:
            sums = kernel(candidates[members]).sum(axis=1)
            best = members[int(np.argmax(sums))]
            moved[cluster] = best
    return moved
