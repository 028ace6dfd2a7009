"""Expectation propagation: Gaussian factors, called sites, in place of the factors of a likelihood.

Each label i gets a site exp(shift_i x_i - precision_i x_i^2 / 2). For the rest of the computation it is a
row with the label shift / precision and the noise variance 1 / precision. A site is right if, in the
distribution of x_i by the prior and all other sites, the cavity, it gives the same mean and variance as the
factor that it stands for. A sweep computes all cavities and replaces all sites at once.

Source: Rasmussen & Williams 2006, section 3.6; Minka 2001. Fixed points do not depend on the order of
updates, and products of large matrices take less time than many updates of one site.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, solve_triangular

from daskrf.gp.likelihoods.likelihood import Likelihood, Tilted

Array = npt.NDArray[np.float64]

_TOLERANCE = 1e-6  # of means and standard deviations, relative to standard deviations
_SWEEPS = 100
_CONVERGED = 0.01  # the same for a result that may be used
_LEAST_STEP = 0.02  # share of the way to the new sites
_SWING = 1.5  # a sweep that moves more than that times the last one is made again with half the step
_WEAKEST = 1e-10  # precision of a site that says nothing, relative to that of the prior


@dataclass(frozen=True)
class Sites:
    """Gaussian factors exp(shift x - precision x^2 / 2), one for each label.

    Attributes
    ----------
    precision, shift : float64 arrays, shape (m,)
    """

    precision: Array
    shift: Array

    @classmethod
    def none(cls, m: int) -> Sites:
        """Return sites that say nothing."""
        return cls(np.zeros(m), np.zeros(m))

    def as_labels(self, prior_variance: Array) -> tuple[Array, Array]:
        """Return the labels and noise variances of rows that say the same, float64 arrays of shape (m,).

        A site without precision gets 1e10 times its prior variance as noise.
        """
        precision = np.maximum(self.precision, _WEAKEST / prior_variance)
        return self.shift / precision, 1.0 / precision

    def towards(self, other: Sites, step: float) -> Sites:
        """Return sites that are a share of the way to others."""
        return Sites(
            self.precision + step * (other.precision - self.precision),
            self.shift + step * (other.shift - self.shift),
        )


def moved(cavity_mean: Array, tilted: Tilted) -> Sites:
    """Return the sites that give the moments of tilted distributions, for cavities with these means."""
    # (1 + variance * precision) is 1 / (1 - variance * curvature).
    scale = np.divide(
        tilted.precision, tilted.curvature, out=np.ones_like(cavity_mean), where=tilted.curvature > 0
    )
    return Sites(tilted.precision, cavity_mean * tilted.precision + tilted.slope * scale)


@dataclass(frozen=True)
class FeatureCovariance:
    """The covariance scale (Z Z^T + ratio I) of m latent values with r < m features each.

    Sweeps then cost m r^2 + r^3 / 3 multiply-adds, and no m x m matrix is made.

    Parameters
    ----------
    features : float64 array, shape (m, r)
        Z.
    ratio, scale : float
    """

    features: Array
    ratio: float
    scale: float = 1.0

    def diagonal(self) -> Array:
        """Return the prior variances."""
        lengths: Array = np.einsum("ij,ij->i", self.features, self.features)
        return self.scale * (lengths + self.ratio)


@dataclass(frozen=True)
class Propagated:
    """The Gaussian approximation of the latent values of m labels.

    Attributes
    ----------
    sites : Sites
    mean : float64 array, shape (m,)
    variance : float64 array, shape (m,)
        Diagonal of the covariance.
    log_evidence : float
        Approximate log probability of the labels.
    by_mean : float64 array, shape (m,)
        Its derivatives by the prior mean of each latent value.
    by_scale : float
        Its derivative by the logarithm of a factor of the prior covariance.
    n_sweeps : int
    change : float
        How far the last sweep moved a mean, or standard deviation, relative to standard deviations.
    """

    sites: Sites
    mean: Array
    variance: Array
    log_evidence: float
    by_mean: Array
    by_scale: float
    n_sweeps: int
    change: float

    @property
    def converged(self) -> bool:
        """Whether the last sweep changed next to nothing."""
        return self.change <= _CONVERGED


def propagate(
    likelihood: Likelihood,
    prior_mean: Array,
    covariance: Array | FeatureCovariance,
    *,
    start: Sites | None = None,
    tolerance: float = _TOLERANCE,
    max_sweeps: int = _SWEEPS,
) -> Propagated:
    """Approximate the distribution of latent values with a Gaussian prior by expectation propagation.

    A sweep costs a Cholesky factorization and m^3 / 2 multiply-adds for the variances, or less for a
    `FeatureCovariance`.

    Parameters
    ----------
    likelihood : Likelihood
        Of m labels.
    prior_mean : float64 array, shape (m,)
    covariance : float64 array, shape (m, m), or FeatureCovariance
    start : Sites, optional
        Initial sites, such as those for similar hyperparameters.
    tolerance : float
        The sweeps end when means and standard deviations change by less than this share of the standard
        deviations.
    max_sweeps : int

    Returns
    -------
    Propagated

    Examples
    --------
    >>> from daskrf.gp.likelihoods.censored import Censored
    >>> labels = Censored(np.array([0.0, 0.0]), np.array([1, 1], np.int8))
    >>> result = propagate(labels, np.zeros(2), np.array([[1.0, 0.5], [0.5, 1.0]]))
    >>> round(np.exp(result.log_evidence), 3)  # 1 / 3
    np.float64(0.333)
    """
    m = len(prior_mean)
    sites = Sites.none(m) if start is None else start
    state = _state(prior_mean, covariance, sites)
    if state is None:
        raise ValueError("the initial sites are not finite")
    step, change, n = 1.0, math.inf, 0
    cavity_mean, cavity_variance = state.cavities()
    tilted = likelihood.tilted(cavity_mean, cavity_variance)
    while m and change > tolerance and n < max_sweeps:
        n += 1
        trial = sites.towards(moved(cavity_mean, tilted), step)
        new = _state(prior_mean, covariance, trial)
        moves = math.inf if new is None else _change(state, new)
        if not moves < _SWING * change and step > _LEAST_STEP:
            step *= 0.5
            continue
        if new is None:
            break
        if moves > 0.9 * change:
            step = max(_LEAST_STEP, 0.8 * step)
        sites, state, change = trial, new, moves
        cavity_mean, cavity_variance = state.cavities()
        tilted = likelihood.tilted(cavity_mean, cavity_variance)
    return Propagated(
        sites=sites,
        mean=state.mean,
        variance=state.variance,
        log_evidence=_log_evidence(state, tilted, cavity_mean, cavity_variance),
        by_mean=sites.shift - sites.precision * state.mean,
        by_scale=_by_scale(state),
        n_sweeps=n,
        change=0.0 if not m else change,
    )


@dataclass(frozen=True)
class _State:
    """The Gaussian distribution by the prior and the sites."""

    prior_mean: Array
    prior_variance: Array
    sites: Sites
    mean: Array
    variance: Array
    log_det: float  # of I + T^(1/2) Sigma T^(1/2), with the precisions T

    def cavities(self) -> tuple[Array, Array]:
        """Return mean and variance of each latent value by the prior and all other sites."""
        left = 1.0 / self.variance - self.sites.precision
        # By rounding a variance may exceed what its own site leaves.
        variance = 1.0 / np.maximum(left, 1e-12 / self.variance)
        return variance * (self.mean / self.variance - self.sites.shift), variance


def _state(prior_mean: Array, covariance: Array | FeatureCovariance, sites: Sites) -> _State | None:
    """Return the distribution, or None if the sites are out of the range of numbers."""
    if not (np.isfinite(sites.precision).all() and np.isfinite(sites.shift).all()):
        return None
    if isinstance(covariance, FeatureCovariance):
        return _state_of_features(prior_mean, covariance, sites)
    root = np.sqrt(sites.precision)
    matrix = root[:, None] * covariance * root
    matrix.flat[:: len(matrix) + 1] += 1.0
    try:
        factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    half = solve_triangular(factor, root[:, None] * covariance, lower=True, check_finite=False)
    diagonal = covariance.diagonal()
    variance = diagonal - np.einsum("ij,ij->j", half, half)
    centred = sites.shift - sites.precision * prior_mean
    mean = covariance @ centred
    mean -= half.T @ solve_triangular(factor, root * mean, lower=True, check_finite=False)
    return _State(
        prior_mean=prior_mean,
        prior_variance=diagonal,
        sites=sites,
        mean=prior_mean + mean,
        variance=np.maximum(variance, 1e-15 * diagonal),
        log_det=2.0 * float(np.log(factor.diagonal()).sum()),
    )


def _state_of_features(prior_mean: Array, covariance: FeatureCovariance, sites: Sites) -> _State | None:
    """Return the distribution for a covariance of features.

    A latent value is x = f + e, with independent e of the variance s = scale ratio. A site of x with the
    precision t is, for f, one with the precision t / (1 + s t).
    """
    Z, noise = covariance.features, covariance.scale * covariance.ratio
    spread = 1.0 + noise * sites.precision
    precision, shift = sites.precision / spread, sites.shift / spread
    weighted = np.sqrt(covariance.scale * precision)[:, None] * Z
    inner = weighted.T @ weighted
    inner.flat[:: len(inner) + 1] += 1.0
    try:
        factor = cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    half = solve_triangular(factor, Z.T, lower=True, check_finite=False)
    moved_mean = prior_mean + covariance.scale * (half.T @ (half @ (shift - precision * prior_mean)))
    variance = covariance.scale * np.einsum("ij,ij->j", half, half)
    return _State(
        prior_mean=prior_mean,
        prior_variance=covariance.diagonal(),
        sites=sites,
        mean=(moved_mean + noise * sites.shift) / spread,
        variance=variance / spread**2 + noise / spread,
        log_det=2.0 * float(np.log(factor.diagonal()).sum()) + float(np.log(spread).sum()),
    )


def _change(old: _State, new: _State) -> float:
    """Return by how much means and standard deviations differ, relative to standard deviations."""
    std = np.sqrt(new.variance)
    moves = np.abs(new.mean - old.mean), np.abs(std - np.sqrt(old.variance))
    return max(float((move / std).max(initial=0.0)) for move in moves)


def _by_scale(state: _State) -> float:
    """Return d log Z / d log c for the prior covariance c Sigma, at c = 1, with fixed sites."""
    sites = state.sites
    # Of the centred quadratic form and of the trace of (Sigma + 1 / T)^-1 Sigma.
    form = float((sites.shift - sites.precision * state.mean) @ (state.mean - state.prior_mean))
    return 0.5 * (form - float(sites.precision @ state.variance))


def _log_evidence(state: _State, tilted: Tilted, cavity_mean: Array, cavity_variance: Array) -> float:
    """Return log Z: each site is scaled to give its cavity the normalizer of the factor.

    It needs no division by the precision of a site, which may be 0.
    """
    precision, shift = state.sites.precision, state.sites.shift
    # With the prior mean as origin.
    shift = shift - precision * state.prior_mean
    mean, variance = cavity_mean - state.prior_mean, cavity_variance
    spread = 1.0 + precision * variance
    form = (shift**2 * variance + 2.0 * shift * mean - precision * mean**2) / spread
    scales = tilted.log_normalizer + 0.5 * np.log(spread) - 0.5 * form
    whole = 0.5 * float(shift @ (state.mean - state.prior_mean))
    return float(scales.sum()) - 0.5 * state.log_det + whole
