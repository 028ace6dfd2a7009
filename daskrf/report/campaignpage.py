"""The page of a campaign: its rounds, the picture of them, and its best molecules, in one file."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from daskrf.campaigns.history import CampaignRound, History
from daskrf.errors import printable
from daskrf.molecules.drawings import drawings
from daskrf.quantities import amount
from daskrf.report.campaignplot import plot_campaign

_BEST = 24  # molecules that are drawn
_REASONS = 5  # why molecules failed, the most frequent first
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; }
table { border-collapse: collapse; }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
div { overflow-x: auto; }
@media (max-width: 45em) { th, td { padding: .2em .4em; font-size: 12px; } }
img { width: 100%; } figure { display: inline-block; margin: .4em; text-align: center; }
figcaption { font-size: 13px; max-width: 240px; overflow-wrap: anywhere; }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_HEADER = (
    "round",
    "molecules",
    "failed",
    "mean score",
    "best so far",
    "hits",
    "within 95 %",
    "best scored",
)
_COLUMNS = (
    "Failed molecules have no score, and are not suggested again. Within 95 %: how many new scores lie where "
    "the model of the rounds before expected 95 % of them; without a number in the first round, which no "
    "model predicted. Best scored: how many of the best molecules of the whole library "
    "are estimated to have scores, with a 95 % interval; near 100 %, more rounds find little."
)


def write_campaign_page(path: Path, history: History, table: pa.Table, title: str) -> None:
    """Write the page of all rounds.

    Parameters
    ----------
    path : Path
    history : History
    table : pyarrow.Table
        Molecules with scores, the best first: smiles, id, the target, round.
    title : str
        Name of the campaign.
    """
    picture = io.BytesIO()
    plot_campaign(picture, history)
    image = base64.b64encode(picture.getvalue()).decode()
    rows = "".join(
        _row("td", _cells(each, best, hits))
        for each, best, hits in zip(history.rounds, history.best_by_round, history.hits_by_round, strict=True)
    )
    good = "Large" if history.maximize else "Small"
    summary = f"{amount(len(history.scores), 'scores')} in {amount(len(history.rounds), 'rounds')}"
    path.write_text(
        f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}: rounds</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{html.escape(title)}</h1>
<p>{summary}. {good} values of {html.escape(history.target)} are good. A hit is
{html.escape(history.hit_words)}.</p>
<div><table><thead>{_row("th", _HEADER)}</thead><tbody>{rows}</tbody></table></div>
<p>{_COLUMNS}</p>
{_failures(history)}
<p><img alt="Best so far, hits, calibration and estimates by round" src="data:image/png;base64,{image}"></p>
<h2>The best {min(_BEST, table.num_rows):,} of {amount(table.num_rows, "molecules")}</h2>
{_figures(table, history.target)}
</body>
</html>
""",
        encoding="utf-8",
    )


def _cells(each: CampaignRound, best: float, hits: int) -> Sequence[str]:
    """Return the cells of the row of a round."""
    estimate = ""
    if each.estimate is not None:
        low, high = each.estimate["low"], each.estimate["high"]
        estimate = f"{each.estimate['share']:.0%} of {each.estimate['k']:,} ({low:.0%} - {high:.0%})"
    within = f"{each.within_95:.0%}" if each.is_predicted else ""
    mean = f"{each.scores.mean():.4g}" if len(each.scores) else ""
    counts = (str(each.number), f"{each.n_asked:,}", f"{each.n_failed:,}")
    return (*counts, mean, f"{best:.6g}", f"{hits:,}", within, estimate)


def _failures(history: History) -> str:
    """Return why molecules have no score, the most frequent reasons first."""
    reasons = history.failures.most_common(_REASONS)
    if not reasons:
        return ""
    shown = "; ".join(f"{html.escape(printable(reason, 200))} ({n:,})" for reason, n in reasons)
    more = len(history.failures) - len(reasons)
    rest = f"; and {amount(more, 'other reasons')}" if more else ""
    return f"<p>Why {amount(history.failures.total(), 'molecules')} failed: {shown}{rest}.</p>"


def _row(element: str, cells: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{element}>{html.escape(cell)}</{element}>" for cell in cells) + "</tr>"


def _figures(table: pa.Table, target: str) -> str:
    """Return the best molecules with their scores."""
    best = table.slice(0, _BEST)
    columns = (best[name].to_pylist() for name in ("id", target, "round"))
    drawn = drawings(best["smiles"].to_pylist())
    return "\n".join(
        f"<figure>{svg}<figcaption>{html.escape(str(name))}<br>{score:.6g}, round {number}"
        "</figcaption></figure>"
        for svg, name, score, number in zip(drawn, *columns, strict=True)
    )
