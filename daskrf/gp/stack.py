"""Sums over rows about all centroids at once, a Gram matrix for each of them: a commutative monoid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from daskrf.errors import InputError
from daskrf.features.localgaussian import keep_nearest, refuse_half
from daskrf.gp.fixedpoint import check_targets
from daskrf.gp.statistics import Moments, Precision, SufficientStatistics, enough_precision

__all__ = [
    "StackedStatistics",
    "Statistics",
    "precision_for",
    "statistics_from_arrays",
    "zero_statistics",
]

_ROWS = 2_048  # converted to float64 at a time

Array = npt.NDArray[np.float64]


@dataclass
class StackedStatistics:
    """Sums over rows of features in C blocks of D, one block for each centroid.

    `rows` and `grams` are over all rows: every row counts for every centroid. `own` and `own_grams` are over
    the same rows with only the block of the nearest centroid, the others being 0: what the evidence is of.

    Attributes
    ----------
    rows, own : SufficientStatistics
        Of all M features, without a Gram matrix.
    grams, own_grams : float64 arrays, shape (C, D, D)
        Diagonal blocks of Phi^T Phi, upper triangles. They are summed in double precision.

    Examples
    --------
    >>> phi = np.array([[1.0, 0.5, 0.1, 0.0], [0.2, 0.0, 0.9, 2.0]])
    >>> stack = StackedStatistics.zero(4, 2).update(phi, [1.0, 3.0])
    >>> stack.n, stack.grams[1].round(2).tolist(), stack.own_grams[1].round(2).tolist()
    (2, [[0.82, 1.8], [0.0, 4.0]], [[0.81, 1.8], [0.0, 4.0]])
    """

    rows: SufficientStatistics
    own: SufficientStatistics
    grams: Array
    own_grams: Array

    @classmethod
    def zero(
        cls, n_components: int, block_size: int, n_targets: int = 1, *, map_key: str | None = None
    ) -> StackedStatistics:
        """Return the sums over no rows; M need not be a multiple of the block size D.

        Raises
        ------
        InputError
            If D is not between 1 and M.
        """
        if not 1 <= block_size <= n_components:
            raise InputError(f"blocks of {block_size} features do not fit {n_components} features.")
        rows, own = (
            SufficientStatistics.zero(n_components, n_targets, one_bit=False, map_key=map_key, gram=False)
            for _ in range(2)
        )
        shape = (n_components // block_size, block_size, block_size)
        return cls(rows, own, np.zeros(shape), np.zeros(shape))

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.rows.n

    @property
    def n_components(self) -> int:
        """Number of features M."""
        return self.rows.n_components

    @property
    def block_size(self) -> int:
        """Number of features D of a centroid."""
        return self.grams.shape[1]

    @property
    def one_bit(self) -> bool:
        """False: features are dense."""
        return False

    @property
    def map_key(self) -> str | None:
        """As of `SufficientStatistics`."""
        return self.rows.map_key

    @property
    def precision(self) -> Precision:
        """In which features are multiplied."""
        return self.rows.precision

    @property
    def y_exponents(self) -> None:
        """None: targets are floats."""
        return None

    @property
    def kernel_trace(self) -> float:
        """Sum of k(x, x) over the rows."""
        return self.rows.kernel_trace

    def update(
        self,
        phi: npt.NDArray[Any],
        y: npt.ArrayLike | None = None,
        diagonal: npt.ArrayLike | None = None,
    ) -> StackedStatistics:
        """Add rows of dense features, shape (n, M), and targets in place, and return self.

        `diagonal`, k(x, x) of each row, is 1: the kernel is Gaussian.

        Raises
        ------
        InputError
            As `SufficientStatistics.update`, and if features are float16; nothing is added then.
        """
        refuse_half(phi.dtype)
        targets = None if y is None else check_targets(y)
        self.rows.update(phi, targets)
        self._own_sums()
        n_blocks, size = self.grams.shape[:2]
        for start in range(0, len(phi), _ROWS):
            part = slice(start, start + _ROWS)
            wide = phi[part].astype(np.float64)
            for block, gram in enumerate(self.grams):
                _add(gram, wide[:, block * size : (block + 1) * size])
            labels = keep_nearest(wide, n_blocks, size)
            self.own.update(wide, None if targets is None else targets[part])
            for block in np.unique(labels):
                _add(self.own_grams[block], wide[labels == block, block * size : (block + 1) * size])
        return self

    def combine(self, other: StackedStatistics) -> StackedStatistics:
        """Return the sums over both sets of rows."""
        return self.copy().__iadd__(other)

    def copy(self) -> StackedStatistics:
        """Return an independent copy."""
        return StackedStatistics(self.rows.copy(), self.own.copy(), self.grams.copy(), self.own_grams.copy())

    def __add__(self, other: StackedStatistics) -> StackedStatistics:
        return self.combine(other)

    def __iadd__(self, other: StackedStatistics) -> StackedStatistics:
        if not isinstance(other, StackedStatistics):
            raise InputError("sums about centroids cannot be combined with others: make both with one map.")
        if self.grams.shape != other.grams.shape:
            raise InputError(
                f"statistics of (centroids, features each) = {self.grams.shape[:2]} and "
                f"{other.grams.shape[:2]} cannot be combined: use one map."
            )
        self.rows += other.rows
        self.own += other.own
        self._own_sums()
        self.grams += other.grams
        self.own_grams += other.own_grams
        return self

    def moments(self) -> Moments:
        """Return the moments of rows by their nearest centroid alone, Gram matrices of shape (C, D, D)."""
        return self._stacked(self.own.moments(gram=False), self.own_grams)

    def block_moments(self, block: int, *, nearest: bool = False) -> Moments:
        """Return the moments of all rows about one centroid, or of those nearest to it.

        Shapes are those of D features; the Gram matrix is a copy.
        """
        sums, grams = (self.own, self.own_grams) if nearest else (self.rows, self.grams)
        whole = self._stacked(sums.moments(gram=False), grams)
        own, gram = slice(block * self.block_size, (block + 1) * self.block_size), grams[block].copy()
        return replace(
            whole,
            gram=gram,
            trace=float(np.trace(gram)),
            phi_sum=whole.phi_sum[own],
            phi_y=whole.phi_y[own],
        )

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as plain arrays for storing; no copies."""
        parts = {"rows": self.rows.arrays(), "own": self.own.arrays()}
        named = {f"{part}/{name}": array for part, own in parts.items() for name, array in own.items()}
        return {"grams": self.grams, "own_grams": self.own_grams, **named}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> StackedStatistics:
        """Undo `arrays` exactly.

        Raises
        ------
        InputError
            If an array is missing.
        """
        rows, own = (
            SufficientStatistics.from_arrays(
                {k.removeprefix(f"{part}/"): v for k, v in arrays.items() if k.startswith(f"{part}/")}
            )
            for part in ("rows", "own")
        )
        try:
            return cls(rows, own, arrays["grams"], arrays["own_grams"])
        except KeyError as error:
            raise InputError(f"stored statistics lack the array {error}: fit again.") from None

    def _own_sums(self) -> None:
        """Copy sums that were stored read-only or in another order, which cannot be added to in place."""
        self.grams = np.require(self.grams, requirements=["C", "W"])
        self.own_grams = np.require(self.own_grams, requirements=["C", "W"])

    def _stacked(self, moments: Moments, grams: Array) -> Moments:
        """Return moments of the features of all blocks, without what is left over of M."""
        used = grams.shape[0] * grams.shape[1]
        trace = float(np.einsum("cii->", grams))
        phi_sum, phi_y = moments.phi_sum[:used], moments.phi_y[:used]
        return replace(moments, gram=grams, trace=trace, phi_sum=phi_sum, phi_y=phi_y)


