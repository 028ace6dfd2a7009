"""What a driver tells while it works; the command line shows it, a script may ignore it."""

from __future__ import annotations

__all__ = ["Progress"]


class Progress:
    """Receiver of progress events; this base class ignores them all.

    A driver calls ``start`` once a stage, ``advance`` as units finish (never from a worker),
    ``note`` for a sentence the user should see, and ``finish`` at the end of the stage.
    """

    def start(self, stage: str, total: int, unit: str) -> None:
        """Begin `stage`, which will advance to `total` in `unit` ("rows", "bytes", ...)."""

    def advance(self, amount: int) -> None:
        """Count `amount` more units as done."""

    def note(self, text: str) -> None:
        """Tell the user one sentence."""

    def finish(self, text: str = "") -> None:
        """End the stage, with a closing sentence if there is one."""
