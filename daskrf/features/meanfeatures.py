"""Random features of weighted means of kernels, each with its own columns, as for several fingerprints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import MatrixLike, as_csr, column_slice, n_bytes, row_slice, unpack_bits
from daskrf.errors import InputError, counted_from
from daskrf.estimators import clone
from daskrf.features.featuremap import FeatureMap, MapFacts, from_state, resized, same_but_for_size
from daskrf.features.minmax import TanimotoMinMaxFeatures
from daskrf.kernels.folding import UNFOLDED
from daskrf.kernels.kernel import Kernel
from daskrf.kernels.weightedmean import Columns, Mean, as_weights, column_ranges, kernel_on_first
from daskrf.parameters import REQUIRED
from daskrf.seeds import RandomState

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio
_ENTRIES = 1 << 21  # features in a part of the rows


class _Term(NamedTuple):
    """The features of one term: the columns its map sees, its weight, and the places of its features."""

    feature_map: FeatureMap
    columns: tuple[int, int]
    scale: np.float32
    places: npt.NDArray[np.int64]


@dataclass(eq=False, repr=False)
class MeanFeatures(FeatureMap):
    """Features whose inner product is an unbiased estimate of a weighted mean of kernels; see `Mean`.

    It serves several fingerprints side by side in a row, each of which gets some of the features. If all
    inner maps have bits, each group of eight bits belongs to one fingerprint, with the weights as odds. The
    groups are spread evenly (by multiples of the golden ratio from a random start): M_i of M features belong
    to fingerprint i, and the variance is sum_i M_i / M^2 (1 - T_i^2), which is less than (1 - k^2) / M.
    Floats come in blocks, scaled by the square root of the weight. Maps of bits mixed with maps of floats
    give floats.

    Parameters
    ----------
    weights : sequence of float, default (1, 1)
        Weights w_i, at least 0 and not all of them 0, in the order of the columns.
    inner : FeatureMap or tuple of FeatureMap, optional
        A map of random features for each term's kernel; a single map is used for all terms. Their own
        numbers of features and seeds are ignored. In Python ``TanimotoMinMaxFeatures()`` by default.
    columns : int, tuple of (int, int), or None, default 2**32
        As in `Mean`: how many columns each kind of fingerprint has; 2**32 if unfolded.
    n_components : int, default 4096
        Number M of features. The first bits of a larger map are those of a smaller one with the same seed.
    random_state : int, RandomState, Generator or None, default 0
        Seed of every random number of the map, or what `fit` draws it from.

    Attributes
    ----------
    inner_ : tuple of FeatureMap
        The fitted inner maps; absent if all of them learn nothing.
    n_features_in_ : int
        Number of columns that `fit` saw; absent if it saw none.

    Examples
    --------
    >>> X = np.array([[2, 0, 1, 1], [2, 0, 1, 0], [0, 5, 0, 1]])
    >>> Phi = MeanFeatures((3, 1), columns=2, n_components=4000).fit_transform(X)
    >>> np.abs(Phi @ Phi.T - Mean((3, 1), columns=2)(X)).max() < 0.1
    np.True_
    """

    facts = MapFacts(
        name="mean",
        kernel="weighted mean of any maps'",
        rows="as inner maps",
        features="bits or floats",
        cost="inner",
        holds="inner",
        learns="what the inner maps learn",
        reference="Tripp et al. 2023, section 3, for each kind",
        use="for several kinds of fingerprints in one store, with a weight for each, in the order in which "
        "daskrf status lists them",
        example="--weights 0.6,0.4",
    )
    option_defaults: ClassVar[dict[str, object]] = {"weights": REQUIRED}

    weights: Sequence[float] = (1.0, 1.0)
    inner: FeatureMap | tuple[FeatureMap, ...] | None = None
    columns: Columns = 2**32
    n_components: int = 4096
    _: KW_ONLY
    random_state: RandomState = 0

    def words(self) -> str:
        return (
            f"{'one-bit ' if self.one_bit else ''}features of the {self.kernel_.words()}, {self.size_words}"
        )

    @property
    def learns_from(self) -> Literal["nothing", "summary", "sample"]:  # type: ignore[override]
        """A summary if an inner map learns from one, else nothing."""
        return "summary" if any(each.learns_from != "nothing" for each in self._inner) else "nothing"

    @property
    def seconds_per_component(self) -> float:
        return max(each.seconds_per_component for each in self._inner)

    @property
    def one_bit(self) -> bool:
        """True if all inner maps with a weight have bits."""
        weights = as_weights(self.weights)
        return all(each.one_bit for weight, each in zip(weights, self._inner, strict=False) if weight)

    @property
    def kernel_(self) -> Mean:
        return Mean(self.weights, tuple(each.kernel_ for each in self._current), self.columns)

    def is_fitted(self) -> bool:
        """Tell whether all inner maps are fitted."""
        return all(each.is_fitted() for each in self._current)

    def check_columns(self, n_columns: int) -> None:
        """Raise InputError if there is not one weight for each kind, or an inner map refuses its columns."""
        for term in self._made_terms(n_columns):
            term.feature_map._check_parameters()
            term.feature_map.check_columns(term.columns[1] - term.columns[0])

    def for_folded(self, size: int) -> MeanFeatures:
        """Return this mean with `size` columns for each kind in place of those of unfolded ones."""
        if self.columns == UNFOLDED:
            return clone(self).set_params(columns=size)
        if not isinstance(self.columns, (tuple, list)) or any(
            at % UNFOLDED for bounds in self.columns for at in bounds
        ):
            return self
        folded = tuple((start // UNFOLDED * size, stop // UNFOLDED * size) for start, stop in self.columns)
        return clone(self).set_params(columns=folded)

    def summarize(self, X: MatrixLike) -> dict[str, object]:
        """Return what each inner map needs to know about its columns of the rows of `X`."""
        summary = super().summarize(X)
        if self.learns_from == "nothing":
            return summary
        return {
            **summary,
            "terms": [each.summarize(chunk) for each, chunk in zip(self._inner, self._parts(X), strict=True)],
        }

    def _learn(self, parts: list[dict[str, Any]]) -> None:
        self.__dict__.pop("inner_", None)
        if self.learns_from != "nothing":
            terms = zip(*(summary["terms"] for summary in parts), strict=True)
            self.inner_ = tuple(
                clone(each).fit_summaries(list(term)) for each, term in zip(self._inner, terms, strict=True)
            )

    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        size = int(self.n_components)
        if self.one_bit:
            signs = unpack_bits(self.transform_bits(X), size)
            signs *= np.float32(1.0 / np.sqrt(size))
            return signs
        rows = as_csr(X)
        features = np.empty((rows.shape[0], size), np.float32)
        step = max(1, _ENTRIES // size)
        for start in range(0, max(1, len(features)), step):
            chunk = row_slice(rows, start, min(start + step, len(features)))
            for term in self._terms(rows.shape[1]):
                with counted_from(start, term.columns[0]):
                    values = term.feature_map.transform(column_slice(chunk, *term.columns))
                features[start : start + step, term.places[0] : term.places[-1] + 1] = values * term.scale
        return features

    def transform_bits(self, X: MatrixLike) -> npt.NDArray[np.uint8]:
        if not self.one_bit:
            return super().transform_bits(X)
        rows = as_csr(X)
        bits = np.empty((rows.shape[0], n_bytes(self.n_components)), np.uint8)
        for term in self._terms(rows.shape[1]):
            with counted_from(0, term.columns[0]):
                bits[:, term.places] = term.feature_map.transform_bits(column_slice(rows, *term.columns))
        if spare := -int(self.n_components) % 8:
            bits[:, -1] &= np.uint8(0xFF >> spare)
        return bits

    def table_bytes(self, n_columns: int) -> int:
        """Return the bytes of the tables of all inner maps; see `FeatureMap`."""
        return sum(
            term.feature_map.table_bytes(term.columns[1] - term.columns[0]) for term in self._terms(n_columns)
        )

    def _terms(self, n_columns: int) -> list[_Term]:
        """Return the terms that have features; made once for each object."""
        return self._once(
            lambda: self._made_terms(n_columns), n_columns, [each.state() for each in self._current]
        )

    def _made_terms(self, n_columns: int) -> list[_Term]:
        size, shares, terms = int(self.n_components), self.kernel_.shares, []
        places = _bytes_of(shares, n_bytes(size), self.seed_) if self.one_bit else _blocks_of(shares, size)
        for i, (inner, columns) in enumerate(zip(self._current, self._ranges(n_columns), strict=True)):
            width = places[i].size * (8 if self.one_bit else 1)
            if width:
                feature_map = resized(inner, width, seeds.key(self.seed_, f"mean/{i}") >> 1)
                terms.append(_Term(feature_map, columns, np.float32(shares[i] ** 0.5), places[i]))
        return terms

    def _parts(self, X: MatrixLike) -> list[Any]:
        rows = as_csr(X)
        return [column_slice(rows, *bounds) for bounds in self._ranges(rows.shape[1])]

    def _ranges(self, n_columns: int | None) -> list[tuple[int, int]]:
        return column_ranges(self.columns, len(self._inner), n_columns)

    @property
    def _inner(self) -> tuple[FeatureMap, ...]:
        if isinstance(self.inner, (tuple, list)):
            return tuple(self.inner)
        return (TanimotoMinMaxFeatures() if self.inner is None else self.inner,) * len(
            as_weights(self.weights)
        )

    @property
    def _current(self) -> tuple[FeatureMap, ...]:
        """The fitted inner maps, or the parameter if they are not fitted or it has been changed."""
        fitted, inner = getattr(self, "inner_", ()), self._inner
        same = len(fitted) == len(inner) and all(map(same_but_for_size, fitted, inner))
        return fitted if same else inner

    def _fitted_state(self) -> dict[str, object]:
        state, inner = super()._fitted_state(), self._current
        return (
            {**state, "inner": [each.state() for each in inner]}
            if inner is getattr(self, "inner_", None)
            else state
        )

    def _restore(self, fitted: dict[str, Any]) -> None:
        super()._restore(fitted)
        if "inner" in fitted:
            self.inner_ = tuple(map(from_state, fitted["inner"]))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not all(isinstance(each, FeatureMap) for each in self._inner):
            raise InputError(f"inner must be feature maps of daskrf.features, not {self.inner!r}.")
        if len(self._inner) != len(as_weights(self.weights)):
            raise InputError(f"inner must be one map, or {len(self.weights)} maps, one for each weight.")
        self._ranges(None)
        for each in self._inner:
            if each.learns_from == "sample":
                raise InputError(
                    f"inner must be maps of random features, which a seed determines; {type(each).__name__} "
                    "is fitted to a sample."
                )
            each._check_parameters()


def map_on_first(feature_map: FeatureMap, n_columns: int) -> FeatureMap:
    """Return a map that sees only the first columns of rows, as where descriptors follow.

    A mean, and a map of a mean of kernels, choose their columns themselves, and are returned as they are.

    Raises
    ------
    InputError
        If the map learns from a sample, and has no kernel that could leave columns out.

    Examples
    --------
    >>> map_on_first(TanimotoMinMaxFeatures(64), 5).columns
    ((0, 5),)
    """
    kernel = getattr(feature_map, "kernel", None)
    if isinstance(feature_map, MeanFeatures) or isinstance(kernel, Mean):
        return feature_map
    size = feature_map.n_components
    if feature_map.learns_from != "sample":
        seed = feature_map.seed_
        return MeanFeatures((1.0,), feature_map, ((0, n_columns),), size, random_state=seed)
    if isinstance(kernel, Kernel) and not feature_map.is_fitted():
        return clone(feature_map).set_params(kernel=kernel_on_first(kernel, n_columns))
    raise InputError(
        f"{type(feature_map).__name__} would treat descriptors as counts of features and cannot leave them "
        "out; fingerprint the library without --kind descriptors, or use another map."
    )


def _bytes_of(shares: list[float], size: int, seed: int) -> list[npt.NDArray[np.int64]]:
    """Return which of `size` bytes belong to each term, spread evenly by multiples of the golden ratio."""
    start = seeds.words(seed, "mean/terms", 1)
    with np.errstate(over="ignore"):
        turns = start + np.arange(size, dtype=np.uint64) * _GOLDEN
    uniform = (turns >> np.uint64(11)) * 2.0**-53
    # The shares sum to exactly 1, which no number here reaches.
    term_of = np.searchsorted(np.cumsum(shares), uniform, side="right")
    return [np.flatnonzero(term_of == i) for i in range(len(shares))]


def _blocks_of(shares: list[float], size: int) -> list[npt.NDArray[np.int64]]:
    """Return which of `size` features belong to each term: in proportion to the shares, at least one each."""
    used = [i for i, share in enumerate(shares) if share]
    if size < len(used):
        raise InputError(f"n_components must be at least {len(used)}, one for each weight, not {size}.")
    sizes = np.diff(np.rint(np.cumsum(shares) * size).astype(int), prepend=0)
    for i in used:
        if not sizes[i]:
            sizes[sizes.argmax()] -= 1
            sizes[i] = 1
    return np.split(np.arange(size), np.cumsum(sizes)[:-1])
