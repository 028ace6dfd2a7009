"""Gaussian processes with local Maclaurin features, in scikit-learn's manner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, Self, cast

import numpy as np
import numpy.typing as npt

from daskrf import estimators
from daskrf.arrays import MatrixLike
from daskrf.errors import InputError
from daskrf.features.featuremap import FeatureMap
from daskrf.features.localgaussian import nearest_blocks, refuse_half
from daskrf.gp.processes.evidence import Hyperparameters, solved_weights
from daskrf.gp.processes.posterior import Factor, PosteriorFactor, standard_normal
from daskrf.gp.processes.process import FeatureSpaceGP, FeatureSpaceState
from daskrf.gp.solve.solvers import CholeskySolver, EigenSolver
from daskrf.gp.sums.chunks import FeatureBlock, feature_blocks
from daskrf.gp.sums.sums import StackedStatistics, Statistics

_COPIED_ENTRIES = 1 << 22  # features copied at a time
_LITTLE_NOISE = 0.01  # of the signal variance

Array = npt.NDArray[np.float64]


class LocalState(FeatureSpaceState):
    """What `LocalGaussianGP.state` returns."""

    rows: Literal["all", "nearest"]
    residual: bool


class LocalGaussianGP(FeatureSpaceGP):
    """Regression with the Gaussian kernel and a separate posterior around each of C centroids.

    y = mean + f(x) + noise, f ~ GP(0, signal_variance k), k(x, x') = exp(-|x - x'|^2 / (2 l^2)). Each
    centroid has D features from an expansion of k about it, which are accurate near it and vanish far away,
    and a Gram matrix of all rows; a new row is predicted by the nearest centroid. High frequencies, which no
    series about a single centre can represent, therefore cost C Gram matrices of D x D, all summed in one
    pass over the rows.

    Parameters
    ----------
    feature_map : LocalGaussianFeatures
    mean, signal_variance, noise_variance : float or array of shape (n_targets,), optional
        Hyperparameters to keep fixed, the same for all centroids. The others maximize the evidence of a model
        in which the nearest centroid alone describes each row, and rows of different centroids are
        independent. `daskrf.gp.choose_length_scale` finds the length scale by the same evidence.
    rows : {"all", "nearest"}, default "all"
        Rows that inform the posterior of a centroid. "nearest" is better if every centroid has many rows:
        features of distant rows vanish, so their labels look to the model like unexpected noise, and all the
        more if noise_variance / signal_variance is small. Use "nearest" if that is 0.01 or less: with all
        rows, standard deviations are then several times too small, and errors larger. In Python the
        statistics serve both: ``gp.set_params(rows=...)`` and then
        ``gp.fit_statistics(gp.statistics_, gp.feature_map_)`` need no further pass.
    residual : bool, default True
        Let the variance of f at x include the part 1 - |phi(x)|^2 of k(x, x) that features leave out. Far
        from all centroids the standard deviation is then that of the prior, instead of 0.

    Attributes
    ----------
    mean_, signal_variance_, noise_variance_, at_bound_, jitter_, feature_map_ : as in `RandomFeatureGP`
    log_marginal_likelihood_value_ : float, or float64 array of shape (n_targets,) for several targets
        Sum over the centroids of the evidence of the rows nearest to each.
    weights_ : float64 array, shape (M, n_targets)
    rows_ : {"all", "nearest"}
        `rows` at the last fit, which also applies to standard deviations and samples.
    statistics_ : StackedStatistics
    local_map_ : LocalGaussianFeatures
        With `feature_map_` set to None, `predict` takes features (of all centroids) instead of rows.

    Notes
    -----
    Source: Wacker & Filippone 2022, algorithm 1, where all training rows contribute to the posterior of every
    centroid. The published loop skips the first centroid, the mean; here it has a posterior, too. The paper
    takes hyperparameters from an exact Gaussian process, which is possible here with `ExactGP`. The residual
    is not in the paper. Predictions jump where the nearest centroid changes. Joint covariances and samples
    treat values of f at rows of different centroids as independent, except for the residual, which is one
    function of all rows.

    For w of `sample_weights`, mean_[target] + phi(x) . w, phi(x) from
    `LocalGaussianFeatures.transform_nearest`, is a posterior sample of f without its residual.

    Examples
    --------
    >>> from daskrf.features import LocalGaussianFeatures
    >>> X = np.linspace(-9, 9, 200)[:, None]
    >>> local = LocalGaussianFeatures(400, n_centroids=10)
    >>> gp = LocalGaussianGP(local, noise_variance=1e-3).fit(X, np.sin(2 * X[:, 0]))
    >>> mean, std = gp.predict([[0.5], [40.0]], return_std=True, of="f")
    >>> bool(abs(mean[0] - np.sin(1.0)) < 0.01), bool(abs(std[1] - gp.signal_variance_[0] ** 0.5) < 1e-6)
    (True, True)
    """

    method: Literal["auto", "eigh", "cholesky"] = "eigh"
    _options = ("rows", "residual")
    samples_variances = False  # each centroid has a posterior of its own

    def __init__(
        self,
        feature_map: FeatureMap | None = None,
        *,
        mean: npt.ArrayLike | None = None,
        signal_variance: npt.ArrayLike | None = None,
        noise_variance: npt.ArrayLike | None = None,
        rows: Literal["all", "nearest"] = "all",
        residual: bool = True,
    ) -> None:
        self.feature_map = feature_map
        self.mean = mean
        self.signal_variance = signal_variance
        self.noise_variance = noise_variance
        self.rows = rows
        self.residual = residual

    def check_parameters(self, n_targets: int | None = None) -> None:
        super().check_parameters(n_targets)
        if self.rows not in ("all", "nearest"):
            raise InputError(f"rows must be 'all' or 'nearest', not {self.rows!r}.")
        if not isinstance(self.residual, (bool, np.bool_)):
            raise InputError(f"residual must be True or False, not {self.residual!r}.")

    def cautions(self, target: int = 0) -> list[str]:
        reasons = super().cautions(target)
        if (
            self.rows_ == "all"
            and self.noise_variance_[target] < _LITTLE_NOISE * self.signal_variance_[target]
        ):
            reasons.append(
                "with so little noise, posteriors of all rows are overconfident: use the nearest rows only "
                "(rows='nearest', --rows nearest)"
            )
        return reasons

    def draw(self, seed: int, target: int = 0) -> Self:
        """Return a model of one target whose mean is one posterior sample, as other models do.

        Samples around different centroids are independent, so the function jumps between them. With the
        residual, far from all centroids it is a sample from the prior.
        """
        return super().draw(seed, target)

    def _prior_samples(self, X: MatrixLike, n_samples: int, random_state: int, of: str, target: int) -> Array:
        """Raise: around which centroids there are samples is known after the fit."""
        raise estimators.not_fitted(self)

    def drawn(self, weights: Array, seed: int, target: int = 0) -> Self:
        drawn = super().drawn(weights, seed, target)
        drawn.local_map_ = self.local_map_
        return drawn

    def state(self) -> LocalState:
        state = cast(LocalState, super().state())
        return {**state, "rows": self.rows_, "feature_map": self.local_map_.state()}

    @classmethod
    def from_state(cls, state: Mapping[str, object], arrays: Mapping[str, npt.NDArray[np.generic]]) -> Self:
        model = super().from_state(state, arrays)
        model.rows_ = model.rows
        return model

    def _set_map(self, feature_map: FeatureMap | None) -> None:
        if feature_map is None or getattr(feature_map, "gram_block", None) is None:
            raise InputError(
                f"LocalGaussianGP needs a map with centroids, LocalGaussianFeatures, not {feature_map!r}."
            )
        super()._set_map(feature_map)
        self.local_map_: FeatureMap = feature_map
        if not self.residual:
            self._projects = self._residual = None

    def _features(
        self, X: MatrixLike, diagonal: npt.ArrayLike | None = None, rows: MatrixLike | None = None
    ) -> Iterator[FeatureBlock]:
        """Yield features with only the block of the nearest centroid filled, and 0 elsewhere."""
        made, size = self.feature_map_ is not None, self.local_map_.block_size
        transform = None if self.feature_map_ is None else self.feature_map_.transform_nearest
        for phi, _, block_rows in feature_blocks(X, self.feature_map_, transform, rows=rows):
            self._check_width(phi)
            refuse_half(phi.dtype)
            step = max(1, _COPIED_ENTRIES // phi.shape[1])
            for start in range(0, len(phi), step):
                piece = phi[start : start + step]
                piece_rows = None if block_rows is None else block_rows[start : start + step]
                yield FeatureBlock(piece if made else _nearest_only(piece, size), None, piece_rows)

    def _check_statistics(self, statistics: object) -> None:
        if not isinstance(statistics, StackedStatistics):
            raise InputError(
                "LocalGaussianGP is fitted to StackedStatistics, a Gram matrix for each centroid: compute "
                "the sums with its map."
            )
        mine = (statistics.n_components, statistics.block_size)
        if mine != (self.local_map_.n_components, self.local_map_.block_size):
            raise InputError(
                f"the statistics are of {mine[0]} features in blocks of {mine[1]}, unlike those of the map: "
                "pass the map that they were made with."
            )

    def _fit(self, statistics: Statistics) -> Self:
        self.check_parameters()  # before `rows_` changes, which standard deviations of the last fit use
        self.rows_ = self.rows
        return super()._fit(statistics)

    def _weights(
        self, statistics: Statistics, solver: EigenSolver | CholeskySolver, fitted: list[Hyperparameters]
    ) -> tuple[Array, float]:
        assert isinstance(statistics, StackedStatistics)
        blocks, nearest = range(len(statistics.grams)), self.rows_ == "nearest"
        moments = (statistics.block_moments(block, nearest=nearest) for block in blocks)
        parts = [solved_weights(each, fitted, claimed=False) for each in moments]
        weights = np.zeros((statistics.n_components, len(fitted)))
        stacked = np.concatenate([mean for mean, _ in parts])
        weights[: len(stacked)] = stacked
        return weights, max(jitter for _, jitter in parts)

    def _new_factor(self, statistics: Statistics, ratio: float) -> Factor:
        assert isinstance(statistics, StackedStatistics)
        return StackedFactor(statistics, ratio, nearest=self.rows_ == "nearest")

    def _means(self, phi: npt.NDArray[np.number]) -> Array:
        self._check_width(phi)
        means, size = np.zeros((len(phi), self.weights_.shape[1])), self.local_map_.block_size
        for _, rows, columns in nearest_blocks(phi, size):
            means[rows] = phi[rows, columns].astype(np.float64, copy=False) @ self.weights_[columns]
        return means + self.mean_


def _nearest_only(phi: npt.NDArray[np.number], size: int) -> npt.NDArray[np.floating]:
    """Return a copy of features that is 0 outside the block of each row's nearest centroid."""
    nearest = np.zeros_like(phi)
    for _, rows, columns in nearest_blocks(phi, size):
        nearest[rows, columns] = phi[rows, columns]
    return nearest


