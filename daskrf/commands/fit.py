"""Labels + features -> model: one pass over the labelled rows, a tree of sums, one solve."""

from __future__ import annotations

import functools
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from distributed import Client

from daskrf.errors import InputError, StoreError, printable
from daskrf.features import FeatureMap
from daskrf.features.base import brief_state, map_key
from daskrf.gp import SparseGP, choose_exponent, gp_for
from daskrf.gp.process import FeatureSpaceGP
from daskrf.gp.roundoff import CoarseSumsError
from daskrf.gp.separate import SeparateGP, process_of, processes_of
from daskrf.gp.statistics import Precision
from daskrf.gp.sums import STRIP_BYTES, Statistics, Summation, precision_for, strip_columns
from daskrf.jobs import memory
from daskrf.jobs.directions import directions_of
from daskrf.jobs.fitneeds import Groups, check_eigen, check_fit, check_labels, check_partials
from daskrf.jobs.folding import fold, fold_share, remove_checkpoints
from daskrf.jobs.labelling import LabelFiles, kept_arrays, labels_of
from daskrf.jobs.models import Model, read_model
from daskrf.jobs.partitions import group_by_rows
from daskrf.jobs.preparing import Planned, prepared
from daskrf.jobs.progress import Progress, watched
from daskrf.jobs.shards import PLAN, Pieces, Shard, ShardReport, Share, agree
from daskrf.jobs.sources import (
    Block,
    FeatureSource,
    FingerprintSource,
    Source,
    gathered,
    open_source,
    rows_store,
)
from daskrf.jobs.strips import held_bits, sum_in_strips, trees
from daskrf.molecules.measurements import label_words
from daskrf.paths import as_path
from daskrf.storage.checked import believed
from daskrf.storage.files import work_folder
from daskrf.storage.fingerprints import FingerprintStore
from daskrf.storage.inspect import kind_of
from daskrf.storage.labels import JoinedLabels
from daskrf.storage.model import load_model, save_model
from daskrf.storage.plans import differences, hash_of

__all__ = ["FitReport", "fit"]

COUNTS = ("matched", "unmatched", "repeats", "equal_repeats", "library_duplicates", "dropped")

_GROUP_ROWS = (8_192, 1 << 20)  # labelled rows a task folds: few checkpoints, yet work for 1,000 cores
_STRIP_BYTES = STRIP_BYTES
_CLASS_LABELS = 10  # fewer labels of two values may be chance
_DECADES = 4.0  # more are not spanned by what is measured on a linear scale


@dataclass(frozen=True)
class FitReport:
    """What `fit` found.

    Attributes
    ----------
    model : Path
    labels : JoinedLabels
        Rows and labels that the model was fitted to, and the counts of those that it was not.
    mean, amplitude, noise, log_marginal_likelihood : tuple of float
        One each a target.
    n_components : int
    seconds : float
    warnings : tuple of str
    bound : tuple of float
        Of a map of landmarks: Titsias' lower bound of the exact evidence, one each a target; else empty.
    inputs : tuple of str
        How the labels were read.
    directions : tuple of str or None
        Whether to "maximize" or to "minimize" each target, where that was said.
    """

    model: Path
    labels: JoinedLabels
    mean: tuple[float, ...]
    amplitude: tuple[float, ...]
    noise: tuple[float, ...]
    log_marginal_likelihood: tuple[float, ...]
    n_components: int
    seconds: float
    warnings: tuple[str, ...] = ()
    bound: tuple[float, ...] = ()
    inputs: tuple[str, ...] = ()
    directions: tuple[str | None, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"model of {self.labels.n_molecules:,} labelled molecules, {self.n_components:,} features, in "
            f"{self.model} ({self.seconds:.1f} s)",
            *(f"  {words}" for words in self.inputs),
            f"  {self.labels}",
        ]
        for t, name in enumerate(printable(name, 60) for name in self.labels.names):
            toward = f" (to {self.directions[t]})" if self.directions and self.directions[t] else ""
            bound = f", bound {self.bound[t]:,.1f}" if self.bound else ""
            lines.append(
                f"  {name}{toward}: mean {self.mean[t]:.4g}, signal std {self.amplitude[t] ** 0.5:.3g}, "
                f"noise std {self.noise[t] ** 0.5:.3g}, "
                f"log marginal likelihood {self.log_marginal_likelihood[t]:,.1f}{bound}"
            )
        return "\n".join([*lines, *(f"  {warning}" for warning in self.warnings)])


