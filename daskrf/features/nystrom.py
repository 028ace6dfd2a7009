"""Nystroem features: SCISSORS vectors of a kernel."""

from __future__ import annotations

import operator
import zlib
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from daskrf.arrays import MatrixLike, as_rows
from daskrf.errors import InputError
from daskrf.features.featuremap import MapFacts
from daskrf.features.landmarks import LandmarkMap
from daskrf.features.sketches.projections import refuse_overflow
from daskrf.features.sketches.spectrum import decompose
from daskrf.features.sparserows import compact, pack, unpack
from daskrf.kernels import Kernel, TanimotoMinMax
from daskrf.kernels.kernel import Prepared, prepared_blocks
from daskrf.seeds import RandomState

_BLOCK = 1 << 20  # kernel values in a block: some MiB for any number of rows
_FEWEST = 96  # rows in a block


@dataclass(eq=False, repr=False)
class NystromFeatures(LandmarkMap):
    """Features whose inner product is the rank-k Nystroem approximation of any kernel.

    Of the kernel matrix W = V D V^T among l landmarks, the k largest eigenvalues are kept. With L = k(Z, x),
    the kernel of a row with the landmarks, phi(x) = Q D_k^(-1/2) V_k^T L, so that phi(x)^T phi(x') = L^T
    W_k^+ L'. For k = l this is exact between landmarks, and never too large for any k(x, x). These are the
    vectors of SCISSORS (equation 2), which `daskrf.features.SCISSORS` makes for any similarity matrix, up to
    the rotation Q. The rotation changes no inner product. It makes the projection upper trapezoidal, which
    halves its bytes and its time at k = l, and unique, which eigenvectors are not.

    The prior of the weights is the identity, so every model for random features works with these. For any
    kernel, `daskrf.gp.RandomFeatureGP` predicts the same means as the sparse Gaussian process of
    `LandmarkFeatures` (projected process). Like `SparseGP`, it adds to its variances the part of k(x, x) that
    the landmarks miss. A model that gets only the features cannot know that part.

    Parameters
    ----------
    n_components : int, default 1024
        Number k of features.
    kernel : Kernel, default TanimotoMinMax()
        Any kernel, whether k(x, x) = 1 or not. An indefinite kernel is replaced by the nearest positive
        semidefinite one on the landmarks. In Python `negative_` says how far that is.
    n_landmarks : int, optional
        Number l of landmarks, at least k. Default: k. More landmarks at the same number of features are more
        accurate; each costs a kernel value and k multiplications per molecule.
    selection : {"random", "kmedoids", "kmeans", "farthest"}
        As for `LandmarkFeatures`. "kmeans" takes means of clusters by Euclidean distance, which are not rows
        of the library and suit kernels of the distance. "kmedoids" clusters by the kernel itself, has rows as
        centres, and suits any kernel.
    n_candidates : int, optional
        Most rows to choose from, for all selections but "random". Default: the larger of 20,000 and 4 l.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    landmarks_ : CSR matrix of uint16 or float64, shape (n_landmarks, d)
    projection_ : float32 array, shape (rank_, n_landmarks)
        Q D_r^(-1/2) V_r^T, zero left of the diagonal; computed in double precision.
    rank_ : int
        Number r of features that are not 0 everywhere. It is less than k if fewer than k eigenvalues exceed
        2^-24 of the largest one, below which single precision cannot tell them from 0.
    negative_ : tuple of float
        |W - W'|_2 and |W - W'|_F, where W' is the positive semidefinite matrix nearest to W; 0 for a kernel.
    n_features_in_ : int
        Number of columns that `fit` saw.

    Notes
    -----
    Source: Haque & Pande 2011, lemma 1 and the section on the Nystroem approximation (equation 3 prints
    D^(+1/2) for D^(-1/2)); Williams & Seeger 2001. Error bounds: `daskrf.features.bounds`. BLAS makes the
    products, in single precision.

    Examples
    --------
    >>> X = np.array([[2, 0, 1], [1, 1, 1], [0, 5, 0]])
    >>> Phi = NystromFeatures(3).fit(X).transform(X)
    >>> bool(np.allclose(Phi @ Phi.T, TanimotoMinMax()(X), atol=1e-6))
    True
    """

    facts = MapFacts(
        name="nystrom",
        kernel="any exact kernel",
        rows="as the kernel",
        features="floats",
        cost="z K + K M",
        holds="8 K M",
        learns="K rows, the landmarks",
        reference="Haque & Pande 2011; Williams & Seeger 2001",
        use=(
            "the most accurate at equal M, in both means and error bars, for any kernel, on sparse or dense "
            "rows; has to read the library first"
        ),
        example="-M 2048 --kernel gaussian --length-scale 16",
    )

    _number = "n_landmarks"

    n_components: int = 1024
    _: KW_ONLY
    kernel: Kernel = TanimotoMinMax()  # noqa: RUF009, kernels are immutable
    n_landmarks: int | None = None
    selection: Literal["random", "kmedoids", "kmeans", "farthest"] = "random"
    n_candidates: int | None = None
    random_state: RandomState = 0

    @property
    def seconds_per_component(self) -> float:
        # Half a column of the projection.
        return 6e-9 + 2e-11 * self.landmarks_wanted()

    @property
    def n_filled(self) -> int:
        return self.rank_ if self.is_fitted() else self.n_components

    def words(self) -> str:
        n_landmarks = self.landmarks_.shape[0] if self.is_fitted() else self.landmarks_wanted()
        words = f"Nystroem features of {self.kernel.words()}, {n_landmarks} landmarks"
        words = f"{words} chosen {self.selection_words}, {self.size_words}"
        if not self.is_fitted():
            return words
        two_norm, frobenius = self.negative_
        words += f", of rank {self.rank_}" if self.rank_ < self.n_components else ""
        left = f", negative eigenvalues down to -{two_norm:.3g} left out (Frobenius norm {frobenius:.3g})"
        return words + (left if two_norm > 0.0 else "")

    def table_bytes(self, n_columns: int) -> int:
        """Return the bytes of the projection as it is kept, stored and read; see `FeatureMap`."""
        k, l = self.n_components, self.landmarks_wanted()
        filled = k * l - k * k // 2
        # The projection and its triangle on its own, and the text of a state while it is taken apart.
        return super().table_bytes(n_columns) + 4 * k * (l + k * (l > k)) + 18 * filled

    def fit_bytes(self, n_nonzeros: float) -> int:
        """Return the bytes that it takes to decompose the landmarks' kernel matrix; see `FeatureMap`."""
        l = self.landmarks_wanted()
        # In double precision: the kernel, LAPACK's copy of it, twice as much to work in, and eigenvectors.
        return super().fit_bytes(n_nonzeros) + 40 * l * l

    def landmarks_wanted(self) -> int:
        if self.n_landmarks is None:
            return self.n_components
        try:
            number = -1 if isinstance(self.n_landmarks, bool) else operator.index(self.n_landmarks)
        except TypeError:
            number = -1
        if number < self.n_components:
            raise InputError(
                f"n_landmarks must be an integer of at least n_components = {self.n_components}, not "
                f"{self.n_landmarks!r}."
            )
        return number

    def _fit(self, X: MatrixLike) -> None:
        self._keep(compact(self._choose(X)))
        # Where sums have another order, rounding may differ between a pair and its mirror image.
        W = self.kernel(self.landmarks_)
        W = W + W.T
        W /= 2.0
        spectrum = decompose(W, self.n_components)
        R: npt.NDArray[np.float64] = np.linalg.qr(spectrum.projection.T, mode="r")  # type: ignore[assignment]
        R *= np.where(np.diag(R) < 0.0, -1.0, 1.0)[:, None]
        self._set_projection(R.astype(np.float32), spectrum.negative())

    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        """Return the features of each row of `X`; columns from `rank_` on are 0."""
        prepared, n_landmarks = self._against_landmarks(), self.landmarks_.shape[0]
        rows = as_rows(X)
        if self._fitted_to != (self.kernel, self.n_components):
            raise InputError("kernel or n_components has changed since the last fit: call fit again.")
        project = self._projector()
        features = np.zeros((rows.shape[0], self.n_components), np.float32)
        size = max(_FEWEST, _BLOCK // n_landmarks)
        with np.errstate(over="ignore", invalid="ignore"):
            for chunk, values in prepared_blocks(prepared, rows, n_landmarks, rows=size, single=True):
                features[chunk, : self.rank_] = project(values)
        refuse_overflow(features, "divide all rows by a length, or take another kernel")
        return features

    def project(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the weights of features that give a function's values at the landmarks, shape (M, n).

        For values g(Z), shape (n_landmarks, n), phi(x) . w = k(x, Z) W_k^+ g(Z): the projection of g.
        """
        weights = np.zeros((self.n_components, values.shape[1]))
        weights[: self.rank_] = self.projection_.astype(np.float64) @ values
        return weights

    def _fitted_state(self) -> dict[str, object]:
        fitted = super()._fitted_state()
        if not self.is_fitted():
            return fitted
        if not hasattr(self, "_packed"):
            self._packed = pack(self.projection_[_trapezoid(self.projection_.shape)].astype("<f4"))
        shape = list(self.projection_.shape)
        return {**fitted, "projection": self._packed, "shape": shape, "negative": list(self.negative_)}

    def _restore(self, fitted: dict[str, Any]) -> None:
        super()._restore(fitted)
        if not fitted:
            return
        try:
            rank, n_landmarks = fitted["shape"]
            shape = int(rank), int(n_landmarks)
            projection = np.zeros(shape, np.float32)
            projection[_trapezoid(shape)] = unpack(fitted["projection"], "<f4")
            low, high = fitted["negative"]
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise InputError(
                f"The stored projection of the feature map cannot be read ({error}); make it again."
            ) from None
        self._set_projection(projection, (float(low), float(high)))
        self._packed = fitted["projection"]

    def _set_projection(self, projection: npt.NDArray[np.float32], negative: tuple[float, float]) -> None:
        self.projection_ = projection
        self.rank_ = int(projection.shape[0])
        self.negative_ = negative
        self._fitted_to = (self.kernel, self.n_components)
        self._made = None
        self.__dict__.pop("_packed", None)

    def _prepare(self) -> Prepared:
        return self.kernel.against_single(self.landmarks_)

    def _projector(self) -> Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]:
        """Return the function L -> L R^T, with R the projection; BLAS skips the zeros of R."""
        r = self.rank_
        triangle = self._made_for("_made", r, lambda: np.ascontiguousarray(self.projection_[:, :r]))
        rest = self.projection_[:, r:]

        def project(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
            # What is lower in Fortran order is upper in C order.
            product = blas.strmm(1.0, triangle.T, values[:, :r].T, lower=1, trans_a=1).T
            return product + values[:, r:] @ rest.T if rest.size else product

        return project


def _trapezoid(shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return where an upper trapezoidal matrix is nonzero."""
    return ~np.tri(*shape, k=-1, dtype=bool)
