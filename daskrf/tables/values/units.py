"""Units of values, as they stand in names of columns and beside numbers."""

from __future__ import annotations

import re

DECADES = {"M": 0, "mM": 3, "uM": 6, "nM": 9, "pM": 12, "fM": 15}
"""By how many decades each unit of concentration is smaller than mol/L."""
_SPELLINGS = {
    **{unit: unit for unit in DECADES},
    **{unit.lower(): unit for unit in DECADES if unit != "M"},
    **{f"{prefix}mol/{litre}": f"{prefix}M" for prefix in ("", *"munpf") for litre in "lL"},
    **{
        f"{word}molar": unit
        for word, unit in zip(("", "milli", "micro", "nano", "pico"), DECADES, strict=False)
    },
}
_GRAMS = {
    **{"g/mL": 1e3, "mg/mL": 1.0, "ug/mL": 1e-3, "ng/mL": 1e-6, "pg/mL": 1e-9},
    **{"g/dL": 1e1, "mg/dL": 1e-2, "ug/dL": 1e-5, "ng/dL": 1e-8, "pg/dL": 1e-11},
    **{"g/L": 1.0, "mg/L": 1e-3, "ug/L": 1e-6, "ng/L": 1e-9, "pg/L": 1e-12},
}
"""Grams per litre of each unit of mass per volume."""
_MASS_SPELLINGS = {unit.lower(): unit for unit in _GRAMS}
_INVERSE = r"(?:\^?[-\u2212]1|\u207b\u00b9)"
_PER = re.compile(rf"[\s.\u00b7\u22c5]*([md]?l)\s*{_INVERSE}$")  # as in ug.mL-1, with a full stop or a dot
_MASS = re.compile(rf"[munpµμ]c?g\s*(?:/|.*{_INVERSE})|(?<![a-z])g/[md]?L", re.I)
_MASS_AT_END = re.compile(r"[\s_,.]((?:mc|[munpµμ])?g/[md]?L)$", re.I)
_IN_BRACKETS = re.compile(r"[(\[]\s*([^)\]]+?)\s*[)\]]\s*$")
_AT_END = re.compile(r"[\s_/,.]([^\s_/,.]+(?:/[lL])?)$")

_SIGNS = {"$": "USD", "US$": "USD", "€": "EUR", "£": "GBP", "¥": "JPY", "₹": "INR"}
CURRENCIES = frozenset(
    [
        *("USD", "EUR", "GBP", "JPY", "CNY", "INR", "CHF", "CAD", "AUD", "NZD", "SEK", "NOK", "DKK"),
        *("PLN", "CZK", "HUF", "KRW", "SGD", "HKD", "BRL", "MXN", "ZAR", "ILS", "RUB", "UAH", "TRY"),
    ]
)
_OTHERS = frozenset(
    [
        *("%", "kcal/mol", "kJ/mol", "cal/mol", "J/mol", "kcal", "kJ", "eV", "meV", "Da", "kDa", "g/mol"),
        *("kg", "g", "mg", "ug", "ng", "L", "mL", "uL", "mg/mL", "ug/mL", "ng/mL", "mg/L", "ug/L", "g/L"),
        *("mg/kg", "h", "min", "s", "ms", "day", "days", "°C", "K", "Å", "Å2", "Å^2", "A^2", "nm", "cm/s"),
        *("mL/min/kg", "uL/min/mg", "1/s", "s-1", "M-1s-1"),
    ]
)


def concentration_unit(text: str) -> str | None:
    """Return the usual sign of a unit of concentration, or None if it is no such unit.

    Examples
    --------
    >>> concentration_unit("µM"), concentration_unit("nmol/L"), concentration_unit("%")
    ('uM', 'nM', None)
    """
    plain = _ascii(text.strip().strip("'\""))
    return _SPELLINGS.get(plain) or _SPELLINGS.get(plain.lower() if len(plain) > 1 else plain)


def mass_unit(text: str) -> str | None:
    """Return the usual sign of a unit of mass per volume, or None if it is no such unit.

    Examples
    --------
    >>> mass_unit("µg/ml"), mass_unit("ug.mL-1"), mass_unit("mg/dL"), mass_unit("mg/kg")
    ('ug/mL', 'ug/mL', 'mg/dL', None)
    """
    plain = _ascii(text.strip().strip("'\"")).lower().replace("mcg", "ug")
    return _MASS_SPELLINGS.get(_PER.sub(r"/\1", plain))


def grams_per_litre(text: str) -> float | None:
    """Return the grams per litre of a unit of mass per volume, or None if it is no such unit.

    Examples
    --------
    >>> grams_per_litre("ug/mL"), grams_per_litre("nM")
    (0.001, None)
    """
    unit = mass_unit(text)
    return None if unit is None else _GRAMS[unit]


def may_hold_mass(text: str) -> bool:
    """Return whether a cell, or the name of a column, may hold a unit of mass per volume."""
    return _MASS.search(text) is not None


def plain_unit(unit: str) -> str:
    """Return a unit as it is compared."""
    return concentration_unit(unit) or mass_unit(unit) or unit.strip().strip("'\"")


def unit_of_cell(text: str) -> str | None:
    """Return the unit that stands beside a number, or None if it is no known unit or currency.

    Examples
    --------
    >>> unit_of_cell("€"), unit_of_cell("µM"), unit_of_cell("kcal/mol"), unit_of_cell("apples")
    ('EUR', 'uM', 'kcal/mol', None)
    """
    plain = text.strip()
    if plain in _SIGNS or plain.upper() in CURRENCIES:
        return _SIGNS.get(plain, plain.upper())
    if (usual := concentration_unit(plain) or mass_unit(plain)) is not None:
        return usual
    return _ascii(plain) if _ascii(plain) in _OTHERS else None


def is_sure_unit(text: str) -> bool:
    """Return whether a cell is a unit of concentration or a quotient of units, and can be nothing else.

    Examples
    --------
    >>> [is_sure_unit(text) for text in ("nM", "kcal/mol", "M", "PM", "min")]
    [True, True, False, False, False]
    """
    plain = text.strip().strip("'\"")
    spelled = (
        "/" in plain
        or mass_unit(plain) is not None
        or "mol" in plain.lower()
        or (len(plain) > 1 and _ascii(plain) in DECADES)
    )
    return spelled and unit_of_cell(plain) is not None


def unit_in_name(column: str, *, sure: bool) -> str | None:
    """Return the unit of concentration at the end of a name; if it must be `sure`, in brackets.

    A unit of mass per volume is returned only if it need not be sure: a transform then asks for it.
    """
    match = _IN_BRACKETS.search(column) or (None if sure else _AT_END.search(column))
    if match and (unit := concentration_unit(match[1])) is not None:
        return unit
    match = None if sure else _IN_BRACKETS.search(column) or _MASS_AT_END.search(column)
    return mass_unit(match[1]) if match else None


def _ascii(unit: str) -> str:
    return unit.replace("µ", "u").replace("μ", "u")
