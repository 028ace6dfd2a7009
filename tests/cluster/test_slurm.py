"""The main job as jobs of a real SLURM: equal digests, whatever happens to jobs and nodes."""

from __future__ import annotations

from pathlib import Path

from daskrf.cli.app import run
from tests.cluster.job import Job, assert_same_job

CLUSTER = """\
kind: slurm
{size}
cores: 1
memory: 1GiB
walltime: "00:10:00"
interface: lo
death_timeout: 30
job_extra_directives: ["--no-requeue"]
"""


def cluster_file(directory: Path, size: str = "adapt: {minimum: 1, maximum: 3}", more: str = "") -> str:
    path = directory / "slurm.yaml"
    path.write_text(CLUSTER.format(size=size) + more)
    return str(path)


def test_the_commands_on_slurm_leave_the_same_bytes(done: Path, job: Job, tmp_path: Path) -> None:
    for command in job.commands():
        assert run([*command, "--cluster", cluster_file(tmp_path, "adapt: {minimum: 1, maximum: 2}")]) == 0
    assert_same_job(done, job.out)
