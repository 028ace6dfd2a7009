"""The probability of a class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import log_ndtr

from daskrf.acquisition.rule import Acquisition, Array
from daskrf.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class ClassProbability(Acquisition):
    """The logarithm of the probability that a label is 1, for a target that is two classes.

    The probability is Phi((offset + slope mean) / sqrt(1 + slope^2 std^2)), the mean over the posterior of f.
    Screens and batches take it in place of the mean. If small y is good, it is the probability of a 0.

    Parameters
    ----------
    offset, slope : float
        Of the model; see `daskrf.gp.validation.probability`.
    maximize : bool
        See `Acquisition`.

    Examples
    --------
    >>> rule = ClassProbability(offset=-1.0, slope=2.0, maximize=True)
    >>> np.exp(rule([0.5, 1.0], [0.0, 0.5])).round(2).tolist()
    [0.5, 0.76]
    """

    name: ClassVar[str] = "probability"
    needs_std: ClassVar[bool] = True
    logarithmic: ClassVar[bool] = True
    of_model: ClassVar[tuple[str, ...]] = ("offset", "slope")

    offset: float = 0.0
    slope: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.slope < 0:
            raise OptionError(f"slope must not be negative, but is {self.slope:g}.")

    def score(self, gain: Array, std: Array | None) -> Array:
        assert std is not None
        latent = (self.sign * self.offset + self.slope * gain) / np.sqrt(1 + np.square(self.slope * std))
        return np.asarray(log_ndtr(latent))
