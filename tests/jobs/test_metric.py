"""Models whose metric is learned from labels: fit, evaluate, predict, add, and screens of a space."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from rdkit import Chem

from daskrf import (
    CompositionFeatures,
    FingerprintSpec,
    LandmarkFeatures,
    RandomFourierFeatures,
    add,
    evaluate,
    featurize,
    fingerprint,
    fit,
    plan,
    predict,
    screen,
    status,
)
from daskrf.cli.app import run
from daskrf.errors import InputError, StoreError
from daskrf.gp import choose_metric
from daskrf.jobs.shards import run_shard
from daskrf.kernels import MetricGaussian
from daskrf.models.models import feature_map_of, read_model
from daskrf.molecules import Fingerprinter
from daskrf.spaces import cut, read_space
from tests.naive.spaces import Made, best_products, every_product
from tests.spaces.helpers import SPACES, write_space

SPEC = FingerprintSpec("morgan:1")
AUTO = MetricGaussian("auto", "auto")
ASKED = RandomFourierFeatures(AUTO, 150)
OPTIONS = "--kind morgan:1 --map fourier --kernel metric -M 150 --direction maximize"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A space, scores of some of its products by a few sums over the molecule, and a model by the command."""
    out = tmp_path_factory.mktemp("metric")
    reactions = {name: SPACES[name] for name in ("amide", "boc", "urea", "imide")}
    space = cut(read_space(write_space(out / "space", reactions)), SPEC)
    every = {one.smiles for one in every_product(space, lambda smiles: np.zeros(len(smiles)))}
    some = np.random.default_rng(0).permutation(sorted(every))[:300]
    random = np.random.default_rng(1)
    lines = []
    for smiles in some:
        atoms = Chem.MolFromSmiles(smiles).GetNumHeavyAtoms()
        score = np.sin(0.5 * atoms) + 0.2 * smiles.count("N") + 0.02 * random.normal()
        lines.append(f"{smiles},{score}\n")
    (out / "y.csv").write_text("smiles,score\n" + "".join(lines[:240]))
    (out / "new.csv").write_text("smiles,score\n" + "".join(lines[240:]))
    assert run(["fit", str(out / "y.csv"), "-o", str(out / "model"), *OPTIONS.split(), "--workers", "0"]) == 0
    return out


@pytest.fixture(scope="module")
def store(made: Path) -> Path:
    fingerprint(made / "y.csv", made / "fp", spec=SPEC)
    return made / "fp"


def kernel_of(model: Path) -> MetricGaussian:
    found = feature_map_of(read_model(model)).kernel_
    assert isinstance(found, MetricGaussian)
    return found


def means(model: Path, smiles: list[str]) -> np.ndarray:
    """Return the means of molecules, one by one: equal fingerprints get exactly equal means."""
    found, first, gp = [], {}, read_model(model).gp
    rows, feature_map = Fingerprinter(SPEC)(smiles).fingerprints, feature_map_of(read_model(model))
    for row in rows:
        key = row.indices.tobytes() + row.data.tobytes()
        if key not in first:
            first[key] = float(gp.predict(feature_map.transform(row)).ravel()[0])
        found.append(first[key])
    return np.array(found)


def test_the_metric_is_that_of_the_labels(made: Path) -> None:
    lines = [line.split(",") for line in (made / "y.csv").read_text().splitlines()[1:]]
    rows = Fingerprinter(SPEC)([smiles for smiles, _ in lines]).fingerprints
    found = choose_metric(rows, np.array([float(score) for _, score in lines]))
    assert found.rounds > 0
    assert found.trials[found.rounds].r2 > found.trials[0].r2 + 0.1
    assert kernel_of(made / "model") == found.kernel
    told = str(status(made / "model"))
    assert kernel_of(made / "model").words() in told
    assert "metrics tried, 48 of 240 labels left out" in told
    assert len(told) < 3000


def test_hits_of_a_space_are_those_of_a_list(made: Path, tmp_path: Path) -> None:
    space = cut(read_space(made / "space"), SPEC)
    every: list[Made] = every_product(space, lambda smiles: means(made / "model", list(smiles)))
    for k, maximize in ((40, True), (7, False)):
        report = screen(made / "model", made / "space", tmp_path / f"{k}.parquet", k=k, maximize=maximize)
        scored = every if maximize else [one._replace(score=-one.score) for one in every]
        expected, table = best_products(scored, k), report.table.to_pydict()
        assert table["smiles"] == [one.smiles for one in expected]
        np.testing.assert_allclose(
            table["acquisition"], [one.score for one in expected], rtol=1e-9, atol=1e-9
        )


