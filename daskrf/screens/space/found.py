"""The products of a space, for `found`: the best are sampled, and random ones stand for the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from daskrf import seeds
from daskrf.acquisition import acquisition_for
from daskrf.errors import InputError
from daskrf.jobs.job import Need, Run
from daskrf.jobs.pieces import Pieces
from daskrf.models.targets import Measured, measured_of
from daskrf.molecules.filters import Filters
from daskrf.molecules.structures import KnownStructures
from daskrf.quantities import amount
from daskrf.screens.found import (
    FoundJob,
    Population,
    filters_of,
    labelled_of,
    labels_that_pass,
    note_on_limits,
)
from daskrf.screens.libraryranking import LibraryRanking
from daskrf.screens.passing import Passing
from daskrf.screens.request import ScreenRequest
from daskrf.screens.searches import PassingHits
from daskrf.screens.space.bestproducts import listed_products
from daskrf.screens.space.hits import Candidates as Products
from daskrf.screens.space.productranking import (
    BELOW,
    MORE,
    ProductRanking,
    first_shortlist,
    n_ranked,
)
from daskrf.screens.space.producttests import ProductTests
from daskrf.screens.space.surrogate import ranks_itself
from daskrf.spaces.limits import lies_within
from daskrf.spaces.sampling import inside, random_numbers

_ANYWHERE = 20_000  # random products of the space, to represent those ranked too low to be kept
_BY_TAILS = 0.5  # an estimate is rough if tails of distributions stand for more than this share of the best k


@dataclass
class SpacePopulation(Population):
    """The products of a space.

    The best products by the surrogate, or by the mean, are sampled like the molecules of a library. Random
    products stand for those ranked below. The mean and standard deviation of a random product give the
    probability that it is better than a value, and its weight is the number of products that it stands for.

    Attributes
    ----------
    below : ScreenRequest
        The screen of the space, from `screen_below`. It ranks by ucb, so products with large standard
        deviations are sampled too.
    source : Path
        The space.
    products : ProductRanking
        Finds the best products.
    tests : ProductTests or None
        Filters that products must pass to count.
    unsampled : Unsampled
        Random products that stand for those not sampled.
    """

    unit: ClassVar[Literal["molecules", "products"]] = "products"
    below: ScreenRequest
    source: PurePath
    products: ProductRanking = field(init=False)
    ranking: LibraryRanking = field(init=False)
    measured: Measured = field(init=False)
    tests: ProductTests | None = field(init=False)
    unsampled: Unsampled = field(init=False)
    notes: tuple[str, ...] = ()
    n_sampled: int = 0

    def open(self, run: Run, job: FoundJob) -> None:
        """Cut the space."""
        aim, below = job.aim, self.below
        k = below.k
        if ranks_itself(aim.model, aim.target):
            below = replace(below, rule=acquisition_for("greedy"))
            k = n_ranked(first_shortlist(None, k)) // MORE
        products = ProductRanking(
            below, self.source, aim.with_rule(below.rule), k, may_list=False, keeps_tables=False
        )
        measured = aim.measured or measured_of(aim.model, aim.target)
        labelled = labelled_of(run, measured, job.exclude_by, by_rows=False)
        filters, limits = filters_of(job.request), note_on_limits(measured)
        measured, limited = _within(measured, products)
        self.measured, passing_labels = labels_that_pass(measured, filters)
        self.tests = ProductTests(filters) if filters.computed else None
        structures = (each.structures for each in labelled.molecules)
        products.prepare(run, KnownStructures.union(structures, job.exclude_by))
        self.products = products
        sizes = _note_on_limited(products)
        self.notes = (*labelled.notes, *limits, *limited, *sizes, *passing_labels)

    def need(self) -> Need:
        """Return the memory of the screen; `sample` checks the memory for sampling."""
        return self.products.need()

    def pieces(self, run: Run, job: FoundJob) -> Sequence[Pieces]:
        """Return the pieces of the screen."""
        return self.products.pieces(run)

    def n_molecules(self, values: PassingHits) -> int:
        """Return the number of products that pass the filters, as far as synthons decide it."""
        return self.products.n_passing

    @property
    def inputs(self) -> tuple[str, ...]:
        """Empty, as a space is not a file of molecules."""
        return ()

    def sample(self, run: Run, job: FoundJob) -> PassingHits:
        """List the best products, draw random ones from below, and sample the values of the best."""
        products = self.products
        row, whole = products.ranked(run)
        first = row[: products.first]
        scores = products.predicted(run, first, std=True, named=True)
        best = Products.of(products.cut, first, scores.alike(), None, products.excluded)
        if not len(best):
            raise InputError(
                f"All products of {self.source} that pass have labels, so there is nothing left to find."
                if len(first)
                else f"No product of {self.source} passes the filters within the limits, so there is nothing "
                "to find; widen them (--within), or leave a filter out."
            )
        self.n_sampled = len(best)
        self.unsampled = self._look_below(run, row, 1 - best.repeats / max(1, len(first)), whole=whole)
        self.notes = (*self.notes, *products.notes, *products.words_of_similar())
        table = best.table(None).select(["id", "smiles"])
        features = listed_products(run, job.aim.model, table, "found")
        filters = Filters() if self.tests is None else self.tests.filters
        self.ranking = job.sampling(Passing(features, filters), max(1, self.n_sampled))
        run.check(self.ranking.need())
        values = self.ranking.run(run, self.ranking.spec(job.request))
        assert isinstance(values, PassingHits)
        return values

    def _look_below(self, run: Run, row: npt.NDArray[np.int64], distinct: float, *, whole: bool) -> Unsampled:
        """Return random products of each range of places below those sampled, and of those not kept."""
        products, start = self.products, self.products.first
        numbers, weights = [np.empty(0, np.int64)], [np.empty(0)]
        while start < len(row):
            stop = min(len(row), 2 * start)
            chosen = start + random_numbers(stop - start, BELOW, 0, "space/below")
            numbers.append(row[chosen])
            weights.append(np.full(len(chosen), (stop - start) / len(chosen)))
            start = stop
        if not whole:
            listed = products.listed
            n = products.n_products if listed is None else len(listed)
            some = random_numbers(n, _ANYWHERE, 0, "found/anywhere")
            some = some if listed is None else listed[some]
            numbers.append(some[~np.isin(some, row) & products.wanted(some)])
            weights.append(np.full(len(numbers[-1]), n / len(some)))
        number, weight = np.concatenate(numbers), np.concatenate(weights)
        scores = products.predicted(run, number, std=True)
        places = np.arange(len(scores.smiles))
        free = scores.free(products.excluded, places)
        if self.tests is not None:
            free[free] = self.tests.passes(scores, places[free])
        if not free.any():
            return Unsampled()
        sign, columns = products.aim.rule.sign, scores.columns
        return Unsampled(sign * columns["mean"][free], columns["std_y"][free], distinct * weight[free])

    def beyond(self, draw: int) -> Callable[[float], float]:
        return self.unsampled.better(draw)

    def notes_on_sampling(self, k: int, below: float) -> list[str]:
        products = self.products
        by = "means" if products.ranks_itself else f"{products.aim.rule.name} of the surrogate"
        passing = "those that pass the filters, of " if self.tests is not None else ""
        best = f"{passing}the best {amount(self.n_sampled, 'molecules')} without labels by {by}"
        sampled = f"{best} were sampled" if not passing else f"{best}, were sampled"
        if not len(self.unsampled.mean):
            return [f"{sampled}, which are all there are"]
        rough = "; this share is large, so the estimate is rough" if below > _BY_TAILS else ""
        return [
            f"{sampled}; {len(self.unsampled.mean):,} random ones stand for all others, counted as normally "
            "distributed with their own means and standard deviations: an expected "
            f"{below:.0%} of the best {k:,}{rough}"
        ]


def _within(measured: Measured, products: ProductRanking) -> tuple[Measured, tuple[str, ...]]:
    """Return the labels of molecules that lie within the limits, and a note on how many these are."""
    limits = products.limits
    if not limits:
        return measured, ()
    outside = [not lies_within(text, limits) for text in measured.smiles]
    values = measured.values.copy()
    values[: len(outside)][np.array(outside, bool)] = math.nan
    n = int(np.isfinite(values).sum())
    if not n:
        raise InputError("No labelled molecule lies within the limits, so nothing has been found.")
    n_labels = int(np.isfinite(measured.values).sum())
    note = f"{n:,} of {amount(n_labels, 'labels')} lie within the limits, and count"
    return replace(measured, values=values), (note,)


def _note_on_limited(products: ProductRanking) -> tuple[str, ...]:
    """Return a note on how many products lie within the limits, by random ones, if they are not listed."""
    if not products.limits or products.similar is not None:
        return ()
    if products.patterns is None:
        numbers = random_numbers(products.n_products, _ANYWHERE, 0, "found/limits")
    else:
        numbers = products.patterns.drawn(_ANYWHERE, 0, "found/limits", ())
    n = products.n_passing * float(inside(products.cut, numbers, products.limits).mean())
    rounded = round(n, 2 - math.floor(math.log10(n))) if n else 0
    return (
        f"an estimated {rounded:,.0f} of {amount(products.n_passing, 'products')} lie within the limits, by "
        f"{len(numbers):,} random ones",
    )


@dataclass(frozen=True)
class Unsampled:
    """Random products, and the number of products that each stands for; larger is better."""

    mean: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    std: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    weight: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def better(self, draw: int) -> Callable[[float], float]:
        """Return a function from a value to the number of products better than it.

        Weights are multiplied by exponential random numbers, as in a Bayesian bootstrap (Rubin 1981), because
        other products could have been drawn.
        """
        words = seeds.words(0, f"found/below/{draw}", len(self.mean))
        uniform = (words >> np.uint64(11)) * 2.0**-53
        weight = -self.weight * np.log1p(-uniform)
        return lambda value: float(weight @ ndtr((self.mean - value) / self.std))
