"""The choice of a kernel: leave-one-out against plain refits, folds against factors, and what is taken."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf.errors import InputError
from daskrf.gp import ExactGP, KernelChoice, choose_kernel
from daskrf.gp.choice.choicetime import Meter
from daskrf.gp.choice.kernelchoice import (
    _distance,
    _Evidence,
    _Folds,
    _line_search,
    _OneByOne,
    _Score,
    _Search,
    usual_kernel,
)
from daskrf.gp.processes.kerneltrials import Trial
from daskrf.kernels import (
    Gaussian,
    Kernel,
    Matern,
    Mean,
    MetricGaussian,
    Polynomial,
    TanimotoMinMax,
    UnitBalls,
)

COLUMNS = {"first": (0, 30), "second": (30, 60)}


def _data(n: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """Rows of two kinds, and labels that only the first kind explains."""
    rng = np.random.default_rng(seed)
    X = sp.csr_matrix(rng.poisson(0.6, (n, 60)).astype(np.uint8))
    similar = TanimotoMinMax()(X[:, :30], rng.poisson(0.6, (20, 30)))
    y = 5.0 * (similar - similar.mean(0)) @ rng.standard_normal(20) + 0.1 * rng.standard_normal(n)
    return X, y


@pytest.mark.parametrize("kernel", [TanimotoMinMax(), Gaussian(5.0)])
def test_one_label_at_a_time_is_what_refits_give(kernel: Kernel) -> None:
    X, y = _data(40)
    ratio = 0.2
    found = _OneByOne(X, y)(kernel)(math.log(ratio))
    K = kernel(X) + ratio * np.eye(40)
    errors, variances = np.empty(40), np.empty(40)
    inverse = np.linalg.inv(K)
    mean = inverse.sum(0) @ y / inverse.sum()
    for i in range(40):
        rest = np.arange(40) != i
        weights = np.linalg.solve(K[np.ix_(rest, rest)], K[rest, i])
        errors[i] = y[i] - mean - weights @ (y[rest] - mean)
        variances[i] = K[i, i] - weights @ K[rest, i]
    variances *= np.mean(errors**2 / variances)
    np.testing.assert_allclose(found.errors, errors, rtol=1e-3, atol=1e-4)
    density = -0.5 * (np.log(2 * np.pi * variances) + errors**2 / variances)
    np.testing.assert_allclose(found.log_probability, density, rtol=1e-3, atol=1e-3)


def test_folds_are_what_factors_give() -> None:
    X, y = _data(900)
    folds = [np.arange(0, 100), np.arange(100, 200)]
    rows, ratio = np.arange(800), 0.3
    score = _Folds(X, y, rows, folds, 2**28, 0)(TanimotoMinMax())(math.log(ratio))
    expected = []
    for fold in folds:
        kept = np.setdiff1d(rows, fold)
        gp = ExactGP(TanimotoMinMax(), signal_variance=1.0, noise_variance=ratio, solver="cholesky")
        expected.append(y[fold] - gp.fit(X[kept], y[kept]).predict(X[fold]))
    errors = np.concatenate(expected)
    np.testing.assert_allclose(score.errors, errors, atol=0.02 * errors.std())
    assert score.mean == pytest.approx(-0.5 * (1 + math.log(2 * math.pi * np.mean(score.errors**2))))


@pytest.mark.parametrize("n", [300, 1500])
def test_the_kind_that_explains_the_labels_is_found(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskrf.gp.choice.kernelchoice._ONE_BY_ONE", 300)
    monkeypatch.setattr("daskrf.gp.choice.kernelchoice._MOST", 1200)
    monkeypatch.setattr("daskrf.gp.choice.kernelchoice._LEFT_OUT", 240)
    X, y = _data(n)
    told: list[tuple[str, float]] = []
    choice = choose_kernel(X, y, COLUMNS, on_progress=lambda *what: told.append(what))
    assert (choice.n_rows, choice.n_left_out) == ((300, 300) if n == 300 else (1200, 240))
    names = [trial.name for trial in choice.trials]
    assert [name.partition(" on ")[2] for name in names[:3]] == ["all kinds", "first", "second"]
    words = list(dict.fromkeys(words for words, _ in told))
    assert {"weights of kernels", "the mean of two kernels", *names[:3]} <= set(words)
    assert all(seconds >= 0 for _, seconds in told)
    assert max(map(len, str(choice).splitlines())) <= 100
    taken = next(trial for trial in choice.trials if trial.kernel == choice.kernel)
    assert isinstance(taken.kernel, Mean)
    assert set(taken.kernel.columns) == {COLUMNS["first"]}  # wherever the means are of such kernels, too
    assert taken.log_probability > choice.trials[0].log_probability + 0.1
    assert taken.r2 > choice.trials[0].r2 > choice.trials[2].r2
    assert str(choice).count("  taken") == 1
    again = KernelChoice.from_state(json.loads(json.dumps(choice.state())))
    assert again == choice
    gp = ExactGP(choice.kernel).fit(X, y)  # whatever is taken can be fitted
    assert np.corrcoef(gp.predict(X), y)[0, 1] > 0.9


def test_a_later_kernel_has_to_be_better_by_a_standard_error() -> None:
    """Labels that are all noise: no kernel predicts them, and the first one is taken."""
    X, _ = _data(400)
    choice = choose_kernel(X, np.random.default_rng(1).standard_normal(400), COLUMNS)
    assert choice.kernel == TanimotoMinMax()
    assert len(choice.trials) == 6


def _sum_of_few(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, noisy labels that depend on one sum over them, and what these are without noise."""
    rng = np.random.default_rng(seed)
    X, w = rng.poisson(0.6, (n, 60)), np.random.default_rng(4).standard_normal(60)
    w[::3] = 0.0
    truth = np.sin(X @ w / 6.0)
    return X, truth + 0.05 * rng.standard_normal(n), truth