def test_predictions_of_new_molecules(made: Path, tmp_path: Path) -> None:
    predict(made / "model", made / "new.csv", tmp_path / "p.csv")
    lines = [line.split(",") for line in (tmp_path / "p.csv").read_text().splitlines()]
    given = [line.split(",") for line in (made / "new.csv").read_text().splitlines()[1:]]
    at = lines[0].index("mean")
    found = np.array([float(line[at]) for line in lines[1:]])
    np.testing.assert_allclose(found, means(made / "model", [smiles for smiles, _ in given]), rtol=1e-6)
    y = np.array([float(score) for _, score in given])
    assert np.var(y - found) < 0.5 * np.var(y)


def test_what_was_learned_is_not_learned_again(made: Path, store: Path, tmp_path: Path) -> None:
    """After a run was killed, in other shards, and for a model that is there already."""
    given: dict[str, Any] = {"feature_map": ASKED, "key": "smiles", "target": "score"}
    killed = patch("daskrf.fitting.parts.FeatureSums.solve", side_effect=KeyboardInterrupt)
    with killed, pytest.raises(KeyboardInterrupt):
        fit(store, made / "y.csv", tmp_path / "model", **given)
    run_shard(fit, "1/2", store, made / "y.csv", tmp_path / "cut", **given)
    with patch("daskrf.fitting.mapsearch.choose_metric", side_effect=AssertionError("learned again")):
        first: Any = fit(store, made / "y.csv", tmp_path / "model", **given)
        again: Any = fit(store, made / "y.csv", tmp_path / "model", **given)
        run_shard(fit, "0/2", store, made / "y.csv", tmp_path / "cut", **given)
        together: Any = fit(store, made / "y.csv", tmp_path / "cut", **given)
    assert first.metric == again.metric == together.metric
    assert str(first).count("  taken") == 1
    assert first.metric.kernel == kernel_of(tmp_path / "cut") == kernel_of(made / "model")
    assert first.log_marginal_likelihood == again.log_marginal_likelihood == together.log_marginal_likelihood
    with pytest.raises(StoreError) as error:
        fit(store, made / "y.csv", tmp_path / "model", feature_map=ASKED.__class__(AUTO, 152), key="smiles")
    assert "--n-components (was 150, now 152)" in str(error.value)
    assert len(str(error.value)) < 500


