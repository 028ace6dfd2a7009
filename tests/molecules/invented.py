"""Texts that look like SMILES, and conjugated ring systems that no library holds."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict

from rdkit import Chem

_PLAIN = [*"CCCCNOccnosSPFIB", "Cl", "Br"]
_BOXED = [*"CNOSPFIBcnosCNcn", "Cl", "Br", "Si", "Se", "se"]
_HYDROGENS = ["", "", "", "", "H", "H", "H2", "H3", "H0", "H4", "H6", "HH", "H01"]
_CHARGES = ["", "", "", "", "+", "+", "-", "-", "+2", "-2", "++", "--", "+0", "+3", "+++", "+-", "-4"]
_WORDS = """
    [H] [H][H] * [Fe] [2H] b p [te] [b-] [H+] si [#6] [0C] [13C] [C:1] [C@?] [C@@@] () ( ) .. \0
"""
_RARE = _WORDS.split()
_BONDS = ["", "", "", "", "", "", "", "", "-", "=", "=", "#", ":", "/", "\\"]
_RARE_BONDS = ["~", "$", "->", "\\\\", "//", "==", "-=", " "]
_NUMBERS = ["0", "1", "1", "2", "3", "9", "%10", "%99", "%01", "%(11)"]
_RING_SIZES = [4, 5, 5, 5, 5, 6, 6, 6, 6, 6, 7, 7, 8, 9, 12]
_SHARED_BONDS = [1, 1, 1, 1, 1, 1, 2, 2, 3, 4, 5]
_RING_ATOMS = [*"nnnosNOSBCC", "n+", "n+", "[nH]", "[nH]", "[se]", "[c-]", "[c+]"]
_RING_ATOMS += ["c=O", "c=O", "c=N", "c=C", "C=O", "s=O", "S=O"]
_AROMATIC, _SINGLE, _DOUBLE = Chem.BondType.AROMATIC, Chem.BondType.SINGLE, Chem.BondType.DOUBLE


def sentence(draw: random.Random) -> str:
    """Return a text of atoms, bonds, branches and closures, most often of valid syntax."""
    opened: dict[str, str] = {}
    text = _chain(draw, draw.choice([1, 2, 3, 4, 6, 8, 12]), opened, 0)
    for number, bond in opened.items() if draw.random() < 0.95 else ():
        text += draw.choice(["C", "c", "N", "n", "CC", "cc"]) + draw.choice(["", bond]) + number
    return text


def _chain(draw: random.Random, n_atoms: int, opened: dict[str, str], depth: int) -> str:
    text = ""
    for i in range(n_atoms):
        if i or depth:
            text += draw.choice(_RARE_BONDS if draw.random() < 0.005 else _BONDS)
        text += _atom(draw)
        while draw.random() < 0.25:
            number = draw.choice([*opened, *opened, *_NUMBERS])
            if number in opened:
                text += draw.choice(["", opened.pop(number)]) + number
            else:
                opened[number] = draw.choice(_BONDS)
                text += opened[number] + number
        if draw.random() < 0.2 and depth < 4:
            text += f"({_chain(draw, draw.randint(1, 4), opened, depth + 1)})"
        if draw.random() < 0.03 and depth == 0 and i < n_atoms - 1:
            text += "."
    return text


def _atom(draw: random.Random) -> str:
    if draw.random() < 0.01:
        return draw.choice(_RARE)
    if draw.random() < 0.75:
        return draw.choice(_PLAIN)
    chirality = draw.choice(["", "", "", "@", "@@"])
    return f"[{draw.choice(_BOXED)}{chirality}{draw.choice(_HYDROGENS)}{draw.choice(_CHARGES)}]"


def ring_system(draw: random.Random) -> str:
    """Return rings fused by bonds or bridged, most in lower case, with saturated rings around, in any order.

    RDKit accepts one in three.
    """
    bonds = _fused(draw)
    degrees = Counter(i for bond in bonds for i in bond)
    molecule, pendant = Chem.RWMol(), []
    share, substituted = draw.choice([0, 0.05, 0.2, 0.4]), draw.choice([0, 0.1, 0.3])
    for i in range(len(degrees)):
        text = draw.choice(_RING_ATOMS) if draw.random() < share else "c"
        (atom,) = Chem.MolFromSmiles(text[: 4 if text[0] == "[" else 1], sanitize=False).GetAtoms()
        if text == "n+":
            atom.SetFormalCharge(1)
        molecule.AddAtom(atom)
        if degrees[i] == 2 and "=" in text:
            pendant.append((i, text[-1], _DOUBLE))
        elif degrees[i] == 2 and (text == "n+" or draw.random() < substituted):
            pendant.append((i, "C", _SINGLE))
    for one, other in draw.sample(bonds, len(bonds)):
        lower = all(molecule.GetAtomWithIdx(i).GetIsAromatic() for i in (one, other))
        molecule.AddBond(one, other, _AROMATIC if lower and draw.random() < 0.97 else _SINGLE)
    for i, symbol, order in pendant:
        molecule.AddBond(i, molecule.AddAtom(Chem.Atom(symbol)), order)
    for _ in range(draw.choice([0, 0, 0, 1, 2, 3])):
        _attach(draw, molecule, bonds)
    for bond in molecule.GetBonds():
        bond.SetIsAromatic(bond.GetBondType() == _AROMATIC)
    return str(Chem.MolToRandomSmilesVect(molecule, 1, randomSeed=draw.randrange(1, 2**31))[0])


def _fused(draw: random.Random) -> list[tuple[int, int]]:
    """Return the bonds of one to seven rings, each of which shares a path with the others."""
    size = draw.choice(_RING_SIZES)
    bonds = {(i, (i + 1) % size) for i in range(size)}
    for _ in range(draw.randrange(7)):
        near = defaultdict(list)
        for one, other in sorted(bonds):
            near[one].append(other)
            near[other].append(one)
        path = [draw.choice(sorted(near))]
        for _ in range(draw.choice(_SHARED_BONDS)):
            following = [i for i in near[path[-1]] if i not in path]
            path += draw.sample(following, min(1, len(following)))
        ends = path[0], path[-1]
        if ends[0] == ends[1] or max(len(near[end]) for end in ends) > 2:
            continue
        new = range(len(near), len(near) + max(0, draw.choice(_RING_SIZES) - len(path)))
        chain = [ends[0], *new, ends[1]]
        if len(chain) > 2 or ends[1] not in near[ends[0]]:
            bonds |= set(itertools.pairwise(chain))
    return sorted(bonds)


def _attach(draw: random.Random, molecule: Chem.RWMol, bonds: list[tuple[int, int]]) -> None:
    """Bind a saturated chain to the ends of a bond, or to any two atoms."""
    one, other = draw.choice(bonds) if draw.random() < 0.8 else (draw.choice(bonds)[0], draw.choice(bonds)[1])
    if one == other or max(molecule.GetAtomWithIdx(i).GetDegree() for i in (one, other)) > 2:
        return
    last = one
    for _ in range(draw.randint(2, 5)):
        following = molecule.AddAtom(Chem.Atom("C"))
        molecule.AddBond(last, following, _SINGLE)
        last = following
    molecule.AddBond(last, other, _SINGLE)
