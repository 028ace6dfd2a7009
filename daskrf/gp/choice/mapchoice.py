"""Choosing a feature map by how well each one predicts labels that were left out."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypedDict

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import Matrix
from daskrf.errors import InputError
from daskrf.features import FeatureMap, from_state
from daskrf.features.featuremap import MapState, check_count, feature_bytes, resized, undecided
from daskrf.features.gaussianmaclaurin import GaussianMaclaurinFeatures
from daskrf.features.minmax import TanimotoMinMaxFeatures
from daskrf.features.nystrom import NystromFeatures
from daskrf.gp.choice.lengthscale import (
    choose_length_scale,
    typical_distance,
    usual_length_scale,
    with_length_scale,
)
from daskrf.gp.processes.processes import ProcessOptions, gp_for
from daskrf.gp.processes.trials import ChoiceByLabelsLeftOut, first_of_the_best, labels_by_target
from daskrf.gp.sums.chunks import check_rows
from daskrf.kernels import Gaussian

Double = npt.NDArray[np.float64]

_FEWEST = 20  # the least number of labels that can tell maps apart
_LEFT_OUT = 2000  # most labels left out, and at most a fifth of all
_MOST_FEATURES = 1_024  # in a trial: with twice as many it takes ten times as long


@dataclass(frozen=True)
class AutoMap:
    """Asks `fit` to choose the feature map by the labels; see `choose_map`.

    Parameters
    ----------
    n_components : int
        Number M of features.
    random_state : int
        Seed of the maps, and of the choice of labels.

    Examples
    --------
    >>> [type(each).__name__ for each in AutoMap(512).candidates][:2]
    ['TanimotoMinMaxFeatures', 'NystromFeatures']
    """

    n_components: int = 2048
    random_state: int = 0

    def __post_init__(self) -> None:
        check_count("n_components", self.n_components)
        seeds.check_seed(self.random_state)

    @property
    def candidates(self) -> tuple[FeatureMap, ...]:
        """The maps that are compared, the smallest and fastest one first."""
        size, seed = self.n_components, self.random_state
        return (
            TanimotoMinMaxFeatures(size, random_state=seed),
            NystromFeatures(size, random_state=seed),
            NystromFeatures(size, kernel=Gaussian("auto"), random_state=seed),
            GaussianMaclaurinFeatures(size, length_scale="auto", random_state=seed),
        )

    @property
    def stand_in(self) -> FeatureMap:
        """A map of the same size, to check sources and to predict memory."""
        return self.candidates[0]

    @property
    def spec(self) -> dict[str, object]:
        """The entry that identifies it in a specification."""
        return {"map": "auto", **vars(self)}


class MapTrialState(TypedDict):
    """A trial in a `MapChoiceState`."""

    map: MapState
    log_probability: float
    r2: float


class MapChoiceState(TypedDict):
    """What `MapChoice.state` returns."""

    map: MapState
    trials: list[MapTrialState]
    n_rows: int
    n_left_out: int


@dataclass(frozen=True)
class MapTrial:
    """How well a map predicts labels that were left out.

    Attributes
    ----------
    feature_map : FeatureMap
        The map, not fitted, with the length scale that was found, if it has one.
    log_probability : float
        Mean log probability of a label that was left out, in nats.
    r2 : float
        Share of the variance of these labels that the mean explains.
    """

    feature_map: FeatureMap
    log_probability: float
    r2: float

    @property
    def name(self) -> str:
        """The name of the map and its kernel."""
        kernel = self.feature_map.kernel_ if isinstance(self.feature_map, NystromFeatures) else None
        length = getattr(self.feature_map, "length_scale", None)
        of = f" of the {kernel.words()}" if kernel else f" (length scale {length:g})" if length else ""
        return f"{self.feature_map.facts.name}{of}"


@dataclass(frozen=True)
class MapChoice(ChoiceByLabelsLeftOut):
    """The map that was chosen, and the maps that were tried.

    Attributes
    ----------
    feature_map : FeatureMap
        Not fitted.
    trials : tuple of MapTrial
        In the order in which they were tried; empty if there were too few labels.
    n_rows, n_left_out : int
        Labels that were used, and how many of them were left out.
    """

    _headers = (*ChoiceByLabelsLeftOut._headers, "bytes a molecule")
    _candidate: ClassVar[str] = "map"

    feature_map: FeatureMap
    trials: tuple[MapTrial, ...] = ()
    n_rows: int = 0
    n_left_out: int = 0

    def _too_few(self) -> str:
        return f"too few labels to compare maps: took {self.feature_map.words()}"

    def _more_figures(self, trial: MapTrial) -> tuple[str, ...]:
        one = trial.feature_map
        return (f"{feature_bytes(one.n_components, 'bits' if one.one_bit else 'float32'):,}",)

    def _is_taken(self, trial: MapTrial) -> bool:
        return trial.feature_map.state() == self.feature_map.state()

    def state(self) -> MapChoiceState:
        """Return a JSON-able description."""
        return {
            "map": self.feature_map.state(),
            "trials": [
                {"map": each.feature_map.state(), "log_probability": each.log_probability, "r2": each.r2}
                for each in self.trials
            ],
            "n_rows": self.n_rows,
            "n_left_out": self.n_left_out,
        }

    @classmethod
    def from_state(cls, state: MapChoiceState) -> MapChoice:
        """Rebuild a choice from its `state`."""
        trials = tuple(
            MapTrial(from_state(each["map"]), each["log_probability"], each["r2"]) for each in state["trials"]
        )
        return cls(from_state(state["map"]), trials, state["n_rows"], state["n_left_out"])


def choose_map(
    candidates: Sequence[FeatureMap],
    X: Matrix,
    y: npt.ArrayLike,
    *,
    random_state: int = 0,
    options: ProcessOptions | None = None,
    on_trial: Callable[[str], None] | None = None,
    used: Callable[[FeatureMap], FeatureMap] = lambda feature_map: feature_map,
) -> MapChoice:
    """Return the map that best predicts labels that it has not seen.

    A fifth of the labels, at most 2,000, are left out. Each map, with at most 1,024 features, is fitted to
    the other labels and predicts those left out. A length scale that is "auto" is found first, by
    `choose_length_scale` on the labels that are not left out. A map replaces an earlier one if its mean log
    probability is better by more than 0.01 and by more than a standard error.

    Parameters
    ----------
    candidates : sequence of FeatureMap
        In the order of preference.
    X : array of shape (n, d)
        All rows are used: if there are many, pass a sample.
    y : array, shape (n,) or (n, n_targets)
        NaN where a row has no value of a target. Log probabilities are means over all values.
    random_state : int
        Seed of the choice of labels that are left out.
    options : mapping, optional
        Parameters of the processes, such as a noise variance that is known.
    on_trial : callable, optional
        Called with words for each map, and each length scale, before it is tried.
    used : callable, optional
        As in `choose_length_scale`.

    Raises
    ------
    InputError
        If no maps are given, or the numbers of rows and labels differ.

    Examples
    --------
    >>> X = np.random.default_rng(0).poisson(1.0, (100, 8))
    >>> choice = choose_map(AutoMap(32).candidates, X, X @ np.arange(8.0))
    >>> choice.feature_map.facts.name
    'nystrom'
    """
    if not candidates:
        raise InputError("candidates is empty: pass at least one feature map.")
    X = check_rows(X, candidates[0])
    targets = labels_by_target(y, X.shape[0])
    n, report = len(targets), on_trial or (lambda words: None)
    if n < _FEWEST or typical_distance(X, random_state) == 0.0:
        first = candidates[0]
        usual = with_length_scale(first, usual_length_scale(X)) if undecided(first) else first
        return MapChoice(usual, n_rows=n)
    order = np.argsort(seeds.words(random_state, "gp/mapchoice", n), kind="stable")
    n_out = min(_LEFT_OUT, n // 5)
    out, rest = np.sort(order[:n_out]), np.sort(order[n_out:])
    parts = _Parts(X[rest], targets[rest], X[out], targets[out], options or {}, report, used)
    trials, scores = [], []
    for candidate in candidates:
        one = parts.decided(candidate, random_state)
        report(MapTrial(one, 0.0, 0.0).name)
        log_probability, r2 = parts.score(used(_small(one)))
        trials.append(MapTrial(one, float(log_probability.mean()), r2))
        scores.append(log_probability)
    taken = first_of_the_best(scores)
    return MapChoice(trials[taken].feature_map, tuple(trials), n, n_out)


def _small(feature_map: FeatureMap) -> FeatureMap:
    """Return the map with at most as many features as a trial may have."""
    n_components = min(feature_map.n_components, _MOST_FEATURES)
    return resized(feature_map, n_components, feature_map.seed_)


@dataclass(frozen=True)
class _Parts:
    """The rows and labels that maps are fitted to, and those that are left out."""

    X: Matrix
    y: Double
    X_out: Matrix
    y_out: Double
    options: ProcessOptions
    on_trial: Callable[[str], None]
    used: Callable[[FeatureMap], FeatureMap]

    def decided(self, feature_map: FeatureMap, seed: int) -> FeatureMap:
        """Return the map; if its length scale is "auto", with the best one for the known labels."""
        if not undecided(feature_map):
            return feature_map
        search = choose_length_scale(
            _small(feature_map),
            self.X,
            self.y,
            options=self.options,
            on_trial=self.on_trial,
            random_state=seed,
            used=self.used,
        )
        return with_length_scale(feature_map, search.length_scale)

    def score(self, feature_map: FeatureMap) -> tuple[Double, float]:
        """Return the log probability of each value that is left out, and R2 over all of them."""
        densities, squares, total = [], 0.0, 0.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # maps that do not suit the labels cause warnings
            for y, y_out in zip(self.y.T, self.y_out.T, strict=True):
                labelled, left_out = np.isfinite(y), np.isfinite(y_out)
                gp = gp_for(feature_map, **self.options).fit(self.X[labelled], y[labelled])
                mean, std = gp.predict(self.X_out[left_out], return_std=True)
                errors = y_out[left_out] - mean
                densities.append(-0.5 * (np.log(2 * math.pi * std**2) + (errors / std) ** 2))
                scale = max(float(y[labelled].var()), 1e-300)
                squares += float(errors @ errors) / scale
                total += float(((y_out[left_out] - y_out[left_out].mean()) ** 2).sum()) / scale
        return np.concatenate(densities), 1.0 - squares / max(total, 1e-300)
