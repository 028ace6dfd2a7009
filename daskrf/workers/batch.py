"""Workers as batch-system jobs, set up by Dask's configuration, and a cluster that replaces lost jobs.

Job options are those of dask-jobqueue, in Dask's configuration or in a file of that format; daskrf adds one,
``daskrf.workers``, the number of worker processes.
"""

from __future__ import annotations

import copy
import importlib
import math
import os
import re
import reprlib
import shlex
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import dask
import psutil
import yaml
from dask.utils import parse_bytes
from distributed import Client, Scheduler
from distributed.core import Status
from distributed.deploy.adaptive import Adaptive
from distributed.diagnostics.plugin import SchedulerPlugin

from daskrf.errors import InputError, printable
from daskrf.quantities import format_bytes
from daskrf.workers.clusters import (
    CONFIG,
    LEAST_MEMORY,
    Jobs,
    QueuedClient,
    dashboard_address,
    dashboard_config,
    seconds_to_wait,
)
from daskrf.workers.security import Certificates, certificates, private_scratch, written

LISTINGS = {"slurm": ("squeue", "--noheader", "--format=%i", f"--user={os.getuid()}")}
"""Commands that list the user's job numbers, by batch system."""

_LOGS = "daskrf-jobs"
_FORMER = {
    "extra": "worker-extra-args",
    "job-extra": "job-extra-directives",
    "env-extra": "job-script-prologue",
    "header-skip": "job-directives-skip",
    "project": "account",
}
"""Former option names that dask-jobqueue still reads, with their present names.

Some batch systems also have an option ``project`` of their own.
"""

_MOST_BYTES = 1 << 16  # maximum size of a configuration file
_IDLE_SECONDS = 60  # before an adaptive cluster releases a job: queuing for a new one is slow
_GONE_SECONDS = 60.0  # a job whose workers are gone for longer is lost: a nanny would have restarted them
_ASK_SECONDS = 15.0  # between queries of which jobs exist
_REFUSED_SECONDS = 30.0  # between attempts at a submission that the batch system rejected


@contextmanager
def jobqueue_cluster(cluster: str | Path, workers: int | str | None = None) -> Iterator[Client]:
    """Start a scheduler here and workers as batch-system jobs, and yield a client.

    Jobs are submitted when there is work and cancelled at the end. A lost job (killed, out of time, its node
    down) is resubmitted, even with a fixed number of workers. Scheduler and workers identify each other by
    certificates, which jobs read from a private folder beside their logs, or in ``shared-temp-directory``.

    Parameters
    ----------
    cluster : str or Path
        A batch system, such as ``"slurm"``, with its options in Dask's configuration
        (``~/.config/dask/jobqueue.yaml``); or a file of that format, such as ``cluster/slurm.yaml``, which
        takes precedence.
    workers : int or str, optional
        Number of worker processes, or their minimum and maximum, as in ``"1-64"``; default: the Dask setting
        ``daskrf.workers``.

    Yields
    ------
    distributed.Client

    Raises
    ------
    InputError
        If an option is invalid, dask-jobqueue is not installed, or this machine cannot submit jobs.

    Examples
    --------
    >>> import daskrf
    >>> with daskrf.jobqueue_cluster("slurm", workers="1-64") as client:  # doctest: +SKIP
    ...     daskrf.fingerprint(["REAL_*.cxsmiles.bz2"], "real.fingerprints", client=client)
    """
    with (
        configured(cluster, workers) as batch,
        private_scratch(),
        written(certificates(), batch.shared) as security,
    ):
        link = {} if "dashboard_address" in batch.options["scheduler_options"] else dashboard_config()
        with dask.config.set(CONFIG | link):
            processes = batch.options["processes"]
            minimum, maximum = (math.ceil(n / processes) * processes for n in (batch.minimum, batch.maximum))
            jobs = batch.jobs()
            with started(batch, jobs, security) as running:
                running.adapt(
                    Adaptive=_Keeper,
                    minimum=minimum,
                    maximum=maximum,
                    wait_count=_IDLE_SECONDS,
                    # Dask assumes half a second for a waiting task, so each one justifies a worker.
                    target_duration="500ms",
                    jobs=jobs,
                    listing=LISTINGS.get(batch.system, ()),
                )
                with QueuedClient(running, jobs=jobs) as client:
                    yield client


