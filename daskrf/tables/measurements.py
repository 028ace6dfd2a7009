"""Measurements: labels of molecules, read from a table."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.arrays import GrowingArray
from daskrf.errors import InputError, NoLabelsError, printable
from daskrf.files.backend import as_path
from daskrf.molecules.extensions import GROUPS, clean_smiles, has_groups
from daskrf.molecules.radicals import Radicals, radicals_among, words_on_radicals
from daskrf.molecules.structures import LEVELS, canonical_smiles, inchikeys, parents, same_names
from daskrf.molecules.weights import molecular_weights
from daskrf.quantities import MISSING, amount, is_number, listed
from daskrf.tables.beside import columns_beside, is_limit, named, no_relation
from daskrf.tables.columns import (
    counts_rows,
    is_header,
    mostly_smiles,
    only_target,
    smiles_column,
    smiles_position,
)
from daskrf.tables.formats import (
    BATCH_ROWS,
    HEAD_ROWS,
    Column,
    Fault,
    Head,
    Purpose,
    Rows,
    Segment,
    Table,
    TableFormat,
    View,
    open_table,
    reader_of,
    whole,
)
from daskrf.tables.formats import EMPTY as EMPTY_LINE
from daskrf.tables.keytable import TEXT, KeyColumn, KeyTable, table_of
from daskrf.tables.library import file_words
from daskrf.tables.spool import Spool
from daskrf.tables.values.classes import ClassWords
from daskrf.tables.values.docking import known_score
from daskrf.tables.values.names import column_words, find_id, normalised, position_of
from daskrf.tables.values.notation import (
    CENSORED,
    DROPPED,
    EMPTY,
    HUGE,
    LOGARITHM,
    NO_LIMIT,
    NUMBER,
    OTHERWISE,
    RELATIONS,
    UNIT,
    WEIGHT,
    WORDS,
    Notation,
    is_value,
    side_of,
    sign_of,
)
from daskrf.tables.values.repeats import check_repeats, notes_on_suffixes
from daskrf.tables.values.suspicious import Suspicion, suspicions
from daskrf.tables.values.units import mass_unit, may_hold_mass
from daskrf.tables.values.values import (
    APPROXIMATE,
    AS_VALUES,
    BY_CELLS,
    BY_WEIGHT,
    LEFT_OUT,
    LOWER_LIMITS,
    UPPER_LIMITS,
    Limits,
    Scale,
    as_measured,
    is_concentration,
    limits_of,
    scales_of,
)

KEYS = {
    "id": "IDs",
    "smiles": "SMILES",
    "structure": "SMILES, joined by structure,",
    "parent": "SMILES, joined by structure without salts and charges,",
    "tautomer": "SMILES, joined by structure without salts and charges, in any tautomeric form,",
    "skeleton": "SMILES, joined by structure without salts, charges, stereochemistry and isotopes,",
    "inchikey": "InChIKeys",
    "row": "row numbers",
}
BY_SMILES = ("smiles", *LEVELS, "inchikey")
_INCHIKEY_NAMES = ("inchikey", "standardinchikey", "stdinchikey", "inchikeystandard")
_UNREAD = "that cannot be read"
CENSORED_AS = ("limit", "drop", "value")
LONGEST = 1 << 22  # bytes per line
_BESIDE_WORDS = {
    "relations": "marks censored values",
    "replicates": "gives the number of measurements that each is the mean of",
    "deviations": "gives their standard deviation",
    "errors": "gives the standard error of each mean",
}

_FEW_VALUES = 4  # different values that are named one by one


@dataclass(frozen=True, kw_only=True)
class LabelFile:
    """What is known of a table of labels once it is read, besides the labels.

    Attributes
    ----------
    names : tuple of str
        Names of the targets.
    key : {"id", "smiles", "structure", "parent", "tautomer", "skeleton", "inchikey", "row"}
        What the keys are.
    n_labels : int
        How many labels there are; one key may have several, each a separate measurement.
    read : int
        Number of rows in the file: ``n_labels + dropped``, if no row counts for several measurements.
    dropped : int
        Number of rows without any finite value.
    path : str
        Path of the file.
    scales : tuple of Scale
        What each target is.
    unusual : dict of str to (int, str)
        How many values were left out, by kind, or were censored and taken as they are, each with an example.
    limits : tuple of Limits
        Which labels of each target were left out because of their value.
    notes : tuple of str
        Labels that are probably wrong, and what else is unusual, a line each.
    means : bool
        Whether rows of the file were means, each of several labels here.
    classes : tuple of ClassWords or None
        For each target whose labels are two classes, which words stand for 1 and 0.
    has_limits : bool
        Whether some labels are limits.
    """

    names: tuple[str, ...]
    key: str
    n_labels: int
    read: int
    dropped: int
    path: str
    scales: tuple[Scale, ...] = ()
    unusual: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    limits: tuple[Limits, ...] = ()
    notes: tuple[str, ...] = ()
    means: bool = False
    classes: tuple[ClassWords | None, ...] = ()
    has_limits: bool = False

    def __len__(self) -> int:
        return self.n_labels

    @property
    def unread(self) -> tuple[int, str]:
        """Number of rows left out because they cannot be read, and a line that says so."""
        for kind, (n, example) in self.unusual.items():
            if kind.endswith(_UNREAD):
                return n, f"values left out: {n:,} {kind} (such as {printable(example, 120)})"
        return 0, ""


@dataclass(frozen=True, kw_only=True)
class Labels(LabelFile):
    """Labels as read, all in memory.

    Attributes
    ----------
    table : KeyTable
        The distinct keys: text, or int64 for rows.
    index : int32 or int64 array, shape (n_labels,)
        Number of each label's key.
    y : float64 array, shape (n_labels, n_targets)
        Finite, or NaN where a label with several targets lacks a value for one of them, or has a limit.
    times : int64 array, shape (n_labels,), or None
        For labels that stand for means without standard deviations: the number of measurements of each mean
        at the first of its labels, 0 at the others.
    lines : int64 array, shape (n_labels,), or None
        The line of each label in the file, if that was asked for.
    bound : float64 array, shape (n_labels, n_targets), or None
        Limits on the scale of the targets, NaN where there are none; None if there are none at all.
    side : int8 array, shape (n_labels, n_targets), or None
        1 where the true value is at least the limit, -1 where it is at most the limit, 0 without a limit.
    """

    table: KeyTable
    index: np.ndarray
    y: np.ndarray
    times: np.ndarray | None = None
    lines: np.ndarray | None = None
    bound: np.ndarray | None = None
    side: np.ndarray | None = None

    @property
    def keys(self) -> pa.Array:
        """The distinct keys, by number, all in memory."""
        return self.table.keys()

    def closed(self) -> Labels:
        """Return labels whose keys need not be found any more; they take less memory."""
        return replace(self, table=self.table.closed())


@dataclass(frozen=True)
class Reading:
    """How labels are read from a table.

    Parameters
    ----------
    key : {"id", "smiles", "structure", "parent", "tautomer", "skeleton", "inchikey", "row"}
        The key that joins labels to the library; see `daskrf.fit`.
    key_column : str or int, optional
        Column of the key, by name or by position from 0; by default found by its usual names (for IDs, those
        in `daskrf.tables.values.names`), else the first column.
    targets : sequence of str or int, optional
        Columns of the values; by default the only other numeric column.
    drop_non_numbers : bool
        Drop values that are missing, not finite or not numbers, and rows left without any; all are counted.
    censored : {"limit", "drop", "value"}, optional
        What to do with censored values, such as ">10000"; by default they are limits.
    transform, unit : str, or dict of str to str, optional
        See `daskrf.fit`.
    replicates, replicate_std, replicate_sem : str or int, optional
        Columns with the number of measurements averaged in each value, and with their standard deviation or
        the standard error of their mean; see `as_measured`.
    drop_outside, drop_value, accept_outliers
        See `daskrf.fit`.
    limits : sequence of Limits, optional
        Further labels to leave out, for each target.
    scales : sequence of Scale, optional
        Scales of the model's existing labels, one for each target; values are converted to their units.
    accept_rejects : bool
        Leave out rows that cannot be read, such as broken records of an SD file; they are counted.
    repeats : {"all", "best", "mean", "median"}
        Whether all labels of a molecule count, or one in their place; applied when labels are joined.
    best : str, or mapping of str to str, optional
        For "best": the direction of all targets, or of each by name.
    positive : str, or sequence of str
        Words of the positive class in columns that hold words; all others there mean the other class. Words
        whose meaning is known, such as active and inactive, need not be named.
    classes : bool
        Whether labels that are all 0 or 1 are classes; else they are numbers.
    existing_classes : sequence of ClassWords or None, optional
        For each target, the words of the model's existing labels, if it has classes.
    """

    key: str = "id"
    key_column: Column | None = None
    targets: Sequence[Column] | None = None
    drop_non_numbers: bool = False
    censored: str | None = None
    transform: str | Mapping[str, str] | None = None
    unit: str | Mapping[str, str] | None = None
    replicates: Column | None = None
    replicate_std: Column | None = None
    replicate_sem: Column | None = None
    drop_outside: str | tuple[float, float] | Mapping[str, Any] | None = None
    drop_value: float | Sequence[float] | Mapping[str, Any] | None = None
    accept_outliers: bool = False
    limits: Sequence[Limits] | None = None
    scales: Sequence[Scale] | None = None
    accept_rejects: bool = False
    repeats: str = "all"
    best: str | Mapping[str, str] | None = None
    positive: str | Sequence[str] = ()
    classes: bool = True
    existing_classes: Sequence[ClassWords | None] | None = None

    def __post_init__(self) -> None:
        words = (self.positive,) if isinstance(self.positive, str) else tuple(map(str, self.positive))
        object.__setattr__(self, "positive", words)
        if self.replicate_std is not None and self.replicate_sem is not None:
            raise InputError(
                "give the standard deviation of replicates or the standard error of their mean, not both"
            )
        if self.replicate_std is not None and self.replicates is None:
            raise InputError("the standard deviation of replicates needs their number; give replicates, too")
        if self.replicate_sem is not None and self.replicates is None:
            raise InputError(
                "the standard error of a mean needs the number of measurements; give replicates, too"
            )
        check_repeats(self.repeats)
        if self.repeats != "all" and self.replicates is not None:
            raise InputError(
                "with --replicates each row is the mean of several measurements, and all rows are "
                "used; leave out --repeats"
            )
        if self.key not in KEYS:
            raise InputError(f"labels are joined by {', '.join(KEYS)}, not by {self.key!r}")
        if self.censored not in (None, *CENSORED_AS):
            raise InputError(f"censored is one of {', '.join(CENSORED_AS)}, not {self.censored!r}")
        if self.targets is not None:
            targets = [self.targets] if isinstance(self.targets, str) else list(self.targets)
            object.__setattr__(self, "targets", targets)

    def drops(self, kind: int) -> bool:
        """Return whether values of a kind are left out instead of refused."""
        if kind == DROPPED:
            return True
        if kind in (CENSORED, NO_LIMIT):
            return kind == NO_LIMIT or self.censored == "drop"
        return self.drop_non_numbers

    @property
    def limits_count(self) -> bool:
        """Whether censored values are used as limits."""
        return self.censored in (None, "limit")


def read_labels(
    path: str | os.PathLike[str],
    reading: Reading | None = None,
    *,
    existing: npt.NDArray[np.float64] | None = None,
    lines: bool = False,
    **options: Any,
) -> Labels:
    """Read labels from a table in any format that libraries may have, plain or compressed.

    Parameters
    ----------
    path : path
    reading : Reading, optional
    existing : float array, shape (m, n_targets), optional
        Labels that the model already has for these targets; new labels are checked against them, too.
    lines : bool
        Keep the line of each label.
    **options
        Fields of a `Reading`, if none is given.

    Returns
    -------
    Labels

    Raises
    ------
    InputError
        If a column does not exist, a choice is ambiguous, or a value is not a finite number or cannot be
        right; the message gives file and line.

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
    source = open_labels(path, reading or Reading(**options))
    columns, tally = _Columns(source, lines=lines), Tally(source)
    for block in source.blocks(tally):
        columns.append(block)
    y = columns.y.finish()
    doubts = [
        source.doubts(
            t,
            values.finish(),
            _finite(y[:, t]),
            None if existing is None else existing[:, t],
            limits=tally.targets[t].farthest,
        )
        for t, values in enumerate(columns.values)
    ]
    file = source.described(tally, source.notes(doubts), has_scale=existing is not None)
    bound, side = columns.limits.finish(y.shape)
    table, index = _encoded(columns.keys.finish(), source.reading.key)
    more = source.notes_on_keys(source.keys_among(_texts(table)))
    return Labels(
        **vars(replace(file, notes=file.notes + more)),
        table=table,
        index=index,
        y=y,
        times=None if columns.times is None else columns.times.finish(),
        lines=None if columns.lines is None else columns.lines.finish(),
        bound=bound,
        side=side,
    )


