"""Hypervolumes and the batches that raise them most."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskrf.acquisition.hypervolume import (
    HypervolumeGain,
    Undominated,
    directions,
    on_front,
    reference_point,
    scalarized,
)
from tests.naive import hypervolume as naive

NUMBERS = st.integers(-3, 6).map(float) | st.floats(-3, 6)


@pytest.mark.parametrize("d", [1, 2, 3])
@given(data=st.data())
def test_improvements_are_differences_of_hypervolumes(d: int, data: st.DataObject) -> None:
    vector = st.lists(NUMBERS, min_size=d, max_size=d)
    points = data.draw(st.lists(vector, min_size=1, max_size=6))
    reference = data.draw(vector)
    left, whole = Undominated(np.array(reference)), 0.0
    for i, point in enumerate(points):
        want = naive.hypervolume(points[: i + 1], reference) - naive.hypervolume(points[:i], reference)
        actual = float(left.improvement(np.array([point]))[0])
        assert actual == pytest.approx(want, abs=1e-9 * 9**d)
        left.add(np.array(point))
        whole += actual
        assert left.improvement(np.array([point]))[0] == pytest.approx(0.0, abs=1e-12)
        assert (left.low < left.high).all()
    assert whole == pytest.approx(naive.hypervolume(points, reference), abs=1e-9 * 9**d)


@pytest.mark.parametrize("d", [2, 3])
def test_many_points_have_the_volume_that_sampling_finds(d: int) -> None:
    rng = np.random.default_rng(d)
    points = np.abs(rng.standard_normal((200, d)))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    left, volume = Undominated(np.zeros(d)), 0.0
    for point in points:
        volume += left.improvement(point[None])[0]
        left.add(point)
    n = 40_000
    want = naive.by_sampling(points, np.zeros(d), n)
    assert volume == pytest.approx(want, abs=5 / np.sqrt(n))
    assert len(left.low) < 50 * len(points)


@pytest.mark.parametrize("d", [2, 3])
def test_batches_are_those_of_looking_at_every_candidate(d: int) -> None:
    rng = np.random.default_rng(7 + d)
    draws = rng.standard_normal((3, 90, d)) + rng.standard_normal((90, d))
    measured, reference = rng.standard_normal((3, d)), np.full(d, -1.0)
    gain, picks = HypervolumeGain(draws, measured, reference), []
    free = np.ones(90, bool)
    for _ in range(4):
        picks.append(gain.best(free))
        free[picks[-1]] = False
        gain.take(picks[-1])
    assert picks == naive.batch(draws, measured.tolist(), reference.tolist(), 4)


def test_weights_multiply_gains_and_only_free_candidates_are_chosen() -> None:
    draws = np.array([[[4.0, 4.0], [3.0, 3.0], [2.0, 2.0]]])
    gain = HypervolumeGain(draws, np.empty((0, 2)), np.zeros(2), np.array([0.1, 1.0, 1.0]))
    np.testing.assert_allclose(gain.gains, [1.6, 9.0, 4.0])
    assert gain.best(np.array([True, False, True])) == 2
    gain.take(1)
    assert gain.best(np.array([True, False, True])) == 0
    np.testing.assert_allclose(gain.gains[[0, 2]], [0.7, 0.0])


@given(points=st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3), min_size=1, max_size=12))
def test_the_front_is_what_no_other_point_dominates(points: list[list[int]]) -> None:
    def dominates(a: list[int], b: list[int]) -> bool:
        return a != b and all(x >= y for x, y in zip(a, b, strict=True))

    want = [not any(dominates(other, point) for other in points) for point in points]
    assert on_front(np.array(points)).tolist() == want
    beaten = [not any(dominates(other, point) for other in [*points, [2, 2, 2]]) for point in points]
    assert on_front(np.array(points), [[2, 2, 2]]).tolist() == beaten


@given(points=st.lists(st.lists(NUMBERS, min_size=2, max_size=2), min_size=1, max_size=8))
def test_no_point_of_the_front_is_worse_than_the_reference(points: list[list[float]]) -> None:
    measured = np.array(points)
    reference = reference_point(measured)
    front = measured[on_front(measured)]
    assert (front >= reference).all()
    assert ((front > reference) | (np.ptp(measured, axis=0) < 1e-9)).all()


@pytest.mark.parametrize("d", [2, 3])
def test_powers_of_scalarizations_average_to_the_hypervolume(d: int) -> None:
    rng = np.random.default_rng(3)
    ways = directions(20_000, d)
    assert (ways > 0).all()
    volumes, means = [], []
    for _ in range(4):
        points = rng.random((5, d))
        volumes.append(naive.hypervolume(points.tolist(), [0.0] * d))
        means.append((scalarized(points, ways).max(axis=0) ** d).mean())
    ratio = np.array(means) / volumes
    np.testing.assert_allclose(ratio, ratio[0], rtol=0.05)
