"""Targets that are two classes, through all commands: what is said, predicted, ranked and added."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from daskrf import FingerprintSpec, add, evaluate, explain, fingerprint, fit, predict, screen, status, suggest
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError, OptionError
from daskrf.features import TanimotoMinMaxFeatures
from daskrf.features.landmarks import LandmarkFeatures
from daskrf.gp.validation.probability import fit_link, without_own_label
from daskrf.kernels import TanimotoMinMax
from daskrf.models.models import read_model
from daskrf.molecules import Fingerprinter

N, SEEN = 150, 90
SMILES = list(ReactionLibrary().smiles(0, N))
SPEC = FingerprintSpec("morgan", radius=1)
X = Fingerprinter(SPEC, "keep")(SMILES).fingerprints
SCORE = np.asarray(X.sum(axis=1)).ravel() + np.random.default_rng(0).standard_normal(N)
BLOCKS = np.quantile(SCORE, 0.7) < SCORE
WORDS = np.where(BLOCKS, "blocks", "nothing")
FRAME = pd.DataFrame({"smiles": SMILES, "hERG": WORDS})
OPTIONS: dict[str, Any] = {"target": "hERG", "positive": "blocks", "spec": SPEC}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("classes") / "a.model"
    report = fit(FRAME[:SEEN], output=path, quick=True, **OPTIONS)
    share = 100 * BLOCKS[:SEEN].mean()
    assert f"hERG: 2 classes, 1 = 'blocks' ({share:.3g} %)" in str(report)
    return path


def test_probabilities_are_those_of_the_link(model: Path) -> None:
    table = predict(model, SMILES).to_pandas()
    gp = read_model(model).gp
    mean, std = gp.predict(gp.X_train_, return_std=True, of="f")
    link = fit_link(*without_own_label(gp.y_train_, mean, std, gp.noise_variance_[0]), gp.y_train_ > 0.5)
    np.testing.assert_allclose(table.probability, link(table["mean"], table["std"]), rtol=1e-9)
    hits = screen(model, SMILES, model.parent / "hits.csv", k=5)
    best = table.probability.sort_values(ascending=False)
    np.testing.assert_allclose(hits.table["probability"], best[:5])
    assert "maximizing the probability that 'hERG' is 'blocks'" in str(hits)
    assert "ranked by the probability of the class" in str(hits)
    worst = screen(model, SMILES, model.parent / "worst.csv", k=5, maximize=False)
    np.testing.assert_allclose(worst.table["probability"], best[::-1][:5])
    by_mean = screen(model, SMILES, model.parent / "means.csv", k=5, std="none")
    np.testing.assert_allclose(by_mean.table["mean"], table["mean"].sort_values(ascending=False)[:5])
    assert "probability" not in by_mean.table.column_names
    named = screen(model, SMILES, model.parent / "named.html", k=5, acquisition="probability")
    assert named.table["row"].to_pylist() == hits.table["row"].to_pylist()
    page = (model.parent / "named.html").read_text()
    assert "hERG (probability of a 1)" in page
    assert "--acquisition probability --maximize" in page
    batch = suggest(model, SMILES, model.parent / "batch.csv", n=3)
    assert batch.table["probability"].to_pylist() == pytest.approx(
        [table.probability[SMILES.index(s)] for s in batch.table["smiles"].to_pylist()]
    )
    assert explain(model, SMILES[-1]).probability == pytest.approx(table.probability.iloc[-1])
    assert "hERG: 'blocks' read as 1 and 'nothing' as 0" in str(status(model))


def test_intervals_of_classes_are_said_to_be_those_of_the_regression(model: Path) -> None:
    assert "is two classes: its intervals are of the regression" in str(predict(model, SMILES, intervals=80))


def test_external_labels_and_more_labels(model: Path, tmp_path: Path) -> None:
    report = evaluate(model, FRAME[SEEN:])
    table = predict(model, SMILES[SEEN:]).to_pandas()
    np.testing.assert_allclose(report.to_pandas().probability, table.probability)
    figures = report.targets[0].figures["daskrf"]
    p = np.where(BLOCKS[SEEN:], table.probability, 1 - table.probability)
    assert figures["log_loss"].value == pytest.approx(-np.log(p).mean())
    added = add(model, FRAME[SEEN:], output=tmp_path / "b.model")
    n = int(BLOCKS[SEEN:].sum())
    assert f"hERG: {n} of {N - SEEN} new labels are positive, and the model expected" in str(added)
    assert f"{table.probability.sum():.1f}; its probabilities have a log loss" in str(added)
    whole = fit(FRAME, output=tmp_path / "c.model", kernel=TanimotoMinMax(), **OPTIONS)
    (one,), (other,) = read_model(tmp_path / "b.model").classes, whole.classes
    assert one is not None
    assert other is not None
    assert (one.n_positive, one.n_labels) == (other.n_positive, other.n_labels) == (BLOCKS.sum(), N)
    at = np.linspace(0, 1, 5), np.full(5, 0.2)
    np.testing.assert_allclose(one.link(*at), other.link(*at), atol=0.02)
    with pytest.raises(InputError, match=r"has the label 2, but the model has two classes"):
        add(model, FRAME[SEEN:].assign(hERG=2.0))


def test_conjugate_gradients_and_features_have_about_the_same_probabilities(
    model: Path, tmp_path: Path
) -> None:
    expected = predict(model, SMILES[SEEN:]).to_pandas().probability
    fit(FRAME[:SEEN], output=tmp_path / "cg", kernel=TanimotoMinMax(), solver="cg", **OPTIONS)
    solved = predict(tmp_path / "cg", SMILES[SEEN:]).to_pandas().probability
    assert np.abs(solved - expected).mean() < 0.1  # the link is from 18 labels
    (tmp_path / "a.smi").write_text("".join(f"{s} m{k}\n" for k, s in enumerate(SMILES)))
    fingerprint(tmp_path / "a.smi", tmp_path / "store", spec=SPEC, rows_per_partition=40)
    named = FRAME.assign(id=[f"m{k}" for k in range(N)])[["id", "hERG"]][:SEEN]
    features = TanimotoMinMaxFeatures(1024)
    options = {"target": "hERG", "positive": "blocks"}
    fit(tmp_path / "store", named, tmp_path / "f", feature_map=features, **options)
    table = predict(tmp_path / "f", tmp_path / "store").to_pandas()
    assert np.abs(table.probability[SEEN:].to_numpy() - expected.to_numpy()).mean() < 0.1
    held = evaluate(tmp_path / "store", named, feature_map=features, folds=2, **options)
    assert held.to_pandas().probability.between(0, 1).all()
    landmarks = fit(
        tmp_path / "store",
        named,
        tmp_path / "l",
        feature_map=LandmarkFeatures(20, kernel=TanimotoMinMax()),
        **options,
    )
    assert "hERG: no probabilities, since these features are of a map on landmarks" in str(landmarks)
    assert "probability" not in predict(tmp_path / "l", tmp_path / "store").to_pandas()


def test_numbers_and_classes_with_gaps(tmp_path: Path) -> None:
    frame = FRAME.assign(logD=np.where(np.arange(N) % 3 == 0, np.nan, SCORE))[:SEEN]
    options = OPTIONS | {"target": ["hERG", "logD"]}
    report = fit(frame, output=tmp_path / "m", quick=True, drop_non_numbers=True, **options)
    assert [each is not None for each in report.classes] == [True, False]
    table = predict(tmp_path / "m", SMILES[SEEN:]).to_pandas()
    assert "probability_hERG" in table
    assert "probability_logD" not in table
    hits = screen(tmp_path / "m", SMILES[SEEN:], tmp_path / "hits.csv", k=3, target="logD", maximize=True)
    assert "probability" not in hits.table.column_names
    with pytest.raises(OptionError, match="'logD' has no probabilities"):
        screen(
            tmp_path / "m",
            SMILES,
            tmp_path / "p.csv",
            acquisition="probability",
            target="logD",
            maximize=True,
        )
    batch = suggest(tmp_path / "m", SMILES[SEEN:], tmp_path / "batch.csv", n=3, target="hERG")
    assert batch.table["probability"].to_numpy().min() >= 0


def test_classes_as_numbers(tmp_path: Path) -> None:
    numbers = FRAME.assign(hERG=BLOCKS * 1)[:SEEN]
    report = fit(numbers, output=tmp_path / "a", quick=True, spec=SPEC, classes=False)
    assert "a Gaussian process regresses such classes" in str(report)
    assert "probability" not in predict(tmp_path / "a", SMILES[SEEN:]).to_pandas()
    report = fit(numbers, output=tmp_path / "a", quick=True, spec=SPEC)  # the same labels
    assert "2 classes" in str(report)
    assert predict(tmp_path / "a", SMILES[SEEN:]).to_pandas().probability.between(0, 1).all()


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (FRAME.assign(hERG="nothing"), {}, "holds only the word 'nothing': a model needs molecules of two"),
        (FRAME, {"positive": ()}, "it is not known which is the positive class; name it, for example"),
        (FRAME, {"positive": "Blocker"}, "and not 'Blocker', which --positive names"),
        (FRAME.assign(hERG=[str(k) + "x" for k in range(N)]), {"positive": ()}, "150 different words"),
        (
            FRAME.assign(hERG="inactive"),
            {"positive": ()},
            "labels of hERG are 0 .inactive., and a model needs",
        ),
        (
            pd.concat([FRAME, FRAME.assign(hERG=WORDS[::-1])]),
            {"repeats": "mean"},
            "labels of both classes of hERG, of which there is no mean",
        ),
    ],
)
def test_one_sentence_each(
    frame: pd.DataFrame, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        fit(frame, output=tmp_path / "m", quick=True, **OPTIONS | options)
    assert not (tmp_path / "m" / "_arrays.json").exists()
