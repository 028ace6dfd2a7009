"""Stores and models as Python users open them."""

from __future__ import annotations

import copy
import itertools
import pickle
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest
from scipy import sparse

import daskrf
from daskrf.errors import InputError, StoreError
from daskrf.models.countarray import CountArray
from daskrf.storage.stores import featurestore
from tests.jobs.job import FEATURES


@pytest.fixture(scope="module")
def job(inputs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Stores of both kinds, models, and predictions of one of them."""
    root = tmp_path_factory.mktemp("opening")
    dense = daskrf.TanimotoDotProductFeatures(48, random_state=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(featurestore, "CHUNK_BYTES", 300)
        daskrf.fingerprint(inputs[0], root / "fp", rows_per_partition=70)
        daskrf.featurize(root / "fp", FEATURES, root / "phi")
        daskrf.featurize(root / "fp", dense, root / "floats")
    daskrf.fit(root / "phi", inputs[1], root / "model")
    daskrf.fit(root / "floats", inputs[1], root / "dense")
    daskrf.predict(root / "model", root / "fp", root / "pred", std=True)
    return root


def test_a_library_is_a_dask_array_and_a_dataset(job: Path) -> None:
    library = daskrf.open_library(job / "fp")
    store = daskrf.storage.stores.fingerprintstore.FingerprintStore.open(job / "fp")
    whole = sparse.vstack([store.read_fingerprints(p) for p in range(store.n_partitions)])
    assert library.fingerprints.shape == whole.shape
    blocks = [library.fingerprints.blocks[p, 0].compute(scheduler="synchronous") for p in range(2)]
    assert all(sparse.issparse(block) for block in blocks)
    assert (sparse.vstack(blocks) != whole[: sum(b.shape[0] for b in blocks)]).nnz == 0
    lazy = daskrf.featurize(library.fingerprints, FEATURES)
    np.testing.assert_array_equal(
        lazy.compute(scheduler="synchronous"),
        daskrf.open_features(job / "phi").bits.compute(scheduler="synchronous"),
    )
    rows = library.rows.to_table()
    assert rows.num_rows == library.rows.count_rows() == whole.shape[0]
    assert rows["id"].to_pylist() == daskrf.open_features(job / "phi").rows.to_table()["id"].to_pylist()


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    **{f"{name} of {axis}": partial(lambda n, a, x: getattr(x, n)(axis=a), name, axis)
       for name in ("sum", "std", "max") for axis in (None, 0, 1)},
    "kept axis": lambda x: x.sum(axis=1, keepdims=True),
    "numpy": lambda x: np.sum(x, axis=0),
    "gram": lambda x: x.T @ x,
    "kernel": lambda x: x @ x.T,
    "numpy kernel": lambda x: np.matmul(x, x.T),
    "dot": lambda x: x.dot(np.arange(x.shape[1])),
    "from the left": lambda x: np.ones(x.shape[0]) @ x,
    "some rows": lambda x: x[3:90][::2].sum(axis=0),
    "some columns": lambda x: x[:, 5:60].T @ x[:, 5:60],
    "a mask": lambda x: x[np.arange(x.shape[0]) % 3 == 0].max(axis=0),
    "other blocks": lambda x: getattr(x, "rechunk", lambda chunks: x)((17, 97)).sum(axis=0),
    "there and back": lambda x: x.T.T.sum(axis=0),
    "set bits": lambda x: (x > 0).sum(axis=1),
    "zeros": lambda x: (x == 0).sum(axis=0),
    "not": lambda x: (~(x > 0)).sum(),
    "a constant": lambda x: (x + 1).sum(axis=0),
    "at least": lambda x: x.clip(min=1).sum(axis=0),
    "centred": lambda x: (x - x.mean(axis=0)).std(axis=0),
    "compared with means": lambda x: (x >= x.mean(axis=0)).sum(axis=0),
    "more columns": lambda x: (x + np.arange(x.shape[1])).sum(axis=0),
    "chosen ones": lambda x: np.where(x == 0, 1, x).sum(axis=0),
    "from the other side": lambda x: (2.5 / (x + 1)).sum(axis=0),
    "squares": lambda x: (x * x).sum(axis=1),
    "a square": lambda x: (x**2).sum(axis=1),
    "weighted": lambda x: (np.arange(x.shape[1]) * x).sum(axis=1),
    "a function": lambda x: np.log1p(x).sum(axis=0),
    "dask's function": lambda x: da.log1p(x).sum(axis=0),
    "dask's product": lambda x: da.multiply(x, x).sum(axis=1),
    "dask's product of blocks that are square": lambda x: da.multiply(x[:97], x[:97]).sum(axis=1),
    "dask's product with others": lambda x: da.multiply(np.arange(x.shape[1]), x).sum(axis=1),
    "dask's comparison": lambda x: da.greater(x, x.mean(axis=0)).sum(axis=1),
    "chosen": lambda x: np.where(x > 9, x, 0).sum(axis=0),
    "two": lambda x: np.concatenate([x, x]).sum(axis=0),
    "a type": lambda x: x.astype(float).sum(axis=0),
    "at most": lambda x: x.clip(0, 3).T @ x.clip(0, 3),
    "kept on workers": lambda x: getattr(x, "persist", lambda **_: x)(scheduler="synchronous").sum(axis=0),
    "a row": lambda x: x[3],
    "a value": lambda x: x[3, 5] + x[60].sum(),
    "a column": lambda x: x[:, 7].sum(),
    "a copy": lambda x: x.copy().sum(axis=0),
    "copied": lambda x: copy.copy(x).sum(axis=0),
    "copied deeply": lambda x: copy.deepcopy(x).T @ x,
    "pickled": lambda x: (pickle.loads(pickle.dumps(x)) * x).sum(axis=1),
    "places of the largest": lambda x: x.argmax(axis=1),
    "sums so far": lambda x: x.cumsum(axis=1),
    "the largest three": lambda x: x.topk(3, axis=1) if isinstance(x, CountArray) else np.sort(x)[:, :-4:-1],
    "one axis": lambda x: x.ravel(),
    "another shape": lambda x: x.reshape(-1, 97, 1),
    "each twice": lambda x: x.repeat(2, axis=0),
    "axes swapped": lambda x: x.swapaxes(0, 1),
    "a block": lambda x: (x.blocks[0] if isinstance(x, CountArray) else x[:50]).sum(axis=0),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_sums_and_products_of_counts_are_numpys(name: str, folded: tuple[CountArray, Any]) -> None:
    lazy, whole = folded
    found = REDUCTIONS[name](lazy).compute(scheduler="synchronous")
    want = REDUCTIONS[name](whole)
    assert isinstance(found, (np.ndarray, np.generic))
    assert found.shape == np.shape(want)
    np.testing.assert_allclose(found, want, rtol=1e-12)
    if np.issubdtype(np.asarray(want).dtype, np.integer):
        np.testing.assert_array_equal(found, want)


def test_numpy_gets_all_elements_or_some_points(folded: tuple[CountArray, Any]) -> None:
    lazy, whole = folded
    for found, want in (
        (np.asarray(lazy), whole),
        (np.array(lazy.T, float), whole.T),
        (np.asarray(lazy > 9), whole > 9),
        (lazy.vindex[[149, 0, 60], [3, 96, 3]].compute(), whole[[149, 0, 60], [3, 96, 3]]),
        (np.asarray(lazy.real * lazy.real), whole**2),
    ):
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, want)
    assert np.asarray(lazy).dtype == lazy.dtype


@pytest.fixture(scope="module")
def folded() -> tuple[CountArray, Any]:
    """Counts whose products exceed their own type, in unequal blocks, and the same as integers of NumPy."""
    X = sparse.random(150, 97, 0.2, format="csr", random_state=0)
    X.data = np.floor(X.data * 60_000) + 1
    rows = itertools.pairwise((0, 50, 110, 150))
    parts = [sparse.csr_matrix(X[start:stop], dtype=np.uint16) for start, stop in rows]
    blocks = [da.from_delayed(dask.delayed(p), p.shape, p.dtype, sparse.csr_matrix((0, 0))) for p in parts]
    return CountArray.of(da.concatenate(blocks)), X.toarray().astype(np.int64)


def test_sums_of_unfolded_counts(job: Path) -> None:
    x = daskrf.open_library(job / "fp").fingerprints
    whole = sparse.vstack([x.blocks[p, 0].compute(scheduler="synchronous") for p in range(2)]).tocsr()
    first = x[: whole.shape[0]]
    found = first.sum(axis=0).compute(scheduler="synchronous")
    columns = np.unique(whole.indices)
    assert found.shape == (x.shape[1],)
    np.testing.assert_array_equal(found.coords[0], columns)
    assert found.sum() == whole.sum() == first.sum().compute(scheduler="synchronous")
    np.testing.assert_array_equal(
        first.sum(axis=1).compute(scheduler="synchronous"), np.ravel(whole.sum(axis=1))
    )
    with pytest.raises(InputError, match=r"each of 12,884,901,888 columns.* folded fingerprints"):
        _ = x == 0
    for dense in (lambda: np.asarray(x), lambda: x.vindex[[0, 1], [2, 3]]):
        with pytest.raises(InputError, match=r"each of 12,884,901,888 columns.* folded fingerprints"):
            dense()
    np.testing.assert_array_equal(
        (first > 0).sum(axis=1).compute(scheduler="synchronous"), np.ravel((whole > 0).sum(axis=1))
    )
    for product in (lambda: x.T @ x, lambda: x @ x.T):
        with pytest.raises(InputError, match=r"product of 12,884,901,888 columns .* folded fingerprints"):
            product()


def test_features_are_a_dask_array(job: Path) -> None:
    found = daskrf.open_features(job / "phi")
    assert found.bits.dtype == np.uint8
    assert max(found.bits.chunks[0]) < 70  # chunks, not partitions
    floats = daskrf.open_features(job / "floats").features
    assert (floats.dtype, floats.shape) == (np.float32, (found.bits.shape[0], 48))
    with pytest.raises(StoreError, match=r"holds bits: take its \.bits"):
        _ = found.features
    with pytest.raises(StoreError, match="but a feature store is needed here"):
        daskrf.open_features(job / "fp")


def test_bits_are_unpacked_as_is_said(job: Path) -> None:
    bits = daskrf.open_features(job / "phi").bits.compute(scheduler="synchronous")
    M = FEATURES.n_components
    ones = np.unpackbits(bits, axis=1, count=M, bitorder="little")
    X = daskrf.open_library(job / "fp").fingerprints.compute(scheduler="synchronous")
    np.testing.assert_allclose(np.where(ones, -1.0, 1.0) / np.sqrt(M), FEATURES.transform(X), rtol=1e-6)


def test_duckdb_asks_predictions_as_is_said(job: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    text = (Path(__file__).parents[2] / "docs" / "storage.md").read_text()
    queries = re.findall(r'duckdb\.sql\("""(.*?)"""\)', text, re.DOTALL)
    for name in ("real.predictions", "other.predictions"):
        queries = [query.replace(name, str(job / "pred")) for query in queries]
    table = pq.read_table(job / "pred")
    sure = table.filter(pa.compute.less(table["std"], 0.5)).sort_by(
        [("mean", "ascending"), ("row", "ascending")]
    )
    best, agreement = (duckdb.sql(query).fetchall() for query in queries)
    assert best == [
        tuple(row[name] for name in ("id", "smiles", "mean", "std")) for row in sure.to_pylist()[:1000]
    ]
    assert agreement[0][0] == pytest.approx(1.0)


def test_damage_is_no_number_of_a_dask_array(job: Path, tmp_path: Path) -> None:
    chunk = job / "phi" / "phi" / "c.1.0"
    whole = chunk.read_bytes()
    lazy = daskrf.open_features(job / "phi").bits
    try:
        for data in (whole[:-9] + b"?" + whole[-8:], None):
            chunk.unlink() if data is None else chunk.write_bytes(data)
            with pytest.raises(StoreError, match=r"partition 0 of .* is damaged"):
                lazy.compute(scheduler="synchronous")
    finally:
        chunk.write_bytes(whole)


def test_a_model_predicts_from_smiles_fingerprints_and_features(job: Path) -> None:
    model, table = daskrf.load(job / "model"), pq.read_table(job / "pred")
    library, phi = daskrf.open_library(job / "fp"), daskrf.open_features(job / "phi").bits
    smiles = library.rows.to_table()["smiles"].to_pylist()[:40]
    first = library.fingerprints.blocks[0, 0].compute(scheduler="synchronous")[:40]
    bits = phi.compute(scheduler="synchronous")[:40]
    expected = table["mean"].to_numpy()[:40], table["std"].to_numpy()[:40], table["std_y"].to_numpy()[:40]
    for X in (smiles, first, bits):
        mean, std = model.predict(X, return_std=True, of="f")
        np.testing.assert_allclose(mean, expected[0], rtol=1e-9)
        np.testing.assert_allclose(std, expected[1], rtol=1e-9)
        np.testing.assert_allclose(model.predict(X, return_std=True)[1], expected[2], rtol=1e-9)
    dense, floats = daskrf.load(job / "dense"), daskrf.open_features(job / "floats").features
    np.testing.assert_allclose(
        dense.predict(smiles),
        dense.predict(floats.compute(scheduler="synchronous")[:40]),
        rtol=1e-5,
        atol=1e-6,
    )
    assert model.predict([]).shape == (0,)


def test_what_a_model_cannot_predict_is_said(job: Path) -> None:
    model = daskrf.load(job / "model")
    x = daskrf.open_library(job / "fp").fingerprints
    with pytest.raises(InputError, match=r"not computed here: X\.map_blocks\(model\.predict"):
        model.predict(x)
    with pytest.raises(InputError, match=r"give X\.compute\(\), or give this function to X\.map_blocks"):
        FEATURES.transform(x)
    lazy = x.map_blocks(model.predict, drop_axis=1, dtype=float).compute(scheduler="synchronous")
    np.testing.assert_allclose(lazy, model.predict(x.compute(scheduler="synchronous")), rtol=1e-9)
    with pytest.raises(InputError, match="have 8 columns, but those of the model have"):
        model.predict(sparse.csr_matrix(np.eye(8)))
    with pytest.raises(InputError, match="an element of X must be a path, a DataFrame, or a list of SMILES"):
        model.predict([1, 2])


def test_what_is_opened_is_shown_in_brief(job: Path) -> None:
    model = daskrf.load(job / "model")
    assert repr(model).startswith(f"Predictor(targets={model.targets!r}, gp=RandomFeatureGP(")
    for shown in (model, daskrf.open_library(job / "fp"), daskrf.open_features(job / "phi")):
        assert len(repr(shown)) < 400
        assert "sha256" not in repr(shown)
