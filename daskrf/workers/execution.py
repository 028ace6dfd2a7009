"""Run many small calls with a bounded number in flight, here or on a cluster, and survive lost workers.

A task is a group of partitions that takes some seconds; it leaves its result on disk and returns a token. The
scheduler never sees more than a few tasks per thread, so its cost does not grow with the job, and a lost
worker costs only its tasks in flight.

When `Progress.stopping` is set, no more tasks are started, running ones end after their current partition,
and `KeyboardInterrupt` is raised when the last has ended. A signal handler that sets it can limit the wait by
raising `KeyboardInterrupt` earlier.
"""

from __future__ import annotations

import errno
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from distributed import Client, as_completed
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

from daskrf.errors import DaskrfError, WorkerError
from daskrf.storage.runlog import RunLog
from daskrf.workers.calls import Outcome, call, stop_run
from daskrf.workers.clusters import ask_workers, seconds_to_wait, worker_threads
from daskrf.workers.preflight import Absence, Expected, checked_call, explained
from daskrf.workers.progress import Progress

Result = TypeVar("Result")

_LOST = (KilledWorker, FutureCancelledError, CancelledError, CommClosedError)
_LOSSES = 10  # per task, each after as many dead workers as the scheduler allows (10 in local_cluster)
_IO_ERRORS = 3  # per task: shared file systems hiccup
_POLL = 0.01  # seconds
_FETCH = 30.0  # seconds to wait for a (small) result before its worker is considered unresponsive
_AGAIN = "start it again and run the same command: finished work is kept."
_LOOK = 3.0  # seconds between checks of the workers: asking the scheduler takes a round trip


@dataclass(frozen=True)
class Task:
    """One call: the scheduler knows it by `key`, the function gets `arguments`, the run log `rows`."""

    key: str
    arguments: tuple[Any, ...]
    rows: int = 0


def run_tasks(
    function: Callable[..., Result],
    tasks: Iterable[Task],
    client: Client | None = None,
    progress: Progress | None = None,
    log: RunLog | None = None,
) -> Iterator[tuple[Task, Result]]:
    """Call `function` on the arguments of every task and yield (task, result) as they finish.

    Without a client, the calls are made here, in order. With one, at most two tasks per thread are in flight,
    and tasks of lost workers are resubmitted. An error in the data or the specification ends the run at once
    and cancels the other tasks in flight.

    Each finished task has one record in `log` (default: that of `progress`): its rows, seconds, host,
    attempt, and a digest of its output, which is the result of `function` if that is a string.

    Raises
    ------
    WorkerError
        If the cluster has no workers for five minutes (the Dask setting ``daskrf.wait-for-workers``, in
        seconds), or one task is lost 10 times.
    KeyboardInterrupt
        If `progress` was asked to stop, once all running tasks have ended.
    Exception
        Any error raised by `function`; after three attempts, if it was an input/output error.
    """
    progress = Progress() if progress is None else progress
    log = progress.log if log is None else log
    progress.stoppable = True
    try:
        if client is None:
            yield from _run_here(function, tasks, progress, log)
        else:
            yield from _Submission(function, client, progress, log).run(iter(tasks))
    finally:
        progress.stoppable = False
    if progress.stopping:
        raise KeyboardInterrupt


def _run_here(
    function: Callable[..., Result], tasks: Iterable[Task], progress: Progress, log: RunLog | None
) -> Iterator[tuple[Task, Result]]:
    for task in tasks:
        outcome = call(function, task.arguments, lambda: progress.stopping)
        if not outcome.finished:
            return
        _record(log, task, outcome, 1)
        yield task, outcome.result


def _record(log: RunLog | None, task: Task, outcome: Outcome, attempt: int) -> None:
    if log is not None:
        digest = outcome.result if isinstance(outcome.result, str) else None
        log.task(task.key, task.rows, outcome.seconds, outcome.host, digest, attempt)


