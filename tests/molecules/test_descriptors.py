"""Descriptors of molecules, as a kind of fingerprint."""

from __future__ import annotations

import re

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen, Descriptors, Lipinski

from daskrf import FingerprintSpec
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.molecules import Fingerprinter
from daskrf.molecules.counts.descriptors import DESCRIPTORS, n_acceptors, n_rings

SMILES = [
    *ReactionLibrary().smiles(0, 60),
    "C",
    "[He]",
    "[Na+].[Cl-]",
    "[Fe+3]",
    "C" * 400,
    "CC(=O)Nc1ccc(O)cc1",
    "Cn1c(=O)c2c(ncn2C)n(C)c1=O",
    "C12C3C4C1C5C2C3C45",
    "[O-]C(=O)c1ccccc1",
    "F" + "C(F)(F)" * 60 + "F",
]


def acceptors(molecule: Chem.Mol) -> int:
    """Count acceptors of hydrogen bonds atom by atom."""
    return sum(map(accepts, molecule.GetAtoms()))


def accepts(atom: Chem.Atom) -> bool:
    symbol, bonds = atom.GetSymbol(), atom.GetBonds()
    if atom.GetIsAromatic():
        free = symbol == "N" and atom.GetTotalNumHs() == 0 and atom.GetTotalDegree() == 2
        return atom.GetFormalCharge() == 0 and (free or symbol in "OS")
    if symbol in "OS":
        if atom.GetFormalCharge() == -1:
            return True
        if atom.GetTotalValence() != 2 or atom.GetTotalNumHs() > 1:
            return False
        return atom.GetTotalNumHs() == 0 or not any(acyl(bond.GetOtherAtom(atom)) for bond in bonds)
    single = (bond.GetOtherAtom(atom) for bond in bonds if bond.GetBondType() == Chem.BondType.SINGLE)
    return symbol == "N" and atom.GetTotalValence() == 3 and not any(acyl(a, ring=False) for a in single)


def acyl(atom: Chem.Atom, *, ring: bool = True) -> bool:
    """Tell whether an atom has a double bond to oxygen, nitrogen, phosphorus or sulfur."""
    return any(
        bond.GetBondType() == Chem.BondType.DOUBLE
        and bond.GetOtherAtom(atom).GetSymbol() in ("O", "N", "P", "S")
        and not bond.GetOtherAtom(atom).GetIsAromatic()
        and (ring or not bond.IsInRing())
        for bond in atom.GetBonds()
    )


def cut_bonds(molecule: Chem.Mol) -> int:
    """Count the bonds that may be cut, one by one, before a molecule falls into more fragments."""
    left, count = Chem.RWMol(molecule), 0
    parts = len(Chem.GetMolFrags(left))
    for bond in molecule.GetBonds():
        ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        left.RemoveBond(*ends)
        if len(Chem.GetMolFrags(left)) > parts:
            left.AddBond(*ends, bond.GetBondType())
        else:
            count += 1
    return count


