"""Each pick counts as measured at its mean: as conditioning the whole process anew."""

from __future__ import annotations

import numpy as np
import pytest

from daskrf.acquisition import acquisition_for
from daskrf.acquisition.believer import Believer
from daskrf.gp import ExactGP
from daskrf.kernels import TanimotoMinMax


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("name", ["ucb", "ei", "pi"])
def test_scores_are_those_of_a_process_with_the_picks_at_their_means(name: str, maximize: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.poisson(0.7, (60, 15)) + np.eye(60, 15, dtype=int)
    y = rng.standard_normal(25)
    fixed = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": 0.2}
    gp = ExactGP(TanimotoMinMax(), **fixed).fit(X[:25], y)
    mean, covariance = gp.predict(X[25:], return_cov=True, of="f")
    best = float(y.max() if maximize else y.min())
    rule = acquisition_for(name, maximize=maximize).with_best(best)
    believer = Believer(rule, mean, covariance, 0.2)
    picks: list[int] = []
    for _ in range(12):
        pick = int(np.argmax(np.where(np.isin(np.arange(35), picks), -np.inf, believer.scores())))
        believer.take(pick)
        picks.append(pick)
        again = ExactGP(TanimotoMinMax(), **fixed)
        again.fit(np.concatenate([X[:25], X[25:][picks]]), np.concatenate([y, mean[picks]]))
        now, std = again.predict(X[25:], return_std=True, of="f")
        np.testing.assert_allclose(now, mean, atol=1e-8)
        assumed = [best, *mean[picks]]
        there = acquisition_for(name, maximize=maximize).with_best(
            float(max(assumed) if maximize else min(assumed))
        )
        np.testing.assert_allclose(believer.scores(), there(now, std), rtol=1e-6, atol=1e-6)
