"""Errors and speed of random Maclaurin features, polynomial sketches and the optimized Gaussian map.

Kernels of 1,000 molecules (guacamol_10k, Morgan radius 2 counts folded to 1,024 columns): the cosine's square
and cube, exp(2 cos), and the Gaussian kernel at several length scales. Each map is run with the same numbers
of features; beside them scikit-learn's PolynomialCountSketch and RBFSampler, in the same run. The error is
that of the kernel matrix, relative, in the Frobenius norm (median over seeds); rates are by CPU time on one
thread, medians of rounds in which the programs take turns.

Last, the variances of sketches over 1,000 seeds, over those of table 1 of Wacker & Filippone 2022.

    python benchmarks/maclaurin.py [--components 256 1024 4096] [--seeds 5] [--repeats 5]
    python benchmarks/maclaurin.py --regression 2048     # R2 on real docking scores instead
    python benchmarks/maclaurin.py --degrees 2 3 4 6 8   # cos^n of 100 molecules, 20 seeds, M = 1,024
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
import scipy.sparse as sp
from common import Stopwatch, enamine50k, guacamol, merit, parser, print_header, table, write_results
from figures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, new_figure, save
from matplotlib.ticker import NullFormatter
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from threadpoolctl import threadpool_limits

from daskrf.features import (
    FastfoodDotProductFeatures,
    FeatureMap,
    GaussianMaclaurinFeatures,
    PolynomialSketch,
    RandomMaclaurinFeatures,
    sketch_variance,
)
from daskrf.features.polynomial import Method
from daskrf.gp import RandomFeatureGP, SufficientStatistics
from daskrf.kernels import Exponential, Polynomial

Make = Callable[[int, int], Any]

FORMATS = {
    "kernel": "",
    "map": "",
    "M": ",",
    "error": ".4f",
    "largest": ".3f",
    "dense_rows_s": ",.0f",
    "sparse_rows_s": ",.0f",
}
TABLE_1 = {
    "sketch": "",
    "degree": "",
    "ratio": ".3f",
    "standard_error": ".3f",
    "of_rademacher": ".3f",
    "ratio_as_printed": ".3f",
}
REGRESSION = {
    "map": "",
    "M": ",",
    "r2": ".4f",
    "mean_log_probability": ".4f",
    "coverage_95": ".3f",
    "log_evidence": ",.0f",
    "features_cpu_s": ".1f",
    "fit_cpu_s": ".1f",
}

DEGREES = {"degree": "", "map": "", "off_diagonal": ".3f", "diagonal": ".3f"}


def sketches(degree: int) -> dict[str, Make]:
    """Return the maps of cos^degree, by name: functions of the number of features and the seed."""
    found: dict[str, Make] = {
        f"daskrf {method}": lambda M, seed, method=method: PolynomialSketch(
            degree, M, method=method, normalize=True, random_state=seed
        )
        for method in get_args(Method)
    }
    for projection in ("orthogonal", "hadamard"):
        found[f"daskrf Fastfood {projection}"] = lambda M, seed, projection=projection: (
            FastfoodDotProductFeatures(
                Polynomial(degree, c=0.0, normalize=True), M, projection=projection, random_state=seed
            )
        )
    found["scikit-learn tensorsketch"] = lambda M, seed: PolynomialCountSketch(
        degree=degree, n_components=M, coef0=0, random_state=seed
    )
    return found


def series() -> dict[str, Make]:
    """Return the maps of exp(2 cos)."""
    kernel = Exponential(2.0, normalize=True)
    variants: dict[str, dict[str, Any]] = {
        "geometric, p = 2": {"degree_measure": "geometric"},
        "proportional": {},
        "geometric, H0/1": {"degree_measure": "geometric", "h01": True},
        "proportional, H0/1": {"h01": True},
    }
    found: dict[str, Make] = {
        f"daskrf {name}": lambda M, seed, own=own: RandomMaclaurinFeatures(
            kernel, M, random_state=seed, **own
        )
        for name, own in variants.items()
    }
    found["daskrf Fastfood"] = lambda M, seed: FastfoodDotProductFeatures(kernel, M, random_state=seed)
    return found


def gaussians(length_scale: float) -> dict[str, Make]:
    """Return the maps of the Gaussian kernel."""
    found: dict[str, Make] = {
        f"daskrf optimized {method}": lambda M, seed, method=method: GaussianMaclaurinFeatures(
            M, length_scale=length_scale, method=method, random_state=seed
        )
        for method in ("rademacher", "tensorsrht")
    }
    found["scikit-learn RBFSampler"] = lambda M, seed: RBFSampler(
        gamma=1 / (2 * length_scale**2), n_components=M, random_state=seed
    )
    return found


def error_of(make: Make, M: int, X: np.ndarray, exact: np.ndarray, n_seeds: int) -> tuple[float, float]:
    """Return the median over seeds of the relative Frobenius error, and of the largest relative one."""
    found = []
    for seed in range(n_seeds):
        Phi = np.asarray(make(M, seed).fit(X).transform(X), dtype=np.float64)
        difference = Phi @ Phi.T - exact
        found.append(
            (np.linalg.norm(difference) / np.linalg.norm(exact), np.abs(difference).max() / exact.max())
        )
    return tuple(np.median(found, axis=0).tolist())


def rates(maps: dict[str, Any], inputs: dict[str, Any], repeats: int) -> dict[str, dict[str, float]]:
    """Return rows a second of each map and input: medians, the programs in turn."""
    found: dict[str, dict[str, list[float]]] = {name: {kind: [] for kind in inputs} for name in maps}
    for _ in range(repeats + 1):  # the first round compiles
        for name, feature_map in maps.items():
            for kind, rows in inputs.items():
                start = time.process_time()
                feature_map.transform(rows)
                found[name][kind].append(rows.shape[0] / (time.process_time() - start))
    return {name: {k: statistics.median(v[1:]) for k, v in own.items()} for name, own in found.items()}


def measure(
    kernel: str, maps: dict[str, Make], X: np.ndarray, exact: np.ndarray, settings: Any
) -> list[dict[str, Any]]:
    """Return a line a map and number of features."""
    lines = []
    for M in settings.components:
        usable = {name: make for name, make in maps.items() if "H0/1" not in name or X.shape[1] + 2 <= M}
        fitted = {name: make(M, 0).fit(X) for name, make in usable.items()}
        speed = rates(fitted, {"dense": X, "sparse": sp.csr_matrix(X)}, settings.repeats)
        for name, make in usable.items():
            error, largest = error_of(make, M, X, exact, settings.seeds)
            lines.append(
                {
                    "kernel": kernel,
                    "map": name,
                    "M": M,
                    "error": error,
                    "largest": largest,
                    "dense_rows_s": speed[name]["dense"],
                    "sparse_rows_s": speed[name]["sparse"],
                    "degrees": _degrees(fitted[name]),
                }
            )
            print(f"  {kernel:22s} {name:28s} M = {M:5d}  error {error:.4f}", flush=True)
    return lines


def _degrees(feature_map: FeatureMap | Any) -> int | None:
    if isinstance(feature_map, GaussianMaclaurinFeatures):
        return feature_map.allocation_.degree
    return None


def table_1(n_seeds: int = 1000, n_components: int = 24) -> list[dict[str, Any]]:
    """Return measured variances over those of table 1 of Wacker & Filippone 2022, by sketch and degree.

    Five rows of length 1 and 16 columns, of which one has most of the length in one column; 24 features: a
    whole block of 16 and half of one. Variances are sums over the 10 pairs of different rows.
    """
    X = np.random.default_rng(0).normal(size=(5, 16))
    X[1] = X[0] + 0.5 * X[1]
    X[4, 3] = 6.0
    X /= np.linalg.norm(X, axis=1)[:, None]
    pairs = np.triu_indices(5, 1)
    dot, overlap = (X @ X.T)[pairs], (X**2 @ (X**2).T)[pairs]
    lines = []
    for degree in (1, 2, 3, 4):
        plain = sketch_variance(X, degree=degree, n_components=n_components)[pairs].sum()
        for method in ("gaussian", "rademacher", "tensorsrht", "complex"):
            maps = (
                PolynomialSketch(degree, n_components, method=method, random_state=s) for s in range(n_seeds)
            )
            features = (feature_map.transform(X).astype(float) for feature_map in maps)
            errors = np.array([(Phi @ Phi.T)[pairs] - dot**degree for Phi in features])
            squares = np.square(errors).sum(axis=1)
            formula = sketch_variance(X, degree=degree, n_components=n_components, method=method)[pairs].sum()
            line = {
                "sketch": method,
                "degree": degree,
                "ratio": squares.mean() / formula,
                "standard_error": squares.std(ddof=1) / np.sqrt(n_seeds) / formula,
                "of_rademacher": formula / plain,
            }
            if method == "rademacher":
                printed = ((1 + 2 * dot**2 - overlap) ** degree - dot ** (2 * degree)) / n_components
                line["ratio_as_printed"] = squares.mean() / printed.sum()
            lines.append(line)
    return lines


def regression(M: int) -> list[dict[str, Any]]:
    """Return R2 and log probability on real docking scores, hyperparameters by the evidence."""
    data = enamine50k()
    print(data.describe())
    maps: dict[str, FeatureMap] = {
        f"Gaussian, l = {length:g}": GaussianMaclaurinFeatures(M, length_scale=length)
        for length in (8.0, 12.0, 16.0, 24.0)
    }
    maps["exp(4 cos)"] = RandomMaclaurinFeatures(Exponential(4.0, normalize=True), M)
    maps["(cos + 1)^2, tensorsketch"] = PolynomialSketch(2, M, method="tensorsketch", c=1.0, normalize=True)
    maps["(x.y)^2, tensorsketch"] = PolynomialSketch(2, M, method="tensorsketch")
    lines = []
    for name, feature_map in maps.items():
        watch = Stopwatch()
        Phi = feature_map.fit(data.X[data.train]).transform(data.X)
        features = watch.lap()["cpu_s"]
        gp = RandomFeatureGP().fit_statistics(
            SufficientStatistics.from_chunk(Phi[data.train], data.y[data.train])
        )
        mean, std = gp.predict(Phi[data.test], return_std=True)
        line = {"map": name, "M": M, **merit(data.y[data.test], mean, std)}
        lines.append(
            {
                **line,
                "log_evidence": float(gp.log_marginal_likelihood_value_),
                "features_cpu_s": features,
                "fit_cpu_s": watch.lap()["cpu_s"],
            }
        )
        print(f"  {name:28s} R2 {line['r2']:.4f}  {line['mean_log_probability']:.4f}", flush=True)
    return lines


def degrees(chosen: list[int], X: np.ndarray, M: int = 1024, n_seeds: int = 20) -> list[dict[str, Any]]:
    """Return root mean squared errors of cos^n over seeds, of pairs of molecules and of each with itself."""
    lines = []
    for degree in chosen:
        kernel = Polynomial(degree, c=0.0, normalize=True)
        exact, pairs = kernel(X), ~np.eye(len(X), dtype=bool)
        maps = {"Fastfood": sketches(degree)["daskrf Fastfood orthogonal"]}
        maps["Maclaurin"] = lambda M, seed, kernel=kernel: RandomMaclaurinFeatures(
            kernel, M, random_state=seed
        )
        maps["TensorSketch"] = sketches(degree)["daskrf tensorsketch"]
        for name, make in maps.items():
            squares = np.zeros_like(exact)
            for seed in range(n_seeds):
                Phi = make(M, seed).fit(X).transform(X).astype(np.float64)
                squares += np.square(Phi @ Phi.T - exact) / n_seeds
            own = {"off_diagonal": squares[pairs], "diagonal": squares[~pairs]}
            roots = {of: float(np.sqrt(values.mean())) for of, values in own.items()}
            lines.append({"degree": degree, "map": name, **roots})
    return lines


def draw(lines: list[dict[str, Any]], folder: Path) -> None:
    """Draw the error of each map against the CPU time of a million rows."""
    kernels = list(dict.fromkeys(line["kernel"] for line in lines))
    figure, axes = new_figure(2, 3, width=13, height=7.5)
    for ax, kernel in zip(axes.flat, kernels, strict=True):
        names = dict.fromkeys(line["map"] for line in lines if line["kernel"] == kernel)
        for name, color in zip(names, (BLUE, GREEN, PURPLE, RED, ORANGE), strict=False):
            own = [line for line in lines if line["kernel"] == kernel and line["map"] == name]
            color, style = (GREY, "--") if "scikit" in name else (color, "-")
            seconds = [1e6 / max(line["dense_rows_s"], line["sparse_rows_s"]) for line in own]
            errors = [line["error"] for line in own]
            ax.plot(seconds, errors, style, color=color, marker="o", markersize=4, label=name)
        ax.set(xscale="log", yscale="log", title=kernel, xlabel="CPU seconds for a million molecules")
        ax.legend(fontsize=7, loc="lower left")
        low, high = ax.get_ylim()
        ax.set_ylim(low / (high / low) ** 0.45, high)  # room for the legend
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_minor_formatter(NullFormatter())
    for ax in axes[:, 0]:
        ax.set_ylabel("relative error of the kernel matrix")
    save(figure, folder, "maclaurin")


def main() -> None:
    """Measure, print a table, and write the result file and the picture."""
    options = parser(__doc__)
    options.add_argument("--components", type=int, nargs="+", default=[256, 1024, 4096])
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument(
        "--regression", type=int, metavar="M", help="docking scores by M features, and no more"
    )
    options.add_argument("--degrees", type=int, nargs="+", help="errors by the degree, and no more")
    settings = options.parse_args()
    print_header(settings.seed)
    if settings.regression:
        with threadpool_limits(1):
            found = regression(settings.regression)
        print("\n" + table(found, REGRESSION))
        given = {"components": settings.regression}
        write_results(settings.output, "maclaurin_regression", seed=0, settings=given, results=found)
        return
    X = guacamol(1000)["count"]
    if settings.degrees:
        found = degrees(settings.degrees, X[:100])
        print("\n" + table(found, DEGREES))
        given = {"degrees": settings.degrees}
        write_results(settings.output, "maclaurin_degrees", seed="0 to 19", settings=given, results=found)
        return
    unit = X / np.linalg.norm(X, axis=1)[:, None]
    lines = []
    with threadpool_limits(1):
        for degree in (2, 3):
            exact = Polynomial(degree, c=0.0, normalize=True)(X)
            lines += measure(f"cos^{degree}", sketches(degree), unit, exact, settings)
        lines += measure("exp(2 cos)", series(), unit, Exponential(2.0, normalize=True)(X), settings)
        distances = np.square(X).sum(axis=1)[:, None] + np.square(X).sum(axis=1) - 2 * X @ X.T
        for length_scale in (5.0, 10.0, 20.0):
            exact = np.exp(-np.maximum(distances, 0.0) / (2 * length_scale**2))
            lines += measure(f"Gaussian, l = {length_scale:g}", gaussians(length_scale), X, exact, settings)
        variances = table_1()
    print("\n" + table(lines, FORMATS))
    print("\nVariances over seeds, measured over the formula of table 1:\n")
    print(table(variances, TABLE_1))
    given = {"components": settings.components, "seeds": settings.seeds, "repeats": settings.repeats}
    write_results(
        settings.output,
        "maclaurin",
        seed=settings.seed,
        settings=given,
        results={"maps": lines, "table_1": variances},
    )
    draw(lines, settings.output)


if __name__ == "__main__":
    main()
