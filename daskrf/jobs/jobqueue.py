"""Workers as jobs of a batch system, and a cluster that replaces what it loses."""

from __future__ import annotations

import importlib
import math
import os
import re
import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import dask
import psutil
from distributed import Client, Scheduler
from distributed.core import Status
from distributed.deploy.adaptive import Adaptive
from distributed.diagnostics.plugin import SchedulerPlugin

from daskrf.errors import InputError
from daskrf.jobs.cluster import (
    CONFIG,
    Jobs,
    QueuedClient,
    dashboard_address,
    dashboard_config,
    local_cluster,
)
from daskrf.jobs.clusterfile import KINDS, ClusterFile, configured, read_cluster_file

__all__ = ["jobqueue_cluster"]

_IDLE_SECONDS = 60  # before an adaptive cluster gives a job back: a queue is slow to give it again
_GONE_SECONDS = 60.0  # a job without any of its workers for so long is lost: a nanny starts them anew
_ASK_SECONDS = 15.0  # between two questions which jobs there are
_REFUSED_SECONDS = 30.0  # between two tries of a submission that the batch system has refused


@contextmanager
def jobqueue_cluster(file: str | Path | ClusterFile) -> Iterator[Client]:
    """Start a scheduler here and workers as jobs of a batch system, and yield a client.

    The jobs are submitted when there is work, and cancelled at the end. A job that is lost (killed, out
    of time, its node down) is submitted again, for a fixed number of workers too.

    Parameters
    ----------
    file : str, Path or ClusterFile
        A YAML file as described in ``cluster/README.md``.

    Yields
    ------
    distributed.Client

    Raises
    ------
    InputError
        If the file cannot be used, dask-jobqueue is not installed, or this machine cannot submit jobs.

    Examples
    --------
    >>> import daskrf
    >>> with daskrf.jobqueue_cluster("cluster/slurm.yaml") as client:  # doctest: +SKIP
    ...     daskrf.fingerprint(["REAL_*.cxsmiles.bz2"], "real.fingerprints", client=client)
    """
    file = file if isinstance(file, ClusterFile) else read_cluster_file(file)
    if file.kind == "local":
        with local_cluster(file.maximum, file.memory) as client:
            yield client
        return
    link = {} if "dashboard_address" in _scheduler_options(file) else dashboard_config()
    with dask.config.set(CONFIG | link):
        processes = file.options["processes"]
        minimum, maximum = (math.ceil(n / processes) * processes for n in (file.minimum, file.maximum))
        threads, logs = file.options["cores"] // processes, Path(file.options["log_directory"])
        jobs = Jobs(
            system=KINDS[file.kind].title,
            maximum=maximum * threads,
            memory=(file.memory or 0) // threads,
            logs=logs,
            interface=configured(file.kind, file.options, "interface"),
        )
        wait = file.wait or dask.config.get("daskrf.wait-for-workers", None)
        jobs.patience = float(wait or jobs.patience)
        with _cluster(file, jobs) as cluster:
            cluster.adapt(
                Adaptive=_Keeper,
                minimum=minimum,
                maximum=maximum,
                wait_count=_IDLE_SECONDS,
                # A waiting task, of which Dask assumes half a second, is worth a worker.
                target_duration="500ms",
                jobs=jobs,
                listing=KINDS[file.kind].listing,
            )
            with QueuedClient(cluster, jobs=jobs) as client:
                yield client


