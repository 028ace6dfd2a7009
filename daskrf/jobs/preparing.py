"""Fit feature maps to a library: by a summary of every row, or by a random sample of the rows.

What a map learns depends on the rows of the library and on its own seed alone: not on partitions, workers or
the order in which tasks end. So a second run learns the same, and refuses what differs as ever.
"""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from distributed import Client
from scipy import sparse
from sklearn.base import clone

from daskrf import seeds
from daskrf.errors import InputError, StoreError
from daskrf.features import FeatureMap, from_state
from daskrf.features.landmarks import LandmarkMap
from daskrf.jobs import memory
from daskrf.jobs.clusters import worker_memory
from daskrf.jobs.execution import Task, run_tasks
from daskrf.jobs.maps import MapReference, agrees
from daskrf.jobs.opening import opened
from daskrf.jobs.partitions import group_by_rows, rows_of_task
from daskrf.jobs.progress import Progress
from daskrf.jobs.sources import FeatureSource, FingerprintSource, most_nonzeros
from daskrf.jobs.stopping import check_stop
from daskrf.jobs.threads import ONE_BLAS_THREAD
from daskrf.storage.checked import believed
from daskrf.storage.fingerprints import FingerprintStore
from daskrf.storage.model import read_checkpoint, write_checkpoint
from daskrf.storage.plans import differences, hash_of

__all__ = [
    "Planned",
    "check_learning",
    "fit_map",
    "fit_map_once",
    "need_of_learning",
    "prepared",
    "sampled_rows",
]

_READ_SECONDS = 3e-6  # a molecule's fingerprint, read and looked at


@dataclass(frozen=True)
class Planned:
    """What an output at `path` is made from: the spec hash of a fingerprint store, and the state of a map."""

    path: Path
    source: str
    state: dict[str, Any]

    def unfitted(self) -> dict[str, Any]:
        """Return what does not follow from the rows."""
        names = ("class", "version", "parameters")
        return {"source": self.source, "map": {name: self.state[name] for name in names}}


def fit_map(
    feature_map: FeatureMap,
    store: str | os.PathLike[str] | FingerprintStore,
    *,
    client: Client | None = None,
    progress: Progress | None = None,
) -> FeatureMap:
    """Return a copy of a feature map that is fitted to the molecules of a fingerprint store.

    `featurize` and `fit` call it by themselves. Call it to share one fitted map between several stores, or to
    featurize dask arrays. What is learned does not depend on partitions, workers or the order of tasks.

    Parameters
    ----------
    feature_map : FeatureMap
        It is not changed. One that is fitted already, or learns nothing, is returned as it is.
    store : path or FingerprintStore
        A complete fingerprint store.
    client : distributed.Client, optional
        Where the store is read; default: this process, which also fits in any case.
    progress : Progress, optional

    Returns
    -------
    FeatureMap

    Raises
    ------
    InputError
        If the map does not serve these fingerprints.
    StoreError
        If the store is not complete.
    MemoryLimitError
        If a sample of the rows does not fit.
    """
    if feature_map.is_fitted():
        return feature_map
    if not isinstance(store, FingerprintStore):
        store = FingerprintStore.open(store)
        store.require_complete()
    _check_memory(feature_map, store, client)
    progress = progress or Progress()
    if feature_map.learns_from == "summary":
        fitted = clone(feature_map).fit_summaries(_summaries(feature_map, store, client, progress))
    else:
        rows = _sample(feature_map, store, client, progress)
        with ONE_BLAS_THREAD:
            fitted = clone(feature_map).fit(rows)
    progress.finish()
    return fitted


