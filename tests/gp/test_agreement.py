"""The test of new labels against their predictions is honest: p-values are uniform if the model is right."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from daskrf.errors import InputError
from daskrf.gp import ExactGP
from daskrf.gp.validation.agreement import agreement, impossible
from daskrf.kernels import TanimotoMinMax

N = 40


@pytest.fixture(scope="module")
def covariance() -> npt.NDArray[np.float64]:
    """Strongly correlated, as the labels of a series are."""
    X = np.random.default_rng(0).poisson(0.6, (N, 12)) + np.eye(N, 12, dtype=int)
    return 2.0 * TanimotoMinMax()(X) + 0.1 * np.eye(N)


def p_values(covariance: npt.NDArray[np.float64], size: float, most: int = 1000) -> list[float]:
    rng, mean = np.random.default_rng(1), np.linspace(-3, 3, N)
    draws = rng.multivariate_normal(mean, size**2 * covariance, 300)
    std = np.sqrt(np.diag(covariance))
    return [agreement(y, mean, std, lambda rows: covariance[np.ix_(rows, rows)], most).p_value for y in draws]


@pytest.mark.parametrize("most", [1000, 15])
def test_p_values_are_uniform_for_correlated_labels(most: int, covariance: npt.NDArray[np.float64]) -> None:
    assert stats.kstest(p_values(covariance, 1.0, most), "uniform").pvalue > 0.01


def test_labels_taken_as_independent_would_be_dishonest(covariance: npt.NDArray[np.float64]) -> None:
    """The same draws, tested by z alone: far too many small p-values; so the joint test is needed."""
    rng, std = np.random.default_rng(1), np.sqrt(np.diag(covariance))
    z2 = (rng.multivariate_normal(np.zeros(N), covariance, 300) / std) ** 2
    tails = stats.chi2.cdf(z2.sum(axis=1), N)
    assert (2 * np.minimum(tails, 1 - tails) < 0.01).mean() > 0.05


def test_wrong_deviations_are_found(covariance: npt.NDArray[np.float64]) -> None:
    for size in (2.0, 0.5):
        assert np.median(p_values(covariance, size)) < 1e-3
    y = np.random.default_rng(3).multivariate_normal(np.zeros(N), 4 * covariance)
    found = agreement(
        y, np.zeros(N), np.sqrt(np.diag(covariance)), lambda rows: covariance[np.ix_(rows, rows)]
    )
    assert found.contradicts
    assert "standard deviations were too small" in str(found)
    assert 1.5 < found.factor < 2.6
    z = y / np.sqrt(np.diag(covariance))
    assert found.mean_z2 == pytest.approx((z**2).mean())
    assert found.within_95 == pytest.approx((abs(z) <= 1.96).mean())
    assert found.mean_error == pytest.approx(y.mean())
    statistic = y @ np.linalg.inv(covariance) @ y
    assert found.factor == pytest.approx(np.sqrt(statistic / N))
    assert found.p_value == pytest.approx(2 * stats.chi2.sf(statistic, N))


def test_a_batch_chosen_for_its_means_is_no_excuse() -> None:
    """The best of a prediction are as well calibrated as others, if the model is right."""
    rng = np.random.default_rng(5)
    X = rng.poisson(0.5, (300, 20)) + np.eye(300, 20, dtype=int)
    prior = ExactGP(TanimotoMinMax(), mean=0.0, signal_variance=1.0, noise_variance=0.05, solver="cholesky")
    values = []
    for seed in range(40):
        y = prior.sample_y(X, 1, seed, of="y")[:, 0]
        gp = ExactGP(TanimotoMinMax(), mean=0.0, signal_variance=1.0, noise_variance=0.05).fit(
            X[:100], y[:100]
        )
        mean, std = gp.predict(X[100:], return_std=True)
        best = 100 + np.argsort(-mean)[:30]

        def joint(
            rows: npt.NDArray[np.int64], gp: ExactGP = gp, best: npt.NDArray[np.int64] = best
        ) -> npt.NDArray[np.float64]:
            return gp.predict(X[best[rows]], return_cov=True)[1]  # type: ignore[no-any-return]

        values.append(agreement(y[best], mean[best - 100], std[best - 100], joint).p_value)
    assert stats.kstest(values, "uniform").pvalue > 0.01


def test_refuses_nothing_and_other_shapes() -> None:
    for y, mean in (([], []), ([1.0], [1.0, 2.0])):
        with pytest.raises(InputError, match="at least one"):
            agreement(y, mean, mean, lambda rows: np.eye(len(rows)))


def test_bad_error_bars_are_not_impossible_labels() -> None:
    rng = np.random.default_rng(0)
    for factor in (1.0, 3.0, 10.0):
        for _ in range(100):
            known, y = rng.normal(size=50), rng.normal(size=30)
            std = np.full(30, 0.3)
            mean = y + factor * std * rng.normal(size=30)
            assert not impossible(y, mean, std, known)[np.abs(y) < 3].any()


@pytest.mark.parametrize("wrong", [354.0, -75.0, 12.0, 5000.0])
def test_slips_are_impossible(wrong: float) -> None:
    rng = np.random.default_rng(1)
    known, y = rng.normal(3, 1, 100), rng.normal(3, 1, 30)
    mean = y + rng.normal(0, 0.5, 30)
    y[7] = wrong
    assert np.flatnonzero(impossible(y, mean, np.full(30, 0.5), known)).tolist() == [7]
    assert impossible(100 * y, mean, np.full(30, 0.5), known).sum() > 15  # another unit
