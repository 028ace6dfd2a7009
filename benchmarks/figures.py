"""Pictures of the benchmarks, by matplotlib without a display: one look for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours of Okabe & Ito, which colour-blind readers tell apart.
BLUE, ORANGE, GREEN, PURPLE, SKY, RED, GREY = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#7F7F7F",
)
DPI = 120


def new_figure(rows: int, columns: int, *, width: float, height: float, **options: Any) -> tuple[Figure, Any]:
    """Return a figure of `width` x `height` inches and its array of axes (or the one)."""
    figure = Figure(figsize=(width, height), layout="constrained", dpi=DPI)
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, **options)
    for ax in np.ravel(axes):
        prepare(ax)
    return figure, axes


def prepare(ax: Axes) -> None:
    """Give axes the common look: a faint grid, no box above and to the right."""
    ax.grid(True, which="major", linewidth=0.4, alpha=0.5)
    ax.spines[["top", "right"]].set_visible(False)


def curve(
    ax: Axes,
    errors: Mapping[float, Sequence[float]],
    label: str,
    color: str,
    line: str = "-",
    marker: str = "o",
) -> None:
    """Draw medians of trials against the key, with a band from the first to the third quartile.

    Without a marker the line is thin, and there is no band.
    """
    x = sorted(errors)
    low, middle, high = np.quantile([errors[key] for key in x], [0.25, 0.5, 0.75], axis=1)
    width = 1.5 if marker else 0.8
    ax.plot(x, middle, line, color=color, label=label or None, linewidth=width, marker=marker, markersize=3)
    if marker:
        ax.fill_between(x, low, high, color=color, alpha=0.2, linewidth=0)


def published_points(
    ax: Axes,
    x: Sequence[float],
    middle: Sequence[float],
    quartiles: tuple[Sequence[float], Sequence[float]] | None = None,
    *,
    color: str,
    marker: str = "s",
    label: str | None = None,
) -> None:
    """Draw published medians as open marks, with bars from the first to the third quartile."""
    bars = None
    if quartiles is not None:
        bars = [np.subtract(middle, quartiles[0]), np.subtract(quartiles[1], middle)]
    ax.errorbar(
        x,
        middle,
        yerr=bars,
        fmt=marker,
        color=color,
        markerfacecolor="white",
        markersize=7,
        linewidth=1,
        capsize=3,
        label=label,
        zorder=1.5,
    )


def error_axes(ax: Axes, title: str, x: str = "number of features M", y: str = "mean squared error") -> None:
    """Make both axes logarithmic and label them."""
    ax.set_xscale("log")
    ax.set_yscale("log")
    label_axes(ax, title, x, y)


def label_axes(ax: Axes, title: str, x: str, y: str) -> None:
    """Set the title and the labels."""
    ax.set_title(title, fontsize=10)
    ax.set_xlabel(x)
    ax.set_ylabel(y)


def slope(ax: Axes, start: tuple[float, float], end: float, power: float, text: str) -> None:
    """Draw a dotted guide y ~ x^power from `start` to x = `end`, named beside its end."""
    y = start[1] * (end / start[0]) ** power
    ax.plot([start[0], end], [start[1], y], ":", color=GREY, linewidth=1)
    ax.annotate(text, (end, y), color=GREY, fontsize=8, xytext=(2, -2), textcoords="offset points", va="top")


def save(figure: Figure, folder: Path, name: str) -> Path:
    """Write ``<name>.png`` and say so."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.png"
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
    print(f"written: {path}", flush=True)
    return path
