"""Generators and small examples for the tests of the stores."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.rowstore import REJECT_SCHEMA

UNFOLDED = 2**32


def csr_of(rows: list[dict[int, int]], n_columns: int) -> csr_matrix:
    """A matrix of {column: count} rows."""
    indptr = np.cumsum([0, *map(len, rows)])
    indices = np.array([column for row in rows for column in sorted(row)], dtype=np.int64)
    data = np.array([row[column] for row in rows for column in sorted(row)], dtype=np.uint16)
    if n_columns < 2**31:
        indices, indptr = indices.astype(np.int32), indptr.astype(np.int32)
    return csr_matrix((data, indices, indptr), shape=(len(rows), n_columns))


@st.composite
def ragged_counts(draw: st.DrawFn) -> csr_matrix:
    """Matrices with empty rows, no rows, extreme columns and counts up to 65535."""
    n_columns = draw(st.sampled_from([1, 255, 2048, 65536, 65537, UNFOLDED]))
    column = st.one_of(st.integers(0, n_columns - 1), st.sampled_from([0, n_columns - 1]))
    count = st.one_of(st.integers(1, 3), st.sampled_from([255, 256, 65535]))
    return csr_of(draw(st.lists(st.dictionaries(column, count, max_size=9), max_size=7)), n_columns)


@functools.cache
def random_counts(n: int, seed: int = 0, n_columns: int = UNFOLDED) -> csr_matrix:
    """n rows of about 20 small counts."""
    generator = np.random.default_rng(seed)
    columns = generator.integers(0, n_columns, 500)
    rows = [
        {
            int(c): int(k)
            for c, k in zip(generator.choice(columns, 20), generator.integers(1, 5, 20), strict=True)
        }
        for _ in range(n)
    ]
    return csr_of(rows, n_columns)


def rows_table(start: int, n: int, ids: list[str] | None = None) -> pa.Table:
    """Rows with numbers from `start`."""
    numbers = np.arange(start, start + n)
    return pa.table(
        {
            "row": pa.array(numbers, pa.int64()),
            "id": pa.array(ids or [f"Z{i}" for i in numbers], pa.string()),
            "smiles": pa.array(["C" * (1 + i % 9) for i in numbers], pa.string()),
            "source": pa.array(["a.smi"] * n, pa.string()).dictionary_encode(),
            "line": pa.array(numbers + 2, pa.int64()),
        }
    )


def rejects_table(rows: list[int], reason: str = "not a molecule") -> pa.Table:
    """One reject for each row number."""
    return pa.table(
        {
            "row": rows,
            "source": ["a.smi"] * len(rows),
            "line": [row + 2 for row in rows],
            "text": ["C(C"] * len(rows),
            "reason": [reason] * len(rows),
        }
    ).cast(REJECT_SCHEMA)


def new_store(path: Path, n_partitions: int = 3, rows: int = 50, **changes: object) -> FingerprintStore:
    """Plan a small store of `rows` rows a partition."""
    options: dict = {
        "library": {"sources": [{"path": "a.smi", "sha256": "00"}]},
        "fingerprint": {"kind": "morgan", "radius": 1, "counts": True, "size": 0},
        "n_columns": UNFOLDED,
        "partitions": [{"start": p * rows, "stop": (p + 1) * rows} for p in range(n_partitions)],
        "rdkit_version": "2026.09.1",
    }
    return FingerprintStore.new(path, **{**options, **changes})


def fill(store: FingerprintStore, p: int) -> None:
    """Write partition `p`: its last row is a reject."""
    n, start = store.partition_rows(p) - 1, store.partitions[p]["start"]
    counts = random_counts(n, seed=p)
    store.write_partition(p, counts, rows_table(start, n), rejects_table([start + n]), {"empty": 0})


def full_store(path: Path, n_partitions: int = 3, rows: int = 50) -> FingerprintStore:
    """A complete small store."""
    store = new_store(path, n_partitions, rows)
    for p in range(n_partitions):
        fill(store, p)
    return store
