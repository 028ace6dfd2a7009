"""Labels: measured or computed values, attached to rows of a library."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import pyarrow as pa

from daskrf.errors import InputError, printable
from daskrf.files.disk import canonical_json
from daskrf.measurements import LabelFile, Labels
from daskrf.measurements.reading import BY_SMILES
from daskrf.molecules.structures import LEVELS, KnownStructures, inchikeys, same_names
from daskrf.quantities import amount, listed
from daskrf.storage.stores.rowstore import RowStore
from daskrf.tables.values.classes import ClassWords
from daskrf.tables.values.limits import limits_words, notes_on_limits, one_limit_of_each
from daskrf.tables.values.repeats import notes_on_repeats, one_of_each, row_blocks
from daskrf.tables.values.values import (
    APPROXIMATE,
    AS_VALUES,
    BY_WEIGHT,
    USED,
    Limits,
    Scale,
)

# Labels compared at other levels if none is joined, or if only some are: a tautomer takes 20 ms.
_LABELS_COMPARED, _SOME_COMPARED = 200, 50
_ROWS_COMPARED = 200_000
_SHOWN = 5  # keys that are named
_WITHOUT = {
    "structure": "however they are written",
    "parent": "without salts and charges",
    "tautomer": "whatever the salt, the charge and the tautomer",
    "skeleton": "without stereochemistry",
}


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
class TargetLabels:
    """The labels of one target.

    Attributes
    ----------
    rows : int array, shape (n,)
        Which of all labels these are.
    y : float64 array, shape (n,)
        Values, and limits.
    side : int8 array, shape (n,), or None
        0 for a value, 1 for a lower and -1 for an upper limit; None if all are values.
    """

    rows: np.ndarray
    y: np.ndarray
    side: np.ndarray | None

    @property
    def measured(self) -> np.ndarray:
        """The values that were measured."""
        return self.y if self.side is None else self.y[self.side == 0]


@dataclass(frozen=True)
class RowLabels:
    """Labels of rows of a library, in the order of these and, for one row, of the file.

    Attributes
    ----------
    row, y, bound, side : arrays
        As in `JoinedLabels`.
    """

    row: np.ndarray
    y: np.ndarray
    bound: np.ndarray | None = None
    side: np.ndarray | None = None

    @classmethod
    def of(cls, row: np.ndarray, y: np.ndarray, side: np.ndarray | None) -> RowLabels:
        """Return labels whose limits are among the values `y`, where `side` is not 0."""
        if side is None:
            return cls(row, y)
        return cls(row, np.where(side == 0, y, np.nan), np.where(side == 0, np.nan, y), side)

    def __getitem__(self, some: slice | np.ndarray) -> RowLabels:
        """Return some of the labels."""
        bound, side = (None if array is None else array[some] for array in (self.bound, self.side))
        return RowLabels(self.row[some], self.y[some], bound, side)

    def blocks(self) -> Iterator[RowLabels]:
        """Yield about a million labels at a time, with all labels of each of their rows."""
        return (self[some] for some in row_blocks(self.row))

    def one_of_each(self, repeats: str, largest: Sequence[bool] = ()) -> RowLabels:
        """Return one label of each molecule; see `JoinedLabels.one_of_each`."""
        first, y = one_of_each(self.row, self.y, repeats, largest)
        bound, side = self.bound, self.side
        if bound is not None and side is not None:
            bound, side = one_limit_of_each(self.row, bound, side, np.isfinite(y))
        return RowLabels(self.row[first], y, bound, side)

    @property
    def n_equal(self) -> int:
        """How many labels equal an earlier one of the same row, gaps and limits included."""
        n = 0
        for block in self.blocks():
            repeated = np.concatenate([[False], block.row[1:] == block.row[:-1]])
            repeated[:-1] |= repeated[1:].copy()
            # Bits, so that NaN equals itself.
            columns = [block.row[repeated], (block.y[repeated] + 0.0).view(np.int64)]
            if block.bound is not None and block.side is not None:
                columns += [(block.bound[repeated] + 0.0).view(np.int64), block.side[repeated]]
            table = np.column_stack(columns)
            ordered = table[np.lexsort(table.T)]
            n += int((ordered[1:] == ordered[:-1]).all(axis=1).sum())
        return n


@dataclass(frozen=True)
class JoinedLabels:
    """Labels attached to rows of a library.

    Attributes
    ----------
    row : int64 array, shape (n,)
        Global row numbers, ascending; a row with several labels is repeated for each of them, in file
        order.
    y : float64 array, shape (n, n_targets)
        Label values; NaN where one of several targets has no value, or has a limit.
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
    elsewhere : str
        A sentence on the key by which some of these labels would be in the library; may be empty.
    scales : tuple of Scale
        What each target is.
    unusual : dict of str to (int, str)
        For each kind of unusual value in the label file, how many there were, and an example. They were left
        out, except censored ones taken as they are.
    limits, notes : tuple
        As in `Labels`.
    n_further, log_times : int and float
        For labels that stand for means without deviations: how many more labels there are than means, and the
        sum of the logarithms of the numbers of measurements.
    bound, side : arrays, shape (n, n_targets), or None
        Limits in the place of values, as in `Labels`.
    merged, repeats_as : int and str
        Matched labels merged into one label of their molecule, and how: "best", "mean" or "median".
    classes : tuple of ClassWords or None
        As in `Labels`.
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
    elsewhere: str = ""
    scales: tuple[Scale, ...] = ()
    unusual: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    limits: tuple[Limits, ...] = ()
    notes: tuple[str, ...] = ()
    n_further: int = 0
    log_times: float = 0.0
    merged: int = 0
    repeats_as: str = "all"
    bound: np.ndarray | None = None
    side: np.ndarray | None = None
    classes: tuple[ClassWords | None, ...] = ()

    @property
    def labels(self) -> RowLabels:
        """The rows and their labels."""
        return RowLabels(self.row, self.y, self.bound, self.side)

    @property
    def digest(self) -> str:
        """SHA-256 of names, rows and values: the same for equal labels, whatever file they came from."""
        hashed = hashlib.sha256(canonical_json([list(self.names), list(self.y.shape)]))
        for array, dtype in ((self.row, "<i8"), (self.y, "<f8")):
            hashed.update(np.ascontiguousarray(array, dtype=dtype).reshape(-1).data)
        if self.side is not None:
            hashed.update(np.ascontiguousarray(self.bound, dtype="<f8").reshape(-1).data)
            hashed.update(np.ascontiguousarray(self.side, dtype="<i1").reshape(-1).data)
        return hashed.hexdigest()

    @property
    def has_label(self) -> np.ndarray:
        """Whether a label has a value or a limit, bool of shape (n, n_targets)."""
        there = np.isfinite(self.y)
        return there if self.side is None else there | (self.side != 0)

    def of_target(self, target: int) -> TargetLabels:
        """Return the labels of one target, limits among them."""
        rows = np.flatnonzero(self.has_label[:, target])
        y = self.y[rows, target]
        if self.side is None or self.bound is None or not self.side[:, target].any():
            return TargetLabels(rows, y, None)
        side = self.side[rows, target]
        return TargetLabels(rows, np.where(side != 0, self.bound[rows, target], y), side)

    def evidence_of_means(self, noise_variance: float) -> float:
        """Return the log evidence of means minus that of the labels that stand for them.

        The density of n measurements that equal their mean m, given f, is N(m | f, v/n) (2 pi v)^((1-n)/2)
        n^(-1/2). Only the first factor is the density of the mean. Without means, the difference is 0.
        """
        return 0.5 * (self.n_further * math.log(2 * math.pi * noise_variance) + self.log_times)

    @property
    def n_molecules(self) -> int:
        """Number of molecules with labels."""
        return self.matched - self.repeats

    def one_of_each(self, repeats: str, largest: Sequence[bool] = ()) -> Self:
        """Return one label of each molecule: the best, the mean or the median of its labels.

        `largest` is whether the best label is the largest one, for each target.
        """
        return self.merged_as(repeats, self.labels.one_of_each(repeats, largest))

    def merged_as(self, repeats: str, labels: RowLabels) -> Self:
        """Return the labels with `labels`, one of each molecule, in their place."""
        return replace(
            self,
            row=labels.row,
            y=labels.y,
            bound=labels.bound,
            side=labels.side,
            matched=len(labels.row),
            repeats=0,
            equal_repeats=0,
            merged=self.matched - len(labels.row),
            repeats_as=repeats,
        )

    def separate(self) -> list[tuple[tuple[int, ...], JoinedLabels]]:
        """Return groups of targets that have values in the same rows, each with the labels of the group.

        Sums over rows can be shared by targets that all have values in the same rows; if some have gaps, each
        set of rows needs its own sums. So does each target with limits, which no sum includes.
        """
        there = self.has_label
        sets: dict[tuple[bytes, int], list[int]] = {}
        for target in range(len(self.names)):
            alone = self.side is not None and bool(self.side[:, target].any())
            sets.setdefault((there[:, target].tobytes(), target if alone else -1), []).append(target)
        if len(sets) == 1:
            return [(tuple(range(len(self.names))), self)]
        parts = []
        for targets in sets.values():
            rows = there[:, targets[0]]
            names = tuple(self.names[target] for target in targets)
            limited = self.side is not None and bool(self.side[:, targets].any())
            separated = replace(
                self,
                row=self.row[rows],
                y=self.y[rows][:, targets],
                names=names,
                bound=self.bound[rows][:, targets] if limited and self.bound is not None else None,
                side=self.side[rows][:, targets] if limited and self.side is not None else None,
                classes=tuple(self.classes[target] for target in targets) if self.classes else (),
            )
            parts.append((tuple(targets), separated))
        return parts

    def __str__(self) -> str:
        molecules = f" to {amount(self.n_molecules, 'molecules')}" if self.repeats else ""
        parts = [f"{amount(self.matched, 'labels')} attached{molecules}"]
        if self.repeats:
            parts.append(
                f"repeat measurements among them: {self.repeats:,}, and each counts (the mean of r has 1/r "
                "of the noise variance)"
            )
        if self.merged:
            parts.append(
                f"further labels of these molecules: {self.merged:,} (the {self.repeats_as} of each counts)"
            )
        if self.equal_repeats:
            parts.append(
                f"repeats with exactly the value of an earlier one: {self.equal_repeats:,} (if they are "
                "copies, remove them, or the noise will be underestimated)"
            )
        counts = self.has_label.sum(0).tolist()
        if min(counts) < len(self.y):
            named = zip(counts, self.names, strict=True)
            parts.append(", ".join(f"{n:,} with {printable(name, 60)}" for n, name in named))
        if self.unmatched:
            keys = listed(self.unmatched_keys)
            parts.append(f"not in the library: {self.unmatched:,} (such as {keys})")
            parts += [self.elsewhere] if self.elsewhere else []
        parts += self._unusual()
        if self.library_duplicates:
            parts.append(
                f"rows of the library with the key of an earlier row: {self.library_duplicates:,} (labels go "
                "to the first)"
            )
        return "; ".join(parts)

    def _unusual(self) -> list[str]:
        """Return lines on values that were left out, or taken though they were not plain numbers."""

        def words(kind: str) -> str:
            n, example = self.unusual[kind]
            return f"{n:,} {kind}{f' (such as {printable(example, 120)!r})' if example else ''}"

        left = [words(kind) for kind in self.unusual if kind not in USED]
        rows = f", and so {amount(self.dropped, 'rows')}" if self.dropped and len(self.names) > 1 else ""
        parts = [f"values left out: {', '.join(left)}{rows}"] if left else []
        parts += [words_of_limits] if (words_of_limits := limits_words(self.unusual)) else []
        return [
            *parts,
            *(words(kind) for kind in (AS_VALUES, APPROXIMATE, BY_WEIGHT) if kind in self.unusual),
        ]


