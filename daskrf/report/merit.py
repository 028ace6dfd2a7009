"""Figures of merit of predictions for molecules with known values."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.errors import InputError
from daskrf.gp.validation.calibration import coverage, mean_log_probability, r2, rmse
from daskrf.report.recovery import Recovery

Array = npt.NDArray[np.float64]

_LEVELS = (0.5, 0.8, 0.95)
_FEWEST = 100  # values: of fewer, the best 1 % is less than one molecule
_BINS, _FEWEST_IN_BIN = 10, 20  # in which predicted probabilities are compared with observed shares
_LEAST_VARIANCE = 1e-9
_LEAST_PROBABILITY = 1e-6  # in the log loss
_EARLY = 20.0  # alpha of BEDROC: the first 8 % of the ranking make up 80 % of it


class Measure(NamedTuple):
    """A figure of merit.

    Attributes
    ----------
    name : str
        Key in tables and JSON.
    words : str
        Name in reports.
    percent : bool
        Whether it is a fraction, shown in percent.
    scaled : bool
        Whether it has the unit of the labels.
    """

    name: str
    words: str
    percent: bool = False
    scaled: bool = False


MEASURES = (
    Measure("r2", "R2"),
    Measure("rmse", "RMSE", scaled=True),
    Measure("mae", "MAE", scaled=True),
    Measure("spearman", "Spearman rank correlation"),
    Measure("auc", "AUC"),
    Measure("average_precision", "average precision"),
    Measure("bedroc", "BEDROC (alpha 20)"),
    Measure("log_loss", "log loss"),
    Measure("brier", "Brier score"),
    Measure("reliability_error", "calibration error", percent=True),
    Measure("log_probability", "mean log probability"),
    Measure("log_probability_t", "mean log probability, heavier tails"),
    Measure("interval_50", "within the 50 % interval", percent=True),
    Measure("interval_80", "within the 80 % interval", percent=True),
    Measure("interval_95", "within the 95 % interval", percent=True),
    Measure("coverage_50", "within 0.67 standard deviations (50 %)", percent=True),
    Measure("coverage_80", "within 1.28 standard deviations (80 %)", percent=True),
    Measure("coverage_95", "within 1.96 standard deviations (95 %)", percent=True),
    Measure("recall_1", "best 1 % found in the first 1 %", percent=True),
    Measure("recall_10", "best 1 % found in the first 10 %", percent=True),
    Measure("enrichment_1", "enrichment in the first 1 %"),
    Measure("enrichment_5", "enrichment in the first 5 %"),
)
"""All figures of merit, in the order of reports."""


def measured(
    truth: npt.ArrayLike,
    mean: npt.ArrayLike,
    std: npt.ArrayLike | None = None,
    *,
    factors: npt.ArrayLike | None = None,
    log_density: npt.ArrayLike | None = None,
    direction: Literal["maximize", "minimize"] | None = None,
    ranks: bool = True,
    seed: int = 0,
) -> dict[str, float]:
    """Return all figures of merit by name; those that are not defined are NaN.

    For classes see `measured_classes`.

    Parameters
    ----------
    truth, mean : float arrays, shape (n,)
        True and predicted values.
    std : float array, optional
        Standard deviations of the predictions, noise included.
    factors : float array, shape (3, n), optional
        How many of them the intervals of 50, 80 and 95 % extend to either side; figures of a level are NaN if
        one is not finite.
    log_density : float array, shape (n,), optional
        Log probability densities of the true values by a distribution that is not normal.
    direction : {"maximize", "minimize"}, optional
        Which values are good. Without it, or with fewer than 100 values, figures on the best 1 % are NaN.
    ranks : bool
        Whether the predictions rank molecules at all.
    seed : int
        Molecules with equal predictions are ranked in a random order.

    Raises
    ------
    InputError
        If shapes differ, there are no values, or a standard deviation is not positive.

    Examples
    --------
    >>> figures = measured([0.0, 1.0, 3.0], [0.0, 2.0, 3.0])
    >>> round(figures["rmse"], 3), figures["spearman"], figures["log_probability"]
    (0.577, 1.0, nan)
    """
    truth, mean = np.asarray(truth, dtype=np.float64), np.asarray(mean, dtype=np.float64)
    if truth.ndim != 1 or truth.shape != mean.shape or not len(truth):
        raise InputError(
            f"Truth and prediction must be vectors of one length, not {truth.shape}, {mean.shape}."
        )
    figures = dict.fromkeys((measure.name for measure in MEASURES), math.nan)
    figures["r2"], figures["rmse"] = r2(truth, mean), rmse(truth, mean)
    figures["mae"] = float(np.abs(truth - mean).mean())
    if std is not None:
        figures["log_probability"] = mean_log_probability(truth, mean, std)
        for level, share in zip(_LEVELS, coverage(truth, mean, std, _LEVELS).tolist(), strict=True):
            figures[f"coverage_{100 * level:.0f}"] = share
    if log_density is not None:
        figures["log_probability_t"] = float(np.asarray(log_density, dtype=np.float64).mean())
    if std is not None and factors is not None:
        sizes, halves = np.abs(truth - mean), np.asarray(factors, dtype=np.float64) * np.asarray(std)
        for level, half in zip(_LEVELS, halves, strict=True):
            share = float((sizes <= half).mean()) if np.isfinite(half).all() else math.nan
            figures[f"interval_{100 * level:.0f}"] = share
    if not ranks:
        return figures
    figures["spearman"] = rank_correlation(truth, mean)
    if direction is not None and len(truth) >= _FEWEST and np.ptp(mean) > 0:
        sign = 1.0 if direction == "maximize" else -1.0
        best, tenth = round(len(truth) / 100), round(len(truth) / 10)
        ranking = top_found(sign * truth, sign * mean, best, seed)
        figures["recall_1"], figures["recall_10"] = ranking.fraction(best), ranking.fraction(tenth)
        figures["enrichment_1"] = ranking.enrichment(best)
    return figures


def measured_classes(
    truth: npt.ArrayLike,
    score: npt.ArrayLike,
    probability: npt.ArrayLike,
    *,
    ranks: bool = True,
    seed: int = 0,
) -> dict[str, float]:
    """Return the figures of merit of predictions of 0 and 1; all others are NaN.

    Parameters
    ----------
    truth, score, probability : float arrays, shape (n,)
        True values, the numbers that rank them, and the probability of a 1; NaN where there is none.
    ranks : bool
        Whether the predictions rank molecules at all.
    seed : int
        Molecules with equal scores are ranked in a random order.

    Notes
    -----
    A probability counts as at least 1e-6 in the log loss, so that one wrong certainty does not make it
    infinite.

    Examples
    --------
    >>> figures = measured_classes([0.0, 1.0, 1.0], [0.1, 0.2, 0.9], [0.5, 0.5, 1.0])
    >>> figures["auc"], figures["average_precision"], round(figures["brier"], 3), figures["rmse"]
    (1.0, 1.0, 0.167, nan)
    """
    truth, score = np.asarray(truth, dtype=np.float64), np.asarray(score, dtype=np.float64)
    probabilities = np.asarray(probability, dtype=np.float64)
    if truth.ndim != 1 or not truth.shape == score.shape == probabilities.shape or not len(truth):
        raise InputError(
            f"Truth and predictions must be vectors of one length, not {truth.shape}, {score.shape}, "
            f"{probabilities.shape}."
        )
    figures, there = (
        dict.fromkeys((measure.name for measure in MEASURES), math.nan),
        np.isfinite(probabilities),
    )
    if ranks:
        positive = truth > 0.5
        figures["auc"] = area_under_curve(positive, score)
        figures["average_precision"] = average_precision(positive, score)
        figures["bedroc"] = bedroc(positive, score, seed=seed)
        for percent in (1, 5):
            figures[f"enrichment_{percent}"] = enrichment(positive, score, percent / 100, seed=seed)
    if there.any():
        likely = np.clip(probabilities[there], _LEAST_PROBABILITY, 1 - _LEAST_PROBABILITY)
        figures["log_loss"] = float(-np.log(np.where(truth[there] > 0.5, likely, 1 - likely)).mean())
        figures["brier"] = float(np.square(truth[there] - probabilities[there]).mean())
        figures["reliability_error"] = reliability(truth[there], probabilities[there]).error
    return figures


class Reliability(NamedTuple):
    """Predicted probabilities and observed shares of 1s, with molecules binned by probability.

    Attributes
    ----------
    predicted, observed : tuple of float
        Mean probability and share of 1s in each bin.
    counts : tuple of int
        Molecules in each bin.
    p_value : float
        Probability that shares differ at least this much if the predicted probabilities are right.
    """

    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    counts: tuple[int, ...]
    p_value: float

    @property
    def error(self) -> float:
        """The mean absolute difference between probability and share."""
        difference = np.abs(np.subtract(self.predicted, self.observed))
        return float(np.average(difference, weights=self.counts))


def reliability(truth: npt.ArrayLike, probability: npt.ArrayLike) -> Reliability:
    """Compare probabilities with shares of 1s, in ten bins of equal size, or fewer of at least 20 molecules.

    Source: Hosmer & Lemeshow 1980, Goodness of fit tests for the multiple logistic regression model. As the
    molecules were not used to fit the probabilities, each bin is a degree of freedom.

    Examples
    --------
    >>> result = reliability([0, 0, 0, 1] * 10 + [0, 1, 1, 1] * 10, [0.25] * 40 + [0.65] * 40)
    >>> result.observed, round(result.error, 3), result.counts
    ((0.25, 0.25, 0.75, 0.75), 0.05, (20, 20, 20, 20))
    """
    from scipy.stats import chi2

    truth, probability = np.asarray(truth, dtype=np.float64), np.asarray(probability, dtype=np.float64)
    n_bins = max(1, min(_BINS, len(truth) // _FEWEST_IN_BIN))
    bins = np.array_split(np.argsort(probability, kind="stable"), n_bins)
    predicted = np.array([probability[rows].mean() for rows in bins])
    observed = np.array([truth[rows].mean() for rows in bins])
    variance = np.array([(probability[rows] * (1 - probability[rows])).sum() for rows in bins])
    counts = [len(rows) for rows in bins]
    errors = np.square(np.array(counts) * (observed - predicted)) / np.maximum(variance, _LEAST_VARIANCE)
    return Reliability(
        tuple(predicted.tolist()),
        tuple(observed.tolist()),
        tuple(counts),
        float(chi2.sf(errors.sum(), n_bins)),
    )


def average_precision(positive: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return the average precision: the mean, over positives, of the precision at their rank.

    Equal predictions are one step of the ranking. NaN without positives.

    Examples
    --------
    >>> average_precision([True, False, True], [0.9, 0.5, 0.1])
    0.8333333333333333
    """
    positive, predicted = np.asarray(positive, dtype=bool), np.asarray(predicted, dtype=np.float64)
    if not positive.any():
        return math.nan
    values, place = np.unique(-predicted, return_inverse=True)
    hits = np.bincount(place, positive, len(values))
    precision = np.cumsum(hits) / np.cumsum(np.bincount(place, minlength=len(values)))
    return float(hits @ precision / positive.sum())


