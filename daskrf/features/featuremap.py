"""The contract of feature maps, and how they are rebuilt from their state."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from daskrf import kernels, seeds
from daskrf.arrays import (
    MatrixLike,
    advice_on_rows,
    as_matrix,
    as_rows,
    check_columns_of,
    check_rows_to_fit,
    check_width_of,
    learn_columns,
    refuse_negative,
)
from daskrf.documents import OfClass
from daskrf.errors import InputError
from daskrf.estimators import Transformer
from daskrf.exports import declared
from daskrf.kernels.kernel import KernelState, is_undecided, short
from daskrf.parameters import parameters_of
from daskrf.quantities import DTYPES
from daskrf.seeds import RandomState
from daskrf.tokens import token_of

_T = TypeVar("_T")
_LONG = 256  # characters of a text before its digest stands for it


SYMBOLS = (
    "M features, d columns, z nonzeros of a row, N factors of a feature (the degree, or its mean), K "
    "landmarks,\nC centroids, L length scale. Bits take M/8 bytes a row, floats 4 M. Cost: operations a "
    "row, up to a constant.\nHolds: bytes that a worker needs for the map, besides the rows in progress. "
    "Learns: what the map stores\nof the library. cos: x.y of rows scaled to length 1. inner: the cost of "
    "the map that the composition is made of."
)


class MapState(OfClass):
    """What :meth:`FeatureMap.state` returns; maps and kernels among the parameters are such states, too."""

    version: int
    parameters: dict[str, object]
    fitted: dict[str, object]


@dataclass(frozen=True)
class MapFacts:
    """What the table of feature maps says about one map, to help a reader choose.

    Attributes
    ----------
    name : str
        Its name on the command line, given with ``--map``.
    kernel : str
        The kernel or family of kernels.
    rows : str
        The input it takes.
    features : "bits", "floats" or "bits or floats"
        What a feature is; the first of two is the default.
    cost : str
        Operations to make the features of a row, as an order of growth. See `SYMBOLS`.
    holds : str
        Bytes that a worker keeps for the map.
    learns : str
        What `fit` learns from the library and stores in the state of the map, or "nothing".
    reference : str
        The papers, with sections.
    use : str
        When to choose it.
    example : str
        Command-line options worth trying, besides ``--map``.
    is_default : bool
        Whether this is the map used when none is named; exactly one map is.

    Examples
    --------
    >>> facts = MapFacts("a", "x.y", "counts", "bits or floats", "z M", "8 M", "nothing", "A 2000", "always")
    >>> facts.bytes_a_row
    'M/8 or 4 M'
    """

    name: str
    kernel: str
    rows: str
    features: Literal["bits", "floats", "bits or floats"]
    cost: str
    holds: str
    learns: str
    reference: str
    use: str
    example: str = ""
    is_default: bool = False

    @property
    def bytes_a_row(self) -> str:
        """Bytes of the features of a row: bits are packed, floats are float32."""
        return " or ".join({"bits": "M/8", "floats": "4 M"}[kind] for kind in self.features.split(" or "))


@dataclass(frozen=True)
class Cached:
    """What a map has made, and what it was made for."""

    key: object
    value: Any


class FeatureMap(Transformer):
    """A deterministic, row-wise map whose inner product approximates :attr:`kernel_`.

    The constructor only stores parameters; `fit` fixes what depends on the input; `transform` gives the same
    bytes for the same row whatever the chunking, worker or machine.
    """

    # Made once, when first needed. In slots, not in `__dict__`, so that copies and pickles leave it out, and
    # `transform` leaves the estimator as it is.
    __slots__ = ("_cached", "_made", "_prepared")
    _cached: Cached | None
    _made: Cached | None
    _prepared: Cached | None

    def __init_subclass__(cls, **options: object) -> None:
        """Wrap methods that take rows: input that no map can take is refused before their own code."""
        super().__init_subclass__(**options)
        wrappers = {
            "fit": _learning,
            "transform": _choosing,
            "transform_bits": _checking,
            "transform_nearest": _checking,
        }
        for name, wrapper in wrappers.items():
            if name in cls.__dict__:
                setattr(cls, name, wrapper(cls.__dict__[name]))

    facts: ClassVar[MapFacts]
    """What the table of maps says about this one."""

    n_components: int
    """Number M of features."""

    random_state: RandomState
    """Seed of every random number of the map, or what it is drawn from; see `seed_`."""

    n_features_in_: int
    """Number of columns in the input of `fit`; absent if `fit` saw none."""

    feature_names_in_: npt.NDArray[np.object_]
    """Names of the columns in the input of `fit`, if it was a DataFrame."""

    state_version: ClassVar[int] = 1
    """Increased whenever the same parameters begin to give other bytes."""

    positive_advice: ClassVar[str] = "(give counts or weights of at least 0)"
    """What to do about negative values, if rows must have none."""

    added_parameters: ClassVar[dict[str, object]] = {}
    """Parameters that the first version of the map lacked, with the values that it implied. A state leaves
    out such a value, so that older maps, stores and models keep their states."""

    learns_from: ClassVar[Literal["nothing", "summary", "sample"]] = "nothing"
    """What `fit` needs from a whole library: nothing; a summary of every row (see `summarize`); or
    `sample_size` random rows."""

    instead_of_fit: ClassVar[str] = ""
    """The parameter, if any, that makes a fit unnecessary when it is given."""

    gram_precision: ClassVar[Literal["single", "double"]] = "single"
    """Precision that sums of products of features need; see `daskrf.gp.SufficientStatistics`."""

    composed_width: ClassVar[int] = 2**20
    """Most features that a composition takes from one map of this kind. It is small for sketches whose
    features of a sparse row get fewer and larger as their number grows: products of such features are hardly
    ever nonzero."""

    common: ClassVar[tuple[str, ...]] = ("n_components", "random_state")
    """Parameters that every map has. All others are the map's own."""

    option_defaults: ClassVar[dict[str, object]] = {}
    """Defaults on the command line, where rows are counts, if they differ from the constructor's; see
    `daskrf.parameters`."""

    process: ClassVar[str] = "features"
    """The Gaussian process that takes these features: "features", of dense ones; "sparse", of landmarks; or
    "local", of blocks about centroids. It makes their sums, and its parameters become options of `fit`."""

    @property
    @abstractmethod
    def kernel_(self) -> kernels.Kernel:
        """The kernel k that inner products of features approximate."""

    @property
    def projected_kernel(self) -> kernels.Kernel | None:
        """The kernel k of which the features are a projection: |phi(x)|^2 falls short of k(x, x).

        Models add the missing part, k(x, x) - |phi(x)|^2, to their variances. None for features whose inner
        products are unbiased estimates: nothing is missing there.
        """
        return None

    @property
    def block_size(self) -> int:
        """Number of features of a row that a prediction uses: all, except for a map made of blocks."""
        return self.n_components

    @property
    def gram_block(self) -> int | None:
        """For a map made of blocks, the most features that share a Gram matrix; else None."""
        return None

    @property
    def seed_(self) -> int:
        """The seed of every random number: `random_state`, or the number that `fit` has drawn from it.

        Without a fit it is drawn when it is first needed. It is in `state`, and goes with copies.
        """
        if not seeds.is_drawn(self.random_state):
            return seeds.check_seed(self.random_state)
        if "_seed" not in self.__dict__:
            self.__dict__.setdefault("_seed", seeds.seed_of(self.random_state))  # once, whatever threads do
        return int(self.__dict__["_seed"])

    def check_dtype(self, dtype: str) -> None:
        """Raise InputError if features cannot be stored as `dtype`: "bits", "float32" or "float16"."""
        if dtype not in DTYPES:
            raise InputError(f"The dtype of features must be one of {', '.join(DTYPES)}, not {dtype!r}.")
        if dtype == "bits" and not self.one_bit:
            raise InputError(f"{type(self).__name__} has no one-bit features; use float32 or float16.")

    @property
    def seconds_per_component(self) -> float:
        """Rough cost of one feature of one molecule on one core. The size of tasks follows from it."""
        return 6e-9

    def table_bytes(self, n_columns: int) -> int:
        """Return the most bytes of tables that a worker makes and keeps for rows of `n_columns` columns.

        Zero or negligible for most maps. Memory is predicted from it.
        """
        return 0

    def fit_bytes(self, n_nonzeros: float) -> int:
        """Return the most bytes that `fit` takes besides its sample, which has `n_nonzeros` nonzero values.

        Zero or negligible for most maps. Memory is predicted from it.
        """
        return 0

    @property
    def smaller(self) -> tuple[str, int, Callable[[int], Self]] | None:
        """What to reduce if memory is too small for `fit`; None for most maps.

        A tuple: what it is called, how many there are, and a function that returns the map with another
        number.
        """
        return None

    @property
    def one_bit(self) -> bool:
        """True if every feature is +1 or -1 (divided by sqrt(M)) and `transform_bits` exists."""
        return False

    def fit(self, X: MatrixLike | None = None, y: object = None) -> Self:
        """Fix what depends on the input (for most maps the number of columns), and return the map itself.

        Parameters
        ----------
        X : scipy.sparse, pydata/sparse or dense array, shape (n, d), optional
            `transform` will refuse any number of columns but d. None keeps what is known of the input, and
            suffices for maps that learn nothing.
        y : ignored

        Raises
        ------
        InputError
            If a parameter is out of range, or `X` is not what the map serves.
        """
        return self if X is None else self.fit_summaries([self.summarize(X)])

    @abstractmethod
    def transform(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        """Return the features of each row of `X`.

        Parameters
        ----------
        X : scipy.sparse, pydata/sparse or dense array, shape (n, d)
            Counts, weights or real numbers, depending on the map.

        Returns
        -------
        float32 array, shape (n, n_components)

        Raises
        ------
        InputError
            If the map is not fitted, a parameter is out of range, the map does not serve a value, `X` has too
            many columns or not as many as in `fit`, or a feature is too large for single precision.
        """

    def transform_nearest(self, X: MatrixLike) -> npt.NDArray[np.float32]:
        """Return the features that predictions use: those of `transform`, except for a map made of blocks.

        For such a map all blocks but the one that serves a row are 0, and cost nothing.
        """
        return self.transform(X)

    def check_columns(self, n_columns: int) -> None:
        """Raise InputError if the map cannot serve rows of `n_columns` columns, whatever they hold."""

    def for_folded(self, size: int) -> FeatureMap:
        """Return the map that does the same for fingerprints folded to `size` columns a kind."""
        return self

    def transform_bits(self, X: MatrixLike) -> npt.NDArray[np.uint8]:
        """Return the features of each row of `X` as packed bits: bit 1 is -1/sqrt(M), bit 0 is +1/sqrt(M).

        Parameters
        ----------
        X : as for `transform`

        Returns
        -------
        uint8 array, shape (n, ceil(n_components / 8)), little-endian bit order, padding bits zero

        Raises
        ------
        InputError
            As `transform`; and always if the map is not a one-bit map.
        """
        raise InputError(f"{type(self).__name__} has no one-bit features; use transform instead.")

    def is_fitted(self) -> bool:
        """Tell whether `transform` can be called: always, if the map learns nothing."""
        return self.learns_from == "nothing"

    @property
    def needs_fit(self) -> bool:
        return self.learns_from != "nothing"

    @property
    def positive_rows(self) -> bool:
        kernel = getattr(self, "kernel_", None)  # a map may be of no kernel
        return kernel is not None and bool(kernel.positive_rows)

    def __sklearn_is_fitted__(self) -> bool:
        return self.is_fitted()

    def summarize(self, X: MatrixLike) -> dict[str, object]:
        """Return what the map must know about the rows of `X`, small and JSON-able: the number of columns.

        ``fit(X)`` equals ``fit_summaries([summarize(X)])`` for all maps except those that learn from a
        sample. A map can therefore be fitted to a library partition by partition.

        Raises
        ------
        InputError
            If a parameter is out of range, or the map does not serve `X`.
        """
        self._check_parameters()
        n_columns = _shape(X)[1]
        self.check_columns(n_columns)
        return {"n_features_in": n_columns}

    def fit_summaries(self, summaries: Iterable[dict[str, object]]) -> Self:
        """Fit to the summaries of all parts of a library, in any order; return the map itself.

        Raises
        ------
        InputError
            As `fit`, and if the parts have different numbers of columns.
        """
        self._check_parameters()
        parts: list[dict[str, Any]] = list(summaries)
        widths = sorted({summary["n_features_in"] for summary in parts})
        if len(widths) > 1:
            raise InputError(
                f"The parts of the library have {' and '.join(f'{w:,}' for w in widths)} columns; "
                "fingerprint all of them in the same way."
            )
        self._learn(parts)
        if widths:
            self.n_features_in_ = int(widths[0])
        return self

    def sample_size(self, n_rows: int) -> int:
        """Return how many random rows of `n_rows` to fit the map to: none, for most maps.

        Raises
        ------
        InputError
            If a parameter is out of range.
        """
        return 0

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return the names of the output columns, for scikit-learn's `set_output`."""
        prefix = type(self).__name__.removesuffix("Features").lower()
        return np.array([f"{prefix}{m}" for m in range(self.n_components)], dtype=object)

    @property
    def n_filled(self) -> int:
        """Number of features that differ from 0 in some row; `cautions` explain a smaller number than M."""
        return self.n_components

    def cautions(self) -> list[str]:
        """Return one sentence for each way in which the fitted map falls short of its parameters."""
        return []

    def words(self) -> str:
        """Return a one-line description of the map for a reader."""
        return parameter_words(type(self).__name__, self._settings())

    @property
    def size_words(self) -> str:
        """Number of features and seed, for `words`."""
        return f"M = {self.n_components}, seed {self._settings().get('random_state')}"

    def state(self) -> MapState:
        """Return the JSON-able dictionary from which :func:`from_state` rebuilds this map."""
        named = hasattr(self, "feature_names_in_")
        names = {"feature_names_in": list(self.feature_names_in_)} if named else {}
        return {
            "class": type(self).__name__,
            "version": self.state_version,
            "parameters": self._plain_parameters(),
            "fitted": self._fitted_state() | names,
        }

    def _plain_parameters(self) -> dict[str, object]:
        """Return the parameters as a state has them."""
        parameters = {name: _plain(value) for name, value in self._settings().items()}
        unchanged = {name for name, value in self.added_parameters.items() if parameters[name] == value}
        return {name: value for name, value in parameters.items() if name not in unchanged}

    def __dask_tokenize__(self) -> object:
        """Return what Dask names tasks by: the state, kernels, and what `set_output` chose.

        By itself, Dask looks at the fields of a dataclass, which do not hold what `fit` has learned.
        """
        chosen = getattr(self, "_sklearn_output_config", {})
        inner = [value for value in self.get_params(deep=False).values() if hasattr(value, "parameters")]
        return token_of(self, json.dumps([self.state(), chosen], sort_keys=True), inner)

    def _settings(self) -> dict[str, Any]:
        """Return the parameters, with the seed in place of what it was drawn from."""
        settings = self.get_params(deep=False)
        return settings | {"random_state": self.seed_} if self._draws else settings

    @property
    def _draws(self) -> bool:
        return seeds.is_drawn(getattr(self, "random_state", 0))

    def _learn(self, parts: list[dict[str, Any]]) -> None:
        """Learn from the summaries of all parts of a library whatever the map needs besides its columns."""

    def _check_parameters(self) -> None:
        """Raise InputError if a parameter is out of range.

        The type hints of the constructor list the values of choices and flags.
        """
        check_count("n_components", self.n_components)
        if hasattr(self, "random_state") and not seeds.is_drawn(self.random_state):
            seeds.check_seed(self.random_state)
        cls: object = type(self)
        for name, values in _values(cls).items():
            value = getattr(self, name)
            if values == (True, False):
                if not isinstance(value, (bool, np.bool_)):
                    raise InputError(f"{name} must be True or False, not {value!r}.")
            elif not any(value is each or (isinstance(value, str) and value == each) for each in values):
                one = "one of " if len(values) > 1 else ""
                raise InputError(f"{name} must be {one}{', '.join(map(str, values))}, not {value!r}.")

    def _check_fitted(self) -> None:
        if not self.is_fitted():
            otherwise = f", or give {self.instead_of_fit}" if self.instead_of_fit else ""
            raise InputError(
                f"{type(self).__name__} is not fitted: call fit with rows to learn from{otherwise}."
            )

    def _once(self, make: Callable[[], _T], *arguments: object) -> _T:
        """Return the result of `make`, called once for each object, its parameters and the `arguments`."""
        return self._made_for(
            "_cached", json.dumps([self._plain_parameters(), *arguments], sort_keys=True), make
        )

    def _made_for(
        self, slot: Literal["_cached", "_made", "_prepared"], key: object, make: Callable[[], _T]
    ) -> _T:
        """Return what a slot holds, made anew if it was made for another key."""
        cached: Cached | None = getattr(self, slot, None)
        if cached is None or cached.key != key:
            cached = Cached(key, make())
            setattr(self, slot, cached)
        made: _T = cached.value
        return made

    def __getstate__(self) -> dict[str, object]:
        if self._draws:
            _ = self.seed_  # copies have the same: tasks get copies
        return super().__getstate__()

    def _fitted_state(self) -> dict[str, object]:
        """Return what `fit` learned, JSON-able; empty if it saw nothing."""
        return {"n_features_in": self.n_features_in_} if hasattr(self, "n_features_in_") else {}

    def _restore(self, fitted: dict[str, Any]) -> None:
        """Put back what :meth:`_fitted_state` returned."""
        if "n_features_in" in fitted:
            self.n_features_in_ = fitted["n_features_in"]


def parameter_words(name: str, parameters: Mapping[str, Any]) -> str:
    """Describe a map, which may be unknown here, by its parameters.

    Examples
    --------
    >>> parameter_words("Cosines", {"n_components": 8, "random_state": 3, "scale": 0.5})
    'Cosines, M = 8, seed 3, scale = 0.5'
    """
    size = f"M = {parameters.get('n_components')}, seed {parameters.get('random_state')}"
    others = sorted(set(parameters) - {"n_components", "random_state"})
    return ", ".join([name, size, *(f"{key} = {short(parameters[key])}" for key in others)])


def _learning(fit: Callable[..., object]) -> Callable[..., Any]:
    """Return a `fit` method that first checks parameters and rows, and notes the columns.

    Rows from which nothing can be learned are refused.
    """

    @functools.wraps(fit)
    def fit_checked(self: Any, X: MatrixLike | None = None, y: object = None, **options: object) -> object:
        self._check_parameters()
        original = X
        if X is not None:
            X = as_matrix(X)
            check_rows_to_fit(X)
            self.__dict__.pop("_seed", None)  # each fit draws, as scikit-learn's do
            if self.positive_rows:
                refuse_negative(X, type(self).__name__, self.positive_advice)
        fitted = fit(self, X, y, **options)
        if original is not None:
            learn_columns(self, original)
            for caution in self.cautions():
                warnings.warn(caution, stacklevel=2)
        return fitted

    return fit_checked


def _checking(transform: Callable[..., object]) -> Callable[..., object]:
    """Return a method that makes features, and first checks the parameters, the fit and the columns."""

    @functools.wraps(transform)
    def transform_checked(self: Any, X: MatrixLike) -> object:
        self._check_parameters()
        self._check_fitted()
        check_columns_of(self, X)
        X = as_matrix(X)
        _shape(X)  # refuses what are no rows
        check_width_of(self, X)
        return transform(self, X)

    return transform_checked


def _choosing(transform: Callable[..., object]) -> Callable[..., object]:
    """Return a `transform` that also checks as `_checking`, and returns what `set_output` chose."""
    checked = _checking(transform)

    @functools.wraps(transform)
    def transform_chosen(self: Any, X: MatrixLike) -> object:
        return self._as_chosen(checked(self, X), X)

    return transform_chosen


FeatureMap.fit = _learning(FeatureMap.fit)  # type: ignore[method-assign]


@functools.cache
def _values(cls: type[FeatureMap]) -> dict[str, tuple[str | bool | None, ...]]:
    """Return the allowed values of the parameters of a class whose type hints list them."""
    allowed: dict[str, tuple[str | bool | None, ...]] = {}
    for each in parameters_of(cls):
        if each.kind is bool:
            allowed[each.name] = (True, False)
        elif each.choices and each.kind is str:
            allowed[each.name] = (*each.choices, *([None] if each.optional else []))
    return allowed


def _shape(X: MatrixLike) -> tuple[int, int]:
    """Return the shape of rows, without computing a lazy array."""
    shape: tuple[int, ...] = X.shape if hasattr(X, "shape") else as_rows(X).shape
    if len(shape) != 2:
        dtype = getattr(X, "dtype", np.dtype(float))
        raise InputError(
            f"Fingerprints must have 2 dimensions, not {len(shape)}; pass one row per molecule."
            f"{advice_on_rows(len(shape), dtype)}"
        )
    return shape[0], shape[1]


def is_number(value: object) -> bool:
    """Tell whether `value` is a real number that is finite as a float.

    Examples
    --------
    >>> is_number(2), is_number(np.float32(0.5)), is_number(True), is_number(10**999)
    (True, True, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def known_maps() -> list[type[FeatureMap]]:
    """Return the classes of all feature maps that have `facts` of their own, sorted by name.

    These are the maps of `daskrf.features`, and your own maps once they are defined.

    Examples
    --------
    >>> from daskrf.features import TanimotoMinMaxFeatures
    >>> TanimotoMinMaxFeatures in known_maps()
    True
    """
    classes = declared(__package__, FeatureMap).values()
    return sorted((cls for cls in classes if "facts" in vars(cls)), key=lambda cls: cls.facts.name)


def default_map() -> FeatureMap:
    """Return the map that is used when none is named.

    Examples
    --------
    >>> default_map()
    TanimotoMinMaxFeatures()
    """
    return next(cls for cls in known_maps() if cls.facts.is_default)()


def from_state(state: MapState) -> FeatureMap:
    """Rebuild the feature map whose :meth:`FeatureMap.state` is `state`.

    Raises
    ------
    InputError
        If the class is unknown, another version of it made the state, or a parameter is missing or unknown.

    Examples
    --------
    >>> from daskrf.features import TanimotoMinMaxFeatures, from_state
    >>> from_state(TanimotoMinMaxFeatures(128).state()).n_components
    128
    """
    name = state.get("class", "")
    cls = declared(__package__, FeatureMap).get(name)
    if cls is None:
        raise InputError(
            f"Feature map {name!r} is unknown here; known are: "
            f"{', '.join(cls.__name__ for cls in known_maps())}."
        )
    if state.get("version") != cls.state_version:
        raise InputError(
            f"Feature map {name} has state version {state.get('version')!r}, but this daskrf makes version "
            f"{cls.state_version}; use the daskrf that made it, or make the features again."
        )
    parameters = {**cls.added_parameters, **state.get("parameters", {})}
    expected = set(cls().get_params(deep=False))
    for what, names in (("lacks", expected - set(parameters)), ("has unknown", set(parameters) - expected)):
        if names:
            raise InputError(
                f"The state of feature map {name} {what} parameters {', '.join(sorted(names))}; make it "
                "again."
            )
    feature_map = cls(**{key: _rebuilt(value) for key, value in parameters.items()})
    fitted = dict(state.get("fitted", {}))
    columns = fitted.pop("feature_names_in", None)
    feature_map._restore(fitted)
    if columns is not None:
        feature_map.feature_names_in_ = np.array(columns, dtype=object)
    return feature_map


def feature_bytes(n_components: int, dtype: str) -> int:
    """Return the bytes that the features of one row take in a store.

    Examples
    --------
    >>> feature_bytes(4096, "bits"), feature_bytes(4096, "float16")
    (512, 8192)
    """
    return -(-n_components // 8) if dtype == "bits" else {"float16": 2, "float32": 4}[dtype] * n_components


def resized(feature_map: FeatureMap, n_components: int, random_state: int) -> FeatureMap:
    """Return a copy of `feature_map`, fit included, with another size and seed.

    Examples
    --------
    >>> from daskrf.features import TanimotoMinMaxFeatures
    >>> resized(TanimotoMinMaxFeatures(hashing="cws"), 64, 3)
    TanimotoMinMaxFeatures(hashing='cws', n_components=64, random_state=3)
    """
    state = feature_map.state()
    size = {"n_components": int(n_components), "random_state": int(random_state)}
    return from_state({**state, "parameters": {**state["parameters"], **size}})


def same_but_for_size(one: FeatureMap, other: FeatureMap) -> bool:
    """Tell whether two maps, fitted or not, have the same parameters except for size and seed.

    Examples
    --------
    >>> from daskrf.features import TanimotoMinMaxFeatures
    >>> same_but_for_size(TanimotoMinMaxFeatures(64), TanimotoMinMaxFeatures(128, random_state=1))
    True
    """
    size = ("n_components", "random_state")
    first, second = (
        {k: v for k, v in each.state()["parameters"].items() if k not in size} for each in (one, other)
    )
    return type(one) is type(other) and first == second


def map_key(state: MapState) -> str:
    """Return the text that identifies a feature map in statistics, which refuse to mix maps.

    The columns that the map was fitted to are left out: they are not known everywhere, and the map refuses
    any others. Long texts are replaced by digests.

    Examples
    --------
    >>> map_key({"version": 1, "class": "A", "fitted": {"n_features_in": 7}})
    '{"class": "A", "fitted": {}, "version": 1}'
    """
    brief = brief_state(state)
    columns = ("n_features_in", "feature_names_in")
    fitted = {name: value for name, value in brief.get("fitted", {}).items() if name not in columns}
    return json.dumps({**brief, "fitted": fitted}, sort_keys=True)


def brief_state(state: object) -> Any:
    """Return the state of a feature map with long texts (such as landmarks) replaced by digests.

    It identifies a map as well as the state does, in a few hundred characters, but cannot rebuild it.

    Examples
    --------
    >>> brief = brief_state({"class": "A", "fitted": {"landmarks": "x" * 9999}})
    >>> brief["fitted"]["landmarks"][:23]
    'sha256:bc43195302067a9f'
    """
    if isinstance(state, dict):
        return {name: brief_state(value) for name, value in state.items()}
    if isinstance(state, str) and len(state) > _LONG:
        return f"sha256:{hashlib.sha256(state.encode()).hexdigest()}"
    return state


def check_feature_map(value: object) -> None:
    """Refuse anything that is not a feature map, such as the name or the class of one.

    Examples
    --------
    >>> check_feature_map("landmarks")
    Traceback (most recent call last):
    daskrf.errors.InputError: The feature map must be an object such as LandmarkFeatures(), not 'landmarks'.
    """
    if isinstance(value, type) or not hasattr(value, "state"):
        named = next((cls for cls in known_maps() if value in (cls, cls.facts.name, cls.__name__)), None)
        such = (named or type(default_map())).__name__
        what = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
        raise InputError(f"The feature map must be an object such as {such}(), not {what}.")


def undecided(feature_map: FeatureMap, *names: str) -> bool:
    """Return whether a length scale or metric of the map is "auto", which only labels can determine.

    With names of parameters it is about these only.

    Examples
    --------
    >>> from daskrf import Gaussian, RandomFourierFeatures
    >>> undecided(RandomFourierFeatures(Gaussian("auto"))), undecided(RandomFourierFeatures())
    (True, False)
    """
    parameters = {name: _plain(value) for name, value in feature_map.get_params(deep=False).items()}
    return is_undecided(parameters, *names)


def check_count(name: str, value: object) -> None:
    """Raise InputError if a parameter is not a positive integer."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise InputError(f"{name} must be a positive integer, not {value!r}.")


def _plain(value: object) -> object:
    """Return a parameter in a form that JSON can hold; `_rebuilt` is the inverse."""
    if isinstance(value, (kernels.Kernel, FeatureMap)):
        return value.state()
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def _rebuilt(value: object) -> object:
    if isinstance(value, dict) and "kernel" in value:
        return kernels.from_state(cast(KernelState, value))
    if isinstance(value, dict) and "class" in value:
        return from_state(cast(MapState, value))
    return tuple(map(_rebuilt, value)) if isinstance(value, list) else value
