"""The log of a run: what its tasks did, one line of JSON each, in a directory beside the output.

``real.fingerprints.log/20261121T221009.123456Z-node7-4711.jsonl`` is the log of one run of one driver, or of
one shard, which alone writes it. Every record has ``time`` (seconds since 1970) and ``event``:

===========  ==========================================================================================
start        of a stage: stage, total, unit, done (before this run), command, shard, host, pid, dashboard
task         finished: key, rows, seconds (measured where it ran), host, digest of what it committed, attempt
done         rows or bytes done without a task, since the last record: amount
lost         a worker was lost that had the task: key, attempt, sentence
error        a task failed: key, attempt, sentence
workers      their number, when it has changed: n
stop         the run ended early: sentence
finish       the run ended well
===========  ==========================================================================================

A log is for people and their scripts. Nothing that daskrf computes depends on it, and a run goes on without
it where it cannot be written.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from daskrf.storage.backend import as_path, backend
from daskrf.storage.integrity import parsed

__all__ = ["RunLog", "first_sentence", "log_directory", "read_first", "read_log"]

BEAT_SECONDS = 10.0  # between two touches, by which others see that the writer lives
_SENTENCE = 300  # characters
LATEST = 2.0**33  # seconds since 1970: of any time that can be shown
_MOST = 2**63  # of any number of rows or bytes
# What readers take from each record. A log may be anybody's, and a record that lacks these is no record.
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


def log_directory(output: str | os.PathLike[str]) -> Path:
    """Return the directory of the run logs of an output: beside it.

    An object store has no files that grow; the logs of what is there are in the working directory.

    Examples
    --------
    >>> log_directory("screens/hits.parquet").as_posix()
    'screens/hits.parquet.log'
    >>> log_directory("s3://bucket/screens/hits.parquet").as_posix()
    'hits.parquet.log'
    """
    path = as_path(output)
    name = f"{path.name}.log"
    return Path(path.with_name(name) if backend(path).is_local else name)


class RunLog:
    """Writer of the log of one run; the file is made with the first record.

    Parameters
    ----------
    output : path
        What the run makes; the log is beside it.
    command : str
        Name of the driver.
    shard : str, optional
        Such as ``"3/16"``.
    dashboard : str, optional
        Address of Dask's dashboard.
    on_failure : callable, optional
        Called once, with a sentence, if the log cannot be written; nothing is raised then.

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
        output: str | os.PathLike[str],
        command: str,
        *,
        shard: str | None = None,
        dashboard: str | None = None,
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        self.path = log_directory(output) / f"{stamp}-{socket.gethostname()}-{os.getpid()}.jsonl"
        self.beside = backend(as_path(output)).is_local
        self.covered = 0  # rows of the stage that records tell of
        self._origin: dict[str, Any] = {"command": command, "shard": shard, "dashboard": dashboard}
        self._origin |= {"host": socket.gethostname(), "pid": os.getpid()}
        self._on_failure = on_failure or (lambda sentence: None)
        self._file = -1
        self._failed = False
        self._n_workers: int | None = None
        self._ended = threading.Event()
        self._beats = threading.Thread(target=self._beat, name="daskrf-log", daemon=True)

    def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        """Record the start of a stage: `total` units to do, `done` of them by earlier runs."""
        self.covered = done
        self._write("start", stage=stage, total=total, unit=unit, done=done, **self._origin)

    def task(self, key: str, rows: int, seconds: float, host: str, digest: str | None, attempt: int) -> None:
        """Record a task that has finished."""
        self.covered += rows
        self._write(
            "task", key=key, rows=rows, seconds=round(seconds, 3), host=host, digest=digest, attempt=attempt
        )

    def done(self, amount: int) -> None:
        """Record progress that no task stands for."""
        self.covered += amount
        self._write("done", amount=amount)

    def lost(self, key: str, attempt: int, worker: str) -> None:
        """Record that a worker was lost which had been given a task."""
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
        """Record that the run ends early, and why."""
        if self._file >= 0:
            self._write("stop", sentence=sentence)

    def finish(self) -> None:
        """Record that the run ends well."""
        if self._file >= 0:
            self._write("finish")

    def close(self) -> None:
        """Write no more."""
        self._ended.set()
        if self._file >= 0:
            self._beats.join()
            with suppress(OSError):
                os.close(self._file)
            self._file = -1
        self._failed = True

    def _write(self, event: str, **fields: Any) -> None:
        """Append a record by a single write, so that a crash leaves a torn last line at worst."""
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


def first_sentence(error: BaseException) -> str:
    """Return the first sentence of an error, after its kind.

    Examples
    --------
    >>> first_sentence(OSError("The disk fails. Replace it."))
    'OSError: The disk fails'
    """
    line = next(iter(str(error).splitlines()), "")
    return f"{type(error).__name__}: {line.partition('. ')[0]}"[:_SENTENCE]


def read_first(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the first record of a log, or None where there is none, or no log that can be read."""
    try:
        with backend(Path(path)).open(Path(path).parent, Path(path).name) as file:
            record = parsed(file.readline())
    except (OSError, ValueError):
        return None
    return record if _is_record(record) else None


def read_log(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Return the records of a log; a line that is torn, because its writer was killed, is left out."""
    try:
        with backend(Path(path)).open(Path(path).parent, Path(path).name) as file:
            lines = [line for line in file.read().split(b"\n") if line]
    except (OSError, ValueError):
        return []
    try:
        records = parsed(b"[%s]" % b",".join(lines))  # all at once takes half the time
    except ValueError:
        records = [_value(line) for line in lines]
    return [record for record in records if _is_record(record)]


def _value(line: bytes) -> Any:
    try:
        return parsed(line)
    except ValueError:
        return None


def _is_record(value: Any) -> bool:
    """Whether a value has what readers take from a record of its event."""
    if not isinstance(value, dict) or not isinstance(value.get("event"), str):
        return False
    if not isinstance(value.get("time"), (int, float)) or not 0 <= value["time"] < LATEST:
        return False
    fields = _FIELDS.get(value["event"], {})
    if not fields.keys() <= value.keys():
        return False
    found = [(value[name], kind) for name, kind in fields.items()]
    return all(
        isinstance(x, kind) and not (isinstance(x, (int, float)) and not 0 <= x < _MOST) for x, kind in found
    )
