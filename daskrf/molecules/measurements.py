"""Measurements: labels of molecules, read from a table."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
import pyarrow as pa

from daskrf.errors import InputError
from daskrf.molecules.formats import (
    EMPTY,
    Column,
    Head,
    Purpose,
    TableFormat,
    View,
    open_table,
    reader_of,
    whole,
)
from daskrf.molecules.library import clean_smiles, file_words
from daskrf.molecules.names import (
    ID_NAMES,
    SMILES_NAMES,
    column_words,
    find_id,
    find_smiles,
    is_number,
    listed,
    normalised,
    position_of,
)
from daskrf.molecules.structures import canonical_smiles
from daskrf.storage.backend import as_path

__all__ = ["Labels", "label_table", "label_words", "read_labels"]

KEYS = {
    "id": "IDs",
    "smiles": "SMILES",
    "structure": "SMILES, joined by structure,",
    "parent": "SMILES, joined by structure without salts and charges,",
    "row": "row numbers",
}
BY_SMILES = ("smiles", "structure", "parent")
MISSING = frozenset({"", "na", "n/a", "null", "none"})
LONGEST = 1 << 22  # bytes per line
# large_string has 64-bit offsets: the keys of one array may take more than 2 GiB.
TEXT = pa.large_string()
_DECIMAL_COMMA = re.compile(r"[+-]?(?:\d+,\d*|,\d+)(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")  # or a decimal comma


@dataclass(frozen=True)
class Labels:
    """Labels as read; one key may have several, each a separate measurement.

    Attributes
    ----------
    keys : pyarrow.Array of large_string, or of int64 for rows
        Distinct.
    index : int64 array, shape (n,)
        Position in `keys` of each label's key.
    y : float64 array, shape (n, n_targets)
        Finite, or NaN where a label with several targets lacks a value for one of them.
    names : tuple of str
        Names of the targets.
    key : {"id", "smiles", "structure", "parent", "row"}
        What the keys are.
    read : int
        Number of rows in the file: ``len(index) + dropped``.
    dropped : int
        Number of rows without any finite value.
    path : str
        Path of the file.
    """

    keys: pa.Array
    index: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]
    key: str
    read: int
    dropped: int
    path: str

    def __len__(self) -> int:
        return len(self.index)


def read_labels(
    path: str | os.PathLike[str],
    key: str = "id",
    key_column: Column | None = None,
    targets: Sequence[Column] | None = None,
    drop_non_finite: bool = False,
) -> Labels:
    """Read labels from a table in any format that libraries may have, plain or compressed.

    Parameters
    ----------
    path : path
    key : {"id", "smiles", "structure", "parent", "row"}
        The key that joins labels to the library; see `daskrf.fit`.
    key_column : str or int, optional
        Column of the key, by name or by position from 0; by default found by its usual names (for IDs, those
        in `daskrf.molecules.names`), else the first column.
    targets : sequence of str or int, optional
        Columns of the values; by default the only other numeric column.
    drop_non_finite : bool
        Drop values that are missing or not finite, and rows left without any; the latter are counted.

    Returns
    -------
    Labels

    Raises
    ------
    InputError
        If a column does not exist, a choice is ambiguous, or a value is not a finite number; the message
        gives file and line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "scores.csv")
    ...     _ = path.write_text("id,score\\nA,-7.5\\nB,-8\\nA,-1\\n")
    ...     labels = read_labels(path)
    >>> labels.keys.to_pylist(), labels.index.tolist(), labels.y.ravel().tolist()
    (['A', 'B'], [0, 1, 0], [-7.5, -8.0, -1.0])
    """
    given = _open(path, key, key_column, targets)
    parts, n_read = _read_parts(given, drop_non_finite)
    keys = pa.concat_arrays([part for part, _ in parts]) if parts else pa.nulls(0)
    names = tuple(given.names[position] for position in given.targets)
    dropped = n_read - len(keys)
    if not len(keys):
        raise InputError(f"{path} has no label left: no value in its {dropped:,} rows is finite")
    y = np.concatenate([values for _, values in parts])
    for name, there in zip(names, np.isfinite(y).any(0), strict=True):
        if not there:
            raise InputError(f"{path} has no label of {name} left: none of its values is finite")
    encoded = keys.dictionary_encode()
    return Labels(
        keys=encoded.dictionary,
        index=encoded.indices.to_numpy().astype(np.int64),
        y=y,
        names=names,
        key=key,
        read=n_read,
        dropped=dropped,
        path=str(path),
    )


def label_words(
    path: str | os.PathLike[str],
    key: str = "id",
    key_column: Column | None = None,
    targets: Sequence[Column] | None = None,
) -> str:
    """Return how `read_labels` reads a file, in one line: its format, and its key and target columns.

    Raises
    ------
    InputError
        As `read_labels`, for the columns.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "scores.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("Compound ID,score\\nA,-7.5\\n")
    ...     print(label_words(path).removeprefix(folder + os.sep))
    scores.csv: UTF-8 text, separated by commas, with a header; IDs in 'Compound ID', target 'score'
    """
    given = _open(path, key, key_column, targets)
    table = given.head.table
    known = key_column is not None or _find_key(given.head, given.names, key) is not None
    every = column_words(given.names, *range(len(given.names)))
    first = "" if known else f" (none of {every} is a usual name for {KEYS[key].partition(',')[0]})"
    found = f"target{'s' if len(given.targets) > 1 else ''} {column_words(table.names, *given.targets)}"
    found += ", decimal commas" if given.comma else ""
    where = f"{KEYS[key]} in {column_words(table.names, given.key_position)}{first}"
    return f"{file_words(path)}: {reader_of(table).words(table)}; {where}, {found}"


@dataclass(frozen=True)
class _Given:
    """A table of labels, and the columns to read from it."""

    path: PurePath
    head: Head
    names: tuple[str, ...]
    key: str
    key_position: int
    targets: list[int]
    comma: bool

    def place(self, line: int) -> str:
        """Return the name of a row for messages."""
        return f"{self.path}, {reader_of(self.head.table).row_word} {line}"


def label_table(path: str | os.PathLike[str], key: str = "id") -> Head:
    """Return the layout of a file of labels that are joined by `key`.

    Raises
    ------
    InputError
        If the file cannot be read, or is damaged, empty or not a table.

    Notes
    -----
    The first row is a header if none of its fields is a number. If the delimiter suggested by the file
    extension does not cut all of the first lines into the same number of columns, at least two, the delimiter
    is the one of tab, semicolon, comma and white space that gives the most columns. Commas between digits
    give way to tabs and semicolons.
    """
    path = as_path(path)
    head = open_table(path, _purpose(key))
    if not head.n_rows:
        what = "has a header and no rows" if head.table.names else "is empty"
        raise InputError(f"the label file {path} {what}")
    return head


def _purpose(key: str) -> Purpose:
    return Purpose(
        fit=_columns_of_all,
        is_header=lambda first, below: not any(map(_is_value, first)),
        asked=TableFormat(),
        longest=LONGEST,
        strict=True,
        extensions=key in BY_SMILES,
    )


def _columns_of_all(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of columns that all rows share; 0 if they differ or there is only one."""
    widths = set(map(len, rows))
    return 0 if len(widths) != 1 or widths == {1} else widths.pop()


