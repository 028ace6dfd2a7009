"""Intervals from the errors of molecules that were left out: mean +- factor * standard deviation of y.

Errors often have heavier tails than a normal distribution: most are smaller than the standard deviation says,
and a few are much larger. So the factor of an interval is not that of a normal distribution, but a quantile
of the studentized leave-one-out residuals of the labelled molecules. Source: the jackknife of Barber et al.
2021, Predictive inference with the jackknife+, with residuals divided by their standard deviations.

For n molecules and a level p, the factor is the k-th smallest residual, k = ceil((n + 1) p). If a new
molecule and the labelled ones are exchangeable, the residual that the new one would have, left out of all n +
1, is equally likely to have any rank among them. So intervals hold p to the extent that predictions do not
depend on a single label: they are made by all n labels, residuals by n - 1, with the kernel and the variances
of all. That is no bound for every distribution and every model. The jackknife+ has one, 1 - 2 (1 - p), if
each molecule is left out of the choice of the kernel, too; on measured data its intervals were the same to a
few hundredths of a standard deviation. One quantile of sizes serves both ends: together they hold p, but with
skewed errors not (1 - p) / 2 each. Nothing holds for molecules that are not exchangeable with the labelled
ones, such as those of other scaffolds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import Matrix
from daskrf.errors import OptionError
from daskrf.gp.choice.kernelchoice import rows_of_metric
from daskrf.gp.processes.coregionalized import CoregionalizedGP
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.process import FeatureSpaceGP
from daskrf.gp.sums.folds import equal_rows
from daskrf.gp.validation.leaveoneout import labels_of, left_out, molecules_of

Array = npt.NDArray[np.float64]

LEVELS: Final = (50.0, 80.0, 95.0)
"""Levels, in percent, at which intervals are judged."""

MOST_MOLECULES: Final = 2000
"""Molecules left out at most, one at a time: the factor at 95 % is then right to 3 %."""

_ORDER = "gp/intervals"  # the name of the random order of molecules
_COLUMNS = 512  # columns of the inverse computed at a time


def studentized_residuals(gp: ExactGP, *, most: int = MOST_MOLECULES) -> Array:
    """Return the errors of molecules left out, divided by their standard deviations: sizes, ascending.

    A molecule is left out with all of its labels, and its error is that of their mean. Kernel, mean and
    variances are those of the fit to all labels. Molecules whose labels a metric was learned from are not
    among those left out: the process knows these labels even without them. Nor are those with a limit for a
    label, whose error is not known; what limits say of the others is as in the fit.

    Parameters
    ----------
    gp : ExactGP
        A fitted process. With conjugate gradients, standard deviations are estimated from the posterior
        samples of the fit, so it needs these.
    most : int
        Largest number of molecules; if there are more, a random subset is left out.

    Returns
    -------
    float64 array, shape (n,)

    Notes
    -----
    Let C = K + lambda I for a signal variance of a, and 1_B the indicator of the labels of a molecule. Their
    mean, predicted from the other labels, has the error A / T and the variance a / T, with
    A = 1_B^T C^-1 (y - m) and T = 1_B^T C^-1 1_B (Rasmussen & Williams 2006, section 5.4.2, for one label).
    With conjugate gradients, T is the mean of (1_B^T beta_s)^2 over samples, where beta_s = C^-1 times the
    noisy prior sample.

    Examples
    --------
    >>> from daskrf.kernels import Gaussian
    >>> X = np.arange(6.0)[:, None]
    >>> gp = ExactGP(Gaussian(2.0), noise_variance=0.01).fit(X, X[:, 0])
    >>> studentized_residuals(gp).round(1).tolist()
    [0.3, 0.3, 0.5, 0.5, 1.0, 1.0]
    """
    _, _, groups = _molecules(gp.X_train_)
    n_molecules = int(groups.max(initial=-1)) + 1
    order = np.argsort(seeds.words(0, _ORDER, n_molecules), kind="stable")
    if gp.kernel_choice_ is not None:
        # A kernel is chosen by measured labels alone.
        measured = np.arange(len(groups)) if gp.side_ is None else np.flatnonzero(gp.side_ == 0)
        learned = measured[rows_of_metric(gp.kernel_choice_, len(measured), gp.random_state)]
        order = order[~np.isin(order, groups[learned])]
    if gp.side_ is not None:
        order = order[~np.isin(order, groups[gp.side_ != 0])]
    chosen = np.sort(order[:most])
    sums = np.bincount(groups, gp.alpha_, n_molecules)[chosen]
    if gp.solver_ == "cholesky":
        information = _information(gp, groups, chosen)
    else:
        draws = gp.draw_weights()
        totals = np.zeros((n_molecules, draws.shape[1]))
        np.add.at(totals, groups, draws)
        information = np.square(totals[chosen]).mean(axis=1)
    tiny = np.finfo(np.float64).tiny
    return np.sort(np.abs(sums) / np.sqrt(np.maximum(gp.signal_variance_[0] * information, tiny)))


def residuals_of_targets(gp: CoregionalizedGP, *, most: int = MOST_MOLECULES) -> list[Array]:
    """Return the residuals of each target of a process of several, as `studentized_residuals` does.

    A molecule is left out with its labels of all targets, since a new molecule has none of any.

    Parameters
    ----------
    gp : CoregionalizedGP
        Fitted by a factorization.
    most : int
        Largest number of molecules for a target.

    Returns
    -------
    list of float64 array
    """
    groups, target = molecules_of(gp), gp.target_of_label_
    order = np.argsort(seeds.words(0, _ORDER, int(groups.max()) + 1), kind="stable")
    places, wanted = range(len(gp.mean_)), list[npt.NDArray[np.intp]]()
    for t in places:
        wanted.append(order[np.isin(order, groups[target == t])][:most])
    sizes: list[list[float]] = [[] for _ in places]
    chosen = [set(molecules.tolist()) for molecules in wanted]
    for labels, error, covariance in left_out(
        gp.joint_, labels_of(groups, np.unique(np.concatenate(wanted)))
    ):
        for t in np.unique(target[labels]).tolist():
            if int(groups[labels[0]]) not in chosen[t]:
                continue
            weight = (target[labels] == t) / np.count_nonzero(target[labels] == t)
            sizes[t].append(abs(float(weight @ error)) / math.sqrt(float(weight @ covariance @ weight)))
    return [np.sort(each) for each in sizes]


def residuals_of_rows(
    gp: FeatureSpaceGP, X: Matrix, y: npt.ArrayLike, target: int = 0, *, most: int = MOST_MOLECULES
) -> Array:
    """Return the residuals of a process on features, as `studentized_residuals` does.

    Parameters
    ----------
    gp : FeatureSpaceGP
        A fitted process, with its statistics.
    X, y : rows and labels
        Those that it was fitted to, or some of them with all labels of their molecules.
    target, most : int

    Returns
    -------
    float64 array, shape (n,)
    """
    labels, (_, first, place) = np.asarray(y, dtype=np.float64), _molecules(X)
    counts = np.bincount(place)
    means = np.bincount(place, labels) / counts
    some = np.sort(np.argsort(seeds.words(0, _ORDER, len(first)), kind="stable")[:most])
    error, std = gp.errors_left_out(X[first[some]], means[some], counts[some], target)
    sizes = np.abs(error) / std
    return np.sort(sizes[np.isfinite(sizes)])


def _molecules(
    X: Matrix,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the distinct numbers of equal rows, the first row of each, and the place of each row."""
    return np.unique(equal_rows(X), return_index=True, return_inverse=True)


