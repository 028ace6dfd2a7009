"""Fingerprints without an atom: the features that are left, by rules that need no list of environments."""

from __future__ import annotations

import itertools
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.counts.environments import drawn_with_weights, without_atoms

KINDS = [
    "morgan:0",
    "morgan:1",
    "morgan:2",
    "morgan:2:features",
    "atompair",
    "atompair:3",
    "torsion",
    ("morgan:2", "torsion", "atompair"),
]
SPECS = [
    FingerprintSpec(list(kind) if isinstance(kind, tuple) else kind, size=size, counts=counts)
    for kind, size, counts in itertools.product(KINDS, (0, 512), (True, False))
]
SMILES = [*ReactionLibrary().smiles(0, 6), "C[C@H](N)C(=O)O", "[Na+].CC(=O)[O-]", "C1CC1C1CC1"]


def fingerprint(smiles: str, spec: FingerprintSpec) -> np.ndarray:
    return Fingerprinter(spec)([smiles]).fingerprints


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_the_first_row_is_the_fingerprint_and_others_are_parts_of_it(spec: FingerprintSpec) -> None:
    for smiles in SMILES:
        rows = without_atoms(smiles, spec, "keep")
        assert (rows[0] != fingerprint(smiles, spec)).nnz == 0
        for k in range(1, rows.shape[0]):
            assert rows[0].maximum(rows[k]).sum() == rows[0].sum()


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_without_an_atom_that_stands_alone_the_rest_is_the_rest(spec: FingerprintSpec) -> None:
    """An atom without bonds is in no feature of the others, except in a column that both are folded to."""
    for smiles in ("CC(=O)Nc1ccccc1", "CCO"):
        rows = without_atoms(f"{smiles}.[Na+]", spec, "keep")
        if "atompair" not in spec.name:  # pairs reach over to other fragments
            assert (rows[-1] != fingerprint(smiles, spec)).nnz == 0


def test_atoms_of_radius_0_add_up() -> None:
    """Each feature is one atom, so the atoms together lose all features."""
    spec = FingerprintSpec("morgan", radius=0, size=64)
    for smiles in SMILES:
        rows = without_atoms(smiles, spec, "keep").toarray().astype(int)
        assert ((rows[0] - rows[1:]).sum(axis=0) == rows[0]).all()


def test_pairs_and_torsions_lose_what_counting_says() -> None:
    """In a chain of n atoms, each atom is in n - 1 pairs, and each torsion has four atoms."""
    n = 7
    pairs = without_atoms("C" * n, FingerprintSpec("atompair"), "keep").sum(axis=1).ravel().tolist()[0]
    assert pairs[0] == n * (n - 1) // 2
    assert set(pairs[1:]) == {pairs[0] - (n - 1)}
    torsions = without_atoms("C" * n, FingerprintSpec("torsion"), "keep").sum(axis=1).ravel().tolist()[0]
    assert torsions == [4, 3, 2, 1, 0, 1, 2, 3]


def test_only_the_atoms_of_the_kept_fragment_are_counted() -> None:
    spec = FingerprintSpec("morgan")
    assert without_atoms("[Na+].CC(=O)[O-]", spec, "largest").shape[0] == 5
    with pytest.raises(InputError, match="is not a molecule: 2 fragments"):
        without_atoms("[Na+].CC(=O)[O-]", spec, "reject")


@pytest.mark.parametrize(
    ("smiles", "kind", "message"),
    [
        ("CC)", "morgan", "is not a molecule"),
        ("CC", "lingo", "need the kinds morgan, atompair, torsion, substituents, positions, not"),
    ],
)
def test_what_cannot_be_told_is_refused(smiles: str, kind: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        without_atoms(smiles, FingerprintSpec(kind), "keep")


def test_a_drawing_has_a_circle_for_every_atom() -> None:
    weights = np.array([0.5, -0.25, 0.0])
    svg = drawn_with_weights("CCO", "keep", weights)
    root = ElementTree.fromstring(svg)
    circles = [each for each in root.iter() if each.tag.endswith("ellipse")]
    assert len(circles) == 3
    blue, orange, white = (each.attrib["style"].upper() for each in circles)
    assert "FILL:#FFFFFF" in white
    assert blue != orange
    assert drawn_with_weights("?", "keep", weights) == ""