def _add(gram: Array, phi: Array) -> None:
    # The lower triangle in Fortran order is the upper one in C order.
    blas.dsyrk(1.0, np.ascontiguousarray(phi).T, beta=1.0, c=gram.T, lower=1, overwrite_c=1)


Statistics = SufficientStatistics | StackedStatistics
"""What a model in feature space is fitted to."""


def zero_statistics(feature_map: Any, n_targets: int, *, map_key: str | None, **options: Any) -> Statistics:
    """Return the sums over no rows of features of a map: those that its model is fitted to.

    Parameters
    ----------
    feature_map : FeatureMap
    n_targets : int
    map_key : str, optional
    **options : for maps without blocks
        one_bit, y_exponents, precision and gram of `SufficientStatistics.zero`.
    """
    if feature_map.in_blocks:
        size = feature_map.block_size
        return StackedStatistics.zero(feature_map.n_components, size, n_targets, map_key=map_key)
    return SufficientStatistics.zero(feature_map.n_components, n_targets, map_key=map_key, **options)


def precision_for(feature_map: Any, n_rows: int) -> Precision:
    """Return the precision of sums of features of a map over so many rows: see `enough_precision`."""
    if feature_map.gram_precision == "double":
        return "double"
    return enough_precision(n_rows, feature_map.n_components)


def statistics_from_arrays(arrays: Mapping[str, npt.NDArray[Any]]) -> Statistics:
    """Undo `arrays` of statistics of either kind.

    Raises
    ------
    InputError
        If an array is missing.
    """
    if "grams" in arrays:
        return StackedStatistics.from_arrays(arrays)
    return SufficientStatistics.from_arrays(dict(arrays))
