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
from dataclasses import dataclass

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
    signal_variance: float,
    noise_variance: float,
    tolerance: float,
    max_iterations: int,
    random_state: int,
) -> IteratedSites:
    """Find the sites of limits for given variances.

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
    signal_variance, noise_variance : float
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
    sweeps = _Sweeps(matrix, landmarks, y, side, mean, signal_variance, noise_variance)
    sweeps.probes = np.sign(standard_normal(random_state, "gp/probes", len(y), PROBES)).astype(np.float32)
    relative, excess = sweeps.labels_of(sweeps.run(tolerance, max_iterations))
    labels = np.where(side == 0, y, sweeps.shift + sweeps.unit * relative)
    return IteratedSites(labels, signal_variance * excess, sweeps.n_products)


@dataclass(frozen=True)
class _Marginals:
    """Means and variances of f at the limits, given all labels and sites."""

    mean: Array
    variance: Array


class _Sweeps:
    """Sweeps of expectation propagation, in units of the standard deviation of the signal."""

    probes: Single

    def __init__(
        self,
        matrix: KernelMatrix,
        landmarks: LandmarkPreconditioner,
        y: Array,
        side: Sides,
        mean: float | None,
        signal_variance: float,
        noise_variance: float,
    ) -> None:
        self.matrix, self.landmarks = matrix, landmarks
        self.ratio, self.unit = noise_variance / signal_variance, math.sqrt(signal_variance)
        measured = y[side == 0]
        self.shift = float(measured.mean())
        self.spread = float(measured.std())
        self.mean = None if mean is None else (mean - self.shift) / self.unit
        self.y = (y - self.shift) / self.unit
        self.hidden = np.flatnonzero(side)
        self.limits = Censored(self.y[self.hidden], side[self.hidden])
        self.diagonals = matrix.kernel.diag(matrix.X)
        self.diagonal = np.maximum(self.diagonals[self.hidden], _TINY)  # 0 for rows without a column
        self.start: Single | None = None
        self.n_sweeps = self.n_products = 0

    def labels_of(self, sites: Sites) -> tuple[Array, Array]:
        """Return the labels of all rows for some sites, and their noise beyond that of measured ones."""
        precision = self.precision_of(sites)
        labels, excess = self.y.copy(), np.zeros(len(self.y))
        labels[self.hidden], excess[self.hidden] = sites.shift / precision, 1.0 / precision
        return labels, excess

    def precision_of(self, sites: Sites) -> Array:
        """Return precisions that products in single precision resolve."""
        return np.maximum(sites.precision, _WEAKEST / (self.diagonal + self.ratio))

    def run(self, tolerance: float, max_iterations: int) -> Sites:
        """Return sites that have settled."""
        sites, step, change = Sites.none(len(self.hidden)), 1.0, math.inf
        last: _Marginals | None = None
        while change > _TOLERANCE and self.n_sweeps < _SWEEPS:
            self.n_sweeps += 1
            new = self.marginals(sites, tolerance, max_iterations)
            if last is not None:
                moves = self.change(last, new)
                step = max(_LEAST_STEP, _SLOWED * step) if moves > _STILL * change else step
                change = moves
            last, better = new, self.improved(sites, new)
            sites = sites.towards(better, step)
        finite = np.isfinite(sites.shift).all() and np.isfinite(sites.precision).all()
        if not (finite and change < MOST_CHANGE and self.is_usual(last) and self.is_resolved(sites)):
            limits = Censored(self.limits.limit * self.unit, self.limits.side)
            raise no_agreement(limits, 0.0, max(self.spread, 1e-150), self.shift)
        return sites

    def is_usual(self, marginals: _Marginals | None) -> bool:
        """Return whether means are not far beyond all limits and labels."""
        if marginals is None:
            return False
        farthest = float(np.abs(self.limits.limit).max(initial=0.0))
        wide = 2.0 * farthest + 100.0 * (math.sqrt(1.0 + self.ratio) + self.spread / self.unit)
        return bool(np.abs(marginals.mean).max(initial=0.0) <= wide)

    def is_resolved(self, sites: Sites) -> bool:
        """Return whether single precision resolves measured labels beside those that stand for limits."""
        labels, excess = self.labels_of(sites)
        scaled_labels = scales_for(self.ratio, excess) * labels
        hidden = float(np.square(scaled_labels[self.hidden]).sum())
        measured = float(np.square(scaled_labels).sum()) - hidden
        return hidden <= _LARGEST**2 * max(measured, len(self.y) * self.ratio)

    def change(self, old: _Marginals, new: _Marginals) -> float:
        """Return by how much predictions of hidden measurements differ, relative to their deviations."""
        std = np.sqrt(new.variance + self.ratio)
        moves = np.abs(new.mean - old.mean), np.abs(std - np.sqrt(old.variance + self.ratio))
        return max(float((move / std).max(initial=0.0)) for move in moves)

    def improved(self, sites: Sites, marginals: _Marginals) -> Sites:
        """Return the sites that agree with the factors of the likelihood, given these marginals."""
        precision = self.precision_of(sites)
        noise, label = self.ratio + 1.0 / precision, sites.shift / precision
        # Without the limit's label: the variances never exceed those with this label alone.
        variance = marginals.variance * noise / (noise - marginals.variance)
        mean = variance * (marginals.mean / marginals.variance - label / noise)
        tilted = self.limits.tilted(mean, variance + self.ratio)
        better = moved(mean, tilted)
        # A site that is too weak for the equations gets more precision, but pulls as much.
        least = self.precision_of(better)
        return Sites(least, better.shift + (least - better.precision) * mean)

    def marginals(self, sites: Sites, tolerance: float, max_iterations: int) -> _Marginals:
        """Solve for the labels and the random signs."""
        labels, excess = self.labels_of(sites)
        scales = scales_for(self.ratio, excess)
        inverse = ScaledLandmarks(self.landmarks, self.diagonals, scales, self.ratio)
        right = np.column_stack([scales * labels, scales, self.probes]).astype(np.float32)
        system = BlockSystem(scaled(self.matrix, scales), inverse, right, self.ratio, start=self.start)
        tolerances = np.full(right.shape[1], _FOR_PROBES * tolerance)
        tolerances[:2] = tolerance
        solution = system.solve(tolerances, max_iterations, check=False)
        self.n_products += solution.n_iterations
        self.start = solution.x.astype(np.float32)
        by_labels, by_ones = solution.x[:, :2].T
        mean = self.mean
        if mean is None:
            mean = float(scales @ by_labels) / float(scales @ by_ones)
        hidden = self.hidden
        noise = self.ratio + excess[hidden]
        weights = scales[hidden] * (by_labels - mean * by_ones)[hidden]
        return _Marginals(
            labels[hidden] - noise * weights, self.variances(inverse, solution.x[hidden, 2:], noise)
        )

    def variances(self, inverse: ScaledLandmarks, solved: Array, noise: Array) -> Array:
        """Return the variances of f at the limits, from those by landmarks and the solutions for signs."""
        signs = self.probes[self.hidden]
        largest = self.diagonal * noise / (self.diagonal + noise)
        rough = noise * (1.0 - self.ratio * inverse.diagonal(self.hidden))
        rough = np.clip(rough, 1e-6 * largest, largest)
        each = signs * (solved - inverse(self.probes)[self.hidden]) * (noise * self.ratio / rough)[:, None]
        error = each.var(axis=1, ddof=1) / each.shape[1]
        correction = each.mean(axis=1) * _TRUST**2 / (_TRUST**2 + error)
        return np.asarray(np.clip(rough * (1.0 - correction), _LEAST_SHARE * rough, largest))
