"""Conditions on molecules, as a chemist writes them: ``weight < 450 and 1 < logp < 4``; without RDKit."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from daskrf.errors import OptionError, printable
from daskrf.molecules.isolation import Lost, each
from daskrf.quantities import is_number, listed

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
"""Properties that RDKit computes, by name, with their other names."""

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
_EQUAL, _UNEQUAL = ("=", "=="), "!="
_PATTERNS = "daskrf.molecules.properties:pattern_reader"
_SHOWN = 80  # characters of a condition in a message
# Each is matched at one position, so reading takes time proportional to the length of the text.
_BLANKS = re.compile(r"\s*")
_SIGN = re.compile(r"<=|>=|!=|==|[<>=]")
_JOIN = re.compile(r"[,;]|&&?|and(?=\s|$)", re.IGNORECASE)
_WORD = re.compile(r"[^\s<>=!,;&]+|!(?!=)")
_LIST = re.compile(r"(not\s+)?in\s*([(\[])", re.IGNORECASE)
_ITEM = re.compile(r"[^,)\]]*")
_USUAL = "write a name, a comparison sign and a number, such as 'weight < 450', joined by 'and'"
_CLOSED_BY = {"(": ")", "[": "]"}
_QUOTES = "\"'`"


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

    text: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"{printable(self.name)} {self.sign} {self.number:g}"

    def holds(self, value: float) -> bool:
        """Return whether a value meets it; NaN never does."""
        return value == value and OPERATORS[self.sign](value, self.number)


@dataclass(frozen=True)
class Choice:
    """One comparison with a text, or with some texts or numbers.

    Attributes
    ----------
    name : str
        A column of the library, or for numbers a property of `PROPERTIES`.
    values : tuple of str, or tuple of float
    wanted : bool
        Whether the value must be one of `values`, or must be none of them.
    column : bool
        Whether `name` is a column.
    """

    name: str
    values: tuple[str, ...] | tuple[float, ...]
    wanted: bool = True
    column: bool = True

    @property
    def text(self) -> bool:
        """Whether texts are compared, rather than numbers."""
        return isinstance(self.values[0], str)

    @property
    def sign(self) -> str:
        """The sign as written."""
        if len(self.values) == 1 and self.text:
            return "==" if self.wanted else _UNEQUAL
        return "in" if self.wanted else "not in"

    def __str__(self) -> str:
        texts = (f'"{printable(each)}"' if isinstance(each, str) else f"{each:g}" for each in self.values)
        values = ", ".join(texts)
        return f"{printable(self.name)} {self.sign} {values if self.sign in OPERATORS else f'({values})'}"

    def holds(self, value: Any) -> bool:
        """Return whether a value meets it; NaN never does, and an empty cell is a text like any other."""
        if self.text:
            return ((value or "").strip() in self.values) == self.wanted
        return value == value and (value in self.values) == self.wanted


Comparison = Limit | Choice


@dataclass(frozen=True)
class Filters:
    """All that a molecule has to pass.

    Attributes
    ----------
    limits : tuple of Limit or Choice
    smarts, without_smarts : tuple of str
        Patterns that it must contain, and that it must not contain.
    alerts : tuple of str
        Names of RDKit's catalogs of structural alerts, see `ALERTS`.
    """

    limits: tuple[Comparison, ...] = ()
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
                raise OptionError(f"There is no alert catalog {name!r}; choose from {', '.join(ALERTS)}.")
        queries = (*patterns, *unwanted)
        for pattern, readable in zip(queries, each(_PATTERNS, (), queries), strict=True):
            if readable is not True:
                raise OptionError(f"RDKit cannot read the SMARTS {pattern!r}; correct it.")
        limits = tuple(limit for text in _several(where) for limit in limits_of(text, columns))
        return cls(limits, patterns, unwanted, tuple(dict.fromkeys(catalogs)))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the library that limits need."""
        return tuple(dict.fromkeys(limit.name for limit in self.limits if limit.column))

    @property
    def computed(self) -> tuple[Any, ...]:
        """The tests left to RDKit, in order: limits on properties, patterns, and catalogs."""
        return (
            *(limit for limit in self.limits if not limit.column),
            *(("smarts", pattern) for pattern in self.smarts),
            *(("without", pattern) for pattern in self.without_smarts),
            *(("alerts", name) for name in self.alerts),
        )

    @property
    def words(self) -> tuple[str, ...]:
        """What each filter requires, in words: limits on columns first, then `computed`."""
        named = {"smarts": "has {}", "without": "has no {}", "alerts": "has no {} alert"}
        columns = (f"{limit} (column)" for limit in self.limits if limit.column)
        rest = (
            named[test[0]].format(test[1]) if isinstance(test, tuple) else str(test) for test in self.computed
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


def limits_of(text: str, columns: Collection[str] = ()) -> tuple[Comparison, ...]:
    """Return the comparisons in a text; a column of the library comes before a property of its name.

    Names and texts may be quoted; a quote within them is written twice.

    Raises
    ------
    OptionError
        If a part is not a comparison of a known name with one or two numbers, or of a column with texts.

    Examples
    --------
    >>> [str(limit) for limit in limits_of("MW<450 and 1 <= logP < 4, price < 90", ["price"])]
    ['weight < 450', 'logp >= 1', 'logp < 4', 'price < 90']
    >>> columns = ["Supplier", "Price, USD"]
    >>> print(*limits_of("Supplier in ('Enamine', 'WuXi') and 'Price, USD' < 90", columns), sep="; ")
    Supplier in ("Enamine", "WuXi"); Price, USD < 90
    """
    reader, comparisons = _Reader(text, columns), list[Comparison]()
    while True:
        comparisons += reader.comparisons()
        if reader.take(_JOIN) is None:
            if reader.at < len(text):
                raise reader.refusal()
            return tuple(comparisons)


@dataclass(frozen=True)
class _Operand:
    """One side of a comparison, and whether it is in quotes."""

    text: str
    quoted: bool = False

    @property
    def number(self) -> float | None:
        """Its value as a number, or None."""
        number = float(self.text) if not self.quoted and is_number(self.text) else math.nan
        return None if math.isnan(number) else number


@dataclass
class _Reader:
    """Reads a text from left to right, up to `at`; `start` is where the current comparison begins."""

    text: str
    columns: Collection[str]
    at: int = 0
    start: int = 0

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Skip blanks, and consume what matches here."""
        self._skip_blanks()
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match

    def comparisons(self) -> list[Comparison]:
        """Read the next comparison: ``name < 1``, ``0 < name < 1``, ``name in (...)``."""
        self._skip_blanks()
        self.start = self.at
        operands, signs = [self._operand()], list[str]()
        if match := self.take(_LIST):
            return [self._chosen(operands[0], self._listed(match[2]), wanted=not match[1])]
        while sign := self.take(_SIGN):
            signs.append(sign[0])
            operands.append(self._operand())
        numbers = [operand.number for operand in operands]
        if len(operands) == 2 and numbers == [None, None]:
            return [self._compared_with_text(operands, signs[0])]
        names = [operand.text for operand, number in zip(operands, numbers, strict=True) if number is None]
        middle = len(operands) == 2 or (len(operands) == 3 and numbers[1] is None)
        if not middle or len(names) != 1:
            raise self.refusal()
        name, column = _resolved(names[0], self.columns)
        limits: list[Comparison] = []
        for left, mark, right in zip(numbers, signs, numbers[1:], strict=False):
            if right is not None:
                limits.append(Limit(name, mark, right, column))
            elif left is not None:
                limits.append(Limit(name, _MIRRORED.get(mark, mark), left, column))
        return limits

    def refusal(self, why: str = _USUAL) -> OptionError:
        """Return an error about the comparison being read."""
        rest = re.compile(r"[,;&]|\band\b", re.IGNORECASE).search(self.text, self.at)
        excerpt = self.text[self.start : rest.start() if rest else len(self.text)].strip()
        whole = "" if excerpt == self.text.strip() else f" in {printable(self.text, _SHOWN)!r}"
        return OptionError(f"The condition {printable(excerpt, _SHOWN)!r}{whole} cannot be read; {why}.")

    def _compared_with_text(self, operands: list[_Operand], sign: str) -> Choice:
        """Return the comparison of a column with a text, whichever comes first."""
        recognized = [_is_known(operand.text, self.columns) for operand in operands]
        name, other = operands if recognized[0] or not recognized[1] else operands[::-1]
        if all(recognized) and not other.quoted:
            raise self.refusal(f"write a number or a text in quotes, such as '{name.text} {sign} \"A\"'")
        if sign not in (*_EQUAL, _UNEQUAL):
            raise self.refusal(f"write a number after the sign; {other.text!r} is not a number")
        return self._chosen(name, [other], wanted=sign != _UNEQUAL)

    def _chosen(self, operand: _Operand, values: list[_Operand], *, wanted: bool) -> Choice:
        name, column = _resolved(operand.text, self.columns)
        numbers = [value.number for value in values]
        if None not in numbers:
            return Choice(name, tuple(number for number in numbers if number is not None), wanted, column)
        if not column:
            text = next(value.text for value in values if value.number is None)
            raise self.refusal(f"compare '{name}' with a number; {text!r} is not a number")
        return Choice(name, tuple(value.text for value in values), wanted)

    def _operand(self) -> _Operand:
        """Return a name, a number or a text: words up to a sign, or a quoted text."""
        self._skip_blanks()
        if self.text[self.at : self.at + 1] in (*_QUOTES,):
            return self._quoted()
        words: list[str] = []
        while not (words and self._is_next(_LIST)) and not self._is_next(_JOIN):
            if (word := self.take(_WORD)) is None:
                break
            words.append(word[0])
        if not words:
            raise self.refusal()
        return _Operand(" ".join(words))

    def _quoted(self) -> _Operand:
        mark, text = self.text[self.at], ""
        while (end := self.text.find(mark, self.at + 1)) >= 0:
            text += self.text[self.at + 1 : end]
            self.at = end
            if self.text[end + 1 : end + 2] != mark:
                self.at += 1
                return _Operand(text.strip(), quoted=True)
            text, self.at = text + mark, end + 1
        raise self.refusal(f"close the quote {mark}")

    def _listed(self, bracket: str) -> list[_Operand]:
        """Return the values of a list whose opening bracket has been read."""
        values: list[_Operand] = []
        while True:
            self._skip_blanks()
            quoted = self.text[self.at : self.at + 1] in (*_QUOTES,)
            item = self._quoted() if quoted else _Operand(str(self.take(_ITEM)[0]).strip())  # type: ignore[index]
            values += [item] if item.text or quoted else []
            self._skip_blanks()
            mark = self.text[self.at : self.at + 1]
            self.at += 1
            if mark == _CLOSED_BY[bracket] and values:
                return values
            if mark != ",":
                self.at = min(self.at, len(self.text))
                raise self.refusal('write a list such as \'supplier in ("A", "B")\'')

    def _is_next(self, pattern: re.Pattern[str]) -> bool:
        self._skip_blanks()
        return pattern.match(self.text, self.at) is not None

    def _skip_blanks(self) -> None:
        self.at = _BLANKS.match(self.text, self.at).end()  # type: ignore[union-attr]


def _is_known(name: str, columns: Collection[str]) -> bool:
    try:
        _resolved(name, columns)
    except OptionError:
        return False
    return True


def _resolved(name: str, columns: Collection[str]) -> tuple[str, bool]:
    """Return the column or property with this name, and whether it is a column."""
    plain = _plain(name)
    for column in columns:
        if name == column or plain == _plain(column):
            return column, True
    for property_name, others in PROPERTIES.items():
        if plain in map(_plain, (property_name, *others)):
            return property_name, False
    columns_note = f" (columns kept by the library: {listed(list(columns))})" if columns else ""
    raise OptionError(
        f"{name!r} is neither a column kept by the library nor a property; the properties are "
        f"{', '.join(PROPERTIES)}{columns_note}."
    )


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).lower()


def _several(texts: str | Sequence[str]) -> tuple[str, ...]:
    return (texts,) if isinstance(texts, str) else tuple(texts)
