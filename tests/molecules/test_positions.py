"""Positions: atoms by their distances from the bond to a building block, whoever counts them."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem

from daskrf.errors import InputError
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.counts.agreement import agrees, built_in
from daskrf.molecules.counts.environments import without_atoms
from daskrf.molecules.counts.spec import with_positions
from daskrf.molecules.counts.substituents import Substituents
from tests.molecules.test_substituents import ODD
from tests.naive import fingerprints as naive


def _identifier(block: str) -> int:
    """Return the identifier of a block, given with a dummy at its bond, from a molecule with it."""
    molecule = Chem.MolFromSmiles(block.replace("*", "FC(F)(F)C(F)(F)", 1))
    n_atoms, last = Chem.MolFromSmiles(block).GetNumAtoms() - 1, molecule.GetNumAtoms() - 1
    sides = Substituents(molecule).occurrences()
    return next(number for number, atoms in sides if len(atoms) == n_atoms and last in atoms)


# Small ones within larger ones, a ring, and some that occur several times.
BLOCKS = ["*C", "*CC", "*OC", "*c1ccccc1", "*N(C)C", "*C(C)C"]
SPEC = FingerprintSpec(with_positions(map(_identifier, BLOCKS)))


def test_identifiers_are_side_distance_and_type() -> None:
    """Atoms are seen as by cutting each bond, in any order of atoms, and hashes tell all ways apart."""
    seen: dict[int, tuple[object, ...]] = {}
    n_several = 0
    for number, text in enumerate([*built_in()[::3], *ODD]):
        molecule = Chem.MolFromSmiles(text)
        Chem.RemoveStereochemistry(molecule)
        if molecule.GetNumAtoms() > 80 or "[13" in text:  # the oracle's SMILES have no isotopes
            continue
        sides = Substituents(molecule)
        expected: dict[int, list[tuple[object, ...]]] = {}
        for i, *view in naive.positions(molecule, set(BLOCKS)):
            expected.setdefault(i, []).append(tuple(view))
        positions = list(sides.positions(SPEC.blocks))
        assert sorted(i for _, (i,) in positions) == sorted(i for i in expected for _ in expected[i])
        n_several += len(positions) > molecule.GetNumAtoms()
        for hashed, (i,) in positions:
            if len(expected[i]) == 1:
                assert seen.setdefault(hashed, expected[i][0]) == expected[i][0]
        order = np.random.default_rng(number).permutation(molecule.GetNumAtoms()).tolist()
        shuffled = Substituents(Chem.RenumberAtoms(molecule, order))
        assert shuffled.counts_of_positions(SPEC.blocks) == sides.counts_of_positions(SPEC.blocks)
    assert len(set(seen.values())) == len(seen) > 250
    assert n_several > 20


@pytest.mark.parametrize("options", [{}, {"size": 300, "counts": False}])
def test_the_engine_counts_as_rdkit(options: dict[str, int]) -> None:
    assert agrees(FingerprintSpec(with_positions([1]), **options))  # type: ignore[arg-type]


def test_counts_of_products_are_sums_over_their_blocks() -> None:
    """What is on one side of the bond does not depend on the other; without a block there is nothing."""
    acids, amines = ["CCOC(=O)", "c1ccncc1CC(=O)"], ["N(C)C1CC1", "Nc1ccccc1"]
    spec = FingerprintSpec(with_positions(_identifier(f"*{amine}") for amine in amines))
    rows = Fingerprinter(spec)([acid + amine for acid in acids for amine in amines]).fingerprints.tolil()
    assert ((rows[0] + rows[3]) != (rows[1] + rows[2])).nnz == 0
    assert (rows[0] != rows[3]).nnz > 0
    assert Fingerprinter(spec)(["c1ccccc1O"]).empty == 1


def test_contributions_of_atoms() -> None:
    """Without an atom, only its own count is lost."""
    rows = without_atoms("CCOCN(C)C", SPEC, "keep")
    assert rows.sum(axis=1).ravel().tolist() == [[7, *7 * [6]]]


def test_blocks_are_part_of_the_kind() -> None:
    spec = FingerprintSpec(["descriptors", SPEC.text, "substituents", "morgan:1"])
    assert list(spec.columns) == ["morgan:1", "substituents", "positions", "descriptors"]
    assert FingerprintSpec.from_state(spec.state()) == spec
    assert spec.kinds[2].blocks == SPEC.blocks == tuple(sorted(SPEC.blocks))
    assert spec != FingerprintSpec(["descriptors", with_positions([1]), "substituents", "morgan:1"])


@pytest.mark.parametrize(
    "text", ["positions", "positions:", "positions:1", "positions:000000FF", "positions:2:a"]
)
def test_kinds_without_blocks_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="needs the building blocks that atoms are counted from"):
        FingerprintSpec(["morgan:1", text])


def test_chirality_is_refused() -> None:
    with pytest.raises(InputError, match="Positions have no chirality"):
        FingerprintSpec(SPEC.text, chirality=True)
