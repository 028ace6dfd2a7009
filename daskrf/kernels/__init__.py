"""Exact kernels: ground truth for tests, and for the exact and sparse baselines."""

from daskrf.kernels.tanimoto import TanimotoMinMax

__all__ = ["TanimotoMinMax"]
