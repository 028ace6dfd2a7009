"""How good a model is, judged by labels that it was not fitted to: tables, a verdict, and JSON."""

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
from daskrf.gp.validation.calibration import judged_coverage
from daskrf.quantities import amount
from daskrf.report.merit import MEASURES, Measure, Reliability
from daskrf.report.notebook import OfInput
from daskrf.report.tabulation import text_table

MODEL, MEAN, NEAREST, FOREST = "daskrf", "mean", "nearest neighbour", "random forest"

_STANDARD_ERRORS = 2.0  # a difference counts if it exceeds zero by more than this many standard errors
_LEAST = 0.01  # an error counts as smaller only if it is smaller by at least this share
_LEVELS = (50, 80, 95)  # intervals that are judged
_MUCH = 0.5  # share of the variance that a good model explains
_MUCH_RANKED = 0.7  # area under the curve of a good model
_DOUBT = 1e-3  # p-value below which the labels contradict the predicted probabilities
_OFF = 0.05  # a smaller mean difference between probability and observed share is not reported as an error
_CURVE = ("r2", "rmse", "log_probability")
_CURVE_OF_CLASSES = ("auc", "average_precision", "brier")


@dataclass(frozen=True)
class Figure:
    """A figure of merit.

    Attributes
    ----------
    value : float
        Over all molecules, each predicted by a model that was fitted without its fold; NaN if not defined.
    spread : float
        Standard deviation of the figure over folds; NaN if not defined.
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
        Labels that each fold was fitted to, on average.
    figures : dict of str to dict of str to Figure
        By predictor and figure of merit.
    """

    n_labels: int
    figures: Mapping[str, Mapping[str, Figure]]


@dataclass(frozen=True)
class TargetEvaluation:
    """The evaluation of one target.

    Attributes
    ----------
    name : str
    n_labels, n_predicted : int
        Number of labels, and of those predicted by a model fitted without them.
    process : str
        The model in words.
    chosen : str
        Which settings were chosen on all labels, and which anew in each fold.
    direction : str or None
    figures : dict of str to dict of str to Figure
        By predictor and figure of merit.
    hyperparameters : tuple of dict
        Kernel in words, mean, signal variance and noise variance of each fold.
    curve : tuple of CurvePoint
    notes : tuple of str
    n_nearest : int
        How many labels the nearest neighbour predicted: only a subset if there are very many.
    reliability : Reliability, optional
        Predicted probabilities and observed shares, if the labels are 0 and 1.
    n_positive : int
        How many of the predicted labels are 1, if the labels are 0 and 1.
    spread_over : str
        What the spread of figures is over; "" if there is none.
    n_trained : int
        Labels left out since the model was fitted to labels of the same molecules.
    n_limits : int
        Labels that are limits, which the figures leave out.
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
    reliability: Reliability | None = None
    n_positive: int = 0
    spread_over: str = "folds"
    n_trained: int = 0
    n_limits: int = 0

    @property
    def verdict(self) -> str:
        """The answer to "Is it good?", in two sentences."""
        if not self.spread_over:
            return f"Is it good? Cannot tell from only {amount(self.n_predicted, 'labels')}."
        if self.reliability is not None:
            return verdict_on_classes(self.figures, self.reliability, self.n_positive, self.n_predicted)
        if self.n_limits:
            return verdict_with_limits(self.figures, self.n_predicted, self.n_limits)
        return verdict(self.figures, self.n_predicted)

    @property
    def intervals(self) -> dict[str, str]:
        """Whether the intervals of 50, 80 and 95 % are right, too narrow or too wide; none for few labels."""
        if self.reliability is not None or not self.spread_over:
            return {}
        return judged_intervals(self.figures[MODEL], self.n_predicted)

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
            f"  {self._spread_words}{self.chosen}",
            *(f"  {note}" for note in self.notes),
            *(["", *self._curve_lines()] if self.curve else []),
        ]

    @property
    def _spread_words(self) -> str:
        return f"± is the standard deviation over {self.spread_over}; " if self.spread_over else ""

    def _curve_lines(self) -> list[str]:
        names = _CURVE if self.reliability is None else _CURVE_OF_CLASSES
        measures = [measure for measure in MEASURES if measure.name in names]
        predictors, first = list(self.curve[0].figures), measures[0]
        others = [f"{first.words} of {p}" for p in predictors if p != MODEL]
        header = ["labels", *(m.words for m in measures), *others]
        rows = [
            [
                point.n_labels,
                *(_cell(point.figures[MODEL][m.name], m) for m in measures),
                *(_cell(point.figures[p][first.name], first) for p in predictors if p != MODEL),
            ]
            for point in self.curve
        ]
        lines = ["  Learning curve, on random subsets of the labels:"]
        lines += [f"  {line}" for line in text_table(header, rows).splitlines()]
        return [*lines, f"  {self.outlook}"]

    @property
    def outlook(self) -> str:
        """How much the last doubling of the labels reduced the error."""
        few, many = self.curve[-2:]
        name, label = ("rmse", "RMSE") if self.reliability is None else ("brier", "Brier score")
        before, after = (point.figures[MODEL][name].value for point in (few, many))
        lower = 1 - after / before
        times = f"from {few.n_labels:,} to {many.n_labels:,} labels"
        if not lower >= 0.01:
            return f"More labels of this kind may not help: {times} the {label} hardly changed."
        return f"More labels should help: {times} the {label} fell by {_percent(lower)}."


@dataclass(frozen=True)
class EvaluationReport(OfInput):
    """The result of `evaluate`.

    Attributes
    ----------
    targets : tuple of TargetEvaluation
    split : str
        How the labels were split, in words.
    n_folds : int
    n_molecules : int
    labels : str
        How labels were joined to molecules, in words.
    seconds : float
    table : pyarrow.Table
        The prediction of each label by a model fitted without its fold; for labels in memory, one row for
        each of their rows.
    output, picture : Path or None
        Where the table and the picture are.
    inputs : tuple of str
        How the labels were read.
    fingerprints : str
        The fingerprints of the model, in words.
    model : Path or None
        The model that was judged as it is; then there are no folds.
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
    model: PurePath | None = None

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
        """Return everything but the table as a JSON object; figures that are not defined are null."""
        fields = {
            each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name != "table"
        }
        fields |= {
            name: None if fields[name] is None else str(fields[name])
            for name in ("output", "picture", "model")
        }
        fields["targets"] = [
            {**dataclasses.asdict(target), "verdict": target.verdict, "intervals": target.intervals}
            for target in self.targets
        ]
        return json.dumps(_finite(fields), indent=2)


