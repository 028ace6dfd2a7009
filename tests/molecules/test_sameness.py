"""What counts as the same molecule, at each level, and which molecules are others."""

from __future__ import annotations

import random

import pytest
from rdkit import Chem

from daskrf.demo.enumeration import ReactionLibrary
from daskrf.molecules.counterions import COUNTERIONS
from daskrf.molecules.counts.fingerprints import FingerprintSpec, equal_fingerprints
from daskrf.molecules.sameness import parenter
from daskrf.molecules.structures import LEVELS, KnownStructures, parents, same_names, tautomers
from tests.molecules.test_orders import UGLY, orders

PAMOIC = "O=C(O)c1cc2ccccc2c(Cc2c(O)c(C(=O)O)cc3ccccc23)c1O"
PAIRS = {
    "structure": [("OCC", "C(O)C"), ("c1ccccc1O", "OC1=CC=CC=C1"), ("C[C@H](N)O", "O[C@@H](N)C")],
    "parent": [
        ("CCN", "CC[NH3+].[Cl-]"),
        ("CC(=O)O", "CC(=O)[O-].[Na+]"),
        ("CC(=O)O", "CC(=O)O[Na]"),
        ("CC(=O)O", "[K]OC(C)=O"),
        ("OCCN1CCOCC1", "OCC[NH+]1CCOCC1.OC(=O)/C=C/C(=O)[O-].O"),
        ("C[C@H](N)C(=O)O", "C[C@H]([NH3+])C(=O)[O-]"),
        ("C[N+](C)(C)CC(=O)[O-]", "C[N+](C)(C)CC(=O)O.[Cl-]"),
        ("NCc1ccccc1", "[NH3+]Cc1ccccc1.[O-]S(C)(=O)=O"),
        (
            "COc1ccc2[nH]c(S(=O)Cc3ncc(C)c(OC)c3C)nc2c1",
            "COc1ccc2[nH]c([S+]([O-])Cc3ncc(C)c(OC)c3C)nc2c1",
        ),
        ("C[S@](=O)CC", "C[S@+]([O-])CC"),
        ("CS(=O)CC(=O)O", "C[S+]([O-])CC(=O)[O-].[Na+]"),
        ("CS(=O)NC", "C[S+]([O-])[N-]C"),
        ("CS(=O)(=O)N", "C[S+2]([O-])([O-])N"),
        ("O=S1C=CC=C1", "[O-][s+]1cccc1"),
        ("C[P@](=O)(CC)CCC", "C[P@+]([O-])(CC)CCC"),
        ("C=P(C)(C)C", "[CH2-][P+](C)(C)C"),
        ("CN=[N+]=[N-]", "C[N-][N+]#N"),
        ("[N-]=[N+]=C1C=CC=C1", "N#[N+][c-]1cccc1"),
        ("CN1CCCN=C1/C=C/c1cccs1", f"CN1CCCN=C1/C=C/c1cccs1.{PAMOIC}"),
        ("CN1CCCN=C1/C=C/c1cccc(O)c1", f"CN1CCCN=C1/C=C/c1cccc(O)c1.{PAMOIC}"),
        ("CN", "CN.OS(=O)(=O)c1ccc(C)cc1"),
        ("CN", "C[NH3+].[O-]C(=O)/C=C/C(=O)O"),
        ("CCN", "CCN.O[C@@H]([C@H](O)C(=O)O)C(=O)[O-].[Na+]"),
        ("CCN", "CCN.O[C@H]([C@@H](O)C(=O)O)C(=O)O"),
        ("CCn1cc[n+](C)c1", "CCn1cc[n+](C)c1.F[P-](F)(F)(F)(F)F"),
        ("C[C@H](F)N", "C[C@H](F)N.OS(=O)(=O)O.CS(C)=O"),
        ("OC(=O)c1ccccc1", "[Na+].[O-]C(=O)c1ccccc1.O"),
        ("OC(=O)c1ccccc1", "OC(=O)c1ccccc1.NCCO"),
    ],
    "tautomer": [
        ("Oc1ccccn1", "O=c1cccc[nH]1"),
        ("CC(=O)CC(C)=O", "CC(O)=CC(C)=O"),
        ("Cc1c[nH]cn1", "Cc1cnc[nH]1"),
        ("Nc1nc2[nH]cnc2c(=O)[nH]1", "Nc1nc(O)c2nc[nH]c2n1"),
        ("Cc1nn[nH]n1", "Cc1nnn[nH]1"),
        ("c1ccc2[nH]ncc2c1", "c1ccc2n[nH]cc2c1"),
        ("NC(=N)NC", "NC(N)=NC"),
        ("S=c1cccc[nH]1", "[S-]c1ccccn1.[Na+]"),
        ("O=c1cc[nH]cc1", "Oc1ccncc1.Cl"),
        ("CC(=O)CC(c1ccccc1)c1c(O)c2ccccc2oc1=O", "CC(=O)CC(c1ccccc1)C1C(=O)c2ccccc2OC1=O"),
    ],
    "skeleton": [
        ("C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"),
        ("C[C@H](N)C(=O)O", "CC(N)C(=O)[O-].[Li+]"),
        ("F/C=C/Cl", "F/C=C\\Cl"),
        ("C[S@@](=O)CC", "C[S@+]([O-])CC"),
        ("C[P@@](=O)(CC)CCC", "C[P@+]([O-])(CC)CCC"),
        ("[2H]C([2H])([2H])O", "CO"),
        ("[13CH3]C(=O)O", "CC(=O)[18OH]"),
        ("C[C@@H]1CCCC(O)=N1", "C[C@H]1CCCC(=O)N1"),
    ],
}
OTHERS = [
    ("CCN", "CCCN"),
    ("Oc1ccccn1", "Oc1cccnc1"),
    ("Cn1ccccc1=O", "COc1ccccn1"),
    ("C=CCO", "CCC=O"),
    ("Cn1cnc2ccccc21", "Cc1nc2ccccc2[nH]1"),
    ("CC(C)O", "CCCO"),
    ("[Na+].[Cl-]", "[K+].[Br-]"),
    (f"CN1CCCN=C1/C=C/c1cccs1.{PAMOIC}", f"CN1CCCN=C1/C=C/c1cccc(O)c1.{PAMOIC}"),
    ("CN.OS(=O)(=O)c1ccc(C)cc1", "CCN.OS(=O)(=O)c1ccc(C)cc1"),
]
CASES = [(level, *pair) for level, pairs in PAIRS.items() for pair in pairs]


