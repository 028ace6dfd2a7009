"""Cells of a table of labels read one by one: the values that are learned, and why others are not."""

from __future__ import annotations

import math

IN_MOL = {"M": 1.0, "mM": 1e-3, "uM": 1e-6, "µM": 1e-6, "nM": 1e-9, "nmol/L": 1e-9, "pM": 1e-12}


def value_of(text: str, sign: str, unit: str, transform: str) -> tuple[float | None, str]:
    """Return the value of a cell, None where it has none, and what it is: its unit is that of the column."""
    text = text.strip()
    for relation in (">=", "<=", ">", "<", "~", "="):
        if text.startswith(relation):
            sign, text = relation, text.removeprefix(relation).strip()
            break
    if text.lower() in ("", "na", "n/a") and sign not in ("", "="):
        return None, "no limit"
    if text.lower() in ("", "na", "nan", "n/a", "inf"):
        return None, "empty"
    try:
        number = float(text)
    except ValueError:
        return None, "word"
    if transform.startswith("p"):
        if unit not in IN_MOL:
            return None, "unit"
        number *= IN_MOL[unit]
    if transform and number <= 0:
        return None, "logarithm"
    if transform:
        number = {"log10": math.log10, "ln": math.log}.get(transform, lambda v: -math.log10(v))(number)
    return number, "number" if sign in ("", "=") else "censored"
