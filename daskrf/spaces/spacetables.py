"""Spaces as a folder with tables of reactions, of building blocks, and of the slots that they fit."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.files.backend import backend
from daskrf.files.disk import file_errors
from daskrf.molecules.extensions import GROUPS, clean_smiles, has_groups
from daskrf.molecules.structures import unmarked
from daskrf.quantities import amount
from daskrf.spaces.attachments import Coupling
from daskrf.spaces.reactions import Reaction
from daskrf.spaces.texttable import TextTable, content

_TABLES = ("reactions", "blocks", "slots")
_ENDINGS = (".tsv", ".csv", ".tsv.gz", ".csv.gz")


@dataclass(frozen=True)
class Space:
    """Reactions, and the building blocks of their slots; products are never listed.

    Attributes
    ----------
    reactions : tuple of Reaction or Coupling
    blocks : list of str
        IDs of the building blocks.
    smiles : list of str
        Their SMILES. Centres of enhanced stereo groups are unspecified in them.
    slots : dict of (int, int) to int32 array
        For each reaction and slot, the positions of its blocks, ascending.
    digest : str
        SHA-256 of the files that it was read from.
    merged : tuple of str, default ()
        What was merged in each file that repeats reagents, and IDs that are not unique.
    marked : int
        Number of blocks with enhanced stereo groups.
    """

    reactions: tuple[Reaction | Coupling, ...]
    blocks: list[str]
    smiles: list[str]
    slots: dict[tuple[int, int], npt.NDArray[np.int32]]
    digest: str
    path: PurePath = field(compare=False)
    merged: tuple[str, ...] = ()
    marked: int = field(init=False)

    def __post_init__(self) -> None:
        texts = list(map(clean_smiles, self.smiles))
        object.__setattr__(self, "smiles", [text.partition(" ")[0] for text in unmarked(texts)])
        object.__setattr__(self, "marked", sum(map(has_groups, texts)))

    @property
    def notes(self) -> list[str]:
        """Assumptions made when it was read."""
        if not self.marked:
            return [*self.merged]
        marked = f"{amount(self.marked, 'blocks')} {GROUPS}: the marked centres are unspecified in products"
        return [*self.merged, marked]

    def slots_of(self, reaction: int) -> list[npt.NDArray[np.int32]]:
        """Return the blocks of each slot of a reaction."""
        return [self.slots[reaction, slot] for slot in range(len(self.reactions[reaction].slots))]


def has_tables(names: Collection[str]) -> bool:
    """Tell whether a folder of files with these names holds a table of reactions."""
    return any(f"reactions{ending}" in names for ending in _ENDINGS)


def read_tables(folder: PurePath) -> Space:
    """Read a space from a folder of three tables, comma- or tab-separated, which may be gzipped.

    The files are ``reactions`` (columns reaction, reactants, product: SMARTS), ``blocks`` (block, smiles) and
    ``slots`` (reaction, slot, block: which blocks fit which slot, from 0), with the ending ``.csv``,
    ``.tsv``, ``.csv.gz`` or ``.tsv.gz``. Other columns are ignored.

    Raises
    ------
    InputError
        If a table or a column is missing, a block or reaction is unknown or given twice, or a slot has no
        blocks.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> amide = "[N:1]([H])[*:2].[OH][C:3]=[O:4],[*:2][N:1][C:3]=[O:4]"
    >>> _ = (folder / "reactions.csv").write_text(f"reaction,reactants,product\\namide,{amide}\\n")
    >>> _ = (folder / "blocks.csv").write_text("block,smiles\\na,CN\\nb,CC(=O)O\\n")
    >>> _ = (folder / "slots.csv").write_text("reaction,slot,block\\namide,0,a\\namide,1,b\\n")
    >>> space = read_tables(folder)
    >>> space.reactions[0].name, space.slots_of(0)
    ('amide', [array([0], dtype=int32), array([1], dtype=int32)])
    """
    digest = hashlib.sha256()
    reactions, blocks, slots = (_find(folder, name) for name in _TABLES)
    by_name: dict[str, Reaction] = {}
    for name, reactants, product in _rows(reactions, ("reaction", "reactants", "product"), digest):
        if name in by_name:
            raise InputError(f"{reactions} has reaction {name} twice; give each a name of its own.")
        by_name[name] = Reaction(name, f"{reactants}>>{product}")
    number: dict[str, int] = {}
    smiles: list[str] = []
    for block, text in _rows(blocks, ("block", "smiles"), digest):
        if number.setdefault(block, len(smiles)) < len(smiles):
            raise InputError(f"{blocks} has block {block} twice; give each an ID of its own.")
        smiles.append(text)
    places = _places(slots, by_name, number, digest)
    return Space(tuple(by_name.values()), list(number), smiles, places, digest.hexdigest(), folder)


def _places(
    path: PurePath, reactions: dict[str, Reaction], blocks: dict[str, int], digest: hashlib._Hash
) -> dict[tuple[int, int], npt.NDArray[np.int32]]:
    """Return the blocks of each slot."""
    names = {name: r for r, name in enumerate(reactions)}
    slots: dict[tuple[int, int], list[int]] = {
        (names[name], slot): [] for name, reaction in reactions.items() for slot in range(len(reaction.slots))
    }
    for name, slot, block in _rows(path, ("reaction", "slot", "block"), digest):
        key = names.get(name, -1), int(slot) if slot.isdecimal() else -1
        if key not in slots or block not in blocks:
            what = f"block {block}" if key in slots else f"slot {slot} of reaction {name}"
            raise InputError(f"{path} names {what}, which the other tables do not have.")
        slots[key].append(blocks[block])
    for (reaction, number), members in slots.items():
        place = f"slot {number} of reaction {list(reactions)[reaction]}"
        if not members:
            raise InputError(f"{path} has no blocks for {place}; leave the reaction out.")
        if repeats := len(members) - len(set(members)):
            raise InputError(f"{path} repeats {amount(repeats, 'blocks')} in {place}.")
    return {key: np.sort(np.array(members, np.int32)) for key, members in slots.items()}


def _find(folder: PurePath, name: str) -> PurePath:
    with file_errors("read", folder):
        there = backend(folder).names(folder)
    files = [f"{name}{ending}" for ending in _ENDINGS if f"{name}{ending}" in there]
    if len(files) != 1:
        what = f"{' and '.join(files)}; keep one" if files else f"no {name}.csv or {name}.tsv"
        raise InputError(f"{folder} is not a space: it has {what}.")
    return folder / files[0]


def _rows(path: PurePath, columns: tuple[str, ...], digest: hashlib._Hash) -> Iterator[list[str]]:
    """Yield some columns of a table; its content, uncompressed, goes into the digest."""
    data = content(path)
    digest.update(path.name.partition(".")[0].encode() + data)
    return TextTable(path, data).rows(columns)
