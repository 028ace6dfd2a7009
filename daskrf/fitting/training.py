"""The inputs of a fit: labels joined to molecules, and the kernel or map to fit."""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import cast

import numpy as np
from distributed import Client

from daskrf.errors import InputError, OptionError, printable
from daskrf.estimators import clone
from daskrf.features import FeatureMap, default_map
from daskrf.features.featuremap import brief_state, check_feature_map, undecided
from daskrf.files.disk import work_folder
from daskrf.fitting.costs import need_of_labels, need_of_solve, need_of_sums
from daskrf.fitting.exactsolve import (
    need_of_exact,
    why_not_exact,
)
from daskrf.fitting.jointtargets import why_separate
from daskrf.fitting.learner import prepared
from daskrf.fitting.mapsearch import Search, found_map
from daskrf.fitting.parts import ExactSolve, FeatureSums, disk_of_sums, grouped, values_of_targets
from daskrf.gp import gp_for
from daskrf.gp.choice.lengthscale import stand_in
from daskrf.gp.choice.mapchoice import AutoMap, MapChoice
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.priordraws import map_of
from daskrf.gp.processes.processes import PROCESSES, ProcessOptions
from daskrf.gp.sums.sums import precision_for
from daskrf.jobs.job import Need, Run
from daskrf.jobs.memory import Making, MemoryNeed
from daskrf.jobs.tree import Tree
from daskrf.kernels import Kernel
from daskrf.kernels.weightedmean import kernel_on_first
from daskrf.measurements import Reading, keys_of, label_words
from daskrf.models.directions import check_conventions, directions_of
from daskrf.models.joinedlabels import LabelFiles, labels_of, other_molecules
from daskrf.models.models import read_model
from daskrf.molecules import FingerprintSpec
from daskrf.quantities import amount, listed
from daskrf.sources.sources import (
    FeatureSource,
    FingerprintSource,
    making_of,
    map_for,
    open_source,
)
from daskrf.storage.kinds import check_output, kind_of
from daskrf.storage.labels import JoinedLabels, NoMatchError
from daskrf.storage.modelmetadata import ModelSpec, ProcessSpec, SearchRecord
from daskrf.storage.stores.store import hash_of

Paths = str | os.PathLike[str]

_FEATURES = 4096  # for a named kernel, if an exact process would cost too much


def checkable(feature_map: FeatureMap | AutoMap | None) -> FeatureMap | None:
    """Return a stand-in, for checks, for a map that labels have still to determine, or its length scale."""
    if feature_map is None or isinstance(feature_map, AutoMap):
        return None if feature_map is None else feature_map.stand_in
    check_feature_map(feature_map)
    return stand_in(feature_map)


def is_open(feature_map: FeatureMap | AutoMap | None) -> bool:
    """Return whether labels have still to determine the map or its length scale."""
    if feature_map is None or isinstance(feature_map, AutoMap):
        return feature_map is not None
    check_feature_map(feature_map)
    return undecided(feature_map)


@dataclass(frozen=True, kw_only=True)
class FitRequest:
    """What `fit` and `evaluate` ask for.

    Attributes
    ----------
    output : Path
        Of the model.
    reading : Reading
        How labels are read.
    any_key : bool
        Whether labels may be joined by a key other than that of `reading`.
    poses : bool
        Whether the best of several scores of a molecule counts, if they are those of poses.
    fixed : dict of str to (float or None)
        Mean and variances; None: fitted.
    options : dict
        Of the process, `fixed` among them.
    direction : str, dict or None
        As in `fit`.
    confirmed : bool
        Whether the user confirmed a direction that contradicts what is known of the target.
    exact : ExactGP or None
        The process, not fitted yet; None: one in feature space.
    kernel : Kernel or None
        Of an exact process; None: chosen.
    auto : bool
        Whether random features may replace an exact process.
    feature_map : FeatureMap, AutoMap or None
    fold : int or None
        As in `fit`.
    client : Client or None
    together : bool or None
        Whether several targets of an exact process are modelled together; None: by the evidence.
    """

    output: PurePath
    reading: Reading
    any_key: bool = False
    poses: bool = False
    fixed: Mapping[str, float | None]
    options: ProcessOptions
    direction: str | Mapping[str, str] | None = None
    confirmed: bool = False
    exact: ExactGP | None = None
    kernel: Kernel | None = None
    auto: bool = False
    feature_map: FeatureMap | AutoMap | None = None
    fold: int | None = None
    client: Client | None = None
    together: bool | None = None


