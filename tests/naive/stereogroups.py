"""What enhanced stereo groups mean: every mixture that a molecule may be, as the isomers in it."""

from __future__ import annotations

import itertools

from rdkit import Chem

__all__ = ["meant"]


def meant(smiles: str) -> frozenset[frozenset[str]]:
    """Return the mixtures that a SMILES with groups may stand for, each as a set of canonical SMILES.

    The centres of each group are turned over together. Of a group "&" both are in the mixture, of a group "o"
    one is, and it is not known which.
    """
    molecule = Chem.MolFromSmiles(smiles)
    kinds = {"&": Chem.StereoGroupType.STEREO_AND, "o": Chem.StereoGroupType.STEREO_OR}
    racemic, either = (
        [
            [atom.GetIdx() for atom in group.GetAtoms()]
            for group in molecule.GetStereoGroups()
            if group.GetGroupType() == kind
        ]
        for kind in kinds.values()
    )
    return frozenset(
        frozenset(isomer(molecule, [*unknown, *own]) for own in choices(racemic))
        for unknown in choices(either)
    )


def choices(groups: list[list[int]]) -> list[list[int]]:
    """Return the atoms to turn over for each choice of some of the groups."""
    return [
        [atom for group, turn in zip(groups, turned, strict=True) if turn for atom in group]
        for turned in itertools.product([False, True], repeat=len(groups))
    ]


def isomer(molecule: Chem.Mol, turned: list[int]) -> str:
    """Return the canonical SMILES of a molecule with some centres turned over."""
    own = Chem.RWMol(molecule)
    own.SetStereoGroups([])
    for atom in turned:
        own.GetAtomWithIdx(atom).InvertChirality()
    Chem.AssignStereochemistry(own, cleanIt=True, force=True)  # of centres of a ring
    text = str(Chem.MolToSmiles(own))
    for _ in range(3):  # centres that depend on each other may be written in two ways at first
        text = str(Chem.CanonSmiles(text))
    return text
