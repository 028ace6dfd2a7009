"""Several targets of an exact process in one: `fit` says whether, and every command uses what it took."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen

import daskrf
from daskrf import CoregionalizedGP, add, evaluate, explain, fit, predict, screen, suggest
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError, OptionError
from daskrf.gp import SeparateGP
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import SummedProcess, WeightedSum
from daskrf.models.models import read_model
from daskrf.molecules import Fingerprinter, FingerprintSpec

TARGETS: dict[str, Any] = {"target": ["logP", "twice"], "drop_non_numbers": True, "quick": True}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """90 molecules with a target, another that is nearly twice as large, and one of noise; with gaps."""
    rng = np.random.default_rng(0)
    smiles = list(dict.fromkeys(map(Chem.CanonSmiles, ReactionLibrary().smiles(0, 130))))[:90]
    logp = np.array([Crippen.MolLogP(Chem.MolFromSmiles(text)) for text in smiles])
    frame = pd.DataFrame({"smiles": smiles, "logP": logp + 0.1 * rng.standard_normal(90)})
    frame["twice"] = 2 * logp + 0.1 * rng.standard_normal(90)
    frame["noise"] = rng.standard_normal(90)
    frame.loc[:19, "logP"] = np.nan
    frame.loc[30:69, "twice"] = np.nan
    return frame


@pytest.fixture(scope="module")
def model(table: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("together") / "model"
    directions = {"logP": "maximize", "twice": "minimize"}
    report = fit(table[:80], output=path, direction=directions, **TARGETS)
    words = str(report)
    assert "Targets are modelled together: correlations 0.9" in words
    assert "of 'logP' and 'twice'; log evidence of all" in words
    return path


def expected(table: pd.DataFrame) -> tuple[CoregionalizedGP, Any]:
    """Return the process of the labels of a table in Python, and the fingerprints of its molecules."""
    X = Fingerprinter(FingerprintSpec())(table.smiles.tolist()).fingerprints
    return CoregionalizedGP().fit(X, table[["logP", "twice"]].to_numpy()), X


def test_predictions_intervals_and_sums_are_those_of_the_process(
    table: pd.DataFrame, model: Path, tmp_path: Path
) -> None:
    gp, _ = expected(table[:80])
    X = Fingerprinter(FingerprintSpec())(table.smiles.tolist()).fingerprints
    mean, std = gp.predict(X, return_std=True)
    loaded = daskrf.load(model)
    for ours, theirs in zip(loaded.predict(table.smiles.tolist(), return_std=True), (mean, std), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    predict(model, table[["smiles"]], tmp_path / "p.csv", intervals=[80])
    rows = pd.read_csv(tmp_path / "p.csv")
    np.testing.assert_allclose(rows.mean_twice, mean[:, 1], rtol=1e-5, atol=1e-5)
    assert (rows.low_80_twice < rows.mean_twice).all()
    formula = "logP - 0.5 twice"
    screen(model, table[["smiles"]], tmp_path / "hits.csv", k=5, target=formula, maximize=True, std="all")
    screen(model, table[["smiles"]], tmp_path / "hits.html", k=5, target="twice", maximize=True)
    assert "Each label of 'twice', predicted without the labels of its molecule" in (
        (tmp_path / "hits.html").read_text().replace("&#x27;", "'").replace("&#39;", "'")
    )
    hits, total = pd.read_csv(tmp_path / "hits.csv"), gp.of_sum((0, 1), (1.0, -0.5))
    summed, std_sum = total.predict(X, return_std=True, of="f")
    assert hits.row.tolist() == np.argsort(-summed, kind="stable")[:5].tolist()
    np.testing.assert_allclose(hits["std"], std_sum[hits.row], rtol=1e-4)
    # By far less than that of independent targets.
    assert (std_sum < 0.7 * np.hypot(std[:, 0], 0.5 * std[:, 1])).all()


def test_several_targets_are_improved_by_joint_samples(
    table: pd.DataFrame, model: Path, tmp_path: Path
) -> None:
    gp = read_model(model).gp
    process = SummedProcess(tuple(process_of(gp, t) for t in (0, 1)), (1.0, 1.0))
    drawn = process.drawn(process.weights_of_draws(40, 3), 3)
    X = Fingerprinter(FingerprintSpec())(table.smiles[80:84].tolist()).fingerprints
    first, second = (function.predict(X) for function in drawn.functions)
    assert (
        np.corrcoef((first - first.mean(1)[:, None]).ravel(), (second - second.mean(1)[:, None]).ravel())[
            0, 1
        ]
        > 0.8
    )
    combined = process_of(gp, WeightedSum((0, 1), (1.0, 1.0)))[0]
    np.testing.assert_allclose(
        combined.drawn(combined.weights_of_draws(40, 3), 3).predict(X), first + second, rtol=1e-3, atol=1e-3
    )
    report = suggest(model, table[["smiles"]], tmp_path / "batch.csv", n=3, target=["logP", "twice"])
    assert len(pd.read_csv(tmp_path / "batch.csv")) == 3, report


def test_added_labels_of_one_target_say_something_of_the_other(
    table: pd.DataFrame, model: Path, tmp_path: Path
) -> None:
    path = tmp_path / "grown"
    new = table[80:].assign(twice=np.nan)
    add(model, new[["smiles", "logP"]], output=path, drop_non_numbers=True)
    gp, X = expected(pd.concat([table[:80], new]))
    np.testing.assert_allclose(read_model(path).gp.predict(X), gp.predict(X), rtol=1e-4, atol=1e-4)
    with pytest.raises(InputError, match="holds limits, and targets that are modelled together"):
        add(path, pd.DataFrame({"smiles": ["CCO", "CCN"], "logP": ["> 3", "1"]}), accept_outliers=True)


def test_a_model_is_judged_by_molecules_without_any_label(table: pd.DataFrame, model: Path) -> None:
    report = evaluate(model, table, drop_non_numbers=True)
    assert [each.n_predicted for each in report.targets] == [10, 10]
    assert "molecules with a label of any of them are left out" in str(report)
    reasons = explain(model, table.smiles[85], target="twice")
    assert "the targets are modelled together" in reasons.notes[0]
    assert np.isfinite(reasons.mean)
    both: dict[str, Any] = {**TARGETS, "folds": 2}
    assert "each target is judged by a process of its own labels" in str(evaluate(table, **both))


def test_the_evidence_or_the_user_decides(table: pd.DataFrame, tmp_path: Path) -> None:
    path, options = tmp_path / "model", {**TARGETS, "target": ["logP", "noise"]}
    words = str(fit(table, output=path, **options))
    assert "Targets are modelled separately: log evidence of all 160 labels" in words
    assert isinstance(read_model(path).gp, SeparateGP)
    # From the fingerprints that the model holds, and back.
    report = fit(table, output=path, together=True, **options)
    assert "already holds" not in str(report)
    gp = read_model(path).gp
    assert isinstance(gp, CoregionalizedGP)
    assert np.array_equal(gp.target_of_label_, np.nonzero(table[["logP", "noise"]].notna().to_numpy())[1])
    assert fit(table, output=path, together=True, **options).was_there
    report = fit(table, output=path, together=False, **options)
    assert "Targets are modelled separately, as requested." in str(report)
    assert isinstance(read_model(path).gp, SeparateGP)


def test_what_cannot_be_together_says_why(table: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "model"
    limits = table.assign(twice=[f"> {y}" if i % 9 == 0 else y for i, y in enumerate(table.twice)])
    classes = table.assign(twice=(table.twice > table.twice.median()).astype(int))
    for labels, reason in ((limits, "some labels are limits"), (classes, "twice is two classes")):
        report = fit(labels, output=path, **TARGETS)
        assert f"Targets are modelled separately, since {reason}." in str(report)
        with pytest.raises(InputError, match=f"cannot be modelled together, since {reason}"):
            fit(labels, output=tmp_path / "other", together=True, **TARGETS)
        path = tmp_path / "second"
    with pytest.raises(OptionError, match="for several targets, and there is one"):
        fit(table, output=tmp_path / "one", together=True, **{**TARGETS, "target": "logP"})
    features = {**TARGETS, "quick": False, "process": "features"}
    with pytest.raises(OptionError, match="goes with an exact process"):
        fit(table, output=tmp_path / "features", together=True, **features)
