"""Labels that are limits, in processes on features: against a kernel matrix and a Gibbs sampler."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.gp import RandomFeatureGP, SparseGP, SufficientStatistics
from daskrf.gp.processes import featurelimits
from daskrf.gp.processes.limits import fit_limits
from daskrf.gp.sums.limitrows import LimitRows
from tests.naive import limits as naive

PROPERTY = settings(derandomize=True, deadline=None, max_examples=30)
FIXED = {"mean": 1.0, "signal_variance": 2.0, "noise_variance": 0.1}


def censored(n: int, n_features: int, seed: int, *, bits: bool = False, share: float = 0.5):
    """Features, the input of a process with them, and labels of which some are limits."""
    rng = np.random.default_rng(seed)
    if bits:
        cells = rng.integers(0, 2, (n, n_features)).astype(np.uint8)
        phi = (2.0 * cells - 1) / math.sqrt(n_features)
        X = np.packbits(cells, axis=1, bitorder="little")
    else:
        X = phi = rng.standard_normal((n, n_features)) / math.sqrt(n_features)
    whole = 1 + 1.4 * phi @ rng.standard_normal(n_features) + 0.3 * rng.standard_normal(n)
    side = np.where(rng.random(n) < share, rng.choice([1, -1], n), 0).astype(np.int8)
    side[:2] = 0
    return phi, X, whole - side * np.abs(rng.standard_normal(n)), side


def posterior(phi: np.ndarray, labels: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kernel = FIXED["signal_variance"] * phi @ phi.T
    gain = np.linalg.solve(kernel + np.diag(noise), kernel).T
    mean = FIXED["mean"] + gain @ (labels - FIXED["mean"])
    return mean, np.sqrt(np.maximum(np.diag(kernel - gain @ kernel), 0.0))


# More limits than features, fewer, and so few rows that sums are solved in the space of rows.
@pytest.mark.parametrize(
    ("n", "size", "bits"), [(60, 24, False), (60, 64, False), (120, 40, True), (30, 300, False)]
)
def test_sums_give_the_process_of_the_kernel_matrix(n, size, bits):
    phi, X, y, side = censored(n, size, 0, bits=bits)
    want = fit_limits(phi @ phi.T, y, side, tuple(FIXED.values()))
    gp = RandomFeatureGP(**FIXED).fit(X, y, side=side)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(want.log_evidence, abs=1e-6)
    mean, std = posterior(phi, want.labels, FIXED["noise_variance"] + want.excess)
    for got, expected in zip(gp.predict(X, return_std=True, of="f"), (mean, std), strict=True):
        assert np.allclose(got, expected, atol=1e-6)
    fitted, free = RandomFeatureGP().fit(X, y, side=side), fit_limits(phi @ phi.T, y, side, (None,) * 3)
    assert fitted.log_marginal_likelihood_value_ == pytest.approx(free.log_evidence, abs=1e-4)


def test_predictions_are_those_of_a_gibbs_sampler():
    phi, X, y, side = censored(30, 8, 1)
    new = np.random.default_rng(3).standard_normal((12, 8)) / math.sqrt(8)
    gp = RandomFeatureGP(**FIXED).fit(X, y, side=side)
    mean, std = gp.predict(new, return_std=True, of="f")
    want, variance = naive.predictions(
        phi @ phi.T,
        new @ phi.T,
        np.einsum("ij,ij->i", new, new),
        y,
        side,
        tuple(FIXED.values()),
        np.random.default_rng(0),
        n_samples=1000,
    )
    # The standard error of a mean of 1,000 samples, which are correlated, is some 5 % of the deviation.
    assert np.abs(mean - want).max() < 0.2 * np.sqrt(variance).max()
    assert np.allclose(std, np.sqrt(variance), rtol=0.1)


@pytest.mark.parametrize("size", [12, 60])
def test_the_gradient_of_the_evidence_is_that_of_differences(size):
    _, X, y, side = censored(40, size, 2)
    gp = RandomFeatureGP(**FIXED).fit(X, y, side=side)
    value, gradient = gp.log_marginal_likelihood(eval_gradient=True)
    assert value == pytest.approx(gp.log_marginal_likelihood_value_, abs=1e-6)
    for k, step in enumerate((1e-3, 1e-3, 1e-4)):
        values = [
            gp.log_marginal_likelihood(*(v + sign * step * (j == k) for j, v in enumerate(FIXED.values())))
            for sign in (1, -1)
        ]
        assert gradient[k] == pytest.approx((values[0] - values[1]) / (2 * step), rel=2e-3, abs=2e-3)


def test_a_search_that_begins_with_few_features_finds_the_same(monkeypatch):
    _, X, y, side = censored(500, 96, 3)
    whole = RandomFeatureGP().fit(X, y, side=side)
    monkeypatch.setattr(featurelimits, "_FIRST", 24)
    begun = RandomFeatureGP().fit(X, y, side=side)
    assert begun.log_marginal_likelihood_value_ == pytest.approx(
        whole.log_marginal_likelihood_value_, abs=0.05
    )
    assert begun.noise_variance_[0] == pytest.approx(whole.noise_variance_[0], rel=0.05)


def test_stored_models_samples_and_rows_added_later_agree():
    _, X, y, side = censored(80, 16, 4)
    gp = RandomFeatureGP(**FIXED).fit(X, y, side=side)
    want = gp.predict(X, return_std=True, of="f")
    half, limits = slice(0, 30), side != 0
    others = [RandomFeatureGP.from_state(gp.state(), gp.arrays()), pickle.loads(pickle.dumps(gp))]
    others.append(RandomFeatureGP(**FIXED).fit(X[half], y[half], side=side[half]))
    others[-1].partial_fit(X[30:], y[30:], side=side[30:])
    others.append(RandomFeatureGP(**FIXED).fit(X[~limits], y[~limits]))
    others[-1].partial_fit(X[limits], y[limits], side=side[limits])
    for other in others:
        assert np.allclose(other.predict(X, return_std=True, of="f"), want, atol=1e-9)
    means = RandomFeatureGP.from_state(gp.state(), gp.arrays(statistics=False))
    assert np.array_equal(means.weights_, gp.weights_)
    draws = gp.drawn(gp.weights_of_draws(800, 0), 0).predict(X)
    assert np.abs(draws.mean(1) - want[0]).max() < 5 * want[1].max() / math.sqrt(800)
    assert np.allclose(draws.std(1), want[1], rtol=0.2)


def test_labels_left_out_are_predicted_without_them():
    _, X, y, side = censored(40, 10, 5)
    gp = RandomFeatureGP(**FIXED).fit(X, y, side=side)
    row = int(np.flatnonzero(side == 0)[3])
    error, std = gp.errors_left_out(X[[row]], y[[row]], [1])
    rest = np.arange(40) != row
    other = RandomFeatureGP(**FIXED).fit(X[rest], y[rest], side=side[rest])
    mean, deviation = other.predict(X[[row]], return_std=True)
    assert error[0] == pytest.approx(y[row] - mean[0], abs=0.05)  # the sites of the others stay
    assert std[0] == pytest.approx(deviation[0], rel=0.05)


@PROPERTY
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.5, 0.95]), st.integers(3, 30), st.integers(1, 12))
def test_ugly_limits_give_finite_fits(seed, share, n, size):
    rng = np.random.default_rng(seed)
    X = rng.integers(-1, 2, (n, size)).astype(float)  # many equal rows, and rows of 0
    side = np.where(rng.random(n) < share, rng.choice([1, -1], n), 0)
    side[:3] = 0
    y = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4) + rng.integers(-5, 6)
    y[side != 0] += side[side != 0] * rng.choice([0.0, 3.0, -3.0]) * (y.std() + 1)  # contradictions, too
    gp = RandomFeatureGP().fit(X, y, side=side)
    mean, std = gp.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()
    assert np.isfinite(gp.log_marginal_likelihood_value_)


def sums(phi: np.ndarray, y: np.ndarray, side: np.ndarray) -> SufficientStatistics:
    measured, hidden = side == 0, side != 0
    statistics = SufficientStatistics.from_chunk(phi[measured], y[measured], y_exponents=[30])
    return statistics.add_limits(LimitRows.of(phi[hidden], y[hidden], side[hidden]))


@pytest.mark.parametrize("bits", [False, True])
def test_sums_with_limits_are_the_same_in_any_order_and_can_be_taken_apart(bits):
    _, X, y, side = censored(50, 16, 6, bits=bits)
    a, b, c = (sums(X[rows], y[rows], side[rows]) for rows in (slice(0, 20), slice(20, 30), slice(30, 50)))
    one, other = a + b + c, c + (b + a)
    assert one.n_rows == 50
    for name, array in one.limits.arrays().items():
        assert np.array_equal(array, other.limits.arrays()[name])
    back = SufficientStatistics.from_arrays(one.arrays()).subtract(b)
    assert back.n == a.n + c.n
    assert np.array_equal(back.limits.phi, (a + c).limits.phi)
    assert one.subtract(c).subtract(b).subtract(a).limits is None
    with pytest.raises(InputError, match="not among these"):
        a.subtract(replaced_side(a))


def replaced_side(statistics: SufficientStatistics) -> SufficientStatistics:
    other, rows = statistics.copy(), statistics.limits
    other.limits = LimitRows.of(rows.phi, rows.bound, -rows.side)
    return other


def test_limits_are_refused_where_they_cannot_be_used():
    _, X, y, side = censored(20, 4, 7)
    with pytest.raises(InputError, match="all labels are limits"):
        RandomFeatureGP().fit(X, y, side=np.ones(20))
    with pytest.raises(InputError, match="of one target"):
        RandomFeatureGP().fit(X, np.column_stack([y, y]), side=side)
    with pytest.raises(InputError, match="side must hold"):
        RandomFeatureGP().fit(X, y, side=2 * side)
    with pytest.raises(InputError, match="SparseGP takes measured labels alone"):
        SparseGP()._sides(side, y[:, None])
    zeros = RandomFeatureGP().fit(X, y, side=np.zeros(20))
    assert np.array_equal(zeros.weights_, RandomFeatureGP().fit(X, y).weights_)
    assert zeros.n_limits_ == 0
