"""Conditions as a chemist writes them: ``weight < 450 and Supplier in [A, B] and not name ~ "salt"``.

`docs/filters.md` has the grammar. A text is read from left to right, in time proportional to its length.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass

from daskrf.errors import OptionError, printable
from daskrf.molecules.comparisons import Choice, Comparison, Contains, Limit, Place, Presence
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

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_EQUAL, _UNEQUAL = ("=", "=="), "!="
_SHOWN = 80  # characters of a condition in a message
_WORDS = 8  # of a name that is looked for at the start of what cannot be read
# Each is matched at one position, so reading takes time proportional to the length of the text.
_BLANKS = re.compile(r"\s*")
_SIGN = re.compile(r"<=|>=|!=|==|[<>=]")
_JOIN = re.compile(r"[,;]|&&?|and(?=\s|$)", re.IGNORECASE)
_WORD = re.compile(r"[^\s<>=!~,;&]+|!(?![=~])")
_LIST = re.compile(r"(not\s+)?in\s*([(\[])", re.IGNORECASE)
_CONTAINS = re.compile(r"(not\s*|!)?~", re.IGNORECASE)
_PRESENCE = re.compile(
    r"(?:is\s+)?(not\s+)?(missing|present)(?=\s*(?:$|[,;&])|\s+and(?:\s|$))", re.IGNORECASE
)
_NOT = re.compile(r"not(?=\s)", re.IGNORECASE)
_ITEM = re.compile(r"[^,)\]]*")
_USUAL = "write a name, a comparison sign and a number, such as 'weight < 450', joined by 'and'"
_NO_OR = "write 'name in [A, B]' for several values, as there is no 'or'; a text that holds it needs quotes"
_CLOSED_BY = {"(": ")", "[": "]"}
_QUOTES = "\"'`"
_BENT = "\u201c\u201d\u201e\u201a\u2018\u2019\u00ab\u00bb"  # quotes as web pages write them


def limits_of(text: str, columns: Collection[str] = ()) -> tuple[Comparison, ...]:
    """Return the comparisons in a text; a column of the library comes before a property of its name.

    Names and texts may be quoted; a quote within them is written twice.

    Raises
    ------
    OptionError
        If a condition is none of those of the grammar, or compares a property with a text. The message says
        at which character.

    Examples
    --------
    >>> [str(limit) for limit in limits_of("MW<450 and 1 <= logP < 4, price < 90", ["price"])]
    ['weight < 450', 'logp >= 1', 'logp < 4', 'price < 90']
    >>> columns = ["Supplier", "Price, USD", "CAS"]
    >>> print(*limits_of("Supplier in ('Enamine', 'WuXi') and 'Price, USD' < 90", columns), sep="; ")
    Supplier in ("Enamine", "WuXi"); Price, USD < 90
    >>> print(*limits_of("not Supplier ~ 'chem' and CAS present and not weight > 450", columns), sep="; ")
    Supplier !~ "chem"; CAS present; weight <= 450
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
    """One side of a comparison, where it begins, and whether it is in quotes."""

    text: str
    at: int
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
        """Read the next condition: a comparison, or ``not`` and one."""
        self._skip_blanks()
        self.start = self.at
        negated = self._negated()
        comparisons = self._affirmed()
        if not negated:
            return comparisons
        if len(comparisons) > 1:
            raise self.refusal("write 'not' before one comparison, not before two limits", self.start)
        return [each.negated() for each in comparisons]

    def refusal(self, why: str = _USUAL, at: int | None = None) -> OptionError:
        """Return an error about the condition being read, and what stands at a character of it."""
        rest = re.compile(r"[,;&]|\band\b", re.IGNORECASE).search(self.text, self.at)
        excerpt = self.text[self.start : rest.start() if rest else len(self.text)].strip()
        whole = "" if excerpt == self.text.strip() else f" in {printable(self.text, _SHOWN)!r}"
        where = f"at character {(self.at if at is None else at) + 1}"
        return OptionError(
            f"The condition {printable(excerpt, _SHOWN)!r}{whole} cannot be read {where}; {why}."
        )

    def _negated(self) -> bool:
        """Consume ``not``, unless it begins the name of a column."""
        match = self.take(_NOT)
        if match is None:
            return False
        self._skip_blanks()
        after, self.at = self.at, match.start()
        if self.text[after : after + 1] in (*_QUOTES,) or not self._is_known(self._operand().text):
            self.at = after
            return True
        self.at = match.start()
        return False

    def _affirmed(self) -> list[Comparison]:
        """Read ``name < 1``, ``0 < name < 1``, ``name in (...)``, ``name ~ "a"`` or ``name missing``."""
        operands, signs = [self._operand()], list[str]()
        first = operands[0]
        if match := self.take(_LIST):
            return [self._chosen(first, self._listed(match[2]), wanted=not match[1])]
        if match := self.take(_CONTAINS):
            return [self._contained(first, self._operand(), wanted=not match[1])]
        if match := self.take(_PRESENCE):
            wanted = (match[2].lower() == "present") != bool(match[1])
            return [Presence(self._column(first), wanted, self._place(first))]
        while sign := self.take(_SIGN):
            signs.append(sign[0])
            operands.append(self._operand())
        numbers = [operand.number for operand in operands]
        if len(operands) == 2 and numbers == [None, None]:
            return [self._compared_with_text(operands, signs[0])]
        names = [operand for operand, number in zip(operands, numbers, strict=True) if number is None]
        middle = len(operands) == 2 or (len(operands) == 3 and numbers[1] is None)
        if not middle or len(names) != 1:
            raise self._unknown_sign(operands)
        name, column = self._resolved(names[0])
        place = self._place(names[0])
        limits: list[Comparison] = []
        for left, mark, right in zip(numbers, signs, numbers[1:], strict=False):
            if right is not None:
                limits.append(Limit(name, mark, right, column, place))
            elif left is not None:
                limits.append(Limit(name, _MIRRORED.get(mark, mark), left, column, place))
        return limits

    def _unknown_sign(self, operands: list[_Operand]) -> OptionError:
        """Return an error about operands that make no comparison: it names what stands in place of a sign."""
        for operand in operands:
            self._refuse_or(operand)
        operand = operands[0]
        words = [] if operand.quoted or len(operands) > 1 else operand.text.split(" ")
        prefixes = (n for n in range(1, min(len(words), _WORDS)) if self._is_known(" ".join(words[:n])))
        if not (n := max(prefixes, default=0)):
            return self.refusal()
        why = "is no comparison; write one of <, <=, >, >=, ==, !=, in, ~, missing, present"
        return self.refusal(f"{printable(words[n], _SHOWN)!r} {why}", self._at_word(operand, n))

    def _refuse_or(self, operand: _Operand) -> None:
        """Refuse the word ``or`` within a side of a comparison, unless it is in quotes."""
        words = [] if operand.quoted else operand.text.lower().split(" ")
        if "or" in words[1:]:
            raise self.refusal(_NO_OR, self._at_word(operand, words.index("or", 1)))

    def _at_word(self, operand: _Operand, number: int) -> int:
        """Return where a word of an operand begins, from its blanks as they are written."""
        at = operand.at
        for _ in range(number):
            at = _BLANKS.match(self.text, _WORD.match(self.text, at).end()).end()  # type: ignore[union-attr]
        return at

    def _compared_with_text(self, operands: list[_Operand], sign: str) -> Choice:
        """Return the comparison of a column with a text, whichever comes first."""
        for operand in operands:
            self._refuse_or(operand)
        recognized = [self._is_known(operand.text) for operand in operands]
        name, other = operands if recognized[0] or not recognized[1] else operands[::-1]
        if all(recognized) and not other.quoted:
            why = f"write a number or a text in quotes, such as '{name.text} {sign} \"A\"'"
            raise self.refusal(why, other.at)
        if sign not in (*_EQUAL, _UNEQUAL):
            why = f"write a number after the sign; {other.text!r} is not a number"
            raise self.refusal(why, other.at)
        return self._chosen(name, [other], wanted=sign != _UNEQUAL)

    def _chosen(self, operand: _Operand, values: list[_Operand], *, wanted: bool) -> Choice:
        name, column = self._resolved(operand)
        numbers = [value.number for value in values]
        place = self._place(operand)
        if None not in numbers:
            return Choice(name, tuple(x for x in numbers if x is not None), wanted, column, place)
        if not column:
            text = next(value for value in values if value.number is None)
            raise self.refusal(f"compare '{name}' with a number; {text.text!r} is not a number", text.at)
        return Choice(name, tuple(value.text for value in values), wanted, place=place)

    def _contained(self, operand: _Operand, text: _Operand, *, wanted: bool) -> Contains:
        self._refuse_or(text)
        if not text.text:
            raise self.refusal("write the text to look for after ~, such as 'name ~ \"salt\"'", text.at)
        return Contains(self._column(operand), text.text, wanted, self._place(operand))

    def _column(self, operand: _Operand) -> str:
        """Return the column that an operand names; a property always has a value, and is no text."""
        name, column = self._resolved(operand)
        if not column:
            why = f"'{name}' is computed for every molecule; compare it with a number"
            raise self.refusal(why, operand.at)
        return name

    def _place(self, operand: _Operand) -> Place:
        return Place(self.text, operand.at)

    def _resolved(self, operand: _Operand) -> tuple[str, bool]:
        """Return the column or property that an operand names, and whether it is a column."""
        match = _match(operand.text, self.columns)
        if match is None:
            columns = f" (columns kept by the library: {listed(list(self.columns))})" if self.columns else ""
            raise OptionError(
                f"{printable(operand.text, _SHOWN)!r} is neither a column kept by the library nor a "
                f"property, {self._place(operand)}; the properties are {', '.join(PROPERTIES)}{columns}."
            )
        return match

    def _is_known(self, name: str) -> bool:
        return _match(name, self.columns) is not None

    def _operand(self) -> _Operand:
        """Return a name, a number or a text: words up to a sign, or a quoted text."""
        self._skip_blanks()
        start = self.at
        if self.text[self.at : self.at + 1] in (*_QUOTES,):
            return self._quoted()
        words: list[str] = []
        while not (words and any(map(self._is_next, (_LIST, _CONTAINS, _PRESENCE)))):
            if self._is_next(_JOIN) or (word := self.take(_WORD)) is None:
                break
            words.append(word[0])
        if not words:
            raise self.refusal()
        return self._straight(_Operand(" ".join(words), start))

    def _straight(self, operand: _Operand) -> _Operand:
        """Return an operand; refuse one that begins with a quote which would be part of the text."""
        if not operand.quoted and operand.text[:1] in (*_BENT,):
            raise self.refusal(f'{operand.text[0]} does not quote here; write " in its place', operand.at)
        return operand

    def _quoted(self) -> _Operand:
        mark, pieces, start = self.text[self.at], list[str](), self.at
        while (end := self.text.find(mark, self.at + 1)) >= 0:
            pieces.append(self.text[self.at + 1 : end])
            self.at = end + 1
            if self.text[self.at : self.at + 1] != mark:
                return _Operand(mark.join(pieces).strip(), start, quoted=True)
        raise self.refusal(f"close the quote {mark}", start)

    def _listed(self, bracket: str) -> list[_Operand]:
        """Return the values of a list whose opening bracket has been read."""
        values: list[_Operand] = []
        while True:
            self._skip_blanks()
            quoted = self.text[self.at : self.at + 1] in (*_QUOTES,)
            start = self.at
            item = self._quoted() if quoted else _Operand(str(self.take(_ITEM)[0]).strip(), start)  # type: ignore[index]
            values += [self._straight(item)] if item.text or quoted else []
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


def _match(name: str, columns: Collection[str]) -> tuple[str, bool] | None:
    """Return the column or property with this name, and whether it is a column; None if there is none."""
    plain = _plain(name)
    for column in columns:
        if name == column or plain == _plain(column):
            return column, True
    for property_name, others in PROPERTIES.items():
        if plain in map(_plain, (property_name, *others)):
            return property_name, False
    return None


def column_named(name: str, columns: Collection[str]) -> str | None:
    """Return the column with a name, in whatever capitals and with whatever blanks; None if there is none.

    Examples
    --------
    >>> column_named("price_usd", ["CAS", "Price USD"])
    'Price USD'
    """
    match = _match(name, columns)
    return match[0] if match is not None and match[1] else None


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]+", "", name).lower()
