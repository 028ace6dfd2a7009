"""BLAS threads: one where more would wait."""

from __future__ import annotations

import os

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from daskrf.blas import ONE_BLAS_THREAD, blas_threads_for, processors
from daskrf.gp import ExactGP
from daskrf.gp.solve.solvers import KernelSolver
from daskrf.kernels import Gaussian


def threads() -> int:
    return max(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")


def test_large_matrices_of_an_idle_machine_take_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    with threadpool_limits(limits=2):
        for n, load, expected in (
            (100, 0.0, 1),
            (2048, 0.0, 1),
            (2049, 0.0, 2),
            (2049, float(processors()), 1),
        ):
            monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
            with blas_threads_for(n):
                assert threads() == expected
            assert threads() == 2
    assert not ONE_BLAS_THREAD.is_set


def test_few_labels_are_fitted_and_predicted_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    made = KernelSolver.__init__

    def spied(self: KernelSolver, *arguments: object) -> None:
        seen.append(threads())
        made(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(KernelSolver, "__init__", spied)
    X = np.random.default_rng(0).normal(size=(30, 3))
    with threadpool_limits(limits=2):
        ExactGP(Gaussian(2.0)).fit(X, X[:, 0])
    assert seen == [1]
