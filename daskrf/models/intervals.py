"""What the intervals of a model are made from: the errors of its molecules, each left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError, printable
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.separate import process_of, processes_of
from daskrf.gp.validation.intervals import interval_factor, studentized_residuals
from daskrf.models.models import Model
from daskrf.quantities import amount

RESIDUALS = "residuals"
"""Name of the array in a model that holds the studentized leave-one-out residuals of each target."""

Array = npt.NDArray[np.float64]


def residual_arrays(gp: Any) -> dict[str, Array]:
    """Return the array of residuals to store with a process: one row for each target, ascending, then NaN.

    There is none if molecules cannot be left out without fitting again.
    """
    n_targets = len(gp.mean_)
    processes = [process_of(gp, target)[0] for target in range(n_targets)]
    residuals = [studentized_residuals(each) for each in processes if isinstance(each, ExactGP)]
    if len(residuals) < n_targets:
        return {}
    stored = np.full((n_targets, max(map(len, residuals))), np.nan)
    for row, sizes in zip(stored, residuals, strict=True):
        row[: len(sizes)] = sizes
    return {RESIDUALS: stored}


def has_residuals(model: Model) -> bool:
    """Return whether intervals can be made from what is stored with a model."""
    return RESIDUALS in model.saved.entries


def residuals_of(model: Model) -> list[Array]:
    """Return the residuals of each target; empty without any."""
    if not has_residuals(model):
        return [np.empty(0)] * len(model.targets)
    (stored,) = model.arrays(RESIDUALS)
    return [row[np.isfinite(row)] for row in stored]


def interval_factors(model: Model, levels: Sequence[float]) -> tuple[Array, list[str]]:
    """Return the factors of intervals, shape (n_levels, n_targets), and what is lacking, in words.

    An interval is mean +- factor times the standard deviation of y. Its factor is NaN if a target has too few
    labelled molecules to determine it.

    Raises
    ------
    InputError
        If the model has no residuals, or too few of all targets.
    """
    if not has_residuals(model):
        if not all(isinstance(each, ExactGP) for each in processes_of(model.gp)):
            why = "intervals are for exact processes, and it is a model of features: leave --intervals out"
        else:
            why = "an older version fitted it, without the errors that intervals are made from: fit it again"
        raise InputError(f"{model.path} gives no intervals: {why} (intervals).")
    residuals = residuals_of(model)
    factors = np.array([[interval_factor(sizes, level) for sizes in residuals] for level in levels])
    few = [t for t in range(len(residuals)) if np.isinf(factors[:, t]).any()]
    notes = []
    for t in few:
        name, n = printable(model.targets[t], 60), len(residuals[t])
        lacking = [
            f"{level:g}" for level, factor in zip(levels, factors[:, t], strict=True) if factor == np.inf
        ]
        notes.append(
            f"{amount(n, 'labelled molecules')} of '{name}' do not determine intervals above "
            f"{_highest(n):g} %, so that of {' and '.join(lacking)} % is empty"
        )
    if np.isinf(factors).all():
        n = max(map(len, residuals))
        raise InputError(
            f"{model.path}: {amount(n, 'labelled molecules')} determine no interval above {_highest(n):g} %; "
            "give lower --intervals (intervals)."
        )
    factors[np.isinf(factors)] = np.nan
    return factors, notes


def _highest(n: int) -> float:
    """Return the highest level that n molecules determine, in percent, rounded down to a tenth."""
    return float(np.floor(1000 * n / (n + 1)) / 10)
