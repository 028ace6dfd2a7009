"""Random products of a space."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv as pc
import pytest
from rdkit import Chem

from daskrf import FingerprintSpec, fit, sample, screen
from daskrf.cli.app import run
from daskrf.errors import InputError, OptionError, StoreError
from daskrf.screens.space import cutspaces
from daskrf.spaces import cut, read_space
from daskrf.spaces.families import decoded
from daskrf.spaces.limits import SUMS, sums_of
from daskrf.spaces.sampling import counts_of, inside, product_sums, random_numbers
from tests.naive.spaces import Made, every_product
from tests.spaces.helpers import AMIDE, SPACES, write_space

REACTIONS = {name: SPACES[name] for name in ("amide", "boc", "imide")} | {"amide2": SPACES["amide"]}


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A space of reactions of very different size, two of them alike."""
    return write_space(tmp_path_factory.mktemp("sample") / "space", REACTIONS)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare few products with RDKit."""
    monkeypatch.setattr(cutspaces, "COMPARED", 2)


def every(space: Path) -> list[Made]:
    """Return all products."""
    return every_product(cut(read_space(space), FingerprintSpec("morgan")), lambda s: np.zeros(len(s)))


def test_molecules_are_different_products(space: Path, tmp_path: Path) -> None:
    report = sample(space, tmp_path / "first.csv", n=200)
    table = report.table.to_pydict()
    made = {(one.smiles, one.reaction, one.blocks) for one in every(space)}
    slots = zip(table["block_0"], table["block_1"], table["block_2"], strict=True)
    blocks = [tuple(filter(None, own)) for own in slots]
    assert set(zip(table["smiles"], table["reaction"], blocks, strict=True)) <= made
    assert len({Chem.CanonSmiles(smiles) for smiles in table["smiles"]}) == len(set(table["id"])) == 200
    assert pc.read_csv(tmp_path / "first.csv")["smiles"].to_pylist() == table["smiles"]
    assert report.products == len(every(space))
    assert "200 random molecules of" in str(report)


def test_each_product_is_as_likely_as_any_other(space: Path, tmp_path: Path) -> None:
    expected = Counter(one.reaction for one in every(space))
    total, found = sum(expected.values()), Counter[str]()
    for seed in range(8):
        table = sample(space, tmp_path / f"{seed}.csv", n=100, seed=seed).table
        found.update(table["reaction"].to_pylist())
    for name in ("boc", "imide"):  # molecules of the amides are the same ones
        share = expected[name] / total
        assert abs(found[name] / 800 - share) < 4 * np.sqrt(share * (1 - share) / 800) + 0.05


def test_reactions_give_equally_many(space: Path, tmp_path: Path) -> None:
    table = sample(space, tmp_path / "h.csv", n=120, by="reactions").table
    counts = Counter(table["reaction"].to_pylist())
    assert max(counts.values()) - min(counts.values()) <= 12  # some are the same molecule as another
    assert set(counts) == set(REACTIONS)


def test_a_smaller_sample_begins_a_larger_one(space: Path, tmp_path: Path) -> None:
    by: Any
    for by in ("products", "reactions"):
        few = sample(space, tmp_path / f"few-{by}.smi", n=20, by=by, seed=3).table
        many = sample(space, tmp_path / f"many-{by}.smi", n=90, by=by, seed=3).table
        assert many.slice(0, 20).equals(few)
        assert not sample(space, tmp_path / f"other-{by}.smi", n=20, by=by).table.equals(few)


def test_all_molecules_are_found(space: Path, tmp_path: Path) -> None:
    expected = {one.smiles for one in every(space)}
    report = sample(space, tmp_path / "all.csv", n=10**6)
    assert sorted(report.table["smiles"].to_pylist()) == sorted(expected)
    assert f"the space gave no more than {len(expected):,} different molecules" in report.notes


def test_limits_hold(space: Path, tmp_path: Path) -> None:
    report = sample(space, tmp_path / "few.csv", n=40, within={"rings": (1, 1), "weight": (None, 250.0)})
    for smiles in report.table["smiles"].to_pylist():
        sums = sums_of(Chem.MolFromSmiles(smiles))
        assert sums[SUMS.index("rings")] == 1
        assert sums[SUMS.index("weight")] <= 250
    with pytest.raises(InputError, match="lies within the limits; widen them"):
        sample(space, tmp_path / "none.csv", within={"rings": (50, None)})
    assert not (tmp_path / "none.csv").exists()


def test_sums_and_counts_by_number(space: Path) -> None:
    read = cut(read_space(space), FingerprintSpec("morgan"))
    numbers = random_numbers(sum(read.sizes), 60, 0, "test")
    products = decoded(read, numbers.tolist())
    sums = np.array([read.sums[list(p.synthons)].sum(axis=0) for p in products])
    np.testing.assert_allclose(product_sums(read, numbers), sums)
    limits = [(0, 8.0, 12.0)]
    assert inside(read, numbers, limits).tolist() == [8 <= row[0] <= 12 for row in sums]
    counts = counts_of(read, products)
    for row, product in enumerate(products):
        own = read.fingerprints(np.array([product.synthons]))
        assert (counts[row] != own).nnz == 0


def test_random_numbers_are_uniform_and_distinct() -> None:
    total = 2**62 + 12345
    found = random_numbers(total, 20_000, 1, "test")
    assert len(np.unique(found)) == 20_000
    assert abs(float(found.mean()) / total - 0.5) < 4 * 0.29 / np.sqrt(20_000)
    even = random_numbers(total, 100, 1, "test", lambda numbers: numbers % 2 == 0)
    assert even.tolist() == found[found % 2 == 0][:100].tolist()
    assert len(random_numbers(total, 100, 1, "test", lambda numbers: numbers < 0)) == 0
    assert sorted(random_numbers(1000, 2000, 1, "test").tolist()) == list(range(1000))


def test_bad_input_is_refused(space: Path, tmp_path: Path) -> None:
    path = tmp_path / "there.csv"
    sample(space, path, n=3)
    with pytest.raises(StoreError, match=r"exists; give another path, or replace it by --overwrite"):
        sample(space, path, n=3)
    assert sample(space, path, n=4, overwrite=True).table.num_rows == 4
    with pytest.raises(OptionError, match="must be at least 1"):
        sample(space, tmp_path / "h.csv", n=0)
    by: Any = "blocks"
    with pytest.raises(OptionError, match="by is one of products, reactions"):
        sample(space, tmp_path / "h.csv", by=by)
    nothing = write_space(tmp_path / "nothing", {"amide": (AMIDE, [["CCO"], ["CC(=O)O"]])})
    with pytest.raises(InputError, match="has no products: no block matches its slot"):
        sample(nothing, tmp_path / "h.csv")


def test_a_campaign_begins_with_a_sample(
    space: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = tmp_path / "first.csv"
    assert run(["sample", str(space), "-o", str(first), "-n", "60", "--within", "rings=:4"]) == 0
    assert "by reaction:" in capsys.readouterr().out
    table = pc.read_csv(first)
    scores = [float(smiles.count("N")) for smiles in table["smiles"].to_pylist()]
    pc.write_csv(table.append_column("score", [scores]), first)
    fit(first, output=tmp_path / "model", target="score", direction="maximize", quick=True)
    hits = screen(tmp_path / "model", space, tmp_path / "hits.csv", k=5).table
    assert np.mean([smiles.count("N") for smiles in hits["smiles"].to_pylist()]) > 1.5 * np.mean(scores)