@pytest.mark.parametrize("n", [400, 1500])
def test_a_metric_is_learned_where_labels_depend_on_a_sum(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daskrf.gp.choice.kernelchoice._ONE_BY_ONE", 400)
    monkeypatch.setattr("daskrf.gp.choice.kernelchoice._LEFT_OUT", 200)
    X, y, _ = _sum_of_few(n)
    choice = choose_kernel(X, y)
    *others, last = choice.trials
    assert isinstance(last.kernel, MetricGaussian)
    assert choice.kernel == last.kernel
    assert choice.n_learned == 200
    assert last.r2 > max(trial.r2 for trial in others) + 0.03
    assert "The metric was learned from 200 of the labels; its figures are for others" in str(choice)
    assert "clearly better" not in str(choice)
    again = KernelChoice.from_state(json.loads(json.dumps(choice.state())))
    assert again == choice
    # New rows, which neither the metric nor the choice has seen, are predicted better, too, and honestly.
    new, labels, truth = _sum_of_few(2000, seed=9)
    best = max(others, key=lambda trial: trial.log_probability).kernel
    gp, usual = ExactGP(choice.kernel, **choice.variances).fit(X, y), ExactGP(best).fit(X, y)
    error = [float(np.mean((one.predict(new) - truth) ** 2)) for one in (gp, usual)]
    assert error[0] < 0.8 * error[1]
    mean, std = gp.predict(new, return_std=True)
    assert 0.6 < np.mean(np.square((labels - mean) / std)) < 1.5


def test_what_a_metric_has_seen_looks_less_noisy_than_it_is() -> None:
    """So the variances are not those of the evidence of all labels."""
    X, y, _ = _sum_of_few(400)
    choice = choose_kernel(X, y)
    new, labels, _ = _sum_of_few(2000, seed=9)
    squares = []
    for variances in (choice.variances, {}):
        mean, std = ExactGP(choice.kernel, **variances).fit(X, y).predict(new, return_std=True)
        squares.append(np.mean(np.square((labels - mean) / std)))
    assert 1.15 * squares[0] < squares[1]


def test_a_metric_does_not_judge_itself_by_labels_that_it_has_seen() -> None:
    """Labels that a few rows explain by chance: a metric fits them, and is not taken."""
    X, _ = _data(400)
    for seed in range(5):
        choice = choose_kernel(X, np.random.default_rng(seed).standard_normal(400))
        assert not choice.variances
        assert not isinstance(choice.kernel, MetricGaussian)


def test_a_metric_sees_no_descriptors() -> None:
    X, y, _ = _sum_of_few(400)
    whole = np.column_stack([X, np.random.default_rng(2).integers(0, 400, (400, 14))])
    choice = choose_kernel(whole, y, {"morgan:2": (0, 60), "descriptors": (60, 74)})
    assert isinstance(choice.kernel, Mean)
    assert choice.kernel.columns == ((0, 60),)
    (kernel,) = choice.kernel.kernels
    assert isinstance(kernel, MetricGaussian)
    assert ExactGP(choice.kernel, **choice.variances).fit(whole, y).predict(whole[:3]).shape == (3,)


def test_the_best_length_scale_is_taken() -> None:
    """Of each radial kernel, whatever its scale means, from a draw of the kernel itself."""
    X, _ = _data(300)
    for kernel, true in ((Gaussian("auto"), 5.0), (Matern("auto", nu=2.5), 6.0), (UnitBalls("auto"), 1.0)):
        K = kernel.with_length_scale(true)(X)
        K.flat[:: len(K) + 1] += 0.01
        y = np.linalg.cholesky(K) @ np.random.default_rng(3).standard_normal(300)
        choice = choose_kernel(X, y, COLUMNS, kernel=kernel)
        lengths = [trial.kernel.parameters()["length_scale"] for trial in choice.trials]
        assert lengths == sorted(lengths)
        assert len(set(lengths)) == len(lengths) >= 3
        assert choice.kernel == max(choice.trials, key=lambda trial: trial.log_probability).kernel
        assert true / 2.1 < choice.kernel.parameters()["length_scale"] < true * 2.1
        assert choice.asked == kernel
        assert KernelChoice.from_state(json.loads(json.dumps(choice.state()))) == choice
        for n in (1, 5):
            few = choose_kernel(X[:n], y[:n], kernel=kernel)
            assert few.kernel == usual_kernel(kernel, X[:n])
            assert not few.trials
    assert usual_kernel(Gaussian("auto"), np.ones((4, 2))) == Gaussian(1.0)


@pytest.mark.parametrize("n", [1, 5, 19])
def test_few_labels_are_not_compared(n: int) -> None:
    X, y = _data(n)
    choice = choose_kernel(X, y, COLUMNS)
    assert (choice.kernel, choice.trials) == (TanimotoMinMax(), ())
    assert "too few labels" in str(choice)
    assert KernelChoice.from_state(choice.state()) == choice


def test_labels_and_rows_that_do_not_differ() -> None:
    X, y = _data(50)
    assert choose_kernel(X, np.ones(50)).trials == ()
    same = choose_kernel(sp.csr_matrix(np.ones((50, 4), np.uint8)), y)
    assert same.kernel == TanimotoMinMax()
    assert all(math.isfinite(trial.log_probability) for trial in same.trials)


def _lack_of_evidence(K: np.ndarray, y: np.ndarray) -> float:
    """Minus the log evidence of labels with the best mean and scale, by dense formulas."""
    inverse, n = np.linalg.inv(K), len(y)
    mean = inverse.sum(0) @ y / inverse.sum()
    variance = (y - mean) @ inverse @ (y - mean) / n
    return 0.5 * (n * math.log(2 * math.pi * variance) + np.linalg.slogdet(K)[1] + n)


def test_weights_have_the_largest_evidence() -> None:
    """No weights and no noise of a grid are better, whatever the sizes of the kernels."""
    X, _ = _data(120)
    parts = [X[:, :30], X[:, 30:]]
    matrices = [TanimotoMinMax()(part) for part in parts]
    K = 0.3 * matrices[0] + 0.7 * matrices[1] + 0.05 * np.eye(120)
    y = 3 + np.linalg.cholesky(K) @ np.random.default_rng(2).standard_normal(120)
    kernels = [Mean((1.0,), (TanimotoMinMax(),), (part,)) for part in COLUMNS.values()]
    weights, shares = _Evidence(X, y).weights(kernels)
    assert weights.sum() == pytest.approx(1.0)
    assert shares.sum() == pytest.approx(1.0)
    found = weights[0] * matrices[0] + weights[1] * matrices[1]
    ratios = np.exp(np.arange(-6, 3, 0.25))
    best = min(_lack_of_evidence(found + ratio * np.eye(120), y) for ratio in ratios)
    for first in np.linspace(0, 1, 21):
        mixed = first * matrices[0] + (1 - first) * matrices[1]
        for ratio in ratios:
            assert best < _lack_of_evidence(mixed + ratio * np.eye(120), y) + 0.1
    double = _Evidence(X, y).weights([*kernels[:1], Polynomial(1, c=1e-9, normalize=False)])[0]
    assert np.isfinite(double).all()


def test_a_weighted_mean_is_taken_where_several_kinds_tell() -> None:
    rng = np.random.default_rng(5)
    X = sp.csr_matrix(rng.poisson(0.6, (600, 60)).astype(np.uint8))
    K = 0.8 * TanimotoMinMax()(X[:, :30]) + 0.2 * TanimotoMinMax()(X[:, 30:])
    K.flat[::601] += 0.001
    y = np.linalg.cholesky(K) @ rng.standard_normal(600)
    choice = choose_kernel(X, y, COLUMNS)
    weighted = choice.trials[-1]
    assert re.match(r"weighted mean: 0\.\d+ of 2, 0\.\d+ of 3", weighted.name)
    assert choice.kernel == weighted.kernel
    assert isinstance(choice.kernel, Mean)
    own = dict(zip(choice.kernel.columns, choice.kernel.shares, strict=True))
    assert own[0, 30] > 2 * own[30, 60] > 0.1
    assert ExactGP(choice.kernel).fit(X, y).predict(X[:3]).shape == (3,)


def _with_descriptors(n: int) -> tuple[Any, np.ndarray]:
    """Return rows of two kinds and 14 descriptors, and a sample of a process that sees all of them."""
    rng = np.random.default_rng(6)
    counts, descriptors = rng.poisson(0.6, (n, 60)), rng.integers(0, 300, (n, 14))
    K = (
        TanimotoMinMax()(counts[:, :30])
        + TanimotoMinMax()(counts[:, 30:])
        + 2.0 * Gaussian(400.0)(descriptors)
    )
    K.flat[:: n + 1] += 0.01
    y = np.linalg.cholesky(K) @ rng.standard_normal(n)
    return sp.csr_matrix(np.column_stack([counts, descriptors]).astype(np.uint16)), y


DESCRIBED = {**COLUMNS, "descriptors": (60, 74)}


def test_descriptors_have_weights_beside_kinds() -> None:
    X, y = _with_descriptors(300)
    choice = choose_kernel(X, y, DESCRIBED)
    *_, weighted = choice.trials
    assert weighted.name.startswith("weighted mean: ")
    assert weighted.name.endswith(" on descriptors")
    assert choice.weighs_descriptors
    assert choice.kernel == weighted.kernel
    assert isinstance(choice.kernel, Mean)
    seen = dict(zip(choice.kernel.columns, choice.kernel.shares, strict=True))
    assert {(0, 30), (30, 60), (60, 74)} <= set(seen)
    assert KernelChoice.from_state(json.loads(json.dumps(choice.state()))) == choice
    assert ExactGP(choice.kernel).fit(X, y).predict(X[:3]).shape == (3,)


@pytest.mark.parametrize(
    ("weighs_descriptors", "gain", "taken"),
    [(True, 1e-4, 2), (True, 0.0, 2), (True, -1e-4, 1), (False, 1e-4, 1)],
)
def test_a_mean_with_descriptors_is_taken_if_it_is_not_worse(
    weighs_descriptors: bool, gain: float, taken: int
) -> None:
    """Other kernels have to be clearly better, as the second one is."""
    X, y = _data(40)
    scores = [_Score(np.full(40, mean), np.ones(40)) for mean in (-1.0, -0.8, -0.8 + gain)]
    trials = [(Gaussian(float(i + 1)), f"{i + 1}", score) for i, score in enumerate(scores)]
    meter: Meter[_Score] = Meter(lambda kernel: lambda ratio: scores[0], lambda words, seconds: None, [])
    search = _Search(meter, X, _Evidence(X, y), trials=trials, weighs_descriptors=weighs_descriptors)
    assert search.choice(y, 40).kernel == trials[taken][0]


def test_records_without_descriptors_are_as_before() -> None:
    X, y = _data(100)
    choice = choose_kernel(X, y, COLUMNS)
    assert not choice.weighs_descriptors
    assert set(choice.state()) == {"kernel", "trials", "n_rows", "n_left_out"}


def test_bad_input_is_refused() -> None:
    X, y = _data(30)
    for rows, labels, message in (
        (X, y[:-1], "give one label for each row"),
        (X, np.where(np.arange(30) == 3, np.nan, y), "not finite"),
    ):
        with pytest.raises(InputError, match=message):
            choose_kernel(rows, labels)


def test_the_climb_finds_the_top_within_its_limits() -> None:
    def score(at: float) -> _Score:
        return _Score(np.array([-((at - 2.2) ** 2)]), np.zeros(1))

    assert _line_search(score, 0.0, 0.5, (-5, 5))[0] == 2.0
    assert _line_search(score, 0.0, 0.5, (-5, 1))[0] == 1.0
    assert _line_search(score, 4.0, 0.5, (-5, 5))[0] == 2.0


def test_distances_are_of_the_kind() -> None:
    X, _ = _data(2000)
    dense = X.toarray().astype(float)
    pairs = dense[:1000] - dense[1000:]
    assert _distance(X, None) == pytest.approx(math.sqrt((pairs**2).sum(1).mean()))
    assert _distance(X, (0, 30)) == pytest.approx(math.sqrt((pairs[:, :30] ** 2).sum(1).mean()))


def _with_substituents(n: int, share: float) -> tuple[Any, np.ndarray]:
    """Return rows of two kinds and of substituents, and a sample of a process that sees all or the first."""
    rng = np.random.default_rng(7)
    counts, sides = rng.poisson(0.6, (n, 60)), np.zeros((n, 50), np.int64)
    for place in (rng.integers(0, 10, n), rng.integers(10, 50, n)):
        sides[np.arange(n), place] = 1
    K = TanimotoMinMax()(counts) + share * TanimotoMinMax()(sides)
    K.flat[:: n + 1] += 0.05
    y = np.linalg.cholesky(K) @ rng.standard_normal(n)
    return sp.csr_matrix(np.column_stack([counts, sides]).astype(np.uint16)), y


WITH_BLOCKS = {**COLUMNS, "substituents": (60, 110)}


@pytest.mark.parametrize("kind", ["substituents", "positions"])
def test_substituents_and_positions_have_a_weight_beside_kinds(kind: str) -> None:
    """Their weight is that of the evidence, and other kernels have to be clearly better."""
    X, y = _with_substituents(300, 2.0)
    choice = choose_kernel(X, y, {**COLUMNS, kind: (60, 110)})
    *others, mean, wide = choice.trials
    assert re.fullmatch(rf"weighted mean: 0\.\d+ of 1, 0\.\d+ of Tanimoto \(min-max\) on {kind}", mean.name)
    assert choice.trials[choice.first] == mean
    assert choice.kernel == mean.kernel
    assert isinstance(choice.kernel, Mean)
    assert dict(zip(choice.kernel.columns, choice.kernel.shares, strict=True))[60, 110] > 0.4
    assert mean.log_probability > max(trial.log_probability for trial in others) + 0.02
    assert abs(wide.log_probability - mean.log_probability) < 0.05
    assert all(trial.kernel.columns[-1][1] <= 60 for trial in others)  # type: ignore[attr-defined]
    assert KernelChoice.from_state(json.loads(json.dumps(choice.state()))) == choice
    assert f"With {kind}, 8 is taken unless another is clearly better." in str(choice)


def test_of_substituents_and_positions_only_what_says_something_has_a_weight() -> None:
    X, y = _with_substituents(300, 2.0)
    rng = np.random.default_rng(8)
    noise = sp.csr_matrix(rng.poisson(0.2, (300, 50)).astype(np.uint16))
    columns = {**COLUMNS, "substituents": (60, 110), "positions": (110, 160)}
    choice = choose_kernel(sp.hstack([X[:, :60], noise, X[:, 60:]], format="csr"), y, columns)
    mean = choice.trials[choice.first]
    assert isinstance(mean.kernel, Mean)
    assert isinstance(mean.kernel.columns, tuple)
    shares = dict(zip(mean.kernel.columns, mean.kernel.shares, strict=True))
    assert shares[110, 160] > 0.4
    assert shares.get((60, 110), 0.0) < 0.1


def test_positions_that_say_all_are_alone() -> None:
    """Other kernels have no weight beside them, and theirs is the kernel to beat."""
    X, _ = _with_substituents(300, 0.0)
    rng = np.random.default_rng(3)
    values = np.where(np.arange(50) < 10, 5.0, 1.0) * rng.standard_normal(50)
    y = X[:, 60:] @ values + 0.1 * rng.standard_normal(300)
    choice = choose_kernel(X, y, {**COLUMNS, "positions": (60, 110)})
    assert choice.trials[choice.first].name == "Tanimoto (min-max) on positions"
    assert choice.kernel == Mean((1.0,), (TanimotoMinMax(),), ((60, 110),))
    assert [trial.name for trial in choice.trials].count("Tanimoto (min-max) on positions") == 1


def test_blocks_that_no_label_has_are_named() -> None:
    rng = np.random.default_rng(5)
    X = sp.csr_matrix(np.hstack([rng.poisson(1.0, (60, 10)), np.zeros((60, 4))]).astype(np.uint16))
    choice = choose_kernel(X, rng.standard_normal(60), {"a": (0, 10), "positions": (10, 14)})
    assert KernelChoice.from_state(json.loads(json.dumps(choice.state()))) == choice
    assert "None of the labels is of a product with a building block that positions are" in str(choice)
    assert "get no weight" not in str(choice)


def test_the_kernel_of_all_targets_is_marked() -> None:
    first, second, third = TanimotoMinMax(), Gaussian(2.0), Gaussian(3.0)
    trials = (Trial(first, "first", -1.0, 0.5), Trial(second, "second", -0.5, 0.6))
    choice = KernelChoice(second, trials, 100, 100)
    assert str(replace(choice, together=second)) == str(choice)
    _, *lines = str(replace(choice, together=first)).splitlines()
    assert [line.split()[4:] for line in lines] == [
        ["taken", "for", "all", "targets"],
        ["best", "for", "this", "target", "alone"],
    ]
    shown = str(replace(choice, together=third))
    assert "taken" not in shown
    assert f"All targets together have {third.words()}, tried for another of them." in shown


def test_substituents_that_say_nothing_change_nothing() -> None:
    X, y = _with_substituents(300, 0.0)
    choice, without = choose_kernel(X, y, WITH_BLOCKS), choose_kernel(X[:, :60], y, COLUMNS)
    assert choice.first == 0
    assert "first" not in choice.state()
    assert "Substituents get no weight by the evidence, and so change no prediction." in str(choice)
    assert "Substituents" not in str(without)
    assert KernelChoice.from_state(json.loads(json.dumps(choice.state()))) == choice
    assert choice.kernel(X) == pytest.approx(without.kernel(X[:, :60]))
    assert [trial.log_probability for trial in choice.trials] == pytest.approx(
        [trial.log_probability for trial in without.trials]
    )
