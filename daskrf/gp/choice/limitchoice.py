"""Choosing among the best kernels by labels that are limits, too.

Kernels are compared by measured labels left out, which are a selection: the weakest molecules are missing.
The evidence of labels and limits together says more of these. A few rows of it are a poor guide among all
kernels, so it only chooses among those that predict measured labels best, and only where it is strong.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import Matrix
from daskrf.blas import blas_threads_for
from daskrf.errors import InputError
from daskrf.gp.processes.kerneltrials import KernelChoice
from daskrf.gp.processes.limits import Sides, fit_limits
from daskrf.gp.sums.chunks import check_rows
from daskrf.kernels.kernel import Kernel

_CANDIDATES = 4  # besides the one that was taken
_ROWS = 1000  # a fit to these takes some seconds
_STRONG = 3.0  # in log evidence: odds of 20 to 1 (Kass & Raftery 1995)
_FEWEST = 20  # limits among the rows, and measured labels


def choose_with_limits(
    choice: KernelChoice,
    X: Matrix,
    y: npt.NDArray[np.float64],
    side: Sides,
    *,
    random_state: int = 0,
) -> KernelChoice:
    """Return the choice, or that of another kernel with far more evidence by labels and limits.

    The best four kernels by measured labels, and the one that was taken, are compared by the evidence of a
    random 1,000 labels and limits. Another one is taken if its log evidence is larger by more than 3, which
    is strong (odds of 20 to 1). A kernel in a learned metric, and one whose length scale alone was chosen,
    stay.

    Parameters
    ----------
    choice : KernelChoice
        From the measured labels among these.
    X : rows, shape (n, n_columns)
    y : float64 array, shape (n,)
        Labels and limits.
    side : int8 array, shape (n,)
        0 for a label, 1 for a lower limit, -1 for an upper one.
    random_state : int

    Returns
    -------
    KernelChoice
    """
    order = np.argsort(seeds.words(random_state, "gp/limitchoice", len(y)), kind="stable")
    some = np.sort(order[:_ROWS])
    trials = choice.trials[: len(choice.trials) - bool(choice.n_learned)]
    taken = next((place for place, trial in enumerate(trials) if trial.kernel == choice.kernel), None)
    measured, n_limits = y[some][side[some] == 0], int(np.count_nonzero(side[some]))
    few = n_limits < _FEWEST or len(measured) < _FEWEST or float(np.ptp(measured)) == 0.0
    if taken is None or choice.variances or choice.asked is not None or len(trials) < 2 or few:
        return choice
    best = sorted(range(len(trials)), key=lambda place: -trials[place].log_probability)[:_CANDIDATES]
    evidence = {
        place: _evidence(trials[place].kernel, X[some], y[some], side[some])
        for place in sorted({taken, *best})
    }
    evidence = {place: value for place, value in evidence.items() if math.isfinite(value)}
    if taken not in evidence:
        return choice
    first = max(evidence, key=evidence.__getitem__)
    better = first if evidence[first] > evidence[taken] + _STRONG else taken
    return replace(choice, kernel=trials[better].kernel, evidence=evidence)


def _evidence(kernel: Kernel, X: Matrix, y: npt.NDArray[np.float64], side: Sides) -> float:
    """Return the largest log evidence of labels and limits for a kernel; minus infinity if there is none."""
    try:
        with blas_threads_for(len(y)):
            return fit_limits(kernel(check_rows(X, kernel)), y, side, (None, None, None)).log_evidence
    except InputError:  # not positive definite, or no agreement with all limits
        return -math.inf
