"""Polynomial sketches: explicit matrices, and the variances of table 1 of Wacker & Filippone 2022."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from scipy.linalg import hadamard

from daskrf.errors import InputError
from daskrf.features import PolynomialSketch, sketch_variance
from daskrf.features.polynomial import Method
from daskrf.features.sketches.srht import SubsampledHadamard, _transform
from daskrf.features.sketches.variances import padded_width, same_block_pairs
from tests.features.maps import counts, reals
from tests.jit import jit_disabled
from tests.naive.projections import products, tensor_srht

compiled_only = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")
every_method = pytest.mark.parametrize("method", get_args(Method))


def small_rows() -> np.ndarray:
    """Return 4 rows of 6 columns: large and small angles, and an entry that has most of the length."""
    X = np.random.default_rng(5).normal(size=(4, 6))
    X[1] = X[0] + 0.2 * X[1]
    X[3] = np.abs(X[2])
    X[3, 2] = 3.0
    return X / np.linalg.norm(X, axis=1)[:, None]


@every_method
def test_degree_0_is_the_constant(method: str) -> None:
    Phi = PolynomialSketch(0, 10, method=method, c=0.3).transform(reals())
    np.testing.assert_allclose(Phi @ Phi.T, 1.0, rtol=1e-6)


@compiled_only
@every_method
@pytest.mark.parametrize(("degree", "c"), [(1, 0.0), (1, 2.0), (2, 0.0), (2, 0.5), (3, 0.0)])
def test_unbiased(method: str, degree: int, c: float) -> None:
    X = small_rows()
    results = []
    for seed in range(400):
        Phi = PolynomialSketch(degree, 24, method=method, c=c, random_state=seed).transform(X).astype(float)
        results.append(Phi @ Phi.T)
    error = np.mean(results, axis=0) - (X @ X.T + c) ** degree
    standard_error = np.std(results, axis=0, ddof=1) / np.sqrt(len(results))
    # 10 entries: exceeded by chance for one choice of the seeds in 15,000.
    assert (np.abs(error) <= 4.5 * standard_error + 2e-6).all()


def pairs_of(Phi: np.ndarray) -> np.ndarray:
    """Return the ten inner products of each group of 4 rows."""
    return np.einsum("gim,gjm->gij", Phi, Phi)[:, *np.triu_indices(4)]


def check_variances(errors: np.ndarray, expected: np.ndarray) -> None:
    """Compare mean squares of errors, shape (samples, pairs), with variances."""
    squares = np.square(errors)
    standard_error = squares.std(axis=0, ddof=1) / np.sqrt(len(squares))
    # 10 pairs: exceeded by chance for one choice of the seeds in 15,000.
    assert (np.abs(squares.mean(axis=0) - expected) <= 4.5 * standard_error + 1e-9).all()
    assert (standard_error <= 0.2 * expected + 1e-9).all()


@compiled_only
@pytest.mark.parametrize(
    ("method", "degree"),
    # Products of eight normal numbers are too heavy-tailed for the mean of 200,000.
    [
        (method, n)
        for method in ("gaussian", "rademacher")
        for n in (1, 2, 3, 4)
        if (method, n) != ("gaussian", 4)
    ],
)
def test_variances_of_independent_features(method: str, degree: int) -> None:
    """The 40,000 features of a map of each of 5 seeds are as many sketches of one feature."""
    X = small_rows()
    expected = sketch_variance(X, degree=degree, n_components=1, method=method)[np.triu_indices(4)]
    k = (X @ X.T)[np.triu_indices(4)] ** degree
    results = []
    for seed in range(5):
        Phi = PolynomialSketch(degree, 40_000, method=method, random_state=seed).transform(X) * 200.0
        results.append(pairs_of(Phi.astype(float).T[:, :, None]))
    check_variances(np.concatenate(results) - k, expected)


@compiled_only
@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [8, 5])
def test_variances_of_hadamard_blocks(degree: int, size: int) -> None:
    """The 5,000 blocks of a map of each of 2 seeds are as many sketches; `size` features of each block."""
    X = small_rows()
    expected = sketch_variance(X, degree=degree, n_components=size, method="tensorsrht")[np.triu_indices(4)]
    k = (X @ X.T)[np.triu_indices(4)] ** degree
    results = []
    for seed in range(2):
        Phi = PolynomialSketch(degree, 40_000, method="tensorsrht", random_state=seed).transform(X)
        blocks = Phi.astype(float).reshape(4, 5000, 8)[:, :, :size] * np.sqrt(40_000 / size)
        results.append(pairs_of(blocks.transpose(1, 0, 2)))
    check_variances(np.concatenate(results) - k, expected)


@compiled_only
@pytest.mark.parametrize(
    ("method", "degree"),
    [
        ("gaussian", 2),
        ("rademacher", 2),
        ("rademacher", 3),
        ("tensorsrht", 2),
        ("tensorsrht", 3),
        ("complex", 3),
    ],
)
def test_variances_over_seeds(method: str, degree: int) -> None:
    """21 features: two whole blocks of 8 and a part of one, over 800 seeds."""
    X = small_rows()
    expected = sketch_variance(X, degree=degree, n_components=21, method=method)[np.triu_indices(4)]
    k = (X @ X.T)[np.triu_indices(4)] ** degree
    maps = [PolynomialSketch(degree, 21, method=method, random_state=seed) for seed in range(800)]
    check_variances(pairs_of(np.array([m.transform(X).astype(float) for m in maps])) - k, expected)


@compiled_only
@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_variances_of_complex_features(degree: int) -> None:
    """The 20,000 complex features of a map of each of 5 seeds are as many sketches of two features."""
    X = small_rows()
    expected = sketch_variance(X, degree=degree, n_components=2, method="complex")[np.triu_indices(4)]
    k = (X @ X.T)[np.triu_indices(4)] ** degree
    results = []
    for seed in range(5):
        Phi = PolynomialSketch(degree, 40_000, method="complex", random_state=seed).transform(X)
        results.append(pairs_of(Phi.reshape(4, 20_000, 2).transpose(1, 0, 2).astype(float) * 20_000**0.5))
    check_variances(np.concatenate(results) - k, expected)


def test_variances_by_the_formula() -> None:
    X = small_rows()
    rademacher, gaussian = (
        sketch_variance(X, degree=3, n_components=8, method=method) for method in ("rademacher", "gaussian")
    )
    assert (rademacher <= gaussian).all()
    for degree in (1, 3, 5):
        structured = sketch_variance(X, degree=degree, n_components=8, method="tensorsrht")
        plain = sketch_variance(X, degree=degree, n_components=8)
        off = ~np.eye(4, dtype=bool)
        assert (structured[off] < plain[off]).all()
    # Degree 1 with whole blocks is a rotation: no variance at all.
    assert np.abs(sketch_variance(X, degree=1, n_components=16, method="tensorsrht")).max() < 1e-15
    # One column: signs know x^2 y^2, which the formula as printed denies.
    assert sketch_variance([[2.0]], [[3.0]], degree=4, n_components=1).tolist() == [[0.0]]
    # Complex sketches: no better for the first degree, better for every pair of rows without negative values.
    counts_ = np.abs(X)
    for degree, better in ((1, np.less_equal), (2, np.less), (5, np.less)):
        plain = sketch_variance(counts_, degree=degree, n_components=8)
        complex_ = sketch_variance(counts_, degree=degree, n_components=8, method="complex")
        assert better(complex_, plain * (1 + 1e-12)).all()
    unit = np.full((1, 400), 0.05)  # 2 (2^n - 1) / M in place of (3^n - 1) / M, if no entry stands out
    assert sketch_variance(unit, degree=3, n_components=2, method="complex") == pytest.approx(7.0, rel=0.01)
    # The last feature of an odd number is a real one.
    alone = sketch_variance(X, degree=3, n_components=1)
    np.testing.assert_allclose(sketch_variance(X, degree=3, n_components=1, method="complex"), alone)
    # A constant column is one more.
    wide = np.column_stack([X, np.full(4, np.sqrt(0.5))])
    for method in ("rademacher", "gaussian", "tensorsrht", "complex"):
        np.testing.assert_allclose(
            sketch_variance(X, degree=2, n_components=5, method=method, c=0.5),
            sketch_variance(wide, degree=2, n_components=5, method=method),
            rtol=1e-12,
        )
    assert [same_block_pairs(M, 4) for M in (1, 4, 6, 8)] == [0, 12, 14, 24]
    with pytest.raises(InputError, match="method must be"):
        sketch_variance(X, degree=2, n_components=5, method="tensorsketch")


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_short_transforms(width: int) -> None:
    x = np.random.default_rng(0).normal(size=(3, width)).astype(np.float32)
    y = x.copy()
    _transform(y)
    np.testing.assert_allclose(y, x @ hadamard(width), atol=1e-5)


@pytest.mark.parametrize("d", [1, 2, 3, 6, 8, 13])
@pytest.mark.parametrize("M", [1, 7, 16, 20])
def test_tensor_srht_is_algorithm_2(d: int, M: int) -> None:
    X = np.random.default_rng(d).normal(size=(3, d))
    for degree, c in [(1, 0.0), (3, 0.0), (2, 0.7)]:
        Phi = PolynomialSketch(degree, M, method="tensorsrht", c=c, random_state=M).transform(X)
        width = padded_width(d + (c > 0))
        padded = np.zeros((3, width))
        padded[:, :d] = X
        if c:
            padded[:, d] = np.sqrt(c)
        expected = [tensor_srht(x, degree, M, M, "polynomial") for x in padded]
        np.testing.assert_allclose(Phi, expected, rtol=1e-4, atol=1e-5)


def test_rademacher_signs() -> None:
    X = counts().astype(float)
    degrees, weights = np.full(70, 2), np.full(70, 70**-0.5)
    Phi = PolynomialSketch(2, 70, random_state=4).transform(X)
    for row in (0, 1, 5):
        entries = {k: v for k, v in enumerate(X[row].tolist()) if v}
        expected = products(entries, degrees, weights, 4, "polynomial/rademacher")
        np.testing.assert_allclose(Phi[row], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("M", [1, 2, 7])
@pytest.mark.parametrize("c", [0.0, 0.7])
def test_complex_features_are_products_of_complex_projections(M: int, c: float) -> None:
    X, degree, even = counts().astype(float), 3, M // 2 * 2
    Phi = PolynomialSketch(degree, M, method="complex", c=c, random_state=4).transform(X)
    one = np.ones(even, int)
    for row in (0, 1, 5):
        entries = {k: v for k, v in enumerate(X[row].tolist()) if v} | ({2**64 - 1: c**0.5} if c else {})
        expected = np.full(even // 2, np.sqrt(2 / M), complex)
        for j in range(degree):
            parts = products(entries, one, one, 4, f"polynomial/complex/{j}")
            expected *= (parts[::2] + 1j * parts[1::2]) / np.sqrt(2)
        last = products(entries, np.full(M % 2, degree), np.full(M % 2, M**-0.5), 4, "polynomial/complex")
        np.testing.assert_allclose(
            Phi[row], [*expected.view(float), *last], rtol=1e-4, atol=1e-6 * np.abs(Phi).max()
        )


@compiled_only
def test_tensor_sketch_is_that_of_other_libraries() -> None:
    """The error agrees with scikit-learn's PolynomialCountSketch, which draws other buckets and signs."""
    from sklearn.kernel_approximation import PolynomialCountSketch

    X = small_rows()
    k = (X @ X.T + 0.5) ** 3
    errors = {}
    for name, make in {
        "here": lambda seed: PolynomialSketch(3, 60, method="tensorsketch", c=0.5, random_state=seed),
        "there": lambda seed: PolynomialCountSketch(degree=3, n_components=60, coef0=0.5, random_state=seed),
    }.items():
        results = []
        for seed in range(400):
            Phi = make(seed).fit(X).transform(X)
            results.append(np.square(Phi @ Phi.T - k).mean())
        errors[name] = np.array(results)
    difference = errors["here"].mean() - errors["there"].mean()
    standard_error = np.sqrt(sum(e.var(ddof=1) / len(e) for e in errors.values()))
    assert abs(difference) < 4.5 * standard_error


