"""Deviations of features that leave a part of the kernel out: not small where they know nothing of a row."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from daskrf.errors import CalibrationWarning, InputError
from daskrf.features import (
    GaussianMaclaurinFeatures,
    LandmarkFeatures,
    LocalGaussianFeatures,
    NystromFeatures,
    RandomFourierFeatures,
    TanimotoMinMaxFeatures,
)
from daskrf.gp import RandomFeatureGP, gp_for, model_from_state
from daskrf.gp.sums.chunks import sum_rows
from daskrf.gp.sums.fixedpoint import choose_exponent
from daskrf.kernels import Composition, Gaussian, Intersection, Kernel, TanimotoMinMax
from tests.features.maps import MAPS as maps_of_the_contract
from tests.naive import gp as naive

GAUSSIAN = Gaussian(2.5)
N_NEW = 150


def rows(n: int, seed: int) -> np.ndarray:
    """Return counts of 40 columns, each of its own rate: few rows are near to others."""
    rng = np.random.default_rng(seed)
    return rng.poisson(rng.gamma(0.5, 1.0, 40), (n, 40))


def drawn(kernel: Kernel, X: np.ndarray, noise: float, seed: int) -> np.ndarray:
    """Return labels of a draw of the process with this kernel, of variance 1, and noise."""
    rng = np.random.default_rng(seed)
    K = kernel(X) / np.mean(kernel.diag(X))
    f = np.linalg.cholesky(K + 1e-9 * np.eye(len(X))) @ rng.standard_normal(len(X))
    return f + np.sqrt(noise) * rng.standard_normal(len(X))


def fitted(feature_map, X, y):
    """Fit the model for a map to rows that the map has seen."""
    exponents = choose_exponent(y) if feature_map.one_bit else None
    sums = sum_rows(X, y[:, None], feature_map, n_components=None, exponents=exponents)
    return gp_for(feature_map).fit_statistics(sums, feature_map)


MAPS = {
    "nystrom": (lambda n: NystromFeatures(n), TanimotoMinMax()),
    "nystrom, few": (lambda n: NystromFeatures(n // 4), TanimotoMinMax()),
    "nystrom gaussian": (lambda n: NystromFeatures(n, kernel=GAUSSIAN), GAUSSIAN),
    "nystrom intersection": (lambda n: NystromFeatures(n, kernel=Intersection()), Intersection()),
    "landmarks": (lambda n: LandmarkFeatures(n), TanimotoMinMax()),
    "landmarks, few": (lambda n: LandmarkFeatures(n // 8), TanimotoMinMax()),
    "gaussian maclaurin": (lambda n: GaussianMaclaurinFeatures(64, length_scale=4.0), Gaussian(4.0)),
    "local": (lambda n: LocalGaussianFeatures(96, length_scale=4.0, n_centroids=3), Gaussian(4.0)),
    "fourier": (lambda n: RandomFourierFeatures(GAUSSIAN, 256), GAUSSIAN),
    "bits": (lambda n: TanimotoMinMaxFeatures(256), TanimotoMinMax()),
}


def forgotten(maps: dict[str, Any]) -> set[str]:
    """Return the maps whose features leave a part of the kernel out, and which some maps lack."""
    made = (case.make() for case in maps_of_the_contract.values())
    lacking = {type(each) for each in made if each.projected_kernel is not None}
    return {cls.facts.name for cls in lacking - {type(make(80)) for make, _ in maps.values()}}


def test_every_map_that_leaves_a_part_out_is_here() -> None:
    missing = forgotten(MAPS)
    assert not missing, (
        f"add {', '.join(sorted(missing))} with its kernel to MAPS in tests/gp/test_left_out.py"
    )
    assert forgotten({"bits": MAPS["bits"]}) >= {"nystrom", "gaussian-maclaurin"}


@pytest.mark.parametrize("n", [80, 400])
@pytest.mark.parametrize("name", MAPS)
def test_standardised_errors_are_of_order_one(name: str, n: int) -> None:
    """Over five draws and 750 held-out rows: with independent errors z is known to 3 %."""
    make, kernel = MAPS[name]
    for noise in (1e-4, 1e-2, 1.0):
        z = []
        for seed in range(5):
            X = rows(n + N_NEW, seed)
            y = drawn(kernel, X, noise, seed)
            gp = fitted(make(n).set_params(random_state=seed).fit(X[:n]), X[:n], y[:n])
            mean, std = gp.predict(X[n:], return_std=True)
            z.append((y[n:] - mean) / std)
        assert 0.5 < np.std(z) < 2.0, noise


def test_means_are_those_of_the_features_and_variances_have_what_they_lack() -> None:
    """By the formulas: the signal variance where the noise was given, else what the noise leaves room for."""
    X, new = rows(60, 0), rows(9, 1)
    kernel = Gaussian(8.0)
    y = drawn(kernel, X, 0.01, 0)
    feature_map = NystromFeatures(6, kernel=kernel).fit(X)
    phi, phi_new = (feature_map.transform(part).astype(np.float64) for part in (X, new))
    left, left_new = (1.0 - np.square(part).sum(axis=1) for part in (phi, phi_new))
    for given in ({}, {"mean": 0.1, "signal_variance": 0.7}, {"noise_variance": 0.1}):
        gp = RandomFeatureGP(feature_map, **given).fit(X, y)
        signal_variance, noise = gp.signal_variance_[0], gp.noise_variance_[0]
        mean_left, left_out = 0.0, signal_variance
        if "noise_variance" not in given:
            mean_left, left_out = naive.left_out(phi, np.ones(len(X)), signal_variance, noise)
            assert left_out < signal_variance
        assert mean_left in (0.0, pytest.approx(left.mean()))
        assert (gp.mean_left_, gp.left_out_[0]) == pytest.approx((mean_left, left_out), rel=1e-5)
        mean, covariance = naive.posterior(phi, y, phi_new, gp.mean_[0], signal_variance, noise)
        found, std_f, std_y = gp.predict(new, return_std=True, of="both")
        explained = np.diag(covariance)
        np.testing.assert_allclose(found, mean, rtol=1e-5, atol=1e-6)  # features are in single precision
        np.testing.assert_allclose(std_f**2, explained + left_out * left_new, rtol=1e-4)
        extra = left_out * np.maximum(left_new - mean_left, 0.0)
        np.testing.assert_allclose(std_y**2, explained + noise + extra, rtol=1e-4)
        for of, std in (("f", std_f), ("y", std_y)):
            assert gp.predict(new, return_std=True, of=of)[1].tobytes() == std.tobytes()
            joint = gp.predict(new, return_cov=True, of=of)[1]
            np.testing.assert_allclose(np.diag(joint), std**2, rtol=1e-6)
            assert np.linalg.eigvalsh(joint).min() > -1e-9
            draws = gp.sample_y(new, 1_000, of=of)  # which share 4,096 random features
            np.testing.assert_allclose(draws.var(axis=1), std**2, rtol=5 * np.sqrt(2 / 1_000 + 6 / 4096))


def test_the_intersection_is_not_one_between_a_row_and_itself() -> None:
    X = rows(50, 2)
    y = drawn(Intersection(), X, 0.01, 0)
    feature_map = NystromFeatures(30, kernel=Intersection()).fit(X)
    gp = fitted(feature_map, X, y)
    mean, std = gp.predict(X, return_std=True)
    state = json.loads(json.dumps(gp.state()))
    again = model_from_state(state, gp.arrays())
    assert again.predict(X, return_std=True)[1].tobytes() == std.tobytes()
    again.feature_map_ = None  # as workers have it, which are given features
    phi, diagonal = feature_map.transform(X), Intersection().diag(X)
    assert again.predict(phi).tobytes() == mean.tobytes()
    assert again.predict(phi, return_std=True, diagonal=diagonal)[1].tobytes() == std.tobytes()
    with pytest.raises(InputError, match=r"pass diagonal=k\(x, x\) for each row"):
        again.predict(phi, return_std=True)
    for bad in (diagonal[:-1], -diagonal, diagonal * np.nan):
        with pytest.raises(InputError, match="diagonal must be k"):
            again.predict(phi, return_std=True, diagonal=bad)


def test_doubtful_deviations_are_said_to_be_doubtful() -> None:
    X = rows(60, 3)
    far = GaussianMaclaurinFeatures(100, length_scale=0.6).fit(X)  # which vanish far from the mean
    gp = fitted(far, X, drawn(Gaussian(0.6), X, 1e-4, 0))
    assert any("do not trust the standard deviations" in caution for caution in gp.cautions())
    rng = np.random.default_rng(0)
    Z = np.linspace(-3, 3, 200)[:, None]
    local = LocalGaussianFeatures(80, length_scale=0.5, n_centroids=4).fit(Z)
    for noise, rows_, said in ((1e-6, "all", True), (1e-6, "nearest", False), (1.0, "all", False)):
        y = np.sin(3 * Z[:, 0]) + np.sqrt(noise) * rng.standard_normal(200)
        model = gp_for(local, rows=rows_).fit_statistics(
            sum_rows(Z, y[:, None], local, n_components=None, exponents=None), local
        )
        assert (
            any("posteriors of all rows are overconfident" in caution for caution in model.cautions()) == said
        )
    with pytest.warns(CalibrationWarning, match="sees no noise"):
        RandomFeatureGP(NystromFeatures(60, kernel=GAUSSIAN)).fit(X, drawn(GAUSSIAN, X, 1e-6, 2))


@pytest.mark.parametrize(
    ("kernel", "longer"), [(Composition(), False), (TanimotoMinMax(), False), (Gaussian(0.6), True)]
)
def test_doubts_give_the_numbers_and_advice_that_applies(kernel: Kernel, longer: bool) -> None:
    X = rows(200, 3)
    y, feature_map = X.sum(axis=1).astype(float), LandmarkFeatures(10, kernel=kernel).fit(X)
    sums = sum_rows(X, y[:, None], feature_map, n_components=None, exponents=None)
    for signal_variance in (100.0, 1e4):
        gp = gp_for(feature_map, signal_variance=signal_variance).fit_statistics(sums, feature_map)
        noise = float(gp.noise_variance_[0]) / signal_variance
        assert bool(gp.cautions()) == (signal_variance == 1e4)
    (caution,) = gp.cautions()
    assert f"the noise is only {100 * noise:.2g}% of the signal variance" in caution
    assert f"leave out {gp.mean_left_:.0%} of the kernel" in caution
    assert ("length scale" in caution) == longer
