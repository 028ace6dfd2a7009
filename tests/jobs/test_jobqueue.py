"""Cluster files of this repository, the job scripts that come of them, and refusals before any job."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import dask
import pytest
import yaml

from daskrf.errors import InputError
from daskrf.jobs.cluster import Jobs
from daskrf.jobs.clusterfile import read_cluster_file
from daskrf.jobs.jobqueue import _cluster, jobqueue_cluster

CONFIGURATIONS = Path(__file__).resolve().parents[2] / "cluster"

HEADERS = {
    "slurm": [
        "#SBATCH --cpus-per-task=8",
        "#SBATCH --mem=32G",
        "#SBATCH -t 01:00:00",
        "#SBATCH --no-requeue",
    ],
    "pbs": ["#PBS -l select=1:ncpus=8:mem=32gb", "#PBS -l walltime=01:00:00", "#PBS -r n"],
    "sge": ["#$ -l h_rt=01:00:00", "#$ -l h_vmem=4G", "#$ -pe smp 8", "#$ -r n"],
    "lsf": ["#BSUB -n 8", '#BSUB -R "span[hosts=1]"', "#BSUB -M 34360", "#BSUB -W 01:00", "#BSUB -rn"],
}


@pytest.fixture
def submit_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Pretend that every batch system's command is here, and start in an empty folder."""
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed: pip install 'daskrf[slurm]'")
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    monkeypatch.chdir(tmp_path)


def script_of(text: str, directory: Path) -> str:
    path = directory / "cluster.yaml"
    path.write_text(text)
    file = read_cluster_file(path)
    with _cluster(file, Jobs("", file.maximum, 0, directory)) as cluster:
        return str(cluster.job_script())


@pytest.mark.parametrize("kind", sorted(HEADERS))
def test_job_scripts(kind: str, submit_anywhere: None, tmp_path: Path) -> None:
    text = (CONFIGURATIONS / f"{kind}.yaml").read_text().replace("ib0", "lo")
    script = script_of(text, tmp_path)
    lines = script.splitlines()
    assert set(HEADERS[kind]) <= set(lines)
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    assert f"cd {tmp_path}" in lines
    assert "export DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE=0.98" in lines
    command = lines[-1].split()
    assert command[0] == sys.executable
    options = dict(itertools.pairwise(command))
    assert options["--nthreads"] == "1"
    assert options["--nworkers"] == "8"
    assert options["--memory-limit"] == "4.00GiB"
    assert options["--death-timeout"] == "60"
    assert options["--local-directory"] == "${TMPDIR:-/tmp}"
    assert options["--lifetime"] == "55m"
    assert options["--interface"] == "lo"
    assert command.count("--no-dashboard") == 1


def test_a_dashboard_of_workers_that_is_asked_for_stays(submit_anywhere: None, tmp_path: Path) -> None:
    text = PLAIN + "worker_extra_args:\n- --dashboard-address 127.0.0.1:0\n"
    command = script_of(text, tmp_path).splitlines()[-1]
    assert "--dashboard-address 127.0.0.1:0" in command
    assert "--no-dashboard" not in command


def test_the_dashboard_of_jobs_is_for_this_host(submit_anywhere: None, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(PLAIN + "interface: lo\n")
    file = read_cluster_file(tmp_path / "cluster.yaml")
    for address, found in ((None, "127.0.0.1"), ("0.0.0.0:0", "0.0.0.0")):
        with (
            dask.config.set({} if address is None else {"daskrf.dashboard-address": address}),
            _cluster(file, Jobs("", 1, 0, tmp_path)) as cluster,
        ):
            assert cluster.scheduler.http_server.address == found


def test_a_spill_directory_is_looked_at_in_the_job(submit_anywhere: None, tmp_path: Path) -> None:
    text = f"kind: slurm\nworkers: 1\nmemory: 1GiB\nlocal_directory: {tmp_path}/${{NAME:-none}}\n"
    text += "python: 'true'\n"
    script = script_of(text, tmp_path)
    refused = subprocess.run(["bash"], input=script, text=True, capture_output=True, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        f"the spill directory '{tmp_path}/none' (local_directory) does not exist"
    )
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "x").touch()
    found = subprocess.run(
        ["bash"], input=script, text=True, capture_output=True, env={"NAME": "some"}, check=False
    )
    assert found.stderr == ""


def test_the_users_jobqueue_yaml_fills_in(submit_anywhere: None, tmp_path: Path) -> None:
    site = yaml.safe_load((CONFIGURATIONS / "jobqueue.yaml").read_text().replace("ib0", "lo"))
    habits = {f"jobqueue.slurm.{key}": value for key, value in site["jobqueue"]["slurm"].items()}
    with dask.config.set(habits):
        script = script_of("kind: slurm\nadapt: {minimum: 1, maximum: 64}\n", tmp_path)
    assert "#SBATCH -p general" in script
    assert "#SBATCH -A my-project" in script
    assert (
        script.index("cd ")
        < script.index("module load")
        < script.index("spill=")
        < script.index("--nthreads 1")
    )


def refusal(text: str, directory: Path) -> str:
    path = directory / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught, jobqueue_cluster(path):
        pass
    return str(caught.value)


PLAIN = "kind: slurm\nworkers: 1\nmemory: 1GiB\n"


def test_a_missing_dask_jobqueue_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    assert refusal(PLAIN, tmp_path) == "SLURM needs dask-jobqueue; install it by pip install 'daskrf[slurm]'."


def test_a_missing_sbatch_is_one_sentence(
    submit_anywhere: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert refusal(PLAIN, tmp_path).startswith(
        "There is no sbatch on this machine, so no job can be submitted"
    )


def test_an_unknown_interface_is_one_sentence(submit_anywhere: None, tmp_path: Path) -> None:
    said = refusal(PLAIN + "interface: ib7\n", tmp_path)
    assert said.startswith("There is no network interface ib7 on this machine, which has ")
    assert "lo" in said


def test_a_local_cluster_by_file(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text("kind: local\nworkers: 1\nmemory: 1GiB\n")
    with jobqueue_cluster(path) as client:
        assert client.submit(sum, [1, 2]).result() == 3
