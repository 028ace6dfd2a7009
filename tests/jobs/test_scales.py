"""Models of logarithms and of values with a unit: what fit, status, predict and screen say of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskrf import TanimotoMinMaxFeatures, add, fit, predict, screen, status
from daskrf.errors import InputError
from daskrf.jobs.models import read_model
from daskrf.molecules.enumeration import ReactionLibrary
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
