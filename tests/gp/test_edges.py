"""Degenerate problems, samples, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.exceptions import NotFittedError

from daskrf.errors import InputError
from daskrf.gp import RandomFeatureGP, SufficientStatistics
from daskrf.gp.processes.posterior import PosteriorFactor
from daskrf.gp.solve import solvers
from daskrf.gp.solve.solvers import EigenSolver, ShiftedCholesky, check_eigen_size
from daskrf.gp.sums.statistics import Moments
from tests.naive import gp as naive

METHODS = ("eigh", "cholesky")
GIVEN = {"signal_variance": 1.5, "noise_variance": 0.2}


@pytest.mark.parametrize("method", METHODS)
def test_one_row(method):
    phi, y = np.array([[0.6, -0.8]]), np.array([3.0])
    gp = RandomFeatureGP(mean=1.0, method=method, **GIVEN).fit(phi, y)
    mean, covariance = naive.posterior(phi, y, phi, 1.0, 1.5, 0.2)
    np.testing.assert_allclose(gp.predict(phi), mean)
    np.testing.assert_allclose(gp.predict(phi, return_std=True, of="f")[1] ** 2, np.diag(covariance))
    with pytest.raises(InputError, match="cannot be estimated from one label"):
        RandomFeatureGP(method=method).fit(phi, y)


@pytest.mark.parametrize("method", METHODS)
def test_constant_y(method):
    phi = np.random.default_rng(0).standard_normal((20, 3))
    for y in (np.full(20, 4.2), np.zeros(20)):
        with pytest.raises(InputError, match="target 0 has no variance over 20 rows"):
            RandomFeatureGP(method=method).fit(phi, y)
        np.testing.assert_allclose(
            RandomFeatureGP(method=method, **GIVEN).fit(phi, y).predict(phi), y, atol=1e-9
        )


@pytest.mark.parametrize("method", METHODS)
def test_rank_deficient_features(method):
    rng = np.random.default_rng(1)
    phi = np.repeat(rng.standard_normal((100, 4)), 5, axis=1)  # rank 4 of 20
    y = phi @ rng.standard_normal(20) + 0.1 * rng.standard_normal(100)
    gp = RandomFeatureGP(method=method).fit(phi, y)
    theta = gp.mean_[0], gp.signal_variance_[0], gp.noise_variance_[0]
    # 95 degrees of freedom: a deviation of sqrt(2 / 95) = 14 %, of which 5 are allowed.
    assert gp.noise_variance_[0] == pytest.approx(0.01, rel=0.72)
    np.testing.assert_allclose(
        gp.log_marginal_likelihood_value_, naive.log_likelihood(phi, y, *theta), rtol=1e-7
    )
    mean, covariance = naive.posterior(phi, y, phi, *theta)
    found = gp.predict(phi, return_std=True, of="f")
    np.testing.assert_allclose(found[0], mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found[1] ** 2, np.diag(covariance), rtol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_no_noise_and_no_signal_are_reported(method):
    rng = np.random.default_rng(2)
    phi = rng.standard_normal((200, 5))
    clean = RandomFeatureGP(method=method).fit(phi, 2.0 + phi @ np.arange(1.0, 6.0))
    assert clean.noise_variance_[0] < 1e-4 * clean.signal_variance_[0]
    np.testing.assert_allclose(clean.predict(phi), 2.0 + phi @ np.arange(1.0, 6.0), rtol=1e-4, atol=1e-4)
    # Orthogonal to the features and to the constant: more signal than none only lowers the evidence.
    noise = rng.standard_normal(200)
    basis = np.column_stack([np.ones(200), phi])
    noise -= basis @ np.linalg.lstsq(basis, noise)[0]
    blind = RandomFeatureGP(method=method).fit(phi, noise)
    assert blind.at_bound_[0]
    np.testing.assert_allclose(blind.predict(phi), 0.0, atol=1e-3)
    assert blind.noise_variance_[0] == pytest.approx(noise.var(), rel=0.01)


@pytest.mark.parametrize("whole", [16_384, 0])
def test_jitter_is_the_smallest_that_works(monkeypatch, whole):
    monkeypatch.setattr(solvers, "_WHOLE", whole)
    monkeypatch.setattr(solvers, "_BLOCK", 2)
    factor = ShiftedCholesky(np.ones((6, 6)) - 1e-9 * np.eye(6)).factorize(0.0)
    assert 1e-9 <= factor.jitter <= 1e-8
    factor = ShiftedCholesky(np.eye(3)).factorize(1.0)
    assert factor.jitter == 0.0
    with pytest.raises(InputError, match="positive semi-definite"):
        ShiftedCholesky(-np.eye(3)).factorize(0.0)


@pytest.mark.parametrize(("whole", "block"), [(4096, 4096), (1000, 640), (100, 700)])
def test_shifted_cholesky_serves_many_shifts(monkeypatch, whole, block):
    monkeypatch.setattr(solvers, "_WHOLE", whole)
    monkeypatch.setattr(solvers, "_BLOCK", block)
    rng = np.random.default_rng(3)
    root = rng.standard_normal((2100, 60))  # more than two tiles
    gram, right = root @ root.T, rng.standard_normal((2100, 2))
    factor = ShiftedCholesky(np.triu(gram))
    for shift in (1.0, 10.0, 1.0):
        shifted = gram + shift * np.eye(2100)
        factor.factorize(shift)
        expected = np.linalg.solve(shifted, right)
        np.testing.assert_allclose(factor.solve(right), expected, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(factor.log_det(), np.linalg.slogdet(shifted)[1])
        half = factor.half_solve(right)
        np.testing.assert_allclose(half.T @ half, right.T @ expected)
    inverse = np.linalg.inv(gram + np.eye(2100))
    np.testing.assert_allclose(factor.inverse_trace(), np.trace(inverse))


def test_single_precision_deviations_are_good_to_one_part_in_ten_thousand():
    rng = np.random.default_rng(4)
    bits = rng.integers(0, 256, (300, 150), dtype=np.uint8)
    statistics = SufficientStatistics.from_chunk(bits, rng.standard_normal(300))
    phi = naive.signs(bits[:20], 1200) / np.sqrt(1200)
    gram = statistics.moments().gram
    gram = gram + np.triu(gram, 1).T
    for ratio, dtype in ((0.5, np.float32), (1e-9, np.float64)):
        factor = PosteriorFactor(statistics, ratio)
        assert factor.root.dtype == dtype
        found = np.square(factor.whiten(bits[:20], 1200).astype(float)).sum(axis=1)
        expected = np.einsum("ij,ji->i", phi, np.linalg.solve(gram + ratio * np.eye(1200), phi.T))
        np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_weight_samples_have_the_moments_of_the_posterior():
    """4000 draws: each standardized mean is within 4.9, and each sum of squares within its 1e-6 interval."""
    rng = np.random.default_rng(5)
    phi, new = rng.standard_normal((40, 12)), rng.standard_normal((6, 12))
    y = phi @ rng.standard_normal(12) + rng.standard_normal(40)
    gp = RandomFeatureGP(**GIVEN).fit(phi, y)
    draws = gp.sample_weights(4000, seed=1)
    mean, covariance = naive.posterior(phi, y, new, gp.mean_[0], *GIVEN.values())
    whitened = np.linalg.solve(
        np.linalg.cholesky(covariance), (gp.mean_[0] + new @ draws).T.T - mean[:, None]
    )
    assert np.abs(whitened.mean(axis=1) * np.sqrt(4000)).max() < 4.9
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], 4000)
    sums = np.square(whitened).sum(axis=1)
    assert low < sums.min() <= sums.max() < high
    correlation = whitened @ whitened.T / 4000 - np.diag(sums / 4000)
    assert np.abs(correlation * np.sqrt(4000)).max() < 5.0


def test_samples_follow_from_seed_and_index():
    rng = np.random.default_rng(6)
    phi = rng.standard_normal((30, 8))
    gp = RandomFeatureGP(**GIVEN).fit(phi, rng.standard_normal((30, 2)))
    five = gp.sample_weights(5, seed=3)
    assert np.array_equal(gp.sample_weights(2, seed=3), five[:, :2])
    assert not np.allclose(gp.sample_weights(5, seed=4), five)
    assert not np.allclose(gp.sample_weights(5, seed=3, target=1), five)
    functions = gp.sample_y(phi, 5, 3, of="f")
    np.testing.assert_allclose(functions, gp.mean_[0] + phi @ five)
    assert np.array_equal(gp.sample_y(phi, 5, 3), gp.sample_y(phi, 5, 3))
    np.testing.assert_allclose(gp.draw(3).predict(phi), functions[:, 0])
    second = gp.mean_[1] + phi @ gp.sample_weights(1, 3, target=1)[:, 0]
    np.testing.assert_allclose(gp.draw(3, target=1).predict(phi.tolist()), second)
    # 15,000 normal numbers: a deviation of 0.6 %, of which 5 are allowed.
    spread = (gp.sample_y(phi, 500, 3) - gp.sample_y(phi, 500, 3, of="f")).std()
    assert spread == pytest.approx(np.sqrt(GIVEN["noise_variance"]), rel=0.03)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"noise_variance": 0.0}, "noise_variance must be positive"),
        ({"noise_variance": [1.0, 2.0]}, "noise_variance must be one finite number"),
        ({"signal_variance": -1.0}, "signal_variance must be positive"),
        ({"mean": np.nan}, "mean must be one finite number"),
        ({"method": "magic"}, "'magic'"),
    ],
)
def test_wrong_options_are_refused(options, match):
    with pytest.raises(InputError, match=match):
        RandomFeatureGP(**options).fit(np.eye(3), [1.0, 2.0, 3.0])


@pytest.mark.parametrize("name", ["mean", "signal_variance", "noise_variance"])
def test_one_wrong_number_of_several_is_refused(name):
    for wrong in (np.nan, np.inf):
        gp = RandomFeatureGP(**{**GIVEN, name: [1.0, wrong]})
        with pytest.raises(InputError, match=f"{name} must be one finite number"):
            gp.fit(np.eye(3), np.arange(6.0).reshape(3, 2))


def test_wrong_input_is_refused():
    gp = RandomFeatureGP()
    with pytest.raises(NotFittedError):
        gp.predict(np.eye(3))
    with pytest.raises(NotFittedError):
        gp.add_statistics(SufficientStatistics.zero(3, 1, one_bit=False))
    with pytest.raises(InputError, match="no row"):
        gp.fit(np.empty((0, 3)), [])
    with pytest.raises(InputError, match="no row"):
        gp.fit_statistics(SufficientStatistics.zero(3, 1, one_bit=False))
    with pytest.raises(InputError, match="X has 3 rows, but y has 2"):
        gp.fit(np.eye(3), [1.0, 2.0])
    with pytest.raises(InputError, match="X has 3 rows, but y has 4"):
        gp.fit(np.eye(3), [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(InputError, match="NaN"):
        gp.fit(np.eye(3), [1.0, np.nan, 3.0])
    gp.fit(np.eye(3), [1.0, 2.0, 4.0])
    for wrong in (np.eye(4), np.zeros((2, 1), np.uint8)):
        with pytest.raises(InputError, match="use the map it was fitted with"):
            gp.predict(wrong)
        with pytest.raises(InputError, match="use the map it was fitted with"):
            gp.predict(wrong, return_cov=True)
    with pytest.raises(InputError, match="not both"):
        gp.predict(np.eye(3), return_std=True, return_cov=True)


def test_an_eigendecomposition_beyond_the_integers_of_lapack_is_refused():
    moments = Moments.__new__(Moments)
    object.__setattr__(moments, "n", 100_000)
    object.__setattr__(moments, "phi_sum", np.zeros(32_767))
    object.__setattr__(moments, "gram", np.broadcast_to(0.0, (32_767, 32_767)))
    with pytest.raises(
        InputError, match=r"at most 32,766 features, not for 32,767: give a larger noise variance"
    ):
        EigenSolver(moments)
    check_eigen_size(32_766)


def test_one_target_of_several_is_what_all_give_with_one_factor():
    rng = np.random.default_rng(0)
    phi, y = rng.standard_normal((60, 8)), rng.standard_normal((60, 3)) * [1, 2, 3]
    gp = RandomFeatureGP().fit(phi, y)
    found = gp.predict(phi, return_std=True, target=1)
    assert len(gp._factors) == 1
    for one, several in zip(found, gp.predict(phi, return_std=True), strict=True):
        assert one.tobytes() == several[:, 1].tobytes()
    with pytest.raises(InputError, match="covers all targets"):
        gp.predict(phi, return_cov=True, target=1)
