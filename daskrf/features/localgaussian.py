"""Maclaurin features of the Gaussian kernel around several centroids: a block of features for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MatrixLike, as_csr, check_finite, row_slice
from daskrf.errors import InputError, renumbered
from daskrf.features.featuremap import MapFacts, is_number
from daskrf.features.gaussianmaclaurin import GaussianMaclaurinFeatures, Method, pair_errors, sample_centre
from daskrf.features.sketches.allocation import Allocation, optimal_allocation
from daskrf.features.sketches.centroids import (
    CANDIDATES,
    choose_centroids,
    nearest_centroids,
    squared_distances,
)
from daskrf.features.sparserows import SampleMap
from daskrf.kernels import Gaussian
from daskrf.kernels.kernel import AUTO
from daskrf.kernels.truncated import check_length_scale
from daskrf.seeds import RandomState

_DISTANCES = 1 << 20  # at a time: 8 MiB
_TABLE = 1 << 22  # numbers of centroids as a dense array: 32 MiB
_CLOSE = 1e-2  # exponents this far apart give different first features; rounding is at most 1e-4
_FAR = 80.0  # from here on first features have few bits, or none


@dataclass(eq=False, repr=False)
class LocalGaussianFeatures(SampleMap):
    """Features of the Gaussian kernel exp(-|x - y|^2 / (2 l^2)) around each of C centroids, side by side.

    Block c holds D = n_components // C features of `GaussianMaclaurinFeatures` about centroid c, with the
    same sketches for all c. A series about one centre vanishes a few length scales away, so it cannot
    represent high frequencies. Here each row is predicted by the block of its nearest centroid, and all
    training rows contribute to every block. The model is `daskrf.gp.LocalGaussianGP`, whose sums are one Gram
    matrix of D x D for each centroid. Inner products of whole rows mean nothing.

    Parameters
    ----------
    n_components : int, default 4096
        M, the number of features in all blocks together; columns beyond C D are 0.
    length_scale : float or "auto", default 1.0
        Length scale l, above 0, in the units of the columns. With auto, `fit` chooses it from the labels; all
        other commands need a number.
    n_centroids : int, default 16
        Number C of centroids; fewer with a threshold, or if there are fewer distinct rows. 1 is the mean.
    selection : {"farthest", "kmeans", "random"}, default "farthest"
        farthest: the mean, then repeatedly the row farthest from all centroids so far. kmeans: means of
        clusters. random: random rows.
    threshold : float, optional
        For "farthest": add no centroid closer than this many length scales to the others.
    method : {"rademacher", "tensorsrht"}, default "rademacher"
        The sketches, as in `PolynomialSketch`; tensorsrht is for dense rows.
    explicit : bool, default True
        Use all monomials of the columns instead of a sketch for low degrees that have few enough of them.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    centroids_ : CSR matrix of float64, shape (C, d)
    block_size : int
        D.
    allocation_ : Allocation
        Features of each degree, the same for all centroids.
    n_features_in_ : int
        Number of columns that `fit` saw.

    Notes
    -----
    Source: Wacker & Filippone 2022, section 3.3 and algorithm 1. There the sizes of degrees are best for
    pairs of rows about the mean, which may be far from every row. Here they are best for pairs about the
    centroid of a third row; with one centroid this is the same. Centroids are chosen from 10,000 random rows.
    The nearest centroid has the largest exp(-|x - c|^2 / (2 l^2)) in single precision; ties, and rows too far
    from all centroids, go to the first.

    Examples
    --------
    >>> X = np.linspace(-9, 9, 100)[:, None]
    >>> local = LocalGaussianFeatures(80, n_centroids=8).fit(X)
    >>> local.block_size, local.centroids_.shape
    (10, (8, 1))
    >>> local.transform(X).shape
    (100, 80)
    """

    facts = MapFacts(
        name="local-gaussian",
        kernel="Gaussian, L small",
        rows="reals",
        features="floats",
        cost="N z M",
        holds="4 N M",
        learns="C rows, the centroids",
        reference="Wacker & Filippone 2022, algorithm 1",
        use=(
            "for few columns (coordinates, a few descriptors or embedding axes) and a length scale far "
            "below their spread; not for fingerprints, which do best with one centroid"
        ),
        example="--length-scale 2 --n-centroids 8",
    )

    process = "local"
    option_defaults: ClassVar[dict[str, object]] = {"length_scale": AUTO}
    kept_rows = "centroids"
    centroids_: sp.csr_matrix = field(init=False)
    gram_precision: ClassVar[Literal["single", "double"]] = "double"

    n_components: int = 4096
    _: KW_ONLY
    length_scale: float | Literal["auto"] = 1.0
    n_centroids: int = 16
    selection: Literal["farthest", "kmeans", "random"] = "farthest"
    threshold: float | None = None
    method: Method = "rademacher"
    explicit: bool = True
    random_state: RandomState = 0

    def words(self) -> str:
        centroids = f"about up to {self.n_centroids} centroids ({self.selection})"
        kernel = f"exp(-|x-y|^2 / (2 {self.length_scale}^2))"
        return f"Maclaurin features of k = {kernel} {centroids}, {self.size_words}"

    @property
    def _length(self) -> float:
        """l as a number; InputError if it is not known yet."""
        return check_length_scale(self.length_scale)

    @property
    def seconds_per_component(self) -> float:
        return (self.maps_[0] if self.is_fitted() else self._block_map()).seconds_per_component

    @property
    def kernel_(self) -> Gaussian:
        """The kernel that each block approximates near its centroid."""
        return Gaussian(self._length)

    @property
    def projected_kernel(self) -> Gaussian:
        """The same kernel; the farther a row is from its centroid, the more of it the series leave out."""
        return self.kernel_

    @property
    def block_size(self) -> int:
        """Features of each centroid; before `fit`, the smallest possible number."""
        n = self.centroids_.shape[0] if self.is_fitted() else self.n_centroids
        return self.n_components // n

    @property
    def gram_block(self) -> int:
        """Features of each centroid; before `fit`, the largest possible number."""
        return self.block_size if self.is_fitted() or self.threshold is None else self.n_components

    def check_dtype(self, dtype: str) -> None:
        """Raise InputError if features cannot be stored as `dtype`; float16 is refused, too."""
        super().check_dtype(dtype)
        if dtype == "float16":
            refuse_half(dtype)

    def table_bytes(self, n_columns: int) -> int:
        """Return the bytes of the tables of all blocks, once they are known; see `FeatureMap`."""
        return sum(each.table_bytes(n_columns) for each in self.maps_) if self.is_fitted() else 0

    def check_columns(self, n_columns: int) -> None:
        """Raise InputError if a parameter is bad, or sketches cannot take rows of `n_columns` columns."""
        self._check_parameters()
        self._block_map().check_columns(n_columns)

    def sample_size(self, n_rows: int) -> int:
        """Return how many random rows of `n_rows` to fit the map to: at most 10,000."""
        self._check_parameters()
        return min(n_rows, CANDIDATES)

    def _fit(self, X: MatrixLike) -> None:
        csr = self._block_map()._checked_rows(X)
        mean, some = sample_centre(csr, self.seed_)
        least = 0.0 if self.threshold is None else self.threshold * self._length
        centroids = choose_centroids(csr, mean, int(self.n_centroids), self.selection, least, self.seed_)
        self._take(centroids, some)

    def fit_centroids(self, X: MatrixLike, centroids: MatrixLike) -> Self:
        """Learn the sizes of all degrees from the rows of `X`, about given centroids, shape (C, d).

        Raises
        ------
        InputError
            As `fit`; and if there is no centroid, there are more than `n_components`, or they have other
            columns than `X`.
        """
        self._check_parameters()
        csr = self._block_map()._checked_rows(X)
        checked = check_finite(as_csr(centroids)).astype(np.float64)
        if checked.shape[1] != csr.shape[1] or not 0 < checked.shape[0] <= self.n_components:
            raise InputError(
                f"centroids must be 1 to n_components = {self.n_components} rows of {csr.shape[1]} columns, "
                f"not of shape {checked.shape}."
            )
        return self._take(checked, sample_centre(csr, self.seed_)[1])

    def _take(self, centroids: sp.csr_matrix, some: sp.csr_matrix) -> Self:
        """Set the centroids, and the sizes that are best for pairs of `some` rows."""
        size = self.n_components // centroids.shape[0]
        # About the centroid of another row: rows are in random order.
        labels = np.roll(nearest_centroids(some, centroids), 1)
        errors = pair_errors(some, centroids, self._length, self.method, labels)
        allocation = optimal_allocation(errors, size - 1, some.shape[1] if self.explicit else size)
        self._keep(centroids)
        self._set(allocation)
        return self

    def _set(self, allocation: Allocation) -> None:
        self.allocation_ = allocation
        self.maps_ = [self._block_map()._take(centroid, allocation) for centroid in self.centroids_]

    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        """Return the features of each row of `X`: columns c D to c D + D - 1 are those about centroid c."""
        csr = self._rows(X)
        out = np.zeros((csr.shape[0], self.n_components), np.float32)
        for columns, feature_map in self._blocks():
            out[:, columns] = feature_map.transform(csr)
        return out

    def transform_nearest(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        """Return the result of `transform` with 0 in all blocks but that of each row's nearest centroid.

        It takes 1/C of the time.
        """
        csr = self._rows(X)
        out = np.zeros((csr.shape[0], self.n_components), np.float32)
        labels = self._nearest(csr)
        for label, (columns, feature_map) in enumerate(self._blocks()):
            rows = np.flatnonzero(labels == label)
            if rows.size:
                try:
                    out[rows, columns] = feature_map.transform(csr[rows])
                except InputError as error:
                    raise renumbered(error, rows.__getitem__) from None
        return out

    def _nearest(self, csr: sp.csr_matrix) -> npt.NDArray[np.intp]:
        """Return the number of each row's nearest centroid, the same that `keep_nearest` finds.

        One product gives the distances to all centroids. Only where they are too close does it compare first
        features, which cost more.
        """
        n, n_centroids = csr.shape[0], len(self.maps_)
        labels, unsure = np.zeros(n, np.intp), np.ones(n, bool)
        step = max(1, _DISTANCES // n_centroids)
        few = np.unique(self.centroids_.indices).size * n_centroids <= _TABLE
        for start in range(0, n if few else 0, step):
            chunk = slice(start, min(start + step, n))
            block = row_slice(csr, chunk.start, chunk.stop)
            with np.errstate(over="ignore"):
                exponents = squared_distances(block, self.centroids_) / (2.0 * self._length**2)
            labels[chunk] = np.argmin(exponents, axis=1)
            least = np.min(exponents, axis=1)
            close = np.count_nonzero(exponents <= least[:, None] + _CLOSE, axis=1)
            unsure[chunk] = (close > 1) | ~(least < _FAR)  # also true for NaN
        rest = np.flatnonzero(unsure)
        if rest.size:
            left = csr[rest]
            labels[rest] = np.argmax(np.stack([each._starts(left) for each in self.maps_]), axis=0)
        return labels

    def _rows(self, X: MatrixLike) -> sp.csr_matrix:
        if self.maps_[0].get_params() != self._block_map().get_params():
            raise InputError(
                "The parameters of LocalGaussianFeatures have changed since fit: call fit again."
            )
        return check_finite(as_csr(X))

    def _blocks(self) -> list[tuple[slice, GaussianMaclaurinFeatures]]:
        size = self.block_size
        return [(slice(c * size, (c + 1) * size), each) for c, each in enumerate(self.maps_)]

    def _block_map(self) -> GaussianMaclaurinFeatures:
        """Return the map of one block, not yet fitted."""
        return GaussianMaclaurinFeatures(
            self.block_size,
            length_scale=self._length,
            method=self.method,
            explicit=self.explicit,
            random_state=self.seed_,
        )

    def _fitted_state(self) -> dict[str, object]:
        fitted = super()._fitted_state()
        return {**fitted, "allocation": self.allocation_.state()} if self.is_fitted() else fitted

    def _restore(self, fitted: dict[str, Any]) -> None:
        super()._restore(fitted)
        if fitted:
            self._set(Allocation.from_state(fitted["allocation"]))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_length_scale(self.length_scale)
        n, most = self.n_centroids, self.n_components
        if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 1 <= n <= most:
            raise InputError(f"n_centroids must be an integer from 1 to n_components = {most}, not {n!r}.")
        if self.threshold is not None:
            if not (is_number(self.threshold) and self.threshold >= 0.0):
                raise InputError(f"threshold must be a finite number of at least 0, not {self.threshold!r}.")
            if self.selection != "farthest":
                raise InputError(f"threshold is for selection='farthest', not for {self.selection!r}.")


def refuse_half(dtype: npt.DTypeLike) -> None:
    """Raise InputError if features about centroids have, or are to have, 16 bits."""
    if np.dtype(dtype) == np.float16:
        raise InputError(
            "Features about centroids cannot be float16: beyond 6 length scales it rounds the features that "
            "identify the nearest centroid to 0. Use float32."
        )


def nearest_blocks(
    phi: npt.NDArray[np.number], size: int
) -> Iterator[tuple[int, npt.NDArray[np.intp], slice]]:
    """Yield each block whose centroid is nearest to some rows, with those rows and its columns."""
    n_blocks = phi.shape[1] // size
    labels = _labels(phi, n_blocks, size)
    for block in range(n_blocks):
        rows = np.flatnonzero(labels == block)
        if rows.size:
            yield block, rows, slice(block * size, (block + 1) * size)


def keep_nearest(phi: npt.NDArray[np.floating], n_blocks: int, size: int) -> npt.NDArray[np.intp]:
    """Set all blocks but that of each row's nearest centroid to 0, in place; return the blocks' numbers."""
    labels = _labels(phi, n_blocks, size)
    blocks = phi[:, : n_blocks * size].reshape(len(phi), n_blocks, size)
    blocks[np.arange(n_blocks) != labels[:, None]] = 0.0
    return labels


def _labels(phi: npt.NDArray[np.number], n_blocks: int, size: int) -> npt.NDArray[np.intp]:
    """Return the block of each row's nearest centroid.

    The first feature of a block, exp(-|x - c|^2 / (2 l^2)), is largest for the nearest centroid; ties, and
    rows too far from all, go to the first.
    """
    return np.argmax(phi[:, : n_blocks * size : size], axis=1)
