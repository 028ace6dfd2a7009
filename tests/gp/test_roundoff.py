"""Features in single precision give the fit of double precision, or none."""

from __future__ import annotations

import re

import numpy as np
import pytest

from daskrf.errors import InputError
from daskrf.features import NystromFeatures
from daskrf.gp import RandomFeatureGP, SufficientStatistics, enough_precision
from daskrf.gp.solve.roundoff import CoarseSumsError, check_claim
from daskrf.gp.sums.sums import GramStrip, assemble
from daskrf.kernels import Gaussian
from tests.features.maps import MAPS

M = 64
DENSE = [
    name
    for name, case in MAPS.items()
    if not case.make(4, random_state=0).one_bit and case.components is None
]


def features(name: str, n: int) -> np.ndarray:
    """Return float32 features of n rows, most of them different."""
    case = MAPS[name]
    return case.make(M, random_state=3).fit(case.rows(n)).transform(case.rows(n))


def smooth(n: int) -> np.ndarray:
    """Return features whose Gram matrix has hardly any rank: a smooth kernel of two columns."""
    landmarks, X = (np.random.default_rng(seed).uniform(-2, 2, (size, 2)) for seed, size in ((6, M), (5, n)))
    return NystromFeatures(M, kernel=Gaussian(1.0), random_state=3).fit(landmarks).transform(X)


def labels(phi: np.ndarray, noise: float, seed: int = 0) -> np.ndarray:
    """Return a function in the span of the features, of variance 1, and noise."""
    rng = np.random.default_rng(seed)
    f = phi.astype(np.float64) @ rng.standard_normal(phi.shape[1])
    return 3.0 + f / max(f.std(), 1e-9) + np.sqrt(noise) * rng.standard_normal(len(f))


def assert_same_fit(
    found: RandomFeatureGP, expected: RandomFeatureGP, phi: np.ndarray, y: np.ndarray
) -> None:
    """Compare as closely as the documentation promises."""
    evidences = found.log_marginal_likelihood_value_, expected.log_marginal_likelihood_value_
    assert abs(evidences[0] - evidences[1]) <= 1e-4 * len(y)
    for name in ("signal_variance_", "noise_variance_"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-3)
    means, deviations = found.predict(phi, return_std=True)
    exact_means, exact_deviations = expected.predict(phi.astype(np.float64), return_std=True)
    assert np.abs(means - exact_means).max() <= 1e-4 * y.std()
    np.testing.assert_allclose(deviations, exact_deviations, rtol=1e-3)


def partial_sums(phi: np.ndarray, y: np.ndarray) -> SufficientStatistics:
    """Return the sums of parts of the rows, added up."""
    parts = zip(np.array_split(phi, 3), np.array_split(y, 3), strict=True)
    first, *rest = (SufficientStatistics.from_chunk(*part) for part in parts)
    for part in rest:
        first += part
    return first


def strips(phi: np.ndarray, y: np.ndarray) -> SufficientStatistics:
    """Return the sums with a Gram matrix that was made in strips."""
    sums = SufficientStatistics.zero(M, 1, one_bit=False, gram=False).update(phi, y)
    columns = (0, 40), (40, M)
    return assemble(sums, (GramStrip.zero(M, part, one_bit=False).update(phi) for part in columns))


@pytest.mark.parametrize("n", [5, M, 5 * M])
@pytest.mark.parametrize("name", [*DENSE, "smooth"])
def test_features_in_single_precision_give_the_fit_of_double(name: str, n: int) -> None:
    whole = smooth(5 * M) if name == "smooth" else features(name, 5 * M)
    phi = whole[:n]
    for noise in (1e-4, 1.0):
        y = labels(phi, noise, seed=n)
        exact = RandomFeatureGP().fit(phi.astype(np.float64), y)
        if exact.at_bound_[0]:  # where the evidence is flat, its maximum is anywhere
            continue
        for method in ("eigh", "cholesky"):
            assert_same_fit(RandomFeatureGP(method=method).fit(phi, y), exact, whole, y)
        for sums in (partial_sums, strips):
            assert_same_fit(RandomFeatureGP().fit_statistics(sums(phi, y)), exact, whole, y)


