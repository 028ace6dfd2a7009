"""The stages of the measured part of ``scale.py``: the real drivers on a library of a given size."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from processes import Cluster, Times, start_cluster, tasks_counted
from synthesis import Composer

from daskrf import TanimotoMinMaxFeatures, featurize, fit, screen, seeds
from daskrf.commands.fingerprint import create_store
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.files.backend import as_path
from daskrf.jobs.pieces import Partitions
from daskrf.molecules import FingerprintSpec
from daskrf.sources.inputs import scan_inputs
from daskrf.sources.smiles import rejects_table, rows_table
from daskrf.storage.labels import join_labels
from daskrf.storage.lock import StoreLock
from daskrf.storage.runlog import log_directory, read_log
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.store import CommitRecord
from daskrf.tables import Library, read_partition
from daskrf.tables.measurements import read_labels

__all__ = [
    "ComposeStage",
    "Job",
    "compose",
    "library_file",
    "measure",
    "measured_cluster",
    "timed",
    "write_library",
    "write_smiles",
]

_LABEL_ROWS = 100_000  # whose fingerprints are made at once for the labels
NOISE = 0.3  # standard deviation of the labels' noise; the function's is 1


def write_library(folder: Path, n_rows: int, file_rows: int, seed: int) -> float:
    """Write the first products as files of `file_rows` rows; return molecules a CPU second."""
    folder.mkdir(exist_ok=True)
    library, start = ReactionLibrary(seed), time.process_time()
    for number, first in enumerate(range(0, n_rows, file_rows)):
        write_smiles(library_file(folder, number), library, first, min(first + file_rows, n_rows))
    return n_rows / (time.process_time() - start)


def library_file(folder: Path, number: int) -> Path:
    """Return the path of one of the files of SMILES."""
    return folder / f"part-{number:04d}.smi"


def write_smiles(path: Path, library: ReactionLibrary, start: int, stop: int) -> None:
    """Write products as lines "SMILES ID", the ID being the number of the product."""
    lines = (f"{text} M{i:010d}\n" for i, text in enumerate(library.smiles(start, stop), start))
    path.write_text("".join(lines))


@functools.lru_cache(maxsize=1)
def _composer(path: str) -> Composer:
    return Composer.load(path)


@functools.lru_cache(maxsize=2)
def _opened(path: str, spec_hash: str) -> tuple[FingerprintStore, Library]:
    store = FingerprintStore.open(as_path(path))
    assert store.spec_hash == spec_hash
    return store, Library.from_state(store.spec["library"])


@dataclass(frozen=True)
class ComposeStage:
    """`daskrf.commands.fingerprint.FingerprintStage` with RDKit's call replaced by `Composer`.

    Rows are read from the files, written and committed as there; row number i is product number i.
    """

    path: str
    spec_hash: str
    composer: str
    name: str = "fingerprint"
    seconds_per_row: float = 3e-4  # RDKit's, so that tasks are as many as with it

    def make(self, partition: int) -> CommitRecord:
        """See `daskrf.jobs.pieces.Maker`."""
        store, library = _opened(self.path, self.spec_hash)
        batches = list(read_partition(library, partition))
        tables = [rows_table(batch, library, np.arange(len(batch.row))) for batch in batches]
        rows = pa.concat_tables(tables)
        fingerprints = _composer(self.composer)(rows["row"][0].as_py(), rows["row"][-1].as_py() + 1)
        return store.write_partition(
            partition, fingerprints, rows, rejects_table([], library), {"empty": 0, "saturated": 0}
        )


@dataclass(frozen=True)
class Job:
    """What one size is measured with."""

    rows: int
    files: int
    labels: int
    components: int
    rows_per_partition: int
    files_folder: str  # folder of the files
    composer: str  # file of the tables
    work: str
    seed: int
    workers: int = 2
    featurize: bool = False


def _warm(composer: str, components: int) -> None:
    """Compile, and load what is loaded once a process, outside of the times."""
    block = _composer(composer)(0, 64)
    TanimotoMinMaxFeatures(components).transform_bits(block)


def measure(job: Job) -> dict[str, Any]:
    """Run all stages of one size on a fresh cluster; return seconds, tasks, bytes and memory by stage."""
    work = Path(job.work)
    work.mkdir(parents=True)
    with measured_cluster(work, job.workers) as cluster:
        # As tasks, so that the scheduler too has loaded what tasks refer to.
        client = cluster.client
        for address in client.nthreads():
            client.submit(_warm, job.composer, job.components, workers=[address], pure=False).result()
        return _stages(job, work, cluster)


def measured_cluster(work: Path, workers: int) -> AbstractContextManager[Cluster]:
    """Start a cluster whose workers are processes of one thread each."""
    spill = ["--local-directory", str(work), "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    worker = ["-m", "distributed.cli.dask_worker", *spill, "--memory-limit", "4GiB", "--host", "127.0.0.1"]
    return start_cluster(work, [worker] * workers, workers)


def _stages(job: Job, work: Path, cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": job.rows, "labels": job.labels, "stages": {}}
    store, model = work / "fingerprints", work / "model"
    labels = work / "labels.csv"
    _write_labels(labels, job)
    features = TanimotoMinMaxFeatures(job.components, random_state=job.seed)

    def stage(name: str, unit: int, call: Callable[[Times], Any]) -> None:
        found["stages"][name] = timed(cluster, unit, call)

    files = [library_file(Path(job.files_folder), i) for i in range(job.files)]
    per = job.rows_per_partition
    stage("fingerprint", job.rows, lambda times: compose(files, store, job.composer, per, cluster, times))
    assert FingerprintStore.open(as_path(store)).counts()["kept"] == job.rows
    if job.featurize:
        stage(
            "featurize",
            job.rows,
            lambda times: featurize(
                store, features, work / "features", client=cluster.client, progress=times
            ),
        )
        found["feature_bytes"] = _bytes(work / "features")
    stage(
        "fit",
        job.labels,
        lambda times: fit(store, labels, model, feature_map=features, client=cluster.client, progress=times),
    )
    stage(
        "screen",
        job.rows,
        lambda times: screen(
            model, store, work / "hits.parquet", client=cluster.client, progress=times, maximize=False
        ),
    )
    found["spread"] = _spread(work / "hits.parquet", job.rows_per_partition)
    opened, start = FingerprintStore.open(as_path(store)), time.perf_counter()
    assert opened.pending() == []
    found["resume_scan_s"] = time.perf_counter() - start
    start = time.perf_counter()
    join_labels(read_labels(labels), opened)
    found["join_s"] = time.perf_counter() - start
    found["partitions"] = opened.n_partitions
    found["fingerprint_bytes"] = _bytes(store)
    found["plan_bytes"] = (store / "_plan.json").stat().st_size
    return found


def timed(cluster: Cluster, unit: int, call: Callable[[Times], Any]) -> dict[str, Any]:
    """Return seconds of a stage in all and by step, its tasks, CPU seconds and peak MiB by process."""
    times, tasks = Times(), tasks_counted(cluster.client)["finished"]
    with cluster.measured() as costs:
        start = time.perf_counter()
        call(times)
        wall = time.perf_counter() - start
    return {
        "wall_s": wall,
        "steps": times.seconds,
        "per_second": unit / wall,
        "tasks": tasks_counted(cluster.client)["finished"] - tasks,
        "cpu_s": {role: cost.cpu_s for role, cost in costs.items()},
        "peak_mib": {role: cost.peak_mib for role, cost in costs.items()},
    }


def compose(
    files: list[Path], path: Path, composer: str, rows_per_partition: int, cluster: Cluster, times: Times
) -> int:
    """Do what `daskrf.fingerprint` does, with `ComposeStage` in place of its own stage; return the rows."""
    library = scan_inputs(files, None, rows_per_partition, None, times, accept_rejects=False)
    store = create_store(path, library, FingerprintSpec("morgan"), "keep")
    stage = ComposeStage(str(store.path.resolve()), store.spec_hash, composer)
    rows = [p.stop - p.start for p in library.partitions]
    with StoreLock(store.path, "scale.py"):
        Partitions(stage, store, rows).make(client=cluster.client, progress=times)
    return int(store.counts()["kept"])


def _write_labels(path: Path, job: Job) -> None:
    """Write labels of random rows: a linear function of the counts, by random weights, and noise."""
    rng = seeds.generator(job.seed, "scale/labels", job.rows)
    rows = np.sort(rng.choice(job.rows, job.labels, replace=False))
    composer, y = _composer(job.composer), np.empty(job.labels)
    for start in range(0, job.rows, _LABEL_ROWS):
        low, high = np.searchsorted(rows, [start, start + _LABEL_ROWS])
        if low < high:
            y[low:high] = _function(composer, rows[low:high], min(start + _LABEL_ROWS, job.rows), start)
    y = (y - y.mean()) / y.std() + NOISE * rng.standard_normal(job.labels)
    lines = (f"M{row:010d},{value:.4f}\n" for row, value in zip(rows.tolist(), y, strict=True))
    path.write_text("id,score\n" + "".join(lines))


def _function(composer: Composer, rows: Any, stop: int, start: int) -> Any:
    x = composer(start, stop)[rows - start]
    words = seeds.splitmix64(x.indices.astype(np.uint64)) >> np.uint64(11)
    weights = words.astype(np.float64) / 2**52 - 1  # uniform, the same for an identifier everywhere
    return np.add.reduceat(weights * np.minimum(x.data, 3), x.indptr[:-1])


def _spread(output: Path, rows: int) -> float:
    """Return the standard deviation of the logarithm of the seconds of equal tasks, by the run log."""
    [log] = log_directory(output).glob("*.jsonl")
    seconds = [r["seconds"] for r in read_log(log) if r["event"] == "task" and r["rows"] == rows]
    return float(np.std(np.log(seconds))) if len(seconds) > 1 else 0.0


def _bytes(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.stat(f"{place}/{name}").st_size
    return total
