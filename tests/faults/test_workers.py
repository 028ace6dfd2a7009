"""Workers die at chosen moments of every stage: equal bytes, and only what was in hand is made again."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

import dask
import pytest
from distributed import Client

from daskrf import fingerprint, local_cluster
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
    Fault,
    on_workers,
)
from tests.jobs.job import assert_same_job, run_job

# The job has 13 partitions of fingerprints, 12 of features and predictions; 10 leaves, 2 nodes above them and
# a root in the tree of fit, 12, 2 and 1 in that of screen. Calls are numbered through all stores and both
# trees, those of the dead included. Beside each fault: whose work is done once more because of it, which is
# exactly what the worker had in hand.
SIGKILL = [
    (Fault(FINGERPRINT, call=2), FINGERPRINT),
    (Fault(PUBLISH, call=4), FINGERPRINT),
    (Fault(COMMIT, call=7), FINGERPRINT),
    (Fault(RECORD, call=11), FINGERPRINT),
    (Fault(COMMIT, call=22), FEATURIZE),
    (Fault(FIT, call=3), FIT),
    (Fault(CHECKPOINT, call=6), FIT),
    (Fault(CHECKPOINT, call=13), None),  # an inner node, from checkpoints
    (Fault(CHECKPOINT, call=15), None),  # the last reduction
    (Fault(PREDICT, call=5), PREDICT),
    (Fault(SCREEN, call=8), SCREEN),
]
SIGTERM = [
    (Fault(RECORD, "SIGTERM", call=2), FINGERPRINT),
    (Fault(FINGERPRINT, "SIGTERM", call=6, after=True), None),  # the record is there, the result is lost
    (Fault(FEATURIZE, "SIGTERM", call=3), FEATURIZE),
    (Fault(FIT, "SIGTERM", call=2), FIT),
    (Fault(CHECKPOINT, "SIGTERM", call=5, after=True), None),
    (Fault(SCREEN, "SIGTERM", call=2), SCREEN),
]


@pytest.mark.parametrize("schedule", [SIGKILL, SIGTERM], ids=["sigkill", "sigterm"])
def test_a_worker_dies(
    done: Path,
    inputs: tuple[Path, Path],
    client: Client,
    tmp_path: Path,
    schedule: list[tuple[Fault, str | None]],
) -> None:
    with on_workers(client, tmp_path / "marks", *(fault for fault, _ in schedule)) as injector:
        run_job(inputs, tmp_path / "out", client)
    assert_same_job(done, tmp_path / "out")
    assert injector.struck() == len(schedule)
    lost = [work for _, work in schedule]
    for stage in (FINGERPRINT, FEATURIZE, FIT, PREDICT, SCREEN):
        assert injector.redone(stage) == lost.count(stage), stage
    assert left_over(tmp_path / "out") == []


def test_a_group_is_not_begun_anew(
    inputs: tuple[Path, Path], client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a task of several partitions, those that are recorded stay."""
    monkeypatch.setattr("daskrf.jobs.pieces._TASKS_A_THREAD", 1)
    with on_workers(client, tmp_path / "marks", Fault(RECORD, call=8)) as injector:
        fingerprint(inputs[0], tmp_path / "fp", rows_per_partition=50, client=client)
    assert injector.redone(FINGERPRINT) == 1
    assert len(injector.calls(FINGERPRINT)) == 14


def test_all_workers_die_at_once(
    done: Path, inputs: tuple[Path, Path], client: Client, tmp_path: Path
) -> None:
    faults = [Fault(COMMIT, "all", call=5), Fault(FIT, "all", call=4), Fault(SCREEN, "all", call=3)]
    with on_workers(client, tmp_path / "marks", *faults) as injector:
        run_job(inputs, tmp_path / "out", client)
    assert_same_job(done, tmp_path / "out")
    assert injector.struck() == len(faults)
    for stage, least in ((FINGERPRINT, 1), (FEATURIZE, 0), (FIT, 1), (PREDICT, 0), (SCREEN, 1)):
        assert least <= injector.redone(stage) <= 2 * least, f"{stage}: what each of two workers had in hand"
    assert left_over(tmp_path / "out") == []


def test_busy_workers_are_retired(
    done: Path, inputs: tuple[Path, Path], client: Client, tmp_path: Path
) -> None:
    """The scheduler gives the work of a retired worker to another while the first still does it."""
    faults = [
        Fault(target, "retire", call=4) for target in (COMMIT, FEATURIZE, FIT, CHECKPOINT, PREDICT, SCREEN)
    ]
    with on_workers(client, tmp_path / "marks", *faults) as injector:
        run_job(inputs, tmp_path / "out", client)
    assert_same_job(done, tmp_path / "out")
    assert injector.struck() == len(faults)
    for stage, most in ((FINGERPRINT, 1), (FEATURIZE, 1), (FIT, 2), (PREDICT, 1), (SCREEN, 1)):
        assert injector.redone(stage) <= most, stage
    assert left_over(tmp_path / "out") == []


def test_a_cluster_shrinks_and_grows(done: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    """While jobs run, until it has had five workers: a new one may take longer to start than a job."""
    seen: set[str] = set()
    stop = threading.Event()

    def rescale(client: Client) -> None:
        for n in itertools.cycle((1, 3)):
            client.cluster.scale(n)
            end = time.monotonic() + 20
            while len(workers := client.nthreads()) != n and time.monotonic() < end and not stop.wait(0.1):
                pass
            seen.update(workers)
            if stop.wait(1.0):
                return

    with (
        local_cluster(n_workers=3, memory_limit="3GiB", dashboard=False) as client,
        on_workers(client, tmp_path / "marks", Fault(RECORD, 0.3, times=10**6)),
    ):
        thread = threading.Thread(target=rescale, args=(client,))
        thread.start()
        try:
            for out in (tmp_path / f"out-{number}" for number in range(10)):
                run_job(inputs, out, client)
                assert_same_job(done, out)
                assert left_over(out) == []
                if len(seen) > 4:
                    break
        finally:
            stop.set()
            thread.join()
    assert len(seen) > 4


def test_a_slow_restart_is_waited_for(tmp_path: Path, inputs: tuple[Path, Path], done: Path) -> None:
    """Dask's own limit, after which a local cluster drops a worker for good, would end this run."""
    settings = {"distributed.deploy.lost-worker-timeout": "1ms", "daskrf.wait-for-workers": 300.0}
    with (
        dask.config.set(settings),
        local_cluster(n_workers=1, memory_limit="3GiB", dashboard=False) as client,
        on_workers(client, tmp_path / "marks", Fault(COMMIT, call=3)) as injector,
    ):
        run_job(inputs, tmp_path / "out", client)
    assert injector.struck() == 1
    assert_same_job(done, tmp_path / "out")


def left_over(out: Path) -> list[str]:
    """Temporary files, work directories and locks, which a finished job must not leave."""
    hidden = [path for path in out.rglob(".*") if path.name != ".daskrf-spaces"]  # which stays
    return [str(path.relative_to(out)) for path in hidden]
