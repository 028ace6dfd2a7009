"""What fit finds by a sample of the labels: a map, its length scale, or that of an exact kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from distributed import Client

from daskrf import (
    ExactGP,
    FastfoodFeatures,
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    evaluate,
    featurize,
    fingerprint,
    fit,
    plan,
    predict,
    status,
)
from daskrf.errors import InputError, StoreError
from daskrf.fitting.mapsearch import LabelledSample, labelled_sample
from daskrf.gp import AutoMap, choose_length_scale, choose_map
from daskrf.gp.choice.lengthscale import usual_length_scale
from daskrf.jobs.job import Run
from daskrf.jobs.shards import run_shard
from daskrf.kernels import Gaussian
from daskrf.measurements import Reading
from daskrf.models.joinedlabels import labels_of
from daskrf.models.models import read_model
from daskrf.storage.stores.fingerprintstore import FingerprintStore

ASKED = GaussianMaclaurinFeatures(60, length_scale="auto", random_state=3)


@pytest.fixture(scope="module")
def store(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mapsearch") / "fp"
    fingerprint(inputs[0], path, rows_per_partition=50)
    return path


@pytest.fixture(scope="module")
def report(store: Path, inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return fit(store, inputs[1], tmp_path_factory.mktemp("models") / "model", feature_map=ASKED)


def sample(store: Path, labels: Path, work: Path, size: int = 10**6) -> LabelledSample:
    found = FingerprintStore.open(store)
    joined = labels_of(labels, found, work, Reading("id")).joined
    return labelled_sample(Run(work / "model"), found, joined, size, 0)


def test_the_sample_is_the_labelled_molecules(
    store: Path, inputs: tuple[Path, Path], tmp_path: Path, client: Client
) -> None:
    found = FingerprintStore.open(store)
    lines = [line.split(",") for line in inputs[1].read_text().splitlines()[1:]]
    (tmp_path / "twice.csv").write_text(
        "id,y\n" + "".join(f"{k},{v}\n" for k, v in lines) + f"{lines[7][0]},-6.5\n"
    )
    joined = labels_of(tmp_path / "twice.csv", found, tmp_path, Reading("id")).joined
    assert len(joined.row) == len(lines) + 1
    whole = labelled_sample(Run(tmp_path / "a"), found, joined, 10**6, 0)
    X, y = whole.X, whole.y
    assert y.tobytes() == joined.y.tobytes()
    for row, own in zip(joined.row, X, strict=True):
        p = int(np.searchsorted(found.row_bounds, row, side="right")) - 1
        kept = found.read_rows(p, ["row"])["row"].to_numpy()
        expected = found.read_fingerprints(p)[int(np.searchsorted(kept, row))]
        assert (own != expected).nnz == 0
    some = labelled_sample(Run(tmp_path / "b"), found, joined, 40, 0)
    there = labelled_sample(Run(tmp_path / "c", client=client), found, joined, 40, 0)
    assert len(some.y) == 40
    assert set(some.y[:, 0]) <= set(y[:, 0])
    assert (some.X != there.X).nnz == 0
    assert some.y.tobytes() == there.y.tobytes()
    other = labelled_sample(Run(tmp_path / "d"), found, joined, 40, 1)
    assert other.y.tobytes() != some.y.tobytes()


def test_the_length_scale_is_that_of_the_evidence(
    report: Any, store: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    some = sample(store, inputs[1], tmp_path)
    X, y = some.X, some.y
    expected = choose_length_scale(ASKED, X, y, random_state=3)
    assert report.length_scale.length_scale == expected.length_scale
    assert report.length_scale.length_scales == expected.length_scales
    assert f"{expected.length_scale:g} " in str(report)
    assert "taken" in str(report)
    assert "taken" in str(status(report.model))
    model = read_model(report.model)
    assert model.metadata["map"]["parameters"]["length_scale"] == expected.length_scale
    given = GaussianMaclaurinFeatures(60, length_scale=expected.length_scale, random_state=3)
    same = fit(store, inputs[1], tmp_path / "given", feature_map=given)
    assert same.log_marginal_likelihood == report.log_marginal_likelihood
    assert same.length_scale is None


def test_workers_and_shards_find_the_same(
    report: Any, store: Path, inputs: tuple[Path, Path], tmp_path: Path, client: Client
) -> None:
    there = fit(store, inputs[1], tmp_path / "there", feature_map=ASKED, client=client)
    assert there.length_scale == report.length_scale or (
        there.length_scale.state() == report.length_scale.state()
    )
    for shard in ("1/2", "0/2"):
        run_shard(fit, shard, store, inputs[1], tmp_path / "cut", feature_map=ASKED)
    with patch("daskrf.fitting.mapsearch.choose_length_scale", side_effect=AssertionError("searched again")):
        cut = fit(store, inputs[1], tmp_path / "cut", feature_map=ASKED)
    assert cut.length_scale.state() == report.length_scale.state()
    assert cut.log_marginal_likelihood == report.log_marginal_likelihood


def test_what_was_found_is_not_searched_again(
    report: Any, store: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    """After a run was killed, and for a model that is there already."""
    killed = patch("daskrf.fitting.parts.FeatureSums.solve", side_effect=KeyboardInterrupt)
    with killed, pytest.raises(KeyboardInterrupt):
        fit(store, inputs[1], tmp_path / "model", feature_map=ASKED)
    with patch("daskrf.fitting.mapsearch.choose_length_scale", side_effect=AssertionError("searched again")):
        again = fit(store, inputs[1], tmp_path / "model", feature_map=ASKED)
        there = fit(store, inputs[1], tmp_path / "model", feature_map=ASKED)
    assert again.length_scale.state() == there.length_scale.state() == report.length_scale.state()
    assert there.log_marginal_likelihood == report.log_marginal_likelihood
    predict(tmp_path / "model", inputs[0], tmp_path / "p")


def test_several_targets_with_gaps_share_a_length_scale(
    store: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    lines = inputs[1].read_text().splitlines()[1:]
    text = [f"{line},{i if i % 3 else ''}" for i, line in enumerate(lines)]
    (tmp_path / "two.csv").write_text("id,a,b\n" + "\n".join(text) + "\n")
    report: Any = fit(
        store, tmp_path / "two.csv", tmp_path / "m", feature_map=ASKED, target=["a", "b"],
        drop_non_numbers=True,
    )  # fmt: skip
    assert report.length_scale.length_scales
    assert str(report).count("taken") == 1
    judged = str(evaluate(store, inputs[1], feature_map=ASKED, folds=2))
    assert "the length scale was found on all labels; mean and" in judged


@pytest.mark.parametrize("n", [2, 19])
def test_few_labels_get_the_usual_length_scale(
    n: int, store: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    lines = inputs[1].read_text().splitlines()[: n + 1]
    (tmp_path / "few.csv").write_text("\n".join(lines) + "\n")
    fixed: dict[str, Any] = {"signal_variance": 1.0, "noise_variance": 0.1} if n == 2 else {}
    report: Any = fit(store, tmp_path / "few.csv", tmp_path / "m", feature_map=ASKED, **fixed)
    X = sample(store, tmp_path / "few.csv", tmp_path / "w").X
    assert report.length_scale.length_scale == usual_length_scale(X, 3)
    assert "too few labels to find a length scale" in str(report)


def test_landmarks_and_labels_without_a_library(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    smiles = {line.split()[1]: line.split()[0] for line in inputs[0].read_text().splitlines() if " m" in line}
    lines = [line.split(",") for line in inputs[1].read_text().splitlines()[1:101]]
    (tmp_path / "alone.csv").write_text("smiles,y\n" + "".join(f"{smiles[k]},{v}\n" for k, v in lines))
    landmarks = LandmarkFeatures(20, kernel=Gaussian("auto"))
    report: Any = fit(tmp_path / "alone.csv", output=tmp_path / "m", feature_map=landmarks)
    found = read_model(tmp_path / "m").metadata["map"]["parameters"]["kernel"]["parameters"]
    assert found["length_scale"] == report.length_scale.length_scale


def test_the_length_scale_of_an_exact_kernel(store: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    report: Any = fit(store, inputs[1], tmp_path / "m", kernel=Gaussian("auto"))
    (choice,) = report.choices
    assert choice.asked == Gaussian("auto")
    assert choice.kernel == max(choice.trials, key=lambda trial: trial.log_probability).kernel
    gp = read_model(tmp_path / "m").gp
    assert isinstance(gp, ExactGP)
    assert gp.kernel == choice.kernel
    assert str(report).count("  taken") == 1
    again: Any = fit(store, inputs[1], tmp_path / "m", kernel=Gaussian("auto"))
    assert again.kernel == report.kernel
    found: Any = evaluate(store, inputs[1], kernel=Gaussian("auto"), folds=2)
    assert "kernel, mean and variances were fitted in each fold" in str(found)


def test_what_has_no_labels_needs_a_number(store: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    for feature_map in (ASKED, LandmarkFeatures(8, kernel=Gaussian("auto"))):
        with pytest.raises(InputError, match=r"not known yet: fit chooses it .* a number \(--length-scale\)"):
            featurize(store, feature_map, tmp_path / "phi")
    with pytest.raises(InputError, match="not known yet"):
        Gaussian("auto")(np.eye(3))
    with pytest.raises(InputError, match="not known yet"):
        ASKED.fit(np.eye(3))
    assert not list(tmp_path.iterdir())
    featurize(store, GaussianMaclaurinFeatures(60, length_scale=9.0), tmp_path / "phi")
    with pytest.raises(InputError, match="leave out the options of the map"):
        fit(tmp_path / "phi", inputs[1], tmp_path / "m", feature_map=ASKED)
    assert "60" in str(plan(inputs[0], feature_map=ASKED, labels=100, sample=200))


def test_a_map_is_chosen_once(store: Path, inputs: tuple[Path, Path], tmp_path: Path, client: Client) -> None:
    asked = AutoMap(40, random_state=2)
    killed = patch("daskrf.fitting.parts.FeatureSums.solve", side_effect=KeyboardInterrupt)
    with killed, pytest.raises(KeyboardInterrupt):
        fit(store, inputs[1], tmp_path / "model", feature_map=asked, client=client)
    with patch("daskrf.fitting.mapsearch.choose_map", side_effect=AssertionError("chosen again")):
        report: Any = fit(store, inputs[1], tmp_path / "model", feature_map=asked)
        there: Any = fit(store, inputs[1], tmp_path / "model", feature_map=asked)
    some = sample(store, inputs[1], tmp_path / "w")
    X, y = some.X, some.y
    choice = choose_map(asked.candidates, X, y, random_state=2)
    for found in (report, there):
        assert found.map_choice.feature_map.state() == choice.feature_map.state()
        assert len(found.map_choice.trials) == 4
        assert "maps tried, 50 of 250 labels left out" in str(found)
    assert "maps tried" in str(status(tmp_path / "model"))
    assert read_model(tmp_path / "model").metadata["map"]["class"] == type(choice.feature_map).__name__
    with pytest.raises(StoreError):
        fit(store, inputs[1], tmp_path / "model", feature_map=AutoMap(41, random_state=2))
    predict(tmp_path / "model", inputs[0], tmp_path / "p")
    judged = str(evaluate(store, inputs[1], feature_map=asked, folds=2))
    assert "the map was chosen on all labels; mean and variances were fitted in each fold" in judged


def test_what_a_map_is_not_chosen_for(store: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    featurize(store, GaussianMaclaurinFeatures(60, length_scale=9.0), tmp_path / "phi")
    with pytest.raises(InputError, match="leave out the options of the map"):
        fit(tmp_path / "phi", inputs[1], tmp_path / "m", feature_map=AutoMap())
    with pytest.raises(InputError, match="An exact process has no features"):
        fit(store, inputs[1], tmp_path / "m", feature_map=AutoMap(), process="exact")
    with pytest.raises(InputError, match="must be an object such as"):
        featurize(store, AutoMap(), tmp_path / "m")  # type: ignore[arg-type]


def test_fingerprints_are_folded_for_the_search_as_for_the_fit(
    store: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    for fold, columns in ((None, "2,048"), (128, "128")):
        path = tmp_path / columns
        report: Any = fit(
            store, inputs[1], path, feature_map=FastfoodFeatures(Gaussian("auto"), 32), fold=fold
        )
        assert report.length_scale.length_scales
        assert f"folded to {columns} columns" in str(report)
        predict(path, inputs[0], tmp_path / f"{columns}.csv")
