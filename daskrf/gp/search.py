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
    Peak,
    approach_evidence,
    leading_block,
    maximize_evidence,
)
from daskrf.gp.statistics import Moments

__all__ = ["ONE_LABEL", "Given", "check_given", "check_positive", "find_hyperparameters"]

Given = npt.ArrayLike | None
ONE_LABEL = "one label tells nothing of amplitude and noise: give more labels, or fix both."
_GUESS_SIZE = 512  # features that the first guess of the Cholesky route comes from
_LARGE = 8_192  # above, a Cholesky factorization takes so long that few are made: see `approach_evidence`


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
    targets = range(len(moments.yy))
    fixed = [_fixed(moments, target, mean, amplitude, noise) for target in targets]
    if amplitude is not None and noise is not None:
        return [maximize_evidence(solver, target, fixed[target]) for target in targets]
    for target in targets:
        _check_variance(moments, target)
    if not isinstance(solver, CholeskySolver):
        return [maximize_evidence(solver, target, fixed[target]) for target in targets]
    guess = EigenSolver(leading_block(moments, _GUESS_SIZE))
    ratios = [maximize_evidence(guess, target, fixed[target])[0].ratio for target in targets]
    del guess
    if len(moments.phi_sum) <= _LARGE:
        return [maximize_evidence(solver, target, fixed[target], ratios[target]) for target in targets]
    return _approach(solver, fixed, [Peak(math.log(ratio)) for ratio in ratios])


def _approach(
    solver: CholeskySolver, fixed: list[Fixed], peaks: list[Peak]
) -> list[tuple[Hyperparameters, bool]]:
    """Find the peaks of a quarter, of half, and of all features, each from the one before."""
    moments = solver.moments
    # In this order, because the first factor of all features overwrites the diagonal that blocks are made of.
    for size in (len(moments.phi_sum) // 4, len(moments.phi_sum) // 2):
        part = CholeskySolver(leading_block(moments, size))
        peaks = [approach_evidence(part, target, fixed[target], peak)[2] for target, peak in enumerate(peaks)]
        del part
    return [approach_evidence(solver, target, fixed[target], peak)[:2] for target, peak in enumerate(peaks)]


def check_positive(name: str, value: float) -> None:
    """Refuse an amplitude or noise that is not positive and finite."""
    if not (value > 0.0 and math.isfinite(value)):
        raise InputError(f"{name} must be positive and finite, not {value}: leave it out to have it found.")


def check_given(n_targets: int | None, **given: Given) -> None:
    """Refuse what no model can keep fixed as `mean`, `amplitude` or `noise` of so many targets, if known."""
    for name, value in given.items():
        if value is None:
            continue
        values = np.asarray(value, dtype=np.float64)
        n = values.size if n_targets is None else n_targets
        if values.shape not in ((), (n,)) or not np.isfinite(values).all():
            raise InputError(
                f"{name} must be one finite number, or one for each of "
                f"{'the' if n_targets is None else n_targets} targets."
            )
        if name != "mean":
            for number in values.flat:
                check_positive(name, float(number))


def _fixed(moments: Moments, target: int, mean: Given, amplitude: Given, noise: Given) -> Fixed:
    """Return what is fixed for one target, the mean measured from the shift of the moments."""
    n_targets = len(moments.yy)
    m = _given(mean, "mean", target, n_targets)
    a, s = _given(amplitude, "amplitude", target, n_targets), _given(noise, "noise", target, n_targets)
    return Fixed(None if m is None else m - float(moments.shift[target]), a, s)


def _given(value: Given, name: str, target: int, n_targets: int) -> float | None:
    """Return the value that the user fixed for one target, or None."""
    if value is None:
        return None
    check_given(n_targets, **{name: value})
    values = np.asarray(value, dtype=np.float64)
    return float(values if values.ndim == 0 else values[target])


def _check_variance(moments: Moments, target: int) -> None:
    variance = moments.yy[target] - moments.y_sum[target] ** 2 / moments.n
    error = float(moments.yy_error[target])
    if moments.n == 1:
        raise InputError(ONE_LABEL)
    if variance <= error:
        raise InputError(
            f"y of target {target} is without variance over {moments.n} rows, as far as their sums can tell "
            f"(it deviates by at most {math.sqrt(error / moments.n):.1g} from {moments.shift[target]:.6g}): "
            "give labels that differ, subtract a constant from y, or fix both amplitude and noise."
        )
