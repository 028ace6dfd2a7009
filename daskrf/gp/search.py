"""The search for the hyperparameters that the user did not give, target by target."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.gp.evidence import (
    CholeskySolver,
    EigenSolver,
    Fixed,
    Hyperparameters,
    leading_block,
    maximize_evidence,
)
from daskrf.gp.statistics import Moments

__all__ = ["Given", "check_positive", "find_hyperparameters"]

Given = npt.ArrayLike | None
_GUESS_SIZE = 512  # features that the first guess of the Cholesky route comes from


def find_hyperparameters(
    solver: EigenSolver | CholeskySolver, *, mean: Given, amplitude: Given, noise: Given
) -> list[tuple[Hyperparameters, bool]]:
    """Return the hyperparameters of each target, and whether their ratio ran into an end of its range.

    Parameters
    ----------
    solver : EigenSolver or CholeskySolver
        New: a CholeskySolver not factorized yet.
    mean, amplitude, noise : float or array of shape (n_targets,), optional
        Those that are fixed.

    Raises
    ------
    InputError
        If y has no variance but is needed to find one, or a given value is out of range.
    """
    moments = solver.moments
    free = amplitude is None or noise is None
    guess = None
    if free and isinstance(solver, CholeskySolver):
        guess = EigenSolver(leading_block(moments, _GUESS_SIZE))
    found = []
    for target in range(len(moments.yy)):
        fixed = _fixed(moments, target, mean, amplitude, noise)
        if free:
            _check_variance(moments, target)
        start = None if guess is None else maximize_evidence(guess, target, fixed)[0].ratio
        found.append(maximize_evidence(solver, target, fixed, start))
    return found


def check_positive(name: str, value: float) -> None:
    """Refuse an amplitude or noise that is not positive and finite."""
    if not (value > 0.0 and math.isfinite(value)):
        raise InputError(f"{name} must be positive and finite, not {value}: leave it out to have it found.")


def _fixed(moments: Moments, target: int, mean: Given, amplitude: Given, noise: Given) -> Fixed:
    """Return what is fixed for one target, the mean measured from the shift of the moments."""
    n_targets = len(moments.yy)
    m = _given(mean, "mean", target, n_targets)
    a, s = _given(amplitude, "amplitude", target, n_targets), _given(noise, "noise", target, n_targets)
    for name, value in (("amplitude", a), ("noise", s)):
        if value is not None:
            check_positive(name, value)
    return Fixed(None if m is None else m - float(moments.shift[target]), a, s)


def _given(value: Given, name: str, target: int, n_targets: int) -> float | None:
    """Return the value that the user fixed for one target, or None."""
    if value is None:
        return None
    values = np.asarray(value, dtype=np.float64)
    if values.shape not in ((), (n_targets,)) or not np.isfinite(values).all():
        raise InputError(f"{name} must be one finite number, or one for each of {n_targets} targets.")
    return float(values if values.ndim == 0 else values[target])


def _check_variance(moments: Moments, target: int) -> None:
    variance = moments.yy[target] - moments.y_sum[target] ** 2 / moments.n
    error = float(moments.yy_error[target])
    if variance <= error:
        raise InputError(
            f"y of target {target} is without variance over {moments.n} rows, as far as their sums can tell "
            f"(it deviates by at most {math.sqrt(error / moments.n):.1g} from {moments.shift[target]:.6g}): "
            "give labels that differ, subtract a constant from y, or fix both amplitude and noise."
        )
