"""Labels that cannot be right: what fit, evaluate and add say of them, and what they do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskrf import TanimotoMinMaxFeatures, add, evaluate, fit, verify
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError, OptionError
from daskrf.models.models import read_model
from daskrf.storage import keptrounds
from daskrf.storage.model import load_model

SMILES = ReactionLibrary().smiles(0, 90)
FIXED: dict[str, Any] = {"feature_map": TanimotoMinMaxFeatures(64), "signal_variance": 1.0}


def table(path: Path, values: list[Any], first: int = 0, name: str = "score") -> Path:
    pairs = zip(SMILES[first:], values, strict=False)
    path.write_text(f"smiles,{name}\n" + "".join(f"{smiles},{value}\n" for smiles, value in pairs))
    return path


@pytest.fixture
def scores() -> list[Any]:
    return [float(f"{v:.1f}") for v in np.random.default_rng(0).normal(-7.5, 0.8, 60)]


def test_failures_are_refused_before_anything_begins(scores: list[Any], tmp_path: Path) -> None:
    labels = table(tmp_path / "labels.csv", [*scores, 999, 999])
    for command in (fit, evaluate):
        with pytest.raises(InputError, match=r"2 of 62 labels of 'score' are exactly 999.*--drop-value 999"):
            command(labels, output=tmp_path / "made.csv", **FIXED)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["labels.csv"]
    report = evaluate(labels, accept_outliers=True, folds=2, **FIXED)
    assert "2 of 62 labels of 'score' are exactly 999" in str(report)
    report = evaluate(labels, drop_value=999, folds=2, **FIXED)
    assert "2 to be dropped (such as '999')" in str(report)
    assert "are exactly" not in str(report)


def test_a_model_remembers_what_was_dropped(scores: list[Any], tmp_path: Path) -> None:
    labels = table(tmp_path / "labels.csv", [*scores, 0, 0, 0, 999])
    report = fit(
        labels, output=tmp_path / "model", drop_value=[0, 999], drop_outside="-15:", **FIXED
    )  # fmt: skip
    assert "values left out: 4 to be dropped (such as '0')" in str(report)
    assert read_model(tmp_path / "model").metadata["limits"] == [
        {"low": -15.0, "high": None, "values": [0.0, 999.0], "plain": []}
    ]
    new = table(tmp_path / "new.csv", [0, -8, 999, -7, -44], 70)
    added = add(tmp_path / "model", new)
    assert (added.n_added, added.dropped) == (2, 3)
    assert load_model(tmp_path / "model").arrays["labels"][-2:, 0].tolist() == [-8.0, -7.0]


def test_mild_suspicions_are_notes(scores: list[Any], tmp_path: Path) -> None:
    labels = table(tmp_path / "labels.csv", [*scores, 0, 0, 0])
    report = fit(labels, output=tmp_path / "model", **FIXED)
    (line,) = [line for line in str(report).splitlines() if "are exactly 0" in line]
    assert "3 of 63 labels of 'score'" in line
    assert "--drop-value 0 leaves them out" in line


def test_new_labels_are_judged_by_the_old_ones(scores: list[Any], tmp_path: Path) -> None:
    fit(table(tmp_path / "labels.csv", scores), output=tmp_path / "model", **FIXED)
    before = load_model(tmp_path / "model").metadata
    new = table(tmp_path / "new.csv", [-8.0, 999], 70)
    with pytest.raises(InputError, match="1 of 2 labels of 'score' are exactly 999"):
        add(tmp_path / "model", new)
    assert load_model(tmp_path / "model").metadata == before
    assert add(tmp_path / "model", new, drop_value=999).n_added == 1


PROCESSES: dict[str, dict[str, Any]] = {
    "exact": {"quick": True},
    "features": FIXED,
    "targets with gaps": {**FIXED, "target": ["a", "b"], "drop_non_numbers": True},
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def two(path: Path, values: list[Any], first: int = 0) -> Path:
    rows = [f"{SMILES[first + k]},{v},{'' if k % 3 else v / 2 - 1}" for k, v in enumerate(values)]
    path.write_text("smiles,a,b\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("kind", PROCESSES)
def test_rounds_are_taken_back_to_the_byte(kind: str, scores: list[Any], tmp_path: Path) -> None:
    make = two if kind == "targets with gaps" else table
    model = tmp_path / "model"
    fit(make(tmp_path / "labels.csv", scores), output=model, **PROCESSES[kind])
    states = [contents(model)]
    gaps: Any = {"drop_non_numbers": kind == "targets with gaps"}
    for number, first in enumerate((60, 70, 80)):
        new = make(tmp_path / "new.csv", [-7.9, -8.4 + number / 5, -7.1], first)
        told = add(model, new, dry_run=True, **gaps)
        assert f"3 labels would be added, {63 + 3 * number} in all" in str(told)
        assert contents(model) == states[-1]
        report = add(model, new, **gaps)
        assert (report.agreement, report.rounds) == (told.agreement, told.rounds)
        states.append(contents(model))
    add(model, make(tmp_path / "more.csv", [-7.2], 85), output=tmp_path / "other", **gaps)
    assert contents(model) == states[3]

    for asked in ({"undo": True}, {"to_round": 3}):
        told = add(model, dry_run=True, **asked)
        assert "3 labels would be taken back, 66 left" in str(told)
        assert "nothing was changed" in str(told)
        assert contents(model) == states[3]
    for beside in ({"key": "smiles"}, {"library": tmp_path}, {"confirm_direction": True}):
        with pytest.raises(OptionError, match="take only a model"):
            add(model, undo=True, **beside)
    with pytest.raises(OptionError, match="Options for labels need labels"):
        add(model, direction="minimize", drop_value=0.0)
    assert contents(model) == states[3]
    report = add(model, undo=True)
    assert "3 labels taken back, 66 left" in str(report)
    assert "as it was after round 3" in str(report)
    assert contents(model) == states[2]
    assert add(model, to_round=3).n_undone == 0
    assert contents(model) == states[2]
    assert add(model, make(tmp_path / "new.csv", [-7.9, -8.0, -7.1], 80), **gaps).added
    for _ in range(2):
        add(model, to_round=1)
        assert contents(model) == states[0]
    with pytest.raises(InputError, match="only the labels of its fit"):
        add(model, undo=True)
    with pytest.raises(OptionError, match="rounds 1 to 1"):
        add(model, to_round=2)

    other = tmp_path / "other"
    assert (add(other, undo=True).n_labels, contents(other)) == (69, states[3])
    add(other, to_round=1)
    assert contents(other) == states[0]


def test_rounds_that_are_kept_are_verified(scores: list[Any], tmp_path: Path) -> None:
    """One byte of an array of the first round, of which only that round's record tells."""
    model = tmp_path / "model"
    fit(table(tmp_path / "labels.csv", scores), output=model, **FIXED)
    first = set(contents(model))
    add(model, table(tmp_path / "new.csv", [-7.9, -7.1], 60))
    assert verify(model).sound
    name = next(name for name in sorted(first) if name.startswith("arrays-"))
    data = bytearray((model / name).read_bytes())
    data[-1] ^= 1
    (model / name).write_bytes(data)
    (problem,) = verify(model).damaged[0]
    assert problem.startswith(name)
    assert problem.endswith("(of round 1)")
    assert not verify(model).sound


