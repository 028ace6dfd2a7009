"""What `tanimoto_errors.py` measures: errors of random features on 1,000 molecules of GuacaMol.

Every function returns plain dictionaries of lists of one value a trial.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import gammaincinv, gammaln

from daskrf import seeds
from daskrf.engine import Rows, engine
from daskrf.features import TanimotoDotProductFeatures, TanimotoMinMaxFeatures
from daskrf.features.sketches.prefactor import PrefactorFeatures
from daskrf.features.sketches.tensorsketch import TensorSketchSeries, fast_length, spectra
from daskrf.features.tanimotodot import unit_rows
from daskrf.kernels import TanimotoDotProduct, TanimotoMinMax

KINDS = ("binary", "count")
DISTRIBUTIONS = ("rademacher", "gaussian")
CORRECTIONS = (None, "normalize", "residual")
MULTIPLES = np.logspace(-2, 2, 15)
N_TERMS = 4

Array = npt.NDArray[np.float64]
Trials = dict[int, list[float]]


def mean_squared_error(exact: npt.NDArray[Any], features: npt.NDArray[Any]) -> float:
    """Return the mean over all pairs, the diagonal included, of (K - Phi Phi^T)^2."""
    return float(np.mean(np.square(exact - features @ features.T), dtype=np.float64))


# T_minmax: figure 1 ----------------------------------------------------------------------------------------


def minmax_errors(x: Array, sizes: list[int], trials: int, seed: int) -> dict[str, Trials]:
    """Return the errors of T_minmax features by distribution and M.

    As in the published experiment, one map of a trial serves all M: its first M features.
    """
    exact = TanimotoMinMax()(x).astype(np.float32)
    errors: dict[str, Trials] = {name: {m: [] for m in sizes} for name in DISTRIBUTIONS}
    largest = max(sizes)
    for trial in range(trials):
        for name in DISTRIBUTIONS:
            feature_map = TanimotoMinMaxFeatures(largest, distribution=name, random_state=seed + trial)
            phi = feature_map.fit(x).transform(x)
            for m in sizes:
                scale = np.float32(np.sqrt(largest / m))
                errors[name][m].append(mean_squared_error(exact, phi[:, :m] * scale))
    return errors


def pairs_by_similarity(
    similarity: Array, a_bin: int, seed: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return pairs (i, j), up to `a_bin` random ones from each of 20 equal bins of their similarity."""
    rng = seeds.generator(seed, "benchmarks/pairs")
    rows: list[int] = []
    columns: list[int] = []
    for low in np.arange(20) / 20:
        i, j = np.nonzero((similarity > low) & (similarity <= low + 0.05))
        chosen = rng.choice(len(i), size=min(a_bin, len(i)), replace=False)
        rows.extend(i[chosen])
        columns.extend(j[chosen])
    return np.array(rows), np.array(columns)


def minmax_variances(x: Array, n_components: int, seed: int) -> dict[str, Any]:
    """Return the variance, over scalar features, of their product, for pairs of all similarities."""
    exact = TanimotoMinMax()(x)
    i, j = pairs_by_similarity(exact, 10, seed)
    used, where = np.unique(np.concatenate([i, j]), return_inverse=True)
    left, right = where[: len(i)], where[len(i) :]
    found: dict[str, Any] = {"similarity": exact[i, j].tolist(), "n_components": n_components}
    for name in DISTRIBUTIONS:
        feature_map = TanimotoMinMaxFeatures(n_components, distribution=name, random_state=seed)
        phi = feature_map.fit(x).transform(x[used])
        pairs = zip(left, right, strict=True)
        found[name] = [float(np.var(phi[a] * phi[b] * n_components, dtype=np.float64)) for a, b in pairs]
    return found


def theoretical_variance(similarity: npt.ArrayLike, distribution: str) -> Array:
    """Return 1 + T (E xi^4 - 1 - T), theorem 3.1 of the paper."""
    t = np.asarray(similarity, dtype=np.float64)
    return 1 + t * ({"rademacher": 1.0, "gaussian": 3.0}[distribution] - 1 - t)


# The prefactor: figure 2 -----------------------------------------------------------------------------------


