"""The interface: every engine has all operations, chosen once a process, and nothing is imported before."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import daskrf.engine
from daskrf.engine import Engine, engine

HOME = Path(daskrf.engine.__file__).parent
OPERATIONS = [name for name in vars(Engine) if not name.startswith("_")]


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in HOME.glob("*/__init__.py")))
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_engine_has_every_operation(folder: str, name: str) -> None:
    function = getattr(importlib.import_module(f"daskrf.engine.{folder}"), name)
    function = getattr(function, "py_func", function)
    wanted = list(inspect.signature(getattr(Engine, name)).parameters.values())[1:]
    actual = list(inspect.signature(function).parameters.values())
    assert [(p.name, p.kind, p.default) for p in actual] == [(p.name, p.kind, p.default) for p in wanted]


def test_a_score_of_operations_each_with_its_contract() -> None:
    assert 10 <= len(OPERATIONS) <= 25
    assert all(getattr(Engine, name).__doc__ for name in OPERATIONS)
    assert engine() is engine()


def run(code: str, **settings: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **settings},
    )
    return (done.stdout + done.stderr).strip()


def test_importing_maps_and_processes_compiles_nothing() -> None:
    code = (
        "import daskrf.features, daskrf.kernels, daskrf.gp, daskrf.engine, sys; print('numba' in sys.modules)"
    )
    assert run(code) == "False"


@pytest.mark.parametrize("name", ["nothing", "../cpu", "cpu.jit", "__init__"])
def test_an_unknown_engine_is_named(name: str) -> None:
    assert f"DASKRF_ENGINE is {name!r}" in run(
        "import daskrf.engine; daskrf.engine.engine()", DASKRF_ENGINE=name
    )
