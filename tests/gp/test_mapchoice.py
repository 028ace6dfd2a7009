"""The choice of a map: scores against plain fits, what is taken, and bad input."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf import seeds
from daskrf.errors import InputError
from daskrf.features import (
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    NystromFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.features.featuremap import undecided
from daskrf.gp import AutoMap, MapChoice, RandomFeatureGP, choose_map
from daskrf.kernels import Gaussian


def data(n: int = 200) -> tuple[sp.csr_matrix, np.ndarray]:
    """Rows, and labels that are a smooth function of them."""
    rng = np.random.default_rng(3)
    X = rng.poisson(1.0, (n, 12))
    return sp.csr_matrix(X), X @ rng.standard_normal(12) + 0.3 * rng.standard_normal(n)


def left_out(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows that are known and those left out."""
    order = np.argsort(seeds.words(0, "gp/mapchoice", n), kind="stable")
    return np.sort(order[n // 5 :]), np.sort(order[: n // 5])


def test_scores_are_those_of_plain_fits() -> None:
    X, y = data()
    maps = [TanimotoMinMaxFeatures(64), NystromFeatures(32), LandmarkFeatures(32)]
    choice = choose_map(maps, X, y)
    known, out = left_out(200)
    for trial, one in zip(choice.trials, maps, strict=True):
        gp = RandomFeatureGP(NystromFeatures(32) if isinstance(one, LandmarkFeatures) else one)
        mean, std = gp.fit(X[known], y[known]).predict(X[out], return_std=True)
        errors = y[out] - mean
        density = -0.5 * (np.log(2 * math.pi * std**2) + errors**2 / std**2)
        assert trial.log_probability == pytest.approx(density.mean(), rel=1e-3)
        expected = 1 - (errors**2).sum() / ((y[out] - y[out].mean()) ** 2).sum()
        assert trial.r2 == pytest.approx(expected, rel=1e-3)
    assert (choice.n_rows, choice.n_left_out) == (200, 40)


def test_the_best_is_taken_with_a_length_scale_of_its_own() -> None:
    X, y = data()
    told: list[str] = []
    choice = choose_map(AutoMap(48).candidates, X, y, on_trial=told.append)
    assert [trial.feature_map.facts.name for trial in choice.trials] == [
        "minmax", "nystrom", "nystrom", "gaussian-maclaurin",
    ]  # fmt: skip
    assert not any(undecided(trial.feature_map) for trial in choice.trials)
    best = max(choice.trials, key=lambda trial: trial.log_probability)
    assert best.log_probability > choice.trials[0].log_probability + 0.1
    taken = next(t for t in choice.trials if t.feature_map.state() == choice.feature_map.state())
    assert taken.log_probability > best.log_probability - 0.1
    assert choice.feature_map.n_components == 48
    assert str(choice).count("  taken") == 1
    assert any(words.startswith("the length scale") for words in told)
    again = MapChoice.from_state(json.loads(json.dumps(choice.state())))
    assert again.state() == choice.state()
    assert str(again) == str(choice)


def test_the_first_is_taken_where_no_map_predicts() -> None:
    X, _ = data()
    noise = np.random.default_rng(1).standard_normal(200)
    assert isinstance(choose_map(AutoMap(16).candidates, X, noise).feature_map, TanimotoMinMaxFeatures)


def test_the_sample_has_fewer_features_than_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskrf.gp.choice.mapchoice._MOST_FEATURES", 16)
    X, y = data(60)
    many, few = (choose_map([NystromFeatures(m)], X, y) for m in (40, 16))
    assert many.trials[0].log_probability == few.trials[0].log_probability
    assert many.feature_map.n_components == 40


def test_targets_with_gaps() -> None:
    X, y = data()
    gaps = np.where(np.arange(200) % 4, 100 * y[::-1], np.nan)
    maps = [TanimotoMinMaxFeatures(32), GaussianMaclaurinFeatures(32, length_scale="auto")]
    both = choose_map(maps, X, np.column_stack([y, gaps]))
    _, out = left_out(200)
    counts = 40, int(np.isfinite(gaps[out]).sum())
    one = choose_map(maps[:1], X, y).trials[0].log_probability
    gp = RandomFeatureGP(maps[0])
    known = left_out(200)[0]
    known, out = (rows[np.isfinite(gaps[rows])] for rows in (known, out))
    mean, std = gp.fit(X[known], gaps[known]).predict(X[out], return_std=True)
    other = (-0.5 * (np.log(2 * math.pi * std**2) + ((gaps[out] - mean) / std) ** 2)).mean()
    expected = (counts[0] * one + counts[1] * other) / sum(counts)
    assert both.trials[0].log_probability == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("n", [1, 5, 19])
def test_few_labels_are_not_compared(n: int) -> None:
    X, y = data(n)
    choice = choose_map(AutoMap(16).candidates, X, y)
    assert isinstance(choice.feature_map, TanimotoMinMaxFeatures)
    assert "too few labels to compare maps" in str(choice)
    scaled = choose_map([NystromFeatures(4, kernel=Gaussian("auto"))], X, y).feature_map
    assert not undecided(scaled)


def test_equal_rows_are_not_compared() -> None:
    assert not choose_map(AutoMap(16).candidates, np.ones((30, 3)), np.arange(30.0)).trials


def test_bad_input_is_refused() -> None:
    X, y = data(30)
    with pytest.raises(InputError, match="pass at least one feature map"):
        choose_map([], X, y)
    with pytest.raises(InputError, match=r"X has 30 rows, but y has the shape \(29,\); give one label"):
        choose_map(AutoMap(8).candidates, X, y[:-1])
    with pytest.raises(InputError, match="n_components must be a positive integer"):
        AutoMap(0)
