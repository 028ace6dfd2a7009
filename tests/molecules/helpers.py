"""Files for the tests of molecules, and everything read back from them."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Sequence
from pathlib import Path

import zstandard

from daskrf.tables import Library, Reject, read_partition

COMPRESS = {
    "": lambda data: data,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def write(path: Path, data: bytes | str, parts: int = 1) -> Path:
    """Write `data`, compressed as the name says, in `parts` members, streams or frames."""
    raw = data.encode() if isinstance(data, str) else data
    ending = path.suffix if path.suffix in COMPRESS else ""
    step = max(1, -(-len(raw) // parts))
    pieces = [raw[at : at + step] for at in range(0, len(raw), step)] or [b""]
    path.write_bytes(b"".join(COMPRESS[ending](piece) for piece in pieces))
    return path


def rows_of(library: Library, spool: Path | None = None) -> list[tuple[int, int, int, str, str]]:
    """Return (row, source, line, id, smiles) of every kept row, after checks of the shape of each batch."""
    return _read(library, spool)[0]


def rejects_of(library: Library, spool: Path | None = None) -> list[Reject]:
    """Return every rejected row."""
    return _read(library, spool)[1]


def _read(library: Library, spool: Path | None) -> tuple[list[tuple[int, int, int, str, str]], list[Reject]]:
    rows: list[tuple[int, int, int, str, str]] = []
    rejects: list[Reject] = []
    for p, partition in enumerate(library.partitions):
        read = 0
        for batch in read_partition(library, p, spool):
            assert (
                len(batch.row) == len(batch.line) == len(batch.source) == len(batch.id) == len(batch.smiles)
            )
            assert all(len(column) == len(batch.row) for column in batch.extra.values())
            columns: Sequence[list] = (batch.row.tolist(), batch.source.tolist(), batch.line.tolist())
            rows.extend(zip(*columns, batch.id, batch.smiles, strict=True))
            rejects.extend(batch.rejects)
            read += batch.n_read
        assert read == partition.stop - partition.start
    return rows, rejects