def verdict(figures: Mapping[str, Mapping[str, Figure]], n: int) -> str:
    """Return the answer to "Is it good?": errors compared with those of other predictors, and error bars.

    A predictor is better than another if its RMSE is smaller by at least 1 %, and by more than two standard
    errors of the differences over folds.

    Parameters
    ----------
    figures : dict of str to dict of str to Figure
        By predictor (`MODEL` is the one to judge) and figure of merit.
    n : int
        Number of predictions.
    """
    model = figures[MODEL]
    rmse = model["rmse"]
    if not _better(rmse, figures[MEAN]["rmse"]):
        return (
            f"Is it good? No: its errors (RMSE {rmse.value:.3g}) are no smaller than those of predicting "
            f"the mean ({figures[MEAN]['rmse'].value:.3g}). {_intervals(model, n)}"
        )
    smaller, rivals = _compared(figures, "rmse")
    share = model["r2"].value
    if rivals:
        start, more = "Partly", f", but no smaller than those of {rivals}"
    elif share <= 0:  # the labels predicted may have another mean than those of the fit
        start, more = "Hardly", ", but it explains none of the variance"
    elif share < _MUCH:
        start, more = "Somewhat", f", but it explains only {_percent(share)} of the variance"
    else:
        start, more = "Yes", f", and it explains {_percent(share)} of the variance"
    return (
        f"Is it good? {start}: its errors (RMSE {rmse.value:.3g}) are {smaller}{more}. {_intervals(model, n)}"
    )


def verdict_with_limits(figures: Mapping[str, Mapping[str, Figure]], n: int, n_limits: int) -> str:
    """Return what the figures of `n` measured labels say, beside `n_limits` limits.

    Labels are limits because of their values. So the mean of those that were measured is that of a selection,
    which it predicts well, and errors cannot be compared with its.
    """
    model = figures[MODEL]
    return (
        f"Is it good? By measured labels alone one cannot tell: {n_limits:,} of {n + n_limits:,} labels are "
        f"limits, and the others a selection (errors RMSE {model['rmse'].value:.3g}, rank correlation "
        f"{model['spearman'].value:.2f}). {_intervals(model, n)}"
    )


def verdict_on_classes(
    figures: Mapping[str, Mapping[str, Figure]], reliability: Reliability, n_positive: int, n: int
) -> str:
    """Return the answer to "Is it good?" for labels that are 0 and 1: ranking, and probabilities.

    Parameters
    ----------
    figures : dict of str to dict of str to Figure
        As in `verdict`; errors are Brier scores.
    reliability : Reliability
        Of the probabilities.
    n_positive, n : int
        Number of labels that are 1, and of all labels.
    """
    model, share = figures[MODEL], n_positive / n
    brier, usual = model["brier"], figures[MEAN]["brier"]
    ranked = (
        f"its AUC is {model['auc'].value:.2f} (0.5 is chance) and its average precision "
        f"{model['average_precision'].value:.2f} ({share:.2f} is chance)"
    )
    probabilities = _probabilities(reliability)
    if math.isnan(model["auc"].value):
        return f"Is it good? Cannot tell: no fold has labels of both classes. {probabilities}"
    above, by_chance = model["auc"].value - 0.5, _auc_by_chance(n_positive, n)
    if not above > _STANDARD_ERRORS * by_chance:
        start = "Not clear" if above > 0 else "No"
        few = amount(min(n_positive, n - n_positive), "labels")
        return (
            f"Is it good? {start}: {ranked}; with only {few} of one class, "
            f"chance alone gives an AUC of up to {0.5 + _STANDARD_ERRORS * by_chance:.2f}. {probabilities}"
        )
    if not _better(brier, usual):
        return (
            f"Is it good? No: {ranked}, and the errors of its probabilities (Brier score {brier.value:.3g}) "
            f"are no smaller than those of always predicting {_percent(share)} ({usual.value:.3g}). "
            f"{probabilities}"
        )
    smaller, rivals = _compared(figures, "brier")
    errors = f"the errors of its probabilities (Brier score {brier.value:.3g}) are {smaller}"
    start = "Somewhat" if model["auc"].value < _MUCH_RANKED else "Yes"
    if rivals:
        start, errors = "Partly", f"{errors}, but no smaller than those of {rivals}"
    return f"Is it good? {start}: {ranked}, and {errors}. {probabilities}"


