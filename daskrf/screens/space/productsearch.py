"""The job of searching a space: by similarity to molecules, by patterns, or by both."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import sparse

from daskrf.errors import InputError
from daskrf.files.disk import work_folder
from daskrf.jobs.job import Job, Need, Report, Run
from daskrf.jobs.pieces import Done, Pieces
from daskrf.jobs.tree import Tree
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.quantities import amount
from daskrf.screening import TopK
from daskrf.screens.passing import FilterTexts
from daskrf.screens.space.cutspaces import TablesPlace, composing_once, left_out
from daskrf.screens.space.hits import Candidates, product_columns
from daskrf.screens.space.patternfilter import PatternFilter
from daskrf.screens.space.productscores import Scored, product_texts
from daskrf.screens.space.search import Ranked
from daskrf.screens.space.similarsearch import SimilaritySearch, need_of_similarity, queries_of
from daskrf.screens.space.spacefilters import SpaceFilters
from daskrf.spaces import CutSpace, Space, read_space
from daskrf.spaces.families import Family, decoded
from daskrf.spaces.limits import Range, range_words
from daskrf.spaces.ranking import Piece
from daskrf.spaces.sampling import counts_of
from daskrf.spaces.similarity import Query
from daskrf.storage.hits import write_hits
from daskrf.storage.outputs import guarded, refuse_others
from daskrf.storage.stores.store import hash_of

_VERSION = 1  # of the pieces of the search of a space
_MORE = 4  # times k products are kept, since some are the same molecule
_GROWTH = 4  # times as many are kept in the next try, if these were too few
_TRIES = 4


@dataclass(frozen=True)
class SearchRequest:
    """What a search asks for.

    Attributes
    ----------
    source : Path
        The space.
    output : Path
    smiles : tuple of str
        The molecules that products are compared with; none for random products.
    k : int
        Number of products for each of them.
    spec : FingerprintSpec
    limits : tuple of Range
    per_block : int or None
    overwrite : bool
    smarts, without_smarts : tuple of str
        Patterns that products must contain, and must not contain.
    seed : int
        Of random products.
    """

    source: PurePath
    output: PurePath
    smiles: tuple[str, ...]
    k: int
    spec: FingerprintSpec
    limits: tuple[Range, ...] = ()
    per_block: int | None = None
    overwrite: bool = False
    smarts: tuple[str, ...] = ()
    without_smarts: tuple[str, ...] = ()
    seed: int = 0


@dataclass
class ProductSearchJob(Job[Report]):
    """The job of `search`.

    Attributes
    ----------
    request : SimilarityRequest
    made : callable
        Makes the report.
    """

    request: SearchRequest
    made: Callable[..., Report]
    output: PurePath = field(init=False)
    space: Space = field(init=False)
    cut: CutSpace = field(init=False)
    families: list[Family] = field(init=False)
    tables: TablesPlace = field(init=False)
    queries: list[Query] = field(init=False)
    tree: Tree[Piece, Ranked, Ranked] = field(init=False)
    patterns: PatternFilter | None = None
    notes: tuple[str, ...] = ()

    name = "search"

    def __post_init__(self) -> None:
        self.output = self.request.output

    @property
    def locked(self) -> PurePath:
        """The output is a file."""
        return work_folder(self.output)

    def plan(self, run: Run) -> None:
        """Count the queries, and cut the space."""
        request = self.request
        refuse_others(self.output, run.work, overwrite=request.overwrite)
        self.queries = queries_of(request.smiles, request.spec)
        self.space = read_space(request.source)
        self.cut, self.families, self.tables = composing_once(self.space, request.spec, run)
        self.notes = tuple(left_out(self.cut))
        if request.smarts or request.without_smarts:
            filters = SpaceFilters.of(
                FilterTexts(smarts=request.smarts, without_smarts=request.without_smarts)
            )
            self.patterns = PatternFilter.of(run, self.tables.key, self.cut, self.families, filters)
            self.notes = (*self.notes, *self.patterns.notes)

    @property
    def spec(self) -> dict[str, object]:
        """Everything that determines the products; all shards must agree on it."""
        request = self.request
        return {
            "similar_to": list(request.smiles),
            "fingerprint": request.spec.state(),
            "k": request.k,
            "within": range_words(request.limits) or None,
            "per_block": request.per_block,
            "smarts": list(request.smarts),
            "without_smarts": list(request.without_smarts),
            "seed": None if request.smiles else request.seed,
            "library": self.space.digest,
        }

    def need(self) -> Need:
        if not self.queries:
            return Need()
        return Need(need_of_similarity(self.cut, self.families, self.queries, _MORE * self.request.k))

    def pieces(self, run: Run) -> list[Pieces]:
        run.agree(self.spec)
        if not self.queries:
            return [Done(1, "blocks of products")]
        self.tree = self._tree(run, _MORE * self.request.k)
        return [self.tree]

    def _tree(self, run: Run, n_kept: int) -> Tree[Piece, Ranked, Ranked]:
        """Return the search for `n_kept` products of each query."""
        patterns = self.patterns.path if self.patterns else ""
        search = SimilaritySearch.of(
            self.tables, self.queries, n_kept, self.request.limits, patterns=patterns
        )
        key = hash_of([self.spec, n_kept, _VERSION])
        return search.tree(self.families, run.work / f"partials-{n_kept}", key)

    def finish(self, run: Run, made: int) -> Report:
        """Write the products."""
        request = self.request
        if self.queries:
            best, notes = self._best(run)
            words = (f"compared by {request.spec.name} counts",)
        else:
            best, notes, words = [self._random()], (), (f"random products, seed {request.seed}",)
        hits = [candidates.best(request.k) for candidates in best]
        table = pa.concat_tables([self._table(number, each) for number, each in enumerate(hits)])
        if self.patterns is not None:
            self.patterns.check([name for each in hits for name in each.smiles], request.limits, request.seed)
        if not table.num_rows:
            raise InputError(f"No product of {request.source} lies within the limits; widen them (--within).")
        sizes = self.cut.sizes
        counted = (
            *words,
            f"{amount(sum(sizes), 'products')} of {amount(sum(map(bool, sizes)), 'reactions')}, if each way "
            "to make them counts",
        )
        notes = (*counted, *self.notes, *notes)
        about = {
            **self.spec,
            "made": f"{amount(table.num_rows, 'products')} {self._described()}",
            "source_kind": "space",
            "source": request.source.name,
            "notes": list(notes),
        }
        before = guarded(self.output, run.work, overwrite=request.overwrite)
        write_hits(table, self.output, about, kind="search", before=before)
        return self.made(
            output=self.output,
            table=table,
            queries=request.smiles,
            products=sum(sizes),
            seconds=run.seconds,
            notes=notes,
        )

    def _described(self) -> str:
        """Return what the products are, in words."""
        request = self.request
        to = request.smiles[0] if len(request.smiles) == 1 else amount(len(request.smiles), "molecules")
        words = f"similar to {to}" if request.smiles else "drawn at random"
        return f"{words} that {self.patterns.words}" if self.patterns is not None else words

    def _random(self) -> Candidates:
        """Return random products that are as the patterns ask; they are distinct molecules."""
        request = self.request
        assert self.patterns is not None  # what else is asked for
        n, every = 2 * request.k, self.patterns.n
        while True:
            row = self.patterns.drawn(n, request.seed, "space/search", request.limits)
            best = self._distinct(row, np.arange(len(row), 0.0, -1.0))
            if len(best) >= request.k or n >= every:
                return best
            n *= _GROWTH

    def _best(self, run: Run) -> tuple[list[Candidates], tuple[str, ...]]:
        """Return the products most similar to each query, which are distinct molecules, best first."""
        n_kept = _MORE * self.request.k
        for attempt in range(_TRIES):
            if attempt:
                n_kept *= _GROWTH
                self.tree = self._tree(run, n_kept)
                self.tree.make(client=run.client, progress=run.progress)
            tops = self.tree.result().tops
            best = [self._candidates(query, top.row) for query, top in zip(self.queries, tops, strict=True)]
            if all(self._enough(*both, n_kept) for both in zip(best, tops, strict=True)):
                return best, ()
        return best, (
            f"only the best {n_kept:,} products were compared, as very many are the same molecule, equally "
            "similar, or of the same blocks: others may be as similar as those found",
        )

    def _enough(self, best: Candidates, top: TopK, n_kept: int) -> bool:
        """Return whether no other product can be among the best k."""
        k = self.request.k
        if len(top) < n_kept:
            return True
        return len(best) >= k and float(np.float32(best.columns["score"][k - 1])) > float(top.score[-1])

    def _candidates(self, query: Query, row: npt.NDArray[np.int64]) -> Candidates:
        return self._distinct(row, query.similarities(counts_of(self.cut, decoded(self.cut, row.tolist()))))

    def _distinct(self, row: npt.NDArray[np.int64], score: npt.NDArray[np.float64]) -> Candidates:
        """Return the distinct molecules of products, the largest score first."""
        counts = counts_of(self.cut, decoded(self.cut, row.tolist()))
        scores = {"score": score, "key": _keys(counts)}
        scored = Scored(product_texts(self.cut, row), scores)
        return Candidates.of(self.cut, row, scored, self.request.per_block)

    def _table(self, number: int, best: Candidates) -> pa.Table:
        """Return the products of one query, or random ones, as a table."""
        table: dict[str, object] = {}
        if self.queries:
            self._check(number, best)
            table |= {
                "query": pa.array([self.request.smiles[number]] * len(best), pa.string()),
                "rank": pa.array(np.arange(1, len(best) + 1)),
                "similarity": np.asarray(best.columns["score"], np.float64),
            }
        table["row"] = best.row
        return pa.table(table | product_columns(self.cut, decoded(self.cut, best.row.tolist()), best.smiles))

    def _check(self, number: int, best: Candidates) -> None:
        """Refuse similarities that differ from those of the products' SMILES."""
        block = Fingerprinter(self.request.spec)(best.smiles)
        same = self.queries[number].similarities(block.fingerprints)
        if len(same) != len(best) or not np.array_equal(same, best.columns["score"]):
            raise InputError(
                "Similarities of products differ from those of their SMILES, so their fingerprints do not "
                f"compose; find the reaction by `daskrf check-space {self.request.source} --sample 5000`, "
                "and leave it out."
            )


def _keys(counts: sparse.csr_matrix) -> npt.NDArray[np.int64]:
    """Return a hash of each row."""
    counts.sort_indices()
    digests = [
        hashlib.blake2b(
            counts.indices[start:stop].tobytes() + counts.data[start:stop].tobytes(), digest_size=8
        )
        for start, stop in zip(counts.indptr[:-1].tolist(), counts.indptr[1:].tolist(), strict=True)
    ]
    return np.frombuffer(b"".join(digest.digest() for digest in digests), np.int64)
