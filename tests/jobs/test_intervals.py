"""Intervals of `predict`: stored by `fit` and `add`, and those of the processes themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t as student

import daskrf
from daskrf import TanimotoMinMax, TanimotoMinMaxFeatures
from daskrf.commands.fit import FitReport
from daskrf.commands.predict import PredictReport
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError, OptionError, StoreError
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.separate import process_of
from daskrf.gp.validation.errordistribution import error_distribution
from daskrf.gp.validation.intervals import interval_factor, residuals_of_rows, studentized_residuals
from daskrf.models.intervals import RESIDUALS
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.sources.mapreference import rebuild
from daskrf.storage.model import load_model, save_model

VARIANCES: dict[str, Any] = {"signal_variance": 1.0, "noise_variance": 0.1}
SMILES = list(ReactionLibrary().smiles(0, 100))


def labels(n: int = 60) -> pd.DataFrame:
    """Two targets, one of them with gaps and few labels, and a molecule that was measured twice."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"smiles": SMILES[:n], "a": rng.standard_normal(n), "b": rng.standard_normal(n)})
    table.loc[12:, "b"] = np.nan
    return pd.concat([table, table[:1].assign(a=0.5)])


def fitted(path: Path, table: pd.DataFrame) -> FitReport:
    report = daskrf.fit(table, output=path, target=["a", "b"], kernel=TanimotoMinMax(), drop_non_numbers=True)
    assert isinstance(report, FitReport)
    return report


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("intervals")
    labels().to_csv(folder / "labels.csv", index=False)
    fitted(folder / "model", folder / "labels.csv")
    return folder / "model"


def without_residuals(model: Path, path: Path) -> Path:
    """Copy a model as an older version would have written it."""
    saved = load_model(model)
    save_model(path, {k: v for k, v in saved.arrays.items() if k != RESIDUALS}, saved.metadata)
    return path


def test_columns_are_mean_and_standard_deviations(model: Path, tmp_path: Path) -> None:
    daskrf.predict(model, SMILES, tmp_path / "p.csv", intervals=[80, 50])
    table, gp = pd.read_csv(tmp_path / "p.csv"), daskrf.load(model).gp
    for t, name in enumerate("ab"):
        residuals = studentized_residuals(process_of(gp, t)[0])
        for level in (50, 80):
            half = interval_factor(residuals, level) * table[f"std_y_{name}"]
            np.testing.assert_allclose(table[f"low_{level}_{name}"], table[f"mean_{name}"] - half)
            np.testing.assert_allclose(table[f"high_{level}_{name}"], table[f"mean_{name}"] + half)
    daskrf.predict(model, SMILES, tmp_path / "plain.csv")
    plain = pd.read_csv(tmp_path / "plain.csv")
    pd.testing.assert_frame_equal(plain, table[plain.columns])
    mean, std, ends = daskrf.load(model).predict(SMILES[:3], True, intervals=[80, 50])
    assert mean.shape == std.shape == ends[50.0][0].shape
    np.testing.assert_allclose(ends[80.0][1], table[["high_80_a", "high_80_b"]].to_numpy()[:3])


def test_every_row_and_folders_have_them_too(model: Path, tmp_path: Path) -> None:
    report = daskrf.predict(model, ["CCO", "bad(", SMILES[0]], intervals=50)
    assert isinstance(report, PredictReport)
    frame = report.to_pandas()
    assert frame["low_50_a"].isna().tolist() == [False, True, False]
    assert "low and high are the ends of intervals" in str(report)
    daskrf.predict(model, SMILES, tmp_path / "folder", intervals=[50])
    there = pd.read_parquet(tmp_path / "folder")
    assert (there["low_50_a"] < there["high_50_a"]).all()


def test_an_external_set_is_judged_by_what_predict_writes(model: Path) -> None:
    test = labels(100)[60:100].drop(columns="b")
    report = daskrf.evaluate(model, test)
    ends = daskrf.load(model).predict(test["smiles"], intervals=[50, 80, 95])[1]
    y = test["a"].to_numpy()
    for level, (low, high) in ends.items():
        figure = report.targets[0].figures["daskrf"][f"interval_{level:g}"]
        assert figure.value == pytest.approx(((low[:, 0] <= y) & (y <= high[:, 0])).mean())


def test_folds_are_judged_by_what_each_learns_from(tmp_path: Path) -> None:
    table = labels()[:60][["smiles", "a"]]
    report = daskrf.evaluate(table, kernel=TanimotoMinMax(), folds=3)
    found = report.to_pandas()
    daskrf.fit(table, output=tmp_path / "m", kernel=TanimotoMinMax())
    gp, y = daskrf.load(tmp_path / "m").gp, table["a"].to_numpy()
    np.testing.assert_array_equal(gp.y_train_, y)
    factor = np.empty(60)
    for fold in (1, 2, 3):
        training = found["fold"].to_numpy() != fold
        fitted_to = ExactGP(TanimotoMinMax()).fit(gp.X_train_[training], y[training])
        factor[~training] = interval_factor(studentized_residuals(fitted_to), 80)
    contained = np.abs(y - found["mean"]) <= factor * found["std_y"]
    assert report.targets[0].figures["daskrf"]["interval_80"].value == pytest.approx(contained.mean())


