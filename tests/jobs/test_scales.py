"""Models of logarithms and of values with a unit: what fit, status, predict and screen say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskrf import TanimotoMinMaxFeatures, add, fit, predict, screen, status
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.models.models import read_model
from daskrf.storage.model import load_model

GIVEN: dict[str, Any] = {
    "feature_map": TanimotoMinMaxFeatures(64),
    "mean": 6.0,
    "signal_variance": 1.0,
    "noise_variance": 0.1,
}


def labels(folder: Path, name: str, values: list[str]) -> Path:
    smiles = ReactionLibrary().smiles(0, len(values))
    rows = (
        f"{molecule},m{k},{value}\n" for k, (molecule, value) in enumerate(zip(smiles, values, strict=True))
    )
    (folder / "labels.csv").write_text(f"smiles,id,{name}\n{''.join(rows)}")
    return folder / "labels.csv"


def test_a_model_knows_its_scale(tmp_path: Path) -> None:
    concentrations = 10.0 ** np.random.default_rng(0).uniform(0, 5, 40)
    values = [*map(repr, concentrations.tolist()), ">10000", "inactive", "n.d."]
    path, model = labels(tmp_path, "IC50 (nM)", values), tmp_path / "model"
    report = fit(
        path, output=model, transform="pIC50", censored="value", drop_non_numbers=True,
        direction="maximize", **GIVEN,
    )  # fmt: skip
    said = "pIC50 = 9 - log10 of 'IC50 (nM)' in nM (by its name)"
    assert said in report.inputs[0]
    assert "values left out: 2 not a number (such as 'inactive'); 1 censored, and taken" in str(report)
    assert sorted(report.labels.y.ravel()) == sorted([*(9 - np.log10(concentrations)), 5.0])
    told = str(status(model))
    assert "targets: pIC50 (maximize)" in told
    assert said in told
    assert "2 not a number, 1 censored, and taken as if they were measured" in told
    predicted = predict(model, path, tmp_path / "predictions")
    assert f"43 predictions of pIC50 in {tmp_path / 'predictions'}" in str(predicted)
    assert said in str(predicted)
    assert said in str(screen(model, path, tmp_path / "hits.parquet", k=3))


def test_a_unit_may_be_named_later(tmp_path: Path) -> None:
    path, model = labels(tmp_path, "dG", [f"{-k / 4}" for k in range(30)]), tmp_path / "model"
    fit(path, output=model, **GIVEN)
    before = read_model(model)
    fit(path, output=model, unit={"dG": "kcal/mol"}, **GIVEN)
    after = read_model(model)
    assert (before.scales_of(["dG"]), after.scales_of(["dG"])) == ((), ("'dG' in kcal/mol",))
    assert after.metadata["spec_hash"] == before.metadata["spec_hash"]


def test_a_wrong_unit_is_told(tmp_path: Path) -> None:
    path = labels(tmp_path, "IC50", [repr(10.0 ** (k / 10)) for k in range(40)])
    wrong = fit(path, output=tmp_path / "wrong", transform="pIC50", unit="M", **GIVEN)
    assert "pIC50: the median is -1.9, which is 8.9e+10 nM and unusual; check the unit (M)" in str(wrong)
    right = fit(path, output=tmp_path / "right", transform="pIC50", unit="nM", **GIVEN)
    assert "unusual" not in str(right)


def test_added_labels_may_have_a_unit_of_their_own(tmp_path: Path) -> None:
    path, model = labels(tmp_path, "IC50 (nM)", [repr(10.0 + 5 * k) for k in range(40)]), tmp_path / "model"
    fit(path, output=model, transform="pIC50", **GIVEN)
    new = tmp_path / "new.csv"
    smiles = ReactionLibrary().smiles(40, 42)
    new.write_text(f"smiles,IC50\n{smiles[0]},1\n{smiles[1]},0.1\n")
    with pytest.raises(InputError, match=r"the unit of 'IC50' is not known.*--unit nM"):
        add(model, new, target="IC50")
    add(model, new, target="IC50", unit="uM")
    assert load_model(model).arrays["labels"][-2:, 0].tolist() == [6.0, 7.0]


def added(folder: Path, header: str, rows: list[str]) -> Path:
    smiles = ReactionLibrary().smiles(40, 40 + len(rows))
    text = "".join(f"{molecule},{row}\n" for molecule, row in zip(smiles, rows, strict=True))
    (folder / "new.csv").write_text(f"smiles,{header}\n{text}")
    return folder / "new.csv"


@pytest.mark.parametrize(
    ("fitted", "header", "row", "options", "message"),
    [
        ("IC50", "IC50,units", "0.57,uM", {}, "'IC50' is in uM, and the unit of the model's 'IC50' is not"),
        ("IC50", "IC50", "0.57 uM", {}, "'IC50' is in uM, and the unit of the model's 'IC50' is not known"),
        ("IC50", "IC50 (uM)", "0.57", {"target": "IC50 (uM)"}, "'IC50 .uM.' is in uM, and the unit of the"),
        ("IC50", "IC50", "0.57", {"unit": "uM"}, "'IC50' is in uM, .*; fit the model again with --unit"),
        ("IC50 (nM)", "IC50", "57", {"target": "IC50"}, "the unit of 'IC50' is not known, .*; .*--unit nM"),
        ("IC50 (nM)", "IC50", "57", {"target": "IC50", "unit": "%"}, "'IC50' is in %, and .* nM; convert"),
        ("IC50 (nM)", "IC50 (nM),units", "5,%", {}, "line 2: 'IC50 .nM.' holds '5 %', .*; convert"),
        ("dG (kcal/mol)", "dG (kcal/mol),units", "7,kJ/mol", {}, "'dG .*' is in kJ/mol, and .* is not known"),
    ],
)  # fmt: skip
def test_labels_that_are_not_said_to_be_in_the_unit_of_the_model_are_refused(
    fitted: str, header: str, row: str, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path, model = labels(tmp_path, fitted, [repr(10.0 + 5 * k) for k in range(40)]), tmp_path / "model"
    fit(path, output=model, **GIVEN)
    with pytest.raises(InputError, match=f"new.csv[:,] {message}"):
        add(model, added(tmp_path, header, [row, row]), **options)


@pytest.mark.parametrize("transform", ["none", "log10"])
@pytest.mark.parametrize(
    ("header", "row", "options"),
    [
        ("IC50 (nM)", "57", {}),
        ("IC50 (nM),units", "0.057,uM", {}),
        ("IC50 (nM)", "0.057 uM", {}),
        ("IC50 (uM)", "0.057", {"target": "IC50 (uM)"}),
        ("IC50", "0.057", {"target": "IC50", "unit": "uM"}),
        ("IC50 (nM)", "0.057", {"unit": "uM"}),
    ],
)
def test_labels_are_converted_to_the_unit_of_the_model(
    transform: str, header: str, row: str, options: dict[str, Any], tmp_path: Path
) -> None:
    path = labels(tmp_path, "IC50 (nM)", [repr(10.0 + 5 * k) for k in range(40)])
    model = tmp_path / "model"
    fit(path, output=model, transform=transform, **GIVEN)
    report = add(model, added(tmp_path, header, [row, row]), **options)
    expected = 57.0 if transform == "none" else 1.7558748556724915
    assert load_model(model).arrays["labels"][-2:, 0].tolist() == pytest.approx([expected] * 2)
    assert "in nM" in report.inputs[0]


def test_cells_without_a_unit_are_not_taken_for_those_of_a_model_of_cells_with_one(tmp_path: Path) -> None:
    path, model = labels(tmp_path, "IC50", [f"{10 + 5 * k} nM" for k in range(40)]), tmp_path / "model"
    fit(path, output=model, **GIVEN)
    with pytest.raises(InputError, match=r"the unit of 'IC50' is not known.*--unit nM"):
        add(model, added(tmp_path, "IC50", ["57"]))
    add(model, added(tmp_path, "IC50", ["57"]), unit="nM")
    add(model, added(tmp_path, "IC50", ["0.058 uM"]))
    assert load_model(model).arrays["labels"][-2:, 0].tolist() == pytest.approx([57.0, 58.0])
