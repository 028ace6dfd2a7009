"""Labels of a target beside predictions of several predictors: figures of merit, probabilities, a picture."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from daskrf.gp.validation.probability import fit_link
from daskrf.models.intervals import ends_of
from daskrf.report.evaluation import MEAN, MODEL, NEAREST, CurvePoint, Figure
from daskrf.report.merit import MEASURES, Reliability, measured, measured_classes, reliability, top_found
from daskrf.report.plots import HeldOut, Panels

Array = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
Predictions = Array  # means and standard deviations, shape (2, n)

_BEST = 100  # labels of which the best 1 % is at least one


@dataclass
class Judged:
    """The labels of one target, and their predictions by models that were fitted without them.

    Attributes
    ----------
    y : float64 array, shape (n,)
        Labels; NaN for limits, which figures of merit leave out.
    parts : sequence of int arrays
        Rows whose figures are computed together, for the spread of figures; probabilities of a part are
        fitted to the other ones.
    ordered : bool
        Whether a part may only learn from those before it.
    predictions : dict of str to float64 array, shape (2, n)
        Means and standard deviations by predictor; NaN where there are none.
    similarity : float64 array, shape (n,)
        Of the nearest neighbour; NaN without one.
    classes : bool
        Whether the labels are 0 and 1.
    direction : {"maximize", "minimize"}, optional
    seed : int
        Molecules with equal predictions are ranked in a random order.
    factors : float64 array, shape (3, n), optional
        How many standard deviations the model's intervals of 50, 80 and 95 % extend to either side.
    log_density : float64 array, shape (n,), optional
        Log probability densities of the labels by the distribution of the model's errors; none if that is
        normal.
    probabilities : float64 array, shape (n,), optional
        Of a 1, as the model predicts it; NaN where there is none. Other predictors, and models without
        probabilities, get a function of the mean that is fitted to the other parts.
    extents : mapping of float to float64 array, shape (n,)
        Like `factors`, by the level in percent, for the table of predictions.
    """

    y: Array
    parts: Sequence[Rows]
    ordered: bool
    predictions: Mapping[str, Predictions]
    similarity: Array
    classes: bool
    direction: Literal["maximize", "minimize"] | None
    seed: int
    factors: Array | None = None
    log_density: Array | None = None
    probabilities: Array | None = None
    extents: Mapping[float, Array] = field(default_factory=dict)

    @property
    def n_predicted(self) -> int:
        """Number of measured labels that are predicted."""
        return sum(map(len, self.measured_parts))

    @cached_property
    def measured_parts(self) -> list[Rows]:
        """The rows of each part whose labels were measured."""
        return [rows[np.isfinite(self.y[rows])] for rows in self.parts]

    @cached_property
    def figures(self) -> dict[str, dict[str, Figure]]:
        """All figures of merit, by predictor."""
        return {
            name: self.figures_of(
                values,
                ranks=name != MEAN,
                factors=self.factors if name == MODEL else None,
                log_density=self.log_density if name == MODEL else None,
                probability=self.probabilities if name == MODEL else None,
            )
            for name, values in self.predictions.items()
        }

    @property
    def n_positive(self) -> int:
        """How many of the predicted labels are 1, if the labels are 0 and 1."""
        return int(sum(self.y[rows].sum() for rows in self.measured_parts)) if self.classes else 0

    @cached_property
    def reliability(self) -> Reliability | None:
        """Probabilities beside shares, of labels that are 0 and 1."""
        if not self.classes:
            return None
        there = np.isfinite(self.probability) & np.isfinite(self.y)
        return reliability(self.y[there], self.probability[there])

    @cached_property
    def probability(self) -> Array:
        """The probability that each label is 1; NaN where there is none."""
        if self.probabilities is not None:
            return self.probabilities
        return self._probability(self.predictions[MODEL][0])

    def _probability(self, mean: Array) -> Array:
        """Return the probability of a 1 by means: a function of them that is fitted to other parts.

        Of parts in an order, it is fitted to those before, so that the first has none.
        """
        probability = np.full(len(self.y), np.nan)
        for number, rows in enumerate(self.parts):
            before, after = self.measured_parts[:number], self.measured_parts[number + 1 :]
            others = before if self.ordered else [*before, *after]
            train = np.concatenate([np.empty(0, np.intp), *others])
            train = train[np.isfinite(mean[train])]
            if len(train):
                link = fit_link(mean[train], np.zeros(len(train)), self.y[train] > 0.5)
                probability[rows] = link(mean[rows], 0.0)
        return probability

    def figures_of(
        self,
        predicted: Predictions,
        *,
        ranks: bool = True,
        factors: Array | None = None,
        log_density: Array | None = None,
        probability: Array | None = None,
    ) -> dict[str, Figure]:
        """Return all figures of merit of a predictor; `ranks` says whether it ranks molecules at all.

        Those of intervals need their `factors`, as in the attribute, and that of errors with heavier tails
        `log_density`; `probability` is that of a 1, if the predictor has its own.
        """
        mean, std = predicted
        score = mean if probability is None else probability
        if self.classes and probability is None:
            # The mean of the known labels is the share of 1 among them, and needs no link.
            probability = self._probability(mean) if ranks else mean

        def of(rows: Rows) -> dict[str, float]:
            rows = rows[np.isfinite(mean[rows])]
            if not len(rows):
                return {measure.name: math.nan for measure in MEASURES}
            if probability is not None:
                values = self.y[rows], score[rows], probability[rows]
                return measured_classes(*values, ranks=ranks, seed=self.seed)
            row_std = std[rows] if np.isfinite(std[rows]).all() else None
            options: dict[str, Any] = {"direction": self.direction, "ranks": ranks, "seed": self.seed}
            options["factors"] = None if factors is None else factors[:, rows]
            options["log_density"] = None if log_density is None else log_density[rows]
            return measured(self.y[rows], mean[rows], row_std, **options)

        by_part = [of(rows) for rows in self.measured_parts]
        whole = of(np.concatenate(self.measured_parts))
        if self.classes and ranks:
            whole["auc"] = self._auc([each["auc"] for each in by_part])
        return {name: Figure.of(value, [each[name] for each in by_part]) for name, value in whole.items()}

    def _auc(self, of_parts: Sequence[float]) -> float:
        """Return the AUC of pairs in a part.

        What each fold has learned has a mean of its own, by which a fold with more labels of 1 would be
        ranked below others.
        """
        labels = [self.y[rows] for rows in self.measured_parts]
        pairs = np.array([(y > 0.5).sum() * (y <= 0.5).sum() for y in labels])
        aucs = np.array(of_parts)
        there = np.isfinite(aucs)
        return float(np.average(aucs[there], weights=pairs[there])) if there.any() else math.nan

    def notes(self) -> list[str]:
        """Return what would show more."""
        if self.classes:
            return []
        notes = []
        if self.direction is None and self.n_predicted >= _BEST:
            notes.append("give --direction to see how many of the best 1 % are found")
        if len(values := np.unique(self.y[np.isfinite(self.y)])) == 2:
            low, high = values.tolist()
            notes.append(
                f"all labels are {low:g} or {high:g}: if these are classes, write them as 0 and 1, or name "
                f"the positive one with --positive {high:g}, to predict and judge probabilities"
            )
        return notes

    def columns(self) -> dict[str, Array]:
        """Return the columns of the table of predictions; NaN where there is nothing."""
        fold = np.full(len(self.y), np.nan)
        for number, rows in enumerate(self.parts, start=1):
            fold[rows] = number
        mean, std = self.predictions[MODEL]
        values = {"fold": fold, "mean": mean, "std_y": std}
        for level, factors in self.extents.items():
            half = np.where(np.isfinite(factors), factors, np.nan) * std
            values |= dict(zip(ends_of([level]), (mean - half, mean + half), strict=True))
        if NEAREST in self.predictions:
            values |= {"nearest": self.predictions[NEAREST][0], "similarity": self.similarity}
        return values | ({"probability": self.probability} if self.classes else {})

    def panels(self, name: str, curve: Sequence[CurvePoint] = ()) -> Panels:
        """Return what the picture shows."""
        mean, std = self.predictions[MODEL]
        rows = np.flatnonzero(np.isfinite(mean) & np.isfinite(self.y))
        ranking = None
        if self.direction is not None and not self.classes and len(rows) >= _BEST:
            sign = 1.0 if self.direction == "maximize" else -1.0
            best = round(len(rows) / 100)
            ranking = top_found(sign * self.y[rows], sign * mean[rows], best, self.seed)
        held_out = HeldOut(self.y[rows], mean[rows], std[rows])
        error = "brier" if self.classes else "rmse"
        errors = [(p.n_labels, {name: each[error] for name, each in p.figures.items()}) for p in curve]
        plain = [(n, {name: (f.value, f.spread) for name, f in each.items()}) for n, each in errors]
        r2 = self.figures[MODEL]["r2"].value
        more: dict[str, Any] = {"error": "Brier score"} if self.classes else {}
        probability = self.probability[rows] if self.classes else None
        return Panels(held_out, r2, name, ranking, plain, probability=probability, **more)
