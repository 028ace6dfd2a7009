"""Labels that are limits, in jobs: fit, add, evaluate and explain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import daskrf
from daskrf.errors import InputError
from daskrf.features import LandmarkFeatures, TanimotoMinMaxFeatures
from daskrf.gp import RandomFeatureGP
from daskrf.gp.processes import exact
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.weightedsum import WeightedSum
from daskrf.models.models import LIMIT_SIDES, LIMITS, read_model
from daskrf.models.targets import measured_of
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.report.evaluation import MODEL

CHAINS = ["C" * k + tail for k in range(1, 13) for tail in ("O", "N", "F", "C(=O)O", "c1ccccc1")]
VALUES = [4 + 0.3 * len(text) + 0.7 * text.count("O") for text in CHAINS]


def table(path: Path, cells: list[str], smiles: list[str] = CHAINS, name: str = "pKi") -> Path:
    path.write_text(f"smiles,{name}\n" + "".join(f"{s},{c}\n" for s, c in zip(smiles, cells, strict=True)))
    return path


def cells(limit: float = 6.5) -> list[str]:
    return [f"<{limit}" if value < limit else f"{value:.3f}" for value in VALUES]


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("limits")
    daskrf.fit(table(folder / "labels.csv", cells()), output=folder / "m", quick=True)
    return folder / "m"


def test_a_model_with_limits_knows_them_and_predicts_beyond(model):
    stored = read_model(model)
    gp = stored.gp
    assert isinstance(gp, ExactGP)
    (labels,), (bound, side) = stored.arrays("labels"), stored.arrays(LIMITS, LIMIT_SIDES)
    hidden = np.array(VALUES) < 6.5
    assert sorted(side[:, 0].tolist()) == sorted(np.where(hidden, -1, 0).tolist())
    assert np.array_equal(np.isnan(labels), side != 0)
    assert np.array_equal(np.isfinite(bound), side != 0)
    assert gp.n_rows_ == len(CHAINS)
    predicted = np.asarray(daskrf.load(model).predict(CHAINS))
    assert (predicted[hidden] < 6.5).mean() > 0.9
    assert np.corrcoef(predicted[hidden], np.array(VALUES)[hidden])[0, 1] > 0.5


def test_the_report_says_how_many_and_how_they_are_used(tmp_path):
    report = daskrf.fit(table(tmp_path / "y.csv", cells()), output=tmp_path / "m", quick=True)
    n = sum(value < 6.5 for value in VALUES)
    words = f"labels that are limits: {n} upper limits (such as '<6.5'; the true value lies beyond each)"
    assert words in str(report)
    assert f"{n} of them limits" in str(report)
    chosen = daskrf.fit(table(tmp_path / "y.csv", cells()), output=tmp_path / "k")
    assert f"{n} of them limits; kernels were compared on measured labels" in str(chosen)
    dropped = daskrf.fit(
        table(tmp_path / "y.csv", cells()), output=tmp_path / "d", quick=True, censored="drop"
    )
    assert dropped.labels.matched == len(CHAINS) - n
    assert read_model(tmp_path / "d").gp.side_ is None


def test_added_limits_give_the_model_of_a_fit_to_all(tmp_path, model):
    first, rest = slice(20, None), slice(0, 20)
    parts = cells()
    measured_first = [f"{v:.3f}" for v in VALUES[first]]
    daskrf.fit(table(tmp_path / "a.csv", measured_first, CHAINS[first]), output=tmp_path / "m", quick=True)
    report = daskrf.add(tmp_path / "m", table(tmp_path / "b.csv", parts[rest], CHAINS[rest]))
    assert (report.n_added, report.n_labels) == (20, 60)
    again = daskrf.add(tmp_path / "m", tmp_path / "b.csv")
    assert not again.added
    daskrf.fit(
        table(tmp_path / "c.csv", [*measured_first, *parts[rest]], CHAINS[20:] + CHAINS[:20]),
        output=tmp_path / "whole",
        quick=True,
    )
    ours, whole = (np.asarray(daskrf.load(tmp_path / each).predict(CHAINS)) for each in ("m", "whole"))
    assert np.allclose(ours, whole, atol=0.02)
    bound, side = read_model(tmp_path / "m").arrays(LIMITS, LIMIT_SIDES)
    assert len(side) == 60
    assert np.array_equal(np.isfinite(bound), side != 0)
    daskrf.add(tmp_path / "m", undo=True)
    assert LIMITS not in read_model(tmp_path / "m").saved.entries


def test_a_batch_of_limits_alone_can_be_added(tmp_path):
    few = [f"{v:.3f}" for v in VALUES[:40]]
    daskrf.fit(table(tmp_path / "a.csv", few, CHAINS[:40]), output=tmp_path / "m", quick=True)
    report = daskrf.add(tmp_path / "m", table(tmp_path / "b.csv", [">5", "<20"], ["CCCCCCCCBr", "BrCCBr"]))
    assert report.n_added == 2
    assert "1 lower limits (such as '>5') and 1 upper limits (such as '<20'" in str(report)


def test_evaluations_judge_measured_labels_and_the_sides_of_limits(tmp_path, model):
    report = daskrf.evaluate(
        table(tmp_path / "y.csv", cells()), quick=True, folds=3, output=tmp_path / "t.csv"
    )
    (target,) = report.targets
    n = sum(value < 6.5 for value in VALUES)
    assert (target.n_predicted, target.n_limits) == (len(CHAINS) - n, n)
    assert any("the log probability of a side is -0." in note for note in target.notes)
    assert "By measured labels alone one cannot tell" in target.verdict
    rows = report.table.to_pydict()
    assert rows["limit"].count("< 6.5") == n
    assert all(
        (y is None) == (limit is not None) for y, limit in zip(rows["pKi"], rows["limit"], strict=True)
    )
    assert None not in rows["mean"]

    new = ["Cl" + text for text in CHAINS[:30]]
    outside = daskrf.evaluate(model, table(tmp_path / "n.csv", cells()[:30], new))
    (target,) = outside.targets
    assert target.n_limits + target.n_predicted == 30
    assert target.n_limits > 0
    assert np.isfinite(target.figures[MODEL]["rmse"].value)


def test_molecules_with_limits_are_labelled_and_not_suggested_again(tmp_path, model):
    library = tmp_path / "library.csv"
    library.write_text("smiles\n" + "".join(f"{s}\n" for s in [*CHAINS, "BrCCBr", "CCI"]))
    measured = measured_of(read_model(model), 0)
    assert len(measured.labelled_molecules) == len(CHAINS)
    assert np.isfinite(measured.values).sum() < len(CHAINS)
    daskrf.suggest(model, library, n=2, output=tmp_path / "batch.csv", maximize=True)
    rows = (tmp_path / "batch.csv").read_text()
    assert all(new in rows for new in ("BrCCBr", "CCI"))


def test_found_counts_measured_molecules_and_says_what_limits_are(tmp_path, model):
    library = tmp_path / "library.csv"
    others = [f"{'C' * k}{tail}" for k in range(1, 8) for tail in ("Br", "I", "S")]
    library.write_text("smiles\n" + "".join(f"{s}\n" for s in [*CHAINS, *others]))
    report = daskrf.found(model, library, k=5, maximize=True)
    n = sum(value < 6.5 for value in VALUES)
    assert report.n_labelled == len(CHAINS) - n
    assert f"{n} of 60 labels are limits; molecules with a limit alone count neither" in str(report)


def test_a_sum_counts_a_limit_of_each_target_as_a_label(tmp_path):
    both = [
        f"{a},{v:.3f}" if k % 3 else f"{a}," for k, (a, v) in enumerate(zip(cells(), VALUES, strict=True))
    ]
    path = table(tmp_path / "y.csv", both, name="pKi,logD")
    daskrf.fit(path, output=tmp_path / "m", quick=True, target=["pKi", "logD"], drop_non_numbers=True)
    stored = read_model(tmp_path / "m")
    measured = measured_of(stored, WeightedSum((0, 1), (1.0, -1.0), "pKi - logD"))
    assert measured.labelled.sum() == 40
    assert len(measured.labelled_molecules) == 40
    assert np.isfinite(measured.values).sum() < 40


def test_explanations_mark_limits(model):
    report = daskrf.explain(model, "CCCO", n=6)
    rows = report.labelled.to_pydict()
    assert rows["limit"].count("<") > 0
    assert all(label == 6.5 for label, sign in zip(rows["label"], rows["limit"], strict=True) if sign)
    assert "<" in str(report)


def test_targets_have_limits_of_their_own(tmp_path):
    both = [
        f"{a},{v:.3f}" if k % 3 else f"{a}," for k, (a, v) in enumerate(zip(cells(), VALUES, strict=True))
    ]
    path = table(tmp_path / "y.csv", both, name="pKi,logD")
    report = daskrf.fit(
        path, output=tmp_path / "m", quick=True, target=["pKi", "logD"], drop_non_numbers=True
    )
    assert report.labels.matched == len(CHAINS)
    first, second = read_model(tmp_path / "m").gp.parts
    assert first.side_ is not None
    assert (first.n_rows_, second.n_rows_) == (60, 40)
    assert second.side_ is None


FEATURES = TanimotoMinMaxFeatures(256)


def predictions(path: Path) -> np.ndarray:
    return np.stack([np.asarray(v) for v in daskrf.load(path).predict(CHAINS, return_std=True)])


def test_a_model_on_features_predicts_as_an_exact_one(tmp_path):
    path, fixed = table(tmp_path / "y.csv", cells()), {"signal_variance": 4.0, "noise_variance": 0.1}
    feature_map = TanimotoMinMaxFeatures(2048)
    report = daskrf.fit(path, output=tmp_path / "m", feature_map=feature_map, **fixed)
    n = sum(value < 6.5 for value in VALUES)
    assert f"labels that are limits: {n} upper limits" in str(report)
    stored = read_model(tmp_path / "m")
    statistics = stored.gp.statistics_
    assert (statistics.n, len(statistics.limits), stored.gp.n_rows_) == (60 - n, n, 60)
    assert statistics.limits.phi.dtype == np.uint8
    daskrf.fit(path, output=tmp_path / "exact", quick=True, **fixed)
    (mean, std), (exact, exact_std) = predictions(tmp_path / "m"), predictions(tmp_path / "exact")
    assert np.abs(mean - exact).max() < 0.5 * exact_std.max()
    assert np.median(std / exact_std) == pytest.approx(1, abs=0.1)
    assert daskrf.fit(path, output=tmp_path / "m", feature_map=feature_map, **fixed).was_there


def test_limits_added_to_sums_give_the_model_of_a_fit_to_all(tmp_path):
    first, rest = slice(20, None), slice(0, 20)
    measured, parts = [f"{v:.3f}" for v in VALUES[first]], cells()
    daskrf.fit(
        table(tmp_path / "a.csv", measured, CHAINS[first]), output=tmp_path / "m", feature_map=FEATURES
    )
    report = daskrf.add(tmp_path / "m", table(tmp_path / "b.csv", parts[rest], CHAINS[rest]))
    assert (report.n_added, report.n_labels) == (20, 60)
    whole = table(tmp_path / "c.csv", [*measured, *parts[rest]], CHAINS[20:] + CHAINS[:20])
    daskrf.fit(whole, output=tmp_path / "whole", feature_map=FEATURES)
    assert np.allclose(predictions(tmp_path / "m"), predictions(tmp_path / "whole"), atol=1e-6)
    more = table(tmp_path / "d.csv", [">5", "<20"], ["CCCCCCCCBr", "BrCCBr"])
    assert daskrf.add(tmp_path / "m", more).n_added == 2
    counts = read_model(tmp_path / "m").metadata["labels"]
    hidden = sum(text.startswith("<") for text in parts[rest])
    assert (counts["lower limits"], counts["upper limits"]) == (1, hidden + 1)
    daskrf.add(tmp_path / "m", undo=True)
    daskrf.add(tmp_path / "m", undo=True)
    assert read_model(tmp_path / "m").gp.statistics_.limits is None


def test_folds_of_sums_leave_limits_out(tmp_path):
    path = table(tmp_path / "y.csv", cells())
    report = daskrf.evaluate(path, feature_map=FEATURES, folds=3, output=tmp_path / "t.csv")
    (target,) = report.targets
    n = sum(value < 6.5 for value in VALUES)
    assert (target.n_predicted, target.n_limits) == (60 - n, n)
    rows = report.table.to_pydict()
    X = Fingerprinter(FingerprintSpec())(rows["smiles"]).fingerprints
    limit = np.array([text is not None for text in rows["limit"]])
    y = np.where(limit, 6.5, np.array(rows["pKi"], float))
    fold, mean, std = (np.array(rows[name], float) for name in ("fold", "mean", "std_y"))
    for k in np.unique(fold):
        train, test = fold != k, fold == k
        gp = RandomFeatureGP(FEATURES).fit(X[train], y[train], side=np.where(limit, -1, 0)[train])
        want = gp.predict(X[test], return_std=True)
        assert np.allclose((mean[test], std[test]), want, atol=1e-4)


def test_targets_with_limits_have_sums_of_their_own(tmp_path):
    both = [f"{a},{v:.3f},{-v:.3f}" for a, v in zip(cells(), VALUES, strict=True)]
    path = table(tmp_path / "y.csv", both, name="pKi,logD,score")
    daskrf.fit(path, output=tmp_path / "m", target=["pKi", "logD", "score"], feature_map=FEATURES)
    gp = read_model(tmp_path / "m").gp
    assert gp.targets == ((0,), (1, 2))
    assert gp.parts[0].n_limits_ > 0
    assert gp.parts[1].n_limits_ == 0
    alone = daskrf.fit(table(tmp_path / "z.csv", cells()), output=tmp_path / "one", feature_map=FEATURES)
    assert alone.labels.matched == 60
    assert np.allclose(predictions(tmp_path / "m")[:, :, 0], predictions(tmp_path / "one"), atol=1e-6)


def test_conjugate_gradients_take_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(exact, "_LARGEST_WITH_LIMITS", 50)
    first, rest, n = slice(20, None), slice(0, 20), sum(value < 6.5 for value in VALUES)
    path = table(tmp_path / "y.csv", cells())
    report = daskrf.fit(path, output=tmp_path / "m", quick=True)
    assert (report.process, read_model(tmp_path / "m").gp.solver_) == ("exact", "cg")
    assert f"conjugate gradients for 60 rows, {n} of them limits" in str(report)
    daskrf.fit(path, output=tmp_path / "exact", quick=True, solver="cholesky")
    (mean, std), (want, exact_std) = predictions(tmp_path / "m"), predictions(tmp_path / "exact")
    assert np.abs(mean - want).max() < 0.1 * exact_std.max()
    assert np.allclose(std, exact_std, rtol=0.5)  # from 32 samples
    assert daskrf.fit(path, output=tmp_path / "m", quick=True).was_there
    measured = table(tmp_path / "a.csv", [f"{v:.3f}" for v in VALUES[first]], CHAINS[first])
    daskrf.fit(measured, output=tmp_path / "n", quick=True)
    report = daskrf.add(tmp_path / "n", table(tmp_path / "b.csv", cells()[rest], CHAINS[rest]))
    assert (report.n_added, report.n_labels) == (20, 60)
    assert read_model(tmp_path / "n").gp.solver_ == "cg"
    (target,) = daskrf.evaluate(path, quick=True, folds=2, solver="cg").targets
    assert (target.n_predicted, target.n_limits) == (60 - n, n)


def test_other_processes_refuse_limits_in_a_sentence(tmp_path):
    path, landmarks = table(tmp_path / "y.csv", cells()), LandmarkFeatures(16)
    which = "the process of the map landmarks"
    with pytest.raises(InputError, match=rf"labels that are limits, and {which}.*--censored drop"):
        daskrf.fit(path, output=tmp_path / "m", feature_map=landmarks)
    dropped = daskrf.fit(path, output=tmp_path / "m", censored="drop", feature_map=landmarks)
    assert dropped.labels.matched < len(CHAINS)


def test_limits_of_a_molecule_that_contradict_each_other_are_said(tmp_path):
    path = table(tmp_path / "y.csv", [*cells(), ">9", "<4"], [*CHAINS, "CCCBr", "CCCBr"])
    report = daskrf.fit(path, output=tmp_path / "m", quick=True)
    assert "limits of 'pKi' of 1 molecule contradict each other, such as > 9 and < 4" in str(report)
    merged = daskrf.fit(path, output=tmp_path / "n", quick=True, repeats="mean")
    assert merged.labels.merged == 1
    words = "such as > 9 and < 4: the closest one on the side with more limits counts, unless there is a"
    assert words in str(merged)
    new = table(tmp_path / "new.csv", [">9", "<4", "<5", "7.5"], ["CCCI", "CCCI", "CCI", "CCI"])
    added = str(daskrf.add(tmp_path / "n", new))
    assert words in added
    assert "1 limit of 'pKi' did not count beside measured values of the same molecules" in added
