"""Errors and speed of random Maclaurin features, polynomial sketches and the optimized Gaussian map.

Kernels of 1,000 molecules (guacamol_10k, Morgan radius 2 counts folded to 1,024 columns): the cosine's square
and cube, exp(2 cos), and the Gaussian kernel at several length scales. Each map is run with the same numbers
of features; beside them scikit-learn's PolynomialCountSketch and RBFSampler, in the same run. The error is
that of the kernel matrix, relative, in the Frobenius norm (median over seeds); rates are by CPU time on one
thread, medians of rounds in which the programs take turns.

    python benchmarks/maclaurin.py [--components 256 1024 4096] [--seeds 5] [--repeats 5]
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from common import guacamol, parser, print_header, table, write_results
from sklearn.kernel_approximation import PolynomialCountSketch, RBFSampler
from threadpoolctl import threadpool_limits

from daskrf.features import (
    FeatureMap,
    GaussianMaclaurinFeatures,
    PolynomialSketch,
    RandomMaclaurinFeatures,
)
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


def sketches(degree: int) -> dict[str, Make]:
    """Return the maps of cos^degree, by name: functions of the number of features and the seed."""
    found: dict[str, Make] = {
        f"daskrf {method}": lambda M, seed, method=method: PolynomialSketch(
            degree, M, method=method, normalize=True, random_state=seed
        )
        for method in ("rademacher", "gaussian", "tensorsrht", "tensorsketch")
    }
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
    return {
        f"daskrf {name}": lambda M, seed, own=own: RandomMaclaurinFeatures(
            kernel, M, random_state=seed, **own
        )
        for name, own in variants.items()
    }


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


def draw(lines: list[dict[str, Any]], path: Path) -> None:
    """Draw the error of each map against the CPU time of a million rows."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    kernels = list(dict.fromkeys(line["kernel"] for line in lines))
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.5), squeeze=False)
    for axis, kernel in zip(axes.flat, kernels, strict=False):
        for name in dict.fromkeys(line["map"] for line in lines if line["kernel"] == kernel):
            own = [line for line in lines if line["kernel"] == kernel and line["map"] == name]
            style = "--" if "scikit" in name else "-"
            seconds = [1e6 / max(line["dense_rows_s"], line["sparse_rows_s"]) for line in own]
            axis.plot(seconds, [line["error"] for line in own], style, marker="o", ms=4, label=name)
        axis.set(xscale="log", yscale="log", title=kernel)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=7)
    for axis in axes[-1]:
        axis.set_xlabel("CPU seconds for 10^6 rows")
    for axis in axes[:, 0]:
        axis.set_ylabel("relative error of the kernel matrix")
    for axis in list(axes.flat)[len(kernels) :]:
        axis.remove()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    print(f"written: {path}", flush=True)


def main() -> None:
    """Measure, print a table, and write the result file and the picture."""
    options = parser(__doc__)
    options.add_argument("--components", type=int, nargs="+", default=[256, 1024, 4096])
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--repeats", type=int, default=5)
    settings = options.parse_args()
    print_header(settings.seed)
    X = guacamol(1000)["count"]
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
    print("\n" + table(lines, FORMATS))
    given = {"components": settings.components, "seeds": settings.seeds, "repeats": settings.repeats}
    write_results(settings.output, "maclaurin", seed=settings.seed, settings=given, results=lines)
    draw(lines, settings.output / "maclaurin.png")


if __name__ == "__main__":
    main()
