"""Random features of compositional kernels f(K) over any feature map of K."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import MatrixLike, as_rows, row_slice, unpack_bits
from daskrf.errors import InputError, counted_from
from daskrf.estimators import clone
from daskrf.features.featuremap import FeatureMap, MapFacts, from_state, resized, same_but_for_size
from daskrf.features.maclaurin import degree_measure, draw_degrees
from daskrf.features.minmax import TanimotoMinMaxFeatures
from daskrf.features.sketches.hashing import TanimotoParities
from daskrf.features.sketches.projections import refuse_overflow
from daskrf.kernels.composition import Composition
from daskrf.kernels.powerseries import DotProductKernel, Polynomial
from daskrf.seeds import RandomState

_STEP = 64
"""Features of an inner map are made in multiples of this number: some maps cannot make only a few."""

_ENTRIES = 1 << 21
"""Features of a part of the rows. Inner maps make as many for each factor, and hold them three times."""


class _Layer(NamedTuple):
    """An inner map, and which of its features are factors of which features of the composition."""

    feature_map: FeatureMap
    places: npt.NDArray[np.int64]
    columns: slice


@dataclass(eq=False, repr=False)
class CompositionFeatures(FeatureMap):
    """Features whose inner product is an unbiased estimate of f(K(x, y)) / f(1), made from features of K.

    A feature of degree N is a weight times a product of N features, one from each of N independent maps of K.
    Degrees are drawn with the odds q_n = a_n / f(1), so that with features of +1 and -1 all weights are
    equal. From one-bit features of T this gives a one-bit map, whose bits are XORs, with the variance (1 -
    k^2) / M. The first features of a larger one-bit map are those of a smaller one with the same seed.

    Parameters
    ----------
    outer : DotProductKernel, default Polynomial(2, c=0)
        The series f: `Polynomial`, `Exponential`, `Ratio` or `DotProduct`, without `normalize`.
    inner : FeatureMap, optional
        Any map of random features that is not fitted to a sample; its own number of features and seed are
        ignored. In Python ``TanimotoMinMaxFeatures()`` by default.
    n_components : int, default 4096
        Number M of features.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    inner_ : FeatureMap
        The fitted inner map; absent if it learns nothing. If you set another `inner`, fit again.
    n_features_in_ : int
        Number of columns that `fit` saw; absent if it saw none.

    Notes
    -----
    Source: Kar & Karnick 2012, section 6 and supplement, algorithm 1. The n-th factors of all features come
    from one map of K, with a seed of its own and as many features as need such a factor. They are assigned at
    random, so that the expectation of each product is right even if the features of a map are not alike.
    `TanimotoDotProductFeatures` has one map for every 64 features: in a larger one most features of a row are
    close to 0 and few are large, and the error of their products did not fall with M. The features
    approximate the kernel f(`inner.kernel_`) / f(1).

    Examples
    --------
    >>> import numpy as np
    >>> from daskrf.features import TanimotoDotProductFeatures
    >>> X = np.array([[2, 0, 1], [2, 0, 1], [0, 5, 0]])
    >>> inner = TanimotoDotProductFeatures(bias_correction="normalize")
    >>> Phi = CompositionFeatures(Polynomial(2), inner, 2000).fit_transform(X)
    >>> np.abs(Phi @ Phi.T - [[1, 1, 0.25], [1, 1, 0.25], [0.25, 0.25, 1]]).max() < 0.3
    np.True_
    """

    facts = MapFacts(
        name="composition",
        kernel="power series of any map's",
        rows="as inner map",
        features="bits or floats",
        cost="N inner",
        holds="N inner",
        learns="what the inner map learns",
        reference="Kar & Karnick 2012, supplement, algorithm 1",
        use=(
            "for a similarity that falls off faster than another map's; over minmax (one-bit) it never beat "
            "plain Tanimoto in our docking tests; over dot-product it is about 50 times slower than that map "
            "alone"
        ),
        example="--outer exponential --gamma 2 --inner minmax",
    )

    state_version: ClassVar[int] = 2

    outer: DotProductKernel = Polynomial(2, c=0.0)  # noqa: RUF009, kernels are immutable
    inner: FeatureMap | None = None
    n_components: int = 4096
    _: KW_ONLY
    random_state: RandomState = 0

    def words(self) -> str:
        bits, hashing = self.one_bit, self._parity_hashing()
        how = ", by consistent weighted sampling" if hashing == "cws" else ""
        return (
            f"{'one-bit ' if bits else ''}features of k = f(K)/f(1), f(K) = {self.outer.series_words('K')}, "
            f"K by {type(self._inner).__name__}{how}, {self.size_words}"
            f"{': unbiased, variance (1 - k^2)/M' if bits else ''}"
        )

    @property
    def learns_from(self) -> Literal["nothing", "summary", "sample"]:  # type: ignore[override]
        """What the inner map learns from."""
        return self._inner.learns_from

    @property
    def seconds_per_component(self) -> float:
        odds = self.outer.probabilities()
        width = min(self.n_components, self._inner.composed_width)
        one = clone(self._inner).set_params(n_components=width).seconds_per_component
        return one * max(1.0, float(odds @ np.arange(odds.size)))

    @property
    def one_bit(self) -> bool:
        """True if the inner map has one-bit features of T."""
        return self._parity_hashing() is not None

    @property
    def kernel_(self) -> Composition:
        return Composition(self.outer, self._current().kernel_)

    def is_fitted(self) -> bool:
        """Tell whether the inner map is fitted."""
        return self._current().is_fitted()

    def fit(self, X: MatrixLike | None = None, y: object = None) -> Self:
        """Fit a copy of the inner map to the rows of `X`, shape (n, d). None keeps what is known.

        Raises
        ------
        InputError
            If a parameter is out of range, or the inner map refuses `X` or so few features.
        """
        self._check_layers()
        if X is not None:
            self._take(clone(self._inner).fit(X))
        return self

    def check_columns(self, n_columns: int) -> None:
        """Raise InputError if an inner map cannot serve rows of `n_columns` columns."""
        self._check_layers(n_columns)

    def summarize(self, X: MatrixLike) -> dict[str, object]:
        """Return what the inner map needs to know about the rows of `X`."""
        self._check_parameters()
        return self._inner.summarize(X)

    def _learn(self, parts: list[dict[str, Any]]) -> None:
        self._take(clone(self._inner).fit_summaries(parts))

    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        n_components = self.n_components
        if self.one_bit:
            signs = unpack_bits(self.transform_bits(X), n_components)
            signs *= np.float32(1.0 / np.sqrt(n_components))
            return signs
        weights, layers = self._layers()
        rows = as_rows(X)
        features = np.empty((rows.shape[0], n_components), np.float32)
        features[:] = weights
        size = max(1, _ENTRIES // n_components)
        for start in range(0, max(1, len(features)), size):
            stop = start + size
            target = features[start:stop]
            chunk = row_slice(rows, start, stop)
            for layer in layers:
                with counted_from(start, 0):
                    factor = layer.feature_map.transform(chunk)
                scale = np.float32(np.sqrt(factor.shape[1]))
                with np.errstate(over="ignore", invalid="ignore"):
                    target[:, layer.columns] *= factor[:, layer.places] * scale
        refuse_overflow(features, "use an inner map with smaller features")
        return features

    def transform_bits(self, X: MatrixLike) -> npt.NDArray[np.uint8]:
        if not self.one_bit:
            return super().transform_bits(X)
        return self._parities().bits(X)

    def degrees(self) -> npt.NDArray[np.int64]:
        """Return the degree of each feature: the number of inner features that it is the product of.

        Returns
        -------
        int64 array, shape (n_components,)

        Raises
        ------
        InputError
            If a parameter is bad.
        """
        self._check_parameters()
        return self._parities().degrees if self.one_bit else self._drawn()[0]

    def table_bytes(self, n_columns: int) -> int:
        """Return the bytes of the tables of all inner maps; see `FeatureMap`."""
        if self.one_bit:
            return 0
        return sum(layer.feature_map.table_bytes(n_columns) for layer in self._layers()[1])

    def _parity_hashing(self) -> str | None:
        """Return how the bits of T are hashed if the inner map has such bits, else None."""
        inner = self._inner
        return inner.hashing if isinstance(inner, TanimotoMinMaxFeatures) and inner.one_bit else None

    def _parities(self) -> TanimotoParities:
        hashing = cast(str, self._parity_hashing())
        return TanimotoParities(self.outer.probabilities(), hashing, int(self.n_components), self.seed_)

    def _drawn(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Return the degrees of dense features, and the squared weight of a feature of each degree."""
        size = int(self.n_components)
        coefficients, odds = degree_measure(self.outer, "proportional")
        degrees = draw_degrees(odds, size, int(seeds.words(self.seed_, "composition/degrees", 1)[0]))
        return degrees, coefficients / odds.clip(min=1e-300) / self.outer.of_products(np.ones(1)) / size

    def _layers(self) -> tuple[npt.NDArray[np.float32], list[_Layer]]:
        """Return the features' weights and the inner maps of each factor, made once for each object."""
        inner = self._current()
        return self._once(lambda: self._made_layers(inner), inner.state())

    def _made_layers(self, inner: FeatureMap) -> tuple[npt.NDArray[np.float32], list[_Layer]]:
        seed = self.seed_
        degrees, scale = self._drawn()
        layers = []
        for j in range(int(degrees[0])):
            count = int(np.count_nonzero(degrees > j))
            for first in range(0, count, inner.composed_width):
                size = min(inner.composed_width, count - first)
                name = f"{j}/{first}" if first else str(j)
                width = -(-size // _STEP) * _STEP
                own_map = resized(inner, width, seeds.key(seed, f"composition/{name}") >> 1)
                words = seeds.words(seed, f"composition/places/{name}", width)
                places = np.argsort(words, kind="stable")[:size]
                layers.append(_Layer(own_map, places, slice(first, first + size)))
        return np.sqrt(scale[degrees]).astype(np.float32), layers

    def _check_layers(self, n_columns: int | None = None) -> None:
        """Raise InputError if an inner map cannot have this many features, or serve `n_columns` columns."""
        if self.one_bit:
            return
        by_size = {layer.feature_map.n_components: layer.feature_map for layer in self._layers()[1]}
        for size, feature_map in by_size.items():
            try:
                clone(feature_map).fit(None)
            except InputError as error:
                reason = str(error).partition(";")[0].rstrip(".")
                raise InputError(
                    f"Factors come from inner maps of {size:,} features each, but the inner map cannot have "
                    f"so few ({reason}); change its parameters."
                ) from None
            if n_columns is not None:
                feature_map.check_columns(n_columns)

    def _current(self) -> FeatureMap:
        """Return the fitted inner map, or the parameter itself if it is not fitted or has been changed."""
        fitted = getattr(self, "inner_", None)
        return self._inner if fitted is None or not same_but_for_size(fitted, self._inner) else fitted

    @property
    def _inner(self) -> FeatureMap:
        # A new object, because `set_params` may change it: all objects share a default.
        return TanimotoMinMaxFeatures() if self.inner is None else self.inner

    def _take(self, fitted: FeatureMap) -> None:
        for name in ("inner_", "n_features_in_"):  # they belong to another inner map
            self.__dict__.pop(name, None)
        # If nothing was learned, use the parameter itself: otherwise the same map would have two states.
        if fitted.learns_from != "nothing":
            self.inner_ = fitted
        if hasattr(fitted, "n_features_in_"):
            self.n_features_in_ = fitted.n_features_in_

    def _fitted_state(self) -> dict[str, object]:
        state, inner = super()._fitted_state(), self._current()
        return {**state, "inner": inner.state()} if inner is getattr(self, "inner_", None) else state

    def _restore(self, fitted: dict[str, Any]) -> None:
        if "n_features_in" in fitted:
            self.n_features_in_ = fitted["n_features_in"]
        if "inner" in fitted:
            self._take(from_state(fitted["inner"]))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.outer, DotProductKernel):
            raise InputError(f"outer must be a Polynomial, Exponential or DotProduct, not {self.outer!r}.")
        if self.outer.normalize:
            raise InputError(
                f"outer is a power series of the inner map's kernel, not of rows: normalize=True means "
                f"nothing in {self.outer!r}; leave it out."
            )
        if not isinstance(self._inner, FeatureMap):
            raise InputError(f"inner must be a feature map of daskrf.features, not {self.inner!r}.")
        if self._inner.learns_from == "sample":
            raise InputError(
                "inner must be a map of random features, which a seed determines; "
                f"{type(self.inner).__name__} is fitted to a sample."
            )
        if self._inner.learns_from == "nothing":
            clone(self._inner).fit(None)