def bedroc(positive: npt.ArrayLike, score: npt.ArrayLike, *, alpha: float = _EARLY, seed: int = 0) -> float:
    """Return BEDROC, the share of the positives that a ranking finds early, from 0 to 1.

    It is the probability that a positive is ranked before a random number whose density falls as
    exp(-alpha x) with the relative rank x. NaN unless there are both classes; equal scores are ranked in a
    random order. Source: Truchon & Bayly 2007, Evaluating virtual screening methods (JCIM 47).

    Examples
    --------
    >>> round(bedroc([True, False, False, False], [0.9, 0.5, 0.1, 0.0]), 6)
    1.0
    """
    positive = np.asarray(positive, dtype=bool)
    n, of = len(positive), int(positive.sum())
    if of in (0, n):
        return math.nan
    share = of / n
    ranks = np.flatnonzero(positive[_best_first(score, seed)]) + 1
    mean = float(np.exp(-alpha * ranks / n).mean())
    random = (1 - math.exp(-alpha)) / (n * math.expm1(alpha / n))
    factor = share * math.sinh(alpha / 2) / (math.cosh(alpha / 2) - math.cosh(alpha / 2 - alpha * share))
    return float(min(1.0, mean / random * factor - 1 / math.expm1(alpha * (1 - share))))


