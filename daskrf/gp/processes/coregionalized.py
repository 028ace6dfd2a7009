"""Exact Gaussian process regression of several targets whose functions correlate."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, TypedDict, cast, overload

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import (
    Matrix,
    MatrixLike,
    as_csr,
    check_rows_to_fit,
    check_width_of,
    learn_columns,
    refuse_negative,
    shape_of,
)
from daskrf.documents import OfClass
from daskrf.errors import InputError
from daskrf.gp.processes.exact import ExactGP, ExactState
from daskrf.gp.processes.jointevidence import FixedParameters, JointEvidence, JointParameters
from daskrf.gp.processes.kerneltrials import KernelChoice, KernelChoiceState
from daskrf.gp.processes.process import check_version, seen_no
from daskrf.gp.processes.regressor import Regressor, RowFunction, mean_and_std
from daskrf.gp.sums.chunks import check_rows
from daskrf.kernels.coregionalized import Coregionalized, with_target
from daskrf.kernels.kernel import Kernel
from daskrf.kernels.tanimoto import TanimotoMinMax

Array = npt.NDArray[np.float64]

LARGEST_FACTOR = 12_000
"""Labels of all targets up to which the equations are factorized, in 1.2 GB."""

FOR_CORRELATIONS = 2000
"""Labels that correlations are found with, at most."""

FEWEST_ALONE = 20
"""Labels from which on a target has the mean and the variances that its own labels determine."""

_STATE_VERSION = 1
_OPTIONS = ("solver", "n_draws", "n_features", "n_landmarks", "tolerance", "max_iterations", "random_state")


Fixed = float | list[float] | list[list[float]] | None
"""A hyperparameter that the user fixed, as JSON holds it, or None."""


class FixedOfTargets(TypedDict):
    """The hyperparameters that the user fixed, None for those that were optimized."""

    correlation: Fixed
    mean: Fixed
    signal_variance: Fixed
    noise_variance: Fixed


class CoregionalizedState(OfClass):
    """What `CoregionalizedGP.state` returns."""

    version: int
    mean: list[float]
    signal_variance: list[float]
    noise_variance: list[float]
    at_bound: list[bool]
    correlation: list[list[float]]
    fixed: FixedOfTargets
    solver: Literal["auto", "cholesky", "cg"]
    n_columns: int
    kernel_choices: list[KernelChoiceState | None]
    joint: ExactState


class CoregionalizedGP(Regressor):
    """Exact Gaussian process regression of several targets, which learn from each other's labels.

    Labels of target t are m_t + f_t(x) + noise, and f_s(x) and f_t(x') have the covariance sqrt(a_s a_t) R_st
    k(x, x') (Bonilla, Chai & Williams 2008, Multi-task Gaussian process prediction). Targets may have labels
    of different rows. Means m, signal variances a and noise variances that are not given are those of an
    `ExactGP` of the target's own labels, if there are at least 20. Correlations R, and the values of targets
    with fewer labels, maximize the evidence of the labels of all targets, with weak priors; see
    `daskrf.gp.processes.jointevidence`.

    Parameters
    ----------
    kernel : daskrf.kernels.Kernel, optional
        k, as in `ExactGP`.
    correlation : float array, shape (n_targets, n_targets), optional
        R, positive semidefinite, to keep fixed.
    mean, signal_variance, noise_variance : float, or array of shape (n_targets,), optional
        Values to keep fixed.
    solver : {"auto", "cholesky", "cg"}
        How to solve: a Cholesky factorization, conjugate gradients, or the former up to 12,000 labels.
    n_draws, n_features, n_landmarks, tolerance, max_iterations, cache_bytes, random_state
        As in `ExactGP`.

    Attributes
    ----------
    mean_, signal_variance_, noise_variance_ : float64 arrays, shape (n_targets,)
    correlation_ : float64 array, shape (n_targets, n_targets)
    log_marginal_likelihood_value_ : float
        Log marginal likelihood of all labels; NaN with conjugate gradients.
    joint_ : ExactGP
        The process of all labels in units of their noise. Each label is a row of it, which holds the row of
        the molecule and then the number of the target; see `daskrf.kernels.coregionalized.Coregionalized`.
    at_bound_ : bool array, shape (n_targets,)
        Whether a variance ended where its search does.
    solver_ : str
        "cholesky" or "cg".
    kernel_choices_ : tuple of KernelChoice or None
        How the `fit` command chose the kernel of each target, if it did; that of all is one of them.

    Notes
    -----
    Above 2,000 labels, correlations are those of a subset of this size, with molecules that have labels of
    most targets first. The search takes some dozens of factorizations of it. Variances found with so few
    labels predict worse: for six ADME endpoints they cost 0.01 of R2 and the calibration of one. Memory and
    time of the solution are those of an `ExactGP` with as many rows as there are labels, but k is computed
    once for all labels of a molecule.

    Examples
    --------
    >>> from daskrf.kernels import Gaussian
    >>> X = np.linspace(0.0, 6.0, 40)[:, None]
    >>> y = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0])]) + 0.01 * np.cos(40 * X)
    >>> y[20:, 1] = np.nan
    >>> gp = CoregionalizedGP(Gaussian(1.0)).fit(X, y)
    >>> bool(abs(gp.predict(X[30:])[:, 1] - np.sin(X[30:, 0])).max() < 0.2)
    True
    """

    _weights_name = "joint_"
    several_targets = True
    single_target = False
    one_bit_ = False
    kernel_choices_: tuple[KernelChoice | None, ...] = ()
    joint_: ExactGP

    def __init__(
        self,
        kernel: Kernel = TanimotoMinMax(),  # noqa: B008, kernels are immutable
        *,
        correlation: npt.ArrayLike | None = None,
        mean: npt.ArrayLike | None = None,
        signal_variance: npt.ArrayLike | None = None,
        noise_variance: npt.ArrayLike | None = None,
        solver: Literal["auto", "cholesky", "cg"] = "auto",
        n_draws: int = 32,
        n_features: int = 8192,
        n_landmarks: int | None = None,
        tolerance: float = 1e-3,
        max_iterations: int = 300,
        cache_bytes: int = 4 * 2**30,
        random_state: int = 0,
    ) -> None:
        self.kernel = kernel
        self.correlation = correlation
        self.mean = mean
        self.signal_variance = signal_variance
        self.noise_variance = noise_variance
        self.solver = solver
        self.n_draws = n_draws
        self.n_features = n_features
        self.n_landmarks = n_landmarks
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.cache_bytes = cache_bytes
        self.random_state = random_state

    @property
    def positive_rows(self) -> bool:
        return isinstance(self.kernel, Kernel) and self.kernel.positive_rows

    def fit(self, X: MatrixLike, y: npt.ArrayLike, *, parameters: JointParameters | None = None) -> Self:
        """Fit to rows X, CSR or dense of shape (n, n_columns), and targets y of shape (n, n_targets).

        Parameters
        ----------
        X, y : rows and labels
            NaN where a row has no label of a target; each row has one at least, and so has each target.
        parameters : JointParameters, optional
            From `find_parameters`, if these have been found already.

        Raises
        ------
        InputError
            If shapes do not match, a row or a target has no label, a value is not finite or not valid for the
            kernel, or a parameter is out of range.
        """
        original, X, y = X, check_rows(X, self.kernel), _checked_labels(y)
        if X.shape[0] != len(y):
            raise InputError(f"X has {X.shape[0]} rows, but y has {len(y)}: they must be the same.")
        check_rows_to_fit(X)
        if self.positive_rows:
            refuse_negative(X, type(self).__name__)
        if parameters is None:
            parameters = self.find_parameters(X, y)
        self.mean_, self.signal_variance_ = parameters.mean, parameters.signal_variance
        self.noise_variance_, self.correlation_ = parameters.noise_variance, parameters.correlation
        at_bound = parameters.at_bound
        self.at_bound_ = np.zeros(y.shape[1], bool) if at_bound is None else at_bound
        row, target = np.nonzero(np.isfinite(y))
        size = np.sqrt(self.signal_variance_ / self.noise_variance_)
        kernel = Coregionalized(self.kernel, (size[:, None] * _root(self.correlation_)).tolist())
        labels = (y[row, target] - self.mean_[target]) / np.sqrt(self.noise_variance_[target])
        self.joint_ = (
            self.process_for(len(row))
            .set_params(kernel=kernel)
            .fit(with_target(as_csr(X)[row], target), labels)
        )
        # The names and the number of the columns of X itself.
        learn_columns(self, original)
        return self

    def find_parameters(
        self, X: MatrixLike, y: npt.ArrayLike, *, alone: FixedParameters | None = None
    ) -> JointParameters:
        """Return means, variances and correlations; the evidence is that of at most 2,000 labels.

        Parameters
        ----------
        X, y : as for `fit`
        alone : FixedParameters, optional
            Means and variances that fits of single targets with this kernel have found already.
        """
        labels = _checked_labels(y)
        fixed, at_bound = self._determined(X, labels, alone or FixedParameters())
        row, target = some_labels(labels, FOR_CORRELATIONS, self.random_state)
        rows, place = np.unique(row, return_inverse=True)
        gram = self.kernel(as_csr(check_rows(X, self.kernel))[rows])[np.ix_(place, place)]
        try:
            parameters = self._best(JointEvidence(gram, target, labels[row, target]), fixed)
        except np.linalg.LinAlgError:
            raise InputError(
                "the covariance of the labels of all targets is not positive definite to within rounding: "
                "give a larger noise variance, or fit each target alone."
            ) from None
        assert parameters.at_bound is not None
        return dataclasses.replace(parameters, at_bound=parameters.at_bound | at_bound)

    def _best(self, evidence: JointEvidence, fixed: FixedParameters) -> JointParameters:
        """Return the parameters with the most evidence, with the correlations of the user if given."""
        if self.correlation is None:
            return evidence.maximize(fixed)
        R = _checked_correlation(self.correlation, evidence.n_targets)
        alone = dataclasses.replace(evidence.maximize(fixed, correlated=False), correlation=R)
        value, *_, mean = evidence(alone.covariance, alone.noise_variance, fixed.mean)
        return dataclasses.replace(alone, mean=mean, log_evidence=value)

    def _determined(
        self, X: Matrix, y: Array, alone: FixedParameters
    ) -> tuple[FixedParameters, npt.NDArray[np.bool_]]:
        """Return what is not left to the labels of all targets, NaN for the rest, and what is at a bound.

        These are values that the user gave, and those of targets with enough labels of their own.
        """
        names, n_targets = ("mean", "signal_variance", "noise_variance"), y.shape[1]
        fixed = {name: self._setting(name, n_targets) for name in names}
        for name in names:
            if (values := getattr(alone, name)) is not None:
                fixed[name] = np.where(np.isnan(fixed[name]), values, fixed[name])
        at_bound = np.zeros(n_targets, bool)
        for t in range(n_targets):
            there = np.flatnonzero(np.isfinite(y[:, t]))
            settings = {name: None if np.isnan(v[t]) else float(v[t]) for name, v in fixed.items()}
            if None not in settings.values() or len(there) < FEWEST_ALONE or np.ptp(y[there, t]) == 0:
                continue
            options = {name: getattr(self, name) for name in _OPTIONS if name != "solver"}
            gp = ExactGP(self.kernel).set_params(cache_bytes=self.cache_bytes, **settings, **options)
            gp.fit(X[there], y[there, t])
            for name in names:
                fixed[name][t] = getattr(gp, f"{name}_")[0]
            at_bound[t] = gp.at_bound_[0]
        return FixedParameters(**fixed), at_bound

    def _setting(self, name: str, n_targets: int) -> Array:
        """Return the values that the user gave, one for each target; NaN without."""
        value = getattr(self, name)
        if value is None:
            return np.full(n_targets, math.nan)
        numbers = np.asarray(value, dtype=np.float64)
        least = -math.inf if name == "mean" else 0.0
        valid = np.isfinite(numbers) & (numbers > least)
        if numbers.shape not in ((), (n_targets,)) or not valid.all():
            kind = "finite" if name == "mean" else "positive, finite"
            raise InputError(f"{name} must be one {kind} number, or one for each of {n_targets} targets.")
        return np.broadcast_to(numbers, (n_targets,)).copy()

    def process_for(self, n_labels: int) -> ExactGP:
        """Return the process of all labels in units of their noise, not fitted yet, with the inner kernel."""
        solver = self.solver
        if solver == "auto" and n_labels <= LARGEST_FACTOR:
            solver = "cholesky"
        options = {name: getattr(self, name) for name in _OPTIONS} | {"solver": solver}
        gp = ExactGP(self.kernel, mean=0.0, signal_variance=1.0, noise_variance=1.0)
        return gp.set_params(cache_bytes=self.cache_bytes, **options)

    @property
    def solver_(self) -> str:
        """How the equations were solved: "cholesky" or "cg"."""
        self._check_fitted()
        return self.joint_.solver_

    @property
    def log_marginal_likelihood_value_(self) -> float:
        """Log marginal likelihood of all labels; NaN with conjugate gradients."""
        self._check_fitted()
        target = self.target_of_label_
        scale = 0.5 * float(np.log(self.noise_variance_[target]).sum())
        return getattr(self.joint_, "log_marginal_likelihood_value_", math.nan) - scale

    @property
    def log_marginal_likelihoods_(self) -> Array:
        """NaN for each target: the labels of all have one likelihood."""
        return np.full(len(self.mean_), math.nan)

    @property
    def target_of_label_(self) -> npt.NDArray[np.intp]:
        """Position of the target of each label, int array of shape (n_labels,)."""
        self._check_fitted()
        return self._kernel.split(self.joint_.X_train_)[1]

    @property
    def rows_of_labels_(self) -> npt.NDArray[np.integer]:
        """The row of the molecule of each label, CSR of shape (n_labels, n_columns)."""
        self._check_fitted()
        return self._kernel.split(self.joint_.X_train_)[0]

    @property
    def _kernel(self) -> Coregionalized:
        kernel = self.joint_.kernel
        assert isinstance(kernel, Coregionalized)
        return kernel

    def of_target(self, target: int) -> CoregionalizedTarget:
        """Return one target, as a process of its own that also knows the labels of the others."""
        self._check_fitted()
        scale = math.sqrt(self.noise_variance_[target])
        variances = float(self.signal_variance_[target]), float(self.noise_variance_[target])
        return CoregionalizedTarget(self, self.joint_, target, scale, float(self.mean_[target]), *variances)

    def of_sum(self, targets: tuple[int, ...], weights: tuple[float, ...]) -> CoregionalizedTarget:
        """Return a weighted sum of targets, as a process of its own."""
        self._check_fitted()
        w = np.zeros(len(self.mean_))
        np.add.at(w, list(targets), weights)
        row = (w * np.sqrt(self.noise_variance_)) @ np.array(self._kernel.factor)
        kernel = Coregionalized(self._kernel.inner, [*self._kernel.factor, row.tolist()])
        numbers = float(w @ self.mean_), float(row @ row), float(w**2 @ self.noise_variance_)
        return CoregionalizedTarget(self, self.joint_.with_kernel(kernel), len(w), 1.0, *numbers)

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
    ) -> Array | tuple[Array, ...]:
        """Return the predictive mean and, on request, the standard deviation or the joint covariance.

        Parameters
        ----------
        X : rows as for `fit`, shape (m, n_columns)
        return_std, return_cov : bool
            At most one of them.
        of : {"y", "f", "both"}
            As in `ExactGP.predict`.
        target : int, optional
            Predict this target only.
        diagonal : None
            Not used.

        Returns
        -------
        mean : float64 array, shape (m, n_targets), or (m,) for one target
        std : float64 array of the same shape, if `return_std`; two, of f and of y, for "both"
        cov : float64 array, shape (m, m, n_targets), or (m, m), if `return_cov`
            Of each target; what targets have in common is in `of_sum`.
        """
        self._check_request(X, of, return_std=return_std, return_cov=return_cov)
        if target is not None or return_cov:
            chosen = range(len(self.mean_)) if target is None else [target]
            each = [self.of_target(t).predict(X, return_std, return_cov, of=of) for t in chosen]
            if target is not None:
                return each[0]
            means, covariances = zip(*each, strict=True)
            return np.column_stack(means), np.stack(covariances, axis=-1)
        check_width_of(self, X)
        n, size = shape_of(X)[0], len(self.mean_)
        rows = with_target(
            as_csr(check_rows(X, self.kernel))[np.repeat(np.arange(n), size)], np.tile(np.arange(size), n)
        )
        scale = np.sqrt(self.noise_variance_)
        if not return_std:
            return self.mean_ + scale * self.joint_.predict(rows).reshape(n, size)
        mean, std = (values.reshape(n, size) for values in self.joint_.predict(rows, True, of="f"))
        std_f, std_y = std * scale, np.sqrt(std**2 + 1.0) * scale
        return mean_and_std(self.mean_ + scale * mean, std_f, std_y, of)

    def sample_y(
        self, X: MatrixLike, n_samples: int = 1, random_state: int = 0, *, of: Literal["y", "f"] = "y"
    ) -> Array:
        """Return joint samples of all targets at the rows X, shape (m, n_targets, n_samples).

        As `ExactGP.sample_y`, for m n_targets rows.
        """
        self._check_request(X, of, return_std=False, return_cov=False)
        check_width_of(self, X)
        n, size = shape_of(X)[0], len(self.mean_)
        rows = with_target(
            as_csr(check_rows(X, self.kernel))[np.repeat(np.arange(n), size)], np.tile(np.arange(size), n)
        )
        draws = self.joint_.sample_y(rows, n_samples, random_state, of=of).reshape(n, size, n_samples)
        return np.asarray(self.mean_[:, None] + np.sqrt(self.noise_variance_)[:, None] * draws)

    def draw(self, seed: int, target: int = 0) -> TargetFunction:
        """Return one posterior sample of one target; with the same seed, those of all targets correlate."""
        return self.of_target(target).draw(seed)

    def state(self) -> CoregionalizedState:
        """Return a JSON-able description of the fitted model; with `arrays` it rebuilds the model."""
        self._check_fitted()
        return {
            "class": type(self).__name__,
            "version": _STATE_VERSION,
            "mean": self.mean_.tolist(),
            "signal_variance": self.signal_variance_.tolist(),
            "noise_variance": self.noise_variance_.tolist(),
            "at_bound": self.at_bound_.tolist(),
            "correlation": self.correlation_.tolist(),
            "fixed": {
                "correlation": _plain(self.correlation),
                "mean": _plain(self.mean),
                "signal_variance": _plain(self.signal_variance),
                "noise_variance": _plain(self.noise_variance),
            },
            "solver": self.solver,
            "n_columns": self.n_features_in_,
            "kernel_choices": [None if each is None else each.state() for each in self.kernel_choices_],
            "joint": self.joint_.state(),
        }

    def arrays(self, *, statistics: bool = True) -> dict[str, npt.NDArray[np.generic]]:
        """Return the rows and weights of all labels and, with `statistics`, what std and samples need."""
        self._check_fitted()
        return self.joint_.arrays(statistics=statistics)

    @classmethod
    def from_state(cls, state: Mapping[str, object], arrays: Mapping[str, npt.NDArray[np.generic]]) -> Self:
        """Rebuild a fitted model from `state` and `arrays`.

        Raises
        ------
        InputError
            If the state has another version, or the rows are missing.
        """
        check_version(state, _STATE_VERSION, arrays, "weights", "rows/data")
        entries = cast(CoregionalizedState, state)
        joint = ExactGP.from_state(entries["joint"], arrays)
        kernel = joint.kernel
        if not isinstance(kernel, Coregionalized) or kernel.n_targets != len(entries["mean"]):
            raise ValueError("its kernel is not one of its targets")
        options = {name: getattr(joint, name) for name in _OPTIONS} | {"solver": entries["solver"]}
        model = cls(kernel.inner, **entries["fixed"], **options)
        model.kernel_choices_ = tuple(
            None if each is None else KernelChoice.from_state(each) for each in entries["kernel_choices"]
        )
        model.mean_, model.at_bound_ = np.array(entries["mean"]), np.array(entries["at_bound"])
        model.signal_variance_ = np.array(entries["signal_variance"])
        model.noise_variance_ = np.array(entries["noise_variance"])
        model.correlation_, model.joint_ = np.array(entries["correlation"]), joint
        model.n_features_in_ = int(entries["n_columns"])
        return model

    @property
    def n_rows_(self) -> int:
        """Number of labels it was fitted to, of all targets."""
        self._check_fitted()
        return self.joint_.n_rows_

    @property
    def means_only(self) -> bool:
        """Whether it was loaded without the arrays that standard deviations and samples need."""
        return self.joint_.means_only

    def memory_of_model(self, *, std: bool) -> int:
        """Return the bytes of the fitted model in a worker that predicts."""
        return self.joint_.memory_of_model(std=std)

    def seconds_per_row(self, *, std: bool) -> float:
        """Return the approximate time in seconds to predict all targets of a row on one core."""
        return len(self.mean_) * self.joint_.seconds_per_row(std=std)

    def words(self) -> str:
        """Return how the equations were solved, in words."""
        return self.joint_.words()

    def cautions(self, target: int = 0) -> list[str]:
        """Return the reasons not to trust standard deviations of one target; usually none."""
        self._check_fitted()
        noise = bool(self.noise_variance_[target] < self.signal_variance_[target])
        return [seen_no("the evidence", noise=noise)] if self.at_bound_[target] else []


@dataclass(frozen=True)
class CoregionalizedTarget:
    """A target of a `CoregionalizedGP`, or a weighted sum of some, as a process of one target.

    Attributes
    ----------
    whole : CoregionalizedGP
    joint : ExactGP
        The process of all labels, whose kernel also knows the sum.
    place : int
        The number of the target or the sum in that kernel.
    scale, shift : float
        Values are `shift` plus `scale` times those of `joint`.
    signal, noise : float
        Variances of f, where k(x, x) = 1, and of the noise.
    """

    whole: CoregionalizedGP
    joint: ExactGP
    place: int
    scale: float
    shift: float
    signal: float
    noise: float

    one_bit_: ClassVar[bool] = False
    draws_take_rows: ClassVar[bool] = False  # X are rows already

    @property
    def mean_(self) -> Array:
        """The mean of the labels, shape (1,)."""
        return np.array([self.shift])

    @property
    def signal_variance_(self) -> Array:
        """The variance of f, shape (1,)."""
        return np.array([self.signal])

    @property
    def noise_variance_(self) -> Array:
        """The variance of the noise, shape (1,)."""
        return np.array([self.noise])

    @property
    def kernel(self) -> Kernel:
        """The kernel of molecules."""
        return self.whole.kernel

    @property
    def solver_(self) -> str:
        """How the equations were solved."""
        return self.joint.solver_

    @property
    def means_only(self) -> bool:
        """Whether it was loaded without the arrays that standard deviations and samples need."""
        return self.joint.means_only

    @property
    def n_rows_(self) -> int:
        """Number of weights of a posterior sample: the labels of all targets."""
        return self.joint.n_rows_

    @property
    def n_labels_(self) -> int:
        """Number of labels of the target; 0 for a sum of targets."""
        return int(np.count_nonzero(self.whole.target_of_label_ == self.place))

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
    ) -> Array: ...
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
    ) -> tuple[Array, ...]: ...
    def predict(
        self,
        X: MatrixLike,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        of: Literal["y", "f", "both"] = "y",
        target: int | None = None,
        diagonal: npt.ArrayLike | None = None,
    ) -> Array | tuple[Array, ...]:
        """Return the predictive mean and, on request, the standard deviation or the joint covariance.

        As `ExactGP.predict`.
        """
        if target not in (None, 0):
            raise InputError(f"this process has one target: target must be 0 or None, not {target!r}.")
        rows = self._rows(X)
        if return_cov:
            mean, covariance = self.joint.predict(rows, return_cov=True, of="f")
            covariance = covariance * self.scale**2
            covariance[np.diag_indices(len(mean))] += self.noise if of == "y" else 0.0
            return self.shift + self.scale * mean, covariance
        if not return_std:
            return self.shift + self.scale * self.joint.predict(rows)
        mean, std = self.joint.predict(rows, True, of="f")
        std_f = self.scale * std
        std_y = np.sqrt(std_f**2 + self.noise)
        return mean_and_std(self.shift + self.scale * mean, std_f, std_y, of)

    def _rows(self, X: MatrixLike) -> Matrix:
        check_width_of(self.whole, X)
        return with_target(check_rows(X, self.kernel), self.place)

    def cautions(self, target: int = 0) -> list[str]:
        """Return the reasons not to trust standard deviations; usually none."""
        return self.whole.cautions(self.place) if self.place < len(self.whole.mean_) else []

    def most_draws(self) -> int | None:
        """Return the number of posterior samples, or None for any."""
        return self.joint.most_draws()

    def weights_of_draw(self, seed: int, target: int = 0) -> npt.NDArray[np.float32]:
        """Return the weights of all labels in a posterior sample, float32 of shape (n_labels, 1)."""
        return self.joint.weights_of_draw(seed)

    def weights_of_draws(self, n: int, seed: int, target: int = 0) -> npt.NDArray[np.float32]:
        """Return the weights of all labels in n posterior samples, float32 of shape (n_labels, n)."""
        return self.joint.weights_of_draws(n, seed)

    def drawn(self, weights: npt.NDArray[np.float32], seed: int, target: int = 0) -> TargetFunction:
        """Return the sample, or samples, with weights from `weights_of_draw` or `weights_of_draws`."""
        return TargetFunction(self.joint.drawn(weights, seed), self)

    def draw(self, seed: int, target: int = 0) -> TargetFunction:
        """Return a posterior sample as a function."""
        return self.drawn(self.weights_of_draw(seed), seed)

    def rough(self) -> TargetFunction | None:
        """Return a cheap approximation of the mean, or None without landmarks."""
        function = self.joint.rough()
        return None if function is None else TargetFunction(function, self)


@dataclass(frozen=True)
class TargetFunction:
    """A function of rows of molecules, from one of rows with targets, or several functions at once."""

    function: RowFunction
    of: CoregionalizedTarget

    def predict(self, X: MatrixLike) -> Array:
        """Return the values at each row, float64 of shape (m,), or (m, D) for D functions."""
        return np.asarray(self.of.shift + self.of.scale * self.function.predict(self.of._rows(X)))


def some_labels(
    y: Array, most: int, random_state: int = 0
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return row and target of some labels, all if there are no more: as many of each target as can be.

    Of each target they are those of the molecules with labels of most targets, in the same random order.

    Parameters
    ----------
    y : float64 array, shape (n, n_targets)
        NaN where there is no label.
    most, random_state : int

    Examples
    --------
    >>> y = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, np.nan]])
    >>> row, target = some_labels(y, 2)
    >>> row.tolist(), target.tolist()
    ([1, 1], [0, 1])
    """
    there = np.isfinite(y)
    counts = there.sum(axis=0)
    chosen = np.zeros_like(there)
    order = np.lexsort([seeds.words(random_state, "gp/targets", len(y)), -there.sum(axis=1)])
    left, n_left = most, len(counts)
    for t in np.argsort(counts, kind="stable").tolist():
        n = min(int(counts[t]), left // n_left)  # targets with few labels leave their share to others
        rows = order[there[order, t]][:n]
        chosen[rows, t] = True
        left, n_left = left - n, n_left - 1
    row, target = np.nonzero(chosen)
    return row, target


def _plain(value: npt.ArrayLike | None) -> Fixed:
    """Return a parameter for JSON."""
    plain: Fixed = None if value is None else np.asarray(value, dtype=np.float64).tolist()
    return plain


def _root(correlation: Array) -> Array:
    """Return the symmetric root of a positive semidefinite matrix, which is unique."""
    values, vectors = np.linalg.eigh(correlation)
    return np.asarray((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)


def _checked_labels(y: npt.ArrayLike) -> Array:
    if y is None:
        raise InputError("CoregionalizedGP requires y to be passed, but the target y is None.")
    labels = np.asarray(y, dtype=np.float64)
    if labels.ndim != 2 or labels.shape[1] < 2:
        raise InputError(f"y must have a column for each of several targets, not shape {labels.shape}.")
    if np.isinf(labels).any():
        raise InputError("y holds infinite values: give finite labels, and NaN where there are none.")
    there = np.isfinite(labels)
    if not len(labels) or not there.any(axis=1).all():
        raise InputError("Some rows have no label of any target: leave these rows out.")
    if not there.any(axis=0).all():
        raise InputError(f"Target {int(there.any(axis=0).argmin())} has no label: leave it out.")
    return labels


def _checked_correlation(correlation: npt.ArrayLike, n_targets: int) -> Array:
    R = np.asarray(correlation, dtype=np.float64)
    fits = R.shape == (n_targets, n_targets) and np.isfinite(R).all() and (R == R.T).all()
    if not fits or not (R.diagonal() == 1.0).all() or np.linalg.eigvalsh(R)[0] < -1e-9:
        raise InputError(
            f"correlation must be a positive semidefinite matrix of shape ({n_targets}, {n_targets}) with "
            "ones on its diagonal."
        )
    return R
