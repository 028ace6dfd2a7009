"""Prior draws of a Gaussian process as functions of a row, built from random features."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.engine import engine
from daskrf.errors import InputError
from daskrf.features.composed import CompositionFeatures
from daskrf.features.featuremap import FeatureMap
from daskrf.features.fourier import RandomFourierFeatures
from daskrf.features.maclaurin import RandomMaclaurinFeatures
from daskrf.features.meanfeatures import MeanFeatures
from daskrf.features.minmax import TanimotoMinMaxFeatures
from daskrf.features.tanimotodot import TanimotoDotProductFeatures
from daskrf.gp.posterior import standard_normal
from daskrf.kernels.composition import Composition
from daskrf.kernels.dotproduct import TanimotoDotProduct
from daskrf.kernels.kernel import Kernel
from daskrf.kernels.powerseries import DotProductKernel
from daskrf.kernels.radial import RadialKernel
from daskrf.kernels.tanimoto import TanimotoMinMax
from daskrf.kernels.weightedmean import Mean

__all__ = ["PriorDraws", "has_map", "map_of"]

_BLOCK_ENTRIES = 1 << 24  # features held in memory at a time
_TERMS = 8


def map_of(kernel: Kernel, n_components: int, random_state: int) -> FeatureMap:
    """Return the random features whose inner products have the expectation `kernel`.

    Raises
    ------
    InputError
        If the kernel has no random features.
    """
    common: dict[str, Any] = {"n_components": n_components, "random_state": random_state}
    if isinstance(kernel, TanimotoMinMax):
        return TanimotoMinMaxFeatures(**common)
    if isinstance(kernel, TanimotoDotProduct):
        # Without a residual, features of the full series would have the expectation of a truncated one.
        terms: dict[str, Any] = {"n_terms": kernel.n_terms or _TERMS}
        if kernel.n_terms is None:
            terms["bias_correction"] = "residual"
        return TanimotoDotProductFeatures(input_transform=kernel.transform, **terms, **common)
    if isinstance(kernel, RadialKernel):
        return RandomFourierFeatures(kernel, **common)
    if isinstance(kernel, Composition):
        return CompositionFeatures(kernel.outer, map_of(kernel.inner, n_components, random_state), **common)
    if isinstance(kernel, DotProductKernel):
        return RandomMaclaurinFeatures(kernel, **common)
    if isinstance(kernel, Mean):
        inner = tuple(map_of(each, n_components, random_state) for each in kernel.kernels)
        return MeanFeatures(kernel.weights, inner, kernel.columns, **common)
    raise InputError(f"{kernel.words()} has no random features to draw from: fit with solver='cholesky'.")


def has_map(kernel: Kernel) -> bool:
    """Return whether the kernel has random features."""
    try:
        map_of(kernel, 2, 0)
    except InputError:
        return False
    return True


class PriorDraws:
    """Draws f_s(x) = w_s . phi(x) / sqrt(M), w_s standard normal, whose covariance approximates k.

    Parameters
    ----------
    kernel : Kernel
    X : rows to fit the features to
    n_draws, n_components, random_state : int
    """

    def __init__(self, kernel: Kernel, X: Any, n_draws: int, n_components: int, random_state: int) -> None:
        self.feature_map = map_of(kernel, n_components, random_state).fit(X)
        size = self.feature_map.n_components
        self.weights = standard_normal(random_state, "gp/prior", size, n_draws).astype(np.float32)
        if self.feature_map.one_bit:
            self.weights /= np.float32(np.sqrt(size))

    def only(self, numbers: Sequence[int]) -> PriorDraws:
        """Return some of the draws."""
        some = copy.copy(self)
        some.weights = np.ascontiguousarray(self.weights[:, list(numbers)])
        return some

    def __call__(self, X: Any) -> npt.NDArray[np.float32]:
        """Return the value of each draw at each row, float32 of shape (n, n_draws)."""
        size, n_draws = self.weights.shape
        found = np.empty((X.shape[0], n_draws), np.float32)
        step = max(1, _BLOCK_ENTRIES // size)
        for start in range(0, X.shape[0], step):
            rows = X[start : start + step]
            if self.feature_map.one_bit:
                bits = self.feature_map.transform_bits(rows)
                found[start : start + step] = engine().bit_means(bits, size, self.weights)
            else:
                found[start : start + step] = self.feature_map.transform(rows) @ self.weights
        return found
