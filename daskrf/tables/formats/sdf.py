"""SD files: MOL blocks, each with a title and properties."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath

import numpy as np

from daskrf.molecules.isolation import Lost, each
from daskrf.tables.formats import HEAD_ROWS, Head, Purpose, Rows, Table, View
from daskrf.tables.formats.streamed import BOM, Fields, Streamed
from daskrf.tables.streams import CUT_OFF, LineStream, RecordStream
from daskrf.tables.values.docking import scores_within

_LONGEST = 1 << 20  # bytes per record
_NAMED = 1_000  # first records in which names of properties are looked for
_STRUCTURE, _TITLE = 0, 1  # columns before the properties
_FIXED_COLUMNS = ("structure", "title")
_PROPERTY = " (property)"  # behind the name of a property that is called as they are
_COUNTS = re.compile(rb"^[ \d]{6}.{0,60}V[23]000[ \t\r]*$", re.MULTILINE)  # the fourth line of a MOL block
_MARKS = re.compile(rb"^(?:M  END|\$\$\$\$)[ \t\r]*$", re.MULTILINE)
_LAST_LINE = re.compile(rb"^\$\$\$\$[ \t\r]*$", re.MULTILINE)
_LAST_OF_BLOCK = re.compile(rb"^M  END", re.MULTILINE)
_NAME = re.compile(r">[^<]*<(.*)>")


class SdfReader(Streamed):
    """Records of several lines; a MOL file is one of one record.

    The columns are the structure, as SMILES, the title, the properties of the first records, and scores of
    docking programs that stand within properties.

    Examples
    --------
    >>> from daskrf.tables.formats import Table
    >>> SdfReader().words(Table("sdf", "gzip", "", True, 0, ("structure", "title"), 2))
    'SD file, gzip-compressed'
    """

    name = "sdf"
    precedence = 50
    holds_poses = True
    row_word = "record"

    def sniff(self, head: bytes) -> bool:
        """A line of counts, or one that ends a MOL block or a record."""
        return bool(_COUNTS.search(head) or _MARKS.search(head))

    def words(self, table: Table) -> str:
        text, *packed = table.layers
        return ", ".join(["SD file", *([text] if table.encoding else []), *packed])

    def rows_in(self, blocks: Iterator[bytes], purpose: Purpose | None = None) -> LineStream:
        return RecordStream(blocks, _LONGEST)

    def count(self, piece: bytes) -> int:
        return len(_LAST_LINE.findall(piece))

    def split(self, piece: bytes) -> list[bytes]:
        ends = RecordStream.ends(piece).tolist()
        return [piece[start:end] for start, end in itertools.pairwise([0, *ends])]

    def open(self, path: PurePath, compression: str, blocks: Iterator[bytes], purpose: Purpose) -> Head:
        records = self.split(self.rows_in(blocks).take(_NAMED).removeprefix(BOM))
        parsed = [_fields(record.decode(errors="replace"))[0] for record in records]
        properties = filter(None, dict.fromkeys(itertools.chain.from_iterable(parsed)))
        names = (
            *_FIXED_COLUMNS,
            *(f"{name}{_PROPERTY}" if name in _FIXED_COLUMNS else name for name in properties),
        )
        smiles = [fields[0] for fields in _structures(records[:HEAD_ROWS]) if isinstance(fields, list)]

        def columns(positions: Sequence[int]) -> list[list[str]]:
            keys = _keys(names, positions)
            values = [[fields[key] for fields in parsed if key in fields] for key in keys]
            return [
                smiles if at == _STRUCTURE else texts for at, texts in zip(positions, values, strict=True)
            ]

        return Head(
            Table(self.name, compression, "", True, 0, names, len(names)),
            n_rows=len(parsed),
            width=len(names),
            text=range(len(names)),
            columns=columns,
            structure=_STRUCTURE,
            title=_TITLE,
        )

    def parse(self, buffer: bytes, first: int, view: View) -> tuple[Rows, bytes]:
        """RDKit sees only the records that are wanted."""
        lines = self.split(buffer)
        at = np.arange(len(lines))
        wanted = (at if view.rows is None else at[np.isin(first + at, view.rows)]).tolist()
        parsed = self.records([lines[k] for k in wanted], view)
        return self.collected(lines, ((wanted[k], fields) for k, fields in parsed), first, view)

    def records(self, lines: list[bytes], view: View) -> Iterator[tuple[int, Fields | str | None]]:
        """RDKit is asked only if the structure is."""
        wanted, names = _STRUCTURE in view.columns, view.table.names or ()
        keys = _keys(names, view.columns)
        for at, structure in enumerate(_structures(lines) if wanted else map(_fault, lines)):
            if isinstance(structure, str) and structure:
                yield at, structure
                continue
            try:
                fields, several = _fields(lines[at].decode())
            except UnicodeDecodeError:
                yield at, "not UTF-8 text"
                continue
            if twice := [key for key in keys if key in several]:
                yield at, f"several values of {twice[0]!r}"
                continue
            places = zip(view.columns, keys, strict=True)
            yield at, [structure[0] if place == _STRUCTURE else fields.get(key) for place, key in places]

    def shown(self, row: bytes) -> str:
        """The title."""
        return super().shown(row.partition(b"\n")[0])


def _keys(names: Sequence[str], positions: Iterable[int]) -> list[str]:
    """Return the properties at positions of columns; "" of the columns of the format itself."""
    renamed = {f"{name}{_PROPERTY}": name for name in _FIXED_COLUMNS}
    return [renamed.get(names[at], names[at]) if at > _TITLE else "" for at in positions]


def _structures(records: Sequence[bytes]) -> list[list[str] | str]:
    """Return the SMILES of each record, in a list, or why it has none."""
    results: list[list[str] | str] = [_fault(record) for record in records]
    good = [at for at, fault in enumerate(results) if not fault]
    blocks = [_LAST_OF_BLOCK.split(records[at], 1)[0].decode(errors="replace") + "M  END\n" for at in good]
    for at, made in zip(good, each("daskrf.molecules.counts.counter:mol_reader", (), blocks), strict=True):
        results[at] = f"RDKit {made.reason}" if isinstance(made, Lost) else made
    return results


def _fault(record: bytes) -> str:
    """Return why a record is not one MOL block with properties, or an empty string."""
    if len(record) > _LONGEST:
        return f"longer than {_LONGEST:,} bytes"
    if b"\0" in record:
        return "NUL byte in the record"
    blocks = len(_LAST_OF_BLOCK.findall(record))
    if blocks > 1:
        return f"{blocks} MOL blocks in one record: the line $$$$ between them is missing"
    if not blocks:
        return "MOL block without end (M  END)"
    if record.endswith(CUT_OFF) and _LAST_OF_BLOCK.split(record)[1].removesuffix(CUT_OFF).strip():
        return "record without end ($$$$), so that values may be cut off"
    return ""


def _fields(record: str) -> tuple[dict[str, str], set[str]]:
    """Return the properties of a record, and which of them have several values.

    Among them are the title, under the empty name, and scores of docking programs within other properties.
    """
    lines = [line.removesuffix("\r") for line in record.split("\n")]
    several: set[str] = set()
    fields = {"": lines[0].strip() if lines else ""}
    at = next((k for k, line in enumerate(lines) if line.startswith("M  END")), len(lines)) + 1
    while at < len(lines):
        name = _NAME.match(lines[at])
        at += 1
        if name is None:
            continue
        start = at
        while at < len(lines) and lines[at].strip() and lines[at].rstrip(" \t") != "$$$$":
            at += 1
        if key := name[1].strip():
            value = "\n".join(lines[start:at])
            if fields.setdefault(key, value) != value:
                several.add(key)
    return scores_within(fields) | fields, several
