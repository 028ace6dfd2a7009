"""What a scan of the input files finds: sources, and the partitions of their rows."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Layout", "Library", "Partition", "Reject", "RowBatch", "Segment", "Source"]


@dataclasses.dataclass(frozen=True)
class Layout:
    """How one file is laid out.

    Attributes
    ----------
    kind : {"text", "parquet"}
    compression : {"", "gzip", "bzip2", "zstd"}
    delimiter : str
        One character, or " " for white space; "" for Parquet.
    exact : bool
        Every line must have `n_columns` columns (.csv, .tsv, or a delimiter that was given). Otherwise (.smi
        and the like) only the SMILES must be there.
    header : int
        Number of header lines, 0 or 1.
    names : tuple of str or None
        Names of the columns.
    n_columns : int
    smiles : int
        Position of the SMILES.
    id : int or None
        Position of the ID.
    extra : tuple of (str, int)
        Key and position of each further column.
    """

    kind: str
    compression: str
    delimiter: str
    exact: bool
    header: int
    names: tuple[str, ...] | None
    n_columns: int
    smiles: int
    id: int | None
    extra: tuple[tuple[str, int], ...] = ()

    def state(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON."""
        return {
            **dataclasses.asdict(self),
            "names": None if self.names is None else list(self.names),
            "extra": [list(pair) for pair in self.extra],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Layout:
        """Return the layout that :meth:`state` described."""
        names = None if state["names"] is None else tuple(state["names"])
        extra = tuple((str(key), int(position)) for key, position in state["extra"])
        return cls(**{**state, "names": names, "extra": extra})


@dataclasses.dataclass(frozen=True)
class Source:
    """One input file: absolute path, size in bytes, digest, rows (data lines), and layout."""

    path: str
    bytes: int
    sha256: str
    rows: int
    layout: Layout

    def state(self) -> dict[str, Any]:
        """Return the fields as a dict for JSON."""
        return {**dataclasses.asdict(self), "layout": self.layout.state()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Source:
        """Return the source that :meth:`state` described."""
        return cls(**{**state, "layout": Layout.from_state(state["layout"])})


@dataclasses.dataclass(frozen=True)
class Segment:
    """Consecutive rows of one file.

    Attributes
    ----------
    source : int
        Index of the file in :attr:`Library.sources`.
    first_row : int
        First row, counted from 0 in the file, without header.
    n_rows : int
    offset, skip : int
        In the uncompressed bytes of a text file, the first row begins `skip` lines after `offset`.
    """

    source: int
    first_row: int
    n_rows: int
    offset: int
    skip: int


@dataclasses.dataclass(frozen=True)
class Partition:
    """Global rows [start, stop), and where they are."""

    start: int
    stop: int
    segments: tuple[Segment, ...]


@dataclasses.dataclass(frozen=True)
class Library:
    """The rows of all input files, cut into partitions.

    A row is a data line of the input files in their order; blank and unreadable lines are rows too. Its
    number counts from 0 through all files and never changes.
    """

    sources: tuple[Source, ...]
    partitions: tuple[Partition, ...]
    rows_per_partition: int

    @property
    def n_rows(self) -> int:
        """Number of rows of all files."""
        return sum(source.rows for source in self.sources)

    @property
    def n_bytes(self) -> int:
        """Number of bytes of all files on disk."""
        return sum(source.bytes for source in self.sources)

    @property
    def extra(self) -> tuple[str, ...]:
        """Keys of the extra columns."""
        return tuple(key for key, _ in self.sources[0].layout.extra)

    def state(self) -> dict[str, Any]:
        """Return everything as a dict for JSON."""
        return {
            "sources": [source.state() for source in self.sources],
            "rows_per_partition": self.rows_per_partition,
            "partitions": [
                [part.start, part.stop, [list(dataclasses.astuple(segment)) for segment in part.segments]]
                for part in self.partitions
            ],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Library:
        """Return the library that :meth:`state` described.

        Examples
        --------
        >>> from daskrf.molecules import Library
        >>> Library.from_state({"sources": [], "rows_per_partition": 2000, "partitions": []}).n_rows
        0
        """
        partitions = tuple(
            Partition(start, stop, tuple(Segment(*segment) for segment in segments))
            for start, stop, segments in state["partitions"]
        )
        sources = tuple(Source.from_state(source) for source in state["sources"])
        return cls(sources, partitions, state["rows_per_partition"])


@dataclasses.dataclass(frozen=True)
class Reject:
    """A row left out: global row, index of the source, line (from 1), at most 500 characters, reason."""

    row: int
    source: int
    line: int
    text: str
    reason: str


@dataclasses.dataclass(frozen=True)
class RowBatch:
    """At most 10,000 consecutive rows of one file.

    Attributes
    ----------
    row, line : ndarray of int64, shape (n,)
        Global row, and line in the file counted from 1, of the rows that could be read.
    source : ndarray of int32, shape (n,)
        Index of the file.
    id, smiles : list of str, length n
    extra : dict of str to list of (str or None)
    rejects : list of Reject
        The other rows.
    """

    row: npt.NDArray[np.int64]
    line: npt.NDArray[np.int64]
    source: npt.NDArray[np.int32]
    id: list[str]
    smiles: list[str]
    extra: dict[str, list[str | None]]
    rejects: list[Reject]

    @property
    def n_read(self) -> int:
        """Number of rows read: those here and the rejected ones."""
        return len(self.smiles) + len(self.rejects)