class StackedFactor:
    """A `PosteriorFactor` for each centroid, for features with one nonzero block per row.

    Parameters
    ----------
    statistics : StackedStatistics
    ratio : float
        noise_variance / signal_variance.
    nearest : bool
        Whether to use only the rows nearest to each centroid.
    """

    def __init__(self, statistics: StackedStatistics, ratio: float, *, nearest: bool) -> None:
        moments = (statistics.block_moments(b, nearest=nearest) for b in range(len(statistics.grams)))
        self._parts = [PosteriorFactor(each, ratio) for each in moments]
        self._size, self._n_components = statistics.block_size, statistics.n_components
        self.jitter = max(factor.jitter for factor in self._parts)

    @property
    def root(self) -> npt.NDArray[np.floating]:
        """R with R R^T = A^-1 of the first centroid."""
        return self._parts[0].root

    def whiten(self, phi: npt.NDArray[np.number], n_components: int) -> Array:
        """Return Z with Z Z^T = Phi A^-1 Phi^T, 0 for rows of different centroids; shape (n, M)."""
        white = np.zeros((len(phi), n_components))
        for rows, columns, factor in self._rows(phi):
            white[rows, columns] = factor.whiten(phi[rows, columns], self._size)
        return white

    def variances(self, phi: npt.NDArray[np.number], n_components: int) -> Array:
        """Return the variance of f at each row, divided by the noise variance, shape (n,)."""
        variances = np.empty(len(phi))
        for rows, columns, factor in self._rows(phi):
            variances[rows] = factor.variances(phi[rows, columns], self._size)
        return variances

    def sample(self, n: int, seed: int, target: int) -> Array:
        """Return n samples of all weights, shape (M, n), independent between blocks."""
        draws = standard_normal(seed, f"gp/weights/{target}", self._n_components, n)
        for block, factor in enumerate(self._parts):
            rows = slice(block * self._size, (block + 1) * self._size)
            draws[rows] = factor.coloured(draws[rows])
        draws[len(self._parts) * self._size :] = 0.0
        return draws

    def _rows(
        self, phi: npt.NDArray[np.number]
    ) -> Iterator[tuple[npt.NDArray[np.intp], slice, PosteriorFactor]]:
        """Yield, for each centroid with rows, these rows, the columns of its features, and its factor."""
        for block, rows, columns in nearest_blocks(phi, self._size):
            yield rows, columns, self._parts[block]
