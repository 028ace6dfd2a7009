"""Descriptors of whole molecules as counts: each in fixed units, so that a Gaussian kernel suits them."""

from __future__ import annotations

import struct
from typing import NamedTuple

from rdkit import Chem
from rdkit.Chem import rdMolDescriptors

from daskrf.quantities import MAX_COUNT

__all__ = ["DESCRIPTORS", "Descriptor", "described"]


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
"""What is counted, in the order of the columns.

Units are a hundredth of the standard deviation among 2,000 drug-like molecules (GuacaMol), with two digits. A
charge of 1 counts as much as a standard deviation of the others, because most molecules have none.
"""


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
        rdMolDescriptors.CalcNumHBA(molecule),
        rdMolDescriptors.CalcNumRings(molecule),
        rdMolDescriptors.CalcNumAromaticRings(molecule),
        rdMolDescriptors.CalcNumRotatableBonds(molecule),
        rdMolDescriptors.CalcFractionCSP3(molecule),
        rdMolDescriptors.CalcNumHeteroatoms(molecule),
        refractivity,
        rdMolDescriptors.CalcNumAmideBonds(molecule),
        molecule.GetNumHeavyAtoms(),
        Chem.GetFormalCharge(molecule),
    )
    entry, found = struct.Struct("<Ii" if width == 4 else "<Qi"), []
    for column, (value, own) in enumerate(zip(values, DESCRIPTORS, strict=True)):
        count = round(min(max((value - own.lowest) / own.unit, 0.0), MAX_COUNT))
        found += [entry.pack(column, count)] if count else []
    return b"".join(found)
