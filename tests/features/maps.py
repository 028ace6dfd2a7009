"""The table of feature maps that the contract tests run over: a new map adds one line.

A case says what a map promises beside the contract itself. Most maps need no more than how they are made and
their first bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from daskrf.features import (
    CompositionalTanimotoFeatures,
    FeatureMap,
    LandmarkFeatures,
    TanimotoDotProductFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.kernels import CompositionalTanimoto, Kernel


def counts(n: int = 12) -> np.ndarray:
    """Return small random counts of 40 columns; row 1 is empty, rows 2 and 3 are equal."""
    rng = np.random.default_rng(11)
    X = np.minimum(rng.poisson(0.6, (n, 40)), 3)
    X[1] = 0
    X[2] = X[3]
    return X


def weights(n: int = 12) -> np.ndarray:
    """Return real weights over about six orders of magnitude, zero where :func:`counts` is."""
    scale = np.exp(np.random.default_rng(12).uniform(-7, 7, 40) / 2)
    noise = np.exp(np.random.default_rng(13).normal(size=(n, 40)))
    noise[2] = noise[3]
    return counts(n) * scale * noise


@dataclass(frozen=True)
class Case:
    """A map and what it promises.

    Parameters
    ----------
    make : the class, or a partial of it: called with the number of components and ``random_state=``
    golden : the first bytes of its features of `rows` for seed 7, as hexadecimal digits
    rows : gives the 12 rows of 40 columns to transform; the same rows are given to `fit`
    components : the number of components of all tests, for a map that cannot have any number of them
    kernel : gives the kernel of which the inner products of a fitted map are unbiased estimates, where it is
        not ``kernel_``; None where there is no such kernel
    prefixes : the first features of a larger map are those of a smaller one, up to their scale
    independent : another seed gives features that are independent of the first ones, with random signs
    falls : the mean squared error falls like 1 / n_components
    """

    make: Callable[..., FeatureMap]
    golden: str
    rows: Callable[[], np.ndarray] = counts
    components: int | None = None
    kernel: Callable[[FeatureMap], Kernel] | None = lambda feature_map: feature_map.kernel_
    prefixes: bool = False
    independent: bool = True
    falls: bool = True

    def size(self, wanted: int) -> int:
        """Return the number of components for a test that would like to have `wanted`."""
        return self.components or wanted


MAPS = {
    "minmax": Case(TanimotoMinMaxFeatures, "76236f5374b9cb632ac4516241df9fd2", prefixes=True),
    "minmax gaussian": Case(
        partial(TanimotoMinMaxFeatures, distribution="gaussian"),
        "e59b1b3ec7384dbdd8e2873ef8b5d53b6c4f163e261b4abd8b6e6b3e92f406be",
        prefixes=True,
    ),
    "minmax cws": Case(
        partial(TanimotoMinMaxFeatures, hashing="cws"),
        "230d5d6d8b0164d4885907227a706c73",
        weights,
        prefixes=True,
    ),
    "minmax cws gaussian": Case(
        partial(TanimotoMinMaxFeatures, hashing="cws", distribution="gaussian"),
        "066835be11eec2bdb10618bd87b2d83dc6e1c0bd7ea1363e9899f33d8f852b3d",
        weights,
        prefixes=True,
    ),
    "compositional": Case(
        partial(CompositionalTanimotoFeatures, CompositionalTanimoto("exponential", gamma=1.5)),
        "3d6228a93853012a195bb0c8015bb152",
        prefixes=True,
    ),
    "compositional cws": Case(
        partial(CompositionalTanimotoFeatures, CompositionalTanimoto("ratio"), hashing="cws"),
        "48f032688bb16796649b06faea3e186d",
        weights,
        prefixes=True,
    ),
    "dot product": Case(
        partial(TanimotoDotProductFeatures, n_terms=2),
        "7a006a3b71320cbb6bc0f8bb2eead03b0000003e000000be000000be0000003e",
    ),
    "dot product normalized": Case(
        partial(TanimotoDotProductFeatures, n_terms=2, bias_correction="normalize"),
        "33b2913bc8942ebb34e11abc7f13023c0000003e000000be000000be0000003e",
        kernel=None,
        falls=False,
    ),
    "dot product residual": Case(
        partial(TanimotoDotProductFeatures, n_terms=2, bias_correction="residual"),
        "1d2b203e7c9c22be885639bbdd472f3b0000003e000000be000000be0000003e",
        kernel=None,
        falls=False,
    ),
    "landmarks": Case(
        LandmarkFeatures,
        "000000000000803f0000403eabaaaa3e0000803f000000000000000000000000",
        components=11,
        kernel=None,
        independent=False,
        falls=False,
    ),
    "landmarks farthest": Case(
        partial(LandmarkFeatures, selection="farthest"),
        "000000000000803f74a6aa3bd6caae3d0000803f000000000000000000000000",
        weights,
        components=11,
        kernel=None,
        independent=False,
        falls=False,
    ),
    "landmarks medoids": Case(
        partial(LandmarkFeatures, selection="kmedoids"),
        "000000000000803f0000403eabaaaa3e0000803f000000000000000000000000",
        components=11,
        kernel=None,
        independent=False,
        falls=False,
    ),
}
