"""Exact kernels: ground truth for tests, and for the exact and sparse baselines."""

from daskrf.kernels.base import Kernel, from_state
from daskrf.kernels.tanimoto import TanimotoMinMax

__all__ = ["Kernel", "TanimotoMinMax", "from_state"]
