"""Labels that are limits, in exact processes: against integrals, a Gibbs sampler, and measured labels."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from daskrf import RandomFeatureGP, RandomFourierFeatures
from daskrf.errors import InputError
from daskrf.estimators import clone
from daskrf.gp.likelihoods.censored import Censored
from daskrf.gp.likelihoods.propagation import Sites, propagate
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.limits import fit_limits
from daskrf.gp.validation.leaveoneout import leave_one_out
from daskrf.kernels import Gaussian
from tests.naive import limits as naive

PROPERTY = settings(derandomize=True, deadline=None, max_examples=40)
FIXED = {"mean": 1.0, "signal_variance": 2.0, "noise_variance": 0.1}


def censored(n: int, seed: int, share: float = 0.5, sides: tuple[int, ...] = (1, -1)):
    """Rows, all measurements, and labels of which some are limits."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 2))
    K = Gaussian(1.0)(X)
    whole = 1 + np.linalg.cholesky(2 * K + 0.1 * np.eye(n)) @ rng.standard_normal(n)
    side = np.where(rng.random(n) < share, rng.choice(sides, n), 0).astype(np.int8)
    side[0] = 0
    return X, whole, whole - side * np.abs(rng.standard_normal(n)), side


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize(("mean", "std"), [(0.3, 0.7), (-4.0, 1.0), (5.0, 0.5), (-30.0, 2.0)])
def test_moments_of_a_limit_are_those_of_quadrature(side, mean, std):
    limit = 0.5
    result = Censored(np.array([limit]), np.array([side], np.int8)).tilted(
        np.array([mean]), np.array([std**2])
    )
    ends = (limit, limit + 40 * std) if side > 0 else (limit - 40 * std, limit)
    near = min(max(mean, ends[0]), ends[1])
    peak = norm.logpdf(near, mean, std)

    def moment(power: int) -> float:
        return quad(
            lambda x: (x - near) ** power * math.exp(norm.logpdf(x, mean, std) - peak),
            *ends,
            points=[near],
            epsabs=0,
            epsrel=1e-8,
            limit=500,
        )[0]

    mass, first, second = (moment(power) for power in range(3))
    assert result.log_normalizer[0] == pytest.approx(math.log(mass) + peak, abs=1e-8)
    assert mean + std**2 * result.slope[0] == pytest.approx(near + first / mass, abs=1e-7)
    variance = second / mass - (first / mass) ** 2
    assert std**2 - std**4 * result.curvature[0] == pytest.approx(variance, rel=1e-5)
    assert result.precision[0] == pytest.approx(1 / variance - 1 / std**2, rel=1e-5, abs=1e-12)


@PROPERTY
@given(st.floats(-1e8, 1e8), st.floats(-4, 4), st.sampled_from([1, -1]))
def test_a_limit_never_gives_a_negative_or_infinite_precision(distance, log_std, side):
    std = 10.0**log_std
    result = Censored(np.zeros(1), np.array([side], np.int8)).tilted(
        np.array([distance * std]), np.array([std**2])
    )
    assert 0 <= result.precision[0] < np.inf
    assert 0 <= result.curvature[0] * std**2 <= 1
    assert np.isfinite([result.log_normalizer[0], result.slope[0]]).all()


@pytest.mark.parametrize("seed", range(4))
def test_evidence_is_that_of_integrals(seed):
    X, _, y, side = censored(9, seed)
    gp = ExactGP(Gaussian(1.0), **FIXED).fit(X, y, side=side)
    covariance = 2 * Gaussian(1.0)(X) + 0.1 * np.eye(len(y))
    want = naive.log_evidence(covariance, y, side, 1.0)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(want, abs=0.05)
    assert gp.log_marginal_likelihood() == gp.log_marginal_likelihood_value_


def test_one_limit_is_exact():
    X, _, y, side = censored(12, 5, share=0.0)
    side[3], y[3] = 1, 2.0
    gp = ExactGP(Gaussian(1.0), **FIXED).fit(X, y, side=side)
    covariance = 2 * Gaussian(1.0)(X) + 0.1 * np.eye(len(y))
    want = naive.log_evidence(covariance, y, side, 1.0)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(want, abs=1e-6)


