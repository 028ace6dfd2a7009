"""The table and the rule that the choices of kernel, map, metric and length scale share."""

from __future__ import annotations

import numpy as np
import pytest

from daskrf import FastfoodFeatures, Gaussian, TanimotoMinMax
from daskrf.errors import InputError
from daskrf.gp import KernelChoice, LengthScaleSearch, MetricChoice, MetricTrial, Trial
from daskrf.gp.processes.trials import labels_by_target
from daskrf.kernels import MetricGaussian

TRIALS = (Trial(TanimotoMinMax(), "the first", -0.5, 0.7), Trial(Gaussian(1.0), "other", -0.495, -1.8))
RULE = "  A {} further down is taken if it is clearly better: by 0.01 and a standard error."


def test_the_figures_stand_below_their_headers() -> None:
    assert str(KernelChoice(TanimotoMinMax(), TRIALS, 1000, 1000)).splitlines() == [
        "kernels tried, each of 1,000 labels left out in turn      R2  log probability",
        "   1  the first                                        0.700           -0.500  taken",
        "   2  other                                           -1.800           -0.495",
        RULE.format("kernel"),
    ]
    feature_map = FastfoodFeatures(Gaussian(2.0), 16)
    search = LengthScaleSearch(feature_map, 2.0, (0.5, 2.0), (-25.0, -10.0), 20)
    assert str(search).splitlines() == [
        "length scales tried on 20 labels  log evidence a label",
        "  0.5                                          -1.2500",
        "  2                                            -0.5000  taken",
    ]


def test_the_rule_is_told_where_a_better_trial_was_not_taken() -> None:
    metrics = MetricTrial(0, -0.5, 0.7), MetricTrial(1, -0.495, 0.71)
    lines = str(MetricChoice(MetricGaussian(2.0), 0, metrics, 100, 20)).splitlines()
    assert lines[1].endswith("taken")
    assert lines[3:] == [RULE.format("metric"), "  took the Gaussian kernel (length scale 2)"]
    best = KernelChoice(Gaussian(1.0), TRIALS, 100, 20)
    by_others = KernelChoice(TanimotoMinMax(), TRIALS, 100, 20, n_learned=50)
    for choice in (best, by_others):  # a learned metric is not judged by the labels of the other kernels
        assert RULE.format("kernel") not in str(choice).splitlines()


@pytest.mark.parametrize(("r2", "doubted"), [(-0.3, True), (0.09, True), (0.1, False), (0.7, False)])
def test_a_kernel_hardly_better_than_the_mean_is_doubted(r2: float, doubted: bool) -> None:
    trials = Trial(TanimotoMinMax(), "the first", -0.5, r2), Trial(Gaussian(1.0), "other", -0.6, 0.0)
    choice = KernelChoice(TanimotoMinMax(), trials, 100, 100)
    assert ("hardly better than by their mean (R2 below 0.1): `daskrf evaluate`" in str(choice)) == doubted


def test_labels_by_target() -> None:
    assert labels_by_target([1, 2], 2).tolist() == [[1.0], [2.0]]
    assert labels_by_target(np.zeros((0, 3)), 0).shape == (0, 3)
    for y, shape in ((np.zeros(3), r"\(3,\)"), (np.zeros((2, 1, 1)), r"\(2, 1, 1\)")):
        with pytest.raises(InputError, match=rf"X has 2 rows, but y has the shape {shape}; give one label"):
            labels_by_target(y, 2)
