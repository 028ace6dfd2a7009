"""How the numbers of a column are written: decimal and thousands separators, units, classes."""

from __future__ import annotations

import html
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daskrf.errors import InputError, printable
from daskrf.quantities import MISSING, is_number
from daskrf.tables.values.classes import ClassWords
from daskrf.tables.values.units import CURRENCIES, unit_of_cell

Floats = npt.NDArray[np.float64]
Kinds = npt.NDArray[np.uint8]

NUMBER, EMPTY, WORDS, CENSORED, UNIT, LOGARITHM, OTHERWISE, HUGE, DROPPED, NO_LIMIT, WEIGHT = range(11)
"""What a cell holds: see `Notation.read`; a `Scale` finds UNIT, LOGARITHM, HUGE and WEIGHT, `Limits`
DROPPED."""

RELATIONS = (">>", ">=", "=>", "<<", "<=", "=<", *"<>≥≤~≈=")
"""Signs before a value; all but "=" make it a censored one."""
_SIGN_WORDS = {
    "<": "lt, less, less than, below, under, left",
    ">": "gt, greater, greater than, more than, above, over, right",
    "<=": "le, lte, less than or equal, less than or equal to, \u2266, \u2a7d",
    ">=": "ge, gte, greater than or equal, greater than or equal to, \u2267, \u2a7e",
    "~": "ca, ca., circa, about, approx, approx., approximately, \u2248, \u223c",
    "=": "==, eq, equal, equals, equal to, exact, exactly, measured, uncensored",
}
_SIGNS_OF_WORDS = {word: sign for sign, words in _SIGN_WORDS.items() for word in words.split(", ")}

# "no activity at 10 uM" is "> 10 uM".
_INACTIVE = re.compile(
    r"^(?:no(?:t|n)?[ -]?(?:significant )?"
    r"(?:activity|active|inhibition|effect|response|binding|toxicity|toxic)|inactive)"
    r"(?: observed| seen| detected)?,? (?:at|up to|@) ?",
    re.I,
)
_RELATION = re.compile(rf"^(?:{'|'.join(RELATIONS)})\s*")
_CELL = re.compile(
    rf"(?P<relation>{'|'.join(RELATIONS)})?\s*(?P<outer>[+-]?)\s*(?P<before>[^\d\s.,+-]+)?\s*"
    r"(?P<number>[+-]?[.,]?\d[\d.,]*(?:[eE][+-]?\d+)?)\s*(?P<after>\D.*)?"
)
_GROUPS = re.compile(r"(?<![\d.,])\d{1,3}(?:[ '\u2019\u00a0\u2009\u202f]\d{3})+(?!\d)")
_GROUP_MARK = re.compile(r"[ '\u2019\u00a0\u2009\u202f]")
_SHOWN = 40  # characters of a cell in a message

# How the digits of a number show its separators. The digits and the exponent are cut off from the sign.
_POINT = re.compile(r"\d*\.\d*")
_COMMA = re.compile(r"\d*,\d*")
_DOUBT = re.compile(r"[1-9]\d{0,2},\d{3}")  # a decimal comma, or thousands
_POINT_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+")
_THOUSANDS_POINT = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+\.\d*|[1-9]\d{0,2}(?:,\d{3}){2,}")
_THOUSANDS_COMMA = re.compile(r"[1-9]\d{0,2}(?:\.\d{3})+,\d*|[1-9]\d{0,2}(?:\.\d{3}){2,}")


@dataclass(frozen=True)
class _Cell:
    """A number as it is written: sign, digits with separators, exponent, and what stands around it."""

    relation: str
    sign: str
    digits: str
    exponent: str
    unit: str
    grouped: bool

    def value(self, decimal: str) -> float | None:
        """Return the number where `decimal` is the sign before fractions; None if it is not so written."""
        digits = self.digits
        if decimal == ",":
            if _THOUSANDS_COMMA.fullmatch(digits) or _POINT_THOUSANDS.fullmatch(digits):
                digits = digits.replace(".", "")
            elif "." in digits or digits.count(",") > 1:
                return None
            digits = digits.replace(",", ".")
        elif "," in digits:
            if not _THOUSANDS_POINT.fullmatch(digits) and not (decimal and _DOUBT.fullmatch(digits)):
                return None
            digits = digits.replace(",", "")
        return float(self.sign + digits + self.exponent)


