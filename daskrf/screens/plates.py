"""Plates for a batch: which molecule goes into which well, beside controls at wells of their own."""

from __future__ import annotations

import csv
import io
import itertools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath

import pyarrow as pa

from daskrf.errors import InputError, OptionError, printable
from daskrf.files.backend import as_path, backend
from daskrf.files.disk import file_errors
from daskrf.molecules.conditions import column_named
from daskrf.quantities import amount

ROWS_AND_COLUMNS = {96: (8, 12), 384: (16, 24)}
"""Rows (A, B, ...) and columns (1, 2, ...) of plates, by the number of wells."""

_WELL = re.compile(r"([A-Za-z])\s*0*([1-9]\d?)")
_MOST_BYTES = 1 << 20  # of a file of controls


def wells_of(size: int) -> list[str]:
    """Return the names of all wells of a plate, row by row.

    Examples
    --------
    >>> wells_of(96)[:2], wells_of(96)[-1], wells_of(384)[-1]
    (['A01', 'A02'], 'H12', 'P24')
    """
    n_rows, n_columns = ROWS_AND_COLUMNS[size]
    rows, columns = "ABCDEFGHIJKLMNOP"[:n_rows], range(1, n_columns + 1)
    return [f"{row}{column:02d}" for row, column in itertools.product(rows, columns)]


@dataclass(frozen=True)
class Control:
    """What a well holds that no molecule of the batch may take.

    Attributes
    ----------
    well : str
    name : str
        What it is; may be empty.
    plate : int or None
        Number of the plate, from 1; None means all.
    smiles : str
        Its structure; may be empty.
    """

    well: str
    name: str = ""
    plate: int | None = None
    smiles: str = ""


@dataclass(frozen=True)
class Plates:
    """Plates of one size, with controls.

    Attributes
    ----------
    size : {96, 384}
    controls : tuple of Control

    Examples
    --------
    >>> plates = Plates(96, (Control("A01", "DMSO"), Control("A03", "blank", plate=2)))
    >>> [*itertools.islice(plates.wells(), 2)], [*itertools.islice(plates.wells(), 95, 97)]
    ([(1, 'A02'), (1, 'A03')], [(2, 'A02'), (2, 'A04')])
    """

    size: int
    controls: tuple[Control, ...] = ()

    @classmethod
    def of(cls, size: int | None, controls: str | os.PathLike[str] | None) -> Plates | None:
        """Return the plates that options ask for, or None without them; the file of controls is read.

        Raises
        ------
        OptionError
            There are controls without a plate, or no plate has this size.
        InputError
            The file of controls cannot be read, or names a well that is not there, or twice.
        """
        if size is None:
            if controls is not None:
                raise OptionError("--controls goes with --plate, such as --plate 96; give both.")
            return None
        if size not in ROWS_AND_COLUMNS:
            raise OptionError(f"A plate has {' or '.join(map(str, ROWS_AND_COLUMNS))} wells, not {size}.")
        plates = cls(size, () if controls is None else tuple(_read(controls, size)))
        if not any(plates.free(number) for number in (1, plates.n_named + 1)):
            raise InputError(f"The controls in {controls} take all {size} wells; leave some to molecules.")
        return plates

    @property
    def n_named(self) -> int:
        """The last plate that has controls of its own."""
        return max((control.plate or 0 for control in self.controls), default=0)

    def free(self, plate: int) -> list[str]:
        """Return the wells of a plate that hold no control, in order."""
        taken = {control.well for control in self.controls if control.plate in (None, plate)}
        return [well for well in wells_of(self.size) if well not in taken]

    def wells(self) -> Iterator[tuple[int, str]]:
        """Yield the number of the plate and the well of one molecule after the other, without end."""
        for plate in itertools.count(1):
            yield from ((plate, well) for well in self.free(plate))

    def filled(self, table: pa.Table) -> pa.Table:
        """Return the table of a batch with the columns plate and well behind the rank.

        Columns of the library of these names become plate_input and well_input.
        """
        places = [*itertools.islice(self.wells(), len(table))]
        columns = {
            "plate": pa.array([plate for plate, _ in places], pa.int64()),
            "well": pa.array([well for _, well in places], pa.string()),
        }
        table = table.rename_columns(
            {name: f"{name}_input" for name in columns if name in table.column_names}
        )
        for position, (name, column) in enumerate(columns.items(), start=1):
            table = table.add_column(position, name, column)
        return table

    def with_controls(self, table: pa.Table) -> pa.Table:
        """Return the table of a batch on plates with a row for each control, all rows in the order of wells.

        A control has its name, or "control", as its ID, its SMILES if the table of controls has them, and no
        rank and no prediction.

        Examples
        --------
        >>> plates = Plates(96, (Control("A01", "DMSO"), Control("B01", plate=2)))
        >>> table = plates.filled(pa.table({"rank": [1, 2], "id": ["Z1", "Z2"]}))
        >>> plates.with_controls(table).to_pydict()
        {'rank': [None, 1, 2], 'plate': [1, 1, 1], 'well': ['A01', 'A02', 'A03'], 'id': ['DMSO', 'Z1', 'Z2']}
        """
        numbers = range(1, max(table["plate"].to_pylist(), default=0) + 1)
        held = [
            (number, control)
            for number in numbers
            for control in self.controls
            if control.plate in (None, number)
        ]
        columns = {
            "plate": pa.array([number for number, _ in held], pa.int64()),
            "well": pa.array([control.well for _, control in held], pa.string()),
            "id": pa.array([control.name or "control" for _, control in held], pa.string()),
            "smiles": pa.array([control.smiles or None for _, control in held], pa.string()),
        }
        fields = [table.schema.field(name) for name in table.column_names]
        controls = pa.table(
            [
                columns[each.name].cast(each.type) if each.name in columns else pa.nulls(len(held), each.type)
                for each in fields
            ],
            names=table.column_names,
        )
        both = pa.concat_tables([table, controls])
        order = {well: place for place, well in enumerate(wells_of(self.size))}
        places = [
            (plate, order[well])
            for plate, well in zip(both["plate"].to_pylist(), both["well"].to_pylist(), strict=True)
        ]
        return both.take(pa.array(sorted(range(len(places)), key=places.__getitem__), pa.int64()))

    def notes(self, table: pa.Table) -> list[str]:
        """Return how many plates there are, and where the controls belong, in words."""
        n = max(table["plate"].to_pylist(), default=0)
        last = sum(number == n for number in table["plate"].to_pylist())
        lines = [
            f"{amount(n, 'plates')} of {self.size} wells, filled row by row in the order of rank; "
            f"{amount(last, 'molecules')} on plate {n:,}"
        ]
        places: dict[str, list[str]] = {}
        for control in self.controls:
            where = control.well if control.plate is None else f"{control.well} of plate {control.plate}"
            places.setdefault(control.name or "controls", []).append(where)
        return lines + [f"left to {printable(name)}: {', '.join(wells)}" for name, wells in places.items()]


