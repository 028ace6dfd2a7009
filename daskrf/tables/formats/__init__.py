"""Formats of tables: how each is recognized by content, and how its rows are read.

A format is one module of this package with a subclass of `Reader`, or of `Streamed` if each line is a row.
It is discovered by being in this folder: nothing else names it. Files are decompressed first
(`daskrf.tables.streams`), and what the columns hold is decided later, by `daskrf.tables.layout` for
libraries and by `daskrf.measurements` for labels.
"""

from __future__ import annotations

import csv
import functools
import importlib
import inspect
import itertools
import pkgutil
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.parameters import Option
from daskrf.quantities import listed
from daskrf.tables.streams import ENCODINGS, compression_of, encoding_of, text_blocks

if TYPE_CHECKING:
    from daskrf.tables.spool import Spool, SpoolWriter

__all__ = [
    "BATCH_ROWS",
    "EMPTY",
    "EVERY",
    "HEAD_ROWS",
    "INDEX_STEP",
    "Column",
    "Fault",
    "Head",
    "Purpose",
    "Reader",
    "Rows",
    "Segment",
    "Table",
    "TableFormat",
    "View",
    "open_table",
    "reader_of",
    "readers",
    "whole",
]

Column = str | int

BATCH_ROWS = 10_000
INDEX_STEP = 10_000
"""The scan records where every 10,000th row begins; a reader skips rows from there."""
HEAD_ROWS = 25
"""Number of first rows from which columns are detected."""
EMPTY = "empty line"
"""Reason why an empty line cannot be read; labels skip such lines."""
EVERY = "*"
"""In the place of columns to keep: all named columns that every file has."""
MAX_TEXT = 500
"""Maximum number of characters shown of a row."""
_ALL = 2**62
_ENOUGH = 1 << 16  # bytes that distinguish formats and encodings


_DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}