def _cluster(file: ClusterFile, jobs: Jobs) -> Any:
    """Return dask-jobqueue's cluster, with no job yet."""
    kind = KINDS[file.kind]
    try:
        module = importlib.import_module("dask_jobqueue")
    except ImportError as error:
        raise InputError(
            f"{kind.title} needs dask-jobqueue; install it by pip install 'daskrf[slurm]'."
        ) from error
    cluster = getattr(module, kind.cluster)
    command = cluster.job_cls.submit_command
    if shutil.which(command) is None:
        raise InputError(
            f"There is no {command} on this machine, so no job can be submitted to {kind.title}; start "
            "daskrf on a login node, or in one job of several nodes (cluster/daskrf-slurm.sbatch)."
        )
    _check_interfaces(file)
    options = file.options | {"job_script_prologue": _prologue(file), "worker_extra_args": _arguments(file)}
    options["scheduler_options"] = {"dashboard_address": dashboard_address()} | _scheduler_options(file)
    try:
        return cluster(job_cls=_recording(cluster.job_cls, jobs), silence_logs=50, **options)
    except (ValueError, RuntimeError, OSError) as error:
        what = " ".join(str(error).split())
        raise InputError(f"dask-jobqueue cannot set up a cluster of {kind.title}: {what}") from error


def _check_interfaces(file: ClusterFile) -> None:
    scheduler = _scheduler_options(file)
    name = scheduler.get("interface", configured(file.kind, file.options, "interface"))
    if name is not None and "host" not in scheduler and name not in psutil.net_if_addrs():
        raise InputError(
            f"There is no network interface {name} on this machine, which has "
            f"{', '.join(sorted(psutil.net_if_addrs()))}; set interface (of all), or scheduler_options with "
            "interface (of this machine only)."
        )


def _scheduler_options(file: ClusterFile) -> dict[str, Any]:
    return dict(configured(file.kind, file.options, "scheduler_options") or {})


def _arguments(file: ClusterFile) -> list[str]:
    """Return the arguments of a worker: the user's, and, unless they say otherwise, no dashboard of its own.

    It would listen to all networks, and the scheduler's shows all workers.
    """
    given = [str(text) for text in configured(file.kind, file.options, "worker_extra_args") or []]
    return given if any("dashboard" in text for text in given) else [*given, "--no-dashboard"]


def _prologue(file: ClusterFile) -> list[str]:
    """Return the lines before the worker: the user's between ours, which set it up and check it."""
    lines = [f"cd {shlex.quote(os.getcwd())}"]  # PBS and SGE start jobs elsewhere
    lines += [f"export {_variable(key)}={shlex.quote(str(value))}" for key, value in CONFIG.items()]
    lines += [str(line) for line in configured(file.kind, file.options, "job_script_prologue") or []]
    spill = configured(file.kind, file.options, "local_directory")
    if spill is not None:
        # Without quotes, as in the worker's command, so that the job's own shell puts in $TMPDIR.
        lines.append(
            f'spill={spill}; [ -d "$spill" ] && [ -w "$spill" ] || {{ echo "the spill directory '
            "'$spill' (local_directory) does not exist or cannot be written on $(hostname)\" >&2; exit 1; }"
        )
    return lines


def _variable(key: str) -> str:
    """Return the environment variable by which a Dask setting reaches another process.

    Examples
    --------
    >>> _variable("distributed.worker.memory.terminate")
    'DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE'
    """
    return f"DASK_{key.replace('.', '__').replace('-', '_').upper()}"


def _recording(job_class: Any, jobs: Jobs) -> Any:
    """Return dask-jobqueue's class of a job, made to note what becomes of it.

    dask-jobqueue takes a job that was refused for one that waits in the queue, and says nothing.
    """

    class RecordedJob(job_class):
        refused = False

        async def _submit_job(self, script_filename: str) -> Any:
            try:
                return await super()._submit_job(script_filename)
            except RuntimeError as error:
                self.refused = True
                self.status = Status.failed  # else the cluster cannot be closed
                jobs.refusal, jobs.refused = _reason(str(error)), time.monotonic()
                raise

        async def start(self) -> None:
            await super().start()
            jobs.accepted.add(str(self.job_id))
            jobs.refusal = ""

        async def close(self) -> None:
            jobs.accepted.discard(str(self.job_id))
            await super().close()

    RecordedJob.__name__ = job_class.__name__
    return RecordedJob


