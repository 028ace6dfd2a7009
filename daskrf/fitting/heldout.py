"""Predictions of labels that were left out: each fold by a process fitted to the other labels alone.

An exact process is fitted anew for each fold, and so is a process on features if the labels determine the
metric. Other features are summed once for each block of rows, and a fold adds the sums of the blocks that it
learns from. Predictions are saved: if a run is killed, the next one does not fit them again.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt

from daskrf.arrays import Matrix
from daskrf.estimators import clone
from daskrf.features.featuremap import FeatureMap
from daskrf.fitting.exactsolve import Equations, FitSeconds, kernel_choice, solve_exact
from daskrf.fitting.links import link_of_exact, link_of_features, links_from
from daskrf.gp import choose_exponent, gp_for
from daskrf.gp.choice.metricchoice import choose_metric, with_kernel
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.processes import ProcessOptions
from daskrf.gp.sums.chunks import sum_rows
from daskrf.gp.sums.folds import Folds
from daskrf.gp.sums.statistics import Precision
from daskrf.gp.sums.sums import Statistics
from daskrf.gp.validation.errordistribution import ErrorDistribution, error_distribution
from daskrf.gp.validation.intervals import MOST_MOLECULES, residuals_of_rows, studentized_residuals
from daskrf.gp.validation.probability import ProbabilityLink
from daskrf.jobs.job import Run
from daskrf.kernels import Kernel
from daskrf.kernels.metric import MetricGaussian
from daskrf.storage.model import Contents, Saved, made_once
from daskrf.storage.stores.store import hash_of

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

FEW_LABELS = 1000
"""Up to this many labels, each fit chooses its own kernel.

