"""One BLAS thread where more threads would only wait for each other or for busy processors."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType

from threadpoolctl import ThreadpoolController

_ALONE = 2048  # rows
_MINUTE = 60.0  # seconds over which the first load average fades


class _OneBlasThread:
    """Reusable context manager; the limit holds for the whole program until the last task leaves.

    Multi-threaded workers run tasks concurrently, and a plain `threadpool_limits` would restore the threads
    at the end of one task in the middle of another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks = 0
        self._restore: Callable[[], None] | None = None
        self._controller: ThreadpoolController | None = None
        self._modules = 0

    @property
    def is_set(self) -> bool:
        """Whether the limit is currently in force."""
        return self._tasks > 0

    def __enter__(self) -> None:
        with self._lock:
            if self._tasks == 0:
                self._restore = self._loaded().limit(limits=1).restore_original_limits
            self._tasks += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._tasks -= 1
            if self._tasks == 0 and self._restore is not None:
                self._restore()
                self._restore = None

    def _loaded(self) -> ThreadpoolController:
        """Return the libraries that are loaded; looking for them takes 20 ms, and imports alone add some."""
        if self._controller is None or len(sys.modules) != self._modules:
            self._modules = len(sys.modules)
            self._controller = ThreadpoolController()
        return self._controller


ONE_BLAS_THREAD = _OneBlasThread()


def processors() -> int:
    """Return how many processors this program may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Load:
    """The load of the last minute that is not this program's own: long fits would take it for other work."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._own = 0.0
        self._seen = self._now()

    def of_others(self) -> float:
        """Return the mean number of threads of other programs that ran or waited; 0 if that is not known."""
        if not hasattr(os, "getloadavg"):
            return 0.0
        with self._lock:
            (clock, used), self._seen = self._seen, self._now()
            passed = max(self._seen[0] - clock, 1e-9)
            share = math.exp(-passed / _MINUTE)  # the load average fades likewise
            self._own = share * self._own + (1.0 - share) * (self._seen[1] - used) / passed
            return os.getloadavg()[0] - self._own

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.monotonic(), time.process_time()


_LOAD = _Load()


def blas_threads_for(n: int) -> contextlib.AbstractContextManager[None]:
    """Return the context for factorizations of n x n matrices: one BLAS thread, or as many as there are.

    BLAS threads wait for each other in busy loops: in small matrices for most of the time, and where other
    work has the processors, for as long as that runs. On two idle processors, two threads invert 500 rows in
    the same time as one, and 2,000 rows in 0.08 s in place of 0.16. Beside twice as much work as processors,
    a fit to 582 rows took 4.2 s in place of 0.4, and one to 2,500 rows took 29 s in place of 7.5. So up to
    2,048 rows, where little can be gained, and where other work has had more than half of the processors in
    the last minute, one thread computes.
    """
    busy = n > _ALONE and _LOAD.of_others() > processors() / 2
    return ONE_BLAS_THREAD if n <= _ALONE or busy else contextlib.nullcontext()