def _texts(table: KeyTable) -> Iterator[str]:
    """Yield the distinct keys of a table."""
    return (text for keys in table.distinct() for text in keys.to_pylist())


def _notes_on_names(source: LabelTable) -> tuple[str, ...]:
    """Return a line if IDs look like those of poses or protomers, and all labels are used as they are."""
    id_column = find_id(source.names, source.head.values, title=source.head.title)
    if id_column is None or source.reading.repeats != "all" or "replicates" in source.more:
        return ()
    return notes_on_suffixes(source.head.values(id_column))


def label_words(path: str | os.PathLike[str], reading: Reading | None = None, **options: Any) -> str:
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
    source = open_labels(path, reading or Reading(**options))
    table, key = source.table, source.reading.key
    has_key = source.reading.key_column is not None or _find_key(source.head, source.names, key) is not None
    every = column_words(source.names, *range(len(source.names)))
    first = "" if has_key else f" (none of {every} is a usual name for {KEYS[key].partition(',')[0]})"
    text = f"target{'s' if len(source.targets) > 1 else ''} {column_words(table.names, *source.targets)}"
    scores = [known_score(source.names[k], source.names) for k in source.targets]
    text += "".join(f" ({score.words()})" for score in dict.fromkeys(scores) if score is not None)
    text += "".join(
        f", {words}" for words in dict.fromkeys(each.words() for each in source.notations) if words
    )
    for column, meaning in _BESIDE_WORDS.items():
        if column in source.more:
            text += f", {column_words(table.names, source.more[column])} {meaning}"
    text += "".join(f", {scale.words()}" for scale in source.scales if scale.worth_stating)
    for why in dict.fromkeys(source.unused.values()):
        places = [place for place, reason in source.unused.items() if reason == why]
        text += f"; {column_words(table.names, *places)} unused: {why}"
    what = KEYS[key]
    if key == "inchikey" and source.key_position != named(source.names, _INCHIKEY_NAMES, ()):
        what = "InChIKeys of the SMILES"
    where = f"{what} in {column_words(table.names, source.key_position)}{first}"
    return f"{file_words(path)}: {reader_of(table).words(table)}; {where}, {text}"


def read_column(
    path: str | os.PathLike[str], column: Column, reading: Reading | None = None, **options: Any
) -> tuple[Labels, list[str]]:
    """Return the keys of all rows as labels without values, and the text of another column in each row.

    Parameters
    ----------
    path : path
    column : str or int
        A name, or a position counted from 0.
    reading, **options : as for `read_labels`

    Raises
    ------
    InputError
        As `read_labels`, for the columns and keys.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "scores.csv")
    ...     _ = path.write_text("id,score,date\\nA,-7.5,2021\\nB,-8,2020\\nA,-1,2022\\n")
    ...     labels, dates = read_column(path, "date", targets=["score"])
    >>> labels.keys.to_pylist(), labels.index.tolist(), dates
    (['A', 'B'], [0, 1, 0], ['2021', '2020', '2022'])
    """
    source = open_labels(path, reading or Reading(**options))
    key, position = source.reading.key, position_of(source.path, column, source.names, len(source.names))
    keys, texts = _key_column(key), list[str]()
    lines: list[int] = []
    one = replace(source, targets=[position], more={})
    reject = Tally(source).reject
    for block in filter(None, (_block_of(one, rows, reject) for rows in _rows_of(one))):
        keys.append(_keys(source, block.lines, block.keys))
        texts += block.columns[0]
        lines += block.lines
    table, index = _encoded(keys.finish(), key)
    return Labels(
        table=table,
        index=index,
        y=np.empty((len(texts), 0)),
        names=(),
        key=key,
        n_labels=len(texts),
        read=len(texts),
        dropped=0,
        path=str(path),
        lines=np.array(lines, np.int64),
    ), texts


