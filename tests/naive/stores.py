"""Slow, readable oracles for the stores."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def naive_join(
    label_keys: Sequence[Hashable], library: Sequence[tuple[int, Hashable]]
) -> tuple[list[tuple[int, int]], int, int, int]:
    """Join labels to (row, key) pairs.

    Returns [(row, position of the label)], and how many labels are unmatched, labels and rows repeated.
    """
    first_label: dict[Hashable, int] = {}
    for position, key in enumerate(label_keys):
        first_label.setdefault(key, position)
    first_row: dict[Hashable, int] = {}
    repeated_rows = 0
    for row, key in library:
        if key not in first_label:
            continue
        if key in first_row:
            repeated_rows += 1
        else:
            first_row[key] = row
    joined = sorted((row, first_label[key]) for key, row in first_row.items())
    unmatched = len(first_label) - len(first_row)
    return joined, unmatched, len(label_keys) - len(first_label), repeated_rows