@watched
def fit(
    source: str | os.PathLike[str],
    labels: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    feature_map: FeatureMap | None = None,
    key: str = "id",
    key_column: str | int | None = None,
    targets: Sequence[str | int] | None = None,
    drop_non_finite: bool = False,
    mean: float | None = None,
    amplitude: float | None = None,
    noise: float | None = None,
    direction: str | Mapping[str, str] | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
    shard: Shard | str | None = None,
    prepare: bool = False,
    **model_options: Any,
) -> FitReport | ShardReport:
    """Fit a Gaussian process to the labelled molecules of a library; a second run goes on where one ended.

    Parameters
    ----------
    source : path
        A feature store, or a fingerprint store with `feature_map` (features are then not stored; above
        M = 8,192 a dense map then makes them once for each strip of the sums and once more: featurize first).
    labels : path
        CSV, TSV or Parquet with a key and one or more targets.
    output : path
        Directory of the model.
    feature_map : FeatureMap, optional
        For a fingerprint store; default: `daskrf.features.default_map()`. One that learns from the library
        and is not fitted yet is fitted to the store first, as by `fit_map`. The model is the one that the map
        names (`FeatureMap.process`), mostly `daskrf.gp.RandomFeatureGP`.
    key : {"id", "smiles", "row"}
        What of a library row the key column of `labels` names.
    key_column : str or int, optional
        Column of `labels` with the keys; default: the one named like `key`, or the first.
    targets : sequence of str or int, optional
        Columns of `labels`; default: its only other column of numbers.
    drop_non_finite : bool
        Drop labels that are not finite instead of refusing them.
    mean, amplitude, noise : float, optional
        Hyperparameters to keep fixed; default: those of the greatest evidence on all labelled rows.
    direction : {"maximize", "minimize"}, or dict of str to these, optional
        Whether large or small values are good, of all targets or by their names: what `screen` takes unless
        it is told otherwise. It changes nothing else, and may be said, or changed, of a model that is there.
    client : distributed.Client, optional
        Where sums are made; default: this process, which also solves in any case.
    progress : Progress, optional
    shard : Shard or str, optional
        ``"i/n"``: make only every n-th part of the sum, from the i-th on, here and without a client. Shards
        run at the same time on any hosts; a last call without `shard` makes what is missing, and solves.
    prepare : bool
        Only join the labels, and fit the map if it learns, so that shards start at once.
    **model_options
        What only the model of that map has: `criterion` of `daskrf.gp.SparseGP`, `rows` and `residual` of
        `daskrf.gp.LocalGaussianGP`. Other values than those of the model at `output` need no further pass
        over the library.

    Returns
    -------
    FitReport, or ShardReport with `shard` or `prepare`

    Raises
    ------
    InputError
        If labels cannot be read or match nothing, or have no variance.
    StoreError
        If `output` holds a model of other labels or features.
    MemoryLimitError
        If M x M statistics do not fit.
    """
    start, here = time.monotonic(), memory.libraries_of(None)
    progress = progress or Progress()
    fixed: dict[str, Any] = {"mean": mean, "amplitude": amplitude, "noise": noise}
    share, output = Share.of(shard, prepare, client), as_path(output)
    options = _checked(fixed, **model_options)
    features = open_source(source, feature_map)
    gp_for(features.feature_map, **options)  # refuses options that are not of its model, before the labels
    progress.note(words := label_words(labels, key, key_column, targets))
    with share.lock(output, "fit", progress):
        columns = (key, key_column, targets, drop_non_finite)
        store, folder = rows_store(features), work_folder(output)
        given = labels_of(labels, store, folder, *columns, check=check_labels(here))
        joined, parts = given.joined, given.parts()
        _check_variance(joined, fixed)
        need: dict[str, Any] = {"solves": share.whole, "n_sums": len(parts)}
        features = _learned(features, joined, output, client, here, need, progress)
        state = features.feature_map.state()
        spec = _spec(features, state, joined)
        identity = hash_of([spec, options])
        stored = _stored(output, spec)
        sums = _sums(features, state, parts, spec, progress)
        if stored is None:
            _begin(sums, share, given, output, spec)
        if not share.whole:
            pieces = _pieces(sums, share, done=stored is not None)
            return share.report(output, "parts of the sum", pieces, start)
        toward = directions_of(direction, joined.names) or (stored.directions if stored else {})
        if stored is not None and stored.metadata["spec_hash"] == identity:
            _leave(output, stored, toward, progress)
            return _report(output, stored.gp, features.feature_map, joined, toward, words, start)
        gp = _fitted(sums, stored, options, client)
        metadata = _metadata(gp, joined, spec, store, state)
        _save(output, gp, joined, {**metadata, "spec_hash": identity, "directions": toward})
        progress.finish()
    return _report(output, gp, features.feature_map, joined, toward, words, start)


