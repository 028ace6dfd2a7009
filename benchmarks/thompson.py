"""Figure 4 of Tripp et al. 2023: 100 molecules by one round of Thompson sampling, exactly and by features.

A draw of the function f over n molecules by the exact kernel takes a Cholesky factorization of an n x n
matrix: n^3 / 3. With M random features it takes M normal numbers (the weights) and one product: linear in n.
T_minmax by one-bit features, T_dp by TanimotoDotProductFeatures (square roots of counts, four terms, no
bias correction).

"prior", as the paper's figure: 100 draws from N(0, k + 1e-4 I), before any label. The batch is picked as in
the authors' published script: the best molecule of each draw, the most frequent first, then the second
best, and so on, without repeats, up to 100. Seconds are those of kernel matrix or features, and of the draws.
(Their script also scales rows to length 1 before T_dp, of which the paper says nothing; rows stay as they
are here.) A prior knows no scores: what it picks, by either method, is somewhat worse than random molecules
on Enamine50k (extremes of a draw tend to be molecules unlike the others).

"posterior", what a screen needs: the same 100 draws and picks after --labels labelled molecules, over n other
ones. "exact": ExactGP. "features": RandomFeatureGP by its own evidence on the labels. "features, exact a and
noise": with the hyperparameters of the exact GP, which is the paper's protocol for regression. Beside them
what the exact posterior mean alone picks, random molecules, and the best 100 there are. Fitting does not
depend on n and is timed apart.

All times are CPU seconds with one thread. Dashed lines of the picture are not measured: they are the slope of
the largest n measured (n^3 for exact draws), carried to 10^8.

    python benchmarks/thompson.py [--full] [--data FILE --target COLUMN [--split FILE]] [--highest]

Scores are better the lower, as docking scores are, unless --highest. The default takes about 4 minutes on
two cores; --full takes exact draws to n = 16,000 (8,000 from the posterior) and five trials.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from common import (
    Regression,
    Stopwatch,
    parser,
    peak_gib,
    print_header,
    published,
    table,
    write_results,
)
from figures import BLUE, GREEN, GREY, ORANGE, RED, label_axes, new_figure, save, slope
from methods import Source
from threadpoolctl import threadpool_limits

from daskrf import seeds
from daskrf.features import FeatureMap, TanimotoDotProductFeatures, TanimotoMinMaxFeatures
from daskrf.gp import ExactGP, RandomFeatureGP
from daskrf.gp.processes.posterior import as_features, standard_normal
from daskrf.gp.sums.chunks import feature_blocks
from daskrf.kernels import TanimotoDotProduct, TanimotoMinMax

PICKS = 100
PRIOR_NOISE = 1e-4
TARGET_SIZE = 1e8
KERNELS = {"T_minmax": TanimotoMinMax(), "T_dp": TanimotoDotProduct(transform="sqrt")}
COLORS = {"T_minmax": BLUE, "T_dp": ORANGE}
SIZES = [500, 1000, 2000, 4000, 8000, 16_000, 32_000]
EXACT_AGAIN = "features, exact a and noise"

Array = npt.NDArray[np.float64]
Row = dict[str, Any]


def feature_map(kernel: str, data: Regression, n_components: int, seed: int) -> FeatureMap:
    """Return the map of a kernel; that of T_dp is told the norms of the whole library."""
    if kernel == "T_minmax":
        return TanimotoMinMaxFeatures(n_components, random_state=seed)
    squares = np.asarray(data.X.sum(axis=1)).ravel()  # of the square roots
    squares = squares[squares > 0]
    norms = (float(squares.min()), float(squares.max()))
    return TanimotoDotProductFeatures(n_components, norm_range=norms, random_state=seed)


def prior_draws(feature_map: FeatureMap, X: Any, seed: int) -> npt.NDArray[np.float32]:
    """Return draws of f from the prior of the features, shape (n, PICKS), in bounded memory."""
    weights = standard_normal(seed, "thompson/prior", feature_map.n_components, PICKS).astype(np.float32)
    fitted = feature_map.fit(X)
    return np.concatenate(
        [as_features(phi, len(weights), np.float32) @ weights for phi in small_blocks(X, fitted)]
    )


def small_blocks(X: Any, fitted: FeatureMap) -> Iterator[npt.NDArray[Any]]:
    """Yield blocks of features of 4,096 rows, which as float32 take some 80 MB."""
    for start in range(0, X.shape[0], 4096):
        yield from feature_blocks(X[start : start + 4096], fitted)


def pick(draws: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return PICKS rows of draws, shape (n, n_draws), by the best of each draw, then the second best, ...

    Of one rank the rows that more draws agree on come first.
    """
    n = len(draws)
    top = np.argpartition(-draws, min(PICKS, n) - 1, axis=0)[:PICKS]
    ranked = np.take_along_axis(top, np.argsort(-np.take_along_axis(draws, top, axis=0), axis=0), axis=0)
    chosen: dict[int, None] = {}
    for rank in ranked:
        rows, times = np.unique(rank, return_counts=True)
        for row in rows[np.argsort(-times, kind="stable")]:
            chosen.setdefault(int(row))
    return np.array(list(chosen)[:PICKS])


