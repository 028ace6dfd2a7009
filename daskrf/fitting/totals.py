"""Sums over features and targets, reduced by the tree of a job or by a lazy Dask graph.

Above M = 8,192 a job sums the vectors, and each strip of the Gram matrix, as a separate root, so that no
worker holds, writes or reads more than two strips, and only the process that solves holds the matrix. Each
root goes through all features. Packed bits are kept between roots (`held_bits`); dense features, 32 times as
large, are recomputed from fingerprints, once for each strip and once more, or read from a feature store.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from daskrf.arrays import Matrix, NamedArrays
from daskrf.files.backend import as_path
from daskrf.gp.sums.limitrows import LimitRows
from daskrf.gp.sums.statistics import SufficientStatistics
from daskrf.gp.sums.sums import GramStrip, Statistics, Summation, assemble
from daskrf.gp.sums.sums import Sums as PartialSums
from daskrf.jobs.memory import block_rows
from daskrf.jobs.tree import Reduction
from daskrf.models.joinedlabels import kept_arrays, kept_limits
from daskrf.sources.sources import Block, Source, gathered
from daskrf.storage.integrity import release
from daskrf.storage.model import read_checkpoint, write_checkpoint
from daskrf.storage.stores.store import hash_of


class LabelledBlock(NamedTuple):
    """Features, targets, and diagonal (None if the features determine it) of some labels.

    `limits` are the rows whose labels are limits, which are not among the others.
    """

    phi: Matrix
    y: npt.NDArray[np.float64]
    diagonal: npt.NDArray[np.float64] | None
    limits: LimitRows | None = None


@dataclass(frozen=True)
class Sums(Reduction[LabelledBlock, PartialSums, Statistics]):
    """Reduction of labelled blocks by a `Summation`."""

    summation: Summation
    name: str = "fit"

    def zero(self) -> PartialSums:
        return self.summation.zero()

    def add(self, total: PartialSums, block: LabelledBlock) -> None:
        total.update(block.phi, block.y, block.diagonal)
        if block.limits is not None and isinstance(total, SufficientStatistics):
            total.add_limits(block.limits)

    def restore(self, arrays: NamedArrays) -> PartialSums:
        return self.summation.restore(arrays)

    def finalize(self, total: PartialSums, rest: Iterator[PartialSums]) -> Statistics:
        """Assemble the strips, if the Gram matrix was summed in strips."""
        assert not isinstance(total, GramStrip)
        if self.summation.gram:
            return total
        assert isinstance(total, SufficientStatistics)
        return assemble(total, cast(Iterator[GramStrip], rest))


@functools.lru_cache(maxsize=4)
def _labels(directory: str, key: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    return kept_arrays(as_path(directory))


@functools.lru_cache(maxsize=4)
def _limits(directory: str, key: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int8]] | None:
    return kept_limits(as_path(directory))


def _without_limits(
    block: Block,
    y: npt.NDArray[np.float64],
    bound: npt.NDArray[np.float64],
    side: npt.NDArray[np.int8],
) -> LabelledBlock:
    """Return the measured labels of a block, with its limits apart; of one target."""
    sides = side[block.rows, 0]
    measured, hidden = block.where(np.flatnonzero(sides == 0)), block.where(np.flatnonzero(sides))
    limits = LimitRows.of(hidden.phi, bound[hidden.rows, 0], side[hidden.rows, 0])
    return LabelledBlock(measured.phi, y[measured.rows], measured.diagonal, limits)


@dataclass(frozen=True)
class Labelled:
    """Features, labels and diagonals of the labelled rows of some partitions: a chunk for `Sums`.

    Attributes
    ----------
    source : Source
    labels : str
        Folder that holds the labels.
    key, map_key : str
        Hashes of everything the sums depend on, and of the map.
    held : bool
        Whether the bits are made once and kept for the other roots.
    partitions : tuple of int
    """

    source: Source
    labels: str
    key: str
    map_key: str
    held: bool
    partitions: tuple[int, ...] = ()

    def of(self, partitions: tuple[int, ...]) -> Labelled:
        """Return the chunk for some partitions."""
        return replace(self, partitions=partitions)

    def __iter__(self) -> Iterator[LabelledBlock]:
        rows, y = _labels(self.labels, self.key)
        limits = None if self.source.raw else _limits(self.labels, self.key)
        for block in self._blocks():
            if limits is None:
                yield LabelledBlock(block.phi, y[block.rows], block.diagonal)
            else:
                yield _without_limits(block, y, *limits)
            del block  # before the next one is made
        for array in (rows, y):  # so that a worker does not come to hold the labels of all its groups
            release(array)

    def _blocks(self) -> Iterator[Block]:
        """Yield blocks whose row numbers are label numbers (among all labels), not library rows."""
        if self.source.raw:
            yield from self._made()
        elif self.held:
            key = hash_of([self.key, self.map_key, list(self.partitions)])
            yield held_bits(as_path(self.labels).parent / f"bits-{self.partitions[0]:08d}", key, self._made)
        else:
            rows = block_rows(self.source.feature_map.n_components, one_bit=self.source.bits)
            yield from gathered(self._made(), rows)

    def _made(self) -> Iterator[Block]:
        """Yield the features of the labels as the source makes them."""
        rows, _ = _labels(self.labels, self.key)
        bounds = self.source.row_bounds
        for p in self.partitions:
            low, high = np.searchsorted(rows, bounds[p : p + 2])
            labelled = np.asarray(rows[low:high])
            for block in self.source.blocks(p, np.unique(labelled)):
                yield from of_labels(block, labelled, int(low))
                del block  # before the next one is made


def of_labels(block: Block, rows: npt.NDArray[np.int64], first: int) -> Iterator[Block]:
    """Yield the features of each label: its molecule's, repeated as often as in the sorted `rows`.

    Blocks have no more rows than `block`; `first` is the number of the first label.
    """
    starts, stops = (np.searchsorted(rows, block.rows, side=side) for side in ("left", "right"))
    if (times := stops - starts).max(initial=0) <= 1:
        yield replace(block, rows=first + starts)
        return
    which = np.repeat(np.arange(len(times)), times)
    labels = first + np.arange(len(which)) + np.repeat(starts - np.cumsum(times) + times, times)
    for start in range(0, len(which), len(times)):
        some = slice(start, start + len(times))
        yield replace(block.where(which[some]), rows=labels[some])


def held_bits(path: PurePath, key: str, make: Callable[[], Iterable[Block]]) -> Block:
    """Return the packed bits of a group, from the file left by an earlier root, or made now and saved.

    Making the bits for M = 16,384 takes about a third as long as the products of all their columns; a file
    with M / 8 bytes per row is small compared with the partial sums.
    """
    held = read_checkpoint(path, key)
    if held is not None:
        return Block(held.arrays["rows"], held.arrays["bits"])
    block = next(gathered(make(), sys.maxsize))
    write_checkpoint(path, {"rows": block.rows, "bits": block.phi}, {}, key)
    return block
