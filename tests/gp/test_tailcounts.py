"""Labels are counted that were predicted without being known, and the ratio is a draw of its distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from daskrf.errors import InputError
from daskrf.gp import ExactGP
from daskrf.gp.validation.tailcounts import LEAST_RATIO, TailCounts, tail_counts
from daskrf.kernels import TanimotoMinMax


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_predictions_are_those_of_refits(sign: float) -> None:
    """The first labels are left out one by one; each batch is predicted from all labels before it."""
    rng = np.random.default_rng(4)
    X, y = rng.poisson(0.8, (60, 15)) + np.eye(60, 15, dtype=int), rng.standard_normal(60)
    fixed = {"mean": 0.1, "signal_variance": 0.9, "noise_variance": 0.2}
    gp = ExactGP(TanimotoMinMax(), **fixed).fit(X, y)
    found = tail_counts(gp, 30, [10, 20], sign)
    assert found.n_batches == 2
    np.testing.assert_allclose(found.weight, [1.0] * 30 + [0.125] * 10 + [0.25] * 20)
    np.testing.assert_allclose(found.y, sign * y)
    parts = [(np.delete(np.arange(60), i), [i]) for i in range(30)]
    parts += [(np.arange(30), range(30, 40)), (np.arange(40), range(40, 60))]
    for known, own in parts:
        own = list(own)
        other = ExactGP(TanimotoMinMax(), **fixed).fit(X[known], y[known])
        mean, std = other.predict(X[own], return_std=True)
        np.testing.assert_allclose(found.mean[own], sign * mean, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(found.std[own], std, rtol=1e-5)
    with pytest.raises(InputError, match="do not add up to the 60 of the model"):
        tail_counts(gp, 30, [10], sign)


def test_counts_are_sums_of_probabilities() -> None:
    rng = np.random.default_rng(1)
    y, mean, std, weight = rng.standard_normal((4, 50)) ** 2 + 0.1
    seen, expected = TailCounts(y, mean, std, weight).above([0.5, 2.0])
    for i, value in enumerate((0.5, 2.0)):
        assert seen[i] == pytest.approx(sum(w for w, v in zip(weight, y, strict=True) if v >= value))
        assert expected[i] == pytest.approx((weight * norm.sf(value, mean, std)).sum())


def test_the_ratio_follows_what_was_seen() -> None:
    """More labels than expected: more molecules; without labels nobody knows; and labels make it sure."""
    rng = np.random.default_rng(0)

    def draws(n: int, shift: float) -> np.ndarray:
        y = rng.standard_normal(n) + shift
        counts = TailCounts(y, np.zeros(n), np.ones(n), np.ones(n))
        return np.array([counts.ratio([1.0], part, 0.0)[0] for part in (np.arange(200) + 0.5) / 200])

    none, right, low, high = draws(0, 0.0), draws(2000, 0.0), draws(2000, -0.5), draws(2000, 0.5)
    assert none.std() > 2 * right.std()
    assert LEAST_RATIO <= none.min() < 0.3
    assert 0.8 < np.median(right) < 1.2
    assert np.median(low) == pytest.approx(norm.sf(1.5) / norm.sf(1.0), rel=0.25)
    assert np.median(high) == pytest.approx(norm.sf(0.5) / norm.sf(1.0), rel=0.25)
