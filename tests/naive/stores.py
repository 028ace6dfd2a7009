"""Slow, readable oracles for the stores."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def naive_join(
    label_keys: Sequence[Hashable], library: Sequence[tuple[int, Hashable]]
) -> tuple[list[tuple[int, int]], int, int, int]:
    """Join labels to (row, key) pairs.

    Returns [(row, position of the label)], and how many labels are unmatched, labels and rows repeated.
    """
    first_row: dict[Hashable, int] = {}
    repeated_rows = 0
    for row, key in library:
        if key not in label_keys:
            continue
        if key in first_row:
            repeated_rows += 1
        else:
            first_row[key] = row
    joined = sorted((first_row[key], position) for position, key in enumerate(label_keys) if key in first_row)
    repeated = len(joined) - len(first_row)
    return joined, len(label_keys) - len(joined), repeated, repeated_rows
