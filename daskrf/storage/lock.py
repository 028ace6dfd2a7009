"""Lock files with an owner and a heartbeat: one driver, or the shards of one job, may use an output."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import PurePath
from types import TracebackType
from typing import Self

from daskrf.errors import StoreError, printable
from daskrf.files.backend import Held, backend, exists
from daskrf.files.disk import TEMPORARY, file_errors, is_gone, temporary_name
from daskrf.storage.integrity import is_sealed, parsed, sealed, unsealed

LOCK_FILE = ".lock"
GUARD = f"{TEMPORARY}{LOCK_FILE}-"  # followed by the hash of the lock that is about to be removed
BEAT_SECONDS = 10.0
STALE_SECONDS = 120.0
GUARD_SECONDS = 0.05
LOOK_SECONDS = 1.0


class StoreLock:
    """Context manager that keeps a second driver away from a directory.

    The file ``.lock`` in the directory names the owner; a thread touches it every 10 seconds. A lock is
    taken over if its owner is dead (same host, no such process) or has been silent for 120 seconds. A file
    of this name that was not written by daskrf raises an error and is left in place.

    Shards of one job share the directory: each has the file ``.lock-PART``. A shard and a run of the whole
    job exclude each other. Each driver writes its own lock file before it looks for others, so if two start
    at the same moment, at least one sees the other.

    Parameters
    ----------
    directory : path
        Output directory; created if needed, and deleted again if nothing else was written to it.
    what : str
        Command of the owner, shown to the second driver.
    part : str, optional
        Name of the shard, such as ``"3-of-64"``. The same part cannot run twice at once, nor can parts of a
        different number of shards, which would do the same work; ``"prepare"`` is compatible with all.
    tell : callable, optional
        Called with one sentence before waiting for an owner that cannot be checked from this host. The wait
        ends at the owner's next heartbeat, and this process then fails; or after 120 seconds without one,
        measured by the age of the lock or by this wait. Without `tell`, such an owner counts as alive.

    Notes
    -----
    The lock prevents duplicate work and confusion; data are safe without it, because partitions are
    published atomically and two drivers of one specification write the same bytes. It relies on
    ``O_CREAT | O_EXCL`` being atomic, as on local file systems and NFS version 3 or later, and on object
    storage on conditional PUTs: ``If-None-Match`` to create the lock, ``If-Match`` to touch it. Ages are
    computed from server times only, so the clocks of hosts may differ. On a read-only file system, where
    nobody can write, nothing is locked.

    Two things are not guaranteed: that a driver which was suspended, or cut off from the file server, for
    more than two minutes still holds its lock when it resumes; and that hosts (or containers with their own
    process IDs) with the same host name are distinguished.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with StoreLock(pathlib.Path(folder), what="daskrf fingerprint"):
    ...         sorted(os.listdir(folder))
    ...     os.listdir(folder)
    ['.lock']
    []
    """

    def __init__(
        self,
        directory: PurePath,
        what: str = "daskrf",
        shard: str | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        self.path = directory / (LOCK_FILE if shard is None else f"{LOCK_FILE}-{shard}")
        self._part = shard
        self._tell = tell
        # By lock: its time when this process first saw it, and the time of this process then.
        self._first_seen: dict[tuple[PurePath, bytes], tuple[float, float]] = {}
        self._told: set[PurePath] = set()
        self._made = False
        self._beats: threading.Thread | None = None
        self._files = backend(self.path)
        self._held: Held | None = None
        self._stop = threading.Event()
        owner = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "what": what,
            "token": uuid.uuid4().hex,
        }
        self._content = sealed(json.dumps(owner).encode())

    def __enter__(self) -> Self:
        """Take the lock.

        Raises
        ------
        StoreError
            Another driver, named in the message, holds it; or the directory cannot be written.
        """
        with file_errors("lock", self.path.parent):
            try:
                self._made = self._files.make(self.path.parent)
                while (held := self._files.create(self.path, self._content)) is None:
                    self._take_over(self.path)
            except OSError as error:
                if error.errno != errno.EROFS or not exists(self.path.parent):
                    raise
                return self
        self._held = held
        self._beats = threading.Thread(target=self._beat, name="daskrf-lock", daemon=True)
        self._beats.start()
        try:
            with file_errors("lock", self.path.parent):
                while rivals := self._rivals():
                    for rival in rivals:
                        self._take_over(rival)
                self._sweep()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _rivals(self) -> list[PurePath]:
        """Return the other locks that exclude this one."""
        names = self._files.names(self.path.parent)
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
        if self._beats is None or self._held is None:
            return
        self._stop.set()
        self._beats.join()
        # A lock file that cannot be deleted, or a missing directory, must not hide an error of the work.
        with suppress(OSError, ValueError):
            self._held.touch()  # prevents a takeover between the next two calls
            if self._files.read(self.path.parent, self.path.name) == self._content:
                self._files.remove(self.path)
        self._held.close()
        if self._made:
            with suppress(OSError):
                os.rmdir(self.path.parent)

    def _take_over(self, path: PurePath) -> None:
        """Remove the lock at `path` if its owner is gone; wait briefly if that is not certain yet."""
        lock = _look(path)
        if lock is None:
            return
        content, owner, touched = lock
        if self._is_over(path, content, owner, touched):
            self._remove(path, content)
        elif path.name.startswith(GUARD):
            self._await_guard(path, content, owner)
        elif self._may_be_dead(path, content, owner, touched):
            self._say_once(path, f"{path.parent} is locked by {_name(owner)}")
            time.sleep(LOOK_SECONDS)
        else:
            raise self._refusal(owner)

    def _is_over(self, path: PurePath, content: bytes, owner: Mapping[str, object], touched: float) -> bool:
        """Return whether an owner is dead, or silent for too long by the lock's age or by our own wait.

        A lock whose time is in the future, as after a clock was set back, has no age.
        """
        first, since = self._first_seen.setdefault((path, content), (touched, time.monotonic()))
        if is_gone(owner.get("host"), owner.get("pid")):
            return True
        waited = time.monotonic() - since if touched == first else 0.0
        return max(self._now() - touched, waited) >= STALE_SECONDS

    def _may_be_dead(
        self, path: PurePath, content: bytes, owner: Mapping[str, object], touched: float
    ) -> bool:
        """Return whether an owner may be dead, such as one on another host with no heartbeat seen yet."""
        if self._tell is None or touched != self._first_seen[path, content][0]:
            return False
        # A living owner corrects a time in the future at its next heartbeat.
        return owner.get("host") != socket.gethostname() or touched - self._now() > BEAT_SECONDS

    def _await_guard(self, path: PurePath, content: bytes, owner: Mapping[str, object]) -> None:
        """Wait for another process to remove a lock, which is quick unless that process is suspended."""
        if time.monotonic() - self._first_seen[path, content][1] > LOOK_SECONDS:
            if self._tell is None:
                raise self._refusal(owner)
            self._say_once(path, f"A lock in {path.parent} is being taken over by {_name(owner)}")
        time.sleep(GUARD_SECONDS)

    def _say_once(self, path: PurePath, what: str) -> None:
        """Report, once per lock, what this process is waiting for and for how long."""
        if self._tell is not None and path not in self._told:
            self._told.add(path)
            self._tell(f"{what}; waiting for a sign of life, at most {STALE_SECONDS:.0f} seconds.")

    def _now(self) -> float:
        """Return the time of the file system, which may differ from that of this host."""
        probe = self.path.with_name(temporary_name(LOCK_FILE))
        held = self._files.create(probe, b"?")
        try:
            return self._files.read_dated(probe.parent, probe.name)[1]
        finally:
            if held is not None:
                held.close()
            self._files.remove(probe)

    def _remove(self, path: PurePath, content: bytes) -> None:
        """Remove the lock, or the guard, of a dead owner if it still has this content.

        Removing it requires a guard file named after the content. So if several drivers find the same dead
        lock, exactly one removes it, and none removes a lock that another has since created in its place. A
        guard names its owner, and the guard of a dead owner is removed in the same way.
        """
        guard = self.path.with_name(f"{GUARD}{hashlib.sha256(content).hexdigest()[:16]}")
        while (held := self._files.create(guard, self._content)) is None:
            self._take_over(guard)
        try:
            with suppress(FileNotFoundError):
                if self._files.read(path.parent, path.name) == content:
                    self._files.remove(path)
        finally:
            held.close()
            self._files.remove(guard)

    def _sweep(self) -> None:
        """Remove guards left by processes that died between removing a lock and removing its guard."""
        for name in self._files.names(self.path.parent):
            if name.startswith(GUARD):
                path = self.path.with_name(name)
                with suppress(StoreError):  # a foreign file with such a name
                    lock = _look(path)
                    if lock is not None and self._is_over(path, *lock):
                        self._remove(path, lock[0])

    def _refusal(self, owner: Mapping[str, object]) -> StoreError:
        """Return the error that names the owner."""
        return StoreError(
            f"{self.path.parent} is in use by {_name(owner)}; wait until it ends, or stop it and run this "
            f"again {STALE_SECONDS:.0f} seconds later"
        )

    def _beat(self) -> None:
        """Touch the lock file until the lock is released."""
        while not self._stop.wait(BEAT_SECONDS):
            if self._held is not None:
                with suppress(OSError):  # may be transient
                    self._held.touch()


def _look(path: PurePath) -> tuple[bytes, Mapping[str, object], float] | None:
    """Return the content, owner and time of a lock or a guard; None if there is none.

    Refuse any other file, which must not be deleted.
    """
    try:
        content, touched = backend(path).read_dated(path.parent, path.name)
        owner = _owner(content)
    except FileNotFoundError:
        return None
    except ValueError:
        raise StoreError(
            f"{path} is damaged, or is not a lock file of daskrf; delete it if no daskrf command is at work "
            "there, or give another path"
        ) from None
    return content, owner, touched


def _owner(content: bytes) -> Mapping[str, object]:
    """Return the owner in a lock; empty if its writer has not finished, or died while writing it."""
    if not content or is_sealed(content):
        return unsealed(content) if content else {}
    owner = parsed(content)
    if not (isinstance(owner, dict) and "token" in owner):  # locks of version 0.1.0 were not sealed
        raise ValueError("it is not a lock")
    return owner


def _name(owner: Mapping[str, object]) -> str:
    """Describe the owner in words."""
    if not owner:
        return "an unknown command (the lock is empty)"
    what, pid, host, since = (
        printable(owner.get(key, "unknown"), 80) for key in ("what", "pid", "host", "started")
    )
    return f"{what} (process {pid} on host {host}, since {since})"
