"""Figures of merit against scikit-learn, by definition, and on Gaussian data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from daskrf.errors import InputError
from daskrf.gp.validation.calibration import calibration_report, coverage, mean_log_probability, r2, rmse


def sample(n=20_000, factor=1.0):
    """Gaussian y with deviations `factor` times too small."""
    rng = np.random.default_rng(0)
    mean, std = rng.standard_normal(n), 0.2 + rng.random(n)
    return mean + std * rng.standard_normal(n), mean, std / factor


def test_figures_by_definition():
    y, mean, std = sample(500)
    report = calibration_report(y, mean, std)
    assert report.r2 == pytest.approx(metrics.r2_score(y, mean)) == r2(y, mean)
    assert report.rmse == pytest.approx(metrics.root_mean_squared_error(y, mean)) == rmse(y, mean)
    density = stats.norm.logpdf(y, mean, std).mean()
    assert report.mean_log_probability == pytest.approx(density) == mean_log_probability(y, mean, std)
    constant = stats.norm.logpdf(y, y.mean(), y.std()).mean()
    assert report.standardized_log_loss == pytest.approx(constant - density)
    other = calibration_report(y, mean, std, train_mean=1.0, train_std=3.0)
    assert other.standardized_log_loss == pytest.approx(stats.norm.logpdf(y, 1.0, 3.0).mean() - density)
    inside = np.abs(y - mean) < stats.norm.ppf(0.9) * std
    assert report.coverage_80 == pytest.approx(inside.mean())
    assert report.n == 500
    assert "80" in str(report)


def test_right_deviations_are_calibrated():
    """20,000 draws: a coverage has a standard error of at most 0.0036; 5 of them are allowed."""
    report = calibration_report(*sample())
    assert report.coverage_50 == pytest.approx(0.5, abs=0.018)
    assert report.coverage_80 == pytest.approx(0.8, abs=0.015)
    assert report.coverage_95 == pytest.approx(0.95, abs=0.008)
    assert report.z_std == pytest.approx(1.0, abs=0.025)
    assert report.calibration_error < 0.018


def test_overconfidence_shows():
    """20,000 draws: z_std has a standard error of 0.01, the coverage (0.67) of 0.0033; 5 are allowed."""
    report = calibration_report(*sample(factor=2.0))
    assert report.z_std == pytest.approx(2.0, abs=0.05)
    assert report.coverage_95 == pytest.approx(2 * stats.norm.cdf(0.98) - 1, abs=0.018)
    assert report.calibration_error > 0.15
    assert report.mean_log_probability < calibration_report(*sample()).mean_log_probability


def test_edges():
    assert np.isnan(r2([1.0, 1.0], [1.0, 2.0]))
    assert np.isnan(calibration_report([1.0], [1.0], [1.0]).standardized_log_loss)
    assert coverage([0.0], [0.0], [1.0], [0.0, 0.5, 1.0]).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(InputError, match="not positive"):
        calibration_report([1.0], [1.0], [0.0])
    with pytest.raises(InputError, match="one shape"):
        calibration_report([1.0, 2.0], [1.0], [1.0])
    with pytest.raises(InputError, match="n > 0"):
        calibration_report([], [], [])
