"""Less trodden ways through the pipeline: dense maps, several targets, compressed files, many files."""

from __future__ import annotations

import bz2
import gzip
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from distributed import Client
from sklearn.base import clone

from daskrf import RandomFeatureGP, featurize, fingerprint, fit, predict, screen
from daskrf.arrays import as_csr
from daskrf.demo.objective import score
from daskrf.features.featuremap import FeatureMap
from daskrf.models.intervals import residuals_of
from daskrf.models.models import read_model
from daskrf.molecules import FingerprintSpec
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.predictions import PredictionStore
from tests.jobs.job import FEATURES, FLAWS, N_LABELS, N_MOLECULES, data_digests, model_arrays


class HashedCounts(FeatureMap):
    """A dense map for tests: log counts of column numbers modulo n_components."""

    def __init__(self, n_components: int = 64) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: Any = None) -> Self:
        return self

    def transform(self, X: Any) -> np.ndarray:
        X = as_csr(X)
        out = np.zeros((X.shape[0], self.n_components), np.float32)
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        np.add.at(out, (rows, X.indices % self.n_components), X.data)
        return np.log1p(out)


@pytest.fixture(scope="module")
def store(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("variants") / "fp"
    fingerprint(inputs[0], path, rows_per_partition=130)
    return path


def _predictions(path: Path) -> pa.Table:
    opened = PredictionStore.open(path)
    return pa.concat_tables([opened.read(p) for p in range(opened.n_partitions)])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_dense_map(inputs: tuple[Path, Path], store: Path, tmp_path: Path, dtype: str) -> None:
    dense = HashedCounts(50)
    featurize(store, dense, tmp_path / "phi", dtype=dtype)
    assert FeatureStore.open(tmp_path / "phi").read(0).dtype == dtype
    fit(tmp_path / "phi", inputs[1], tmp_path / "model")
    predict(tmp_path / "model", tmp_path / "phi", tmp_path / "pred")
    opened = FingerprintStore.open(store)
    phi = np.concatenate([dense.transform(opened.read_fingerprints(p)) for p in range(opened.n_partitions)])
    phi = phi.astype(dtype).astype(np.float32)
    rows = np.concatenate(
        [opened.read_rows(p, ["row"])["row"].to_numpy() for p in range(opened.n_partitions)]
    )
    arrays = model_arrays(tmp_path / "model")
    direct = RandomFeatureGP().fit(
        phi[np.searchsorted(rows, arrays["labelled_rows"])], arrays["labels"][:, 0]
    )
    mean, std = direct.predict(phi, return_std=True, of="f")
    table = _predictions(tmp_path / "pred")
    np.testing.assert_allclose(table["mean"].to_numpy(), mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(table["std"].to_numpy(), std, rtol=1e-4)
    hits = screen(tmp_path / "model", tmp_path / "phi", tmp_path / "hits.parquet", k=5, maximize=False).table
    assert hits["row"].to_pylist() == rows[np.argsort(mean, kind="stable")[:5]].tolist()


def test_counts_above_a_byte(tmp_path: Path) -> None:
    """Long chains of carbon atoms."""
    lengths = [3, 255, 257, 258, 300, 900]
    library, labels = tmp_path / "chains.smi", tmp_path / "labels.csv"
    library.write_text("".join(f"{'C' * n} c{n}\n" for n in lengths))
    labels.write_text("id,y\n" + "".join(f"c{n},{n % 7}.5\n" for n in lengths))
    fingerprint(library, tmp_path / "fp", spec=FingerprintSpec("morgan"), rows_per_partition=3)
    store = FingerprintStore.open(tmp_path / "fp")
    parts = [store.read_fingerprints(p) for p in range(store.n_partitions)]
    largest = np.concatenate([part.max(axis=1).toarray().ravel() for part in parts])
    assert largest.tolist() == [2, *(n - 2 for n in lengths[1:])]
    options: dict[str, Any] = {"mean": 1.0, "signal_variance": 2.0, "noise_variance": 0.5}
    fit(store.path, labels, tmp_path / "model", feature_map=FEATURES, **options)
    predict(tmp_path / "model", store.path, tmp_path / "pred")
    features = clone(FEATURES)  # which tests of other kinds may have fitted to their columns
    phi = np.concatenate([features.transform(part) for part in parts])
    direct = RandomFeatureGP(**options).fit(phi, [n % 7 + 0.5 for n in lengths]).predict(phi)
    np.testing.assert_allclose(_predictions(tmp_path / "pred")["mean"].to_numpy(), direct, rtol=1e-6)


def test_bits_of_a_dense_map_are_refused(store: Path, tmp_path: Path) -> None:
    from daskrf.errors import InputError

    with pytest.raises(InputError, match="no one-bit features"):
        featurize(store, HashedCounts(8), tmp_path / "phi", dtype="bits")


def test_floats_of_a_one_bit_map(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    """A one-bit map stored as floats gives the same predictions, from sums of floats."""
    featurize(store, FEATURES, tmp_path / "floats", dtype="float32")
    fit(tmp_path / "floats", inputs[1], tmp_path / "a")
    fit(store, inputs[1], tmp_path / "b", feature_map=FEATURES)
    predict(tmp_path / "a", tmp_path / "floats", tmp_path / "pa")
    predict(tmp_path / "b", tmp_path / "floats", tmp_path / "pb")
    featurize(store, FEATURES, tmp_path / "bits")
    for source, name in ((store, "fp"), (tmp_path / "bits", "bits"), (inputs[0], "smiles")):
        hits = screen(
            tmp_path / "a", source, tmp_path / f"{name}.parquet", k=4, acquisition="ei", maximize=False
        ).table
        reference = screen(
            tmp_path / "b", store, tmp_path / "hits.parquet", k=4, acquisition="ei", maximize=False
        ).table
        np.testing.assert_allclose(hits["mean"].to_numpy(), reference["mean"].to_numpy(), rtol=1e-3)
    left, right = _predictions(tmp_path / "pa"), _predictions(tmp_path / "pb")
    np.testing.assert_allclose(left["mean"].to_numpy(), right["mean"].to_numpy(), rtol=1e-3)
    np.testing.assert_allclose(left["std"].to_numpy(), right["std"].to_numpy(), rtol=1e-3)
    one, other = (residuals_of(read_model(tmp_path / name))[0] for name in ("a", "b"))
    np.testing.assert_allclose(one, other, rtol=1e-2, atol=1e-3)


def test_several_targets(inputs: tuple[Path, Path], store: Path, client: Client, tmp_path: Path) -> None:
    labels = tmp_path / "two.csv"
    lines = inputs[1].read_text().splitlines()[1:]
    labels.write_text("id,a,b\n" + "".join(f"{line},{i % 7 - 3.5}\n" for i, line in enumerate(lines)))
    report = fit(store, labels, tmp_path / "two", feature_map=FEATURES, target=["a", "b"], client=client)
    assert report.labels.names == ("a", "b")
    fit(store, inputs[1], tmp_path / "one", feature_map=FEATURES)
    for model in ("one", "two"):
        predict(tmp_path / model, store, tmp_path / f"pred-{model}", client=client)
    one, two = _predictions(tmp_path / "pred-one"), _predictions(tmp_path / "pred-two")
    assert two.column_names == [
        "row",
        "id",
        "smiles",
        "mean_a",
        "mean_b",
        "std_a",
        "std_b",
        "std_y_a",
        "std_y_b",
    ]
    for name in ("mean", "std", "std_y"):
        np.testing.assert_allclose(
            two[f"{name}_a"].to_numpy(), one[name].to_numpy(), rtol=1e-6
        )  # the optimum is found to 1e-8
    hits = screen(tmp_path / "two", store, tmp_path / "hits.parquet", k=9, target="b", maximize=True).table
    order = np.lexsort((two["row"].to_numpy(), -two["mean_b"].to_numpy()))[:9]
    assert hits["row"].to_pylist() == two["row"].to_numpy()[order].tolist()
    np.testing.assert_allclose(hits["std"].to_numpy(), two["std_b"].to_numpy()[order], rtol=1e-5)


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".zst"])
def test_compressed_files_are_the_same(
    inputs: tuple[Path, Path], store: Path, tmp_path: Path, suffix: str
) -> None:
    compress = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstandard.compress}[suffix]
    path = tmp_path / f"library.smi{suffix}"
    path.write_bytes(compress(inputs[0].read_bytes()))
    report = fingerprint(path, tmp_path / "fp", rows_per_partition=130)
    assert (report.rows, report.rejected) == (N_MOLECULES + len(FLAWS), len(FLAWS))
    left, right = FingerprintStore.open(tmp_path / "fp"), FingerprintStore.open(store)
    for p in range(left.n_partitions):
        assert (left.read_fingerprints(p) != right.read_fingerprints(p)).nnz == 0
        names = ["row", "id", "smiles", "line"]
        assert left.read_rows(p, names).equals(right.read_rows(p, names))
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_long_compressed_files_are_spooled(tmp_path: Path) -> None:
    path = tmp_path / "methane.smi.gz"
    path.write_bytes(gzip.compress("".join(f"C m{i}\n" for i in range(110_000)).encode(), 1))
    report = fingerprint(path, tmp_path / "fp", rows_per_partition=40_000)
    assert (report.kept, report.partitions) == (110_000, 3)
    last = FingerprintStore.open(tmp_path / "fp").read_rows(2)
    assert last["id"].to_pylist()[-1] == "m109999"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fp", "fp.log", "methane.smi.gz"]


