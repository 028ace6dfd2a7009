"""Reactions of a space, and how each of their slots turns a building block into a synthon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from rdkit import Chem, rdBase
from rdkit.Chem import rdChemReactions

from daskrf.errors import InputError
from daskrf.quantities import amount
from daskrf.spaces.closures import Ring, rings_of, unsupported

_PLACE = "place"  # the position in the product's template of an atom of a half, or of the atom a dummy is for


@dataclass(frozen=True)
class Half:
    """What a reaction does to the block of one slot: remove leaving groups, mark new bonds by dummy atoms.

    Attributes
    ----------
    smarts : str
        A reaction of one reactant, with the stereochemistry of the product's template. Atoms that the
        reaction adds belong to the first slot that they touch. All atoms of a ring that it makes belong to
        one slot. Empty if the blocks are synthons already.
    hydrogens : bool
        Whether the template names hydrogen atoms, so blocks need explicit ones.
    cuts : tuple of int
        The numbers of the new bonds, which are also the isotopes of the dummy atoms.
    donated : tuple of (int, int), default ()
        Atoms that the block donates to a ring that belongs to another slot: the number of each in `smarts`,
        and the number of the new bond that joins it to the rest of the block, or 0.
    ring : Ring, optional
        Where a ring through several slots may pass through it.
    """

    smarts: str
    hydrogens: bool
    cuts: tuple[int, ...]
    donated: tuple[tuple[int, int], ...] = ()
    ring: Ring | None = None


class _Cut(NamedTuple):
    """A new bond between slots: the product's atom and the slot at each end, and whether the bond is single.

    The atom is None if the template does not name it.
    """

    ends: tuple[tuple[int | None, int], tuple[int | None, int]]
    single: bool


@dataclass(frozen=True)
class Reaction:
    """A reaction as SMARTS with slots.

    Parameters
    ----------
    name : str
    smarts : str
        Templates of the reactants, one per slot, then ``>>`` and the template of the product. Templates of
        several fragments are in parentheses.

    Raises
    ------
    InputError
        If RDKit cannot read the SMARTS.

    Examples
    --------
    >>> amide = Reaction("amide", "[N:1]([H])[*:2].[OH][C:3]=[O:4]>>[*:2][N:1][C:3]=[O:4]")
    >>> amide.refusal, [half.cuts for half in amide.halves]
    ('', [(1,), (1,)])
    """

    name: str
    smarts: str

    def __post_init__(self) -> None:
        with rdBase.BlockLogs():
            try:
                rdChemReactions.ReactionFromSmarts(self.smarts)
            except ValueError as error:
                raise InputError(
                    f"Reaction {self.name}: RDKit cannot read the SMARTS {self.smarts}."
                ) from error

    def __reduce__(self) -> tuple[type[Reaction], tuple[str, str]]:
        return Reaction, (self.name, self.smarts)

    @cached_property
    def rdkit(self) -> rdChemReactions.ChemicalReaction:
        """RDKit's reaction."""
        with rdBase.BlockLogs():
            reaction = rdChemReactions.ReactionFromSmarts(self.smarts)
            reaction.Initialize()
        return reaction

    @cached_property
    def slots(self) -> list[Chem.Mol]:
        """The template of each slot."""
        return list(self.rdkit.GetReactants())

    @property
    def hydrogens(self) -> list[bool]:
        """Whether the template of each slot names hydrogen atoms."""
        return [any(_is_hydrogen(atom) for atom in slot.GetAtoms()) for slot in self.slots]

    @cached_property
    def refusal(self) -> str:
        """Why products of this reaction cannot be assembled from synthons, or an empty string."""
        if not 2 <= len(self.slots) <= 3:
            return f"it has {amount(len(self.slots), 'slots')}; two or three are supported"
        if (n_products := self.rdkit.GetNumProductTemplates()) != 1:
            several = "several products; put the parts of one product in parentheses"
            return f"it has {several if n_products else 'no product'}"
        owners = self._owners
        numbers = [{a.GetAtomMapNum() for a in slot.GetAtoms()} - {0} for slot in self.slots]
        if sum(map(len, numbers)) > len(set().union(*numbers)):
            return "an atom number stands in two slots"
        if -1 in owners.values():
            return "a part of the product is bound to no slot"
        for slot, donated in enumerate(self._donated):
            if slot not in self._homes.values():
                return f"the product has no atom of slot {slot}"
            if not all(self._product.GetAtomWithIdx(atom).GetAtomicNum() for atom in donated):
                return f"slot {slot} gives an atom of any element to a ring"
            if {owners[atom] for atom in donated} - {
                owners[atom] for atom in donated if atom in self._bearing
            }:
                return f"slot {slot} gives atoms to a ring; number the atom it keeps that these are bound to"
        if self._bound_twice:
            return f"slot {self._bound_twice[0]} gives a ring an atom that is bound to two atoms it keeps"
        links = Counter(tuple(sorted(slot for _, slot in cut.ends)) for cut in self._cuts)
        if reason := unsupported(list(links.values()), len(self.slots)):
            return reason
        if not all(cut.single for cut in self._cuts):
            return "it joins slots by a bond that is not single"
        if self._sets_stereo:
            return "it sets the stereochemistry of an atom that a slot gives to a ring; leave that open"
        return ""

    @cached_property
    def halves(self) -> list[Half]:
        """What the reaction does to the block of each slot; empty if it is refused."""
        if self.refusal:
            return []
        halves = [self._half(slot) for slot in range(len(self.slots))]
        rings = rings_of([half.cuts for half in halves])
        return [replace(half, ring=ring) for half, ring in zip(halves, rings, strict=True)]

    @cached_property
    def _product(self) -> Chem.Mol:
        return self.rdkit.GetProductTemplate(0)

    @cached_property
    def _homes(self) -> dict[int, int]:
        """The slot that each atom of the product comes from; -1 if the reaction adds it."""
        home = {atom.GetAtomMapNum(): s for s, slot in enumerate(self.slots) for atom in slot.GetAtoms()}
        home.pop(0, None)
        return {atom.GetIdx(): home.get(atom.GetAtomMapNum(), -1) for atom in self._product.GetAtoms()}

    @cached_property
    def _owners(self) -> dict[int, int]:
        """The slot that each atom of the product belongs to: its origin, or the first slot it touches.

        A ring that the reaction makes belongs to one slot as a whole.
        """
        owners, rings = dict(self._homes), _ring_systems(self._product)
        while True:
            for ring in rings:
                if any(owners[atom] >= 0 for atom in ring):
                    owners |= dict.fromkeys(ring, self._owner(ring, owners))
            added = {}
            for atom in (atom for atom, owner in owners.items() if owner < 0):
                if owned := [owners[n] for n in self._touched[atom] if owners[n] >= 0]:
                    added[atom] = min(owned)
            if not added:
                return owners
            owners |= added

    def _owner(self, ring: set[int], owners: Mapping[int, int]) -> int:
        """Return the slot that a ring belongs to, among the slots of its atoms so far.

        It is the slot with most atoms for which the other slots can donate theirs: one atom of each of these
        is bound to the rest of its block.
        """
        atoms = Counter(owners[atom] for atom in ring if owners[atom] >= 0)
        exits = Counter(
            owners[atom] for atom in ring for n in self._touched[atom] - ring if owners[n] == owners[atom]
        )
        order = sorted(atoms, key=lambda slot: (-atoms[slot], slot))
        for slot in order:
            others = atoms.keys() - {slot}
            if all(exits[other] == 1 or (not exits[other] and atoms[other] == 1) for other in others):
                return slot
        return order[0]

    @cached_property
    def _touched(self) -> list[set[int]]:
        """The neighbours of each atom of the product."""
        return [{n.GetIdx() for n in atom.GetNeighbors()} for atom in self._product.GetAtoms()]

    @cached_property
    def _donated(self) -> list[list[int]]:
        """For each slot, its atoms in rings that belong to another slot."""
        homes, owners = self._homes, self._owners
        return [[a for a, home in homes.items() if home == s != owners[a]] for s in range(len(self.slots))]

    @cached_property
    def _cuts(self) -> list[_Cut]:
        """The new bonds between slots."""
        owners, cuts = self._owners, []
        for bond in self._product.GetBonds():
            ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            if owners[ends[0]] != owners[ends[1]]:
                single = bond.GetBondType() == Chem.BondType.SINGLE
                cuts.append(_Cut(((ends[0], owners[ends[0]]), (ends[1], owners[ends[1]])), single))
        for slot, donated in enumerate(self._donated):
            if (
                slot not in owners.values() and len(donated) == 1
            ):  # the rest of the block is bound to this atom
                cuts += [_Cut(((donated[0], owners[donated[0]]), (None, slot)), True)]
        return cuts

    @cached_property
    def _bearing(self) -> dict[int, int]:
        """Donated atoms that are bound to the rest of their block, and the numbers of the cuts between."""
        return dict(self._borne)

    @property
    def _bound_twice(self) -> list[int]:
        """The slots of donated atoms that are bound to two atoms of the rest of their block."""
        times = Counter(atom for atom, _ in self._borne)
        return [self._homes[atom] for atom, count in times.items() if count > 1]

    @property
    def _borne(self) -> list[tuple[int, int]]:
        ends = [(cut.ends, number) for number, cut in enumerate(self._cuts, 1)]
        ends += [(pair[::-1], number) for pair, number in ends]
        return [
            (atom, number)
            for ((atom, _), (_, slot)), number in ends
            if atom is not None and self._homes[atom] == slot
        ]

    @property
    def _sets_stereo(self) -> bool:
        """Whether the product's template has stereochemistry at a donated atom: both halves would set it."""
        atoms = [self._product.GetAtomWithIdx(atom) for atom in set[int]().union(*self._donated)]
        bonds = [bond for atom in atoms for bond in atom.GetBonds()]
        return any(atom.GetChiralTag() for atom in atoms) or any(bond.GetBondDir() for bond in bonds)

    def _half(self, slot: int) -> Half:
        """Return the half of a slot: the product's template without the other slots."""
        edited, owners, cuts = Chem.RWMol(self._product), self._owners, []
        for position in owners:
            edited.GetAtomWithIdx(position).SetIntProp(_PLACE, position)
        donated = {atom: self._bearing.get(atom, 0) for atom in self._donated[slot]}
        edited.BeginBatchEdit()
        for number, cut in enumerate(self._cuts, 1):
            for (here, owner), (there, _) in (cut.ends, cut.ends[::-1]):
                if owner == slot:
                    cuts.append(number)
                    if here is not None and there not in donated:
                        dummy = Chem.AtomFromSmarts(f"[{number}*]")
                        if there is not None:
                            dummy.SetIntProp(_PLACE, there)
                        edited.AddBond(here, edited.AddAtom(dummy), Chem.BondType.SINGLE)
        for atom in donated:
            replacement = _any_element(self._product.GetAtomWithIdx(atom))
            replacement.SetIntProp(_PLACE, atom)
            edited.ReplaceAtom(atom, replacement)
        for bond in self._product.GetBonds():
            ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
            if set(ends) <= donated.keys():
                edited.RemoveBond(*ends)
        for atom, owner in owners.items():
            if owner != slot and atom not in donated:
                edited.RemoveAtom(atom)
        edited.CommitBatchEdit()
        _set_stereo(edited, self._product, [atom for atom, owner in owners.items() if owner == slot])
        block, order = Chem.Mol(self.slots[slot]), dict[int, int]()
        for atom in block.GetAtoms():  # numbers by position, so that reactions can share halves
            if number := atom.GetAtomMapNum():
                order[number] = len(order) + 1
                atom.SetAtomMapNum(order[number])
        for atom in edited.GetAtoms():
            atom.SetAtomMapNum(order.get(atom.GetAtomMapNum(), 0))
        numbers = [atom.GetAtomMapNum() for atom in edited.GetAtoms()]
        left = Chem.RenumberAtoms(
            edited, sorted(range(len(numbers)), key=lambda i: (not numbers[i], numbers[i]))
        )
        smarts = f"({Chem.MolToSmarts(block)})>>({Chem.MolToSmarts(left)})"
        behind = [
            (order[self._product.GetAtomWithIdx(a).GetAtomMapNum()], number) for a, number in donated.items()
        ]
        return Half(smarts, self.hydrogens[slot], tuple(cuts), tuple(sorted(behind)))


