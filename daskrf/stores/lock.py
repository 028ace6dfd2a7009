"""One driver at a time on an output, or its shards: lock files with the names of owners and a heartbeat."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from daskrf.errors import StoreError
from daskrf.paths import ObjectPath, as_path
from daskrf.stores.files import TEMPORARY, file_errors, is_gone, temporary_name

__all__ = ["StoreLock"]

LOCK_FILE = ".lock"
BEAT_SECONDS = 10.0
STALE_SECONDS = 120.0
GUARD_SECONDS = 0.05
LOOK_SECONDS = 1.0


class StoreLock:
    """Context manager that keeps a second driver away from a directory.

    The file ``.lock`` in the directory says who holds it; a thread touches it every 10 seconds. The lock
    of an owner that is dead (same host, no such process) or silent for 120 seconds is taken over.

    Shards of one job share the directory: each has the file ``.lock-PART``. A whole driver keeps every shard
    away and a shard every whole driver, because each makes its own file first and looks for the others' then:
    of two that come at once, at least one sees the other.

    Parameters
    ----------
    directory : path
        Of the output; made if need be, and deleted again if nothing else came into it.
    what : str
        Command of the owner, for the message that the second driver gets.
    part : str, optional
        Of a shard: its name, such as ``"3-of-64"``. The same part twice is refused, and so are parts of
        another number of shards, which would do the same work; ``"prepare"`` goes with any of them.
    tell : callable, optional
        Called with one sentence before an owner on another host is waited for, of whom it cannot be seen
        whether he lives: until his next heartbeat, when this one is refused, or until he has been silent
        for long. Without it such an owner is taken to be alive.

    Notes
    -----
    The lock saves work and confusion, not data: partitions are published atomically, and two drivers of
    one specification write the same bytes. It relies on ``O_CREAT | O_EXCL`` being atomic, as on local file
    systems and on NFS from version 3 on, and on an object storage on conditional PUTs: ``If-None-Match`` to
    make the lock, ``If-Match`` to touch it. Ages are differences between times of the server, so the clocks
    of hosts may differ.

    Not guaranteed: that a driver which was stopped, or cut off from the file server, for more than two
    minutes still holds its lock when it goes on; and that hosts (or containers with process numbers of
    their own) which share one host name are told apart.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with StoreLock(folder, what="daskrf fingerprint"):
    ...         sorted(os.listdir(folder))
    ...     os.listdir(folder)
    ['.lock']
    []
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        what: str = "daskrf",
        part: str | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.path = as_path(directory) / (LOCK_FILE if part is None else f"{LOCK_FILE}-{part}")
        self._part = part
        self._tell = tell
        self._first_seen: dict[Path, float] = {}
        self._made = False
        self._file = -1
        self._e_tag: str | None = None  # of a lock that is an object
        self._stop = threading.Event()
        self._content = json.dumps(
            {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "started": datetime.now(UTC).isoformat(timespec="seconds"),
                "what": what,
                "token": uuid.uuid4().hex,
            }
        ).encode()

    def __enter__(self) -> Self:
        """Take the lock.

        Raises
        ------
        StoreError
            Another driver holds it, who is named; or the directory cannot be written.
        """
        with file_errors("lock", self.path.parent):
            self._made = not self.path.parent.exists()
            self.path.parent.mkdir(parents=True, exist_ok=True)
            while not self._create():
                self._take_over(self.path)
        self._thread = threading.Thread(target=self._beat, name="daskrf-lock", daemon=True)
        self._thread.start()
        try:
            with file_errors("lock", self.path.parent):
                while rivals := self._rivals():
                    for rival in rivals:
                        self._take_over(rival)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _rivals(self) -> list[Path]:
        """Return the locks of those who must not be at work at the same time."""
        names = [path.name for path in self.path.parent.iterdir()]
        names = [name for name in names if f"{name}-".startswith(f"{LOCK_FILE}-")]
        return [self.path.with_name(name) for name in names if self._excludes(name)]

    def _excludes(self, name: str) -> bool:
        if name == self.path.name:
            return False
        if self._part is None or name == LOCK_FILE:
            return True
        mine, others = (text.rpartition("-of-")[2] for text in (self._part, name))
        return mine.isdigit() and others.isdigit() and mine != others

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        # A lock file that cannot be deleted, or a directory that is gone, must not hide how the work ended.
        with suppress(OSError):
            self._remove(self.path, self._content)
        with suppress(OSError):
            os.close(self._file)
        if self._made and not isinstance(self.path, ObjectPath):
            with suppress(OSError):
                self.path.parent.rmdir()

    def _create(self) -> bool:
        """Make the lock file; False where there is one."""
        if isinstance(self.path, ObjectPath):
            # One of this very content was made by this call, of which an answer was lost.
            if not self.path.create(self._content) and _content(self.path) != self._content:
                return False
            if self.path.create(self._content):
                self.path.unlink()
                raise StoreError(
                    f"the storage of {self.path.parent} does not know conditional PUTs (If-None-Match), "
                    "without which two processes could undo each other's work; give another output path"
                )
            self._e_tag = self.path.head()["e_tag"]
            return True
        try:
            self._file = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        try:
            os.write(self._file, self._content)
            os.fsync(self._file)
        except BaseException:
            os.close(self._file)
            self.path.unlink(missing_ok=True)
            raise
        return True

    def _take_over(self, path: Path) -> None:
        """Remove the lock at `path` if its owner is gone, or wait a little where that cannot be seen yet.

        Raises
        ------
        StoreError
            The owner is at work.
        """
        try:
            if isinstance(path, ObjectPath):
                touched, content = path.stat().st_mtime, path.read_bytes()
            else:
                # Opened, so that NFS asks the server how old it is.
                with open(path, "rb") as file:
                    content, touched = file.read(), os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return
        owner = _parse(content)
        if not _is_dead(owner) and self._now() - touched < STALE_SECONDS:
            if not self._may_be_dead(path, owner, touched):
                raise self._refusal(owner)
            time.sleep(LOOK_SECONDS)
            return
        self._remove(path, content)

    def _may_be_dead(self, path: Path, owner: dict[str, Any], touched: float) -> bool:
        """Whether the owner is on another host, and his heart has not beaten since it was first looked at."""
        if self._tell is None or owner.get("host") in (None, socket.gethostname()):
            return False
        if path not in self._first_seen:
            self._first_seen[path] = touched
            self._tell(
                f"{path.parent} is locked by {_name(owner)}; waiting for a sign of life, at most "
                f"{STALE_SECONDS:.0f} seconds."
            )
        return touched == self._first_seen[path]

    def _now(self) -> float:
        """Time of the file system, which may differ from that of this host."""
        probe = self.path.with_name(temporary_name(LOCK_FILE))
        try:
            probe.write_bytes(b"?")
            return probe.stat().st_mtime
        finally:
            probe.unlink(missing_ok=True)

    def _remove(self, path: Path, content: bytes) -> None:
        """Remove a lock file if it still has this content.

        Who removes it needs a guard file named after the content. So of several drivers that find the same
        dead lock one removes it, and none removes the lock that another has put in its place meanwhile.
        """
        guard = self.path.with_name(f"{TEMPORARY}{LOCK_FILE}-{hashlib.sha256(content).hexdigest()[:16]}")
        if not _create_empty(guard):
            with suppress(FileNotFoundError):
                if self._now() - guard.stat().st_mtime > STALE_SECONDS:
                    guard.unlink()  # its maker was killed within the next lines
            time.sleep(GUARD_SECONDS)
            return
        try:
            with suppress(FileNotFoundError):
                if _content(path) == content:
                    path.unlink()
        finally:
            guard.unlink(missing_ok=True)

    def _refusal(self, owner: dict[str, Any]) -> StoreError:
        """One sentence about the owner."""
        return StoreError(
            f"{self.path.parent} is in use by {_name(owner)}; wait until it ends, or stop it and run this "
            f"again {STALE_SECONDS:.0f} seconds later"
        )

    def _beat(self) -> None:
        """Touch the lock file until the lock is released."""
        while not self._stop.wait(BEAT_SECONDS):
            # By its open file, or its tag, so that a lock that took its place is never touched.
            with suppress(OSError):  # which may pass
                if not isinstance(self.path, ObjectPath):
                    os.utime(self._file)
                elif self._e_tag is not None:
                    self._e_tag = self.path.replace_version(self._content, self._e_tag)


def _content(path: Path) -> bytes | None:
    """The content of a lock, None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _create_empty(path: Path) -> bool:
    """Make an empty file; False where there is one."""
    if isinstance(path, ObjectPath):
        return path.create(b"")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
    except FileExistsError:
        return False
    return True


def _parse(content: bytes) -> dict[str, Any]:
    """What a lock file says; nothing where its owner is just writing it."""
    try:
        owner = json.loads(content)
    except ValueError:
        return {}
    return owner if isinstance(owner, dict) else {}


def _name(owner: dict[str, Any]) -> str:
    """The owner in words."""
    what, pid, host, since = (owner.get(key, "unknown") for key in ("what", "pid", "host", "started"))
    return f"{what} (process {pid} on host {host}, since {since})"


def _is_dead(owner: dict[str, Any]) -> bool:
    """Whether the owner was a process of this host that is gone."""
    return is_gone(owner.get("host"), owner.get("pid"))
