"""One BLAS thread where more threads would only wait for each other or for busy processors."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType

from threadpoolctl import ThreadpoolController

_ALONE = 2048  # rows


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


def blas_threads_for(n: int) -> contextlib.AbstractContextManager[None]:
    """Return the context for factorizations of n x n matrices: one BLAS thread, or as many as there are.

    BLAS threads wait for each other in busy loops: in small matrices for most of the time, and where other
    work has the processors, for as long as that runs. Up to 2,048 rows, and where the load of the last minute
    is more than half of the processors, one thread is faster.
    """
    busy = hasattr(os, "getloadavg") and os.getloadavg()[0] > processors() / 2
    return ONE_BLAS_THREAD if n <= _ALONE or busy else contextlib.nullcontext()
