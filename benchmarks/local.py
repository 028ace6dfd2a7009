"""Local Maclaurin features: figures 2 and 4 of Wacker & Filippone 2022.

Figure 2: 50 noisy observations of sinc(5 x), and the exact Gaussian process of the best evidence approximated
by 10 features: random Fourier features, a Maclaurin series about the mean, one about each test point, and
algorithm 1 with a few centroids.

Figure 4, in its shape: a field of high frequency over two columns (length scale 0.12 in a square of side 2)
and a smooth function of eight, both draws of a Gaussian process whose parameters all approximations are
given, 3,000 rows to fit and 1,000 to test. Above, the divergence from the exact process against the number of
centroids; below, the test error against the number of features D of a centroid. Posteriors are of all
rows, as in the paper, or of those nearest to their centroid. (The property prices and
tables of the paper would have to be downloaded.)

Divergences are means over the test rows of KL(exact || approximate) of the predictive distributions of y:
those of f, whose deviation collapses to 0, would be infinite. Medians over seeds of the map.

    python benchmarks/local.py [--parts figure2 figure4] [--seeds 3]
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import Stopwatch, parser, print_header, table, write_results
from figures import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, curve, label_axes, new_figure, save
from matplotlib.ticker import NullFormatter
from scipy.optimize import minimize_scalar
from threadpoolctl import threadpool_limits

from daskrf.features import GaussianMaclaurinFeatures, LocalGaussianFeatures, RandomFourierFeatures
from daskrf.gp import ExactGP, LocalGaussianGP, RandomFeatureGP, StackedStatistics
from daskrf.kernels import Gaussian

Array = np.ndarray
CENTROIDS = (1, 2, 5, 10, 20, 50, 100)
SIZES = (10, 25, 50, 100, 200)
ABOVE = ("local", "nearest", "printed")
BELOW = ("local", "nearest", "maclaurin", "fourier", "orthogonal")
NAMES = {
    "local": ("local", BLUE),
    "nearest": ("local, of the nearest rows alone", SKY),
    "printed": ("local, without the residual (as printed)", PURPLE),
    "maclaurin": ("one series about the mean (as printed)", ORANGE),
    "fourier": ("random Fourier", GREEN),
    "orthogonal": ("orthogonal Fourier", RED),
}
FORMATS = {
    "data": "",
    "map": "",
    "centroids": ",",
    "threshold": ".2f",
    "D": ",",
    "kl": ".4f",
    "rmse": ".4f",
    "fit_cpu_s": ".2f",
}


@dataclass(frozen=True)
class Reference:
    """Rows to fit and to test, the parameters of the process, and its exact predictions of y."""

    name: str
    X: Array
    y: Array
    new: Array
    y_new: Array
    length_scale: float
    given: dict[str, float]
    mean: Array
    std: Array

    @classmethod
    def of(
        cls, name: str, X: Array, y: Array, new: Array, y_new: Array, length_scale: float, given: Any
    ) -> Reference:
        """Fit the exact process."""
        exact = ExactGP(Gaussian(length_scale), **given).fit(X, y)
        mean, std = exact.predict(new, return_std=True)
        return cls(name, X, y, new, y_new, length_scale, given, mean, std)

    def figures(self, gp: Any) -> dict[str, Any]:
        """Fit a model; return its divergence from the exact one, its test error, and its predictions."""
        watch = Stopwatch()
        gp.fit(self.X, self.y)
        return self.compare(*gp.predict(self.new, return_std=True)) | {"fit_cpu_s": watch.lap()["cpu_s"]}

    def compare(self, mean: Array, std: Array) -> dict[str, Any]:
        """Return the divergence and the test error of predictions."""
        ratio = np.square(self.std / std)
        kl = 0.5 * (ratio - 1.0 - np.log(ratio) + np.square((mean - self.mean) / std))
        rmse = float(np.sqrt(np.mean(np.square(mean - self.y_new))))
        return {"kl": float(kl.mean()), "rmse": rmse, "mean": mean, "std": std}


def sinc(seed: int) -> Reference:
    """Return the example of figure 2; the exact process maximizes the evidence, its mean is 0."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.5, 1.5, (50, 1))
    y = np.sinc(5 * X[:, 0]) + 0.1 * rng.standard_normal(50)

    def lack(logarithm: float) -> float:
        gp = ExactGP(Gaussian(float(np.exp(logarithm))), mean=0.0).fit(X, y)
        return -float(gp.log_marginal_likelihood_value_)

    grid = np.log(np.geomspace(0.03, 1.0, 20))
    best = int(np.argmin([lack(x) for x in grid]))
    ends = grid[max(best - 1, 0)], grid[min(best + 1, 19)]
    length_scale = float(np.exp(minimize_scalar(lack, bounds=ends, method="bounded").x))
    gp = ExactGP(Gaussian(length_scale), mean=0.0).fit(X, y)
    given = {
        "mean": 0.0,
        "signal_variance": float(gp.signal_variance_[0]),
        "noise_variance": float(gp.noise_variance_[0]),
    }
    new = np.linspace(-3.0, 3.0, 301)[:, None]
    return Reference.of("sinc(5 x)", X, y, new, np.sinc(5 * new[:, 0]), length_scale, given)


