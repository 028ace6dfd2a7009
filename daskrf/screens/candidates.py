"""Where the candidates of a batch come from: the molecules of a library that pass, ranked by an aim."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.blas import ONE_BLAS_THREAD
from daskrf.jobs.job import Need, Run
from daskrf.jobs.memory import PIECES, MemoryNeed, peak
from daskrf.jobs.pieces import Pieces
from daskrf.models.modelsource import source_for
from daskrf.models.targets import measured_of
from daskrf.screening import TopK
from daskrf.screens.aim import SCORES, Aim, Depth
from daskrf.screens.choosers import Columns
from daskrf.screens.exclusions import batch_exclusions
from daskrf.screens.libraryranking import LibraryRanking, check_shortlist, is_library_of
from daskrf.screens.passing import Passing, columns_of
from daskrf.screens.request import SuggestRequest
from daskrf.screens.searches import PassingHits, table_of_rows, tested_words
from daskrf.sources.inputs import inputs_of, source_words
from daskrf.sources.sources import Source

DEEPER = 4  # times as many candidates are found if there are too few for a batch


class CandidateSource(ABC):
    """Finds candidates for a batch, and more of them if these are too few.

    Attributes
    ----------
    aim : Aim
        What they are ranked by, with the labels whose molecules the library identifies.
    library : LibraryCandidates
        What the batch is chosen from: a library, or the products of a space that have been listed.
    notes : tuple of str
        What was assumed, and what was left out.
    """

    aim: Aim
    library: LibraryCandidates
    notes: tuple[str, ...] = ()

    @abstractmethod
    def open(self, run: Run, request: SuggestRequest, aim: Aim, depth: Depth) -> None:
        """Open the library or space to choose from."""

    @abstractmethod
    def need(self) -> Need:
        """Return what memory and disk the search needs."""

    @abstractmethod
    def pieces(self, run: Run) -> Sequence[Pieces]:
        """Return the pieces of the search."""

    @abstractmethod
    def list_molecules(self, run: Run) -> None:
        """Once all pieces are made, list the molecules to choose from, unless they are a library already."""

    @abstractmethod
    def look(self, run: Run) -> None:
        """Find the candidates again, after `deepen`."""

    @abstractmethod
    def deepen(self, hits: PassingHits) -> bool:
        """Ask for more candidates, and return True, unless there are no more."""

    @property
    @abstractmethod
    def n_looked_at(self) -> int:
        """How many candidates the search keeps."""

    @property
    @abstractmethod
    def chosen_from(self) -> tuple[str, str]:
        """The library in words, and its hash."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """How files were read."""

    @abstractmethod
    def n_ranked(self, hits: PassingHits) -> int:
        """Return how many molecules were ranked."""

    @abstractmethod
    def notes_on_ranking(self, hits: PassingHits) -> list[str]:
        """Return what the batch was chosen from."""

    @abstractmethod
    def words_of_all(self, hits: PassingHits) -> str:
        """Return how many molecules there were to choose from, for an error message."""

    def left_out(self) -> dict[str, int]:
        """Return how many molecules were left out before the library was ranked, by reason."""
        return {}

    def described(self, table: pa.Table) -> pa.Table:
        """Return the table of a batch with further columns about its molecules."""
        return table


@dataclass
class LibraryCandidates(CandidateSource):
    """The best molecules of a library that pass.

    Attributes
    ----------
    request : SuggestRequest
    ranking : LibraryRanking
    """

    request: SuggestRequest = field(init=False)
    aim: Aim = field(init=False)
    ranking: LibraryRanking = field(init=False)
    notes: tuple[str, ...] = ()

    @property
    def library(self) -> LibraryCandidates:  # type: ignore[override]
        """This object itself."""
        return self

    def open(self, run: Run, request: SuggestRequest, aim: Aim, depth: Depth) -> None:
        check_shortlist(aim, request.shortlist)
        features = source_for(run, aim.model, request.input, keep_columns=True)
        request.demands.check(columns_of(features))
        filters = request.demands.filters_of(features)
        measured = measured_of(aim.model, aim.target, features)
        by_rows = is_library_of(aim.model, features)
        excluded = batch_exclusions(run, request, measured, by_rows=by_rows)
        self.notes = excluded.notes
        passing = Passing(features, filters, excluded.molecules)
        self.rank(request, replace(aim, measured=measured), passing, depth, exclude_labelled=by_rows)

    def rank(
        self, request: SuggestRequest, aim: Aim, passing: Passing, depth: Depth, *, exclude_labelled: bool
    ) -> None:
        """Set up the ranking of the molecules that pass."""
        self.request, self.aim = request, aim
        self.ranking = LibraryRanking(
            aim=aim,
            features=passing.source,
            k=depth.k,
            n_wanted=depth.k,
            std=request.std,
            seed=request.seed,
            exclude_labelled=exclude_labelled,
            passing=passing,
            shortlist=request.shortlist,
            n_draws=depth.n_draws,
            name="suggest",
            search=aim.search,
        )

    @property
    def features(self) -> Source:
        """The library."""
        return self.ranking.features

    @property
    def passing(self) -> Passing:
        """Which molecules may be chosen."""
        assert self.ranking.passing is not None
        return self.ranking.passing

    @property
    def k(self) -> int:
        """How many candidates are kept of each posterior sample."""
        return self.ranking.k

    @property
    def spec(self) -> dict[str, object]:
        """Everything that determines the candidates."""
        return {**self.ranking.spec(self.request), **self.aim.state}

    def need(self) -> Need:
        """Return what memory and disk the search and the joint choice need."""
        need = self.ranking.need()
        if self.request.batch != "believer":
            return need
        size = 3 * 8 * self.k**2
        joint = peak("choose jointly", {"the covariance of the candidates": size, "pieces": PIECES})
        more: MemoryNeed = joint if need.here is None or need.here.total < joint.total else need.here
        return Need(need.worker, need.held, more, need.finish, need.disk)

    def pieces(self, run: Run) -> list[Pieces]:
        spec = self.spec
        run.agree(spec)
        return [self.ranking.plan(run, spec)]

    def list_molecules(self, run: Run) -> None:
        """Do nothing: the molecules are a library already."""

    def look(self, run: Run) -> None:
        self.ranking.run(run, self.spec)

    def hits(self) -> PassingHits:
        """Return the candidates."""
        hits: PassingHits = self.ranking.tree.result()
        return hits

    def deepen(self, hits: PassingHits) -> bool:
        ranking = self.ranking
        whole = all(len(top) < top.k for top in hits.tops)
        if whole and (not self.aim.has_surrogate or ranking.shortlist == 1):
            return False
        if whole:
            ranking.rank_all()
        else:
            ranking.keep(DEEPER * self.k)
        return True

    @property
    def n_looked_at(self) -> int:
        return self.ranking.n_kept

    @property
    def chosen_from(self) -> tuple[str, str]:
        return source_words(self.request.input.paths), self.features.spec_hash

    @property
    def inputs(self) -> tuple[str, ...]:
        return inputs_of(self.features)

    def n_ranked(self, hits: PassingHits) -> int:
        return hits.n_scored

    def notes_on_ranking(self, hits: PassingHits) -> list[str]:
        aim, request = self.aim, self.request
        if not aim.rule.needs_std:
            return []
        if all(len(top) < top.k for top in hits.tops):
            return [f"chosen by {aim.rule_name} from all {len(hits.tops[0]):,} that pass"]
        shortlists = aim.shortlists(request.std)
        by, more = ("means", "; --std all ranks all") if shortlists else ("scores", "")
        best = f"the {self.k:,} molecules with the best {by} that pass"
        if shortlists or aim.chooses_one_by_one(request):
            return [f"chosen by {aim.rule_name} from {best}{more}"]
        return []

    def notes_on_tests(self, hits: PassingHits) -> list[str]:
        """Return how many molecules were tested, if there are filters."""
        return tested_words(hits, self.passing)

    def words_of_all(self, hits: PassingHits) -> str:
        return f"{hits.n_scored:,} in the library"

    def columns(self, hits: PassingHits) -> Columns:
        """Return the columns of all candidates, by row; standard deviations are computed here."""
        union = TopK(sum(len(top) for top in hits.tops) or 1)
        for top in hits.tops:
            union = union.combine(TopK(union.k, top.score, top.row, top.columns))
        columns = self._predicted(union)
        table = table_of_rows(self.features, columns)
        columns |= {"smiles": table["smiles"], "described": table}
        places = {row: place for place, row in enumerate(columns["row"].tolist())}
        columns["lists"] = [[places[row] for row in top.row.tolist()] for top in hits.tops]
        return columns

    def _predicted(self, top: TopK) -> Columns:
        """Return the columns of candidates, with predictions and the inputs of a joint choice."""
        aim, columns, joint = self.aim, Columns(top.arrays()), Columns()
        score: npt.NDArray[np.float64] = columns.pop("score")
        joint["phi"], joint["diagonal"] = columns.pop("phi", None), columns.pop("diagonal", None)
        joint["fingerprints"] = None
        if len(score):
            if self.features.raw:
                joint["phi"] = self.ranking.fingerprints(columns["row"])
            elif aim.chooses_one_by_one(self.request) and aim.process[0].draws_take_rows:
                joint["fingerprints"] = self.ranking.fingerprints(columns["row"])
            with ONE_BLAS_THREAD:
                columns |= aim.predicted(joint["phi"], joint["diagonal"])
            if aim.rule.needs_std:
                score = aim.weighed(aim.rule(columns["mean"], columns["std"]), columns)
            columns["acquisition"] = score
        else:
            columns |= dict.fromkeys((*SCORES, *aim.columns_of_class, *aim.columns_of_sum), np.empty(0))
        return columns | joint | aim.more_columns(columns)
