"""What a fit needs of memory and disk, and its refusal before the start where that is not there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Client

from daskrf.features import FeatureMap
from daskrf.gp.solvers import check_eigen_size
from daskrf.gp.sums import precision_for
from daskrf.jobs import disk, memory
from daskrf.jobs.clusters import worker_memory
from daskrf.jobs.shards import Share
from daskrf.jobs.sources import FingerprintSource, Source, largest_partition

__all__ = ["Groups", "check_eigen", "check_fit", "check_labels", "check_partials"]


@dataclass(frozen=True)
class Groups:
    """How the sum is cut: groups of partitions, labelled rows of each, and columns of the strips."""

    groups: list[tuple[int, ...]]
    rows: list[int]
    columns: list[tuple[int, int]]
    strip_bytes: int

    @property
    def n_trees(self) -> int:
        return 1 if len(self.columns) == 1 else 1 + len(self.columns)


def check_labels(here: int) -> Callable[[int, float], None]:
    """Return what refuses labels, of so many bytes a key, that this process cannot read and join.

    `here` is what libraries take in this process, now and below.
    """

    def check(n_labels: int, key_bytes: float) -> None:
        def need_of(n: int) -> memory.MemoryNeed:
            return memory.need_of_labels(n, key_bytes, libraries=here)

        fewer = {"labels": (n_labels, 1000, need_of)}
        memory.check(need_of(n_labels), worker_memory(None), "this machine", fewer)

    return check


def check_fit(
    features: Source, cut: Groups, client: Client | None, here: int, *, solves: bool, n_sums: int = 1
) -> None:
    """Refuse sums that a worker cannot make, and a solve, of `n_sums` such sums, that does not fit here."""
    M, n_labels = features.feature_map.n_components, sum(cut.rows)
    rows, nonzeros = largest_partition(features)
    double = features.feature_map.gram_precision == "double"
    options: dict[str, Any] = {
        "one_bit": features.bits,
        "double": double,
        "precision": precision_for(features.feature_map, n_labels),
        "group_rows": max(cut.rows),
        "strip_bytes": cut.strip_bytes,
        "libraries": memory.libraries_of(client, here),
        "gram_columns": features.feature_map.gram_columns,
    }

    tables = features.table_bytes / M

    def sums(M: int, rows: int = rows, nonzeros: int | None = nonzeros) -> memory.MemoryNeed:
        need = memory.need_of_fit(M, rows, n_labels, nonzeros=nonzeros, **options)
        return need.plus("tables of the map", int(tables * M))

    def solve(M: int) -> memory.MemoryNeed:
        return memory.need_of_solve(
            M,
            n_labels,
            double=double,
            libraries=here,
            gram_columns=features.feature_map.gram_columns,
            n_sums=n_sums,
        )

    fewer = memory.fewer_rows(rows, nonzeros, lambda r, n: sums(M, r, n))
    where = "a worker" if client else "this machine"
    memory.check(sums(M), worker_memory(client), where, {"components": (M, 64, sums), **fewer})
    if solves:
        memory.check(solve(M), worker_memory(None), "this machine", {"components": (M, 64, solve)})


def check_eigen(feature_map: FeatureMap) -> None:
    """Refuse an eigendecomposition that does not fit; the sums stay, for more memory or a given noise."""
    check_eigen_size(feature_map.n_components)
    double = feature_map.gram_precision == "double"
    need = memory.need_of_solve(feature_map.n_components, double=double, eigen=True)
    memory.check(need, worker_memory(None), "this machine")


def check_partials(directory: Path, features: Source, cut: Groups, share: Share) -> None:
    """Refuse partial sums, of a shard or of a whole run, that do not fit on the disk."""
    held = len(cut.columns) > 1 and features.bits and isinstance(features, FingerprintSource)
    blocks = features.feature_map.gram_columns
    n_bytes = disk.checkpoint_bytes(
        cut.columns, cut.rows, one_bit=features.bits, held=held, shard=not share.whole, gram_columns=blocks
    )
    disk.check_disk(directory, n_bytes // share.count, "the partial sums")
