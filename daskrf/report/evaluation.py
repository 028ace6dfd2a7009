"""How good a model is, by labels that it was not fitted to: tables, one sentence that sums up, JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa

from daskrf.errors import printable
from daskrf.quantities import amount
from daskrf.report.merit import MEASURES, Measure
from daskrf.report.notebook import Shown
from daskrf.report.tabulation import text_table

__all__ = ["MODEL", "CurvePoint", "EvaluationReport", "Figure", "TargetEvaluation", "verdict"]

MODEL, MEAN, NEAREST, FOREST = "daskrf", "mean", "nearest neighbour", "random forest"

_STANDARD_ERRORS = 2.0  # by which a difference has to exceed zero to count
_LEAST = 0.01  # by which an error has to be smaller to count
_INTERVAL, _TOLERANCE = 0.95, 0.025  # coverage of the 95 % interval that is right, besides chance
_MUCH = 0.5  # share of the variance
_CURVE = ("r2", "rmse", "log_probability")


@dataclass(frozen=True)
class Figure:
    """A figure of merit.

    Attributes
    ----------
    value : float
        Over all molecules that were left out, by their predictions from other folds; NaN if not defined.
    spread : float
        Standard deviation of the figure over folds, each by itself; NaN if not defined.
    folds : tuple of float
        The figure of each fold.
    """

    value: float
    spread: float
    folds: tuple[float, ...]

    @classmethod
    def of(cls, value: float, folds: Sequence[float]) -> Figure:
        """Return the figure with its spread over the folds where it is defined."""
        there = [each for each in folds if math.isfinite(each)]
        return cls(value, float(np.std(there, ddof=1)) if len(there) > 1 else math.nan, tuple(folds))


@dataclass(frozen=True)
class CurvePoint:
    """A point of a learning curve.

    Attributes
    ----------
    n_labels : int
        Labels that each fold learned from, on average.
    figures : dict of str to dict of str to Figure
        By predictor and figure of merit.
    """

    n_labels: int
    figures: Mapping[str, Mapping[str, Figure]]


@dataclass(frozen=True)
class TargetEvaluation:
    """What is known of one target.

    Attributes
    ----------
    name : str
    n_labels, n_predicted : int
        Labels, and how many of them were predicted by a fold that did not know them.
    process : str
        The process in words.
    chosen : str
        What was chosen on all labels, and what in each fold.
    direction : str or None
    figures : dict of str to dict of str to Figure
        By predictor and figure of merit.
    hyperparameters : tuple of dict
        Kernel in words, mean, signal variance and noise variance of each fold.
    curve : tuple of CurvePoint
    notes : tuple of str
    n_nearest : int
        How many of them the nearest neighbour predicted: fewer if there are too many for all.
    """

    name: str
    n_labels: int
    n_predicted: int
    process: str
    chosen: str
    direction: str | None
    figures: Mapping[str, Mapping[str, Figure]]
    hyperparameters: tuple[Mapping[str, Any], ...]
    curve: tuple[CurvePoint, ...] = ()
    notes: tuple[str, ...] = ()
    n_nearest: int = 0

    @property
    def verdict(self) -> str:
        """The answer to "is it good?", in one sentence."""
        return verdict(self.figures, self.n_predicted)

    def lines(self) -> list[str]:
        """Return the lines of the report."""
        toward = f" (to {self.direction})" if self.direction else ""
        predictors = list(self.figures)
        shown = [
            m for m in MEASURES if not all(math.isnan(self.figures[p][m.name].value) for p in predictors)
        ]
        rows = [[m.words, *(_cell(self.figures[p][m.name], m) for p in predictors)] for m in shown]
        return [
            f"{printable(self.name, 60)}{toward}: {amount(self.n_predicted, 'labels')} predicted by "
            f"{self.process}",
            f"  {self.verdict}",
            "",
            *(f"  {line}" for line in text_table(["", *predictors], rows).splitlines()),
            f"  ± is the standard deviation over folds; {self.chosen}",
            *(f"  {note}" for note in self.notes),
            *(["", *self._curve_lines()] if self.curve else []),
        ]

    def _curve_lines(self) -> list[str]:
        measures = [measure for measure in MEASURES if measure.name in _CURVE]
        predictors = list(self.curve[0].figures)
        header = ["labels", *(m.words for m in measures), *(f"R2 of {p}" for p in predictors if p != MODEL)]
        rows = [
            [
                point.n_labels,
                *(_cell(point.figures[MODEL][m.name], m) for m in measures),
                *(_cell(point.figures[p]["r2"], MEASURES[0]) for p in predictors if p != MODEL),
            ]
            for point in self.curve
        ]
        lines = ["  Learning curve, with parts of the labels drawn at random:"]
        lines += [f"  {line}" for line in text_table(header, rows).splitlines()]
        return [*lines, f"  {self.outlook}"]

    @property
    def outlook(self) -> str:
        """What the last doubling of the labels has brought."""
        few, many = self.curve[-2:]
        before, after = (point.figures[MODEL]["rmse"].value for point in (few, many))
        lower = 1 - after / before
        times = f"from {few.n_labels:,} to {many.n_labels:,} labels"
        if lower < 0.01:
            return f"More labels of this kind may not help: {times} the RMSE hardly changed."
        return f"More labels should help: {times} the RMSE fell by {_percent(lower)}."


@dataclass(frozen=True)
class EvaluationReport(Shown):
    """What `evaluate` found.

    Attributes
    ----------
    targets : tuple of TargetEvaluation
    split : str
        How the labels were split, in words.
    n_folds : int
    n_molecules : int
    labels : str
        How labels were joined, in words.
    seconds : float
    table : pyarrow.Table
        The predictions of all labels, each by the fold that did not know it.
    output, picture : Path or None
        Where the table and the picture are.
    inputs : tuple of str
        How the labels were read.
    fingerprints : str
        What the model counts in a molecule, in words.
    """

    targets: tuple[TargetEvaluation, ...]
    split: str
    n_folds: int
    n_molecules: int
    labels: str
    seconds: float
    table: pa.Table = field(compare=False, repr=False)
    output: PurePath | None = None
    picture: PurePath | None = None
    inputs: tuple[str, ...] = ()
    fingerprints: str = ""

    def __str__(self) -> str:
        lines = [
            f"{amount(self.n_molecules, 'labelled molecules')} ({self.seconds:.1f} s)",
            *(f"  {words}" for words in self.inputs),
            f"  {self.labels}",
            f"  {self.split}",
            *([f"  fingerprints: {self.fingerprints}"] if self.fingerprints else []),
        ]
        for target in self.targets:
            lines += ["", *target.lines()]
        if self.output is not None or self.picture is not None:
            lines.append("")
        lines += [f"Predictions: {self.output}"] if self.output is not None else []
        lines += [f"Picture:     {self.picture}"] if self.picture is not None else []
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return everything but the table as an object of JSON; figures that are not defined are null."""
        found = {
            each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name != "table"
        }
        found |= {name: None if found[name] is None else str(found[name]) for name in ("output", "picture")}
        found["targets"] = [
            {**dataclasses.asdict(target), "verdict": target.verdict} for target in self.targets
        ]
        return json.dumps(_finite(found), indent=2)


