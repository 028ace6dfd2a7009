"""Choose a map, or its length scale or metric, on a sample of the labels before features are made.

The sample depends only on the labels and the seed, and the choice is kept in a file. So shards and later
runs of a job have the same map.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy import sparse

from daskrf import seeds
from daskrf.blas import ONE_BLAS_THREAD
from daskrf.errors import InputError
from daskrf.features import FeatureMap
from daskrf.features.featuremap import resized
from daskrf.files.backend import absolute
from daskrf.fitting.learner import need_of_map
from daskrf.gp.choice.kernelchoice import FEWEST_LABELS
from daskrf.gp.choice.lengthscale import (
    LengthScaleSearch,
    LengthScaleState,
    choose_length_scale,
    stand_in,
    typical_distance,
    usual_length_scale,
    with_length_scale,
)
from daskrf.gp.choice.mapchoice import AutoMap, MapChoice, MapChoiceState, choose_map
from daskrf.gp.choice.metricchoice import (
    MetricChoice,
    MetricChoiceState,
    choose_metric,
    learns_metric,
    metric_bytes,
    with_kernel,
)
from daskrf.gp.processes.processes import ProcessOptions
from daskrf.jobs.job import Need, Run
from daskrf.jobs.memory import peak
from daskrf.jobs.pieces import group_by_rows, opened, rows_of_task, submit
from daskrf.sources.sources import most_nonzeros, planned_rows, positions, row_numbers
from daskrf.storage.labels import JoinedLabels
from daskrf.storage.model import Contents, made_once
from daskrf.storage.modelmetadata import SearchRecord
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import hash_of
from daskrf.workers.calls import check_stop
from daskrf.workers.execution import Task

_LABELS = 10_000  # on which maps and length scales are compared
_WORDS_AT_ONCE = 1 << 20  # random words from which labels are chosen
_FEATURES = 1_024  # at most, for this comparison: with more, the best length scale is about the same
_READ_SECONDS = 3e-6  # per molecule, to read its fingerprint

Search = LengthScaleSearch | MapChoice | MetricChoice
"""What was tried, and what was taken."""


def found_map(
    run: Run,
    requested: FeatureMap | AutoMap,
    store: FingerprintStore,
    joined: JoinedLabels,
    options: ProcessOptions,
    used: Callable[[FeatureMap], FeatureMap],
    earlier: SearchRecord | None = None,
) -> tuple[FeatureMap, Search, SearchRecord]:
    """Return the map that the labels determine, what was tried, and the record of it for the model.

    Parameters
    ----------
    run : Run
    requested : FeatureMap or AutoMap
        A map whose length scale or metric is "auto", or a request to choose any map.
    store : FingerprintStore
    joined : JoinedLabels
    options : mapping
        Those of the process.
    used : callable
        Adapts a map to the fingerprints of the store; see `map_for`.
    earlier : mapping, optional
        Record of the search in an earlier model; used if it is of the same search.
    """
    state = requested.spec if isinstance(requested, AutoMap) else requested.state()
    as_used = used(requested.stand_in if isinstance(requested, AutoMap) else stand_in(requested)).state()
    key = hash_of([store.spec_hash, joined.digest, state, as_used, dict(options)])

    def make() -> Contents:
        return {}, {"search": {"key": key, **_searched(run, requested, store, joined, options, used).state()}}

    if earlier is None or earlier["key"] != key:
        record: SearchRecord = made_once(run.work / f"map-of-labels-{key[:16]}", key, make).metadata["search"]
        earlier = record
    if isinstance(requested, AutoMap):
        choice = MapChoice.from_state(cast(MapChoiceState, earlier))
        return choice.feature_map, choice, earlier
    if learns_metric(requested):
        metric = MetricChoice.from_state(cast(MetricChoiceState, earlier))
        return with_kernel(requested, metric.kernel), metric, earlier
    search = LengthScaleSearch.from_state(cast(LengthScaleState, earlier), requested)
    return search.feature_map, search, earlier


def _searched(
    run: Run,
    requested: FeatureMap | AutoMap,
    store: FingerprintStore,
    joined: JoinedLabels,
    options: Mapping[str, object],
    used: Callable[[FeatureMap], FeatureMap],
) -> Search:
    """Search for a map, a length scale or a metric on a sample of the labels."""
    seed = int(getattr(requested, "random_state", 0))
    sample = labelled_sample(run, store, joined, _LABELS, seed)
    X, y = sample.X, sample.y

    def on_trial(words: str) -> None:
        run.progress.start(f"try {words}", 1, "maps")

    how: dict[str, Any] = {"random_state": seed, "options": options, "on_trial": on_trial, "used": used}
    if isinstance(requested, AutoMap):
        return choose_map([each for each in requested.candidates if _serves(each, used)], X, y, **how)
    if learns_metric(requested):
        folded = used(stand_in(requested))
        if type(folded) is not type(requested):
            raise InputError(
                "A metric is learned from unfolded fingerprints without descriptors; leave out --fold and "
                "--kind descriptors."
            )
        run.check(Need(here=peak("metric", {"distances and gradients": metric_bytes(len(y))})))
        return choose_metric(X, y, random_state=seed, on_trial=on_trial)
    if len(y) < FEWEST_LABELS or typical_distance(X, seed) == 0.0:
        usual = usual_length_scale(X, seed)
        return LengthScaleSearch(with_length_scale(requested, usual), usual)
    smaller = resized(requested, min(requested.n_components, _FEATURES), seed)
    return choose_length_scale(smaller, X, y, n_rows=_LABELS, **how)


def _serves(feature_map: FeatureMap, used: Callable[[FeatureMap], FeatureMap]) -> bool:
    """Return whether a map can be used on the fingerprints of the store."""
    try:
        used(stand_in(feature_map))
    except InputError:
        return False
    return True


@dataclass(frozen=True)
class LabelledSample:
    """Some labels, and the fingerprints of their molecules.

    Attributes
    ----------
    X : CSR matrix, shape (n, n_columns)
    y : float64 array, shape (n, n_targets)
    """

    X: sparse.csr_matrix
    y: npt.NDArray[np.float64]


def labelled_sample(
    run: Run, store: FingerprintStore, joined: JoinedLabels, size: int, seed: int
) -> LabelledSample:
    """Return at most `size` labels chosen at random, in the order of the labels."""
    sample, n = seeds.RandomSample(seed, "fit/sample", size), len(joined.row)
    for start in range(0, n, _WORDS_AT_ONCE):
        sample.offer(np.arange(start, min(start + _WORDS_AT_ONCE, n)))
    chosen = sample.chosen
    rows, place = np.unique(joined.row[chosen], return_inverse=True)
    n_kept, nonzeros = planned_rows(store), most_nonzeros(store)
    reading = need_of_map(max(n_kept, default=0), 0, nonzeros, compiled=False)
    run.check(Need(worker=reading, here=need_of_map(max(n_kept, default=0), len(chosen), nonzeros)))
    cuts = np.searchsorted(rows, store.row_bounds)
    pieces = {int(p): rows[cuts[p] : cuts[p + 1]] for p in np.flatnonzero(np.diff(cuts))}
    total = sum(n_kept[p] for p in pieces)
    groups = group_by_rows([(p, n_kept[p]) for p in pieces], rows_of_task(total, _READ_SECONDS, run.client))
    run.progress.start("sample", total, "rows")
    read = _Read(absolute(store.path), store.spec_hash)
    name = f"daskrf-sample-{uuid.uuid4().hex}"  # two runs may read the same library at once
    tasks = (
        Task(f"{name}-{group[0]}", ({p: pieces[p] for p in group},), sum(n_kept[p] for p in group))
        for group in groups
    )
    fingerprints: dict[int, sparse.csr_matrix] = {}
    submit(read, tasks, run.client, run.progress, lambda _, result: fingerprints.update(result))
    run.progress.finish()
    whole = sparse.vstack([fingerprints[p] for p in sorted(fingerprints)], format="csr")
    return LabelledSample(X=whole[place], y=joined.y[chosen])


@dataclass(frozen=True)
class _Read:
    """Reads some fingerprints of partitions of a store; sent with each task."""

    path: str
    spec_hash: str

    def __call__(self, pieces: dict[int, npt.NDArray[np.int64]]) -> dict[int, object]:
        """Return the fingerprints of the given rows of the library, by partition."""
        store, fingerprints = opened(FingerprintStore, self.path, self.spec_hash), {}
        with ONE_BLAS_THREAD:
            for p, rows in pieces.items():
                check_stop()
                fingerprints[p] = store.read_fingerprints(p)[positions(row_numbers(store, p), rows)]
        return fingerprints
