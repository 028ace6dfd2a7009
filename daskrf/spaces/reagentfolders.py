"""Spaces as a folder with the SMARTS of one reaction, and a SMILES file of the reagents of each slot."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from pathlib import PurePath

import numpy as np

from daskrf.errors import InputError
from daskrf.quantities import amount
from daskrf.spaces.reactions import Reaction
from daskrf.spaces.spacetables import Space
from daskrf.spaces.texttable import content
from daskrf.storage.backend import backend
from daskrf.storage.files import file_errors

__all__ = ["has_reagents", "read_reagents"]

_REACTION, _REAGENTS = ".smarts", (".smi", ".smi.gz")


def has_reagents(names: Collection[str]) -> bool:
    """Tell whether a folder of files with these names holds a reaction and its reagents."""
    return any(name.endswith(_REACTION) for name in names)


def read_reagents(folder: PurePath) -> Space:
    """Read a space from a folder with one file ``*.smarts`` and one file ``*.smi`` for each slot.

    The file of SMARTS has one line, ``reactants>>product``. The SMILES files, which may be gzipped, belong to
    the slots in the order of their names; each line has a SMILES and, after a space or a tab, an ID.

    Raises
    ------
    InputError
        If the files do not match the slots, or a file has a reagent twice or none.
    """
    with file_errors("read", folder):
        names = sorted(backend(folder).names(folder), key=_natural)
    reactions = [name for name in names if name.endswith(_REACTION)]
    files = [name for name in names if name.endswith(_REAGENTS)]
    if len(reactions) > 1:
        raise InputError(f"{folder} has {' and '.join(reactions)}; keep one reaction in a folder.")
    data, path = content(folder / reactions[0]), folder / reactions[0]
    lines = data.decode("utf-8-sig", "replace").split()
    if len(lines) != 1 or lines[0].count(">>") != 1:
        raise InputError(f"{path} must have one line, the SMARTS of the reaction: reactants>>product.")
    reaction, digest = Reaction(path.name.removesuffix(_REACTION), lines[0]), hashlib.sha256(data)
    if len(files) != len(reaction.slots):
        raise InputError(
            f"{path} has {amount(len(reaction.slots), 'slots')}, but {folder} has "
            f"{amount(len(files), 'files')} *.smi; give one for each slot, named in their order."
        )
    number: dict[tuple[str, str], int] = {}
    slots = {}
    for slot, name in enumerate(files):
        data = content(folder / name)
        digest.update(b"\0" + data)
        own = [
            number.setdefault((block, smiles), len(number))
            for block, smiles in _reagents(folder / name, data)
        ]
        if not own:
            raise InputError(f"{folder / name} has no reagents.")
        if repeats := len(own) - len(set(own)):
            raise InputError(f"{folder / name} repeats {amount(repeats, 'reagents')}.")
        slots[0, slot] = np.sort(np.array(own, np.int32))
    blocks, smiles = [block for block, _ in number], [text for _, text in number]
    return Space((reaction,), blocks, smiles, slots, digest.hexdigest(), folder)


def _reagents(path: PurePath, data: bytes) -> list[tuple[str, str]]:
    """Return ID and SMILES of each line; reagents without an ID get the name of the file and their line."""
    stem, found = path.name.partition(".")[0], []
    for line, text in enumerate(data.decode("utf-8-sig", "replace").splitlines(), 1):
        smiles, *rest = text.split(None, 1) or [""]
        if smiles and (line > 1 or smiles.lower() != "smiles"):
            found.append((rest[0].strip() if rest else f"{stem}-{line}", smiles))
    return found


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key by which 10 comes after 9."""
    return [(int(digits or 0), letters) for digits, letters in re.findall(r"(\d*)(\D*)", name)]
