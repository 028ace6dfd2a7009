"""Read the table of a label file: the wanted columns as text, with the line of each row."""

from __future__ import annotations

import codecs
import csv
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from daskrf.errors import InputError
from daskrf.molecules import file_words, text_words
from daskrf.molecules.contents import first_bytes, is_parquet, refuse_foreign
from daskrf.molecules.formats import TableFormat, delimiter_of
from daskrf.molecules.names import listed
from daskrf.molecules.streams import compression_of, text_blocks
from daskrf.paths import readable

__all__ = ["LabelFile", "open_labels"]

Column = str | int
BLOCK_ROWS = 50_000
HEAD_ROWS, HEAD_FIELDS, HEAD_BYTES = 25, 100_000, 1 << 20  # of the first rows, by which columns are told


@dataclass(frozen=True)
class LabelFile:
    """A table whose rows can be read again and again.

    Attributes
    ----------
    path : Path
        The file.
    names : tuple of str
        Of its columns; ``column 0`` and so on where it has no header.
    head : tuple of tuple of str
        Fields of the first rows, one at least: 25, or fewer where there are more than 4,000 columns.
    first_line : int
        Line of the first row, counted from 1; in Parquet, rows are lines and the first is 1.
    delimiter : str
        Of a text file; empty for Parquet.
    header : bool
        Whether the file names its columns.
    """

    path: Path
    names: tuple[str, ...]
    head: tuple[tuple[str, ...], ...]
    first_line: int
    delimiter: str
    header: bool = True

    @property
    def sample(self) -> tuple[str, ...]:
        """Fields of the first row."""
        return self.head[0]

    def column(self, position: int) -> list[str]:
        """Return the first values of a column."""
        return [row[position] for row in self.head if position < len(row)]

    def __str__(self) -> str:
        if not self.delimiter:
            return f"{file_words(self.path)}: Parquet"
        words = text_words(compression_of(self.path), self.delimiter, header=self.header)
        return f"{file_words(self.path)}: {words}"

    @property
    def line_word(self) -> str:
        """What a position in this file is called."""
        return "line" if self.delimiter else "row"

    def position(self, column: Column) -> int:
        """Position of a column that is given by name, or by position from 0.

        Raises
        ------
        InputError
            There is none; those that there are get named.
        """
        if isinstance(column, int):
            if 0 <= column < len(self.names):
                return column
            raise InputError(f"{self.path} has {len(self.names)} columns, so there is no position {column}")
        if column in self.names:
            return self.names.index(column)
        lower = [name.lower() for name in self.names]
        if lower.count(column.lower()) == 1:
            return lower.index(column.lower())
        raise InputError(f"{self.path} has no column {column!r}; its columns are {listed(self.names)}")

    def blocks(self, positions: Sequence[int]) -> Iterator[tuple[list[int], list[list[str]]]]:
        """Lines and the wanted columns of some ten thousand rows at a time; blank lines are passed over.

        Raises
        ------
        InputError
            A row with too few columns, by file and line.
        """
        rows = self._text_rows(positions) if self.delimiter else _parquet_rows(self, positions)
        while block := list(itertools.islice(rows, BLOCK_ROWS)):
            yield (
                [line for line, _ in block],
                [list(column) for column in zip(*(f for _, f in block), strict=True)],
            )

    def _text_rows(self, positions: Sequence[int]) -> Iterator[tuple[int, Sequence[str]]]:
        """Line and the wanted fields of each row of a text file."""
        for line, fields in _text_rows(self.path, self.delimiter):
            if line < self.first_line:
                continue
            if len(fields) != len(self.names):
                raise InputError(
                    f"{self.path}, line {line} has {len(fields)} columns instead of {len(self.names)}; "
                    "correct or delete it"
                )
            yield line, [fields[position] for position in positions]


def open_labels(path: Path) -> LabelFile:
    """Find out the columns of a label file: a table of text (plain or compressed) or Parquet.

    Parameters
    ----------
    path : Path
        The file; its content decides, and its ending is a hint at the delimiter.

    Returns
    -------
    LabelFile

    Raises
    ------
    InputError
        Absent, empty, no table or damaged.

    Notes
    -----
    The first line is a header where none of its fields is a number. Where the delimiter that the ending tells
    does not cut all of the first lines into the same number of columns, at least two, it is the one of tab,
    semicolon, comma and white space that cuts them into most.
    """
    try:
        there = path.is_file()
    except OSError as error:
        raise InputError(f"the label file {path} cannot be read: {error.strerror}") from None
    if not there:
        raise InputError(f"the label file {path} does not exist; check the path")
    if is_parquet(path):
        return _open_parquet(path)
    refuse_foreign(path, first_bytes(text_blocks(path, compression_of(path))))
    delimiter = _delimiter(path)
    lines = _text_rows(path, delimiter)
    line, first = next(lines, (0, []))
    if not first:
        raise InputError(f"the label file {path} is empty")
    header = not any(is_number(text) for text in first)
    names = tuple(name.strip() for name in first)
    if header:
        line, first = next(lines, (0, []))
        if not first:
            raise InputError(f"the label file {path} has a header and no rows")
    else:
        names = tuple(f"column {position}" for position in range(len(first)))
    more = itertools.islice(lines, _head_rows(len(names)) - 1)
    head = (tuple(first), *(tuple(fields) for _, fields in more))
    return LabelFile(path, names, head, line, delimiter, header)


