"""Task calls where they run: timed, on one BLAS thread, and ended early if their run is to stop.

One thread because workers share a host, and BLAS rounding depends on its number of threads.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import dask

_STOP_WITHIN = 60.0  # seconds

# Process-wide, because a worker is told once for all calls of a run that it has or is about to get.
_stopped_runs: set[str] = set()
_asked: ContextVar[Callable[[], bool]] = ContextVar("asked", default=lambda: False)


class _Unfinished(Exception):
    """The run has been asked to stop, and this call has ended between two partitions."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a call: its result, seconds and host; if not `finished`, it ended early."""

    result: Any
    seconds: float
    host: str
    finished: bool = True


def check_stop() -> None:
    """End the call here if its run has been asked to stop; use it where nothing is half done."""
    if _asked.get()():
        raise _Unfinished


def call(function: Callable[..., Any], arguments: Sequence[Any], asked: Callable[[], bool]) -> Outcome:
    """Call `function` unless `asked` returns true (stop requested); `check_stop` asks again within it."""
    token = _asked.set(asked)
    start = time.monotonic()
    try:
        check_stop()
        result, finished = function(*arguments), True
    except _Unfinished:
        result, finished = None, False
    finally:
        _asked.reset(token)
    return Outcome(result, time.monotonic() - start, socket.gethostname(), finished)


def call_of_run(run: str, function: Callable[..., Any], arguments: Sequence[Any]) -> Outcome:
    """Call `function` on a worker for the run with this name."""
    return call(function, arguments, lambda: run in _stopped_runs)


def stop_run(run: str) -> None:
    """Make a run's calls in this process end at their next `check_stop`, and start no others."""
    _stopped_runs.add(run)


def stop_within() -> float:
    """Return how many seconds the current partitions have to finish (Dask setting ``daskrf.stop-within``)."""
    return float(dask.config.get("daskrf.stop-within", _STOP_WITHIN))