def _open(
    path: str | os.PathLike[str], key: str, key_column: Column | None, targets: Sequence[Column] | None
) -> _Given:
    """Return a table of labels with the positions of its key and target columns."""
    if key not in KEYS:
        raise InputError(f"labels are joined by {', '.join(KEYS)}, not by {key!r}")
    head = label_table(path, key)
    names = head.table.names or tuple(f"column {position}" for position in range(head.table.n_columns))

    def position(column: Column) -> int:
        return position_of(as_path(path), column, names, len(names))

    asked = [targets] if isinstance(targets, str) else targets
    positions = [position(target) for target in asked or ()]
    if key_column is not None:
        at = position(key_column)
    elif (found := _find_key(head, names, key)) is not None:
        at = found
    else:
        at = next((k for k in range(len(names)) if k not in positions), 0)
    if asked is None:
        positions = [_only_target(as_path(path), head, names, at)]
    elif not positions or at in positions or len(set(positions)) != len(positions):
        raise InputError(
            f"the targets of {path} must be distinct columns other than the key ({names[at]}); its columns "
            f"are {listed(names)}"
        )
    comma = _has_commas(as_path(path), head, positions)
    return _Given(as_path(path), head, names, key, at, positions, comma)


def _has_commas(path: PurePath, head: Head, targets: Sequence[int]) -> bool:
    """Return whether the first values have decimal commas; refuse those that may separate thousands."""
    values = [text.strip() for column in head.columns(targets) for text in column]
    commas = [text for text in values if _DECIMAL_COMMA.fullmatch(text)]
    if not commas or head.table.delimiter == ";":  # which Excel writes where commas are decimal
        return bool(commas)
    if all(map(_THOUSANDS.fullmatch, commas)):
        point, none = commas[0].replace(",", "."), commas[0].replace(",", "")
        raise InputError(
            f"{path} holds '{commas[0]}', which may mean {point} or {none}; write it as one of them"
        )
    return True


