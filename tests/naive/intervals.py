"""Intervals by processes that are fitted again without each molecule."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.gp.processes.exact import ExactGP

Array = npt.NDArray[np.float64]


def _without(gp: ExactGP, X: Any, y: Array) -> list[tuple[ExactGP, Array, Array]]:
    """Return, for each molecule, the process of all others, its row, and its labels."""
    names = ("mean", "signal_variance", "noise_variance")
    options: dict[str, Any] = {name: float(getattr(gp, f"{name}_")[0]) for name in names}
    fits = []
    for row in np.unique(X, axis=0):
        own = (row == X).all(axis=1)
        fits.append((ExactGP(gp.kernel, **options).fit(X[~own], y[~own]), row[None], y[own]))
    return fits


def residuals_by_refitting(gp: ExactGP, X: Any, y: Array) -> Array:
    """Return the sizes of the studentized residuals of the mean of each molecule's labels, ascending."""
    return np.sort(_sizes(gp, X, y))


def jackknife_plus(gp: ExactGP, X: Any, y: Array, X_new: Any, level: float) -> tuple[Array, Array]:
    """Return the ends of the intervals of Barber et al. 2021, equation 1.3, with studentized residuals."""
    lows, highs = [], []
    for (fitted, _, _), size in zip(_without(gp, X, y), _sizes(gp, X, y), strict=True):
        mean, std = fitted.predict(X_new, return_std=True)
        lows.append(mean - size * std)
        highs.append(mean + size * std)
    rank = int(np.ceil((len(lows) + 1) * level / 100))
    return -np.sort(-np.array(lows), axis=0)[rank - 1], np.sort(highs, axis=0)[rank - 1]


def _sizes(gp: ExactGP, X: Any, y: Array) -> list[float]:
    """Return the size of the studentized residual of each molecule, in the order of `_without`."""
    sizes = []
    for fitted, row, labels in _without(gp, X, y):
        (mean,), (std,) = fitted.predict(row, return_std=True, of="f")
        sizes.append(abs(labels.mean() - mean) / np.sqrt(std**2 + gp.noise_variance_[0] / len(labels)))
    return sizes