def naive(smiles: str) -> list[int]:
    """Return the counts by RDKit's table of descriptors, one name after the other."""
    m = Chem.MolFromSmiles(smiles)
    values = [
        Descriptors.MolWt(m),
        Crippen.MolLogP(m),
        Descriptors.TPSA(m),
        Lipinski.NumHDonors(m),
        acceptors(m),
        cut_bonds(m),
        Lipinski.NumAromaticRings(m),
        Lipinski.NumRotatableBonds(m),
        Lipinski.FractionCSP3(m),
        Lipinski.NumHeteroatoms(m),
        Crippen.MolMR(m),
        Lipinski.NumAmideBonds(m),
        sum(atom.GetAtomicNum() > 1 for atom in m.GetAtoms()),
        sum(atom.GetFormalCharge() for atom in m.GetAtoms()),
    ]
    return [
        min(max(round((value - descriptor.lowest) / descriptor.unit), 0), 65_535)
        for value, descriptor in zip(values, DESCRIPTORS, strict=True)
    ]


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("Cn1c(=O)c2c(ncn2C)n(C)c1=O", 3),  # caffeine: two carbonyls and one nitrogen with a free pair
        ("c1ccncc1", 1),
        ("c1cc[nH]c1", 0),
        ("CC(=O)O", 1),
        ("CC(=O)[O-]", 2),
        ("CC(=O)N", 1),
        ("CCN", 1),
        ("CS(C)(=O)=O", 2),
        ("C[NH3+]", 0),
        ("COC", 1),
        ("c1ccoc1", 1),
    ],
)
def test_acceptors_of_hydrogen_bonds_in_any_release_of_rdkit(smiles: str, expected: int) -> None:
    molecule = Chem.MolFromSmiles(smiles)
    assert n_acceptors(molecule) == acceptors(molecule) == expected


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("CCO.[Na+]", 0),
        ("c1ccc2ccccc2c1", 2),
        ("C12C3C4C1C5C2C3C45", 5),  # cubane
        ("C1C2CC3CC1CC(C2)C3", 3),  # adamantane
        ("CC=C1CN(C)CCC23C(=O)CC1C1COC(O)C(=O)N(c4ccccc42)C13", 5),  # 6 in RDKit 2026.9.1
    ],
)
def test_rings_in_any_release_of_rdkit(smiles: str, expected: int) -> None:
    molecule = Chem.MolFromSmiles(smiles)
    assert n_rings(molecule) == cut_bonds(molecule) == expected


@pytest.mark.parametrize("size", [0, 14, 1000])
def test_counts_are_those_of_the_naive_version(size: int) -> None:
    block = Fingerprinter(FingerprintSpec("descriptors", size=size))(SMILES)
    assert not block.rejects
    assert block.saturated == 0
    assert block.fingerprints.shape == (len(SMILES), size or 2**32)
    assert block.fingerprints[:, :14].toarray().tolist() == [naive(smiles) for smiles in SMILES]
    assert block.fingerprints.nnz == np.count_nonzero([naive(smiles) for smiles in SMILES])


def test_units_are_a_hundredth_of_the_spread_of_drug_like_molecules() -> None:
    spread = np.std([naive(smiles) for smiles in SMILES[:60]], axis=0)
    assert np.median(spread) == pytest.approx(100, rel=0.7)


@pytest.mark.parametrize(
    "kinds", [["descriptors", "morgan:1", "lingo"], ["morgan:1", "descriptors", "lingo"]]
)
def test_descriptors_stand_last_in_a_row(kinds: list[str]) -> None:
    spec = FingerprintSpec(kinds)
    assert [kind.name for kind in spec.kinds] == ["morgan:1", "lingo", "descriptors"]
    assert spec.n_structural == 2 * 2**32
    assert FingerprintSpec.from_state(spec.state()) == spec
    whole = Fingerprinter(spec)(SMILES).fingerprints
    alone = Fingerprinter(FingerprintSpec(["morgan:1", "lingo"]))(SMILES).fingerprints
    assert (whole[:, : spec.n_structural] != alone).nnz == 0
    assert whole[:, spec.n_structural :][:, :14].toarray().tolist() == [naive(smiles) for smiles in SMILES]


def test_other_fingerprints_have_no_columns_to_keep_apart() -> None:
    for kinds in ("descriptors", "morgan:1", ["morgan:1", "torsion"]):
        assert FingerprintSpec(kinds).n_structural is None


@pytest.mark.parametrize("options", [{"counts": False}, {"size": 13}], ids=str)
def test_options_that_descriptors_do_not_have_are_refused(options: dict[str, int]) -> None:
    for kinds in ("descriptors", ["morgan:1", "descriptors"]):
        with pytest.raises(InputError, match=re.escape("Descriptors are counts in 14 columns")):
            FingerprintSpec(kinds, **options)
