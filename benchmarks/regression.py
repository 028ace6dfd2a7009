"""Table 1 and table F.1 of Tripp et al. 2023, and the Pareto picture of accuracy against cost.

    python benchmarks/regression.py [--data FILE --target COL] [--components M] [--trials 1] [--full]
    python benchmarks/regression.py --pareto [--full]

Methods: exact GP on a random subset, sparse GP, random-feature GPs; for T_minmax and T_dp. Each is scored on
the test rows by R2 and mean log probability (noise included), with the CPU and wall seconds of features,
sums, fit and prediction, and the peak memory of its process. Protocols: "paper" takes the hyperparameters
from an exact GP on a random subset of 5,000 rows, the same for all; "evidence" (and, for sparse GPs, "bound")
fits them by the method itself on all rows. Unlike the paper's, the subset GP is scored with the fitted noise.

FILE is a table with the columns smiles and COL; a random 80 % are for training. If a file cluster_split.tsv
lies beside it (or --split names one), it is read as the paper reads dockstring-dataset.tsv: that split,
scores above 5 set to 5, Morgan counts folded to 1,024 columns. Without --data: Enamine50k, unfolded.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from common import parser, print_header, published, run_fresh, table, write_results
from figures import BLUE, GREEN, ORANGE, PURPLE, RED, SKY, label_axes, new_figure, save
from matplotlib.ticker import LogLocator, NullFormatter
from methods import METHODS, Given, Method, Source, fit_subset, measure

SPLIT = "cluster_split.tsv"
PROTOCOLS = ("paper", "evidence", "bound")
COLUMNS = {
    "kernel": "",
    "method": "",
    "protocol": "",
    "R2": "",
    "mean log probability": "",
    "CPU s": ".1f",
    "wall s": ".1f",
    "peak GiB": ".2f",
    "bytes a molecule": ",",
}
PARETO_COLUMNS = {
    "method": "",
    "protocol": "",
    "M": ",",
    "r2": ".4f",
    "mean_log_probability": ".4f",
    "cpu_s": ".1f",
    "wall_s": ".1f",
    "peak_gib": ".2f",
    "bytes_per_molecule": ",",
}
PUBLISHED_COLUMNS = {"R2, published": "", "mean log probability, published": ""}


def choose_source(options: argparse.Namespace) -> Source:
    """Return where the molecules come from."""
    if options.data is None:
        return Source(size=options.size or 0)
    split = options.split
    if split is None and (options.data.parent / SPLIT).is_file():
        split = options.data.parent / SPLIT
    size = options.size if options.size is not None else (0 if split is None else 1024)
    return Source(options.data, options.target, split, size)


def name_of(source: Source) -> str:
    """Return the name of the result files of a source."""
    return "enamine50k" if source.path is None else f"{source.path.stem}-{source.target}"


def subset_hyperparameters(source: Source, kernels: set[str], n: int, seed: int) -> dict[str, Given]:
    """Return the paper protocol's hyperparameters by kernel, and print them with their cost."""
    found = {}
    for kernel in sorted(kernels):
        found[kernel], cost = run_fresh(fit_subset, source, kernel, n, seed)
        values = ", ".join(f"{name} {value:.4g}" for name, value in found[kernel].items())
        print(f"exact GP on {n:,} rows, {kernel}: {values} ({cost.cpu_s:.1f} CPU s)", flush=True)
    return found


def regression(options: argparse.Namespace, source: Source) -> list[dict[str, Any]]:
    """Run every method asked for, and return one row a method, protocol and trial."""
    rows: list[dict[str, Any]] = []
    methods = [m for m in METHODS if m.kernel in options.kernels]
    for trial in range(options.trials):
        seed = options.seed + trial
        given: dict[str, Given] = {}
        if "paper" in options.protocols:
            given = subset_hyperparameters(source, {m.kernel for m in methods}, options.subset, seed)
        for method in methods:
            done = measure(
                source, method, options.components, given.get(method.kernel), tuple(options.protocols), seed
            )
            rows.extend(done)
            for row in done:
                print(progress(row), flush=True)
    return rows


def progress(row: dict[str, Any]) -> str:
    """Return one finished row as a line."""
    return (
        f"  {row['kernel']:8s} {row['method']:20s} M = {row['M']:5d} {row['protocol']:8s} "
        f"R2 {row['r2']:.4f}  log probability {row['mean_log_probability']:.4f}  "
        f"{row['cpu_s']:.1f} CPU s, {row['wall_s']:.1f} s, {row['peak_gib']:.2f} GiB"
    )


