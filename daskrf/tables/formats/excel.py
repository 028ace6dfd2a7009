"""Excel workbooks (.xlsx), if openpyxl is installed: the rows of the first sheet that has any."""

from __future__ import annotations

import datetime
import itertools
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import PurePath
from typing import IO, Any

import numpy as np

from daskrf.errors import InputError, printable
from daskrf.files.backend import backend
from daskrf.tables.formats import (
    BATCH_ROWS,
    EMPTY,
    HEAD_ROWS,
    MAX_TEXT,
    Fault,
    Head,
    Purpose,
    Reader,
    Rows,
    Segment,
    Table,
    View,
)
from daskrf.tables.spool import Spool, SpoolWriter
from daskrf.tables.spreadsheets import restored
from daskrf.tables.values.units import unit_of_cell

# What openpyxl raises on files that are no workbooks.
_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, KeyError, ValueError, TypeError, AttributeError, EOFError, SyntaxError),
)
# openpyxl holds all texts of a workbook in memory, and a megabyte may unpack to gigabytes.
_MOST_BYTES = 1 << 30  # of a workbook, unpacked: more than a full sheet of SMILES and numbers takes
_MOST_TEXT = 1 << 28  # of the texts that its cells share, as XML
_MOST_ROWS = 1 << 20  # of a sheet, as in Excel
_LONGEST_CELL = 32_767  # characters, as in Excel
_TEXTS = "xl/sharedStrings.xml"
# Of number formats: literal text, quoted or escaped; what is as wide as a character, or fills a cell.
_LITERAL = re.compile(r'"([^"]*)"|\\(.)', re.DOTALL)
_SPACES = re.compile(r"[_*].|\[(?!\$)[^\]]*\]")
_DIGITS = re.compile(r"[0#?]|General")
_RELATIONS = frozenset(["<", ">", "<=", ">=", "≤", "≥", "=", "~", "≈"])


class ExcelReader(Reader):
    """Cells as Excel shows their values: of formulas the last result, numbers to the last bit.

    Number formats that change the meaning of a cell are read, too: per cent, units, < and >.

    `Table.delimiter` is the name of the sheet.
    """

    name = "excel"
    precedence = 20

    def sniff(self, head: bytes) -> bool:
        """A zip archive with the parts of a workbook."""
        return head.startswith(b"PK\x03\x04") and (b"[Content_Types].xml" in head or b"xl/" in head)

    def words(self, table: Table) -> str:
        header = "with" if table.header and table.names else "without"
        return f"Excel workbook, sheet '{printable(table.delimiter, 60)}', {header} a header"

    def open(self, path: PurePath, compression: str, blocks: Iterator[bytes], purpose: Purpose) -> Head:
        """The first row that is not empty is the header, or the first row of the table."""
        with _workbook(path) as book:
            sheets = (
                (sheet.title, list(itertools.islice(_cells(sheet), HEAD_ROWS + 1)))
                for sheet in book.worksheets
            )
            title, rows = next(((title, rows) for title, rows in sheets if any(map(any, rows))), ("", []))
        first = next((k for k, row in enumerate(rows) if any(row)), 0)
        below = [row for row in rows[first + 1 :] if any(row)]
        requested = purpose.fmt.header
        with_header = bool(rows) and (
            purpose.is_header(rows[first], below) if requested is None else requested
        )
        names = tuple(text.strip() for text in rows[first]) if with_header else None
        head = below if with_header else [row for row in rows[first:] if any(row)]
        width = max(map(len, rows), default=0)
        if names is not None:
            names = (*names, *("" for _ in range(width - len(names))))
        return Head(
            Table(self.name, "", title, True, first + with_header, names, width),
            n_rows=len(head),
            width=width,
            text=range(width),
            columns=lambda positions: [[row[at] for row in head if at < len(row)] for at in positions],
        )

    def scan(
        self, path: PurePath, table: Table, blocks: Iterator[bytes], spool: SpoolWriter | None = None
    ) -> tuple[int, list[int]]:
        """Empty rows at the end are none."""
        for _ in blocks:
            pass
        last = 0
        if not table.delimiter:  # no sheet has rows
            return 0, []
        with _workbook(path) as book:
            for k, row in enumerate(_cells(_sheet(path, book, table)), 1):
                last = k if any(row) else last
        return max(0, last - table.header), []

    def read(self, view: View, segments: Iterable[Segment], spool: Spool | None = None) -> Iterator[Rows]:
        """A workbook is parsed from its beginning for each segment."""
        header = view.table.header
        for segment in segments:
            with _workbook(view.path) as book:
                start = header + segment.first_row
                cells = _cells(_sheet(view.path, book, view.table), start + 1)
                cells = itertools.islice(cells, min(segment.n_rows, 1 << 20))
                at = segment.first_row
                while batch := list(itertools.islice(cells, BATCH_ROWS)):
                    yield _rows(batch, at, view)
                    at += len(batch)


class _TooLargeError(Exception):
    """What a workbook has more of than Excel allows."""


