"""What Gaussian processes in feature space have in common: all but where their moments come from."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import NotFittedError

from daskrf.compiled import bits as bit_engine
from daskrf.errors import InputError
from daskrf.features.base import from_state, map_key
from daskrf.gp.evidence import (
    CholeskySolver,
    EigenSolver,
    Hyperparameters,
    log_likelihood,
    solved_weights,
    with_deficit,
)
from daskrf.gp.fixedpoint import check_targets, choose_exponent
from daskrf.gp.posterior import PosteriorFactor, as_features, expanded_rows, standard_normal
from daskrf.gp.rows import check_of, check_rows, feature_blocks, refuse_unpacked_bits, sum_rows
from daskrf.gp.search import check_given, check_positive, find_hyperparameters
from daskrf.gp.stack import Statistics, statistics_from_arrays
from daskrf.gp.statistics import Moments, SufficientStatistics

__all__ = ["FeatureSpaceGP"]

EIGEN_LIMIT = 1024  # up to here one eigendecomposition costs less than about ten Cholesky factorizations
STATE_VERSION = 1
_FACTOR_LOCK = threading.Lock()

Array = npt.NDArray[np.float64]


class FeatureSpaceGP(RegressorMixin, BaseEstimator):
    """Regression from sums over rows of features; `RandomFeatureGP` and `SparseGP` say of what kind."""

    feature_map: Any
    mean: npt.ArrayLike | None
    amplitude: npt.ArrayLike | None
    noise: npt.ArrayLike | None
    method: Literal["auto", "eigh", "cholesky"]
    n_components: int | None = None
    statistics_: Any  # as `fit_statistics` takes them, or None
    _factors: dict[float, PosteriorFactor]
    _eigen: EigenSolver | None
    _before_eigen: Callable[[], None] | None = None

    def check_parameters(self, n_targets: int | None = None) -> None:
        """Raise InputError if a parameter is bad, as `fit` does before it sums anything."""
        if self.method not in ("auto", "eigh", "cholesky"):
            raise InputError(f"method must be 'auto', 'eigh' or 'cholesky', not {self.method!r}.")
        check_given(n_targets, mean=self.mean, amplitude=self.amplitude, noise=self.noise)

    def fit(self, X: Any, y: npt.ArrayLike) -> Self:
        """Fit to rows X (raw input of the feature map, or features) and targets y, (n,) or (n, n_targets).

        Raises
        ------
        InputError
            If y is not finite or has no variance, shapes do not fit, or a hyperparameter is out of range.
        """
        X, targets = check_rows(X, self.feature_map), check_targets(y)
        if len(targets) == 0:
            raise InputError("there is no row to fit to: pass at least one row with a label.")
        self.check_parameters(targets.shape[1])
        if self.feature_map is None and self.n_components is None:
            refuse_unpacked_bits(X)
        self._set_map(None if self.feature_map is None else clone(self.feature_map).fit(X))
        size = self.n_components if self.feature_map_ is None else self.feature_map_.n_components
        exponents = choose_exponent(targets)
        return self._fit(sum_rows(X, targets, self.feature_map_, n_components=size, exponents=exponents))

    def fit_statistics(
        self,
        statistics: Statistics,
        feature_map: Any = None,
        *,
        before_eigen: Callable[[], None] | None = None,
    ) -> Self:
        """Fit to statistics; `feature_map` (already fitted) then serves `predict`.

        `before_eigen` is called where Cholesky factors would lose digits and an eigendecomposition is to
        follow, which holds five M x M matrices instead of two: it may refuse that by an error.

        Raises
        ------
        InputError
            If there are no rows, y has no variance, a hyperparameter is out of range, or the statistics are
            of another map.
        """
        feature_map = feature_map if feature_map is not None else self.feature_map
        if feature_map is not None and statistics.map_key not in (None, map_key(feature_map.state())):
            raise InputError(
                f"the statistics are of the map {statistics.map_key}, not of {map_key(feature_map.state())}: "
                "pass the map that they were made with."
            )
        self._set_map(feature_map)
        self._before_eigen = before_eigen
        try:
            return self._fit(statistics)
        finally:
            self._before_eigen = None

    def partial_fit(self, X: Any, y: npt.ArrayLike) -> Self:
        """Add rows and fit again, to all rows seen: what `fit` on all of them gives, up to rounding.

        For one-bit maps the sums are exact, with y rounded on the fixed-point scale chosen from the first
        call. No rows at all change nothing.

        Raises
        ------
        InputError
            As `fit`, and if later y outgrow that scale (by 4,000 times the largest of the first call) or the
            sums do (see `choose_exponent`).
        """
        if not hasattr(self, "statistics_"):
            return self.fit(X, y)
        kept = self._kept_statistics()
        X, targets = check_rows(X, self.feature_map_), check_targets(y)
        if X.shape[0] == len(targets) == 0:
            return self
        self.check_parameters(targets.shape[1])
        size, exponents = kept.n_components, kept.y_exponents
        return self.add_statistics(
            sum_rows(X, targets, self.feature_map_, n_components=size, exponents=exponents)
        )

    def add_statistics(self, statistics: SufficientStatistics) -> Self:
        """Add the statistics of further rows and fit again."""
        self._check_fitted()
        return self._fit(self._kept_statistics().combine(statistics))

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        of: Literal["y", "f"] = "y",
        target: int | None = None,
    ) -> Any:
        """Return the predictive mean and, on request, the standard deviation or the joint covariance.

        The mean costs M multiply-adds a row. The deviation costs M^2 / 2 a row and, at the first call, one
        Cholesky factorization and inversion (2 M^3 / 3). The covariance needs n x M and n x n matrices at
        once: it is for small sets.

        Parameters
        ----------
        X : rows as for `fit`
        return_std, return_cov : bool
            At most one.
        of : {"y", "f"}
            Uncertainty of a new observation y (with noise) or of the function f (without).
        target : int, optional
            Mean and deviation of this target alone: each target has a factor of its own, of M x M.

        Returns
        -------
        mean : float64 array, shape (n,) or (n, n_targets)
        std : float64 array of the same shape, if `return_std`
        cov : float64 array, shape (n, n) or (n, n, n_targets), if `return_cov`
        """
        self._check_fitted()
        check_of(of)
        if return_std and return_cov:
            raise InputError("ask for return_std or return_cov, not for both.")
        if return_cov and target is not None:
            raise InputError("return_cov is of all targets: leave target out.")
        if return_cov:
            return self._predict_joint(X, of)
        chosen = list(range(len(self.mean_))) if target is None else [target]
        means, deviations = [np.empty((0, len(chosen)))], [np.empty((0, len(chosen)))]
        for phi in self._features(X):
            means.append(self._means(phi)[:, chosen])
            if return_std:
                deviations.append(np.sqrt(self._variances(phi, of, chosen)))
        mean = self._squeeze(np.concatenate(means))
        return (mean, self._squeeze(np.concatenate(deviations))) if return_std else mean

    def sample_weights(self, n: int, seed: int, target: int = 0) -> Array:
        """Return n exact draws from the posterior of the feature weights of one target, shape (M, n).

        mean_[target] + phi(x) . w is then a draw of the whole function f. Draw i does not depend on n.
        """
        self._check_fitted()
        if n < 0:
            raise InputError(f"the number of draws must not be negative, but is {n}.")
        noise = self._factor(target).sample(n, seed, target)
        return self.weights_[:, target, None] + np.sqrt(self.noise_[target]) * noise

    def draw(self, seed: int, target: int = 0) -> Self:
        """Return a model of one target whose mean is one exact posterior draw of the whole function.

        It has no statistics, hence no deviations of its own, and is not for storing: keep the model and the
        seed. Draw `seed` is ``sample_weights(1, seed)``.
        """
        drawn = self._blank({"method": self.method, "n_components": self.n_components})
        drawn.weights_ = self.sample_weights(1, seed, target)
        drawn.mean_ = self.mean_[[target]]
        drawn.feature_map_, drawn.one_bit_, drawn.statistics_ = self.feature_map_, self.one_bit_, None
        return drawn

    def sample_y(
        self,
        X: Any,
        n_samples: int = 1,
        random_state: int = 0,
        *,
        of: Literal["y", "f"] = "y",
        target: int = 0,
    ) -> Array:
        """Return draws from the posterior at the rows X, shape (n, n_samples); of y with noise, or of f.

        Draw i does not depend on n_samples.
        """
        check_of(of)
        weights = self.sample_weights(n_samples, random_state, target)
        blocks, variances = [np.empty((0, n_samples))], [np.empty(0)]
        for phi in self._features(X):
            self._check_width(phi)
            variances.append(self._own_variances(phi, of, target))
            for rows in expanded_rows(len(phi), len(weights), np.float64):
                features = as_features(phi[rows], len(weights), np.float64)
                blocks.append(features @ weights)
        draws = self.mean_[target] + np.concatenate(blocks)
        own = np.sqrt(np.concatenate(variances))
        if own.any():
            noise = standard_normal(random_state, f"gp/noise/{target}", len(draws), n_samples)
            draws += own[:, None] * noise
        return draws

    def log_marginal_likelihood(
        self,
        mean: float | None = None,
        amplitude: float | None = None,
        noise: float | None = None,
        eval_gradient: bool = False,
        *,
        target: int = 0,
    ) -> Any:
        """Return log p(y) of one target, and its gradient in (mean, amplitude, noise) on request.

        Values that are not given are the fitted ones. Each call costs one Cholesky factorization, or O(M) on
        the "eigh" route, which keeps its decomposition.
        """
        return self._likelihood(mean, amplitude, noise, eval_gradient, target, 0.0)

    def state(self) -> dict[str, Any]:
        """Return what describes the fitted model, JSON-able; with `arrays` it rebuilds the model."""
        self._check_fitted()
        if not hasattr(self, "noise_"):
            raise InputError(
                "a posterior draw cannot be stored: store the model, and draw again by the seed."
            )
        given = {name: getattr(self, name) for name in ("mean", "amplitude", "noise")}
        names = ("mean_", "amplitude_", "noise_", "log_marginal_likelihoods_", "at_bound_")
        return {
            "class": type(self).__name__,
            "version": STATE_VERSION,
            "n": self.n_rows_,
            "n_components": len(self.weights_),
            "one_bit": self.one_bit_,
            "method": self.method,
            "given": {k: None if v is None else np.asarray(v).tolist() for k, v in given.items()},
            "jitter": self.jitter_,
            "feature_map": None if self.feature_map_ is None else self.feature_map_.state(),
            **{name.rstrip("_"): getattr(self, name).tolist() for name in names},
        }

    def arrays(self, *, statistics: bool = True) -> dict[str, npt.NDArray[Any]]:
        """Return the weights and (needed for deviations, samples and partial_fit) the statistics."""
        self._check_fitted()
        arrays = {"weights": self.weights_}
        if statistics and self.statistics_ is not None:
            arrays.update({f"statistics/{k}": v for k, v in self.statistics_.arrays().items()})
        return arrays

    @classmethod
    def from_state(cls, state: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Rebuild a fitted model from `state` and `arrays`.

        Raises
        ------
        InputError
            If the state is of another version, or the weights are missing.
        """
        if state.get("version") != STATE_VERSION or "weights" not in arrays:
            raise InputError(
                f"the model has state version {state.get('version')!r}, but this daskrf reads "
                f"version {STATE_VERSION}: fit again."
            )
        model = cls._blank(state, **state["given"])
        model._set_map(None if state["feature_map"] is None else from_state(state["feature_map"]))
        model.feature_map = model.feature_map_
        for name in ("mean", "amplitude", "noise", "log_marginal_likelihoods"):
            setattr(model, f"{name}_", np.array(state[name], dtype=np.float64))
        model.at_bound_ = np.array(state["at_bound"], dtype=bool)
        model.n_rows_, model.one_bit_, model.jitter_ = state["n"], state["one_bit"], state["jitter"]
        model.weights_ = np.asarray(arrays["weights"], dtype=np.float64)
        kept = {k.removeprefix("statistics/"): v for k, v in arrays.items() if k.startswith("statistics/")}
        model.statistics_ = statistics_from_arrays(kept) if kept else None
        model._factors, model._eigen = {}, None
        return model

    @property
    def log_marginal_likelihood_value_(self) -> Any:
        """Evidence of the fitted hyperparameters: a float, or an array for several targets."""
        values = self.log_marginal_likelihoods_
        return float(values[0]) if len(values) == 1 else values

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_factors": {}, "_eigen": None}

    @classmethod
    @abstractmethod
    def _blank(cls, parameters: dict[str, Any], **given: Any) -> Self:
        """Return an unfitted model with the parameters of a state."""

    def _set_map(self, feature_map: Any) -> None:
        """Take a fitted feature map (or None: features are given)."""
        self.feature_map_ = feature_map

    def _features(self, X: Any) -> Iterator[npt.NDArray[Any]]:
        """Yield what rows are predicted by: packed bits or features, by blocks."""
        return feature_blocks(X, self.feature_map_)

    def _moments(self, statistics: SufficientStatistics) -> Moments:
        """Return moments of features whose weights have the prior variance `amplitude` each."""
        return statistics.moments()

    def _feature_weights(self, weights: Array) -> Array:
        """Return the weights of features from those of the features of `_moments`."""
        return weights

    def _new_factor(self, statistics: SufficientStatistics, ratio: float) -> PosteriorFactor:
        return PosteriorFactor(statistics, ratio)

    def _own_variances(self, phi: npt.NDArray[Any], of: str, target: int) -> Array:
        """Return the variance of each row that it shares with no other row."""
        return np.full(len(phi), self.noise_[target] if of == "y" else 0.0)

    def _left_out(self, X: Any, phi: npt.NDArray[Any], target: int) -> Array | float:
        """Return the prior covariance of f at the rows that features leave out."""
        return 0.0

    def _check_statistics(self, statistics: Any) -> None:
        if not isinstance(statistics, SufficientStatistics):
            raise InputError(f"{type(self).__name__} takes no sums about centroids: use LocalGaussianGP.")

    def _fit(self, statistics: Any) -> Self:
        self.check_parameters()
        self._check_statistics(statistics)
        if statistics.n == 0:
            raise InputError("there is no row to fit to: pass at least one row with a label.")
        solver = self._solver(statistics)
        found = self._search(solver)
        if any(solver.loses_digits(hyperparameters.ratio) for hyperparameters, _ in found):
            if self._before_eigen is not None:
                self._before_eigen()
            del solver  # and its matrix, before the next one is made
            solver = EigenSolver(self._moments(statistics))
            found = self._search(solver)
        fitted = [hyperparameters for hyperparameters, _ in found]
        moments = solver.moments
        weights, self.jitter_ = self._weights(statistics, solver, fitted)
        self.statistics_ = statistics
        self.n_rows_, self.one_bit_ = statistics.n, statistics.one_bit
        self.mean_ = np.array([h.mean for h in fitted]) + moments.shift
        self.amplitude_ = np.array([h.amplitude for h in fitted])
        self.noise_ = np.array([h.noise for h in fitted])
        self.log_marginal_likelihoods_ = np.array([h.log_marginal_likelihood for h in fitted])
        self.at_bound_ = np.array([at_bound for _, at_bound in found])
        self.weights_ = self._feature_weights(weights)
        self._factors = {}
        self._eigen = solver if isinstance(solver, EigenSolver) else None
        return self

    def _weights(
        self,
        statistics: SufficientStatistics,
        solver: EigenSolver | CholeskySolver,
        fitted: list[Hyperparameters],
    ) -> tuple[Array, float]:
        """Return the posterior mean of the weights of each target, and the largest jitter."""
        factor = solver.factor if isinstance(solver, CholeskySolver) else None
        return solved_weights(solver.moments, fitted, factor)

    def _search(self, solver: EigenSolver | CholeskySolver) -> list[tuple[Hyperparameters, bool]]:
        return find_hyperparameters(solver, mean=self.mean, amplitude=self.amplitude, noise=self.noise)

    def _solver(self, statistics: SufficientStatistics) -> EigenSolver | CholeskySolver:
        eigen = self.method == "eigh" or (self.method == "auto" and statistics.n_components <= EIGEN_LIMIT)
        return (EigenSolver if eigen else CholeskySolver)(self._moments(statistics))

    def _likelihood(
        self,
        mean: float | None,
        amplitude: float | None,
        noise: float | None,
        eval_gradient: bool,
        target: int,
        deficit: float,
    ) -> Any:
        statistics = self._kept_statistics()
        given = [mean, amplitude, noise]
        fitted = [self.mean_[target], self.amplitude_[target], self.noise_[target]]
        m, a, s = (float(f if g is None else g) for g, f in zip(given, fitted, strict=True))
        check_positive("amplitude", a)
        check_positive("noise", s)
        solver = self._eigen or self._solver(statistics)
        if solver.loses_digits(s / a):
            solver = EigenSolver(self._moments(statistics))
        if isinstance(solver, EigenSolver):
            self._eigen = solver
        m -= float(solver.moments.shift[target])
        solver = with_deficit(solver, deficit)
        value, gradient = log_likelihood(solver, m, a, s, target, gradient=eval_gradient)
        return (value, gradient) if eval_gradient else value

    def _means(self, phi: npt.NDArray[Any]) -> Array:
        self._check_width(phi)
        if phi.dtype == np.uint8:
            scale = 1.0 / np.sqrt(len(self.weights_))
            return bit_engine.bit_means(phi, len(self.weights_), self.weights_ * scale) + self.mean_
        means = np.empty((len(phi), self.weights_.shape[1]))
        for rows in expanded_rows(len(phi), len(self.weights_), np.float64):
            means[rows] = phi[rows].astype(np.float64, copy=False) @ self.weights_
        return means + self.mean_

    def _variances(self, phi: npt.NDArray[Any], of: str, targets: list[int]) -> Array:
        variances = np.empty((len(phi), len(targets)))
        for i, t in enumerate(targets):
            factor = self._factor(t)
            variances[:, i] = factor.variances(phi, len(self.weights_)) * self.noise_[t]
        return variances + (self.noise_[targets] if of == "y" else 0.0)

    def _predict_joint(self, X: Any, of: str) -> tuple[Array, Array]:
        size = len(self.weights_)
        empty = np.empty((0, -(-size // 8)), np.uint8) if self.one_bit_ else np.empty((0, size), np.float32)
        phi = np.concatenate(list(self._features(X)) or [empty])
        self._check_width(phi)
        covariances = []
        for t in range(len(self.mean_)):
            factor, white = self._factor(t), np.empty((len(phi), size))
            for rows in expanded_rows(len(phi), size, factor.root.dtype):
                white[rows] = factor.whiten(phi[rows], size)
            covariance = self.noise_[t] * (white @ white.T) + self._left_out(X, phi, t)
            if of == "y":
                covariance[np.diag_indices(len(phi))] += self.noise_[t]
            covariances.append(covariance)
        joint = covariances[0] if len(covariances) == 1 else np.stack(covariances, axis=-1)
        return self._squeeze(self._means(phi)), joint

    def _factor(self, target: int) -> PosteriorFactor:
        """Return the factor of one target, made once per process; targets of one ratio share it."""
        statistics = self._kept_statistics()
        ratio = float(self.noise_[target] / self.amplitude_[target])
        with _FACTOR_LOCK:
            if ratio not in self._factors:
                self._factors[ratio] = self._new_factor(statistics, ratio)
            return self._factors[ratio]

    def _kept_statistics(self) -> SufficientStatistics:
        self._check_fitted()
        if self.statistics_ is None:
            raise InputError(
                "this model is without statistics (stored so, or a draw) and predicts means only."
            )
        if self.statistics_.n != self.n_rows_:
            raise InputError(
                f"the statistics had {self.n_rows_} rows when the model was fitted, and have "
                f"{self.statistics_.n} now: call fit_statistics again."
            )
        return self.statistics_

    def _check_width(self, phi: npt.NDArray[Any]) -> None:
        packed = phi.dtype == np.uint8
        width = -(-len(self.weights_) // 8) if packed else len(self.weights_)
        if (packed and not self.one_bit_) or phi.shape[1] != width:
            kind = "one-bit" if self.one_bit_ else "dense"
            raise InputError(
                f"the model has {len(self.weights_)} {kind} features, which does not fit rows of {phi.dtype} "
                f"with {phi.shape[1]} columns: use the map it was fitted with."
            )

    def _check_fitted(self) -> None:
        if not hasattr(self, "weights_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first.")

    def _squeeze(self, values: Array) -> Array:
        return values[:, 0] if values.shape[1] == 1 else values