@pytest.mark.parametrize("n", [M // 2, M])
def test_coarse_sums_of_few_rows_are_refused(n: int) -> None:
    phi = smooth(n)
    y = labels(phi, 1e-4)
    coarse = SufficientStatistics.from_chunk(phi, y, precision="single")
    for method in ("eigh", "cholesky"):
        with pytest.raises(CoarseSumsError, match=r"precision='double'"):
            RandomFeatureGP(method=method).fit_statistics(coarse)


def test_a_refusal_tells_what_rounding_could_change() -> None:
    """Twice as much or half, since traces are estimated: by formulas of whole matrices."""
    phi = smooth(M)
    y = labels(phi, 1e-4)
    coarse = SufficientStatistics.from_chunk(phi, y, precision="single")
    with pytest.raises(CoarseSumsError) as refusal:
        RandomFeatureGP(mean=3.0, signal_variance=2.0, noise_variance=1e-4).fit_statistics(coarse)
    told = re.search(r"by (\S+) a label, and predictions by (\S+) of the labels' spread", str(refusal.value))
    assert told
    gram = phi.astype(np.float64).T @ phi
    inverse = np.linalg.inv(gram + 1e-4 / 2.0 * np.eye(M))
    scales = np.sqrt(np.diag(gram))
    moved = np.square(scales * (inverse @ (phi.T @ (y - 3.0)))).sum()
    change = scales[:, None] * inverse * scales
    evidence = (moved / 1e-4 + np.linalg.norm(change)) / (np.sqrt(2.0) * M)
    spread = np.linalg.norm(phi @ inverse * scales)
    means = np.sqrt(moved / M) * spread / y.std()
    error = coarse.moments().gram_error
    for found, expected in zip(told.groups(), (error * evidence, error * means), strict=True):
        assert 0.5 < float(found) / expected < 2.0


def test_many_rows_are_summed_again_only_where_their_noise_is_tiny() -> None:
    phi = smooth(6 * M)
    assert enough_precision(len(phi), M) == "single"
    for noise, precision in ((1.0, "single"), (1e-9, "double")):
        y = labels(phi, noise)
        gp = RandomFeatureGP().fit(phi, y)
        assert gp.statistics_.precision == precision
        exact = RandomFeatureGP().fit(phi.astype(np.float64), y)
        assert_same_fit(gp, exact, phi, y)


def test_rows_that_are_added_are_summed_as_all_of_them_need() -> None:
    phi = smooth(6 * M)
    y = labels(phi, 0.1)
    gp = RandomFeatureGP().fit(phi[:M], y[:M])
    assert gp.statistics_.precision == "double"
    assert gp.partial_fit(phi[M : 2 * M], y[M : 2 * M]).statistics_.precision == "double"
    assert gp.partial_fit(phi[2 * M :], y[2 * M :]).statistics_.precision == "single"


def test_a_fit_that_contradicts_its_sums_is_refused() -> None:
    phi = smooth(3 * M)
    spoilt = SufficientStatistics.from_chunk(phi, labels(phi, 0.01))
    spoilt.phi_y *= 3.0  # more than there is to explain
    with pytest.raises(InputError, match="contradicts itself"):
        RandomFeatureGP().fit_statistics(spoilt)
    check_claim(-100.0, -100.1, 30)
    with pytest.raises(InputError, match="-100 by the search, but -101 by its weights"):
        check_claim(-100.0, -101.0, 30)
    with pytest.raises(InputError, match="contradicts itself"):
        check_claim(1437.0, float("nan"), 80)


def test_the_rounding_of_entries_is_what_moments_say() -> None:
    """Of 20 blocks of features; a block's largest standard deviation is at most what is counted with."""
    rng = np.random.default_rng(0)
    for scale in (1.0, 100.0):
        phi = (rng.standard_normal((4_096, M)) * scale ** rng.standard_normal(M)).astype(np.float32)
        single, double = (
            SufficientStatistics.from_chunk(phi, np.ones(len(phi)), precision=precision).moments()
            for precision in ("single", "double")
        )
        lengths = np.sqrt(np.outer(np.diag(double.gram), np.diag(double.gram)))
        found = ((single.gram - double.gram) / lengths)[np.triu_indices(M)].std()
        assert 0.05 * single.gram_error < found < single.gram_error
        assert double.gram_error == pytest.approx(single.gram_error * 2.0**-29)
    assert SufficientStatistics.from_chunk(np.zeros((2, 1), np.uint8), [1.0, 2.0]).moments().gram_error == 0.0
