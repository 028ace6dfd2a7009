"""Upper bounds of standard deviations, for rules that rank products by them.

An exact process needs n^2 operations for a standard deviation, ten times as many as for all that comes before
it. A process with the same parameters that knows only some of the n labels is nowhere more certain: each
label that is left out can only raise the variance. Some hundred labels bound it well enough that few products
need their standard deviation before the best ones are known.
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
"""Labels that a bound knows; of twice as many or fewer, standard deviations are not worth bounding."""

BOUND_SECONDS = 2e-5
"""Rough time in seconds to bound the standard deviation of a product on one core."""

_SLACK = 1e-6  # of a bound, and of the signal's standard deviation: rounding must not undercut the true value


def bounded_process(model: Model, target: Target, rule: Acquisition) -> ExactGP | None:
    """Return the process of a target if its standard deviations are worth bounding, else None.

    Conjugate gradients estimate standard deviations by samples, which fewer labels do not bound.
    """
    process, _ = process_of(model.gp, target)
    if not rule.needs_std or type(process) is not ExactGP or isinstance(process.kernel, Coregionalized):
        return None
    measured = len(process.y_train_) if process.side_ is None else int((process.side_ == 0).sum())
    return process if process.solver_ == "cholesky" and measured > 2 * N_LABELS else None


def std_bounds(
    model: Model, target: Target, rule: Acquisition, rows: sparse.csr_matrix
) -> npt.NDArray[np.float64]:
    """Return upper bounds of the standard deviations of f, shape (n,), for a model with a `bounded_process`.

    Parameters
    ----------
    model : Model
    target : int or WeightedSum
    rule : Acquisition
        The labels that it ranks best are those that the bound knows: products are near to them.
    rows : csr_matrix, shape (n, n_columns)
        Fingerprints of products.
    """
    process = bounded_process(model, target, rule)
    assert process is not None
    key = str(model.path), model.metadata["spec_hash"], repr(target), rule.sign
    some = held("the labels that bound standard deviations", key, lambda: of_best_labels(process, rule.sign))
    _, std = some.predict(rows, return_std=True, of="f")
    bound: npt.NDArray[np.float64] = std
    return bound * (1 + _SLACK) + _SLACK * np.sqrt(process.signal_variance_[0])


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
