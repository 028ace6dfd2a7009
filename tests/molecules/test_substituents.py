"""Substituents: the same as canonical fragments of RDKit, whoever counts them."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem

from daskrf.errors import InputError
from daskrf.kernels import TanimotoMinMax
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.counts.agreement import agrees, built_in
from daskrf.molecules.counts.environments import without_atoms
from daskrf.molecules.counts.substituents import Substituents
from tests.naive import fingerprints as naive

SPEC = FingerprintSpec("substituents")
# Rings bound to rings, spiro and bridged ones, cages, an ion, isotopes, several fragments, a single atom.
ODD = [
    "c1ccccc1-c1ccccc1",
    "C1CC1C1CC1",
    "C1CCC2(CC1)OCCO2",
    "C1CC2CCC1C2",
    "C12C3C4C1C5C2C3C45C",
    "CC.OCC.[Na+]",
    "[13CH3]CC",
    "C",
    "CC(C)(C)C",
    "[O-]S(=O)(=O)c1ccc2ccccc2c1",
    "C1CCCCC1C1CCCC1",
    "O=C1c2ccccc2C(=O)N1CCN1CCOCC1",
    "FC#CC=CC=C",
]


def test_identifiers_are_those_of_canonical_fragments() -> None:
    """Equal identifiers have equal fragments, different ones different fragments, and all are counted."""
    fragment: dict[int, str] = {}
    molecules = [m for m in map(Chem.MolFromSmiles, [*built_in()[::3], *ODD]) if m.GetNumAtoms() < 80]
    for number, molecule in enumerate(molecules):
        Chem.RemoveStereochemistry(molecule)
        counts, expected = Substituents(molecule).counts(), naive.substituents(molecule)
        if "13C" not in Chem.MolToSmiles(molecule):  # the oracle's SMILES have no isotopes
            assert sorted(counts.values()) == sorted(expected.values()), Chem.MolToSmiles(molecule)
        order = np.random.default_rng(number).permutation(molecule.GetNumAtoms())
        assert Substituents(Chem.RenumberAtoms(molecule, order.tolist())).counts() == counts
        for identifier, atoms in Substituents(molecule).occurrences():
            if any(atom.GetIsotope() for atom in molecule.GetAtoms()):
                continue
            # The bond to what is left shows as a hydrogen less: name the fragment by its cut bond.
            (cut,) = [
                bond.GetIdx()
                for bond in molecule.GetBonds()
                if (bond.GetBeginAtomIdx() in atoms) != (bond.GetEndAtomIdx() in atoms)
            ]
            halves = Chem.FragmentOnBonds(molecule, [cut], dummyLabels=[(0, 0)])
            (side,) = [part for part in Chem.GetMolFrags(halves) if atoms[0] in part]
            text = Chem.MolFragmentToSmiles(halves, side, isomericSmiles=False)
            assert fragment.setdefault(identifier, text) == text
    assert len(set(fragment.values())) == len(fragment) > 500


@pytest.mark.parametrize("options", [{}, {"size": 300, "counts": False}])
def test_the_engine_counts_as_rdkit(options: dict[str, int]) -> None:
    assert agrees(FingerprintSpec("substituents", **options))  # type: ignore[arg-type]


def test_products_of_a_block_share_what_is_in_it() -> None:
    """Products of one acid share all substituents of its acyl group; of two alike acids, only some."""
    smiles = [f"O=C({acid}){amine}" for acid in ("CCc1ccccc1", "CCc1ccncc1") for amine in ("NCC", "N1CCOCC1")]
    K = TanimotoMinMax()(Fingerprinter(SPEC)(smiles).fingerprints)
    assert K[0, 1] > K[0, 3]
    assert K[2, 3] > K[1, 2]
    acyl = ("O=C(CCc1ccccc1)N", "CCc1ccccc1", "Cc1ccccc1", "c1ccccc1")  # each with what is beyond it
    same, other = (set(Fingerprinter(SPEC)([text]).fingerprints.indices.tolist()) for text in smiles[:2])
    assert len(same & other) == len(acyl)


def test_contributions_of_atoms() -> None:
    """Without an atom, the side that it is on is not counted; the other side of each bond still is."""
    rows = without_atoms("CCO", SPEC, "keep")
    assert rows.sum(axis=1).ravel().tolist() == [[4, 2, 2, 2]]


def test_substituents_come_after_other_kinds_and_before_descriptors() -> None:
    spec = FingerprintSpec(["descriptors", "substituents", "morgan:1"])
    assert list(spec.columns) == ["morgan:1", "substituents", "descriptors"]
    assert FingerprintSpec.from_state(spec.state()) == spec


def test_chirality_is_refused() -> None:
    with pytest.raises(InputError, match="Substituents have no chirality"):
        FingerprintSpec("substituents", chirality=True)
