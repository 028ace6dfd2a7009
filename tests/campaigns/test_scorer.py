"""Scorers that work, fail, hang, or return other molecules: each is one sentence, and nothing is lost."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daskrf.campaigns.calls import Molecule, Scored, molecules_of, score_batch
from daskrf.campaigns.scorer import Scorer
from daskrf.errors import InputError, OptionError
from daskrf.workers.progress import Progress

MOLECULES = [Molecule(f"m{k}", "C" * (k + 1) + "O") for k in range(6)]
# A scorer: the score of a molecule is minus its length, and what else it does is in BODY.
PROGRAM = """
import pathlib, sys, time
rows = [line.split() for line in pathlib.Path(sys.argv[1]).read_text().splitlines()]
with open("asked.txt", "a") as file:
    file.write("".join(name + " " for _, name in rows))
out = pathlib.Path(sys.argv[2])
def write(rows, header="id,score"):
    out.write_text(header + chr(10) + "".join(f"{a},{b}" + chr(10) for a, b in rows))
scores = [(name, -float(len(text))) for text, name in rows]
"""


@pytest.fixture
def scored(tmp_path: Path) -> Callable[..., Scored]:
    def score(body: str, *, per_call: int | None = 2, timeout: float | None = None, **options: Any) -> Scored:
        (tmp_path / "scorer.py").write_text(PROGRAM + body)
        command = f"{sys.executable} -S scorer.py {{smiles}} {{scores}}"
        settings = {"target": None, "maximize": False, "client": None, "progress": Progress()} | options
        return score_batch(
            tmp_path / "scoring-1",
            MOLECULES,
            Scorer.of(command, None, str(tmp_path), timeout),
            per_call=per_call,
            **settings,
        )

    return score


EXACT = {each.name: -float(len(each.smiles)) for each in MOLECULES}


def test_scores_are_joined_by_name_or_by_structure(scored: Callable[..., Scored], tmp_path: Path) -> None:
    assert scored("write(reversed(scores))").scores == EXACT
    assert (tmp_path / "asked.txt").read_text().split() == [each.name for each in MOLECULES]
    assert scored("raise SystemExit(1)").scores == EXACT  # nobody is scored again
    for path in (tmp_path / "scoring-1").iterdir():
        path.rename(tmp_path / f"by-name-{path.name}")
    by_structure = "write([('O' + text[:-1], y) for (text, _), (_, y) in zip(rows, scores)], 'smiles,energy')"
    assert scored(by_structure, per_call=None).scores == EXACT


def test_what_lacks_or_is_too_much_is_counted(scored: Callable[..., Scored]) -> None:
    result = scored("write(scores[:1])")
    assert sorted(result.scores) == ["m0", "m2", "m4"]
    assert result.failures == dict.fromkeys(["m1", "m3", "m5"], "no score in the file that the scorer wrote")
    assert any(
        note.startswith("3 molecules of 6 failed, never to be suggested again") for note in result.notes
    )


@pytest.mark.parametrize(("value", "per_call"), [("inf", 1), ("inf", None), ("failed", None)])
def test_scores_that_are_no_numbers_are_named(
    value: str, per_call: int | None, scored: Callable[..., Scored]
) -> None:
    body = f"write([(n, {value!r} if n in ('m1', 'm3') else y) for n, y in scores])"
    result = scored(body, per_call=per_call)
    assert sorted(result.scores) == ["m0", "m2", "m4", "m5"]
    kind = {"inf": "empty, NaN or infinite", "failed": "not a number"}[value]
    n = "1 cell" if per_call == 1 else "2 cells"
    lacks = f"no number as a score in the file that the scorer wrote ({n} {kind}, such as '{value}')"
    assert result.failures == dict.fromkeys(["m1", "m3"], lacks)


def test_several_scores_and_other_molecules_are_said(scored: Callable[..., Scored]) -> None:
    poses = "write([*scores, (rows[0][1], 3), (rows[0][1], -99), ('other', 1)])"
    result = scored(poses, per_call=3, maximize=True)
    assert result.scores == EXACT | {"m0": 3, "m3": 3}
    assert "2 molecules have several scores, such as of poses; the best one counts" in result.notes
    assert "2 scores are of other molecules than those of the call, and were left out" in result.notes


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "print('receptor.pdbqt is not there'); raise SystemExit(4)",
            r"it ended with exit code 4 \(receptor.pdbqt is",
        ),
        ("raise ValueError('no map')", r"ended with exit code 1 \(ValueError: no map\)"),
        ("import os; os.kill(os.getpid(), 11)", "ended with exit code 139 without a word"),
        ("time.sleep(60)", "it did not end within 0.4 seconds"),
        ("pass", "it wrote no scores"),
        ("out.write_text('Segmentation fault')", "it wrote what cannot be used"),
        ("write([('x', 1), ('y', 2)])", "none of the 2 scores that it wrote is of one of the molecules"),
        ("write([(name, 'nan') for _, name in rows])", "has no labels left"),
        ("write([(name, 'nan', 1) for _, name in rows][:0], 'id,score')", "it wrote what cannot be used"),
    ],
)
def test_a_scorer_without_a_score_stops_the_campaign_and_loses_nothing(
    body: str, reason: str, scored: Callable[..., Scored], tmp_path: Path
) -> None:
    timeout = 0.4 if "sleep" in body else None
    with pytest.raises(InputError, match="gave no score to any of") as raised:
        scored(body, per_call=6, timeout=timeout)
    message = str(raised.value)
    assert re.search(reason, message), message
    printed = next(iter((tmp_path / "scoring-1").glob("*/output.txt")))
    assert f"What it printed is in {printed}" in message
    assert scored("write(scores)").scores == EXACT


def test_calls_that_fail_beside_others_are_final(scored: Callable[..., Scored], tmp_path: Path) -> None:
    result = scored("if rows[0][1] == 'm2': raise SystemExit('it crashed')\nwrite(scores)")
    assert sorted(result.failures) == ["m2", "m3"]
    assert result.failures["m2"] == "ended with exit code 1 (it crashed)"
    assert scored("write(scores)").failures == result.failures
    assert len((tmp_path / "asked.txt").read_text().split()) == 6


def test_poses_of_files_that_end_too_early_are_counted(scored: Callable[..., Scored]) -> None:
    docked = """
