"""Call a Python function as a scorer: molecules in a file, scores in another.

It runs as a program of its own, so that a function that crashes or hangs takes no worker with it.
"""

from __future__ import annotations

import csv
import importlib
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

WRONG = 3
"""Exit code of a function that cannot be called, or returns what are no scores; the last line says why."""


def scores_of(returned: Any, smiles: Sequence[str]) -> list[float]:
    """Return a score for each molecule, NaN for those without one.

    Raises
    ------
    ValueError
        If the function did not return a number for each molecule, or a mapping.

    Examples
    --------
    >>> scores_of([-7.5, None], ["CCO", "CCN"]), scores_of({"CCN": -8}, ["CCO", "CCN"])
    ([-7.5, nan], [nan, -8.0])
    """
    if isinstance(returned, Mapping):
        returned = [returned.get(text) for text in smiles]
    try:
        scores = [math.nan if score is None else float(score) for score in returned]
    except (TypeError, ValueError):
        raise ValueError("it returned no list of numbers") from None
    if len(scores) != len(smiles):
        raise ValueError(
            f"it returned {len(scores)} scores of {len(smiles)} molecules; return one for each, NaN where "
            "there is none, or a dict by SMILES"
        )
    return scores


def others_of(returned: object, smiles: Sequence[str]) -> list[tuple[str, float]]:
    """Return the scores of molecules that the function was not called with, which are counted.

    Examples
    --------
    >>> others_of({"CCN": -8, "CCC": -7.5}, ["CCO", "CCN"])
    [('CCC', -7.5)]
    """
    if not isinstance(returned, Mapping):
        return []
    requested = {None, *smiles}
    others = {key: score for key, score in returned.items() if key not in requested and score is not None}
    try:
        return [(str(key), float(score)) for key, score in others.items()]
    except (TypeError, ValueError):
        raise ValueError("it returned no dict of numbers") from None


def main(name: str, molecules: str, scores: str) -> int:
    """Call the function `module:function` on the molecules of a file, and write their scores."""
    rows = [line.split(None, 1) for line in Path(molecules).read_text().splitlines()]
    smiles = [row[0] for row in rows]
    module, _, function = name.partition(":")
    sys.path.insert(0, "")
    try:
        called = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        print(f"{name} cannot be called: {error}")
        return WRONG
    returned = called(smiles)
    try:
        values, others = scores_of(returned, smiles), others_of(returned, smiles)
    except ValueError as error:
        print(f"{name}: {error}")
        return WRONG
    lines = [(row[1], score) for row, score in zip(rows, values, strict=True) if math.isfinite(score)]
    with Path(scores).open("w", newline="") as file:
        csv.writer(file).writerows([("id", "score"), *lines, *others])
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
