"""Sums for many features: a tree of partial sums for the vectors, and one for each strip of the Gram matrix.

So no worker holds, writes or reads more than two strips, and only the process that solves holds the matrix.
Each tree goes through the features: packed bits are kept between them (`held_bits`), but dense ones, 32 times
as large, are made anew from fingerprints, once for each strip and once more; a feature store is read instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from distributed import Client

from daskrf.gp.statistics import Precision, SufficientStatistics
from daskrf.gp.sums import GramStrip, Summation, assemble
from daskrf.jobs.folding import Fold, fold
from daskrf.jobs.progress import Progress
from daskrf.jobs.sources import Block, Source, gathered
from daskrf.storage.model import read_checkpoint, write_checkpoint
from daskrf.storage.plans import hash_of

__all__ = ["StripFold", "held_bits", "sum_in_strips", "trees"]


class RowsFold(Fold, Protocol):
    """The reduction of labelled rows to their vector sums, which hands their features to the strips too."""

    @property
    def source(self) -> Source:
        """Where features come from."""

    @property
    def precision(self) -> Precision:
        """In which floats are multiplied."""

    def blocks(self, partitions: Sequence[int]) -> Iterator[Block]:
        """Yield the features of the labelled rows of a group."""


@dataclass(frozen=True)
class StripFold:
    """The sum of some columns of the Gram matrix over the labelled rows of partitions; see `Fold`."""

    rows: RowsFold
    columns: tuple[int, int]
    name: str

    def from_partitions(self, partitions: Sequence[int]) -> GramStrip:
        """See `Fold`."""
        source = self.rows.source
        strip = Summation(
            source.feature_map.n_components,
            one_bit=source.bits,
            precision=self.rows.precision,
            columns=self.columns,
        ).zero()
        for block in self.rows.blocks(partitions):
            strip.update(block.phi)
        return strip

    def restore(self, arrays: Mapping[str, np.ndarray]) -> GramStrip:
        """See `Fold`."""
        return Summation.restore(arrays)


def held_bits(path: Path, key: str, make: Callable[[], Iterable[Block]]) -> Block:
    """Return the packed bits of a group: from the file where an earlier strip left them, or made and left.

    To make the bits of M = 16,384 takes about a third as long as the products of all their columns; a file of
    M / 8 bytes a row is small beside the partial sums.
    """
    held = read_checkpoint(path, key)
    if held is not None:
        return Block(held.arrays["rows"], held.arrays["bits"])
    block = next(gathered(make(), sys.maxsize))
    write_checkpoint(path, {"rows": block.rows, "bits": block.phi}, {}, key)
    return block


def sum_in_strips(
    rows: RowsFold,
    columns: Sequence[tuple[int, int]],
    groups: Sequence[tuple[int, ...]],
    n_rows: Sequence[int],
    directory: Path,
    spec_hash: str,
    *,
    client: Client | None,
    progress: Progress,
) -> SufficientStatistics:
    """Return the sufficient statistics of all groups, summed strip by strip.

    Parameters
    ----------
    rows : RowsFold
        Sums the vectors; without a Gram matrix.
    columns : sequence of (int, int)
        `strip_columns` of M.
    groups, n_rows, directory, spec_hash, client, progress : as for `fold`
        Each tree has its own folder below `directory`.
    """

    found: Iterator[Any] = (
        fold(reduction, groups, n_rows, tree, key, client=client, progress=progress)
        for reduction, tree, key in trees(rows, columns, directory, spec_hash)
    )
    return assemble(next(found), found)


def trees(
    rows: RowsFold, columns: Sequence[tuple[int, int]], directory: Path, spec_hash: str
) -> Iterator[tuple[Fold, Path, str]]:
    """Yield reduction, folder of checkpoints and hash of each tree: that of the vectors, then the strips."""
    yield rows, directory / "vectors", hash_of([spec_hash])
    for i, (first, stop) in enumerate(columns):
        strip = StripFold(rows, (first, stop), f"fit-strip-{i + 1}-of-{len(columns)}")
        yield strip, directory / f"strip-{i:03d}", hash_of([spec_hash, first, stop])
