"""The number of molecules better than a value, compared with the number that the model expects.

The best molecules of a library are in the far tail of all predictions. There a model may be wrong even if its
standard deviations are right overall. So, among labels that were predicted before they were measured, those
better than a value are counted and compared with the number expected. Unlike the mean size of errors, this
ratio does not depend on how a batch was chosen, as long as its labels were unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_triangular
from scipy.special import gammaincinv, ndtr

from daskrf.errors import InputError
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.validation.leaveoneout import leave_one_out

Array = npt.NDArray[np.float64]

LEAST_RATIO = 0.1  # least ratio of the number of better molecules to the number expected
_PRIOR = 2.0  # number of labels that the prior is worth; a priori the model is right
_ALIKE = 4.0  # labels of a batch that count as one: similar molecules have similar errors
_DISCREPANCY = 0.5  # standard deviation of the log ratio for molecules unlike the labelled ones
_UNTRIED = 1.0  # the same before there is a batch
_OLDER = 0.5  # weight of a batch relative to the next one: a model learns


@dataclass(frozen=True)
class TailCounts:
    """Labels that were predicted before they were measured; larger is better.

    Attributes
    ----------
    y, mean, std : float64 arrays, shape (n,)
        Labels, and their predictive means and standard deviations, noise included.
    weight : float64 array, shape (n,)
        Weight of each label as evidence, at most 1.
    n_batches : int
    """

    y: Array
    mean: Array
    std: Array
    weight: Array
    n_batches: int = 0

    def above(self, values: npt.ArrayLike) -> tuple[Array, Array]:
        """Return the weighted number of labels that reach each value, and the number expected.

        Examples
        --------
        >>> counts = TailCounts(np.array([0.0, 2.0]), np.zeros(2), np.ones(2), np.ones(2))
        >>> [each.round(2).tolist() for each in counts.above([0.0, 1.0])]
        [[2.0, 1.0], [1.0, 0.32]]
        """
        at = np.asarray(values, dtype=np.float64)
        seen = ((self.y[:, None] >= at) * self.weight[:, None]).sum(axis=0)
        expected = (ndtr((self.mean[:, None] - at) / self.std[:, None]) * self.weight[:, None]).sum(axis=0)
        return seen, expected

    def ratio(self, values: npt.ArrayLike, quantile: float, deviate: float) -> Array:
        """Return the ratio of the number of molecules that reach a value to the number expected.

        It is a quantile of the gamma posterior of the ratio (for a Poisson variable with a gamma prior of
        mean 1), times a lognormal factor. If `quantile` is uniformly and `deviate` normally distributed, it
        is a random sample of the posterior times the factor.
        """
        seen, expected = self.above(values)
        doubt = _DISCREPANCY if self.n_batches else _UNTRIED
        ratio = gammaincinv(_PRIOR + seen, quantile) / (_PRIOR + expected)
        return np.maximum(LEAST_RATIO, ratio * np.exp(doubt * deviate))


def tail_counts(gp: ExactGP, n_first: int, batches: list[int], sign: float) -> TailCounts:
    """Return the labels of an exact model, each predicted from other labels.

    The labels of the first round are left out one by one; a batch is predicted from all labels before it.
    Kernel and variances are those of the fit to all labels.

    Parameters
    ----------
    gp : ExactGP
        Fitted by a factorization (solver "cholesky").
    n_first : int
        Number of labels of the first round; those of the batches follow.
    batches : list of int
        Number of labels of each batch.
    sign : float
        1 if large labels are good, else -1.

    Raises
    ------
    InputError
        If the numbers do not add up to the number of labels of the model.
    """
    y = np.asarray(gp.y_train_, dtype=np.float64)
    if n_first + sum(batches) != len(y):
        raise InputError(
            f"{n_first} labels and batches of {batches} do not add up to the {len(y)} of the model."
        )
    left = leave_one_out(gp)
    first = left.rows < n_first
    parts = [(left.y[first], left.mean[first], left.std[first], np.ones(int(first.sum())))]
    start = n_first
    if batches:
        a, v, m = (float(each[0]) for each in (gp.signal_variance_, gp.noise_variance_, gp.mean_))
        K = a * np.asarray(gp.kernel(gp.X_train_), dtype=np.float64)
        K[np.diag_indices(len(y))] += v
        factor = np.linalg.cholesky(K)
        white = solve_triangular(factor, y - m, lower=True)
    for age, n in zip(range(len(batches) - 1, -1, -1), batches, strict=True):
        batch = slice(start, start + n)
        mean = m + factor[batch, :start] @ white[:start]
        std = np.sqrt(np.square(factor[batch, batch]).sum(axis=1))
        parts.append((y[batch], mean, std, np.full(n, _OLDER**age / _ALIKE)))
        start += n
    labels, mean, std, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    return TailCounts(sign * labels, sign * mean, std, weight, len(batches))
