"""Fastfood (Le, Sarlos & Smola 2013): its figure 1 and its tables 2 and 3, and the transform by itself.

Figure 1: error of the kernel against the number n of basis functions, 4,000 vectors uniform in [0, 1]^10.
Table 2: seconds from a vector to a prediction, against the product with a dense matrix of directions, one
vector at a time and in batches. Table 3's protocol (test RMSE, exact Gaussian process and Nystroem beside the
random features) on data sets that scikit-learn makes or ships. The Walsh-Hadamard transform against SciPy's
Fourier transform of equal length and against the product with the matrix.

    python benchmarks/fastfood.py [--parts figure1 transform table2 table3] [--full]

One thread for linear algebra: OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.fft
from common import parser, print_header, table, write_results
from figures import BLUE, GREEN, ORANGE, PURPLE, RED, curve, error_axes, new_figure, save, slope
from scipy.linalg import hadamard
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2

from daskrf.engine import engine
from daskrf.features import (
    FastfoodDotProductFeatures,
    FastfoodFeatures,
    FeatureMap,
    LandmarkFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
)
from daskrf.gp import ExactGP, RandomFeatureGP, SparseGP
from daskrf.gp.solve.solvers import NotPositiveError
from daskrf.kernels import DotProduct, Gaussian, Kernel, Matern

PARTS = ("figure1", "transform", "table2", "table3")
PUBLISHED = {1024: (16_384, 24, 256), 4096: (32_768, 89, 1024), 8192: (65_536, 199, 2048)}
KINDS: dict[str, tuple[Callable[..., FeatureMap], dict[str, Any]]] = {
    "random kitchen sinks": (RandomFourierFeatures, {}),
    "orthogonal": (RandomFourierFeatures, {"orthogonal": True}),
    "Fastfood": (FastfoodFeatures, {"projection": "hadamard"}),
    "Fastfood, orthogonal": (FastfoodFeatures, {}),
    "Fastfood by FFT": (FastfoodFeatures, {"projection": "fft"}),
}
COLORS = dict(zip(KINDS, (BLUE, PURPLE, ORANGE, RED, GREEN), strict=True))


def seconds(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each call, in turn; short ones many times one after another."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    times = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        times[name] = max(1, int(0.02 / (time.perf_counter() - start)))
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(times[name]):
                call()
            found[name].append((time.perf_counter() - start) / times[name])
    return {name: float(np.median(times)) for name, times in found.items()}


# Figure 1 --------------------------------------------------------------------------------------------------


def figure1(options: Any) -> list[dict[str, Any]]:
    """Return the mean absolute error of the kernel by method, n and seed, and draw the picture."""
    X = np.random.default_rng(options.seed).random((4000, 10))
    kernel = Gaussian(1.0)
    exact = kernel(X).astype(np.float32)
    counts = [2**k for k in range(4, 15 if options.full else 13)]
    rows = []
    for name, (make, rest) in KINDS.items():
        for n in counts:
            for seed in range(5):
                Phi = make(kernel, 2 * n, random_state=seed, **rest).transform(X)
                error = float(np.abs(Phi @ Phi.T - exact).mean(dtype=np.float64))
                rows.append({"method": name, "n": n, "seed": seed, "error": error})
    middle = [{"n": n, **{name: float(np.median(_errors(rows, name, n))) for name in KINDS}} for n in counts]
    print("\nFigure 1: mean absolute error over all pairs, median of 5 seeds:\n")
    print(table(middle, {"n": ",", **dict.fromkeys(KINDS, ".5f")}))
    figure, ax = new_figure(1, 1, width=6, height=4)
    for name in KINDS:
        curve(ax, {n: _errors(rows, name, n) for n in counts}, name, COLORS[name])
    first = middle[0]["random kitchen sinks"]
    slope(ax, (counts[0], first * 1.6), counts[-1], -0.5, "n^-1/2")
    error_axes(ax, "Gaussian kernel on [0, 1]^10", "number n of basis functions", "mean absolute error of k")
    ax.legend(fontsize=8)
    save(figure, options.output, "fastfood_figure1")
    return rows


def _errors(rows: list[dict[str, Any]], name: str, n: int) -> list[float]:
    return [row["error"] for row in rows if row["method"] == name and row["n"] == n]


# The transform ---------------------------------------------------------------------------------------------


def transform(options: Any) -> list[dict[str, Any]]:
    """Return seconds a vector of the transform, of SciPy's Fourier transforms, and of the matrix product."""
    rows = []
    for d in (64, 256, 1024, 4096, 8192, 16_384, 65_536):
        n = max(1, 2**20 // d)
        x = np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)
        own = x.copy()

        def ours(own: np.ndarray = own, x: np.ndarray = x) -> None:
            own[:] = x  # the transform is in place: the copy is timed with it
            engine().hadamard_transform(own)

        calls: dict[str, Callable[[], Any]] = {
            "daskrf": ours,
            "scipy rfft": lambda x=x: scipy.fft.rfft(x, axis=1, workers=1),
            "scipy fft": lambda x=x: scipy.fft.fft(x, axis=1, workers=1),
        }
        if d <= 8192:
            H = hadamard(d, dtype=np.int8).astype(np.float32)
            calls["matrix product"] = lambda x=x, H=H: x @ H
        found = {name: 1e6 * value / n for name, value in seconds(calls, 7).items()}
        ratios = {f"{name} / daskrf": value / found["daskrf"] for name, value in found.items()}
        del ratios["daskrf / daskrf"]
        rows.append({"d": d, **found, **ratios})
    print("\nWalsh-Hadamard transform, microseconds a vector of 2^20 numbers in all, single precision:\n")
    names = ("daskrf", "scipy rfft", "scipy fft", "matrix product")
    formats = dict.fromkeys(names, ".2f") | {f"{name} / daskrf": ".1f" for name in names[1:]}
    print(table(rows, {"d": ",", **formats}))
    return rows


