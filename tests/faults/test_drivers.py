"""The driver is killed at chosen moments, or there are two: equal bytes, nothing finished is done again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from daskrf.errors import StoreError
from tests.faults.injection import (
    CHECKPOINT,
    COMMIT,
    FEATURIZE,
    FINGERPRINT,
    FIT,
    PREDICT,
    PUBLISH,
    RECORD,
    SCREEN,
    WORK,
    Fault,
    Injector,
)
from tests.faults.test_workers import left_over
from tests.jobs.job import assert_same_job, run_job

NAMES = dict(zip(WORK, ("fingerprint", "featurize", "fit", "predict", "screen"), strict=True))

# Each run is killed at one of these, and the next goes on from there. Calls are numbered in each run anew.
MOMENTS = [
    (Fault("daskrf.storage.stores.store:write_plan"), None),
    (Fault("daskrf.storage.stores.store:write_plan", after=True), None),
    (Fault(FINGERPRINT, call=3), FINGERPRINT),
    (Fault(PUBLISH, call=2), FINGERPRINT),
    (Fault(COMMIT, call=2), FINGERPRINT),
    (Fault(RECORD, call=2), FINGERPRINT),
    (Fault(RECORD, call=2, after=True), None),
    (Fault(FEATURIZE, call=4), FEATURIZE),
    (Fault(COMMIT, call=3), FEATURIZE),
    (Fault("daskrf.files.disk:np.lib.format.write_array_header_1_0"), None),  # the joined labels
    (Fault(FIT, call=3), FIT),
    (Fault(CHECKPOINT, call=3), FIT),
    (Fault(CHECKPOINT, call=3, after=True), None),
    (Fault(CHECKPOINT, call=6), None),  # an inner node
    (Fault("daskrf.fitting.fitjob:save_model"), None),  # after the last reduction and the solve
    (Fault("daskrf.storage.model:publish"), None),  # in the middle of the model
    (Fault("daskrf.storage.model:atomic_write"), None),  # its arrays are there, and its record is not
    (Fault("daskrf.fitting.fitjob:save_model", after=True), None),
    (Fault(PREDICT, call=2), PREDICT),
    (Fault(SCREEN, call=7), SCREEN),
    (Fault("pyarrow.parquet:write_table"), None),  # the hits
    (Fault("pyarrow.parquet:write_table", after=True), None),  # under a temporary name
]


def _drive(inputs: tuple[Path, Path], out: Path, injector: Injector) -> None:
    with injector:
        run_job(inputs, out, None)


def _process(inputs: tuple[Path, Path], out: Path, injector: Injector) -> multiprocessing.process.BaseProcess:
    return multiprocessing.get_context("forkserver").Process(target=_drive, args=(inputs, out, injector))


def run_in_process(inputs: tuple[Path, Path], out: Path, injector: Injector) -> int | None:
    """Run the job in a process of its own; return its exit code."""
    process = _process(inputs, out, injector)
    process.start()
    process.join()
    return process.exitcode


def test_a_driver_is_killed(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    calls: dict[str, list[str]] = {stage: [] for stage in WORK}
    for number, (fault, _) in enumerate([*MOMENTS, (None, None)]):
        injector = Injector(str(tmp_path / f"marks-{number}"), (fault,) if fault else ())
        code = run_in_process(inputs, out, injector)
        assert code == (-signal.SIGKILL if fault else 0), fault
        for stage in WORK:
            calls[stage] += injector.calls(stage)
    assert_same_job(done, out)
    lost = [work for _, work in MOMENTS]
    for stage in WORK:
        assert len(calls[stage]) - len(set(calls[stage])) == lost.count(stage), stage
    assert left_over(out) == []


def test_two_drivers(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """While one driver is held in each stage, another is refused and told whose turn it is."""
    out, seen = tmp_path / "out", []
    faults = tuple(Fault(stage, "SIGSTOP", call=3) for stage in WORK)
    first = _process(inputs, out, Injector(str(tmp_path / "marks"), faults))
    first.start()
    assert first.pid is not None
    for stage in WORK:
        _wait_until_stopped(first.pid)
        with pytest.raises(
            StoreError, match=rf"is in use by daskrf \w+ \(process {first.pid} on host"
        ) as error:
            run_job(inputs, out, None)
        assert NAMES[stage] == str(error.value).partition("by daskrf ")[2].split()[0]
        seen.append(stage)
        os.kill(first.pid, signal.SIGCONT)
    first.join()
    assert first.exitcode == 0
    assert seen == list(WORK)
    assert_same_job(done, out)
    assert left_over(out) == []


def _wait_until_stopped(pid: int) -> None:
    process = psutil.Process(pid)
    while process.status() != psutil.STATUS_STOPPED:
        assert process.status() != psutil.STATUS_ZOMBIE
        time.sleep(0.01)
