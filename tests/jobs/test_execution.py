"""Bounded submission, retries, and errors."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from pathlib import Path

import dask
import pytest
from distributed import Client, LocalCluster
from threadpoolctl import threadpool_info, threadpool_limits

from daskrf.blas import ONE_BLAS_THREAD
from daskrf.errors import InputError, StoreError, WorkerError
from daskrf.jobs.memory import LIBRARIES, libraries_of
from daskrf.storage.runlog import RunLog, read_log
from daskrf.workers.clusters import local_cluster
from daskrf.workers.execution import Task, run_tasks


def _square(x: int) -> int:
    return x * x


def _count(directory: str, name: str) -> int:
    """Leave a mark and return how many marks of this name there are."""
    path = Path(directory)
    (path / f"{name}-{time.time_ns()}-{os.getpid()}").touch()
    return len(list(path.glob(f"{name}-*")))


def _die_first(directory: str, name: str) -> str:
    if _count(directory, name) <= 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return name


def _fail_io(directory: str, failures: int, number: int) -> str:
    if _count(directory, "io") <= failures:
        raise OSError(number, "a passing fault")
    return "done"


def _bad_data(directory: str, number: int) -> None:
    _count(directory, "bad")
    if number == 0:
        raise InputError("line 7 is bad")
    time.sleep(0.2)


def test_here_in_order() -> None:
    tasks = [Task(f"square-{i}", (i,)) for i in range(5)]
    assert [(t.arguments[0], r) for t, r in run_tasks(_square, tasks)] == [(i, i * i) for i in range(5)]


def test_on_workers_every_task_once(client: Client) -> None:
    tasks = [Task(f"square-each-{i}", (i,)) for i in range(50)]
    assert sorted(r for _, r in run_tasks(_square, tasks, client)) == [i * i for i in range(50)]


def test_window_is_bounded(client: Client) -> None:
    taken = 0

    def tasks():  # type: ignore[no-untyped-def]
        nonlocal taken
        for i in range(40):
            taken += 1
            yield Task(f"square-window-{i}", (i,))

    finished = 0
    for _ in run_tasks(_square, tasks(), client):
        finished += 1
        assert taken <= finished + 2 * 2
    assert finished == 40


def test_lost_workers_are_survived(client: Client, tmp_path: Path) -> None:
    tasks = [Task(f"die-{i}", (str(tmp_path), f"die{i}.")) for i in range(2)]
    assert sorted(r for _, r in run_tasks(_die_first, tasks, client)) == ["die0.", "die1."]


def test_every_task_has_one_record_with_its_attempt(client: Client, tmp_path: Path) -> None:
    log = RunLog(tmp_path / "out", "test")
    marks = tmp_path / "marks"
    marks.mkdir()
    tasks = [Task(f"logged-{i}", (str(marks), f"logged{i}."), 10 + i) for i in range(3)]
    list(run_tasks(_die_first, tasks, client, log=log))
    log.close()
    records = read_log(log.path)
    finished = {r["key"]: r for r in records if r["event"] == "task"}
    assert sorted(r["key"] for r in records if r["event"] == "task") == [task.key for task in tasks]
    assert [finished[task.key]["rows"] for task in tasks] == [10, 11, 12]
    assert [finished[task.key]["digest"] for task in tasks] == ["logged0.", "logged1.", "logged2."]
    for i, task in enumerate(tasks):
        lost = [r["attempt"] for r in records if r["event"] == "lost" and r["key"] == task.key]
        calls = len(list(marks.glob(f"logged{i}.*")))  # the first two killed their workers
        assert lost == list(range(1, len(lost) + 1))
        assert finished[task.key]["attempt"] == len(lost) + 1 >= calls >= 3
    assert {r["n"] for r in records if r["event"] == "workers"} >= {2}


def test_failed_attempts_are_recorded(client: Client, tmp_path: Path) -> None:
    log = RunLog(tmp_path / "log", "test")
    (tmp_path / "marks").mkdir()
    task = [Task("io-logged", (str(tmp_path / "marks"), 2, errno.EIO), 7)]
    list(run_tasks(_fail_io, task, client, log=log))
    log.close()
    records = [r for r in read_log(log.path) if r["event"] in ("error", "task")]
    assert [(r["event"], r["attempt"]) for r in records] == [("error", 1), ("error", 2), ("task", 3)]
    assert "a passing fault" in records[0]["sentence"]


def test_passing_io_errors_are_tried_three_times(client: Client, tmp_path: Path) -> None:
    task = [Task("io-passes", (str(tmp_path), 2, errno.EIO))]
    assert [r for _, r in run_tasks(_fail_io, task, client)] == ["done"]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(("failures", "number", "calls"), [(9, errno.EIO, 3), (9, errno.ENOSPC, 1)])
def test_lasting_io_errors_end_the_run(
    client: Client, tmp_path: Path, failures: int, number: int, calls: int
) -> None:
    task = [Task(f"io-lasts-{number}", (str(tmp_path), failures, number))]
    with pytest.raises(OSError, match="a passing fault"):
        list(run_tasks(_fail_io, task, client))
    assert len(list(tmp_path.iterdir())) == calls


def _store_error(directory: str, number: int | None) -> str:
    if _count(directory, "store") < 3:
        error = StoreError("cannot write")
        error.errno = number
        raise error
    return "done"


def test_io_errors_of_stores_are_tried_again(client: Client, tmp_path: Path) -> None:
    task = [Task("store-passes", (str(tmp_path), errno.EIO))]
    assert [r for _, r in run_tasks(_store_error, task, client)] == ["done"]


def test_other_errors_of_stores_are_not(client: Client, tmp_path: Path) -> None:
    with pytest.raises(StoreError):
        list(run_tasks(_store_error, [Task("store-lasts", (str(tmp_path), None))], client))
    assert len(list(tmp_path.iterdir())) == 1


def test_bad_data_ends_the_run_at_once(client: Client, tmp_path: Path) -> None:
    tasks = [Task(f"bad-{i}", (str(tmp_path), i)) for i in range(1_500)]
    with pytest.raises(InputError, match="line 7 is bad"):
        list(run_tasks(_bad_data, tasks, client))
    # Workers go on until they hear of it, which takes seconds on a busy machine; all tasks take 150.
    assert len(list(tmp_path.iterdir())) < 500


def test_adaptive_cluster_starts_workers_for_the_tasks() -> None:
    with (
        LocalCluster(n_workers=0, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as empty,
    ):
        cluster.adapt(minimum=0, maximum=1, interval="200ms")
        assert [r for _, r in run_tasks(_square, [Task("adaptive", (3,))], empty)] == [9]


def test_no_workers_end_the_wait() -> None:
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        Client(cluster) as empty,
        dask.config.set({"daskrf.wait-for-workers": 1.0}),
        pytest.raises(WorkerError, match="no workers for 1 s"),
    ):
        list(run_tasks(_square, [Task("alone", (3,))], empty))


def test_blas_keeps_one_thread_until_the_last_task_leaves() -> None:
    def threads() -> set[int]:
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(limits=2):
        with ONE_BLAS_THREAD:
            inside = threading.Thread(target=lambda: ONE_BLAS_THREAD.__enter__())
            inside.start()
            inside.join()
        assert threads() == {1}  # the other task is still at work
        ONE_BLAS_THREAD.__exit__(None, None, None)
        assert threads() == {2}


def test_results_that_leave_with_their_worker_are_made_again() -> None:
    """Tasks have finished, and their workers die before the driver has asked for the results."""
    with local_cluster(n_workers=2, memory_limit="1GiB", dashboard=False) as client:
        results = run_tasks(os.getpid, [Task(f"left-{i}", ()) for i in range(4)], client)
        next(results)
        while any(client.processing().values()):
            time.sleep(0.05)
        before = set(client.run(os.getpid).values())
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        rest = [pid for _, pid in results]
    assert len(rest) == 3
    assert not before & set(rest)


def test_a_silent_worker_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It freezes with results that are not fetched yet, answers again, freezes, and goes for good."""
    monkeypatch.setattr("daskrf.workers.execution._FETCH", 0.3)
    monkeypatch.setattr("daskrf.workers.execution._LOOK", 0.2)
    monkeypatch.setattr("daskrf.workers.clusters._ANSWER_SECONDS", 0.5)
    with (
        dask.config.set({"daskrf.wait-for-workers": 1.0}),
        local_cluster(n_workers=1, memory_limit="1GiB", dashboard=False) as client,
    ):
        results = run_tasks(os.getpid, [Task(f"silent-{i}", ()) for i in range(3)], client)
        _, pid = next(results)
        while any(client.processing().values()):
            time.sleep(0.05)
        outcomes: list[object] = []

        def fetch() -> None:
            try:
                outcomes.append(next(results)[1])
            except BaseException as error:
                outcomes.append(error)

        for lasting in (False, True):
            os.kill(pid, signal.SIGSTOP)
            fetching = threading.Thread(target=fetch, daemon=True)
            fetching.start()
            if lasting:
                time.sleep(0.2)
                client.cluster.scale(0)  # type: ignore[union-attr]
            else:
                assert libraries_of(client) == LIBRARIES
                os.kill(pid, signal.SIGCONT)
            fetching.join(240)
            assert not fetching.is_alive()
    assert outcomes[0] == pid
    assert isinstance(outcomes[1], WorkerError)
    assert "no workers for 1 s" in str(outcomes[1])


