"""Spaces as one table of synthons, in the format of public make-on-demand spaces."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import PurePath

import numpy as np

from daskrf.errors import InputError, printable
from daskrf.quantities import amount
from daskrf.spaces.attachments import Coupling
from daskrf.spaces.spacetables import Space
from daskrf.spaces.texttable import TextTable, content, natural_order

_COLUMNS = {  # names of columns, by content
    "smiles": ("smiles",),
    "block": ("synton_id", "synthon_id", "id"),
    "slot": ("synton#", "synthon#", "synton_role", "synthon_role", "slot"),
    "reaction": ("reaction_id", "reaction"),
}
_ELEMENTS = ("U", "Np", "Pu", "Am")  # for attachment points 1 to 4, in tables that avoid dummy atoms
_POINT = re.compile(r"\[(?:(\d+)\*(?::\d+)?|\*:(\d+)|(U|Np|Pu|Am))\]")


def is_synthon_table(header: Sequence[str]) -> bool:
    """Tell whether a table with these columns is a table of synthons.

    Examples
    --------
    >>> is_synthon_table(["SMILES", "synton_id", "synton#", "reaction_id", "release"])
    True
    >>> is_synthon_table(["smiles", "id", "reaction"])
    False
    """
    return all(_place(header, what) is not None for what in _COLUMNS)


def read_synthons(path: PurePath) -> Space:
    """Read a space from one table of synthons: SMILES, ID, slot and reaction of each.

    Columns have the names of public make-on-demand spaces: ``SMILES``, ``synton_id`` (or ``synthon_id``),
    ``synton#`` (``synton_role``, ``slot``) and ``reaction_id``, separated by tabs, commas or spaces; others
    are ignored. Attachment points are dummy atoms with numbers, ``[1*]`` or ``[*:1]``, or the elements U, Np,
    Pu and Am for the numbers 1 to 4. Two synthons are joined where they have the same number.

    Parameters
    ----------
    path : path
        The table, which may be gzipped.

    Raises
    ------
    InputError
        If a column is missing, a line is too short, or a synthon is repeated in a slot.
    """
    data = content(path)
    table = TextTable(path, data)
    header = table.header
    places = [_place(header, what) for what in _COLUMNS]
    names = [_COLUMNS[what][0] if i is None else header[i] for what, i in zip(_COLUMNS, places, strict=True)]
    number: dict[tuple[str, str], int] = {}
    members: dict[str, dict[str, list[int]]] = {}
    points: dict[tuple[str, str], Counter[tuple[int, ...]]] = {}
    for smiles, block, slot, reaction in table.rows(names):
        position = number.setdefault((block, smiles), len(number))
        members.setdefault(reaction, {}).setdefault(slot, []).append(position)
        points.setdefault((reaction, slot), Counter())[attachment_points(smiles)] += 1
    if not members:
        raise InputError(f"{path} has no synthons.")
    reactions, slots, repeated = [], {}, dict[str, None]()
    blocks = [block for block, _ in number]
    for r, (reaction, slot_members) in enumerate(members.items()):
        labels = sorted(slot_members, key=natural_order)
        # The attachment points of most synthons of a slot; cutting leaves out the others, and counts them.
        common = [max(points[reaction, label].items(), key=lambda item: item[1])[0] for label in labels]
        reactions.append(Coupling(reaction, tuple(common)))
        for s, label in enumerate(labels):
            if repeats := len(slot_members[label]) - len(set(slot_members[label])):
                raise InputError(
                    f"{path} repeats {amount(repeats, 'synthons')} in slot {label} of reaction {reaction}."
                )
            slots[r, s] = np.sort(np.array(slot_members[label], np.int32))
            times = Counter(blocks[position] for position in slot_members[label])
            repeated |= dict.fromkeys(block for block, count in times.items() if count > 1)
    texts, digest = [text for _, text in number], hashlib.sha256(data).hexdigest()
    return Space(tuple(reactions), blocks, texts, slots, digest, path, _ambiguous(repeated))


def _ambiguous(blocks: Collection[str]) -> tuple[str, ...]:
    """Say which IDs stand for several synthons of a slot."""
    if not blocks:
        return ()
    example = printable(next(iter(blocks)), 60)
    words = f"{amount(len(blocks), 'IDs')} with several synthons in one slot, such as {example}"
    return (f"{words}: their products have the same ID, and different SMILES",)


def attachment_points(smiles: str) -> tuple[int, ...]:
    """Return the numbers of the attachment points of a synthon, ascending.

    Examples
    --------
    >>> attachment_points("O=C([1*])N[*:2]"), attachment_points("[U]c1ccccc1[Np]")
    ((1, 2), (1, 2))
    >>> attachment_points("Fc1cc([1*:1])ccn1")
    (1,)
    """
    points = _POINT.findall(smiles)
    return tuple(
        sorted(int(label or mapped or _ELEMENTS.index(element) + 1) for label, mapped, element in points)
    )


def _place(header: Sequence[str], what: str) -> int | None:
    """Return the position of a column, or None."""
    names = [name.lower() for name in header]
    return next((names.index(alias) for alias in _COLUMNS[what] if alias in names), None)
