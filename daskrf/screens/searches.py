"""What the tasks of a screen do with a block of features: score its rows, test the best, and keep k."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.acquisition import Acquisition
from daskrf.acquisition.hypervolume import directions, scalarized
from daskrf.acquisition.requirement import Requirement, weighed
from daskrf.arrays import NamedArrays
from daskrf.errors import InputError
from daskrf.gp.processes.process import FeatureSpaceGP
from daskrf.gp.processes.sampledvariances import SampledVariances
from daskrf.gp.processes.separate import process_of
from daskrf.gp.processes.weightedsum import Target, targets_in
from daskrf.jobs.held import held
from daskrf.jobs.tree import Reduction
from daskrf.models.models import Model, open_model, predictions_of
from daskrf.screening import TopK
from daskrf.screens.draws import drawn_function, drawn_values
from daskrf.screens.passing import PASSED, UNTESTED, Passing
from daskrf.sources.sources import Block, Source
from daskrf.storage.tablefiles import beside

_CHUNK = 1024  # molecules tested at a time
_LEAST_LOG = -700.0  # logarithm of a probability that is not 0 in double precision

BOUNDING = (32, 64, 128, 256, 512)
"""Posterior samples of successive bounds: upper ones are 2.3 to 1.2 times a standard deviation."""

WAYS = 16
"""Number of directions, besides the targets themselves, in which candidates are searched."""


ScoresAndColumns: TypeAlias = tuple[npt.NDArray[np.float64], dict[str, npt.NDArray[np.generic]]]
"""The score of each row, or several scores, and the columns to keep."""


@dataclass
class Hits:
    """The best rows so far, and how many rows were scored: a commutative monoid."""

    top: TopK
    n_scored: int = 0

    def __iadd__(self, other: Hits) -> Hits:
        self.top = self.top.combine(other.top)
        self.n_scored += other.n_scored
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        return {**self.top.arrays(), "n_scored": np.array(self.n_scored)}


@dataclass(frozen=True)
class Blocks:
    """The features of some partitions: a chunk for `Search`."""

    source: Source
    partitions: tuple[int, ...] = ()

    def of(self, partitions: tuple[int, ...]) -> Blocks:
        """Return the chunk of some partitions."""
        return replace(self, partitions=partitions)

    def __iter__(self) -> Iterator[Block]:
        for partition in self.partitions:
            yield from self.source.blocks(partition)


@dataclass(frozen=True)
class Search(Reduction[Block, Hits, Hits]):
    """Scores blocks and keeps the best k rows."""

    model: str
    model_hash: str
    rule: Acquisition
    k: int
    target: Target
    draw: str | None
    exclude_labelled: bool
    keep_features: bool
    std: bool
    seed: int = 0
    least: float = -math.inf
    bounds: bool = False  # whether `least` is a score, and rows are ruled out by bounds of theirs
    name: str = "screen"

    def zero(self) -> Hits:
        return Hits(TopK(self.k))

    def add(self, total: Hits, block: Block) -> None:
        model = open_model(self.model, self.model_hash, statistics=self.std)
        total.n_scored += len(block.rows)
        block = self.wanted(block)
        block = self.shortlisted(model, block)
        total.top = total.top.combine(self._score(model, block))

    @property
    def ranks_by_draws(self) -> bool:
        """Whether scores are values of posterior samples."""
        return self.draw is not None

    def shortlisted(self, model: Model, block: Block) -> Block:
        """Return the rows of a block that can be hits."""
        if self.least == -math.inf or not len(block.rows):
            return block
        if not self.bounds:
            return block.where(self.rough(model, block) >= self.least)
        mean = predictions_of(model, self.target, block.phi, block.diagonal, std=False)["mean"]
        for sampled in (None, *self._sampled(model)):  # the closer the bounds, the more they cost
            reach = self._upper(model, block, mean, sampled) >= self.least
            block, mean = block.where(reach), mean[reach]
            if not len(mean):
                break
        return block

    def _sampled(self, model: Model) -> list[SampledVariances]:
        """Return what bounds standard deviations, from few samples and more; together they miss no more."""
        process, place = process_of(model.gp, self.target)
        assert isinstance(process, FeatureSpaceGP)

        def make() -> list[SampledVariances]:
            most = process.sampled_variances(BOUNDING[-1], target=place)
            each = replace(most, missed=most.missed / len(BOUNDING))
            return [each.first(n) for n in BOUNDING]

        return held("variances", (self.model, self.model_hash, place), make)

    def _upper(
        self, model: Model, block: Block, mean: npt.NDArray[np.float64], sampled: SampledVariances | None
    ) -> npt.NDArray[np.float64]:
        """Return upper bounds of the scores, by posterior samples or by the prior alone."""
        process, place = process_of(model.gp, self.target)
        assert isinstance(process, FeatureSpaceGP)
        low, high = process.std_bounds(block.phi, sampled, place, diagonal=block.diagonal)
        return self.rule.bound(mean, low, high)

    def rough(self, model: Model, block: Block) -> npt.NDArray[np.float64]:
        """Return the mean of each row by the surrogate, negated if small values are good, or its bound."""
        if self.bounds:
            mean = predictions_of(model, self.target, block.phi, block.diagonal, std=False)["mean"]
            return self._upper(model, block, mean, self._sampled(model)[-1])
        function = process_of(model.gp, self.target)[0].rough()
        assert function is not None
        return self.rule.sign * function.predict(block.phi)

    def finalize(self, total: Hits, rest: Iterator[Hits]) -> Hits:
        """Refuse a library without molecules."""
        if not total.n_scored:
            raise InputError("There is nothing to screen: no row of the library could be used.")
        return total

    def wanted(self, block: Block) -> Block:
        """Return the block without the labelled rows, if they are to be left out."""
        if not self.exclude_labelled or not len(block.rows):
            return block
        labelled = _labelled_rows(self.model, self.model_hash, self.target)
        low, high = np.searchsorted(labelled, [block.rows[0], block.rows[-1] + 1])
        return block.where(~np.isin(block.rows, labelled[low:high], assume_unique=True))

    def _score(self, model: Model, block: Block) -> TopK:
        score, columns = self.scores(model, block)
        return TopK(self.k).from_chunk(score, block.rows, **columns)

    def scores(self, model: Model, block: Block) -> ScoresAndColumns:
        """Return the score of each row, and the columns to keep."""
        predicted = predictions_of(model, self.target, block.phi, block.diagonal, std=self.std)
        columns: dict[str, npt.NDArray[np.generic]] = {**predicted, **self.features_of(block)}
        values = predicted["mean"]
        if self.draw is not None:
            drawn = drawn_function(self.draw, self.model, self.model_hash, self.target, self.seed)
            values = drawn_values(drawn, block)
        return self.rule(values, predicted.get("std")), columns

    def features_of(self, block: Block) -> dict[str, npt.NDArray[np.generic]]:
        """Return the columns that the standard deviations of hits will need."""
        if not self.keep_features:
            return {}
        return {"phi": block.phi} | ({} if block.diagonal is None else {"diagonal": block.diagonal})

    def sampled(self, model: Model, block: Block) -> npt.NDArray[np.float64]:
        """Return the score of each row of the sample for a shortlist; -inf for rows that cannot be hits."""
        return self.scores(model, block)[0]

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Hits:
        columns = dict(arrays)
        n_scored = int(columns.pop("n_scored"))
        return Hits(TopK(self.k, columns.pop("score"), columns.pop("row"), columns), n_scored)


@dataclass
class PassingHits(Hits):
    """The best rows of each posterior sample that pass, and the number left out: a commutative monoid."""

    tops: list[TopK] = field(default_factory=list)
    left_out: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    n_tested: int = 0
    n_labelled: int = 0

    def __iadd__(self, other: Hits) -> PassingHits:
        assert isinstance(other, PassingHits)
        self.tops = [top.combine(more) for top, more in zip(self.tops, other.tops, strict=True)]
        self.left_out = self.left_out + other.left_out
        self.n_tested += other.n_tested
        self.n_labelled += other.n_labelled
        self.n_scored += other.n_scored
        return self

    def arrays(self) -> dict[str, np.ndarray]:
        tops = {f"{i}/{name}": a for i, top in enumerate(self.tops) for name, a in top.arrays().items()}
        return {**tops, "counts": np.array([self.n_scored, self.n_tested, self.n_labelled, *self.left_out])}


@dataclass(frozen=True)
class PassingSearch(Search):
    """Scores blocks and keeps the best k rows of each posterior sample that pass.

    Only rows that score well enough to be among the best k are tested, best first, until k of a block pass.
    The result is the same as if every row had been tested.
    """

    passing: Passing = field(kw_only=True)
    n_draws: int = 1

    def zero(self) -> PassingHits:
        tops = [TopK(self.k) for _ in range(self.n_draws)]
        return PassingHits(TopK(self.k), 0, tops, np.zeros(len(self.passing.words), np.int64))

    def add(self, total: Hits, block: Block) -> None:
        assert isinstance(total, PassingHits)
        model = open_model(self.model, self.model_hash, statistics=self.std)
        total.n_scored += len(block.rows)
        total.n_labelled += len(block.rows)
        block = self.wanted(block)
        total.n_labelled -= len(block.rows)
        block = self.shortlisted(model, block)
        if not len(block.rows):
            return
        scores, columns = self.scores(model, block)
        codes = np.full(len(block.rows), UNTESTED, np.int16)
        for i, score in enumerate(scores.reshape(len(block.rows), -1).T):
            some = self._passing_best(score, block.rows, total.tops[i], codes)
            passing = {name: values[some] for name, values in columns.items()}
            total.tops[i] = total.tops[i].combine(
                TopK(self.k).from_chunk(score[some], block.rows[some], **passing)
            )
        tested = codes[codes != UNTESTED]
        total.n_tested += len(tested)
        total.left_out = total.left_out + np.bincount(
            tested[tested != PASSED], minlength=len(total.left_out)
        ).astype(np.int64)

    def _passing_best(
        self,
        score: npt.NDArray[np.float64],
        rows: npt.NDArray[np.int64],
        top: TopK,
        codes: npt.NDArray[np.int16],
    ) -> npt.NDArray[np.int64]:
        """Return the places of rows that pass and may be among the best k; results are kept in `codes`."""
        order = np.lexsort((rows, -score))
        if len(top) == self.k:
            order = order[score[order] >= top.score[-1]]
        passed: list[npt.NDArray[np.int64]] = []
        for start in range(0, len(order), _CHUNK):
            chunk = order[start : start + _CHUNK]
            new = np.sort(chunk[codes[chunk] == UNTESTED])
            codes[new] = self.passing.codes(rows[new])
            passed.append(chunk[codes[chunk] == PASSED])
            if sum(map(len, passed)) >= self.k:
                break
        return np.concatenate(passed) if passed else np.zeros(0, np.int64)

    def sampled(self, model: Model, block: Block) -> npt.NDArray[np.float64]:
        if not len(block.rows):
            return np.empty(0)
        scores = self.scores(model, block)[0].reshape(len(block.rows), -1).max(axis=1)
        return np.where(self.passing.codes(block.rows) == PASSED, scores, -np.inf)

    def restore(self, arrays: Mapping[str, np.ndarray]) -> PassingHits:
        tops = []
        for i in range(self.n_draws):
            prefix = f"{i}/"
            top = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
            tops.append(TopK(self.k, top.pop("score"), top.pop("row"), top))
        n_scored, n_tested, n_labelled, *left_out = arrays["counts"].tolist()
        return PassingHits(TopK(self.k), n_scored, tops, np.array(left_out, np.int64), n_tested, n_labelled)


@dataclass(frozen=True)
class Candidates(PassingSearch):
    """Keeps the best k rows of each sample that pass, by scores weighted by the requirements."""

    requirements: tuple[Requirement, ...] = ()
    usual: float = 0.0

    def scores(self, model: Model, block: Block) -> ScoresAndColumns:
        """Return scores weighted by the probability of meeting the requirements, which becomes a column."""
        scores, columns = self.unweighed(model, block)
        if not self.requirements:
            return scores, columns
        log_probability = np.zeros(len(block.rows))
        for each in self.requirements:
            other = predictions_of(model, each.target, block.phi, block.diagonal, std=True)
            log_probability += each.log_probability(other["mean"], other["std"])
        log_probability = np.maximum(log_probability, _LEAST_LOG)
        columns["meets"] = np.exp(log_probability)
        return weighed(self.rule, scores, log_probability, self.usual), columns

    def unweighed(self, model: Model, block: Block) -> ScoresAndColumns:
        """Return the score of each row, or several, and the columns to keep."""
        return super().scores(model, block)


@dataclass(frozen=True)
class FrontCandidates(Candidates):
    """Keeps the rows whose means reach farthest above a reference point, in each of many directions.

    The last directions are the single targets. Values are multiplied by `signs`, so that larger is better.
    """

    signs: tuple[float, ...] = ()
    floor: tuple[float, ...] = ()
    extent: tuple[float, ...] = ()

    @property
    def ranks_by_draws(self) -> bool:
        """False: posterior samples are used only later, to choose the batch."""
        return False

    def unweighed(self, model: Model, block: Block) -> ScoresAndColumns:
        """Return one score for each direction, and the columns to keep."""
        means = [
            predictions_of(model, target, block.phi, block.diagonal, std=False)["mean"]
            for target in targets_in(self.target)
        ]
        values = (np.column_stack(means) * self.signs - self.floor) / self.extent
        ways = directions(WAYS, len(self.signs))
        return np.column_stack([scalarized(values, ways), values]), self.features_of(block)


def tested_words(hits: PassingHits, passing: Passing) -> list[str]:
    """Return how many molecules were tested, if there are filters."""
    note = f"{hits.n_tested:,} of the best molecules were tested, until enough passed"
    return [note] if passing.filters.words else []


@functools.lru_cache(maxsize=1)
def _labelled_rows(path: str, model_hash: str, target: Target) -> npt.NDArray[np.int64]:
    """Return the rows that have labels for a target, or for all targets of a sum."""
    model = open_model(path, model_hash, statistics=False)  # refuses another model
    rows, labels = model.arrays("labelled_rows", "labels")
    there = np.isfinite(labels)
    for target_index in targets_in(target):
        if (limits := model.limits_of(target_index)) is not None:
            there[:, target_index] |= limits[1] != 0
    return functools.reduce(np.intersect1d, [np.unique(rows[there[:, t]]) for t in targets_in(target)])


def table_of_rows(features: Source, columns: NamedArrays) -> pa.Table:
    """Add rank, id, smiles, source file and line to the hits, and the further columns of the library."""
    rows = columns["row"]
    partition = np.searchsorted(features.row_bounds, rows, side="right") - 1
    tables = [features.describe(int(p), np.sort(rows[partition == p])) for p in np.unique(partition)]
    tables = tables or [features.describe(0, rows)]  # without hits, an empty table with the columns
    table = pa.table({"rank": np.arange(1, len(rows) + 1), "row": rows})
    described = pa.concat_tables(tables).unify_dictionaries()
    order = np.searchsorted(described["row"].to_numpy(), rows)  # tables come by partition, rows within ascend
    for name in ("id", "smiles", "source", "line"):
        table = table.append_column(name, described[name].take(pa.array(order)))
    for name in ("mean", "std", "std_y", "probability", "acquisition"):
        if name in columns:
            table = table.append_column(name, pa.array(columns[name]))
    return beside(table, described.take(pa.array(order)))