def _auc_by_chance(n_positive: int, n: int) -> float:
    """Return the standard deviation of the AUC of random predictions (Mann & Whitney 1947)."""
    return math.sqrt((n + 1) / (12 * n_positive * (n - n_positive)))


def _probabilities(reliability: Reliability) -> str:
    """Return the sentence on whether probabilities can be trusted."""
    off = f"binned, they differ from the observed share of 1s by {_percent(reliability.error)} on average"
    if reliability.p_value >= _DOUBT or reliability.error < _OFF:
        return f"Its probabilities are right: {off}."
    return (
        f"Do not trust its probabilities: {off}, more than chance explains (p = {reliability.p_value:.1g})."
    )


def _compared(figures: Mapping[str, Mapping[str, Figure]], name: str) -> tuple[str, str]:
    """Return by how much errors are smaller than those of worse predictors, and name the others."""
    error, others = figures[MODEL][name], [each for each in figures if each != MODEL]
    beaten = [each for each in others if _better(error, figures[each][name])]
    than = [
        f"{_percent(1 - error.value / figures[each][name].value)} than those of the {each}" for each in beaten
    ]
    smaller = ", ".join([than[0].replace(" than", " smaller than"), *than[1:]])
    rivals = [each for each in others if each not in beaten]
    return smaller, " and ".join(f"the {each}" for each in rivals)


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


def interval_kind(figures: Mapping[str, Figure]) -> str:
    """Return which intervals are judged: by errors left out, or else "coverage", of a normal distribution."""
    there = all(math.isfinite(figures[f"interval_{level}"].value) for level in _LEVELS)
    return "interval" if there else "coverage"


def judged_intervals(figures: Mapping[str, Figure], n: int, kind: str = "") -> dict[str, str]:
    """Return whether each interval is right, too narrow or too wide, in the order of their levels.

    `kind` is one of `interval_kind`, by default what that returns.
    """
    kind = kind or interval_kind(figures)
    judged: dict[str, str] = {}
    for level in _LEVELS:
        held = figures[f"{kind}_{level}"]
        there = [share for share in held.folds if math.isfinite(share)]
        spread = held.spread / math.sqrt(len(there)) if len(there) > 1 else 0.0
        judged[str(level)] = judged_coverage(held.value, level / 100, n, spread)
    return judged


def _intervals(figures: Mapping[str, Figure], n: int) -> str:
    """Return the sentence on whether error bars can be trusted, and how far standard deviations can."""
    kind = interval_kind(figures)
    judged, normal = judged_intervals(figures, n, kind), judged_intervals(figures, n, "coverage")
    *first, last = judged
    all_of_them = (
        f"its {', '.join(first)} and {last} % intervals contain {_shares(figures, kind)} of the values"
    )
    of_normal = ""
    if kind != "coverage" and set(normal.values()) != {"right"}:
        of_normal = (
            " Intervals of a normal distribution with its standard deviations contain "
            f"{_shares(figures, 'coverage')}."
        )
    verdicts = set(judged.values())
    if verdicts == {"right"}:
        return f"Its error bars are right: {all_of_them}.{of_normal}"
    if verdicts == {"too wide"}:
        return f"Its error bars are too wide: {all_of_them}.{of_normal}"
    if verdicts == {"too narrow"}:
        return f"Do not trust its error bars, which are too narrow: {all_of_them}.{of_normal}"
    parts = []
    for word in dict.fromkeys(judged.values()):
        alike = [level for level in judged if judged[level] == word]
        parts.append(f"those of {' and '.join(alike)} % are {word}")
    start = "Do not trust all of its error bars"
    if "too narrow" not in verdicts:
        start = "Its error bars are partly right"
    return f"{start}: {all_of_them}; {', '.join(parts[:-1])} and {parts[-1]}.{of_normal}"


def _shares(figures: Mapping[str, Figure], kind: str) -> str:
    """Return the shares of values within the intervals of one kind, in words."""
    *first, last = (_percent(figures[f"{kind}_{level}"].value) for level in _LEVELS)
    return f"{', '.join(share.removesuffix(' %') for share in first)} and {last}"


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


def _finite(value: object) -> object:
    """Return a value for JSON: numbers that are not finite become None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
