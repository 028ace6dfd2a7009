"""Exact Gaussian process regression with an exact kernel, in scikit-learn's manner."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError

from daskrf import seeds
from daskrf.arrays import check_columns_of, check_rows_to_fit, learn_columns
from daskrf.errors import InputError
from daskrf.gp.chunks import check_of, check_rows
from daskrf.gp.evidence import ONE_LABEL, check_positive, find_hyperparameters, log_likelihood
from daskrf.gp.fixedpoint import check_targets
from daskrf.gp.pathwise import PathwisePosterior, ProcessParameters, fit_pathwise
from daskrf.gp.posterior import standard_normal
from daskrf.gp.priordraws import has_map
from daskrf.gp.solvers import KernelSolver, NotPositiveError, ShiftedCholesky
from daskrf.kernels.kernel import Kernel
from daskrf.quantities import format_bytes

__all__ = ["ExactGP"]

_BLOCK_BYTES = 64 * 2**20  # of the kernel matrix at a time
_DRAW_JITTER = 1e-10  # of the variance: what a draw of f has in addition, 1e-5 of its deviation
_LARGEST_FACTOR = 4096  # rows, above which conjugate gradients take less time
_OF_ONE_SOLVER = ("log_marginal_likelihood_value_", "jitter_", "residual_", "n_iterations_", "_pathwise")
_FIRST_GUESS = 1500  # rows whose evidence the search of hyperparameters starts from
_LEAST_RATIO = 1e-3  # of the noise to the signal variance, below which conjugate gradients converge slowly
_FACTOR_LOCK = threading.Lock()

Array = npt.NDArray[np.float64]


class ExactGP(RegressorMixin, BaseEstimator):
    """Exact Gaussian process regression with the kernel signal_variance * k(x, x').

    y = mean + f(x) + noise, f ~ GP(0, signal_variance k), with any kernel of `daskrf.kernels`: what random
    features and landmarks approximate. Hyperparameters that are not given maximize the evidence of the rows
    it is fitted to. Up to some thousand rows K is factorized. Above, conjugate gradients solve for the labels
    and for draws from the prior at once; means then have residuals of `tolerance`, draws are those of
    `n_draws`, and deviations follow from these and from a model of them.

    Parameters
    ----------
    kernel : daskrf.kernels.Kernel
    mean, signal_variance, noise_variance : float, optional
        Hyperparameters to keep fixed: the mean of y, the variance of f where k(x, x) = 1, and the variance
        of the noise. Any combination; the others are optimized.
    solver : {"auto", "cholesky", "cg"}
        How to solve: a Cholesky factorization, conjugate gradients, or the former up to 4,096 rows.
    n_draws : int
        Draws from the posterior that conjugate gradients solve for.
    n_features : int
        Random features that their prior is made of; more are closer to the kernel.
    n_landmarks : int, optional
        Rows that precondition conjugate gradients; default: n / 20, from 500 to 2,000.
    tolerance : float
        Of the residuals of conjugate gradients, relative to the right-hand sides. The one of the mean is a
        tenth of it.
    max_iterations : int
        Products with K, at most.
    cache_bytes : int
        Memory for float32 tiles of K, of which 2 n^2 bytes are enough; what is not kept is made anew for each
        product.
    n_subset : int, optional
        Fit to so many rows, drawn at random without replacement; all rows where there are no more.
    random_state : int
        Seed of that choice, of landmarks and of draws.

    Attributes
    ----------
    mean_, signal_variance_, noise_variance_ : float64 arrays, shape (1,)
        As those of `RandomFeatureGP` for one target.
    log_marginal_likelihood_value_ : float
        Of the rows in the subset.
    subset_ : int64 array, shape (n,)
        The rows of X that it was fitted to, ascending.
    X_train_ : CSR matrix or array, shape (n, n_columns)
    y_train_ : float64 array, shape (n,)
    alpha_ : float64 array, shape (n,)
        (K + noise_variance / signal_variance I)^-1 (y - mean): the predictive mean is mean +
        k(x, X_train_) alpha.
    at_bound_ : bool array, shape (1,)
        Whether noise_variance / signal_variance ran into an end of its range: no noise, or no signal, can be
        seen.
    jitter_ : float
        What the Cholesky factorization of K needed in addition to noise_variance / signal_variance, usually
        0.
    solver_ : str
        "cholesky" or "cg".
    residual_ : float
        Largest |b - C x| / |b| of all right-hand sides b, C = K + noise_variance / signal_variance I. Only
        with conjugate gradients, as is the following.
    n_iterations_ : int
        Products with K.

    Notes
    -----
    With conjugate gradients log det K is not computed, so there is no log marginal likelihood; its gradient
    follows from the draws, and the search goes by that. Variances are those of the draws and of a
    model of them (`daskrf.gp.variancemodel`), weighed by how well they hold at labelled rows that are left
    out: with 32 draws of docking scores to 10 %, where the draws alone tell them to 25 %.

    Memory of a factorization: `fit` holds one n x n float64 matrix, 8 n^2 bytes (n = 10,000: 0.8 GB), and
    some 0.2 GB of blocks; see `memory`. Time: n^2 kernel values, 4/3 n^3 multiply-adds for all steps of the
    search together (none where both variances are given), and n^3 / 3 for the posterior.

    Source: Rasmussen & Williams 2006, algorithm 2.1 and section 5.4.1; the baseline of Tripp et al. 2023,
    section 6.2 and appendix F.4, with the fitted noise in its predictions.

    Examples
    --------
    >>> from daskrf.kernels import TanimotoMinMax
    >>> X = [[2, 0, 1], [2, 1, 1], [0, 3, 0], [0, 3, 1]]
    >>> gp = ExactGP(TanimotoMinMax(), mean=0.0, signal_variance=1.0, noise_variance=0.01)
    >>> gp = gp.fit(X, [1.0, 1.2, -1.0, -0.8])
    >>> mean, std = gp.predict([[2, 0, 0], [0, 2, 0]], return_std=True)
    >>> (mean.round(1).tolist(), std.round(1).tolist())
    ([0.8, -0.5], [0.7, 0.7])
    """

    _factor: ShiftedCholesky | None
    _solver: KernelSolver | None
    _pathwise: PathwisePosterior

    def __init__(
        self,
        kernel: Kernel,
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

    @staticmethod
    def memory(n_rows: int) -> int:
        """Return the bytes that `fit` needs for `n_rows` rows beside X itself, rounded up.

        Examples
        --------
        >>> round(ExactGP.memory(10_000) / 1e9, 1)
        1.0
        """
        return 8 * n_rows * n_rows + 3 * max(_BLOCK_BYTES, 8 * n_rows)

    def fit(self, X: Any, y: npt.ArrayLike) -> Self:
        """Fit to rows X, CSR or dense of shape (n, n_columns), and one target y of shape (n,).

        Raises
        ------
        InputError
            If there are no rows, shapes do not fit, a value is not finite or not what the kernel serves, y
            has several targets, or no variance where one is needed, a hyperparameter is out of range, or the
            n x n matrix does not fit into memory.
        """
        given, X, y = X, check_rows(X, self.kernel), _check_target(y)
        if X.shape[0] != len(y):
            raise InputError(f"X has {X.shape[0]} rows, but y has {len(y)}: they must be the same.")
        if len(y) == 0:
            raise InputError("there is no row to fit to: pass at least one row with a label.")
        check_rows_to_fit(X)
        m, a, s = (self._given(name) for name in ("mean", "signal_variance", "noise_variance"))
        for name in _OF_ONE_SOLVER:  # of an earlier fit
            self.__dict__.pop(name, None)
        self.subset_ = self._choose(len(y))
        if len(self.subset_) < len(y):
            X, y = X[self.subset_], y[self.subset_]
        if a is None or s is None:
            _check_variance(y)
        self.X_train_, self.y_train_ = X, y
        self.solver_ = self._solver_for(len(y))
        if self.solver_ == "cg":
            self._fit_pathwise(X, y, (m, a, s))
        else:
            self._fit_factor(X, y, m, a, s)
        learn_columns(self, given)
        return self

    def _fit_pathwise(self, X: Any, y: Array, given: tuple[float | None, float | None, float | None]) -> None:
        m, a, s = given
        if a is None or s is None:
            part: Any = ExactGP(self.kernel, mean=m, signal_variance=a, noise_variance=s, solver="cholesky")
            try:
                part.set_params(n_subset=_FIRST_GUESS, random_state=self.random_state).fit(X, y)
                m0, a0, s0 = (float(v[0]) for v in (part.mean_, part.signal_variance_, part.noise_variance_))
            except InputError:  # no labels that differ among those, as of rare hits
                m0, a0, s0 = float(y.mean()), a or float(y.var()) / 2, s or float(y.var()) / 2
            start = ProcessParameters(m0, a0, s0)
            if len(y) <= _FIRST_GUESS and s0 > _LEAST_RATIO * a0:
                given = m, a0, s0
        else:
            start = ProcessParameters(float(y.mean()) if m is None else m, a, s)
        try:
            self._pathwise = self._solved_pathwise(X, y, start, given)
        except MemoryError:
            raise InputError(
                f"conjugate gradients for {len(y):,} rows do not fit into memory, beside at most "
                f"{format_bytes(self.cache_bytes)} for tiles (cache_bytes): take fewer n_landmarks or "
                "n_draws, or random features."
            ) from None
        found = self._pathwise.hyperparameters
        self.mean_, self.signal_variance_, self.noise_variance_ = (np.array([value]) for value in found)
        self.alpha_ = self._pathwise.scale * self._pathwise.alpha[:, 0].astype(np.float64)
        self.at_bound_ = np.array([self._pathwise.at_bound])
        self.residual_, self.n_iterations_ = self._pathwise.residual, self._pathwise.n_iterations

    def _solved_pathwise(
        self,
        X: Any,
        y: Array,
        start: ProcessParameters,
        given: tuple[float | None, float | None, float | None],
    ) -> PathwisePosterior:
        n_landmarks = min(2000, max(500, len(y) // 20)) if self.n_landmarks is None else self.n_landmarks
        return fit_pathwise(
            self.kernel,
            X,
            y,
            start=start,
            given=given,
            n_draws=self.n_draws,
            n_features=self.n_features,
            n_landmarks=min(n_landmarks, len(y)),
            tolerance=self.tolerance,
            max_iterations=self.max_iterations,
            keep_bytes=self.cache_bytes,
            random_state=self.random_state,
        )

    def _fit_factor(self, X: Any, y: Array, m: float | None, a: float | None, s: float | None) -> None:
        matrix = self._kernel_matrix(X)
        factor = ShiftedCholesky(matrix)
        solver, at_bound = None, False
        if a is None or s is None:
            solver = KernelSolver(matrix, y)
            ((found, at_bound),) = find_hyperparameters(solver, mean=m, signal_variance=a, noise_variance=s)
            m, a, s = found.mean + float(solver.moments.shift[0]), found.signal_variance, found.noise_variance
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

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        of: Literal["y", "f"] = "y",
    ) -> Any:
        """Return the predictive mean and, on request, the standard deviation or the joint covariance.

        The mean costs n kernel values a row, the deviation n^2 / 2 multiply-adds more; both are made in
        blocks of 64 MiB of kernel values. The covariance of m rows needs m x n and m x m matrices at once.

        Parameters
        ----------
        X : rows as for `fit`, shape (m, n_columns)
        return_std, return_cov : bool
            At most one.
        of : {"y", "f"}
            Uncertainty of a new observation y (with noise) or of the function f (without).

        Returns
        -------
        mean : float64 array, shape (m,)
        std : float64 array, shape (m,), if `return_std`
        cov : float64 array, shape (m, m), if `return_cov`
        """
        self._check_fitted()
        check_of(of)
        if return_std and return_cov:
            raise InputError("ask for return_std or return_cov, not both.")
        check_columns_of(self, X)
        X = check_rows(X, self.kernel)
        noise_variance = float(self.noise_variance_[0]) if of == "y" else 0.0
        if self.solver_ == "cg":
            return self._predict_pathwise(X, return_std, return_cov, noise_variance)
        if return_cov:
            mean, matrix = self._joint(X)
            covariance = np.triu(matrix)
            covariance += np.triu(covariance, 1).T
            covariance[np.diag_indices(len(mean))] += noise_variance
            return mean, covariance
        mean, variance = np.empty(X.shape[0]), np.empty(X.shape[0])
        factor = self._cholesky() if return_std else None
        for part, cross in self._cross(X):
            mean[part] = self.mean_[0] + cross @ self.alpha_
            if factor is not None:
                half = factor.half_solve(cross.T)
                explained = np.einsum("ij,ij->j", half, half)
                variance[part] = self.signal_variance_[0] * (self.kernel.diag(X[part]) - explained)
        return (mean, np.sqrt(np.maximum(variance, 0.0) + noise_variance)) if return_std else mean

    def _predict_pathwise(self, X: Any, return_std: bool, return_cov: bool, noise_variance: float) -> Any:
        if not (return_std or return_cov):
            return self._pathwise.mean(X)
        if return_cov:
            mean, covariance = self._pathwise.covariance(X, self.tolerance, self.max_iterations)
            covariance[np.diag_indices(len(mean))] += noise_variance
            return mean, covariance
        mean, std = self._pathwise.std(X)
        return mean, np.sqrt(std**2 + noise_variance)

    def sample_y(
        self, X: Any, n_samples: int = 1, random_state: int = 0, *, of: Literal["y", "f"] = "y"
    ) -> Array:
        """Return joint draws at the rows X, shape (m, n_samples); of y with noise, or of f.

        With conjugate gradients they are taken from the `n_draws` of the fit, in an order that `random_state`
        chooses, and cost n kernel values a row. The rest is about a factorization, where they are exact.

        From the posterior after `fit`, from the prior before (mean 0 and signal variance 1 unless given; y
        needs `noise_variance`). A Cholesky factorization of the covariance of all m rows: m^3 / 3
        multiply-adds and 8 m^2 bytes, and after `fit` m n (m + n) / 2 multiply-adds and 8 m n bytes more.
        Draws of f have an independent part of 1e-10 of the variance, which keeps that matrix positive
        definite. Draw i does not depend on `n_samples`.

        Raises
        ------
        InputError
            As `predict`, and if `noise_variance` is needed but not known, or `n_samples` is negative, or more
            than the `n_draws` of a fit by conjugate gradients.
        """
        check_of(of)
        if n_samples < 0:
            raise InputError(f"the number of draws must not be negative, but is {n_samples}.")
        seeds.check_seed(random_state)
        check_columns_of(self, X)
        X = check_rows(X, self.kernel)
        if getattr(self, "solver_", None) == "cg":
            return self._draws_pathwise(X, n_samples, random_state, of)
        if hasattr(self, "alpha_"):
            noise_variance = float(self.noise_variance_[0])
            mean, covariance = self._joint(X)
        else:
            m, a, s = (self._given(name) for name in ("mean", "signal_variance", "noise_variance"))
            if s is None and of == "y":
                raise InputError(
                    "the noise of a draw from the prior is not known: pass noise_variance, or of='f'."
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

    def _draws_pathwise(self, X: Any, n_samples: int, random_state: int, of: str) -> Array:
        if n_samples > self.n_draws:
            raise InputError(
                f"this model has {self.n_draws} draws from the posterior, not {n_samples}: fit it with "
                f"n_draws={n_samples}, or with solver='cholesky'."
            )
        mean, deviations = self._pathwise.deviations(X)
        chosen = np.argsort(seeds.words(random_state, "gp/draws", self.n_draws), kind="stable")[:n_samples]
        draws = mean[:, None] + deviations[:, chosen]
        if of == "y":
            noise = standard_normal(random_state, "gp/noise/0", len(mean), n_samples)
            draws += math.sqrt(float(self.noise_variance_[0])) * noise
        return draws

    def log_marginal_likelihood(
        self,
        mean: float | None = None,
        signal_variance: float | None = None,
        noise_variance: float | None = None,
        eval_gradient: bool = False,
    ) -> Any:
        """Return log p(y), and its gradient in (mean, signal_variance, noise_variance) on request.

        Values that are not given are the fitted ones. O(n) a call; where both variances were fixed in
        `fit`, the first call reduces the kernel matrix (4/3 n^3 multiply-adds, 8 n^2 bytes).
        """
        self._check_fitted()
        if self.solver_ == "cg":
            raise InputError(
                "the log marginal likelihood is not available with solver='cg': fit with solver='cholesky'."
            )
        given = [mean, signal_variance, noise_variance]
        fitted = [self.mean_[0], self.signal_variance_[0], self.noise_variance_[0]]
        m, a, s = (float(f if g is None else g) for g, f in zip(given, fitted, strict=True))
        check_positive("signal_variance", a)
        check_positive("noise_variance", s)
        if self._solver is None:
            self._solver = KernelSolver(self._kernel_matrix(self.X_train_), self.y_train_)
        m -= float(self._solver.moments.shift[0])
        value, gradient = log_likelihood(self._solver, m, a, s, gradient=eval_gradient)
        return (value, gradient) if eval_gradient else value

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {**state, "_factor": None} if "alpha_" in state else state

    def _given(self, name: str) -> float | None:
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

    def _solver_for(self, n_rows: int) -> str:
        """Return how to solve for so many rows."""
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
        return "cg" if n_rows > _LARGEST_FACTOR and has_map(self.kernel) else "cholesky"

    def _choose(self, n_rows: int) -> npt.NDArray[np.int64]:
        """Return the rows to fit to, ascending."""
        size, seed = self.n_subset, seeds.check_seed(self.random_state)
        if size is None:
            return np.arange(n_rows)
        if isinstance(size, bool) or not isinstance(size, (int, np.integer)) or size < 1:
            raise InputError(f"n_subset must be a positive integer or None, not {size!r}.")
        if size >= n_rows:
            return np.arange(n_rows)
        # The rows of the smallest random words: plain sorting, which stays the same in every NumPy.
        order = np.argsort(seeds.words(seed, "gp/subset", n_rows), kind="stable")
        return np.sort(order[:size])

    def _kernel_matrix(self, X: Any) -> Array:
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
        for part, block in self.kernel.blocks(X):
            matrix[part] = block
        return matrix

    def _cross(self, X: Any) -> Iterator[tuple[slice, Array]]:
        """Yield slices of the rows of X and their kernel values with the training rows."""
        rows = max(1, _BLOCK_BYTES // (8 * len(self.alpha_)))
        return self.kernel.blocks(X, self.X_train_, rows=rows)

    def _joint(self, X: Any) -> tuple[Array, Array]:
        """Return the posterior mean of f and its covariance, with only its upper triangle filled."""
        m = X.shape[0]
        covariance = self._kernel_matrix(X)
        mean, white = np.empty(m), np.empty((m, len(self.alpha_)))
        factor = self._cholesky()
        for part, cross in self._cross(X):
            mean[part] = self.mean_[0] + cross @ self.alpha_
            white[part] = factor.half_solve(cross.T).T
        if m:
            # The upper triangle in C order is the lower one in Fortran order.
            blas.dsyrk(-1.0, white.T, beta=1.0, c=covariance.T, trans=1, lower=1, overwrite_c=1)
        covariance *= self.signal_variance_[0]
        diagonal = covariance.diagonal()
        covariance[np.diag_indices(m)] = np.maximum(diagonal, 0.0)
        return mean, covariance

    def _cholesky(self) -> ShiftedCholesky:
        """Return the factor of K + lambda I, made anew once in a process that unpickled this."""
        with _FACTOR_LOCK:
            if self._factor is None:
                matrix = self._kernel_matrix(self.X_train_)
                ratio = float(self.noise_variance_[0] / self.signal_variance_[0])
                self._factor = _factorize(ShiftedCholesky(matrix), ratio)
            return self._factor

    def _check_fitted(self) -> None:
        if not hasattr(self, "alpha_"):
            raise NotFittedError("this ExactGP is not fitted yet: call fit first.")


class _Sampler(ShiftedCholesky):
    """A Cholesky factor U^T U that turns standard normal numbers into draws."""

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


def _check_variance(y: Array) -> None:
    """Refuse y without variance, as far as float64 can tell: nothing could be found from it."""
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
        raise InputError(
            "the kernel matrix of the rows is not positive semi-definite: take a positive definite kernel."
        ) from None