def test_a_scheduler_that_is_gone_while_a_result_is_fetched_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What waits for the result gives up, and then asks a scheduler that the client has given up."""
    monkeypatch.setattr("daskrf.workers.execution._LOOK", 0.0)
    with local_cluster(n_workers=1, memory_limit="1GiB", dashboard=False) as client:
        results = run_tasks(_square, [Task(f"gone-{i}", (i,)) for i in range(9)], client)
        next(results)
        monkeypatch.setattr("daskrf.workers.execution._Submission._outcome", lambda *_: None)
        client.close()
        with pytest.raises(WorkerError, match=r"^The scheduler is gone; start it again and run the same"):
            next(results)


DIE = """\
import os, signal
from pathlib import Path

for mark in sorted(Path({folder!r}).glob("die-*")):
    mark.unlink()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def _die_once(directory: str, name: str) -> str:
    if _count(directory, name) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return name


def _deadly(folder: Path, times: int) -> dict[str, object]:
    """Return Dask's settings by which the next workers die while they start."""
    for i in range(times):
        (folder / f"die-{i}").touch()
    (folder / "die.py").write_text(DIE.format(folder=str(folder)))
    return {"distributed.worker.preload": [str(folder / "die.py")]}


def test_a_worker_that_dies_while_it_starts_is_started_again(tmp_path: Path) -> None:
    with (
        dask.config.set(_deadly(tmp_path, 1)),
        local_cluster(n_workers=1, memory_limit="1GiB", dashboard=False) as client,
    ):
        assert [r for _, r in run_tasks(_square, [Task("late", (3,))], client)] == [9]


