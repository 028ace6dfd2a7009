"""Results of a run as arrays: molecules, predictions, hits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from daskrf.storage.fingerprintstore import FingerprintStore
from daskrf.storage.predictions import PredictionStore

__all__ = [
    "LibraryPredictions",
    "Molecules",
    "read_hits",
    "read_molecules",
    "read_predictions",
    "write_table",
]


@dataclass(frozen=True)
class Molecules:
    """The kept rows of a library, ascending: `row` is int64 of shape (n,)."""

    row: npt.NDArray[np.int64]
    id: list[str]
    smiles: list[str]


@dataclass(frozen=True)
class LibraryPredictions:
    """Predictions of the kept rows of a library, ascending.

    Attributes
    ----------
    row : ndarray of int64, shape (n,)
    mean, std : ndarray of float64, shape (n,)
        `std` is that of a new measurement, noise included.
    """

    row: npt.NDArray[np.int64]
    mean: npt.NDArray[np.float64]
    std: npt.NDArray[np.float64]


def read_molecules(store: str | os.PathLike[str]) -> Molecules:
    """Read row, ID and SMILES of a whole fingerprint store; for libraries that fit into memory.

    Raises
    ------
    StoreError
        If there is no such store, or a partition is missing or damaged.
    """
    opened = FingerprintStore.open(store)
    table = pa.concat_tables(
        [opened.read_rows(p, ["row", "id", "smiles"]) for p in range(opened.n_partitions)]
    )
    return Molecules(table["row"].to_numpy(), table["id"].to_pylist(), table["smiles"].to_pylist())


def read_predictions(store: str | os.PathLike[str]) -> LibraryPredictions:
    """Read the predictions of a single-target model for a whole library that fits into memory.

    Raises
    ------
    StoreError
        If there is no such store, or a partition is missing or damaged.
    """
    opened = PredictionStore.open(store)
    table = pa.concat_tables([opened.read(p, ["row", "mean", "std_y"]) for p in range(opened.n_partitions)])
    return LibraryPredictions(table["row"].to_numpy(), table["mean"].to_numpy(), table["std_y"].to_numpy())


def read_hits(path: str | os.PathLike[str], count: int) -> list[dict[str, Any]]:
    """Read the first `count` hits that `screen` wrote, best first, one dict each."""
    return pq.read_table(path).slice(0, count).to_pylist()


def write_table(
    path: str | os.PathLike[str], columns: Mapping[str, Sequence[Any] | npt.NDArray[Any]]
) -> None:
    """Write `columns` as Parquet, whole or not at all."""
    temporary = f"{os.fspath(path)}.part"
    pq.write_table(pa.table(dict(columns)), temporary, compression="zstd")
    os.replace(temporary, path)
