"""What a campaign reports, and the picture and page of its rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

import pyarrow as pa

from daskrf.campaigns.history import History
from daskrf.quantities import amount
from daskrf.report.campaignpage import write_campaign_page
from daskrf.report.campaignplot import plot_campaign
from daskrf.report.lines import report_text
from daskrf.report.notebook import Shown
from daskrf.report.tabulation import text_table
from daskrf.storage.hits import write_recorded
from daskrf.storage.outputs import guarded

PICTURE, PAGE = "rounds.png", "rounds.html"


@dataclass(frozen=True)
class CampaignReport(Shown):
    """What a campaign has done so far.

    Attributes
    ----------
    folder : Path
        Where everything is.
    history : History
        Its rounds.
    stopped : str
        Why no other round begins.
    seconds : float
        Time of this run.
    notes : tuple of str
        What was assumed, left out or counted in this run.
    """

    folder: PurePath
    history: History
    stopped: str
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> pa.Table:
        """The molecules with scores, the best first."""
        return self.history.table

    def __str__(self) -> str:
        history = self.history
        n = len(history.scores)
        scores = f"{amount(n, 'scores')} of {amount(history.n_asked, 'molecules')}"
        first = (
            f"{amount(len(history.rounds), 'rounds')} with {scores} in {self.folder}: best {history.target} "
            f"{history.best_by_round[-1]:.6g} ({self.seconds:.1f} s)"
        )
        table = text_table(
            ["round", "molecules", "failed", "best so far", "hits", "within 95 %", "found"],
            [
                (
                    each.number,
                    each.n_asked,
                    each.n_failed,
                    f"{best:.6g}",
                    hits,
                    f"{each.within_95:.0%}" if each.is_predicted else "",
                    _estimate_words(each.estimate),
                )
                for each, best, hits in zip(
                    history.rounds, history.best_by_round, history.hits_by_round, strict=True
                )
            ],
        )
        lines = [f"  {line}" for line in table.splitlines()]
        shown = (f"a hit is {history.hit_words}", *self.notes, f"stopped: {self.stopped}")
        places = f"picture: {self.folder / PICTURE}, page: {self.folder / PAGE}"
        return report_text(first, made=lines, notes=(*shown, places))


def show_rounds(folder: PurePath, history: History) -> None:
    """Write the picture and the page of all rounds into the folder of a campaign."""
    rounds = f"picture of {amount(len(history.rounds), 'rounds')}"
    path, page = folder / PICTURE, folder / PAGE
    write_recorded(
        path,
        lambda file: plot_campaign(file, history),
        {"made": rounds},
        "picture",
        guarded(path, overwrite=True),
    )
    write_recorded(
        page,
        lambda file: write_campaign_page(file, history, history.table, folder.name),
        {"made": rounds.replace("picture", "page")},
        "page",
        guarded(page, overwrite=True),
    )


def _estimate_words(estimate: Mapping[str, object] | None) -> str:
    """Return what `found` said about the best molecules of the library, in short."""
    if estimate is None:
        return ""
    return (
        f"{estimate['share']:.0%} of best {estimate['k']:,} ({estimate['low']:.0%} - {estimate['high']:.0%})"
    )
