"""Predict the peak memory of each stage before it starts, and refuse what cannot fit.

The formulas are upper bounds for one process: what its libraries take, what it holds all the
time, and what one block needs on top. Tests sample the resident size of workers against them.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from daskrf.errors import MemoryLimitError
from daskrf.gp.strips import strip_columns

__all__ = [
    "MemoryNeed",
    "block_rows",
    "check",
    "check_disk",
    "format_bytes",
    "held_rows",
    "need_of_fit",
    "need_of_map",
    "need_of_rows",
    "need_of_screen",
    "need_of_solve",
]

_BASE = 450 * 2**20  # Python, NumPy, Numba with its compiler, RDKit, Dask: measured 330 - 400 MiB
_FINGERPRINT_BYTES = 700  # a molecule's non-zeros as int64 index + uint16 count, while decoded and sliced
_ROW_BYTES = 400  # a molecule's row number, ID and SMILES as Arrow columns
_HASH_BYTES = 256 * 2**20  # of the table of the distinct hashes of a block, at most
_BLOCK_BYTES = 128 * 2**20  # of one block of dense float32 features
_HELD_BYTES = 256 * 2**20  # of the packed bits of a group, where the Gram matrix is summed in strips


@dataclass(frozen=True)
class MemoryNeed:
    """Predicted peak of one process, in bytes, and what it is made of."""

    stage: str
    parts: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        """Sum of the parts."""
        return sum(size for _, size in self.parts)

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in self.parts)
        return f"{self.stage}: {format_bytes(self.total)} a process ({parts})"


def format_bytes(size: float) -> str:
    """Return a size with a binary unit.

    Examples
    --------
    >>> format_bytes(512), format_bytes(3 * 2**30)
    ('512 B', '3.0 GiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < 1024 or unit == "TiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError


def block_rows(n_components: int, *, one_bit: bool) -> int:
    """Return how many rows are featurized at once: whole cache-friendly blocks of bounded size."""
    if one_bit:
        return 32_768
    return max(64, min(16_384, _BLOCK_BYTES // (4 * n_components)))


def held_rows(n_components: int) -> int:
    """Return how many labelled rows a group may have whose packed bits are held while strips are summed."""
    return _HELD_BYTES * 8 // n_components


def _block(n_components: int, one_bit: bool, double: bool = False) -> int:
    rows = block_rows(n_components, one_bit=one_bit)
    # Bits live as rows, joined rows and transposed words; floats as features and as the product's copy;
    # kernel values as float64, as features, and as features of the rows before them that wait to be joined.
    copies = 5 if double else 3
    return copies * rows * (-(-n_components // 8) if one_bit else 4 * n_components)


def need_of_rows(stage: str, partition_rows: int) -> MemoryNeed:
    """Return the need of a task that reads, fingerprints or writes one partition at a time."""
    return MemoryNeed(
        stage,
        (
            ("libraries", _BASE),
            ("a partition of fingerprints", 2 * partition_rows * (_FINGERPRINT_BYTES + _ROW_BYTES)),
        ),
    )


def need_of_map(partition_rows: int, sample_rows: int) -> MemoryNeed:
    """Return the need of learning a map: of a task that reads, and of the process that gathers a sample."""
    return MemoryNeed(
        "map",
        (
            ("libraries", _BASE),
            ("a partition of fingerprints", partition_rows * (_FINGERPRINT_BYTES + _ROW_BYTES)),
            ("the sample of fingerprints", 3 * sample_rows * _FINGERPRINT_BYTES),
            ("blocks of kernel values", _BLOCK_BYTES if sample_rows else 0),
        ),
    )


def need_of_fit(
    n_components: int, partition_rows: int, n_labels: int, *, one_bit: bool, double: bool = False
) -> MemoryNeed:
    """Return the need of a task that folds a group, or combines two partial statistics.

    `double` is for maps of landmarks, here and below: see `FeatureMap.gram_precision`. Above M = 8,192 the
    statistics are in strips, of which a task holds two and no process but the one that solves holds all.
    """
    strips = strip_columns(n_components)
    largest = max(8 * stop * (stop - first) for first, stop in strips)
    what = "two M x M statistics" if len(strips) == 1 else f"two of {len(strips)} strips of the statistics"
    block = _block(n_components, one_bit, double)
    if len(strips) > 1 and one_bit:  # all bits of a group, as they are joined or read
        rows = min(n_labels, max(partition_rows, held_rows(n_components)))
        block += 2 * rows * -(-n_components // 8)
    return MemoryNeed(
        "fit",
        (
            ("libraries", _BASE),
            (what, 2 * largest),
            ("a block of features", block),
            ("a partition of fingerprints", partition_rows * (_FINGERPRINT_BYTES + _ROW_BYTES)),
            ("a table of hashes", _HASH_BYTES),
            ("labels", 16 * n_labels),
        ),
    )


def need_of_solve(n_components: int, *, double: bool = False, eigen: bool = False) -> MemoryNeed:
    """Return the need of the process that solves for the posterior: the one that calls `fit`.

    `eigen` is for the eigendecomposition that follows where labels have next to no noise.
    """
    square = 8 * n_components**2
    # Statistics, one float64 matrix that Cholesky works in, and pieces of a third, measured 2.3; for
    # landmarks the factor of K_ZZ and a copy of the statistics besides, measured 3.7. An eigendecomposition
    # holds its matrix, which becomes the vectors, and twice that as workspace: measured 5.3 in all.
    share = (4.0 if double else 2.5) + (3.0 if eigen else 0.0)
    return MemoryNeed(
        "solve by eigendecomposition, for labels with next to no noise" if eigen else "solve",
        (("libraries", _BASE), ("statistics and factors, M x M each", int(share * square))),
    )


def need_of_screen(
    n_components: int, partition_rows: int, k: int, *, one_bit: bool, std: bool, double: bool = False
) -> MemoryNeed:
    """Return the need of a task that scores partitions and keeps the best k."""
    feature_bytes = -(-n_components // 8) if one_bit else 4 * n_components
    parts = [
        ("libraries", _BASE),
        ("a partition of fingerprints", partition_rows * (_FINGERPRINT_BYTES + _ROW_BYTES)),
        ("a table of hashes", _HASH_BYTES),
        ("a block of features", _block(n_components, one_bit, double)),
        ("the best k and their features", 4 * k * (feature_bytes + 64)),
        ("tables of the weights", 256 * 8 * -(-n_components // 8)),
    ]
    if std:
        # Statistics, their Cholesky factor, and its inverse in float32, measured 2.6; for landmarks the
        # factor of K_ZZ, all in float64, and a copy of the statistics besides, measured 5.7.
        share = 6.0 if double else 2.65
        parts.append(("statistics and factors, M x M each", int(share * 8 * n_components**2)))
        parts.append(("unpacked features", 2 * _BLOCK_BYTES))
    return MemoryNeed("standard deviations" if std else "screen", tuple(parts))


def check_disk(path: str | os.PathLike[str], n_bytes: int, what: str) -> None:
    """Refuse what would not fit on the disk of `path`, which need not exist yet.

    Raises
    ------
    MemoryLimitError
        With the prediction and the free space.
    """
    place = next(
        parent for parent in (Path(path).absolute(), *Path(path).absolute().parents) if parent.exists()
    )
    free = shutil.disk_usage(place).free
    if n_bytes > free:
        raise MemoryLimitError(
            f"{what.capitalize()} would take {format_bytes(n_bytes)} in {path}, where {format_bytes(free)} "
            "are free; make room, or give another output path."
        )


def check(need: MemoryNeed, limit: int, where: str) -> None:
    """Refuse a stage that would not fit.

    Raises
    ------
    MemoryLimitError
        With the prediction, what it is made of, and the limit.
    """
    if need.total > limit:
        raise MemoryLimitError(
            f"{need} does not fit {where} with {format_bytes(limit)}; take fewer components or smaller "
            "partitions, or give a process more memory."
        )
