"""The filters of a space, divided into those that synthons decide and the others."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from daskrf.molecules.alerts import alerts_of, catalogs_of_texts
from daskrf.screens.passing import FilterTexts
from daskrf.spaces.patterns import is_decided


@dataclass(frozen=True)
class SpaceFilters:
    """The filters of a space, as the user writes them: those that synthons decide, and the others.

    Attributes
    ----------
    wanted, unwanted : tuple of str
        Patterns that products must contain, and must not contain, by synthons.
    of_alerts : tuple of str
        Alerts that they must not contain, by synthons.
    n_alerts : dict of str to (int, int)
        By catalog, the number of these, and of all alerts.
    others : FilterTexts
        What RDKit tests on products: conditions, patterns that look further than an atom and its bonds, and
        catalogs that have such patterns or count occurrences.
    """

    wanted: tuple[str, ...]
    unwanted: tuple[str, ...]
    of_alerts: tuple[str, ...]
    n_alerts: Mapping[str, tuple[int, int]]
    others: FilterTexts

    @classmethod
    def of(cls, texts: FilterTexts, *, rings: bool = False) -> SpaceFilters:
        """Divide filters; `rings` tells whether slots of reactions may close a ring together.

        Raises
        ------
        OptionError
            If RDKit cannot read a pattern, or there is no such property or catalog.

        Examples
        --------
        >>> filters = SpaceFilters.of(FilterTexts("weight < 300", ("NC=O", "[N;$(NC=O)]"), alerts="brenk"))
        >>> filters.wanted, filters.others.smarts, filters.n_alerts
        (('NC=O',), ('[N;$(NC=O)]',), {'brenk': (100, 105)})
        """
        texts.of(())  # refuses what cannot be read
        wanted, unwanted = texts.patterns
        by_synthons = functools.partial(is_decided, rings=rings)
        decided = {
            name: [
                alert.smarts for alert in alerts_of(name) if alert.least == 1 and by_synthons(alert.smarts)
            ]
            for name in catalogs_of_texts(tuple(texts.texts.get("alerts", ())))
        }
        n_alerts = {name: (len(some), len(alerts_of(name))) for name, some in decided.items()}
        return cls(
            tuple(filter(by_synthons, wanted)),
            tuple(filter(by_synthons, unwanted)),
            tuple(dict.fromkeys(smarts for some in decided.values() for smarts in some)),
            n_alerts,
            FilterTexts(
                where=texts.where,
                smarts=tuple(itertools.filterfalse(by_synthons, wanted)),
                without_smarts=tuple(itertools.filterfalse(by_synthons, unwanted)),
                alerts=tuple(name for name, (n, every) in n_alerts.items() if n < every),
            ),
        )

    @property
    def patterns(self) -> tuple[str, ...]:
        """All patterns that synthons decide."""
        return (*self.wanted, *self.unwanted, *self.of_alerts)

    @property
    def decides(self) -> bool:
        """Whether synthons decide any of the filters."""
        return bool(self.wanted or self.unwanted or self.of_alerts)

    def words(self, n: int = 2) -> str:
        """Return what n products do that pass, as far as synthons decide it.

        Examples
        --------
        >>> filters = SpaceFilters.of(FilterTexts(smarts="C=O", without_smarts="N", alerts=["brenk", "nih"]))
        >>> filters.words()
        'contain C=O and do not contain N and have no alerts of brenk and nih'
        >>> filters.words(1)
        'contains C=O and does not contain N and has no alerts of brenk and nih'
        """
        contain, do, have = ("contains", "does", "has") if n == 1 else ("contain", "do", "have")
        alerts = [f"{have} no alerts of {' and '.join(self.n_alerts)}"] if self.of_alerts else []
        return " and ".join(
            [
                *(f"{contain} {text}" for text in self.wanted),
                *(f"{do} not contain {text}" for text in self.unwanted),
                *alerts,
            ]
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """How many alerts synthons do not decide."""
        return tuple(
            f"{every - n:,} of the {every:,} alerts of {name} look further than an atom and its bonds, or "
            "count occurrences: the best products are tested for these one by one"
            for name, (n, every) in self.n_alerts.items()
            if n < every
        )
