"""Model + library -> mean and standard deviation of every molecule."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from distributed import Client

from daskrf.commands import READING
from daskrf.documents import JsonObject
from daskrf.errors import InputError, OptionError, StoreError
from daskrf.files.backend import absolute, are_small_files, as_path
from daskrf.files.disk import work_folder
from daskrf.gp.validation.intervals import checked_levels, levels_of
from daskrf.jobs.job import Disk, Job, Need, Run, run
from daskrf.jobs.memory import EXPANDED, Making, MemoryNeed
from daskrf.jobs.pieces import Done, Partitions, Pieces, found_words, opened
from daskrf.jobs.shards import current_share
from daskrf.models.classtargets import links_state
from daskrf.models.intervals import ends_of, interval_factors
from daskrf.models.models import Model, need_of_model, open_model, read_model, score_seconds, target_names
from daskrf.models.modelsource import source_for
from daskrf.models.sampledstds import SampledStds, leave_samples, n_samples_of, open_sampled
from daskrf.molecules.counts.spec import Fragments
from daskrf.parameters import Command, Option
from daskrf.quantities import amount, listed
from daskrf.report.lines import report_text
from daskrf.report.notebook import OfInput
from daskrf.report.tabulation import shorten, text_table
from daskrf.sources.given import Data, is_given
from daskrf.sources.inputs import Input, inputs_of, source_words
from daskrf.sources.sources import Block, Source, making_of
from daskrf.storage.hits import Earlier, refuse_foreign, rejects_of, write_predictions, write_rejects
from daskrf.storage.kinds import check_output
from daskrf.storage.outputs import earlier_output, output_or_temporary
from daskrf.storage.stores.predictions import PredictionStore
from daskrf.storage.stores.rowstore import REJECT_SCHEMA
from daskrf.storage.stores.store import REJECTS, CommitRecord
from daskrf.storage.tablefiles import beside, check_ending, ending_of
from daskrf.tables import TableFormat, lay_out
from daskrf.tables.frames import INDEX, InputIndex
from daskrf.workers.progress import Progress

Paths = str | os.PathLike[str]


CLI = Command(
    "daskrf predict docking.model real.fingerprints -o real.predictions",
    step=4,
    options={
        "std_error": Option(metavar="FRACTION"),
        "intervals": Option(metavar="50,80,95", convert=levels_of),
        "fragments": READING,
        "accept_rejects": READING,
    },
    resumable=True,
    shards=True,
    workers_for=lambda output, source: output is not None and not are_small_files(source),
    prints=True,
)

MOST_PRINTED = 1_000
"""Molecules that are predicted without an output."""

_ROW_BYTES = 24  # row number, ID and SMILES of a prediction, in compressed Parquet
_NOT_WRITTEN = (".html", ".tsv", ".txt", ".xls", ".json", ".feather", ".gz")  # files, but not these
_STD = "; std is of the function, and std_y of a new measurement"
_INTERVALS = "; low and high are the ends of intervals of a new measurement"
_WIDTH = 60  # characters of a printed text
_TEXT_BYTES = 25  # of a number in text


@dataclass(frozen=True)
class PredictReport(OfInput):
    """What `predict` did.

    Attributes
    ----------
    store : Path or None
        The predictions: a folder, or a file.
    rows, rejected : int
        Molecules predicted, and rejected rows of SMILES files.
    partitions, made : int
        Partitions of the predictions, and how many of them this run made.
    seconds : float
    targets : tuple of str
        Targets of the model; all are predicted.
    inputs : tuple of str
        How SMILES files were read: one line for each layout.
    rejects : Path or None
        Where the rejected rows are.
    notes : tuple of str
        Remarks on the output.
    table : pyarrow.Table or None
        The predictions, if there is no output. For data in memory, it has a row for each row of the input,
        and `to_pandas` has the index of the input.
    left_out : pyarrow.Table or None
        The rejected rows, if there is no output: row, source, line, text and reason.
    scales : tuple of str
        The transforms and units of targets, where they are known.
    index : InputIndex or None
        The index of the DataFrames or Series that were given.
    """

    store: PurePath | None
    rows: int
    rejected: int
    partitions: int
    made: int
    seconds: float
    targets: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    rejects: PurePath | None = None
    notes: tuple[str, ...] = ()
    table: pa.Table | None = field(default=None, repr=False)
    left_out: pa.Table | None = field(default=None, repr=False)
    scales: tuple[str, ...] = ()
    index: InputIndex | None = field(default=None, repr=False)

    def with_index(self, index: InputIndex) -> Self:
        return replace(super().with_index(index), index=index)

    def to_pandas(self) -> Any:
        """Return the predictions as a pandas DataFrame; those of a DataFrame or Series have its index.

        Raises
        ------
        InputError
            If there is no table in memory because the predictions were written to the output, or pandas is
            not installed.
        """
        frame = super().to_pandas()
        if self.index is None:
            return frame
        index = self.index.at(frame["row"].to_numpy())
        return frame.drop(columns=self.index.names).set_axis(index, axis=0)

    def __str__(self) -> str:
        if self.table is not None:
            names = self.table.column_names
            ends = _INTERVALS if any(name.startswith("low_") for name in names) else ""
            stds = _STD if any(name.startswith("std") for name in names) else ""
            what = f"of {listed(self.targets, chr(39))}{stds}{ends}"
            return "\n".join([*_printed(self.table, self.left_out), what, *self.scales, *self.notes])
        of = f" of {listed(self.targets)}" if self.targets else ""
        return report_text(
            f"{amount(self.rows, 'predictions')}{of} in {self.store} ({self.seconds:.1f} s)",
            (*self.scales, *self.inputs),
            made=found_words(self.made, self.partitions),
            rejected=self.rejected,
            rejects=self.rejects,
            notes=self.notes,
        )


def predict(
    model: Paths,
    source: Data | Sequence[Data],
    output: Paths | None = None,
    *,
    std: bool = True,
    std_error: float | None = None,
    intervals: float | Sequence[float] | None = None,
    every_row: bool | None = None,
    format: TableFormat | None = None,
    fragments: Fragments | None = None,
    accept_rejects: bool = False,
    client: Client | None = None,
    progress: Progress | None = None,
) -> PredictReport:
    """Predict every molecule of a library.

    The columns are row, id, smiles, mean, std (of the function) and std_y (of a new measurement, noise
    included), and probability (of the positive class) for two classes; with several targets mean_NAME and so
    on. Then come columns of the input: if the output is one file, all columns that every input file has; if
    it is a folder, those named by --keep-columns. To finish a job that was interrupted, run the same command
    again.

    Parameters
    ----------
    model : path
        Directory of the model, as written by fit.
    source : path, or sequence of paths
        A fingerprint store, a feature store, or SMILES files. Also SMILES themselves, or - for standard
        input, which may have any format that files may have. In Python also a DataFrame, a list of SMILES, or
        a list of RDKit molecules.
    output : path, optional
        One file, if the path ends in .csv, .parquet, .sdf, .smi or .xlsx, also .csv.gz and so on. Any other
        path is a folder: a Parquet dataset with one file a partition, which suits 10^9 molecules. Without an
        output the predictions of up to 1,000 molecules are printed.
    std : bool
        Also predict standard deviations, which cost more: the mean of a molecule takes M additions, its
        standard deviation M^2 / 2 multiply-adds. With M = 4096 on one core, these take about a microsecond
        and a fifth of a millisecond.
    std_error : float, optional
        Relative error that standard deviations may have, such as 0.03: they are then computed from posterior
        samples, 496 of them for an error of 0.03 with M = 4096, in a tenth of the time. The error of each
        molecule is random with this standard deviation, and it is compared with that of some exact ones.
        Default: exact. For models on features.
    intervals : float or sequence of float, optional
        Levels in percent, such as 50,80,95: also predict intervals that contain a new measurement this often,
        as columns low_95 and high_95. They extend to either side of the mean by a number of standard
        deviations that just as many errors of labelled molecules do not exceed, each predicted without its
        labels. So unlike standard deviations they do not assume that errors are normally distributed. They
        hold for molecules like the labelled ones; no method can promise them for others.
    every_row : bool, optional
        Give each row of the input its own row, in order. If a row has no prediction, its numbers are NaN
        (empty in text), and the column reason says why. Default: only for data in memory.
    format : TableFormat, optional
        How to read SMILES files, as in `fingerprint`. The model knows which fingerprints it needs.
    fragments : {"keep", "largest", "reject"}, optional
        What to do with molecules of several fragments. Default: as in the model's library.
    accept_rejects, client, progress
        As in `fingerprint`.

    Returns
    -------
    PredictReport

    Raises
    ------
    InputError
        If the library's fingerprints or features are not those of the model, or it gives no intervals.
    StoreError
        If a store is damaged, or `output` was made from another model or library.
    """
    input, path = Input(source, format, fragments, accept_rejects), as_path(model)
    if std_error is not None and not std:
        raise OptionError("--std-error (std_error) is for standard deviations; leave it or --no-std out.")
    levels: tuple[float, ...] = ()
    if intervals is not None:
        levels = checked_levels(intervals)
    if levels and not std:
        raise OptionError("--intervals (intervals) are made of standard deviations; leave --no-std out.")
    with output_or_temporary(output, "p", shared=not current_share().whole) as place:
        job = _Predict(
            path,
            input,
            place,
            std,
            bool(every_row),
            levels,
            prints=output is None,
            std_error=std_error,
        )
        return run(job, None if output is None else client, progress)


@dataclass
class _Predict(Job[PredictReport]):
    """The job of `predict`."""

    path: PurePath
    input: Input
    output: PurePath
    std: bool
    every_row: bool = False
    levels: tuple[float, ...] = ()  # of intervals, in percent
    prints: bool = False
    std_error: float | None = None
    n_samples: int | None = field(default=None, init=False)  # for approximate standard deviations
    sampled: SampledStds | None = field(default=None, init=False)
    factors: npt.NDArray[np.float64] | None = field(default=None, init=False)  # of each level and target
    lacking: list[str] = field(default_factory=list, init=False)
    model: Model = field(init=False)
    features: Source = field(init=False)
    earlier: Earlier | None = field(default=None, init=False)
    store: PredictionStore = field(init=False)

    name = "predict"

    @property
    def in_file(self) -> bool:
        """Whether the output is one file, not a folder."""
        return bool(ending_of(self.output))

    @property
    def folder(self) -> PurePath:
        """Folder of the predictions; those of a file are deleted when it has been written."""
        return work_folder(self.output) / "predictions" if self.in_file else self.output

    @property
    def locked(self) -> PurePath:
        return work_folder(self.output) if self.in_file else self.output

    def plan(self, run: Run) -> None:
        if not self.in_file:
            if self.output.suffix.lower() in _NOT_WRITTEN:
                check_ending(self.output)
            check_output(self.output, "predictions")
        earlier = earlier_output(self.output, "table") if self.in_file else None
        if self.in_file:
            refuse_foreign(rejects_of(self.output))
        self.model = read_model(self.path, statistics=False)
        if self.std_error is not None:
            self.n_samples = n_samples_of(self.model, self.std_error)
        if self.levels:
            self.factors, self.lacking = interval_factors(self.model, self.levels)
        in_memory = is_given(self.input.paths)
        if in_memory and not self.in_file and not self.prints:
            self.input = _with_index(self.input)
        self.features = source_for(run, self.model, self.input, keep_columns=self.in_file, empty_ok=in_memory)
        rows = sum(self.features.partition_rows)
        if self.in_file:
            check_ending(self.output, n_rows=rows)
        if self.prints and rows > MOST_PRINTED and not is_given(self.input.paths):
            raise InputError(
                f"{amount(rows, 'molecules')} are too many to print (at most {MOST_PRINTED:,}); give an "
                "output, for example -o predictions.csv (output)."
            )
        self.earlier = earlier
        if earlier is not None:
            earlier.refuse_other(self.spec, source_words(self.input.paths))
            _ = earlier.table  # refuses a file that was changed

    @property
    def spec(self) -> dict[str, object]:
        """What a file of predictions depends on."""
        model, library = self.model.metadata["spec_hash"], self.features.spec_hash
        spec = {"model": model, "library": library, "std": self.std}
        return spec | self._requested | self._links

    @property
    def _links(self) -> dict[str, object]:
        """What probabilities of classes depend on, if there are any."""
        return links_state(self.model.metadata) if self.std else {}

    @property
    def _requested(self) -> dict[str, object]:
        """Options in use: posterior samples for standard deviations, a place for every row, and intervals."""
        values = {"std_samples": self.n_samples, "every_row": self.every_row, "intervals": list(self.levels)}
        return {name: value for name, value in values.items() if value}

    def need(self) -> Need:
        if self.earlier is not None:
            return Need()
        n_targets, n_rows = len(self.model.targets), sum(self.features.partition_rows)
        making = making_of(self.features)
        worker = making.need(self._need_of_task, "rows")
        numbers = n_targets * (3 if self.std else 1) + 2 * n_targets * len(self.levels)
        size = n_rows * (_ROW_BYTES + 8 * numbers)  # random mantissas do not compress
        text = n_rows * (2 * _ROW_BYTES + _TEXT_BYTES * numbers) if self.in_file else 0
        here = None if self.n_samples is None else need_of_model(self.model, making, 0, std=True)
        return Need(worker=worker, here=here, disk=Disk(self.output, "the predictions", size, size + text))

    def _need_of_task(self, making: Making) -> MemoryNeed:
        """Return the memory that the making of a partition takes."""
        exact = self.std and self.n_samples is None
        need = need_of_model(self.model, making, 0, std=exact, all_targets=True)
        if self.n_samples is None:
            return need
        samples = 8 * making.n_components * self.n_samples * len(self.model.targets)
        return need.plus("posterior samples", samples).plus("unpacked features", 2 * EXPANDED)

    def pieces(self, run: Run) -> list[Pieces]:
        features, path, rows = self.features, absolute(self.path), self.features.partition_rows
        if self.earlier is not None:
            return [Done(len(rows), "partitions")]
        model_hash = self.model.metadata["spec_hash"]
        self.store = PredictionStore.new(
            self.folder,
            source=features.spec_hash,
            model=model_hash,
            options={"std": self.std, "map": features.brief_map} | self._requested | self._links,
            rows=rows,
            provenance={"model_path": path, "source_path": _describe(self.input.paths)},
        )
        if self.n_samples is not None:
            self.sampled = leave_samples(self.model, self.n_samples, features, run.work)
        stage = PredictStage(
            source=features.carried(run.work),
            model=path,
            model_hash=model_hash,
            path=absolute(self.folder),
            spec_hash=self.store.spec_hash,
            std=self.std,
            seconds_per_row=features.seconds_per_row
            + score_seconds(self.model, features.block_size, std=self.std, n_samples=self.n_samples),
            every_row=self.every_row,
            samples=None if self.sampled is None else self.sampled.path,
            intervals=self._intervals,
        )
        return [Partitions(stage, self.store, rows)]

    @property
    def _intervals(self) -> dict[float, tuple[float, ...]]:
        """The factors of the intervals, one for each target, by level."""
        factors = () if self.factors is None else self.factors.tolist()
        return {level: tuple(row) for level, row in zip(self.levels, factors, strict=True)}

    def finish(self, run: Run, made: int) -> PredictReport:
        if self.earlier is not None:
            about, there = self.earlier.about, f"{self.output} already holds exactly these predictions"
            notes = (*about.get("notes", ()), there)
            return self._report(about, about["partitions"], 0, run.seconds, notes)
        counts, n_partitions = self.store.counts(), self.store.n_partitions
        approximate = () if self.sampled is None else (str(self.sampled),)
        notes = (*approximate, *self.lacking, *self.features.note_on_groups())
        about = {
            **self.spec,
            "model_name": self.path.name,
            "source": source_words(self.input.paths),
            "targets": list(self.model.targets),
            "rows": counts.get("kept", 0),
            "rejected": counts.get("rejected", 0),
            "partitions": n_partitions,
        } | ({"notes": list(notes)} if notes else {})
        if self.prints:
            lost = [REJECT_SCHEMA.empty_table(), *map(self.store.read_rejects, range(n_partitions))]
            report = self._report(about, n_partitions, made, run.seconds, notes)
            return replace(
                report,
                store=None,
                rejects=None,
                table=pa.concat_tables(self._tables()),
                left_out=pa.concat_tables(lost).unify_dictionaries(),
            )
        if self.in_file:
            write_predictions(self._tables(), self.output, about)
            lost = [REJECT_SCHEMA.empty_table()] if not n_partitions else []
            write_rejects(
                itertools.chain(lost, map(self.store.read_rejects, range(n_partitions))), self.output
            )
        return self._report(about, n_partitions, made, run.seconds, notes)

    def _tables(self) -> Iterator[pa.Table]:
        """Yield the predictions by partition; of no rows at all, a table without rows."""
        yield from map(self.store.read, range(self.store.n_partitions))
        if not self.store.n_partitions:
            kinds = ("mean", "std", "std_y", *ends_of(self.levels)) if self.std else ("mean",)
            numbers = dict.fromkeys(
                itertools.chain(*(target_names(self.model, kind) for kind in kinds)), pa.float64()
            )
            none = np.zeros((0, len(self.model.targets)))
            if self.std:
                numbers |= dict.fromkeys(_probabilities(self.model, none, none), pa.float64())
            texts = {"reason": pa.string()} if self.every_row else {}
            types = {"row": pa.int64(), "id": pa.string(), "smiles": pa.string(), **numbers, **texts}
            yield pa.schema(list(types.items())).empty_table()

    def _report(
        self, about: JsonObject, n_partitions: int, made: int, seconds: float, notes: tuple[str, ...] = ()
    ) -> PredictReport:
        """Return the report on predictions, from their description."""
        rejects = rejects_of(self.output) if self.in_file else self.output / REJECTS
        return PredictReport(
            store=self.output,
            rows=about["rows"],
            rejected=about["rejected"],
            partitions=n_partitions,
            made=made,
            seconds=seconds,
            targets=tuple(self.model.targets),
            inputs=inputs_of(self.features),
            rejects=rejects if about["rejected"] else None,
            notes=notes,
            scales=self.model.scales_of(self.model.targets),
        )


def _with_index(input: Input) -> Input:
    """Return the files of data in memory, with the columns of its index to be carried along."""
    format = input.format or TableFormat()
    names = [layout.names or () for _, layout in lay_out(input.paths, format)]
    index_columns = [
        name for name in names[0] if name.startswith(INDEX) and all(name in each for each in names)
    ]
    extra = tuple(dict.fromkeys((*format.extra, *index_columns)))
    return replace(input, format=replace(format, extra=extra))


def _printed(table: pa.Table, left_out: pa.Table | None) -> list[str]:
    """Return the lines of a table for the terminal, with the rejected rows below."""
    more = table.num_rows - MOST_PRINTED
    rows = [row for row in table.slice(0, MOST_PRINTED).to_pylist() if row.get("reason") is None]
    names = [name for name in table.column_names if name not in ("row", "id", "smiles", "reason")]
    named = any(row["id"] != f"row-{row['row']}" for row in rows)
    header = [*(["id"] if named else []), "smiles", *names]
    cells = [[_cell(row[name]) for name in header] for row in rows]
    lines = text_table(header, cells).split("\n") if rows else []
    lines += [f"and {amount(more, 'rows')} more; see to_pandas()"] if more > 0 else []
    for lost in [] if left_out is None else left_out.slice(0, MOST_PRINTED).to_pylist():
        lines.append(f"left out: line {lost['line']:,}, {shorten(lost['text'], _WIDTH)!r}: {lost['reason']}")
    return lines


def _cell(value: object) -> str:
    return (
        f"{value:.4f}" if isinstance(value, float) else shorten("" if value is None else str(value), _WIDTH)
    )


def _describe(paths: Sequence[PurePath]) -> str:
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{absolute(paths[0])}{more}"


@dataclass(frozen=True)
class PredictStage:
    """Makes partitions of a prediction store."""

    source: Source
    model: str
    model_hash: str
    path: str
    spec_hash: str
    std: bool
    seconds_per_row: float
    every_row: bool = False
    samples: str | None = None
    intervals: Mapping[float, tuple[float, ...]] = field(default_factory=dict)
    name: str = "predict"

    def make(self, partition: int) -> CommitRecord:
        if self.samples is None:
            model = open_model(self.model, self.model_hash, statistics=self.std)
        else:
            model = open_sampled(self.model, self.model_hash, self.samples)
        parts = []
        for block in self.source.blocks(partition):
            parts.append(self._table(model, block))
            del block  # before the next one is made
        table = pa.concat_tables(parts) if parts else self._table(model, None)
        if self.every_row:
            return self._make_every_row(partition, table)
        described = self.source.describe(partition, table["row"].to_numpy())
        table = table.add_column(1, "id", described["id"]).add_column(2, "smiles", described["smiles"])
        store = opened(PredictionStore, self.path, self.spec_hash)
        return store.write_partition(partition, beside(table, described), self.source.rejects(partition))

    def _make_every_row(self, partition: int, table: pa.Table) -> CommitRecord:
        """Write the predictions among the rows that have none."""
        every = self.source.every(partition)
        there = np.array([reason is None for reason in every.reasons], dtype=bool)
        if every.table["row"].to_numpy()[there].tolist() != table["row"].to_pylist():
            raise StoreError(f"The input of partition {partition} has changed since it was predicted")
        columns = {name: every.table[name] for name in ("row", "id", "smiles")}
        for name in table.column_names[1:]:
            values = np.full(len(there), np.nan)
            values[there] = table[name].to_numpy()
            columns[name] = pa.array(values)
        columns["reason"] = pa.array(every.reasons, pa.string())
        store = opened(PredictionStore, self.path, self.spec_hash)
        return store.write_partition(partition, beside(pa.table(columns), every.table), every.rejects)

    def _table(self, model: Model, block: Block | None) -> pa.Table:
        """Return a table of row and, for each target, mean, std and std_y, and the ends of intervals."""
        names = ("mean", "std", "std_y") if self.std else ("mean",)
        columns: dict[str, object] = {"row": np.zeros(0, np.int64) if block is None else block.rows}
        n_targets = len(model.targets)
        if block is None:
            predicted: Any = [np.zeros((0, n_targets)) for _ in names]
        elif self.std:
            predicted = model.gp.predict(block.phi, return_std=True, of="both", diagonal=block.diagonal)
        else:
            predicted = [model.gp.predict(block.phi)]
        predicted = [values.reshape(-1, n_targets) for values in predicted]
        for level, factors in self.intervals.items():
            names = (*names, *ends_of([level]))
            mean, half = predicted[0], predicted[2] * factors
            predicted += [mean - half, mean + half]
        for kind, values in zip(names, predicted, strict=True):
            for t, name in enumerate(target_names(model, kind)):
                columns[name] = values[:, t]
        if self.std:
            columns |= _probabilities(model, predicted[0], predicted[1])
        return pa.table(columns)


def _probabilities(model: Model, mean: Any, std: Any) -> dict[str, Any]:
    """Return a column for each target that is two classes: the probability of the positive one."""
    columns, n_targets = {}, len(model.targets)
    for t, name in enumerate(target_names(model, "probability")):
        if (link := model.link_of(t)) is not None:
            columns[name] = link(mean.reshape(-1, n_targets)[:, t], std.reshape(-1, n_targets)[:, t])
    return columns