def test_sizes_that_no_transform_is_fast_for() -> None:
    X = small_rows()
    for M in (1, 7, 11, 131):
        Phi = PolynomialSketch(2, M, method="tensorsketch").transform(X)
        assert Phi.shape == (4, M)
        assert np.any(Phi != 0.0, axis=0).sum() >= min(M, 7) - 3


def test_places_are_a_permutation() -> None:
    sketch = SubsampledHadamard(20, 2, 8, 3, "test")
    assert set(np.abs(sketch._signs).ravel()) == {1}
    assert (np.sort(sketch._order, axis=2) == np.arange(8)).all()
    assert sketch._order.shape == (3, 2, 8)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "srht"}, "method must be one of rademacher, gaussian, tensorsrht, tensorsketch, complex"),
        ({"degree": -1}, "degree must be an integer from 0"),
        ({"degree": 1.5}, "degree must be an integer from 0"),
        ({"c": -1.0}, "c must be .* positive definite"),
        ({"normalize": 1}, "normalize must be True or False"),
    ],
)
def test_bad_parameters_are_refused(parameters, message) -> None:
    feature_map = PolynomialSketch(n_components=8).set_params(**parameters)
    with pytest.raises(InputError, match=message):
        feature_map.fit(reals())
    with pytest.raises(InputError, match=message):
        feature_map.transform(reals())


def test_too_many_columns_for_dense_rows() -> None:
    import scipy.sparse as sp

    X = sp.csr_matrix((1, 2**32))
    feature_map = PolynomialSketch(2, 8, method="tensorsrht")
    with pytest.raises(InputError, match=r"4,294,967,296 columns, .* fold .*rademacher"):
        feature_map.fit(X)
    with pytest.raises(InputError, match="fold"):
        feature_map.transform(X)


@every_method
def test_what_does_not_fit_is_refused(method: str) -> None:
    with pytest.raises(InputError, match="row 1 are too large for single precision"):
        PolynomialSketch(3, 8, method=method).transform([[1.0, 0.0], [1e20, 0.0]])
