"""Stores of unfolded fingerprints under maps that need few columns, from fingerprints to hits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr

import daskrf
from daskrf import FingerprintSpec, featurize, fingerprint, fit, predict, screen
from daskrf.cli.app import run
from daskrf.errors import InputError, OptionError
from daskrf.features import (
    FastfoodFeatures,
    FeatureMap,
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    LocalGaussianFeatures,
    MeanFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.jobs.shards import run_shard
from daskrf.kernels import Gaussian, Polynomial
from daskrf.storage.inspection import status
from tests.jobs.job import data_digests, model_arrays

KINDS = ["morgan:1", "lingo"]
MAP = FastfoodFeatures(Gaussian(9.0), 64)


@pytest.fixture(scope="module")
def stores(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Stores of one library, by the number of columns of a kind; 0 is unfolded."""
    path = tmp_path_factory.mktemp("folding")
    for size in (0, 2048, 200):
        spec = FingerprintSpec(KINDS, size=size)
        fingerprint(inputs[0], path / str(size), spec=spec, rows_per_partition=130)
    return {size: path / str(size) for size in (0, 2048, 200)}


def phi(path: Path) -> bytes:
    return zarr.open_array(path / "phi")[:].tobytes()


@pytest.mark.parametrize(
    ("feature_map", "fold"),
    [
        (MAP, None),
        (MAP, 200),
        (RandomFourierFeatures(Gaussian(9.0), 64), 200),
        (RandomFourierFeatures(Gaussian(9.0), 64, orthogonal=True), None),
        (TanimotoMinMaxFeatures(64), 200),
        (MeanFeatures((1, 2), FastfoodFeatures(Gaussian(9.0)), n_components=64), None),
        (GaussianMaclaurinFeatures(length_scale=9.0, n_components=64, random_state=2), 200),
        (RandomMaclaurinFeatures(Polynomial(2, normalize=False), n_components=64), 200),
    ],
    ids=repr,
)
def test_features_and_models_are_those_of_a_folded_store(
    inputs: tuple[Path, Path], stores: dict[int, Path], tmp_path: Path, feature_map: FeatureMap, fold: int
) -> None:
    on_folded = feature_map.for_folded(fold or 2048)
    made = featurize(stores[0], feature_map, tmp_path / "a.phi", fold=fold)
    assert f"fingerprints are folded to {fold or 2048:,} columns a kind as they are read" in str(made)
    assert "folded" not in str(featurize(stores[fold or 2048], on_folded, tmp_path / "b.phi"))
    assert phi(tmp_path / "a.phi") == phi(tmp_path / "b.phi")
    report = fit(stores[0], inputs[1], tmp_path / "a", feature_map=feature_map, fold=fold)
    assert f"folded to {fold or 2048:,} columns" in str(report)
    fit(stores[fold or 2048], inputs[1], tmp_path / "b", feature_map=on_folded)
    one, other = model_arrays(tmp_path / "a"), model_arrays(tmp_path / "b")
    assert set(one) == set(other)
    for name in set(one) - {"statistics/map_key"}:
        assert one[name].tobytes() == other[name].tobytes(), name
    assert f"fingerprints folded to {fold or 2048:,} columns a kind" in "\n".join(
        status(tmp_path / "a").words
    )


@pytest.mark.parametrize("fold", [None, 200])
def test_predictions_and_hits_are_those_of_a_folded_store(
    inputs: tuple[Path, Path], stores: dict[int, Path], tmp_path: Path, fold: int | None
) -> None:
    fit(stores[0], inputs[1], tmp_path / "m0", feature_map=MAP, fold=fold)
    fit(stores[fold or 2048], inputs[1], tmp_path / "m1", feature_map=MAP)
    featurize(stores[0], MAP, tmp_path / "phi", fold=fold)
    found = []
    for model, store in (("m0", stores[0]), ("m1", stores[fold or 2048]), ("m0", tmp_path / "phi")):
        for source in (store, inputs[0]):
            out = tmp_path / str(len(found))
            out.mkdir()
            screen(tmp_path / model, source, out / "hits.csv", k=20, maximize=False)
            predict(tmp_path / model, source, out / "means.csv")
            found.append([pd.read_csv(out / name) for name in ("hits.csv", "means.csv")])
    # Floats to the last digits of features: products of some BLAS depend on where in memory rows begin.
    for hits, means in found:
        pd.testing.assert_frame_equal(hits, found[0][0], rtol=1e-6)
        numbers, expected = (table.select_dtypes(float).to_numpy() for table in (means, found[0][1]))
        np.testing.assert_allclose(numbers, expected, rtol=1e-6, atol=1e-7)
    smiles = ["CCO", "c1ccccc1N", "CC(=O)Nc1ccccc1"]
    one, other = (daskrf.load(tmp_path / model).predict(smiles) for model in ("m0", "m1"))
    assert one.tolist() == other.tolist()


