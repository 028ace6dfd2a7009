"""Labels that are limits, by conjugate gradients, against expectation propagation by a factorization.

The latter is compared with a Gibbs sampler in `test_limits`.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.errors import InputError
from daskrf.gp.processes import exact
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.solve.landmarkpreconditioner import LandmarkPreconditioner, ScaledLandmarks
from daskrf.kernels import Gaussian
from tests.gp.test_limits import FIXED, censored

PROPERTY = settings(derandomize=True, deadline=None, max_examples=8)
BY_ITERATION = {"solver": "cg", "n_features": 1024, "tolerance": 1e-4}


def rows(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-3, 3, (n, 2))


@pytest.mark.parametrize("n_landmarks", [25, 90])
def test_scaled_landmarks_are_the_inverse_of_what_they_say(n_landmarks):
    X, scales, ratio = rows(90, 0), np.random.default_rng(1).uniform(0.01, 1, 90), 0.1
    landmarks = LandmarkPreconditioner(Gaussian(1.0), X, n_landmarks, 0)
    F = landmarks.row_features.astype(float)
    covariance = F @ F.T
    np.fill_diagonal(covariance, 1.0)
    inverse = np.linalg.inv(scales[:, None] * covariance * scales + ratio * np.eye(90))
    result = ScaledLandmarks(landmarks, np.ones(90), scales, ratio)
    vectors = np.random.default_rng(2).standard_normal((90, 3)).astype(np.float32)
    assert np.allclose(result(vectors), inverse @ vectors, atol=2e-4)
    some = np.array([3, 50, 89])
    assert np.allclose(result.diagonal(some), inverse.diagonal()[some], atol=1e-4)
    y = vectors[:, 0].astype(float)
    mean = F @ F.T @ (scales * (inverse @ (scales * y)))
    weights = result.weights(y)
    approximate = Gaussian(1.0)(X, X[landmarks.landmarks]) @ weights
    if n_landmarks == 90:
        assert np.allclose(approximate, mean, atol=2e-3)


@pytest.mark.parametrize(("n", "n_landmarks"), [(30, 12), (400, 40), (400, 400)])
def test_fits_are_those_of_a_factorization(n, n_landmarks):
    X, _, y, side = censored(n, n)
    new = rows(200, 1)
    want = ExactGP(Gaussian(1.0), **FIXED).fit(X, y, side=side)
    gp = ExactGP(Gaussian(1.0), **FIXED, **BY_ITERATION, n_landmarks=n_landmarks).fit(X, y, side=side)
    mean, std = want.predict(new, return_std=True)
    # With few landmarks variances are estimated from random signs: means then differ by 0.02 on average.
    error, few = np.abs(gp.predict(new) - mean) / std, n_landmarks < n
    assert error.max() < (0.2 if few else 0.05)
    assert np.sqrt(np.mean(error**2)) < (0.05 if few else 0.015)
    covariance = gp.predict(new, return_cov=True)[1]
    assert np.allclose(np.sqrt(covariance.diagonal()), std, rtol=0.05 if few else 0.02)
    measured = side == 0
    assert np.array_equal(gp.stand_ins_[measured], y[measured])
    assert np.array_equal(gp.excess_ > 0, ~measured)


def test_samples_standard_deviations_and_stored_models_agree():
    X, _, y, side = censored(80, 7)
    options = {**FIXED, **BY_ITERATION, "n_draws": 400, "n_features": 8192}
    gp = ExactGP(Gaussian(1.0), **options).fit(X, y, side=side)
    new = rows(5, 0)
    mean, covariance = gp.predict(new, return_cov=True, of="f")
    exact = np.sqrt(covariance.diagonal())
    draws = gp.sample_y(new, 400, of="f")
    assert np.abs(draws.mean(1) - mean).max() < 5 * exact.max() / 20
    assert np.allclose(draws.std(1), exact, rtol=0.2)  # 400 samples: 3.5 %, and of the random features
    std = gp.predict(new, return_std=True, of="f")[1]
    assert np.allclose(std, exact, rtol=0.2)
    for other in (ExactGP.from_state(gp.state(), gp.arrays()), pickle.loads(pickle.dumps(gp))):
        for got, kept in zip(other.predict(new, return_std=True, of="f"), (mean, std), strict=True):
            assert np.allclose(got, kept, atol=1e-5)
        assert np.allclose(other.predict(new, return_cov=True, of="f")[1], covariance, atol=1e-4)
        assert np.array_equal(other.side_, side)
    assert f"{np.count_nonzero(side)} of them limits" in gp.words()
    assert np.allclose(gp.rough().predict(new), mean, atol=0.3)


def test_limits_that_say_nothing_change_nothing():
    X, _, y, side = censored(60, 4, share=0.0)
    plain = ExactGP(Gaussian(1.0), **FIXED).fit(X, y)
    far, sides = np.vstack([X, X[:3] + 0.1]), np.append(side, [1, -1, 1])
    gp = ExactGP(Gaussian(1.0), **FIXED, **BY_ITERATION).fit(
        far, np.append(y, [-1e6, 1e6, -50.0]), side=sides
    )
    new = X[:5] + 0.3
    mean, covariance = gp.predict(new, return_cov=True)
    want, std = plain.predict(new, return_std=True)
    assert np.allclose(mean, want, atol=2e-3)
    assert np.allclose(covariance.diagonal(), std**2, rtol=2e-3)


def test_variances_are_those_of_some_labels_and_a_given_mean_is_kept():
    X, _, y, side = censored(150, 9)
    free = ExactGP(Gaussian(1.0)).fit(X, y, side=side)
    gp = ExactGP(Gaussian(1.0), **BY_ITERATION).fit(X, y, side=side)
    assert gp.signal_variance_[0] == pytest.approx(free.signal_variance_[0])
    assert gp.noise_variance_[0] == pytest.approx(free.noise_variance_[0])
    assert gp.mean_[0] == pytest.approx(free.mean_[0], abs=0.05)
    kept = ExactGP(Gaussian(1.0), mean=3.0, **BY_ITERATION).fit(X, y, side=side)
    assert kept.mean_[0] == 3.0


@PROPERTY
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.05, 0.5, 0.9]), st.integers(3, 40))
def test_ugly_limits_give_finite_fits_or_a_sentence(seed, share, n):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, (n, 2)).astype(float)  # many equal rows
    side = np.where(rng.random(n) < share, rng.choice([1, -1], n), 0).astype(np.int8)
    side[:3] = 0, 0, 1
    y = rng.standard_normal(n) * 10.0 ** rng.integers(-3, 4) + rng.integers(-5, 6)
    y[side != 0] += side[side != 0] * rng.choice([0.0, 3.0, -3.0]) * (y.std() + 1)  # contradictions, too
    gp = ExactGP(Gaussian(1.0), solver="cg", n_features=64, n_draws=2)
    try:
        gp.fit(X, y, side=side)
    except InputError as error:
        assert "conjugate gradients reached" in str(error) or "no process was found" in str(error)  # noqa: PT017
        return
    values = [gp.alpha_, gp.excess_, gp.stand_ins_, *gp.predict(X, return_std=True)]
    assert all(np.isfinite(value).all() for value in values)


def test_limits_that_no_process_agrees_with_are_refused():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((41, 3))
    y, side = np.sin(X.sum(axis=1)), np.zeros(41, int)
    X[40], y[0], y[40], side[0], side[40] = X[0], 500.0, -500.0, 1, -1
    gp = ExactGP(Gaussian(2.0), mean=0.0, signal_variance=1.0, noise_variance=1e-3, **BY_ITERATION)
    with pytest.raises(InputError, match=r"no process was found .* lies farthest .* standard deviations"):
        gp.fit(X, y, side=side)


def test_all_labels_determine_the_variances(monkeypatch):
    X, _, y, side = censored(300, 3)
    best = ExactGP(Gaussian(1.0)).fit(X, y, side=side)
    monkeypatch.setattr(exact, "_FIRST_GUESS", 40)
    gp = ExactGP(Gaussian(1.0), **BY_ITERATION, n_landmarks=60).fit(X, y, side=side)
    fitted = [float(v[0]) for v in (gp.mean_, gp.signal_variance_, gp.noise_variance_)]
    assert best.log_marginal_likelihood(*fitted) > best.log_marginal_likelihood_value_ - 0.5
    given = ExactGP(Gaussian(1.0), noise_variance=0.3, **BY_ITERATION).fit(X, y, side=side)
    assert given.noise_variance_[0] == 0.3
