"""What is required of the molecules of a batch, and how different they must be."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from daskrf.errors import InputError, OptionError
from daskrf.molecules.filters import Filters
from daskrf.molecules.structures import LEVELS, Level
from daskrf.quantities import listed
from daskrf.screens.budget import Budget
from daskrf.screens.passing import FilterTexts, check_columns, columns_of
from daskrf.sources.sources import Source


@dataclass(frozen=True)
class Demands:
    """What is required of the molecules of a batch; see `daskrf.suggest` for each field."""

    filters: FilterTexts = field(default_factory=FilterTexts)
    exclude: tuple[str | os.PathLike[str], ...] = ()
    max_similarity: float | None = None
    per_scaffold: int | None = None
    per_value: Mapping[str, int] = field(default_factory=dict)
    require: tuple[str, ...] = ()
    per_block: int | None = None
    exclude_by: Level = "tautomer"
    same_fingerprint: bool = False
    budget: Budget | None = None

    def check(self, columns: Sequence[str]) -> None:
        """Refuse impossible caps, and caps on columns that the library lacks."""
        if self.exclude_by not in LEVELS:
            raise OptionError(f"exclude_by is one of {', '.join(LEVELS)}, not {self.exclude_by!r}.")
        if self.budget is not None:
            self.budget.column(columns)
        if self.per_block is not None and self.per_block < 1:
            raise OptionError(f"per_block must be at least 1, not {self.per_block}.")
        for name, most in self.per_value.items():
            if name not in columns:
                there = f"has {listed(columns, chr(39))}" if columns else "keeps no further columns"
                raise InputError(
                    f"There is no column '{name}' in the library to cap by; it {there}. A fingerprint store "
                    "keeps those named by --keep-columns."
                )
            if most < 1:
                raise OptionError(f"per_value must be at least 1 for each column, not {most} for '{name}'.")

    def filters_of(self, source: Source) -> Filters:
        """Return what each molecule of a library must pass, after checking that its columns fit."""
        filters = self.filters.of_library(source)
        if self.budget is None:
            return filters
        filters = replace(filters, limits=(*self.budget.limits(columns_of(source)), *filters.limits))
        check_columns(filters, source)
        return filters

    @property
    def different(self) -> bool:
        """Whether picks rule out more than copies of themselves."""
        capped = self.per_scaffold or self.per_value or self.per_block or self.budget
        return bool(self.max_similarity is not None or capped)

    def caps(self, table: pa.Table) -> list[tuple[Sequence[str | Sequence[str | None] | None], int]]:
        """Return the values of each candidate that are capped, and how many picks may share a value."""
        caps = [(table[name].to_pylist(), n) for name, n in self.per_value.items()]
        if self.per_block:
            slots = (table[name].to_pylist() for name in table.column_names if _is_slot(name))
            caps.append((list(zip(*slots, strict=True)), self.per_block))
        return caps


def _is_slot(name: str) -> bool:
    """Return whether a column of products holds the blocks of a slot."""
    return name.startswith("block_") and name.removeprefix("block_").isdecimal()
