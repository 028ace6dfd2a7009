"""Whether large or small values are good is said at the fit or at the screen, and printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from daskrf import add, fingerprint, fit, predict, screen, status
from daskrf.errors import InputError, OptionError, StoreError
from daskrf.models.directions import direction_of, directions_of
from daskrf.models.models import read_model
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.workers.progress import Progress
from tests.jobs.job import FEATURES


class Notes(Progress):
    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture(scope="module")
def store(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("directions") / "fp"
    fingerprint(inputs[0], path, rows_per_partition=150)
    return path


@pytest.fixture(scope="module")
def two(inputs: tuple[Path, Path], store: Path) -> Path:
    """A model of two targets, one of which has a direction."""
    labels = store.parent / "two.csv"
    lines = [line.split(",") for line in inputs[1].read_text().splitlines()[1:]]
    labels.write_text("id,dock,pIC50\n" + "".join(f"{name},{y},{-float(y)}\n" for name, y in lines))
    fit(
        store,
        labels,
        store.parent / "two",
        feature_map=FEATURES,
        target=["dock", "pIC50"],
        direction={"pIC50": "maximize"},
    )
    return store.parent / "two"


@pytest.mark.parametrize("end", ["", "imize", "imise", "imum", "imal", "IMIZING"])
def test_words_for_directions(end: str, two: Path) -> None:
    for start, direction in (("max", "maximize"), (" Min", "minimize")):
        assert direction_of(start + end) == direction
        assert directions_of({"b": start + end}, ["a", "b"]) == {"b": direction}


def test_other_words_are_no_directions(two: Path, tmp_path: Path) -> None:
    for wrong in ("maximus", "", "low", True, 1, "mini mize"):
        with pytest.raises(InputError, match=r"A direction is maximize or minimize, not .*[.?]$"):
            direction_of(wrong)
    with pytest.raises(InputError, match="did you mean minimize"):
        direction_of("minimze")
    with pytest.raises(InputError, match="maximize must be of the type bool, such as True"):
        screen(two, two.parent / "fp", tmp_path / "h.csv", target="dock", maximize="minimize")  # type: ignore[arg-type]


def test_a_direction_is_never_guessed(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES)
    with pytest.raises(
        InputError, match="not known whether large or small values of 'score' are good"
    ) as error:
        screen(tmp_path / "model", store, tmp_path / "hits.parquet")
    assert "maximize=True or maximize=False" in str(error.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "model.log"]
    up = screen(tmp_path / "model", store, tmp_path / "up.parquet", k=5, maximize=True)
    down = screen(tmp_path / "model", store, tmp_path / "down.parquet", k=5, maximize=False)
    assert up.table["mean"][0].as_py() > down.table["mean"][0].as_py()
    assert (up.direction, down.direction) == ("maximize", "minimize")


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_model_knows_its_direction(
    direction: str, inputs: tuple[Path, Path], store: Path, tmp_path: Path
) -> None:
    report = fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES, direction=direction)
    assert f"score (to {direction}): mean" in str(report)
    assert f"score ({direction})" in str(status(tmp_path / "model"))
    known = screen(tmp_path / "model", store, tmp_path / "known.parquet", k=9, acquisition="ei")
    assert f"by ei, {direction[:-1]}ing 'score', in" in str(known)
    labels = read_model(tmp_path / "model").metadata["range"][0]
    search = json.loads(pq.read_schema(known.hits).metadata[b"daskrf.about"])
    assert search["acquisition"]["best"] == (max(labels) if direction == "maximize" else min(labels))
    assert search["acquisition"]["maximize"] == (direction == "maximize")

    told = screen(tmp_path / "model", store, tmp_path / "told.parquet", k=9, maximize=direction == "minimize")
    other = {"maximize": "minimizing", "minimize": "maximizing"}[direction]
    assert f"{other} 'score' as asked for here; the model was fitted with the direction {direction}" in str(
        told
    )
    assert told.table["mean"][0].as_py() != known.table["mean"][0].as_py()


def test_a_direction_is_changed_without_a_pass(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Any = (store, inputs[1], tmp_path / "model")
    fit(*run, feature_map=FEATURES)
    before = read_model(tmp_path / "model")
    monkeypatch.setattr("daskrf.jobs.tree.Tree.make", None)
    monkeypatch.setattr("daskrf.gp.processes.process.RandomFeatureGP.fit_statistics", None)
    for direction, known in (("maximize", "maximize"), (None, "maximize"), ("minimize", "minimize")):
        notes = Notes()
        report = fit(*run, feature_map=FEATURES, direction=direction, progress=notes)
        assert report.directions == (known,)
        found = read_model(tmp_path / "model")
        assert found.directions == {"score": known}
        assert found.metadata["spec_hash"] == before.metadata["spec_hash"]
        assert np.array_equal(found.gp.weights_, before.gp.weights_)
        assert any("directions" in text for text in notes.said) == (direction is not None)
    monkeypatch.undo()
    fit(*run, feature_map=FEATURES, noise_variance=1.0)  # other hyperparameters of the same sums
    assert read_model(tmp_path / "model").directions == {"score": "minimize"}


def test_kernels_that_were_compared_are_not_shown_again(store: Path, tmp_path: Path) -> None:
    """Where nothing but the direction is new."""
    rows = FingerprintStore.open(store).read_rows(0).to_pandas()[:60]
    labels = pd.DataFrame({"smiles": rows.smiles, "score": rows.smiles.str.len() / 10.0})
    run: Any = (store, labels, tmp_path / "model")
    assert "kernels tried" in str(fit(*run))
    assert "kernels tried" not in str(fit(*run, direction="minimize"))


def test_one_target_of_several_is_named(two: Path, store: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="several targets, 'dock', 'pIC50'; choose one by --target NAME"):
        screen(two, store, tmp_path / "hits.parquet", maximize=True)
    with pytest.raises(InputError, match="no target 'logD'; it has 'dock', 'pIC50'"):
        screen(two, store, tmp_path / "hits.parquet", target="logD", maximize=True)
    with pytest.raises(InputError, match="values of 'dock' are good"):
        screen(two, store, tmp_path / "hits.parquet", target="dock")
    assert not (tmp_path / "hits.parquet").exists()
    report = screen(two, store, tmp_path / "hits.parquet", k=5, target="pIC50")
    assert (report.target, report.direction) == ("pIC50", "maximize")
    by_dock = screen(two, store, tmp_path / "dock.parquet", k=5, target=0, maximize=False)
    assert by_dock.table["row"].to_pylist() == report.table["row"].to_pylist()  # one is minus the other
    assert "600 predictions of dock, pIC50 in" in str(predict(two, store, tmp_path / "p", std=False))


@pytest.mark.parametrize(
    ("direction", "message"),
    [
        ("up", "maximize or minimize, not 'up'"),
        ({"score": "maxi"}, "maximize or minimize, not 'maxi'; did you mean maximize"),
        ({"dock": "maximize"}, "no target 'dock' to give a direction; the targets are 'score'"),
    ],
)
def test_a_direction_that_is_none(
    direction: Any, message: str, inputs: tuple[Path, Path], store: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        fit(store, inputs[1], tmp_path / "model", feature_map=FEATURES, direction=direction)
    assert not (tmp_path / "model" / "_arrays.json").exists()


LABELS = {
    "classes": ([k % 2 for k in range(40)], "y: 2 classes, 1 (50 %)"),
    "signs": ([2 * (k % 3 == 0) - 1 for k in range(40)], "y: all 40 labels are -1 or 1;"),
    "concentrations": ([10.0 ** (k / 7) for k in range(40)], "y: labels span 5.6 decades, from 1 to 372759;"),
    "few": ([0, 2, 2], ""),
    "scores": ([-9.5 + k / 10 for k in range(40)], ""),
    "counts": ([k % 3 for k in range(40)], ""),
    "logarithms": ([5 + k / 10 for k in range(40)], ""),
    "with zero": ([0.0, *(10.0**k for k in range(6))], "y: labels span 5.0 decades, from 1 to 100000;"),
    "with a negative one": ([-1.0, *(10.0**k for k in range(6))], ""),
    "four decades": ([10.0 ** (k / 10) for k in range(41)], "y: labels span 4.0 decades"),
    "a tail": ([10.0 ** (k / 16) for k in range(41)], "y: labels span 2.5 decades"),
    "a decade": ([10.0 ** (k / 40) for k in range(41)], ""),
    "percentages": ([2.5 * k for k in range(41)], ""),
}


def test_concentrations_are_told_by_their_name(store: Path, tmp_path: Path) -> None:
    values = "".join(f"m{k},{10 + 4 * k}\n" for k in range(40))
    given: dict[str, Any] = {
        "feature_map": FEATURES,
        "mean": 0.0,
        "signal_variance": 1.0,
        "noise_variance": 1.0,
    }
    for name, told in {
        "IC50_nM": True,
        "Ki": True,
        "pIC50": False,
        "score": False,
        "dose (uM)": True,
    }.items():
        (tmp_path / "labels.csv").write_text(f"id,{name}\n{values}")
        report = fit(store, tmp_path / "labels.csv", tmp_path / name, **given)
        assert ("labels span 1.2 decades" in str(report)) == told, name
        if name == "IC50_nM":
            report = fit(store, tmp_path / "labels.csv", tmp_path / "p", transform="pIC50", **given)
            assert "decades" not in str(report)


@pytest.mark.parametrize("name", LABELS)
def test_labels_that_want_another_treatment_are_told(name: str, store: Path, tmp_path: Path) -> None:
    values, advice = LABELS[name]
    labels = tmp_path / "labels.csv"
    labels.write_text("id,y\n" + "".join(f"m{k},{y!r}\n" for k, y in enumerate(values)))
    report = fit(
        store, labels, tmp_path / "m", feature_map=FEATURES, mean=0.0, signal_variance=1.0, noise_variance=1.0
    )
    told = [line for line in str(report).splitlines() if "classes" in line or "decades" in line]
    assert len(told) == bool(advice)
    assert advice in str(report)
    if name == "concentrations":
        assert "fit their logarithm instead, for example with --transform pIC50 --unit nM" in told[0]


def potencies(folder: Path, name: str, values: list[float]) -> Path:
    path = folder / "labels.csv"
    path.write_text(f"id,{name}\n" + "".join(f"m{k},{value}\n" for k, value in enumerate(values)))
    return path


FIXED: dict[str, Any] = {
    "feature_map": FEATURES,
    "mean": 6.0,
    "signal_variance": 1.0,
    "noise_variance": 0.1,
}
WORST = {
    "pIC50": ({"transform": "pIC50", "unit": "nM"}, "IC50", "minimize", "large values mean potent"),
    "nM": ({}, "ic50_nM", "maximize", "small concentrations mean potent"),
    "inhibition": ({}, "% inhibition", "minimize", "strong inhibition"),
}


@pytest.mark.parametrize("kind", WORST)
def test_the_worst_are_chosen_only_if_confirmed(kind: str, store: Path, tmp_path: Path) -> None:
    options, name, direction, why = WORST[kind]
    labels = potencies(tmp_path, name, [10.0 + 7 * k for k in range(40)])
    right = {"maximize": "minimize", "minimize": "maximize"}[direction]
    given: dict[str, Any] = {**FIXED, **options}
    with pytest.raises(InputError, match=f"choose the worst molecules.*{why}.* {right}, or confirm"):
        fit(store, labels, tmp_path / "model", direction=direction, **given)
    fit(store, labels, tmp_path / "model", direction=right, **given)
    with pytest.raises(InputError, match="confirm this one with --confirm-direction"):
        fit(store, labels, tmp_path / "model", direction=direction, **given)
    assert list(read_model(tmp_path / "model").directions.values()) == [right]
    report = fit(store, labels, tmp_path / "model", direction=direction, confirm_direction=True, **given)
    assert f"to {direction} '{read_model(tmp_path / 'model').targets[0]}' was confirmed, though" in str(
        report
    )
    assert list(read_model(tmp_path / "model").directions.values()) == [direction]


def test_a_screen_for_the_worst_says_so(store: Path, tmp_path: Path) -> None:
    labels = potencies(tmp_path, "pIC50", [5 + k / 10 for k in range(40)])
    fit(store, labels, tmp_path / "model", **FIXED)
    report = screen(tmp_path / "model", store, tmp_path / "worst.parquet", k=3, maximize=False)
    assert "minimizing 'pIC50' as asked for, though large values mean potent molecules" in str(report)
    report = screen(tmp_path / "model", store, tmp_path / "best.parquet", k=3, maximize=True)
    assert "though" not in str(report)


def test_a_direction_can_be_set_at_any_time(store: Path, tmp_path: Path) -> None:
    first = potencies(tmp_path, "score", [-9.0 + k / 10 for k in range(40)])
    fit(store, first, tmp_path / "model", **FIXED)
    new = tmp_path / "new.csv"
    new.write_text("id,score\nm50,-9.5\nm51,-4\n")
    add(tmp_path / "model", new)
    assert [each["best"] for each in read_model(tmp_path / "model").metadata["rounds"]] == [[None], [None]]
    before = read_model(tmp_path / "model")

    report = add(tmp_path / "model", direction="minimize")
    assert "42 labels, as before" in str(report)
    assert "the direction of 'score' is minimize now" in str(report)
    found = read_model(tmp_path / "model")
    assert found.directions == {"score": "minimize"}
    assert [each["best"] for each in found.metadata["rounds"]] == [[-9.0], [-9.5]]
    assert np.array_equal(found.gp.weights_, before.gp.weights_)

    report = fit(store, first, tmp_path / "model", direction="maximize", **FIXED)  # the command of the fit
    assert "with 2 labels that were added since, which stay" in str(report)
    found = read_model(tmp_path / "model")
    assert (found.directions, found.metadata["labels"]["matched"]) == ({"score": "maximize"}, 42)
    assert [each["best"] for each in found.metadata["rounds"]] == [[-5.1], [-4.0]]
    with pytest.raises(StoreError):  # another fit
        fit(store, first, tmp_path / "model", **{**FIXED, "noise_variance": 0.2})

    more = tmp_path / "more.csv"
    more.write_text("id,score\nm60,-9.9\n")
    report = add(tmp_path / "model", more, direction="minimize")
    assert "best so far -9.9, before -9.5" in str(report)
    with pytest.raises(OptionError, match="Give the new labels, or only a direction"):
        add(tmp_path / "model")


def test_add_refuses_the_worst_direction(store: Path, tmp_path: Path) -> None:
    labels = potencies(tmp_path, "IC50", [10.0 + 7 * k for k in range(40)])
    fit(store, labels, tmp_path / "model", transform="pIC50", unit="nM", **FIXED)
    with pytest.raises(InputError, match="choose the worst molecules"):
        add(tmp_path / "model", direction="minimize")
    assert read_model(tmp_path / "model").directions == {}
    add(tmp_path / "model", direction="minimize", confirm_direction=True)
    assert read_model(tmp_path / "model").directions == {"pIC50": "minimize"}
