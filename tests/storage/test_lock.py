"""One driver at a time: who is refused, who takes over, and whose lock is never touched."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

import pytest

from daskrf.errors import StoreError
from daskrf.storage import lock as lock_module
from daskrf.storage.inspection import verify
from daskrf.storage.integrity import sealed
from daskrf.storage.lock import LOCK_FILE, StoreLock
from tests.storage.strategies import full_store, new_store

DEAD = 2**22 + 12345  # no process has such a number
HOLDER = """
import sys, time
from pathlib import Path
from daskrf.storage.lock import StoreLock
with StoreLock(Path(sys.argv[1]), what="daskrf fit"):
    print("held", flush=True)
    time.sleep(600)
"""


def foreign_lock(directory: Path, age: float, **changes: object) -> bytes:
    """A lock of another host, touched `age` seconds ago."""
    owner = {"host": "node7", "pid": 4321, "started": "2026-01-02T03:04:05+00:00", "what": "daskrf fit"}
    content = sealed(json.dumps({**owner, **changes}).encode())
    (directory / LOCK_FILE).write_bytes(content)
    then = time.time() - age
    os.utime(directory / LOCK_FILE, (then, then))
    return content


def test_a_second_driver_is_refused_by_name(tmp_path: Path) -> None:
    with StoreLock(tmp_path, what="daskrf fingerprint"):
        owner = json.loads((tmp_path / LOCK_FILE).read_bytes())
        assert (owner["host"], owner["pid"]) == (socket.gethostname(), os.getpid())
        words = re.escape(
            f"{tmp_path} is in use by daskrf fingerprint (process {os.getpid()} on host "
            f"{socket.gethostname()}, since {owner['started']})"
        )
        with pytest.raises(StoreError, match=words), StoreLock(tmp_path):
            pytest.fail("two drivers at once")
        assert json.loads((tmp_path / LOCK_FILE).read_bytes()) == owner
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ZeroDivisionError), StoreLock(tmp_path):
        raise ZeroDivisionError
    with StoreLock(tmp_path):
        assert [item.name for item in tmp_path.iterdir()] == [LOCK_FILE]


def test_a_killed_driver_leaves_no_obstacle(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreError, match=f"daskrf fit .process {holder.pid} "), StoreLock(tmp_path):
            pytest.fail("two drivers at once")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert (tmp_path / LOCK_FILE).exists()
    with StoreLock(tmp_path):
        assert json.loads((tmp_path / LOCK_FILE).read_bytes())["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_another_host_is_judged_by_its_heartbeat(tmp_path: Path) -> None:
    for age in (0.0, 100.0):
        content = foreign_lock(tmp_path, age)
        with (
            pytest.raises(StoreError, match=r"process 4321 on host node7, since 2026-01-02T03:04:05"),
            StoreLock(tmp_path),
        ):
            pytest.fail("the owner is alive")
        assert (tmp_path / LOCK_FILE).read_bytes() == content
    foreign_lock(tmp_path, 130.0)
    with StoreLock(tmp_path):
        assert json.loads((tmp_path / LOCK_FILE).read_bytes())["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_is_being_written_counts(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_bytes(b"")
    with pytest.raises(StoreError, match="in use by an unknown command"), StoreLock(tmp_path):
        pytest.fail("its owner has just made it")


def test_the_heart_beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "BEAT_SECONDS", 0.01)
    with StoreLock(tmp_path):
        os.utime(tmp_path / LOCK_FILE, (0, 0))
        give_up = time.monotonic() + 240
        while (tmp_path / LOCK_FILE).stat().st_mtime == 0 and time.monotonic() < give_up:
            time.sleep(0.01)
        assert (tmp_path / LOCK_FILE).stat().st_mtime > 0


def test_the_lock_of_somebody_else_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "BEAT_SECONDS", 0.01)
    beats = []
    utime = os.utime
    with StoreLock(tmp_path):
        (tmp_path / LOCK_FILE).unlink()
        content = foreign_lock(tmp_path, 100.0)
        touched = (tmp_path / LOCK_FILE).stat().st_mtime_ns
        monkeypatch.setattr(os, "utime", lambda file: (utime(file), beats.append(file)))
        give_up = time.monotonic() + 240
        while len(beats) < 3 and time.monotonic() < give_up:
            time.sleep(0.01)
    assert len(beats) >= 3
    assert (tmp_path / LOCK_FILE).read_bytes() == content
    assert (tmp_path / LOCK_FILE).stat().st_mtime_ns == touched


def test_a_rival_that_was_faster_keeps_its_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign_lock(tmp_path, 200.0)
    remove = StoreLock._remove
    rival = b""

    def rival_first(lock: StoreLock, path: Path, content: bytes) -> None:
        nonlocal rival
        rival = foreign_lock(tmp_path, 0.0, host="node8")
        remove(lock, path, content)

    monkeypatch.setattr(StoreLock, "_remove", rival_first)
    with pytest.raises(StoreError, match="on host node8"), StoreLock(tmp_path):
        pytest.fail("the rival holds it")
    assert (tmp_path / LOCK_FILE).read_bytes() == rival
    assert [item.name for item in tmp_path.iterdir()] == [LOCK_FILE]


def contend(directory: Path, start: threading.Barrier, end: threading.Barrier, outcomes: list[str]) -> None:
    """Try to get the lock, and hold it until everybody has tried."""
    start.wait(240)
    try:
        with StoreLock(directory):
            outcomes.append("held")
            end.wait(240)
    except StoreError:
        outcomes.append("refused")
        end.wait(240)


def test_of_many_that_find_a_dead_lock_one_gets_it(tmp_path: Path) -> None:
    for attempt in range(20):
        directory = tmp_path / str(attempt)
        directory.mkdir()
        foreign_lock(directory, 200.0)
        outcomes: list[str] = []
        arguments = (directory, threading.Barrier(6), threading.Barrier(6), outcomes)
        threads = [threading.Thread(target=contend, args=arguments) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(outcomes) == ["held"] + ["refused"] * 5
        assert list(directory.iterdir()) == []


def test_a_guard_of_a_killed_driver_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign_lock(tmp_path, 200.0)

    class Killed(BaseException):
        pass

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(Killed), StoreLock(tmp_path):
            pytest.fail("it was killed")
    for item in tmp_path.iterdir():
        os.utime(item, (0, 0))
    with StoreLock(tmp_path):
        assert json.loads((tmp_path / LOCK_FILE).read_bytes())["pid"] == os.getpid()


def test_a_locked_directory_takes_a_store(tmp_path: Path) -> None:
    with StoreLock(tmp_path / "s"):
        store = full_store(tmp_path / "s", 2, 20)
        assert new_store(store.path, 2, 20).pending() == []
        assert (store.path / LOCK_FILE).exists(), "cleaning leaves it"
        assert verify(store.path).sound
    assert not (store.path / LOCK_FILE).exists()
    with StoreLock(tmp_path / "empty"):
        assert (tmp_path / "empty").is_dir()
    assert not (tmp_path / "empty").exists()


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot lock .*file"), StoreLock(tmp_path / "file"):
        pytest.fail("no directory")


def test_shards_share_and_a_whole_driver_does_not(tmp_path: Path) -> None:
    with StoreLock(tmp_path, "shard 0", "0-of-3"), StoreLock(tmp_path, "shard 2", "2-of-3"):
        assert sorted(item.name for item in tmp_path.iterdir()) == [".lock-0-of-3", ".lock-2-of-3"]
        for part, owner in ((None, "shard"), ("2-of-3", "shard 2"), ("0-of-4", "shard")):
            with pytest.raises(StoreError, match=f"in use by {owner}"), StoreLock(tmp_path, "late", part):
                pytest.fail("two at once")
        with StoreLock(tmp_path, "preparing", "prepare"), pytest.raises(StoreError, match="in use by"):
            StoreLock(tmp_path).__enter__()
    with StoreLock(tmp_path, "whole"):
        for part in ("0-of-3", "prepare"):
            with pytest.raises(StoreError, match="in use by whole"), StoreLock(tmp_path, "shard", part):
                pytest.fail("two at once")
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_dead_shard_is_no_obstacle(tmp_path: Path) -> None:
    foreign_lock(tmp_path, 200.0)
    (tmp_path / LOCK_FILE).rename(tmp_path / f"{LOCK_FILE}-1-of-3")
    with StoreLock(tmp_path):
        assert [item.name for item in tmp_path.iterdir()] == [LOCK_FILE]


def test_of_drivers_and_shards_that_come_at_once_one_kind_gets_it(tmp_path: Path) -> None:
    def contend(shard: str | None) -> None:
        start.wait(240)
        try:
            with StoreLock(tmp_path, shard=shard):
                held.append(shard)
                end.wait(240)
        except StoreError:
            end.wait(240)

    for _ in range(20):
        held: list[str | None] = []
        start, end = threading.Barrier(4), threading.Barrier(4)
        threads = [threading.Thread(target=contend, args=(p,)) for p in (None, "0-of-2", "1-of-2", None)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert held.count(None) <= 1
        assert None not in held or held == [None]
        assert list(tmp_path.iterdir()) == []


def test_an_owner_elsewhere_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is queued again after its node has died comes before the lease of the dead one has ended."""
    monkeypatch.setattr(lock_module, "LOOK_SECONDS", 0.01)
    foreign_lock(tmp_path, lock_module.STALE_SECONDS - 3.0)
    told: list[str] = []
    with StoreLock(tmp_path, tell=told.append):
        assert json.loads((tmp_path / LOCK_FILE).read_bytes())["pid"] == os.getpid()
    assert len(told) == 1
    assert "process 4321 on host node7" in told[0]

    def beat(text: str) -> None:
        os.utime(tmp_path / LOCK_FILE, (time.time(), time.time()))

    foreign_lock(tmp_path, 50.0)
    with pytest.raises(StoreError, match="in use by daskrf fit"), StoreLock(tmp_path, tell=beat):
        pytest.fail("its heart has beaten")


