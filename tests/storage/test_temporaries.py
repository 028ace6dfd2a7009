"""Temporary files: with names of their own, in folders of their own, and nothing else is ever deleted."""

from __future__ import annotations

import importlib
import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from daskrf.errors import InputError, StoreError
from daskrf.files.backend import Url, atomic_write, local_name
from daskrf.files.disk import TEMPORARY, private_folder, remove, remove_stale, temporary_name
from daskrf.storage.model import read_checkpoint, save_model, write_checkpoint
from daskrf.tables.spool import SpoolWriter
from tests.storage.strategies import full_store, new_store

DEAD = f"{os.uname().nodename}~{2**22 + 12345}"  # no process has such a number
MINE = (
    ".tmp-notes",
    f".tmp-x~{DEAD}~0",
    f".tmp-x~{DEAD}~THESIS01",
    f".tmp-{DEAD}~0123abcd",
    ".tmp-",
    ".bashrc",
)


def old_files(folder: Path) -> None:
    """Files of a user, years old, of names that begin as those of temporary files do."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in MINE:
        (folder / name).write_text("do not touch")
        os.utime(folder / name, (0, 0))


def test_files_of_the_user_stay_whatever_comes_of_the_command(tmp_path: Path) -> None:
    old_files(tmp_path / "a")
    (tmp_path / "a" / "thesis.txt").write_text("")
    with pytest.raises(StoreError, match="holds other files"):
        new_store(tmp_path / "a")
    old_files(tmp_path / "b")
    full_store(tmp_path / "b").clean(finished=True)
    new_store(tmp_path / "b")
    old_files(tmp_path / "c")
    save_model(tmp_path / "c", {}, {})
    for folder in "abc":
        assert {item.name for item in (tmp_path / folder).iterdir()} >= set(MINE)


def test_what_a_dead_writer_has_left_is_deleted(tmp_path: Path) -> None:
    old_files(tmp_path)
    left = f".tmp-arrays~{DEAD}~0123abcd"
    other = f".tmp-_plan.json~{DEAD}~0123abcd"
    for name in (left, other):
        (tmp_path / name).write_text("half")
    save_model(tmp_path, {}, {})
    assert not (tmp_path / left).exists()
    assert remove_stale(tmp_path) == 1
    (group,) = tmp_path.glob("arrays-*")
    assert {item.name for item in tmp_path.iterdir()} == {*MINE, "_arrays.json", group.name}


@pytest.mark.parametrize("name", ["x" * 245 + ".parquet", "é" * 120 + "." + "p" * 10, "a" * 121])
def test_names_that_are_nearly_too_long_have_temporary_ones(tmp_path: Path, name: str) -> None:
    name = name.encode()[-250:].decode(errors="ignore")
    atomic_write(tmp_path / name, b"data")
    left = tmp_path / temporary_name(name)
    left.write_text("of this process, which lives")
    assert len(os.fsencode(left.name)) < 255
    assert remove_stale(tmp_path, name) == 0
    assert remove_stale(tmp_path, f"{name[:-1]}?", all_writers=True) == 0
    assert remove_stale(tmp_path, name, all_writers=True) == 1
    assert [item.name for item in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("writes", ["files", "checkpoints"])
def test_a_folder_is_deleted_while_a_late_task_writes_into_it(tmp_path: Path, writes: str) -> None:
    """Tasks of workers that were retired go on for a moment; they neither keep nor restore the folder."""
    work, begun = tmp_path / "work", threading.Event()
    work.mkdir()

    def write(end: float) -> None:
        for i in range(10**6):
            try:
                if writes == "files":
                    (work / f"{i}").write_text("late")
                else:
                    write_checkpoint(work / f"{i}", {"a": np.arange(5000.0)}, {}, "key")
            except (OSError, StoreError):  # it was just deleted
                pass
            if i == 20:
                begun.set()
            if begun.is_set() and time.monotonic() > end:
                return

    thread = threading.Thread(target=write, args=(time.monotonic() + 1.0,))
    thread.start()
    begun.wait()
    remove(work)
    gone = not work.exists()
    thread.join()
    assert gone
    assert not work.exists()


@pytest.mark.parametrize(
    "moment", ["make_folders", "create_group", "write_array", "staged_objects", "publish"]
)
def test_a_late_checkpoint_does_not_restore_a_deleted_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Wherever it is when its job deletes the folder."""
    work = tmp_path / "work"
    work.mkdir()
    place = "daskrf.files.backend" if moment == "make_folders" else "daskrf.storage.model"
    true = getattr(importlib.import_module(place), moment)

    def deleted_first(*args: object) -> object:
        remove(work)
        return true(*args)

    monkeypatch.setattr(f"{place}.{moment}", deleted_first)
    with pytest.raises(StoreError, match="no such file"):
        write_checkpoint(work / "level-0", {"a": np.arange(5000.0), "in/b": np.arange(5000.0)}, {}, "key")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreError, match="no such file"):
        write_checkpoint(work / "level-1", {}, {}, "key")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which everybody writes, and where that of this user's temporary files will be."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"daskrf-{os.getuid()}"


def test_the_shared_folder_is_made_for_this_user_alone(shared: Path) -> None:
    assert local_name("x") == private_folder() / "x" == shared / "x"
    assert shared.stat().st_mode & 0o777 == 0o700
    old_files(shared)
    (shared / f"{TEMPORARY}x~{DEAD}~0123abcd").write_text("")
    local_name("x")
    assert sorted(item.name for item in shared.iterdir()) == sorted(MINE)


@pytest.mark.parametrize("trap", ["open", "link", "dangling", "file", "other"])
def test_a_shared_folder_that_somebody_else_has_made_is_refused(
    shared: Path, monkeypatch: pytest.MonkeyPatch, trap: str
) -> None:
    home = shared.with_name("home")
    home.mkdir(mode=0o700)
    prey = home / f"{TEMPORARY}x~{DEAD}~0123abcd"
    prey.write_text("do not touch")
    if trap in ("link", "dangling"):
        shared.symlink_to(home if trap == "link" else home / "absent")
    elif trap == "file":
        shared.write_text("")
    else:
        home.rename(shared)
        prey = shared / prey.name
        if trap == "open":
            shared.chmod(0o777)
        else:
            monkeypatch.setattr(os, "getuid", lambda: int(shared.name.removeprefix("daskrf-")) + 1)
            shared.rename(shared.with_name(f"daskrf-{os.getuid()}"))
            prey = shared.with_name(f"daskrf-{os.getuid()}") / prey.name
    for use in (lambda: local_name("x"), lambda: SpoolWriter(Url("s3://bucket/spool"))):
        with pytest.raises(
            InputError, match="belongs to another user, is open to others, or is a link; delete"
        ):
            use()
    assert prey.read_text() == "do not touch"


@pytest.mark.parametrize("most", [127, 128, 40_000, 2**40])
def test_a_checkpoint_of_integers_has_room_for_the_largest(tmp_path: Path, most: int) -> None:
    values = np.arange(5000) % 2 * most
    write_checkpoint(tmp_path / "c", {"a": values}, {}, "key")
    found = read_checkpoint(tmp_path / "c", "key")
    assert found is not None
    assert (found.arrays["a"] == values).all()
