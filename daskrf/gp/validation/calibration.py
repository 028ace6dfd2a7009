"""The accuracy of predictions and of their error bars on held-out data."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from daskrf.errors import InputError

Array = npt.NDArray[np.float64]
_LEVELS = np.arange(1, 20) / 20.0
_TOLERANCE = 0.1  # standard deviations too large or too small by this share still count as right
_ERRORS = 3.0  # standard errors by which a coverage has to differ in addition


@dataclass(frozen=True)
class Calibration:
    """Figures of merit of held-out predictions; see `calibration_report`.

    Attributes
    ----------
    n : int
    r2, rmse : float
    mean_log_probability : float
        Mean of log N(y; mean, std^2), in the units of y.
    standardized_log_loss : float
        Mean negative log probability minus that of a constant Gaussian; below 0 is better than no model.
    coverage_50, coverage_80, coverage_95 : float
        Fraction of y within the central 50, 80 and 95 % intervals.
    z_std : float
        Standard deviation of (y - mean) / std: 1 is ideal, above 1 overconfident.
    calibration_error : float
        Mean of |coverage - level| over the levels 5 %, 10 %, ..., 95 %.
    """

    n: int
    r2: float
    rmse: float
    mean_log_probability: float
    standardized_log_loss: float
    coverage_50: float
    coverage_80: float
    coverage_95: float
    z_std: float
    calibration_error: float

    def __str__(self) -> str:
        return (
            f"R2 {self.r2:.3f}, RMSE {self.rmse:.3g}, mean log probability {self.mean_log_probability:.3f}; "
            f"the 50, 80 and 95 % intervals contain {100 * self.coverage_50:.0f}, "
            f"{100 * self.coverage_80:.0f} and {100 * self.coverage_95:.0f} % of the true values "
            f"({self.n:,} held-out molecules)"
        )


def calibration_report(
    y: npt.ArrayLike,
    mean: npt.ArrayLike,
    std: npt.ArrayLike,
    *,
    train_mean: float | None = None,
    train_std: float | None = None,
) -> Calibration:
    """Return all figures of merit for predictions of y.

    Parameters
    ----------
    y, mean, std : float arrays, shape (n,)
        True values, predictive mean and predictive standard deviation of y (noise included).
    train_mean, train_std : float, optional
        Mean and standard deviation of the constant Gaussian in the standardized log loss; default: of y.

    Raises
    ------
    InputError
        If shapes differ, there are no rows, or a standard deviation is not positive.

    Examples
    --------
    >>> calibration_report([0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]).r2
    1.0
    """
    y, mean, std = _check(y, mean, std)
    c50, c80, c95 = coverage(y, mean, std, (0.5, 0.8, 0.95)).tolist()
    return Calibration(
        n=len(y),
        r2=r2(y, mean),
        rmse=rmse(y, mean),
        mean_log_probability=mean_log_probability(y, mean, std),
        standardized_log_loss=standardized_log_loss(y, mean, std, train_mean, train_std),
        coverage_50=c50,
        coverage_80=c80,
        coverage_95=c95,
        z_std=float(((y - mean) / std).std()),
        calibration_error=float(np.abs(coverage(y, mean, std, _LEVELS) - _LEVELS).mean()),
    )


def r2(y: npt.ArrayLike, mean: npt.ArrayLike) -> float:
    """Return the coefficient of determination; NaN where y has no variance."""
    y, mean = np.asarray(y, dtype=np.float64), np.asarray(mean, dtype=np.float64)
    total = float(np.square(y - y.mean()).sum())
    return 1.0 - float(np.square(y - mean).sum()) / total if total > 0 else float("nan")


def rmse(y: npt.ArrayLike, mean: npt.ArrayLike) -> float:
    """Return the root mean squared error."""
    return float(np.sqrt(np.square(np.asarray(y, dtype=np.float64) - np.asarray(mean)).mean()))


def mean_log_probability(y: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike) -> float:
    """Return the mean of log N(y; mean, std^2), in the units of y."""
    y, mean, std = _check(y, mean, std)
    return float(np.mean(-0.5 * np.log(2 * np.pi * std**2) - 0.5 * np.square((y - mean) / std)))


def standardized_log_loss(
    y: npt.ArrayLike,
    mean: npt.ArrayLike,
    std: npt.ArrayLike,
    train_mean: float | None = None,
    train_std: float | None = None,
) -> float:
    """Return the mean standardized log loss (Rasmussen & Williams 2006, eq. 2.34 and below)."""
    y, mean, std = _check(y, mean, std)
    centre = float(y.mean()) if train_mean is None else train_mean
    spread = float(y.std()) if train_std is None else train_std
    constant = np.full_like(y, centre)
    if not spread > 0:
        return float("nan")
    return mean_log_probability(y, constant, np.full_like(y, spread)) - mean_log_probability(y, mean, std)


def coverage(y: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike, levels: npt.ArrayLike) -> Array:
    """Return the fraction of y within the central interval of each level, shape (n_levels,).

    Examples
    --------
    >>> coverage([0.0, 3.0], [0.0, 0.0], [1.0, 1.0], [0.5, 0.999]).tolist()
    [0.5, 1.0]
    """
    y, mean, std = _check(y, mean, std)
    distance = np.sort(np.abs(y - mean) / std)
    half_width = ndtri(0.5 + 0.5 * np.asarray(levels, dtype=np.float64))
    return np.searchsorted(distance, half_width, side="right") / len(y)


def judged_coverage(
    held: float, level: float, n: int, spread: float = 0.0
) -> Literal["too narrow", "right", "too wide"]:
    """Judge an interval by the share of n values that it contains.

    The interval is right if standard deviations that are up to a tenth too large or too small explain the
    share within three standard errors.

    Parameters
    ----------
    held, level : float
        Observed and nominal share of the values within the interval.
    n : int
        Number of values.
    spread : float
        Another standard error of the share, such as that over folds; used if it is larger than the standard
        error for n independent values.

    Examples
    --------
    >>> [judged_coverage(0.65, 0.5, n) for n in (20, 1000)], judged_coverage(0.9, 0.95, 10_000)
    (['right', 'too wide'], 'too narrow')
    """
    z = float(ndtri(0.5 + 0.5 * level))
    low, high = (2 * float(ndtr(z * factor)) - 1 for factor in (1 - _TOLERANCE, 1 + _TOLERANCE))

    def allowed(share: float) -> float:
        return _ERRORS * max(math.sqrt(share * (1 - share) / n), spread)

    if held < low - allowed(low):
        return "too narrow"
    return "too wide" if held > high + allowed(high) else "right"


def _check(y: npt.ArrayLike, mean: npt.ArrayLike, std: npt.ArrayLike) -> tuple[Array, Array, Array]:
    arrays = tuple(np.asarray(v, dtype=np.float64) for v in (y, mean, std))
    if arrays[0].ndim != 1 or len({a.shape for a in arrays}) != 1 or len(arrays[0]) == 0:
        shapes = [a.shape for a in arrays]
        raise InputError(f"y, mean and std must be of one shape (n,), n > 0, not {shapes}.")
    if not (arrays[2] > 0).all():
        raise InputError("a standard deviation is not positive: predict with return_std=True, of='y'.")
    return arrays[0], arrays[1], arrays[2]
