"""Values of labels: what the cells of a table say, and the scale on which they are learned."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError, printable
from daskrf.molecules.names import is_number, normalised

__all__ = [
    "AS_VALUES",
    "CENSORED",
    "DECIMAL_COMMA",
    "EMPTY",
    "LEFT_OUT",
    "LOGARITHM",
    "MISSING",
    "NUMBER",
    "RELATIONS",
    "UNIT",
    "WORDS",
    "Scale",
    "as_measured",
    "concentration_unit",
    "is_value",
    "numbers",
    "scales_in",
    "scales_of",
    "without_comma",
]

Floats = npt.NDArray[np.float64]
Kinds = npt.NDArray[np.uint8]

NUMBER, EMPTY, WORDS, CENSORED, UNIT, LOGARITHM = range(6)
"""What a cell holds: see `numbers`; UNIT and LOGARITHM are found by a `Scale`."""

LEFT_OUT: Final = {
    EMPTY: "empty, NaN or infinite",
    WORDS: "not a number",
    CENSORED: "censored",
    UNIT: "in another unit",
    LOGARITHM: "without a logarithm",
}
"""Why a cell has no value, in words."""

AS_VALUES = "censored, and taken as if they were measured"

MISSING = frozenset({"", "na", "n/a", "null", "none", "<na>", "#n/a"})
RELATIONS = (">>", ">=", "=>", "<<", "<=", "=<", *"<>≥≤~≈=")
"""Signs before a value; all but "=" make it a censored one."""
_QUALIFIED = re.compile(rf"({'|'.join(RELATIONS)})\s*(\S.*)")
DECIMAL_COMMA = re.compile(r"[+-]?(?:\d+,\d*|,\d+)(?:[eE][+-]?\d+)?")

_DECADES = {"M": 0, "mM": 3, "uM": 6, "nM": 9, "pM": 12, "fM": 15}
_SPELLINGS = {
    **{unit: unit for unit in _DECADES},
    **{unit.lower(): unit for unit in _DECADES if unit != "M"},
    **{f"{prefix}mol/{litre}": f"{prefix}M" for prefix in ("", *"munpf") for litre in "lL"},
    **{
        f"{word}molar": unit
        for word, unit in zip(("", "milli", "micro", "nano", "pico"), _DECADES, strict=False)
    },
}
_IN_BRACKETS = re.compile(r"[(\[]\s*([^)\]]+?)\s*[)\]]\s*$")
_AT_END = re.compile(r"[\s_/,.]([^\s_/,.]+(?:/[lL])?)$")
_P = re.compile(r"p[A-Z]\w*")
LOGARITHMS = {"log10": np.log10, "ln": np.log, "log2": np.log2}


def is_value(text: str) -> bool:
    """Return whether a cell holds a number, censored or not, with a decimal point or comma.

    Examples
    --------
    >>> is_value("-7,5"), is_value("> 10000"), is_value("inactive")
    (True, True, False)
    """
    found = _QUALIFIED.fullmatch(text.strip())
    bare = found[2] if found else text
    return is_number(bare) or DECIMAL_COMMA.fullmatch(bare.strip()) is not None


def without_comma(text: str) -> str:
    """Return a number with a decimal point in place of a decimal comma.

    Examples
    --------
    >>> without_comma(">1,5"), without_comma("inactive, toxic")
    ('>1.5', 'inactive, toxic')
    """
    return text.replace(",", ".") if is_value(text) else text


def numbers(texts: Sequence[str]) -> tuple[Floats, Kinds]:
    """Return the numbers in some cells, and what each cell holds.

    Parameters
    ----------
    texts : sequence of str, length n

    Returns
    -------
    values : float64 array, shape (n,)
        NaN where there is no finite number; for a censored value such as ">10000" the number in it.
    kinds : uint8 array, shape (n,)
        `NUMBER`, `EMPTY` (or NaN, or infinite), `WORDS` or `CENSORED`.

    Examples
    --------
    >>> values, kinds = numbers(["5.5", ">10", "n.d.", "NA", "=3"])
    >>> values.tolist(), kinds.tolist()
    ([5.5, 10.0, nan, nan, 3.0], [0, 3, 2, 1, 0])
    """
    try:
        values = np.array(texts, dtype=np.float64)
        kinds = np.zeros(len(values), np.uint8)
    except ValueError:
        pairs = [_number(text.strip()) for text in texts]
        values = np.array([value for value, _ in pairs], dtype=np.float64)
        kinds = np.array([kind for _, kind in pairs], dtype=np.uint8)
    infinite = ~np.isfinite(values)
    values[infinite] = np.nan
    kinds[infinite & (kinds != WORDS)] = EMPTY
    return values, kinds


def _number(text: str) -> tuple[float, int]:
    if text.lower() in MISSING:
        return math.nan, EMPTY
    if is_number(text):
        return float(text), NUMBER
    found = _QUALIFIED.fullmatch(text)
    if found is None or not is_number(found[2]):
        return math.nan, WORDS
    return float(found[2]), NUMBER if found[1] == "=" else CENSORED


def as_measured(
    means: Floats, times: npt.NDArray[np.int64], std: Floats
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Return measurements that have given means, numbers and standard deviations.

    A Gaussian likelihood depends on repeated measurements by these three alone, so that a fit to any such
    measurements is the fit to the true ones.

    Parameters
    ----------
    means : float64 array, shape (n,)
    times : int64 array, shape (n,)
        At least 1.
    std : float64 array, shape (n,)
        Of a sample, with n - 1 in the denominator; not used of one measurement.

    Returns
    -------
    index : int64 array, shape (sum of times,)
        Of which mean each is one.
    values : float64 array of the same shape
        Evenly spaced about each mean.

    Examples
    --------
    >>> index, values = as_measured(np.array([5.0, 1.0]), np.array([3, 1]), np.array([0.5, 0.0]))
    >>> index.tolist(), values.tolist()
    ([0, 0, 0, 1], [4.5, 5.0, 5.5, 1.0])
    """
    index = np.repeat(np.arange(len(means)), times)
    place = np.arange(len(index)) - np.repeat(np.cumsum(times) - times, times)
    # The sum of squares of n numbers 1 apart, about their mean, is n (n^2 - 1) / 12.
    step = std * np.sqrt(12.0 / (times * (times + 1.0)))
    return index, means[index] + step[index] * (place - (times[index] - 1) / 2)