@pytest.fixture(scope="module")
def heavy() -> pd.DataFrame:
    """Labels whose errors have heavier tails than a normal distribution."""
    smiles = list(ReactionLibrary().smiles(0, 300))
    return pd.DataFrame({"smiles": smiles, "a": np.random.default_rng(5).standard_t(2.5, len(smiles))})


def test_heavier_tails_are_judged_by_what_predict_says(heavy: pd.DataFrame, tmp_path: Path) -> None:
    training, test = heavy[:220], heavy[220:]
    daskrf.fit(training, output=tmp_path / "m", kernel=TanimotoMinMax())
    report = daskrf.evaluate(tmp_path / "m", test)
    errors = error_distribution(studentized_residuals(daskrf.load(tmp_path / "m").gp))
    assert not errors.is_normal
    predicted = daskrf.predict(tmp_path / "m", test["smiles"].tolist(), intervals=50)
    assert isinstance(predicted, PredictReport)
    assert f"a measurement is {errors.words()}" in str(predicted)
    frame, y = predicted.to_pandas(), test["a"].to_numpy()
    density = student(errors.degrees_of_freedom, frame["mean"], errors.scale * frame["std_y"]).logpdf(y)
    figures = report.targets[0].figures["daskrf"]
    assert figures["log_probability_t"].value == pytest.approx(density.mean())
    assert figures["log_probability_t"].value > figures["log_probability"].value
    assert "heavier tails than a normal distribution" in str(report)


def test_heavier_tails_are_those_of_each_fold(heavy: pd.DataFrame) -> None:
    report = daskrf.evaluate(heavy, kernel=TanimotoMinMax(), folds=2)
    found, X = report.to_pandas(), Fingerprinter(FingerprintSpec())(heavy["smiles"].tolist()).fingerprints
    y, density = heavy["a"].to_numpy(), np.empty(len(heavy))
    for fold in (1, 2):
        training = found["fold"].to_numpy() != fold
        gp = ExactGP(TanimotoMinMax()).fit(X[training], y[training])
        errors, test = error_distribution(studentized_residuals(gp)), found[~training]
        density[~training] = errors.log_density(y[~training], test["mean"], test["std_y"])
    figure = report.targets[0].figures["daskrf"]["log_probability_t"]
    assert figure.value == pytest.approx(density.mean())


def test_normal_errors_have_no_other_figure() -> None:
    report = daskrf.evaluate(labels()[:60][["smiles", "a"]], kernel=TanimotoMinMax(), folds=3)
    assert np.isnan(report.targets[0].figures["daskrf"]["log_probability_t"].value)
    assert "heavier tails" not in str(report)


def test_few_labels_leave_an_interval_empty(model: Path, tmp_path: Path) -> None:
    report = daskrf.predict(model, SMILES[:2], tmp_path / "p.csv", intervals=[90, 95])
    assert isinstance(report, PredictReport)
    table = pd.read_csv(tmp_path / "p.csv")
    assert table["low_95_b"].isna().all()
    assert table["low_95_a"].notna().all()
    note = "12 labelled molecules of 'b' do not determine intervals above 92.3 %, so that of 95 % is empty"
    assert note in report.notes
    with pytest.raises(InputError, match=r"60 labelled molecules determine no interval above 98\.3 %"):
        daskrf.predict(model, SMILES[:2], tmp_path / "q.csv", intervals=99)
    daskrf.predict(model, SMILES[:2], tmp_path / "q.csv", intervals=98)  # the corrected command


def test_added_labels_count(model: Path, tmp_path: Path) -> None:
    more = labels(70)[60:70]
    daskrf.add(model, more[["smiles", "a"]], output=tmp_path / "more")
    gp = daskrf.load(tmp_path / "more").gp
    (stored,) = load_model(tmp_path / "more", [RESIDUALS]).arrays.values()
    assert np.isfinite(stored).sum(axis=1).tolist() == [70, 12]
    np.testing.assert_allclose(stored[0], studentized_residuals(process_of(gp, 0)[0]))


def test_models_of_older_versions_get_them_by_a_fit(model: Path, tmp_path: Path) -> None:
    file = model.parent / "labels.csv"
    fitted(tmp_path / "new", file)
    without_residuals(tmp_path / "new", old := tmp_path / "new")
    with pytest.raises(InputError, match="fit it again"):
        daskrf.predict(old, SMILES[:2], intervals=[50])
    before = daskrf.predict(old, SMILES[:2])
    assert isinstance(before, PredictReport)
    assert fitted(old, file).was_there
    after = daskrf.predict(old, SMILES[:2], intervals=[50])
    assert isinstance(after, PredictReport)
    assert after.table is not None
    assert before.table is not None
    assert after.table.select(before.table.column_names).equals(before.table)


