"""The pieces of a job: partitions of a store, each with a commit record, or leaves of a tree of sums.

Only pieces without a record or checkpoint are made: a second run finishes the work of the first, and shards
of a job make disjoint sets of pieces.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, cast

from distributed import Client

from daskrf.blas import ONE_BLAS_THREAD
from daskrf.errors import StoreError, WorkerError
from daskrf.files.backend import absolute, as_path
from daskrf.files.disk import crc32c_of
from daskrf.jobs.shards import WHOLE, Counts, Share
from daskrf.quantities import amount
from daskrf.storage.stores.store import CommitRecord, Store, hash_of
from daskrf.workers.calls import check_stop
from daskrf.workers.clusters import worker_threads
from daskrf.workers.execution import Result, Task, run_tasks
from daskrf.workers.progress import Progress

AnyStore = TypeVar("AnyStore", bound=Store)

_TASK_SECONDS = 30.0  # target per task: long compared with scheduling (ms), short compared with job limits
_TASKS_A_THREAD = 4  # at least, so that threads finish together and progress is visible


class Pieces(Protocol):
    """The pieces of a job."""

    @property
    def unit(self) -> str:
        """Plural name of a piece in reports."""

    def make(
        self, share: Share = WHOLE, client: Client | None = None, progress: Progress | None = None
    ) -> Counts:
        """Make the missing pieces that belong to the share; the caller holds the job's lock."""


class Maker(Protocol):
    """Makes one partition of a store from its inputs; a small frozen object sent with each task."""

    @property
    def name(self) -> str:
        """Name of the command in progress bars and task keys."""

    @property
    def path(self) -> str:
        """Directory of the store."""

    @property
    def seconds_per_row(self) -> float:
        """Approximate cost of a row on one core, used to size tasks."""

    def make(self, partition: int) -> CommitRecord:
        """Make, write and commit `partition`; return its record."""


def opened(kind: type[AnyStore], path: str, spec_hash: str) -> AnyStore:
    """Return the store at `path`, which must have this `spec_hash`; its plan is read once per worker."""
    store = _opened(cast(Hashable, kind), path, spec_hash)
    assert isinstance(store, kind)
    return store


@functools.lru_cache(maxsize=8)
def _opened(kind: type[Store], path: str, spec_hash: str) -> Store:
    store = kind.open(as_path(path))
    if store.spec_hash != spec_hash:
        raise StoreError(f"{path} was replaced during the run; run the same command again.")
    return store


@dataclass(frozen=True)
class Done:
    """The pieces of a result that already exists: nothing is left to make."""

    total: int
    unit: str

    def make(
        self, share: Share = WHOLE, client: Client | None = None, progress: Progress | None = None
    ) -> Counts:
        return share.counts(self.total)


@dataclass(frozen=True)
class Partitions:
    """All partitions of a store; `rows` gives the rows of each, used to size tasks."""

    maker: Maker
    store: Store
    rows: Sequence[int]
    unit: str = "partitions"

    def make(
        self, share: Share = WHOLE, client: Client | None = None, progress: Progress | None = None
    ) -> Counts:
        """Make the missing partitions; a whole run also deletes half-written files of killed workers.

        Raises
        ------
        WorkerError
            If the workers wrote elsewhere.
        """
        progress, store, name = progress or Progress(), self.store, self.maker.name
        pending = store.pending()
        if share.whole and len(pending) < store.n_partitions:
            progress.note(f"{name}: {store.n_partitions - len(pending)} partitions are done already.")
        mine = share.of_all(pending)
        sizes = [(p, self.rows[p]) for p in mine]
        total = sum(size for _, size in sizes)
        groups = group_by_rows(sizes, rows_of_task(total, self.maker.seconds_per_row, client))
        progress.start(name, total, "rows")
        submit(_make_group, (self._task(group) for group in groups), client, progress)
        progress.finish()
        missing = store.pending()
        if lost := share.of_all(missing):
            raise WorkerError(
                f"{len(lost)} of {store.n_partitions} partitions are missing in {store.path} although the "
                "workers have made them; give a path that all workers and this machine share."
            )
        if share.whole:
            store.clean(finished=True)
        return share.counts(store.n_partitions, len(mine), missing)

    def _task(self, group: tuple[int, ...]) -> Task:
        """Return a task keyed by everything it does: Dask treats tasks with equal keys as the same."""
        digest = hash_of([absolute(self.store.path), self.store.spec_hash, list(group)])
        key = f"daskrf-{self.maker.name}-{digest[:16]}-{group[0]}-{group[-1]}"
        return Task(key, (self.maker, group), sum(self.rows[p] for p in group))


def _make_group(maker: Maker, partitions: tuple[int, ...]) -> str:
    """Make some partitions; return the CRC32C of their concatenated commit records."""
    store, records = Store.open(as_path(maker.path)), []
    with ONE_BLAS_THREAD:
        for partition in partitions:
            check_stop()
            # Another worker may have died after making some of this group.
            record = store.committed(partition) or maker.make(partition)
            records.append(record.to_json())
    return crc32c_of(b"".join(records))


def submit(
    function: Callable[..., Result],
    tasks: Iterable[Task],
    client: Client | None,
    progress: Progress,
    then: Callable[[Task, Result], None] = lambda task, result: None,
) -> None:
    """Run tasks and count their rows as they finish; `then` is called with each task and its result."""
    for task, result in run_tasks(function, tasks, client, progress):
        then(task, result)
        progress.advance(task.rows)


def found_words(made: int, total: int) -> list[str]:
    """Return the report line on partitions that already existed, if there were any."""
    return [f"  already done: {total - made:,} of {amount(total, 'partitions')}"] if made < total else []


def group_by_rows(rows: Sequence[tuple[int, int]], target: int) -> list[tuple[int, ...]]:
    """Cut (partition, rows) pairs, in order, into groups of about `target` rows.

    Examples
    --------
    >>> group_by_rows([(0, 60), (1, 60), (2, 60), (5, 200), (6, 10)], 120)
    [(0, 1), (2,), (5,), (6,)]
    """
    groups: list[tuple[int, ...]] = []
    members: list[int] = []
    total = 0
    for partition, count in rows:
        if members and total + count > target:
            groups.append(tuple(members))
            members, total = [], 0
        members.append(partition)
        total += count
    if members:
        groups.append(tuple(members))
    return groups


def rows_of_task(total: int, seconds_per_row: float, client: Client | None) -> int:
    """Return about how many of `total` rows a task should process."""
    share = -(-total // (_TASKS_A_THREAD * worker_threads(client)))
    return max(1, min(share, int(_TASK_SECONDS / seconds_per_row)))
