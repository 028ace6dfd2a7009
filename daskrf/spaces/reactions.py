"""Reactions of a space, and what each of their slots leaves of a building block: its synthon."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rdkit import Chem, rdBase
from rdkit.Chem import rdChemReactions

from daskrf.errors import InputError
from daskrf.quantities import amount

__all__ = ["Half", "Reaction"]


@dataclass(frozen=True)
class Half:
    """What a reaction does to the block of one slot: leaving groups go, numbered dummy atoms mark new bonds.

    Attributes
    ----------
    smarts : str
        A reaction of one reactant. Atoms that the reaction adds belong to the first slot that they touch.
        Empty where the blocks are synthons already.
    hydrogens : bool
        Whether the template names hydrogen atoms, so that blocks need theirs.
    cuts : tuple of int
        The numbers of the new bonds, which are the isotopes of the dummy atoms.
    """

    smarts: str
    hydrogens: bool
    cuts: tuple[int, ...]


@dataclass(frozen=True)
class Reaction:
    """A reaction as SMARTS with slots.

    Parameters
    ----------
    name : str
    smarts : str
        Templates of the reactants, one a slot, ``>>``, and that of the product. What has several parts stands
        in parentheses.

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
            found = rdChemReactions.ReactionFromSmarts(self.smarts)
            found.Initialize()
        return found

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
        """Why products of this reaction do not compose of synthons, or an empty string."""
        if not 2 <= len(self.slots) <= 3:
            return f"it has {amount(len(self.slots), 'slots')}; two or three are supported"
        if self.rdkit.GetNumProductTemplates() != 1:
            return "it has several products; put the parts of one product in parentheses"
        owners = self._owners
        numbers = [{a.GetAtomMapNum() for a in slot.GetAtoms()} - {0} for slot in self.slots]
        if sum(map(len, numbers)) > len(set().union(*numbers)):
            return "an atom number stands in two slots"
        if -1 in owners.values():
            return "a part of the product is bound to no slot"
        lost = [s for s in range(len(self.slots)) if s not in owners.values()]
        if lost:
            return f"the product has no atom of slot {lost[0]}"
        links: dict[tuple[int, ...], int] = {}
        for bond in self._cuts:
            ends = tuple(sorted((owners[bond.GetBeginAtomIdx()], owners[bond.GetEndAtomIdx()])))
            links[ends] = links.get(ends, 0) + 1
        if any(count > 1 for count in links.values()) or len(links) >= len(self.slots):
            return "it closes a ring between slots, which changes the atoms of both"
        if len(links) < len(self.slots) - 1:
            return "its slots are not all joined"
        if any(b.GetBondType() not in (Chem.BondType.SINGLE, Chem.BondType.UNSPECIFIED) for b in self._cuts):
            return "it joins slots by a bond that is not single"
        return ""

    @cached_property
    def halves(self) -> list[Half]:
        """What the reaction does to the block of each slot; empty if it is refused."""
        if self.refusal:
            return []
        return [self._half(slot) for slot in range(len(self.slots))]

    @cached_property
    def _product(self) -> Chem.Mol:
        return self.rdkit.GetProductTemplate(0)

    @cached_property
    def _owners(self) -> dict[int, int]:
        """The slot of each atom of the product: where it comes from, or the first slot that it touches."""
        home = {atom.GetAtomMapNum(): s for s, slot in enumerate(self.slots) for atom in slot.GetAtoms()}
        home.pop(0, None)
        owners = {atom.GetIdx(): home.get(atom.GetAtomMapNum(), -1) for atom in self._product.GetAtoms()}
        while True:
            found = {}
            for atom in (self._product.GetAtomWithIdx(i) for i, owner in owners.items() if owner < 0):
                around = [owners[neighbour.GetIdx()] for neighbour in atom.GetNeighbors()]
                if owned := [owner for owner in around if owner >= 0]:
                    found[atom.GetIdx()] = min(owned)
            if not found:
                return owners
            owners |= found

    @property
    def _cuts(self) -> list[Chem.Bond]:
        """The bonds of the product between slots."""
        bonds, owners = self._product.GetBonds(), self._owners
        return [b for b in bonds if owners[b.GetBeginAtomIdx()] != owners[b.GetEndAtomIdx()]]

    def _half(self, slot: int) -> Half:
        """Return the part of a slot: the product's template without the other slots."""
        edited, owners, cuts = Chem.RWMol(self._product), self._owners, []
        for number, bond in enumerate(self._cuts, 1):
            for here, there in (
                (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()),
                (bond.GetEndAtomIdx(), bond.GetBeginAtomIdx()),
            ):
                if owners[here] == slot:
                    dummy = edited.AddAtom(Chem.AtomFromSmarts(f"[{number}*]"))
                    edited.AddBond(here, dummy, Chem.BondType.SINGLE)
                    edited.RemoveBond(here, there)
                    cuts.append(number)
        edited.BeginBatchEdit()
        for atom, owner in owners.items():
            if owner != slot:
                edited.RemoveAtom(atom)
        edited.CommitBatchEdit()
        block, order = Chem.Mol(self.slots[slot]), dict[int, int]()
        for atom in block.GetAtoms():  # numbers by position, so that reactions share what they share
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
        return Half(smarts, self.hydrogens[slot], tuple(cuts))


def _is_hydrogen(atom: Chem.Atom) -> bool:
    """Whether an atom of a template is a hydrogen atom, as ``[H]`` or ``[H:3]``."""
    return atom.GetAtomicNum() == 1 or atom.GetSmarts().startswith(("[H]", "[H:"))
