"""Find problems with a cluster before they cost hours, and report each in one sentence.

Every call states what a worker must share with the main program: a file system, and the versions of the
packages that determine the output bytes. Each worker checks this once per run, in a few milliseconds, even if
it joins late. If workers never join, the message quotes the output of their jobs.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from distributed import Client, get_worker

from daskrf import __version__
from daskrf.errors import WorkerError
from daskrf.workers.calls import Outcome, call_of_run
from daskrf.workers.clusters import Jobs, QueuedClient

_PACKAGES = ("dask", "distributed", "numba", "numpy", "rdkit")
_SHARE_SECONDS = 10.0  # before a file just written is considered invisible: NFS caches directories
_WAIT = 300.0  # maximum seconds without workers
_SAY_SECONDS = 20.0  # without workers, or with paused ones, before the user is told
_REFUSAL_SECONDS = 5.0  # after a rejection: by then, any other jobs would have been accepted

_passed: set[Expected] = set()  # expectations that this worker meets


@dataclass(frozen=True)
class Expected:
    """What a worker must have in common with the driver."""

    versions: tuple[tuple[str, str], ...]
    probe: str | None
    host: str

    @classmethod
    def here(cls, probe: Path | None) -> Expected:
        """Return the versions and host of this program; `probe` is a file just written beside the output."""
        seen = probe is not None and probe.exists()
        return cls(_versions(), str(probe) if seen else None, socket.gethostname())


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    python = ".".join(platform.python_version_tuple()[:2])
    versions = {"Python": python, "daskrf": __version__}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "none"
    return tuple(versions.items())


def checked_call(
    expected: Expected, run: str, function: Callable[..., object], arguments: Sequence[object]
) -> Outcome:
    """Make a call of a run, after checking that this worker is as the driver expects."""
    if expected not in _passed:
        fault = _fault(expected, get_worker().local_directory)
        if fault:
            raise WorkerError(f"The worker {get_worker().address} on {socket.gethostname()} {fault}.")
        _passed.add(expected)
    return call_of_run(run, function, arguments)


def _fault(expected: Expected, spill: str) -> str:
    """Return what is wrong with this worker, or an empty string."""
    mine = dict(_versions())
    other = [f"{name} {mine[name]}, not {v}" for name, v in expected.versions if mine[name] != v]
    if other:
        return (
            f"has {'; '.join(other)} as on {expected.host}, where the run was started; start workers from "
            "the same environment, then run the same command again"
        )
    if expected.probe is not None and not _sees(Path(expected.probe)):
        folder = Path(expected.probe).parent
        where = "" if folder.is_absolute() else f" (from its working directory {os.getcwd()})"
        return (
            f"does not see {expected.probe}{where}, a file just written on {expected.host} beside the "
            "output; give the output an absolute path on a file system that all workers share"
        )
    try:
        with tempfile.TemporaryFile(dir=spill):
            pass
    except OSError as error:
        return (
            f"cannot write to its spill directory {spill} ({error.strerror}); set local-directory to a "
            "writable one"
        )
    return ""


def _sees(probe: Path) -> bool:
    end = time.monotonic() + _SHARE_SECONDS
    while not probe.exists():
        if time.monotonic() > end:
            return False
        time.sleep(0.25)
        with suppress(OSError):
            os.listdir(probe.parent)  # makes NFS ask its server again
    return True


def explained(error: BaseException) -> BaseException:
    """Return an error that explains the fault if a worker lacks daskrf; else the error itself."""
    text = " ".join(str(error).split())
    if isinstance(error, ImportError) or "deserialization of the task graph" in text:
        return WorkerError(
            f"A worker or the scheduler could not load a task ({text}); start them from the environment of "
            f"this program, {sys.prefix}, then run the same command again."
        )
    return error


class Absence:
    """Tracks how long a cluster has had no workers or paused ones; tells the user, and finally gives up.

    Batch jobs may wait in a queue for days, so for them the time counts from the start of a job whose workers
    do not join. Paused workers are waited for, as they may resume at any time.

    Parameters
    ----------
    client : Client
    patience : float, optional
        Seconds; default: 300. Batch-job workers have their own limit.
    note : callable
        Called with each sentence for the user.
    """

    def __init__(self, client: Client, patience: float | None, note: Callable[[str], None]) -> None:
        self._jobs = client.jobs if isinstance(client, QueuedClient) else None
        self._patience = float(patience or _WAIT)
        self._note = note
        self._since = time.monotonic()
        self._paused_since: float | None = None
        self._reported: set[str] = set()

    def look(self, n_workers: int, n_paused: int = 0) -> None:
        """Record the number of workers, and how many of them are paused.

        Raises
        ------
        WorkerError
            If there have been none for too long; gives the reason if known.
        """
        now = time.monotonic()
        if n_workers:
            self._since = now
            self._reported.discard("none")
        elif now - self._since > _SAY_SECONDS:
            self._say("none", self._without_workers())
        if not n_paused:
            self._paused_since = None
            self._reported.discard("paused")
        elif self._paused_since is None:
            self._paused_since = now
        elif now - self._paused_since > _SAY_SECONDS:
            which = f"{n_paused} of {n_workers} workers are" if n_workers > 1 else "The only worker is"
            self._say(
                "paused",
                f"{which} paused: memory is nearly full, and Dask starts no tasks there. The run waits; give "
                "workers more memory, or start them with distributed.worker.memory.pause: false.",
            )
        if self._jobs is not None:
            _look_at_jobs(self._jobs, n_workers)
        elif now - self._since > self._patience:
            raise WorkerError(
                f"The scheduler has had no workers for {self._patience:.0f} s; start some and run the same "
                "command again: finished work is kept."
            )

    def _without_workers(self) -> str:
        if self._jobs is None:
            return (
                f"There have been no workers for {_SAY_SECONDS:.0f} s; the run waits up to "
                f"{self._patience:.0f} s for one."
            )
        return (
            f"There have been no workers for {_SAY_SECONDS:.0f} s. Jobs that wait or start in "
            f"{self._jobs.system}: {len(self._jobs.accepted)}, logs in {self._jobs.logs}; the run continues "
            "when the first has started."
        )

    def _say(self, what: str, sentence: str) -> None:
        """Show a sentence once, until the state that it reports has ended."""
        if what not in self._reported:
            self._reported.add(what)
            self._note(sentence)


def _look_at_jobs(jobs: Jobs, n_workers: int) -> None:
    """Raise if there are no workers, and jobs are rejected, or start but bring no workers."""
    if n_workers:
        jobs.barren.clear()
        return
    # Jobs are submitted one by one: others may be accepted.
    if jobs.refusal and not jobs.accepted and time.monotonic() - jobs.refused > _REFUSAL_SECONDS:
        raise WorkerError(
            f"{jobs.system} has rejected the job: {jobs.refusal}; correct its options, then run the "
            "same command again."
        )
    # One bad node must not end a run whose other jobs have just begun.
    if jobs.barren and time.monotonic() - jobs.barren[0][1] > jobs.patience:
        last_lines = [(path, _last_line(path)) for path in jobs.logs_of(jobs.barren[-1][0])]
        path, line = next((pair for pair in reversed(last_lines) if pair[1]), (jobs.logs, "nothing"))
        network = f" through the interface {jobs.interface}" if jobs.interface else ""
        raise WorkerError(
            f"A job of {jobs.system} has started, but in {jobs.patience:.0f} s no worker has reached the "
            f"scheduler{network}; the last line in {path} is: {line}"
        )


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
