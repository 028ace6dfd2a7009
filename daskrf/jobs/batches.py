"""Rows of input files as they are worked on: fingerprints, and tables of what is kept and rejected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from daskrf.molecules import FingerprintBlock, Fingerprinter, Library, Reject, RowBatch, read_partition

__all__ = ["fingerprints_of", "rejects_table", "rows_table"]


def fingerprints_of(
    library: Library, partition: int, fingerprinter: Fingerprinter, spool: PurePath | None
) -> Iterator[tuple[FingerprintBlock, pa.Table, list[Reject]]]:
    """Yield fingerprints, the table of the kept rows, and all rejects of each batch of a partition."""
    for batch in read_partition(library, partition, spool=spool):
        yield _fingerprint_batch(batch, library, fingerprinter)


def _fingerprint_batch(
    batch: RowBatch, library: Library, fingerprinter: Fingerprinter
) -> tuple[FingerprintBlock, pa.Table, list[Reject]]:
    block = fingerprinter(batch.smiles)
    rejected = [
        Reject(int(batch.row[i]), int(batch.source[i]), int(batch.line[i]), batch.smiles[i][:500], reason)
        for i, reason in block.rejects
    ]
    rejects = sorted([*batch.rejects, *rejected], key=lambda r: r.row)
    return block, rows_table(batch, library, block.kept), rejects


def rows_table(batch: RowBatch, library: Library, kept: Any) -> pa.Table:
    """Return row, id, smiles, source, line and the extra columns of the rows at the positions `kept`."""
    columns: dict[str, Any] = {
        "row": pa.array(batch.row[kept], pa.int64()),
        "id": pa.array([batch.id[i] for i in kept], pa.string()),
        "smiles": pa.array([batch.smiles[i] for i in kept], pa.string()),
        "source": _source_column(batch.source[kept], library),
        "line": pa.array(batch.line[kept], pa.int64()),
    }
    for name in library.extra:
        columns[name] = pa.array([batch.extra[name][i] for i in kept], pa.string())
    return pa.table(columns)


def _source_column(indices: Any, library: Library) -> pa.DictionaryArray:
    paths = pa.array([source.path for source in library.sources], pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), paths)


def rejects_table(rejects: Sequence[Reject], library: Library) -> pa.Table:
    """Return rejects as a table: row, source, line, text, reason."""
    return pa.table(
        {
            "row": pa.array([r.row for r in rejects], pa.int64()),
            "source": _source_column([r.source for r in rejects], library),
            "line": pa.array([r.line for r in rejects], pa.int64()),
            "text": pa.array([r.text for r in rejects], pa.string()),
            "reason": pa.array([r.reason for r in rejects], pa.string()),
        }
    )