def draw_of(name: str, X: Array, length_scale: float, noise: float, seed: int) -> Reference:
    """Return a draw of the process of variance 1 at the rows; the last 1,000 are for tests."""
    prior = ExactGP(Gaussian(length_scale), mean=0.0, signal_variance=1.0, noise_variance=noise)
    y = prior.sample_y(X, 1, seed, of="y")[:, 0]
    given = {"mean": 0.0, "signal_variance": 1.0, "noise_variance": noise}
    return Reference.of(name, X[:-1000], y[:-1000], X[-1000:], y[-1000:], length_scale, given)


def figure2(seed: int, folder: Path) -> None:
    """Approximate the example of figure 2 by 10 features; print, write and draw."""
    data = sinc(seed)
    scale, given = data.length_scale, data.given
    about_all = LocalGaussianFeatures(10 * len(data.new), length_scale=scale)
    about_all.fit_centroids(data.X, data.new)
    sums = StackedStatistics.zero(10 * len(data.new), 10).update(about_all.transform(data.X), data.y)
    each = LocalGaussianGP(about_all, residual=False, **given).fit_statistics(sums, about_all)
    few = LocalGaussianFeatures(10 * 50, length_scale=scale, n_centroids=50, threshold=2.0).fit(data.X)
    n = few.centroids_.shape[0]
    few = LocalGaussianFeatures(10 * n, length_scale=scale, n_centroids=n)
    plain = GaussianMaclaurinFeatures(10, length_scale=scale)
    fourier = RandomFourierFeatures(Gaussian(scale), 10, random_state=seed)
    panels = {
        "random Fourier features": data.figures(RandomFeatureGP(fourier, **given)),
        "Maclaurin, about the mean": data.figures(RandomFeatureGP(plain, **given)),
        "Maclaurin, about each test point": data.compare(*each.predict(data.new, return_std=True)),
        f"algorithm 1, {n} centroids (threshold 2 l)": data.figures(LocalGaussianGP(few, **given)),
    }
    for name, found in panels.items():
        print(f"  {name:44s} KL {found['kl']:.4f}", flush=True)
    figure, axes = new_figure(1, 4, width=16, height=3.8, sharey=True)
    x, noise = data.new[:, 0], given["noise_variance"]
    for ax, (name, found) in zip(axes, panels.items(), strict=True):
        for mean, std, color, label in (
            (data.mean, data.std, GREY, "exact process"),
            (found["mean"], found["std"], BLUE, "approximation, D = 10"),
        ):
            spread = 2.0 * np.sqrt(np.maximum(std**2 - noise, 0.0))
            ax.plot(x, mean, color=color, linewidth=1.5, label=label)
            ax.fill_between(x, mean - spread, mean + spread, color=color, alpha=0.2, linewidth=0)
        ax.plot(data.X[:, 0], data.y, ".", color="black", markersize=4, label="observations")
        label_axes(ax, f"{name}\nKL = {found['kl']:.3g}", "x", "f(x), 2 standard deviations")
        ax.set_ylim(-1.1, 1.4)
    axes[0].legend(fontsize=8, loc="lower left")
    for ax in axes[1:]:
        ax.set_ylabel("")
    results = {name: {"kl": found["kl"]} for name, found in panels.items()}
    settings = {"D": 10, "length_scale": scale, **given}
    write_results(folder, "local_figure2", seed=seed, settings=settings, results=results)
    save(figure, folder, "local_figure2")


def models(data: Reference, D: int, n: int, seed: int) -> dict[str, Any]:
    """Return the unfitted models: D features of each of n centroids, or D in all."""
    scale, given = data.length_scale, data.given
    kernel = Gaussian(scale)
    local = LocalGaussianFeatures(D * n, length_scale=scale, n_centroids=n, random_state=seed)
    plain = GaussianMaclaurinFeatures(D, length_scale=scale, random_state=seed)
    found: dict[str, Any] = {
        "local": LocalGaussianGP(local, **given),
        "nearest": LocalGaussianGP(local, rows="nearest", **given),
        "printed": LocalGaussianGP(local, residual=False, **given),
        "maclaurin": RandomFeatureGP(plain, **given),
    }
    for name, orthogonal in (("fourier", False), ("orthogonal", True)):
        fourier = RandomFourierFeatures(kernel, D, orthogonal=orthogonal, random_state=seed)
        found[name] = RandomFeatureGP(fourier, **given)
    return found


def threshold_of(gp: LocalGaussianGP, X: Array) -> float:
    """Return the distance of the farthest training row to its centroid, over the length scale."""
    centroids = gp.local_map_.centroids_.toarray()
    nearest = np.min([np.square(X - c).sum(axis=1) for c in centroids], axis=0)
    return float(np.sqrt(nearest.max()) / gp.local_map_.length_scale)


