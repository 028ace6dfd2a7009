"""What a scan of the input files returns: sources, and the partitions of their rows."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path, PurePath
from typing import TypedDict, cast

import numpy as np
import numpy.typing as npt

from daskrf.errors import printable
from daskrf.tables.formats import Segment, Table, reader_of
from daskrf.tables.spool import Spool
from daskrf.tables.values.names import column_words

_LAYOUTS = 10  # listed one by one
_NAMED = 5  # columns that are kept, listed one by one


@dataclasses.dataclass(frozen=True)
class Layout(Table):
    """The layout of one library file.

    Attributes
    ----------
    smiles : int
        Position of the SMILES.
    id : int or None
        Position of the ID.
    extra : tuple of (str, int)
        Key and position of each further column.
    """

    smiles: int
    id: int | None
    extra: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        words = reader_of(self).words(self)
        if not self.n_columns:
            return f"{words}, in which no row was seen"
        parts = [f"SMILES in {column_words(self.names, self.smiles)}"]
        if self.id is not None and self.id >= self.n_columns:  # none in the first lines
            parts.append(f"IDs, if any, in column {self.id}, and other rows are named row-0, row-1, ...")
        elif self.id is not None:
            parts.append(f"IDs in {column_words(self.names, self.id)}")
        parts += [f"{column_words(self.names, at)} is kept" for _, at in self.extra[:_NAMED]]
        parts += [f"so are {len(self.extra) - _NAMED} others"] if len(self.extra) > _NAMED else []
        counted = " (columns are counted from 0)" if self.names is None else ""
        if self.id is None:
            which = f"its {self.n_columns} columns" if self.n_columns > 1 else "its only column"
            if self.names:
                which = f"{which} ({column_words(self.names, *range(len(self.names)))})"
            parts.append(f"no IDs found in {which}, so rows are named row-0, row-1, ...")
        return f"{words}; {', '.join(parts)}{counted}"

    def state(self) -> dict[str, object]:
        """Return the fields as a dict for JSON."""
        return _plain(dataclasses.asdict(self))


class LayoutState(TypedDict):
    """The fields of a `Layout` in a plan."""

    kind: str
    compression: str
    delimiter: str
    exact: bool
    header: int
    names: list[str] | None
    n_columns: int
    smiles: int
    id: int | None
    extra: list[tuple[str, int]]


class SourceState(TypedDict):
    """The fields of a `Source` in a `LibraryState`."""

    path: str
    bytes: int
    sha256: str
    rows: int
    layout: LayoutState


class LibraryState(TypedDict):
    """What `Library.state` returns; a partition is its rows [start, stop) and its segments."""

    sources: list[SourceState]
    rows_per_partition: int
    partitions: list[tuple[int, int, list[list[int]]]]


@dataclasses.dataclass(frozen=True)
class Source:
    """One input file: absolute path, size in bytes, digest, rows (data lines), and layout."""

    path: str
    bytes: int
    sha256: str
    rows: int
    layout: Layout


@dataclasses.dataclass(frozen=True)
class Partition:
    """Global rows [start, stop) and their location."""

    start: int
    stop: int
    segments: tuple[Segment, ...]


@dataclasses.dataclass(frozen=True)
class Library:
    """The rows of all input files, cut into partitions.

    A row is a data line of the input files in their order; blank and unreadable lines are rows too. Rows are
    numbered from 0 across all files, and a row's number never changes.
    """

    sources: tuple[Source, ...]
    partitions: tuple[Partition, ...]
    rows_per_partition: int

    @property
    def n_rows(self) -> int:
        """Number of rows in all files."""
        return sum(source.rows for source in self.sources)

    @functools.cached_property
    def starts(self) -> tuple[int, ...]:
        """Number of the first row of each file."""
        return tuple(itertools.accumulate((source.rows for source in self.sources[:-1]), initial=0))

    @property
    def n_bytes(self) -> int:
        """Size of all files on disk in bytes."""
        return sum(source.bytes for source in self.sources)

    @property
    def extra(self) -> tuple[str, ...]:
        """Keys of the extra columns."""
        return tuple(key for key, _ in self.sources[0].layout.extra)

    def state(self) -> LibraryState:
        """Return everything as a dict for JSON."""
        state = {
            "sources": list(map(dataclasses.asdict, self.sources)),
            "rows_per_partition": self.rows_per_partition,
            "partitions": list(map(dataclasses.astuple, self.partitions)),
        }
        return cast(LibraryState, _plain(state))

    @classmethod
    def from_state(cls, state: LibraryState) -> Library:
        """Return the library described by a dict from :meth:`state`.

        Examples
        --------
        >>> from daskrf.tables import Library
        >>> Library.from_state({"sources": [], "rows_per_partition": 2000, "partitions": []}).n_rows
        0
        """
        partitions = tuple(
            Partition(start, stop, tuple(Segment(*segment) for segment in segments))
            for start, stop, segments in state["partitions"]
        )
        return cls(tuple(map(_source, state["sources"])), partitions, state["rows_per_partition"])


def _plain(state: dict[str, object]) -> dict[str, object]:
    """Return a dict in the form in which it comes back from JSON, without tuples."""
    plain: dict[str, object] = json.loads(json.dumps(state))
    return plain


def is_spooled(spool: PurePath, source: Source) -> bool:
    """Return whether the rows of `source` are in the folder, or can be read without."""
    return not source.layout.compression or Spool(spool, source.sha256).holds(source.rows)


def _source(state: SourceState) -> Source:
    layout, make = state["layout"], cast(Callable[..., Layout], Layout)
    names = None if layout["names"] is None else tuple(layout["names"])
    extra = tuple((str(key), int(position)) for key, position in layout["extra"])
    settings = make(**{**layout, "names": names, "extra": extra})
    return Source(state["path"], state["bytes"], state["sha256"], state["rows"], settings)


@dataclasses.dataclass(frozen=True)
class Reject:
    """A rejected row: global row, source index, line (from 1), at most 500 characters of text, reason."""

    row: int
    source: int
    line: int
    text: str
    reason: str


@dataclasses.dataclass(frozen=True)
class RowBatch:
    """Up to 10,000 consecutive rows of one file.

    Attributes
    ----------
    row, line : ndarray of int64, shape (n,)
        Global row, and line in the file (counted from 1), of the rows that could be read.
    source : ndarray of int32, shape (n,)
        Index of the source file.
    id, smiles : list of str, length n
    extra : dict of str to list of (str or None)
    rejects : list of Reject
        The rows that could not be read.
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
        """Number of rows read, rejected ones included."""
        return len(self.smiles) + len(self.rejects)

    def of(self, positions: npt.NDArray[np.intp]) -> RowBatch:
        """Return the rows at some positions, without rejects."""
        at = positions.tolist()
        return RowBatch(
            self.row[positions],
            self.line[positions],
            self.source[positions],
            [self.id[i] for i in at],
            [self.smiles[i] for i in at],
            {name: [values[i] for i in at] for name, values in self.extra.items()},
            [],
        )


