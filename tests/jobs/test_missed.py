"""Estimates of how many of the best products a shortlist lacks, and their intervals."""

from __future__ import annotations

import numpy as np
import pytest

from daskrf.screens.space.missed import Missed

SIZE = 20_000
EDGES = [SIZE * 2**i for i in range(6)]


def missed(k: int, n: int, better: list[int], n_low: int | None = None) -> Missed:
    """Return an estimate by n products of each of five ranges, some of which are better."""
    looked = tuple((EDGES[i] + 1, EDGES[i + 1], n, x) for i, x in enumerate(better))
    return Missed(k, SIZE, looked, n_low=n_low)


def hits_between(first: float, last: float, power: float) -> float:
    """Return the integral of places to the minus `power`."""
    return float((last ** (1 - power) - first ** (1 - power)) / (1 - power))


@pytest.mark.parametrize("power", [0.01, 0.5, 2.0])  # hits are as frequent everywhere, or near the top
@pytest.mark.parametrize("lacking", [0, 3, 100])
@pytest.mark.parametrize("n", [1000, 9000])
def test_intervals_hold_the_truth_in_95_of_100_shortlists(power: float, lacking: int, n: int) -> None:
    """Of 300, at least 275: fewer would come once in 300 tests if 95 % were right."""
    random, k, inside = np.random.default_rng(5), 200, 0
    shape = np.array([hits_between(EDGES[i], EDGES[i + 1], power) for i in range(5)])
    rate = lacking / shape.sum()
    for _ in range(300):
        hits = random.poisson(rate * shape)
        better = [
            int(random.hypergeometric(m, EDGES[i + 1] - EDGES[i] - m, n)) for i, m in enumerate(hits.tolist())
        ]
        n_low = int(random.poisson(rate * hits_between(SIZE // 2, SIZE, power)))
        estimate = missed(k, n, better, n_low)
        low, high = estimate.interval
        assert low <= estimate.recall <= high
        inside += low <= k / (k + hits.sum()) <= high
    assert inside >= 275


def test_samples_without_a_hit_bound_what_is_lacking() -> None:
    """By the rule of three point seven: 97.5 % of samples would have had one of so many."""
    low, high = missed(100, 10_000, [0] * 5).interval
    assert high == 1.0
    assert low == pytest.approx(100 / (100 + 3.689 * 32), rel=1e-3)
    more = missed(100, 10_000, [0] * 5, n_low=0).interval[0]
    assert more == pytest.approx(100 / (100 + 3.689 * 620_000 / 60_000), rel=1e-3)
    assert low < missed(100, 10_000, [0] * 5, n_low=2).interval[0] < more
    assert missed(100, 10_000, [0] * 5, n_low=9).interval[0] == low
    assert Missed(100, SIZE, ()).interval == (0.0, 1.0)


def test_an_estimate_is_shown_with_its_interval() -> None:
    text = str(missed(100, 10_000, [3, 0, 0, 0, 0], n_low=4))
    assert "3 of 10,000 at places 20,001 to 40,000" in text
    assert "holds an estimated 94% (95 % interval " in text
    assert text.endswith("beyond place 640,000 nothing is known")
