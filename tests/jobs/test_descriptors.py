"""Stores with descriptors: a Gaussian kernel has their columns, and no other kernel or map sees them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr

import daskrf
from daskrf import FingerprintSpec, evaluate, featurize, fingerprint, fit, predict, screen
from daskrf.arrays import column_slice
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.features import (
    FastfoodFeatures,
    FeatureMap,
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    MeanFeatures,
    NystromFeatures,
    RandomFourierFeatures,
    TanimotoDotProductFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.gp import choose_kernel
from daskrf.kernels import Gaussian, Kernel, Mean, TanimotoMinMax
from daskrf.models.models import read_model
from daskrf.molecules import Fingerprinter

KINDS = ["morgan:1", "torsion"]
WIDTH = 2 * 2**32


@pytest.fixture(scope="module")
def stores(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A store with descriptors, and one without."""
    path = tmp_path_factory.mktemp("descriptors")
    for name, kinds in (("with", [*KINDS, "descriptors"]), ("without", KINDS)):
        fingerprint(inputs[0], path / name, spec=FingerprintSpec(kinds), rows_per_partition=130)
    return path / "with", path / "without"


def table(path: Path) -> np.ndarray:
    return pd.read_csv(path).select_dtypes(float).to_numpy()


def test_the_choice_ends_with_descriptors_and_takes_them_where_they_help() -> None:
    spec = FingerprintSpec([*KINDS, "descriptors"])
    X = Fingerprinter(spec)(ReactionLibrary().smiles(0, 300)).fingerprints
    logp = column_slice(X, WIDTH, X.shape[1])[:, :14].toarray().astype(float)[:, 1]
    noise = np.random.default_rng(0).normal(size=300)
    for y, helps in ((np.sin(logp / 60) + 0.05 * noise, True), (noise, False)):
        choice = choose_kernel(X, y, spec.columns)
        assert isinstance(choice.kernel, Mean)
        described = [trial for trial in choice.trials if trial.name.endswith("on descriptors")]
        others = choice.trials[: -len(described)]
        assert described == list(choice.trials[len(others) :])
        assert (choice.kernel in [trial.kernel for trial in described]) == helps
        assert all(trial.kernel.columns[-1] == (WIDTH, X.shape[1]) for trial in described)
        for trial in others:
            assert all(stop <= WIDTH for _, stop in trial.kernel.columns), trial.name
    plain = choose_kernel(column_slice(X, 0, WIDTH), noise, FingerprintSpec(KINDS).columns)
    for trial, other in zip(others, plain.trials, strict=True):
        assert (trial.name, trial.log_probability) == (other.name, pytest.approx(other.log_probability))
    few = choose_kernel(X[:9], noise[:9], spec.columns).kernel
    assert few(X[:9]).tolist() == TanimotoMinMax()(column_slice(X[:9], 0, WIDTH)).tolist()


def test_a_model_of_descriptors_predicts_from_stores_and_files(
    inputs: tuple[Path, Path], stores: tuple[Path, Path], tmp_path: Path
) -> None:
    report = fit(stores[0], inputs[1], tmp_path / "m")
    assert "on descriptors" in str(report)
    kernel = Mean((2.0, 1.0), (TanimotoMinMax(), Gaussian(700.0)), ((0, WIDTH), (WIDTH, WIDTH + 2**32)))
    fit(stores[0], inputs[1], tmp_path / "k", kernel=kernel)
    assert read_model(tmp_path / "k").gp.kernel == kernel
    for source, name in ((stores[0], "a"), (inputs[0], "b")):
        screen(tmp_path / "k", source, tmp_path / f"{name}.hits.csv", k=20, maximize=False)
        predict(tmp_path / "k", source, tmp_path / f"{name}.csv")
    assert table(tmp_path / "a.hits.csv").tolist() == table(tmp_path / "b.hits.csv").tolist()


@pytest.mark.parametrize("kernel", [None, Gaussian(9.0)], ids=repr)
def test_a_kernel_that_is_given_does_not_see_descriptors(
    inputs: tuple[Path, Path], stores: tuple[Path, Path], tmp_path: Path, kernel: Kernel | None
) -> None:
    for name, store in zip("ab", stores, strict=True):
        fit(store, inputs[1], tmp_path / name, kernel=kernel, quick=kernel is None)
        predict(tmp_path / name, store, tmp_path / f"{name}.csv")
    assert np.allclose(table(tmp_path / "a.csv"), table(tmp_path / "b.csv"), rtol=1e-9)
    again = fit(stores[0], inputs[1], tmp_path / "a", kernel=kernel, quick=kernel is None)
    assert again.seconds < 60


@pytest.mark.parametrize(
    "feature_map",
    [
        TanimotoMinMaxFeatures(72),
        TanimotoDotProductFeatures(64, norm_range=(1, 5000)),
        RandomFourierFeatures(Gaussian(9.0), 64),
        FastfoodFeatures(Gaussian(9.0), 64),
    ],
    ids=repr,
)
def test_maps_leave_descriptors_out(
    inputs: tuple[Path, Path], stores: tuple[Path, Path], tmp_path: Path, feature_map: FeatureMap
) -> None:
    alike = MeanFeatures((1.0,), feature_map, ((0, WIDTH),), feature_map.n_components)
    for name, store, own in (("a", stores[0], feature_map), ("b", stores[1], alike)):
        featurize(store, own, tmp_path / name)
        fit(tmp_path / name, inputs[1], tmp_path / f"{name}.model", feature_map=own)
    one, other = (zarr.open_array(tmp_path / name / "phi")[:] for name in "ab")
    assert one.tobytes() == other.tobytes()
    smiles = ["CCO", "c1ccccc1N"]
    one, other = (daskrf.load(tmp_path / f"{name}.model").predict(smiles) for name in "ab")
    assert one.tolist() == other.tolist()


@pytest.mark.parametrize("feature_map", [LandmarkFeatures(40), NystromFeatures(40)], ids=repr)
def test_landmarks_leave_descriptors_out(
    inputs: tuple[Path, Path], stores: tuple[Path, Path], tmp_path: Path, feature_map: FeatureMap
) -> None:
    found = []
    for name, store in zip("ab", stores, strict=True):
        fit(store, inputs[1], tmp_path / name, feature_map=feature_map)
        found.append(daskrf.load(tmp_path / name).predict(["CCO", "c1ccccc1N"]))
    assert np.allclose(*found, rtol=1e-6)


def test_maps_that_cannot_leave_columns_out_are_refused(
    inputs: tuple[Path, Path], stores: tuple[Path, Path], tmp_path: Path
) -> None:
    feature_map = GaussianMaclaurinFeatures(length_scale=9.0, n_components=64)
    for begin in (
        lambda: fit(stores[0], inputs[1], tmp_path / "m", feature_map=feature_map),
        lambda: featurize(stores[0], feature_map, tmp_path / "m"),
    ):
        with pytest.raises(InputError, match="would treat descriptors as counts of features"):
            begin()
    assert not (tmp_path / "m").exists()


def test_an_evaluation_compares_with_the_nearest_molecule_by_structure(
    inputs: tuple[Path, Path], stores: tuple[Path, Path]
) -> None:
    one, other = (evaluate(store, inputs[1], folds=2, quick=True) for store in stores)
    figures = [
        [line for line in str(each).splitlines() if "nearest" in line.lower()] for each in (one, other)
    ]
    assert figures[0] == figures[1] != []