def _read(path: str | os.PathLike[str], size: int) -> Iterator[Control]:
    """Yield the controls in a table with a column well and, if there are such, plate, name and SMILES."""
    file = as_path(path)
    with file_errors("read", file), backend(file).open(file) as opened:
        data = opened.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise InputError(f"{file} is too long for a table of controls: at most one row for each well.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")
    head = text.partition("\n")[0]
    delimiter = max("\t;,", key=head.count)
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=False)
    with _table_errors(file):
        names = [name for name in rows.fieldnames or [] if name]
    columns = {name: column_named(name, names) for name in ("well", "plate", "name", "id", "smiles")}
    if columns["well"] is None:
        raise InputError(f"{file} has no column 'well' with wells such as A01; add one.")
    label = (
        columns["name"]
        or columns["id"]
        or next((each for each in names if each not in columns.values()), None)
    )
    there, seen = set(wells_of(size)), dict[str, set[int | None]]()
    for number, row in enumerate(_lines(rows, file), start=2):
        cell = (row[columns["well"]] or "").strip()
        if not any(value and str(value).strip() for value in row.values()):
            continue
        match = _WELL.fullmatch(cell)
        well = f"{match[1].upper()}{int(match[2]):02d}" if match else ""
        where = f"{file}, row {number}"
        if well not in there:
            raise InputError(f"{where}: {printable(cell)!r} is no well of a plate of {size}; correct it.")
        plate = _plate_of((row[columns["plate"]] or "").strip() if columns["plate"] else "", where)
        plates = seen.setdefault(well, set())
        if plates & {plate, None} or (plates and plate is None):
            raise InputError(f"{where}: well {well} has a control already; leave one of them out.")
        plates.add(plate)
        name, smiles = ((row[key] or "").strip() if key else "" for key in (label, columns["smiles"]))
        yield Control(well, name, plate, smiles)


def _lines(rows: csv.DictReader[str], file: PurePath) -> Iterator[dict[str, str]]:
    with _table_errors(file):
        yield from rows


@contextmanager
def _table_errors(file: PurePath) -> Iterator[None]:
    """Refuse a file that the csv module cannot read in one sentence."""
    try:
        yield
    except csv.Error as error:
        raise InputError(f"{file} is no table of controls ({error}); give a CSV file.") from None


def _plate_of(cell: str, where: str) -> int | None:
    if not cell:
        return None
    if not cell.isdecimal() or int(cell) < 1:
        raise InputError(f"{where}: {printable(cell)!r} is no number of a plate, from 1; correct it.")
    return int(cell)