# Table 2 ---------------------------------------------------------------------------------------------------


def table2(options: Any) -> list[dict[str, Any]]:
    """Return seconds and bytes of projections and predictions against a dense matrix of directions."""
    rows = []
    for d, (n, speed, memory) in PUBLISHED.items():
        rng = np.random.default_rng(options.seed)
        feature_map = FastfoodFeatures(Gaussian(math.sqrt(d)), 2 * n, projection="hadamard")
        orthogonal = FastfoodFeatures(Gaussian(math.sqrt(d)), 2 * n)
        directions = np.empty((n, d), np.float32)
        for start in range(0, n, 4096):
            directions[start : start + 4096] = rng.standard_normal((4096, d), dtype=np.float32)
        projection = feature_map._projection(d)
        own = sum(array.nbytes for array in projection.numbers[0])
        for batch, repeats in ((1, 15), (1000, 1 if d > 4096 else 3)):
            x = rng.random((batch, d), dtype=np.float32)
            found = _predictions(feature_map, orthogonal, directions, x, repeats)
            rows.append(
                {
                    "d": d,
                    "n": n,
                    "vectors": batch,
                    **{name: 1e3 * value / batch for name, value in found.items()},
                    "product, times": found["dense product"] / found["Fastfood product"],
                    "prediction, times": found["dense prediction"] / found["Fastfood prediction"],
                    "orthogonal product, times": found["dense product"] / found["orthogonal product"],
                    "orthogonal prediction, times": found["dense prediction"]
                    / found["orthogonal prediction"],
                    "published": speed if batch == 1 else None,
                    "memory, times": directions.nbytes / own,
                    "published memory": memory,
                }
            )
            print(f"  d = {d:,}, n = {n:,}, {batch:,} vectors: done", flush=True)
    print("\nTable 2: milliseconds a vector, single precision, one thread:\n")
    names = ("dense product", "Fastfood product", "dense prediction", "Fastfood prediction")
    print(
        table(
            rows,
            {
                "d": ",",
                "n": ",",
                "vectors": ",",
                **dict.fromkeys(names, ".4f"),
                "product, times": ".1f",
                "prediction, times": ".1f",
                "orthogonal product, times": ".1f",
                "orthogonal prediction, times": ".1f",
                "published": "",
                "memory, times": ",.0f",
                "published memory": ",",
            },
        )
    )
    return rows


def _predictions(
    feature_map: FastfoodFeatures,
    orthogonal: FastfoodFeatures,
    directions: np.ndarray,
    x: np.ndarray,
    repeats: int,
) -> dict[str, float]:
    """Return seconds of V x alone, and of w . phi(x) from x on; both make cosines by the same code."""
    n, d = directions.shape
    weights = np.random.default_rng(1).normal(size=2 * n).astype(np.float32)
    phases = np.empty((len(x), n), np.float32)
    parts = [slice(start, start + 32) for start in range(0, len(x), 32)]
    phi = np.empty((min(32, len(x)), 2 * n), np.float32)

    def dense() -> None:
        if len(x) == 1:
            np.dot(directions, x[0], out=phases[0])
        else:
            np.dot(x, directions.T, out=phases)

    def dense_prediction() -> None:
        dense()
        for part in parts:
            rows = phi[: len(phases[part])]
            engine().cosines(phases[part], 1.0, rows)
            rows @ weights

    def prediction(chosen: FastfoodFeatures) -> Callable[[], None]:
        def call() -> None:
            for part in parts:
                chosen.transform(x[part]) @ weights

        return call

    return seconds(
        {
            "dense product": dense,
            "Fastfood product": lambda: feature_map._projection(d)(x, phases),
            "orthogonal product": lambda: orthogonal._projection(d)(x, phases),
            "dense prediction": dense_prediction,
            "Fastfood prediction": prediction(feature_map),
            "orthogonal prediction": prediction(orthogonal),
        },
        repeats,
    )


