"""PDBQT files of docked poses, as Vina and programs derived from it write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from daskrf.tables.formats import Table
from daskrf.tables.formats.sequential import NAME, POSE, SMILES, Record, Sequential
from daskrf.tables.values.docking import SMILES_WITHIN, molecule_of_file, scores_within

_SNIFFED = re.compile(rb"^(?:REMARK (?:VINA )?RESULT:|ROOT[ \t\r]*$)", re.MULTILINE)
_NAME = re.compile(r"REMARK\s+(?:Name\s*=|NAME:?)\s*(\S.*)", re.IGNORECASE)
_MODEL = re.compile(r"MODEL\s+(\d+)")
_ATOM = ("ATOM", "HETATM")
_CUT = "the file ends within this model, before ENDMDL; dock the molecule again"
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
        for model in _models(lines):
            if not model.is_whole:
                yield Record(model.line, model.text, {}, _CUT)
                continue
            name = next((match[1].strip() for each in model.remarks if (match := _NAME.match(each))), "")
            remarks = "\n".join(each.removeprefix("REMARK") for each in model.remarks)
            scores = scores_within({"REMARK": remarks})
            smiles = scores.pop(SMILES_WITHIN, "")
            fault = ""
            number = 1 if model.number is None else model.number
            if not name:  # the file is called like one molecule, whose poses are numbered from 1
                n_files += number <= 1
                first = first or smiles
                fault = _SEVERAL if n_files > 1 or smiles != first else ""
            fields = {NAME: name or of_file, SMILES: smiles, POSE: str(number), **scores}
            yield Record(model.line, model.text, {key: text for key, text in fields.items() if text}, fault)


@dataclass
class _Model:
    """What is read of a model, or of a molecule in a file without models.

    Attributes
    ----------
    line : int
        Its first line; 0 before there is one.
    text : str
        The text of that line.
    number : int or None
        As the file numbers it.
    remarks : list of str
    has_atoms : bool
    is_whole : bool
        Whether the file has its end.
    """

    line: int = 0
    text: str = ""
    number: int | None = None
    remarks: list[str] = field(default_factory=list)
    has_atoms: bool = False
    is_whole: bool = True

    def begin(self, line: int, text: str) -> None:
        """Note the first line."""
        if not self.line:
            self.line, self.text = line, text


def _models(lines: Iterator[tuple[int, str]]) -> Iterator[_Model]:
    """Yield each model, also one that is cut; without models, each molecule."""
    model = _Model()
    for line, text in lines:
        start = _MODEL.match(text)
        if start is not None:
            if model.number is not None:
                yield replace(model, is_whole=False)
            model = _Model(line, text, int(start[1]))
        elif text.startswith("ENDMDL"):
            if model.number is not None:
                yield model
            model = _Model()
        elif text.startswith("REMARK"):
            if model.number is None and model.has_atoms:  # of the next molecule, in files without models
                yield model
                model = _Model()
            model.begin(line, text)
            model.remarks.append(text)
        elif text.startswith(_ATOM):
            model.begin(line, text)
            model.has_atoms = True
    if model.number is not None:
        yield replace(model, is_whole=False)
    elif model.has_atoms:
        yield model