def given_words(path: str | os.PathLike[str]) -> str:
    """Return what a file holds that was written for data given in memory; "" for any other file.

    See `daskrf.sources.given`, which writes such files in folders that end in ".given", under the name of
    what is in them, with their number and a digest.

    Examples
    --------
    >>> given_words("hits.given/SMILES-2-0a1b2c.parquet"), given_words("hits.given/table-0a1b2c.parquet")
    ('the 2 SMILES given', 'the table given')
    >>> given_words("SMILES-2-0a1b2c.parquet")
    ''
    """
    if not Path(path).parent.name.endswith(".given"):
        return ""
    what, *number = Path(path).name.split("-")[:-1]
    return "standard input" if what == "stdin" else f"the {' '.join([*number, what])} given"


def file_words(path: str | os.PathLike[str]) -> str:
    """Return a file name for a message: relative to the working directory if the file is below it.

    Data given in memory are described by `given_words`.
    """
    if words := given_words(path):
        return words
    text, here = str(path), f"{Path.cwd()}{os.sep}"
    return printable(text.removeprefix(here))


def table_words(tables: Iterable[tuple[str | os.PathLike[str], Layout]]) -> tuple[str, ...]:
    """Return how files are read, one line per distinct layout; after ten, the number of further ones.

    Examples
    --------
    >>> layout = Layout("text", "", " ", False, 0, None, 2, 0, 1)
    >>> print(*table_words([("a.smi", layout), ("b.smi", layout)]))
    2 files such as a.smi: UTF-8 text, separated by white space, without a header; SMILES in column 0, IDs in column 1 (columns are counted from 0)
    """  # noqa: E501
    files: dict[str, list[str | os.PathLike[str]]] = {}
    for path, layout in tables:
        files.setdefault(str(layout), []).append(path)
    lines = []
    for words, paths in files.items():
        which = file_words(paths[0])
        if which.endswith("SMILES given"):  # how they were written to a file is of no interest
            lines.append(which)
            continue
        lines.append(f"{f'{len(paths):,} files such as {which}' if len(paths) > 1 else which}: {words}")
    more = len(lines) - _LAYOUTS
    return (*lines[:_LAYOUTS], *([f"and files with {more:,} other layouts"] if more > 0 else []))
