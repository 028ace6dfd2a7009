"""The table of feature maps that the contract tests run over: a new map adds one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from daskrf.features import FeatureMap, TanimotoMinMaxFeatures


@dataclass(frozen=True)
class Case:
    """A map, the first bytes of its features of :func:`counts` for seed 7, and an input that it serves."""

    make: Callable[..., FeatureMap]
    golden: str
    largest: int = 3

    def counts(self, n: int = 12) -> np.ndarray:
        """Return small random counts of 40 columns; row 1 is empty, rows 2 and 3 are equal."""
        rng = np.random.default_rng(11)
        X = np.minimum(rng.poisson(0.6, (n, 40)), self.largest)
        X[1] = 0
        X[2] = X[3]
        return X


MAPS = {"minmax": Case(TanimotoMinMaxFeatures, "76236f5374b9cb632ac4516241df9fd2")}
