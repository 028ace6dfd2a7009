"""The first batch: as many different molecules as asked for, which pass all filters, from anywhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from daskrf import fingerprint
from daskrf.campaigns.firstbatch import FirstBatch, Rows, maxmin
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.errors import InputError
from daskrf.molecules.counts.similarity import Similarities
from daskrf.molecules.diversity import Diversity
from daskrf.screens.passing import FilterTexts
from daskrf.workers.progress import Progress

SMILES = ReactionLibrary().smiles(0, 160)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Molecules with prices, two of them twice, and two rows without one."""
    path = tmp_path_factory.mktemp("library") / "lib.csv"
    rows = [*SMILES, SMILES[3], SMILES[4], "no molecule", "C1CC"]
    path.write_text("smiles,id,price\n" + "".join(f"{s},m{i},{i % 10}\n" for i, s in enumerate(rows)))
    return path


def chosen(choice: FirstBatch, library: Path) -> list[str]:
    table = choice.choose(Rows(library, None, Progress()), Progress())
    assert table["rank"].to_pylist() == list(range(1, choice.n + 1))
    return table["smiles"].to_pylist()


@pytest.mark.parametrize("by", ["random", "diverse"])
def test_molecules_pass_and_are_different(by: str, library: Path, tmp_path: Path) -> None:
    (tmp_path / "old.smi").write_text("\n".join(SMILES[:50]))
    filters = FilterTexts(where="price < 5 and weight < 450")
    choice = FirstBatch(12, by, 3, filters, exclude=[tmp_path / "old.smi"])  # type: ignore[arg-type]
    batch = chosen(choice, library)
    assert len(set(batch)) == 12
    assert all(text in SMILES[50:] and SMILES.index(text) % 10 < 5 for text in batch)
    assert chosen(choice, library) == batch
    assert chosen(FirstBatch(12, by, 4, filters), library) != batch  # type: ignore[arg-type]


def test_a_store_is_as_good_as_its_file(library: Path, tmp_path: Path) -> None:
    fingerprint(library, tmp_path / "fp", rows_per_partition=50)
    batch = chosen(FirstBatch(40), tmp_path / "fp")
    assert len(set(batch)) == 40
    assert set(batch) <= set(SMILES)


def test_diverse_molecules_are_less_alike_than_random_ones(library: Path) -> None:
    def nearest(by: str) -> float:
        batch = chosen(FirstBatch(20, by), library)  # type: ignore[arg-type]
        similarities = Similarities(batch)
        return float(np.mean([np.sort(similarities.to(i))[-2] for i in range(20)]))

    assert nearest("diverse") < nearest("random") - 0.05


def test_each_pick_is_the_least_similar_one() -> None:
    picks = maxmin(Similarities(SMILES[:40]), Diversity(SMILES[:40]), 10)
    similarity = np.array([Similarities(SMILES[:40]).to(i) for i in range(40)])
    for k in range(1, 10):
        nearest = similarity[:, picks[:k]].max(axis=1)
        free = [i for i in range(40) if i not in picks[:k]]
        assert nearest[picks[k]] == nearest[free].min()


def test_too_few_molecules_are_one_sentence(library: Path) -> None:
    with pytest.raises(InputError, match=r"but of 164 only 160 can be chosen; ask for fewer by first"):
        chosen(FirstBatch(161), library)
    with pytest.raises(InputError, match=r"only 0 can be chosen"):
        chosen(FirstBatch(2, filters=FilterTexts(where="price > 10")), library)
