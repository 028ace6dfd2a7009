"""Memory that a fit needs for labels, sums and solutions, and disk space for partial sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from daskrf.gp.sums.shapes import ONE_MATRIX, SumsShape
from daskrf.gp.sums.statistics import Precision
from daskrf.gp.sums.sums import STRIP_BYTES
from daskrf.jobs.memory import MIB, MODEL, PIECES, Making, MemoryNeed, peak
from daskrf.models.labelled import MOST_KEPT
from daskrf.molecules.structures import LEVELS

# Bytes per label while labels are read and joined, and per byte of its key, which is kept compressed.
# Measured with 10^7 labels by IDs of 13 characters: 51 in all, and 65 where a twentieth of them are repeats.
_LABEL_BYTES = 62
_KEY_BYTES = 0.3
# Joined by structure, labels are known as objects of Python besides: 218 bytes for SMILES of 46 characters,
# and 589 where the graphs of parents are compared.
_STRUCTURE_BYTES, _GRAPH_BYTES = 180, 560
# Bytes per label when the model is saved: its row and its value, unless they are in mapped files; a copy of
# the values to look at; and its SMILES, of 46 characters, unless they are read as they are written.
_STORED_BYTES, _SEEN_BYTES, _SMILES_BYTES = 16, 10, 54
_MAPPED_BYTES = 16 * MIB  # of the files of labels, at a time
_GROUP_ROWS = 1 << 20  # labels that a task reads, if they are not of one partition
_TILE_BYTES = 32 * MIB  # of a product in double precision on its way to a strip
_HELD_BYTES = 256 * MIB  # of the packed bits of a group, where the Gram matrix is summed in strips


def need_of_labels(n_labels: int, key_bytes: float = 0.0, key: str = "id") -> MemoryNeed:
    """Return the memory needed to join labels whose keys have this many bytes of text on average.

    `key` is how they are joined; see `daskrf.measurements.Reading`.
    """
    each = _LABEL_BYTES + _KEY_BYTES * key_bytes
    if key in LEVELS:
        each += (_STRUCTURE_BYTES if key == "structure" else _GRAPH_BYTES) + key_bytes

    def need_of(n: int) -> MemoryNeed:
        return peak("labels", {"labels as they are read and joined": int(n * each), "pieces": PIECES})

    return replace(need_of(n_labels), smaller={"labels": (n_labels, 1000, need_of)})


def held_rows(n_components: int) -> int:
    """Return how many labelled rows a group may have if its packed bits stay in memory for all strips."""
    return _HELD_BYTES * 8 // n_components


def need_of_sums(
    making: Making,
    n_labels: int,
    group_rows: int | None = None,
    *,
    precision: Precision = "single",
    strip_bytes: int = STRIP_BYTES,
    n_limits: int = 0,
) -> MemoryNeed:
    """Return the memory needed by a task that sums a group, or combines two partial statistics.

    `group_rows` is the number of labelled rows in the largest group, `precision` that of the sums. Above M =
    8,192 the statistics come in strips of `strip_bytes`. A task holds two of them; only the process that
    solves holds all. Sums also hold the features of `n_limits` labels that are limits.
    """
    M, shape = making.n_components, making.shape
    strips, square = shape.strips(M, strip_bytes), shape.largest(M, strip_bytes)
    what = "M x M statistics" if len(strips) == 1 else f"strips of the statistics, of {len(strips)}"
    several = group_rows is None or group_rows < n_labels
    group_rows = n_labels if group_rows is None else group_rows
    # Blocks are joined until they have enough rows for the engine: at most nearly two blocks.
    joined = min(making.block_rows * making.row_bytes + making.block, group_rows * making.row_bytes)
    update = 2048 * M  # transposed words of bits; or the same rows in float64
    if not making.one_bit:
        update = 8 * min(group_rows, 2048) * shape.converted(M)
        # A product in single precision is as large as the sum it is added to. One in double precision is
        # added in place, or to strips some hundred rows at a time.
        in_place = shape.double or precision == "double"
        update += min(_TILE_BYTES, square) * (len(strips) > 1) if in_place else square // 2
    if len(strips) > 1 and making.one_bit:  # all bits of a group, while they are joined or read
        joined = 2 * min(n_labels, max(making.rows, held_rows(M))) * making.row_bytes
    leaf = {
        f"one of the {what}": square,
        "labels": 16 * min(group_rows, max(making.rows, _GROUP_ROWS)),
        "the features of limits": 3 * min(n_limits, group_rows) * making.row_bytes,
        "a partition of fingerprints": making.partition,
    }
    blocks_held = joined + (making.block if joined > making.block else 0)
    return peak(
        "fit",
        {f"one of the {what}": square, **making.decoding},
        {**leaf, "blocks of features": blocks_held, "making them": making.making},
        {**leaf, "a block of features": joined, "adding it": update},
        {
            f"{'two' if several else 'one'} of the {what}": (1 + several) * square,
            "the features of limits": 3 * n_limits * making.row_bytes,
            "pieces": PIECES,
        },
    )


def need_of_solve(
    making: Making,
    n_labels: int | None = None,
    *,
    eigen: bool = False,
    n_sums: int = 1,
    n_limits: int = 0,
    holds_smiles: bool = False,
    mapped: bool = False,
) -> MemoryNeed:
    """Return the memory needed to solve for the posterior, in the process that calls `fit`.

    With `holds_smiles`, the SMILES of all labelled molecules are in memory, as in `add`; else those of many
    are read as they are written. `mapped` is whether the labels are in files, as those are that were joined
    in parts. `eigen` adds the eigendecomposition for labels with next to no noise. If `n_sums` sets of rows
    have separate sums, they are solved one after the other, but the statistics of all stay in memory.
    `n_limits` labels are limits, whose features are held in double precision while sites are found.
    """
    share, decomposed = making.shape.solving(making.n_components, eigen=eigen)
    share, decomposed = share + n_sums - 1, decomposed + n_sums - 1
    n = n_labels or 0
    held = _MAPPED_BYTES if mapped else _STORED_BYTES * n
    labels = held + _SEEN_BYTES * n + _SMILES_BYTES * (n if holds_smiles else min(n, MOST_KEPT))
    return peak(
        "solve by eigendecomposition, for labels with next to no noise" if eigen else "solve",
        {MODEL: share * making.square, "pieces": PIECES, "labels": labels},
        {MODEL: share * making.square, "limits": _of_limits(n_limits, making), "labels": labels},
        {MODEL: decomposed * making.square, "labels": labels},
    )


def _of_limits(n_limits: int, making: Making) -> int:
    """Return the memory for limits while their sites are found.

    It holds their features and whitened features, the hidden measurements' covariance or a matrix of the
    features, whichever is smaller, and what a sweep computes from it.
    """
    M, m = making.n_components, n_limits
    return n_limits * making.row_bytes + 8 * (3 * m * M + 5 * m * m if m <= M else 5 * m * M + 3 * M * M)


def size_of_sums(
    columns: Sequence[tuple[int, int]],
    group_rows: Sequence[int],
    *,
    one_bit: bool,
    shape: SumsShape = ONE_MATRIX,
) -> tuple[int, int, int]:
    """Return the largest number of bytes of all roots' leaves, of one root's leaves, and of the roots.

    Shards keep the leaves of all roots. A whole run combines the leaves of one root before it makes those of
    the next.

    Parameters
    ----------
    columns : sequence of (int, int)
        Columns of each strip of the M x M sums.
    group_rows : sequence of int
        Labelled rows of each group, which leaves one partial sum for each strip.
    one_bit : bool
        Whether the sums are of bits; each is then stored in as many bits as the largest sum can have.
    shape : SumsShape, optional
        Default: one matrix.
    """
    strips = shape.stored(columns, one_bit=one_bit)
    leaves = len(group_rows) * _bits(max(group_rows, default=0), one_bit)
    root = _bits(sum(group_rows), one_bit)
    return leaves * sum(strips) // 8, leaves * max(strips) // 8, root * sum(strips) // 8


def _bits(rows: int, one_bit: bool) -> int:
    """Return the bits that one sum over this many rows takes on disk."""
    return rows.bit_length() + 1 if one_bit else 64