def no_wait(seconds: float) -> None:
    pytest.fail("there is nobody to wait for")


def guard_of(directory: Path, content: bytes, age: float = 0.0, **maker: object) -> Path:
    """The guard of somebody who was about to take away a lock of this content."""
    guard = directory / f"{lock_module.GUARD}{hashlib.sha256(content).hexdigest()[:16]}"
    owner = {
        "host": socket.gethostname(),
        "pid": DEAD,
        "what": "daskrf fit",
        "token": uuid.uuid4().hex,
        **maker,
    }
    guard.write_bytes(sealed(json.dumps(owner).encode()))
    os.utime(guard, (time.time() - age,) * 2)
    return guard


@pytest.mark.parametrize("lock_is_gone", [False, True])
def test_who_died_while_taking_a_lock_away_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock_is_gone: bool
) -> None:
    monkeypatch.setattr(time, "sleep", no_wait)
    content = foreign_lock(tmp_path, 200.0)
    guard_of(tmp_path, guard_of(tmp_path, content).read_bytes())  # and so did he who took the guard away
    if lock_is_gone:
        (tmp_path / LOCK_FILE).unlink()
    with StoreLock(tmp_path):
        assert [item.name for item in tmp_path.iterdir()] == [LOCK_FILE]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("maker", [{"host": "node7"}, {"pid": os.getpid()}, None])
