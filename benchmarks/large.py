"""Many features, end to end: fingerprint store -> fit in strips -> predictions with standard deviations.

    python benchmarks/large.py [--components 16384] [--workers 2] [--small]

Enamine50k: a store of 40,000 labelled molecules, a model, and the 9,706 test molecules. Prints the seconds of
each stage, the largest memory that each process held against what was predicted, R2 and mean log probability
of the test molecules, the seconds of writing and reading the model, and the rate of the Gram engine on strips
against that on the whole triangle. Workers are processes of one thread; ``--workers 0`` takes none.
``--small`` takes 2,000 enumerated molecules and strips of a quarter of a matrix: it shows that all works.
"""

from __future__ import annotations

import argparse
import gzip
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from common import data_folder, merit, peak_gib, print_header, run_fresh
from distributed import Client
from threadpoolctl import threadpool_limits

from daskrf import FingerprintSpec, TanimotoMinMaxFeatures, fingerprint, fit, local_cluster, predict
from daskrf.commands.fingerprint import need_of_rows
from daskrf.demo.enumeration import ReactionLibrary
from daskrf.demo.objective import score
from daskrf.engine import engine
from daskrf.fitting.costs import need_of_solve, need_of_sums
from daskrf.gp.sums.sums import strip_columns
from daskrf.jobs import memory
from daskrf.models.models import read_model
from daskrf.storage.model import load_model, save_model
from daskrf.storage.stores.fingerprintstore import FingerprintStore
from daskrf.storage.stores.predictions import PredictionStore
from daskrf.workers.progress import Progress

N_TRAIN = 40_000
PARTITION = 5_000  # rows


class Clock(Progress):
    """Prints how long each stage of a driver took."""

    def __init__(self) -> None:
        self.stage, self.since = "", 0.0

    def start(self, stage: str, total: int, unit: str, done: int = 0) -> None:
        """See `Progress`."""
        self.finish()
        self.stage, self.since = stage, time.perf_counter()

    def finish(self, text: str = "") -> None:
        """See `Progress`."""
        if self.stage:
            print(f"  {self.stage:<22}{time.perf_counter() - self.since:8.1f} s", flush=True)
        self.stage = ""


def molecules(small: bool) -> tuple[list[str], np.ndarray, int]:
    """Return SMILES and scores in random order, and how many of them are for training."""
    if small:
        smiles = ReactionLibrary().smiles(0, 2_000)
        y = np.asarray(score(smiles))
        n_train = 1_600
    else:
        with gzip.open(data_folder() / "Enamine50k_scores.csv.gz", "rt") as file:
            rows = [line.rsplit(",", 1) for line in file.read().splitlines()[1:]]
        smiles, y = [text for text, _ in rows], np.array([float(value) for _, value in rows])
        n_train = N_TRAIN
    order = np.random.default_rng(0).permutation(len(y))
    return [smiles[i] for i in order], y[order], n_train


@contextmanager
def workers(n: int) -> Iterator[Client | None]:
    """Give a client of n fresh workers, or None for 0; print their largest memory at the end."""
    if not n:
        yield None
        return
    with local_cluster(n_workers=n, dashboard=False) as client:
        yield client
        peaks = sorted(client.run(peak_gib).values())
        print(f"  largest memory of each worker{'':7}{', '.join(f'{peak:.2f}' for peak in peaks)} GiB")


def run_fit(folder: Path, n_components: int, n_workers: int, limit: int) -> None:
    """Fit the model of the training molecules, in this process and `n_workers` others."""
    start = time.perf_counter()
    with patch("daskrf.fitting.parts._STRIP_BYTES", limit), workers(n_workers) as client:
        report = fit(
            folder / "train",
            folder / "train.csv",
            folder / "model",
            feature_map=TanimotoMinMaxFeatures(n_components),
            client=client,
            progress=Clock(),
        )
    print(f"  fit, all of it        {time.perf_counter() - start:8.1f} s")
    print(f"  {report.log_marginal_likelihood[0]:.1f} log evidence, noise / signal {_ratio(report):.4f}")


def _ratio(report: Any) -> float:
    return report.noise_variance[0] / report.signal_variance[0]


def run_predict(folder: Path, n_workers: int) -> None:
    """Predict the test molecules."""
    start = time.perf_counter()
    with workers(n_workers) as client:
        predict(folder / "model", folder / "test", folder / "predictions", client=client)
    print(f"  predict, with std     {time.perf_counter() - start:8.1f} s")


def run_files(folder: Path) -> None:
    """Read the model and write it again."""
    start = time.perf_counter()
    found = load_model(folder / "model")
    read = time.perf_counter() - start
    start = time.perf_counter()
    save_model(folder / "copy", found.arrays, found.metadata)
    wrote = time.perf_counter() - start
    print(
        f"  model                 {found.bytes / 2**30:8.2f} GiB, "
        f"read in {read:.1f} s, written in {wrote:.1f} s"
    )


