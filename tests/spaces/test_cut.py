"""Synthons: joined, they are RDKit's products, and their fingerprints add up to RDKit's."""

from __future__ import annotations

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdChemReactions
from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

from daskrf.errors import InputError
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.spaces.comparison import compare
from daskrf.spaces.cut import CutSpace, cut, n_cuts
from daskrf.spaces.families import families
from daskrf.spaces.spacefiles import read_space
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, OLEFIN, SPACES, write_space

SPEC = FingerprintSpec(["morgan:1", "morgan:2"])
cutting = sys.modules["daskrf.spaces.cut"]  # the package has a function of this name


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> CutSpace:
    return cut(read_space(write_space(tmp_path_factory.mktemp("space"), SPACES)), SPEC)


def all_products(space: CutSpace, reaction: int) -> np.ndarray:
    """Return the synthons of every product of a reaction."""
    return np.array(list(itertools.product(*(np.unique(slot.synthon) for slot in space.entries[reaction]))))


def run_reactants(name: str, blocks: list[str]) -> set[str]:
    """Return the products of RDKit's ``RunReactants``."""
    smarts, slots = SPACES[name][0], len(blocks)
    reaction = rdChemReactions.ReactionFromSmarts(smarts)
    needs = [
        any(a.GetAtomicNum() == 1 for a in reaction.GetReactantTemplate(i).GetAtoms()) for i in range(slots)
    ]
    molecules = [Chem.MolFromSmiles(block) for block in blocks]
    molecules = [Chem.AddHs(m) if need else m for m, need in zip(molecules, needs, strict=True)]
    products = set()
    for (product,) in reaction.RunReactants(molecules, maxProducts=10**6):
        if Chem.SanitizeMol(product, catchErrors=True) == Chem.SanitizeFlags.SANITIZE_NONE:
            products.add(Chem.CanonSmiles(Chem.MolToSmiles(Chem.RemoveHs(product))))
    return products


@pytest.mark.parametrize("name", SPACES)
def test_joined_synthons_are_rdkit_s_products(whole: CutSpace, name: str) -> None:
    reaction, space = list(SPACES).index(name), whole.space
    made = 0
    for blocks in itertools.product(*space.slots_of(reaction)):
        of = [slot.of_block(block) for slot, block in zip(whole.entries[reaction], blocks, strict=True)]
        synthons = np.array(list(itertools.product(*of)), int).reshape(-1, len(of))
        joined = {Chem.CanonSmiles(smiles) for smiles in whole.product_smiles(synthons)}
        assert joined == run_reactants(name, [space.smiles[block] for block in blocks])
        made += len(joined)
    assert made > 30


@pytest.mark.parametrize(
    ("name", "slot", "block", "reason"),
    [
        ("benzimidazole", 1, "C[13C](=O)O", "stereocentre or written hydrogens"),
        ("benzothiazole", 1, "C[14CH]=O", "stereocentre or written hydrogens"),
        ("benzothiazole", 1, "C[CH]=O", "stereocentre or written hydrogens"),  # RDKit may keep these
        ("benzothiazole", 1, "C=O", "where the ring should be bound to the rest of it"),
        ("benzothiazole", 1, "[2H]C([2H])=O", "where the ring should be bound to the rest of it"),
        ("triazole", 1, "CC#[13CH]", "stereocentre or written hydrogens"),
        ("triazole", 1, "CC#CC", "other bonds than its template has"),  # the other end's
    ],
)
def test_blocks_that_give_a_ring_something_else_are_left_out(
    tmp_path: Path, name: str, slot: int, block: str, reason: str
) -> None:
    smarts, slots = SPACES[name][0].replace("[C;H1:7]", "[C:7]"), SPACES[name][1]
    slots_with = [
        [*blocks_of_slot, block] if s == slot else blocks_of_slot for s, blocks_of_slot in enumerate(slots)
    ]
    space = cut(read_space(write_space(tmp_path / "s", {name: (smarts, slots_with)})), SPEC)
    refused = space.entries[0][slot].refused
    (left_out,) = (blocks for sentence, blocks in refused.items() if sentence.endswith(reason))
    assert block in [space.space.smiles[number] for number in left_out]


