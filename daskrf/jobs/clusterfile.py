"""The file that says how workers are made jobs of a batch system."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dask
import yaml
from dask.utils import format_bytes, parse_bytes, parse_timedelta

from daskrf.errors import InputError, printable
from daskrf.jobs.cluster import LEAST_MEMORY

__all__ = ["KINDS", "ClusterFile", "configured", "read_cluster_file"]

_LOGS = "daskrf-jobs"
_MOST_BYTES = 1 << 16  # of a cluster file

_COMMON = frozenset(
    [
        "config_name",
        "cores",
        "death_timeout",
        "interface",
        "job_directives_skip",
        "job_extra_directives",
        "job_name",
        "job_script_prologue",
        "local_directory",
        "log_directory",
        "memory",
        "processes",
        "protocol",
        "python",
        "queue",
        "scheduler_options",
        "shebang",
        "walltime",
        "worker_extra_args",
    ]
)
_LISTS = ("job_script_prologue", "worker_extra_args", "job_extra_directives", "job_directives_skip")
_OURS = frozenset({"kind", "workers", "adapt", "wait_for_workers"})


@dataclass(frozen=True)
class Kind:
    """A batch system: its name, dask-jobqueue's class, the options that only it has, what lists its jobs."""

    title: str
    cluster: str
    options: frozenset[str]
    listing: tuple[str, ...] = ()


KINDS = {
    "slurm": Kind(
        "SLURM",
        "SLURMCluster",
        frozenset({"account", "job_cpu", "job_mem"}),
        ("squeue", "--noheader", "--format=%i", f"--user={os.getuid()}"),
    ),
    "pbs": Kind("PBS", "PBSCluster", frozenset({"account", "resource_spec"})),
    "sge": Kind("SGE", "SGECluster", frozenset({"project", "resource_spec"})),
    "lsf": Kind("LSF", "LSFCluster", frozenset({"project", "ncpus", "mem", "lsf_units", "use_stdin"})),
}
_LOCAL = frozenset({"kind", "workers", "memory"})


@dataclass(frozen=True)
class ClusterFile:
    """What a cluster file says, checked.

    Attributes
    ----------
    kind : str
        ``"slurm"``, ``"pbs"``, ``"sge"``, ``"lsf"`` or ``"local"``.
    minimum, maximum : int
        Least and largest number of worker processes.
    memory : int or None
        Bytes of one worker process; None, for local workers, is the machine's share.
    options : dict
        What dask-jobqueue is given.
    notes : tuple of str
        Sentences that the user should see.
    """

    kind: str
    minimum: int
    maximum: int
    memory: int | None
    options: dict[str, Any] = field(default_factory=dict)
    wait: float | None = None
    notes: tuple[str, ...] = ()


def read_cluster_file(path: str | Path) -> ClusterFile:
    """Read and check a cluster file.

    Parameters
    ----------
    path : str or Path
        A YAML file such as ``cluster/slurm.yaml``: `kind`, the number of worker processes (`workers`, or
        `adapt` with `minimum` and `maximum`), and options of dask-jobqueue.

    Raises
    ------
    InputError
        If the file is missing, is no YAML, or says something that cannot be meant.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise InputError(f"Cannot read the cluster file {path}: {error.strerror}.") from error
    if len(text) > _MOST_BYTES:
        raise InputError(f"{path} has more than {format_bytes(_MOST_BYTES)}, so that it is no cluster file.")
    try:
        content = yaml.load(text, _PlainLoader)  # a safe loader
    except (yaml.YAMLError, ValueError) as error:
        what = printable(" ".join(str(error).split()))
        raise InputError(f"The cluster file {path} is no YAML: {what}.") from error
    except RecursionError:
        raise InputError(
            f"The cluster file {path} is nested too deeply; start from cluster/slurm.yaml."
        ) from None
    if not isinstance(content, Mapping):
        raise InputError(f"The cluster file {path} holds no keys; start from cluster/slurm.yaml.")
    return _check({str(key).replace("-", "_"): value for key, value in content.items()}, str(path))


class _PlainLoader(yaml.SafeLoader):
    """Reads YAML without aliases, of which a few lines may stand for more than memory holds."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark
            raise yaml.YAMLError(f"aliases (*name) are not read; write out what line {mark.line + 1} repeats")
        return super().compose_node(parent, index)