def _save(
    output: Path, gp: FeatureSpaceGP | SeparateGP, joined: JoinedLabels, metadata: dict[str, Any]
) -> None:
    """Write a model; the sums that it was made from are in it."""
    save_model(output, {**gp.arrays(), "labelled_rows": joined.row, "labels": joined.y}, metadata)
    remove_checkpoints(work_folder(output))


def _leave(output: Path, stored: Model, directions: dict[str, str], progress: Progress) -> None:
    """Leave a model as it is, but for its directions where other ones are asked for."""
    progress.note(f"{output} holds this very model already.")
    if directions != stored.directions:
        found = load_model(output)
        save_model(output, found.arrays, {**found.metadata, "directions": directions})
        said = ", ".join(f"{direction} '{name}'" for name, direction in directions.items())
        progress.note(f"The directions of {output} were changed: {printable(said)}.")
    remove_checkpoints(work_folder(output))  # of a run that was killed when the model was written


def _fitted(
    sums: Sequence[_Sums],
    stored: Model | None,
    options: dict[str, Any],
    client: Client | None,
) -> FeatureSpaceGP | SeparateGP:
    """Return the model of all targets, from the sums of the model that is there or from new ones."""
    held: Sequence[Statistics | None] = [None] * len(sums)
    if stored is not None:
        sums[0].progress.note("The model that is there holds the sums over these labels already.")
        held = [gp.statistics_ for gp in processes_of(stored.gp)]  # it was read with them
    solved = [own.solve(statistics, options, client) for own, statistics in zip(sums, held, strict=True)]
    return solved[0] if len(sums) == 1 else SeparateGP(solved, [own.targets for own in sums])


def _learned(
    features: FeatureSource | FingerprintSource,
    joined: JoinedLabels,
    output: Path,
    client: Client | None,
    here: int,
    need: dict[str, Any],
    progress: Progress,
) -> FeatureSource | FingerprintSource:
    """Return the source with its map fitted, once it is known that there is memory for the sums."""
    check_fit(features, _grouped(features, joined), client, here, **need)
    fitted = prepared(
        features, work_folder(output), planned=_planned(output), client=client, progress=progress
    )
    if fitted != features:  # the size of its tables may be known only now
        check_fit(fitted, _grouped(fitted, joined), client, here, **need)
    return fitted


def _metadata(
    gp: FeatureSpaceGP | SeparateGP,
    joined: JoinedLabels,
    spec: dict[str, Any],
    store: FingerprintStore,
    state: dict[str, Any],
) -> dict[str, Any]:
    """Return what is known of the model beside its arrays; see `Model`."""
    return {
        "gp": {**gp.state(), "feature_map": None},  # "map" holds it
        "targets": list(joined.names),
        "labels": {name: getattr(joined, name) for name in COUNTS},
        "spec": spec,
        "range": np.column_stack([np.nanmin(joined.y, 0), np.nanmax(joined.y, 0)]).tolist(),
        "library": store.spec_hash,
        "library_path": str(store.path.resolve()),
        "fingerprint": store.spec["fingerprint"],
        "fragments": store.spec["fragments"],
        "map": state,
    }


def _planned(output: Path) -> Planned | None:
    """Return what a model at `output` is made from, and by which map, if there is one."""
    if kind_of(output, missing_ok=True) != "model":
        return None
    metadata = load_model(output, names=[]).metadata
    with believed(output):
        return Planned(output, metadata["spec"]["source"], metadata["map"])


def _spec(features: Source, state: dict[str, Any], joined: JoinedLabels) -> dict[str, Any]:
    """Return what the sums depend on."""
    return {
        "source": features.spec_hash,
        "map": brief_state(state),
        "targets": list(joined.names),
        "rows": len(joined.row),
        "labels": joined.digest,
    }