def test_workers_that_always_die_while_they_start_are_one_sentence(tmp_path: Path) -> None:
    with (
        dask.config.set(_deadly(tmp_path, 9)),
        pytest.raises(WorkerError, match=r"have died 3 times while they started \(") as error,
        local_cluster(n_workers=1, memory_limit="1GiB", dashboard=False),
    ):
        pass
    assert "\n" not in str(error.value)


def test_a_worker_that_dies_while_it_restarts_is_replaced(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with (
        dask.config.set(_deadly(tmp_path, 0)),
        local_cluster(n_workers=1, memory_limit="1GiB", dashboard=False) as client,
    ):
        _deadly(tmp_path, 1)
        task = Task("restarted", (str(marks), "restarted."))
        assert [r for _, r in run_tasks(_die_once, [task], client)] == ["restarted."]
    assert not list(tmp_path.glob("die-*"))


def test_a_newer_client_does_not_hold_an_older_one_up(client: Client) -> None:
    """What waits for results runs in the loop of the client that was given."""
    release, waited = threading.Event(), []
    with Client(client.scheduler.address, security=client.security, set_as_default=True) as newer:
        newer.loop.add_callback(lambda: waited.append(release.wait(300)))
        try:
            assert [r for _, r in run_tasks(_square, [Task("older", (3,))], client)] == [9]
        finally:
            release.set()
    assert waited == [True]
