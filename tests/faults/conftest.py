"""The small library of `tests.jobs`, the job done undisturbed, and workers that start again at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import dask
import pytest
from distributed import Client

from daskrf import local_cluster
from tests.jobs.conftest import inputs  # noqa: F401  (a fixture)
from tests.jobs.job import run_job


@pytest.fixture(scope="session")
def done(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:  # noqa: F811
    """The job, undisturbed, in this process."""
    out = tmp_path_factory.mktemp("undisturbed")
    run_job(inputs, out, None)
    return out


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two worker processes."""
    with (
        dask.config.set({"daskrf.wait-for-workers": 300.0}),
        local_cluster(n_workers=2, memory_limit="3GiB", dashboard=False) as client,
    ):
        yield client
