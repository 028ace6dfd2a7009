"""Counting the best molecules along a ranking."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.report.recovery import recovery


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=40), st.data())
def test_equals_sets(pairs, data):
    truth = np.array([float(t) for t, _ in pairs])
    predicted = np.array([float(p) for _, p in pairs])
    n_best = data.draw(st.integers(1, len(pairs)))
    result = recovery(truth, predicted, n_best)
    best = set(sorted(range(len(pairs)), key=lambda i: (-truth[i], i))[:n_best])
    ranking = sorted(range(len(pairs)), key=lambda i: (-predicted[i], i))
    for count in range(1, len(pairs) + 1):
        hits = len(best & set(ranking[:count]))
        assert result.found[count - 1] == hits
        assert result.fraction(count) == hits / n_best
        assert result.enrichment(count) == pytest.approx(hits / n_best / (count / len(pairs)))


def test_more_than_all_is_all():
    result = recovery([1.0, 2.0], [1.0, 2.0], 1)
    assert result.fraction(100) == 1.0
    assert result.enrichment(100) == 1.0


@pytest.mark.parametrize("n_best", [0, 3])
def test_number_of_best_is_checked(n_best):
    with pytest.raises(InputError, match="from 1 to 2"):
        recovery([1.0, 2.0], [1.0, 2.0], n_best)


def test_lengths_are_checked():
    with pytest.raises(InputError, match="one length"):
        recovery([1.0, 2.0], [1.0], 1)
