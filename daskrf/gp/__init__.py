"""Gaussian processes in feature space: statistics, evidence, posterior, acquisition, calibration."""

from daskrf.gp.acquisition import Acquisition
from daskrf.gp.calibration import Calibration, calibration_report
from daskrf.gp.crossvalidation import CrossValidation, choose_by_cross_validation, cross_validate
from daskrf.gp.fixedpoint import choose_exponent
from daskrf.gp.model import RandomFeatureGP
from daskrf.gp.statistics import SufficientStatistics

__all__ = [
    "Acquisition",
    "Calibration",
    "CrossValidation",
    "RandomFeatureGP",
    "SufficientStatistics",
    "calibration_report",
    "choose_by_cross_validation",
    "choose_exponent",
    "cross_validate",
]
