"""Complete a store partition by partition: what lacks a valid commit record is made, nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from distributed import Client

from daskrf.errors import WorkerError
from daskrf.jobs.clusters import worker_threads
from daskrf.jobs.execution import Task, run_tasks
from daskrf.jobs.progress import Progress
from daskrf.jobs.shards import ShardReport, Share
from daskrf.jobs.stopping import check_stop
from daskrf.jobs.threads import ONE_BLAS_THREAD
from daskrf.storage.files import crc32c_of
from daskrf.storage.plans import hash_of
from daskrf.storage.records import CommitRecord
from daskrf.storage.store import Store

__all__ = ["PartitionStage", "complete", "complete_share", "group_by_rows", "rows_of_task"]

_TASK_SECONDS = 30.0  # a task's aim: long against the scheduler's milliseconds, short against a walltime
_TASKS_A_THREAD = 4  # at least, so that threads end together and progress is seen


class PartitionStage(Protocol):
    """Makes one partition of a store from its inputs; a small frozen object that travels in each task."""

    @property
    def name(self) -> str:
        """What the stage is called in progress bars and task keys."""

    @property
    def path(self) -> str:
        """Directory of the store."""

    @property
    def seconds_per_row(self) -> float:
        """Rough cost of a row on one core, from which tasks are sized."""

    def process(self, partition: int) -> CommitRecord:
        """Make, write and commit `partition`, and return its record."""


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
    """Return about how many of `total` rows a task shall take."""
    share = -(-total // (_TASKS_A_THREAD * worker_threads(client)))
    return max(1, min(share, int(_TASK_SECONDS / seconds_per_row)))


def complete(
    stage: PartitionStage,
    store: Store,
    rows: Sequence[int],
    *,
    client: Client | None = None,
    progress: Progress | None = None,
) -> int:
    """Make every partition of `store` that has no valid commit record; return how many were made.

    The caller holds the store's lock.

    Parameters
    ----------
    stage : PartitionStage
        Makes one.
    store : Store
        Knows what is pending.
    rows : sequence of int
        Rows of each partition of the store, by which tasks are sized.
    """
    progress = progress or Progress()
    pending = store.pending()
    if len(pending) < store.n_partitions:
        progress.note(f"{stage.name}: {store.n_partitions - len(pending)} partitions are done already.")
    _make(pending, stage, store, rows, client, progress)
    _check_done(store, store.pending())
    store.clean(finished=True)  # what killed workers left half written, on other hosts too
    return len(pending)


def complete_share(
    share: Share,
    stage: PartitionStage,
    store: Store,
    rows: Sequence[int],
    *,
    start: float,
    progress: Progress | None = None,
) -> ShardReport:
    """Make those of the missing partitions that are a shard's; nothing that others use is deleted.

    Parameters
    ----------
    share : Share
        The shard, or the preparation, which makes none.
    stage, store, rows
        As for `complete`.
    start : float
        When the command began, of `time.monotonic`.
    """
    pending = share.of_all(store.pending())
    _make(pending, stage, store, rows, None, progress or Progress())
    missing = store.pending()
    _check_done(store, share.of_all(missing))
    pieces = share.pieces(store.n_partitions, len(pending), missing)
    return share.report(store.path, "partitions", pieces, start)


def _make(
    pending: Sequence[int],
    stage: PartitionStage,
    store: Store,
    rows: Sequence[int],
    client: Client | None,
    progress: Progress,
) -> None:
    """Make the partitions `pending`, which may be none."""
    sizes = [(p, rows[p]) for p in pending]
    total = sum(size for _, size in sizes)
    groups = group_by_rows(sizes, rows_of_task(total, stage.seconds_per_row, client))
    progress.start(stage.name, total, "rows")
    tasks = (Task(_key(stage, store, g), (stage, g), sum(rows[p] for p in g)) for g in groups)
    for task, _ in run_tasks(_process_group, tasks, client, progress):
        progress.advance(task.rows)
    progress.finish()


def _key(stage: PartitionStage, store: Store, group: tuple[int, ...]) -> str:
    """Name a task by all that it does: Dask takes two tasks of one key for the same."""
    digest = hash_of([str(store.path.resolve()), store.spec_hash, list(group)])
    return f"daskrf-{stage.name}-{digest[:16]}-{group[0]}-{group[-1]}"


def _check_done(store: Store, pending: Sequence[int]) -> None:
    """Refuse to go on if workers say that they are done and their files are not here."""
    if pending:
        raise WorkerError(
            f"{len(pending)} of {store.n_partitions} partitions are not in {store.path} although the workers "
            "have made them: give a path that all workers and this process share."
        )


def _process_group(stage: PartitionStage, partitions: tuple[int, ...]) -> str:
    """Make some partitions; return the CRC32C of their commit records, one after the other."""
    store, records = Store.open(stage.path), []
    with ONE_BLAS_THREAD:
        for partition in partitions:
            check_stop()
            # The worker that had this group before may have died with some of it done.
            record = store.committed(partition) or stage.process(partition)
            records.append(record.to_json())
    return crc32c_of(b"".join(records))
