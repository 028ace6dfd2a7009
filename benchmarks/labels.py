"""What it takes to join labels by the hundred million: a fit of 10^7 labels, measured process by process.

The library is made up: IDs of 11 characters, texts of 46 characters in the place of SMILES, and eight counts
a row, so that little else is measured than the labels. Nearly all of its rows get a label, in random order; a
twentieth of the labels are repeats, and another twentieth have IDs that are not in the library. `fit` joins
them by ID in parts, sums, solves and saves the model, on two workers. The peaks are those of the resident
memory of each process, by /proc; for the command there is also the part that is not of mapped files, which
the system can take back. Costs of 10^8 labels are carried from those of one.

    python benchmarks/labels.py [--small | --full] [--work FOLDER]

The default takes 10^6 labels in a minute, --full 10^7 in about five minutes with 3 GB of disk, --small some
thousand.
"""

from __future__ import annotations

import os
import tempfile
import threading
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from common import parser, print_header, run_fresh, table, write_results
from processes import Times, folders_first
from scale_stages import measured_cluster, timed
from scipy.sparse import csr_matrix

from daskrf import TanimotoMinMaxFeatures, fit, seeds
from daskrf.jobs.memory import LIBRARIES
from daskrf.models import joinedlabels
from daskrf.models.labelparts import need_of_part
from daskrf.molecules import FingerprintSpec, rdkit_version
from daskrf.storage.stores.fingerprintstore import FingerprintStore

SIZES = {"small": 4_000, "default": 1_000_000, "full": 10_000_000}
AT_ONCE = {"small": 1_000, "default": 100_000}  # so that sizes below the usual limit are joined in parts
PARTITION, COUNTS, FEATURES = 100_000, 8, 64
CARRIED = 100_000_000
OTHERS = 20  # a label of so many is a repeat, and another one has the ID of no molecule
_STEPS = ("labels", "judge labels", "keys", "join", "order labels", "fit", "solve")
_MIB = 2**20


def main(argv: list[str] | None = None) -> None:
    """Measure one size; print and write what was found."""
    found = parser(__doc__, full="10^7 labels")
    found.add_argument("--small", action="store_true", help="for tests: some thousand labels")
    found.add_argument("--work", type=Path, help="folder for what is made on the way (a temporary one)")
    options = found.parse_args(argv)
    mode = "small" if options.small else "full" if options.full else "default"
    print_header(options.seed)
    with tempfile.TemporaryDirectory(dir=options.work, prefix="daskrf-labels-") as folder, folders_first():
        job = Job(SIZES[mode], folder, options.seed, AT_ONCE.get(mode, joinedlabels.MOST_AT_ONCE))
        run_fresh(write, job)
        run, _ = run_fresh(measure, job)
    report(run)
    settings = {"labels": job.n, "at_once": job.at_once}
    write_results(options.output, "labels", seed=options.seed, settings=settings, results=run)


@dataclass(frozen=True)
class Job:
    """What is measured: labels, the folder, and from how many labels on they are joined in parts."""

    n: int
    work: str
    seed: int
    at_once: int


