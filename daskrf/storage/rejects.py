"""What the stores of molecules share: the rejects of each partition, and counts that add up."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path, PurePath

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.errors import StoreError
from daskrf.storage.parquetfiles import parse_parquet, typed, write_parquet
from daskrf.storage.store import REJECTS, Store
from daskrf.storage.zarrays import read_errors

__all__ = ["REJECT_SCHEMA", "SOURCE_TYPE", "RejectingStore", "RowStore"]

SOURCE_TYPE = pa.dictionary(pa.int32(), pa.string())
REJECT_SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("source", SOURCE_TYPE),
        pa.field("line", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("reason", pa.string()),
    ]
)


class TableStore(Store):
    """A store that has a Parquet file for each partition."""

    def _read_table(self, p: int, folder: str, columns: Sequence[str] | None, counted: str) -> pa.Table:
        """Read the Parquet file of a partition in a folder, with as many rows as its record counts."""
        record, name = self.record(p), f"{folder}/{self.partition_name(p)}.parquet".lstrip("/")
        with read_errors(self.path, p):
            table = parse_parquet(record.read(self.path, name), f"{self.path}/{name}", columns)
            if table.num_rows != record.counts[counted]:
                raise ValueError(f"{name} has {table.num_rows} rows instead of {record.counts[counted]}")
        return table


class RowStore(TableStore):
    """A store that knows rows of a library, in its order: who they are stands beside what is held of them."""

    @functools.cached_property
    def row_bounds(self) -> npt.NDArray[np.int64]:
        """Row numbers of the library at which partitions begin, and after the last one."""
        raise NotImplementedError

    @property
    def library_hash(self) -> str:
        """Spec hash of the fingerprint store that rows are known by."""
        raise NotImplementedError

    @property
    def library_path(self) -> str:
        """Where that store is, or was."""
        raise NotImplementedError

    def rows_path(self, p: int) -> PurePath:
        """Parquet file of the rows of partition `p`."""
        return self.path / "rows" / f"{self.partition_name(p)}.parquet"

    def read_rows(self, p: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the rows of one partition: row, id, smiles, source, line and the extra columns.

        Parameters
        ----------
        p : int
            Partition.
        columns : sequence of str, optional
            Only these.

        Returns
        -------
        pyarrow.Table
            In the order of the store.

        Raises
        ------
        StoreError
            The partition is pending or damaged.
        """
        return self._read_table(p, "rows", columns, "kept")


class RejectingStore(TableStore):
    """A store whose partitions read more rows than they keep: read = kept + rejected."""

    def rejects_path(self, p: int) -> PurePath:
        """Parquet file of the rejects of partition `p`; there is none where nothing was rejected."""
        return self.path / REJECTS / f"{self.partition_name(p)}.parquet"

    def read_rejects(self, p: int) -> pa.Table:
        """Read the rejects of one partition: row, source, line, text and reason.

        Raises
        ------
        StoreError
            The partition is pending or damaged.
        """
        if not self.record(p).counts["rejected"]:
            return REJECT_SCHEMA.empty_table()
        return self._read_table(p, REJECTS, None, "rejected")

    def _stage_rejects(self, p: int, rejects: pa.Table, directory: Path) -> dict[PurePath, Path]:
        """Write rejects, if any, into a staging directory: final path -> staged path, for `publish`."""
        if not rejects.num_rows:
            return {}
        write_parquet(typed(rejects, REJECT_SCHEMA), directory / "rejects")
        return {self.rejects_path(p): directory / "rejects"}

    def _add_up(self, p: int, known: dict[str, int], given: dict[str, int] | None) -> dict[str, int]:
        """Counts of the record: what the caller gave, and what is known, which must agree."""
        given = given or {}
        wrong = [key for key in known if given.get(key, known[key]) != known[key]]
        if wrong:
            raise StoreError(
                f"the counts of partition {p} of {self.path} do not add up: {wrong[0]} is given as "
                f"{given[wrong[0]]} and {known[wrong[0]]} came; this is a defect of the caller"
            )
        return {**given, **known}
