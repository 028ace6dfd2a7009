"""Logs of Vina, Smina, Gnina and QuickVina: tables of modes, with their affinities."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from daskrf.tables.formats import Table
from daskrf.tables.formats.sequential import NAME, POSE, Record, Sequential
from daskrf.tables.values.docking import molecule_of_file

_SNIFFED = re.compile(rb"^mode \|[ \t]*affinity", re.MULTILINE)
_LIGAND = re.compile(r"(?:Ligand|Docking ligand|Processing ligand)s?\s*[:=]\s*(\S.*)", re.IGNORECASE)
_RULE = re.compile(r"-{4,}\+[-+]+\s*$")
_NUMBER = r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?"
_ROW = re.compile(rf"\s*(\d+)((?:\s+{_NUMBER}){{2,6}})\s*$")
_VINA: tuple[str, ...] = ("Vina affinity",)
_GNINA: tuple[str, ...] = ("minimizedAffinity", "CNNscore", "CNNaffinity")
_SEVERAL = (
    "the table of another molecule without a name: give the file of poses that the program wrote, or one log "
    "per molecule, named like it"
)


class DockingLogReader(Sequential):
    """A row is a mode. Its molecule is called like the ligand that the log names, or else like the log.

    Examples
    --------
    >>> text = '''mode |   affinity | dist from best mode
    ...      | (kcal/mol) | rmsd l.b.| rmsd u.b.
    ... -----+------------+----------+----------
    ...    1         -7.7      0.000      0.000'''
    >>> [mode] = DockingLogReader().records(enumerate(text.splitlines(), 1), PurePath("Z1.log"))
    >>> dict(mode.fields)
    {'name': 'Z1', 'pose': '1', 'Vina affinity': '-7.7'}
    """

    name = "docking log"
    precedence = 53
    row_word = "line"

    def sniff(self, head: bytes) -> bool:
        """The head of the table of modes."""
        return bool(_SNIFFED.search(head))

    def words(self, table: Table) -> str:
        return "log of docking, whose molecule is called like the ligand that it names, or else like the file"

    def records(self, lines: Iterator[tuple[int, str]], path: PurePath) -> Iterator[Record]:
        name, columns, within, unnamed = "", _VINA, False, 0
        for line, text in lines:
            if text.startswith("mode |"):
                columns = _GNINA if "CNN" in text else _VINA
                within = False
            elif (match := _LIGAND.match(text)) is not None:
                name = molecule_of_file(PurePath(match[1].strip()))
            elif _RULE.match(text):
                within, unnamed = True, unnamed + (not name)
            elif within and (row := _ROW.fullmatch(text)) is not None:
                values = row[2].split()
                taken = [values[0], *values[-2:]] if columns == _GNINA else values[:1]
                fields = {NAME: name or molecule_of_file(path), POSE: row[1]}
                fault = _SEVERAL if unnamed > 1 and not name else ""
                yield Record(line, text, fields | dict(zip(columns, taken, strict=True)), fault)
            elif within:
                within, name = False, ""
