"""Detect the layout of a library file: which column holds what."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import PurePath

from daskrf.errors import InputError
from daskrf.molecules.formats import EVERY, Column, Head, Purpose, TableFormat, open_table
from daskrf.molecules.isolation import each
from daskrf.molecules.library import Layout, clean_smiles
from daskrf.molecules.names import (
    ID_NAMES,
    SMILES_NAMES,
    column_words,
    find_id,
    find_smiles,
    listed,
    normalised,
    position_of,
    tells_apart,
)

__all__ = ["MAX_LINE_BYTES", "detect_layout", "molecules", "smiles_column", "with_common_columns"]

MAX_LINE_BYTES = 10_000
_OWN = {"row", "id", "smiles", "source", "line"}  # columns of each molecule, beside which others are kept


def molecules(fmt: TableFormat | None = None) -> Purpose:
    """Return the purpose for which library files are read."""
    asked = fmt or TableFormat()
    return Purpose(
        fit=lambda rows: sum(any(map(_is_smiles, fields)) for fields in rows),
        is_header=functools.partial(_is_header, fmt=asked),
        asked=asked,
        longest=MAX_LINE_BYTES,
        strict=False,
        extensions=True,
    )


def detect_layout(path: PurePath, fmt: TableFormat, earlier: Layout | None = None) -> Layout:
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
        If a column does not exist (the message names those that do), or the file is not a table: see
        `daskrf.molecules.formats`.

    Notes
    -----
    The content decides; the file extension is only a hint: the delimiter that it suggests gives way to
    another (comma, semicolon, tab or white space) with which more of the first lines have a valid SMILES.

    The first line is a header if the lines below have SMILES in a column whose field contains "smiles", or if
    none of its fields is a valid SMILES and one of them is a usual name of a SMILES or ID column, contains
    "smiles" and no digit, or is a name given by the user. Without a name for it, the SMILES column is the one
    with the most valid SMILES. The ID column is found by its usual names in a header (see
    `daskrf.molecules.names`); without a header, and in a .smi file without such a name, it is the first other
    column that distinguishes molecules and does not hold decimal numbers, or the second column if the first
    lines have only one.
    """
    head = open_table(path, molecules(fmt))
    table = head.table
    if table.names is None and earlier is not None and _continues(earlier, head):
        table = dataclasses.replace(table, names=earlier.names)
    fields = {field.name: getattr(table, field.name) for field in dataclasses.fields(table)}
    if not head.n_rows and table.names is None:  # empty file
        return Layout(**fields, smiles=0, id=None, extra=tuple((_key(c), 0) for c in fmt.extra if c != EVERY))
    smiles, name, extra = _columns(path, fmt, table.names, head)
    if name is None and not table.exact:
        name = _id_by_content(head, table.n_columns, smiles)
        if head.width == 1:
            name = 1  # IDs may start further down
    return Layout(**fields, smiles=smiles, id=name, extra=extra)


def smiles_column(path: PurePath, head: Head, position: int | None = None) -> int:
    """Return the position of the SMILES in a table that must have them: as given, or by name or content.

    Raises
    ------
    InputError
        Fewer than half of the first values there are SMILES.
    """
    names = head.table.names
    at = _find_smiles(path, names, head, None) if position is None else position
    values = head.values(at)
    if not mostly_smiles(values):
        shown = f", such as {values[0]!r}" if values else ""
        raise InputError(
            f"{path} has no SMILES in {column_words(names, at)}{shown}; name their column with --key-column, "
            "or give a library that the labels belong to"
        )
    return at


def mostly_smiles(values: Sequence[str]) -> bool:
    """Return whether at least half of some values, and at least one, are SMILES."""
    return 2 * sum(map(_is_smiles, values)) >= max(1, len(values))


def _is_header(fields: Sequence[str], below: Sequence[Sequence[str]], fmt: TableFormat) -> bool:
    """Return whether the fields of the first line look like names of the columns `below`."""
    names = [normalised(name) for name in fields]
    for position, name in enumerate(names):
        # An ID may contain "smiles" too, but there are no SMILES below it.
        if "smiles" in name and any(position < len(row) and _is_smiles(row[position]) for row in below):
            return True
    said = (column for column in (fmt.smiles, fmt.id, *fmt.extra) if column != EVERY)
    asked = {normalised(column) for column in said if isinstance(column, str)}
    known = asked.union(SMILES_NAMES, ID_NAMES)
    named = any(name in known or ("smiles" in name and not any(map(str.isdigit, name))) for name in names)
    return named and not any(map(_is_smiles, fields))


