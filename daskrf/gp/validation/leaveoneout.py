"""Leave-one-out predictions of labelled molecules by an exact model, without fitting again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from daskrf import seeds
from daskrf.errors import InputError
from daskrf.gp.processes.coregionalized import CoregionalizedGP, CoregionalizedTarget
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.sums.folds import equal_rows

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

_MOST = 2000  # molecules left out at most, one at a time
_COLUMNS = 512  # columns of the inverse computed at a time


@dataclass(frozen=True)
class LeftOut:
    """Labels, and their predictions by a model without the labels of their molecule.

    Attributes
    ----------
    y, mean, std : float64 arrays, shape (n,)
        Labels, and predictive means and standard deviations, noise included.
    n_molecules : int
        Number of all molecules with labels; at most 2,000 of them are left out.
    rows : int array, shape (n,)
        Positions of the labels among all labels of the model.
    """

    y: Array
    mean: Array
    std: Array
    n_molecules: int
    rows: npt.NDArray[np.intp]


def leave_one_out(gp: ExactGP | CoregionalizedTarget, *, most: int = _MOST) -> LeftOut:
    """Return the predictions of labelled molecules, each from the labels of all others.

    Kernel, mean and variances are those of the fit to all labels. Labels with equal rows are left out
    together. Limits have no errors, so they are not among the results; but they are left out with their
    molecules, and the others stay as they are in the fit.

    Parameters
    ----------
    gp : ExactGP or CoregionalizedTarget
        Fitted by a factorization (solver "cholesky"). Of a target that learned from the labels of others, a
        molecule is left out with its labels of all targets.
    most : int
        Largest number of molecules to leave out; if there are more, a random subset is left out.

    Raises
    ------
    InputError
        If the model was fitted by conjugate gradients, which give no inverse.

    Notes
    -----
    Let P be the inverse of the covariance of the labels, and alpha = P (y - m). Labels B that are left out
    then have errors P_BB^-1 alpha_B with the covariance P_BB^-1 (Rasmussen & Williams 2006, eqs. 5.10 -
    5.12).

    Examples
    --------
    >>> from daskrf.kernels import Gaussian
    >>> X = np.arange(6.0)[:, None]
    >>> gp = ExactGP(Gaussian(2.0), noise_variance=0.01).fit(X, X[:, 0])
    >>> leave_one_out(gp).mean.round(1).tolist()
    [0.5, 0.9, 2.1, 2.9, 4.1, 4.5]
    """
    if gp.solver_ != "cholesky":
        raise InputError(
            "leave-one-out predictions need a factorization (solver='cholesky'): use evaluate, or folds."
        )
    if isinstance(gp, ExactGP):
        joint, scale, shift = gp, 1.0, 0.0
        groups, mine = molecules_of(gp), np.ones(gp.n_rows_, bool)
    else:
        joint, scale, shift = gp.joint, gp.scale, gp.shift
        groups, mine = molecules_of(gp.whole), gp.whole.target_of_label_ == gp.place
    molecules = np.unique(groups[mine])
    order = np.argsort(seeds.words(0, "gp/leaveoneout", int(groups.max(initial=-1)) + 1), kind="stable")
    chosen = order[np.isin(order, molecules)][:most]
    y = shift + scale * np.asarray(joint.y_train_, dtype=np.float64)
    error, variance = np.empty(len(y)), np.empty(len(y))
    for labels, errors, covariance in left_out(joint, labels_of(groups, chosen)):
        error[labels], variance[labels] = scale * errors, scale**2 * covariance.diagonal()
    measured = mine if joint.side_ is None else mine & (joint.side_ == 0)
    rows = np.flatnonzero(measured & np.isin(groups, chosen))
    return LeftOut(y[rows], y[rows] - error[rows], np.sqrt(variance[rows]), len(molecules), rows)


def molecules_of(gp: ExactGP | CoregionalizedGP) -> Rows:
    """Return the number of the molecule of each label, from 0: labels of equal rows have the same."""
    rows = gp.X_train_ if isinstance(gp, ExactGP) else gp.rows_of_labels_
    return np.unique(equal_rows(rows), return_inverse=True)[1]


def labels_of(groups: Rows, chosen: Rows) -> list[Rows]:
    """Return the labels of each of some molecules, in the order of their numbers."""
    rows = np.flatnonzero(np.isin(groups, chosen))
    order = rows[np.argsort(groups[rows], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1) if len(order) else []


def left_out(gp: ExactGP, parts: Sequence[Rows]) -> Iterator[tuple[Rows, Array, Array]]:
    """Yield each part of the labels, their errors if all of them are left out, and the covariance of these.

    By the inverse of the covariance of all labels, so `gp` must have a factorization.
    """
    factor, n, a, at = gp._cholesky(), len(gp.alpha_), float(gp.signal_variance_[0]), 0
    while at < len(parts):
        some = parts[at : at + _COLUMNS]
        at += len(some)
        columns = np.concatenate(some)
        ones = np.zeros((n, len(columns)), order="F")
        ones[columns, np.arange(len(columns))] = 1.0
        half = factor.half_solve(ones)
        ends = np.cumsum([len(labels) for labels in some])
        for labels, end in zip(some, ends.tolist(), strict=True):
            block = half[:, end - len(labels) : end]
            inverse = cho_factor(block.T @ block, lower=True)
            error = cho_solve(inverse, gp.alpha_[labels])
            yield labels, error, a * cho_solve(inverse, np.eye(len(labels)))
