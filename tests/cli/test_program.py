"""Help, exit codes, and how errors reach the user."""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
import sys

import click
import dask
import pytest
from distributed.client import FutureCancelledError
from distributed.comm import CommClosedError
from distributed.scheduler import KilledWorker

import daskrf
from daskrf.cli.app import program, run
from daskrf.cli.commands import commands
from daskrf.cli.options import Argument, Command
from daskrf.commands import fit as fitting
from daskrf.commands import status as looking
from daskrf.errors import DaskrfError, InputError, MemoryLimitError, StoreError, WorkerError

# Some commands, in the order of use.
NAMES = [
    "quickstart",
    "fingerprint",
    "featurize",
    "fit",
    "predict",
    "screen",
    "status",
    "verify",
    "maps",
    "plan",
    "check-space",
]


@pytest.fixture
def failing_status(monkeypatch):
    """Make `daskrf status` raise what the test hands over."""

    def fail_with(error):
        def status(store):
            raise error

        monkeypatch.setattr(looking, "status", status)

    return fail_with


BAD = "out-\udcff"  # what Python makes of a byte that is not UTF-8


@pytest.mark.parametrize(
    "arguments",
    [
        ["fingerprint", "{tmp}/a.smi", "-o", "{tmp}/" + BAD],
        ["fingerprint", "{tmp}/*.smi", "-o", "{tmp}/out"],
        ["featurize", "{tmp}/fp", "-o", "{tmp}/" + BAD],
        ["fit", "{tmp}/fp", "{tmp}/labels.csv", "-o", "{tmp}/" + BAD],
        ["fit", "{tmp}/fp", "{tmp}/" + BAD, "-o", "{tmp}/m"],
        ["predict", "{tmp}/m", "{tmp}/a.smi", "-o", "{tmp}/" + BAD],
        ["screen", "{tmp}/m", "{tmp}/a.smi", "-o", "{tmp}/" + BAD + ".parquet"],
        ["status", "{tmp}/" + BAD],
        ["verify", "{tmp}/" + BAD],
        ["quickstart", "{tmp}/" + BAD],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_path_that_is_not_utf_8_is_one_sentence(arguments, tmp_path, capsys):
    for name in ("a.smi", f"{BAD}.smi"):
        (tmp_path / name).write_text("CCO A\nCC B\n")
    (tmp_path / "labels.csv").write_text("id,y\nA,1\nB,2\n")
    here = [] if arguments[0] == "status" else ["--workers", "0"]
    assert (
        run(["fingerprint", str(tmp_path / "a.smi"), "-o", str(tmp_path / "fp"), *here[:0], "--workers", "0"])
        == 0
    )
    capsys.readouterr()
    assert run([text.format(tmp=tmp_path) for text in arguments] + here) == 1
    error = capsys.readouterr().err
    assert error.splitlines()[-1].startswith("daskrf: error: the path ")
    assert "out-\\udcff" in error
    assert not list(tmp_path.glob(f"{BAD}/*"))


def test_commands_come_in_the_order_of_use(capsys):
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    positions = [shown.index(f"\n  {name} ") for name in NAMES]
    assert positions == sorted(positions)
    commands = shown.split("Commands:")[1].split("Start here:")[0]
    assert "..." not in commands  # no description is cut off


@pytest.mark.parametrize("name", commands())
def test_help_ends_in_an_example_that_parses(name, capsys):
    assert run([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    program_name, command, *arguments = shlex.split(shown.rpartition("Example:")[2].replace("\\\n", ""))
    assert (program_name, command) == ("daskrf", name)
    commands()[name].make_context(name, arguments)
    assert "--debug" in shown


@pytest.mark.parametrize("command", commands().values(), ids=lambda command: command.name)
def test_every_option_is_explained(command):
    assert isinstance(command, Command)
    undocumented = [p.name for p in command.params if isinstance(p, click.Option) and not p.help]
    assert undocumented == []
    described = [p for p in command.params if isinstance(p, Argument)]
    assert all(argument.description for argument in described)
    texts = [p.help if isinstance(p, click.Option) else getattr(p, "description", "") for p in command.params]
    assert not [text for text in texts if str(text).startswith("As in")]


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
        ["featurize", "a", "-o", "b", "--memory-limit", "2GiB", "--workers", "0"],
        ["featurize", "a", "-o", "b", "--scheduler", "x", "--workers", "2"],
        ["featurize", "a", "-o", "b", "--scheduler", "x", "--scheduler-file", "y"],
    ],
)
def test_wrong_usage_is_2(arguments, capsys):
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Error" in captured.err


@pytest.mark.parametrize("size", ["banana", "4", "0GiB", "-1GiB", "GiB", "1.GiB", "4 apples"])
def test_what_is_no_memory_size_is_refused_by_the_option(size, capsys):
    assert run(["featurize", "a", "-o", "b", "--memory-limit", size]) == 2
    shown = capsys.readouterr().err
    assert "--memory-limit" in shown
    assert "4GiB" in shown


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GiB", 4 * 2**30), ("4g", 4 * 10**9), ("500 MB", 5 * 10**8), ("0.5GiB", 2**29), (".5ti", 2**39)],
)
def test_memory_sizes(text, size):
    context = commands()["featurize"].make_context("featurize", ["a", "-o", "b", "--memory-limit", text])
    assert context.params["memory_limit"] == size


@pytest.mark.parametrize("kind", [DaskrfError, InputError, StoreError, MemoryLimitError, WorkerError])
def test_an_error_is_one_sentence(kind, failing_status, capsys):
    failing_status(kind("The file x is empty; give one with rows."))
    assert run(["status", "x"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "daskrf: error: The file x is empty; give one with rows.\n"


def test_a_full_stop_is_added(failing_status, capsys):
    failing_status(InputError("the label file x is empty"))
    assert run(["status", "x"]) == 1
    assert capsys.readouterr().err == "daskrf: error: the label file x is empty.\n"


@pytest.mark.parametrize(
    "error",
    [
        CommClosedError("in <TCP (closed) Client->Scheduler>: Stream is closed"),
        KilledWorker("task-1", None, 10),
        FutureCancelledError("task-1", "scheduler-connection-lost"),
        TimeoutError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_lost_cluster_is_one_sentence(error, failing_status, capsys):
    failing_status(error)
    assert run(["status", "x"]) == 1
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert "the Dask cluster was lost" in shown
    assert "Stream is closed" not in shown
    assert "again" in shown


@pytest.mark.parametrize("text", ["no JSON", "{}", "[1]", '{"address": 5}', '{"address": "nonsense"}'])
def test_a_file_that_is_no_scheduler_file(text, tmp_path, capsys):
    (tmp_path / "scheduler.json").write_text(text)
    arguments = ["verify", "x", "--scheduler-file", str(tmp_path / "scheduler.json")]
    before = dask.config.get("scheduler", None)
    assert run(arguments) == 1
    assert dask.config.get("scheduler", None) == before  # a client that fails must not stay the default
    shown = capsys.readouterr().err.rstrip().splitlines()
    assert len(shown) == 1
    assert shown[0].startswith("daskrf: error: ")
    assert "scheduler.json" in shown[0]


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

    monkeypatch.setattr(fitting, "fit", fit)
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

    monkeypatch.setattr(looking, "status", status)
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
    assert [name for name in commands() if name in NAMES] == NAMES
    assert list(commands()) == program.list_commands(click.Context(program))


@pytest.mark.parametrize(
    ("arguments", "same"),
    [(["help"], ["--help"]), (["help", "fit"], ["fit", "--help"]), (["help", "maps"], ["maps", "-h"])],
)
def test_help_is_a_word_too(capsys, arguments, same):
    assert run(arguments) == 0
    printed = capsys.readouterr().out
    assert run(same) == 0
    assert printed == capsys.readouterr().out
    assert "Usage: daskrf" in printed


def test_help_on_what_is_no_command(capsys):
    assert run(["help", "fitt"]) == 2
    assert "No such command 'fitt'" in capsys.readouterr().err


def test_the_package_is_the_program():
    process = subprocess.run([sys.executable, "-m", "daskrf", "--version"], capture_output=True, text=True)
    assert (process.returncode, process.stdout.split()[0]) == (0, "daskrf,")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("daskrf fi", ["fingerprint", "fit"]),
        ("daskrf --v", ["--version"]),
        ("daskrf fit --quic", ["--quick"]),
    ],
)
def test_shells_complete_commands_and_options(line, expected, monkeypatch, capsys):
    words = line.split()
    environment = {"_DASKRF_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert run([]) == 0
    assert [line.partition(",")[2] for line in capsys.readouterr().out.split()] == expected


def test_shells_get_a_script(monkeypatch, capsys):
    for shell in ("bash", "zsh", "fish"):
        monkeypatch.setenv("_DASKRF_COMPLETE", f"{shell}_source")
        assert run([]) == 0
        assert "_DASKRF_COMPLETE" in capsys.readouterr().out