@dataclass(frozen=True)
class TrainingRows:
    """The molecules that labels belong to, as rows of features or fingerprints.

    Attributes
    ----------
    features : FeatureSource or FingerprintSource
    reading : Reading
        How their labels are read.
    id_column : int or None
        Column of IDs in the labels, if the molecules have no other names.
    note : str
        What was left out.
    """

    features: FeatureSource | FingerprintSource
    reading: Reading
    id_column: int | None = None
    note: str = ""


class Molecules(ABC):
    """Where the molecules of a fit come from."""

    @abstractmethod
    def open(self, run: Run, request: FitRequest) -> TrainingRows:
        """Open the molecules."""


@dataclass(frozen=True)
class LibraryMolecules(Molecules):
    """The molecules of an open store."""

    features: FeatureSource | FingerprintSource

    def open(self, run: Run, request: FitRequest) -> TrainingRows:
        return TrainingRows(self.features, request.reading)


@dataclass
class Training:
    """Labels joined to molecules, with the kernel or map to fit; `plan` sets what follows `molecules`.

    Attributes
    ----------
    request : FitRequest
    labels : path
    molecules : Molecules
    features : FeatureSource or FingerprintSource
        With the map that was chosen.
    exact, kernel, feature_map, options
        Those of the request, as changed by what the labels determine.
    files : LabelFiles
        The joined labels.
    groups : list
        Pairs of targets whose labels belong to the same molecules, and these labels.
    choice : LengthScaleSearch, MapChoice, MetricChoice or None
        How the labels determined the map.
    search : dict or None
        The record of this for the model.
    spec : dict
        Everything that determines the sums of all labels.
    words : str
        How the labels were read.
    cautions : list of str
    """

    request: FitRequest
    labels: PurePath
    molecules: Molecules
    features: FeatureSource | FingerprintSource = field(init=False)
    reading: Reading = field(init=False)
    id_column: int | None = field(default=None, init=False)
    exact: ExactGP | None = field(init=False)
    kernel: Kernel | None = field(init=False)
    feature_map: FeatureMap | AutoMap | None = field(init=False)
    options: ProcessOptions = field(init=False)
    files: LabelFiles = field(init=False)
    groups: list[tuple[tuple[int, ...], LabelFiles]] = field(init=False)
    directions: dict[str, str] = field(init=False)
    choice: Search | None = field(init=False)
    search: SearchRecord | None = field(init=False)
    spec: ModelSpec = field(init=False)
    words: str = field(init=False)
    cautions: list[str] = field(init=False)

    @property
    def joined(self) -> JoinedLabels:
        """The labels of all targets."""
        return self.files.joined

    @property
    def fingerprint(self) -> FingerprintSpec:
        """The fingerprints of the molecules."""
        return FingerprintSpec.from_state(self.features.store.spec["fingerprint"])

    @property
    def kinds(self) -> dict[str, tuple[int, int]]:
        """The columns of each kind of fingerprint."""
        return self.fingerprint.columns

    @property
    def choice_words(self) -> str:
        """A note that all labels determined the map or its length scale, for evaluations; else empty."""
        if self.choice is None:
            return ""
        chosen = "map was chosen" if isinstance(self.choice, MapChoice) else "length scale was found"
        return f"the {chosen} on all labels; "

    @property
    def n_limits(self) -> int:
        """Number of labels that are limits, of all targets."""
        return 0 if self.joined.side is None else int(np.count_nonzero(self.joined.side))

    @property
    def searches(self) -> bool:
        """Whether the labels determine the kernel of an exact process, or its length scale."""
        return self.kernel is None or self.kernel.undecided

    @property
    def identity(self) -> str:
        """The hash of everything that determines the model."""
        together = {} if self.request.together is None else {"together": self.request.together}
        return hash_of([self.spec, {**self.options, **together}])

    def spec_of(self, joined: JoinedLabels) -> ModelSpec:
        """Return everything that determines the sums of some labels, with the kernel of an exact process."""
        kernel = None if self.kernel is None or joined is not self.joined else self.kernel.state()
        process: ProcessSpec = {"process": "exact", "kernel": kernel}
        if self.exact is None:
            process = {"map": brief_state(self.features.feature_map.state())}
        return {
            "source": self.features.spec_hash,
            **process,
            "targets": list(joined.names),
            "rows": len(joined.row),
            "labels": joined.digest,
        }

    def plan(self, run: Run) -> None:
        """Join the labels, check that there is memory for the sums, and only then fit the map."""
        request = self.request
        check_output(request.output, "model")
        self.exact, self.kernel, self.options = request.exact, request.kernel, request.options.copy()
        self.feature_map, self.choice, self.search, self.cautions = request.feature_map, None, None, []
        rows = self.molecules.open(run, request)
        self.features, self.reading, self.id_column = rows.features, rows.reading, rows.id_column
        self.files = self._join(run)
        self.groups = self.files.parts()
        _check_classes(self.joined)
        _check_variance(self.joined, request.fixed)
        if not request.auto:
            self._check_limits()
        self.directions = directions_of(request.direction, self.joined.names)
        self.cautions += check_conventions(
            self.directions, self.joined.scales, self.joined.y, self.labels, confirmed=request.confirmed
        )
        n_structural = self.fingerprint.n_structural
        if self.exact is not None and self.kernel is not None and n_structural is not None:
            self.kernel = kernel_on_first(self.kernel, n_structural)
            self.exact = clone(self.exact).set_params(kernel=self.kernel)
        if request.auto and self.exact is not None:
            self._choose_process(run, self.exact)
            self._check_limits()
        self._check_together()
        if self.exact is None and is_open(self.feature_map):
            self._find_map(run, cast("FeatureMap | AutoMap", self.feature_map))
        self.features = prepared(run, self.features, self.need)
        self.spec = self.spec_of(self.joined)
        if rows.note:
            self.words += f"; {rows.note}"
            run.progress.note(f"{rows.note}.")

    def _check_together(self) -> None:
        """Refuse to model targets together where there is one alone, or where they cannot be."""
        if self.request.together is None:
            return
        flag = "--together" if self.request.together else "--no-together"
        if len(self.joined.names) == 1:
            raise OptionError(f"{flag} is for several targets, and there is one: leave it out.")
        if self.request.together and self.exact is None:
            raise OptionError(
                "--together goes with an exact process, and this one has random features: leave it out."
            )
        if self.request.together and self.exact is not None:
            making = making_of(self.features)
            nonzeros = making.entries / max(1, making.rows) * len(self.joined.row)
            if reason := why_separate(self.exact, self.joined, int(nonzeros)):
                raise InputError(
                    f"{self.labels}: targets cannot be modelled together, since {reason}; leave --together "
                    "out."
                )

    def _check_limits(self) -> None:
        """Refuse limits among the labels for a process that cannot use them."""
        if self.joined.side is None:
            return
        n = int((self.joined.side != 0).any(axis=1).sum())
        if self.exact is not None or PROCESSES[self.features.feature_map.process].takes_limits:
            return
        raise InputError(
            f"{self.labels} has {amount(n, 'labels')} that are limits, and the process of the map "
            f"{type(self.features.feature_map).facts.name} takes measured values alone; take random features "
            "of the kernel (--process features) or --process exact, leave limits out with --censored drop, "
            "or take their numbers as measured with --censored value"
        )

    def gathering(self) -> Tree:
        """Return the tree that gathers the fingerprints of all labels, whatever the process."""
        raw = self.features if self.features.raw else open_source(self.features.store, raw=True)
        return ExactSolve(raw, self.files, self.spec, cast(ExactGP, self.exact), None).tree("double")

    def _join(self, run: Run) -> LabelFiles:
        """Join the labels to rows of the library, by the first key that matches any of them."""

        def check(n_labels: int, key_bytes: float) -> None:
            run.check(Need(here=need_of_labels(n_labels, key_bytes, self.reading.key)))

        path, store, column_of_key = self.labels, self.features.store, self.reading.key_column
        one = ((self.reading.key, column_of_key),)
        keys = keys_of(path, column_of_key) if self.request.any_key else one
        for last, (key, column) in enumerate(keys, 1):
            self.reading = replace(self.reading, key=key, key_column=column)
            self.words = label_words(path, self.reading)
            run.progress.note(self.words)
            try:
                files = labels_of(
                    path,
                    store,
                    run.work,
                    self.reading,
                    check,
                    run=run,
                    poses=self.request.poses,
                    direction=self.request.direction,
                )
                for note in files.joined.notes:
                    run.progress.note(f"{note}.")
                self.cautions += files.joined.notes
                if key == "id":
                    sure = not self.request.any_key
                    if caution := other_molecules(path, self.reading, files.joined, store, sure=sure):
                        run.progress.note(f"{caution}.")
                        self.cautions.append(caution)
                return files
            except NoMatchError:
                if last == len(keys):
                    raise
                run.progress.note(
                    "None of these IDs is in the library, so the labels are joined by structure."
                )
        raise AssertionError("there is always a key")

    def _choose_process(self, run: Run, exact: ExactGP) -> None:
        """Use an exact process unless it costs too much for these labels; tell the user which, and why."""
        n_labels = len(self.joined.row)
        limits = self.joined.side is not None
        reason = why_not_exact(exact, making_of(self.features), n_labels, limits=limits)
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

    def _find_map(self, run: Run, requested: FeatureMap | AutoMap) -> None:
        """Let a sample of the labels determine the map, or its length scale or metric."""
        run.check(self.need())
        earlier = None
        if kind_of(self.request.output, missing_ok=True) is not None:
            earlier = read_model(self.request.output, statistics=False).metadata.get("search")
        store = self.features.store
        spec = FingerprintSpec.from_state(store.spec["fingerprint"])
        used = functools.partial(map_for, spec=spec, fold=self.request.fold)
        feature_map, self.choice, self.search = found_map(
            run, requested, store=store, joined=self.joined, options=self.options, used=used, earlier=earlier
        )
        self.features = open_source(self.features.store, feature_map, fold=self.request.fold)

    def need(self, sums: Sequence[FeatureSums | ExactSolve] = ()) -> Need:
        """Return what memory and disk a fit needs; `sums` are those that it writes to disk."""
        cut, making = grouped(self.features, self.joined), making_of(self.features)
        n_labels = sum(cut.rows)
        if self.exact is not None:
            return need_of_exact(
                self.exact,
                making,
                n_labels,
                work_folder(self.request.output),
                self.request.client,
                limits=self.joined.side is not None,
            )
        precision = precision_for(self.features.feature_map, n_labels)
        n_limits = self.n_limits

        def of_sums(making: Making) -> MemoryNeed:
            return need_of_sums(
                making,
                n_labels,
                max(cut.rows),
                precision=precision,
                strip_bytes=cut.strip_bytes,
                n_limits=n_limits,
            )

        def solve(n_components: int) -> MemoryNeed:
            smaller = replace(making, n_components=n_components)
            mapped = isinstance(self.joined.row, np.memmap)
            n_sums = len(self.groups)
            return need_of_solve(smaller, n_labels, n_sums=n_sums, n_limits=n_limits, mapped=mapped)

        M = making.n_components
        return Need(
            worker=making.need(of_sums, "components", "rows"),
            finish=replace(solve(M), smaller={"components": (M, 64, solve)}),
            disk=disk_of_sums(work_folder(self.request.output), sums) if sums else None,
        )


def _check_classes(joined: JoinedLabels) -> None:
    """Refuse classes of which there is only one, and labels between the two."""
    for (name, y), words in zip(values_of_targets(joined), joined.classes, strict=False):
        if words is None:
            continue
        shown = printable(name, 60)
        if not np.isin(y, (0.0, 1.0)).all():
            raise InputError(
                f"Some molecules have labels of both classes of {shown}, of which there is no "
                f"{joined.repeats_as}: let each label count (--repeats all), or correct them."
            )
        if y.min() == y.max():
            word = f"1 ({words.name})" if y[0] else f"0 ({' or '.join(words.negative) or 'the other class'})"
            raise InputError(
                f"All {len(y):,} labels of {shown} are {word}, and a model needs molecules of both classes: "
                "add some of the other, or take another column (--target)."
            )


def _check_variance(joined: JoinedLabels, fixed: Mapping[str, float | None]) -> None:
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
