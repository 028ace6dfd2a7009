"""Run logs: one line of JSON for each task or event, in a directory beside the output.

`RunLog` writes a log, and `job_of` reads all logs of an output to report what its runs do or how they ended.

``real.fingerprints.log/20261121T221009.123456Z-node7-4711.jsonl`` is the log of one run of one command or
shard, which alone writes it. Every record has ``time`` (seconds since 1970) and ``event``:

===========  ==========================================================================================
start        a stage began: stage, total, unit, done (before this run), command, shard, host, pid, dashboard
task         a task finished: key, rows, seconds (on its worker), host, digest of its commit, attempt
done         rows or bytes finished outside of tasks since the last record: amount
lost         the worker of a task was lost: key, attempt, sentence
error        a task failed: key, attempt, sentence
workers      the number of workers changed: n
stop         the run ended early: sentence
finish       the run ended successfully
===========  ==========================================================================================

A log is for people and their scripts. Nothing that daskrf computes depends on it, and a run continues without
a log if it cannot be written.
"""

from __future__ import annotations

import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath

from daskrf.documents import JsonObject
from daskrf.errors import printable
from daskrf.files.backend import backend
from daskrf.files.disk import is_gone
from daskrf.quantities import amount, duration
from daskrf.storage.integrity import parsed

BEAT_SECONDS = 10.0  # between two touches, which show others that the writer is alive
SILENT_SECONDS = 120.0  # a run on another host is dead if it has not touched its log for this long
WINDOW_SECONDS = 300.0  # over which the rate is averaged
_SHOWN_ERRORS = 3
_SENTENCE = 300  # characters of a sentence at most
LATEST = 2.0**33  # upper limit of times, in seconds since 1970, so that they can be displayed
_MOST = 2**63  # upper limit of numbers of rows or bytes
# Fields that readers use. A log may come from anybody; a line without these fields is not a record.
_FIELDS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "start": {
        **{"stage": str, "unit": str, "command": str, "host": str},
        **{"total": (int, float), "done": (int, float), "pid": int},
        **{"shard": (str, type(None)), "dashboard": (str, type(None))},
    },
    "task": {"rows": (int, float)},
    "done": {"amount": (int, float)},
    "workers": {"n": int},
    "lost": {"key": str, "sentence": str},
    "error": {"key": str, "sentence": str},
    "stop": {"sentence": str},
}


def log_directory(output: PurePath) -> Path:
    """Return the directory of the run logs of an output, which is beside the output.

    Object storage has no files that can grow, so logs for objects go into the working directory.

    Examples
    --------
    >>> log_directory(Path("screens/hits.parquet")).as_posix()
    'screens/hits.parquet.log'
    >>> from daskrf.files.backend import as_path
    >>> log_directory(as_path("s3://bucket/screens/hits.parquet")).as_posix()
    'hits.parquet.log'
    """
    name = f"{output.name}.log"
    return Path(output.parent / name if backend(output).is_local else name)


