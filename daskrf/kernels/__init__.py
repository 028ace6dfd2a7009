"""Exact kernels: ground truth for tests, exact Gaussian processes and sparse baselines.

The names are listed in ``__init__.pyi``.
"""

from daskrf.exports import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
