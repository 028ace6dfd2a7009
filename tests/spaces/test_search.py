"""`daskrf search` of a space: what it prints, and that nothing more similar is left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rdkit import Chem, DataStructs
from rdkit.Chem import rdFingerprintGenerator

from daskrf import FingerprintSpec, search
from daskrf.commands.search import SearchReport
from daskrf.errors import DaskrfError, InputError, StoreError
from daskrf.screens.space import productsearch
from daskrf.spaces import cut, read_space
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, SPACES, write_space

QUERY = "CC(C)NC(=O)c1ccccc1C(=O)O"


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A space in which two reactions make the same molecules."""
    reactions = {
        "amide": (AMIDE, [AMINES[3:], ACIDS]),
        "again": (AMIDE, [AMINES[:9], ACIDS[:6]]),
        "imide": SPACES["imide"],
    }
    return write_space(tmp_path_factory.mktemp("search") / "space", reactions)


@pytest.fixture(scope="module")
def products(space: Path) -> list[str]:
    """The SMILES of all products, each once."""
    whole = cut(read_space(space), FingerprintSpec("morgan:2"))
    every = set()
    for slots in whole.entries:
        grids = np.meshgrid(*(slot.synthon for slot in slots), indexing="ij")
        every |= set(whole.product_smiles(np.column_stack([grid.ravel() for grid in grids])))
    return sorted(every)


