"""How many features to give each degree of a truncated series, so that the kernel's error is smallest."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.features.sketches.variances import Moments, same_block_pairs

MOST_DEGREES = 64
"""Largest degree that is tried."""

Array = npt.NDArray[np.float64]


class AllocationState(TypedDict):
    """What `Allocation.state` returns."""

    n_explicit: int
    sizes: list[int]
    error: float
    bias: float


@dataclass(frozen=True)
class Allocation:
    """Features of each degree n = 1..p: all monomials for the first `n_explicit` degrees, then sketches.

    `error` is the mean squared error of the kernel predicted from the sample; `bias` is the truncation's part
    of it.
    """

    n_explicit: int
    sizes: tuple[int, ...]
    error: float
    bias: float

    @property
    def degree(self) -> int:
        """p."""
        return len(self.sizes)

    def state(self) -> AllocationState:
        """Return the fields, JSON-able."""
        return {
            "n_explicit": self.n_explicit,
            "sizes": list(self.sizes),
            "error": self.error,
            "bias": self.bias,
        }

    @classmethod
    def from_state(cls, state: AllocationState) -> Allocation:
        """Rebuild from `state`."""
        return cls(state["n_explicit"], tuple(state["sizes"]), state["error"], state["bias"])


class SeriesErrors:
    """Mean squared errors, over pairs of rows, of the parts of the Gaussian kernel's series.

    Parameters
    ----------
    moments : Moments
        Moments of pairs of centred rows, divided by the length scale.
    exponent : float64 array
        (|x|^2 + |y|^2) / 2 of each pair.
    method : "rademacher" or "tensorsrht"

    Attributes
    ----------
    sums : float64 array, shape (MOST_DEGREES + 1,)
        D times the variance of D features of degree n, not counting what features in one block share.
    shared : float64 array
        By how much c(D, d) / D^2 times this lowers the variance.
    bias : float64 array
        Squared error of the series truncated after degree p.
    """

    def __init__(self, moments: Moments, exponent: Array, method: str) -> None:
        self.width = moments.width
        self.sums, self.shared, self.bias = (np.zeros(MOST_DEGREES + 1) for _ in range(3))
        with np.errstate(divide="ignore"):
            logarithms = [np.log(np.abs(m)) for m in (moments.rademacher, moments.dot**2, moments.blocked)]
        negative = moments.blocked < 0.0
        kernel = np.exp(moments.dot - exponent)
        series = np.exp(-exponent)
        self.bias[0] = np.mean((kernel - series) ** 2)
        for n in range(1, MOST_DEGREES + 1):
            rest = 2.0 * (math.lgamma(n + 1) + exponent)
            moment, squared, blocked = (np.exp(n * logarithm - rest) for logarithm in logarithms)
            self.sums[n] = max(0.0, float(np.mean(moment - squared)))
            if method == "tensorsrht":
                signed = np.where(negative, -blocked, blocked) if n % 2 else blocked
                self.shared[n] = float(np.mean(squared - signed))
            term = np.sqrt(squared)
            series += np.where(moments.dot < 0.0, -term, term) if n % 2 else term
            self.bias[n] = np.mean((kernel - series) ** 2)

    def variance(self, n: int, size: int) -> float:
        """Return the mean variance of `size` features of degree `n`."""
        return float(self.variances(n, np.array([size]))[0])

    def variances(self, n: int, sizes: npt.NDArray[np.int64]) -> Array:
        """Return the mean variance of features of degree `n`, for each number of them."""
        variances = self.sums[n] / sizes
        if self.shared[n]:
            variances -= same_block_pairs(sizes, self.width) / np.square(sizes) * self.shared[n]
        return np.maximum(variances, 0.0)

    @property
    def convex(self) -> bool:
        """Whether variances are convex in the number of features: blocks share nothing."""
        return not self.shared.any()


def incremental(
    variance: Callable[[int, int], float], sums: Sequence[float], first: int, budget: int
) -> list[int]:
    """Return how many of `budget` features each degree first, first + 1, ... gets: at least one each.

    Features are given out one at a time, each to the degree whose variance it lowers most (the incremental
    algorithm). This is optimal if variances are convex in the number of features. It starts near the optimum
    over real numbers for variances sums[n] / D, which is in proportion to sqrt(sums[n]).

    Parameters
    ----------
    variance : function (degree, size) -> float
    sums : sequence of float
        One value for each degree, starting with `first`.
    first, budget : int

    Examples
    --------
    >>> incremental(lambda n, size: [4.0, 1.0][n - 1] / size, [4.0, 1.0], 1, 10)
    [7, 3]
    """
    roots = np.sqrt(np.array(sums, dtype=np.float64))
    shares = budget * roots / max(float(roots.sum()), 1e-300)
    sizes = [max(1, int(share) - 2) for share in shares]
    while sum(sizes) > budget:  # nearly as many degrees as features
        sizes[int(np.argmax(sizes))] -= 1
    # Ties go to the lower degree.
    gains = [(variance(first + k, size + 1) - variance(first + k, size), k) for k, size in enumerate(sizes)]
    heapq.heapify(gains)
    for _ in range(budget - sum(sizes)):
        _, k = gains[0]
        sizes[k] += 1
        gain = variance(first + k, sizes[k] + 1) - variance(first + k, sizes[k])
        heapq.heapreplace(gains, (gain, k))
    return sizes


class BestSizes:
    """The best numbers of features of degrees first, first + 1, ..., for variances of any form.

    A dynamic program: the least variance of n degrees with at most b features follows from that of n - 1
    degrees with at most b - D, over all D. Of features that share blocks, as of "tensorsrht", one more may
    raise the variance, so that giving them out one by one ends far from the best.

    Parameters
    ----------
    variances : function n -> float64 array, shape (budget,)
        The variance of 1, 2, ... features of degree n.
    first, budget : int

    Examples
    --------
    >>> best = BestSizes(lambda n: np.array([[9.0, 1.0, 2.0, 1.5], [3.0, 2.5, 1.0, 1.0]])[n - 1], 1, 4)
    >>> best.add(), best.add(), best.sizes()
    (1.0, 3.5, [2, 2])
    """

    def __init__(self, variances: Callable[[int], Array], first: int, budget: int) -> None:
        self._variances, self._first, self._budget = variances, first, budget
        self._least = np.zeros(budget + 1)
        self._chosen: list[npt.NDArray[np.int64]] = []

    def add(self) -> float:
        """Add the next degree; return the least variance of all."""
        variances = self._variances(self._first + len(self._chosen))
        least, chosen = np.full(self._budget + 1, np.inf), np.zeros(self._budget + 1, np.int64)
        for size in range(1, self._budget + 1):
            with_size = self._least[:-size] + variances[size - 1]
            better = with_size < least[size:]
            np.copyto(least[size:], with_size, where=better)
            chosen[size:][better] = size
        self._least = least
        self._chosen.append(chosen)
        return float(least[-1])

    def sizes(self) -> list[int]:
        """Return the numbers of features of the degrees that were added, at most `budget` together."""
        left, sizes = self._budget, []
        for chosen in reversed(self._chosen):
            sizes.append(int(chosen[left]))
            left -= sizes[-1]
        return sizes[::-1]


def optimal_allocation(errors: SeriesErrors, budget: int, n_columns: int) -> Allocation:
    """Return the allocation of `budget` features to degrees 1, 2, ... with the smallest predicted error.

    Tries all truncations p, each with the best sizes of sketches, and all numbers of first degrees that take
    all monomials of the columns (which have no variance) in place of a sketch. Fewer features than `budget`
    are used where they are better.

    Parameters
    ----------
    errors : SeriesErrors
    budget : int
        Number of features besides the constant one, at least 0.
    n_columns : int

    Raises
    ------
    InputError
        If no error is a number, because the rows are too far from the centre.
    """
    best: Allocation | None = None
    explicit: list[int] = []
    last = _last_degree(errors.bias)
    while sum(explicit) <= budget and len(explicit) <= last:
        for candidate in _allocations(errors, tuple(explicit), budget, last):
            if best is None or candidate.error < best.error:
                best = candidate
            if candidate.error - candidate.bias > best.error:  # a further degree only adds to the variance
                break
        explicit.append(math.comb(n_columns + len(explicit), len(explicit) + 1))
    assert best is not None
    if not math.isfinite(best.error):
        raise InputError("The rows lie too far from their mean for the length scale; raise length_scale.")
    return best


def _allocations(
    errors: SeriesErrors, explicit: tuple[int, ...], budget: int, last: int
) -> Iterator[Allocation]:
    """Yield the best allocation of each truncation, where the first degrees take all monomials."""
    first, rest = len(explicit) + 1, budget - sum(explicit)
    yield Allocation(len(explicit), explicit, *2 * (float(errors.bias[len(explicit)]),))
    numbers = np.arange(1, rest + 1)
    exact = BestSizes(lambda n: errors.variances(n, numbers), first, rest)
    for p in range(first, min(last, len(explicit) + rest) + 1):
        if errors.convex:
            sizes = incremental(errors.variance, errors.sums[first : p + 1].tolist(), first, rest)
            variance = sum(errors.variance(first + k, size) for k, size in enumerate(sizes))
        else:
            variance, sizes = exact.add(), exact.sizes()
        bias = float(errors.bias[p])
        yield Allocation(len(explicit), (*explicit, *sizes), float(variance + bias), bias)


def _last_degree(bias: Array) -> int:
    """Return the degree beyond which the bias is negligible."""
    small = np.flatnonzero(bias <= 1e-14)
    return int(small[0]) if small.size else MOST_DEGREES