# Table 3 ---------------------------------------------------------------------------------------------------


def _data_sets(full: bool) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    n = 5000 if full else 2000
    friedman1 = make_friedman1(n, n_features=10, noise=1.0, random_state=0)
    friedman2 = make_friedman2(n, noise=50.0, random_state=0)
    return {"Friedman 1": friedman1, "Friedman 2": friedman2, "diabetes": load_diabetes(return_X_y=True)}


def table3(options: Any) -> list[dict[str, Any]]:
    """Return the test RMSE of every method; hyperparameters by the evidence, a fifth of the rows held out.

    The length scale by that of a quarter of the basis functions; without these, of 1,000 rows.
    """
    rows = []
    n = 2048 if options.full else 512
    labels = list(_methods(n, n))
    for name, (X, y) in _data_sets(options.full).items():
        order = np.random.default_rng(options.seed).permutation(len(y))
        train, test = order[: len(y) * 4 // 5], order[len(y) * 4 // 5 :]
        X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
        y = (y - y[train].mean()) / y[train].std()
        row: dict[str, Any] = {"data": name, "m": len(train), "d": X.shape[1]}
        smaller = _methods(n // 4, min(len(train), 1000))
        for label, make in _methods(n, len(train)).items():
            part = train[:1000] if label.startswith("exact") else train
            found = {
                length: _fit(smaller[label], length, X[part], y[part]) for length in _lengths(X.shape[1])
            }
            values = {
                x: float(gp.log_marginal_likelihood_value_) for x, gp in found.items() if gp is not None
            }
            best = sorted(values, key=values.__getitem__, reverse=True)
            gp = next(filter(None, (_fit(make, length, X[train], y[train]) for length in best)))
            mean = np.asarray(gp.predict(X[test])).reshape(-1)
            row[label] = float(np.sqrt(np.mean((mean - y[test]) ** 2)))
            print(f"  {name}, {label}: {row[label]:.4f}", flush=True)
        rows.append(row)
    print(f"\nTable 3: test RMSE in standard deviations of y, {n:,} basis functions:\n")
    print(table(rows, {"data": "", "m": ",", "d": "", **dict.fromkeys(labels, ".4f")}))
    return rows


def _lengths(d: int) -> list[float]:
    return [math.sqrt(d) * factor for factor in (0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)]


def _methods(n: int, n_rows: int) -> dict[str, Callable[[float], Any]]:
    def random(make: Any, kernel: Callable[[float], Kernel], **rest: Any) -> Callable[[float], Any]:
        return lambda length: RandomFeatureGP(make(kernel(length), 2 * n, **rest))

    return {
        "exact RBF": lambda length: ExactGP(Gaussian(length)),
        "Nystroem RBF": lambda length: SparseGP(LandmarkFeatures(min(n, n_rows), kernel=Gaussian(length))),
        "RKS RBF": random(RandomFourierFeatures, Gaussian),
        "Fastfood RBF": random(FastfoodFeatures, Gaussian, projection="hadamard"),
        "orthogonal RBF": random(FastfoodFeatures, Gaussian),
        "Fastfood FFT": random(FastfoodFeatures, Gaussian, projection="fft"),
        "exact Matern": lambda length: ExactGP(Matern(length)),
        "Fastfood Matern": random(FastfoodFeatures, Matern, projection="hadamard"),
        "orthogonal Matern": random(FastfoodFeatures, Matern),
        "exact Poly": lambda length: ExactGP(_polynomial(length)),
        "Fastfood Poly": random(FastfoodDotProductFeatures, _polynomial, projection="hadamard"),
        "Maclaurin Poly": random(RandomMaclaurinFeatures, _polynomial),
    }


def _polynomial(length: float) -> DotProduct:
    """Return (x.y / length^2 + 1)^10, the paper's polynomial of rows divided by a length."""
    return DotProduct([math.comb(10, n) / length ** (2 * n) for n in range(11)])


def _fit(make: Callable[[float], Any], length: float, X: np.ndarray, y: np.ndarray) -> Any:
    try:
        return make(length).fit(X, y)
    except NotPositiveError:  # long length scales make the matrix of landmarks singular
        return None


def main() -> None:
    """Parse the arguments, run the parts and write what they found."""
    options = parser(__doc__, full="n to 16,384 in figure 1; 5,000 rows and 2,048 basis functions in table 3")
    options.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    given = options.parse_args()
    print_header(given.seed)
    functions = {"figure1": figure1, "transform": transform, "table2": table2, "table3": table3}
    for part in given.parts:
        results = functions[part](given)
        write_results(
            given.output, f"fastfood_{part}", seed=given.seed, settings={"full": given.full}, results=results
        )


if __name__ == "__main__":
    main()
