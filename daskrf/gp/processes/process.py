"""Gaussian processes in feature space, in scikit-learn's manner."""

from __future__ import annotations

import copy
import functools
import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Literal, Self, TypedDict, cast, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from daskrf.arrays import (
    Matrix,
    MatrixLike,
    NamedArrays,
    as_csr,
    check_columns_of,
    check_rows_to_fit,
    check_width_of,
    learn_columns,
)
from daskrf.documents import OfClass
from daskrf.engine import engine
from daskrf.errors import CalibrationWarning, InputError
from daskrf.estimators import clone
from daskrf.features.featuremap import FeatureMap, MapState, check_feature_map, from_state, map_key
from daskrf.features.foldedfeatures import FoldedFeatures
from daskrf.features.nystrom import NystromFeatures
from daskrf.gp.processes.evidence import (
    Hyperparameters,
    check_given,
    check_variance,
    find_hyperparameters,
    fixed_value,
    log_likelihood,
    solved_weights,
)
from daskrf.gp.processes.featurelimits import (
    StandIns,
    fit_feature_limits,
    likelihood_with_limits,
    refuse_all_limits,
)
from daskrf.gp.processes.limits import Sides, check_sides
from daskrf.gp.processes.posterior import (
    Factor,
    LowRankFactor,
    PosteriorFactor,
    expanded_rows,
    posterior_factor,
    standard_normal,
)
from daskrf.gp.processes.regressor import Regressor, mean_and_std
from daskrf.gp.processes.residual import Residual, ResidualDraws
from daskrf.gp.processes.sampledvariances import SampledVariances
from daskrf.gp.solve.roundoff import CoarseSumsError
from daskrf.gp.solve.solvers import CholeskySolver, EigenSolver, few_rows, with_deficit
from daskrf.gp.sums.chunks import (
    FeatureBlock,
    check_n_samples,
    check_of,
    check_rows,
    feature_blocks,
    refuse_unpacked_bits,
    sum_rows,
)
from daskrf.gp.sums.fixedpoint import check_targets, choose_exponent
from daskrf.gp.sums.statistics import Moments, SufficientStatistics
from daskrf.gp.sums.sums import GramStrip, Statistics, Summation
from daskrf.kernels.kernel import Kernel

EIGEN_LIMIT = 1024  # up to here one eigendecomposition is cheaper than about ten Cholesky factorizations
STATE_VERSION = 3
NO_LIMITS = (
    "{} takes measured labels alone, and some are limits: leave these out, or take an exact process or a map "
    "without landmarks and centroids."
)
PER_TARGET = (
    *("mean_", "signal_variance_", "noise_variance_"),
    *("log_marginal_likelihoods_", "at_bound_"),
)
"""Attributes of a fitted model with one entry per target."""
_SMALLEST_LEFT = 1e-6  # relative to k(x, x): if features leave out less, it is their rounding
_FEW_LEFT = 0.05  # of the signal variance: with less, labels contradict the prior of what features leave out
_ROUNDING = 1e-3  # relative error of a standard deviation by rounding, at most
_ROUNDED = 1e-5  # of 1 - k h in single precision: below, it has no digits
_FACTOR_LOCK = threading.Lock()

Array = npt.NDArray[np.float64]


class FixedValues(TypedDict):
    """The hyperparameters that the user fixed, one or one for each target; None for those optimized."""

    mean: float | list[float] | None
    signal_variance: float | list[float] | None
    noise_variance: float | list[float] | None


class FeatureSpaceState(OfClass):
    """What `FeatureSpaceGP.state` returns; further kinds of model add what they need."""

    version: int
    n: int
    one_bit: bool
    method: Literal["auto", "eigh", "cholesky"]
    n_components: int
    given: FixedValues
    feature_map: MapState | None
    jitter: float
    mean_left: float
    mean: list[float]
    signal_variance: list[float]
    noise_variance: list[float]
    log_marginal_likelihoods: list[float]
    at_bound: list[bool]
    left_out: list[float]


