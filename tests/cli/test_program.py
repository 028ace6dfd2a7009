"""Help, exit codes, and how errors reach the user."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
import sys

import click
import pytest

import daskrf.drivers
from daskrf.cli.app import program, run
from daskrf.cli.commands import COMMANDS
from daskrf.cli.options import Command
from daskrf.errors import DaskrfError, InputError, MemoryLimitError, StoreError, WorkerError

NAMES = ["quickstart", "fingerprint", "featurize", "fit", "predict", "screen", "status", "verify", "plan"]


@pytest.fixture
def failing_status(monkeypatch):
    """Make `daskrf status` raise what the test hands over."""

    def fail_with(error):
        def status(store):
            raise error

        monkeypatch.setattr(daskrf.drivers, "status", status)

    return fail_with


def test_commands_come_in_the_order_of_use(capsys):
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    positions = [shown.index(f"\n  {name} ") for name in NAMES]
    assert positions == sorted(positions)
    commands = shown.split("Commands:")[1].split("Start here:")[0]
    assert "..." not in commands  # no description is cut off


@pytest.mark.parametrize("name", NAMES)
def test_help_ends_in_an_example_that_parses(name, capsys):
    assert run([name, "--help"]) == 0
    shown = capsys.readouterr().out
    example = shown.rstrip().splitlines()[-1].strip()
    program_name, command, *arguments = shlex.split(example)
    assert (program_name, command) == ("daskrf", name)
    next(c for c in COMMANDS if c.name == name).make_context(name, arguments)
    assert "--debug" in shown


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_option_is_explained(command):
    assert isinstance(command, Command)
    undocumented = [p.name for p in command.params if isinstance(p, click.Option) and not p.help]
    assert undocumented == []


def test_version(capsys):
    assert run(["--version"]) == 0
    assert daskrf.__version__ in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["fingerprint"],
        ["fingerprint", "a.smi"],
        ["featurize", "a", "-o", "b", "-M", "0"],
        ["featurize", "a", "-o", "b", "--dtype", "int8"],
        ["screen", "m", "s", "-o", "h", "--acquisition", "luck"],
        ["fingerprint", "a.smi", "-o", "b", "--smiles-column", "0"],
        ["featurize", "a", "-o", "b", "--scheduler", "x", "--workers", "2"],
        ["featurize", "a", "-o", "b", "--scheduler", "x", "--scheduler-file", "y"],
    ],
)
def test_wrong_usage_is_2(arguments, capsys):
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Error" in captured.err


@pytest.mark.parametrize("kind", [DaskrfError, InputError, StoreError, MemoryLimitError, WorkerError])
def test_an_error_is_one_sentence(kind, failing_status, capsys):
    failing_status(kind("The file x is empty; give one with rows."))
    assert run(["status", "x"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "daskrf: error: The file x is empty; give one with rows.\n"


def test_debug_shows_the_traceback(failing_status):
    failing_status(InputError("no"))
    with pytest.raises(InputError):
        run(["status", "x", "--debug"])
    with pytest.raises(InputError):
        run(["--debug", "status", "x"])


def test_a_defect_is_called_one(failing_status, capsys):
    failing_status(KeyError("weights"))
    assert run(["status", "x"]) == 70
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "defect in daskrf (KeyError: 'weights')" in shown
    assert "--debug" in shown


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "/data/x"),
            "No space left on device: /data/x; free some",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "y"), "Permission denied: y."),
        (OSError("odd"), "odd."),
    ],
)
def test_the_operating_system_is_quoted(error, words, failing_status, capsys):
    failing_status(error)
    assert run(["status", "x"]) == 1
    assert words in capsys.readouterr().err


def test_interrupt_is_130_and_says_that_it_goes_on(monkeypatch, capsys):
    def fit(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr(daskrf.drivers, "fit", fit)
    assert run(["fit", "s", "l", "-o", "m", "-M", "8", "--workers", "0"]) == 130
    assert "run the same command again" in capsys.readouterr().err


def test_interrupted_status_promises_nothing(failing_status, capsys):
    failing_status(KeyboardInterrupt())
    assert run(["status", "x"]) == 130
    assert "again" not in capsys.readouterr().err


def test_sigterm_unwinds_like_an_interrupt(monkeypatch, capsys):
    before = signal.getsignal(signal.SIGTERM)
    unwound = []

    def status(store):
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            unwound.append(store)

    monkeypatch.setattr(daskrf.drivers, "status", status)
    assert run(["status", "x"]) == 143
    assert unwound == ["x"]
    assert signal.getsignal(signal.SIGTERM) == before


def test_broken_pipe_is_quiet():
    command = f"{shlex.quote(sys.executable)} -c 'from daskrf.cli import main; main()' --help | true"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.stderr == ""


@pytest.mark.parametrize("statement", ["import daskrf", "from daskrf.cli import main", "daskrf --help"])
def test_starting_imports_nothing_slow(statement):
    if statement == "daskrf --help":
        statement = "from daskrf.cli.app import run; run(['--help'])"
    heavy = {
        "numpy",
        "rdkit",
        "dask",
        "distributed",
        "zarr",
        "pyarrow",
        "scipy",
        "numba",
        "matplotlib",
        "sklearn",
    }
    code = f"import sys; {statement}; print(sorted({heavy!r} & set(sys.modules)), file=sys.stderr)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stderr.strip() == "[]"


def test_program_has_every_command():
    assert list(program.commands) == NAMES
