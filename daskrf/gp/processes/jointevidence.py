"""The evidence of labels of several targets, whose functions correlate, and its maximum.

Labels of target t are m_t + f_t(x) + noise, and f_s(x) and f_t(x') have the covariance A_st k(x, x'). With
A_st = sqrt(a_s a_t) R_st, a are the signal variances and R the correlations. R = U U^T, where U is lower
triangular with rows of length 1, so that every value of its entries is a matrix of correlations.

The evidence is multiplied by two weak priors: that of `daskrf.gp.processes.exact.ExactGP` against labels
without noise, and det R against correlations of 1, which few labels would claim by chance (Lewandowski,
Kurowicka & Joe 2009, with eta = 2).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack
from scipy.optimize import minimize

from daskrf.blas import blas_threads_for

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]

DOUBT = 3e-3
"""As for one target: noise far below this share of the variance of f over the rows is unlikely."""

_RANGE = (
    math.log(1e-6),
    math.log(1e3),
)  # of signal and noise variances, relative to the variance of the labels
_STEEPEST = 30.0  # entry of U relative to its diagonal: a correlation of 0.9994
_STEPS, _FLAT = 80, 1e-7


@dataclass(frozen=True)
class JointParameters:
    """Means, signal and noise variances of targets, and the correlations of their functions.

    Attributes
    ----------
    mean, signal_variance, noise_variance : float64 arrays, shape (n_targets,)
    correlation : float64 array, shape (n_targets, n_targets)
    log_evidence : float
        Of the labels that they were found with, without the priors.
    at_bound : bool array, shape (n_targets,)
        Whether noise or signal ended where the search does.
    """

    mean: Array
    signal_variance: Array
    noise_variance: Array
    correlation: Array
    log_evidence: float = math.nan
    at_bound: npt.NDArray[np.bool_] | None = None

    @property
    def covariance(self) -> Array:
        """Covariances of the targets."""
        size = np.sqrt(self.signal_variance)
        return np.asarray(self.correlation * size * size[:, None])


@dataclass(frozen=True)
class FixedParameters:
    """Values to keep, one for each target; NaN, or None for all: to be found."""

    mean: Array | None = None
    signal_variance: Array | None = None
    noise_variance: Array | None = None


class JointEvidence:
    """The evidence of some labels, as a function of variances and correlations.

    Parameters
    ----------
    gram : float64 array, shape (n, n)
        k(x, x') of the molecules of the labels.
    target : int array, shape (n,)
        Position of the target of each label, all from 0 on.
    y : float64 array, shape (n,)

    Notes
    -----
    With C the covariance of the labels and alpha = C^-1 (y - m), the derivative with respect to C is
    (alpha alpha^T - C^-1) / 2 (Rasmussen & Williams 2006, eq. 5.9). The means are those of generalized least
    squares, which maximize the evidence, so that they have no share in the derivative.
    """

    def __init__(self, gram: Array, target: Places, y: Array) -> None:
        order = np.argsort(target, kind="stable")
        self.target, self.y = target[order], y[order]
        self.gram = gram[np.ix_(order, order)]
        self.n_targets = int(self.target.max()) + 1
        ends = np.searchsorted(self.target, np.arange(self.n_targets + 1)).tolist()
        self.parts = [slice(a, b) for a, b in itertools.pairwise(ends)]
        self.indicators = (self.target[:, None] == np.arange(self.n_targets)).astype(np.float64)
        self.spread = np.array(
            [
                max(0.0, float(self.gram[p, p].trace()) / max(1, p.stop - p.start) - self.gram[p, p].mean())
                for p in self.parts
            ]
        )

    def __call__(
        self, covariance: Array, noise_variance: Array, mean: Array | None = None
    ) -> tuple[float, Array, Array, Array]:
        """Return the log evidence, its derivatives by the covariances and by the noise, and the means.

        Means that are not given, or NaN, are found.

        Returns
        -------
        value : float
        by_covariance : float64 array, shape (n_targets, n_targets)
            As if all entries were independent; symmetric.
        by_noise, mean : float64 arrays, shape (n_targets,)

        Raises
        ------
        numpy.linalg.LinAlgError
            If the covariance of the labels is not positive definite to within rounding.
        """
        n = len(self.y)
        matrix = np.empty((n, n), order="F")
        for s, rows in enumerate(self.parts):
            for t, columns in enumerate(self.parts):
                np.multiply(self.gram[rows, columns], covariance[s, t], out=matrix[rows, columns])
        matrix.flat[:: n + 1] += noise_variance[self.target]
        with blas_threads_for(n):
            factor, failed = lapack.dpotrf(matrix, lower=1, overwrite_a=1, clean=1)
            if failed:
                raise np.linalg.LinAlgError
            log_det = 2.0 * float(np.log(factor.diagonal()).sum())
            right = np.column_stack([self.y, self.indicators])
            solved = lapack.dpotrs(factor, right, lower=1)[0]
            mean = np.full(self.n_targets, math.nan) if mean is None else mean.copy()
            free = np.isnan(mean)
            labels = solved[:, 0] - solved[:, 1:][:, ~free] @ mean[~free]
            information = self.indicators[:, free].T @ solved[:, 1:][:, free]
            mean[free] = np.linalg.solve(information, self.indicators[:, free].T @ labels)
            residual = self.y - mean[self.target]
            alpha = solved[:, 0] - solved[:, 1:] @ mean
            value = -0.5 * (float(residual @ alpha) + log_det + n * math.log(2 * math.pi))
            inverse = lapack.dpotri(factor, lower=1, overwrite_c=1)[0]
        by_covariance = np.empty((self.n_targets, self.n_targets))
        for s, rows in enumerate(self.parts):
            for t, columns in enumerate(self.parts[: s + 1]):
                block, gram = inverse[rows, columns], self.gram[rows, columns]
                if s == t:  # only the lower triangle is filled
                    trace = 2 * float(np.einsum("ij,ij->", np.tril(block), gram))
                    trace -= float(block.diagonal() @ gram.diagonal())
                else:
                    trace = float(np.einsum("ij,ij->", block, gram))
                form = float(alpha[rows] @ gram @ alpha[columns])
                by_covariance[s, t] = by_covariance[t, s] = 0.5 * (form - trace)
        diagonal = 0.5 * (np.square(alpha) - inverse.diagonal())
        return value, by_covariance, self.indicators.T @ diagonal, mean

    def maximize(self, fixed: FixedParameters | None = None, *, correlated: bool = True) -> JointParameters:
        """Return the parameters that maximize the evidence, times the priors.

        Parameters
        ----------
        fixed : FixedParameters, optional
        correlated : bool
            Whether to search for correlations; else there are none.

        Raises
        ------
        ValueError
            If a target has no labels here.
        """
        search = _Search(self, fixed or FixedParameters(), correlated=correlated)
        result = minimize(
            search.loss,
            search.begin(),
            jac=True,
            method="L-BFGS-B",
            bounds=search.bounds,
            options={"maxiter": _STEPS, "ftol": _FLAT, "maxls": 20},
        )
        return search.parameters(result.x)


class _Search:
    """The evidence as a function of free numbers: logarithms of variances, and entries of U."""

    def __init__(self, evidence: JointEvidence, fixed: FixedParameters, *, correlated: bool) -> None:
        T = evidence.n_targets
        counts = evidence.indicators.sum(axis=0)
        if not counts.all():
            raise ValueError("each target needs a label")
        means = evidence.indicators.T @ evidence.y / counts
        squares = np.square(evidence.y - means[evidence.target])
        variances = evidence.indicators.T @ squares / counts
        usual = variances[variances > 0].mean() if (variances > 0).any() else 1.0
        # A target whose labels here are all the same takes the scale of the others.
        self.size = np.where(variances > 0, variances, usual)
        self.evidence, self.correlated = evidence, correlated
        self.below: tuple[Places, ...] = np.tril_indices(T, -1)
        unknown = np.full(T, math.nan)
        settings = (
            unknown if values is None else values for values in (fixed.signal_variance, fixed.noise_variance)
        )
        self.known = np.log(np.array(list(settings)) / self.size)
        self.mean = fixed.mean
        n = len(self.below[0]) if correlated else 0
        ends = [_RANGE if math.isnan(value) else (value, value) for value in self.known.ravel().tolist()]
        self.bounds = [*ends, *[(-_STEEPEST, _STEEPEST)] * n]

    def begin(self) -> Array:
        """Return the numbers where the search begins: no correlations, and as much noise as signal."""
        numbers = np.zeros(len(self.bounds))
        numbers[: self.known.size] = math.log(0.5)
        low, high = np.array(self.bounds).T
        return np.clip(numbers, low, high)

    def _unpacked(self, numbers: Array) -> tuple[Array, Array, Array]:
        """Return signal and noise variances, and the rows of U before they have length 1."""
        T = self.evidence.n_targets
        signal, noise = np.exp(numbers[: 2 * T].reshape(2, T)) * self.size
        v = np.eye(T)
        if self.correlated:
            v[self.below] = numbers[2 * T :]
        return signal, noise, v

    def loss(self, numbers: Array) -> tuple[float, Array]:
        """Return minus the log evidence with the priors, and its gradient."""
        signal, noise, v = self._unpacked(numbers)
        lengths = np.linalg.norm(v, axis=1)
        U = v / lengths[:, None]
        L = U * np.sqrt(signal)[:, None]
        try:
            value, by_covariance, by_noise, _ = self.evidence(L @ L.T, noise, self.mean)
        except np.linalg.LinAlgError:
            return 1e300, np.zeros(len(numbers))
        by_L = 2.0 * by_covariance @ L
        doubt = DOUBT * self.evidence.spread * signal / noise
        doubt[~np.isnan(self.known[1])] = 0.0
        by_signal = 0.5 * np.einsum("tq,tq->t", L, by_L) - doubt
        by_log_noise = by_noise * noise + doubt
        value -= float(doubt.sum())
        parts = [by_signal, by_log_noise]
        if self.correlated:
            value -= 2.0 * float(np.log(lengths).sum())  # log det R
            across = by_L - np.einsum("tq,tq->t", U, by_L)[:, None] * U
            by_v = across * (np.sqrt(signal) / lengths)[:, None] - 2.0 * v / lengths[:, None] ** 2
            parts.append(by_v[self.below])
        return -value, -np.concatenate(parts)

    def parameters(self, numbers: Array) -> JointParameters:
        """Return the parameters that some numbers stand for."""
        signal, noise, v = self._unpacked(numbers)
        U = v / np.linalg.norm(v, axis=1)[:, None]
        correlation = U @ U.T
        np.fill_diagonal(correlation, 1.0)
        size = np.sqrt(signal)
        value, *_, mean = self.evidence(correlation * size * size[:, None], noise, self.mean)
        low, high = np.array(self.bounds).T
        ends = ((numbers <= low + 1e-6) | (numbers >= high - 1e-6)) & (low < high)
        at_bound = ends[: 2 * len(signal)].reshape(2, -1).any(axis=0)
        return JointParameters(mean, signal, noise, correlation, value, at_bound)
