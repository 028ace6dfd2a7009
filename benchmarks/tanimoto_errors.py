"""Figures 1, 2, 3, F.1 and F.2 of Tripp et al. 2023 from a fresh run, over the published figures.

    python benchmarks/tanimoto_errors.py [--trials 5] [--figures 1 2 3 F1] [--full]

The first 1,000 molecules of GuacaMol, Morgan radius 2, folded to 1,024 columns, binary and counts; mean
squared errors over all 1,000 x 1,000 pairs, medians and quartiles over 5 seeds. Prints the ratio of our
median to the published one wherever there is one, and writes one PNG a figure and tanimoto_errors.json.

Figure 2 also draws the prefactor features on the grid of the published code, whose first and last point fall
together, computed here: it is why the paper reports an error of O(1/M^2) where the right grid is exact to
rounding from some hundred features. The published contour plot has its axes s and c exchanged.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import errors
import numpy as np
from common import Stopwatch, guacamol, parser, print_header, published, table, write_results
from errors import DISTRIBUTIONS, KINDS
from figures import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    RED,
    curve,
    error_axes,
    label_axes,
    new_figure,
    prepare,
    published_points,
    save,
    slope,
)

SIZES = [100, 316, 1000, 3162, 10_000]
MORE_SIZES = [31_622, 100_000]
PREFACTOR_SIZES = [4, 6, 8, 12, 16, 24, 32, 48, 64, 100, 178, 316, 1000, 3162, 10_000]
N_PREFACTOR = 64
POWERS = [-2.0, -1.0, 0.0, 1.0, 2.0]
CORRECTION_NAMES = {"None": "plain", "normalize": "normalized", "residual": "residual sketched"}
PUBLISHED_CORRECTIONS = {"None": "none", "normalize": "normalize", "residual": "sketch_error"}
LINES = {"binary": "-", "count": "--"}


def quantiles(
    known: dict[str, dict[str, float]],
) -> tuple[list[int], list[float], tuple[list[float], list[float]]]:
    """Return M, medians and quartiles of published figures."""
    sizes = [int(m) for m in known]
    middle, low, high = ([entry[key] for entry in known.values()] for key in ("median", "q25", "q75"))
    return sizes, middle, (low, high)


# Measuring -------------------------------------------------------------------------------------------------


def figure_1(data: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Measure the errors of T_minmax features, and the variance of single ones."""
    n_single = 100_000 if options.full else 30_000
    return {
        kind: {
            "mse": errors.minmax_errors(data[kind], options.sizes, options.trials, options.seed),
            "variance": errors.minmax_variances(data[kind], n_single, options.seed),
        }
        for kind in KINDS
    }


