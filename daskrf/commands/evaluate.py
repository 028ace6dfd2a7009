"""Labels -> cross-validation of a model of them, beside simple baselines."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from distributed import Client

from daskrf import seeds
from daskrf.arrays import Matrix, column_slice
from daskrf.commands.fit import CLI as FIT
from daskrf.commands.fit import (
    Direction,
    Key,
    Paths,
    ProcessName,
    key_by_default,
    training_of,
)
from daskrf.errors import InputError, OptionError, printable
from daskrf.features import FeatureMap
from daskrf.files.backend import as_path
from daskrf.files.disk import work_folder
from daskrf.fitting.costs import need_of_solve
from daskrf.fitting.exactsolve import need_of_gathering
from daskrf.fitting.externalset import ExternalSet, ExternalTarget
from daskrf.fitting.fitsahead import FitsAhead
from daskrf.fitting.heldout import ExactHeldOut, FeaturesHeldOut, HeldOutFit, Process
from daskrf.fitting.newlabels import LabelOptions, LabelReader
from daskrf.fitting.training import Training
from daskrf.gp.choice.metricchoice import learns_metric
from daskrf.gp.sums.folds import Folds, equal_rows, ordered_folds, random_folds
from daskrf.gp.validation.baselines import nearest_neighbour, random_forest
from daskrf.gp.validation.errordistribution import words_of_heavier_tails
from daskrf.gp.validation.intervals import LEVELS, checked_levels, interval_factor, levels_of
from daskrf.jobs.job import Job, Need, Run, run
from daskrf.jobs.pieces import Pieces
from daskrf.jobs.tree import Tree
from daskrf.kernels import Kernel
from daskrf.measurements import Reading, read_column
from daskrf.models.classtargets import ClassTarget
from daskrf.models.directions import check_conventions, directions_of
from daskrf.models.everylabel import EveryLabel
from daskrf.models.models import feature_map_of, read_model
from daskrf.molecules.counts.spec import FingerprintSpec
from daskrf.molecules.diversity import scaffolds
from daskrf.parameters import Command, Option
from daskrf.quantities import amount, features_words, listed
from daskrf.report.evaluation import (
    FOREST,
    MEAN,
    MODEL,
    NEAREST,
    CurvePoint,
    EvaluationReport,
    Figure,
    TargetEvaluation,
)
from daskrf.report.judged import Array, Judged, Predictions, Rows
from daskrf.report.limits import Limits
from daskrf.report.plots import Panels, plot_evaluation
from daskrf.sources.given import Data
from daskrf.sources.sources import making_of
from daskrf.storage.descriptions import kinds_words
from daskrf.storage.hits import write_hits, write_recorded
from daskrf.storage.kinds import kind_of
from daskrf.storage.labels import match_labels
from daskrf.storage.outputs import guarded, refuse_others
from daskrf.storage.tablefiles import check_ending
from daskrf.tables import given_words
from daskrf.tables.values.classes import ClassWords
from daskrf.tables.values.order import ordinals
from daskrf.tables.values.repeats import Repeats
from daskrf.tables.values.values import scales_in
from daskrf.workers.progress import Progress, Within


def _check_map(feature_map: FeatureMap | None, source: Paths) -> None:
    """Refuse a map that does not support the fingerprint store `source`; a model has its own."""
    if FIT.check is not None and kind_of(as_path(source), missing_ok=True) != "model":
        FIT.check(feature_map, source)


def _worth_workers(source: Paths, labels: Paths | None) -> bool:
    """Return whether workers save time: as in `fit`, and not for a model, which predicts a few labels."""
    if kind_of(as_path(source), missing_ok=True) == "model":
        return False
    return FIT.workers_for is None or FIT.workers_for(source, labels)


CLI = Command(
    "daskrf evaluate docking.csv --target score --split scaffold",
    step=3,
    options={
        **FIT.options,
        "folds": Option(least=1),
        "split": Option(metavar="random|scaffold|COLUMN"),
        "seed": Option(least=0),
        "intervals": Option(metavar="50,80,95", convert=levels_of),
    },
    check=_check_map,
    workers_for=_worth_workers,
    prints=True,
)

_SPLITS = ("random", "scaffold")
_PICTURES = (".png", ".svg", ".pdf")
_CURVE = (8, 4, 2)  # parts of the labels of a learning curve
_FOREST_SECONDS = 2e-3  # of a random forest, times the labels that it learns from
_FEWEST = 20  # labels of its first point
_CLASSES = (
    "the probability of a 1 is a function of the predicted mean that is fitted to the other folds (to "
    "earlier folds, if they have an order), since this model has no probabilities"
)
_BASELINES = (
    "probabilities are those that predict gives; those of the other predictors are a function of their "
    "means that is fitted to the other folds (to earlier folds, if they have an order)"
)
_CLASSES_OF_PARTS = (
    "the probability of a 1 is a function of the predicted mean that is fitted to the other parts of these "
    "labels, since this model has no probabilities"
)
_BASELINES_OF_PARTS = (
    "probabilities are those that predict gives; those of the nearest neighbour are a function of its label "
    "that is fitted to the other parts of these labels"
)
_PAIRS = 2e10  # similarities that nearest neighbours may take: some minutes


def evaluate(
    source: Data,
    labels: Data | None = None,
    *,
    output: Paths | None = None,
    picture: Paths | None = None,
    folds: int | None = None,
    split: str | None = None,
    baseline: Literal["forest"] | None = None,
    learning_curve: bool = False,
    spec: FingerprintSpec | None = None,
    feature_map: FeatureMap | None = None,
    process: ProcessName = "auto",
    kernel: Kernel | None = None,
    quick: bool = False,
    key: Key | None = None,
    key_column: str | int | None = None,
    target: str | int | Sequence[str | int] | None = None,
    transform: str | Mapping[str, str] | None = None,
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
    classes: bool = True,
    mean: float | None = None,
    signal_variance: float | None = None,
    noise_variance: float | None = None,
    direction: Direction | Mapping[str, str] | None = None,
    confirm_direction: bool = False,
    library: Paths | None = None,
    seed: int = 0,
    every_row: bool | None = None,
    intervals: float | Sequence[float] | None = None,
    overwrite: bool = False,
    client: Client | None = None,
    progress: Progress | None = None,
    **model_options: object,
) -> EvaluationReport:
    """Cross-validate a model of the labels, or judge an existing model by labels it was not fitted to.

    For each fold, fits the model that fit would, but without the labels of the fold, and predicts them. So
    every figure is for molecules that the model had not seen. Copies of a molecule are always left out
    together. Mean and variances are fitted in each fold, and the kernel is chosen in each unless you name
    one. Above 1,000 labels the kernel is chosen once, on all labels, which hardly changes the figures. The
    baselines are the mean of the labels and the label of the most similar molecule: a model worth having
    beats both.

    If the first argument is a model, as written by fit, it predicts the labels as it is; nothing is fitted.
    Targets, transforms, units and directions are those of the model. Molecules that the model was fitted to
    are left out of the figures.

    Parameters
    ----------
    source : path
        A file of labels with SMILES; or a fingerprint store or a model, if labels follow.
    labels : path, optional
        As in `fit`; for a model as in `add`.
    output : path, optional
        File for the predictions of all labels, each by a model that was fitted without it: .csv, .parquet,
        .sdf or .smi.
    picture : path, optional
        File for a picture: predictions against labels, and the calibration of the error bars; .png, .svg or
        .pdf.
    folds : int, optional
        Number of folds; each is left out once. Default: 5.
    split : str, optional
        How to choose the folds: "random" (the default); "scaffold", which puts each Murcko scaffold in one
        fold only, so that the model has never seen the scaffolds that it predicts; or a column of the labels
        with dates or numbers, by which the labels are sorted, and each fold is predicted from those before
        it.
    baseline : {"forest"}, optional
        Also compare with scikit-learn's random forest of 300 trees on the same fingerprints.
    learning_curve : bool
        Also fit to an eighth, a quarter and a half of the labels, to see whether more labels would help.
    spec, feature_map, process, kernel, quick, key, key_column, target
        As in `fit`.
    transform, unit, censored, drop_non_numbers, accept_rejects, drop_outside, drop_value, accept_outliers
        As in `fit`.
    replicates, replicate_std, replicate_sem
        As in `fit`.
    repeats : {"all", "best", "mean", "median"}, optional
        As in `fit`. Default: "all", or for a model as in its fit.
    positive : str, or sequence of str
        As in `fit`; for a model only if the labels name their classes by other words.
    classes : bool
        As in `fit`.
    mean, signal_variance, noise_variance, direction, confirm_direction
        As in `fit`.
    library : path, optional
        For a model, and labels by ID: the fingerprint store with the molecules, if that of the model has
        moved.
    seed : int
        Seed of the random folds.
    every_row : bool, optional
        Give each row of the labels its own row in the predictions, in order. If a row has no prediction, its
        numbers are NaN (empty in text), and the column reason says why. With `repeats`, all rows of a
        molecule have its one label. Default: only for labels in memory.
    intervals : float or sequence of float, optional
        Levels in percent, such as 50,80,95: columns low_95 and high_95 of the predictions, as in `predict`,
        each from what its model was fitted to.
    overwrite : bool
        Replace files at `output` and `picture`.
    client, progress
        As in `fit`. Workers make the fingerprints; the models are always fitted without workers.
    **model_options
        As in `fit`.

    Returns
    -------
    EvaluationReport

    Raises
    ------
    InputError
        If labels cannot be read, match no molecule, are all the same, or cannot be cut into that many folds.
    StoreError
        If there is a file at `output` or `picture`.
    MemoryLimitError
        If it would not fit into memory.
    """
    path, files = as_path(source), _files(output, picture, overwrite=overwrite)
    seeds.check_seed(seed)
    options = LabelOptions(
        key=key,
        key_column=key_column,
        target=[target] if isinstance(target, (str, int)) else target,
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
    fixed = {"mean": mean, "signal_variance": signal_variance, "noise_variance": noise_variance}
    how: dict[str, Any] = {"spec": spec, "feature_map": feature_map, "process": process, "kernel": kernel}
    toward: dict[str, Any] = {"direction": direction, "confirm_direction": confirm_direction}
    common: dict[str, Any] = {"files": files, "seed": seed, "every_row": bool(every_row)}
    common["levels"] = () if intervals is None else checked_levels(intervals)
    if kind_of(path, missing_ok=True) == "model":
        refits = fixed | how | {"folds": folds, "split": split, "baseline": baseline, "transform": transform}
        refits |= {"classes": None if classes else False}
        refits |= {"learning_curve": learning_curve or None, "quick": quick or None, **model_options}
        _check_model(path, labels, options, refits)
        with _place(files.table, files.picture) as place:
            external = _EvaluateModel(place, path, cast(Paths, labels), options, library, **toward, **common)
            return run(external, None, progress)
    folds, split = 5 if folds is None else folds, split or "random"
    _check(path, labels, folds, split, library)
    with _place(files.table, files.picture) as place:
        training = training_of(
            path,
            None if labels is None else as_path(labels),
            work_folder(place) / "model",
            **how,
            **toward,
            quick=quick,
            reading=_reading(options, labels, transform, direction, classes=classes),
            any_key=key is None,
            poses=repeats is None and replicates is None,
            fixed=fixed,
            client=client,
            model_options=model_options,
        )
        job = _Evaluate(
            output=place,
            training=training,
            n_folds=folds,
            split=split,
            forest=baseline == "forest",
            learning_curve=learning_curve,
            **common,
        )
        return run(job, client, progress)


def _reading(
    options: LabelOptions, labels: Data | None, transform: Any, direction: Any, *, classes: bool
) -> Reading:
    """Return how to read the labels of models that are fitted here."""
    values = {each.name: getattr(options, each.name) for each in fields(options)}
    values["repeats"] = repeats = options.repeats or "all"
    values["key"] = options.key or key_by_default(labels, repeats)
    values["targets"] = values.pop("target")
    best = direction if repeats == "best" else None
    return Reading(**values, transform=transform, best=best, classes=classes)


def _check_model(
    model: PurePath, labels: Data | None, options: LabelOptions, refits: Mapping[str, object]
) -> None:
    """Refuse a model without labels, or with options that say how to fit: it predicts as it is."""
    if labels is None:
        raise InputError(f"{model} is a model; give the labels to judge it by, too.")
    options.check()
    names = [name for name, value in refits.items() if value not in (None, "auto")]
    if names:
        flags = [f"--{'map' if name == 'feature_map' else name.replace('_', '-')}" for name in names]
        raise OptionError(
            f"{model} is a model, and predicts as it is: leave out {listed(flags)}, which "
            f"{'is' if len(names) == 1 else 'are'} for models that are fitted here."
        )


def _check(source: PurePath, labels: Data | None, folds: int, split: str, library: Paths | None) -> None:
    """Refuse what cannot be evaluated, before anything is read."""
    if folds < (least := 2 if split in _SPLITS else 1):
        raise OptionError(f"--folds must be at least {least}, not {folds}.")
    if library is not None:
        raise OptionError("--library (library) is for a model; name the library first, then the labels.")
    if kind_of(source, missing_ok=True) == "features" and labels is not None:
        raise InputError(
            f"{source} holds features, and similarities need fingerprints; give the fingerprint store."
        )


@contextmanager
def _place(*files: PurePath | None) -> Iterator[PurePath]:
    """Yield the file beside which unfinished work is left, or one in a folder that is deleted at the end."""
    if file := next(filter(None, files), None):
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="daskrf-") as folder:
        yield as_path(folder) / "evaluation"


def _files(output: Paths | None, picture: Paths | None, *, overwrite: bool) -> _Outputs:
    """Return the files to write; refuse endings that are not known."""
    table, image = (None if path is None else as_path(path) for path in (output, picture))
    if table is not None:
        check_ending(table)
    if image is not None and image.suffix.lower() not in _PICTURES:
        raise OptionError(f"The picture {image} must end in .png, .svg or .pdf.")
    return _Outputs(table, image, overwrite)


@dataclass(frozen=True)
class _Outputs:
    """The files of an evaluation."""

    table: PurePath | None
    picture: PurePath | None
    overwrite: bool

    def refuse_others(self, run: Run) -> None:
        """Refuse to replace files of others."""
        for path in filter(None, (self.table, self.picture)):
            refuse_others(path, run.work, overwrite=self.overwrite)

    def write(
        self,
        run: Run,
        report: EvaluationReport,
        panels: Sequence[Panels],
        about: Mapping[str, Any],
        made: str,
    ) -> None:
        """Write the table and the picture, if they are wanted."""
        if self.table is not None:
            before = guarded(self.table, run.work, overwrite=self.overwrite)
            write_hits(report.table, self.table, {**about, "made": made}, kind="evaluation", before=before)
        if (picture := self.picture) is not None:

            def plot(file: Path) -> None:
                plot_evaluation(file, panels, picture.suffix[1:].lower())

            before = guarded(picture, run.work, overwrite=self.overwrite)
            drawn = {**about, "made": "picture of an evaluation"}
            write_recorded(picture, plot, drawn, "picture", before)


@dataclass
class _Evaluate(Job[EvaluationReport]):
    """The job of an evaluation; `training` is what a fit to all labels is made from."""

    output: PurePath
    training: Training
    files: _Outputs
    n_folds: int
    split: str
    forest: bool
    learning_curve: bool
    seed: int
    every_row: bool
    levels: tuple[float, ...]
    tree: Tree = field(init=False)
    order: Array = field(init=False)

    name = "evaluate"

    @property
    def locked(self) -> PurePath:
        """The output is a file."""
        return work_folder(self.output)

    def plan(self, run: Run) -> None:
        self.files.refuse_others(run)
        self.training.plan(run)
        if self.split not in _SPLITS:
            self.order = self._order()

    def need(self) -> Need:
        need = self.training.need()
        if self.training.exact is not None:
            return need
        making, n_labels = making_of(self.training.features), len(self.training.joined.row)
        return Need(
            worker=need_of_gathering(making, n_labels),
            finish=need_of_solve(making, n_labels, n_sums=2 + self.n_folds, n_limits=self.training.n_limits),
        )

    def pieces(self, run: Run) -> list[Pieces]:
        self.tree = self.training.gathering()
        return [self.tree]

    def finish(self, run: Run, made: int) -> EvaluationReport:
        joined, X = self.training.joined, self.tree.result()
        molecules = self._molecules()
        folds, words = self._folds(X, molecules["smiles"].to_pylist())
        columns: dict[str, object] = {name: molecules[name] for name in molecules.column_names}
        targets: list[_Target] = []
        for t, name in enumerate(joined.names):
            of_target = joined.of_target(t)
            there = of_target.rows
            target_folds = Folds(folds.block[there], folds.n_blocks, folds.ordered)
            repeats = len(there) - len(np.unique(joined.row[there]))
            place = run.work / f"target-{t}"
            target = _Target(
                job=self,
                run=run,
                name=name,
                X=X[there],
                y=of_target.y,
                side=np.zeros(len(there), np.int8) if of_target.side is None else of_target.side,
                folds=target_folds,
                folder=place,
                repeats=repeats,
            )
            targets.append(target)
            columns[_label_column(name, joined.names)] = _column(target.judged.y, there, len(joined.y), "")
            columns |= _limit_columns(name, joined.names, target.limits, there, len(joined.y))
            for kind, values in target.judged.columns().items():
                columns[_name(kind, name, joined.names)] = _column(values, there, len(joined.y), kind)
        table = pa.table(columns)
        if self.every_row:
            training = self.training
            path, store = as_path(training.labels), training.features.store
            rows = EveryLabel.of(path, training.reading, joined, store, training.id_column)
            table = rows.table(table, [_name("fold", name, joined.names) for name in joined.names])
        report = EvaluationReport(
            targets=tuple(target.evaluation for target in targets),
            split=words,
            n_folds=len(folds),
            n_molecules=joined.n_molecules,
            labels=str(joined),
            seconds=run.seconds,
            table=table,
            output=self.files.table,
            picture=self.files.picture,
            inputs=(self.training.words, *self._together_words()),
            fingerprints=kinds_words(self.training.features.store.spec["fingerprint"]),
        )
        labels = self.training.labels
        about = {
            "target": list(joined.names),
            "source_kind": "labels",
            "source": given_words(labels) or as_path(labels).name,
            "library": joined.digest,
            "notes": [report.split],
        }
        words = f"predictions of {amount(len(joined.row), 'labels')}, each left out of the fit"
        panels = [target.judged.panels(target.name, target.evaluation.curve) for target in targets]
        self.files.write(run, report, panels, about, words)
        run.progress.finish()
        return report

    def _together_words(self) -> tuple[str, ...]:
        """Say what targets of an exact process learn from, which may be more in a model that is fitted."""
        if self.training.exact is None or len(self.training.joined.names) == 1:
            return ()
        return (
            "each target is judged by a process of its own labels; fit may model targets together, which "
            "predicts molecules with labels of other targets better",
        )

    def _molecules(self) -> pa.Table:
        """Return row, ID and SMILES of the molecule of each label."""
        source, rows = self.training.features, self.training.joined.row
        bounds, tables = source.row_bounds, []
        for p in np.flatnonzero(np.diff(np.searchsorted(rows, bounds))):
            partition_rows = rows[slice(*np.searchsorted(rows, bounds[p : p + 2]))]
            tables.append(source.describe(int(p), np.unique(partition_rows)).select(["row", "id", "smiles"]))
        table = pa.concat_tables(tables)
        table = table.take(np.searchsorted(table["row"].to_numpy(), rows))
        return table if (column := self.training.id_column) is None else self._named(table, column)

    def _named(self, table: pa.Table, column: int) -> pa.Table:
        """Return the molecules of labels with IDs of their own; of several IDs the first."""
        row, texts = self._column(column)
        names = {number: text.strip() for number, text in zip(row[::-1].tolist(), texts[::-1], strict=True)}
        ids = [names.get(number) or f"row-{number}" for number in table["row"].to_pylist()]
        return table.set_column(table.schema.get_field_index("id"), "id", pa.array(ids, pa.string()))

    def _column(self, column: str | int) -> tuple[npt.NDArray[np.int64], list[str]]:
        """Return the library row of each line of the labels, -1 if it has none, and the text of a column."""
        labels, texts = read_column(self.training.labels, column, self.training.reading)
        store = self.training.features.store
        return match_labels(labels, store, range(store.n_partitions)).first_row[labels.index], texts

    def _order(self) -> Array:
        """Return the number or date of the molecule of each label; the smallest, if it has several."""
        named = self.split if isinstance(self.split, int) or not self.split.isdigit() else int(self.split)
        row, texts = self._column(named)
        rows = self.training.joined.row
        lines = np.flatnonzero(np.isin(row, rows))
        values = ordinals([texts[i] for i in lines], self.split)
        distinct, place = np.unique(row[lines], return_inverse=True)
        first = np.full(len(distinct), np.inf)
        np.minimum.at(first, place, values)
        return first[np.searchsorted(distinct, rows)]

    def _folds(self, X: Matrix, smiles: Sequence[str]) -> tuple[Folds, str]:
        """Return the folds of all labels, and how they were cut."""
        if self.split == "random":
            groups = equal_rows(X)
            copies = len(groups) - int(groups.max()) - 1
            stay = "stays" if copies == 1 else "stay"
            together = f"; {amount(copies, 'copies')} of other molecules {stay} with them" if copies else ""
            classes = self._classes()
            folds = random_folds(groups, self.n_folds, self.seed, classes=classes)
            stratified = ", each with its share of 1" if classes is not None else ""
            return folds, f"{len(folds)} folds at random{stratified}{together}"
        if self.split != "scaffold":
            folds = ordered_folds(self.order, equal_rows(X), self.n_folds, f"value(s) of '{self.split}'")
            first = int((folds.block == 0).sum())
            return folds, (
                f"{amount(len(folds), 'folds')} in the order of '{self.split}': each is predicted from those "
                f"before it; the first {amount(first, 'labels')} are never predicted"
            )
        names = scaffolds(smiles)
        groups = np.unique(names, return_inverse=True)[1]
        folds = random_folds(groups, self.n_folds, self.seed, "Murcko scaffold(s)")
        sizes, without = np.bincount(groups), int((names == "").sum())
        acyclic = f"; the {without:,} without rings count as one" if without else ""
        return folds, (
            f"{len(folds)} folds by Murcko scaffold: {amount(len(sizes), 'scaffolds')}, the largest with "
            f"{amount(int(sizes.max()), 'labels')}, none of them in two folds{acyclic}"
        )

    def _classes(self) -> npt.NDArray[np.intp] | None:
        """Return a number for the classes of each label, of all targets that are 0 and 1; none without."""
        y = self.training.joined.y
        words = self.training.joined.classes
        classes = [column for column, there in zip(y.T, words, strict=True) if there is not None]
        if not classes:
            return None
        return np.unique(np.nan_to_num(classes, nan=-1.0), axis=1, return_inverse=True)[1].reshape(-1)


_KINDS = ("fold", "limit", "mean", "std_y", "nearest", "similarity", "probability")


@dataclass
class _Target:
    """The evaluation of one target."""

    job: _Evaluate
    run: Run
    name: str
    X: Matrix
    y: Array
    side: npt.NDArray[np.int8]
    folds: Folds
    folder: PurePath
    repeats: int
    cautions: list[str] = field(default_factory=list)

    @cached_property
    def process(self) -> Process:
        """The model that is fitted without some of the labels."""
        training = self.job.training
        if training.exact is None:
            return FeaturesHeldOut(
                X=self.X,
                y=self.y,
                folder=self.folder,
                feature_map=training.features.feature_map,
                options=training.options,
                learns_metric=learns_metric(training.feature_map),
                side=self.side if self.side.any() else None,
                classes=self.words_of_classes is not None,
            )
        return ExactHeldOut(
            X=self.X,
            y=self.y,
            folder=self.folder,
            run=replace(self.run, progress=self.fit_progress),
            gp=training.exact,
            columns=training.kinds if training.searches else None,
            side=self.side if self.side.any() else None,
            classes=self.words_of_classes is not None,
        )

    @property
    def limits(self) -> Limits | None:
        """The limits among the labels."""
        return Limits(self.y, self.side) if self.side.any() else None

    def _measured(self, rows: Rows) -> Rows:
        """Return those of some rows whose labels were measured."""
        return rows[self.side[rows] == 0]

    @property
    def words_of_classes(self) -> ClassWords | None:
        """The words of the classes, if the labels are two classes."""
        joined = self.job.training.joined
        return dict(zip(joined.names, joined.classes, strict=True)).get(self.name)

    @property
    def probabilities(self) -> Array | None:
        """The probability of each label to be 1, as the model predicts it; None if it does not."""
        probability = np.full(len(self.y), np.nan)
        for (_, test), fit in zip(self.rows, self.held_out, strict=True):
            if fit.probability is None:
                return None
            probability[test] = fit.probability
        return probability

    @cached_property
    def fit_progress(self) -> Within:
        """The progress of a fit, which is a part of the stage of all fits."""
        return Within(self.run.progress)

    @cached_property
    def ahead(self) -> FitsAhead:
        """All fits, in their order."""
        sizes = [len(train) for train, _ in self.rows]
        seconds = list(map(self.process.seconds, sizes))
        if isinstance(self.process, ExactHeldOut):
            seconds[0] += self.process.seconds_of_choice(sizes)
        seconds += [_FOREST_SECONDS * n for n in sizes] if self.job.forest else []
        for divisor in self._divisors_of_curve():
            seconds += [self.process.seconds(n // divisor) for n in sizes]
        self.run.progress.start(f"evaluate {printable(self.name, 60)}", 0, "")
        return FitsAhead(seconds)

    def words(self) -> tuple[str, str]:
        """Return the model in words, and what was chosen on all labels."""
        kernels = Counter(fit.kernel for fit in self.held_out)
        kernel = " and ".join(
            f"{words} ({amount(n, 'folds')})" if len(kernels) > 1 else words for words, n in kernels.items()
        )
        in_fold = "mean and variances were fitted in each fold"
        if self.job.training.exact is None:
            feature_map = self.job.training.features.feature_map
            n, filled = feature_map.n_components, feature_map.n_filled
            words = f"{features_words(n if filled is None else filled, n)} of {kernel}"
            if learns_metric(self.job.training.feature_map):
                return words, f"metric, {in_fold}"
            return words, f"{self.job.training.choice_words}{in_fold}"
        process = f"an exact process with {kernel}"
        if not self.job.training.searches:
            return process, f"the kernel was given; {in_fold}"
        assert isinstance(self.process, ExactHeldOut)
        if self.process.chooses_for(max(len(train) for train, _ in self.rows)):
            return process, "kernel, mean and variances were fitted in each fold"
        return process, f"the kernel was chosen on all labels; {in_fold}"

    @cached_property
    def rows(self) -> list[tuple[Rows, Rows]]:
        """The rows that each fold learns from, and those that it predicts."""
        splits = [self.folds.rows(fold) for fold in range(len(self.folds))]
        for number, (train, test) in enumerate(splits, start=1):
            learned = self._measured(train)
            if not len(learned) or not len(self._measured(test)):
                measured = "measured " if self.side.any() else ""
                raise InputError(f"Fold {number} has no {measured}label of {self.name}; take fewer --folds.")
            if np.ptp(self.y[learned]) == 0:
                raise InputError(
                    f"All labels of {self.name} outside of fold {number} are the same "
                    f"({self.y[learned[0]]:g}), so nothing can be learned from them; take other --folds."
                )
        return splits

    def _each(self, stage: str) -> Iterator[tuple[int, Rows, Rows]]:
        """Yield each fold and its rows, and report the progress."""
        for fold, (train, test) in enumerate(self.rows):
            self.fit_progress.after = self.ahead.begin()
            self.fit_progress.doing = f"{stage}, fold {fold + 1} of {len(self.rows)}"
            self.fit_progress.expect(self.ahead.now)
            yield fold, train, test

    @cached_property
    def held_out(self) -> list[HeldOutFit]:
        """What each fold predicts."""
        self.rows  # noqa: B018  # refuses folds before the first fit
        fits = []
        for fold, _, _ in self._each("predicting what is left out"):
            fits.append(self.process.fold(self.folds, fold))
        self.cautions += dict.fromkeys(c for each in fits for c in each.cautions)
        return fits

    @cached_property
    def structures(self) -> Any:
        """The fingerprints without descriptors, which say nothing of similarity."""
        n_columns = self.job.training.fingerprint.n_structural
        return self.X if n_columns is None else column_slice(self.X, 0, n_columns)

    @cached_property
    def nearest(self) -> tuple[Array, Array]:
        """Label and similarity of the most similar molecule that each fold learns from; NaN without one."""
        neighbours = np.full((2, len(self.y)), np.nan)
        pairs, X = sum(len(train) * float(len(test)) for train, test in self.rows), self.structures
        for fold, (train, test) in enumerate(self.rows):
            some = _some(test, min(1.0, _PAIRS / pairs), self.job.seed, f"evaluate/nearest/{fold}")
            learned = self._measured(train)
            neighbours[:, some] = nearest_neighbour(X[learned], self.y[learned], X[some])
        return neighbours[0], neighbours[1]

    @cached_property
    def predictions(self) -> dict[str, Predictions]:
        """Mean and standard deviation of each predictor; NaN for labels that it does not predict."""
        predictions = {MODEL: self._nothing(), MEAN: self._nothing()}
        for (train, test), fit in zip(self.rows, self.held_out, strict=True):
            y = self.y[self._measured(train)]
            predictions[MODEL][:, test] = fit.mean, fit.std
            predictions[MEAN][:, test] = [[y.mean()], [y.std()]]
        if self.job.forest:
            predictions[FOREST] = self._nothing()
            for _, train, test in self._each("random forest"):
                learned, seed = self._measured(train), self.job.seed
                X, y = self.X, self.y[learned]
                predictions[FOREST][0, test] = random_forest(X[learned], y, X[test], random_state=seed)
        predictions[NEAREST] = np.stack([self.nearest[0], self._nothing()[1]])
        return {name: predictions[name] for name in (MODEL, FOREST, NEAREST, MEAN) if name in predictions}

    def _nothing(self) -> Predictions:
        return np.full((2, len(self.y)), np.nan)

    def _factors(self, levels: Sequence[float]) -> Array:
        """Return how many standard deviations intervals extend, by what each fold learns from."""
        factors = np.full((len(levels), len(self.y)), np.nan)
        for (_, test), fit in zip(self.rows, self.held_out, strict=True):
            extents = np.array([interval_factor(fit.residuals, level) for level in levels])
            factors[:, test] = extents[:, None]
        return factors

    def _log_density(self) -> Array | None:
        """Return log probability densities by the errors in each fold; None if all are normal."""
        if all(fit.errors.is_normal for fit in self.held_out):
            return None
        density = np.full(len(self.y), np.nan)
        for (_, test), fit in zip(self.rows, self.held_out, strict=True):
            density[test] = fit.log_density(self.y[test])
        return density

    @cached_property
    def evaluation(self) -> TargetEvaluation:
        """The whole evaluation."""
        words, chosen = self.words()
        judged = self.judged
        figures, predicted = judged.figures, judged.n_predicted
        n_nearest = int(np.isfinite(self.nearest[0]).sum())
        notes = [*self.job.training.cautions, *self.cautions]
        if self.repeats:
            repeat = f"{amount(self.repeats, 'labels')} repeat{'s' if self.repeats == 1 else ''} a molecule"
            notes.append(f"{repeat}; in these figures each measurement counts")
        if n_nearest < predicted:
            notes.append(f"the nearest neighbour was looked up for {n_nearest:,} of them, chosen at random")
        notes += judged.notes()
        if judged.log_density is not None and not judged.classes:
            notes.append(words_of_heavier_tails([fit.errors for fit in self.held_out]))
        if self.limits is not None:
            notes.append(self.limits.judged(judged.predictions))
        if (two := self.words_of_classes) is not None:
            shown = ClassTarget(two, int(self.y.sum()), len(self.y), None).line(self.name)
            notes += [shown, _CLASSES if judged.probabilities is None else _BASELINES]
        curve = self._curve(figures) if self.job.learning_curve else []
        if self.job.learning_curve and not curve:
            notes.append("there are too few labels for a learning curve")
        return TargetEvaluation(
            name=self.name,
            n_labels=int((self.side == 0).sum()),
            n_predicted=predicted,
            process=words,
            chosen=chosen,
            direction=judged.direction,
            figures=figures,
            hyperparameters=tuple({"kernel": fit.kernel, **fit.hyperparameters} for fit in self.held_out),
            curve=tuple(curve),
            notes=tuple(notes),
            n_nearest=n_nearest,
            reliability=judged.reliability,
            n_positive=judged.n_positive,
            n_limits=int(np.count_nonzero(self.side)),
        )

    def _curve(self, whole: Mapping[str, Mapping[str, Figure]]) -> list[CurvePoint]:
        """Return the learning curve, whose last point is that of the folds themselves."""
        sizes = [len(train) for train, _ in self.rows]
        points = [self._point(divisor) for divisor in self._divisors_of_curve()]
        if not points:
            return []
        return [*points, CurvePoint(_mean(sizes), {name: whole[name] for name in (MODEL, NEAREST)})]

    def _divisors_of_curve(self) -> list[int]:
        """Return the divisors of the labels for the learning curve; none if there is no curve."""
        least = min(len(train) for train, _ in self.rows)
        return (
            [divisor for divisor in _CURVE if least // divisor >= _FEWEST] if self.job.learning_curve else []
        )

    def _point(self, divisor: int) -> CurvePoint:
        """Return the point of a learning curve where each fold learns from a part of its labels."""
        predictions, counts = {MODEL: self._nothing(), NEAREST: self._nothing()}, []
        probability: Array | None = np.full(len(self.y), np.nan)
        for fold, train, test in self._each(f"learning from 1/{divisor} of the labels"):
            some = _some(train, 1 / divisor, self.job.seed, f"evaluate/curve/{fold}")
            counts.append(len(some))
            learned = self._measured(some)
            if not len(learned) or np.ptp(self.y[learned]) == 0:
                continue
            fit = self.process.predicted(some, test, f"curve-{divisor}-{fold}")
            predictions[MODEL][:, test] = fit.mean, fit.std
            probability = None if fit.probability is None else probability
            if probability is not None:
                probability[test] = fit.probability
            compared = test[np.isfinite(self.nearest[0][test])]
            X = self.structures
            predictions[NEAREST][0, compared] = nearest_neighbour(X[learned], self.y[learned], X[compared])[0]
        of_predictor = {MODEL: probability, NEAREST: None}
        figures = {
            name: self.judged.figures_of(values, probability=of_predictor[name])
            for name, values in predictions.items()
        }
        return CurvePoint(_mean(counts), figures)

    @cached_property
    def judged(self) -> Judged:
        """The labels beside their predictions."""
        measured = np.where(self.side == 0, self.y, np.nan)
        return Judged(
            y=measured,
            parts=[test for _, test in self.rows],
            ordered=self.folds.ordered,
            predictions=self.predictions,
            similarity=self.nearest[1],
            classes=self.words_of_classes is not None,
            direction=self.job.training.directions.get(self.name),  # type: ignore[arg-type]
            seed=self.job.seed,
            factors=self._factors(LEVELS),
            log_density=self._log_density(),
            probabilities=self.probabilities,
            extents=dict(zip(self.job.levels, self._factors(self.job.levels), strict=True)),
        )


@dataclass
class _EvaluateModel(Job[EvaluationReport]):
    """The job of judging a model by labels that it was not fitted to."""

    output: PurePath
    path: PurePath
    labels: Paths
    options: LabelOptions
    library: Paths | None
    direction: str | Mapping[str, str] | None
    confirm_direction: bool
    files: _Outputs
    seed: int
    every_row: bool
    levels: tuple[float, ...]
    directions: dict[str, Any] = field(init=False)
    external: ExternalSet = field(init=False)
    notes: list[str] = field(default_factory=list, init=False)

    name = "evaluate"

    @property
    def locked(self) -> PurePath:
        """The output is a file."""
        return work_folder(self.output)

    def plan(self, run: Run) -> None:
        self.files.refuse_others(run)
        model = read_model(self.path)
        directions = directions_of(self.direction, model.targets)
        if directions:
            (y,) = model.arrays("labels")
            scales, confirmed = scales_in(model.metadata), self.confirm_direction
            self.notes += check_conventions(directions, scales, y, PurePath(), confirmed=confirmed)
        self.directions = {**model.directions, **directions}
        reader = LabelReader(model, self.labels, self.options, self.library, self.directions)
        self.external = ExternalSet(model, reader)
        self.external.read(run)

    def need(self) -> Need:
        return Need(here=self.external.need())

    def pieces(self, run: Run) -> list[Pieces]:
        """Return none: predictions of an external set are made at once."""
        return []

    def finish(self, run: Run, made: int) -> EvaluationReport:
        external, model = self.external, self.external.model
        targets = [self._judged(each) for each in external.targets if len(each.rows)]
        columns, names, n = external.described(), [each.name for each in targets], len(external.rows)
        for each in targets:
            there, values = np.searchsorted(external.rows, each.rows), each.judged.columns()
            del values["fold"]
            columns[_label_column(each.name, names)] = _column(each.judged.y, there, n, "")
            columns |= _limit_columns(each.name, names, each.limits, there, n)
            columns |= {
                _name(kind, each.name, names): _column(column, there, n, kind)
                for kind, column in values.items()
            }
        table = pa.table(columns)
        if self.every_row:
            table = external.every_row().table(table, [])
        report = EvaluationReport(
            targets=tuple(each.evaluation for each in targets),
            split=f"predicted by the model {self.path} as it is; nothing was fitted",
            n_folds=0,
            n_molecules=len(np.unique(external.labels.molecule[external.rows])),
            labels=self._labels_words(),
            seconds=run.seconds,
            table=table,
            output=self.files.table,
            picture=self.files.picture,
            inputs=(external.reader.words, *model.scales_of(names)),
            fingerprints=kinds_words(model.metadata["fingerprint"]),
            model=self.path,
        )
        about = {
            "target": names,
            "source_kind": "labels",
            "source": given_words(self.labels) or as_path(self.labels).name,
            "model_name": self.path.name,
            "model": model.metadata["spec_hash"],
            "library": external.labels.digest,
            "notes": [report.split],
        }
        words = f"predictions of {amount(len(external.rows), 'labels')} by a model"
        panels = [each.judged.panels(each.name) for each in targets]
        self.files.write(run, report, panels, about, words)
        return report

    def _labels_words(self) -> str:
        """Return how many labels were read, and which were left out."""
        labels, external = self.external.labels, self.external
        n_trained = len(labels.y) - len(external.rows)
        left = {
            "the model was fitted to their molecules": n_trained,
            "unusable molecules": labels.rejected,
            "no number": labels.dropped,
            "not in the library": labels.unmatched,
        }
        parts = [f"{amount(len(external.rows), 'labels')} of molecules that the model was not fitted to"]
        parts += [f"left out, {name}: {n:,}" for name, n in left.items() if n]
        parts += [f"the first unusable molecule is {labels.reason}"] if labels.reason else []
        if labels.merged:
            repeats = labels.merged_as
            parts.append(
                f"further labels of these molecules: {labels.merged:,} (the {repeats} of each counts)"
            )
        return "; ".join(parts)

    def _judged(self, each: ExternalTarget) -> _JudgedTarget:
        """Judge the predictions of one target."""
        external, n, model = self.external, len(each.rows), self.external.model
        name, fit = model.targets[each.target], external.predicted(each)
        there = model.classes[each.target]
        of_classes = there is not None and bool(np.isin(each.y, (0.0, 1.0)).all())
        limits = None
        if each.bound is not None and each.side is not None:
            limits = Limits(np.nan_to_num(each.bound), each.side)
        n_measured = int(np.isfinite(each.y).sum())
        folds = external.parts(each, self.seed, classes=of_classes)
        predictions, similarity = self._predictions(each, fit)
        judged = Judged(
            y=each.y,
            parts=[np.arange(n)] if folds is None else [folds.rows(k)[1] for k in range(len(folds))],
            ordered=False,
            predictions=predictions,
            similarity=similarity,
            classes=of_classes and (folds is not None or fit.probability is not None),
            direction=self.directions.get(name),
            seed=self.seed,
            factors=np.tile([[interval_factor(fit.residuals, level)] for level in LEVELS], n),
            log_density=None if fit.errors.is_normal else fit.log_density(each.y),
            probabilities=fit.probability,
            extents={level: np.full(n, interval_factor(fit.residuals, level)) for level in self.levels},
        )
        feature_map, words = feature_map_of(model), f"an exact process with {fit.kernel}"
        if feature_map is not None:
            m, filled = feature_map.n_components, feature_map.n_filled
            words = f"{features_words(m if filled is None else filled, m)} of {fit.kernel}"
        evaluation = TargetEvaluation(
            name=name,
            n_labels=n + each.n_trained,
            n_predicted=n_measured,
            process=words,
            chosen=f"the model was fitted to {amount(len(each.training), 'other labels')}",
            direction=judged.direction,
            figures=judged.figures,
            hyperparameters=({"kernel": fit.kernel, **fit.hyperparameters},),
            notes=self._notes(each, fit, judged),
            n_nearest=int(np.isfinite(similarity).sum()),
            reliability=judged.reliability,
            n_positive=judged.n_positive,
            spread_over="" if folds is None else f"{len(folds)} random parts of these labels",
            n_trained=each.n_trained,
            n_limits=0 if each.side is None else int(np.count_nonzero(each.side)),
        )
        if limits is not None:
            evaluation = replace(evaluation, notes=(*evaluation.notes, limits.judged(predictions)))
        return _JudgedTarget(name, each.rows, judged, evaluation, limits)

    def _predictions(self, each: ExternalTarget, fit: HeldOutFit) -> tuple[dict[str, Predictions], Array]:
        """Return the predictions of the model and of the baselines, and similarities of neighbours."""
        predictions, n = {MODEL: np.stack([fit.mean, fit.std])}, len(each.rows)
        similarity = np.full(n, np.nan)
        labelled = self.external.neighbours(each)
        if labelled.X is not None and labelled.X_test is not None:
            share = min(1.0, _PAIRS / (len(labelled.y) * float(n)))
            some = _some(np.arange(n), share, self.seed, "evaluate/nearest")
            nearest = nearest_neighbour(labelled.X, labelled.y, labelled.X_test[some])
            predictions[NEAREST] = np.full((2, n), np.nan)
            predictions[NEAREST][0, some], similarity[some] = nearest
        mean, std = each.training.mean(), each.training.std()
        return predictions | {MEAN: np.tile([[mean], [std]], n)}, similarity

    def _notes(self, each: ExternalTarget, fit: HeldOutFit, judged: Judged) -> tuple[str, ...]:
        """Return the notes on a target."""
        external, n_nearest = self.external, int(np.isfinite(judged.similarity).sum())
        name = external.model.targets[each.target]
        notes = [*self.notes, *external.reader.notes, *external.cautions(), *fit.cautions]
        notes += [] if judged.classes else external.impossible(each, fit)
        if each.n_trained and len(external.targets) > 1:
            notes.append(
                f"{amount(each.n_trained, 'labels')} left out: the model was fitted to labels of the same "
                "molecules"
            )
        if n_nearest and n_nearest < len(each.rows):
            notes.append(f"the nearest neighbour was looked up for {n_nearest:,} of them, chosen at random")
        notes += judged.notes()
        if judged.log_density is not None and not judged.classes:
            notes.append(words_of_heavier_tails([fit.errors]))
        if judged.classes:
            there = external.model.classes[each.target]
            notes += [] if there is None else [f"{there.line(name)} among the labels of the model"]
            notes.append(_CLASSES_OF_PARTS if judged.probabilities is None else _BASELINES_OF_PARTS)
        return tuple(dict.fromkeys(notes))


@dataclass(frozen=True)
class _JudgedTarget:
    """One target of an external set: which molecules have labels, and how they were predicted."""

    name: str
    rows: Rows
    judged: Judged
    evaluation: TargetEvaluation
    limits: Limits | None = None


def _limit_columns(
    target: str, targets: Sequence[str], limits: Limits | None, there: Rows, n: int
) -> dict[str, pa.Array]:
    """Return the column of the limits of a target, such as "< 5", if there are any."""
    if limits is None:
        return {}
    column: list[str | None] = [None] * n
    for row, words in zip(there.tolist(), limits.words(), strict=True):
        column[row] = words
    return {_name("limit", target, targets): pa.array(column, pa.string())}


def _name(kind: str, target: str, targets: Sequence[str]) -> str:
    """Return the name of a column of predictions of a target."""
    return f"{kind}_{target}" if len(targets) > 1 else kind


def _label_column(target: str, targets: Sequence[str]) -> str:
    """Return the name of the column of the labels of a target, which no other column has."""
    others = {_name(kind, each, targets) for kind in _KINDS for each in targets}
    return f"{target}_label" if target in others | {"row", "id", "smiles", "reason"} else target


def _some(rows: Rows, share: float, seed: int, name: str) -> Rows:
    """Return a share of some rows, drawn at random, ascending; those of a smaller share are among them."""
    order = np.argsort(seeds.words(seed, name, len(rows)), kind="stable")
    return np.sort(rows[order[: max(1, round(share * len(rows)))]])


def _mean(counts: Sequence[int]) -> int:
    return round(sum(counts) / len(counts))


def _column(values: Array, there: Rows, n: int, name: str) -> pa.Array:
    """Return a column of the table for all labels, from the values of some; NaN becomes null."""
    column = np.full(n, np.nan)
    column[there] = values
    return pa.array(column, pa.int32() if name == "fold" else pa.float64(), mask=np.isnan(column), safe=False)
