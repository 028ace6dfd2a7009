"""A table of labels, and which of its columns are read as what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from daskrf.measurements.reading import Reading
from daskrf.tables.formats import Head, Table, reader_of
from daskrf.tables.values.notation import Notation
from daskrf.tables.values.values import Limits, Scale


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
