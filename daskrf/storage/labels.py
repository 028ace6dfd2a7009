"""Labels: measured or computed values, read from a table and attached to rows of a library."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskrf.errors import InputError, printable
from daskrf.molecules import clean_smiles
from daskrf.molecules.names import (
    ID_NAMES,
    SMILES_NAMES,
    column_words,
    find_id,
    find_smiles,
    listed,
    normalised,
)
from daskrf.paths import as_path
from daskrf.storage.files import canonical_json
from daskrf.storage.fingerprints import FingerprintStore
from daskrf.storage.label_files import Column, LabelFile, is_number, open_labels

__all__ = ["JoinedLabels", "Labels", "Matches", "join_labels", "label_words", "match_labels", "read_labels"]

KEYS = {"id": "IDs", "smiles": "SMILES", "row": "row numbers"}
MISSING = frozenset({"", "na", "n/a", "null", "none"})
JOIN_ROWS = 1_000_000
# Its offsets have 64 bits: the keys of one array may take more than 2 GiB.
TEXT = pa.large_string()


@dataclass(frozen=True)
class Labels:
    """Labels as read; a key may have several, each a measurement of its own.

    Attributes
    ----------
    keys : pyarrow.Array of large_string, or of int64 for rows
        Distinct.
    index : int64 array, shape (n,)
        Position in `keys` of the key of each label.
    y : float64 array, shape (n, n_targets)
        Finite, or NaN where a label of several targets has no value of one.
    names : tuple of str
        Of the targets.
    key : {"id", "smiles", "row"}
        What the keys are.
    read : int
        Rows of the file: ``len(index) + dropped``.
    dropped : int
        Rows without any finite value.
    path : str
        The file.
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


@dataclass(frozen=True)
class Matches:
    """Rows of a library that carry labelled keys; `combine` is associative and commutative.

    Attributes
    ----------
    first_row : int64 array, shape (n_keys,)
        Smallest row with each key; -1 where there is none.
    n_hits : int
        Rows with any labelled key.
    """

    first_row: np.ndarray
    n_hits: int

    def combine(self, other: Self) -> Matches:
        """Matches in the rows of both."""
        a, b = (side.first_row.view(np.uint64) for side in (self, other))
        # As unsigned numbers, -1 is larger than every row.
        return Matches(np.minimum(a, b).view(np.int64), self.n_hits + other.n_hits)