def _reason(text: str) -> str:
    """Return the last line that a batch system printed, of what dask-jobqueue reports.

    Examples
    --------
    >>> _reason("Command exited with non-zero exit code.\\nstdout:\\n\\nstderr:\\nno such queue\\n")
    'no such queue'
    """
    printed = text.partition("stdout:")[2].replace("stderr:", "", 1) or text
    return next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "no reason given")


class _Arrivals(SchedulerPlugin):
    """Remembers the names of all workers that have come, however soon they left."""

    def __init__(self) -> None:
        self.names: set[Any] = set()

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        self.names.add(scheduler.workers[worker].name)


class _Keeper(Adaptive):
    """Dask's adaptive scaling in whole jobs, which submits again what was lost.

    Dask drops a job when its last worker has gone, but knows the workers of a job of several processes
    by other names than the job's, and then keeps waiting for them. Of a job that ended before a worker of it
    came Dask knows nothing.
    """

    def __init__(self, *arguments: Any, jobs: Jobs, listing: tuple[str, ...], **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._cluster = cast(Any, self.cluster)  # a SpecCluster
        self._jobs, self._listing = jobs, listing
        self._arrivals = _Arrivals()
        self._cluster.scheduler.add_plugin(self._arrivals)
        self._since: dict[Any, float] = {}
        self._asked = time.monotonic()
        self._ended: set[str] = set()

    async def safe_target(self) -> int:
        """Return how many workers there should be, rounded up to whole jobs."""
        target = await super().safe_target()
        processes = max((len(s.get("group", "1")) for s in self._cluster.worker_spec.values()), default=1)
        return -(-target // processes) * processes

    async def recommendations(self, target: int) -> dict[str, Any]:
        """Drop the jobs that are lost; what is planned but not there is then submitted by Dask."""
        absent = {name: job for name, job in self._cluster.workers.items() if not self._is_there(name)}
        if absent:
            await self._ask()
        begun = _numbers_in(self._jobs.logs) if absent else set()
        now = time.monotonic()
        for name in set(self._since) - set(absent):
            del self._since[name]
        for name, job in absent.items():
            came = bool(self._workers(name) & self._arrivals.names)
            if job.refused:
                patience = _REFUSED_SECONDS
            elif job.job_id in self._ended:
                patience = 0.0
            elif came:
                patience = _GONE_SECONDS
            elif job.job_id in begun:
                patience = self._jobs.patience
            else:  # it waits in the queue, maybe for days
                self._since.pop(name, None)
                continue
            since = self._since.setdefault(name, now)
            if now - since >= patience:
                if job.job_id in begun and not came:
                    self._jobs.barren.append((job.job_id, since))
                self._arrivals.names -= self._workers(name)
                del self._since[name], self._cluster.workers[name]
                await job.close()
        result: dict[str, Any] = await super().recommendations(target)
        return result

    def _workers(self, name: Any) -> set[str]:
        """Return the names of the workers of a job."""
        group = self._cluster.worker_spec.get(name, {}).get("group", [""])
        return {f"{name}{suffix}" for suffix in group}

    def _is_there(self, name: Any) -> bool:
        return bool(self._workers(name) & self.observed)

    async def _ask(self) -> None:
        """Ask the batch system, now and then, which jobs it still has; it may not tell."""
        if not self._listing or time.monotonic() - self._asked < _ASK_SECONDS:
            return
        self._asked = time.monotonic()
        submitted = {job.job_id for job in self._cluster.workers.values() if job.job_id}
        try:
            said = await self._cluster.job_cls._call(list(self._listing))
        except (RuntimeError, OSError):
            submitted, said = set(), ""
        self._ended = submitted - set(re.findall(r"\d+", said))


def _numbers_in(logs: Path) -> set[str]:
    """Return the numbers in the names of what jobs print to: theirs, of those that have begun to print."""
    try:
        return {number for path in logs.iterdir() for number in re.findall(r"\d+", path.name)}
    except OSError:
        return set()
