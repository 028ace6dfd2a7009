"""Checks that rounding of the sums does not affect a fit.

Sums of products in single precision differ from the exact ones by a matrix E, whose entries are independent
and of order e sqrt(G_ii G_jj), G = Phi^T Phi (`Moments.gram_error`). To first order, with
A = G + lambda I and the weights w = A^-1 Phi^T y, E changes

- the quadratic form of the log marginal likelihood by w^T E w / (2 noise_variance), its determinant by
tr(A^-1 E) / 2;
- a predicted mean by phi^T A^-1 E w.

Both are small relative to the scale of the labels if there are many more rows than features and the noise is
not tiny. Otherwise they can be arbitrarily large, because E then shifts eigenvalues that should be 0.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.errors import InputError
from daskrf.gp.solve.solvers import LowRankGram, ShiftedCholesky
from daskrf.gp.sums.statistics import Moments

# Accepted changes of the evidence per row, and of means relative to the spread of y.
_SINGLE = 1e-4, 1e-3
# The same for sums in double precision. Labels without noise have no more precise alternative, and their
# quadratic form is half a unit per label: with smaller changes the signal variance can still be estimated.
_DOUBLE = 0.5, 0.01
_CLAIM = 0.01  # accepted difference per row between two ways to compute the evidence
_ROUNDED = 2.0**-40  # sums with a larger rounding error were made in single precision
_PROBES = 8  # random vectors for estimating traces

Array = npt.NDArray[np.float64]


class CoarseSumsError(InputError):
    """Rounding of sums in single precision could affect a fit: double precision is needed."""


def check_rounding(
    moments: Moments,
    factor: ShiftedCholesky | LowRankGram,
    weights: Array,
    noise_variance: float,
    target: int,
) -> None:
    """Raise an error if rounding of the sums could affect the evidence or the means of one target.

    Parameters
    ----------
    moments : Moments
    factor : ShiftedCholesky or LowRankGram
        Factor of A = Phi^T Phi + lambda I.
    weights : float64 array, shape (M,)
        Posterior mean of the weights.
    noise : float
    target : int

    Raises
    ------
    CoarseSumsError
        If the sums are in single precision.
    InputError
        If they are in double precision, and rounding could still change the evidence by half a unit per
        label, or means by a hundredth of the spread of the labels.
    """
    if moments.gram_error == 0.0:
        return
    scales = np.sqrt(np.maximum(factor.diagonal, 0.0))
    signs = 1.0 - 2.0 * (seeds.words(0, "gp/rounding", scales.size * _PROBES) >> np.uint64(63)).astype(float)
    probes: Array = signs.reshape(-1, _PROBES) * scales[:, None]
    solved = factor.solve(probes)
    moved = float(np.square(scales * weights).sum())  # |D w|^2, D^2 the diagonal of G
    determinant = float(np.square(scales[:, None] * solved).sum()) / _PROBES  # |D A^-1 D|_F^2
    # |Phi x|^2 = x^T (A - lambda I) x for x = A^-1 D r, with expectation tr(D A^-1 G A^-1 D) over r.
    spread = float((probes * solved).sum() - factor.shift * np.square(solved).sum()) / _PROBES
    n = moments.n
    evidence = moments.gram_error * (moved / noise_variance + math.sqrt(determinant)) / (math.sqrt(2.0) * n)
    means = moments.gram_error * math.sqrt(moved * max(spread, 0.0) / n)
    means /= math.sqrt(max(float(moments.yy[target]) / n, noise_variance))
    single = moments.gram_error > _ROUNDED
    most = _SINGLE if single else _DOUBLE
    if evidence <= most[0] and means <= most[1]:
        return
    what = (
        "the labels have so little noise that rounding of the sums could change the log marginal likelihood "
        f"by {evidence:.1g} a label, and predictions by {means:.1g} of the labels' spread"
    )
    if single:
        raise CoarseSumsError(f"{what}: make the sums in double precision (precision='double').")
    raise InputError(f"{what}: give a larger noise variance.")


def check_claim(claimed: float, recomputed: float, n: int) -> None:
    """Raise InputError if the evidence of a fit contradicts its weights.

    Raises
    ------
    InputError
        If the two log marginal likelihoods differ by more than 0.01 per label.
    """
    if not abs(claimed - recomputed) <= _CLAIM * n:
        raise InputError(
            f"the fit contradicts itself: its log marginal likelihood is {claimed:.6g} by the search, but "
            f"{recomputed:.6g} by its weights. The sums are damaged, or the noise is too small to be "
            "resolved: compute the sums again, or give a larger noise variance."
        )
