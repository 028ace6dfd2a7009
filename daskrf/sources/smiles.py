"""SMILES files in processing: their rows as tables, fingerprints, and features made within a task."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from daskrf.errors import InputError, StoreError
from daskrf.features import FeatureMap
from daskrf.files.backend import absolute, as_path, backend, exists, is_file, remove_quietly
from daskrf.jobs.shards import PLAN, Share, agree
from daskrf.molecules import FingerprintBlock, Fingerprinter, FingerprintSpec, rdkit_version
from daskrf.molecules.extensions import GROUPS_MARK
from daskrf.sources.mapreference import MapReference
from daskrf.sources.sources import FINGERPRINT_SECONDS, Block, EveryRow, Source, feature_blocks
from daskrf.storage.integrity import as_damage, read_sealed, write_sealed
from daskrf.storage.model import read_checkpoint, write_checkpoint
from daskrf.storage.stores.store import hash_of
from daskrf.tables import Library, Reject, RowBatch, every_row, given_words, read_partition

_LIBRARY = "library.json"
_ADVICE = "delete the folder that it is in, and run the same command again"


def planned_library(directory: PurePath) -> Library | None:
    """Return the library that an earlier run or another process described in `directory`, or None."""
    path = directory / _LIBRARY
    if not is_file(path):
        return None
    plan = read_sealed(path, _ADVICE)
    with as_damage(path, _ADVICE):
        return Library.from_state(plan["library"])


def _is_planned(directory: PurePath, plan: dict[str, Any]) -> bool:
    """Return whether an earlier run has described exactly these files in `directory`."""
    try:
        return hash_of(read_sealed(directory / _LIBRARY, _ADVICE)) == hash_of(plan)
    except StoreError:  # there is none, or it is damaged
        return False


@functools.lru_cache(maxsize=4)
def _opened(directory: str, spec_hash: str) -> tuple[Library, Fingerprinter]:
    path = as_path(directory) / _LIBRARY
    plan = read_sealed(path, _ADVICE)
    if hash_of(plan) != spec_hash:
        raise InputError(f"{directory} was replaced during the run; run the same command again.")
    with as_damage(path, _ADVICE):
        fingerprinter = Fingerprinter(FingerprintSpec.from_state(plan["fingerprint"]), plan["fragments"])
        library = Library.from_state(plan["library"])
        fingerprinter.expect(library.n_rows)
        return library, fingerprinter


def fingerprints_of(
    library: Library,
    partition: int,
    fingerprinter: Fingerprinter,
    spool: PurePath | None,
    rows: npt.NDArray[np.int64] | None = None,
) -> Iterator[tuple[FingerprintBlock, pa.Table, list[Reject]]]:
    """Yield the fingerprints, the table of kept rows and the rejects of each batch of a partition.

    If `rows` are given, only these get fingerprints.
    """
    for batch in read_partition(library, partition, spool, rows):
        yield _fingerprint_batch(batch, library, fingerprinter)


def _fingerprint_batch(
    batch: RowBatch, library: Library, fingerprinter: Fingerprinter
) -> tuple[FingerprintBlock, pa.Table, list[Reject]]:
    block = fingerprinter(batch.smiles)
    rejected = [
        Reject(int(batch.row[i]), int(batch.source[i]), int(batch.line[i]), batch.smiles[i][:500], reason)
        for i, reason in block.rejects
    ]
    rejects = sorted([*batch.rejects, *rejected], key=lambda r: r.row)
    return block, rows_table(batch, library, block.kept), rejects


def rows_table(batch: RowBatch, library: Library, indices: Any) -> pa.Table:
    """Return row, id, smiles, source, line and extra columns of the rows at ascending positions `indices`."""

    def texts(values: Sequence[str | None]) -> pa.Array:
        column = pa.array(values, pa.string())
        return column if len(indices) == len(column) else column.take(pa.array(indices, pa.int64()))

    columns: dict[str, object] = {
        "row": pa.array(batch.row[indices], pa.int64()),
        "id": texts(batch.id),
        "smiles": texts(batch.smiles),
        "source": _source_column(batch.source[indices], library),
        "line": pa.array(batch.line[indices], pa.int64()),
    }
    for name in library.extra:
        columns[name] = texts(batch.extra[name])
    return pa.table(columns)


def count_marked(rows: pa.Table) -> int:
    """Return how many rows of a `rows_table` have groups of stereocentres."""
    return pc.sum(pc.match_substring(rows["smiles"], GROUPS_MARK)).as_py() or 0


def _source_column(indices: object, library: Library) -> pa.DictionaryArray:
    names = [given_words(source.path) or source.path for source in library.sources]
    paths = pa.array(names, pa.string())
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), paths)


def rejects_table(rejects: Sequence[Reject], library: Library) -> pa.Table:
    """Return rejects as a table with row, source, line, text, reason."""
    return pa.table(
        {
            "row": pa.array([r.row for r in rejects], pa.int64()),
            "source": _source_column([r.source for r in rejects], library),
            "line": pa.array([r.line for r in rejects], pa.int64()),
            "text": pa.array([r.text for r in rejects], pa.string()),
            "reason": pa.array([r.reason for r in rejects], pa.string()),
        }
    )


@dataclass(frozen=True)
class SmilesSource(Source):
    """Features of the rows of SMILES files.

    The description of the files is in the folder `path`, where every worker reads it; so are the rejects of
    each partition, because there is no store to hold them.
    """

    @classmethod
    def of(
        cls,
        share: Share,
        library: Library,
        directory: PurePath,
        fingerprint: Mapping[str, object],
        fragments: str,
        feature_map: FeatureMap | None,
        bits: bool,
    ) -> SmilesSource:
        """Return the source of `library`, and write its description to `directory`."""
        plan = {
            "library": library.state(),
            "fingerprint": fingerprint,
            "fragments": fragments,
            "rdkit": rdkit_version(),
        }
        rejects = directory / "rejects"
        if not share.whole or is_file(directory / PLAN):
            agree(share, directory / _LIBRARY, plan)
        elif not _is_planned(directory, plan):
            remove_quietly(rejects)  # rejects of other files, left by an unfinished run
            backend(directory).make(directory)
            write_sealed(directory / _LIBRARY, plan)
        backend(rejects).make(rejects)
        reference = None if feature_map is None else MapReference.of(feature_map.state())
        return cls(absolute(directory), hash_of(plan), bits, reference)

    @property
    def library(self) -> Library:
        """The scanned files."""
        return _opened(self.path, self.spec_hash)[0]

    @property
    def table_bytes(self) -> int:
        _, fingerprinter = _opened(self.path, self.spec_hash)
        return 0 if self.raw else self.feature_map.table_bytes(fingerprinter.spec.n_columns)

    @property
    def usual_nonzeros(self) -> int:
        return _opened(self.path, self.spec_hash)[1].spec.nonzeros

    @property
    def partition_rows(self) -> list[int]:
        return [p.stop - p.start for p in self.library.partitions]

    @property
    def spool(self) -> PurePath:
        """Folder of pieces of compressed inputs."""
        return as_path(self.path) / "spool"

    def blocks(self, partition: int, rows: npt.NDArray[np.int64] | None = None) -> Iterator[Block]:
        """Once all blocks have been consumed, the rejects of the partition are on disk.

        With `rows`, only these rows get fingerprints, and the rejects on disk stay as they are.
        """
        library, fingerprinter = _opened(self.path, self.spec_hash)
        rejects: list[Reject] = []
        marked = 0
        for block, table, rejected in fingerprints_of(library, partition, fingerprinter, self.spool, rows):
            rejects.extend(rejected)
            marked += count_marked(table)
            kept_rows = table["row"].to_numpy()
            yield from feature_blocks(
                None if self.raw else self.feature_map,
                kept_rows,
                block.fingerprints,
                rows,
                bits=self.bits,
                predicts=True,  # SMILES files are used for predictions only
                describe=functools.partial(self.describe, partition),
            )
        if rows is None:
            self._write_seen(partition, rejects, marked, library)

    def describe(self, partition: int, rows: npt.NDArray[np.int64]) -> pa.Table:
        """The files are read again, without RDKit."""
        batches = read_partition(self.library, partition, self.spool, rows)
        return pa.concat_tables([rows_table(b, self.library, range(len(b.smiles))) for b in batches])

    def every(self, partition: int) -> EveryRow:
        """The files are read again, without RDKit."""
        batches = every_row(self.library, partition, self.spool)
        table = pa.concat_tables([rows_table(b, self.library, range(len(b.smiles))) for b in batches])
        rejects = self.rejects(partition)
        reasons = dict(zip(rejects["row"].to_pylist(), rejects["reason"].to_pylist(), strict=True))
        return EveryRow(table, [reasons.get(row) for row in table["row"].to_pylist()], rejects)

    def _rejects_path(self, partition: int) -> PurePath:
        return as_path(self.path) / "rejects" / f"{partition:06d}"

    def _write_seen(self, partition: int, rejects: list[Reject], marked: int, library: Library) -> None:
        """Write the rejects, and how many molecules have groups of stereocentres, if there are any."""
        path = self._rejects_path(partition)
        if not rejects and not marked:
            backend(path).remove(path)
            return
        table = io.BytesIO()
        pq.write_table(rejects_table(rejects, library), table)
        # Written as a checkpoint, which has a digest of all its bytes.
        arrays = {"parquet": np.frombuffer(table.getbuffer(), np.uint8)}
        write_checkpoint(path, arrays, {"rows": len(rejects), "marked": marked}, self.spec_hash)

    @property
    def seconds_per_row(self) -> float:
        """The cost of RDKit plus that of the map."""
        made = 0.0 if self.raw else self.feature_map.seconds_per_component * self.feature_map.block_size
        return FINGERPRINT_SECONDS + made

    def rejects(self, partition: int) -> pa.Table:
        seen = self._seen(partition)
        if seen is None:
            return rejects_table([], self.library)
        return pq.read_table(pa.BufferReader(seen.arrays["parquet"]))

    def marked(self, partition: int) -> int:
        seen = self._seen(partition)
        return 0 if seen is None else int(seen.metadata.get("marked", 0))

    def _seen(self, partition: int) -> Any:
        path = self._rejects_path(partition)
        if not exists(path):
            return None
        checkpoint = read_checkpoint(path, self.spec_hash)
        if checkpoint is None:
            raise StoreError(f"{path} is damaged; delete {self.path} and run the same command again")
        return checkpoint
