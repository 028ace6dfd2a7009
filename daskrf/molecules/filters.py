"""Conditions on molecules, as a chemist writes them: ``weight < 450 and 1 < logp < 4``; without RDKit."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from daskrf.errors import OptionError
from daskrf.molecules.isolation import Lost, each
from daskrf.molecules.names import listed

__all__ = ["ALERTS", "OPERATORS", "PROPERTIES", "Filters", "Limit", "limits_of"]

PROPERTIES = {
    "weight": ("molecular weight", "mw", "molwt"),
    "logp": ("clogp",),
    "tpsa": ("psa", "polar surface"),
    "rotatable bonds": ("rotatable", "rotbonds"),
    "donors": ("hbd", "hbond donors"),
    "acceptors": ("hba", "hbond acceptors"),
    "rings": (),
    "aromatic rings": (),
    "heavy atoms": ("atoms",),
    "charge": (),
    "fraction sp3": ("fsp3",),
}
"""What RDKit computes of a molecule, by name, and other names of it."""

ALERTS = ("pains", "brenk", "nih", "zinc")

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_AND = re.compile(r"\s*(?:,|;|&&?|\band\b)\s*", re.IGNORECASE)
_PARTS = re.compile(r"\s*(<=|>=|!=|==|<|>|=)\s*")
_PATTERNS = "daskrf.molecules.properties:pattern_reader"


@dataclass(frozen=True)
class Limit:
    """One comparison with a number.

    Attributes
    ----------
    name : str
        A property of `PROPERTIES`, or a column of the library.
    sign : str
        A key of `OPERATORS`.
    number : float
    column : bool
        Whether `name` is a column.
    """

    name: str
    sign: str
    number: float
    column: bool = False

    def __str__(self) -> str:
        return f"{self.name} {self.sign} {self.number:g}"

    def holds(self, value: float) -> bool:
        """Return whether a value meets it; NaN never does."""
        return value == value and OPERATORS[self.sign](value, self.number)


@dataclass(frozen=True)
class Filters:
    """All that a molecule has to pass.

    Attributes
    ----------
    limits : tuple of Limit
    smarts, without_smarts : tuple of str
        Patterns that it must contain, and that it must not contain.
    alerts : tuple of str
        Names of RDKit's catalogs of structural alerts, see `ALERTS`.
    """

    limits: tuple[Limit, ...] = ()
    smarts: tuple[str, ...] = ()
    without_smarts: tuple[str, ...] = ()
    alerts: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        where: str | Sequence[str],
        smarts: str | Sequence[str],
        without_smarts: str | Sequence[str],
        alerts: str | Sequence[str],
        columns: Collection[str] = (),
    ) -> Filters:
        """Return the filters given as text; `columns` are those of the library.

        Raises
        ------
        OptionError
            If a condition or a pattern cannot be read, or there is no such property, column or catalog.
        """
        patterns, unwanted, catalogs = _several(smarts), _several(without_smarts), _several(alerts)
        catalogs = tuple(name.lower() for text in catalogs for name in text.split(","))
        for name in catalogs:
            if name not in ALERTS:
                raise OptionError(f"There is no catalog of alerts {name!r}; take one of {', '.join(ALERTS)}.")
        given = (*patterns, *unwanted)
        for pattern, found in zip(given, each(_PATTERNS, (), given), strict=True):
            if found is not True:
                raise OptionError(f"RDKit cannot read the SMARTS {pattern!r}; correct it.")
        limits = tuple(limit for text in _several(where) for limit in limits_of(text, columns))
        return cls(limits, patterns, unwanted, tuple(dict.fromkeys(catalogs)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the library that limits need."""
        return tuple(dict.fromkeys(limit.name for limit in self.limits if limit.column))

    @property
    def computed(self) -> tuple[Any, ...]:
        """What RDKit has to test, in order: limits of properties, patterns, and catalogs."""
        return (
            *(limit for limit in self.limits if not limit.column),
            *(("smarts", pattern) for pattern in self.smarts),
            *(("without", pattern) for pattern in self.without_smarts),
            *(("alerts", name) for name in self.alerts),
        )

    @property
    def words(self) -> tuple[str, ...]:
        """What each filter demands, in words: limits of columns first, then `computed`."""
        named = {"smarts": "has {}", "without": "has no {}", "alerts": "has no {} alert"}
        columns = (f"{limit} (column)" for limit in self.limits if limit.column)
        rest = (
            str(test) if isinstance(test, Limit) else named[test[0]].format(test[1]) for test in self.computed
        )
        return (*columns, *rest)

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
        found = each("daskrf.molecules.properties:tester", (self.computed,), list(smiles))
        return [-2 if isinstance(value, Lost) else int(value) for value in found]


def limits_of(text: str, columns: Collection[str] = ()) -> tuple[Limit, ...]:
    """Return the comparisons in a text; a column of the library comes before a property of its name.

    Raises
    ------
    OptionError
        If a part is not a comparison of a known name with one or two numbers.

    Examples
    --------
    >>> [str(limit) for limit in limits_of("MW<450 and 1 <= logP < 4, price < 90", ["price"])]
    ['weight < 450', 'logp >= 1', 'logp < 4', 'price < 90']
    """
    return tuple(limit for part in _AND.split(text.strip()) for limit in _comparisons(part, text, columns))


def _comparisons(part: str, text: str, columns: Collection[str]) -> list[Limit]:
    """Return the comparisons of ``name < 1``, ``1 > name`` or ``0 < name < 1``."""
    words = _PARTS.split(part.strip())
    values, signs = words[0::2], words[1::2]
    names = [value for value in values if _number(value) is None]
    chain = len(values) == 2 or (len(values) == 3 and names[:1] == values[1:2])
    if not chain or len(names) != 1 or not names[0]:
        raise OptionError(
            f"The condition {part!r}{f' in {text!r}' if part != text else ''} cannot be read; write a name, "
            "a sign and a number, such as 'weight < 450', joined by 'and'."
        )
    name, column = _known(names[0], columns)
    limits = []
    for left, sign, right in zip(values, signs, values[1:], strict=False):
        number, mirrored = _number(right), _number(left)
        if number is not None:
            limits.append(Limit(name, sign, number, column))
        elif mirrored is not None:
            limits.append(Limit(name, _MIRRORED.get(sign, sign), mirrored, column))
    return limits


def _known(name: str, columns: Collection[str]) -> tuple[str, bool]:
    """Return the column or property with this name, and whether it is a column."""
    plain = _plain(name)
    for column in columns:
        if name == column or plain == _plain(column):
            return column, True
    for known, others in PROPERTIES.items():
        if plain in map(_plain, (known, *others)):
            return known, False
    kept = f" (columns that the library keeps: {listed(list(columns))})" if columns else ""
    raise OptionError(
        f"{name!r} is neither a column that the library keeps nor a property; properties are "
        f"{', '.join(PROPERTIES)}{kept}."
    )


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).lower()


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _several(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)