def test_a_guard_that_stays_is_waited_for_with_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maker: dict[str, object] | None
) -> None:
    for name, seconds in (("LOOK_SECONDS", 0.02), ("STALE_SECONDS", 0.3), ("GUARD_SECONDS", 0.01)):
        monkeypatch.setattr(lock_module, name, seconds)
    # As far in the future as a clock that was set back may be.
    guard = guard_of(tmp_path, foreign_lock(tmp_path, 200.0), -1e6, **(maker or {}))
    if maker is None:  # of version 0.1.0
        guard.write_bytes(b"")
    told: list[str] = []
    with StoreLock(tmp_path, tell=told.append):
        assert [item.name for item in tmp_path.iterdir()] == [LOCK_FILE]
    who = "an unknown command" if maker is None else "daskrf fit .process"
    assert len(told) == 1
    assert re.search(
        f"is being taken over by .*{who}.*; waiting for a sign of life, at most 0 seconds", told[0]
    )
    guard_of(tmp_path, foreign_lock(tmp_path, 200.0), **(maker or {"host": "node7"}))
    monkeypatch.setattr(lock_module, "STALE_SECONDS", 100.0)
    with pytest.raises(StoreError, match="in use by daskrf fit"), StoreLock(tmp_path):
        pytest.fail("nobody can be told")