class RunLog:
    """Writer of the log of one run; the file is created with the first record.

    Parameters
    ----------
    output : path
        Output of the run; the log is beside it.
    command : str
        Name of the command.
    shard : str, optional
        Shard, such as ``"3/16"``.
    dashboard : str, optional
        Address of Dask's dashboard.
    on_failure : callable, optional
        Called once, with a sentence, if the log cannot be written; no error is raised then.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = RunLog(Path(folder) / "hits.parquet", "screen")
    ...     log.start("screen", 100, "rows")
    ...     log.task("screen-0", 60, 1.5, "node7", "89abcdef", 1)
    ...     log.close()
    ...     [record["event"] for record in read_log(log.path)]
    ['start', 'task']
    """

    def __init__(
        self,
        output: PurePath,
        command: str,
        *,
        shard: str | None = None,
        dashboard: str | None = None,
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        self.path = log_directory(output) / f"{stamp}-{socket.gethostname()}-{os.getpid()}.jsonl"
        self.beside = backend(output).is_local
        self.covered = 0  # rows of the stage that are recorded as done
        self._origin: dict[str, object] = {"command": command, "shard": shard, "dashboard": dashboard}
        self._origin |= {"host": socket.gethostname(), "pid": os.getpid()}
        self._on_failure = on_failure or (lambda sentence: None)
        self._file = -1
        self._failed = False
        self._n_workers: int | None = None
        self._ended = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="daskrf-log", daemon=True)

    def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        """Record the start of a stage of `total` units, `done` of which were finished by earlier runs."""
        self.covered = done
        self._write("start", stage=stage, total=total, unit=unit, done=done, **self._origin)

    def task(self, key: str, rows: int, seconds: float, host: str, digest: str | None, attempt: int) -> None:
        """Record a finished task."""
        self.covered += rows
        self._write(
            "task", key=key, rows=rows, seconds=round(seconds, 3), host=host, digest=digest, attempt=attempt
        )

    def done(self, amount: int) -> None:
        """Record progress that is not part of a task."""
        self.covered += amount
        self._write("done", amount=amount)

    def lost(self, key: str, attempt: int, worker: str) -> None:
        """Record that the worker of a task was lost."""
        self._write("lost", key=key, attempt=attempt, sentence=f"The worker {worker} was lost.")

    def error(self, key: str, attempt: int, error: BaseException) -> None:
        """Record that a task failed."""
        self._write("error", key=key, attempt=attempt, sentence=first_sentence(error))

    def workers(self, n: int) -> None:
        """Record the number of workers if it has changed."""
        if n != self._n_workers:
            self._n_workers = n
            self._write("workers", n=n)

    def stop(self, sentence: str) -> None:
        """Record that the run ended early, and why."""
        if self._file >= 0:
            self._write("stop", sentence=sentence)

    def finish(self) -> None:
        """Record that the run ended successfully."""
        if self._file >= 0:
            self._write("finish")

    def close(self) -> None:
        """Close the log; later records are ignored."""
        self._ended.set()
        if self._file >= 0:
            self._beats.join()
            with suppress(OSError):
                os.close(self._file)
            self._file = -1
        self._failed = True

    def discard(self) -> None:
        """Delete the log of a run that did nothing, and the directory if it holds no other log."""
        self.close()
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
            self.path.parent.rmdir()

    def _write(self, event: str, **fields: object) -> None:
        """Append a record in a single write, so that a crash leaves at worst a truncated last line."""
        if self._failed:
            return
        record = {"time": round(time.time(), 3), "event": event, **fields}
        try:
            if self._file < 0:
                self._open()
            os.write(self._file, (json.dumps(record, separators=(",", ":")) + "\n").encode())
        except OSError as error:
            self._failed = True
            self._on_failure(
                f"The run log {self.path} cannot be written ({error.strerror}); the run goes on."
            )

    def _open(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY, 0o644)
        self._beats.start()

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            with suppress(OSError):
                os.utime(self._file)


def seconds_of(output: PurePath) -> float | None:
    """Return the seconds that all finished tasks of all runs on an output took; None if there are no logs."""
    try:
        files = [path for path in log_directory(output).iterdir() if path.suffix == ".jsonl"]
    except OSError:
        return None
    if not files:
        return None
    times = (each.get("seconds") for file in files for each in read_log(file) if each["event"] == "task")
    return float(sum(time for time in times if isinstance(time, (int, float))))


def first_sentence(error: BaseException) -> str:
    """Return the type of an error and the first sentence of its message.

    Examples
    --------
    >>> first_sentence(OSError("The disk fails. Replace it."))
    'OSError: The disk fails'
    """
    line = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {line.partition('. ')[0]}"[:_SENTENCE]


def read_first(path: PurePath) -> JsonObject | None:
    """Return the first record of a log; None if there is none, or the log cannot be read."""
    try:
        with backend(path).open(path.parent, path.name) as file:
            record = parsed(file.readline())
    except (OSError, ValueError):
        return None
    return record if _is_record(record) else None


def read_log(path: PurePath) -> list[JsonObject]:
    """Return the records of a log, skipping invalid lines, such as one truncated when the writer died."""
    try:
        with backend(path).open(path.parent, path.name) as file:
            lines = [line for line in file.read().split(b"\n") if line]
    except (OSError, ValueError):
        return []
    try:
        records = parsed(b"[%s]" % b",".join(lines))  # parsing all at once takes half the time
    except ValueError:
        records = [_value(line) for line in lines]
    return [record for record in records if _is_record(record)]


