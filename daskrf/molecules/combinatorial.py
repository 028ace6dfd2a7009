"""Whether molecules are products of a few building blocks, as their substituents tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from daskrf import seeds
from daskrf.molecules.isolation import Lost, each

FEWEST = 100
"""Molecules: of fewer, a block that several share may be chance."""

_SOME = 500  # molecules looked at
_LEAST_ATOMS = 4  # of a substituent: smaller ones are common everywhere
_OFTEN = 4  # molecules with the same substituent
_SHARE = 0.9  # of the molecules with such a one: 0.64 to 0.83 in libraries of vendors and of ChEMBL


def are_combinatorial(smiles: Sequence[str]) -> bool:
    """Return whether nearly all molecules share a large substituent with several others.

    In a space with a slot of few blocks, each molecule has one of these as a substituent. Of 500 random
    molecules, 90 % have to have a substituent of at least four heavy atoms that three others have, too.

    Parameters
    ----------
    smiles : sequence of str
        Of fewer than 100, False is returned. Those that cannot be read, or have no such substituent, do not
        count.

    Examples
    --------
    >>> amines = [f"CCC(=O)N{chain * 'C'}c1ccc{ring}1" for chain in range(5) for ring in ("cc", "nc", "s")]
    >>> acids = [f"{'C' * n}C(=O)" for n in range(1, 12)]
    >>> are_combinatorial([acid + amine.removeprefix("CCC(=O)") for acid in acids for amine in amines])
    True
    """
    if len(smiles) < FEWEST:
        return False
    order = np.argsort(seeds.words(0, "molecules/combinatorial", len(smiles)), kind="stable")
    texts = [smiles[place] for place in order[:_SOME].tolist()]
    results = each(f"{__name__}:finder", (), texts)
    molecules = [set(sides) for sides in results if not isinstance(sides, Lost) and sides]
    number = Counter(side for sides in molecules for side in sides)
    n_shared = sum(any(number[side] >= _OFTEN for side in sides) for sides in molecules)
    return bool(molecules) and n_shared >= _SHARE * len(molecules)


def finder() -> Callable[[str], list[int]]:
    """Return the function from a SMILES to its large substituents; it runs in a helper process.

    Examples
    --------
    >>> len(finder()("CCCCCCCC"))
    8
    """
    from rdkit import Chem, rdBase

    from daskrf.molecules.counts.costs import refusal_of_rings, refusal_of_text
    from daskrf.molecules.counts.substituents import Substituents

    silence = rdBase.BlockLogs()

    def find(text: str) -> list[int]:
        assert silence is not None  # for the lifetime of the function
        refused = refusal_of_text(text, "keep") or refusal_of_rings(text)
        molecule = None if refused else Chem.MolFromSmiles(text)
        if molecule is None:
            return []
        occurrences = Substituents(molecule).occurrences()
        return [identifier for identifier, atoms in occurrences if len(atoms) >= _LEAST_ATOMS]

    return find