def write(job: Job) -> None:
    """Write the library, and random labels of random rows: of some twice, and of some that are not there."""
    work, spec = Path(job.work), FingerprintSpec("morgan:1")
    cuts = [*range(0, job.n, PARTITION), job.n]
    store = FingerprintStore.new(
        work / "fp",
        library={},
        fingerprint=spec.state(),
        n_columns=spec.n_columns,
        partitions=[{"start": start, "stop": stop} for start, stop in pairwise(cuts)],
        rdkit_version=rdkit_version(),
    )
    for p, (start, stop) in enumerate(pairwise(cuts)):
        rng = seeds.generator(job.seed, "labels/counts", p)
        columns = np.sort(rng.integers(0, spec.n_columns // COUNTS, (stop - start, COUNTS)), axis=1)
        columns += np.arange(COUNTS) * (spec.n_columns // COUNTS)
        data, ends = np.ones(columns.size, np.uint16), COUNTS * np.arange(stop - start + 1)
        X = csr_matrix((data, columns.ravel(), ends), shape=(stop - start, spec.n_columns))
        rows = {
            "row": pa.array(range(start, stop), pa.int64()),
            "id": pa.array([f"M{row:010d}" for row in range(start, stop)]),
            "smiles": pa.array([f"CC(=O)Nc1ccc(cc1)S(=O)(=O)N{row:017d}CC" for row in range(start, stop)]),
            "source": pa.array(["made up"] * (stop - start)).dictionary_encode(),
            "line": pa.array(range(start, stop), pa.int64()),
        }
        store.write_partition(p, X, pa.table(rows))
    rng = seeds.generator(job.seed, "labels/rows", job.n)
    rows, others = rng.permutation(job.n), job.n // OTHERS
    rows[:others] = rows[rng.integers(others, job.n, others)]
    rows[others : 2 * others] += job.n
    rows, y = rows[rng.permutation(job.n)], rng.standard_normal(job.n)
    with (work / "labels.csv").open("w") as file:
        file.write("id,score\n")
        for start in range(0, job.n, PARTITION):
            some = slice(start, start + PARTITION)
            pairs = zip(rows[some].tolist(), y[some].tolist(), strict=True)
            file.write("".join(f"M{row:010d},{value:.4f}\n" for row, value in pairs))


def measure(job: Job) -> dict[str, Any]:
    """Fit on a fresh cluster."""
    work, feature_map = Path(job.work), TanimotoMinMaxFeatures(FEATURES, random_state=job.seed)
    with measured_cluster(work, 2) as cluster, patch.object(joinedlabels, "MOST_AT_ONCE", job.at_once):
        client, anonymous = cluster.client, Anonymous()

        def fitted(times: Times) -> None:
            options: dict[str, Any] = {"client": client, "progress": times, "feature_map": feature_map}
            print(fit(work / "fp", work / "labels.csv", work / "model", **options).labels, flush=True)

        found = timed(cluster, job.n, fitted)
    return {"labels": job.n, **found, "command_anonymous_mib": anonymous.stop()}


class Anonymous:
    """The most memory of this process that is not of files, looked at ten times a second."""

    def __init__(self) -> None:
        self._most, self._ended = 0, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.wait(0.1):
            text = Path(f"/proc/{os.getpid()}/status").read_text()
            lines = dict(line.split(":", 1) for line in text.splitlines())
            self._most = max(self._most, int(lines["RssAnon"].split()[0]) << 10)

    def stop(self) -> float:
        """Return it in MiB."""
        self._ended.set()
        self._thread.join()
        return self._most / _MIB


def report(run: dict[str, Any]) -> None:
    """Print what was measured, and what follows for 10^8 labels."""
    n = run["labels"]
    print(f"\nfit of {n:,} labels, 2 workers: {run['wall_s']:,.0f} s")
    rows = [
        {"step": step, "s": seconds, "us": 1e6 * seconds / n, "min": CARRIED / n * seconds / 60}
        for step in _STEPS
        if (seconds := run["steps"].get(step)) is not None
    ]
    print(table(rows, {"step": "", "s": ",.1f", "us": ",.2f", "min": ",.1f"}))
    print("us: microseconds a label; min: minutes for 10^8 labels on two workers")
    cpu = sum(run["cpu_s"].values())
    print(f"CPU seconds: {cpu:,.0f}; core-hours for 10^8 labels: {cpu * CARRIED / n / 3600:.2f}")
    for role, peak in run["peak_mib"].items():
        print(f"peak of {role}: {peak:,.0f} MiB")
    print(f"of the command, not of files: {run['command_anonymous_mib']:,.0f} MiB")
    for labels in (n, CARRIED):
        need = need_of_part(labels, 1, PARTITION).beside(LIBRARIES)
        print(f"predicted for a worker, {labels:,} labels: {need.total / _MIB:,.0f} MiB")


if __name__ == "__main__":
    main()
