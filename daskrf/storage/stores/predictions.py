"""The prediction store: one Parquet file per partition, with a row for each kept row of a library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import ClassVar, Self

import pyarrow as pa

from daskrf.storage.stores.rowstore import RejectingStore, write_parquet
from daskrf.storage.stores.store import CommitRecord


class PredictionStore(RejectingStore):
    """Predictions of a model for a library, with the rejects if the library is read from SMILES files.

    The spec holds ``source`` and ``model`` (hashes of the library and of the model, given by the caller) and
    ``options`` (what else the values depend on). Their paths go into the provenance, as ``source_path`` and
    ``model_path``, because files may move.
    """

    needed_kind: ClassVar[str | None] = "predictions"
    needed_spec: ClassVar[dict[str, type | tuple[object, ...]]] = {
        "source": str,
        "model": str,
        "options": dict,
    }

    @classmethod
    def new(
        cls,
        path: PurePath,
        *,
        source: str,
        model: str,
        options: Mapping[str, object],
        rows: Sequence[int],
        provenance: Mapping[str, object] | None = None,
    ) -> Self:
        """Plan a prediction store, or resume an existing one.

        Parameters
        ----------
        path : path
            Directory.
        source : str
            Spec hash of the store or library to predict for.
        model : str
            Hash of the model, given by the caller.
        options : dict
            JSON values, such as whether standard deviations are computed.
        rows : sequence of int
            Planned rows of each partition.
        provenance : dict, optional
            See `Store.create`; ``daskrf status`` shows ``source_path`` and ``model_path``.

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

    @property
    def every_row(self) -> bool:
        """Whether rejected rows have a row, too, with the reason why they have no prediction."""
        return bool(self.spec["options"].get("every_row", False))

    def table_path(self, p: int) -> PurePath:
        """Return the path of the Parquet file of partition `p`."""
        return self.path / self.table_name(p, "")

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
            Columns such as row, id, mean and std. With `every_row`, rejected rows are among them.
        rejects : pyarrow.Table, optional
            Columns of `REJECT_SCHEMA`.
        counts : dict, optional
            Further counts for the record; ``read``, ``kept`` and ``rejected`` are counted here, and must
            agree if given.

        Returns
        -------
        CommitRecord

        Raises
        ------
        StoreError
            The counts do not add up, or writing fails.
        """

        def stage(directory: Path) -> dict[PurePath, Path]:
            write_parquet(table.combine_chunks(), directory / "rows")
            return {self.table_path(p): directory / "rows"}

        rejected = rejects.num_rows if self.every_row and rejects is not None else 0
        return self._write(p, {"kept": table.num_rows - rejected}, rejects, counts, stage)

    def read(self, p: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Read all or some columns of one partition.

        Raises
        ------
        StoreError
            The partition is pending or damaged.
        """
        return self._read_table(p, "", columns, "read" if self.every_row else "kept")
