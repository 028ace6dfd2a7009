"""A budget for a whole batch: the column of prices, and what the molecules of a batch may cost together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from daskrf.errors import InputError, OptionError, printable
from daskrf.molecules.comparisons import Limit
from daskrf.molecules.conditions import column_named
from daskrf.quantities import listed
from daskrf.screens.passing import columns_of, numbers_of_column, smallest_number
from daskrf.sources.sources import Source


@dataclass(frozen=True)
class Budget:
    """What a batch may cost.

    Attributes
    ----------
    total : float
        In the unit of the prices.
    price : str
        The column of prices, as the user names it.
    """

    total: float
    price: str

    @classmethod
    def of(cls, total: float | None, price: str | None) -> Budget | None:
        """Return the budget that options ask for, or None without them.

        Raises
        ------
        OptionError
            One of the two is missing, or the budget is not a positive number.
        """
        if total is None and price is None:
            return None
        if total is None or price is None:
            raise OptionError(
                "--budget and --price go together, such as --budget 20000 --price Price; give both, or for a "
                "limit on each molecule --where 'Price < 100'."
            )
        if not (math.isfinite(total) and total > 0):
            raise OptionError(f"The budget must be a positive number, not {total:g}.")
        return cls(float(total), price)

    def column(self, columns: Sequence[str]) -> str:
        """Return the column of prices among those of a library."""
        column = column_named(self.price, columns)
        if column is None:
            there = f"has {listed(columns, chr(39))}" if columns else "keeps no further columns"
            raise InputError(
                f"There is no column '{printable(self.price)}' of prices in the library; it {there}. A "
                "fingerprint store keeps those named by --keep-columns."
            )
        return column

    def limits(self, columns: Sequence[str]) -> tuple[Limit, Limit]:
        """Return what each molecule must meet: a price, which is not negative and within the budget."""
        name = self.column(columns)
        return Limit(name, ">=", 0.0, column=True), Limit(name, "<=", self.total, column=True)

    def prices(self, source: Source, table: pa.Table) -> npt.NDArray[np.float64]:
        """Return the prices of candidates that are described by the columns of a library."""
        name = self.column(columns_of(source))
        return numbers_of_column(source, name, table[name])

    def refusal(self, source: Source) -> str:
        """Return that no molecule can be paid, and what the cheapest costs, if that is quickly found."""
        name = self.column(columns_of(source))
        cheapest = smallest_number(source, name)
        least = "" if cheapest is None else f"; the cheapest in the library costs {cheapest:,.10g}"
        return f"A budget of {self.total:,.10g} buys none of the molecules, by '{printable(name)}'{least}"

    def note(self, n: int, most: int, cost: float, *, spent: bool) -> str:
        """Return what a batch of at most `most` molecules costs, in words, and why it has no more."""
        why = "; what is left buys no candidate" if spent else "; no other molecule that passes can be paid"
        text = f"{n:,} molecules for {cost:,.10g} of a budget of {self.total:,.10g}, by '{self.price}'"
        return text if n == most else text + why
