"""Identities and fingerprints of molecules do not depend on the order in which their atoms are written."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from rdkit import Chem

from daskrf.demo.enumeration import ReactionLibrary
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.counts.environments import without_atoms

KINDS = [
    *("morgan:0", "morgan:1", "morgan:2", "morgan:3", "morgan:1:features", "morgan:3:features"),
    *("atompair", "atompair:4", "torsion", "rdkit", "lingo", "descriptors"),
]
SPECS = [
    FingerprintSpec(kind, size=size, chirality=chirality, counts=counts)
    for kind in KINDS
    for size, chirality, counts in ((0, False, True), (512, True, True), (0, True, False))
    if not (kind == "rdkit" and chirality) and (counts or kind != "descriptors")
]
UGLY = [
    *("OCC1CO1", "C1CC1", "CC1(F)OC1Cl", "C1CC12CC2", "C12C3C1C23", "C1C2C1C2", "N1C2C1O2", "OCC1(N)C2OC12"),
    *("C[C@H]1O[C@@H]1C", "F[C@H]1[C@@H](Cl)C1", "C[C@H]1C[C@@H](O)C1", "O[C@H]1CC[C@@H](C)CC1"),
    *(
        "C12C3C4C1C5C2C3C45",
        "C1C2CC3CC1CC(C2)C3",
        "C[S@](=O)CC",
        "F/C=C/Cl",
        "CC=[C@]=CC",
        "[Na+].CC(=O)[O-]",
    ),
    *("C[P@](=O)(O)CC", "[2H]C([2H])O", "[Fe+2].CC[NH3+]", "c1ccc2c(c1)[nH]c1ccccc12", "C1#CCCCCCC1"),
]


def orders(smiles: str, n: int, seed: int) -> list[str]:
    """Return a molecule with its atoms in random orders, and as it is."""
    molecule, numbers = Chem.MolFromSmiles(smiles), random.Random(seed)
    notations = [smiles]
    for _ in range(n):
        order = list(range(molecule.GetNumAtoms()))
        numbers.shuffle(order)
        notations.append(Chem.MolToSmiles(Chem.RenumberAtoms(molecule, order), canonical=False))
    return notations


def check(spec: FingerprintSpec, molecules: list[str], n: int) -> None:
    texts = [text for seed, smiles in enumerate(molecules) for text in orders(smiles, n, seed)]
    block = Fingerprinter(spec)(texts)
    assert not block.rejects
    rows = block.fingerprints
    first = rows[[k - k % (n + 1) for k in range(len(texts))]]
    differing = sorted({k // (n + 1) for k in (rows != first).nonzero()[0].tolist()})
    assert [molecules[k] for k in differing] == []


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_atoms_in_any_order_give_the_same_fingerprint(spec: FingerprintSpec) -> None:
    check(spec, [*UGLY, *ReactionLibrary().smiles(0, 20)], 6)


def test_torsions_around_rings_of_three(data_dir: Path) -> None:
    lines = (data_dir / "guacamol_10k.smiles").read_text().split()[:3000]
    small = [
        text for text in lines if Chem.MolFromSmiles(text).HasSubstructMatch(Chem.MolFromSmarts("*1**1"))
    ]
    assert len(small) > 100
    check(FingerprintSpec("torsion"), small, 5)


def test_the_two_ways_to_write_glycidol() -> None:
    """Its torsions are four open ones and one around the ring."""
    one, other = Fingerprinter(FingerprintSpec("torsion"))(["OCC1CO1", "C1OC1CO"]).fingerprints
    assert (one != other).nnz == 0
    assert one.sum() == 5


def test_atoms_of_torsions_around_rings_of_three_are_their_own() -> None:
    """The row without an atom of a molecule is that without the same atom, written in another order."""
    spec = FingerprintSpec("torsion")
    one, other = without_atoms("OCC1CO1", spec, "keep"), without_atoms("C1OC1CO", spec, "keep")
    for atom, same in enumerate([4, 3, 2, 0, 1]):
        assert (one[1 + atom] != other[1 + same]).nnz == 0
