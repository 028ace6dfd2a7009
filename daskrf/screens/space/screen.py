"""The job of screening a space: the best k of all products, which are never listed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.acquisition import Acquisition, acquisition_for
from daskrf.errors import InputError, OptionError
from daskrf.files.backend import absolute
from daskrf.files.disk import work_folder
from daskrf.gp.processes.weightedsum import Target, WeightedSum
from daskrf.gp.sums.shapes import SumsShape
from daskrf.jobs.job import Job, Need, Run
from daskrf.jobs.memory import Making, MemoryNeed, need_of_products
from daskrf.jobs.pieces import Done, Pieces, group_by_rows
from daskrf.jobs.tree import Root, Tree
from daskrf.models.directions import maximizes
from daskrf.models.duplicates import duplicates
from daskrf.models.labelled import labelled_structures
from daskrf.models.models import Model, feature_map_of, need_of_model, read_model
from daskrf.models.nearestlabelled import nearest_labelled
from daskrf.models.targets import best_of, measured_of, ranked_target, words_of_sum
from daskrf.models.toolkits import check_toolkit
from daskrf.molecules import FingerprintSpec
from daskrf.molecules.structures import LEVEL_WORDS, KnownStructures, Level
from daskrf.quantities import amount
from daskrf.screening import TopK
from daskrf.screens.draws import leave_draws
from daskrf.screens.shortlist import n_candidates
from daskrf.screens.space.cutspaces import cut_once, families_once, left_out, no_products, without_differing
from daskrf.screens.space.hits import Candidates
from daskrf.screens.space.productpool import Pool
from daskrf.screens.space.productscores import MOST_ROWS, ProductScores, Scored, product_texts, scored
from daskrf.screens.space.search import SpacePieces, SpaceSearch
from daskrf.screens.space.surrogate import (
    COMPONENTS,
    LINEAR_SPEC,
    ROUGH_SPEC,
    SAMPLE,
    Ranking,
    in_metric,
    learned,
    ranks_itself,
)
from daskrf.sources.mapreference import MapReference
from daskrf.spaces import CutSpace, Space, read_space
from daskrf.spaces.families import Family, Product, decoded
from daskrf.spaces.limits import SUMS, Range
from daskrf.spaces.ranking import pieces_of
from daskrf.spaces.sampling import counts_of, counts_of_numbers, inside, random_numbers
from daskrf.spaces.sumranking import Linear, pieces_of_sums
from daskrf.storage.hits import Earlier, write_hits
from daskrf.storage.model import made_once
from daskrf.storage.outputs import earlier_output
from daskrf.storage.stores.store import hash_of

_PIECES = "blocks of products"
MORE = 4  # times k products are kept, since some are the same molecule
_GROWTH = 4  # if too few, so many times as many
_TRIES = 4
_TIES = "very many are the same molecule, equally good, or of the same blocks: others may belong to the hits"
_CLOSE = 1e-3  # of the signal's deviation: means of the search, in single precision, agree better by far
_VERSION = 2  # of the tables of a space, and of the pieces that it is searched in
_ROUGHLY = 20  # times k products of the rough ranking are ranked by the model at first
LEAST_SHORTLIST = 20_000  # products that are ranked by a model which cannot rank all, if k is small
_MOST_FOURIER = 2e10  # products, above which a rough ranking is linear: it takes minutes, not hours
_RECALL = 0.95  # of the best k, up to which a shortlist grows
DEEPEST = 16  # times the shortlist are kept, to look below it
_MOST_KEPT = 640_000  # unless the shortlist is larger than half of that
SIEVED = 100  # times the shortlist are kept by a linear function, for a better ranking
_MOST_SIEVED = 2_000_000
_PART = 2**17  # of them are ranked at a time
BELOW = 1000  # random products of each range of places below the shortlist


@dataclass
class SpaceScreen(Job[Any]):
    """The job; see `daskrf.jobs.job.Job`. `plan` sets the fields from `model` on.

    Attributes
    ----------
    path, source, output : Path
        Of the model, the space and the hits.
    k, std, seed, rule, maximize, asked, overwrite
        As in `screen`.
    limits : tuple of Range
        What products must lie in.
    per_block : int or None
        At most so many hits have the same block.
    shortlist : int or None
        How many products a model ranks that cannot rank all.
    components : int or None
        Number of features of the process that ranks all in its place.
    exclude_labelled : bool
        Whether labelled molecules are no hits.
    rough : {"fourier", "linear"} or None
        What ranks all products if the model cannot.
    excluded : KnownStructures
        Molecules that are no hits.
    exclude_by : {"structure", "parent", "tautomer", "skeleton"}
        What counts as one of them.
    n_draws : int
        How many draws are maximized, if the rule takes draws and the model ranks all products itself.
    made : callable
        Makes the report.
    page : callable
        Returns what writes the hits, if they are to be a page.
    """

    path: PurePath
    source: PurePath
    output: PurePath
    k: int
    std: str
    seed: int
    rule: Acquisition
    maximize: bool | None
    asked: Any  # a target; see `daskrf.models.targets.ranked_target`
    overwrite: bool
    made: Callable[..., Any]
    page: Callable[..., Any]
    limits: tuple[Range, ...] = ()
    per_block: int | None = None
    shortlist: int | None = None
    components: int | None = None
    exclude_labelled: bool = False
    rough: str | None = None
    excluded: KnownStructures = field(default_factory=lambda: KnownStructures([]))
    exclude_by: Level = "tautomer"
    n_draws: int = 1
    model: Model = field(init=False)
    space: Space = field(init=False)
    cut: CutSpace = field(init=False)
    families: list[Family] = field(init=False)
    target: Target = 0
    notes: tuple[str, ...] = ()
    earlier: Earlier | None = None
    ranks_itself: bool = False
    ranking: Ranking | Linear = field(init=False)
    finer: Ranking = field(init=False)
    tree: Tree = field(init=False)

    name = "screen"

    @property
    def locked(self) -> PurePath:
        """The output is a file."""
        return work_folder(self.output)

    def plan(self, run: Run) -> None:
        """Cut the space, unless the output holds these hits already."""
        if self.std == "all":
            raise OptionError(
                "Standard deviations of all products of a space would take too long; leave out --std all: "
                "the products with the best means get them."
            )
        self.read(read_model(self.path, statistics=self.rule.needs_sample))  # tasks read it themselves
        earlier = earlier_output(self.output, overwrite=self.overwrite)
        if earlier is not None and not self.overwrite:
            earlier.refuse_other(self.spec, self.source.name)
        if earlier is not None and earlier.is_of(self.spec):
            self.earlier = earlier
        if self.earlier is None:
            if self.exclude_labelled:
                self.excluded = labelled_structures(self.model, self.exclude_by)
                self.notes += (f"labelled molecules are left out by {LEVEL_WORDS[self.exclude_by]}",)
            self.prepare(run)

    def read(self, model: Model) -> None:
        """Find out what to rank by, and read the space."""
        self.model = model
        check_toolkit(model)
        self.target = ranked_target(model, self.asked)
        self.ranks_itself = ranks_itself(model, self.target) is not None
        self._check_options()
        up, self.notes = maximizes(model, self.target, self.maximize)
        measured = None
        if isinstance(self.target, WeightedSum):
            measured = measured_of(model, self.target)
            self.notes = (*self.notes, *words_of_sum(model, self.target, measured))
        self.rule = best_of(model, self.target, measured, replace(self.rule, maximize=up))
        self.space = read_space(self.source)

    def _check_options(self) -> None:
        """Refuse options that a model which ranks all products has no use for, and a short shortlist."""
        given = {
            "--shortlist": self.shortlist,
            "--rough": self.rough,
            "--rough-components": self.components,
        }
        if self.rough == "linear" and self.components is not None:
            raise OptionError("A linear ranking has no Fourier features; leave out --rough-components.")
        for name, value in given.items():
            if self.ranks_itself and value is not None:
                raise OptionError(
                    f"This model ranks all products of a space itself, without a shortlist; leave out {name}."
                )
        if self.shortlist is not None and self.shortlist < self.k:
            raise OptionError(
                f"A shortlist of {self.shortlist:,} products cannot hold {self.k:,} hits; take a longer one, "
                "or leave out --shortlist."
            )

    def prepare(self, run: Run) -> None:
        """Cut the space, and leave out reactions whose products do not compose."""
        own = ranks_itself(self.model, self.target)
        spec = own or (LINEAR_SPEC if self.linear else ROUGH_SPEC)
        key, refused = self._key(spec), list[str]()
        found = cut_once(self.space, spec, run.work, key, run.progress)

        def check(found: CutSpace) -> CutSpace:
            kept, differing = without_differing(found, run.progress)
            refused.extend(differing)
            return kept

        self.cut, self.families = families_once(found, run.work, key, check)
        if not self.families:
            raise no_products(self.space, refused)
        self.notes = (*self.notes, *left_out(self.cut))

    def _key(self, spec: FingerprintSpec) -> str:
        """Return the hash of what the tables of the space depend on."""
        return hash_of({"space": self.space.digest, "fingerprint": spec.state(), "version": _VERSION})

    @property
    def spec(self) -> dict[str, Any]:
        """What the hits depend on, as shards must agree on it."""
        within = " ".join(f"{SUMS[i]}={_bound(low)}:{_bound(high)}" for i, low, high in self.limits)
        asked = {
            "shortlist": self.shortlist,
            "rough": self.rough,
            "rough_components": self.components,
        }
        return {
            "model": self.model.metadata["spec_hash"],
            "acquisition": self.rule.state(),
            "k": self.k,
            "std": self.std,
            **({"candidates": self.n_kept} if self.ranks_itself and self.rule.needs_std else {}),
            "target": self.model.name_of(self.target),
            "seed": self.seed if self.rule.needs_sample else None,
            "within": within or None,
            "per_block": self.per_block,
            "exclude_labelled": self.exclude_labelled,
            **({"exclude_by": self.exclude_by} if self.exclude_labelled else {}),
            **({"draws": self.n_draws} if self.n_draws > 1 else {}),
            **({} if self.ranks_itself else asked),
            "library": self.space.digest,
        }

    def need(self) -> Need:
        if self.earlier is not None:
            return Need()
        size = self.n_components * self.n_draws
        pieces = pieces_of_sums(self.families) if self.linear else pieces_of(self.families, size)
        rows = max(sum(stop - start for start, stop in piece.bounds) for piece in pieces)
        tables = self.cut.own.data.nbytes + self.cut.own.indices.nbytes
        tables += sum(s.counts.data.nbytes + s.counts.indices.nbytes for f in self.families for s in f.sides)
        search = need_of_products(
            rows, 0 if self.linear else self.n_components, tables, self.n_kept * self.n_draws
        )
        scoring = self._need_of_scores()
        return Need(search if search.total > scoring.total else scoring)

    def _need_of_scores(self) -> MemoryNeed:
        """Return the need of a task that scores products; see `daskrf.screens.space.productscores`."""
        feature_map = feature_map_of(self.model)
        spec = FingerprintSpec.from_state(self.model.metadata["fingerprint"])
        making = Making(1, MOST_ROWS, one_bit=True, usual=spec.nonzeros)
        if feature_map is not None:
            shape, tables = SumsShape.of(feature_map), feature_map.table_bytes(spec.n_columns)
            bits, own = self.model.gp.one_bit_, feature_map.n_components
            making = Making(own, MOST_ROWS, bits, shape, tables=tables, usual=spec.nonzeros)
        std = self.rule.needs_std or self.std != "none"
        return making.need(lambda making: need_of_model(self.model, making, 0, std=std))

    @property
    def linear(self) -> bool:
        """Whether a linear function of counts ranks all products, because there are so many."""
        if self.ranks_itself or self.rough is not None or self.components is not None:
            return not self.ranks_itself and self.rough == "linear"
        slots = (self.space.slots_of(r) for r in range(len(self.space.reactions)))
        return sum(math.prod(map(len, own)) for own in slots) > _MOST_FOURIER

    @property
    def n_components(self) -> int:
        """Number of features of the process that ranks all products."""
        if self.ranks_itself:
            return int(feature_map_of(self.model).n_components)
        return self.components or COMPONENTS

    @property
    def first(self) -> int:
        """How many products the model ranks at first, where it cannot rank all."""
        return self.shortlist or max(LEAST_SHORTLIST, _ROUGHLY * self.k)

    @property
    def n_kept(self) -> int:
        """How many products are kept until all have been ranked."""
        if self.ranks_itself:
            n = n_candidates(self.k)
            return (n if self.rule.needs_std else MORE * self.k) + min(len(self.excluded), n)
        if self.linear:
            return max(2 * self.first, min(SIEVED * self.first, _MOST_SIEVED))
        return self.n_ranked

    @property
    def n_ranked(self) -> int:
        """How many products below the shortlist are looked at, and the shortlist."""
        return max(2 * self.first, min(DEEPEST * self.first, _MOST_KEPT))

    @property
    def n_products(self) -> int:
        """Number of products, each way to make one."""
        return sum(self.cut.sizes)

    @property
    def n_distinct(self) -> int:
        """Number of products; those of equal synthons are one."""
        return sum(family.size for family in self.families)

    def pieces(self, run: Run) -> list[Pieces]:
        if self.earlier is not None:
            return [Done(1, _PIECES)]
        run.agree(self.spec)
        if self.ranks_itself:
            seed = self.seed if self.rule.needs_sample else None
            self.ranking = Ranking.of_model(self.model, self.target, self.rule.sign, seed, self.n_draws)
        elif self.n_products <= self.first:
            return [Done(1, _PIECES)]
        else:
            self._learn(run)
        self.tree = self._tree(run, self.n_kept)
        return [self.tree]

    def _learn(self, run: Run) -> None:
        """Have a Fourier process learn the model's scores of random products."""
        numbers = random_numbers(
            self.n_products, SAMPLE, 0, "space/learn", lambda n: inside(self.cut, n, self.limits)
        )
        if not len(numbers):
            raise InputError(f"None of {30 * SAMPLE:,} random products lies within the limits; widen them.")
        products = decoded(self.cut, numbers.tolist())
        found = self.predicted(run, products)
        counts = counts_of(self.cut, products)
        spec = {**self.spec, "k": None}  # more hits take no other ranking
        key = hash_of([spec, self.n_components, SAMPLE, self._key(self.cut.spec)])
        n_components = None if self.linear else self.n_components
        score = found.columns["score"]
        metric = in_metric(self.model, self.target)
        rough = learned(run, counts, score, n_components, key, metric=metric)
        self.ranking = rough.ranking
        self.notes = (*self.notes, rough.words)
        run.progress.note(rough.words)
        if self.linear:
            finer_key = hash_of([key, COMPONENTS])
            finer = learned(run, counts, score, COMPONENTS, finer_key, LINEAR_SPEC, metric=metric)
            assert isinstance(finer.ranking, Ranking)
            self.finer = finer.ranking
            self.notes = (*self.notes, finer.words)
            run.progress.note(finer.words)

    def predicted(self, run: Run, products: Sequence[Product], *, std: bool = False) -> Scored:
        """Return what the model says of products; with `std`, means and deviations whatever the rule."""
        rule: Acquisition = acquisition_for("greedy", maximize=self.rule.maximize) if std else self.rule
        draw = None
        if rule.needs_sample:
            draw = leave_draws(self.model, self.target, self.seed, run.work, 1)
        scores = ProductScores(
            model=absolute(self.path),
            model_hash=self.model.metadata["spec_hash"],
            rule=rule,
            target=self.target,
            seed=self.seed,
            draw=draw,
            std=std or rule.needs_std,
        )
        return scored(run, scores, self.model, product_texts(self.cut, products))

    def _tree(self, run: Run, n_kept: int) -> Tree:
        """Return the search for the best `n_kept` products."""
        tables = absolute(run.work), self._key(self.cut.spec), self.cut.spec.n_columns
        key, folder = hash_of([self.spec, n_kept, _VERSION]), run.work / f"partials-{n_kept}"
        if isinstance(self.ranking, Linear):
            by_sums = SpaceSearch(tables, self._leave_weights(run), None, n_kept, self.limits)
            pieces = pieces_of_sums(self.families)
            sizes = [piece.size for piece in pieces]
            root = Root(by_sums, SpacePieces(tables, None).of, folder, key)
            return Tree([root], [(i,) for i in range(len(pieces))], sizes, _PIECES)
        feature_map = self.ranking.feature_map
        reference = MapReference.of(feature_map.state()).carried(run.work)
        n, size = self.n_draws, feature_map.n_components * self.n_draws
        search = SpaceSearch(tables, self._leave_weights(run), reference, n_kept, self.limits, n)
        pieces = pieces_of(self.families, size)
        most = max(piece.size for piece in pieces)
        groups = group_by_rows([(i, piece.size) for i, piece in enumerate(pieces)], most)
        sizes = [sum(pieces[i].size for i in group) for group in groups]
        chunk = SpacePieces(tables, size).of
        root = Root(search, chunk, folder, key)
        return Tree([root], groups, sizes, _PIECES)

    def _leave_weights(self, run: Run) -> str:
        """Write the weights that rank to a file that every task finds; return the file."""
        path = run.work / f"weights-{hash_of(self.spec)[:16]}"
        columns = {"columns": self.ranking.columns} if isinstance(self.ranking, Linear) else {}
        made_once(path, path.name, lambda: ({"weights": self.ranking.weights, **columns}, {}))
        return absolute(path)

    def finish(self, run: Run, made: int) -> Any:
        """Write the hits and what is known of them."""
        if self.earlier is not None:
            about, there = self.earlier.about, f"{self.output} already holds exactly these hits"
            return self._report(self.earlier.table, about, (*about["notes"], there), run.seconds)
        found, whole, notes = self.best(run)
        hits = found.best(self.k)
        deviations = None
        if self.std != "none" and "std" not in hits.columns:
            deviations = self.predicted(run, decoded(self.cut, hits.row.tolist()), std=True)
        table = hits.table(deviations)
        near, similarity = nearest_labelled(hits.smiles, self.model, self.target)
        for name, values in near.items():
            table = table.append_column(name, values)
        labelled = duplicates(table["smiles"], self.model, None, labelled=not self.exclude_labelled)
        notes = (*self.notes, *notes, *self.counted(found, whole), labelled, similarity)
        about = {
            **self.spec,
            "direction": "maximize" if self.rule.maximize else "minimize",
            "model_name": self.path.name,
            "source": self.source.name,
            "rows": self.n_distinct,
            "rejected": 0,
            "notes": list(notes),
        }
        write_hits(table, self.output, about, self.page(self.output, about, self.model, self.path))
        return self._report(table, about, notes, run.seconds)

    def best(self, run: Run) -> tuple[Candidates, bool, tuple[str, ...]]:
        """Return the best products, once all pieces are made.

        Returns
        -------
        Candidates, bool, tuple of str
            Those that the model has scored, at least k unless there are fewer; whether no other product is
            left; and notes.
        """
        if self.n_draws > 1:
            return self._best_of_draws(run)
        if self.ranks_itself:
            return self._best_of_all(run)
        return self._all_ranked(run) if self.n_products <= self.first else self._best_of_shortlist(run)

    def _best_of_all(self, run: Run) -> tuple[Candidates, bool, tuple[str, ...]]:
        """Return the best products by the model, which ranks them itself, and whether these are all."""
        n_kept, notes = self.n_kept, tuple[str, ...]()
        for attempt in range(_TRIES):
            if attempt:
                n_kept *= _GROWTH
                self.tree = self._tree(run, n_kept)
                self.tree.make(client=run.client, progress=run.progress)
            (top,) = self.tree.result().tops
            scores = self.predicted(run, decoded(self.cut, top.row.tolist()))
            bar = self._bar(top, scores.columns)
            found, whole = self._candidates(top.row, scores), len(top) < n_kept
            if whole:
                break
            enough = len(found) >= self.k
            if enough and (self.rule.needs_std or float(found.columns["score"][self.k - 1]) > bar):
                break
        else:
            notes = (f"only the best {len(top):,} products were compared, as {_TIES}",)
        if self.rule.needs_std:
            notes = (*notes, f"ranked among the {self.n_kept:,} best means")
        return found, whole, notes

    def _best_of_draws(self, run: Run) -> tuple[Candidates, bool, tuple[str, ...]]:
        """Return the best k products of every draw, without an order, and whether no product is left."""
        n_kept, notes = self.n_kept, tuple[str, ...]()
        for attempt in range(_TRIES):
            if attempt:
                n_kept *= _GROWTH
                self.tree = self._tree(run, n_kept)
                self.tree.make(client=run.client, progress=run.progress)
            tops = self.tree.result().tops
            row = np.unique(np.concatenate([top.row for top in tops]))
            scores = self.predicted(run, decoded(self.cut, row.tolist()))
            first = np.searchsorted(row, tops[0].row)
            self._bar(tops[0], {name: values[first] for name, values in scores.columns.items()})
            texts = dict(zip(row.tolist(), scores.smiles, strict=True))
            own = [sorted({texts[r] for r in top.row.tolist()}) for top in tops]
            free = [int(self.excluded.free(names).sum()) for names in own]
            full = [len(top) == n_kept for top in tops]
            if all(n >= self.k or not more for n, more in zip(free, full, strict=True)):
                break
        else:
            notes = (f"only the best {n_kept:,} products of each draw were compared, as {_TIES}",)
        return Candidates.of(self.cut, row, scores, None, self.excluded), not any(full), notes

    def _candidates(self, row: npt.NDArray[np.int64], found: Scored) -> Candidates:
        return Candidates.of(self.cut, row, found, self.per_block, self.excluded)

    def _bar(self, top: TopK, found: Mapping[str, npt.NDArray[Any]]) -> float:
        """Return what the score of products that were not kept is at most.

        Raises
        ------
        InputError
            If means of products differ from those of their SMILES.
        """
        if not len(top):
            return -math.inf
        assert isinstance(self.ranking, Ranking)
        searched = top.score + self.ranking.offset
        error = float(np.abs(searched - self.rule.sign * found["value"]).max())
        if not error <= _CLOSE * self.ranking.deviation:
            raise InputError(
                f"Means of products differ by {error:.2g} from those of their SMILES, so that their "
                f"fingerprints do not compose; find the reaction by `daskrf check-space {self.source} "
                "--sample 5000`, and leave it out."
            )
        return float(searched.min()) + 2 * error

    def ranked(self, run: Run) -> tuple[npt.NDArray[np.int64], bool]:
        """Return the products that were kept, as they were ranked, and whether these are all."""
        if not self.ranks_itself and self.n_products <= self.first:
            numbers = np.arange(self.n_products, dtype=np.int64)
            return numbers[inside(self.cut, numbers, self.limits)], True
        row = self.tree.result().tops[0].row
        return self._sieved(run, row), len(row) < self.n_kept

    def _all_ranked(self, run: Run) -> tuple[Candidates, bool, tuple[str, ...]]:
        """Return all products of a small space, scored by the model."""
        numbers, _ = self.ranked(run)
        scores = self.predicted(run, decoded(self.cut, numbers.tolist()))
        found = self._candidates(numbers, scores)
        return found, True, ("the model has ranked every product",)

    def _best_of_shortlist(self, run: Run) -> tuple[Candidates, bool, tuple[str, ...]]:
        """Return the best products of a shortlist by the model, and an estimate of what it lacks."""
        (top,) = self.tree.result().tops
        there = len(top) < self.n_kept
        row = self._sieved(run, top.row)
        pool = Pool(
            cut=self.cut,
            predicted=lambda numbers: self.predicted(run, decoded(self.cut, numbers.tolist())),
            per_block=self.per_block,
            excluded=self.excluded,
        )
        size, climbed = 0, 0
        while True:
            size = min(len(row), 2 * size or self.first)
            pool.add(row[:size])
            if there and size == len(top):
                return pool.hits(), True, ("the model has ranked every product",)
            within = functools.partial(inside, self.cut, limits=self.limits)
            climbed += pool.climb(self.k, within, self._ranked_roughly)
            below = self._below(run, row, size, pool)
            whole = there and len(row) == len(top)
            missed = Missed.of(self.k, size, pool.bar(self.k), below, whole=whole)
            if self.shortlist or missed.recall >= _RECALL or 4 * size > len(row):
                found = pool.hits()
                n_near = int((~np.isin(found.best(self.k).row, row[:size])).sum())
                near = (
                    f"besides, it has ranked {amount(climbed, 'products')} that differ in one block from the "
                    f"best so far: {n_near:,} of the hits are from these"
                    f"{'' if pool.settled else '; the last of them were still better than some hits'}"
                )
                return found, False, (str(missed), near, *self._deep(found, top.row, whole=there))

    def _ranked_roughly(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the value of each product by what ranks all, or by the finer one of two."""
        ranking = self.finer if self.linear else self.ranking
        assert isinstance(ranking, Ranking)
        found = np.empty(len(numbers))
        for at, counts in counts_of_numbers(self.cut, self.families, numbers):
            found[at] = ranking.values(counts)
        return found

    def _sieved(self, run: Run, row: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return products in the order of the finer ranking, the best of them, if a linear one found them."""
        if not self.linear:
            return row
        digest = hash_of([self.spec, self._key(self.cut.spec), len(row), "sieved"])

        def make() -> tuple[dict[str, Any], dict[str, Any]]:
            parts = []
            run.progress.start("rank", len(row), "products")
            for start in range(0, len(row), _PART):
                parts.append(self._ranked_roughly(row[start : start + _PART]))
                run.progress.advance(len(parts[-1]))
            run.progress.finish()
            return {"order": np.lexsort((row, -np.concatenate(parts)))[: self.n_ranked]}, {}

        return row[made_once(run.work / f"sieved-{digest[:16]}", digest, make).arrays["order"]]

    def _deep(self, found: Candidates, row: npt.NDArray[np.int64], *, whole: bool) -> tuple[str, ...]:
        """Return how many hits were far down in a linear ranking, for what may lie below it."""
        if not self.linear or whole:
            return ()
        half = len(row) // 2
        n_deep = int(np.isin(found.best(self.k).row, row[half:]).sum())
        return (
            f"the linear function kept its best {len(row):,} of all products, and {n_deep:,} of the hits are "
            f"from the lower half of these: about as many or more may lie below, of which nothing is known",
        )

    def _below(
        self, run: Run, row: npt.NDArray[np.int64], size: int, pool: Pool
    ) -> Iterator[tuple[int, int, npt.NDArray[np.float64]]]:
        """Yield ranges of places below the shortlist, and the scores of random products in each.

        Those that are found already are not lacking.
        """
        start = size
        while start < len(row):
            stop = min(len(row), 2 * start)
            chosen = start + random_numbers(stop - start, BELOW, 0, "space/below")
            products = decoded(self.cut, row[chosen].tolist())
            found = self.predicted(run, products)
            free = self.excluded.free(found.smiles) & ~np.isin(row[chosen], pool.row)
            yield start, stop, np.where(free, found.columns["score"], -np.inf)
            start = stop

    def counted(self, found: Candidates, whole: bool) -> list[str]:
        """Return notes on what products were counted, and left out."""
        sizes = self.cut.sizes
        notes = [
            f"{amount(sum(sizes), 'products')} of {amount(sum(map(bool, sizes)), 'reactions')}, if each way "
            "to make them counts; those of equal synthons were scored once"
        ]
        if found.repeats:
            notes.append(
                f"left out: {amount(found.repeats, 'products')} that are the same molecule as a better one"
            )
        if self.exclude_labelled:
            notes.append(f"left out: {amount(found.n_excluded, 'labelled molecules')}")
        if len(found) < self.k and whole:
            notes.append(f"these are all: {amount(len(found), 'molecules')}")
        return notes

    def _report(self, table: pa.Table, about: dict[str, Any], notes: Sequence[str], seconds: float) -> Any:
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


def _bound(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else ""


@dataclass(frozen=True)
class Missed:
    """How many of the best products a shortlist is estimated to lack.

    Attributes
    ----------
    k, size : int
        Hits, and products of the shortlist.
    looked : tuple of (int, int, int, int)
        Ranges of places below the shortlist: first and last place, random products that were scored, and
        how many of these are better than the last hit.
    whole : bool
        Whether the ranges reach to the last product.
    """

    k: int
    size: int
    looked: tuple[tuple[int, int, int, int], ...]
    whole: bool = False

    @classmethod
    def of(
        cls,
        k: int,
        size: int,
        bar: float,
        below: Iterable[tuple[int, int, npt.NDArray[np.float64]]],
        *,
        whole: bool = False,
    ) -> Missed:
        """Return the estimate from the score of the last hit and from scores below the shortlist."""
        looked = tuple(
            (start + 1, stop, len(score), int((score > bar).sum())) for start, stop, score in below
        )
        return cls(k, size, looked, whole)

    @property
    def recall(self) -> float:
        """The estimated fraction of the best k that the shortlist holds, as far as was looked."""
        lacking = sum((last - first + 1) * better / n for first, last, n, better in self.looked)
        return self.k / (self.k + lacking)

    def __str__(self) -> str:
        said = [
            f"{better or 'none'} of {n:,} at places {first:,} to {last:,}"
            for first, last, n, better in self.looked
        ]
        deepest = self.looked[-1][1] if self.looked else self.size
        rest = "" if self.whole else f"; beyond place {deepest:,} nothing is known"
        return (
            f"the model has ranked the best {self.size:,} of the rough ranking, and random ones of the next: "
            f"{', '.join(said)} would be hits, so that the shortlist holds an estimated {self.recall:.0%} of "
            f"the best {self.k:,}{rest}"
        )
