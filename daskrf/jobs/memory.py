"""Predict the peak memory of a worker or program before it starts, and refuse work that cannot fit.

A prediction is the largest sum, over all phases, of everything held at the same time: libraries, long-lived
data, and the needs of one block on top. Each command has its own formula; shared terms, such as making
features or holding a model, are here. Tests compare the peaks of workers with the predictions, which are
upper bounds and too high by at most a quarter.
"""

from __future__ import annotations

import bisect
import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

import psutil
import pyarrow as pa
from distributed import Client

from daskrf.engine import engine
from daskrf.errors import MemoryLimitError
from daskrf.gp.sums.shapes import ONE_MATRIX, SumsShape
from daskrf.jobs.held import forget
from daskrf.molecules.counts.spec import FingerprintSpec
from daskrf.molecules.isolation import end_idle
from daskrf.quantities import format_bytes
from daskrf.workers.clusters import QueuedClient, ask_workers

MIB = 2**20
LIBRARIES = 275 * MIB  # Python, Dask, NumPy, SciPy, Arrow and Numba, loaded: measured 245 - 281
# Machine code and buffers that come with the first task: measured 65 - 80, and 50 more if Numba has to
# compile because that task has never run on the machine before.
_FIRST_TASK = 115 * MIB
_FIRST_READ = 45 * MIB  # the same if nothing is compiled but files are read: measured 20 - 35
HELPER = 80 * MIB  # the helper program that runs RDKit: measured 59, or 70 for paths, plus its caches
RDKIT = "the RDKit helper"
NONZEROS = FingerprintSpec().nonzeros  # per molecule, if neither a store nor a specification gives a number
STORED = 10  # bytes per non-zero: int64 index and uint16 count
_DECODING = 15  # bytes per non-zero while a partition is decoded: also uint32 index and uint8 count
_NUMBER_BYTES = 70  # a molecule's row number and pointer, with Arrow's file buffers
ROW_BYTES = 300  # a molecule's row number, ID, SMILES, file and line in Arrow, with the file buffers
_BATCH_ENTRIES = 1 << 22  # non-zeros hashed at a time; see daskrf.engine.cpu.tiles
_TABLE_BYTES = 48 * MIB  # for the distinct pairs among these, at most
_BLOCK_BYTES = 128 * MIB  # for one block of dense float32 features
EXPANDED = 64 * MIB  # features unpacked for standard deviations; see daskrf.gp.processes.posterior
EXACT_BLOCKS = 96 * MIB  # of a block of rows: kernel values, posterior samples, and features for these
PIECES = 24 * MIB  # for a checkpoint or Gram matrix that is read, written or copied piece by piece
_USABLE = 0.95  # fraction of a worker's limit beyond which Dask's nanny kills it
CHUNK_BYTES = 16 * MIB  # chunk size of a feature store
MODEL = "statistics and factors, M x M each"

Parts = tuple[tuple[str, int], ...]
Smaller = Mapping[str, tuple[int, int, Callable[[int], "MemoryNeed"]]]


@dataclass(frozen=True)
class MemoryNeed:
    """Predicted peak memory of a worker or program in bytes, with its parts.

    `smaller` maps the name of each setting that could be reduced to its value, its step, and a function that
    returns the need at another value.
    """

    stage: str
    parts: Parts
    smaller: Smaller = field(default_factory=dict, compare=False)

    @property
    def total(self) -> int:
        """Sum of the parts."""
        return sum(size for _, size in self.parts)

    def plus(self, name: str, size: int) -> MemoryNeed:
        """Return the need with one more part that is held throughout."""
        return self._with(lambda parts: (*parts, (name, size)))

    def beside(self, libraries: int) -> MemoryNeed:
        """Return the need with `libraries` bytes of libraries."""
        return self._with(lambda parts: (("libraries", libraries), *parts))

    def _with(self, change: Callable[[Parts], Parts]) -> MemoryNeed:
        def changed(need_of: Callable[[int], MemoryNeed]) -> Callable[[int], MemoryNeed]:
            return lambda value: need_of(value)._with(change)

        smaller = {name: (value, step, changed(of)) for name, (value, step, of) in self.smaller.items()}
        return MemoryNeed(self.stage, change(self.parts), smaller)

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in self.parts if size)
        return f"{self.stage}: {format_bytes(self.total)} of memory ({parts})"