def match_labels(labels: Labels, store: RowStore, partitions: Iterable[int]) -> Matches:
    """Look up label keys in some partitions of a library; keys are compared by hashes, or as structures.

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
    level = next((level for level in LEVELS if level == labels.key), None)
    structures = None if level is None else KnownStructures(labels.keys.to_pylist(), level)
    blocks = library_keys(labels.key, labels.table.kind, store, partitions, structures)
    return first_rows(labels.table.n_keys, ((rows, labels.table.find(keys)) for rows, keys in blocks))


def first_rows(n_keys: int, blocks: Iterable[tuple[np.ndarray, np.ndarray]]) -> Matches:
    """Return the matches in some rows of a library; `blocks` gives the rows and the numbers of their keys."""
    nowhere = np.iinfo(np.int64).max
    first, n_hits = np.full(n_keys, nowhere), 0
    for rows, number in blocks:
        hit = np.flatnonzero(number >= 0)
        np.minimum.at(first, number[hit], rows[hit])
        n_hits += len(hit)
    first[first == nowhere] = -1
    return Matches(first, n_hits)


def library_keys(
    key: str,
    kind: pa.DataType,
    store: RowStore,
    partitions: Iterable[int],
    structures: KnownStructures | None = None,
) -> Iterator[tuple[np.ndarray, pa.Array]]:
    """Yield the row numbers and keys of each partition; `structures` are those that are looked for."""
    column = "smiles" if key in BY_SMILES else key
    columns = ["row"] if column == "row" else ["row", column]
    for p in partitions:
        table = store.read_rows(p, columns)
        keys = table[columns[-1]].cast(kind).combine_chunks()
        if structures is not None:
            keys = pa.array(structures.same_as(keys.to_pylist()), kind)
        elif key == "inchikey":
            keys = pa.array(inchikeys(keys.to_pylist()), kind)
        yield table["row"].to_numpy(), keys


@dataclass(frozen=True)
class Attached:
    """Labels whose keys are in a library, in the order of its rows and, for one row, of the file.

    Attributes
    ----------
    row : int64 array, shape (n,)
    order : int64 array, shape (n,)
        Place of each of them among all labels.
    """

    row: np.ndarray
    order: np.ndarray

    @classmethod
    def of(cls, first_row: np.ndarray, index: np.ndarray) -> Attached:
        """Return the labels that have the keys `index` in order, of which `first_row` gives the row or -1."""
        row = first_row if len(first_row) == len(index) else first_row[index]
        order = np.argsort(row, kind="stable")[np.count_nonzero(row < 0) :]
        return cls(row[order], order)


@dataclass
class JoinCounts:
    """What is counted as labels are attached; those of labels with other keys can be added.

    Attributes
    ----------
    n_keys, n_hits, n_absent : int
        Keys that are in the library, rows with one of them, and keys that are not in the library.
    absent : list of (int, str)
        The first keys that are not in the library, each with the place of its first label in the file.
    times : Counter of int
        How often labels stand for a mean of a number of measurements.
    n_further : int
        As in `JoinedLabels`.
    equal_repeats : int
    """

    n_keys: int = 0
    n_hits: int = 0
    n_absent: int = 0
    absent: list[tuple[int, str]] = field(default_factory=list)
    times: Counter[int] = field(default_factory=Counter)
    n_further: int = 0
    equal_repeats: int = 0

    @classmethod
    def of(cls, matches: Matches, absent: list[tuple[int, str]]) -> JoinCounts:
        """Return the counts of some keys before labels are attached to the rows of their matches."""
        n_absent = int(np.count_nonzero(matches.first_row < 0))
        return cls(len(matches.first_row) - n_absent, matches.n_hits, n_absent, absent)

    def add(self, other: JoinCounts) -> None:
        """Add the counts of labels that have other keys."""
        self.n_keys += other.n_keys
        self.n_hits += other.n_hits
        self.n_absent += other.n_absent
        self.absent = sorted([*self.absent, *other.absent])[:_LABELS_COMPARED]
        self.times.update(other.times)
        self.n_further += other.n_further
        self.equal_repeats += other.equal_repeats

    def see(self, labels: RowLabels, times: np.ndarray | None) -> None:
        """Count the labels of some rows, all that these rows have."""
        if times is not None:
            means = times > 0
            self.n_further += len(times) - int(means.sum())
            numbers, counts = np.unique(times[means], return_counts=True)
            self.times.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))
            labels = labels[means]
        if (labels.row[1:] == labels.row[:-1]).any():
            self.equal_repeats += labels.n_equal

    @property
    def log_times(self) -> float:
        """The sum of the logarithms of the numbers of measurements."""
        return math.fsum(n * math.log(number) for number, n in sorted(self.times.items()))


def absent_keys(
    matches: Matches, places: np.ndarray, key_of: Callable[[np.ndarray], Sequence[object]]
) -> list[tuple[int, str]]:
    """Return the first keys without a match, each with its place in the file; see `JoinCounts`.

    `places` has the place of the first label with each key, ascending, and `key_of` returns keys by number.
    """
    absent = np.flatnonzero(matches.first_row < 0)[:_LABELS_COMPARED]
    return list(zip(places[absent].tolist(), map(str, key_of(absent)), strict=True))


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
    first_row, keys = matches.first_row, labels.table
    # The place of a label is only needed to sort the keys of several parts.
    counts = JoinCounts.of(matches, absent_keys(matches, np.arange(len(first_row)), keys.keys_of))
    elsewhere = check_matches(labels, store, counts)
    attached = Attached.of(first_row, labels.index)
    order = attached.order
    bound, side = (None if array is None else array[order] for array in (labels.bound, labels.side))
    rows = RowLabels(attached.row, labels.y[order], bound, side)
    counts.see(rows, None if labels.times is None else labels.times[order])
    del attached, order

    def words_of(row: int) -> str:
        return str(*keys.keys_of(np.flatnonzero(first_row == row)))

    return joined(labels, counts, rows, elsewhere, words_of)


def check_matches(file: LabelFile, store: RowStore, counts: JoinCounts) -> str:
    """Return a sentence on another level at which labels that are not in the library would match it, or "".

    Raises
    ------
    NoMatchError
        No label is in the library.
    """
    some = [key for _, key in counts.absent[: _SOME_COMPARED if counts.n_keys else _LABELS_COMPARED]]
    elsewhere = _other_level(some, counts.n_absent, file.key, store)
    if not counts.n_keys:
        way_out = elsewhere or "choose the key and its column, or another library"
        key = int(some[0]) if file.key == "row" else some[0]
        raise NoMatchError(
            f"none of the {len(file):,} labels of {file.path} is in {store.path}: there is no "
            f"{file.key} {key!r} in it; {way_out}"
        )
    return elsewhere


def joined(
    file: LabelFile,
    counts: JoinCounts,
    labels: RowLabels,
    elsewhere: str,
    words_of: Callable[[int], str] | None,
) -> JoinedLabels:
    """Return labels attached to rows, with all that is known of them.

    `words_of` returns the key of a row; without it, repeats are not judged, since they will be merged.
    """
    notes, row = file.notes, labels.row
    if words_of is not None and not file.means and len(row) > counts.n_keys:
        notes += notes_on_repeats(row, labels.y, file.names, lambda at: words_of(int(row[at])))
        if labels.bound is not None and labels.side is not None:
            notes += notes_on_limits(row, labels.bound, labels.side, file.names)
    return JoinedLabels(
        row=row,
        y=labels.y,
        names=file.names,
        matched=len(row),
        unmatched=len(file) - len(row),
        repeats=len(row) - counts.n_keys,
        equal_repeats=counts.equal_repeats if len(row) > counts.n_keys else 0,
        library_duplicates=counts.n_hits - counts.n_keys,
        dropped=file.dropped,
        unmatched_keys=tuple(key for _, key in counts.absent[:_SHOWN]),
        elsewhere=elsewhere,
        scales=file.scales,
        unusual=file.unusual,
        limits=file.limits,
        notes=notes,
        n_further=counts.n_further,
        log_times=counts.log_times,
        bound=labels.bound,
        side=labels.side,
        classes=file.classes,
    )


def _other_level(keys: list[str], n_absent: int, key: str, store: RowStore) -> str:
    """Return a sentence on the level at which some labels absent from a library would match it, or nothing.

    `keys` are the first of these labels. Files without coordinates, or with stereochemistry that was made up,
    are joined by skeletons alone.
    """
    if key not in ("smiles", *LEVELS) or not keys:
        return ""
    best, most = "", 0
    wider = LEVELS[LEVELS.index(key) + 1 :] if key in LEVELS else LEVELS
    for level in wider:
        names, library_names, p = same_names(keys, level), set[str | None](), 0
        structures = KnownStructures(names, level)
        while p < store.n_partitions and store.row_bounds[p] < _ROWS_COMPARED:
            library_names.update(structures.same_as(store.read_rows(p, ["smiles"])["smiles"].to_pylist()))
            p += 1
        if (n := sum(name in library_names for name in names)) > most:
            best, most = level, n
    if not best:
        return ""
    there = f"{len(keys):,}" if len(keys) == n_absent else f"first {len(keys):,}"
    return (
        f"{most:,} of the {there} would match {_WITHOUT[best]}: join by that with --key {best} (key={best!r})"
    )
