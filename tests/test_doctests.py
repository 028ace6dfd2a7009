"""Every example in a docstring runs and prints what it says."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import daskrf

MODULES = sorted(module.name for module in pkgutil.walk_packages(daskrf.__path__, "daskrf."))


@pytest.mark.parametrize("name", ["daskrf", *MODULES])
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example may write files
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
