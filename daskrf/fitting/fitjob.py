"""The job of a fit: join the labels, choose process and kernel or map, sum, solve, and save the model."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from distributed import Client
from sklearn.base import clone

from daskrf.errors import InputError, printable
from daskrf.features import FeatureMap, default_map
from daskrf.features.featuremap import brief_state, check_feature_map, undecided
from daskrf.files.backend import backend
from daskrf.files.disk import work_folder
from daskrf.fitting.costs import need_of_labels, need_of_solve, need_of_sums
from daskrf.fitting.exactsolve import (
    need_of_exact,
    why_not_exact,
)
from daskrf.fitting.learner import prepared
from daskrf.fitting.mapsearch import Search, found_map
from daskrf.fitting.parts import PARTS, ExactSolve, FeatureSums, disk_of_sums, grouped, values_of_targets
from daskrf.gp import SparseGP, gp_for
from daskrf.gp.choice.lengthscale import LengthScaleSearch, stand_in
from daskrf.gp.choice.mapchoice import AutoMap, MapChoice
from daskrf.gp.choice.metricchoice import MetricChoice
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.priordraws import map_of
from daskrf.gp.processes.separate import SeparateGP, process_of, processes_of
from daskrf.gp.processes.weightedsum import Process
from daskrf.gp.sums.sums import precision_for
from daskrf.jobs.job import Job, Need, Run
from daskrf.jobs.memory import Making, MemoryNeed
from daskrf.jobs.pieces import Done, Pieces
from daskrf.jobs.tree import Tree
from daskrf.kernels import Kernel
from daskrf.kernels.weightedmean import kernel_on_first
from daskrf.models.directions import check_conventions, directions_of
from daskrf.models.joinedlabels import LabelFiles, labels_of, other_molecules
from daskrf.models.labelled import SMILES, smiles_array, smiles_of_rows
from daskrf.models.models import Model, read_model
from daskrf.models.rounds import identity_after, redirected, rounds_of
from daskrf.models.toolkits import toolkit_of
from daskrf.molecules import FingerprintSpec
from daskrf.quantities import amount, listed
from daskrf.sources.sources import (
    FeatureSource,
    FingerprintSource,
    Source,
    folding_words,
    making_of,
    map_for,
    open_source,
)
from daskrf.storage.differences import differences, made_with_others
from daskrf.storage.kinds import check_output, kind_of, stored_library
from daskrf.storage.labels import JoinedLabels, NoMatchError
from daskrf.storage.model import load_model, save_model
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.rowstore import write_parquet
from daskrf.storage.stores.store import hash_of
from daskrf.tables.columns import smiles_column
from daskrf.tables.measurements import Reading, keys_of, label_table, label_words, read_labels
from daskrf.tables.scanning import survey
from daskrf.tables.values.names import find_id, position_of
from daskrf.tables.values.values import Scale, is_concentration
from daskrf.workers.progress import Progress

Paths = str | os.PathLike[str]

COUNTS = ("matched", "unmatched", "repeats", "equal_repeats", "library_duplicates", "dropped", "merged")
_CLASS_LABELS = 10  # fewer labels of two values may be chance
_UNKNOWN = (
    "the SMILES of the labelled molecules were not stored, since too much of the library would have to be "
    "read for them, so that copies of these molecules cannot be left out of hits and batches; to have them, "
    "fit to a file of labels with SMILES, without the library"
)
_FEATURES = 4096  # for a named kernel where an exact process would cost too much
_DECADES = 4.0  # quantities measured on a linear scale do not span more
_FEW_DECADES = 1.5  # and a skewness hint together at a quantity that is best seen as a logarithm
_SKEWNESS = 1.5
_USUAL_P = (3.0, 12.0)  # medians of pIC50, from mM to pM


def checkable(feature_map: FeatureMap | AutoMap | None) -> FeatureMap | None:
    """Return a map in place of one that labels have to determine, wholly or its length scale."""
    if feature_map is None or isinstance(feature_map, AutoMap):
        return None if feature_map is None else feature_map.stand_in
    check_feature_map(feature_map)
    return stand_in(feature_map)


def is_open(feature_map: FeatureMap | AutoMap | None) -> bool:
    """Return whether labels have to determine the map or its length scale."""
    if feature_map is None or isinstance(feature_map, AutoMap):
        return feature_map is not None
    check_feature_map(feature_map)
    return undecided(feature_map)


@dataclass
class FitJob(Job[Any]):
    """The job of a fit; see `daskrf.jobs.job.Job`. `plan` sets `given` and the fields below it."""

    features: FeatureSource | FingerprintSource
    labels: PurePath
    reading: Reading
    output: PurePath
    fixed: dict[str, float | None]
    options: dict[str, Any]
    made: Callable[..., Any]  # makes the report
    direction: str | Mapping[str, str] | None
    exact: ExactGP | None = None
    kernel: Kernel | None = None
    auto: bool = False
    id_column: int | None = field(default=None, init=False)  # of labels whose molecules have no other names
    client: Client | None = None
    any_key: bool = False
    feature_map: FeatureMap | AutoMap | None = None
    fold: int | None = None
    confirmed: bool = False
    words: str = ""
    cautions: list[str] = field(default_factory=list)
    given: LabelFiles = field(init=False)
    parts: list[tuple[tuple[int, ...], LabelFiles]] = field(init=False)
    spec: dict[str, Any] = field(init=False)
    stored: Model | None = None
    toward: dict[str, str] = field(default_factory=dict)
    sums: Sequence[FeatureSums | ExactSolve] = ()
    found: Search | None = None
    search: dict[str, Any] | None = None

    name = "fit"

    @property
    def joined(self) -> JoinedLabels:
        """The labels of all targets."""
        return self.given.joined

    @property
    def kinds(self) -> dict[str, tuple[int, int]]:
        """The columns of each kind of fingerprint."""
        return FingerprintSpec.from_state(self.features.store.spec["fingerprint"]).columns

    @property
    def n_structural(self) -> int | None:
        """As in `FingerprintSpec`."""
        return FingerprintSpec.from_state(self.features.store.spec["fingerprint"]).n_structural

    @property
    def found_words(self) -> str:
        """What of the map the labels determined, for a report on parts of them; empty if nothing."""
        if self.found is None:
            return ""
        chosen = "map was chosen" if isinstance(self.found, MapChoice) else "length scale was found"
        return f"the {chosen} on all labels; "

    @property
    def searches(self) -> bool:
        """Whether the labels determine the kernel of an exact process, or its length scale."""
        return self.kernel is None or self.kernel.undecided

    def plan(self, run: Run) -> None:
        """Join the labels, check that there is memory for the sums, and only then fit the map."""
        check_output(self.output, "model")
        self.given = self._join(run)
        self.parts = self.given.parts()
        _check_variance(self.joined, self.fixed)
        given = directions_of(self.direction, self.joined.names)
        self.cautions += check_conventions(
            given, self.joined.scales, self.joined.y, self.labels, confirmed=self.confirmed
        )
        if self.exact is not None and self.kernel is not None and self.n_structural is not None:
            self.kernel = kernel_on_first(self.kernel, self.n_structural)
            self.exact = clone(self.exact).set_params(kernel=self.kernel)
        if self.auto and self.exact is not None:
            self._choose_process(run, self.exact)
        if self.exact is None and is_open(self.feature_map):
            self._find_map(run, cast("FeatureMap | AutoMap", self.feature_map))
        self.features = prepared(run, self.features, self.need)
        state = None if self.exact else self.features.feature_map.state()
        self.spec = _spec(self.features, state, self.joined, self.kernel)
        self.stored = _stored(self.output, self.spec, self.options)
        known = self.stored.directions if self.stored else {}
        self.toward = given or known
        if self.exact is not None:
            columns = self.kinds if self.searches else None
            self.sums = [ExactSolve(self.features, self.given, self.spec, self.exact, columns)]
            return
        if len(self.parts) == 1:
            ((targets, own),) = self.parts
            self.sums = [FeatureSums(self.features, targets, own, self.spec)]
            return
        run.progress.note(
            "Some molecules lack some targets, so each target is fitted to its own labels "
            f"({len(self.parts)} separate fits)."
        )
        self.sums = [
            FeatureSums(self.features, targets, own, _spec(self.features, state, own.joined))
            for targets, own in self.parts
        ]

    def gathering(self) -> Tree:
        """Return the tree that gathers the fingerprints of all labels, whatever the process."""
        raw = self.features if self.features.raw else open_source(self.features.store, raw=True)
        return ExactSolve(raw, self.given, self.spec, cast(ExactGP, self.exact), None).tree("double")

    def _join(self, run: Run) -> LabelFiles:
        """Return the labels at their rows of the library, joined by the first key by which any is there."""

        def check(n_labels: int, key_bytes: float) -> None:
            run.check(Need(here=need_of_labels(n_labels, key_bytes)))

        path, store, known = self.labels, self.features.store, (self.reading.key, self.reading.key_column)
        for last, (key, column) in enumerate(keys := keys_of(path, known[1]) if self.any_key else [known], 1):
            self.reading = replace(self.reading, key=key, key_column=column)
            self.words = label_words(path, self.reading)
            run.progress.note(self.words)
            try:
                found = labels_of(path, store, run.work, self.reading, check)
                for note in found.joined.notes:
                    run.progress.note(f"{note}.")
                self.cautions += found.joined.notes
                if key == "id":
                    sure = not self.any_key
                    if caution := other_molecules(path, self.reading, found.joined, store, sure=sure):
                        run.progress.note(f"{caution}.")
                        self.cautions.append(caution)
                return found
            except NoMatchError:
                if last == len(keys):
                    raise
                run.progress.note(
                    "None of these IDs is in the library, so the labels are joined by structure."
                )
        raise AssertionError("there is always a key")

    def _choose_process(self, run: Run, exact: ExactGP) -> None:
        """Take an exact process if it does not cost too much for the labels; say which, and why."""
        n_labels = len(self.joined.row)
        reason = why_not_exact(exact, making_of(self.features), n_labels)
        if not reason:
            compared = " Kernels are compared first; --quick takes the Tanimoto kernel at once."
            run.progress.note(
                f"The process is exact: {n_labels:,} labels are few enough for it (--process features takes "
                f"random features instead).{compared if self.searches else ''}"
            )
            return
        run.progress.note(f"The process has random features: for {n_labels:,} labels, {reason}.")
        seed = self.options.pop("random_state", 0)
        if self.kernel is None:
            self.feature_map = default_map().set_params(random_state=seed)
        else:
            self.feature_map = map_of(self.kernel, _FEATURES, seed)
        self.features, self.exact = open_source(self.features.store, checkable(self.feature_map)), None
        gp_for(self.features.feature_map, **self.options)

    def _find_map(self, run: Run, asked: FeatureMap | AutoMap) -> None:
        """Take the map, or the length scale of the map, that a sample of the labels determines."""
        run.check(self.need())
        known = None
        if kind_of(self.output, missing_ok=True) is not None:
            known = read_model(self.output, statistics=False).metadata.get("search")
        store = self.features.store
        spec = FingerprintSpec.from_state(store.spec["fingerprint"])
        used = functools.partial(map_for, spec=spec, fold=self.fold)
        feature_map, self.found, self.search = found_map(
            run, asked, store=store, joined=self.joined, options=self.options, used=used, known=known
        )
        self.features = open_source(self.features.store, feature_map, fold=self.fold)

    @property
    def _not_stored(self) -> Sequence[FeatureSums | ExactSolve]:
        """What the model at the output does not hold already."""
        return self.sums if self.stored is None else ()

    def need(self) -> Need:
        cut, making = grouped(self.features, self.joined), making_of(self.features)
        n_labels = sum(cut.rows)
        if self.exact is not None:
            return need_of_exact(self.exact, making, n_labels, work_folder(self.output), self.client)
        precision = precision_for(self.features.feature_map, n_labels)

        def sums(making: Making) -> MemoryNeed:
            return need_of_sums(
                making, n_labels, max(cut.rows), precision=precision, strip_bytes=cut.strip_bytes
            )

        def solve(n_components: int) -> MemoryNeed:
            smaller = replace(making, n_components=n_components)
            return need_of_solve(smaller, n_labels, n_sums=len(self.parts))

        M = making.n_components
        return Need(
            worker=making.need(sums, "components", "rows"),
            finish=replace(solve(M), smaller={"components": (M, 64, solve)}),
            disk=disk_of_sums(work_folder(self.output), made) if (made := self._not_stored) else None,
        )

    def pieces(self, run: Run) -> list[Pieces]:
        """Make nothing if the model at the output already has the sums of these labels and features."""
        if self.stored is not None:
            return [Done(len(own.cut.groups), PARTS) for own in self.sums for _ in range(own.cut.n_roots)]
        run.agree(self.spec)
        if len(self.sums) > 1:
            self.given.keep()
        return [own.tree(own.precision) for own in self.sums]

    def finish(self, run: Run, made: int) -> Any:
        """Solve, and save the model with its sums."""
        identity, stored, toward = hash_of([self.spec, self.options]), self.stored, self.toward
        if stored is not None and stored.metadata["spec_hash"] == identity_after(identity, rounds_of(stored)):
            if more := rounds_of(stored)[1:]:
                n = sum(each["labels"] for each in more)
                self.cautions.append(f"with {amount(n, 'labels')} that were added since, which stay")
            metadata = self._metadata(stored.gp)
            described = {name: metadata[name] for name in ("scales", "limits", "repeats")}
            _leave(self.output, stored, toward, described, run.progress)
            return replace(self._report(stored.gp, run.seconds), was_there=True)
        held: Sequence[Any] = [None] * len(self.sums)
        if stored is not None:
            what = "fingerprints of" if self.exact else "sums over"
            run.progress.note(f"The model at the output already holds the {what} these labels.")
            held = [stored.gp] if self.exact else [gp.statistics_ for gp in processes_of(stored.gp)]
        solved = [
            own.solve(run, sums, self._options_of(own)) for own, sums in zip(self.sums, held, strict=True)
        ]
        gp = solved[0] if len(solved) == 1 else SeparateGP(solved, [own.targets for own in self.sums])
        arrays = {**gp.arrays(), "labelled_rows": self.joined.row, "labels": self.joined.y}
        if (smiles := smiles_of_rows(self.features.store, self.joined.row)) is not None:
            arrays[SMILES] = smiles_array(smiles)
        save_model(self.output, arrays, {**self._metadata(gp), "spec_hash": identity, "directions": toward})
        run.progress.finish()
        return self._report(gp, run.seconds)

    def _options_of(self, own: FeatureSums | ExactSolve) -> dict[str, Any]:
        """Return the options of some targets, with the noise that was found together with a metric."""
        if not isinstance(self.found, MetricChoice) or self.fixed["noise_variance"] is not None:
            return self.options
        noise = self.found.noise_variances(y for _, y in values_of_targets(self.joined))
        return {**self.options, "noise_variance": noise and [noise[t] for t in own.targets]}

    def _metadata(self, gp: Process | SeparateGP) -> dict[str, Any]:
        """Return what the model stores besides its arrays; see `Model`."""
        joined, store = self.joined, self.features.store
        return {
            "gp": {**gp.state(), "feature_map": None},  # "map" holds it
            "targets": list(joined.names),
            "labels": {name: getattr(joined, name) for name in COUNTS}
            | {kind: n for kind, (n, _) in joined.unusual.items()},
            "scales": [scale.state() for scale in joined.scales],
            "limits": [limits.state() for limits in joined.limits],
            "repeats": [joined.repeats_as, self.reading.key],
            "spec": self.spec,
            "range": np.column_stack([np.nanmin(joined.y, 0), np.nanmax(joined.y, 0)]).tolist(),
            "library": store.library_hash,
            "library_path": store.library_path,
            "fingerprint": store.spec["fingerprint"],
            "fragments": store.spec["fragments"],
            "toolkit": toolkit_of(store).state(),
            "map": None if self.exact else self.features.feature_map.state(),
            "search": self.search,
            "choices": self._choices(gp),
        }

    def _choices(self, gp: Process | SeparateGP) -> list[str | None]:
        """Return what was tried and taken, in words."""
        if self.exact:
            found = (each.kernel_choice_ for each in processes_of(gp))
            return [None if choice is None else str(choice) for choice in found]
        return [str(self.found)] if self.found is not None else []

    def _report(self, gp: Process | SeparateGP, seconds: float) -> Any:
        joined = self.joined
        names = [printable(name, 60) for name in joined.names]
        solved = [(each.kernel.words(), each.words()) for each in processes_of(gp) if each.kernel]
        warnings = [] if self.exact else [*self.features.feature_map.cautions()]
        warnings += self.cautions
        warnings += [f"{name}: {caution}" for t, name in enumerate(names) for caution in gp.cautions(t)]
        warnings += [
            advice
            for t, (name, (_, y)) in enumerate(zip(names, values_of_targets(joined), strict=True))
            if (advice := _advice(name, y, joined.scales[t] if joined.scales else None))
        ]
        if SMILES not in load_model(self.output, ()).entries:
            warnings.append(_UNKNOWN)
        if getattr(gp, "jitter_", 0.0):
            warnings.append(f"a jitter of {gp.jitter_:.1e} was needed to factorize an M x M matrix")
        return self.made(
            model=self.output,
            labels=joined,
            mean=tuple(gp.mean_.tolist()),
            signal_variance=tuple(gp.signal_variance_.tolist()),
            noise_variance=tuple(gp.noise_variance_.tolist()),
            log_marginal_likelihood=tuple(
                (evidence + joined.evidence_of_means(noise)) if joined.n_further else evidence
                for evidence, noise in zip(
                    gp.log_marginal_likelihoods_.tolist(), gp.noise_variance_.tolist(), strict=True
                )
            ),
            n_components=0 if self.exact else self.features.feature_map.n_components,
            seconds=seconds,
            warnings=tuple(warnings),
            bound=tuple(
                float(own.bounds_[place]) + joined.evidence_of_means(float(own.noise_variance_[place]))
                for own, place in (process_of(gp, t) for t in range(len(names)))
                if isinstance(own, SparseGP)
            ),
            inputs=(self.words,),
            directions=tuple(self.toward.get(name) for name in joined.names),
            n_filled=None if self.exact else self.features.feature_map.n_filled,
            process="exact" if self.exact else "features",
            kernel=" and ".join(dict.fromkeys(kernel for kernel, _ in solved)),
            solved=tuple(way for _, way in solved),
            choices=tuple(each.kernel_choice_ for each in processes_of(gp)) if self.exact else (),
            folded=folding_words(self.features),
            length_scale=self.found if isinstance(self.found, LengthScaleSearch) else None,
            map_choice=self.found if isinstance(self.found, MapChoice) else None,
            metric=self.found if isinstance(self.found, MetricChoice) else None,
        )


@dataclass
class FitAloneJob(FitJob):
    """The job of a fit to labels that bring their own SMILES, which become a library of their own."""

    fingerprint: Callable[..., Any] = field(kw_only=True)  # the command
    counted: FingerprintSpec | None = None

    def plan(self, run: Run) -> None:
        """Fingerprint the molecules of the labels in the folder of unfinished work."""
        check_output(self.output, "model")
        path, column = self.labels, self.reading.key_column
        head = label_table(path, self.reading.key)
        names = head.names
        given = None if column is None else position_of(path, column, names, len(names))
        smiles = smiles_column(path, head, given)
        self.reading = replace(self.reading, key_column=smiles)
        self.id_column = find_id(names, head.values, (smiles,), head.title) if names else None
        run.check(Need(here=need_of_labels(survey(path, head.table)[2])))
        keys = read_labels(path, self.reading).keys
        table, folder = run.work / "molecules.parquet", run.work / "molecules"
        backend(run.work).make(run.work)
        with backend(table).writing(table) as staged:
            write_parquet(pa.table({"smiles": keys}), staged)
        made = self.fingerprint(table, folder, spec=self.counted, accept_rejects=True, client=self.client)
        left = ""
        if made.rejected:
            first = next(self._rejects(folder))
            left = (
                f"{made.rejected:,} of the {amount(made.rows, 'molecules')} cannot be used, such as "
                f"{first['text']!r} ({first['reason']})"
            )
            if 2 * made.rejected > made.rows:
                raise InputError(f"{path}: {left}; name the column of the SMILES with --key-column")
            left = f"; {left}, and their labels are left out"
        raw = self.exact is not None
        self.features = open_source(
            stored_library(folder), checkable(self.feature_map), raw=raw, fold=self.fold
        )
        if self.exact is None:
            gp_for(self.features.feature_map, **self.options)
        super().plan(run)
        self.words += left
        if left:
            run.progress.note(f"{left[2:]}.")

    @staticmethod
    def _rejects(folder: PurePath) -> Iterator[dict[str, Any]]:
        store = FingerprintStore.open(folder)
        for partition in range(store.n_partitions):
            yield from store.read_rejects(partition).to_pylist()


def _leave(
    output: PurePath,
    stored: Model,
    directions: dict[str, str],
    described: dict[str, Any],
    progress: Progress,
) -> None:
    """Leave a model as it is, except for what it says of its targets, if that is other than before."""
    progress.note(f"{output} already holds exactly this model.")
    if directions != stored.directions or any(
        stored.metadata.get(name) != value for name, value in described.items()
    ):
        found = load_model(output)
        metadata = {**found.metadata, **described}
        save_model(output, found.arrays, redirected(metadata, found.arrays["labels"], directions))
    if directions != stored.directions:
        said = ", ".join(f"{direction} '{name}'" for name, direction in directions.items())
        progress.note(f"The directions of {output} were changed: {printable(said)}.")


def _spec(
    features: Source, state: dict[str, Any] | None, joined: JoinedLabels, kernel: Kernel | None = None
) -> dict[str, Any]:
    """Return what the sums depend on; for an exact process, its fingerprints and kernel."""
    own = {"process": "exact", "kernel": None if kernel is None else kernel.state()}
    return {
        "source": features.spec_hash,
        **({"map": brief_state(state)} if state else own),
        "targets": list(joined.names),
        "rows": len(joined.row),
        "labels": joined.digest,
    }


def _check_variance(joined: JoinedLabels, fixed: dict[str, float | None]) -> None:
    """Refuse labels from which the variances cannot be fitted."""
    lost, n_labels = joined.unmatched, joined.matched + joined.unmatched
    for name, y in values_of_targets(joined):
        if None in (fixed["signal_variance"], fixed["noise_variance"]) and y.min() == y.max():
            if lost:
                raise InputError(
                    f"{lost:,} of the {n_labels:,} labels are not in the library (such as "
                    f"{listed(joined.unmatched_keys)}), and the values of {name} that are left are all the "
                    f"same ({y[0]:g}): choose another key (--key, key) or its column, or another library."
                )
            raise InputError(
                f"All labels of {name} are the same ({y[0]:g}), so signal and noise variance cannot be "
                "fitted: give labels that differ, or both --signal-variance and --noise-variance."
            )


def _stored(output: PurePath, spec: dict[str, Any], options: dict[str, Any]) -> Model | None:
    """Return an earlier model of the same labels and features, or None. Refuse any other model.

    A model of these options to which labels were added since is the same.
    """
    if kind_of(output, missing_ok=True) is None:
        return None
    found = read_model(output)
    if found.metadata["spec_hash"] == identity_after(hash_of([spec, options]), rounds_of(found)):
        return found
    if found.metadata["spec"] != spec:
        raise made_with_others(output, differences(found.metadata["spec"], spec))
    return found


def _advice(name: str, y: npt.NDArray[np.float64], scale: Scale | None) -> str:
    """Return advice on labels that do not suit a Gaussian process, or nothing."""
    low, high = float(y.min()), float(y.max())
    whole = low.is_integer() and high.is_integer() and len(y) >= _CLASS_LABELS
    if whole and low < high and bool(((y == low) | (y == high)).all()):
        return (
            f"{name}: all {len(y):,} labels are {low:g} or {high:g}; a Gaussian process regresses such "
            "classes, so read its predictions as scores, not as probabilities"
        )
    if scale is not None and scale.is_p and not _USUAL_P[0] <= (middle := float(np.median(y))) <= _USUAL_P[1]:
        return (
            f"{name}: the median is {middle:.1f}, which is {10 ** (9 - middle):.2g} nM and unusual; check "
            f"the unit ({scale.unit or scale.units}), or give it with --unit"
        )
    above = y[y > 0]
    if low < 0 or high <= 0 or (scale is not None and scale.transform):
        return ""
    decades, unit = math.log10(high / (low := float(above.min()))), scale.unit if scale else ""
    concentrations = is_concentration(name, unit)
    if (
        decades > _DECADES
        or (decades > 1 and concentrations)
        or (decades > _FEW_DECADES and _is_skewed(above))
    ):
        return (
            f"{name}: labels span {decades:.1f} decades, from {low:g} to {high:g}; fit their logarithm "
            f"instead, for example with --transform pIC50 --unit {unit or 'nM'} for concentrations, or with "
            "--transform log10"
        )
    return ""


def _is_skewed(y: npt.NDArray[np.float64]) -> bool:
    """Return whether positive values have a long tail, and their logarithms a much shorter one."""

    def skewness(values: npt.NDArray[np.float64]) -> float:
        centred = values - values.mean()
        return abs(float((centred**3).mean() / (centred**2).mean() ** 1.5))

    return len(y) >= _CLASS_LABELS and skewness(y) > max(_SKEWNESS, 2 * skewness(np.log(y)))