@pytest.mark.parametrize(("level", "one", "other"), CASES)
def test_levels_are_nested(level: str, one: str, other: str) -> None:
    """Molecules are the same at their level and at all wider ones, and others at all narrower ones."""
    for each in LEVELS:
        same = LEVELS.index(each) >= LEVELS.index(level)
        first, second = same_names([one, other], each)
        assert (first == second) == same, each
        for reference, query in ((one, other), (other, one)):
            assert KnownStructures.of([reference, "CCCCCCCCO"], each).among([query]) == [same], each


@pytest.mark.parametrize(("one", "other"), OTHERS)
def test_other_molecules_are_others_at_every_level(one: str, other: str) -> None:
    for level in LEVELS:
        assert len(set(same_names([one, other], level))) == 2
        assert KnownStructures.of([one], level).among([other]) == [False]


@pytest.mark.parametrize("text", ["CC\u00e9", "C" * 1500, "no molecule"])
def test_what_no_reader_takes_is_its_own_parent(text: str) -> None:
    """RDKit would read the first as ethane."""
    assert parenter()(text) == (text, 0)


def test_numbers_of_graphs_tell_molecules_apart() -> None:
    parent = parenter()
    parents = [parent(text) for text in ReactionLibrary().smiles(0, 400)]
    assert len({number for _, number in parents}) > 0.9 * len({smiles for smiles, _ in parents})


def test_names_do_not_depend_on_how_molecules_are_written() -> None:
    molecules = [*UGLY, *(text for _, one, other in CASES for text in (one, other))]
    for level in LEVELS:
        names = same_names(molecules, level)
        for seed in range(3):
            other = [orders(text, 1, seed)[1] for text in molecules]
            assert same_names(other, level) == names
            assert KnownStructures.of(molecules, level).among(other) == [True] * len(other)


def test_a_set_finds_the_same_as_comparing_all_tautomers() -> None:
    """Only molecules of the same graph of elements are compared, and that loses none."""
    some = [text for _, *pair in CASES for text in pair] + [text for pair in OTHERS for text in pair]
    some += ReactionLibrary(seed=3).smiles(0, 10)
    random.Random(1).shuffle(some)
    for level, plain in (("tautomer", False), ("skeleton", True)):
        whole = tautomers(parents(some)[0], plain=plain)
        structures = KnownStructures.of(some[:20], level)
        assert structures.among(some) == [name in whole[:20] for name in whole]
        assert structures.free(some).tolist() == [name not in whole[:20] for name in whole]
        names = same_names(some, level)
        assert [names.index(name) for name in names] == [whole.index(name) for name in whole]


def test_a_text_that_is_no_molecule_is_only_itself() -> None:
    for level in LEVELS:
        assert same_names(["Qq", "C1CC", ""], level) == ["Qq", "C1CC", ""]
        assert KnownStructures.of(["Qq"], level).among(["Qq", "q", "C1CC"]) == [True, False, False]
        assert KnownStructures([], level).among(["CC", ""]) == [False, False]


def test_racemates_stay_such_without_their_counterions() -> None:
    parent = parenter()
    assert parent("OC(=O)C(=O)O.N[C@H]1CCOC1 |&1:7|")[0] == "N[C@H]1CCOC1 |&1:1|"
    assert parent("OC(=O)C(=O)O.N[C@H]1CCOC1")[0] == "N[C@H]1CCOC1"


def test_counterions_are_known_in_all_forms_and_once() -> None:
    """Each is set aside beside an amine, and none is a fragment of two."""
    names = [Chem.CanonSmiles(text) for text in COUNTERIONS]
    assert len(set(names)) == len(names)
    assert {parenter()(f"CCCN.{text}")[0] for text in COUNTERIONS} == {"CCCN"}
    assert not [text for text in COUNTERIONS if "." in text or "@" in text or "/" in text]


def test_graphs_of_elements_are_those_of_all_tautomers_and_stereoisomers() -> None:
    for level, one, other in CASES:
        if level != "structure":
            (_, first), (_, second) = (zip(*parents([text]), strict=True).__next__() for text in (one, other))
            assert first == second > 0
    assert Chem.MolFromSmiles(parents(["CC(=O)O[Na]"])[0][0]) is not None


def test_molecules_with_the_same_fingerprint_have_the_same_number() -> None:
    smiles = ["C[C@H](N)O", "?", "CCO", "C[C@@H](N)O", "OCC", "?"]
    assert equal_fingerprints(smiles, FingerprintSpec("morgan"), "keep").tolist() == [0, 1, 2, 0, 2, 5]
    chiral = FingerprintSpec("morgan", chirality=True)
    assert equal_fingerprints(smiles, chiral, "keep").tolist() == [0, 1, 2, 3, 2, 5]
