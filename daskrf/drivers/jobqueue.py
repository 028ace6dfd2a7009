"""Workers as jobs of a batch system, and a cluster that replaces what it loses."""

from __future__ import annotations

import importlib
import math
import os
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

from daskrf.drivers.cluster import CONFIG, Jobs, QueuedClient, local_cluster
from daskrf.drivers.clusterfile import KINDS, ClusterFile, configured, read_cluster_file
from daskrf.errors import InputError

__all__ = ["jobqueue_cluster"]

_IDLE_SECONDS = 60  # before an adaptive cluster gives a job back: a queue is slow to give it again
_GONE_SECONDS = 5.0  # a job without any of its workers for so long is taken for lost
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
    settings = CONFIG | ({} if file.wait is None else {"daskrf.wait-for-workers": file.wait})
    with dask.config.set(settings):
        processes = file.options["processes"]
        minimum, maximum = (math.ceil(n / processes) * processes for n in (file.minimum, file.maximum))
        threads, logs = file.options["cores"] // processes, Path(file.options["log_directory"])
        jobs = Jobs(
            system=KINDS[file.kind].title,
            maximum=maximum * threads,
            memory=(file.memory or 0) // threads,
            logs=logs,
            interface=configured(file.kind, file.options, "interface"),
            known=set(logs.iterdir()) if logs.is_dir() else set(),
        )
        with _cluster(file, jobs) as cluster:
            cluster.adapt(
                Adaptive=_Keeper,
                minimum=minimum,
                maximum=maximum,
                wait_count=_IDLE_SECONDS,
                # A waiting task, of which Dask assumes half a second, is worth a worker.
                target_duration="500ms",
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
    options = file.options | {"job_script_prologue": _prologue(file)}
    options["scheduler_options"] = {"dashboard_address": ":0"} | options.get("scheduler_options", {})
    try:
        return cluster(job_cls=_recording(cluster.job_cls, jobs), silence_logs=50, **options)
    except (ValueError, RuntimeError, OSError) as error:
        what = " ".join(str(error).split())
        raise InputError(f"dask-jobqueue cannot set up a cluster of {kind.title}: {what}") from error


def _check_interfaces(file: ClusterFile) -> None:
    scheduler = file.options.get("scheduler_options", {})
    name = scheduler.get("interface", configured(file.kind, file.options, "interface"))
    if name is not None and "host" not in scheduler and name not in psutil.net_if_addrs():
        raise InputError(
            f"There is no network interface {name} on this machine, which has "
            f"{', '.join(sorted(psutil.net_if_addrs()))}; set interface (of all), or scheduler_options with "
            "interface (of this machine only)."
        )


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
    """Return dask-jobqueue's class of a job, made to remember when its submission was refused.

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
                jobs.refusal = _last_line(str(error)) or "no reason given"
                raise

    RecordedJob.__name__ = job_class.__name__
    return RecordedJob


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


class _Arrivals(SchedulerPlugin):
    """Remembers the names of all workers that have come, however soon they left."""

    def __init__(self) -> None:
        self.names: set[Any] = set()

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        self.names.add(scheduler.workers[worker].name)


class _Keeper(Adaptive):
    """Dask's adaptive scaling in whole jobs, which submits again what was lost.

    Dask drops a job when its last worker has gone, but knows the workers of a job of several processes
    by other names than the job's, and then keeps waiting for them.
    """

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._jobs = cast(Any, self.cluster)  # a SpecCluster
        self._arrivals = _Arrivals()
        self._jobs.scheduler.add_plugin(self._arrivals)
        self._since: dict[Any, float] = {}

    async def safe_target(self) -> int:
        """Return how many workers there should be, rounded up to whole jobs."""
        target = await super().safe_target()
        processes = max((len(s.get("group", "1")) for s in self._jobs.worker_spec.values()), default=1)
        return -(-target // processes) * processes

    async def recommendations(self, target: int) -> dict[str, Any]:
        """Drop the jobs that are lost; what is planned but not there is then submitted by Dask."""
        connected = self.observed
        now = time.monotonic()
        for name, job in list(self._jobs.workers.items()):
            group = self._jobs.worker_spec.get(name, {}).get("group", [""])
            workers = {f"{name}{suffix}" for suffix in group}
            there = bool(workers & connected)
            refused = getattr(job, "refused", False)
            if there or not (refused or workers & self._arrivals.names):  # at work, or waiting in the queue
                self._since.pop(name, None)
            elif now - self._since.setdefault(name, now) > (_REFUSED_SECONDS if refused else _GONE_SECONDS):
                self._arrivals.names -= workers
                del self._since[name], self._jobs.workers[name]
                await job.close()
        result: dict[str, Any] = await super().recommendations(target)
        return result