def squared_norms(x: Array) -> tuple[Array, Array, float]:
    """Return the distinct squared norms of sqrt(x), the largest scaled to 1, their weights, and zeta."""
    norms, times = np.unique(x.sum(axis=1), return_counts=True)
    norms = norms / norms.max()
    return norms, times / times.sum(), float(norms.min())


def prefactor(norms: Array, r: int, s: float, c: float, points: Array) -> Array:
    """Return the features of lemma 4.5 of (|x|^2 + |y|^2)^-r at the given points of (0, 1), shape (n, M).

    At independent uniform points they are M scalar features of lemma 4.4 (equation 8), over sqrt(M).
    """
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        z = gammaincinv(s, points) / c
        logarithm = 0.5 * (-s * np.log(c) + gammaln(s) - gammaln(r) - np.log(len(points)))
        logarithm = logarithm - (norms[:, None] - c / 2) * z + (r - s) / 2 * np.log(z)
        # A point at the very end of (0, 1) has z = 0 or infinity, where the feature is 0 (for s < r).
        return np.where(np.isfinite(z) & (z > 0), np.exp(logarithm), 0.0)


def prefactor_error(norms: Array, weights: Array, r: int, s: float, c: float, points: Array) -> float:
    """Return the mean squared error over all pairs of molecules."""
    phi = prefactor(norms, r, s, c, points)
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.square(phi @ phi.T - (norms[:, None] + norms) ** -float(r))
    return float(weights @ error @ weights)


def grid(m: int, offset: float, repeated_end: bool) -> Array:
    """Return m equidistant points of [0, 1), shifted by `offset`.

    `repeated_end` gives the grid of the published code, linspace(0, 1, m), whose two ends fall together.
    """
    steps = np.linspace(0.0, 1.0, m) if repeated_end else np.arange(m) / m
    return (steps + offset) % 1.0


def prefactor_results(x: Array, sizes: list[int], m_contour: int, trials: int, seed: int) -> dict[str, Any]:
    """Return median errors over multiples of (s*, c*) at M = `m_contour`, and errors against M, r = 1, 3."""
    norms, weights, zeta = squared_norms(x)
    offsets = seeds.generator(seed, "benchmarks/offsets").random(trials)
    found: dict[str, Any] = {"zeta": zeta, "contour": {}, "right grid": {}, "published grid": {}}
    found["independent"] = {}
    rng = seeds.generator(seed, "benchmarks/points")
    for r in (1, 3):
        best_s, best_c = r * zeta, 2 * zeta**2
        found["contour"][r] = [
            [
                float(
                    np.median(
                        [
                            prefactor_error(
                                norms, weights, r, s * best_s, c * best_c, grid(m_contour, u, False)
                            )
                            for u in offsets
                        ]
                    )
                )
                for c in MULTIPLES
            ]
            for s in MULTIPLES
        ]
        for name, repeated in (("right grid", False), ("published grid", True)):
            found[name][r] = {
                m: [prefactor_error(norms, weights, r, best_s, best_c, grid(m, u, repeated)) for u in offsets]
                for m in sizes
            }
        found["independent"][r] = {
            m: [prefactor_error(norms, weights, r, best_s, best_c, rng.random(m)) for _ in range(trials)]
            for m in sizes
        }
    return found


# T_dp: figures 3, F.1 and F.2 ------------------------------------------------------------------------------


def allocation_errors(
    x: Array, n_components: int, powers: list[float], trials: int, seed: int
) -> dict[str, dict[float, list[float]]]:
    """Return the errors of T_dp features by bias correction and power p of the allocation m_r ~ r^p."""
    exact = TanimotoDotProduct(transform="sqrt")(x).astype(np.float32)
    return {
        str(correction): {
            p: [dotproduct_error(x, exact, n_components, p, correction, seed + t) for t in range(trials)]
            for p in powers
        }
        for correction in CORRECTIONS
    }