def _head_rows(n_columns: int) -> int:
    """Return how many of the first rows are looked at."""
    return max(1, min(HEAD_ROWS, HEAD_FIELDS // max(1, n_columns)))


def _delimiter(path: Path) -> str:
    """Return what separates the columns of a text file: what its ending tells, unless another fits better."""
    lines: list[str] = []
    for _, fields in itertools.islice(_text_rows(path, "\n"), HEAD_ROWS):
        lines += fields
        if sum(map(len, lines)) > HEAD_BYTES:
            break
    usual = delimiter_of(path, TableFormat())
    if usual != "auto" and _n_columns(lines, usual):
        return usual
    if usual == "auto":
        usual = "\t" if any("\t" in line.strip() for line in lines[:1]) else " "
    marks = (usual, *(mark for mark in "\t;, " if mark != usual))
    return max(marks, key=lambda mark: _n_columns(lines, mark))  # the first of equal ones


def _n_columns(lines: list[str], delimiter: str) -> int:
    """Return the number of columns into which a delimiter cuts all lines; 0 where they differ, or it is 1."""
    try:
        rows = (
            [line.split() for line in lines] if delimiter == " " else csv.reader(lines, delimiter=delimiter)
        )
        widths = {len(row) for row in rows}
    except csv.Error:
        return 0
    return 0 if len(widths) != 1 or widths == {1} else widths.pop()


def is_number(text: str) -> bool:
    """Whether `float` reads it.

    Examples
    --------
    >>> is_number("-9.1"), is_number("Z123")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True


def _text_rows(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line, counted from 1, and fields of each row of a text file that is not blank."""
    lines = _lines(path)
    try:
        if delimiter in " \n":
            for number, text in enumerate(lines, 1):
                if fields := (text.split() if delimiter == " " else [text][: len(text.strip())]):
                    yield number, fields
            return
        reader = csv.reader(lines, delimiter=delimiter)
        for fields in reader:
            if len(fields) > 1 or (fields and fields[0].strip()):
                yield reader.line_num, fields
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; convert it, for example with iconv") from None
    except csv.Error as error:
        reason = str(error).partition(" - ")[0]  # what follows is advice about Python
        raise InputError(
            f"{path} cannot be read as a table after line {reader.line_num:,} ({reason}); correct it"
        ) from None


def _lines(path: Path) -> Iterator[str]:
    """Lines of a plain or compressed text file, each with its line end."""
    rest = ""
    for text in codecs.iterdecode(text_blocks(path, compression_of(path)), "utf-8-sig"):
        *whole, rest = (rest + text).split("\n")
        yield from (line.removesuffix("\r") + "\n" for line in whole)
    if rest:
        yield rest


def _open_parquet(path: Path) -> LabelFile:
    """Columns and first row of a Parquet file."""
    try:
        with pq.ParquetFile(readable(path)) as file:
            names = tuple(file.schema_arrow.names)
            head = next(file.iter_batches(batch_size=_head_rows(len(names))), None)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path} cannot be read as Parquet ({error})") from None
    if head is None or head.num_rows == 0:
        raise InputError(f"the label file {path} has no rows")
    columns = [[_text(value) for value in column.to_pylist()] for column in head.columns]
    return LabelFile(path, names, tuple(zip(*columns, strict=True)), 1, "")


def _parquet_rows(table: LabelFile, positions: Sequence[int]) -> Iterator[tuple[int, Sequence[str]]]:
    """Rows of a Parquet file as text; Python's text of a float reads back to the same float."""
    names = [table.names[position] for position in positions]
    row = 0
    try:
        with pq.ParquetFile(readable(table.path)) as file:
            for batch in file.iter_batches(columns=names):
                columns = [batch.column(name).to_pylist() for name in names]
                for fields in zip(*columns, strict=True):
                    row += 1
                    yield row, [_text(value) for value in fields]
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{table.path} cannot be read as Parquet ({error})") from None


def _text(value: object) -> str:
    return "" if value is None else str(value)
