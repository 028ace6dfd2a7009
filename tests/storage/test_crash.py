"""Crashes, full disks, two writers: a partition is whole or pending, and a second run gives equal bytes."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from daskrf.errors import StoreError
from daskrf.files import backend as backend_module
from daskrf.files import disk
from daskrf.files.backend import atomic_write
from daskrf.storage.inspection import status, verify
from daskrf.storage.stores import store as store_module
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import PLAN_FILE
from tests.storage.strategies import fill, full_store, new_store, random_counts, rows_table

STEPS = ("replace", "fsync", "unlink", "mkdir", "rmdir")
FORKSERVER = multiprocessing.get_context("forkserver")


def _write_forever(path: Path, written: Connection) -> None:
    store = FingerprintStore.open(path)
    while True:
        for p in range(store.n_partitions):
            store.discard(p)
            fill(store, p)
            written.send("written")


@contextmanager
def writer(path: Path) -> Iterator[Connection]:
    """Another process that writes partitions again and again, says so each time, and is killed in the end."""
    written, theirs = FORKSERVER.Pipe(duplex=False)
    process = FORKSERVER.Process(target=_write_forever, args=(path, theirs))
    process.start()
    theirs.close()
    try:
        yield written
    finally:
        process.kill()
        process.join()
        written.close()


class Crash(BaseException):
    """The end of a process, as far as the code can tell."""


def fail_at(patch: pytest.MonkeyPatch, step: int, error: Callable[[], BaseException]) -> list[int]:
    """Let the `step`-th call that changes the disk fail, and all later ones; returns the counter."""
    calls = [0]

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            calls[0] += 1
            if calls[0] >= step:
                raise error()
            return original(*arguments, **options)

        return wrapped

    for name in STEPS:
        patch.setattr(os, name, wrap(getattr(os, name)))
    return calls


def error_of(function: Callable[..., Any], *arguments: Any) -> str | None:
    """The message of the StoreError that a call ends in, or None."""
    try:
        function(*arguments)
    except StoreError as error:
        return str(error)
    return None


def sound_or_pending(store: FingerprintStore) -> None:
    pending = store.pending()
    assert verify(store.path).sound or set(verify(store.path).damaged) <= set(pending)
    for p in set(range(store.n_partitions)).difference(pending):
        assert store.read_fingerprints(p).shape[0] == store.read_rows(p).num_rows


@pytest.mark.parametrize("rewrite", [False, True])
def test_a_crash_at_every_step(tmp_path: Path, rewrite: bool) -> None:
    expected = full_store(tmp_path / "whole", n_partitions=1, rows=20).records()
    step = 0
    while True:
        step += 1
        store = new_store(tmp_path / f"s{step}", 1, 20)
        if rewrite:
            store.write_partition(0, random_counts(5, seed=3), rows_table(0, 5))
        before = store.records()
        with pytest.MonkeyPatch.context() as patch:
            fail_at(patch, step, Crash)
            try:
                if rewrite:  # or what is there would stand
                    store.discard(0)
                fill(store, 0)
                finished = True
            except Crash:
                finished = False
        sound_or_pending(store)
        resumed = new_store(store.path, 1, 20)
        assert resumed.pending() == [0] or resumed.records() in (before, expected)
        if rewrite and resumed.records() == before:
            resumed.discard(0)
        fill(resumed, 0)
        assert resumed.records() == expected
        assert verify(resumed.path).sound
        if finished:
            break
    assert step > 20, "the steps were counted"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no space is left"),
        (errno.EACCES, "permission denied"),
        (errno.EIO, "Input/output error"),
    ],
)
def test_a_failing_disk_is_one_sentence_that_names_the_path(tmp_path: Path, number: int, words: str) -> None:
    expected = full_store(tmp_path / "whole", n_partitions=1, rows=20).records()
    store = new_store(tmp_path / "s", 1, 20)
    for step in range(1, 40, 2):
        with pytest.MonkeyPatch.context() as patch:
            calls = fail_at(patch, step, lambda: OSError(number, os.strerror(number)))
            message = error_of(fill, store, 0)
        if message is None:
            assert calls[0] < step
        else:
            assert words in message
            assert str(tmp_path / "s") in message
            assert "\n" not in message
        sound_or_pending(store)
    fill(store, 0)
    assert store.records() == expected


def test_a_full_disk_while_data_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store(tmp_path / "s", 1, 20)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("daskrf.storage.stores.fingerprintstore.write_array", full)
    with pytest.raises(StoreError, match="no space is left on the device; free some"):
        fill(store, 0)
    monkeypatch.undo()
    assert store.pending() == [0]
    assert list((store.path / "_staging").iterdir()) == []


def test_everything_is_flushed_before_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = new_store(tmp_path / "s", 1, 20)
    flushed: set[Path] = set()
    before: set[Path] = set()

    def recording(*arguments: Any, **options: Any) -> None:
        before.update(flushed)
        atomic_write(*arguments, **options)

    monkeypatch.setattr(os, "fsync", lambda file: flushed.add(Path(f"/proc/self/fd/{file}").resolve()))
    monkeypatch.setattr(store_module, "atomic_write", recording)
    fill(store, 0)
    files = [store.path / item.path for item in store.record(0).objects]
    folders = {folder for file in files for folder in file.parents if folder.is_relative_to(store.path)}
    assert len(files) > 6
    assert {*files, *folders} <= before
    assert store.record_path(0).parent in flushed - before


def test_a_plan_is_whole_or_absent(tmp_path: Path) -> None:
    for step in range(1, 8):
        path = tmp_path / f"s{step}"
        with pytest.MonkeyPatch.context() as patch:
            fail_at(patch, step, Crash)
            try:
                new_store(path)
            except Crash:
                assert not path.exists() or (path / PLAN_FILE).exists() or not list(path.glob("[!.]*"))
        assert new_store(path).pending() == [0, 1, 2]


def test_killed_writers(tmp_path: Path) -> None:
    expected = full_store(tmp_path / "whole", n_partitions=3, rows=200).records()
    store = new_store(tmp_path / "s", 3, 200)
    seen = []
    for attempt in range(1, 7):
        with writer(store.path) as written:
            for _ in range(attempt):
                assert written.recv() == "written"
            time.sleep(0.005 * attempt)
        sound_or_pending(store)
        seen.append(store.pending())
    left = [item.name for item in store.path.rglob(f"{disk.TEMPORARY}*")]
    resumed = new_store(store.path, 3, 200)
    assert list(store.path.rglob(f"{disk.TEMPORARY}*")) == [], f"of {left}"
    for p in resumed.pending():
        fill(resumed, p)
    assert resumed.records() == expected
    assert verify(store.path).sound
    assert 0 not in seen[0]
    assert len(seen[-1]) <= 1, "after six writes at most the partition in hand is pending"


def test_two_writers_at_once(tmp_path: Path) -> None:
    expected = full_store(tmp_path / "whole", n_partitions=2, rows=100).records()
    store = new_store(tmp_path / "s", 2, 100)
    with writer(store.path) as written:
        assert written.recv() == "written"
        for p in (0, 1, 0, 1):
            error_of(fill, store, p)  # the other one may take files away between two steps
    sound_or_pending(store)
    for p in store.pending():
        fill(store, p)
    assert store.records() == expected
    assert verify(store.path).sound


def test_what_another_writer_takes_away_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = full_store(tmp_path / "s", n_partitions=1, rows=20)
    expected = store.records()
    store.discard(0)
    original = backend_module.sync_files

    def taken_away(root: Path, paths: Iterable[Path]) -> Any:
        store.discard(0)
        return original(root, paths)

    with monkeypatch.context() as patch:
        patch.setattr(backend_module, "sync_files", taken_away)
        message = error_of(fill, store, 0)
    assert message is not None
    assert str(store.path) in message
    assert store.pending() == [0]
    fill(store, 0)
    assert store.records() == expected


def test_a_late_writer_of_the_same_bytes_leaves_what_is_there(tmp_path: Path) -> None:
    store = full_store(tmp_path / "s", n_partitions=1, rows=20)
    files_before = {path: path.stat().st_mtime_ns for path in store.path.rglob("*") if path.is_file()}
    fill(store, 0)
    assert {path: path.stat().st_mtime_ns for path in store.path.rglob("*") if path.is_file()} == files_before
    rows = store.rows_path(0)
    whole = rows.read_bytes()
    rows.write_bytes(whole[:-1] + b"x")
    fill(store, 0)
    assert rows.read_bytes() == whole, "damaged bytes are replaced"


def test_reading_changes_nothing(tmp_path: Path) -> None:
    store = full_store(tmp_path / "s")

    def tree() -> list[tuple[str, int, int]]:
        found = [(str(path), path.stat()) for path in sorted(store.path.rglob("*"))]
        return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in found]

    before = tree()
    with pytest.MonkeyPatch.context() as patch:
        fail_at(patch, 1, lambda: OSError(errno.EROFS, "Read-only file system"))
        opened = FingerprintStore.open(store.path)
        for p in range(3):
            opened.read_fingerprints(p)
            opened.read_rows(p)
            opened.read_rejects(p)
        assert status(store.path).complete
        assert verify(store.path).sound
    assert tree() == before
