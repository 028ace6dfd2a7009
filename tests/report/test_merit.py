"""Figures of merit agree with scikit-learn, SciPy and counting."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from rdkit.ML.Scoring import Scoring
from scipy.special import expit
from scipy.stats import norm, spearmanr
from sklearn.calibration import calibration_curve

from daskrf.errors import InputError
from daskrf.report.evaluation import (
    MEAN,
    MODEL,
    NEAREST,
    Figure,
    judged_intervals,
    verdict,
    verdict_on_classes,
)
from daskrf.report.merit import (
    MEASURES,
    area_under_curve,
    bedroc,
    enrichment,
    measured,
    measured_classes,
    rank_correlation,
    reliability,
    top_found,
)
from tests.naive import crossvalidation as naive

Array = npt.NDArray[np.float64]

pairs = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=2, max_size=50)


@given(pairs)
def test_ranks_agree_with_scipy_and_counting(values: list[tuple[int, int]]) -> None:
    truth, predicted = np.array(values, dtype=float).T
    correlation = rank_correlation(truth, predicted)
    if np.ptp(truth) == 0 or np.ptp(predicted) == 0:
        assert math.isnan(correlation)
    else:
        assert correlation == pytest.approx(spearmanr(truth, predicted).statistic, abs=1e-12)
    positive = truth > 0
    if positive.all() or not positive.any():
        assert math.isnan(area_under_curve(positive, predicted))
    else:
        area = area_under_curve(positive, predicted)
        assert area == pytest.approx(naive.area_under_curve(positive, predicted))
        assert area == pytest.approx(sklearn.metrics.roc_auc_score(positive, predicted))


@given(st.lists(st.integers(0, 5), min_size=5, max_size=40), st.integers(1, 5), st.integers(1, 40))
def test_the_best_are_counted_with_their_equals(truth: list[int], n_best: int, selected: int) -> None:
    predicted = np.random.default_rng(len(truth)).permutation(len(truth)).astype(float)
    fraction = top_found(truth, predicted, n_best).fraction(selected)
    assert fraction == naive.top_found(truth, predicted, n_best, selected)


def test_equal_predictions_do_not_profit_from_the_order_of_the_file() -> None:
    truth = np.arange(1000.0)[::-1]
    fractions = [top_found(truth, np.zeros(1000), 100, seed).fraction(100) for seed in range(50)]
    assert np.mean(fractions) == pytest.approx(0.1, abs=0.02)


def test_all_figures() -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(400)
    mean, std = truth + 0.5 * rng.standard_normal(400), rng.uniform(0.3, 0.7, 400)
    results = measured(truth, mean, std, direction="minimize")
    assert list(results) == [measure.name for measure in MEASURES]
    assert results["r2"] == pytest.approx(sklearn.metrics.r2_score(truth, mean))
    assert results["rmse"] == pytest.approx(sklearn.metrics.root_mean_squared_error(truth, mean))
    assert results["mae"] == pytest.approx(sklearn.metrics.mean_absolute_error(truth, mean))
    assert results["log_probability"] == pytest.approx(norm.logpdf(truth, mean, std).mean())
    for level in (50, 80, 95):
        low, high = norm.interval(level / 100, mean, std)
        assert results[f"coverage_{level}"] == pytest.approx(((low <= truth) & (truth <= high)).mean())
    assert results["recall_1"] == naive.top_found(-truth, -mean, 4, 4)
    assert results["recall_10"] == naive.top_found(-truth, -mean, 4, 40)
    assert results["enrichment_1"] == pytest.approx(100 * results["recall_1"])
    assert math.isnan(results["auc"])


def test_what_is_not_defined_is_nan() -> None:
    truth = np.r_[np.zeros(150), np.ones(50)]
    results = measured(truth, truth + np.linspace(0, 2, 200), direction="maximize")
    names = {name for name, value in results.items() if not math.isnan(value)}
    assert names == {"r2", "rmse", "mae", "spearman", "recall_1", "recall_10", "enrichment_1"}
    assert math.isnan(measured(truth[:99], np.arange(99.0), direction="maximize")["recall_1"])
    assert math.isnan(measured(truth, np.arange(200.0))["recall_1"])
    assert math.isnan(measured(truth, np.arange(200.0), ranks=False)["spearman"])
    with pytest.raises(InputError, match="one length"):
        measured([1.0], [1.0, 2.0])


def test_classes_are_judged_by_ranking_and_probabilities() -> None:
    rng = np.random.default_rng(8)
    mean = rng.standard_normal(500).round(1)  # with many ties
    probability = expit(mean - 1)
    truth = (rng.random(500) < probability) * 1.0
    results = measured_classes(truth, mean, probability)
    assert list(results) == [measure.name for measure in MEASURES]
    there = {name for name, value in results.items() if not math.isnan(value)}
    ranked = {"auc", "average_precision", "bedroc", "enrichment_1", "enrichment_5"}
    assert there == {*ranked, "log_loss", "brier", "reliability_error"}
    assert results["log_loss"] == pytest.approx(sklearn.metrics.log_loss(truth, probability))
    assert results["auc"] == pytest.approx(sklearn.metrics.roc_auc_score(truth, mean))
    expected = sklearn.metrics.average_precision_score(truth, mean)
    assert results["average_precision"] == pytest.approx(expected)
    assert results["brier"] == pytest.approx(sklearn.metrics.brier_score_loss(truth, probability))
    near = probability + 1e-9 * np.arange(500)  # in the order of the rows where equal
    share, predicted = calibration_curve(truth, near, n_bins=10, strategy="quantile")
    assert results["reliability_error"] == pytest.approx(np.abs(share - predicted).mean(), abs=1e-6)
    assert math.isnan(measured_classes(truth, mean, probability, ranks=False)["auc"])
    first = np.where(np.arange(500) < 100, np.nan, probability)  # such as of a first fold in an order
    assert measured_classes(truth, mean, first)["brier"] == pytest.approx(
        np.square(truth - probability)[100:].mean()
    )


@pytest.mark.parametrize("seed", range(3))
def test_early_recognition_is_that_of_rdkit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    score, positive = rng.standard_normal(400), rng.random(400) < (0.02, 0.3, 0.9)[seed]
    ranked = [[bool(each)] for each in positive[np.argsort(-score)]]
    assert bedroc(positive, score) == pytest.approx(Scoring.CalcBEDROC(ranked, 0, 20.0))
    expected = Scoring.CalcEnrichment(ranked, 0, [0.05])[0]
    assert enrichment(positive, score, 0.05) == pytest.approx(expected, rel=0.06)  # RDKit rounds up
    assert math.isnan(bedroc(np.zeros(4), score[:4]))
    assert math.isnan(enrichment(np.zeros(4), score[:4], 0.5))


@pytest.mark.parametrize(("slope", "right"), [(1.0, True), (3.0, False), (0.3, False)])
def test_right_and_wrong_probabilities(slope: float, right: bool) -> None:
    """Of 20 samples of right probabilities all are called right; of wrong ones none."""
    verdicts = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        logit = 1.5 * rng.standard_normal(1000)
        truth = (rng.random(1000) < expit(logit)) * 1.0
        model = classes_of(truth, logit, expit(slope * logit))
        usual = {"brier": Figure.of(float(truth.var()), []), "auc": Figure.of(math.nan, [])}
        bins = reliability(truth, expit(slope * logit))
        verdicts.append(verdict_on_classes({MODEL: model, MEAN: usual}, bins, int(truth.sum()), 1000))
    word = "Its probabilities are right" if right else "Do not trust its probabilities"
    assert sum(word in text for text in verdicts) == 20


def classes_of(truth: Array, mean: Array, probability: Array) -> dict[str, Figure]:
    results = measured_classes(truth, mean, probability)
    return {name: Figure.of(value, []) for name, value in results.items()}


def test_the_verdict_on_classes() -> None:
    rng = np.random.default_rng(2)
    logit = 2 * rng.standard_normal(4000)
    truth = (rng.random(4000) < expit(logit)) * 1.0
    good, constant = classes_of(truth, logit, expit(logit)), np.full(4000, truth.mean())
    usual = {name: Figure.of(v, []) for name, v in measured_classes(truth, constant, constant).items()}
    bins = reliability(truth, expit(logit))
    text = verdict_on_classes({MODEL: good, NEAREST: usual, MEAN: usual}, bins, int(truth.sum()), 4000)
    assert text.startswith(
        "Is it good? Yes: its AUC is 0.86 (0.5 is chance) and its average precision 0.86 (0.49 "
    )
    assert_matches(
        "errors of its probabilities (Brier score 0.152) are 39 % smaller than those of the nea", text
    )
    assert "Its probabilities are right: binned, they differ" in text
    text = verdict_on_classes({MODEL: good, NEAREST: good, MEAN: usual}, bins, 2000, 4000)
    assert "Partly" in text
    assert "no smaller than those of the nearest neighbour" in text
    poor = classes_of(truth, logit + 6 * rng.standard_normal(4000), expit(0.2 * logit))
    assert "Somewhat" in verdict_on_classes({MODEL: poor, MEAN: usual}, bins, 2000, 4000)
    assert "Is it good? No" in verdict_on_classes({MODEL: usual, MEAN: usual}, bins, 2000, 4000)


def test_a_ranking_that_chance_may_give_is_not_praised() -> None:
    rng = np.random.default_rng(0)
    usual = {"brier": Figure.of(0.3, []), "auc": Figure.of(math.nan, [])}
    praised, ranked = 0, 0
    for _ in range(400):
        truth, mean = np.repeat([1.0, 0.0], [10, 30])[rng.permutation(40)], rng.standard_normal(40)
        bins = reliability(truth, np.full(40, 0.25))
        model = classes_of(truth, mean, np.full(40, 0.25))
        text = verdict_on_classes({MODEL: model, MEAN: usual}, bins, 10, 40)
        praised += "? No" not in text and "? Not clear" not in text
        ranked += model["auc"].value > 0.5 + 2 * math.sqrt(41 / (12 * 10 * 30))
    assert praised == ranked
    assert praised <= 20  # 2.3 % of 400 are expected, and more than 20 have a probability below .002
    none = {name: Figure.of(math.nan, []) for name in model}
    assert "Cannot tell" in verdict_on_classes({MODEL: none, MEAN: usual}, bins, 0, 40)


def figures(rmse: list[float], r2: float, *coverage: float) -> dict[str, Figure]:
    held = zip((50, 80, 95), coverage or (0.5, 0.8, 0.95), strict=True)
    return {
        "rmse": Figure.of(float(np.mean(rmse)), rmse),
        "r2": Figure.of(r2, [r2] * len(rmse)),
        **{f"coverage_{level}": Figure.of(share, []) for level, share in held},
        **{f"interval_{level}": Figure.of(math.nan, []) for level in (50, 80, 95)},
    }


@pytest.mark.parametrize(
    ("factor", "heavy", "words"),
    [
        (1.0, False, "Its error bars are right: its 50, 80 and 95 % intervals contain"),
        (
            0.7,
            False,
            "Do not trust its error bars, which are too narrow: its 50, 80 and 95 % intervals contain",
        ),
        (1.5, False, "Its error bars are too wide: its 50, 80 and 95 % intervals contain"),
        (1.0, True, "those of 50 .*are too wide.* 95 % are too narrow"),
    ],
)
def test_all_intervals_are_judged(factor: float, heavy: bool, words: str) -> None:
    """Of 20 samples each: well and ill calibrated deviations, and errors with heavy tails."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        error = rng.standard_normal(2000)
        if heavy:  # most are small, and some are large: 79 % within 50 % intervals, 89 % within those of 95 %
            error *= np.where(rng.random(2000) < 0.85, 0.4, 6.0)
        truth = 3 * rng.standard_normal(2000)
        results = measured(truth, truth - error, np.full(2000, factor))
        model = {name: Figure.of(value, []) for name, value in results.items()}
        usual = {"rmse": Figure.of(3.0, [])}
        assert_matches(words, verdict({MODEL: model, MEAN: usual}, 2000))


