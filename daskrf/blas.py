"""One BLAS thread while several threads or processes on a host compute at once."""

from __future__ import annotations

import os
import threading
from types import TracebackType

from threadpoolctl import threadpool_limits

__all__ = ["ONE_BLAS_THREAD", "processors"]


class _OneBlasThread:
    """Reusable context manager; the limit is per process, so it is lifted when the last task leaves.

    Multi-threaded workers run tasks concurrently, and a plain `threadpool_limits` would restore the threads
    at the end of one task in the middle of another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tasks = 0
        self._limits: threadpool_limits | None = None

    @property
    def is_set(self) -> bool:
        """Whether the limit is currently in force."""
        return self._tasks > 0

    def __enter__(self) -> None:
        with self._lock:
            if self._tasks == 0:
                self._limits = threadpool_limits(limits=1)
            self._tasks += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._tasks -= 1
            if self._tasks == 0 and self._limits is not None:
                self._limits.restore_original_limits()
                self._limits = None


ONE_BLAS_THREAD = _OneBlasThread()


def processors() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
