"""The memory that the sums of a Gaussian process take, and the memory that it needs besides them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daskrf.features.featuremap import FeatureMap
from daskrf.gp.sums.sums import STRIP_BYTES, strip_columns


@dataclass(frozen=True)
class SumsShape:
    """Sums of a process with one Gram matrix of all M features, divided into strips if it is large.

    Attributes
    ----------
    double : bool
        Whether features are always summed in double precision, whatever their number. This is so for
        landmarks, whose features are whitened by the prior: see `FeatureMap.gram_precision`.

    Examples
    --------
    >>> from daskrf.features import LocalGaussianFeatures, TanimotoMinMaxFeatures
    >>> [SumsShape.of(kind(1000)).square(1000) for kind in (TanimotoMinMaxFeatures, LocalGaussianFeatures)]
    [8000000, 992000]
    """

    double: bool = False

    @staticmethod
    def of(feature_map: FeatureMap) -> SumsShape:
        """Return the shape of the sums for the process of a map."""
        double, block = feature_map.gram_precision == "double", feature_map.gram_block
        return SumsShape(double) if block is None else BlocksShape(double, 2 * block)

    def square(self, n_components: int) -> int:
        """Return the bytes of all sums, a matrix or blocks of it, in float64."""
        return 8 * n_components**2

    def strips(self, n_components: int, strip_bytes: int = STRIP_BYTES) -> list[tuple[int, int]]:
        """Return (first, stop) columns of each strip that is summed by separate tasks."""
        return strip_columns(n_components, strip_bytes)

    def largest(self, n_components: int, strip_bytes: int = STRIP_BYTES) -> int:
        """Return the bytes of the largest strip of a task."""
        return max(8 * stop * (stop - first) for first, stop in self.strips(n_components, strip_bytes))

    def stored(self, columns: Sequence[tuple[int, int]], *, one_bit: bool) -> list[int]:
        """Return the number of stored numbers for each strip."""
        whole = not one_bit and len(columns) > 1  # products of floats also fill a strip below the diagonal
        sizes = [(stop - first, stop) for first, stop in columns]
        return [stop * width - (0 if whole else width * (width - 1) // 2) for width, stop in sizes]

    def converted(self, n_components: int) -> int:
        """Return how many features of a row are converted to float64 and copied when the row is added."""
        return n_components

    def solving(self, n_components: int, *, eigen: bool) -> tuple[float, float]:
        """Return the memory for solving by Cholesky factors and by eigendecomposition, in units of `square`.

        Cholesky factors take the statistics and one float64 matrix as workspace; for landmarks also the
        factor of K_ZZ and a copy of the statistics: measured 3.7. Above M = 8,192 the search for the largest
        evidence starts with half of the features, which takes a quarter of a matrix more. An
        eigendecomposition, also used for small M, takes its matrix, which becomes the eigenvectors, and a
        workspace twice as large: measured 5.3 in all.
        """
        share = 4.0 if self.double else 2.0 if n_components <= 8_192 else 2.25
        return share, share + (3.5 if eigen else 4.0 if n_components <= 1024 else 0.0)

    def model(self, n_components: int, *, n_targets: int = 1, n_sums: int = 1) -> tuple[float, float]:
        """Return the memory of a model with standard deviations in units of `square`: finished, during setup.

        It holds the statistics and a factor, which is half as large if single precision is enough; for
        landmarks also the factor of K_ZZ and its inverse. Computing the factor takes one copy of the
        statistics; for landmarks 5.7 were measured.
        """
        large = n_components > 1024
        if self.double:
            (held, made), each = (4.5, 6.0) if large else (5.0, 6.0), 1.0
        else:
            (held, made), each = (1.5, 2.5) if large else (2.0, 2.0), 0.5 if large else 1.0
        # Each further target has its own factor; each further set of rows with its own sums has everything.
        more = max(0, n_targets - n_sums) * each + (n_sums - 1) * held
        return held + more, made + more


ONE_MATRIX = SumsShape()
"""The shape for most maps."""


@dataclass(frozen=True)
class BlocksShape(SumsShape):
    """Sums of a process with Gram matrices of blocks of features, over all rows and over the nearest ones.

    Attributes
    ----------
    columns : int
        Largest total number of columns in the matrices of sums that contain a given feature.
    """

    columns: int = 0

    def square(self, n_components: int) -> int:
        return 8 * n_components * self.columns

    def strips(self, n_components: int, strip_bytes: int = STRIP_BYTES) -> list[tuple[int, int]]:
        """A single strip."""
        return [(0, n_components)]

    def largest(self, n_components: int, strip_bytes: int = STRIP_BYTES) -> int:
        return self.square(n_components)

    def stored(self, columns: Sequence[tuple[int, int]], *, one_bit: bool) -> list[int]:
        return [columns[-1][1] * self.columns]

    def converted(self, n_components: int) -> int:
        return n_components + self.columns // 2

    def solving(self, n_components: int, *, eigen: bool) -> tuple[float, float]:
        """Solving takes the statistics, and blocks are decomposed one after the other."""
        return 1.25, 1.25 + 0.75 * self.columns / n_components

    def model(self, n_components: int, *, n_targets: int = 1, n_sums: int = 1) -> tuple[float, float]:
        """There is no factor of a prior: no prior whitens these features."""
        return ONE_MATRIX.model(n_components, n_targets=n_targets, n_sums=n_sums)
