"""Features straight from SMILES files: read, fingerprinted and featurized within a task, nothing stored."""

from __future__ import annotations

import functools
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from daskrf.errors import InputError, StoreError
from daskrf.features import FeatureMap
from daskrf.jobs.batches import fingerprints_of, rejects_table, rows_table
from daskrf.jobs.mapreference import MapReference
from daskrf.jobs.shards import PLAN, Share, agree
from daskrf.jobs.sources import Block, feature_blocks, positions
from daskrf.molecules import Fingerprinter, FingerprintSpec, Library, Reject, rdkit_version, read_partition
from daskrf.storage.backend import absolute, as_path, backend, exists, is_file, remove_quietly
from daskrf.storage.integrity import believed, read_sealed, write_sealed
from daskrf.storage.model import read_checkpoint, write_checkpoint
from daskrf.storage.plans import hash_of

__all__ = ["SmilesSource", "planned_library"]

_LIBRARY = "library.json"
_ADVICE = "delete the folder that it is in, and run the same command again"


def planned_library(directory: PurePath) -> Library | None:
    """Return the library that an earlier or another process has described in `directory`, if there is one."""
    path = directory / _LIBRARY
    if not is_file(path):
        return None
    plan = read_sealed(path, _ADVICE)
    with believed(path, _ADVICE):
        return Library.from_state(plan["library"])


def _is_planned(directory: PurePath, plan: dict[str, Any]) -> bool:
    """Whether an earlier run has described just these files in `directory`."""
    try:
        return hash_of(read_sealed(directory / _LIBRARY, _ADVICE)) == hash_of(plan)
    except StoreError:  # none has, or it is damaged
        return False


@functools.lru_cache(maxsize=4)
def _opened(directory: str, spec_hash: str) -> tuple[Library, Fingerprinter]:
    path = as_path(directory) / _LIBRARY
    plan = read_sealed(path, _ADVICE)
    if hash_of(plan) != spec_hash:
        raise InputError(f"{directory} was replaced while it was in use; run the same command again.")
    with believed(path, _ADVICE):
        fingerprinter = Fingerprinter(FingerprintSpec.from_state(plan["fingerprint"]), plan["fragments"])
        return Library.from_state(plan["library"]), fingerprinter


@dataclass(frozen=True)
class SmilesSource:
    """Features of the rows of SMILES files; see `daskrf.jobs.sources.Source`.

    The description of the files is left in `directory`, where every worker reads it; so are the
    rejects of each partition, since there is no store to hold them.
    """

    directory: str
    spec_hash: str
    map: MapReference
    bits: bool

    @classmethod
    def of(
        cls,
        share: Share,
        library: Library,
        directory: PurePath,
        fingerprint: dict[str, Any],
        fragments: str,
        feature_map: FeatureMap,
        bits: bool,
    ) -> SmilesSource:
        """Return the source of `library`, and leave its description in `directory`."""
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
            remove_quietly(rejects)  # those of other files, whose run never ended
            backend(directory).make(directory)
            write_sealed(directory / _LIBRARY, plan)
        backend(rejects).make(rejects)
        return cls(absolute(directory), hash_of(plan), MapReference.of(feature_map.state()), bits)

    @property
    def library(self) -> Library:
        """The scanned files."""
        return _opened(self.directory, self.spec_hash)[0]

    @property
    def feature_map(self) -> FeatureMap:
        """See `Source`."""
        return self.map.feature_map

    def carried(self, directory: PurePath) -> SmilesSource:
        """See `Source`."""
        return replace(self, map=self.map.carried(directory))

    @property
    def table_bytes(self) -> int:
        """See `Source`."""
        _, fingerprinter = _opened(self.directory, self.spec_hash)
        return self.feature_map.table_bytes(fingerprinter.spec.n_columns)

    @property
    def partition_rows(self) -> list[int]:
        """See `Source`."""
        return [p.stop - p.start for p in self.library.partitions]

    @property
    def library_hash(self) -> str:
        """See `Source`."""
        return self.spec_hash

    @property
    def row_bounds(self) -> npt.NDArray[np.int64]:
        """See `Source`."""
        return np.cumsum([0, *self.partition_rows], dtype=np.int64)

    @property
    def spool(self) -> PurePath:
        """Pieces of compressed inputs."""
        return as_path(self.directory) / "spool"

    def blocks(self, partition: int, rows: npt.NDArray[np.int64] | None = None) -> Iterator[Block]:
        """See `Source`; when all blocks have been taken, the rejects of the partition are on disk."""
        library, fingerprinter = _opened(self.directory, self.spec_hash)
        rejects: list[Reject] = []
        for block, table, rejected in fingerprints_of(library, partition, fingerprinter, self.spool):
            rejects.extend(rejected)
            kept = table["row"].to_numpy()
            yield from feature_blocks(
                self.feature_map,
                kept,
                block.fingerprints,
                rows,
                bits=self.bits,
                predicts=True,  # nothing else takes SMILES files
                describe=functools.partial(self.describe, partition),
            )
        self._write_rejects(partition, rejects, library)

    def describe(self, partition: int, rows: npt.NDArray[np.int64]) -> pa.Table:
        """See `Source`: the files are read again, without RDKit."""
        batches = read_partition(self.library, partition, spool=self.spool)
        return pa.concat_tables([rows_table(b, self.library, positions(b.row, rows)) for b in batches])

    def _rejects_path(self, partition: int) -> PurePath:
        return as_path(self.directory) / "rejects" / f"{partition:06d}"

    def _write_rejects(self, partition: int, rejects: list[Reject], library: Library) -> None:
        path = self._rejects_path(partition)
        if not rejects:
            backend(path).remove(path)
            return
        table = io.BytesIO()
        pq.write_table(rejects_table(rejects, library), table)
        # As a checkpoint, which has a digest of all its bytes.
        arrays = {"parquet": np.frombuffer(table.getbuffer(), np.uint8)}
        write_checkpoint(path, arrays, {"rows": len(rejects)}, self.spec_hash)

    @property
    def seconds_per_row(self) -> float:
        """See `Source`: RDKit, and as the map says."""
        return 3e-4 + self.feature_map.seconds_per_component * self.feature_map.block_size

    def rejects(self, partition: int) -> pa.Table:
        """See `Source`."""
        path = self._rejects_path(partition)
        if not exists(path):
            return rejects_table([], self.library)
        found = read_checkpoint(path, self.spec_hash)
        if found is None:
            raise StoreError(f"{path} is damaged; delete {self.directory} and run the same command again")
        return pq.read_table(pa.BufferReader(found.arrays["parquet"]))
