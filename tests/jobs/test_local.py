"""Features about centroids through the pipeline: what predictions make, and what is refused before it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask.array as da
import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone

from daskrf import featurize, fingerprint, fit, gram, predict, screen, status
from daskrf.errors import InputError
from daskrf.features import LocalGaussianFeatures
from daskrf.sources.sources import open_source
from daskrf.storage.kinds import stored_library
from daskrf.storage.stores.predictions import PredictionStore

LOCAL = LocalGaussianFeatures(75, length_scale=6.0, n_centroids=3, random_state=3)


@pytest.fixture(scope="module")
def made(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fingerprints, features of all centroids, and a model."""
    directory = tmp_path_factory.mktemp("local")
    fingerprint(inputs[0], directory / "fp", rows_per_partition=200)
    featurize(directory / "fp", LOCAL, directory / "phi")
    fit(directory / "phi", inputs[1], directory / "model")
    return directory


def test_predictions_make_the_features_of_the_nearest_centroid_alone(
    made: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    """From fingerprints and from SMILES; with the results of all features, which a store holds."""
    plain = LocalGaussianFeatures.transform

    def transform(self: LocalGaussianFeatures, X: Any) -> Any:
        assert not X.shape[0], "features of all centroids were made"
        return plain(self, X)

    found, best = {}, {}
    with patch.object(LocalGaussianFeatures, "transform", transform):
        for name, source in (("phi", made / "phi"), ("fp", made / "fp"), ("smiles", inputs[0])):
            predict(made / "model", source, tmp_path / name)
            hits = screen(
                made / "model", source, tmp_path / f"{name}.parquet", k=5, acquisition="ucb", maximize=False
            ).table
            best[name] = hits["row"].to_pylist()
            store = PredictionStore.open(tmp_path / name)
            table = pa.concat_tables(
                [store.read(p, ["row", "mean", "std"]) for p in range(store.n_partitions)]
            )
            found[name] = np.array([column.to_numpy() for column in table.columns])
    assert best["phi"] == best["fp"] == best["smiles"]
    for name in ("fp", "smiles"):
        np.testing.assert_allclose(found[name], found["phi"], rtol=1e-12)


def test_tasks_that_predict_are_sized_by_the_block_of_a_centroid(made: Path) -> None:
    library = stored_library(made / "fp")
    whole, own = (open_source(library, LOCAL, predicts=predicts) for predicts in (False, True))
    assert own.seconds_per_row == pytest.approx(whole.seconds_per_row / 3)


def test_features_of_16_bits_are_refused(made: Path, tmp_path: Path) -> None:
    lazy = da.from_array(np.eye(4, 3), chunks=(2, 3))
    for refused in (
        lambda: featurize(made / "fp", LOCAL, tmp_path / "half", dtype="float16"),
        lambda: featurize(lazy, clone(LOCAL).fit(np.eye(3)), dtype="float16"),
        lambda: gram(da.zeros((4, 75), dtype="float16"), np.ones(4), feature_map=LOCAL),
    ):
        with pytest.raises(InputError, match=r"cannot be float16.*Use float32"):
            refused()
    assert not list(tmp_path.iterdir())
    with patch.object(LocalGaussianFeatures, "check_dtype"):  # as a store from elsewhere
        featurize(made / "fp", LOCAL, tmp_path / "half", dtype="float16")
    with pytest.raises(InputError, match=r"cannot be float16.*Use float32"):
        predict(made / "model", tmp_path / "half", tmp_path / "predictions")


@pytest.mark.parametrize("given", [{"rows": "some"}, {"residual": "no"}], ids=["rows", "residual"])
def test_options_are_checked_before_the_pass(
    given: dict[str, Any], made: Path, inputs: tuple[Path, Path], tmp_path: Path
) -> None:
    with (
        patch("daskrf.fitting.training.labels_of", lambda *_, **__: pytest.fail("labels were read")),
        pytest.raises(InputError, match=f"{next(iter(given))} must be"),
    ):
        fit(made / "phi", inputs[1], tmp_path / "model", **given)
    assert not list(tmp_path.iterdir())


def test_status_tells_the_options_of_the_model(made: Path, inputs: tuple[Path, Path], tmp_path: Path) -> None:
    assert "rows all, residual\n" in str(status(made / "model"))
    fit(made / "phi", inputs[1], tmp_path / "model", rows="nearest", residual=False)
    assert "rows nearest, no residual\n" in str(status(tmp_path / "model"))
