"""The prediction store: values and rejects come back, and the counts add up."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from daskrf.errors import StoreError
from daskrf.storage.inspection import verify
from daskrf.storage.stores.predictions import PredictionStore
from tests.storage.strategies import rejects_table

PLAN: dict = {"source": "ab" * 32, "model": "cd" * 32, "options": {"std": True}, "rows": [5, 4]}


def table(rows: list[int]) -> pa.Table:
    return pa.table({"row": pa.array(rows, pa.int64()), "mean": np.linspace(-1, 1, len(rows))})


def test_values_and_rejects_come_back(tmp_path: Path) -> None:
    store = PredictionStore.new(tmp_path / "p", **PLAN)
    assert [store.partition_rows(p) for p in range(store.n_partitions)] == [5, 4]
    record = store.write_partition(0, table([0, 2, 4]), rejects_table([1, 3]))
    assert record.counts == {"read": 5, "kept": 3, "rejected": 2}
    assert [item.path for item in record.objects] == ["000000.parquet", "_rejects/000000.parquet"]
    store.write_partition(1, table([5, 6, 7, 8]), counts={"read": 4, "empty": 1})
    assert store.read(0).equals(table([0, 2, 4]))
    assert store.read(1, ["row"])["row"].to_pylist() == [5, 6, 7, 8]
    assert store.read_rejects(0).equals(rejects_table([1, 3]))
    assert store.read_rejects(1).num_rows == 0
    assert store.counts() == {"read": 9, "kept": 7, "rejected": 2, "empty": 1}
    assert not store.rejects_path(1).exists()


def test_damaged_or_lost_rejects_are_seen(tmp_path: Path) -> None:
    store = PredictionStore.new(tmp_path / "p", **{**PLAN, "rows": [5]})
    store.write_partition(0, table([0]), rejects_table([1, 2]))
    store.rejects_path(0).unlink()
    assert store.pending() == [0]
    with pytest.raises(StoreError, match=r"_rejects/000000\.parquet is missing"):
        store.read_rejects(0)
    store.write_partition(0, table([0, 1]))
    assert (store.pending(), store.read_rejects(0).num_rows) == ([], 0)
    assert verify(store.path).sound


def test_counts_that_do_not_add_up_are_refused(tmp_path: Path) -> None:
    store = PredictionStore.new(tmp_path / "p", **PLAN)
    with pytest.raises(StoreError, match="do not add up: rejected is given as 1, but is 2"):
        store.write_partition(0, table([0, 2, 4]), rejects_table([1, 3]), {"rejected": 1})
    with pytest.raises(StoreError, match="lacks the column 'reason'"):
        store.write_partition(0, table([0]), rejects_table([1]).drop_columns("reason"))
    assert store.pending() == [0, 1]


@pytest.mark.parametrize(
    "change", [{"source": "ef" * 32}, {"model": "ef" * 32}, {"options": {"std": False}}, {"rows": [5, 5]}]
)
def test_anything_else_is_another_specification(tmp_path: Path, change: dict) -> None:
    PredictionStore.new(tmp_path / "p", **PLAN)
    with pytest.raises(StoreError, match="with other options"):
        PredictionStore.new(tmp_path / "p", **{**PLAN, **change})