def fit_map_once(
    feature_map: FeatureMap,
    store: FingerprintStore,
    directory: Path,
    *,
    planned: Planned | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> FeatureMap:
    """Fit a map as `fit_map` does, unless an earlier run of the same command has done so.

    Parameters
    ----------
    directory : Path
        Where the fitted map is left for a second run, and looked for.
    planned : Planned, optional
        What an output that is there already is made from.

    Raises
    ------
    InputError
        If a parameter of the map is bad, or it cannot be fitted to these rows.
    StoreError
        If the output is made from another store or by another map: before anything is read.
    """
    if feature_map.is_fitted():
        return feature_map
    if planned is not None:
        with believed(planned.path):
            if planned.source == store.spec_hash and agrees(feature_map, planned.state):
                return from_state(planned.state)
            asked = Planned(planned.path, store.spec_hash, feature_map.state())
            differing = differences(planned.unfitted(), asked.unfitted())
        raise StoreError(
            f"{planned.path} was made for another specification: {differing}; give another output path, or "
            "repeat the options that it was made with"
        )
    key = hash_of([store.spec_hash, feature_map.state()])
    path = directory / f"map-of-library-{key[:16]}"
    found = read_checkpoint(path, key)
    if found is not None:
        return from_state(found.metadata["map"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reports say what the map's cautions are
        fitted = fit_map(feature_map, store, client=client, progress=progress)
    directory.mkdir(parents=True, exist_ok=True)
    for keep in (True, False):  # of shards that learn at once the first counts, but not where it is damaged
        write_checkpoint(path, {}, {"map": fitted.state()}, key, keep=keep)
        if (found := read_checkpoint(path, key)) is not None:
            return from_state(found.metadata["map"])
    return fitted


def prepared(
    source: FeatureSource | FingerprintSource,
    directory: Path,
    *,
    planned: Planned | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> FeatureSource | FingerprintSource:
    """Return the source with its map fitted to its rows, as `fit_map_once` does."""
    if isinstance(source, FeatureSource):
        return source
    fitted = fit_map_once(
        source.feature_map, source.store, directory, planned=planned, client=client, progress=progress
    )
    return replace(source, map=MapReference.of(fitted.state()))


def _check_memory(feature_map: FeatureMap, store: FingerprintStore, client: Client | None) -> None:
    """Check what a task needs that reads, and what this process needs that gathers a sample."""
    kept = _kept(store)
    largest, total = int(kept.max(initial=0)), int(kept.sum())
    nonzeros = most_nonzeros(store)
    if client is not None:
        looked = feature_map.learns_from == "summary"
        libraries = memory.libraries_of(client)
        need = memory.need_of_map(largest, 0, nonzeros=nonzeros, compiled=looked, libraries=libraries)
        memory.check(need, worker_memory(client), "a worker")
    check_learning(feature_map, largest, total, nonzeros, libraries=memory.libraries_of(None))


def check_learning(
    feature_map: FeatureMap,
    partition_rows: int,
    total: int,
    nonzeros: int | None = None,
    *,
    libraries: int = memory.LIBRARIES,
) -> None:
    """Refuse to fit a map in this process where that does not fit; arguments as of `need_of_learning`."""

    def need_of(smaller: FeatureMap) -> memory.MemoryNeed:
        return need_of_learning(smaller, partition_rows, total, nonzeros, libraries=libraries)

    fewer: memory.Smaller = {}
    if isinstance(feature_map, LandmarkMap):
        n = feature_map.landmarks_wanted()
        fewer = {"landmarks": (n, 64, lambda n: need_of(feature_map.with_landmarks(n)))}
    memory.check(need_of(feature_map), worker_memory(None), "this machine", fewer)


def need_of_learning(
    feature_map: FeatureMap,
    partition_rows: int,
    total: int,
    nonzeros: int | None = None,
    *,
    libraries: int = memory.LIBRARIES,
) -> memory.MemoryNeed:
    """Return the need of the process that fits a map to a library of `total` rows.

    `partition_rows` and `nonzeros` are of its largest partition; None where no store has counted them.
    """
    size = 0 if feature_map.learns_from == "summary" else feature_map.sample_size(total)
    need = memory.need_of_map(partition_rows, size, nonzeros=nonzeros, libraries=libraries)
    mean = memory.NONZEROS if nonzeros is None else nonzeros / max(1, partition_rows)
    return need.plus("fitting the map", feature_map.fit_bytes(size * mean))


def _kept(store: FingerprintStore) -> npt.NDArray[np.int64]:
    """Return the molecules of each partition."""
    records = store.records()
    return np.array([records[p].counts["kept"] for p in range(store.n_partitions)], dtype=np.int64)


def _some(feature_map: FeatureMap, store: FingerprintStore) -> npt.NDArray[np.int64]:
    """Return the molecules of each partition; refuse a store without any."""
    kept = _kept(store)
    if not kept.any():
        raise InputError(f"{store.path} has no molecule for {type(feature_map).__name__} to learn from.")
    return kept


def _summaries(
    feature_map: FeatureMap, store: FingerprintStore, client: Client | None, progress: Progress
) -> list[dict[str, Any]]:
    """Return the summaries of all partitions that have rows, in their order."""
    kept = _some(feature_map, store)
    look = _Look(str(store.path.resolve()), store.spec_hash, MapReference.of(feature_map.state()))
    pieces = {int(p): None for p in np.flatnonzero(kept)}
    found = _looked(look.summaries, pieces, kept, client, progress)
    return [found[p] for p in sorted(found)]


def _sample(
    feature_map: FeatureMap, store: FingerprintStore, client: Client | None, progress: Progress
) -> sparse.csr_matrix:
    """Return the sampled rows, in the order of the library."""
    kept = _some(feature_map, store)
    total = int(kept.sum())
    wanted = sampled_rows(total, feature_map.sample_size(total), getattr(feature_map, "random_state", 0))
    bounds = np.concatenate([[0], np.cumsum(kept)])
    cuts = np.searchsorted(wanted, bounds)
    pieces = {int(p): wanted[cuts[p] : cuts[p + 1]] - bounds[p] for p in np.flatnonzero(np.diff(cuts))}
    look = _Look(str(store.path.resolve()), store.spec_hash, MapReference.of(feature_map.state()))
    found = _looked(look.rows, pieces, kept, client, progress)
    return _joined([found[p] for p in sorted(found)], store.n_columns)


def sampled_rows(n_rows: int, size: int, seed: int) -> npt.NDArray[np.int64]:
    """Return `size` distinct random numbers of 0 to n_rows - 1, ascending; all of them if there are no more.

    They are the first distinct ones of a stream of random words, in memory of a few times `size`.

    Examples
    --------
    >>> sampled_rows(10**9, 3, 0).tolist() == sampled_rows(10**9, 3, 0).tolist()
    True
    >>> sampled_rows(3, 5, 0).tolist()
    [0, 1, 2]
    """
    if size >= n_rows:
        return np.arange(n_rows, dtype=np.int64)
    name = "library/sample"
    if 2 * size > n_rows:
        return np.sort(np.argsort(seeds.words(seed, name, n_rows), kind="stable")[:size])
    count = 2 * size + 64  # of which 63 % at least are distinct, but for chance
    while True:
        words = (seeds.words(seed, name, count) % np.uint64(n_rows)).astype(np.int64)
        _, first = np.unique(words, return_index=True)
        if len(first) >= size:
            return np.sort(words[np.sort(first)[:size]])
        count *= 2


def _joined(parts: Sequence[tuple[npt.NDArray[Any], ...]], n_columns: int) -> sparse.csr_matrix:
    """Return the rows of (lengths, indices, counts) as one matrix."""
    lengths, indices, counts = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(indices.dtype)
    return sparse.csr_matrix((counts, indices, indptr), shape=(len(lengths), n_columns))


def _looked(
    look: Callable[[dict[int, Any]], dict[int, Any]],
    pieces: dict[int, Any],
    kept: npt.NDArray[np.int64],
    client: Client | None,
    progress: Progress,
) -> dict[int, Any]:
    """Call `look` on all `pieces` by groups of partitions, and return what it finds of each."""
    sizes = [(p, int(kept[p])) for p in pieces]
    total = sum(size for _, size in sizes)
    groups = group_by_rows(sizes, rows_of_task(total, _READ_SECONDS, client))
    progress.start("map", total, "rows")
    run = uuid.uuid4().hex  # two drivers that share a cluster may look at one library at once
    tasks = (
        Task(
            f"daskrf-map-{run}-{group[0]}",
            ({p: pieces[p] for p in group},),
            sum(int(kept[p]) for p in group),
        )
        for group in groups
    )
    found: dict[int, Any] = {}
    for task, result in run_tasks(look, tasks, client, progress):
        found.update(result)
        progress.advance(task.rows)
    return found


@dataclass(frozen=True)
class _Look:
    """Reads what a map learns from out of partitions of a fingerprint store; travels in each task."""

    path: str
    spec_hash: str
    map: MapReference

    def summaries(self, partitions: dict[int, None]) -> dict[int, dict[str, Any]]:
        """Return a summary of the rows of each partition."""
        with ONE_BLAS_THREAD:
            store = opened(FingerprintStore, self.path, self.spec_hash)
            found = {}
            for p in partitions:
                check_stop()
                found[p] = self.map.feature_map.summarize(store.read_fingerprints(p))
            return found

    def rows(self, wanted: dict[int, npt.NDArray[np.int64]]) -> dict[int, tuple[npt.NDArray[Any], ...]]:
        """Return lengths, indices and counts of the wanted rows of each partition."""
        store = opened(FingerprintStore, self.path, self.spec_hash)
        found: dict[int, tuple[npt.NDArray[Any], ...]] = {}
        for p, positions in wanted.items():
            check_stop()
            rows = store.read_fingerprints(p)[positions]
            found[p] = (np.diff(rows.indptr), rows.indices, rows.data)
        return found
