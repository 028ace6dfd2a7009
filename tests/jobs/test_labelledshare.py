"""The measured share of the best: as by one list of all molecules, sampled and only counted ones."""

from __future__ import annotations

import numpy as np
import pytest

from daskrf.screens.labelledshare import labelled_share


@pytest.mark.parametrize("seed", range(60))
def test_the_share_is_that_of_one_list(seed: int) -> None:
    """Also where all that is sampled is worse than what is only counted, or a label ends the best k."""
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 12), random.integers(0, 12), random.integers(0, 40)
    measured, others, counted = (
        random.normal(shift, 1.0, n) for shift, n in zip((0, 0, 2), sizes, strict=True)
    )
    for k in range(1, len(measured) + len(others) + 1):
        share, more, last = labelled_share(measured, others, k, lambda v: float((counted > v).sum()))
        every = np.sort(np.concatenate([measured, others, counted]))[::-1]
        assert share == pytest.approx((measured >= every[k - 1]).sum() / k)
        assert share + more <= 1.0 + 1e-12
        assert last <= every[k - 1]