def figure_2(data: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Measure the errors of the prefactor features."""
    found = {}
    for kind in KINDS:
        found[kind] = errors.prefactor_results(
            data[kind], PREFACTOR_SIZES, N_PREFACTOR, options.trials, options.seed
        )
        found[kind]["map"] = errors.prefactor_of_map(data[kind])
        print(f"  prefactor features of the map, {kind}: {found[kind]['map']}")
    return found


def figure_3(data: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Measure the errors of T_dp features by allocation, bias correction and M."""
    powers = list(np.linspace(-2, 2, 9)) if options.full else POWERS
    return {
        kind: {
            "allocation": errors.allocation_errors(data[kind], 10_000, powers, options.trials, options.seed),
            "overall": errors.dotproduct_errors(data[kind], options.sizes, options.trials, options.seed),
        }
        for kind in KINDS
    }


def figure_f1(data: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """Measure the errors of the polynomial sketch and of single terms of the series."""
    return {
        kind: errors.term_errors(data[kind], options.sizes, options.trials, options.seed) for kind in KINDS
    }


# Drawing ---------------------------------------------------------------------------------------------------


def draw_1(found: dict[str, Any], folder: Path) -> None:
    """Draw figure 1: error against M, and variance of single features against theory."""
    known = published("tripp2023_mse")["mse_median_of_5"]["tmm"]
    figure, (left, right) = new_figure(1, 2, width=10.5, height=4.4)
    for name, color in zip(DISTRIBUTIONS, (BLUE, ORANGE), strict=True):
        for kind, mark in zip(KINDS, ("s", "D"), strict=True):
            curve(left, found[kind]["mse"][name], f"{name}, {kind}", color, LINES[kind])
            published_points(
                left,
                *quantiles(known[kind][name.capitalize()]),
                color=color,
                marker=mark,
                label=f"published, {kind}" if name == "rademacher" else None,
            )
            variance = found[kind]["variance"]
            right.plot(
                variance["similarity"],
                variance[name],
                "." if kind == "binary" else "x",
                color=color,
                markersize=5,
                label=f"{name}, {kind}",
            )
        t = np.linspace(0, 1, 101)
        theory = errors.theoretical_variance(t, name)
        right.plot(
            t, theory, "--", color="black", linewidth=1, label="theorem 3.1" if name == "gaussian" else None
        )
    error_axes(left, "Error of the T_minmax matrix")
    n_single = found["binary"]["variance"]["n_components"]
    label_axes(
        right,
        f"Variance of single features ({n_single:,} of them)",
        "T_minmax(x, y)",
        "variance of φ(x) φ(y)",
    )
    for ax in (left, right):
        ax.legend(fontsize=8, frameon=False)
    save(figure, folder, "figure1_minmax")


def draw_contours(axes: Any, found: dict[str, Any]) -> Any:
    """Draw errors over multiples of s* and c*; the white cross marks (s*, c*)."""
    logarithm = np.log10(errors.MULTIPLES)
    for row, kind in enumerate(KINDS):
        for column, r in enumerate((1, 3)):
            ax = axes[row][column]
            with np.errstate(divide="ignore"):
                values = np.log10(np.array(found[kind]["contour"][r])).clip(-24, 3)
            drawn = ax.contourf(logarithm, logarithm, values.T, levels=np.arange(-24, 4, 3), cmap="viridis")
            ax.plot(0, 0, "+", color="white", markersize=14, markeredgewidth=2)
            ax.set_title(f"{kind}, r = {r}", fontsize=9)
            ticks = [-2, -1, 0, 1, 2]
            ax.set_xticks(ticks, ["0.01 s*", "0.1 s*", "s*", "10 s*", "100 s*"], fontsize=7)
            ax.set_yticks(ticks, ["0.01 c*", "0.1 c*", "c*", "10 c*", "100 c*"], fontsize=7)
    return drawn


def draw_2(found: dict[str, Any], folder: Path) -> None:
    """Draw figure 2: error of the prefactor over s and c, and against the number of features."""
    figure, axes = new_figure(2, 4, width=12.5, height=5.2, width_ratios=[1, 1, 0.9, 0.9])
    for ax in axes[:, 2:].ravel():
        ax.remove()
    drawn = draw_contours(axes[:, :2], found)
    bar = figure.colorbar(drawn, ax=axes[:, :2], shrink=0.8, pad=0.01)
    bar.set_label(f"log10 of the median squared error, {N_PREFACTOR} features")
    ax = figure.add_subplot(axes[0, 0].get_gridspec()[:, 2:])
    for r, color in ((1, BLUE), (3, RED)):
        for kind in KINDS:
            curve(ax, found[kind]["right grid"][r], f"r = {r}, {kind}", color, LINES[kind])
            curve(ax, found[kind]["published grid"][r], "", color, LINES[kind], marker="")
    error_axes(ax, "Error of (|x|² + |y|²)⁻ʳ at s*, c*", "number of prefactor features")
    prepare(ax)
    ax.axvline(N_PREFACTOR, color=GREY, linewidth=1, linestyle=":")
    ax.annotate(
        "64, the\ndefault",
        (N_PREFACTOR, 1e-30),
        color=GREY,
        fontsize=8,
        ha="right",
        xytext=(-3, 0),
        textcoords="offset points",
    )
    slope(ax, (300, 3e-8), 10_000, -2, "")
    ax.annotate("1/M²", (1500, 2e-10), color=GREY, fontsize=8, ha="right")
    ax.annotate("thin: grid of the published code,\nwhose two ends fall together", (130, 1e-1), fontsize=8)
    ax.annotate(
        "marked: grid of lemma 4.5, exact to\nrounding from about 300 features", (130, 1e-18), fontsize=8
    )
    ax.set_ylim(1e-33, 1e3)
    ax.legend(fontsize=8, frameon=False, loc=(0.62, 0.22))
    save(figure, folder, "figure2_prefactor")


def draw_3(found: dict[str, Any], folder: Path) -> None:
    """Draw figure 3 (binary) and F.2 (counts)."""
    draw_dotproduct(found, folder, "binary", "figure3_dotproduct")
    draw_dotproduct(found, folder, "count", "figureF2_dotproduct_counts")


def draw_dotproduct(found: dict[str, Any], folder: Path, kind: str, name: str) -> None:
    """Draw the errors by allocation of features to terms, and by M and bias correction."""
    known = published("tripp2023_mse")["mse_median_of_5"]["tdp_R4_p-1"][kind]
    figure, (left, right) = new_figure(1, 2, width=10.5, height=4.4)
    colors = zip(CORRECTION_NAMES, (BLUE, ORANGE, GREEN), ("s", "D", "^"), strict=True)
    for correction, color, mark in colors:
        curve(left, found[kind]["allocation"][correction], CORRECTION_NAMES[correction], color)
        curve(right, found[kind]["overall"][correction], CORRECTION_NAMES[correction], color)
        sizes, middle, (low, high) = quantiles(known[PUBLISHED_CORRECTIONS[correction]])
        at = sizes.index(10_000)
        published_points(left, [-1.0], [middle[at]], ([low[at]], [high[at]]), color=color, marker=mark)
        published_points(
            right,
            sizes,
            middle,
            (low, high),
            color=color,
            marker=mark,
            label=f"published, {CORRECTION_NAMES[correction]}",
        )
    label_axes(left, "Allocation of M = 10,000 features, m_r ~ r^p", "p", "mean squared error")
    left.set_ylim(bottom=0)
    error_axes(right, "Error of the T_dp matrix, p = -1")
    right.legend(fontsize=8, frameon=False)
    figure.suptitle(f"T_dp features, R = 4, {kind} fingerprints", fontsize=11)
    save(figure, folder, name)


def draw_f1(found: dict[str, Any], folder: Path) -> None:
    """Draw figure F.1: errors of the polynomial sketch and of single terms of the series."""
    known = published("tripp2023_mse")["mse_median_of_5"]["tdp_term"]
    figure, axes = new_figure(1, 2, width=10.5, height=4.4, sharey=True)
    for ax, part in zip(axes, ("polynomial", "term"), strict=True):
        for r, color in ((1, BLUE), (2, GREEN), (3, RED)):
            for kind in KINDS:
                curve(ax, found[kind][part][r], f"r = {r}, {kind}", color, LINES[kind])
                if part == "term" and str(r) in known[kind]:
                    points = known[kind][str(r)]
                    mark = "s" if kind == "binary" else "D"
                    label = f"published, {kind}" if r == 1 else None
                    published_points(
                        ax,
                        [int(m) for m in points],
                        list(points.values()),
                        color=color,
                        marker=mark,
                        label=label,
                    )
    error_axes(axes[0], "TensorSketch of (x·y)ʳ")
    error_axes(axes[1], "Sketch of the term (x·y / (|x|² + |y|²))ʳ", y="")
    for ax in axes:
        slope(ax, (1000, 2e-6), 10_000, -1, "1/M")
        ax.legend(fontsize=8, frameon=False)
    save(figure, folder, "figureF1_terms")


# Ratios ----------------------------------------------------------------------------------------------------


def ratios(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Return ours / published of every median that is published."""
    known = published("tripp2023_mse")["mse_median_of_5"]
    rows: list[dict[str, Any]] = []

    def add(what: str, kind: str, trials: dict[int, list[float]], reference: dict[str, Any]) -> None:
        for m, entry in reference.items():
            if int(m) in trials:
                entry = entry if isinstance(entry, dict) else {"median": entry}
                ours = float(np.median(trials[int(m)]))
                rows.append(
                    {
                        "features": what,
                        "fingerprint": kind,
                        "M": int(m),
                        "ours": ours,
                        "published": entry["median"],
                        "upper quartile": entry.get("q75"),
                        "ours / published": ours / entry["median"],
                        "ours / upper quartile": ours / entry["q75"] if "q75" in entry else None,
                    }
                )

    for kind in KINDS:
        for name in DISTRIBUTIONS if "figure1" in found else ():
            add(
                f"T_minmax, {name}",
                kind,
                found["figure1"][kind]["mse"][name],
                known["tmm"][kind][name.capitalize()],
            )
        for name, theirs in PUBLISHED_CORRECTIONS.items() if "figure3" in found else ():
            what = f"T_dp, {CORRECTION_NAMES[name]}"
            add(what, kind, found["figure3"][kind]["overall"][name], known["tdp_R4_p-1"][kind][theirs])
        for r, reference in known["tdp_term"][kind].items() if "figureF1" in found else ():
            add(f"T_dp, term {r}", kind, found["figureF1"][kind]["term"][int(r)], reference)
    return rows


STEPS: dict[str, tuple[str, Callable[..., Any], Callable[..., None]]] = {
    "1": ("figure1", figure_1, draw_1),
    "2": ("figure2", figure_2, draw_2),
    "3": ("figure3", figure_3, draw_3),
    "F1": ("figureF1", figure_f1, draw_f1),
}


def main(argv: list[str] | None = None) -> None:
    """Measure, draw and print what the command line asks for."""
    found_parser = parser(__doc__, full="M up to 100,000, nine allocations, 100,000 single features")
    found_parser.add_argument("--trials", type=int, default=5, help="seeds (default: %(default)s)")
    found_parser.add_argument("--figures", nargs="+", default=list(STEPS), choices=list(STEPS))
    options = found_parser.parse_args(argv)
    options.sizes = SIZES + (MORE_SIZES if options.full else [])
    print_header(f"{options.seed} to {options.seed + options.trials - 1}")
    data = guacamol()
    found: dict[str, Any] = {}
    watch = Stopwatch()
    for name in options.figures:
        key, measure, draw = STEPS[name]
        found[key] = measure(data, options)
        draw(found[key], options.output)
        print(f"{key}: {watch.lap()['cpu_s']:.0f} CPU s", flush=True)
    rows = ratios(found)
    print(
        table(
            rows,
            {
                "features": "",
                "fingerprint": "",
                "M": ",",
                "ours": ".3g",
                "published": ".3g",
                "upper quartile": ".3g",
                "ours / published": ".2f",
                "ours / upper quartile": ".2f",
            },
        )
    )
    settings = {
        "molecules": 1000,
        "trials": options.trials,
        "sizes": options.sizes,
        "n_prefactor of the contours": N_PREFACTOR,
    }
    results = {**found, "ratios": rows}
    name = "tanimoto_errors"
    if len(options.figures) < len(STEPS):  # not over the results of all figures
        name += "-" + "-".join(options.figures)
    write_results(options.output, name, seed=options.seed, settings=settings, results=results)


if __name__ == "__main__":
    main()
