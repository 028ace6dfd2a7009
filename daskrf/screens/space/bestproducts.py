"""Candidates for a batch from a space: the best products of a screen, listed as a library."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import PurePath

import pyarrow as pa

from daskrf.acquisition import acquisition_for
from daskrf.errors import InputError
from daskrf.files.backend import backend
from daskrf.files.disk import file_errors
from daskrf.jobs.job import Need, Run
from daskrf.jobs.pieces import Pieces
from daskrf.models.models import Model
from daskrf.models.modelsource import source_for
from daskrf.models.targets import measured_of
from daskrf.molecules.structures import KnownStructures
from daskrf.screens.aim import Aim, Depth
from daskrf.screens.candidates import DEEPER, CandidateSource, LibraryCandidates
from daskrf.screens.exclusions import batch_exclusions
from daskrf.screens.passing import Excluded, FilterTexts, Passing
from daskrf.screens.request import ScreenRequest, SuggestRequest
from daskrf.screens.searches import PassingHits
from daskrf.screens.space.hits import Candidates as Products
from daskrf.screens.space.productranking import ProductRanking
from daskrf.screens.space.surrogate import ranks_itself
from daskrf.sources.inputs import Input
from daskrf.sources.sources import Source
from daskrf.spaces.patterns import is_decided
from daskrf.storage.tablefiles import PARQUET, write_molecules
from daskrf.workers.progress import Progress

_DEEPEST = 64  # times the first number of products, at most: more would take hours
_PER_PICK = 10  # products listed for each pick, if posterior samples or requirements choose among them
_LEAST_SAMPLED = 1000  # products listed for this, at least
_SAMPLED_KAPPA = 2.0  # of the ucb that lists products for samples: where these are best, mean or std is large


@dataclass
class SpaceCandidates(CandidateSource):
    """The best products of a space.

    Attributes
    ----------
    below : ScreenRequest
        The screen of the space, from `screen_below`.
    source : Path
        The space.
    ranking : ProductRanking
        Finds the best products.
    products : Candidates
        Products found, best first, at most as many as were asked for.
    whole : bool
        Whether these are all products that may be chosen.
    """

    below: ScreenRequest
    source: PurePath
    request: SuggestRequest = field(init=False)
    aim: Aim = field(init=False)
    depth: Depth = field(init=False)
    ranking: ProductRanking = field(init=False)
    excluded: tuple[Excluded, ...] = ()
    library: LibraryCandidates = field(default_factory=LibraryCandidates)
    products: Products = field(init=False)
    whole: bool = False
    first: int = 0
    n_listed: int = 0
    n_noted: int = 0  # notes of the ranking that `notes` holds
    of_screen: tuple[str, ...] = ()

    def open(self, run: Run, request: SuggestRequest, aim: Aim, depth: Depth) -> None:
        """Cut the space."""
        self.request, self.depth = request, depth
        below, aim_below, n_draws = self.below, aim.with_rule(self.below.rule), 1
        if _maximizes_samples(aim):
            below, aim_below, n_draws = replace(below, seed=request.seed), aim, depth.n_draws
        self.first = self._first_products(aim)
        self.ranking = ranking = ProductRanking(below, self.source, aim_below, self.first, n_draws)
        request.demands.check(ranking.columns)
        request.demands.filters.of(ranking.columns)
        measured = aim.measured or measured_of(aim.model, aim.target)
        self.aim = replace(aim, measured=measured)
        excluded = batch_exclusions(run, request, measured, by_rows=False)
        self.excluded = excluded.molecules
        structures = (each.structures for each in excluded.molecules)
        ranking.prepare(run, KnownStructures.union(structures, excluded.level))
        self.notes = (*excluded.notes, *ranking.notes)
        self.n_noted = len(ranking.notes)

    def _first_products(self, aim: Aim) -> int:
        """Return how many products to ask for first."""
        n, request = self.request.k, self.request
        if _maximizes_samples(aim):
            return self.depth.k
        if aim.rule.needs_sample or (aim.requirements and request.batch != "believer"):
            return max(_LEAST_SAMPLED, _PER_PICK * n)
        if request.batch == "believer":
            return self.depth.k
        return n * (4 if request.demands.different else 1) + n // 4 + 8

    def need(self) -> Need:
        """Return the memory of the screen; `look` checks the memory for the choice."""
        return self.ranking.need()

    def pieces(self, run: Run) -> list[Pieces]:
        """Return the pieces of the screen."""
        return self.ranking.pieces(run)

    def list_molecules(self, run: Run) -> None:
        self.look(run)

    def look(self, run: Run) -> None:
        """List the best products in a file, and rank them as a library."""
        if self.n_listed != self.ranking.k:
            if self.n_listed:
                for pieces in self.ranking.pieces(run):
                    run.make(pieces)
            self.n_listed = self.ranking.k
            self._list_products(run)
        if self.depth.n_draws == 1:
            self.depth = Depth(max(self.depth.k, len(self.products)))
        self.library.ranking.keep(self.depth.k)
        run.check(self.library.need())
        self.library.look(run)

    def _list_products(self, run: Run) -> None:
        """Take the best products of the screen."""
        ranking = self.ranking
        ranked = ranking.best(run)
        best = ranked.products
        self.of_screen = (*ranked.notes, *ranking.counted(ranked))
        most = len(best) if ranking.n_draws > 1 else ranking.k  # with several samples, all
        self.products, self.whole = best.best(most), ranked.whole and len(best) <= most
        if not len(best):
            raise InputError(
                f"No product of {ranking.source} can be chosen: none lies within the limits, or all are "
                "labelled or to be left out."
            )
        ranking.check(self.products.smiles)
        table = self.products.table(None)
        texts = [name for name in table.column_names if name in ("id", "smiles", *ranking.columns)]
        features = listed_products(run, self.aim.model, table.select(texts), str(ranking.k))
        demands = self.request.demands
        demands = replace(demands, filters=demands.filters.of_products)
        passing = Passing(features, demands.filters_of(features))
        self.library.rank(self.request, self.aim, passing, self.depth, exclude_labelled=False)

    def deepen(self, hits: PassingHits) -> bool:
        ranking, depth = self.ranking, self.depth
        full = any(len(top) == top.k for top in hits.tops)
        most = _DEEPEST * self.first
        if _maximizes_samples(self.aim) and full and not self.whole and depth.k < most:
            self.depth = replace(depth, k=DEEPER * depth.k)
            ranking.widen(self.depth.k)
        elif depth.n_draws > 1 and full:
            self.depth = replace(depth, k=DEEPER * depth.k)
        elif self.whole or ranking.k >= most:
            return False
        else:
            ranking.widen(DEEPER * ranking.k)
        return True

    @property
    def chosen_from(self) -> tuple[str, str]:
        """The name and hash of the space."""
        return self.source.name, self.ranking.space.digest

    @property
    def n_looked_at(self) -> int:
        return self.ranking.k

    @property
    def inputs(self) -> tuple[str, ...]:
        """Empty, as a space is not a file of molecules."""
        return ()

    def n_ranked(self, hits: PassingHits) -> int:
        """Return the number of products that pass the filters, as far as synthons decide it."""
        return self.ranking.n_passing

    def notes_on_ranking(self, hits: PassingHits) -> list[str]:
        ranking, aim = self.ranking, self.aim
        samples, maximizes = aim.rule.needs_sample, _maximizes_samples(aim)
        by = f"the best {len(self.products):,} products by {ranking.aim.rule_name}"
        if samples and (self.whole or (maximizes and self.depth.k <= ranking.k)):
            how = "each posterior sample was maximized over all products"
            if self.library.passing.filters.words and not self.whole:
                how += f"; the filters were applied to the best {ranking.k:,} of each sample"
        elif samples:
            how = f"each posterior sample was maximized over {by}, not over the whole space"
        else:
            how = f"chosen from {'all products' if self.whole else by}"
        weighed = ["the requirements were applied to these only"] if aim.requirements else []
        return [*dict.fromkeys(ranking.notes[self.n_noted :]), *self.of_screen, how, *weighed]

    def words_of_all(self, hits: PassingHits) -> str:
        number = len(self.products)
        return f"all {number:,} of the space" if self.whole else f"the best {number:,} of the space"

    def left_out(self) -> dict[str, int]:
        """Return how many molecules the screen of the space left out."""
        others = ", or of a file to leave out" if self.request.demands.exclude else ""
        return {f"a labelled molecule{others}": self.products.n_excluded}

    def described(self, table: pa.Table) -> pa.Table:
        """Return the table with the columns of products."""
        products = self.products.table(None).take(table["row"])
        table = table.select(range(table.column_names.index("why") + 1))
        for name in products.column_names:
            if name not in table.column_names:
                table = table.append_column(name, products[name])
        return table


def _maximizes_samples(aim: Aim) -> bool:
    """Return whether each posterior sample ranks all products itself."""
    return aim.rule.needs_sample and ranks_itself(aim.model, aim.target) is not None


def listed_products(run: Run, model: Model, table: pa.Table, name: str) -> Source:
    """Write products to a file, and return it as the library to choose from."""
    path = run.work / f"candidates-{name}{PARQUET}"
    with file_errors("write", path), backend(path).writing(path) as staged:
        write_molecules(table, staged, path)
    # Users did not name this file: report nothing about it, and do not make shards agree on it.
    quiet = replace(run, output=run.work / "products", progress=Progress())
    return source_for(quiet, model, Input(path, accept_rejects=True), keep_columns=True)


def screen_below(
    request: ScreenRequest, filters: FilterTexts | None = None, *, accept_rejects: bool = False
) -> ScreenRequest:
    """Return the request for the screen of a space, whose best products are the candidates.

    Patterns of `filters` hold during the screen if synthons decide them, and so do alerts. With
    `accept_rejects`, the screen does not get that option: it may be meant for files to leave out.
    """
    surrogate = acquisition_for("ucb", kappa=_SAMPLED_KAPPA)  # samples are compared on some products only
    return ScreenRequest(
        model=request.model,
        input=replace(request.input, accept_rejects=False) if accept_rejects else request.input,
        output=request.output,
        k=request.k,
        rule=surrogate if request.rule.needs_sample else request.rule,
        maximize=request.maximize,
        target=request.target,
        std="none",
        shortlist=request.shortlist,
        overwrite=request.overwrite,
        filters=_of_synthons(filters or FilterTexts()),
        products=replace(request.products, per_block=None),
    )


def _of_synthons(filters: FilterTexts) -> FilterTexts:
    """Return the filters that synthons decide, at least in part, so that they hold during the screen."""
    wanted, unwanted = (tuple(filter(is_decided, texts)) for texts in filters.patterns)
    return replace(filters, where=(), smarts=wanted, without_smarts=unwanted)
