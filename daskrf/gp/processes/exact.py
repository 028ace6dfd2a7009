"""Exact Gaussian process regression with an exact kernel, in scikit-learn's manner."""

from __future__ import annotations

import copy
import dataclasses
import math
import threading
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal, NotRequired, Self, TypedDict, cast, overload

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import blas

from daskrf import seeds
from daskrf.arrays import (
    Matrix,
    MatrixLike,
    NamedArrays,
    as_csr,
    check_columns_of,
    check_rows_to_fit,
    check_width_of,
    learn_columns,
    refuse_negative,
    row_slice,
)
from daskrf.blas import blas_threads_for
from daskrf.documents import OfClass
from daskrf.errors import InputError
from daskrf.gp.processes.evidence import ONE_LABEL, check_positive, find_hyperparameters, log_likelihood
from daskrf.gp.processes.iteratedlimits import PROBES, IteratedSites
from daskrf.gp.processes.kerneltrials import KernelChoice, KernelChoiceState
from daskrf.gp.processes.limits import LimitFit, Sides, check_sides, fit_limits, gradient_with_limits
from daskrf.gp.processes.pathwise import (
    KernelSum,
    PathwisePosterior,
    ProcessParameters,
    fit_pathwise,
    prior_of_fit,
)
from daskrf.gp.processes.posterior import standard_normal
from daskrf.gp.processes.priordraws import CoregionalizedDraws, Draws, has_map, map_of, of_rows, prior_draws
from daskrf.gp.processes.process import check_version, seen_no
from daskrf.gp.processes.regressor import Regressor, mean_and_std
from daskrf.gp.solve.kernelmatrix import KernelMatrix
from daskrf.gp.solve.solvers import KernelSolver, NotPositiveError, ShiftedCholesky
from daskrf.gp.solve.variancemodel import VarianceModel, VarianceState
from daskrf.gp.sums.chunks import check_n_samples, check_of, check_rows
from daskrf.gp.sums.fixedpoint import check_targets
from daskrf.kernels.coregionalized import Coregionalized
from daskrf.kernels.kernel import Kernel, KernelState
from daskrf.kernels.kernel import from_state as kernel_from_state
from daskrf.kernels.tanimoto import TanimotoMinMax
from daskrf.quantities import format_bytes

_BLOCK_BYTES = 64 * 2**20  # of the kernel matrix at a time
_DRAW_JITTER = 1e-10  # relative to the variance, added to samples of f: 1e-5 of their standard deviation
_LARGEST_FACTOR = 4096  # rows; above, conjugate gradients are faster
_LARGEST_WITH_LIMITS = 8192  # the same if some are limits, whose variances a factorization knows exactly
_OF_LIMITS = ("side_", "stand_ins_", "excess_")
_OF_ONE_SOLVER = ("log_marginal_likelihood_value_", "jitter_", "residual_", "n_iterations_", "_pathwise")
_FIRST_GUESS = 1500  # rows that give the first guess of the hyperparameters
_LEAST_RATIO = 1e-3  # noise to signal variance, below which conjugate gradients converge slowly
_DOUBT = 3e-3  # noise far below this share of the variance of f over the rows is unlikely; see `ExactGP`
_FEW_MORE = 1.1  # with at most this many times the labels, the variances of a previous fit are kept
_FACTOR_LOCK = threading.Lock()

_VECTORS = 16  # held per right-hand side by conjugate gradients: directions, residuals, samples, copies
_USUAL_PRODUCTS = 60  # products with K in a fit with a hyperparameter search
_STATE_VERSION = 2

Array = npt.NDArray[np.float64]
FixedValues = tuple[float | None, float | None, float | None]


_KERNEL = TanimotoMinMax()  # frozen, so that all processes may share it


class ExactOptions(TypedDict):
    """The parameters of an `ExactGP` in an `ExactState`, but for the kernel and fixed hyperparameters."""

    n_draws: int
    n_features: int
    n_landmarks: int | None
    tolerance: float
    max_iterations: int
    cache_bytes: int
    n_subset: int | None
    random_state: int
    solver: Literal["auto", "cholesky", "cg"]


class FixedState(TypedDict):
    """The hyperparameters that the user fixed, None for those that were optimized."""

    mean: float | None
    signal_variance: float | None
    noise_variance: float | None


class PathwiseState(TypedDict, total=False):
    """The fit by conjugate gradients in an `ExactState`; empty for a factorization."""

    scale: float
    at_bound: bool
    residual: float
    n_iterations: int


class ExactState(OfClass):
    """What `ExactGP.state` returns."""

    version: int
    kernel: KernelState
    shape: list[int]
    options: ExactOptions
    given: FixedState
    mean: list[float]
    signal_variance: list[float]
    noise_variance: list[float]
    at_bound: list[bool] | bool
    jitter: float | None
    log_marginal_likelihood: float | None
    scale: NotRequired[float]
    residual: NotRequired[float]
    n_iterations: NotRequired[int]
    variances: VarianceState | None
    kernel_choice: KernelChoiceState | None


