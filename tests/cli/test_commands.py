"""Commands and options made from signatures and docstrings: of one new file, and of those that are there."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap

import click
import pytest

import daskrf
import daskrf.acquisition
import daskrf.commands
from daskrf.acquisition import parameters_of_rules, rules
from daskrf.cli.app import run
from daskrf.cli.commands import command_of, commands
from daskrf.cli.options import option_of
from daskrf.parameters import Option, Parameter, parameters_of

COUNT = '''
"""Rows of stores, for a test."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from daskrf.errors import InputError
from daskrf.parameters import Command, Option

CLI = Command("daskrf tally a b --by kept", options={"at_least": Option(least=0)})


@dataclass(frozen=True)
class TallyReport:
    """What `tally` found."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(self.words)


def tally(
    stores: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    by: Literal["kept", "read"] = "kept",
    at_least: int | None = None,
    columns: Sequence[str | int] | None = None,
    scale: float = 1.0,
    total: bool = False,
    ids: bool = True,
) -> TallyReport:
    """Tally the rows of stores.

    Says nothing of anything else.

    Parameters
    ----------
    stores : path, or sequence of paths
        What to tally.
    by : {"kept", "read"}
        Which rows.
    at_least : int, optional
        How many.
    columns : sequence of str or int, optional
        Of what.
    scale : float
        In which units.
    total : bool
        Of all.
    ids : bool
        With IDs.
    """
    if by == "read" and scale == 0:
        raise InputError("The scale is zero; give another one.")
    return TallyReport(tuple(map(str, (stores, by, at_least, columns, scale, total, ids))))
'''


@pytest.fixture
def tally(tmp_path, monkeypatch):
    """Put one more file among the commands."""
    (tmp_path / "tally.py").write_text(COUNT)
    monkeypatch.setattr(daskrf.commands, "__path__", [*daskrf.commands.__path__, str(tmp_path)])
    yield
    sys.modules.pop("daskrf.commands.tally", None)
    command_of.cache_clear()


def test_a_new_command_is_one_file(tally, capsys):
    assert run(["--help"]) == 0
    assert capsys.readouterr().out.index("  plan ") < 10_000
    assert run(["tally", "a"]) == 0
    assert (
        run(["tally", "a", "b", "--by", "read", "--at-least", "3", "--columns", "x", "--columns", "2"]) == 0
    )
    assert run(["tally", "a", "--scale", "0.5", "--total", "--no-ids"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a kept None None 1.0 False True",
        "('a', 'b') read 3 ['x', 2] 1.0 False True",
        "a kept None None 0.5 True False",
    ]


def test_its_errors_are_those_of_all_commands(tally, capsys):
    for wrong in ("--by all", "--at-least -1", "--scale much", "--by read --by kept"):
        assert run(["tally", "a", *wrong.split()]) == 2
    assert run(["tally"]) == 2
    capsys.readouterr()
    assert run(["tally", "a", "--by", "read", "--scale", "0"]) == 1
    assert capsys.readouterr().err == "daskrf: error: The scale is zero; give another one.\n"


def test_its_help_is_its_docstring(tally, capsys):
    assert run(["--help"]) == 0
    assert "  tally        Tally the rows of stores.\n" in capsys.readouterr().out
    assert run(["tally", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "STORES...",
        "Tally the rows of stores. Says nothing of anything else. Arguments: STORES... What to tally.",
        "--by [kept|read] Which rows. [default: kept]",
        "--at-least N How many. [x>=0]",
        "--columns COLUMN Of what.",
        "--scale X In which units. [default: 1.0]",
        "--total Of all.",
        "--ids / --no-ids With IDs. [default: ids]",
        "Example: daskrf tally a b --by kept",
    ):
        assert words in shown


RULE = '''
from dataclasses import dataclass

from daskrf.acquisition.rule import Acquisition


@dataclass(frozen=True, kw_only=True)
class Distance(Acquisition):
    """How far the mean is from a value.

    Parameters
    ----------
    midpoint : float
        Where the best molecules are.
    """

    name = "distance"
    midpoint: float = 0.0

    def score(self, gain, std):
        return -abs(self.sign * gain - self.midpoint)
'''


def test_a_new_rule_with_an_option_is_one_file(tmp_path, capsys):
    """In a process of its own: the choices of `screen` are made once in each."""
    (tmp_path / "distance.py").write_text(RULE)
    code = f"""
        import daskrf.acquisition
        daskrf.acquisition.__path__.append({str(tmp_path)!r})
        from daskrf.cli.commands import commands
        given = ["m", "s", "-o", "h", "--acquisition", "distance", "--midpoint", "-7.5"]
        context = commands()["screen"].make_context("screen", given)
        print(context.params["acquisition"], context.params["midpoint"])
        print(context.get_help())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("distance -7.5\n")
    shown = " ".join(done.stdout.split())
    assert "--midpoint X Where the best molecules are (distance). [default: 0.0]" in shown
    assert "distance|" in shown


def test_parameters_of_rules_are_options_of_screen():
    names = {parameter.name for parameter in parameters_of_rules()}
    assert names >= {"best", "margin", "kappa"}
    assert not names & set(inspect.signature(daskrf.screen).parameters), "a parameter of screen has that name"
    named = {parameter.name for parameter in commands()["screen"].params}
    assert names <= named
    assert all(parameter.help for parameter in parameters_of_rules())
    choice = next(p for p in commands()["screen"].params if p.name == "acquisition")
    assert isinstance(choice.type, click.Choice)
    assert list(choice.type.choices) == list(rules())


@pytest.mark.parametrize("name", commands())
def test_every_parameter_is_an_option_of_the_same_name(name):
    """But for those that are made from several options, and the ones on where a command runs."""
    made = {"client", "progress", "spec", "format", "feature_map", "kernel"}
    function = getattr(daskrf, name.replace("-", "_"))
    named = {parameter.name for parameter in commands()[name].params}
    assert {parameter.name for parameter in parameters_of(function)} - made <= named


@pytest.mark.parametrize(
    ("parameter", "more", "expected"),
    [
        (Parameter("k", (int,), (), False, 5, ""), None, ["-k"]),
        (Parameter("some_words", (str,), (), True, None, ""), None, ["--some-words"]),
        (Parameter("output", (str,), (), True, None, ""), None, ["-o", "--output"]),
        (Parameter("size", (int,), (), True, None, ""), Option("-n"), ["-n", "--size"]),
        (Parameter("size", (int,), (), True, None, ""), Option("--length"), ["--length"]),
    ],
)
def test_names_of_options(parameter, more, expected):
    assert option_of(parameter, more).opts == expected
