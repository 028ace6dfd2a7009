"""Fixtures for every test."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

REPOSITORY = Path(__file__).resolve().parents[1]

# Under ``pytest -n`` the tests of a file run one after the other in one process, so that what a module sets
# up is set up once; those of these folders do so all together: they share one SLURM, one S3 server, or a job
# done undisturbed. Folders are begun in this order, the long ones first, and all others after them.
TOGETHER = ("cluster", "faults", "objects")
FIRST = (*TOGETHER, "jobs", "commands", "drivers", "cli")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist, which reads the groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Say which tests share a process, and which come first, where there are several processes."""
    if not hasattr(config, "workerinput"):
        return
    order = {name: place for place, name in enumerate(FIRST)}
    places = [order.get(item.path.parent.name, len(FIRST)) for item in items]
    items[:] = [items[i] for i in sorted(range(len(items)), key=places.__getitem__)]
    for item in items:
        folder = item.path.parent.name
        group = folder if folder in TOGETHER else item.path.relative_to(REPOSITORY).as_posix()
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets: DASKRF_DATA, or ../shared/data beside the repository."""
    folder = Path(os.environ.get("DASKRF_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set DASKRF_DATA to the folder that holds guacamol_10k.smiles")
    return folder


@pytest.fixture(scope="session", autouse=True)
def one_blas_thread() -> Iterator[None]:
    """LAPACK rounds by its number of threads: one, in this process and in those that tests start."""
    with threadpool_limits(limits=1), pytest.MonkeyPatch.context() as patch:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            patch.setenv(name, "1")
        yield


@pytest.fixture(scope="module", autouse=True)
def _only_new_garbage() -> None:
    """Commands collect garbage before they look at their memory: of what a file's tests have made.

    What is loaded by then, pytest's own lists of thousands of tests too, would take longer than the command.
    """
    gc.collect()
    gc.freeze()
