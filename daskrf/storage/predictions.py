"""The prediction store: one Parquet file a partition with a row for each kept row of a library."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any, ClassVar, Self

import pyarrow as pa

from daskrf.storage.rowstore import RejectingStore, write_parquet
from daskrf.storage.store import CommitRecord

__all__ = ["PredictionStore"]


class PredictionStore(RejectingStore):
    """Predictions of a model for a library, and the rejects where the library is read from SMILES files.

    The spec holds ``source`` and ``model`` (hashes that the caller gives for what is predicted and by
    what) and ``options`` (what else the values depend on). Their paths belong into the provenance, as
    ``source_path`` and ``model_path``, because files may move.
    """

    needed_kind: ClassVar[str | None] = "predictions"
    needed_spec: ClassVar[dict[str, type | tuple[Any, ...]]] = {
        "source": str,
        "model": str,
        "options": dict,
    }

    @classmethod
    def new(
        cls,
        path: str | os.PathLike[str],
        *,
        source: str,
        model: str,
        options: dict[str, Any],
        rows: Sequence[int],
        provenance: dict[str, Any] | None = None,
    ) -> Self:
        """Plan a prediction store, or resume the one that is there.

        Parameters
        ----------
        path : path
            Directory.
        source : str
            Spec hash of the store or the library that is predicted.
        model : str
            Hash of the model, given by the caller.
        options : dict
            JSON values, such as whether standard deviations are made.
        rows : sequence of int
            Rows of each partition, as planned.
        provenance : dict, optional
            See `Store.create`; ``source_path`` and ``model_path`` are shown by ``daskrf status``.

        Returns
        -------
        PredictionStore

        Raises
        ------
        StoreError
            See `Store.create`.
        """
        spec = {"source": source, "model": model, "options": options}
        return cls.create(path, "predictions", spec, [{"rows": int(n)} for n in rows], provenance)

    def table_path(self, p: int) -> PurePath:
        """Parquet file of partition `p`."""
        return self.path / f"{self.partition_name(p)}.parquet"

    def write_partition(
        self,
        p: int,
        table: pa.Table,
        rejects: pa.Table | None = None,
        counts: dict[str, int] | None = None,
    ) -> CommitRecord:
        """Write and record one partition.

        Parameters
        ----------
        p : int
            Partition.
        table : pyarrow.Table
            Such as row, id, mean and std.
        rejects : pyarrow.Table, optional
            Columns of `REJECT_SCHEMA`.
        counts : dict, optional
            Further counts for the record; ``read``, ``kept`` and ``rejected`` are counted here, and must
            agree where given.

        Returns
        -------
        CommitRecord

        Raises
        ------
        StoreError
            Counts that do not add up, or a disk that does not take it.
        """

        def stage(directory: Path) -> dict[PurePath, Path]:
            write_parquet(table.combine_chunks(), directory / "rows")
            return {self.table_path(p): directory / "rows"}

        return self._write(p, {"kept": table.num_rows}, rejects, counts, stage)

    def read(self, p: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Read one partition, or some of its columns.

        Raises
        ------
        StoreError
            The partition is pending or damaged.
        """
        return self._read_table(p, "", columns, "kept")