@dataclass(frozen=True)
class Batch:
    """Checked settings for the workers requested from a batch system.

    Attributes
    ----------
    system : str
        Its name in Dask's configuration.
    kind : type
        Cluster class of dask-jobqueue.
    minimum, maximum : int
        Minimum and maximum number of worker processes.
    memory : int
        Bytes per worker process.
    shared : Path
        A folder on a file system that all nodes share, for certificates.
    options : dict
        Arguments for dask-jobqueue besides its configuration.
    notes : tuple of str
        Sentences for the user.
    """

    system: str
    kind: Any
    minimum: int
    maximum: int
    memory: int
    shared: Path
    options: dict[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Display name of the batch system."""
        return str(self.kind.__name__.removesuffix("Cluster"))

    def jobs(self) -> Jobs:
        """Return the record of its jobs, none submitted yet."""
        processes = self.options["processes"]
        threads = self.options["cores"] // processes
        return Jobs(
            system=self.title,
            maximum=math.ceil(self.maximum / processes) * self.options["cores"],
            memory=self.memory // threads,
            logs=Path(self.options["log_directory"]),
            interface=self.options["interface"],
            patience=seconds_to_wait() or Jobs.patience,
            notes=self.notes,
        )


@contextmanager
def configured(cluster: str | Path, workers: int | str | None = None) -> Iterator[Batch]:
    """Read and check the batch-system settings in Dask's configuration and in a file of its format.

    The file's settings become part of Dask's configuration until the context ends. Parameters and errors are
    those of `jobqueue_cluster`.
    """
    text = str(cluster)
    is_file = os.sep in text or text.endswith((".yaml", ".yml"))
    content = _read(Path(text)) if is_file else {}
    system = _system_in(content, text) if is_file else text
    module = _dask_jobqueue(system)
    kinds = _kinds(module)
    if system not in kinds:
        raise InputError(
            f"{text}: the batch system is one of {', '.join(sorted(kinds))}, not {_shown(system)}."
        )
    defaults = yaml.safe_load(Path(str(module.__file__)).with_name("jobqueue.yaml").read_bytes())["jobqueue"]
    with dask.config.set(dict(_leaves(content))):
        section = {str(key).replace("_", "-"): v for key, v in dask.config.get(f"jobqueue.{system}").items()}
        where = text if is_file else f"jobqueue.{system}"
        _check(section, defaults[system], system, where)
        renamed = _renamed(section, defaults[system])
        with dask.config.set({f"jobqueue.{system}.{name}": section.get(name) for name in renamed}):
            yield _batch(system, kinds[system], section, workers, where)


def _dask_jobqueue(system: str) -> ModuleType:
    """Return the package, with the handler of Ctrl-C restored: its import makes SIGINT end this program."""
    before = signal.getsignal(signal.SIGINT)
    try:
        return importlib.import_module("dask_jobqueue")
    except ImportError as error:
        raise InputError(
            f"{system.upper()} needs dask-jobqueue; install it with pip install 'daskrf[slurm]'."
        ) from error
    except ValueError as error:  # only the main thread can set signal handlers
        raise InputError(
            "dask-jobqueue must be imported in the main thread first: put import dask_jobqueue at the start."
        ) from error
    finally:
        if before is not None and signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a Dask configuration file."""
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"Cannot read the cluster file {path}: {error.strerror}.") from error
    if len(text) > _MOST_BYTES:
        raise InputError(f"{path} is larger than {format_bytes(_MOST_BYTES)}, so it is not a cluster file.")
    try:
        content = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        what = printable(" ".join(str(error).split()))
        raise InputError(f"The cluster file {path} is not YAML: {what}.") from error
    except RecursionError:
        raise InputError(
            f"The cluster file {path} is nested too deeply; start from cluster/slurm.yaml."
        ) from None
    return content if isinstance(content, dict) else {}


def _system_in(content: Mapping[str, object], where: str) -> str:
    """Return the one batch system that a file has a section for."""
    sections = content.get("jobqueue")
    if not isinstance(sections, Mapping) or len(sections) != 1:
        raise InputError(
            f"{where} must have a section jobqueue with one batch system, as in "
            "jobqueue: {slurm: {cores: 8}}; start from cluster/slurm.yaml."
        )
    return str(next(iter(sections)))


