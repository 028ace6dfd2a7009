"""Folds never cut a group, and never learn from what they predict."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import RandomForestRegressor

from daskrf.errors import InputError
from daskrf.gp.sums.folds import Folds, equal_rows, ordered_folds, random_folds
from daskrf.gp.validation.baselines import nearest_neighbour, random_forest
from tests.naive.crossvalidation import nearest

groups_of = st.lists(st.integers(0, 12), min_size=2, max_size=60)


def check(folds: Folds, groups: list[int]) -> None:
    """Each row is predicted once (or is in the first block), and no group is known and predicted at once."""
    seen: list[int] = []
    for fold in range(len(folds)):
        known, own = folds.rows(fold)
        assert len(known)
        assert len(own)
        assert not set(known) & set(own)
        assert not {groups[i] for i in known} & {groups[i] for i in own}
        seen += own.tolist()
    first = np.flatnonzero(folds.block == 0).tolist() if folds.ordered else []
    assert sorted(seen + first) == list(range(len(groups)))


@given(groups_of, st.integers(2, 6), st.integers(0, 3))
def test_groups_are_whole_and_folds_are_even(groups: list[int], n_folds: int, seed: int) -> None:
    if len(set(groups)) < n_folds:
        with pytest.raises(InputError, match="only"):
            random_folds(groups, n_folds, seed)
        return
    folds = random_folds(groups, n_folds, seed)
    check(folds, groups)
    sizes, largest = np.bincount(folds.block), max(map(groups.count, groups))
    assert sizes.max() - sizes.min() <= largest
    np.testing.assert_array_equal(folds.block, random_folds(groups, n_folds, seed).block)


@given(st.lists(st.integers(0, 2), min_size=6, max_size=60), st.integers(2, 6), st.integers(0, 3))
def test_classes_are_shared_out_evenly(classes: list[int], n_folds: int, seed: int) -> None:
    folds = random_folds(range(len(classes)), n_folds, seed, classes=classes)
    check(folds, list(range(len(classes))))
    for kind in set(classes):
        sizes = np.bincount(folds.block[np.array(classes) == kind], minlength=n_folds)
        assert sizes.max() - sizes.min() <= 1
    total = np.bincount(folds.block, minlength=n_folds)
    assert total.max() - total.min() <= len(set(classes))
    one = random_folds(range(len(classes)), n_folds, seed, classes=np.zeros(len(classes)))
    np.testing.assert_array_equal(one.block, random_folds(range(len(classes)), n_folds, seed).block)


def test_another_seed_cuts_otherwise_and_the_order_of_rows_says_nothing() -> None:
    one, other = (random_folds(range(200), 5, seed) for seed in (0, 1))
    assert (one.block != other.block).any()
    assert np.bincount(one.block).tolist() == [40] * 5
    assert abs(np.corrcoef(np.arange(200), one.block)[0, 1]) < 0.25


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 15)), min_size=2, max_size=60), st.integers(1, 5))
def test_ordered_folds_learn_from_earlier_rows(rows: list[tuple[int, int]], n_folds: int) -> None:
    values, groups = [value for value, _ in rows], [group for _, group in rows]
    first = {group: min(v for v, g in rows if g == group) for group in groups}
    if len(set(first.values())) < n_folds + 1:
        with pytest.raises(InputError, match="only"):
            ordered_folds(values, groups, n_folds)
        return
    folds = ordered_folds(values, groups, n_folds)
    check(folds, groups)
    for fold in range(len(folds)):
        known, own = folds.rows(fold)
        assert max(first[groups[i]] for i in known) < min(first[groups[i]] for i in own)


def test_ordered_folds_are_even() -> None:
    folds = ordered_folds(np.random.default_rng(0).permutation(120), np.arange(120), 5)
    assert np.bincount(folds.block).tolist() == [20] * 6


def test_equal_rows_are_those_of_equal_counts() -> None:
    X = sparse.random(40, 6, 0.2, "csr", random_state=0)
    X.data = np.ceil(2 * X.data)
    found, dense = equal_rows(X), X.toarray()
    for i in range(40):
        for j in range(40):
            assert (found[i] == found[j]) == (dense[i] == dense[j]).all()


@pytest.mark.parametrize("wide", [False, True])
def test_the_nearest_neighbour_is_that_of_all_pairs(wide: bool) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.poisson(0.7, (40, 7)) + np.eye(40, 7, dtype=int), rng.standard_normal(40)
    known, own = np.arange(25), np.arange(25, 40)
    label, similarity = nearest(X, y, [(known, own)])
    rows = sparse.csr_matrix(X)
    if wide:
        rows = sparse.csr_matrix((rows.data, rows.indices.astype(np.int64) * 2**30, rows.indptr), (40, 2**33))
    found = nearest_neighbour(rows[known], y[known], rows[own])
    np.testing.assert_allclose(found[0], label[own])
    np.testing.assert_allclose(found[1], similarity[own])
    if not wide:
        own_forest = RandomForestRegressor(300, max_features=0.1, random_state=0)
        own_forest.fit(X[known].astype(np.float32), y[known])
        np.testing.assert_allclose(
            random_forest(rows[known], y[known], rows[own]), own_forest.predict(X[own])
        )
    else:
        there = sparse.csr_matrix(X)
        narrow = random_forest(there[known], y[known], there[own])
        np.testing.assert_allclose(random_forest(rows[known], y[known], rows[own]), narrow)


def test_columns_that_no_known_row_has_are_ignored_by_a_forest() -> None:
    assert random_forest([[0, 0], [0, 3]], [1.0, 2.0], [[5, 0], [7, 9]]).shape == (2,)
    assert random_forest([[0, 0], [0, 0]], [1.0, 3.0], [[5, 0]]).round(6).shape == (1,)
