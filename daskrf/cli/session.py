"""Set up the workers of a command, and tell the user."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from daskrf.cli.console import LineProgress, TerminalProgress, make_progress
from daskrf.cli.options import Session
from daskrf.quantities import amount, format_bytes
from daskrf.workers.calls import stop_within
from daskrf.workers.clients import client_of
from daskrf.workers.clusters import QueuedClient, worker_memory, worker_threads

if TYPE_CHECKING:
    from distributed import Client

_START_SECONDS = 30.0  # before the user is told that workers take long to start

Shown = LineProgress | TerminalProgress


@contextmanager
def at_work(options: dict[str, Any]) -> Iterator[dict[str, object]]:
    """Remove the options for workers and shares from `options`; yield client and progress.

    What is called meanwhile makes the share of its job that the options name.
    """
    shard, prepare = options.pop("shard", None), options.pop("prepare", False)
    _keep_here(options, sharded=shard is not None, prepare=prepare)
    places = {name: options.pop(name, None) for name in ("cluster", "scheduler", "scheduler_file")}
    here = {name: options.pop(name, None) for name in ("workers", "memory_limit")}
    shown = {name: options.pop(name, None) for name in ("tls_ca_file", "tls_cert", "tls_key")}
    _check_usage(here, places, shown)
    with make_progress() as progress:
        click.get_current_context().ensure_object(Session).progress = progress
        with _saying_that_it_waits(progress) as started, client_of(**here, **places, **shown) as client:
            started()
            if client is not None:
                _introduce(client, progress, places)
            from daskrf.jobs.shards import sharing  # not needed to refuse options

            with sharing(shard, prepare):
                yield {"client": client, "progress": progress}


@contextmanager
def _saying_that_it_waits(progress: Shown) -> Iterator[Callable[[], None]]:
    """Say once that workers take long to start; call the yielded function when they have started."""
    message = "Still waiting for the workers to start: the machine is busy, or its file system is slow."
    timer = threading.Timer(_START_SECONDS, progress.note, [message])
    timer.daemon = True
    timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()


def _keep_here(options: dict[str, object], *, sharded: bool, prepare: bool) -> None:
    """Start no workers for a shard, nor for preparing shards unless they are requested."""
    places = ("scheduler", "scheduler_file", "cluster", "workers")
    named = [name for name in places if options.get(name) is not None]
    if sharded and named and options.get("workers") != 0:
        name = named[0].replace("_", "-")
        raise click.UsageError(f"A shard runs without workers; give --shard or --{name}, not both.")
    if not named and (sharded or prepare):
        options["workers"] = 0


def _check_usage(
    here: dict[str, Any], places: dict[str, str | None], certificates: dict[str, str | None]
) -> None:
    if any(certificates.values()) and not (places["scheduler"] or places["scheduler_file"]):
        name = next(name for name, value in certificates.items() if value).replace("_", "-")
        raise click.UsageError(f"--{name} needs --scheduler or --scheduler-file; give one of them.")
    named = [f"--{name.replace('_', '-')}" for name, value in places.items() if value is not None]
    if len(named) > 1:
        raise click.UsageError(f"Give {named[0]} or {named[1]}, not both.")
    if named == ["--cluster"] and here["memory_limit"] is not None:
        raise click.UsageError(
            "--memory-limit is for workers on this machine; jobs get the memory set for --cluster."
        )
    if named and named != ["--cluster"] and any(value is not None for value in here.values()):
        raise click.UsageError(
            f"--workers and --memory-limit start workers; {named[0]} joins a running cluster."
        )
    if here["workers"] == 0 and (named or here["memory_limit"] is not None):
        what = named[0] if named else "--memory-limit"
        raise click.UsageError(f"{what} is for workers; --workers 0 starts none.")


def _outlive_signals() -> None:
    """Leave Ctrl-C and SIGTERM to the main program, which lets workers finish their partitions.

    Both may reach all workers at once. A worker still exits on a second SIGTERM or after a time limit.
    """

    def outlive(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        timer = threading.Timer(2 * stop_within(), os.kill, (os.getpid(), signal.SIGTERM))
        timer.daemon = True
        timer.start()

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, outlive)


def _introduce(client: Client, progress: Shown, places: dict[str, str | None]) -> None:
    n = worker_threads(client)
    memory = f"{format_bytes(worker_memory(client))} each"
    if isinstance(client, QueuedClient):
        jobs = client.jobs
        for note in jobs.notes:
            progress.note(note)
        what = f"Submits up to {amount(n, 'workers')} ({memory}) to {jobs.system}, logs in {jobs.logs}"
    elif any(places.values()):
        joined = f"of {amount(n, 'workers')} ({memory})" if client.nthreads() else "that has no workers yet"
        what = f"Joined a cluster {joined}"
    else:
        client.register_worker_callbacks(_outlive_signals)  # later replacements too
        what = f"Started {amount(n, 'worker processes')} on this machine ({memory})"
    progress.note(f"{what}; dashboard: {client.dashboard_link or 'none'}")
