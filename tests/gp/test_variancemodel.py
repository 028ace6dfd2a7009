"""The model of variances, against the formulas and against variances that are known."""

from __future__ import annotations

import numpy as np
import pytest

from daskrf import ExactGP
from daskrf.gp.solve.variancemodel import VarianceModel, fit_variances
from daskrf.kernels import Gaussian, TanimotoDotProduct, TanimotoMinMax
from tests.gp.test_pathwise import GIVEN, labels, rows

WEIGHTS = np.array([1.2, -0.1, -0.03, 0.05])


def made(
    n: int, ratio: float, n_draws: int, seed: int, spread: float = 0.0, least: float = 0.05
) -> tuple[np.ndarray, ...]:
    """Squared correlations, sizes, and squares of draws whose variances follow the model."""
    rng = np.random.default_rng(seed)
    largest = rng.uniform(least, 0.8, n)
    total = largest + rng.gamma(2.0, 1.5, n)
    diagonal = rng.uniform(0.5, 2.0, n)
    b, t = np.log1p(-largest), np.log1p(total - largest)
    model = np.minimum(WEIGHTS @ np.array([b, t, t * t, b * t]), b)
    variance = diagonal * np.exp(model + spread * rng.standard_normal(n))
    squares = rng.chisquare(n_draws, n) / n_draws / (variance + ratio)
    return largest, total, diagonal, squares, variance


def test_without_labels_nearby_the_variance_is_that_of_the_prior() -> None:
    model = VarianceModel(WEIGHTS, 10.0, np.eye(4))
    assert [part.tolist() for part in model.guess(np.zeros(3), np.zeros(3))] == [[1.0] * 3, [10.0] * 3]


@pytest.mark.parametrize("ratio", [0.5, 2.0])
def test_variances_that_follow_the_model_are_found(ratio: float) -> None:
    largest, total, diagonal, squares, variance = made(6000, ratio, 32, 0)
    model = fit_variances(largest, total, diagonal, squares, ratio, 32)
    off = np.log(diagonal * model.guess(largest, total)[0] / variance)
    # The variances that follow for labelled rows are not quite of the model's form, and count, too.
    assert abs(off.mean()) < 0.08
    bound = np.log(diagonal * (1 - largest) / variance)
    assert off.std() < 0.6 * bound.std()
    assert model.draws == 64  # the most that it is worth


def test_a_model_that_does_not_hold_counts_for_less() -> None:
    draws = [fit_variances(*made(6000, 0.2, 32, 1, spread)[:4], 0.2, 32).draws for spread in (0.1, 0.3, 0.6)]
    assert draws[0] > draws[1] > draws[2]
    assert draws[1] == pytest.approx(2 / 0.3**2, rel=0.4)


def test_a_model_is_worth_nothing_where_labels_tell_nothing_of_it() -> None:
    many = made(3000, 0.2, 32, 0)[:4]
    near = np.array([0.1, 0.5]), np.array([2.0, 3.0])
    assert (fit_variances(*many, 0.2, 32).guess(*near)[1] > 50).all()
    assert (fit_variances(*(values[:3] for values in many), 0.2, 32).guess(*near)[1] < 1).all()
    repeated = fit_variances(*made(3000, 1.0, 32, 0, least=0.8)[:4], 1.0, 32)
    assert repeated.guess(np.array([0.8]), np.array([2.0]))[1] > 50
    assert repeated.guess(np.array([0.1]), np.array([2.0]))[1] < 1


def test_no_guess_is_above_the_bound() -> None:
    largest, total = np.linspace(0, 0.9, 50), np.linspace(0, 0.9, 50) + 3
    for weights in (WEIGHTS, -WEIGHTS, 100 * WEIGHTS):
        guess, _ = VarianceModel(weights, 10.0, np.eye(4)).guess(largest, total)
        assert (guess <= 1 - largest + 1e-9).all()


@pytest.mark.parametrize("kernel", [TanimotoMinMax(), TanimotoDotProduct(), Gaussian(4.0)], ids=repr)
def test_deviations_are_nearer_than_draws_alone_tell(kernel: object) -> None:
    X, new = rows(1200), rows(400, 1)
    y = labels(X, kernel)
    given = dict(zip(("mean", "signal_variance", "noise_variance"), GIVEN, strict=True))
    expected = ExactGP(kernel, **given).fit(X, y).predict(new, return_std=True, of="f")[1]
    off = []
    for seed in range(5):
        gp = ExactGP(kernel, solver="cg", n_draws=16, random_state=seed, tolerance=1e-4, **given).fit(X, y)
        off.append(2 * np.log(gp.predict(new, return_std=True, of="f")[1] / expected))
    # 16 draws alone have a standard deviation of 0.36.
    assert np.std(off) < 0.25
    assert abs(np.mean(off)) < 0.12
