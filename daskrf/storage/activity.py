"""What runs of a driver on an output do, or how they ended: read from their logs."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from daskrf.errors import printable
from daskrf.quantities import amount, duration
from daskrf.storage.files import is_gone
from daskrf.storage.runlog import LATEST, log_directory, read_first, read_log

__all__ = ["JobStatus", "RunStatus", "job_of"]

SILENT_SECONDS = 120.0  # a run on another host that has not touched its log for so long is dead
WINDOW_SECONDS = 300.0  # over which the rate is taken
_SHOWN_ERRORS = 3


@dataclass(frozen=True)
class RunStatus:
    """One run of a driver, or of a shard.

    Attributes
    ----------
    log : Path
        What all this is read from.
    command, host, pid, dashboard : str, str, int, str or None
        Who runs, and where Dask's dashboard is.
    shard : str or None
        Such as ``"3/16"``.
    started, touched : float
        Seconds since 1970: of the first record, and of the last sign of life.
    state : str
        ``"running"``, ``"finished"``, ``"stopped"``, or ``"dead"``: it ended without a word.
    sentence : str
        Why it stopped.
    stage, unit : str
        What it is at, or was last.
    total, done : int
        Of the stage, in units.
    rate : float
        Units a second in the last five minutes of the stage.
    tasks, retries, workers : int
        Tasks finished in this run, tasks that failed or were lost and were tried again, and workers now.
    errors : tuple of (float, str)
        Time and sentence of the last errors and losses.
    """

    log: Path
    command: str
    host: str
    pid: int
    dashboard: str | None
    shard: str | None
    started: float
    touched: float
    state: str
    sentence: str = ""
    stage: str = ""
    unit: str = ""
    total: int = 0
    done: int = 0
    rate: float = 0.0
    tasks: int = 0
    retries: int = 0
    workers: int = 0
    errors: tuple[tuple[float, str], ...] = ()

    @property
    def seconds_left(self) -> float | None:
        """Of the stage, at this rate; None where nobody knows."""
        return (self.total - self.done) / self.rate if self.rate > 0 and self.total else None

    @property
    def name(self) -> str:
        """Command, shard, process and host in words."""
        part = {None: "", "prepare": " --prepare"}.get(self.shard, f" --shard {self.shard}")
        return f"daskrf {self.command}{part} (process {self.pid} on host {self.host})"


@dataclass(frozen=True)
class JobStatus:
    """The runs at work on an output, shards that died, and, if nobody is at work, the last run."""

    runs: tuple[RunStatus, ...]

    @property
    def running(self) -> bool:
        """Whether anybody is at work."""
        return any(run.state == "running" for run in self.runs)

    def lines(self) -> list[str]:
        """Return the status in words."""
        running = [run for run in self.runs if run.state == "running"]
        ended = [run for run in self.runs if run.state != "running"]
        lines = []
        for group in _by_stage(running):
            lines += _running_lines(group)
        for run in ended:
            lines += _ended_lines(run)
        return [printable(line) for line in lines]


def job_of(output: str | os.PathLike[str]) -> JobStatus | None:
    """Return what is known of the runs on an output; None where no run has left a log."""
    directory = log_directory(output)
    try:
        files = sorted(path for path in directory.iterdir() if path.suffix == ".jsonl")
    except OSError:
        return None
    now = time.time()
    found = [run for path in _candidates(files, now) if (run := _run_of(path, now)) is not None]
    if not found:
        return None
    running = [run for run in found if run.state == "running"]
    last = found[-1]
    rest = [run for run in found if run.shard is not None and run.state in ("dead", "stopped")]
    if last.shard is None and not running:
        rest = []  # a whole run does what shards have left
    at_work = {run.shard for run in running}
    rest = [run for run in rest if run.shard not in at_work and run is not last]
    if not running or (last.shard is not None and last.state in ("dead", "stopped")):
        rest.append(last)
    return JobStatus((*running, *rest))


def _candidates(files: Sequence[Path], now: float) -> list[Path]:
    """Return the logs that count, oldest first: the newest of each shard, and all that may be alive."""
    chosen = []
    shards: set[str | None] = set()
    whole_seen = False
    for path in reversed(files):
        first = read_first(path)
        if first is None:
            continue
        shard = first.get("shard")
        if (shard not in shards and not whole_seen) or now - path.stat().st_mtime < SILENT_SECONDS:
            chosen.append(path)
        shards.add(shard)
        whole_seen = whole_seen or shard is None
    return chosen[::-1]


def _run_of(path: Path, now: float) -> RunStatus | None:
    """Read one log."""
    records = read_log(path)
    first = next((record for record in records if record["event"] == "start"), None)
    if first is None:
        return None
    touched = min(max(path.stat().st_mtime, 0.0), LATEST)
    run = RunStatus(
        log=path,
        started=first["time"],
        touched=touched,
        state="running" if _is_alive(first, touched, now) else "dead",
        **{key: first[key] for key in ("command", "host", "pid", "dashboard", "shard")},
    )
    return _followed(run, records, now)


def _is_alive(first: dict[str, Any], touched: float, now: float) -> bool:
    return not is_gone(first["host"], first["pid"]) and now - touched < SILENT_SECONDS


def _followed(run: RunStatus, records: Iterable[dict[str, Any]], now: float) -> RunStatus:
    """Return `run` after all the records of its log."""
    begun, steps = run.started, []
    tasks = retries = 0
    errors = []
    for record in records:
        event = record["event"]
        if event in ("task", "done"):
            tasks += event == "task"
            steps.append((record["time"], record["rows"] if event == "task" else record["amount"]))
        elif event == "start":
            begun, steps = record["time"], []
            run = replace(run, **{key: record[key] for key in ("stage", "unit", "total", "done")})
        elif event == "workers":
            run = replace(run, workers=record["n"])
        elif event in ("lost", "error"):
            retries += 1
            errors.append((record["time"], f"{record['sentence'].removesuffix('.')}. Task {record['key']}."))
        elif event == "finish":
            run = replace(run, state="finished", touched=record["time"])
        elif event == "stop":
            run = replace(run, state="stopped", touched=record["time"], sentence=record["sentence"])
    end = now if run.state == "running" else run.touched
    since = max(begun, end - WINDOW_SECONDS)
    recent = sum(amount for when, amount in steps if when >= since)
    return replace(
        run,
        done=run.done + sum(amount for _, amount in steps),
        rate=recent / (end - since) if end > since else 0.0,
        tasks=tasks,
        retries=retries,
        errors=tuple(errors[-_SHOWN_ERRORS:]),
    )


def _by_stage(runs: Iterable[RunStatus]) -> list[list[RunStatus]]:
    groups: dict[tuple[str, ...], list[RunStatus]] = {}
    for run in runs:
        groups.setdefault((run.command, run.stage, run.unit), []).append(run)
    return list(groups.values())


def _running_lines(runs: Sequence[RunStatus]) -> list[str]:
    """What runs do that are at the same stage: one of them, or shards of one job."""
    first = runs[0]
    since = duration(max(0.0, time.time() - min(run.started for run in runs)))
    if len(runs) == 1:
        lines = [f"  running for {since}: {first.name}"]
    else:
        shards = ", ".join(str(run.shard) for run in runs[:8]) + (", ..." if len(runs) > 8 else "")
        lines = [f"  running for {since}: {len(runs)} shards of daskrf {first.command} ({shards})"]
    lines.append(f"    {_progress_words(runs)}")
    retries = sum(run.retries for run in runs)
    again = f", {retries:,} lost or failed and tried again" if retries else ""
    workers = sum(run.workers for run in runs)
    where = amount(workers, "workers") if workers else f"{amount(len(runs), 'processes')} without workers"
    tasks = amount(sum(run.tasks for run in runs), "tasks")
    lines.append(f"    {where}; {tasks} finished{again}")
    errors = sorted(error for run in runs for error in run.errors)[-_SHOWN_ERRORS:]
    lines += [f"    {_clock(when)} {sentence}" for when, sentence in errors]
    lines += [f"    dashboard: {run.dashboard}" for run in runs if run.dashboard]
    return lines


def _progress_words(runs: Sequence[RunStatus]) -> str:
    stage, unit = runs[0].stage, runs[0].unit
    total, done = sum(run.total for run in runs), sum(run.done for run in runs)
    rate = sum(run.rate for run in runs)
    left = [run.seconds_left for run in runs if run.done < run.total]
    words = f"{stage}: {done:,} of {total:,} {unit}"
    words += f" ({100 * done / total:.0f} %)" if total else ""
    words += f", {rate:,.0f} {unit}/s" if rate >= 1 else f", {60 * rate:.2g} {unit} a minute" if rate else ""
    known = [seconds for seconds in left if seconds is not None]
    return words + (f", {duration(max(known))} left" if known and len(known) == len(left) else "")


def _clock(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _ended_lines(run: RunStatus) -> list[str]:
    """How a run ended."""
    lasted = duration(max(0.0, run.touched - run.started))
    if run.state == "dead":
        lines = [
            f"  dead: {run.name} ended without a word; its last sign of life was at {_clock(run.touched)}, "
            f"after {lasted}, in the stage {run.stage}"
        ]
    else:
        why = f": {re.sub(r'[.]$', '', run.sentence)}" if run.sentence else ""
        lines = [f"  last run: {run.name} {run.state} at {_clock(run.touched)}, after {lasted}{why}"]
    if run.state != "finished":
        lines += [f"    {_clock(when)} {sentence}" for when, sentence in run.errors]
    return lines