def test_a_round_is_taken_back_once_though_the_run_is_stopped(
    scores: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model"
    fit(table(tmp_path / "labels.csv", scores), output=model, **FIXED)
    states = [contents(model)]
    for first in (60, 70, 80):
        add(model, table(tmp_path / "new.csv", [-7.9, -7.1], first))
        states.append(contents(model))
    for stopped in ("tidy_rounds", "atomic_write"):  # after the model was restored, and before
        with monkeypatch.context() as patched:
            patched.setattr(keptrounds, stopped, _stop)
            with pytest.raises(KeyboardInterrupt):
                add(model, undo=True)
        report = add(model, undo=True)
        assert contents(model) == states[2]
        assert (report.n_undone == 2) is (stopped == "atomic_write")
        assert ("had taken back a round" in str(report)) is (stopped == "tidy_rounds")
        add(model, table(tmp_path / "new.csv", [-7.9, -7.1], 80))
    with monkeypatch.context() as patched:  # or new labels follow
        patched.setattr(keptrounds, "tidy_rounds", _stop)
        with pytest.raises(KeyboardInterrupt):
            add(model, to_round=1)
    add(model, table(tmp_path / "new.csv", [-7.9, -7.1], 60))
    assert add(model, undo=True).n_undone == 2
    assert len(load_model(model).arrays["labels"]) == 60


def _stop(*arguments: Any) -> None:
    raise KeyboardInterrupt


def test_a_direction_stays_when_a_round_is_taken_back(scores: list[Any], tmp_path: Path) -> None:
    model = tmp_path / "model"
    fit(table(tmp_path / "labels.csv", scores), output=model, **FIXED)
    add(model, table(tmp_path / "new.csv", [-8.0, -7.0], 70), direction="minimize")
    add(model, undo=True)
    assert read_model(model).directions == {"score": "minimize"}
    assert len(load_model(model).arrays["labels"]) == 60


def test_what_the_model_finds_impossible_is_not_added(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    model = tmp_path / "model"
    values = [round(float(v), 2) for v in rng.normal(3.5, 1.0, 60)]
    fit(table(tmp_path / "labels.csv", values, name="logP"), output=model, **FIXED)
    before = contents(model)
    new = table(tmp_path / "new.csv", [3.4, 354, 3.1, 2.9], 60, name="logP")
    for value in ("354", "19.5"):
        new.write_text(new.read_text().replace(",354", f",{value}"))
        with pytest.raises(InputError, match="--accept-outliers"):
            add(model, new)
        assert contents(model) == before
    told = add(model, new, dry_run=True)
    assert "1 of 4 labels of 'logP' are impossible according to the model" in str(told)
    assert "; they are refused without --accept-outliers" in str(told)
    assert contents(model) == before
    assert "1 of 4 labels of 'logP' are impossible according to the model" in str(
        add(model, new, accept_outliers=True)
    )


@pytest.mark.parametrize("before", [None, "minimize"])
def test_a_dry_run_shows_the_direction_that_would_be_set(
    before: Any, scores: list[Any], tmp_path: Path
) -> None:
    model = tmp_path / "model"
    fit(table(tmp_path / "labels.csv", scores, name="reading"), output=model, direction=before, **FIXED)
    states = contents(model)
    new = table(tmp_path / "new.csv", [-7.9, -8.4], 70, name="reading")
    told = add(model, new, direction="maximize", dry_run=True)
    assert contents(model) == states
    report = add(model, new, direction="maximize")
    assert (told.rounds, told.warnings) == (report.rounds, report.warnings)
    assert str(told).splitlines()[1:] == str(report).splitlines()[1:]
    assert "best so far" in str(told)
