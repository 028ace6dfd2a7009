"""Text tables: .smi, .csv, .tsv and the like, whatever their names."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path, PurePath

import numpy as np

from daskrf.errors import InputError
from daskrf.tables.formats import EMPTY, HEAD_ROWS, Head, Purpose, Rows, Segment, Table, View
from daskrf.tables.formats.foreign import refuse_foreign
from daskrf.tables.formats.streamed import BOM, Fields, Streamed
from daskrf.tables.spool import Spool
from daskrf.tables.spreadsheets import restored
from daskrf.tables.streams import LineStream

_BY_ENDING = {".csv": ",", ".tsv": "\t", ".tab": "\t"}
_COMPRESSED = (".gz", ".bz2", ".zst")
_SEPARATED = {",": "commas", "\t": "tabs", ";": "semicolons", " ": "white space"}
_HEAD_BYTES = 1 << 20
_OPEN = "unbalanced quote, or a line break within quotes"
_WITHIN = "within the quotes of a row above"
_LINE_END = ord("\n")
_WHITE = [b"\t", b"\v", b"\f", b"\x1c", b"\x1d", b"\x1e", b"\x1f"]
_MOST_LINES = 100  # of a row of a library, where quotes may be part of names
_SEPARATOR = re.compile(r"\"?sep=(.)\"?", re.IGNORECASE)  # a first line that Excel understands
_COMMA = re.compile(r"(?<!\d),|,(?!\d)")  # which is no decimal comma

Record = tuple[int, int, list[str] | str | None]
"""First line of a row, from 0, the line after its last, and its fields, or why it has none.

