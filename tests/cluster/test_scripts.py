"""The launch scripts for sites without submission from nodes: equal digests, and honest exit codes."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.cluster.job import Job, assert_same_job

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
