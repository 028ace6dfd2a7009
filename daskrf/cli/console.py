"""What the user sees while a command works: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from daskrf.errors import printable
from daskrf.jobs.progress import Progress
from daskrf.quantities import amount, duration

if TYPE_CHECKING:
    from rich.progress import TaskID

__all__ = ["LineProgress", "TerminalProgress", "make_progress", "shown"]

_SECONDS_BETWEEN_LINES = 5.0
_LONGEST_LINE = 5_000  # characters of what is printed: words of files come in it


def make_progress(stream: TextIO | None = None) -> LineProgress | TerminalProgress:
    """Return the display for `stream` (default: standard error)."""
    stream = sys.stderr if stream is None else stream
    return TerminalProgress(stream) if stream.isatty() else LineProgress(stream)


def shown(text: object) -> str:
    r"""Return a report or a sentence as a terminal may show it, whatever words of files are in it.

    Examples
    --------
    >>> print(shown("1 label\n  'x\x1b[2J' is not there"))
    1 label
      'x\x1b[2J' is not there
    """
    return "\n".join(printable(line, _LONGEST_LINE) for line in str(text).split("\n"))


def _to_do(total: int, unit: str) -> str:
    """Return what a stage starts with; without a unit, nobody knows how much it is."""
    if total:
        return f"{amount(total, unit)} to do"
    return "nothing left to do" if unit else "begins"


class LineProgress(Progress):
    """Plain lines, one every few seconds at most: for log files and batch systems.

    Parameters
    ----------
    stream : text file
        Where the lines go.
    clock : callable
        Time in seconds; a test gives its own.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._stage, self._total, self._unit = "", 0, ""
        self._done = self._before = 0
        self._begun = self._told = clock()

    def __enter__(self) -> LineProgress:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        self._stage, self._total, self._unit, self._done = stage, total, unit, done
        self._before = done
        self._begun = self._told = self._clock()
        self._write(f"{stage}: {_to_do(total - done, unit)}")

    def advance(self, amount: int) -> None:
        self._done += amount
        now = self._clock()
        if now - self._told >= _SECONDS_BETWEEN_LINES and self._done < self._total:
            self._told = now
            self._write(f"{self._stage}: {self._state(now - self._begun)}")

    def note(self, text: str) -> None:
        self._write(shown(text))

    def finish(self, text: str = "") -> None:
        seconds = self._clock() - self._begun
        made = self._done - self._before
        done = f"{amount(made, self._unit)} in " if made else ""
        if self._total or not self._unit:  # else the first line has said it all
            self._write(f"{self._stage}: done, {done}{duration(seconds)}{'. ' + text if text else ''}")

    def _state(self, seconds: float) -> str:
        rate = (self._done - self._before) / seconds if seconds > 0 else 0.0
        left = f", {duration((self._total - self._done) / rate)} left" if rate > 0 else ""
        done = amount(self._done, self._unit).removesuffix(f" {self._unit}")
        return f"{done} of {amount(self._total, self._unit)}, {amount(rate, self._unit)}/s{left}"

    def _write(self, text: str) -> None:
        print(text, file=self._stream, flush=True)


class TerminalProgress(Progress):
    """Bars with rate and time left, by rich."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[state]}"),
            console=Console(file=stream, highlight=False, soft_wrap=True),
            refresh_per_second=5,
        )
        self._task: TaskID | None = None
        self._unit = ""
        self._before = 0.0
        self._begun = time.monotonic()

    def __enter__(self) -> TerminalProgress:
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()

    def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        self._unit, self._begun, self._before = unit, time.monotonic(), done
        state = _to_do(total - done, unit)
        self._task = self._bars.add_task(f"{stage:<24}", total=total or None, completed=done, state=state)

    def advance(self, amount: int) -> None:
        if self._task is not None:
            self._bars.update(self._task, advance=amount)
            self._show(self._state())

    def note(self, text: str) -> None:
        self._bars.console.print(shown(text), markup=False)

    def finish(self, text: str = "") -> None:
        if self._task is None:
            return
        task = self._bars.tasks[self._bars.task_ids.index(self._task)]
        seconds, made = time.monotonic() - self._begun, task.completed - self._before
        done = f"{amount(made, self._unit)} in " if self._unit and made else ""
        if task.total or not self._unit:  # else "nothing left to do" stays
            self._show(f"{done}{duration(seconds)}{'. ' + text if text else ''}")
        self._bars.update(self._task, total=task.completed or 1, completed=task.completed or 1)
        self._task = None

    def _show(self, state: str) -> None:
        assert self._task is not None
        self._bars.update(self._task, state=state)

    def _state(self) -> str:
        task: Any = self._bars.tasks[self._bars.task_ids.index(self._task)]  # type: ignore[arg-type]
        seconds = time.monotonic() - self._begun
        rate = (task.completed - self._before) / seconds if seconds > 0 else 0.0
        if not task.total or rate == 0:
            return amount(task.completed, self._unit)
        left = max(0.0, task.total - task.completed) / rate
        return f"{amount(rate, self._unit)}/s, {duration(left)} left"
