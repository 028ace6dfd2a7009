"""The exact top k of any number of scored rows, in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from daskrf.errors import InputError

__all__ = ["TopK"]


Column: TypeAlias = npt.NDArray[np.generic] | Sequence[object]
"""Values of a column, one for each row."""


@dataclass(frozen=True)
class TopK:
    """The k rows with the largest scores; ties go to the lower row number. A commutative monoid.

    ``TopK(k)`` is the identity. A row that is added twice (because a task ran twice) counts once, with its
    larger score. Memory: k rows, or 2 k while combining.

    Attributes
    ----------
    k : int
    score : float64 array, shape (at most k,), descending
    row : int64 array of the same shape; ascending where scores are equal
    columns : dict of arrays of the same length

    Raises
    ------
    InputError
        If k is not a positive integer.

    Examples
    --------
    >>> first = TopK(2).from_chunk([1.0, 3.0], [0, 1], id=["a", "b"])
    >>> second = TopK(2).from_chunk([3.0, 2.0], [7, 8], id=["h", "i"])
    >>> best = second.combine(first)
    >>> (best.row.tolist(), best.columns["id"].tolist())
    ([1, 7], ['b', 'h'])
    """

    k: int
    score: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    row: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    columns: Mapping[str, npt.NDArray[np.generic]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, (int, np.integer)) or self.k < 1:
            raise InputError(f"k must be a positive integer, not {self.k!r}.")

    def __len__(self) -> int:
        return len(self.row)

    def from_chunk(self, score: npt.ArrayLike, row: npt.ArrayLike, **columns: Column) -> TopK:
        """Return the top k of one chunk.

        Parameters
        ----------
        score : float array, shape (n,)
            Infinities are allowed.
        row : integer array, shape (n,)
            Distinct global row numbers.
        **columns : sequences of length n
            Additional columns, such as id or smiles; lists become object arrays.

        Raises
        ------
        InputError
            If lengths differ, a score is NaN (naming the first row), or a row number repeats.
        """
        scores = np.asarray(score, dtype=np.float64)
        rows = np.asarray(row, dtype=np.int64)
        lengths = {"score": len(scores), "row": len(rows), **{n: len(c) for n, c in columns.items()}}
        if len(set(lengths.values())) != 1:
            raise InputError(f"the columns of a chunk must have the same length, not {lengths}.")
        if np.isnan(scores).any():
            bad = int(rows[np.isnan(scores)].min())
            raise InputError(f"the score of row {bad} is NaN: check its prediction before screening.")
        best = _best(scores, rows, self.k)
        if len(np.unique(rows[best])) != len(best):
            raise InputError("a row number repeats within one chunk: rows must be numbered globally.")
        return TopK(self.k, scores[best], rows[best], {n: _take(c, best) for n, c in columns.items()})

    def combine(self, other: TopK) -> TopK:
        """Return the top k of both; the operation is associative and commutative.

        Raises
        ------
        InputError
            If k or the columns differ (an empty TopK matches any columns).
        """
        if self.k != other.k:
            raise InputError(f"top {self.k} and top {other.k} cannot be combined: use one k.")
        if not len(self) or not len(other):
            return self if len(self) or (not len(other) and self.columns) else other
        if set(self.columns) != set(other.columns):
            names = f"{sorted(self.columns)} and {sorted(other.columns)}"
            raise InputError(f"top rows with columns {names} cannot be combined: carry the same columns.")
        score = np.concatenate([self.score, other.score])
        row = np.concatenate([self.row, other.row])
        order = np.lexsort((row, -score))
        first = np.unique(row[order], return_index=True)[1]  # best entry of each row number
        keep = order[np.sort(first)[: self.k]]
        columns = {n: np.concatenate([c, other.columns[n]])[keep] for n, c in self.columns.items()}
        return TopK(self.k, score[keep], row[keep], columns)

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return score, row and all columns by name, best first."""
        return {"score": self.score, "row": self.row, **self.columns}


def _best(score: npt.NDArray[np.float64], row: npt.NDArray[np.int64], k: int) -> npt.NDArray[np.intp]:
    """Return the indices of the k largest scores in order, ties by lower row number; O(n + k log k)."""
    if len(score) > k:
        threshold = np.partition(score, len(score) - k)[len(score) - k]
        above = np.flatnonzero(score > threshold)
        tied = np.flatnonzero(score == threshold)
        missing = k - len(above)
        if len(tied) > missing:
            tied = tied[np.argpartition(row[tied], missing - 1)[:missing]]
        candidates = np.concatenate([above, tied])
    else:
        candidates = np.arange(len(score))
    return candidates[np.lexsort((row[candidates], -score[candidates]))]


def _take(column: Column, index: npt.NDArray[np.intp]) -> npt.NDArray[np.generic]:
    if isinstance(column, np.ndarray):
        return column[index]
    taken = np.empty(len(index), dtype=object)
    taken[:] = [column[i] for i in index.tolist()]
    return taken