def spread(values: list[float]) -> str:
    """Return a mean, and the standard deviation where there are several values."""
    text = f"{np.mean(values):.3f}"
    return f"{text} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else text


def summary(rows: list[dict[str, Any]], reference: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the rows of the printed table: means over trials, published figures beside them."""
    published_names = {(m.kernel, m.name): m.published for m in METHODS}
    kernels = {"T_minmax": "T_MM", "T_dp": "T_DP"}
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["kernel"], row["method"], row["protocol"]), []).append(row)
    lines = []
    for (kernel, method, protocol), group in groups.items():
        line = {
            "kernel": kernel,
            "method": method,
            "protocol": protocol,
            "R2": spread([row["r2"] for row in group]),
            "mean log probability": spread([row["mean_log_probability"] for row in group]),
            "CPU s": np.mean([row["cpu_s"] for row in group]),
            "wall s": np.mean([row["wall_s"] for row in group]),
            "peak GiB": max(row["peak_gib"] for row in group),
            "bytes a molecule": group[0]["bytes_per_molecule"],
        }
        known = (reference or {}).get(kernels[kernel], {}).get(published_names[kernel, method])
        if known is not None and protocol == "paper":
            for name, key in (("R2", "R2"), ("mean log probability", "avg_log_prob")):
                line[f"{name}, published"] = "{:.3f} ± {:.3f}".format(*known[key])
        lines.append(line)
    return lines


# The Pareto picture ----------------------------------------------------------------------------------------


PARETO_SUBSET = 2000  # rows of the exact GP whose hyperparameters the picture's protocol "paper" takes
SUFFIXES = {"evidence": "", "bound": ", by the bound", "paper": ", by an exact GP on 2,000"}


@dataclass(frozen=True)
class Series:
    """The sizes of a method, and the look of each of its protocols: colour, line, and place of labels."""

    method: Method
    sizes: tuple[int, ...]
    further: tuple[int, ...]  # with --full
    looks: dict[str, tuple[str, str, tuple[int, int]]]


SERIES = [
    Series(
        Method("T_minmax", "one-bit T_minmax", "", "features"),
        (1024, 2048, 4096, 8192),
        (16_384, 32_768),
        {"evidence": (BLUE, "-o", (0, -14))},
    ),
    Series(
        Method("T_dp", "T_dp features", "", "features"),
        (1024, 2048, 4096, 8192),
        (),
        {"evidence": (ORANGE, "-s", (0, 6))},
    ),
    Series(
        Method("T_minmax", "sparse GP, T_minmax", "", "sparse", {"selection": "random"}),
        (512, 1024, 2048, 4096),
        (8192,),
        {
            "evidence": (GREEN, "-^", (-8, 6)),
            "bound": (SKY, "--v", (6, -14)),
            "paper": (RED, "-.P", (13, -3)),
        },
    ),
    Series(
        Method("T_minmax", "exact GP on a subset", "", "subset"),
        (1000, 2000, 4000),
        (8000,),
        {"evidence": (PURPLE, "-D", (0, -14))},
    ),
]


def fits(size: int) -> bool:
    """Tell whether the matrices of M = `size` fit into memory, and say so where they do not."""
    needed, free = 2.5 * 8 * size**2 / 2**30, psutil.virtual_memory().available / 2**30
    if needed > free:
        print(f"  M = {size:,} is left out: it needs {needed:.0f} GiB, and {free:.0f} GiB are free")
    return needed <= free


def pareto(options: argparse.Namespace, source: Source) -> list[dict[str, Any]]:
    """Run each method's sizes, hyperparameters on all rows (of the subset, for the exact GP).

    Protocol "paper" includes the cost of the exact GP on 2,000 rows that gives it its hyperparameters.
    """
    rows: list[dict[str, Any]] = []
    for series in SERIES:
        given, cost = None, None
        if "paper" in series.looks:
            given, cost = run_fresh(fit_subset, source, series.method.kernel, PARETO_SUBSET, options.seed)
        for size in series.sizes + (series.further if options.full else ()):
            if size <= options.largest and fits(size):
                done = measure(source, series.method, size, given, tuple(series.looks), options.seed)
                for row in done:
                    if row["protocol"] == "paper" and cost is not None:
                        row["cpu_s"] += cost.cpu_s
                        row["wall_s"] += cost.wall_s
                rows.extend(done)
                for row in done:
                    print(progress(row), flush=True)
    return rows


def short(size: int) -> str:
    """Return a number of features as a label.

    >>> short(512), short(4096), short(8000)
    ('512', '4k', '8k')
    """
    if size < 1000:
        return str(size)
    return f"{size // 1024}k" if size % 1024 == 0 else f"{size / 1000:g}k"


def draw_series(
    ax: Any,
    method: str,
    protocol: str,
    color: str,
    line: str,
    offset: tuple[int, int],
    rows: list[dict[str, Any]],
    key: str,
) -> None:
    """Draw one line, its points labelled with M."""
    points = sorted(
        (row for row in rows if (row["method"], row["protocol"]) == (method, protocol)),
        key=lambda row: row["M"],
    )
    if points:
        x, y = [row["cpu_s"] for row in points], [row[key] for row in points]
        name = method + SUFFIXES[protocol]
        ax.plot(x, y, line, color=color, markersize=5, linewidth=1.5, label=name)
        place = {"xytext": offset, "textcoords": "offset points", "ha": "center"}
        for row, a, b in zip(points, x, y, strict=True):
            ax.annotate(short(row["M"]), (a, b), color=color, fontsize=8, **place)


def draw_pareto(rows: list[dict[str, Any]], folder: Path, name: str, title: str) -> None:
    """Write the picture: R2 and mean log probability against CPU seconds, one line a method."""
    figure, axes = new_figure(1, 2, width=11.0, height=4.6)
    for ax, key, label in (
        (axes[0], "r2", "R² on the test molecules"),
        (axes[1], "mean_log_probability", "mean log probability of the test scores"),
    ):
        for series in SERIES:
            for protocol, (color, line, offset) in series.looks.items():
                draw_series(ax, series.method.name, protocol, color, line, offset, rows, key)
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.margins(y=0.08)
        label_axes(ax, "", "CPU seconds: fit and prediction of the test set", label)
    axes[0].legend(fontsize=8, frameon=False, loc="lower right")
    figure.suptitle(
        f"{title}: hyperparameters by evidence unless said; labels are M (features, landmarks, rows)",
        fontsize=11,
    )
    save(figure, folder, name)


# ------------------------------------------------------------------------------------------------------------


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    found = parser(__doc__, full="M = 5,000 as in the paper; with --pareto, up to M = 32,768 (20 GiB)")
    found.add_argument("--data", type=Path, help="table of molecules (default: Enamine50k)")
    found.add_argument("--target", default="score", help="column of the labels (default: %(default)s)")
    found.add_argument("--split", type=Path, help=f"table of the split (default: {SPLIT} beside the data)")
    found.add_argument("--size", type=int, help="columns of the folded fingerprint, 0 for unfolded")
    found.add_argument("--components", type=int, help="M (default: 2048; --full: 5000)")
    found.add_argument(
        "--subset",
        type=int,
        default=5000,
        help="rows of the exact GP for hyperparameters (default: %(default)s)",
    )
    found.add_argument("--trials", type=int, default=1, help="repeat with so many seeds")
    found.add_argument("--kernels", nargs="+", default=["T_minmax", "T_dp"], choices=["T_minmax", "T_dp"])
    found.add_argument("--protocols", nargs="+", default=list(PROTOCOLS), choices=PROTOCOLS)
    found.add_argument("--pareto", action="store_true", help="accuracy against CPU seconds instead")
    found.add_argument("--largest", type=int, default=10**9, help="with --pareto: leave out larger M")
    return found


def main(argv: list[str] | None = None) -> None:
    """Run what the command line asks for."""
    options = arguments().parse_args(argv)
    options.components = options.components or (5000 if options.full else 2048)
    source = choose_source(options)
    print_header(options.seed)
    data = source.load()
    print(data.describe(), flush=True)
    settings = {
        "data": data.name,
        "train": len(data.train),
        "test": len(data.test),
        "target": source.target,
        "columns": data.X.shape[1],
        "radius": source.radius,
    }
    title = f"{data.name}, {len(data.train):,} molecules for training"
    del data
    if options.pareto:
        rows = pareto(options, source)
        name = f"pareto-{name_of(source)}"
        draw_pareto(rows, options.output, name, title)
        print(table(rows, PARETO_COLUMNS))
    else:
        rows = regression(options, source)
        name = f"regression-{name_of(source)}"
        settings.update(M=options.components, subset=options.subset, trials=options.trials)
        known = published("tripp2023_dockstring")["table"].get(source.target)
        lines = summary(rows, known)
        print(table(lines, COLUMNS | (PUBLISHED_COLUMNS if known else {})))
    write_results(options.output, name, seed=options.seed, settings=settings, results=rows)


if __name__ == "__main__":
    main()
