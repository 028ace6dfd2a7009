"""Delay Ctrl-C and SIGTERM while workers start."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class SignalsHeld:
    """Context manager that delays a first SIGINT or SIGTERM until `release`, or a second signal.

    Dask cannot stop workers that have not started yet: it would leave them running, and print a traceback.
    """

    def __init__(self) -> None:
        self._before: dict[int, Any] = {}
        self._come: list[int] = []

    def __enter__(self) -> SignalsHeld:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle) or signal.SIG_DFL
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._come.append(number)
        if len(self._come) > 1:
            self.release()

    def release(self) -> None:
        """Restore the handlers, and raise the signal that has arrived, if any."""
        while self._before:
            signal.signal(*self._before.popitem())
        come, self._come = self._come, []
        if come:
            signal.raise_signal(come[0])
