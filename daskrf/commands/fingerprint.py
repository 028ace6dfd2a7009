"""SMILES files -> fingerprint store."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

import numpy as np
import pyarrow as pa
from distributed import Client
from scipy import sparse

from daskrf.commands import READING
from daskrf.errors import InputError, StoreError, check_type
from daskrf.files.backend import absolute, as_path
from daskrf.files.disk import work_folder
from daskrf.jobs import memory
from daskrf.jobs.job import Disk, Job, Need, Run, run
from daskrf.jobs.pieces import Partitions, Pieces, found_words, opened
from daskrf.molecules import Fingerprinter, FingerprintSpec, rdkit_version
from daskrf.molecules.counts.agreement import agrees
from daskrf.molecules.counts.fingerprints import MANY
from daskrf.molecules.counts.reading import is_read
from daskrf.molecules.counts.spec import Fragments
from daskrf.molecules.counts.toolkit import Toolkit
from daskrf.molecules.extensions import GROUPS, GROUPS_COUNT
from daskrf.parameters import Command, Option
from daskrf.quantities import amount
from daskrf.report.notebook import Shown
from daskrf.sources.given import Data
from daskrf.sources.inputs import library_of, tables_of
from daskrf.sources.smiles import count_marked, fingerprints_of, rejects_table
from daskrf.storage.differences import differences, made_with_others
from daskrf.storage.integrity import as_damage
from daskrf.storage.kinds import check_output, kind_of
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import CommitRecord
from daskrf.tables import Library, TableFormat
from daskrf.tables.formats import BATCH_ROWS
from daskrf.workers.progress import Progress

Paths = str | os.PathLike[str]

CLI = Command(
    "daskrf fingerprint 'REAL_*.cxsmiles.bz2' -o real.fingerprints",
    step=1,
    options={
        "fragments": READING,
        "strict": READING,
        "accept_rejects": READING,
        "rows_per_partition": Option(least=1),
    },
    resumable=True,
    shards=True,
)

_ROW_BYTES, _FEATURE_BYTES = 20, 1.2  # on disk, at most: ID and SMILES; one feature
_OTHER_RDKIT = (
    "RDKit {} counts some built-in molecules otherwise than daskrf, which therefore leaves all reading to "
    "RDKit: the fingerprints are RDKit's, but take about ten times as long."
)


@dataclass(frozen=True)
class FingerprintReport(Shown):
    """What `fingerprint` did.

    Attributes
    ----------
    store : Path
        The fingerprint store.
    rows, kept, rejected : int
        Rows read, rows with a fingerprint, and rows without one: read = kept + rejected.
    empty, saturated : int
        Kept rows without any feature, and counts above 65,535, which are stored as 65,535.
    marked : int
        Kept rows with enhanced stereo groups: racemates, or enantiomers of unknown configuration.
    partitions, made : int
        Partitions of the store, and how many of them this run made.
    seconds : float
    inputs : tuple of str
        How the files were read: one line for each layout.
    columns : dict of str to (int, int)
        For each kind of fingerprint, its first column and one past its last, in the order of the columns.
    """

    store: PurePath
    rows: int
    kept: int
    rejected: int
    empty: int
    saturated: int
    partitions: int
    made: int
    seconds: float
    inputs: tuple[str, ...] = ()
    columns: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    marked: int = 0

    def __str__(self) -> str:
        made = f"{amount(self.kept, 'fingerprints')} of {amount(self.rows, 'rows')}"
        lines = [f"{made} in {self.store} ({self.seconds:.1f} s)"]
        lines += [f"  {words}" for words in self.inputs]
        lines += found_words(self.made, self.partitions)
        if len(self.columns) > 1:
            lines.append(f"  each row has, in this order, {', '.join(self.columns)}")
        if self.rejected:
            lines.append(
                f"  rejected: {amount(self.rejected, 'rows')}; `daskrf status {self.store}` counts the "
                f"reasons, and {self.store / '_rejects'} has file, line, text and reason"
            )
        if self.empty:
            lines.append(f"  without any feature: {amount(self.empty, 'molecules')}")
        if self.saturated:
            lines.append(f"  above 65,535, and stored as 65,535: {amount(self.saturated, 'counts')}")
        if self.marked:
            lines.append(f"  {amount(self.marked, 'molecules')} {GROUPS}: {GROUPS_COUNT}")
        return "\n".join(lines)


def fingerprint(
    inputs: Data | Sequence[Data],
    output: Paths,
    *,
    spec: FingerprintSpec | None = None,
    format: TableFormat | None = None,
    fragments: Fragments = "keep",
    strict: bool = False,
    accept_rejects: bool = False,
    rows_per_partition: int | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> FingerprintReport:
    """Turn SMILES files into a fingerprint store.

    Prints which columns it reads. Lines that it cannot use are saved as rejects, with file, line, text and
    reason. To finish a job that was interrupted, run the same command again.

    Parameters
    ----------
    inputs : path, folder, glob, or a sequence of them
        Text tables and SD files, plain or compressed with gzip, bzip2 or zstd, and Parquet. The content
        decides which, not the name of the file. A folder stands for all files in it and in its subfolders,
        and ``-`` for standard input. In Python also a DataFrame, a list of SMILES, or a list of RDKit
        molecules.
    output : path
        Directory of the store: a new one, or that of an earlier run with the same options.
    spec : FingerprintSpec, optional
        Default: unfolded counts of three kinds, as `FingerprintSpec()`.
    format : TableFormat, optional
        Columns and header. Default: detected.
    fragments : {"keep", "largest", "reject"}
        What to do with molecules of several fragments, such as salts and mixtures.
    strict : bool
        Stop at the first line that cannot be used, instead of saving it as a reject.
    accept_rejects : bool
        Go on even if more than half of a file's first 1,000 lines are not molecules.
    rows_per_partition : int, optional
        Lines in each task. Default: a 64th of all lines, between 2,000 and 100,000.
    client : distributed.Client, optional
        Where to run. Default: in this Python process.
    progress : Progress, optional
        Receives messages and progress.

    Returns
    -------
    FingerprintReport

    Raises
    ------
    InputError
        If a file or a column does not exist, most of the first lines are not molecules (unless
        `accept_rejects`), no row can be used, or, with `strict`, a row is rejected.
    StoreError
        If `output` was made from other files or with other options; the message names what differs.
    """
    check_type("spec", spec, FingerprintSpec, "FingerprintSpec(radius=2)")
    spec = spec or FingerprintSpec()
    Fingerprinter(spec, fragments)  # refuses bad options before anything is read
    job = _Fingerprint(
        inputs=inputs,
        format=format,
        rows_per_partition=rows_per_partition,
        accept_rejects=accept_rejects,
        output=as_path(output),
        spec=spec,
        fragments=fragments,
        strict=strict,
    )
    return run(job, client, progress)


@dataclass
class _Fingerprint(Job[FingerprintReport]):
    """The job of `fingerprint`."""

    inputs: Paths | Sequence[Paths]
    format: TableFormat | None
    rows_per_partition: int | None
    accept_rejects: bool
    output: PurePath
    spec: FingerprintSpec
    fragments: str
    strict: bool
    library: Library = field(init=False)
    store: FingerprintStore = field(init=False)

    name = "fingerprint"
    keeps_work = False  # unpacked copies of compressed files are soon made again

    @property
    def rows(self) -> list[int]:
        """Rows of each partition."""
        return [p.stop - p.start for p in self.library.partitions]

    def plan(self, run: Run) -> None:
        """Scan the files; a shard of a store that has a plan takes them as they were for the plan."""
        there, pending = None, True
        check_output(self.output, "fingerprints")
        if kind_of(self.output, missing_ok=True) is not None:
            there = FingerprintStore.open(self.output)
            options = {
                "fingerprint": self.spec.state(),
                "fragments": self.fragments,
                "rdkit": rdkit_version(),
            }
            if differing := differences({name: there.spec.get(name) for name in options}, options):
                raise made_with_others(self.output, differing)
            pending = run.makes_any(there.pending())
        self.library = library_of(
            run,
            lambda: None if there is None else _planned(there),
            self.inputs,
            self.format,
            self.rows_per_partition,
            self.accept_rejects,
            unpacked=pending,
        )
        if pending and self.library.n_rows >= MANY and is_read(self.spec) and not agrees(self.spec):
            run.progress.note(_OTHER_RDKIT.format(rdkit_version()))

    def need(self) -> Need:
        size = int(self.library.n_rows * (_ROW_BYTES + _FEATURE_BYTES * self.spec.nonzeros))
        most = max(self.rows)
        return Need(
            worker=need_of_rows(most, most * self.spec.nonzeros),
            disk=Disk(self.output, "the fingerprints", size, size),
        )

    def pieces(self, run: Run) -> list[Pieces]:
        self.store = create_store(self.output, self.library, self.spec, self.fragments)
        stage = FingerprintStage(absolute(self.store.path), self.store.spec_hash, self.strict)
        return [Partitions(stage, self.store, self.rows)]

    def finish(self, run: Run, made: int) -> FingerprintReport:
        store, counts = self.store, self.store.counts()
        if self.strict and counts["rejected"]:
            raise _first_refusal(store)
        if not counts["kept"]:
            raise InputError(
                f"None of {counts['read']:,} rows could be used. {store.path / '_rejects'} has the reasons; "
                "most often the SMILES are in another column than the one that was read: name it with "
                "--smiles-column."
            )
        return FingerprintReport(
            store=store.path,
            rows=counts["read"],
            kept=counts["kept"],
            rejected=counts["rejected"],
            empty=counts["empty"],
            saturated=counts["saturated"],
            partitions=store.n_partitions,
            made=made,
            seconds=run.seconds,
            inputs=tables_of(self.library),
            columns=self.spec.columns,
            marked=counts.get("marked", 0),
        )


def need_of_rows(partition_rows: int, nonzeros: int) -> memory.MemoryNeed:
    """Return the memory needed by a task that fingerprints and writes one partition at a time."""

    def need_of(rows: int, nonzeros: int | None) -> memory.MemoryNeed:
        n = nonzeros or 0
        batch = min(1.0, BATCH_ROWS / max(1, rows))
        # Batches are made, whose vectors are first RDKit's bytes; joined; and written with 32-bit indices.
        making = (memory.STORED + 50 * batch) * n + (110 + 500 * batch) * rows
        writing = (memory.STORED + 8) * n + 220 * rows
        phase = {"a partition of fingerprints": max(making, writing), memory.RDKIT: memory.HELPER}
        return memory.peak("fingerprint", phase)

    smaller = memory.fewer_rows(partition_rows, nonzeros, need_of)
    return replace(need_of(partition_rows, nonzeros), smaller=smaller)


def create_store(
    output: PurePath, library: Library, spec: FingerprintSpec, fragments: str
) -> FingerprintStore:
    """Plan the store of `library`, or resume an existing one."""
    return FingerprintStore.new(
        output,
        library=library.state(),
        fingerprint=spec.state(),
        n_columns=spec.n_columns,
        partitions=[{"start": p.start, "stop": p.stop} for p in library.partitions],
        rdkit_version=rdkit_version(),
        fragments=fragments,
        extra=library.extra,
        provenance={"counts": Toolkit.here(spec).state()["counts"]},
    )


@functools.lru_cache(maxsize=4)
def _opened(path: str, spec_hash: str) -> tuple[FingerprintStore, Library, Fingerprinter]:
    store = opened(FingerprintStore, path, spec_hash)
    if store.spec["rdkit"] != rdkit_version():
        raise StoreError(
            f"{path} was begun with RDKit {store.spec['rdkit']}, but this worker has {rdkit_version()}; use "
            "one version everywhere."
        )
    with as_damage(path):
        spec = FingerprintSpec.from_state(store.spec["fingerprint"])
        library, fingerprinter = _planned(store), Fingerprinter(spec, store.spec["fragments"])
        fingerprinter.expect(library.n_rows)
        return store, library, fingerprinter


def _planned(store: FingerprintStore) -> Library:
    """Return the library that the store was planned for."""
    with as_damage(store.path):
        library = Library.from_state(store.spec["library"])
        if len(library.partitions) != store.n_partitions:
            raise ValueError("its library has other partitions")
        return library


@dataclass(frozen=True)
class FingerprintStage:
    """Makes partitions of a fingerprint store."""

    path: str
    spec_hash: str
    strict: bool
    name: str = "fingerprint"
    seconds_per_row: float = 3e-4

    def make(self, partition: int) -> CommitRecord:
        store, library, fingerprinter = _opened(self.path, self.spec_hash)
        blocks, tables, rejects, counts = [], [], [], {"empty": 0, "saturated": 0}
        for block, table, rejected in fingerprints_of(
            library, partition, fingerprinter, work_folder(store.path) / "spool"
        ):
            if self.strict and rejected:
                first = rejected[0]
                raise _refusal(library.sources[first.source].path, first.line, first.reason, first.text)
            blocks.append(block.fingerprints)
            tables.append(table)
            rejects.extend(rejected)
            counts["empty"] += block.empty
            counts["saturated"] += block.saturated
            if marked := count_marked(table):
                counts["marked"] = counts.get("marked", 0) + marked
            del block, table
        return store.write_partition(
            partition,
            _stacked(blocks, store.n_columns),
            pa.concat_tables(tables),
            rejects_table(rejects, library),
            counts,
        )


def _stacked(blocks: list[sparse.csr_matrix], n_columns: int) -> sparse.csr_matrix:
    """Return the blocks as one matrix, and empty the list: each is freed as soon as it is copied."""
    if len(blocks) == 1:
        return blocks.pop()
    lengths = np.concatenate([np.diff(block.indptr) for block in blocks])
    stacked = sparse.csr_matrix((len(lengths), n_columns), dtype=blocks[0].dtype)
    indptr = np.zeros(len(lengths) + 1, blocks[0].indptr.dtype)
    np.cumsum(lengths, out=indptr[1:])
    data, indices = (np.empty(indptr[-1], kind) for kind in (blocks[0].dtype, blocks[0].indices.dtype))
    start = 0
    while blocks:
        block = blocks.pop(0)
        data[start : start + block.nnz], indices[start : start + block.nnz] = block.data, block.indices
        start += block.nnz
    # Assigned, because the constructor would read every index to find a smaller type for them.
    stacked.data, stacked.indices, stacked.indptr = data, indices, indptr
    return stacked


def _refusal(path: str, line: int, reason: str, text: str) -> InputError:
    return InputError(
        f"{path}, line {line}: {reason} ({text[:80]!r}); correct the line, or run without --strict to save "
        "such lines as rejects and go on."
    )


def _first_refusal(store: FingerprintStore) -> InputError:
    """Return the error for the first reject of a store that was made without `strict`."""
    first = next(p for p in range(store.n_partitions) if store.record(p).counts["rejected"])
    reject = store.read_rejects(first).slice(0, 1).to_pylist()[0]
    return _refusal(reject["source"], reject["line"], reject["reason"], reject["text"])
