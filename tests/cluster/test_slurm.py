"""The main job as jobs of a real SLURM: equal digests, whatever happens to jobs, nodes and the driver."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from cluster.slurm_lab.lab import Lab
from daskrf import fit, jobqueue_cluster, local_cluster, screen
from daskrf.cli.app import run
from daskrf.workers.batch import LISTINGS
from daskrf.workers.progress import Progress
from tests.cluster.job import Job, assert_same_job, assert_same_part, await_true
from tests.jobs.job import model_arrays

CLUSTER = """\
daskrf:
  workers: {size}
{wait}
jobqueue:
  slurm:
    memory: 1GiB
    walltime: "00:10:00"
    interface: lo
    death-timeout: 30
    job-extra-directives: ["--no-requeue"]
"""


def cluster_file(directory: Path, size: str = "2-2", more: str = "", wait: str = "") -> str:
    path = directory / "slurm.yaml"
    wait = f"  wait-for-workers: {wait}" if wait else ""
    lines = "".join(f"    {line}\n" for line in more.splitlines())
    path.write_text(CLUSTER.format(size=size, wait=wait) + lines)
    return str(path)


def jobs_of(lab: Lab, name: str = "dask-worker", states: str = "RUNNING", what: str = "%i") -> list[str]:
    """Return the numbers (or another format) of jobs, the oldest first."""
    return lab.run(
        "squeue", "--noheader", "--sort=i", f"--name={name}", f"--states={states}", f"--format={what}"
    ).split()


class Strikes(threading.Thread):
    """Does something bad each time so many files of a kind are there."""

    def __init__(self, out: Path, moments: Sequence[tuple[str, int]], strike: Callable[[int], None]) -> None:
        super().__init__(daemon=True)
        self.out, self.moments, self.strike = out, moments, strike
        self.count = 0

    def run(self) -> None:
        for pattern, count in self.moments:
            while len(list(self.out.glob(pattern))) < count:
                time.sleep(0.01)
            self.strike(self.count)
            self.count += 1

    def __enter__(self) -> Strikes:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.join(timeout=240)


MID_WRITE, MID_FOLD = ("fp/_commits/*.json", 2), (".model.daskrf/level-0-*/_arrays.json", 2)


def test_the_commands_on_slurm_leave_the_same_bytes(done: Path, job: Job, tmp_path: Path) -> None:
    path = cluster_file(tmp_path, "1-2")
    for command in job.commands():
        assert run([*command, "--cluster", path]) == 0
    assert_same_job(done, job.out)


def test_cancelled_jobs_change_nothing(done: Path, job: Job, lab: Lab, tmp_path: Path) -> None:
    """A job is killed while fingerprints are written, and one is asked to end while sums are folded."""

    def strike(i: int) -> None:
        await_true(lambda: jobs_of(lab))
        lab.run("scancel", *([] if i % 2 else ["--signal=KILL", "--full"]), jobs_of(lab)[0])

    with (
        jobqueue_cluster(cluster_file(tmp_path)) as client,
        Strikes(job.out, [MID_WRITE, MID_FOLD], strike) as strikes,
    ):
        job.run_part(client)
    assert strikes.count == 2
    assert_same_part(done, job.out)


def test_an_exact_process_is_solved_and_screened_though_a_job_is_cancelled(
    done: Path, job: Job, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers compute panels of products, as they do for tens of thousands of labels."""
    monkeypatch.setattr("daskrf.gp.solve.kernelmatrix._TILE", 128)
    monkeypatch.setattr("daskrf.fitting.exactsolve._on_workers", lambda client, n_rows: client is not None)
    store = str(done / "fp")

    def solve(client: Client, out: Path) -> None:
        options: dict[str, Any] = {"key": "smiles", "solver": "cg", "quick": True, "noise_variance": 0.07}
        fit(store, job.labels, out / "model", process="exact", client=client, **options)
        screen(out / "model", store, out / "hits.parquet", k=50, client=client, maximize=False)

    def strike(i: int) -> None:
        lab.run("scancel", "--signal=KILL", "--full", jobs_of(lab)[0])

    with (
        jobqueue_cluster(cluster_file(tmp_path)) as client,
        Strikes(job.out, [(".model.daskrf/target-0/product-0002", 1)], strike) as strikes,
    ):
        await_true(lambda: len(jobs_of(lab)) == 2)
        solve(client, job.out)
    assert strikes.count == 1
    with local_cluster(n_workers=2, memory_limit="2GiB", dashboard=False) as client:
        solve(client, tmp_path / "local")
    left, right = model_arrays(job.out / "model"), model_arrays(tmp_path / "local" / "model")
    assert {name: values.tobytes() for name, values in left.items()} == {
        name: values.tobytes() for name, values in right.items()
    }
    assert (job.out / "hits.parquet").read_bytes() == (tmp_path / "local" / "hits.parquet").read_bytes()


def test_a_node_that_goes_down_changes_nothing(done: Path, job: Job, lab: Lab, tmp_path: Path) -> None:
    def strike(i: int) -> None:
        await_true(lambda: jobs_of(lab))
        node = jobs_of(lab, what="%N")[0]
        lab.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        await_true(lambda: not jobs_of(lab, states="COMPLETING"))
        await_true(lambda: resumed(node))

    def resumed(node: str) -> bool:
        if "down" not in lab.run("sinfo", "--noheader", f"--nodes={node}", "--format=%T"):
            return True
        with suppress(subprocess.CalledProcessError):  # it may have come back by itself just now
            lab.run("scontrol", "update", f"nodename={node}", "state=resume")
        return False

    with (
        jobqueue_cluster(cluster_file(tmp_path)) as client,
        Strikes(job.out, [MID_WRITE, MID_FOLD], strike) as strikes,
    ):
        job.run_part(client)
    assert strikes.count == 2
    assert_same_part(done, job.out)


