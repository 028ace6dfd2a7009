"""The prediction store: one Parquet file a partition with a row for each kept row of a library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from daskrf.stores.files import file_errors
from daskrf.stores.parquet import read_parquet, write_parquet
from daskrf.stores.store import CommitRecord, Store
from daskrf.stores.zarrays import read_errors

__all__ = ["PredictionStore"]


class PredictionStore(Store):
    """Predictions of a model for a library.

    The spec holds ``source`` (spec hash of the store that was predicted), ``model`` (`model_digest`) and
    ``options`` (what else the values depend on); paths are in the provenance.
    """

    needed_kind: ClassVar[str | None] = "predictions"

    @classmethod
    def new(
        cls,
        path: str | os.PathLike[str],
        source: Store,
        model: str,
        options: dict[str, Any] | None = None,
        provenance: dict[str, Any] | None = None,
    ) -> Self:
        """Plan a prediction store, or resume the one that is there.

        Parameters
        ----------
        path : path
            Directory.
        source : Store
            Fingerprint or feature store; it gives the partitions.
        model : str
            `daskrf.stores.model.model_digest`.
        options : dict, optional
            JSON values, such as whether standard deviations are made.
        provenance : dict, optional
            See `Store.create`.

        Returns
        -------
        PredictionStore

        Raises
        ------
        StoreError
            See `Store.create`.
        """
        spec = {"source": source.spec_hash, "model": model, "options": options or {}}
        partitions = [{"rows": source.partition_rows(p)} for p in range(source.n_partitions)]
        origin = {"source_path": str(source.path.resolve()), **(provenance or {})}
        return cls.create(path, "predictions", spec, partitions, origin)

    def table_path(self, p: int) -> Path:
        """Parquet file of partition `p`."""
        return self.path / "rows" / f"{self.partition_name(p)}.parquet"

    def write_partition(self, p: int, table: pa.Table, counts: dict[str, int] | None = None) -> CommitRecord:
        """Write and record one partition.

        Parameters
        ----------
        p : int
            Partition.
        table : pyarrow.Table
            Such as row, id, mean and std.
        counts : dict, optional
            Further counts for the record; ``kept`` is counted here.

        Returns
        -------
        CommitRecord

        Raises
        ------
        StoreError
            The disk does not take it.
        """
        with self.staging(p) as directory, file_errors("write", directory):
            write_parquet(table.combine_chunks(), directory / "rows")
            staged = {self.table_path(p): directory / "rows"}
            return self.publish(p, staged, {**(counts or {}), "kept": table.num_rows})

    def read(self, p: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Read one partition, or some of its columns.

        Raises
        ------
        StoreError
            The partition is pending or damaged.
        """
        self.record(p)
        with read_errors(self.path, p):
            return read_parquet(self.table_path(p), columns)
