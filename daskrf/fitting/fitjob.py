"""The job of a fit: sum over the labelled molecules, solve, and save the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import cast

import numpy as np
import numpy.typing as npt

from daskrf.errors import printable
from daskrf.fitting.advice import advice_on
from daskrf.fitting.links import NO_LINK, link_of_exact, link_of_library, links_from
from daskrf.fitting.parts import PARTS, ExactSolve, FeatureSums, values_of_targets
from daskrf.fitting.training import Training
from daskrf.gp import SparseGP
from daskrf.gp.choice.lengthscale import LengthScaleSearch
from daskrf.gp.choice.mapchoice import MapChoice
from daskrf.gp.choice.metricchoice import MetricChoice
from daskrf.gp.processes.coregionalized import CoregionalizedGP
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.kerneltrials import KernelChoice
from daskrf.gp.processes.process import FeatureSpaceGP
from daskrf.gp.processes.processes import ProcessOptions
from daskrf.gp.processes.separate import SeparateGP, process_of, processes_of
from daskrf.gp.processes.weightedsum import Process
from daskrf.jobs.job import Job, Need, Report, Run
from daskrf.jobs.pieces import Done, Pieces
from daskrf.models.classtargets import ClassTarget
from daskrf.models.intervals import has_residuals, residual_arrays, why_none
from daskrf.models.labelled import SMILES, smiles_array_of_rows
from daskrf.models.models import LIMIT_SIDES, LIMITS, Model, read_model
from daskrf.models.rounds import identity_after, redirected, rounds_of
from daskrf.models.toolkits import toolkit_of
from daskrf.quantities import amount
from daskrf.sources.sources import (
    folding_words,
)
from daskrf.storage.differences import differences, made_with_others
from daskrf.storage.kinds import kind_of
from daskrf.storage.model import load_model, save_model
from daskrf.storage.modelmetadata import ClassTargetState, DescribedTargets, ModelMetadata
from daskrf.workers.progress import Progress

COUNTS = ("matched", "unmatched", "repeats", "equal_repeats", "library_duplicates", "dropped", "merged")
_UNKNOWN = (
    "the SMILES of the labelled molecules were not stored, since too much of the library would have to be "
    "read for them, so copies of these molecules cannot be left out of hits and batches; to have them "
    "stored, fit to a file of labels with SMILES, without the library"
)


@dataclass
class FitJob(Job[Report]):
    """The job of a fit.

    Attributes
    ----------
    training : Training
        The labels, their molecules, and the kernel or map.
    made : callable
        Makes the report.
    sums : sequence of FeatureSums or ExactSolve
        The sums or equations to solve, set by `plan`.
    stored : Model or None
        An earlier model of these labels and features at the output.
    directions : dict of str to {"maximize", "minimize"}
        By target: those asked for, else those stored.
    """

    training: Training
    made: Callable[..., Report]
    output: PurePath = field(init=False)
    sums: Sequence[FeatureSums | ExactSolve] = field(default=(), init=False)
    stored: Model | None = field(default=None, init=False)
    directions: dict[str, str] = field(default_factory=dict, init=False)

    name = "fit"

    def __post_init__(self) -> None:
        self.output = self.training.request.output

    def plan(self, run: Run) -> None:
        """Join the labels, determine the map, and look for an earlier model at the output."""
        training = self.training
        training.plan(run)
        self.stored = _stored(self.output, training.spec, training.identity)
        self.directions = training.directions or (self.stored.directions if self.stored else {})
        features, spec = training.features, training.spec
        if training.exact is not None:
            columns = training.kinds if training.searches else None
            together = training.request.together
            exact = ExactSolve(features, training.files, spec, training.exact, columns, together=together)
            self.sums = [exact]
            return
        if len(training.groups) == 1:
            ((targets, files),) = training.groups
            self.sums = [FeatureSums(features, targets, files, spec)]
            return
        run.progress.note(
            "Some molecules lack some targets, so each target is fitted to its own labels "
            f"({len(training.groups)} separate fits)."
        )
        self.sums = [
            FeatureSums(features, targets, files, training.spec_of(files.joined))
            for targets, files in training.groups
        ]

    def need(self) -> Need:
        """Return what memory and disk the fit needs; none for sums that a model at the output holds."""
        return self.training.need(self.sums if self.stored is None else ())

    def pieces(self, run: Run) -> list[Pieces]:
        """Make nothing if the model at the output already has the sums of these labels and features."""
        if self.stored is not None:
            return [Done(len(s.cut.groups), PARTS) for s in self.sums for _ in range(s.cut.n_roots)]
        run.agree(self.training.spec)
        if len(self.sums) > 1:
            self.training.files.keep()
        return [each.tree(each.precision) for each in self.sums]

    def finish(self, run: Run, made: int) -> Report:
        """Solve, and save the model with its sums."""
        training, stored, directions = self.training, self.stored, self.directions
        identity = training.identity
        if stored is not None and stored.metadata["spec_hash"] == identity_after(identity, rounds_of(stored)):
            if more := rounds_of(stored)[1:]:
                n = sum(each["labels"] for each in more)
                training.cautions.append(f"with {amount(n, 'labels')} that were added since, which stay")
            metadata = self._metadata(stored.gp)
            described: DescribedTargets = {
                "scales": metadata["scales"],
                "limits": metadata["limits"],
                "repeats": metadata["repeats"],
            }
            classes = self._classes(run, stored.gp, stored)
            if classes is not None:
                described["classes"] = classes
            _leave(self.output, stored, directions, described, run.progress)
            together = stored.metadata.get("together", "")
            return self._report(stored.gp, run.seconds, classes or [], together, was_there=True)
        if stored is not None:
            what = "fingerprints of" if training.exact else "sums over"
            run.progress.note(f"The model at the output already holds the {what} these labels.")
        gp, together = self._solved(run)
        arrays: dict[str, npt.NDArray[np.generic]] = {**gp.arrays(), "labelled_rows": training.joined.row}
        arrays["labels"] = training.joined.y
        if training.joined.side is not None and training.joined.bound is not None:
            arrays |= {LIMITS: training.joined.bound, LIMIT_SIDES: training.joined.side}
        if (smiles := smiles_array_of_rows(training.features.store, training.joined.row)) is not None:
            arrays[SMILES] = cast(npt.NDArray[np.uint8], smiles)  # or what is read as an array is
        metadata = self._metadata(gp)
        metadata["directions"] = directions
        if together:
            metadata["together"] = together
        arrays |= residual_arrays(gp, arrays, metadata)
        classes = self._classes(run, gp, None)
        if classes is not None:
            metadata["classes"] = classes
        save_model(self.output, arrays, metadata)
        run.progress.finish()
        return self._report(gp, run.seconds, classes or [], together)

    def _solved(self, run: Run) -> tuple[Process | SeparateGP, str]:
        """Return the process, and for several targets of an exact one how they are modelled, in words."""
        earlier = None if self.stored is None else self.stored.gp
        solved: list[FeatureSpaceGP] = []
        for number, each in enumerate(self.sums):
            if isinstance(each, ExactSolve):
                joint = each.solve(run, earlier)
                return joint.gp, joint.words
            sums = None if earlier is None else processes_of(earlier)[number].statistics_
            solved.append(each.solve(run, sums, self._options_of(each)))
        gp = solved[0] if len(solved) == 1 else SeparateGP(solved, [each.targets for each in self.sums])
        return gp, ""

    def _classes(
        self, run: Run, gp: Process | SeparateGP, stored: Model | None
    ) -> list[ClassTargetState | None] | None:
        """Return the classes of each target, with their links, if some target is two classes.

        Those of the model `stored` stay if their words are the same, since its labels are, too.
        """
        training, joined = self.training, self.training.joined
        if not any(joined.classes):
            return None if stored is None or not any(stored.classes) else []
        states: list[ClassTargetState | None] = []
        for t, words in enumerate(joined.classes):
            there = np.isfinite(joined.y[:, t])
            y = joined.y[there, t]
            earlier = None if stored is None else stored.classes[t]
            if words is None or (earlier is not None and earlier.words == words):
                states.append(None if words is None or earlier is None else earlier.state())
                continue
            process, place = process_of(gp, t)
            link = None
            if isinstance(process, ExactGP):
                link = link_of_exact(run, process, run.work / f"target-{t}")
            elif isinstance(process, FeatureSpaceGP) and links_from(training.features.feature_map):
                process.feature_map_ = None
                link = link_of_library(process, place, training.features, joined.row[there], y)
            else:
                training.cautions.append(f"{printable(joined.names[t], 60)}: {NO_LINK}")
            states.append(ClassTarget(words, int(y.sum()), len(y), link).state())
        return states

    def _options_of(self, sums: FeatureSums) -> ProcessOptions:
        """Return the options of some targets, with the noise variances fitted together with a metric."""
        training, choice = self.training, self.training.choice
        if not isinstance(choice, MetricChoice) or training.request.fixed["noise_variance"] is not None:
            return training.options
        noise = choice.noise_variances(y for _, y in values_of_targets(training.joined))
        return {**training.options, "noise_variance": noise and [noise[t] for t in sums.targets]}

    def _metadata(self, gp: Process | SeparateGP) -> ModelMetadata:
        """Return what the model stores besides its arrays; see `Model`."""
        training, joined = self.training, self.training.joined
        store = training.features.store
        return {
            "gp": {**gp.state(), "feature_map": None},  # "map" holds it
            "targets": list(joined.names),
            "labels": {name: getattr(joined, name) for name in COUNTS}
            | {kind: n for kind, (n, _) in joined.unusual.items()},
            "scales": [scale.state() for scale in joined.scales],
            "limits": [limits.state() for limits in joined.limits],
            "repeats": [joined.repeats_as, training.reading.key],
            "spec": training.spec,
            "range": np.column_stack([np.nanmin(joined.y, 0), np.nanmax(joined.y, 0)]).tolist(),
            "library": store.library_hash,
            "library_path": store.library_path,
            "fingerprint": store.spec["fingerprint"],
            "fragments": store.spec["fragments"],
            "toolkit": toolkit_of(store).state(),
            "map": None if training.exact else training.features.feature_map.state(),
            "search": training.search,
            "choices": self._choices(gp),
            "spec_hash": training.identity,
        }

    def _choices(self, gp: Process | SeparateGP) -> list[str | None]:
        """Return what was tried and what was chosen, in words."""
        if self.training.exact:
            return [None if choice is None else str(choice) for choice in kernel_choices(gp)]
        return [] if self.training.choice is None else [str(self.training.choice)]

    def _report(
        self,
        gp: Process | SeparateGP,
        seconds: float,
        classes: Sequence[ClassTargetState | None],
        together: str,
        *,
        was_there: bool = False,
    ) -> Report:
        training, joined, choice = self.training, self.training.joined, self.training.choice
        names = [printable(name, 60) for name in joined.names]
        solved = [(each.kernel.words(), each.words()) for each in processes_of(gp) if each.kernel]
        warnings = [] if training.exact else [*training.features.feature_map.cautions()]
        warnings += training.cautions
        warnings += [f"{name}: {caution}" for t, name in enumerate(names) for caution in gp.cautions(t)]
        warnings += [
            advice
            for t, (name, (_, y)) in enumerate(zip(names, values_of_targets(joined), strict=True))
            if not any(joined.classes[t : t + 1])
            and (advice := advice_on(name, y, joined.scales[t] if joined.scales else None))
        ]
        if SMILES not in load_model(self.output, ()).entries:
            warnings.append(_UNKNOWN)
        if jitter := getattr(gp, "jitter_", 0.0):
            warnings.append(f"a jitter of {jitter:.1e} was needed to factorize an M x M matrix")
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
            n_components=0 if training.exact else training.features.feature_map.n_components,
            seconds=seconds,
            warnings=tuple(warnings),
            bound=tuple(
                float(process.bounds_[place])
                + joined.evidence_of_means(float(process.noise_variance_[place]))
                for process, place in (process_of(gp, t) for t in range(len(names)))
                if isinstance(process, SparseGP)
            ),
            inputs=(training.words,),
            directions=tuple(self.directions.get(name) for name in joined.names),
            n_filled=None if training.exact else training.features.feature_map.n_filled,
            process="exact" if training.exact else "features",
            kernel=" and ".join(dict.fromkeys(kernel for kernel, _ in solved)),
            solved=tuple(way for _, way in solved) * (len(names) // len(solved) if solved else 1),
            choices=kernel_choices(gp) if training.exact else (),
            together=together,
            folded=folding_words(training.features),
            length_scale=choice if isinstance(choice, LengthScaleSearch) else None,
            map_choice=choice if isinstance(choice, MapChoice) else None,
            metric=choice if isinstance(choice, MetricChoice) else None,
            classes=tuple(state and ClassTarget.from_state(state) for state in classes),
            was_there=was_there,
        )


def _leave(
    output: PurePath,
    stored: Model,
    directions: dict[str, str],
    described: DescribedTargets,
    progress: Progress,
) -> None:
    """Leave a model as it is, except for what has changed in directions and descriptions of its targets.

    A model of an older version gets the errors that intervals are made from.
    """
    progress.note(f"{output} already holds exactly this model.")
    lacks = not has_residuals(stored) and not why_none(stored.gp, stored.saved.entries, stored.metadata)
    changed = any(stored.metadata.get(name) != value for name, value in described.items())
    if lacks or changed or directions != stored.directions:
        there = load_model(output)
        metadata: ModelMetadata = {**there.of_model, **described}
        arrays = there.arrays
        arrays |= residual_arrays(stored.gp, arrays, metadata) if lacks else {}
        save_model(output, arrays, redirected(metadata, arrays["labels"], directions))
    if lacks:
        progress.note("The errors of molecules left out were added to it, which intervals are made from.")
    if directions != stored.directions:
        changes = ", ".join(f"{direction} '{name}'" for name, direction in directions.items())
        progress.note(f"The directions of {output} were changed: {printable(changes)}.")


def kernel_choices(gp: Process | SeparateGP) -> tuple[KernelChoice | None, ...]:
    """Return how the kernel of each target of an exact process was chosen."""
    if isinstance(gp, CoregionalizedGP):
        choices = gp.kernel_choices_ or (None,) * len(gp.mean_)
        return tuple(each and replace(each, together=gp.kernel) for each in choices)
    return tuple(each.kernel_choice_ for each in processes_of(gp) if isinstance(each, ExactGP))


def _stored(output: PurePath, spec: Mapping[str, object], identity: str) -> Model | None:
    """Return an earlier model of the same labels and features, or None. Refuse any other model.

    A model to which labels were added later counts as the same if its options are the same.
    """
    if kind_of(output, missing_ok=True) is None:
        return None
    earlier = read_model(output)
    if earlier.metadata["spec_hash"] == identity_after(identity, rounds_of(earlier)):
        return earlier
    if earlier.metadata["spec"] != spec:
        raise made_with_others(output, differences(earlier.metadata["spec"], spec))
    return earlier
