"""Gaussian processes in feature space: statistics, evidence, posterior, calibration."""

from daskrf.gp.calibration import Calibration, calibration_report
from daskrf.gp.crossvalidation import CrossValidation, choose_by_cross_validation, cross_validate
from daskrf.gp.exact import ExactGP
from daskrf.gp.fixedpoint import choose_exponent
from daskrf.gp.kernelchoice import choose_kernel
from daskrf.gp.kerneltrials import KernelChoice, Trial
from daskrf.gp.lengthscale import LengthScaleSearch, choose_length_scale, with_length_scale
from daskrf.gp.local import LocalGaussianGP
from daskrf.gp.mapchoice import AutoMap, MapChoice, MapTrial, choose_map
from daskrf.gp.metricchoice import MetricChoice, MetricTrial, choose_metric
from daskrf.gp.process import RandomFeatureGP
from daskrf.gp.processes import gp_for, model_from_state
from daskrf.gp.separate import SeparateGP
from daskrf.gp.sparse import SparseGP
from daskrf.gp.statistics import SufficientStatistics, enough_precision
from daskrf.gp.sums import StackedStatistics, Summation

__all__ = [
    "AutoMap",
    "Calibration",
    "CrossValidation",
    "ExactGP",
    "KernelChoice",
    "LengthScaleSearch",
    "LocalGaussianGP",
    "MapChoice",
    "MapTrial",
    "MetricChoice",
    "MetricTrial",
    "RandomFeatureGP",
    "SeparateGP",
    "SparseGP",
    "StackedStatistics",
    "SufficientStatistics",
    "Summation",
    "Trial",
    "calibration_report",
    "choose_by_cross_validation",
    "choose_exponent",
    "choose_kernel",
    "choose_length_scale",
    "choose_map",
    "choose_metric",
    "cross_validate",
    "enough_precision",
    "gp_for",
    "model_from_state",
    "with_length_scale",
]
