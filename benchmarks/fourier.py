"""Fourier and Fastfood features on real docking scores, and how many molecules a second they take.

Enamine50k: 40,000 molecules to fit, 9,706 to test, Morgan radius 1 counts folded to 1,024 and 2,048 columns,
a Gaussian kernel. The length scale by the evidence of all training rows up to 2,048 features, of 10,000 rows
and 2,048 features beyond; then mean, signal variance and noise variance by that of all 40,000. Means over
five seeds up to M = 1,024. The peer, xGPR 0.4.8, was measured on the same rows; its number of features, too,
counts columns.

    python benchmarks/fourier.py [--parts speed enamine] [--full] [--columns 1024] [--components 1024 4096]

One thread for linear algebra: OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import Stopwatch, enamine50k, merit, parser, print_header, table, write_results

from daskrf.features import FastfoodFeatures, FeatureMap, RandomFourierFeatures, TanimotoMinMaxFeatures
from daskrf.gp import (
    RandomFeatureGP,
    SufficientStatistics,
    choose_exponent,
    choose_length_scale,
    with_length_scale,
)
from daskrf.kernels import Gaussian, Matern

MAPS: dict[str, Any] = {
    "Fastfood": lambda M, seed: FastfoodFeatures(Gaussian(), M, random_state=seed),
    "the paper's Fastfood": lambda M, seed: FastfoodFeatures(
        Gaussian(), M, projection="hadamard", random_state=seed
    ),
    "Fourier": lambda M, seed: RandomFourierFeatures(Gaussian(), M, random_state=seed),
    "orthogonal": lambda M, seed: RandomFourierFeatures(Gaussian(), M, orthogonal=True, random_state=seed),
    "Fastfood Matern 2.5": lambda M, seed: FastfoodFeatures(Matern(nu=2.5), M, random_state=seed),
    "one-bit Tanimoto": lambda M, seed: TanimotoMinMaxFeatures(M, random_state=seed),
}
PEER = {
    (1024, 1024): 0.796,
    (1024, 4096): 0.808,
    (1024, 8192): 0.810,
    (2048, 4096): 0.812,
    (2048, 8192): 0.814,
}
SEARCHED = 2048  # features, at most, that the length scale is searched with
FORMATS = {
    "map": "",
    "columns": ",",
    "features": ",",
    "length_scale": ".2f",
    "r2": ".4f",
    "peer_r2": ".3f",
    "mean_log_probability": ".4f",
    "coverage_95": ".3f",
    "signal_variance": ".3f",
    "noise_variance": ".4f",
    "search_cpu_s": ".0f",
    "features_cpu_s": ".1f",
    "fit_cpu_s": ".1f",
    "bytes_a_row": ",",
}


def run(data: Any, name: str, n_components: int, seed: int) -> dict[str, Any]:
    """Choose the length scale, fit to all training rows, and return the figures on the test rows."""
    y = data.y[data.train]
    feature_map: FeatureMap = MAPS[name](n_components, seed)
    watch = Stopwatch()
    found: dict[str, Any] = {}
    if not feature_map.one_bit:
        smaller: FeatureMap = MAPS[name](min(n_components, SEARCHED), seed)
        n_rows = len(y) if n_components <= SEARCHED else 10_000
        search = choose_length_scale(smaller, data.X[data.train], y, n_trials=10, n_rows=n_rows)
        feature_map = with_length_scale(feature_map, search.length_scale)
        found["length_scale"] = search.length_scale
    found["search_cpu_s"] = watch.lap()["cpu_s"]
    make = feature_map.transform_bits if feature_map.one_bit else feature_map.transform
    phi, phi_test = make(data.X[data.train]), make(data.X[data.test])
    found["features_cpu_s"] = watch.lap()["cpu_s"]
    statistics = SufficientStatistics.from_chunk(
        phi, y, n_components=n_components, y_exponents=choose_exponent(y)
    )
    gp = RandomFeatureGP().fit_statistics(statistics)
    found["fit_cpu_s"] = watch.lap()["cpu_s"]
    mean, std = gp.predict(phi_test, return_std=True)
    return {
        "map": name,
        "columns": data.X.shape[1],
        "features": n_components,
        "seed": seed,
        **found,
        **merit(data.y[data.test], mean, std),
        "peer_r2": PEER.get((data.X.shape[1], n_components)),
        "log_evidence": float(gp.log_marginal_likelihood_value_),
        "signal_variance": float(gp.signal_variance_[0]),
        "noise_variance": float(gp.noise_variance_[0]),
        "bytes_a_row": n_components // 8 if feature_map.one_bit else 4 * n_components,
    }


def enamine(given: Any) -> list[dict[str, Any]]:
    """Return the figures of every map, width and number of features."""
    rows = []
    for columns in given.columns:
        data = enamine50k(size=columns)
        print(data.describe())
        for n_components in given.components:
            n_seeds = given.seeds if n_components <= 1024 else 1
            for name in given.maps:
                for seed in range(given.seed, given.seed + n_seeds):
                    rows.append(run(data, name, n_components, seed))
                    print(table(rows[-1:], FORMATS).splitlines()[-1], flush=True)
    print("\nMeans over seeds:\n")
    print(table(_means(rows), {"seeds": "", **FORMATS}))
    return rows


def _means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with their figures averaged over the seeds."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["map"], row["columns"], row["features"]), []).append(row)
    return [
        {
            name: float(np.mean([row[name] for row in group])) if isinstance(value, float) else value
            for name, value in group[0].items()
        }
        | {"seeds": len(group)}
        for group in groups.values()
    ]


def speed(given: Any) -> list[dict[str, Any]]:
    """Return molecules a second on one core, by columns, non-zeros and number of features."""
    rows = []
    for columns in (1024, 2048, 16_384):
        X = enamine50k(size=columns).X[:2000]
        rows += [_speed(X, M) for M in (1024, 4096, 16_384)]
    print("\nMolecules a second, Morgan radius 1 counts in calls of 2,000, one thread, median of 5:\n")
    names = ("Fastfood", "Fourier", "SciPy")
    print(table(rows, {"columns": ",", "non-zeros": ".1f", "features": ",", **dict.fromkeys(names, ",.0f")}))
    dense = []
    for share in (0.01, 0.03, 0.1, 1.0):
        for columns in (256, 1024):
            X = sp.random_array((1000, columns), density=share, format="csr", rng=np.random.default_rng(0))
            dense.append(_speed(X.astype(np.float32), 4096))
    print("\nRows a second by density, 4,096 features, random numbers in calls of 1,000:\n")
    print(table(dense, {"columns": ",", "non-zeros": ".1f", **dict.fromkeys(names, ",.0f")}))
    return rows + dense


def _speed(X: Any, n_components: int) -> dict[str, Any]:
    n, columns = X.shape
    fastfood = FastfoodFeatures(Gaussian(6.0), n_components)
    fourier = RandomFourierFeatures(Gaussian(6.0), n_components)
    weights = np.random.default_rng(0).normal(size=(columns, n_components // 2)).astype(np.float32) / 6.0
    single = X.astype(np.float32)

    def scipy() -> None:
        phases = single @ weights
        np.concatenate([np.cos(phases), np.sin(phases)], axis=1)

    calls = {
        "Fastfood": lambda: fastfood.transform(X),
        "Fourier": lambda: fourier.transform(X),
        "SciPy": scipy,
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(5):
        for name, call in calls.items():
            start = time.process_time()
            call()
            times[name].append(time.process_time() - start)
    rates = {name: n / float(np.median(values)) for name, values in times.items()}
    return {"columns": columns, "non-zeros": X.nnz / n, "features": n_components, **rates}


def main() -> None:
    """Parse the arguments, run the parts and write what they found."""
    options = parser(__doc__, full="M = 1024, 4096 and 8192 on both widths")
    options.add_argument("--parts", nargs="+", choices=("speed", "enamine"), default=["speed", "enamine"])
    options.add_argument("--columns", type=int, nargs="+", default=[1024])
    options.add_argument("--maps", nargs="+", choices=list(MAPS), default=list(MAPS))
    options.add_argument("--seeds", type=int, default=5, help="of M up to 1,024")
    options.add_argument("--components", type=int, nargs="+", default=[1024, 4096])
    given = options.parse_args()
    if given.full:
        given.columns, given.components = [1024, 2048], [1024, 4096, 8192]
    print_header(given.seed)
    for part in given.parts:
        results = speed(given) if part == "speed" else enamine(given)
        settings = {"columns": given.columns, "components": given.components}
        write_results(given.output, f"fourier_{part}", seed=given.seed, settings=settings, results=results)


if __name__ == "__main__":
    main()
