"""Hypervolumes by inclusion and exclusion, and batches that look at every candidate anew for each pick."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np


def hypervolume(points: Sequence[Sequence[float]], reference: Sequence[float]) -> float:
    """Return the volume of the union of the boxes between the reference and each point."""
    total = 0.0
    for size in range(1, len(points) + 1):
        for some in itertools.combinations(points, size):
            lowest = np.min(some, axis=0)
            sides = [max(0.0, low - r) for low, r in zip(lowest, reference, strict=True)]
            total += (-1) ** (size + 1) * float(np.prod(sides))
    return total


def by_sampling(points: np.ndarray, reference: np.ndarray, n: int) -> float:
    """Return an estimate: the share of random points in the box of all that are dominated."""
    top = points.max(axis=0)
    if (top <= reference).any():
        return 0.0
    at = reference + np.random.default_rng(0).random((n, len(top))) * (top - reference)
    inside = (at[:, None] <= points).all(axis=2).any(axis=1)
    return float(inside.mean() * np.prod(top - reference))


def batch(
    draws: np.ndarray, known: Sequence[Sequence[float]], reference: Sequence[float], n: int
) -> list[int]:
    """Return the picks that add most on average over draws, one after the other."""
    picks: list[int] = []
    for _ in range(n):
        means = []
        for i in range(draws.shape[1]):
            if i in picks:
                means.append(-1.0)
                continue
            now = [[*known, *own[[*picks, i]].tolist()] for own in draws]
            means.append(float(np.mean([hypervolume(points, reference) for points in now])))
        picks.append(int(np.argmax(means)))
    return picks


def of_two(points: np.ndarray, reference: np.ndarray) -> float:
    """Return the hypervolume of two targets: strips below a staircase."""
    total, height = 0.0, reference[1]
    for x, y in sorted(points.tolist(), reverse=True):
        if x > reference[0] and y > height:
            total += (x - reference[0]) * (y - height)
            height = y
    return total