@pytest.mark.parametrize(
    ("n", "shares", "words"),
    [
        (
            1128,
            (0.65, 0.85, 0.95),
            "partly right: .* contain 65, 85 and 95 % .*; those of 50 % .* those of 80 and 95 % are right",
        ),
        (1000, (0.96, 0.98, 0.99), "too wide: its 50, 80 and 95 % intervals contain 96, 98 and 99 %"),
        (20, (0.65, 0.85, 1.0), "are right: its 50, 80 and 95 % intervals contain 65, 85 and 100 %"),
    ],
)
def test_the_number_of_labels_counts(n: int, shares: tuple[float, ...], words: str) -> None:
    model, usual = figures([0.5, 0.6, 0.5], 0.8, *shares), figures([2.0, 2.1, 1.9], 0.0)
    assert_matches(words, verdict({MODEL: model, MEAN: usual}, n))


def test_intervals_by_errors_are_judged_in_place_of_normal_ones() -> None:
    """Of errors with heavy tails, by factors that hold and by those of a normal distribution."""
    rng = np.random.default_rng(0)
    error = rng.standard_normal(2000) * np.where(rng.random(2000) < 0.85, 0.4, 6.0)
    truth, usual = 3 * rng.standard_normal(2000), {"rmse": Figure.of(3.0, [])}
    factors = np.tile(np.quantile(np.abs(error), [[0.5], [0.8], [0.95]]), 2000)
    results = measured(truth, truth - error, np.ones(2000), factors=factors)
    for level in (50, 80, 95):
        assert results[f"interval_{level}"] == pytest.approx(level / 100)
    words = verdict({MODEL: {name: Figure.of(each, []) for name, each in results.items()}, MEAN: usual}, 2000)
    assert "Its error bars are right: its 50, 80 and 95 % intervals contain 50, 80 and 95 % of the" in words
    normal = "Intervals of a normal distribution with its standard deviations contain 79, 88 and 90 %."
    assert words.endswith(normal)
    factors[2] = np.inf  # too few labels for 95 %
    results = measured(truth, truth - error, np.ones(2000), factors=factors)
    assert math.isnan(results["interval_95"])
    words = verdict({MODEL: {name: Figure.of(each, []) for name, each in results.items()}, MEAN: usual}, 2000)
    assert_matches("those of 50 .*are too wide.* 95 % are too narrow", words)


