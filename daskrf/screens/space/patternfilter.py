"""Patterns that products of a space must contain, or must not: found in its synthons, checked on products."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError
from daskrf.files.backend import absolute, as_path
from daskrf.jobs.job import Run
from daskrf.quantities import amount
from daskrf.screens.space.cutspaces import COMPARED
from daskrf.screens.space.productscores import Scored, product_texts
from daskrf.screens.space.spacefilters import SpaceFilters
from daskrf.spaces import CutSpace
from daskrf.spaces.families import Family
from daskrf.spaces.limits import Range
from daskrf.spaces.patterns import (
    AllowedProducts,
    PatternTable,
    by_rdkit,
    is_searched,
    n_allowed,
    n_looked_at,
    pattern_tables,
)
from daskrf.spaces.sampling import inside, random_numbers, rows_of_numbers
from daskrf.storage.model import Contents, made_once, needed_checkpoint
from daskrf.storage.stores.store import hash_of

Integers = npt.NDArray[np.int64]


@functools.lru_cache(maxsize=1)
def tables_at(path: str) -> list[PatternTable]:
    """Read the pattern tables of all families that a `PatternFilter` has left, once per process."""
    arrays = needed_checkpoint(path, as_path(path).name).arrays
    tables: list[PatternTable] = []
    while f"{len(tables)}/allowed" in arrays:
        allowed = arrays[f"{len(tables)}/allowed"]
        classes = [arrays[f"{len(tables)}/{slot}"] for slot in range(allowed.ndim)]
        tables.append(PatternTable(classes, allowed.astype(bool)))
    return tables


@dataclass(frozen=True)
class PatternFilter:
    """The products of a space that contain all wanted patterns, and none of the unwanted ones or of alerts.

    Attributes
    ----------
    filters : SpaceFilters
    cut : CutSpace
    families : list of Family
    path : str
        File of the pattern tables, for tasks.
    n : int
        Number of these products; each combination of synthons counts once.
    """

    filters: SpaceFilters
    cut: CutSpace
    families: list[Family]
    path: str
    n: int

    @classmethod
    def of(
        cls, run: Run, space_key: str, cut: CutSpace, families: list[Family], filters: SpaceFilters
    ) -> PatternFilter:
        """Look for the patterns in all synthons; `space_key` is a hash of what determines the families.

        Raises
        ------
        InputError
            If no product is as asked for.
        """
        wanted, unwanted = filters.wanted, filters.unwanted
        patterns = filters.patterns
        if not any(is_searched(cut, family, patterns) for family in families):
            raise InputError(
                f"{cut.space.path} has no other products: {_unsearched(cut, families, patterns)}."
            )
        key = hash_of([space_key, wanted, unwanted, *([filters.of_alerts] if filters.of_alerts else [])])
        path = run.work / f"patterns-{key[:16]}"

        def make() -> Contents:
            run.progress.start("patterns", n_looked_at(cut, families, patterns), "synthons")
            every = *unwanted, *filters.of_alerts
            tables = pattern_tables(cut, families, wanted, every, run.progress.advance)
            run.progress.finish()
            arrays: dict[str, npt.NDArray[np.generic]] = {
                f"{f}/allowed": table.allowed.astype(np.uint8) for f, table in enumerate(tables)
            }
            arrays |= {f"{f}/{s}": of for f, table in enumerate(tables) for s, of in enumerate(table.classes)}
            return arrays, {}

        made_once(path, path.name, make)
        n = sum(map(n_allowed, families, tables_at(absolute(path))))
        products = cls(filters, cut, families, absolute(path), n)
        if not n:
            raise InputError(f"None of the {products._words_of_all} of {cut.space.path} {products.words}.")
        return products

    @property
    def tables(self) -> list[PatternTable]:
        """One for each family."""
        return tables_at(self.path)

    @property
    def words(self) -> str:
        """What the products do, such as "contain C=O and do not contain N"."""
        return self.filters.words()

    @property
    def notes(self) -> tuple[str, ...]:
        """How many products these are, and where patterns and alerts were not looked for."""
        others = _unsearched(self.cut, self.families, self.filters.patterns)
        return (
            f"{self.n:,} of {self._words_of_all} {self.filters.words(self.n)}"
            + (f"; {others}" if others else ""),
            *self.filters.notes,
        )

    @property
    def _searched(self) -> list[bool]:
        """Whether patterns were looked for in each family."""
        patterns = self.filters.patterns
        return [is_searched(self.cut, family, patterns) for family in self.families]

    @property
    def _words_of_all(self) -> str:
        sizes = [
            family.size for family, searched in zip(self.families, self._searched, strict=True) if searched
        ]
        return amount(sum(sizes), "products")

    def holds(self, numbers: Integers) -> npt.NDArray[np.bool_]:
        """Return which products are as asked for."""
        mask = np.zeros(len(numbers), bool)
        for family, at, rows in rows_of_numbers(self.cut, self.families, numbers):
            mask[at] = self.tables[family].holds(rows)
        return mask

    def every(self) -> Integers:
        """Return the numbers of all products that are as asked for, ascending."""
        allowed = AllowedProducts(self.families, self.tables)
        numbers = allowed.numbers(np.arange(len(allowed), dtype=np.int64))
        return np.sort(numbers[numbers >= 0])

    def drawn(self, n: int, seed: int, name: str, limits: Sequence[Range]) -> Integers:
        """Return the numbers of at most n random products that are as asked for, within limits."""
        return self._drawn(self.tables, n, seed, name, limits)

    def _drawn(
        self, tables: Sequence[PatternTable], n: int, seed: int, name: str, limits: Sequence[Range]
    ) -> Integers:
        allowed = AllowedProducts(self.families, tables)

        def wanted(places: Integers) -> npt.NDArray[np.bool_]:
            numbers = allowed.numbers(places)
            made = numbers >= 0
            made[made] = inside(self.cut, numbers[made], limits)
            return made

        return allowed.numbers(random_numbers(len(allowed), n, seed, name, wanted))

    def check(self, smiles: Sequence[str], limits: Sequence[Range] = (), seed: int = 0) -> None:
        """Compare with RDKit: products to list, and random ones of both kinds.

        Raises
        ------
        InputError
            If RDKit finds the patterns in other products.
        """
        others = []
        tables, rest = (
            [
                PatternTable(table.classes, (table.allowed == are_allowed) & searched)
                for table, searched in zip(self.tables, self._searched, strict=True)
            ]
            for are_allowed in (True, False)
        )
        for each in (tables, rest):
            numbers = self._drawn(each, COMPARED, seed, "space/search", limits)
            others.append(Scored(product_texts(self.cut, numbers)).named(range(len(numbers))))
        texts = [*smiles, *others[0], *others[1]]
        expected = np.arange(len(texts)) < len(texts) - len(others[1])
        unwanted = (*self.filters.unwanted, *self.filters.of_alerts)
        differing = by_rdkit(texts, self.filters.wanted, unwanted) != expected
        if differing.any():
            raise InputError(
                f"RDKit does not find the patterns in {texts[int(np.argmax(differing))]} as in its synthons; "
                "write them with other queries of atoms, or filter a list of products."
            )


def _unsearched(cut: CutSpace, families: Sequence[Family], patterns: Sequence[str]) -> str:
    """Say in which reactions patterns are not looked for; empty if there are none."""
    others = [r for family in families if not is_searched(cut, family, patterns) for r in family.reactions]
    if not others:
        return ""
    names = ", ".join(cut.space.reactions[r].name for r in sorted(others))
    return (
        f"patterns that ask for sizes or numbers of rings are not looked for in {names}, where slots "
        "may close a ring together"
    )
