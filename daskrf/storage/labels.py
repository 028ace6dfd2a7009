"""Labels: measured or computed values, attached to rows of a library."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from daskrf.errors import InputError, printable
from daskrf.molecules.measurements import BY_SMILES, Labels
from daskrf.molecules.names import listed
from daskrf.molecules.structures import inchikeys, same_structures
from daskrf.molecules.values import AS_VALUES, Scale
from daskrf.quantities import amount
from daskrf.storage.files import canonical_json
from daskrf.storage.rowstore import RowStore

__all__ = ["JoinedLabels", "Matches", "NoMatchError", "join_labels", "match_labels"]

JOIN_ROWS = 1_000_000


class NoMatchError(InputError):
    """No label is in the library."""


@dataclass(frozen=True)
class Matches:
    """Rows of a library that have labelled keys; `combine` is associative and commutative.

    Attributes
    ----------
    first_row : int64 array, shape (n_keys,)
        Smallest row with each key; -1 if there is none.
    n_hits : int
        Rows with any labelled key.
    """

    first_row: np.ndarray
    n_hits: int

    def combine(self, other: Self) -> Matches:
        """Return the matches in the rows of both."""
        a, b = (side.first_row.view(np.uint64) for side in (self, other))
        # As unsigned numbers, -1 is larger than every row.
        return Matches(np.minimum(a, b).view(np.int64), self.n_hits + other.n_hits)


@dataclass(frozen=True)
class JoinedLabels:
    """Labels attached to rows of a library.

    Attributes
    ----------
    row : int64 array, shape (n,)
        Global row numbers, ascending; a row with several labels is repeated for each of them, in file
        order.
    y : float64 array, shape (n, n_targets)
        Label values; NaN where one of several targets has no value.
    names : tuple of str
        Names of the targets.
    matched, unmatched : int
        Labels whose key is, or is not, in the library.
    repeats : int
        Matched labels that are not the first of their molecule. They count as independent measurements: the
        mean of r of them has 1/r of the noise variance.
    equal_repeats : int
        Repeats that equal an earlier label of their molecule, and may be copies of it.
    library_duplicates : int
        Rows of the library that repeat a labelled key; the labels are attached to the first one.
    dropped : int
        Rows of the label file without any finite value.
    unmatched_keys : tuple of str
        The first few keys that are not in the library.
    scales : tuple of Scale
        What each target is.
    unusual : dict of str to (int, str)
        How many values of the label file were left out, by kind, or were censored and taken as they are, each
        with an example.
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
    scales: tuple[Scale, ...] = ()
    unusual: Mapping[str, tuple[int, str]] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """SHA-256 of names, rows and values: the same for equal labels, whatever file they came from."""
        found = hashlib.sha256(canonical_json([list(self.names), list(self.y.shape)]))
        for array, dtype in ((self.row, "<i8"), (self.y, "<f8")):
            found.update(np.ascontiguousarray(array, dtype=dtype).reshape(-1).data)
        return found.hexdigest()

    @property
    def n_molecules(self) -> int:
        """Number of molecules with labels."""
        return self.matched - self.repeats

    def separate(self) -> list[tuple[tuple[int, ...], JoinedLabels]]:
        """Return groups of targets that have values in the same rows, each with the labels of the group.

        Sums over rows can be shared by targets that all have values in the same rows; if some have gaps, each
        set of rows needs its own sums.
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
        molecules = f" to {amount(self.n_molecules, 'molecules')}" if self.repeats else ""
        parts = [f"{amount(self.matched, 'labels')} attached{molecules}"]
        if self.repeats:
            parts.append(
                f"repeat measurements among them: {self.repeats:,}, and each counts (the mean of r has 1/r "
                "of the noise variance)"
            )
        if self.equal_repeats:
            parts.append(
                f"repeats with exactly the value of an earlier one: {self.equal_repeats:,} (if they are "
                "copies, remove them, or the noise will be underestimated)"
            )
        counts = np.isfinite(self.y).sum(0).tolist()
        if min(counts) < len(self.y):
            named = zip(counts, self.names, strict=True)
            parts.append(", ".join(f"{n:,} with {printable(name, 60)}" for n, name in named))
        if self.unmatched:
            keys = listed(self.unmatched_keys)
            parts.append(f"not in the library: {self.unmatched:,} (such as {keys})")
        parts += self._unusual()
        if self.library_duplicates:
            parts.append(
                f"rows of the library with the key of an earlier row: {self.library_duplicates:,} (labels go "
                "to the first)"
            )
        return "; ".join(parts)

    def _unusual(self) -> list[str]:
        """Return what was left out, and what was taken though it was no plain number."""

        def words(kind: str) -> str:
            n, example = self.unusual[kind]
            return f"{n:,} {kind}{f' (such as {printable(example, 40)!r})' if example else ''}"

        left = [words(kind) for kind in self.unusual if kind != AS_VALUES]
        rows = f", and so {amount(self.dropped, 'rows')}" if self.dropped and len(self.names) > 1 else ""
        parts = [f"values left out: {', '.join(left)}{rows}"] if left else []
        return [*parts, *([words(AS_VALUES)] if AS_VALUES in self.unusual else [])]


def match_labels(labels: Labels, store: RowStore, partitions: Iterable[int]) -> Matches:
    """Look up label keys in some partitions of a library; keys are compared exactly, or as structures.

    Parameters
    ----------
    labels : Labels
        Labels to look up.
    store : RowStore
        Store to search.
    partitions : iterable of int
        Finished partitions.

    Returns
    -------
    Matches
        Matches of several calls can be combined into those of all partitions.
    """
    matches = Matches(np.full(len(labels.keys), -1, dtype=np.int64), 0)
    # Each call of index_in rebuilds the hash table of the labels, so blocks may hold at least as many rows.
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
    labels: Labels, store: RowStore, partitions: Iterable[int]
) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """Yield row numbers and keys of consecutive partitions, in blocks of a bounded number of rows."""
    most = max(JOIN_ROWS, len(labels.keys))
    column = "smiles" if labels.key in BY_SMILES else labels.key
    columns = ["row"] if column == "row" else ["row", column]
    known = labels.keys.to_pylist() if labels.key in ("structure", "parent") else []
    tables: list[pa.Table] = []
    n_rows = 0

    def block() -> tuple[np.ndarray, pa.Array]:
        table = pa.concat_tables(tables)
        keys = table[columns[-1]].cast(labels.keys.type).combine_chunks()
        if labels.key in ("structure", "parent"):
            found = same_structures(known, keys.to_pylist(), labels.key == "parent")
            keys = pa.array(found, labels.keys.type)
        elif labels.key == "inchikey":
            keys = pa.array(inchikeys(keys.to_pylist()), labels.keys.type)
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


def join_labels(labels: Labels, store: RowStore, matches: Matches | None = None) -> JoinedLabels:
    """Attach each label to the first row with its key; labels with the same key share a row.

    Parameters
    ----------
    labels : Labels
        From `read_labels`.
    store : RowStore
        A complete store.
    matches : Matches, optional
        Matches of all its partitions, if already looked up.

    Returns
    -------
    JoinedLabels

    Raises
    ------
    NoMatchError
        No label is in the library.
    """
    if matches is None:
        matches = match_labels(labels, store, range(store.n_partitions))
    there = matches.first_row >= 0
    missing = labels.keys.take(pa.array(np.flatnonzero(~there)[:5])).to_pylist()
    if not there.any():
        raise NoMatchError(
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
        scales=labels.scales,
        unusual=labels.unusual,
    )


def _n_equal(row: np.ndarray, y: np.ndarray) -> int:
    """Return how many labels equal an earlier one of the same row, gaps included."""
    columns = np.column_stack([row, (y + 0.0).view(np.int64)])  # bits, so that NaN equals itself
    ordered = columns[np.lexsort(columns.T)]
    return int((ordered[1:] == ordered[:-1]).all(axis=1).sum())
