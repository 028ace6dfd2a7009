"""Spaces as a folder with the SMARTS of one reaction and a file of reagents for each slot."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import PurePath

import numpy as np

from daskrf.errors import InputError, printable
from daskrf.files.backend import backend
from daskrf.files.disk import file_errors
from daskrf.molecules.structures import same_names
from daskrf.quantities import amount
from daskrf.spaces.reactions import Reaction
from daskrf.spaces.spacetables import Space
from daskrf.spaces.texttable import content, natural_order
from daskrf.tables import lay_out, read_partition, scan_files

_REACTION = ".smarts"
_ID = "id"

Reagents = list[tuple[str, str]]
"""ID and SMILES of each reagent of a file."""


def has_reagents(names: Collection[str]) -> bool:
    """Tell whether a folder of files with these names holds a reaction and its reagents."""
    return any(name.endswith(_REACTION) for name in names)


def read_reagents(folder: PurePath) -> Space:
    """Read a space from a folder with one file ``*.smarts`` and one file of reagents for each slot.

    The file of SMARTS has one line, ``reactants>>product``. Every other file holds the reagents of a slot, in
    the order of the files' names and in any format of libraries: 10 comes after 9, and hidden files are
    ignored. A structure that a file repeats, under the same ID or another, is one reagent: it has the SMILES
    and the ID of its first line, and `Space.notes` counts the others.

    Raises
    ------
    InputError
        If the files do not match the slots, a reagent cannot be read, or two different reagents have the same
        ID.
    """
    with file_errors("read", folder):
        names = sorted(backend(folder).names(folder), key=natural_order)
    names = [name for name in names if not name.startswith(".")]
    reactions = [name for name in names if name.endswith(_REACTION)]
    files = [name for name in names if name not in reactions]
    if len(reactions) > 1:
        raise InputError(f"{folder} has {' and '.join(reactions)}; keep one reaction per folder.")
    data, path = content(folder / reactions[0]), folder / reactions[0]
    lines = data.decode("utf-8-sig", "replace").split()
    if len(lines) != 1 or lines[0].count(">>") != 1:
        raise InputError(f"{path} must have one line, the SMARTS of the reaction: reactants>>product.")
    reaction, digest = Reaction(path.name.removesuffix(_REACTION), lines[0]), hashlib.sha256(data)
    if len(files) != len(reaction.slots):
        raise InputError(
            f"{path} has {amount(len(reaction.slots), 'slots')}, but {folder} has "
            f"{amount(len(files), 'files')} of reagents; give one for each slot, named in their order."
        )
    listed = [_reagents(folder / name) for name in files]
    structures = _structures(folder, listed)
    number: dict[str, int] = {}
    smiles: list[str] = []
    slots, merged = {}, []
    for slot, (name, reagents) in enumerate(zip(files, listed, strict=True)):
        digest.update(repr(reagents).encode())
        first: dict[str, str] = {}  # the ID of the first reagent of each structure
        for block, text in reagents:
            if first.setdefault(structures[block], block) == block and block not in number:
                number[block] = len(smiles)
                smiles.append(text)
        slots[0, slot] = np.sort(np.array([number[block] for block in first.values()], np.int32))
        if len(first) < len(reagents):
            digest.update(repr(slots[0, slot].tolist()).encode())  # products have other numbers than if kept
            merged.append(_merging(name, [block for block, _ in reagents], structures, first))
    return Space((reaction,), list(number), smiles, slots, digest.hexdigest(), folder, tuple(merged))


def _structures(folder: PurePath, listed: Sequence[Reagents]) -> dict[str, str]:
    """Return the canonical SMILES of each ID; refuse an ID of several structures."""
    every = [*chain.from_iterable(listed)]
    structures: dict[str, str] = {}
    for (block, _), name in zip(every, same_names(text for _, text in every), strict=True):
        if structures.setdefault(block, name) != name:
            raise InputError(
                f"{folder} has several reagents named {printable(block, 60)}; give each its own ID."
            )
    return structures


def _merging(
    name: str, blocks: Sequence[str], structures: Mapping[str, str], first: Mapping[str, str]
) -> str:
    """Say how many reagents of a file repeat the structure of an earlier one."""
    renamed = [block for block in blocks if first[structures[block]] != block]
    example = ""
    if renamed:
        same = first[structures[renamed[0]]]
        example = (
            f" ({len(renamed):,} with another ID, such as {printable(renamed[0], 60)} for "
            f"{printable(same, 60)})"
        )
    count = amount(len(blocks) - len(first), "reagents")
    return f"{name} repeats {count}{example}: each structure counts once, by its first ID"


def _reagents(path: PurePath) -> Reagents:
    """Return ID and SMILES of each reagent; without an ID, it is named by its file and line."""
    files = [
        (file, layout if layout.id is None else replace(layout, extra=((_ID, layout.id),)))
        for file, layout in lay_out([path])
    ]
    library, stem = scan_files(files), path.name.partition(".")[0]
    reagents: Reagents = []
    for p in range(len(library.partitions)):
        for batch in read_partition(library, p):
            for reject in batch.rejects:
                raise InputError(f"Line {reject.line} of {path} cannot be used: {reject.reason}.")
            cells = batch.extra.get(_ID, [None] * len(batch.id))  # empty where a reagent has no ID
            rows = zip(batch.id, cells, batch.smiles, batch.line.tolist(), strict=True)
            for name, cell, smiles, line in rows:
                reagents.append((name if (cell or "").strip() else f"{stem}-{line}", smiles))
    return reagents
