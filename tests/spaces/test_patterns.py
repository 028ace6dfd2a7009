"""Products that contain patterns, by the pieces of synthons, are those that RDKit finds one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rdkit import Chem

from daskrf import FingerprintSpec
from daskrf.errors import InputError
from daskrf.molecules import Fingerprinter
from daskrf.molecules.alerts import alerts_of
from daskrf.screening import TopK
from daskrf.screens.space.search import Chosen
from daskrf.spaces import cut, patterns, read_space
from daskrf.spaces.families import decoded, families
from daskrf.spaces.patterns import (
    AllowedProducts,
    Matcher,
    is_decided,
    is_searched,
    n_allowed,
    pattern_tables,
    read_pattern,
    ways,
)
from daskrf.spaces.sampling import counts_of, rows_of_numbers
from daskrf.spaces.similarity import Query, most_similar, pieces_of_similarity
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, SPACES, write_space

REACTIONS = {
    **SPACES,
    "amide2": (AMIDE, [AMINES[3:], [*ACIDS[:4], "OC(=O)CCN"]]),
}
PATTERNS = [
    *("C", "N", "O=C", "NC=O", "NC(=O)c1ccccc1", "[#6]NC(=O)[#6]", "C-C-N", "*~*~*~*", "[!#6]~[!#6]"),
    *("A-A", "a-A", "[*;!R]-;!@[*;R]", "[D3]-[D2]", "[X3]-[N;H1]", "[N;H0;D3]", "[C;H3]-*-*-[N,O]", "c:n"),
    *("[R]@[R]", "C-!@N", "[N;v3]~[C,c]~[O,N]", "C1CC1", "[CX4][NX3]C(=O)[CX4]", "F", "[2H]", "[+1]", "NN"),
    *("N1~*~*~*~*~*1", "[R]-[R]-C(=O)", "[N;R]-[C;R]", "[C;!R]-[N,O]", "[x3]", "O-@C", "C1~*~*~*~*~C1C"),
    *("CC(=O)N", "N~C~N", "[#8]~[#6]~[#7]~[#6]", "[N,C;r3]~*", "*", "S", "Cl", "[#1]"),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A space that is cut, its families, numbers of all their products, and their molecules."""
    space = cut(
        read_space(write_space(tmp_path_factory.mktemp("patterns") / "space", REACTIONS)),
        FingerprintSpec("morgan:1"),
    )
    members, numbers = families(space), []
    for family in members:
        rows = [grid.ravel() for grid in np.meshgrid(*(np.arange(n) for n in family.shape), indexing="ij")]
        of_family = family.number(rows)
        numbers.append(of_family[of_family >= 0])
    every = np.concatenate(numbers)
    every = every[np.random.default_rng(0).permutation(len(every))[:4000]]
    smiles: dict[int, str] = {}
    products = decoded(space, every.tolist())
    for slots in {len(product.synthons) for product in products}:
        at = [i for i, product in enumerate(products) if len(product.synthons) == slots]
        texts = space.product_smiles(np.array([products[i].synthons for i in at]))
        smiles |= dict(zip(every[at].tolist(), texts, strict=True))
    return space, members, np.concatenate(numbers), {n: Chem.MolFromSmiles(s) for n, s in smiles.items()}


def allowed_numbers(made: Any, wanted: list[str], unwanted: list[str]) -> set[int]:
    space, members, _, _ = made
    allowed = AllowedProducts(members, pattern_tables(space, members, wanted, unwanted))
    numbers = allowed.numbers(np.arange(len(allowed)))
    numbers = numbers[numbers >= 0]
    assert len(np.unique(numbers)) == len(numbers)
    return set(numbers.tolist())


@pytest.mark.parametrize("pattern", PATTERNS)
def test_products_with_a_pattern_are_those_of_rdkit(made: Any, pattern: str) -> None:
    space, members, _, molecules = made
    query = read_pattern(pattern)
    searched = set[int]()
    numbers = np.array(list(molecules))
    for family, at, _ in rows_of_numbers(space, members, numbers):
        if is_searched(space, members[family], [pattern]):
            searched |= set(numbers[at].tolist())
    assert (len(searched) < len(molecules)) == ("r3" in pattern)
    truth = {number for number in searched if molecules[number].HasSubstructMatch(query)}
    assert allowed_numbers(made, [pattern], []) & set(molecules) == truth
    assert allowed_numbers(made, [], [pattern]) & set(molecules) == searched - truth


def test_patterns_cross_cuts() -> None:
    assert {0: "[C&!#0][#0&1*]", 1: "[N&!#0][#0&1*]"} in ways(read_pattern("CN"), [[1], [1]])
    assert len(ways(read_pattern("C1CC1"), [[1], [1]])) == 2  # rings are never cut


