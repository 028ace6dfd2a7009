"""Search the products of a space for those similar to molecules, as a reduction over pieces."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np

from daskrf.arrays import NamedArrays
from daskrf.errors import InputError
from daskrf.jobs.memory import MemoryNeed, need_of_products
from daskrf.jobs.tree import Reduction, Root, Tree
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.screening import TopK
from daskrf.screens.space.cutspaces import TablesPlace, search_tables
from daskrf.screens.space.patternfilter import tables_at
from daskrf.screens.space.search import Chosen, Ranked
from daskrf.spaces import CutSpace
from daskrf.spaces.families import Family
from daskrf.spaces.limits import Range
from daskrf.spaces.ranking import Limit, Piece
from daskrf.spaces.similarity import Query, most_similar, pieces_of_similarity
from daskrf.workers.calls import check_stop


@dataclass(frozen=True)
class SimilarPieces:
    """Pieces of a space by number: a chunk for `SimilaritySearch`."""

    tables: TablesPlace
    pieces: tuple[int, ...] = ()

    def of(self, pieces: tuple[int, ...]) -> SimilarPieces:
        """Return the chunk of some pieces."""
        return replace(self, pieces=pieces)

    def __iter__(self) -> Iterator[Piece]:
        every = pieces_of_similarity(search_tables(self.tables).families)
        for number in self.pieces:
            check_stop()
            yield every[number]


@dataclass(frozen=True)
class SimilaritySearch(Reduction[Piece, Ranked, Ranked]):
    """Keeps the k products most similar to each of some queries.

    Attributes
    ----------
    tables : TablesPlace
    columns, counts : tuple of tuples of int
        Of each query: see `daskrf.spaces.similarity.Query`.
    k : int
        How many products are kept for each query.
    limits : tuple of Range
    patterns : str
        File of the pattern tables; empty without patterns.
    least : float
        Products below this similarity are left out, up to the rounding of single precision.
    """

    tables: TablesPlace
    columns: tuple[tuple[int, ...], ...]
    counts: tuple[tuple[int, ...], ...]
    k: int
    limits: tuple[Range, ...] = ()
    patterns: str = ""
    least: float = -math.inf
    name: str = "search"

    @classmethod
    def of(
        cls,
        tables: TablesPlace,
        queries: Sequence[Query],
        k: int,
        limits: tuple[Range, ...] = (),
        *,
        patterns: str = "",
        least: float = -math.inf,
    ) -> SimilaritySearch:
        """Return the search for the k products most similar to each query."""
        columns = tuple(tuple(query.columns.tolist()) for query in queries)
        counts = tuple(tuple(query.counts.tolist()) for query in queries)
        return cls(tables, columns, counts, k, limits, patterns, least)

    def zero(self) -> Ranked:
        return Ranked([TopK(self.k) for _ in self.columns])

    def add(self, total: Ranked, block: Piece) -> None:
        tables = search_tables(self.tables)
        family = tables.families[block.family]
        limits = [Limit(tables.sums[:, column], low, high) for column, low, high in self.limits]
        patterns = tables_at(self.patterns)[block.family] if self.patterns else None
        for number, (columns, counts) in enumerate(zip(self.columns, self.counts, strict=True)):
            query = Query(np.array(columns, np.int64), np.array(counts, np.int32))
            best = Chosen(family, total.tops[number], patterns, self.least)
            most_similar(block, family, tables.inner, query, limits, best, patterns)
            total.tops[number] = best.top()

    def finalize(self, total: Ranked, rest: Iterator[Ranked]) -> Ranked:
        return total

    def restore(self, arrays: NamedArrays) -> Ranked:
        every = range(len(self.columns))
        return Ranked([TopK(self.k, arrays[f"{i}/score"], arrays[f"{i}/row"]) for i in every])

    def tree(self, families: Sequence[Family], folder: PurePath, key: str) -> Tree[Piece, Ranked, Ranked]:
        """Return the tree of all pieces, with its checkpoints in a folder."""
        pieces = pieces_of_similarity(families)
        root = Root(self, SimilarPieces(self.tables).of, folder, key)
        return Tree(
            [root], [(i,) for i in range(len(pieces))], [piece.size for piece in pieces], "blocks of products"
        )


def need_of_similarity(
    cut: CutSpace, families: Sequence[Family], queries: Sequence[Query], n_kept: int
) -> MemoryNeed:
    """Return the memory of a task of the search that keeps `n_kept` products of each query."""
    pieces = pieces_of_similarity(families)
    rows = max(sum(stop - start for start, stop in piece.bounds) for piece in pieces)
    tables = cut.own.data.nbytes + cut.own.indices.nbytes
    tables += sum(s.counts.data.nbytes + s.counts.indices.nbytes for f in families for s in f.sides)
    columns = max(len(query.columns) for query in queries)
    return need_of_products(rows, columns, tables, n_kept * len(queries))


def queries_of(smiles: Sequence[str], spec: FingerprintSpec) -> list[Query]:
    """Return the queries of some SMILES.

    Raises
    ------
    InputError
        If one of them is not a molecule.
    """
    if not smiles:
        return []
    block = Fingerprinter(spec)(list(smiles))
    if block.rejects:
        at, reason = block.rejects[0]
        raise InputError(f"The molecule to compare with, {smiles[at]!r}, cannot be used: {reason}.")
    queries = [Query.of(block.fingerprints[i]) for i in range(len(smiles))]
    for text, query in zip(smiles, queries, strict=True):
        if not len(query.columns):
            raise InputError(f"The molecule to compare with, {text!r}, has no atoms.")
    return queries
