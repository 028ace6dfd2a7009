"""What a driver tells while it works; the command line shows it, a script may ignore it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daskrf.storage.runlog import RunLog

__all__ = ["Progress"]


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
