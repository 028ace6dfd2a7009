"""The estimate of what has been found is honest where the model is right, and the noise is noise."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen
from scipy import stats
from sklearn.base import clone

import daskrf
from daskrf import add, fingerprint, fit, found, predict
from daskrf.acquisition import acquisition_for
from daskrf.errors import InputError
from daskrf.features import FeatureMap, LandmarkFeatures, NystromFeatures
from daskrf.gp import ExactGP
from daskrf.kernels import TanimotoMinMax
from daskrf.models.models import read_model
from daskrf.screens.found import SampledValues
from daskrf.sources.sources import Block
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.rowstore import RowStore

K = 60


@pytest.fixture(scope="module")
def store(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("found") / "fp"
    fingerprint(inputs[0], path, rows_per_partition=200)
    return path


def rows_of(store: RowStore) -> pd.DataFrame:
    return pd.concat([store.read_rows(p).to_pandas() for p in range(store.n_partitions)])


@pytest.mark.parametrize("process", ["exact", "features"])
def test_estimates_are_honest(process: str, store: Path, tmp_path: Path) -> None:
    """Labels drawn from the prior of the model: random ones, and then the best means, as in a campaign."""
    rows, X = rows_of(FingerprintStore.open(store)), daskrf.open_library(store).fingerprints.compute()
    prior = ExactGP(TanimotoMinMax(), mean=0.0, signal_variance=1.0, noise_variance=0.1)
    options: dict[str, Any] = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.1}
    if process == "features":
        options["feature_map"] = daskrf.TanimotoMinMaxFeatures(n_components=2048)
    else:
        options["quick"] = True
    z, inside = [], 0
    for seed in range(8):
        y = prior.sample_y(X, 1, seed)[:, 0]
        chosen = np.random.default_rng(seed).choice(len(y), 70, replace=False)
        means = clone(prior).fit(X[chosen], y[chosen]).predict(X)
        means[chosen] = -np.inf
        chosen = np.concatenate([chosen, np.argsort(-means)[:80]])
        labels = pd.DataFrame({"id": rows["id"].to_numpy()[chosen], "y": y[chosen]})
        labels.to_csv(tmp_path / "y.csv", index=False)
        model = tmp_path / f"{seed}.model"
        fit(store, tmp_path / "y.csv", model, direction="maximize", **options)
        report = found(model, store, k=K)
        truth = np.isin(np.argsort(-y)[:K], chosen).mean()
        z.append((truth - report.share) / np.std(report.draws))
        inside += report.low <= truth <= report.high
    assert inside >= 6
    assert np.sqrt(np.mean(np.square(z))) < 1.7
    assert abs(np.mean(z)) < 1.1


def test_labels_that_contradict_the_error_bars_are_counted(store: Path, tmp_path: Path) -> None:
    """Labels whose deviations are twice what the model was told: more of them are as good as expected."""
    rows, X = rows_of(FingerprintStore.open(store)), daskrf.open_library(store).fingerprints.compute()
    options: dict[str, Any] = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.1}
    y = 2.0 * ExactGP(TanimotoMinMax(), **options).sample_y(X, 1, 3)[:, 0]
    frame = rows.assign(y=y)[["id", "smiles", "y"]]
    frame[:100].to_csv(tmp_path / "y.csv", index=False)
    fit(store, tmp_path / "y.csv", tmp_path / "model", direction="maximize", quick=True, **options)
    before = found(tmp_path / "model", store, k=K)
    assert "(the first labels, left out one by one):" in str(before)
    daskrf.add(tmp_path / "model", frame[100:160])
    after = found(tmp_path / "model", store, k=K)
    assert "left out one by one, and the batch, predicted from the labels before it" in str(after)
    assert after.high - after.low > 0.1
    truth = np.isin(np.argsort(-y)[:K], np.arange(160)).mean()
    assert after.low <= truth <= after.high


def test_a_chosen_batch_that_is_well_predicted_makes_the_estimate_no_surer(
    store: Path, tmp_path: Path
) -> None:
    """Errors are small where a batch is chosen among good means, and say nothing of the other molecules."""
    rows, X = rows_of(FingerprintStore.open(store)), daskrf.open_library(store).fingerprints.compute()
    prior = ExactGP(TanimotoMinMax(), mean=0.0, signal_variance=1.0, noise_variance=0.1)
    y = prior.sample_y(X, 1, 5)[:, 0]
    first = np.random.default_rng(5).choice(len(y), 70, replace=False)
    means, std = clone(prior).fit(X[first], y[first]).predict(X, return_std=True)
    means[first] = -np.inf
    batch = np.argsort(-means)[:60]
    names, widths = rows["smiles"].to_numpy(), {}
    options: dict[str, Any] = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.1, "quick": True}
    for errors in (0.1, 1.0):  # as parts of the deviations
        z = np.random.default_rng(6).standard_normal(len(batch))
        values = means[batch] + errors * std[batch] * z
        model = tmp_path / f"{errors}.model"
        table = pd.DataFrame({"smiles": names[first], "y": y[first]})
        fit(store, table, model, direction="maximize", **options)
        add(model, pd.DataFrame({"smiles": names[batch], "y": values}))
        report = found(model, store, k=K)
        widths[errors] = report.high - report.low
    assert widths[0.1] > 0.8 * widths[1.0]


def test_rows_that_are_no_molecules_are_counted(
    store: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    """Those of files; a store has counted its own when it was made."""
    fit(store, inputs[1], tmp_path / "model", direction="minimize", quick=True)
    report = found(tmp_path / "model", inputs[0], k=20)
    (said,) = (note for note in report.notes if note.startswith("rejected"))
    n = FingerprintStore.open(store).counts()["rejected"]
    assert n > 1
    assert said.startswith(f"rejected: {n} rows, which cannot be among the best (line 4 of ")
    assert said.endswith("library.smi: RDKit cannot parse: syntax error at position 3)")
    assert not any("rejected" in note for note in found(tmp_path / "model", store, k=20).notes)


def test_a_target_with_an_end_that_the_model_does_not_know(store: Path, tmp_path: Path) -> None:
    """Draws go beyond values that no molecule exceeds, and the report says so."""
    rows, X = rows_of(FingerprintStore.open(store)), daskrf.open_library(store).fingerprints.compute()
    options: dict[str, Any] = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.1}
    drawn = ExactGP(TanimotoMinMax(), **options).sample_y(X, 1, 3)[:, 0]
    for name, y in (("free", drawn), ("bounded", np.minimum(drawn, 0.2))):
        frame = rows.assign(y=y)[["id", "smiles", "y"]][:150]
        fit(frame, output=tmp_path / name, target="y", direction="maximize", quick=True, **options)
    said = "molecules without labels beat the best label"
    assert said in str(found(tmp_path / "bounded", store, k=K))
    assert said not in str(found(tmp_path / "free", store, k=K))


def test_a_library_that_is_labelled_throughout(store: Path, tmp_path: Path) -> None:
    rows = rows_of(FingerprintStore.open(store))
    rows.assign(y=rows.smiles.str.len().astype(float))[["id", "y"]].to_csv(tmp_path / "y.csv", index=False)
    fit(store, tmp_path / "y.csv", tmp_path / "model", direction="minimize", quick=True)
    report = found(tmp_path / "model", store, k=K)
    assert (report.share, report.low, report.high) == (1.0, 1.0, 1.0)
    assert "of the best 60 of 600 molecules, minimizing 'y', an estimated 100% have labels" in str(report)


def test_noise_depends_on_row_and_draw_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Plain(SampledValues):
        def __init__(self) -> None:
            given = {"seed": 3, "noise": 2.0, "n_draws": 4, "target": 0}
            for name, value in {**given, "rule": acquisition_for("thompson", maximize=True)}.items():
                object.__setattr__(self, name, value)

    from daskrf.screens.searches import Candidates

    def drawn(self: Any, model: Any, block: Block) -> Any:
        return np.full((len(block.rows), 4), 7.0), {"mean": np.full(len(block.rows), 7.0)}

    monkeypatch.setattr(Candidates, "scores", drawn)
    model: Any = SimpleNamespace(gp=SimpleNamespace(draws_take_rows=False))
    whole = Plain().scores(model, Block(np.arange(20_000), None))[0]  # type: ignore[arg-type]
    part = Plain().scores(model, Block(np.arange(50, 90), None))[0]  # type: ignore[arg-type]
    np.testing.assert_array_equal(whole[50:90], part)
    whole = (whole - 7.0) / 2.0
    assert stats.kstest(whole.ravel(), "norm").pvalue > 1e-3
    assert abs(np.corrcoef(whole.T) - np.eye(4)).max() < 0.03


@pytest.mark.parametrize("features", [LandmarkFeatures, NystromFeatures])
def test_draws_of_measurements_have_the_deviation_that_predict_says(
    features: type[FeatureMap],
    store: Path,
    inputs: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where features leave something out, part of it is noise of the labels already."""
    feature_map = features(32, kernel=TanimotoMinMax())  # type: ignore[call-arg]
    fit(store, inputs[1], tmp_path / "m", direction="minimize", feature_map=feature_map)
    seen: list[Any] = []
    real = SampledValues.scores

    def scores(self: Any, model: Any, block: Block) -> Any:
        seen.append((block.rows, real(self, model, block)[0]))
        return seen[-1][1], {}

    monkeypatch.setattr(SampledValues, "scores", scores)
    found(tmp_path / "m", store, k=5, n_draws=400)
    rows, values = (np.concatenate([each[i] for each in seen]) for i in (0, 1))
    predict(tmp_path / "m", store, tmp_path / "p.parquet")
    told = pd.read_parquet(tmp_path / "p.parquet").set_index("row").loc[rows]
    std, std_y = (told.filter(regex=f"^{name}(_score)?$").to_numpy().ravel() for name in ("std", "std_y"))
    all_noise = np.sqrt(std**2 + read_model(tmp_path / "m").gp.noise_variance_[0])
    assert std_y.mean() < 0.98 * all_noise.mean()
    ratio = values.var(axis=1) / std_y**2
    assert abs(ratio.mean() - 1) < 0.05