def by_rdkit(products: list[str], query: str, radius: int = 2) -> dict[str, float]:
    """Return the Tanimoto similarity of counts of each product, by RDKit."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=radius)
    counts = [generator.GetSparseCountFingerprint(Chem.MolFromSmiles(text)) for text in [query, *products]]
    return dict(zip(products, DataStructs.BulkTanimotoSimilarity(counts[0], counts[1:]), strict=True))


def test_nothing_more_similar_is_left_out(space: Path, products: list[str], tmp_path: Path) -> None:
    truth = by_rdkit(products, QUERY)
    report = search(space, tmp_path / "out.csv", similar_to=QUERY, k=40)
    table = pd.read_csv(tmp_path / "out.csv")
    assert table["smiles"].is_unique
    assert len(table) == 40
    np.testing.assert_allclose(table["similarity"], [truth[smiles] for smiles in table["smiles"]])
    assert np.all(np.diff(table["similarity"]) <= 0)
    np.testing.assert_allclose(table["similarity"], sorted(truth.values(), reverse=True)[:40])
    assert f"similarity {table['similarity'].max():.3f} to {table['similarity'].min():.3f}" in str(report)
    assert {"reaction", "block_0", "block_1", "heavy_atoms", "row", "rank", "query"} <= set(table)


def test_each_of_several_molecules_has_its_own_products(
    space: Path, products: list[str], tmp_path: Path
) -> None:
    queries = [QUERY, "NCCNC(=O)C1CC1", "O"]
    search(space, tmp_path / "out.csv", similar_to=queries, k=5, spec=FingerprintSpec("morgan:1"))
    table = pd.read_csv(tmp_path / "out.csv")
    for query in queries:
        part = table[table["query"] == query]
        best = sorted(by_rdkit(products, query, 1).values(), reverse=True)[:5]
        np.testing.assert_allclose(part["similarity"], best)
        assert part["rank"].tolist() == [1, 2, 3, 4, 5]


def test_limits_and_blocks_hold(space: Path, products: list[str], tmp_path: Path) -> None:
    search(
        space, tmp_path / "out.csv", similar_to=QUERY, k=30, within={"heavy_atoms": (None, 9)}, per_block=3
    )
    table = pd.read_csv(tmp_path / "out.csv")
    assert table["heavy_atoms"].max() <= 9
    blocks = pd.concat([table[name] for name in table if name.startswith("block_")]).value_counts()
    assert blocks.max() <= 3
    assert len(table) == 30


def test_more_are_looked_at_where_many_are_the_same(
    space: Path, products: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(productsearch, "_MORE", 1)
    search(space, tmp_path / "out.csv", similar_to=QUERY, k=25)
    table = pd.read_csv(tmp_path / "out.csv")
    best = sorted(by_rdkit(products, QUERY).values(), reverse=True)[:25]
    np.testing.assert_allclose(table["similarity"], best)


def test_all_products_are_listed_if_there_are_fewer(space: Path, products: list[str], tmp_path: Path) -> None:
    report = search(space, tmp_path / "out.csv", similar_to=QUERY, k=100_000)
    assert isinstance(report, SearchReport)
    assert report.table.num_rows == len(products)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"similar_to": "no molecule"}, "'no molecule'"),
        ({"similar_to": ""}, "no atoms"),
        ({"similar_to": []}, "Give a molecule"),
        ({"smarts": "[Xe]"}, "None of the"),
        ({"smarts": "[N;$(NC)]"}, "another block"),
        ({"without_smarts": "C.C"}, "several fragments"),
        ({"k": 0}, "at least 1"),
        ({"spec": FingerprintSpec("atompair")}, "not sums over synthons"),
        ({"within": {"heavy_atoms": (500, None)}}, "No product"),
    ],
)
def test_what_cannot_be_searched_for_is_one_sentence(
    space: Path, tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(DaskrfError, match=words) as caught:
        search(space, tmp_path / "out.csv", **{"similar_to": QUERY, **options})
    assert str(caught.value).count("\n") == 0
    assert not (tmp_path / "out.csv").exists()


def test_a_file_is_kept_unless_it_may_be_replaced(space: Path, tmp_path: Path) -> None:
    search(space, tmp_path / "out.csv", similar_to=QUERY, k=3)
    with pytest.raises(StoreError, match="--overwrite"):
        search(space, tmp_path / "out.csv", similar_to=QUERY, k=4)
    search(space, tmp_path / "out.csv", similar_to=QUERY, k=4, overwrite=True)
    assert len(pd.read_csv(tmp_path / "out.csv")) == 4


def test_a_file_that_is_no_space_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lib.smi").write_text("CCO a\n")
    with pytest.raises(InputError):
        search(tmp_path / "lib.smi", tmp_path / "out.csv", similar_to="CCO")


def test_patterns_filter_what_is_similar(space: Path, products: list[str], tmp_path: Path) -> None:
    search(space, tmp_path / "out.csv", similar_to=QUERY, smarts="C1CC1", without_smarts="[2H]", k=20)
    table = pd.read_csv(tmp_path / "out.csv")
    ring, deuterium = Chem.MolFromSmarts("C1CC1"), Chem.MolFromSmarts("[2H]")
    molecules = {text: Chem.MolFromSmiles(text) for text in products}
    having = [
        text
        for text, molecule in molecules.items()
        if molecule.HasSubstructMatch(ring) and not molecule.HasSubstructMatch(deuterium)
    ]
    assert set(table["smiles"]) <= set(having)
    best = sorted(by_rdkit(having, QUERY).values(), reverse=True)[:20]
    np.testing.assert_allclose(table["similarity"], best)


def test_random_products_contain_the_pattern(space: Path, products: list[str], tmp_path: Path) -> None:
    across = "[CX4]C(=O)N[CX4]"
    report = search(space, tmp_path / "out.csv", smarts=across, k=30, within={"rings": (1, None)})
    table = pd.read_csv(tmp_path / "out.csv")
    assert len(table) == 30
    assert table["smiles"].is_unique
    assert table["rings"].min() == 1
    assert all(
        Chem.MolFromSmiles(text).HasSubstructMatch(Chem.MolFromSmarts(across)) for text in table["smiles"]
    )
    assert f"products contain {across}" in str(report)
    search(space, tmp_path / "other.csv", smarts=across, k=30, within={"rings": (1, None)}, seed=1)
    assert set(pd.read_csv(tmp_path / "other.csv")["smiles"]) != set(table["smiles"])
    search(space, tmp_path / "all.csv", smarts=across, k=100_000)
    pattern = Chem.MolFromSmarts(across)
    every = {text for text in products if Chem.MolFromSmiles(text).HasSubstructMatch(pattern)}
    assert set(pd.read_csv(tmp_path / "all.csv")["smiles"]) == every
