"""Find out how a file is laid out: delimiter, header, and which column is what."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from daskrf.errors import InputError
from daskrf.molecules.contents import first_bytes, is_parquet, refuse_foreign
from daskrf.molecules.formats import Column, TableFormat, delimiter_of
from daskrf.molecules.isolation import each
from daskrf.molecules.library import Layout
from daskrf.molecules.lines import MAX_LINE_BYTES, clean_smiles, split_line
from daskrf.molecules.names import (
    ID_NAMES,
    SMILES_NAMES,
    find_id,
    find_smiles,
    listed,
    normalised,
    tells_apart,
)
from daskrf.molecules.streams import LineStream, compression_of, text_blocks
from daskrf.paths import readable

__all__ = ["detect_layout", "open_parquet"]

_SAMPLE_LINES = 26


def detect_layout(path: Path, fmt: TableFormat, earlier: Layout | None = None) -> Layout:
    """Return the layout of the file `path`.

    Parameters
    ----------
    path : Path
    fmt : TableFormat
        What the user says; the rest is found out from the first 26 lines.
    earlier : Layout, optional
        Layout of an earlier file with a header. A file without one, as the later parts of a split file are,
        takes the names from there if it has as many columns, and SMILES where that one has them.

    Raises
    ------
    InputError
        If a column is not there (the message names those that are), or the file is no table of text in UTF-8
        and no Parquet: see `daskrf.molecules.contents`.

    Notes
    -----
    The content decides, and the ending of the name is a hint: the delimiter that it tells gives way to
    another one (comma, semicolon, tab or white space) by which more of the first lines have a valid SMILES.

    The first line is a header if the lines below have SMILES in a column whose field contains "smiles", or if
    no field of it is a valid SMILES and one is a usual name of a SMILES or ID column, contains "smiles" and
    no digit, or is a name that the user gave. Without a name for it, the SMILES column is the one with most
    valid SMILES. The ID is found by the usual names in a header (see `daskrf.molecules.names`); without a
    header, and in a .smi file without such a name, it is the first other column that tells molecules apart
    and does not hold decimal numbers, or the second column where the first lines have only one.
    """
    if is_parquet(path):
        return _parquet_layout(path, fmt)
    compression = compression_of(path)
    lines = _head(path, compression)
    delimiter = _delimiter(path, fmt, lines)
    exact = delimiter != " " and (delimiter != "\t" or delimiter_of(path, fmt) != "auto")
    probe = Layout("text", compression, delimiter, exact, 0, None, 0, 0, None)
    header, names = _header(lines, probe, fmt)
    rows = _rows(lines[header:], probe)
    widths = Counter(map(len, rows))
    n_columns = len(names) if names else (widths.most_common(1)[0][0] if widths else 0)
    if names is None and earlier is not None and _continues(earlier, delimiter, n_columns, rows):
        names = earlier.names
    if not rows and names is None:  # nothing to lay out
        return dataclasses.replace(
            probe, header=header, extra=tuple((_key(column), 0) for column in fmt.extra)
        )
    width = max(n_columns, *widths, 0)
    smiles, name, extra = _columns(path, fmt, names, rows, width, functools.partial(_column, rows))
    if name is None and not exact:
        name = _id_by_content(rows, n_columns, smiles)
        if max(widths, default=0) == 1:
            name = 1  # IDs may begin further down
    return Layout("text", compression, delimiter, exact, header, names, n_columns, smiles, name, extra)


def _head(path: Path, compression: str) -> list[str]:
    """Return the first lines of the file."""
    blocks = text_blocks(path, compression)
    first = first_bytes(blocks)
    refuse_foreign(path, first)  # before lines of it are looked for, which a binary file may not have
    head = LineStream(itertools.chain([first], blocks)).take(_SAMPLE_LINES)
    text = head.removeprefix(b"\xef\xbb\xbf").decode(errors="replace")
    return [line.rstrip("\r")[:MAX_LINE_BYTES] for line in text.split("\n")[:-1]]


def _delimiter(path: Path, fmt: TableFormat, lines: list[str]) -> str:
    """Return the delimiter: the given one, or the one by which most of the first lines have a SMILES."""
    usual = delimiter_of(path, fmt)
    if usual == "auto":
        tabs = sum("\t" in line.strip() for line in lines)
        blanks = sum("\t" not in line and len(clean_smiles(line).split()) > 1 for line in lines)
        usual = "\t" if tabs > blanks else " "
    others = [] if fmt.delimiter else [mark for mark in ",;\t " if any(mark in line for line in lines)]
    if not set(others) - {usual}:
        return usual
    return max((usual, *others), key=lambda mark: _count_smiles(lines, mark))


def _count_smiles(lines: list[str], delimiter: str) -> int:
    """Return how many lines have a valid SMILES between delimiters."""
    probe = Layout("text", "", delimiter, delimiter != " ", 0, None, 0, 0, None)
    return sum(any(map(_is_smiles, fields)) for fields in _rows(lines, probe))


def _rows(lines: list[str], probe: Layout) -> list[list[str]]:
    """Return the fields of the lines that have some."""
    return [fields for line in lines if not isinstance(fields := _split(line, probe), str)]


def _split(line: str, probe: Layout) -> list[str] | str:
    """Return the fields of a line whose SMILES column is not known yet, or why it has none."""
    if not line.strip():
        return "empty line"
    fields = split_line(line, probe)
    if isinstance(fields, str) or probe.delimiter != " ":
        return fields
    extension = next((k for k, field in enumerate(fields) if k and field.startswith("|")), None)
    if extension is None:
        return fields
    return split_line(line, Layout("text", "", " ", False, 0, None, 0, extension - 1, None))


def _header(lines: list[str], probe: Layout, fmt: TableFormat) -> tuple[int, tuple[str, ...] | None]:
    """Return the number of header lines (blank ones before it included), and the names in the header."""
    first = next((k for k, line in enumerate(lines) if line.strip()), None)
    fields = "" if first is None else _split(lines[first], probe)
    if first is None or isinstance(fields, str):
        return int(bool(lines) and bool(fmt.header)), None
    below = _rows(lines[first + 1 :], probe)
    if not (_is_header(fields, below, fmt) if fmt.header is None else fmt.header):
        return 0, None
    return first + 1, tuple(name.strip() for name in fields)


def _is_header(fields: list[str], below: list[list[str]], fmt: TableFormat) -> bool:
    """Return whether the fields of the first line look like names of the columns `below`."""
    names = [normalised(name) for name in fields]
    for position, name in enumerate(names):
        # An ID may contain "smiles" too, but there are no SMILES below it.
        if "smiles" in name and any(position < len(row) and _is_smiles(row[position]) for row in below):
            return True
    asked = {normalised(column) for column in (fmt.smiles, fmt.id, *fmt.extra) if isinstance(column, str)}
    known = asked.union(SMILES_NAMES, ID_NAMES)
    named = any(name in known or ("smiles" in name and not any(map(str.isdigit, name))) for name in names)
    return named and not any(map(_is_smiles, fields))


def _continues(earlier: Layout, delimiter: str, n_columns: int, rows: list[list[str]]) -> bool:
    """Return whether a file without header can be a later part of one with the layout `earlier`."""
    if not earlier.names or len(earlier.names) != n_columns or earlier.delimiter != delimiter:
        return False
    return any(_is_smiles(row[earlier.smiles]) for row in rows if earlier.smiles < len(row))


@functools.lru_cache(maxsize=10_000)
def _is_smiles(text: str) -> bool:
    """Return whether RDKit can parse `text`."""
    smiles = clean_smiles(text)
    if len(smiles.split()) != 1:  # RDKit would take the rest for a name
        return False
    return each("daskrf.molecules.counting:syntax_checker", (), [smiles]) == [True]


def _columns(
    path: Path,
    fmt: TableFormat,
    names: tuple[str, ...] | None,
    rows: list[list[str]],
    width: int,
    values_of: Callable[[int], list[str]],
) -> tuple[int, int | None, tuple[tuple[str, int], ...]]:
    """Return the positions of SMILES and ID, and keys and positions of the extra columns."""
    asked_id = None if fmt.id is None else _position(path, fmt.id, names, width)
    if fmt.smiles is not None:
        smiles = _position(path, fmt.smiles, names, width)
    else:
        smiles = _find_smiles(path, names, rows, width, asked_id)
    if fmt.id is not None:
        name = asked_id
    else:
        name = find_id(names, values_of, (smiles,)) if names else _id_by_content(rows, width, smiles)
    extra = tuple((_key(column), _position(path, column, names, width)) for column in fmt.extra)
    return smiles, name, extra


def _key(column: Column) -> str:
    return column if isinstance(column, str) else f"column_{column}"


def _position(path: Path, column: Column, names: tuple[str, ...] | None, width: int) -> int:
    """Return the position of a column that was asked for by name or position."""
    if isinstance(column, int):
        if column >= width:
            raise InputError(f"{path} has {width} columns, so there is no position {column}; count from 0.")
        return column
    if names is None:
        raise InputError(f"{path} has no header to find column {column!r} in; give its position, from 0.")
    if column in names:
        return names.index(column)
    matches = [k for k, name in enumerate(names) if name.lower() == column.lower()]
    if len(matches) != 1:
        raise InputError(f"{path} has no column {column!r}; its columns are {listed(names)}.")
    return matches[0]


def _find_smiles(
    path: Path, names: tuple[str, ...] | None, rows: list[list[str]], width: int, taken: int | None
) -> int:
    """Return the position of the SMILES column from the usual names, or from its content."""
    named = find_smiles(names or (), lambda position: any(map(_is_smiles, _column(rows, position))))
    if named is not None:
        return named
    scores = []
    for position in range(width):
        valid = [row[position] for row in rows if position < len(row) and _is_smiles(row[position])]
        scores.append((len(valid), sum(map(len, valid)), -position))
    if taken is not None and taken < width:
        scores[taken] = (0, 0, -width)
    best = max(scores, default=(0, 0, 0))
    if names and rows and best[0] == 0:
        raise InputError(f"{path} has no column of SMILES; choose one of its columns: {listed(names)}.")
    return -best[2] if best[0] else 0


def _id_by_content(rows: list[list[str]], width: int, smiles: int) -> int | None:
    """Return the first column, but that of the SMILES, that tells molecules apart."""
    for position in range(width):
        values = [value for value in _column(rows, position) if value.strip()]
        if position != smiles and values and tells_apart(values):
            return position
    return None


def _column(rows: list[list[str]], position: int) -> list[str]:
    return [row[position] for row in rows if position < len(row)]


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a Parquet file.

    Raises
    ------
    InputError
        If it cannot be read or is damaged.
    """
    try:
        return pq.ParquetFile(readable(path))
    except OSError as error:
        raise InputError(
            f"{path} cannot be read as Parquet ({error.strerror or 'I/O error'}).", errno=error.errno
        ) from None
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(f"{path} is damaged or no Parquet file ({reason}); fetch the file again.") from None


