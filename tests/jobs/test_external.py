"""`evaluate` of a model: predictions are those of the model as it is, and figures those of NumPy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from scipy.sparse import csr_matrix
from scipy.stats import norm, spearmanr

from daskrf import evaluate, fingerprint, fit, predict, status
from daskrf.cli.app import run
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score
from daskrf.errors import InputError, OptionError
from daskrf.features import TanimotoMinMaxFeatures
from daskrf.models.models import read_model
from daskrf.molecules import Fingerprinter, FingerprintSpec

N, SEEN = 110, 60
SMILES = list(ReactionLibrary().smiles(0, N))
FRAME = pd.DataFrame({"id": [f"m{k}" for k in range(N)], "smiles": SMILES, "y": score(SMILES)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("external")


def _fitted(path: Path, table: pd.DataFrame, **options: Any) -> Path:
    fit(table, output=path, target=["y", "z"] if "z" in table else "y", **options)
    return path


@pytest.fixture(scope="module")
def exact(folder: Path) -> Path:
    return _fitted(folder / "exact.model", FRAME[:SEEN], direction="minimize", quick=True)


@pytest.fixture(scope="module")
def features(folder: Path) -> Path:
    """A model on features of two targets, the second with gaps."""
    table = FRAME[:SEEN].assign(z=FRAME.smiles.str.len().where(FRAME.index % 3 > 0))
    feature_map = TanimotoMinMaxFeatures(n_components=256)
    return _fitted(
        folder / "features.model", table, process="features", feature_map=feature_map, drop_non_numbers=True
    )


def _figures(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> dict[str, float]:
    """The figures of merit, by their definitions."""
    errors = y - mean
    within = {
        level: float((np.abs(errors) <= norm.ppf(0.5 + level / 200) * std).mean()) for level in (50, 80, 95)
    }
    return {
        "rmse": float(np.sqrt((errors**2).mean())),
        "mae": float(np.abs(errors).mean()),
        "r2": float(1 - (errors**2).sum() / ((y - y.mean()) ** 2).sum()),
        "spearman": float(spearmanr(y, mean).statistic),
        "log_probability": float(norm.logpdf(y, mean, std).mean()),
        **{f"coverage_{level}": share for level, share in within.items()},
    }


def _check(report: Any, number: int, y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> None:
    target = report.targets[number]
    assert target.n_predicted == len(y)
    for name, value in _figures(y, mean, std).items():
        assert target.figures["daskrf"][name].value == pytest.approx(value, rel=1e-9), name


def test_figures_are_those_of_predict(exact: Path, folder: Path) -> None:
    """Molecules of the fit are left out, however they are written; files and DataFrames agree."""
    test = FRAME[SEEN - 12 :].copy()
    test.iloc[3, 1] = _other_smiles(test.iloc[3, 1])
    test.to_csv(folder / "test.csv", index=False)
    out = folder / "out.csv"
    report = evaluate(exact, folder / "test.csv", output=out, picture=folder / "out.png")
    table = predict(exact, FRAME[SEEN:]).to_pandas()
    y = FRAME.y[SEEN:].to_numpy()
    _check(report, 0, y, table["mean"].to_numpy(), table.std_y.to_numpy())
    written = pd.read_csv(out)
    assert written.id.tolist() == FRAME.id[SEEN:].tolist()
    assert written.row.tolist() == list(range(12, len(test)))
    np.testing.assert_allclose(written["mean"], table["mean"], rtol=1e-9)
    np.testing.assert_allclose(written.y, y)
    assert (folder / "out.png").stat().st_size > 0
    assert "model: exact.model" in str(status(out))
    target = report.targets[0]
    assert target.n_trained == 12
    assert target.direction == "minimize"
    assert "the model was fitted to their molecules: 12" in str(report)
    assert target.figures["mean"]["rmse"].value == pytest.approx(
        np.sqrt(((y - FRAME.y[:SEEN].mean()) ** 2).mean())
    )
    frame = evaluate(exact, test).to_pandas()
    assert frame.reason.notna().tolist() == [True] * 12 + [False] * (len(test) - 12)
    assert set(frame.reason[:12]) == {"the model was fitted to labels of this molecule"}
    np.testing.assert_array_equal(frame["mean"][12:], written["mean"])


def _other_smiles(smiles: str) -> str:
    text = Chem.MolToSmiles(Chem.MolFromSmiles(smiles), rootedAtAtom=3, canonical=False)
    assert text != smiles
    return str(text)


def test_the_nearest_neighbour_is_one_of_the_fit(exact: Path) -> None:
    spec = FingerprintSpec.from_state(read_model(exact).metadata["fingerprint"])
    counts = Fingerprinter(spec, "keep")(SMILES).fingerprints
    columns, place = np.unique(counts.indices, return_inverse=True)
    X = csr_matrix((counts.data, place, counts.indptr), shape=(N, len(columns))).toarray().astype(float)
    frame = evaluate(exact, FRAME[SEEN:]).to_pandas()
    similarity = np.array(
        [[np.minimum(a, b).sum() / np.maximum(a, b).sum() for b in X[:SEEN]] for a in X[SEEN:]]
    )
    np.testing.assert_allclose(frame.similarity, similarity.max(axis=1))
    best = FRAME.y[:SEEN].to_numpy()[similarity.argmax(axis=1)]
    unique = (similarity > similarity.max(axis=1)[:, None] - 1e-9).sum(axis=1) == 1
    np.testing.assert_allclose(frame.nearest[unique], best[unique])


def test_targets_with_gaps_on_features(features: Path) -> None:
    """A molecule whose other target was measured is new to this one; rejects and gaps are left out."""
    test = FRAME[SEEN - 6 :].assign(z=FRAME.smiles.str.len().where(FRAME.index % 2 > 0).astype(float))
    test.iloc[-1, 1] = "bad("
    report = evaluate(features, test, drop_non_numbers=True)
    table = predict(features, FRAME[SEEN - 6 :]).to_pandas()
    new = np.arange(len(test)) < len(test) - 1
    first = new & (np.arange(len(test)) >= 6)
    _check(report, 0, test.y[first].to_numpy(), table.mean_y[first], table.std_y_y[first])
    trained = (np.arange(len(test)) < 6) & (test.index.to_numpy() % 3 > 0)
    second = new & ~trained & test.z.notna().to_numpy()
    assert second[:6].any()
    _check(report, 1, test.z[second].to_numpy(), table.mean_z[second], table.std_y_z[second])
    assert [target.n_trained for target in report.targets] == [6, int((trained & test.z.notna()).sum())]


def test_ids_of_a_library(folder: Path) -> None:
    """IDs are looked up in the library of the model."""
    store = folder / "library"
    fingerprint(FRAME[["id", "smiles"]], store)
    model = folder / "of-library.model"
    labels = FRAME[["id", "y"]]
    labels[:SEEN].to_csv(folder / "labels.csv", index=False)
    fit(store, folder / "labels.csv", output=model, quick=True)
    labels[SEEN - 3 :].to_csv(folder / "ids.csv", index=False)
    report = evaluate(model, folder / "ids.csv")
    table = predict(model, FRAME[SEEN:]).to_pandas()
    _check(report, 0, FRAME.y[SEEN:].to_numpy(), table["mean"].to_numpy(), table.std_y.to_numpy())
    assert report.to_pandas().id.tolist() == FRAME.id[SEEN:].tolist()
    assert report.to_pandas().row.tolist() == list(range(SEEN, N))


def test_other_columns_and_transforms_are_those_of_the_fit(folder: Path) -> None:
    """Labels are transformed as the labels of the fit were, and a column may have another name."""
    nanomolar = FRAME.assign(IC50=10 ** (-FRAME.y / 2))[["smiles", "IC50"]]
    model = folder / "pic50.model"
    fit(nanomolar[:SEEN], output=model, quick=True, transform="pIC50", unit="nM")
    other = nanomolar[SEEN:].rename(columns={"IC50": "measured"})
    report = evaluate(model, other, target="measured", unit="nM")
    table = predict(model, nanomolar[["smiles"]][SEEN:]).to_pandas()
    y = 9 + FRAME.y[SEEN:].to_numpy() / 2
    _check(report, 0, y, table["mean"].to_numpy(), table.std_y.to_numpy())
    with pytest.raises(InputError, match="name it with --target"):
        evaluate(model, other)


def test_classes(folder: Path) -> None:
    """Labels of 0 and 1 are judged by their ranking and probabilities."""
    active = FRAME.assign(y=(FRAME.y < FRAME.y.median()).astype(float))
    model = _fitted(folder / "classes.model", active[:SEEN], quick=True)
    report = evaluate(model, active[SEEN:])
    target = report.targets[0]
    assert target.reliability is not None
    table, y = predict(model, active[SEEN:]).to_pandas(), active.y[SEEN:].to_numpy()
    order = spearmanr(y, table["mean"]).statistic
    assert (target.figures["daskrf"]["auc"].value > 0.5) == (order > 0)
    probability = report.to_pandas().probability
    assert probability.between(0, 1).all()
    assert target.figures["daskrf"]["brier"].value == pytest.approx(((probability - y) ** 2).mean())


@pytest.mark.parametrize(
    "options",
    [{"folds": 5}, {"split": "random"}, {"learning_curve": True}, {"baseline": "forest"}, {"quick": True}],
)
def test_options_of_fits_are_refused(exact: Path, options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(OptionError, match=f"predicts as it is: leave out --{name.replace('_', '-')}"):
        evaluate(exact, FRAME[SEEN:], **options)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda model: evaluate(model), "give the labels to judge it by"),
        (lambda model: evaluate(model, FRAME[:SEEN]), "was fitted to all 60 labelled molecules"),
        (lambda model: evaluate(FRAME, library=model), "--library .* is for a model"),
    ],
)
def test_refusals(exact: Path, call: Callable[[Path], Any], message: str) -> None:
    with pytest.raises((InputError, OptionError), match=message):
        call(exact)


def test_labels_of_another_unit_are_noted(exact: Path) -> None:
    report = evaluate(exact, FRAME[SEEN:].assign(y=1000 * FRAME.y), accept_outliers=True)
    assert "cannot be values of the quantity that the model predicts" in str(report)


def test_the_command(exact: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    FRAME[SEEN - 1 : SEEN + 8].to_csv(folder / "few.csv", index=False)
    assert run(["evaluate", str(exact), str(folder / "few.csv"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["model"] == str(exact)
    (target,) = report["targets"]
    assert (target["n_predicted"], target["n_trained"]) == (8, 1)
    assert target["verdict"] == "Is it good? Cannot tell from only 8 labels."


@pytest.mark.parametrize("repeats", ["all", "mean"])
def test_repeats_and_rows_in_order(exact: Path, repeats: Any) -> None:
    """Several labels of a molecule each count, or are merged; each row of the table keeps its place."""
    test = FRAME[SEEN : SEEN + 24]
    test = pd.concat([test[:4], test[1:3].assign(y=test.y[1:3] + 1), test[4:]])
    test.iloc[0, 1] = "bad("
    report = evaluate(exact, test, repeats=repeats)
    frame = report.to_pandas()
    assert report.n_molecules == 23
    assert report.targets[0].n_predicted == {"all": 25, "mean": 23}[repeats]
    assert frame.reason.notna().tolist() == [True] + [False] * 25
    y = test.y.to_numpy().copy()
    if repeats == "mean":
        y[[1, 2, 4, 5]] = (y[[1, 2, 1, 2]] + y[[4, 5, 4, 5]]) / 2
    np.testing.assert_allclose(frame.y[1:], y[1:])
    assert frame["mean"][1] == frame["mean"][4]
