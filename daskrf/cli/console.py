"""Progress display while a command runs: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from daskrf.errors import printable
from daskrf.quantities import amount, duration
from daskrf.workers.progress import Progress

if TYPE_CHECKING:
    from rich.progress import TaskID

_SECONDS_BETWEEN_LINES = 5.0
_LONGEST_LINE = 5_000  # characters of a printed line, which may contain text from files


def make_progress(stream: TextIO | None = None) -> LineProgress | TerminalProgress:
    """Return the progress display for `stream` (default: standard error)."""
    stream = sys.stderr if stream is None else stream
    return TerminalProgress(stream) if stream.isatty() else LineProgress(stream)


def shown(text: object) -> str:
    r"""Return a report or sentence that is safe to print on a terminal, even with text from files in it.

    Examples
    --------
    >>> print(shown("1 label\n  'x\x1b[2J' is not there"))
    1 label
      'x\x1b[2J' is not there
    """
    return "\n".join(printable(line, _LONGEST_LINE) for line in str(text).split("\n"))


class _Stages(Progress):
    """Counts the progress of a stage and makes the text for subclasses to show."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._stage, self._unit = "", ""
        self._total = self._done = self._before = 0
        self._begun = clock()
        self._left: float | None = None  # seconds, where they are estimated
        self._share, self._doing = 0.0, ""

    def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        self._stage, self._unit, self._total, self._done, self._before = stage, unit, total, done, done
        self._begun, self._left, self._share, self._doing = self._clock(), None, 0.0, ""
        # Without a unit, the amount is unknown.
        some = f"{amount(total - done, unit)} to do" if total > done else ""
        self._begin(some or ("nothing left to do" if unit else "started"))

    def advance(self, amount: int) -> None:
        self._done += amount
        self._move()

    def expect(self, seconds: float, doing: str = "") -> None:
        elapsed = self._clock() - self._begun
        share = elapsed / (elapsed + seconds) if elapsed > 0 else 0.0
        self._share = max(self._share, share)  # an estimate that grows does not undo what is done
        self._left, self._doing = seconds, doing
        self._move()

    def finish(self, text: str = "") -> None:
        some = self._unit and self._done > self._before
        made = f"{amount(self._done - self._before, self._unit)} in " if some else ""
        words = f"{made}{duration(self._clock() - self._begun)}{'. ' + text if text else ''}"
        self._end(words if self._total or not self._unit else "")  # else the first line said everything

    def _speed(self) -> str:
        """Return the rate, as units per second or seconds per unit, and the time left; empty at first."""
        seconds, made = self._clock() - self._begun, self._done - self._before
        if seconds <= 0 or made <= 0:
            return ""
        left = duration(max(0, self._total - self._done) * seconds / made)
        slow = made < seconds and self._unit != "bytes"
        rate = f"{duration(seconds / made)} each" if slow else f"{amount(made / seconds, self._unit)}/s"
        return f"{rate}, {left} left"

    def _estimate(self) -> str:
        """Return the time left of a stage without units, and what it is doing."""
        return f"{duration(self._left or 0.0)} left{f' ({self._doing})' if self._doing else ''}"

    def _begin(self, words: str) -> None: ...

    def _move(self) -> None: ...

    def _end(self, words: str) -> None: ...


class LineProgress(_Stages):
    """Plain lines, at most one every few seconds, for log files and batch systems.

    Parameters
    ----------
    stream : text file
        Where the lines go.
    clock : callable
        Returns the time in seconds; tests pass their own.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._stream = stream
        self._shown_at = clock()

    def __enter__(self) -> LineProgress:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def note(self, text: str) -> None:
        print(shown(text), file=self._stream, flush=True)

    def _begin(self, words: str) -> None:
        self._shown_at = self._begun
        self.note(f"{self._stage}: {words}")

    def _move(self) -> None:
        now = self._clock()
        if now - self._shown_at < _SECONDS_BETWEEN_LINES:
            return
        if self._left is not None:
            self._shown_at = now
            self.note(f"{self._stage}: {self._share:.0%}, {self._estimate()}")
        elif self._done < self._total:
            self._shown_at = now
            done = amount(self._done, self._unit).removesuffix(f" {self._unit}")
            self.note(f"{self._stage}: {done} of {amount(self._total, self._unit)}, {self._speed()}")

    def _end(self, words: str) -> None:
        if words:
            self.note(f"{self._stage}: done, {words}")


class TerminalProgress(_Stages):
    """Progress bars with rate and time left, drawn by rich."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bars

        super().__init__()
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f} %"),
            TextColumn("{task.fields[state]}"),
            console=Console(file=stream, highlight=False, soft_wrap=True),
            refresh_per_second=5,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> TerminalProgress:
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()

    def note(self, text: str) -> None:
        self._bars.console.print(shown(text), markup=False)

    def _begin(self, words: str) -> None:
        total = self._total or None
        self._task = self._bars.add_task(f"{self._stage:<24}", total=total, completed=self._done, state=words)

    def _move(self) -> None:
        if self._task is not None and self._left is not None:
            state = shown(self._estimate())
            self._bars.update(self._task, total=1.0, completed=min(self._share, 0.99), state=state)
        elif self._task is not None:
            state = (self._total and self._speed()) or amount(self._done, self._unit)
            self._bars.update(self._task, completed=self._done, state=state)

    def _end(self, words: str) -> None:
        if self._task is not None:
            if words:
                self._bars.update(self._task, state=words)
            self._bars.update(self._task, total=self._done or 1, completed=self._done or 1)
            self._task = None
