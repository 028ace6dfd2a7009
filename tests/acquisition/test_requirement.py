"""Probabilities of demands on other targets, and what they make of scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from daskrf.acquisition import acquisition_for, rules
from daskrf.acquisition.requirement import Requirement, weighed

NUMBERS = st.floats(-20, 20)


@given(mean=NUMBERS, std=st.floats(0.01, 5), limit=NUMBERS, above=st.booleans())
def test_the_probability_is_that_of_a_normal_distribution(
    mean: float, std: float, limit: float, above: bool
) -> None:
    want = (norm.logsf if above else norm.logcdf)(limit, mean, std)
    actual = Requirement(0, "y", above, limit).log_probability([mean], [std])
    np.testing.assert_allclose(actual, [want], rtol=1e-9, atol=1e-12)


def test_without_deviations_it_is_yes_or_no() -> None:
    actual = np.exp(Requirement(0, "y", True, 1.0).log_probability([0.0, 2.0, 1.0], [0.0, 0.0, 0.0]))
    assert actual.tolist() == [0.0, 1.0, 0.5]


@pytest.mark.parametrize("name", rules())
@given(scores=st.lists(NUMBERS, min_size=2, max_size=6), log=st.floats(-30, 0), usual=NUMBERS)
def test_what_passes_surely_keeps_its_score_and_others_lose(
    name: str, scores: list[float], log: float, usual: float
) -> None:
    rule, array = acquisition_for(name), np.array(scores)
    np.testing.assert_allclose(weighed(rule, array, np.zeros(len(array)), usual), array, atol=1e-9)
    less = weighed(rule, array, np.full(len(array), log), usual)
    assert (less <= array + 1e-9).all()
    assert (np.diff(less[np.argsort(array)]) >= -1e-9).all()  # at equal probabilities the order stays
    draws = weighed(rule, np.column_stack([array, array]), np.full(len(array), log), usual)
    np.testing.assert_array_equal(draws, np.column_stack([less, less]))