def block_rows(n_components: int, *, one_bit: bool) -> int:
    """Return how many rows are featurized at once: a block of bounded size that suits the cache."""
    if one_bit:
        return 32_768
    return max(64, min(16_384, _BLOCK_BYTES // (4 * n_components)))


def peak(stage: str, *phases: dict[str, float], compiled: bool = True) -> MemoryNeed:
    """Return the need of the largest phase; `compiled` tells whether a task compiles code or only reads."""
    largest = max(phases, key=lambda phase: sum(phase.values()))
    first = ("compiled code and buffers", _FIRST_TASK) if compiled else ("buffers of files", _FIRST_READ)
    return MemoryNeed(stage, (first, *((name, int(size)) for name, size in largest.items() if size)))


def libraries_of(client: Client | None) -> int:
    """Return the bytes of loaded libraries: the maximum over the workers, or measured in this program.

    They depend on the machine and on versions. `LIBRARIES` is returned while there are no workers, or if one
    does not respond.
    """
    if client is None:
        return _resident()
    if isinstance(client, QueuedClient):
        return LIBRARIES
    return max(ask_workers(client, _resident).values(), default=LIBRARIES)


def _resident() -> int:
    """Return this program's memory without the first task's code and buffers and without an open model."""
    # Load libraries now: on first use they would escape this measurement.
    engine()
    pa.scalar(0)  # Arrow's first value loads pandas wherever it is installed
    forget()
    gc.collect()
    return max(_at_first(), psutil.Process().memory_info().rss - _FIRST_TASK)


@cache
def _at_first() -> int:
    return int(psutil.Process().memory_info().rss)


@dataclass(frozen=True)
class Making:
    """Memory needed to make the features of the largest partition.

    Attributes
    ----------
    n_components, rows : int
        Number of features, and rows of the partition.
    one_bit : bool
    shape : SumsShape
        Shape of the sums of the Gaussian process.
    nonzeros : int or None
        Non-zeros of the partition: None if no store has counted them, 0 if features are read.
    tables : int
        Bytes for the map's tables.
    usual : int
        Non-zeros per row to assume if no store has counted them.
    """

    n_components: int
    rows: int
    one_bit: bool
    shape: SumsShape = ONE_MATRIX
    nonzeros: int | None = None
    tables: int = 0
    usual: int = NONZEROS

    @property
    def entries(self) -> int:
        """Non-zeros of the partition, or an estimate."""
        return self.rows * self.usual if self.nonzeros is None else self.nonzeros

    @property
    def row_bytes(self) -> int:
        """Bytes per row of features."""
        return -(-self.n_components // 8) if self.one_bit else 4 * self.n_components

    @property
    def square(self) -> int:
        """Bytes of an M x M matrix of the model, or of the blocks of one, in float64."""
        return self.shape.square(self.n_components)

    @property
    def block_rows(self) -> int:
        """Rows featurized at once."""
        return block_rows(self.n_components, one_bit=self.one_bit)

    @property
    def block(self) -> int:
        """Bytes for the features of one block."""
        size = min(self.block_rows, self.rows) * self.row_bytes
        return min(size, CHUNK_BYTES) if self.nonzeros == 0 else size

    @property
    def partition(self) -> int:
        """Bytes for the fingerprints as they are held."""
        return STORED * self.entries + _NUMBER_BYTES * self.rows

    @property
    def decoding(self) -> dict[str, float]:
        """Memory of the phase before the first block."""
        return {"a partition of fingerprints, decoded": _DECODING * self.entries + _NUMBER_BYTES * self.rows}

    @property
    def decoding_more(self) -> int:
        """Bytes on top of the fingerprints while they are decoded."""
        return (_DECODING - STORED) * self.entries

    @property
    def making(self) -> int:
        """Bytes on top of the features while a block is made."""
        if self.nonzeros == 0:  # a chunk as read, and without its digest
            return 2 * CHUNK_BYTES
        entries = min(1.0, self.block_rows / max(1, self.rows)) * self.entries
        if self.shape.double:  # column numbers, counts, and counts as float64
            return int(14 * entries)
        hashed = min(entries, _BATCH_ENTRIES)
        # Positions of entries, the hash table that finds their distinct pairs, and a table of these pairs,
        # assumed to be a quarter as many. Floats made from bits need all bits of the block.
        unpacked = self.block // 4 if not self.one_bit else 0
        return int(16 * hashed + min(_TABLE_BYTES, 96 * hashed) + unpacked)

    def need(self, need_of: Callable[[Making], MemoryNeed], *ways: str) -> MemoryNeed:
        """Return the need by a formula, tables included, and which of `ways` would reduce it.

        Ways are "components" and "rows"; "rows" is ignored if features are read from a store.
        """

        def whole(making: Making) -> MemoryNeed:
            return need_of(making).plus("tables of the map", making.tables)

        def of_components(n: int) -> MemoryNeed:
            return whole(replace(self, n_components=n, tables=self.tables * n // self.n_components))

        current = whole(self)
        smaller = dict(current.smaller)
        if "components" in ways:
            smaller["components"] = (self.n_components, 64, of_components)
        if "rows" in ways:
            smaller |= fewer_rows(
                self.rows, self.nonzeros, lambda r, n: whole(replace(self, rows=r, nonzeros=n))
            )
        return replace(current, smaller=smaller)


def held_by_model(making: Making, *, factors: bool, n_sums: int = 1) -> int:
    """Return the bytes of a model: its statistics, and `factors` if posterior samples need them."""
    held = making.shape.model(making.n_components)[0] if factors else 1.0
    return int(making.square * held * n_sums)


def need_of_scores(making: Making, k: int, *, std: bool, n_targets: int = 1, n_sums: int = 1) -> MemoryNeed:
    """Return the need of a task that scores partitions and keeps the best k.

    Standard deviations, if any, are of `n_targets`.
    """
    block_k = min(k, making.block // making.row_bytes)
    best = k * (making.row_bytes + 64)
    # The best k so far, those of a block, both joined, and the best k of both.
    joined = (3 * k + 2 * block_k) * (making.row_bytes + 64) if k else 0
    model_shares = making.shape.model(making.n_components, n_targets=n_targets, n_sums=n_sums)
    held, factor = model_shares if std else (0.0, 0.0)
    expanded, blas = 0, 0
    if std or not making.one_bit:
        most = EXPANDED + std * (EXPANDED // (4 if making.n_components > 1024 else 8))
        expanded = min(most, making.block * (8 if making.one_bit else 1) * (5 if std else 2))
        blas = 32 * MIB
    model = {MODEL: held * making.square}
    block = {"a partition of fingerprints": making.partition, "a block of features": making.block}
    need = peak(
        "standard deviations" if std else "screen",
        {**model, **making.decoding, "the best k": best},
        {**model, **block, "making it": making.making, "the best k": best},
        {
            MODEL: factor * making.square,
            **block,
            "pieces": PIECES if std else 0,
            "buffers of BLAS": blas,
        },
        {**model, **block, "unpacked features": expanded, "buffers of BLAS": blas, "the best k": joined},
        {**model, "IDs and SMILES": ROW_BYTES * making.rows if not k else 0},
    )
    return need.plus(RDKIT, HELPER) if making.nonzeros is None else need


def need_of_blocks(rows: int, n_templates: int) -> MemoryNeed:
    """Return the need of a program that writes which slots of reactions building blocks fit.

    Parameters
    ----------
    rows : int
        Number of blocks.
    n_templates : int
        Number of distinct slots.
    """
    phase: dict[str, float] = {
        "IDs and structures of blocks": 300 * rows,
        "which slots they fit": rows * (2 * n_templates + 32),
    }
    return peak("build-space", phase, compiled=False)


def need_of_products(rows: int, n_components: int, tables: int, k: int) -> MemoryNeed:
    """Return the need of a task that ranks products of a space; see `daskrf.spaces.ranking`.

    Parameters
    ----------
    rows : int
        Synthons of the largest piece, all slots together.
    n_components : int
    tables : int
        Bytes of the fingerprint counts of synthons.
    k : int
        Number of products to keep.
    """
    row = 4 * n_components
    return peak(
        "screen",
        {
            "tables of the space, including reading": 3 * tables,
            "factors of synthons": 4 * rows * row,
            "a tile of scores": 64 * MIB,
            "the best k": 64 * 20 * k,
        },
    )


def fewer_rows(rows: int, nonzeros: int | None, need_of: Callable[[int, int | None], MemoryNeed]) -> Smaller:
    """Return how smaller partitions would reduce the need; empty if features are read."""
    if nonzeros == 0:
        return {}
    name = "rows a partition (--rows-per-partition of fingerprint)"
    return {name: (rows, 1000, lambda n: need_of(n, None if nonzeros is None else nonzeros * n // rows))}


def check(need: MemoryNeed, limit: int, where: str) -> None:
    """Raise an error if a stage would not fit.

    Parameters
    ----------
    need : MemoryNeed
    limit : int
        Bytes available to the worker or program.
    where : str

    Raises
    ------
    MemoryLimitError
        Gives the prediction and its parts, the limit, and what would fit.
    """
    usable = int(limit * _USABLE) if where == "a worker" else limit
    if need.total + HELPER > usable:  # else keep idle helpers: the next stage may use their caches
        end_idle()
    if need.total <= usable:
        return
    fitting = []
    for name, (value, step, need_of) in need.smaller.items():
        most = step * bisect.bisect_right(range(step, value, step), usable, key=lambda n: need_of(n).total)
        if most:
            fitting.append(f"{most:,} {name}")
    ways = f"{' or '.join(fitting)} would fit" if fitting else "take fewer components or smaller partitions"
    left = "" if usable == limit else f", of which Dask lets it use {_USABLE:.0%}"
    raise MemoryLimitError(
        f"{need} does not fit {where} with {format_bytes(limit)}{left}; {ways}, or provide more memory."
    )
