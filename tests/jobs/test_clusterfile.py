"""What a cluster file may say, and the sentence for what it may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from daskrf.errors import InputError
from daskrf.jobs.clusterfile import read_cluster_file

GOOD = "kind: slurm\nworkers: 4\nmemory: 8GiB\ncores: 4\n"


def write(directory: Path, text: str) -> Path:
    path = directory / "cluster.yaml"
    path.write_text(text)
    return path


def test_one_thread_a_worker_and_the_memory_is_shared(tmp_path: Path) -> None:
    file = read_cluster_file(write(tmp_path, GOOD))
    assert (file.minimum, file.maximum) == (4, 4)
    assert (file.options["cores"], file.options["processes"]) == (4, 4)
    assert file.memory == 2 * 2**30
    assert file.notes == ()


def test_hyphens_are_underscores(tmp_path: Path) -> None:
    file = read_cluster_file(write(tmp_path, GOOD + "death-timeout: 30\n"))
    assert file.options["death_timeout"] == 30


def test_adapt_and_waiting(tmp_path: Path) -> None:
    text = "kind: pbs\nadapt: {maximum: 64}\nmemory: 4GiB\nwait_for_workers: 10 minutes\n"
    file = read_cluster_file(write(tmp_path, text))
    assert (file.minimum, file.maximum, file.wait) == (0, 64, 600.0)


def test_decimal_units_are_told(tmp_path: Path) -> None:
    file = read_cluster_file(write(tmp_path, "kind: slurm\nworkers: 1\nmemory: 2GB\n"))
    assert file.notes == ("memory: 2GB is 1.86 GiB; write 2GiB if you mean that.",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: [", "is no YAML"),
        ("", "holds no keys"),
        ("workers: 4", "kind is one of slurm, pbs, sge, lsf and local, not None"),
        ("kind: torque\nworkers: 4", "not 'torque'"),
        (GOOD + "partition: x", "unknown key partition for slurm"),
        (GOOD.replace("slurm", "pbs") + "job_cpu: 4", "unknown key job_cpu for pbs"),
        ("kind: local\nworkers: 1\nqueue: x", "unknown key queue for local"),
        ("kind: slurm\nmemory: 8GiB", "give either workers"),
        (GOOD + "adapt: {maximum: 3}", "give either workers"),
        ("kind: slurm\nmemory: 8GiB\nadapt: 3", "minimum and a maximum"),
        ("kind: slurm\nmemory: 8GiB\nadapt: {maximum: 3, speed: 1}", "minimum and a maximum"),
        ("kind: slurm\nmemory: 8GiB\nadapt: {minimum: 4, maximum: 3}", "above its maximum"),
        ("kind: slurm\nmemory: 8GiB\nworkers: many", "at least 1, not 'many'"),
        ("kind: slurm\nworkers: 4", "memory, that of a whole job, is missing"),
        ("kind: slurm\nworkers: 4\nmemory: 4 apples", "such as 16GiB"),
        ("kind: slurm\nworkers: 4\nmemory: 16", "16 B for each"),
        (GOOD + "processes: 3", "cannot be shared evenly"),
        (GOOD + "worker_extra_args: --lifetime 55m", "list of lines"),
        (GOOD + "wait_for_workers: soon", "time such as 10 minutes"),
        (GOOD + "walltime: [1, 2]", "walltime is one value, not [1, 2]"),
        (GOOD + "scheduler_options: login1", "scheduler_options are names and values"),
        ("kind: local\nworkers: 1\nmemory: .inf", "such as 16GiB, not inf"),
        ("kind: local\nworkers: 1\nmemory: 200MiB", "one needs 320.00 MiB at least"),
        ("kind: " + "x" * 1000, f"not '{'x' * 76}..."),
        (
            "a: &a [x, x]\nb: &b [*a, *a]\nkind: *b",
            "aliases (*name) are not read; write out what line 2 repeats",
        ),
        ("[" * 5000, "is nested too deeply"),
        ("a: " + "x" * 70_000, "more than 64.00 kiB"),
        ("kind: \0", "is no YAML"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_cluster_file(write(tmp_path, text))
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read the cluster file"):
        read_cluster_file(tmp_path / "none.yaml")