def _check(content: dict[str, Any], where: str) -> ClusterFile:
    kind = content.get("kind")
    if kind not in (*KINDS, "local"):
        raise InputError(f"{where}: kind is one of {', '.join(KINDS)} and local, not {_shown(kind)}.")
    known = _LOCAL if kind == "local" else _OURS | _COMMON | KINDS[kind].options
    unknown = sorted(set(content) - known)
    if unknown:
        raise InputError(
            f"{where}: unknown key {unknown[0]} for {kind}; known are {', '.join(sorted(known))}."
        )
    minimum, maximum = _size(content, where)
    if kind == "local":
        memory = _memory(content["memory"], 1, where) if "memory" in content else None
        return ClusterFile(kind, minimum, maximum, memory, notes=_notes(content.get("memory")))
    options = {name: value for name, value in content.items() if name not in _OURS}
    _check_kinds(options, where)
    cores = options["cores"] = _whole(configured(kind, options, "cores") or 1, "cores", where)
    processes = _whole(configured(kind, options, "processes") or cores, "processes", where)
    options["processes"] = processes  # one thread each, unless the user wants less
    if cores % processes:
        raise InputError(f"{where}: {cores} cores cannot be shared evenly by {processes} processes.")
    size = options["memory"] = configured(kind, options, "memory")
    memory = _memory(size, processes, where)
    options["log_directory"] = configured(kind, options, "log_directory") or _LOGS
    return ClusterFile(kind, minimum, maximum, memory, options, _wait(content, where), _notes(size))


def _check_kinds(options: Mapping[str, Any], where: str) -> None:
    """Refuse lists where one value is meant, and single values where lines are."""
    for name, value in options.items():
        if name not in (*_LISTS, "scheduler_options") and isinstance(value, list | Mapping):
            raise InputError(f"{where}: {name} is one value, not {_shown(value)}.")
    if not isinstance(options.get("scheduler_options") or {}, Mapping):
        raise InputError(f"{where}: scheduler_options are names and values, as in host: login1.")
    for name in _LISTS:
        value = options.get(name, [])
        if not isinstance(value, list) or not all(isinstance(line, str | int | float) for line in value):
            raise InputError(f"{where}: {name} is a list of lines, each after a dash, not {_shown(value)}.")


def _shown(value: Any) -> str:
    return printable(repr(value), 80)


def configured(kind: str, options: Mapping[str, Any], key: str) -> Any:
    """Return an option: from the file, or what the user's own jobqueue.yaml says, or None."""
    if options.get(key) is not None:
        return options[key]
    return dask.config.get(f"jobqueue.{options.get('config_name', kind)}.{key.replace('_', '-')}", None)


def _size(content: Mapping[str, Any], where: str) -> tuple[int, int]:
    """Return the least and the largest number of worker processes."""
    if ("workers" in content) == ("adapt" in content):
        raise InputError(f"{where}: give either workers, a number, or adapt, with minimum and maximum.")
    if "workers" in content:
        return (_whole(content["workers"], "workers", where),) * 2
    adapt = content["adapt"]
    if not isinstance(adapt, Mapping) or not {"maximum"} <= set(adapt) <= {"minimum", "maximum"}:
        raise InputError(
            f"{where}: adapt has a minimum and a maximum, as in adapt: {{minimum: 1, maximum: 64}}."
        )
    maximum = _whole(adapt["maximum"], "adapt maximum", where)
    minimum = _whole(adapt.get("minimum", 0), "adapt minimum", where, least=0)
    if minimum > maximum:
        raise InputError(f"{where}: the minimum of adapt, {minimum}, is above its maximum, {maximum}.")
    return minimum, maximum


def _whole(value: Any, name: str, where: str, least: int = 1) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InputError(f"{where}: {name} is a whole number of at least {least}, not {_shown(value)}.")
    return value


def _memory(size: Any, processes: int, where: str) -> int:
    """Return the bytes of one worker process."""
    if size is None:
        raise InputError(f"{where}: memory, that of a whole job, is missing; give it as in memory: 16GiB.")
    try:
        total = parse_bytes(size)
    except (ValueError, AttributeError, TypeError, OverflowError):
        raise InputError(f"{where}: memory is a size such as 16GiB, not {_shown(size)}.") from None
    if total < LEAST_MEMORY * processes:
        raise InputError(
            f"{where}: memory {size} is {format_bytes(total // processes)} for each of {processes} worker "
            f"processes, and one needs {format_bytes(LEAST_MEMORY)} at least; give it as in memory: 16GiB."
        )
    return total // processes


def _notes(size: Any) -> tuple[str, ...]:
    """Say what a decimal unit costs: batch systems and people mean powers of 1024."""
    text = str(size or "").strip()
    if not text.upper().endswith("B") or text.upper().endswith("IB"):
        return ()
    binary = f"{text[:-1].rstrip()}iB"
    return (f"memory: {text} is {format_bytes(parse_bytes(text))}; write {binary} if you mean that.",)


def _wait(content: Mapping[str, Any], where: str) -> float | None:
    if "wait_for_workers" not in content:
        return None
    try:
        return float(parse_timedelta(content["wait_for_workers"], default="s"))
    except (ValueError, KeyError, TypeError):
        shown = _shown(content["wait_for_workers"])
        raise InputError(f"{where}: wait_for_workers is a time such as 10 minutes, not {shown}.") from None
