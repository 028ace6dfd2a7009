"""Fingerprint store -> feature store, or dask array -> dask array."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
import pyarrow as pa
from distributed import Client

from daskrf.arrays import narrowed
from daskrf.errors import InputError
from daskrf.features import FeatureMap, default_map
from daskrf.features.featuremap import check_feature_map, feature_bytes
from daskrf.files.backend import absolute, as_path
from daskrf.fitting.learner import prepared
from daskrf.jobs.job import Disk, Job, Need, Run, run
from daskrf.jobs.memory import CHUNK_BYTES, ROW_BYTES, Making, MemoryNeed, peak
from daskrf.jobs.pieces import Partitions, Pieces, found_words, opened
from daskrf.molecules import FingerprintSpec
from daskrf.parameters import Command
from daskrf.quantities import amount, features_words
from daskrf.report.notebook import Shown
from daskrf.sources.sources import (
    FingerprintSource,
    check_map,
    check_map_for,
    folding_words,
    making_of,
    map_for,
    planned_rows,
)
from daskrf.storage.kinds import check_output
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import CommitRecord
from daskrf.workers.progress import Progress

if TYPE_CHECKING:
    import dask.array as da

CLI = Command(
    "daskrf featurize real.fingerprints -o real.features -M 8192",
    step=2,
    resumable=True,
    shards=True,
    check=check_map_for,
)

Dtype = Literal["bits", "float32", "float16"]


@dataclass(frozen=True)
class FeaturizeReport(Shown):
    """What `featurize` did: the store, its rows, components and bytes, and the partitions this run made.

    `n_filled` is the number of features that differ from 0 in some row (`FeatureMap.n_filled`). If there are
    fewer than `n_components`, `warnings` say why. `folded` says how fingerprints were folded, if they were.
    """

    store: PurePath
    rows: int
    n_components: int
    dtype: str
    bytes: int
    partitions: int
    made: int
    seconds: float
    warnings: tuple[str, ...] = ()
    n_filled: int | None = None
    folded: str = ""

    def __str__(self) -> str:
        features = features_words(
            self.n_components if self.n_filled is None else self.n_filled, self.n_components
        )
        lines = [
            f"{features} of {amount(self.rows, 'molecules')} in {self.store}: "
            f"{feature_bytes(self.n_components, self.dtype):,} bytes a molecule as {self.dtype}, "
            f"{self.bytes / max(1, self.rows):,.0f} with ID and SMILES ({self.seconds:.1f} s)"
        ]
        lines += [f"  {self.folded}"] if self.folded else []
        lines += found_words(self.made, self.partitions)
        return "\n".join([*lines, *(f"  {warning}" for warning in self.warnings)])


@overload
def featurize(
    source: da.Array,
    feature_map: FeatureMap | None = None,
    output: None = None,
    *,
    dtype: Dtype | None = None,
    fold: int | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> da.Array: ...
@overload
def featurize(
    source: str | os.PathLike[str],
    feature_map: FeatureMap | None = None,
    output: str | os.PathLike[str] | None = None,
    *,
    dtype: Dtype | None = None,
    fold: int | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> FeaturizeReport: ...
def featurize(
    source: object,
    feature_map: FeatureMap | None = None,
    output: str | os.PathLike[str] | None = None,
    *,
    dtype: Dtype | None = None,
    fold: int | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> object:
    """Turn fingerprints into random features.

    You need this only to screen the same library many times: fit, predict and screen also read fingerprints.
    Stored as bits, features take n_components/8 bytes a molecule. A map that learns from the library reads it
    first; `daskrf maps` says what each map learns. In Python, a dask array becomes a lazy dask array.

    Parameters
    ----------
    source : path or dask.array.Array
        A fingerprint store. In Python also a 2-D dask array whose blocks are scipy.sparse CSR, pydata/sparse
        (GCXS, COO) or NumPy, a DataArray of xarray that holds one, or a dask DataFrame of numbers.
    feature_map : FeatureMap, optional
        Default: `daskrf.features.default_map()`. A map that learns from the library and is not fitted yet is
        fitted to the store first, as `fit_map` does, and the fitted copy goes into the feature store.
    output : path, optional
        Directory of the feature store. In Python, give it only if `source` is a store.
    dtype : {"bits", "float32", "float16"}, optional
        How features are stored. Bits take 1/32 of the space of float32 and lose nothing. With float16,
        predicted means change by up to about 1e-3 of their spread (4e-3 for landmarks); features that are
        signs lose nothing if their number is a power of 4, such as 4096. Maps with centroids refuse float16,
        because small features tell which centroid is nearest. Default: bits if features are signs, else
        float32.
    fold : int, optional
        Fold each fingerprint kind to this many columns on reading. Default: 2048 for maps that can only take
        a few thousand columns, such as fastfood; other maps take unfolded fingerprints as they are.
    client, progress
        As in `fingerprint`.

    Returns
    -------
    FeaturizeReport, or dask.array.Array
        Of shape (n, ceil(M / 8)) and dtype uint8 for bits, else (n, M).

    Raises
    ------
    InputError
        If the map does not support the input or the dtype.
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
    check_feature_map(feature_map)
    dtype = ("bits" if feature_map.one_bit else "float32") if dtype is None else dtype
    feature_map.check_dtype(dtype)
    if not isinstance(source, (str, os.PathLike)):
        if output is not None:
            raise InputError(
                "A dask array is featurized lazily and has no output path; store the result yourself."
            )
        if fold is not None:
            raise InputError("A dask array has no kinds to fold; take a FoldedFeatures as the map.")
        from daskrf.fitting.lazy import featurize_array  # with dask.array, which takes half a second

        return featurize_array(source, feature_map, dtype=dtype)
    if output is None:
        raise InputError(f"Name an output for the features of {source}.")
    fingerprints = FingerprintStore.open(as_path(source))
    fingerprints.require_complete()
    feature_map = map_for(feature_map, FingerprintSpec.from_state(fingerprints.spec["fingerprint"]), fold)
    check_map(feature_map, fingerprints.n_columns)
    features = FingerprintSource.of(fingerprints, feature_map, dtype == "bits")
    return run(_Featurize(features, as_path(output), dtype), client, progress)


