"""Kernels chosen among the best ones by labels that are limits, too."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from daskrf.gp.choice.limitchoice import choose_with_limits
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.kerneltrials import KernelChoice, Trial
from daskrf.kernels import Gaussian
from tests.gp.test_limits import censored

SMOOTH, RIGHT = Gaussian(30.0), Gaussian(1.0)


def choice(*kernels: Gaussian) -> KernelChoice:
    trials = tuple(Trial(kernel, f"trial {k}", -1.0 - 0.01 * k, 0.5) for k, kernel in enumerate(kernels))
    return KernelChoice(kernels[0], trials, 100, 100)


def test_strong_evidence_of_labels_and_limits_takes_another_kernel():
    X, _, y, side = censored(120, 0)
    result = choose_with_limits(choice(SMOOTH, RIGHT), X, y, side)
    assert result.kernel == RIGHT
    want = ExactGP(RIGHT).fit(X, y, side=side).log_marginal_likelihood_value_
    assert result.evidence[1] == pytest.approx(want, abs=1.0)  # without the prior against no noise
    assert result.evidence[1] > result.evidence[0] + 3
    assert "Log evidence of labels and limits together: " in str(result)
    assert "taken" in str(result).splitlines()[2]
    again = KernelChoice.from_state(json.loads(json.dumps(result.state())))
    assert again == result


def test_weak_evidence_changes_nothing_but_the_record():
    X, _, y, side = censored(120, 0)
    result = choose_with_limits(choice(Gaussian(1.05), RIGHT), X, y, side)
    assert result.kernel == Gaussian(1.05)
    assert set(result.evidence) == {0, 1}


def test_what_was_not_chosen_by_labels_left_out_stays():
    X, _, y, side = censored(120, 0)
    first = choice(SMOOTH, RIGHT)
    few = np.where(np.arange(len(side)) < 40, side, 0).astype(np.int8)
    few[np.flatnonzero(few)[10:]] = 0
    for other, sides in (
        (replace(first, asked=SMOOTH), side),
        (replace(first, variances={"signal_variance": 1.0}), side),
        (KernelChoice(SMOOTH), side),
        (first, few),
    ):
        assert choose_with_limits(other, X, y, sides) is other
    assert "evidence" not in first.state()
