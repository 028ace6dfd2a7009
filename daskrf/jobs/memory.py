"""Predict the peak memory of each stage before it starts, and refuse what cannot fit.

A prediction is the largest sum of what one process holds at the same time, phase by phase: its
libraries, what stays, and what one block needs on top. Tests hold the peaks of workers against
it, of which it is an upper bound, and by at most a quarter.
"""

from __future__ import annotations

import bisect
import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import psutil
from distributed import Client

from daskrf.errors import MemoryLimitError
from daskrf.gp.statistics import Precision
from daskrf.gp.sums import STRIP_BYTES, strip_columns
from daskrf.jobs.clusters import QueuedClient, ask_workers
from daskrf.jobs.models import open_model
from daskrf.molecules.isolation import end_idle
from daskrf.quantities import format_bytes

__all__ = [
    "LIBRARIES",
    "MemoryNeed",
    "block_rows",
    "check",
    "fewer_rows",
    "held_by_model",
    "libraries_of",
    "need_of_features",
    "need_of_fit",
    "need_of_labels",
    "need_of_map",
    "need_of_rows",
    "need_of_screen",
    "need_of_solve",
]

_MIB = 2**20
LIBRARIES = 275 * _MIB  # Python, Dask, NumPy, SciPy, Arrow and Numba, loaded: measured 245 - 281
# Machine code and buffers that come with the first task: measured 65 - 80, and 50 more where Numba has to
# compile because nobody has run that task on the machine before.
_FIRST_TASK = 115 * _MIB
_HELPER = 70 * _MIB  # the process beside it in which RDKit works: measured 59, and 70 for its paths
_FIRST_READ = 45 * _MIB  # the same where nothing is compiled, but files are read: measured 20 - 35
_BATCH_ROWS = 10_000  # rows of a file that are read and fingerprinted at a time
NONZEROS = 40  # of a drug-like molecule's Morgan counts at radius 1, where no store counts them
_STORED = 10  # bytes of a non-zero: int64 index and uint16 count
_DECODING = 15  # bytes of a non-zero while a partition is decoded: also uint32 index and uint8 count
_NUMBER_BYTES = 70  # a molecule's row number and pointer, with Arrow's buffers of the file
_ROW_BYTES = 300  # a molecule's row number, ID, SMILES, file and line in Arrow, with the buffers of the file
_BATCH_ENTRIES = 1 << 20  # non-zeros that are hashed at a time; see daskrf.engine.cpu.tiled
_TABLE_BYTES = 32 * _MIB  # of their distinct pairs, at most
_BLOCK_BYTES = 128 * _MIB  # of one block of dense float32 features
_EXPANDED = 64 * _MIB  # of features unpacked or converted for deviations; see daskrf.gp.posterior
_PIECES = 24 * _MIB  # of a checkpoint or a Gram matrix that is read, written or copied piece by piece
_RDKIT = "the process of RDKit"
_USABLE = 0.95  # of a worker's limit: from there on Dask's nanny ends it
_CHUNK_BYTES = 16 * _MIB  # of a feature store
_TILE_BYTES = 32 * _MIB  # of a product in double precision on its way to a strip
# A label as it is read, and a byte of its key: measured 221 in all for rows, 243 for IDs of 13 characters and
# 410 for SMILES of 46, where the library has as many rows as there are labels, or more.
_LABEL_BYTES, _KEY_BYTES = 240, 5.0
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

    def plus(self, name: str, size: int) -> MemoryNeed:
        """Return the need of a process that holds something besides, all the time."""
        return MemoryNeed(self.stage, (*self.parts, (name, size)))

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in self.parts if size)
        return f"{self.stage}: {format_bytes(self.total)} a process ({parts})"