@contextmanager
def _workbook(path: PurePath) -> Iterator[Any]:
    """Open a workbook, and name it in errors."""
    try:
        import openpyxl
    except ImportError:
        raise InputError(
            f"{path} is an Excel workbook; install openpyxl to read it (pip install 'daskrf[excel]'), or "
            "save it as CSV."
        ) from None
    try:
        with backend(path).open(path) as file:
            _check_size(path, file)
            yield openpyxl.load_workbook(file, read_only=True, data_only=True)
    except _TooLargeError as error:
        raise InputError(f"{path} {error}, more than Excel allows; save it as CSV.") from None
    except MemoryError:
        raise InputError(f"{path} needs more memory than is available; save it as CSV.") from None
    except _DAMAGE as error:
        reason = printable(str(error), 200) or type(error).__name__
        raise InputError(f"{path} is damaged, or not an Excel workbook ({reason}); save it again.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror or error}).", errno=error.errno) from None


def _check_size(path: PurePath, file: IO[bytes]) -> None:
    """Refuse a workbook that unpacks to more than its sheets could hold; sizes are those in the archive.

    `zipfile` reads no more of a part than the archive says.
    """
    with zipfile.ZipFile(file) as archive:
        sizes = {member.filename: member.file_size for member in archive.infolist()}
    total, texts = sum(sizes.values()), sizes.get(_TEXTS, 0)
    if total > _MOST_BYTES or texts > _MOST_TEXT:
        size, most = (total, _MOST_BYTES) if total > _MOST_BYTES else (texts, _MOST_TEXT)
        what = "" if total > _MOST_BYTES else " of text"
        raise InputError(
            f"{path} unpacks to {size / 2**30:.1f} GiB{what}, more than the limit of "
            f"{most / 2**30:g} GiB for a workbook; save it as CSV."
        )
    file.seek(0)


def _sheet(path: PurePath, book: Any, table: Table) -> object:
    if table.delimiter not in book.sheetnames:
        raise InputError(
            f"{path} has no sheet {table.delimiter!r} any more; restore it or start a new store."
        )
    return book[table.delimiter]


def _cells(sheet: Any, first: int = 1) -> Iterator[list[str]]:
    """Yield the rows of a sheet as text, from row `first`, counted from 1."""
    sheet.reset_dimensions()  # which programs other than Excel write wrongly
    formats: dict[int, tuple[str, int, str]] = {}
    for number, row in enumerate(sheet.iter_rows(min_row=first), first):
        if number > _MOST_ROWS:
            raise _TooLargeError(f"has more than {_MOST_ROWS:,} rows in the sheet {sheet.title!r}")
        cells = [_shown(cell, formats) for cell in row]
        if (longest := max(map(len, cells), default=0)) > _LONGEST_CELL:
            raise _TooLargeError(f"has a cell of {longest:,} characters in row {number:,}")
        yield cells


def _shown(cell: Any, formats: dict[int, tuple[str, int, str]]) -> str:
    """Return a cell as text; `formats` remembers what each style adds to numbers."""
    value = cell.value
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return _text(value)
    if (style := cell._style_id) not in formats:
        formats[style] = added_by(cell.number_format)
    before, decades, after = formats[style]
    text = str(Decimal(_text(value)).scaleb(decades).normalize().__format__("f")) if decades else _text(value)
    return f"{before}{text}{after}"


def added_by(form: str) -> tuple[str, int, str]:
    """Return what a number format writes before a number, by how many decades it multiplies it, and the rest.

    Only what changes the meaning counts: per cent, known units, currencies, and signs of relations.

    Examples
    --------
    >>> added_by("0.0%"), added_by('0.0" uM"'), added_by('">"0'), added_by('#,##0.00 "pcs"')
    (('', 2, ' %'), ('', 0, ' uM'), ('>', 0, ''), ('', 0, ''))
    """
    first = _LITERAL.split(_SPACES.sub("", form.partition(";")[0]))
    # Of a split by two groups: text, quoted, escaped, text, ...
    parts = [
        (text, literal or escaped or "")
        for text, literal, escaped in zip(first[::3], [*first[1::3], ""], [*first[2::3], ""], strict=True)
    ]
    before, after, seen, decades = "", "", False, 0
    for text, literal in parts:
        seen = seen or bool(_DIGITS.search(text))
        decades = 2 if "%" in text else decades
        before, after = (before, after + literal) if seen else (before + literal, after)
    relation = before.strip() if before.strip() in _RELATIONS else ""
    if decades:
        return relation, decades, " %"
    return relation, 0, f" {after.strip()}" if unit_of_cell(after) is not None else ""


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()  # as Excel shows it
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    return restored(str(value))


def _rows(cells: Sequence[list[str]], first: int, view: View) -> Rows:
    """Return rows of text, starting at row `first`; an empty one cannot be read."""
    line = view.table.header + first + 1
    good = [k for k, row in enumerate(cells) if any(row)]
    faults = [Fault(first + k, line + k, "", EMPTY) for k, row in enumerate(cells) if not any(row)]
    columns = [[cells[k][at] if at < len(cells[k]) else None for k in good] for at in view.columns]
    row = first + np.array(good, dtype=np.int64)
    shown = [" ".join(filter(None, cells[k]))[:MAX_TEXT] for k in good]
    return Rows(row, view.table.header + row + 1, columns, faults, lambda k: shown[k])