class _Submission(Generic[Result]):
    """The futures in flight of one `run_tasks`, and how often each task has failed."""

    def __init__(
        self, function: Callable[..., Result], client: Client, progress: Progress, log: RunLog | None
    ) -> None:
        self.function = function
        self.progress = progress
        self.client = client
        self.log = log
        self.name = uuid.uuid4().hex
        self.in_flight: dict[Any, Task] = {}
        self.losses: dict[str, int] = {}
        self.io_errors: dict[str, int] = {}
        self.lost_workers: dict[str, int] = {}
        self.completed = as_completed(loop=client.loop)  # the default is the newest client's
        self.absence = Absence(client, seconds_to_wait(), progress.note)
        self.expected = Expected.here(log.path if log is not None and log.beside else None)
        self.looked = time.monotonic()
        self.threads = 1
        self.stop_sent = False
        self.events: deque[Any] = deque()

    def run(self, tasks: Iterator[Task]) -> Iterator[tuple[Task, Result]]:
        if self.log is not None:  # the scheduler silently moves tasks of a dead worker to others
            self.client.subscribe_topic("all", self.events.append)
        try:
            self._look()
            self._fill(tasks)
            while self._await_any(tasks):
                future = next(self.completed)
                task = self.in_flight.get(future)
                if task is None:  # withdrawn, because the run was asked to stop
                    continue
                if (outcome := self._outcome(future, future.status)) is None:
                    self.completed.add(future)  # Dask recomputes a result lost with its worker
                    continue
                self._note_losses()
                del self.in_flight[future]
                if isinstance(outcome, BaseException):
                    self._resubmit(task, outcome)
                    continue
                future.release()
                self._fill(tasks)
                if outcome.finished:
                    _record(self.log, task, outcome, self._attempt(task))
                    yield task, outcome.result
        except DaskrfError:
            raise
        except Exception as error:  # a client without a scheduler fails in many ways
            if self._is_alone:
                raise WorkerError(f"The scheduler is gone; {_AGAIN}") from error
            raise
        finally:
            if not self._is_alone:
                self.client.cancel(list(self.in_flight), force=True)
                if self.log is not None:
                    self.client.unsubscribe_topic("all")

    @property
    def _is_alone(self) -> bool:
        """Whether the client has given up on the scheduler."""
        return self.client.status in ("closing", "closed")

    def _fill(self, tasks: Iterator[Task]) -> None:
        room = 0 if self.progress.stopping else 2 * self.threads - len(self.in_flight)
        for _ in range(room):
            task = next(tasks, None)
            if task is None:
                return
            self._submit(task)

    def _submit(self, task: Task) -> None:
        attempt = self.losses.get(task.key, 0) + self.io_errors.get(task.key, 0)
        key = f"{task.key}-attempt-{attempt}" if attempt else task.key
        future = self.client.submit(
            checked_call, self.expected, self.name, self.function, task.arguments, key=key, pure=False
        )
        self.in_flight[future] = task
        self.completed.add(future)

    def _outcome(self, future: Any, status: str) -> Outcome | BaseException | None:
        """Return the outcome of a call, or the error that prevented it; None if it should be requested again.

        Fetching a result may take forever if its worker dies or freezes and no other worker can recompute it.
        So attempts are short: between them, the run checks the workers and whether to stop.
        """
        if status in ("lost", "pending"):
            return None
        try:
            if status == "finished":
                outcome: Outcome = future.result(timeout=_FETCH)
                return outcome
            error = future.exception(timeout=_FETCH)
        except TimeoutError:  # an OSError, but not a lost worker
            return None
        except (OSError, *_LOST) as lost:  # a result may also be lost in transit
            error = lost if isinstance(lost, _LOST) else CommClosedError(str(lost))
        if error is None or (isinstance(error, _LOST) and self._is_alone):
            return WorkerError(
                f"Task {future.key} ended without a result, most likely because the scheduler is gone; "
                f"{_AGAIN}"
            )
        return error

    def _resubmit(self, task: Task, error: BaseException) -> None:
        if self.log is not None:
            self.log.error(task.key, self._attempt(task), error)
        if isinstance(error, _LOST):
            self.losses[task.key] = self.losses.get(task.key, 0) + 1
            self.progress.note(f"Task {task.key} has killed or lost several workers; it is tried again.")
            if self.losses[task.key] > _LOSSES:
                raise WorkerError(
                    f"Task {task.key} was lost {_LOSSES} times; look in the workers' logs for what kills "
                    "them (most often memory), then run the same command again: finished work is kept."
                ) from error
        elif _may_pass(error):
            self.io_errors[task.key] = self.io_errors.get(task.key, 0) + 1
            if self.io_errors[task.key] >= _IO_ERRORS:
                raise error
        else:
            raise explained(error)
        if not self.progress.stopping:
            self._submit(task)

    def _attempt(self, task: Task) -> int:
        """Return how many times a task has been sent to a worker."""
        return 1 + self.lost_workers.get(task.key, 0) + self.io_errors.get(task.key, 0)

    def _note_losses(self) -> None:
        """Record the tasks of lost workers; the scheduler reports a loss before the task's next result."""
        names = {future.key: task.key for future, task in self.in_flight.items()} if self.events else {}
        while self.events:
            _, event = self.events.popleft()
            if event.get("action") != "remove-worker":
                continue
            for key in {*event["processing-tasks"], *event["lost-computed-tasks"]}:
                if self.log is not None and (name := names.get(key)) is not None:
                    self.lost_workers[name] = self.lost_workers.get(name, 0) + 1
                    self.log.lost(
                        name, self.lost_workers[name] + self.io_errors.get(name, 0), event["worker"]
                    )

    def _await_any(self, tasks: Iterator[Task]) -> bool:
        """Wait until a task ends; return False if none is in flight. Meanwhile track the number of workers.

        Tasks are submitted before there are workers, because an adaptive cluster starts none without tasks.
        """
        self._attend(tasks)
        while self.in_flight and not self.completed.has_ready():
            time.sleep(_POLL)
            self._attend(tasks)
        return bool(self.in_flight)

    def _attend(self, tasks: Iterator[Task]) -> None:
        now = time.monotonic()
        stops = self.progress.stopping and not self.stop_sent
        if now - self.looked >= _LOOK or stops:
            self._look()
            self._fill(tasks)
            if self.progress.stopping:
                self._stop()

    def _look(self) -> None:
        """Check the workers; give up if there have been none for too long."""
        self.looked = time.monotonic()
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        try:
            self.threads = worker_threads(self.client)
        except OSError:
            if self.client.status != "connecting":
                raise
            return  # the client is reconnecting, and gives up by itself
        if self.log is not None:
            self.log.workers(len(workers))
        self.absence.look(len(workers), sum(worker.get("status") == "paused" for worker in workers))

    def _stop(self) -> None:
        """Withdraw tasks that no worker has yet, and make all workers stop, including late arrivals."""
        self.stop_sent = True
        begun = {key for keys in self.client.processing().values() for key in keys}
        waiting = [future for future in self.in_flight if future.key not in begun and not future.done()]
        for future in waiting:
            del self.in_flight[future]
        self.client.cancel(waiting, force=True)
        if self.in_flight:
            ask_workers(self.client, stop_run, self.name)


def _may_pass(error: BaseException) -> bool:
    """Return whether retrying a failed call may help: after an I/O error other than a full disk."""
    lasting = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM}
    number = getattr(error, "errno", None)
    return number is not None and number not in lasting
