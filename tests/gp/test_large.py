"""What is done otherwise for many features, tried on few: fewer steps, and a say before memory is taken."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daskrf.arrays import unpack_bits
from daskrf.errors import MemoryLimitError
from daskrf.features import TanimotoMinMaxFeatures
from daskrf.gp import RandomFeatureGP, SufficientStatistics
from daskrf.gp.processes.evidence import Fixed, Peak, approach_evidence, maximize_evidence
from daskrf.gp.solve.solvers import CholeskySolver, EigenSolver
from tests.bits import pack_signs
from tests.gp.strategies import SEEDS


def _problem(seed: int, n: int, size: int, noise: float, n_targets: int = 1) -> SufficientStatistics:
    """Return statistics of random signs, and of linear functions of them with noise."""
    rng = np.random.default_rng(seed)
    bits = pack_signs(rng.integers(0, 2, (n, size)) * 2 - 1)
    weights = rng.standard_normal((size, n_targets)) / np.sqrt(size)
    y = 3 + unpack_bits(bits, size, np.float64) @ weights + noise * rng.standard_normal((n, n_targets))
    return SufficientStatistics.from_chunk(bits, y, n_components=size)


@given(SEEDS, st.integers(20, 120), st.integers(8, 60), st.floats(0.01, 30), st.integers(1, 2))
@settings(derandomize=True, deadline=None, max_examples=12)
def test_few_steps_find_the_evidence_of_many(
    seed: int, n: int, size: int, noise: float, n_targets: int
) -> None:
    statistics = _problem(seed, n, size, noise, n_targets)
    plain = RandomFeatureGP(method="cholesky").fit_statistics(statistics)
    with patch("daskrf.gp.processes.evidence._LARGE", 0):
        found = RandomFeatureGP(method="cholesky").fit_statistics(statistics)
    assert (found.log_marginal_likelihoods_ > plain.log_marginal_likelihoods_ - 0.03).all()


@pytest.mark.parametrize("given", [{"mean": 3.0}, {"noise_variance": 0.3}, {"signal_variance": 0.9}])
def test_given_hyperparameters_are_kept_in_few_steps(given: dict[str, float]) -> None:
    statistics = _problem(5, 400, 100, 0.5)
    plain = RandomFeatureGP(method="cholesky", **given).fit_statistics(statistics)
    with patch("daskrf.gp.processes.evidence._LARGE", 0):
        found = RandomFeatureGP(method="cholesky", **given).fit_statistics(statistics)
    for name, value in given.items():
        assert getattr(found, f"{name}_")[0] == pytest.approx(value, rel=1e-12)
    assert found.log_marginal_likelihoods_[0] > plain.log_marginal_likelihoods_[0] - 0.03


@pytest.mark.parametrize("offset", [0.5, 0.8, 1.05, 1.4, 2.6])
def test_a_start_that_is_far_off_costs_no_evidence(offset: float) -> None:
    """A parabola through distant points, or of another curvature, seems to be at its top before it is."""
    solver, fixed = EigenSolver(_problem(3, 8_000, 60, 0.5).moments()), Fixed()
    best, _ = maximize_evidence(solver, 0, fixed)
    for curvature in (None, 50.0, 1_000.0):
        start = Peak(math.log(best.ratio) + offset, curvature)
        found, _, _ = approach_evidence(solver, 0, fixed, start)
        assert found.log_marginal_likelihood > best.log_marginal_likelihood - 0.03


def test_four_factorizations_at_most() -> None:
    """Of all features, where the evidence has its usual form."""
    sizes: list[int] = []
    plain = CholeskySolver.quadratics

    def counted(self: CholeskySolver, ratio: float):
        if ratio not in self._known:
            sizes.append(len(self.moments.phi_sum))
        return plain(self, ratio)

    rng = np.random.default_rng(0)
    sets = (rng.random((1_500, 200)) < 0.3 * np.exp(-np.arange(200) / 60)).astype(np.uint16)
    y = sets @ rng.standard_normal(200) + rng.standard_normal(1_500)
    bits = TanimotoMinMaxFeatures(512).fit(sets).transform_bits(sets)
    statistics = SufficientStatistics.from_chunk(bits, y)
    with patch("daskrf.gp.processes.evidence._LARGE", 0), patch.object(CholeskySolver, "quadratics", counted):
        RandomFeatureGP(method="cholesky").fit_statistics(statistics)
    assert set(sizes) == {128, 256, 512}
    assert sizes.count(512) <= 4


def test_an_eigendecomposition_can_be_refused_before_it_starts() -> None:
    """Without noise Cholesky factors lose digits, and an eigendecomposition would follow."""
    asked: list[int] = []

    def refuse() -> None:
        asked.append(1)
        raise MemoryLimitError("no room")

    gp = RandomFeatureGP(method="cholesky")
    with pytest.raises(MemoryLimitError, match="no room"):
        gp.fit_statistics(_problem(0, 60, 50, 0.0), before_eigen=refuse)
    assert asked == [1]
    gp.fit_statistics(_problem(0, 200, 50, 0.5), before_eigen=refuse)  # with noise nobody asks
    assert asked == [1]
    gp.fit_statistics(_problem(0, 60, 50, 0.0))