@dataclass(frozen=True)
class Notation:
    """How the numbers of a column are written, found from some of its cells.

    Attributes
    ----------
    decimal : {"", ".", ","}
        Sign before fractions; "" if no cell says so. Numbers then have points, and a comma is refused.
    thousands : str
        Words for what separates thousands, if anything does.
    classes : ClassWords or None
        The words for 1 and 0 in a column of two classes; None in a column of numbers.
    unit : str
        The unit that stands beside most numbers, "" if most have none.

    Examples
    --------
    >>> german = Notation.of(["1.234,50 EUR", "90 EUR"], "'price'")
    >>> german.read(["1.234,50 EUR", "7,5 EUR", "$90", "n/a"])[0].tolist(), german.unit
    ([1234.5, 7.5, 90.0, nan], 'EUR')
    >>> print(german.words(), Notation.of(["TRUE", "FALSE"], "'active'").words(), sep="; ")
    decimal commas, thousands separated by points; 'TRUE' read as 1 and 'FALSE' as 0
    """

    decimal: str = ""
    thousands: str = ""
    classes: ClassWords | None = None
    unit: str = ""

    @classmethod
    def of(
        cls, texts: Iterable[str], where: str, *, semicolons: bool = False, positive: Sequence[str] = ()
    ) -> Notation:
        """Return how the numbers in some cells are written.

        Parameters
        ----------
        texts : iterable of str
        where : str
            Names the column in messages.
        semicolons : bool
            Whether columns are separated by semicolons, as Excel does where commas are decimal.
        positive : sequence of str
            Words that the user names as those of the positive class.

        Raises
        ------
        InputError
            Cells are written in different ways, or "1,200" could mean either number.
        """
        there = [text.strip() for text in texts if text.strip().lower() not in MISSING]
        if classes := ClassWords.of(there, where, positive):
            return cls(classes=classes)
        cells = [(text, cell) for text in there if (cell := _cell(text)) is not None]
        points = [(text, cell) for text, cell in cells if _has_point(cell.digits)]
        commas = [(text, cell) for text, cell in cells if _has_comma(cell.digits)]
        doubtful = [text for text, cell in cells if _DOUBT.fullmatch(cell.digits)]
        if points and commas:
            raise InputError(
                f"{where} holds {_quoted(points[0][0])} and {_quoted(commas[0][0])}, with decimal points and "
                "commas; use one notation throughout"
            )
        if doubtful and not points and not commas and not semicolons:
            text = doubtful[0]
            point, none = text.replace(",", "."), text.replace(",", "")
            raise InputError(
                f"{where} holds {_quoted(text)}, which may mean {point} or {none}; write it as one of them"
            )
        comma = bool(commas or (doubtful and not points))
        decimal = "," if comma else "." if points or any("." in cell.digits for _, cell in cells) else ""
        marks = {
            "spaces or apostrophes": any(cell.grouped for _, cell in cells),
            "points": comma and any(_POINT_THOUSANDS.match(cell.digits) for _, cell in cells),
            "commas": not comma and any("," in cell.digits for _, cell in cells),
        }
        units = Counter(cell.unit for _, cell in cells)
        unit = max(units, key=units.__getitem__) if units else ""
        thousands = " and ".join(mark for mark, present in marks.items() if present)
        return cls(decimal, thousands, unit=unit)

    def words(self) -> str:
        """Return what is unusual in it, in words."""
        if self.classes is not None:
            return self.classes.words()
        parts = ["decimal commas"] if self.decimal == "," else []
        return ", ".join([*parts, *([f"thousands separated by {self.thousands}"] if self.thousands else [])])

    def read(self, texts: Sequence[str]) -> tuple[Floats, Kinds, list[str] | None]:
        """Return the numbers in some cells, what each cell holds, and the units beside numbers.

        Parameters
        ----------
        texts : sequence of str, length n

        Returns
        -------
        values : float64 array, shape (n,)
            NaN where there is no finite number; for a censored value such as ">10000" the number in it.
        kinds : uint8 array, shape (n,)
            `NUMBER`, `EMPTY` (or NaN, or infinite), `WORDS`, `CENSORED`, `NO_LIMIT` for a relation without a
            number, or `OTHERWISE` for a number that is not written as those from which the notation was
            found.
        units : list of str, length n, or None
            "" where there is none; None if there is none at all.

        Examples
        --------
        >>> values, kinds, units = Notation().read(["5.5", ">10 nM", "n.d.", "NA", "=3", "1,5"])
        >>> values.tolist(), kinds.tolist()
        ([5.5, 10.0, nan, nan, 3.0, nan], [0, 3, 2, 1, 0, 6])
        """
        if self.classes is not None:
            return *self._read_classes(texts), None
        try:
            values = np.array(texts, dtype=np.float64)
            kinds, units = np.zeros(len(values), np.uint8), None
        except ValueError:
            read = [self._number(text.strip()) for text in texts]
            values = np.array([value for value, _, _ in read], dtype=np.float64)
            kinds = np.array([kind for _, kind, _ in read], dtype=np.uint8)
            units = [unit for _, _, unit in read]
            units = units if any(units) else None
        if self.decimal == ",":  # a point that divides a fraction is not written so
            wrong = [k for k, text in enumerate(texts) if "." in text and kinds[k] == NUMBER]
            for k in wrong:
                values[k], kinds[k], _ = self._number(texts[k].strip())
        infinite = ~np.isfinite(values)
        values[infinite] = np.nan
        kinds[infinite & ((kinds == NUMBER) | (kinds == CENSORED))] = EMPTY
        return values, kinds, units

    def _read_classes(self, texts: Sequence[str]) -> tuple[Floats, Kinds]:
        """Return the class of each cell, and what the cell holds; a number other than a word is none."""
        assert self.classes is not None
        spelled = {text: self.classes.value(text) for text in set(texts)}
        values = np.array([spelled[text] for text in texts], dtype=np.float64)
        empty = np.array([text.strip().lower() in MISSING or text.strip().lower() == "nan" for text in texts])
        kinds = np.where(np.isfinite(values), NUMBER, np.where(empty, EMPTY, WORDS))
        return values, kinds.astype(np.uint8)

    def numbers(self, texts: Sequence[str | None]) -> Floats:
        """Return the numbers in some cells; NaN for a limit, for another unit, and for all else.

        Examples
        --------
        >>> Notation.of(["$1,200.50", "$7"], "'price'").numbers(["$7", "7 EUR", ">$3", None]).tolist()
        [7.0, nan, nan, nan]
        """
        values, kinds, units = self.read([text or "" for text in texts])
        values[kinds != NUMBER] = math.nan
        if self.unit or units:
            values[[unit != self.unit for unit in units or [""] * len(values)]] = math.nan
        return values

    def numbers_of_column(self, texts: pa.Array) -> Floats:
        """Return what `numbers` does of a column of Arrow, at once if all cells are plain numbers.

        Examples
        --------
        >>> Notation().numbers_of_column(pa.array(["7", "", "1e-3", None])).tolist()
        [7.0, nan, 0.001, nan]
        """
        if self.decimal != "," and not self.unit:
            plain = pc.utf8_trim_whitespace(texts)
            plain = pc.if_else(pc.equal(plain, ""), pa.scalar(None, pa.string()), plain)
            with suppress(pa.ArrowInvalid):  # a cell is no plain number
                values = np.array(pc.cast(plain, pa.float64()).to_numpy(zero_copy_only=False))
                values[~np.isfinite(values)] = math.nan
                return values
        return self.numbers(texts.to_pylist())

    def _number(self, text: str) -> tuple[float, int, str]:
        """Return the number in a cell, what the cell holds, and the unit."""
        if text.lower() in MISSING:
            return math.nan, EMPTY, ""
        if (cell := _cell(text)) is None:
            if text in RELATIONS:
                return math.nan, NO_LIMIT, ""
            words = _RELATION.sub("", text)  # "nan" and "inf" are numbers without digits
            return (float(words), NUMBER, "") if is_number(words) else (math.nan, WORDS, "")
        value = cell.value(self.decimal)
        if value is None:
            return math.nan, OTHERWISE, cell.unit
        return value, NUMBER if cell.relation in ("", "=") else CENSORED, cell.unit