def _continues(earlier: Layout, head: Head) -> bool:
    """Return whether a headerless file can be a later part of one with the layout `earlier`."""
    table = head.table
    if not earlier.names or len(earlier.names) != table.n_columns or earlier.delimiter != table.delimiter:
        return False
    return any(map(_is_smiles, head.values(earlier.smiles)))


@functools.lru_cache(maxsize=10_000)
def _is_smiles(text: str) -> bool:
    """Return whether RDKit can parse `text`."""
    smiles = clean_smiles(text)
    if len(smiles.split()) != 1:  # RDKit would take the rest as a name
        return False
    return each("daskrf.molecules.counter:syntax_checker", (), [smiles]) == [True]


def _columns(
    path: PurePath, fmt: TableFormat, names: tuple[str, ...] | None, head: Head
) -> tuple[int, int | None, tuple[tuple[str, int], ...]]:
    """Return the positions of SMILES and ID, and the keys and positions of the extra columns."""
    width = max(head.table.n_columns, head.width)
    name = None if fmt.id is None else position_of(path, fmt.id, names, width)
    if fmt.smiles is not None:
        smiles = position_of(path, fmt.smiles, names, width)
    else:
        smiles = _find_smiles(path, names, head, name)
    if smiles not in head.text:
        raise _no_smiles(path, names)
    if fmt.id is None and names:
        name = find_id(names, head.values, (smiles,), head.title)
    elif fmt.id is None:
        name = _id_by_content(head, width, smiles)
    positions = {
        _key(column): position_of(path, column, names, width) for column in fmt.extra if column != EVERY
    }
    if EVERY in fmt.extra:
        others = {_key(column): at for at, column in reversed([*enumerate(names or ())]) if column.strip()}
        taken = {smiles, name, head.structure, *positions.values()}
        if head.title is not None and not any(map(str.strip, head.values(head.title))):
            taken.add(head.title)
        positions |= {key: at for key, at in reversed(others.items()) if at not in taken}
    return smiles, name, tuple(positions.items())


def _key(column: Column) -> str:
    """Return the name of a column that is kept, which is not that of one that every molecule has."""
    name = column if isinstance(column, str) else f"column_{column}"
    return f"{name}_input" if name in _OWN else name


def with_common_columns(layouts: Sequence[Layout]) -> list[Layout]:
    """Return the layouts of files with only those further columns that all of them have, in one order."""
    common = [{key for key, _ in layout.extra} for layout in layouts]
    order = [key for key, _ in layouts[0].extra if all(key in keys for keys in common)] if layouts else []
    found = []
    for layout in layouts:
        at = dict(layout.extra)
        found.append(dataclasses.replace(layout, extra=tuple((key, at[key]) for key in order)))
    return found


def _find_smiles(path: PurePath, names: tuple[str, ...] | None, head: Head, taken: int | None) -> int:
    """Return the position of the SMILES column, found by its usual names or by content."""
    if head.structure is not None:
        return head.structure
    named = find_smiles(names or (), lambda position: any(map(_is_smiles, head.values(position))))
    if named is not None:
        return named
    best, found = (0, 0), None
    for position, values in zip(head.text, head.columns(head.text), strict=True):
        valid = [value for value in values if _is_smiles(value)]
        score = len(valid), sum(map(len, valid))
        if position != taken and score > best:
            best, found = score, position
    if names and head.n_rows and found is None:
        raise _no_smiles(path, names)
    return found or 0


def _no_smiles(path: PurePath, names: Sequence[str] | None) -> InputError:
    return InputError(f"{path} has no column of SMILES; choose one of its columns: {listed(names or ())}.")


def _id_by_content(head: Head, width: int, smiles: int) -> int | None:
    """Return the first column other than the SMILES that distinguishes molecules."""
    for position in range(width):
        values = [value for value in head.values(position) if value.strip()]
        if position != smiles and values and tells_apart(values):
            return position
    return None