def keys_of(
    path: str | os.PathLike[str], key_column: Column | None = None
) -> tuple[tuple[str, Column | None], ...]:
    """Return the keys by which a table of labels may be joined, with their columns, in the order to try them.

    They are "id", if it has a column of IDs, or nothing else; and "structure", if it has SMILES.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "scores.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("name,molecule,score\\nm1,CCO,-7.5\\nm2,CCN,-8\\n")
    ...     keys_of(path), keys_of(path, "molecule"), keys_of(path, "name")
    ((('id', None), ('structure', 1)), (('structure', 'molecule'),), (('id', 'name'),))
    """
    path = as_path(path)
    head = label_table(path, "structure")
    names = head.names
    if key_column is not None:
        values = head.values(position_of(path, key_column, names, len(names)))
        return (("structure" if mostly_smiles(values) else "id", key_column),)
    try:
        structure = smiles_column(path, head)
    except InputError:
        return (("id", None),)
    id_column = _find_key(head, names, "id")
    by_structure = ("structure", structure)
    return (by_structure,) if id_column in (None, structure) else (("id", None), by_structure)


class CutRowError(Exception):
    """A row continues behind the end of a segment, as one with a quoted line break does."""


@dataclass(frozen=True)
class LabelTable:
    """A table of labels, and the columns to read from it.

    Attributes
    ----------
    path : Path
    table : Table
        How the file is read.
    names : tuple of str
        Names of the columns.
    reading : Reading
    key_position : int
    targets : list of int
        Positions of the targets.
    scales : tuple of Scale
    more : dict of str to int
        Positions of further columns: relations, flags, units, replicates and so on.
    notations : tuple of Notation
        How the numbers of each target are written.
    usual : tuple of str
        The unit of the values of each target that have none beside them; "" if unknown.
    limits : tuple of Limits
    unused : dict of int to str
        Why further columns are not used.
    first : Head or None
        The first rows; tasks that read other rows do without.
    """

    path: PurePath
    table: Table
    names: tuple[str, ...]
    reading: Reading
    key_position: int
    targets: list[int]
    scales: tuple[Scale, ...]
    more: Mapping[str, int]
    notations: tuple[Notation, ...]
    usual: tuple[str, ...]
    limits: tuple[Limits, ...] = ()
    unused: Mapping[int, str] = field(default_factory=dict)
    first: Head | None = None

    @property
    def head(self) -> Head:
        """The first rows."""
        assert self.first is not None
        return self.first

    def carried(self) -> LabelTable:
        """Return the table as tasks carry it: without its first rows."""
        return replace(self, first=None)

    @property
    def has_times(self) -> bool:
        """Whether rows are means of several measurements."""
        return "replicates" in self.more

    @property
    def judges_others(self) -> bool:
        """Whether other values are judged than the labels: means, or only those that are no limits."""
        return self.has_times or self.reading.censored == "value"

    @property
    def gives_times(self) -> bool:
        """Whether labels have the numbers of measurements of the means that they stand for."""
        return self.has_times and not {"deviations", "errors"} & set(self.more)

    def place(self, line: int) -> str:
        """Return the name of a row for messages."""
        return f"{self.path}, {self.place_in(line)}"

    def place_in(self, line: int) -> str:
        """Return the name of a row without that of the file."""
        return reader_of(self.table).place(self.path, self.table, line)

    def blocks(
        self,
        tally: Tally,
        segment: Segment | None = None,
        spool: Spool | None = None,
        *,
        is_last: bool = True,
    ) -> Iterator[LabelBlock]:
        """Yield the labels of all rows, or of a segment, in the order of the file.

        `tally` counts what is left out. A value that may not be left out raises an `InputError`.

        Raises
        ------
        CutRowError
            If a row continues behind the end of a segment that is not the last one.
        """
        for rows in _rows_of(self, segment, spool):
            if rows.unfinished and not is_last:
                raise CutRowError
            if (block := _block_of(self, rows, tally.reject)) is not None:
                yield _labels_of(self, block, tally)

    def doubts(
        self,
        t: int,
        values: SeenValues,
        y: npt.NDArray[np.float64],
        existing: np.ndarray | None = None,
        *,
        limits: Sequence[FarLimit] = (),
    ) -> Doubts:
        """Return which labels of target `t` are probably wrong, judged by all of them.

        `y` has its finite labels, in the order of the file, unless `values` have them; `existing` has those
        that the model has already. `limits` are the farthest ones on either side.
        """
        return _doubts(self, t, values, y, existing, limits)

    def notes(self, doubts: Sequence[Doubts]) -> tuple[str, ...]:
        """Return a line on each group of labels that are probably wrong, and on IDs like those of poses.

        Raises
        ------
        InputError
            If some labels cannot be right.
        """
        return (*_notes_on_values(self, doubts), *_notes_on_names(self))

    def keys_among(self, keys: Iterable[str]) -> MarkedKeys:
        """Return what is worth telling of some distinct keys, in the order in which they first appear."""
        key = self.reading.key
        if key not in BY_SMILES or key == "inchikey":
            return MarkedKeys(0, Radicals(0, 0, -1, ""))
        n_groups = 0

        def counted() -> Iterator[str]:
            nonlocal n_groups
            for text in keys:
                n_groups += key != "skeleton" and has_groups(text)
                yield text

        radicals = radicals_among(counted())
        return MarkedKeys(n_groups, radicals)

    def notes_on_keys(self, keys: MarkedKeys) -> tuple[str, ...]:
        """Return a line on molecules with enhanced stereo groups among the keys, and one on radicals."""
        molecules = amount(keys.n_groups, "molecules")
        groups = f"{molecules} {GROUPS} among the labels, each distinct from either enantiomer"
        radicals = words_on_radicals(keys.radicals, f"of {keys.radicals.n_molecules:,} with labels")
        return (*([groups] if keys.n_groups else []), *([radicals] if radicals else []))

    def described(self, tally: Tally, notes: tuple[str, ...] = (), *, has_scale: bool = False) -> LabelFile:
        """Return what is known of the file once all its labels are read.

        `has_scale` is whether other labels fix the scale of the targets, so that these may all be limits.

        Raises
        ------
        InputError
            If there are none, or none of one target, or only limits.
        """
        path, dropped = self.path, tally.n_read - tally.n_rows
        if not tally.n_rows:
            raise NoLabelsError(
                f"{path} has no labels left: none of its {dropped:,} rows holds a finite number"
            )
        names = tuple(scale.name for scale in self.scales)
        for name, target in zip(names, tally.targets, strict=True):
            if target.n_limits and not target.is_measured and not has_scale:
                raise InputError(
                    f"{path}: all {target.n_limits:,} labels of {name} are limits, such as "
                    f"{target.first_limit}, which do not fix a scale; give some measured values, too"
                )
            if not target.n_limits and not target.is_measured:
                raise InputError(
                    f"{path} has no labels of {name} left: none of its values is a finite number"
                )
        return LabelFile(
            names=names,
            key=self.reading.key,
            n_labels=tally.n_labels,
            read=tally.n_read,
            dropped=dropped,
            path=str(path),
            scales=self.scales,
            unusual=tally.counts,
            limits=self.limits,
            notes=notes,
            means=self.has_times,
            classes=self._classes(tally),
            has_limits=any(target.n_limits for target in tally.targets),
        )

    def _classes(self, tally: Tally) -> tuple[ClassWords | None, ...]:
        """Return the words of each target whose labels are two classes, and none of them a limit."""
        classes: list[ClassWords | None] = []
        for notation, scale, target in zip(self.notations, self.scales, tally.targets, strict=True):
            words = notation.classes
            if words is None and not scale.transform and not target.n_limits and target.are_classes:
                words = ClassWords()
            classes.append(words if self.reading.classes else None)
        return tuple(classes)


