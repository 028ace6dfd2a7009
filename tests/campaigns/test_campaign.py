"""A campaign: killed at every boundary, it ends in the same files, and no molecule is scored twice."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
import pytest

import daskrf
from daskrf.campaigns import campaignjob
from daskrf.cli.app import run
from daskrf.commands import campaign as command
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.report import campaignreport

SCORER = """
import os, pathlib, time
from daskrf.demo.objective import score as objective
def score(smiles):
    with open("asked.txt", "a") as file:
        file.write("".join(f"{text}\\n" for text in smiles))
    while pathlib.Path("hang").exists():
        pathlib.Path("hanging").write_text(str(os.getpid()))
        time.sleep(0.05)
    return [None if "F" in text else float(y) for text, y in zip(smiles, objective(smiles))]
"""
SETTINGS = """
library = "lib.smi"
function = "mine:score"
direction = "minimize"
first = 10
rounds = 3
per_call = 5
[fit]
quick = true
[suggest]
n = 6
where = "weight < 500"
[found]
k = 10
n_draws = 4
"""
SMILES = ReactionLibrary().smiles(0, 90)


def begin(folder: Path, settings: str = SETTINGS) -> Path:
    """Write all that a campaign needs into a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "lib.smi").write_text("".join(f"{text} m{i}\n" for i, text in enumerate(SMILES)))
    (folder / "mine.py").write_text(SCORER)
    (folder / "c.toml").write_text(settings)
    return folder / "c.toml"


def asked(folder: Path) -> list[str]:
    return (folder / "asked.txt").read_text().split()