def test_the_spread_over_folds_counts() -> None:
    """Errors of molecules of one scaffold are alike, so that they count as fewer."""
    model = figures([0.5, 0.6, 0.5], 0.8, 0.6, 0.85, 0.95)
    assert judged_intervals(model, 3000)["50"] == "too wide"
    model["coverage_50"] = Figure.of(0.6, [0.4, 0.6, 0.8])
    assert judged_intervals(model, 3000)["50"] == "right"


@pytest.mark.parametrize(
    ("model", "nearest", "words"),
    [
        (figures([0.5, 0.6, 0.5], 0.8), [0.9, 1.1, 1.0], "Yes: its errors (RMSE 0.533) are 47 % smaller"),
        (figures([0.5, 0.6, 0.5], 0.3), [0.9, 1.1, 1.0], "Somewhat: .* explains only 30 % of the variance"),
        (
            figures([0.5, 0.6, 0.5], 0.8),
            [0.5, 0.5, 0.7],
            "Partly: .* no smaller than those of the near",
        ),
        (
            figures([1.9, 2.1, 2.0], 0.0),
            [2.5, 2.5, 2.5],
            "No: .* no smaller than those of predicting the mean",
        ),
    ],
)
def test_the_verdict(model: dict[str, Figure], nearest: list[float], words: str) -> None:
    others = {NEAREST: figures(nearest, 0.1), MEAN: figures([2.0, 2.1, 1.9], 0.0)}
    assert_matches(words, verdict({MODEL: model, **others}, 3000))


def assert_matches(words: str, text: str) -> None:
    import re

    assert re.search(words.replace("(", r"\(").replace(")", r"\)"), text), text
