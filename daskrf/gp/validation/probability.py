"""The probability of a class, from the mean and the standard deviation of a regression on 0 and 1.

A latent function a + b f with a standard normal error is positive for labels of 1. Averaged over the
posterior f ~ N(mean, std^2), the probability of a 1 is

    Phi((a + b mean) / sqrt(1 + b^2 std^2)).

a and b are those that give labels their largest likelihood when each is predicted without its own value. So
probabilities are calibrated where labels are rare, too, which those of the regression itself are not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr, ndtri

from daskrf.errors import InputError

Array = npt.NDArray[np.float64]

_STEEPEST = 1e3  # in standard deviations of the means: means that separate the classes would need no end
_LEAST_LEFT = 1e-3  # least share of the noise that a label's own prediction leaves of its error
_LOG_ROOT_2PI = 0.5 * math.log(2 * math.pi)


class LinkState(TypedDict):
    """What `ProbabilityLink.state` returns."""

    offset: float
    slope: float


@dataclass(frozen=True)
class ProbabilityLink:
    """The probability of a 1 as a function of mean and standard deviation of f.

    Attributes
    ----------
    offset, slope : float
        a and b; b is 0 or more.

    Examples
    --------
    >>> link = ProbabilityLink(-1.0, 2.0)
    >>> link([0.5, 1.0], [0.0, 0.5]).round(2).tolist()
    [0.5, 0.76]
    """

    offset: float
    slope: float

    def __call__(self, mean: npt.ArrayLike, std: npt.ArrayLike) -> Array:
        """Return the probability of a 1, float64 in the shape of `mean`."""
        return np.asarray(ndtr(self.latent(mean, std)))

    def latent(self, mean: npt.ArrayLike, std: npt.ArrayLike) -> Array:
        """Return the argument of Phi, which orders molecules as their probabilities do, without ties."""
        scaled = self.slope * np.asarray(std, dtype=np.float64)
        return np.asarray((self.offset + self.slope * np.asarray(mean)) / np.sqrt(1 + scaled**2))

    def state(self) -> LinkState:
        """Return a dict for JSON that rebuilds it."""
        return {"offset": self.offset, "slope": self.slope}

    @classmethod
    def from_state(cls, state: LinkState) -> ProbabilityLink:
        """Return the link with a `state`; raise ValueError if it holds other than finite numbers."""
        link = cls(float(state["offset"]), float(state["slope"]))
        if not (math.isfinite(link.offset) and math.isfinite(link.slope) and link.slope >= 0):
            raise ValueError("the offset or the slope of a probability is not a number")
        return link


def fit_link(mean: npt.ArrayLike, std: npt.ArrayLike, positive: npt.ArrayLike) -> ProbabilityLink:
    """Fit offset and slope to labels that were predicted without their own values.

    If labels of 1 are not more frequent at larger means, the slope is 0, and all probabilities are the share
    of labels that are 1. Labels count as nearly 1 and nearly 0, as if each class had been seen once more, so
    that the slope stays finite if the means separate the classes.

    Parameters
    ----------
    mean, std : float arrays, shape (n,)
        Predictions of f; the standard deviations of a predictor without any are 0.
    positive : bool array, shape (n,)

    Raises
    ------
    InputError
        If shapes differ or there are no labels.

    Notes
    -----
    Sources: Rasmussen & Williams 2006, eq. 3.82, for the mean over f; Platt 1999, Probabilistic outputs for
    support vector machines, for the fit and the prior counts.

    Examples
    --------
    >>> link = fit_link([0.1, 0.2, 0.6, 0.4, 0.9, 0.8], np.zeros(6), [0, 0, 0, 1, 1, 1])
    >>> round(-link.offset / link.slope, 2), link([0.9], [0.0]).round(1).tolist()
    (0.5, [0.8])
    """
    x, s = np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64)
    one = np.asarray(positive, dtype=bool)
    if x.ndim != 1 or not x.shape == s.shape == one.shape or not len(x):
        raise InputError(
            f"Means, standard deviations and labels must be vectors of one length, not {x.shape}, {s.shape}, "
            f"{one.shape}."
        )
    n = int(one.sum())
    wanted = np.where(one, (n + 1) / (n + 2), 1 / (len(x) - n + 2))
    share = float(ndtri(wanted.mean()))
    centre, scale = float(x.mean()), float(x.std())
    if not scale > 0:
        return ProbabilityLink(share, 0.0)
    z, s = (x - centre) / scale, s / scale

    def loss(ab: Array) -> tuple[float, Array]:
        a, b = ab
        width = np.sqrt(1 + np.square(b * s))
        latent = (a + b * z) / width
        log_one, log_zero = log_ndtr(latent), log_ndtr(-latent)
        density = -0.5 * latent**2 - _LOG_ROOT_2PI
        slope = (1 - wanted) * np.exp(density - log_zero) - wanted * np.exp(density - log_one)
        by_b = z / width - latent * b * np.square(s / width)
        value = -(wanted * log_one + (1 - wanted) * log_zero).sum()
        return float(value), np.array([(slope / width).sum(), slope @ by_b])

    bounds = [(None, None), (0.0, _STEEPEST)]
    a, b = minimize(loss, np.array([share, 1.0]), jac=True, method="L-BFGS-B", bounds=bounds).x.tolist()
    return ProbabilityLink(a - b * centre / scale, b / scale) if b > 0 else ProbabilityLink(share, 0.0)


def without_own_label(
    y: npt.ArrayLike,
    mean: npt.ArrayLike,
    std: npt.ArrayLike,
    noise_variance: float,
    groups: npt.ArrayLike | None = None,
) -> tuple[Array, Array]:
    """Return the mean and standard deviation of f at labelled rows, as they are without the labels there.

    Parameters
    ----------
    y, mean, std : float arrays, shape (n,)
        Labels, and predictions of f by a process that was fitted to them.
    noise_variance : float
    groups : int array, shape (n,), optional
        Equal for labels of equal rows, which are left out together.

    Notes
    -----
    Let s be the noise variance of the mean of the labels of a row, r its error, and v the variance of f, both
    with these labels. Without them the error is r / (1 - v / s), and the variance v / (1 - v / s): dividing
    Gaussian densities, as in expectation propagation (Rasmussen & Williams 2006, eq. 3.56).

    Examples
    --------
    >>> mean, std = without_own_label([1.0, 0.0], [0.6, 0.1], [0.5, 0.3], 0.5)
    >>> mean.round(2).tolist(), std.round(2).tolist()
    ([0.2, 0.12], [0.71, 0.33])
    """
    labels, means = np.asarray(y, dtype=np.float64), np.asarray(mean, dtype=np.float64)
    variance = np.square(np.asarray(std, dtype=np.float64))
    number = np.arange(len(labels)) if groups is None else np.unique(groups, return_inverse=True)[1]
    counts = np.bincount(number)
    average = (np.bincount(number, labels) / counts)[number]
    left = np.maximum(1 - variance * counts[number] / noise_variance, _LEAST_LEFT)
    return average - (average - means) / left, np.sqrt(variance / left)