def fresh(what: str, needs: list[memory.MemoryNeed], function: Any, *arguments: Any) -> None:
    """Call in a fresh process, and print its largest memory against the largest need predicted of it."""
    print(f"{what}:", flush=True)
    _, cost = run_fresh(function, *arguments)
    need = max(needs, key=lambda need: need.total)
    print(
        f"  largest memory of the process{cost.peak_gib:15.2f} GiB, {need.total / 2**30:.2f} GiB predicted "
        f"({need.stage})",
        flush=True,
    )


def figures_of_merit(folder: Path, y: np.ndarray) -> None:
    """Print R2 and mean log probability of the predictions; IDs are positions in y."""
    store = PredictionStore.open(folder / "predictions")
    table = pa.concat_tables([store.read(p) for p in range(store.n_partitions)])
    truth = y[np.array(table["id"].to_pylist(), dtype=np.int64)]
    found = merit(truth, table["mean"].to_numpy(), table["std_y"].to_numpy())
    print(
        f"test: {len(truth):,} molecules, R2 {found['r2']:.4f}, mean log probability "
        f"{found['mean_log_probability']:.4f}, {100 * found['coverage_95']:.1f} % within 95 %"
    )


def strip_rates(n_components: int, n_rows: int) -> None:
    """Print G multiply-adds a second of the Gram engine on strips and on the whole triangle, in turn."""
    bits = np.random.default_rng(0).integers(0, 256, (n_rows, n_components // 8), dtype=np.uint8)
    whole = np.zeros((n_components, n_components), np.int64)
    columns = strip_columns(n_components, 8 * n_components**2 // 4)
    strips = [np.zeros((stop, stop - first), np.int64) for first, stop in columns]
    engine().bit_gram(bits[:64], n_components, whole)
    engine().bit_gram(bits[:64], n_components, strips[0], 0)
    seconds: dict[str, list[float]] = {"whole": [], "strips": []}
    for _ in range(3):
        start = time.process_time()
        engine().bit_gram(bits, n_components, whole)
        middle = time.process_time()
        for (first, _), out in zip(columns, strips, strict=True):
            engine().bit_gram(bits, n_components, out, first)
        seconds["whole"].append(middle - start)
        seconds["strips"].append(time.process_time() - middle)
    work = n_rows * n_components * (n_components + 1) / 2 / 1e9
    rates = {name: work / float(np.median(values)) for name, values in seconds.items()}
    print(
        f"Gram engine, M = {n_components:,}, one thread: {rates['whole']:.0f} G multiply-adds/s, in "
        f"{len(columns)} strips {rates['strips']:.0f}: ratio {rates['strips'] / rates['whole']:.2f}"
    )


def main(arguments: list[str] | None = None) -> None:
    """Parse the command line, prepare the stores, measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--components", type=int, default=16_384)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="M = 1,024 on 2,000 enumerated molecules")
    options = parser.parse_args(arguments)
    M = 1_024 if options.small else options.components
    limit = 8 * M**2 // 4 if options.small else 512 * 2**20
    print_header("0")
    smiles, y, n_train = molecules(options.small)
    with threadpool_limits(1):
        strip_rates(1_024 if options.small else 8_192, 4_096 if options.small else 16_384)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, rows in (("train", range(n_train)), ("test", range(n_train, len(y)))):
            (folder / f"{part}.smi").write_text("".join(f"{smiles[i]} {i}\n" for i in rows))
            fingerprint(
                folder / f"{part}.smi",
                folder / part,
                spec=FingerprintSpec(radius=1),
                rows_per_partition=PARTITION,
            )
        (folder / "train.csv").write_text("id,y\n" + "".join(f"{i},{y[i]}\n" for i in range(n_train)))
        n = FingerprintStore.open(folder / "train").counts()["kept"]
        print(
            f"M = {M:,} in {len(strip_columns(M, limit))} strips, {n:,} labelled molecules, "
            f"{options.workers} workers",
            flush=True,
        )
        making = memory.Making(M, PARTITION, one_bit=True)
        needs = need_of_sums(making, n), need_of_solve(making), memory.need_of_scores(making, 0, std=True)
        task, solve, std = (need.beside(memory.LIBRARIES) for need in needs)
        for need in (task, solve, std):
            print(f"  predicted: {need}")
        alone = not options.workers
        fresh("fit", [solve, task] if alone else [solve], run_fit, folder, M, options.workers, limit)
        fresh(
            "predict",
            [std] if alone else [need_of_rows(0, 0).beside(memory.LIBRARIES)],
            run_predict,
            folder,
            options.workers,
        )
        figures_of_merit(folder, y)
        read_model(folder / "model", statistics=False)
        run_files(folder)


if __name__ == "__main__":
    main()
