"""What Dask's configuration may say of jobs, the scripts that come of it, and refusals before any job."""

from __future__ import annotations

import inspect
import itertools
import os
import re
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import dask
import pytest
import yaml
from distributed import Client
from distributed.security import Security

from daskrf.errors import InputError
from daskrf.workers.batch import Batch, configured, jobqueue_cluster, started
from daskrf.workers.security import written

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
    with configured(path) as batch, started(batch, batch.jobs()) as cluster:
        return str(cluster.job_script())


def section(text: str, system: str = "slurm", workers: str = "1") -> str:
    """Return a file of Dask's configuration, with these lines on a batch system."""
    lines = "".join(f"    {line}\n" for line in text.splitlines())
    return f"daskrf:\n  workers: {workers}\njobqueue:\n  {system}:\n{lines}"


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
    assert options["--local-directory"] == '"$spill"'
    assert "spill=${TMPDIR:-/tmp}" in lines
    assert options["--lifetime"] == "55m"
    assert options["--interface"] == "lo"
    assert command.count("--no-dashboard") == 1


def test_a_dashboard_of_workers_that_is_asked_for_stays(submit_anywhere: None, tmp_path: Path) -> None:
    text = PLAIN + "worker-extra-args:\n- --dashboard-address 127.0.0.1:0\n"
    command = script_of(section(text), tmp_path).splitlines()[-1]
    assert "--dashboard-address 127.0.0.1:0" in command
    assert "--no-dashboard" not in command


def test_the_dashboard_of_jobs_is_for_this_host(submit_anywhere: None, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(section(PLAIN + "interface: lo\n"))
    for address, host in ((None, "127.0.0.1"), ("0.0.0.0:0", "0.0.0.0")):
        with (
            dask.config.set({} if address is None else {"daskrf.dashboard-address": address}),
            configured(tmp_path / "cluster.yaml") as batch,
            started(batch, batch.jobs()) as cluster,
        ):
            assert cluster.scheduler.http_server.address == host


def test_a_spill_directory_is_looked_at_in_the_job(submit_anywhere: None, tmp_path: Path) -> None:
    text = f"{PLAIN}local-directory: {tmp_path}/${{NAME:-none}}\npython: 'true'\n"
    script = script_of(section(text), tmp_path)
    refused = subprocess.run(["bash"], input=script, text=True, capture_output=True, check=False)
    assert refused.returncode == 1
    assert refused.stderr.startswith(
        f"the spill directory '{tmp_path}/none' (local-directory) does not exist"
    )
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "x").touch()
    process = subprocess.run(
        ["bash"], input=script, text=True, capture_output=True, env={"NAME": "some"}, check=False
    )
    assert process.stderr == ""


SITE = """\
queue: general
account: my-project
memory: 32GiB
cores: 8
interface: lo
local_directory: ${TMPDIR:-/tmp}
job-script-prologue: [module load python/3.12]
"""


def test_a_job_spills_into_a_private_folder(submit_anywhere: None, tmp_path: Path) -> None:
    script = script_of(section(f"{PLAIN}local-directory: {tmp_path}\npython: 'true'\n"), tmp_path)
    private = tmp_path / f"daskrf-{os.getuid()}"

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash"], input=script, text=True, capture_output=True, check=False)

    for _ in range(2):
        assert run().stderr == ""
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    private.chmod(0o777)  # as another user might have made it
    assert run().returncode == 1
    assert "is open to others" in run().stderr
    private.rmdir()
    private.symlink_to(tmp_path)
    assert run().returncode == 1