def _checked(fixed: dict[str, float | None], **own: Any) -> dict[str, Any]:
    """Return the options of a model: `fixed`, and of `own`, which only some models have, what is given.

    Refuse, before the pass over the library, values of `fixed` that the solve after it would refuse.
    """
    for name, value in fixed.items():
        if value is not None and not (math.isfinite(value) and (value > 0 or name == "mean")):
            what = "finite" if name == "mean" else "positive"
            raise InputError(f"The {name} must be {what}, not {value}; leave it out to have it found.")
    return fixed | {name: value for name, value in own.items() if value is not None}


def _check_variance(joined: JoinedLabels, fixed: dict[str, float | None]) -> None:
    """Refuse labels that tell nothing of what is to be found."""
    for name, y in _values(joined):
        if None in (fixed["amplitude"], fixed["noise"]) and y.min() == y.max():
            raise InputError(
                f"The {len(y):,} labels of {name} are without variance, so that no hyperparameters can be "
                "found; give labels that differ, or fix both amplitude and noise."
            )


def _values(joined: JoinedLabels) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    """Yield name and values of each target."""
    for name, y in zip(joined.names, joined.y.T, strict=True):
        yield name, y[np.isfinite(y)]


def _stored(output: Path, spec: dict[str, Any]) -> Model | None:
    """Return an earlier model of the same labels and features, or None; refuse a model of anything else."""
    if kind_of(output, missing_ok=True) is None:
        return None
    found = read_model(output)
    if found.metadata["spec"] != spec:
        raise StoreError(
            f"{output} holds a model of something else: {differences(found.metadata['spec'], spec)}; "
            "give another output path."
        )
    return found


