"""What is wrong with a worker, in one sentence; a clean one costs nothing and says nothing."""

from __future__ import annotations

import dataclasses
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Client

from daskrf.errors import InputError, WorkerError
from daskrf.workers import preflight
from daskrf.workers.clusters import Jobs, QueuedClient, _check_scheduler_file
from daskrf.workers.execution import Task, run_tasks
from daskrf.workers.preflight import Absence, Expected, explained


@pytest.fixture
def expected(tmp_path: Path) -> Expected:
    probe = tmp_path / "probe"
    probe.touch()
    return Expected.here(probe)


def changed(expected: Expected, **versions: str) -> Expected:
    return dataclasses.replace(expected, versions=tuple((dict(expected.versions) | versions).items()))


def test_a_clean_worker_is_silent(expected: Expected, tmp_path: Path) -> None:
    assert {"Python", "daskrf", "numpy", "rdkit", "dask", "numba"} <= set(dict(expected.versions))
    assert preflight._fault(expected, str(tmp_path)) == ""


@pytest.mark.parametrize("name", ["Python", "daskrf", "numpy", "rdkit", "dask", "numba"])
def test_other_versions_are_named(name: str, expected: Expected, tmp_path: Path) -> None:
    fault = preflight._fault(changed(expected, **{name: "1.2"}), str(tmp_path))
    assert fault.startswith(f"has {name} {dict(expected.versions)[name]}, not 1.2 as on {expected.host}, ")


def test_no_shared_file_system(expected: Expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_SHARE_SECONDS", 0.3)
    assert expected.probe is not None
    os.unlink(expected.probe)
    fault = preflight._fault(expected, str(tmp_path))
    assert fault.startswith(f"does not see {expected.probe}, a file just written on {expected.host} beside")
    fault = preflight._fault(dataclasses.replace(expected, probe="out.log/x"), str(tmp_path))
    assert f"does not see out.log/x (from its working directory {os.getcwd()})" in fault


def test_a_spill_directory_that_cannot_be_written(expected: Expected, tmp_path: Path) -> None:
    fault = preflight._fault(expected, str(tmp_path / "none"))
    assert fault.startswith(f"cannot write to its spill directory {tmp_path / 'none'} (No such file")


def test_a_run_ends_at_the_first_worker_that_differs(
    client: Client, expected: Expected, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = changed(expected, numpy="0.1")
    monkeypatch.setattr(Expected, "here", classmethod(lambda cls, probe: other))
    with pytest.raises(
        WorkerError, match=r"^The worker tls://\S+ on \S+ has numpy \S+, not 0.1 as on "
    ) as caught:
        list(run_tasks(abs, [Task("preflight-differs", (-1,))], client))
    assert "\n" not in str(caught.value)


def test_a_task_that_cannot_be_loaded_is_explained() -> None:
    error = explained(ModuleNotFoundError("No module named 'daskrf'"))
    assert isinstance(error, WorkerError)
    assert "could not load a task (No module named 'daskrf')" in str(error)
    passing = ValueError("x")
    assert explained(passing) is passing


class _Queued(QueuedClient):
    """A client that nobody connects."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A clock of preflight alone: the event loops of clusters that live on wait by that of the process."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(preflight, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def test_jobs_may_wait_in_the_queue_for_days_but_not_for_workers(clock: Any, tmp_path: Path) -> None:
    jobs = Jobs("SLURM", 4, 2**30, tmp_path, "ib0", patience=60)
    absence = Absence(_Queued(jobs), None, [].append)
    (tmp_path / "of-another-run-70.err").write_text("of another run\n")
    for clock.now in (0, 1e6):
        absence.look(0)
    (tmp_path / "worker-7.out").write_text("")
    (tmp_path / "worker-7.err").write_text("module: command not found\n\n")
    jobs.barren.append(("7", clock.now - 20))
    absence.look(0)
    clock.now += 39
    absence.look(0)
    clock.now += 2
    with pytest.raises(WorkerError) as caught:
        absence.look(0)
    assert str(caught.value) == (
        "A job of SLURM has started, but in 60 s no worker has reached the scheduler through the interface "
        f"ib0; the last line in {tmp_path / 'worker-7.err'} is: module: command not found"
    )


def test_a_bad_node_is_forgotten_when_others_work(clock: Any, tmp_path: Path) -> None:
    jobs = Jobs("SLURM", 4, 2**30, tmp_path, patience=60)
    absence = Absence(_Queued(jobs), None, [].append)
    jobs.barren.append(("7", 0.0))
    absence.look(1)
    for clock.now in (10, 1e6):
        absence.look(0)


def test_a_refused_job_is_told_unless_another_is_accepted(clock: Any, tmp_path: Path) -> None:
    jobs = Jobs("SLURM", 4, 2**30, tmp_path, refusal="sbatch: error: invalid partition specified: x")
    absence = Absence(_Queued(jobs), None, [].append)
    absence.look(0)  # others are being submitted
    clock.now += 6
    jobs.accepted.add("8")
    absence.look(0)
    jobs.accepted.clear()
    with pytest.raises(WorkerError, match=r"^SLURM has rejected the job: sbatch: error: invalid partition"):
        absence.look(0)


def test_workers_that_are_paused_are_told_and_waited_for(clock: Any) -> None:
    notes: list[str] = []
    absence = Absence(SimpleNamespace(), 300, notes.append)  # type: ignore[arg-type]
    for clock.now in (0, 10, 15):
        absence.look(4, 2)
    assert notes == []
    for clock.now in (25, 28, 10_000):
        absence.look(4, 2)
    (note,) = notes
    assert note.startswith("2 of 4 workers are paused: memory is nearly full")
    assert "distributed.worker.memory.pause: false" in note
    absence.look(4, 0)
    for clock.now in (20_000, 20_025):
        absence.look(1, 1)
    assert notes[1].startswith("The only worker is paused")


def test_workers_that_do_not_come_are_told_within_a_minute(clock: Any, tmp_path: Path) -> None:
    notes: list[str] = []
    absence = Absence(SimpleNamespace(), None, notes.append)  # type: ignore[arg-type]
    for clock.now in (10, 30, 60):
        absence.look(0)
    assert notes == ["There have been no workers for 20 s; the run waits up to 300 s for one."]
    absence.look(1)
    for clock.now in (70, 90):
        absence.look(0)
    assert len(notes) == 2
    clock.now = 400
    with pytest.raises(WorkerError, match="no workers for 300 s"):
        absence.look(0)
    jobs = Jobs("SLURM", 4, 2**30, tmp_path, accepted={"8", "9"})
    queued = Absence(_Queued(jobs), None, notes.append)
    for clock.now in (430, 1e6):
        queued.look(0)
    assert len(notes) == 3
    assert "wait or start in SLURM: 2, logs in" in notes[2]


def test_a_scheduler_file_may_be_half_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text('{"address": "tcp://127')
    monkeypatch.setattr("daskrf.workers.clusters._FILE_SECONDS", 240.0)
    timer = threading.Timer(0.3, file.write_text, ['{"address": "tcp://127.0.0.1:8786"}'])
    timer.start()
    _check_scheduler_file(file)
    timer.join()
    monkeypatch.setattr("daskrf.workers.clusters._FILE_SECONDS", 0.2)
    file.write_text('{"id": 7}')
    with pytest.raises(InputError, match=r"scheduler\.json is not a scheduler file"):
        _check_scheduler_file(file)
