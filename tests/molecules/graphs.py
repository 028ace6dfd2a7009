"""SMILES of any graph, and of series of growing molecules."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

Bonds = Sequence[tuple[int, int]]


def smiles_of(bonds: Bonds, atom: str) -> str:
    """Return a SMILES of a graph, all atoms alike: every bond is a ring closure between fragments."""
    numbers: dict[int, str] = dict.fromkeys(range(1 + max(map(max, bonds))), atom)
    for number, (one, other) in enumerate(bonds, 1):
        label = str(number) if number < 10 else f"%{number}" if number < 100 else f"%({number})"
        numbers[one] += label
        numbers[other] += label
    return ".".join(numbers.values())


def clique(atoms: int) -> Bonds:
    """Return the bonds of a complete graph."""
    return list(itertools.combinations(range(atoms), 2))


def bipartite(atoms: int) -> Bonds:
    """Return the bonds of a complete bipartite graph of twice so many atoms."""
    return list(itertools.product(range(atoms), range(atoms, 2 * atoms)))


def lattice(width: int) -> Bonds:
    """Return the bonds of a square lattice."""
    across = [(row * width + k, row * width + k + 1) for row in range(width) for k in range(width - 1)]
    return across + [(k, k + width) for k in range(width * (width - 1))]


def paraphenylene(rings: int) -> str:
    """Return a cycloparaphenylene: benzene rings joined to a hoop, para to each other."""
    return "c1%99ccc(cc1)" + "-c1ccc(cc1)" * (rings - 2) + "-c1ccc%99cc1"


def cyclodextrin(sugars: int) -> str:
    """Return a ring of glucose units, 1 to 4 bound."""
    return "C%991C(CO)OC(C(O)C1O)O" + "C1C(CO)OC(C(O)C1O)O" * (sugars - 2) + "C1C(CO)OC(C(O)C1O)O%99"
