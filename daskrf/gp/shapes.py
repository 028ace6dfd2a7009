"""The size of the sums of a Gaussian process, and of what it holds beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from daskrf.gp.sums import STRIP_BYTES, strip_columns

__all__ = ["ONE_MATRIX", "BlocksShape", "SumsShape"]


@dataclass(frozen=True)
class SumsShape:
    """Of a process with one Gram matrix of all M features, which is cut into strips where it is large.

    Attributes
    ----------
    double : bool
        Whether features are summed in double precision whatever their number, as those of landmarks, which
        their prior whitens: see `FeatureMap.gram_precision`.

    Examples
    --------
    >>> from daskrf.features import LocalGaussianFeatures, TanimotoMinMaxFeatures
    >>> [SumsShape.of(kind(1000)).square(1000) for kind in (TanimotoMinMaxFeatures, LocalGaussianFeatures)]
    [8000000, 992000]
    """

    double: bool = False

    @staticmethod
    def of(feature_map: Any) -> SumsShape:
        """Return the shape of the sums that the process of a map is fitted to."""
        double, block = feature_map.gram_precision == "double", feature_map.gram_block
        return SumsShape(double) if block is None else BlocksShape(double, 2 * block)

    def square(self, n_components: int) -> int:
        """Return the bytes of all sums: a matrix, or those of blocks, in float64."""
        return 8 * n_components**2

    def strips(self, n_components: int, strip_bytes: int = STRIP_BYTES) -> list[tuple[int, int]]:
        """Return first and last column of what is summed by tasks of its own."""
        return strip_columns(n_components, strip_bytes)

    def largest(self, n_components: int, strip_bytes: int = STRIP_BYTES) -> int:
        """Return the bytes of the largest strip in a task."""
        return max(8 * stop * (stop - first) for first, stop in self.strips(n_components, strip_bytes))

    def stored(self, columns: Sequence[tuple[int, int]], *, one_bit: bool) -> list[int]:
        """Return how many numbers of each strip are stored."""
        whole = not one_bit and len(columns) > 1  # products of floats fill a strip below the diagonal, too
        sizes = [(stop - first, stop) for first, stop in columns]
        return [stop * width - (0 if whole else width * (width - 1) // 2) for width, stop in sizes]

    def converted(self, n_components: int) -> int:
        """Return how many features of a row are made float64, and copied, as it is added."""
        return n_components

    def solving(self, n_components: int, *, eigen: bool) -> tuple[float, float]:
        """Return what solving takes, in `square`: by Cholesky factors, and by an eigendecomposition.

        Statistics, and one float64 matrix that Cholesky works in; for landmarks the factor of K_ZZ and a copy
        of the statistics besides, measured 3.7. Above M = 8,192 the search for the evidence begins with half
        of the features: a quarter of a matrix more. An eigendecomposition, which also serves small M, holds
        its matrix, which becomes the vectors, and twice that as workspace: measured 5.3 in all.
        """
        share = 4.0 if self.double else 2.0 if n_components <= 8_192 else 2.25
        return share, share + (3.5 if eigen else 4.0 if n_components <= 1024 else 0.0)

    def model(self, n_components: int, *, n_targets: int = 1, n_sums: int = 1) -> tuple[float, float]:
        """Return what a model with deviations takes, in `square`: once it is there, and while it is made.

        Held are statistics and a factor, of half the size where single precision does; landmarks have that of
        K_ZZ and its inverse, too. To make the factor takes one copy of the statistics; for landmarks,
        measured 5.7.
        """
        large = n_components > 1024
        if self.double:
            (held, made), each = (4.5, 6.0) if large else (5.0, 6.0), 1.0
        else:
            (held, made), each = (1.5, 2.5) if large else (2.0, 2.0), 0.5 if large else 1.0
        # A factor for each further target, and all of it for each further set of rows with sums of its own.
        more = max(0, n_targets - n_sums) * each + (n_sums - 1) * held
        return held + more, made + more


ONE_MATRIX = SumsShape()
"""Of most maps."""


@dataclass(frozen=True)
class BlocksShape(SumsShape):
    """Of a process with Gram matrices of blocks of features, of all rows and of those nearest.

    Attributes
    ----------
    columns : int
        Of the matrices of sums that a feature is in, at most.
    """

    columns: int = 0

    def square(self, n_components: int) -> int:
        """See `SumsShape`."""
        return 8 * n_components * self.columns

    def strips(self, n_components: int, strip_bytes: int = STRIP_BYTES) -> list[tuple[int, int]]:
        """See `SumsShape`: one."""
        return [(0, n_components)]

    def largest(self, n_components: int, strip_bytes: int = STRIP_BYTES) -> int:
        """See `SumsShape`."""
        return self.square(n_components)

    def stored(self, columns: Sequence[tuple[int, int]], *, one_bit: bool) -> list[int]:
        """See `SumsShape`."""
        return [columns[-1][1] * self.columns]

    def converted(self, n_components: int) -> int:
        """See `SumsShape`."""
        return n_components + self.columns // 2

    def solving(self, n_components: int, *, eigen: bool) -> tuple[float, float]:
        """See `SumsShape`: the statistics, and one block after the other decomposed."""
        return 1.25, 1.25 + 0.75 * self.columns / n_components

    def model(self, n_components: int, *, n_targets: int = 1, n_sums: int = 1) -> tuple[float, float]:
        """See `SumsShape`: no prior whitens these features."""
        return ONE_MATRIX.model(n_components, n_targets=n_targets, n_sums=n_sums)
