"""bestranking.lst and other lists of GOLD: the fitness of each ligand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from daskrf.tables.formats import Table
from daskrf.tables.formats.sequential import NAME, Record, Sequential

_SNIFFED = re.compile(rb"^#[ \t]+(?:Score|Fitness)\b.*Ligand name[ \t\r]*$", re.MULTILINE)
_ROW = re.compile(r"\s*([+-]?\d+(?:\.\d*)?)\s.*?(?:'([^']*)'|(\S+))\s*$")
SCORE = "Gold.Fitness"


class GoldListReader(Sequential):
    """A row is a ligand, called as in the last column.

    Examples
    --------
    >>> head = "#     Score     S(PLP)     time                 File name                Ligand name"
    >>> row = "     48.93     -40.46    1.999  '/gold/gold_soln_m1_4.sdf'                 'CC 00401|sdf|1'"
    >>> [ligand] = GoldListReader().records(enumerate([head, row], 1), PurePath("bestranking.lst"))
    >>> dict(ligand.fields)
    {'name': 'CC 00401', 'Gold.Fitness': '48.93'}
    """

    name = "gold list"
    precedence = 56
    row_word = "line"

    def sniff(self, head: bytes) -> bool:
        """The names of the columns."""
        return bool(_SNIFFED.search(head))

    def words(self, table: Table) -> str:
        return "list of GOLD"

    def records(self, lines: Iterator[tuple[int, str]], path: PurePath) -> Iterator[Record]:
        for line, text in lines:
            if text.startswith("#") or not text.strip():
                continue
            row = _ROW.match(text)
            if row is None:
                yield Record(line, text, {}, "no fitness and name")
                continue
            name = (row[2] or row[3]).partition("|")[0]
            yield Record(line, text, {NAME: name.strip(), SCORE: row[1]})
