"""Comparisons of the columns of a library, or of properties of its molecules, with numbers and texts.

Whole columns are compared at once, by NumPy and Arrow.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from daskrf.errors import printable
from daskrf.quantities import MISSING

OPERATORS: dict[str, Callable[[Any, Any], object]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "==": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}

_NEGATED = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "=": "!=", "==": "!=", "!=": "=="}
_WITHOUT_VALUE = sorted(MISSING | {"nan"})
_SHOWN = 80  # characters of the whole text in a message

# What `str.strip` removes; Arrow by itself leaves some of these.
BLANKS = (
    "".join(
        map(chr, (*range(9, 14), *range(28, 33), 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029))
    )
    + "\u202f\u205f\u3000"
)


@dataclass(frozen=True)
class Place:
    """Where in a text of conditions something stands.

    Attributes
    ----------
    text : str
        The whole text.
    at : int
        Index of the character, from 0.
    """

    text: str
    at: int

    def __str__(self) -> str:
        return f"at character {self.at + 1} of {printable(self.text, _SHOWN)!r}"


@dataclass(frozen=True)
class Limit:
    """One comparison with a number.

    Attributes
    ----------
    name : str
        A property of `daskrf.molecules.conditions.PROPERTIES`, or a column of the library.
    sign : str
        A key of `OPERATORS`.
    number : float
    column : bool
        Whether `name` is a column.
    place : Place or None
        Where it is written.
    """

    name: str
    sign: str
    number: float
    column: bool = False
    place: Place | None = field(default=None, repr=False, compare=False)

    text: ClassVar[bool] = False

    def __str__(self) -> str:
        return f"{printable(self.name)} {self.sign} {self.number:g}"

    def negated(self) -> Limit:
        """Return what holds for a number where this does not."""
        return replace(self, sign=_NEGATED[self.sign])

    def holds(self, values: Any) -> Any:
        """Return whether values meet it, one or an array of them; NaN never does."""
        return (values == values) & OPERATORS[self.sign](values, self.number)


@dataclass(frozen=True)
class Choice:
    """One comparison with a text, or with some texts or numbers.

    Attributes
    ----------
    name : str
        A column of the library, or for numbers a property.
    values : tuple of str, or tuple of float
    wanted : bool
        Whether the value must be one of `values`, or must be none of them.
    column : bool
        Whether `name` is a column.
    place : Place or None
        Where it is written.
    """

    name: str
    values: tuple[str, ...] | tuple[float, ...]
    wanted: bool = True
    column: bool = True
    place: Place | None = field(default=None, repr=False, compare=False)

    @property
    def text(self) -> bool:
        """Whether texts are compared, rather than numbers."""
        return isinstance(self.values[0], str)

    @property
    def sign(self) -> str:
        """The sign as written."""
        if len(self.values) == 1 and self.text:
            return "==" if self.wanted else "!="
        return "in" if self.wanted else "not in"

    def __str__(self) -> str:
        texts = (f'"{printable(each)}"' if isinstance(each, str) else f"{each:g}" for each in self.values)
        values = ", ".join(texts)
        return f"{printable(self.name)} {self.sign} {values if self.sign in OPERATORS else f'({values})'}"

    def negated(self) -> Choice:
        """Return what holds where this does not, but for NaN."""
        return replace(self, wanted=not self.wanted)

    def holds(self, values: Any) -> Any:
        """Return whether values meet it: an Arrow array of texts, or one number or an array of them.

        NaN never does, and an empty cell is a text like any other.
        """
        if self.text:
            listed = pc.is_in(trimmed(values), value_set=pa.array(self.values, pa.string()))
            return _booleans(listed) == self.wanted
        return (values == values) & (np.isin(values, self.values) == self.wanted)


@dataclass(frozen=True)
class Contains:
    """A text that the cells of a column must contain, or must not contain, in capital or small letters.

    Attributes
    ----------
    name : str
        A column of the library.
    fragment : str
        Compared in small letters, one by one, as Unicode has them; it is no pattern.
    wanted : bool
    place : Place or None
        Where it is written.
    """

    name: str
    fragment: str
    wanted: bool = True
    place: Place | None = field(default=None, repr=False, compare=False)

    text: ClassVar[bool] = True
    column: ClassVar[bool] = True

    @property
    def sign(self) -> str:
        """The sign as written."""
        return "~" if self.wanted else "!~"

    def __str__(self) -> str:
        return f'{printable(self.name)} {self.sign} "{printable(self.fragment)}"'

    def negated(self) -> Contains:
        """Return what holds where this does not."""
        return replace(self, wanted=not self.wanted)

    def holds(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Return whether texts meet it; an empty cell contains nothing."""
        fragment = pc.utf8_lower(pa.scalar(self.fragment)).as_py()
        contained = pc.match_substring(pc.utf8_lower(trimmed(values)), fragment)
        return _booleans(contained) == self.wanted


@dataclass(frozen=True)
class Presence:
    """Whether the cells of a column hold anything.

    Attributes
    ----------
    name : str
        A column of the library.
    wanted : bool
        Whether the cell must hold something, or nothing.
    place : Place or None
        Where it is written.
    """

    name: str
    wanted: bool = True
    place: Place | None = field(default=None, repr=False, compare=False)

    text: ClassVar[bool] = True
    column: ClassVar[bool] = True

    @property
    def sign(self) -> str:
        """The word as written."""
        return "present" if self.wanted else "missing"

    def __str__(self) -> str:
        return f"{printable(self.name)} {self.sign}"

    def negated(self) -> Presence:
        """Return what holds where this does not."""
        return replace(self, wanted=not self.wanted)

    def holds(self, values: pa.Array) -> npt.NDArray[np.bool_]:
        """Return whether texts meet it; words such as NA and NaN stand for nothing."""
        words = pa.array(_WITHOUT_VALUE, pa.string())
        return _booleans(pc.is_in(pc.utf8_lower(trimmed(values)), value_set=words)) != self.wanted


Comparison = Limit | Choice | Contains | Presence


def trimmed(texts: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return texts without blanks around them; a missing one is empty.

    Examples
    --------
    >>> trimmed(pa.array([" a b ", None, "\u00a0"])).to_pylist()
    ['a b', '', '']
    """
    return pc.utf8_trim(pc.fill_null(texts, ""), characters=BLANKS)


def _booleans(column: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=bool)