@pytest.mark.parametrize("seed", [0, 1])
def test_predictions_are_those_of_a_gibbs_sampler(seed):
    X, _, y, side = censored(30, seed)
    new = np.random.default_rng(seed + 9).uniform(-3, 3, (12, 2))
    gp = ExactGP(Gaussian(1.0), **FIXED).fit(X, y, side=side)
    mean, std = gp.predict(new, return_std=True, of="f")
    kernel = Gaussian(1.0)
    want, variance = naive.predictions(
        kernel(X),
        kernel(new, X),
        np.ones(len(new)),
        y,
        side,
        tuple(FIXED.values()),
        np.random.default_rng(seed),
        n_samples=1500,
    )
    # The standard error of a mean of 1,500 samples, which are correlated, is some 5 % of the deviation.
    assert np.abs(mean - want).max() < 0.15 * np.sqrt(variance).max()
    assert np.allclose(std, np.sqrt(variance), rtol=0.08)


def test_the_gradient_of_the_evidence_is_that_of_differences():
    X, _, y, side = censored(25, 3)
    gp = ExactGP(Gaussian(1.0), **FIXED).fit(X, y, side=side)
    gradient = gp.log_marginal_likelihood(eval_gradient=True)[1]
    for k, step in enumerate((1e-3, 1e-3, 1e-4)):
        values = [
            gp.log_marginal_likelihood(*(v + sign * step * (j == k) for j, v in enumerate(FIXED.values())))
            for sign in (1, -1)
        ]
        assert gradient[k] == pytest.approx((values[0] - values[1]) / (2 * step), rel=2e-3, abs=2e-3)


def test_hyperparameters_maximize_the_evidence():
    X, _, y, side = censored(60, 2)
    gp = ExactGP(Gaussian(1.0)).fit(X, y, side=side)
    best = gp.log_marginal_likelihood_value_
    fitted = [float(v[0]) for v in (gp.mean_, gp.signal_variance_, gp.noise_variance_)]
    for k in range(3):
        for factor in (0.7, 1.4):
            other = [v * (factor if j == k else 1.0) for j, v in enumerate(fitted)]
            assert gp.log_marginal_likelihood(*other) < best + 0.02


def test_limits_find_the_parameters_of_all_measurements_where_other_ways_are_biased():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 3))
    K = Gaussian(1.0)(X)
    whole = 5 + np.linalg.cholesky(2 * K + 0.09 * np.eye(300)) @ rng.standard_normal(300)
    end = np.quantile(whole, 0.5)
    side, y = (whole > end).astype(np.int8), np.minimum(whole, end)
    all_measured = ExactGP(Gaussian(1.0)).fit(X, whole)
    limits = ExactGP(Gaussian(1.0)).fit(X, y, side=side)
    dropped, taken = ExactGP(Gaussian(1.0)).fit(X[side == 0], y[side == 0]), ExactGP(Gaussian(1.0)).fit(X, y)
    new = rng.standard_normal((400, 3))
    want = all_measured.predict(new)

    def error(gp: ExactGP) -> float:
        return float(np.sqrt(np.mean((gp.predict(new) - want) ** 2)))

    assert error(limits) < 0.75 * min(error(dropped), error(taken))
    assert float(limits.mean_[0]) == pytest.approx(float(all_measured.mean_[0]), abs=0.4)
    assert float(limits.noise_variance_[0]) == pytest.approx(0.09, rel=0.3)


def test_samples_and_stored_models_agree_with_predictions():
    X, _, y, side = censored(40, 7)
    gp = ExactGP(Gaussian(1.0), **FIXED).fit(X, y, side=side)
    new = np.random.default_rng(0).uniform(-2, 2, (5, 2))
    mean, std = gp.predict(new, return_std=True, of="f")
    draws = gp.drawn(gp.weights_of_draws(600, 0), 0).predict(new)
    assert np.abs(draws.mean(1) - mean).max() < 5 * std.max() / math.sqrt(600)
    assert np.allclose(draws.std(1), std, rtol=0.15)  # 600 samples: 3 %, and of the random features
    for other in (ExactGP.from_state(gp.state(), gp.arrays()), pickle.loads(pickle.dumps(gp))):
        again, std_again = other.predict(new, return_std=True, of="f")
        assert np.allclose(again, mean, atol=1e-9)
        assert np.allclose(std_again, std, atol=1e-9)
        assert other.log_marginal_likelihood() == pytest.approx(gp.log_marginal_likelihood_value_, abs=1e-9)


def test_limits_that_say_nothing_change_nothing():
    X, _, y, side = censored(30, 4, share=0.0)
    far = np.vstack([X, X[:3] + 0.1])
    sides = np.append(side, [1, -1, 1]).astype(np.int8)
    plain = ExactGP(Gaussian(1.0), **FIXED).fit(X, y)
    gp = ExactGP(Gaussian(1.0), **FIXED).fit(far, np.append(y, [-1e6, 1e6, -50.0]), side=sides)
    new = X[:5] + 0.3
    for got, want in zip(gp.predict(new, return_std=True), plain.predict(new, return_std=True), strict=True):
        assert np.allclose(got, want, atol=1e-6)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(plain.log_marginal_likelihood_value_, abs=1e-6)