@pytest.mark.parametrize(
    ("smarts", "slots"),
    [
        (  # the ring is bound to the rest of the carbonyl at its other atom, or at both
            "[c:2]([H])[c:3][N:1]([H])[H].[*:5][C:6](=O)[C:7]([H])([H])>>[c:2]1[c:3][nH:1][c:6]([*:5])[c:7]1",
            [["Nc1ccccc1"], ["CCC=O", "CC(=O)CC"]],
        ),
        (  # RDKit makes no molecule of these: a hydrogen atom stays at the nitrogen
            "[C:1](Br)[C:2][C:3][C:4]Br.[N:6]([H])[*:7]>>[C:1]1[C:2][C:3][C:4][N:6]1[*:7]",
            [["BrCCCCBr"], ["CN", "CNC"]],
        ),
    ],
)
def test_blocks_of_which_all_outcomes_give_a_ring_something_else(
    tmp_path: Path, smarts: str, slots: list[list[str]]
) -> None:
    space = cut(read_space(write_space(tmp_path / "s", {"ring": (smarts, slots)})), SPEC)
    refused = np.concatenate(list(space.entries[0][1].refused.values()))
    assert {space.space.smiles[number] for number in refused} == set(slots[1])
    assert not space.entries[0][1].synthon.size


@pytest.mark.parametrize("name", SPACES)
def test_fingerprints_of_all_products_are_sums(whole: CutSpace, name: str) -> None:
    chosen = all_products(whole, list(SPACES).index(name))
    summed, smiles = whole.fingerprints(chosen), whole.product_smiles(chosen)
    assert summed.shape == (len(chosen), SPEC.n_columns)
    assert summed.dtype == np.uint16
    generators = [GetMorganGenerator(radius=radius) for radius in (1, 2)]
    for row, text in enumerate(smiles):
        molecule = Chem.MolFromSmiles(text)
        expected = {
            kind * 2**32 + identifier: count
            for kind, generator in enumerate(generators)
            for identifier, count in generator.GetSparseCountFingerprint(molecule)
            .GetNonzeroElements()
            .items()
        }
        span = slice(*summed.indptr[row : row + 2])
        got = dict(zip(summed.indices[span].tolist(), summed.data[span].tolist(), strict=True))
        assert got == expected, text


@pytest.mark.parametrize("kind", [{"radius": 0}, {"radius": 1}, {"radius": 2}, {"radius": 2, "size": 64}])
def test_fingerprints_are_those_of_the_package(whole: CutSpace, kind: dict[str, int]) -> None:
    other = cut(whole.space, FingerprintSpec(**kind))
    for reaction in range(len(SPACES)):
        chosen = all_products(other, reaction)[::7]
        summed = other.fingerprints(chosen)
        expected = Fingerprinter(other.spec)(other.product_smiles(chosen)).fingerprints
        for name in ("data", "indices", "indptr"):
            np.testing.assert_array_equal(getattr(summed, name), getattr(expected, name))
            assert getattr(summed, name).dtype == getattr(expected, name).dtype