class ExactGP(Regressor):
    """Exact Gaussian process regression with the kernel signal_variance * k(x, x').

    y = mean + f(x) + noise, f ~ GP(0, signal_variance k), with any kernel of `daskrf.kernels`: the model that
    random features and landmarks approximate. Hyperparameters that are not given maximize the evidence of the
    rows it is fitted to. Up to a few thousand rows K is factorized. Above, conjugate gradients solve for the
    labels and for prior samples at once: means are then accurate to residuals of `tolerance`, there are
    `n_draws` posterior samples, and standard deviations are estimated from these and a variance model.

    Parameters
    ----------
    kernel : daskrf.kernels.Kernel, optional
        Default: `daskrf.kernels.TanimotoMinMax()`, for counts and other weights of at least 0, such as
        fingerprints; it has no length scale. Numbers that may be negative take another, such as
        ``Gaussian(length_scale)``; the command `fit` compares kernels.
    mean, signal_variance, noise_variance : float, optional
        Hyperparameters to keep fixed: the mean of y, the variance of f where k(x, x) = 1, and the variance
        of the noise. Any combination; the others are optimized.
    solver : {"auto", "cholesky", "cg"}
        How to solve: a Cholesky factorization, conjugate gradients, or the former up to 4,096 rows, and up to
        8,192 if some labels are limits.
    n_draws : int
        Number of posterior samples that conjugate gradients solve for.
    n_features : int
        Random features of the prior samples; more approximate the kernel better.
    n_landmarks : int, optional
        Number of rows in the preconditioner of conjugate gradients; default: n / 20, but from 500 to 4,000,
        and at most 2,000 above 200,000 rows.
    tolerance : float
        Largest residuals of conjugate gradients, relative to the right-hand sides. For the mean, a tenth of
        it.
    max_iterations : int
        Largest number of products with K.
    cache_bytes : int
        Memory for float32 tiles of K; 2 n^2 bytes hold them all. Tiles that do not fit, here or in free
        memory, are recomputed for each product.
    n_subset : int, optional
        Number of rows to fit to, chosen at random without replacement; all rows if there are no more.
    random_state : int
        Seed of that choice, of the landmarks and of the samples.

    Attributes
    ----------
    mean_, signal_variance_, noise_variance_ : float64 arrays, shape (1,)
        As in `RandomFeatureGP` for one target.
    log_marginal_likelihood_value_ : float
        Log marginal likelihood of the rows in the subset.
    subset_ : int64 array, shape (n,)
        Indices of the rows of X that it was fitted to, ascending.
    X_train_ : CSR matrix or array, shape (n, n_columns)
    y_train_ : float64 array, shape (n,)
    alpha_ : float64 array, shape (n,)
        (K + noise_variance / signal_variance I)^-1 (y - mean): the predictive mean is mean +
        k(x, X_train_) alpha.
    at_bound_ : bool array, shape (1,)
        Whether the evidence alone takes noise_variance / signal_variance to an end of its search range: the
        data show no noise, or no signal.
    jitter_ : float
        Jitter that the Cholesky factorization of K needed in addition to noise_variance / signal_variance,
        usually 0. Only with a factorization.
    solver_ : str
        "cholesky" or "cg".
    residual_ : float
        Largest |b - C x| / |b| over all right-hand sides b, C = K + noise_variance / signal_variance I. Only
        with conjugate gradients.
    n_iterations_ : int
        Number of products with K. Only with conjugate gradients.
    kernel_choice_ : KernelChoice or None
        How the `fit` command chose the kernel; see `choose_kernel`.
    side_ : int8 array, shape (n,), or None
        0 for a measured label, 1 for a lower and -1 for an upper limit; None if all labels were measured.
    stand_ins_, excess_ : float64 arrays, shape (n,)
        Only with limits: the labels that the equations are solved for, and their noise variance beyond
        `noise_variance_`, which is 0 for measured labels.

    Notes
    -----
    With a factorization the evidence is multiplied by a weak prior, exp(-0.003 v / lambda), where lambda is
    noise_variance / signal_variance and v signal_variance is the prior variance of f over the rows. The
    evidence alone often finds no noise in 100 labels, or in more labels with duplicates; intervals near
    labelled molecules are then far too narrow. For n labels that truly have no noise, the prior keeps lambda
    at 0.006 v / n or less.

    With conjugate gradients log det K is not computed, so there is no log marginal likelihood; its gradient
    follows from the samples, and the search uses that. It ends at a noise of 0.001 of the variance of the
    signal, which products in single precision still resolve: labels with less noise end there, as `at_bound_`
    and `cautions` say, and their standard deviations are somewhat too large. Variances combine those of the
    samples with a smooth model (`daskrf.gp.solve.variancemodel`), weighted by the leave-one-out
    accuracy of the model at labelled rows. With 32 samples their relative error for docking scores is 10 %,
    against 25 % from the samples alone.

    A limit is a label of a measurement that was not made, but lies beyond it (Tobin 1958): its likelihood is
    the probability of that side. Expectation propagation replaces each limit by a label with more noise
    (`daskrf.gp.likelihoods.propagation`), and the evidence counts each with the probability of its side.
    Above 1,500 labels, a random subset of that size determines the variances of a factorization. With
    conjugate gradients all labels do, and the variances of predictions that this takes are estimated
    (`daskrf.gp.processes.iteratedlimits`): for the same variances, means then differ from those of a
    factorization by 0.01 to 0.02 standard deviations on average (2,000 labels, 500 landmarks).

    Memory of a factorization: `fit` holds one n x n float64 matrix, 8 n^2 bytes (n = 10,000: 0.8 GB), and
    about 0.2 GB of blocks; see `memory`. Time: n^2 kernel values, 4/3 n^3 multiply-adds for the whole search
    (none if both variances are given), and n^3 / 3 for the posterior.

    Source: Rasmussen & Williams 2006, algorithm 2.1 and section 5.4.1; the baseline of Tripp et al. 2023,
    section 6.2 and appendix F.4, with the fitted noise in its predictions.

    Examples
    --------
    >>> X = [[2, 0, 1], [2, 1, 1], [0, 3, 0], [0, 3, 1]]
    >>> gp = ExactGP(mean=0.0, signal_variance=1.0, noise_variance=0.01)
    >>> gp = gp.fit(X, [1.0, 1.2, -1.0, -0.8])
    >>> mean, std = gp.predict([[2, 0, 0], [0, 2, 0]], return_std=True)
    >>> (mean.round(1).tolist(), std.round(1).tolist())
    ([0.8, -0.5], [0.7, 0.7])
    """

    common: ClassVar[tuple[str, ...]] = (
        *("kernel", "mean", "signal_variance", "noise_variance", "cache_bytes", "n_subset", "random_state"),
    )
    """Parameters that the `fit` command has for every model, or chooses itself."""

    _weights_name = "alpha_"
    one_bit_ = False
    kernel_choice_: KernelChoice | None = None
    side_: Sides | None = None
    stand_ins_: Array
    excess_: Array
    _factor: ShiftedCholesky | None
    _solver: KernelSolver | None
    _pathwise: PathwisePosterior

    def __init__(
        self,
        kernel: Kernel = _KERNEL,
        *,
        mean: float | None = None,
        signal_variance: float | None = None,
        noise_variance: float | None = None,
        solver: Literal["auto", "cholesky", "cg"] = "auto",
        n_draws: int = 32,
        n_features: int = 8192,
        n_landmarks: int | None = None,
        tolerance: float = 1e-3,
        max_iterations: int = 300,
        cache_bytes: int = 4 * 2**30,
        n_subset: int | None = None,
        random_state: int = 0,
    ) -> None:
        self.kernel = kernel
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
        self.n_subset = n_subset
        self.random_state = random_state

    def memory(self, n_rows: int, n_nonzeros: int = 0, *, limits: bool = False) -> int:
        """Return the bytes that `fit` needs for `n_rows` rows besides X itself and kept tiles, rounded up.

        `n_nonzeros` is the number of nonzero entries of X, and `limits` whether some labels are limits.

        Examples
        --------
        >>> from daskrf.kernels import TanimotoMinMax
        >>> round(ExactGP(TanimotoMinMax(), solver="cholesky").memory(10_000) / 1e9, 1)
        1.0
        """
        if self.solver_for(n_rows, limits=limits) == "cholesky":
            # With limits: parts of the matrix, the hidden measurements given the others, and a sweep.
            return (4 if limits else 1) * 8 * n_rows * n_rows + 3 * max(_BLOCK_BYTES, 8 * n_rows)
        vectors = _VECTORS * 4 * n_rows * self.vectors_of(limits=limits) + 16 * self.n_features * self.n_draws
        n_landmarks = self.landmarks_of(n_rows)
        landmarks = 4 * n_rows * n_landmarks + 24 * n_landmarks**2
        features = 2**25 if map_of(of_rows(self.kernel), 2, 0).one_bit else 2 * _BLOCK_BYTES
        return vectors + landmarks + KernelMatrix.memory(n_nonzeros) + features

    def vectors_of(self, *, limits: bool) -> int:
        """Return how many right-hand sides conjugate gradients solve for at a time."""
        return 2 + max(self.n_draws, PROBES if limits else 0)

    several_targets = False

    @property
    def positive_rows(self) -> bool:
        return isinstance(self.kernel, Kernel) and self.kernel.positive_rows

    def fit(
        self,
        X: MatrixLike,
        y: npt.ArrayLike,
        *,
        side: npt.ArrayLike | None = None,
        start: ExactGP | None = None,
        matrix: KernelMatrix | None = None,
    ) -> Self:
        """Fit to rows X, CSR or dense of shape (n, n_columns), and one target y of shape (n,).

        Parameters
        ----------
        X, y : rows and labels
        side : int array, shape (n,), optional
            0 where y was measured, 1 where the true value is at least y, and -1 where it is at most y; by
            default all were measured.
        start : ExactGP, optional
            A fit by conjugate gradients whose rows come first in X: its solution is the initial guess. If y
            also begins with its labels and is at most a tenth longer, its signal and noise variance are kept
            and only the mean is estimated anew; otherwise they are optimized, starting from its values.
        matrix : KernelMatrix, optional
            k(X, X), if its products for conjugate gradients are computed elsewhere.

        Raises
        ------
        InputError
            If there are no rows, shapes do not match, a value is not finite or not valid for the kernel, y
            has several targets, or no variance where it is needed, a hyperparameter is out of range, or the
            n x n matrix does not fit into memory.
        """
        original, X, y = X, check_rows(X, self.kernel), _check_target(y)
        if X.shape[0] != len(y):
            raise InputError(f"X has {X.shape[0]} rows, but y has {len(y)}: they must be the same.")
        if len(y) == 0:
            raise InputError("there is no row to fit to: pass at least one row with a label.")
        check_rows_to_fit(X)
        if self.positive_rows:
            refuse_negative(X, type(self).__name__)
        sides = None if side is None else check_sides(side, len(y))
        m, a, s = (self._fixed_value(name) for name in ("mean", "signal_variance", "noise_variance"))
        for name in (*_OF_ONE_SOLVER, *_OF_LIMITS, "kernel_choice_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.subset_ = self._choose(len(y))
        if len(self.subset_) < len(y):
            X, y = X[self.subset_], y[self.subset_]
            sides = None if sides is None else check_sides(sides[self.subset_], len(y))
        if sides is not None and not sides.any():
            sides = None
        if a is None or s is None:
            _check_variance(y if sides is None else y[sides == 0])
        self.X_train_, self.y_train_ = X, y
        self.solver_ = self.solver_for(len(y), limits=sides is not None)
        if sides is not None:
            with blas_threads_for(len(y)):
                self._fit_limits(X, y, sides, (m, a, s), matrix)
        elif self.solver_ == "cg":
            posterior = self._check_start(start, X)
            keep = start is not None and posterior is not None and _few_more(start.y_train_, y)
            self._fit_pathwise(X, y, (m, a, s), posterior, matrix, keep=keep)
        else:
            with blas_threads_for(len(y)):
                self._fit_factor(X, y, m, a, s)
        learn_columns(self, original)
        return self

    def _check_start(self, start: ExactGP | None, X: Matrix) -> PathwisePosterior | None:
        """Return the posterior to start from, or None."""
        if start is None or getattr(start, "solver_", None) != "cg":
            return None
        n, posterior = start.n_rows_, start._pathwise
        if not self.begins_from(start) or X.shape[0] < n or _differ(start.X_train_, row_slice(X, 0, n)):
            raise InputError(
                "start was fitted with another kernel, n_draws, n_features or random_state, or X does not "
                "begin with its rows: leave start out, or put its rows first."
            )
        return posterior

    def begins_from(self, other: ExactGP) -> bool:
        """Return whether another model has the same kernel and prior samples: `fit` can start from it."""
        names = ("kernel", "n_draws", "n_features", "random_state")
        return not other.means_only and all(getattr(self, n) == getattr(other, n) for n in names)

    def _first_guess(
        self, X: MatrixLike, y: Array, fixed: FixedValues
    ) -> tuple[ProcessParameters, FixedValues, bool]:
        """Return a first guess from a subset, the values to keep fixed, and whether they are at a bound."""
        m, a, s = fixed
        if a is not None and s is not None:
            return ProcessParameters(float(y.mean()) if m is None else m, a, s), fixed, False
        subset_gp = ExactGP(self.kernel, mean=m, signal_variance=a, noise_variance=s, solver="cholesky")
        try:
            subset_gp.set_params(n_subset=_FIRST_GUESS, random_state=self.random_state).fit(X, y)
            m0, a0, s0 = (
                float(v[0]) for v in (subset_gp.mean_, subset_gp.signal_variance_, subset_gp.noise_variance_)
            )
        except NotPositiveError:
            raise
        except InputError:  # all labels in the subset are equal, as with rare hits
            m0, a0, s0 = float(y.mean()), a or float(y.var()) / 2, s or float(y.var()) / 2
        guess = ProcessParameters(m0, a0, s0)
        if len(y) <= _FIRST_GUESS and s0 > _LEAST_RATIO * a0:
            with_variances = (
                m,
                a0 if a is None else a,
                s0 if s is None else s,
            )  # given values are kept to the last digit
            return guess, with_variances, bool(subset_gp.at_bound_[0])
        return guess, fixed, False

    def _fit_pathwise(
        self,
        X: MatrixLike,
        y: Array,
        fixed: FixedValues,
        start: PathwisePosterior | None,
        matrix: KernelMatrix | None,
        *,
        keep: bool,
    ) -> None:
        """Fit by conjugate gradients; with `keep`, keep the variances of `start` unless some are given."""
        searched, at_bound = fixed[1] is None or fixed[2] is None, False
        if start is not None and searched and len(y) > _FIRST_GUESS:
            first = start.hyperparameters
            if keep and fixed[1] is None and fixed[2] is None:
                fixed = fixed[0], first.signal_variance, first.noise_variance
        else:
            first, fixed, at_bound = self._first_guess(X, y, fixed)
        self._solve_pathwise(X, y, first, fixed, matrix, previous=start)
        self._pathwise.at_bound |= at_bound
        self._take(self._pathwise)

    def _solve_pathwise(
        self,
        X: MatrixLike,
        y: Array,
        start: ProcessParameters,
        fixed: FixedValues,
        matrix: KernelMatrix | None,
        *,
        previous: PathwisePosterior | None = None,
        side: Sides | None = None,
    ) -> None:
        try:
            self._pathwise = fit_pathwise(
                self.kernel,
                X,
                y,
                start=start,
                fixed=fixed,
                previous=previous,
                n_draws=self.n_draws,
                n_features=self.n_features,
                n_landmarks=self.landmarks_of(len(y)),
                tolerance=self.tolerance,
                max_iterations=self.max_iterations,
                keep_bytes=self.cache_bytes,
                random_state=self.random_state,
                matrix=matrix,
                side=side,
            )
        except MemoryError:
            raise InputError(
                f"conjugate gradients for {len(y):,} rows do not fit into memory: lower n_landmarks or "
                "n_draws, or use random features."
            ) from None

    def _take(self, posterior: PathwisePosterior) -> None:
        """Set the fitted attributes from a posterior by conjugate gradients."""
        self.mean_, self.signal_variance_, self.noise_variance_ = map(
            np.atleast_1d, map(float, posterior.hyperparameters)
        )
        self.alpha_ = posterior.scale * posterior.alpha[:, 0].astype(np.float64)
        self.at_bound_ = np.array([posterior.at_bound])
        self.residual_, self.n_iterations_ = posterior.residual, posterior.n_iterations

    def landmarks_of(self, n_rows: int) -> int:
        """Return the number of landmarks for `n_rows` rows."""
        # Landmarks save products with K, and each of these takes n^2 kernel values.
        most = max(2000, min(6000, 600_000_000 // max(1, n_rows)))
        wanted = self.n_landmarks or min(most, max(500, n_rows // 20))
        return min(wanted, n_rows)

    def _fit_factor(self, X: MatrixLike, y: Array, m: float | None, a: float | None, s: float | None) -> None:
        matrix = self._kernel_matrix(X)
        factor = ShiftedCholesky(matrix)
        solver, at_bound = None, False
        if a is None or s is None:
            solver = KernelSolver(matrix, y)
            doubt = _DOUBT * solver.spread if s is None else 0.0
            ((optimum, at_bound),) = find_hyperparameters(
                solver, mean=m, signal_variance=a, noise_variance=s, doubt=doubt
            )
            m, a, s = (
                optimum.mean + float(solver.moments.shift[0]),
                optimum.signal_variance,
                optimum.noise_variance,
            )
        _factorize(factor, s / a)
        if m is None:
            one, target = factor.half_solve(np.column_stack([np.ones(len(y)), y - y.mean()])).T
            m = float(y.mean() + one @ target / (one @ one))
        residual = (y - m)[:, None]
        alpha = factor.solve(residual)[:, 0]
        form = float(residual[:, 0] @ alpha) / a
        value = -0.5 * (len(y) * math.log(2 * math.pi * a) + factor.log_det() + form)
        self.alpha_ = alpha
        self.mean_, self.signal_variance_, self.noise_variance_ = np.array([m]), np.array([a]), np.array([s])
        self.log_marginal_likelihood_value_ = value
        self.at_bound_, self.jitter_ = np.array([at_bound]), factor.jitter
        self._factor, self._solver = factor, solver

    def _fit_limits(
        self, X: MatrixLike, y: Array, side: Sides, fixed: FixedValues, products: KernelMatrix | None
    ) -> None:
        """Fit to labels and limits by expectation propagation."""
        if self.solver_ == "cg":
            self._iterate_limits(X, y, side, fixed, products)
            return
        matrix = self._kernel_matrix(X)
        m, a, s = fixed
        at_bound = False
        if (a is None or s is None) and len(y) > _FIRST_GUESS:
            some = self._some_limits(len(y))
            first = self._first_of_limits(matrix[np.ix_(some, some)], y[some], side[some], fixed)
            a, s, at_bound = first.signal_variance, first.noise_variance, first.at_bound
        doubt = _DOUBT * _spread(matrix) if s is None else 0.0
        result = fit_limits(matrix, y, side, (m, a, s), doubt=doubt)
        self.side_, self.stand_ins_, self.excess_ = side, result.labels, result.excess
        a, s = result.signal_variance, result.noise_variance
        matrix.flat[:: len(y) + 1] += result.excess / a
        self._factor, self._solver = _factorize(ShiftedCholesky(matrix), s / a), None
        self.alpha_ = self._factor.solve((result.labels - result.mean)[:, None])[:, 0]
        self.mean_, self.signal_variance_ = np.array([result.mean]), np.array([a])
        self.noise_variance_ = np.array([s])
        self.log_marginal_likelihood_value_ = result.log_evidence
        self.at_bound_, self.jitter_ = np.array([at_bound or result.at_bound]), self._factor.jitter

    def _iterate_limits(
        self, X: Matrix, y: Array, side: Sides, fixed: FixedValues, products: KernelMatrix | None
    ) -> None:
        """Fit to labels and limits by conjugate gradients; the search begins with the variances of some."""
        m, a, s = fixed
        at_bound = False
        if a is None or s is None:
            some = self._some_limits(len(y))
            first = self._first_of_limits(self._kernel_matrix(X[some]), y[some], side[some], fixed)
            least = _LEAST_RATIO * first.signal_variance * float(np.mean(self.kernel.diag(X[some])))
            a, s = first.signal_variance, max(first.noise_variance, least) if s is None else s
            if len(some) == len(y):
                at_bound = first.at_bound or first.noise_variance < least
                fixed = m, a, s
        start = ProcessParameters(0.0 if m is None else m, a, s)
        self._solve_pathwise(X, y, start, fixed, products, side=side)
        self._pathwise.at_bound |= at_bound
        self._take(self._pathwise)
        assert self._pathwise.sites is not None
        self.side_ = side
        self.stand_ins_, self.excess_ = self._pathwise.sites.labels, self._pathwise.sites.excess

    def _some_limits(self, n_rows: int) -> npt.NDArray[np.intp]:
        """Return the rows whose labels and limits determine the variances, ascending."""
        order = np.argsort(seeds.words(self.random_state, "gp/limits", n_rows), kind="stable")
        return np.sort(order[:_FIRST_GUESS])

    def _first_of_limits(self, matrix: Array, y: Array, side: Sides, fixed: FixedValues) -> LimitFit:
        """Return the fit to some labels and limits, with their kernel matrix."""
        check_sides(side, len(y))
        _check_variance(y[side == 0])
        return fit_limits(matrix, y, side, fixed, doubt=_DOUBT * _spread(matrix))

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

        The mean costs n kernel values a row, the standard deviation n^2 / 2 multiply-adds more; both are
        computed in blocks of 64 MiB of kernel values. The covariance of m rows needs m x n and m x m matrices
        at once.

        Parameters
        ----------
        X : rows as for `fit`, shape (m, n_columns)
        return_std, return_cov : bool
            At most one of them.
        of : {"y", "f", "both"}
            Uncertainty of a new observation y (with noise) or of the function f (without), or, for
            `return_std`, of both.
        target : int, optional
            0 or None: there is only one.
        diagonal : None
            Not used; only models on features may need it.

        Returns
        -------
        mean : float64 array, shape (m,)
        std : float64 array, shape (m,), if `return_std`; two, of f and of y, for "both"
        cov : float64 array, shape (m, m), if `return_cov`
        """
        self._check_request(X, of, return_std=return_std, return_cov=return_cov)
        check_width_of(self, X)
        if target not in (None, 0):
            raise InputError(f"this model has one target: target must be 0 or None, not {target!r}.")
        X = check_rows(X, self.kernel)
        noise_variance = float(self.noise_variance_[0])
        if return_std or return_cov:
            self._check_draws()
        if return_cov:
            mean, covariance = self._covariance(X)
            covariance[np.diag_indices(len(mean))] += noise_variance if of == "y" else 0.0
            return mean, covariance
        if not return_std:
            return self._means(X)
        mean, variance = self._variances(X)
        std_f, std_y = np.sqrt(variance), np.sqrt(variance + noise_variance)
        return mean_and_std(mean, std_f, std_y, of)

    def _means(self, X: Matrix) -> Array:
        if self.solver_ == "cg":
            return self._pathwise.mean(X)
        mean = np.empty(X.shape[0])
        for rows, cross in self._cross(X):
            mean[rows] = self.mean_[0] + cross @ self.alpha_
        return mean

    def _variances(self, X: Matrix) -> tuple[Array, Array]:
        """Return the mean and the variance of f at each row."""
        if self.solver_ == "cg":
            mean, std = self._pathwise.std(X)
            return mean, std**2
        mean, variance = np.empty(X.shape[0]), np.empty(X.shape[0])
        with blas_threads_for(len(self.alpha_)):
            factor = self._cholesky()
            for rows, cross in self._cross(X):
                mean[rows] = self.mean_[0] + cross @ self.alpha_
                half = factor.half_solve(cross.T)
                explained = np.einsum("ij,ij->j", half, half)
                variance[rows] = self.signal_variance_[0] * (self.kernel.diag(X[rows]) - explained)
        return mean, np.maximum(variance, 0.0)

    def _covariance(self, X: MatrixLike) -> tuple[Array, Array]:
        if self.solver_ == "cg":
            return self._pathwise.covariance(X, self.tolerance, self.max_iterations)
        mean, matrix = self._joint(X)
        covariance = np.triu(matrix)
        covariance += np.triu(covariance, 1).T
        return mean, covariance

    def with_kernel(self, kernel: Kernel) -> Self:
        """Return the fitted model with another kernel that has the same values between its rows.

        So a kernel of several targets may get another target, such as a sum of some.
        """
        self._check_fitted()
        model = copy.copy(self)
        model.kernel = kernel
        if self.solver_ == "cg":
            prior = self._pathwise.prior
            if isinstance(prior, CoregionalizedDraws) and isinstance(kernel, Coregionalized):
                prior = CoregionalizedDraws(kernel, prior.inner)
            matrix = KernelMatrix(kernel, self.X_train_)
            model._pathwise = dataclasses.replace(self._pathwise, matrix=matrix, prior=prior)
        return model

    def rough(self) -> KernelSum | None:
        """Return a cheap approximation of the mean from the landmarks alone, or None without landmarks."""
        self._check_fitted()
        return self._pathwise.rough if self.solver_ == "cg" else None

    def draw(self, seed: int, target: int = 0) -> KernelSum:
        """Return a posterior sample as a function; with conjugate gradients, one of those of the fit.

        Raises
        ------
        InputError
            If the fit has no sample with this number.
        """
        return self.drawn(self.weights_of_draw(seed, target), seed, target)

    def weights_of_draw(self, seed: int, target: int = 0) -> npt.NDArray[np.float32]:
        """Return the weights of the labelled rows in a posterior sample, float32 of shape (n, 1)."""
        self._check_fitted()
        self._check_draws()
        if self.solver_ == "cg" and not 0 <= seed < self.n_draws:
            raise InputError(
                f"this model has {self.n_draws} posterior samples: choose a seed from 0 to "
                f"{self.n_draws - 1}, or fit it with a larger n_draws."
            )
        return self.weights_of_draws(1, seed)

    draws_take_rows = False  # X are rows already

    def most_draws(self) -> int | None:
        """Return the number of posterior samples: `n_draws` with conjugate gradients, or None for any."""
        return self.n_draws if self.solver_ == "cg" else None

    def weights_of_draws(self, n: int, seed: int, target: int = 0) -> npt.NDArray[np.float32]:
        """Return the weights of the labelled rows in n posterior samples, float32 of shape (n_rows, n).

        With conjugate gradients they are n consecutive samples of the fit from number `seed` on; the first
        follows the last. Sample 0 is that of `weights_of_draw`.
        """
        self._check_fitted()
        self._check_draws()
        if self.solver_ == "cg":
            return np.column_stack([self._pathwise.drawn(draw) for draw in self._numbers(seed, n)])
        prior = self._prior_of_draws(seed, n)(self.X_train_).astype(np.float64)
        noise = standard_normal(seed, "gp/pathwise", len(prior), n)
        prior *= math.sqrt(float(self.signal_variance_[0]))
        excess = 0.0 if self.side_ is None else self.excess_[:, None]
        prior += np.sqrt(float(self.noise_variance_[0]) + excess) * noise
        weights = self.alpha_[:, None] - self._cholesky().solve(prior)
        return weights.astype(np.float32)

    def draw_weights(self) -> npt.NDArray[np.float32]:
        """Return C^-1 times the noisy prior samples of a fit by conjugate gradients, shape (n, n_draws).

        C = K + noise_variance / signal_variance I is their covariance, so that of the result is C^-1.
        """
        self._check_fitted()
        self._check_draws()
        return self._pathwise.alpha[:, 1:]

    def drawn(self, weights: npt.NDArray[np.float32], seed: int, target: int = 0) -> KernelSum:
        """Return the sample, or samples, with weights from `weights_of_draw` or `weights_of_draws`."""
        n = weights.shape[1]
        if self.solver_ == "cg":
            options = self.n_draws, self.n_features, self.random_state
            of_fit = prior_of_fit(self.kernel, self.X_train_, *options)
            return self._pathwise.function(weights, of_fit.only(self._numbers(seed, n)))
        matrix, a = KernelMatrix(self.kernel, self.X_train_), float(self.signal_variance_[0])
        prior = self._prior_of_draws(seed, n)
        return KernelSum(matrix, weights, float(self.mean_[0]), 1.0, prior, math.sqrt(a))

    def _numbers(self, seed: int, n: int) -> list[int]:
        """Return the numbers of n samples of a fit by conjugate gradients."""
        return [(seed + draw) % self.n_draws for draw in range(min(n, self.n_draws))]

    def _prior_of_draws(self, seed: int, n: int) -> Draws:
        return prior_draws(self.kernel, self.X_train_, n, self.n_features, seed)

    def _check_draws(self) -> None:
        if self.means_only:
            raise InputError("this model was loaded without its posterior samples and predicts means only.")

    def sample_y(
        self, X: MatrixLike, n_samples: int = 1, random_state: int = 0, *, of: Literal["y", "f"] = "y"
    ) -> Array:
        """Return joint samples at the rows X, shape (m, n_samples); of y with noise, or of f.

        With conjugate gradients they are taken from the `n_draws` of the fit, in an order set by
        `random_state`, and cost n kernel values a row. The rest applies to a factorization, where samples are
        exact.

        Samples are from the posterior after `fit`, and from the prior before it (mean 0 and signal variance 1
        unless given; y needs `noise_variance`). The covariance of all m rows is factorized: m^3 / 3
        multiply-adds and 8 m^2 bytes, and after `fit` m n (m + n) / 2 multiply-adds and 8 m n bytes more. A
        jitter of 1e-10 of the variance of f keeps that matrix positive definite. Sample i does not depend
        on `n_samples`.

        Raises
        ------
        InputError
            As `predict`, and if `noise_variance` is needed but not known, or `n_samples` is negative or
            exceeds the `n_draws` of a fit by conjugate gradients.
        """
        check_of(of)
        check_n_samples(n_samples)
        seeds.check_seed(random_state)
        check_columns_of(self, X)
        check_width_of(self, X)
        X = check_rows(X, self.kernel)
        if getattr(self, "solver_", None) == "cg":
            return self._draws_pathwise(X, n_samples, random_state, of)
        if hasattr(self, "alpha_"):
            noise_variance = float(self.noise_variance_[0])
            mean, covariance = self._joint(X)
        else:
            m, a, s = (self._fixed_value(name) for name in ("mean", "signal_variance", "noise_variance"))
            if s is None and of == "y":
                raise InputError(
                    "samples of y from the prior need the noise variance: pass noise_variance, or of='f'."
                )
            noise_variance = 0.0 if s is None else s
            mean = np.full(X.shape[0], 0.0 if m is None else m)
            covariance = self._kernel_matrix(X)
            covariance *= 1.0 if a is None else a
        draws = standard_normal(random_state, "gp/exact", len(mean), n_samples)
        if len(mean):
            size = float(covariance.diagonal().mean())
            sampler = _Sampler(covariance)
            _factorize(sampler, _DRAW_JITTER * (size if size > 0 else 1.0))
            draws = sampler.multiply(draws)
        draws += mean[:, None]
        if of == "y":
            draws += math.sqrt(noise_variance) * standard_normal(
                random_state, "gp/noise/0", len(mean), n_samples
            )
        return draws

    def _draws_pathwise(self, X: MatrixLike, n_samples: int, random_state: int, of: str) -> Array:
        if n_samples > self.n_draws:
            raise InputError(
                f"this model has {self.n_draws} posterior samples, not {n_samples}: fit it with "
                f"n_draws={n_samples}, or with solver='cholesky'."
            )
        mean, deviations = self._pathwise.deviations(X)
        chosen = np.argsort(seeds.words(random_state, "gp/draws", self.n_draws), kind="stable")[:n_samples]
        draws = mean[:, None] + deviations[:, chosen]
        if of == "y":
            noise = standard_normal(random_state, "gp/noise/0", len(mean), n_samples)
            draws += math.sqrt(float(self.noise_variance_[0])) * noise
        return draws

    @overload
    def log_marginal_likelihood(
        self,
        mean: float | None = None,
        signal_variance: float | None = None,
        noise_variance: float | None = None,
        eval_gradient: Literal[False] = False,
    ) -> float: ...
    @overload
    def log_marginal_likelihood(
        self,
        mean: float | None = None,
        signal_variance: float | None = None,
        noise_variance: float | None = None,
        *,
        eval_gradient: Literal[True],
    ) -> tuple[float, Array]: ...
    @overload
    def log_marginal_likelihood(
        self,
        mean: float | None = None,
        signal_variance: float | None = None,
        noise_variance: float | None = None,
        eval_gradient: bool = False,
    ) -> float | tuple[float, Array]: ...
    def log_marginal_likelihood(
        self,
        mean: float | None = None,
        signal_variance: float | None = None,
        noise_variance: float | None = None,
        eval_gradient: bool = False,
    ) -> float | tuple[float, Array]:
        """Return log p(y), and its gradient in (mean, signal_variance, noise_variance) on request.

        Values default to the fitted ones. A call costs O(n); if both variances were fixed in `fit`, the first
        call reduces the kernel matrix (4/3 n^3 multiply-adds, 8 n^2 bytes).
        """
        self._check_fitted()
        if self.solver_ == "cg":
            raise InputError(
                "the log marginal likelihood is not available with solver='cg': fit with solver='cholesky'."
            )
        m, a, s = self._hyperparameters(mean, signal_variance, noise_variance)
        if self.side_ is not None:
            matrix = self._kernel_matrix(self.X_train_)
            result = fit_limits(matrix, self.y_train_, self.side_, (m, a, s))
            return (
                (result.log_evidence, gradient_with_limits(matrix, result))
                if eval_gradient
                else result.log_evidence
            )
        if self._solver is None:
            self._solver = KernelSolver(self._kernel_matrix(self.X_train_), self.y_train_)
        m -= float(self._solver.moments.shift[0])
        value, gradient = log_likelihood(self._solver, m, a, s, gradient=eval_gradient)
        return (value, gradient) if eval_gradient else value

    def state(self) -> ExactState:
        """Return a JSON-able description of the fitted model; with `arrays` it rebuilds the model."""
        self._check_fitted()
        posterior = self._pathwise if self.solver_ == "cg" else None
        of_posterior: PathwiseState = {}
        if posterior is not None:
            of_posterior = {
                "scale": posterior.scale,
                "at_bound": posterior.at_bound,
                "residual": posterior.residual,
                "n_iterations": posterior.n_iterations,
            }
        return {
            "class": type(self).__name__,
            "version": _STATE_VERSION,
            "kernel": self.kernel.state(),
            "shape": list(self.X_train_.shape),
            "options": {
                "n_draws": self.n_draws,
                "n_features": self.n_features,
                "n_landmarks": self.n_landmarks,
                "tolerance": self.tolerance,
                "max_iterations": self.max_iterations,
                "cache_bytes": self.cache_bytes,
                "n_subset": self.n_subset,
                "random_state": self.random_state,
                "solver": self.solver_,
            },
            "given": {
                "mean": self._fixed_value("mean"),
                "signal_variance": self._fixed_value("signal_variance"),
                "noise_variance": self._fixed_value("noise_variance"),
            },
            "mean": self.mean_.tolist(),
            "signal_variance": self.signal_variance_.tolist(),
            "noise_variance": self.noise_variance_.tolist(),
            "at_bound": self.at_bound_.tolist(),
            "jitter": getattr(self, "jitter_", None),
            "log_marginal_likelihood": getattr(self, "log_marginal_likelihood_value_", None),
            **of_posterior,
            "variances": posterior.variances.state() if posterior else None,
            "kernel_choice": self.kernel_choice_.state() if self.kernel_choice_ else None,
        }

    def arrays(self, *, statistics: bool = True) -> dict[str, npt.NDArray[np.generic]]:
        """Return labelled rows and weights and, with `statistics`, what std and samples need."""
        self._check_fitted()
        X = as_csr(self.X_train_)
        parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr}
        arrays = {f"rows/{name}": values for name, values in parts.items()}
        if self.solver_ == "cholesky":
            arrays |= {"weights": self.alpha_[:, None], "labelled": self.y_train_}
            if self.side_ is not None:
                arrays |= {"side": self.side_, "stand_ins": self.stand_ins_, "excess": self.excess_}
            return arrays
        if self.side_ is not None:
            arrays |= {"side": self.side_, "stand_ins": self.stand_ins_, "excess": self.excess_}
        posterior = self._pathwise
        arrays |= {"weights": np.ascontiguousarray(posterior.alpha[:, :1])}
        arrays |= {"landmarks": posterior.landmarks, "landmark_weights": posterior.landmark_weights}
        if not statistics or self.means_only:
            return arrays
        draws = {"draws": posterior.alpha[:, 1:], "ones": posterior.ones, "labelled": self.y_train_}
        return arrays | {f"statistics/{name}": np.ascontiguousarray(v) for name, v in draws.items()}

    @classmethod
    def from_state(cls, state: Mapping[str, object], arrays: Mapping[str, npt.NDArray[np.generic]]) -> Self:
        """Rebuild a fitted model from `state` and `arrays`.

        Raises
        ------
        InputError
            If the state has another version, or the rows are missing.
        """
        check_version(state, _STATE_VERSION, arrays, "weights", "rows/data")
        entries, stored = cast(ExactState, state), cast(NamedArrays, arrays)
        model = cls(kernel_from_state(entries["kernel"]), **entries["given"], **entries["options"])
        X = sp.csr_matrix(
            tuple(stored[f"rows/{name}"] for name in ("data", "indices", "indptr")),
            shape=tuple(entries["shape"]),
        )
        X.check_format(full_check=True)  # malformed rows would crash compiled code
        if not X.has_canonical_format:
            raise ValueError("the columns of its rows are not in order")
        model.X_train_, model.n_features_in_ = X, X.shape[1]
        model.solver_ = "cg" if model.solver == "cg" else "cholesky"
        if entries["kernel_choice"]:
            model.kernel_choice_ = KernelChoice.from_state(entries["kernel_choice"])
        model.mean_, model.at_bound_ = np.array(entries["mean"]), np.array(entries["at_bound"])
        model.signal_variance_ = np.array(entries["signal_variance"])
        model.noise_variance_ = np.array(entries["noise_variance"])
        if "side" in stored:
            model.side_, model.stand_ins_ = stored["side"], stored["stand_ins"]
            model.excess_ = stored["excess"]
        if model.solver == "cg":
            model._restore_pathwise(entries, stored)
            return model
        model.alpha_, model.y_train_ = stored["weights"][:, 0], stored["labelled"]
        model.log_marginal_likelihood_value_ = cast(float, entries["log_marginal_likelihood"])
        model.jitter_ = cast(float, entries["jitter"])
        model._factor = model._solver = None
        return model

    def _restore_pathwise(self, state: ExactState, arrays: NamedArrays) -> None:
        alpha, rest, prior = arrays["weights"], {}, None
        if "statistics/draws" in arrays:
            rest = {name: arrays[f"statistics/{name}"] for name in ("draws", "ones", "labelled")}
            alpha = np.column_stack([alpha, rest["draws"]])
            prior = prior_of_fit(self.kernel, self.X_train_, self.n_draws, self.n_features, self.random_state)
            self.y_train_ = rest["labelled"]
        assert state["variances"] is not None
        values = (float(getattr(self, name)[0]) for name in ("mean_", "signal_variance_", "noise_variance_"))
        self._pathwise = PathwisePosterior(
            matrix=KernelMatrix(self.kernel, self.X_train_),
            prior=prior,
            hyperparameters=ProcessParameters(*values),
            alpha=alpha,
            ones=rest.get("ones", alpha[:, 0]),
            variances=VarianceModel.from_state(state["variances"]),
            landmarks=arrays["landmarks"],
            landmark_weights=arrays["landmark_weights"],
            random_state=self.random_state,
            sites=None if self.side_ is None else IteratedSites(self.stand_ins_, self.excess_),
            scale=state["scale"],
            at_bound=bool(state["at_bound"]),
            residual=state["residual"],
            n_iterations=state["n_iterations"],
        )
        self._take(self._pathwise)

    @property
    def n_rows_(self) -> int:
        """Number of rows it was fitted to."""
        return int(self.X_train_.shape[0])

    def usual_products(self, n_rows: int) -> float:
        """Return roughly how many products with K a fit takes; for a factorization, the equivalent."""
        return _USUAL_PRODUCTS if self.solver_for(n_rows) == "cg" else 2 + n_rows / 50

    def seconds_to_fit(self, n_rows: int, n_processors: int) -> float:
        """Return the approximate time of a fit with a hyperparameter search that recomputes all tiles."""
        if self.solver_for(n_rows) == "cholesky":
            return 2.0 + n_rows**3 * 2e-11
        return 2.0 + _USUAL_PRODUCTS * n_rows**2 * 1.4e-9 / n_processors

    def memory_of_model(self, *, std: bool) -> int:
        """Return the bytes of the fitted model in a worker that predicts, including tiles being computed."""
        X, n = as_csr(self.X_train_), self.n_rows_
        size = 16 * X.nnz + KernelMatrix.memory(X.nnz, 1)
        if self.solver_ == "cholesky":
            return size + (16 * n * n if std else 8 * n)
        return size + (12 * (2 + self.n_draws) * (n + self.n_features) if std else 8 * n)

    def seconds_per_row(self, *, std: bool) -> float:
        """Return the approximate time in seconds to predict a row on one core."""
        n, features = self.n_rows_, 5e-9 * self.n_features
        if self.solver_ == "cg":
            return n * (1.2e-9 + std * 4e-11 * (1 + self.n_draws)) + std * features
        return n * 2e-9 + std * n**2 / 1e10

    @property
    def means_only(self) -> bool:
        """Whether it was loaded without the arrays that standard deviations and samples need."""
        return self.solver_ == "cg" and self._pathwise.alpha.shape[1] == 1

    @property
    def log_marginal_likelihoods_(self) -> Array:
        """The log marginal likelihood, shape (1,); NaN with conjugate gradients."""
        return np.array([getattr(self, "log_marginal_likelihood_value_", math.nan)])

    def words(self) -> str:
        """Return how the equations were solved, in words."""
        limits = "" if self.side_ is None else self._limits_words(self.side_)
        if self.solver_ == "cholesky":
            return f"solved by a Cholesky factorization of {self.n_rows_:,} rows{limits}"
        return (
            f"solved by conjugate gradients for {self.n_rows_:,} rows{limits}: {self.n_iterations_} products "
            f"with the kernel matrix, residual {self.residual_:.1e}"
        )

    def cautions(self, target: int = 0) -> list[str]:
        """Return the reasons not to trust standard deviations, one sentence each; usually none."""
        self._check_fitted()
        noise = bool(self.noise_variance_[0] < self.signal_variance_[0])
        return [seen_no("the evidence", noise=noise)] if self.at_bound_[0] else []

    def __getstate__(self) -> dict[str, object]:
        state = super().__getstate__()
        return {**state, "_factor": None} if "alpha_" in state else state

    def _limits_words(self, side: Sides) -> str:
        """Return how many rows are limits, and what was found without some or all of them."""
        words = f", {int(np.count_nonzero(side)):,} of them limits"
        searched = self.signal_variance is None or self.noise_variance is None
        if self.solver_ == "cholesky" and len(side) > _FIRST_GUESS and searched:
            words += f", with the variances of a random {_FIRST_GUESS:,}"
        if self.kernel_choice_ is None:
            return words
        also = ", and the best of them on limits, too" if self.kernel_choice_.evidence else ""
        return f"{words}; kernels were compared on measured labels{also}"

    def _fixed_value(self, name: str) -> float | None:
        """Return the hyperparameter that the user fixed, or None."""
        value = getattr(self, name)
        if value is None:
            return None
        values = np.asarray(value, dtype=np.float64)
        if values.shape not in ((), (1,)) or not np.isfinite(values).all():
            raise InputError(f"{name} must be one finite number, not {value!r}.")
        number = float(values.reshape(()))
        if name != "mean":
            check_positive(name, number)
        return number

    def solver_for(self, n_rows: int, *, limits: bool = False) -> Literal["cholesky", "cg"]:
        """Return the solver for `n_rows` rows: "cholesky" or "cg"; `limits` is whether some are limits."""
        if self.solver not in ("auto", "cholesky", "cg"):
            raise InputError(f"solver must be 'auto', 'cholesky' or 'cg', not {self.solver!r}.")
        for name in ("n_draws", "n_features", "n_landmarks", "max_iterations"):
            value = getattr(self, name)
            if name == "n_landmarks" and value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise InputError(f"{name} must be a positive integer, not {value!r}.")
        if not isinstance(self.cache_bytes, (int, np.integer)) or self.cache_bytes < 0:
            raise InputError(f"cache_bytes must be an integer of at least 0, not {self.cache_bytes!r}.")
        if not isinstance(self.tolerance, (float, np.floating)) or not 0 < self.tolerance < 1:
            raise InputError(f"tolerance must be a number between 0 and 1, not {self.tolerance!r}.")
        if self.solver != "auto":
            return self.solver
        largest = _LARGEST_WITH_LIMITS if limits else _LARGEST_FACTOR
        return "cg" if n_rows > largest and has_map(self.kernel) else "cholesky"

    def _choose(self, n_rows: int) -> npt.NDArray[np.int64]:
        """Return the rows to fit to, ascending."""
        size, seed = self.n_subset, seeds.check_seed(self.random_state)
        if size is None:
            return np.arange(n_rows)
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise InputError(f"n_subset must be a positive integer or None, not {size!r}.")
        if size >= n_rows:
            return np.arange(n_rows)
        # The rows with the smallest random words: sorting gives the same result in every NumPy version.
        order = np.argsort(seeds.words(seed, "gp/subset", n_rows), kind="stable")
        return np.sort(order[:size])

    def _kernel_matrix(self, X: Matrix) -> Array:
        if not isinstance(self.kernel, Kernel):
            raise InputError(f"kernel must be one of daskrf.kernels, not {self.kernel!r}.")
        n = X.shape[0]
        try:
            matrix = np.empty((n, n))
        except MemoryError:
            raise InputError(
                f"the kernel matrix of {n:,} rows takes {format_bytes(8 * n * n)}, which do not fit into "
                "memory: use fewer rows (n_subset), or random features."
            ) from None
        for rows, block in self.kernel.blocks(X):
            matrix[rows] = block
        return matrix

    def _cross(self, X: MatrixLike) -> Iterator[tuple[slice, Array]]:
        """Yield slices of the rows of X and their kernel values with the training rows."""
        rows = max(1, _BLOCK_BYTES // (8 * len(self.alpha_)))
        return self.kernel.blocks(X, self.X_train_, rows=rows)

    def _joint(self, X: Matrix) -> tuple[Array, Array]:
        """Return the posterior mean and covariance of f, the latter with only its upper triangle filled."""
        m = X.shape[0]
        covariance = self._kernel_matrix(X)
        mean, white = np.empty(m), np.empty((m, len(self.alpha_)))
        factor = self._cholesky()
        for rows, cross in self._cross(X):
            mean[rows] = self.mean_[0] + cross @ self.alpha_
            white[rows] = factor.half_solve(cross.T).T
        if m:
            # The upper triangle in C order is the lower one in Fortran order.
            blas.dsyrk(-1.0, white.T, beta=1.0, c=covariance.T, trans=1, lower=1, overwrite_c=1)
        covariance *= self.signal_variance_[0]
        diagonal = covariance.diagonal()
        covariance[np.diag_indices(m)] = np.maximum(diagonal, 0.0)
        return mean, covariance

    def _cholesky(self) -> ShiftedCholesky:
        """Return the factor of K + lambda I, recomputed once in a worker that unpickled this model."""
        with _FACTOR_LOCK:
            if self._factor is None:
                matrix = self._kernel_matrix(self.X_train_)
                ratio = float(self.noise_variance_[0] / self.signal_variance_[0])
                if self.side_ is not None:
                    matrix.flat[:: len(matrix) + 1] += self.excess_ / self.signal_variance_[0]
                self._factor = _factorize(ShiftedCholesky(matrix), ratio)
            return self._factor


def _few_more(before: Array, y: Array) -> bool:
    """Return whether y begins with the labels in `before` and has few more."""
    return len(y) <= _FEW_MORE * len(before) and np.array_equal(before, y[: len(before)])


def _differ(a: MatrixLike, b: MatrixLike) -> bool:
    """Return whether two matrices of rows have different values."""
    one, other = as_csr(a), as_csr(b)
    if one.shape != other.shape or one.nnz != other.nnz:
        return True
    names = ("indptr", "indices", "data")
    return not all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


class _Sampler(ShiftedCholesky):
    """A Cholesky factor U^T U that turns standard normal numbers into samples."""

    def multiply(self, right: Array) -> Array:
        """Return U^T right."""
        if right.shape[1] == 0:
            return right.copy()
        return blas.dtrmm(1.0, self._work.T, right, lower=0, trans_a=1)


def _check_target(y: npt.ArrayLike) -> Array:
    targets = check_targets(y)
    if targets.shape[1] != 1:
        raise InputError(
            f"ExactGP has one target, but y has {targets.shape[1]}: fit one model for each column of y."
        )
    return np.ascontiguousarray(targets[:, 0])


def _spread(matrix: Array) -> float:
    """Return the expected variance of f over the rows, about its mean there, per unit of signal variance."""
    return max(0.0, float(matrix.trace()) / len(matrix) - float(matrix.mean()))


def _check_variance(y: Array) -> None:
    """Raise InputError if y has no variance to within float64: no hyperparameter could be found from it."""
    if len(y) == 1:
        raise InputError(ONE_LABEL)
    if float(np.ptp(y)) <= 1e-12 * float(np.abs(y).max()):
        raise InputError(
            f"y has no variance over {len(y)} rows (all are {y[0]:.6g}): give labels that differ, or fix "
            "both signal_variance and noise_variance."
        )


def _factorize(factor: ShiftedCholesky, shift: float) -> ShiftedCholesky:
    try:
        return factor.factorize(shift)
    except NotPositiveError:
        raise NotPositiveError from None