def test_several_patterns_and_their_number(made: Any) -> None:
    space, members, every, molecules = made
    wanted, unwanted = ["NC=O", "[#6]1~*~*1"], ["F", "[+1]"]
    queries = [[Chem.MolFromSmarts(text) for text in texts] for texts in (wanted, unwanted)]
    truth = {
        number
        for number, molecule in molecules.items()
        if all(map(molecule.HasSubstructMatch, queries[0]))
        and not any(map(molecule.HasSubstructMatch, queries[1]))
    }
    assert truth
    numbers = allowed_numbers(made, wanted, unwanted)
    assert numbers & set(molecules) == truth
    tables = pattern_tables(space, members, wanted, unwanted)
    assert sum(n_allowed(family, table) for family, table in zip(members, tables, strict=True)) == len(
        numbers
    )
    none = pattern_tables(space, members, [], [])
    assert sum(n_allowed(*each) for each in zip(members, none, strict=True)) == len(every)


def test_products_without_alerts_are_those_of_rdkit(made: Any) -> None:
    """Catalogs have hundreds of patterns, most of which no product contains."""
    space, members, _, molecules = made
    members = members[:5]
    alerts = [alert.smarts for alert in alerts_of("brenk") if is_decided(alert.smarts)]
    queries = [Chem.MolFromSmarts(smarts) for smarts in alerts]
    tables = pattern_tables(space, members, [], alerts)
    allowed = AllowedProducts(members, tables)
    numbers = set(allowed.numbers(np.arange(len(allowed))).tolist())
    n_without = 0
    every = np.array(list(molecules))
    for family, at, _ in rows_of_numbers(space, made[1], every):
        for number in every[at].tolist() if family < len(members) else ():
            without = not any(map(molecules[number].HasSubstructMatch, queries))
            assert (number in numbers) == without, Chem.MolToSmiles(molecules[number])
            n_without += without
    assert n_without > 0
    for table in tables:  # synthons with the same partners are one class
        for slot in range(table.allowed.ndim):
            rows = np.moveaxis(table.allowed, slot, 0).reshape(table.allowed.shape[slot], -1)
            assert len(np.unique(rows, axis=0)) == len(rows)


def test_pieces_are_ruled_out_by_atoms_and_bonds_only_if_they_are_missing() -> None:
    pattern = read_pattern("[#6;!R]-[N;D2,D3]-C(=O)c1cc[c,n]cc1")
    pieces = tuple(dict.fromkeys(piece for way in ways(pattern, [[1], [1]]) for piece in way.values()))
    match = Matcher(pieces)
    for text in ("[1*]NC(=O)c1ccccc1", "[1*]C(=O)c1ccncc1", "[1*]c1ccncc1", "C[1*]", "CN([1*])C", "[1*]C=O"):
        molecule = Chem.MolFromSmiles(text)
        there = [i for i, piece in enumerate(pieces) if molecule.HasSubstructMatch(Chem.MolFromSmarts(piece))]
        assert match(text) == " ".join(map(str, there))


@pytest.mark.parametrize("most_parts", [32, 0])
@pytest.mark.parametrize(("wanted", "unwanted"), [(["NC=O"], []), (["C1CC1"], ["F"]), (["[Xe]"], [])])
def test_the_most_similar_of_them(
    made: Any, wanted: list[str], unwanted: list[str], most_parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patterns, "_MOST_PARTS", most_parts)
    space, members = made[:2]
    tables = pattern_tables(space, members, wanted, unwanted)
    numbers = np.array(sorted(allowed_numbers(made, wanted, unwanted)), np.int64)
    query = Query.of(Fingerprinter(space.spec)(["CC(C)NC(=O)C1CC1"]).fingerprints)
    top = TopK(50)
    for piece in pieces_of_similarity(members):
        best = Chosen(members[piece.family], top, tables[piece.family])
        most_similar(piece, members[piece.family], space.own, query, [], best, patterns=tables[piece.family])
        top = best.top()
    truth = query.similarities(counts_of(space, decoded(space, numbers.tolist())))
    expected = TopK(50).from_chunk(np.float32(truth), numbers)
    np.testing.assert_array_equal(top.row, expected.row)


@pytest.mark.parametrize(
    ("smarts", "words"),
    [
        ("not SMARTS", "not a SMARTS"),
        ("", "no atoms"),
        ("C.C", "several fragments"),
        ("[N;$(NC=O)]", r"asks by \$\( \)"),
        ("[C^2]", r"asks by \^"),
        ("[C;z1]", "asks by z or Z"),
    ],
)
def test_what_cannot_be_decided_is_one_sentence(smarts: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_pattern(smarts)
