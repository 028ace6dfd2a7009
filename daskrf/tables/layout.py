"""Detect the layout of a library file: which column holds what."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from pathlib import PurePath

from daskrf.errors import InputError
from daskrf.quantities import listed
from daskrf.tables.columns import is_header, is_smiles, smiles_by_content, smiles_position
from daskrf.tables.formats import EVERY, Column, Head, Purpose, TableFormat, open_table
from daskrf.tables.library import Layout
from daskrf.tables.values.names import find_id, position_of, tells_apart

MAX_LINE_BYTES = 10_000
_RESERVED = {
    "row",
    "id",
    "smiles",
    "source",
    "line",
}  # columns that every molecule has


def molecules(fmt: TableFormat | None = None) -> Purpose:
    """Return the purpose for which library files are read."""
    fmt = fmt or TableFormat()
    return Purpose(
        fit=lambda rows: sum(any(map(is_smiles, fields)) for fields in rows),
        is_header=functools.partial(is_header, fmt=fmt),
        fmt=fmt,
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
        Options given by the user; the rest is detected from the first 26 lines.
    earlier : Layout, optional
        Layout of an earlier file with a header. A file without one, as the later parts of a split file are,
        takes the names from there if it has as many columns, and SMILES where that one has them.

    Raises
    ------
    InputError
        If a column does not exist (the message names those that do), or the file is not a table: see
        `daskrf.tables.formats`.

    Notes
    -----
    The content decides; the file extension is only a hint: the delimiter that it suggests gives way to
    another (comma, semicolon, tab or white space) with which more of the first lines have a valid SMILES.

    The header is found by `daskrf.tables.columns.is_header`, as that of labels. Without a name for it, the
    SMILES column is the one with the most valid SMILES. The ID column is found by its usual names in a header
    (see `daskrf.tables.values.names`); without a header, and in a .smi file without such a name, it is the
    first other column that distinguishes molecules and does not hold decimal numbers, or the second column if
    the first lines have only one.
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


def _continues(earlier: Layout, head: Head) -> bool:
    """Return whether a headerless file can be a later part of one with the layout `earlier`."""
    table = head.table
    if not earlier.names or len(earlier.names) != table.n_columns or earlier.delimiter != table.delimiter:
        return False
    return any(map(is_smiles, head.values(earlier.smiles)))


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
    requested = _whole_names(fmt.extra, names or ())
    positions = {
        _key(column): position_of(path, column, names, width) for column in requested if column != EVERY
    }
    if EVERY in fmt.extra:
        others = {_key(column): at for at, column in reversed([*enumerate(names or ())]) if column.strip()}
        taken = {smiles, name, head.structure, *positions.values()}
        if head.title is not None and not any(map(str.strip, head.values(head.title))):
            taken.add(head.title)
        positions |= {key: at for key, at in reversed(others.items()) if at not in taken}
    return smiles, name, tuple(positions.items())


def _whole_names(requested: Sequence[Column], names: Sequence[str]) -> list[Column]:
    """Return the columns asked for; one with commas in its name, such as "Price, USD", may have been cut."""
    whole = {tuple(piece.strip() for piece in name.split(",")): name for name in names if "," in name}
    columns: list[Column] = []
    at = 0
    while at < len(requested):
        parts = next((parts for parts in whole if parts == tuple(requested[at : at + len(parts)])), None)
        columns.append(requested[at] if parts is None else whole[parts])
        at += 1 if parts is None else len(parts)
    return columns


def _key(column: Column) -> str:
    """Return the name of a column that is kept, which is not that of one that every molecule has."""
    name = column if isinstance(column, str) else f"column_{column}"
    return f"{name}_input" if name in _RESERVED else name


def with_common_columns(layouts: Sequence[Layout]) -> list[Layout]:
    """Return the layouts of files with only those further columns that all of them have, in one order."""
    common = [{key for key, _ in layout.extra} for layout in layouts]
    order = [key for key, _ in layouts[0].extra if all(key in keys for keys in common)] if layouts else []
    trimmed = []
    for layout in layouts:
        at = dict(layout.extra)
        trimmed.append(dataclasses.replace(layout, extra=tuple((key, at[key]) for key in order)))
    return trimmed


def _find_smiles(path: PurePath, names: tuple[str, ...] | None, head: Head, taken: int | None) -> int:
    """Return the position of the SMILES column, found by its usual names or by content."""
    at = smiles_position(head)
    if at is not None and at != taken:
        return at
    position = smiles_by_content(head, (taken,))
    if names and head.n_rows and position is None:
        raise _no_smiles(path, names)
    return position or 0


def _no_smiles(path: PurePath, names: Sequence[str] | None) -> InputError:
    return InputError(f"{path} has no column of SMILES; choose one of its columns: {listed(names or ())}.")


def _id_by_content(head: Head, width: int, smiles: int) -> int | None:
    """Return the first column other than the SMILES that distinguishes molecules."""
    for position in range(width):
        values = [value for value in head.values(position) if value.strip()]
        if position != smiles and values and tells_apart(values):
            return position
    return None
