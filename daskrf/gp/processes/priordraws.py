"""Prior samples of a Gaussian process as functions of a row, built from random features."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf import seeds
from daskrf.arrays import Matrix, as_csr, row_slice
from daskrf.engine import engine
from daskrf.errors import InputError
from daskrf.features.composed import CompositionFeatures
from daskrf.features.featuremap import FeatureMap
from daskrf.features.foldedfeatures import FoldedFeatures
from daskrf.features.fourier import RandomFourierFeatures
from daskrf.features.maclaurin import RandomMaclaurinFeatures
from daskrf.features.meanfeatures import MeanFeatures
from daskrf.features.minmax import TanimotoMinMaxFeatures
from daskrf.features.tanimotodot import TanimotoDotProductFeatures
from daskrf.gp.processes.posterior import normal_of, standard_normal
from daskrf.kernels.composition import Composition
from daskrf.kernels.coregionalized import Coregionalized, runs
from daskrf.kernels.dotproduct import TanimotoDotProduct
from daskrf.kernels.folding import Folded
from daskrf.kernels.kernel import Kernel
from daskrf.kernels.powerseries import DotProductKernel
from daskrf.kernels.radial import RadialKernel
from daskrf.kernels.tanimoto import Intersection, TanimotoMinMax
from daskrf.kernels.weightedmean import Mean

_BLOCK_ENTRIES = 1 << 24  # features held in memory at a time
_TERMS = 8
_ROWS = 4096
_LEVELS = 24


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
    if isinstance(kernel, Folded):
        inner_map = map_of(kernel.inner, n_components, random_state)
        return FoldedFeatures(inner_map, kernel.size, kernel.hashed, kernel.binary, **common)
    raise InputError(
        f"{kernel.words()} has no random features, which posterior samples need: use an acquisition rule "
        "other than thompson, sample_y in Python, or another kernel; an exact model with this kernel needs "
        "solver='cholesky'."
    )


def of_rows(kernel: Kernel) -> Kernel:
    """Return the kernel of rows alone: the inner one of a kernel of several targets."""
    return kernel.inner if isinstance(kernel, Coregionalized) else kernel


def has_map(kernel: Kernel) -> bool:
    """Return whether the kernel, or that of each of several targets, has random features."""
    try:
        map_of(of_rows(kernel), 2, 0)
    except InputError:
        return False
    return True


def has_draws(kernel: Kernel) -> bool:
    """Return whether prior samples of the kernel are available as functions."""
    return isinstance(of_rows(kernel), Intersection) or has_map(kernel)


def prior_draws(kernel: Kernel, X: Matrix, n_draws: int, n_components: int, random_state: int) -> Draws:
    """Return prior samples as functions: exact ones if possible, else `PriorDraws`.

    Raises
    ------
    InputError
        If the kernel has none.
    """
    if isinstance(kernel, Coregionalized):
        n = n_draws * len(kernel.factor[0])
        inner = prior_draws(kernel.inner, kernel.split(X)[0], n, n_components, random_state)
        return CoregionalizedDraws(kernel, inner)
    if isinstance(kernel, Intersection):
        return IntersectionDraws(n_draws, random_state)
    return PriorDraws(kernel, X, n_draws, n_components, random_state)


class PriorDraws:
    """Samples f_s(x) = w_s . phi(x) / sqrt(M), w_s standard normal, whose covariance approximates k.

    Parameters
    ----------
    kernel : Kernel
    X : rows to fit the features to
    n_draws, n_components, random_state : int
    """

    def __init__(self, kernel: Kernel, X: Matrix, n_draws: int, n_components: int, random_state: int) -> None:
        self.feature_map = map_of(kernel, n_components, random_state).fit(X)
        size = self.feature_map.n_components
        self.weights = standard_normal(random_state, "gp/prior", size, n_draws).astype(np.float32)
        if self.feature_map.one_bit:
            self.weights /= np.float32(np.sqrt(size))

    def only(self, numbers: Sequence[int]) -> PriorDraws:
        """Return some of the samples."""
        some = copy.copy(self)
        some.weights = np.ascontiguousarray(self.weights[:, list(numbers)])
        return some

    def __call__(self, X: Matrix) -> npt.NDArray[np.float32]:
        """Return the value of each sample at each row, float32 of shape (n, n_draws)."""
        size, n_draws = self.weights.shape
        values = np.empty((X.shape[0], n_draws), np.float32)
        step = max(1, _BLOCK_ENTRIES // size)
        for start in range(0, X.shape[0], step):
            rows = X[start : start + step]
            if self.feature_map.one_bit:
                bits = self.feature_map.transform_bits(rows)
                values[start : start + step] = engine().bit_means(bits, size, self.weights)
            else:
                values[start : start + step] = self.feature_map.transform(rows) @ self.weights
        return values


@dataclass(frozen=True)
class IntersectionDraws:
    """Exact prior samples for the kernel sum_k min(x_k, y_k): f(x) = sum_k B_k(x_k), Brownian motions B_k.

    The increments of B_k between whole numbers are normal numbers, hashed from the column. In between there
    are Brownian bridges, as Schauder series of 24 levels: the omitted rest has a variance of 1e-8.

    Parameters
    ----------
    n_draws, random_state : int
    """

    n_draws: int
    random_state: int

    def __call__(self, X: Matrix) -> npt.NDArray[np.float32]:
        """Return the value of each sample at each row, float32 of shape (n, n_draws)."""
        rows = as_csr(X)
        values = np.empty((rows.shape[0], self.n_draws), np.float32)
        for start in range(0, rows.shape[0], _ROWS):
            block = row_slice(rows, start, start + _ROWS)
            row, token, weight = _increments(block)
            tokens, place = np.unique(token, return_inverse=True)
            normal = np.column_stack(
                [np.empty((len(tokens), 0)), *map(self._normal(tokens), range(self.n_draws))]
            )
            shares = sp.csr_matrix((weight, (row, place)), shape=(block.shape[0], len(tokens)))
            values[start : start + _ROWS] = shares @ normal
        return values

    def _normal(self, tokens: npt.NDArray[np.uint64]) -> Callable[[int], npt.NDArray[np.float64]]:
        def of(draw: int) -> npt.NDArray[np.float64]:
            key = np.uint64(seeds.key(self.random_state, f"gp/prior#{draw}"))
            return normal_of(seeds.splitmix64(tokens ^ key))

        return of


@dataclass(frozen=True)
class CoregionalizedDraws:
    """Prior samples of several targets, f_t(x) = sum_q L_tq g_q(x), with independent samples g_q.

    Sample s is made of the samples s Q to s Q + Q - 1 of the inner kernel, so it does not depend on how many
    there are, and it is one function of molecule and target: its targets correlate.

    Parameters
    ----------
    kernel : Coregionalized
    inner : PriorDraws or IntersectionDraws
        Q samples of its inner kernel for each of its samples, where Q is the number of columns of L.
    """

    kernel: Coregionalized
    inner: Draws

    def only(self, numbers: Sequence[int]) -> CoregionalizedDraws:
        """Return some of the samples."""
        assert not isinstance(self.inner, IntersectionDraws)  # they are no samples of a fit
        size = len(self.kernel.factor[0])
        each = [number * size + q for number in numbers for q in range(size)]
        return CoregionalizedDraws(self.kernel, self.inner.only(each))

    def __call__(self, X: Matrix) -> npt.NDArray[np.float32]:
        """Return the value of each sample at each row, float32 of shape (n, n_draws)."""
        rows, target = self.kernel.split(X)
        some, place = runs(rows)
        factor = np.array(self.kernel.factor, np.float32)
        independent = self.inner(rows[some]).reshape(len(some), -1, factor.shape[1])
        return np.asarray(np.einsum("nsq,nq->ns", independent[place], factor[target]))


Draws = PriorDraws | IntersectionDraws | CoregionalizedDraws
"""Prior samples as functions of rows."""


def _increments(
    rows: sp.csr_matrix,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint64], npt.NDArray[np.float64]]:
    """Return row, token and weight of each normal number in the Brownian motions at some rows."""
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    column, value = rows.indices.astype(np.uint64), rows.data.astype(np.float64)
    whole = np.floor(value)
    count = whole.astype(np.int64)
    step = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    parts = [(np.repeat(row, count), _token(np.repeat(column, count), step, 0), np.ones(len(step)))]
    some = value > whole
    row, column, whole, rest = row[some], column[some], whole[some], (value - whole)[some]
    parts.append((row, _token(column, whole, 0), rest))
    for level in range(_LEVELS if some.any() else 0):
        scaled = rest * 2.0**level
        place = np.floor(scaled)
        hat = 1.0 - np.abs(2.0 * (scaled - place) - 1.0)
        token = _token(column, whole * 2.0**level + place, level + 1)
        parts.append((row, token, hat * 2.0 ** (-level / 2 - 1)))
    joined = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return next(joined), next(joined), next(joined)


def _token(column: npt.NDArray[np.uint64], place: object, level: int) -> npt.NDArray[np.uint64]:
    inner = seeds.splitmix64(column ^ np.uint64(level << 48))
    return seeds.splitmix64(inner ^ np.asarray(place).astype(np.uint64))
