"""Few rows and many features: solved in the space of the rows, with the same posterior."""

from __future__ import annotations

import numpy as np
import pytest

from daskrf.features import LandmarkFeatures, TanimotoMinMaxFeatures
from daskrf.gp import RandomFeatureGP, SparseGP, model_from_state
from daskrf.gp.solve.solvers import EigenSolver, LowRankGram, ShiftedCholesky
from daskrf.gp.sums.chunks import sum_rows
from tests.naive import gp as naive


def problem(n: int, M: int = 400) -> tuple[np.ndarray, np.ndarray, TanimotoMinMaxFeatures]:
    rng = np.random.default_rng(0)
    X = rng.poisson(1.0, (n, 12))
    y = X[:, 0] - X[:, 1] + 0.3 * rng.standard_normal(n)
    return X, y, TanimotoMinMaxFeatures(M).fit(X)


@pytest.mark.parametrize("noise", [1e-7, 0.1, None])
def test_the_posterior_is_the_textbook_one(noise: float | None) -> None:
    X, y, feature_map = problem(60)
    given = {} if noise is None else {"mean": 0.2, "signal_variance": 2.0, "noise_variance": noise}
    gp = RandomFeatureGP(feature_map, **given).fit(X[:40], y[:40])
    phi = feature_map.transform(X).astype(np.float64)
    values = float(gp.mean_[0]), float(gp.signal_variance_[0]), float(gp.noise_variance_[0])
    mean, covariance = naive.posterior(phi[:40], y[:40], phi[40:], *values)
    found, joint = gp.predict(X[40:], return_cov=True, of="f")
    np.testing.assert_allclose(found, mean, atol=1e-5)
    np.testing.assert_allclose(joint, covariance, atol=1e-6)
    std = gp.predict(X[40:], return_std=True, of="f")[1]
    np.testing.assert_allclose(std, np.sqrt(covariance.diagonal()), rtol=1e-4, atol=1e-6)
    evidence = naive.log_likelihood(phi[:40], y[:40], *values)
    assert gp.log_marginal_likelihood_value_ == pytest.approx(evidence, rel=1e-5)
    assert gp.log_marginal_likelihood() == pytest.approx(evidence, rel=1e-5)
    draws = gp.sample_y(X[40:], 3000, 1, of="f")
    error = 5 / np.sqrt(3000)
    assert (np.abs(draws.mean(axis=1) - mean) < error * std + 1e-5).all()
    sizes = np.outer(std, std) + 1e-9
    assert (np.abs(np.cov(draws) - covariance) / sizes).max() < error * np.sqrt(2)


def test_it_agrees_with_many_rows_and_goes_over_to_them() -> None:
    """Stored, restored, and with statistics added until there are many rows."""
    X, y, feature_map = problem(300)
    few = RandomFeatureGP(feature_map).fit(X[:60], y[:60])
    whole = RandomFeatureGP(feature_map, method="cholesky").fit(X[:60], y[:60])
    assert few.log_marginal_likelihood_value_ == pytest.approx(whole.log_marginal_likelihood_value_, rel=1e-6)
    for own, other in zip(few.predict(X, True), whole.predict(X, True), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-3, atol=1e-4)
    again = model_from_state(few.state(), few.arrays())
    assert again.predict(X, True)[1].tobytes() == few.predict(X, True)[1].tobytes()
    assert again.draw(3).predict(X).tobytes() == few.draw(3).predict(X).tobytes()
    direct = RandomFeatureGP(feature_map).fit(X, y)
    more = again.partial_fit(X[60:], y[60:])
    np.testing.assert_allclose(more.predict(X), direct.predict(X), rtol=1e-5, atol=1e-6)


def test_landmarks_with_few_labels() -> None:
    X, y, _ = problem(320)
    landmarks = LandmarkFeatures(280).fit(X)
    options = {"mean": 0.0, "signal_variance": 2.0, "noise_variance": 0.1}
    sums = sum_rows(X[:50], y[:50, None], landmarks, n_components=None, exponents=None)
    gp = SparseGP(landmarks, **options).fit_statistics(sums, landmarks)
    kernel = landmarks.kernel_
    Z = landmarks.landmarks_
    mean, covariance = naive.projected_posterior(
        kernel(Z) + (1e-9 + gp.prior_jitter_) * np.eye(Z.shape[0]),
        kernel(Z, X[:50]),
        kernel(Z, X[50:80]),
        kernel(X[50:80]),
        y[:50],
        0.0,
        2.0,
        0.1,
    )
    found, std = gp.predict(X[50:80], return_std=True, of="f")
    np.testing.assert_allclose(found, mean, atol=1e-3)
    np.testing.assert_allclose(std**2, covariance.diagonal(), atol=1e-3)


@pytest.mark.parametrize(("n", "rank"), [(5, 5), (20, 7), (0, 0)])
def test_the_gram_matrix_of_few_rows(n: int, rank: int) -> None:
    """Repeated rows, no rows, and vectors outside of the span."""
    rng = np.random.default_rng(1)
    phi = rng.standard_normal((rank, 300))
    phi = phi[np.arange(n) % max(rank, 1)] if n else phi
    gram = phi.T @ phi
    found = LowRankGram(np.triu(gram), n).factorize(0.5)
    assert len(found.values) == rank
    right = rng.standard_normal((300, 2))
    dense = ShiftedCholesky(np.triu(gram)).factorize(0.5)
    np.testing.assert_allclose(found.solve(right), dense.solve(right), atol=1e-10)
    assert found.log_det() == pytest.approx(dense.log_det())


def test_the_matrices_are_those_of_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """No matrix of all features is decomposed."""
    X, y, feature_map = problem(30)
    for name in ("factorize", "__init__"):
        monkeypatch.setattr(ShiftedCholesky, name, None)
    monkeypatch.setattr("daskrf.gp.solve.solvers.eigh", None)
    gp = RandomFeatureGP(feature_map).fit(X, y)
    gp.predict(X, return_std=True)
    gp.draw(0)
    assert isinstance(gp._eigen, EigenSolver)
