"""Exact kernels: ground truth for tests, and for the exact and sparse baselines."""

from daskrf.kernels.composition import Composition
from daskrf.kernels.dotproduct import TanimotoDotProduct
from daskrf.kernels.kernel import Kernel, Prepared, from_state
from daskrf.kernels.powerseries import (
    DotProduct,
    DotProductKernel,
    Exponential,
    Polynomial,
    Ratio,
    residual_bound,
    truncation_degree,
)
from daskrf.kernels.radial import Gaussian, Matern, RadialKernel, RadialSpectrum, UnitBalls
from daskrf.kernels.tanimoto import Intersection, TanimotoMinMax
from daskrf.kernels.truncated import TruncatedGaussian

__all__ = [
    "Composition",
    "DotProduct",
    "DotProductKernel",
    "Exponential",
    "Gaussian",
    "Intersection",
    "Kernel",
    "Matern",
    "Polynomial",
    "Prepared",
    "RadialKernel",
    "RadialSpectrum",
    "Ratio",
    "TanimotoDotProduct",
    "TanimotoMinMax",
    "TruncatedGaussian",
    "UnitBalls",
    "from_state",
    "residual_bound",
    "truncation_degree",
]