def test_what_cannot_be_is_one_sentence(model: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="leave --no-std out"):
        daskrf.predict(model, SMILES[:2], std=False, intervals=[50])
    many = TanimotoMinMaxFeatures(8200)
    daskrf.fit(labels(20)[["smiles", "a"]], output=tmp_path / "m", feature_map=many, **VARIANCES)
    with pytest.raises(InputError, match="it has more than 8,192 features; leave --intervals out"):
        daskrf.predict(tmp_path / "m", SMILES[:2], intervals=[50])


def test_features_leave_out_molecules_by_their_leverage(tmp_path: Path) -> None:
    """Of two targets with gaps, and a molecule that is measured twice; then with more labels."""
    table, path = labels().reset_index(drop=True), tmp_path / "m"
    table.loc[:39, "b"] = np.arange(40) % 7
    options: dict[str, Any] = {"drop_non_numbers": True, "feature_map": TanimotoMinMaxFeatures(256)}
    daskrf.fit(table, output=path, target=["a", "b"], **options, **VARIANCES)
    for n in (60, 70):
        model = daskrf.load(path)
        block = Fingerprinter(FingerprintSpec.from_state(model.metadata["fingerprint"]))(
            table["smiles"].tolist()
        )
        (stored,) = load_model(path, [RESIDUALS]).arrays.values()
        for t, name in enumerate("ab"):
            process, place = process_of(model.gp, t)
            process.feature_map_ = rebuild(model.metadata["map"])
            there = table[name].notna().to_numpy()
            residuals = residuals_of_rows(process, block.fingerprints[there], table[name][there], place)
            np.testing.assert_allclose(stored[t][: len(residuals)], residuals, rtol=1e-9)
            assert np.isfinite(stored[t]).sum() == len(residuals) == (n if name == "a" else 40 + n - 60)
        daskrf.predict(path, SMILES[:5], tmp_path / f"p{n}.csv", intervals=[80])
        more = labels(70)[60:70].assign(b=1.0)
        daskrf.add(path, more)
        table = pd.concat([table, more])
    one, options = table[["smiles", "a"]], {"feature_map": TanimotoMinMaxFeatures(256), **VARIANCES}
    report = daskrf.evaluate(one, folds=3, **options)
    assert np.isfinite(report.targets[0].figures["daskrf"]["interval_80"].value)


def test_other_levels_are_another_output(model: Path, tmp_path: Path) -> None:
    daskrf.predict(model, SMILES[:5], tmp_path / "p.csv", intervals=[50])
    report = daskrf.predict(model, SMILES[:5], tmp_path / "p.csv", intervals=[50])
    assert "already holds exactly these predictions" in str(report)
    with pytest.raises(StoreError, match="intervals"):
        daskrf.predict(model, SMILES[:5], tmp_path / "p.csv", intervals=[80])


def test_hits_and_batches_have_the_intervals_of_predict(model: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"target": "a", "maximize": True, "intervals": [50, 80]}
    ends = ["low_50", "high_50", "low_80", "high_80"]
    hits = daskrf.screen(model, SMILES, tmp_path / "h.csv", k=5, **options)
    batch = daskrf.suggest(model, SMILES, n=5, **options)
    for table in (hits.table.to_pandas(), batch.table.to_pandas()):
        place = list(table).index("std_y")
        assert list(table)[place + 1 : place + 5] == ends
        predicted = daskrf.predict(model, list(table["smiles"]), intervals=[50, 80]).table.to_pandas()
        wanted = predicted[[f"{end}_a" for end in ends]].to_numpy()
        np.testing.assert_allclose(table[ends].to_numpy(), wanted, rtol=1e-6)
    assert daskrf.screen(model, SMILES, tmp_path / "h.csv", k=5, **options).table.equals(hits.table)
    with pytest.raises(StoreError, match="intervals"):
        daskrf.screen(model, SMILES, tmp_path / "h.csv", k=5, **options | {"intervals": 50})
    with pytest.raises(OptionError, match="not of a sum or of several"):
        daskrf.suggest(model, SMILES, n=5, **options | {"target": {"a": 1.0, "b": 1.0}})
    with pytest.raises(OptionError, match="leave --std none out"):
        daskrf.screen(model, SMILES, k=5, **options, std="none")


def test_predictions_of_an_evaluation_have_intervals(tmp_path: Path) -> None:
    table = labels()[["smiles", "a"]]
    report = daskrf.evaluate(table, folds=3, kernel=TanimotoMinMax(), intervals=80)
    rows = report.table.to_pandas()
    inside = (rows["low_80"] <= rows["a"]) & (rows["a"] <= rows["high_80"])
    assert inside.mean() == pytest.approx(report.targets[0].figures["daskrf"]["interval_80"].value)
    np.testing.assert_allclose((rows["low_80"] + rows["high_80"]) / 2, rows["mean"], rtol=1e-9)
