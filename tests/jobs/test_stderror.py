"""Predictions with approximate standard deviations, by `std_error`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import daskrf
from daskrf import TanimotoMinMax, TanimotoMinMaxFeatures
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError, OptionError, StoreError
from daskrf.jobs.shards import run_shard
from daskrf.storage.stores.predictions import PredictionStore

N, M, ERROR = 600, 512, 0.1
SMILES = list(ReactionLibrary().smiles(0, N))
RNG = np.random.default_rng(0)
GIVEN: dict[str, Any] = {"signal_variance": 1.0, "noise_variance": 0.01, "direction": "minimize"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fingerprint store, and models of one target, and of two with gaps."""
    folder = tmp_path_factory.mktemp("stderror")
    (folder / "library.smi").write_text("\n".join(f"{text} m{i}" for i, text in enumerate(SMILES)) + "\n")
    daskrf.fingerprint(folder / "library.smi", folder / "fp", rows_per_partition=150)
    labels = pd.DataFrame(
        {"smiles": SMILES[:150], "a": RNG.standard_normal(150), "b": RNG.standard_normal(150)}
    )
    labels.loc[labels.index % 3 == 0, "b"] = np.nan
    feature_map = TanimotoMinMaxFeatures(M)
    one = labels[["smiles", "a"]]
    daskrf.fit(one, output=folder / "one", feature_map=feature_map, **GIVEN)
    daskrf.fit(
        labels,
        output=folder / "two",
        feature_map=feature_map,
        target=["a", "b"],
        drop_non_numbers=True,
        **GIVEN,
    )
    daskrf.fit(one, output=folder / "exact", process="exact", kernel=TanimotoMinMax(), **GIVEN)
    return folder


@pytest.mark.parametrize("model", ["one", "two"])
def test_errors_are_as_large_as_stated(made: Path, tmp_path: Path, model: str) -> None:
    exact = daskrf.predict(made / model, made / "fp", tmp_path / "exact.csv")
    rough = daskrf.predict(made / model, made / "fp", tmp_path / "rough.csv", std_error=ERROR)
    [note] = [
        note for note in rough.notes if note.startswith("standard deviations are approximate, from 48 ")
    ]
    assert f"of {N // 4} molecules whose exact ones were computed" in note
    assert not any("approximate" in note for note in exact.notes)
    left, right = (pd.read_csv(tmp_path / f"{name}.csv") for name in ("exact", "rough"))
    for name in left.columns:
        if name.startswith("std"):
            errors = right[name] / left[name] - 1
            assert 0 < np.sqrt(np.mean(errors**2)) < 1.2 * ERROR  # those of similar molecules are alike
        else:
            assert (left[name] == right[name]).all()


def test_shards_and_a_whole_run_have_the_same_predictions(made: Path, tmp_path: Path) -> None:
    daskrf.predict(made / "one", made / "fp", tmp_path / "whole", std_error=ERROR)
    for shard in ("0/2", "1/2"):
        run_shard(daskrf.predict, shard, made / "one", made / "fp", tmp_path / "shards", std_error=ERROR)
    report = daskrf.predict(made / "one", made / "fp", tmp_path / "shards", std_error=ERROR)
    assert report.made == 0
    whole, shards = (PredictionStore.open(tmp_path / name) for name in ("whole", "shards"))
    assert [whole.read(p) for p in range(4)] == [shards.read(p) for p in range(4)]
    with pytest.raises(StoreError):
        daskrf.predict(made / "one", made / "fp", tmp_path / "whole")


def test_outputs_with_exact_ones_are_described_as_before(made: Path, tmp_path: Path) -> None:
    daskrf.predict(made / "one", made / "fp", tmp_path / "exact")
    daskrf.predict(made / "one", made / "fp", tmp_path / "rough", std_error=ERROR)
    assert "std_samples" not in PredictionStore.open(tmp_path / "exact").spec["options"]
    assert PredictionStore.open(tmp_path / "rough").spec["options"]["std_samples"] == 48


def test_a_printed_table_says_that_it_is_approximate(made: Path) -> None:
    text = str(daskrf.predict(made / "one", SMILES[:3], std_error=ERROR))
    assert "standard deviations are approximate, from 48 posterior samples: their relative error is" in text


def test_what_makes_no_sense_is_refused(made: Path, tmp_path: Path) -> None:
    def predict(model: str, **options: Any) -> Any:
        return daskrf.predict(made / model, made / "fp", tmp_path / "p", **options)

    with pytest.raises(OptionError, match="is for standard deviations"):
        predict("one", std=False, std_error=0.1)
    for error in (0.0, -0.1, 1.0, 3.0, float("nan")):
        with pytest.raises(OptionError, match="must be a fraction between 0 and 1"):
            predict("one", std_error=error)
    with pytest.raises(InputError, match="takes 480 posterior samples, which cost more than exact"):
        predict("one", std_error=0.01)
    with pytest.raises(InputError, match="are for models on features"):
        predict("exact", std_error=0.1)
