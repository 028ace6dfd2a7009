"""DataFrames of Dask in the place of files: read partition by partition, with the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import daskrf
from daskrf import TanimotoMinMaxFeatures
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError

SMILES = list(ReactionLibrary().smiles(0, 60))
INDEX = pd.Index([f"key{k}" for k in range(60)], name="key")
FRAME = pd.DataFrame({"smiles": SMILES, "y": np.arange(60.0), "price": [None] * 20 + [2.5] * 40}, index=INDEX)
GIVEN: dict[str, Any] = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.1, "direction": "maximize"}


@pytest.fixture(scope="module")
def lazy() -> Any:
    frame = dd.from_pandas(FRAME, npartitions=4, sort=False)
    assert frame.npartitions == 4
    return frame


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("partitioned") / "model"
    daskrf.fit(FRAME, output=made, feature_map=TanimotoMinMaxFeatures(64), target="y", **GIVEN)
    return made


def test_a_model_of_its_labels_is_the_same(lazy: Any, model: Path, tmp_path: Path) -> None:
    daskrf.fit(lazy, output=tmp_path / "m", feature_map=TanimotoMinMaxFeatures(64), target="y", **GIVEN)
    mean = daskrf.load(tmp_path / "m").predict(SMILES[:9])
    np.testing.assert_array_equal(mean, daskrf.load(model).predict(SMILES[:9]))


def test_predictions_are_a_frame_with_its_index(lazy: Any, model: Path) -> None:
    frame = daskrf.predict(model, lazy).to_pandas()
    plain = daskrf.predict(model, FRAME).to_pandas()
    pd.testing.assert_frame_equal(frame.reset_index(drop=True), plain.reset_index(drop=True))
    assert frame.index.tolist() == plain.index.tolist() == INDEX.tolist()
    series = daskrf.predict(model, lazy["smiles"]).to_pandas()
    assert series.index.tolist() == INDEX.tolist()
    np.testing.assert_array_equal(series["mean"], frame["mean"])


def test_hits_carry_its_columns(lazy: Any, model: Path, tmp_path: Path) -> None:
    hits = daskrf.screen(model, lazy, tmp_path / "h.csv", k=5, where="price present").to_pandas()
    plain = daskrf.screen(model, FRAME, k=5, where="price present").to_pandas()
    assert hits["smiles"].tolist() == plain["smiles"].tolist()
    assert set(hits["price"]) == {"2.5"}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".h.csv.record", "h.csv", "h.csv.log"]


def test_each_partition_is_computed_once(model: Path, tmp_path: Path) -> None:
    computed = tmp_path / "computed"

    def noted(frame: pd.DataFrame) -> pd.DataFrame:
        with computed.open("a") as file:  # in whatever process Dask computes it
            file.write(f"{len(frame)} ")
        return frame

    lazy = dd.from_pandas(FRAME, npartitions=4, sort=False).map_partitions(noted, meta=FRAME.iloc[:0])
    daskrf.predict(model, lazy)
    assert computed.read_text().split() == ["15"] * 4


def test_partitions_that_differ_are_refused(model: Path) -> None:
    def changed(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(price=2.5 if frame["y"].iloc[0] == 0 else "cheap").astype({"price": object})

    lazy = dd.from_pandas(FRAME, npartitions=2, sort=False).map_partitions(changed, meta=FRAME.iloc[:0])
    with pytest.raises(InputError, match="partition 1 of a DataFrame has other types than the first"):
        daskrf.predict(model, lazy)


def test_an_index_is_not_lost(model: Path, tmp_path: Path) -> None:
    (tmp_path / "a.smi").write_text("CCO a\n")
    both = daskrf.predict(model, [FRAME.iloc[:2], "CCO"]).to_pandas()
    assert both.index.tolist() == ["key0", "key1", 0]
    for data in ([FRAME.iloc[:2], tmp_path / "a.smi"], [FRAME.set_index("y", append=True), FRAME]):
        with pytest.raises(InputError, match="their rows have no common index; give them one by one"):
            daskrf.predict(model, data)
    plain = daskrf.predict(model, [FRAME.reset_index(drop=True).iloc[:2], tmp_path / "a.smi"]).to_pandas()
    assert plain["row"].tolist() == [0, 1, 2]
