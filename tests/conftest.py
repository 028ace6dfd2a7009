"""Fixtures for every test."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import forkserver
from pathlib import Path, PurePosixPath
from typing import Any

import dask
import pytest
from threadpoolctl import threadpool_limits

REPOSITORY = Path(__file__).resolve().parents[1]

# Under ``pytest -n`` the tests of a file run one after the other in one process, so that what a module sets
# up is set up once; those of these folders do so all together: they share one SLURM, one S3 server, or a job
# done undisturbed. Folders are begun in this order, the long ones first, and all others after them.
TOGETHER = ("cluster", "faults", "objects")
FIRST = (*TOGETHER, "jobs", "cli")

# Tests of these folders start Dask workers, again and again.
WITH_WORKERS = (*TOGETHER, "jobs", "cli", "report")
PRELOADED = (
    "distributed",
    *(
        f"daskrf.commands.{name}"
        for name in ("fingerprint", "featurize", "fit", "predict", "screen", "suggest")
    ),
    *("tests.jobs.job", "tests.faults.injection", "tests.faults.test_campaigns"),
)


# Tests of these folders force files to the disk as users' commands do: that is what they are about.
WITH_DISKS = ("storage", "faults", "objects")


# Tests that take more than some seconds, of which `pytest -n 3` runs none and `pytest -n 3 -m ""` all.
THOROUGH = frozenset((REPOSITORY / "tests" / "thorough.txt").read_text().split())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the thorough tests, and say which tests come first, where there are several processes."""
    for item in items:
        if item.nodeid.partition("[")[0] in THOROUGH:
            item.add_marker(pytest.mark.thorough)
    if not hasattr(config, "workerinput"):
        return
    order = {name: place for place, name in enumerate(FIRST)}
    places = [order.get(item.path.parent.name, len(FIRST)) for item in items]
    items[:] = [items[i] for i in sorted(range(len(items)), key=places.__getitem__)]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Say which tests share a process: by their file's name, since marks of groups depend on versions."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return ByFile(config, log)


def _group(nodeid: str) -> str:
    """Return what tests share a process with one."""
    file = PurePosixPath(nodeid.partition("::")[0])
    return file.parent.name if file.parent.name in TOGETHER else file.as_posix()


@pytest.fixture(scope="module", autouse=True)
def _in_one_process(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A group of tests in two processes would set up twice what takes minutes, without a word."""
    if (process := os.environ.get("PYTEST_XDIST_WORKER")) is None:
        return
    mark = (
        tmp_path_factory.getbasetemp().parent / f"process-of-{_group(request.node.nodeid).replace('/', '-')}"
    )
    with suppress(FileExistsError), mark.open("x") as file:
        file.write(process)
    assert mark.read_text() == process, f"{request.node.nodeid} is in two processes"


@pytest.fixture(scope="module", autouse=True)
def _no_waiting_for_disks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Elsewhere this process forces no file to the disk; a descriptor that is not open is an error still.

    Workers, and commands that tests run as processes of their own, do force their files to the disk.
    """
    if request.path.parent.name in WITH_DISKS:
        yield
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: os.fstat(fd) and None)
        yield


@pytest.fixture(autouse=True)
def _all_workers(request: pytest.FixtureRequest) -> None:
    """A shared cluster begins a test with both its workers: the test before may have killed one."""
    if "client" in request.fixturenames:
        request.getfixturevalue("client").wait_for_workers(2, timeout=300)


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


@pytest.fixture(scope="session", autouse=True)
def _workers_are_forked(request: pytest.FixtureRequest, one_blas_thread: None) -> Iterator[None]:
    """Fork workers from a server that has imported all they need: they start in one second, not in ten.

    Commands that tests run as processes of their own start them as users' do.
    """
    if not any(item.path.parent.name in WITH_WORKERS for item in request.session.items):
        yield
        return
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload([*PRELOADED])
        forkserver.ensure_running()  # with this environment, whatever tests set
        yield


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets: DASKRF_DATA, or ../shared/data beside the repository."""
    folder = Path(os.environ.get("DASKRF_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set DASKRF_DATA to the folder that holds guacamol_10k.smiles")
    return folder
