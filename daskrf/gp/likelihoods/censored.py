"""Labels of which only a limit is known: the likelihood of a measurement that lies beyond it (Tobin 1958)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import erfcx, log_ndtr

from daskrf.gp.likelihoods.likelihood import Likelihood, Tilted

Array = npt.NDArray[np.float64]

_FAR = -50.0  # standard deviations on the wrong side, from which an asymptotic series is more accurate
_ROOT = math.sqrt(2.0 / math.pi)


@dataclass(frozen=True)
class Censored(Likelihood):
    """A measurement x that is at least, or at most, a limit: p(label | x) is 1 there, and 0 elsewhere.

    The latent value is the measurement that was not made, noise included. So the factor does not depend on
    any hyperparameter.

    Parameters
    ----------
    limit : float64 array, shape (m,)
    side : int8 array, shape (m,)
        1 where the measurement is at least the limit (">"), -1 where it is at most (``<``).

    Examples
    --------
    >>> labels = Censored(np.array([5.0]), np.array([1], np.int8))
    >>> tilted = labels.tilted(np.array([5.0]), np.array([4.0]))
    >>> np.exp(tilted.log_normalizer).tolist(), (5.0 + 4.0 * tilted.slope).round(2).tolist()
    ([0.5], [6.6])
    """

    limit: Array
    side: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return len(self.limit)

    def take(self, rows: npt.NDArray[np.intp]) -> Censored:
        return Censored(self.limit[rows], self.side[rows])

    def log_probability(self, mean: Array, std: Array) -> Array:
        """Return the log probability of each side, for predictions of the measurement."""
        return log_ndtr(self.side * (mean - self.limit) / std)

    def tilted(self, mean: Array, variance: Array) -> Tilted:
        std = np.sqrt(variance)
        z = self.side * (mean - self.limit) / std
        hazard = _ROOT / erfcx(-z / math.sqrt(2.0))  # density over distribution function at z
        near = np.maximum(z, _FAR)
        left = 1.0 - hazard * (hazard + near)  # variance of the tilted distribution, relative
        far = z < _FAR
        inverse = np.divide(1.0, z * z, out=np.zeros_like(z), where=far)
        left = np.where(far, inverse * (1.0 - inverse * (6.0 - 50.0 * inverse)), left)
        explained = np.where(far, 1.0 - left, hazard * (hazard + near))
        explained = np.maximum(explained, 0.0)
        return Tilted(
            log_normalizer=log_ndtr(z),
            slope=self.side * hazard / std,
            curvature=explained / variance,
            precision=explained / left / variance,
        )
