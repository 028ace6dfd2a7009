"""Fixtures of the tests of the stores."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def quick_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk: no test cuts the power."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