def test_refusals(store: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    fit(store, inputs[1], tmp_path / "model", quick=True)
    with pytest.raises(InputError, match="It is not known whether large or small values"):
        found(tmp_path / "model", store)
    for options in ({"k": 0}, {"n_draws": 1}):
        with pytest.raises(InputError, match="at least two posterior samples"):
            found(tmp_path / "model", store, maximize=True, **options)  # type: ignore[arg-type]


def test_the_best_of_a_library_are_not_all_of_it(
    store: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    fit(store, inputs[1], tmp_path / "m", direction="minimize", quick=True)
    for k in (600, 1000):
        with pytest.raises(
            InputError, match=rf"The library has 60\d molecules, so the best {k:,} are all of them"
        ):
            found(tmp_path / "m", store, k=k)


def test_molecules_that_do_not_pass_filters_do_not_count(store: Path, tmp_path: Path) -> None:
    """As if their rows were copies of a labelled molecule, which is not sampled again."""
    rows, X = rows_of(FingerprintStore.open(store)), daskrf.open_library(store).fingerprints.compute()
    options: dict[str, Any] = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.1, "quick": True}
    y = ExactGP(TanimotoMinMax(), mean=0.0, signal_variance=1.0, noise_variance=0.1).sample_y(X, 1, 4)[:, 0]
    passes = np.array([Crippen.MolLogP(Chem.MolFromSmiles(text)) < 3 for text in rows["smiles"]])
    assert 50 < passes[100:].sum() < len(rows) - 150
    chosen = np.flatnonzero(passes)[:80]
    fit(
        rows.iloc[chosen].assign(y=y[chosen])[["smiles", "y"]],
        output=tmp_path / "m",
        direction="maximize",
        **options,
    )
    other = rows["smiles"].where(passes, rows["smiles"].iloc[chosen[0]])
    pd.DataFrame({"smiles": rows["smiles"]}).to_csv(tmp_path / "all.csv", index=False)
    pd.DataFrame({"smiles": other}).to_csv(tmp_path / "passing.csv", index=False)
    filtered = found(tmp_path / "m", tmp_path / "all.csv", k=K, where="logp < 3")
    assert filtered.draws == found(tmp_path / "m", tmp_path / "passing.csv", k=K).draws
    assert "80 of 80 labels are of molecules that pass the filters, and count" in filtered.notes
    fewer = found(tmp_path / "m", tmp_path / "all.csv", k=K, where="logp < 2")
    assert not any("are limits" in note for note in fewer.notes)
    with pytest.raises(InputError, match="No labelled molecule passes the filters"):
        found(tmp_path / "m", tmp_path / "all.csv", k=K, smarts="[Xe]")