class _Slow(Progress):
    """Takes its time with every partition, so that workers reach the end of their lives."""

    def advance(self, amount: int) -> None:
        time.sleep(2.0)


def test_workers_that_reach_their_lifetime_are_replaced(
    done: Path, job: Job, lab: Lab, tmp_path: Path
) -> None:
    more = 'worker-extra-args: ["--lifetime", "25s", "--lifetime-stagger", "3s"]\nname: mortal\n'
    with jobqueue_cluster(cluster_file(tmp_path, more=more)) as client:
        job.run_part(client, _Slow())
        # Both first workers have gone by themselves, and others have done the rest.
        assert len(jobs_of(lab, "mortal", "all")) >= 4
    assert_same_part(done, job.out)


def test_a_fixed_number_of_workers_is_kept(lab: Lab, job: Job, tmp_path: Path) -> None:
    """A job of two worker processes that is lost is submitted again."""
    path = cluster_file(tmp_path, "2", "cores: 2\njob-cpu: 1\nname: fixed\n")
    with jobqueue_cluster(path) as client:
        client.wait_for_workers(2, timeout=120)
        (first,) = jobs_of(lab, "fixed")
        lab.run("scancel", first)
        await_true(lambda: len(jobs_of(lab, "fixed")) == 1 and jobs_of(lab, "fixed") != [first])
        await_true(lambda: len(client.nthreads()) == 2)
    await_true(lambda: not jobs_of(lab, "fixed", "PENDING,RUNNING"))


@pytest.mark.parametrize("by_listing", [True, False], ids=["by the list of jobs", "by what it has printed"])
def test_a_job_that_ends_before_its_workers_come_is_replaced(
    by_listing: bool, lab: Lab, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two jobs is given a bad node."""
    if not by_listing:  # as where daskrf does not know how to ask
        monkeypatch.delitem(LISTINGS, "slurm")
    first = "job-script-prologue: ['mkdir first 2>/dev/null && { echo bad node >&2; exit 1; }']\n"
    name = f"unlucky-{by_listing}"
    path = cluster_file(tmp_path, "2", f"{first}name: {name}\n", "20s")
    with jobqueue_cluster(path) as client:
        client.wait_for_workers(2, timeout=120)
    assert (tmp_path / "first").is_dir()
    assert len(jobs_of(lab, name, "all")) == 3


def test_a_job_that_is_cancelled_in_the_queue_is_submitted_again(lab: Lab, job: Job, tmp_path: Path) -> None:
    path = cluster_file(tmp_path, "4", "name: fourth\n")
    with jobqueue_cluster(path):
        await_true(lambda: len(jobs_of(lab, "fourth")) == 3 and jobs_of(lab, "fourth", "PENDING"))
        (waiting,) = jobs_of(lab, "fourth", "PENDING")
        lab.run("scancel", waiting)
        await_true(lambda: jobs_of(lab, "fourth", "PENDING") not in ([], [waiting]))
        assert len(jobs_of(lab, "fourth")) == 3  # the others are as they were


def test_a_killed_driver_goes_on(done: Path, job: Job, tmp_path: Path) -> None:
    path = cluster_file(tmp_path, "1")
    first, *_ = job.commands()
    driver = subprocess.Popen(
        [sys.executable, "-c", "from daskrf.cli import main; main()", *first, "--cluster", path],
        stderr=subprocess.DEVNULL,
    )
    await_true(lambda: len(list(job.out.glob(MID_WRITE[0]))) >= 2)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    with jobqueue_cluster(path) as client:
        job.run_part(client)
    assert_same_part(done, job.out)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("queue: nonsense\n", ["SLURM has rejected the job: ", "nvalid partition"]),
        (
            "job-script-prologue: ['echo no module named chemistry >&2', 'exit 1']\n",
            ["no worker has reached the scheduler through the interface lo", "is: no module named chemistry"],
        ),
        ("local-directory: /none/$USER\n", ["is: the spill directory '/none/", "does not exist or cannot"]),
    ],
    ids=["partition", "prologue", "spill"],
)
def test_workers_that_never_come_are_one_sentence(
    more: str, words: list[str], job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cluster_file(tmp_path, "1", more, "3s")
    assert run([*job.commands()[0], "--cluster", path]) == 1
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("daskrf: error: ")
    assert all(word in message for word in words), message


PYTHON = """\
#!/bin/sh
{line}
exec {python} "$@"
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("export PYTHONPATH={fake}:$PYTHONPATH", ["has numpy 0.0.1, not "]),
        (
            '[ -n "$INSIDE" ] || INSIDE=1 exec unshare --mount "$0" "$@"; mount -t tmpfs none {out}',
            ["does not see ", "give the output an absolute path on a file system that all workers share"],
        ),
    ],
    ids=["versions", "files"],
)
def test_workers_that_differ_are_one_sentence(
    line: str, words: list[str], job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake = tmp_path / "fake"
    (fake / "numpy-0.0.1.dist-info").mkdir(parents=True)
    (fake / "numpy-0.0.1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: numpy\nVersion: 0.0.1\n"
    )
    job.out.mkdir()
    python = tmp_path / "python"
    python.write_text(PYTHON.format(python=sys.executable, line=line.format(fake=fake, out=job.out)))
    python.chmod(0o755)
    path = cluster_file(tmp_path, "1", f"python: {python}\n")
    assert run([*job.commands()[0], "--cluster", path]) == 1
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("daskrf: error: The worker tls://")
    assert all(word in message for word in words), message
