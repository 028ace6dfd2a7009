"""Choosing the length scale of a kernel by the evidence of random features on a sample of rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from daskrf import kernels, seeds
from daskrf.arrays import Matrix
from daskrf.errors import InputError
from daskrf.features import FeatureMap, from_state
from daskrf.features.featuremap import MapState, undecided
from daskrf.gp.processes.processes import ProcessOptions, gp_for
from daskrf.gp.processes.trials import Choice, Row, labels_by_target
from daskrf.gp.sums.chunks import check_rows
from daskrf.kernels.kernel import decided

_PAIRS = 1000
_LENGTH = 1.4  # times the median distance: the length scale if there are too few labels
_ANY = 25.0
_CLOSE = 0.3  # tolerance of the logarithm: the evidence is flat about its maximum


class LengthScaleState(TypedDict):
    """What `LengthScaleSearch.state` returns."""

    length_scale: float
    length_scales: Sequence[float]
    log_evidences: Sequence[float]
    n_rows: int


@dataclass(frozen=True)
class LengthScaleSearch(Choice):
    """The result of :func:`choose_length_scale`.

    Attributes
    ----------
    feature_map : FeatureMap
        The map with the best length scale.
    length_scale : float
    length_scales, log_evidences : tuple of float
        All values tried, in ascending order of the length scale; empty if there were too few labels.
    n_rows : int
        Number of rows that they were tried on.
    """

    _headers = ("log evidence a label",)

    feature_map: FeatureMap
    length_scale: float
    length_scales: tuple[float, ...] = ()
    log_evidences: tuple[float, ...] = ()
    n_rows: int = 0

    def _title(self) -> str:
        return f"length scales tried on {self.n_rows:,} labels"

    def _rows(self) -> Iterator[Row]:
        for length, evidence in zip(self.length_scales, self.log_evidences, strict=True):
            mark = "taken" if length == self.length_scale else ""
            yield Row(f"{length:g}", (f"{evidence / self.n_rows:.4f}",), mark)

    def _too_few(self) -> str:
        return f"too few labels to find a length scale: took {self.length_scale:g}, which is usual"

    def state(self) -> LengthScaleState:
        """Return a JSON-able description; it does not hold the map."""
        return {
            "length_scale": self.length_scale,
            "length_scales": self.length_scales,
            "log_evidences": self.log_evidences,
            "n_rows": self.n_rows,
        }

    @classmethod
    def from_state(cls, state: LengthScaleState, feature_map: FeatureMap) -> LengthScaleSearch:
        """Rebuild a search from its `state` and the map, which may be of another size."""
        length = float(state["length_scale"])
        lengths, evidences = tuple(state["length_scales"]), tuple(state["log_evidences"])
        return cls(with_length_scale(feature_map, length), length, lengths, evidences, state["n_rows"])


def with_length_scale(feature_map: FeatureMap, length_scale: float) -> FeatureMap:
    """Return an unfitted copy of a map with another length scale.

    If length scales are "auto", only those are replaced; otherwise that of the map itself or of its kernel.

    Raises
    ------
    InputError
        If neither the map nor its kernel has a length scale.

    Examples
    --------
    >>> from daskrf import FastfoodFeatures, Matern
    >>> with_length_scale(FastfoodFeatures(Matern("auto", nu=2.5), 64), 3.0).kernel
    Matern(length_scale=3.0, nu=2.5)
    """
    state: MapState = {**feature_map.state(), "fitted": {}}
    if undecided(feature_map):
        return from_state(decided(state, length_scale))
    parameters = state["parameters"]
    if "length_scale" in parameters:
        parameters["length_scale"] = float(length_scale)
        return from_state(state)
    kernel = parameters.get("kernel")
    if not isinstance(kernel, dict) or "length_scale" not in kernel["parameters"]:
        raise InputError(f"{type(feature_map).__name__} has no kernel with a length scale.")
    settings = kernel["parameters"] | {"length_scale": float(length_scale)}
    parameters["kernel"] = kernels.from_state({"kernel": kernel["kernel"], "parameters": settings}).state()
    return from_state(state)


def stand_in(feature_map: FeatureMap) -> FeatureMap:
    """Return a map with a number in place of a length scale "auto", to check options and to predict costs.

    A metric that is "auto" is replaced by usual distances.

    Examples
    --------
    >>> from daskrf import GaussianMaclaurinFeatures
    >>> stand_in(GaussianMaclaurinFeatures(length_scale="auto")).length_scale
    25.0
    """
    if not undecided(feature_map):
        return feature_map
    return from_state(decided({**feature_map.state(), "fitted": {}}, _ANY, metric=""))


def choose_length_scale(
    feature_map: FeatureMap,
    X: Matrix,
    y: npt.ArrayLike,
    *,
    n_rows: int = 10_000,
    bounds: tuple[float, float] | None = None,
    n_trials: int = 12,
    random_state: int = 0,
    options: ProcessOptions | None = None,
    on_trial: Callable[[str], None] | None = None,
    used: Callable[[FeatureMap], FeatureMap] = lambda feature_map: feature_map,
) -> LengthScaleSearch:
    """Return the map with the length scale that maximizes the evidence on random rows.

    Each trial computes features and statistics of the sample, and chooses mean, signal variance and noise
    variance by the evidence; Brent's method searches the logarithm of the length scale. Then fit the returned
    map to all rows. Search with the final number of features: fewer features favour a longer length scale.

    Parameters
    ----------
    feature_map : FeatureMap
        A map that has a length scale, or whose kernel has one; it may be "auto".
    X : array of shape (n, d)
    y : array, shape (n,) or (n, n_targets)
        NaN where a row has no value of a target. The evidence is the sum over targets.
    n_rows : int
        Largest number of rows in the sample.
    bounds : (float, float), optional
        Search range; default: from a tenth to ten times the median distance of random pairs.
    n_trials : int
        Largest number of evaluations.
    random_state : int
    options : mapping, optional
        Parameters of the process, such as a noise variance that is known.
    on_trial : callable, optional
        Called with words for each length scale before it is tried.
    used : callable, optional
        Takes a map and returns the one to use on these rows in its place, such as one that folds them first.

    Raises
    ------
    InputError
        If the map has no length scale, the bounds are not 0 < low < high, there are no rows, or rows and
        labels do not match.

    Examples
    --------
    >>> from daskrf import FastfoodFeatures
    >>> X = np.linspace(-3, 3, 200)[:, None]
    >>> found = choose_length_scale(FastfoodFeatures(n_components=64), X, np.sin(2 * X[:, 0]))
    >>> 0.4 < found.length_scale < 2.0
    True
    """
    rows = check_rows(X, feature_map)
    targets = labels_by_target(y, rows.shape[0])
    if not min(rows.shape[0], n_rows) > 0:
        raise InputError("there are no rows to choose a length scale from: pass some, and n_rows above 0.")
    order = seeds.generator(random_state, "length-scale").permutation(rows.shape[0])
    chosen = np.sort(order[:n_rows])
    rows, targets = rows[chosen], targets[chosen]
    low, high = _bounds(rows, random_state) if bounds is None else bounds
    if not 0.0 < low < high < math.inf:
        raise InputError(f"bounds must be two finite numbers, 0 < low < high, not {bounds!r}.")
    tried: dict[float, float] = {}

    def lack(logarithm: float) -> float:
        length = float(f"{math.exp(logarithm):.3g}")  # no more digits are worth showing
        if length not in tried:
            if on_trial is not None:
                on_trial(f"the length scale {length:g}")
            one = used(with_length_scale(feature_map, length))
            tried[length] = _evidence(one, rows, targets, options or {})
        return -tried[length]

    ends = math.log(low), math.log(high)
    minimize_scalar(lack, bounds=ends, method="bounded", options={"xatol": _CLOSE, "maxiter": n_trials})
    best = max(tried, key=tried.__getitem__)
    lengths = tuple(sorted(tried))
    evidences = tuple(tried[length] for length in lengths)
    return LengthScaleSearch(with_length_scale(feature_map, best), best, lengths, evidences, len(chosen))


def _evidence(
    feature_map: FeatureMap, rows: Matrix, targets: npt.NDArray[np.float64], options: ProcessOptions
) -> float:
    """Return the log evidence of all targets, each on the rows that have a value of it."""
    total = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # length scales that do not suit the labels cause warnings
        for y in [targets] if np.isfinite(targets).all() else targets.T[:, :, None]:
            labelled = np.isfinite(y[:, 0])
            gp = gp_for(feature_map, **options).fit(rows[labelled], y[labelled])
            total += float(gp.log_marginal_likelihoods_.sum())
    return total


def usual_length_scale(X: Matrix, seed: int = 0) -> float:
    """Return a length scale that suits most labels, for use if there are too few labels to find one.

    It is 1.4 times the median distance of random pairs of different rows, or 1 if all rows are equal.

    Examples
    --------
    >>> usual_length_scale(np.eye(3))
    1.98
    """
    return float(f"{_LENGTH * typical_distance(X, seed):.3g}") or 1.0


def typical_distance(X: Matrix, seed: int = 0) -> float:
    """Return the median distance of random pairs of different rows, or 0 if all rows are equal.

    Examples
    --------
    >>> typical_distance(np.ones((5, 2)))
    0.0
    """
    generator = seeds.generator(seed, "length-scale", 1)
    one, other = generator.integers(X.shape[0], size=(2, _PAIRS))
    difference = X[one].astype(np.float64) - X[other].astype(np.float64)
    squares = difference.multiply(difference) if hasattr(difference, "multiply") else np.square(difference)
    distances = np.sqrt(np.asarray(squares.sum(axis=1)).reshape(-1))
    distances = distances[distances > 0.0]
    return float(np.median(distances)) if distances.size else 0.0


def _bounds(rows: object, seed: int) -> tuple[float, float]:
    """Return a tenth and ten times the median distance of random pairs of different rows."""
    median = typical_distance(rows, seed)
    if median == 0.0:
        raise InputError("All rows are equal, so no length scale can be found; give bounds.")
    return median / 10, median * 10
