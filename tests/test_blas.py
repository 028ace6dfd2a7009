"""BLAS threads: one where more would wait."""

from __future__ import annotations

import math
import os
import time
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

from daskrf import blas
from daskrf.blas import ONE_BLAS_THREAD, blas_threads_for, processors
from daskrf.gp import ExactGP
from daskrf.gp.choice.kernelchoice import choose_kernel
from daskrf.gp.choice.metricchoice import choose_metric
from daskrf.gp.solve.solvers import KernelSolver
from daskrf.kernels import Gaussian


def threads() -> int:
    return max(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")


def test_large_matrices_of_an_idle_machine_take_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "_LOAD", blas._Load())
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


def test_the_load_that_this_program_makes_is_not_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0, 0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(time, "process_time", lambda: clock[1])
    monkeypatch.setattr(blas, "processors", lambda: 2)
    monkeypatch.setattr(blas, "_LOAD", blas._Load())
    load = 0.0
    with threadpool_limits(limits=2):
        for others in (0.0, 2.0, 0.0):  # ten minutes each, beside two threads here
            for _ in range(60):
                clock[:] = clock[0] + 10.0, clock[1] + 20.0
                load += (1.0 - math.exp(-10.0 / 60.0)) * (2.0 + others - load)
                monkeypatch.setattr(os, "getloadavg", lambda load=load: (load, 0.0, 0.0))
                context = blas_threads_for(4000)
            with context:
                assert threads() == (1 if others else 2)


@pytest.mark.parametrize("choose", [choose_kernel, choose_metric])
def test_few_labels_choose_their_kernel_by_one_thread(choose: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = set[int]()

    def spied(function: Any) -> Any:
        def called(*arguments: Any, **options: Any) -> Any:
            seen.add(threads())
            return function(*arguments, **options)

        return called

    for name in ("cholesky", "eigh", "solve"):
        monkeypatch.setattr(scipy.linalg, name, spied(getattr(scipy.linalg, name)))
    X = np.random.default_rng(0).poisson(1.0, (60, 6))
    with threadpool_limits(limits=2):
        choose(X, np.sin(X.sum(axis=1)))
    assert seen == {1}


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