def block_rows(n_components: int, *, one_bit: bool) -> int:
    """Return how many rows are featurized at once: whole cache-friendly blocks of bounded size."""
    if one_bit:
        return 32_768
    return max(64, min(16_384, _BLOCK_BYTES // (4 * n_components)))


def held_rows(n_components: int) -> int:
    """Return how many labelled rows a group may have whose packed bits are held while strips are summed."""
    return _HELD_BYTES * 8 // n_components


def _need(stage: str, libraries: int, *phases: dict[str, float], compiled: bool = True) -> MemoryNeed:
    """Return the need of the phase that takes most."""
    largest = max(phases, key=lambda phase: sum(phase.values()))
    first = ("compiled code and buffers", _FIRST_TASK) if compiled else ("buffers of files", _FIRST_READ)
    parts = [("libraries", libraries), first]
    return MemoryNeed(stage, (*parts, *((name, int(size)) for name, size in largest.items() if size)))


def libraries_of(client: Client | None, here: int | None = None) -> int:
    """Return what libraries take in the worker that they take most in, asked of it; or in this process.

    The number depends on the machine and on versions. Where no worker is there yet, or one is silent, it is
    `LIBRARIES`. A driver asks for its own process before it reads anything, which would be counted twice, and
    gives that as `here`.
    """
    end_idle()
    if client is None:
        return _resident() if here is None else here
    if isinstance(client, QueuedClient):
        return LIBRARIES
    return max(ask_workers(client, _resident).values(), default=LIBRARIES)


def _resident() -> int:
    """Return what this process takes, the first task's code and buffers and a model that is open left out."""
    open_model.cache_clear()
    end_idle()
    gc.collect()
    return max(_at_first(), psutil.Process().memory_info().rss - _FIRST_TASK)


@cache
def _at_first() -> int:
    return int(psutil.Process().memory_info().rss)


@dataclass(frozen=True)
class _Making:
    """What making features of the largest partition takes.

    `n_nonzeros` are those of the partition: None where no store has counted them, 0 where features are read.
    """

    n_components: int
    rows: int
    one_bit: bool
    double: bool
    n_nonzeros: int | None

    @property
    def nonzeros(self) -> int:
        return self.rows * NONZEROS if self.n_nonzeros is None else self.n_nonzeros

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of features."""
        return -(-self.n_components // 8) if self.one_bit else 4 * self.n_components

    @property
    def block(self) -> int:
        """Bytes of the features of one block."""
        rows = min(block_rows(self.n_components, one_bit=self.one_bit), self.rows)
        return min(rows * self.row_bytes, _CHUNK_BYTES) if self.n_nonzeros == 0 else rows * self.row_bytes

    @property
    def partition(self) -> int:
        """Bytes of the fingerprints as they are held."""
        return _STORED * self.nonzeros + _NUMBER_BYTES * self.rows

    @property
    def decoding(self) -> dict[str, float]:
        """The phase before the first block."""
        return {"a partition of fingerprints, decoded": _DECODING * self.nonzeros + _NUMBER_BYTES * self.rows}

    @property
    def making(self) -> int:
        """Bytes beside the features while a block is made."""
        if self.n_nonzeros == 0:  # a chunk as it is read, and without its digest
            return 2 * _CHUNK_BYTES
        share = min(1.0, block_rows(self.n_components, one_bit=self.one_bit) / max(1, self.rows))
        entries = share * self.nonzeros
        if self.double:  # numbers of columns, counts, and counts as float64
            return int(14 * entries)
        hashed = min(entries, _BATCH_ENTRIES)
        # Places of entries, and the hash table that finds their distinct pairs; of these a table, taken to be
        # a quarter as many. Floats of bits come from all bits of the block.
        unpacked = self.block // 4 if not self.one_bit else 0
        return int(16 * hashed + min(_TABLE_BYTES, 64 * hashed) + unpacked)


def need_of_rows(
    partition_rows: int, *, nonzeros: int | None = None, libraries: int = LIBRARIES
) -> MemoryNeed:
    """Return the need of a task that fingerprints and writes one partition at a time."""
    n = partition_rows * NONZEROS if nonzeros is None else nonzeros
    batch = min(1.0, _BATCH_ROWS / max(1, partition_rows))
    # Made by batches, whose vectors are RDKit's bytes first; then joined; then written, indices in 32 bits.
    making = (_STORED + 40 * batch) * n + (110 + 500 * batch) * partition_rows
    writing = (_STORED + 8) * n + 220 * partition_rows
    phase = {"a partition of fingerprints": max(making, writing), _RDKIT: _HELPER}
    return _need("fingerprint", libraries, phase, compiled=False)


def need_of_map(
    partition_rows: int,
    sample_rows: int,
    *,
    nonzeros: int | None = None,
    compiled: bool = True,
    libraries: int = LIBRARIES,
) -> MemoryNeed:
    """Return the need of learning a map: of a task that reads, and of the process that gathers a sample.

    `compiled` is whether rows are looked at by compiled code, as for a summary, or only read.
    """
    making = _Making(1, partition_rows, True, False, nonzeros)
    mean = making.nonzeros / max(1, partition_rows)
    return _need(
        "map",
        libraries,
        # Looked at: one flag a non-zero; and a sampled part as it is cut out.
        {**making.decoding, "the sample of fingerprints": 3 * sample_rows * (_STORED * mean + 16)},
        {
            "the sample of fingerprints": 5 * sample_rows * (_STORED * mean + 16),
            "kernel values": _EXPANDED if sample_rows else 0,
        },
        compiled=compiled,
    )


def need_of_features(
    n_components: int,
    partition_rows: int,
    *,
    one_bit: bool,
    double: bool = False,
    nonzeros: int | None = None,
    libraries: int = LIBRARIES,
) -> MemoryNeed:
    """Return the need of a task that writes the features of a partition."""
    making = _Making(n_components, partition_rows, one_bit, double, nonzeros)
    chunk = min(_CHUNK_BYTES, partition_rows * making.row_bytes)
    # What a block is more than whole chunks is joined to the next one.
    rows = block_rows(n_components, one_bit=one_bit)
    rest = chunk if partition_rows > rows and rows % max(1, _CHUNK_BYTES // making.row_bytes) else 0
    return _need(
        "featurize",
        libraries,
        making.decoding,
        {
            "a partition of fingerprints": making.partition,
            "a block of features": making.block + rest,
            "making it": making.making,
        },
        {
            "a partition of fingerprints": making.partition,
            "a block of features": making.block + (making.block + rest if rest else 0),
            "a chunk as it is written": 2 * chunk,
        },
    )


def need_of_fit(
    n_components: int,
    partition_rows: int,
    n_labels: int,
    *,
    one_bit: bool,
    double: bool = False,
    nonzeros: int | None = None,
    group_rows: int | None = None,
    strip_bytes: int = STRIP_BYTES,
    libraries: int = LIBRARIES,
    gram_columns: int | None = None,
    precision: Precision = "single",
) -> MemoryNeed:
    """Return the need of a task that folds a group, or combines two partial statistics.

    `double` is for maps of landmarks, here and below: see `FeatureMap.gram_precision`; `precision` that of
    the sums; `nonzeros` is that of the largest partition, `group_rows` the labelled rows of the largest
    group. Above M = 8,192 the statistics are in strips of `strip_bytes`, of which a task holds two and no
    process but the one that solves all. `gram_columns` is for maps of blocks, here and below: see
    `FeatureMap.gram_columns`.
    """
    making = _Making(n_components, partition_rows, one_bit, double, nonzeros)
    strips = [(0, n_components)] if gram_columns else strip_columns(n_components, strip_bytes)
    square = max(8 * stop * (gram_columns or stop - first) for first, stop in strips)
    what = "M x M statistics" if len(strips) == 1 else f"strips of the statistics, of {len(strips)}"
    several = group_rows is None or group_rows < n_labels
    group_rows = n_labels if group_rows is None else group_rows
    # Blocks are joined until they are as many rows as engines like: nearly two blocks in the end.
    most = block_rows(n_components, one_bit=one_bit) * making.row_bytes
    joined = min(most + making.block, group_rows * making.row_bytes)
    update = 2048 * n_components  # transposed words of bits; or the same rows in float64
    if not one_bit:
        update = 8 * min(group_rows, 2048) * (n_components + (gram_columns or 0) // 2)
        # A product in single precision is as large as what it is added to; one in double is added in place,
        # or to strips some hundred rows at a time.
        in_place = double or precision == "double"
        update += min(_TILE_BYTES, square) * (len(strips) > 1) if in_place else square // 2
    if len(strips) > 1 and one_bit:  # all bits of a group, as they are joined or read
        joined = 2 * min(n_labels, max(partition_rows, held_rows(n_components))) * making.row_bytes
    leaf = {f"one of the {what}": square, "labels": 16 * n_labels}
    return _need(
        "fit",
        libraries,
        {f"one of the {what}": square, **making.decoding},
        {
            **leaf,
            "a partition of fingerprints": making.partition,
            "blocks of features": joined + (making.block if joined > making.block else 0),
            "making them": making.making,
        },
        {
            **leaf,
            "a partition of fingerprints": making.partition,
            "a block of features": joined,
            "adding it": update,
        },
        {
            f"two of the {what}" if several else f"one of the {what}": (1 + several) * square,
            "pieces": _PIECES,
        },
    )


def need_of_labels(n_labels: int, key_bytes: float = 0.0, *, libraries: int = LIBRARIES) -> MemoryNeed:
    """Return the need of reading and joining labels whose keys have so many bytes of text on average."""
    size = int(n_labels * (_LABEL_BYTES + _KEY_BYTES * key_bytes))
    return _need("labels", libraries, {"labels as they are read and joined": size}, compiled=False)


def need_of_solve(
    n_components: int,
    n_labels: int | None = None,
    *,
    double: bool = False,
    eigen: bool = False,
    libraries: int = LIBRARIES,
    gram_columns: int | None = None,
    n_sums: int = 1,
) -> MemoryNeed:
    """Return the need of the process that solves for the posterior: the one that calls `fit`.

    `eigen` is for the eigendecomposition that follows where labels have next to no noise. Of `n_sums` sets of
    rows with sums of their own, one is solved after the other, and the statistics of all are held.
    """
    square = 8 * n_components * (gram_columns or n_components)
    # Statistics, and one float64 matrix that Cholesky works in; for landmarks the factor of K_ZZ and a copy
    # of the statistics besides, measured 3.7. Above M = 8,192 the search for the evidence begins with half
    # of the features: a quarter of a matrix more. An eigendecomposition, which also serves small M, holds its
    # matrix, which becomes the vectors, and twice that as workspace: measured 5.3 in all.
    share = 4.0 if double else 2.0 if n_components <= 8_192 else 2.25
    what, labels = "statistics and factors, M x M each", 120 * (n_labels or 0)
    decomposed = share + (3.5 if eigen else 4.0 if n_components <= 1024 else 0.0)
    if gram_columns:  # nothing but the statistics, and one centroid after the other decomposed
        share, decomposed = 1.25, 1.25 + 0.75 * gram_columns / n_components
    share, decomposed = share + n_sums - 1, decomposed + n_sums - 1
    stage = "solve by eigendecomposition, for labels with next to no noise" if eigen else "solve"
    return _need(
        stage,
        libraries,
        {what: share * square, "pieces": _PIECES, "labels": labels},
        {what: decomposed * square, "labels": labels},
    )


def _model_shares(
    n_components: int, *, double: bool, n_targets: int = 1, n_sums: int = 1
) -> tuple[float, float]:
    """Return what a model with deviations takes, in M x M matrices: once it is there, and while it is made.

    Held are statistics and a factor, of half the size where single precision does; landmarks have that of
    K_ZZ and its inverse, too. To make the factor takes one copy of the statistics; for landmarks, measured
    5.7.
    """
    if n_components <= 1024:
        held, made = (5.0, 6.0) if double else (2.0, 2.0)
    else:
        held, made = (4.5, 6.0) if double else (1.5, 2.5)
    # A factor for each further target, and all of it for each further set of rows with sums of its own.
    more = max(0, n_targets - n_sums) * (0.5 if n_components > 1024 and not double else 1.0)
    more += (n_sums - 1) * held
    return held + more, made + more


def held_by_model(
    n_components: int, *, double: bool, factors: bool, gram_columns: int | None = None, n_sums: int = 1
) -> int:
    """Return the bytes of a model with its statistics, and with its `factors` once a draw has made them."""
    shares = _model_shares(n_components, double=double and not gram_columns)[0] if factors else 1.0
    return int(8 * n_components * (gram_columns or n_components) * shares * n_sums)


def need_of_screen(
    n_components: int,
    partition_rows: int,
    k: int,
    *,
    one_bit: bool,
    std: bool,
    double: bool = False,
    n_targets: int = 1,
    nonzeros: int | None = None,
    libraries: int = LIBRARIES,
    gram_columns: int | None = None,
    n_sums: int = 1,
) -> MemoryNeed:
    """Return the need of a task that scores partitions and keeps the best k; `n_targets` have deviations."""
    making = _Making(n_components, partition_rows, one_bit, double, nonzeros)
    square = 8 * n_components * (gram_columns or n_components)
    block_k = min(k, making.block // making.row_bytes)
    # The best k, those of a block, both joined, and what is kept of them.
    hits = (3 * k + 2 * block_k) * (making.row_bytes + 64) if k else 0
    held, factor = 0.0, 0.0
    if std:
        held, factor = _model_shares(
            n_components, double=double and not gram_columns, n_targets=n_targets, n_sums=n_sums
        )
    expanded = _EXPANDED if not std else _EXPANDED + _EXPANDED // (4 if n_components > 1024 else 8)
    expanded = (
        min(expanded, making.block * (8 if one_bit else 1) * (5 if std else 2)) if std or not one_bit else 0
    )
    blas = 32 * _MIB if std or not one_bit else 0
    model = "statistics and factors, M x M each"
    stage = "standard deviations" if std else "screen"
    need = _need(
        stage,
        libraries,
        {model: held * square, **making.decoding, "the best k": k * (making.row_bytes + 64)},
        {
            model: held * square,
            "a partition of fingerprints": making.partition,
            "a block of features": making.block,
            "making it": making.making,
            "the best k": k * (making.row_bytes + 64),
        },
        {
            model: factor * square,
            "a partition of fingerprints": making.partition,
            "a block of features": making.block,
            "pieces": _PIECES if std else 0,
            "buffers of BLAS": blas,
        },
        {
            model: held * square,
            "a partition of fingerprints": making.partition,
            "a block of features": making.block,
            "unpacked features": expanded,
            "buffers of BLAS": blas,
            "the best k": hits,
        },
        {model: held * square, "rows that are described": _ROW_BYTES * partition_rows if not k else 0},
    )
    return need.plus(_RDKIT, _HELPER) if nonzeros is None else need


Smaller = Mapping[str, tuple[int, int, Callable[[int], MemoryNeed]]]


def fewer_rows(
    rows: int, nonzeros: int | None, need_of: Callable[[int, int | None], MemoryNeed]
) -> dict[str, tuple[int, int, Callable[[int], MemoryNeed]]]:
    """Return what `check` is told of partitions that could be smaller: nothing where features are read."""
    if nonzeros == 0:
        return {}
    name = "rows a partition (--rows-per-partition of fingerprint)"
    return {name: (rows, 1000, lambda n: need_of(n, None if nonzeros is None else nonzeros * n // rows))}


def check(
    need: MemoryNeed,
    limit: int,
    where: str,
    smaller: Smaller | None = None,
) -> None:
    """Refuse a stage that would not fit.

    Parameters
    ----------
    need : MemoryNeed
    limit : int
        Bytes of the process.
    where : str
    smaller : mapping of str to (int, int, function), optional
        What can be made smaller, with its value, the step of its values, and the need of another value.

    Raises
    ------
    MemoryLimitError
        With the prediction, what it is made of, the limit, and what would fit.
    """
    usable = int(limit * _USABLE) if where == "a worker" else limit
    if need.total <= usable:
        return
    fitting = []
    for name, (value, step, need_of) in (smaller or {}).items():
        most = step * bisect.bisect_right(range(step, value, step), usable, key=lambda n: need_of(n).total)
        if most:
            fitting.append(f"{most:,} {name}")
    ways = f"{' or '.join(fitting)} would fit" if fitting else "take fewer components or smaller partitions"
    left = "" if usable == limit else f", of which Dask lets it use {_USABLE:.0%}"
    raise MemoryLimitError(
        f"{need} does not fit {where} with {format_bytes(limit)}{left}; {ways}, or give a process more."
    )
