"""Fixtures for every test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data sets: DASKRF_DATA, or ../shared/data beside the repository."""
    folder = Path(os.environ.get("DASKRF_DATA") or REPOSITORY.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}: set DASKRF_DATA to the folder that holds guacamol_10k.smiles")
    return folder
