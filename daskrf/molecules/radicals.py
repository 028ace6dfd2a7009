"""Molecules with unpaired electrons, which converters make from files without hydrogens or bond orders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from daskrf.molecules.isolation import each
from daskrf.quantities import amount

_MAY_BE = re.compile(r"\[[A-Za-z]{1,2}(?:H\d?)?\]")  # a neutral atom in brackets, with its hydrogens
_SHOWN = 60  # characters of an example
_MANY = 0.5


def note_on_radicals(smiles: Iterable[str], what: str) -> str:
    """Return a note on the molecules with unpaired electrons, or "" if there are none.

    Parameters
    ----------
    smiles : iterable of str
    what : str
        Which molecules they are, such as "of the labelled molecules".

    Examples
    --------
    >>> note_on_radicals(["C[CH2]", "c1cc[nH]c1", "[CH3][CH3]"], "of the labelled molecules")
    "1 molecule of the labelled molecules has unpaired electrons (radicals), such as 'C[CH2]'"
    """
    return words_on_radicals(radicals_among(smiles), what)


@dataclass(frozen=True)
class Radicals:
    """How many of some molecules have unpaired electrons, and the first of them.

    Attributes
    ----------
    n_molecules, n_radicals : int
    place : int
        Place of the first radical among the molecules; -1 if there is none.
    example : str
    """

    n_molecules: int
    n_radicals: int
    place: int
    example: str


def radicals_among(smiles: Iterable[str]) -> Radicals:
    """Return the radicals among some molecules.

    Examples
    --------
    >>> radicals_among(["c1cc[nH]c1", "C[CH2]"])
    Radicals(n_molecules=2, n_radicals=1, place=1, example='C[CH2]')
    """
    n_smiles, suspects, places = 0, [], []
    for text in smiles:
        if _MAY_BE.search(text):
            suspects.append(text)
            places.append(n_smiles)
        n_smiles += 1
    results = each("daskrf.molecules.counts.counter:radical_finder", (), suspects)
    radicals = [at for at, one in enumerate(results) if one is True]
    if not radicals:
        return Radicals(n_smiles, 0, -1, "")
    return Radicals(n_smiles, len(radicals), places[radicals[0]], suspects[radicals[0]])


def words_on_radicals(radicals: Radicals, what: str) -> str:
    """Return `note_on_radicals` of counted radicals."""
    n_radicals = radicals.n_radicals
    if not n_radicals:
        return ""
    has = "has" if n_radicals == 1 else "have"
    note = (
        f"{amount(n_radicals, 'molecules')} {what} {has} unpaired electrons (radicals), such as "
        f"'{radicals.example[:_SHOWN]}'"
    )
    if n_radicals > max(1, _MANY * radicals.n_molecules):
        note += (
            ": hydrogens or bond orders are missing, as after conversion of PDBQT by Open Babel, and "
            "predictions would be for the radicals; export the poses with Meeko (mk_export.py), or take the "
            "SMILES from the column 'REMARK SMILES' if the SD file has one"
        )
    return note
