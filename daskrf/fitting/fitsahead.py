"""How long the remaining fits of an evaluation will take, judged by those that are done."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass
class FitsAhead:
    """The fits to be made, and how long they take.

    Attributes
    ----------
    seconds : sequence of float
        Expected time of each fit. Once a fit was measured, only their ratios count.
    clock : callable
        Returns the time in seconds.

    Examples
    --------
    >>> ticks = iter([0.0, 8.0, 16.0])
    >>> ahead = FitsAhead([1.0, 1.0, 0.5], clock=lambda: next(ticks))
    >>> ahead.begin()  # nothing was measured yet
    1.5
    >>> ahead.begin()  # the first one took eight times as long as expected
    4.0
    """

    seconds: Sequence[float]
    clock: Callable[[], float] = time.monotonic
    _n_begun: int = 0
    _start: float = 0.0

    def begin(self) -> float:
        """Begin the next fit; return the seconds that those after it will take."""
        now = self.clock()
        if not self._n_begun:
            self._start = now
        done = sum(self.seconds[: self._n_begun])
        slow = (now - self._start) / done if done > 0 else 1.0
        self._n_begun += 1
        return slow * sum(self.seconds[self._n_begun :])

    @property
    def now(self) -> float:
        """Seconds that the current fit is expected to take in all."""
        done = sum(self.seconds[: self._n_begun - 1])
        slow = (self.clock() - self._start) / done if done > 0 else 1.0
        return slow * self.seconds[self._n_begun - 1]