def test_labels_alone_fold_as_well(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    smiles = [line.split()[0] for line in inputs[0].read_text().splitlines()[130:190]]
    labels = tmp_path / "labels.csv"
    labels.write_text("smiles,y\n" + "".join(f"{text},{np.sin(i)}\n" for i, text in enumerate(smiles)))
    spec = FingerprintSpec(KINDS)
    report = fit(labels, None, tmp_path / "a", spec=spec, feature_map=MAP, fold=200)
    assert "folded to 200 columns" in str(report)
    fit(labels, None, tmp_path / "b", spec=FingerprintSpec(KINDS, size=200), feature_map=MAP)
    one, other = (daskrf.load(tmp_path / model).predict(smiles) for model in "ab")
    assert one.tolist() == other.tolist()


def test_the_same_bytes_by_shards(stores: dict[int, Path], tmp_path: Path) -> None:
    featurize(stores[0], MAP, tmp_path / "whole")
    for shard in ("1/2", "0/2"):
        run_shard(featurize, shard, stores[0], MAP, tmp_path / "shards")
    assert data_digests(tmp_path / "whole") == data_digests(tmp_path / "shards")


def test_features_that_are_stored_agree_with_the_map_by_name(
    inputs: tuple[Path, Path], stores: dict[int, Path], tmp_path: Path
) -> None:
    featurize(stores[0], MAP, tmp_path / "phi", fold=200)
    fit(tmp_path / "phi", inputs[1], tmp_path / "m", feature_map=MAP)
    with pytest.raises(InputError, match="another map is needed here"):
        fit(tmp_path / "phi", inputs[1], tmp_path / "n", feature_map=FastfoodFeatures(Gaussian(8.0), 64))
    with pytest.raises(OptionError, match="--fold is for fingerprints"):
        fit(tmp_path / "phi", inputs[1], tmp_path / "n", fold=300)


def test_another_number_of_columns_is_another_model(
    inputs: tuple[Path, Path], stores: dict[int, Path], tmp_path: Path
) -> None:
    fit(stores[0], inputs[1], tmp_path / "m", feature_map=MAP)
    with pytest.raises(daskrf.errors.StoreError, match=r"was 2048, now 200"):
        fit(stores[0], inputs[1], tmp_path / "m", feature_map=MAP, fold=200)


@pytest.mark.parametrize(
    ("feature_map", "size", "fold", "words"),
    [
        (
            MAP,
            2048,
            512,
            "--fold is for unfolded fingerprints, but these are folded already, to 2,048 columns",
        ),
        (MAP, 0, 0, "size must be an integer from 1"),
        (LandmarkFeatures(16), 0, 200, "LandmarkFeatures is not a map for folded fingerprints"),
        (LocalGaussianFeatures(64, n_centroids=2, method="tensorsrht"), 0, None, "fold the fingerprints"),
    ],
    ids=repr,
)
def test_what_cannot_be_folded_is_refused_before_an_output_is_begun(
    inputs: tuple[Path, Path],
    stores: dict[int, Path],
    tmp_path: Path,
    feature_map: FeatureMap,
    size: int,
    fold: int | None,
    words: str,
) -> None:
    with pytest.raises(InputError, match=words):
        fit(stores[size], inputs[1], tmp_path / "out", feature_map=feature_map, fold=fold)
    with pytest.raises(InputError, match=words):
        featurize(stores[size], feature_map, tmp_path / "out", fold=fold)
    assert not (tmp_path / "out").exists()


def test_an_exact_process_does_not_fold(
    inputs: tuple[Path, Path], stores: dict[int, Path], tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match="--fold goes with --map"):
        fit(stores[0], inputs[1], tmp_path / "out", fold=200)


def test_the_command_line_folds(
    inputs: tuple[Path, Path], stores: dict[int, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--map", "fastfood", "--length-scale", "9", "-M", "64", "--fold", "200", "--workers", "0"]
    assert run(["featurize", str(stores[0]), "-o", str(tmp_path / "phi"), *asked]) == 0
    assert "folded to 200 columns a kind" in capsys.readouterr().out
    featurize(stores[200], MAP, tmp_path / "b")
    assert phi(tmp_path / "phi") == phi(tmp_path / "b")
