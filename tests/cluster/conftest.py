"""A real SLURM for the tests of this folder, and the main job done by a LocalCluster to compare with."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.slurm_lab.lab import Lab, missing
from daskrf import local_cluster
from tests.cluster.job import Job, write_inputs


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three nodes of one processor; SLURM_CONF is set for this process, hence for its children."""
    if sys.platform != "linux" or (reason := missing()):
        pytest.skip(reason if sys.platform == "linux" else "the SLURM lab needs Linux")
    lab = Lab(tmp_path_factory.mktemp("lab") / "slurm")
    lab.start()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in lab.environment.items():
            patch.setenv(name, value)
        yield lab
        lab.stop()


@pytest.fixture(scope="session")
def inputs(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The library and its labels."""
    pytest.importorskip("dask_jobqueue", reason="dask-jobqueue is not installed: pip install 'daskrf[slurm]'")
    return write_inputs(data_dir, tmp_path_factory.mktemp("inputs"))


@pytest.fixture(scope="session")
def done(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job, undisturbed, on a LocalCluster."""
    job = Job(*inputs, tmp_path_factory.mktemp("done"))
    with local_cluster(n_workers=2, memory_limit="2GiB", dashboard=False) as client:
        job.run(client)
    return job.out


@pytest.fixture
def job(lab: Lab, inputs: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """The job in an empty folder, which is also where commands and jobs start."""
    monkeypatch.chdir(tmp_path)
    return Job(*inputs, tmp_path / "out")
