"""Repeats: one label in place of those of a molecule, and what is said of labels that are no replicates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from daskrf.errors import InputError
from daskrf.measurements import Reading
from daskrf.tables.values import repeats
from daskrf.tables.values.repeats import notes_on_repeats, notes_on_suffixes, one_of_each


@settings(derandomize=True, deadline=None)
@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 30), st.integers(1, 3)),
        elements=st.sampled_from([-2.5, 0, 1, 7, np.nan]),
    ),
    st.data(),
)
def test_one_of_each_is_what_a_loop_finds(y: np.ndarray, data: st.DataObject) -> None:
    groups = np.array(data.draw(st.lists(st.integers(0, 6), min_size=len(y), max_size=len(y))), np.int64)
    if data.draw(st.booleans()):
        groups.sort()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "_AT_ONCE", data.draw(st.sampled_from([1, 2, 1000])))
        _compare_all(groups, y, data)


def _compare_all(groups: np.ndarray, y: np.ndarray, data: st.DataObject) -> None:
    for how, function in {"mean": np.mean, "median": np.median}.items():
        _compare(groups, y, how, [function] * y.shape[1], ())
    largest = data.draw(st.lists(st.booleans(), min_size=y.shape[1], max_size=y.shape[1]))
    _compare(groups, y, "best", [np.max if each else np.min for each in largest], largest)


def _compare(groups: np.ndarray, y: np.ndarray, how: str, functions: list, largest: object) -> None:
    first, labels = one_of_each(groups, y, how, largest)
    assert groups[first].tolist() == list(dict.fromkeys(groups.tolist()))
    assert first.tolist() == [groups.tolist().index(group) for group in groups[first].tolist()]
    for row, group in zip(labels, groups[first], strict=True):
        for t, function in enumerate(functions):
            values = y[groups == group, t]
            values = values[np.isfinite(values)]
            assert np.isnan(row[t]) if not len(values) else row[t] == pytest.approx(function(values))


def test_poses_are_said_and_replicates_are_not() -> None:
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(40), 3)
    between = rng.normal(-8, 1, 40)[groups]
    poses = between + np.tile([0.0, 0.9, 1.8], 40)
    (line,) = notes_on_repeats(groups, poses[:, None], ["vina"], lambda at: f"m{groups[at]}")
    assert line.startswith(
        "120 labels of 'vina' are repeats of 40 molecules, and differ within a molecule by 0.9 "
    )
    assert "--repeats best, mean or median" in line
    replicates = between + rng.normal(0, 0.2, 120)
    assert notes_on_repeats(groups, replicates[:, None], ["pIC50"], str) == ()


def test_single_molecules_whose_labels_differ_are_named() -> None:
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(40), 2)
    y = rng.normal(6, 1, 40)[groups] + rng.normal(0, 0.1, 80)
    y[[20, 21]] = 3.2, 9.1
    (line,) = notes_on_repeats(groups, y[:, None], ["pIC50"], lambda at: f"m{groups[at]}")
    assert "'pIC50' for 1 molecule differ" in line
    assert "3.2, 9.1 of m10" in line
    alone = np.r_[groups[:2], np.arange(1, 30)]  # only one molecule has repeats
    y = np.r_[3.2, 9.1, rng.normal(6, 1, 29)]
    (line,) = notes_on_repeats(alone, y[:, None], ["pIC50"], lambda at: f"m{alone[at]}")
    assert "3.2, 9.1 of m0" in line


@pytest.mark.parametrize(
    ("names", "noted"),
    [
        (["ZINC10.0", "ZINC10.1", "ZINC20.0", "ZINC20.1", "ZINC30.0", "ZINC30.2"], True),
        (["CHEMBL5_pose1", "CHEMBL5_pose2", "CHEMBL6_pose1", "CHEMBL6_pose2", "A7_pose1", "A7_pose2"], True),
        ([f"mol-{i}" for i in range(100)], False),
        ([f"P{i // 96}-{i % 96}" for i in range(400)], False),
        ([f"ZINC{i}" for i in range(100)], False),
        (["Z1.0"] * 9, False),
    ],
)
def test_names_of_poses_and_protomers(names: list[str], noted: bool) -> None:
    assert bool(notes_on_suffixes(names)) is noted


def test_repeats_are_one_of_four() -> None:
    with pytest.raises(InputError, match="repeats is one of all, best, mean, median, not 'first'"):
        Reading(repeats="first")
    with pytest.raises(InputError, match="leave out --repeats"):
        Reading(repeats="mean", replicates="n", replicate_std="sd")
