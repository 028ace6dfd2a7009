"""The commands in README and docs/ are the ones that run, and what these pages name is there."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

import daskrf
from daskrf.cli.commands import commands

REPOSITORY = Path(__file__).resolve().parents[1]
# What has changed speaks of names that are gone.
HISTORY = {"changes.md", "from-0.1.md", "news.md"}
DOCS = sorted(page for page in (REPOSITORY / "docs").glob("*.md") if page.name not in HISTORY)
PAGES = [
    *(
        REPOSITORY / name
        for name in ("README.md", "cluster/README.md", "benchmarks/README.md", "CONTRIBUTING.md")
    ),
    *DOCS,
]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPOSITORY).as_posix())
TWO_COMMANDS = ["pip install . && daskrf quickstart", "pip install '.[test]' && pytest -n 3"]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), flags=re.DOTALL)


def test_first_come_the_commands_of_a_campaign_and_then_the_two_commands():
    campaign, two, *_ = (block.splitlines() for block in blocks(REPOSITORY / "README.md", "console"))
    assert [line.split()[1] for line in campaign] == ["evaluate", "fit", "suggest", "add"]
    assert two == TWO_COMMANDS


STUB = """#!/bin/bash
echo "$(basename "$0") $*" >> "$CHECKED"
case "$(basename "$0") $*" in
    "daskrf quickstart"*) mkdir -p daskrf-quickstart; tee daskrf-quickstart/hits.{png,parquet} <<< made ;;
    *" -c import sysconfig"*) dirname "$CHECKED" ;;
    *" -m venv "*) mkdir -p "$3/bin"; touch "$3/bin/activate" ;;
    "pytest"*) exit "$TESTED" ;;