def test_labels_are_added_with_the_metric_that_is_there(made: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    fit(made / "y.csv", output=model, spec=SPEC, feature_map=ASKED, direction="maximize")
    kernel = kernel_of(model)
    with patch("daskrf.fitting.mapsearch.choose_metric", side_effect=AssertionError("learned again")):
        report = add(model, made / "new.csv")
    assert "60 labels added, 300 in all" in str(report)
    assert kernel_of(model) == kernel
    screen(model, made / "space", tmp_path / "h.parquet", k=3)


def test_an_evaluation_learns_a_metric_in_each_fold(made: Path, tmp_path: Path) -> None:
    """One that was learned from all labels would know those that are left out."""
    with patch("daskrf.fitting.heldout.choose_metric", wraps=choose_metric) as learned:
        judged = str(evaluate(made / "y.csv", feature_map=ASKED, folds=3, direction="maximize"))
    assert [len(call.args[1]) for call in learned.call_args_list] == [160, 160, 160]
    assert "metric, mean and variances were fitted in each fold" in judged
    assert len(judged) < 3000


def test_other_maps_of_the_exact_kernel_learn_it_too(made: Path, tmp_path: Path) -> None:
    landmarks = LandmarkFeatures(40, kernel=AUTO)
    report: Any = fit(made / "y.csv", output=tmp_path / "m", spec=SPEC, feature_map=landmarks)
    assert report.metric.kernel == kernel_of(made / "model")
    predict(tmp_path / "m", made / "new.csv", tmp_path / "p.csv")


def test_few_labels_get_usual_distances(made: Path, tmp_path: Path) -> None:
    lines = (made / "y.csv").read_text().splitlines()[:41]
    (tmp_path / "few.csv").write_text("\n".join(lines) + "\n")
    report: Any = fit(tmp_path / "few.csv", output=tmp_path / "m", spec=SPEC, feature_map=ASKED)
    assert report.metric.rounds == 0
    assert "too few or too alike to learn a metric: took the Gaussian kernel (length scale" in str(report)
    screen(tmp_path / "m", made / "space", tmp_path / "h.parquet", k=3, maximize=True)


def test_several_targets_share_a_metric(made: Path, tmp_path: Path) -> None:
    lines = [line.split(",") for line in (made / "y.csv").read_text().splitlines()[1:]]
    text = [f"{s},{y},{2 - float(y) if i % 3 else ''}\n" for i, (s, y) in enumerate(lines)]
    (tmp_path / "two.csv").write_text("smiles,a,b\n" + "".join(text))
    report: Any = fit(
        tmp_path / "two.csv", output=tmp_path / "m", spec=SPEC, feature_map=ASKED, target=["a", "b"],
        drop_non_numbers=True,
    )  # fmt: skip
    assert report.metric.rounds > 0
    assert str(report).count("metrics tried") == 1
    a = [float(y) for _, y in lines]
    b = [2 - float(y) for i, (_, y) in enumerate(lines) if i % 3]
    expected = np.array(report.metric.noise) * [np.var(a), np.var(b)]
    np.testing.assert_allclose(report.noise_variance, expected)
    predict(tmp_path / "m", made / "new.csv", tmp_path / "p.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--map fourier --kernel metric --fold 512", "leave out --fold and --kind descriptors"),
        ("--map fourier --kernel metric --kind morgan --kind descriptors", "leave out --fold and --kind"),
        ("--map fourier --kernel metric --length-scale 9", "chosen together with the metric: leave it out"),
        (
            "--map fourier --kernel metric --metric nonsense",
            "The metric of the kernel is damaged",
        ),
        ("--map fourier --kernel metric --orthogonal", "not orthogonal; leave out orthogonal"),
        ("--map fastfood --kernel metric", "use RandomFourierFeatures"),
        ("--process exact --kernel metric", "An exact process compares a metric with other kernels"),
    ],
)
def test_what_learns_no_metric_refuses_it(
    made: Path, tmp_path: Path, options: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["fit", str(made / "y.csv"), "-o", str(tmp_path / "m"), *options.split(), "--workers", "0"]
    assert run(arguments) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "m").exists()


def test_what_has_no_labels_needs_a_metric(made: Path, store: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="The metric is not known yet: fit learns it from the labels"):
        featurize(store, ASKED, tmp_path / "phi")
    composed = CompositionFeatures(inner=RandomFourierFeatures(AUTO), n_components=16)
    with pytest.raises(InputError, match="The metric is not known yet: fit learns it from the labels"):
        fit(made / "y.csv", output=tmp_path / "m", spec=SPEC, feature_map=composed)
    assert not (tmp_path / "m").exists()
    assert "150" in str(plan(made / "y.csv", feature_map=ASKED, labels=100, sample=200))
    featurize(store, RandomFourierFeatures(kernel_of(made / "model"), 32), tmp_path / "phi")
    told = str(status(tmp_path / "phi"))
    assert kernel_of(made / "model").words() in told
    assert len(told) < 3000


def test_the_noise_is_that_of_the_labels_left_out(made: Path, tmp_path: Path) -> None:
    lines = [line.split(",") for line in (made / "y.csv").read_text().splitlines()[1:]]
    y = np.array([float(score) for _, score in lines])
    report: Any = fit(made / "y.csv", output=tmp_path / "m", spec=SPEC, feature_map=ASKED)
    (noise,) = report.noise_variance
    assert noise == pytest.approx(report.metric.noise[0] * np.var(y))
    assert "noise by the labels left out" in str(status(tmp_path / "m"))
    add(tmp_path / "m", made / "new.csv")
    assert read_model(tmp_path / "m").gp.noise_variance_ == pytest.approx(noise)
    given: Any = fit(made / "y.csv", output=tmp_path / "n", spec=SPEC, feature_map=ASKED, noise_variance=0.3)
    assert given.noise_variance == (0.3,)
