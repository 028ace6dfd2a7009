"""Choosing the length scale of a kernel by the evidence of random features on a sample of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from daskrf import kernels, seeds
from daskrf.errors import InputError
from daskrf.features import FeatureMap, from_state
from daskrf.gp.chunks import check_rows
from daskrf.gp.processes import gp_for

__all__ = ["LengthScaleSearch", "choose_length_scale", "with_length_scale"]

_PAIRS = 1000


@dataclass(frozen=True)
class LengthScaleSearch:
    """The result of :func:`choose_length_scale`.

    Attributes
    ----------
    feature_map : FeatureMap
        The map with the best length scale.
    length_scale : float
    length_scales, log_evidences : tuple of float
        All values tried, in ascending order of the length scale.
    """

    feature_map: FeatureMap
    length_scale: float
    length_scales: tuple[float, ...]
    log_evidences: tuple[float, ...]


def with_length_scale(feature_map: Any, length_scale: float) -> FeatureMap:
    """Return an unfitted copy of a map with another length scale, of the map itself or of its kernel.

    Raises
    ------
    InputError
        If neither the map nor its kernel has a length scale.

    Examples
    --------
    >>> from daskrf import FastfoodFeatures, Matern
    >>> with_length_scale(FastfoodFeatures(Matern(1.0, nu=2.5), 64), 3.0).kernel
    Matern(length_scale=3.0, nu=2.5)
    """
    state = feature_map.state()
    if "length_scale" in state["parameters"]:
        state["parameters"]["length_scale"] = float(length_scale)
        return from_state({**state, "fitted": {}})
    kernel = state["parameters"].get("kernel")
    if not isinstance(kernel, dict) or "length_scale" not in kernel["parameters"]:
        raise InputError(f"{type(feature_map).__name__} has no kernel with a length scale.")
    parameters = kernel["parameters"] | {"length_scale": float(length_scale)}
    state["parameters"]["kernel"] = kernels.from_state({**kernel, "parameters": parameters}).state()
    return from_state({**state, "fitted": {}})


def choose_length_scale(
    feature_map: FeatureMap,
    X: Any,
    y: npt.ArrayLike,
    *,
    n_rows: int = 10_000,
    bounds: tuple[float, float] | None = None,
    n_trials: int = 12,
    random_state: int = 0,
) -> LengthScaleSearch:
    """Return the map with the length scale that maximizes the evidence on random rows.

    Each trial computes features and statistics of the sample, and chooses mean, signal variance and noise
    variance by the evidence; Brent's method searches the logarithm of the length scale. Then fit the returned
    map to all rows. Search with the final number of features: fewer features favour a longer length scale.

    Parameters
    ----------
    feature_map : FeatureMap
        A map that has a length scale, or whose kernel has one.
    X : array of shape (n, d)
    y : array, shape (n,)
    n_rows : int
        Largest number of rows in the sample.
    bounds : (float, float), optional
        Search range; default: from a tenth to ten times the median distance of random pairs.
    n_trials : int
        Largest number of evaluations.
    random_state : int

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
    rows, targets = check_rows(X, feature_map), np.asarray(y, dtype=np.float64)
    if targets.shape != (rows.shape[0],):
        raise InputError(f"X has {rows.shape[0]} rows, but y has shape {targets.shape}: one number a row.")
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
        length = math.exp(logarithm)
        gp = gp_for(with_length_scale(feature_map, length)).fit(rows, targets)
        tried[length] = float(gp.log_marginal_likelihood_value_)
        return -tried[length]

    ends = math.log(low), math.log(high)
    minimize_scalar(lack, bounds=ends, method="bounded", options={"xatol": 0.02, "maxiter": n_trials})
    best = max(tried, key=tried.__getitem__)
    lengths = tuple(sorted(tried))
    evidences = tuple(tried[length] for length in lengths)
    return LengthScaleSearch(with_length_scale(feature_map, best), best, lengths, evidences)


def _bounds(rows: Any, seed: int) -> tuple[float, float]:
    """Return a tenth and ten times the median distance of random pairs of different rows."""
    generator = seeds.generator(seed, "length-scale", 1)
    one, other = generator.integers(rows.shape[0], size=(2, _PAIRS))
    difference = rows[one].astype(np.float64) - rows[other].astype(np.float64)
    squares = difference.multiply(difference) if hasattr(difference, "multiply") else np.square(difference)
    distances = np.sqrt(np.asarray(squares.sum(axis=1)).reshape(-1))
    distances = distances[distances > 0.0]
    if not distances.size:
        raise InputError("All rows are equal, so no length scale can be found; give bounds.")
    middle = float(np.median(distances))
    return middle / 10.0, middle * 10.0
