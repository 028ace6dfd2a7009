"""`evaluate`: folds are those of refits, nothing leaks, and what is said of a model is true."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure
from rdkit import Chem
from rdkit.Chem.Scaffolds import MurckoScaffold
from scipy import sparse
from sklearn.metrics import average_precision_score, roc_auc_score

from daskrf import FingerprintSpec, evaluate, fingerprint, fit, predict
from daskrf.cli.app import run
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError, OptionError, StoreError
from daskrf.features import TanimotoMinMaxFeatures
from daskrf.features.landmarks import LandmarkFeatures
from daskrf.fitting import heldout
from daskrf.gp import RandomFeatureGP, choose_kernel
from daskrf.gp.processes.exact import ExactGP
from daskrf.kernels import TanimotoMinMax
from daskrf.molecules import Fingerprinter
from tests.naive import crossvalidation as naive

N = 72
SMILES = list(ReactionLibrary().smiles(0, N))
SPEC = FingerprintSpec("morgan", radius=1)
X = Fingerprinter(SPEC, "keep")(SMILES).fingerprints
PLACES = np.unique(X.indices, return_inverse=True)[1]
DENSE = sparse.csr_matrix((X.data, PLACES, X.indptr)).toarray().astype(float)
RNG = np.random.default_rng(0)
VALUES = (DENSE @ RNG.standard_normal(DENSE.shape[1]) + 0.2 * RNG.standard_normal(N)).round(3)
DATES = [f"20{10 + k // 12}-{k % 12 + 1:02}-01" for k in RNG.permutation(N)]
FIXED = {"mean": 0.1, "signal_variance": 2.0, "noise_variance": 0.3}


def put(path: Path, columns: dict[str, Any]) -> Path:
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([columns.keys(), *zip(*columns.values(), strict=True)])
    return path


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return put(tmp_path / "labels.csv", {"smiles": SMILES, "y": VALUES, "date": DATES})


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    others = list(ReactionLibrary().smiles(N, N + 20))
    (folder / "lib.smi").write_text("".join(f"{s} M{k}\n" for k, s in enumerate([*SMILES, *others])))
    fingerprint(folder / "lib.smi", folder / "store", spec=SPEC, rows_per_partition=40)
    return folder / "store"


@pytest.fixture
def joined(tmp_path: Path) -> Path:
    order = RNG.permutation(N)
    ids, y, dates = (np.array(v)[order] for v in ([f"M{k}" for k in range(N)], VALUES, DATES))
    return put(tmp_path / "joined.csv", {"id": ids, "y": y, "date": dates})


def folds_of(report: Any, column: str = "fold") -> list[tuple[np.ndarray, np.ndarray]]:
    """Known and predicted labels of each fold, from the table alone."""
    fold = np.array([value or 0 for value in report.table[column].to_pylist()])
    fitted = [fold != k if not (fold == 0).any() else fold < k for k in range(1, fold.max() + 1)]
    return [(np.flatnonzero(rows), np.flatnonzero(fold == k)) for k, rows in enumerate(fitted, start=1)]


def column(report: Any, name: str) -> np.ndarray:
    return report.table[name].to_numpy()


@pytest.mark.parametrize("options", [FIXED, {}, {"noise_variance": 0.5}])
@pytest.mark.parametrize("split", ["random", "scaffold", "date"])
def test_each_fold_is_a_process_of_the_other_labels(
    library: Path, joined: Path, split: str, options: dict[str, float]
) -> None:
    report = evaluate(library, joined, target="y", split=split, kernel=TanimotoMinMax(), **options)
    (target,) = report.targets
    folds = folds_of(report)
    assert len(folds) == report.n_folds == 5
    parameters = [
        tuple(values[name] for name in ("mean", "signal_variance", "noise_variance"))
        for values in target.hyperparameters
    ]
    for values in target.hyperparameters:
        assert {name: values[name] for name in options} == pytest.approx(options)
    mean, std = naive.held_out(DENSE, VALUES, folds, parameters)
    np.testing.assert_allclose(column(report, "mean"), mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(column(report, "std_y"), std, rtol=1e-6)
    label, similarity = naive.nearest(DENSE, VALUES, folds)
    np.testing.assert_allclose(column(report, "nearest"), label)
    np.testing.assert_allclose(column(report, "similarity"), similarity)
    np.testing.assert_array_equal(column(report, "y"), VALUES)
    assert column(report, "smiles").tolist() == SMILES
    assert column(report, "id").tolist() == [f"M{k}" for k in range(N)]
    rows = np.isfinite(mean)
    figures = target.figures["daskrf"]
    assert figures["rmse"].value == pytest.approx(np.sqrt(np.mean((VALUES - mean)[rows] ** 2)))
    each = [np.sqrt(np.mean((VALUES - mean)[test] ** 2)) for _, test in folds]
    assert figures["rmse"].folds == pytest.approx(each)
    assert figures["rmse"].spread == pytest.approx(np.std(each, ddof=1))
    assert target.figures["nearest neighbour"]["mae"].value == pytest.approx(
        np.mean(np.abs(VALUES - label)[rows])
    )
    by_mean = np.concatenate([(VALUES[test] - VALUES[train].mean()) ** 2 for train, test in folds])
    assert target.figures["mean"]["rmse"].value == pytest.approx(np.sqrt(by_mean.mean()))


def test_scaffolds_are_whole_and_dates_are_in_order(library: Path, joined: Path) -> None:
    by_scaffold = evaluate(library, joined, target="y", split="scaffold", quick=True)
    scaffolds = [
        Chem.MolToSmiles(MurckoScaffold.GetScaffoldForMol(Chem.MolFromSmiles(s)), isomericSmiles=False)
        for s in SMILES
    ]
    for train, test in folds_of(by_scaffold):
        assert not {scaffolds[i] for i in train} & {scaffolds[i] for i in test}
    assert f"{len(set(scaffolds))} scaffolds" in by_scaffold.split
    by_date = evaluate(library, joined, target="y", split="date", quick=True, folds=3)
    for train, test in folds_of(by_date):
        assert max(DATES[i] for i in train) < min(DATES[i] for i in test)
    assert by_date.targets[0].n_predicted == N - np.sum(column(by_date, "fold") != column(by_date, "fold"))
    assert column(by_date, "fold")[np.argmin(np.array(DATES))] != column(by_date, "fold")[np.argmax(DATES)]


def test_nothing_of_a_fold_is_known_when_it_is_predicted(labels: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"target": "y", "quick": True}
    before = evaluate(labels, **options)
    for k, (_, test) in enumerate(folds_of(before), start=1):
        y = VALUES.copy()
        y[test] = 7 * y[test][::-1] + 3
        other = put(tmp_path / f"other-{k}.csv", {"smiles": SMILES, "y": y})
        after = evaluate(other, **options)
        for name in ("mean", "std_y", "nearest", "similarity"):
            np.testing.assert_array_equal(column(before, name)[test], column(after, name)[test])
        assert (column(before, "mean") != column(after, "mean")).sum() >= N - len(test)


def test_copies_are_left_out_together(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    written = [Chem.MolToSmiles(Chem.MolFromSmiles(s), doRandom=True) for s in SMILES]
    noise = rng.standard_normal(2 * N)  # copies say nothing of each other, and they know nothing else
    path = put(tmp_path / "twice.csv", {"smiles": [*SMILES, *written], "y": np.r_[VALUES, VALUES] + noise})
    report = evaluate(path, target="y", quick=True)
    fold = dict(zip(column(report, "smiles"), column(report, "fold"), strict=True))
    assert all(fold[s] == fold[w] for s, w in zip(SMILES, written, strict=True))
    assert "72 copies of other molecules" in report.split
    thrice = put(
        tmp_path / "thrice.csv", {"smiles": SMILES * 3, "y": np.tile(VALUES, 3) + np.r_[noise, noise[:N]]}
    )
    report = evaluate(thrice, target="y", quick=True)
    assert report.n_molecules == N
    assert "144 labels repeat a molecule; in these figures each measurement counts" in str(report)
    assert report.to_pandas()["fold"].notna().all()
    assert report._repr_html_().count("<svg") == 10
    assert report.targets[0].n_predicted == 3 * N
    molecule, fold = column(report, "row"), column(report, "fold")
    assert len({(m, f) for m, f in zip(molecule, fold, strict=True)}) == N


@pytest.mark.parametrize("spec", [None, FingerprintSpec(["morgan:1", "torsion"])], ids=["default", "given"])
def test_with_and_without_a_library_it_is_the_same(
    spec: FingerprintSpec | None, labels: Path, tmp_path: Path
) -> None:
    alone = evaluate(labels, target="y", quick=True, spec=spec)
    (tmp_path / "lib.smi").write_text("".join(f"{s} M{k}\n" for k, s in enumerate(SMILES)))
    fingerprint(tmp_path / "lib.smi", tmp_path / "store", spec=spec)
    beside = evaluate(tmp_path / "store", labels, key="smiles", target="y", quick=True)
    for name in ("y", "fold", "mean", "std_y", "nearest"):
        np.testing.assert_array_equal(column(alone, name), column(beside, name))
    assert alone.targets == beside.targets
    assert "SMILES in 'smiles', target 'y'" in alone.inputs[0]
    kinds = (spec or FingerprintSpec()).name
    for report in (alone, beside):
        assert f"\n  fingerprints: {kinds}, counts, unfolded (32-bit identifiers)\n" in str(report)
    with pytest.raises(InputError, match="--kind"):
        evaluate(tmp_path / "store", labels, key="smiles", target="y", spec=FingerprintSpec("morgan:1"))


def test_a_kernel_is_chosen_in_each_fold_by_what_it_knows(library: Path, joined: Path) -> None:
    report = evaluate(library, joined, target="y")
    (target,) = report.targets
    for (train, test), hyperparameters in zip(folds_of(report), target.hyperparameters, strict=True):
        choice = choose_kernel(X[train], VALUES[train], SPEC.columns)
        assert hyperparameters["kernel"] == choice.kernel.words()
        mean = ExactGP(choice.kernel).fit(X[train], VALUES[train]).predict(X[test])
        np.testing.assert_allclose(column(report, "mean")[test], mean, rtol=1e-7)
    assert "kernel, mean and variances were fitted in each fold" in str(report)


def test_the_kernel_of_many_labels_is_that_of_fit(
    labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heldout, "FEW_LABELS", 10)
    report, model = evaluate(labels, target="y"), fit(labels, output=tmp_path / "model", target="y")
    assert {values["kernel"] for values in report.targets[0].hyperparameters} == {model.kernel}
    assert "the kernel was chosen on all labels" in str(report)


def test_data_in_memory(labels: Path) -> None:
    report = evaluate({"smiles": SMILES, "y": VALUES}, target="y", quick=True)
    np.testing.assert_array_equal(
        column(report, "mean"), column(evaluate(labels, target="y", quick=True), "mean")
    )


def test_logarithms(tmp_path: Path) -> None:
    path = put(tmp_path / "ic50.csv", {"smiles": SMILES, "IC50 (nM)": 10 ** (9 - VALUES)})
    report = evaluate(path, quick=True, transform="pIC50")
    np.testing.assert_allclose(column(report, report.targets[0].name), VALUES, atol=1e-9)


@pytest.mark.parametrize("split", ["random", "date"])
def test_features_are_summed_once_and_folds_are_those_of_refits(
    library: Path, joined: Path, split: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    feature_map, made = TanimotoMinMaxFeatures(256), []
    transform = TanimotoMinMaxFeatures.transform_bits
    monkeypatch.setattr(
        TanimotoMinMaxFeatures,
        "transform_bits",
        lambda self, X: (made.append(X.shape[0]), transform(self, X))[1],
    )
    report = evaluate(library, joined, target="y", split=split, feature_map=feature_map)
    predicted = report.targets[0].n_predicted
    learned = sum(len(train) for train, _ in folds_of(report))
    assert sum(made) == N + predicted + learned  # for the sums, the predictions, and to leave each out
    for train, test in folds_of(report):
        gp = RandomFeatureGP(feature_map).fit(X[train], VALUES[train])
        mean, std = gp.predict(X[test], return_std=True)
        np.testing.assert_allclose(column(report, "mean")[test], mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(column(report, "std_y")[test], std, rtol=1e-4)
    assert "256 features" in report.targets[0].process


def test_maps_that_learn(library: Path, joined: Path) -> None:
    report = evaluate(library, joined, target="y", feature_map=LandmarkFeatures(30))
    assert report.targets[0].figures["daskrf"]["r2"].value > 0


def test_conjugate_gradients_agree_with_a_factorization(library: Path, joined: Path) -> None:
    options: dict[str, Any] = {"target": "y", "quick": True, **FIXED}
    exact = evaluate(library, joined, **options)
    iterative = evaluate(library, joined, **options, solver="cg", tolerance=1e-5)
    np.testing.assert_allclose(column(iterative, "mean"), column(exact, "mean"), atol=1e-3)
    assert not list(joined.parent.glob(".*"))


def test_several_targets_with_gaps(library: Path, tmp_path: Path) -> None:
    z = [("" if k % 3 == 0 else VALUES[k] ** 2) for k in range(N)]
    path = put(tmp_path / "two.csv", {"id": [f"M{k}" for k in range(N)], "y": VALUES, "z": z})
    options: dict[str, Any] = {"quick": True, "direction": {"y": "minimize", "z": "maximize"}}
    both = evaluate(library, path, target=["y", "z"], drop_non_numbers=True, **options)
    assert [target.n_labels for target in both.targets] == [N, 48]
    assert [target.direction for target in both.targets] == ["minimize", "maximize"]
    one = evaluate(library, path, target="y", drop_non_numbers=True, quick=True)
    np.testing.assert_array_equal(column(both, "mean_y"), column(one, "mean"))
    gaps = np.isnan(column(both, "mean_z"))
    np.testing.assert_array_equal(gaps, np.arange(N) % 3 == 0)
    assert column(both, "z").tolist()[1] == VALUES[1] ** 2


@pytest.mark.parametrize("split", ["random", "day"])
def test_classes_are_judged_as_classes(split: str, tmp_path: Path) -> None:
    """The probability of each label is what a model of the other folds, or those before, predicts."""
    active = (np.median(VALUES) < VALUES).astype(int)
    path = put(tmp_path / "classes.csv", {"smiles": SMILES, "active": active, "day": list(range(N))})
    files = {"output": tmp_path / "found.csv", "picture": tmp_path / "found.png"}
    options: dict[str, Any] = {"target": "active", "quick": True}
    report = evaluate(path, split=split, direction="maximize", folds=3, **options, **files)
    (target,) = report.targets
    table = pd.read_csv(tmp_path / "found.csv")
    assert table.probability.isna().tolist() == table.fold.isna().tolist()
    test = table.fold == 3
    fit(pd.DataFrame({"smiles": SMILES, "active": active})[~test], output=tmp_path / "model", **options)
    predicted = predict(tmp_path / "model", SMILES).to_pandas()
    np.testing.assert_allclose(table.probability[test], predicted.probability[test], rtol=1e-6)
    there = table.dropna()
    if split == "random":
        assert "3 folds at random, each with its share of 1" in report.split
        shares = table.groupby("fold").active.sum()
        assert shares.max() - shares.min() <= 1
    figures = target.figures["daskrf"]
    pairs = [fold for _, fold in table[table["mean"].notna()].groupby("fold") if fold.active.nunique() == 2]
    aucs = [roc_auc_score(fold["active"], fold["probability"]) for fold in pairs]
    weights = [fold["active"].sum() * (1 - fold["active"]).sum() for fold in pairs]
    assert figures["auc"].value == pytest.approx(np.average(aucs, weights=weights))
    assert figures["brier"].value == pytest.approx(((there.active - there.probability) ** 2).mean())
    assert 0.5 < figures["auc"].value <= 1
    judged = table[table["mean"].notna()]
    assert figures["average_precision"].value == pytest.approx(
        average_precision_score(judged["active"], judged["probability"])
    )
    assert all(np.isnan(figures[name].value) for name in ("rmse", "r2", "coverage_95", "recall_1"))
    lines = "\n".join(target.lines())
    assert "its AUC is" in lines
    assert "active: 2 classes, 1 (50 %)" in lines
    assert "RMSE" not in lines
    assert "error bars" not in lines
    assert "probabilities are those that predict gives" in lines
    (result,) = json.loads(report.to_json())["targets"]
    assert result["verdict"] == target.verdict
    assert result["figures"]["daskrf"]["brier"]["value"] == pytest.approx(figures["brier"].value)
    assert result["figures"]["daskrf"]["rmse"]["value"] is None
    assert (tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("seed", range(4))
def test_classes_at_random_are_not_praised(seed: int) -> None:
    """A fold with more labels of 1 leaves fewer to learn from, by which it could be told from the others."""
    active = np.zeros(N, int)
    active[np.random.default_rng(seed).permutation(N)[: N // 3]] = 1
    labels = pd.DataFrame({"smiles": SMILES, "active": active})
    report = evaluate(labels, direction="maximize", process="exact", kernel=TanimotoMinMax())
    table, (target,) = report.to_pandas(), report.targets
    assert target.verdict.startswith(("Is it good? No", "Is it good? Not clear"))
    means = table.groupby("fold").agg({"active": "mean", "probability": "mean"})
    assert means.probability.std() < 0.05


def test_other_classes_are_named_as_such() -> None:
    active = np.where(np.median(VALUES) < VALUES, 1, -1)
    labels = pd.DataFrame({"smiles": SMILES, "active": active})
    report = evaluate(labels, direction="maximize", process="exact", kernel=TanimotoMinMax())
    assert "all labels are -1 or 1: if these are classes, write them as 0 and 1" in str(report)


def test_the_picture_and_the_table_count_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smiles = list(ReactionLibrary().smiles(0, 220))
    rough = (
        np.asarray(Fingerprinter(SPEC, "keep")(smiles).fingerprints.sum(axis=1)).ravel() // 9 * 1.0
    )  # many equal values
    path = put(tmp_path / "rough.csv", {"smiles": smiles, "y": rough})
    drawn: list[Any] = []
    module = sys.modules["daskrf.commands.evaluate"]
    monkeypatch.setattr(
        module, "plot_evaluation", lambda path, panels, format: drawn.append((path.touch(), panels))
    )
    options: dict[str, Any] = {"target": "y", "quick": True, "direction": "maximize"}
    report = evaluate(path, picture=tmp_path / "x.png", **options)
    (panel,) = drawn[0][1]
    figures = report.targets[0].figures["daskrf"]
    assert panel.ranking.fraction(2) == figures["recall_1"].value
    assert panel.ranking.fraction(22) == figures["recall_10"].value
    assert figures["enrichment_1"].value == pytest.approx(110 * figures["recall_1"].value)
    order = np.lexsort([-column(report, "mean")])
    threshold = np.sort(rough)[-2]
    assert figures["recall_10"].value == min((rough[order[:22]] >= threshold).sum(), 2) / 2


def test_labels_without_a_pattern_are_said_to_be_none(tmp_path: Path) -> None:
    path = put(tmp_path / "noise.csv", {"smiles": SMILES, "y": np.random.default_rng(5).standard_normal(N)})
    (target,) = evaluate(path, target="y", quick=True).targets
    assert target.verdict.startswith("Is it good? No")


def test_the_forest_and_the_learning_curve(library: Path, joined: Path) -> None:
    options: dict[str, Any] = {"target": "y", "quick": True, "baseline": "forest", "learning_curve": True}
    report = evaluate(library, joined, **options, folds=2)
    (target,) = report.targets
    assert list(target.figures) == ["daskrf", "random forest", "nearest neighbour", "mean"]
    assert target.figures["random forest"]["rmse"].value < target.figures["mean"]["rmse"].value
    assert list(target.curve) == []  # 36 labels are too few for halves of 20
    assert "too few labels for a learning curve" in str(report)
    report = evaluate(library, joined, **options, folds=4)
    sizes = [point.n_labels for point in report.targets[0].curve]
    assert sizes == [27, 54]
    last = report.targets[0].curve[-1].figures["daskrf"]
    assert last["rmse"] == report.targets[0].figures["daskrf"]["rmse"]
    assert "from 27 to 54 labels" in str(report)


def test_files(labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, path, **o: (shown.append(figure), save(figure, path, **o))
    )
    files = {"output": tmp_path / "found.csv", "picture": tmp_path / "found.svg"}
    report = evaluate(labels, target="y", quick=True, learning_curve=True, folds=4, **files)
    with open(files["output"]) as file:
        rows = list(csv.DictReader(file))
    assert [float(row["mean"]) for row in rows] == column(report, "mean").tolist()
    assert [row["smiles"] for row in rows] == SMILES
    assert files["picture"].read_text().startswith("<?xml")
    titles = [axes.get_title() for axes in shown[0].axes]
    assert "72 molecules" in titles[0]
    assert titles[1:] == [
        "Are the error bars right?",
        "Would more labels help?",
    ]
    evaluate(labels, target="y", quick=True, output=tmp_path / "found.parquet", split="date")
    table = pq.read_table(tmp_path / "found.parquet")
    assert table["fold"].null_count == table["mean"].null_count > 0
    for name, path in files.items():
        with pytest.raises(StoreError, match="replace it by --overwrite"):
            evaluate(labels, target="y", quick=True, **{name: path})
    again = evaluate(labels, target="y", quick=True, output=files["output"], overwrite=True, folds=2)
    assert files["output"].read_text().count("\n") == 1 + N
    assert again.n_folds == 2
    with pytest.raises(OptionError, match="give it one of"):
        evaluate(labels, target="y", output=tmp_path / "found.txt")
    with pytest.raises(OptionError, match=r"must end in \.png, \.svg or \.pdf"):
        evaluate(labels, target="y", picture=tmp_path / "found.txt")
    hidden = {each.name for each in tmp_path.glob(".*")}
    assert hidden == {".found.csv.record", ".found.svg.record"}  # nothing but records


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (
            {"y": VALUES},
            {"folds": 100},
            "only 72 different molecules, too few for 100 folds; take at most 72",
        ),
        ({"y": VALUES}, {"folds": 1}, "--folds must be at least 2, not 1"),
        ({"y": np.ones(N)}, {}, "All labels of y are the same"),
        ({"y": np.ones(N)}, FIXED, "All labels of y outside of fold 1 are the same"),
        ({"y": [1] + [0] * (N - 1)}, {}, "are the same (0), so nothing can be learned"),
        ({"y": VALUES}, {"split": "when"}, "has no column 'when'"),
        ({"y": VALUES, "d": ["3/15/2021"] * N}, {"split": "d"}, "the column 'd' holds '3/15/2021'"),
        ({"y": VALUES, "d": [""] * N}, {"split": "d"}, "the column 'd' is empty for some labels"),
        ({"y": VALUES, "d": [2020] * N}, {"split": "d"}, "there is only one value of 'd'"),
        ({"y": VALUES, "d": [2020, 2021] * 36}, {"split": "d"}, "2 different values of 'd', too few for 5"),
    ],
)
def test_what_cannot_be_evaluated(
    columns: dict[str, Any], options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    path = put(tmp_path / "labels.csv", {"smiles": SMILES, **columns})
    with pytest.raises(InputError) as caught:
        evaluate(path, target="y", quick=True, **options)
    assert words in str(caught.value)
    assert [each.name for each in tmp_path.iterdir()] == ["labels.csv"]


def test_one_scaffold_and_stores_that_do_not_do(library: Path, labels: Path, tmp_path: Path) -> None:
    chains = put(tmp_path / "chains.csv", {"smiles": ["C" * k + "O" for k in range(1, 31)], "y": range(30)})
    with pytest.raises(InputError, match="only one Murcko scaffold, so no part can be left out"):
        evaluate(chains, target="y", quick=True, split="scaffold")
    fit(labels, output=tmp_path / "model", target="y", quick=True)
    with pytest.raises(InputError, match="is a model; give the labels"):
        evaluate(tmp_path / "model")
    with pytest.raises(InputError, match="is a store; give a file of labels"):
        evaluate(library)


def test_the_command(labels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["evaluate", str(labels), "--target", "y", "--quick", "--workers", "0"]
    assert run(command) == 0
    output = capsys.readouterr().out
    assert "Is it good?" in output
    assert "within the 95 % interval" in output
    assert run([*command, "--json", "--split", "date", "--folds", "3"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["n_folds"] == 3
    (target,) = result["targets"]
    assert target["verdict"].startswith("Is it good?")
    assert target["figures"]["nearest neighbour"]["log_probability"]["value"] is None
    assert len(target["hyperparameters"]) == 3
