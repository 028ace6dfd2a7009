"""Descriptors of whole molecules as counts: each in fixed units, so that a Gaussian kernel suits them."""

from __future__ import annotations

import functools
import struct
from typing import NamedTuple

from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from daskrf.quantities import MAX_COUNT


class Descriptor(NamedTuple):
    """A descriptor, and how it is counted: round((value - lowest) / unit), from 0 to 65,535."""

    name: str
    unit: float
    lowest: float = 0.0


DESCRIPTORS = (
    Descriptor("molecular weight, Da", 1.1),
    Descriptor("logP (Crippen)", 0.019, -100.0),
    Descriptor("polar surface (TPSA), square angstroms", 0.39),
    Descriptor("hydrogen-bond donors", 0.014),
    Descriptor("hydrogen-bond acceptors", 0.021),
    Descriptor("rings", 0.013),
    Descriptor("aromatic rings", 0.012),
    Descriptor("rotatable bonds", 0.035),
    Descriptor("fraction of sp3 carbon atoms", 0.002),
    Descriptor("heteroatoms", 0.028),
    Descriptor("molar refractivity (Crippen)", 0.3),
    Descriptor("amide bonds", 0.01),
    Descriptor("heavy atoms", 0.079),
    Descriptor("formal charge", 0.01, -100.0),
)
"""The descriptors, in the order of their columns.

Units are a hundredth of the standard deviation among 2,000 drug-like molecules (GuacaMol), with two digits. A
charge of 1 counts as much as a standard deviation of the others, because most molecules have none.
"""


_ACCEPTORS = (  # hydroxyl not on a carbonyl or the like, ethers, anions, amines with a free pair, ...
    "[$([O,S;H1;v2]-[!$(*=[O,N,P,S])]),$([O,S;H0;v2]),$([O,S;-]),$([N;v3;!$(N-*=!@[O,N,P,S])]),"
    "$([nH0X2,o,s;+0])]"  # ... and atoms of aromatic rings, but not nitrogen with three neighbours
)


@functools.cache
def _acceptors() -> Chem.Mol:
    return Chem.MolFromSmarts(_ACCEPTORS)


def n_acceptors(molecule: Chem.Mol) -> int:
    """Return the number of atoms that accept hydrogen bonds.

    The definition is that of RDKit from 2025.9.5 on, kept here because it has changed: caffeine had six
    acceptors before.

    Examples
    --------
    >>> n_acceptors(Chem.MolFromSmiles("Cn1c(=O)c2c(ncn2C)n(C)c1=O"))
    3
    """
    return len(molecule.GetSubstructMatches(_acceptors(), maxMatches=molecule.GetNumAtoms()))


def n_rings(molecule: Chem.Mol) -> int:
    """Return the number of independent rings: bonds that may be cut before a molecule falls apart.

    RDKit counts the rings that it has perceived. In cages these are more, and differ between its releases.

    Examples
    --------
    >>> n_rings(Chem.MolFromSmiles("C1CCC2CCCCC2C1")), n_rings(Chem.MolFromSmiles("C1C2CC3CC1CC(C2)C3"))
    (2, 3)
    """
    return molecule.GetNumBonds() - molecule.GetNumAtoms() + len(Chem.GetMolFrags(molecule))


def described(molecule: Chem.Mol, width: int) -> bytes:
    """Return the descriptors of a molecule that are not 0: (column: `width` bytes, count: int32), ascending.

    Examples
    --------
    >>> from rdkit import Chem
    >>> [*struct.iter_unpack("<Ii", described(Chem.MolFromSmiles("CCO"), 4))][:4]
    [(0, 42), (1, 5263), (2, 52), (3, 71)]
    """
    logp, refractivity = rdMolDescriptors.CalcCrippenDescriptors(molecule)
    values = (
        rdMolDescriptors._CalcMolWt(molecule),
        logp,
        rdMolDescriptors.CalcTPSA(molecule),
        rdMolDescriptors.CalcNumHBD(molecule),
        n_acceptors(molecule),
        n_rings(molecule),
        rdMolDescriptors.CalcNumAromaticRings(molecule),
        rdMolDescriptors.CalcNumRotatableBonds(molecule),
        rdMolDescriptors.CalcFractionCSP3(molecule),
        rdMolDescriptors.CalcNumHeteroatoms(molecule),
        refractivity,
        rdMolDescriptors.CalcNumAmideBonds(molecule),
        molecule.GetNumHeavyAtoms(),
        Chem.GetFormalCharge(molecule),
    )
    entry, entries = struct.Struct("<Ii" if width == 4 else "<Qi"), []
    for column, (value, descriptor) in enumerate(zip(values, DESCRIPTORS, strict=True)):
        count = round(min(max((value - descriptor.lowest) / descriptor.unit, 0.0), MAX_COUNT))
        entries += [entry.pack(column, count)] if count else []
    return b"".join(entries)
