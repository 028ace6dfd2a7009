"""Model + library -> how much of the best of the library has been measured already."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
from distributed import Client
from scipy.special import ndtr, ndtri

from daskrf import seeds
from daskrf.acquisition import acquisition_for
from daskrf.commands import READING
from daskrf.commands.screen import check_library_options, one_target, space_screen
from daskrf.errors import InputError, OptionError, printable
from daskrf.files.backend import as_path
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.posterior import normal_of
from daskrf.gp.processes.process import FeatureSpaceGP
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import WeightedSum
from daskrf.gp.validation.tailcounts import LEAST_RATIO, TailCounts, tail_counts
from daskrf.jobs.job import Need, Run, run
from daskrf.jobs.pieces import Pieces
from daskrf.models.directions import words
from daskrf.models.models import Model
from daskrf.models.modelsource import source_for
from daskrf.models.rounds import rounds_of
from daskrf.models.targets import Measured
from daskrf.molecules.counts.spec import Fragments
from daskrf.molecules.structures import KnownStructures, Level, canonical_smiles
from daskrf.parameters import Command, Option
from daskrf.quantities import amount
from daskrf.report.notebook import Shown
from daskrf.screens.batch import Demands, SuggestJob
from daskrf.screens.draws import drawn_function
from daskrf.screens.libraryscreen import ScreenJob
from daskrf.screens.passing import Excluded, Passing
from daskrf.screens.request import ScreenRequest, SpaceOptions
from daskrf.screens.searches import Candidates, Found, Search
from daskrf.screens.space.batch import listed_products, screen_below
from daskrf.screens.space.hits import Candidates as ProductTable
from daskrf.screens.space.screen import BELOW, DEEPEST, MORE, SpaceScreen
from daskrf.screens.space.surrogate import ranks_itself
from daskrf.sources.inputs import Input
from daskrf.sources.sources import Block, Source
from daskrf.spaces.families import decoded
from daskrf.spaces.limits import lies_within, ranges_of_texts
from daskrf.spaces.sampling import inside, random_numbers
from daskrf.spaces.spacefiles import space_among
from daskrf.tables import TableFormat, file_words
from daskrf.workers.progress import Progress

Paths = str | os.PathLike[str]
Ratio = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]

CLI = Command(
    "daskrf found docking.model real.fingerprints -k 500",
    step=5,
    options={
        "k": Option(least=1),
        "n_draws": Option(least=2),
        "maximize": Option("--maximize/--minimize"),
        "target": Option(metavar="NAME|SUM", repeated=True, convert=one_target),
        "within": Option(metavar="NAME=LOW:HIGH", repeated=True, convert=ranges_of_texts),
        "fragments": READING,
        "accept_rejects": READING,
    },
    without=("format__extra",),
    resumable=True,
)

_INTERVAL = (0.025, 0.975)
_MANY_BETTER = 0.1  # times k: molecules better than the best label
_KEPT = math.ceil(1 / LEAST_RATIO)  # times k values of each draw, as each may count for less than one
_GRID = 256  # values at which it is known how many are better than the model expects
_WIDE = 0.4  # an interval that needs a reason
_ANYWHERE = 20_000  # random products of a space, for those that are ranked too low to be kept
_BY_TAILS = 0.5  # of the best k, above which an estimate by tails of distributions is a rough one


@dataclass(frozen=True)
class FoundReport(Shown):
    """How much of the best of a library has been measured, by draws from the posterior.

    Attributes
    ----------
    k : int
    n_labelled, rows : int
        Labelled molecules, and molecules of the library.
    share : float
        Of the k best, the share that has labels: the mean over the draws.
    low, high : float
        95 % interval of the share.
    draws : tuple of float
        The share by each draw.
    target : str
    direction : {"maximize", "minimize"}
    seconds : float
    notes, inputs : tuple of str
        As of `SuggestReport`.
    """

    k: int
    n_labelled: int
    rows: int
    share: float
    low: float
    high: float
    draws: tuple[float, ...]
    target: str
    direction: str
    seconds: float
    notes: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        how = f"{words(self.direction == 'maximize')} '{printable(self.target, 60)}'"
        lines = [
            f"of the best {self.k:,} of {amount(self.rows, 'molecules')}, {how}, an estimated "
            f"{self.share:.0%} have labels (95 % interval {self.low:.0%} - {self.high:.0%}, from "
            f"{len(self.draws)} draws from the posterior; {self.seconds:.1f} s)",
            f"  {amount(self.n_labelled, 'molecules')} have labels",
        ]
        return "\n".join([*lines, *(f"  {line}" for line in (*self.inputs, *self.notes))])


def found(
    model: Paths,
    source: Paths | Sequence[Paths],
    *,
    k: int = 500,
    n_draws: int = 32,
    maximize: bool | None = None,
    target: str | int | Mapping[str, float] | None = None,
    within: Mapping[str, Sequence[float | None]] | None = None,
    exclude_by: Level = "tautomer",
    format: TableFormat | None = None,
    fragments: Fragments | None = None,
    accept_rejects: bool = False,
    client: Client | None = None,
    progress: Progress | None = None,
) -> FoundReport:
    """Estimate how much of the best of a library has been measured.

    Draws the values of all molecules without labels from the posterior, noise included, and counts how many
    of the k best have labels, those drawn and those measured taken together. So it says when a campaign may
    stop. It takes as long as a screen by thompson. Of a make-on-demand space, the most promising products are
    drawn, and of the others it is estimated how many are better.

    Parameters
    ----------
    model : path
        Directory of the model, as written by fit or add.
    source : path, or sequence of paths
        As in `suggest`.
    k : int
        How many molecules count as the best.
    n_draws : int
        Draws from the posterior. A model fitted by conjugate gradients has draws of its own, of which at most
        so many are taken.
    maximize : bool, optional
        As in `screen`.
    target : str, int, or dict of str to float, optional
        As in `screen`.
    within : dict of str to (float or None, float or None), optional
        As in `screen`: of a space, only products within these limits count.
    exclude_by : {"structure", "parent", "tautomer", "skeleton"}
        As in `suggest`: what counts as a molecule with labels, which is not drawn again.
    format, fragments
        As in `predict`.
    accept_rejects, client, progress
        As in `fingerprint`.

    Returns
    -------
    FoundReport

    Raises
    ------
    InputError
        If the labelled molecules are not known, it is not known whether large or small values are good, or
        the library's fingerprints or features are not those of the model.

    Notes
    -----
    Of a space, the products are ranked as in `screen`, by ucb with a kappa of 2, or by the mean if the model
    ranks all itself. The best of them, 20 times k and at least 20,000, are drawn. Random ones stand for the
    others: 1,000 of each range of places below, and 20,000 of all products for those that were not kept. Each
    is better than a value with the probability that a normal distribution with its mean and deviation gives,
    so that what they add to a draw is an expectation. As many of them as of the best are taken to be the same
    molecule as another. The report says which share of the best k they are.

    The molecules that count are the outer tail of what is drawn, where a model may be wrong whose deviations
    are right on the whole. So each drawn molecule counts as another number of molecules, which depends on the
    draw: that of labels that are as good, to the number that was expected of them without these labels
    (`daskrf.gp.validation.tailcounts`), and the less certain, the fewer there are. A batch may be chosen in
    any way, as long as its labels were not known: the mean size of its errors does not count, which is small
    where a batch was chosen among good means. `benchmarks/found.py` compares the intervals with the truth.
    """
    if n_draws < 2 or k < 1:
        raise OptionError("found needs at least two draws, and one molecule that counts as the best.")
    request = ScreenRequest(
        model=as_path(model),
        input=Input(source, format, fragments, accept_rejects),
        output=as_path(model),  # which is locked, so that nobody adds labels meanwhile
        k=k,
        rule=acquisition_for("thompson"),
        maximize=maximize,
        target=target,
        std="none",
        products=SpaceOptions(within),
    )
    demands, space = Demands(exclude_by=exclude_by), space_among(request.input.paths)
    if space is None:
        check_library_options(request)
        job = _Found.of(request, FoundReport, n=n_draws, demands=demands)
    else:
        screen = space_screen(screen_below(request), space)
        job = _SpaceFound.of(request, FoundReport, n=n_draws, demands=demands, screen=screen)
    report = run(job, client, progress)
    assert isinstance(report, FoundReport)
    return report


@dataclass
class _Found(SuggestJob):
    """The job of `found`: a screen by draws; `n` is their number."""

    name = "found"

    @property
    def locked(self) -> PurePath:
        """The model: nobody may add labels meanwhile."""
        return self.output

    def plan(self, run: Run) -> None:
        """Read the model, and leave out what has labels."""
        self.shortlist = None  # that of the rough ranking, which does not know the draws
        self.read()
        self.shortlist = 1.0
        self.open(run)
        most = process_of(self.model.gp, self.target)[0].most_draws()
        self.n_draws = min(self.n, most or self.n)

    def open(self, run: Run) -> None:
        self.features = source_for(run, self.model, self.input)
        self._check_k(sum(self.features.partition_rows))
        self.exclude_labelled = self.features.library_hash == self.model.metadata["library"]
        self.passing = Passing(self.features, excluded=self._labelled(run, self.features))

    def _check_k(self, n: int) -> None:
        """Refuse to count the best of a library that are all of it."""
        if self.k >= n:
            raise InputError(
                f"The library has {amount(n, 'molecules')}, so that the best {self.k:,} are all of them; "
                "give a smaller -k (k)."
            )

    def _labelled(self, run: Run, source: Source | None) -> tuple[Excluded, ...]:
        """Return the labelled molecules, by structure."""
        excluded = tuple(self._excluded(run, source))
        if not excluded:
            raise InputError("The labelled molecules of this model are not known, so they cannot be counted.")
        return excluded

    def need(self) -> Need:
        return ScreenJob.need(self)

    def search(self, run: Run) -> Search:
        """Return what draws the values of the library."""
        plain = ScreenJob.search(self, run)
        process, own = process_of(self.model.gp, self.target)
        noise = math.sqrt(float(process.noise_variance_[own]))
        given = {**vars(plain), "k": self.n_kept_of_each, "name": self.name, "keep_features": False}
        given |= {"passing": self.passing, "n_draws": self.n_draws}
        return DrawnValues(**given, noise=noise)

    @property
    def n_kept_of_each(self) -> int:
        """How many values of each draw are kept."""
        return _KEPT * self.k

    @property
    def n_kept(self) -> int:
        return self.n_kept_of_each * self.n_draws

    def _tails(self) -> TailCounts:
        """Return labels that were predicted without being known; none if the process cannot tell."""
        process, _ = process_of(self.model.gp, self.target)
        nothing = np.empty(0)
        if not isinstance(process, ExactGP) or process.solver_ != "cholesky":
            return TailCounts(nothing, nothing, nothing, nothing, 0)
        ends = np.cumsum([0, *(int(each["labels"]) for each in rounds_of(self.model))])
        (y,) = self.model.arrays("labels")
        assert not isinstance(self.target, WeightedSum)
        there = np.isfinite(y[:, self.target])
        first, *batches = [int(there[a:b].sum()) for a, b in itertools.pairwise(ends.tolist())]
        if first + sum(batches) != process.n_rows_:
            return TailCounts(nothing, nothing, nothing, nothing, 0)
        return tail_counts(process, first, [n for n in batches if n], self.rule.sign)

    def _ratios(self, tails: TailCounts, values: npt.NDArray[np.float64]) -> list[Ratio]:
        """Return what each molecule of each draw counts for, as functions of its value."""
        grid = np.linspace(values.min(), values.max(), _GRID)
        spread = _spread(self.n_draws, "found/discrepancy")
        parts = ndtr(_spread(self.n_draws, "found/ratio"))
        found = (tails.ratio(grid, part, each) for part, each in zip(parts, spread, strict=True))
        return [_interpolated(grid, ratio) for ratio in found]

    def finish(self, run: Run, made: int) -> Any:
        """Count."""
        values: Found = self.tree.result()
        self._check_k(self.n_ranked(values))
        assert self.measured is not None
        labels = self.rule.sign * _values(self.measured)
        tails = self._tails()
        ratios = self._ratios(tails, np.concatenate([labels, *(top.score for top in values.tops)]))
        counted = [
            _counted(labels, top.score, self.k, self.beyond(d), ratios[d])
            for d, top in enumerate(values.tops)
        ]
        shares, below, at = zip(*counted, strict=True)
        low, high = np.quantile(shares, _INTERVAL)
        best = float(labels.max())
        better = [int((top.score > best).sum()) + self.beyond(d)(best) for d, top in enumerate(values.tops)]
        self.notes = (
            *self.notes,
            *self._note_on_rejects(),
            *self.features.note_on_groups(),
            *self.said(float(np.mean(below))),
            _words_of_tails(tails, float(np.median(at)), high - low, self.rule.sign),
            *_doubts(float(np.mean(better)), self.k),
        )
        return self.made(
            k=self.k,
            n_labelled=len(labels),
            rows=self.n_ranked(values),
            share=float(np.mean(shares)),
            low=float(low),
            high=float(high),
            draws=tuple(shares),
            target=self.model.name_of(self.target),
            direction="maximize" if self.rule.maximize else "minimize",
            seconds=run.seconds,
            notes=self.notes,
            inputs=self.inputs,
        )

    def _note_on_rejects(self) -> tuple[str, ...]:
        """Count the rows of files that are no molecules, with an example; a store has counted its own."""
        n, first = 0, None
        for rejects in map(self.features.rejects, range(len(self.features.partition_rows))):
            n += rejects.num_rows
            first = rejects.slice(0, 1).to_pylist()[0] if first is None and rejects.num_rows else first
        if first is None:
            return ()
        where = f"line {first['line']} of {file_words(first['source'])}: {printable(first['reason'], 80)}"
        return (f"rejected: {amount(n, 'rows')}, which cannot be among the best ({where})",)

    def beyond(self, draw: int) -> Callable[[float], float]:
        """Return a function that says how many molecules that were not drawn are better than a value."""
        return lambda value: 0.0

    def said(self, below: float) -> list[str]:
        """Return notes on what was not drawn, an expected share of the best k."""
        return []


@dataclass
class _SpaceFound(_Found):
    """The job of `found` for a space.

    The best products by the rough ranking, or by the mean, are drawn as those of a library. Of what is below
    them, random products tell how many are better than a value: each by its own mean and deviation, for as
    many products as it stands for.

    Attributes
    ----------
    screen : SpaceScreen
        Its rule is ucb, so that products with large deviations are drawn, too.
    below : _Below
    """

    screen: SpaceScreen = field(kw_only=True)
    below: _Below = field(init=False)
    n_drawn: int = 0

    def open(self, run: Run) -> None:
        """Cut the space."""
        screen = self.screen
        if ranks_itself(self.model, self.target):
            screen.rule = acquisition_for("greedy")
            screen.k = DEEPEST * screen.first // MORE
        screen.read(self.model)
        structures = (each.structures for each in self._labelled(run, None))
        screen.excluded = KnownStructures.union(structures, self.demands.exclude_by)
        self._limit_labels()
        screen.prepare(run)
        self.notes, screen.notes = tuple(dict.fromkeys((*self.notes, *screen.notes))), ()

    def _limit_labels(self) -> None:
        """Leave out labels of molecules that lie outside of the limits."""
        limits, measured = self.screen.limits, self.measured
        assert measured is not None
        if not limits:
            return
        outside = [not lies_within(text, limits) for text in measured.smiles]
        values = measured.values.copy()
        values[: len(outside)][np.array(outside, bool)] = math.nan
        self.measured = replace(measured, values=values)
        n = int(np.isfinite(values).sum())
        if not n:
            raise InputError("No labelled molecule lies within the limits, so that nothing has been found.")
        there = int(np.isfinite(measured.values).sum())
        self.notes = (*self.notes, f"{n:,} of {amount(there, 'labels')} lie within the limits, and count")

    def need(self) -> Need:
        """What the screen needs; `finish` checks what the draws do."""
        return self.screen.need()

    def pieces(self, run: Run) -> list[Pieces]:
        """Those of the screen."""
        return self.screen.pieces(run)

    @property
    def n_kept_of_each(self) -> int:
        """All drawn values."""
        return max(1, self.n_drawn)

    def n_ranked(self, found: Found) -> int:
        """All products."""
        return self.screen.n_distinct

    @property
    def inputs(self) -> tuple[str, ...]:
        """A space is not a file of molecules."""
        return ()

    def finish(self, run: Run, made: int) -> Any:
        """Draw, look below, and count."""
        screen = self.screen
        row, whole = screen.ranked(run)
        first = row[: screen.first]
        scores = screen.predicted(run, decoded(screen.cut, first.tolist()), std=True)
        drawn = ProductTable.of(screen.cut, first, scores.alike(), None, screen.excluded)
        self.n_drawn = len(drawn)
        self.below = self._look_below(run, row, 1 - drawn.repeats / max(1, len(first)), whole=whole)
        self.notes = tuple(dict.fromkeys((*self.notes, *screen.notes)))
        table = drawn.table(None).select(["id", "smiles"])
        self.features = listed_products(run, self.model, table, "found")
        self.passing = Passing(self.features)
        run.check(super().need())
        self.look(run)
        return super().finish(run, made)

    def _look_below(self, run: Run, row: npt.NDArray[np.int64], distinct: float, *, whole: bool) -> _Below:
        """Return random products of each range of places below those drawn, and of those not kept."""
        screen, start = self.screen, self.screen.first
        numbers, weights = [np.empty(0, np.int64)], [np.empty(0)]
        while start < len(row):
            stop = min(len(row), 2 * start)
            chosen = start + random_numbers(stop - start, BELOW, 0, "space/below")
            numbers.append(row[chosen])
            weights.append(np.full(len(chosen), (stop - start) / len(chosen)))
            start = stop
        if not whole:
            some = random_numbers(screen.n_products, _ANYWHERE, 0, "found/anywhere")
            numbers.append(some[~np.isin(some, row) & inside(screen.cut, some, screen.limits)])
            weights.append(np.full(len(numbers[-1]), screen.n_products / len(some)))
        number, weight = np.concatenate(numbers), np.concatenate(weights)
        found = screen.predicted(run, decoded(screen.cut, number.tolist()), std=True)
        free = screen.excluded.free(found.smiles)
        if not free.any():
            return _Below()
        sign, columns = self.rule.sign, found.columns
        return _Below(sign * columns["mean"][free], columns["std_y"][free], distinct * weight[free])

    def beyond(self, draw: int) -> Callable[[float], float]:
        return self.below.better(draw)

    def said(self, below: float) -> list[str]:
        by = "means" if self.screen.ranks_itself else f"{self.screen.rule.name} in a rough ranking"
        drawn = f"drawn were the best {amount(self.n_drawn, 'molecules')} without labels by {by}"
        if not len(self.below.mean):
            return [f"{drawn}, which are all"]
        rough = "; that is much, so that the estimate is a rough one" if below > _BY_TAILS else ""
        return [
            f"{drawn}; {len(self.below.mean):,} random ones stand for all others, and count by their own "
            f"means and deviations, as normally distributed: an expected {below:.0%} of the best {self.k:,}"
            f"{rough}"
        ]


@dataclass(frozen=True)
class _Below:
    """Random products, and for how many each stands; larger is better."""

    mean: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    std: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    weight: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def better(self, draw: int) -> Callable[[float], float]:
        """Return a function that says how many products are better than a value.

        Weights are multiplied by exponential random numbers, as those of a Bayesian bootstrap (Rubin 1981),
        for what others would have been drawn.
        """
        words = seeds.words(0, f"found/below/{draw}", len(self.mean))
        uniform = (words >> np.uint64(11)) * 2.0**-53
        weight = -self.weight * np.log1p(-uniform)
        return lambda value: float(weight @ ndtr((self.mean - value) / self.std))


def _values(measured: Measured) -> npt.NDArray[np.float64]:
    """Return the label of each molecule; the mean where one has several."""
    y = measured.values[np.isfinite(measured.values)]
    if len(y) != len(measured.known):
        return y
    _, index = np.unique(canonical_smiles(measured.known), return_inverse=True)
    return np.bincount(index, y) / np.bincount(index)


def _doubts(better: float, k: int) -> list[str]:
    """Return what speaks against the draws, if they have so many molecules better than the best label."""
    if better <= _MANY_BETTER * k:
        return []
    return [
        f"in a draw, {better:,.0f} molecules without labels are better than the best label; if batches find "
        "hardly any, the target has an end that the model does not know, and the estimate is too low"
    ]


def _words_of_tails(tails: TailCounts, at: float, width: float, sign: float) -> str:
    """Return what is known of how many molecules are better than the last of the best k."""
    wide = "; the interval is wide for that reason" if width > _WIDE else ""
    if not len(tails.y):
        return (
            "nothing shows how right the model is about its best molecules, as it cannot leave out its "
            f"labels: their number is taken to be uncertain{wide}"
        )
    seen, expected = int((tails.y >= at).sum()), float(ndtr((tails.mean - at) / tails.std).sum())
    low, high = (float(tails.ratio([at], part, 0.0)[0]) for part in _INTERVAL)
    which = "the first labels, left out one by one"
    if tails.n_batches:
        many = f"each of {tails.n_batches:,} batches" if tails.n_batches > 1 else "the batch"
        which += f", and {many}, predicted from what was before it"
    return (
        f"{amount(seen, 'labels')} are as good as the last of the best ({sign * at:.4g}), where "
        f"{expected:.1f} were expected ({which}): so other molecules are taken to be {low:.1f} to {high:.1f} "
        f"times as many as the model says, and more doubtful where they are unlike these{wide}"
    )


def _interpolated(grid: npt.NDArray[np.float64], values: npt.NDArray[np.float64]) -> Ratio:
    """Return a function that is known on a grid."""
    return lambda at: np.interp(at, grid, values)


def _spread(n: int, name: str) -> npt.NDArray[np.float64]:
    """Return the quantiles of a standard normal distribution for n draws, in an order without meaning."""
    order = np.argsort(seeds.words(0, name, n), kind="stable")
    return np.asarray(ndtri((order + 0.5) / n))


def _counted(
    measured: npt.NDArray[np.float64],
    others: npt.NDArray[np.float64],
    k: int,
    beyond: Callable[[float], float] = lambda value: 0.0,
    ratio: Ratio = np.ones_like,
) -> tuple[float, float, float]:
    """Return the share of the k largest that was measured, that of which only the number is known, the last.

    `beyond` says how many of the latter are larger than a value, and `ratio` for how many molecules each of
    those that were not measured counts, if it has that value.

    Examples
    --------
    >>> _counted(np.array([5.0, 1.0, 3.0]), np.array([4.0, 2.0]), 3)
    (0.6666666666666666, 0.0, 3.0)
    >>> _counted(np.array([5.0, 1.0, 3.0]), np.array([4.0, 2.0]), 3, ratio=lambda values: 0 * values + 2)
    (0.3333333333333333, 0.0, 4.0)
    """
    values = np.concatenate([measured, others])
    order = np.argsort(-values, kind="stable")
    ranked = values[order]
    is_label = order < len(measured)
    n_labels, weights = np.cumsum(is_label), ratio(ranked)
    n_others = np.cumsum(~is_label)

    def total(i: int) -> float:
        return float(n_labels[i] + weights[i] * (n_others[i] + beyond(float(ranked[i]))))

    last = next((i for i in range(len(order)) if total(i) >= k), len(order) - 1)
    n, of_all = int(n_labels[last]), total(last) if total(last) < k else float(k)
    more = float(weights[last]) * beyond(float(ranked[last]))
    return min(1.0, n / of_all), min(more, max(0.0, of_all - n)) / of_all, float(ranked[last])


@dataclass(frozen=True)
class DrawnValues(Candidates):
    """Draws new measurements of all rows: draws of the function, and noise that depends on row and draw."""

    noise: float = 0.0

    def scores(self, model: Model, block: Block) -> tuple[npt.NDArray[np.float64], dict[str, Any]]:
        process, own = process_of(model.gp, self.target)
        normal = np.empty((len(block.rows), self.n_draws))
        for draw in range(self.n_draws):
            normal[:, draw] = normal_of(seeds.words_at(self.seed, f"found/noise/{draw}", block.rows))
        if not (isinstance(process, FeatureSpaceGP) and process.draws_take_rows):
            return super().scores(model, block)[0].reshape(normal.shape) + self.noise * normal, {}
        drawn = drawn_function(self.draw or "", self.model, self.model_hash, self.target, self.seed)
        options = {"diagonal": block.diagonal, "rows": block.fingerprints}
        return self.rule(process.values_of_draws(drawn, block.phi, normal, own, **options), None), {}
