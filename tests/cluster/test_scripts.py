"""The launch scripts for sites without submission from nodes: equal digests, and honest exit codes."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from pathlib import Path

import pytest

from cluster.slurm_lab.lab import Lab
from tests.cluster.job import Job, assert_same_job
from tests.drivers.job import data_digests

SCRIPTS = Path(__file__).resolve().parents[2] / "cluster"


def submit(script: str, *commands: str, options: str = "") -> subprocess.CompletedProcess[str]:
    """Run the one-job script on two nodes and wait for its end; the job's exit code is that of sbatch."""
    size = "--wait --nodes=2 --cpus-per-task=1 --mem=2G --time=10 --output=job.out"
    return subprocess.run(
        ["sbatch", *size.split(), *options.split(), str(SCRIPTS / script), *commands],
        text=True,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("script", ["daskrf-slurm.sbatch", "daskrf-array.sbatch"])
def test_scripts_parse(script: str) -> None:
    assert subprocess.run(["bash", "-n", str(SCRIPTS / script)], check=False).returncode == 0


def test_one_job_leaves_the_same_bytes(done: Path, job: Job, tmp_path: Path) -> None:
    lines = [shlex.join(["daskrf", *command]) for command in job.commands()]
    result = submit("daskrf-slurm.sbatch", *lines)
    assert result.returncode == 0, (result.stderr, (tmp_path / "job.out").read_text())
    assert_same_job(done, job.out)


def test_one_job_ends_with_the_exit_code_of_the_command(job: Job, tmp_path: Path) -> None:
    result = submit("daskrf-slurm.sbatch", "daskrf fit none none -o none", "daskrf status none")
    printed = (tmp_path / "job.out").read_text()
    assert result.returncode == 1, printed
    assert "daskrf-slurm: daskrf fit" in printed
    assert "daskrf-slurm: daskrf status" not in printed


def test_arrays_of_shards_leave_the_same_bytes(done: Path, job: Job, lab: Lab, tmp_path: Path) -> None:
    """Three jobs a command, and those of the next command after them: fingerprint and featurize."""
    text = (SCRIPTS / "daskrf-array.sbatch").read_text()
    for old, new in [("--mem=4G", "--mem=1G"), ("--cpus-per-task=8 --mem=32G", "--mem=1G")]:
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "array.sbatch").write_text(text)  # as a user would edit a copy
    last = ""
    for command in job.commands()[:2]:
        last = subprocess.run(
            ["bash", "array.sbatch", "3", *command],
            env=os.environ | {"AFTER": last},
            text=True,
            capture_output=True,
            check=True,
        ).stdout.strip()
    state = ["squeue", "--noheader", "--states=all", "--format=%T", f"--jobs={last}"]
    end = time.monotonic() + 500
    while (found := lab.run(*state)) in ("PENDING", "RUNNING", "CONFIGURING", "COMPLETING"):
        assert time.monotonic() < end
        time.sleep(0.5)
    assert found == "COMPLETED", [path.read_text() for path in sorted(tmp_path.glob("daskrf-*.out"))]
    for store in ("fp", "phi"):
        assert data_digests(done / store) == data_digests(job.out / store)
