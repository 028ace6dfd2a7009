"""Improving several targets at once: the hypervolume that a batch is expected to add to what is measured.

A point dominates another if it is at least as good in every target. The hypervolume of some points is the
volume of what they dominate above a reference point. A batch is chosen one by one, each pick the one that
adds most, averaged over joint posterior samples of the targets at all candidates (Emmerich, Giannakoglou &
Naujoks 2006; for batches by samples Daulton, Balandat & Bakshy 2020, Differentiable expected hypervolume
improvement). The hypervolume is submodular: the gain of a candidate never grows with further picks. So only
the candidates whose last computed gain is among the largest are evaluated again, without changing the choice.
"""

from __future__ import annotations

import copy

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.acquisition.rule import Array

_CHUNK = 64  # candidates that are evaluated again together
_ENTRIES = 4_000_000  # numbers of candidates times boxes at a time
_BELOW = 0.1  # times the extent of the front: how far the reference point lies below it


class Undominated:
    """The region above a reference point that is not dominated, as disjoint boxes; larger values are better.

    Parameters
    ----------
    reference : float array, shape (d,)

    Attributes
    ----------
    low, high : float64 arrays, shape (n_boxes, d)

    Examples
    --------
    >>> left = Undominated(np.zeros(2))
    >>> left.add(np.array([2.0, 1.0]))
    >>> left.improvement(np.array([[1.0, 2.0], [1.0, 1.0], [3.0, 3.0]])).tolist()
    [1.0, 0.0, 7.0]
    """

    def __init__(self, reference: Array) -> None:
        self.low = np.array([reference], dtype=np.float64)
        self.high = np.full_like(self.low, np.inf)

    def add(self, point: Array) -> None:
        """Remove the region that a point dominates."""
        touched = (self.low < point).all(axis=1)
        if not touched.any():
            return
        low, high = self.low[touched], self.high[touched]
        below = np.minimum(high, point)
        lows, highs = [self.low[~touched]], [self.high[~touched]]
        for i in range(len(point)):  # the rest of a box: above the point in i, below it in all before
            there = high[:, i] > point[i]
            own_low, own_high = low[there], high[there]
            own_high[:, :i] = below[there, :i]
            own_low[:, i] = point[i]
            lows.append(own_low)
            highs.append(own_high)
        self.low, self.high = np.concatenate(lows), np.concatenate(highs)

    def improvement(self, points: Array) -> Array:
        """Return by how much each point would raise the hypervolume, float64 of shape (m,)."""
        gains = np.empty(len(points))
        step = max(1, _ENTRIES // max(1, self.low.size))
        for start in range(0, len(points), step):
            volumes = np.ones((len(points[start : start + step]), len(self.low)))
            for i, values in enumerate(points[start : start + step].T):
                volumes *= np.maximum(np.minimum(values[:, None], self.high[:, i]) - self.low[:, i], 0.0)
            gains[start : start + step] = volumes.sum(axis=1)
        return gains


class HypervolumeGain:
    """The hypervolume that each candidate is expected to add, given the picks so far.

    Parameters
    ----------
    draws : float array, shape (n_draws, m, d)
        Joint posterior samples of the targets at the candidates; larger is better.
    measured : float array, shape (n, d)
        Values that have been measured.
    reference : float array, shape (d,)
    weights : float array, shape (m,), optional
        Probabilities that multiply the gain of each candidate.

    Examples
    --------
    >>> draws = np.array([[[3.0, 1.0], [3.0, 0.9], [1.0, 2.0]]])
    >>> gain = HypervolumeGain(draws, np.array([[1.0, 1.0]]), np.zeros(2))
    >>> gain.gains.round(2).tolist()
    [2.0, 1.8, 1.0]
    >>> gain.take(0)
    >>> gain.best(np.array([False, True, True])), gain.gains.round(2).tolist()
    (2, [2.0, 0.0, 1.0])
    """

    def __init__(self, draws: Array, measured: Array, reference: Array, weights: Array | None = None) -> None:
        self.draws, self.weights = draws, np.ones(draws.shape[1]) if weights is None else weights
        undominated = Undominated(reference)
        for point in measured[on_front(measured)]:
            undominated.add(point)
        self._measured = undominated
        self._left = [copy.copy(undominated) for _ in draws]
        self.gains = self._gains(np.arange(draws.shape[1]))
        self._first = self.gains.copy()
        self._fresh = np.ones(len(self.gains), bool)

    def forget(self) -> None:
        """Forget all picks and keep the measured points."""
        self._left = [copy.copy(self._measured) for _ in self.draws]
        self.gains = self._first.copy()
        self._fresh[:] = True

    def _gains(self, some: npt.NDArray[np.intp]) -> Array:
        sums = sum(
            left.improvement(sample[some]) for left, sample in zip(self._left, self.draws, strict=True)
        )
        return np.asarray(self.weights[some] * sums / len(self.draws))

    def best(self, free: npt.NDArray[np.bool_]) -> int:
        """Return the free candidate that adds most; of equal ones, the first."""
        places = np.flatnonzero(free)
        while True:
            order = places[np.argsort(-self.gains[places], kind="stable")]
            if self._fresh[order[0]]:
                return int(order[0])
            stale = order[:_CHUNK][~self._fresh[order[:_CHUNK]]]
            self.gains[stale] = self._gains(stale)
            self._fresh[stale] = True

    def take(self, pick: int) -> None:
        """Count a pick as measured, at its value in each posterior sample."""
        for left, sample in zip(self._left, self.draws, strict=True):
            left.add(sample[pick])
        self._fresh[:] = False


def on_front(points: npt.ArrayLike, others: npt.ArrayLike | None = None) -> npt.NDArray[np.bool_]:
    """Return whether each point is undominated by the other points and by `others`; equals do not dominate.

    Examples
    --------
    >>> on_front([[2.0, 1.0], [1.0, 2.0], [1.0, 1.0], [2.0, 1.0]]).tolist()
    [True, True, False, True]
    """
    array = np.asarray(points, dtype=np.float64)
    all_ = (
        array if others is None else np.concatenate([array, np.asarray(others).reshape(-1, array.shape[1])])
    )
    mask = np.empty(len(array), bool)
    for i, point in enumerate(array):
        mask[i] = not ((all_ >= point).all(axis=1) & (all_ > point).any(axis=1)).any()
    return mask


def reference_point(measured: Array) -> Array:
    """Return a reference point a little below the worst values on the measured front.

    It is lower by a tenth of the extent of the front (or of all points, if the front has no extent), so the
    ends of the front count too (Ishibuchi et al. 2018, How to specify a reference point in hypervolume
    calculation).

    Examples
    --------
    >>> reference_point(np.array([[9.0, 1.0], [4.0, 2.0], [0.0, 0.0]])).tolist()
    [3.5, 0.9]
    """
    front = measured[on_front(measured)]
    extent = np.ptp(front, axis=0)
    extent = np.where(extent > 0, extent, np.ptp(measured, axis=0))
    return np.asarray(front.min(axis=0) - _BELOW * extent)


def directions(n: int, d: int) -> Array:
    """Return n directions in which to look for good points, positive unit vectors of d numbers, shape (n, d).

    Examples
    --------
    >>> np.linalg.norm(directions(3, 2), axis=1).round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    if d == 2:
        angles = np.pi / 2 * (np.arange(n) + 0.5) / n
        return np.column_stack([np.cos(angles), np.sin(angles)])
    vectors = np.abs(seeds.generator(0, "acquisition/directions").standard_normal((n, d)))
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def scalarized(values: Array, ways: Array) -> Array:
    """Return how far each point reaches in each direction: the smallest ratio of their components.

    The mean over all directions of the d-th power is the hypervolume, up to a factor: it depends most on the
    points that reach farthest in many directions (Golovin & Zhang 2020, Random hypervolume
    scalarizations for provable multi-objective black box optimization, ICML).

    Parameters
    ----------
    values : float64 array, shape (n, d)
        Above the reference point, in units in which all targets count alike.
    ways : float64 array, shape (k, d)

    Returns
    -------
    float64 array, shape (n, k)

    Examples
    --------
    >>> scalarized(np.array([[1.0, 3.0], [2.0, 2.0]]), np.array([[0.5, 0.5], [0.1, 0.9]])).round(2).tolist()
    [[2.0, 3.33], [4.0, 2.22]]
    """
    reach = np.full((len(values), len(ways)), np.inf)
    for target, way in zip(values.T, ways.T, strict=True):
        reach = np.minimum(reach, target[:, None] / way)
    return reach
