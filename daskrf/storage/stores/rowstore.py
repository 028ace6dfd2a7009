"""Shared code of the molecule stores: Parquet files of rows and rejects, and consistent counts.

Parquet is written with Zstandard and page checksums; equal tables give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from daskrf.errors import StoreError
from daskrf.files.disk import file_errors
from daskrf.storage.stores.store import REJECTS, CommitRecord, Store
from daskrf.storage.stores.zarrays import read_errors

LEVEL = 3  # Zstandard compression level
SOURCE_TYPE = pa.dictionary(pa.int32(), pa.string())
ROW_SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("id", pa.string()),
        pa.field("smiles", pa.string()),
        pa.field("source", SOURCE_TYPE),
        pa.field("line", pa.int64()),
    ]
)
REJECT_SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64()),
        pa.field("source", SOURCE_TYPE),
        pa.field("line", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("reason", pa.string()),
    ]
)


def write_parquet(table: pa.Table, path: Path, *, distinct: Sequence[str] = ()) -> None:
    """Write a table as Zstandard Parquet with page checksums; the bytes do not depend on time or host.

    Columns whose values are mostly `distinct` get no dictionary, which would take time and space in vain.
    """
    repeated = [name for name in table.column_names if name not in distinct]
    options: dict[str, object] = {
        "compression": "zstd",
        "compression_level": LEVEL,
        "write_page_checksum": True,
    }
    pq.write_table(table, path, use_dictionary=repeated if distinct else True, **options)


def write_rows(rows: pa.Table, path: Path) -> None:
    """Write the rows of a partition: the columns of `ROW_SCHEMA`, then the others."""
    write_parquet(typed(rows, ROW_SCHEMA), path, distinct=("row", "id", "smiles", "line"))


def parse_parquet(data: bytes, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the table, or some of its columns, in the bytes of a file whose digest has been checked.

    Page checksums are there for other readers; they do not cover the footer and the page headers.

    Raises
    ------
    OSError, pyarrow.ArrowException
        It is not Parquet.
    StoreError
        A column does not exist; `name` is the name of the file, for the message.
    """
    names = None if columns is None else list(columns)
    with pq.ParquetFile(pa.BufferReader(data)) as file:
        absent = [name for name in names or () if name not in file.schema_arrow.names]
        if absent:
            raise StoreError(
                f"{name} has no column {absent[0]!r}; its columns are {', '.join(file.schema_arrow.names)}"
            )
        return file.read(columns=names)


def typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the columns of `schema` in its order and types, then the others; no metadata, one chunk.

    Raises
    ------
    StoreError
        A column of `schema` is missing.
    """
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        raise StoreError(f"the table lacks the column {missing[0]!r}; this is a defect of the caller")
    arrays = [table[field.name].combine_chunks().cast(field.type) for field in schema]
    others = [name for name in table.column_names if name not in schema.names]
    arrays += [table[name] for name in others]
    return pa.table(arrays, names=[*schema.names, *others]).combine_chunks()


class TableStore(Store):
    """A store with a Parquet file for each partition."""

    def table_name(self, p: int, folder: str) -> str:
        """Return the name of partition `p`'s Parquet file in a folder of the store ("": the store itself)."""
        return f"{folder}/{self.partition_name(p)}.parquet".lstrip("/")

    def _read_table(self, p: int, folder: str, columns: Sequence[str] | None, counted: str) -> pa.Table:
        """Read a partition's Parquet file in a folder, and check its rows against the record's count."""
        record, name = self.record(p), self.table_name(p, folder)
        with read_errors(self.path, p):
            table = parse_parquet(record.read(self.path, name), f"{self.path}/{name}", columns)
            if table.num_rows != record.counts[counted]:
                raise ValueError(f"{name} has {table.num_rows} rows instead of {record.counts[counted]}")
        return table


class RowStore(TableStore):
    """A store that holds the identity of each row of a library beside its data, in the library's order.

    Attributes
    ----------
    library_hash : str
        Spec hash of the fingerprint store that defines the row numbers.
    library_path : str
        Path of that store when this one was made.
    row_bounds : int64 array, shape (n_partitions + 1,)
        Library row number at which each partition begins, and the end of the last one.
    """

    library_hash: str
    library_path: str
    row_bounds: npt.NDArray[np.int64]

    def rows_path(self, p: int) -> PurePath:
        """Return the path of the Parquet file with the rows of partition `p`."""
        return self.path / self.table_name(p, "rows")

    def read_rows(self, p: int, columns: Sequence[str] | None = None) -> pa.Table:
        """Read the rows of one partition: row, id, smiles, source, line and the extra columns.

        Parameters
        ----------
        p : int
            Partition.
        columns : sequence of str, optional
            Only these columns.

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

    def no_rows(self) -> pa.Table:
        """Return an empty table of rows."""
        return ROW_SCHEMA.empty_table()


class RejectingStore(TableStore):
    """A store whose partitions read more rows than they keep: read = kept + rejected."""

    def rejects_path(self, p: int) -> PurePath:
        """Return the path of the rejects of partition `p`; the file exists only if rows were rejected."""
        return self.path / self.table_name(p, REJECTS)

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

    def _write(
        self,
        p: int,
        counted: dict[str, int],
        rejects: pa.Table | None,
        expected: dict[str, int] | None,
        stage: Callable[[Path], dict[PurePath, Path]],
    ) -> CommitRecord:
        """Write and record one partition: its rejects, and what `stage` writes (final path -> staged path).

        `counted` has the number of kept rows. Rows read and rejected are counted here, and must agree with
        `expected`.
        """
        rejects, expected = REJECT_SCHEMA.empty_table() if rejects is None else rejects, expected or {}
        counted = {"read": counted["kept"] + rejects.num_rows, **counted, "rejected": rejects.num_rows}
        if wrong := [key for key in counted if expected.get(key, counted[key]) != counted[key]]:
            raise StoreError(
                f"the counts of partition {p} of {self.path} do not add up: {wrong[0]} is given as "
                f"{expected[wrong[0]]}, but is {counted[wrong[0]]}; this is a defect of the caller"
            )
        with self.staging(p) as directory, file_errors("write", directory):
            staged = stage(directory)
            if rejects.num_rows:
                write_parquet(typed(rejects, REJECT_SCHEMA), directory / "rejects")
                staged[self.rejects_path(p)] = directory / "rejects"
            return self.publish(p, staged, {**expected, **counted})
