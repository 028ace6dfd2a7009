"""Parquet as the stores write it: Zstandard and page checksums; equal tables give equal bytes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from daskrf.errors import StoreError

__all__ = ["parse_parquet", "typed", "write_parquet"]

LEVEL = 3


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table as Zstandard Parquet with page checksums; nothing in it depends on time or place."""
    pq.write_table(table, path, compression="zstd", compression_level=LEVEL, write_page_checksum=True)


def parse_parquet(data: bytes, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the table, or some of its columns, of the bytes of a file, whose digest has been checked.

    Page checksums, which are there for other readers, would leave out the footer and the heads of pages.

    Raises
    ------
    OSError, pyarrow.ArrowException
        It is no Parquet.
    StoreError
        It has no such column; `name` is that of the file.
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
    """The columns of `schema` in its order and types, then the others; no metadata, one chunk.

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
