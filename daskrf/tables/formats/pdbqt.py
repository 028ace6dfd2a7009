"""PDBQT files of docked poses, as Vina and programs derived from it write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from daskrf.tables.formats import Table
from daskrf.tables.formats.sequential import NAME, POSE, SMILES, Record, Sequential
from daskrf.tables.values.docking import SMILES_WITHIN, molecule_of_file, scores_within

_SNIFFED = re.compile(rb"^(?:REMARK (?:VINA )?RESULT:|ROOT[ \t\r]*$)", re.MULTILINE)
_NAME = re.compile(r"REMARK\s+(?:Name\s*=|NAME:?)\s*(\S.*)", re.IGNORECASE)
_MODEL = re.compile(r"MODEL\s+(\d+)")
_ATOM = ("ATOM", "HETATM")
_SEVERAL = (
    "another molecule without a name: give one file per molecule, named like it, or write REMARK Name = ... "
    "into each"
)


class PdbqtReader(Sequential):
    """A pose is a model, or a whole file without models; remarks hold its scores.

    Its molecule is called as REMARK Name says, or else like the file, without the "_out" that Vina adds.

    Examples
    --------
    >>> reader = PdbqtReader()
    >>> lines = ["MODEL 1", "REMARK VINA RESULT:    -7.100      0.000      0.000", "ROOT", "ENDMDL"]
    >>> [pose] = reader.records(enumerate(lines, 1), PurePath("docked/Z1_out.pdbqt"))
    >>> dict(pose.fields)
    {'name': 'Z1', 'pose': '1', 'REMARK VINA RESULT': '-7.100'}
    """

    name = "pdbqt"
    precedence = 52

    def sniff(self, head: bytes) -> bool:
        """A remark with a result, or the root of a molecule with torsions."""
        return bool(_SNIFFED.search(head))

    def words(self, table: Table) -> str:
        return "PDBQT of docked poses, called as in REMARK Name, or else like the file"

    def records(self, lines: Iterator[tuple[int, str]], path: PurePath) -> Iterator[Record]:
        of_file, first, n_files = molecule_of_file(path), "", 0
        for line, text, remarks, number in _models(lines):
            name = next((match[1].strip() for remark in remarks if (match := _NAME.match(remark))), "")
            scores = scores_within({"REMARK": "\n".join(each.removeprefix("REMARK") for each in remarks)})
            smiles = scores.pop(SMILES_WITHIN, "")
            fault = ""
            if not name:  # the file is called like one molecule, whose poses are numbered from 1
                n_files += number <= 1
                first = first or smiles
                fault = _SEVERAL if n_files > 1 or smiles != first else ""
            fields = {NAME: name or of_file, SMILES: smiles, POSE: str(number), **scores}
            yield Record(line, text, {key: value for key, value in fields.items() if value}, fault)


def _models(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str, list[str], int]]:
    """Yield the line, its text, the remarks and the number of each model; 1 if it has none."""
    begin, number, remarks, atoms = (0, ""), 0, list[str](), False
    for line, text in lines:
        model = _MODEL.match(text)
        if model is not None:
            begin, number, remarks, atoms = (line, text), int(model[1]), [], False
        elif text.startswith("ENDMDL"):
            if number:
                yield *begin, remarks, number
            begin, number, remarks, atoms = (0, ""), 0, [], False
        elif text.startswith("REMARK"):
            if not number and atoms:  # of the next molecule, in files without models
                yield *begin, remarks, 1
                begin, remarks, atoms = (0, ""), [], False
            begin = begin if begin[0] else (line, text)
            remarks.append(text)
        elif text.startswith(_ATOM):
            begin = begin if begin[0] else (line, text)
            atoms = True
    if atoms and not number:
        yield *begin, remarks, 1
