"""Spaces as a folder with the SMARTS of one reaction and a file of reagents for each slot."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection
from pathlib import PurePath

import numpy as np

from daskrf.errors import InputError, printable
from daskrf.files.backend import backend
from daskrf.files.disk import file_errors
from daskrf.quantities import amount
from daskrf.spaces.reactions import Reaction
from daskrf.spaces.spacetables import Space
from daskrf.spaces.texttable import content, natural_order
from daskrf.tables import lay_out, read_partition, scan_files

_REACTION = ".smarts"


def has_reagents(names: Collection[str]) -> bool:
    """Tell whether a folder of files with these names holds a reaction and its reagents."""
    return any(name.endswith(_REACTION) for name in names)


def read_reagents(folder: PurePath) -> Space:
    """Read a space from a folder with one file ``*.smarts`` and one file of reagents for each slot.

    The file of SMARTS has one line, ``reactants>>product``. Every other file holds the reagents of a slot, in
    the order of the files' names and in any format of libraries: 10 comes after 9, and hidden files are
    ignored.

    Raises
    ------
    InputError
        If the files do not match the slots, a reagent cannot be read or is repeated in a file, or two
        reagents have the same ID.
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
    number: dict[tuple[str, str], int] = {}
    slots = {}
    for slot, name in enumerate(files):
        reagents = _reagents(folder / name)
        digest.update(repr(reagents).encode())
        positions = [number.setdefault(reagent, len(number)) for reagent in reagents]
        if repeats := len(positions) - len(set(positions)):
            raise InputError(f"{folder / name} repeats {amount(repeats, 'reagents')}.")
        slots[0, slot] = np.sort(np.array(positions, np.int32))
    blocks, smiles = [block for block, _ in number], [text for _, text in number]
    if shared := [block for block, times in Counter(blocks).items() if times > 1]:
        raise InputError(
            f"{folder} has several reagents named {printable(shared[0], 60)}; give each its own ID."
        )
    return Space((reaction,), blocks, smiles, slots, digest.hexdigest(), folder)


def _reagents(path: PurePath) -> list[tuple[str, str]]:
    """Return ID and SMILES of each reagent; without an ID, it is named by its file and line."""
    library, stem = scan_files(lay_out([path])), path.name.partition(".")[0]
    reagents = []
    for p in range(len(library.partitions)):
        for batch in read_partition(library, p):
            for reject in batch.rejects:
                raise InputError(f"Line {reject.line} of {path} cannot be used: {reject.reason}.")
            rows = zip(batch.id, batch.smiles, batch.row.tolist(), batch.line.tolist(), strict=True)
            for name, smiles, row, line in rows:
                reagents.append((f"{stem}-{line}" if name == f"row-{row}" else name, smiles))
    return reagents