def dotproduct_errors(x: Array, sizes: list[int], trials: int, seed: int) -> dict[str, Trials]:
    """Return the errors of T_dp features by bias correction and M, for m_r ~ 1 / r."""
    exact = TanimotoDotProduct(transform="sqrt")(x).astype(np.float32)
    return {
        str(correction): {
            m: [dotproduct_error(x, exact, m, -1.0, correction, seed + t) for t in range(trials)]
            for m in sizes
        }
        for correction in CORRECTIONS
    }


def dotproduct_error(
    x: Array, exact: npt.NDArray[np.float32], m: int, p: float, correction: str | None, seed: int
) -> float:
    """Return the mean squared error of one T_dp map of four terms."""
    feature_map = TanimotoDotProductFeatures(
        m, n_terms=N_TERMS, allocation=p, bias_correction=correction, random_state=seed
    )
    return mean_squared_error(exact, feature_map.fit(x).transform(x))


def _scaled_rows(x: Array) -> tuple[Rows, Array]:
    """Return the rows of sqrt(x) over their norms, and their squared norms, the largest scaled to 1."""
    csr = sp.csr_matrix(x)
    norms, values = unit_rows(csr.indptr.astype(np.int64), csr.data, root=True)
    rows = Rows(csr.indptr.astype(np.int64), csr.indices.astype(np.int64), values)
    return rows, norms / norms.max()


def _polynomial_features(rows: Rows, norms: Array, r: int, m: int, seed: int) -> npt.NDArray[np.float32]:
    """Return daskrf's TensorSketch of (x.y)^r: its term of degree r with 1 in place of the prefactor."""
    keys = np.array([seeds.key(seed, f"benchmarks/polynomial/{r}/{j}") for j in range(r)], np.uint64)
    one, start = np.ones((1, 1), np.float32), np.zeros(1, np.int64)
    slots, out = np.zeros(norms.size, np.int64), np.empty((norms.size, m), np.float32)
    if r == 1:
        engine().first_term(rows, int(keys[0]), start, one, slots, out)
    else:
        engine().product_term(rows, keys, spectra(one, start, m), slots, out)
    return out * (norms ** (r / 2)).astype(np.float32)[:, None]


def _term_features(rows: Rows, norms: Array, r: int, m: int, seed: int) -> npt.NDArray[np.float32]:
    """Return daskrf's features of (x.y / (|x|^2 + |y|^2))^r: those of a series whose other terms have one."""
    sizes = [1] * (r - 1) + [m]
    zeta = float(norms.min())
    series = TensorSketchSeries(sizes, n_prefactor=64, zeta=zeta, seed=seed, residual=False)
    out = np.empty((norms.size, sum(sizes)), np.float32)
    series.features(rows, norms, out)
    return out[:, r - 1 :]


def term_errors(x: Array, sizes: list[int], trials: int, seed: int) -> dict[str, dict[int, Trials]]:
    """Return the errors of the sketches of (x.y)^r and of the r-th term of the series, by r and M.

    The largest norm is 1. Beyond r = 1 the lengths are the next ones below M that have a fast transform.
    """
    rows, norms = _scaled_rows(x)
    products = np.sqrt(x) @ np.sqrt(x).T / x.sum(axis=1).max()
    sums = norms[:, None] + norms
    found: dict[str, dict[int, Trials]] = {"polynomial": {}, "term": {}}
    for part, base, make in (
        ("polynomial", products, _polynomial_features),
        ("term", products / sums, _term_features),
    ):
        for r in (1, 2, 3):
            exact = (base**r).astype(np.float32)
            found[part][r] = {
                m: [
                    mean_squared_error(exact, make(rows, norms, r, m if r == 1 else fast_length(m), seed + t))
                    for t in range(trials)
                ]
                for m in sizes
            }
    return found


def prefactor_of_map(x: Array) -> dict[str, float]:
    """Return the largest relative error of daskrf's own 64 prefactor features, r = 1 to 4, over all norms."""
    norms, _, zeta = squared_norms(x)
    offsets = seeds.generator(0, "benchmarks/offsets").random(N_TERMS).tolist()
    features = PrefactorFeatures(range(1, N_TERMS + 1), 64, zeta, offsets)
    return {"zeta": zeta, "largest relative error": float(features.errors(norms).max())}