def timed(function: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """Return the result of a call and its seconds."""
    watch = Stopwatch()
    return function(), watch.lap()


def scores(y: Array, rows: npt.NDArray[np.int64]) -> dict[str, float]:
    """Return the mean and the best score of a batch, better the lower."""
    return {"mean_score": float(y[rows].mean()), "best_score": float(y[rows].min())}


def run_prior(data: Regression, y: Array, trial: int, options: argparse.Namespace) -> list[Row]:
    """Draw from the prior over growing random samples of the library."""
    rng = seeds.generator(options.seed, "thompson/prior", trial)
    order = rng.permutation(len(y))
    found: list[Row] = []
    for n in sizes(len(y)):
        rows = order[:n]
        X, labels = data.X[rows], y[rows]
        common = {"protocol": "prior", "trial": trial, "n": n}
        found.append(
            {**common, "kernel": "none", "method": "random", **scores(labels, np.arange(n - PICKS, n))}
        )
        for name, kernel in KERNELS.items():
            phi = feature_map(name, data, options.components, options.seed + trial)
            methods = {"features": lambda X=X, phi=phi: prior_draws(phi, X, trial)}
            if n <= options.exact_prior:
                gp = ExactGP(kernel, mean=0.0, signal_variance=1.0, noise_variance=PRIOR_NOISE)
                methods["exact"] = lambda X=X, gp=gp: gp.sample_y(X, PICKS, random_state=trial)
            for method, function in methods.items():
                draws, seconds = timed(function)
                made = {**common, "kernel": name, "method": method, **seconds}
                found.append({**made, **scores(labels, pick(draws))})
                show(found[-1])
    return found


def run_posterior(data: Regression, y: Array, trial: int, options: argparse.Namespace) -> list[Row]:
    """Fit to a few labelled molecules, and draw from the posterior over growing samples of the others."""
    order = seeds.generator(options.seed, "thompson/posterior", trial).permutation(len(y))
    known, pool = order[: options.labels], order[options.labels :]
    found: list[Row] = []
    for name, kernel in KERNELS.items():
        phi = feature_map(name, data, options.components, options.seed + trial)
        # Draws of -y, since the largest values of a draw are picked.
        exact, seconds = timed(lambda kernel=kernel: ExactGP(kernel).fit(data.X[known], -y[known]))
        common = {"protocol": "posterior", "trial": trial, "kernel": name}
        found.append({**common, "method": "exact", "n": 0, **seconds})
        given = {
            "mean": exact.mean_,
            "signal_variance": exact.signal_variance_,
            "noise_variance": exact.noise_variance_,
        }
        models: dict[str, Any] = {"exact": exact}
        for method, fixed in (("features", {}), (EXACT_AGAIN, given)):
            models[method], seconds = timed(
                lambda phi=phi, fixed=fixed: fit(phi, data.X[known], -y[known], fixed)
            )
            found.append({**common, "method": method, "n": 0, **seconds})
        for n in sizes(len(pool)):
            X, labels = data.X[pool[:n]], y[pool[:n]]
            found.append({**common, "n": n, "method": "random", **scores(labels, np.arange(n - PICKS, n))})
            found.append(
                {**common, "n": n, "method": "best there are", **scores(labels, np.argsort(labels)[:PICKS])}
            )
            mean, seconds = timed(lambda X=X, exact=exact: exact.predict(X))
            greedy = np.argsort(-mean, kind="stable")[:PICKS]
            found.append({**common, "n": n, "method": "mean of exact", **seconds, **scores(labels, greedy)})
            for method, model in models.items():
                if method != "exact" or n <= options.exact_posterior:
                    draws, seconds = timed(lambda X=X, model=model: model.sample_y(X, PICKS, trial, of="f"))
                    found.append(
                        {**common, "n": n, "method": method, **seconds, **scores(labels, pick(draws))}
                    )
                    show(found[-1])
    return found


def fit(phi: FeatureMap, X: Any, y: Array, fixed: dict[str, Array]) -> RandomFeatureGP:
    """Return a fitted model whose draws need no further factorization."""
    gp = RandomFeatureGP(phi, **fixed).fit(X, y)
    gp.sample_weights(1, 0)
    return gp


def sizes(n: int) -> list[int]:
    """Return the sizes of samples, up to all n."""
    return [*(size for size in SIZES if size < n), n]


def show(row: Row) -> None:
    """Print a row."""
    print(
        f"  {row['protocol']:9s} trial {row['trial']} {row['kernel']:8s} n = {row['n']:6,d} "
        f"{row['method']:28s} {row['cpu_s']:8.2f} s  mean score {row['mean_score']:7.3f}",
        flush=True,
    )


def summarize(rows: list[Row]) -> list[Row]:
    """Return means over trials, with the standard errors of the mean scores."""
    keys = dict.fromkeys((r["protocol"], r["kernel"], r["method"], r["n"]) for r in rows)
    found = []
    for key in keys:
        group = [r for r in rows if (r["protocol"], r["kernel"], r["method"], r["n"]) == key]
        row: Row = dict(zip(("protocol", "kernel", "method", "n"), key, strict=True))
        row["trials"] = len(group)
        for name in ("wall_s", "cpu_s", "mean_score", "best_score"):
            if name in group[0]:
                row[name] = float(np.mean([r[name] for r in group]))
        if "mean_score" in group[0] and len(group) > 1:
            row["standard_error"] = float(
                np.std([r["mean_score"] for r in group], ddof=1) / np.sqrt(len(group))
            )
        found.append(row)
    return found


def line(summary: list[Row], protocol: str, kernel: str, method: str, value: str) -> tuple[Array, Array]:
    """Return n and a value of one method, n ascending."""
    wanted = [r for r in summary if (r["protocol"], r["kernel"], r["method"]) == (protocol, kernel, method)]
    wanted = sorted((r for r in wanted if r["n"] and value in r), key=lambda r: r["n"])
    return np.array([r["n"] for r in wanted], float), np.array([r[value] for r in wanted])


def project(summary: list[Row]) -> list[Row]:
    """Return seconds at 10^8 molecules: exact by n^3 from the largest n, features by their slope there.

    Exact draws from the posterior are left out: at the n measured, n^3 is not yet the most of them.
    """
    found = []
    for protocol in ("prior", "posterior"):
        for kernel in KERNELS:
            for method in ("exact", "features"):
                n, seconds = line(summary, protocol, kernel, method, "cpu_s")
                if len(n) < 2 or (protocol, method) == ("posterior", "exact"):
                    continue
                before = max(len(n) - 3, 0) if method == "features" else len(n) - 2
                if method == "exact":
                    at = seconds[-1] * (TARGET_SIZE / n[-1]) ** 3
                    power = np.log(seconds[-1] / seconds[before]) / np.log(n[-1] / n[before])
                    more = {"power_measured": float(power)}
                else:
                    a_row = (seconds[-1] - seconds[before]) / (n[-1] - n[before])
                    at = seconds[-1] + a_row * (TARGET_SIZE - n[-1])
                    more = {"molecules_per_s": float(1.0 / a_row)}
                row = {"protocol": protocol, "kernel": kernel, "method": method, "n": TARGET_SIZE}
                found.append({**row, "cpu_s": float(at), "hours": float(at / 3600), **more})
    return found


def draw_times(ax: Any, summary: list[Row], projected: list[Row]) -> None:
    """Draw seconds against n, the published ones as open marks, projections dashed."""
    past = published("tripp2023_thompson")
    for kernel, color in COLORS.items():
        for method, mark, style in (("exact", "s", "-"), ("features", "o", "-")):
            n, seconds = line(summary, "prior", kernel, method, "cpu_s")
            ax.plot(n, seconds, style, marker=mark, color=color, markersize=4, label=f"{kernel}, {method}")
            key = ("prior", kernel, method)
            for end in (r for r in projected if (r["protocol"], r["kernel"], r["method"]) == key):
                far = np.geomspace(n[-1], TARGET_SIZE, 50)
                path = seconds[-1] * (far / n[-1]) ** 3
                if method == "features":
                    part = (far - n[-1]) / (TARGET_SIZE - n[-1])
                    path = seconds[-1] + (end["cpu_s"] - seconds[-1]) * part
                ax.plot(far, path, "--", color=color, linewidth=1)
            ax.plot(
                past["n"],
                past["seconds"][kernel][method],
                mark,
                color=color,
                markerfacecolor="none",
                alpha=0.6,
            )
    ax.plot([], [], "--", color=GREY, label="projected, not measured")
    ax.plot(
        [], [], "D", color=GREY, markerfacecolor="none", label="published, same marks (wall, their machine)"
    )
    n, seconds = line(summary, "prior", "T_dp", "exact", "cpu_s")
    if len(n):
        slope(ax, (n[-1] / 4, seconds[-1] / 400), n[-1] * 3, 3.0, "n³")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_ylim(3e-3, 1e6)
    for seconds_of, text in ((60, "a minute"), (3600, "an hour"), (86400, "a day")):
        ax.axhline(seconds_of, color=GREY, linewidth=0.4)
        ax.annotate(text, (1.1e8, seconds_of), fontsize=7, color=GREY, va="bottom", ha="right")
    label_axes(ax, "Time of 100 draws (prior)", "molecules n", "seconds on one core")
    ax.legend(fontsize=7, loc="lower right")


def draw_scores(ax: Any, summary: list[Row], protocol: str, title: str, unit: str) -> None:
    """Draw mean scores of the batch against n, with standard errors."""

    def add(kernel: str, method: str, color: str, style: str, label: str) -> None:
        n, score = line(summary, protocol, kernel, method, "mean_score")
        ax.plot(n, score, style, color=color, markersize=4, linewidth=1.3, label=label)
        width = line(summary, protocol, kernel, method, "standard_error")[1]
        if len(width) == len(score):
            ax.fill_between(n, score - width, score + width, color=color, alpha=0.15, linewidth=0)

    for kernel, color in COLORS.items():
        add(kernel, "exact", color, "s-", f"{kernel}, exact")
        add(kernel, "features", color, "o--", f"{kernel}, features")
    if protocol == "posterior":
        add("T_minmax", EXACT_AGAIN, RED, "^:", "T_minmax, features,\nexact GP's a and noise")
        add("T_minmax", "mean of exact", GREEN, "-.", "T_minmax, exact mean (greedy)")
        add("T_minmax", "best there are", "black", ":", "best 100 there are")
    add("none" if protocol == "prior" else "T_minmax", "random", GREY, "-", "random")
    ax.set_xscale("log")
    label_axes(ax, title, "molecules n", f"mean {unit} of the 100 picked")
    if protocol == "posterior":
        ax.legend(fontsize=7, loc="center right", bbox_to_anchor=(1.0, 0.7))
    else:
        ax.legend(fontsize=7)


def draw(summary: list[Row], projected: list[Row], options: argparse.Namespace, unit: str) -> None:
    """Write the picture."""
    figure, axes = new_figure(1, 3, width=15, height=4.8)
    draw_times(axes[0], summary, projected)
    draw_scores(axes[1], summary, "prior", "Batch from the prior (the paper's figure 4)", unit)
    title = f"Batch from the posterior after {options.labels:,} labels"
    draw_scores(axes[2], summary, "posterior", title, unit)
    save(figure, options.output, "thompson")


def arguments() -> argparse.Namespace:
    """Return the options."""
    known = parser(__doc__, full="exact draws at larger n, and five trials")
    known.add_argument("--data", type=Path, help="table with a column smiles (default: Enamine50k)")
    known.add_argument("--target", default="score", help="column of the scores (default: %(default)s)")
    known.add_argument("--split", type=Path, help="split file of dockstring, which names its molecules")
    known.add_argument("--highest", action="store_true", help="scores are better the higher")
    known.add_argument("--components", type=int, default=5000, help="M (default: %(default)s, the paper's)")
    known.add_argument("--labels", type=int, default=2000, help="labelled molecules (default: %(default)s)")
    known.add_argument("--molecules", type=int, help="take a random sample of so many (default: all)")
    known.add_argument("--trials", type=int, help="repetitions (default: 2, with --full 5)")
    known.add_argument("--exact-prior", type=int, help="largest n of exact draws (8,000; --full 16,000)")
    known.add_argument("--exact-posterior", type=int, help="the same after labels (4,000; --full 8,000)")
    options = known.parse_args()
    for name, short, full in (
        ("trials", 2, 5),
        ("exact_prior", 8000, 16_000),
        ("exact_posterior", 4000, 8000),
    ):
        if getattr(options, name) is None:
            setattr(options, name, full if options.full else short)
    return options


def main() -> None:
    """Run the rounds that the command line asks for."""
    options = arguments()
    print_header(options.seed)
    data = Source(options.data, options.target, options.split).load()
    print(data.describe(), flush=True)
    if options.molecules is not None and options.molecules < len(data.y):
        rows = seeds.generator(options.seed, "thompson/molecules").permutation(len(data.y))
        rows = np.sort(rows[: options.molecules])
        data = replace(data, X=data.X[rows], y=data.y[rows])
    y = -data.y if options.highest else data.y
    least = max(2 * PICKS, options.labels + PICKS + 1)
    if len(y) <= least:
        raise SystemExit(f"{len(y):,} molecules are too few: {least:,} are needed; ask for fewer --labels.")
    for name in KERNELS:  # compiled before anything is timed
        prior_draws(feature_map(name, data, 64, 0), data.X[:PICKS], 0)
        KERNELS[name](data.X[:PICKS])
    watch = Stopwatch()
    rows: list[Row] = []
    with threadpool_limits(1):  # seconds of one core: what a busy machine changes least
        for trial in range(options.trials):
            rows += run_prior(data, y, trial, options) + run_posterior(data, y, trial, options)
    for row in rows if options.highest else []:
        row.update({name: -row[name] for name in ("mean_score", "best_score") if name in row})
    summary = summarize(rows)
    projected = project(summary)
    formats = {"protocol": "", "kernel": "", "method": "", "n": ",", "cpu_s": ".2f"}
    print(table(summary, {**formats, "mean_score": ".3f", "standard_error": ".3f", "best_score": ".2f"}))
    print(f"\nProjected to {TARGET_SIZE:,.0f} molecules (not measured; hours of one core):")
    more = {"protocol": "", "kernel": "", "method": "", "hours": ",.1f", "power_measured": ".2f"}
    print(table(projected, {**more, "molecules_per_s": ",.0f"}))
    lap = watch.lap()
    print(f"{lap['wall_s']:.0f} s, {lap['cpu_s']:.0f} CPU seconds, peak memory {peak_gib():.1f} GiB")
    settings = {
        "data": data.name,
        "molecules": len(y),
        "components": options.components,
        "labels": options.labels,
        "trials": options.trials,
        "picks": PICKS,
        "full": options.full,
        **lap,
        "peak_gib": peak_gib(),
    }
    results = {"summary": summary, "projected": projected}
    write_results(options.output, "thompson", seed=options.seed, settings=settings, results=results)
    draw(summary, projected, options, "score" if options.data else "docking score (kcal/mol)")


if __name__ == "__main__":
    main()
