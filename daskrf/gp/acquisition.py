"""Acquisition rules: how good it would be to measure a molecule next. Larger is always better."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, log_ndtr

from daskrf.errors import InputError

__all__ = ["RULES", "Acquisition", "log_expected_improvement", "log_probability_of_improvement"]

RULES = ("greedy", "ucb", "ei", "pi", "thompson")
_LOG_ROOT_2PI = 0.5 * math.log(2.0 * math.pi)

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Acquisition:
    """One acquisition rule with its settings.

    Parameters
    ----------
    rule : {"greedy", "ucb", "ei", "pi", "thompson"}
        greedy: the mean. ucb: mean + kappa * std (for minimization -mean + kappa * std). ei and pi: the
        natural logarithms of expected improvement and of probability of improvement over `best` (logarithms,
        because the values themselves underflow to ties for almost all of a large library). thompson: the
        value of one posterior draw of the whole function.
    maximize : bool
        Whether large y is good; the default is that small y is (docking scores).
    kappa : float
        Weight of the standard deviation in ucb.
    best : float, optional
        Best y known, for ei and pi.
    margin : float
        Improvement over `best` that counts, for ei and pi.

    Raises
    ------
    InputError
        If the rule is unknown, a number is not finite, or ei or pi lack `best`.

    Examples
    --------
    >>> Acquisition("ucb", kappa=2.0)(np.array([-9.0, -8.0]), np.array([0.1, 1.0])).tolist()
    [9.2, 10.0]
    """

    rule: str = "greedy"
    maximize: bool = False
    kappa: float = 2.0
    best: float | None = None
    margin: float = 0.0

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise InputError(f"acquisition {self.rule!r} is unknown: choose one of {', '.join(RULES)}.")
        for name in ("kappa", "margin", "best"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise InputError(f"{name} of the acquisition must be finite, not {value}.")
        if self.rule in ("ei", "pi") and self.best is None:
            raise InputError(f"acquisition {self.rule!r} needs the best y known so far: pass best.")

    @property
    def needs_std(self) -> bool:
        """Whether the rule uses standard deviations (of f)."""
        return self.rule in ("ucb", "ei", "pi")

    @property
    def needs_sample(self) -> bool:
        """Whether the first argument is a posterior draw of f in place of its mean."""
        return self.rule == "thompson"

    def state(self) -> dict[str, Any]:
        """Return the settings, JSON-able: ``Acquisition(**state)`` rebuilds the rule."""
        return asdict(self)

    def __call__(self, mean: npt.ArrayLike, std: npt.ArrayLike | None = None) -> Array:
        """Return the score of each row.

        Parameters
        ----------
        mean : float array, shape (n,)
            Posterior mean of f; for "thompson" the values of one posterior draw of f.
        std : float array, shape (n,), optional
            Posterior standard deviation of f, zero allowed; for ucb, ei and pi.

        Returns
        -------
        float64 array, shape (n,)

        Raises
        ------
        InputError
            If `std` is missing where the rule needs it, or negative.
        """
        sign = 1.0 if self.maximize else -1.0
        gain = sign * np.asarray(mean, dtype=np.float64)
        if not self.needs_std:
            return gain
        if std is None:
            raise InputError(f"acquisition {self.rule!r} needs standard deviations: predict them as well.")
        deviation = np.asarray(std, dtype=np.float64)
        if (deviation < 0).any():
            raise InputError("a standard deviation is negative: check the predictions.")
        if self.rule == "ucb":
            return gain + self.kappa * deviation
        assert self.best is not None
        gain = gain - sign * self.best - self.margin
        rule = log_expected_improvement if self.rule == "ei" else log_probability_of_improvement
        return rule(gain, deviation)


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
    # Where the gain is 10^8 deviations it is certain, and the quotient might overflow.
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
