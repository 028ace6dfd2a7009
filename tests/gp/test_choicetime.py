"""The time that the choice of a kernel will still take, by a clock of our own."""

from __future__ import annotations

import pytest

from daskrf.gp.choice.choicetime import Meter, Work
from daskrf.kernels import Kernel
from daskrf.kernels.tanimoto import TanimotoMinMax
from daskrf.kernels.weightedmean import Mean


class Machine:
    """A kernel matrix takes `matrix` seconds for each term, and a ratio `ratio` seconds."""

    def __init__(self, matrix: float, ratio: float) -> None:
        self.matrix, self.ratio, self.now = matrix, ratio, 0.0

    def clock(self) -> float:
        return self.now

    def __call__(self, kernel: Kernel):
        self.now += self.matrix * (len(kernel.kernels) if isinstance(kernel, Mean) else 1)

        def score(log_ratio: float) -> float:
            self.now += self.ratio
            return log_ratio

        return score


def test_the_time_left_is_that_of_the_work_left_at_measured_rates() -> None:
    told: list[tuple[str, float]] = []
    machine = Machine(3.0, 0.5)
    meter = Meter(
        machine, lambda *what: told.append(what), [Work(1, 2), Work(2, 4, seconds=0.2)], 1000, machine.clock
    )
    meter.begin("a")
    score = meter(TanimotoMinMax())
    assert score(1.0) == 1.0
    # A factorization of 1,000 rows is expected to take 0.025 s and took 0.5 s: a machine 20 times as slow.
    assert told[-1] == ("a", pytest.approx(0.5 + 2 * 3.0 + 4 * 0.5 + 20 * 0.2))
    for _ in range(5):  # more ratios than expected do not make the rest cheaper
        score(1.0)
    assert told[-1] == ("a", pytest.approx(2 * 3.0 + 4 * 0.5 + 20 * 0.2))
    meter.begin("b")
    two = Mean((1.0, 1.0), (TanimotoMinMax(), TanimotoMinMax()), ((0, 1), (1, 2)))
    score = meter(two)
    for _ in range(4):
        score(1.0)
    assert told[-1] == ("b", pytest.approx(20 * 0.2))


def test_a_kernel_of_several_terms_counts_for_each() -> None:
    told: list[tuple[str, float]] = []
    machine = Machine(3.0, 0.0)
    meter = Meter(machine, lambda *what: told.append(what), [Work(2, 1), Work(1, 0)], 1000, machine.clock)
    meter.begin("both")
    meter(Mean((1.0, 1.0), (TanimotoMinMax(), TanimotoMinMax()), ((0, 1), (1, 2))))(1.0)
    assert told[-1] == ("both", pytest.approx(3.0))


def test_a_trial_that_is_left_out_takes_no_time() -> None:
    told: list[tuple[str, float]] = []
    machine = Machine(1.0, 1.0)
    meter = Meter(
        machine, lambda *what: told.append(what), [Work(1, 1), Work(9, 9), Work(1, 0)], 0, machine.clock
    )
    meter.begin("a")
    meter(TanimotoMinMax())(1.0)
    assert told[-1][1] == pytest.approx(9 + 9 + 1)
    meter.skip()
    meter.begin("c")
    assert told[-1] == ("c", pytest.approx(1.0))
