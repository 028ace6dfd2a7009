"""The interface of likelihoods whose factors are not Gaussian."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Tilted:
    """The tilted distributions N(x | mean, variance) p(label | x) of some latent values x.

    Their moments follow from two derivatives, which keep their digits where a label says next to nothing:
    the mean is ``mean + variance * slope``, the variance is ``variance - variance**2 * curvature``.

    Attributes
    ----------
    log_normalizer : float64 array, shape (m,)
        log Z, where Z is the integral of N(x | mean, variance) p(label | x).
    slope : float64 array, shape (m,)
        d log Z / d mean.
    curvature : float64 array, shape (m,)
        -d^2 log Z / d mean^2.
    precision : float64 array, shape (m,)
        ``curvature / (1 - variance * curvature)``: the precision of the Gaussian factor that, in place of
        p(label | x), gives these moments.
    """

    log_normalizer: Array
    slope: Array
    curvature: Array
    precision: Array


class Likelihood(ABC):
    """What labels say of latent values, one factor p(label | x) for each of m labels.

    Factors must be log-concave in x: the precision of a tilted distribution is then at least that of the
    Gaussian, and expectation propagation has no negative precisions.
    """

    @abstractmethod
    def tilted(self, mean: Array, variance: Array) -> Tilted:
        """Return the tilted distributions of Gaussians with these means and variances, shape (m,)."""

    @abstractmethod
    def take(self, rows: npt.NDArray[np.intp]) -> Likelihood:
        """Return the likelihood of some of the labels."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of labels."""
