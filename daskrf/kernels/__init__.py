"""Exact kernels, found without a list: ground truth for tests, exact processes and sparse baselines."""

from daskrf.exports import declared
from daskrf.kernels.kernel import Kernel as Kernel
from daskrf.kernels.kernel import from_state as from_state
from daskrf.kernels.powerseries import residual_bound as residual_bound
from daskrf.kernels.powerseries import truncation_degree as truncation_degree

globals().update(declared(__name__, Kernel))

__all__ = ["Kernel", *sorted(declared(__name__, Kernel)), "from_state", "residual_bound", "truncation_degree"]