def test_labels_without_limits_are_fitted_as_ever():
    X, whole, _, _ = censored(30, 4)
    gp = ExactGP(Gaussian(1.0)).fit(X, whole, side=np.zeros(30, int))
    plain = ExactGP(Gaussian(1.0)).fit(X, whole)
    assert gp.side_ is None
    assert np.array_equal(gp.alpha_, plain.alpha_)


@PROPERTY
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.02, 0.3, 0.9]), st.integers(2, 25))
def test_ugly_limits_give_finite_fits(seed, share, n):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, 2)).astype(float)  # many equal rows
    side = np.where(rng.random(n) < share, rng.choice([1, -1], n), 0).astype(np.int8)
    side[:2] = 0
    y = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4) + rng.integers(-5, 6)
    y[side != 0] += side[side != 0] * rng.choice([0.0, 3.0, -3.0]) * (y.std() + 1)  # contradictions, too
    result = fit_limits(Gaussian(1.0)(X), y, side, (None, None, None), doubt=0.003)
    assert np.isfinite(
        [result.mean, result.signal_variance, result.noise_variance, result.log_evidence]
    ).all()
    assert np.isfinite(result.labels).all()
    assert (result.excess[side != 0] > 0).all()


@pytest.mark.parametrize(
    "process", [ExactGP(Gaussian(2.0)), RandomFeatureGP(RandomFourierFeatures(Gaussian(2.0), 64))]
)
def test_limits_that_no_process_agrees_with_are_refused(process):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((41, 3))
    y, side = np.sin(X.sum(axis=1)), np.zeros(41, int)
    X[40], y[0], y[40], side[0], side[40] = X[0], 500.0, -500.0, 1, -1
    fixed = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 1e-3}
    with pytest.raises(InputError, match=r"no process was found .* lies farthest .* standard deviations"):
        clone(process).set_params(**fixed).fit(X, y, side=side)
    y[0], y[40] = 5.0, -5.0
    assert np.abs(clone(process).fit(X, y, side=side).predict(X)).max() < 10.0


def test_left_out_labels_are_predicted_without_them_and_limits_are_not_among_them():
    X, _, y, side = censored(25, 6)
    gp = ExactGP(Gaussian(1.0), **FIXED).fit(X, y, side=side)
    left = leave_one_out(gp)
    assert np.array_equal(left.y, y[left.rows])
    assert (side[left.rows] == 0).all()
    assert len(left.rows) == (side == 0).sum()
    for at in (0, 3):
        rest = np.arange(25) != left.rows[at]
        other = ExactGP(Gaussian(1.0), **FIXED).fit(X[rest], y[rest], side=side[rest])
        mean, std = other.predict(X[left.rows[at] : left.rows[at] + 1], return_std=True)
        assert left.mean[at] == pytest.approx(mean[0], abs=0.1)  # the sites of the others stay
        assert left.std[at] == pytest.approx(std[0], rel=0.1)


@pytest.mark.parametrize(
    ("side", "message"),
    [
        ([1, 1, -1, 1], "all labels are limits"),
        ([0, 0, 2, 0], "side must hold"),
        ([0, 1], "side must hold"),
        ([1, 0, 1, 1], "from one label"),
    ],
)
def test_bad_sides_are_refused(side, message):
    X, y = np.arange(4.0)[:, None], np.arange(4.0)
    with pytest.raises(InputError, match=message):
        ExactGP(Gaussian(1.0)).fit(X, y, side=side)


def test_propagation_starts_from_given_sites():
    X, _, y, side = censored(20, 8, share=0.6)
    hidden = np.flatnonzero(side)
    labels = Censored(y[hidden], side[hidden])
    covariance = Gaussian(1.0)(X[hidden]) + 0.1 * np.eye(len(hidden))
    result = propagate(labels, np.zeros(len(hidden)), covariance)
    again = propagate(labels, np.zeros(len(hidden)), covariance, start=result.sites)
    assert again.n_sweeps <= 2
    assert again.log_evidence == pytest.approx(result.log_evidence, abs=1e-6)
    assert propagate(labels.take(np.empty(0, int)), np.empty(0), np.empty((0, 0))).log_evidence == 0.0
    assert Sites.none(2).as_labels(np.ones(2))[1].tolist() == [1e10, 1e10]
