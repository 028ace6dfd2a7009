"""Poses that DOCK 6 has scored: the lines before each MOL2 block, or the report of the program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from daskrf.tables.formats import Table
from daskrf.tables.formats.sequential import NAME, Record, Sequential

_SNIFFED = re.compile(rb"^#{10}[ \t]+Name:|^Molecule: \S", re.MULTILINE)
_FIELD = re.compile(r"(?:#{10})?\s+([A-Za-z][\w/ ()-]*?):\s+(\S+)\s*$")
_BEGIN = re.compile(r"(?:#{10}\s+Name|Molecule):\s+(\S.*?)\s*$")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


class Dock6Reader(Sequential):
    """A row is a pose, with all numbers that stand before its block, secondary scores among them.

    Examples
    --------
    >>> lines = ["##########                                Name:                 Z1",
    ...          "##########                          Grid_Score:          -54.776524", "@<TRIPOS>MOLECULE"]
    >>> [pose] = Dock6Reader().records(enumerate(lines, 1), PurePath("scored.mol2"))
    >>> dict(pose.fields)
    {'name': 'Z1', 'Grid_Score': '-54.776524'}
    """

    name = "dock6"
    precedence = 55

    def sniff(self, head: bytes) -> bool:
        """The name of a molecule before its block, or in a report."""
        return bool(_SNIFFED.search(head))

    def words(self, table: Table) -> str:
        return "scores of DOCK 6"

    def records(self, lines: Iterator[tuple[int, str]], path: PurePath) -> Iterator[Record]:
        begin, fields = (0, ""), dict[str, str]()
        for line, text in lines:
            if (name := _BEGIN.match(text)) is not None:
                if fields:
                    yield Record(*begin, fields)
                begin, fields = (line, text), {NAME: name[1]}
            elif fields and (field := _FIELD.match(text)) is not None and _NUMBER.fullmatch(field[2]):
                fields.setdefault(field[1], field[2])
        if fields:
            yield Record(*begin, fields)
