"""Features of the dot-product Tanimoto kernel: their errors on real molecules, and their expectation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg.blas import ssyrk

from daskrf.engine import Rows
from daskrf.features import TanimotoDotProductFeatures
from daskrf.features.sketches.tensorsketch import TensorSketchSeries
from daskrf.features.tanimotodot import unit_rows
from daskrf.kernels import TanimotoDotProduct
from tests.jit import jit_disabled

pytestmark = pytest.mark.skipif(jit_disabled(), reason="many features: too slow without the JIT")

SEEDS = range(5)


def inner_products(Phi: np.ndarray) -> np.ndarray:
    """Return Phi Phi^T in the upper triangle, zeros below."""
    return ssyrk(1.0, Phi.T, trans=1)


def mean_squared_error(exact: np.ndarray, upper: np.ndarray) -> float:
    """Return the mean over all pairs of a symmetric matrix, given its upper triangle and zeros."""
    difference = np.triu(exact - upper).ravel()
    diagonal = difference[:: len(exact) + 1]
    return (2.0 * difference @ difference - diagonal @ diagonal) / exact.size


# Upper quartiles over 5 trials of the mean squared error over all pairs: no correction, normalised, residual.
# From the published results of Tripp et al. 2023 (tanimoto-random-features-neurips23, commit f0edc6b, MIT).
PUBLISHED = {
    ("binary", 100): (0.0240627, 0.0197188, 0.0273943),
    ("binary", 1000): (0.00203727, 0.00224849, 0.00243917),
    ("binary", 10000): (0.000257412, 0.000306585, 0.000206830),
    ("count", 100): (0.0189001, 0.0191876, 0.0271269),
    ("count", 1000): (0.00229779, 0.00247522, 0.00239309),
    ("count", 10000): (0.000308761, 0.000412313, 0.000212622),
}
# Medians of the same for the single terms t and t^2.
PUBLISHED_TERMS = {
    ("binary", 1000): (0.000595662, 0.000126136),
    ("binary", 10000): (4.39613e-05, 1.34035e-05),
    ("count", 1000): (0.000591440, 0.000150904),
    ("count", 10000): (3.59686e-05, 1.46380e-05),
}


@pytest.mark.parametrize(("kind", "n_components"), sorted(PUBLISHED))
def test_median_errors_are_below_the_published_ones(
    folded: dict[str, np.ndarray], kind: str, n_components: int
) -> None:
    X = folded[kind]
    exact = TanimotoDotProduct(transform="sqrt")(X)
    errors = []
    for seed in SEEDS:
        feature_map = TanimotoDotProductFeatures(n_components, random_state=seed).fit(X)
        plain = inner_products(feature_map.transform(X))
        length = np.sqrt(np.diag(plain))
        # Normalised features are the plain ones over their lengths, as another test makes sure.
        approximate = [plain, plain / length / length[:, None]]
        feature_map.set_params(bias_correction="residual")
        approximate.append(inner_products(feature_map.transform(X)))
        errors.append([mean_squared_error(exact, K) for K in approximate])
    # About half of them; the medians vary by a third from one choice of five seeds to another.
    assert (np.median(errors, axis=0) <= PUBLISHED[kind, n_components]).all()


@pytest.mark.parametrize(("kind", "n_components"), sorted(PUBLISHED_TERMS))
def test_median_errors_of_terms_are_below_the_published_ones(
    folded: dict[str, np.ndarray], kind: str, n_components: int
) -> None:
    X = np.sqrt(folded[kind])
    norms = np.sum(X**2, axis=1)
    ratio = X @ X.T / (norms + norms[:, None])
    errors = []
    for seed in SEEDS:
        first = features_of(X, [n_components], seed)
        second = features_of(X, [1, n_components], seed)[:, 1:]
        errors.append(
            [mean_squared_error(ratio**r, inner_products(Phi)) for r, Phi in ((1, first), (2, second))]
        )
    assert (np.median(errors, axis=0) <= PUBLISHED_TERMS[kind, n_components]).all()


def features_of(X: np.ndarray, sizes: list[int], seed: int) -> np.ndarray:
    """Return the features of terms of these sizes."""
    row, column = np.nonzero(X)
    pointer = np.searchsorted(row, np.arange(len(X) + 1))
    norms, values = unit_rows(pointer, X[row, column], root=False)
    norms /= norms.max()
    series = TensorSketchSeries(sizes, n_prefactor=64, zeta=norms.min(), seed=seed, residual=False)
    out = np.empty((len(X), sum(sizes)), np.float32)
    series.features(Rows(pointer, column, values), norms, out)
    return out


@pytest.mark.parametrize("kind", ["binary", "count"])
def test_64_prefactor_features_are_exact_to_a_millionth(folded: dict[str, np.ndarray], kind: str) -> None:
    norms = np.unique(folded[kind].sum(axis=1))
    norms /= norms.max()
    exact = np.sqrt(norms * norms[:, None]) / (norms + norms[:, None])
    for seed in SEEDS:
        series = TensorSketchSeries([1] * 4, n_prefactor=64, zeta=norms[0], seed=seed, residual=False)
        psi = series.prefactor(norms)
        for r in range(1, 5):
            actual = psi[:, r - 1] @ psi[:, r - 1].T
            assert np.abs(actual / exact**r - 1).max() < 1e-6


def expectation(
    X: np.ndarray, n_seeds: int, n_components: int = 128, **options: object
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of all inner products over seeds and its standard error."""
    products = []
    for seed in range(n_seeds):
        feature_map = TanimotoDotProductFeatures(n_components, random_state=seed, **options)
        Phi = feature_map.fit_transform(X).astype(float)
        products.append(Phi @ Phi.T)
    return np.mean(products, axis=0), np.std(products, axis=0, ddof=1) / np.sqrt(n_seeds)


