"""Predictions of labels that were left out: each fold by a process fitted to the other labels alone.

An exact process is fitted anew for each fold. Features are summed once for each block of rows, and a fold
adds the sums of the blocks that it learns from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.gp import choose_exponent, gp_for
from daskrf.gp.chunks import sum_rows
from daskrf.gp.exact import ExactGP
from daskrf.gp.folds import Folds
from daskrf.gp.statistics import Precision
from daskrf.jobs.exactsolve import solve_exact
from daskrf.jobs.job import Run

__all__ = ["ExactHeldOut", "FeaturesHeldOut", "HeldOutFit", "Process"]

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class HeldOutFit:
    """What a process says of rows that it was not fitted to.

    Attributes
    ----------
    mean, std : float64 arrays, shape (n_test,)
        Predictions of y, noise included.
    hyperparameters : dict of str to float
        Mean, signal variance and noise variance, found from the rows that it was fitted to.
    cautions : tuple of str
    """

    mean: Array
    std: Array
    hyperparameters: Mapping[str, float]
    cautions: tuple[str, ...]

    @classmethod
    def of(cls, gp: Any, X: Any) -> HeldOutFit:
        """Return the predictions of a fitted process of one target."""
        mean, std = gp.predict(X, return_std=True)
        names = ("mean", "signal_variance", "noise_variance")
        found = {name: float(np.ravel(getattr(gp, f"{name}_"))[0]) for name in names}
        return cls(np.ravel(mean), np.ravel(std), found, tuple(gp.cautions(0)))


class Process(ABC):
    """A kind of process, with the labels that it is fitted to."""

    X: Any
    y: Array

    @abstractmethod
    def predicted(self, known: Rows, rows: Rows, name: str) -> HeldOutFit:
        """Return the predictions of some rows from others; `name` is that of files with unfinished work."""

    def fold(self, folds: Folds, fold: int) -> HeldOutFit:
        """Return the predictions of a fold."""
        return self.predicted(*folds.rows(fold), f"fold-{fold}")


@dataclass
class ExactHeldOut(Process):
    """An exact process with a given kernel."""

    run: Run
    gp: ExactGP
    X: Any
    y: Array
    folder: PurePath

    def predicted(self, known: Rows, rows: Rows, name: str) -> HeldOutFit:
        gp = solve_exact(self.run, self.gp, self.X[known], self.y[known], self.folder / name)
        return HeldOutFit.of(gp, self.X[rows])


@dataclass
class FeaturesHeldOut(Process):
    """The process of a fitted map; `options` are those of the process."""

    feature_map: Any
    options: Mapping[str, Any]
    X: Any
    y: Array
    precision: Precision = "double"
    _sums: list[Any] = field(default_factory=list)

    def predicted(self, known: Rows, rows: Rows, name: str) -> HeldOutFit:
        return self._fitted(self._sum(known), rows)

    def fold(self, folds: Folds, fold: int) -> HeldOutFit:
        if not self._sums:
            blocks = (np.flatnonzero(folds.block == block) for block in range(folds.n_blocks))
            self._sums = [self._sum(rows) for rows in blocks]
        first, *others = (self._sums[block] for block in folds.blocks(fold)[0])
        total = first.copy()
        for other in others:
            total += other
        return self._fitted(total, folds.rows(fold)[1])

    def _sum(self, rows: Rows) -> Any:
        """Return the sums over some rows; all can be added."""
        options: dict[str, Any] = {"n_components": None, "precision": self.precision}
        options["exponents"] = choose_exponent(self.y[:, None])
        return sum_rows(self.X[rows], self.y[rows, None], self.feature_map, **options)

    def _fitted(self, statistics: Any, rows: Rows) -> HeldOutFit:
        gp = gp_for(self.feature_map, **self.options)
        return HeldOutFit.of(gp.fit_statistics(statistics, self.feature_map), self.X[rows])
