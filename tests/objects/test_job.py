"""The whole job with inputs, stores, models and hits on an object storage, by two worker processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from distributed import Client

from daskrf import fingerprint, fit, local_cluster, predict, screen, verify
from daskrf.errors import StoreError
from daskrf.files.backend import _Objects
from daskrf.jobs.shards import prepare_shards, run_shard
from daskrf.storage import lock
from daskrf.storage.integrity import sealed, unsealed
from daskrf.storage.lock import StoreLock
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from tests.jobs.conftest import inputs  # noqa: F401  # a fixture
from tests.jobs.job import FEATURES, assert_same_job, data_digests, model_arrays, run_job
from tests.objects.conftest import new_bucket
from tests.objects.remote import remote as named

ROWS = 100  # of a partition


def job(library: Path | str, labels: Path | str, out: Path | str, client: Client | None = None) -> None:
    """The main job in few partitions and tasks: requests take the time."""
    with patch("daskrf.jobs.tree.FAN_IN", 3):
        run_job((named(library), named(labels)), named(out), client, rows_per_partition=ROWS)


@pytest.fixture(scope="module")
def remote(endpoint: str, inputs: tuple[Path, Path], tmp_path_factory) -> tuple[Path, Path]:  # noqa: F811
    """The library and the labels as objects."""
    folder = new_bucket(endpoint) / "inputs"
    for file in inputs:
        (folder / file.name).write_bytes(file.read_bytes())
    return folder / inputs[0].name, folder / inputs[1].name


@pytest.fixture(scope="module")
def workers(endpoint: str) -> Iterator[Client]:
    """Two worker processes that know the storage."""
    with local_cluster(n_workers=2, memory_limit="3GiB", dashboard=False) as client:
        yield client


@pytest.fixture(scope="module")
def local_run(remote: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The job from the same objects into local files, in this process."""
    out = tmp_path_factory.mktemp("local")
    job(*remote, out)
    return out


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run logs of objects are left in the working directory."""
    monkeypatch.chdir(tmp_path)


def test_objects_have_the_bytes_of_local_files(remote, local_run, workers, bucket, tmp_path):
    out = bucket / "runs" / "first"
    job(*remote, out, workers)
    assert_same_job(local_run, out)
    left = {path.name.split(".")[0] for path in (bucket / "runs" / "first").iterdir()}
    assert left == {"fp", "phi", "model", "pred", "hits"}  # no work folders, locks or partial sums
    assert not list((out / "model").rglob("level-*"))
    names = ["fp.log", "hits.parquet.log", "model.log", "phi.log", "pred.log"]
    assert sorted(path.name for path in tmp_path.glob("*.log")) == names


def test_smiles_on_objects_are_scored_as_local_ones(remote, inputs, local_run, workers, bucket):  # noqa: F811
    hits = bucket / "hits.parquet"
    report = screen(str(local_run / "model"), str(remote[0]), str(hits), k=20, client=workers, maximize=False)
    assert report.rejected == 4
    assert (bucket / "hits.rejects.parquet").is_file()
    assert report.table["row"].to_pylist() == (
        screen(local_run / "model", inputs[0], Path("hits.parquet"), k=20, maximize=False)
        .table["row"]
        .to_pylist()
    )
    assert sorted(path.name for path in bucket.iterdir()) == ["hits.parquet", "hits.rejects.parquet"]


def assert_same_model(a: Path, b: Path) -> None:
    left, right = model_arrays(a), model_arrays(b)
    assert {name: array.tobytes() for name, array in left.items()} == {
        name: array.tobytes() for name, array in right.items()
    }


def test_shards_share_a_job(remote, local_run, bucket):
    """Prepared, then by two shards, the last of them first, and then by the last command."""
    fp, model = str(bucket / "fp"), str(bucket / "model")

    def by_shards(stage: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        prepare_shards(stage, *arguments, **options)
        for shard in ("1/2", "0/2"):
            run_shard(stage, shard, *arguments, **options)
        stage(*arguments, **options)

    by_shards(fingerprint, str(remote[0]), fp, rows_per_partition=ROWS)
    with patch("daskrf.fitting.parts._GROUP_ROWS", (1, 1)):
        by_shards(fit, fp, str(remote[1]), model, feature_map=FEATURES)
    assert data_digests(named(fp)) == data_digests(local_run / "fp")
    assert_same_model(named(model), local_run / "model")
    assert sorted(path.name for path in bucket.iterdir()) == ["fp", "model"]


def test_an_exact_process_is_solved_predicted_and_screened(remote, local_run, workers, bucket, monkeypatch):
    """Products and their blocks are objects, too, and none is left."""
    monkeypatch.setattr("daskrf.gp.solve.kernelmatrix._TILE", 64)
    monkeypatch.setattr("daskrf.fitting.exactsolve._on_workers", lambda client, n_rows: client is not None)
    options = {"process": "exact", "solver": "cg", "n_draws": 4, "n_features": 512, "quick": True}
    places = {"here": (Path("out"), None), "there": (bucket, workers)}
    for out, client in places.values():
        fit(str(local_run / "fp"), str(remote[1]), str(out / "model"), client=client, **options)
        predict(str(out / "model"), str(local_run / "fp"), str(out / "pred"), client=client)
        screen(
            *(str(path) for path in (out / "model", local_run / "fp", out / "hits.parquet")),
            **{"k": 9, "acquisition": "ucb", "maximize": False, "client": client},
        )
    left, right = (model_arrays(out / "model") for out, _ in places.values())
    assert left.keys() == right.keys()
    for name in left:  # workers multiply other blocks
        np.testing.assert_allclose(left[name], right[name], rtol=1e-3, atol=1e-4)
    assert sorted(path.name for path in bucket.iterdir()) == ["hits.parquet", "model", "pred"]


def test_strips_have_the_bytes_of_one(remote, local_run, workers, bucket):
    with (
        patch("daskrf.fitting.parts._STRIP_BYTES", 8 * 64 * 128),
        patch("daskrf.fitting.parts._GROUP_ROWS", (1, 1)),
    ):
        fit(
            str(local_run / "fp"),
            str(remote[1]),
            str(bucket / "model"),
            feature_map=FEATURES,
            client=workers,
        )
    assert_same_model(bucket / "model", local_run / "model")
    assert sorted(path.name[:7] for path in (bucket / "model").iterdir()) == ["_arrays", "arrays-"]


def test_a_killed_job_goes_on_to_the_same_bytes(remote, local_run, bucket):
    """The process is killed without notice, at first in mid-store and then in mid-fold."""
    out = bucket / "killed"
    context = multiprocessing.get_context("spawn")
    kept: dict[str, str] = {}
    for found in ("fp/_commits/000003.json", ".model.daskrf/level-0-00002/_arrays.json"):
        process = context.Process(target=job, args=(*map(str, remote), str(out)))
        process.start()
        while not (out / found).is_file():
            assert process.is_alive(), "the job ended before it was killed"
            time.sleep(0.01)
        os.kill(process.pid or 0, signal.SIGKILL)
        process.join()
        kept = {str(path): path.head()["last_modified"] for path in (out / "fp" / "_commits").iterdir()}
    job(*remote, out)
    assert_same_job(local_run, out)
    for path in (out / "fp" / "_commits").iterdir():
        assert path.head()["last_modified"] == kept[str(path)], "what was committed is not made again"


def test_damage_is_found_and_repaired(remote, local_run, workers, bucket):
    store = bucket / "fp"
    fingerprint(str(remote[0]), str(store), rows_per_partition=ROWS, client=workers)
    whole = data_digests(store)
    assert whole == data_digests(local_run / "fp")
    (store / "rows" / "000002.parquet").unlink()
    chunk = store / "data" / "000004" / "indices" / "c" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1] + b"?")
    assert set(verify(str(store)).damaged) == {2, 4}
    assert verify(str(store), repair=True, client=workers).repaired == (2, 4)
    assert data_digests(store) == whole


def test_a_second_driver_is_refused_and_a_dead_one_is_not_waited_for(remote, bucket, monkeypatch):
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.05)
    out = bucket / "fp"
    with StoreLock(out, "daskrf fingerprint") as held:
        first = held.path.head()["e_tag"]
        with pytest.raises(
            StoreError, match=rf"in use by daskrf fingerprint \(process {os.getpid()} on host"
        ):
            fingerprint(str(remote[0]), str(out), rows_per_partition=ROWS)
        assert held.path.head()["e_tag"] == first
    assert not out.exists()
    with StoreLock(out, "daskrf fingerprint") as held:
        content = held.path.read_bytes()
    dead = unsealed(content) | {"pid": 999999999}
    held.path.write_bytes(sealed(json.dumps(dead).encode()))
    assert fingerprint(str(remote[0]), str(out), rows_per_partition=ROWS).made == 7
    assert not held.path.exists()


def test_a_lock_that_another_has_taken_over_is_not_touched(bucket, monkeypatch):
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.01)
    with StoreLock(bucket / "fp") as held:
        held.path.write_bytes(b'{"what": "another"}')
        time.sleep(0.2)
        assert held.path.read_bytes() == b'{"what": "another"}'
    assert held.path.read_bytes() == b'{"what": "another"}'


def test_a_storage_without_conditions_is_refused(bucket, monkeypatch):
    monkeypatch.setattr(_Objects, "_put_new", lambda _, path, data: path.write_bytes(data) is None)
    with pytest.raises(StoreError, match="does not support conditional PUTs"), StoreLock(bucket / "fp"):
        pass
    assert not (bucket / "fp").exists()


def test_a_model_and_predictions_of_another_place_are_refused(remote, local_run, bucket):
    with pytest.raises(StoreError, match="holds no model"):
        predict(str(bucket / "nowhere"), str(local_run / "fp"), str(bucket / "pred"))
    with pytest.raises(StoreError, match="there is no bucket absent"):
        fingerprint(str(remote[0]), "s3://absent/fp")
    assert FingerprintStore.open(local_run / "fp").pending() == []
