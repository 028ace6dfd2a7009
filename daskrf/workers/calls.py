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

# A worker is told once to stop all calls of a run, even those that have not arrived yet.
_stopped_runs: set[str] = set()
_stop_requested: ContextVar[Callable[[], bool]] = ContextVar("stop_requested", default=lambda: False)


class _Unfinished(Exception):
    """The run has been asked to stop, and this call has ended between two partitions."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a call: its result, seconds and host; it ended early unless `finished`."""

    result: Any
    seconds: float
    host: str
    finished: bool = True


def check_stop() -> None:
    """End the call here if its run has been asked to stop; call it where no work is half done."""
    if _stop_requested.get()():
        raise _Unfinished


def call(
    function: Callable[..., object], arguments: Sequence[object], stop_requested: Callable[[], bool]
) -> Outcome:
    """Call `function` unless a stop is requested; `check_stop` checks again within it."""
    token = _stop_requested.set(stop_requested)
    start = time.monotonic()
    try:
        check_stop()
        result, finished = function(*arguments), True
    except _Unfinished:
        result, finished = None, False
    finally:
        _stop_requested.reset(token)
    return Outcome(result, time.monotonic() - start, socket.gethostname(), finished)


def call_of_run(run: str, function: Callable[..., object], arguments: Sequence[object]) -> Outcome:
    """Call `function` on a worker for the run with this name."""
    return call(function, arguments, lambda: run in _stopped_runs)


def stop_run(run: str) -> None:
    """Make a run's calls on this worker end at their next `check_stop`, and start no others."""
    _stopped_runs.add(run)


def stop_within() -> float:
    """Return the seconds that current partitions have to finish (Dask setting ``daskrf.stop-within``)."""
    return float(dask.config.get("daskrf.stop-within", _STOP_WITHIN))
