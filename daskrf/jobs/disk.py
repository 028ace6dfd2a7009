"""Predict what stages leave on the disk, and refuse before the start what cannot fit."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from daskrf.errors import MemoryLimitError
from daskrf.paths import ObjectPath, as_path
from daskrf.quantities import format_bytes

__all__ = ["check_disk", "checkpoint_bytes", "prediction_bytes"]

_ROW_BYTES = 12  # of a prediction's row number and ID in compressed Parquet


def check_disk(path: str | os.PathLike[str], n_bytes: int, what: str) -> None:
    """Refuse what would not fit on the disk of `path`, which need not exist yet.

    What an earlier run has left there counts as a part of it.

    Raises
    ------
    MemoryLimitError
        With the prediction and the free space.
    """
    path = as_path(path)
    if isinstance(path, ObjectPath):  # a storage does not say how much room it has
        return
    place = next(parent for parent in (path.absolute(), *path.absolute().parents) if parent.exists())
    free = shutil.disk_usage(place).free
    if n_bytes > free and n_bytes - _present(path) > free:
        raise MemoryLimitError(
            f"{what.capitalize()} would take {format_bytes(n_bytes)} in {path}, where {format_bytes(free)} "
            "are free; make room, or give another output path."
        )


def _present(path: Path) -> int:
    """Return the bytes of the files below `path`."""
    found = 0
    for folder, _, names in os.walk(path):
        for name in names:
            try:
                found += os.stat(os.path.join(folder, name)).st_size
            except FileNotFoundError:  # of another process that has just ended
                continue
    return found


def checkpoint_bytes(
    columns: Sequence[tuple[int, int]],
    group_rows: Sequence[int],
    *,
    one_bit: bool,
    held: bool,
    shard: bool,
    gram_columns: int | None = None,
) -> int:
    """Return the bytes of the partial sums of a fit where they are most, at the most.

    Parameters
    ----------
    columns : sequence of (int, int)
        Of the strips of the M x M sums.
    group_rows : sequence of int
        Labelled rows of each group, of which each leaves one partial sum a strip.
    one_bit : bool
        Sums of bits are stored as the smallest integers that hold them.
    held : bool
        Whether the bits of the labelled rows are kept until all strips are made.
    shard : bool
        Shards leave the partial sums of all strips; a whole run combines those of one before the next.
    gram_columns : int, optional
        Of the Gram matrices of a map of blocks, in place of strips: `FeatureMap.gram_columns`.
    """
    size = columns[-1][1]
    whole = not one_bit and len(columns) > 1  # products of floats fill a strip below the diagonal, too
    strips = [
        stop * width - (0 if whole else width * (width - 1) // 2)
        for width, stop in ((stop - first, stop) for first, stop in columns)
    ]
    if gram_columns is not None:
        strips = [size * gram_columns]
    rows = sum(group_rows)
    leaves = len(group_rows) * _item(max(group_rows, default=0), one_bit)
    sums = leaves * sum(strips) if shard else leaves * max(strips) + _item(rows, one_bit) * sum(strips)
    return sums + (rows * -(-size // 8) if held else 0)


def _item(rows: int, one_bit: bool) -> int:
    """Return the bytes of one sum over so many rows; see `daskrf.storage.container`."""
    if not one_bit:
        return 8
    return next(size for size in (1, 2, 4, 8) if rows < 2 ** (8 * size - 1))


def prediction_bytes(n_rows: int, n_targets: int, *, std: bool) -> int:
    """Return the bytes of predictions: random mantissas do not shrink."""
    return n_rows * (_ROW_BYTES + 8 * n_targets * (3 if std else 1))