class FeatureSpaceGP(Regressor):
    """Base class of regression from sums over rows of features: see `RandomFeatureGP` and `SparseGP`."""

    common: ClassVar[tuple[str, ...]] = (
        "feature_map",
        "mean",
        "signal_variance",
        "noise_variance",
        "method",
        "n_components",
    )
    """Parameters shared by several kinds of model."""

    _weights_name = "weights_"

    # The parameters and fitted attributes in a state, besides those of every model.
    _options: ClassVar[tuple[str, ...]] = ("method", "n_components")
    _per_target: ClassVar[tuple[str, ...]] = (*PER_TARGET, "left_out_")
    _numbers: ClassVar[tuple[str, ...]] = ("jitter_", "mean_left_")

    takes_limits: ClassVar[bool] = False
    """Whether labels may be limits."""

    samples_variances: ClassVar[bool] = True
    """Whether it has `sampled_variances`."""

    kernel: Kernel | None = None
    """The exact kernel of an `ExactGP`; models on features have that of their map."""

    feature_map: FeatureMap | None
    mean: npt.ArrayLike | None
    signal_variance: npt.ArrayLike | None
    noise_variance: npt.ArrayLike | None
    method: Literal["auto", "eigh", "cholesky"]
    n_components: int | None = None

    _factors: dict[float, Factor]
    # If features are a projection: whether k(x, x) is 1 or depends on the row.
    _projects: Literal["unit", "rows"] | None = None
    _residual: Residual | None = None  # what features leave out, if they are of a map
    _residual_draws: ResidualDraws | None = None  # of this sample
    _sampled: Mapping[int, SampledVariances] | None = None  # by target, in place of exact variances
    _eigen: EigenSolver | None
    _stand_ins: StandIns | None = None  # for labels that are limits
    _before_eigen: Callable[[], None] | None = None

    @property
    def sparse_rows(self) -> bool:
        return self.feature_map is not None

    @property
    def positive_rows(self) -> bool:
        return self.feature_map is not None and bool(self.feature_map.positive_rows)

    def check_parameters(self, n_targets: int | None = None) -> None:
        """Raise InputError if a parameter is bad, as `fit` does before it sums anything."""
        if self.method not in ("auto", "eigh", "cholesky"):
            raise InputError(f"method must be 'auto', 'eigh' or 'cholesky', not {self.method!r}.")
        check_given(
            n_targets,
            mean=self.mean,
            signal_variance=self.signal_variance,
            noise_variance=self.noise_variance,
        )

    def fit(self, X: MatrixLike, y: npt.ArrayLike, *, side: npt.ArrayLike | None = None) -> Self:
        """Fit to rows X (raw input of the feature map, or features) and targets y, (n,) or (n, n_targets).

        Parameters
        ----------
        X : rows
        y : float array, shape (n,) or (n, n_targets)
        side : int array, shape (n,), optional
            0 for a measured label, 1 if y is a lower limit of it, -1 if an upper one; for one target, and not
            for maps with landmarks or centroids. Default: all are measured.

        Raises
        ------
        InputError
            If y is not finite or has no variance, shapes do not match, or a hyperparameter is out of range.
        """
        if self.feature_map is not None:
            check_feature_map(self.feature_map)
        original, X, targets = X, check_rows(X, self.feature_map), check_targets(y)
        if len(targets) == 0:
            raise InputError("there is no row to fit to: pass at least one row with a label.")
        check_rows_to_fit(X)
        self.check_parameters(targets.shape[1])
        if self.feature_map is None and self.n_components is None:
            refuse_unpacked_bits(X)
        self._set_map(None if self.feature_map is None else clone(self.feature_map).fit(X))
        size = self.n_components if self.feature_map_ is None else self.feature_map_.n_components
        sides = self._sides(side, targets)
        measured = targets if sides is None else targets[sides == 0]
        summed = functools.partial(
            sum_rows,
            X,
            targets,
            self.feature_map_,
            n_components=size,
            exponents=choose_exponent(measured),
            side=sides,
        )
        try:
            self._fit(summed())
        except CoarseSumsError:
            self._fit(summed(precision="double"))
        learn_columns(self, original)
        for target in range(targets.shape[1]):
            for caution in self.cautions(target):
                warnings.warn(f"target {target}: {caution}.", CalibrationWarning, stacklevel=2)
        return self

    def fit_statistics(
        self,
        statistics: Statistics,
        feature_map: FeatureMap | None = None,
        *,
        before_eigen: Callable[[], None] | None = None,
    ) -> Self:
        """Fit to statistics; `predict` then uses `feature_map`, which is already fitted.

        `before_eigen` is called if Cholesky factors would lose digits, before an eigendecomposition, which
        holds five M x M matrices instead of two: it may raise an error to prevent that.

        Raises
        ------
        InputError
            If there are no rows, y has no variance, a hyperparameter is out of range, or the statistics
            belong to another map.
        """
        feature_map = feature_map if feature_map is not None else self.feature_map
        if feature_map is not None and statistics.map_key not in (None, map_key(feature_map.state())):
            raise InputError(
                f"the statistics are of the map {statistics.map_key}, not of {map_key(feature_map.state())}: "
                "pass the map that they were computed with."
            )
        self._set_map(feature_map)
        self._before_eigen = before_eigen
        try:
            return self._fit(statistics)
        finally:
            self._before_eigen = None

    def partial_fit(self, X: MatrixLike, y: npt.ArrayLike, *, side: npt.ArrayLike | None = None) -> Self:
        """Add rows and refit to all rows seen: the same as `fit` on all of them, up to rounding.

        `side` is as for `fit`; all new rows may be limits.

        For one-bit maps the sums are exact; y is rounded to the fixed-point scale chosen in the first call.
        An empty set of rows changes nothing.

        Raises
        ------
        InputError
            As `fit`, and if later y (at 4,000 times the largest of the first call) or the sums exceed the
            range of that scale (see `choose_exponent`).
        """
        if not hasattr(self, "statistics_"):
            return self.fit(X, y, side=side)
        statistics = self._kept_statistics()
        check_columns_of(self, X)
        check_width_of(self, X)
        X, targets = check_rows(X, self.feature_map_), check_targets(y)
        if X.shape[0] == len(targets) == 0:
            return self
        self.check_parameters(targets.shape[1])
        summed = sum_rows(
            X,
            targets,
            self.feature_map_,
            n_components=statistics.n_components,
            exponents=statistics.y_exponents,
            rows_before=statistics.n,
            side=self._sides(side, targets, some=True),
        )
        return self.add_statistics(summed)

    def add_statistics(self, statistics: Statistics) -> Self:
        """Add the statistics of further rows and refit."""
        self._check_fitted()
        return self._fit(self._kept_statistics().combine(statistics))

    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[False] = False,
        return_cov: Literal[False] = False,
        *,
        of: Literal["y", "f", "both"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
        rows: MatrixLike | None = None,
    ) -> Array: ...
    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[True],
        return_cov: Literal[False] = False,
        *,
        of: Literal["y", "f"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
        rows: MatrixLike | None = None,
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[True],
        return_cov: Literal[False] = False,
        *,
        of: Literal["both"],
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
        rows: MatrixLike | None = None,
    ) -> tuple[Array, Array, Array]: ...
    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: Literal[False] = False,
        *,
        return_cov: Literal[True],
        of: Literal["y", "f", "both"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
        rows: MatrixLike | None = None,
    ) -> tuple[Array, Array]: ...
    @overload
    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        of: Literal["y", "f", "both"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
        rows: MatrixLike | None = None,
    ) -> Array | tuple[Array, ...]: ...
    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        of: Literal["y", "f", "both"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
        rows: MatrixLike | None = None,
    ) -> Array | tuple[Array, ...]:
        """Return the predictive mean and, on request, the standard deviation or the joint covariance.

        The mean costs M multiply-adds a row. The standard deviation costs M^2 / 2 a row and, at the first
        call, one Cholesky factorization and inversion (2 M^3 / 3). The covariance needs n x M and n x n
        matrices at once, so it is for small sets.

        If features are a projection of the kernel (`FeatureMap.projected_kernel`), the covariance of f
        includes that of the residual, which they leave out: `left_out_` times k(x, x') - phi(x) . phi(x').
        The noise variance already includes the mean variance of the residual over the labelled rows, so y
        adds only the rest of the noise variance to f.

        Parameters
        ----------
        X : rows as for `fit`
        return_std, return_cov : bool
            At most one of them.
        of : {"y", "f", "both"}
            Uncertainty of a new observation y (with noise), of the function f (without), or, for
            `return_std`, of both.
        target : int, optional
            Predict this target only: each target has its own M x M factor.
        diagonal : float array, shape (n,), optional
            k(x, x) of each row, needed if X holds features of a projection and k(x, x) is not 1.
        rows : rows of the feature map, optional
            The rows whose features X holds; needed for the covariance and for samples if features are a
            projection.

        Returns
        -------
        mean : float64 array, shape (n,) or (n, n_targets)
        std : float64 array of the same shape, if `return_std`; two, of f and of y, for "both"
        cov : float64 array, shape (n, n) or (n, n, n_targets), if `return_cov`
        """
        self._check_request(X, of, return_std=return_std, return_cov=return_cov)
        if return_cov and target is not None:
            raise InputError("return_cov covers all targets: leave target out.")
        if return_cov:
            return self._predict_joint(X, of, diagonal, rows)
        chosen = list(range(len(self.mean_))) if target is None else [target]
        means, squares = [np.empty((0, len(chosen)))], [np.empty((2, 0, len(chosen)))]
        for block in self._features(X, diagonal, rows):
            means.append(self._mean_of(block)[:, chosen])
            if return_std:
                squares.append(self._variances(block, chosen))
        mean = self._squeeze(np.concatenate(means))
        if not return_std:
            return mean
        std_f, std_y = (self._squeeze(values) for values in np.sqrt(np.concatenate(squares, axis=1)))
        return mean_and_std(mean, std_f, std_y, of)

    def errors_left_out(
        self, X: MatrixLike, y: npt.ArrayLike, counts: npt.ArrayLike, target: int = 0
    ) -> tuple[Array, Array]:
        """Return the errors of labelled rows, each predicted without its own labels, and their deviations.

        Hyperparameters are those of the fit to all labels.

        Parameters
        ----------
        X : rows as for `fit`, m distinct ones that it was fitted to
        y : float array, shape (m,)
            The mean of the labels of each row.
        counts : int array, shape (m,)
            How many labels each row has.
        target : int

        Returns
        -------
        error, std : float64 arrays, shape (m,)
            NaN where features fit the labels of a row whatever they are, so that only rounding is left.

        Notes
        -----
        With k labels at features phi, and h = phi^T A^-1 phi the variance of f by them in units of the noise
        variance s, the error is (y - mean) / (1 - k h), and f has the variance s h / (1 - k h): the identity
        of Sherman & Morrison 1950 for A - k phi phi^T.
        """
        self._check_fitted()
        labels, times = np.asarray(y, dtype=np.float64), np.asarray(counts, dtype=np.float64)
        noise, size, start = float(self.noise_variance_[target]), len(self.weights_), 0
        error, variance = np.empty(len(labels)), np.empty(len(labels))
        for block in self._features(X):
            means = self._checked_means(block)[:, target]
            for rows, white, left in self._parts(block):
                span = slice(start + rows.start, start + rows.stop)
                h, k = self._factor(target).variances(white, size), times[span]
                rest = np.where(1.0 - k * h > _ROUNDED, 1.0 - k * h, math.nan)
                error[span] = (labels[span] - means[rows]) / rest
                beyond = self._own_variances(left, target)[1] - noise  # what features leave out
                variance[span] = noise * h / rest + beyond + noise / k
            start += len(block.phi)
        return error, np.sqrt(variance)

    def cautions(self, target: int = 0) -> list[str]:
        """Return the reasons not to trust the standard deviations of one target; usually none."""
        self._check_fitted()
        reasons = []
        if self.at_bound_[target]:
            noise = bool(self.noise_variance_[target] < self.signal_variance_[target])
            reasons.append(seen_no(self._maximized(), noise=noise))
        if self.left_out_[target] < _FEW_LEFT * self.signal_variance_[target]:
            noise = self.noise_variance_[target] / self.signal_variance_[target]
            kernel = getattr(self.feature_map_, "kernel_", None)
            longer = ", or a longer length scale" if hasattr(kernel, "length_scale") else ""
            reasons.append(
                f"the features leave out {self.mean_left_:.0%} of the kernel of labelled molecules, but the "
                f"noise is only {100 * noise:.2g}% of the signal variance: do not trust the standard "
                f"deviations; use more features{longer}"
            )
        return reasons

    def sample_weights(self, n: int, seed: int, target: int = 0) -> Array:
        """Return n exact posterior samples of the feature weights of one target, shape (M, n).

        mean_[target] + phi(x) . w is then a sample of the function f, except for what features leave out.
        Sample i does not depend on n.
        """
        self._check_fitted()
        if n < 0:
            raise InputError(f"n must not be negative, but is {n}.")
        draws = self._feature_weights(self._factor(target).sample(n, seed, target))
        return self.weights_[:, target, None] + np.sqrt(self.noise_variance_[target]) * draws

    def sampled_variances(self, n_samples: int, seed: int = 0, target: int = 0) -> SampledVariances:
        """Return estimates and bounds of the variances of one target from posterior samples.

        An estimate costs n_samples M multiply-adds a row. The estimates suffice for `with_sampled`, also in
        another process, and without the statistics.

        Raises
        ------
        InputError
            If there is not at least one sample, or the model was stored without its statistics.
        """
        if n_samples < 1:
            raise InputError(f"variances need at least one posterior sample, not {n_samples}.")
        factor = self._factor(target)
        assert isinstance(factor, (PosteriorFactor, LowRankFactor))
        return SampledVariances.of(factor, n_samples, seed)

    def with_sampled(self, sampled: Mapping[int, SampledVariances]) -> Self:
        """Return this model with approximate standard deviations: for each target, from posterior samples.

        `predict(return_std=True)` then needs no statistics. Joint covariances and samples stay as they are.
        """
        approximate = copy.copy(self)
        approximate._sampled = dict(sampled)
        return approximate

    def std_bounds(
        self,
        X: MatrixLike,
        sampled: SampledVariances | None,
        target: int = 0,
        *,
        diagonal: npt.ArrayLike | None = None,
    ) -> tuple[Array, Array]:
        """Return a lower and an upper bound of the standard deviation of f at each row.

        The standard deviation is never above that of the prior. With `sampled`, bounds are closer, and each
        is wrong with a probability of 1e-6 for each row.

        Parameters
        ----------
        X : rows as for `fit`, or features
        sampled : SampledVariances or None
            From `sampled_variances` for this target; None for bounds by the prior only.
        target : int
        diagonal : float array, shape (n,), optional
            As in `predict`.

        Returns
        -------
        low, high : float64 arrays, shape (n,)
        """
        self._check_fitted()
        bounds = [np.empty((2, 0))]
        for block in self._features(X, diagonal):
            squares = np.stack([np.zeros(len(block.phi)), self._prior_variances(block, target)])
            if sampled is None:
                bounds.append(np.sqrt(squares))
                continue
            for rows, white, left in self._parts(block):
                explained = np.stack(sampled.bounds(white, len(self.weights_)))
                values = explained * self.noise_variance_[target] + self._own_variances(left, target)[0]
                squares[0, rows], squares[1, rows] = values[0], np.minimum(values[1], squares[1, rows])
            bounds.append(np.sqrt(squares))
        low, high = np.concatenate(bounds, axis=1) * [[1 - _ROUNDING], [1 + _ROUNDING]]
        return low, high

    def rough(self) -> None:
        """Return None: the mean itself is cheap; see `ExactGP.rough`."""

    def words(self) -> str:
        """Return an empty text: sums are solved in one way; see `ExactGP.words`."""
        return ""

    @property
    def n_limits_(self) -> int:
        """Number of labels that are limits."""
        return 0 if self._stand_ins is None else len(self._stand_ins.labels)

    @property
    def means_only(self) -> bool:
        """Whether it was loaded without the statistics, which standard deviations and samples need."""
        return self.statistics_ is None

    def draw(self, seed: int, target: int = 0) -> Self:
        """Return a model of one target whose mean is one exact posterior sample of the whole function.

        If features leave out a part of the kernel, the sample includes that part, from 4,096 random features
        of the kernel (`daskrf.gp.processes.residual`) in addition to those of the map. It then depends on the
        rows themselves: `predict` of features needs `rows`. Averaged over seeds its variance is exact; a
        single sample has that of its random features, which is right to about 3 %.

        It has no statistics and therefore no standard deviations. It cannot be stored: store the model and
        the seed instead.

        Raises
        ------
        InputError
            If features leave out a part of a kernel that has no random features.
        """
        return self.drawn(self.weights_of_draw(seed, target), seed, target)

    def weights_of_draw(self, seed: int, target: int = 0) -> Array:
        """Return the weights of a posterior sample, shape (M, 1); see `draw`."""
        return self.weights_of_draws(1, seed, target)

    def most_draws(self) -> None:
        """Return None: the number of samples is not limited; see `ExactGP.most_draws`."""

    def weights_of_draws(self, n: int, seed: int, target: int = 0) -> Array:
        """Return the weights of n posterior samples, shape (M, n); the first is that of `weights_of_draw`."""
        weights = self.sample_weights(n, seed, target)
        residual = self._drawn_residual(n, seed, target)
        if residual is not None:
            weights -= residual.residual.correction(residual)
        return weights

    def drawn(self, weights: Array, seed: int, target: int = 0) -> Self:
        """Return the sample, or samples, with weights from `weights_of_draw` or `weights_of_draws`."""
        drawn = self._with_weights(weights, target)
        drawn._residual_draws = self._drawn_residual(weights.shape[1], seed, target)
        return drawn

    def _with_weights(self, weights: Array, target: int) -> Self:
        """Return a model of one target that predicts the functions with these weights."""
        drawn = type(self)(**{name: getattr(self, name) for name in self._options})
        drawn.weights_ = weights
        drawn.mean_ = np.repeat(self.mean_[[target]], weights.shape[1])
        drawn.feature_map_, drawn.one_bit_, drawn.statistics_ = self.feature_map_, self.one_bit_, None
        drawn._projects, drawn._residual = self._projects, self._residual
        return drawn

    @property
    def draws_take_rows(self) -> bool:
        """Whether samples and covariances need the rows themselves, besides their features."""
        return self._residual is not None

    def _drawn_residual(self, n: int, seed: int, target: int) -> ResidualDraws | None:
        """Return n samples of what features leave out, or None if they leave out nothing."""
        if self._residual is None:
            return None
        return self._residual.draws(n, seed, target, math.sqrt(float(self.left_out_[target])))

    def sample_y(
        self,
        X: MatrixLike,
        n_samples: int = 1,
        random_state: int = 0,
        *,
        of: Literal["y", "f"] = "y",
        target: int = 0,
        diagonal: npt.ArrayLike | None = None,
        rows: MatrixLike | None = None,
    ) -> Array:
        """Return samples at the rows X, shape (n, n_samples), of y (with noise) or of f.

        Samples are from the posterior after `fit`, and from the prior before it (mean 0 and signal variance 1
        unless given; y needs `noise_variance`).

        They are the samples of `weights_of_draws`, and so are functions: equal rows have equal values of f,
        whatever the other rows are, and sample i does not depend on n_samples. There is one exception: if
        features leave out a part of a kernel without random features, that part is sampled jointly for the
        rows X.

        `diagonal` and `rows` are as in `predict`.

        Raises
        ------
        InputError
            As `predict`; if `n_samples` is negative; before `fit`, if the feature map is not fitted,
            `noise_variance` is needed but not known, or features leave out a part of the kernel: `ExactGP`
            samples the prior of a kernel.
        """
        check_of(of)
        check_n_samples(n_samples)
        if not hasattr(self, self._weights_name):
            return self._prior_samples(X, n_samples, random_state, of, target)
        check_columns_of(self, X)
        blocks = list(self._features(X, diagonal, rows))
        n = sum(len(block.phi) for block in blocks)
        normal = standard_normal(random_state, f"gp/noise/{target}", n, n_samples) if of == "y" else None
        residual = self._residual
        if residual is None or residual.has_functions:
            weights = self.weights_of_draws(n_samples, random_state, target)
            return self._values(self.drawn(weights, random_state, target), blocks, normal, target)
        drawn = self._with_weights(self.sample_weights(n_samples, random_state, target), target)
        shared, all_rows = self._left_out(blocks) * self.left_out_[target], self._all_rows(blocks)
        residuals = residual.joint_draws(all_rows, shared, n_samples, random_state, target)
        return self._with_noise(drawn, blocks, residuals, normal, target)

    def _prior_samples(self, X: MatrixLike, n_samples: int, random_state: int, of: str, target: int) -> Array:
        """Return samples from the prior: features times independent normal weights."""
        self.check_parameters()
        names = ("mean", "signal_variance", "noise_variance")
        n_targets = max(np.size(getattr(self, name)) for name in names)
        if target < 0 or 1 < n_targets <= target:
            raise InputError(f"there are {n_targets} targets, counted from 0, and none is number {target}.")
        m, a, s = (fixed_value(getattr(self, name), target) for name in names)
        if s is None and of == "y":
            raise InputError(
                "samples of y from the prior need the noise variance: pass noise_variance, or of='f'."
            )
        if self.feature_map is not None and self.feature_map.projected_kernel is not None:
            raise InputError(
                f"features of {type(self.feature_map).__name__} are only a part of the prior, which has the "
                "whole kernel: ExactGP(kernel).sample_y(X) samples it, or fit this model first."
            )
        if self.feature_map is None and self.n_components is None:
            refuse_unpacked_bits(check_rows(X, None))
        blocks = list(feature_blocks(X, self.feature_map))
        if not blocks:
            return np.empty((0, n_samples))
        drawn = type(self)(**{name: getattr(self, name) for name in self._options})
        drawn.one_bit_ = blocks[0].phi.dtype == np.uint8
        width = blocks[0].phi.shape[1] * (8 if drawn.one_bit_ else 1)
        size = self.n_components if self.feature_map is None else self.feature_map.n_components
        weights = standard_normal(random_state, f"gp/prior/{target}", size or width, n_samples)
        drawn.weights_ = math.sqrt(1.0 if a is None else a) * weights
        drawn.mean_ = np.full(n_samples, 0.0 if m is None else m)
        values = np.concatenate([drawn._checked_means(block) for block in blocks])
        if of == "y":
            noise = standard_normal(random_state, f"gp/noise/{target}", len(values), n_samples)
            values += math.sqrt(s or 0.0) * noise
        return values

    def values_of_draws(
        self,
        drawn: Self,
        X: MatrixLike,
        normal: Array | None = None,
        target: int = 0,
        *,
        diagonal: npt.ArrayLike | None = None,
        rows: MatrixLike | None = None,
    ) -> Array:
        """Return the values of `drawn` functions at the rows X, or of measurements of them.

        Parameters
        ----------
        drawn : model
            From `drawn`.
        X : features or rows, n of them
        normal : float64 array, shape (n, n_draws), optional
            Standard normal numbers for the noise of a measurement; none gives values of the function.
        target : int
        diagonal, rows
            As in `predict`.

        Returns
        -------
        float64 array, shape (n, n_draws)
        """
        return self._values(drawn, list(self._features(X, diagonal, rows)), normal, target)

    def _values(self, drawn: Self, blocks: list[FeatureBlock], normal: Array | None, target: int) -> Array:
        """Return the values of drawn functions at blocks of rows; see `values_of_draws`."""
        residuals = None
        if drawn._residual_draws is not None:
            residuals = np.concatenate([np.empty((0, len(drawn.mean_))), *map(drawn._residual_of, blocks)])
        return self._with_noise(drawn, blocks, residuals, normal, target)

    def _with_noise(
        self,
        drawn: Self,
        blocks: list[FeatureBlock],
        residuals: Array | None,
        normal: Array | None,
        target: int,
    ) -> Array:
        """Return drawn means plus samples of what features leave out and of noise; see `_parts_of_y`."""
        draws = np.concatenate([np.empty((0, len(drawn.mean_))), *map(drawn._checked_means, blocks)])
        parts = [left for block in blocks for _, _, left in self._parts(block)]
        of = "f" if normal is None else "y"
        share, noise = self._parts_of_y(np.concatenate([np.empty(0), *parts]), target, of)
        if residuals is not None:
            draws += share[:, None] * residuals
        return draws if normal is None else draws + noise[:, None] * normal

    @overload
    def log_marginal_likelihood(
        self,
        mean: float | None = None,
        signal_variance: float | None = None,
        noise_variance: float | None = None,
        eval_gradient: Literal[False] = False,
        *,
        target: int = 0,
    ) -> float: ...
    @overload
    def log_marginal_likelihood(
        self,
        mean: float | None = None,
        signal_variance: float | None = None,
        noise_variance: float | None = None,
        *,
        eval_gradient: Literal[True],
        target: int = 0,
    ) -> tuple[float, Array]: ...
    @overload
    def log_marginal_likelihood(
        self,
        mean: float | None = None,
        signal_variance: float | None = None,
        noise_variance: float | None = None,
        eval_gradient: bool = False,
        *,
        target: int = 0,
    ) -> float | tuple[float, Array]: ...
    def log_marginal_likelihood(
        self,
        mean: float | None = None,
        signal_variance: float | None = None,
        noise_variance: float | None = None,
        eval_gradient: bool = False,
        *,
        target: int = 0,
    ) -> float | tuple[float, Array]:
        """Return log p(y) of one target, and on request its gradient.

        The gradient is in (mean, signal_variance, noise_variance).

        Values default to the fitted ones. Each call costs one Cholesky factorization, or O(M) with "eigh",
        which keeps its decomposition.
        """
        return self._likelihood(mean, signal_variance, noise_variance, eval_gradient, target, 0.0)

    def state(self) -> FeatureSpaceState:
        """Return a JSON-able description of the fitted model; with `arrays` it rebuilds the model."""
        self._check_fitted()
        if not hasattr(self, "noise_variance_"):
            raise InputError(
                "a posterior sample cannot be stored: store the model, and sample again with the same seed."
            )
        fixed = {name: getattr(self, name) for name in ("mean", "signal_variance", "noise_variance")}
        state = {
            "class": type(self).__name__,
            "version": STATE_VERSION,
            "n": self.n_rows_,
            "one_bit": self.one_bit_,
            **{name: getattr(self, name) for name in ("method", *self._options)},
            "n_components": len(self.weights_),
            "given": {k: None if v is None else np.asarray(v).tolist() for k, v in fixed.items()},
            "feature_map": None if self.feature_map_ is None else self.feature_map_.state(),
            **{name.rstrip("_"): getattr(self, name) for name in self._numbers},
            **{name.rstrip("_"): getattr(self, name).tolist() for name in self._per_target},
        }
        return cast(FeatureSpaceState, state)

    def arrays(self, *, statistics: bool = True) -> dict[str, npt.NDArray[np.generic]]:
        """Return the weights and the statistics, which standard deviations, samples and partial_fit need."""
        self._check_fitted()
        arrays: dict[str, npt.NDArray[np.generic]] = {"weights": self.weights_}
        if statistics and self.statistics_ is not None:
            arrays.update({f"statistics/{k}": v for k, v in self.statistics_.arrays().items()})
        if self._stand_ins is not None:
            arrays |= self._stand_ins.arrays()
        return arrays

    @classmethod
    def from_state(cls, state: Mapping[str, object], arrays: Mapping[str, npt.NDArray[np.generic]]) -> Self:
        """Rebuild a fitted model from `state` and `arrays`.

        Raises
        ------
        InputError
            If the state has another version, or the weights are missing.
        """
        check_version(state, STATE_VERSION, arrays, "weights")
        entries, make = cast(FeatureSpaceState, state), cast(Callable[..., Self], cls)
        stored: NamedArrays = arrays
        model = make(**{name: state[name] for name in cls._options}, **entries["given"])
        model._set_map(None if entries["feature_map"] is None else from_state(entries["feature_map"]))
        model.feature_map = model.feature_map_
        for name in cls._per_target:
            kind = bool if name == "at_bound_" else np.float64
            setattr(model, name, np.array(state[name.rstrip("_")], dtype=kind))
        for name in cls._numbers:
            setattr(model, name, float(cast(float, state[name.rstrip("_")])))
        model.n_rows_, model.one_bit_ = entries["n"], entries["one_bit"]
        model.weights_ = np.asarray(stored["weights"], dtype=np.float64)
        sums = {k.removeprefix("statistics/"): v for k, v in stored.items() if k.startswith("statistics/")}
        restored = Summation.restore(sums) if sums else None
        assert not isinstance(restored, GramStrip)
        model.statistics_ = restored
        model._stand_ins = StandIns.from_arrays(stored)
        model._factors, model._eigen = {}, None
        return model

    @property
    def log_marginal_likelihood_value_(self) -> float | Array:
        """Evidence at the fitted hyperparameters: a float, or an array for several targets."""
        values = self.log_marginal_likelihoods_
        return float(values[0]) if len(values) == 1 else values

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "_factors": {}, "_eigen": None}

    def _set_map(self, feature_map: FeatureMap | None) -> None:
        """Set the fitted feature map, or None if features are given."""
        self.feature_map_ = feature_map
        kernel = None if feature_map is None else feature_map.projected_kernel
        self._projects = None if kernel is None else "unit" if kernel.has_unit_diagonal else "rows"
        self._residual = None
        if feature_map is not None and kernel is not None:
            self._residual = Residual(feature_map, self._projection(feature_map))

    def _projection(self, feature_map: object) -> Callable[[Array], Array] | None:
        """Return the function from values at landmarks to weights, if features project on landmarks."""
        inner = feature_map.folded_map if isinstance(feature_map, FoldedFeatures) else feature_map
        return inner.project if isinstance(inner, NystromFeatures) else None

    def _features(
        self, X: MatrixLike, diagonal: npt.ArrayLike | None = None, rows: MatrixLike | None = None
    ) -> Iterator[FeatureBlock]:
        """Yield the packed bits or features of the rows, in blocks."""
        return feature_blocks(X, self.feature_map_, diagonal=diagonal, rows=rows)

    def _moments(self, statistics: Statistics) -> Moments:
        """Return moments of features whose weights each have the prior variance `signal_variance`."""
        return statistics.moments()

    def _feature_weights(self, weights: Array) -> Array:
        """Return the weights of the original features, given those of the features of `_moments`."""
        return weights

    def _new_factor(self, statistics: Statistics, ratio: float) -> Factor:
        assert isinstance(statistics, SufficientStatistics)
        if self._stand_ins is not None:
            return posterior_factor(
                self._stand_ins.moments(statistics, float(self.noise_variance_[0])), ratio
            )
        return posterior_factor(statistics, ratio)

    def _whitened(self, phi: npt.NDArray[np.number]) -> npt.NDArray[np.number]:
        """Return the features of `_moments`, given the original features of some rows."""
        return phi

    def _parts(
        self, block: FeatureBlock, *, expands: bool = False
    ) -> Iterator[tuple[slice, npt.NDArray[np.number], Array]]:
        """Yield slices of the rows of a block, their whitened features, and the rest of k(x, x).

        If features are neither projected nor expanded, as the caller says, there is one slice.
        """
        phi, diagonal = block.phi, self._diagonal(block)
        whole = self._projects is None and not expands
        slices = expanded_rows(len(phi), len(self.weights_), np.float64)
        for rows in [slice(0, len(phi))] if whole else slices:
            white, left = self._whitened(phi[rows]), np.zeros(len(phi[rows]))
            if self._projects is not None:
                left += 1.0 if diagonal is None else diagonal[rows]
                left -= np.einsum("ij,ij->i", white, white, dtype=np.float64)
                np.maximum(left, 0.0, out=left)  # negative by rounding, or if a sketch is too long
            yield rows, white, left
            del white  # before the next one is made

    def _diagonal(self, block: FeatureBlock) -> Array | None:
        """Return k(x, x) of the rows of a block, or None if it is 1 or not needed."""
        _, diagonal, rows = block
        if self._projects != "rows" or diagonal is not None:
            return diagonal
        if rows is not None and self._residual is not None:
            return np.asarray(self._residual.diag(rows))
        raise InputError(
            "the kernel of these features is not 1 between a row and itself, so standard deviations "
            "need its values: pass diagonal=k(x, x) for each row, or rows to a model with a feature_map_."
        )

    def _prior_variances(self, block: FeatureBlock, target: int) -> Array:
        """Return upper bounds of the variance of f at the rows of a block, without labels."""
        variances, a = np.ones(len(block.phi)), float(self.signal_variance_[target])
        if self._projects is not None:  # features explain some of k(x, x), and leave out the rest
            diagonal = self._diagonal(block)
            return max(a, float(self.left_out_[target])) * (variances if diagonal is None else diagonal)
        if block.phi.dtype != np.uint8:
            variances = np.einsum("ij,ij->i", block.phi, block.phi, dtype=np.float64)
        return a * variances

    def _own_variances(self, left: Array, target: int) -> tuple[Array, Array]:
        """Return the variances of f and y at each row that features do not explain."""
        extra = self.left_out_[target] * np.maximum(left - self.mean_left_, 0.0)
        return self.left_out_[target] * left, extra + self.noise_variance_[target]

    def _parts_of_y(self, left: Array, target: int, of: str) -> tuple[Array, Array]:
        """Return the factor of the residual at each row, and the standard deviation of independent noise.

        The noise variance includes the mean residual of the labelled rows. So at rows where the residual of f
        has a larger variance than residual and noise of y together, y has only a part of the residual.
        """
        if of == "f":
            return np.ones(len(left)), np.zeros(len(left))
        of_f, of_y = self._own_variances(left, target)
        share = np.divide(of_y, of_f, out=np.ones(len(left)), where=of_y < of_f)
        return np.sqrt(share), np.sqrt(np.maximum(of_y - of_f, 0.0))

    def _check_statistics(self, statistics: object) -> None:
        if not isinstance(statistics, SufficientStatistics):
            raise InputError(f"{type(self).__name__} takes no sums about centroids: use LocalGaussianGP.")
        if statistics.limits is not None and not self.takes_limits:
            raise InputError(NO_LIMITS.format(type(self).__name__))

    def _sides(self, side: npt.ArrayLike | None, targets: Array, *, some: bool = False) -> Sides | None:
        """Return the sides of labels that are limits, checked, or None; `some` is whether all may be."""
        if side is None or not np.any(side):
            return None
        if not self.takes_limits:
            raise InputError(NO_LIMITS.format(type(self).__name__))
        if targets.shape[1] != 1:
            raise InputError("limits are of one target: fit each target on its own.")
        return check_sides(side, len(targets), some=some)

    def _fit(self, statistics: Statistics) -> Self:
        self.check_parameters()
        self._check_statistics(statistics)
        if statistics.n == 0:
            refuse_all_limits(statistics)
            raise InputError("there is no row to fit to: pass at least one row with a label.")
        if statistics.limits is not None:
            assert isinstance(statistics, SufficientStatistics)
            return self._fit_limits(statistics)
        self._stand_ins = None
        solver = self._solver(statistics)
        results = self._search(solver)
        if any(solver.loses_digits(hyperparameters.ratio) for hyperparameters, _ in results):
            if self._before_eigen is not None:
                self._before_eigen()
            del solver  # frees its matrix before the next one is allocated
            solver = EigenSolver(self._moments(statistics))
            results = self._search(solver)
        fitted = [hyperparameters for hyperparameters, _ in results]
        weights, self.jitter_ = self._weights(statistics, solver, fitted)
        self._set_fitted(statistics, solver.moments.shift, results)
        self.weights_ = self._feature_weights(weights)
        self._set_left_out(statistics, solver, fitted)
        self._eigen = solver if isinstance(solver, EigenSolver) else None
        return self

    def _fit_limits(self, statistics: SufficientStatistics) -> Self:
        """Fit to labels and limits of one target by expectation propagation."""
        values = (self.mean, self.signal_variance, self.noise_variance)
        m, a, s = (None if v is None else float(np.ravel(v)[0]) for v in values)
        if a is None or s is None:
            check_variance(statistics.moments(gram=False), 0)
        fit = fit_feature_limits(statistics, (m, a, s))
        moments = fit.stand_ins.moments(statistics, fit.noise_variance)
        ratio = fit.noise_variance / fit.signal_variance
        mean = fit.mean - float(moments.shift[0])
        fitted = Hyperparameters(mean, fit.signal_variance, ratio, fit.log_evidence)
        weights, self.jitter_ = solved_weights(moments, [fitted], claimed=False)
        self._stand_ins = fit.stand_ins
        self._set_fitted(statistics, moments.shift, [(fitted, fit.at_bound)])
        self.weights_ = self._feature_weights(weights)
        self.mean_left_, self.left_out_ = 0.0, self.signal_variance_.copy()
        if self._noise_has_left_out():
            self._set_left_out(statistics, self._solver(statistics), [fitted])
        self._eigen = None
        return self

    def _set_fitted(
        self, statistics: Statistics, shift: Array, results: list[tuple[Hyperparameters, bool]]
    ) -> None:
        """Set the hyperparameters of all targets; means are relative to the shift."""
        fitted = [hyperparameters for hyperparameters, _ in results]
        self.statistics_ = statistics
        self.n_rows_, self.one_bit_ = statistics.n_rows, statistics.one_bit
        self.mean_ = np.array([h.mean for h in fitted]) + shift
        self.signal_variance_ = np.array([h.signal_variance for h in fitted])
        self.noise_variance_ = np.array([h.noise_variance for h in fitted])
        self.log_marginal_likelihoods_ = np.array([h.log_marginal_likelihood for h in fitted])
        self.at_bound_ = np.array([at_bound for _, at_bound in results])
        self._factors = {}

    def _weights(
        self,
        statistics: Statistics,
        solver: EigenSolver | CholeskySolver,
        fitted: list[Hyperparameters],
    ) -> tuple[Array, float]:
        """Return the posterior mean of the weights of each target, and the largest jitter."""
        factor = solver.factor if isinstance(solver, CholeskySolver) else None
        searched = self.signal_variance is None or self.noise_variance is None
        return solved_weights(solver.moments, fitted, factor, claimed=searched)

    def _search(self, solver: EigenSolver | CholeskySolver) -> list[tuple[Hyperparameters, bool]]:
        return find_hyperparameters(
            solver, mean=self.mean, signal_variance=self.signal_variance, noise_variance=self.noise_variance
        )

    def _solver(self, statistics: Statistics) -> EigenSolver | CholeskySolver:
        small = statistics.n_components <= EIGEN_LIMIT or few_rows(statistics.n, statistics.n_components)
        eigen = self.method == "eigh" or (self.method == "auto" and small)
        return (EigenSolver if eigen else CholeskySolver)(self._moments(statistics))

    def _likelihood(
        self,
        mean: float | None,
        signal_variance: float | None,
        noise_variance: float | None,
        eval_gradient: bool,
        target: int,
        deficit: float,
    ) -> float | tuple[float, Array]:
        statistics = self._kept_statistics()
        m, a, s = self._hyperparameters(mean, signal_variance, noise_variance, target)
        if statistics.limits is not None:
            return likelihood_with_limits(statistics, (m, a, s), gradient=eval_gradient)
        solver = self._eigen or self._solver(statistics)
        if solver.loses_digits(s / a):
            solver = EigenSolver(self._moments(statistics))
        if isinstance(solver, EigenSolver):
            self._eigen = solver
        m -= float(solver.moments.shift[target])
        solver = with_deficit(solver, deficit)
        value, gradient = log_likelihood(solver, m, a, s, target, gradient=eval_gradient)
        return (value, gradient) if eval_gradient else value

    def _means(self, phi: npt.NDArray[np.number]) -> Array:
        self._check_width(phi)
        if phi.dtype == np.uint8:
            scale = 1.0 / np.sqrt(len(self.weights_))
            return engine().bit_means(phi, len(self.weights_), self.weights_ * scale) + self.mean_
        means = np.empty((len(phi), self.weights_.shape[1]))
        for rows in expanded_rows(len(phi), len(self.weights_), np.float64):
            means[rows] = phi[rows].astype(np.float64, copy=False) @ self.weights_
        return means + self.mean_

    def _set_left_out(
        self, statistics: Statistics, solver: EigenSolver | CholeskySolver, fitted: list[Hyperparameters]
    ) -> None:
        """Set the variance of f outside the features, per unit of k(x, x) that they leave out.

        A priori it is the signal variance. But an estimated noise variance also includes `mean_left_` units
        of it, so if the noise is smaller than that, f must vary less. With n - g degrees of freedom left for
        the noise, g = tr(Phi A^-1 Phi^T), the variance is at most noise_variance n / ((n - g) mean_left_) per
        unit. If features can fit all labels (n <= M, hardly any noise), the labels carry no information about
        it.
        """
        n, size = statistics.n, len(solver.moments.phi_sum)
        self.mean_left_, self.left_out_ = 0.0, self.signal_variance_.copy()
        missing = statistics.kernel_trace - solver.moments.trace
        if not self._noise_has_left_out() or missing <= _SMALLEST_LEFT * statistics.kernel_trace:
            return
        self.mean_left_ = missing / n
        for t, h in enumerate(fitted):
            if h.noise_variance < self.left_out_[t] * self.mean_left_:
                free = (n - size + h.ratio * solver.curvature(h.ratio, h.mean, t)[0]) / n
                self.left_out_[t] = min(
                    self.left_out_[t], h.noise_variance / (self.mean_left_ * max(free, 1e-300))
                )

    def _maximized(self) -> str:
        return "the evidence"

    def _noise_has_left_out(self) -> bool:
        """Return whether the noise variance includes what features leave out of the labelled rows."""
        return self._projects is not None and self.noise_variance is None

    def _variances(self, block: FeatureBlock, targets: list[int]) -> Array:
        """Return the variances of f and of y at each row, shape (2, n, n_targets)."""
        size, n = len(self.weights_), len(block.phi)
        variances = np.empty((2, n, len(targets)))
        for rows, white, left in self._parts(block):
            for i, t in enumerate(targets):
                explained = self._estimator(t).variances(white, size) * self.noise_variance_[t]
                for variance, extra in zip(variances, self._own_variances(left, t), strict=True):
                    variance[rows, i] = explained + extra
        return variances

    def _predict_joint(
        self, X: MatrixLike, of: str, diagonal: npt.ArrayLike | None, rows: MatrixLike | None
    ) -> tuple[Array, Array]:
        size = len(self.weights_)
        blocks = list(self._features(X, diagonal, rows))
        n = sum(len(block.phi) for block in blocks)
        covariances, means = [], np.concatenate([np.empty((0, len(self.mean_))), *map(self._mean_of, blocks)])
        for t in range(len(self.mean_)):
            white, left, start = np.empty((n, size)), np.empty(n), 0
            for block in blocks:
                for part_rows, features, missing in self._parts(block, expands=True):
                    span = slice(start + part_rows.start, start + part_rows.stop)
                    white[span], left[span] = self._factor(t).whiten(features, size), missing
                start += len(block.phi)
            covariance = self.noise_variance_[t] * (white @ white.T)
            share, noise = self._parts_of_y(left, t, of)
            covariance += self.left_out_[t] * share[:, None] * self._left_out(blocks) * share
            covariance[np.diag_indices(n)] += noise**2
            covariances.append(covariance)
        joint = covariances[0] if len(covariances) == 1 else np.stack(covariances, axis=-1)
        return self._squeeze(means), joint

    def _mean_of(self, block: FeatureBlock) -> Array:
        """Return the means of a block; for a sample, with its residual."""
        means = self._checked_means(block)
        return means if self._residual_draws is None else means + self._residual_of(block)

    def _checked_means(self, block: FeatureBlock) -> Array:
        """Return the means by the features of a block; raise InputError if one is not finite."""
        means = self._means(block.phi)
        if not np.isfinite(means).all():
            place = int(np.argmin(np.isfinite(means).all(axis=1)))
            raise InputError(
                f"The features of row {place} hold NaN or infinity, or are too large; repair that row."
            )
        return means

    def _residual_of(self, block: FeatureBlock) -> Array:
        """Return the values of a sample's residual at the rows of a block."""
        assert self._residual_draws is not None
        rows, scaled = self._rows_of(block), self._residual_draws.residual.project is None
        parts = [left for _, _, left in self._parts(block)] if scaled else []
        return self._residual_draws(rows, np.concatenate([np.empty(0), *parts]))

    def _rows_of(self, block: FeatureBlock) -> Matrix:
        if block.rows is None:
            raise InputError(
                "the covariance and samples of f need the kernel between rows, which features alone do not "
                "give: use return_std, pass the rows as well (rows=), or rows to a model with a feature_map_."
            )
        return block.rows

    def _left_out(self, blocks: list[FeatureBlock]) -> Array:
        """Return the covariance of what features leave out of the rows, in units of `left_out_`."""
        n = sum(len(block.phi) for block in blocks)
        if self._residual is None or not n:
            return np.zeros((n, n))
        parts = [each for block in blocks for each in self._parts(block)]
        white, left = (np.concatenate([each[i] for each in parts]) for i in (1, 2))
        return self._residual.covariance(self._all_rows(blocks), white, left)

    def _all_rows(self, blocks: list[FeatureBlock]) -> sp.csr_matrix:
        return sp.vstack([as_csr(self._rows_of(block)) for block in blocks], format="csr")

    def _factor(self, target: int) -> Factor:
        """Return the factor of one target, computed once per worker; targets with equal ratios share it."""
        statistics = self._kept_statistics()
        ratio = float(self.noise_variance_[target] / self.signal_variance_[target])
        with _FACTOR_LOCK:
            if ratio not in self._factors:
                self._factors[ratio] = self._new_factor(statistics, ratio)
            return self._factors[ratio]

    def _estimator(self, target: int) -> Factor | SampledVariances:
        """Return what variances of one target are computed by."""
        return self._factor(target) if self._sampled is None else self._sampled[target]

    def _kept_statistics(self) -> Statistics:
        self._check_fitted()
        if self.statistics_ is None:
            raise InputError(
                "this model has no statistics (stored without, or a posterior sample): it "
                "predicts means only."
            )
        if self.statistics_.n_rows != self.n_rows_:
            raise InputError(
                f"the statistics had {self.n_rows_} rows when the model was fitted, and have "
                f"{self.statistics_.n_rows} now: call fit_statistics again."
            )
        return self.statistics_

    def _check_width(self, phi: npt.NDArray[np.number]) -> None:
        packed = phi.dtype == np.uint8
        width = -(-len(self.weights_) // 8) if packed else len(self.weights_)
        if (packed and not self.one_bit_) or phi.shape[1] != width:
            kind = "one-bit" if self.one_bit_ else "dense"
            raise InputError(
                f"X has {phi.shape[1]} features, but {type(self).__name__} is expecting {width} features as "
                f"input: {len(self.weights_)} {kind} ones, not {phi.dtype}; use the map it was fitted with."
            )

    def _squeeze(self, values: Array) -> Array:
        return values[:, 0] if values.shape[1] == 1 else values


def check_version(
    state: Mapping[str, object], version: int, arrays: Mapping[str, npt.NDArray[np.generic]], *names: str
) -> None:
    """Raise InputError if a stored model has another version, or lacks arrays of the given names."""
    if state.get("version") != version or not arrays.keys() >= set(names):
        raise InputError(
            f"the model has state version {state.get('version')!r}, but this daskrf reads version {version}: "
            "fit again."
        )


def seen_no(who: str, *, noise: bool) -> str:
    """Return the message for labels that show no noise or no signal."""
    lacks = "noise" if noise else "signal"
    advice = (
        "predictions are overconfident near labelled molecules; set the noise variance if replicates differ"
        if noise
        else "predictions will hardly differ from the mean; check that these are the right labels, joined to "
        "the right molecules"
    )
    return f"{who} sees no {lacks} in these labels: {advice}"


class RandomFeatureGP(FeatureSpaceGP):
    """Exact Gaussian process regression with the kernel signal_variance * phi(x) . phi(x').

    y = mean + f(x) + noise, f ~ GP(0, signal_variance phi . phi). Everything is computed from sums over the
    rows (`SufficientStatistics`); hyperparameters that are not given maximize the evidence of all rows.
    Several targets share one Gram matrix but have their own hyperparameters.

    A label may be a limit of a measurement that was not made (Tobin 1958), whose likelihood is the
    probability of that side. Expectation propagation replaces each limit by a label with more noise
    (`daskrf.gp.processes.featurelimits`).

    Parameters
    ----------
    feature_map : FeatureMap, optional
        Map from the input of `fit` and `predict` to features. Without it, the input itself is features: a
        float array of shape (n, M), or packed bits (uint8, see `daskrf.arrays`) of shape (n, ceil(M / 8)).
    mean, signal_variance, noise_variance : float or array of shape (n_targets,), optional
        Hyperparameters to keep fixed: the mean of y, the variance of f where |phi| = 1, and the variance of
        the noise. Any combination; the others are optimized.
    method : {"auto", "eigh", "cholesky"}
        How the evidence is maximized: by one eigendecomposition and then O(M) a step, or by about ten
        Cholesky factorizations. "auto" chooses the eigendecomposition up to M = 1024, and also for at most
        M / 4 rows, when it is made in the space of the rows; see benchmarks/README.md. If "cholesky" would
        lose digits (fewer than 2 M rows, and noise below 1e-6 of the variance of f), an eigendecomposition
        follows.
    n_components : int, optional
        M for packed bits; default 8 times their number of bytes.

    Attributes
    ----------
    mean_, signal_variance_, noise_variance_ : float64 arrays, shape (n_targets,)
    weights_ : float64 array, shape (M, n_targets)
        Posterior mean of the feature weights.
    log_marginal_likelihood_value_ : float, or float64 array of shape (n_targets,) for several targets
    left_out_ : float64 array, shape (n_targets,)
        Variance of f outside the features, per unit of k(x, x) - |phi(x)|^2: the signal variance, unless the
        estimated noise variance implies less. It matters for maps that project their kernel, such as
        `NystromFeatures` (`FeatureMap.projected_kernel`).
    mean_left_ : float
        Mean of k(x, x) - |phi(x)|^2 over the rows if the estimated noise variance includes it, else 0.
    at_bound_ : bool array, shape (n_targets,)
        Whether noise_variance / signal_variance is at an end of its search range: the data show no noise, or
        no signal.
    jitter_ : float
        Largest jitter that a Cholesky factorization needed (relative to Phi^T Phi), usually 0.
    statistics_ : SufficientStatistics
    feature_map_ : FeatureMap or None

    Notes
    -----
    Source: Rasmussen & Williams 2006, sections 2.1.2 and 2.2 (weight-space view) and eq. 5.8 (evidence).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Phi = rng.standard_normal((200, 3))
    >>> gp = RandomFeatureGP().fit(Phi, 5 + Phi @ [1.0, -2.0, 0.5] + 0.1 * rng.standard_normal(200))
    >>> mean, std = gp.predict(np.eye(3), return_std=True)
    >>> (mean.round(1).tolist(), std.round(1).tolist())
    ([6.0, 3.0, 5.5], [0.1, 0.1, 0.1])
    """

    takes_limits = True

    def __init__(
        self,
        feature_map: FeatureMap | None = None,
        *,
        mean: npt.ArrayLike | None = None,
        signal_variance: npt.ArrayLike | None = None,
        noise_variance: npt.ArrayLike | None = None,
        method: Literal["auto", "eigh", "cholesky"] = "auto",
        n_components: int | None = None,
    ) -> None:
        self.feature_map = feature_map
        self.mean = mean
        self.signal_variance = signal_variance
        self.noise_variance = noise_variance
        self.method = method
        self.n_components = n_components
