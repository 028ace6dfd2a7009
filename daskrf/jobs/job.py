"""How every command runs: lock, plan, check, make what is missing, finish.

A whole run is share 0/1 of its job plus the finish. A command only defines its `Job`; it knows nothing of
locks, shards, retries, run logs or memory limits.
"""

from __future__ import annotations

import functools
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import ClassVar, Generic, TypeVar, cast

from distributed import Client

from daskrf.errors import InputError, MemoryLimitError, OtherPlanError, StoreError
from daskrf.files.backend import (
    absent_parents,
    as_path,
    backend,
    exists,
    free_bytes,
    is_file,
    remove_empty,
    remove_quietly,
)
from daskrf.files.disk import file_errors, is_work_folder, work_folder
from daskrf.jobs import memory
from daskrf.jobs.memory import MemoryNeed
from daskrf.jobs.pieces import Pieces
from daskrf.jobs.shards import PLAN, WHOLE, Counts, Share, agree, taken_share
from daskrf.quantities import format_bytes
from daskrf.storage.lock import LOCK_FILE
from daskrf.storage.runlog import RunLog, first_sentence, seconds_of
from daskrf.storage.stores.store import Store
from daskrf.workers.clusters import worker_memory
from daskrf.workers.progress import Progress, Recorded

Report = TypeVar("Report")

_LITTLE_WORK = 600.0  # seconds, all tasks together: an unfinished store that took longer is not discarded


@dataclass(frozen=True)
class Disk:
    """Bytes that all shards of a job together, or a whole run, leave at `path`; `what` names them."""

    path: PurePath
    what: str
    shards: int
    whole: int


@dataclass(frozen=True)
class Need:
    """Upper bounds on what a job needs; each is None if it needs nothing or is known to be available.

    Attributes
    ----------
    worker : MemoryNeed, optional
        For each worker that makes pieces, or for this program if it makes them itself.
    held : (str, int), optional
        Name and bytes of what this program also holds if it makes the pieces itself.
    here : MemoryNeed, optional
        For this program before or after the pieces are made.
    finish : MemoryNeed, optional
        For this program once all pieces are made, in a whole run.
    disk : Disk, optional
    """

    worker: MemoryNeed | None = None
    held: tuple[str, int] = ("", 0)
    here: MemoryNeed | None = None
    finish: MemoryNeed | None = None
    disk: Disk | None = None


class Job(ABC, Generic[Report]):
    """The work of a command; `run` calls the methods in this order.

    Attributes
    ----------
    name : str
        Name of the command.
    keeps_work : bool
        Whether a failed run leaves work files that the next one can use.
    output : Path
        The store or file to make. The run log and the folder of unfinished work are beside it.
    """

    name: ClassVar[str]
    keeps_work: ClassVar[bool] = True
    output: PurePath

    @property
    def locked(self) -> PurePath:
        """Folder that holds the locks."""
        return self.output

    @abstractmethod
    def plan(self, run: Run) -> None:
        """Prepare: read, scan, join, fit a map. Nothing is written to the output."""

    def need(self) -> Need:
        """Return what the job needs; `run` checks that it is available."""
        return Need()

    @abstractmethod
    def pieces(self, run: Run) -> Sequence[Pieces]:
        """Write the plan, or check it against the existing one, and return the pieces of the job."""

    @abstractmethod
    def finish(self, run: Run, made: int) -> Report:
        """Combine, solve, write and report, once all pieces exist, of which this run made `made`."""


@dataclass
class Run:
    """One run of a job, with what its steps need from `daskrf.jobs`.

    Attributes
    ----------
    output : Path
        Output of the job.
    here : int
        Bytes of the libraries loaded in this program, measured before anything is read, to avoid counting
        data twice.
    """

    output: PurePath
    share: Share = WHOLE
    client: Client | None = None
    progress: Progress = field(default_factory=Progress)
    start: float = field(default_factory=time.monotonic)
    here: int = field(default_factory=lambda: memory.libraries_of(None))

    @property
    def seconds(self) -> float:
        """Seconds since the run started."""
        return time.monotonic() - self.start

    @property
    def work(self) -> PurePath:
        """Folder where runs leave work for later ones until the output is complete."""
        return work_folder(self.output)

    @functools.cached_property
    def libraries(self) -> int:
        """Bytes of loaded libraries: the maximum over the workers, or in this program."""
        return self.here if self.client is None else memory.libraries_of(self.client)

    def check(self, *needs: Need) -> None:
        """Raise an error if something would not fit into memory or on disk.

        Raises
        ------
        MemoryLimitError
            Gives the prediction and its parts, the limit, and what would fit.
        """
        for need in needs:
            if need.worker is not None:
                where = "a worker" if self.client else "this machine"
                worker = need.worker if self.client else need.worker.plus(*need.held)
                memory.check(worker.beside(self.libraries), worker_memory(self.client), where)
            for need_here in (need.here, need.finish if self.share.whole else None):
                if need_here is not None:
                    memory.check(need_here.beside(self.here), worker_memory(None), "this machine")
            if need.disk is not None:
                n_bytes = need.disk.whole if self.share.whole else self.share.part_of(need.disk.shards)
                check_disk(need.disk.path, n_bytes, need.disk.what)

    def agree(self, spec: Mapping[str, object]) -> None:
        """Check that all shares of the job have the same specification, for jobs without a plan in a store.

        Raises
        ------
        StoreError
            If options differ; the error lists each of them.
        """
        agree(self.share, self.work / PLAN, spec)

    def makes_any(self, missing: Sequence[int]) -> bool:
        """Return whether this run makes any of the missing pieces, or prepares shards that do."""
        return bool(missing if self.share.prepare else self.share.of_all(missing))

    def make(self, pieces: Pieces) -> Counts:
        """Make the missing pieces that belong to this share."""
        return pieces.make(self.share, self.client, self.progress)


