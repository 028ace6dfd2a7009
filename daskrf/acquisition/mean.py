"""Rank by the posterior mean, or by one posterior sample in its place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from daskrf.acquisition.rule import Acquisition, Array


@dataclass(frozen=True, kw_only=True)
class Greedy(Acquisition):
    """The mean.

    Parameters
    ----------
    maximize : bool
        See `Acquisition`.

    Examples
    --------
    >>> Greedy()([-9.0, -8.0]).tolist()
    [9.0, 8.0]
    """

    name: ClassVar[str] = "greedy"

    def score(self, gain: Array, std: Array | None) -> Array:
        return gain


@dataclass(frozen=True, kw_only=True)
class Thompson(Greedy):
    """One posterior sample of the whole function.

    Source: Thompson 1933; for batches, one sample per pick: Hernandez-Lobato et al. 2017, Parallel and
    distributed Thompson sampling for large-scale accelerated exploration of chemical space (ICML).

    Parameters
    ----------
    maximize : bool
        See `Acquisition`.

    Examples
    --------
    >>> Thompson(maximize=True)([0.5, 0.25]).tolist()
    [0.5, 0.25]
    """

    name: ClassVar[str] = "thompson"
    needs_sample: ClassVar[bool] = True
