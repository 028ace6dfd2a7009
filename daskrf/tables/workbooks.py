"""Tables of molecules as Excel workbooks (.xlsx), if openpyxl is installed."""

from __future__ import annotations

import importlib.util
import io
import re
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import IO

from daskrf.errors import InputError, OptionError
from daskrf.tables.spreadsheets import harmless

MOST_ROWS = (1 << 20) - 1
"""Rows of a sheet in Excel, without the header."""
_LONGEST = 32_767  # characters of a cell, as in Excel
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
_PROPERTIES = "docProps/core.xml"
_TIMES = re.compile(rb"(<dcterms:(?:created|modified)[^>]*>)[^<]*")
_SAME_TIME, _SAME_DATE = rb"\g<1>2000-01-01T00:00:00Z", (2000, 1, 1, 0, 0, 0)


def check_workbook(path: PurePath, n_rows: int = 0) -> None:
    """Refuse a workbook where openpyxl is not installed, and one of more rows than Excel has.

    Raises
    ------
    OptionError
    """
    if importlib.util.find_spec("openpyxl") is None:
        raise OptionError(
            f"{path} would be an Excel workbook, which takes openpyxl; install it (pip install "
            f"'daskrf[excel]'), or write {path.with_suffix('.csv').name}."
        )
    if n_rows > MOST_ROWS:
        raise OptionError(
            f"{path} would have {n_rows:,} rows, and a sheet of Excel holds {MOST_ROWS:,}; write "
            f"{path.with_suffix('.csv').name} or {path.with_suffix('.parquet').name}."
        )


def write_workbook(names: Sequence[str], rows: Iterable[Sequence[object]], file: IO[bytes]) -> None:
    """Write a table as the one sheet of a workbook, with a header that stays in view.

    Numbers are numbers, to 16 digits, which is all that openpyxl writes. Texts are texts, also those that
    look like numbers or formulas (see `daskrf.tables.spreadsheets`), and None is an empty cell. The bytes
    depend on the content alone, not on the time. Control characters, which XML cannot hold, become U+FFFD.

    Parameters
    ----------
    names : sequence of str
        Of the columns.
    rows : iterable of sequences of (float, int, str or None)
    file : binary file

    Raises
    ------
    InputError
        There are more rows, or longer texts, than Excel can hold.
    """
    import openpyxl

    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("molecules")
    sheet.freeze_panes = "A2"
    sheet.append([_cell(name, 0) for name in names])
    try:
        for number, row in enumerate(rows, start=1):
            if number > MOST_ROWS:
                raise InputError(f"A sheet of Excel holds {MOST_ROWS:,} rows; write a .csv for more.")
            sheet.append([_cell(value, number) for value in row])
    finally:
        sheet.close()  # also of what is not saved: it writes to a file of its own
    packed = io.BytesIO()
    book.save(packed)
    with zipfile.ZipFile(packed) as saved, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as fixed:
        for entry in saved.infolist():
            content = saved.read(entry)
            if entry.filename == _PROPERTIES:
                content = _TIMES.sub(_SAME_TIME, content)
            fixed.writestr(zipfile.ZipInfo(entry.filename, _SAME_DATE), content, zipfile.ZIP_DEFLATED)


def _cell(value: object, row: int) -> object:
    """Return a value as openpyxl takes it."""
    if not isinstance(value, str):
        return value
    text = harmless(_UNWRITABLE.sub("\ufffd", value))
    if len(text) > _LONGEST:
        raise InputError(
            f"A text of row {row:,} has {len(text):,} characters, and a cell of Excel holds {_LONGEST:,}; "
            "write a .csv."
        )
    return text
