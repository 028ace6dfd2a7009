"""Model + library -> mean and standard deviation of every molecule."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa
from distributed import Client

from daskrf.commands import READING
from daskrf.jobs.inputs import inputs_of, source_for
from daskrf.jobs.job import AnyShard, Disk, Job, Need, Run, ShardReport, run
from daskrf.jobs.memory import need_of_model
from daskrf.jobs.models import Model, open_model, read_model, score_seconds, target_names
from daskrf.jobs.pieces import Partitions, Pieces, found_words, opened
from daskrf.jobs.progress import Progress
from daskrf.jobs.sources import Block, Source, making_of
from daskrf.molecules import TableFormat
from daskrf.molecules.names import listed
from daskrf.molecules.spec import Fragments
from daskrf.parameters import Command
from daskrf.quantities import amount
from daskrf.storage.backend import absolute, as_list, as_path
from daskrf.storage.inspection import check_output
from daskrf.storage.predictions import PredictionStore
from daskrf.storage.store import CommitRecord

__all__ = ["PredictReport", "PredictStage", "predict"]

Paths = str | os.PathLike[str]

CLI = Command(
    "daskrf predict docking.model real.fingerprints -o real.predictions",
    step=4,
    options={"fragments": READING, "accept_rejects": READING},
    without=("format__extra",),
    resumable=True,
)

_ROW_BYTES = 12  # row number and ID of a prediction, in compressed Parquet


@dataclass(frozen=True)
class PredictReport:
    """What `predict` did.

    Attributes
    ----------
    store : Path
        The predictions.
    rows, rejected : int
        Molecules predicted, and rejected rows of SMILES files.
    partitions, made : int
        Partitions of the store, and how many of them this run made.
    seconds : float
    targets : tuple of str
        Targets of the model; all are predicted.
    inputs : tuple of str
        How SMILES files were read: one line for each layout.
    scales : tuple of str
        The transforms and units of targets, where they are known.
    """

    store: PurePath
    rows: int
    rejected: int
    partitions: int
    made: int
    seconds: float
    targets: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    scales: tuple[str, ...] = ()

    def __str__(self) -> str:
        of = f" of {listed(self.targets)}" if self.targets else ""
        lines = [f"{amount(self.rows, 'predictions')}{of} in {self.store} ({self.seconds:.1f} s)"]
        lines += [f"  {words}" for words in (*self.scales, *self.inputs)]
        lines += found_words(self.made, self.partitions)
        if self.rejected:
            where = self.store / "_rejects"
            lines.append(
                f"  rejected: {amount(self.rejected, 'rows')}; file, line, text and reason are in {where}"
            )
        return "\n".join(lines)


def predict(
    model: Paths,
    source: Paths | Sequence[Paths],
    output: Paths,
    *,
    std: bool = True,
    format: TableFormat | None = None,
    fragments: Fragments | None = None,
    accept_rejects: bool = False,
    client: Client | None = None,
    progress: Progress | None = None,
    shard: AnyShard = None,
    prepare: bool = False,
) -> PredictReport | ShardReport:
    """Predict every molecule of a library.

    Writes a Parquet dataset, one file for each partition, with the columns row, id, mean, std (of the
    function) and std_y (of a new measurement, noise included); with several targets mean_NAME and so on. To
    finish a job that was interrupted, run the same command again.

    Parameters
    ----------
    model : path
        Directory of the model, as written by fit.
    source : path, or sequence of paths
        A fingerprint store, a feature store, or SMILES files. In Python also a DataFrame, a list of SMILES,
        or a list of RDKit molecules.
    output : path
        Directory of the predictions, a Parquet dataset.
    std : bool
        Predict standard deviations, too. They cost more: the mean of a molecule takes M additions, its
        standard deviation M^2 / 2 multiply-adds. With M = 4096 on one core, that is about a microsecond
        against a fifth of a millisecond.
    format : TableFormat, optional
        How to read SMILES files, as in `fingerprint`. The model knows which fingerprints it needs.
    fragments : {"keep", "largest", "reject"}, optional
        What to do with molecules of several fragments. Default: as in the model's library.
    accept_rejects, client, progress, shard, prepare
        As in `fingerprint`.

    Returns
    -------
    PredictReport, or ShardReport with `shard` or `prepare`

    Raises
    ------
    InputError
        If the library's fingerprints or features are not those of the model.
    StoreError
        If a store is damaged, or `output` was made from another model or library.
    """
    files = (source, format, fragments, accept_rejects)
    return run(_Predict(as_path(model), files, as_path(output), std), client, progress, shard, prepare)


@dataclass
class _Predict(Job[PredictReport]):
    """The job of `predict`; see `daskrf.jobs.job.Job`."""

    path: PurePath
    files: tuple[Paths | Sequence[Paths], TableFormat | None, str | None, bool]
    output: PurePath
    std: bool
    model: Model = field(init=False)
    features: Source = field(init=False)
    store: PredictionStore = field(init=False)

    name = "predict"

    def plan(self, run: Run) -> None:
        check_output(self.output, "predictions")
        self.model = read_model(self.path, statistics=False)
        self.features = source_for(run, self.model, *self.files)

    def need(self) -> Need:
        n_targets, n_rows = len(self.model.targets), sum(self.features.partition_rows)
        worker = making_of(self.features).need(
            lambda making: need_of_model(self.model, making, 0, std=self.std, all_targets=True), "rows"
        )
        size = n_rows * (
            _ROW_BYTES + 8 * n_targets * (3 if self.std else 1)
        )  # random mantissas do not compress
        return Need(worker=worker, disk=Disk(self.output, "the predictions", size, size))

    def pieces(self, run: Run) -> list[Pieces]:
        features, path, rows = self.features, absolute(self.path), self.features.partition_rows
        model_hash = self.model.metadata["spec_hash"]
        self.store = PredictionStore.new(
            self.output,
            source=features.spec_hash,
            model=model_hash,
            options={"std": self.std, "map": features.brief_map},
            rows=rows,
            provenance={"model_path": path, "source_path": _describe(self.files[0])},
        )
        stage = PredictStage(
            features.carried(run.work),
            path,
            model_hash,
            absolute(self.output),
            self.store.spec_hash,
            self.std,
            features.seconds_per_row + score_seconds(self.model, features.block_size, std=self.std),
        )
        return [Partitions(stage, self.store, rows)]

    def finish(self, run: Run, made: int) -> PredictReport:
        counts, n_partitions = self.store.counts(), self.store.n_partitions
        told = tuple(self.model.targets), inputs_of(self.features), self.model.scales_of(self.model.targets)
        return PredictReport(
            self.output, counts["kept"], counts["rejected"], n_partitions, made, run.seconds, *told
        )


def _describe(source: Paths | Sequence[Paths]) -> str:
    paths = as_list(source)
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{absolute(as_path(paths[0]))}{more}"


@dataclass(frozen=True)
class PredictStage:
    """Makes partitions of a prediction store; see `daskrf.jobs.pieces.Maker`."""

    source: Source
    model: str
    model_hash: str
    path: str
    spec_hash: str
    std: bool
    seconds_per_row: float
    name: str = "predict"

    def make(self, partition: int) -> CommitRecord:
        """See `Maker`."""
        model = open_model(self.model, self.model_hash, statistics=self.std)
        parts = []
        for block in self.source.blocks(partition):
            parts.append(self._table(model, block))
            del block  # before the next one is made
        table = pa.concat_tables(parts) if parts else self._table(model, None)
        ids = self.source.describe(partition, table["row"].to_numpy())["id"]
        store = opened(PredictionStore, self.path, self.spec_hash)
        return store.write_partition(
            partition, table.add_column(1, "id", ids), self.source.rejects(partition)
        )

    def _table(self, model: Model, block: Block | None) -> pa.Table:
        """Return a table of row and, for each target, mean, std and std_y."""
        names = ("mean", "std", "std_y") if self.std else ("mean",)
        columns: dict[str, Any] = {"row": np.zeros(0, np.int64) if block is None else block.rows}
        n_targets = len(model.targets)
        if block is None:
            found: Any = [np.zeros((0, n_targets)) for _ in names]
        elif self.std:
            found = model.gp.predict(block.phi, return_std=True, of="both", diagonal=block.diagonal)
        else:
            found = [model.gp.predict(block.phi)]
        for kind, values in zip(names, found, strict=True):
            for t, name in enumerate(target_names(model, kind)):
                columns[name] = values.reshape(-1, n_targets)[:, t]
        return pa.table(columns)
