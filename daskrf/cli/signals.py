"""Ctrl-C and SIGTERM: the first has a driver stop after the partitions in hand, a second stops at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Any

from daskrf.cli.options import Session

__all__ = ["Signals"]

_STOPPING = "Stopping after the partitions in hand; press Ctrl-C again to stop at once."


class Signals:
    """Context manager that handles SIGINT and SIGTERM, which batch systems send some time before the end.

    While the driver is at tasks, the first signal is passed to its progress; if it has not stopped within the
    Dask setting ``daskrf.stop-within`` (60 seconds), or at a second signal, or while it is at anything else,
    ``KeyboardInterrupt`` is raised, which unwinds the stack, so that workers are stopped and files closed.

    Attributes
    ----------
    first : int
        The first signal that came; 0 before.
    """

    def __init__(self, session: Session) -> None:
        self.first = 0
        self._session = session
        self._before: dict[int, Any] = {}
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Signals:
        with contextlib.suppress(ValueError):  # not in the main thread, where no signal arrives
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.first = self.first or number
        progress = self._session.progress
        if progress is None or not progress.stoppable or progress.stopping:
            raise KeyboardInterrupt
        from daskrf.jobs.calls import stop_within

        progress.stopping = True
        # Both by threads of their own: the main one may hold the lock of the stream, or be in a long call.
        self._timer = threading.Timer(stop_within(), self._stop_at_once, (number,))
        self._timer.daemon = True
        self._timer.start()
        threading.Thread(target=self._tell, daemon=True).start()

    def _stop_at_once(self, number: int) -> None:
        if self._session.progress.stoppable:  # still; once it has stopped, leave it to clean up in peace
            os.kill(os.getpid(), number)

    def _tell(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # nobody may be reading, or the stream be closed
            self._session.progress.note(_STOPPING)
