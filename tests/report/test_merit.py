"""Figures of merit agree with scikit-learn, SciPy and counting."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, spearmanr

from daskrf.errors import InputError
from daskrf.report.evaluation import MEAN, MODEL, NEAREST, Figure, verdict
from daskrf.report.merit import MEASURES, area_under_curve, is_class, measured, rank_correlation, top_found
from tests.naive import crossvalidation as naive

pairs = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), min_size=2, max_size=50)


@given(pairs)
def test_ranks_agree_with_scipy_and_counting(values: list[tuple[int, int]]) -> None:
    truth, predicted = np.array(values, dtype=float).T
    found = rank_correlation(truth, predicted)
    if np.ptp(truth) == 0 or np.ptp(predicted) == 0:
        assert math.isnan(found)
    else:
        assert found == pytest.approx(spearmanr(truth, predicted).statistic, abs=1e-12)
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
    found = top_found(truth, predicted, n_best).fraction(selected)
    assert found == naive.top_found(truth, predicted, n_best, selected)


def test_equal_predictions_do_not_profit_from_the_order_of_the_file() -> None:
    truth = np.arange(1000.0)[::-1]
    found = [top_found(truth, np.zeros(1000), 100, seed).fraction(100) for seed in range(50)]
    assert np.mean(found) == pytest.approx(0.1, abs=0.02)


def test_all_figures() -> None:
    rng = np.random.default_rng(0)
    truth = rng.standard_normal(400)
    mean, std = truth + 0.5 * rng.standard_normal(400), rng.uniform(0.3, 0.7, 400)
    found = measured(truth, mean, std, direction="minimize")
    assert list(found) == [measure.name for measure in MEASURES]
    assert found["r2"] == pytest.approx(sklearn.metrics.r2_score(truth, mean))
    assert found["rmse"] == pytest.approx(sklearn.metrics.root_mean_squared_error(truth, mean))
    assert found["mae"] == pytest.approx(sklearn.metrics.mean_absolute_error(truth, mean))
    assert found["log_probability"] == pytest.approx(norm.logpdf(truth, mean, std).mean())
    for level in (50, 80, 95):
        low, high = norm.interval(level / 100, mean, std)
        assert found[f"coverage_{level}"] == pytest.approx(((low <= truth) & (truth <= high)).mean())
    assert found["recall_1"] == naive.top_found(-truth, -mean, 4, 4)
    assert found["recall_10"] == naive.top_found(-truth, -mean, 4, 40)
    assert found["enrichment_1"] == pytest.approx(100 * found["recall_1"])
    assert math.isnan(found["auc"])


def test_what_is_not_defined_is_nan() -> None:
    truth = np.r_[np.zeros(150), np.ones(50)]
    found = measured(truth, truth + np.linspace(0, 2, 200), direction="maximize", classes=is_class(truth))
    names = {name for name, value in found.items() if not math.isnan(value)}
    assert names == {"r2", "rmse", "mae", "spearman", "auc"}
    assert is_class(truth)
    assert not is_class(truth[:5])
    assert not is_class(truth + 1)
    assert math.isnan(measured(truth[:99], np.arange(99.0), direction="maximize")["recall_1"])
    assert math.isnan(measured(truth, np.arange(200.0))["recall_1"])
    assert math.isnan(measured(truth, np.arange(200.0), ranks=False)["spearman"])
    with pytest.raises(InputError, match="one length"):
        measured([1.0], [1.0, 2.0])


def figures(rmse: list[float], r2: float, coverage: float = 0.95) -> dict[str, Figure]:
    return {
        "rmse": Figure.of(float(np.mean(rmse)), rmse),
        "r2": Figure.of(r2, [r2] * len(rmse)),
        "coverage_95": Figure.of(coverage, []),
    }


@pytest.mark.parametrize(
    ("own", "nearest", "words"),
    [
        (figures([0.5, 0.6, 0.5], 0.8), [0.9, 1.1, 1.0], "Yes: its errors (RMSE 0.533) are 47 % smaller"),
        (figures([0.5, 0.6, 0.5], 0.3), [0.9, 1.1, 1.0], "A little: .* explains only 30 % of the variance"),
        (
            figures([0.5, 0.6, 0.5], 0.8),
            [0.5, 0.5, 0.7],
            "Only in part: .* no smaller than those of the near",
        ),
        (figures([1.9, 2.1, 2.0], 0.0), [2.5, 2.5, 2.5], "No: .* no smaller than those of always saying"),
        (figures([0.5, 0.6, 0.5], 0.8, 0.8), [0.9, 1.1, 1.0], "Do not trust its error bars.* hold 80 %"),
        (figures([0.5, 0.6, 0.5], 0.8, 1.0), [0.9, 1.1, 1.0], "error bars are wide"),
    ],
)
def test_the_verdict(own: dict[str, Figure], nearest: list[float], words: str) -> None:
    others = {NEAREST: figures(nearest, 0.1), MEAN: figures([2.0, 2.1, 1.9], 0.0)}
    assert_matches(words, verdict({MODEL: own, **others}, 3000))


def assert_matches(words: str, text: str) -> None:
    import re

    assert re.search(words.replace("(", r"\(").replace(")", r"\)"), text), text
