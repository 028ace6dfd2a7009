"""Products that differ from others in one block, against comparing all pairs of products."""

from __future__ import annotations

import numpy as np
import pytest

from daskrf.molecules import FingerprintSpec
from daskrf.spaces import CutSpace, cut, read_space
from daskrf.spaces.families import decoded
from daskrf.spaces.neighbours import neighbours
from tests.spaces.helpers import SPACES, write_space

NONE = np.empty(0, np.int64)


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> CutSpace:
    """Reactions of two and three slots."""
    folder = tmp_path_factory.mktemp("near")
    write_space(folder, {name: SPACES[name] for name in ("amide", "boc", "imide")})
    return cut(read_space(folder), FingerprintSpec("morgan"))


def synthons_of(space: CutSpace, numbers: np.ndarray) -> list[tuple[int, tuple[int, ...]]]:
    """Return reaction and synthons of products."""
    return [(p.reaction, p.synthons) for p in decoded(space, numbers.tolist())]


def differing(one: tuple[int, tuple[int, ...]], other: tuple[int, tuple[int, ...]]) -> bool:
    """Return whether two products differ in exactly one synthon."""
    return one[0] == other[0] and sum(a != b for a, b in zip(one[1], other[1], strict=True)) == 1


def test_they_are_all_that_differ_in_one_synthon(space: CutSpace) -> None:
    every = synthons_of(space, np.arange(sum(space.sizes)))
    random = np.random.default_rng(0)
    for _ in range(5):
        numbers = random.choice(len(every), 3, replace=False)
        products = neighbours(space, numbers, NONE, 10**6, 0)
        assert (np.diff(products) > 0).all()
        assert not np.isin(products, numbers).any()
        start = {every[n] for n in numbers.tolist()}
        expected = {one for one in every if any(differing(one, other) for other in start)} - start
        assert {every[n] for n in products.tolist()} - start == expected


def test_large_slots_give_some_of_the_best_products_and_random_ones(space: CutSpace) -> None:
    every = synthons_of(space, np.arange(sum(space.sizes)))
    sizes = [[len(np.unique(slot.synthon)) for slot in slots] for slots in space.entries]
    start, best = np.array([0]), np.arange(sum(space.sizes))[::-7]
    assert max(sizes[0]) > 4
    products = neighbours(space, start, best, 4, 0)
    for slot, size in enumerate(sizes[0]):
        changed = [every[n][1][slot] for n in products.tolist() if every[n][1][slot] != every[0][1][slot]]
        assert (
            len(changed) == len(set(changed)) >= min(size, 4) - 1
        )  # the synthon of the product itself may be one
        if size > 4:
            of_best = list(
                dict.fromkeys(synthons[slot] for r, synthons in map(every.__getitem__, best) if not r)
            )
            assert {*of_best[:2]} - {every[0][1][slot]} <= set(changed)
    assert (neighbours(space, start, best, 4, 0) == products).all()
    others = [neighbours(space, start, best, 4, seed) for seed in range(1, 6)]
    assert any(len(products) != len(other) or (products != other).any() for other in others)


def test_of_no_products_there_are_none(space: CutSpace) -> None:
    assert neighbours(space, NONE, NONE, 10, 0).size == 0