@pytest.mark.parametrize(("n_components", "n_seeds", "largest"), [(128, 200, 0.03), (12, 600, 0.06)])
def test_unbiased_for_the_truncated_kernel_of_real_vectors(
    n_components: int, n_seeds: int, largest: float
) -> None:
    """Also for terms of 7, 3 and 2 features, which all prefactor features share."""
    X = np.random.default_rng(5).normal(size=(6, 4)) * np.array([1, 1, 1, 2, 0.5, 3])[:, None]
    X[1] = -X[0]
    X[2] = X[3] + 0.3
    options = {"input_transform": None, "n_terms": 3}
    mean, error = expectation(X, n_seeds, n_components, **options)
    kernel = TanimotoDotProductFeatures(**options).kernel_
    assert kernel == TanimotoDotProduct(n_terms=3)
    assert kernel(X).min() < -0.3
    # 21 distinct entries: beyond 4.5 standard errors by chance for one choice of the seeds in 7,000.
    assert (np.abs(mean - kernel(X)) < 4.5 * error).all()
    assert error.max() < largest


@pytest.mark.parametrize("n_terms", [1, 2, 4])
def test_the_residual_adds_the_next_term_times_one_more_than_the_series(n_terms: int) -> None:
    X = np.array([[3, 0, 1, 2], [3, 0, 1, 2], [1, 1, 0, 4], [0, 5, 1, 0]])
    S = np.sqrt(X)
    t = S @ S.T / (X.sum(axis=1) + X.sum(axis=1)[:, None])
    truncated = sum(t**r for r in range(1, n_terms + 1))
    expected = truncated + t ** (n_terms + 1) * (1 + truncated)
    if n_terms == 2:
        assert expected[0, 0] == pytest.approx(0.96875)
    mean, error = expectation(X, 200, n_terms=n_terms, bias_correction="residual")
    # 10 distinct entries: beyond 4.5 standard errors by chance for one choice of the seeds in 15,000.
    assert (np.abs(mean - expected) < 4.5 * error).all()
    assert error.max() < 0.036