def _find_key(head: Head, names: tuple[str, ...], key: str) -> int | None:
    """Return the position of the key column found by its usual names, or None."""
    if key == "id":
        return find_id(names, head.values, title=head.title)
    if key in BY_SMILES:
        return find_smiles(names) if head.structure is None else head.structure
    return next((k for k, name in enumerate(names) if normalised(name) == "row"), None)


def _only_target(path: PurePath, head: Head, names: tuple[str, ...], key: int) -> int:
    """Return the position of the only numeric column besides the key."""
    known = {*ID_NAMES, *SMILES_NAMES, "row"}
    others = [k for k, name in enumerate(names) if k != key and normalised(name) not in known]
    found = [
        position
        for position, values in zip(others, head.columns(others), strict=True)
        if values and all(map(_is_value, [text for text in values if not _is_missing(text)][:1]))
    ]
    if len(found) == 1:
        return found[0]
    several = listed([names[position] for position in found])
    problem = f"several numeric columns ({several})" if found else "no numeric column besides the key"
    raise InputError(f"{path} has {problem}; name the target columns (its columns are {listed(names)})")


def _read_parts(given: _Given, drop_non_finite: bool) -> tuple[list[tuple[pa.Array, np.ndarray]], int]:
    """Return keys and values, block by block, of rows with a finite value; and the number of rows read."""
    parts, n_read = [], 0
    for lines, keys, columns in _blocks(given):
        y = np.column_stack([_numbers(given, lines, texts) for texts in columns])
        finite = np.isfinite(y)
        if not finite.all() and not drop_non_finite:
            i = int(np.argmin(finite.all(axis=1)))
            j = int(np.argmin(finite[i]))
            bad, name = columns[j][i].strip(), given.names[given.targets[j]]
            what = f"holds {bad!r}, not a finite number; correct it" if bad else "is empty; fill it in"
            raise InputError(
                f"{given.place(lines[i])}: '{name}' {what}, or leave out empty, NaN and infinite values with "
                "--drop-non-finite"
            )
        n_read += len(lines)
        y[~finite], some = np.nan, finite.any(axis=1)
        parts.append((_keys(given, lines, keys).filter(pa.array(some)), y[some]))
    return parts, n_read


def _blocks(given: _Given) -> Iterator[tuple[list[int], list[str], list[list[str]]]]:
    """Yield lines, keys and target values, as text; blank lines are skipped."""
    table = given.head.table
    view = View(given.path, table, [given.key_position, *given.targets], _purpose(given.key))
    for rows in reader_of(table).read(view, [whole(table)]):
        for fault in rows.faults:
            if fault.reason != EMPTY:
                raise InputError(
                    f"{given.place(fault.line)} cannot be read ({fault.reason}); correct or delete it"
                )
        if len(rows.row):
            keys, *values = ([text or "" for text in column] for column in rows.columns)
            yield rows.line.tolist(), keys, values


def _numbers(given: _Given, lines: list[int], texts: list[str]) -> np.ndarray:
    """Return the values of a column; NaN where one is missing."""
    if given.comma:
        for line, text in zip(lines, texts, strict=True):
            if "." in text:
                raise InputError(
                    f"{given.place(line)} has the value {text!r}, but others have decimal commas; "
                    "write all in one way"
                )
        texts = [text.replace(",", ".") for text in texts]
    try:
        return np.array(texts, dtype=np.float64)
    except ValueError:
        values = ["nan" if _is_missing(text) else text for text in texts]
    for line, text in zip(lines, values, strict=True):
        if not is_number(text):
            raise InputError(f"{given.place(line)} has the value {text!r}, which is not a number; correct it")
    return np.array(list(map(float, values)))


def _is_value(text: str) -> bool:
    return is_number(text) or _DECIMAL_COMMA.fullmatch(text.strip()) is not None


def _is_missing(text: str) -> bool:
    return text.strip().lower() in MISSING


def _keys(given: _Given, lines: list[int], keys: list[str]) -> pa.Array:
    """Return keys in the form of the library's: row numbers, stripped text, or SMILES as the key says."""
    if given.key == "smiles":
        return pa.array(map(clean_smiles, keys), TEXT)
    if given.key in BY_SMILES:
        return pa.array(canonical_smiles(map(clean_smiles, keys), given.key == "parent"), TEXT)
    texts = list(map(str.strip, keys))
    if given.key == "id":
        return pa.array(texts, TEXT)
    for line, key, digits in zip(lines, keys, texts, strict=True):
        if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
            raise InputError(
                f"{given.place(line)} has the key {key!r}, which is not a row number (counted from 0); "
                "choose the key column, or join by id or smiles"
            )
    return pa.array(map(int, texts), pa.int64())
