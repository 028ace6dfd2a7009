"""The picture of a campaign: best so far, hits, calibration of batches, and what `found` says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from daskrf.campaigns.history import CampaignRound, History
from daskrf.report.plots import BLUE, GREY, ORANGE, finish_axes, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_LABELLED = 5  # rounds that have a line each in a legend; of more, the first and the last
_WITH_BARS = 200  # scores that are drawn with error bars: more would cover each other


def plot_campaign(path: str | Path | BinaryIO, history: History, format: str = "png") -> None:
    """Write one figure of all rounds.

    Parameters
    ----------
    path : str, Path or binary file
    history : History
        With at least one round.
    format : str
        "png", "svg" or "pdf".
    """
    figure = new_figure(13.5, 9.5)
    ((best, hits), (calibration, estimates)) = figure.subplots(2, 2)
    _best(best, history)
    _hits(hits, history)
    _calibration(calibration, history)
    _estimates(estimates, history)
    for axes in (best, hits, calibration, estimates):
        finish_axes(axes)
    save_figure(figure, path, format=format)


def _ends(history: History) -> list[int]:
    return np.cumsum([len(each.scores) for each in history.rounds]).tolist()


def _best(axes: Axes, history: History) -> None:
    y, best = history.scores, history.best_so_far
    places, first = np.arange(1, len(y) + 1), len(history.rounds[0].scores)
    axes.scatter(places[:first], y[:first], s=7, color=GREY, linewidths=0, label="first batch")
    if len(y) > first:
        axes.scatter(places[first:], y[first:], s=7, color=BLUE, linewidths=0, label="suggested")
    axes.step(places, best, where="post", color=ORANGE, linewidth=2, label="best so far")
    for end in _ends(history)[:-1]:
        axes.axvline(end + 0.5, color=GREY, linewidth=0.6, linestyle=":")
    if not history.maximize:
        axes.invert_yaxis()
    axes.set(
        xlabel="molecules scored; dotted lines separate rounds",
        ylabel=f"{history.target} (good is up)",
        title=f"Best of {len(y):,} scores: {best[-1]:.6g}",
    )


def _hits(axes: Axes, history: History) -> None:
    numbers = [each.number for each in history.rounds]
    axes.bar(numbers, history.hits_by_round, color=BLUE, width=0.6, label="hits of the round")
    axes.step(
        numbers,
        np.cumsum(history.hits_by_round),
        where="mid",
        color=ORANGE,
        linewidth=2,
        label="hits so far",
    )
    axes.set_xticks(numbers)
    axes.set(xlabel="round", ylabel="molecules", title=f"Hits: {history.hit_words}")


def _calibration(axes: Axes, history: History) -> None:
    predicted = [each for each in history.rounds if each.is_predicted and len(each.scores)]
    axes.set(
        xlabel=f"predicted {history.target}",
        ylabel=f"scored {history.target}",
        title="No batch was predicted yet",
    )
    if not predicted:
        axes.plot([], [], color="black", linewidth=0.8, label="as predicted")
        return
    values = np.concatenate([np.concatenate([each.mean, each.scores]) for each in predicted])
    axes.axline((values.min(), values.min()), slope=1, color="black", linewidth=0.8, label="as predicted")
    labelled = predicted if len(predicted) <= _LABELLED else [predicted[0], predicted[-1]]
    with_bars = sum(len(each.scores) for each in predicted) <= _WITH_BARS
    for number, each in enumerate(predicted):
        shade = number / max(1, len(predicted) - 1)
        color = tuple((1 - shade) * a + shade * b for a, b in zip(_rgb(GREY), _rgb(BLUE), strict=True))
        axes.errorbar(
            each.mean,
            each.scores,
            xerr=1.96 * each.std if with_bars else None,
            fmt="o",
            markersize=3 if with_bars else 2,
            elinewidth=0.3,
            color=color,
            label=_words(each) if each in labelled else None,
        )
    y = np.concatenate([each.scores for each in predicted])
    mean, std = (np.concatenate([getattr(each, name) for each in predicted]) for name in ("mean", "std"))
    share = float((np.abs(y - mean) <= 1.96 * std).mean())
    axes.set_title(f"{share:.0%} of {len(y):,} scores within the 95 % intervals predicted for them")


def _words(each: CampaignRound) -> str:
    return f"round {each.number}: {each.within_95:.0%} within"


def _rgb(color: str) -> tuple[float, ...]:
    return tuple(int(color[at : at + 2], 16) / 255 for at in (1, 3, 5))


def _estimates(axes: Axes, history: History) -> None:
    some = [(each.number, each.estimate) for each in history.rounds if each.estimate is not None]
    axes.set(xlabel="round", ylabel="estimated share with scores (%)", ylim=(-2, 104))
    if not some:
        axes.plot([], [], color=BLUE, label="estimate")
        axes.set_title("No estimate was asked for")
        return
    numbers = [number for number, _ in some]
    share, low, high = (
        np.array([100 * estimate[name] for _, estimate in some]) for name in ("share", "low", "high")
    )
    axes.errorbar(
        numbers,
        share,
        yerr=[np.maximum(share - low, 0), np.maximum(high - share, 0)],
        color=BLUE,
        marker="o",
        capsize=3,
        label="estimate with 95 % interval",
    )
    axes.set_xticks(numbers)
    axes.set_title(f"How many of the library's best {some[-1][1]['k']:,} are among the scored")
