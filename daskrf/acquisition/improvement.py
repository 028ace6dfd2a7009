"""Expected improvement and the probability of improvement over the best label."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, log_ndtr

from daskrf.acquisition.rule import Acquisition, Array
from daskrf.errors import InputError

_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, kw_only=True)
class _Improvement(Acquisition):
    """Scores are logarithms: the values themselves would underflow to ties for most of a large library."""

    needs_std: ClassVar[bool] = True
    logarithmic: ClassVar[bool] = True
    logarithm: ClassVar[Callable[[Any, Any], Array]]

    best: float | None = None
    margin: float = 0.0

    def with_best(self, best: float) -> Self:
        return self if self.best is not None else replace(self, best=best)

    def score(self, gain: Array, std: Array | None) -> Array:
        if self.best is None:
            raise InputError(f"acquisition {self.name!r} needs the best label so far: pass best.")
        return type(self).logarithm(gain - self.sign * self.best - self.margin, std)


def log_expected_improvement(gain: npt.ArrayLike, std: npt.ArrayLike) -> Array:
    """Return log E[max(g, 0)] for g ~ N(gain, std^2), accurate in both tails.

    Where std is 0 this is log max(gain, 0). Source: Ament et al. 2023, Unexpected improvements to expected
    improvement (NeurIPS), section 4.1: the product form through erfcx for moderate and an asymptotic series
    for far tails.

    Examples
    --------
    >>> log_expected_improvement([0.0, -40.0], [1.0, 1.0]).round(6).tolist()
    [-0.918939, -808.298568]
    """
    d, s = np.broadcast_arrays(np.asarray(gain, dtype=np.float64), np.asarray(std, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        certain = np.log(np.maximum(d, 0.0))
        spread = np.log(s) + _log_h(np.where(s > 0, d / s, 0.0))
    # A gain of 10^8 standard deviations is certain, and the quotient might overflow.
    return np.where((s > 0) & (d < 1e8 * s), spread, certain)


def log_probability_of_improvement(gain: npt.ArrayLike, std: npt.ArrayLike) -> Array:
    """Return log P(g > 0) for g ~ N(gain, std^2), accurate in both tails; 0 or -inf where std is 0.

    Examples
    --------
    >>> log_probability_of_improvement([0.0, 1.0], [1.0, 0.0]).round(6).tolist()
    [-0.693147, 0.0]
    """
    d, s = np.broadcast_arrays(np.asarray(gain, dtype=np.float64), np.asarray(std, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        spread = log_ndtr(np.where(s > 0, d / s, 0.0))
    return np.where(s > 0, spread, np.where(d > 0, 0.0, -np.inf))


def _log_h(z: Array) -> Array:
    """Return log(pdf(z) + z cdf(z)) of the standard normal distribution."""
    result = np.empty_like(z)
    near, far = z > -1.0, z < -50.0
    x = z[near]
    density = np.exp(-0.5 * x * x - _LOG_ROOT_2PI)
    result[near] = np.log(density + x * np.exp(log_ndtr(x)))
    x = z[~near & ~far]
    # cdf(x) = pdf(x) sqrt(pi/2) erfcx(-x / sqrt 2), so that pdf factors out.
    mills = np.sqrt(0.5 * np.pi) * erfcx(-x / np.sqrt(2.0))
    result[~near & ~far] = -0.5 * x * x - _LOG_ROOT_2PI + np.log1p(x * mills)
    x = z[far]
    inverse = 1.0 / (x * x)
    # 1 + x mills(x) = x^-2 (1 - 3 x^-2 + 15 x^-4 - 105 x^-6 + ...)
    series = -inverse * (3.0 - inverse * (15.0 - inverse * (105.0 - 945.0 * inverse)))
    result[far] = -0.5 * x * x - _LOG_ROOT_2PI - 2.0 * np.log(-x) + np.log1p(series)
    return result


@dataclass(frozen=True, kw_only=True)
class ExpectedImprovement(_Improvement):
    """The natural logarithm of the expected improvement over `best`.

    Source: Ament et al. 2023, Unexpected improvements to expected improvement (NeurIPS).

    Parameters
    ----------
    best : float, optional
        Label to improve on. Default: the best label of the model.
    margin : float
        Margin by which a molecule must improve on `best`.
    maximize : bool
        See `Acquisition`.

    Examples
    --------
    >>> ExpectedImprovement(best=-8.0)([-9.0, -8.0], [0.1, 1.0]).round(4).tolist()
    [0.0, -0.9189]
    """

    name: ClassVar[str] = "ei"
    logarithm: ClassVar[Callable[[Any, Any], Array]] = staticmethod(log_expected_improvement)


@dataclass(frozen=True, kw_only=True)
class ProbabilityOfImprovement(_Improvement):
    """The natural logarithm of the probability of an improvement over `best`.

    Source: Kushner 1964, A new method of locating the maximum of an arbitrary multipeak curve.

    Parameters
    ----------
    best : float, optional
        Label to improve on. Default: the best label of the model.
    margin : float
        Margin by which a molecule must improve on `best`.
    maximize : bool
        See `Acquisition`.

    Examples
    --------
    >>> ProbabilityOfImprovement(best=-8.0)([-9.0, -8.0], [0.1, 1.0]).round(4).tolist()
    [-0.0, -0.6931]
    """

    name: ClassVar[str] = "pi"
    logarithm: ClassVar[Callable[[Any, Any], Array]] = staticmethod(log_probability_of_improvement)