def test_two_drivers_of_one_library_on_one_cluster(
    inputs: tuple[Path, Path], store: Path, client: Client, tmp_path: Path
) -> None:
    """Their tasks differ in the output only, and Dask must not take them for the same."""
    with ThreadPoolExecutor(2) as threads:
        jobs = [
            threads.submit(fingerprint, inputs[0], tmp_path / name, rows_per_partition=30, client=client)
            for name in ("a", "b")
        ]
        reports = [job.result() for job in jobs]
    assert [report.kept for report in reports] == [N_MOLECULES] * 2
    assert data_digests(tmp_path / "a") == data_digests(tmp_path / "b")


def test_many_small_files_are_one_library(tmp_path: Path, inputs: tuple[Path, Path]) -> None:
    lines = inputs[0].read_text().splitlines(keepends=True)
    for i in range(0, len(lines), 50):
        (tmp_path / f"part-{i:04d}.smi").write_text("".join(lines[i : i + 50]))
    report = fingerprint(str(tmp_path / "part-*.smi"), tmp_path / "fp", rows_per_partition=170)
    assert (report.rows, report.partitions) == (604, 4)
    rows = FingerprintStore.open(tmp_path / "fp").read_rows(1)
    assert rows["source"].to_pylist()[0].endswith("part-0150.smi")
    assert rows["line"].to_pylist()[0] == 170 - 150 + 1


def test_labels_join_by_smiles_and_by_row(inputs: tuple[Path, Path], store: Path, tmp_path: Path) -> None:
    opened = FingerprintStore.open(store)
    rows = pa.concat_tables([opened.read_rows(p) for p in range(opened.n_partitions)])
    rows = rows.take(np.arange(0, 2 * N_LABELS, 2))
    values = score(rows["smiles"].to_pylist())
    fits = {"id": inputs[1]}
    for key, column in (("smiles", "smiles"), ("row", "row")):
        fits[key] = tmp_path / f"{key}.parquet"
        pq.write_table(pa.table({column: rows[column], "score": values}), fits[key])
    models = {}
    for key, labels in fits.items():
        fit(store, labels, tmp_path / f"model-{key}", feature_map=FEATURES, key=key)
        models[key] = read_model(tmp_path / f"model-{key}").gp.weights_
    assert np.array_equal(models["id"], models["smiles"])
    assert np.array_equal(models["id"], models["row"])
