"""A cluster whose scheduler, workers and driver are processes of their own, to tell what each costs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from common import HERE
from counter import TaskCounter, counts
from distributed import Client

from daskrf.workers.clusters import connect
from daskrf.workers.progress import Progress

__all__ = ["Cluster", "Cost", "Times", "start_cluster", "tasks_counted"]

_START_SECONDS = 120.0


def tasks_counted(client: Client) -> dict[str, int]:
    """Return what the scheduler's `TaskCounter` has counted."""
    return client.run_on_scheduler(counts)


@dataclass
class Cost:
    """CPU seconds of a process over some work, and its peak memory in MiB."""

    cpu_s: float
    peak_mib: float


@dataclass
class Cluster:
    """A client, and the processes behind it by role: "driver" (this one), "scheduler", "worker 0" ..."""

    client: Client
    processes: dict[str, psutil.Process] = field(default_factory=dict)

    @contextmanager
    def measured(self) -> Iterator[dict[str, Cost]]:
        """Fill a dict with the cost of each process while the block runs (peaks on Linux only)."""
        costs: dict[str, Cost] = {}
        before = {role: _cpu(process) for role, process in self.processes.items()}
        for process in self.processes.values():
            # Makes the peak of the process start anew.
            with suppress(OSError):
                Path(f"/proc/{process.pid}/clear_refs").write_text("5")
        yield costs
        for role, process in self.processes.items():
            costs[role] = Cost(_cpu(process) - before[role], _peak(process))


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _peak(process: psutil.Process) -> float:
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        return process.memory_info().rss / 2**20
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 2**10


class Times(Progress):
    """Keeps the seconds of each stage of a driver, and what it says."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.notes: list[str] = []

    def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        """Begin a stage."""
        self._stage, self._since = stage, time.perf_counter()

    def note(self, text: str) -> None:
        """Keep a sentence."""
        self.notes.append(text)

    def finish(self, text: str = "") -> None:
        """End the stage."""
        elapsed = time.perf_counter() - self._since
        self.seconds[self._stage] = self.seconds.get(self._stage, 0.0) + elapsed


def environment() -> dict[str, str]:
    """Return the environment of a process that shall find this folder and the package of this process."""
    folders = [str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH", "")]
    # The settings of daskrf.local_cluster, as far as they concern processes of their own.
    settings = {
        "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "10",
        "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    }
    return {**os.environ, **settings, "PYTHONPATH": os.pathsep.join(filter(None, folders))}


@contextmanager
def start_cluster(work: Path, worker_commands: list[list[str]], n_workers: int) -> Iterator[Cluster]:
    """Start a scheduler and the processes of workers; yield when `n_workers` workers have come.

    Parameters
    ----------
    work : Path
        Folder for the scheduler file, logs, and what workers spill.
    worker_commands : list of list of str
        Arguments of each Python process that holds workers; the scheduler file is added.
    n_workers : int
    """
    file = work / "scheduler.json"
    file.unlink(missing_ok=True)
    scheduler = ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--no-show"]
    scheduler += ["--dashboard-address", ":0", "--no-jupyter"]
    started: list[subprocess.Popen[bytes]] = []
    try:
        started.append(_start(work, "scheduler", [*scheduler, "--scheduler-file", str(file)]))
        _await(lambda: file.exists() and bool(_address(file)), "the scheduler")
        for i, command in enumerate(worker_commands):
            started.append(_start(work, f"worker-{i}", [*command, "--scheduler-file", str(file)]))
        with connect(scheduler_file=file) as client:
            client.register_plugin(TaskCounter())
            client.wait_for_workers(n_workers, timeout=_START_SECONDS)
            names = ["scheduler", *(f"worker {i}" for i in range(len(worker_commands)))]
            found = dict(zip(names, (psutil.Process(p.pid) for p in started), strict=True))
            yield Cluster(client, {"driver": psutil.Process(), **found})
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(work: Path, name: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    with (work / f"{name}.log").open("wb") as log:
        return subprocess.Popen([sys.executable, *arguments], stdout=log, stderr=log, env=environment())


def _address(file: Path) -> str:
    with suppress(ValueError, KeyError):
        return str(json.loads(file.read_text())["address"])
    return ""


def _await(ready: Callable[[], bool], what: str) -> None:
    limit = time.monotonic() + _START_SECONDS
    while not ready():
        if time.monotonic() > limit:
            raise SystemExit(f"{what} did not start within {_START_SECONDS:.0f} s; see the logs")
        time.sleep(0.05)


@contextmanager
def folders_first() -> Iterator[None]:
    """Let the Python processes that are started find what this one does (see `environment`)."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = environment()["PYTHONPATH"]
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