def side_of(text: str) -> int:
    """Return 1 if the true value is at least the number in a cell, -1 if it is at most that, else 0.

    Examples
    --------
    >>> [side_of(text) for text in (">10 nM", "<= 0.1", "~5", "5", "no activity at 10 uM")]
    [1, -1, 0, 0, 1]
    """
    relation = _RELATION.match(_INACTIVE.sub(">", text.strip(), count=1))
    sign = "" if relation is None else relation[0].strip()
    return 1 if set(sign) & set(">≥") else -1 if set(sign) & set("<≤") else 0


def is_value(text: str, *, bare: bool = False) -> bool:
    """Return whether a cell holds a number, censored or not, in any notation; if not `bare`, with a unit.

    Examples
    --------
    >>> is_value("-7,5"), is_value("> 10000"), is_value("$1,200.50"), is_value("inactive")
    (True, True, True, False)
    >>> is_value("24 h"), is_value("24 h", bare=True)
    (True, False)
    """
    cell = None if is_number(text) else _cell(text.strip())
    return is_number(text) if cell is None else not (bare and cell.unit)


def sign_of(text: str) -> str | None:
    """Return the sign that a cell of a column of relations stands for, "" of none, None if it is not known.

    Examples
    --------
    >>> [sign_of(text) for text in ("'>='", "&lt;", "Less than", "n/a", "exact", "John")]
    ['>=', '<', '<', '', '=', None]
    """
    plain = html.unescape(text).strip().strip("'\"").strip().lower()
    if plain in MISSING:
        return ""
    return plain if plain in RELATIONS else _SIGNS_OF_WORDS.get(plain)


