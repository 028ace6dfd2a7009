"""Fingerprint store -> feature store, or dask array -> dask array."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client

from daskrf.arrays import narrowed
from daskrf.errors import InputError
from daskrf.features import FeatureMap, default_map
from daskrf.features.localgaussian import refuse_half
from daskrf.jobs import disk, memory
from daskrf.jobs.clusters import worker_memory
from daskrf.jobs.lazy import featurize_array
from daskrf.jobs.opening import opened
from daskrf.jobs.partitions import complete, complete_share
from daskrf.jobs.preparing import Planned, fit_map_once
from daskrf.jobs.progress import Progress, watched
from daskrf.jobs.shards import Shard, ShardReport, Share
from daskrf.jobs.sources import FingerprintSource, check_map, most_nonzeros, planned_rows
from daskrf.paths import ObjectPath, as_path
from daskrf.storage.features import FeatureStore
from daskrf.storage.files import remove_quietly, work_folder
from daskrf.storage.fingerprints import FingerprintStore
from daskrf.storage.inspect import kind_of
from daskrf.storage.records import CommitRecord

__all__ = ["FeaturizeReport", "featurize"]

DTYPES = ("bits", "float32", "float16")


@dataclass(frozen=True)
class FeaturizeReport:
    """What `featurize` did: the store, its rows, components and bytes, and the partitions made now.

    `warnings` say in what the map is less than was asked for.
    """

    store: Path
    rows: int
    n_components: int
    dtype: str
    bytes: int
    partitions: int
    made: int
    seconds: float
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        each = self.bytes / max(1, self.rows)
        lines = [
            f"{self.n_components:,} features ({self.dtype}) of {self.rows:,} molecules in {self.store}, "
            f"{each:,.0f} bytes each ({self.seconds:.1f} s)"
        ]
        if self.made < self.partitions:
            lines.append(
                f"  {self.partitions - self.made} of {self.partitions} partitions were there already"
            )
        return "\n".join([*lines, *(f"  {warning}" for warning in self.warnings)])


@watched
def featurize(
    source: Any,
    feature_map: FeatureMap | None = None,
    output: str | os.PathLike[str] | None = None,
    *,
    dtype: str | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
    shard: Shard | str | None = None,
    prepare: bool = False,
) -> Any:
    """Map fingerprints to random features: a store to a store, or lazily a dask array to a dask array.

    Parameters
    ----------
    source : path or dask.array.Array
        A fingerprint store; or a 2-D dask array whose blocks are scipy.sparse CSR, pydata/sparse
        (GCXS, COO) or NumPy.
    feature_map : FeatureMap, optional
        Default: `daskrf.features.default_map()`. One that learns from the library and is not fitted yet is
        fitted to the store first, as by `fit_map`, and the copy that is fitted goes into the feature store.
    output : path, optional
        Directory of the feature store; needed when `source` is a store, and only then.
    dtype : {"bits", "float32", "float16"}, optional
        How features are held; default: bits for one-bit maps, else float32. Not float16 for
        `LocalGaussianFeatures`, which tell the nearest centroid by small features.
    client : distributed.Client, optional
        Where to run; default: this process. A dask array is computed by whoever computes it.
    progress : Progress, optional
    shard : Shard or str, optional
        Of a store, ``"i/n"``: make only the partitions p with p % n = i, here and without a client. Shards
        run at the same time on any hosts; a last call without `shard` makes what is missing and ends the job.
    prepare : bool
        Only fit the map, if it learns, and make the plan, so that shards start at once.

    Returns
    -------
    FeaturizeReport, or ShardReport with `shard` or `prepare`, or dask.array.Array
        Of shape (n, ceil(M / 8)) and dtype uint8 for bits, else (n, M).

    Raises
    ------
    InputError
        If the map cannot serve the input or the dtype.
    StoreError
        If `output` was made from other fingerprints or with another map.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from daskrf import TanimotoMinMaxFeatures, featurize
    >>> counts = da.from_array(np.eye(6, 8, dtype=np.float32), chunks=(3, 8))
    >>> featurize(counts, TanimotoMinMaxFeatures(64))
    dask.array<_block_features, shape=(6, 8), dtype=uint8, chunksize=(3, 8), chunktype=numpy.ndarray>
    """
    feature_map = default_map() if feature_map is None else feature_map
    dtype = ("bits" if feature_map.one_bit else "float32") if dtype is None else dtype
    if dtype not in DTYPES:
        raise InputError(f"The dtype of features is one of {', '.join(DTYPES)}, not {dtype!r}.")
    if dtype == "bits" and not feature_map.one_bit:
        raise InputError(f"{type(feature_map).__name__} has no one-bit features; take float32 or float16.")
    if feature_map.in_blocks:
        refuse_half(dtype)
    share = Share.of(shard, prepare, client)
    return _featurize(source, feature_map, output, dtype, client, progress, share)


@singledispatch
def _featurize(source: Any, *_: Any) -> Any:
    raise InputError(
        f"The source is a dask array or the path of a fingerprint store, not {type(source).__name__}."
    )


@_featurize.register
def _(source: da.Array, feature_map: FeatureMap, output: Any, dtype: str, *_: Any) -> da.Array:
    if output is not None:
        raise InputError(
            "A dask array is featurized lazily and has no output path; store the result yourself."
        )
    return featurize_array(source, feature_map, dtype=dtype)


@_featurize.register(str)
@_featurize.register(os.PathLike)
@_featurize.register(ObjectPath)
def _(
    source: Any,
    feature_map: FeatureMap,
    output: Any,
    dtype: str,
    client: Client | None,
    progress: Progress | None,
    share: Share,
) -> FeaturizeReport | ShardReport:
    start = time.monotonic()
    if output is None:
        raise InputError(f"Say where the features of {source} shall go: output is missing.")
    output, progress = as_path(output), progress or Progress()
    fingerprints = FingerprintStore.open(source)
    fingerprints.require_complete()
    check_map(feature_map, fingerprints.n_columns)
    _check_memory(fingerprints, feature_map, dtype, client)
    size = 4 if dtype == "float32" else 2 if dtype == "float16" else 1 / 8
    n_bytes = int(fingerprints.counts()["kept"] * feature_map.n_components * size)
    disk.check_disk(output, n_bytes // share.count, "the features")
    work = work_folder(output)
    with share.lock(output, "featurize", progress):
        unfitted = feature_map
        feature_map = fit_map_once(
            feature_map, fingerprints, work, planned=_planned(output), client=client, progress=progress
        )
        if feature_map is not unfitted:  # the size of its tables may be known only now
            _check_memory(fingerprints, feature_map, dtype, client)
        store = FeatureStore.new(output, fingerprints, feature_map.state(), feature_map.n_components, dtype)
        features = FingerprintSource.of(fingerprints, feature_map, dtype == "bits").carried(work)
        stage = FeaturizeStage(features, str(store.path.resolve()), store.spec_hash, dtype)
        rows = planned_rows(fingerprints)
        if not share.whole:
            return complete_share(share, stage, store, rows, start=start, progress=progress)
        made = complete(stage, store, rows, client=client, progress=progress)
        remove_quietly(work)
    records = store.records().values()
    return FeaturizeReport(
        store.path,
        store.counts()["kept"],
        feature_map.n_components,
        dtype,
        sum(record.bytes for record in records),
        store.n_partitions,
        made,
        time.monotonic() - start,
        tuple(feature_map.cautions()),
    )


def _check_memory(
    fingerprints: FingerprintStore, feature_map: FeatureMap, dtype: str, client: Client | None
) -> None:
    """Check what a task needs."""
    rows, nonzeros = max(planned_rows(fingerprints)), most_nonzeros(fingerprints)
    libraries = memory.libraries_of(client)
    double = feature_map.gram_precision == "double"
    tables = feature_map.table_bytes(fingerprints.n_columns) / feature_map.n_components

    def need_of(M: int, rows: int = rows, nonzeros: int | None = nonzeros) -> memory.MemoryNeed:
        options: dict[str, Any] = {"one_bit": dtype == "bits", "double": double, "nonzeros": nonzeros}
        need = memory.need_of_features(M, rows, libraries=libraries, **options)
        return need.plus("tables of the map", int(tables * M))

    M, where = feature_map.n_components, "a worker" if client else "this machine"
    fewer = memory.fewer_rows(rows, nonzeros, lambda r, n: need_of(M, r, n))
    memory.check(need_of(M), worker_memory(client), where, {"components": (M, 64, need_of), **fewer})


def _planned(output: Path) -> Planned | None:
    """Return what a feature store at `output` is made from, and by which map, if there is one."""
    if kind_of(output, missing_ok=True) != "features":
        return None
    spec = FeatureStore.open(output).spec
    return Planned(output, spec["source"], spec["map"])


@dataclass(frozen=True)
class FeaturizeStage:
    """Makes partitions of a feature store; see `daskrf.jobs.partitions`."""

    source: FingerprintSource
    path: str
    spec_hash: str
    dtype: str
    name: str = "featurize"

    @property
    def seconds_per_row(self) -> float:
        """See `PartitionStage`."""
        return self.source.seconds_per_row

    def process(self, partition: int) -> CommitRecord:
        """See `PartitionStage`."""
        store = opened(FeatureStore, self.path, self.spec_hash)
        n_rows = self.source.store.record(partition).counts["kept"]
        return store.write_partition(partition, self._blocks(partition), n_rows)

    def _blocks(self, partition: int) -> Iterator[np.ndarray]:
        for block in self.source.blocks(partition):
            yield block.phi if self.dtype == "bits" else narrowed(block.phi, self.dtype, block.rows)
            del block  # before the next one is made