def verdict(figures: Mapping[str, Mapping[str, Figure]], n: int) -> str:
    """Return the answer to "is it good?": the errors beside those of other predictors, and the intervals.

    A predictor is better than another if its RMSE is smaller by at least 1 %, and by more than two standard
    errors of the differences over folds.

    Parameters
    ----------
    figures : dict of str to dict of str to Figure
        By predictor (`MODEL` is the one that is judged) and figure of merit.
    n : int
        Number of predictions.
    """
    own = figures[MODEL]
    rmse, others = own["rmse"], [name for name in figures if name != MODEL]
    if not _better(rmse, figures[MEAN]["rmse"]):
        return (
            f"Is it good? No: its errors (RMSE {rmse.value:.3g}) are no smaller than those of always saying "
            f"the mean ({figures[MEAN]['rmse'].value:.3g}). {_intervals(own, n)}"
        )
    beaten = [name for name in others if _better(rmse, figures[name]["rmse"])]
    parts = [(_percent(1 - rmse.value / figures[name]["rmse"].value), name) for name in beaten]
    than = [f"{less} than those of the {name}" for less, name in parts]
    smaller = ", ".join([than[0].replace(" than", " smaller than"), *than[1:]])
    rivals = [name for name in others if not _better(rmse, figures[name]["rmse"])]
    share = own["r2"].value
    if rivals:
        start, more = "Only in part", f", but no smaller than those of the {' and the '.join(rivals)}"
    elif share < _MUCH:
        start, more = "A little", f", but it explains only {_percent(share)} of the variance"
    else:
        start, more = "Yes", f", and it explains {_percent(share)} of the variance"
    return (
        f"Is it good? {start}: its errors (RMSE {rmse.value:.3g}) are {smaller}{more}. {_intervals(own, n)}"
    )


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _better(one: Figure, other: Figure) -> bool:
    """Return whether an error is clearly smaller than another, over folds."""
    difference = np.asarray(other.folds) - np.asarray(one.folds)
    difference = difference[np.isfinite(difference)]
    if one.value > (1 - _LEAST) * other.value:
        return False
    if len(difference) < 2:
        return True
    error = float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return bool(difference.mean() > _STANDARD_ERRORS * error)


def _intervals(own: Mapping[str, Figure], n: int) -> str:
    """Return what the error bars are worth."""
    held = own["coverage_95"].value
    said = f"its 95 % intervals hold {_percent(held)} of the values"
    by_chance = 3 * math.sqrt(_INTERVAL * (1 - _INTERVAL) / n)
    if held < _INTERVAL - _TOLERANCE - by_chance:
        return f"Do not trust its error bars: {said}."
    return f"Its error bars are {'right' if held <= _INTERVAL + _TOLERANCE else 'wide'}: {said}."


def _cell(figure: Figure, measure: Measure) -> str:
    """Return a figure with its spread."""
    if math.isnan(figure.value):
        return "-"
    scale, unit, styles = 1.0, "", (".3f", ".3f")
    if measure.percent:
        scale, unit, styles = 100.0, " %", (".1f", ".1f")
    elif measure.scaled:
        styles = "#.3g", ".2g"
    elif measure.name == "enrichment_1":
        styles = ".0f", ".0f"
    spread = "" if math.isnan(figure.spread) else f" ± {scale * figure.spread:{styles[1]}}"
    return f"{scale * figure.value:{styles[0]}}{spread}{unit}"


def _finite(value: Any) -> Any:
    """Return a value for JSON: numbers that are not finite become None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
