"""Features of folded fingerprints, made from unfolded ones: rows are folded as they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import MatrixLike, shape_of
from daskrf.errors import InputError
from daskrf.estimators import clone
from daskrf.features.featuremap import FeatureMap, from_state, resized
from daskrf.features.minmax import TanimotoMinMaxFeatures
from daskrf.kernels.folding import Folded, check_size, folded_columns, folded_rows
from daskrf.kernels.kernel import Kernel
from daskrf.seeds import RandomState


@dataclass(eq=False, repr=False)
class FoldedFeatures(FeatureMap):
    """Features by another map of fingerprints that are folded first; see `daskrf.kernels.Folded`.

    Some maps take only some thousand columns; unfolded fingerprints have 2**32 for each kind. `featurize` and
    `fit` make this map where it is needed. Models and feature stores keep it in place of the map itself, and
    fold the molecules to be predicted in the same way.

    Parameters
    ----------
    inner : FeatureMap, optional
        The map. Its own number of features and seed are ignored. It may not be one with a Gaussian process
        of its own, such as `LandmarkFeatures`: those take unfolded fingerprints. In Python
        ``TanimotoMinMaxFeatures()`` by default.
    size : int, default 2048
        Number of columns that each kind of fingerprint is folded to.
    hashed : sequence of int, default ()
        Positions of kinds that are hashed before they are folded, from 0: LINGOs and atom pairs.
    binary : bool, default False
        Whether fingerprints are binary (0 or 1), before and after folding.
    n_components : int, default 4096
        Number M of features.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    inner_ : FeatureMap
        The fitted inner map; absent if it learns nothing.
    n_features_in_ : int
        Number of unfolded columns that `fit` saw; absent if it saw none.

    Examples
    --------
    >>> from daskrf import FastfoodFeatures, FingerprintSpec, Gaussian
    >>> from daskrf.molecules import Fingerprinter
    >>> smiles = ["CCO", "CCN", "c1ccccc1"]
    >>> X, Y = (Fingerprinter(FingerprintSpec("morgan", size=size))(smiles).fingerprints for size in (0, 512))
    >>> fastfood = FastfoodFeatures(Gaussian(4.0), 256)
    >>> Phi = FoldedFeatures(fastfood, 512, n_components=256).fit_transform(X)
    >>> np.array_equal(Phi, fastfood.fit_transform(Y))
    True
    """

    inner: FeatureMap | None = None
    size: int = 2048
    hashed: Sequence[int] = ()
    binary: bool = False
    n_components: int = 4096
    _: KW_ONLY
    random_state: RandomState = 0

    @classmethod
    def of(
        cls, feature_map: FeatureMap, size: int, hashed: Sequence[int] = (), binary: bool = False
    ) -> FoldedFeatures:
        """Return a map, of fingerprints that are folded first."""
        inner = feature_map.for_folded(size)
        return cls(
            inner,
            size,
            tuple(hashed),
            binary,
            feature_map.n_components,
            random_state=getattr(feature_map, "random_state", 0),
        )

    def words(self) -> str:
        return f"fingerprints folded to {self.size:,} columns a kind, then {self._current.words()}"

    @property
    def learns_from(self) -> Literal["nothing", "summary", "sample"]:  # type: ignore[override]
        """What the inner map learns from."""
        return self._current.learns_from

    @property
    def gram_precision(self) -> Literal["single", "double"]:  # type: ignore[override]
        """Precision that the inner map needs."""
        return self._current.gram_precision

    @property
    def composed_width(self) -> int:  # type: ignore[override]
        """That of the inner map."""
        return self._current.composed_width

    @property
    def seconds_per_component(self) -> float:
        return self._current.seconds_per_component

    @property
    def one_bit(self) -> bool:
        """True if the inner map has bits."""
        return self._current.one_bit

    @property
    def kernel_(self) -> Folded:
        return self._folded(self._current.kernel_)

    @property
    def projected_kernel(self) -> Kernel | None:
        kernel = self._current.projected_kernel
        return None if kernel is None else self._folded(kernel)

    @property
    def smaller(self) -> tuple[str, int, Callable[[int], Self]] | None:
        smaller = self._current.smaller
        if smaller is None:
            return None
        what, number, with_number = smaller

        return what, number, lambda n: clone(self).set_params(inner=with_number(n))

    @property
    def n_filled(self) -> int:
        return self._current.n_filled

    def _folded(self, kernel: Kernel) -> Folded:
        return Folded(kernel, self.size, tuple(self.hashed), self.binary)

    def cautions(self) -> list[str]:
        return self._current.cautions()

    def check_dtype(self, dtype: str) -> None:
        self._current.check_dtype(dtype)

    def check_columns(self, n_columns: int) -> None:
        """Raise InputError if the rows are not unfolded, or the inner map refuses the folded columns."""
        self._current.check_columns(folded_columns(n_columns, self.size))

    def table_bytes(self, n_columns: int) -> int:
        return self._current.table_bytes(folded_columns(n_columns, self.size))

    def fit_bytes(self, n_nonzeros: float) -> int:
        return self._current.fit_bytes(n_nonzeros)

    def sample_size(self, n_rows: int) -> int:
        return self._current.sample_size(n_rows)

    def is_fitted(self) -> bool:
        """Tell whether the inner map is fitted."""
        return self._current.is_fitted()

    def fit(self, X: MatrixLike | None = None, y: object = None) -> Self:
        if X is None or self.learns_from != "sample":
            return super().fit(X, y)
        self.check_columns(shape_of(X)[1])
        self.inner_ = clone(self._sized).fit(self.folded(X))
        return self

    def summarize(self, X: MatrixLike) -> dict[str, object]:
        """Return what the inner map needs to know about the folded rows of `X`."""
        summary = super().summarize(X)
        if self.learns_from == "nothing":
            return summary
        return {**summary, "inner": self._sized.summarize(self.folded(X))}

    def _learn(self, parts: list[dict[str, Any]]) -> None:
        self.__dict__.pop("inner_", None)
        if parts and self.learns_from != "nothing":
            self.inner_ = clone(self._sized).fit_summaries([summary["inner"] for summary in parts])

    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        return self._current.transform(self.folded(X))

    def transform_nearest(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        return self._current.transform_nearest(self.folded(X))

    def transform_bits(self, X: MatrixLike) -> npt.NDArray[np.uint8]:
        return self._current.transform_bits(self.folded(X))

    def folded(self, X: MatrixLike) -> sp.csr_matrix:
        """Return the folded rows of `X`."""
        return folded_rows(X, self.size, self.hashed, self.binary)

    @property
    def folded_map(self) -> FeatureMap:
        """The map of folded rows, fitted if it was."""
        return self._current

    @property
    def _sized(self) -> FeatureMap:
        """The parameter `inner` with the number of features and the seed of this map."""
        inner = TanimotoMinMaxFeatures() if self.inner is None else self.inner
        size = int(self.n_components), self.seed_
        if (inner.n_components, inner.seed_) == size:
            return inner
        return self._made_for(
            "_made", (inner.state(), size), lambda: resized(inner, *size)
        )  # with its tables

    @property
    def _current(self) -> FeatureMap:
        """The fitted inner map, or the parameter if it is not fitted or has been changed."""
        inner, fitted = self._sized, getattr(self, "inner_", None)
        if fitted is None or type(fitted) is not type(inner):
            return inner
        return fitted if fitted.state()["parameters"] == inner.state()["parameters"] else inner

    def _fitted_state(self) -> dict[str, object]:
        state, inner = super()._fitted_state(), self._current
        return {**state, "inner": inner.state()} if inner is getattr(self, "inner_", None) else state

    def _restore(self, fitted: dict[str, Any]) -> None:
        super()._restore(fitted)
        if "inner" in fitted:
            self.inner_ = from_state(fitted["inner"])

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_size(self.size)
        if self.inner is None:
            return
        if not isinstance(self.inner, FeatureMap) or isinstance(self.inner, FoldedFeatures):
            raise InputError(f"inner must be a feature map that does not fold by itself, not {self.inner!r}.")
        if self.inner.process != FeatureMap.process:
            raise InputError(
                f"{type(self.inner).__name__} is not a map for folded fingerprints: it takes unfolded ones "
                "as they are; leave out the fold."
            )
        self._sized._check_parameters()
