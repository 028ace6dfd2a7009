"""The launch scripts for sites without submission from nodes: equal digests, and honest exit codes."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from cluster.slurm_lab.lab import Lab
from daskrf.workers.batch import _variable
from daskrf.workers.clusters import CONFIG
from tests.cluster.job import FULL, Job, assert_same_job, await_true

WAITING = ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING")
SCRIPTS = Path(__file__).resolve().parents[2] / "cluster"


def submit(script: str, *commands: str, wait: bool = True) -> subprocess.CompletedProcess[str]:
    """Submit the one-job script for two nodes; sbatch waits for its end, and then has its exit code."""
    size = "--parsable --nodes=2 --cpus-per-task=1 --mem=2G --time=30 --output=job.out"
    return subprocess.run(
        ["sbatch", *size.split(), *(["--wait"] if wait else []), str(SCRIPTS / script), *commands],
        text=True,
        capture_output=True,
        check=False,
    )


def state_of(lab: Lab, number: str) -> str:
    return lab.run("squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={number}").strip()


@pytest.mark.parametrize("script", ["daskrf-slurm.sbatch", "daskrf-array.sbatch"])
def test_scripts_parse(script: str) -> None:
    assert subprocess.run(["bash", "-n", str(SCRIPTS / script)], check=False).returncode == 0


@pytest.mark.parametrize("text", ["daskrf-slurm.sbatch", "../docs/clusters.md"])
def test_settings_are_those_of_local_clusters(text: str) -> None:
    """Those that a `LocalCluster` alone looks at are left out."""
    exported = re.findall(r"^export (DASK_\w+)=(.*)$", (SCRIPTS / text).read_text(), re.MULTILINE)
    needed = {key: value for key, value in CONFIG.items() if not key.startswith("distributed.deploy.")}
    assert dict(exported) == {_variable(key): str(value) for key, value in needed.items()}


@pytest.mark.parametrize(
    ("memory", "options"), [("32768", "--workers 8 --memory-limit 4096MiB"), ("", "--workers 8")]
)
def test_the_last_job_of_an_array_tells_its_memory(tmp_path: Path, memory: str, options: str) -> None:
    (tmp_path / "daskrf").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "daskrf").chmod(0o755)
    job = {"DASKRF_PART": "last", "SLURM_CPUS_PER_TASK": "8", "SLURM_MEM_PER_NODE": memory}
    printed = subprocess.run(
        ["bash", str(SCRIPTS / "daskrf-array.sbatch"), "fit", "store", "labels.csv"],
        env=os.environ | job | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        text=True,
        capture_output=True,
        check=True,
    ).stdout
    assert printed == f"fit store labels.csv {options}\n"


def test_one_job_leaves_the_same_bytes(done: Path, job: Job, tmp_path: Path) -> None:
    lines = [shlex.join(["daskrf", *command]) for command in job.commands()]
    result = submit("daskrf-slurm.sbatch", *lines)
    assert result.returncode == 0, (result.stderr, (tmp_path / "job.out").read_text())
    assert_same_job(done, job.out)


def test_one_job_lets_nobody_else_in(job: Job, tmp_path: Path) -> None:
    """Its scheduler asks for the certificates of the job, which are gone when it ends."""
    look = "bash -c 'cp daskrf-*/scheduler.json seen.json && stat -c %a daskrf-*/.certificates-*/* > modes' x"
    result = submit("daskrf-slurm.sbatch", look)
    assert result.returncode == 0, (tmp_path / "job.out").read_text()
    assert json.loads((tmp_path / "seen.json").read_text())["address"].startswith("tls://")
    assert set((tmp_path / "modes").read_text().split()) == {"600"}
    assert list(tmp_path.glob("daskrf-*/*.log"))
    assert not list(tmp_path.glob("daskrf-*/.certificates-*"))


def test_one_job_ends_with_the_exit_code_of_the_command(job: Job, tmp_path: Path) -> None:
    result = submit("daskrf-slurm.sbatch", "daskrf fit none none -o none", "daskrf status none")
    printed = (tmp_path / "job.out").read_text()
    assert result.returncode == 1, printed
    assert "daskrf-slurm: daskrf fit" in printed
    assert "daskrf-slurm: daskrf status" not in printed


def test_one_job_stops_in_time_and_goes_on(done: Path, job: Job, lab: Lab, tmp_path: Path) -> None:
    """SLURM's warning before the end of the time: what is in hand is finished, and nothing is begun."""
    lines = [shlex.join(["daskrf", *command]) for command in job.commands()]
    submission = submit("daskrf-slurm.sbatch", *lines, wait=False)
    number = submission.stdout.strip()
    await_true(lambda: len(list(job.out.glob("fp/_commits/*.json"))) >= 2)
    lab.run("scancel", "--signal=TERM", "--batch", number)
    await_true(lambda: state_of(lab, number) not in WAITING)
    printed = (tmp_path / "job.out").read_text()
    assert state_of(lab, number) == "FAILED", printed  # it has ended with an exit code of its own
    assert "daskrf-slurm: daskrf featurize" not in printed
    assert not list((job.out / "fp").rglob("*~*")), printed
    result = submit("daskrf-slurm.sbatch", *lines)
    assert result.returncode == 0, (result.stderr, (tmp_path / "job.out").read_text())
    assert_same_job(done, job.out)


def test_arrays_of_shards_leave_the_same_bytes(done: Path, job: Job, lab: Lab, tmp_path: Path) -> None:
    """Three jobs a command, and those of the next command after them."""
    text = (SCRIPTS / "daskrf-array.sbatch").read_text()
    for old, new in [("--mem=4G", "--mem=1G"), ("--cpus-per-task=8 --mem=32G", "--mem=1G")]:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "array.sbatch").write_text(text)  # as a user would edit a copy
    last = ""
    for command in job.commands():
        last = subprocess.run(
            ["bash", "array.sbatch", "3", *command],
            env=os.environ | {"AFTER": last},
            text=True,
            capture_output=True,
            check=True,
        ).stdout.strip()
    await_true(lambda: state_of(lab, last) not in WAITING, 2000 if FULL else 500)
    state = state_of(lab, last)
    assert state == "COMPLETED", [path.read_text() for path in sorted(tmp_path.glob("daskrf-*.out"))]
    assert_same_job(done, job.out)