def _information(gp: ExactGP, groups: npt.NDArray[np.intp], chosen: npt.NDArray[np.intp]) -> Array:
    """Return 1_B^T C^-1 1_B of the chosen molecules."""
    factor, information = gp._cholesky(), np.empty(len(chosen))
    for start in range(0, len(chosen), _COLUMNS):
        some = chosen[start : start + _COLUMNS]
        indicators = np.asfortranarray(groups[:, None] == some, dtype=np.float64)
        half = factor.half_solve(indicators)
        information[start : start + len(some)] = np.einsum("ij,ij->j", half, half)
    return information


def interval_factor(residuals: npt.ArrayLike, level: float) -> float:
    """Return how many standard deviations of y an interval extends to either side of the mean.

    Parameters
    ----------
    residuals : float array, shape (n,)
        From `studentized_residuals`: sizes, ascending.
    level : float
        In percent, such as 95.

    Returns
    -------
    float
        Infinity if n molecules do not determine it: the level must be at most 100 n / (n + 1).

    Examples
    --------
    >>> interval_factor([0.2, 0.5, 1.0, 3.0], 60), interval_factor([0.2, 0.5, 1.0, 3.0], 95)
    (1.0, inf)
    """
    sizes = np.asarray(residuals, dtype=np.float64)
    rank = math.ceil((len(sizes) + 1) * level / 100 - 1e-9)
    return float(sizes[max(rank, 1) - 1]) if rank <= len(sizes) else math.inf


def levels_of(text: str) -> list[float]:
    """Return levels in percent from text such as 50,80,95.

    Examples
    --------
    >>> levels_of("50,95%")
    [50.0, 95.0]
    """
    try:
        return [float(each) for each in text.replace("%", "").split(",")]
    except ValueError:
        raise ValueError(f"{text!r} is not a list of levels in percent, such as 50,80,95.") from None


def checked_levels(levels: float | Iterable[float]) -> tuple[float, ...]:
    """Return the levels of intervals, ascending and each once.

    Raises
    ------
    OptionError
        If there is none, or one is not between 0 and 100.

    Examples
    --------
    >>> checked_levels([95, 50])
    (50.0, 95.0)
    """
    values = sorted({float(level) for level in (levels if isinstance(levels, Iterable) else [levels])})
    if not values:
        raise OptionError("Give a level for intervals, such as 95 for --intervals (intervals).")
    for level in values:
        if not 0 < level < 100:
            raise OptionError(
                f"--intervals (intervals) are levels in percent, above 0 and below 100, not {level:g}."
            )
    return tuple(values)