def concentration_unit(text: str) -> str | None:
    """Return the usual sign of a unit of concentration, or None if it is no such unit.

    Examples
    --------
    >>> concentration_unit("µM"), concentration_unit("nmol/L"), concentration_unit("%")
    ('uM', 'nM', None)
    """
    plain = text.strip().strip("'\"").replace("µ", "u").replace("μ", "u")
    return _SPELLINGS.get(plain) or _SPELLINGS.get(plain.lower() if len(plain) > 1 else plain)


@dataclass(frozen=True)
class Scale:
    """The scale on which the values of one column are learned.

    Attributes
    ----------
    column : str
        Name of the column.
    name : str
        Name of the target.
    transform : str
        "" for the values as they are, "log10", "ln" or "log2", or a name such as "pIC50": the negative
        decimal logarithm of a concentration in mol/L.
    unit : str
        Unit of the values in the column; "" if it is not known.
    found : str
        How the unit is known, in words, if it was not given.
    units : str
        Name of the column that holds the unit of each value; "" if there is none.

    Examples
    --------
    >>> scale = Scale("IC50", "pIC50", "pIC50", "nM")
    >>> values, kinds = scale.apply(np.array([10_000.0, 0.0]))
    >>> values.tolist(), kinds.tolist()
    ([5.0, nan], [0, 5])
    >>> print(scale.words())
    pIC50 = 9 - log10 of 'IC50' in nM
    """

    column: str
    name: str
    transform: str = ""
    unit: str = ""
    found: str = ""
    units: str = ""

    @property
    def is_p(self) -> bool:
        """Whether the scale is the negative logarithm of a concentration."""
        return bool(self.transform) and self.transform not in LOGARITHMS

    @property
    def known(self) -> bool:
        """Whether there is anything to say of it."""
        return bool(self.transform or self.unit)

    def apply(self, values: Floats, units: Sequence[str] | None = None) -> tuple[Floats, Kinds]:
        """Return values on this scale, and what each of them was.

        Parameters
        ----------
        values : float64 array, shape (n,)
            NaN stays NaN, and counts as a number here.
        units : sequence of str, length n, optional
            Unit of each value, if there is a column of units.

        Returns
        -------
        values : float64 array, shape (n,)
        kinds : uint8 array, shape (n,)
            `NUMBER`; `UNIT` or `LOGARITHM` where the value is NaN for this reason.
        """
        kinds = np.zeros(len(values), np.uint8)
        decades = np.full(len(values), float(_DECADES.get(self.unit, 0)))
        if units is not None:
            own = {text: self._decades(text) for text in set(units)}
            decades = np.array([own[text] for text in units])
            kinds[np.isnan(decades) & np.isfinite(values)] = UNIT
            if not self.is_p:
                values = values * 10.0 ** (_DECADES.get(self.unit, 0) - decades)
        if not self.transform:
            return np.where(kinds == UNIT, np.nan, values), kinds
        with np.errstate(divide="ignore", invalid="ignore"):
            found = decades - np.log10(values) if self.is_p else LOGARITHMS[self.transform](values)
        lost = ~np.isfinite(found)
        kinds[lost & np.isfinite(values) & (kinds == NUMBER)] = LOGARITHM
        found[lost] = np.nan
        return found, kinds

    def _decades(self, unit: str) -> float:
        """Return by how many decades a unit is smaller than mol/L; NaN if it cannot be converted."""
        concentration = concentration_unit(unit)
        if concentration is None:  # the same unit, whatever it is, needs no conversion
            return 0.0 if not self.is_p and _plain(unit) == self.unit else math.nan
        return float(_DECADES[concentration]) if self.is_p or self.unit in _DECADES else math.nan

    def words(self) -> str:
        """Return what the scale is, in words."""
        unit = "mol/L" if self.is_p and self.units else self.unit
        by = f" (converted from the units in '{printable(self.units, 60)}')" if self.units else self.found
        source = f"'{printable(self.column, 60)}'{f' in {unit}' if unit else ''}{by}"
        if not self.transform:
            return source
        decades = 0 if self.units else _DECADES.get(self.unit)
        how = f"{decades} - log10" if self.is_p and decades else "-log10" if self.is_p else self.transform
        return f"{printable(self.name, 60)} = {how} of {source}"

    def state(self) -> dict[str, Any]:
        """Return a dict for JSON that rebuilds it."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def scales_in(metadata: Mapping[str, Any]) -> list[Scale]:
    """Return the scales of the targets of a model, from its metadata."""
    return [Scale(**state) for state in metadata.get("scales", ())]


def scales_of(
    columns: Sequence[str],
    transform: str | Mapping[str, str] | None = None,
    unit: str | Mapping[str, str] | None = None,
    units: tuple[str, Sequence[str]] | None = None,
) -> tuple[Scale, ...]:
    """Return the scale of each column of values.

    Parameters
    ----------
    columns : sequence of str
        Names of the columns.
    transform, unit : str, or dict of str to str, optional
        For all columns, or for each by name; see `daskrf.fit`.
    units : (str, sequence of str), optional
        Name and first values of the column of units, if there is one.

    Raises
    ------
    InputError
        If a transform or a column is not known, a column is transformed already, or the unit of a
        concentration is not known.

    Examples
    --------
    >>> scales_of(["IC50 (nM)"], "pIC50")[0].words()
    "pIC50 = 9 - log10 of 'IC50 (nM)' in nM (by its name)"
    """
    forms, asked = _each(columns, transform, "transform"), _each(columns, unit, "unit")
    forms = ["" if form.lower() == "none" else form for form in forms]
    return tuple(
        _scale(column, form, own, units, alone=forms.count(form) == 1)
        for column, form, own in zip(columns, forms, asked, strict=True)
    )


def _scale(
    column: str, form: str, asked: str, units: tuple[str, Sequence[str]] | None, *, alone: bool
) -> Scale:
    """Return the scale of a column; `alone` if no other one has the same transform."""
    _check_transform(column, form)
    is_p = bool(form) and form not in LOGARITHMS
    name = form if is_p and alone else f"{form}_{column}" if form else column
    if is_p and asked and concentration_unit(asked) is None:
        raise InputError(
            f"{form} is made of concentrations, and {asked!r} is none; choose one of {', '.join(_DECADES)}."
        )
    if asked:
        return Scale(column, name, form, concentration_unit(asked) or asked)
    if units is not None and (common := Counter(map(_plain, filter(str.strip, units[1])))):
        return Scale(column, name, form, max(common, key=common.__getitem__), units=units[0])
    if (inside := _unit_in(column, sure=not is_p)) is not None:
        return Scale(column, name, form, inside, " (by its name)")
    if is_p:
        raise InputError(
            f"the unit of '{column}' is not known, and {form} depends on it; give it, for example --unit nM"
        )
    return Scale(column, name, form)


def _each(columns: Sequence[str], given: str | Mapping[str, str] | None, what: str) -> list[str]:
    """Return what is given for each column, or an empty string."""
    if given is None or isinstance(given, str):
        return [given or ""] * len(columns)
    if unknown := [name for name in given if name not in columns]:
        there = ", ".join(f"'{name}'" for name in columns)
        raise InputError(f"no target '{unknown[0]}' to give a {what}; the columns are {there}.")
    return [given.get(column, "") for column in columns]


def _check_transform(column: str, form: str) -> None:
    if form and form not in LOGARITHMS and not _P.fullmatch(form):
        known = ", ".join(LOGARITHMS)
        raise InputError(f"{form!r} is no transform; choose {known}, or a name such as pIC50, pKi or pEC50.")
    if form and normalised(column).startswith((normalised(form), "log", "pic50", "pki", "pkd", "pec50")):
        raise InputError(f"'{column}' is a logarithm by its name; leave out the transform, or rename it.")


def _plain(unit: str) -> str:
    """Return a unit as it is compared."""
    return concentration_unit(unit) or unit.strip().strip("'\"")


def _unit_in(column: str, *, sure: bool) -> str | None:
    """Return the unit of concentration at the end of a name; if it must be `sure`, in brackets."""
    found = _IN_BRACKETS.search(column) or (None if sure else _AT_END.search(column))
    return concentration_unit(found[1]) if found else None