def measure(data: Reference, D: int, n: int, names: tuple[str, ...], n_seeds: int) -> list[dict[str, Any]]:
    """Return a line a model: figures of all seeds, and their medians."""
    lines = []
    for name in names:
        found, gp = [], None
        for seed in range(n_seeds):
            gp = models(data, D, n, seed)[name]
            found.append(data.figures(gp))
        line: dict[str, Any] = {"data": data.name, "map": name, "D": D}
        if isinstance(gp, LocalGaussianGP):
            line |= {"centroids": n, "threshold": threshold_of(gp, data.X)}
        for key in ("kl", "rmse", "fit_cpu_s"):
            line[key] = float(np.median([each[key] for each in found]))
        for key in ("kl", "rmse"):
            line[f"all_{key}"] = [each[key] for each in found]
        lines.append(line)
        print(
            f"  {data.name:24s} {name:10s} D = {D:3d}  KL {line['kl']:.4f}  RMSE {line['rmse']:.4f}",
            flush=True,
        )
    return lines


def draw_divergences(ax: Any, lines: list[list[dict[str, Any]]], others: Any, title: str) -> None:
    """Draw the divergence against the number of centroids."""
    for k, name in enumerate(ABOVE):
        curve(ax, {own[k]["centroids"]: own[k]["all_kl"] for own in lines}, *NAMES[name])
    for line in others:
        label, color = NAMES[line["map"]]
        ax.axhline(line["kl"], color=color, linestyle="--", linewidth=1.2, label=label)
    label_axes(ax, title, "centroids C", "mean KL(exact || approximate)")
    finish(ax, CENTROIDS)


def draw_errors(ax: Any, lines: list[list[dict[str, Any]]], exact: float, title: str) -> None:
    """Draw the test error against the number of features."""
    for k, name in enumerate(BELOW):
        style = "--" if name == "maclaurin" else "-"  # which may lie on the local one
        curve(ax, {own[k]["D"]: own[k]["all_rmse"] for own in lines}, *NAMES[name], line=style)
    ax.axhline(exact, color=GREY, linewidth=1, label=f"exact process, {exact:.3f}")
    label_axes(ax, title, "features D, of each centroid", "test RMSE")
    finish(ax, SIZES)


def finish(ax: Any, ticks: tuple[int, ...]) -> None:
    """Make both axes logarithmic, with plain numbers, and add the legend."""
    ax.set(xscale="log", yscale="log")
    low, high = ax.get_ylim()
    ax.set_ylim(low, high := high * (high / low) ** 0.25)  # room for the legend
    round_numbers = [m * 10.0**k for k in range(-3, 3) for m in (1, 2, 5)]
    ax.set_xticks(ticks, [str(tick) for tick in ticks])
    ax.set_yticks(shown := [v for v in round_numbers if low <= v <= high], [f"{v:g}" for v in shown])
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_formatter(NullFormatter())
    ax.legend(fontsize=7, loc="upper center", ncols=2)


def figure4(seed: int, n_seeds: int, folder: Path) -> None:
    """Measure both data sets; print, write and draw."""
    rng = np.random.default_rng(seed)
    # With the features of the upper panels, and the centroids of the lower ones.
    sets = (
        (draw_of("field, d = 2, l = 0.12", rng.uniform(-1, 1, (4000, 2)), 0.12, 0.01, seed), 100, 50),
        (draw_of("smooth, d = 8, l = 3", rng.normal(size=(4000, 8)), 3.0, 0.01, seed), 200, 1),
    )
    figure, axes = new_figure(2, 2, width=11, height=8)
    lines: list[dict[str, Any]] = []
    for (data, D, best), (above, below) in zip(sets, axes.T, strict=True):
        by_centroids = [measure(data, D, n, ABOVE, n_seeds) for n in CENTROIDS]
        others = measure(data, D, 1, ("maclaurin", "fourier", "orthogonal"), n_seeds)
        by_size = [measure(data, size, best, BELOW, n_seeds) for size in SIZES]
        draw_divergences(above, by_centroids, others, f"{data.name}: D = {D}")
        text = f"{data.name}: {best} centroid{'s' if best > 1 else ', the mean'}"
        draw_errors(below, by_size, float(np.sqrt(np.mean(np.square(data.mean - data.y_new)))), text)
        lines += [line for own in (*by_centroids, others, *by_size) for line in own]
    print("\n" + table(lines, FORMATS))
    write_results(folder, "local_figure4", seed=seed, settings={"seeds": n_seeds}, results=lines)
    save(figure, folder, "local_figure4")


def main() -> None:
    """Make both figures."""
    options = parser(__doc__)
    options.add_argument("--parts", nargs="+", choices=["figure2", "figure4"], default=["figure2", "figure4"])
    options.add_argument("--seeds", type=int, default=3, help="of the maps (default: %(default)s)")
    settings = options.parse_args()
    print_header(settings.seed)
    with threadpool_limits(1):
        if "figure2" in settings.parts:
            figure2(settings.seed, settings.output)
        if "figure4" in settings.parts:
            figure4(settings.seed, settings.seeds, settings.output)


if __name__ == "__main__":
    main()