None: the row continues after the last line.
"""


class TextReader(Streamed):
    """Lines of fields between delimiters, with or without a header.

    Examples
    --------
    >>> from daskrf.tables.formats import Table
    >>> TextReader().words(Table("text", "gzip", "\\t", True, 1, ("smiles", "id"), 2))
    'UTF-8 text, gzip-compressed, separated by tabs, with a header'
    """

    name = "text"
    precedence = 100

    def sniff(self, head: bytes) -> bool:
        """Accepts everything; `open` rejects what is not text."""
        return True

    def words(self, table: Table) -> str:
        parts = table.layers
        if table.n_columns:
            parts.append(f"separated by {_SEPARATED.get(table.delimiter, repr(table.delimiter))}")
        parts.append("with a header" if table.header and table.names else "without a header")
        return ", ".join(parts)

    def open(self, path: PurePath, compression: str, blocks: Iterator[bytes], purpose: Purpose) -> Head:
        """Delimiter and header are detected from the first lines, as the purpose requires.

        The file extension is a hint: the delimiter that it suggests wins if several fit equally well and, in
        a table read strictly, wherever it fits.
        """
        lines = _first_lines(path, blocks, purpose)
        named = _SEPARATOR.fullmatch(lines[0]) if lines else None
        lines = lines[1:] if named else lines
        hint = purpose.fmt.delimiter or (named[1] if named else "") or _BY_ENDING.get(_suffix(path), "")
        delimiter = purpose.fmt.delimiter or (named and named[1]) or _delimiter(lines, hint, purpose)
        exact = purpose.strict or delimiter not in "\t " or (delimiter == "\t" and bool(hint))
        records = _records(lines, delimiter, purpose, exact=exact)
        if exact:
            records = [(at, end, _of_text(fields)) for at, end, fields in records]
        header, names = _header(records, purpose)
        rows = [fields for start, _, fields in records if start >= header and isinstance(fields, list)]
        widths = Counter(map(len, rows))
        n_columns = len(names) if names else (widths.most_common(1)[0][0] if widths else 0)
        return Head(
            Table(self.name, compression, delimiter, exact, header + bool(named), names, n_columns),
            n_rows=len(rows),
            width=max(widths, default=0),
            text=range(max(n_columns, *widths, 0)),
            columns=lambda positions: [[row[at] for row in rows if at < len(row)] for at in positions],
        )

    def read(self, view: View, segments: Iterable[Segment], spool: Spool | None = None) -> Iterator[Rows]:
        """Formulas that were made harmless for spreadsheets are restored."""
        rows = super().read(view, segments, spool)
        return map(_restored, rows) if view.table.exact else rows

    def parse(self, buffer: bytes, first: int, view: View) -> tuple[Rows, bytes]:
        """Lines are split all at once if none of them needs special treatment."""
        values = _regular(buffer, view)
        if values is None:
            return super().parse(buffer, first, view)
        lines = buffer.split(b"\n")[:-1]
        row = first + np.arange(len(lines), dtype=np.int64)
        return Rows(row, view.table.header + row + 1, values, [], lambda k: self.shown(lines[k])), b""

    def records(self, lines: list[bytes], view: View) -> Iterator[tuple[int, Fields | str | None]]:
        return self._records(lines, view, view.table.delimiter if view.table.exact else "")

    def unfinished(self, rest: bytes, row: int, view: View) -> Rows:
        """Where rows may be left out, a quote without end spoils no other line."""
        if view.purpose.strict and not view.purpose.accepts:
            return super().unfinished(rest, row, view)
        lines = self.split(rest)
        return self.collected(lines, self._records(lines, view, ""), row, view)[0]

    def _records(
        self, lines: list[bytes], view: View, delimiter: str
    ) -> Iterator[tuple[int, Fields | str | None]]:
        """Yield records as `records` does; with a delimiter, a quoted field may span several lines."""
        table, strict = view.table, view.purpose.strict
        records = _each(
            len(lines),
            lambda k: _cut(lines[k].rstrip(b"\r"), view),
            lambda k: lines[k].decode(),
            delimiter,
            None if strict and not view.purpose.accepts else table.n_columns,
        )
        for at, stop, fields in records:
            if not strict:
                yield from ((k, _WITHIN) for k in range(at + 1, stop) if isinstance(fields, list))
            if not isinstance(fields, list):
                yield at, fields
            elif table.exact and len(fields) != table.n_columns:
                yield at, f"{len(fields)} columns where {table.n_columns} are expected"
            else:
                yield at, [fields[k] if k < len(fields) else None for k in view.columns]


def _restored(rows: Rows) -> Rows:
    """Return rows with the text that was written, see `daskrf.tables.spreadsheets`."""
    columns = [[restored(cell) if cell else cell for cell in column] for column in rows.columns]
    return replace(rows, columns=columns)


def _of_text(fields: list[str] | str | None) -> list[str] | str | None:
    return list(map(restored, fields)) if isinstance(fields, list) else fields


def _suffix(path: PurePath) -> str:
    """Return the extension that indicates the format, lower case, without that of the compression."""
    name = path.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return Path(name).suffix


def _first_lines(path: PurePath, blocks: Iterator[bytes], purpose: Purpose) -> list[str]:
    """Return the first lines of a file."""
    first = next(blocks)
    refuse_foreign(path, first)  # before splitting lines, which a binary file may not have
    head = LineStream(chain([first], blocks), purpose.longest).take(HEAD_ROWS + 1)
    try:
        text = head.removeprefix(BOM).decode(errors="strict" if purpose.strict else "replace")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text; convert it, for example with iconv.") from None
    lines: list[str] = []
    size = 0
    for line in text.split("\n")[:-1]:
        lines.append(line.rstrip("\r")[: purpose.longest])
        size += len(line)
        if size > _HEAD_BYTES and len(lines) > 1:  # a header and a row
            break
    return lines


def _delimiter(lines: list[str], hint: str, purpose: Purpose) -> str:
    """Return the delimiter with which the first lines suit the purpose best, or else the usual one."""

    def fit(mark: str) -> int:
        return purpose.fit(_fields(_records(lines, mark, purpose, exact=mark != " ")))

    tabs = sum("\t" in line.strip() for line in lines)
    others = _fields(_records([line for line in lines if "\t" not in line], " ", purpose, exact=False))
    usual = hint or ("\t" if tabs > sum(len(words) > 1 for words in others) else " ")
    if purpose.strict and usual != " " and fit(usual):
        decimals = usual == "," and not any(_COMMA.search(line) for line in lines[1:] or lines)
        return next((mark for mark in "\t;" if decimals and fit(mark)), usual)
    # If the purpose is numbers, a comma may be a decimal comma.
    marks = [mark for mark in ("\t;, " if purpose.strict else ",;\t ") if any(mark in line for line in lines)]
    return max([usual, *marks], key=fit) if set(marks) - {usual} else usual


def _header(records: Sequence[Record], purpose: Purpose) -> tuple[int, tuple[str, ...] | None]:
    """Return the number of header lines (including blank ones before it), and the names in the header."""
    first = next((k for k, record in enumerate(records) if record[2] != EMPTY), None)
    fields = None if first is None else records[first][2]
    if first is None or not isinstance(fields, list):
        return int(bool(records) and bool(purpose.fmt.header)), None
    header = purpose.fmt.header
    if not (purpose.is_header(fields, _fields(records[first + 1 :])) if header is None else header):
        return 0, None
    return records[first][1], tuple(name.strip() for name in fields)


def _records(lines: list[str], delimiter: str, purpose: Purpose, *, exact: bool) -> list[Record]:
    """Return the rows of the first lines, before the SMILES column is known."""

    def split(k: int) -> list[str] | str:
        if not lines[k].strip():
            return EMPTY
        words = lines[k].split() if purpose.extensions and delimiter == " " else []
        extension = next((at for at, word in enumerate(words) if at and word.startswith("|")), 0)
        return _split(lines[k], delimiter, extension - 1 if extension else None, exact=exact)

    return list(_each(len(lines), split, lines.__getitem__, delimiter if purpose.strict else ""))


def _fields(records: Sequence[Record]) -> list[list[str]]:
    """Return the fields of the rows that have any."""
    return [fields for _, _, fields in records if isinstance(fields, list)]


def _each(
    n_lines: int,
    split: Callable[[int], list[str] | str],
    text: Callable[[int], str],
    delimiter: str,
    n_columns: int | None = None,
) -> Iterator[Record]:
    """Yield the rows of lines: `text` returns line k, and `split` its fields or why it has none.

    With a delimiter, a quoted field may span several lines. If the number of columns is given, it may span
    some only, and the row must have so many: a quote without an end spoils its own line alone.
    """
    at = 0
    while at < n_lines:
        fields: list[str] | str | None = split(at)
        stop = at + 1
        if fields == _OPEN and delimiter:
            last = n_lines if n_columns is None else min(n_lines, at + _MOST_LINES)
            reader = csv.reader((f"{text(k)}\n" for k in range(at, last)), delimiter=delimiter, strict=True)
            try:
                whole = next(reader)
                if n_columns is None or len(whole) == n_columns:
                    fields, stop = whole, at + reader.line_num
            except (csv.Error, UnicodeDecodeError):
                long = n_columns is not None and last - at == _MOST_LINES
                if at + reader.line_num == n_lines and not long:
                    fields, stop = None, n_lines
        yield at, stop, fields
        at = stop


def _cut(line: bytes, view: View) -> list[str] | str:
    """Return the fields of a line, or why it has none."""
    if len(line) > view.purpose.longest:
        return f"longer than {view.purpose.longest:,} bytes"
    if b"\0" in line:
        return "NUL byte in the line"
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return "not UTF-8 text"
    if "\r" in text:
        return "carriage return within the line"
    smiles = view.columns[0] if view.purpose.extensions else None
    return _split(text, view.table.delimiter, smiles, exact=view.table.exact) if text.strip() else EMPTY


def _split(line: str, delimiter: str, smiles: int | None, *, exact: bool) -> list[str] | str:
    """Return the fields of a line, or why it has none; a CXSMILES extension may follow the SMILES.

    Quotes are special in .csv and .tsv, but not in .smi, where names may contain them.
    """
    if delimiter == " ":
        return _with_extension(line.split(), smiles)
    if exact and '"' in line:
        try:
            return next(csv.reader([line], delimiter=delimiter, strict=True))
        except csv.Error:
            return _OPEN
    return line.split(delimiter)


def _with_extension(words: list[str], smiles: int | None) -> list[str] | str:
    """Join the words of a CXSMILES extension (which may contain blanks) to the SMILES that they follow."""
    begin = len(words) if smiles is None else smiles + 1
    if len(words) <= begin or not words[begin].startswith("|"):
        return words
    for end in range(begin, len(words)):
        if words[end].endswith("|") and (end > begin or len(words[end]) > 1):
            return [*words[: begin - 1], " ".join(words[begin - 1 : end + 1]), *words[end + 1 :]]
    return "CXSMILES extension without end"


def _regular(buffer: bytes, view: View) -> list[Fields] | None:
    """Return the requested columns if no line in `buffer` needs special treatment, else None.

    The result is always the same as that of `TextReader.records` for each line.
    """
    table, columns, purpose = view.table, view.columns, view.purpose
    if not buffer.isascii() or b"\0" in buffer:
        return None
    if (values := _rectangular(buffer, view)) is not None:
        return values
    text = buffer.decode("ascii")
    lines = text.split("\n")
    lines.pop()
    if "\r" in text:
        lines = [line.rstrip("\r") for line in lines]
        if any("\r" in line for line in lines):
            return None
    if not all(map(str.strip, lines)) or max(map(len, lines), default=0) > purpose.longest:
        return None
    mark = None if table.delimiter == " " else table.delimiter
    if mark and table.exact and '"' in text:
        try:
            rows = list(csv.reader(lines, delimiter=mark, strict=True))
        except csv.Error:
            return None
        if len(rows) != len(lines):
            return None
    elif not mark and purpose.extensions and "|" in text:
        return None
    else:
        most = -1 if table.exact else max(columns) + 1
        rows = [line.split(mark, most) for line in lines]
    widths = set(map(len, rows))
    if table.exact and widths != {table.n_columns}:
        return None
    least, most = min(widths, default=0), max(widths, default=0)
    if any(least <= at < most for at in columns) or columns[0] >= most:
        return None
    return [[row[at] for row in rows] if at < least else [None] * len(rows) for at in columns]


def _rectangular(buffer: bytes, view: View) -> list[Fields] | None:
    """Return the requested columns if every line has the same number of plain fields, else None.

    Fields are cut all at once, without a list for each line: `_regular` would return the same.
    """
    table, columns, purpose = view.table, view.columns, view.purpose
    buffer, mark = buffer.replace(b"\r\n", b"\n"), table.delimiter
    special = [b"\r", b'"'] if table.exact else [b"\r"]
    if mark == " ":  # white space, here a single blank
        special += [*_WHITE, *([b"|"] if purpose.extensions else [])]
    if not mark.isascii() or any(each in buffer for each in special):
        return None
    text = np.frombuffer(buffer, np.uint8)
    ends = np.flatnonzero((text == ord(mark)) | (text == _LINE_END))  # of fields
    n_lines, n_columns = buffer.count(b"\n"), buffer.count(mark.encode(), 0, buffer.find(b"\n")) + 1
    stops = ends[n_columns - 1 :: n_columns]
    if len(ends) != n_columns * n_lines or (text[stops] != _LINE_END).any():
        return None
    if columns[0] >= n_columns or (table.exact and n_columns != table.n_columns):
        return None
    if np.diff(stops, prepend=-1).max(initial=0) > purpose.longest + 1:
        return None
    cells = buffer.decode("ascii").replace("\n", mark).split(mark)[:-1]
    if not all(map(str.strip, cells[columns[0] :: n_columns])) or (mark == " " and "" in cells):
        return None
    return [[*cells[at::n_columns]] if at < n_columns else [None] * n_lines for at in columns]