@pytest.mark.parametrize("name", SPACES)
def test_fingerprints_of_a_family_are_those_of_its_synthons(
    whole: CutSpace, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (family,) = (one for one in families(whole) if one.reactions == (list(SPACES).index(name),))
    rows = [row.ravel() for row in np.meshgrid(*map(np.arange, family.shape))]
    expected = whole.fingerprints(
        np.column_stack([side.synthon[row] for side, row in zip(family.sides, rows, strict=True)])
    )
    monkeypatch.setattr(cutting, "_ROWS", 7)  # in many parts, by numbers that are sorted
    monkeypatch.setattr(cutting, "_LARGE", -(10**6))
    summed = family.fingerprints(whole.own, rows)
    assert summed.dtype == np.uint16
    assert (summed != expected).nnz == 0
    monkeypatch.setattr(cutting, "MAX_COUNT", 3)
    clipped = family.fingerprints(whole.own, rows)
    assert clipped.dtype == np.uint16
    assert expected.data.max() > 3
    np.testing.assert_array_equal(clipped.data, np.minimum(expected.data, 3))


def test_no_products_have_no_fingerprints(whole: CutSpace) -> None:
    none = np.empty((0, 2), np.int64)
    assert whole.fingerprints(none).shape == (0, SPEC.n_columns)


def test_the_comparison_finds_no_difference(whole: CutSpace) -> None:
    comparisons = [compare(whole, reaction, 20, seed=3) for reaction in range(len(SPACES))]
    assert [one.difference for one in comparisons] == [""] * len(SPACES)
    assert all(one.combinations == 20 and one.products >= 20 for one in comparisons)


def test_a_wrong_fingerprint_is_a_difference(whole: CutSpace) -> None:
    wrong = replace(whole, edge=np.zeros_like(whole.edge))  # as if all blocks had the same surroundings
    assert "is not the sum" in compare(wrong, 0, 20).difference


def test_a_double_bond_that_smiles_cannot_leave_open_is_a_difference(tmp_path: Path) -> None:
    """RDKit drops the stereochemistry at the bromine; here this bond lies between two that have it."""
    slots = [[r"F/C=C/C=C\Br"], ["C=CC#N"]]
    space = cut(read_space(write_space(tmp_path, {"olefin": (OLEFIN, slots)})), SPEC)
    assert "RDKit makes" in compare(space, 0, 1).difference


def test_a_missing_product_is_a_difference(whole: CutSpace) -> None:
    block = whole.space.smiles.index("NCCNC")
    (amines, acids), at = whole.entries[0], np.flatnonzero(whole.entries[0][0].block == block)
    one_site = amines._replace(block=amines.block[at[:1]], synthon=amines.synthon[at[:1]])
    assert "RDKit makes" in compare(replace(whole, entries=[[one_site, acids]]), 0, 1).difference


def test_sizes_count_sites(tmp_path) -> None:
    blocks = [["NCCNC", "CN", "CCO"], ["CC(=O)O", "CC(=O)[O-].[Na+]", "nonsense", "*C(=O)O"]]
    space = read_space(write_space(tmp_path, {"amide": (AMIDE, blocks)}))
    cut_space = cut(space, FingerprintSpec("morgan"))
    assert cut_space.sizes == [3]
    assert n_cuts(space) == 7
    assert [slot.refused for slot in cut_space.entries[0]] == [
        {"it does not match its slot": [2]},
        {
            "it has several fragments; strip salts and solvents": [4],
            "RDKit cannot read it": [5],
            "it has a dummy atom": [6],
        },
    ]


def test_equal_blocks_have_one_synthon(tmp_path) -> None:
    space = read_space(write_space(tmp_path, {"amide": (AMIDE, [["CN", "NC", "C[NH2]"], ["CC(=O)O"]])}))
    cut_space = cut(space, FingerprintSpec("morgan"))
    assert cut_space.smiles == ["[1*]NC", "[1*]C(C)=O"]
    assert cut_space.sizes == [3]


@pytest.mark.parametrize(
    "spec", [FingerprintSpec("torsion"), FingerprintSpec(radius=3), FingerprintSpec(counts=False)]
)
def test_what_does_not_compose_is_refused(tmp_path, spec: FingerprintSpec) -> None:
    space = read_space(write_space(tmp_path, {"amide": (AMIDE, [AMINES, ACIDS])}))
    with pytest.raises(InputError, match="are not sums over synthons"):
        cut(space, spec)


def test_progress_is_told(tmp_path) -> None:
    steps: list[int] = []
    space = read_space(write_space(tmp_path, {"amide": (AMIDE, [AMINES, ACIDS])}))
    cut(space, FingerprintSpec("morgan"), steps.append)
    assert sum(steps) == n_cuts(space) == len(AMINES) + len(ACIDS)
