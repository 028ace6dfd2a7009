"""Read text files of a space: uncompress them, and yield rows of chosen columns."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from daskrf.errors import InputError
from daskrf.files.backend import backend
from daskrf.files.disk import file_errors
from daskrf.quantities import amount

_WORD = re.compile(r"\S+(?:\s+\|[^|]*\|(?!\S))?")  # a CXSMILES extension belongs to the word before it


def content(path: PurePath) -> bytes:
    """Return the bytes of a file, uncompressed."""
    with file_errors("read", path):
        data = backend(path).read(path)
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError) as error:
        raise InputError(f"{path} is damaged: {error}.") from error


def natural_order(name: str) -> list[tuple[int, str]]:
    """Return a key by which names sort with 10 after 9.

    Examples
    --------
    >>> sorted(["acids10", "acids9", "acids"], key=natural_order)
    ['acids', 'acids9', 'acids10']
    """
    return [(int(digits or 0), letters) for digits, letters in re.findall(r"(\d*)(\D*)", name)]


@dataclass(frozen=True)
class TextTable:
    """A table with a header, separated by tabs, commas or, if the header has neither, spaces.

    Lines before the header that begin with ``#`` are comments. If a row has more fields than the header, its
    separators are repeated, and its empty fields are dropped.

    Attributes
    ----------
    path : path
        For messages.
    data : bytes
        Uncompressed.
    """

    path: PurePath
    data: bytes

    @property
    def header(self) -> list[str]:
        """The names of the columns."""
        return next(self._records(), (0, []))[1]

    def rows(self, columns: Sequence[str]) -> Iterator[list[str]]:
        """Yield the fields of some columns; raise InputError if a column or a field is missing."""
        records = self._records()
        header = next(records, (0, []))[1]
        if missing := [column for column in columns if column not in header]:
            names = ", ".join(header) or "none"
            raise InputError(f"{self.path} has no column {missing[0]}; its columns are {names}.")
        places = [header.index(column) for column in columns]
        for line, record in records:
            if record:
                if len(record) > len(header) and len(filled := [f for f in record if f]) == len(header):
                    record = filled
                if len(record) <= max(places):
                    raise InputError(f"Line {line} of {self.path} has only {amount(len(record), 'fields')}.")
                yield [record[place] for place in places]

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        text, comments = self.data.decode("utf-8-sig", "replace"), 0
        while text.startswith("#"):
            text, comments = text.partition("\n")[2], comments + 1
        first = text.partition("\n")[0]
        delimiter = next((mark for mark in "\t," if mark in first), None)
        if delimiter is None:
            yield from enumerate(map(_WORD.findall, text.splitlines()), comments + 1)
            return
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        for record in reader:
            yield comments + reader.line_num, [field.strip() for field in record]
