"""Gaussian processes in feature space: statistics, evidence, posterior, calibration."""

from daskrf.gp.choice.kernelchoice import choose_kernel
from daskrf.gp.choice.lengthscale import LengthScaleSearch, choose_length_scale, with_length_scale
from daskrf.gp.choice.mapchoice import AutoMap, MapChoice, MapTrial, choose_map
from daskrf.gp.choice.metricchoice import MetricChoice, MetricTrial, choose_metric
from daskrf.gp.processes.coregionalized import CoregionalizedGP
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.kerneltrials import KernelChoice, Trial
from daskrf.gp.processes.local import LocalGaussianGP
from daskrf.gp.processes.process import RandomFeatureGP
from daskrf.gp.processes.processes import gp_for, model_from_state
from daskrf.gp.processes.separate import SeparateGP
from daskrf.gp.processes.sparse import SparseGP
from daskrf.gp.sums.fixedpoint import choose_exponent
from daskrf.gp.sums.statistics import SufficientStatistics, enough_precision
from daskrf.gp.sums.sums import StackedStatistics, Summation
from daskrf.gp.validation.calibration import Calibration, calibration_report
from daskrf.gp.validation.crossvalidation import CrossValidation, choose_by_cross_validation, cross_validate

__all__ = [
    "AutoMap",
    "Calibration",
    "CoregionalizedGP",
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
