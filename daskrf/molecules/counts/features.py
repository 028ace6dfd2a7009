"""Features of molecules, a row each, and how such rows are put together and arranged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Features = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.int64]]
"""Pointer, identifiers and counts, as in a CSR matrix."""

NOTHING: Features = (np.zeros(1, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.int64))
"""The features of no molecules."""


def joined(several: Sequence[Features]) -> Features:
    """Return the rows of several sets of features, one set after another.

    Examples
    --------
    >>> one = (np.array([0, 2]), np.array([3, 5], np.uint64), np.array([1, 1]))
    >>> [array.tolist() for array in joined([one, NOTHING, one])]
    [[0, 2, 4], [3, 5, 3, 5], [1, 1, 1, 1]]
    """
    several = [features for features in several if len(features[0]) > 1] or [NOTHING]
    if len(several) == 1:
        return several[0]
    sizes = np.concatenate([np.diff(pointer) for pointer, _, _ in several])
    identifiers = np.concatenate([identifiers for _, identifiers, _ in several])
    return (
        np.concatenate([[0], np.cumsum(sizes)]),
        identifiers,
        np.concatenate([counts for _, _, counts in several]),
    )


def in_order(order: npt.NDArray[np.int64], features: Features) -> Features:
    """Return rows of features in another order.

    Examples
    --------
    >>> both = (np.array([0, 2, 3]), np.array([3, 5, 9], np.uint64), np.array([1, 1, 7]))
    >>> [array.tolist() for array in in_order(np.array([1, 0]), both)]
    [[0, 1, 3], [9, 3, 5], [7, 1, 1]]
    """
    if (np.diff(order) > 0).all():
        return features
    pointer, identifiers, counts = features
    sizes = np.diff(pointer)[order]
    starts, pointer = pointer[:-1][order], np.concatenate([[0], np.cumsum(sizes)])
    places = np.arange(pointer[-1]) + np.repeat(starts - pointer[:-1], sizes)
    return pointer, identifiers[places], counts[places]


def side_by_side(kinds: Sequence[Features], width: int) -> Features:
    """Return the rows of several kinds of features side by side, each `width` columns wide.

    Examples
    --------
    >>> one = (np.array([0, 1]), np.array([3], np.uint64), np.array([2]))
    >>> [array.tolist() for array in side_by_side([one, one], 10)]
    [[0, 2], [3, 13], [2, 2]]
    """
    if len(kinds) == 1:
        return kinds[0]
    pointer = np.sum([indptr for indptr, _, _ in kinds], axis=0)
    identifiers, counts = np.empty(pointer[-1], np.uint64), np.empty(pointer[-1], np.int64)
    free = pointer[:-1].copy()  # where each row's next entry goes
    for number, (indptr, kind_identifiers, kind_counts) in enumerate(kinds):
        sizes = np.diff(indptr)
        places = np.arange(kind_identifiers.size) + np.repeat(free - indptr[:-1], sizes)
        identifiers[places], counts[places] = kind_identifiers + np.uint64(number * width), kind_counts
        free += sizes
    return pointer, identifiers, counts
