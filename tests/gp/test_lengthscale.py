"""The length scale by the evidence of features on a sample."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

from daskrf.errors import InputError
from daskrf.features import (
    CompositionFeatures,
    FastfoodFeatures,
    LandmarkFeatures,
    MeanFeatures,
    RandomFourierFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.features.featuremap import undecided
from daskrf.gp import (
    ExactGP,
    LengthScaleSearch,
    RandomFeatureGP,
    SparseGP,
    choose_length_scale,
    with_length_scale,
)
from daskrf.kernels import Gaussian, Matern
from tests.jit import jit_disabled

compiled_only = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")


def sample(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Return a draw from a Gaussian process with the length scale 0.8."""
    rng = np.random.default_rng(4)
    X = rng.uniform(-2, 2, (n, 2))
    y = np.linalg.cholesky(Gaussian(0.8)(X) + 1e-8 * np.eye(n)) @ rng.normal(size=n)
    return X, y + 0.05 * rng.normal(size=n)


@compiled_only
@pytest.mark.parametrize("make", [FastfoodFeatures, RandomFourierFeatures])
def test_the_length_scale_of_a_draw_is_found(make) -> None:
    X, y = sample()
    found = choose_length_scale(make(Gaussian(77.0), 200), X, y, n_trials=15)
    # Few features want another one than the kernel does.
    assert 0.4 < found.length_scale < 1.3
    assert found.length_scales == tuple(sorted(found.length_scales))
    assert len(found.length_scales) == len(found.log_evidences) <= 16
    assert found.feature_map.kernel == Gaussian(found.length_scale)
    again = RandomFeatureGP(found.feature_map).fit(X, y)
    assert float(again.log_marginal_likelihood_value_) == pytest.approx(max(found.log_evidences))
    exact = ExactGP(Gaussian(found.length_scale)).fit(X, y)
    assert abs(float(exact.log_marginal_likelihood_value_) - max(found.log_evidences)) < 40


def test_a_sample_of_sparse_rows_and_given_bounds() -> None:
    X, y = sample(60)
    feature_map = FastfoodFeatures(Matern(1.0, nu=2.5), 16, random_state=2)
    found = choose_length_scale(feature_map, sp.csr_matrix(X), y, n_rows=30, bounds=(0.5, 2.0), n_trials=3)
    assert all(0.5 <= length <= 2.0 for length in found.length_scales)
    assert found.feature_map.kernel == Matern(found.length_scale, nu=2.5)
    dense = choose_length_scale(feature_map, X, y, n_rows=30, bounds=(0.5, 2.0), n_trials=3)
    assert dense.log_evidences == found.log_evidences
    assert feature_map.kernel == Matern(1.0, nu=2.5)


def test_bad_input() -> None:
    X, y = sample(20)
    feature_map = FastfoodFeatures(n_components=8)
    with pytest.raises(InputError, match="TanimotoMinMaxFeatures has no kernel with a length scale"):
        with_length_scale(TanimotoMinMaxFeatures(), 1.0)
    with pytest.raises(InputError, match="one label, or one row of labels"):
        choose_length_scale(feature_map, X, y[:-1])
    with pytest.raises(InputError, match="0 < low < high"):
        choose_length_scale(feature_map, X, y, bounds=(2.0, 1.0))
    with pytest.raises(InputError, match="All rows are equal"):
        choose_length_scale(feature_map, np.ones((20, 2)), y)
    for rows, n_rows in ((0, 10), (20, 0)):
        with pytest.raises(InputError, match="no rows to choose a length scale from"):
            choose_length_scale(feature_map, X[:rows], y[:rows], n_rows=n_rows)


def test_targets_are_summed_each_on_its_own_rows() -> None:
    X, y = sample(60)
    both = np.column_stack([y, np.where(np.arange(60) % 3, 2 * y, np.nan)])
    feature_map = FastfoodFeatures(Gaussian("auto"), 16)
    found = choose_length_scale(feature_map, X, both, bounds=(0.5, 2.0), n_trials=3)
    known = np.isfinite(both[:, 1])
    for length, evidence in zip(found.length_scales, found.log_evidences, strict=True):
        one = with_length_scale(feature_map, length)
        parts = RandomFeatureGP(one).fit(X, y), RandomFeatureGP(one).fit(X[known], both[known, 1])
        assert evidence == pytest.approx(sum(float(gp.log_marginal_likelihood_value_) for gp in parts))
    again = LengthScaleSearch.from_state(json.loads(json.dumps(found.state())), feature_map)
    assert (again.length_scale, again.log_evidences) == (found.length_scale, found.log_evidences)
    assert again.feature_map.kernel == found.feature_map.kernel
    assert str(found).count("  taken") == 1


def test_length_scales_inside_of_other_maps_are_found() -> None:
    X, y = sample(40)
    inner = RandomFourierFeatures(Gaussian("auto"), 16)
    for feature_map in (CompositionFeatures(inner=inner), MeanFeatures((1, 2), inner, columns=1)):
        feature_map.set_params(n_components=16)
        assert undecided(feature_map)
        found = choose_length_scale(feature_map, X, y, n_trials=2)
        assert not undecided(found.feature_map)
        assert found.feature_map.inner.kernel == Gaussian(found.length_scale)


def test_options_of_the_process_are_used() -> None:
    X, y = sample(60)
    feature_map = LandmarkFeatures(16, kernel=Gaussian("auto"))
    given = {"noise_variance": 0.3, "criterion": "bound"}
    found = choose_length_scale(feature_map, X, y, n_trials=2, options=given)
    gp = SparseGP(found.feature_map, **given).fit(X, y)
    assert max(found.log_evidences) == pytest.approx(float(gp.log_marginal_likelihood_value_))
