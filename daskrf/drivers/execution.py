"""Run many small calls with a bounded number in flight, here or on a cluster, and survive lost workers.

A task is a group of partitions worth some seconds; it leaves its result on disk and returns a
token. The scheduler never sees more than a few tasks a thread, so its cost does not grow with
the job, and a lost worker costs what it had in flight.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import dask
from distributed import Client, as_completed
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from daskrf.drivers.cluster import worker_threads
from daskrf.drivers.progress import Progress
from daskrf.errors import WorkerError

__all__ = ["Task", "run_tasks"]

_LOST = (KilledWorker, FutureCancelledError, CancelledError, CommClosedError)
_LOSSES = 10  # of one task, each after as many dead workers as the scheduler allows (10 in local_cluster)
_IO_ERRORS = 3  # of one task: a shared file system that hiccups
_WAIT_FOR_WORKERS = 300.0  # seconds; a queue may need longer: the Dask setting daskrf.wait-for-workers
_POLL = 0.01  # seconds
_POLLS_A_LOOK = 300  # polls between two looks at the number of workers


@dataclass(frozen=True)
class Task:
    """One call: `key` names it for the scheduler, `arguments` go to the function."""

    key: str
    arguments: tuple[Any, ...]


def run_tasks(
    function: Callable[..., Any],
    tasks: Iterable[Task],
    client: Client | None = None,
    progress: Progress | None = None,
) -> Iterator[tuple[Task, Any]]:
    """Call `function` on the arguments of every task and yield (task, result) as they finish.

    Without a client the calls are made here, in order. With one, at most two tasks a thread are
    in flight; tasks of lost workers are submitted again; an error of the data or the
    specification ends the run at once, with the other tasks in flight cancelled.

    Raises
    ------
    WorkerError
        If the cluster has no workers for five minutes (the Dask setting ``daskrf.wait-for-workers``, in
        seconds), or one task is lost 10 times.
    Exception
        Whatever `function` raised, after three attempts if it was an input/output error.
    """
    if client is None:
        for task in tasks:
            yield task, function(*task.arguments)
        return
    yield from _Submission(function, client, progress or Progress()).run(iter(tasks))


class _Submission:
    """The futures in flight of one `run_tasks`, and how often each task has failed."""

    def __init__(self, function: Callable[..., Any], client: Client, progress: Progress) -> None:
        self.function = function
        self.progress = progress
        self.client = client
        self.in_flight: dict[Any, Task] = {}
        self.losses: dict[str, int] = {}
        self.io_errors: dict[str, int] = {}
        self.completed = as_completed(with_results=False)
        self.patience = float(dask.config.get("daskrf.wait-for-workers", _WAIT_FOR_WORKERS))

    def run(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, Any]]:
        try:
            self._fill(tasks)
            while self.in_flight:
                self._await_any(tasks)
                future = next(self.completed)
                task = self.in_flight.pop(future)
                if future.status == "finished":
                    result = future.result()
                    future.release()
                    self._fill(tasks)
                    yield task, result
                else:
                    self._resubmit(task, self._failure(future))
        finally:
            self.client.cancel(list(self.in_flight), force=True)

    def _fill(self, tasks: Iterator[Task]) -> None:
        room = 2 * worker_threads(self.client) - len(self.in_flight)
        for _ in range(room):
            task = next(tasks, None)
            if task is None:
                return
            self._submit(task)

    def _submit(self, task: Task) -> None:
        attempt = self.losses.get(task.key, 0) + self.io_errors.get(task.key, 0)
        key = f"{task.key}-attempt-{attempt}" if attempt else task.key
        future = self.client.submit(self.function, *task.arguments, key=key, pure=False)
        self.in_flight[future] = task
        self.completed.add(future)

    @staticmethod
    def _failure(future: Any) -> BaseException:
        try:
            return future.exception() or WorkerError(
                f"Task {future.key} ended without a result, most likely because the scheduler is gone; start "
                "it again and run the same command: finished work is kept."
            )
        except _LOST as error:
            return error

    def _resubmit(self, task: Task, error: BaseException) -> None:
        if isinstance(error, _LOST):
            self.losses[task.key] = self.losses.get(task.key, 0) + 1
            self.progress.note(f"Task {task.key} has killed or lost several workers; it is tried again.")
            if self.losses[task.key] > _LOSSES:
                raise WorkerError(
                    f"Task {task.key} was lost {_LOSSES} times; look into the workers' logs for what kills "
                    "them (most often memory), then run the same command again: finished work is kept."
                ) from error
        elif _may_pass(error):
            self.io_errors[task.key] = self.io_errors.get(task.key, 0) + 1
            if self.io_errors[task.key] >= _IO_ERRORS:
                raise error
        else:
            raise error
        self._submit(task)

    def _await_any(self, tasks: Iterator[Task]) -> None:
        """Wait until a task ends; meanwhile, use new workers, and give up if there are none for long.

        Tasks are submitted before there are workers, because an adaptive cluster starts none without.
        """
        seen = time.monotonic()
        polls = 0
        while not self.completed.has_ready():
            time.sleep(_POLL)
            polls += 1
            if polls % _POLLS_A_LOOK:
                continue
            if self.client.nthreads():
                seen = time.monotonic()
                self._fill(tasks)
            elif time.monotonic() - seen > self.patience:
                raise WorkerError(
                    f"The scheduler has had no workers for {self.patience:.0f} s; start some and run the "
                    "same command again: finished work is kept."
                )


def _may_pass(error: BaseException) -> bool:
    """Tell whether a failed call may work when made again: an I/O error other than a full disk."""
    lasting = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}
    number = getattr(error, "errno", None)
    return number is not None and number not in lasting