def test_workers_of_jobs_get_certificates_by_files(submit_anywhere: None, tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(section(f"{PLAIN}interface: lo\nlog-directory: '{tmp_path}'\n"))
    folder = tmp_path / "of all nodes"
    with (
        configured(path) as batch,
        written(Security.temporary(), folder) as security,
        started(batch, batch.jobs(), security) as cluster,
    ):
        assert cluster.scheduler.address.startswith("tls://127.0.0.1:")
        *_, command = cluster.job_script().splitlines()
        options = dict(itertools.pairwise(shlex.split(command)))
        files = [Path(options[f"--tls-{name}"]) for name in ("ca-file", "cert", "key")]
        assert [file.parent.parent for file in files] == [folder] * 3
        assert "PRIVATE KEY" in files[2].read_text()
        with Client(cluster) as client:
            assert client.scheduler_info()["workers"] == {}
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("system", sorted(HEADERS))
def test_every_key_that_dask_jobqueue_reads_is_known(
    system: str, submit_anywhere: None, tmp_path: Path
) -> None:
    import dask_jobqueue
    from dask_jobqueue.core import Job

    kind = {"slurm": "SLURM", "pbs": "PBS", "sge": "SGE", "lsf": "LSF"}[system]
    classes = (Job, getattr(dask_jobqueue, f"{kind}Cluster").job_cls)
    source = "".join(inspect.getsource(each) for each in classes)
    keys = set(re.findall(r"jobqueue\.%s\.([\w-]+)", source))
    assert {"header-skip", "queue", "walltime"} <= keys
    for key in keys - {"memory"}:
        read(section(f"{PLAIN}{key}: null\n", system), tmp_path)


def test_former_names_are_read(
    submit_anywhere: None, tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    former = """\
header-skip: ['--mem=']
project: chemistry
extra: ['--lifetime', '55m']
env-extra: [module load python]
job-extra: ['--no-requeue']
"""
    lines = script_of(section(PLAIN + former), tmp_path).splitlines()
    assert not [line for line in lines if "--mem=" in line]
    assert {"#SBATCH -A chemistry", "#SBATCH --no-requeue", "module load python"} <= set(lines)
    assert "--lifetime 55m" in lines[-1]
    assert "--no-dashboard" in lines[-1]
    assert not [warning for warning in recwarn if "renamed" in str(warning.message)]
    lines = script_of(section(PLAIN + former + "account: physics\n"), tmp_path).splitlines()
    assert "#SBATCH -A physics" in lines


@pytest.mark.parametrize("cluster", ["slurm", "by a file"])
def test_the_users_jobqueue_yaml_fills_in(cluster: str, submit_anywhere: None, tmp_path: Path) -> None:
    site = {f"jobqueue.slurm.{key}": value for key, value in yaml.safe_load(SITE).items()}
    with dask.config.set(site):
        if cluster == "slurm":
            with configured("slurm", "1-64") as batch, started(batch, batch.jobs()) as running:
                assert (batch.minimum, batch.maximum) == (1, 64)
                script = str(running.job_script())
        else:
            script = script_of("jobqueue: {slurm: {}}\ndaskrf: {workers: 3}\n", tmp_path)
    assert "#SBATCH -p general" in script
    assert "#SBATCH -A my-project" in script
    assert (
        script.index("cd ")
        < script.index("module load")
        < script.index("spill=")
        < script.index("--nthreads 1")
    )


def test_a_file_changes_nothing_for_good(submit_anywhere: None, tmp_path: Path) -> None:
    before = dask.config.get("jobqueue.slurm.queue", None)
    script_of(section(PLAIN + "queue: other\n"), tmp_path)
    assert dask.config.get("jobqueue.slurm.queue", None) == before
    assert dask.config.get("daskrf.workers", None) is None


def read(text: str, directory: Path, workers: str | int | None = None) -> Batch:
    path = directory / "cluster.yaml"
    path.write_text(text)
    with configured(path, workers) as batch:
        batch.jobs()
        return batch


GOOD = "memory: 8GiB\ncores: 4\n"


def test_one_thread_a_worker_and_the_memory_is_shared(tmp_path: Path) -> None:
    batch = read(section(GOOD, workers="4"), tmp_path)
    assert (batch.minimum, batch.maximum) == (4, 4)
    assert (batch.options["cores"], batch.options["processes"]) == (4, 4)
    assert batch.memory == 2 * 2**30
    assert batch.notes == ()
    jobs = batch.jobs()
    assert (jobs.system, jobs.maximum, jobs.memory) == ("SLURM", 4, 2 * 2**30)


def test_whole_jobs_of_threads(tmp_path: Path) -> None:
    jobs = read(section(GOOD + "processes: 2\n", workers="3"), tmp_path).jobs()
    assert (jobs.maximum, jobs.memory) == (8, 2 * 2**30)  # 2 jobs of 2 processes of 2 threads


@pytest.mark.parametrize(("workers", "sizes"), [(None, (0, 64)), (3, (3, 3)), ("2-5", (2, 5))])
def test_workers_are_a_number_or_a_range(
    workers: str | int | None, sizes: tuple[int, int], tmp_path: Path
) -> None:
    batch = read(section("memory: 4GiB\n", "pbs", "0-64"), tmp_path, workers)
    assert (batch.minimum, batch.maximum) == sizes


def test_waiting(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(section(PLAIN, workers="1\n  wait-for-workers: 10 minutes"))
    with configured(tmp_path / "cluster.yaml") as batch:
        assert batch.jobs().patience == 600.0


def test_decimal_units_are_told(tmp_path: Path) -> None:
    (note,) = read(section("memory: 2GB\n"), tmp_path).notes
    assert note.endswith("cluster.yaml: memory: 2GB is 1.9 GiB; write 2GiB if you mean that.")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: [", "is not YAML"),
        ("", "must have a section jobqueue with one batch system"),
        ("kind: slurm\nworkers: 4", "must have a section jobqueue with one batch system"),
        ("jobqueue: {slurm: {}, pbs: {}}", "must have a section jobqueue with one batch system"),
        (section(GOOD, "torque"), "not 'torque'"),
        (section(GOOD + "partition: x"), "unknown key partition for slurm"),
        (section(GOOD + "job-cpu: 4", "pbs"), "unknown key job-cpu for pbs"),
        (section(GOOD, "local"), "the batch system is one of"),
        (section(GOOD, workers=""), "the number of workers is missing"),
        (section(GOOD, workers="4-3"), "the minimum number of workers, 4, is above the maximum, 3"),
        (section(GOOD, workers="0"), "at least 1, not 0"),
        (section(GOOD, workers="many"), "not 'many'"),
        (section(GOOD, workers="{maximum: 3}"), "workers must be a number, or a range such as 1-64"),
        (section("cores: 4"), "memory (of a whole job) is missing"),
        (section("memory: 4 apples"), "such as 16GiB"),
        (section("memory: 16"), "16 B for each"),
        (section("memory: .inf"), "such as 16GiB, not inf"),
        (section("memory: 200MiB"), "each needs at least 320.0 MiB"),
        (section(GOOD + "processes: 3"), "cannot be divided evenly"),
        (section(GOOD + "cores: 0"), "cores must be a whole number of at least 1, not 0"),
        (section(GOOD + "worker-extra-args: --lifetime 55m"), "list of lines"),
        (section(GOOD + "walltime: [1, 2]"), "walltime must be one value, not [1, 2]"),
        (section(GOOD + "scheduler-options: login1"), "scheduler-options must be names with values"),
        (section(GOOD, workers="1\n  wait-for-workers: soon"), "time such as 10 minutes, not 'soon'"),
        (section(GOOD, "x" * 1000), "..."),
        ("a: &a [x, x]\nb: &b [*a, *a]\njobqueue: *b", "must have a section jobqueue with one batch system"),
        ("[" * 5000, "is nested too deeply"),
        ("a: " + "x" * 70_000, "larger than 64.0 KiB"),
        ("kind: \0", "is not YAML"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(text, tmp_path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read the cluster file"), configured(tmp_path / "none.yaml"):
        pass


def refusal(text: str, directory: Path) -> str:
    path = directory / "cluster.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught, jobqueue_cluster(path):
        pass
    return str(caught.value)


PLAIN = "memory: 1GiB\n"


def test_a_missing_dask_jobqueue_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    assert (
        refusal(section(PLAIN), tmp_path)
        == "SLURM needs dask-jobqueue; install it with pip install 'daskrf[slurm]'."
    )


IMPORTS = """
import signal, sys, threading
from daskrf.errors import InputError
from daskrf.workers.batch import configured

def first(path):
    with configured(path):
        pass

def refused(path):
    try:
        first(path)
    except InputError as error:
        print(error)

if sys.argv[2] == "main":
    first(sys.argv[1])
else:
    other = threading.Thread(target=refused, args=(sys.argv[1],))
    other.start()
    other.join()
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.mark.parametrize("thread", ["main", "other"])
def test_ctrl_c_is_as_it_was_once_dask_jobqueue_is_imported(
    submit_anywhere: None, tmp_path: Path, thread: str
) -> None:
    """Its import lets SIGINT end the process, without a word and with exit code 0."""
    (tmp_path / "cluster.yaml").write_text(section(PLAIN))
    run = [sys.executable, "-c", IMPORTS, "cluster.yaml", thread]
    *errors, as_it_was = subprocess.run(run, capture_output=True, text=True, check=True).stdout.splitlines()
    assert as_it_was == "True"
    assert errors == (
        []
        if thread == "main"
        else [
            "dask-jobqueue must be imported in the main thread first: put import dask_jobqueue at the start."
        ]
    )


def test_a_missing_sbatch_is_one_sentence(
    submit_anywhere: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert refusal(section(PLAIN), tmp_path).startswith(
        "There is no sbatch on this machine to submit jobs to SLURM; start daskrf on a login node"
    )


def test_an_unknown_interface_is_one_sentence(submit_anywhere: None, tmp_path: Path) -> None:
    message = refusal(section(PLAIN + "interface: ib7\n"), tmp_path)
    assert message.startswith("There is no network interface ib7 on this machine, which has ")
    assert "lo" in message
