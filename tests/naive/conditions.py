"""Conditions on the columns of a library, decided cell by cell."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Condition:
    """One condition: `kind` is a sign, "in", "~" or "missing"; `operands` are numbers or texts."""

    name: str
    kind: str
    operands: tuple[float | str, ...] = ()
    negated: bool = False


def number_in(cell: str | None) -> float:
    """Return the number in a cell, NaN if there is none."""
    try:
        value = float((cell or "").strip())
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def holds(condition: Condition, cell: str | None) -> bool:
    """Return whether a cell meets a condition; a cell without a number meets none on numbers."""
    text = (cell or "").strip()
    kind, operands = condition.kind, condition.operands
    if kind == "missing":
        met = text.lower() in ("", "na", "n/a", "null", "none", "<na>", "#n/a", "nan")
    elif kind == "~":
        met = str(operands[0]).lower() in text.lower()
    elif isinstance(operands[0], str):
        met = text in operands
    else:
        value = number_in(cell)
        if math.isnan(value):
            return False
        if kind == "in":
            met = any(value == number for number in operands)
        else:
            number = float(operands[0])
            met = {
                "<": value < number,
                "<=": value <= number,
                ">": value > number,
                ">=": value >= number,
                "==": value == number,
            }[kind]
    return met != condition.negated


def passing(conditions: list[Condition], table: dict[str, list[str | None]]) -> list[int]:
    """Return the rows that meet all conditions."""
    n = len(next(iter(table.values())))
    return [row for row in range(n) if all(holds(each, table[each.name][row]) for each in conditions)]
