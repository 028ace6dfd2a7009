"""Rank all products of a space by a model, or by a surrogate first, without listing them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from daskrf.acquisition import Acquisition, acquisition_for
from daskrf.arrays import NamedArrays
from daskrf.errors import InputError, OptionError
from daskrf.files.backend import absolute
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.separate import processes_of
from daskrf.gp.sums.shapes import SumsShape
from daskrf.jobs.job import Need, Run
from daskrf.jobs.memory import Making, MemoryNeed, need_of_products, peak
from daskrf.jobs.pieces import Done, Pieces, group_by_rows
from daskrf.jobs.tree import Root, Tree
from daskrf.models.models import Model, feature_map_of, need_of_model, score_seconds
from daskrf.models.toolkits import check_toolkit
from daskrf.molecules import FingerprintSpec
from daskrf.molecules.counts.reading import is_read
from daskrf.molecules.similarto import SIMILARITY_SPEC
from daskrf.molecules.structures import KnownStructures
from daskrf.quantities import amount
from daskrf.screening import TopK
from daskrf.screens.aim import Aim
from daskrf.screens.draws import leave_draws
from daskrf.screens.request import ScreenRequest
from daskrf.screens.shortlist import n_candidates
from daskrf.screens.space.cutspaces import TablesPlace, composing_once, left_out
from daskrf.screens.space.hits import Candidates
from daskrf.screens.space.missed import Missed
from daskrf.screens.space.patternfilter import PatternFilter
from daskrf.screens.space.productpool import Pool
from daskrf.screens.space.productscores import MOST_ROWS, ProductScores, Scored, product_texts, scored
from daskrf.screens.space.producttests import ProductTests
from daskrf.screens.space.search import SpacePieces, SpaceSearch
from daskrf.screens.space.similarfilter import SimilarFilter
from daskrf.screens.space.spacefilters import SpaceFilters
from daskrf.screens.space.stdbounds import labels_of_bounds
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
from daskrf.spaces.families import Family, decoded
from daskrf.spaces.limits import Range, range_words, ranges_of
from daskrf.spaces.patterns import closes_rings
from daskrf.spaces.ranking import pieces_of
from daskrf.spaces.sampling import counts_of, counts_of_numbers, inside, random_numbers
from daskrf.spaces.sumranking import Linear, pieces_of_sums
from daskrf.storage.model import Contents, made_once
from daskrf.storage.stores.store import hash_of

PIECES = "blocks of products"
MORE = 4  # times k products are kept, since some are the same molecule
_GROWTH = 4  # times as many are kept in the next try, if these were too few
_TRIES = 4
_TIES = "very many are the same molecule, equally good, or of the same blocks: others may belong to the hits"
_FAILURES = "most of them do not pass the filters that synthons do not decide"
_CLOSE = 1e-3  # of the signal's standard deviation; single precision alone gives far smaller differences
_VERSION = 2  # of the pieces of the search of a space
_ROUGHLY = 20  # times k products are on the surrogate's first shortlist
LEAST_SHORTLIST = 20_000  # products on the shortlist, if k is small
_MOST_FOURIER = 2e10  # products; for more, the surrogate is linear and takes minutes, not hours
_RECALL = 0.99  # of the best k: a shortlist grows until it reaches this
DEEPEST = 32  # times the shortlist's length: products kept, to sample those below the shortlist
_MOST_KEPT = 640_000  # unless the shortlist is longer than half of this
_GROWN = 8  # times its first length: a shortlist may grow so far even if the model takes long
SIEVED = 100  # times the shortlist's length: products kept by a linear surrogate, for the finer one to rank
_MOST_SIEVED = 2_000_000
LISTED = 1_000_000  # products, at most, that a model ranks without a surrogate
_LIST_SECONDS = 150.0  # of processor time, at most, for that, and for a shortlist that grows
_READ_SECONDS = 6e-5  # per product, for its text and a fingerprint that the engine counts
_ASKED_SECONDS = 1e-3  # for its SMILES and a fingerprint by RDKit
_LABEL_SECONDS = 1.4e-8  # per product and label, for a kernel value of fingerprints of some 150 counts
_AT_ONCE = 2**17  # of these are ranked at a time
_LISTED_BYTES = 900  # of a product in the program that lists them: measured 750
_EVERY_PRODUCT = "the model has ranked every product"
BELOW = 1000  # random products scored in each range of places below the shortlist, at least
_MOST_BELOW = 10_000
_BELOW_SECONDS = 1.0  # of processor time for each range, if that is enough for more of them


@dataclass(frozen=True)
class Ranked:
    """The best products of a space.

    Attributes
    ----------
    products : Candidates
        Products that the model has scored: at least k, unless there are fewer, or those of every sample.
    whole : bool
        Whether no other product is left.
    notes : tuple of str
    """

    products: Candidates
    whole: bool
    notes: tuple[str, ...]


@dataclass
class ProductRanking:
    """Ranks all products of a space by a model, or by a surrogate and then its best products by the model.

    Attributes
    ----------
    request : ScreenRequest
        What to search for.
    source : Path
        The space.
    aim : Aim
    k : int
        How many products to find.
    n_draws : int
        How many posterior samples are maximized, if the rule needs samples and the model ranks all products.
    may_list : bool
        Whether the model may rank all products of a space that has more of them than a shortlist.
    keeps_tables : bool
        Whether the tables of the space stay beside the output.
    tests_products : bool
        Whether hits must pass the filters that synthons do not decide; if not, others test products.
    limits : tuple of Range
        Properties that products must have.
    shortlist : int or None
        How many products the model ranks, if it cannot rank all.
    excluded : KnownStructures
        Molecules that must not be hits.
    patterns : PatternFilter or None
        Patterns that products must contain or must not, after `prepare`.
    tests : ProductTests or None
        What hits must pass besides, after `prepare`.
    similar : SimilarFilter or None
        Molecules that products must be similar to, after `prepare`.
    listed : int64 array or None
        Products that are similar to them and pass what synthons decide, once all pieces are made.
    listed_values : float64 array or None
        Their values by what ranks them, of all samples.
    n_similar : int
        Number of similar products, before limits and patterns.
    ranks_itself : bool
        Whether the model ranks all products.
    """

    request: ScreenRequest
    source: PurePath
    aim: Aim
    k: int
    n_draws: int = 1
    may_list: bool = True
    keeps_tables: bool = True
    tests_products: bool = False
    limits: tuple[Range, ...] = field(init=False)
    shortlist: int | None = field(init=False)
    excluded: KnownStructures = field(default_factory=lambda: KnownStructures([]))
    space: Space = field(init=False)
    cut: CutSpace = field(init=False)
    families: list[Family] = field(init=False)
    tables: TablesPlace = field(init=False)
    patterns: PatternFilter | None = None
    tests: ProductTests | None = None
    similar: SimilarFilter | None = None
    listed: npt.NDArray[np.int64] | None = None
    listed_values: npt.NDArray[np.float64] | None = None
    n_similar: int = 0
    notes: tuple[str, ...] = ()
    ranks_itself: bool = field(init=False)
    ranking: Ranking | Linear = field(init=False)
    finer: Ranking = field(init=False)
    tree: Tree = field(init=False)

    def __post_init__(self) -> None:
        """Check the options, and read the space."""
        check_toolkit(self.model)
        self.limits = ranges_of(self.request.products.within)
        self.shortlist = shortlist_of_space(self.request)
        self.ranks_itself = ranks_itself(self.model, self.aim.target) is not None
        self._check_options()
        self.space = read_space(self.source)

    @property
    def model(self) -> Model:
        """The model that ranks."""
        return self.aim.model

    @property
    def rough(self) -> str | None:
        """The requested kind of surrogate: "fourier", "linear", or None."""
        return self.request.products.rough

    @property
    def components(self) -> int | None:
        """The requested number of features of the surrogate, or None."""
        return self.request.products.rough_components

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that products have."""
        slots = [
            len(self.space.slots_of(r)) for r, each in enumerate(self.space.reactions) if not each.refusal
        ]
        return ("reaction", *(f"block_{slot}" for slot in range(max(slots, default=0))))

    def _check_options(self) -> None:
        """Refuse options of surrogates if the model ranks all products, and a shortlist shorter than k."""
        options = {
            "--shortlist": self.shortlist,
            "--rough": self.rough,
            "--rough-components": self.components,
        }
        if self.rough == "linear" and self.components is not None:
            raise OptionError("A linear surrogate has no Fourier features; leave out --rough-components.")
        for name, value in options.items():
            if self.ranks_itself and value is not None:
                raise OptionError(
                    f"This model ranks all products of a space itself, without a shortlist; leave out {name}."
                )
        if self.shortlist is not None and self.shortlist < self.k:
            raise OptionError(
                f"A shortlist of {self.shortlist:,} products cannot hold the {self.k:,} to be found; take a "
                "longer one, or leave out --shortlist."
            )

    def widen(self, k: int) -> None:
        """Look for k products from now on."""
        self.k = k

    def prepare(self, run: Run, excluded: KnownStructures | None = None) -> None:
        """Cut the space, leaving out reactions whose fingerprints do not compose; `excluded` are no hits."""
        if excluded is not None:
            self.excluded = excluded
        of_model = ranks_itself(self.model, self.aim.target)
        similar = self.request.filters.similar
        spec = of_model or self._surrogate_spec
        self.cut, self.families, self.tables = composing_once(self.space, spec, run, keep=self.keeps_tables)
        self.notes = (*self.notes, *left_out(self.cut))
        if not self.request.filters.texts:
            return
        if similar is not None:
            place = self.cut, self.families, self.tables
            if spec != SIMILARITY_SPEC:
                place = composing_once(self.space, SIMILARITY_SPEC, run, keep=self.keeps_tables)
            cut, families, tables = place
            self.similar = SimilarFilter.of(similar, cut, families, tables)
            self.notes = (*self.notes, *self.similar.notes)
        rings = any(closes_rings(self.cut, family) for family in self.families)
        filters = SpaceFilters.of(self.request.filters, rings=rings)
        if filters.decides:
            self.patterns = PatternFilter.of(run, self.tables.key, self.cut, self.families, filters)
            self.notes = (*self.notes, *self.patterns.notes)
        if self.tests_products and filters.others.texts:
            self.tests = ProductTests(filters.others.of(()))

    def wanted(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return which products lie within the limits, are as the patterns ask, and similar if need be."""
        mask = inside(self.cut, numbers, self.limits)
        if self.listed is not None:
            mask &= np.isin(numbers, self.listed)
        if self.patterns is not None:
            mask[mask] = self.patterns.holds(numbers[mask])
        return mask

    def check(self, smiles: Sequence[str]) -> None:
        """Compare the products to be shown with the filters by their SMILES; refuse any that differ."""
        if self.similar is not None:
            self.similar.check(smiles)
        if self.patterns is not None:
            self.patterns.check(smiles, self.limits)

    @property
    def spec(self) -> dict[str, object]:
        """Everything that determines the hits; all shards must agree on it."""
        request = self.request
        surrogate = {
            "shortlist": self.shortlist,
            "rough": self.rough,
            "rough_components": self.components,
        }
        return {
            "model": self.model.metadata["spec_hash"],
            "acquisition": self.aim.rule.state(),
            "k": self.k,
            "std": request.std,
            **({"candidates": self.n_kept} if self.ranks_itself and self.aim.rule.needs_std else {}),
            "target": self.aim.target_name,
            "seed": request.seed if self.aim.rule.needs_sample else None,
            "within": range_words(self.limits) or None,
            "per_block": request.products.per_block,
            **request.filters.texts,
            "exclude_labelled": request.exclude_labelled,
            **({"exclude_by": request.exclude_by} if request.exclude_labelled else {}),
            **({"draws": self.n_draws} if self.n_draws > 1 else {}),
            **({} if self.ranks_itself else surrogate),
            "library": self.space.digest,
        }

    def need(self) -> Need:
        """Return the memory of the search, or that of scoring products if it is more."""
        search = self._need_of_search() if self.similar is None else self.similar.need()
        scoring = self._need_of_scores()
        n_listed = self._n_listed if self.similar is None else min(self._n_listed, LISTED)
        listed = peak("listing", {"products and their scores": _LISTED_BYTES * n_listed}, compiled=False)
        lists = self.lists or self.similar is not None
        return Need(search if search.total > scoring.total else scoring, here=listed if lists else None)

    def _need_of_search(self) -> MemoryNeed:
        """Return the need of a task that ranks pieces of the space."""
        size = self.n_components * self.n_draws
        pieces = pieces_of_sums(self.families) if self.linear else pieces_of(self.families, size)
        rows = max(sum(stop - start for start, stop in piece.bounds) for piece in pieces)
        tables = self.cut.own.data.nbytes + self.cut.own.indices.nbytes
        tables += sum(s.counts.data.nbytes + s.counts.indices.nbytes for f in self.families for s in f.sides)
        n_components = 0 if self.linear else self.n_components
        return need_of_products(rows, n_components, tables, self.n_kept * self.n_draws)

    def _need_of_scores(self) -> MemoryNeed:
        """Return the need of a task that scores products; see `daskrf.screens.space.productscores`."""
        feature_map = feature_map_of(self.model)
        spec = FingerprintSpec.from_state(self.model.metadata["fingerprint"])
        making = Making(1, MOST_ROWS, one_bit=True, usual=spec.nonzeros)
        if feature_map is not None:
            shape, tables = SumsShape.of(feature_map), feature_map.table_bytes(spec.n_columns)
            one_bit, n_components = self.model.gp.one_bit_, feature_map.n_components
            making = Making(n_components, MOST_ROWS, one_bit, shape, tables=tables, usual=spec.nonzeros)
        std = self.aim.rule.needs_std or self.request.std != "none"
        return making.need(lambda making: need_of_model(self.model, making, 0, std=std))

    @property
    def linear(self) -> bool:
        """Whether a linear function of counts ranks all products, because there are so many."""
        if self.ranks_itself or self.rough is not None or self.components is not None:
            return not self.ranks_itself and self.rough == "linear"
        if self.request.filters.similar is not None:  # these are few
            return False
        slots = (self.space.slots_of(r) for r in range(len(self.space.reactions)))
        return sum(math.prod(map(len, each)) for each in slots) > _MOST_FOURIER

    @property
    def _surrogate_spec(self) -> FingerprintSpec:
        """Fingerprint of the surrogate: that of similarities if these are counted anyway."""
        if self.request.filters.similar is not None:
            return SIMILARITY_SPEC
        return LINEAR_SPEC if self.linear else ROUGH_SPEC

    @property
    def n_components(self) -> int:
        """Number of features of the process that ranks all products."""
        if self.ranks_itself:
            feature_map = feature_map_of(self.model)
            assert feature_map is not None
            return feature_map.n_components
        return self.components or COMPONENTS

    @property
    def first(self) -> int:
        """Length of the first shortlist, if the model cannot rank all products."""
        return first_shortlist(self.shortlist, self.k)

    @property
    def n_kept(self) -> int:
        """How many products are kept until all have been ranked."""
        if self.ranks_itself:
            n = n_candidates(self.k)
            return (n if self.aim.rule.needs_std else MORE * self.k) + min(len(self.excluded), n)
        if self.linear:
            return max(2 * self.first, min(SIEVED * self.first, _MOST_SIEVED))
        return self.n_ranked

    @property
    def n_ranked(self) -> int:
        """Number of products on the shortlist and in the ranges below it that are sampled."""
        return n_ranked(self.first)

    @property
    def n_products(self) -> int:
        """Number of products, counting each way to make one."""
        return sum(self.cut.sizes)

    @property
    def _n_listed(self) -> int:
        """Number of products to list, if the model is to rank all of them; at most, before the search."""
        if self.listed is not None:
            return len(self.listed)
        n = self.n_products if self.patterns is None else self.patterns.n
        return n if self.similar is None else min(n, self.similar.n_most)

    @property
    def _n_scored(self) -> int:
        """Number of products that the model scores at least."""
        if self.ranks_itself:
            return self.n_kept
        return self._n_listed if self.lists else min(self._n_listed, SAMPLE + self.first)

    @property
    def lists(self) -> bool:
        """Whether the model ranks all products one by one, because these are few enough."""
        if self.ranks_itself or self._n_listed <= self.first:
            return not self.ranks_itself
        if not self.may_list or (self.shortlist, self.rough, self.components) != (None, None, None):
            return False
        if self.aim.rule.needs_sample:  # its values take thousands of features more
            return False
        return self._n_listed <= min(LISTED, _LIST_SECONDS / self._seconds_per_product)

    @property
    def _seconds_per_product(self) -> float:
        """Approximate time in seconds to score a product on one core."""
        read = is_read(FingerprintSpec.from_state(self.model.metadata["fingerprint"]))
        seconds = _READ_SECONDS if read else _ASKED_SECONDS
        feature_map, std = feature_map_of(self.model), self.aim.rule.needs_std
        if feature_map is None:
            n_labels = sum(gp.n_rows_ for gp in processes_of(self.model.gp) if isinstance(gp, ExactGP))
            return (
                seconds
                + _LABEL_SECONDS * n_labels
                + score_seconds(self.model, 0, std=std and not self._bounds)
            )
        made = feature_map.seconds_per_component * feature_map.n_components
        return seconds + made + score_seconds(self.model, feature_map.n_components, std=std)

    @property
    def n_distinct(self) -> int:
        """Number of products, counting those of equal synthons once."""
        return sum(family.size for family in self.families)

    @property
    def n_passing(self) -> int:
        """Number of products, those of equal synthons once, that pass patterns, alerts and similarity.

        Those outside of limits count, unless products are listed.
        """
        if self.listed is not None:
            return len(self.listed)
        return self.n_distinct if self.patterns is None else self.patterns.n

    def pieces(self, run: Run) -> list[Pieces]:
        """Return the pieces of the search."""
        run.agree(self.spec)
        if self.similar is not None:  # what ranks them depends on how many there are
            if self.listed is None and (numbers := self.similar.earlier(self.limits)) is not None:
                self._list(numbers)
            if self.listed is not None:
                return [Done(1, PIECES)]
            self.tree = self.similar.tree(run.work, self.limits)
            return [self.tree]
        if not self._choose_ranking(run):
            return [Done(1, PIECES)]
        self.tree = self._tree(run, self.n_kept)
        return [self.tree]

    def _choose_ranking(self, run: Run) -> bool:
        """Take the model as what ranks products, or a surrogate; return False if all are to be scored."""
        if self.ranks_itself:
            seed = self.request.seed if self.aim.rule.needs_sample else None
            self.ranking = Ranking.of_model(
                self.model, self.aim.target, self.aim.rule.sign, seed, self.n_draws
            )
        elif self.lists:
            return False
        else:
            self._learn(run)
        return True

    def _list_similar(self, run: Run) -> None:
        """List the products that are similar enough, once these are found, and choose what ranks them."""
        if self.similar is None:
            return
        if self.listed is None:
            self._list(self.similar.leave(self.tree.result(), self.limits))
        self._choose_ranking(run)

    def _list(self, similar: npt.NDArray[np.int64]) -> None:
        """Take the similar products that pass limits and patterns, too.

        Raises
        ------
        InputError
            If there are none.
        """
        assert self.similar is not None
        numbers = self.similar.numbered(similar, self.cut)
        if not len(numbers):
            raise InputError(f"No product of {self.source} passes: {self.similar.words}.")
        self.n_similar, self.listed = len(numbers), numbers[self.wanted(numbers)]
        if not len(self.listed):
            raise InputError(
                f"Of {amount(len(numbers), 'products')} of {self.source} with {self.similar.words} none "
                "passes the limits and patterns; widen some of them."
            )

    def words_of_similar(self, repeats: int = 0) -> list[str]:
        """Return a note on how many products are listed; `repeats` are the same molecule as another one."""
        if self.similar is None or self.listed is None:
            return []
        note = f"{amount(self.n_similar, 'products')}: {self.similar.words}"
        if self.patterns is not None or self.limits:
            note += f"; {len(self.listed):,} of these pass the limits and patterns, too"
        if repeats:
            note += f"; these are {amount(len(self.listed) - repeats, 'different molecules')}"
        return [note]

    def _learn(self, run: Run) -> None:
        """Train the surrogate on the model's scores of random products."""
        if self.listed is not None:
            numbers = self.listed[random_numbers(len(self.listed), SAMPLE, 0, "space/learn")]
        elif self.patterns is None:
            numbers = random_numbers(self.n_products, SAMPLE, 0, "space/learn", self.wanted)
        else:  # few products may be as asked for
            numbers = self.patterns.drawn(SAMPLE, 0, "space/learn", self.limits)
        if not len(numbers):
            if self.patterns is not None:
                raise InputError(
                    f"None of the products that {self.patterns.words} was found within the limits: widen "
                    "these (--within), or leave a pattern out."
                )
            n = min(30 * SAMPLE, self.n_products)
            raise InputError(f"None of {n:,} random products lies within the limits; widen them.")
        scores = self.predicted(run, numbers)
        counts = counts_of(self.cut, decoded(self.cut, numbers.tolist()))
        spec = {**self.spec, "k": None}  # the ranking does not depend on k
        key = hash_of([spec, self.n_components, SAMPLE, self.tables.key])
        n_components = None if self.linear else self.n_components
        score = scores.columns["score"]
        metric = in_metric(self.model, self.aim.target)
        of = "all products" if self.listed is None else "the similar products"
        spec_of_counts = ROUGH_SPEC if self.linear else self._surrogate_spec
        rough = learned(run, counts, score, n_components, key, spec_of_counts, metric=metric, of=of)
        self.ranking = rough.ranking
        self.notes = (*self.notes, rough.words)
        run.progress.note(rough.words)
        if self.linear:
            finer_key = hash_of([key, COMPONENTS])
            of = "the best of these"
            finer = learned(run, counts, score, COMPONENTS, finer_key, LINEAR_SPEC, metric=metric, of=of)
            assert isinstance(finer.ranking, Ranking)
            self.finer = finer.ranking
            self.notes = (*self.notes, finer.words)
            run.progress.note(finer.words)

    def predicted(
        self,
        run: Run,
        numbers: npt.NDArray[np.int64],
        *,
        std: bool = False,
        named: bool = False,
        n_labels: int | None = None,
    ) -> Scored:
        """Return the model's scores of products given by number.

        With `std`, these are means and standard deviations, whatever the rule; with `named`, all products
        have canonical SMILES; with `n_labels`, scores are upper bounds by so many labels.
        """
        rule: Acquisition = (
            acquisition_for("greedy", maximize=self.aim.rule.maximize) if std else self.aim.rule
        )
        draw = None
        if rule.needs_sample:
            draw = leave_draws(self.model, self.aim.target, self.request.seed, run.work, 1)
        scores = ProductScores(
            model=absolute(self.model.path),
            model_hash=self.model.metadata["spec_hash"],
            rule=rule,
            target=self.aim.target,
            seed=self.request.seed,
            draw=draw,
            std=std or rule.needs_std,
            n_labels=n_labels,
            named=named,
            n_expected=self._n_scored,
        )
        return scored(run, scores, self.model, product_texts(self.cut, numbers))

    def _pool(self, run: Run) -> Pool:
        """Return a pool of products, which are scored by the model as they are added."""
        return Pool(
            cut=self.cut,
            steps=[partial(self.predicted, run, n_labels=n) for n in (*self._bounds, None)],
            per_block=self.request.products.per_block,
            excluded=self.excluded,
            tests=self.tests,
        )

    @property
    def _bounds(self) -> tuple[int, ...]:
        """Numbers of labels by which scores are bounded before they are computed, fewest first."""
        return labels_of_bounds(self.model, self.aim.target, self.aim.rule)

    def _tree(self, run: Run, n_kept: int) -> Tree:
        """Return the search for the best `n_kept` products."""
        tables = self.tables
        patterns = "" if self.patterns is None else self.patterns.path
        key, folder = hash_of([self.spec, n_kept, _VERSION]), run.work / f"partials-{n_kept}"
        if isinstance(self.ranking, Linear):
            by_sums = SpaceSearch(
                tables, self._leave_weights(run), None, n_kept, self.limits, patterns=patterns
            )
            pieces = pieces_of_sums(self.families)
            sizes = [piece.size for piece in pieces]
            root = Root(by_sums, SpacePieces(tables, None).of, folder, key)
            return Tree([root], [(i,) for i in range(len(pieces))], sizes, PIECES)
        feature_map = self.ranking.feature_map
        reference = MapReference.of(feature_map.state()).carried(run.work)
        n, size = self.n_draws, feature_map.n_components * self.n_draws
        search = SpaceSearch(tables, self._leave_weights(run), reference, n_kept, self.limits, n, patterns)
        pieces = pieces_of(self.families, size)
        most = max(piece.size for piece in pieces)
        groups = group_by_rows([(i, piece.size) for i, piece in enumerate(pieces)], most)
        sizes = [sum(pieces[i].size for i in group) for group in groups]
        chunk = SpacePieces(tables, size).of
        root = Root(search, chunk, folder, key)
        return Tree([root], groups, sizes, PIECES)

    def _leave_weights(self, run: Run) -> str:
        """Write the weights of the ranking to a file that all tasks can read; return the file."""
        path = run.work / f"weights-{hash_of(self.spec)[:16]}"
        columns = {"columns": self.ranking.columns} if isinstance(self.ranking, Linear) else {}
        made_once(path, path.name, lambda: ({"weights": self.ranking.weights, **columns}, {}))
        return absolute(path)

    def best(self, run: Run) -> Ranked:
        """Return the best products, once all pieces are made."""
        self._list_similar(run)
        if self.n_draws > 1:
            return self._best_of_draws(run)
        if self.ranks_itself:
            return self._best_of_all(run)
        return self._all_ranked(run) if self.lists else self._best_of_shortlist(run)

    def _widening(self, run: Run) -> Iterator[tuple[int, list[TopK]]]:
        """Yield the number of products kept and the best of each sample, each time keeping more."""
        n_kept = self.n_kept
        for attempt in range(_TRIES):
            if attempt:
                n_kept *= _GROWTH
                if self.listed is None:
                    self.tree = self._tree(run, n_kept)
                    self.tree.make(client=run.client, progress=run.progress)
            yield n_kept, self._tops(n_kept)

    def _tops(self, n_kept: int) -> list[TopK]:
        """Return the best `n_kept` products of each sample by the ranking, once all pieces are made."""
        if self.listed is None:
            return self.tree.result().tops
        if self.listed_values is None:
            self.listed_values = self._values(self.ranking, self.listed)
        offset = self.ranking.offset if isinstance(self.ranking, Ranking) else 0.0
        values = self.listed_values.reshape(len(self.listed), -1) - offset  # as pieces score products
        return [TopK(n_kept).from_chunk(of_draw, self.listed) for of_draw in values.T]

    def _values(self, ranking: Ranking | Linear, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the value of each product by a ranking, shape (n,), or (n, n_draws) of several samples."""
        values = np.empty((len(numbers), *ranking.weights.shape[1:]))
        for at, counts in counts_of_numbers(self.cut, self.families, numbers):
            values[at] = ranking.values(counts) if isinstance(ranking, Ranking) else ranking(counts)
        return values

    def _best_of_all(self, run: Run) -> Ranked:
        """Return the best products by a model that ranks all itself."""
        notes = tuple[str, ...]()
        for n_kept, (top,) in self._widening(run):
            scores = self.predicted(run, top.row)
            highest = self._highest_of_others(top, scores.columns)
            best, whole = self._candidates(top.row, scores), len(top) < n_kept
            if whole:
                break
            enough = len(best) >= self.k
            if enough and (self.aim.rule.needs_std or float(best.columns["score"][self.k - 1]) > highest):
                break
        else:
            why = _FAILURES if best.n_failed and not enough else _TIES
            notes = (f"only the best {len(top):,} products were compared, as {why}",)
        if self.aim.rule.needs_std:
            notes = (*notes, f"ranked among the {self.n_kept:,} best means")
        return Ranked(best, whole, notes)

    def _best_of_draws(self, run: Run) -> Ranked:
        """Return the best k products of every posterior sample, unordered."""
        notes = tuple[str, ...]()
        for n_kept, tops in self._widening(run):
            row = np.unique(np.concatenate([top.row for top in tops]))
            scores = self.predicted(run, row, named=True)
            first = np.searchsorted(row, tops[0].row)
            self._highest_of_others(tops[0], {name: values[first] for name, values in scores.columns.items()})
            texts = dict(zip(row.tolist(), scores.smiles, strict=True))
            distinct = [sorted({texts[r] for r in top.row.tolist()}) for top in tops]
            free = [int(self.excluded.free(names).sum()) for names in distinct]
            full = [len(top) == n_kept for top in tops]
            if all(n >= self.k or not more for n, more in zip(free, full, strict=True)):
                break
        else:
            notes = (f"only the best {n_kept:,} products of each posterior sample were compared, as {_TIES}",)
        best = Candidates.of(self.cut, row, scores, None, self.excluded)
        return Ranked(best, not any(full), notes)

    def _candidates(self, row: npt.NDArray[np.int64], scores: Scored) -> Candidates:
        per_block = self.request.products.per_block
        return Candidates.of(self.cut, row, scores, per_block, self.excluded, tests=self.tests)

    def _highest_of_others(self, top: TopK, scores: NamedArrays) -> float:
        """Return an upper bound on the score of products that were not kept.

        Refuse means of products that differ from those of their SMILES.
        """
        if not len(top):
            return -math.inf
        assert isinstance(self.ranking, Ranking)
        searched = top.score + self.ranking.offset
        error = float(np.abs(searched - self.aim.rule.sign * scores["value"]).max())
        if not error <= _CLOSE * self.ranking.deviation:
            raise InputError(
                f"Means of products differ by {error:.2g} from those of their SMILES, so their "
                f"fingerprints do not compose; find the reaction by `daskrf check-space {self.source} "
                "--sample 5000`, and leave it out."
            )
        return float(searched.min()) + 2 * error

    def ranked(self, run: Run) -> tuple[npt.NDArray[np.int64], bool]:
        """Return the products kept, best first, and whether these are all."""
        self._list_similar(run)
        if self.lists:
            if self.listed is not None:
                numbers = self.listed
            elif self.patterns is None:
                numbers = np.arange(self.n_products, dtype=np.int64)
            else:
                numbers = self.patterns.every()
            return numbers[inside(self.cut, numbers, self.limits)], True
        row = self._tops(self.n_kept)[0].row
        return self._sieved(run, row), len(row) < self.n_kept

    def _all_ranked(self, run: Run) -> Ranked:
        """Return all products of a small space, scored by the model."""
        numbers, _ = self.ranked(run)
        pool = self._pool(run)
        pool.add(numbers)
        few = self._n_listed <= self.first and self.tests is None
        most = None if few else self.k + 1  # one more: others are left
        return Ranked(pool.hits(most), True, (_EVERY_PRODUCT,))

    def _best_of_shortlist(self, run: Run) -> Ranked:
        """Return the best products of a shortlist by the model, and notes on how many hits it lacks."""
        (top,) = self._tops(self.n_kept)
        there = len(top) < self.n_kept
        row = self._sieved(run, top.row)
        pool, size, n_neighbours = self._pool(run), 0, 0
        while True:
            size = min(len(row), 2 * size or self.first)
            pool.add(row[:size])
            if there and size == len(top):
                return Ranked(pool.hits(None if self.tests is None else self.k), True, (_EVERY_PRODUCT,))
            n_neighbours += pool.search_neighbours(self.k, self.wanted, self._surrogate_values)
            below = self._below(row, size, pool)
            whole = there and len(row) == len(top)
            n_low = int(np.isin(row[size // 2 : size], pool.hits(self.k).row[: self.k]).sum())
            missed = Missed.of(self.k, size, pool.last_score(self.k), below, whole=whole, n_low=n_low)
            if self.shortlist or missed.recall >= _RECALL or 2 * size > self._longest(len(row)):
                hits = pool.hits(self.k + 1)
                n_near = int((~np.isin(hits.best(self.k).row, row[:size])).sum())
                near = (
                    f"besides, it has ranked {amount(n_neighbours, 'products')} that differ in one block "
                    f"from the best so far: {n_near:,} of the hits are from these"
                    f"{'' if pool.settled else '; the last of them were still better than some hits'}"
                )
                notes = (str(missed), near, *self._deep(hits, top.row, whole=there))
                return Ranked(hits, False, notes)

    def _longest(self, n_kept: int) -> int:
        """Return how long a shortlist may grow."""
        in_time = int(_LIST_SECONDS / self._seconds_per_product)
        return min(n_kept // 2, max(in_time, _GROWN * self.first))

    def _surrogate_values(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """Return the value of each product by the surrogate, or by the finer one if there are two."""
        ranking = self.finer if self.linear else self.ranking
        return self._values(ranking, numbers)

    def _sieved(self, run: Run, row: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the products; if a linear surrogate found them, the best of them by the finer ranking."""
        if not self.linear:
            return row
        digest = hash_of([self.spec, self.tables.key, len(row), "sieved"])

        def make() -> Contents:
            values = []
            run.progress.start("rank", len(row), "products")
            for start in range(0, len(row), _AT_ONCE):
                values.append(self._surrogate_values(row[start : start + _AT_ONCE]))
                run.progress.advance(len(values[-1]))
            run.progress.finish()
            return {"order": np.lexsort((row, -np.concatenate(values)))[: self.n_ranked]}, {}

        return row[made_once(run.work / f"sieved-{digest[:16]}", digest, make).arrays["order"]]

    def _deep(self, hits: Candidates, row: npt.NDArray[np.int64], *, whole: bool) -> tuple[str, ...]:
        """Return how many hits were far down in a linear ranking: a sign of how many more lie below."""
        if not self.linear or whole:
            return ()
        half = len(row) // 2
        n_deep = int(np.isin(hits.best(self.k).row, row[half:]).sum())
        return (
            f"the linear function kept its best {len(row):,} of all products, and {n_deep:,} of the hits are "
            f"from the lower half of these: as many or more hits may lie below, where nothing is known",
        )

    def _below(
        self, row: npt.NDArray[np.int64], size: int, pool: Pool
    ) -> Iterator[tuple[int, int, npt.NDArray[np.float64]]]:
        """Yield ranges of places below the shortlist, and the scores of random products in each.

        Excluded products and those already in the pool are not lacking: their score is minus infinity, as is
        that of products that are no better than the last hit.
        """
        n = int(min(max(BELOW, _BELOW_SECONDS / self._seconds_per_product), _MOST_BELOW))
        start, last_score = size, pool.last_score(self.k)
        while start < len(row):
            stop = min(len(row), 2 * start)
            chosen = start + random_numbers(stop - start, n, 0, "space/below")
            yield start, stop, pool.scores_above(row[chosen], last_score)
            start = stop

    def counted(self, ranked: Ranked) -> list[str]:
        """Return notes on how many products were counted, and how many left out."""
        hits, sizes = ranked.products, self.cut.sizes
        among = f" (among the best {amount(hits.n_looked_at, 'products')})" if hits.n_looked_at else ""
        notes = [
            f"{amount(sum(sizes), 'products')} of {amount(sum(map(bool, sizes)), 'reactions')}, if each way "
            "to make them counts; those of equal synthons were scored once"
        ]
        complete = ranked.whole and not hits.n_looked_at
        notes += self.words_of_similar(hits.repeats if complete else 0)
        if hits.repeats:
            notes.append(
                f"left out as the same molecule as a better one: {amount(hits.repeats, 'products')}{among}"
            )
        if self.request.exclude_labelled:
            notes.append(f"left out: {amount(hits.n_excluded, 'labelled molecules')}{among}")
        if self.tests is not None:
            failed = [f"{n:,} ({reason})" for reason, n in hits.n_failed.items()]
            notes.append(f"left out by tests of single products{among}: {', '.join(failed) or 'none'}")
        if len(hits) < self.k and ranked.whole:
            notes.append(f"these are all: {amount(len(hits), 'molecules')}")
        elif len(hits) < self.k and hits.n_failed:
            notes.append(
                f"only {amount(len(hits), 'molecules')} of the best products pass all filters, and no others "
                "were tested: limit what you can by --within, --smarts and --without-smarts, which hold "
                "during the search"
            )
        return notes


def shortlist_of_space(request: ScreenRequest) -> int | None:
    """Return the shortlist of a request as a number of products; fractions, for libraries, are refused."""
    shortlist = request.shortlist
    if shortlist is not None and (shortlist < 1 or shortlist != int(shortlist)):
        raise OptionError(
            f"The shortlist of a space is a number of products, such as 50000, not {shortlist:g}."
        )
    return None if shortlist is None else int(shortlist)


def first_shortlist(shortlist: int | None, k: int) -> int:
    """Return the length of the first shortlist, to find k products."""
    return shortlist or max(LEAST_SHORTLIST, _ROUGHLY * k)


def n_ranked(first: int) -> int:
    """Return how many products are kept for a first shortlist, to make it longer and to look below it."""
    return max(2 * first, min(DEEPEST * first, _MOST_KEPT))
