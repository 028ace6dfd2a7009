"""The remaining time of the choice of a kernel, estimated from the cost of the kernels tried so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from daskrf.kernels.kernel import Kernel
from daskrf.kernels.weightedmean import Mean

Score = TypeVar("Score")

_RATIO_SECONDS = 2.5e-11  # for a factorization and an inverse on one core, times the cube of the rows
_FIRST_SECONDS = 0.1  # assumed for a matrix or a ratio until one has been measured


@dataclass(frozen=True)
class Work:
    """The expected work of a trial: kernel matrices, ratios of noise to signal, and other seconds.

    Attributes
    ----------
    matrices : float
        Number of kernel matrices: one for each term of each kernel.
    ratios : float
    seconds : float
        Time of other work, on a core that factorizes n rows in 2.5e-11 n**3 seconds.
    """

    matrices: float = 0.0
    ratios: float = 0.0
    seconds: float = 0.0


@dataclass
class Meter(Generic[Score]):
    """Scores kernels by `scorer`, measures their cost, and reports how long the rest will take.

    Attributes
    ----------
    scorer : callable
        Prepares a kernel; the function that it returns takes a ratio.
    on_progress : callable
        Called with the current trial in words and with the seconds that the rest is expected to take.
    ahead : list of Work
        The trials still to come.
    n_rows : int
        Rows of a factorization; 0 if nothing is factorized.
    clock : callable
        Returns the time in seconds.

    Examples
    --------
    >>> from daskrf.kernels.tanimoto import TanimotoMinMax
    >>> ticks = iter(range(100))
    >>> told = []
    >>> meter = Meter(lambda kernel: lambda ratio: 1.0, lambda *what: told.append(what),
    ...               [Work(1, 2), Work(1, 2)], clock=lambda: float(next(ticks)))
    >>> meter.begin("the first")
    >>> meter(TanimotoMinMax())(0.5)
    1.0
    >>> told[-1]  # a matrix and three ratios are left, and each takes a second
    ('the first', 4.0)
    """

    scorer: Callable[[Kernel], Callable[[float], Score]]
    on_progress: Callable[[str, float], None]
    ahead: Sequence[Work]
    n_rows: int = 0
    clock: Callable[[], float] = time.monotonic
    _words: str = ""
    _now: Work = field(default_factory=Work)
    _matrices: list[float] = field(default_factory=list)
    _ratios: list[float] = field(default_factory=list)

    def begin(self, words: str) -> None:
        """Begin the next trial."""
        self._words, self._now = words, self.ahead[0] if self.ahead else Work()
        self.ahead = self.ahead[1:]
        self._tell()

    def rename(self, words: str) -> None:
        """Set the words for the current trial."""
        self._words = words
        self._tell()

    def skip(self) -> None:
        """Leave out the next trial."""
        self.ahead = self.ahead[1:]

    def __call__(self, kernel: Kernel) -> Callable[[float], Score]:
        """Prepare a kernel."""
        begun, terms = self.clock(), len(kernel.kernels) if isinstance(kernel, Mean) else 1
        prepared = self.scorer(kernel)
        self._matrices += [(self.clock() - begun) / terms] * terms
        self._now = Work(max(0.0, self._now.matrices - terms), self._now.ratios, self._now.seconds)

        def score(ratio: float) -> Score:
            begun = self.clock()
            result = prepared(ratio)
            self._ratios.append(self.clock() - begun)
            self._now = Work(self._now.matrices, max(0.0, self._now.ratios - 1), self._now.seconds)
            self._tell()
            return result

        return score

    def _tell(self) -> None:
        matrix, ratio = (
            sum(times) / len(times) if times else _FIRST_SECONDS for times in (self._matrices, self._ratios)
        )
        slow = ratio / (_RATIO_SECONDS * self.n_rows**3) if self._ratios and self.n_rows else 1.0
        seconds = sum(
            each.matrices * matrix + each.ratios * ratio + each.seconds * slow
            for each in (self._now, *self.ahead)
        )
        self.on_progress(self._words, seconds)