def _grouped(features: Source, joined: JoinedLabels) -> Groups:
    """Cut the labelled rows into groups, by a rule that knows nothing of workers or shards."""
    bounds = np.concatenate([[0], np.cumsum(features.partition_rows)])
    labelled = np.diff(np.searchsorted(joined.row, bounds))
    smallest, largest = _GROUP_ROWS
    # A partition is decoded for however few labels, at about a 20th of the cost of all its features.
    weight = labelled + np.asarray(features.partition_rows) // 20
    target = min(largest, max(smallest, int(weight[labelled > 0].sum()) // 1024))
    n_components = features.feature_map.n_components
    whole = [(0, n_components)]
    columns = whole if features.feature_map.in_blocks else strip_columns(n_components, _STRIP_BYTES)
    if len(columns) > 1:  # partial sums are large, and the bits of a group are held
        target = min(max(target, 2 * smallest), memory.held_rows(n_components))
    groups = group_by_rows([(int(p), int(weight[p])) for p in np.flatnonzero(labelled)], target)
    rows = [int(sum(labelled[p] for p in group)) for group in groups]
    return Groups(groups, rows, list(columns), _STRIP_BYTES)


@dataclass(frozen=True)
class _Sums:
    """The sums over one set of labelled rows, which serve the targets that have a value in each of them."""

    features: Source
    targets: tuple[int, ...]
    given: LabelFiles
    spec: dict[str, Any]
    progress: Progress

    @property
    def directory(self) -> Path:
        """Where the labels, the partial sums and what else they need are kept."""
        return self.given.folder.parent

    @functools.cached_property
    def cut(self) -> Groups:
        """How the sums are cut."""
        return _grouped(self.features, self.given.joined)

    @property
    def precision(self) -> Precision:
        """In which the sums are made first; see `solve`."""
        return precision_for(self.features.feature_map, len(self.given.joined.row))

    def solve(
        self, statistics: Statistics | None, options: dict[str, Any], client: Client | None
    ) -> FeatureSpaceGP:
        """Return the model of the targets; where rounding of its sums could change it, of more precise sums.

        Where there are no `statistics` yet, they are made.
        """
        feature_map = self.features.feature_map
        gp = gp_for(feature_map, **options)

        def fit(statistics: Statistics) -> None:
            self.progress.start("solve", 1, "models")
            gp.fit_statistics(statistics, feature_map, before_eigen=lambda: check_eigen(gp.feature_map_))
            self.progress.advance(1)

        if statistics is None:
            statistics = self.made(self.precision, client)
        try:
            fit(statistics)
        except CoarseSumsError:
            self.progress.note(
                "These labels have so little noise that sums are made again, in double precision."
            )
            fit(self.made("double", client))
        return gp

    def made(self, precision: Precision, client: Client | None) -> Statistics:
        """Return the sufficient statistics of all labelled rows."""
        cut, key = self.cut, hash_of([self.spec, precision])
        rows = self._reduction(len(cut.columns), precision)
        tree = (cut.groups, cut.rows, self.directory, key)
        found: Any
        if cut.n_trees > 1:
            found = sum_in_strips(rows, cut.columns, *tree, client=client, progress=self.progress)
        else:
            found = fold(rows, *tree, client=client, progress=self.progress)
        if found.n != (n := len(self.given.joined.row)):
            raise StoreError(
                f"The sums in {self.directory} are of {found.n} rows, not {n}; delete it and fit again."
            )
        return cast(Statistics, found)

    def make_share(self, share: Share, *, done: bool) -> Pieces:
        """Make a shard's leaves of the trees of `made`, unless the sum is `done`."""
        cut, key = self.cut, hash_of([self.spec, self.precision])
        pieces, directory = Pieces(0, 0, 0, 0), self.directory
        if done:
            return sum((share.pieces(len(cut.groups)) for _ in range(cut.n_trees)), pieces)
        rows = self._reduction(len(cut.columns), self.precision)
        work = trees(rows, cut.columns, directory, key) if cut.n_trees > 1 else iter([(rows, directory, key)])
        for reduction, tree, tree_key in work:
            pieces += fold_share(
                share, reduction, cut.groups, cut.rows, tree, tree_key, progress=self.progress
            )
        return pieces

    def _reduction(self, strips: int, precision: Precision) -> FitFold:
        """Return what sums a group; the labels and the map are left in files for all tasks."""
        self.given.keep()
        y = self.given.joined.y
        return FitFold(
            self.features.carried(self.directory),
            str(self.given.folder.resolve()),
            y.shape[1],
            tuple(int(e) for e in choose_exponent(y)) if self.features.bits else None,
            hash_of(self.spec),
            map_key(self.features.feature_map.state()),
            precision,
            strips,
        )


def _sums(
    features: Source,
    state: dict[str, Any],
    parts: Sequence[tuple[tuple[int, ...], LabelFiles]],
    spec: dict[str, Any],
    progress: Progress,
) -> list[_Sums]:
    """Return the sums of each set of labelled rows."""
    if len(parts) == 1:
        return [_Sums(features, *parts[0], spec, progress)]
    progress.note(
        "Not every molecule has every target, so that each target is fitted to its own labels "
        f"({len(parts)} separate fits)."
    )
    return [
        _Sums(features, targets, own, _spec(features, state, own.joined), progress) for targets, own in parts
    ]


def _begin(
    sums: Sequence[_Sums], share: Share, given: LabelFiles, output: Path, spec: dict[str, Any]
) -> None:
    """Agree with the other shares of the job; keep the labels of all targets where sums are of some."""
    for own in sums:
        check_partials(own.directory, own.features, own.cut, share)
    agree(share, work_folder(output) / PLAN, spec)
    if len(sums) > 1:
        given.keep()


def _pieces(sums: Sequence[_Sums], share: Share, *, done: bool) -> Pieces:
    """Make a shard's part of all sums, unless they are `done`."""
    return sum((own.make_share(share, done=done) for own in sums), Pieces(0, 0, 0, 0))


@functools.lru_cache(maxsize=4)
def _labels(directory: str, key: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    return kept_arrays(as_path(directory))


@dataclass(frozen=True)
class FitFold:
    """Sums over the labelled rows of partitions; see `daskrf.jobs.folding`."""

    source: Source
    labels: str
    n_targets: int
    exponents: tuple[int, ...] | None
    key: str
    map_key: str
    precision: Precision
    strips: int = 1
    name: str = "fit"

    def from_partitions(self, partitions: Sequence[int]) -> Statistics:
        """See `Fold`."""
        _, y = _labels(self.labels, self.key)
        feature_map = self.source.feature_map
        statistics = Summation.of_map(
            feature_map,
            self.n_targets,
            map_key=self.map_key,
            one_bit=self.source.bits,
            y_exponents=self.exponents,
            precision=self.precision,
            gram=self.strips == 1,
        ).zero()
        for block in self.blocks(partitions):
            statistics.update(block.phi, y[block.rows], block.diagonal)
            del block  # before the next one is made
        return statistics

    def blocks(self, partitions: Sequence[int]) -> Iterator[Block]:
        """Yield the features of the labels of partitions; bits for several strips are made once.

        The rows of the blocks are those of the labels, among all labels, not of the library.
        """
        made = functools.partial(self._made, partitions)
        if self.strips > 1 and self.source.bits and isinstance(self.source, FingerprintSource):
            key = hash_of([self.key, self.map_key, list(partitions)])
            yield held_bits(as_path(self.labels).parent / f"bits-{partitions[0]:08d}", key, made)
        else:
            rows_at_once = memory.block_rows(self.source.feature_map.n_components, one_bit=self.source.bits)
            yield from gathered(made(), rows_at_once)

    def _made(self, partitions: Sequence[int]) -> Iterator[Block]:
        """Yield the features of the labels of partitions as the source makes them."""
        rows, _ = _labels(self.labels, self.key)
        bounds = np.concatenate([[0], np.cumsum(self.source.partition_rows)])
        for p in partitions:
            low, high = np.searchsorted(rows, bounds[p : p + 2])
            own = np.asarray(rows[low:high])
            for block in self.source.blocks(p, np.unique(own)):
                yield from of_labels(block, own, int(low))
                del block  # before the next one is made

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Statistics:
        """See `Fold`."""
        return Summation.restore(arrays)


def of_labels(block: Block, rows: npt.NDArray[np.int64], first: int) -> Iterator[Block]:
    """Yield the features of each label: those of its molecule, as often as the sorted `rows` have it.

    Blocks are of no more rows than `block`; `first` is the number of the first label.
    """
    starts, stops = (np.searchsorted(rows, block.rows, side=side) for side in ("left", "right"))
    if (times := stops - starts).max(initial=0) <= 1:
        yield replace(block, rows=first + starts)
        return
    which = np.repeat(np.arange(len(times)), times)
    labels = first + np.arange(len(which)) + np.repeat(starts - np.cumsum(times) + times, times)
    for start in range(0, len(which), len(times)):
        own = slice(start, start + len(times))
        yield replace(block.where(which[own]), rows=labels[own])


def _advice(name: str, y: npt.NDArray[np.float64]) -> str:
    """Return what to say of labels that a Gaussian process is not made for, or nothing."""
    low, high = float(y.min()), float(y.max())
    whole = low.is_integer() and high.is_integer() and len(y) >= _CLASS_LABELS
    if whole and low < high and bool(((y == low) | (y == high)).all()):
        return (
            f"{name}: all {len(y):,} labels are {low:g} or {high:g}; a Gaussian process regresses such "
            "classes, so read its predictions as scores, not as probabilities"
        )
    above = y[y > 0]
    if low >= 0 and high > 0 and (decades := math.log10(high / (low := float(above.min())))) > _DECADES:
        return (
            f"{name}: labels span {decades:.1f} decades, from {low:g} to {high:g}; fit their logarithm "
            "instead, such as pIC50 = 9 - log10(IC50 in nM)"
        )
    return ""


def _report(
    output: Path,
    gp: FeatureSpaceGP | SeparateGP,
    feature_map: FeatureMap,
    joined: JoinedLabels,
    directions: dict[str, str],
    words: str,
    start: float,
) -> FitReport:
    names = [printable(name, 60) for name in joined.names]
    warnings = [*feature_map.cautions()]
    warnings += [f"{name}: {caution}" for t, name in enumerate(names) for caution in gp.cautions(t)]
    warnings += [
        advice for name, (_, y) in zip(names, _values(joined), strict=True) if (advice := _advice(name, y))
    ]
    if gp.jitter_:
        warnings.append(f"a jitter of {gp.jitter_:.1e} was needed to factorize an M x M matrix")
    return FitReport(
        output,
        joined,
        tuple(gp.mean_.tolist()),
        tuple(gp.amplitude_.tolist()),
        tuple(gp.noise_.tolist()),
        tuple(gp.log_marginal_likelihoods_.tolist()),
        len(gp.weights_),
        time.monotonic() - start,
        tuple(warnings),
        tuple(
            float(own.bounds_[place])
            for own, place in (process_of(gp, t) for t in range(len(names)))
            if isinstance(own, SparseGP)
        ),
        (words,),
        tuple(directions.get(name) for name in joined.names),
    )
