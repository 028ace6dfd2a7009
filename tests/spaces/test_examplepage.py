"""The examples of the page on spaces that need no model: they run, and print what the page shows."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from daskrf.cli.app import run
from daskrf.cli.commands import command_of

REPOSITORY = Path(__file__).resolve().parents[2]
SHOWN = re.compile(
    r"```console\n(daskrf [^\n]*)\n```\n\n```\{code-block\} text\n:class: wrap\n(.*?)```", re.DOTALL
)
MODELLESS = {"build-space", "check-space", "sample", "search"}


def without_times(text: str) -> list[str]:
    return re.sub(r" \(\d+\.\d s\)", "", text).split()


def test_what_the_page_shows_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(REPOSITORY / "examples" / "space", tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    ran = []
    for line, text in SHOWN.findall((REPOSITORY / "docs" / "spaces.md").read_text()):
        _, name, *arguments = shlex.split(line)
        if name in MODELLESS:
            here = ["--workers", "0"] if any(p.name == "workers" for p in command_of(name).params) else []
            assert run([name, *arguments, *here]) == 0
            assert without_times(capsys.readouterr().out) == without_times(text)
            ran.append(name)
    assert ran == ["build-space", "check-space", "sample", "search", "search"]