def enrichment(positive: npt.ArrayLike, score: npt.ArrayLike, share: float, *, seed: int = 0) -> float:
    """Return how many times more positives are among the best share of a ranking than at random.

    At least one molecule is taken; equal scores are ranked in a random order. NaN without positives.

    Examples
    --------
    >>> enrichment([True, False, False, False], [0.9, 0.5, 0.1, 0.0], 0.25)
    4.0
    """
    positive = np.asarray(positive, dtype=bool)
    first = positive[_best_first(score, seed)][: max(1, round(share * len(positive)))]
    return float(first.mean() / positive.mean()) if positive.any() else math.nan


def _best_first(score: npt.ArrayLike, seed: int) -> npt.NDArray[np.intp]:
    """Return the order of a ranking, larger scores first, equal ones in a random order."""
    values = np.asarray(score, dtype=np.float64)
    return np.lexsort([seeds.words(seed, "report/ties", len(values)), -values])


def rank_correlation(truth: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return Spearman's rank correlation; ties get their mean rank. NaN if all values of either are equal.

    Examples
    --------
    >>> rank_correlation([1.0, 2.0, 9.0], [10.0, 30.0, 20.0])
    0.5
    """
    from scipy.stats import rankdata

    ranks = [rankdata(np.asarray(values)) for values in (truth, predicted)]
    a, b = (rank - rank.mean() for rank in ranks)
    size = math.sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size > 0 else math.nan


def area_under_curve(positive: npt.ArrayLike, predicted: npt.ArrayLike) -> float:
    """Return the area under the ROC curve: the probability that a positive is predicted above a negative.

    Ties count half. NaN unless there are both. Source: Hanley & McNeil 1982.

    Examples
    --------
    >>> area_under_curve([True, False, True, False], [0.9, 0.1, 0.4, 0.6])
    0.75
    """
    from scipy.stats import rankdata

    positive = np.asarray(positive, dtype=bool)
    n, of = len(positive), int(positive.sum())
    if of in (0, n):
        return math.nan
    ranks = rankdata(np.asarray(predicted, dtype=np.float64))
    return float((ranks[positive].sum() - of * (of + 1) / 2) / (of * (n - of)))


def top_found(truth: npt.ArrayLike, predicted: npt.ArrayLike, n_best: int, seed: int = 0) -> Recovery:
    """Count the best along the ranking, as `recovery` does, but treat ties fairly.

    Larger is better in both. All values that tie with the last of the best count, up to `n_best` in all;
    equal predictions are ranked in a random order.

    Examples
    --------
    >>> top_found([5.0, 4.0, 4.0, 1.0], [1.0, 0.0, 3.0, 2.0], n_best=2).found.tolist()
    [1, 1, 2, 2]
    """
    truth, predicted = np.asarray(truth, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    best = truth >= np.sort(truth)[-n_best]
    order = np.lexsort([seeds.words(seed, "report/ties", len(truth)), -predicted])
    return Recovery(n_best, np.minimum(np.cumsum(best[order]), n_best))
