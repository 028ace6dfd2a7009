"""Where a command's tasks run, and telling the user so."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from daskrf.cli.console import LineProgress, TerminalProgress, make_progress
from daskrf.drivers.cluster import connect, local_cluster, worker_memory, worker_threads
from daskrf.drivers.memory import format_bytes

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["at_work"]


@contextmanager
def at_work(options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Take the cluster options out of `options`; yield the keywords `client` and `progress` of a driver."""
    share: dict[str, Any] = {name: options.pop(name) for name in ("shard", "prepare") if name in options}
    _keep_here(options, share)
    workers, memory = options.pop("workers"), options.pop("memory_limit")
    scheduler, scheduler_file = options.pop("scheduler"), options.pop("scheduler_file")
    joins = scheduler is not None or scheduler_file is not None
    if joins and (workers is not None or memory is not None):
        raise click.UsageError("--workers and --memory-limit start a cluster; --scheduler joins another's.")
    if workers == 0 and memory is not None:
        raise click.UsageError("--memory-limit is for worker processes; --workers 0 starts none.")
    if scheduler is not None and scheduler_file is not None:
        raise click.UsageError("Give --scheduler or --scheduler-file, not both.")
    with make_progress() as progress:
        if workers == 0:
            yield {"client": None, "progress": progress, **share}
            return
        cluster = connect(scheduler, scheduler_file) if joins else local_cluster(workers, memory)
        with cluster as client:
            if not joins:
                client.register_worker_callbacks(_ignore_interrupts)  # the later replacements too
            _introduce(client, progress, joins)
            yield {"client": client, "progress": progress, **share}


def _keep_here(options: dict[str, Any], share: dict[str, Any]) -> None:
    """Start no workers for a shard, nor, unless they are asked for, to prepare shards."""
    places = ("scheduler", "scheduler_file", "cluster", "workers")
    asked = [name for name in places if options.get(name) is not None]
    sharded = share.get("shard") is not None
    if sharded and asked and options["workers"] != 0:
        name = asked[0].replace("_", "-")
        raise click.UsageError(f"A shard works in its own process; give --shard or --{name}, not both.")
    if not asked and (sharded or share.get("prepare")):
        options["workers"] = 0


def _ignore_interrupts() -> None:
    """Leave Ctrl-C to the main process, which stops the workers; theirs would print tracebacks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _introduce(client: Client, progress: LineProgress | TerminalProgress, joined: bool) -> None:
    n = worker_threads(client)
    verb = "Joined" if joined else "Started"
    what = f"{n} worker {'process' if n == 1 else 'processes'}" if not joined else f"a cluster of {n} workers"
    memory = f"{format_bytes(worker_memory(client))} each"
    dashboard = client.dashboard_link or "none"
    where = "" if joined else " on this machine"
    progress.note(f"{verb} {what}{where} ({memory}); dashboard: {dashboard}")
