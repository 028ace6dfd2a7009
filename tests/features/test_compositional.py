"""One-bit features of power series of the min-max Tanimoto kernel."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from daskrf import seeds
from daskrf.arrays import unpack_bits
from daskrf.errors import InputError
from daskrf.features import CompositionFeatures, TanimotoMinMaxFeatures, from_state
from daskrf.features.sketches import hashing
from daskrf.kernels import (
    Composition,
    DotProduct,
    DotProductKernel,
    Exponential,
    Polynomial,
    Ratio,
    TanimotoMinMax,
)
from tests.features.maps import counts, weights
from tests.jit import jit_disabled

compiled_only = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")

SIZE = 70 if jit_disabled() else 150
SERIES: dict[str, DotProductKernel] = {
    "square": Polynomial(2, c=0.0),
    "exponential": Exponential(2.5),
    "ratio": Ratio(),
    "coefficients": DotProduct((0.5, 1, 0, 2)),
}


def one_bit(
    outer: DotProductKernel, size: int = 4096, hashing: str = "minwise", random_state: int = 0
) -> CompositionFeatures:
    """Return the map of a power series of T."""
    inner = TanimotoMinMaxFeatures(hashing=hashing)
    return CompositionFeatures(outer, inner, size, random_state=random_state)


@pytest.mark.parametrize("hashing", ["minwise", "cws"])
def test_the_first_power_is_the_plain_map(hashing: str) -> None:
    kernel = Polynomial(1, c=0.0)
    bits = one_bit(kernel, SIZE, hashing, random_state=3).transform_bits(counts())
    plain = TanimotoMinMaxFeatures(SIZE, hashing=hashing, random_state=3)
    assert (bits == plain.transform_bits(counts())).all()


@pytest.mark.parametrize("name", sorted(SERIES))
def test_features_are_products_of_plain_ones(name: str) -> None:
    """Feature m is the product of the next N_m features of the plain map of the same seed."""
    feature_map = one_bit(SERIES[name], SIZE, random_state=4)
    degrees = feature_map.degrees()
    plain = TanimotoMinMaxFeatures(int(degrees.sum()), random_state=4)
    signs = unpack_bits(plain.transform_bits(counts()), plain.n_components)
    stops = np.cumsum(degrees)
    expected = [signs[:, stop - n : stop].prod(axis=1) for stop, n in zip(stops, degrees, strict=True)]
    actual = unpack_bits(feature_map.transform_bits(counts()), SIZE)
    assert (actual == np.transpose(expected)).all()


@compiled_only
@pytest.mark.parametrize("n_factors", [64, 100, 1 << 14])
def test_factors_are_summed_in_parts(monkeypatch: pytest.MonkeyPatch, n_factors: int) -> None:
    """A feature of 200 factors takes several parts."""
    kernel = DotProduct((1, 1) + (0,) * 198 + (1,))
    feature_map = one_bit(kernel, 9, random_state=1)
    assert feature_map.degrees().max() == 200
    whole = feature_map.transform_bits(counts())
    monkeypatch.setattr(hashing, "_FACTORS", n_factors)
    assert (feature_map.transform_bits(counts()) == whole).all()


def test_degrees_follow_the_series() -> None:
    for kernel in SERIES.values():
        probabilities = kernel.probabilities()
        size = 100_000
        degrees = one_bit(kernel, size, random_state=2).degrees()
        frequency = np.bincount(degrees, minlength=probabilities.size) / size
        # At most some 20 degrees with chances of note: 5 standard deviations.
        spread = np.sqrt(probabilities * (1 - probabilities) / size)
        assert (np.abs(frequency - probabilities) <= 5 * spread + 2 / size).all()
        shorter = one_bit(kernel, 100, random_state=2).degrees()
        assert (shorter == degrees[:100]).all()


def test_the_last_uniform_number_has_the_largest_degree(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "words", lambda *_: np.array([0, 2**64 - 1], np.uint64))
    degrees = one_bit(SERIES["exponential"], 2).degrees()
    assert degrees.tolist() == [0, SERIES["exponential"].probabilities().size - 1]


@compiled_only
@pytest.mark.parametrize("hashing", ["minwise", "cws"])
@pytest.mark.parametrize("name", sorted(SERIES))
def test_error_is_unbiased_with_the_theoretical_variance(name: str, hashing: str) -> None:
    """E[error] = 0 and E[error^2] = (1 - k^2) / M, over 400 seeds of 512 features and 66 pairs of rows."""
    outer = SERIES[name]
    kernel = Composition(outer)
    X = counts() if hashing == "minwise" else weights()
    X[5] = X[4] * 2
    X[6] = X[4]
    X[6, :3] += 1
    pairs = np.triu_indices(12, 1)
    k = kernel(X)[pairs]
    np.testing.assert_allclose(k, kernel.of_similarities(TanimotoMinMax()(X)[pairs]))
    errors = []
    for seed in range(400):
        feature_map = one_bit(outer, 512, hashing, random_state=seed)
        Phi = feature_map.transform(X)
        errors.append((Phi @ Phi.T)[pairs] - k)
    expected = (1 - k**2) / 512
    # 66 pairs: beyond 4.5 standard errors for one choice of the seeds in 2,000.
    assert (np.abs(np.mean(errors, axis=0)) <= 4.5 * np.sqrt(expected / 400) + 1e-6).all()
    ratio = np.square(errors).sum(axis=1) / expected.sum()
    standard_error = np.std(ratio, ddof=1) / np.sqrt(400)
    assert standard_error < 0.03
    assert abs(np.mean(ratio) - 1) < 4 * standard_error


def test_the_cost_is_that_of_the_factors() -> None:
    plain = TanimotoMinMaxFeatures().seconds_per_component
    power = Polynomial(200, c=0.0)
    constant = DotProduct((2,))
    assert one_bit(power).seconds_per_component == pytest.approx(200 * plain)
    assert one_bit(constant).seconds_per_component == plain
    weighted = TanimotoMinMaxFeatures(hashing="cws").seconds_per_component
    assert weighted > 5 * plain
    power = Polynomial(3, c=0.0)
    cost = one_bit(power, hashing="cws").seconds_per_component
    assert cost == pytest.approx(3 * weighted)


@compiled_only
@pytest.mark.parametrize("kernel", [Polynomial(200, c=0.0), Exponential(50.0)])
def test_high_degrees(kernel: DotProductKernel) -> None:
    """Similarities near 1 alone are left; 1,024 features of about 200,000 or 50,000 factors."""
    X = np.full((4, 500), 3)
    X[1, 0], X[2, 0], X[2, 1] = 5, 4, 2
    X[3, ::2] = 1
    Phi = one_bit(kernel, 1024).transform(X)
    k = Composition(kernel)(X)
    # 6 pairs: beyond 4.5 standard deviations for one choice of the seed in 20,000.
    assert (np.abs(Phi @ Phi.T - k) <= 4.5 * np.sqrt((1 - k**2) / 1024) + 1e-6).all()
    assert k[0, 1] > 0.5
    assert k[0, 3] < 1e-6


def test_empty_rows() -> None:
    """k(0, 0) = 1 and k(0, x) is the constant term: the features of degree 0 agree, the others at random."""
    kernel = DotProduct((1, 0, 1))
    size = 300 if jit_disabled() else 20_000
    Phi = one_bit(kernel, size).transform([[0, 0], [3, 0], [0, 0]])
    assert (Phi[0] == Phi[2]).all()
    # 5 standard deviations.
    assert abs(Phi[0] @ Phi[1] - 0.5) < 5 / np.sqrt(size)


def test_a_constant_kernel_has_constant_features() -> None:
    kernel = DotProduct((2,))
    assert not one_bit(kernel, 70).transform_bits(counts()).any()


def test_bad_hashing() -> None:
    feature_map = one_bit(Polynomial(2, c=0.0), 8, "simhash")
    for call in (feature_map.fit, lambda: feature_map.transform(counts()), feature_map.degrees):
        with pytest.raises(InputError, match="hashing must be one of"):
            call()


def test_the_state_holds_the_kernel() -> None:
    for kernel in SERIES.values():
        restored = from_state(one_bit(kernel, 8).state())
        assert restored.kernel_ == Composition(kernel)
    with pytest.raises(InputError, match=r'hashing="cws"'):
        CompositionFeatures().transform([[0.5]])


@pytest.mark.parametrize("name", sorted(SERIES))
def test_golden_digest(name: str) -> None:
    """The same features for ever; a change needs a new version."""
    golden = {
        "coefficients": "b5d402bd8983e93e",
        "exponential": "1d7bcd1ef87081bf",
        "ratio": "ce3d57d4a444319f",
        "square": "c4eb27b3427306ad",
    }
    bits = one_bit(SERIES[name], 130, random_state=7).transform_bits(counts())
    assert hashlib.sha256(bits.tobytes()).hexdigest()[:16] == golden[name]
