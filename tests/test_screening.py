"""TopK is exact, associative and commutative, and refuses what it cannot rank."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.screening import TopK
from tests.naive.gp import top_k

PROPERTY = settings(derandomize=True, deadline=None, max_examples=150)
SCORES = st.sampled_from([-np.inf, -2.5, -0.0, 0.0, 1e-300, 1.0, 3.0, np.inf]) | st.floats(allow_nan=False)


@st.composite
def streams(draw):
    """Scored rows in any order, cut into chunks, some of them empty."""
    scores = draw(st.lists(SCORES, max_size=40))
    rows = draw(st.permutations(range(100, 100 + len(scores))))
    cuts = sorted(draw(st.lists(st.integers(0, len(scores)), max_size=5)))
    return list(zip(scores, rows, strict=True)), cuts


def chunk(k, pairs):
    scores, rows = [p[0] for p in pairs], [p[1] for p in pairs]
    return TopK(k).from_chunk(
        scores, rows, id=[f"m{r}" for r in rows], twice=2 * np.array(rows, dtype=np.int64)
    )


def equal(a, b):
    left, right = a.arrays(), b.arrays()
    return left.keys() == right.keys() and all(np.array_equal(left[n], right[n]) for n in left)


def check(actual, pairs, k):
    expected = top_k(pairs, k)
    assert list(zip(actual.score.tolist(), actual.row.tolist(), strict=True)) == expected
    assert actual.columns["id"].tolist() == [f"m{row}" for _, row in expected]
    assert actual.columns["twice"].tolist() == [2 * row for _, row in expected]


@PROPERTY
@given(streams(), st.integers(1, 12))
def test_exact_whatever_the_chunks_and_the_grouping(stream, k):
    pairs, cuts = stream
    bounds = [0, *cuts, len(pairs)]
    parts = [chunk(k, pairs[a:b]) for a, b in itertools.pairwise(bounds)]
    left, right = TopK(k), TopK(k)
    for piece in parts:
        left = left.combine(piece)
    for piece in reversed(parts):
        right = piece.combine(right)
    check(chunk(k, pairs), pairs, k)
    check(left, pairs, k)
    assert equal(left, right)
    middle = len(parts) // 2
    halves = [TopK(k), TopK(k)]
    for i, piece in enumerate(parts):
        halves[i < middle] = piece.combine(halves[i < middle])
    assert equal(halves[0].combine(halves[1]), halves[1].combine(halves[0]))
    assert equal(halves[0].combine(halves[1]), left)


@PROPERTY
@given(streams(), st.integers(1, 12))
def test_a_chunk_that_comes_twice_counts_once(stream, k):
    pairs, _ = stream
    once = chunk(k, pairs)
    assert equal(once.combine(once), once)
    assert equal(once.combine(TopK(k)), once)


def test_bounded_memory_and_ties_over_many_rows():
    top = TopK(5)
    for start in range(90_000, -1, -10_000):
        top = top.combine(TopK(5).from_chunk(np.ones(10_000), np.arange(start, start + 10_000)[::-1]))
        assert len(top) == 5
    assert top.row.tolist() == [0, 1, 2, 3, 4]


def test_refusals():
    with pytest.raises(InputError, match="row 7 is NaN"):
        TopK(2).from_chunk([1.0, np.nan], [3, 7])
    with pytest.raises(InputError, match="the same length"):
        TopK(2).from_chunk([1.0, 2.0], [3])
    with pytest.raises(InputError, match="the same length"):
        TopK(2).from_chunk([1.0], [3], id=["a", "b"])
    with pytest.raises(InputError, match="repeats"):
        TopK(2).from_chunk([1.0, 2.0], [3, 3])
    with pytest.raises(InputError, match="top 2 and top 3"):
        TopK(2).combine(TopK(3))
    with pytest.raises(InputError, match="carry the same columns"):
        TopK(2).from_chunk([1.0], [1], id=["a"]).combine(TopK(2).from_chunk([1.0], [2]))
    for k in (0, -1, 1.5, True):
        with pytest.raises(InputError, match="positive integer"):
            TopK(k)
