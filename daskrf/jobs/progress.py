"""What a driver tells while it works: the command line shows it, the run log keeps it."""

from __future__ import annotations

import time

from daskrf.storage.runlog import RunLog

__all__ = ["Progress", "Recorded"]

_SECONDS_BETWEEN_RECORDS = 5.0  # of progress that no task stands for


class Progress:
    """Receiver of progress events; this base class ignores them all.

    A driver calls ``start`` once a stage, ``advance`` as units finish (never from a worker),
    ``note`` for a sentence the user should see, and ``finish`` at the end of the stage.

    Attributes
    ----------
    stopping : bool
        Set it, from a signal handler say, to have the driver stop after the partitions in hand; it raises
        ``KeyboardInterrupt`` then.
    stoppable : bool
        Whether the driver is at tasks now, and looks at `stopping`; read it, never set it.
    log : RunLog or None
        Where the tasks of the driver are recorded; drivers see to it.
    """

    stopping: bool = False
    stoppable: bool = False
    log: RunLog | None = None

    def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        """Begin `stage`, which will advance from `done` to `total` in `unit` ("rows", "bytes", ...)."""

    def advance(self, amount: int) -> None:
        """Count `amount` more units as done."""

    def note(self, text: str) -> None:
        """Tell the user one sentence."""

    def finish(self, text: str = "") -> None:
        """End the stage, with a closing sentence if there is one."""


class Recorded(Progress):
    """Passes everything on to another `Progress`, and records the stages.

    Attributes
    ----------
    begun : bool
        Whether the job has been planned, and pieces of it are made.
    """

    begun: bool = False

    def __init__(self, inner: Progress, log: RunLog) -> None:
        self._inner = inner
        self.log = self._log = log
        self._done = 0
        self._told = 0.0

    @property
    def stopping(self) -> bool:  # type: ignore[override]  # a plain attribute of the one within
        """See `Progress`."""
        return self._inner.stopping

    @property
    def stoppable(self) -> bool:
        """See `Progress`."""
        return self._inner.stoppable

    @stoppable.setter
    def stoppable(self, value: bool) -> None:
        self._inner.stoppable = value

    def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        self._log.start(stage, total, unit, done)
        self._done, self._told = done, time.monotonic()
        self._inner.start(stage, total, unit, done)

    def advance(self, amount: int) -> None:
        self._done += amount
        uncovered = self._done - self._log.covered  # of a scan, say: records of tasks tell of their rows
        if uncovered > 0 and time.monotonic() - self._told > _SECONDS_BETWEEN_RECORDS:
            self._told = time.monotonic()
            self._log.done(uncovered)
        self._inner.advance(amount)

    def note(self, text: str) -> None:
        self._inner.note(text)

    def finish(self, text: str = "") -> None:
        self._inner.finish(text)