def _value(line: bytes) -> object:
    try:
        return parsed(line)
    except ValueError:
        return None


def _is_record(value: object) -> bool:
    """Return whether a value is a record with the fields of its event, in the right types."""
    if not isinstance(value, dict) or not isinstance(value.get("event"), str):
        return False
    if not isinstance(value.get("time"), (int, float)) or not 0 <= value["time"] < LATEST:
        return False
    fields = _FIELDS.get(value["event"], {})
    if not fields.keys() <= value.keys():
        return False
    values = [(value[name], kind) for name, kind in fields.items()]
    return all(
        isinstance(x, kind) and not (isinstance(x, (int, float)) and not 0 <= x < _MOST) for x, kind in values
    )


@dataclass(frozen=True)
class RunStatus:
    """One run of a command, or of a shard.

    Attributes
    ----------
    log : Path
        The log that this was read from.
    command, host, pid, dashboard : str, str, int, str or None
        Command, host and process of the run, and the address of Dask's dashboard.
    shard : str or None
        Such as ``"3/16"``.
    started, touched : float
        Times of the first record and of the last sign of life, in seconds since 1970.
    state : str
        ``"running"``, ``"finished"``, ``"stopped"``, or ``"dead"`` if it ended without a final record.
    sentence : str
        Why it stopped.
    stage, unit : str
        Current or last stage, and its unit.
    total, done : int
        Progress of the stage, in units.
    rate : float
        Units per second over the last five minutes of the stage.
    tasks, retries, workers : int
        Finished tasks of this run, retried tasks (failed or lost), and current workers.
    errors : tuple of (float, str)
        Time and sentence of the latest errors and losses.
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
        """Estimated seconds until the stage is finished; None if unknown."""
        return (self.total - self.done) / self.rate if self.rate > 0 and self.total else None

    @property
    def name(self) -> str:
        """Command, shard, process and host, in words."""
        option = {None: "", "prepare": " --prepare"}.get(self.shard, f" --shard {self.shard}")
        return f"daskrf {self.command}{option} (process {self.pid} on host {self.host})"


@dataclass(frozen=True)
class JobStatus:
    """Current runs on an output, shards that died or stopped, and, if nothing is running, the last run."""

    runs: tuple[RunStatus, ...]

    @property
    def running(self) -> bool:
        """Whether any run is in progress."""
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


def job_of(output: PurePath) -> JobStatus | None:
    """Return the status of the runs on an output, from their logs; None if there are no logs."""
    directory = log_directory(output)
    try:
        files = sorted(path for path in directory.iterdir() if path.suffix == ".jsonl")
    except OSError:
        return None
    now = time.time()
    runs = [run for path in _candidates(files, now) if (run := _run_of(path, now)) is not None]
    if not runs:
        return None
    running = [run for run in runs if run.state == "running"]
    last = runs[-1]
    rest = [run for run in runs if run.shard is not None and run.state in ("dead", "stopped")]
    if last.shard is None and not running:
        rest = []  # a run of the whole job covers the work of all shards
    at_work = {run.shard for run in running}
    rest = [run for run in rest if run.shard not in at_work and run is not last]
    if not running or (last.shard is not None and last.state in ("dead", "stopped")):
        rest.append(last)
    return JobStatus((*running, *rest))


def _candidates(files: Sequence[Path], now: float) -> list[Path]:
    """Return the relevant logs, oldest first: the newest of each shard, and all of runs that may be alive."""
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
    """Return the status of the run in one log; None if it has no start record."""
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


def _is_alive(first: JsonObject, touched: float, now: float) -> bool:
    return not is_gone(first["host"], first["pid"]) and now - touched < SILENT_SECONDS


def _followed(run: RunStatus, records: Iterable[JsonObject], now: float) -> RunStatus:
    """Return `run` updated with all records of its log."""
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
    """Describe the runs at the same stage: a single run, or the shards of one job."""
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
    seconds_left = [seconds for seconds in left if seconds is not None]
    return words + (
        f", {duration(max(seconds_left))} left" if seconds_left and len(seconds_left) == len(left) else ""
    )


def _clock(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _ended_lines(run: RunStatus) -> list[str]:
    """Describe how a run ended."""
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
