"""Exact processes in a metric that is learned by itself: fit, evaluate, add, suggest, page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen

import daskrf
from daskrf import FingerprintSpec, add, evaluate, explain, fingerprint, fit, page, status, suggest
from daskrf.commands import add as adding
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.fitting import heldout
from daskrf.gp import choose_kernel
from daskrf.gp.processes.exact import ExactGP
from daskrf.kernels import MetricGaussian
from daskrf.models.models import read_model
from daskrf.molecules import Fingerprinter

SPEC = FingerprintSpec()
N, N_MORE, N_OTHERS = 480, 60, 200


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labels that are best for a logP in between, further ones, other molecules, and a model by default."""
    out = tmp_path_factory.mktemp("metric_of_exact")
    smiles = np.random.default_rng(0).permutation(list(ReactionLibrary().smiles(0, N + N_MORE + N_OTHERS)))
    logp = np.array([Crippen.MolLogP(Chem.MolFromSmiles(text)) for text in smiles])
    frame = pd.DataFrame({"smiles": smiles, "score": -((logp - logp.mean()) ** 2)})
    frame[:N].to_csv(out / "y.csv", index=False)
    frame[N : N + N_MORE].to_csv(out / "new.csv", index=False)
    frame[N + N_MORE :].to_csv(out / "others.csv", index=False)
    fit(out / "y.csv", output=out / "model", direction="maximize")
    return out


def process(model: Path) -> ExactGP:
    gp = read_model(model).gp
    assert isinstance(gp, ExactGP)
    return gp


def rows(*files: Path, spec: FingerprintSpec = SPEC) -> tuple[Any, np.ndarray]:
    frame = pd.concat(map(pd.read_csv, files))
    return Fingerprinter(spec)(list(frame.smiles)).fingerprints, frame.score.to_numpy()


def test_a_metric_is_taken_by_default_and_told(made: Path) -> None:
    X, y = rows(made / "y.csv")
    gp, choice = process(made / "model"), choose_kernel(X, y, SPEC.columns)
    assert isinstance(gp.kernel, MetricGaussian)
    assert gp.kernel_choice_ == choice
    assert {"signal_variance": gp.signal_variance, "noise_variance": gp.noise_variance} == choice.variances
    new, truth = rows(made / "others.csv")
    mean, std = gp.predict(new, return_std=True)
    usual = ExactGP(choice.trials[-2].kernel).fit(X, y)
    assert np.mean((mean - truth) ** 2) < 0.8 * np.mean((usual.predict(new) - truth) ** 2)
    assert 0.4 < np.mean(((mean - truth) / std) ** 2) < 1.6
    words = str(status(made / "model"))
    assert f"{gp.kernel.words()} on all kinds" in words
    assert "in a learned metric of" in words
    assert f"The metric was learned from {N // 2} of the labels" in words
    assert daskrf.load(made / "model").predict(pd.read_csv(made / "others.csv").smiles) == pytest.approx(mean)


def test_variances_that_are_given_stay(made: Path, tmp_path: Path) -> None:
    fit(made / "y.csv", output=tmp_path / "model", direction="maximize", noise_variance=0.5)
    gp = process(tmp_path / "model")
    assert gp.noise_variance == 0.5
    assert gp.signal_variance == gp.kernel_choice_.variances["signal_variance"]  # type: ignore[union-attr]


def test_conjugate_gradients_solve_the_same_equations(made: Path, tmp_path: Path) -> None:
    fit(made / "y.csv", output=tmp_path / "model", direction="maximize", solver="cg")
    gp, factored = process(tmp_path / "model"), process(made / "model")
    assert (gp.solver_, gp.kernel_choice_) == ("cg", factored.kernel_choice_)
    new, truth = rows(made / "others.csv")
    np.testing.assert_allclose(gp.predict(new), factored.predict(new), atol=3e-3 * np.ptp(truth))
    ratios = gp.predict(new, return_std=True)[1] / factored.predict(new, return_std=True)[1]
    assert 0.8 < np.median(ratios) < 1.25


def test_each_fold_learns_its_own_metric(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with more labels than those for which each fold chooses a kernel anyway."""
    monkeypatch.setattr(heldout, "FEW_LABELS", 10)
    (made / "all.csv").write_text((made / "y.csv").read_text() + (made / "new.csv").read_text()[13:])
    spec = FingerprintSpec(["morgan:2", "morgan:2:features"])  # in whose metrics logP is the better by far
    fingerprint(made / "all.csv", made / "fp", spec=spec)
    report = evaluate(made / "fp", made / "all.csv", key="smiles", folds=5)
    (target,) = report.targets
    X, y = rows(made / "all.csv", spec=spec)
    fold = np.array(report.table["fold"].to_pylist())
    words = [found["kernel"] for found in target.hyperparameters]
    learned = [k for k, kernel in enumerate(words, start=1) if "in a learned metric of" in kernel]
    assert len(learned) >= 2
    for k in learned[:2]:
        known = fold != k
        choice = choose_kernel(X[known], y[known], spec.columns)
        assert words[k - 1] == choice.kernel.words()
        gp = ExactGP(choice.kernel, **choice.variances).fit(X[known], y[known])
        mean = report.table["mean"].to_numpy()[~known]
        np.testing.assert_allclose(mean, gp.predict(X[~known]), rtol=1e-6)
    assert "kernel, mean and variances were fitted in each fold" in str(report)


def test_variances_go_with_the_kernel_when_labels_are_added(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = process(made / "model")
    add(made / "model", made / "new.csv", output=tmp_path / "same")
    same = process(tmp_path / "same")
    assert (same.kernel, same.noise_variance, same.kernel_choice_) == (
        old.kernel,
        old.noise_variance,
        old.kernel_choice_,
    )
    X, y = rows(made / "y.csv", made / "new.csv")
    new, _ = rows(made / "others.csv")
    alone = ExactGP(old.kernel, **old.kernel_choice_.variances).fit(X, y)  # type: ignore[union-attr]
    np.testing.assert_allclose(same.predict(new), alone.predict(new), rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(adding, "_CHOOSE_AGAIN", 1.1)
    report = add(made / "model", made / "new.csv", output=tmp_path / "again")
    again, choice = process(tmp_path / "again"), choose_kernel(X, y, SPEC.columns)
    assert report.choices == (("score", again.kernel_choice_),)
    assert again.kernel_choice_ == choice
    assert {name: getattr(again, name) for name in choice.variances} == choice.variances
    # A kernel with usual distances has its variances by the evidence.
    monkeypatch.setattr("daskrf.gp.choice.kernelchoice._FEWEST_LEARN", 10**6)
    add(made / "model", made / "new.csv", output=tmp_path / "usual")
    usual = process(tmp_path / "usual")
    assert not isinstance(usual.kernel, MetricGaussian)
    assert (usual.signal_variance, usual.noise_variance) == (None, None)


def test_batches_pages_and_explanations(made: Path, tmp_path: Path) -> None:
    """The page does not judge the model by labels that its metric has seen."""
    report = suggest(made / "model", made / "others.csv", tmp_path / "batch.csv", n=20)
    chosen = pd.read_csv(made / "others.csv").set_index("smiles").score
    assert chosen[report.table["smiles"].to_pylist()].median() > chosen.quantile(0.7)
    page(tmp_path / "batch.csv", tmp_path / "batch.html", model=made / "model")
    text = (tmp_path / "batch.html").read_text()
    assert "daskrf evaluate" in text
    assert 'alt="Each label' not in text
    assert "nearest labelled molecules" in str(explain(made / "model", report.table["smiles"][0].as_py()))
