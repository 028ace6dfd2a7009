"""Maps with landmarks, and kernel values with landmarks: the features of sparse Gaussian processes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf import seeds
from daskrf.arrays import MatrixLike, as_csr, check_finite
from daskrf.errors import InputError
from daskrf.estimators import clone
from daskrf.features.featuremap import MapFacts
from daskrf.features.sketches.selection import SELECTIONS, distinct_rows
from daskrf.features.sparserows import SampleMap, compact
from daskrf.kernels import Kernel, TanimotoMinMax
from daskrf.kernels.kernel import Prepared
from daskrf.seeds import RandomState

_MANY_CANDIDATES = 20_000
_CHOSEN = {
    "random": "at random",
    "kmedoids": "as k-medoids",
    "kmeans": "as means of clusters",
    "farthest": "far from each other",
}
_PREPARED = 128  # bytes for each nonzero while a kernel makes its tables: mostly 50 to 100


class LandmarkMap(SampleMap):
    """Base of maps by kernel values with landmarks: how landmarks are chosen, kept and stored.

    A subclass has the parameters `kernel`, `selection`, `n_candidates` and `random_state`, says how many
    landmarks it wants, and makes features from kernel values.
    """

    kept_rows = "landmarks"
    landmarks_: sp.csr_matrix

    _number: ClassVar[str]
    """The parameter that sets the number of landmarks, for error messages."""

    kernel: Kernel
    selection: str
    n_candidates: int | None

    @abstractmethod
    def landmarks_wanted(self) -> int:
        """Return how many landmarks are wanted; parameters may still be bad."""

    @property
    def kernel_(self) -> Kernel:
        """The kernel between rows and landmarks."""
        return self.kernel

    @property
    def projected_kernel(self) -> Kernel:
        return self.kernel

    @property
    def selection_words(self) -> str:
        """How landmarks are chosen."""
        return _CHOSEN.get(self.selection, self.selection)

    def sample_size(self, n_rows: int) -> int:
        """Return how many random rows to choose landmarks from, with spares for duplicates."""
        self._check_parameters()
        wanted = 2 * self.landmarks_wanted() if self.selection == "random" else self._most_candidates()
        return min(n_rows, wanted)

    def fit_bytes(self, n_nonzeros: float) -> int:
        """Return the bytes that it takes to choose from the sample by a kernel; see `FeatureMap`."""
        # The candidates prepared, or half of what each round makes of them, and a second block of values.
        return 0 if self.selection == "random" else int(_PREPARED * n_nonzeros) // 2 + 2**26

    def table_bytes(self, n_columns: int) -> int:
        """Return the bytes of landmarks as kernels prepare them, once there are any; see `FeatureMap`."""
        return _PREPARED * self.landmarks_.nnz if self.is_fitted() else 0

    def _choose(self, X: MatrixLike) -> sp.csr_matrix:
        """Return landmarks from the rows of `X`: as many as wanted, or all different rows."""
        n_landmarks, seed = self.landmarks_wanted(), self.seed_
        csr = check_finite(as_csr(X))
        if csr.shape[0]:
            self.kernel.against(csr[:1])(csr)  # refuses rows it cannot serve, with their number in X
        order = np.argsort(seeds.words(seed, "landmarks/order", csr.shape[0]), kind="stable")
        if self.selection == "random":
            limit = n_landmarks
        else:
            order, limit = order[: self._most_candidates()], None
        candidates = distinct_rows(csr, order, limit)
        if len(candidates) <= n_landmarks:
            return csr[candidates]
        return SELECTIONS[self.selection](csr[candidates], n_landmarks, self.kernel)

    def cautions(self) -> list[str]:
        """Return a warning if there are fewer landmarks than requested."""
        there, wanted = (self.landmarks_.shape[0] if self.is_fitted() else 0), self.landmarks_wanted()
        if not self.is_fitted() or there >= wanted:
            return []
        return [f"there are {there:,} landmarks, not {wanted:,}: the sample has no more distinct rows"]

    @property
    def smaller(self) -> tuple[str, int, Callable[[int], Self]]:
        return "landmarks", self.landmarks_wanted(), self.with_landmarks

    def with_landmarks(self, n: int) -> Self:
        """Return an unfitted copy with `n` landmarks, and at most as many features."""
        fewer = {"n_components": min(n, self.n_components), self._number: n}
        return clone(self).set_params(**fewer)

    def _keep(self, rows: sp.csr_matrix, text: dict[str, Any] | None = None) -> None:
        super()._keep(rows, text)
        self._wanted = self.landmarks_wanted()
        self._prepared = None

    def _against_landmarks(self) -> Prepared:
        """Return the function X -> k(X, Z), prepared once for each object and kernel."""
        self._check_fitted()
        wanted = self.landmarks_wanted()
        if self._wanted != wanted:
            raise InputError(
                f"{self._number} is {wanted}, but was {self._wanted} at the last fit: call fit again."
            )
        return self._made_for("_prepared", self.kernel, self._prepare)

    def _prepare(self) -> Prepared:
        return self.kernel.against(self.landmarks_)

    def _most_candidates(self) -> int:
        if self.n_candidates is None:
            return max(_MANY_CANDIDATES, 4 * self.landmarks_wanted())
        return self.n_candidates

    def _check_parameters(self) -> None:
        super()._check_parameters()
        n_landmarks = self.landmarks_wanted()
        if not isinstance(self.kernel, Kernel):
            raise InputError(f"kernel must be a kernel of daskrf.kernels, not {self.kernel!r}.")
        n = self.n_candidates
        if n is not None and (isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < n_landmarks):
            raise InputError(
                f"n_candidates must be an integer of at least {self._number} = {n_landmarks}, not {n!r}."
            )


@dataclass(eq=False, repr=False)
class LandmarkFeatures(LandmarkMap):
    """Features phi(x) = k(Z, x), with landmarks Z: M rows chosen from the library.

    Their Gaussian weights have the prior precision K_ZZ = k(Z, Z) instead of the identity. They therefore
    stand for the kernel phi(x)^T K_ZZ^-1 phi(x'), the Nystroem approximation of k, which is exact at the
    landmarks. The model for them is `daskrf.gp.SparseGP`. `NystromFeatures` have the whitening built in and
    work with every model.

    Parameters
    ----------
    n_components : int, default 1024
        Number M of landmarks.
    kernel : Kernel, default TanimotoMinMax()
        Any kernel with k(x, x) = 1.
    selection : {"random", "kmedoids", "kmeans", "farthest"}
        random: distinct rows at random. kmedoids: M clusters of candidates by the kernel, with actual rows as
        centres (Park & Jun 2009, the kernel being the similarity). kmeans: the means of M clusters by
        Euclidean distance; these are not actual rows, have every feature that any of their members has, and
        suit kernels of the distance (Zhang, Tsang & Kwok 2008). farthest: each landmark is the candidate
        farthest from those before it, in the metric of the kernel (Gonzalez 1985).
    n_candidates : int, optional
        Most rows to choose from, for all selections but "random"; from a larger library, a random sample is
        taken. Default: the larger of 20,000 and 4 M.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    landmarks_ : CSR matrix of uint16 or float64, shape (n_landmarks, d)
        n_landmarks is n_components, or the number of distinct rows if that is less.
    n_features_in_ : int
        Number of columns that `fit` saw.

    Notes
    -----
    Source: Williams & Seeger 2001 (Nystroem features); Quinonero-Candela & Rasmussen 2005 (their use in a
    Gaussian process). The random landmarks of a smaller map are the first ones of a larger map.

    Examples
    --------
    >>> X = np.array([[2, 0, 1], [1, 1, 1], [0, 5, 0]])
    >>> landmarks = LandmarkFeatures(3).fit(X)
    >>> sorted(landmarks.transform(X[:1])[0].tolist())
    [0.0, 0.5, 1.0]
    """

    facts = MapFacts(
        name="landmarks",
        kernel="T, any k with k(x, x) = 1",
        rows="as the kernel",
        features="floats",
        cost="z M",
        holds="M rows",
        learns="M rows, the landmarks",
        reference="Williams & Seeger 2001; Seeger, Williams & Lawrence 2003",
        use="the sparse Gaussian process: the same means and error bars as nystrom, faster to fit",
        example="-M 2048 --selection random",
    )

    gram_precision = "double"
    process = "sparse"
    _number = "n_components"

    n_components: int = 1024
    _: KW_ONLY
    kernel: Kernel = TanimotoMinMax()  # noqa: RUF009, kernels are immutable
    selection: Literal["random", "kmedoids", "kmeans", "farthest"] = "random"
    n_candidates: int | None = None
    random_state: RandomState = 0

    def landmarks_wanted(self) -> int:
        return self.n_components

    @property
    def n_filled(self) -> int:
        return self.landmarks_.shape[0] if self.is_fitted() else self.n_components

    def words(self) -> str:
        fewer = f", of which {self.n_filled:,} are filled" if self.n_filled < self.n_components else ""
        return (
            f"{self.kernel.words()} similarities to molecules of the library chosen {self.selection_words} "
            f"(landmarks), {self.size_words}{fewer}"
        )

    def _fit(self, X: MatrixLike) -> None:
        chosen = self._choose(X)
        if not np.allclose(self.kernel.diag(chosen), 1.0, rtol=0.0, atol=1e-9):
            raise InputError(
                f"landmarks need a kernel with k(x, x) = 1, unlike {self.kernel!r}: choose another, "
                "normalize it (--normalize), or use NystromFeatures (--map nystrom)."
            )
        self._keep(compact(chosen))

    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        """Return the kernel of each row of `X` with the landmarks; columns beyond the last one are 0."""
        prepared, csr = self._against_landmarks(), as_csr(X)
        values, n_landmarks = prepared(csr, dtype=np.float32), self.landmarks_.shape[0]
        if n_landmarks == self.n_components:
            return values
        features = np.zeros((csr.shape[0], self.n_components), np.float32)
        features[:, :n_landmarks] = values
        return features

    def prior_precision(self) -> npt.NDArray[np.float64]:
        """Return K_ZZ, the kernel among the landmarks: float64 of shape (n_components, n_components).

        If there are fewer landmarks, the columns that are 0 get those of the identity matrix.

        Raises
        ------
        InputError
            If the map is not fitted.
        """
        prepared, precision = self._against_landmarks(), np.eye(self.n_components)
        n_landmarks = self.landmarks_.shape[0]
        precision[:n_landmarks, :n_landmarks] = prepared(self.landmarks_)
        return precision