def label_table(path: str | os.PathLike[str], key: str = "id") -> Head:
    """Return the layout of a file of labels that are joined by `key`.

    Raises
    ------
    InputError
        If the file cannot be read, or is damaged, empty or not a table.

    Notes
    -----
    The header is found by `daskrf.tables.columns.is_header`, as that of libraries. If the delimiter
    suggested by the file extension does not cut all of the first lines into the same number of columns, at
    least two, the delimiter is the one of tab, semicolon, comma and white space that gives the most columns.
    Commas between digits give way to tabs and semicolons.
    """
    path = as_path(path)
    head = open_table(path, _purpose(key))
    if not head.n_rows:
        what = "has a header but no rows" if head.table.names else "is empty"
        raise NoLabelsError(f"the label file {path} {what}")
    return head


def _purpose(key: str, *, accepts: bool = False) -> Purpose:
    return Purpose(
        fit=_columns_of_all,
        is_header=is_header,
        fmt=TableFormat(),
        longest=LONGEST,
        strict=True,
        extensions=key in BY_SMILES,
        accepts=accepts,
    )


def _columns_of_all(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of columns that all rows share; 0 if they differ or there is only one."""
    widths = set(map(len, rows))
    return 0 if len(widths) != 1 or widths == {1} else widths.pop()


def open_labels(path: str | os.PathLike[str], reading: Reading) -> LabelTable:
    """Return a table of labels with the positions of the columns that are read.

    Raises
    ------
    InputError
        As `read_labels`, for the columns.
    """
    key, path = reading.key, as_path(path)
    head = label_table(path, key)
    names = head.names

    def position(column: Column) -> int:
        return position_of(path, column, names, len(names))

    positions = [position(target) for target in reading.targets or ()]
    at = _key_position(head, key, positions) if reading.key_column is None else position(reading.key_column)
    replicate_columns = {"replicates": reading.replicates, "deviations": reading.replicate_std}
    replicate_columns["errors"] = reading.replicate_sem
    more = {what: position(column) for what, column in replicate_columns.items() if column is not None}
    if reading.targets is None:
        positions = [only_target(path, head, (at, *more.values()))]
        _refuse_late_numbers(path, head, key, [at, *more.values(), *positions])
    taken = (at, *more.values())
    if not positions or len({*positions, *taken}) < len(positions) + len(taken):
        raise InputError(
            f"the targets of {path} must be distinct columns other than the key ({names[at]}); its columns "
            f"are {listed(names)}"
        )
    _check_names(path, [names[position] for position in positions])
    if more and len(positions) > 1:
        raise InputError(
            f"{path} has several targets, and it is unclear which of them the replicates are of."
        )
    beside, unused = columns_beside(path, head, positions, taken)
    more |= beside
    notations = _notations(path, head, at, positions, reading)
    scales = scales_of(
        [names[position] for position in positions],
        reading.transform,
        reading.unit,
        (names[more["units"]], head.values(more["units"])) if "units" in more else None,
        [notation.unit for notation in notations],
    )
    usual = _usual_units(scales, reading, names)
    if reading.scales is not None:
        scales = tuple(_in_unit_of(path, new, old) for new, old in zip(scales, reading.scales, strict=True))
    if (smiles := _structures(path, head, positions, scales, usual)) not in (None, at):
        more["smiles"] = smiles
    limits = limits_of(scales, reading.drop_outside, reading.drop_value)
    if reading.limits is not None:
        limits = tuple(new | old for new, old in zip(limits, reading.limits, strict=True))
    return LabelTable(
        path=path,
        table=head.table,
        first=head,
        names=names,
        reading=reading,
        key_position=at,
        targets=positions,
        scales=scales,
        more=more,
        notations=notations,
        usual=usual,
        limits=limits,
        unused=unused,
    )


def _structures(
    path: PurePath, head: Head, targets: Sequence[int], scales: Sequence[Scale], usual: Sequence[str]
) -> int | None:
    """Return the column of SMILES, if molecular weights may have to turn mass per volume into amounts.

    Raises
    ------
    InputError
        If they are needed and there is none.
    """
    places = [k for k, scale in zip(targets, scales, strict=True) if scale.is_molar]
    weighed = (
        scale
        for scale, unit in zip(scales, usual, strict=True)
        if scale.is_molar and mass_unit(unit) is not None
    )
    one, smiles = next(weighed, None), smiles_position(head)
    if one is not None and smiles is None:
        raise InputError(
            f"{path}: '{printable(one.column, 60)}' is in mass per volume, and becomes molar by the "
            "molecular weight of each molecule; add a column of SMILES, or convert the values"
        )
    if not places:
        return None
    with_units = [k for k, name in enumerate(head.names) if scales[0].units and name == scales[0].units]
    cells = (text for k in (*places, *with_units) for text in head.values(k))
    return smiles if one is not None or any(map(may_hold_mass, cells)) else None


def _usual_units(scales: Sequence[Scale], reading: Reading, names: Sequence[str]) -> tuple[str, ...]:
    """Return the unit of the values of each target that have none beside them; "" if unknown."""
    requested = reading.unit if isinstance(reading.unit, Mapping) else dict.fromkeys(names, reading.unit)
    return tuple(
        "" if (scale.units and not requested.get(scale.column)) or scale.found == BY_CELLS else scale.unit
        for scale in scales
    )


def _refuse_late_numbers(path: PurePath, head: Head, key: str, used: Sequence[int]) -> None:
    """Refuse the target found, the last of the columns `used`, if another may be meant.

    That is a column that is empty in the first rows and has numbers below them.
    """
    names = head.names if head.table.names and head.n_rows >= HEAD_ROWS else ()
    others = [k for k, name in enumerate(names) if name and k not in used]
    empty = [k for k in others if not any(map(str.strip, head.values(k)))]
    if not empty:
        return
    view = View(path, head.table, empty, _purpose(key, accepts=True))
    for rows in reader_of(head.table).read(view, [whole(head.table)]):
        for k, texts in zip(empty, rows.columns, strict=True):
            if any(text and is_number(text) for text in texts):
                raise InputError(
                    f"{path}: the target may be '{names[used[-1]]}' or '{names[k]}', which is empty in the "
                    f"first {head.n_rows:,} rows but has numbers further down; name the target columns (its "
                    f"columns are {listed(names)})"
                )


def _key_position(head: Head, key: str, targets: Sequence[int]) -> int:
    """Return the column of the key: found by its name or content, or else the first that is no target."""
    if (position := _find_key(head, head.names, key)) is not None:
        return position
    free = [k for k in range(len(head.names)) if k not in targets]
    return next((k for k in free if not (key == "id" and counts_rows(head, k))), free[0] if free else 0)


def _in_unit_of(path: PurePath, new: Scale, old: Scale) -> Scale:
    """Return a scale of the file in the unit of labels that there are already."""
    try:
        return new.to(old)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _check_names(path: PurePath, targets: Sequence[str]) -> None:
    """Refuse targets whose standard deviations, std_NAME and std_y_NAME, would share a column name."""
    if alike := next((name for name in sorted(targets) if f"y_{name}" in targets), None):
        raise InputError(
            f"the standard deviations of the targets '{alike}' and 'y_{alike}' of {path} would have the same "
            "column name; rename one of them"
        )


def _notations(
    path: PurePath, head: Head, key: int, targets: Sequence[int], reading: Reading
) -> tuple[Notation, ...]:
    """Return how the labels of each target are written in the first 10,000 rows.

    Raises
    ------
    InputError
        If a column holds words alone and it is not known which are positive, or none holds a word that the
        user named.
    """
    # RDKit need not read the structures of an SD file for it. In text, SMILES must come first.
    first = [] if key == head.structure else [key]
    view = View(path, head.table, [*first, *targets], _purpose("smiles", accepts=True))
    rows = next(reader_of(head.table).read(view, [whole(head.table, BATCH_ROWS)]), None)
    columns = [[]] * len(targets) if rows is None else rows.columns[len(first) :]
    existing = reading.existing_classes or [None] * len(targets)
    notations, unused = [], {text.strip().lower(): text for text in reading.positive}
    for target, texts, words in zip(targets, columns, existing, strict=True):
        there = [text.strip() for text in texts if text and text.strip().lower() not in MISSING]
        where = f"the column {column_words(head.names, target)} of {path}"
        if words is not None and there and all(words.value(text) is not None for text in there):
            notations.append(Notation(classes=words))
            continue
        options: dict[str, Any] = {"semicolons": head.table.delimiter == ";", "positive": reading.positive}
        notation = Notation.of(there, where, **options)
        if notation.classes is None and there and not any(is_number(t) or is_value(t) for t in there):
            ClassWords.ask(there, where, reading.positive)
        notations.append(notation)
        for text in [] if notation.classes is None else notation.classes.positive:
            unused.pop(text.lower(), None)
    if unused:
        raise InputError(
            f"the label columns of {path} do not hold the word {next(iter(unused.values()))!r}, which "
            "--positive names; write it as in the file"
        )
    return tuple(notations)


def _find_key(head: Head, names: tuple[str, ...], key: str) -> int | None:
    """Return the position of the key column found by its usual names, or None."""
    if key == "id":
        return find_id(names, head.values, title=head.title)
    if key == "inchikey" and (place := named(names, _INCHIKEY_NAMES, ())) is not None:
        return place
    if key in BY_SMILES:
        return smiles_position(head)
    return next((k for k, name in enumerate(names) if normalised(name) == "row"), None)


@dataclass(frozen=True)
class Seen:
    """Labels of one target in some rows, as they are judged: those that are left out are not there.

    Attributes
    ----------
    lines : int64 array, shape (n,)
    values : float64 array, shape (n,), or None
        As read; None if they are the labels.
    y : float64 array, shape (n,)
        On their scale.
    """

    lines: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64] | None
    y: npt.NDArray[np.float64]


@dataclass(frozen=True)
class LabelBlock:
    """Labels of some consecutive rows of a table.

    Attributes
    ----------
    keys : pyarrow.Array
    y : float64 array, shape (n, n_targets)
        Values and limits; NaN where there is neither.
    side : int8 array, shape (n, n_targets)
        0 for values, else as in `Labels`.
    lines : int64 array, shape (n,)
    times : int64 array, shape (n,), or None
        As in `Labels`.
    seen : list of Seen
        By target.
    """

    keys: pa.Array
    y: npt.NDArray[np.float64]
    side: npt.NDArray[np.int8]
    lines: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64] | None
    seen: list[Seen]


@dataclass(frozen=True)
class MarkedKeys:
    """Keys with enhanced stereo groups and radicals, among some distinct keys that are SMILES."""

    n_groups: int
    radicals: Radicals


class SeenValues:
    """Labels of a target as they are judged, in the order of the file.

    With `alone`, they are kept even where they are the labels themselves, which the reader keeps.
    """

    def __init__(self, source: LabelTable, t: int, *, alone: bool = False) -> None:
        self.lines = _Lines()
        self._values = GrowingArray(np.float64) if source.scales[t].transform else None
        self._y = GrowingArray(np.float64) if alone or source.judges_others else None
        self.values: npt.NDArray[np.float64] | None = None
        self.y: npt.NDArray[np.float64] | None = None

    def append(self, seen: Seen) -> None:
        """Add some labels."""
        self.lines.append(seen.lines)
        for column, values in ((self._values, seen.values), (self._y, seen.y)):
            if column is not None and values is not None:
                column.append(values)

    def finish(self) -> SeenValues:
        """Return the values with their arrays in place, without room for more."""
        self.values = None if self._values is None else self._values.finish()
        self.y = None if self._y is None else self._y.finish()
        return self


class _LimitCells:
    """The limits among labels, of which there may be none."""

    def __init__(self) -> None:
        self._place, self._bound = GrowingArray(np.int64), GrowingArray(np.float64)
        self._side, self._n = GrowingArray(np.int8), 0

    def append(self, y: np.ndarray, side: np.ndarray) -> None:
        """Add the limits among some labels."""
        places = np.flatnonzero(side.ravel())
        self._place.append(self._n + places)
        self._n += side.size
        self._bound.append(y.ravel()[places])
        self._side.append(side.ravel()[places])

    def finish(self, shape: tuple[int, ...]) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return limits and sides of all labels; None if there are no limits."""
        place = self._place.finish()
        if not len(place):
            return None, None
        bound, side = np.full(shape, np.nan), np.zeros(shape, np.int8)
        bound.flat[place], side.flat[place] = self._bound.finish(), self._side.finish()
        return bound, side


class _Columns:
    """What is read of all labels: keys, values, limits, lines if asked for, and numbers of measurements."""

    def __init__(self, source: LabelTable, *, lines: bool) -> None:
        self.keys = _key_column(source.reading.key)
        self.y, self.limits = GrowingArray(np.float64, len(source.targets)), _LimitCells()
        self.lines = GrowingArray(np.int64) if lines else None
        self.times = GrowingArray(np.int64) if source.gives_times else None
        self.values = [SeenValues(source, t) for t in range(len(source.targets))]

    def append(self, block: LabelBlock) -> None:
        """Add some labels."""
        self.keys.append(block.keys)
        self.limits.append(block.y, block.side)
        self.y.append(np.where(block.side == 0, block.y, np.nan))
        if self.lines is not None:
            self.lines.append(block.lines)
        if self.times is not None and block.times is not None:
            self.times.append(block.times)
        for values, seen in zip(self.values, block.seen, strict=True):
            values.append(seen)


def _labels_of(source: LabelTable, block: _Block, tally: Tally) -> LabelBlock:
    """Return the labels of a block of rows."""
    _check_flags(source, block)
    shape, lines = (len(block.lines), len(block.columns)), np.asarray(block.lines, np.int64)
    y, kinds, side = np.empty(shape), np.empty(shape, np.uint8), np.zeros(shape, np.int8)
    seen, read = [], np.empty(shape)
    for t, (texts, scale) in enumerate(zip(block.columns, source.scales, strict=True)):
        texts = _with_relations(source, block, texts)
        values, kinds[:, t], beside = source.notations[t].read(texts)
        units = _units(scale, source.usual[t], len(texts), block.more.get("units"), beside)
        molar, units = _by_weight(source, block, t, values=values, units=units, kinds=kinds, tally=tally)
        y[:, t], lost = scale.apply(molar, units)
        values = read[:, t] = values if scale.is_weighed else scale.in_its_unit(molar, units)
        kinds[lost != NUMBER, t] = lost[lost != NUMBER]
        huge = np.where(lost == HUGE, np.copysign(math.inf, -values if scale.is_p else values), y[:, t])
        kinds[source.limits[t].drops(huge, values), t] = DROPPED
        measured = kinds[:, t] == NUMBER
        if source.reading.limits_count and (kinds[:, t] == CENSORED).any():
            side[:, t] = _sides(texts, kinds[:, t], scale)
            measured |= (kinds[:, t] == CENSORED) & (side[:, t] == 0)
        there = measured & np.isfinite(y[:, t])
        as_read = values[there] if scale.transform else None
        seen.append(Seen(lines[there], as_read, y[there, t]))
    left = tally.count(block, kinds, side)
    _check_means(source, block, side)
    y[left] = np.nan
    some = ~left.all(axis=1)
    keys = _keys(source, block.lines, block.keys).filter(pa.array(some))
    y, side = y[some], side[some]
    index, times, n_rows = np.arange(len(keys)), None, len(keys)
    if source.has_times:
        index, values = _measured(source, block, y[:, 0], np.flatnonzero(some))
        keys, y, side = keys.take(pa.array(index)), values[:, None], side[index]
        counts = np.bincount(index)
        times = np.zeros(len(index), np.int64)
        times[np.cumsum(counts) - counts] = counts
    tally.n_read, tally.n_rows = tally.n_read + len(block.lines), tally.n_rows + n_rows
    tally.see(y, side)
    tally.see_limits(y, side, read[some][index], lines[some][index])
    return LabelBlock(keys, y, side, lines[some][index], times if source.gives_times else None, seen)


def _by_weight(
    source: LabelTable,
    block: _Block,
    t: int,
    *,
    values: npt.NDArray[np.float64],
    units: Sequence[str] | None,
    kinds: npt.NDArray[np.uint8],
    tally: Tally,
) -> tuple[npt.NDArray[np.float64], Sequence[str] | None]:
    """Return values and units with mass per volume in mol/L; marks and counts what it finds."""
    scale = source.scales[t]
    grams = scale.masses(len(values), units)
    texts = block.more.get("smiles", block.keys if source.reading.key in BY_SMILES else None)
    if grams is None or texts is None:
        return values, units
    rows = np.flatnonzero(np.isfinite(grams) & np.isfinite(values))
    if not len(rows):
        return values, units
    weights = molecular_weights([texts[row].strip() for row in rows.tolist()])
    molar, names = values.copy(), list(units or [scale.unit] * len(values))
    molar[rows] = values[rows] * grams[rows] / weights
    cell, unit = block.columns[t][rows[0]].strip(), names[rows[0]].strip()
    for row in rows.tolist():
        names[row] = "M"
    kinds[rows[np.isnan(weights)], t] = WEIGHT
    tally.count_weighed(int(np.isfinite(weights).sum()), cell if unit in cell else f"{cell} {unit}")
    return molar, names


def _sides(texts: Sequence[str], kinds: np.ndarray, scale: Scale) -> npt.NDArray[np.int8]:
    """Return the side of each limit on the scale of the target, where a large concentration is small."""
    side = np.zeros(len(texts), np.int8)
    places = np.flatnonzero(kinds == CENSORED)
    side[places] = [side_of(texts[k]) for k in places.tolist()]
    return -side if scale.is_p else side


def _check_means(source: LabelTable, block: _Block, side: npt.NDArray[np.int8]) -> None:
    """Refuse limits among means: it is not known which of their measurements are limits."""
    if "replicates" in source.more and side.any():
        line = block.lines[int(np.flatnonzero(side.any(axis=1))[0])]
        raise InputError(
            f"{source.place(line)} holds a limit, and with --replicates each row is a mean of measurements; "
            "leave limits out with --censored drop, or leave out --replicates"
        )


def _measured(
    source: LabelTable, block: _Block, means: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of each measurement, and measurements in the place of their means."""

    def column(what: str, least: float) -> np.ndarray:
        texts = [block.more[what][row].strip() for row in rows.tolist()]
        values, kinds, _ = Notation(source.notations[0].decimal).read(texts)
        bad = (kinds != NUMBER) | (values < least) | ((values % 1 != 0) if what == "replicates" else False)
        if what != "replicates":
            bad &= ~((kinds == EMPTY) & (times == 1))  # one measurement has none
        if bad.any():
            at = int(np.argmax(bad))
            name, how = source.names[source.more[what]], "a whole number of at least 1"
            how = {"deviations": "a standard deviation", "errors": "a standard error"}.get(what, how)
            place = source.place(block.lines[int(rows[at])])
            raise InputError(f"{place}: '{printable(name, 60)}' holds {texts[at]!r}, not {how}; correct it")
        return np.nan_to_num(values)

    times = column("replicates", 1.0)
    std = column("deviations", 0.0) if "deviations" in source.more else np.zeros(len(times))
    if "errors" in source.more:
        std = column("errors", 0.0) * np.sqrt(times)
    return as_measured(means, times.astype(np.int64), std)


class _Lines:
    """Ascending line numbers, kept as runs of consecutive ones."""

    def __init__(self) -> None:
        self._n, self._runs = 0, GrowingArray(np.int64, 2)  # position and line of the first of each run

    def append(self, lines: npt.NDArray[np.int64]) -> None:
        """Add some lines."""
        first = np.flatnonzero(np.diff(lines, prepend=-2) != 1)
        self._runs.append(np.column_stack([self._n + first, lines[first]]))
        self._n += len(lines)

    def at(self, position: int) -> int:
        """Return the line at a position."""
        runs = self._runs.values
        place, line = runs[int(np.searchsorted(runs[:, 0], position, side="right")) - 1].tolist()
        return int(line + position - place)


@dataclass(frozen=True)
class Doubts:
    """Labels of one target that are probably wrong: what they are, and the option to leave them out."""

    wrong: list[tuple[str, str]]
    doubtful: list[tuple[str, str]]


def _doubts(
    source: LabelTable,
    t: int,
    seen: SeenValues,
    y: np.ndarray,
    existing: np.ndarray | None,
    limits: Sequence[FarLimit],
) -> Doubts:
    """Return `LabelTable.doubts`."""
    scale, doubts = source.scales[t], Doubts([], [])
    y = y if seen.y is None else seen.y
    if not len(y):
        return doubts
    values = y if seen.values is None else seen.values
    others = np.empty(0) if existing is None else existing[np.isfinite(existing)]
    wide = not scale.transform and is_concentration(scale.column, scale.unit)
    every = np.concatenate([y, others]) if len(others) else y
    groups = suspicions(every, wide=wide)
    for limit in limits:
        if (doubt := _words_on_limit(source, t, limit, every, groups)) is not None:
            doubts.doubtful.append(doubt)
    if not groups:
        return doubts
    clean = np.ones(len(y), bool)
    for each in groups:
        clean[each.members[each.members < len(y)]] = each.kind in ("spike", "limit")
    name = printable(source.names[source.targets[t]], 60)
    prefix = f"{name}=" if len(source.targets) > 1 else ""
    for each in groups:
        members = each.members[each.members < len(y)]
        if len(members):
            place = source.place_in(seen.lines.at(int(members[0])))
            line = f"{place}: {values[members[0]]:g}"
            words = _suspicion_words(each.kind, values[members], values[clean], line)
            option = _leaving_out(values[members], values[clean], prefix)
            usual = source.usual[t]
            unit = f", in {scale.unit or 'mol/L'}," if scale.units or scale.unit != usual else ""
            text = f"{len(members):,} of {len(y):,} labels of '{name}'{unit} {words}"
            (doubts.wrong if each.certain else doubts.doubtful).append((text, option))
    return doubts


def _words_on_limit(
    source: LabelTable, t: int, limit: FarLimit, y: np.ndarray, groups: Sequence[Suspicion]
) -> tuple[str, str] | None:
    """Return what is suspicious about a limit, and the option to leave it out; None if nothing is.

    It is judged as a measured value would be, by those that are not suspicious themselves.
    """
    clean = np.ones(len(y), bool)
    for each in groups:
        clean[each.members] = each.kind in ("spike", "limit")
    usual = y[clean]
    if not len(usual) or (limit.y <= usual.max() if limit.side > 0 else limit.y >= usual.min()):
        return None
    scale = source.scales[t]
    wide = not scale.transform and is_concentration(scale.column, scale.unit)
    judged = suspicions(np.append(usual, limit.y), wide=wide)
    if not any(each.kind in ("far", "beyond") and len(usual) in each.members for each in judged):
        return None
    name = printable(source.names[source.targets[t]], 60)
    sign = ">" if (limit.side > 0) != scale.is_p else "<"
    unit = f" {scale.unit}" if scale.unit else ""
    turned = ">" if limit.side > 0 else "<"
    on_scale = f", {turned} {limit.y:.6g} as {scale.name}," if scale.transform else ""
    option = _leaving_out(np.array([limit.value]), usual, f"{name}=" if len(source.targets) > 1 else "")
    where = source.place_in(limit.line)
    return (
        f"the limit {sign} {repr(limit.value).removesuffix('.0')}{unit} of '{name}' ({where}){on_scale} lies "
        f"far beyond all measured values ({usual.min():.6g} to {usual.max():.6g}) and draws predictions there"
    ), option


def _notes_on_values(source: LabelTable, doubts: Sequence[Doubts]) -> tuple[str, ...]:
    """Return a line on each group of labels that are probably wrong; refuse impossible ones."""
    wrong = [each for target in doubts for each in target.wrong]
    doubtful = [each for target in doubts for each in target.doubtful]
    if wrong and not source.reading.accept_outliers:
        raise InputError(
            f"{source.path}: {'; '.join(text for text, _ in wrong)}. Leave them out with "
            f"{' '.join(dict.fromkeys(option for _, option in wrong))}, or keep them with "
            "--accept-outliers (accept_outliers=True)"
        )
    return tuple(
        f"{text}; {option} leaves {'it' if text.startswith('the limit ') else 'them'} out"
        for text, option in [*wrong, *doubtful]
    )


def _finite(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the finite values, without a copy if all are."""
    there = np.isfinite(values)
    return values if there.all() else values[there]


def _suspicion_words(kind: str, values: np.ndarray, clean: np.ndarray, example: str) -> str:
    """Return what is suspicious about some labels, compared with the clean ones, and an example."""
    low, high = float(values.min()), float(values.max())
    which = f"are exactly {low:g}" if low == high else f"are from {low:g} to {high:g}"
    most = np.quantile(clean, [0.05, 0.95]) if len(clean) else values[:2]
    others = f"{clean.min():g} to {clean.max():g}" if len(clean) else "those of the model"
    side = "smallest" if not len(clean) or low <= clean.min() else "largest"
    how = {
        "far": f"far from all others ({others})",
        "spike": "far more than at any nearby value",
        "sign": f"opposite in sign to nearly all others ({most[0]:g} to {most[-1]:g})",
        "limit": f"the {side} value and perhaps a limit of detection, but taken as measured",
        "beyond": f"far beyond the usual range ({most[0]:g} to {most[-1]:g})",
    }[kind]
    return f"{which}, {how}, such as {example}"


def _leaving_out(values: np.ndarray, clean: np.ndarray, prefix: str) -> str:
    """Return the option that leaves out some labels, and keeps those that are not suspicious."""
    distinct = np.unique(values)
    if len(distinct) > _FEW_VALUES and len(clean):
        low, high = (f"{float(end)!r}".removesuffix(".0") for end in (clean.min(), clean.max()))
        return f"--drop-outside {prefix}{low}:{high}"
    return " ".join(f"--drop-value {prefix}{float(v)!r}".removesuffix(".0") for v in distinct)


@dataclass(frozen=True)
class FarLimit:
    """The limit of a target that lies farthest on its side.

    Attributes
    ----------
    side : int
        1 for a lower limit, -1 for an upper one.
    y, value : float
        On the scale of the target, and as read.
    line : int
    """

    side: int
    y: float
    value: float
    line: int

    def farther(self, other: FarLimit | None) -> FarLimit:
        """Return this limit, or one that lies farther; of equal ones, `other`, which came first."""
        return self if other is None or self.side * self.y > self.side * other.y else other


@dataclass
class TargetTally:
    """What is counted of the labels of one target.

    Attributes
    ----------
    zeros, ones, others : bool
        Whether there are measured values 0, 1, and others.
    n_limits : int
    first_limit : str
        In words.
    lowest, highest : FarLimit or None
        The upper limit that lies lowest, and the lower limit that lies highest.
    """

    zeros: bool = False
    ones: bool = False
    others: bool = False
    n_limits: int = 0
    first_limit: str = ""
    lowest: FarLimit | None = None
    highest: FarLimit | None = None

    @property
    def farthest(self) -> tuple[FarLimit, ...]:
        """The limits that lie farthest on either side."""
        return tuple(limit for limit in (self.lowest, self.highest) if limit is not None)

    def state(self) -> dict[str, Any]:
        """Return the counts as a dict for JSON; without limits there is nothing of them."""
        far = {name: getattr(self, name) for name in ("lowest", "highest")}
        counts = {name: value for name, value in vars(self).items() if name not in far}
        return counts | {name: vars(limit) for name, limit in far.items() if limit is not None}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TargetTally:
        """Undo `state`."""
        far = {name: FarLimit(**state[name]) for name in ("lowest", "highest") if name in state}
        return cls(**{**state, **far})

    @property
    def is_measured(self) -> bool:
        """Whether there are measured values."""
        return self.zeros or self.ones or self.others

    @property
    def are_classes(self) -> bool:
        """Whether the measured values are two classes, as in `daskrf.tables.values.classes.are_classes`."""
        return self.zeros and self.ones and not self.others

    def see(self, y: npt.NDArray[np.float64], side: npt.NDArray[np.int8]) -> None:
        """Count labels that follow: values where `side` is 0, else limits."""
        limits = np.flatnonzero(side)
        if len(limits) and not self.n_limits:
            at = int(limits[0])
            self.first_limit = f"{'>' if side[at] > 0 else '<'} {y[at]:.6g}"
        measured = np.isfinite(y)
        measured[limits] = False
        zeros, ones = y == 0, y == 1
        self.add(
            TargetTally(
                bool((zeros & measured).any()),
                bool((ones & measured).any()),
                bool((measured & ~zeros & ~ones).any()),
                len(limits),
                self.first_limit,
            )
        )

    def add(self, other: TargetTally) -> None:
        """Count the labels of a tally that follow."""
        self.zeros, self.ones = self.zeros or other.zeros, self.ones or other.ones
        self.others, self.n_limits = self.others or other.others, self.n_limits + other.n_limits
        self.first_limit = self.first_limit or other.first_limit
        for limit in other.farthest:
            self.see_limit(limit)

    def see_limit(self, limit: FarLimit) -> None:
        """Keep a limit that lies farther than those before."""
        if limit.side > 0:
            self.highest = limit.farther(self.highest)
        else:
            self.lowest = limit.farther(self.lowest)


class Tally:
    """Counts of rows and labels, and of values that are not plain numbers, by kind; refuses some of these.

    Attributes
    ----------
    counts : dict of str to (int, str)
        As `LabelFile.unusual`.
    n_read, n_rows, n_labels : int
        Rows read, rows with a label, and labels.
    targets : list of TargetTally
    """

    def __init__(self, source: LabelTable) -> None:
        self._source = source
        self.counts: dict[str, tuple[int, str]] = {}
        self.n_read, self.n_rows, self.n_labels = 0, 0, 0
        self.targets = [TargetTally() for _ in source.targets]

    def state(self) -> dict[str, Any]:
        """Return the counts as a dict for JSON."""
        counts = {name: getattr(self, name) for name in ("n_read", "n_rows", "n_labels", "counts")}
        return {**counts, "targets": [target.state() for target in self.targets]}

    def merge(self, state: Mapping[str, Any]) -> None:
        """Add the `state` of the rows that follow."""
        self.n_read, self.n_rows = self.n_read + state["n_read"], self.n_rows + state["n_rows"]
        self.n_labels += state["n_labels"]
        for target, more in zip(self.targets, state["targets"], strict=True):
            target.add(TargetTally.from_state(more))
        for kind, (n, example) in state["counts"].items():
            self._add(kind, n, example)

    def see(self, y: npt.NDArray[np.float64], side: npt.NDArray[np.int8]) -> None:
        """Count labels: values, and limits where `side` is not 0."""
        self.n_labels += len(y)
        for t, target in enumerate(self.targets):
            target.see(y[:, t], side[:, t])

    def see_limits(
        self,
        y: npt.NDArray[np.float64],
        side: npt.NDArray[np.int8],
        values: npt.NDArray[np.float64],
        lines: npt.NDArray[np.int64],
    ) -> None:
        """Keep the farthest limits among labels of these lines; `values` are as read."""
        for t, target in enumerate(self.targets):
            for sign in (1, -1):
                places = np.flatnonzero(side[:, t] == sign)
                if len(places):
                    at = int(places[np.argmax(sign * y[places, t])])
                    target.see_limit(FarLimit(sign, float(y[at, t]), float(values[at, t]), int(lines[at])))

    def _add(self, kind: str, n: int, example: str) -> None:
        earlier, first = self.counts.get(kind, (0, example))
        self.counts[kind] = (earlier + n, first)

    def reject(self, fault: Fault) -> None:
        """Count a row that cannot be read, or refuse it."""
        source = self._source
        word = reader_of(source.table).row_word
        if not source.reading.accept_rejects:
            raise InputError(
                f"{source.place(fault.line)} cannot be read ({fault.reason}); correct or delete it, or leave "
                f"out such {word}s with --accept-rejects"
            )
        place = source.place_in(fault.line).removeprefix(f"{word} ")
        self._add(f"in {word}s {_UNREAD}", 1, f"{place}: {fault.reason}")
        self.n_read += 1

    def count(self, block: _Block, kinds: np.ndarray, side: np.ndarray) -> np.ndarray:
        """Count the unusual values of a block; return which are left out, bool of shape (rows, targets).

        `side` is that of limits, which are used.
        """
        relations, units = block.more.get("relations"), block.more.get("units")
        lines, columns = block.lines, block.columns
        left = (kinds != NUMBER) & ~((kinds == CENSORED) & (self._source.reading.censored != "drop"))
        refused = left & ~np.isin(kinds, [kind for kind in LEFT_OUT if self._source.reading.drops(kind)])

        def shown(at: int) -> str:
            i, t = divmod(at, kinds.shape[1])
            sign = relations[i].strip() if relations and kinds[i, t] == CENSORED else ""
            unit = f" {units[i].strip()}" if units and kinds[i, t] == UNIT else ""
            return f"{sign}{columns[t][i].strip()}{unit}".rstrip()

        if refused.any():
            at = int(np.argmax(refused))
            i, t = divmod(at, kinds.shape[1])
            raise InputError(f"{self._source.place(lines[i])}: {self._fault(int(kinds[i, t]), t, shown(at))}")
        for kind, why in LEFT_OUT.items():
            of_kind = kinds.ravel() == kind
            used = self._used(side.ravel()) if kind == CENSORED else {}
            for name, mask in {why: left.ravel(), **used}.items():
                places = np.flatnonzero(of_kind & mask)
                if len(places):
                    self._add(name, len(places), shown(int(places[0])))
        return left

    def count_weighed(self, n: int, example: str) -> None:
        """Count values that became molar by molecular weights."""
        if n:
            self._add(BY_WEIGHT, n, example)

    def _used(self, side: np.ndarray) -> dict[str, np.ndarray]:
        """Return which censored values are used, and as what."""
        if self._source.reading.censored == "drop":
            return {}
        if self._source.reading.censored == "value":
            return {AS_VALUES: np.ones(len(side), bool)}
        return {LOWER_LIMITS: side > 0, UPPER_LIMITS: side < 0, APPROXIMATE: side == 0}

    def _fault(self, kind: int, t: int, text: str) -> str:
        """Return what is wrong with a value, and what to do."""
        name = printable(self._source.names[self._source.targets[t]], 60)
        what = {
            EMPTY: f"holds {text!r}, which is not a finite number; correct it"
            if text
            else reader_of(self._source.table).no_value(self._source.table),
            WORDS: f"holds {text!r}, which is not a number; correct it"
            if (classes := self._source.notations[t].classes) is None
            else f"holds {text!r}, which is not a word of its two classes ({classes.words()}); correct it",
            HUGE: f"holds {text!r}, which is too large for a label; correct it",
            UNIT: f"holds {text!r}, which is in another unit; convert it"
            + (" (with a column of SMILES daskrf does)" if may_hold_mass(text) else ""),
            WEIGHT: f"holds {text!r}, and no molecular weight could be computed from its SMILES to make it "
            "molar; correct the SMILES",
            LOGARITHM: f"holds {text!r}, which has no logarithm; correct it",
            OTHERWISE: f"holds {text!r}, but others have decimal "
            f"{'commas' if self._source.notations[t].decimal == ',' else 'points'}; use one notation "
            "throughout",
        }[kind]
        if kind == OTHERWISE:
            return f"'{name}' {what}"
        return f"'{name}' {what}, or leave out values that are not numbers with --drop-non-numbers"


@dataclass(frozen=True)
class _Block:
    """Lines, keys, values of each target, and further columns of some rows, as text."""

    lines: list[int]
    keys: list[str]
    columns: list[list[str]]
    more: dict[str, list[str]]


def _rows_of(
    source: LabelTable, segment: Segment | None = None, spool: Spool | None = None
) -> Iterator[Rows]:
    """Yield the rows of a table or of a segment, with the columns that are read."""
    columns = [source.key_position, *source.targets, *source.more.values()]
    purpose = _purpose(source.reading.key, accepts=source.reading.accept_rejects)
    view = View(source.path, source.table, columns, purpose)
    segments = [whole(source.table) if segment is None else segment]
    yield from reader_of(source.table).read(view, segments, spool)


def _block_of(source: LabelTable, rows: Rows, reject: Callable[[Fault], None]) -> _Block | None:
    """Return rows as text, if there are any; `reject` gets faulty ones other than blank lines."""
    for fault in rows.faults:
        if fault.reason != EMPTY_LINE:
            reject(fault)
    if not len(rows.row):
        return None
    keys, *values = ([text or "" for text in column] for column in rows.columns)
    n = len(source.targets)
    more = dict(zip(source.more, values[n:], strict=True))
    return _Block(rows.line.tolist(), keys, values[:n], more)


def _units(
    scale: Scale, usual: str, n: int, column: Sequence[str] | None, beside: Sequence[str] | None
) -> Sequence[str] | None:
    """Return the unit of each of `n` values: that beside it, or in a column of units, or the usual one."""
    if column is None and beside is None and usual == scale.unit:
        return None
    others = [usual] * n
    if column is not None:
        others = [usual if text.strip().lower() in MISSING else text for text in column]
    return [unit or other for unit, other in zip(beside or [""] * n, others, strict=True)]


def _with_relations(source: LabelTable, block: _Block, texts: list[str]) -> list[str]:
    """Return values behind the relations in a column of their own; a sign before the value itself counts."""
    relations = block.more.get("relations")
    if relations is None:
        return texts
    signs = {relation: sign_of(relation) for relation in set(relations)}
    if None in signs.values():
        at = next(at for at, relation in enumerate(relations) if signs[relation] is None)
        name = source.names[source.more["relations"]]
        raise InputError(f"{source.place(block.lines[at])}: {no_relation(name, relations[at])}")
    return [
        _with_relation(signs[relation] or "", text) for relation, text in zip(relations, texts, strict=True)
    ]


def _with_relation(sign: str, text: str) -> str:
    """Return a value behind its relation; a relation without a value is kept."""
    if sign and (is_number(text) or _is_bare(text)):
        return f"{sign}{text}"
    return sign if sign not in ("", "=") and text.strip().lower() in MISSING else text


def _check_flags(source: LabelTable, block: _Block) -> None:
    """Refuse a label that is flagged as a limit without its direction."""
    name = source.names[source.more["flags"]] if "flags" in source.more else ""
    for line, flag in zip(block.lines, block.more.get("flags", ()), strict=False):
        if is_limit(name, flag):
            raise InputError(
                f"{source.place(line)}: '{printable(name, 60)}' holds {flag.strip()!r}, which marks a limit "
                "but does not say whether it is an upper or a lower one; write a relation such as < or > "
                "instead, or leave the column out to take all labels as measured"
            )


def _is_bare(text: str) -> bool:
    """Return whether a cell holds a number without a relation before it."""
    return is_value(text) and not text.strip().startswith(RELATIONS)


def _encoded(table: KeyTable, kind: str) -> tuple[KeyTable, np.ndarray]:
    """Return the distinct keys, and the number of each label's key; tautomers are one key if asked."""
    level = next((level for level in LEVELS[2:] if level == kind), None)
    if level is None:
        return table, table.number
    merged = table_of(pa.array(same_names(table.keys().to_pylist(), level), TEXT))
    return merged, merged.number[table.number]


def _key_column(kind: str) -> KeyColumn:
    return KeyColumn(pa.int64() if kind == "row" else TEXT)


def _keys(source: LabelTable, lines: list[int], keys: list[str]) -> pa.Array:
    """Return keys in the form of the library's: row numbers, stripped text, or SMILES as the key says."""
    if source.reading.key == "smiles":
        return pa.array(map(clean_smiles, keys), TEXT)
    if source.reading.key == "inchikey":
        return pa.array(inchikeys(map(clean_smiles, keys)), TEXT)
    if source.reading.key == "structure":
        return pa.array(canonical_smiles(map(clean_smiles, keys)), TEXT)
    if source.reading.key in LEVELS:
        return pa.array(parents([clean_smiles(key) for key in keys])[0], TEXT)
    texts = list(map(str.strip, keys))
    if source.reading.key == "id":
        return pa.array(texts, TEXT)
    for line, key, digits in zip(lines, keys, texts, strict=True):
        if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
            raise InputError(
                f"{source.place(line)} has the key {key!r}, which is not a row number (counted from 0); "
                "choose the key column, or join by id or smiles"
            )
    return pa.array(map(int, texts), pa.int64())
