"""Rings that two bonds between slots close: counts and properties are sums, or blocks are left out."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem

import daskrf
from daskrf import FingerprintSpec
from daskrf.errors import InputError
from daskrf.molecules import Fingerprinter
from daskrf.spaces import cut, read_space
from daskrf.spaces.closures import APART, AROMATICITY, CONJUGATED, SMALL, clashes, closure_of
from daskrf.spaces.limits import sums_of
from tests.spaces.helpers import AMIDE, SPACES, write_space
from tests.spaces.test_spacefiles import write_table

SPEC = FingerprintSpec(["morgan:1", "morgan:2"])
SYNTHONS = [  # paths of one atom and more; small, fused, bridged and spiro rings; conjugated and not
    *("[1*]C[2*]", "[1*]N[2*]", "[1*]C(C)(C)[2*]", "[1*]CC[2*]", "[1*]NC[2*]", "[1*]C(F)C[2*]"),
    *("[1*]CCC[2*]", "[1*]COC[2*]", "[1*]C(C)CC(C)[2*]", "[1*]CCCC[2*]", "[1*]CCCCCC[2*]"),
    *("[1*]C1CC1[2*]", "[1*]C1CCCC1[2*]", "[1*]C1CCCCC1C[2*]", "[1*]C1([2*])CC1", "[1*]C1([2*])CCCC1"),
    *("[1*]C1CC2CC1CC2[2*]", "[1*]C1CC([2*])C1", "[1*]CC1=C([2*])CCC1", "[1*]c1ccccc1C[2*]"),
    *("[1*]c1ccccc1[2*]", "[1*]c1ccccc1CC[2*]", "[1*]C=C[2*]", "[1*]C=CC=C[2*]", "[1*]N=C[2*]"),
    *("[1*]C(=O)N[2*]", "[1*]C(=O)C[2*]", "[1*]n1cccc1[2*]", "[1*]O[2*]", "[1*]n1cccc1C[2*]"),
    *("[1*]C(=C)C[2*]", "[1*]C(=C1C=CC=C1)C[2*]", "[1*]C1CCC2C(C1)CCC2[2*]", "[1*]OC[2*]"),
    *("[1*]CCCC1CCC([2*])CC1", "[1*]S(=O)(=O)C[2*]", "[1*]C#CC[2*]", "[1*]C(C[2*])c1ccccc1"),
    *("[1*]C(=N[2*])C", "[1*][Si](C)(C)[2*]", "[1*]C1=CC=CC1=C[2*]", "[1*]CC(C[2*])(CO)c1ccccc1"),
]
THIRD = ["[3*]C", "[3*]N1CC1", "[3*]OC=O"]


def with_third(synthon: str) -> list[str]:
    """Return a synthon with a third cut, at each of its carbon atoms that has hydrogen."""
    molecule, grown = Chem.MolFromSmiles(synthon), []
    for atom in molecule.GetAtoms():
        if atom.GetAtomicNum() == 6 and atom.GetTotalNumHs() and not atom.GetIsAromatic():
            larger = Chem.RWMol(molecule)
            dummy = larger.AddAtom(Chem.AtomFromSmiles("[3*]"))
            larger.AddBond(atom.GetIdx(), dummy, Chem.BondType.SINGLE)
            Chem.SanitizeMol(larger)
            grown.append(Chem.MolToSmiles(larger))
    return grown


def assert_sums(path: Path) -> tuple[int, Counter[str]]:
    """Compare all products of a table with RDKit; return their number, and how many blocks are left out."""
    space = cut(read_space(path), SPEC)
    entries = space.entries[0]
    refused = Counter({reason: len(ids) for slot in entries for reason, ids in slot.refused.items()})
    rows = np.array(list(itertools.product(*(slot.synthon.tolist() for slot in entries))), np.int32)
    if not len(rows):
        return 0, refused
    smiles, summed = space.product_smiles(rows), space.fingerprints(rows)
    whole = Fingerprinter(SPEC)(smiles)
    assert not whole.rejects
    for i, text in enumerate(smiles):
        assert (summed[i] != whole.fingerprints[i]).nnz == 0, text
        np.testing.assert_allclose(
            space.sums[rows[i]].sum(axis=0), sums_of(Chem.MolFromSmiles(text)), atol=1e-6, err_msg=text
        )
    return len(rows), refused


def test_all_pairs_of_many_synthons(tmp_path: Path) -> None:
    path = write_table(tmp_path / "a.tsv", {"ring": {"1": SYNTHONS[::3], "2": SYNTHONS}})
    n, refused = assert_sums(path)
    assert n >= 200
    assert set(refused) <= {SMALL, CONJUGATED, AROMATICITY}


@pytest.mark.parametrize("seed", range(3))
def test_few_synthons_so_that_few_are_left_out(tmp_path: Path, seed: int) -> None:
    random, made = np.random.default_rng(seed), 0
    for number in range(4):
        slots = {slot: [SYNTHONS[i] for i in random.choice(len(SYNTHONS), 4, replace=False)] for slot in "12"}
        made += assert_sums(write_table(tmp_path / f"{number}.tsv", {"ring": slots}))[0]
    assert made > 10


@pytest.mark.parametrize("seed", range(3))
def test_a_third_slot_sees_the_ring(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    grown = [text for synthon in SYNTHONS for text in with_third(synthon)]
    first = dict.fromkeys(grown[i] for i in random.choice(len(grown), 6, replace=False))
    others = [SYNTHONS[i] for i in random.choice(len(SYNTHONS), 5, replace=False)]
    slots = {"1": list(first), "2": others, "3": THIRD}
    assert assert_sums(write_table(tmp_path / "a.tsv", {"ring": slots}))[0] > 10


@pytest.mark.parametrize(("seed", "first"), [(0, len(SYNTHONS)), (1, 17)])
def test_three_slots_close_a_ring(tmp_path: Path, seed: int, first: int) -> None:
    """Each is joined to both others; of the first synthons, rings are small."""
    random, slots = np.random.default_rng(seed), dict[str, list[str]]()
    for slot, (one, other) in {"1": "12", "2": "23", "3": "31"}.items():
        some = [SYNTHONS[i] for i in random.choice(first, 6, replace=False)]
        slots[slot] = [
            re.sub(r"\[([12])\*", lambda m, c=(one, other): f"[{c[int(m[1]) - 1]}*", t) for t in some
        ]
    n, refused = assert_sums(write_table(tmp_path / "a.tsv", {"ring": slots}))
    assert n >= 60
    assert set(refused) <= {SMALL, CONJUGATED, AROMATICITY}


def test_three_slots_of_a_reaction_make_the_products_of_rdkit(tmp_path: Path) -> None:
    """An open block makes a chain, and patterns lie across all three bonds."""
    smarts = (
        "([N:1]([H])[*:2].[O:3]([H])[C:4]).([OH][C:5]=[O:6].[C:7]Br).([S:8][H].[C:9]I)"
        ">>([*:2][N:1][C:5]=[O:6].[C:7][S:8].[C:9][O:3][C:4])"
    )
    slots = [["NCCO", "CNCCCO", "NC1CCCCC1O"], ["OC(=O)CBr", "OC(=O)C(C)CBr"], ["SCCI", "SCC(F)I"]]
    space = write_space(tmp_path / "s", {"ring": (smarts, slots)})
    report = daskrf.check_space(space, sample=12, spec=SPEC)
    assert report.exit_code == 0
    assert [slot.refused for slot in report.reactions[0].slots] == [{}, {}, {}]
    hits = daskrf.search(space, tmp_path / "hits.csv", smarts="[#6;R]S[#6][#6]O[#6]", k=50)
    assert hits.table.num_rows == hits.products > 10


def test_blocks_that_do_not_fit_are_left_out_with_the_reason(tmp_path: Path) -> None:
    slots = {
        "1": ["[1*]c1ccccc1[2*]", "[1*]c1ccc(C)cc1[2*]"],
        "2": ["[1*]C=C[2*]", "[1*]C[2*]", "[1*]CCC[2*]"],
    }
    report = daskrf.check_space(write_table(tmp_path / "a.tsv", {"ring": slots}), sample=5)
    assert report.exit_code == 0
    assert [slot.refused for slot in report.reactions[0].slots] == [
        {},
        {CONJUGATED: ["ring-2-0"], SMALL: ["ring-2-1"]},
    ]


def test_products_that_fall_apart_are_left_out() -> None:
    dropped = clashes([Counter({(0, False): 2, (3, True): 5}), Counter({(0, False): 9, (3, False): 1})])
    assert dropped == [{(0, False): APART}, {}]


def test_what_stays_connected_is_not_left_out_because_two_others_fall_apart() -> None:
    kinds = [
        Counter({(0, False): 9, (3, True): 9}),
        Counter({(0, False): 5, (3, True): 5}),
        Counter({(3, True): 1}),
    ]
    assert clashes(kinds) == [{}, {(0, False): APART}, {}]


@pytest.mark.parametrize(
    ("synthon", "reason"), [("[1*]N=c1ccccn1[2*]", AROMATICITY), ("[1*]NC(=O)O[2*]", "")]
)
def test_a_synthon_whose_aromaticity_the_ring_changes(synthon: str, reason: str) -> None:
    molecule = Chem.MolFromSmiles(synthon)
    closure = closure_of(molecule, (0, molecule.GetNumAtoms() - 1))
    assert (closure if isinstance(closure, str) else "") == reason


def test_patterns_lie_across_both_bonds(tmp_path: Path) -> None:
    """Also those that the ring itself has; only its size is not known."""
    amides = AMIDE, [["CN", "CCN"], ["CC(=O)O", "OC(=O)C1CC1"]]
    space = write_space(tmp_path / "s", {"lactam": SPACES["lactam"], "amide": amides})
    report = daskrf.search(space, tmp_path / "hits.csv", smarts="O=C1[#6]CO[#6]~[#6]N1", k=500)
    assert set(report.table["reaction"].to_pylist()) == {"lactam"}
    sizes = daskrf.search(space, tmp_path / "sizes.csv", smarts="[C;r3]", k=50)
    assert set(sizes.table["reaction"].to_pylist()) == {"amide"}
    assert any("sizes or numbers of rings are not looked for in lactam" in note for note in sizes.notes)


def test_a_search_for_sizes_of_rings_in_only_such_reactions(tmp_path: Path) -> None:
    space = write_space(tmp_path / "s", {"lactam": SPACES["lactam"]})
    with pytest.raises(InputError, match="has no other products: patterns that ask for sizes"):
        daskrf.search(space, tmp_path / "hits.csv", smarts="[C;R2]")
