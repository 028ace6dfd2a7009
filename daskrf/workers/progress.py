"""Progress of a run, shown by the command line and kept in the run log."""

from __future__ import annotations

import time

from daskrf.storage.runlog import RunLog

_SECONDS_BETWEEN_RECORDS = 5.0  # for progress not covered by task records


class Progress:
    """Receiver of progress events; this base class ignores them all.

    A driver calls ``start`` once per stage, ``advance`` as units finish (never from a worker), or ``expect``
    where there is no unit, ``note`` for a sentence to the user, and ``finish`` when the stage ends.

    Attributes
    ----------
    stopping : bool
        Set it, for example in a signal handler, to stop the driver after the current partitions; it then
        raises ``KeyboardInterrupt``.
    stoppable : bool
        Whether the driver is running tasks, and so checks `stopping`; read-only for callers.
    log : RunLog or None
        Where the driver's tasks are recorded; set by drivers.
    """

    stopping: bool = False
    stoppable: bool = False
    log: RunLog | None = None

    def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        """Start `stage`, which will advance from `done` to `total` in `unit` ("rows", "bytes", ...)."""

    def advance(self, amount: int) -> None:
        """Count `amount` more units as done."""

    def expect(self, seconds: float, doing: str = "") -> None:
        """Show that a stage without units will take `seconds` more, and what it is doing."""

    def note(self, text: str) -> None:
        """Show the user one sentence."""

    def finish(self, text: str = "") -> None:
        """End the stage, with an optional closing sentence."""


class Recorded(Progress):
    """Passes everything on to another `Progress` and records the stages.

    Attributes
    ----------
    begun : bool
        Whether planning is done and pieces of the job are being made.
    """

    begun: bool = False

    def __init__(self, inner: Progress, log: RunLog) -> None:
        self._inner = inner
        self.log = self._log = log
        self._done = 0
        self._recorded = 0.0

    @property
    def stopping(self) -> bool:  # type: ignore[override]  # a plain attribute of the inner one
        return self._inner.stopping

    @property
    def stoppable(self) -> bool:
        return self._inner.stoppable

    @stoppable.setter
    def stoppable(self, value: bool) -> None:
        self._inner.stoppable = value

    def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        self._log.start(stage, total, unit, done)
        self._done, self._recorded = done, time.monotonic()
        self._inner.start(stage, total, unit, done)

    def advance(self, amount: int) -> None:
        self._done += amount
        uncovered = self._done - self._log.covered  # such as a scan: task records cover their own rows
        if uncovered > 0 and time.monotonic() - self._recorded > _SECONDS_BETWEEN_RECORDS:
            self._recorded = time.monotonic()
            self._log.done(uncovered)
        self._inner.advance(amount)

    def expect(self, seconds: float, doing: str = "") -> None:
        self._inner.expect(seconds, doing)

    def note(self, text: str) -> None:
        self._inner.note(text)

    def finish(self, text: str = "") -> None:
        self._inner.finish(text)


class Within(Progress):
    """A part of a stage: its expected time is shown plus that of the rest of the stage.

    Stages within it are not shown.

    Parameters
    ----------
    outer : Progress
        Has started the stage.

    Attributes
    ----------
    after : float
        Seconds that the rest of the stage is expected to take after this part.
    doing : str
        Name of the part, shown before its own messages.
    """

    def __init__(self, outer: Progress, after: float = 0.0, doing: str = "") -> None:
        self._outer, self.after, self.doing = outer, after, doing
        self.log = outer.log

    @property
    def stopping(self) -> bool:  # type: ignore[override]  # a plain attribute of the outer one
        return self._outer.stopping

    @property
    def stoppable(self) -> bool:
        return self._outer.stoppable

    @stoppable.setter
    def stoppable(self, value: bool) -> None:
        self._outer.stoppable = value

    def expect(self, seconds: float, doing: str = "") -> None:
        self._outer.expect(seconds + self.after, ", ".join(filter(None, [self.doing, doing])))

    def note(self, text: str) -> None:
        self._outer.note(text)


class Once(Progress):
    """Passes everything on, but each note only the first time.

    Parameters
    ----------
    outer : Progress
    """

    def __init__(self, outer: Progress) -> None:
        self._outer, self._notes = outer, set[str]()
        self.log = outer.log

    @property
    def stopping(self) -> bool:  # type: ignore[override]  # a plain attribute of the outer one
        return self._outer.stopping

    @property
    def stoppable(self) -> bool:
        return self._outer.stoppable

    @stoppable.setter
    def stoppable(self, value: bool) -> None:
        self._outer.stoppable = value

    def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        self._outer.start(stage, total, unit, done)

    def advance(self, amount: int) -> None:
        self._outer.advance(amount)

    def expect(self, seconds: float, doing: str = "") -> None:
        self._outer.expect(seconds, doing)

    def note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.add(text)
            self._outer.note(text)

    def finish(self, text: str = "") -> None:
        self._outer.finish(text)
