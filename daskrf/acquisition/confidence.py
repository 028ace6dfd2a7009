"""The confidence bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from daskrf.acquisition.rule import Acquisition, Array
from daskrf.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class ConfidenceBound(Acquisition):
    """The mean plus some standard deviations; where small y is good, minus the lower bound.

    Source: Srinivas et al. 2010, Gaussian process optimization in the bandit setting (ICML).

    Parameters
    ----------
    kappa : float
        Weight of the standard deviation in the score, 0 or more.
    maximize : bool
        See `Acquisition`.

    Examples
    --------
    >>> ConfidenceBound(kappa=2.0)([-9.0, -8.0], [0.1, 1.0]).tolist()
    [9.2, 10.0]
    """

    name: ClassVar[str] = "ucb"
    needs_std: ClassVar[bool] = True

    kappa: float = 1.0  # see benchmarks/README.md

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kappa < 0:
            raise OptionError(
                f"kappa must not be negative, but is {self.kappa:g}: it is the weight of the standard "
                "deviation in favour of a molecule."
            )

    def score(self, gain: Array, std: Array | None) -> Array:
        assert std is not None
        return gain + self.kappa * std
