"""Targets and features of any size: what is exact, and what is refused because digits would be missing."""

from __future__ import annotations

import numpy as np
import pytest

from daskrf.errors import InputError
from daskrf.gp import RandomFeatureGP, SufficientStatistics
from daskrf.gp.processes.evidence import _bracket
from daskrf.gp.processes.posterior import PosteriorFactor
from tests.naive import gp as naive

METHODS = ("eigh", "cholesky")


def linear(n, m, noise, seed=0):
    """Unit-norm features and y = phi w + noise."""
    rng = np.random.default_rng(seed)
    phi = rng.choice([-1.0, 1.0], (n, m)) / np.sqrt(m)
    return phi, phi @ rng.standard_normal(m) + noise * rng.standard_normal(n)


def packed(phi):
    return np.packbits(phi < 0, axis=1, bitorder="little")


@pytest.mark.parametrize("constant", [0.1, 4.2, 1e6, -3e-5, 0.0])
@pytest.mark.parametrize("n", [1, 2, 7, 20, 63])
@pytest.mark.parametrize("one_bit", [True, False])
def test_constant_y_is_seen(constant, n, one_bit):
    phi = linear(n, 8, 0.0)[0]
    rows = packed(phi) if one_bit else phi
    with pytest.raises(InputError, match="one label" if n == 1 else "target 0 has no variance"):
        RandomFeatureGP(n_components=8).fit(rows, np.full(n, constant))
    given = RandomFeatureGP(n_components=8, signal_variance=1.0, noise_variance=0.1).fit(
        rows, np.full(n, constant)
    )
    np.testing.assert_allclose(given.predict(rows), constant, rtol=1e-9)


def test_a_large_mean_costs_no_digits_of_one_bit_fits():
    """The unit of 40 bits at 1e7 is 1.5e-5; over 6,000 rows the noise is off by 1.5e-5 / sqrt(12 n) / 0.09.

    That is 6e-7, of which 1.7 are allowed; the noise itself is known to 2 %, of which 5 are allowed.
    """
    phi, y = linear(6000, 16, 0.09)
    near = RandomFeatureGP().fit(packed(phi), y)
    far = RandomFeatureGP().fit(packed(phi), y + 1e7)
    np.testing.assert_allclose(np.sqrt(far.noise_variance_), np.sqrt(near.noise_variance_), rtol=1e-6)
    np.testing.assert_allclose(far.predict(phi) - 1e7, near.predict(phi), atol=1e-6)
    assert near.noise_variance_[0] == pytest.approx(0.0081, rel=0.1)


@pytest.mark.parametrize(("one_bit", "offset"), [(True, 1e10), (True, 1e13), (False, 1e5), (False, 1e7)])
def test_a_mean_beyond_the_digits_is_refused(one_bit, offset):
    phi, y = linear(200, 16, 0.09)
    y -= y.mean()
    rows, y = packed(phi) if one_bit else phi, 0.09 / y.std() * y + offset
    with pytest.raises(InputError, match="subtract a constant from y"):
        RandomFeatureGP().fit(rows, y)


def test_what_is_not_refused_for_dense_features_is_right():
    phi, y = linear(200, 16, 0.09)
    near = RandomFeatureGP().fit(phi, y)
    for offset in (10.0, 1e3, 1e4):
        far = RandomFeatureGP().fit(phi, y + offset)
        np.testing.assert_allclose(far.noise_variance_, near.noise_variance_, rtol=1e-3)
        np.testing.assert_allclose(far.predict(phi) - offset, near.predict(phi), atol=1e-4)


