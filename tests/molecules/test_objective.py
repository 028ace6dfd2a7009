"""The computed objective: its formula term by term, its scale, and its errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
from rdkit import Chem

from daskrf.demo import objective
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import PAIRS, SPANS, TERMS
from daskrf.errors import InputError


@pytest.fixture(scope="module")
def products() -> list[str]:
    return [product.smiles for product in ReactionLibrary(seed=0).iterate(0, 1500)]


def contacts(lipophilic: int) -> float:
    return -5.8 - 3.0 * (1.0 - math.exp(-lipophilic / 12.0))


@pytest.mark.parametrize(
    ("smiles", "expected"),
    [
        ("C", contacts(1)),
        ("c1ccccc1", contacts(6)),
        ("Clc1ccccc1", contacts(7) + TERMS["chloroarene"].weight),
        ("Clc1ccc(Cl)cc1", contacts(8) + 1.5 * TERMS["chloroarene"].weight),
        ("Fc1ccc(Cl)cc1", contacts(8) + TERMS["chloroarene"].weight + TERMS["fluoroarene"].weight - 0.5),
        ("c1ccncc1", contacts(5) + TERMS["hinge"].weight),
        ("CN(C)C", contacts(0) + TERMS["basic"].weight),
        ("CN(C)CCN(C)C", contacts(0) + 1.5 * TERMS["basic"].weight + 0.60),
        ("CCCCCCCCCC", contacts(10) + 0.10 * (7 - 5)),
    ],
)
def test_small_molecules_have_the_value_of_the_formula(smiles: str, expected: float) -> None:
    assert objective.score([smiles])[0] == pytest.approx(expected, abs=1e-12)


def test_the_span_prefers_its_distance() -> None:
    # A pyridine nitrogen and a tertiary amine at the end of a chain: only the distance differs by much.
    chains = [f"c1cnccc1{'C' * n}N(C)C" for n in range(1, 10)]
    mols = [Chem.MolFromSmiles(smiles) for smiles in chains]
    distances = [Chem.GetDistanceMatrix(mol)[2, mol.GetNumAtoms() - 3] for mol in mols]
    contact = [contacts(5 + max(0, n - 2) + (n > 1)) for n in range(1, 10)]
    rest = np.asarray(objective.score(mols)) - np.asarray(contact)
    assert distances[int(np.argmin(rest))] == next(
        best for one, other, _, best in SPANS if (one, other) == ("hinge", "basic")
    )


def test_every_pattern_reads_and_every_pair_names_terms(products: list[str]) -> None:
    mols = [Chem.MolFromSmiles(smiles) for smiles in products]
    for name, term in TERMS.items():
        pattern = Chem.MolFromSmarts(term.smarts)
        share = np.mean([mol.HasSubstructMatch(pattern) for mol in mols])
        assert 0.01 < share < 0.99, (name, share)
    for one, other, *_ in (*PAIRS, *SPANS):
        assert {one, other} <= set(TERMS)


def test_the_scale_over_the_library_is_that_of_a_docking_score(products: list[str]) -> None:
    values = objective.score(products)
    assert values.dtype == np.float64
    assert values.shape == (len(products),)
    assert -9.0 < values.mean() < -7.5
    assert 0.8 < values.std() < 1.2
    # A tail of good molecules, longer than that of bad ones.
    low, middle, high = np.percentile(values, [1, 50, 99])
    assert middle - low > 1.1 * (high - middle)


def test_the_value_does_not_depend_on_the_way_of_writing(products: list[str]) -> None:
    mols = [Chem.MolFromSmiles(smiles) for smiles in products[:300]]
    shuffled = [Chem.MolToSmiles(mol, canonical=False, rootedAtAtom=mol.GetNumAtoms() // 2) for mol in mols]
    expected = objective.score(products[:300])
    assert np.array_equal(objective.score(mols), expected)
    np.testing.assert_allclose(objective.score(shuffled), expected, rtol=0, atol=1e-12)


def test_what_is_not_a_molecule_is_refused_by_position() -> None:
    for smiles in ("C1CC", "[#119]", "C\ud800"):
        with pytest.raises(InputError, match=r"Molecule 1 \("):
            objective.score(["C", smiles])


def test_no_molecules_give_an_empty_array() -> None:
    assert objective.score([]).shape == (0,)