esac
"""


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("tested", [0, 1])
def test_the_check_run_makes_the_two_commands_of_the_readme(tested, tmp_path):
    """The first one first of all, the second one before the thorough tests; it fails where they do."""
    thorough = [] if tested else ["pytest -n 3 -m thorough"]
    repository, tools, log = tmp_path / "repository", tmp_path / "tools", tmp_path / "log"
    tools.mkdir()
    slurm = ("slurmctld", "slurmd", "sbatch", "munged")
    for name in ("python", "python3", "pip", "daskrf", "ruff", "mypy", "pytest", "apt-get", *slurm):
        (tools / name).write_text(STUB)
        (tools / name).chmod(0o755)
    (repository / ".ci").mkdir(parents=True)
    shutil.copy(REPOSITORY / ".ci" / "run", repository / ".ci" / "run")
    commands = ["pip install . && daskrf quickstart --other", "pip install '.[all]' && pytest -x"]
    lines = "\n".join(commands)
    (repository / "README.md").write_text(f"# daskrf\n## Two commands\n\n```console\n{lines}\n```\n")
    subprocess.run(["git", "init", "-q", repository], check=True)
    done = subprocess.run(
        ["bash", repository / ".ci" / "run"],
        env={
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "PYTHON": str(tools / "python"),
            "CHECKED": str(log),
            "TESTED": str(tested),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert bool(done.returncode) == bool(tested), done.stderr
    venv, *ran = log.read_text().splitlines()
    assert venv.startswith("python -m venv ")
    assert ran[:2] == ["pip install .", "daskrf quickstart --other"]
    assert ran[-2 - len(thorough) :] == ["pip install .[all]", "pytest -x", *thorough]
    assert {"ruff check", "mypy "} < set(ran)


def command_lines() -> list[str]:
    text = "\n".join(block for page in PAGES for block in blocks(page, "console")).replace("\\\n", " ")
    lines = [re.sub(r"\s+#.*", "", line) for line in text.splitlines()]
    return [part.strip() for line in lines for part in line.split("&&") if part.strip().startswith("daskrf ")]


@pytest.mark.parametrize("line", sorted(set(command_lines())))
def test_command_lines_parse(line):
    _, name, *arguments = shlex.split(line)
    commands()[name].make_context(name, arguments)


def untold(text: str) -> list[str]:
    """Return the commands that a text says nothing of."""
    return [name for name in commands() if f"daskrf {name}" not in text and f"`{name}`" not in text]


def test_every_command_is_on_a_page():
    text = "\n".join(page.read_text() for page in (REPOSITORY / "README.md", *DOCS))
    missing = untold(text)
    assert not missing, f"say what `daskrf {missing[0]}` is for on a page of docs/"
    assert untold("daskrf fit, `add`") == [name for name in commands() if name not in ("fit", "add")]


def test_every_option_is_on_the_page_of_its_command(monkeypatch):
    monkeypatch.syspath_prepend(REPOSITORY / "docs")
    pages = importlib.import_module("commandpages").pages()
    for name, command in commands().items():
        listed = set(re.findall(r"^\.\. option:: (.*)$", pages[name], flags=re.MULTILINE))
        flags = {word for line in listed for word in re.findall(r"(?:^|, )(--?[\w-]+)", line)}
        options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
        assert {flag for each in options for flag in (*each.opts, *each.secondary_opts)} <= flags, name
    assert ".. option:: --nu X" in pages["fit"]
    assert "--hashing" in pages["maps-options"]
    assert all(f":doc:`{name}`" in pages["index"] for name in commands())


def test_the_page_on_clusters_names_all_commands_that_take_shards():
    page = (REPOSITORY / "docs" / "clusters.md").read_text()
    named = re.search(r"((?:`[a-z-]+`(?:, | and | ))+)take shards", page)[1]
    sharded = {
        name for name, each in commands().items() if "shard" in {option.name for option in each.params}
    }
    assert set(re.findall(r"`([a-z-]+)`", named)) == sharded


def test_quotes_stay_as_they_are_typed():
    """The help of --where has quotes that belong to the expression; Sphinx would bend them."""
    settings = ast.parse((REPOSITORY / "docs" / "conf.py").read_text()).body
    values = {ast.unparse(each.targets[0]): each.value for each in settings if isinstance(each, ast.Assign)}
    assert ast.literal_eval(values["smartquotes"]) is False


def test_there_are_command_lines():
    assert len(command_lines()) > 20


def test_figures_of_the_readme_are_those_of_the_benchmarks():
    results = (REPOSITORY / "README.md").read_text().split("## Results")[1].split("\n## ")[0]
    figures = set(re.findall(r"(?<![\w.])\d+\.\d+(?![\w.])", results))
    measured = (REPOSITORY / "benchmarks" / "README.md").read_text()
    assert {"0.851", "86.2"} <= figures
    assert not {figure for figure in figures if not re.search(rf"(?<![\w.]){figure}(?!\d)", measured)}


@each_page
def test_python_blocks_use_names_that_exist(page):
    for block in blocks(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id == "daskrf"
            ):
                assert node.attr in daskrf.__all__


def own_examples() -> list[str]:
    """Python blocks that need neither files nor workers."""
    return [block for page in DOCS for block in blocks(page, "python") if "client" not in block]


@pytest.mark.parametrize("block", own_examples())
def test_python_blocks_run(block, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "a page of docs/", "exec"), {"__name__": "example"})


def test_there_are_examples():
    assert len(own_examples()) >= 3


@each_page
def test_dotted_names_exist(page):
    for name in re.findall(r"`(daskrf(?:\.\w+)+)(?:\([^`]*\))?`", page.read_text()):
        assert pkgutil.resolve_name(name) is not None


@each_page
def test_files_and_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    words = re.sub(r"`[^`\n]+`", "", text)  # a SMARTS such as [N:1]([H]) is no link
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", words):
        if "://" not in target:
            assert (page.parent / target).exists(), target
    for code in re.findall(r"`([^`\n]+)`", text):
        for name in re.findall(r"\b(?:benchmarks|cluster|examples|tests)/[\w/.-]*\w", code):
            assert "::" in code or (REPOSITORY / name).exists(), name


def promises() -> dict[str, list[tuple[str, str]]]:
    """The tests named for each promise, by its number in the tables of promises."""
    tables, tests = (REPOSITORY / "docs" / "faults.md").read_text().split("## Tests")
    made = re.findall(r"^\| ([A-Z]\d+) \|", tables, flags=re.MULTILINE)
    named = dict(re.findall(r"^\| ([A-Z]\d+) \| (.*) \|$", tests, flags=re.MULTILINE))
    assert sorted(named) == sorted(set(made)), "each promise has a row of its own among the tests"
    assert len(made) == len(set(made)), "each promise has a number of its own"
    return {number: re.findall(r"`(\S+?\.py)::(\w+)`", named[number]) for number in made}


@pytest.mark.parametrize(("number", "tests"), promises().items())
def test_every_promise_names_its_tests(number, tests):
    assert tests
    for file, name in tests:
        assert f"def {name}(" in (REPOSITORY / "tests" / file).read_text()


def test_there_are_promises():
    assert len(promises()) > 40
