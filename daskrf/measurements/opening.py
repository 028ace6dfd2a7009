"""Finding the columns of a table of labels."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from daskrf.errors import InputError, NoLabelsError, printable
from daskrf.files.backend import as_path
from daskrf.measurements.labeltable import LabelTable
from daskrf.measurements.reading import BY_SMILES, Reading
from daskrf.quantities import MISSING, is_number, listed
from daskrf.tables.beside import columns_beside, named
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
    Head,
    Purpose,
    TableFormat,
    View,
    open_table,
    reader_of,
    whole,
)
from daskrf.tables.values.classes import ClassWords
from daskrf.tables.values.names import column_words, find_id, normalised, position_of
from daskrf.tables.values.notation import Notation, is_value
from daskrf.tables.values.units import mass_unit, may_hold_mass
from daskrf.tables.values.values import BY_CELLS, Scale, limits_of, scales_of

INCHIKEY_NAMES = ("inchikey", "standardinchikey", "stdinchikey", "inchikeystandard")
LONGEST = 1 << 22  # bytes per line


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
        of_model=reading.scales is not None,
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
    head = open_table(path, purpose_of(key))
    if not head.n_rows:
        what = "has a header but no rows" if head.table.names else "is empty"
        raise NoLabelsError(f"the label file {path} {what}")
    return head


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
    id_column = find_key(head, names, "id")
    by_structure = ("structure", structure)
    return (by_structure,) if id_column in (None, structure) else (("id", None), by_structure)


def purpose_of(key: str, *, accepts: bool = False) -> Purpose:
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
    view = View(path, head.table, empty, purpose_of(key, accepts=True))
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
    if (position := find_key(head, head.names, key)) is not None:
        return position
    free = [k for k in range(len(head.names)) if k not in targets]
    return next((k for k in free if not (key == "id" and counts_rows(head, k))), free[0] if free else 0)


def find_key(head: Head, names: tuple[str, ...], key: str) -> int | None:
    """Return the position of the key column found by its usual names, or None."""
    if key == "id":
        return find_id(names, head.values, title=head.title)
    if key == "inchikey" and (place := named(names, INCHIKEY_NAMES, ())) is not None:
        return place
    if key in BY_SMILES:
        return smiles_position(head)
    return next((k for k, name in enumerate(names) if normalised(name) == "row"), None)


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
    view = View(path, head.table, [*first, *targets], purpose_of("smiles", accepts=True))
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
