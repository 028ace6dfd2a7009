"""Products of a space that are similar to some molecules: all of them are listed, and ranked as a list."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError, OptionError
from daskrf.files.backend import as_path
from daskrf.jobs.memory import MemoryNeed
from daskrf.jobs.tree import Tree
from daskrf.molecules import Fingerprinter
from daskrf.molecules.similarto import SIMILARITY_SPEC, SimilarTo
from daskrf.quantities import amount
from daskrf.screens.space.cutspaces import TablesPlace
from daskrf.screens.space.search import Ranked
from daskrf.screens.space.similarsearch import SimilaritySearch, need_of_similarity, queries_of
from daskrf.spaces import CutSpace
from daskrf.spaces.families import Family, starts_of
from daskrf.spaces.limits import Range, range_words
from daskrf.spaces.sampling import counts_of_numbers, rows_of_numbers
from daskrf.spaces.similarity import ROUNDED, Query
from daskrf.storage.model import made_once, read_checkpoint
from daskrf.storage.stores.store import hash_of

MOST_SIMILAR = 1_000_000
"""Products, at most, that are similar to a molecule: they are listed, and ranked one by one."""

_VERSION = 1  # of the pieces of the search

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SimilarFilter:
    """Finds all products of a space that are similar enough to one of some molecules.

    Attributes
    ----------
    similar : SimilarTo
    queries : list of Query
    cut : CutSpace
        Cut for the counts that are compared.
    families : list of Family
    tables : TablesPlace
    """

    similar: SimilarTo
    queries: list[Query]
    cut: CutSpace
    families: list[Family]
    tables: TablesPlace

    @classmethod
    def of(
        cls, similar: SimilarTo, cut: CutSpace, families: list[Family], tables: TablesPlace
    ) -> SimilarFilter:
        """Return the filter by counts of `SIMILARITY_SPEC`, for which the space is cut.

        Raises
        ------
        OptionError
            If more of the nearest products are wanted than can be listed.
        """
        if similar.nearest is not None and similar.nearest > MOST_SIMILAR:
            raise OptionError(
                f"nearest must be at most {MOST_SIMILAR:,}, as these products are listed, not "
                f"{similar.nearest:,}."
            )
        return cls(similar, queries_of(similar.smiles, SIMILARITY_SPEC), cut, families, tables)

    @property
    def n_most(self) -> int:
        """Number of products that are listed at most."""
        return len(self.queries) * min(self.similar.nearest or MOST_SIMILAR, MOST_SIMILAR)

    @property
    def _n_kept(self) -> int:
        """Number of products that are kept for each query: one more than there may be."""
        return self.similar.nearest or MOST_SIMILAR + 1

    def need(self) -> MemoryNeed:
        """Return the memory of a task of the search."""
        return need_of_similarity(self.cut, self.families, self.queries, self._n_kept)

    def tree(self, folder: PurePath, limits: tuple[Range, ...]) -> Tree:
        """Return the search, with its checkpoints below a folder.

        Products outside of `limits` are left out where this changes nothing: not of the nearest.
        """
        least = -math.inf if self.similar.least is None else self.similar.least - ROUNDED
        limits, key = self._limits(limits), self._key(limits)
        search = SimilaritySearch.of(self.tables, self.queries, self._n_kept, limits, least=least)
        return search.tree(self.families, folder / f"similar-{key[:16]}", key)

    def earlier(self, limits: tuple[Range, ...]) -> Integers | None:
        """Return the products that `leave` has left beside the tables, as another search has; or None."""
        key = self._key(limits)
        checkpoint = read_checkpoint(self._path(key), key)
        return None if checkpoint is None else checkpoint.arrays["numbers"]

    def leave(self, result: Ranked, limits: tuple[Range, ...]) -> Integers:
        """Return the products that pass, ascending, and leave them beside the tables for later searches.

        Raises
        ------
        InputError
            If more products reach the threshold than can be listed.
        """
        key = self._key(limits)
        made = made_once(self._path(key), key, lambda: ({"numbers": self._passing(result)}, {}))
        return made.arrays["numbers"]

    def numbered(self, numbers: Integers, other: CutSpace) -> Integers:
        """Return products, ascending, by their numbers in another cut of the space."""
        return np.unique(renumbered(self.cut, self.families, other, numbers))

    def _limits(self, limits: tuple[Range, ...]) -> tuple[Range, ...]:
        """Return the limits that hold during the search."""
        return () if self.similar.nearest is not None else limits

    def _key(self, limits: tuple[Range, ...]) -> str:
        """Return a hash of all that determines which products pass."""
        return hash_of([self.tables.key, repr(self.similar), range_words(self._limits(limits)), _VERSION])

    def _path(self, key: str) -> PurePath:
        return as_path(self.tables.folder) / f"similar-{key[:16]}"

    def _passing(self, result: Ranked) -> Integers:
        """Return the products that pass, in ascending order."""
        passing = []
        for text, query, top in zip(self.similar.smiles, self.queries, result.tops, strict=True):
            rows = top.row
            if self.similar.least is not None:
                rows = rows[self._similarities(query, rows) >= self.similar.least]
            if self.similar.nearest is None and len(rows) > MOST_SIMILAR:
                raise InputError(
                    f"More than {MOST_SIMILAR:,} products of {self.cut.space.path} have a similarity of "
                    f"{self.similar.least:g} or more to {text}, too many to list: raise --least-similarity, "
                    f"or take the most similar by --nearest {MOST_SIMILAR}."
                )
            passing.append(rows)
        return np.unique(np.concatenate(passing))

    def _similarities(self, query: Query, numbers: Integers) -> npt.NDArray[np.float64]:
        """Return the similarity of each product to a query, in double precision."""
        values = np.empty(len(numbers))
        for at, counts in counts_of_numbers(self.cut, self.families, numbers):
            values[at] = query.similarities(counts)
        return values

    @functools.cached_property
    def notes(self) -> tuple[str, ...]:
        """Reactions whose products cannot be compared."""
        reactions = self.cut.space.reactions
        out = [r.name for r, size in zip(reactions, self.cut.sizes, strict=True) if not size]
        if not out:
            return ()
        return (
            f"{amount(len(out), 'reactions')} without counts to compare {'has' if len(out) == 1 else 'have'} "
            f"no similar products: {', '.join(out)}",
        )

    @property
    def words(self) -> str:
        """What products must be, in words."""
        return f"{self.similar.words} (Tanimoto of {SIMILARITY_SPEC.name} counts)"

    def check(self, smiles: Sequence[str]) -> None:
        """Compare products to be shown with the threshold by their SMILES.

        Raises
        ------
        InputError
            If one of them is not similar enough.
        """
        if self.similar.least is None or not len(smiles):
            return
        block = Fingerprinter(SIMILARITY_SPEC)(list(smiles))
        best = np.max([query.similarities(block.fingerprints) for query in self.queries], axis=0)
        if len(best) != len(smiles) or not (best >= self.similar.least).all():
            raise InputError(
                "Similarities of products differ from those of their SMILES, so their fingerprints do not "
                f"compose; find the reaction by `daskrf check-space {self.cut.space.path} --sample 5000`, "
                "and leave it out."
            )


def renumbered(cut: CutSpace, families: Sequence[Family], other: CutSpace, numbers: Integers) -> Integers:
    """Return the lowest numbers of products in another cut of their space, which may lack other reactions.

    The entries of a reaction are the same, whatever is counted. Products that only reactions make which
    `other` lacks are left out.
    """
    starts, sizes, moved = starts_of(other), other.sizes, np.full(len(numbers), -1, np.int64)
    for number, at, rows in rows_of_numbers(cut, families, numbers):
        family = families[number]
        places = [i for i, r in enumerate(family.reactions) if sizes[r]]
        there = replace(
            family,
            reactions=tuple(family.reactions[i] for i in places),
            starts=tuple(starts[family.reactions[i]] for i in places),
            shapes=tuple(family.shapes[i] for i in places),
            sides=[replace(side, places=side.places[places]) for side in family.sides],
        )
        moved[at] = there.number(rows)
    return moved[moved >= 0]