def _leaves(content: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Yield dotted names and values, which `dask.config.set` merges into the existing configuration."""
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _check(section: Mapping[str, object], defaults: Mapping[str, object], system: str, where: str) -> None:
    """Reject keys that dask-jobqueue would ignore, and values of another type than its defaults."""
    allowed = {*defaults, *(former for former, name in _FORMER.items() if name in defaults)}
    unknown = sorted(set(section) - allowed)
    if unknown:
        raise InputError(
            f"{where}: unknown key {unknown[0]} for {system}; known are {', '.join(sorted(allowed))}."
        )
    for name, value in section.items():
        default = defaults.get(_FORMER.get(name, name), defaults.get(name))
        if value is None:
            continue
        if isinstance(default, list):
            lines = [value] if name in _FORMER and isinstance(value, str) else value
            if not isinstance(lines, list) or not all(isinstance(line, str | int | float) for line in lines):
                raise InputError(
                    f"{where}: {name} must be a list of lines, each after a dash, not {_shown(value)}."
                )
        elif isinstance(default, Mapping):
            if not isinstance(value, Mapping):
                raise InputError(f"{where}: {name} must be names with values, as in host: login1.")
        elif isinstance(value, list | Mapping):
            raise InputError(f"{where}: {name} must be one value, not {_shown(value)}.")


def _renamed(section: dict[str, object], defaults: Mapping[str, object]) -> set[str]:
    """Move options from former names to present ones, as dask-jobqueue does; return both names.

    dask-jobqueue would ignore a former name if daskrf sets the present one.
    """
    names = set()
    for former, name in _FORMER.items():
        if name in defaults and (value := section.pop(former, None)) is not None:
            several = isinstance(defaults[name], list) and not isinstance(value, list)
            section[name] = section.get(name) or ([value] if several else value)
            names |= {former, name}
    return names


def _batch(
    system: str, kind: object, section: Mapping[str, Any], workers: int | str | None, where: str
) -> Batch:
    minimum, maximum = _count(dask.config.get("daskrf.workers", None) if workers is None else workers, where)
    cores = _whole(1 if section["cores"] is None else section["cores"], "cores", where)
    # One thread each, unless the user wants fewer worker processes.
    processes = _whole(cores if section["processes"] is None else section["processes"], "processes", where)
    if cores % processes:
        raise InputError(f"{where}: {cores} cores cannot be divided evenly among {processes} processes.")
    scheduler = {"dashboard_address": dashboard_address()} | (section["scheduler-options"] or {})
    arguments = [str(text) for text in section["worker-extra-args"] or []]
    if not any("dashboard" in text for text in arguments):
        # A worker's dashboard would listen on all networks; the scheduler's shows all workers anyway.
        arguments.append("--no-dashboard")
    options = {
        "cores": cores,
        "processes": processes,
        "memory": section["memory"],
        "interface": section["interface"],
        "log_directory": section["log-directory"] or _LOGS,
        "scheduler_options": scheduler,
        "worker_extra_args": arguments,
        "job_script_prologue": _prologue(section),
        "local_directory": '"$spill"',  # expanded by the shell of the job
    }
    memory = _memory(section["memory"], processes, where)
    shared = os.path.expandvars(section.get("shared-temp-directory") or options["log_directory"])
    return Batch(
        system=system,
        kind=kind,
        minimum=minimum,
        maximum=maximum,
        memory=memory,
        shared=Path(shared).expanduser(),
        options=options,
        notes=_notes(section["memory"], where),
    )


def started(batch: Batch, jobs: Jobs, security: Certificates | None = None) -> Any:
    """Return dask-jobqueue's cluster without any jobs; certificates are files that jobs can read."""
    command = batch.kind.job_cls.submit_command
    if shutil.which(command) is None:
        raise InputError(
            f"There is no {command} on this machine to submit jobs to {batch.title}; start daskrf on a login "
            "node, or in one job of several nodes (cluster/daskrf-slurm.sbatch)."
        )
    _check_interfaces(batch)
    try:
        return batch.kind(
            job_cls=_recording(batch.kind.job_cls, jobs),
            silence_logs=50,
            security=security if security is not None and security.require_encryption else None,
            **batch.options,
        )
    except (ValueError, RuntimeError, OSError) as error:
        what = " ".join(str(error).split())
        raise InputError(f"dask-jobqueue cannot set up a cluster of {batch.title}: {what}") from error


def _kinds(module: object) -> dict[str, object]:
    """Return the cluster classes of dask-jobqueue by their names in Dask's configuration."""
    classes = [getattr(module, name) for name in dir(module) if name.endswith("Cluster")]
    named = {getattr(getattr(kind, "job_cls", None), "config_name", None): kind for kind in classes}
    return {name: kind for name, kind in named.items() if name}


def _shown(value: object) -> str:
    return printable(reprlib.repr(value), 80)


def _count(workers: object, where: str) -> tuple[int, int]:
    """Return the minimum and maximum number of worker processes."""
    if workers is None:
        raise InputError(
            f"{where}: the number of workers is missing; give it, or its minimum and maximum, as in "
            "--workers 1-64, or as daskrf: {workers: 1-64} in Dask's configuration."
        )
    ends = re.fullmatch(r"(\d+)(?:-(\d+))?", str(workers).strip())
    if not ends or isinstance(workers, bool):
        raise InputError(
            f"{where}: workers must be a number, or a range such as 1-64, not {_shown(workers)}."
        )
    minimum, maximum = int(ends[1]), int(ends[2] or ends[1])
    if minimum > maximum:
        raise InputError(
            f"{where}: the minimum number of workers, {minimum}, is above the maximum, {maximum}."
        )
    _whole(maximum, "workers", where)
    return minimum, maximum


def _whole(value: object, name: str, where: str, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{where}: {name} must be a whole number of at least {least}, not {_shown(value)}.")
    return value


def _memory(size: Any, processes: int, where: str) -> int:
    """Return the bytes per worker process."""
    if size is None:
        raise InputError(f"{where}: memory (of a whole job) is missing; write, for example, memory: 16GiB.")
    try:
        total = parse_bytes(size)
    except (ValueError, AttributeError, TypeError, OverflowError):
        raise InputError(f"{where}: memory must be a size such as 16GiB, not {_shown(size)}.") from None
    if total < LEAST_MEMORY * processes:
        raise InputError(
            f"{where}: memory {size} is {format_bytes(total // processes)} for each of {processes} worker "
            f"processes, and each needs at least {format_bytes(LEAST_MEMORY)}; write, for example, memory: "
            "16GiB."
        )
    return total // processes


def _notes(size: object, where: str) -> tuple[str, ...]:
    """Return a note on a decimal unit: batch systems and people usually mean powers of 1024."""
    text = str(size or "").strip()
    if not text.upper().endswith("B") or text.upper().endswith("IB"):
        return ()
    binary = f"{text[:-1].rstrip()}iB"
    return (
        f"{where}: memory: {text} is {format_bytes(parse_bytes(text))}; write {binary} if you mean that.",
    )


def _check_interfaces(batch: Batch) -> None:
    scheduler = batch.options["scheduler_options"]
    name = scheduler.get("interface", batch.options["interface"])
    if name is not None and "host" not in scheduler and name not in psutil.net_if_addrs():
        raise InputError(
            f"There is no network interface {name} on this machine, which has "
            f"{', '.join(sorted(psutil.net_if_addrs()))}; set interface (for all machines), or interface in "
            "scheduler-options (for this machine only)."
        )


def _prologue(section: Mapping[str, Any]) -> list[str]:
    """Return the lines that a job runs before the worker: setup, the user's lines, then checks."""
    lines = [f"cd {shlex.quote(os.getcwd())}"]  # PBS and SGE start jobs elsewhere
    lines += [f"export {_variable(key)}={shlex.quote(str(value))}" for key, value in CONFIG.items()]
    lines += [str(line) for line in section["job-script-prologue"] or []]
    # Unquoted, so that the job's shell expands $TMPDIR.
    lines.append(f"spill={section['local-directory'] or '${TMPDIR:-/tmp}'}")
    return [*lines, *_SPILL]


_SPILL = (
    '[ -d "$spill" ] && [ -w "$spill" ] || { echo "the spill directory \'$spill\' (local-directory) does not '
    'exist or cannot be written on $(hostname)" >&2; exit 1; }',
    # A private folder: Dask unpickles what workers have spilled.
    'spill=$spill/daskrf-$(id -u); mkdir -m 700 "$spill" 2>/dev/null',
    'own() { [ -O "$spill" ] && [ ! -L "$spill" ] && stat -c %a "$spill" | grep -q \'700$\'; }',
    "own || { echo \"the spill directory '$spill' is open to others on $(hostname)\" >&2; exit 1; }",
)
"""Lines of a job that check and make the folder where workers spill."""


def _variable(key: str) -> str:
    """Return the environment variable that passes a Dask setting to another program.

    Examples
    --------
    >>> _variable("distributed.worker.memory.terminate")
    'DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE'
    """
    return f"DASK_{key.replace('.', '__').replace('-', '_').upper()}"


def _recording(job_class: Any, jobs: Jobs) -> Any:
    """Return dask-jobqueue's job class, extended to record accepted, rejected and closed jobs.

    dask-jobqueue silently treats a rejected job as one that waits in the queue.
    """

    class RecordedJob(job_class):
        refused = False

        def __init__(self, *arguments: Any, security: Certificates | None = None, **keywords: Any) -> None:
            quoted = None if security is None else _for_a_shell(security)
            super().__init__(*arguments, security=quoted, **keywords)

        async def _submit_job(self, script_filename: str) -> object:
            try:
                return await super()._submit_job(script_filename)
            except RuntimeError as error:
                self.refused = True
                self.status = Status.failed  # otherwise the cluster cannot be closed
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


def _for_a_shell(security: Certificates) -> Certificates:
    """Quote the certificate files in a worker's command; dask-jobqueue does not."""
    quoted = copy.copy(security)
    quoted.tls_worker_key = shlex.quote(security.tls_worker_key or security.tls_worker_cert)
    quoted.tls_worker_cert = shlex.quote(security.tls_worker_cert)
    quoted.tls_ca_file = shlex.quote(security.tls_ca_file)
    return quoted


def _reason(text: str) -> str:
    """Return the last line printed by a batch system, from dask-jobqueue's report.

    Examples
    --------
    >>> _reason("Command exited with non-zero exit code.\\nstdout:\\n\\nstderr:\\nno such queue\\n")
    'no such queue'
    """
    printed = text.partition("stdout:")[2].replace("stderr:", "", 1) or text
    return next((line.strip() for line in reversed(printed.splitlines()) if line.strip()), "no reason given")


class _Arrivals(SchedulerPlugin):
    """Remembers the names of all workers that have ever joined."""

    def __init__(self) -> None:
        self.names: set[Any] = set()

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        self.names.add(scheduler.workers[worker].name)


class _Keeper(Adaptive):
    """Dask's adaptive scaling in whole jobs, which resubmits lost ones.

    Dask drops a job when its last worker has gone. But if a job has several worker processes, their names
    differ from the job's, and Dask keeps waiting for them. It also misses a job that ended before any of its
    workers joined.
    """

    def __init__(self, *arguments: Any, jobs: Jobs, listing: tuple[str, ...], **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._cluster = cast(Any, self.cluster)  # a SpecCluster
        self._jobs, self._listing = jobs, listing
        self._arrivals = _Arrivals()
        self._cluster.scheduler.add_plugin(self._arrivals)
        self._since: dict[Any, float] = {}
        self._queried = time.monotonic()
        self._ended: set[str] = set()

    async def safe_target(self) -> int:
        """Return the target number of workers, rounded up to whole jobs."""
        target = await super().safe_target()
        processes = max((len(s.get("group", "1")) for s in self._cluster.worker_spec.values()), default=1)
        return -(-target // processes) * processes

    async def recommendations(self, target: int) -> dict[str, object]:
        """Drop lost jobs; Dask then submits whatever is planned but missing."""
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
        result: dict[str, object] = await super().recommendations(target)
        return result

    def _workers(self, name: object) -> set[str]:
        """Return the names of the workers of a job."""
        group = self._cluster.worker_spec.get(name, {}).get("group", [""])
        return {f"{name}{suffix}" for suffix in group}

    def _is_there(self, name: object) -> bool:
        return bool(self._workers(name) & self.observed)

    async def _ask(self) -> None:
        """Ask the batch system, at intervals, which jobs it still has; it may not answer."""
        if not self._listing or time.monotonic() - self._queried < _ASK_SECONDS:
            return
        self._queried = time.monotonic()
        submitted = {job.job_id for job in self._cluster.workers.values() if job.job_id}
        try:
            listing = await self._cluster.job_cls._call(list(self._listing))
        except (RuntimeError, OSError):
            submitted, listing = set(), ""
        self._ended = submitted - set(re.findall(r"\d+", listing))


def _numbers_in(logs: Path) -> set[str]:
    """Return the numbers in the names of log files: the jobs that have started to print."""
    try:
        return {number for path in logs.iterdir() for number in re.findall(r"\d+", path.name)}
    except OSError:
        return set()
