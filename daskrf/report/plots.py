"""Plots, drawn by matplotlib without a display."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
import numpy.typing as npt

from daskrf.errors import printable
from daskrf.report.merit import reliability
from daskrf.report.recovery import Recovery

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY = "#1f5fa8", "#d9731a", "#8a8a8a"
_ERROR_BARS = 60
_MOST_CHARACTERS = 80  # of a title or the name of an axis


@dataclass(frozen=True)
class HeldOut:
    """Held-out molecules: true values and the model's predictions.

    Attributes
    ----------
    truth, mean, std : ndarray of float64, shape (n,)
        `std` is for an observation (noise included).
    """

    truth: npt.NDArray[np.float64]
    mean: npt.NDArray[np.float64]
    std: npt.NDArray[np.float64]


def plot_screen(
    path: str | Path, held_out: HeldOut, ranking: Recovery, r2: float, quantity: str = "score"
) -> None:
    """Write one figure: parity with error bars, recovery of the best, calibration.

    Parameters
    ----------
    path : str or Path
        File to write, as PNG.
    held_out : HeldOut
    ranking : Recovery
    r2 : float
        Coefficient of determination on the molecules of `held_out`.
    quantity : str
        Name and unit of the objective, for the axes.
    """
    figure = new_figure(13.5, 5.0)
    parity, curve, calibration = figure.subplots(1, 3)
    _parity(parity, held_out, r2, quantity)
    _recovery(curve, ranking)
    _calibration(calibration, held_out)
    for axes in (parity, curve, calibration):
        finish_axes(axes)
    save_figure(figure, path, format="png")


@dataclass(frozen=True)
class Panels:
    """The data that a picture of the evaluation of one target shows.

    Attributes
    ----------
    held_out : HeldOut
    r2 : float
    quantity : str
        Name of the target.
    ranking : Recovery or None
        Where the best molecules are in the ranking; None if the direction of the target is not known.
    curve : sequence of (int, dict of str to (float, float))
        The learning curve: numbers of labels, and the error of each predictor with its spread; may be empty.
    what : str
        Name of the molecules, for the title.
    probability : ndarray of float64, optional
        Probability of a 1, if the values are 0 and 1; NaN where there is none.
    error : str
        Name of the error of the learning curve.
    """

    held_out: HeldOut
    r2: float
    quantity: str
    ranking: Recovery | None = None
    curve: Sequence[tuple[int, Mapping[str, tuple[float, float]]]] = ()
    what: str = "molecules not used in the fit"
    probability: npt.NDArray[np.float64] | None = None
    error: str = "RMSE"


def plot_evaluation(path: str | Path | BinaryIO, targets: Sequence[Panels], format: str = "png") -> None:
    """Write one figure with a row for each target: parity, calibration and, if known, ranking and learning.

    Parameters
    ----------
    path : str, Path or binary file
    targets : sequence of Panels
        At least one; all have the same panels.
    format : str
        "png", "svg" or "pdf".
    """
    several = max(2 + (each.ranking is not None) + bool(each.curve) for each in targets)
    figure = new_figure(4.5 * several, 5.0 * len(targets))
    for row, each in zip(figure.subplots(len(targets), several, squeeze=False), targets, strict=True):
        left = list(row)
        if each.probability is None:
            _parity(left.pop(0), each.held_out, each.r2, each.quantity, each.what)
            _calibration(left.pop(0), each.held_out)
        else:
            there = np.isfinite(each.probability)
            truth, probability = each.held_out.truth[there], each.probability[there]
            _classes(left.pop(0), truth, probability, f"{len(truth):,} {each.what}", each.quantity)
            _reliability(left.pop(0), truth, probability)
        if each.ranking is not None:
            _recovery(left.pop(0), each.ranking)
        if each.curve:
            _learning(left.pop(0), each)
        for axes in row:
            if axes in left:
                axes.set_axis_off()
            else:
                finish_axes(axes)
    save_figure(figure, path, format=format)


def new_figure(width: float, height: float) -> Figure:
    """Return a figure that needs no display."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: str | Path | BinaryIO, format: str) -> None:
    """Write a figure, without warnings of characters in target names that no font has."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")
        figure.savefig(path, format=format)


def finish_axes(axes: Axes) -> None:
    """Give axes the common style, with the legend below, clear of the data."""
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):  # they hold names of targets
        text.set_parse_math(False)
        text.set_text(printable(text.get_text(), _MOST_CHARACTERS))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False, fontsize=9)


def _learning(axes: Axes, shown: Panels) -> None:
    numbers = [n for n, _ in shown.curve]
    for color, name in zip((BLUE, GREY), shown.curve[-1][1], strict=True):
        values, spreads = np.array([errors[name] for _, errors in shown.curve]).T
        axes.errorbar(
            numbers, values, yerr=np.nan_to_num(spreads), color=color, marker="o", markersize=5, label=name
        )
    axes.set_xscale("log")
    axes.set_xticks(numbers, [f"{n:,}" for n in numbers])
    axes.minorticks_off()
    axes.set(xlabel="labels", ylabel=f"{shown.error} of {shown.quantity}", title="Would more labels help?")


def _parity(axes: Axes, held_out: HeldOut, r2: float, quantity: str, what: str = Panels.what) -> None:
    truth, mean, std = held_out.truth, held_out.mean, held_out.std
    axes.scatter(mean, truth, s=3, color=GREY, alpha=0.25, linewidths=0, rasterized=True)
    shown = _spread(mean, _ERROR_BARS)
    axes.errorbar(
        mean[shown],
        truth[shown],
        xerr=1.96 * std[shown],
        fmt="o",
        markersize=3,
        color=BLUE,
        elinewidth=0.7,
        label=f"{len(shown)} of them, with 95 % intervals",
    )
    low = min(truth.min(), mean.min())
    high = max(truth.max(), mean.max())
    axes.plot([low, high], [low, high], color="black", linewidth=0.8)
    axes.set(
        xlabel=f"predicted {quantity}",
        ylabel=f"true {quantity}",
        title=f"{len(truth):,} {what} (R² = {r2:.2f})",
    )


def _spread(values: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.intp]:
    """Choose `count` molecules spread evenly over the range of `values`, both ends included."""
    order = np.argsort(values, kind="stable")
    wanted = np.linspace(values[order[0]], values[order[-1]], min(count, len(values)))
    nearest = np.searchsorted(values[order], wanted).clip(0, len(values) - 1)
    return order[np.unique(nearest)]


def _recovery(axes: Axes, ranking: Recovery) -> None:
    selected = np.arange(1, ranking.n + 1)
    percent = 100.0 * ranking.found / ranking.n_best
    axes.plot(selected, percent, color=BLUE, linewidth=2, label="ranked by the model")
    ideal = 100.0 * np.minimum(selected, ranking.n_best) / ranking.n_best
    axes.plot(selected, ideal, color=GREY, linewidth=1, linestyle="--", label="perfect ranking")
    axes.plot(selected, 100.0 * selected / ranking.n, color=GREY, linewidth=1, linestyle=":", label="random")
    for at in (n for n in (ranking.n_best, 10 * ranking.n_best) if n < ranking.n):
        share = 100.0 * ranking.fraction(at)
        axes.plot(at, share, "o", color=ORANGE, markersize=6)
        axes.annotate(
            f"{share:.0f} % in the\nfirst {at:,}",
            (at, share),
            xytext=(9, -3),
            textcoords="offset points",
            va="top",
            fontsize=9,
        )
    axes.set_xscale("log")
    axes.set(
        xlabel="molecules taken from the top of the ranking",
        ylabel=f"true top {ranking.n_best} found (%)",
        title=f"The best {ranking.n_best} of {ranking.n:,}",
        xlim=(1, ranking.n),
        ylim=(-2, 104),
    )
    axes.xaxis.set_major_formatter(lambda value, position: f"{value:,.0f}")


def _classes(
    axes: Axes,
    truth: npt.NDArray[np.float64],
    probability: npt.NDArray[np.float64],
    what: str,
    quantity: str,
) -> None:
    bins = [i / 25 for i in range(26)]
    for value, color in ((0, GREY), (1, BLUE)):
        some = probability[truth == value]
        axes.hist(some, bins, color=color, alpha=0.6, label=f"{len(some):,} labelled {value}")
    axes.set(
        xlabel=f"probability that {quantity} is 1",
        ylabel="molecules",
        title=what,
        xlim=(0, 1),
        yscale="symlog",
    )


def wilson_interval(
    share: npt.NDArray[np.float64], counts: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the 95 % intervals of shares by Wilson (1927): within 0 and 1, and never empty.

    Examples
    --------
    >>> [value.round(3).tolist() for value in wilson_interval(np.array([0.0, 0.5]), np.array([10, 100]))]
    [[0.0, 0.404], [0.278, 0.596]]
    """
    z = 1.96
    centre = (share * counts + z**2 / 2) / (counts + z**2)
    half = z * np.sqrt(share * (1 - share) * counts + z**2 / 4) / (counts + z**2)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def _reliability(axes: Axes, truth: npt.NDArray[np.float64], probability: npt.NDArray[np.float64]) -> None:
    bins = reliability(truth, probability)
    share, counts = np.array(bins.observed), np.array(bins.counts)
    low, high = wilson_interval(share, counts)
    axes.plot([0, 100], [0, 100], color="black", linewidth=0.8, label="perfectly calibrated")
    axes.errorbar(
        100 * np.array(bins.predicted),
        100 * share,
        yerr=100 * np.maximum([share - low, high - share], 0.0),
        color=BLUE,
        marker="o",
        markersize=5,
        label="this model, with 95 % intervals",
    )
    axes.set(
        xlabel="predicted probability of 1 (%)",
        ylabel="observed share of 1s (%)",
        title="Are the probabilities right?",
        xlim=(-2, 102),
        ylim=(-2, 102),
    )


def _calibration(axes: Axes, held_out: HeldOut) -> None:
    from scipy.stats import norm

    nominal = np.linspace(0.02, 0.98, 49)
    z = np.abs(held_out.truth - held_out.mean) / held_out.std
    observed = (z[:, None] <= norm.ppf(0.5 + nominal / 2)).mean(axis=0)
    axes.plot([0, 100], [0, 100], color="black", linewidth=0.8, label="perfectly calibrated")
    axes.plot(100 * nominal, 100 * observed, color=BLUE, linewidth=2, label="this model")
    within = 100 * (z <= norm.ppf(0.975)).mean()
    axes.plot(95, within, "o", color=ORANGE, markersize=6)
    axes.annotate(
        f"95 % intervals contain\n{within:.1f} % of the molecules",
        (95, within),
        xytext=(94, 40),
        ha="right",
        va="top",
        fontsize=9,
        arrowprops={"arrowstyle": "-", "color": ORANGE, "linewidth": 0.8},
    )
    axes.set(
        xlabel="predicted interval (%)",
        ylabel="molecules inside it (%)",
        title="Are the error bars right?",
        xlim=(0, 100),
        ylim=(0, 100),
    )
