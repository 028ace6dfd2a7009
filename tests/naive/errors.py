"""The distribution of errors by SciPy's functions and a search over a grid: slow and plain."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import t

Array = npt.NDArray[np.float64]


def log_density(y: Array, mean: Array, std: Array, degrees: float, scale: float) -> Array:
    """Return the log density of mean + scale std t, one label at a time; `degrees` may be infinite."""
    return np.array([t(degrees, m, scale * s).logpdf(v) for v, m, s in zip(y, mean, std, strict=True)])


def best_of_grid(residuals: Array) -> tuple[float, float, float]:
    """Return degrees of freedom, scale and mean log density of the best point of a grid."""
    best = -np.inf, 0.0, 0.0
    for degrees in np.geomspace(1.5, 50.0, 36).tolist():
        for scale in np.geomspace(0.5, 1.2, 32).tolist():
            value = float(t.logpdf(residuals, degrees, 0.0, scale).mean())
            best = max(best, (value, degrees, scale))
    return best[1], best[2], best[0]
