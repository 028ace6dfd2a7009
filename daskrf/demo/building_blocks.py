"""Building blocks shipped with the package, and the synthons that reactions make from them.

Each file in ``blocks/`` holds one SMILES per line, where ``{x}`` stands for each substituent in the set x of
``blocks/substituents.smi``. RDKit reactions convert each block to its synthon once, at load: the part that
stays in the product, with a numbered dummy atom at each new bond.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from rdkit import Chem
from rdkit.Chem import rdChemReactions

from daskrf.errors import InputError

# What each reactive group becomes. {d} is the bond number; a group must match a block exactly once.
CUTS = {
    "acid": "[CX3;!R:1](=[O:2])[OX2H1]>>[{d}*][C:1]=[O:2]",
    "amine": "[NX3;H1,H2;!$(N[C,S]=O):1]>>[{d}*][N:1]",
    "isocyanate": "[NX3;H2;!$(N[C,S]=O):1]>>[{d}*]C(=O)[N:1]",
    "boc": "[N:1]C(=O)OC([CH3])([CH3])[CH3]>>[{d}*][N:1]",
    "sulfonyl chloride": "[SX4:1](=[O:2])(=[O:3])Cl>>[{d}*][S:1](=[O:2])=[O:3]",
    "aldehyde": "[c:1][CX3H1]=O>>[{d}*]C[c:1]",
    "boronic acid": "[c:1]B([OH])[OH]>>[{d}*][c:1]",
    "bromide": "[c:1]Br>>[{d}*][c:1]",
    "chloride": "[c;$(c:n),$(c1aanaa1):1]Cl>>[{d}*][c:1]",
}

# The bonds that the reactions form. No synthon contains one, so every such bond in a product was formed by
# a reaction: cutting them gives back the synthons, and with them the reaction and the blocks.
LINKAGES = {
    "acyl-N": "[CX3;!R](=O)-!@[#7]",
    "sulfonyl-N": "[SX4](=O)(=O)-!@[#7]",
    "aryl-aryl": "c-!@c",
    "aryl-N": "c-!@[N;R]",
    "benzyl-N": "[N;R]-!@[CH2]-c",
}
# The carbonyl of an isocyanate synthon carries the dummy atom: the reaction itself forms that bond.
_FORBIDDEN = {**LINKAGES, "acyl-N": "[CX3;!R;!$(C[#0])](=O)-!@[#7]"}

_RINGS = 3
_HOLE = re.compile(r"\{(\w+)\}")
_RING_OR_BRACKET = re.compile(r"\[[^]]*]|%(\d\d)|(\d)")


@dataclass(frozen=True)
class Slot:
    """One reactant of a recipe.

    Attributes
    ----------
    classes
        Names of the block files used here, in the order of the block numbers.
    cuts
        Keys of `CUTS`, one for each bond to a neighbouring slot, left neighbour first.
    require
        SMARTS that a block must match to be used here; empty for none.
    """

    classes: tuple[str, ...]
    cuts: tuple[str, ...]
    require: str = ""


@dataclass(frozen=True)
class Synthon:
    """The part of a block that stays in a product: the block and the two halves of a SMILES string.

    The neighbour's string goes between `head` and `tail`; the last slot of a recipe has an empty tail.
    """

    block: str
    head: str
    tail: str


def _read_lines(name: str) -> list[str]:
    text = resources.files("daskrf.demo").joinpath("blocks", f"{name}.smi").read_text("utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


@cache
def _substituents() -> dict[str, list[str]]:
    sets: dict[str, list[str]] = {}
    for line in _read_lines("substituents"):
        smiles, names = line.split()
        for name in names.split(","):
            sets.setdefault(name, []).append(smiles)
    return sets


def _expand(template: str) -> list[str]:
    """Fill every placeholder of a template with every substituent of its set."""
    parts = _HOLE.split(template)
    texts, holes = parts[0::2], parts[1::2]
    return [
        texts[0] + "".join(s + t for s, t in zip(choice, texts[1:], strict=True))
        for choice in itertools.product(*(_substituents()[hole] for hole in holes))
    ]


@cache
def load_blocks(name: str) -> tuple[str, ...]:
    """Return the distinct canonical SMILES of one block file, in the order of the file.

    Raises
    ------
    InputError
        If a line of the file is not a molecule.

    Examples
    --------
    >>> from daskrf.demo.building_blocks import load_blocks
    >>> load_blocks("boronic_acids")[0]
    'OB(O)c1ccccc1'
    """
    blocks: dict[str, None] = {}
    for template in _read_lines(name):
        for smiles in _expand(template):
            mol = Chem.MolFromSmiles(smiles)
            if mol is None:
                raise InputError(
                    f"Block file {name}.smi: {template!r} gives {smiles!r}, which is not a molecule."
                )
            blocks[Chem.MolToSmiles(mol)] = None
    return tuple(blocks)


@cache
def _query(smarts: str) -> Chem.Mol:
    return Chem.MolFromSmarts(smarts)


@cache
def _reaction(cut: str, bond: int) -> rdChemReactions.ChemicalReaction:
    return rdChemReactions.ReactionFromSmarts(CUTS[cut].format(d=bond))


def _cut(mol: Chem.Mol, cut: str, bond: int) -> Chem.Mol:
    """Replace the reactive group by dummy atom number `bond`; the group must occur exactly once."""
    reaction = _reaction(cut, bond)
    sites = len(mol.GetSubstructMatches(reaction.GetReactantTemplate(0)))
    if sites != 1:
        raise InputError(f"Block {Chem.MolToSmiles(mol)} has {sites} sites for {cut!r}: give it exactly one.")
    synthon = reaction.RunReactants((mol,))[0][0]
    Chem.SanitizeMol(synthon)
    return synthon


def _check_linkages(block: str, synthon: Chem.Mol) -> None:
    for name, smarts in _FORBIDDEN.items():
        if synthon.HasSubstructMatch(_query(smarts)):
            raise InputError(f"Block {block} contains a linkage {name!r} of its own: leave it out.")


def _shift_rings(smiles: str, by: int) -> str:
    """Add `by` to every ring-closure number, so that one piece can be nested in another.

    Each slot has its own `_RINGS` numbers; a piece with more rings open at once is rejected.
    """

    def shifted(match: re.Match[str]) -> str:
        number = match.group(1) or match.group(2)
        if number is None:  # a bracket atom: its digits are charges, isotopes and hydrogens
            return match.group()
        if int(number) > _RINGS:
            raise InputError(f"Synthon {smiles} has more than {_RINGS} rings open at a time: leave it out.")
        return str(int(number) + by)

    return _RING_OR_BRACKET.sub(shifted, smiles)


def _written(synthon: Chem.Mol, left: int, right: int) -> tuple[str, str]:
    """Write a synthon starting at its left bond, split where its right neighbour goes (0: no bond)."""
    root = next(
        atom.GetIdx()
        for atom in synthon.GetAtoms()
        if (atom.GetIsotope() == left if left else atom.GetAtomicNum() > 0)
    )
    smiles = _shift_rings(Chem.MolToSmiles(synthon, rootedAtAtom=root), _RINGS * left)
    smiles = smiles.removeprefix(f"[{left}*]")
    if left and smiles[0].islower():
        smiles = "-" + smiles  # aromatic atoms on both sides of a single bond
    head, _, tail = smiles.partition(f"[{right}*]")
    return head, tail


@cache
def load_slot(slot: Slot, left: int, right: int) -> tuple[Synthon, ...]:
    """Return the synthons of all blocks of a slot.

    Parameters
    ----------
    slot
        The reactant.
    left, right
        Numbers of its bonds to the neighbouring slots, 0 for none. Bond i joins slots i - 1 and i, counted
        from 0, so `left` is also the position of the slot.

    Raises
    ------
    InputError
        If a block lacks the reactive group, has it twice, or contains one of `LINKAGES`.

    Examples
    --------
    >>> from daskrf.demo.building_blocks import Slot, load_slot
    >>> load_slot(Slot(("acids",), ("acid",)), 0, 1)[0]
    Synthon(block='O=C(O)c1ccccc1', head='C(', tail=')(=O)c1ccccc1')
    """
    bonds = [bond for bond in (left, right) if bond]
    synthons = []
    for block in itertools.chain.from_iterable(load_blocks(name) for name in slot.classes):
        mol = Chem.MolFromSmiles(block)
        if slot.require and not mol.HasSubstructMatch(_query(slot.require)):
            continue
        for cut, bond in zip(slot.cuts, bonds, strict=True):
            mol = _cut(mol, cut, bond)
        _check_linkages(block, mol)
        synthons.append(Synthon(block, *_written(mol, left, right)))
    return tuple(synthons)
