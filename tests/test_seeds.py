"""Random streams: the same numbers for ever, whatever was asked for before."""

from __future__ import annotations

import numpy as np
import pytest

from daskrf import seeds
from daskrf.errors import InputError


def test_golden_streams() -> None:
    """A change here changes every result of every user."""
    assert seeds.key(7, "golden") == 6902305339749438785
    assert seeds.words(7, "golden", 3).tolist() == [
        16222790278786795977,
        15335463848071381697,
        1736329146269895882,
    ]
    assert seeds.generator(7, "golden").integers(2**63, size=3).tolist() == [
        3185221841324457738,
        1618104031505336727,
        6150900469626446749,
    ]
    assert seeds.generator(7, "golden", 1).integers(2**63, size=3).tolist() == [
        2809870875042947933,
        7197697154910867806,
        6776980720118369665,
    ]


def test_words_are_addressed_by_their_index() -> None:
    long = seeds.words(2**63 - 1, "x", 100)
    for start, count in ((0, 100), (1, 3), (99, 1), (50, 0)):
        assert (seeds.words(2**63 - 1, "x", count, start) == long[start : start + count]).all()


def test_seed_name_and_index_select_other_streams() -> None:
    streams = [seeds.words(seed, name, 4).tolist() for seed in (0, 1) for name in ("a", "b")]
    streams += [
        seeds.generator(seed, name, index).integers(2**63, size=4).tolist()
        for seed in (0, 1)
        for name in ("a", "b")
        for index in (0, 1)
    ]
    assert len({tuple(stream) for stream in streams}) == len(streams)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, True, None, "1"])
def test_seeds_out_of_range_are_refused(seed: object) -> None:
    with pytest.raises(InputError, match="random_state must be an integer"):
        seeds.key(seed, "x")  # type: ignore[arg-type]


def test_numpy_integers_are_seeds() -> None:
    assert seeds.key(np.int32(5), "x") == seeds.key(5, "x")


@pytest.mark.parametrize("n", [1, 7, 50])
@pytest.mark.parametrize("size", [1, 5, 60])
def test_a_random_sample_is_that_of_the_smallest_words(n: int, size: int) -> None:
    items = 3 * np.arange(n) + 1
    order = np.argsort(seeds.words(3, "sample", n), kind="stable")
    for at_once in (1, 8, 100):
        sample = seeds.RandomSample(3, "sample", size)
        for start in range(0, n, at_once):
            sample.offer(items[start : start + at_once])
        assert sample.chosen.tolist() == items[np.sort(order[:size])].tolist()


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_seeds_drawn_from_generators(make) -> None:
    one, other = make(5), make(5)
    drawn = [seeds.seed_of(one) for _ in range(50)]
    assert drawn == [seeds.seed_of(other) for _ in range(50)]
    assert len({*drawn}) == 50
    assert all(seeds.check_seed(seed) == seed == seeds.seed_of(seed) for seed in drawn)
    assert seeds.seed_of(None) != seeds.seed_of(None)
    with pytest.raises(InputError, match="random_state must be an integer"):
        seeds.seed_of("5")
