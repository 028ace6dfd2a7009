"""A disk that fails now and then, or is full: the job goes on, or says what to do and goes on afterwards."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client

from daskrf import fingerprint, local_cluster
from daskrf.errors import StoreError
from daskrf.storage.inspection import status, verify
from tests.faults.injection import (
    CHECKPOINT,
    FEATURIZE,
    FINGERPRINT,
    PREDICT,
    PUBLISH,
    RECORD,
    WORK,
    Fault,
    Injector,
    on_workers,
)
from tests.faults.test_workers import left_over
from tests.jobs.job import assert_same_job, run_job


def test_every_third_store_call_fails(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """Tasks are tried again, three times at most: a failure costs one call more, and its work once more."""
    faults = [Fault(target, errno.EIO, call=3, every=3, times=10**6) for target in (PUBLISH, CHECKPOINT)]
    with (
        # One worker: with two, chance may lead one task three times to a call that fails.
        local_cluster(n_workers=1, memory_limit="3GiB", dashboard=False) as client,
        on_workers(client, tmp_path / "marks", *faults) as injector,
    ):
        run_job(inputs, tmp_path / "out", client)
    assert_same_job(done, tmp_path / "out")
    for target, needed in ((PUBLISH, 13 + 12 + 12), (CHECKPOINT, 10 + 2 + 1 + 12 + 2 + 1)):
        calls = injector.calls(target)
        assert len(calls) == needed + len(calls) // 3, target
    assert injector.redone(*WORK) == sum(
        "level-0" in path or target == PUBLISH for target, path in _failed(injector)
    )
    assert left_over(tmp_path / "out") == []


def test_reads_of_the_input_that_fail_are_made_again(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """A hiccup of the file system that holds the library is no defect of the library."""
    # Called to look whether the file has changed, and to open it: these are of the former kind.
    faults = [Fault("daskrf.tables.scanning:as_path", errno.EIO, call=number) for number in (5, 12)]
    with (
        local_cluster(n_workers=1, memory_limit="3GiB", dashboard=False) as client,
        on_workers(client, tmp_path / "marks", *faults) as injector,
    ):
        report = fingerprint(inputs[0], tmp_path / "fp", rows_per_partition=50, client=client)
    assert injector.struck() == 2
    assert report.made == 13


def _failed(injector: Injector) -> list[tuple[str, str]]:
    """The calls that failed, and what they were about; the sums of a leaf are lost with its checkpoint."""
    return [(target, about) for target in (PUBLISH, CHECKPOINT) for about in injector.calls(target)[2::3]]


def test_a_call_that_always_fails_ends_in_one_sentence(
    inputs: tuple[Path, Path], client: Client, tmp_path: Path
) -> None:
    fault = Fault("daskrf.files.backend:sync_files", errno.EIO, times=10**6)
    with (
        on_workers(client, tmp_path / "marks", fault) as injector,
        pytest.raises(StoreError, match=r"cannot write .*fp.*: Input/output error; check the disk") as error,
    ):
        fingerprint(inputs[0], tmp_path / "fp", rows_per_partition=400, client=client)
    assert error.value.errno == errno.EIO
    calls = injector.calls(FINGERPRINT)
    assert max(calls.count(call) for call in calls) == 3


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB of its own."""
    path = tmp_path / "disk"
    path.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system to fill up")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        pytest.skip(f"no small file system can be mounted here: {made.stderr.strip()}")
    yield path
    subprocess.run(["umount", "--lazy", str(path)], check=True)


# In the order of the job, each numbered from where the run before it has stopped.
FULL = {
    "plan": ("daskrf.storage.stores.store:write_plan", 1),
    "data": (FINGERPRINT, 4),
    "record": (RECORD, 3),
    "features": (FEATURIZE, 3),
    "labels": ("daskrf.files.disk:np.lib.format.write_array_header_1_0", 1),
    "checkpoint": (CHECKPOINT, 4),
    "last reduction": (CHECKPOINT, 10),
    "model": ("daskrf.fitting.fitjob:save_model", 1),
    "predictions": (PREDICT, 2),
    "hits": ("daskrf.screens.libraryscreen:write_hits", 1),
}


def test_a_full_disk(done: Path, inputs: tuple[Path, Path], small_disk: Path, tmp_path: Path) -> None:
    """Full at each kind of file in turn: one sentence that names the path, and the same command goes on."""
    out, calls = small_disk / "out", []
    for what, (target, call) in FULL.items():
        fault = Fault(target, small_disk, call)
        with Injector(str(tmp_path / what), (fault,)) as injector, pytest.raises(StoreError) as error:
            run_job(inputs, out, None)
        sentence = str(error.value)
        assert "\n" not in sentence
        assert str(out) in sentence, what
        assert "no space is left on the device; free some and run the same command again" in sentence, what
        assert error.value.errno == errno.ENOSPC, what
        calls += [(stage, about) for stage in WORK for about in injector.calls(stage)]
        for store in (out / "fp", out / "phi", out / "pred"):
            if (store / "_plan.json").exists():
                assert not verify(store).damaged, f"{what}: a partition is whole or missing"
                assert str(status(store))
        (small_disk / "filler").unlink()
    with Injector(str(tmp_path / "last")) as injector:
        run_job(inputs, out, None)
    calls += [(stage, about) for stage in WORK for about in injector.calls(stage)]
    assert_same_job(done, out)
    assert len(calls) - len(set(calls)) == 5, "data, record, features, checkpoint and predictions: one each"
    assert left_over(out) == []
