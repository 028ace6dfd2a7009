"""Numbers of products, and reactions that are scored together."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from daskrf.errors import InputError
from daskrf.molecules import FingerprintSpec
from daskrf.screens.space import cutspaces
from daskrf.spaces import CutSpace, cut, read_space, sampling
from daskrf.spaces.families import Family, decoded, families, family_of, identifiers, starts_of
from daskrf.workers.progress import Progress
from tests.spaces.helpers import ACIDS, AMIDE, AMINES, SPACES, write_space

REACTIONS = {
    "boc": SPACES["boc"],
    "amide": (AMIDE, [AMINES, ACIDS]),
    "alike": (AMIDE, [AMINES[2:], [*ACIDS[:5], "OC(=O)CCN"]]),
    "apart": (AMIDE, [["CCCN", "CCCCN"], ["OC(=O)CCC", "OC(=O)CCCC"]]),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> CutSpace:
    return cut(
        read_space(write_space(tmp_path_factory.mktemp("space") / "s", REACTIONS)), FingerprintSpec(radius=2)
    )


def test_reactions_with_the_same_synthons_are_scored_together(whole: CutSpace) -> None:
    assert [family.reactions for family in families(whole)] == [(0,), (1, 2), (3,)]


def test_each_combination_of_synthons_has_its_lowest_number(whole: CutSpace) -> None:
    products = decoded(whole, range(starts_of(whole)[-1]))
    for family in families(whole):
        first: dict[tuple[int, ...], int] = {}
        for number, product in enumerate(products):
            if product.reaction in family.reactions:
                first.setdefault(product.synthons, number)
        rows = np.array(list(itertools.product(*map(range, family.shape))))
        numbers = family.number(list(rows.T))
        synthons = np.column_stack(
            [side.synthon[row] for side, row in zip(family.sides, rows.T, strict=True)]
        )
        numbered = {tuple(s): n for s, n in zip(synthons.tolist(), numbers.tolist(), strict=True) if n >= 0}
        assert numbered == first
        assert family.size == len(first)


def test_counts_of_numbers_are_those_of_products(whole: CutSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_BATCH", 9)
    numbers = np.random.default_rng(1).permutation(starts_of(whole)[-1])[:200]
    expected = sampling.counts_of(whole, decoded(whole, numbers.tolist()))
    seen = np.zeros(len(numbers), int)
    for at, counts in sampling.counts_of_numbers(whole, families(whole), numbers):
        assert (counts != expected[at]).nnz == 0
        seen[at] += 1
    assert (seen == 1).all()


def test_products_have_ids_of_their_own(whole: CutSpace) -> None:
    products = decoded(whole, range(starts_of(whole)[-1]))
    names = identifiers(whole, products)
    assert len(set(names)) == len(names)
    blocks, reactions = whole.space.blocks, whole.space.reactions
    for name, product in zip(names, products, strict=True):
        words = [reactions[product.reaction].name, *(blocks[block] for block in product.blocks)]
        assert name.partition(".")[0] == "-".join(words)
        for slot, block, synthon in zip(
            whole.entries[product.reaction], product.blocks, product.synthons, strict=True
        ):
            assert synthon in slot.of_block(block)
    with pytest.raises(InputError, match="There is no product"):
        decoded(whole, [len(names)])


def test_groups_have_the_counts_over_cuts_of_all_products(whole: CutSpace) -> None:
    for family in families(whole):
        for classes, views in zip(family.groups, family.views, strict=True):
            rows = [np.flatnonzero(side.reach == c) for side, c in zip(family.sides, classes, strict=True)]
            chosen = np.array(list(itertools.islice(itertools.product(*rows), 40)))
            total, synthons = 0, []
            for side, row, view in zip(family.sides, chosen.T, views, strict=True):
                total = total + side.counts[side.overlap[side.edge[row], view]] + whole.own[side.synthon[row]]
                synthons.append(side.synthon[row])
            assert (total != whole.fingerprints(np.column_stack(synthons))).nnz == 0


def test_an_interrupted_run_keeps_the_families_that_it_has_made(
    whole: CutSpace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, advances = list[tuple[int, ...]](), list[int]()

    def record(space: CutSpace, reactions: tuple[int, ...], tell: Callable[[float], None]) -> Family:
        made.append(reactions)
        if len(made) == 2:
            raise KeyboardInterrupt
        return family_of(space, reactions, tell)

    class Counted(Progress):
        def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
            advances[:] = [-total]

        def advance(self, amount: int) -> None:
            advances.append(amount)

    monkeypatch.setattr(cutspaces, "family_of", record)
    again = partial(cutspaces.families_once, whole, tmp_path, "key", lambda space: space, Counted())
    with pytest.raises(KeyboardInterrupt):
        again()
    rest, read = again()[1], again()[1]
    assert made == [(0,), (1, 2), (1, 2), (3,)]
    assert sum(advances) == 0
    for one, other, expected in zip(rest, read, families(whole), strict=True):
        assert (one.reactions, one.starts, one.shapes) == (other.reactions, other.starts, other.shapes)
        assert one.starts == expected.starts
        for side, same, true in zip(one.sides, other.sides, expected.sides, strict=True):
            assert (side.counts != true.counts).nnz == (same.counts != true.counts).nnz == 0
            np.testing.assert_array_equal(side.overlap, true.overlap)
    assert [path.name for path in tmp_path.iterdir()] == ["space-families"]
