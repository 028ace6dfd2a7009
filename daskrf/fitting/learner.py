"""Fit feature maps to a library, from a summary of every row or from a random sample of rows.

What a map learns depends only on the rows of the library and on its own seed, not on partitions, workers or
task order. So a second run learns the same, and refuses anything that differs, as usual.
"""

from __future__ import annotations

import os
import uuid
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from distributed import Client
from scipy import sparse

from daskrf import seeds
from daskrf.blas import ONE_BLAS_THREAD
from daskrf.errors import InputError
from daskrf.estimators import clone
from daskrf.features import FeatureMap, from_state
from daskrf.features.featuremap import MapState, check_feature_map
from daskrf.files.backend import absolute, as_path
from daskrf.jobs import memory
from daskrf.jobs.job import Need, Run
from daskrf.jobs.pieces import group_by_rows, opened, rows_of_task, submit
from daskrf.sources.mapreference import MapReference, agrees
from daskrf.sources.sources import FeatureSource, FingerprintSource, most_nonzeros
from daskrf.storage.differences import differences, made_with_others
from daskrf.storage.integrity import as_damage
from daskrf.storage.kinds import kind_of
from daskrf.storage.model import Contents, load_model, made_once
from daskrf.storage.stores.featurestore import FeatureStore
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import hash_of
from daskrf.workers.calls import check_stop
from daskrf.workers.clients import check_client
from daskrf.workers.execution import Task
from daskrf.workers.progress import Progress

_Map = TypeVar("_Map", bound=FeatureMap)

_READ_SECONDS = 3e-6  # per molecule, to read and examine its fingerprint


def fit_map(
    feature_map: _Map,
    store: str | os.PathLike[str] | FingerprintStore,
    *,
    client: Client | None = None,
    progress: Progress | None = None,
) -> _Map:
    """Return a copy of a feature map, fitted to the molecules of a fingerprint store.

    `featurize` and `fit` do this when they need it. Call it yourself to share one fitted map between several
    stores, or to featurize Dask arrays. The result does not depend on partitions, workers or task order.

    Parameters
    ----------
    feature_map : FeatureMap
        It is not modified. A map that is already fitted, or learns nothing, is returned as is.
    store : path or FingerprintStore
        A complete fingerprint store.
    client : distributed.Client, optional
        Where the store is read; default: this process, which always does the fitting.
    progress : Progress, optional

    Returns
    -------
    FeatureMap

    Raises
    ------
    InputError
        If the map does not support these fingerprints.
    StoreError
        If the store is not complete.
    MemoryLimitError
        If a sample of the rows does not fit.
    """
    check_feature_map(feature_map)
    check_client(client)
    if feature_map.is_fitted():
        return feature_map
    if not isinstance(store, FingerprintStore):
        store = FingerprintStore.open(as_path(store))
        store.require_complete()
    return _fitted(Run(store.path, client=client, progress=progress or Progress()), feature_map, store)


def _fitted(run: Run, feature_map: _Map, store: FingerprintStore, need: Callable[[], Need] = Need) -> _Map:
    """Return the map, fitted in this run; the `need` of what follows is checked along with it."""
    rows_of = np.array(store.kept_rows(), dtype=np.int64)
    largest, total, nonzeros = int(rows_of.max(initial=0)), int(rows_of.sum()), most_nonzeros(store)
    reading = need_of_map(largest, 0, nonzeros, compiled=False)
    run.check(need(), Need(worker=reading, here=need_of_learning(feature_map, largest, total, nonzeros)))
    if not total:
        raise InputError(f"{store.path} has no molecule for {type(feature_map).__name__} to learn from.")
    if feature_map.learns_from == "summary":
        pieces = dict.fromkeys(np.flatnonzero(rows_of).tolist())
        fitted = clone(feature_map).fit_summaries(_looked(run, feature_map, store, rows_of, pieces))
    else:
        rows = sparse.vstack(
            _looked(run, feature_map, store, rows_of, _sample(feature_map, rows_of)), format="csr"
        )
        with ONE_BLAS_THREAD:
            fitted = clone(feature_map).fit(rows)
    run.progress.finish()
    return fitted


def prepared(
    run: Run, source: FeatureSource | FingerprintSource, need: Callable[[], Need]
) -> FeatureSource | FingerprintSource:
    """Return the source with its map fitted to its rows, by this run or an earlier run of the same job.

    The `need` of the job is checked before a map learns, as far as it is known: the size of a map's tables
    may only be known once it is fitted.

    Raises
    ------
    InputError
        If a parameter of the map is invalid, or the map cannot be fitted to these rows.
    StoreError
        If the output was made from another store or by another map; raised before anything is read.
    """
    if isinstance(source, FeatureSource) or source.raw or source.feature_map.is_fitted():
        return source
    fitted = _learned(run, source.feature_map, source.store, need)
    return replace(source, map=MapReference.of(fitted.state()))


def _learned(
    run: Run, feature_map: FeatureMap, store: FingerprintStore, need: Callable[[], Need]
) -> FeatureMap:
    """Return the fitted map, from the output, from an earlier run, or fitted now."""
    if (planned := _planned(run.output)) is not None:
        source, state = planned
        with as_damage(run.output):
            if source == store.spec_hash and agrees(feature_map, state):
                return from_state(state)
            differing = differences(_unfitted(source, state), _unfitted(store.spec_hash, feature_map.state()))
        raise made_with_others(run.output, differing)
    key = hash_of([store.spec_hash, feature_map.state()])

    def make() -> Contents:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # reports include the map's cautions
            return {}, {"map": _fitted(run, feature_map, store, need).state()}

    return from_state(made_once(run.work / f"map-of-library-{key[:16]}", key, make).metadata["map"])


