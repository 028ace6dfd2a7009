"""Several targets with gaps: each has the process of all of its own rows."""

from __future__ import annotations

import json

import numpy as np
import pytest

from daskrf.errors import InputError
from daskrf.features import LandmarkFeatures, NystromFeatures, TanimotoMinMaxFeatures
from daskrf.gp import SeparateGP, gp_for, model_from_state
from daskrf.gp.sums.chunks import sum_rows
from daskrf.gp.sums.fixedpoint import choose_exponent

RNG = np.random.default_rng(0)
X = RNG.poisson(0.7, (60, 12))
Y = X @ RNG.standard_normal((12, 4)) + RNG.standard_normal((60, 4))
ROWS = [np.arange(60), np.arange(40), np.arange(20, 60)]
TARGETS = [[2], [3, 0], [1]]


def processes(feature_map):
    """Return a process for each set of rows, and the one of all of them."""
    feature_map.fit(X)
    parts = []
    for rows, targets in zip(ROWS, TARGETS, strict=True):
        y = Y[np.ix_(rows, targets)]
        exponents = choose_exponent(y) if feature_map.one_bit else None
        sums = sum_rows(X[rows], y, feature_map, n_components=None, exponents=exponents)
        parts.append(gp_for(feature_map).fit_statistics(sums, feature_map))
    return parts, SeparateGP(parts, TARGETS)


@pytest.mark.parametrize(
    "feature_map", [TanimotoMinMaxFeatures(64), NystromFeatures(20), LandmarkFeatures(20)], ids=repr
)
def test_each_target_is_predicted_by_its_own_process(feature_map):
    parts, gp = processes(feature_map)
    again = model_from_state(json.loads(json.dumps(gp.state())), gp.arrays())
    for model in (gp, again):
        means, std_f, std_y = model.predict(X, return_std=True, of="both")
        assert means.shape == std_f.shape == std_y.shape == (60, 4)
        np.testing.assert_allclose(model.predict(X), means, rtol=1e-5, atol=1e-6)
        for part, targets in zip(parts, TARGETS, strict=True):
            for own, target in enumerate(targets):
                expected = part.predict(X, return_std=True, of="both", target=own)
                found = means[:, target], std_f[:, target], std_y[:, target]
                for ours, theirs, alone in zip(
                    found, expected, model.predict(X, return_std=True, of="both", target=target), strict=True
                ):
                    # Of features to the last digits only, which some BLAS make so by where rows begin.
                    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
                    np.testing.assert_allclose(alone, theirs, rtol=1e-5, atol=1e-6)
                assert (model.noise_variance_[target], model.mean_[target]) == (
                    part.noise_variance_[own],
                    part.mean_[own],
                )
                assert model.weights_[:, target].tobytes() == part.weights_[:, own].tobytes()
                drawn = model.draw(3, target).weights_
                assert drawn.tobytes() == part.draw(3, own).weights_.tobytes()
                assert model.cautions(target) == part.cautions(own)
    means_only = model_from_state(gp.state(), {"weights": gp.weights_})
    assert (gp.statistics_ is None, means_only.statistics_ is None) == (False, True)
    assert means_only.predict(X).tobytes() == means.tobytes()
    means_only.feature_map_ = None
    phi = feature_map.transform_bits(X) if feature_map.one_bit else feature_map.transform(X)
    assert means_only.predict(phi).tobytes() == means.tobytes()


def test_targets_are_all_there_once():
    parts, _ = processes(TanimotoMinMaxFeatures(64))
    for wrong in ([[0], [1, 2], [2]], [[0], [1], [2]], [[0], [1, 2], [4]], [[0], [1, 2]]):
        with pytest.raises(InputError, match="do not match models of"):
            SeparateGP(parts, wrong)
