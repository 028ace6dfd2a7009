"""Which slots of reactions a building block fits.

This module runs in the helper processes of `daskrf.molecules.isolation`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from rdkit import Chem, rdBase

from daskrf.molecules.counts.counter import largest_fragment
from daskrf.spaces.reactions import Reaction

FRAGMENTS = "it has several fragments"


class Template(NamedTuple):
    """The SMARTS of a slot, and whether it names hydrogen atoms."""

    smarts: str
    hydrogens: bool


class Fit(NamedTuple):
    """What a block fits: a hash of its structure, and the positions of the templates that it matches."""

    structure: int
    templates: tuple[int, ...]


def templates_of(reactions: Iterable[Reaction]) -> list[list[Template]]:
    """Return the template of each slot, by reaction.

    Examples
    --------
    >>> templates_of([Reaction("amide", "[N:1]([H])[*:2].[OH][C:3]=[O:4]>>[*:2][N:1][C:3]=[O:4]")])[0][1]
    Template(smarts='[O&H1][C:3]=[O:4]', hydrogens=False)
    """
    return [
        [
            Template(Chem.MolToSmarts(slot), hydrogens)
            for slot, hydrogens in zip(reaction.slots, reaction.hydrogens, strict=True)
        ]
        for reaction in reactions
    ]


class Assigner:
    """Function from the SMILES of a block to its `Fit`, or to why it cannot be used.

    Parameters
    ----------
    templates : tuple of Template
    largest : bool
        Whether to take the largest fragment of a block that has several.

    Examples
    --------
    >>> assigned = Assigner((Template("[N]([H])[*]", True), Template("[O&H1][C]=[O]", False)), False)
    >>> assigned("NCC(=O)O").templates, assigned("CC(=O)[O-].[Na+]")
    ((0, 1), 'it has several fragments')
    """

    def __init__(self, templates: tuple[Template, ...], largest: bool) -> None:
        self._silence = rdBase.BlockLogs()
        self._queries = [(Chem.MolFromSmarts(smarts), hydrogens) for smarts, hydrogens in templates]
        self._dummy = Chem.MolFromSmarts("[#0]")
        self._any_hydrogens = any(hydrogens for _, hydrogens in templates)
        self._largest = largest

    def __call__(self, text: str) -> Fit | str:
        """Return what a block fits."""
        block = Chem.MolFromSmiles(text)
        if block is None or not block.GetNumAtoms():
            return "RDKit cannot read it"
        if len(Chem.GetMolFrags(block)) > 1:
            if not self._largest:
                return FRAGMENTS
            block = Chem.MolFromSmiles(Chem.MolToSmiles(largest_fragment(block)))
        if block.HasSubstructMatch(self._dummy):  # a loop over all atoms takes longer than all queries
            return "it has a dummy atom"
        forms = (block, Chem.AddHs(block) if self._any_hydrogens else block)
        matched = (
            number
            for number, (query, hydrogens) in enumerate(self._queries)
            if forms[hydrogens].HasSubstructMatch(query)
        )
        digest = hashlib.blake2b(Chem.MolToSmiles(block).encode(), digest_size=8).digest()
        return Fit(int.from_bytes(digest, "little") >> 1, tuple(matched))


class Stripper:
    """Function from the SMILES of a block to that of its largest fragment.

    Examples
    --------
    >>> Stripper()("CC(=O)[O-].[Na+]")
    'CC(=O)[O-]'
    """

    def __init__(self) -> None:
        self._silence = rdBase.BlockLogs()

    def __call__(self, text: str) -> str:
        """Return the fragment; empty if RDKit cannot read the block."""
        block = Chem.MolFromSmiles(text)
        return "" if block is None else str(Chem.MolToSmiles(largest_fragment(block)))