def _planned(output: PurePath) -> tuple[str, MapState] | None:
    """Return the fingerprint store's spec hash and the map's state that an output was made from, or None."""
    kind = kind_of(output, missing_ok=True)
    if kind == "features":
        spec = FeatureStore.open(output).spec
        return spec["source"], spec["map"]
    if kind != "model":
        return None
    metadata = load_model(output, names=[]).metadata
    with as_damage(output):
        return metadata["spec"]["source"], metadata["map"]


def _unfitted(source: str, state: Mapping[str, object]) -> dict[str, object]:
    """Return the parts of a map's specification that do not follow from the rows."""
    return {"source": source, "map": {name: state[name] for name in ("class", "version", "parameters")}}


def need_of_map(
    partition_rows: int, sample_rows: int, nonzeros: int | None = None, *, compiled: bool = True
) -> memory.MemoryNeed:
    """Return the need of learning a map, for a task that reads and for the process that gathers a sample.

    `compiled` is whether compiled code processes the rows, as for choosing landmarks, or they are only read.
    """
    making = memory.Making(1, partition_rows, one_bit=True, nonzeros=nonzeros)
    row_bytes = memory.STORED * making.entries / max(1, partition_rows) + 16
    return memory.peak(
        "map",
        # Examining rows takes one flag per non-zero, and a sampled part while it is cut out.
        {**making.decoding, "the sample of fingerprints": 3 * sample_rows * row_bytes},
        {
            "the sample of fingerprints": 5 * sample_rows * row_bytes,
            "kernel values": memory.EXPANDED if sample_rows else 0,
        },
        compiled=compiled,
    )


def need_of_learning(
    feature_map: FeatureMap, partition_rows: int, total: int, nonzeros: int | None = None
) -> memory.MemoryNeed:
    """Return the need of the process that fits a map to a library of `total` rows.

    `partition_rows` and `nonzeros` are those of its largest partition; None if no store has counted them.
    """

    def need_of(feature_map: FeatureMap) -> memory.MemoryNeed:
        size = 0 if feature_map.learns_from == "summary" else feature_map.sample_size(total)
        mean = memory.NONZEROS if nonzeros is None else nonzeros / max(1, partition_rows)
        need = need_of_map(partition_rows, size, nonzeros)
        return need.plus("fitting the map", feature_map.fit_bytes(size * mean))

    if (smaller := feature_map.smaller) is None:
        return need_of(feature_map)
    what, number, with_number = smaller
    return replace(need_of(feature_map), smaller={what: (number, 64, lambda n: need_of(with_number(n)))})


def _sample(feature_map: FeatureMap, rows_of: npt.NDArray[np.int64]) -> dict[int, npt.NDArray[np.int64]]:
    """Return the positions of the sampled rows within each partition that has some."""
    total = int(rows_of.sum())
    wanted = sampled_rows(total, feature_map.sample_size(total), getattr(feature_map, "seed_", 0))
    bounds = np.concatenate([[0], np.cumsum(rows_of)])
    cuts = np.searchsorted(wanted, bounds)
    return {int(p): wanted[cuts[p] : cuts[p + 1]] - bounds[p] for p in np.flatnonzero(np.diff(cuts))}


def sampled_rows(n_rows: int, size: int, seed: int) -> npt.NDArray[np.int64]:
    """Return `size` distinct random numbers from 0 to n_rows - 1, ascending; all if there are no more.

    They are the first distinct ones in a stream of random words; memory is a few times `size`.

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
    count = 2 * size + 64  # at least 63 % of them are distinct on average
    while True:
        words = (seeds.words(seed, name, count) % np.uint64(n_rows)).astype(np.int64)
        _, first = np.unique(words, return_index=True)
        if len(first) >= size:
            return np.sort(words[np.sort(first)[:size]])
        count *= 2


def _looked(
    run: Run,
    feature_map: FeatureMap,
    store: FingerprintStore,
    rows_of: npt.NDArray[np.int64],
    pieces: Mapping[int, npt.NDArray[np.int64] | None],
) -> list[Any]:
    """Examine all `pieces` by groups of partitions, and return the result for each, in order."""
    look = _Look(absolute(store.path), store.spec_hash, MapReference.of(feature_map.state()))
    sizes = [(p, int(rows_of[p])) for p in pieces]
    total = sum(size for _, size in sizes)
    groups = group_by_rows(sizes, rows_of_task(total, _READ_SECONDS, run.client))
    run.progress.start("map", total, "rows")
    name = uuid.uuid4().hex  # two runs sharing a cluster may examine the same library at once
    tasks = (
        Task(
            f"daskrf-map-{name}-{group[0]}",
            ({p: pieces[p] for p in group},),
            sum(int(rows_of[p]) for p in group),
        )
        for group in groups
    )
    results: dict[int, Any] = {}
    submit(look, tasks, run.client, run.progress, lambda _, result: results.update(result))
    return [results[p] for p in sorted(results)]


@dataclass(frozen=True)
class _Look:
    """Reads what a map learns from partitions of a fingerprint store; sent with each task."""

    path: str
    spec_hash: str
    map: MapReference

    def __call__(self, pieces: dict[int, npt.NDArray[np.int64] | None]) -> dict[int, object]:
        """Return the chosen rows of each partition, or a summary of all rows if none are chosen."""
        store, results = opened(FingerprintStore, self.path, self.spec_hash), {}
        with ONE_BLAS_THREAD:
            for p, chosen in pieces.items():
                check_stop()
                rows = store.read_fingerprints(p)
                results[p] = self.map.feature_map.summarize(rows) if chosen is None else rows[chosen]
                del rows  # before the next partition is read
        return results