@pytest.mark.parametrize("scale", [1e-9, 1e9])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("n", "m"), [(60, 20), (30, 60)])
def test_the_scale_of_features_does_not_matter(scale, method, n, m):
    phi, y = linear(n, m, 0.3)
    plain = RandomFeatureGP(method=method).fit(phi, y)
    scaled = RandomFeatureGP(method=method).fit(phi * scale, y)
    np.testing.assert_allclose(
        scaled.log_marginal_likelihood_value_, plain.log_marginal_likelihood_value_, rtol=1e-6
    )
    for left, right in zip(scaled.predict(phi * scale, True), plain.predict(phi, True), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("noise", [1e-2, 1e-3, 1e-4])
@pytest.mark.parametrize(("n", "m"), [(60, 150), (200, 20), (100, 90)])
def test_routes_agree_at_small_noise(n, m, noise):
    phi, y = linear(n, m, noise)
    eigen, cholesky = (RandomFeatureGP(method=method).fit(phi, y) for method in METHODS)
    values = [gp.log_marginal_likelihood_value_ for gp in (eigen, cholesky)]
    assert values[1] == pytest.approx(values[0], abs=0.01)
    np.testing.assert_allclose(cholesky.predict(phi), eigen.predict(phi), atol=3 * noise)
    theta = cholesky.mean_[0], cholesky.signal_variance_[0], cholesky.noise_variance_[0]
    expected = naive.log_likelihood(phi, y, *theta)
    assert values[1] == pytest.approx(expected, abs=0.01)
    assert cholesky.log_marginal_likelihood(*theta) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("best", [-20.0, -19.97, -19.8, -17.0, 0.3, 9.0, 9.9, 9.97, 10.0])
@pytest.mark.parametrize("start", [-20.0, -19.0, 0.0, 5.0, 10.0])
def test_a_minimum_near_an_end_is_bracketed(best, start):
    left, middle, right = _bracket(lambda x: (x - best) ** 2, start, -20.0, 10.0)
    if left == right:
        assert middle in (-20.0, 10.0)
        assert abs(best - middle) < 0.05
    else:
        assert left < middle < right
        assert left < best < right
        assert (middle - best) ** 2 < min((left - best) ** 2, (right - best) ** 2)


def test_many_features_and_hardly_any_noise_by_default():
    phi, y = linear(60, 1100, 1e-3)
    automatic, eigen = (RandomFeatureGP(method=method).fit(phi, y) for method in ("auto", "eigh"))
    assert automatic.log_marginal_likelihood_value_ == pytest.approx(
        eigen.log_marginal_likelihood_value_, abs=0.01
    )


def test_targets_of_the_cholesky_route_do_not_depend_on_those_before():
    """Tiny features: a search range from the diagonal of a factor in place of the Gram matrix misses them."""
    phi, y = linear(90, 40, 0.3)
    phi = 1e-9 * phi
    other = np.random.default_rng(1).standard_normal(90)
    alone = RandomFeatureGP(method="cholesky").fit(phi, y)
    second = RandomFeatureGP(method="cholesky").fit(phi, np.column_stack([other, y]))
    np.testing.assert_allclose(second.noise_variance_[1], alone.noise_variance_[0], rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_features_that_start_with_zeros(method):
    phi, y = linear(120, 30, 0.3)
    padded = np.hstack([np.zeros((120, 520)), phi])
    plain, found = (RandomFeatureGP(method=method).fit(rows, y) for rows in (phi, padded))
    np.testing.assert_allclose(found.predict(padded), plain.predict(phi), atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_features_that_are_all_zero_leave_the_prior(method):
    y = np.random.default_rng(0).standard_normal(50) + 3.0
    phi, new = np.zeros((50, 4)), np.eye(4) * [1.0, 2.0, 3.0, 0.0]
    given = RandomFeatureGP(signal_variance=2.0, noise_variance=0.5, method=method).fit(phi, y)
    mean, std = given.predict(new, return_std=True, of="f")
    np.testing.assert_allclose(mean, y.mean())
    np.testing.assert_allclose(std, np.sqrt(2.0) * np.array([1.0, 2.0, 3.0, 0.0]))
    found = RandomFeatureGP(method=method).fit(phi, y)
    assert found.at_bound_[0]
    assert found.noise_variance_[0] == pytest.approx(y.var(), rel=1e-6)
    np.testing.assert_allclose(found.predict(phi, return_std=True)[1], y.std(), rtol=1e-3)


def test_deviations_of_centred_features():
    phi, y = linear(80, 12, 0.3)
    phi = phi - phi.mean(axis=0)
    gp = RandomFeatureGP(signal_variance=2.0, noise_variance=0.5).fit(phi, y)
    _, covariance = naive.posterior(phi, y, phi, gp.mean_[0], 2.0, 0.5)
    np.testing.assert_allclose(gp.predict(phi, True, of="f")[1] ** 2, np.diag(covariance), rtol=1e-9)
    phi, y = linear(80, 16, 0.3)  # entries are +-1/4, so that column sums are zero to the last bit
    statistics = SufficientStatistics.from_chunk(np.vstack([phi, -phi]), np.concatenate([y, y]))
    assert not statistics.phi_sum.any()
    assert np.isfinite(PosteriorFactor(statistics, 0.25).root).all()
