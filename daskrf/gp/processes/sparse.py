"""Sparse Gaussian processes on landmarks, in scikit-learn's manner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol, Self, cast, runtime_checkable

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.features.featuremap import FeatureMap, MapState
from daskrf.gp.processes.posterior import Factor, posterior_factor
from daskrf.gp.processes.prior import PriorPrecision
from daskrf.gp.processes.process import PER_TARGET, FeatureSpaceGP, FeatureSpaceState
from daskrf.gp.solve.roundoff import CoarseSumsError
from daskrf.gp.sums.statistics import Moments
from daskrf.gp.sums.sums import Statistics

_PART_OF_NOISE = 1e-4  # error allowed in variances; the bounds are far above real errors

Array = npt.NDArray[np.float64]


@runtime_checkable
class LandmarkMap(Protocol):
    """A map whose features are the kernel with landmarks."""

    n_components: int

    def prior_precision(self) -> Array:
        """Return the kernel among the landmarks."""

    def state(self) -> MapState:
        """Return what rebuilds the map."""


class SparseState(FeatureSpaceState):
    """What `SparseGP.state` returns."""

    criterion: Literal["evidence", "bound"]
    deficit: float
    prior_jitter: float
    bounds: list[float]


class SparseGP(FeatureSpaceGP):
    """Gaussian process regression through landmarks Z: the projected process, and Titsias' bound.

    y = mean + f(x) + noise, f ~ GP(0, signal_variance k), where the rows inform f only through f(Z).
    Everything is computed from sums over the rows of phi(x) = k(Z, x) (`SufficientStatistics`), whose weights
    have the prior precision K_ZZ / signal_variance: no n x M matrix is kept, and summing rows needs no
    triangular solves. Hyperparameters that are not given maximize `criterion` on all rows.

    Parameters
    ----------
    feature_map : LandmarkFeatures
        Any map with a `prior_precision`; `fit` lets it choose its landmarks from the rows that it is given.
    mean, signal_variance, noise_variance : float or array of shape (n_targets,), optional
        Hyperparameters to keep fixed; the others are optimized.
    criterion : {"evidence", "bound"}
        The criterion to maximize: the evidence of the projected process, which gives smaller errors and
        better standard deviations, or Titsias' lower bound on the evidence of the exact process.
    method : {"auto", "eigh", "cholesky"}
        As in `RandomFeatureGP`.

    Attributes
    ----------
    mean_, signal_variance_, noise_variance_ : float64 arrays, shape (n_targets,)
    weights_ : float64 array, shape (M, n_targets)
        A prediction is mean_ + phi(x) . weights_.
    log_marginal_likelihoods_, bounds_ : float64 arrays, shape (n_targets,)
        Both criteria at the fitted hyperparameters, whichever was maximized.
    log_marginal_likelihood_value_ : float, or float64 array of shape (n_targets,) for several targets
        Evidence of the projected process.
    deficit_ : float
        Sum of k(x, x) - phi(x)^T K_ZZ^-1 phi(x) over the rows: 0 if the landmarks explain all of them.
    left_out_, mean_left_ : as in `RandomFeatureGP`
        If the noise is given, or `criterion` is the bound, `left_out_` is the signal variance and
        `mean_left_` is 0: the standard deviations of the projected process.
    at_bound_ : bool array, shape (n_targets,)
        As in `RandomFeatureGP`.
    jitter_, prior_jitter_ : float
        Largest jitter that the factorizations of Phi^T Phi and of K_ZZ needed (for repeated or nearly
        identical landmarks); usually 0.
    statistics_ : SufficientStatistics
    feature_map_, landmark_map_ : LandmarkFeatures
        With `feature_map_` set to None, `predict` takes features instead of rows.

    Notes
    -----
    Source: Seeger, Williams & Lawrence 2003 and Quinonero-Candela & Rasmussen 2005, section 5 (the projected
    process, there DTC: evidence, eqs. 20 - 21 mean and variance); Titsias 2009, eq. 9 (the bound). With
    K_ZZ = L L^T the evidence is that of a `RandomFeatureGP` with the features L^-1 phi(x), whose sums follow
    from those of phi(x) in M^3 operations.

    Examples
    --------
    >>> from daskrf.features import LandmarkFeatures
    >>> X = np.array([[1, 0], [2, 0], [4, 0], [0, 1], [0, 2]])
    >>> gp = SparseGP(LandmarkFeatures(5), noise_variance=1e-6).fit(X, [1.0, 2.0, 3.0, 7.0, 8.0])
    >>> gp.predict(X[:2]).round(3).tolist()
    [1.0, 2.0]
    """

    _options = ("method", "criterion")
    _per_target = (*PER_TARGET, "left_out_", "bounds_")
    _numbers = (*FeatureSpaceGP._numbers, "deficit_", "prior_jitter_")

    def __init__(
        self,
        feature_map: FeatureMap | None = None,
        *,
        mean: npt.ArrayLike | None = None,
        signal_variance: npt.ArrayLike | None = None,
        noise_variance: npt.ArrayLike | None = None,
        criterion: Literal["evidence", "bound"] = "evidence",
        method: Literal["auto", "eigh", "cholesky"] = "auto",
    ) -> None:
        self.feature_map = feature_map
        self.mean = mean
        self.signal_variance = signal_variance
        self.noise_variance = noise_variance
        self.criterion = criterion
        self.method = method

    def check_parameters(self, n_targets: int | None = None) -> None:
        super().check_parameters(n_targets)
        if self.criterion not in ("evidence", "bound"):
            raise InputError(f"criterion must be 'evidence' or 'bound', not {self.criterion!r}.")

    def cautions(self, target: int = 0) -> list[str]:
        reasons = super().cautions(target)
        if reasons and self.criterion == "bound":
            reasons[0] += (
                "; more landmarks may help, or criterion='evidence' (--criterion evidence) in place of it"
            )
        return reasons

    def log_bound(
        self,
        mean: float | None = None,
        signal_variance: float | None = None,
        noise_variance: float | None = None,
        eval_gradient: bool = False,
        *,
        target: int = 0,
    ) -> float | tuple[float, npt.NDArray[np.float64]]:
        """Return Titsias' lower bound on log p(y), otherwise as `log_marginal_likelihood`."""
        self._check_fitted()
        return self._likelihood(mean, signal_variance, noise_variance, eval_gradient, target, self.deficit_)

    def state(self) -> SparseState:
        return {**cast(SparseState, super().state()), "feature_map": self.landmark_map_.state()}

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_prior": None}

    def _set_map(self, feature_map: FeatureMap | None) -> None:
        if feature_map is None or not isinstance(feature_map, LandmarkMap):
            raise InputError(
                f"SparseGP needs a map with landmarks, such as LandmarkFeatures, not {feature_map!r}."
            )
        super()._set_map(feature_map)
        self.landmark_map_: LandmarkMap = feature_map
        self._prior: PriorPrecision | None = None

    def _fit(self, statistics: Statistics) -> Self:
        self.check_parameters()
        n_landmarks = self.landmark_map_.n_components
        if statistics.one_bit or statistics.n_components != n_landmarks:
            kind = "one-bit" if statistics.one_bit else "dense"
            raise InputError(
                f"the statistics are of {statistics.n_components} {kind} features, not of the {n_landmarks} "
                "landmarks of the map: pass the map that they were computed with."
            )
        if statistics.precision != "double":  # whitening by K_ZZ would amplify rounding
            raise CoarseSumsError(
                "sums of landmark features in single precision are too coarse to whiten by K_ZZ: recompute "
                "them with precision='double', the gram_precision of the map."
            )
        super()._fit(statistics)
        penalties = 0.5 * self.deficit_ * self.signal_variance_ / self.noise_variance_
        if self.criterion == "bound":  # the search returned the bound
            self.log_marginal_likelihoods_ = self.log_marginal_likelihoods_ + penalties
        self.bounds_ = self.log_marginal_likelihoods_ - penalties
        self.prior_jitter_ = self._prior_factor().jitter
        return self

    def _prior_factor(self) -> PriorPrecision:
        """Return the factor of K_ZZ, computed from the landmarks once per worker."""
        if self._prior is None:
            self._prior = PriorPrecision(self.landmark_map_.prior_precision())
        return self._prior

    def _projection(self, feature_map: object) -> Callable[[Array], Array]:
        return self._project

    def _project(self, values: Array) -> Array:
        """Return K_ZZ^-1 g(Z), the weights that give the features the values g(Z) at the landmarks."""
        padded = np.zeros((self.landmark_map_.n_components, values.shape[1]))
        padded[: len(values)] = values
        return self._prior_factor().solve(padded)

    def _moments(self, statistics: Statistics) -> Moments:
        moments = self._prior_factor().whiten(statistics.moments())
        self.deficit_ = max(statistics.kernel_trace - moments.trace, 0.0)
        if self.criterion == "bound":
            moments.deficit = self.deficit_
        return moments

    def _feature_weights(self, weights: Array) -> Array:
        return self._prior_factor().to_features(weights)

    def _new_factor(self, statistics: Statistics, ratio: float) -> Factor:
        return posterior_factor(self._prior_factor().whiten(statistics.moments()), ratio)

    def _maximized(self) -> str:
        return "the evidence" if self.criterion == "evidence" else "the bound"

    def _noise_has_left_out(self) -> bool:
        # Titsias' bound penalizes the left-out variance itself, so its noise is that of the labels alone.
        return super()._noise_has_left_out() and self.criterion == "evidence"

    def _whitened(self, phi: npt.NDArray[np.number]) -> npt.NDArray[np.floating]:
        error = _PART_OF_NOISE * float((self.noise_variance_ / self.left_out_).min())
        return self._prior_factor().project(phi, error)
