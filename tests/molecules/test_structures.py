"""Molecules are known again however their SMILES are written, and other ones are not taken for them."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from rdkit import Chem

from daskrf.demo.enumeration import ReactionLibrary
from daskrf.molecules import structures
from daskrf.molecules.structures import Molecules, canonical_smiles, composition

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


def n_repeats(smiles: list[str]) -> int:
    return Molecules(smiles).n_repeats()


def test_repeats_are_counted() -> None:
    again = [written_otherwise(smiles, k) for k, smiles in enumerate(SMILES[:20])]
    assert n_repeats(SMILES) == 0
    assert n_repeats([*SMILES, *again, *again[:5], SMILES[7]]) == 26
    assert n_repeats(["C[C@H](F)Cl", "C[C@@H](F)Cl", "CC(F)Cl"]) == 0  # stereoisomers
    assert n_repeats(["Qq", "Qq", "?"]) == 1  # no molecules: by their text
    assert n_repeats([]) == 0


def test_molecules_are_counted_among_others() -> None:
    molecules = Molecules([*SMILES[:30], written_otherwise(SMILES[20], 4), SMILES[4], SMILES[4]])
    assert molecules.n_found() == 0
    molecules.look(SMILES[30:])
    assert molecules.n_found() == 0
    molecules.look([written_otherwise(SMILES[k], k) for k in (20, 3, 3, 40)])
    molecules.look([SMILES[3]])
    assert molecules.n_found() == 3  # two writings of one molecule, and another molecule
    molecules.look([SMILES[4]])
    assert molecules.n_found() == 6
    for k in range(30):
        molecules.look([SMILES[k]])
    assert molecules.n_found() == 33


def test_few_molecules_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def counted(smiles: Iterable[str]) -> list[str]:
        parsed.extend(smiles := list(smiles))
        return canonical_smiles(smiles)

    monkeypatch.setattr(structures, "canonical_smiles", counted)
    molecules = Molecules(["CCO", "OCC", "CCN", "c1ccccc1", "CCCl", "CCCl"], most=2)
    assert molecules.n_repeats() == 2
    assert sorted(parsed) == ["CCO", "OCC"]
    molecules.look(["CCCC", "CCCl"])  # another composition, the same text
    assert (len(parsed), molecules.n_found()) == (2, 2)
    molecules.look(["COC"])
    molecules.look(["C(C)N"])
    assert (len(parsed), molecules.n_found(), molecules.exhausted) == (5, 3, False)
    molecules.look(["NCC", "C(O)C"])
    assert molecules.exhausted
    assert len(parsed) == 5
