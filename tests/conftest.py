"""Fixtures for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from threadpoolctl import threadpool_limits

REPOSITORY = Path(__file__).resolve().parents[1]


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
