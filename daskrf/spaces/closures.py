"""Rings that a product has because two slots are joined by two bonds, or three slots to each other.

If the ends of its two bonds stay connected in each of these synthons, the product has a ring through all. Its
atoms are then in a ring, which Morgan environments count. Which atoms these are follows from each synthon
alone: those on a path between its two ends. So environments that see such an atom are counted like those that
reach over a cut. Nothing else may change: an atom of more than three bonds is never aromatic, so no new ring
is if all paths of one of the synthons have such an atom. Synthons that fall apart between the ends close no
ring.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise, product
from typing import NamedTuple

from rdkit import Chem

_CARBON = 6
_LONGEST = 3  # paths of more atoms are alike in what they exclude
_MOST_SLOTS = 3  # of a reaction
_LINKERS = (1, 2, 8)  # atoms of the chains that stand for a partner

APART = "it falls apart between its two new bonds, as other blocks do"
CONJUGATED = "the ring that it closes with other blocks may be aromatic"
SMALL = "it closes a ring of three atoms or fewer with other blocks"
AROMATICITY = "its aromaticity changes if a ring is closed between its two new bonds"


class Ring(NamedTuple):
    """Where a ring may pass through a slot.

    Attributes
    ----------
    cuts : (int, int)
        The numbers of the new bonds at which it enters and leaves.
    slots : int
        How many slots it passes through.
    """

    cuts: tuple[int, int]
    slots: int


class Closure(NamedTuple):
    """What a synthon is between the two cuts of a `Ring`.

    Attributes
    ----------
    length : int
        Atoms on the shortest path between the cuts; 0 if the synthon falls apart there.
    saturated : bool
        Whether all paths have an atom that cannot be aromatic.
    in_ring : frozenset of int
        Atoms that are in a ring only if the partners close it.
    """

    length: int
    saturated: bool
    in_ring: frozenset[int]

    @property
    def kind(self) -> tuple[int, bool]:
        """All that decides with which partners the synthon makes products."""
        return min(self.length, _LONGEST), self.saturated


def rings_of(cuts: Sequence[Sequence[int]]) -> list[Ring | None]:
    """Return, for each slot, where a ring may pass through it; None where no ring does.

    Parameters
    ----------
    cuts : sequence of sequence of int
        The numbers of the new bonds of each slot.

    Examples
    --------
    >>> rings_of([(1, 2), (1, 2, 3), (3,)])
    [Ring(cuts=(1, 2), slots=2), Ring(cuts=(1, 2), slots=2), None]
    >>> rings_of([(1, 2), (1, 3), (2, 3)])[1]
    Ring(cuts=(1, 3), slots=3)
    >>> rings_of([(1,), (1, 2), (2,)])
    [None, None, None]
    """
    shared = [[n for n in here if any(n in there for there in cuts if there is not here)] for here in cuts]
    if len(cuts) == _MOST_SLOTS and all(len(of) == 2 for of in shared) and len(set().union(*shared)) == 3:
        return [Ring((min(of), max(of)), len(cuts)) for of in shared]
    for slot, here in enumerate(cuts):
        for other in range(slot + 1, len(cuts)):
            if len(common := sorted({*here} & {*cuts[other]})) == 2:
                ring = Ring((common[0], common[1]), 2)
                return [ring if place in (slot, other) else None for place in range(len(cuts))]
    return [None] * len(cuts)


def unsupported(n_bonds: Sequence[int], n_slots: int) -> str:
    """Return why slots that are joined in this way have no products that compose, or an empty string.

    Parameters
    ----------
    n_bonds : sequence of int
        Number of bonds between each pair of slots.
    n_slots : int

    Examples
    --------
    >>> unsupported([2, 1, 0], 3)
    ''
    >>> unsupported([1, 1, 1], 3)
    ''
    >>> unsupported([2, 1, 1], 3)
    'two slots are joined by 2 bonds, and both to the third; of each pair, one bond is supported'
    """
    if sum(map(bool, n_bonds)) < n_slots - 1:
        return "its slots are not all joined"
    if max(n_bonds) <= 2 and sum(n_bonds) <= n_slots:
        return ""
    most = max(n_bonds)
    if sum(map(bool, n_bonds)) == n_slots > 2:
        return (
            f"two slots are joined by {most} bonds, and both to the third; of each pair, one bond is "
            "supported"
        )
    bonds = f"two slots are joined by {most} bonds" if most > 2 else "two pairs of slots have two bonds"
    return f"{bonds}; one, or two of one pair of slots, are supported"


def closure_of(molecule: Chem.Mol, dummies: tuple[int, int]) -> Closure | str:
    """Return what a synthon is between two of its dummy atoms, or why it cannot be part of a ring.

    Examples
    --------
    >>> closure_of(Chem.MolFromSmiles("[1*]CCC[2*]"), (0, 4)).kind
    (3, True)
    >>> closure_of(Chem.MolFromSmiles("[1*]C.[2*]C"), (0, 2)).kind
    (0, False)
    """
    first, last = (molecule.GetAtomWithIdx(dummy).GetNeighbors()[0].GetIdx() for dummy in dummies)
    path = [first] if first == last else list(Chem.GetShortestPath(molecule, first, last))
    if not path:
        return Closure(0, False, frozenset())
    atoms = [atom.GetIdx() for atom in molecule.GetAtoms() if atom.GetIdx() not in dummies]
    bonds = [pair for bond in molecule.GetBonds() if not {*(pair := _ends(bond))} & {*dummies}]
    rings: set[frozenset[int]] = set()
    for n_atoms in _LINKERS:
        if n_atoms > 1 or first != last:
            ring = closed(molecule, dummies, n_atoms)
            if any(_is_aromatic(molecule, pair) != _is_aromatic(ring, pair) for pair in bonds):
                return AROMATICITY
            rings.add(frozenset(a for a in atoms if _in_ring(ring, a) != _in_ring(molecule, a)))
    assert len(rings) == 1  # the length of the chain decides nothing
    return Closure(len(path), _is_saturated(molecule, path), rings.pop())


def closed(molecule: Chem.Mol, dummies: tuple[int, int], n_atoms: int) -> Chem.Mol:
    """Return a synthon whose two dummy atoms are replaced by a chain of carbon atoms, which closes the ring.

    The first atoms of the result are those of the synthon. Of a chain of one atom, the second dummy atom
    stands apart.

    Examples
    --------
    >>> Chem.MolToSmiles(closed(Chem.MolFromSmiles("[1*]OCO[2*]"), (0, 4), 3))
    'C1COCOC1'
    """
    ring = Chem.RWMol(molecule)
    chain = list(dummies)
    chain[1:1] = [ring.AddAtom(Chem.Atom(_CARBON)) for _ in range(n_atoms - 2)]
    if n_atoms == 1:
        chain[1] = ring.GetAtomWithIdx(dummies[1]).GetNeighbors()[0].GetIdx()
        ring.RemoveBond(chain[1], dummies[1])
    for one, other in pairwise(chain):
        ring.AddBond(one, other, Chem.BondType.SINGLE)
    for dummy in dummies:
        atom = ring.GetAtomWithIdx(dummy)
        atom.SetAtomicNum(_CARBON)
        atom.SetIsotope(0)
        atom.SetNoImplicit(False)
    Chem.SanitizeMol(ring)
    return ring.GetMol()


def clashes(kinds: Sequence[Counter[tuple[int, bool]]]) -> list[dict[tuple[int, bool], str]]:
    """Return, for slots that close rings, which kinds of synthons are left out, and why.

    Of kinds that do not go together, that of fewest blocks is left out; where synthons fall apart, of those
    that do.

    Parameters
    ----------
    kinds : sequence of Counter
        Number of blocks of each `Closure.kind`, by slot.

    Examples
    --------
    >>> some = Counter({(0, False): 90, (3, False): 5, (3, True): 5})
    >>> clashes([Counter({(3, False): 50}), some])
    [{}, {(3, False): 'the ring that it closes with other blocks may be aromatic'}]
    """
    dropped: list[dict[tuple[int, bool], str]] = [{} for _ in kinds]
    for each in product(*map(sorted, kinds)):
        if (reason := _clash(each)) and not any(map(dict.__contains__, dropped, each)):
            numbers = [of[kind] for of, kind in zip(kinds, each, strict=True)]
            at_fault = [slot for slot, (length, _) in enumerate(each) if reason != APART or not length]
            slot = max(at_fault, key=lambda slot: (-numbers[slot], slot))
            dropped[slot][each[slot]] = reason
    return dropped


def _clash(kinds: Sequence[tuple[int, bool]]) -> str:
    """Return why synthons of some kinds have no product that composes, or an empty string."""
    lengths = [length for length, _ in kinds]
    if lengths.count(0) > 1:
        return APART
    if not all(lengths):
        return ""
    if sum(lengths) <= _LONGEST:
        return SMALL
    return "" if any(saturated for _, saturated in kinds) else CONJUGATED


def _ends(bond: Chem.Bond) -> tuple[int, int]:
    return bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()


def _is_aromatic(molecule: Chem.Mol, ends: tuple[int, int]) -> bool:
    return bool(molecule.GetBondBetweenAtoms(*ends).GetIsAromatic())


def _in_ring(molecule: Chem.Mol, atom: int) -> bool:
    return bool(molecule.GetAtomWithIdx(atom).IsInRing())


def _is_saturated(molecule: Chem.Mol, path: Sequence[int]) -> bool:
    """Whether all paths between the ends of one have an atom of more than three bonds, hydrogens included."""
    full = (atom for atom in path if molecule.GetAtomWithIdx(atom).GetTotalDegree() > 3)
    return any(path[-1] not in _around(molecule, path[0], atom) for atom in full)


def _around(molecule: Chem.Mol, start: int, without: int) -> set[int]:
    """Return the atoms that are connected to an atom if another one is taken away."""
    reached, new = {without}, {start} - {without}
    while new:
        reached |= new
        new = {n.GetIdx() for atom in new for n in molecule.GetAtomWithIdx(atom).GetNeighbors()} - reached
    return reached - {without}