A kernel chosen on all labels made the errors on 100 molecules of ESOL smaller by 2 %, and those on all 1,128
by less than 0.4 %."""


@dataclass(frozen=True)
class HeldOutFit:
    """Predictions of a process for rows that it was not fitted to.

    Attributes
    ----------
    mean, std : float64 arrays, shape (n_test,)
        Predictions of y, noise included.
    hyperparameters : dict of str to float
        Mean, signal variance and noise variance, fitted to the training rows.
    kernel : str
        The kernel in words.
    cautions : tuple of str
    residuals : float64 array, shape (n,)
        Of the training molecules, for intervals (`daskrf.gp.validation.intervals`); empty without any.
    probability : float64 array, shape (n_test,), or None
        Of a 1, if the labels are two classes and the process has probabilities.
    """

    mean: Array
    std: Array
    hyperparameters: Mapping[str, float]
    kernel: str
    cautions: tuple[str, ...]
    residuals: Array = field(default_factory=lambda: np.empty(0))
    probability: Array | None = None

    @classmethod
    def of(
        cls,
        gp: Any,
        X: Matrix,
        kernel: Kernel,
        target: int = 0,
        *,
        residuals: Array | None = None,
        link: ProbabilityLink | None = None,
    ) -> HeldOutFit:
        """Return the predictions of one target of a fitted process; `link` gives probabilities of a 1."""
        mean, std_f, std = map(np.ravel, gp.predict(X, return_std=True, of="both", target=target))
        names = ("mean", "signal_variance", "noise_variance")
        hyperparameters = {name: float(np.ravel(getattr(gp, f"{name}_"))[target]) for name in names}
        return cls(
            mean,
            std,
            hyperparameters,
            kernel.words(),
            tuple(gp.cautions(target)),
            np.empty(0) if residuals is None else residuals,
            None if link is None else link(mean, std_f),
        )

    @cached_property
    def errors(self) -> ErrorDistribution:
        """The distribution of errors that the training molecules speak for."""
        return error_distribution(self.residuals)

    def log_density(self, y: Array) -> Array:
        """Return the log probability density of labels by that distribution."""
        return self.errors.log_density(y, self.mean, self.std)

    @classmethod
    def from_saved(cls, saved: Saved) -> HeldOutFit:
        """Rebuild predictions from what `to_save` returned."""
        arrays, meta = saved.arrays, saved.metadata
        cautions = tuple(meta["cautions"])
        residuals, probability = arrays.get("residuals", np.empty(0)), arrays.get("probability")
        mean, std, hyperparameters = arrays["mean"], arrays["std"], meta["hyperparameters"]
        return cls(mean, std, hyperparameters, meta["kernel"], cautions, residuals, probability)

    def to_save(self) -> Contents:
        """Return arrays and JSON values for a file."""
        meta = {"hyperparameters": self.hyperparameters, "kernel": self.kernel, "cautions": self.cautions}
        arrays = {"mean": self.mean, "std": self.std, "residuals": self.residuals}
        return arrays | ({} if self.probability is None else {"probability": self.probability}), meta


@dataclass
class Process(ABC):
    """A kind of process to judge, with the labels.

    Attributes
    ----------
    X, y : rows and labels
    folder : Path
        Where runs save predictions and unfinished work.
    classes : bool
        Whether labels are 0 and 1, and their probabilities are predicted.
    """

    X: Matrix
    y: Array
    folder: PurePath
    classes: bool = field(default=False, kw_only=True)

    @property
    @abstractmethod
    def spec(self) -> dict[str, object]:
        """Everything besides the rows that determines the predictions, as JSON values."""

    @abstractmethod
    def fitted(self, name: str, training: Rows, rows: Rows) -> HeldOutFit:
        """Fit to `training` and predict `rows`; `name` is for files of unfinished work."""

    @abstractmethod
    def seconds(self, n_known: int) -> float:
        """Return the expected time of a fit to this many labels; only ratios matter."""

    def fitted_to_fold(self, name: str, folds: Folds, fold: int) -> HeldOutFit:
        """Return the predictions of a fold."""
        return self.fitted(name, *folds.rows(fold))

    def predicted(self, training: Rows, rows: Rows, name: str) -> HeldOutFit:
        """Return the predictions of `fitted`; make them only if they are not saved yet."""
        return self._once(name, training, rows, lambda: self.fitted(name, training, rows))

    def fold(self, folds: Folds, fold: int) -> HeldOutFit:
        """Return the predictions of a fold; make them only if they are not saved yet."""
        name = f"fold-{fold}"
        return self._once(name, *folds.rows(fold), lambda: self.fitted_to_fold(name, folds, fold))

    def _once(self, name: str, training: Rows, rows: Rows, make: Callable[[], HeldOutFit]) -> HeldOutFit:
        key = hash_of([self._key, _digest(training), _digest(rows)])
        saved = made_once(self.folder / f"{name}-predicted", key, lambda: make().to_save())
        return HeldOutFit.from_saved(saved)

    @cached_property
    def _key(self) -> str:
        X = self.X
        values = (X,) if isinstance(X, np.ndarray) else (X.data, X.indices, X.indptr)
        classes = {"classes": True} if self.classes else {}
        return hash_of([*map(_digest, (*values, self.y)), {**self.spec, **classes}])


def _digest(values: npt.NDArray[np.generic]) -> str:
    return hashlib.sha256(np.ascontiguousarray(values).data).hexdigest()


@dataclass
class ExactHeldOut(Process):
    """An exact process.

    If `columns` (of each kind of fingerprint) are given, labels determine the kernel. Up to `FEW_LABELS`
    training labels, each fit chooses its own; else all labels determine one kernel for all fits, because a
    choice takes long and one per fit makes next to no difference. But a metric learned from all labels would
    also know those left out, so each fit learns its own.
    """

    run: Run
    gp: ExactGP
    columns: Mapping[str, tuple[int, int]] | None = None
    side: npt.NDArray[np.int8] | None = None  # of limits among the labels

    @property
    def spec(self) -> dict[str, object]:
        limits = {} if self.side is None else {"side": _digest(self.side)}
        settings = {"kernel": self.gp.kernel.state(), "columns": self.columns, "residuals": MOST_MOLECULES}
        return {**limits, **self.gp.get_params(deep=False), **settings}

    @cached_property
    def for_all(self) -> tuple[ExactGP, Mapping[str, tuple[int, int]] | None]:
        """The process with one kernel for all fits; or the given one, and columns for a choice per fit."""
        gp: ExactGP = clone(self.gp)
        if self.columns is not None:
            measured = self._equations(np.arange(len(self.y)), self.folder).measured
            choice = kernel_choice(self.run, gp, measured.X, measured.y, self.columns, self.folder)
            if choice.variances:
                return self.gp, self.columns
            gp.set_params(kernel=choice.kernel)
        return gp, None

    def seconds_of_choice(self, sizes: Sequence[int]) -> float:
        """Return the seconds to choose a kernel on all labels; 0 if each fit chooses its own."""
        if self.columns is None or max(sizes) <= FEW_LABELS:
            return 0.0
        return FitSeconds.of(self.gp, len(self.y), chooses=True).choice

    def chooses_for(self, n_known: int) -> bool:
        """Return whether a fit to this many labels chooses its own kernel."""
        return self.columns is not None and (n_known <= FEW_LABELS or self.for_all[1] is not None)

    def seconds(self, n_known: int) -> float:
        """Return the seconds of a fit, without a choice of the kernel on all labels."""
        chooses = self.columns is not None and n_known <= FEW_LABELS
        expected = FitSeconds.of(self.gp, n_known, chooses=chooses)
        return expected.choice + expected.solution

    def fitted(self, name: str, training: Rows, rows: Rows) -> HeldOutFit:
        process, columns = (self.gp, self.columns) if self.chooses_for(len(training)) else self.for_all
        equations = self._equations(training, self.folder / name)
        (gp,) = solve_exact(self.run, process, [equations], columns=columns)
        link = link_of_exact(self.run, gp, self.folder / name) if self.classes else None
        residuals = studentized_residuals(gp)
        return HeldOutFit.of(gp, self.X[rows], gp.kernel, residuals=residuals, link=link)

    def _equations(self, rows: Rows, folder: PurePath) -> Equations:
        side = None if self.side is None else self.side[rows]
        return Equations(self.X[rows], self.y[rows], folder, side=side)


@dataclass
class FeaturesHeldOut(Process):
    """A process on the features of a fitted map; `options` are those of the process.

    With `learns_metric`, each fit learns the metric of the map's kernel from its training labels: a metric
    learned from all labels would also know those left out.
    """

    feature_map: FeatureMap
    options: ProcessOptions
    learns_metric: bool = False
    precision: Precision = "double"
    side: npt.NDArray[np.int8] | None = None  # of limits among the labels
    _sums: list[Statistics] = field(default_factory=list)

    @property
    def spec(self) -> dict[str, object]:
        settings = {"precision": self.precision, "learns_metric": self.learns_metric}
        limits = {} if self.side is None else {"side": _digest(self.side)}
        about = {"map": self.feature_map.state(), **self.options, **settings, **limits}
        return {**about, "residuals": MOST_MOLECULES}

    def seconds(self, n_known: int) -> float:
        return float(n_known)

    def fitted(self, name: str, training: Rows, rows: Rows) -> HeldOutFit:
        if not self.learns_metric:
            return self._fitted(self._sum(training), training, rows)
        measured = self._measured(training)
        X, y, seed = self.X[measured], self.y[measured], self.feature_map.seed_
        choice = choose_metric(X, y, random_state=seed)
        learned, options = with_kernel(self.feature_map, choice.kernel).fit(X), self.options.copy()
        if options["noise_variance"] is None:
            options["noise_variance"] = choice.noise_variances([y])
        with_metric = replace(self, feature_map=learned, options=options, learns_metric=False)
        return with_metric.fitted(name, training, rows)

    def fitted_to_fold(self, name: str, folds: Folds, fold: int) -> HeldOutFit:
        if self.learns_metric:
            return super().fitted_to_fold(name, folds, fold)
        if not self._sums:
            blocks = (np.flatnonzero(folds.block == block) for block in range(folds.n_blocks))
            self._sums = [self._sum(rows) for rows in blocks]
        first, *others = (self._sums[block] for block in folds.blocks(fold)[0])
        total = first.copy()
        for other in others:
            total += other
        training, rows = folds.rows(fold)
        return self._fitted(total, training, rows)

    def _sum(self, rows: Rows) -> Statistics:
        """Return the sums over some rows; all can be added."""
        return sum_rows(
            self.X[rows],
            self.y[rows, None],
            self.feature_map,
            n_components=None,
            exponents=choose_exponent(self.y[self._measured(np.arange(len(self.y))), None]),
            precision=self.precision,
            side=None if self.side is None else self.side[rows],
        )

    def _measured(self, rows: Rows) -> Rows:
        """Return those of some rows whose labels were measured."""
        return rows if self.side is None else rows[self.side[rows] == 0]

    def _fitted(self, statistics: Statistics, training: Rows, rows: Rows) -> HeldOutFit:
        gp, link = gp_for(self.feature_map, **self.options), None
        gp.fit_statistics(statistics, self.feature_map)
        residuals, kernel = None, self.feature_map.kernel_
        if not isinstance(kernel, MetricGaussian):
            measured = self._measured(training)
            residuals = residuals_of_rows(gp, self.X[measured], self.y[measured])
        if self.classes and links_from(self.feature_map):
            link = link_of_features(gp, 0, self.X[training], self.y[training])
        return HeldOutFit.of(gp, self.X[rows], kernel, residuals=residuals, link=link)
