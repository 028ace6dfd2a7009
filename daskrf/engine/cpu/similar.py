"""Pairs of sparse count vectors whose sum is similar to a query, without visiting the other pairs.

The sum of minima of a + b and the query is at most that of a plus that of b. The second vectors are sorted
by this share, and then by their totals: those that may reach a Tanimoto similarity with a given a are the
beginning of each run of equal shares.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from daskrf.engine import Query, Shares
from daskrf.engine.cpu.jit import jit

Array = npt.NDArray[np.number]

_SLACK = 1e-6  # of a sum of minima, which is an integer


@jit
def _runs(shared: Array) -> Array:
    """Return the first position of each run of equal values, and the number of values."""
    starts = np.empty(shared.size + 1, np.int64)
    n = 0
    for i in range(shared.size):
        if i == 0 or shared[i] != shared[i - 1]:
            starts[n] = i
            n += 1
    starts[n] = shared.size
    return starts[: n + 1]


@jit
def _end(totals: Array, start: int, stop: int, most: float) -> int:
    """Return the first position whose total is above `most`, of ascending totals."""
    while start < stop:
        middle = (start + stop) >> 1
        if totals[middle] <= most:
            start = middle + 1
        else:
            stop = middle
    return start


@jit
def _within(one: Array, other: Array, low: Array, high: Array) -> bool:
    for column in range(low.size):
        total = one[column] + other[column]
        if not (low[column] <= total <= high[column]):
            return False
    return True


@jit
def _similar_pairs(ones: Shares, others: Shares, query: Query, first: int, out: Array) -> tuple[int, int]:
    starts = _runs(others.shared)
    fewest = others.totals.min() if others.totals.size else 0
    fraction = query.least / (1.0 + query.least)  # of both totals, which the minima must reach
    n_pairs = 0
    for i in range(first, ones.shared.size):
        if n_pairs + others.shared.size > out.shape[0]:
            return n_pairs, i
        one, total = ones.counts[i], ones.totals[i] + query.total
        for run in range(starts.size - 1):
            start, stop = starts[run], starts[run + 1]
            bound = min(ones.shared[i] + others.shared[start], query.total)
            if bound + _SLACK < fraction * (total + fewest):
                break  # shares descend, so the other runs are no better
            if fraction > 0.0:
                stop = _end(others.totals, start, stop, (bound + _SLACK) / fraction - total)
            for j in range(start, stop):
                other, minima = others.counts[j], 0
                for column in range(query.counts.size):
                    minima += min(one[column] + other[column], query.counts[column])
                if minima + _SLACK < fraction * (total + others.totals[j]):
                    continue
                if _within(ones.sums[i], others.sums[j], query.low, query.high):
                    out[n_pairs, 0], out[n_pairs, 1], out[n_pairs, 2] = i, j, minima
                    n_pairs += 1
    return n_pairs, ones.shared.size


def similar_pairs(
    ones: Shares, others: Shares, query: Query, first: int, out: npt.NDArray[np.int64]
) -> tuple[int, int]:
    """List pairs whose sum is similar to a query; see `Engine`."""
    n_pairs, stop = _similar_pairs(ones, others, query, first, out)
    return int(n_pairs), int(stop)
