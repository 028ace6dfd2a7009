"""Model + library -> mean and standard deviation of every molecule."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from distributed import Client

from daskrf.features.base import brief_state
from daskrf.gp.separate import processes_of
from daskrf.jobs import disk, memory
from daskrf.jobs.clusters import worker_memory
from daskrf.jobs.models import Model, open_model, read_model
from daskrf.jobs.opening import opened
from daskrf.jobs.partitions import complete, complete_share
from daskrf.jobs.progress import Progress, watched
from daskrf.jobs.scoring import inputs_of, source_for, std_seconds, target_names
from daskrf.jobs.shards import Shard, ShardReport, Share
from daskrf.jobs.sources import Block, Source, largest_partition
from daskrf.molecules import TableFormat
from daskrf.molecules.names import listed
from daskrf.paths import as_list, as_path
from daskrf.storage.files import remove_quietly, work_folder
from daskrf.storage.predictions import PredictionStore
from daskrf.storage.records import CommitRecord

__all__ = ["PredictReport", "predict"]


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
        Of the model, which are all predicted.
    inputs : tuple of str
        How SMILES files were read, one line for each different layout.
    """

    store: Path
    rows: int
    rejected: int
    partitions: int
    made: int
    seconds: float
    targets: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()

    def __str__(self) -> str:
        of = f" of {listed(self.targets)}" if self.targets else ""
        lines = [f"{self.rows:,} predictions{of} in {self.store} ({self.seconds:.1f} s)"]
        lines += [f"  {words}" for words in self.inputs]
        if self.made < self.partitions:
            lines.append(
                f"  {self.partitions - self.made} of {self.partitions} partitions were there already"
            )
        if self.rejected:
            where = self.store / "rejects"
            lines.append(
                f"  {self.rejected:,} rows were rejected: file, line, text and reason are in {where}"
            )
        return "\n".join(lines)


@watched
def predict(
    model: str | os.PathLike[str],
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    std: bool = True,
    format: TableFormat | None = None,
    fragments: str | None = None,
    accept_rejects: bool = False,
    client: Client | None = None,
    progress: Progress | None = None,
    shard: Shard | str | None = None,
    prepare: bool = False,
) -> PredictReport | ShardReport:
    """Predict every molecule of a library; a second run does what the first one left.

    The mean of a molecule costs M additions, its standard deviation M^2 / 2 multiply-adds: at
    M = 4096 on one core, about a microsecond against a fifth of a millisecond.

    Parameters
    ----------
    model : path
        Directory that `fit` wrote.
    source : path, or sequence of paths
        A fingerprint store, a feature store, or SMILES files.
    output : path
        Directory of the predictions: one Parquet file a partition, with row, id, mean, and with `std`
        also ``std`` (of the function) and ``std_y`` (of a new measurement, noise included).
    std : bool
        Standard deviations too.
    format, fragments, accept_rejects
        For SMILES files, as in `fingerprint`; fingerprints are those of the model.
    client : distributed.Client, optional
        Where to run; default: this process.
    progress : Progress, optional
    shard : Shard or str, optional
        ``"i/n"``: make only the partitions p with p % n = i, here and without a client. Shards run at the
        same time on any hosts; a last call without `shard` makes what is missing and ends the job.
    prepare : bool
        Only read SMILES files once and make the plan, so that shards start at once.

    Returns
    -------
    PredictReport, or ShardReport with `shard` or `prepare`

    Raises
    ------
    InputError
        If the library has other fingerprints or features than the model.
    StoreError
        If a store is damaged, or `output` was made from another model or library.
    """
    start = time.monotonic()
    progress = progress or Progress()
    here = memory.libraries_of(None)
    fitted = read_model(model, statistics=False)
    output = as_path(output)
    share, work = Share.of(shard, prepare, client), work_folder(output)
    with share.lock(output, "predict", progress):
        files: dict[str, Any] = {"format": format, "fragments": fragments, "accept_rejects": accept_rejects}
        features = source_for(fitted, source, work, **files, progress=progress, share=share)
        rows = features.partition_rows
        _check_memory(fitted, features, std, client, here)
        n_bytes = disk.prediction_bytes(sum(rows), len(fitted.targets), std=std)
        disk.check_disk(output, n_bytes // share.count, "the predictions")
        store = PredictionStore.new(
            output,
            source=features.spec_hash,
            model=fitted.metadata["spec_hash"],
            options={"std": std, "map": brief_state(features.feature_map.state())},
            rows=rows,
            provenance={"model_path": str(as_path(model).resolve()), "source_path": _describe(source)},
        )
        stage = PredictStage(
            features.carried(work),
            str(as_path(model).resolve()),
            fitted.metadata["spec_hash"],
            str(output.resolve()),
            store.spec_hash,
            std,
            features.seconds_per_row + std * std_seconds(features.feature_map.block_size),
        )
        if not share.whole:
            return complete_share(share, stage, store, rows, start=start, progress=progress)
        made = complete(stage, store, rows, client=client, progress=progress)
        inputs = inputs_of(features)
        remove_quietly(work)
    counts, seconds = store.counts(), time.monotonic() - start
    told = tuple(fitted.targets), inputs
    return PredictReport(output, counts["kept"], counts["rejected"], len(rows), made, seconds, *told)


def _check_memory(model: Model, features: Source, std: bool, client: Client | None, here: int) -> None:
    """Check what a task needs; `here` is what libraries took in this process before anything was read."""
    rows, nonzeros = largest_partition(features)
    options: dict[str, Any] = {
        "one_bit": model.gp.one_bit_,
        "std": std,
        "n_targets": len(model.targets),
        "n_sums": len(processes_of(model.gp)),
        "double": features.feature_map.gram_precision == "double",
        "libraries": memory.libraries_of(client, here),
        "gram_columns": features.feature_map.gram_columns,
    }

    def need_of(rows: int, nonzeros: int | None) -> memory.MemoryNeed:
        need = memory.need_of_screen(len(model.gp.weights_), rows, 0, nonzeros=nonzeros, **options)
        return need.plus("tables of the map", features.table_bytes)

    where = "a worker" if client else "this machine"
    fewer = memory.fewer_rows(rows, nonzeros, need_of)
    memory.check(need_of(rows, nonzeros), worker_memory(client), where, fewer)


def _describe(source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> str:
    paths = as_list(source)
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return f"{as_path(paths[0]).resolve()}{more}"


@dataclass(frozen=True)
class PredictStage:
    """Makes partitions of a prediction store; see `daskrf.jobs.partitions`."""

    source: Source
    model: str
    model_hash: str
    path: str
    spec_hash: str
    std: bool
    seconds_per_row: float
    name: str = "predict"

    def process(self, partition: int) -> CommitRecord:
        """See `PartitionStage`."""
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
        """Return row and, for each target, mean, std and std_y."""
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
