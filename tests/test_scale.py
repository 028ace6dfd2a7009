"""The benchmark of large libraries: what it puts in place of RDKit and of real stores is true to them."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daskrf import fingerprint
from daskrf.jobs.pieces import Partitions
from daskrf.jobs.tree import Root, Tree
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import Store

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return the function that imports a module of the folder, as if a script of it were run."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if (BENCHMARKS / f"{name}.py").exists():
            del sys.modules[name]


def test_the_store_of_many_partitions_is_complete_until_one_is_damaged(script, tmp_path):
    resume = script("resume")
    (tmp_path / "a.smi").write_text("".join(f"{'C' * n}O m{n}\n" for n in range(1, 30)))
    fingerprint(tmp_path / "a.smi", tmp_path / "one")
    store = resume.multiply(FingerprintStore.open(tmp_path / "one"), tmp_path / "many", 40)
    assert store.pending() == []
    assert store.counts()["kept"] == 40 * 29
    assert store.verify(17) == []
    found = resume.scan_times(store)
    assert found["partitions"] == 40
    assert found["objects_per_partition"] > 4
    shutil.rmtree(store.partition_path(17))
    store.record_path(30).unlink()
    assert store.pending() == [17, 30]


def draws_of(script: Any, folder: Path, **shares: float) -> Any:
    given = {"kills": 0.0, "errors": 0.0, **shares}
    return script("simulated_workers").Draws(0, 1e-3, 0.2, folder=str(folder), **given)


def test_drawn_seconds_have_the_mean_and_the_spread_asked_for(script, tmp_path):
    draws = draws_of(script, tmp_path, kills=0.1, errors=0.05)
    seconds = [draws.seconds(n) for n in range(2_000)]
    assert np.mean(seconds) == pytest.approx(1e-3, rel=0.02)
    assert np.std(np.log(seconds)) == pytest.approx(0.2, rel=0.05)
    fates = [draws.fate(n) for n in range(2_000)]
    assert fates.count("kill") == pytest.approx(200, abs=45)
    assert fates.count("error") == pytest.approx(100, abs=35)


def test_a_simulated_job_is_done_by_the_real_driver_after_an_error_a_task(script, tmp_path):
    (tmp_path / "fates").mkdir()
    stage = script("simulated_workers").SleepStage
    partitions = [{"start": 10 * p, "stop": 10 * p + 10} for p in range(6)]
    store = Store.create(tmp_path / "store", "predictions", {}, partitions)
    failing = stage(str(store.path), draws_of(script, tmp_path / "fates", errors=1.0), 1.0)
    for left in (6, 6, 5, 4, 3, 2):  # the first partition that is left has its first run
        assert len(store.pending()) == left
        with pytest.raises(OSError, match="simulated"):  # without a client there is no second attempt
            Partitions(failing, store, [10] * 6).make()
    assert Partitions(failing, store, [10] * 6).make().made == 1
    assert store.counts() == {"read": 60, "kept": 60, "rejected": 0}


def test_a_simulated_fold_counts_every_leaf(script, tmp_path):
    reduction = script("simulated_workers").SleepFold(draws_of(script, tmp_path), 0.0, 0.0, 0.0)
    groups = [(p,) for p in range(70)]
    tree = Tree([Root(reduction, tuple, tmp_path / "partials", "0")], groups, [1] * 70)
    assert tree.make().made == 70
    assert tree.result().n == 70
