"""All that a molecule has to pass to be chosen: conditions, patterns and structural alerts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from daskrf.errors import OptionError
from daskrf.molecules.alerts import catalogs_of_texts
from daskrf.molecules.comparisons import Comparison
from daskrf.molecules.conditions import limits_of
from daskrf.molecules.isolation import Lost, each
from daskrf.molecules.similarto import SimilarTo

_PATTERNS = "daskrf.molecules.properties:pattern_reader"


@dataclass(frozen=True)
class Filters:
    """All that a molecule has to pass.

    Attributes
    ----------
    limits : tuple of Limit, Choice, Contains or Presence
    smarts, without_smarts : tuple of str
        Patterns that it must contain, and that it must not contain.
    alerts : tuple of str
        Names of RDKit's catalogs of structural alerts, see `daskrf.molecules.alerts`.
    similar_to : SimilarTo, optional
        Molecules that it must be similar to; only its threshold is tested.
    """

    limits: tuple[Comparison, ...] = ()
    smarts: tuple[str, ...] = ()
    without_smarts: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()
    similar_to: SimilarTo | None = None

    @classmethod
    def of(
        cls,
        where: str | Sequence[str],
        smarts: str | Sequence[str],
        without_smarts: str | Sequence[str],
        alerts: str | Sequence[str],
        columns: Collection[str] = (),
        *,
        similar_to: SimilarTo | None = None,
    ) -> Filters:
        """Return the filters given as text; `columns` are those of the library.

        Raises
        ------
        OptionError
            If a condition or a pattern cannot be read, or there is no such property, column or catalog.
        """
        patterns, unwanted = _several(smarts), _several(without_smarts)
        catalogs = catalogs_of_texts(_several(alerts))
        queries = (*patterns, *unwanted)
        for pattern, readable in zip(queries, each(_PATTERNS, (), queries), strict=True):
            if readable is not True:
                raise OptionError(f"RDKit cannot read the SMARTS {pattern!r}; correct it.")
        limits = tuple(limit for text in _several(where) for limit in limits_of(text, columns))
        return cls(limits, patterns, unwanted, catalogs, similar_to)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the library that limits need."""
        return tuple(dict.fromkeys(limit.name for limit in self.limits if limit.column))

    @property
    def computed(self) -> tuple[object, ...]:
        """The tests left to RDKit, in order: limits on properties, patterns, catalogs, and similarity."""
        threshold = self.similar_to is not None and self.similar_to.least is not None
        return (
            *(limit for limit in self.limits if not limit.column),
            *(("smarts", pattern) for pattern in self.smarts),
            *(("without", pattern) for pattern in self.without_smarts),
            *(("alerts", name) for name in self.alerts),
            *([self.similar_to] if threshold else []),
        )

    @property
    def words(self) -> tuple[str, ...]:
        """What each filter requires, in words: limits on columns first, then `computed`."""
        named = {"smarts": "has {}", "without": "has no {}", "alerts": "has no {} alert"}
        columns = (f"{limit} (column)" for limit in self.limits if limit.column)
        rest = (
            named[test[0]].format(test[1])
            if isinstance(test, tuple)
            else test.words
            if isinstance(test, SimilarTo)
            else str(test)
            for test in self.computed
        )
        return (*columns, *rest)

    @property
    def state(self) -> list[str]:
        """All filters as texts that differ if the filters do, unlike `words`, which round numbers."""
        return [repr(each) for each in (*self.limits, *self.computed)]

    def first_failed(self, smiles: Sequence[str]) -> list[int]:
        """Return, for each molecule, the index in `computed` of the first filter that it fails.

        -1 if it passes all, -2 if RDKit cannot tell.

        Examples
        --------
        >>> filters = Filters(limits_of("weight < 100"), ("O",))
        >>> filters.first_failed(["CCO", "CCC", "OCCCCCCCCC", "?"])
        [-1, 1, 0, -2]
        """
        if not self.computed:
            return [-1] * len(smiles)
        results = each("daskrf.molecules.properties:tester", (self.computed,), list(smiles))
        return [-2 if isinstance(value, Lost) else int(value) for value in results]


def _several(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)
