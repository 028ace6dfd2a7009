"""Sites of an exact process whose labels are partly limits, by conjugate gradients.

Expectation propagation needs the mean and the variance of f at each limit, given all labels and all other
limits. The means take one solution. With the covariance C of the labels, the precision p_i = [C^-1]_ii gives
the variance of f as D_i - D_i^2 p_i, where D_i is the noise of row i, that of its site included. The diagonal
of C^-1 is estimated from solutions for random signs z: the mean of z_i [C^-1 z]_i is p_i (Hutchinson 1990).
The same for the inverse by landmarks, whose diagonal is known, is subtracted: what is left to estimate is
their difference, which is small.

The equations are solved for U C U, where U is 1 for measured labels and less for rows with more noise. Rows
whose limit says next to nothing have next to no part in them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from daskrf.gp.likelihoods.censored import Censored
from daskrf.gp.likelihoods.propagation import Sites, moved
from daskrf.gp.processes.limits import MOST_CHANGE, Sides, no_agreement
from daskrf.gp.processes.posterior import standard_normal
from daskrf.gp.solve.conjugategradients import BlockSystem, Product
from daskrf.gp.solve.kernelmatrix import KernelMatrix
from daskrf.gp.solve.landmarkpreconditioner import LandmarkPreconditioner, ScaledLandmarks

Array = npt.NDArray[np.float64]
Single = npt.NDArray[np.float32]

PROBES = 32
"""Vectors of random signs: they give variances a relative error of a few percent."""

_TOLERANCE = 0.02  # of means and standard deviations of labels, relative to these; sweeps end there
_SWEEPS = 40
_FOR_PROBES = 10.0  # times the tolerance of labels: the sampling error is larger
_WEAKEST = 1e-4  # precision of a site that says nothing, relative to that of the prior
_SLOWED, _LEAST_STEP = 0.7, 0.1  # the step, if a sweep moves more than 0.9 of the one before
_STILL = 0.9
_TRUST = 0.2  # relative error of variances by landmarks alone: measured 0.1
_LEAST_SHARE = 0.25  # of the variance by landmarks
_STEP, _LARGEST_STEP = 0.1, 1.0  # in the logarithm of a variance: the search ends with smaller ones
_LARGEST = 30.0  # norm of labels that stand for limits, relative to that of measured labels
_TINY = 1e-12


@dataclass(frozen=True)
class IteratedSites:
    """What stands for the limits.

    Attributes
    ----------
    labels : float64 array, shape (n,)
        The measured labels, and labels in the place of limits.
    excess : float64 array, shape (n,)
        Noise variance beyond that of measured labels, for which it is 0.
    n_products : int
        Products with the kernel matrix; 0 for a stored model.
    """

    labels: Array
    excess: Array
    n_products: int = 0


@dataclass(frozen=True)
class LimitVariances:
    """The variances of a process, and which of them are optimized.

    Attributes
    ----------
    signal, noise : float
        Variances; those to start from, if they are optimized.
    free_signal, free_noise : bool
    least_ratio : float
        Least ratio of noise to signal that is accepted.
    """

    signal: float
    noise: float
    free_signal: bool = False
    free_noise: bool = False
    least_ratio: float = 0.0

    @property
    def ratio(self) -> float:
        """Noise to signal."""
        return self.noise / self.signal

    @property
    def at_bound(self) -> bool:
        """Whether the noise is the least that is accepted."""
        return self.free_noise and self.ratio <= 1.001 * self.least_ratio

    def moved(self, by_signal: float, by_noise: float) -> LimitVariances:
        """Return variances that differ by these steps in their logarithms, where they are free."""
        signal = self.signal * math.exp(by_signal) if self.free_signal else self.signal
        noise = self.noise * math.exp(by_noise) if self.free_noise else self.noise
        if self.free_noise:
            noise = max(noise, self.least_ratio * signal)
        return replace(self, signal=signal, noise=noise)

    def distance(self, other: LimitVariances) -> float:
        """Return the larger step in logarithms from one to the other."""
        return max(abs(math.log(self.signal / other.signal)), abs(math.log(self.noise / other.noise)))


def scales_for(noise_variance: float, excess: Array) -> Array:
    """Return 1 for each row without excess noise, and less for others: the roots of their weights."""
    return np.sqrt(noise_variance / (noise_variance + excess))


def scaled(matrix: KernelMatrix, scales: Array) -> Product:
    """Return the function that multiplies vectors by U K U."""
    columns = scales[:, None]

    def multiply(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
        u = columns.astype(vectors.dtype)
        product: npt.NDArray[np.floating] = u * matrix.product(np.ascontiguousarray(u * vectors))
        return product

    return multiply


def sites_by_iteration(
    matrix: KernelMatrix,
    landmarks: LandmarkPreconditioner,
    y: Array,
    side: Sides,
    *,
    mean: float | None,
    variances: LimitVariances,
    tolerance: float,
    max_iterations: int,
    random_state: int,
) -> tuple[IteratedSites, LimitVariances]:
    """Find the sites of limits, and the variances with the largest evidence for them.

    The gradient of the evidence is that with fixed sites (Rasmussen & Williams 2006, section 5.5.2). With the
    covariance A of the labels and alpha = A^-1 (y - m) it vanishes where the squares of alpha sum to tr A^-1,
    and alpha^T (A - D) alpha is n - tr D A^-1.

    Parameters
    ----------
    matrix : KernelMatrix
        k(X, X).
    landmarks : LandmarkPreconditioner
        Of the same rows.
    y : float64 array, shape (n,)
        Labels and limits.
    side : int8 array, shape (n,)
        0 for a label, 1 for a lower limit, -1 for an upper one.
    mean : float, optional
        By default, the one with the largest evidence for the sites.
    variances : LimitVariances
    tolerance : float
        Largest residual for the labels, relative to these.
    max_iterations : int
        Largest number of products in one sweep.
    random_state : int
        Seed of the random signs.

    Raises
    ------
    InputError
        If the sites do not settle.
    """
    sweeps = _Sweeps(matrix, landmarks, y, side, mean, variances)
    sweeps.probes = np.sign(standard_normal(random_state, "gp/probes", len(y), PROBES)).astype(np.float32)
    relative, excess = sweeps.labels_of(sweeps.run(tolerance, max_iterations))
    labels = np.where(side == 0, y, sweeps.shift + relative)
    return IteratedSites(labels, excess, sweeps.n_products), sweeps.variances


@dataclass(frozen=True)
class _Marginals:
    """Means and variances of f at the limits, given all labels and sites, and better variances."""

    mean: Array
    variance: Array
    better: LimitVariances


class _Sweeps:
    """Sweeps of expectation propagation; labels and means are relative to the mean of measured labels."""

    probes: Single

    def __init__(
        self,
        matrix: KernelMatrix,
        landmarks: LandmarkPreconditioner,
        y: Array,
        side: Sides,
        mean: float | None,
        variances: LimitVariances,
    ) -> None:
        self.matrix, self.landmarks, self.variances = matrix, landmarks, variances
        measured = y[side == 0]
        self.shift = float(measured.mean())
        self.spread = max(float(measured.std()), 1e-12 * float(np.abs(measured).max()), 1e-150)
        self.mean = None if mean is None else mean - self.shift
        self.y, self.hidden = y - self.shift, np.flatnonzero(side)
        self.limits = Censored(self.y[self.hidden], side[self.hidden])
        self.diagonal = matrix.kernel.diag(matrix.X)
        self.start: Single | None = None
        self.n_sweeps = self.n_products = 0

    @property
    def prior(self) -> Array:
        """Prior variances of f at the limits; 0 for rows without a column."""
        return np.maximum(self.variances.signal * self.diagonal[self.hidden], _TINY * self.variances.noise)

    def labels_of(self, sites: Sites) -> tuple[Array, Array]:
        """Return the labels of all rows for some sites, and their noise beyond that of measured ones."""
        precision = self.precision_of(sites)
        labels, excess = self.y.copy(), np.zeros(len(self.y))
        labels[self.hidden], excess[self.hidden] = sites.shift / precision, 1.0 / precision
        return labels, excess

    def precision_of(self, sites: Sites) -> Array:
        """Return precisions that products in single precision resolve."""
        return np.maximum(sites.precision, _WEAKEST / (self.prior + self.variances.noise))

    def run(self, tolerance: float, max_iterations: int) -> Sites:
        """Return sites that have settled."""
        sites, step, change = Sites.none(len(self.hidden)), 1.0, math.inf
        last: _Marginals | None = None
        moves_variances = True
        while (change > _TOLERANCE or moves_variances) and self.n_sweeps < _SWEEPS:
            self.n_sweeps += 1
            new = self.marginals(sites, tolerance, max_iterations)
            if last is not None:
                moves = self.change(last, new)
                step = max(_LEAST_STEP, _SLOWED * step) if moves > _STILL * change else step
                change = moves
            last, sites = new, sites.towards(self.improved(sites, new), step)
            moves_variances = self.variances.distance(new.better) > _STEP
            if moves_variances and change < MOST_CHANGE:
                self.variances = new.better
        finite = np.isfinite(sites.shift).all() and np.isfinite(sites.precision).all()
        if not (finite and change < MOST_CHANGE and self.is_usual(last) and self.is_resolved(sites)):
            raise no_agreement(self.limits, 0.0, self.spread, self.shift)
        return sites

    def is_usual(self, marginals: _Marginals | None) -> bool:
        """Return whether means are not far beyond all limits and labels."""
        if marginals is None:
            return False
        farthest = float(np.abs(self.limits.limit).max(initial=0.0))
        wide = 2.0 * farthest + 100.0 * (math.sqrt(float(self.prior.max())) + self.spread)
        return bool(np.abs(marginals.mean).max(initial=0.0) <= wide)

    def is_resolved(self, sites: Sites) -> bool:
        """Return whether single precision resolves measured labels beside those that stand for limits."""
        labels, excess = self.labels_of(sites)
        scaled_labels = scales_for(self.variances.noise, excess) * labels
        hidden = float(np.square(scaled_labels[self.hidden]).sum())
        measured = float(np.square(scaled_labels).sum()) - hidden
        return hidden <= _LARGEST**2 * max(measured, len(self.y) * self.variances.noise)

    def change(self, old: _Marginals, new: _Marginals) -> float:
        """Return by how much predictions of hidden measurements differ, relative to their deviations."""
        noise = self.variances.noise
        std = np.sqrt(new.variance + noise)
        moves = np.abs(new.mean - old.mean), np.abs(std - np.sqrt(old.variance + noise))
        return max(float((move / std).max(initial=0.0)) for move in moves)

    def improved(self, sites: Sites, marginals: _Marginals) -> Sites:
        """Return the sites that agree with the factors of the likelihood, given these marginals."""
        precision = self.precision_of(sites)
        noise, label = self.variances.noise + 1.0 / precision, sites.shift / precision
        # Without the limit's label: the variances never exceed those with this label alone.
        variance = marginals.variance * noise / (noise - marginals.variance)
        mean = variance * (marginals.mean / marginals.variance - label / noise)
        tilted = self.limits.tilted(mean, variance + self.variances.noise)
        better = moved(mean, tilted)
        # A site that is too weak for the equations gets more precision, but pulls as much.
        least = self.precision_of(better)
        return Sites(least, better.shift + (least - better.precision) * mean)

    def marginals(self, sites: Sites, tolerance: float, max_iterations: int) -> _Marginals:
        """Solve for the labels and the random signs."""
        labels, excess = self.labels_of(sites)
        noise, ratio = self.variances.noise + excess, self.variances.ratio
        scales = scales_for(self.variances.noise, excess)
        inverse = ScaledLandmarks(self.landmarks, self.diagonal, scales, ratio)
        right = np.column_stack([scales * labels / self.spread, scales, self.probes]).astype(np.float32)
        system = BlockSystem(scaled(self.matrix, scales), inverse, right, ratio, start=self.start)
        tolerances = np.full(right.shape[1], _FOR_PROBES * tolerance)
        tolerances[:2] = tolerance
        solution = system.solve(tolerances, max_iterations, check=False)
        self.n_products += solution.n_iterations
        self.start = solution.x.astype(np.float32)
        by_labels, by_ones = self.spread * solution.x[:, 0], solution.x[:, 1]
        mean = float(scales @ by_labels) / float(scales @ by_ones) if self.mean is None else self.mean
        alpha = scales * (by_labels - mean * by_ones) / self.variances.signal
        # The share of each variance that its label leaves unexplained: the noise times [A^-1]_ii.
        rough = ratio * inverse.diagonal(np.arange(len(noise)))
        each = ratio * self.probes * (solution.x[:, 2:] - inverse(self.probes))
        hidden = self.hidden
        return _Marginals(
            mean=labels[hidden] - noise[hidden] * alpha[hidden],
            variance=self.variances_of(rough[hidden], each[hidden], noise[hidden]),
            better=self.better_variances(labels - mean, alpha, noise, rough + each.mean(axis=1)),
        )

    def variances_of(self, rough: Array, each: Array, noise: Array) -> Array:
        """Return the variances of f at the limits, from those by landmarks and the solutions for signs."""
        largest = self.prior * noise / (self.prior + noise)
        by_landmarks = np.clip(noise * (1.0 - rough), 1e-6 * largest, largest)
        each = each * (noise / by_landmarks)[:, None]
        error = each.var(axis=1, ddof=1) / each.shape[1]
        correction = each.mean(axis=1) * _TRUST**2 / (_TRUST**2 + error)
        return np.asarray(np.clip(by_landmarks * (1.0 - correction), _LEAST_SHARE * by_landmarks, largest))

    def better_variances(
        self, residual: Array, alpha: Array, noise: Array, unexplained: Array
    ) -> LimitVariances:
        """Return variances nearer to where the gradient of the evidence vanishes."""
        n, squares = len(alpha), np.square(alpha)
        form, freedom = float(residual @ alpha - noise @ squares), n - float(unexplained.sum())
        trace = float((unexplained / noise).sum())
        # Sampling error may make both traces vanish.
        signal = form / max(freedom, 1e-3 * n)
        ratio = float(squares.sum()) / max(trace, _TINY / self.variances.noise)
        steps = np.clip(np.log(np.maximum([signal, ratio], _TINY)), -_LARGEST_STEP, _LARGEST_STEP)
        return self.variances.moved(float(steps[0]), float(steps[1]))
