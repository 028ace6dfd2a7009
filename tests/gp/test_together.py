"""Functions that run in turns, and processes that are fitted in step."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from daskrf.errors import InputError
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.together import fit_together, in_step
from daskrf.gp.solve.kernelmatrix import KernelMatrix
from daskrf.kernels import TanimotoMinMax

Ask = Callable[[Any], Any]


def counting(n: int) -> Callable[[Ask], int]:
    """Return a function that asks n questions and adds up the answers."""
    return lambda ask: sum(ask((n, i)) for i in range(n))


@pytest.mark.parametrize("sizes", [[], [0], [3], [0, 2, 5, 1], [4, 4]])
def test_all_ask_before_any_is_answered(sizes: list[int]) -> None:
    rounds = []

    def answer(questions: list[Any]) -> list[int]:
        rounds.append(questions)
        return [10 * n + i for n, i in questions]

    before = threading.active_count()
    found = in_step([counting(n) for n in sizes], answer)
    assert found == [sum(10 * n + i for i in range(n)) for n in sizes]
    expected = [[(n, i) for n in sizes if n > i] for i in range(max(sizes, default=0))]
    assert rounds == expected
    assert threading.active_count() == before


@pytest.mark.parametrize("where", ["function", "answer"])
def test_an_error_ends_all(where: str) -> None:
    ended = []

    def failing(ask: Ask) -> None:
        ask(1)
        if where == "function":
            raise InputError("wrong.")
        ask(2)

    def endless(ask: Ask) -> None:
        try:
            while True:
                ask(0)
        finally:
            ended.append(1)

    def answer(questions: list[int]) -> list[int]:
        if 2 in questions:
            raise KeyboardInterrupt
        return questions

    before = threading.active_count()
    with pytest.raises(InputError if where == "function" else KeyboardInterrupt):
        in_step([endless, failing, endless], answer)
    assert len(ended) == 2
    assert threading.active_count() == before


def test_processes_are_those_fitted_alone() -> None:
    rng = np.random.default_rng(0)
    X = rng.poisson(0.8, (300, 30))
    y = [X[:, 0] + 0.3 * rng.standard_normal(300), 5.0 * X[:, 1] - X[:, 2] + 3.0 * rng.standard_normal(300)]
    options = {"solver": "cg", "n_draws": 8, "n_features": 256, "n_landmarks": 40, "tolerance": 1e-4}
    together = [ExactGP(TanimotoMinMax(), **options) for _ in y]
    fit_together(together, X, y, KernelMatrix(TanimotoMinMax(), X))
    assert together[0].n_iterations_ != together[1].n_iterations_  # one goes on alone
    new = rng.poisson(0.8, (50, 30))
    for gp, labels in zip(together, y, strict=True):
        alone = ExactGP(TanimotoMinMax(), **options).fit(X, labels)
        for found, expected in zip(
            gp.predict(new, return_std=True), alone.predict(new, return_std=True), strict=True
        ):
            np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3 * labels.std())
        _, covariance = gp.predict(new[:3], return_cov=True)  # solves again, after the others have ended
        assert covariance.shape == (3, 3)
        again = pickle.loads(pickle.dumps(gp))
        assert again.predict(new).tobytes() == gp.predict(new).tobytes()


def test_no_convergence_of_one_is_an_error_of_all() -> None:
    X = np.random.default_rng(0).poisson(0.8, (300, 30))
    options = {"solver": "cg", "n_draws": 2, "n_features": 64, "n_landmarks": 5}
    processes = [ExactGP(TanimotoMinMax(), **options, max_iterations=n) for n in (500, 3)]
    with pytest.raises(InputError, match="conjugate gradients reached a residual"):
        fit_together(processes, X, [X[:, 0], X[:, 1]], KernelMatrix(TanimotoMinMax(), X))