def run(
    job: Job[Report],
    client: Client | None = None,
    progress: Progress | None = None,
) -> Report:
    """Run a job; the other arguments are common to all commands.

    Within `daskrf.jobs.shards.sharing` only a share of the job is made.

    Returns
    -------
    Report
        What `job.finish` returns. A share ends before that, with a `ShardReport` in its place, which
        only `run_shard` and `prepare_shards` see, and return as such.

    Raises
    ------
    InputError
        If a client is given for a shard.
    """
    with taken_share() as share:
        if share.shard is not None and client is not None:
            raise InputError("A shard runs without a cluster; give a client or a shard, not both.")
        return _run(job, share, client, progress)


def _run(job: Job[Report], share: Share, client: Client | None, progress: Progress | None) -> Report:
    start = time.monotonic()
    with (
        _logged(job, share, client, progress or Progress()) as recorded,
        share.lock(job.locked, job.name, recorded.note),
    ):
        this_run, done = Run(job.output, share, client, recorded, start), False
        try:
            pieces = _planned(job, this_run)
            recorded.begun = True
            counts = sum(map(this_run.make, pieces), Counts())
            if not share.whole:
                return cast(Report, share.report(job.output, pieces[0].unit, counts, this_run.seconds))
            report = job.finish(this_run, counts.made)
            done = True
            return report
        finally:
            if share.whole and (done or not job.keeps_work):
                remove_quietly(this_run.work)


def _planned(job: Job[Report], run: Run) -> Sequence[Pieces]:
    """Plan a job and return its pieces, after discarding leftovers of a run with other input or options."""
    while True:
        try:
            job.plan(run)
            run.check(job.need())
            return job.pieces(run)
        except OtherPlanError as error:
            if error.path is None or not run.share.whole or not _is_leftover(error.path):
                raise
            leftover = f"{error.path} is left from an unfinished run with other input or options"
            run.progress.note(f"{leftover}; it is made again.")
            _clear(error.path)


def _is_leftover(path: PurePath) -> bool:
    """Return whether a store may be discarded: intermediate, empty, or unfinished after little work.

    A store that shards may be writing must stay.
    """
    work = next((each for each in path.parents if is_work_folder(each)), None)
    if work is not None:
        return not is_file(work / PLAN)
    try:
        store = Store.open(path)
        counts, pending = store.counts(), store.pending()
    except StoreError:
        return False
    if not counts.get("kept"):
        return True
    seconds = seconds_of(path)
    return bool(pending) and seconds is not None and seconds < _LITTLE_WORK


def _clear(folder: PurePath) -> None:
    """Delete the contents of a folder, except for locks: this run holds one."""
    for name in backend(folder).names(folder):
        if not name.startswith(LOCK_FILE):
            remove_quietly(folder / name)


@contextmanager
def _logged(job: Job[Report], share: Share, client: Client | None, progress: Progress) -> Iterator[Recorded]:
    """Yield a `Progress` that also writes a run log; a run refused before any work leaves no files."""
    work = work_folder(job.output)
    with file_errors("read", job.output):
        absent = [path for path in (work, job.output) if not exists(path)] + absent_parents(job.output)
    dashboard = getattr(client, "dashboard_link", None) or None
    log = RunLog(job.output, job.name, shard=share.name, dashboard=dashboard, on_failure=progress.note)
    recorded = Recorded(progress, log)
    try:
        yield recorded
        log.finish()
    except BaseException as error:
        log.stop("It was interrupted." if isinstance(error, KeyboardInterrupt) else first_sentence(error))
        if _is_refusal(error) and not recorded.begun:
            log.discard()
            if share.whole and work in absent and not any("map-of-" in n for n in backend(work).names(work)):
                remove_quietly(work)
            remove_empty(absent)
        raise
    finally:
        log.close()


def _is_refusal(error: BaseException) -> bool:
    """Return whether an error means that the request is invalid, unlike, for example, a failing disk."""
    return isinstance(error, (InputError, StoreError, MemoryLimitError)) and not getattr(error, "errno", None)


def check_disk(path: str | os.PathLike[str], n_bytes: int, what: str) -> None:
    """Raise an error if `n_bytes` would not fit on the disk of `path`, which need not exist yet.

    Files that an earlier run left there count towards `n_bytes`.

    Raises
    ------
    MemoryLimitError
        Gives the prediction and the free space.
    """
    path = as_path(path)
    free = free_bytes(path)  # None if the storage does not report it
    if free is not None and n_bytes > free and n_bytes - sum(backend(path).sizes(path).values()) > free:
        raise MemoryLimitError(
            f"{what.capitalize()} would take {format_bytes(n_bytes)} in {path}, where {format_bytes(free)} "
            "are free; make room, or give another output path."
        )
