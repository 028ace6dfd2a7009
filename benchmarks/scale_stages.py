"""The stages of the measured part of ``scale.py``: the real drivers on a library of a given size."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from processes import Cluster, Times, start_cluster, tasks_counted

from daskrf import TanimotoMinMaxFeatures, featurize, fingerprint, fit, screen, seeds
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.files.backend import as_path
from daskrf.measurements import read_labels
from daskrf.molecules import Fingerprinter, FingerprintSpec
from daskrf.molecules.counts.fingerprints import LEAST_READ
from daskrf.storage.labels import join_labels
from daskrf.storage.runlog import log_directory, read_log
from daskrf.storage.stores.fingerprintstore import FingerprintStore

__all__ = [
    "Job",
    "fingerprints_of",
    "library_file",
    "measure",
    "measured_cluster",
    "timed",
    "warm",
    "write_labels",
    "write_library",
    "write_smiles",
]

LABELS = "labels.csv"
_LABEL_ROWS = 25_000  # whose fingerprints are made at once for the labels
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


@dataclass(frozen=True)
class Job:
    """What one size is measured with."""

    rows: int
    files: int
    labels: int
    components: int
    rows_per_partition: int
    kinds: tuple[str, ...]  # of fingerprints
    files_folder: str  # folder of the files
    work: str
    seed: int
    workers: int = 2
    featurize: bool = False


def fingerprints_of(kinds: tuple[str, ...]) -> FingerprintSpec:
    """Return the fingerprints of one or of several kinds side by side."""
    return FingerprintSpec(kinds[0] if len(kinds) == 1 else list(kinds))


def warm(spec: FingerprintSpec, components: int, seed: int) -> None:
    """Do what each process does only once, outside of the times: compile, load, and meet ring systems.

    The first molecules of a process are left to RDKit (`daskrf.molecules.counts.fingerprints.LEAST_READ`), so
    that many are counted.
    """
    block = Fingerprinter(spec)(list(ReactionLibrary(seed).smiles(0, LEAST_READ + 2_000)))
    TanimotoMinMaxFeatures(components).transform_bits(block.fingerprints[:64])


def measure(job: Job) -> dict[str, Any]:
    """Run all stages of one size on a fresh cluster; return seconds, tasks, bytes and memory by stage."""
    work, spec = Path(job.work), fingerprints_of(job.kinds)
    with measured_cluster(work, job.workers) as cluster:
        # As tasks, so that the scheduler too has loaded what tasks refer to.
        client = cluster.client
        started = [
            client.submit(warm, spec, job.components, job.seed, workers=[address], pure=False)
            for address in client.nthreads()
        ]
        client.gather(started)
        return _stages(job, work, spec, cluster)


def measured_cluster(work: Path, workers: int) -> AbstractContextManager[Cluster]:
    """Start a cluster whose workers are processes of one thread each."""
    spill = ["--local-directory", str(work), "--nthreads", "1", "--no-nanny", "--no-dashboard"]
    worker = ["-m", "distributed.cli.dask_worker", *spill, "--memory-limit", "4GiB", "--host", "127.0.0.1"]
    return start_cluster(work, [worker] * workers, workers)


def _stages(job: Job, work: Path, spec: FingerprintSpec, cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = {"rows": job.rows, "labels": job.labels, "stages": {}}
    store, model, labels = work / "fingerprints", work / "model", work / LABELS
    features = TanimotoMinMaxFeatures(job.components, random_state=job.seed)

    def stage(name: str, unit: int, call: Callable[[Times], Any]) -> None:
        found["stages"][name] = timed(cluster, unit, call)

    files = [library_file(Path(job.files_folder), i) for i in range(job.files)]
    stage(
        "fingerprint",
        job.rows,
        lambda times: fingerprint(
            files,
            store,
            spec=spec,
            rows_per_partition=job.rows_per_partition,
            client=cluster.client,
            progress=times,
        ),
    )
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


def write_labels(job: Job) -> None:
    """Write labels of random rows: a linear function of the counts, by random weights, and noise."""
    rng, library = seeds.generator(job.seed, "scale/labels", job.rows), ReactionLibrary(job.seed)
    rows = np.sort(rng.choice(job.rows, job.labels, replace=False))
    count, y = Fingerprinter(fingerprints_of(job.kinds)), np.empty(job.labels)
    for start in range(0, job.labels, _LABEL_ROWS):
        some = rows[start : start + _LABEL_ROWS].tolist()
        x = count([text for row in some for text in library.smiles(row, row + 1)]).fingerprints
        y[start : start + _LABEL_ROWS] = _function(x)
    y = (y - y.mean()) / y.std() + NOISE * rng.standard_normal(job.labels)
    lines = (f"M{row:010d},{value:.4f}\n" for row, value in zip(rows.tolist(), y, strict=True))
    (Path(job.work) / LABELS).write_text("id,score\n" + "".join(lines))


def _function(x: Any) -> Any:
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
