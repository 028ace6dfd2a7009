"""Stores of several kinds of fingerprints, from SMILES to predictions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from distributed import Client
from scipy import sparse

from daskrf import FingerprintSpec, TanimotoMinMaxFeatures, fingerprint, fit, plan, predict
from daskrf.arrays import column_slice
from daskrf.cli.app import run
from daskrf.errors import StoreError
from daskrf.jobs.shards import run_shard
from daskrf.storage.inspection import status
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.predictions import PredictionStore
from tests.jobs.job import data_digests

KINDS = ["morgan:1", "torsion", "morgan:2:features"]


def counts(path: Path) -> sparse.csr_matrix:
    """Return the fingerprints of a store."""
    store = FingerprintStore.open(path)
    return sparse.vstack([store.read_fingerprints(p) for p in range(store.n_partitions)]).tocsr()


def predictions(path: Path) -> np.ndarray:
    store = PredictionStore.open(path)
    return pa.concat_tables([store.read(p) for p in range(store.n_partitions)])["mean"].to_numpy()


@pytest.fixture(scope="module")
def store(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kinds") / "fp"
    fingerprint(inputs[0], path, spec=FingerprintSpec(KINDS), rows_per_partition=130)
    return path


@pytest.mark.parametrize("size", [0, 300])
def test_each_kind_has_the_columns_that_the_plan_says(
    inputs: tuple[Path, Path], tmp_path: Path, size: int
) -> None:
    report = fingerprint(inputs[0], tmp_path / "fp", spec=FingerprintSpec(KINDS, size=size))
    together = counts(tmp_path / "fp")
    planned = FingerprintStore.open(tmp_path / "fp").spec["fingerprint"]["kinds"]
    assert together.shape[1] == planned[-1]["columns"][1]
    assert f"in this order, {', '.join(KINDS)}" in str(report)
    for number, kind in enumerate(KINDS):
        fingerprint(inputs[0], tmp_path / f"fp{number}", spec=FingerprintSpec(kind, size=size))
        alone = column_slice(together, *planned[number]["columns"])
        assert (alone != counts(tmp_path / f"fp{number}")).nnz == 0
        assert planned[number]["kind"] == kind.partition(":")[0]


def test_the_same_bytes_by_shards_and_workers(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path, client: Client
) -> None:
    spec = FingerprintSpec(KINDS)
    fingerprint(inputs[0], tmp_path / "by workers", spec=spec, rows_per_partition=130, client=client)
    for shard in ("1/2", "0/2"):
        run_shard(fingerprint, shard, inputs[0], tmp_path / "by shards", spec=spec, rows_per_partition=130)
    assert data_digests(tmp_path / "by workers") == data_digests(store)
    assert data_digests(tmp_path / "by shards") == data_digests(store)
    words = "\n".join(status(store).words)
    assert "Morgan (circular) fingerprints of radius 1" in words
    assert (
        "topological-torsion fingerprints, counts, unfolded (32-bit identifiers), columns 4,294,967,296"
        in words
    )
    with pytest.raises(
        StoreError, match=r"--kind \(was morgan:1 \+ torsion \+ .*, now torsion \+ morgan:1\)"
    ):
        fingerprint(inputs[0], store, spec=FingerprintSpec(["torsion", "morgan:1"]), rows_per_partition=130)


def test_predictions_of_smiles_are_those_of_the_store(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path
) -> None:
    fit(store, inputs[1], tmp_path / "model", feature_map=TanimotoMinMaxFeatures(256), direction="minimize")
    predict(tmp_path / "model", store, tmp_path / "a")
    predict(tmp_path / "model", inputs[0], tmp_path / "b")
    assert (predictions(tmp_path / "a") == predictions(tmp_path / "b")).all()


def test_the_plan_knows_all_kinds(inputs: tuple[Path, Path]) -> None:
    one, several = (plan(inputs[0], spec=FingerprintSpec(kind), sample=300) for kind in ("morgan", KINDS))
    assert several.stages[0].bytes > 1.5 * one.stages[0].bytes
    assert several.memory[0].total > one.memory[0].total


def test_from_the_command_line(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    options = [option for kind in KINDS for option in ("--kind", kind)]
    given = [str(inputs[0]), "-o", str(tmp_path / "fp"), "--rows-per-partition", "130", "--workers", "0"]
    assert run(["fingerprint", *given, *options]) == 0
    assert data_digests(tmp_path / "fp") == data_digests(store)
    assert run(["verify", str(tmp_path / "fp"), "--workers", "0"]) == 0
    assert run(["fingerprint", *given, "--kind", "torsion:2"]) == 1
    assert "fingerprint kind 'torsion:2' is unknown" in capsys.readouterr().err
