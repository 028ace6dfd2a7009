"""What can be wrong with a cluster, found before it costs hours, each in one sentence.

Every call that a driver sends carries what a worker must have in common with it: the versions of what makes
the bytes, and a file system. A worker process looks once a run, in some milliseconds, so that one which joins
later is looked at too. Workers that do not come at all are told of by what their jobs have printed.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from distributed import Client, get_worker

from daskrf import __version__
from daskrf.drivers.cluster import Jobs, QueuedClient
from daskrf.drivers.stopping import Outcome, call_of_run
from daskrf.errors import WorkerError

__all__ = ["Absence", "Expected", "checked_call", "explained"]

_PACKAGES = ("dask", "distributed", "numba", "numpy", "rdkit")
_SHARE_SECONDS = 10.0  # until a file that was just written is taken for invisible: NFS caches directories
_WAIT = 300.0  # seconds without workers
_QUEUED_WAIT = 120.0  # seconds from the start of a job: enough to import Python from a slow file system

_passed: set[Expected] = set()  # what this worker process was found to meet


@dataclass(frozen=True)
class Expected:
    """What a worker must have in common with the driver."""

    versions: tuple[tuple[str, str], ...]
    probe: str | None
    host: str

    @classmethod
    def here(cls, probe: Path | None) -> Expected:
        """Return what this process has; `probe` is a file that was just written beside the output."""
        seen = probe is not None and probe.exists()
        return cls(_versions(), str(probe) if seen else None, socket.gethostname())


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    python = ".".join(platform.python_version_tuple()[:2])
    found = {"Python": python, "daskrf": __version__}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "none"
    return tuple(found.items())


def checked_call(
    expected: Expected, run: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Outcome:
    """Make a call of a run on a worker that is as the driver expects.

    Raises
    ------
    WorkerError
        If the worker is not; in one sentence.
    """
    if expected not in _passed:
        fault = _fault(expected, get_worker().local_directory)
        if fault:
            raise WorkerError(f"The worker {get_worker().address} on {socket.gethostname()} {fault}.")
        _passed.add(expected)
    return call_of_run(run, function, arguments)


def _fault(expected: Expected, spill: str) -> str:
    """Return what is wrong with this worker process, or nothing."""
    mine = dict(_versions())
    other = [f"{name} {mine[name]} and not {v}" for name, v in expected.versions if mine[name] != v]
    if other:
        return (
            f"has {', '.join(other)} as {expected.host}, where the run was started; start workers from the "
            "same environment, then run the same command again"
        )
    if expected.probe is not None and not _sees(Path(expected.probe)):
        folder = Path(expected.probe).parent
        where = "" if folder.is_absolute() else f" (from its working directory {os.getcwd()})"
        return (
            f"does not see {expected.probe}{where}, which {expected.host} has just written beside the "
            "output; give the output an absolute path on a file system that all workers share"
        )
    try:
        with tempfile.TemporaryFile(dir=spill):
            pass
    except OSError as error:
        return (
            f"cannot write its spill directory {spill} ({error.strerror}); set local_directory to one it can"
        )
    return ""


def _sees(probe: Path) -> bool:
    end = time.monotonic() + _SHARE_SECONDS
    while not probe.exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.25)
        with suppress(OSError):
            os.listdir(probe.parent)  # has NFS ask its server again
    return True


def explained(error: BaseException) -> BaseException:
    """Return a sentence in place of an error that says that daskrf is not where a task was sent."""
    text = " ".join(str(error).split())
    if isinstance(error, ImportError) or "deserialization of the task graph" in text:
        return WorkerError(
            f"A worker or the scheduler could not load a task ({text}); start them from the environment of "
            f"this process, {sys.prefix}, then run the same command again."
        )
    return error


class Absence:
    """Follows how long a cluster has had no workers, and tells when that is too long.

    Workers that are jobs may wait in a queue for days; what counts for them is the time since a job has begun
    to print, into a file that was not there when the last worker was seen.

    Parameters
    ----------
    client : Client
    patience : float, optional
        Seconds; default: 300, and 120 from the start of a job.
    """

    def __init__(self, client: Client, patience: float | None) -> None:
        self._jobs = client.jobs if isinstance(client, QueuedClient) else None
        self._patience = float(patience or (_WAIT if self._jobs is None else _QUEUED_WAIT))
        self._since = time.monotonic() if self._jobs is None else None
        self._there = False

    def look(self, n_workers: int) -> None:
        """Take note of the number of workers.

        Raises
        ------
        WorkerError
            If there have been none for too long, with the reason as far as it is known.
        """
        now = time.monotonic()
        if n_workers:
            self._there = True
            self._since = now if self._jobs is None else None
        elif self._jobs is not None:
            self._look_at_jobs(self._jobs, now)
        if self._since is not None and now - self._since > self._patience:
            raise WorkerError(self._sentence())

    def _look_at_jobs(self, jobs: Jobs, now: float) -> None:
        """Begin to count when a job has begun to print since the last worker was seen."""
        logs = set(_by_time(jobs.logs))
        if self._there:
            self._there, jobs.refusal = False, ""
            jobs.known = logs
        if jobs.refusal:
            raise WorkerError(
                f"{jobs.system} has refused the job: {jobs.refusal}; correct the cluster file, then run the "
                "same command again."
            )
        if self._since is None and logs - jobs.known:
            self._since = now

    def _sentence(self) -> str:
        jobs = self._jobs
        if jobs is None:
            return (
                f"The scheduler has had no workers for {self._patience:.0f} s; start some and run the same "
                "command again: finished work is kept."
            )
        said = [(path, _last_line(path)) for path in _by_time(jobs.logs) if path not in jobs.known]
        path, line = next((pair for pair in reversed(said) if pair[1]), (jobs.logs, "nothing"))
        network = f" by the interface {jobs.interface}" if jobs.interface else ""
        return (
            f"A job of {jobs.system} has started, and for {self._patience:.0f} s no worker has reached the "
            f"scheduler{network}; the last line in {path} is: {line}"
        )


def _by_time(directory: Path) -> list[Path]:
    """Return the files of a directory, the latest last; those only that can be looked at."""
    times = {}
    with suppress(OSError):
        for path in directory.iterdir():
            with suppress(OSError):
                times[path] = path.stat().st_mtime
    return sorted(times, key=lambda path: times[path])


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
