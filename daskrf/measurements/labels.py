"""Labels as read from a file, and what is known of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from daskrf.errors import printable
from daskrf.quantities import amount
from daskrf.tables.keytable import KeyTable
from daskrf.tables.values.classes import ClassWords
from daskrf.tables.values.values import LEFT_OUT, Limits, Scale

UNREAD = "that cannot be read"


def without_numbers(unusual: Mapping[str, tuple[int, str]]) -> str:
    """Return which cells have no value, in words; `unusual` is as in `LabelFile`.

    Examples
    --------
    >>> without_numbers({"not a number": (2, "failed"), "approximate": (1, "~5")})
    "2 cells not a number, such as 'failed'"
    """
    return ", ".join(
        f"{amount(n, 'cells')} {kind}" + (f", such as '{printable(example, 40)}'" if example else "")
        for kind, (n, example) in unusual.items()
        if kind in LEFT_OUT.values()
    )


@dataclass(frozen=True, kw_only=True)
class LabelFile:
    """What is known of a table of labels once it is read, besides the labels.

    Attributes
    ----------
    names : tuple of str
        Names of the targets.
    key : {"id", "smiles", "structure", "parent", "tautomer", "skeleton", "inchikey", "row"}
        What the keys are.
    n_labels : int
        How many labels there are; one key may have several, each a separate measurement.
    read : int
        Number of rows in the file: ``n_labels + dropped``, if no row counts for several measurements.
    dropped : int
        Number of rows without any finite value.
    path : str
        Path of the file.
    scales : tuple of Scale
        What each target is.
    unusual : dict of str to (int, str)
        How many values were left out, by kind, or were censored and taken as they are, each with an example.
    limits : tuple of Limits
        Which labels of each target were left out because of their value.
    notes : tuple of str
        Labels that are probably wrong, and what else is unusual, a line each.
    means : bool
        Whether rows of the file were means, each of several labels here.
    classes : tuple of ClassWords or None
        For each target whose labels are two classes, which words stand for 1 and 0.
    has_limits : bool
        Whether some labels are limits.
    """

    names: tuple[str, ...]
    key: str
    n_labels: int
    read: int
    dropped: int
    path: str
    scales: tuple[Scale, ...] = ()
    unusual: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    limits: tuple[Limits, ...] = ()
    notes: tuple[str, ...] = ()
    means: bool = False
    classes: tuple[ClassWords | None, ...] = ()
    has_limits: bool = False

    def __len__(self) -> int:
        return self.n_labels

    @property
    def unread(self) -> tuple[int, str]:
        """Number of rows left out because they cannot be read, and a line that says so."""
        for kind, (n, example) in self.unusual.items():
            if kind.endswith(UNREAD):
                return n, f"values left out: {n:,} {kind} (such as {printable(example, 120)})"
        return 0, ""


@dataclass(frozen=True, kw_only=True)
class Labels(LabelFile):
    """Labels as read, all in memory.

    Attributes
    ----------
    table : KeyTable
        The distinct keys: text, or int64 for rows.
    index : int32 or int64 array, shape (n_labels,)
        Number of each label's key.
    y : float64 array, shape (n_labels, n_targets)
        Finite, or NaN where a label with several targets lacks a value for one of them, or has a limit.
    times : int64 array, shape (n_labels,), or None
        For labels that stand for means without standard deviations: the number of measurements of each mean
        at the first of its labels, 0 at the others.
    lines : int64 array, shape (n_labels,), or None
        The line of each label in the file, if that was asked for.
    bound : float64 array, shape (n_labels, n_targets), or None
        Limits on the scale of the targets, NaN where there are none; None if there are none at all.
    side : int8 array, shape (n_labels, n_targets), or None
        1 where the true value is at least the limit, -1 where it is at most the limit, 0 without a limit.
    """

    table: KeyTable
    index: np.ndarray
    y: np.ndarray
    times: np.ndarray | None = None
    lines: np.ndarray | None = None
    bound: np.ndarray | None = None
    side: np.ndarray | None = None

    @property
    def keys(self) -> pa.Array:
        """The distinct keys, by number, all in memory."""
        return self.table.keys()

    def closed(self) -> Labels:
        """Return labels whose keys need not be found any more; they take less memory."""
        return replace(self, table=self.table.closed())
