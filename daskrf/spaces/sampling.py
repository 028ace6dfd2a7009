"""Uniformly random products of a space."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf import seeds
from daskrf.spaces.cut import CutSpace
from daskrf.spaces.families import Family, Product, starts_of
from daskrf.spaces.limits import Range
from daskrf.spaces.ranking import ROUNDING

Integers = npt.NDArray[np.int64]

_BATCH = 2**14  # products whose counts are held at a time
_FEW = 2**20  # numbers: up to this many are all shuffled
_TRIES = 30  # rounds of random numbers, if few of them qualify


def random_numbers(
    total: int,
    n: int,
    seed: int,
    name: str,
    wanted: Callable[[Integers], npt.NDArray[np.bool_]] | None = None,
) -> Integers:
    """Return `n` distinct random numbers from 0 to total - 1, in random order; fewer if there are no more.

    They are the first distinct numbers in a stream of random words: a larger `n` extends the sequence.

    Parameters
    ----------
    total, n, seed : int
    name : str
        Of the stream.
    wanted : callable, optional
        Returns which numbers qualify. If fewer than one in 30 does, fewer than `n` may be returned.

    Returns
    -------
    int64 array, shape (at most n,)

    Examples
    --------
    >>> first = random_numbers(10**18, 3, 0, "example")
    >>> bool((random_numbers(10**18, 2, 0, "example") == first[:2]).all())
    True
    >>> sorted(random_numbers(3, 5, 0, "example").tolist())
    [0, 1, 2]
    """
    if total <= max(2 * n, _FEW):
        order = np.argsort(seeds.words(seed, name, total), kind="stable").astype(np.int64)
        return (order if wanted is None else order[wanted(order)])[:n]
    chosen = np.empty(0, np.int64)
    most = np.uint64((2**64 // total) * total - 1)  # words above would make small numbers more likely
    size = 2 * n + 64
    for attempt in range(_TRIES):
        words = seeds.words(seed, name, size, start=attempt * size)
        numbers = (words[words <= most] % np.uint64(total)).astype(np.int64)
        chosen = _distinct(np.concatenate([chosen, numbers if wanted is None else numbers[wanted(numbers)]]))
        if len(chosen) >= n:
            break
    return chosen[:n]


def places_by_reaction(
    cut: CutSpace, numbers: Integers
) -> Iterator[tuple[int, npt.NDArray[np.intp], list[Integers]]]:
    """Yield each reaction of products given by number, their positions, and their entries by slot."""
    starts = np.array(starts_of(cut), np.int64)
    reaction = np.searchsorted(starts[1:], numbers, side="right")
    for r in np.unique(reaction).tolist():
        at = np.flatnonzero(reaction == r)
        rest, places = numbers[at] - starts[r], []
        for slot in reversed(cut.entries[r]):
            rest, place = np.divmod(rest, len(slot.block))
            places.append(place)
        yield r, at, places[::-1]


def by_reaction(
    cut: CutSpace, numbers: Integers
) -> Iterator[tuple[int, npt.NDArray[np.intp], list[npt.NDArray[np.int32]]]]:
    """Yield each reaction of products given by number, their positions, and their synthons by slot."""
    for r, at, places in places_by_reaction(cut, numbers):
        yield r, at, [slot.synthon[place] for slot, place in zip(cut.entries[r], places, strict=True)]


def rows_of_numbers(
    cut: CutSpace, families: Sequence[Family], numbers: Integers
) -> Iterator[tuple[int, npt.NDArray[np.intp], list[npt.NDArray[np.intp]]]]:
    """Yield families of products given by number, by place, with their positions, and rows of the sides."""
    for r, at, synthons in by_reaction(cut, numbers):
        f = next(f for f, family in enumerate(families) if r in family.reactions)
        rows = []
        for side, synthon in zip(families[f].sides, synthons, strict=True):
            order = np.argsort(side.synthon)
            rows.append(order[np.searchsorted(side.synthon[order], synthon)])
        yield f, at, rows


def counts_of_numbers(
    cut: CutSpace, families: Sequence[Family], numbers: Integers
) -> Iterator[tuple[npt.NDArray[np.intp], sparse.csr_matrix]]:
    """Yield the positions and fingerprints of products given by number, in batches."""
    for f, at, rows in rows_of_numbers(cut, families, numbers):
        for start in range(0, len(at), _BATCH):
            batch = slice(start, start + _BATCH)
            yield at[batch], families[f].fingerprints(cut.own, [row[batch] for row in rows])


def product_sums(cut: CutSpace, numbers: Integers) -> npt.NDArray[np.float64]:
    """Return the sums of products given by number, shape (n, 5): see `daskrf.spaces.limits.SUMS`."""
    sums = np.zeros((len(numbers), cut.sums.shape[1]))
    for _, at, synthons in by_reaction(cut, numbers):
        for synthon in synthons:
            sums[at] += cut.sums[synthon]
    return sums


def inside(cut: CutSpace, numbers: Integers, limits: Sequence[Range]) -> npt.NDArray[np.bool_]:
    """Return which products lie within all limits, with the same rounding as a search."""
    mask = np.ones(len(numbers), bool)
    if limits:
        sums = product_sums(cut, numbers)
        for column, low, high in limits:
            mask &= (sums[:, column] >= low - ROUNDING) & (sums[:, column] <= high + ROUNDING)
    return mask


def counts_of(cut: CutSpace, products: Sequence[Product]) -> sparse.csr_matrix:
    """Return the fingerprints of products of any number of slots, as sums; see `CutSpace.fingerprints`."""
    n_slots = np.array([len(product.synthons) for product in products], np.int64)
    parts, places = [sparse.csr_matrix((0, cut.spec.n_columns), dtype=np.uint16)], [np.empty(0, np.int64)]
    for n in np.unique(n_slots).tolist():
        places.append(np.flatnonzero(n_slots == n))
        parts.append(cut.fingerprints(np.array([products[i].synthons for i in places[-1].tolist()])))
    return sparse.vstack(parts, format="csr")[np.argsort(np.concatenate(places))]


def _distinct(numbers: Integers) -> Integers:
    """Return each number once, in order of first occurrence."""
    return numbers[np.sort(np.unique(numbers, return_index=True)[1])]
