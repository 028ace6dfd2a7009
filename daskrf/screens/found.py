"""The job of `found`: posterior samples estimate how many of the best molecules have been measured."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePath
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from daskrf import seeds
from daskrf.errors import InputError, OptionError, printable
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.posterior import normal_of
from daskrf.gp.processes.process import FeatureSpaceGP
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import WeightedSum
from daskrf.gp.validation.tailcounts import LEAST_RATIO, TailCounts, tail_counts
from daskrf.jobs.job import Job, Need, Report, Run
from daskrf.jobs.pieces import Pieces
from daskrf.models.models import Model
from daskrf.models.modelsource import source_for
from daskrf.models.rounds import rounds_of
from daskrf.models.targets import Measured, measured_of
from daskrf.molecules.filters import Filters
from daskrf.molecules.structures import Level, canonical_smiles
from daskrf.quantities import amount
from daskrf.screens.aim import Aim
from daskrf.screens.draws import drawn_function
from daskrf.screens.exclusions import Exclusions, labelled_exclusions
from daskrf.screens.labelledshare import Ratio, labelled_share
from daskrf.screens.libraryranking import LibraryRanking, is_library_of
from daskrf.screens.passing import PASSED, Passing, columns_of
from daskrf.screens.request import ScreenRequest
from daskrf.screens.searches import Candidates, PassingHits, ScoresAndColumns
from daskrf.sources.inputs import inputs_of
from daskrf.sources.sources import Block
from daskrf.tables import file_words

_INTERVAL = (0.025, 0.975)
_MANY_BETTER = 0.1  # times k: if more molecules than this beat the best label, a note says so
_PER_HIT = math.ceil(1 / LEAST_RATIO)  # times k values are kept per sample, as one may count as less than 1
_GRID = 256  # values at which the ratio is computed; see `TailCounts.ratio`
_WIDE = 0.4  # width from which the report explains the interval


class Population(ABC):
    """The molecules among which the best are counted: a library, or a space.

    Attributes
    ----------
    unit : str
        What `n_molecules` counts: "molecules", or "products" of a space, of which some are the same molecule.
    ranking : LibraryRanking
        Samples the values of the molecules without labels.
    measured : Measured
        The labels that count.
    notes : tuple of str
        What was assumed.
    """

    unit: ClassVar[Literal["molecules", "products"]] = "molecules"
    ranking: LibraryRanking
    measured: Measured
    notes: tuple[str, ...] = ()

    @abstractmethod
    def open(self, run: Run, job: FoundJob) -> None:
        """Open the library, or cut the space."""

    @abstractmethod
    def need(self) -> Need:
        """Return what memory and disk the search needs."""

    @abstractmethod
    def pieces(self, run: Run, job: FoundJob) -> Sequence[Pieces]:
        """Return the pieces of the search."""

    def sample(self, run: Run, job: FoundJob) -> PassingHits:
        """Return the best values of each sample, once all pieces are made."""
        values: PassingHits = self.ranking.tree.result()
        return values

    @abstractmethod
    def n_molecules(self, values: PassingHits) -> int:
        """Return the number of molecules."""

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """How files were read."""

    def beyond(self, draw: int) -> Callable[[float], float]:
        """Return a function from a value to the number of molecules better than it that were not sampled."""
        return lambda value: 0.0

    def notes_on_sampling(self, k: int, below: float) -> list[str]:
        """Return notes on the molecules not sampled, which hold an expected share `below` of the best k."""
        return []


@dataclass
class LibraryPopulation(Population):
    """The molecules of a library."""

    ranking: LibraryRanking = field(init=False)
    measured: Measured = field(init=False)
    notes: tuple[str, ...] = ()

    def open(self, run: Run, job: FoundJob) -> None:
        aim = job.aim
        features = source_for(run, aim.model, job.request.input)
        job.check_k(sum(features.partition_rows))
        by_rows = is_library_of(aim.model, features)
        filters = filters_of(job.request, columns_of(features))
        measured = measured_of(aim.model, aim.target, features)
        labelled = labelled_of(run, measured, job.exclude_by, by_rows=by_rows)
        self.measured, passing_labels = labels_that_pass(measured, filters)
        self.notes = (*labelled.notes, *note_on_limits(measured), *passing_labels)
        passing = Passing(features, filters, labelled.molecules)
        self.ranking = job.sampling(passing, job.n_kept, exclude_labelled=by_rows)

    def need(self) -> Need:
        return self.ranking.need()

    def pieces(self, run: Run, job: FoundJob) -> list[Pieces]:
        spec = self.ranking.spec(job.request)
        run.agree(spec)
        return [self.ranking.plan(run, spec)]

    def n_molecules(self, values: PassingHits) -> int:
        return values.n_scored

    @property
    def inputs(self) -> tuple[str, ...]:
        return inputs_of(self.ranking.features)


def labelled_of(run: Run, measured: Measured, level: Level, *, by_rows: bool) -> Exclusions:
    """Return the labelled molecules, which are not sampled again; refuse if they are not known."""
    labelled = labelled_exclusions(run, measured, level, by_rows=by_rows)
    if not labelled.molecules:
        raise InputError("The labelled molecules of this model are not known, so they cannot be counted.")
    return labelled


def filters_of(request: ScreenRequest, columns: Sequence[str] = ()) -> Filters:
    """Return the filters of molecules that count.

    Raises
    ------
    OptionError
        If one compares a column of the library, which labelled molecules from elsewhere do not have.
    """
    filters = request.filters.of(columns)
    if filters.columns:
        raise OptionError(
            f"Labelled molecules have no column '{printable(filters.columns[0])}' for --where to compare, "
            "so it is not known which of them count; compare computed properties, such as weight or logp."
        )
    return filters


def labels_that_pass(measured: Measured, filters: Filters) -> tuple[Measured, tuple[str, ...]]:
    """Return the labels of molecules that pass filters, and a note on how many these are.

    Raises
    ------
    InputError
        If no labelled molecule passes, or the structure of one is not known.
    """
    if not filters.computed:
        return measured, ()
    there = np.flatnonzero(np.isfinite(measured.values))
    smiles = [text for i, text in enumerate(measured.smiles) if i < len(measured.values)]
    if len(smiles) < len(measured.values) or not all(smiles[i] for i in there.tolist()):
        raise InputError(
            "The structures of some labelled molecules are not known, so it is not known which of them pass "
            "the filters: leave out --where, --smarts, --without-smarts and --alerts."
        )
    passes = np.array(filters.first_failed([smiles[i] for i in there.tolist()])) == PASSED
    if not passes.any():
        raise InputError("No labelled molecule passes the filters, so nothing has been found.")
    values = measured.values.copy()
    values[there[~passes]] = math.nan
    labels = f"{int(passes.sum()):,} of {amount(len(there), 'labels')}"
    return replace(measured, values=values), (f"{labels} are of molecules that pass the filters, and count",)


@dataclass
class FoundJob(Job[Report]):
    """The job of `found`: posterior samples of a population, and the share of their best with labels.

    Attributes
    ----------
    request : ScreenRequest
        `output` is the model, which is locked: nobody may add labels meanwhile.
    n_asked : int
        How many samples to draw; the model may allow fewer.
    exclude_by : {"structure", "parent", "tautomer", "skeleton"}
        What counts as a labelled molecule.
    population : Population
    made : callable
        Makes the report.
    """

    request: ScreenRequest
    n_asked: int
    exclude_by: Level
    population: Population
    made: Callable[..., Report]
    output: PurePath = field(init=False)
    aim: Aim = field(init=False)

    name = "found"

    def __post_init__(self) -> None:
        self.output = self.request.output

    @property
    def k(self) -> int:
        """How many molecules count as the best."""
        return self.request.k

    @property
    def n_draws(self) -> int:
        """How many samples are drawn."""
        return min(self.n_asked, self.aim.process[0].most_draws() or self.n_asked)

    @property
    def n_kept(self) -> int:
        """How many values of each sample are kept."""
        return _PER_HIT * self.k

    def plan(self, run: Run) -> None:
        """Read the model, and leave out labelled molecules."""
        self.aim = Aim.of(self.request)
        self.population.open(run, self)

    def check_k(self, n: int) -> None:
        """Refuse a k that is the whole library or more."""
        if self.k >= n:
            raise InputError(
                f"The library has {amount(n, 'molecules')}, so the best {self.k:,} are all of them; "
                "give a smaller -k (k)."
            )

    def sampling(self, passing: Passing, n_kept: int, *, exclude_labelled: bool = False) -> LibraryRanking:
        """Return what samples the values of a library."""
        process, place = self.aim.process
        noise = math.sqrt(float(process.noise_variance_[place]))
        return LibraryRanking(
            aim=self.aim,
            features=passing.source,
            k=n_kept,
            n_wanted=self.k,
            std=self.request.std,
            seed=self.request.seed,
            exclude_labelled=exclude_labelled,
            passing=passing,
            shortlist=1.0,  # a surrogate does not know the samples
            n_draws=self.n_draws,
            name=self.name,
            search=partial(SampledValues, noise=noise),
        )

    def need(self) -> Need:
        return self.population.need()

    def pieces(self, run: Run) -> Sequence[Pieces]:
        return self.population.pieces(run, self)

    def finish(self, run: Run, made: int) -> Report:
        """Count the labelled molecules among the best of each sample, and make the report."""
        population, sign = self.population, self.aim.rule.sign
        values = population.sample(run, self)
        features = population.ranking.features
        self.check_k(population.n_molecules(values))
        labels = sign * _values(population.measured)
        tails = self._tails()
        ratios = self._ratios(tails, np.concatenate([labels, *(top.score for top in values.tops)]))
        counted = [
            labelled_share(labels, top.score, self.k, population.beyond(d), ratios[d])
            for d, top in enumerate(values.tops)
        ]
        shares, below, at = zip(*counted, strict=True)
        low, high = np.quantile(shares, _INTERVAL)
        best = float(labels.max())
        better = [
            int((top.score > best).sum()) + population.beyond(d)(best) for d, top in enumerate(values.tops)
        ]
        notes = (
            *self.aim.notes,
            *population.notes,
            *_note_on_rejects(population.ranking),
            *features.note_on_groups(),
            *population.notes_on_sampling(self.k, float(np.mean(below))),
            _words_of_tails(tails, float(np.median(at)), high - low, sign),
            *_doubts(float(np.mean(better)), self.k),
        )
        return self.made(
            k=self.k,
            n_labelled=len(labels),
            rows=population.n_molecules(values),
            unit=population.unit,
            share=float(np.mean(shares)),
            low=float(low),
            high=float(high),
            draws=tuple(shares),
            target=self.aim.target_name,
            direction=self.aim.direction,
            seconds=run.seconds,
            notes=tuple(dict.fromkeys(notes)),
            inputs=population.inputs,
        )

    def _tails(self) -> TailCounts:
        """Return labels with predictions made without them; none if the process cannot make these."""
        aim, nothing = self.aim, np.empty(0)
        process, _ = aim.process
        if not isinstance(process, ExactGP) or process.solver_ != "cholesky" or process.side_ is not None:
            return TailCounts(nothing, nothing, nothing, nothing, 0)
        ends = np.cumsum([0, *(int(each["labels"]) for each in rounds_of(aim.model))])
        (y,) = aim.model.arrays("labels")
        assert not isinstance(aim.target, WeightedSum)
        there = np.isfinite(y[:, aim.target])
        first, *batches = [int(there[a:b].sum()) for a, b in itertools.pairwise(ends.tolist())]
        if first + sum(batches) != process.n_rows_:
            return TailCounts(nothing, nothing, nothing, nothing, 0)
        return tail_counts(process, first, [n for n in batches if n], aim.rule.sign)

    def _ratios(self, tails: TailCounts, values: npt.NDArray[np.float64]) -> list[Ratio]:
        """Return, for each sample, how many molecules one sampled molecule counts as, given its value."""
        grid = np.linspace(values.min(), values.max(), _GRID)
        deviates = _normal_quantiles(self.n_draws, "found/discrepancy")
        quantiles = ndtr(_normal_quantiles(self.n_draws, "found/ratio"))
        ratios = (tails.ratio(grid, q, deviate) for q, deviate in zip(quantiles, deviates, strict=True))
        return [_interpolated(grid, ratio) for ratio in ratios]


def _note_on_rejects(ranking: LibraryRanking) -> tuple[str, ...]:
    """Return a note on rows of files that are not molecules, with an example; stores report their own."""
    n, first = 0, None
    for rejects in ranking.rejects():
        n += rejects.num_rows
        first = rejects.slice(0, 1).to_pylist()[0] if first is None and rejects.num_rows else first
    if first is None:
        return ()
    where = f"line {first['line']} of {file_words(first['source'])}: {printable(first['reason'], 80)}"
    return (f"rejected: {amount(n, 'rows')}, which cannot be among the best ({where})",)


def _values(measured: Measured) -> npt.NDArray[np.float64]:
    """Return the label of each molecule that was measured; the mean where one has several."""
    there = np.isfinite(measured.values)
    y = measured.values[there]
    molecules = [text for text, is_there in zip(measured.smiles, there.tolist(), strict=False) if is_there]
    if len(y) != len(molecules) or not all(molecules):  # structures are not known
        return y
    _, index = np.unique(canonical_smiles(molecules), return_inverse=True)
    return np.bincount(index, y) / np.bincount(index)


def note_on_limits(measured: Measured) -> tuple[str, ...]:
    """Return a note on labels that are limits, if there are any."""
    n = int(np.count_nonzero(measured.labelled & ~np.isfinite(measured.values)))
    if not n:
        return ()
    n_labels = int(measured.labelled.sum())
    return (
        f"{n:,} of {amount(n_labels, 'labels')} {'is a limit' if n == 1 else 'are limits'}; molecules with a "
        "limit alone count neither as found nor as missing",
    )


def _doubts(better: float, k: int) -> list[str]:
    """Return a warning if many molecules of the samples beat the best label."""
    if better <= _MANY_BETTER * k:
        return []
    return [
        f"in a posterior sample, {better:,.0f} molecules without labels beat the best label; if batches find "
        "hardly any of them, the target has a limit that the model does not know, and the estimate is too low"
    ]


def _words_of_tails(tails: TailCounts, at: float, width: float, sign: float) -> str:
    """Return how the number of molecules better than the last of the best k was corrected, in words."""
    wide = "; the interval is wide for that reason" if width > _WIDE else ""
    if not len(tails.y):
        return (
            "the model cannot leave out its labels, so its predictions of the best molecules cannot be "
            f"checked: their number is taken to be uncertain{wide}"
        )
    seen, expected = int((tails.y >= at).sum()), float(ndtr((tails.mean - at) / tails.std).sum())
    low, high = (float(tails.ratio([at], quantile, 0.0)[0]) for quantile in _INTERVAL)
    which = "the first labels, left out one by one"
    if tails.n_batches:
        many = f"each of {tails.n_batches:,} batches" if tails.n_batches > 1 else "the batch"
        which += f", and {many}, predicted from the labels before it"
    return (
        f"{seen:,} of all {amount(len(tails.y), 'labels')} {'is' if seen == 1 else 'are'} as good as the "
        f"last of the best ({sign * at:.4g}); the model expected {expected:.1f} ({which}): other molecules "
        f"therefore count as {low:.1f} to {high:.1f} times as many as the model says, with more "
        f"uncertainty where they are unlike these{wide}"
    )


def _interpolated(grid: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> Ratio:
    """Return a function that interpolates values on a grid."""
    return lambda at: np.interp(at, grid, values)


def _normal_quantiles(n: int, name: str) -> npt.NDArray[np.float64]:
    """Return n evenly spaced quantiles of the standard normal distribution, in random order."""
    order = np.argsort(seeds.words(0, name, n), kind="stable")
    return np.asarray(ndtri((order + 0.5) / n))


@dataclass(frozen=True)
class SampledValues(Candidates):
    """Samples new measurements of all rows: posterior samples plus noise, seeded by row and sample."""

    noise: float = 0.0

    def scores(self, model: Model, block: Block) -> ScoresAndColumns:
        process, place = process_of(model.gp, self.target)
        normal = np.empty((len(block.rows), self.n_draws))
        for draw in range(self.n_draws):
            normal[:, draw] = normal_of(seeds.words_at(self.seed, f"found/noise/{draw}", block.rows))
        if not (isinstance(process, FeatureSpaceGP) and process.draws_take_rows):
            return super().scores(model, block)[0].reshape(normal.shape) + self.noise * normal, {}
        drawn = drawn_function(self.draw or "", self.model, self.model_hash, self.target, self.seed)
        assert isinstance(drawn, FeatureSpaceGP)
        values = process.values_of_draws(
            drawn, block.phi, normal, place, diagonal=block.diagonal, rows=block.fingerprints
        )
        return self.rule(values, None), {}
