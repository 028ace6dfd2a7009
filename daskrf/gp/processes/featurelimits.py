"""Hyperparameters and sites of a process on features whose labels are partly limits.

Measured labels come in as their sums. Given these, the weights of the features have a Gaussian distribution,
and so have the hidden measurements; expectation propagation takes place among them alone, as for an exact
process (`daskrf.gp.processes.limits`). With m limits and M features a sweep costs some m^3 multiply-adds, or
m M^2 + M^3 / 3 if there are more limits than features.

The search for lambda begins with few of the features, which are exchangeable, and ends with all of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from daskrf.arrays import NamedArrays
from daskrf.errors import InputError
from daskrf.gp.likelihoods.censored import Censored
from daskrf.gp.likelihoods.propagation import FeatureCovariance
from daskrf.gp.processes.limits import Conditional, LimitLabels, Search
from daskrf.gp.processes.posterior import as_features, expanded_rows
from daskrf.gp.solve.solvers import (
    CholeskySolver,
    EigenSolver,
    LowRankGram,
    ShiftedCholesky,
    few_rows,
    leading_block,
)
from daskrf.gp.sums.limitrows import LimitRows
from daskrf.gp.sums.statistics import Moments, SufficientStatistics
from daskrf.gp.sums.sums import Statistics

Array = npt.NDArray[np.float64]
Fixed = tuple[float | None, float | None, float | None]

_FIRST = 512  # features that the search begins with
_PREFIX, _STORED = "stand_ins/", ("labels", "excess")


@dataclass(frozen=True)
class StandIns:
    """Labels with more noise than others, which stand for the limits of a fit.

    Attributes
    ----------
    labels : float64 array, shape (m,)
    excess : float64 array, shape (m,)
        Noise variance beyond that of measured labels.
    """

    labels: Array
    excess: Array

    def arrays(self) -> dict[str, Array]:
        """Return both as arrays for storing."""
        return {f"{_PREFIX}{name}": getattr(self, name) for name in _STORED}

    @classmethod
    def from_arrays(cls, arrays: NamedArrays) -> StandIns | None:
        """Undo `arrays`; None if there are none among them."""
        if f"{_PREFIX}labels" not in arrays:
            return None
        return cls(*(np.asarray(arrays[f"{_PREFIX}{name}"]) for name in _STORED))

    def moments(self, statistics: SufficientStatistics, noise_variance: float) -> Moments:
        """Return the moments of all rows; a row with more noise counts for less than one."""
        assert statistics.limits is not None
        moments = statistics.moments()
        weights = noise_variance / (noise_variance + self.excess)
        y, shift = self.labels, float(moments.shift[0])
        for rows, phi in features_of(statistics.limits, statistics.n_components):
            w, residual = weights[rows], weights[rows] * (y[rows] - shift)
            moments.phi_sum += w @ phi
            moments.phi_y[:, 0] += residual @ phi
            moments.y_sum[0] += residual.sum()
            moments.yy[0] += residual @ (y[rows] - shift)
            phi *= np.sqrt(w)[:, None]
            moments.trace += float(np.einsum("ij,ij->", phi, phi))
            # The lower triangle in Fortran order is the upper one in C order.
            blas.dsyrk(1.0, phi.T, beta=1.0, c=moments.gram.T, lower=1, overwrite_c=1)
        return replace(moments, n=statistics.n_rows)


@dataclass(frozen=True)
class FeatureLimitFit:
    """Hyperparameters, and what stands for the limits.

    Attributes
    ----------
    mean, signal_variance, noise_variance : float
    at_bound : bool
        Whether the evidence takes lambda to an end of its search range.
    log_evidence : float
    stand_ins : StandIns
    """

    mean: float
    signal_variance: float
    noise_variance: float
    at_bound: bool
    log_evidence: float
    stand_ins: StandIns


def features_of(limits: LimitRows, n_components: int) -> Iterator[tuple[slice, Array]]:
    """Yield slices of rows with limits and their features in double precision, in bounded memory."""
    for rows in expanded_rows(len(limits), n_components, np.float64):
        yield rows, as_features(limits.phi[rows], n_components, np.float64)


class _OfFeatures(Conditional):
    """The distribution of hidden measurements by sums over the measured rows.

    With A = Phi_M^T Phi_M + lambda I, the mean is m + Phi_L A^-1 Phi_M^T (y - m), and the covariance the
    noise variance times I + Phi_L A^-1 Phi_L^T.
    """

    def __init__(self, rows: FeatureLabels, ratio: float) -> None:
        moments, solver = rows.moments, rows.solver
        q = solver.quadratics(ratio)
        size = len(moments.phi_sum)
        self.n, self._ratio, self._q = moments.n, ratio, q
        self.log_det = q.log_det + (moments.n - size) * math.log(ratio)
        right = np.column_stack([moments.phi_sum, moments.phi_y[:, 0]])
        if isinstance(solver, CholeskySolver):
            factor = solver.factor.factorize(ratio)
            solved = factor.solve(right)
            white = factor.half_solve(rows.phi.T).T
        else:
            assert rows.low_rank is not None
            values, vectors = rows.low_rank.values, rows.low_rank.vectors
            solved = rows.low_rank.factorize(ratio).solve(right)
            inside = rows.phi @ vectors
            shrunk = 1.0 - np.sqrt(ratio / (values + ratio))
            white = (rows.phi - (inside * shrunk) @ vectors.T) / math.sqrt(ratio)
        self.by_one, self.by_y = 1.0 - rows.phi @ solved[:, 0], rows.phi @ solved[:, 1]
        self.labels = rows.labels
        self._shape: Array | FeatureCovariance
        if len(white) > size:
            self._shape = FeatureCovariance(math.sqrt(ratio) * white, ratio)
        else:
            self._shape = ratio * (white @ white.T)
            self._shape.flat[:: len(white) + 1] += ratio

    def forms(self, mean: float) -> tuple[float, float]:
        q = self._q
        form = float(q.y_y[0]) - 2.0 * mean * float(q.one_y[0]) + mean**2 * q.one_one
        return max(form, 0.0) / self._ratio, (float(q.one_y[0]) - mean * q.one_one) / self._ratio

    def covariance(self, signal: float) -> Array | FeatureCovariance:
        if isinstance(self._shape, FeatureCovariance):
            return replace(self._shape, scale=signal)
        return signal * self._shape


class FeatureLabels(LimitLabels):
    """Sums over measured rows, and the features of rows with limits.

    Limits and means are relative to the shift of the moments.

    Parameters
    ----------
    moments : Moments
        Of the measured rows; its Gram matrix is used as workspace.
    phi : float64 array, shape (m, M)
    labels : Censored
        m of them.
    """

    def __init__(self, moments: Moments, phi: Array, labels: Censored) -> None:
        self.moments, self.phi, self.labels = moments, phi, labels
        n, size, self.shift = moments.n, len(moments.phi_sum), float(moments.shift[0])
        self.low_rank = LowRankGram(moments.gram, n) if few_rows(n, size) else None
        self.solver: CholeskySolver | EigenSolver
        self.solver = CholeskySolver(moments) if self.low_rank is None else EigenSolver(moments)
        self.lengths = np.einsum("ij,ij->i", phi, phi)
        self.size = (moments.trace + float(self.lengths.sum())) / (n + len(phi))
        self.mean = float(moments.y_sum[0]) / n
        self.spread = math.sqrt(max(float(moments.yy[0]) / n - self.mean**2, 0.0))
        self.largest = abs(float(moments.shift[0])) + self.spread

    def leading(self, size: int) -> FeatureLabels:
        """Return the same for the first features only, with the lengths of all on average.

        It must be called before anything is solved.
        """
        trace = float(np.trace(self.moments.gram[:size, :size]))
        scale = math.sqrt(self.moments.trace / trace) if trace > 0 else 1.0
        return FeatureLabels(leading_block(self.moments, size), self.phi[:, :size] * scale, self.labels)

    def at(self, ratio: float) -> Conditional:
        return _OfFeatures(self, ratio)


def _labels(statistics: SufficientStatistics) -> FeatureLabels:
    """Return the sums and the features of the limits."""
    limits = statistics.limits
    assert limits is not None
    moments = statistics.moments()
    phi = np.empty((len(limits), statistics.n_components))
    for rows, features in features_of(limits, statistics.n_components):
        phi[rows] = features
    return FeatureLabels(moments, phi, Censored(limits.bound - float(moments.shift[0]), limits.side))


def fit_feature_limits(statistics: SufficientStatistics, fixed: Fixed) -> FeatureLimitFit:
    """Find the hyperparameters that maximize the evidence of labels and limits, and the sites for them.

    Parameters
    ----------
    statistics : SufficientStatistics
        Of one target, with limits.
    fixed : (float or None, float or None, float or None)
        Mean, signal variance and noise variance to keep.

    Returns
    -------
    FeatureLimitFit
    """
    whole = _labels(statistics)
    shift, size = float(whole.moments.shift[0]), statistics.n_components
    relative = (None if fixed[0] is None else fixed[0] - shift, *fixed[1:])
    start, at_bound = None, False
    # A sweep costs about as much as for the smaller number, of limits or of features.
    large = min(size, len(whole.phi)) > 2 * _FIRST
    if None in fixed[1:] and large and whole.low_rank is None:
        first, at_bound = Search(whole.leading(_FIRST), relative).run(None)
        start = first.log_ratio
    point, at_end = Search(whole, relative).run(start)
    a, ratio = point.signal_variance, math.exp(point.log_ratio)
    labels, excess = point.propagated.sites.as_labels(a * (whole.lengths + ratio))
    return FeatureLimitFit(
        mean=point.mean + shift,
        signal_variance=a,
        noise_variance=a * ratio if fixed[2] is None else fixed[2],
        at_bound=at_bound or at_end,
        log_evidence=point.log_evidence,
        stand_ins=StandIns(labels + shift, excess),
    )


def likelihood_with_limits(
    statistics: SufficientStatistics, values: tuple[float, float, float], *, gradient: bool
) -> float | tuple[float, npt.NDArray[np.float64]]:
    """Return the log evidence for mean, signal and noise variance, and on request its gradient in them.

    The gradient is that of the stand-ins, which are stationary.
    """
    m, a, s = values
    fit = fit_feature_limits(statistics, values)
    if not gradient:
        return fit.log_evidence
    assert statistics.limits is not None
    moments, ratio = fit.stand_ins.moments(statistics, s), s / a
    weights = s / (s + fit.stand_ins.excess)
    mean, total = m - float(moments.shift[0]), statistics.n + float(weights.sum())
    gram = moments.gram + np.triu(moments.gram, 1).T
    factor = ShiftedCholesky(moments.gram).factorize(ratio)
    right = moments.phi_y[:, 0] - mean * moments.phi_sum
    solved, inverse = factor.solve(right[:, None])[:, 0], factor.solve(np.eye(len(gram)))
    # The covariance of all rows is a Phi Phi^T + s / W, and its inverse times their residuals r is
    # W (r - Phi w) / s, with the posterior mean w of the weights.
    by_mean = (float(moments.y_sum[0]) - total * mean - float(moments.phi_sum @ solved)) / s
    left = right - gram @ solved
    trace = float(np.einsum("ij,ji->", gram, inverse))
    by_signal = 0.5 * (float(left @ left) / s**2 - ratio * trace / s)
    squares = float(moments.yy[0]) - 2 * mean * float(moments.y_sum[0]) + total * mean**2
    errors, leverages = squares - float((right + left) @ solved), trace
    for rows, phi in features_of(statistics.limits, statistics.n_components):
        less = weights[rows] * (1.0 - weights[rows])  # these rows count with the squares of their weights
        errors -= float(less @ (fit.stand_ins.labels[rows] - m - phi @ solved) ** 2)
        leverages -= float(less @ np.einsum("ij,ij->i", phi @ inverse, phi))
    by_noise = 0.5 * (errors / s**2 - (total - leverages) / s)
    return fit.log_evidence, np.array([by_mean, by_signal, by_noise])


def refuse_all_limits(statistics: Statistics) -> None:
    """Refuse limits without a measured label.

    Raises
    ------
    InputError
    """
    if statistics.n == 0 and statistics.n_rows:
        raise InputError(
            "all labels are limits, which do not fix a scale: give some labels that were measured."
        )
