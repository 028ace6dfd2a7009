"""Molecules with unpaired electrons, which converters make from files without hydrogens or bond orders."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
    n_smiles, suspects = 0, []
    for text in smiles:
        n_smiles += 1
        if _MAY_BE.search(text):
            suspects.append(text)
    results = each("daskrf.molecules.counts.counter:radical_finder", (), suspects)
    radicals = [text for text, one in zip(suspects, results, strict=True) if one is True]
    if not radicals:
        return ""
    has = "has" if len(radicals) == 1 else "have"
    note = (
        f"{amount(len(radicals), 'molecules')} {what} {has} unpaired electrons (radicals), such as "
        f"'{radicals[0][:_SHOWN]}'"
    )
    if len(radicals) > max(1, _MANY * n_smiles):
        note += (
            ": hydrogens or bond orders are missing, as after conversion of PDBQT by Open Babel, and "
            "predictions would be for the radicals; export the poses with Meeko (mk_export.py), or take the "
            "SMILES from the column 'REMARK SMILES' if the SD file has one"
        )
    return note