def content(folder: Path) -> dict[str, bytes]:
    """Return the files of rounds."""
    names = re.compile(r"(batch|scores|found)-\d+\.(csv|json)|rounds\.(png|html)|campaign\.json")
    return {
        path.name: path.read_bytes().replace(os.fsencode(folder), b"")
        for path in sorted((folder / "c").iterdir())
        if names.fullmatch(path.name)
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign that nobody disturbed."""
    folder = tmp_path_factory.mktemp("campaign") / "whole"
    report = daskrf.campaign(begin(folder))
    words = str(report)
    assert words.startswith(
        f"3 rounds with {len(report.history.scores)} scores of 22 molecules in {folder / 'c'}: best"
    )
    assert "stopped: 3 rounds done" in words
    assert "leave out, too" not in words  # estimates are among molecules of less than 500, as batches are
    return folder


def test_estimates_say_which_filters_they_cannot_have(tmp_path: Path) -> None:
    """Labelled molecules have no columns of the library."""
    settings = SETTINGS.replace("lib.smi", "lib.csv").replace("rounds = 3", "rounds = 1")
    begin(tmp_path, settings.replace("weight < 500", "price < 60"))
    rows = "".join(f"{text},m{i},{i}\n" for i, text in enumerate(SMILES))
    (tmp_path / "lib.csv").write_text("smiles,id,price\n" + rows)
    report = daskrf.campaign(tmp_path / "c.toml")
    assert report.history.rounds[0].estimate is not None
    words = "estimates of the best molecules count those that where of [suggest] leaves out, too"
    assert report.notes.count(words) == 1


def test_first_by_takes_the_place_of_the_field(tmp_path: Path) -> None:
    """The first batch is then that of a file which says so, and not the diverse one."""
    settings = SETTINGS.replace("rounds = 3", "first_by = 'random'")

    def first_batch(name: str, settings: str, *options: str) -> list[str]:
        file = begin(tmp_path / name, settings)
        with patch.object(campaignjob, "score_batch", side_effect=InputError("it was chosen")):
            assert run(["campaign", str(file), *options, "--workers", "0"]) == 1
        return pd.read_csv(file.parent / "c" / "batch-1.csv")["id"].tolist()

    random = first_batch("file", settings)
    assert first_batch("option", settings.replace("random", "diverse"), "--first-by", "random") == random
    assert first_batch("other", settings, "--first-by", "diverse") != random


class Killed(BaseException):
    """The campaign was killed."""


STEPS = {
    "suggest": command,
    "score_batch": campaignjob,
    "fit": command,
    "add": command,
    "found": command,
    "plot_campaign": campaignreport,
    "write_campaign_page": campaignreport,
    "write_hits": campaignjob,
}


@contextmanager
def killing(seen: set[tuple[str, str, int]], folder: Path) -> Iterator[None]:
    """End the campaign before or after the first step of a round where it was not ended yet."""

    def check(name: str, when: str) -> None:
        boundary = name, when, len(list(folder.glob("batch-*.csv")))
        if boundary not in seen:
            seen.add(boundary)
            raise Killed

    def wrapped(name: str, function: Any) -> Any:
        def step(*arguments: Any, **options: Any) -> Any:
            check(name, "before")
            result = function(*arguments, **options)
            check(name, "after")
            return result

        return step

    with ExitStack() as stack:
        for name, module in STEPS.items():
            stack.enter_context(patch.object(module, name, wrapped(name, getattr(module, name))))
        yield


def test_killed_at_every_boundary_it_ends_the_same(whole: Path, tmp_path: Path) -> None:
    settings, seen = begin(tmp_path / "killed"), set[tuple[str, str, int]]()
    for _ in range(100):
        with contextlib.suppress(Killed), killing(seen, settings.parent / "c"):
            daskrf.campaign(settings)
            break
    assert {name for name, _, _ in seen} == set(STEPS)
    assert len(seen) > 30
    assert content(settings.parent) == content(whole)
    names = asked(settings.parent)
    assert len(set(names)) == len(names) == 22
    assert sorted(names) == sorted(asked(whole))
    mtimes = {path: path.stat().st_mtime_ns for path in (settings.parent / "c").glob("*.csv")}
    daskrf.campaign(settings)
    assert {path: path.stat().st_mtime_ns for path in mtimes} == mtimes
    assert asked(settings.parent) == names


def test_molecules_that_failed_are_not_asked_for_again(whole: Path) -> None:
    scores = pd.concat([pd.read_csv(whole / "c" / f"scores-{k}.csv") for k in (1, 2, 3)])
    failed = scores[scores.score.isna()]
    assert len(failed)
    assert failed.smiles.str.contains("F").all()
    assert set(failed.failure) == {"no score in the file that the scorer wrote"}
    assert scores.smiles.is_unique
    assert list(scores.smiles) == [
        text for k in (1, 2, 3) for text in pd.read_csv(whole / "c" / f"batch-{k}.csv").smiles
    ]
    assert daskrf.add(whole / "c" / "model", direction="minimize").n_labels == scores.score.notna().sum()


def test_stops(whole: Path, tmp_path: Path) -> None:
    free = SETTINGS.partition("[fit]")
    begun = begin(tmp_path / "a", f"{free[0]}molecules = 13\nestimate = false\n[fit]{free[2]}")
    report = daskrf.campaign(begun)
    assert [each.n_asked for each in report.history.rounds] == [10, 3]
    assert report.stopped == "13 molecules have been scored"
    assert report.history.rounds[1].estimate is None
    more = daskrf.campaign(begun, molecules=14, patience=9)
    assert [each.n_asked for each in more.history.rounds] == [10, 3, 1]
    (note,) = (note for note in more.notes if note.startswith("changed"))
    assert note == "changed since the run before: molecules (13, now 14); patience (none, now 9)"


def test_what_the_rounds_depend_on_cannot_change(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = str(whole / "c.toml")
    assert run(["campaign", settings, "--direction", "maximize", "--first", "20", "--workers", "0"]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert "holds a campaign with another first (10, now 20); direction (minimize, now maximize)" in error
    (whole / "d.toml").write_text(SETTINGS.replace("quick = true", "noise_variance = 0.2"))
    with pytest.raises(InputError, match=r"\[fit\] quick \(true, now none\); \[fit\] noise_variance"):
        daskrf.campaign(whole / "d.toml", output=whole / "c")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("lib.smi", "absent.smi"), r"absent\.smi does not exist"),
        (('library = "lib.smi"', ""), "names no library; give library"),
        (('direction = "minimize"', ""), "does not say which scores are good; give direction"),
        (('function = "mine:score"', ""), "has no scorer"),
        (("first = 10", "first = 10\nmolecules = 5"), "may score 5 molecules, but its first batch has 10"),
        (("first = 10", "first = 100"), "but of 90 only .* can be chosen; ask for fewer by first"),
        (("weight < 500", "wight < 500"), "wight"),
        (
            ("mine:score", "yours:score"),
            "No module named 'yours'.*correct it, and run the same command again",
        ),
    ],
)
def test_wrong_settings_are_one_sentence(change: tuple[str, str], sentence: str, tmp_path: Path) -> None:
    settings = begin(tmp_path / "a", SETTINGS.replace(*change))
    with pytest.raises(InputError, match=sentence):
        daskrf.campaign(settings)
    assert not (settings.parent / "asked.txt").exists()


def test_paths_are_those_of_where_the_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The scorer runs beside the settings, and the output is where the user is."""
    settings = begin(tmp_path / "settings", SETTINGS.replace("rounds = 3", "rounds = 1"))
    monkeypatch.chdir(tmp_path)
    report = daskrf.campaign(settings.relative_to(tmp_path), output="docked")
    assert (tmp_path / "docked" / "scores-1.csv").exists()
    assert len(asked(tmp_path / "settings")) == report.history.n_asked == 10


def test_errors_of_commands_name_the_fields_of_the_file(whole: Path, tmp_path: Path) -> None:
    settings = begin(tmp_path / "a", SETTINGS.replace("n = 6", "n = 6\nbudget = 1.5\nprice = 'Price'"))
    (settings.parent / "lib.csv").write_text(
        "smiles,id,Price\n" + "".join(f"{text},m{i},{i + 2}\n" for i, text in enumerate(SMILES))
    )
    with pytest.raises(
        InputError, match=r"the cheapest in the library costs 2; raise budget in \[suggest\] of .*c\.toml"
    ):
        daskrf.campaign(settings, library=settings.parent / "lib.csv")
    (settings.parent / "c.toml").write_text(
        SETTINGS.replace("n = 6", "n = 6\nbudget = 1500.0\nprice = 'Price'")
    )
    assert daskrf.campaign(settings, library=settings.parent / "lib.csv").stopped == "3 rounds done"


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    settings = begin(tmp_path / "a")
    with pytest.raises(InputError, match=r"holds other files .*mine\.py.* and no campaign"):
        daskrf.campaign(settings, output=tmp_path / "a")


def test_killed_while_scoring_only_calls_in_flight_are_repeated(tmp_path: Path) -> None:
    """The program that scores ends with the campaign, too."""
    settings = begin(tmp_path / "a", SETTINGS.replace("rounds = 3", "rounds = 1\nestimate = false"))
    folder, command = (
        settings.parent,
        [sys.executable, "-m", "daskrf", "campaign", str(settings), "--workers", "0"],
    )
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    first = folder / "c" / "scoring-1" / "call-0001"
    while not first.exists():
        assert process.poll() is None
        time.sleep(0.002)
    (folder / "hang").touch()
    while process.poll() is None and not (folder / "hanging").exists():
        time.sleep(0.02)
    if process.poll() is None:  # else it was faster
        process.send_signal(signal.SIGKILL)
        process.wait()
        scorer = int((folder / "hanging").read_text())
        while Path(f"/proc/{scorer}").exists() and _state(scorer) != "Z":
            time.sleep(0.02)
    (folder / "hang").unlink()
    assert subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0
    names = asked(folder)
    assert len(set(names)) == 10
    assert len(names) <= 15
    assert names.count(names[0]) == 1
    assert not list((folder / "c" / "scoring-1").glob("*unfinished*"))


def _state(pid: int) -> str:
    """Return the state of a process, Z after its end."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def test_workers_score_side_by_side(client: Any, tmp_path: Path) -> None:
    settings = begin(tmp_path / "a", SETTINGS.replace("rounds = 3", "rounds = 2\nestimate = false"))
    report = daskrf.campaign(settings, client=client)
    assert [each.n_asked for each in report.history.rounds] == [10, 6]
    assert len(set(asked(settings.parent))) == len(asked(settings.parent)) == 16
    assert os.path.exists(settings.parent / "c" / "rounds.png")
