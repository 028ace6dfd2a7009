"""Batches of products of a space: the best of a screen are the library to choose from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from daskrf.acquisition import acquisition_for
from daskrf.errors import InputError
from daskrf.files.backend import backend
from daskrf.files.disk import file_errors
from daskrf.jobs.job import Need, Run
from daskrf.jobs.pieces import Pieces
from daskrf.models.models import Model
from daskrf.models.modelsource import source_for
from daskrf.molecules.diversity import Diversity
from daskrf.molecules.structures import KnownStructures
from daskrf.screens.batch import DEEPER, SuggestJob, words_of_rule
from daskrf.screens.passing import Excluded, Passing
from daskrf.screens.request import ScreenRequest
from daskrf.screens.searches import (
    Found,
)
from daskrf.screens.space.hits import Candidates as Products
from daskrf.screens.space.screen import SpaceScreen
from daskrf.screens.space.surrogate import ranks_itself
from daskrf.sources.inputs import Input
from daskrf.sources.sources import Source
from daskrf.storage.tablefiles import PARQUET, write_molecules
from daskrf.workers.progress import Progress

_DEEPEST = 64  # times the products that a space is first asked for: more would take hours
_PER_PICK = 10  # products of a space, among which draws or other targets choose
_LEAST_DRAWN = 1000  # products of a space that draws are compared on, or that are asked for other targets
_DRAWN_KAPPA = 2.0  # of the ucb that chooses them: where a draw is best, mean or deviation are large


@dataclass
class SpaceSuggestJob(SuggestJob):
    """The job of `suggest` for a space: the best products of a screen are the library to choose from.

    Attributes
    ----------
    screen : SpaceScreen
    products : Candidates
        What the screen has found, best first, at most as many as it was asked for.
    whole : bool
        Whether these are all that may be chosen.
    """

    screen: SpaceScreen = field(kw_only=True)
    products: Products = field(init=False)
    whole: bool = False
    excluded: tuple[Excluded, ...] = ()
    asked_first: int = 0
    n_asked: int = 0
    of_screen: tuple[str, ...] = ()

    def open(self, run: Run) -> None:
        """Cut the space."""
        screen = self.screen
        if self.maximizes_draws:
            screen.rule, screen.seed, screen.n_draws = self.rule, self.seed, self.n_draws
        screen.k = self.asked_first = self._first_products()
        screen.read(self.model)
        self.demands.check(self._columns_of_space())
        self.demands.filters.of(self._columns_of_space())
        self.excluded = tuple(self._excluded(run, None))
        structures = (each.structures for each in self.excluded)
        screen.excluded = KnownStructures.union(structures, self.level)
        screen.prepare(run)
        self.notes, screen.notes = tuple(dict.fromkeys((*self.notes, *screen.notes))), ()

    @property
    def maximizes_draws(self) -> bool:
        """Whether each draw ranks all products itself."""
        return self.rule.needs_sample and ranks_itself(self.model, self.target) is not None

    def _columns_of_space(self) -> tuple[str, ...]:
        """Return the columns that the products have."""
        space = self.screen.space
        there = [len(space.slots_of(r)) for r, own in enumerate(space.reactions) if not own.refusal]
        return ("reaction", *(f"block_{slot}" for slot in range(max(there, default=0))))

    def _first_products(self) -> int:
        """Return how many products to ask for first."""
        if self.maximizes_draws:
            return self.k
        if self.rule.needs_sample:
            return max(_LEAST_DRAWN, _PER_PICK * self.n)
        if self.batch == "believer":
            return self.k
        if self.requirements:
            return max(_LEAST_DRAWN, _PER_PICK * self.n)
        return self.n * (4 if self.demands.different else 1) + self.n // 4 + 8

    def need(self) -> Need:
        """What the screen needs; `look` checks what the choice does."""
        return self.screen.need()

    def pieces(self, run: Run) -> list[Pieces]:
        """Those of the screen."""
        return self.screen.pieces(run)

    def finish(self, run: Run, made: int) -> Any:
        self.look(run)
        return super().finish(run, made)

    def look(self, run: Run) -> None:
        """The best products become a file, the library to choose from."""
        if self.n_asked != self.screen.k:
            if self.n_asked:
                for pieces in self.screen.pieces(run):
                    run.make(pieces)
            self.n_asked = self.screen.k
            self._screened(run)
        if self.n_draws == 1:
            self.k = max(self.k, len(self.products))
        run.check(super().need())
        super().look(run)

    def _screened(self, run: Run) -> None:
        """Take the best products of the screen."""
        found, whole, notes = self.screen.best(run)
        self.of_screen = (*notes, *self.screen.counted(found, whole))
        most = len(found) if self.screen.n_draws > 1 else self.screen.k  # of every draw
        self.products, self.whole = found.best(most), whole and len(found) <= most
        if not len(found):
            raise InputError(
                f"No product of {self.screen.source} can be chosen: none lies within the limits, or all are "
                "labelled or to be left out."
            )
        table = self.products.table(None)
        texts = [name for name in table.column_names if name in ("id", "smiles", *self._columns_of_space())]
        self.features = listed_products(run, self.model, table.select(texts), str(self.screen.k))
        self.passing = Passing(self.features, self.demands.filters.of_library(self.features))

    def deepen(self, found: Found) -> bool:
        full = any(len(top) == top.k for top in found.tops)
        if self.maximizes_draws and full and not self.whole and self.k < _DEEPEST * self.asked_first:
            self.k = self.screen.k = DEEPER * self.k
        elif self.n_draws > 1 and full:
            self.k *= DEEPER
        elif self.whole or self.screen.k >= _DEEPEST * self.asked_first:
            return False
        else:
            self.screen.k *= DEEPER
        return True

    @property
    def chosen_from(self) -> tuple[str, str]:
        """The space."""
        return self.screen.source.name, self.screen.space.digest

    @property
    def n_looked_at(self) -> int:
        return self.screen.k

    @property
    def inputs(self) -> tuple[str, ...]:
        """A space is not a file of molecules."""
        return ()

    def n_ranked(self, found: Found) -> int:
        """All products."""
        return self.screen.n_distinct

    def ranked_words(self, found: Found) -> list[str]:
        by = f"the best {len(self.products):,} products by {words_of_rule(self.screen.rule)}"
        if self.rule.needs_sample and (self.whole or (self.maximizes_draws and self.k <= self.screen.k)):
            how = "each draw was maximized over all products"
            if self.passing.filters.words and not self.whole:
                how += f"; the filters were asked of the best {self.screen.k:,} of each draw"
        elif self.rule.needs_sample:
            how = f"each draw was maximized over {by}, and not over the whole space"
        else:
            how = f"chosen from {'all products' if self.whole else by}"
        weighed = ["what is required was asked of these only"] if self.requirements else []
        return [*dict.fromkeys(self.screen.notes), *self.of_screen, how, *weighed]

    def refused_words(self, found: Found) -> str:
        number = len(self.products)
        return f"all {number:,} of the space" if self.whole else f"the best {number:,} of the space"

    def _left_out(self, found: Found, columns: dict[str, Any], diverse: Diversity) -> dict[str, int]:
        """The screen has left out structures."""
        others = ", or of a file to leave out" if self.demands.exclude else ""
        own = {f"a labelled molecule{others}": self.products.n_excluded}
        return {**own, **super()._left_out(found, columns, diverse)}

    def _table(self, columns: dict[str, Any], picks: list[int]) -> tuple[pa.Table, str]:
        """With the columns of products."""
        table, words = super()._table(columns, picks)
        own = self.products.table(None).take(table["row"])
        table = table.select(range(table.column_names.index("why") + 1))
        for name in own.column_names:
            if name not in table.column_names:
                table = table.append_column(name, own[name])
        return table, words


def listed_products(run: Run, model: Model, table: pa.Table, name: str) -> Source:
    """Write products to a file, and return it as the library to choose from."""
    path = run.work / f"candidates-{name}{PARQUET}"
    with file_errors("write", path), backend(path).writing(path) as staged:
        write_molecules(table, staged, path)
    # Nobody gave this file: nothing is said of it, and shards, which agree on files, do not know it.
    own = replace(run, output=run.work / "products", progress=Progress())
    return source_for(own, model, Input(path, accept_rejects=True), keep_columns=True)


def screen_below(request: ScreenRequest, *, accept_rejects: bool = False) -> ScreenRequest:
    """Return what is asked of the screen of a space whose best products are then chosen from.

    With `accept_rejects`, that option is not asked of the space: it may be meant for files to leave out.
    """
    drawn = acquisition_for("ucb", kappa=_DRAWN_KAPPA)  # draws are compared on some products only
    return ScreenRequest(
        model=request.model,
        input=replace(request.input, accept_rejects=False) if accept_rejects else request.input,
        output=request.output,
        k=request.k,
        rule=drawn if request.rule.needs_sample else request.rule,
        maximize=request.maximize,
        target=request.target,
        std="none",
        shortlist=request.shortlist,
        overwrite=request.overwrite,
        products=replace(request.products, per_block=None),
    )