def _parquet_layout(path: Path, fmt: TableFormat) -> Layout:
    """Return the layout of a Parquet file from its schema, and from the first values of an ID column."""
    with open_parquet(path) as file:
        schema = file.schema_arrow
        names = tuple(schema.names)
        values_of = functools.partial(_first_values, file, names)
        smiles, name, extra = _columns(path, fmt, names, [], len(names), values_of)
    found = fmt.smiles is not None or find_smiles(names) is not None
    if not found or not _is_text(schema.field(smiles).type):
        raise InputError(f"{path} has no text column of SMILES; choose one of {listed(names)}.")
    return Layout("parquet", "", "", True, 0, names, len(names), smiles, name, extra)


def _first_values(file: pq.ParquetFile, names: tuple[str, ...], position: int) -> list[str]:
    """Return the first values of a column as text; none where they cannot be read, which readers will say."""
    try:
        batch = next(file.iter_batches(_SAMPLE_LINES, columns=[names[position]]), None)
        if batch is None or not batch.num_columns:
            return []
        values = batch.column(0).cast(pa.string()).cast(pa.binary()).to_pylist()  # text may not be UTF-8
    except (OSError, pa.ArrowException):
        return []
    return [(value or b"").decode(errors="replace") for value in values]


def _is_text(kind: pa.DataType) -> bool:
    """Return whether a Parquet column of this type holds text, in whatever encoding."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
