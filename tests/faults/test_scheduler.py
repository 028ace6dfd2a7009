"""A scheduler that is not ours dies in the middle of a job."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import pytest

from daskrf import connect
from daskrf.errors import DaskrfError
from tests.faults.injection import FEATURIZE, WORK, Fault, on_workers
from tests.jobs.job import assert_same_job, run_job

SETTINGS = {
    "distributed.comm.timeouts.connect": "5s",
    "daskrf.wait-for-workers": 120.0,
}


@contextmanager
def scheduler_and_workers(directory: Path) -> Iterator[tuple[Path, int]]:
    """`dask scheduler` and two `dask worker`s; yields the scheduler file and the scheduler's number."""
    file = directory / "scheduler.json"
    worker = ("worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "30")
    commands = [("scheduler", "--port", "0", "--no-dashboard"), worker, worker]
    with open(directory / "log", "ab") as log:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "dask", name, "--scheduler-file", str(file), *options],
                stdout=log,
                stderr=log,
                cwd=Path(__file__).parents[2],
            )
            for name, *options in commands
        ]
        try:
            while not (file.exists() and file.read_text().rstrip().endswith("}")):
                assert processes[0].poll() is None
                time.sleep(0.05)
            yield file, processes[0].pid
        finally:
            for process in processes:
                process.kill()
                process.wait()
            file.unlink(missing_ok=True)


def test_a_scheduler_is_killed(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """The run ends in one sentence; with another scheduler the same command goes on."""
    out, marks = tmp_path / "out", tmp_path / "marks"
    with (
        dask.config.set(SETTINGS),
        scheduler_and_workers(tmp_path) as (file, pid),
        connect(scheduler_file=file) as client,
        on_workers(client, marks, Fault(FEATURIZE, f"SIGKILL {pid}", call=3)) as injector,
        pytest.raises(DaskrfError) as error,
    ):
        run_job(inputs, out, client)
    assert "run the same command" in str(error.value)
    assert "\n" not in str(error.value)
    assert injector.struck() == 1, error.value
    with (
        scheduler_and_workers(tmp_path) as (file, _),
        connect(scheduler_file=file) as client,
        on_workers(client, marks) as injector,
    ):
        run_job(inputs, out, client)
    assert_same_job(done, out)
    assert injector.redone(*WORK) <= 2, "what each of two workers had in hand"