def _has_point(digits: str) -> bool:
    """Return whether a point in these digits can only divide a fraction."""
    sure = _POINT.fullmatch(digits) and not _POINT_THOUSANDS.fullmatch(digits)
    return bool(sure or _THOUSANDS_POINT.fullmatch(digits))


def _has_comma(digits: str) -> bool:
    """Return whether a comma in these digits can only divide a fraction."""
    return bool(
        (_COMMA.fullmatch(digits) and not _DOUBT.fullmatch(digits)) or _THOUSANDS_COMMA.fullmatch(digits)
    )


def _cell(text: str) -> _Cell | None:
    """Return the parts of a cell that holds a number, or None."""
    bare = _INACTIVE.sub(">", text.replace("\N{MINUS SIGN}", "-"), count=1)
    grouped = _GROUPS.search(bare) is not None
    if grouped:
        bare = _GROUPS.sub(lambda match: _GROUP_MARK.sub("", match[0]), bare)
    match = _CELL.fullmatch(bare)
    if match is None:
        return None
    around = [side for side in (match["before"], match["after"]) if side]
    units = [unit_of_cell(side) for side in around]
    if None in units or len(units) > 1 or (match["before"] and units[0] not in CURRENCIES):
        return None
    number = match["number"]
    sign = match["outer"] + (number[0] if number[0] in "+-" else "")
    digits, mark, exponent = number.lstrip("+-").lower().partition("e")
    shapes = (_POINT, _COMMA, _THOUSANDS_POINT, _THOUSANDS_COMMA)
    if len(sign) > 1 or not (digits.isdigit() or any(shape.fullmatch(digits) for shape in shapes)):
        return None
    unit = units[0] if units and units[0] else ""
    return _Cell(match["relation"] or "", sign, digits, mark + exponent, unit, grouped)


def _quoted(text: str) -> str:
    return f"'{printable(text, _SHOWN)}'"
