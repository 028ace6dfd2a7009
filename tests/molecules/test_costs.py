"""What RDKit would take too long for is refused at once, on any machine; what chemists make is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rdkit import Chem

from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.counts.costs import bound_of_paths, refusal_of_rings, refusal_of_text
from daskrf.molecules.counts.spec import FRAGMENTS, KINDS
from tests.molecules.graphs import bipartite, clique, cyclodextrin, lattice, paraphenylene, smiles_of
from tests.naive.fingerprints import count_paths

N_RUNGS = 120
METHYL_LADDER = [  # squares in a row, with a methyl group at each atom
    *((k, k + 2) for k in range(2 * N_RUNGS - 2)),
    *((2 * k, 2 * k + 1) for k in range(N_RUNGS)),
    *((k, k + 2 * N_RUNGS) for k in range(2 * N_RUNGS)),
]
STAR = "[U]" + "(C)" * 60
ESTER_OF_GLYCEROL = "CCCCCCCC/C=C\\CCCCCCCC(=O)OCC(COP(=O)([O-])OCC[N+](C)(C)C)OC(=O)CCCCCCCCCCCCCCC"
PEPTIDE = "N[C@@H](Cc1c[nH]c2ccccc12)C(=O)N[C@@H](CCCNC(=N)N)C(=O)N1CCC[C@H]1C(=O)N[C@@H]([C@@H](C)CC)C(=O)"
NUCLEOTIDE = "OP(=O)(O)OC[C@H]1O[C@@H](n2cnc3c(N)ncnc23)C[C@@H]1"
FERROCENE = "[Fe]12345678(C9C1C2C3C49)C1C5C6C7C81"


@settings(max_examples=60, derandomize=True, deadline=None)
@given(st.integers(2, 9).flatmap(lambda n: st.tuples(st.just(n), st.data())))
def test_the_bound_of_paths_is_exact_for_trees_and_holds_for_graphs(drawn) -> None:
    n, data = drawn
    tree = [(data.draw(st.integers(0, k - 1)), k) for k in range(1, n)]
    assert bound_of_paths(np.array(tree)) == count_paths(tree, 7)
    others = [pair for pair in clique(n) if pair not in tree]
    rings = data.draw(st.lists(st.sampled_from(others), unique=True, max_size=4)) if others else []
    assert bound_of_paths(np.array(tree + rings)) >= count_paths(tree + rings, 7)


@pytest.mark.parametrize(
    ("kind", "smiles", "reason"),
    [
        ("rdkit", STAR + "C" + STAR, "more than 2,000,000 branched paths of up to 7 bonds"),
        ("rdkit", smiles_of(clique(12), "[U]"), "more than 2,000,000 branched paths of up to 7 bonds"),
        ("rdkit", smiles_of(lattice(20), "C"), "more than 2,000,000 branched paths of up to 7 bonds"),
        ("torsion", ("[U]" + "(C)" * 60) * 12, "40,809 torsions are more than 20,000"),
        (
            "atompair",
            "C([2H])([2H])" * 600,
            "1,800 atoms, with hydrogens, are too many for atom pairs (1,500)",
        ),
        (
            "substituents",
            smiles_of(METHYL_LADDER, "C"),
            "too many bonds to large ring systems for substituents (5,270,640 steps)",
        ),
    ],
)
def test_what_grows_without_bound_is_refused(kind: str, smiles: str, reason: str) -> None:
    assert Fingerprinter(FingerprintSpec(kind))(["CCO", smiles, "CCN"]).rejects == [(1, reason)]
    assert Fingerprinter(FingerprintSpec(["morgan:2", "morgan:2:features"]))([smiles]).rejects == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        (paraphenylene(18), "more than 50,000 smallest rings, since its rings close to rings"),
        (cyclodextrin(26), "more than 300,000 smallest rings, since its rings close to rings"),
        (cyclodextrin(40), "more than 300,000 smallest rings, since its rings close to rings"),  # above 2**32
        (smiles_of(bipartite(20), "[U]"), "361 ring closures among 40 atoms are more than a molecule has"),
        (smiles_of(clique(40), "[U]"), "741 ring closures among 40 atoms are more than a molecule has"),
    ],
)
def test_rings_without_number_are_refused(kind: str, smiles: str, reason: str) -> None:
    assert Fingerprinter(FingerprintSpec(kind))([smiles]).rejects == [(0, reason)]


@pytest.mark.parametrize("kind", KINDS)
def test_what_chemists_make_is_kept(kind: str) -> None:
    """Of up to 1,000 heavy atoms, for every kind that is fast with so many."""
    copies = 1 if kind == "atompair" else 3
    molecules = [
        "CCO" * (333 if copies > 1 else 100),
        PEPTIDE * (7 * copies) + "O",
        NUCLEOTIDE * (14 * copies) + "O",
        "N%90" + (PEPTIDE * 3)[1:-5] + "C%90(=O)",
        ESTER_OF_GLYCEROL,
        "C([2H])([2H])" * (100 * copies) + "C(=O)O",
        paraphenylene(12),
        cyclodextrin(8),
        cyclodextrin(14),
        FERROCENE,
        ".".join([FERROCENE, "[Na+]", "[Cl-]"]),
    ]
    assert Fingerprinter(FingerprintSpec(kind))(molecules).rejects == []


@pytest.mark.parametrize(
    ("smiles", "fragments", "reason"),
    [
        ("C" * 1000, "keep", ""),
        ("C" * 1001, "keep", "1,001 heavy atoms are more than 1,000"),
        ("C=C" * 3333, "keep", "6,666 heavy atoms are more than 1,000"),
        ("ClBr[nH]" * 334, "keep", "1,002 heavy atoms are more than 1,000"),
        ("[H]C([H])([2H])([H+])*[*:1][#1]" * 400, "keep", ""),
        ("[He][Hg][Ho]" * 400, "keep", "1,200 heavy atoms are more than 1,000"),
        ("C" * 900 + "." + "C" * 900, "keep", "1,800 heavy atoms are more than 1,000"),
        ("C" * 900 + "." + "C" * 900, "largest", ""),
        ("C.C" * 600, "keep", "1,200 heavy atoms are more than 1,000"),
        ("C.C" * 1000, "largest", "1,001 fragments are more than 1,000"),
        ("O" + " name" * 400, "keep", ""),
    ],
)
def test_too_long_a_smiles_is_refused_before_it_is_parsed(smiles: str, fragments: str, reason: str) -> None:
    assert refusal_of_text(smiles, fragments) == reason


@pytest.mark.parametrize("fragments", FRAGMENTS)
def test_no_more_heavy_atoms_are_counted_than_there_are(
    fragments: str, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No text is refused unless its molecule would be."""
    for smiles in (data_dir / "guacamol_10k.smiles").read_text().split()[::100]:
        molecule = Chem.MolFromSmiles(smiles)
        heavy = max(fragment.GetNumHeavyAtoms() for fragment in Chem.GetMolFrags(molecule, asMols=True))
        heavy = molecule.GetNumHeavyAtoms() if fragments == "keep" else heavy
        monkeypatch.setattr("daskrf.molecules.counts.costs.MAX_HEAVY_ATOMS", heavy)
        assert refusal_of_text(smiles, fragments) == ""
        monkeypatch.setattr("daskrf.molecules.counts.costs.MAX_HEAVY_ATOMS", heavy - 1)
        assert refusal_of_text(smiles, fragments).startswith(f"{heavy} heavy atoms are more than")


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("CCé", r"'\xe9' at position 3 cannot be part of a SMILES"),  # RDKit would leave it out
        ("CC\x01", r"'\x01' at position 3 cannot be part of a SMILES"),
        ("C\nC", r"'\n' at position 2 cannot be part of a SMILES"),
        ("C\0C", r"'\x00' at position 2 cannot be part of a SMILES"),
        ("C\u202eC", r"'\u202e' at position 2 cannot be part of a SMILES"),
        ("C\ud800", r"'\ud800' at position 2 cannot be part of a SMILES"),
        ("CCO éthanol", ""),
        ("CCO\téthanol", ""),
    ],
)
def test_characters_that_no_smiles_has_are_refused(smiles: str, reason: str) -> None:
    assert refusal_of_text(smiles, "keep") == reason
    assert Fingerprinter()([smiles]).rejects == ([(0, reason)] if reason else [])


def test_few_rings_are_not_looked_at() -> None:
    assert refusal_of_rings("not a SMILES" + "1" * 40) == ""
    assert refusal_of_rings(FERROCENE) == refusal_of_rings(FERROCENE.join("..")) == ""
