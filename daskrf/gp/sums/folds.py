"""Folds of cross-validation, which never split a group of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from daskrf import seeds
from daskrf.arrays import Matrix, as_csr
from daskrf.errors import InputError

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Folds:
    """Rows in blocks; each fold predicts the rows of one block from those of other blocks.

    Attributes
    ----------
    block : int64 array, shape (n,)
        The block of each row, from 0.
    n_blocks : int
    ordered : bool
        Whether a block is predicted from earlier blocks only. Then the first one is never predicted.
    """

    block: Numbers
    n_blocks: int
    ordered: bool = False

    def __len__(self) -> int:
        return self.n_blocks - self.ordered

    def blocks(self, fold: int) -> tuple[range | list[int], int]:
        """Return the blocks that a fold learns from, and the one that it predicts."""
        if self.ordered:
            return range(fold + 1), fold + 1
        return [other for other in range(self.n_blocks) if other != fold], fold

    def rows(self, fold: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return the rows that a fold learns from, and those that it predicts, ascending.

        Examples
        --------
        >>> [rows.tolist() for rows in Folds(np.array([0, 1, 2, 1]), 3, ordered=True).rows(1)]
        [[0, 1, 3], [2]]
        """
        training, held_out = self.blocks(fold)
        return np.flatnonzero(np.isin(self.block, list(training))), np.flatnonzero(self.block == held_out)


def equal_rows(X: Matrix) -> Numbers:
    """Return a number from 0 for each row, int64 of shape (n,); only equal rows have the same number.

    Parameters
    ----------
    X : CSR or dense array, shape (n, n_columns)

    Examples
    --------
    >>> equal_rows([[1, 0], [0, 2], [1, 0]]).tolist()
    [0, 1, 0]
    """
    X = as_csr(X)
    seen: dict[tuple[bytes, bytes], int] = {}
    numbers = np.empty(X.shape[0], dtype=np.int64)
    for i, (start, stop) in enumerate(zip(X.indptr[:-1], X.indptr[1:], strict=True)):
        row = X.indices[start:stop].tobytes(), X.data[start:stop].tobytes()
        numbers[i] = seen.setdefault(row, len(seen))
    return numbers


def random_folds(
    groups: npt.ArrayLike,
    n_folds: int,
    seed: int = 0,
    what: str = "molecule(s)",
    classes: npt.ArrayLike | None = None,
) -> Folds:
    """Return folds of about the same size; rows of one group are in the same fold.

    Groups are dealt from the largest to the smallest, in random order among those of one size, each to the
    smallest fold so far. With classes, each group goes to the fold with the fewest rows of the group's most
    frequent class, so that all folds have about the same share of each class (stratified).

    Parameters
    ----------
    groups : array of int, shape (n,)
        Number of the group of each row.
    n_folds : int
    seed : int
    what : str
        The name of a group in messages, with "(s)" for its plural.
    classes : array of int, shape (n,), optional
        The class of each row.

    Raises
    ------
    InputError
        If there are fewer than two folds, or fewer groups than folds.

    Examples
    --------
    >>> random_folds([0, 0, 0, 1, 2, 3], 2).block.tolist()
    [0, 0, 0, 1, 1, 1]
    >>> random_folds(range(6), 2, classes=[0, 0, 0, 0, 1, 1]).block.tolist()
    [0, 0, 1, 1, 0, 1]
    """
    _, groups = np.unique(np.asarray(groups), return_inverse=True)
    sizes = np.bincount(groups)
    _check(n_folds, len(sizes), what)
    shuffled = np.argsort(seeds.words(seed, "gp/folds", len(sizes)), kind="stable")
    _, kinds = np.unique(
        np.zeros(len(groups)) if classes is None else np.asarray(classes), return_inverse=True
    )
    counts = np.zeros((len(sizes), int(kinds.max()) + 1), dtype=np.int64)
    np.add.at(counts, (groups, kinds), 1)
    fold_of = np.empty(len(sizes), dtype=np.int64)
    held = np.zeros((n_folds, counts.shape[1]), dtype=np.int64)
    for group in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        fold_of[group] = np.lexsort((held.sum(axis=1), held[:, counts[group].argmax()]))[0]
        held[fold_of[group]] += counts[group]
    return Folds(fold_of[groups], n_folds)


def ordered_folds(
    values: npt.ArrayLike, groups: npt.ArrayLike, n_folds: int, what: str = "value(s)"
) -> Folds:
    """Return folds that learn from rows with smaller values, such as dates, and predict larger ones.

    There is one block more than there are folds, all of about the same size. Rows with the same value are in
    the same block. So are the rows of a group, which is sorted by its smallest value.

    Parameters
    ----------
    values : array, shape (n,)
        Anything that can be sorted.
    groups : array of int, shape (n,)
    n_folds : int
    what : str
        The name of a value in messages, with "(s)" for its plural.

    Raises
    ------
    InputError
        If there are too few different values.

    Examples
    --------
    >>> ordered_folds([2021, 2019, 2020, 2019], [0, 1, 2, 3], 2).block.tolist()
    [2, 0, 1, 0]
    """
    _, place = np.unique(np.asarray(values), return_inverse=True)
    _, groups = np.unique(np.asarray(groups), return_inverse=True)
    first = np.full(len(place), len(place), dtype=np.int64)
    np.minimum.at(first, groups, place)
    _, rank, counts = np.unique(first[groups], return_inverse=True, return_counts=True)
    _check(n_folds, len(counts), what, more=1)
    block_of, block = np.empty(len(counts), dtype=np.int64), 0
    ends, n, blocks = np.cumsum(counts), len(place), n_folds + 1
    for i, end in enumerate(ends):
        block_of[i] = block
        # Blocks are as equal as possible without splitting values; each later block gets at least one value.
        halfway = end + (counts[i + 1] / 2 if i + 1 < len(counts) else 0)
        full = halfway * blocks >= n * (block + 1)
        must = len(counts) - 1 - i <= blocks - 1 - block
        if block < blocks - 1 and (full or must):
            block += 1
    return Folds(block_of[rank], blocks, ordered=True)


def _check(n_folds: int, there: int, what: str, *, more: int = 0) -> None:
    """Refuse more folds than groups allow; besides one group for each fold, `more` are needed."""
    if n_folds < 2 - more:
        raise InputError(f"there must be at least {2 - more} folds, not {n_folds}.")
    one, several = what.replace("(s)", ""), what.replace("(s)", "s")
    if there < 2:
        raise InputError(
            f"there is only one {one}, so no part can be left out; split the labels another way."
        )
    if there < n_folds + more:
        raise InputError(
            f"there are only {there:,} different {several}, too few for {n_folds:,} folds; take at most "
            f"{there - more:,}, or split the labels another way."
        )
