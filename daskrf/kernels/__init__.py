"""Exact kernels: ground truth for tests, and for the exact and sparse baselines."""

from daskrf.kernels.base import Kernel, Prepared, from_state
from daskrf.kernels.compositional import CompositionalTanimoto
from daskrf.kernels.dotproduct import TanimotoDotProduct
from daskrf.kernels.radial import Gaussian, Matern, RadialKernel, RadialSpectrum, UnitBalls
from daskrf.kernels.tanimoto import TanimotoMinMax

__all__ = [
    "CompositionalTanimoto",
    "Gaussian",
    "Kernel",
    "Matern",
    "Prepared",
    "RadialKernel",
    "RadialSpectrum",
    "TanimotoDotProduct",
    "TanimotoMinMax",
    "UnitBalls",
    "from_state",
]