def _columns(texts: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns named on the command line; numbers become positions.

    Names with commas may stand in quotes.
    """
    try:
        words = [word.strip() for fields in csv.reader(texts, skipinitialspace=True) for word in fields]
    except csv.Error as error:
        raise ValueError(f"names of columns cannot be read ({error}).") from None
    return tuple(int(word) if word.isdecimal() else word for word in words if word)


@dataclass(frozen=True)
class TableFormat:
    """How to read the rows of the input files; everything left at None is detected for each file.

    Parameters
    ----------
    smiles : str or int, optional
        Column of the SMILES: a name (the file, or an earlier one of the same layout, then needs a header), or
        a position counted from 0. Detected when left out.
    id : str or int, optional
        Column of the IDs, by name or position. Detected when left out; rows without an ID are called row-0,
        row-1, and so on.
    extra : sequence of str or int
        Other columns to keep beside each molecule, as text, by name or position; on the command line
        separated by commas. ``*`` stands for all named columns that every file has.
    header : bool, optional
        Whether the first line holds the names of the columns. Detected when left out.
    delimiter : str, optional
        What separates the columns: one character, or "tab", "comma" or "semicolon", or "space" for any white
        space. When left out, the one of these that gives most of the first lines a valid SMILES. If several
        do equally well, the file extension decides: comma for .csv, tab for .tsv; for all others tab if the
        first lines have tabs, else white space.

    Raises
    ------
    InputError
        If a column or the delimiter is not valid.

    Examples
    --------
    >>> from daskrf.tables import TableFormat
    >>> TableFormat(smiles=1, id=0)
    TableFormat(smiles=1, id=0, extra=(), header=None, delimiter=None)
    """

    section: ClassVar[str] = "Reading the files"
    options: ClassVar[Mapping[str, Option]] = {
        "smiles": Option("--smiles-column"),
        "id": Option("--id-column"),
        "extra": Option("--keep-columns", metavar="COLUMNS", repeated=True, convert=_columns),
        "delimiter": Option(metavar="CHARACTER"),
    }

    smiles: Column | None = None
    id: Column | None = None
    extra: tuple[Column, ...] = ()
    header: bool | None = None
    delimiter: str | None = None

    def __post_init__(self) -> None:
        extra = (self.extra,) if isinstance(self.extra, (str, int)) else tuple(self.extra)
        object.__setattr__(self, "extra", extra)
        object.__setattr__(self, "delimiter", _DELIMITERS.get(self.delimiter or "", self.delimiter))
        named = tuple(column for column in extra if column != EVERY)
        for column in (self.smiles, self.id, *extra):
            is_position = isinstance(column, int) and not isinstance(column, bool) and column >= 0
            if not (column is None or is_position or (isinstance(column, str) and column)):
                raise InputError(f"column {column!r} must be a name, or a position counted from 0.")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '\n\r"'):
            raise InputError(
                f"delimiter {self.delimiter!r} must be one character other than a quote or line end."
            )
        if self.header is False and any(isinstance(column, str) for column in (self.smiles, self.id, *named)):
            raise InputError("columns can be named only if there is a header; give their positions instead.")


@dataclass(frozen=True)
class Table:
    """How the rows of one file are split into columns: what a plan keeps of it, as JSON.

    `Reader.open` makes it, once; `words`, `scan` and `read` receive it later, perhaps in other workers and
    runs, so it must hold everything that these need to know about the file besides its path.

    Attributes
    ----------
    kind : str
        `Reader.name` of the format, by which `reader_of` finds the reader again.
    compression : {"", "gzip", "bzip2", "zstd"}
        Followed by the encoding if it is not UTF-8, with a blank between them: what `Reader.open` was given.
        "" for formats that are not read as streams.
    delimiter : str
        One character, or " " for white space; "" if the format has its own rules. Such a format may keep a
        text of its own here, as Excel does with the name of the sheet.
    exact : bool
        Every row must have `n_columns` columns. Otherwise (.smi and the like) only the first requested one is
        required.
    header : int
        Number of lines (rows of a sheet) before the first row, blank ones included: row r of a stream of
        lines is line header + r + 1. 0 if names are not in lines.
    names : tuple of str or None
        Names of the columns, `n_columns` of them, "" for one without; None if the file does not name them.
        Two columns of one name are refused by `open_table`.
    n_columns : int
        Number of columns of a regular row; 0 if there was none to see.
    """

    kind: str
    compression: str
    delimiter: str
    exact: bool
    header: int
    names: tuple[str, ...] | None
    n_columns: int

    @property
    def encoding(self) -> str:
        """The encoding, if it is not UTF-8."""
        return next((layer for layer in self.compression.split() if layer in ENCODINGS), "")

    @property
    def layers(self) -> list[str]:
        """Encoding and compression in words."""
        text = ENCODINGS.get(self.encoding, "UTF-8") + " text"
        packed = self.compression.removesuffix(self.encoding).strip()
        return [text, f"{packed}-compressed"] if packed else [text]


@dataclass(frozen=True)
class Purpose:
    """What a table is read for, which decides what the format leaves open.

    Attributes
    ----------
    fit : callable
        Returns how well some rows, lists of fields, suit the purpose; used to choose the delimiter.
    is_header : callable
        Returns whether the fields of the first row are column names, given the rows below it.
    asked : TableFormat
        The options given by the user.
    longest : int
        Maximum bytes per line; longer lines are not read.
    strict : bool
        Every row is read exactly as it stands, or an error is raised: all rows have the same number of
        columns, a quoted field may span several lines, and numbers are exact to the last bit. Otherwise a
        line is a row.
    extensions : bool
        The first requested column holds SMILES, which may be followed by CXSMILES extensions.
    accepts : bool
        Rows that cannot be read are left out, each by itself: a quote without end spoils no other line.
    """

    fit: Callable[[Sequence[Sequence[str]]], int]
    is_header: Callable[[Sequence[str], Sequence[Sequence[str]]], bool]
    fmt: TableFormat
    longest: int
    strict: bool
    extensions: bool
    accepts: bool = False


@dataclass(frozen=True)
class Head:
    """What the first rows of a file show, from which SMILES, IDs and labels are found; it is not stored.

    Attributes
    ----------
    table : Table
        How the file is read from now on.
    n_rows : int
        Number of rows that were looked at, header excluded: about `HEAD_ROWS`, more or fewer where a format
        has a reason, or all of a shorter file; 0 if it has none.
    width : int
        Number of columns in the widest of them; `table.n_columns` where all rows have as many.
    text : sequence of int
        Positions of the columns that may hold text, in ascending order: SMILES and IDs are looked for in
        these. All, unless columns have types.
    columns : callable
        Takes positions, and returns for each the list of its values in these rows, as text, in order. A row
        that has no such column is left out, so that lists may be shorter than `n_rows`.
    structure, title : int or None
        Positions of the columns that hold the molecules, as SMILES, and their names, if the format itself
        says which they are, as SD files do; None where it has to be found out.
    """

    table: Table
    n_rows: int
    width: int
    text: Sequence[int]
    columns: Callable[[Sequence[int]], list[list[str]]]
    structure: int | None = None
    title: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns; of a table without a header, their numbers."""
        return tuple(self.table.names or (f"column {k}" for k in range(self.table.n_columns)))

    def values(self, position: int) -> list[str]:
        """Return the values in these rows of one column."""
        return self.columns([position])[0]


@dataclass(frozen=True)
class Segment:
    """Consecutive rows of one file.

    Attributes
    ----------
    source : int
        Index of the file in :attr:`Library.sources`.
    first_row : int
        First row, counted from 0 in the file, header excluded.
    n_rows : int
    offset, skip : int
        In the uncompressed bytes of a file read as a stream, the first row begins `skip` rows after
        `offset`.
    """

    source: int
    first_row: int
    n_rows: int
    offset: int
    skip: int


@dataclass(frozen=True)
class View:
    """What to read from a file: columns by position, of which the first is required in every row.

    Of `rows`, ascending numbers in the file, all are read; readers may leave out others whose reading takes
    long.
    """

    path: PurePath
    table: Table
    columns: Sequence[int]
    purpose: Purpose
    rows: npt.NDArray[np.int64] | None = None


def whole(table: Table, n_rows: int = _ALL) -> Segment:
    """Return a segment with the first rows of a table, or all."""
    return Segment(0, 0, n_rows, 0, table.header)


class Fault(NamedTuple):
    """A row that cannot be read: number in the file from 0, line from 1, its text, and the reason."""

    row: int
    line: int
    text: str
    reason: str


@dataclass(frozen=True)
class Rows:
    """Some consecutive rows of a table.

    Attributes
    ----------
    row, line : ndarray of int64, shape (n,)
        Number in the file (from 0) and line (from 1) of each row that could be read.
    columns : list of list of (str or None)
        Values of the requested columns; None where a row has none.
    faults : list of Fault
        The rows that could not be read.
    text : callable
        Returns the text to show for a row, given its position in `row`.
    unfinished : bool
        Whether these are the last lines of a segment, which begin a row that does not end there.
    """

    row: npt.NDArray[np.int64]
    line: npt.NDArray[np.int64]
    columns: list[list[str | None]]
    faults: list[Fault]
    text: Callable[[int], str]
    unfinished: bool = False

    @property
    def n_read(self) -> int:
        """Number of rows, faulty ones included."""
        return len(self.row) + len(self.faults)


class Reader(ABC):
    """One format of tables: a class for each, without state."""

    name: ClassVar[str]
    """Name of the format in plans."""
    row_word: ClassVar[str] = "row"
    """Word for a row in messages."""
    streams: ClassVar[bool] = False
    """Whether files are read from first to last byte, so that they may be compressed."""
    holds_poses: ClassVar[bool] = False
    """Whether rows may be poses, so that labels may be many such files, mostly one per molecule."""
    precedence: ClassVar[int]
    """When the format is asked whether a file has it: the smallest first, each with a number of its own.

    Below 50, the first bytes of a file tell for certain; from 50 on, `sniff` searches for what text may hold,
    too; text, which takes everything, has 100."""

    @abstractmethod
    def sniff(self, head: bytes) -> bool:
        """Return whether a file that begins with `head` has this format, whatever its name."""

    @abstractmethod
    def open(self, path: PurePath, compression: str, blocks: Iterator[bytes], purpose: Purpose) -> Head:
        """Return what the first rows of a file show, given its content as `blocks`.

        Raises
        ------
        InputError
            If the file is damaged or not a table.
        """

    @abstractmethod
    def words(self, table: Table) -> str:
        """Return the layout of a table in words, for messages."""

    def place(self, path: PurePath, table: Table, line: int) -> str:
        """Return where in its file a row stands, for messages, by the line that `Rows` give it."""
        return f"{self.row_word} {line}"

    def no_value(self, table: Table) -> str:
        """Return what is wrong with an empty cell, and what to do, as the end of a sentence."""
        return "is empty; fill it in"

    @abstractmethod
    def scan(
        self, path: PurePath, table: Table, blocks: Iterator[bytes], spool: SpoolWriter | None = None
    ) -> tuple[int, list[int]]:
        """Return the number of rows and, for a stream, the offset of every `INDEX_STEP`th row.

        Consumes all of `blocks`, the content of the file; streams save a copy of their rows in `spool`.
        """

    @abstractmethod
    def read(self, view: View, segments: Iterable[Segment], spool: Spool | None = None) -> Iterator[Rows]:
        """Yield the rows of ascending segments, at most `BATCH_ROWS` at a time; fewer where the file ends.

        `spool` is where `scan` saved the rows of a compressed file.

        Raises
        ------
        InputError
            If the file cannot be read or is damaged.
        """


@functools.cache
def readers() -> tuple[Reader, ...]:
    """Return a reader for each format with a module here, by their `Reader.precedence`.

    Raises
    ------
    TypeError
        If a format has no precedence, or that of another: the order would be that of the names of files.
    """
    by_precedence: dict[int, Reader] = {}
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        for kind in vars(importlib.import_module(module.name)).values():
            if not (inspect.isclass(kind) and issubclass(kind, Reader) and kind.__module__ == module.name):
                continue
            if inspect.isabstract(kind):
                continue
            place = getattr(kind, "precedence", None)
            if place is None or place in by_precedence:
                taken = ", ".join(
                    f"{precedence} ({reader.name})" for precedence, reader in sorted(by_precedence.items())
                )
                wrong = "has none" if place is None else f"has {place}, as {by_precedence[place].name} does"
                raise TypeError(
                    f"Each format needs a precedence of its own, and {kind.__name__} {wrong}: see "
                    f"Reader.precedence, and set another than {taken}."
                )
            by_precedence[place] = kind()
    return tuple(by_precedence[place] for place in sorted(by_precedence))


def reader_of(table: Table) -> Reader:
    """Return the reader of a table.

    Raises
    ------
    InputError
        If no module here reads its format.
    """
    for reader in readers():
        if reader.name == table.kind:
            return reader
    raise InputError(f"files of the format {table.kind!r} cannot be read by this version of daskrf.")


def open_table(path: PurePath, purpose: Purpose) -> Head:
    """Return what the first rows of a file show; its format is told by its content, not its name.

    Raises
    ------
    InputError
        If the file cannot be read, is damaged or is not a table.
    """
    compression = compression_of(path)
    first, blocks = _begin(path, compression)
    if encoding := encoding_of(first):
        compression = f"{compression} {encoding}".strip()
        first, blocks = _begin(path, compression)
    reader = next(reader for reader in readers() if reader.sniff(first))
    if compression and not reader.streams:
        raise InputError(f"{path} is {reader.name} compressed with {compression}; decompress it.")
    head = reader.open(path, compression, itertools.chain([first], blocks), purpose)
    names = Counter(filter(None, head.table.names or ()))
    if twice := [name for name, times in names.items() if times > 1]:
        quoted = listed(twice, "'")
        raise InputError(f"{path} has several columns with the same name ({quoted}); rename them.")
    return head


def _begin(path: PurePath, compression: str) -> tuple[bytes, Iterator[bytes]]:
    """Return the first bytes of the content of a file, and the rest."""
    blocks = text_blocks(path, compression)
    first = b""
    while len(first) < _ENOUGH and (block := next(blocks, None)) is not None:
        first += block  # may be empty in compressed files
    return first, blocks
