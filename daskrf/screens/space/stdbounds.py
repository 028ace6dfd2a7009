"""Upper bounds of standard deviations, for rules that rank products by them.

An exact process needs n^2 operations for a standard deviation, ten times as many as for all that comes before
it. A process with the same parameters that knows only some of the n labels is nowhere more certain: each
label that is left out can only raise the variance. One that knows none has that of the prior, which costs
nothing and is enough for products whose mean is far below the best. Some hundred labels bound the others well
enough that few need their standard deviation before the best ones are known.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf.acquisition import Acquisition
from daskrf.arrays import as_csr
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import Target
from daskrf.jobs.held import held
from daskrf.kernels.coregionalized import Coregionalized
from daskrf.models.models import Model

N_LABELS = 512
"""Labels that a bound knows; of twice as many or fewer, only the bound by the prior is worth its time."""

LEAST_LABELS = 256
"""Of fewer labels, standard deviations cost no more than the means."""

BOUND_SECONDS = 2e-5
"""Rough time in seconds to bound the standard deviation of a product on one core."""

_SLACK = 1e-6  # of a bound, and of the signal's standard deviation: rounding must not undercut the true value


def labels_of_bounds(model: Model, target: Target, rule: Acquisition) -> tuple[int, ...]:
    """Return the numbers of labels that bounds of standard deviations should know, fewest first.

    There are none if standard deviations are not worth bounding, or cannot be: conjugate gradients estimate
    them by samples, which fewer labels do not bound.
    """
    process, _ = process_of(model.gp, target)
    if not rule.needs_std or type(process) is not ExactGP or isinstance(process.kernel, Coregionalized):
        return ()
    measured = len(process.y_train_) if process.side_ is None else int((process.side_ == 0).sum())
    if process.solver_ != "cholesky" or measured < LEAST_LABELS:
        return ()
    return (0, N_LABELS) if measured > 2 * N_LABELS else (0,)


def std_bounds(
    model: Model, target: Target, rule: Acquisition, rows: sparse.csr_matrix, n_labels: int
) -> npt.NDArray[np.float64]:
    """Return upper bounds of the standard deviations of f, shape (n,).

    Parameters
    ----------
    model : Model
    target : int or WeightedSum
    rule : Acquisition
        The labels that it ranks best are those that the bound knows: products are near to them.
    rows : csr_matrix, shape (n, n_columns)
        Fingerprints of products.
    n_labels : int
        One of `labels_of_bounds`: 0 for the standard deviations of the prior.
    """
    process, _ = process_of(model.gp, target)
    assert isinstance(process, ExactGP)
    signal = np.sqrt(process.signal_variance_[0])
    if n_labels:
        key = str(model.path), model.metadata["spec_hash"], repr(target), rule.sign
        some = held(
            "the labels that bound standard deviations", key, lambda: of_best_labels(process, rule.sign)
        )
        _, bound = some.predict(rows, return_std=True, of="f")
    else:
        bound = signal * np.sqrt(process.kernel.diag(rows))
    return np.asarray(bound * (1 + _SLACK) + _SLACK * signal)


def of_best_labels(process: ExactGP, sign: float) -> ExactGP:
    """Return the process that knows only the best of the measured labels, large ones if `sign` is 1.

    Its standard deviations are nowhere smaller than those of `process`.
    """
    value = sign * process.y_train_
    if process.side_ is not None:
        value = np.where(process.side_ == 0, value, -np.inf)
    best = np.sort(np.argsort(-value, kind="stable")[:N_LABELS])
    few = ExactGP(
        process.kernel,
        mean=float(process.mean_[0]),
        signal_variance=float(process.signal_variance_[0]),
        noise_variance=float(process.noise_variance_[0]),
        solver="cholesky",
    )
    return few.fit(as_csr(process.X_train_)[best], process.y_train_[best])