out.mkdir()
for name, score in scores:
    pose = "MODEL {}\\nREMARK VINA RESULT: {:.3f} 0.000 0.000\\nROOT\\nATOM 1\\nENDROOT\\n"
    text = pose.format(1, score) + "ENDMDL\\n" + pose.format(2, score + 1)
    out.joinpath(name + "_out.pdbqt").write_text(text + "ENDMDL\\n" * (name != "m4"))
"""
    result = scored(docked)
    assert result.scores == EXACT
    assert "left out: 1 row of what the scorer wrote, which cannot be read" in result.notes


def test_a_scorer_that_is_killed_is_called_once_more(scored: Callable[..., Scored], tmp_path: Path) -> None:
    kill = "import os\nif rows[0][1] == 'm2' and {}: os.kill(os.getpid(), 9)\nwrite(scores)"
    assert scored(kill.format("open('asked.txt').read().count('m2') == 1")).scores == EXACT
    assert (tmp_path / "asked.txt").read_text().split().count("m2") == 2
    assert sorted(path.name for path in (tmp_path / "scoring-1").iterdir()) == [
        "call-0001",
        "call-0002",
        "call-0003",
    ]
    (tmp_path / "scoring-1").rename(tmp_path / "earlier")
    result = scored(kill.format("True"))
    assert result.failures == dict.fromkeys(["m2", "m3"], "ended with exit code 137 without a word")


def test_a_scorer_that_always_fails_is_not_called_on_and_on(
    scored: Callable[..., Scored], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="any of 5 molecules in 5 calls"):
        scored("raise SystemExit('no licence')", per_call=1)
    assert len((tmp_path / "asked.txt").read_text().split()) == 5


def test_a_program_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    scorer = Scorer.of("no-such-program {smiles} {scores}", None, str(tmp_path))
    with pytest.raises(InputError, match="no-such-program: No such file or directory"):
        score_batch(
            *(tmp_path / "s", MOLECULES, scorer),
            **{"per_call": None, "target": None, "maximize": False, "client": None, "progress": Progress()},
        )


@pytest.mark.parametrize(
    ("module", "scores", "reason"),
    [
        ("def f(smiles): return [-len(s) for s in smiles]", EXACT, ""),
        (
            "def f(smiles): return {s: -len(s) for s in smiles[1:]}",
            {k: v for k, v in EXACT.items() if k != "m0"},
            "",
        ),
        ("def f(smiles): return [1]", {}, "it returned 1 scores of 6 molecules"),
        (
            "def f(smiles): return {s + 'C': -1 for s in smiles}",
            {},
            "none of the 6 scores that it wrote is of one of the molecules",
        ),
        ("def f(smiles): return 'abcdef'", {}, "it returned no list of numbers"),
        ("def g(smiles): return []", {}, "mine:f cannot be called: module 'mine' has no attribute 'f'"),
        ("import absent", {}, "mine:f cannot be called: No module named 'absent'"),
        ("def f(smiles): raise OSError('no receptor')", {}, "OSError: no receptor"),
    ],
)
def test_functions(module: str, scores: dict[str, float], reason: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(module)
    scorer = Scorer.of(None, "mine:f", str(tmp_path))

    def score() -> Scored:
        return score_batch(
            *(tmp_path / "s", MOLECULES, scorer),
            **{"per_call": None, "target": None, "maximize": False, "client": None, "progress": Progress()},
        )

    if scores:
        assert score().scores == scores
        return
    with pytest.raises(InputError) as raised:
        score()
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((None, None), "has no scorer; give either command"),
        (("a {smiles} {scores}", "a:b"), "has two scorers"),
        (("dock {smiles}", None), r"lacks \{scores\}"),
        (("dock {smile} {scores}", None), r"placeholder \{smile\}, which does not exist"),
        (("dock '{smiles} {scores}", None), "cannot be read: No closing quotation"),
        ((None, "dock.py"), "must be like module:function"),
        (("a {smiles} {scores}", None, ".", 0.0), "must be more than 0 seconds"),
    ],
)
def test_options_that_cannot_be_are_refused(options: tuple[Any, ...], sentence: str) -> None:
    command, function, folder, timeout = (*options, ".", None)[:4] if len(options) == 2 else options
    with pytest.raises(OptionError, match=sentence):
        Scorer.of(command, function, folder, timeout)


def test_names_are_those_of_the_library_where_programs_can_read_them() -> None:
    names = [each.name for each in molecules_of(["C"] * 6, ["Z1", "a b", "Z1", "é", "", "molecule-2"])]
    assert names == ["Z1", "molecule-2", "molecule-3", "molecule-4", "molecule-5", "molecule-6"]


def test_a_later_batch_may_fail_as_a_whole(scored: Callable[..., Scored], tmp_path: Path) -> None:
    """If its calls ended as they should, or the user accepts it."""
    result = scored("write([])", first=False)
    assert (result.scores, len(result.failures)) == ({}, 6)
    for path in (tmp_path / "scoring-1").iterdir():
        path.rename(tmp_path / f"empty-{path.name}")
    with pytest.raises(InputError, match=r"or go on without these molecules with --accept-failures"):
        scored("raise SystemExit('crash')", first=False)
    result = scored("raise SystemExit('crash')", first=False, accept_failures=True)
    assert set(result.failures.values()) == {"ended with exit code 1 (crash)"}
