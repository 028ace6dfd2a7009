"""Molecules are known again however their SMILES are written, and other ones are not taken for them."""

from __future__ import annotations

import random

import pytest
from rdkit import Chem

from daskrf.molecules import structures
from daskrf.molecules.enumerate import ReactionLibrary
from daskrf.molecules.structures import Known, canonical_smiles, composition, n_repeats

HARD = [
    "[Na+].[Cl-]",
    "[H][H]",
    "[2H]C([2H])O",
    "C[N+](=O)[O-]",
    "CN=[N+]=[N-]",
    "C[C@H](F)[Si](C)(C)Cl",
    "F/C=C/Br",
    "c1cc[se]c1",
    "C1CC2CC1CC2",
    "C%11CCCCC%11",
    "[O-]S(=O)(=O)c1ccccc1.[K+]",
    "CCCCO.OB(O)c1ccncc1",
]
SMILES = [*HARD, *ReactionLibrary(seed=5).smiles(0, 60)]


def written_otherwise(smiles: str, seed: int) -> str:
    """The same molecule from another atom, with Kekulé bonds, or with explicit hydrogens."""
    molecule = Chem.MolFromSmiles(smiles)
    if seed % 3 == 1:
        molecule = Chem.AddHs(molecule)
    order = list(range(molecule.GetNumAtoms()))
    random.Random(seed).shuffle(order)
    molecule = Chem.RenumberAtoms(molecule, order)
    if seed % 3 == 2:
        Chem.Kekulize(molecule)
    return Chem.MolToSmiles(molecule, canonical=False, kekuleSmiles=seed % 3 == 2)


@pytest.mark.parametrize("smiles", SMILES)
def test_all_smiles_of_a_molecule_have_one_composition(smiles: str) -> None:
    (canonical,) = canonical_smiles([smiles])
    for seed in range(9):
        other = written_otherwise(smiles, seed)
        assert canonical_smiles([other]) == [canonical], other
        assert composition(other) == composition(smiles), other


def test_charges_that_rdkit_separates_do_not_matter() -> None:
    for one, other in [("CN(=O)=O", "C[N+](=O)[O-]"), ("CN=N#N", "CN=[N+]=[N-]"), ("C1.C1", "CC")]:
        assert canonical_smiles([one]) == canonical_smiles([other])
        assert composition(one) == composition(other)
    # RDKit's canonical SMILES of square planes are not always canonical.
    assert composition("N[Pt@SP1](N)(Cl)Cl") == composition("Cl[Pt@SP3](N)(N)Cl")


def test_repeats_are_counted() -> None:
    again = [written_otherwise(smiles, k) for k, smiles in enumerate(SMILES[:20])]
    assert n_repeats(SMILES) == 0
    assert n_repeats([*SMILES, *again, *again[:5]]) == 25
    assert n_repeats(["C[C@H](F)Cl", "C[C@@H](F)Cl", "CC(F)Cl"]) == 0  # stereoisomers
    assert n_repeats([]) == 0


def test_known_molecules_are_counted_among_others() -> None:
    hits = [*SMILES[:30], written_otherwise(SMILES[20], 4)]
    known = Known(hits)
    assert known.n_found == 0
    known.look(SMILES[30:])
    assert known.n_found == 0
    known.look([written_otherwise(SMILES[k], k) for k in (20, 3, 3, 40)])
    known.look([SMILES[3]])
    assert known.n_found == 3  # two writings of one hit, and another hit


def test_few_molecules_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    canonical = canonical_smiles
    monkeypatch.setattr(
        structures, "canonical_smiles", lambda found: parsed.extend(found) or canonical(found)
    )
    assert n_repeats(["CCO", "OCC", "CCN", "c1ccccc1"]) == 1
    assert parsed == ["CCO", "OCC"]
    known = Known(["CCO"], most=2)
    known.look(["CCCC", "CCN"])
    assert len(parsed) == 2
    known.look(["COC", "OCC"])
    assert (known.n_found, known.exhausted) == (1, False)
    known.look(["COC"])
    assert known.exhausted
    assert len(parsed) == 5