@dataclass
class _Featurize(Job[FeaturizeReport]):
    """The job of `featurize`."""

    features: FingerprintSource
    output: PurePath
    dtype: str
    store: FeatureStore = field(init=False)

    name = "featurize"

    def plan(self, run: Run) -> None:
        """Fit the map."""
        check_output(self.output, "features")
        fitted = prepared(run, self.features, self.need)
        assert isinstance(fitted, FingerprintSource)
        self.features = fitted

    def need(self) -> Need:
        size = 4 if self.dtype == "float32" else 2 if self.dtype == "float16" else 1 / 8
        making = making_of(self.features)
        n_bytes = int(self.features.store.counts()["kept"] * making.n_components * size)
        worker = making.need(need_of_features, "components", "rows")
        return Need(worker=worker, disk=Disk(self.output, "the features", n_bytes, n_bytes))

    def pieces(self, run: Run) -> list[Pieces]:
        fingerprints, feature_map = self.features.store, self.features.feature_map
        n_components = feature_map.n_components
        kernel = feature_map.projected_kernel
        self.store = FeatureStore.new(
            self.output,
            fingerprints,
            feature_map.state(),
            n_components,
            self.dtype,
            diagonal=kernel is not None and not kernel.has_unit_diagonal,
        )
        features, path = self.features.carried(run.work), absolute(self.store.path)
        stage = FeaturizeStage(features, path, self.store.spec_hash, self.dtype)
        return [Partitions(stage, self.store, planned_rows(self.store))]

    def finish(self, run: Run, made: int) -> FeaturizeReport:
        store, feature_map = self.store, self.features.feature_map
        return FeaturizeReport(
            store=store.path,
            rows=store.counts()["kept"],
            n_components=feature_map.n_components,
            dtype=self.dtype,
            bytes=sum(record.bytes for record in store.records().values()),
            partitions=store.n_partitions,
            made=made,
            seconds=run.seconds,
            warnings=tuple(feature_map.cautions()),
            n_filled=feature_map.n_filled,
            folded=folding_words(self.features),
        )


def need_of_features(making: Making) -> MemoryNeed:
    """Return the need of a task that writes the features of a partition."""
    chunk = min(CHUNK_BYTES, making.rows * making.row_bytes)
    # Rows left over from whole chunks are joined to the next block.
    uneven = making.block_rows % max(1, CHUNK_BYTES // making.row_bytes)
    rest = chunk if making.rows > making.block_rows and uneven else 0
    rows = {"the rows of the library": ROW_BYTES * making.rows}
    held, block = {"a partition of fingerprints": making.partition, **rows}, making.block + rest
    return peak(
        "featurize",
        making.decoding,
        {**held, "a block of features": block, "making it": making.making},
        {
            **held,
            "a block of features": making.block + (block if rest else 0),
            "a chunk as it is written": 2 * chunk,
        },
    )


@dataclass(frozen=True)
class FeaturizeStage:
    """Makes partitions of a feature store."""

    source: FingerprintSource
    path: str
    spec_hash: str
    dtype: str
    name: str = "featurize"

    @property
    def seconds_per_row(self) -> float:
        return self.source.seconds_per_row

    def make(self, partition: int) -> CommitRecord:
        store = opened(FeatureStore, self.path, self.spec_hash)
        parts = store.parts(partition)
        tables = [self.source.store.read_rows(p)[piece] for p, piece in parts]
        rows = pa.concat_tables(tables).unify_dictionaries() if tables else self.source.store.no_rows()
        diagonal: list[np.ndarray] = []
        return store.write_partition(partition, self._blocks(parts, tables, diagonal), rows, diagonal)

    def _blocks(
        self, parts: list[tuple[int, slice]], tables: list[pa.Table], diagonal: list[np.ndarray]
    ) -> Iterator[np.ndarray]:
        """Yield the features of parts; put k(x, x) into `diagonal` where the features do not determine it."""
        for (p, _), table in zip(parts, tables, strict=True):
            for block in self.source.blocks(p, table["row"].to_numpy()):
                if block.diagonal is not None:
                    diagonal.append(block.diagonal)
                yield block.phi if self.dtype == "bits" else narrowed(block.phi, self.dtype, block.rows)
                del block  # before the next one is made