@dataclass(frozen=True)
class JoinedLabels:
    """Labels attached to rows of a library.

    Attributes
    ----------
    row : int64 array, shape (n,)
        Global row numbers, ascending; a row of several labels as often as it has labels, which are in the
        order of the file.
    y : float64 array, shape (n, n_targets)
        Their labels; NaN where one of several targets has none.
    names : tuple of str
        Of the targets.
    matched, unmatched : int
        Labels whose key is in the library, and is not.
    repeats : int
        Those of the first that are not the first of their molecule. They count as measurements: a mean of r
        of them has a r-th of the noise.
    equal_repeats : int
        Those of the second that equal an earlier label of their molecule, and may be copies of it.
    library_duplicates : int
        Rows of the library that repeat a labelled key; the labels went to the first one.
    dropped : int
        Rows of the label file without any finite value.
    unmatched_keys : tuple of str
        The first few.
    """

    row: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]
    matched: int
    unmatched: int
    repeats: int
    equal_repeats: int
    library_duplicates: int
    dropped: int
    unmatched_keys: tuple[str, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over names, rows and values: the same for equal labels, wherever they were read from."""
        found = hashlib.sha256(canonical_json([list(self.names), list(self.y.shape)]))
        for array, dtype in ((self.row, "<i8"), (self.y, "<f8")):
            found.update(np.ascontiguousarray(array, dtype=dtype).reshape(-1).data)
        return found.hexdigest()

    @property
    def n_molecules(self) -> int:
        """How many molecules have labels."""
        return self.matched - self.repeats

    def separate(self) -> list[tuple[tuple[int, ...], JoinedLabels]]:
        """Return the numbers of targets that have values in the same rows, and the labels of just these.

        Sums over rows serve several targets where all of them have a value in each; where some have gaps,
        each set of rows needs sums of its own.
        """
        there = np.isfinite(self.y)
        sets: dict[bytes, list[int]] = {}
        for target in range(len(self.names)):
            sets.setdefault(there[:, target].tobytes(), []).append(target)
        if len(sets) == 1:
            return [(tuple(range(len(self.names))), self)]
        parts = []
        for own in sets.values():
            rows = there[:, own[0]]
            names = tuple(self.names[target] for target in own)
            parts.append((tuple(own), replace(self, row=self.row[rows], y=self.y[rows][:, own], names=names)))
        return parts

    def __str__(self) -> str:
        molecules = f" to {self.n_molecules:,} molecules" if self.repeats else ""
        parts = [f"{self.matched:,} labels attached{molecules}"]
        if self.repeats:
            parts.append(
                f"{self.repeats:,} of them are repeat measurements, and each counts (the mean of r has 1/r "
                "of the noise variance)"
            )
        if self.equal_repeats:
            parts.append(
                f"{self.equal_repeats:,} of these have exactly the value of an earlier one (if they are "
                "copies, remove them, or the noise will be underestimated)"
            )
        counts = np.isfinite(self.y).sum(0).tolist()
        if min(counts) < len(self.y):
            named = zip(counts, self.names, strict=True)
            parts.append(", ".join(f"{n:,} with {printable(name, 60)}" for n, name in named))
        if self.unmatched:
            keys = listed(self.unmatched_keys)
            parts.append(f"{self.unmatched:,} are not in the library (such as {keys})")
        if self.dropped:
            parts.append(f"{self.dropped:,} were left out (empty, NaN or infinite)")
        if self.library_duplicates:
            parts.append(
                f"{self.library_duplicates:,} rows of the library have the key of an earlier row; labels "
                "went to the first"
            )
        return "; ".join(parts)


def read_labels(
    path: str | os.PathLike[str],
    key: str = "id",
    key_column: Column | None = None,
    targets: Sequence[Column] | None = None,
    drop_non_finite: bool = False,
) -> Labels:
    """Read labels from CSV, TSV, text (plain or compressed) or Parquet.

    Parameters
    ----------
    path : path
    key : {"id", "smiles", "row"}
        What joins labels to the library.
    key_column : str or int, optional
        Column of the key, by name or by position from 0; by default found by its usual names (of IDs, those
        that `daskrf.molecules.names` knows), else the first.
    targets : sequence of str or int, optional
        Columns of the values; by default the only other column of numbers.
    drop_non_finite : bool
        Leave values out that are missing or not finite, and rows that have no other; count these.

    Returns
    -------
    Labels

    Raises
    ------
    InputError
        A column that is not there, a choice that is not clear, or a value that is no finite number, by file
        and line.

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
    table, key_position, positions = _columns(path, key, key_column, targets)
    parts, n_read = _read_parts(table, key, [key_position, *positions], drop_non_finite)
    keys = pa.concat_arrays([part for part, _ in parts]) if parts else pa.nulls(0)
    names = tuple(table.names[position] for position in positions)
    dropped = n_read - len(keys)
    if not len(keys):
        raise InputError(f"{path} has no label left: all {dropped:,} rows have a value that is not finite")
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
    """Return how `read_labels` reads a file, in one line: its format, and the columns of key and targets.

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
    table, key_position, positions = _columns(path, key, key_column, targets)
    names = table.names if table.header else None
    known = key_column is not None or _find_key(table, key) is not None
    every = column_words(table.names, *range(len(table.names)))
    first = "" if known else f" (none of {every} is a usual name for {KEYS[key]})"
    named = column_words(names, *positions)
    found = f"target{'s' if len(positions) > 1 else ''} {named}"
    return f"{table}; {KEYS[key]} in {column_words(names, key_position)}{first}, {found}"


def _columns(
    path: str | os.PathLike[str],
    key: str,
    key_column: Column | None,
    targets: Sequence[Column] | None,
) -> tuple[LabelFile, int, list[int]]:
    """The table of labels, and the positions of the key and of the targets."""
    table = open_labels(as_path(path))
    asked = [targets] if isinstance(targets, str) else list(targets or ())
    taken = [table.position(target) for target in asked]
    position = _key_position(table, key, key_column, taken)
    return table, position, _target_positions(table, position, targets)


def _key_position(table: LabelFile, key: str, column: Column | None, taken: Sequence[int]) -> int:
    """Column of the key: as given, by its usual names, or the first one that is not taken by a target."""
    if key not in KEYS:
        raise InputError(f"labels are joined by id, smiles or row, not by {key!r}")
    if column is not None:
        return table.position(column)
    found = _find_key(table, key)
    return next((k for k in range(len(table.names)) if k not in taken), 0) if found is None else found


def _find_key(table: LabelFile, key: str) -> int | None:
    """Column of the key by its usual names, if there is one."""
    if key == "id":
        return find_id(table.names, table.column)
    if key == "smiles":
        return find_smiles(table.names)
    return next((k for k, name in enumerate(table.names) if normalised(name) == "row"), None)


def _target_positions(table: LabelFile, key: int, targets: Sequence[Column] | None) -> list[int]:
    """Columns of the values: as given, or the only column of numbers besides the key."""
    if targets is not None:
        positions = [
            table.position(target) for target in ([targets] if isinstance(targets, str) else targets)
        ]
        if not positions or key in positions or len(set(positions)) != len(positions):
            raise InputError(
                f"the targets of {table.path} must be distinct columns other than the key "
                f"({table.names[key]}); its columns are {listed(table.names)}"
            )
        return positions
    known = {*ID_NAMES, *SMILES_NAMES, "row"}
    found = [
        position
        for position, name in enumerate(table.names)
        if position != key
        and normalised(name) not in known
        and (is_number(table.sample[position]) or table.sample[position].strip().lower() in MISSING)
    ]
    if len(found) == 1:
        return found
    names = listed([table.names[position] for position in found])
    problem = f"several columns of numbers ({names})" if found else "no column of numbers besides the key"
    raise InputError(
        f"{table.path} has {problem}; name the target columns (its columns are {listed(table.names)})"
    )


def _read_parts(
    table: LabelFile, key: str, positions: list[int], drop_non_finite: bool
) -> tuple[list[tuple[pa.Array, np.ndarray]], int]:
    """Keys and values, block by block, of rows that have a finite value; and how many rows were read."""
    parts, n_read = [], 0
    for lines, (keys, *columns) in table.blocks(positions):
        y = np.column_stack([_numbers(table, lines, texts) for texts in columns])
        finite = np.isfinite(y)
        if not finite.all() and not drop_non_finite:
            i = int(np.argmin(finite.all(axis=1)))
            j = int(np.argmin(finite[i]))
            bad, name = columns[j][i].strip(), table.names[positions[1:][j]]
            what = f"holds {bad!r}, not a finite number; correct it" if bad else "is empty; fill it in"
            raise InputError(
                f"{table.path}, {table.line_word} {lines[i]}: '{name}' {what}, or leave out empty, NaN and "
                "infinite values with --drop-non-finite"
            )
        n_read += len(lines)
        key_array = _row_keys(table, lines, keys) if key == "row" else _text_keys(keys, key)
        y[~finite], some = np.nan, finite.any(axis=1)
        parts.append((key_array.filter(pa.array(some)), y[some]))
    return parts, n_read


def _numbers(table: LabelFile, lines: list[int], texts: list[str]) -> np.ndarray:
    """The values of a column; NaN where one is missing."""
    try:
        return np.array(texts, dtype=np.float64)
    except ValueError:
        return np.array([_number(table, line, text) for line, text in zip(lines, texts, strict=True)])


def _number(table: LabelFile, line: int, text: str) -> float:
    """The value of a field; NaN where it is missing."""
    if text.strip().lower() in MISSING:
        return np.nan
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"{table.path}, {table.line_word} {line} has the value {text!r}, which is no number; correct it"
        ) from None


def _text_keys(keys: list[str], kind: str) -> pa.Array:
    """Keys as the library has them: without blanks around, and SMILES without their extensions."""
    clean = clean_smiles if kind == "smiles" else str.strip
    return pa.array([clean(key) for key in keys], TEXT)


def _row_keys(table: LabelFile, lines: list[int], keys: list[str]) -> pa.Array:
    """Keys as row numbers."""
    for line, text in zip(lines, keys, strict=True):
        digits = text.strip()
        if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
            raise InputError(
                f"{table.path}, {table.line_word} {line} has the key {text!r}, which is no row number "
                "(counted from 0); choose the key column, or join by id or smiles"
            )
    return pa.array([int(text) for text in keys], pa.int64())


def match_labels(labels: Labels, store: FingerprintStore, partitions: Iterable[int]) -> Matches:
    """Look the keys of labels up in some partitions of a library; keys are compared exactly.

    Parameters
    ----------
    labels : Labels
        What to look for.
    store : FingerprintStore
        Where to look.
    partitions : iterable of int
        Finished partitions.

    Returns
    -------
    Matches
        Those of several calls combine to those of all partitions.
    """
    matches = Matches(np.full(len(labels.keys), -1, dtype=np.int64), 0)
    # The hash table of the labels is made anew for each call of index_in, so a call takes as many rows.
    for rows, keys in _key_blocks(labels, store, partitions):
        found = pc.index_in(keys, value_set=labels.keys)
        hit = found.is_valid().to_numpy(zero_copy_only=False)
        label = found.drop_null().to_numpy()
        first = np.full(len(labels.keys), np.iinfo(np.int64).max, dtype=np.int64)
        np.minimum.at(first, label, rows[hit])
        first[first == np.iinfo(np.int64).max] = -1
        matches = matches.combine(Matches(first, len(label)))
    return matches


def _key_blocks(
    labels: Labels, store: FingerprintStore, partitions: Iterable[int]
) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """Row numbers and keys of consecutive partitions, joined to blocks of a bounded number of rows."""
    most = max(JOIN_ROWS, len(labels.keys))
    columns = ["row"] if labels.key == "row" else ["row", labels.key]
    tables: list[pa.Table] = []
    n_rows = 0

    def block() -> tuple[np.ndarray, pa.Array]:
        table = pa.concat_tables(tables)
        keys = table[columns[-1]].cast(labels.keys.type).combine_chunks()
        return table["row"].to_numpy(), keys

    for p in partitions:
        whole = store.read_rows(p, columns)
        for start in range(0, whole.num_rows, most):
            part = whole.slice(start, most)
            if tables and n_rows + part.num_rows > most:
                yield block()
                tables, n_rows = [], 0
            tables.append(part)
            n_rows += part.num_rows
    if tables:
        yield block()


def join_labels(labels: Labels, store: FingerprintStore, matches: Matches | None = None) -> JoinedLabels:
    """Attach each label to the first row of the library with its key, several of one key to the same row.

    Parameters
    ----------
    labels : Labels
        From `read_labels`.
    store : FingerprintStore
        A complete one.
    matches : Matches, optional
        Of all its partitions, where they were looked up elsewhere.

    Returns
    -------
    JoinedLabels

    Raises
    ------
    InputError
        No label is in the library.
    """
    if matches is None:
        matches = match_labels(labels, store, range(store.n_partitions))
    there = matches.first_row >= 0
    missing = labels.keys.take(pa.array(np.flatnonzero(~there)[:5])).to_pylist()
    if not there.any():
        raise InputError(
            f"none of the {len(labels):,} labels of {labels.path} is in {store.path}: there is no "
            f"{labels.key} {missing[0]!r} in it; choose the key and its column, or another library"
        )
    row = matches.first_row[labels.index]
    order = np.argsort(row, kind="stable")[np.count_nonzero(row < 0) :]
    row, y, n_found = row[order], labels.y[order], int(np.count_nonzero(there))
    return JoinedLabels(
        row=row,
        y=y,
        names=labels.names,
        matched=len(row),
        unmatched=len(labels) - len(row),
        repeats=len(row) - n_found,
        equal_repeats=_n_equal(row, y) if len(row) > n_found else 0,
        library_duplicates=matches.n_hits - n_found,
        dropped=labels.dropped,
        unmatched_keys=tuple(str(key) for key in missing),
    )


def _n_equal(row: np.ndarray, y: np.ndarray) -> int:
    """Return how many labels equal an earlier one of the same row, gaps included."""
    columns = np.column_stack([row, (y + 0.0).view(np.int64)])  # bits, so that NaN equals itself
    ordered = columns[np.lexsort(columns.T)]
    return int((ordered[1:] == ordered[:-1]).all(axis=1).sum())
