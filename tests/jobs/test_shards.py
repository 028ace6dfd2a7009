"""Shards: equal bytes by any number of processes, in any order, whatever is killed, and who is refused."""

from __future__ import annotations

import bz2
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import daskrf
from daskrf import Shard, fingerprint
from daskrf.cli.app import run
from daskrf.errors import InputError, StoreError
from daskrf.jobs.shards import ShardReport, current_share, prepare_shards, run_shard, sharing
from daskrf.molecules import FingerprintSpec
from daskrf.storage.lock import StoreLock
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.workers.progress import Progress
from tests.jobs.job import N_MOLECULES, data_digests


@pytest.mark.parametrize("text", ["3/3", "0/0", "a/b", "1", "-1/3", "1/2/3", "", "1.0/3", "٣/٤", (0, 2), 1])
def test_what_is_no_shard_is_refused(text: Any) -> None:
    with pytest.raises(InputError, match="A shard is i/n"):
        Shard.of(text)


@contextmanager
def no_scan() -> Iterator[None]:
    """Fail where input files are read from end to end."""
    with patch("daskrf.sources.inputs.scan_files", side_effect=AssertionError("scanned again")):
        yield


@pytest.fixture(scope="module")
def whole(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store made by one driver."""
    out = tmp_path_factory.mktemp("whole")
    fingerprint(inputs[0], out / "fp", rows_per_partition=50)
    return out


@pytest.mark.parametrize("count", [1, 3, 40])
def test_shards_of_fingerprint(whole: Path, inputs: tuple[Path, Path], tmp_path: Path, count: int) -> None:
    report = prepare_shards(fingerprint, inputs[0], tmp_path / "fp", rows_per_partition=50)
    assert (report.made, report.missing, report.total) == (0, 13, 13)
    with no_scan():
        for index in reversed(range(count)):
            report = run_shard(
                fingerprint, Shard(index, count), inputs[0], tmp_path / "fp", rows_per_partition=50
            )
            assert (report.made, report.found) == (len(range(index, 13, count)), 0)
        again = run_shard(fingerprint, f"0/{count}", inputs[0], tmp_path / "fp", rows_per_partition=50)
    assert (report.missing, again.missing, again.made) == (0, 0, 0)
    assert again.found == len(range(0, 13, count))
    last = fingerprint(inputs[0], tmp_path / "fp", rows_per_partition=50)
    assert (last.made, last.kept) == (0, N_MOLECULES)
    assert data_digests(tmp_path / "fp") == data_digests(whole / "fp")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fp", "fp.log"]


def test_the_last_command_makes_what_shards_left(
    whole: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    report = run_shard(fingerprint, "1/3", inputs[0], tmp_path / "fp", rows_per_partition=50)  # unprepared
    assert isinstance(report, ShardReport)
    assert (report.made, report.missing) == (4, 9)
    assert "9 of 13 partitions of all shards are missing" in str(report)
    assert "without --shard" in str(report)
    assert fingerprint(inputs[0], tmp_path / "fp", rows_per_partition=50).made == 9
    assert data_digests(tmp_path / "fp") == data_digests(whole / "fp")


def test_a_shard_of_another_job_is_refused(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    path = tmp_path / "copy.smi"
    path.write_bytes(inputs[0].read_bytes())
    prepare_shards(fingerprint, path, tmp_path / "fp", rows_per_partition=50)
    before = data_digests(tmp_path / "fp")
    with no_scan():
        for options, differing in (
            ({"spec": FingerprintSpec(radius=2)}, r"--kind \(was .*, now morgan:2\)"),
            ({"fragments": "reject"}, "fragments"),
            ({"rows_per_partition": 51}, r"--rows-per-partition \(was 50, now 51\)"),
        ):
            with pytest.raises(StoreError, match=differing):
                run_shard(fingerprint, "0/2", path, tmp_path / "fp", **({"rows_per_partition": 50} | options))
        with pytest.raises(StoreError, match="the input files"):
            run_shard(fingerprint, "0/2", inputs[0], tmp_path / "fp", rows_per_partition=50)
        with path.open("a") as file:
            file.write("CCO more\n")
        with pytest.raises(StoreError, match="the content of the input files has changed"):
            run_shard(fingerprint, "0/2", path, tmp_path / "fp", rows_per_partition=50)
    path.write_bytes(inputs[0].read_bytes().replace(b"m7\n", b"m8\n"))  # of the same size
    run_shard(fingerprint, "0/2", path, tmp_path / "fp", rows_per_partition=50)
    assert before.items() <= data_digests(tmp_path / "fp").items()
    notes = Notes()  # the last command compares contents, and so little work is done again
    fingerprint(path, tmp_path / "fp", rows_per_partition=50, progress=notes)
    assert "is left from an unfinished run with other input or options; it is made again" in notes.text
    fingerprint(path, tmp_path / "alone", rows_per_partition=50)
    assert data_digests(tmp_path / "fp") == data_digests(tmp_path / "alone")


class Notes(Progress):
    text = ""

    def note(self, text: str) -> None:
        self.text += text


def test_a_shard_takes_no_client_and_no_preparation(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without a cluster"):
        run_shard(fingerprint, "0/2", inputs[0], tmp_path / "fp", client=object())
    with sharing(prepare=True), pytest.raises(InputError, match="not both"):
        run_shard(fingerprint, "0/2", inputs[0], tmp_path / "fp")
    assert list(tmp_path.iterdir()) == []


def test_a_command_without_shards_is_refused(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    for command in (daskrf.evaluate, daskrf.plan, print):
        with pytest.raises(InputError, match=rf"{command.__name__} has no shards"):
            run_shard(command, "0/2", inputs[0], tmp_path / "fp")


def test_shard_and_prepare_as_arguments_still_work(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    arguments = {"inputs": inputs[0], "output": tmp_path / "fp", "rows_per_partition": 50}
    with pytest.warns(DeprecationWarning, match=r"daskrf\.prepare_shards\(daskrf\.fingerprint, \.") as said:
        assert fingerprint(**arguments, prepare=True).made == 0
    assert said[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r'daskrf\.run_shard\(daskrf\.fingerprint, "0/64", \.'):
        assert fingerprint(**arguments, shard="1/3").made == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        assert fingerprint(**arguments, shard=None, prepare=False).made == 9


def test_a_share_ends_with_its_command(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    arguments = {"inputs": inputs[0], "output": tmp_path / "fp", "rows_per_partition": 50}
    with pytest.raises(InputError, match="A shard is i/n"):
        run_shard(fingerprint, "2/2", **arguments)
    with pytest.raises(InputError, match="without a cluster"):
        run_shard(fingerprint, "0/2", **arguments, client=object())
    assert current_share().whole
    assert fingerprint(**arguments).made == 13


def test_drivers_and_shards_exclude_each_other(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    arguments = {"inputs": inputs[0], "output": tmp_path / "fp", "rows_per_partition": 50}
    store = prepare_shards(fingerprint, **arguments).output
    with (
        StoreLock(store, "daskrf fingerprint"),
        pytest.raises(StoreError, match="in use by daskrf fingerprint"),
    ):
        run_shard(fingerprint, "0/3", **arguments)
    with StoreLock(store, "shard 1 of 3", "1-of-3"):
        shards = (partial(run_shard, fingerprint, shard) for shard in ("1/3", "0/4"))
        for call in (fingerprint, *shards):
            with pytest.raises(StoreError, match=f"in use by shard 1 of 3 .process {os.getpid()}"):
                call(**arguments)
        prepare_shards(fingerprint, **arguments)
        assert run_shard(fingerprint, "0/3", **arguments).made == 5
    assert fingerprint(**arguments).made == 8


@pytest.fixture
def packed(inputs: tuple[Path, Path], tmp_path: Path) -> Path:
    """A compressed library of some chunks of the spool."""
    path = tmp_path / "library.smi.bz2"
    path.write_bytes(bz2.compress(inputs[0].read_bytes()))
    return path


def test_shards_keep_the_spool_for_each_other(packed: Path, whole: Path, tmp_path: Path) -> None:
    with patch("daskrf.tables.spool.CHUNK_ROWS", 100):
        arguments = {"inputs": packed, "output": tmp_path / "fp", "rows_per_partition": 50}
        prepare_shards(fingerprint, **arguments)
        chunks = list((tmp_path / ".fp.daskrf").rglob("*.zst"))
        assert len(chunks) == 7
        with no_scan():
            run_shard(fingerprint, "0/2", **arguments)
        assert list((tmp_path / ".fp.daskrf").rglob("*.zst")) == chunks
        for chunk in chunks:
            chunk.unlink()
        chunks[0].parent.rmdir()
        with no_scan(), pytest.raises(AssertionError, match="scanned again"):
            run_shard(fingerprint, "1/2", **arguments)  # slow without the spool, so it is made again
        run_shard(fingerprint, "1/2", **arguments)
        assert list((tmp_path / ".fp.daskrf").rglob("*.zst"))
        fingerprint(**arguments)
    assert not (tmp_path / ".fp.daskrf").exists()
    assert FingerprintStore.open(tmp_path / "fp").counts() == FingerprintStore.open(whole / "fp").counts()


SMALL_GROUPS = """
from daskrf.cli.app import main
from daskrf.fitting import parts as fitting
from daskrf.screens import libraryscreen as screening
fitting._GROUP_ROWS, screening._LEAST_ROWS = (1, 1), 1
main()
"""


def start(*arguments: object) -> subprocess.Popen[str]:
    """Start the program in a process of its own; it cuts sums into groups of one partition."""
    return subprocess.Popen(
        [sys.executable, "-c", SMALL_GROUPS, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def ended(process: subprocess.Popen[str]) -> str:
    """Return what a process wrote that ended well."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def wait_for(directory: Path, pattern: str) -> None:
    """Wait until there is a file of the pattern."""
    give_up = time.monotonic() + 400
    while not list(directory.glob(pattern)):
        assert time.monotonic() < give_up, f"nobody makes {pattern}"
        time.sleep(0.005)


def test_processes_that_start_at_once_agree(whole: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """Shards that find no preparation, one of which is killed in mid-work, and a last command."""
    command = ("fingerprint", inputs[0], "-o", tmp_path / "fp", "--rows-per-partition", 50)
    processes = [start(*command, "--shard", f"{i}/3") for i in range(3)]
    wait_for(tmp_path, "fp/_commits/*.json")
    processes[1].send_signal(signal.SIGKILL)
    for i in (0, 2):
        assert f"shard {i}/3" in ended(processes[i])
    processes[1].communicate()
    assert "shard 1/3" in ended(start(*command, "--shard", "1/3"))
    assert f"{N_MOLECULES} fingerprints" in ended(start(*command, "--workers", "0"))
    assert data_digests(tmp_path / "fp") == data_digests(whole / "fp")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--shard", "3/3"], "A shard is i/n"),
        (["--shard", "a/b"], "A shard is i/n"),
        (["--shard", "0/2", "--workers", "2"], "give --shard or --workers, not both"),
        (["--shard", "0/2", "--scheduler", "tcp://host:1"], "give --shard or --scheduler, not both"),
    ],
)
def test_wrong_usage_of_shards(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str], words: str
) -> None:
    assert run(["fingerprint", "library.smi", "-o", str(tmp_path / "fp"), *options]) == 2
    assert words in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == []


def test_a_shard_of_the_program_ends_well_and_starts_no_workers(
    capsys: pytest.CaptureFixture[str], inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    command = ["fingerprint", str(inputs[0]), "-o", str(tmp_path / "fp"), "--rows-per-partition", "50"]
    with patch("daskrf.workers.clusters.local_cluster", side_effect=AssertionError("workers were started")):
        assert run([*command, "--prepare"]) == 0
        assert "is prepared for shards" in capsys.readouterr().out
        assert run([*command, "--shard", "2/3"]) == 0
    assert "shard 2/3" in capsys.readouterr().out
