"""The job of screening a space: the best k of all products, which are never listed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

import pyarrow as pa

from daskrf.documents import JsonObject
from daskrf.errors import OptionError
from daskrf.files.disk import work_folder
from daskrf.jobs.job import Job, Need, Report, Run
from daskrf.jobs.pieces import Done, Pieces
from daskrf.models.duplicates import duplicates
from daskrf.models.intervals import append_intervals, check_intervals
from daskrf.models.labelled import labelled_structures
from daskrf.models.models import read_model
from daskrf.models.nearestlabelled import nearest_labelled
from daskrf.molecules.structures import LEVEL_WORDS
from daskrf.screens.aim import Aim
from daskrf.screens.request import ScreenRequest
from daskrf.screens.space.productranking import PIECES, ProductRanking
from daskrf.storage.hits import Earlier, TableWriter, write_hits
from daskrf.storage.outputs import earlier_output


@dataclass
class SpaceScreenJob(Job[Report]):
    """The job of `screen` for a space.

    Attributes
    ----------
    request : ScreenRequest
    source : Path
        The space.
    made : callable
        Makes the report.
    page : callable
        Returns what writes the hits, if they are to be a page.
    """

    request: ScreenRequest
    source: PurePath
    made: Callable[..., Report]
    page: Callable[..., TableWriter | None]
    output: PurePath = field(init=False)
    ranking: ProductRanking = field(init=False)
    notes: tuple[str, ...] = ()
    earlier: Earlier | None = None  # the hits at the output, if they are exactly these

    name = "screen"

    def __post_init__(self) -> None:
        self.output = self.request.output

    @property
    def locked(self) -> PurePath:
        """The output is a file."""
        return work_folder(self.output)

    @property
    def aim(self) -> Aim:
        """What products are ranked by."""
        return self.ranking.aim

    def plan(self, run: Run) -> None:
        """Cut the space, unless the output holds these hits already."""
        request = self.request
        if request.std == "all":
            raise OptionError(
                "Standard deviations of all products of a space would take too long; leave out --std all: "
                "the products with the best means get them."
            )
        model = read_model(request.model, statistics=request.rule.needs_sample)  # tasks read it themselves
        aim = Aim.of(request, model)
        self.ranking = ProductRanking(request, self.source, aim, request.k, tests_products=True)
        self.notes = self.aim.notes
        check_intervals(model, self.aim.target, request.intervals, request.std)
        earlier = earlier_output(self.output, overwrite=request.overwrite)
        if earlier is not None and not request.overwrite:
            earlier.refuse_other(self.spec, self.source.name)
        if earlier is not None and earlier.is_of(self.spec):
            self.earlier = earlier
            return
        excluded = None
        if request.exclude_labelled:
            excluded = labelled_structures(model, request.exclude_by)
            self.notes += (f"labelled molecules are left out by {LEVEL_WORDS[request.exclude_by]}",)
        self.ranking.prepare(run, excluded)

    @property
    def spec(self) -> dict[str, object]:
        """Everything that determines the hits and their columns."""
        levels = {"intervals": list(self.request.intervals)} if self.request.intervals else {}
        return self.ranking.spec | levels

    def need(self) -> Need:
        return Need() if self.earlier is not None else self.ranking.need()

    def pieces(self, run: Run) -> list[Pieces]:
        return [Done(1, PIECES)] if self.earlier is not None else self.ranking.pieces(run)

    def finish(self, run: Run, made: int) -> Report:
        """Write the hits and their metadata."""
        request, ranking, aim = self.request, self.ranking, self.aim
        if self.earlier is not None:
            about, there = self.earlier.about, f"{self.output} already holds exactly these hits"
            return self._report(self.earlier.table, about, (*about["notes"], there), run.seconds)
        ranked = ranking.best(run)
        hits = ranked.products.best(request.k)
        ranking.check(hits.smiles)
        predicted = None
        if request.std != "none" and "std" not in hits.columns:
            predicted = ranking.predicted(run, hits.row, std=True)
        table, lacking = append_intervals(hits.table(predicted), aim.model, aim.target, request.intervals)
        near, similarity = nearest_labelled(hits.smiles, aim.model, aim.target)
        for name, values in near.items():
            table = table.append_column(name, values)
        labelled = not request.exclude_labelled
        copies = duplicates(table["smiles"], aim.model, None, labelled=labelled)
        notes = (
            *self.notes,
            *ranking.notes,
            *ranked.notes,
            *ranking.counted(ranked),
            *lacking,
            copies,
            similarity,
        )
        about = {
            **self.spec,
            "direction": aim.direction,
            "model_name": aim.model.path.name,
            "source": self.source.name,
            "rows": ranking.n_passing,
            "rejected": 0,
            "notes": list(notes),
        }
        write_hits(table, self.output, about, self.page(self.output, about, aim.model, aim.model.path))
        return self._report(table, about, notes, run.seconds)

    def _report(self, table: pa.Table, about: JsonObject, notes: Sequence[str], seconds: float) -> Report:
        """Return the report on hits, made from their file's metadata."""
        return self.made(
            hits=self.output,
            table=table,
            rows=about["rows"],
            rejected=0,
            rejects=None,
            acquisition=about["acquisition"]["rule"],
            seconds=seconds,
            target=about["target"],
            direction=about["direction"],
            notes=tuple(notes),
        )
