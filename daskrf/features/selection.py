"""How landmarks are chosen among distinct rows, by the kernel alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.kernels import Kernel

__all__ = ["SELECTIONS", "distinct_rows", "farthest", "kmedoids"]

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
    chosen = np.zeros(n, dtype=np.intp)
    nearest = np.full(candidates.shape[0], -np.inf)
    for i in range(1, n):
        np.maximum(nearest, against(candidates[chosen[i - 1]])[0], out=nearest)
        nearest[chosen[i - 1]] = np.inf
        chosen[i] = int(np.argmin(nearest))
    return chosen


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
