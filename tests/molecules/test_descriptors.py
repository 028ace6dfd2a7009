"""Descriptors of molecules, as a kind of fingerprint."""

from __future__ import annotations

import re

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import Crippen, Descriptors, Lipinski

from daskrf import FingerprintSpec
from daskrf.errors import InputError
from daskrf.molecules import Fingerprinter
from daskrf.molecules.descriptors import DESCRIPTORS
from daskrf.molecules.enumeration import ReactionLibrary

SMILES = [
    *ReactionLibrary().smiles(0, 60),
    "C",
    "[He]",
    "[Na+].[Cl-]",
    "[Fe+3]",
    "C" * 400,
    "CC(=O)Nc1ccc(O)cc1",
    "[O-]C(=O)c1ccccc1",
    "F" + "C(F)(F)" * 60 + "F",
]


def naive(smiles: str) -> list[int]:
    """Return the counts by RDKit's table of descriptors, one name after the other."""
    m = Chem.MolFromSmiles(smiles)
    values = [
        Descriptors.MolWt(m),
        Crippen.MolLogP(m),
        Descriptors.TPSA(m),
        Lipinski.NumHDonors(m),
        Lipinski.NumHAcceptors(m),
        Lipinski.RingCount(m),
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
        min(max(round((value - own.lowest) / own.unit), 0), 65_535)
        for value, own in zip(values, DESCRIPTORS, strict=True)
    ]


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
        with pytest.raises(InputError, match=re.escape("Descriptors are 14 numbers")):
            FingerprintSpec(kinds, **options)
