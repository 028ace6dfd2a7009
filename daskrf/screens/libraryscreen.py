"""The job of a screen: score a library, keep the best k that pass, and write them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np
import pyarrow as pa

from daskrf.blas import ONE_BLAS_THREAD
from daskrf.documents import JsonObject
from daskrf.errors import InputError
from daskrf.files.disk import work_folder
from daskrf.jobs.job import Job, Need, Report, Run
from daskrf.jobs.pieces import Done, Pieces
from daskrf.models.duplicates import duplicates
from daskrf.models.intervals import append_intervals, check_intervals
from daskrf.models.models import predictions_of
from daskrf.models.modelsource import source_for
from daskrf.models.targets import measured_of
from daskrf.quantities import amount
from daskrf.screening import TopK
from daskrf.screens.aim import Aim
from daskrf.screens.choosers import Columns
from daskrf.screens.exclusions import Exclusions, labelled_exclusions
from daskrf.screens.libraryranking import (
    PIECES,
    LibraryRanking,
    check_shortlist,
    is_library_of,
    ranking_spec,
)
from daskrf.screens.passing import Excluded, Passing, reason_of
from daskrf.screens.request import ScreenRequest
from daskrf.screens.searches import Hits, PassingHits, table_of_rows, tested_words
from daskrf.screens.shortlist import n_candidates
from daskrf.sources.inputs import inputs_of, source_words
from daskrf.sources.sources import Source
from daskrf.storage.hits import Earlier, TableWriter, refuse_foreign, rejects_of, write_hits
from daskrf.storage.outputs import earlier_output

_NOT_LABELLED = "is not a labelled molecule"
_TOO_HIGH = "then standard deviations of all, since too few molecules reached the threshold of a sample"
_SHORTLIST_NOTE = "ranked among the {:,} best means; standard deviations of all would rank every molecule"


@dataclass
class ScreenJob(Job[Report]):
    """The job of `screen` for a library.

    Attributes
    ----------
    request : ScreenRequest
    made : callable
        Makes the report.
    page : callable
        Returns what writes the hits, if they are to be a page.
    """

    request: ScreenRequest
    made: Callable[..., Report]
    page: Callable[..., TableWriter | None]
    output: PurePath = field(init=False)
    aim: Aim = field(init=False)
    ranking: LibraryRanking = field(init=False)
    notes: tuple[str, ...] = ()
    earlier: Earlier | None = None  # the hits at the output, if they are exactly these

    name = "screen"

    def __post_init__(self) -> None:
        self.output = self.request.output

    @property
    def locked(self) -> PurePath:
        """The output is a file."""
        return work_folder(self.output)

    def plan(self, run: Run) -> None:
        """Open the library, after finding out whether the output already holds these hits, or others."""
        request = self.request
        earlier = earlier_output(self.output, overwrite=request.overwrite)
        refuse_foreign(rejects_of(self.output))
        self.aim = Aim.of(request)
        self.notes = self.aim.notes
        check_intervals(self.aim.model, self.aim.target, request.intervals, request.std)
        check_shortlist(self.aim, request.shortlist)
        if earlier is not None and not request.overwrite:
            earlier.refuse_other(self._requested(), source_words(request.input.paths))
        features = source_for(run, self.aim.model, request.input, keep_columns=True)
        self.ranking = LibraryRanking(
            aim=self.aim,
            features=features,
            k=self.n_kept,
            n_wanted=request.k,
            std=request.std,
            seed=request.seed,
            exclude_labelled=request.exclude_labelled,
            passing=self._passing(run, features),
            shortlist=request.shortlist,
            bounds=True,
        )
        if earlier is not None and not request.overwrite:
            earlier.refuse_other(self.spec, source_words(request.input.paths))
        if earlier is not None and earlier.is_of(self.spec):
            self.earlier = earlier

    @property
    def n_kept(self) -> int:
        """How many molecules are kept until all have been scored."""
        k = self.request.k
        return n_candidates(k) if self.aim.shortlists(self.request.std) else k

    def _passing(self, run: Run, features: Source) -> Passing | None:
        """Return which molecules may be hits, unless all may."""
        filters, excluded = self.request.filters, tuple[Excluded, ...]()
        if self.request.exclude_labelled:
            labelled = self._labelled(run, features)
            self.notes, excluded = (*self.notes, *labelled.notes), labelled.molecules
        if not filters.texts and not excluded:
            return None
        return Passing(features, filters.of_library(features), excluded)

    def _labelled(self, run: Run, features: Source) -> Exclusions:
        """Return the labelled molecules, to be left out."""
        aim = self.aim
        measured = measured_of(aim.model, aim.target, features)
        by_rows = is_library_of(aim.model, features)
        if not measured.labelled_molecules and not by_rows:
            raise InputError(
                f"The labelled molecules cannot be left out: {measured.reason}; screen the fingerprint store "
                "that the model was fitted on, or drop --exclude-labelled (exclude_labelled)."
            )
        return labelled_exclusions(run, measured, self.request.exclude_by, by_rows=by_rows)

    def _requested(self) -> dict[str, object]:
        """Return everything that determines the hits, except the library."""
        request = self.request
        spec = ranking_spec(
            self.aim,
            request,
            k=request.k,
            n_kept=self.n_kept,
            shortlist=request.shortlist,
            exclude_labelled=request.exclude_labelled,
        )
        levels = {"intervals": list(request.intervals)} if request.intervals else {}
        return spec | request.filters.texts | levels

    @property
    def spec(self) -> dict[str, object]:
        """Everything that determines the hits; all shards must agree on it."""
        return self._requested() | {"library": self.ranking.features.spec_hash}

    def need(self) -> Need:
        return Need() if self.earlier is not None else self.ranking.need()

    def pieces(self, run: Run) -> list[Pieces]:
        if self.earlier is not None:
            return [Done(len(self.ranking.features.partition_rows), PIECES)]
        run.agree(self.spec)
        return [self.ranking.plan(run, self.spec)]

    def finish(self, run: Run, made: int) -> Report:
        """Write the hits and their metadata."""
        request, ranking = self.request, self.ranking
        if self.earlier is not None:
            about, there = self.earlier.about, f"{self.output} already holds exactly these hits"
            rejects = rejects_of(self.output) if about["rejected"] else None
            return self._report(self.earlier.table, about, rejects, (*about["notes"], there), run.seconds)
        result = self._reaching(run, ranking.tree.result())
        top = result.top
        if isinstance(result, PassingHits):
            result = self._passed(run, result)
            [top] = result.tops
            if not len(top) and request.filters.texts and ranking.passing is not None:
                why = "; ".join(self._tested(result)[1:-1])
                raise InputError(
                    f"None of {amount(result.n_scored, 'molecules')} passes the filters ({why})"
                    f"{ranking.passing.strictest(result.left_out.tolist())}; ask for less."
                )
        features = ranking.features
        table, lacking = append_intervals(
            table_of_rows(features, self._columns(top)), self.aim.model, self.aim.target, request.intervals
        )
        labelled = not request.exclude_labelled
        copies = duplicates(table["smiles"], self.aim.model, features, labelled=labelled)
        shortlists = self.aim.shortlists(request.std)
        how = (_SHORTLIST_NOTE.format(self.n_kept),) if shortlists else ()
        noted = (*self.notes, *ranking.notes, *features.note_on_groups())
        notes = (*noted, *how, *self._tested(result), *lacking, copies)
        rejected, rejects = ranking.write_rejects(self.output)
        about = {
            **self.spec,
            "direction": self.aim.direction,
            "model_name": self.aim.model.path.name,
            "source": source_words(request.input.paths),
            "rows": result.n_scored,
            "rejected": rejected,
            "notes": list(notes),
        }
        write_hits(
            table, self.output, about, self.page(self.output, about, self.aim.model, self.aim.model.path)
        )
        return self._report(table, about, rejects, notes, run.seconds)

    def _reaching(self, run: Run, hits: Hits) -> Hits:
        """Return the hits, if none can be missing; rank the whole library if the threshold was too high."""
        ranking, top = self.ranking, hits.tops[0] if isinstance(hits, PassingHits) else hits.top
        reached = len(top) >= self.n_kept and float(top.score[-1]) >= ranking.least
        if not ranking.by_bounds or reached or ranking.least == -math.inf:
            return hits
        ranking.rank_all()
        ranking.notes = (*ranking.notes, _TOO_HIGH)
        whole: Hits = ranking.run(run, self.spec | {"shortlist": 1.0})
        return whole

    def _passed(self, run: Run, hits: PassingHits) -> PassingHits:
        """Return the hits that pass; rank the whole library if too few of the shortlist do."""
        ranking = self.ranking
        if ranking.shortlist is not None or not self.aim.has_surrogate or len(hits.tops[0]) >= self.n_kept:
            return hits
        ranking.rank_all()
        whole = ranking.run(run, self.spec | {"shortlist": 1.0})
        assert isinstance(whole, PassingHits)
        return whole

    def _tested(self, hits: Hits) -> list[str]:
        """Return how many molecules were tested, and how many each filter left out."""
        passing = self.ranking.passing
        if not isinstance(hits, PassingHits) or passing is None:
            return []
        counts = dict(zip(passing.words, hits.left_out.tolist(), strict=True))
        counts[_NOT_LABELLED] = counts.get(_NOT_LABELLED, 0) + hits.n_labelled  # known by their rows
        left = [f"left out, {reason_of(word)}: {number:,}" for word, number in counts.items() if number]
        n = len(hits.tops[0])
        few = [f"only {n:,} molecules pass"] if n < self.request.k else []
        return [*tested_words(hits, passing), *left, *few]

    def _columns(self, top: TopK) -> Columns:
        """Return the columns of the k hits, best first; compute standard deviations of candidates here."""
        aim, columns = self.aim, Columns(top.arrays())
        score = columns.pop("score")
        order = np.arange(len(score))
        if self.request.std == "candidates":
            phi, diagonal = columns.pop("phi", None), columns.pop("diagonal", None)
            if not len(score):
                names = ("mean", "std", "std_y", *aim.columns_of_class)
                columns |= dict.fromkeys(names, np.empty(0))
            else:
                phi = self.ranking.fingerprints(columns["row"]) if self.ranking.features.raw else phi
                assert phi is not None
                with ONE_BLAS_THREAD:  # as tasks do: hits have the same bytes on any number of processors
                    columns |= predictions_of(aim.model, aim.target, phi, diagonal, std=True)
            if aim.rule.needs_std:
                score = aim.rule(columns["mean"], columns["std"])
                order = np.lexsort((columns["row"], -score))[: self.request.k]
        columns["acquisition"] = score
        return {name: values[order] for name, values in columns.items()}

    def _report(
        self,
        table: pa.Table,
        about: JsonObject,
        rejects: PurePath | None,
        notes: tuple[str, ...],
        seconds: float,
    ) -> Report:
        """Return the report on hits, made from their file's metadata."""
        return self.made(
            hits=self.output,
            table=table,
            rows=about["rows"],
            rejected=about["rejected"],
            rejects=rejects,
            acquisition=about["acquisition"]["rule"],
            seconds=seconds,
            target=about["target"],
            direction=about["direction"],
            notes=notes,
            inputs=inputs_of(self.ranking.features),
        )
