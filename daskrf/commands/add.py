"""Model + new labels -> the same model with more labels, without another pass over the old ones."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal

import numpy as np
import numpy.typing as npt
from distributed import Client
from scipy import sparse

from daskrf.arrays import Matrix
from daskrf.commands.fit import CLI as FIT
from daskrf.commands.fit import Direction
from daskrf.errors import InputError, OptionError, StoreError, printable
from daskrf.estimators import clone
from daskrf.files.backend import as_path
from daskrf.fitting.costs import need_of_solve
from daskrf.fitting.exactsolve import Equations, need_of_solution, solve_exact
from daskrf.fitting.links import link_of_exact
from daskrf.fitting.newlabels import LabelOptions, LabelReader, NewLabels, repeats_of
from daskrf.gp.processes.coregionalized import CoregionalizedGP
from daskrf.gp.processes.exact import ExactGP
from daskrf.gp.processes.kerneltrials import KernelChoice
from daskrf.gp.processes.process import FeatureSpaceGP
from daskrf.gp.processes.separate import SeparateGP, process_of, processes_of
from daskrf.gp.processes.weightedsum import Process, TargetProcess
from daskrf.gp.solve.roundoff import CoarseSumsError
from daskrf.gp.sums.shapes import SumsShape
from daskrf.gp.validation.agreement import Agreement, agreement, impossible
from daskrf.jobs.job import Job, Need, Run, run
from daskrf.jobs.memory import Making
from daskrf.jobs.pieces import Pieces
from daskrf.models.directions import check_conventions, directions_of
from daskrf.models.intervals import residual_arrays
from daskrf.models.labelled import SMILES, labelled_smiles, smiles_array
from daskrf.models.models import LIMIT_SIDES, LIMITS, Model, feature_map_of, read_model
from daskrf.models.rounds import best_of, redirected, rounds_of
from daskrf.molecules import FingerprintSpec
from daskrf.molecules.structures import KnownStructures, canonical_smiles
from daskrf.parameters import Command, Option
from daskrf.quantities import amount, listed
from daskrf.report.merit import measured_classes
from daskrf.report.notebook import Shown
from daskrf.sources.given import Data
from daskrf.storage.keptrounds import is_restored, keep_round, restore_round, tidy_rounds
from daskrf.storage.kinds import check_output, kind_of
from daskrf.storage.model import load_model, save_model
from daskrf.storage.modelmetadata import ClassTargetState, ModelMetadata, RoundRecord
from daskrf.storage.stores.store import hash_of
from daskrf.tables.values.repeats import Repeats
from daskrf.tables.values.values import LOWER_LIMITS, UPPER_LIMITS, scales_in
from daskrf.workers.progress import Progress

Paths = str | os.PathLike[str]
Key = Literal["smiles", "id"]

CLI = Command(
    "daskrf add docking.model scores-of-batch.csv",
    step=5,
    options={
        "target": Option(metavar="COLUMN"),
        **{
            name: FIT.options[name]
            for name in ("direction", "unit", "positive", "drop_outside", "drop_value")
        },
    },
    resumable=True,
    workers_for=lambda: False,
)

_CHOOSE_AGAIN = 2  # times the labels that the kernel was chosen with: then it is chosen again
_MOST_CHOSEN = 12_000  # labels that a choice of the kernel uses at most
_FEW_JOINTLY = 300  # labels tested jointly with conjugate gradients: each takes a solve


@dataclass(frozen=True)
class AddReport(Shown):
    """What `add` did.

    Attributes
    ----------
    model : Path
    n_added, n_labels : int
        New labels, and all labels of the model now.
    rejected, dropped, unmatched : int
        Labels left out: those of molecules that RDKit cannot use, those without a number, and those of
        molecules that are not in the library.
    repeats, equal_repeats : int
        New labels of molecules that already had one, and how many of these have exactly the same value.
    agreement : tuple of Agreement or None
        For each target, how the new labels agree with their predictions by the model.
    rounds : tuple of dict
        History of the model, the fit first; see `daskrf status`.
    added : bool
        False if the model held these labels already.
    seconds : float
    warnings : tuple of str
    inputs : tuple of str
        How the labels were read.
    choices : tuple of (str, KernelChoice)
        Targets whose kernel was chosen again because their labels had doubled, and the kernels that were
        tried.
    dry_run : bool
        Whether nothing was changed.
    n_undone : int
        Labels that were taken back.
    merged, repeats_as : int and str
        Number of labels merged into one label of their molecule, and how; see `repeats` of `add`.
    """

    model: PurePath
    n_added: int
    n_labels: int
    rejected: int
    dropped: int
    unmatched: int
    repeats: int
    equal_repeats: int
    agreement: tuple[Agreement | None, ...]
    rounds: tuple[RoundRecord, ...]
    targets: tuple[str, ...]
    added: bool
    seconds: float
    warnings: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    choices: tuple[tuple[str, KernelChoice], ...] = ()
    dry_run: bool = False
    n_undone: int = 0
    merged: int = 0
    repeats_as: str = "all"

    def __str__(self) -> str:
        if self.n_undone:
            back = amount(self.n_undone, "labels")
            first = (
                f"{back} would be taken back, {self.n_labels:,} left in {self.model}, as after round "
                f"{len(self.rounds)}; nothing was changed"
                if self.dry_run
                else f"{back} taken back, {self.n_labels:,} left in {self.model}, which is as it was after "
                f"round {len(self.rounds)}"
            )
            return "\n".join([first, *(f"  {warning}" for warning in self.warnings)])
        if not self.added:
            unchanged = (
                f"{self.model} holds these labels already, {self.n_labels:,} in all; nothing was added"
            )
            first = (
                unchanged if self.inputs else f"{self.model}: {amount(self.n_labels, 'labels')}, as before"
            )
            return "\n".join([first, *(f"  {warning}" for warning in self.warnings)])
        did = "would be added" if self.dry_run else "added"
        lines = [
            f"{amount(self.n_added, 'labels')} {did}, {self.n_labels:,} in all, in {self.model} "
            f"({self.seconds:.1f} s){'; nothing was changed' if self.dry_run else ''}"
        ]
        lines += [f"  {words}" for words in self.inputs]
        left = {"unusable molecules": self.rejected, "no number": self.dropped}
        left["not in the library"] = self.unmatched
        lines += [f"  left out, {name}: {n:,}" for name, n in left.items() if n]
        if self.merged:
            lines.append(
                f"  further labels of these molecules: {self.merged:,} (the {self.repeats_as} of each counts)"
            )
        if self.repeats:
            equal = f", {self.equal_repeats:,} of them with the same value" if self.equal_repeats else ""
            one = "; to take one of each, fit all labels again" if self.repeats_as != "all" else ""
            lines.append(
                f"  new labels of molecules already labelled: {self.repeats:,}{equal}; each counts{one}"
            )
        before, after = self.rounds[-2]["best"], self.rounds[-1]["best"]
        for t, name in enumerate(self.targets):
            shown = printable(name, 60)
            if after[t] is not None:
                lines.append(f"  {shown}: best so far {after[t]:.6g}, before {before[t]:.6g}")
            if (agreed := self.agreement[t]) is not None:
                lines.append(f"  {shown}: {agreed}")
        for name, choice in self.choices:
            lines.append(
                f"  {printable(name, 60)}: its labels have doubled since its kernel was chosen, so it was "
                "chosen again"
            )
            lines += [f"    {line}" for line in str(choice).splitlines()]
        return "\n".join([*lines, *(f"  {warning}" for warning in self.warnings)])


def add(
    model: Paths,
    labels: Data | None = None,
    *,
    output: Paths | None = None,
    key: Key | None = None,
    key_column: str | int | None = None,
    target: str | int | Sequence[str | int] | None = None,
    unit: str | Mapping[str, str] | None = None,
    censored: Literal["limit", "drop", "value"] | None = None,
    drop_non_numbers: bool = False,
    drop_outside: str | tuple[float, float] | Mapping[str, object] | None = None,
    drop_value: float | Sequence[float] | Mapping[str, object] | None = None,
    accept_outliers: bool = False,
    accept_rejects: bool = False,
    replicates: str | int | None = None,
    replicate_std: str | int | None = None,
    replicate_sem: str | int | None = None,
    repeats: Repeats | None = None,
    positive: str | Sequence[str] = (),
    direction: Direction | Mapping[str, str] | None = None,
    confirm_direction: bool = False,
    library: Paths | None = None,
    dry_run: bool = False,
    undo: bool = False,
    to_round: int | None = None,
    client: Client | None = None,
    progress: Progress | None = None,
) -> AddReport:
    """Add new labels to a model.

    Molecules already in the model are not read or fingerprinted again: an exact process starts from its last
    solution, and a model of features adds to its sums. First, the new labels are compared with their
    predictions by the model, and a contradiction is reported. A file is never added twice, so you can run an
    interrupted command again. The old model stays as it is until the new one is complete.

    Parameters
    ----------
    model : path
        Directory of the model.
    labels : path, optional
        The new labels, in any format that `fit` reads, with a column named like the model's target, and the
        SMILES of the molecules, or their IDs in the library of the model. Not needed to set a direction.
    output : path, optional
        Directory of the new model. Default: the model itself.
    key : {"smiles", "id"}, optional
        What identifies a molecule. Default: its SMILES if there are any, else its ID in the library.
    key_column : str or int, optional
        As in `fit`.
    target : str or int, or sequence of them, optional
        Columns of the targets, in the order of the model's targets, if the file names them differently. The
        transform and the unit of the fit apply. The file may have labels of only some targets; the other
        targets stay as they are.
    unit : str, or dict of str to str, optional
        As in `fit`, if the file does not name the unit of its values. They are converted to the unit of the
        fit.
    censored : {"limit", "drop", "value"}, optional
        As in `fit`.
    drop_non_numbers : bool
        Leave out labels that are not finite numbers, such as those of molecules that could not be scored.
    drop_outside, drop_value : optional
        As in `fit`. They add to those of the fit, which still apply.
    accept_outliers : bool
        Add labels that are refused as impossible: too far from all others, or from their predictions.
    accept_rejects : bool
        As in `fit`.
    replicates, replicate_std, replicate_sem : str or int, optional
        As in `fit`; `replicates` needs one of the other two.
    repeats : {"all", "best", "mean", "median"}, optional
        As in `fit`, among the labels that are added. Default: as in the fit.
    positive : str, or sequence of str
        As in `fit`, if the labels name their classes by other words than those of the fit.
    direction : {"maximize", "minimize"}, or dict of str to these, optional
        Whether large or small values are good from now on, for all targets or for each by name.
    confirm_direction : bool
        As in `fit`.
    library : path, optional
        For IDs: the fingerprint store with the molecules, if that of the model has moved.
    dry_run : bool
        Read, compare and report everything, but change nothing.
    undo : bool
        Take back the last round of labels: the model is then byte for byte what it was before.
    to_round : int, optional
        Take back all rounds after this one; the fit is round 1. The folder of the model keeps its earlier
        rounds, each as large as the model.
    client, progress
        As in `fit`.

    Returns
    -------
    AddReport

    Raises
    ------
    InputError
        If the file lacks the model's targets, labels cannot be read, or none of the molecules can be used.
    StoreError
        If there is no model, or another model at `output`.
    """
    path = as_path(model)
    made = path if output is None else as_path(output)
    targets = [target] if isinstance(target, (str, int)) else target
    options = LabelOptions(
        key=key,
        key_column=key_column,
        target=targets,
        unit=unit,
        censored=censored,
        drop_non_numbers=drop_non_numbers,
        drop_outside=drop_outside,
        drop_value=drop_value,
        accept_outliers=accept_outliers,
        accept_rejects=accept_rejects,
        replicates=replicates,
        replicate_std=replicate_std,
        replicate_sem=replicate_sem,
        repeats=repeats,
        positive=positive,
    )
    options.check()
    without = labels is None and made == path
    for_labels = options != LabelOptions() or library is not None
    if undo or to_round is not None:
        alone = without and not (for_labels or direction is not None or confirm_direction)
        if not alone or (undo and to_round is not None):
            raise OptionError(
                "--undo and --to-round take only a model; leave out everything else except --dry-run."
            )
        return run(_Undo(path, to_round, dry_run=dry_run), client, progress)
    if labels is None and (direction is None or not without):
        raise OptionError("Give the new labels, or only a direction to set with --direction.")
    if labels is None and for_labels:
        raise OptionError("Options for labels need labels; give the labels, or leave the options out.")
    job = _Add(
        path,
        labels,
        made,
        options=options,
        library=library,
        direction=direction,
        confirmed=confirm_direction,
        dry_run=dry_run,
    )
    return run(job, client, progress)


@dataclass
class _Add(Job[AddReport]):
    """The job of `add`. `plan` sets `old` and the fields below it."""

    path: PurePath
    labels: Paths | None
    output: PurePath
    options: LabelOptions
    library: Paths | None
    direction: str | Mapping[str, str] | None = None
    confirmed: bool = False
    dry_run: bool = False
    old: Model = field(init=False)
    new: NewLabels = field(init=False)
    toward: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    words: str = ""
    target_indices: list[int] = field(default_factory=list)
    rounds: list[RoundRecord] = field(default_factory=list)
    choices: list[tuple[str, KernelChoice]] = field(default_factory=list)
    done: bool = False

    name = "add"

    def plan(self, run: Run) -> None:
        """Read the model and the labels; find out whether the model holds them already."""
        check_output(self.output, "model")
        self.old = read_model(self.path)
        self.toward = self._directions()
        self.rounds = rounds_of(self.old)
        if self.labels is None:
            self.done = True
            return
        reader = LabelReader(self.old, self.labels, self.options, self.library, self.toward)
        self.new = reader.read(run)
        self.words, self.target_indices = reader.words, reader.target_indices
        self.notes += reader.notes
        digest = self.new.digest
        earlier = [i for i, each in enumerate(self.rounds) if i and each["digest"] == digest]
        if earlier and self.output != self.path:
            raise InputError(
                f"{self.path} holds the labels of {self.labels} already (round {earlier[0] + 1}); it can be "
                "used as it is."
            )
        self.done = bool(earlier)
        if self.output != self.path and kind_of(self.output, missing_ok=True) is not None:
            there = read_model(self.output, statistics=False)
            if there.metadata["spec_hash"] != self._identity:
                raise StoreError(f"{self.output} holds another model; give another output path, or delete it")
            self.done, self.rounds = True, rounds_of(there)

    @property
    def _identity(self) -> str:
        return hash_of([self.old.metadata["spec_hash"], self.new.digest])

    def _directions(self) -> dict[str, str]:
        """Return the directions of the model, with the new ones."""
        directions = directions_of(self.direction, self.old.targets)
        if directions:
            (y,) = self.old.arrays("labels")
            scales = scales_in(self.old.metadata)
            self.notes += check_conventions(directions, scales, y, PurePath(), confirmed=self.confirmed)
        return {**self.old.directions, **directions}

    def need(self) -> Need:
        """Return what a solve for all labels needs."""
        if self.done:
            return Need()
        n_new, first = len(self.new.y), processes_of(self.old.gp)[0]
        if isinstance(first, CoregionalizedGP):
            n = first.n_rows_ + int(np.isfinite(self.new.y).sum())
            making = Making(1, n, True, nonzeros=int(self.new.X.nnz / n_new * n))
            return Need(here=need_of_solution(first.process_for(n), making, n))
        if isinstance(first, ExactGP):
            n = max(each.n_rows_ for each in processes_of(self.old.gp) if isinstance(each, ExactGP)) + n_new
            nonzeros = int(self.new.X.nnz / n_new * n)
            making = Making(1, n, True, nonzeros=nonzeros)
            limits = self.new.side is not None or LIMITS in self.old.saved.entries
            return Need(here=need_of_solution(_unfitted(first), making, n, limits=limits))
        feature_map = feature_map_of(self.old)
        assert feature_map is not None
        M = feature_map.n_components
        making = Making(M, n_new, self.old.gp.one_bit_, SumsShape.of(feature_map), self.new.X.nnz)
        parts = processes_of(self.old.gp)
        n_limits = 0 if self.new.side is None else int(np.count_nonzero(self.new.side))
        n_limits += sum(gp.n_limits_ for gp in parts if isinstance(gp, FeatureSpaceGP))
        solve = need_of_solve(making, n_new, n_sums=len(parts) + 1, n_limits=n_limits, holds_smiles=True)
        return Need(here=solve)

    def pieces(self, run: Run) -> Sequence[Pieces]:
        """Return none: new labels are few."""
        return []

    def finish(self, run: Run, made: int) -> AddReport:
        """Compare, solve, and replace the model."""
        if self.done:
            saved = load_model(self.output)
            changed = self.toward != saved.metadata.get("directions", {})
            if changed and self.direction is not None and not self.dry_run:
                metadata = redirected(saved.of_model, saved.arrays["labels"], self.toward)
                save_model(self.output, saved.arrays, metadata)
                self._redirected()
            return self._report(run, [None] * len(self.old.targets), 0, 0)
        agreed = self._agreement()
        repeats, equal = self._repeats()
        if not self.dry_run:
            self._save(run, agreed, self._solved(run), repeats, equal)
            run.progress.finish()
        else:
            self.rounds.append(self._round(agreed))
            if self.toward != self.old.directions:
                y = np.concatenate([self.old.arrays("labels")[0], self.new.y])
                self.rounds = redirected({**self.old.metadata, "rounds": self.rounds}, y, self.toward)[
                    "rounds"
                ]
                self._redirected()
        return self._report(run, agreed, repeats, equal)

    def _round(self, agreed: Sequence[Agreement | None]) -> RoundRecord:
        """Return the round of the new labels."""
        (labels,) = self.old.arrays("labels")
        y = np.concatenate([labels, self.new.y])
        return {
            "labels": len(self.new.y),
            "total": len(y),
            "digest": self.new.digest,
            "best": best_of(y, self.old.targets, self.toward),
            "agreement": [None if each is None else each.state() for each in agreed],
        }

    def _save(
        self, run: Run, agreed: Sequence[Agreement | None], gp: Process | SeparateGP, repeats: int, equal: int
    ) -> None:
        """Write the new model, and keep the old one as an earlier round."""
        new, metadata = self.new, self.old.metadata
        old = dict(zip(_OF_LABELS, self.old.arrays(*_OF_LABELS), strict=True))
        y = np.concatenate([old["labels"], new.y])
        old_smiles, _ = labelled_smiles(self.old)
        smiles = [*(old_smiles or [""] * len(old["labels"])), *new.smiles]
        number = len(self.rounds)
        self.rounds.append(self._round(agreed))
        counts = dict(metadata["labels"])
        more = {"matched": len(new.y), "repeats": repeats, "equal_repeats": equal, "dropped": new.dropped}
        if new.side is not None:
            sides = {
                LOWER_LIMITS: np.count_nonzero(new.side > 0),
                UPPER_LIMITS: np.count_nonzero(new.side < 0),
            }
            more |= {name: int(n) for name, n in sides.items() if n}
        counts |= {name: int(counts.get(name, 0)) + n for name, n in more.items()}
        spec = metadata["spec"]
        spec = {**spec, "rows": len(y), "labels": hash_of([spec["labels"], new.digest])}
        arrays = {
            **gp.arrays(),
            "labelled_rows": np.concatenate([old["labelled_rows"], new.row]),
            "labels": y,
            **self._limits(),
            SMILES: smiles_array(smiles),
        }
        whole: ModelMetadata = {
            **metadata,
            "gp": {**gp.state(), "feature_map": None},
            "labels": counts,
            "range": np.column_stack([np.nanmin(y, 0), np.nanmax(y, 0)]).tolist(),
            "spec": spec,
            "spec_hash": self._identity,
            "rounds": self.rounds,
        }
        arrays |= residual_arrays(gp, arrays, whole)
        if self.toward != self.old.directions:
            whole = redirected(whole, y, self.toward)
            self.rounds = whole["rounds"]
            self._redirected()
        if (classes := self._classes(run, gp, y)) is not None:
            whole["classes"] = classes
        keep_round(self.output, self.path, number, self.old.saved.group)
        save_model(self.output, arrays, whole)

    def _limits(self) -> dict[str, npt.NDArray[np.float64] | npt.NDArray[np.int8]]:
        """Return limits and sides of all labels, if any are limits."""
        shape = len(self.old.arrays("labels")[0]), len(self.old.targets)
        bound, side = np.full(shape, np.nan), np.zeros(shape, np.int8)
        if LIMITS in self.old.saved.entries:
            bound, side = self.old.arrays(LIMITS, LIMIT_SIDES)
        elif self.new.side is None:
            return {}
        new = self.new.bound, self.new.side
        if new[0] is None or new[1] is None:
            new = np.full(self.new.y.shape, np.nan), np.zeros(self.new.y.shape, np.int8)
        return {LIMITS: np.concatenate([bound, new[0]]), LIMIT_SIDES: np.concatenate([side, new[1]])}

    def _classes(
        self, run: Run, gp: Process | SeparateGP, y: npt.NDArray[np.float64]
    ) -> list[ClassTargetState | None] | None:
        """Return the classes of each target with all labels; links of exact processes are fitted again.

        None if no target is two classes.
        """
        if not any(self.old.classes):
            return None
        states: list[ClassTargetState | None] = []
        for t, each in enumerate(self.old.classes):
            if each is None:
                states.append(None)
                continue
            process, _ = process_of(gp, t)
            values, link = y[np.isfinite(y[:, t]), t], each.link
            if isinstance(process, ExactGP):
                link = link_of_exact(run, process, run.work / f"target-{t}")
            elif link is not None:
                name = printable(self.old.targets[t], 60)
                self.notes.append(f"{name}: the fit's function from means to probabilities is kept")
            new = replace(each, n_positive=int(values.sum()), n_labels=len(values), link=link)
            states.append(new.state())
        return states

    def _redirected(self) -> None:
        """Note which directions are new."""
        new = {name: way for name, way in self.toward.items() if self.old.directions.get(name) != way}
        self.notes += [f"the direction of '{printable(name, 60)}' is {way} now" for name, way in new.items()]

    def _repeats(self) -> tuple[int, int]:
        """Return how many new labels are of molecules with a label, and how many have the same value."""
        old_smiles, _ = labelled_smiles(self.old)
        new = canonical_smiles(self.new.smiles)
        alike = KnownStructures(new).among(old_smiles)
        some = [i for i, there in enumerate(alike) if there]
        names = canonical_smiles([old_smiles[i] for i in some])
        (y,) = self.old.arrays("labels")
        values = {(name, y[i].tobytes()) for name, i in zip(names, some, strict=True)}
        labelled, repeats, equal = set(names), 0, 0
        for name, labels in zip(new, self.new.y, strict=True):
            repeats += name in labelled
            equal += (name, labels.tobytes()) in values
            labelled.add(name)
            values.add((name, labels.tobytes()))
        return repeats, equal

    def _agreement(self) -> list[Agreement | None]:
        """Compare the new labels of each target with their predictions by the old model."""
        feature_map = feature_map_of(self.old)
        agreements: list[Agreement | None] = []
        for t in range(len(self.old.targets)):
            process, column = process_of(self.old.gp, t)
            there = np.isfinite(self.new.y[:, t])
            if not there.any():
                agreements.append(None)
                continue
            X, y = self.new.X[there], self.new.y[there, t]
            if isinstance(process, FeatureSpaceGP):
                process.feature_map_ = feature_map
            if self.old.classes[t] is not None:
                self.notes.append(self._agreement_of_classes(t, process, column, X, y))
                agreements.append(None)
                continue
            mean, std = process.predict(X, return_std=True, target=column)

            def covariance(
                rows: npt.NDArray[np.int64],
                process: TargetProcess = process,
                column: int = column,
                X: Matrix = X,
            ) -> npt.NDArray[np.float64]:
                joint = process.predict(X[rows], return_cov=True)[1]
                return joint if joint.ndim == 2 else joint[:, :, column]

            most = {"most": _FEW_JOINTLY} if getattr(process, "solver_", "") == "cg" else {}
            agreements.append(agreement(y, mean, std, covariance, **most))
            self._check(t, y, mean, std)
        return agreements

    def _agreement_of_classes(
        self, t: int, process: TargetProcess, column: int, X: Matrix, y: npt.NDArray[np.float64]
    ) -> str:
        """Return how many new labels are positive, beside the number that the old model expected."""
        name, link = printable(self.old.targets[t], 60), self.old.link_of(t)
        first = f"{name}: {int(y.sum()):,} of {amount(len(y), 'new labels')} are positive"
        if link is None:
            return first
        mean, std = process.predict(X, return_std=True, of="f", target=column)
        probability = link(mean, std)
        figures = measured_classes(y, probability, probability)
        auc = "" if np.isnan(figures["auc"]) else f", and an AUC of {figures['auc']:.2f}"
        return (
            f"{first}, and the model expected {probability.sum():.1f}; its probabilities have a log loss of "
            f"{figures['log_loss']:.3f}{auc}"
        )

    def _check(
        self,
        t: int,
        y: npt.NDArray[np.float64],
        mean: npt.NDArray[np.float64],
        std: npt.NDArray[np.float64],
    ) -> None:
        """Refuse labels that the model finds impossible, or note them if they are accepted."""
        (labels,) = self.old.arrays("labels")
        earlier = labels[np.isfinite(labels[:, t]), t]
        wrong = np.flatnonzero(impossible(y, mean, std, earlier))
        if not len(wrong):
            return
        smiles = [self.new.smiles[i] for i in np.flatnonzero(np.isfinite(self.new.y[:, t]))]
        examples = "; ".join(
            f"{y[i]:.6g} of {printable(smiles[i], 60)}, predicted {mean[i]:.4g} +- {std[i]:.2g}"
            for i in wrong[:_EXAMPLES].tolist()
        )
        text = (
            f"{len(wrong):,} of {len(y):,} labels of '{printable(self.old.targets[t], 60)}' are impossible "
            f"according to the model, whose labels are from {earlier.min():.6g} to {earlier.max():.6g}: "
            f"{examples}"
        )
        if not (self.options.accept_outliers or self.dry_run):
            raise InputError(
                f"{self.labels}: {text}. Correct them or leave them out, or add them as they are with "
                "--accept-outliers (accept_outliers=True); nothing was added"
            )
        refused = "" if self.options.accept_outliers else "; they are refused without --accept-outliers"
        self.notes.append(f"{text}{refused}")

    def _solved(self, run: Run) -> Process | SeparateGP:
        """Return the process of all labels, or one for each set of targets."""
        gp = self.old.gp
        if isinstance(gp, CoregionalizedGP):
            return self._solved_together(run, gp)
        parts: list[tuple[Process, tuple[int, ...]]] = (
            list(zip(gp.parts, gp.targets, strict=True))
            if isinstance(gp, SeparateGP)
            else [(gp, tuple(range(len(self.old.targets))))]
        )
        solved = [self._solved_part(run, process, targets) for process, targets in parts]
        return SeparateGP(solved, gp.targets) if isinstance(gp, SeparateGP) else solved[0]

    def _solved_together(self, run: Run, gp: CoregionalizedGP) -> CoregionalizedGP:
        """Return a process of several targets with more labels of any of them; its kernel stays."""
        if self.new.side is not None and self.new.side.any():
            raise InputError(
                f"{self.labels} holds limits, and targets that are modelled together take measured values "
                "alone; leave limits out with --censored drop, take their numbers as measured with "
                "--censored value, or fit all labels again, each target to its own (--no-together)."
            )
        (labels,) = self.old.arrays("labels")
        first = np.concatenate([[0], np.cumsum(np.isfinite(labels).sum(axis=1))[:-1]])
        rows = gp.rows_of_labels_
        there = self.new.has_label.any(axis=1)
        X = sparse.vstack([rows[first], self.new.X[there]], format="csr", dtype=rows.dtype)
        y = np.concatenate([labels, self.new.y[there]])
        if any(each is not None and _is_outgrown(each, len(y)) for each in gp.kernel_choices_):
            self.notes.append(
                "the kernel was chosen with far fewer labels, and stays; to compare kernels, fit all labels "
                "again"
            )
        run.progress.start("solve", 1, "models")
        more: CoregionalizedGP = clone(gp).fit(X, y)
        more.kernel_choices_ = gp.kernel_choices_
        run.progress.advance(1)
        return more

    def _solved_part(self, run: Run, process: Process, targets: tuple[int, ...]) -> Process:
        """Return one process with the new labels of its targets."""
        if isinstance(process, ExactGP):
            return self._solved_exactly(run, process, targets[0])
        assert isinstance(process, FeatureSpaceGP)
        y, bound, sides = self.new.y[:, list(targets)], None, None
        if len(targets) == 1:
            bound, sides = self.new.limits_of(targets[0], np.arange(len(y)))
        elif self.new.side is not None and self.new.side[:, list(targets)].any():
            names = listed([self.old.targets[t] for t in targets], "'")
            raise InputError(
                f"The targets {names} share the sums of this model, which limits are no part of, and "
                f"{self.labels} holds limits; fit all labels again: then each target with limits gets sums "
                "for itself."
            )
        if sides is not None and not process.takes_limits:
            raise InputError(
                f"{self.labels} holds limits, and the process of this model's map takes measured values "
                "alone; leave limits out with --censored drop, or take their numbers as measured with "
                "--censored value"
            )
        if sides is not None and bound is not None:
            y = np.where(sides != 0, bound, y[:, 0])[:, None]
        there = np.isfinite(y).all(axis=1)
        if (np.isfinite(y).any(axis=1) & ~there).any():
            names = listed([self.old.targets[t] for t in targets], "'")
            raise InputError(
                f"The targets {names} share the sums of this model, so each molecule needs labels of all of "
                f"them, and {self.labels} lacks some; leave these molecules out, or fit all labels again: "
                "then each target with gaps gets its own sums."
            )
        if not there.any():
            return process
        X, y = self.new.X[there], y[there]
        run.progress.start("solve", 1, "models")
        process.feature_map_ = feature_map_of(self.old)
        try:
            process.partial_fit(X, y, side=None if sides is None else sides[there])
        except CoarseSumsError:
            raise InputError(
                "These labels have so little noise that the sums must be made again in double precision: "
                "fit all labels again."
            ) from None
        run.progress.advance(1)
        return process

    def _solved_exactly(self, run: Run, process: ExactGP, target: int) -> ExactGP:
        """Return an exact process with more labels; its kernel is chosen again if they have doubled."""
        rows = np.flatnonzero(self.new.has_label[:, target])
        if not len(rows):
            return process
        whole = sparse.vstack(
            [process.X_train_, self.new.X[rows]], format="csr", dtype=process.X_train_.dtype
        )
        y, (bound, new_side) = self.new.y[rows, target], self.new.limits_of(target, rows)
        old_side, side = process.side_, None
        if old_side is not None or new_side is not None:
            parts = (old_side, len(process.y_train_)), (new_side, len(rows))
            side = np.concatenate([np.zeros(n, np.int8) if each is None else each for each, n in parts])
        if new_side is not None:
            y = np.where(new_side != 0, bound, y)
        values = np.concatenate([process.y_train_, y])
        choice, unfitted, columns = process.kernel_choice_, _unfitted(process), None
        if choice is not None and _is_outgrown(choice, len(values)):
            columns = FingerprintSpec.from_state(self.old.metadata["fingerprint"]).columns
            chosen = {name: None for name, v in choice.variances.items() if getattr(unfitted, name) == v}
            unfitted.set_params(kernel=choice.asked or unfitted.kernel, **chosen)
            run.progress.note(
                f"The kernel was chosen with {amount(choice.n_rows, 'labels')}; with {len(values):,} it is "
                "chosen again."
            )
        run.progress.start("solve", 1, "models")
        folder, start = run.work / f"target-{target}", None if columns is not None else process
        (gp,) = solve_exact(run, unfitted, [Equations(whole, values, folder, start, side)], columns=columns)
        if columns is None:
            gp.kernel_choice_ = choice
        elif gp.kernel_choice_ is not None:
            self.choices.append((self.old.targets[target], gp.kernel_choice_))
        return gp

    def _report(self, run: Run, agreed: Sequence[Agreement | None], repeats: int, equal: int) -> AddReport:
        last = self.rounds[-1]
        new = _NOTHING if self.labels is None else self.new
        warnings = [*self.notes, *([f"the first unusable molecule is {new.reason}"] if new.reason else [])]
        lacking = [name for t, name in enumerate(self.old.targets) if t not in self.target_indices]
        if lacking and self.labels is not None:
            stay = "" if isinstance(self.old.gp, CoregionalizedGP) else ", which stay as they were"
            warnings.append(f"no labels of {listed(lacking, chr(39))}{stay}")
        return AddReport(
            model=self.output,
            n_added=0 if self.done else len(new.y),
            n_labels=last["total"],
            rejected=new.rejected,
            dropped=new.dropped,
            unmatched=new.unmatched,
            repeats=repeats,
            equal_repeats=equal,
            agreement=tuple(agreed),
            rounds=tuple(self.rounds),
            targets=tuple(self.old.targets),
            added=not self.done,
            seconds=run.seconds,
            warnings=tuple(warnings),
            inputs=(self.words,) if self.words else (),
            choices=tuple(self.choices),
            dry_run=self.dry_run,
            merged=new.merged,
            repeats_as=new.merged_as if new.merged else repeats_of(self.old, self.options),
        )


@dataclass
class _Undo(Job[AddReport]):
    """The job of taking back rounds; `number` is the last one to stay, by default the last but one."""

    output: PurePath
    number: int | None
    rounds: list[RoundRecord] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    dry_run: bool = False
    old: Model = field(init=False)

    name = "add"

    def plan(self, run: Run) -> None:
        """Read the model."""
        self.old = read_model(self.output, statistics=False)
        self.rounds = rounds_of(self.old)
        if self.number is None and is_restored(self.output, len(self.rounds)):
            self.number = len(self.rounds)
            self.notes.append("an earlier run, which was stopped, had taken back a round")
        if self.number is None:
            self.number = len(self.rounds) - 1
            if not self.number:
                raise InputError(f"{self.output} has only the labels of its fit; there is no round to undo.")
        if not 1 <= self.number <= len(self.rounds):
            raise OptionError(
                f"{self.output} has rounds 1 to {len(self.rounds)}; --to-round is one of them, not "
                f"{self.number}."
            )

    def pieces(self, run: Run) -> Sequence[Pieces]:
        """Return none."""
        return []

    def finish(self, run: Run, made: int) -> AddReport:
        """Put the record of the round back; the directions stay as they are now."""
        assert self.number is not None
        undone = self.rounds[self.number :]
        if self.dry_run:
            pass
        elif not undone:
            tidy_rounds(self.output, len(self.rounds))
        else:
            restore_round(self.output, self.number, len(self.rounds))
            saved = load_model(self.output)
            if saved.metadata.get("directions", {}) != self.old.directions:
                metadata = redirected(saved.of_model, saved.arrays["labels"], self.old.directions)
                save_model(self.output, saved.arrays, metadata)
        there = rounds_of(read_model(self.output, statistics=False))
        rounds = self.rounds[: self.number] if self.dry_run else there
        nothing: list[Agreement | None] = [None] * len(self.old.targets)
        return AddReport(
            model=self.output,
            n_added=0,
            n_labels=rounds[-1]["total"],
            rejected=0,
            dropped=0,
            unmatched=0,
            repeats=0,
            equal_repeats=0,
            agreement=tuple(nothing),
            rounds=tuple(rounds),
            targets=tuple(self.old.targets),
            added=False,
            seconds=run.seconds,
            n_undone=sum(each["labels"] for each in undone),
            warnings=tuple(self.notes),
            dry_run=self.dry_run,
        )


_EXAMPLES = 3  # impossible labels that are shown
_OF_LABELS = ("labelled_rows", "labels")
_NOTHING = NewLabels(
    [], np.empty(0, np.int64), np.empty((0, 0)), None, np.empty(0, np.int64), np.empty(0, np.int64)
)


def _unfitted(process: ExactGP) -> ExactGP:
    """Return an exact process with the options of a fitted one; instead of factorizing it may iterate."""
    unfitted: ExactGP = clone(process)
    return unfitted.set_params(solver="auto") if process.solver_ == "cholesky" else unfitted


def _is_outgrown(choice: KernelChoice, n_labels: int) -> bool:
    """Return whether there are so many more labels that another kernel may be better."""
    return n_labels >= _CHOOSE_AGAIN * choice.n_rows and choice.n_rows < _MOST_CHOSEN