def _set_stereo(half: Chem.RWMol, product: Chem.Mol, atoms: Collection[int]) -> None:
    """Give a half the stereochemistry that the product has at some atoms of the half."""
    place = {atom.GetIntProp(_PLACE): atom.GetIdx() for atom in half.GetAtoms() if atom.HasProp(_PLACE)}
    for source in (product.GetAtomWithIdx(atom) for atom in atoms):
        if source.GetChiralTag():
            centre = half.GetAtomWithIdx(place[source.GetIdx()])
            before = [place[neighbour.GetIdx()] for neighbour in source.GetNeighbors()]
            after = [neighbour.GetIdx() for neighbour in centre.GetNeighbors()]
            centre.SetChiralTag(source.GetChiralTag())
            # The tag counts on the order of bonds, and those to dummy atoms now come last.
            if sum(after.index(a) > after.index(b) for a, b in combinations(before, 2)) % 2:
                centre.InvertChirality()
    for bond in product.GetBonds():
        ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        sides = list(bond.GetStereoAtoms())
        if sides and set(ends) <= set(atoms):
            double = half.GetBondBetweenAtoms(*(place[end] for end in ends))
            double.SetStereoAtoms(*(place[side] for side in sides))
            double.SetStereo(bond.GetStereo())


def _ring_systems(molecule: Chem.Mol) -> list[set[int]]:
    """Return the atoms of each ring system of a template: rings that share atoms are one system."""
    systems: list[set[int]] = []
    for ring in map(set, Chem.GetSSSR(Chem.Mol(molecule))):
        apart = [system for system in systems if system.isdisjoint(ring)]
        systems = [*apart, ring.union(*(system for system in systems if system not in apart))]
    return systems


def _any_element(atom: Chem.Atom) -> Chem.Atom:
    """Return a template's atom without its element; RDKit then keeps the element of the block's atom."""
    # RDKit also keeps the charge of the block's atom, unless the template has one.
    charge = "+0" if atom.HasProp("_QueryFormalCharge") else ""
    return Chem.AtomFromSmarts(f"[*{charge}:{atom.GetAtomMapNum()}]")


def _is_hydrogen(atom: Chem.Atom) -> bool:
    """Whether an atom of a template is a hydrogen atom, as ``[H]`` or ``[H:3]``."""
    return atom.GetAtomicNum() == 1 or atom.GetSmarts().startswith(("[H]", "[H:"))
