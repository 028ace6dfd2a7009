"""Ctrl-C and SIGTERM: the first stops the command after the current partitions, a second at once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Any

from daskrf.cli.options import Session

_STOPPING = "Stopping after the partitions in hand; press Ctrl-C again to stop at once."


class Signals:
    """Context manager that handles SIGINT and SIGTERM, which batch systems send shortly before the end.

    While the command is running tasks, the first signal is passed to its progress. ``KeyboardInterrupt`` is
    raised at a second signal, if the command has not stopped within the Dask setting ``daskrf.stop-within``
    (60 seconds), or if it is not running tasks. The exception unwinds the stack, which stops the workers and
    closes files.

    Attributes
    ----------
    first : int
        The first signal received; 0 if none.
    """

    def __init__(self, session: Session) -> None:
        self.first = 0
        self._session = session
        self._before: dict[int, Any] = {}
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Signals:
        with contextlib.suppress(ValueError):  # not in the main thread, so no signals arrive
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
        from daskrf.workers.calls import stop_within

        progress.stopping = True
        # In threads of their own: the main thread may hold the stream's lock, or be in a long call.
        self._timer = threading.Timer(stop_within(), self._stop_at_once, (number,))
        self._timer.daemon = True
        self._timer.start()
        threading.Thread(target=self._tell, daemon=True).start()

    def _stop_at_once(self, number: int) -> None:
        if self._session.progress.stoppable:  # once it has stopped, let it clean up undisturbed
            os.kill(os.getpid(), number)

    def _tell(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the reader may be gone, or the stream closed
            self._session.progress.note(_STOPPING)
