"""Spaces as chemists have them: a folder with tables of reactions, of building blocks and of their slots."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.quantities import amount
from daskrf.spaces.reactions import Reaction
from daskrf.storage.backend import as_path, backend
from daskrf.storage.files import file_errors

__all__ = ["Space", "is_space", "read_space", "space_among"]

_TABLES = ("reactions", "blocks", "slots")
_ENDINGS = (".tsv", ".csv", ".tsv.gz", ".csv.gz")


@dataclass(frozen=True)
class Space:
    """Reactions, and the building blocks of their slots; products are never listed.

    Attributes
    ----------
    reactions : tuple of Reaction
    blocks : list of str
        IDs of the building blocks.
    smiles : list of str
        Their SMILES.
    slots : dict of (int, int) to int32 array
        For each reaction and slot, the positions of its blocks, ascending.
    digest : str
        SHA-256 of the files that it was read from.
    """

    reactions: tuple[Reaction, ...]
    blocks: list[str]
    smiles: list[str]
    slots: dict[tuple[int, int], npt.NDArray[np.int32]]
    digest: str
    path: PurePath = field(compare=False)

    def slots_of(self, reaction: int) -> list[npt.NDArray[np.int32]]:
        """Return the blocks of each slot of a reaction."""
        return [self.slots[reaction, slot] for slot in range(len(self.reactions[reaction].slots))]


def space_among(source: Any) -> PurePath | None:
    """Return the path of a space if `source` is one; None if it is something else, such as SMILES files.

    Raises
    ------
    InputError
        If it is several paths, one of them a space.
    """
    paths = list(source) if isinstance(source, (list, tuple)) else [source]
    found = [
        as_path(path) for path in paths if isinstance(path, (str, os.PathLike)) and is_space(as_path(path))
    ]
    if found and len(paths) > 1:
        raise InputError(f"{found[0]} is a space; screen one space at a time, and nothing else with it.")
    return found[0] if found else None


def is_space(path: str | os.PathLike[str]) -> bool:
    """Tell whether a path is a folder with a table of reactions."""
    try:
        names = backend(as_path(path)).names(as_path(path))
    except OSError:
        return False
    return any(f"reactions{ending}" in names for ending in _ENDINGS)


def read_space(path: str | os.PathLike[str]) -> Space:
    """Read a space from a folder of three tables, comma- or tab-separated, which may be gzipped.

    The files are ``reactions`` (columns reaction, reactants, product: SMARTS), ``blocks`` (block, smiles) and
    ``slots`` (reaction, slot, block: which blocks may stand in which slot, from 0), with the ending ``.csv``,
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
    >>> space = read_space(folder)
    >>> space.reactions[0].name, space.slots_of(0)
    ('amide', [array([0], dtype=int32), array([1], dtype=int32)])
    """
    folder, digest = as_path(path), hashlib.sha256()
    reactions, blocks, slots = (_find(folder, name) for name in _TABLES)
    found: dict[str, Reaction] = {}
    for name, reactants, product in _rows(reactions, ("reaction", "reactants", "product"), digest):
        if name in found:
            raise InputError(f"{reactions} has reaction {name} twice; give each a name of its own.")
        found[name] = Reaction(name, f"{reactants}>>{product}")
    number: dict[str, int] = {}
    smiles: list[str] = []
    for block, text in _rows(blocks, ("block", "smiles"), digest):
        if number.setdefault(block, len(smiles)) < len(smiles):
            raise InputError(f"{blocks} has block {block} twice; give each an ID of its own.")
        smiles.append(text.partition(" ")[0])
    places = _places(slots, found, number, digest)
    return Space(tuple(found.values()), list(number), smiles, places, digest.hexdigest(), folder)


def _places(
    path: PurePath, reactions: dict[str, Reaction], blocks: dict[str, int], digest: hashlib._Hash
) -> dict[tuple[int, int], npt.NDArray[np.int32]]:
    """Return the blocks of each slot."""
    names = {name: r for r, name in enumerate(reactions)}
    found: dict[tuple[int, int], list[int]] = {
        (names[name], slot): [] for name, reaction in reactions.items() for slot in range(len(reaction.slots))
    }
    for name, slot, block in _rows(path, ("reaction", "slot", "block"), digest):
        key = names.get(name, -1), int(slot) if slot.isdecimal() else -1
        if key not in found or block not in blocks:
            what = f"block {block}" if key in found else f"slot {slot} of reaction {name}"
            raise InputError(f"{path} names {what}, which the other tables do not have.")
        found[key].append(blocks[block])
    for (reaction, number), members in found.items():
        place = f"slot {number} of reaction {list(reactions)[reaction]}"
        if not members:
            raise InputError(f"{path} has no blocks for {place}; leave the reaction out.")
        if repeats := len(members) - len(set(members)):
            raise InputError(f"{path} repeats {amount(repeats, 'blocks')} in {place}.")
    return {key: np.sort(np.array(members, np.int32)) for key, members in found.items()}


def _find(folder: PurePath, name: str) -> PurePath:
    with file_errors("read", folder):
        there = backend(folder).names(folder)
    found = [f"{name}{ending}" for ending in _ENDINGS if f"{name}{ending}" in there]
    if len(found) != 1:
        what = f"{' and '.join(found)}; keep one" if found else f"no {name}.csv or {name}.tsv"
        raise InputError(f"{folder} is no space: it has {what}.")
    return folder / found[0]


def _rows(path: PurePath, columns: tuple[str, ...], digest: hashlib._Hash) -> Iterator[list[str]]:
    """Yield some columns of a table; its content, uncompressed, goes into the digest."""
    with file_errors("read", path):
        data = backend(path).read(path)
    if data.startswith(b"\x1f\x8b"):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError) as error:
            raise InputError(f"{path} is damaged: {error}.") from error
    digest.update(path.name.partition(".")[0].encode() + data)
    delimiter = "\t" if ".tsv" in path.name else ","
    rows = csv.reader(io.StringIO(data.decode("utf-8-sig", "replace"), newline=""), delimiter=delimiter)
    header = next(rows, [])
    missing = [column for column in columns if column not in header]
    if missing:
        raise InputError(f"{path} has no column {missing[0]}; its columns are {', '.join(header) or 'none'}.")
    places = [header.index(column) for column in columns]
    for row in rows:
        if row:
            if len(row) <= max(places):
                raise InputError(f"Line {rows.line_num} of {path} has {amount(len(row), 'fields')} only.")
            yield [row[place].strip() for place in places]
