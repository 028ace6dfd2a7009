"""OUTDOCK, the list of scores that DOCK 3 writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from daskrf.tables.formats import Table
from daskrf.tables.formats.sequential import NAME, POSE, Record, Sequential

_HEADER = re.compile(r"\s*mol#\s+id_num\s.*\bTotal\s*$")
_SNIFFED = re.compile(rb"^[ \t]*mol#[ \t]+id_num[ \t]", re.MULTILINE)
_ROW = re.compile(r"\s*(\d+)\s+(\S+)\s+\S")
_TOTAL = re.compile(r"[+-]?\d+\.\d*$")
_WIDTH = 10  # characters of the total, in front of which there may be no blank
_RANK = 9  # fields before the rank
SCORE = "OUTDOCK Total"


class OutdockReader(Sequential):
    """A row is a pose with its total score, or a molecule that could not be docked, without a score.

    Examples
    --------
    >>> head = "  mol#           id_num     flexiblecode  matched    nscored    time hac    setnum    matnum "
    >>> head += "  rank charge    elect +  gist +   vdW + psol +  asol + r_hyd =    Total"
    >>> row = "     1 ZINC000000000001     1.1.1.1.1.1     1202      26208   11.02  13         7       418 "
    >>> row += "     1     1   -12.10    0.00  -20.55   4.10   -1.15    0.00    -29.70"
    >>> [pose] = OutdockReader().records(enumerate([head, row], 1), PurePath("OUTDOCK"))
    >>> dict(pose.fields)
    {'name': 'ZINC000000000001', 'pose': '1', 'OUTDOCK Total': '-29.70'}
    """

    name = "outdock"
    precedence = 54
    row_word = "line"

    def sniff(self, head: bytes) -> bool:
        """The names of the columns."""
        return bool(_SNIFFED.search(head))

    def words(self, table: Table) -> str:
        return "OUTDOCK of DOCK 3"

    def records(self, lines: Iterator[tuple[int, str]], path: PurePath) -> Iterator[Record]:
        within = False
        for line, text in lines:
            if _HEADER.match(text):
                within = True
            elif within and (row := _ROW.match(text)) is not None:
                total, fields, fault = text.rstrip()[-_WIDTH:].strip(), text.split(), ""
                values = {NAME: row[2]}
                if len(fields) > _RANK and fields[_RANK].isdigit():
                    values[POSE] = fields[_RANK]
                    if _TOTAL.match(total):
                        values[SCORE] = total
                    else:
                        fault = f"no total score in the last {_WIDTH} characters"
                yield Record(line, text, values, fault)