@pytest.mark.parametrize("owner", [{}, {"host": socket.gethostname(), "pid": os.getpid()}, None])
def test_a_lock_whose_time_is_in_the_future_or_that_is_empty_is_waited_for_no_longer_than_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: dict[str, object] | None
) -> None:
    monkeypatch.setattr(lock_module, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(lock_module, "STALE_SECONDS", 0.3)
    foreign_lock(tmp_path, -1e6, **(owner or {}))
    if owner is None:
        (tmp_path / LOCK_FILE).write_bytes(b"")
        os.utime(tmp_path / LOCK_FILE, (time.time() + 1e6,) * 2)
    told: list[str] = []
    with StoreLock(tmp_path, tell=told.append):
        assert json.loads((tmp_path / LOCK_FILE).read_bytes())["pid"] == os.getpid()
    assert ["waiting for a sign of life" in text for text in told] == [True]
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_somebody_else_is_no_lock(tmp_path: Path) -> None:
    lock = tmp_path / LOCK_FILE
    old = sealed(json.dumps({"host": "node7", "pid": 1}).encode())
    for content in (
        b"pacman",
        b"{}",
        json.dumps({"host": "node7", "pid": 1}).encode(),
        old[:-3],
        b"[" * 10**5,
    ):
        lock.write_bytes(content)
        os.utime(lock, (0, 0))
        with (
            pytest.raises(StoreError, match="is damaged, or is not a lock file of daskrf; delete it"),
            StoreLock(tmp_path),
        ):
            pytest.fail("it is in use by another program")
        assert lock.read_bytes() == content
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(StoreError, match="is not a lock file of daskrf"), StoreLock(tmp_path):
        pytest.fail("a pipe")
    lock.unlink()
    (tmp_path / f"{lock_module.GUARD}notes").write_text("mine")
    with StoreLock(tmp_path):
        pass
    assert [item.name for item in tmp_path.iterdir()] == [f"{lock_module.GUARD}notes"]


def test_who_holds_it_is_shown_in_printable_words(tmp_path: Path) -> None:
    foreign_lock(tmp_path, 0.0, what="fit\x1b[2J\u202e", host=["\x9b"] * 1000, pid={"a": "b"})
    with (
        pytest.raises(StoreError, match=r"in use by fit\\x1b\[2J\\u202e \(process") as caught,
        StoreLock(tmp_path),
    ):
        pytest.fail("it is held")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


def test_nothing_is_locked_where_nobody_can_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("daskrf.files.backend._create_file", read_only)
    with StoreLock(tmp_path):
        assert list(tmp_path.iterdir()) == []
    assert tmp_path.is_dir()
    monkeypatch.setattr(Path, "mkdir", read_only)
    with pytest.raises(StoreError, match="read-only; give another path"), StoreLock(tmp_path / "new"):
        pytest.fail("there is no directory")
